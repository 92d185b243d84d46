--- The oracle: it computes which values random programs must give, in plain Lua on nested tables,
-- and shares no code with the library. O has functions with flame's names and X methods of values,
-- so that program_steps.lua runs on it as on flame. A value is { shape =, dtype =, v = }; v is
-- nested tables of cells { y, e }: a number (bools are 0 and 1), and the largest error that the
-- library may have, 0 where every bit is determined, as after ops that IEEE 754 rounds correctly. A
-- view maps its positions to positions of its source; reductions combine a row element by element.
-- O.wide = true: floats are not rounded.
local O, X = { wide = false }, {}
local huge, abs, max = math.huge, math.abs, math.max

-- ---- dtypes: rank: the higher one wins in promotion; eps: half a unit in the last place of 1;
-- tiny: the least float above 0; top: where halves become infinite; low, high: range of integers
local types = {
  f64 = { rank = 8, eps = 2^-53, tiny = 2^-1074 }, f32 = { rank = 7, eps = 2^-24, tiny = 2^-149 },
  bool = { rank = 1 }, f16 = { rank = 6, eps = 2^-11, tiny = 2^-24, top = 2^16 },
  bf16 = { rank = 6, eps = 2^-8, tiny = 2^-133, top = 2^128 },
  i64 = { rank = 5, low = math.mininteger, high = math.maxinteger },
  i32 = { rank = 4, low = -1 << 31, high = (1 << 31) - 1 },
  i16 = { rank = 3, low = -32768, high = 32767 }, i8 = { rank = 2, low = -128, high = 127 },
  u8 = { rank = 2, low = 0, high = 255 },
}
function O.is_float(dtype) return types[dtype].eps ~= nil end
-- x rounded to an integer, ties to the even one
function O.rint(x) local c = x < 0 and -2^52 or 2^52; return abs(x) < 2^52 and x + c - c or x end
--- y converted to a dtype: a float is rounded (not while O.wide), to a half by way of f32; integers
--- wrap around; a float to an integer is cut off and saturates, NaN gives 0; a bool is 0 or 1.
function O.hold(dtype, y)
  local t = types[dtype]
  if dtype == "bool" then return y ~= 0 and 1 or 0 end
  if t.high and math.type(y) == "integer" then return (y - t.low & t.high - t.low) + t.low end
  if t.high then
    return y ~= y and 0 or math.tointeger(max(t.low, math.min(t.high, (math.modf(y)))))
  end
  if O.wide or dtype == "f64" then return y * 1.0 end
  local single, bits = string.unpack("<fI4", string.pack("<f", y):rep(2))
  if dtype == "f32" then return single end
  local step = max(2.0 ^ ((bits >> 23 & 255) - 126) * t.eps, t.tiny)
  local r = O.rint(single / step) * step
  return abs(r) >= t.top and y * huge or r == 0 and y * 0.0 or r
end
--- The dtype of a result from its two operands, one of which may be a Lua number.
function O.promote(x, y)
  if type(x) == "number" then x, y = y, x end
  if math.type(y) == "float" then return O.is_float(x.dtype) and x.dtype or "f32" end
  if type(y) == "number" then return x.dtype == "bool" and "i64" or x.dtype end
  local p, q = types[x.dtype].rank, types[y.dtype].rank
  if p == q and x.dtype ~= y.dtype then return p == 2 and "i16" or "f32" end
  return p > q and x.dtype or y.dtype
end

-- ---- ops of numbers a, b and c, as expressions, by the dtype of the result: that of the operands,
-- a float, bool. ULPS: how many units in the last place the library may be off, if not 0
local TEXTS = {
  same = { neg = "-a", abs = "abs(a)", sign = "a > 0 and 1 or a < 0 and -1 or a == 0 and 0 or a",
    square = "a * a", floor = "whole(a, floor(a))", ceil = "whole(a, ceil(a))",
    trunc = "whole(a, (modf(a)))", round = "whole(a, rint(a))", add = "a + b", sub = "a - b",
    mul = "a * b", mod = "int(b) and b == 0 and 0 or a % b",
    floordiv = "int(b) and (b == 0 and 0 or a // b) or b == 0 and a / b or " ..
      "abs(b) == huge and abs(a) < huge and (a * b < 0 and -1 or 0) or rint((a - a % b) / b)",
    maximum = "(a ~= a or a > b) and a or b", minimum = "(a ~= a or a < b) and a or b",
    relu = "a <= 0 and 0 or a", bitwise_not = "~a", bitwise_and = "a & b", bitwise_or = "a | b",
    bitwise_xor = "a ~ b", where = "a ~= 0 and b or c" },
  float = { sqrt = "sqrt(a)", rsqrt = "1 / sqrt(a)", reciprocal = "1 / a", exp = "exp(a)",
    log = "log(a)", sin = "sin(a)", cos = "cos(a)", div = "a / b",
    sigmoid = "exp(min(a, 0)) / (1 + exp(-abs(a)))",                  -- exp does not overflow
    pow = "a ^ b", atan2 = "atan(a, b)",
    tanh = "abs(a) > 0.25 and 1 - 2 / (exp(2 * a) + 1) or a / (1 + a * a / (3 + a * a / (5 + a * a / (7 + a * a / (9 + a * a / 11)))))" },
  bool = { isnan = "a ~= a", isfinite = "abs(a) < huge", logical_not = "a == 0",
    logical_and = "a ~= 0 and b ~= 0", logical_or = "a ~= 0 or b ~= 0", eq = "a == b",
    ne = "a ~= b", lt = "a < b", le = "a <= b", gt = "a > b", ge = "a >= b" },
}
local ULPS = { rsqrt = 1, exp = 3, log = 3, sin = 3, cos = 3, tanh = 6, sigmoid = 4, pow = 3,
  atan2 = 3, floordiv = 1 }
local names, ops = setmetatable({ rint = O.rint }, { __index = math }), {}
function names.int(x) return math.type(x) == "integer" end
-- x if it is an integer, else its rounded value r, with x's sign where r is zero
function names.whole(x, r) return names.int(x) and x or r == 0 and x * 0.0 or r * 1.0 end
for result, list in pairs(TEXTS) do
  for name, text in pairs(list) do
    text = ("return function(a, b, c) return %s end"):format(result == "bool" and "(" .. text
      .. ") and 1 or 0" or text)
    ops[name] = { load(text, name, "t", names)(), ulps = ULPS[name] or 0, result = result }
  end
end
O.types, O.ops = types, ops
--- May a cross a multiple of b within the errors of both (cells)? Then a % b jumps inside the
--- interval of a, which the values at its ends do not show.
function ops.mod.wild(a, b)
  return a[2] + b[2] > 0 and a[2] + abs(a[1] / b[1]) * b[2] > abs(b[1]) / 4
end
--- May cell a be off by more than a small part of a period of sin and cos?
local function turns(a) return a[2] > 0.5 end
ops.sin.wild, ops.cos.wild = turns, turns

-- ---- cells --------------------------------------------------------------------------------------
-- cell(dtype, f, ulps, operands, wild) is the cell of f(operands). Its error is the sum over the
-- operands of the largest change of f when one moves within its interval (tried: its ends, zero,
-- the value of the next operand), plus that of rounding. It is infinite where wild(…) is true.
local function map(list, f)
  local t = {}
  for k, v in ipairs(list) do t[k] = f(v, k) end
  return t
end
local function cell(dtype, f, ulps, cells, wild)
  local v, spread = map(cells, function(c) return c[1] end), 0
  if wild and not O.wide and wild(cells[1], cells[2]) then spread = huge end
  local y = f(v[1], v[2], v[3])
  for i, c in ipairs(O.wide and {} or cells) do
    local p, e, far, other = c[1], c[2], 0, cells[i % #cells + 1]
    local q = abs(p - other[1]) <= e + other[2] and other[1] or p
    for _, r in ipairs(e > 0 and { p + e, p - e, abs(p) > e and p or 0.0, q, q + e,
        q - e } or {}) do
      v[i] = r
      local z = f(v[1], v[2], v[3])
      if y ~= z and (y == y or z == z) then
        far = abs(y - z) <= huge and max(far, abs(y - z)) or huge
      end
    end
    v[i], spread = p, spread + far
  end
  local held, t, n = O.hold(dtype, y), types[dtype], ulps + (spread > 0 and 1 or 0)
  return { held,
    t.eps and n > 0 and y == y and spread + 2 * n * (t.eps * abs(held) + t.tiny) or spread }
end
--- For each reduction the op that adds an element to the result so far, and the start value.
O.folds = { sum = { ops.add, 0 }, prod = { ops.mul, 1 }, any = { ops.logical_or, 0 },
  all = { ops.logical_and, 1 }, amax = { ops.maximum, -huge }, amin = { ops.minimum, huge },
  argmax = { ops.maximum, -huge }, argmin = { ops.minimum, huge } }
function O.fold(name, row, dtype)                       -- starts with row[0], if any
  local y, k, doubt = row[0] or row[1], 1, 0
  local size = abs(y[1])
  for i = row[0] and 1 or 2, #row do
    local c, z = row[i],
      cell(O.is_float(dtype) and "f64" or "i64", O.folds[name][1][1], 0, { y, row[i] })
    if y[2] + c[2] > 0 and abs(y[1] - c[1]) <= y[2] + c[2] then doubt = huge
    elseif z[1] ~= y[1] and y[1] == y[1] then k, doubt = i, 0 end
    y, size = z, name == "prod" and 2 * (abs(z[1]) + z[2]) or size + abs(c[1])
  end
  if name:find "^arg" then return { k, doubt } end
  if y == row[1] then return y end
  if (name == "sum" or name == "prod") and O.is_float(dtype) and #row > 2 and size > 0
      and abs(y[1]) < huge then
    -- the library may add in any order, in f32 (f64 for f64) in between
    y[2] = y[2] + #row * (types[dtype == "f64" and "f64" or "f32"].eps * size + types.f32.tiny)
  end
  return cell(dtype, function(a) return a end, 0, { y })
end

-- ---- nested tables, ops of values ---------------------------------------------------------------
local function with(list, d, n) local t = { table.unpack(list) }; t[d] = n; return t end
local function at(t, ix) for d = 1, #ix do t = t and t[ix[d]] end return t end        -- nil outside
local function broadcast(t, shape, ix)
  for d = 1, #shape do t = t[shape[d] == 1 and 1 or ix[#ix - #shape + d]] end
  return t
end
local function build(shape, f, ix)               -- nested tables of f(position)
  local t, d = {}, #ix + 1
  if d > #shape then return f(ix) end
  for i = 1, shape[d] do ix[d] = i; t[i] = build(shape, f, ix) end
  ix[d] = nil
  return t
end
local function value(shape, dtype, f)
  return setmetatable({ shape = shape, dtype = dtype, v = build(shape, f, {}) }, X)
end
local function constant(n, dtype)
  return value({}, dtype, function() return { O.hold(dtype, n), 0 } end)
end
function O.numel(shape) local n = 1; for _, s in ipairs(shape) do n = n * s end return n end
function O.flat(x)
  local t = {}
  build(x.shape, function(ix) t[#t + 1] = at(x.v, ix) end, {})
  return t
end
function O.joint(a, b)                                  -- the broadcast shape, or nil
  local s = {}
  for k = 1, max(#a, #b) do
    local p, q = a[#a + 1 - k] or 1, b[#b + 1 - k] or 1
    if p ~= q and p ~= 1 and q ~= 1 then return nil end
    table.insert(s, 1, p == 1 and q or p)
  end
  return s
end
local function apply(dtype, f, op, ...)
  local xs, shape = { ... }, {}
  for _, x in ipairs(xs) do shape = O.joint(shape, x.shape) end
  return value(shape, dtype, function(ix)
    return cell(dtype, f, op.ulps,
      map(xs, function(x) return broadcast(x.v, x.shape, ix) end), op.wild)
  end)
end
function X.to(x, dtype)
  return x.dtype == dtype and x
    or apply(dtype, function(a) return O.hold(dtype, a) end, { ulps = 0 }, x)
end
--- x as an operand of an op in 'dtype'. A Lua number is not rounded to f16 or bf16, but to f32.
local function operand(x, dtype)
  return tonumber(x) and constant(x, types[dtype].top and "f32" or dtype) or x and x:to(dtype)
end
for name, op in pairs(ops) do
  O[name] = function(a, b, c)
    local dtype = c and O.promote(b, c) or b and O.promote(a, b) or a.dtype
    if op.result == "float" and not O.is_float(dtype) then dtype = "f32" end
    local f = name == "bitwise_not" and dtype == "bool" and ops.logical_not[1] or op[1]
    return apply(op.result == "bool" and "bool" or dtype, f, op, operand(a, dtype),
      operand(b, dtype), operand(c, dtype))
  end
  X[name], X[name .. "_"] = O[name], function(x, y) return x:copy_(O[name](x, y)) end
end
for event, name in pairs { __unm = "neg", __add = "add", __sub = "sub", __mul = "mul",
  __div = "div", __mod = "mod", __idiv = "floordiv", __band = "bitwise_and", __bor = "bitwise_or",
  __bxor = "bitwise_xor" } do X[event] = O[name] end

-- ---- views, reductions, writes ------------------------------------------------------------------
local function view(x, shape, from, other)              -- other: if from(ix) is outside x
  return value(shape, x.dtype, function(ix)
    return at(x.v, from(ix)) or { O.hold(x.dtype, other), 0 }
  end)
end
function X.reshape(x, shape)
  local cells, k = O.flat(x), 0
  return value(shape, x.dtype, function() k = k + 1; return cells[k] end)
end
function X.expand(x, shape)
  return value(shape, x.dtype, function(ix) return broadcast(x.v, x.shape, ix) end)
end
function X.permute(x, order)
  local function from(ix) local t = {}; for k, d in ipairs(order) do t[d] = ix[k] end return t end
  return view(x, map(order, function(d) return x.shape[d] end), from)
end
function X.diagonal(x)
  return view(x, { math.min(x.shape[1], x.shape[2]) }, function(ix) return { ix[1], ix[1] } end)
end
function X.tril(x)
  return view(x, x.shape, function(ix) return ix[#ix] <= ix[#ix - 1] and ix or { 0 } end, 0)
end
function X.pad(x, ends, options)                        -- before and after, last axis first
  local function before(d) return ends[2 * (#x.shape - d) + 1] end
  local shape = map(x.shape, function(n, d) return before(d) + n + ends[2 * (#x.shape - d) + 2] end)
  return view(x, shape, function(ix) return map(ix, function(i, d) return i - before(d) end) end,
    options.value)
end
function O.region(key, shape)  -- the shape of x[key]; a function: index of x[key] -> index of x
  local picks, axis, out = {}, {}, {}
  for d, n in ipairs(shape) do
    local k = type(key[d]) == "number" and { key[d] } or key[d] or {}
    picks[d] = {}                                       -- i % (n + 1): -1 is the last
    for i = k[1] and k[1] % (n + 1) or 1, (k[2] or k[1] or n) % (n + 1), k[3] or 1 do
      table.insert(picks[d], i)
    end
    if type(key[d]) ~= "number" then axis[d], out[#out + 1] = #out + 1, #picks[d] end
  end
  return out, function(ix)
    return map(picks, function(list, d) return list[ix[axis[d]] or 1] end)
  end
end
function X.__index(x, key) return X[key] or view(x, O.region(key, x.shape)) end
function X.select(x, d, item) return x[with(map(x.shape, function() return {} end), d, item)] end
function X.narrow(x, d, first, n) return x:select(d, { first, first + n - 1 }) end
function X.flip(x, d) return x:select(d, x.shape[d] > 0 and { -1, 1, -1 } or {}) end
function X.unsqueeze(x, d)
  local s = { table.unpack(x.shape) }
  table.insert(s, d, 1)
  return x:reshape(s)
end
for name in ("clone detach contiguous"):gmatch "%a+" do
  X[name] = function(x) return x:reshape(x.shape) end
end
function X.item(x) return x.v[1] end
for name in pairs(O.folds) do                       -- x:name(d | { d, … } | nothing, { keepdim = })
  X[name] = function(x, axes, options)
    axes = type(axes) == "number" and { axes } or axes or {}
    local ones, kept, sums = {}, {}, name == "sum" or name == "prod"
    local dtype = (name == "any" or name == "all") and "bool" or sums and not O.is_float(x.dtype)
      and "i64" or x.dtype
    for d, n in ipairs(x.shape) do
      local gone = #axes == 0
      for _, a in ipairs(axes) do gone = gone or a == d end
      ones[d] = gone and 1 or n
      if not gone or (options or axes).keepdim then kept[#kept + 1] = ones[d] end
    end
    local rows, cells = build(ones, function() return { [0] = { O.folds[name][2], 0 } } end, {}),
      x:to(dtype).v
    build(x.shape, function(ix) table.insert(broadcast(rows, ones, ix), (at(cells, ix))) end, {})
    return value(ones, name:find "^arg" and "i64" or dtype,
      function(ix) return O.fold(name, at(rows, ix), dtype) end):reshape(kept)
  end
end
--- Maps a position ix: ix[d] becomes an element of ids, a list along axis d or one per position.
local function by(d, ids)
  return function(ix) return with(ix, d, at(ids.v, #ids.shape == 1 and { ix[d] } or ix)[1]) end
end
function X.gather(x, d, ids) return view(x, ids.shape, by(d, ids)) end
function X.index_select(x, d, ids) return view(x, with(x.shape, d, ids.shape[1]), by(d, ids)) end
local function put(x, src, place, add)   -- x with src stored or added at place(ix)
  local rows, cells = build(x.shape, function(ix) return { at(x.v, ix) } end, {}), src:to(x.dtype).v
  build(src.shape, function(ix)
    local row = at(rows, place(ix))
    row[add and #row + 1 or 1] = at(cells, ix)
  end, {})
  return value(x.shape, x.dtype, function(ix) return O.fold("sum", at(rows, ix), x.dtype) end)
end
function X.scatter(x, d, ids, src) return put(x, src, by(d, ids)) end
function X.scatter_add(x, d, ids, src) return put(x, src, by(d, ids), true) end
X.index_add = X.scatter_add
function X.copy_(x, y) x.v = y:to(x.dtype):expand(x.shape).v return x end
function X.fill_(x, n) return x:copy_(constant(n, x.dtype)) end
function X.__newindex(x, key, v)                        -- x[key] = v
  local shape, from = O.region(key, x.shape)
  x.v = put(x,
    (type(v) == "table" and v or constant(v == true and 1 or v or 0, x.dtype)):expand(shape),
    from).v
end

-- ---- ops made of others, in f32 for f16 and bf16, whose result is rounded once, at the end ------
local function in_f32(f)
  return function(x, ...)
    return types[x.dtype].top and f(x:to "f32", ...):to(x.dtype) or f(x, ...)
  end
end
local function share(x, s, less) return s / (O.numel(x.shape) / O.numel(s.shape) - less) end
X.mean = in_f32(function(x, ...) return share(x, x:sum(...), 0) end)
X.var = in_f32(function(x, ...)
  return share(x, (x - x:mean((...), { keepdim = true })):square():sum(...), 1)
end)
X.softmax = in_f32(function(x, d, logarithm)
  local z = x - x:amax(d, { keepdim = true })
  local s = z:exp():sum(d, { keepdim = true })
  return logarithm and z - s:log() or z:exp() / s
end)
function X.log_softmax(x, d) return x:softmax(d, true) end
X.layer_norm = in_f32(function(x, _, w, b)              -- random programs use the last axis only
  local c = x - x:mean(#x.shape, { keepdim = true })
  local y = c * (c:square():mean(#x.shape, { keepdim = true }) + 1e-5):rsqrt()
  y = w and y * w or y
  return b and y + b or y
end)
O.cross_entropy = in_f32(function(x, ids, options)
  local y = -x:log_softmax(2):gather(2, ids:unsqueeze(2)):reshape(ids.shape)
  return options.reduction == "none" and y or y[options.reduction](y)
end)
X.silu = in_f32(function(x) return x * x:sigmoid() end)
--- The s in gelu(a) = a * sigmoid(s), which is gelu's approximation with tanh.
local function gate(a) return (a * a * 0.07135481627260025 + 1.5957691216057308) * a end
X.gelu = in_f32(function(x) return x * apply(x.dtype, gate, { ulps = 3 }, x):sigmoid() end)
--- a of shape (…, i, k, 1) times b of shape (…, 1, k, j), summed over k.
X.matmul = in_f32(function(a, b)
  local p, q = #a.shape > 1 and a or a:unsqueeze(1),
    #b.shape > 1 and b:to(a.dtype) or b:to(a.dtype):unsqueeze(2)
  local y = apply(a.dtype, ops.mul[1], { ulps = 1 }, p:unsqueeze(#p.shape + 1),
    q:unsqueeze(#q.shape - 1))
    :sum(max(#p.shape, #q.shape))
  if #a.shape == 1 then y = y:select(#y.shape - 1, 1) end
  return #b.shape == 1 and y:select(#y.shape, 1) or y
end)
function X.clamp(x, low, high) return x:maximum(low):minimum(high) end
function X.max(x, d, options) return x:amax(d, options), x:argmax(d, options) end
function X.min(x, d, options) return x:amin(d, options), x:argmin(d, options) end
function O.cat(list, d)
  local like, parts = list[1], {}
  for _, x in ipairs(list) do like = { dtype = O.promote(like, x) } end
  for _, x in ipairs(map(list, function(x) return x:to(like.dtype) end)) do
    for i = 1, x.shape[d] do parts[#parts + 1] = function(ix) return at(x.v, with(ix, d, i)) end end
  end
  return value(with(list[1].shape, d, #parts), like.dtype, function(ix) return parts[ix[d]](ix) end)
end
function O.stack(list, d) return O.cat(map(list, function(x) return x:unsqueeze(d) end), d) end
function O.embedding(ids, w)
  return w:index_select(1, ids:reshape { O.numel(ids.shape) })
    :reshape(with(ids.shape, #ids.shape + 1, w.shape[2]))
end

-- ---- leaves: given, random ---------------------------------------------------------------------
function O.leaf(s)
  return value(s.shape, s.dtype, function(ix) return { O.hold(s.dtype, at(s.data, ix)), 0 } end)
end
function O.seed(n) O.state = { seed = n, counter = 0 } end
--- Philox4x32-10: four 32-bit words from a counter (two halves of 64 bits) and a key of 64 bits.
function O.philox(counter, high, key)
  local M = 0xffffffff
  local a, b, x, y, k0, k1 = counter & M, counter >> 32, high & M, high >> 32, key & M, key >> 32
  for _ = 1, 10 do
    -- products of two 32-bit numbers are exact in 64 bits
    local p, q = 0xD2511F53 * a, 0xCD9E8D57 * x
    a, b, x, y = (q >> 32) ~ b ~ k0, q & M, (p >> 32) ~ y ~ k1, p & M
    k0, k1 = (k0 + 0x9E3779B9) & M, (k1 + 0xBB67AE85) & M
  end
  return { a, b, x, y }
end
for kind in ("rand randn randint"):gmatch "%a+" do
  O[kind] = function(shape, options)
    local dtype, i, first = kind == "randint" and "i64" or options.dtype, -1, O.state.counter
    local per = (dtype == "f64" or dtype == "i64") and 2 or 4             -- numbers from four words
    O.state.counter = first + (O.numel(shape) + per - 1) // per
    return value(shape, dtype, function()
      i = i + 1
      local w, k = O.philox(first + i // per, 0, O.state.seed), i % per
      -- from 1 to 6
      if kind == "randint" then
        return { 1 + (w[2 * k + 1] * 6 + (w[2 * k + 2] * 6 >> 32) >> 32), 0 }
      end
      if kind == "rand" then
        return { per == 2 and (w[2 * k + 1] << 21 | w[2 * k + 2] >> 11) * 2^-53
          or (w[k + 1] >> 8) * 2^-24, 0 }
      end
      local radius, turn = math.sqrt(-2 * math.log((w[k | 1] + 0.5) * 2^-32)),
        2 * math.pi * w[(k | 1) + 1] * 2^-32
      -- Box and Muller's method: two words give two normally distributed numbers
      local y = radius * (k % 2 == 0 and math.cos(turn) or math.sin(turn))
      -- The error grows as the radius falls: the radius is then the root of the logarithm of a
      -- number just below 1, and this number has an error of 2^-24 in f32.
      return { O.hold("f32", y), 2^-20 * (1 + abs(y)) + 2^-23 / radius }
    end)
  end
end
return O
