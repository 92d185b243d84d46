--- Special functions and functions of integers and bits, composed of others: flame.special has them
-- under the names that torch.special has. Most are sums of series with a fixed number of terms, so
-- that they fuse and are differentiable; these compute half types in f32 or f64, integers give f32.
local flame = require "flame"
local func = require "flame.autograd.func"
local arguments = require "flame.base.arguments"
local dtypes = require "flame.base.dtypes"
require "flame.ops.aliases"
local fail, need_tensor = arguments.fail, arguments.need_tensor
local smooth, pair, def = dtypes.smooth, dtypes.pair, arguments.def
local where, is_tensor = flame.where, flame.is_tensor

local function unary(name, f)
  def(name .. "_?(x: T) -> T", function(x) return smooth(x, f) end)
end
-- Defines a function that would lose digits in f32: it computes in f64, and returns x's dtype.
local function careful(name, f)
  def(name .. "_?(x: T) -> T", function(x)
    local dtype = x:is_floating_point() and x.dtype or "f32"
    return f(x:double()):to(dtype)
  end)
end
-- c[1] + c[2] z + c[3] z² + …
local function polynomial(z, c)
  local y = c[#c]
  for k = #c - 1, 1, -1 do y = y * z + c[k] end
  return y
end

-- ---- modified Bessel functions ------------------------------------------------------------------
local FAR = 18                     -- |x| from which the asymptotic series is exact in f64
local near_0, near_1, far_0, far_1 = {}, {}, {}, {}
do
  local a, b, c, d = 1.0, 0.5, 1.0, 1.0
  for k = 0, 60 do                 -- (x²/4)^k / (k!)² and (x²/4)^k / (2 k! (k + 1)!)
    near_0[k + 1], near_1[k + 1] = a, b
    a, b = a / ((k + 1) * (k + 1)), b / ((k + 1) * (k + 2))
  end
  for k = 0, 24 do                 -- products of (odd² - mu) / (8 k), mu = 0 and 4
    far_0[k + 1], far_1[k + 1] = c, d
    local odd = (2 * k + 1) ^ 2
    c, d = c * odd / (8 * (k + 1)), d * (odd - 4) / (8 * (k + 1))
  end
end
-- exp(-|x|) I(x) of order 0 or 1.
local function scaled_bessel(x, order)
  local size = x:abs()
  local far = size:gt(FAR)
  local z, w = where(far, 0, x), where(far, size, FAR)
  local near = polynomial(z * z * 0.25, order == 0 and near_0 or near_1)
  if order == 1 then near = near * z end
  local tail = polynomial(w:reciprocal(),
    order == 0 and far_0 or far_1) / (w * (2 * math.pi)):sqrt()
  if order == 1 then tail = tail * x:detach():sign() end
  return where(far, tail, near * (-z:abs()):exp())
end
for order = 0, 1 do
  --- exp(-|x|) times the modified Bessel function of the first kind, of the order in its name.
  careful("i" .. order .. "e", function(x) return scaled_bessel(x, order) end)
  --- Modified Bessel function of the first kind, of the order in its name.
  careful("i" .. order, function(x)
    local endless = x:isinf()
    local v = where(endless, 0, x)
    return where(endless, order == 0 and x:abs() or x, scaled_bessel(v, order) * v:abs():exp())
  end)
end

-- ---- zeta and polygamma -------------------------------------------------------------------------
-- B(2k) / (2k)!, for Euler and Maclaurin's formula for the remainder after TERMS summands.
local BERNOULLI = { 1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
  1 / 74724249600, -3617 / 10670622842880000 }
local TERMS = 14
local function hurwitz(s, q)
  local total = q ^ -s
  for k = 1, TERMS - 1 do total = total + (q + k) ^ -s end
  local w = q + TERMS
  local power = w ^ -s
  total = total + w * power / (s - 1) + power * 0.5
  local factor, rest = s, power / w
  for k, b in ipairs(BERNOULLI) do
    total = total + factor * rest * b
    factor, rest = factor * (s + (2 * k - 1)) * (s + 2 * k), rest / (w * w)
  end
  return total
end
--- Sum of (q + k)^-x over k = 0, 1, …: Hurwitz' zeta function, x > 1.
def("zeta_?(x: T|num, q: T|num) -> T", function(x, q)
  x, q = pair("zeta", x, q)
  local dtype = dtypes.float_of(x, q)
  x, q = x:double(), q:double()
  local pole = q:le(0):logical_and(q:eq(q:floor()))
  local good = x:gt(1):logical_and(q:gt(0):logical_or(x:eq(x:floor())))
    :logical_and(pole:logical_not())
  local y = hurwitz(where(good, x, 2), where(good, q, 1))
  y = where(good, y, where(x:eq(1):logical_or(pole:logical_and(x:gt(1))), math.huge, 0 / 0))
  return where(x:isnan():logical_or(q:isnan()), 0 / 0, y):to(dtype)
end)
--- The op of the n-th derivative of digamma, n > 1. Its gradient is the next derivative, which is
--- infinite at the poles too.
local polygamma
local derivatives = flame.func {
  name = "polygamma",
  forward = function(ctx, x, n)
    ctx.n = n
    ctx:save(x)
    local factorial = 1.0
    for k = 2, math.min(n, 171) do factorial = factorial * k end
    return flame.zeta(flame.full({}, n + 1, { dtype = "f64", device = x.device }),
      x) * ((-1) ^ (n + 1) * factorial)
  end,
  backward = function(ctx, g) return g * polygamma(ctx.n + 1, (ctx:saved())) end,
}
function polygamma(n, x)
  if n < 0 then fail("polygamma", "n = %d is negative", n) end
  if n == 0 then return x:digamma() end
  if n == 1 then return x:trigamma() end
  return derivatives(x:double(), n):to(x:is_floating_point() and x.dtype or "f32")
end
--- The n-th derivative of digamma.
def(".polygamma(n: int, x: T) -> T", polygamma)
--- The n-th derivative of digamma.
def(":polygamma_?(x: T, n: int) -> T", function(x, n) return polygamma(n, x) end)
--- Logarithm of the gamma function of p dimensions.
def("mvlgamma_?(x: T, p: int) -> T", function(x, p)
  if p < 1 then fail("mvlgamma", "p = %d, need at least 1", p) end
  if p > 10000 then fail("mvlgamma", "p = %d, need at most 10000", p) end
  return smooth(x, function(v)
    local y = v:lgamma() + p * (p - 1) / 4 * math.log(math.pi)
    for j = 1, p - 1 do y = y + (v - j / 2):lgamma() end
    return y
  end)
end)

-- ---- the normal distribution --------------------------------------------------------------------
local ROOT = math.sqrt(0.5)
local TAIL = {}                    -- series of sqrt(pi) x erfcx(x): coefficients of 1 / x^(2k)
do
  local c = 1.0
  for k = 0, 14 do
    TAIL[k + 1] = c
    c = -c * (2 * k + 1) / 2
  end
end
local function erfcx(x)
  local far = x:gt(12)
  local near, w = where(far, 0, x), where(far, x, 12)
  -- below -6 erfc is 2, and its gradient would be 0 times inf
  local y = near:square():exp() * where(near:lt(-6), 2, near:erfc())
  return where(far, polynomial(w:square():reciprocal(), TAIL) / (w * math.sqrt(math.pi)), y)
end
--- exp(x²) erfc(x).
careful("erfcx", erfcx)
--- The probability that a standard normal variable is below x.
unary("ndtr", function(x) return (x * -ROOT):erfc() * 0.5 end)
local function log_ndtr(x)
  local low = x:lt(-1)
  local a, b = where(low, x, -1), where(low, 0, x)
  return where(low, (erfcx(a * -ROOT) * 0.5):log() - a:square() * 0.5,
    ((b * ROOT):erfc() * -0.5):log1p())
end
--- The logarithm of ndtr.
careful("log_ndtr", log_ndtr)
local function normal_quantile(v)
  local good = v:gt(0):logical_and(v:lt(1))
  local high = v:gt(0.5)
  local small = where(good, where(high, 1 - v, v), 0.5)
  local t = (small:log() * -2):sqrt()          -- Abramowitz and Stegun 26.2.23, then Newton's steps
  local x = (2.515517 + t * (0.802853 + t * 0.010328))
    / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t
  for _ = 1, 3 do
    local l = log_ndtr(x)
    x = x - (l - small:log()) * (l + x:square() * 0.5 + 0.5 * math.log(2 * math.pi)):exp()
  end
  x = where(v:eq(0.5), 0, where(high, -x, x))
  return where(good, x, where(v:eq(0), -math.huge, where(v:eq(1), math.huge, 0 / 0)))
end
local ndtri
ndtri = flame.func {
  name = "ndtri",
  forward = function(ctx, p)
    ctx:save(p)
    return normal_quantile(p)
  end,
  backward = function(ctx, g)
    local x = ndtri((ctx:saved()))
    return g * ((x:square() * 0.5):exp() * math.sqrt(2 * math.pi))
  end,
}
--- The inverse of ndtr: the x below which a standard normal variable is with probability p.
careful("ndtri", function(p) return ndtri(p) end)

-- ---- the incomplete gamma function --------------------------------------------------------------
-- The series for x < a + 1, a continued fraction (Lentz) for others; for large a and x near a,
-- where both need too many terms, Temme's expansion in 1 / a and eta, eta²/2 = x/a - 1 - log(x/a)
-- (DLMF 8.12).
local ROUNDS, LARGE, NEAR, ORDERS, POWERS = 120, 30, 0.35, 8, 24
local TEMME = {}                   -- TEMME[k + 1][n + 1]: coefficient of a^-k eta^n
do
  local stirling = { 1, 1 / 12, 1 / 288, -139 / 51840, -571 / 2488320, 163879 / 209018880,
    5246819 / 75246796800, -534703531 / 902961561600 }
  local alpha, last = { 1, 1 / 3 }, POWERS + 2 * ORDERS + 2     -- x/a - 1 = eta + alpha[2] eta² + …
  for n = 3, last do
    local sum = alpha[n - 1]
    for j = 2, n - 1 do sum = sum - j * alpha[j] * alpha[n - j + 1] end
    alpha[n] = sum / (n + 1)
  end
  local first = { -1 / 3 }
  for n = 1, last - 2 do first[n + 1] = (n + 2) * alpha[n + 2] end
  TEMME[1] = first
  for k = 1, ORDERS - 1 do
    local row, above = {}, TEMME[k]
    for n = 0, #above - 3 do
      row[n + 1] = (k % 2 == 0 and 1 or -1) * stirling[k + 1] * first[n + 1]
        + (n + 2) * above[n + 3]
    end
    TEMME[k + 1] = row
  end
end
-- The lower and the upper function by Temme's expansion.
local function temme(a, x)
  local mu = (x - a) / a
  local half_square = (mu - mu:log1p()):clamp({ min = 0 })
  local eta, r, sum = (half_square * 2):sqrt() * mu:detach():sign(), a:reciprocal(), nil
  for k = ORDERS, 1, -1 do
    local c = TEMME[k][POWERS]
    for n = POWERS - 1, 1, -1 do c = c * eta + TEMME[k][n] end
    sum = sum and sum * r + c or c
  end
  local rest = (a * -half_square):exp() * (a * (2 * math.pi)):rsqrt() * sum
  local side = eta * (a * 0.5):sqrt()
  return (-side):erfc() * 0.5 - rest, side:erfc() * 0.5 + rest
end
-- The lower and the upper function, for positive finite a and x.
local function lower_and_upper(a, x)
  local middle = a:gt(LARGE):logical_and((x - a):abs():lt(a * NEAR))
  local lower, upper = temme(where(middle, a, LARGE), where(middle, x, LARGE))
  a, x = where(middle, 1, a), where(middle, 1, x)
  local front = (a * where(x:gt(0), x, 1):log() - x - a:lgamma()):exp()
  local series = x:lt(a + 1)
  local b, y = where(series, a, 1), where(series, x, 0.5)
  local term = b:reciprocal()
  local sum, n = term, b
  for _ = 1, ROUNDS do
    n = n + 1
    term = term * y / n
    sum = sum + term
  end
  b, y = where(series, 1, a), where(series, 3, x)
  local d = (y - b + 1):reciprocal()
  local c, h, s = flame.full_like(d, 1e300), d, y - b + 1
  for k = 1, ROUNDS do
    local m = (b - k) * k
    s = s + 2
    d = (m * d + s):reciprocal()
    c = s + m / c
    h = h * d * c
  end
  local low, high = front * sum, front * h
  return where(middle, lower, where(series, low, 1 - high)),
    where(middle, upper, where(series, 1 - low, high))
end
-- A mask of the elements where a and x are in the domain; a and x with 1 in place of other values.
local function inside(a, x)
  local good = a:gt(0):logical_and(x:gt(0)):logical_and(x:isfinite()):logical_and(a:isfinite())
  return good, where(good, a, 1), where(good, x, 1)
end
-- Defines the lower (which = 1) or upper (2) function, also at the ends of the domain: 'ends'.
local function gamma_share(name, which)
  local share = flame.func {
    name = name,
    forward = function(ctx, a, x)
      ctx:save(a, x)
      local good, p, q = inside(a, x)
      local y = select(which, lower_and_upper(p, q))
      local ends = where(x:eq(0):logical_and(a:gt(0)), which - 1,
        where(x:eq(math.huge):logical_and(a:ge(0)), 2 - which, 0 / 0))
      ends = where(a:eq(0):logical_and(x:gt(0)), 2 - which, ends)
      ends = where(a:eq(math.huge):logical_and(x:ge(0)),
        where(x:eq(math.huge), 0 / 0, which - 1), ends)
      return where(good, y, ends)
    end,
    backward = function(ctx, g)
      local a, x = ctx:saved()
      local good, p, q = inside(a, x)
      local slope = ((p - 1) * q:log() - q - p:lgamma()):exp() * (3 - 2 * which)
      return nil, where(good, g * slope, 0):sum_to_size(x.shape)
    end,
  }
  def(name .. "_?(a: T|num, x: T|num) -> T", function(a, x)
    a, x = pair(name, a, x)
    return func.opaque(name,
      share(a:detach():double(), x:double()):to(dtypes.float_of(a, x)), a)
  end)
end
--- The regularised lower incomplete gamma function. It is differentiable in x; backward raises if a
--- is tracked.
gamma_share("igamma", 1)
--- The regularised upper incomplete gamma function. It is differentiable in x; backward raises if a
--- is tracked.
gamma_share("igammac", 2)

-- ---- extremes that ignore NaN ------------------------------------------------------------------
--- x and y as tensors. An integer takes the dtype of the other operand unless that is bool; a float
--- stays one.
local function operands(op, x, y)
  local like = is_tensor(x) and x or y
  local function lift(v)
    if not math.tointeger(v) or not is_tensor(like) or like.dtype == "bool"
        or math.type(v) == "float" then
      return v
    end
    return flame.full({}, v, { dtype = like.dtype, device = like.device })
  end
  return pair(op, lift(x), lift(y))
end
--- The larger of two; a NaN is ignored.
def("fmax(x: T|num, y: T|num) -> T", function(x, y)
  x, y = operands("fmax", x, y)
  return where(x:ge(y):logical_or(y:isnan()), x, y)
end)
--- The smaller of two; a NaN is ignored.
def("fmin(x: T|num, y: T|num) -> T", function(x, y)
  x, y = operands("fmin", x, y)
  return where(x:le(y):logical_or(y:isnan()), x, y)
end)

-- ---- integers -----------------------------------------------------------------------------------
local function need_integers(op, name, x)
  if is_tensor(x) and (x:is_floating_point() or x.dtype == "bool") then
    fail(op, "%s is %s, need integers", name, x.dtype)
  end
  return x
end
local function integers(op, x, y)
  -- bool is promoted with integers
  if is_tensor(x) and is_tensor(y) and (x.dtype == "bool") ~= (y.dtype == "bool") then
    if x.dtype == "bool" then
      x = x:to(need_integers(op, "y", y).dtype)
    else
      y = y:to(need_integers(op, "x", x).dtype)
    end
  end
  need_integers(op, "x", x)
  need_integers(op, "y", y)
  local like = is_tensor(x) and x or need_tensor(op, "y", y)
  local function lift(v)
    if is_tensor(v) then return v end
    return flame.full({}, v, { dtype = like.dtype, device = like.device })
  end
  return lift(x), lift(y)
end
--- The greatest common divisor, not negative; of 0 and 0: 0. It reads values, so it evaluates.
def("gcd_?(x: T|int, y: T|int) -> T", function(x, y)
  x, y = integers("gcd", x, y)
  local a, b = x + y * 0, y + x * 0
  while b:ne(0):any():item() do
    -- where b is 0 the next line does not take this remainder
    local rest = a:fmod(b)
    a, b = where(b:eq(0), a, b), where(b:eq(0), 0, rest)
  end
  return a:abs()
end)
--- The least common multiple, not negative. It reads values, so it evaluates.
def("lcm_?(x: T|int, y: T|int) -> T", function(x, y)
  x, y = integers("lcm", x, y)
  local g = flame.gcd(x, y)
  return (x:floordiv(where(g:eq(0), 1, g)) * y):abs()
end)
local function two_to(op, x, n)
  x, n = integers(op, x, n)
  return x, flame.full({}, 2, { dtype = n.dtype, device = n.device }):to((x + n * 0).dtype) ^ n
end
--- x times 2^y, wrapped to the dtype; 0 if y is negative.
def("bitwise_left_shift_?(x: T|int, y: T|int) -> T", function(x, n)
  local v, factor = two_to("bitwise_left_shift", x, n)
  return v * factor
end)
--- x / 2^y, rounded down; if y is negative or not below the number of bits only the sign is left: 0
--- or -1.
def("bitwise_right_shift_?(x: T|int, y: T|int) -> T", function(x, n)
  local v, count = integers("bitwise_right_shift", x, n)
  local dtype = (v + count * 0).dtype
  local far = count:lt(0):logical_or(count:ge(dtypes.bits[dtype]))
  local factor = flame.full({}, 2, { dtype = dtype, device = v.device }) ^ where(far, 0,
    count):to(dtype)
  return where(far, dtype == "u8" and 0 or where(v:lt(0), -1, 0):to(dtype), v:floordiv(factor))
end)

-- ---- floats, taken apart ------------------------------------------------------------------------
local function need_float(op, x)
  if not x:is_floating_point() then fail(op, "x is %s, need a float", x.dtype) end
  return x
end
-- x 2^n in two steps, so that 2^n is neither infinite nor 0.
local function scaled(x, n)
  local half = (n * 0.5):floor()
  return x * half:exp2() * (n - half):exp2()
end
-- Mantissa, 0.5 <= |m| < 1, and exponent (f64): x = m 2^e.
local function parts_of(x)
  local v = x:detach():double()
  local ok = v:isfinite():logical_and(v:ne(0))
  local safe = where(ok, v, 0.5)
  local small = safe:abs():lt(2.0 ^ -1000)
  safe = where(small, safe * 2.0 ^ 200, safe)
  local e = safe:abs():log2():floor() + 1
  local m = scaled(safe, -e)
  local high, low = m:abs():ge(1), m:abs():lt(0.5)
  e = where(high, e + 1, where(low, e - 1, e))
  m = where(high, m * 0.5, where(low, m * 2, m))
  return where(ok, m, v), where(ok, where(small, e - 200, e), 0)
end
--- Mantissa and exponent (i32): x = m 2^e with 0.5 <= |m| < 1; 0, infinities
--- and NaN have the exponent 0.
def("frexp(x: T) -> mantissa: T, exponent: T", function(x)
  local m, e = parts_of(need_float("frexp", x))
  m = m:to(x.dtype)
  if x.requires_grad then
    local v = x:detach()
    m = where(v:isfinite(), m + (x - v) * (-e):exp2():to(x.dtype), x)
  end
  return m, e:to("i32")
end)
--- The next float after x towards y. It has no gradient: backward raises.
def("nextafter_?(x: T, y: T) -> T", function(x, y)
  need_float("nextafter", y:is_floating_point() and y or x)
  local wide, given, towards_given = dtypes.float_of(x, y), x, y
  x, y = x:to(wide), y:to(wide)
  local dtype, a, b = x.dtype, x:detach():double(), y:detach():double()
  local m, e = parts_of(a)
  local p, least = dtypes.bits[dtype], dtypes.least[dtype]
  local towards = (b - a):sign()
  towards = where(a:eq(b), 0, where(towards:isnan(), b:sign(), towards))
  local shrink = (towards * a:sign()):lt(0):logical_and(m:abs():eq(0.5)):logical_and(e:gt(least))
  e = where(a:eq(0), least, e:clamp({ min = least })) - p
  local step = scaled(flame.ones_like(e), where(shrink, e - 1, e))
  local largest = scaled(flame.full({}, 2.0 - 2.0 ^ (1 - p), { dtype = "f64", device = x.device }),
    flame.full({}, 2 - dtypes.least[dtype],
      { dtype = "f64", device = x.device }))
  local z = where(a:isinf(), where(a:eq(b), a, a:sign() * largest), a + towards * step)
  z = where(a:isnan():logical_or(b:isnan()), 0 / 0, z)
  return func.opaque("nextafter", where(a:eq(b), b, z):to(dtype), given, towards_given)
end)

-- ---- flame.special ------------------------------------------------------------------------------
for name, of in pairs { gammaln = "lgamma", psi = "digamma", multigammaln = "mvlgamma",
  expit = "sigmoid", gammainc = "igamma", gammaincc = "igammac", modified_bessel_i0 = "i0",
  modified_bessel_i1 = "i1" } do
  flame.special[name] = flame[of]
end
for name in ([[i0 i0e i1 i1e zeta polygamma digamma erf erfc erfcx erfinv entr exp2 expm1 expit
  log1p logit log_ndtr ndtr ndtri log_softmax softmax logsumexp round sinc
  xlogy xlog1py]]):gmatch("%S+") do
  flame.special[name] = flame[name]
end

-- ---- Airy ---------------------------------------------------------------------------------------
-- Taylor series of Ai around the integers from 10 down to -10 (this direction is stable): each by
-- Ai'' = x Ai from the series before, the first from the asymptotic series at 10. AIRY[k][i]: the
-- coefficient of (x - i + 11)^(k - 1).
local AIRY
local function airy_rows()
  local z, y, slope, u = 10 ^ 1.5 * 2 / 3, 0, 0, 1
  for k = 0, 20 do
    y, slope = y + u, slope + (6 * k + 1) / (1 - 6 * k) * u
    u = -u * (6 * k + 1) * (6 * k + 3) * (6 * k + 5) / (216 * (k + 1) * (2 * k + 1)) / z
  end
  local scale = math.exp(-z) / (2 * math.sqrt(math.pi))
  y, slope, AIRY = y * scale / 10 ^ 0.25, -slope * scale * 10 ^ 0.25, {}
  for i = 10, -10, -1 do
    local c = { y, slope, i * y / 2 }
    for k = 4, 44 do c[k] = (i * c[k - 2] + c[k - 3]) / ((k - 1) * (k - 2)) end
    y, slope = 0, 0
    for k = 44, 1, -1 do y, slope = c[k] - y, k > 1 and (k - 1) * c[k] - slope or slope end
    for k = 1, 24 do
      AIRY[k] = AIRY[k] or {}
      AIRY[k][i + 11] = c[k]
    end
  end
end
local function airy(x)
  if not AIRY then airy_rows() end
  local centre = where(x:isfinite(), x:detach(), 0):round():clamp(-10, 10)
  local at, d, near = centre:long() + 11, x - centre, 0
  for k = 24, 1, -1 do
    near = near * d + flame.tensor(AIRY[k], { dtype = "f64", device = x.device }):take(at)
  end
  local size = x:abs():clamp { min = 10 }
  local z, right, even, odd, u = size ^ 1.5 * (2 / 3), 0, 0, 0, 1
  for k = 0, 20 do                       -- series in 1 / z; even and odd: for negative x
    local term = z ^ -k * u
    right = k % 2 == 0 and right + term or right - term
    if k % 2 == 0 then even = k % 4 == 0 and even + term or even - term
    else odd = k % 4 == 1 and odd + term or odd - term end
    u = u * (6 * k + 1) * (6 * k + 3) * (6 * k + 5) / (216 * (k + 1) * (2 * k + 1))
  end
  local turn = z - math.pi / 4
  local far = where(x:gt(0), right * (-z):exp() / 2,
    turn:cos() * even + turn:sin() * odd) / (math.sqrt(math.pi) * size ^ 0.25)
  return where(x:abs():le(10), near, where(x:isinf(), 0 / 0, far))
end
--- Airy's function Ai.
def("special.airy_ai(x: T) -> T", function(x)
  return airy(x:double()):to(x:is_floating_point() and x.dtype or "f32")
end)

return { temme = TEMME }              -- for the gradient of gamma variates
