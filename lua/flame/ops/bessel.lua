--- Bessel functions and orthogonal polynomials, composed of other ops.
local flame = require "flame"
local arguments = require "flame.base.arguments"
local where = flame.where

-- ---- Bessel functions ---------------------------------------------------------------------------
-- J, Y for x up to FAR: means over angles t (order 0: of cos(x sin t)), error below e^-(2 POINTS -
-- x); above: Hankel's series. K up to 2: power series; above: integral (order 0: exp(-x cosh t)).
-- TURNS: how many terms the weights in Y's sum have; EULER: Euler's constant.
local FAR, POINTS, TURNS, EULER = 25, 28, 28, 0.57721566490153286
local circle = {}                  -- by angle t: {sin t, weight in J's mean, weight in Y's sum}
for j = 1, POINTS do
  local t, sum = (j - 0.5) * math.pi / (2 * POINTS), 0.0
  for k = TURNS, 1, -1 do sum = sum + (k % 2 == 0 and 1 or -1) * math.cos(2 * k * t) / k end
  circle[j] = { math.sin(t), 1 / POINTS, sum / POINTS }
end
-- The sum over the circle of f(x sin t) times circle's weight (2 or 3, 'column') times
-- sin(t)^power.
local function angle(x, column, f, power)
  local total
  for _, c in ipairs(circle) do
    local term = f(x * c[1]) * (c[column] * c[1] ^ power)
    total = total and total + term or term
  end
  return total
end
local sin, cos = flame.sin, flame.cos
local function near_j(x, order)
  if order == 0 then return angle(x, 2, cos, 0) end
  return angle(x, 2, sin, 1)
end
local function near_y(x, order)
  local log = (x * 0.5):log() + EULER
  if order == 0 then return (log * near_j(x, 0) - angle(x, 3, cos, 0) * 2) * (2 / math.pi) end
  return (log * near_j(x, 1) - near_j(x, 0) / x - angle(x, 3, sin, 1) * 2) * (2 / math.pi)
end
-- J (part 1) or Y (part 2) for large x, by Hankel's series.
local function far_bessel(x, order, part)
  local p, q, term, mu, r = 0.0, 0.0, 1.0, 4 * order * order, x:reciprocal()
  local power = flame.ones_like(x)
  for k = 0, 19 do
    local sign = k // 2 % 2 == 0 and term or -term
    if k % 2 == 0 then p = power * sign + p else q = power * sign + q end
    power, term = power * r, term * (mu - (2 * k + 1) ^ 2) / (8 * (k + 1))
  end
  local s, c = x:sin(), x:cos()                       -- the phase is x - pi / 4, or x - 3 pi / 4
  local a, b = c + s, s - c
  if order == 1 then a, b = b, -a end
  return (part == 1 and p * a - q * b or p * b + q * a) / (x * math.pi):sqrt()
end
-- J (part 1) or Y (part 2) of any x, by near(x, order) up to FAR and Hankel's series above.
local function joined(near, order, part)
  return function(x)
    local v = part == 1 and x:abs() or x
    local far = v:gt(FAR)
    local y = where(far, far_bessel(where(far, v, FAR), order, part), near(where(far, 1, v), order))
    if part == 1 then
      y = where(v:isinf(), 0, y)
      return order == 1 and y * where(x:lt(0), -1, 1) or y
    end
    return where(v:eq(0), -math.huge, where(v:lt(0), 0 / 0, where(v:isinf(), 0, y)))
  end
end
-- exp(x) K(x) of order 0 or 1.
local function scaled_k(x, order)
  local small = x:le(2)
  local v, w = where(small, x, 1), where(small, 2, x)
  local z, a, h, near = v * v * 0.25, 1.0, 0.0, 0.0
  local power = flame.ones_like(v)
  for k = 0, 14 do    -- z^k times H(k) / k!², in order 1 (psi(k + 1) + psi(k + 2)) / (k! (k + 1)!)
    near = near + power * (order == 0 and h * a or (2 * (h - EULER) + 1 / (k + 1)) * a / (k + 1))
    h, a, power = h + 1 / (k + 1), a / ((k + 1) * (k + 1)), power * z
  end
  local log = (v * 0.5):log()
  if order == 0 then near = near - (log + EULER) * v:i0()
  else near = v:reciprocal() + log * v:i1() - near * v * 0.25 end
  local last, far = (38 / w + 1):acosh(), 0.0
  for j = 0, 32 do
    local t = last * (j / 32)
    local c = (t * 0.5):sinh():square() * 2            -- cosh t - 1
    local f = (-w * c):exp()
    if order == 1 then f = f * (c + 1) end
    far = far + f * (j == 0 and 0.5 or 1.0)
  end
  local y = where(small, near * v:exp(), far * last * (1 / 32))
  return where(x:isinf(), 0, where(x:eq(0), math.huge, where(x:lt(0), 0 / 0, y)))
end
-- Defines a function of flame.special that computes in f64 and returns x's dtype; f32 for
-- integers.
local function bessel(name, f)
  arguments.def("special." .. name .. "(x: T) -> T", function(x)
    return f(x:double()):to(x:is_floating_point() and x.dtype or "f32")
  end)
end
for order = 0, 1 do
  --- Bessel function of the first kind, of the order in its name.
  bessel("bessel_j" .. order, joined(near_j, order, 1))
  --- Bessel function of the second kind, of the order in its name.
  bessel("bessel_y" .. order, joined(near_y, order, 2))
  --- exp(x) times the modified Bessel function of the second kind, of the order in its name.
  bessel("scaled_modified_bessel_k" .. order, function(x) return scaled_k(x, order) end)
  --- Modified Bessel function of the second kind, of the order in its name.
  bessel("modified_bessel_k" .. order, function(x) return scaled_k(x, order) * (-x):exp() end)
end
--- sin(x) / x, 1 at 0.
bessel("spherical_bessel_j0", function(x) return where(x:isinf(), 0, (x / math.pi):sinc()) end)

-- ---- orthogonal polynomials ---------------------------------------------------------------------
local DEGREES = 10000              -- the highest degree; each step of the recurrence is 3 to 5 ops
-- The degree n as an integer, -1 for all n below 0; raises above DEGREES.
local function degree(name, n)
  if n ~= n or n >= DEGREES + 1 then
    arguments.fail(name, "n = %s, need a number up to %d", n ~= n and "nan" or n, DEGREES)
  end
  return math.tointeger((math.modf(math.max(n, -1))))
end
-- Defines special.name(x, n), by recurrence from P(0) = 1 and P(1) = first(x); step(k, x, P(k),
-- P(k - 1)) gives P(k + 1). n, a number or a tensor (whose largest value is read), is truncated to
-- integers; for those below 0 the result is 0.
local function polynomials(name, first, step)
  local function series(x, most, see)
    local before, p = flame.ones_like(x), first(x)
    for k = 0, most do
      see(k, k == 0 and before or p)
      if k > 0 and k < most then before, p = p, step(k, x, p, before) end
    end
  end
  arguments.def("special." .. name .. "(x: T|num, n: T|num) -> T", function(x, n)
    local number = type(n) == "number"
    if number then n = degree(name, n) end
    local dtype = flame.is_tensor(x) and x:is_floating_point() and x.dtype
      or not number and n:is_floating_point() and n.dtype or "f32"
    if not flame.is_tensor(x) then
      local like = not number and n.device or flame.default_device()
      x = flame.full({}, x, { dtype = "f64", device = like })
    end
    local v = x:double()
    local y = v * 0
    if number then
      if n >= 0 then series(v, n, function(_, p) y = p end) end
      return y:to(dtype)
    end
    n = n:detach():double():trunc():clamp { min = -1 }
    y = y + n * 0
    local most = n:numel() > 0 and degree(name, n:amax():item()) or -1
    if most >= 0 then series(v, most, function(k, p) y = where(n:eq(k), p, y) end) end
    return y:to(dtype)
  end)
end
local function doubled(_, x, p, before) return x * 2 * p - before end
local chebyshev = {
  t = function(x) return x end, u = function(x) return x * 2 end,
  v = function(x) return x * 2 - 1 end, w = function(x) return x * 2 + 1 end,
}
for kind, first in pairs(chebyshev) do
  --- Chebyshev polynomial of degree n, of the kind in its name: t first, u second, v third, w 4th.
  polynomials("chebyshev_polynomial_" .. kind, first, doubled)
  --- The Chebyshev polynomial of the kind in its name at 2 x - 1.
  polynomials("shifted_chebyshev_polynomial_" .. kind, function(x) return first(x * 2 - 1) end,
    function(k, x, p, before) return doubled(k, x * 2 - 1, p, before) end)
end
--- The physicists' Hermite polynomial of degree n (2 x for n = 1).
polynomials("hermite_polynomial_h", function(x) return x * 2 end,
  function(k, x, p, before) return x * 2 * p - before * (2 * k) end)
--- The probabilists' Hermite polynomial of degree n (x for n = 1).
polynomials("hermite_polynomial_he", function(x) return x end,
  function(k, x, p, before) return x * p - before * k end)
--- Laguerre polynomial of degree n.
polynomials("laguerre_polynomial_l", function(x) return 1 - x end,
  function(k, x, p, before) return ((2 * k + 1 - x) * p - before * k) * (1 / (k + 1)) end)
--- Legendre polynomial of degree n.
polynomials("legendre_polynomial_p", function(x) return x end,
  function(k, x, p, before) return (x * p * (2 * k + 1) - before * k) * (1 / (k + 1)) end)
