--- FLAME_CHECK=grad: at the first backward of a kernel, or of a flame.func of the script, its
-- gradient is compared with finite differences and, if there is one, with the tangent: <J u, v> =
-- <u, J' v> for directions u of one argument and v of the results. Elements where the function has
-- a kink or a jump between the points are left out of v. Directions come from a hash, so that the
-- script's random numbers do not change.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail = arguments.fail
local is_tensor = flame.is_tensor

local ROUNDS = 3                        -- two of them must fail for an error
-- the relative error of one rounding to the dtype
local PRECISION = { f64 = 2.3e-16, f32 = 1.2e-7, f16 = 1e-3, bf16 = 8e-3 }
-- step of differences, relative to the argument's size; half types are too coarse for them
local STEP = { f64 = 2.0 ^ -17, f32 = 2.0 ^ -9 }
-- the allowed relative difference between tangent and gradient
local CLOSE = { f64 = 1e-7, f32 = 1e-3, f16 = 4e-2, bf16 = 0.2 }

-- A direction in x's shape: f64 numbers in [-1.5, -0.5] and [0.5, 1.5] that depend on the seed.
local function direction(x, seed)
  local at = flame.arange(1, math.max(x:numel(), 1), { dtype = "f64", device = x.device })
    :narrow(1, 1, x:numel())
  local a = (at * 12.9898 + seed * 7.31):sin() * 43758.5453
  local b = (at * 78.233 + seed * 3.17):cos() * 24634.6345
  a, b = a - a:floor(), b - b:floor()
  return (flame.where(a:ge(0.5), 1.0, -1.0) * (b + 0.5)):reshape(x.shape)
end

local function dot(a, b)
  if a:numel() == 0 then return 0, 0 end
  local both = a:double() * b:double()
  return both:sum():item(), both:square():sum():item()
end

local function size_of(x)
  local s = x:numel() > 0 and x:double():square():mean():sqrt():item() or 0
  return s > 0 and s < math.huge and s or 1
end

local function worst(list, of)
  local most = of[list[1].dtype] or 1
  for _, x in ipairs(list) do most = math.max(most, of[x.dtype] or 1) end
  return most
end

-- Central differences of the results, from base, above and below, at the distance eps; v is set to
-- 0 where they are not reliable. Returns seeds (v), <v, difference>, its sum of squares, its noise.
local function differences(base, above, below, eps, v)
  local seeds, total, square, noise2 = {}, 0, 0, 0
  for j, y in ipairs(base) do
    local y0, y1, y2 = y:double(), above[j]:double(), below[j]:double()
    local up, down = (y1 - y0) / eps, (y0 - y2) / eps
    local noise = (y0:abs() + y1:abs() + y2:abs()) * (PRECISION[y.dtype] / eps)
    local good = (up - down):abs():le((up:abs() + down:abs()) * 0.1 + noise * 4)
    local change = flame.where(good, (up + down) / 2, 0.0)
    seeds[j] = flame.where(good, v[j], 0.0):to(y.dtype)
    local sum, sq = dot(seeds[j], change)
    total, square = total + sum, square + sq
    noise2 = noise2 + select(2, dot(seeds[j], flame.where(good, noise, 0.0)))
  end
  return seeds, total, square, noise2
end

-- Checks the gradient of argument i in one direction: nil, or a text on how the numbers differ.
local function one_round(f, i, seed)
  local x = f.active[i].x:detach()
  local eps = not f.coarse and STEP[x.dtype] and worst(f.results, PRECISION) <= PRECISION.f32
    and STEP[x.dtype] * size_of(x)
  if eps and x.dtype == "f64" and worst(f.results, PRECISION) > PRECISION.f64 then
    eps = STEP.f32 * size_of(x)
  end
  local u, v = direction(x, seed), {}
  for j, y in ipairs(f.results) do v[j] = direction(y, seed + 0.5 * j) end
  local seeds, along, square, noise2 = {}, nil, 0, 0
  if eps then
    local above, below = (x + u * eps):to(x.dtype), (x - u * eps):to(x.dtype)
    u = (above:double() - below:double()) / (2 * eps)
    seeds, along, square, noise2 = differences(f.results, f.forward(i, above),
      f.forward(i, below), eps, v)
  else
    for j, y in ipairs(f.results) do seeds[j] = v[j]:to(y.dtype) end
  end
  local g = f.backward(seeds)[i]
  local back, back2 = 0, 0
  if g then back, back2 = dot(g, u) end
  local t = f.tangent and f.tangent(i, u:to(x.dtype))
  if t then
    local forward, forward2 = 0, 0
    for j, y in pairs(t) do
      local s, sq = dot(seeds[j], y)
      forward, forward2 = forward + s, forward2 + sq
    end
    local close = worst({ x, table.unpack(f.results) },
      CLOSE) * (math.sqrt(forward2) + math.sqrt(back2))
    if forward == forward and forward2 < math.huge
        and not (math.abs(forward - back) <= close + 1e-30) then
      return ("<J u, v> = %.6g by the tangent, <u, J'v> = %.6g by %s"):format(forward, back, f.what)
    end
  end
  if not eps or along ~= along or square == math.huge then return nil end
  local room = 0.05 * (math.sqrt(square) + math.sqrt(back2)) + 8 * math.sqrt(noise2) + 1e-30
  if not (math.abs(along - back) <= room) then
    return ("<J u, v> = %.6g by differences, <u, J'v> = %.6g by %s"):format(along, back, f.what)
  end
end

-- Tests the gradients of f: {name, what, results = tensors, active = {{x, name}}, forward(i, x) ->
-- results, backward(seeds) -> gradients by position in active, tangent(i, u) -> tangents by result,
-- or nil, coarse = it computes in half types}. Raises if a gradient is wrong in two rounds.
local function prove(f)
  for i, q in ipairs(f.active) do
    local wrong, said = 0, nil
    for round = 1, ROUNDS do
      local e = one_round(f, i, 11 * i + round)
      if e then wrong, said = wrong + 1, said or e end
    end
    if wrong >= 2 then
      fail(f.name, "FLAME_CHECK=grad: the gradient by %s is off: %s", q.name, said)
    end
  end
end

-- Runs prove(f()) unless 'key' is in 'keys', the set of what was tested for a kernel or function;
-- called before a backward. The test runs the kernel or function again, which may draw random
-- numbers, so the generator is restored.
local function once(keys, key, f)
  if keys[key] then return end
  keys[key] = true                       -- set first, since f computes gradients too
  local state = flame.rng_state()
  local ok, e = pcall(flame.no_grad, function() prove(f()) end)
  flame.rng_state(state)
  if not ok then error(e, 0) end
end

-- ---- kernels ------------------------------------------------------------------------------------
--- Does the kernel's text use half types? They are too coarse for finite differences.
local function rounds_to_halves(text)
  for _, word in ipairs { "__half", "2half", "bfloat", "%f[%w_]half2" } do
    if text:find(word) then return true end
  end
end

-- The argument of 'prove' for a kernel's call, from its gradient rule; backward: see 'prove'.
local function of_kernel(rule, what, backward)
  local name, text, names, active, results = internal.kernel_facts(rule)
  local f = { name = name, what = what, results = results, active = {}, backward = backward,
    coarse = rounds_to_halves(text) }
  for m, y in ipairs(results) do results[m] = y:detach() end
  for n, x in ipairs(active) do f.active[n] = { x = x, name = names[n] } end
  function f.forward(n, x) return internal.kernel_again(rule, n, x) end
  function f.tangent(n, u)
    local ok, t = pcall(internal.kernel_tangent, rule, n, u)
    -- no tangent can be derived if the script gives the vjp
    return ok and t or nil
  end
  return f
end

--- Tests a derived gradient, once per set of tracked arguments; from src/lua/kernel_rule.c.
function internal.kernel_prove(rule)
  once({}, 1, function()
    return of_kernel(rule, "its adjoint",
      function(seeds) return internal.kernel_adjoint(rule, seeds) end)
  end)
end

-- Tests a vjp that the script gives; floats: which of its results are floating-point.
local function of_given(config, active, rule, floats, given)
  config.proven = config.proven or {}
  once(config.proven, table.concat(active, ","), function()
    return of_kernel(rule, "the vjp given", function(seeds)
      local grads = {}
      for m, j in ipairs(floats) do
        local one = table.pack(given(seeds[m], j))
        for n in ipairs(active) do
          grads[n] = grads[n] and one[n] and grads[n] + one[n] or grads[n] or one[n]
        end
      end
      return grads
    end)
  end)
end

-- ---- functions ----------------------------------------------------------------------------------
--- Snapshots of the arguments; positions of the tensors among them; number of their elements.
local function snapshots(args)
  local now, inputs, elements = { n = args.n }, {}, 0
  for j = 1, args.n do
    now[j] = is_tensor(args[j]) and internal.snapshot(args[j]) or args[j]
    if is_tensor(args[j]) then inputs[#inputs + 1], elements = j, elements + args[j]:numel() end
  end
  return now, inputs, elements
end

-- Gives a function that makes prove's argument for a call of flame.func; nil: > 65,536 elements.
local function of_func(name, spec, ctx, args, values)
  local now, inputs, elements = snapshots(args)
  if elements > 65536 then return nil end
  local f = { name = name, what = "its backward", results = {}, active = {} }
  -- positions: of the float results among values; of the active arguments among inputs
  local place, which = {}, {}
  for j = 1, values.n do
    if is_tensor(values[j]) and values[j]:is_floating_point() then
      place[#place + 1] = j
      f.results[#place] = internal.snapshot(values[j])
    end
  end
  for k, j in ipairs(inputs) do
    if now[j].requires_grad and now[j]:is_floating_point() then
      f.active[#f.active + 1], which[#which + 1] = { x = now[j], name = "input " .. k }, k
    end
  end
  function f.forward(i, x)
    local own, list = { n = now.n }, {}
    for j = 1, now.n do own[j] = is_tensor(now[j]) and now[j]:detach() or now[j] end
    if i then own[inputs[which[i]]] = x end
    local out = table.pack(
      spec.forward(setmetatable({}, getmetatable(ctx)), table.unpack(own, 1, own.n)))
    for m, j in ipairs(place) do list[m] = out[j] end
    return list
  end
  function f.backward(seeds)
    local all, grads = {}, {}
    for j = 1, values.n do all[j] = is_tensor(values[j]) and flame.zeros_like(values[j]) or nil end
    for m, j in ipairs(place) do all[j] = seeds[m] end
    local out = table.pack(spec.backward(ctx, table.unpack(all, 1, values.n)))
    for i, k in ipairs(which) do grads[i] = out[k] end
    return grads
  end
  return function()
    -- a function that draws random numbers can not be compared
    for m, y in ipairs(f.forward()) do
      if not flame.equal(f.results[m]:detach(), y:detach()) then return { active = {} } end
    end
    return f
  end
end

return { once = once, of_given = of_given, of_func = of_func }
