--- The steps of random programs (programs.lua) that compute values: leaves, ops of elements,
--- reductions, products, rows, casts, random numbers. T: program_draw.lua. M gets a function for
--- each kind of step: M.name(g) draws a step, or gives nil if no variable fits.
local T, M = ...
local O, pick, x_of, float, all = T.O, T.pick, T.x_of, T.float, T.all
local is_float, add_leaf, stretch = O.is_float, T.add_leaf, T.stretch
local random_number = T.random_number
local random_shape, index_leaf, values, MOST = T.random_shape, T.index_leaf, T.values, T.MOST
local FLOATS, INTS, MIXED_FLOATS = T.FLOATS, T.INTS, T.MIXED_FLOATS

--- A leaf of a mixed program. It has the shape of the program, perhaps without its first axis and
--- with some axes of size 1; now and then another shape.
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

local function fits(kind, dtype)
  return kind == "S" or kind == "T" or kind == "F" or kind == "N" and dtype ~= "bool"
    or kind == "I" and not is_float(dtype)
end
--- Ops for programs with gradients, and for which inputs: those far from jumps of the derivative.
local SMOOTH = {
  abs = function(v) return math.abs(v) > 1e-3 end, relu = function(v) return math.abs(v) > 1e-3 end,
  sqrt = function(v) return v > 0.05 end, rsqrt = function(v) return v > 0.05 end,
  log = function(v) return v > 0.05 end, reciprocal = function(v) return math.abs(v) > 0.1 end,
  exp = function(v) return v < 4 end, square = function(v) return math.abs(v) < 10 end,
  neg = true, sin = true, cos = true, tanh = true, sigmoid = true,
}
--- The ops of programs by kind, with the kinds of src/tensor/ops.def: S (SAME) takes any dtype,
-- N (NUM) all but bool, I (INT) integers and bool; F (FLOAT) gives floats, T (TEST) gives bool. Two
-- differ from ops.def: sign is drawn without bool, pow for floats alone.
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
--- As programs in mixed precision do: an f16 or bf16 value is cast to f32 and reduced, and later
--- steps may read the cast value, too.
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

T.UNARY_KINDS = UNARY_KINDS
