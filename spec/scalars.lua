--- What dtypes hold and what ops make of single numbers, in plain Lua and in f64: definitions
-- (series, continued fractions, recurrences) that share no code with the library. The walk over all
-- ops, the random numbers and the oracle of the random programs rest on them.
--
--   name = { f [, ulps = n] [, near = d] }
-- f takes Lua numbers: floats, or integers for the integer dtypes; bools are 0 and 1. ulps: how many
-- units in the last place the library may be off (0: every bit is determined). near: an absolute
-- allowance in units of 1 (where the result crosses 0). Tests give 0 or 1. An op without an entry
-- here fails the walk.
local huge, abs, floor, exp, pi = math.huge, math.abs, math.floor, math.exp, math.pi
local function isint(x) return math.type(x) == "integer" end
--- wide = true: floats are not rounded (for numeric derivatives).
local O = { wide = false }

-- ---- dtypes -----------------------------------------------------------------------------------
--- rank in promotion; floats: half a unit in the last place of 1, the least value, where a half
-- type ends; integers: the ends.
O.types = {
  f64 = { rank = 8, eps = 2^-53, tiny = 2^-1074 }, f32 = { rank = 7, eps = 2^-24, tiny = 2^-149 },
  f16 = { rank = 6, eps = 2^-11, tiny = 2^-24, top = 2^16 },
  bf16 = { rank = 6, eps = 2^-8, tiny = 2^-133, top = 2^128 },
  i64 = { rank = 5, low = math.mininteger, high = math.maxinteger },
  i32 = { rank = 4, low = -2147483648, high = 2147483647 },
  i16 = { rank = 3, low = -32768, high = 32767 }, i8 = { rank = 2, low = -128, high = 127 },
  u8 = { rank = 2, low = 0, high = 255 }, bool = { rank = 1 },
}
local types = O.types
local function rint(x)                 -- halves to even
  local r = floor(x)
  local d = x - r
  return (d > 0.5 or d == 0.5 and r % 2 == 1) and r + 1 or r
end
local function trunc(x) return x < 0 and math.ceil(x) or floor(x) end
--- y as a dtype holds it: floats rounded (a half type by way of f32), integers wrapped.
function O.round(dtype, y)
  local t = types[dtype]
  if dtype == "bool" then return y ~= 0 and 1 or 0 end
  if not t.eps then return (math.tointeger(y) - t.low & t.high - t.low) + t.low end
  y = y * 1.0
  if O.wide or dtype == "f64" or y ~= y or y == 0 then return y end
  local bits = string.pack("<f", y)
  y = string.unpack("<f", bits)
  if dtype == "f32" or abs(y) == huge or y == 0 then return y end
  local exponent = (string.unpack("<I4", bits) >> 23 & 255) - 127
  local step = math.max(2.0^exponent * 2 * t.eps, t.tiny)
  local r = rint(y / step) * step
  return abs(r) >= t.top and (y > 0 and huge or -huge) or r == 0 and y * 0.0 or r
end
--- Half a unit in the last place of y in memory; the unit of the register that 'dtype' computes in.
function O.slack(dtype, y)
  local t = types[dtype]
  return t.eps and (O.wide and 2^-50 or t.eps) * abs(y) + t.tiny or 0
end
function O.unit(dtype) return O.wide and 2^-50 or types[dtype == "f64" and "f64" or "f32"].eps end
function O.is_float(dtype) return types[dtype].eps ~= nil end
--- The dtype that two meet in.
function O.promote(a, b)
  local p, q = types[a].rank, types[b].rank
  if p == q and a ~= b then return p == 2 and "i16" or "f32" end
  return p > q and a or b
end
--- Float to integer truncates and saturates, NaN gives 0; integers wrap.
function O.convert(from, to, x)
  local t = types[to]
  if not types[from].eps or not t.high then return O.round(to, x) end
  return x ~= x and 0 or trunc(math.max(t.low, math.min(t.high, x)))
end

-- ---- Philox4x32-10 ------------------------------------------------------------------------------
local M = 0xffffffff
--- Ten rounds over a counter of four words with a key of two.
function O.philox(c, k)
  local a, b, x, y, k0, k1 = c[1], c[2], c[3], c[4], k[1], k[2]
  for _ = 1, 10 do
    local p, q = 0xD2511F53 * a, 0xCD9E8D57 * x                       -- 64 bits, wrapping is exact here
    a, b, x, y = (q >> 32) ~ b ~ k0, q & M, (p >> 32) ~ y ~ k1, p & M
    k0, k1 = (k0 + 0x9E3779B9) & M, (k1 + 0xBB67AE85) & M
  end
  return { a, b, x, y }
end
--- The four words that a context with this seed draws at 'counter'.
function O.words(counter, seed)
  return O.philox({ counter & M, counter >> 32 & M, 0, 0 }, { seed & M, seed >> 32 & M })
end

--- Number i (from 0) of a tensor drawn from 'counter' on, and its bound; randint: from 1 to 6.
O.draws = {}
function O.draws.rand(i, counter, seed, dtype)
  if dtype ~= "f64" then return (O.words(counter + i // 4, seed)[i % 4 + 1] >> 8) * 2^-24, 0 end
  local w, k = O.words(counter + i // 2, seed), i % 2 * 2
  return ((w[k + 1] << 32 | w[k + 2]) >> 11) * 2^-53, 0
end
function O.draws.randint(i, counter, seed)
  local w, k = O.words(counter + i // 2, seed), i % 2 * 2
  return 1 + ((w[k + 1] * 6 + (w[k + 2] * 6 >> 32)) >> 32), 0
end
function O.draws.randn(i, counter, seed)                -- Box and Muller, two at a time
  local w, k = O.words(counter + i // 4, seed), i % 4 // 2 * 2
  local turn, radius = 2 * pi * w[k + 2] * 2^-32, math.sqrt(-2 * math.log((w[k + 1] + 0.5) * 2^-32))
  local y = radius * (i % 2 == 0 and math.cos(turn) or math.sin(turn))
  -- near radius 0 the bound is the width of f32 below 1
  return O.round("f32", y), 2^-20 * (1 + abs(y)) + 2^-23 / radius
end

-- ---- functions that Lua has not -------------------------------------------------------------
local function expm1(x)
  if abs(x) > 0.5 then return exp(x) - 1 end
  local sum, term = 0.0, 1.0
  for k = 1, 25 do
    term = term * x / k
    sum = sum + term
  end
  return sum
end
local function atanh(x)
  if abs(x) > 0.5 then return 0.5 * math.log((1 + x) / (1 - x)) end
  local sum, term = 0.0, x
  for k = 1, 80, 2 do
    sum = sum + term / k
    term = term * x * x
  end
  return sum
end
local function log1p(x)
  if abs(x) > 0.3 then return math.log(1 + x) end
  return 2 * atanh(x / (2 + x))
end
local function sinh(x)
  local e = expm1(abs(x))
  local y = (e + e / (e + 1)) / 2
  return x < 0 and -y or y
end
local function tanh(x)
  if abs(x) > 20 then return x > 0 and 1.0 or -1.0 end
  local e = expm1(2 * x)
  return e / (e + 2)
end
local function asinh(x)
  local a = abs(x)
  local y = log1p(a + a * a / (1 + math.sqrt(1 + a * a)))
  return x < 0 and -y or y
end
local function acosh(x)
  local t = x - 1
  return log1p(t + math.sqrt(2 * t + t * t))
end
--- 1 - erf(x) for x >= 1 by its continued fraction, from the end.
local function erfc_tail(x)
  local f = 0.0
  for k = 300, 1, -1 do f = k / 2 / (x + f) end
  return exp(-x * x) / math.sqrt(pi) / (x + f)
end
local function erf(x)
  local a = abs(x)
  if a >= 2.5 then return x > 0 and 1 - erfc_tail(a) or erfc_tail(a) - 1 end
  local sum, term = 0.0, a
  for k = 0, 80 do
    sum = sum + term
    term = term * 2 * a * a / (2 * k + 3)
  end
  local y = 2 / math.sqrt(pi) * exp(-a * a) * sum
  return x < 0 and -y or y
end
local function erfc(x)
  if x >= 1 then return erfc_tail(x) end
  return 1 - erf(x)
end
--- Newton on erf from Winitzki's start.
local function erfinv(y)
  if abs(y) == 1 then return y * huge end
  local l = math.log(1 - y * y)
  local t = 2 / (pi * 0.147) + l / 2
  local x = math.sqrt(math.sqrt(t * t - l / 0.147) - t)
  if y < 0 then x = -x end
  for _ = 1, 4 do x = x - (erf(x) - y) * math.sqrt(pi) / 2 * exp(x * x) end
  return y == 0 and y or x
end
--- Stirling above 12, the recurrence below; x > 0.
local function lgamma(x)
  local product = 1.0
  while x < 12 do
    product = product * x
    x = x + 1
  end
  local z = 1 / (x * x)
  local series = (1 / 12 - z * (1 / 360 - z * (1 / 1260 - z * (1 / 1680 - z * (1 / 1188 - z * 691 / 360360))))) / x
  return (x - 0.5) * math.log(x) - x + 0.5 * math.log(2 * pi) + series - math.log(product)
end
local function digamma(x)
  local sum = 0.0
  while x < 24 do
    sum = sum - 1 / x
    x = x + 1
  end
  local z = 1 / (x * x)
  return sum + math.log(x) - 0.5 / x - z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z / 132))))
end
local function trigamma(x)
  local sum = 0.0
  while x < 24 do
    sum = sum + 1 / (x * x)
    x = x + 1
  end
  local z = 1 / (x * x)
  return sum + 1 / x + z / 2 + (1 / 6 - z * (1 / 30 - z * (1 / 42 - z * (1 / 30 - z * 5 / 66)))) * z / x
end
local function cbrt(x)
  if x == 0 then return x end
  local a = abs(x)
  local y = a ^ (1 / 3)
  y = y - (y * y * y - a) / (3 * y * y)
  return x < 0 and -y or y
end
--- To a float again, with the sign of x for zeros; integers stay.
local function whole(f)
  return function(x)
    if isint(x) then return x end
    local r = f(x)
    return r == 0 and x * 0.0 or r * 1.0
  end
end
local function truth(b) return b and 1 or 0 end

-- ---- unary ------------------------------------------------------------------------------------
O.unary = {
  neg = { function(x) return -x end }, abs = { function(x) return isint(x) and (x < 0 and -x or x) or abs(x) end },
  sign = { function(x) return x > 0 and 1 or x < 0 and -1 or x == 0 and 0 or x end }, square = { function(x) return x * x end },
  sqrt = { math.sqrt }, rsqrt = { function(x) return 1 / math.sqrt(x) end, ulps = 1 },
  reciprocal = { function(x) return 1 / x end }, cbrt = { cbrt, ulps = 3 }, exp = { exp, ulps = 3 },
  exp2 = { function(x) return 2.0 ^ x end, ulps = 3 }, expm1 = { expm1, ulps = 3 }, log = { math.log, ulps = 3 },
  log2 = { function(x) return math.log(x, 2) end, ulps = 3 }, log10 = { function(x) return math.log(x, 10) end, ulps = 3 },
  log1p = { log1p, ulps = 4 }, sin = { math.sin, ulps = 3 }, cos = { math.cos, ulps = 3 }, tan = { math.tan, ulps = 4 },
  asin = { math.asin, ulps = 3 }, acos = { math.acos, ulps = 3 }, atan = { math.atan, ulps = 3 }, sinh = { sinh, ulps = 4 },
  cosh = { function(x) return (exp(x) + exp(-x)) / 2 end, ulps = 4 }, tanh = { tanh, ulps = 6 },
  asinh = { asinh, ulps = 6 }, acosh = { acosh, ulps = 6 }, atanh = { atanh, ulps = 6 }, erf = { erf, ulps = 6 },
  erfc = { erfc, ulps = 40 }, erfinv = { erfinv, ulps = 20 }, lgamma = { lgamma, ulps = 12, near = 60 },
  digamma = { digamma, ulps = 12, near = 12 }, trigamma = { trigamma, ulps = 20 },
  floor = { whole(floor) }, ceil = { whole(math.ceil) }, round = { whole(rint) }, trunc = { whole(trunc) },
  frac = { function(x) return x - whole(trunc)(x) end }, relu = { function(x) return x <= 0 and 0 or x end },
  sigmoid = { function(x) return 1 / (1 + exp(-x)) end, ulps = 4 },
  softplus = { function(x) return x > 0 and x + log1p(exp(-x)) or log1p(exp(x)) end, ulps = 5 },
  isnan = { function(x) return truth(x ~= x) end }, isinf = { function(x) return truth(abs(x) == huge) end },
  isfinite = { function(x) return truth(x == x and abs(x) ~= huge) end },
  logical_not = { function(x) return truth(x == 0) end }, bitwise_not = { function(x) return ~x end },
}

-- ---- binary, ternary ------------------------------------------------------------------------------
local function modulo(a, b)
  if isint(a) then return b == 0 and 0 or a % b end
  local r = math.fmod(a, b)
  return r ~= 0 and (r < 0) ~= (b < 0) and r + b or r
end
O.binary = {
  add = { function(a, b) return a + b end }, sub = { function(a, b) return a - b end }, mul = { function(a, b) return a * b end },
  div = { function(a, b) return a / b end },
  pow = { function(a, b)
    if not isint(a) then return a ^ b end
    if b < 0 then return a == 1 and 1 or a == -1 and (b % 2 == 0 and 1 or -1) or 0 end
    local y = 1
    for _ = 1, b do y = y * a end
    return y
  end, ulps = 3 },
  floordiv = { function(a, b)
    if isint(a) then return b == 0 and 0 or a // b elseif b == 0 then return a / b end
    if abs(b) == huge and abs(a) < huge then return a ~= 0 and (a < 0) ~= (b < 0) and -1 or 0 end
    return floor((a - modulo(a, b)) / b + 0.5) * 1.0
  end, ulps = 1 },
  mod = { modulo },
  fmod = { function(a, b) if isint(a) then return b == 0 and 0 or math.fmod(a, b) end return math.fmod(a, b) end },
  maximum = { function(a, b) return (a ~= a or a > b) and a or b end },
  minimum = { function(a, b) return (a ~= a or a < b) and a or b end },
  atan2 = { math.atan, ulps = 3 }, hypot = { function(a, b) return math.sqrt(a * a + b * b) end, ulps = 2 },
  copysign = { function(a, b) return (b < 0 or b == 0 and 1 / b < 0) and -abs(a) or abs(a) end },
  eq = { function(a, b) return truth(a == b) end }, ne = { function(a, b) return truth(a ~= b) end },
  lt = { function(a, b) return truth(a < b) end }, le = { function(a, b) return truth(a <= b) end },
  gt = { function(a, b) return truth(a > b) end }, ge = { function(a, b) return truth(a >= b) end },
  logical_and = { function(a, b) return truth(a ~= 0 and b ~= 0) end },
  logical_or = { function(a, b) return truth(a ~= 0 or b ~= 0) end },
  logical_xor = { function(a, b) return truth((a ~= 0) ~= (b ~= 0)) end },
  bitwise_and = { function(a, b) return a & b end }, bitwise_or = { function(a, b) return a | b end },
  bitwise_xor = { function(a, b) return a ~ b end },
}
--- Ops that give floats of all dtypes, and those that give bool; the others keep the dtype.
for name in ("reciprocal sqrt rsqrt exp log sin cos tanh sigmoid"):gmatch "%w+" do O.unary[name].float = true end
for name in ("div pow atan2"):gmatch "%w+" do O.binary[name].float = true end
for name in ("logical_not isnan isfinite"):gmatch "[%w_]+" do O.unary[name].test = true end
for name in ("eq ne lt le gt ge logical_and logical_or"):gmatch "[%w_]+" do O.binary[name].test = true end
O.ternary = {
  where = { function(c, a, b) return c ~= 0 and a or b end },
  clamp = { function(x, low, high) return math.min(math.max(x, low), high) end },
}

-- ---- reductions: of a list -------------------------------------------------------------------------
local function fold(start, f)
  return function(row)
    local y = start
    for _, v in ipairs(row) do y = f(y, v) end
    return y
  end
end
local function first_of(better)
  return function(row)
    local k = 1
    for i, v in ipairs(row) do if row[k] == row[k] and (v ~= v or better(v, row[k])) then k = i end end
    return k, row[k]
  end
end
local largest, smallest = first_of(function(a, b) return a > b end), first_of(function(a, b) return a < b end)
--- empty: what an empty row gives; nil: it raises.
O.reduce = {
  sum = { fold(0, function(a, b) return a + b end), empty = 0 }, prod = { fold(1, function(a, b) return a * b end), empty = 1 },
  amax = { function(row) return (select(2, largest(row))) end }, amin = { function(row) return (select(2, smallest(row))) end },
  argmax = { function(row) return (largest(row)) end }, argmin = { function(row) return (smallest(row)) end },
  any = { fold(0, function(a, b) return (a ~= 0 or b ~= 0) and 1 or 0 end), empty = 0 },
  all = { fold(1, function(a, b) return (a ~= 0 and b ~= 0) and 1 or 0 end), empty = 1 },
}
return O
