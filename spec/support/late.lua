--- Random training loops with labels and positions out of range at some steps, on any device. On
--- a GPU the error of such a step is raised later (src/engine/flight.h); its writes and values must
--- be those of a CPU, which raises it at once.
--
-- Programs vary in the optimiser, the number and the sizes of layers, what is checked (labels, or
-- also rows that are gathered), whether a value depends on one check alone, which steps are bad,
-- whether a buffer is written that depends on no check, whether weights are measured before a step
-- or written again after it, the dtypes of values (f32, f64) and of positions, and what is read,
-- kept, written or viewed between steps. They do not have: half types, several devices, user
-- kernels, nets in groups of processes.
local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local T = dofile("spec/support/program_draw.lua")
local M = {}
local ROWS <const>, COLUMNS <const>, CLASSES <const>, STEPS <const> = 6, 5, 4, 9

function M.make(seed)
  local r, bad = T.generator(seed), {}
  for i = 1, STEPS do bad[i] = i > 3 and r.chance(0.3) and r.pick { "labels", "rows" } end
  local between = {}
  for i = 1, STEPS do
    between[i] = r.chance(0.5) and r.pick { "loss", "weight", "grad", "scale", "view", "keep",
      "eval", "clone", "new", "collect" }
  end
  local norm = r.chance(0.2)              -- Adam would divide noise by noise
  return { seed = seed, bad = bad, between = between, layers = r.int(1, 3), width = r.int(3, 40),
    rule = r.pick(norm and { "SGD", "Momentum" }
      or { "SGD", "Momentum", "Adam", "AdamW", "RMSprop" }),
    gathers = r.chance(0.6), sums = r.chance(0.4), norm = norm, clips = r.chance(0.3),
    weighs = r.chance(0.2), clamps = r.chance(0.2), dtype = r.pick { "f32", "f32", "f64" },
    index = r.pick { "i64", "i64", "i32" } }
end

local rules = {
  SGD = function(p) return optim.SGD(p, { lr = 0.1 }) end,
  Momentum = function(p) return optim.SGD(p, { lr = 0.1, momentum = 0.9 }) end,
  Adam = function(p) return optim.Adam(p, { lr = 0.02 }) end,
  AdamW = function(p) return optim.AdamW(p, { lr = 0.02 }) end,
  RMSprop = function(p) return optim.RMSprop(p, { lr = 0.02 }) end,
}

local function net_of(program)
  local layers, width = {}, COLUMNS
  for i = 1, program.layers do
    local next = i == program.layers and CLASSES or program.width + i
    layers[#layers + 1] = nn.Linear(width, next, { bias = not program.norm })
    width = next
    if program.norm and i == 1 and program.layers > 1 then
      layers[#layers + 1] = nn.BatchNorm1d(width)
    end
    if i < program.layers then layers[#layers + 1] = nn.Tanh() end
  end
  return nn.Sequential(table.unpack(layers))
end

--- The positions of step i; those of 'what' are out of range if the step is bad.
local function positions(program, i, what, n)
  local list = {}
  for k = 1, ROWS do list[k] = (k * i) % n + 1 end
  if program.bad[i] == what then list[i % ROWS + 1] = n + 1 + i end
  return flame.tensor(list, { dtype = program.index })
end

--- Runs a program. Returns lists of numbers, or "failed" for what raised twice: values read between
--- steps, values kept and read at the end, the weights; last the optimiser's count of steps.
function M.run(program)
  flame.seed(program.seed)
  local net = net_of(program):to(program.dtype)
  local params = net:parameters()
  local opt = rules[program.rule](params)
  local x = flame.randn(ROWS, COLUMNS):to(program.dtype)
  local out, kept = {}, {}
  --- A read may raise the error of an earlier step; then it is repeated.
  local function read(t)
    local function list() return t:totable() end
    local ok, v = pcall(list)
    if not ok then ok, v = pcall(list) end
    out[#out + 1] = ok and v or "failed"
  end
  local between = {
    loss = function(loss) read(loss) end,
    weight = function() read(params[1]) end,
    grad = function() read(params[1].grad) end,
    scale = function() pcall(params[1].grad.mul_, params[1].grad, 0.5) end,
    view = function(loss) return loss:reshape(1) end,
    keep = function(loss) return loss * 2 end,
    clone = function() return params[1]:detach():clone() end,
    eval = function() pcall(flame.eval) end,
    new = function() flame.no_grad(params[1].mul_, params[1], 0.99) end,
    collect = function() collectgarbage() end,
  }
  for i = 1, STEPS do
    local rows = positions(program, i, "rows", ROWS)
    local labels = positions(program, i, "labels", CLASSES)
    opt:zero_grad()
    local input = program.gathers and x:index_select(1, rows) or x
    if program.sums then kept[#kept + 1] = input:sum() end          -- does not depend on labels
    local loss = flame.cross_entropy(net(input), labels)
    loss:backward()
    local own = program.bad[i] and (program.bad[i] == "labels" or program.gathers)
    local function step()
      if program.clips then nn.utils.clip_grad_norm_(params, 1) end
      if program.weighs then kept[#kept + 1] = params[1]:detach():square():sum():sqrt() end
      opt:step()
    end
    if not pcall(step) and not own then                   -- an earlier step was told
      if program.weighs then kept[#kept] = nil end
      step()
    end
    if program.clamps then
      for _, p in ipairs(params) do flame.no_grad(p.clamp_, p, -0.2, 0.2) end
    end
    if program.between[i] then
      local ok, y = pcall(between[program.between[i]], loss)
      kept[#kept + 1] = ok and y or not ok and "failed" or nil
    end
  end
  pcall(opt.state_dict, opt)                             -- begins with reading the checks
  for _, t in ipairs(kept) do read(t) end
  for _, t in ipairs(params) do read(t) end
  out[#out + 1] = opt.steps
  return out
end

--- What differs between two results: a text, or nil. is_near(u, v): are two numbers equal enough?
-- Without it they are within 1e-3, and NaN is a difference.
function M.difference(a, b, is_near)
  is_near = is_near or function(u, v) return math.abs(u - v) <= 1e-3 * (1 + math.abs(u)) end
  local function look(u, v, path)
    if type(u) ~= type(v) then return ("%s: %s, expected %s"):format(path, v, u) end
    if type(u) == "table" then
      for k = 1, math.max(#u, #v) do
        local d = look(u[k], v[k], path .. "[" .. k .. "]")
        if d then return d end
      end
    elseif type(u) == "number" then
      if not is_near(u, v) then
        return ("%s: %.6g, expected %.6g"):format(path, v, u)
      end
    elseif u ~= v then
      return ("%s: %s, expected %s"):format(path, v, u)
    end
  end
  return look(a, b, "")
end

function M.show(program)
  local t = {}
  for i = 1, STEPS do
    t[i] = ("%s/%s"):format(program.bad[i] or "-", program.between[i] or "-")
  end
  return ("%s, %s, %s, %d layers%s%s%s: %s"):format(program.rule, program.dtype, program.index,
    program.layers,
    (program.gathers and ", gathers" or "") .. (program.sums and ", sums" or ""),
    program.norm and ", norm" or "",
    (program.clips and ", clips" or "") .. (program.weighs and ", weighs" or "")
    .. (program.clamps and ", clamps" or ""), table.concat(t, " "))
end

return M
