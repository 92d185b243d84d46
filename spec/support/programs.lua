--- Random programs: sequences of operations on tensors, drawn from a seed, for specs.
--
-- A program is data, a list of steps { f =, o =, a =, … } over numbered variables; f is the name of
-- the step, o the variable that gets the result, a, b, c, i and list the variables that it reads.
-- While a program is drawn, the oracle (oracle.lua) computes its values: every step is legal, and
-- its result well conditioned. program_run.lua runs programs and compares their values with the
-- oracle's. program_draw.lua has what steps are drawn with; program_values.lua, program_places.lua
-- and program_siblings.lua draw steps; program_steps.lua runs them, program_kinds.lua counts them.
--
-- There are three sorts of programs. make(seed): many ops, errors, branches, random numbers.
-- make(seed, dtype): one float dtype, and backward at the end. mix(seed, smooth, long): casts,
-- reductions and ops on rows in mixed dtypes; smooth programs end in backward, long ones have rows
-- or columns of up to 5000 elements.
--
-- Programs vary in the dtypes of leaves, casts from each to each, and mixed operands; in rank (0 to
-- 4) and sizes, with 0 and 1; in leaves, which are stored, casts not yet evaluated, or transposed;
-- in ops: views of views, elementwise ops, reductions over any axes, softmax, layer_norm, var,
-- cross_entropy, products of matrices, gathers, scatters, joins, equal work on several slices, and
-- writes; in which values are kept, dropped, or evaluated together; in how many pending ops force
-- an evaluation (the budget); in when the collector runs; and in special values (NaN, infinities,
-- -0, the ends of integers).
-- They do not have: scans, sorts, convolutions, transforms, factorisations, user kernels; more than
-- 130 elements in a row, unless they are long; gradients in long programs; second derivatives;
-- stored leaves with a step in the axis that is reduced, unless by a view. Numbers of threads and
-- instruction sets come from the environment (FLAME_THREADS, FLAME_ISA). Gradients of mixed
-- programs are compared between budgets only: sums in bf16 may cancel, so differences of the loss
-- give no bound.
local T, M = dofile("spec/support/program_draw.lua"), {}
assert(loadfile("spec/support/program_values.lua"))(T, M)
assert(loadfile("spec/support/program_places.lua"))(T, M)
local O, pick, x_of, float, all = T.O, T.pick, T.x_of, T.float, T.all
local is_float, add_leaf, LONG = O.is_float, T.add_leaf, T.LONG
local run = dofile("spec/support/program_steps.lua")(O)
run.leaf = O.leaf
local P = { oracle = O, generator = T.generator, data = T.data, LONG = LONG }

--- Runs one step on the oracle. Steps that only the library knows (an error, say) do nothing.
function P.step(vars, s)
  -- the written value is copied before: other variables may share it, and must not see the write
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
--- Views that name sizes or positions, which long programs cannot have.
local SIZED = { reshape = true, slice = true, expand = true, select = true, narrow = true }

--- Is the oracle's bound on the error of y small enough for a useful comparison? In mixed programs
--- it may be as large as a few roundings to bf16.
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
--- Appends a step to the program and runs it on the oracle. Returns the number of its result; if
--- that is not sound, leaves the step out and returns nil.
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

--- The state while a program is drawn: the generator r, the oracle's value of each variable, and
--- which variables are views, leaves, or leaves with a gradient. g.emit(step) appends a step.
local function maker(program)
  local r = T.generator(program.seed)
  local g = { r = r, vars = {}, reads = {}, view = {}, tracked_leaf = {}, leaf = {}, next = 1,
    float = program.float, smooth = program.smooth, wild = not program.smooth and r.chance(0.1),
    program = program }
  function g.emit(s) return append(g, s) end
  O.seed(program.seed)
  return g
end

--- Draws a program. what: nil, or the float dtype of a program that ends in backward.
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
--- Draws a program of mixed dtypes. smooth: it ends in backward; long: its rows or columns are so
-- long that kernels work on them in parts. The oracle runs long programs with the short length
-- LONG, so their values are not compared with the oracle's.
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

--- Appends 9 to 20 elementwise ops without a read: with a budget of 7 some are evaluated before.
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

--- Appends one or two losses, sums of some live float values, and a call of backward on each.
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
