--- Functions that distributions need and flame does not have: the derivative of a gamma variate
-- with respect to its concentration, the regularised incomplete beta function, inverses of both
-- incomplete functions. All are computed in f64. The file returns a function that adds them to the
-- table that the files of flame.distributions share.
local flame = require "flame"
local func = require "flame.autograd.func"
local recording = require "flame.base.recording"
local special = require "flame.ops.special"
local where = flame.where

--- The sum along the last axis, which stays with size 1. Halves are added until one element is
--- left, an order that is the same on every device.
local function halved_sum(x)
  local n, size = x:size(-1), 1
  while size < n do size = size * 2 end
  x = x:pad { 0, size - n }
  while size > 1 do
    size = size // 2
    x = x:narrow(-1, 1, size) + x:narrow(-1, size + 1, size)
  end
  return x
end

-- ---- the slope of gamma variates ----------------------------------------------------------------
-- x follows a along the quantiles, P(a, x) = const: dx/da = -(dP/da) / p(x) (Figurnov, Mohamed and
-- Mnih, "Implicit reparameterization gradients", 2018). Each expansion of P that igamma uses is
-- differentiated by hand and divided by x p(x), which cancels its leading factor, for d log x / da.

-- For a from 0.001 to 1e6, 72 iterations give what 400 do, to 3e-14. LARGE, NEAR: see gamma_slope.
local ROUNDS, LARGE, NEAR <const> = 72, 30, 0.35

--- d log x / da for x < a + 1: P = x^a e^-x / gamma(a + 1) (1 + sum x^n / ((a + 1) … (a + n))).
local function slope_by_series(a, x, log)
  local term, sum, n = flame.ones_like(a), flame.ones_like(a), a
  local turn, total = flame.zeros_like(a), flame.zeros_like(a)           -- derivatives of both
  for _ = 1, ROUNDS do
    n = n + 1
    term = term * x / n
    turn = (turn * x - term) / n
    sum, total = sum + term, total + turn
  end
  return -((log - (a + 1):digamma()) * sum + total) / a
end

--- d log x / da for x >= a + 1: 1 - P = x^a e^-x / gamma(a) h, h a continued fraction (Lentz).
local function slope_by_fraction(a, x, log)
  local s = x - a + 1
  local d = s:reciprocal()
  local c, h = flame.full_like(d, 1e300), d
  local d1, c1, h1 = d * d, flame.zeros_like(d), d * d                   -- derivatives by a
  for k = 1, ROUNDS do
    local m = (a - k) * k
    s = s + 2
    local r = (m * d + s):reciprocal()
    d1 = -(r * r) * (d * k + m * d1 - 1)
    d = r
    local q = m / c
    c1 = (k - q * c1) / c - 1
    c = s + q
    h1 = h1 * d * c + h * (d1 * c + d * c1)
    h = h * d * c
  end
  return (log - a:digamma()) * h + h1
end

--- d log x / da for large a and x near a: P by Temme's expansion in eta and 1 / a (see igamma).
local function slope_by_temme(a, x)
  local rows = special.temme
  local mu, r = (x - a) / a, a:reciprocal()
  -- half = eta² / 2 = mu - log1p(mu); for small mu by its series, which has no cancellation
  local small = mu:abs():lt(0.1)
  local v, series = where(small, mu, 0), 0
  for k = 18, 0, -1 do series = series * -v + 1 / (k + 2) end
  local half = where(small, mu * mu * series, mu - mu:log1p())
  local eta = (half * 2):sqrt() * mu:sign()
  local ratio = where(small, (series * 2):rsqrt(), mu / where(small, 1, eta))    -- mu / eta
  local sum, by_eta, by_r = 0, 0, 0                      -- S = sum of rows[k](eta) a^-k
  for k = #rows, 1, -1 do
    local row, c, slope = rows[k], 0, 0
    for n = 24, 1, -1 do
      slope = slope * eta + c
      c = c * eta + row[n]
    end
    by_r = by_r * r + sum
    sum, by_eta = sum * r + c, by_eta * r + slope
  end
  local total = by_eta * (-ratio * r) - by_r * r * r     -- dS / da; d eta / da = -mu / (eta a)
  local stirling = 1 + r * (1 / 12 + r * (1 / 288 - r * (139 / 51840 + r * (571 / 2488320
    - r * (163879 / 209018880 + r * (5246819 / 75246796800))))))
  return r * stirling * (ratio - eta * 0.5 + sum * (mu - half - r * 0.5) + total)
end

--- d log x / da of a variate x = exp(log) of the gamma distribution of concentration a.
local function gamma_slope(a, log)
  local x = log:exp()
  local near = a:gt(LARGE):logical_and((x - a):abs():lt(a * NEAR))
  local low = x:lt(a + 1):logical_and(near:logical_not())
  local high = x:ge(a + 1):logical_and(near:logical_not())
  local function kept(mask, v, other) return where(mask, v, other) end
  return where(near, slope_by_temme(kept(near, a, LARGE), kept(near, x, LARGE)),
    where(low, slope_by_series(kept(low, a, 1), kept(low, x, 0.5), kept(low, log, -0.7)),
      slope_by_fraction(kept(high, a, 1), kept(high, x, 3), kept(high, log, 1.1))))
end

-- ---- the incomplete beta function ---------------------------------------------------------------
local STEPS <const> = 160                                -- enough for a and b up to about 10^4

local function log_beta(a, b) return a:lgamma() + b:lgamma() - (a + b):lgamma() end

--- The continued fraction of I(x; a, b) (DLMF 8.17.22), by Lentz's method; x < mean.
local function beta_fraction(a, b, x)
  local sum, up, down = a + b, a + 1, a - 1
  local c = flame.ones_like(x)
  local d = (1 - sum * x / up):reciprocal()
  local h = d
  for m = 1, STEPS do
    local even = x * (b - m) * m / ((down + 2 * m) * (a + 2 * m))
    d = (even * d + 1):reciprocal()
    c = even / c + 1
    h = h * d * c
    local odd = -x * (a + m) * (sum + m) / ((a + 2 * m) * (up + 2 * m))
    d = (odd * d + 1):reciprocal()
    c = odd / c + 1
    h = h * d * c
  end
  return h
end

--- The incomplete beta function I(x; a, b) and 1 - I, each exact where it is small; y is 1 - x.
local function beta_shares(a, b, x, y)
  local inside = x:gt(0):logical_and(y:gt(0))
  local u, v = where(inside, x, 0.5), where(inside, y, 0.5)
  local front = (a * u:log() + b * v:log() - log_beta(a, b)):exp()
  local turned = u:gt((a + 1) / (a + b + 2))
  local p, q = where(turned, b, a), where(turned, a, b)
  local share = front * beta_fraction(p, q, where(turned, v, u)) / p
  local lower, upper = where(turned, 1 - share, share), where(turned, share, 1 - share)
  return where(inside, lower, where(x:le(0), x * 0, x * 0 + 1)),
    where(inside, upper, where(x:le(0), x * 0 + 1, x * 0))
end

local betainc = flame.func {
  name = "betainc",
  forward = function(ctx, a, b, x, y)
    ctx:save(a, b, x, y)
    return (beta_shares(a, b, x, y))
  end,
  backward = function(ctx, g)
    local a, b, x, y = ctx:saved()
    local inside = x:gt(0):logical_and(y:gt(0))
    local u, v = where(inside, x, 0.5), where(inside, y, 0.5)
    local slope = ((a - 1) * u:log() + (b - 1) * v:log() - log_beta(a, b)):exp()
    return nil, nil, where(inside, g * slope, 0):sum_to_size(x.shape), nil
  end,
}

--- The cumulative distribution function of the beta distribution of a and b at x; y is 1 - x. It is
--- differentiable in x; if a or b is tracked, backward raises.
local function beta_share(op, a, b, x, y)
  local z = betainc(a:detach():double(), b:detach():double(), x:double(), y:detach():double())
  return func.opaque(op, z:to(x.dtype), a, b)
end

-- ---- inverses -----------------------------------------------------------------------------------
local TRIES <const> = 200

--- The t for which shares(t) returns lower and upper (= 1 - lower), by Newton's method on the
--- logarithm of the smaller one, between bounds that bisection narrows. log_slope(t) is the
--- logarithm of the derivative of the lower share. The loop reads values, so this evaluates.
local function solve(lower, upper, shares, log_slope, start, first, last)
  if start:numel() == 0 then return start end
  local t, low, high = start, flame.full_like(start, first), flame.full_like(start, last)
  local below = lower:le(0.5)
  local goal, before = where(below, lower, upper):log(), math.huge
  for _ = 1, TRIES do
    local p, q = shares(t)
    local now = where(below, p, q):log()
    local over = where(below, now:gt(goal), now:lt(goal))             -- t is too large
    low, high = where(over, low, t), where(over, t, high)
    local step = (now - goal) * (now - log_slope(t)):exp() * where(below, -1, 1)
    local next = t + step
    -- a step to a bound is allowed, since the root may be at the bound
    local fits = next:ge(low):logical_and(next:le(high))
    next = where(fits, next, (low + high) * 0.5)
    local moved = ((next - t):abs() / (1 + next:abs())):amax():item()
    t = next
    -- steps of bisection halve: a small step that does not shrink comes from rounding, so stop
    if moved < 2e-15 or moved < 1e-7 and moved > 0.75 * before then break end
    before = moved
  end
  return t
end

--- log x where P(a, x) = share.
local function gamma_quantile(a, share)
  local z = share:ndtri()                                -- Wilson and Hilferty's guess
  local cube = (z * (a * 9):rsqrt() + 1 - (a * 9):reciprocal())
  local first = where(cube:gt(0.1), where(cube:gt(0.1), cube, 1):log() * 3 + a:log(),
    (share:log() + (a + 1):lgamma()) / a):clamp(-700, 700)
  return solve(share, 1 - share,
    function(t) local x = t:exp() return flame.igamma(a, x), flame.igammac(a, x) end,
    function(t) return a * t - t:exp() - a:lgamma() end, first, -800, 709)
end

--- log(x / (1 - x)) where I(x; a, b) = lower = 1 - upper.
local function beta_quantile(a, b, lower, upper)
  return solve(lower, upper,
    function(t) return beta_shares(a, b, t:sigmoid(), (-t):sigmoid()) end,
    function(t) return a * t:logsigmoid() + b * (-t):logsigmoid() - log_beta(a, b) end,
    (a / b):log() + lower * 0, -800, 800)
end

--- x, a detached quantile (the value at which cdf is 'share'), with the gradients of the inverse of
--- cdf: dx = (dshare - dcdf) / density, as of one step of Newton's method. x's value is unchanged.
local function followed(x, share, cdf, log_density)
  if not flame.is_grad_enabled() or not recording.tracked(share, cdf) then return x end
  return x + where(x:isfinite(), (share - share:detach() - (cdf - cdf:detach()))
    * (-log_density:detach()):exp(), 0)
end

return function(shared)
  shared.gamma_slope, shared.log_beta = gamma_slope, log_beta
  shared.beta_share, shared.gamma_quantile = beta_share, gamma_quantile
  shared.halved_sum = halved_sum
  shared.beta_quantile, shared.followed = beta_quantile, followed
end
