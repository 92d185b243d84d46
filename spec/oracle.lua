--- What a program should give: a second evaluator, in plain Lua on nested tables, that shares
-- no code with the library. Slow, small, and meant to be read.
--
-- A value is { shape =, dtype =, v = nested table (0-d: a number), e = bound }. e says how far
-- the library may be off, element by element: a nested table like v, or 0 where every bit is
-- determined. Ops that IEEE rounds correctly keep e = 0; others add a few units in the last
-- place, and an op of uncertain operands is tried at the ends of their intervals. Comparisons
-- of uncertain values thus get a bound of 1, and nothing is asked of them.
-- Bools are 0 and 1. With wide = true floats are not rounded: for numeric derivatives.
local O = {}
local huge, abs, floor = math.huge, math.abs, math.floor
local BITS = { i64 = 64, i32 = 32, i16 = 16, i8 = 8, u8 = 8 }
local EPS = { f64 = 2^-53, f32 = 2^-24, f16 = 2^-11, bf16 = 2^-8 }
local TINY = { f64 = 2^-1074, f32 = 2^-149, f16 = 2^-24, bf16 = 2^-133 }
local RANK = { bool = 1, u8 = 2, i8 = 2, i16 = 3, i32 = 4, i64 = 5, f16 = 6, bf16 = 6, f32 = 7, f64 = 8 }
local CLOSE = 4          -- units in the last place granted to exp, sin and their kin
function O.is_float(dtype) return EPS[dtype] ~= nil end

-- ---- numbers -------------------------------------------------------------------------------
local function to_f32(x) return (string.unpack("f", string.pack("f", x))) end
local function rint(x)                                  -- halves to even
  if x ~= x or abs(x) >= 2^52 then return x end
  local r = floor(x)
  local d = x - r
  if d > 0.5 or (d == 0.5 and r % 2 == 1) then r = r + 1 end
  return r == 0 and x * 0.0 or r * 1.0
end
local function whole(x, r) return r == 0 and x * 0.0 or r * 1.0 end
local function guarded(f) return function(x) if x ~= x or abs(x) >= 2^52 then return x end return whole(x, f(x)) end end
local function trunc(x) return x < 0 and math.ceil(x) or floor(x) end

function O.round(dtype, y, wide)
  if EPS[dtype] then
    y = y * 1.0
    if wide or dtype == "f64" or y ~= y or y == 0 then return y end
    y = to_f32(y)
    if dtype == "f32" or abs(y) == huge then return y end
    local b = string.unpack("I4", string.pack("f", y))
    if dtype == "bf16" then
      return (string.unpack("f", string.pack("I4", (b + 0x7fff + (b >> 16 & 1)) & 0xffff0000)))
    end
    local q = 2.0^(math.max((b >> 23 & 255) - 127, -14) - 10)
    y = rint(y / q) * q
    return abs(y) >= 65520 and (y > 0 and huge or -huge) or y
  end
  if dtype == "bool" then return y ~= 0 and 1 or 0 end
  local n = BITS[dtype]
  if n == 64 then return y end
  local m = 1 << n
  y = y & (m - 1)
  return dtype ~= "u8" and y >= m >> 1 and y - m or y
end
local round = O.round

--- Float to integer truncates and saturates, NaN gives 0; integers wrap.
local function convert(from, to, x, wide)
  if EPS[to] then return round(to, x, wide) end
  if not EPS[from] or to == "bool" then return round(to, x) end
  if x ~= x then return 0 end
  local n = BITS[to]
  local low = to == "u8" and 0 or n == 64 and math.mininteger or -(1 << n - 1)
  local high = to == "u8" and 255 or n == 64 and math.maxinteger or (1 << n - 1) - 1
  if x <= low then return low elseif x >= high then return high end
  return math.tointeger(trunc(x))
end

-- ---- nested tables ---------------------------------------------------------------------------
local function at(t, ix)
  for i = 1, #ix do t = t[ix[i]] end
  return t
end
local function build(shape, f, ix, d)
  ix, d = ix or {}, d or 1
  if d > #shape then return f(ix) end
  local t = {}
  for i = 1, shape[d] do
    ix[d] = i
    t[i] = build(shape, f, ix, d + 1)
  end
  ix[d] = nil
  return t
end
local function numel(shape)
  local n = 1
  for _, s in ipairs(shape) do n = n * s end
  return n
end
O.numel = numel
local function element(x, ix)
  return at(x.v, ix), x.e == 0 and 0 or at(x.e, ix)
end
--- A value whose elements f(ix) gives, with their bounds.
local function make(shape, dtype, f)
  local errs, any = {}, false
  local v = build(shape, function(ix)
    local y, e = f(ix)
    if e ~= 0 then any = true end
    errs[#errs + 1] = e ~= e and huge or e
    return y
  end)
  local k = 0
  return { shape = shape, dtype = dtype, v = v,
    e = any and build(shape, function() k = k + 1; return errs[k] end) or 0 }
end
--- The same elements elsewhere: 'from' turns a position of the result into one of x.
local function view(x, shape, from)
  return make(shape, x.dtype, function(ix) return element(x, from(ix)) end)
end
local function joint(a, b)
  local s = {}
  for k = 1, math.max(#a, #b) do
    local p, q = a[#a + 1 - k] or 1, b[#b + 1 - k] or 1
    if p ~= q and p ~= 1 and q ~= 1 then return nil end
    table.insert(s, 1, p == 1 and q or p)
  end
  return s
end
O.joint = joint
local function clip(ix, shape)                          -- ix of a broadcast result
  local at_ = {}
  for d = 1, #shape do at_[d] = shape[d] == 1 and 1 or ix[#ix - #shape + d] end
  return at_
end
local function expand(x, shape) return view(x, shape, function(ix) return clip(ix, x.shape) end) end
local function flat(x)
  local out = {}
  build(x.shape, function(ix) out[#out + 1] = { element(x, ix) } end)
  return out
end
O.flat = flat

-- ---- elementwise --------------------------------------------------------------------------------
local function slack(dtype, y, wide) return (wide and 2^-50 or EPS[dtype] or 0) * abs(y) + (TINY[dtype] or 0) end

--- f over broadcast operands; 'ulps' is 0 where IEEE or integer arithmetic determines the bits.
local function apply(dtype, f, ulps, wide, ...)
  local xs, shape = { ... }, {}
  for _, x in ipairs(xs) do shape = joint(shape, x.shape) end
  return make(shape, dtype, function(ix)
    local v, es, sum = {}, {}, 0
    for i, x in ipairs(xs) do v[i], es[i] = element(x, clip(ix, x.shape)) end
    local y = f(v[1], v[2], v[3])
    for i = 1, #xs do
      if es[i] ~= 0 then
        local keep, other = v[i], v[3 - i] or 0
        local probes = { keep + es[i], keep - es[i], abs(keep) <= es[i] and 0 * keep, abs(keep - other) <= es[i] + (es[3 - i] or 0) and other }
        for _, p in pairs(probes) do
          if p then
            v[i] = p
            local z = f(v[1], v[2], v[3])
            if z ~= y then sum = sum + abs(z - y) end
          end
        end
        v[i] = keep
      end
    end
    y = round(dtype, y, wide)
    if y ~= y and sum == 0 then return y, 0 end
    local n = ulps + (sum ~= 0 and 1 or 0)
    return y, n == 0 and 0 or sum + 2 * n * slack(dtype, y, wide)
  end)
end

function O.cast(x, dtype, wide)
  if x.dtype == dtype then return x end
  return apply(dtype, function(a) return convert(x.dtype, dtype, a == floor(a) and a or a, wide) end, 0, wide, x)
end
local cast = O.cast

function O.promote(a, b)
  if a == b then return a end
  local p, q = RANK[a], RANK[b]
  if p == q then return p == 2 and "i16" or "f32" end
  return p > q and a or b
end
--- A number next to dtype: what both compute in.
local function with_number(dtype, n)
  if EPS[dtype] then return dtype end
  if math.type(n) == "float" then return "f32" end
  return dtype == "bool" and "i64" or dtype
end
local function number(n, dtype, wide)           -- of the register's width, not rounded to a half type
  local reg = EPS[dtype] and (dtype == "f64" and "f64" or "f32") or dtype
  return { shape = {}, dtype = dtype, e = 0, v = EPS[dtype] and round(reg, n, wide) or n }
end

local function sigmoid(x) return 1 / (1 + math.exp(-x)) end
local function tanh(x)
  local z = x * x
  if z < 0.01 then return x * (1 - z * (1 / 3 - z * (2 / 15 - z * (17 / 315 - z * (62 / 2835 - z * (1382 / 155925)))))) end
  local t = math.exp(-2 * abs(x)); local y = (1 - t) / (1 + t); return x < 0 and -y or y
end
local function isint(x) return math.type(x) == "integer" end
local function near(f) return function(x) if isint(x) then return x end return f(x) end end
--- name = { f, ulps, kind } with the kinds of the op table: F floats, N no bool, S any, T test, I integers
O.unary = {
  neg = { function(x) return -x end, 0, "N" }, abs = { function(x) return isint(x) and (x < 0 and -x or x) or abs(x) end, 0, "N" },
  sign = { function(x) if x ~= x then return x end return x > 0 and 1 or x < 0 and -1 or 0 end, 0, "N" },
  square = { function(x) return x * x end, 0, "N" }, sqrt = { function(x) return x < 0 and 0 / 0 or math.sqrt(x) end, 0, "F" },
  rsqrt = { function(x) return x < 0 and 0 / 0 or 1 / math.sqrt(x) end, 1, "F" }, reciprocal = { function(x) return 1 / x end, 0, "F" },
  exp = { math.exp, CLOSE, "F" }, log = { function(x) return x < 0 and 0 / 0 or math.log(x) end, CLOSE, "F" },
  sin = { math.sin, CLOSE, "F" }, cos = { math.cos, CLOSE, "F" }, tanh = { tanh, 40, "F" }, sigmoid = { sigmoid, CLOSE, "F" },
  relu = { function(x) return x <= 0 and (isint(x) and 0 or 0.0) or x end, 0, "N" },
  floor = { near(guarded(floor)), 0, "N" }, ceil = { near(guarded(math.ceil)), 0, "N" },
  trunc = { near(guarded(trunc)), 0, "N" }, round = { near(rint), 0, "N" },
  isnan = { function(x) return x ~= x and 1 or 0 end, 0, "T" },
  isfinite = { function(x) return x == x and abs(x) ~= huge and 1 or 0 end, 0, "T" },
  logical_not = { function(x) return x == 0 and 1 or 0 end, 0, "T" }, bitwise_not = { function(x) return ~x end, 0, "I" },
}
local function mod(a, b)
  if isint(a) then return b == 0 and 0 or a % b end
  if abs(b) == huge and abs(a) < huge then return (a == 0 or a < 0 == (b < 0)) and a or b end
  local r = math.fmod(a, b)
  return r ~= 0 and (r < 0) ~= (b < 0) and r + b or r
end
local function test(f) return { function(a, b) return f(a, b) and 1 or 0 end, 0, "T" } end
local function extreme(more)
  return function(a, b)
    if a ~= a then return a elseif b ~= b then return b end
    return more(b, a) and b or a
  end
end
local larger, smaller = extreme(function(a, b) return a > b end), extreme(function(a, b) return a < b end)
O.binary = {
  add = { function(a, b) return a + b end, 0, "S" }, sub = { function(a, b) return a - b end, 0, "N" },
  mul = { function(a, b) return a * b end, 0, "S" }, div = { function(a, b) return a / b end, 0, "F" },
  maximum = { larger, 0, "S" }, minimum = { smaller, 0, "S" },
  floordiv = { function(a, b)
    if isint(a) then return b == 0 and 0 or a // b end
    if b == 0 then return a / b end
    if abs(b) == huge and abs(a) < huge then return a ~= 0 and (a < 0) ~= (b < 0) and -1.0 or a / b end
    return math.floor((a - mod(a, b)) / b + 0.5) + 0.0
  end, 1, "N" },
  mod = { mod, 0, "N" },
  pow = { function(a, b) return a ^ b end, CLOSE, "F" }, atan2 = { function(a, b) return math.atan(a, b) end, CLOSE, "F" },
  eq = test(function(a, b) return a == b end), ne = test(function(a, b) return a ~= b end),
  lt = test(function(a, b) return a < b end), le = test(function(a, b) return a <= b end),
  gt = test(function(a, b) return a > b end), ge = test(function(a, b) return a >= b end),
  logical_and = test(function(a, b) return a ~= 0 and b ~= 0 end), logical_or = test(function(a, b) return a ~= 0 or b ~= 0 end),
  bitwise_and = { function(a, b) return a & b end, 0, "I" }, bitwise_or = { function(a, b) return a | b end, 0, "I" },
  bitwise_xor = { function(a, b) return a ~ b end, 0, "I" },
}
local function elementwise(def, wide, a, b)
  local dtype
  if type(a) == "number" then dtype = with_number(b.dtype, a)
  elseif type(b) == "number" then dtype = with_number(a.dtype, b)
  else dtype = b and O.promote(a.dtype, b.dtype) or a.dtype end
  if def[3] == "F" and not EPS[dtype] then dtype = "f32" end
  local function side(x) return type(x) == "number" and number(x, dtype, wide) or x and cast(x, dtype, wide) end
  local xs = { side(a), side(b) }
  return apply(def[3] == "T" and "bool" or dtype, def[1], def[2], wide, table.unpack(xs))
end
local function bin(name, wide, a, b) return elementwise(O.binary[name], wide, a, b) end
local function un(name, wide, a)
  if name == "bitwise_not" and a.dtype == "bool" then name = "logical_not" end
  return elementwise(O.unary[name], wide, a)
end

-- ---- reductions ------------------------------------------------------------------------------------
--- The fold over each row: list of {v, e}, dtype -> v, e.
local folds = {}
function folds.sum(row, dtype, wide)
  local s, e, m = EPS[dtype] and 0.0 or 0, 0, 0
  for _, p in ipairs(row) do s, e, m = s + p[1], e + p[2], m + abs(p[1]) end
  if not EPS[dtype] then return s, e end
  local reg = wide and 2^-50 or EPS[dtype == "f64" and "f64" or "f32"]
  if #row > 2 then e = e + #row * reg * m end
  s = #row == 1 and row[1][1] or round(dtype, s, wide)
  return s, e == 0 and 0 or e + 2 * slack(dtype, s, wide)
end
function folds.prod(row, dtype, wide)
  local s, far, small = EPS[dtype] and 1.0 or 1, 1, 1
  for _, p in ipairs(row) do s, small, far = s * p[1], small * abs(p[1]), far * (abs(p[1]) + p[2]) end
  if not EPS[dtype] then return s, 0 end
  s = round(dtype, s, wide)
  return s, #row < 2 and far - small or far - small + 2 * #row * slack(dtype == "f64" and dtype or "f32", far) + slack(dtype, s, wide)
end
local function best(row, more)
  local k, e = 1, 0
  for i, p in ipairs(row) do
    local v, w = p[1], row[k][1]
    if w == w and (v ~= v or more(v, w)) then k = i end
    e = math.max(e, p[2])
  end
  return k, e
end
local function above(a, b) return a > b end
local function below(a, b) return a < b end
local function position(more)
  return function(row)
    local k, e = best(row, more)
    for i, p in ipairs(row) do if e ~= 0 and i ~= k and abs(p[1] - row[k][1]) <= 2 * e then return k, huge end end
    return k, 0
  end
end
folds.argmax, folds.argmin = position(above), position(below)
function folds.amax(row) local k, e = best(row, above); return row[k][1], e end
function folds.amin(row) local k, e = best(row, below); return row[k][1], e end
function folds.any(row) local y, u = 0, 0; for _, p in ipairs(row) do y = y | p[1]; u = math.max(u, p[2]) end return y, u end
function folds.all(row) local y, u = 1, 0; for _, p in ipairs(row) do y = y & p[1]; u = math.max(u, p[2]) end return y, u end
local POSITION = { argmax = true, argmin = true }

--- axes: list of positions, nil: all.
local function reduce(name, x, axes, keep, wide)
  local red, shape, sizes, dtype = {}, {}, {}, x.dtype
  for d = 1, #x.shape do red[d] = axes == nil end
  for _, d in ipairs(axes or {}) do red[d] = true end
  if name == "sum" or name == "prod" then if not EPS[dtype] then dtype = "i64" end
  elseif name == "any" or name == "all" then dtype = "bool" end
  x = cast(x, dtype, wide)
  for d = 1, #x.shape do
    if red[d] then sizes[#sizes + 1] = x.shape[d] end
    if not red[d] or keep then shape[#shape + 1] = red[d] and 1 or x.shape[d] end
  end
  return make(shape, POSITION[name] and "i64" or dtype, function(ix)
    local row = {}
    build(sizes, function(rx)
      local at_, i, j = {}, 0, 0
      for d = 1, #x.shape do
        if red[d] then j = j + 1; at_[d] = rx[j] end
        if not red[d] or keep then i = i + 1 end
        if not red[d] then at_[d] = ix[i] end
      end
      row[#row + 1] = { element(x, at_) }
    end)
    return folds[name](row, dtype, wide)
  end)
end
O.reduce = reduce
local function half(d) return d == "f16" or d == "bf16" end
local function widened(x, wide) return half(x.dtype) and cast(x, "f32", wide) or EPS[x.dtype] and x or cast(x, "f32", wide) end
local function count(x, axes) local n = 1; for d = 1, #x.shape do if not axes then n = n * x.shape[d] end end
  for _, d in ipairs(axes or {}) do n = n * x.shape[d] end return n end
local function back(y, x, wide) return half(x.dtype) and cast(y, x.dtype, wide) or y end
function O.mean(x, axes, keep, wide)
  return back(bin("div", wide, reduce("sum", widened(x, wide), axes, keep, wide), count(x, axes) + 0.0), x, wide)
end
function O.var(x, axes, keep, wide)
  local w = widened(x, wide)
  local d = bin("sub", wide, w, O.mean(w, axes, true, wide))
  return back(bin("div", wide, reduce("sum", un("square", wide, d), axes, keep, wide), math.max(count(x, axes) - 1, 0) + 0.0), x, wide)
end
function O.softmax(x, d, wide, logarithm)
  local w = widened(x, wide)
  if numel(w.shape) == 0 then return back(w, x, wide) end
  local z = bin("sub", wide, w, reduce("amax", w, { d }, true, wide))
  local e = un("exp", wide, z)
  local s = reduce("sum", e, { d }, true, wide)
  return back(logarithm and bin("sub", wide, z, un("log", wide, s)) or bin("div", wide, e, s), x, wide)
end
function O.layer_norm(x, w, b, wide)
  local f, d = widened(x, wide), { #x.shape }
  local c = bin("sub", wide, f, O.mean(f, d, true, wide))
  local y = bin("mul", wide, c, un("rsqrt", wide, bin("add", wide, O.mean(un("square", wide, c), d, true, wide), 1e-5)))
  if w then y = bin("mul", wide, y, widened(w, wide)) end
  if b then y = bin("add", wide, y, widened(b, wide)) end
  return back(y, x, wide)
end
function O.cross_entropy(x, ids, how, wide)
  local p = O.softmax(widened(x, wide), 2, wide, true)
  local each = un("neg", wide, make({ x.shape[1] }, p.dtype, function(ix) return element(p, { ix[1], at(ids.v, ix) }) end))
  if how ~= "none" then each = how == "sum" and reduce("sum", each, nil, false, wide) or O.mean(each, nil, false, wide) end
  return back(each, x, wide)
end
function O.where(c, a, b, wide)
  local dtype = type(b) == "number" and with_number(a.dtype, b) or O.promote(a.dtype, b.dtype)
  b = type(b) == "number" and number(b, dtype, wide) or cast(b, dtype, wide)
  return apply(dtype, function(p, x, y) if p == 1 then return x end return y end, 0, wide, c, cast(a, dtype, wide), b)
end
function O.clamp(x, lo, hi, wide)
  return bin("minimum", wide, bin("maximum", wide, x, lo), hi)
end
function O.matmul(a, b, wide)
  local p = #a.shape == 1 and view(a, { 1, a.shape[1] }, function(ix) return { ix[2] } end) or a
  local q = #b.shape == 1 and view(b, { b.shape[1], 1 }, function(ix) return { ix[1] } end) or b
  local n, k = #p.shape, p.shape[#p.shape]
  local batch = joint({ table.unpack(p.shape, 1, n - 2) }, { table.unpack(q.shape, 1, #q.shape - 2) })
  local shape, nb = { table.unpack(batch) }, #batch
  if #a.shape > 1 then shape[#shape + 1] = p.shape[n - 1] end
  if #b.shape > 1 then shape[#shape + 1] = q.shape[#q.shape] end
  local reg = wide and 2^-50 or EPS[a.dtype == "f64" and "f64" or "f32"]
  return make(shape, a.dtype, function(ix)
    local i, j = #a.shape > 1 and ix[nb + 1] or 1, #b.shape > 1 and ix[#ix] or 1
    local s, e = 0.0, 0
    local px, qx = clip({ table.unpack(ix, 1, nb) }, { table.unpack(p.shape, 1, n - 2) }), clip({ table.unpack(ix, 1, nb) }, { table.unpack(q.shape, 1, #q.shape - 2) })
    for m = 1, k do
      px[n - 1], px[n], qx[#q.shape - 1], qx[#q.shape] = i, m, m, j
      local u, eu = element(p, px)
      local v, ev = element(q, qx)
      s, e = s + u * v, e + abs(u) * ev + abs(v) * eu + eu * ev + (k + 1) * reg * abs(u * v)
    end
    s = round(a.dtype, s, wide)
    return s, e + (k > 0 and 2 * slack(a.dtype, s, wide) or 0)
  end)
end

-- ---- views, joins, positions ---------------------------------------------------------------------------
local function linear(ix, shape) local n = 0; for d = 1, #shape do n = n * shape[d] + ix[d] - 1 end return n end
local function delinear(n, shape) local ix = {}; for d = #shape, 1, -1 do ix[d] = n % shape[d] + 1; n = n // shape[d] end return ix end
local function reshape(x, shape) return view(x, shape, function(ix) return delinear(linear(ix, shape), x.shape) end) end
--- A key of x[…]: per axis { first, step, count, dropped }.
local function boxes(key, shape)
  local box, out = {}, {}
  for d = 1, #shape do
    local k, n = key[d] or {}, shape[d]
    local function p(i) return i < 0 and n + 1 + i or i end
    if type(k) == "number" then box[d] = { p(k), 1, 1, true }
    elseif #k == 0 then box[d] = { 1, 1, n }
    elseif #k == 1 then box[d] = { p(k[1]), 1, 1 }
    else
      local first, last, step = p(k[1]), p(k[2]), k[3] or 1
      box[d] = { first, step, math.max((last - first) // step + 1, 0) }
    end
    if not box[d][4] then out[#out + 1] = box[d][3] end
  end
  return box, out
end
O.boxes = boxes
local function slice(x, key)
  local box, out = boxes(key, x.shape)
  return view(x, out, function(ix)
    local at_, k = {}, 0
    for d, b in ipairs(box) do
      if not b[4] then k = k + 1 end
      at_[d] = b[4] and b[1] or b[1] + (ix[k] - 1) * b[2]
    end
    return at_
  end)
end
local views = { reshape = reshape, expand = expand, slice = slice }
function views.permute(x, p)
  local s = {}
  for k, d in ipairs(p) do s[k] = x.shape[d] end
  return view(x, s, function(ix) local at_ = {}; for k, d in ipairs(p) do at_[d] = ix[k] end return at_ end)
end
function views.select(x, a) local key = {}; for d = 1, #x.shape do key[d] = d == a[1] and a[2] or {} end return slice(x, key) end
function views.narrow(x, a) local key = {}; for d = 1, #x.shape do key[d] = d == a[1] and { a[2], a[2] + a[3] - 1 } or {} end return slice(x, key) end
function views.unsqueeze(x, d) local s = { table.unpack(x.shape) }; table.insert(s, d, 1); return reshape(x, s) end
function views.flip(x, d) local key = {}; for k = 1, #x.shape do key[k] = k == d and x.shape[k] > 0 and { -1, 1, -1 } or {} end return slice(x, key) end
for _, f in ipairs { "clone", "detach", "contiguous" } do views[f] = function(x) return x end end
function views.diagonal(x) local n = math.min(x.shape[1], x.shape[2]); return view(x, { n }, function(ix) return { ix[1], ix[1] } end) end
function views.tril(x) return make(x.shape, x.dtype, function(ix) if ix[#ix] > ix[#ix - 1] then return round(x.dtype, 0), 0 end return element(x, ix) end) end
O.views = views

function O.cat(list, d, wide)
  local dtype, shape = list[1].dtype, { table.unpack(list[1].shape) }
  for i = 2, #list do dtype = O.promote(dtype, list[i].dtype); shape[d] = shape[d] + list[i].shape[d] end
  for i, x in ipairs(list) do list[i] = cast(x, dtype, wide) end
  return make(shape, dtype, function(ix)
    local at_, i = { table.unpack(ix) }, 1
    while at_[d] > list[i].shape[d] do at_[d] = at_[d] - list[i].shape[d]; i = i + 1 end
    return element(list[i], at_)
  end)
end
function O.pad(x, before, after, value)
  local shape = {}
  for d = 1, #x.shape do shape[d] = x.shape[d] + before[d] + after[d] end
  return make(shape, x.dtype, function(ix)
    local at_ = {}
    for d = 1, #ix do
      at_[d] = ix[d] - before[d]
      if at_[d] < 1 or at_[d] > x.shape[d] then return round(x.dtype, value), 0 end
    end
    return element(x, at_)
  end)
end
function O.index_select(x, d, idx)
  local shape = { table.unpack(x.shape) }
  shape[d] = idx.shape[1]
  return view(x, shape, function(ix) local at_ = { table.unpack(ix) }; at_[d] = idx.v[ix[d]]; return at_ end)
end
function O.embedding(ids, w)
  local shape = { table.unpack(ids.shape) }
  shape[#shape + 1] = w.shape[2]
  return view(w, shape, function(ix) return { at(ids.v, { table.unpack(ix, 1, #ix - 1) }), ix[#ix] } end)
end
function O.gather(x, d, idx)
  return view(x, idx.shape, function(ix) local at_ = { table.unpack(ix) }; at_[d] = at(idx.v, ix); return at_ end)
end
--- x with src stored or added, in order, where place(ix of src) says.
local function put(x, src, place, add, wide)
  local hit = {}
  src = cast(src, x.dtype, wide)
  build(src.shape, function(ix)
    local n = linear(place(ix), x.shape)
    hit[n] = hit[n] or {}
    table.insert(hit[n], { element(src, ix) })
  end)
  return make(x.shape, x.dtype, function(ix)
    local y, e = element(x, ix)
    local list = hit[linear(ix, x.shape)]
    if not list then return y, e end
    if not add then return list[#list][1], list[#list][2] end
    table.insert(list, 1, { y, e })
    y, e = folds.sum(list, x.dtype, wide)
    return round(x.dtype, y, wide), e
  end)
end
function O.scatter(x, d, idx, src, add, wide)
  return put(x, src, function(ix) local at_ = { table.unpack(ix) }; at_[d] = at(idx.v, ix); return at_ end, add, wide)
end
function O.index_add(x, d, idx, src, wide)
  return put(x, src, function(ix) local at_ = { table.unpack(ix) }; at_[d] = idx.v[ix[d]]; return at_ end, true, wide)
end
function O.set(x, key, v, wide)
  local box, out = boxes(key, x.shape)
  v = expand(type(v) == "number" and { shape = {}, dtype = x.dtype, v = round(x.dtype, v, wide), e = 0 } or cast(v, x.dtype, wide), out)
  return put(x, v, function(ix)
    local at_, k = {}, 0
    for d, b in ipairs(box) do
      if not b[4] then k = k + 1 end
      at_[d] = b[4] and b[1] or b[1] + (ix[k] - 1) * b[2]
    end
    return at_
  end, false, wide)
end

-- ---- random numbers: Philox4x32-10 ---------------------------------------------------------------------------
local function philox(block, seed)
  local c0, c1, c2, c3, k0, k1 = block & 0xffffffff, block >> 32, 0, 0, seed & 0xffffffff, seed >> 32
  for _ = 1, 10 do
    local p, q = 0xD2511F53 * c0, 0xCD9E8D57 * c2
    c0, c1, c2, c3 = (q >> 32) ~ c1 ~ k0, q & 0xffffffff, (p >> 32) ~ c3 ~ k1, p & 0xffffffff
    k0, k1 = (k0 + 0x9E3779B9) & 0xffffffff, (k1 + 0xBB67AE85) & 0xffffffff
  end
  return { [0] = c0, c1, c2, c3 }
end
--- rng = { seed, counter }; kind: rand (f32 or f64), randn (f32), randint (1 to 6).
function O.random(rng, kind, shape, dtype)
  local n, base = numel(shape), rng.counter
  local wide = kind == "randint" or dtype == "f64"
  rng.counter = base + ((wide and 2 * n or n) + 3) // 4
  return make(shape, kind == "randint" and "i64" or dtype, function(ix)
    local i = linear(ix, shape)
    local w = philox(base + (wide and i // 2 or i // 4), rng.seed)
    if wide then
      local k = i % 2 * 2
      if kind == "randint" then return 1 + math.tointeger(floor((w[k] * 6 + (w[k + 1] * 6 >> 32)) >> 32)), 0 end
      return ((w[k] << 32 | w[k + 1]) >> 11) * 2^-53, 0
    end
    if kind == "rand" then return (w[i % 4] >> 8) * 2^-24, 0 end
    local a, b = w[i % 4 // 2 * 2], w[i % 4 // 2 * 2 + 1]
    local turn = 2 * math.pi * b * 2^-32
    local y = round("f32", math.sqrt(-2 * math.log((a + 0.5) * 2^-32)) * (i % 2 == 0 and math.cos(turn) or math.sin(turn)))
    return y, 2^-20 * (1 + abs(y))
  end)
end

-- ---- steps -------------------------------------------------------------------------------------------------
local S = {}
local function operand(vars, s) if s.b then return vars[s.b].x end return s.n end
--- Runs one step; vars[i] = { x = value, view = made by a view function }.
function O.step(vars, s, rng, wide)
  local y = S[s.f](s, vars[s.a] and vars[s.a].x, vars, rng, wide)
  if y then vars[s.o] = { x = y, view = s.isview } end
  return y
end
function S.leaf(s, _, _, _, wide)
  return make(s.shape, s.dtype, function(ix) return round(s.dtype, at(s.data, ix), wide), 0 end)
end
function S.un(s, x, _, _, wide) return un(s.op, wide, x) end
function S.bin(s, x, vars, _, wide)
  local y = operand(vars, s)
  if s.rev then x, y = y, x end
  return bin(s.op, wide, x, y)
end
function S.where(s, x, vars, _, wide) return O.where(x, vars[s.b].x, s.c and vars[s.c].x or s.n, wide) end
function S.clamp(s, x, _, _, wide) return O.clamp(x, s.lo, s.hi, wide) end
function S.red(s, x, _, _, wide)
  if O[s.op] then return O[s.op](x, s.axes, s.keep, wide) end
  return reduce(s.op, x, s.axes, s.keep, wide)
end
function S.maxd(s, x, vars)
  vars[s.o2] = { x = reduce("arg" .. s.op, x, { s.d }, s.keep) }
  return reduce("a" .. s.op, x, { s.d }, s.keep)
end
function S.view(s, x) return views[s.op](x, s.arg) end
function S.join(s, _, vars, _, wide)
  local list = {}
  for i, k in ipairs(s.list) do list[i] = s.op == "stack" and views.unsqueeze(vars[k].x, s.d) or vars[k].x end
  return O.cat(list, s.d, wide)
end
function S.pad(s, x) return O.pad(x, s.before, s.after, s.value) end
function S.gather(s, x, vars) return O.gather(x, s.d, vars[s.i].x) end
function S.index_select(s, x, vars) return O.index_select(x, s.d, vars[s.i].x) end
function S.embedding(s, x, vars) return O.embedding(vars[s.i].x, x) end
function S.scatter(s, x, vars, _, wide) return O.scatter(x, s.d, vars[s.i].x, vars[s.b].x, s.add, wide) end
function S.index_add(s, x, vars, _, wide) return O.index_add(x, s.d, vars[s.i].x, vars[s.b].x, wide) end
function S.mm(s, x, vars, _, wide) return O.matmul(x, vars[s.b].x, wide) end
function S.softmax(s, x, _, _, wide) return O.softmax(x, s.d, wide, s.log) end
function S.layer_norm(s, x, vars, _, wide) return O.layer_norm(x, s.w and vars[s.w].x, s.b and vars[s.b].x, wide) end
function S.cross_entropy(s, x, vars, _, wide) return O.cross_entropy(x, vars[s.i].x, s.how, wide) end
function S.silu(_, x, _, _, wide)
  local w = widened(x, wide)
  return back(bin("mul", wide, w, un("sigmoid", wide, w)), x, wide)
end
function S.cast(s, x, _, _, wide) return cast(x, s.dtype, wide) end
function S.rand(s, _, _, rng) return O.random(rng, s.kind, s.shape, s.dtype) end
function S.dead(s, _, _, rng) O.random(rng, s.kind, s.shape, s.dtype) end
function S.branch(s, x, vars, _, wide)
  return bin(x.v > s.thr and "add" or "sub", wide, vars[s.b].x, vars[s.c].x)
end
function S.set(s, x, vars, _, wide) vars[s.a] = { x = O.set(x, s.key, operand(vars, s), wide) } end
function S.inplace(s, x, vars, _, wide)
  local y
  if s.op == "copy" then y = operand(vars, s)
  elseif s.op == "fill" then y = { shape = {}, dtype = x.dtype, v = round(x.dtype, s.n, wide), e = 0 }
  elseif O.unary[s.op] then y = un(s.op, wide, x)
  else y = bin(s.op, wide, x, operand(vars, s)) end
  vars[s.a] = { x = expand(cast(y, x.dtype, wide), x.shape) }
end
function S.del(s, _, vars) vars[s.a] = nil end
for _, f in ipairs { "read", "gc", "refuse", "error", "late", "backward" } do S[f] = function() end end
return O
