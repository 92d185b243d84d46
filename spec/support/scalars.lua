--- What each op must give for single numbers, computed in plain Lua and in f64. Ops that random
--- programs use come from oracle.lua; the others are implemented here from definitions (series,
--- continued fractions, recurrences), without code of the library. The specs of all ops and of
--- random numbers use these values.
--
---   name = { f [, ulps = n] [, near = d] }
--- f takes Lua numbers: floats, or integers for the integer dtypes; bools are 0 and 1. ulps: the
--- largest error that the library may have, in units in the last place (0: every bit is
--- determined). near: an additional absolute error (where the result crosses 0). Comparisons give 0
--- or 1. An op without an entry here fails the specs.
local oracle = require "spec.support.oracle"
local huge, abs, exp, pi = math.huge, math.abs, math.exp, math.pi
local function isint(x) return math.type(x) == "integer" end
local S = { types = oracle.types, round = oracle.hold, philox = oracle.philox }

-- ---- functions that Lua does not have -------------------------------------------------------
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
local function asinh(x)
  local a = abs(x)
  local y = log1p(a + a * a / (1 + math.sqrt(1 + a * a)))
  return x < 0 and -y or y
end
local function acosh(x)
  local t = x - 1
  return log1p(t + math.sqrt(2 * t + t * t))
end
--- 1 - erf(x) for x >= 1, by its continued fraction, computed from the innermost term outwards.
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
--- Newton's method for erf, from Winitzki's approximation.
local function erfinv(y)
  if abs(y) == 1 then return y * huge end
  local l = math.log(1 - y * y)
  local t = 2 / (pi * 0.147) + l / 2
  local x = math.sqrt(math.sqrt(t * t - l / 0.147) - t)
  if y < 0 then x = -x end
  for _ = 1, 4 do x = x - (erf(x) - y) * math.sqrt(pi) / 2 * exp(x * x) end
  return y == 0 and y or x
end
--- log(gamma(x)) for x > 0: Stirling's series from 12 on; below, gamma(x) = gamma(x + 1) / x.
local function lgamma(x)
  local product = 1.0
  while x < 12 do
    product = product * x
    x = x + 1
  end
  local z = 1 / (x * x)
  local series =
    (1 / 12 - z * (1 / 360 - z * (1 / 1260 - z * (1 / 1680 - z * (1 / 1188 - z * 691 / 360360)))))
    / x
  return (x - 0.5) * math.log(x) - x + 0.5 * math.log(2 * pi) + series - math.log(product)
end
local function digamma(x)
  local sum = 0.0
  while x < 24 do
    sum = sum - 1 / x
    x = x + 1
  end
  local z = 1 / (x * x)
  return sum + math.log(x) - 0.5 / x
    - z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z / 132))))
end
local function trigamma(x)
  local sum = 0.0
  while x < 24 do
    sum = sum + 1 / (x * x)
    x = x + 1
  end
  local z = 1 / (x * x)
  return sum + 1 / x + z / 2
    + (1 / 6 - z * (1 / 30 - z * (1 / 42 - z * (1 / 30 - z * 5 / 66)))) * z / x
end
local function cbrt(x)
  if x == 0 then return x end
  local a = abs(x)
  local y = a ^ (1 / 3)
  y = y - (y * y * y - a) / (3 * y * y)
  return x < 0 and -y or y
end
local function truth(b) return b and 1 or 0 end


-- ---- unary, binary, ternary ---------------------------------------------------------------------
--- A table of ops in which those of oracle.lua are found, too.
local function and_the_oracle(ops) return setmetatable(ops, { __index = oracle.ops }) end
S.unary = and_the_oracle {
  cbrt = { cbrt, ulps = 3 }, exp2 = { function(x) return 2.0 ^ x end, ulps = 3 },
  expm1 = { expm1, ulps = 3 }, log2 = { function(x) return math.log(x, 2) end, ulps = 3 },
  log10 = { function(x) return math.log(x, 10) end, ulps = 3 },
  log1p = { log1p, ulps = 4 }, tan = { math.tan, ulps = 4 }, asin = { math.asin, ulps = 3 },
  acos = { math.acos, ulps = 3 }, atan = { math.atan, ulps = 3 }, sinh = { sinh, ulps = 4 },
  cosh = { function(x) return (exp(x) + exp(-x)) / 2 end, ulps = 4 },
  asinh = { asinh, ulps = 6 }, acosh = { acosh, ulps = 6 }, atanh = { atanh, ulps = 6 },
  erf = { erf, ulps = 6 }, erfc = { erfc, ulps = 40 }, erfinv = { erfinv, ulps = 20 },
  lgamma = { lgamma, ulps = 12, near = 60 }, digamma = { digamma, ulps = 12, near = 12 },
  trigamma = { trigamma, ulps = 20 }, frac = { function(x) return x - oracle.ops.trunc[1](x) end },
  softplus = { function(x) return x > 0 and x + log1p(exp(-x)) or log1p(exp(x)) end, ulps = 5 },
  isinf = { function(x) return truth(abs(x) == huge) end },
}
S.binary = and_the_oracle {
  pow = { function(a, b)
    if not isint(a) then return oracle.ops.pow[1](a, b) end
    if b < 0 then return a == 1 and 1 or a == -1 and (b % 2 == 0 and 1 or -1) or 0 end
    local y = 1
    for _ = 1, b do y = y * a end
    return y
  end, ulps = oracle.ops.pow.ulps },
  fmod = { function(a, b)
    if isint(a) then return b == 0 and 0 or math.fmod(a, b) end
    return math.fmod(a, b)
  end },
  hypot = { function(a, b) return math.sqrt(a * a + b * b) end, ulps = 2 },
  copysign = { function(a, b) return (b < 0 or b == 0 and 1 / b < 0) and -abs(a) or abs(a) end },
  logical_xor = { function(a, b) return truth((a ~= 0) ~= (b ~= 0)) end },
}
S.ternary = and_the_oracle {
  clamp = { function(x, low, high) return math.min(math.max(x, low), high) end } }

-- ---- reductions: of a list ----------------------------------------------------------------------
--- S.reduce[name].empty: the result of an empty row; nil: it must raise an error.
S.reduce = {}
for name, start in pairs(oracle.folds) do
  local function fold(row)
    local cells = { [0] = { start[2], 0 } }
    for i, v in ipairs(row) do cells[i] = { v, 0 } end
    return oracle.fold(name, cells, isint(row[1]) and "i64" or "f64")[1]
  end
  S.reduce[name] = { fold, empty = abs(start[2]) < huge and start[2] or nil }
end
return S
