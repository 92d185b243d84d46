--- Random programs.
--
-- A program is data, a list of steps { f =, o =, a =, … } over numbered variables; f is the name of
-- the step, o the variable that gets the result, a, b, c, i and list the variables that it reads.
-- make(seed) draws one, running the oracle along the way, so that every step is legal and its
-- result well conditioned. program_run.lua runs and compares them.
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
local O = dofile("spec/support/oracle.lua")
local is_float = O.is_float
local run = dofile("spec/support/program_steps.lua")(O)
run.leaf = O.leaf
local P = { oracle = O }

--- Runs one step on the oracle; steps that exist for the library alone change nothing.
function P.step(vars, s)
  -- a write is not seen through other handles, and an oracle's function may return its operand
  if s.f == "set" or s.f == "inplace" then vars[s.a] = vars[s.a]:clone() end
  local y = run[s.f] and run[s.f](s, s.a and vars[s.a], vars)
  if y ~= nil then vars[s.o] = y end
end

-- ---- chance ----------------------------------------------------------------------------------
--- splitmix64: independent of the host's math.random.
local function generator(seed)
  -- far from the state of the next seed
  local s = (seed * 0xD1342543DE82EF95 ~ seed >> 7) * 0xAF251AF3B0F025B5
  local function bits()
    s = s + 0x9E3779B97F4A7C15
    local z = s
    z = (z ~ z >> 30) * 0xBF58476D1CE4E5B9
    z = (z ~ z >> 27) * 0x94D049BB133111EB
    return z ~ z >> 31
  end
  local r = {}
  function r.int(lo, hi) return lo + (bits() >> 1) % (hi - lo + 1) end
  function r.real() return (bits() >> 11) * 2^-53 end
  function r.chance(p) return r.real() < p end
  function r.pick(list) return list[r.int(1, #list)] end
  return r
end

-- ---- making ----------------------------------------------------------------------------------
local MOST = 48                        -- elements of a value
local FLOATS, INTS = { "f64", "f32", "f16", "bf16" }, { "i64", "i32", "i16", "i8", "u8" }
local MIXED_FLOATS = { "bf16", "bf16", "bf16", "f32", "f32", "f16", "f64" }
local LIMITS = { i64 = { math.mininteger, math.maxinteger }, i32 = { -2^31 | 0, 2^31 - 1 | 0 },
  i16 = { -32768, 32767 }, i8 = { -128, 127 }, u8 = { 0, 255 } }

local function random_shape(r, rank)
  local shape, n = {}, 1
  for d = 1, rank or r.pick { 0, 1, 1, 2, 2, 2, 3, 3, 4 } do
    shape[d] = r.chance(0.04) and 0 or r.pick { 1, 2, 3, 3, 4, 5, 7 }
    if n * shape[d] > MOST then shape[d] = 1 end
    n = n * math.max(shape[d], 1)
  end
  return shape
end

--- Sizes of mixed programs: rows and columns shorter and longer than the blocks of the library's
--- loops.
local BASES = { { 5 }, { 17 }, { 65 }, { 130 }, { 2, 4 }, { 3, 5 }, { 4, 7 }, { 2, 16 }, { 5, 17 },
  { 17, 3 }, { 2, 64 }, { 2, 65 },
  { 65, 2 }, { 1, 70 }, { 2, 3, 4 }, { 3, 2, 17 }, { 2, 5, 1, 3 }, { 4, 1, 9 } }

--- A long program is drawn with an axis of size LONG, which run stretches to one of these lengths.
local LONG, LENGTHS = 9, { 63, 64, 65, 100, 1023, 1024, 1025, 2065, 5000 }
local LONG_BASES = { { 9 }, { 2, 9 }, { 3, 9 }, { 9, 2 }, { 9, 5 }, { 2, 9, 3 }, { 2, 3, 9 } }

local function nested(shape, f, d)
  d = d or 1
  if d > #shape then return f() end
  local t = {}
  for i = 1, shape[d] do t[i] = nested(shape, f, d + 1) end
  return t
end

local function random_element(r, dtype, wild)
  if is_float(dtype) then
    if wild and r.chance(0.1) then
      return r.pick { 0 / 0, math.huge, -math.huge, -0.0, 1e30, 65504.0 }
    end
    return r.chance(0.5) and r.int(-16, 16) / 4 or O.hold("bf16", (r.real() - 0.5) * 6)
  end
  if dtype == "bool" then return r.int(0, 1) end
  if wild and r.chance(0.2) then return r.pick(LIMITS[dtype]) end
  return r.int(dtype == "u8" and 0 or -7, 9)
end

function P.data(r, shape, dtype)
  return nested(shape, function() return random_element(r, dtype) end)
end
P.LONG = LONG
local M = {}                           -- M.name(g): a step, or nil where nothing fits

local function add_leaf(g, shape, dtype, f)
  return { f = "leaf", shape = shape, dtype = dtype,
    data = nested(shape, f or function() return random_element(g.r, dtype, g.wild) end) }
end

--- A leaf of a long program: its axis of size LONG gets the program's length, and its data come
--- from a separate seed.
local function stretch(g, s)
  if not g.long then return end
  s.long, s.seed = g.long, g.r.int(1, 1 << 30)
end
--- A leaf of a mixed program: the program's sizes, some axes 1 or left out,
--- now and then another shape.
local function mixed_leaf(g)
  local r = g.r
  local dtype = (g.smooth or r.chance(0.8)) and r.pick(MIXED_FLOATS)
    or r.chance(0.85) and r.pick(INTS) or "bool"
  local shape = { table.unpack(g.base, r.chance(0.15) and 2 or 1) }
  for d = 1, #shape do if r.chance(0.12) then shape[d] = 1 end end
  if r.chance(0.08) and not g.long then shape = random_shape(r) end
  local s = add_leaf(g, shape, dtype)
  s.grad = g.smooth and r.chance(0.7) or nil
  s.how = r.pick { "stored", "stored", "pending", "given",
    not s.grad and #shape > 1 and "turned" or "pending" }
  s.isview = s.how == "turned" or nil
  stretch(g, s)
  return s
end
function M.leaf(g)
  local r = g.r
  if g.base then return mixed_leaf(g) end
  local dtype = g.float
    or (r.chance(0.65) and r.pick(FLOATS) or r.chance(0.8) and r.pick(INTS) or "bool")
  local s = add_leaf(g, random_shape(r), dtype)
  s.grad = g.float ~= nil and r.chance(0.7) or nil
  return s
end

--- A live variable for which ok(…) is true, or nil.
local function pick(g, ok)
  local list = {}
  for k, x in pairs(g.vars) do if not ok or ok(x, k) then list[#list + 1] = k end end
  table.sort(list)
  if #list == 0 then return nil end
  -- newer ones more often
  return list[math.max(g.r.int(1, #list), g.r.int(1, #list))]
end
local function x_of(g, k) return g.vars[k] end
local function float(x) return is_float(x.dtype) end
local function values(x) local t = {}; for i, p in ipairs(O.flat(x)) do t[i] = p[1] end return t end
local function all(x, ok)
  for _, v in ipairs(values(x)) do if not ok(v) then return false end end
  return true
end

local function fits(kind, dtype)
  return kind == "S" or kind == "T" or kind == "F" or kind == "N" and dtype ~= "bool"
    or kind == "I" and not is_float(dtype)
end
--- For programs with gradients: is v far from jumps of the derivative and from ends of the domain?
local SMOOTH = {
  abs = function(v) return math.abs(v) > 1e-3 end, relu = function(v) return math.abs(v) > 1e-3 end,
  sqrt = function(v) return v > 0.05 end, rsqrt = function(v) return v > 0.05 end,
  log = function(v) return v > 0.05 end, reciprocal = function(v) return math.abs(v) > 0.1 end,
  exp = function(v) return v < 4 end, square = function(v) return math.abs(v) < 10 end,
  neg = true, sin = true, cos = true, tanh = true, sigmoid = true,
}
--- The ops that programs are made of; kinds as in the op table: S any dtype, N no bool, F gives
-- floats, T gives bool, I integers.
local UNARY_KINDS, BINARY_KINDS, UNARY_SMOOTH = {}, {}, {}
local function ops_of(kinds, names)
  local list = {}
  for kind, text in pairs(names) do
    for name in text:gmatch "[%w_]+" do kinds[name], list[#list + 1] = kind, name end
  end
  table.sort(list)
  return list
end
local UNARY = ops_of(UNARY_KINDS, { N = "neg abs sign square relu floor ceil trunc round",
  F = "sqrt rsqrt reciprocal exp log sin cos tanh sigmoid", T = "isnan isfinite logical_not",
  I = "bitwise_not" })
local BINARY = ops_of(BINARY_KINDS,
  { S = "add mul maximum minimum", N = "sub mod floordiv", F = "div pow atan2",
  T = "eq ne lt gt le ge logical_and logical_or", I = "bitwise_and bitwise_or bitwise_xor" })
for k in pairs(SMOOTH) do UNARY_SMOOTH[#UNARY_SMOOTH + 1] = k end
table.sort(UNARY_SMOOTH)

function M.un(g)
  local a, op = pick(g), g.r.pick(g.smooth and UNARY_SMOOTH or UNARY)
  if not a or not fits(UNARY_KINDS[op], x_of(g, a).dtype) then return nil end
  local smooth = g.smooth and SMOOTH[op]
  if type(smooth) == "function" and not all(x_of(g, a), smooth) then return nil end
  return { f = "un", op = op, a = a }
end

local function random_number(g, dtype)
  if is_float(dtype) then
    return g.r.chance(0.3) and g.r.int(-3, 5) or g.r.int(-12, 12) / 8 + 0.1
  end
  return g.r.int(dtype == "bool" and 0 or dtype == "u8" and 0 or -3, dtype == "bool" and 1 or 5)
end
function M.bin(g)
  local r = g.r
  local op = g.smooth and r.pick { "add", "sub", "mul", "mul", "add", "div", "maximum", "minimum" }
    or r.pick(BINARY)
  local a = pick(g)
  if not a then return nil end
  local x = x_of(g, a)
  local s = { f = "bin", op = op, a = a }
  if r.chance(0.4) then
    s.n, s.rev = random_number(g, x.dtype), r.chance(0.3) or nil
    if not fits(BINARY_KINDS[op], x.dtype) or op == "pow" then return nil end
    if g.smooth and op == "div" and (s.rev and not all(x, SMOOTH.reciprocal) or s.n == 0) then
      return nil
    end
    return s
  end
  s.b = pick(g, function(y)
    local t = O.joint(x.shape, y.shape)
    return t and O.numel(t) <= 2 * MOST
  end)
  if not s.b then return nil end
  local y = x_of(g, s.b)
  local dtype = O.promote(x, y)
  if not fits(BINARY_KINDS[op], dtype) then return nil end
  local function low(v) return math.abs(v) < 4 end
  if op == "pow" and not (is_float(dtype) and all(x, function(v) return v > 0.01 and v < 20 end)
      and all(y, low)) then
    return nil
  end
  if g.smooth and op == "div" and not all(y, SMOOTH.reciprocal) then return nil end
  return s
end
function M.where(g)
  local a = pick(g, function(x) return x.dtype == "bool" end)
  if not a then return nil end
  local x = x_of(g, a)
  local b = pick(g, function(y) return O.joint(x.shape, y.shape) end)
  if not b then return nil end
  local t = O.joint(x.shape, x_of(g, b).shape)
  local s = { f = "where", a = a, b = b }
  if g.r.chance(0.3) and x_of(g, b).dtype ~= "bool" then
    s.n = random_number(g, x_of(g, b).dtype)
    return s
  end
  s.c = pick(g, function(y) return O.joint(t, y.shape) end)
  if not s.c or O.numel(O.joint(t, x_of(g, s.c).shape)) > 2 * MOST then return nil end
  return s
end
function M.clamp(g)
  local a = pick(g, float)
  local function off(v) return math.abs(v + 1) > 1e-3 and math.abs(v - 1.5) > 1e-3 end
  if not a or g.smooth and not all(x_of(g, a), off) then return nil end
  return { f = "clamp", a = a, lo = -1, hi = 1.5 }
end

local function some_axes(g, x)
  if g.base and #x.shape > 0 and g.r.chance(0.4) then return { #x.shape } end
  if #x.shape == 0 or g.r.chance(0.25) then return nil end
  local axes = {}
  for d = 1, #x.shape do if g.r.chance(0.5) then axes[#axes + 1] = d end end
  if #axes == 0 then axes[1] = g.r.int(1, #x.shape) end
  return axes
end
local function distinct(x)
  local v = values(x)
  table.sort(v)
  for i = 2, #v do if v[i] - v[i - 1] < 1e-3 then return false end end
  return true
end
function M.red(g)
  local r, a = g.r, pick(g)
  if not a then return nil end
  local x = x_of(g, a)
  local op = g.smooth and r.pick { "sum", "sum", "mean", "var", "prod", "amax", "amin" } or
    r.pick { "sum", "sum", "mean", "var", "prod", "amax", "amin", "argmax", "argmin", "any", "all" }
  if (op == "mean" or op == "var") and not float(x) then return nil end
  local s = { f = "red", op = op, a = a, axes = some_axes(g, x),
    keep = r.chance(g.base and 0.5 or 0.3) }
  if op:find "arg" then s.axes = s.axes and { s.axes[1] } end
  if op ~= "sum" and op ~= "prod" and op ~= "any" and op ~= "all" and O.numel(x.shape) == 0 then
    return nil
  end
  if op == "prod" and not all(x, function(v) return math.abs(v) < 8 end) then return nil end
  if g.smooth and op:find "^am" and not distinct(x) then return nil end
  if op == "var" then                  -- one element: 0 / 0, which other specs test
    local n = s.axes and 1 or O.numel(x.shape)
    for _, d in ipairs(s.axes or {}) do n = n * x.shape[d] end
    if n < 2 then return nil end
  end
  return s
end
--- As in mixed precision: a narrow value is cast to f32 and reduced, while other steps read the
--- cast value, too.
function M.widened(g)
  local a = pick(g, function(x)
    return O.types[x.dtype].top and #x.shape > 0 and O.numel(x.shape) > 0
  end)
  local wide = a and g.emit { f = "cast", a = a, dtype = "f32" }
  if not wide then return nil end
  return { f = "red", op = g.r.pick { "sum", "sum", "mean", "amax" }, a = wide,
    axes = { #x_of(g, wide).shape }, keep = g.r.chance(0.5) }
end
function M.maxd(g)
  local a = pick(g, function(x)
    return #x.shape > 0 and O.numel(x.shape) > 0 and x.dtype ~= "bool"
  end)
  if not a or g.smooth and not distinct(x_of(g, a)) then return nil end
  local x = x_of(g, a)
  return { f = "maxd", op = g.r.pick { "max", "min" }, a = a, d = g.r.int(1, #x.shape),
    keep = g.r.chance(0.3) }
end

--- Sizes in another grouping.
local function regrouped(g, x)
  local n, shape = O.numel(x.shape), {}
  if n == 0 then return g.r.pick { { 0 }, { 2, 0 }, { 0, 3 } } end
  while n > 1 and #shape < 4 do
    local divisors = {}
    for k = 1, n do if n % k == 0 then divisors[#divisors + 1] = k end end
    local k = g.r.pick(divisors)
    shape[#shape + 1], n = k, n // k
  end
  if n > 1 or g.r.chance(0.2) then shape[#shape + 1] = n end
  return shape
end
local function random_key(g, x, scalars)
  local r, key = g.r, {}
  for d = 1, scalars and #x.shape or r.int(1, #x.shape) do
    local n = x.shape[d]
    local k = r.int(1, 6)
    if n == 0 or k == 1 then key[d] = {}
    elseif k == 2 then key[d] = { r.int(1, n) }
    elseif k == 3 then key[d] = r.chance(0.5) and r.int(1, n) or -r.int(1, n)
    else
      local p, q = r.int(1, n), r.int(1, n)
      local step = r.int(1, 3)
      if k == 4 then
        key[d] = { math.max(p, q), math.min(p, q), -step }
      else
        key[d] = { math.min(p, q), math.max(p, q), step }
      end
      if r.chance(0.3) then key[d][1] = key[d][1] - n - 1 end
    end
  end
  return key
end
function M.view(g)
  local r, a = g.r, pick(g)
  if not a then return nil end
  local x = x_of(g, a)
  local n = #x.shape
  local op = r.pick { "reshape", "permute", "slice", "slice", "slice", "expand", "select", "narrow",
    "unsqueeze", "flip", "clone", "detach", "diagonal", "tril", "contiguous" }
  local s = { f = "view", op = op, a = a, isview = true }
  if op == "reshape" then s.arg = regrouped(g, x)
  elseif op == "permute" then
    s.arg = {}
    for d = 1, n do table.insert(s.arg, r.int(1, d), d) end
  elseif op == "slice" then
    if n == 0 then return nil end
    s.arg, s.from = random_key(g, x), x.shape
  elseif op == "expand" then
    s.arg = { table.unpack(x.shape) }
    for d = 1, n do if s.arg[d] == 1 and r.chance(0.7) then s.arg[d] = r.int(2, 4) end end
    if n < 4 and r.chance(0.4) then table.insert(s.arg, 1, r.int(2, 3)) end
    if O.numel(s.arg) > 2 * MOST then return nil end
  elseif op == "select" then
    local d = r.int(1, math.max(n, 1))
    if n == 0 or x.shape[d] == 0 then return nil end
    s.arg = { d, r.int(1, x.shape[d]) }
  elseif op == "narrow" then
    local d = r.int(1, math.max(n, 1))
    if n == 0 or x.shape[d] == 0 then return nil end
    local first = r.int(1, x.shape[d])
    s.arg = { d, first, r.int(1, x.shape[d] - first + 1) }
  elseif op == "unsqueeze" then
    if n > 4 then return nil end
    s.arg = r.int(1, n + 1)
  elseif op == "flip" then
    if n == 0 then return nil end
    s.arg, s.isview = r.int(1, n), nil
  elseif op == "diagonal" then
    if n ~= 2 then return nil end
  elseif op == "tril" then
    if n < 2 then return nil end
    s.isview = nil
  else
    if op == "detach" and g.smooth then return nil end
    s.isview = nil
  end
  return s
end

local function without(shape, d)
  local s = { table.unpack(shape) }
  table.remove(s, d)
  return table.concat(s, ",")
end
function M.join(g)
  local r, a = g.r,
    pick(g, function(x) return #x.shape > 0 and #x.shape < 5 and O.numel(x.shape) <= 20 end)
  if not a then return nil end
  local x, stack = x_of(g, a), r.chance(0.4)
  local d = r.int(1, #x.shape + (stack and 1 or 0))
  local list = { a }
  for _ = 1, r.int(1, 2) do
    list[#list + 1] = pick(g, function(y)
      if O.numel(y.shape) > 20 or #y.shape ~= #x.shape then return false end
      if stack then return table.concat(y.shape, ",") == table.concat(x.shape, ",") end
      return without(y.shape, d) == without(x.shape, d)
    end)
  end
  return { f = "join", op = stack and "stack" or "cat", a = a, list = list, d = d }
end
function M.pad(g)
  local a = pick(g, function(x)
    return #x.shape > 0 and O.numel(x.shape) <= 12 and x.dtype ~= "bool"
  end)
  if not a then return nil end
  local x, s = x_of(g, a), { f = "pad", a = a, before = {}, after = {}, value = g.r.int(0, 2) }
  for d = 1, #x.shape do s.before[d], s.after[d] = g.r.int(0, 2), g.r.int(0, 2) end
  return s
end

--- A new index leaf; steps that need one record it first.
local function index_leaf(g, shape, n)
  local dtype = g.r.pick(INTS)
  if n > LIMITS[dtype][2] then dtype = "i64" end
  return g.emit(add_leaf(g, shape, dtype, function() return g.r.int(1, n) end))
end
local function row_of(g, allow)
  return pick(g, function(x)
    return #x.shape > 0 and O.numel(x.shape) > 0 and (allow or x.dtype ~= "bool")
  end)
end
function M.index_select(g)
  local a = row_of(g, true)
  if not a then return nil end
  local x = x_of(g, a)
  local d = g.r.int(1, #x.shape)
  return { f = "index_select", a = a, d = d, i = index_leaf(g, { g.r.int(0, 4) }, x.shape[d]) }
end
function M.gather(g)
  local a = row_of(g, true)
  if not a then return nil end
  local x = x_of(g, a)
  local d, shape = g.r.int(1, #x.shape), { table.unpack(x.shape) }
  shape[d] = g.r.int(1, 3)
  return { f = "gather", a = a, d = d, i = index_leaf(g, shape, x.shape[d]) }
end
function M.embedding(g)
  local a = pick(g, function(x)
    return #x.shape == 2 and O.numel(x.shape) > 0 and x.shape[2] < 6
  end)
  if not a then return nil end
  return { f = "embedding", a = a,
    i = index_leaf(g, random_shape(g.r, g.r.int(0, 1)), x_of(g, a).shape[1]) }
end
--- Positions without repeats, so that a plain scatter is also well defined for gradients.
function M.scatter(g)
  local a = row_of(g)
  if not a then return nil end
  local x = x_of(g, a)
  local d, shape = g.r.int(1, #x.shape), { table.unpack(x.shape) }
  shape[d] = g.r.int(1, 3)
  local b = g.emit(add_leaf(g, shape, x.dtype))
  return { f = "scatter", a = a, d = d, b = b, add = g.smooth or g.r.chance(0.6),
    i = index_leaf(g, shape, x.shape[d]) }
end
function M.index_add(g)
  local a = row_of(g)
  if not a then return nil end
  local x = x_of(g, a)
  local d, shape = g.r.int(1, #x.shape), { table.unpack(x.shape) }
  shape[d] = g.r.int(1, 4)
  local b = g.emit(add_leaf(g, shape, x.dtype))
  return { f = "index_add", a = a, d = d, b = b, i = index_leaf(g, { shape[d] }, x.shape[d]) }
end

function M.mm(g)
  local r = g.r
  local a = pick(g, function(x)
    return float(x) and #x.shape > 0 and #x.shape < 5
      and all(x, function(v) return math.abs(v) < 100 end)
  end)
  if not a then return nil end
  local x = x_of(g, a)
  local k = x.shape[#x.shape]
  local shape = r.chance(0.2) and { k } or { k, r.int(1, 4) }
  if #shape == 2 and #x.shape > 2 and r.chance(0.6) then
    table.insert(shape, 1, r.chance(0.3) and 1 or x.shape[#x.shape - 2])
  end
  if O.numel(shape) > MOST then return nil end
  local b = g.emit(add_leaf(g, shape, x.dtype, function() return r.int(-8, 8) / 4 end))
  if r.chance(0.3) and #shape == 2 then          -- a transposed operand
    local t = g.emit { f = "view", op = "permute", a = b, arg = { 2, 1 }, isview = true }
    b = t and g.emit { f = "view", op = "permute", a = t, arg = { 2, 1 }, isview = true } or b
  end
  return { f = "mm", a = a, b = b }
end
local function tame(v) return math.abs(v) < 30 end
function M.softmax(g)
  local a = pick(g, function(x)
    return float(x) and #x.shape > 0 and all(x, function(v) return math.abs(v) < 30 end)
  end)
  if not a then return nil end
  return { f = "softmax", a = a, d = g.r.int(1, #x_of(g, a).shape), log = g.r.chance(0.4) or nil }
end
function M.layer_norm(g)
  local a = pick(g, function(x)
    return float(x) and #x.shape > 0 and x.shape[#x.shape] > 1 and all(x, tame)
  end)
  if not a then return nil end
  local x, s = x_of(g, a), { f = "layer_norm", a = a }
  local n = x.shape[#x.shape]
  for _, name in ipairs { "w", "b" } do
    if g.r.chance(0.5) then
      local leaf = add_leaf(g, { n }, x.dtype, function() return g.r.int(-4, 4) / 4 end)
      stretch(g, leaf)
      s[name] = g.emit(leaf)
    end
  end
  return s
end
function M.cross_entropy(g)
  local a = pick(g, function(x)
    return float(x) and #x.shape == 2 and O.numel(x.shape) > 0 and all(x, tame)
  end)
  if not a then return nil end
  local x = x_of(g, a)
  return { f = "cross_entropy", a = a, how = g.r.pick { "mean", "sum", "none" },
    i = index_leaf(g, { x.shape[1] }, x.shape[2]) }
end
function M.silu(g)
  local a = pick(g, float)
  return a and { f = a // 2 % 2 == 0 and "silu" or "gelu", a = a }
end
function M.cast(g)
  local a = pick(g, g.smooth and float)
  local floats = g.base and MIXED_FLOATS or FLOATS
  local to = (g.smooth or g.r.chance(0.6)) and g.r.pick(floats)
    or g.r.chance(0.8) and g.r.pick(INTS) or "bool"
  if not a then return nil end
  return { f = "cast", a = a, dtype = to }
end
function M.rand(g)
  local kind = g.r.pick { "rand", "rand", "randn", "randint" }
  local dtype = kind == "rand" and g.r.pick { "f32", "f64" } or kind == "randn" and "f32" or "i64"
  return { f = "rand", kind = kind, shape = random_shape(g.r), dtype = dtype }
end
function M.dead(g)
  local s = M.rand(g)
  s.f = "dead"
  return s
end
function M.branch(g)
  local a = pick(g, function(x)
    return #x.shape == 0 and x.v[2] == 0 and x.dtype ~= "bool" and x.v[1] == x.v[1]
  end)
  local b = pick(g, function(x) return x.dtype ~= "bool" end)
  if not a or not b then return nil end
  local x = x_of(g, b)
  local c = pick(g, function(y)
    return y.dtype == x.dtype and table.concat(y.shape, ",") == table.concat(x.shape, ",")
  end)
  return { f = "branch", a = a, b = b, c = c, thr = g.r.int(-2, 3) }
end

--- A variable that may be written: not a view, and in programs with gradients not a leaf.
local function target(g, ok)
  return pick(g, function(x, k)
    return not g.view[k] and not g.tracked_leaf[k] and (not ok or ok(x))
  end)
end
function M.set(g)
  local a = target(g, function(x) return #x.shape > 0 end)
  if not a then return nil end
  local x = x_of(g, a)
  local s = { f = "set", a = a, key = random_key(g, x) }
  local out = O.region(s.key, x.shape)
  if g.r.chance(0.5) then
    s.b = pick(g, function(y)
      if not float(x) and float(y) or #y.shape > #out then return false end
      local t = O.joint(y.shape, out)
      return t and table.concat(t, ",") == table.concat(out, ",")
    end)
  end
  if not s.b then s.n = x.dtype == "bool" and 1 or random_number(g, x.dtype) end
  if not float(x) then s.n = s.n and math.tointeger(s.n) end
  return (s.b or s.n) and s or nil
end
function M.inplace(g)
  local r, a = g.r,
    target(g, g.smooth and function(x) return float(x) and (not g.float or x.dtype == g.float) end)
  if not a then return nil end
  local x = x_of(g, a)
  local op = r.pick(g.smooth and { "add", "mul", "copy", "add", "sub", "fill", "sin" } or
    { "add", "mul", "copy", "copy", "sub", "fill", "relu", "maximum", "neg" })
  if x.dtype == "bool" and op ~= "copy" then return nil end
  local s = { f = "inplace", op = op, a = a }
  if UNARY_KINDS[op] then return s end
  if op == "fill" or (op ~= "copy" and r.chance(0.4)) then
    s.n = random_number(g, x.dtype)
    if not float(x) then s.n = math.tointeger(s.n) or 1 end
    return s
  end
  s.b = pick(g, function(y)
    local t = O.joint(y.shape, x.shape)
    if not t or table.concat(t, ",") ~= table.concat(x.shape, ",") then return false end
    return op == "copy" or O.promote(x, y) == x.dtype
  end)
  return s.b and s
end
function M.refuse(g)
  local a = pick(g, function(x, k) return g.view[k] and x.dtype ~= "bool" end)
  return a and { f = "refuse", a = a }
end
M["error"] = function(g)
  local a = pick(g)
  return a and { f = "error", a = a, how = g.r.int(1, 4) }
end
--- A value whose evaluation fails because a position is out of range; all others must be
--- unaffected.
function M.late(g)
  local a = row_of(g)
  if not a then return nil end
  local x = x_of(g, a)
  local d = g.r.int(1, #x.shape)
  return { f = "late", a = a, d = d, at = g.r.chance(0.5) and 0 or x.shape[d] + g.r.int(1, 3),
    keep = g.r.chance(0.6) }
end
--- A write at a position out of range: the target keeps its value, with which later steps continue,
--- and the next read raises the error once. Not in programs with gradients, which would depend on
--- it.
function M.missed(g)
  local a = not g.smooth and target(g, function(x) return #x.shape > 0 and O.numel(x.shape) > 0 end)
  return a and { f = "missed", a = a, at = x_of(g, a).shape[1] + g.r.int(1, 3),
    add = g.r.chance(0.3) }
end
--- Several values evaluated together; most of the other variables are dropped before, so that they
--- become intermediates or are not computed at all.
function M.eval(g)
  local s, wanted = { f = "eval", list = {}, drop = {} }, {}
  for _ = 1, g.r.int(1, 4) do
    local k = pick(g, function(_, v) return not wanted[v] end)
    if k then wanted[k], s.list[#s.list + 1] = true, k end
  end
  local order, most = {}, g.r.pick { 0, 0.3, 0.9 }
  for k in pairs(g.vars) do order[#order + 1] = k end
  table.sort(order)
  for _, k in ipairs(order) do
    if not wanted[k] and not g.leaf[k] and g.r.chance(most) then s.drop[#s.drop + 1] = k end
  end
  return #s.list > 0 and s or nil
end
function M.read(g) local a = pick(g); return a and { f = "read", a = a } end
function M.gc(g) return { f = "gc", how = g.r.int(1, 3) } end
function M.del(g)
  local a = pick(g, function(_, k) return not g.tracked_leaf[k] end)
  return a and { f = "del", a = a }
end

M.siblings, M.crossed = dofile("spec/support/program_siblings.lua") {
  O = O, pick = pick, x_of = x_of, target = target,
  checked = function(g) return g.r.chance(0.5) and M.gather(g) or M.index_select(g) end,
}

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
  local r = generator(program.seed)
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
  g.long = long and r.pick(LENGTHS)
  g.base = r.pick(long and LONG_BASES or BASES)
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

--- Counts in 'counts' the steps of each kind that the programs of a run must include.
function P.count(program, counts)
  local function hit(name) counts[name] = (counts[name] or 0) + 1 end
  local group, uses, stale, chain, pending, last = {}, {}, {}, 0, false, nil
  if program.scalar then hit "0-d" end
  if program.empty then hit "empty" end
  local function read(k)
    if stale[k] then hit "read after the source changed" end
    stale[k] = nil
  end
  for _, s in ipairs(program.steps) do
    if s.f == "set" or s.f == "inplace" then
      local shared = false
      for k, v in pairs(group) do
        if k ~= s.a and v == group[s.a] then shared = true end
        if k ~= s.a and uses[k] and uses[k][s.a] then stale[k] = true end
      end
      if shared then hit "write under a live snapshot" end
      group[s.a] = {}
    elseif s.f == "del" then group[s.a], stale[s.a] = nil, nil
    elseif s.f == "dead" then hit "dead random op"
    elseif s.f == "refuse" then hit "refused write to a view"
    elseif (s.f == "error" or s.f == "late" or s.f == "missed") and pending then
      hit "error in mid-window"
    elseif s.f == "read" then read(s.a)
    elseif s.o and s.f ~= "gc" and s.f ~= "backward" then
      group[s.o] = s.f == "view" and group[s.a] or {}
      uses[s.o] = { [s.a or 0] = true, [s.b or 0] = true }
    end
    if (s.f == "bin" or s.f == "un") and s.a == last then
      chain = chain + 1
      if chain == 8 then hit "budget cut inside a chain" end
    elseif s.f ~= "del" then chain = 0 end
    if s.f ~= "del" then last = s.o end
    pending = s.f ~= "read" and (pending or s.f == "bin" or s.f == "un")
  end
  for k in pairs(stale) do read(k) end
end

--- The same for a mixed program.
local ROWS = { softmax = true, layer_norm = true, cross_entropy = true }
function P.count_mixed(program, counts)
  local seen, halves, widened = {}, {}, {}
  for _, s in ipairs(program.steps) do
    if s.f == "leaf" then
      seen[(s.how or "given") .. " leaf"] = true
      seen[s.dtype .. " leaf"] = true
      halves[s.o] = O.types[s.dtype].top and s.how ~= "pending"
      for _, n in ipairs(s.shape) do if n == 0 then seen["leaf without elements"] = true end end
    elseif s.f == "cast" then
      seen["cast to " .. s.dtype] = true
      widened[s.o] = s.dtype == "f32" and halves[s.a]
    elseif s.f == "red" then
      seen["reduction"] = true
      if widened[s.a] then seen["reduction of widened halves"] = true end
      if s.axes and s.axes[1] == 1 and not s.axes[2] then
        seen["reduction of the first axis"] = true
      end
    elseif s.f == "eval" then
      seen[#s.list > 1 and "evaluated together" or "evaluated alone"] = true
      if #s.drop > 0 then seen["given up before"] = true end
    elseif s.f == "set" or s.f == "inplace" then seen["write"] = true
    elseif s.f == "view" then seen["view"] = true
    elseif s.f == "join" then seen["join"] = true
    elseif s.f == "backward" then seen["backward"] = true
    elseif ROWS[s.f] then seen["row program"] = true end
  end
  if program.long then seen["long"] = true end
  for name in pairs(seen) do counts[name] = (counts[name] or 0) + 1 end
end

local function copy(t)
  if type(t) ~= "table" then return t end
  local u = {}
  for k, v in pairs(t) do u[k] = copy(v) end
  return u
end
--- The same program with other float numbers: its windows and plans are the same.
function P.other_numbers(program)
  local twin = copy(program)
  for _, s in ipairs(twin.steps) do
    if math.type(s.n) == "float" then s.n = s.n * 0.5 + 0.0625 end
  end
  return twin
end
--- The same program with its slices in reverse order: the same ops, shapes and inputs, but other
--- plans.
function P.other_slices(program)
  local twin, changed = copy(program), false
  for _, s in ipairs(twin.steps) do
    for d, k in ipairs(s.f == "view" and s.op == "slice" and s.arg or {}) do
      if type(k) == "table" and #k == 3 then
        local first = k[1] < 0 and s.from[d] + 1 + k[1] or k[1]
        local n = (k[2] - first) // k[3] + 1
        if n > 1 then k[1], k[2], k[3], changed = first + (n - 1) * k[3], first, -k[3], true end
      end
    end
  end
  return changed and twin or nil
end
P.generator = generator
return P
