--- What ops should give: a second evaluator, in plain Lua on nested tables, that shares no code with the library.
-- Slow, small, and meant to be read. A value is { shape =, dtype =, v = nested table (0-d: a number), e = bound }. e says how
-- far the library may be off: a nested table like v, or 0 where every bit is determined. Ops that IEEE rounds correctly keep
-- e = 0, others add units in the last place; an op of uncertain operands is tried at the ends of their intervals, so that
-- what depends on a doubtful comparison is bound by 1. Bools are 0 and 1. O.wide = true: floats are not rounded (for
-- numeric derivatives).
local O = { wide = false }
local huge, abs, floor = math.huge, math.abs, math.floor
local BITS = { i64 = 64, i32 = 32, i16 = 16, i8 = 8, u8 = 8 }
local EPS = { f64 = 2^-53, f32 = 2^-24, f16 = 2^-11, bf16 = 2^-8 }
local TINY = { f64 = 2^-1074, f32 = 2^-149, f16 = 2^-24, bf16 = 2^-133 }
local RANK = { bool = 1, u8 = 2, i8 = 2, i16 = 3, i32 = 4, i64 = 5, f16 = 6, bf16 = 6, f32 = 7, f64 = 8 }
function O.is_float(dtype) return EPS[dtype] ~= nil end
local function is_half(dtype) return dtype == "f16" or dtype == "bf16" end
local function isint(x) return math.type(x) == "integer" end

-- ---- numbers -------------------------------------------------------------------------------------------------
local function rint(x)                                  -- halves to even
  local r = floor(x)
  local d = x - r
  return (d > 0.5 or d == 0.5 and r % 2 == 1) and r + 1 or r
end
local function trunc(x) return x < 0 and math.ceil(x) or floor(x) end
--- f of floats only, with the sign of x for zeros.
local function integral(f)
  return function(x)
    if isint(x) or x ~= x or abs(x) >= 2^52 then return x end
    local r = f(x)
    return r == 0 and x * 0.0 or r * 1.0
  end
end
local round_half = integral(rint)
function O.round(dtype, y)
  if EPS[dtype] then
    y = y * 1.0
    if O.wide or dtype == "f64" or y ~= y or y == 0 then return y end
    y = string.unpack("f", string.pack("f", y))
    if dtype == "f32" or abs(y) == huge then return y end
    local b = string.unpack("I4", string.pack("f", y))
    if dtype == "bf16" then return (string.unpack("f", string.pack("I4", b + 0x7fff + (b >> 16 & 1) & 0xffff0000))) end
    local q = 2.0^(math.max((b >> 23 & 255) - 127, -14) - 10)
    y = round_half(y / q) * q
    return abs(y) >= 65520 and (y > 0 and huge or -huge) or y
  end
  if dtype == "bool" then return y ~= 0 and 1 or 0 end
  local n = BITS[dtype]
  y = n == 64 and y or y & (1 << n) - 1
  return n < 64 and dtype ~= "u8" and y >= 1 << n - 1 and y - (1 << n) or y
end
local round = O.round
local function convert(from, to, x)                     -- float to integer truncates and saturates, NaN gives 0; integers wrap
  if EPS[to] or not EPS[from] or to == "bool" then return round(to, x) end
  local half = BITS[to] == 64 and math.mininteger or -(1 << BITS[to] - 1)
  local low, high = to == "u8" and 0 or half, to == "u8" and 255 or -(half + 1)
  if x ~= x then return 0 elseif x <= low then return low elseif x >= high then return high end
  return math.tointeger(trunc(x))
end

-- ---- nested tables ---------------------------------------------------------------------------------------------
local function at(t, ix) for i = 1, #ix do t = t[ix[i]] end return t end
local function build(shape, f, ix, d)
  ix, d = ix or {}, d or 1
  if d > #shape then return f(ix) end
  local t = {}
  for i = 1, shape[d] do ix[d] = i; t[i] = build(shape, f, ix, d + 1) end
  ix[d] = nil
  return t
end
function O.numel(shape) local n = 1; for _, s in ipairs(shape) do n = n * s end return n end
local function element(x, ix) return at(x.v, ix), x.e == 0 and 0 or at(x.e, ix) end
--- A value whose elements f(ix) gives, with their bounds.
function O.make(shape, dtype, f)
  local errs, any, k = {}, false, 0
  local v = build(shape, function(ix)
    local y, e = f(ix)
    any = any or e ~= 0
    errs[#errs + 1] = e ~= e and huge or e
    return y
  end)
  return { shape = shape, dtype = dtype, v = v, e = any and build(shape, function() k = k + 1; return errs[k] end) or 0 }
end
local make = O.make
function O.flat(x) local t = {}; build(x.shape, function(ix) t[#t + 1] = { element(x, ix) } end) return t end
local function moved(ix, d, i) local t = { table.unpack(ix) }; t[d] = i; return t end
local function view(x, shape, from) return make(shape, x.dtype, function(ix) return element(x, from(ix)) end) end
function O.joint(a, b)                                  -- the broadcast shape, or nil
  local s = {}
  for k = 1, math.max(#a, #b) do
    local p, q = a[#a + 1 - k] or 1, b[#b + 1 - k] or 1
    if p ~= q and p ~= 1 and q ~= 1 then return nil end
    table.insert(s, 1, p == 1 and q or p)
  end
  return s
end
local function clip(ix, shape)                          -- ix of a broadcast result
  local t = {}
  for d = 1, #shape do t[d] = shape[d] == 1 and 1 or ix[#ix - #shape + d] end
  return t
end

-- ---- elementwise -----------------------------------------------------------------------------------------------
local function eps(dtype) return O.wide and 2^-50 or EPS[dtype == "f64" and "f64" or "f32"] end      -- of the register
local function slack(dtype, y) return (O.wide and 2^-50 or EPS[dtype] or 0) * abs(y) + (TINY[dtype] or 0) end
--- f over broadcast operands; 'ulps' is 0 where the bits are determined.
local function apply(dtype, f, ulps, ...)
  local xs, shape = { ... }, {}
  for _, x in ipairs(xs) do shape = O.joint(shape, x.shape) end
  return make(shape, dtype, function(ix)
    local v, es, sum = {}, {}, 0
    for i, x in ipairs(xs) do v[i], es[i] = element(x, clip(ix, x.shape)) end
    local y = f(v[1], v[2], v[3])
    for i = 1, #xs do
      local keep, e, other = v[i], es[i], v[3 - i] or 0
      local zero, tie = abs(keep) <= e and 0 * keep or keep, abs(keep - other) <= e + (es[3 - i] or 0) and other or keep
      for _, p in pairs(e == 0 and {} or { keep + e, keep - e, zero, tie }) do
        v[i] = p
        local z = f(v[1], v[2], v[3])
        if z ~= y then sum = sum + abs(z - y) end
      end
      v[i] = keep
    end
    y = round(dtype, y)
    local n = ulps + (sum ~= 0 and 1 or 0)
    return y, (n == 0 or y ~= y and sum == 0) and 0 or sum + 2 * n * slack(dtype, y)
  end)
end
function O.cast(x, dtype) return x.dtype == dtype and x or apply(dtype, function(a) return convert(x.dtype, dtype, a) end, 0, x) end
local cast = O.cast
function O.promote(a, b)
  if RANK[a] == RANK[b] and a ~= b then return RANK[a] == 2 and "i16" or "f32" end
  return RANK[a] > RANK[b] and a or b
end
--- What a tensor of 'dtype' and the number n compute in; the number as a value of the register's width.
local function with_number(dtype, n) return EPS[dtype] and dtype or not isint(n) and "f32" or dtype == "bool" and "i64" or dtype end
local function number(n, dtype) return { shape = {}, dtype = dtype, e = 0, v = is_half(dtype) and round("f32", n) or round(dtype, n) } end
function O.constant(n, dtype) return { shape = {}, dtype = dtype, e = 0, v = round(dtype, n) } end

local function tanh(x)
  local z = x * x
  if z < 0.01 then return x * (1 - z * (1 / 3 - z * (2 / 15 - z * (17 / 315 - z * (62 / 2835 - z * (1382 / 155925)))))) end
  local t = math.exp(-2 * abs(x))
  return (x < 0 and -1 or 1) * (1 - t) / (1 + t)
end
local function positive(f) return function(x) return x < 0 and 0 / 0 or f(x) end end
--- name = { f, ulps, kind } with the kinds of the op table: F floats, N no bool, S any, T test, I integers. Four units for exp and its kin.
O.unary = {
  neg = { function(x) return -x end, 0, "N" }, abs = { function(x) return isint(x) and (x < 0 and -x or x) or abs(x) end, 0, "N" },
  sign = { function(x) return x ~= x and x or x > 0 and 1 or x < 0 and -1 or 0 end, 0, "N" },
  square = { function(x) return x * x end, 0, "N" }, cos = { math.cos, 4, "F" }, tanh = { tanh, 40, "F" },
  sqrt = { positive(math.sqrt), 0, "F" }, rsqrt = { positive(function(x) return 1 / math.sqrt(x) end), 1, "F" },
  reciprocal = { function(x) return 1 / x end, 0, "F" }, exp = { math.exp, 4, "F" }, log = { positive(math.log), 4, "F" },
  sin = { math.sin, 4, "F" }, sigmoid = { function(x) return 1 / (1 + math.exp(-x)) end, 4, "F" },
  relu = { function(x) return x <= 0 and 0 or x end, 0, "N" }, floor = { integral(floor), 0, "N" }, ceil = { integral(math.ceil), 0, "N" },
  trunc = { integral(trunc), 0, "N" }, round = { integral(rint), 0, "N" }, isnan = { function(x) return x ~= x and 1 or 0 end, 0, "T" },
  isfinite = { function(x) return x == x and abs(x) ~= huge and 1 or 0 end, 0, "T" },
  logical_not = { function(x) return x == 0 and 1 or 0 end, 0, "T" }, bitwise_not = { function(x) return ~x end, 0, "I" },
}
local function mod(a, b)
  if isint(a) then return b == 0 and 0 or a % b end
  if abs(b) == huge and abs(a) < huge then return (a == 0 or a < 0 == (b < 0)) and a or b end
  local r = math.fmod(a, b)
  return r ~= 0 and (r < 0) ~= (b < 0) and r + b or r
end
local function floordiv(a, b)
  if isint(a) then return b == 0 and 0 or a // b end
  if b == 0 then return a / b end
  if abs(b) == huge and abs(a) < huge then return a ~= 0 and (a < 0) ~= (b < 0) and -1.0 or a / b end
  return floor((a - mod(a, b)) / b + 0.5) * 1.0
end
local function test(f) return { function(a, b) return f(a, b) and 1 or 0 end, 0, "T" } end
local function above(a, b) return a > b end
local function below(a, b) return a < b end
local function extreme(more) return function(a, b) return a ~= a and a or (b ~= b or more(b, a)) and b or a end end
O.binary = {
  add = { function(a, b) return a + b end, 0, "S" }, sub = { function(a, b) return a - b end, 0, "N" },
  mul = { function(a, b) return a * b end, 0, "S" }, div = { function(a, b) return a / b end, 0, "F" },
  maximum = { extreme(above), 0, "S" }, minimum = { extreme(below), 0, "S" }, bitwise_xor = { function(a, b) return a ~ b end, 0, "I" },
  floordiv = { floordiv, 1, "N" }, mod = { mod, 0, "N" }, pow = { function(a, b) return a ^ b end, 4, "F" }, atan2 = { math.atan, 4, "F" },
  eq = test(function(a, b) return a == b end), ne = test(function(a, b) return a ~= b end), lt = test(below), gt = test(above),
  le = test(function(a, b) return a <= b end), ge = test(function(a, b) return a >= b end),
  logical_and = test(function(a, b) return a ~= 0 and b ~= 0 end), logical_or = test(function(a, b) return a ~= 0 or b ~= 0 end),
  bitwise_and = { function(a, b) return a & b end, 0, "I" }, bitwise_or = { function(a, b) return a | b end, 0, "I" },
}
--- An op by name; a and b are values, or one of them a number.
function O.op(name, a, b)
  if name == "bitwise_not" and a.dtype == "bool" then name = "logical_not" end
  local def, dtype = b and O.binary[name] or O.unary[name]
  if type(a) == "number" then dtype = with_number(b.dtype, a)
  elseif type(b) == "number" then dtype = with_number(a.dtype, b)
  else dtype = b and O.promote(a.dtype, b.dtype) or a.dtype end
  if def[3] == "F" and not EPS[dtype] then dtype = "f32" end
  local function side(x) return type(x) == "number" and number(x, dtype) or x and cast(x, dtype) end
  return apply(def[3] == "T" and "bool" or dtype, def[1], def[2], side(a), side(b) or nil)
end
local op = O.op
function O.where(c, a, b)
  local dtype = type(b) == "number" and with_number(a.dtype, b) or O.promote(a.dtype, b.dtype)
  b = type(b) == "number" and number(b, dtype) or cast(b, dtype)
  return apply(dtype, function(p, x, y) return p == 1 and x or y end, 0, c, cast(a, dtype), b)
end

-- ---- reductions: folds over rows, lists of { v, e } --------------------------------------------------------------
local folds = {}
function folds.sum(row, dtype)
  local s, e, m = EPS[dtype] and 0.0 or 0, 0, 0
  for _, p in ipairs(row) do s, e, m = s + p[1], e + p[2], m + abs(p[1]) end
  if not EPS[dtype] then return round(dtype, s), e end
  if #row > 2 then e = e + #row * eps(dtype) * m end
  s = #row == 1 and row[1][1] or round(dtype, s)
  return s, e == 0 and 0 or e + 2 * slack(dtype, s)
end
function folds.prod(row, dtype)
  local s, far, small = EPS[dtype] and 1.0 or 1, 1, 1
  for _, p in ipairs(row) do s, small, far = s * p[1], small * abs(p[1]), far * (abs(p[1]) + p[2]) end
  if not EPS[dtype] then return s, 0 end
  return round(dtype, s), far - small + (#row < 2 and 0 or 2 * #row * (eps(dtype) * far + TINY.f32) + slack(dtype, s))
end
local function best(row, more)                          -- first position of the extreme, largest bound, is it certain
  local k, e, sure = 1, 0, true
  for i, p in ipairs(row) do
    if row[k][1] == row[k][1] and (p[1] ~= p[1] or more(p[1], row[k][1])) then k = i end
    e = math.max(e, p[2])
  end
  for i, p in ipairs(row) do sure = sure and (e == 0 or i == k or abs(p[1] - row[k][1]) > 2 * e) end
  return k, e, sure
end
for name, more in pairs { max = above, min = below } do
  folds["arg" .. name] = function(row) local k, _, sure = best(row, more); return k, sure and 0 or huge end
  folds["a" .. name] = function(row) local k, e = best(row, more); return row[k][1], e end
end
function folds.any(row) local y, e = 0, 0; for _, p in ipairs(row) do y = y | p[1]; e = math.max(e, p[2]) end return y, e end
function folds.all(row) local y, e = 1, 0; for _, p in ipairs(row) do y = y & p[1]; e = math.max(e, p[2]) end return y, e end
--- axes: list of positions, nil: all.
function O.reduce(name, x, axes, keep)
  local red, shape, sizes, n, dtype = {}, {}, {}, #x.shape, x.dtype
  for i = 1, axes and #axes or n do red[axes and axes[i] or i] = true end
  if (name == "sum" or name == "prod") and not EPS[dtype] then dtype = "i64" elseif name == "any" or name == "all" then dtype = "bool" end
  x = cast(x, dtype)
  for d = 1, n do
    if red[d] then sizes[#sizes + 1] = x.shape[d] end
    if not red[d] or keep then shape[#shape + 1] = red[d] and 1 or x.shape[d] end
  end
  return make(shape, name:find "^arg" and "i64" or dtype, function(ix)
    local row = {}
    build(sizes, function(rx)
      local t, i, j = {}, 0, 0
      for d = 1, n do
        if red[d] then j = j + 1 end
        if not red[d] or keep then i = i + 1 end
        t[d] = red[d] and rx[j] or ix[i]
      end
      row[#row + 1] = { element(x, t) }
    end)
    return folds[name](row, dtype)
  end)
end
local reduce = O.reduce
local function widen(x) return (is_half(x.dtype) or not EPS[x.dtype]) and cast(x, "f32") or x end
local function back(y, x) return is_half(x.dtype) and cast(y, x.dtype) or y end
local function share(s, x, less) return op("div", s, math.max(O.numel(x.shape) / math.max(O.numel(s.shape), 1) - less, 0)) end
function O.mean(x, axes, keep) return back(share(reduce("sum", widen(x), axes, keep), x, 0), x) end
function O.var(x, axes, keep)
  local w = widen(x)
  local d = op("square", op("sub", w, O.mean(w, axes, true)))
  return back(share(reduce("sum", d, axes, keep), x, 1), x)
end
function O.softmax(x, d, logarithm)
  local w = widen(x)
  if O.numel(w.shape) == 0 then return back(w, x) end
  local z = op("sub", w, reduce("amax", w, { d }, true))
  local e = op("exp", z)
  local s = reduce("sum", e, { d }, true)
  return back(logarithm and op("sub", z, op("log", s)) or op("div", e, s), x)
end
function O.matmul(a, b)
  local p = #a.shape == 1 and view(a, { 1, a.shape[1] }, function(ix) return { ix[2] } end) or a
  local q = #b.shape == 1 and view(b, { b.shape[1], 1 }, function(ix) return { ix[1] } end) or b
  local np, nq, k = #p.shape, #q.shape, p.shape[#p.shape]
  local pb, qb = { table.unpack(p.shape, 1, np - 2) }, { table.unpack(q.shape, 1, nq - 2) }
  local shape = O.joint(pb, qb)
  local nb = #shape
  if #a.shape > 1 then shape[#shape + 1] = p.shape[np - 1] end
  if #b.shape > 1 then shape[#shape + 1] = q.shape[nq] end
  return make(shape, a.dtype, function(ix)
    local batch, i, j, s, e = { table.unpack(ix, 1, nb) }, #a.shape > 1 and ix[nb + 1] or 1, #b.shape > 1 and ix[#ix] or 1, 0.0, 0
    local px, qx = clip(batch, pb), clip(batch, qb)
    for m = 1, k do
      px[np - 1], px[np], qx[nq - 1], qx[nq] = i, m, m, j
      local u, eu = element(p, px)
      local v, ev = element(q, qx)
      s, e = s + u * v, e + abs(u) * ev + abs(v) * eu + eu * ev + (k + 1) * eps(a.dtype) * abs(u * v)
    end
    s = round(a.dtype, s)
    return s, e + (k > 0 and 2 * slack(a.dtype, s) or 0)
  end)
end
O.view, O.element, O.folds, O.at, O.build, O.moved, O.widen, O.back, O.clip = view, element, folds, at, build, moved, widen, back, clip
return O
