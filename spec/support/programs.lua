--- Random programs.
--
-- A program is data, a list of steps { f =, o =, a =, … } over numbered variables; f is the name of
-- the step, o the variable that gets the result, a, b, c, i and list the variables that it reads.
-- make(seed) draws one, running the oracle along the way, so that every step is legal and its
-- result well conditioned. program_run.lua runs and compares them. program_draw.lua has what all
-- steps are drawn with, program_values.lua, program_places.lua and program_siblings.lua draw single
-- steps, program_steps.lua runs them, program_kinds.lua counts them.
--
-- Three sorts. make(seed): many ops, errors, branches and draws of random numbers. make(seed,
-- dtype): one float dtype, ends in backward. mix(seed, smooth, long): casts, reductions and row
-- programs of mixed dtypes; smooth ones end in backward, long ones have rows or columns of up to
-- 5000.
--
-- Varied: dtypes of leaves, casts from each to each, mixed operands; rank 0 to 4 and sizes, 0 and 1
-- among them; leaves that are stored, pending casts, or read through a transposed layout; views of
-- views; elementwise ops, reductions over any axes, softmax, layer_norm, var, cross_entropy,
-- products of matrices, gathers, scatters, joins, slices that are worked on alike and joined;
-- writes; which values are alive, given up, or asked for together when the window is evaluated;
-- where the window is cut; when the collector runs; special values (NaN, infinities, -0, the ends
-- of integers). Not varied: scans, sorts,
-- convolutions, transforms, factorisations and user kernels, which are separate steps; more
-- than 130 elements in a row, unless long; the gradients of long programs; second derivatives;
-- layouts with a step in the reduced axis of a stored leaf, other than those of views; numbers of
-- threads and instruction sets, which the environment sets (FLAME_THREADS, FLAME_ISA). Gradients of
-- mixed programs are compared between budgets alone: what is summed in bf16 may cancel, so
-- differences of the loss give no bound.
local T, M = dofile("spec/support/program_draw.lua"), {}
assert(loadfile("spec/support/program_values.lua"))(T, M)
assert(loadfile("spec/support/program_places.lua"))(T, M)
local O, pick, x_of, float, all = T.O, T.pick, T.x_of, T.float, T.all
local is_float, add_leaf, LONG = O.is_float, T.add_leaf, T.LONG
local run = dofile("spec/support/program_steps.lua")(O)
run.leaf = O.leaf
local P = { oracle = O, generator = T.generator, data = T.data, LONG = LONG }

--- Runs one step on the oracle; steps that exist for the library alone change nothing.
function P.step(vars, s)
  -- a write is not seen through other handles, and an oracle's function may return its operand
  if s.f == "set" or s.f == "inplace" then vars[s.a] = vars[s.a]:clone() end
  local y = run[s.f] and run[s.f](s, s.a and vars[s.a], vars)
  if y ~= nil then vars[s.o] = y end
end

local WEIGHTS = { leaf = 3, un = 9, bin = 14, where = 2, clamp = 1, red = 6, maxd = 1, view = 12,
  join = 2, pad = 1, index_select = 1, gather = 1, embedding = 1, scatter = 1, index_add = 1,
  mm = 2, softmax = 1, layer_norm = 1, cross_entropy = 1, silu = 1, cast = 3,
  rand = 1, dead = 1, branch = 1, set = 4, inplace = 6, refuse = 4, error = 1, late = 1, missed = 2,
  read = 3, gc = 2, del = 3, siblings = 2,
  crossed = 2 }
local MIXED = { leaf = 2, un = 5, bin = 11, where = 2, clamp = 1, red = 14, maxd = 1, view = 6,
  join = 1, pad = 1, index_select = 1, gather = 1, embedding = 1, scatter = 1, index_add = 1,
  mm = 1, softmax = 3, layer_norm = 4, cross_entropy = 1, silu = 1, cast = 18,
  set = 2, inplace = 4, read = 1, eval = 6, gc = 1, del = 3, widened = 5, siblings = 6,
  crossed = 3 }
local LONGER = { leaf = 2, un = 5, bin = 12, where = 2, clamp = 1, red = 14, maxd = 1, view = 3,
  softmax = 3, layer_norm = 5, silu = 1, cast = 18, inplace = 3, read = 1, eval = 6, gc = 1,
  del = 3, widened = 5 }
local function drawn_by(weights)
  local names = {}
  for name, w in pairs(weights) do for _ = 1, w do names[#names + 1] = name end end
  table.sort(names)
  return names
end
local NAMES, MIXED_NAMES, LONG_NAMES = drawn_by(WEIGHTS), drawn_by(MIXED), drawn_by(LONGER)
--- Views whose steps contain sizes.
local SIZED = { reshape = true, slice = true, expand = true, select = true, narrow = true }

--- Is the oracle's error bound small enough for a useful comparison? In mixed programs it may be a
--- few roundings to bf16.
local function sound(g, y)
  local part, least = g.base and 0.06 or 1e-2, g.base and 0.02 or 1e-3
  for _, p in ipairs(O.flat(y)) do
    if is_float(y.dtype) then
      if not (p[2] <= part * math.abs(p[1]) + least) and p[1] == p[1]
          and math.abs(p[1]) ~= math.huge then
        return false
      end
    elseif p[2] ~= 0 then return false end
  end
  return true
end

local function too_long(y)
  local n = 0
  for _, size in ipairs(y.shape) do n = n + (size == LONG and 1 or 0) end
  return n > 1
end
--- Numbers and appends a step and runs it on the oracle; removes it again when its result is not
--- sound.
local function append(g, s)
  local n = #g.program.steps
  s.o = s.o or g.next
  if s.f == "maxd" then s.o2 = g.next + 1 end
  local keep = {}
  for k, x in pairs(g.vars) do keep[k] = x end
  local counter, result = O.state.counter, (s.f == "set" or s.f == "inplace") and s.a or s.o
  P.step(g.vars, s)
  if s.f == "read" then g.reads[#g.reads + 1] = g.vars[s.a] end
  local y = g.vars[result]
  if y and y ~= keep[s.o]
      and (g.long and too_long(y) or not sound(g, y) or s.o2 and not sound(g, g.vars[s.o2])) then
    for k in pairs(g.vars) do g.vars[k] = nil end
    for k, x in pairs(keep) do g.vars[k] = x end
    O.state.counter = counter
    return nil
  end
  if y then
    g.view[result] = result == s.o and s.isview
    g.tracked_leaf[result] = s.f == "leaf" and s.grad or nil
    g.leaf[result] = s.f == "leaf" or nil
    if #y.shape == 0 then g.program.scalar = true end
    if O.numel(y.shape) == 0 then g.program.empty = true end
  end
  g.next = g.next + 2
  g.program.steps[n + 1] = s
  return s.o
end

--- The state in which a program is drawn: its random numbers, the oracle's variables by number, and
--- which of them are views, tracked or leaves.
local function maker(program)
  local r = T.generator(program.seed)
  local g = { r = r, vars = {}, reads = {}, view = {}, tracked_leaf = {}, leaf = {}, next = 1,
    float = program.float, smooth = program.smooth, wild = not program.smooth and r.chance(0.1),
    program = program }
  function g.emit(s) return append(g, s) end
  O.seed(program.seed)
  return g
end

--- The program of a seed. what: nil, or the float dtype of a program that ends in backward.
function P.make(seed, what)
  local g = maker { seed = seed, float = what, smooth = what ~= nil, steps = {} }
  local r = g.r
  local length = r.int(8, 26)
  for _ = 1, r.int(2, 3) do append(g, M.leaf(g)) end
  if what then
    append(g, (function() local s = add_leaf(g, { 3, 2 }, what); s.grad = true; return s end)())
    g.anchor = g.next - 2
  end
  if r.chance(0.25) then P.chain(g) end
  for _ = 1, length do
    local name = r.pick(NAMES)
    if what and (name == "cast" or name == "branch" or name == "rand" or name == "where") then
      name = "bin"
    end
    local s = M[name](g)
    if s then append(g, s) end
  end
  if what then P.finish(g) end
  return g.program
end

local function numbered(vars)
  local order = {}
  for k in pairs(vars) do order[#order + 1] = k end
  table.sort(order)
  return order
end
--- A mixed program; smooth: one that ends in backward; long: one whose rows or columns are so long
-- that they are made in pieces. Long programs are not compared with the oracle: it runs them with
-- LONG as the length.
function P.mix(seed, smooth, long)
  local g = maker { seed = seed, mixed = true, smooth = smooth or false, long = long, steps = {} }
  local r = g.r
  g.long = long and r.pick(T.LENGTHS)
  g.base = r.pick(long and T.LONG_BASES or T.BASES)
  if r.chance(0.04) and not long then
    g.base = { table.unpack(g.base) }
    g.base[r.int(1, #g.base)] = 0
  end
  if smooth then
    local s = M.leaf(g)
    s.grad, s.how, s.isview = true, "stored", nil
    append(g, s)
    g.anchor = 1
  end
  for _ = 1, r.int(2, 3) do append(g, M.leaf(g)) end
  for _ = 1, r.int(4, 14) do
    local name = r.pick(long and LONG_NAMES or MIXED_NAMES)
    if smooth and name == "where" then name = "bin" end
    local s = M[name](g)
    if s and not (long and s.f == "view" and (SIZED[s.op] or r.chance(0.5))) then append(g, s) end
  end
  if smooth then P.finish(g) else
    local last = M.eval(g)
    if last then append(g, last) end
  end
  g.program.expected = g.reads
  for _, k in ipairs(numbered(g.vars)) do g.reads[#g.reads + 1] = g.vars[k] end
  return g.program
end

--- Eight to twenty elementwise ops in a row without a read in between: a budget of 7 cuts them.
function P.chain(g)
  local a = pick(g, function(x) return float(x) end)
  for _ = 1, a and g.r.int(9, 20) or 0 do
    local b = append(g,
      { f = "bin", op = g.r.pick { "add", "mul", "sub" }, a = a, n = g.r.int(-6, 6) / 8 }) or
      append(g, { f = "un", op = "neg", a = a })
    if g.r.chance(0.7) and a ~= 1 then append(g, { f = "del", a = a }) end
    a = b
  end
end

--- A loss of all float values that are alive, and one or two calls of backward on it.
function P.finish(g)
  local losses = {}
  for _ = 1, g.r.chance(0.3) and 2 or 1 do
    local sum
    local order = {}
    for k, x in pairs(g.vars) do
      if float(x) and (not g.float or x.dtype == g.float) then order[#order + 1] = k end
    end
    table.sort(order)
    for _, k in ipairs(order) do
      if (k == g.anchor or g.r.chance(g.base and 0.9 or 0.6))
          and all(x_of(g, k), function(v) return math.abs(v) < 1e3 end) then
        local one = append(g, { f = "red", op = "sum", a = k, keep = false })
        sum = sum and one and append(g, { f = "bin", op = "add", a = sum, b = one }) or sum or one
      end
    end
    losses[#losses + 1] = sum
  end
  for i, k in ipairs(losses) do append(g, { f = "backward", a = k, retain = i < #losses }) end
  g.program.losses = losses
end

assert(loadfile("spec/support/program_kinds.lua"))(P)
return P
