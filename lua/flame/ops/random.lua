--- Permutations, draws by weight and from distributions, dropout of channels. randperm and draws
--- with replacement are composed of ops that have the same bits on every device (uniform numbers,
--- quotients, integer sums, sorts), so the same seed gives the same results everywhere.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail, def, call = arguments.fail, arguments.def, internal.call

local FEW = 1 << 16                        -- most classes that a block of GPU threads adds up

local function like(x, dtype) return { dtype = dtype or x.dtype, device = x.device } end

--- 1 to n in random order: the order of n random numbers of 53 bits.
def('.randperm(n: int, *, dtype: dtype = "i64", device?: device) -> T', function(n, dtype, device)
  if n < 0 then fail("randperm", "n = %d, need 0 or more", n) end
  local at = flame.rand({ n }, { dtype = "f64", device = device })
  at = call("argsort", "randperm", { at }, { 1, n, 0 }, { n }, "i64")
  return dtype == "i64" and at or at:to(dtype)
end)

-- Running sums of each row's weights, scaled to integers of at most 38 bits: the order of adding
-- does not matter, a row's sum is exact in a double. top: each row's largest weight, if weights
-- were checked, else nil. Without top a row with invalid weights ends in -1 on the CPU; on CUDA it
-- has the sums 1, 2, 3, …, and the error is reported later.
local function edges_of(rows, top)
  local count, classes = rows.shape[1], rows.shape[2]
  local bits = math.min(38, 52 - math.ceil(math.log(classes, 2)))
  if not top then
    return call("weights", "multinomial", { rows }, { count, classes, bits }, rows.shape, "i64")
  end
  return (rows:double() / top:double() * 2.0 ^ bits):round():long():cumsum(2)
end

-- Raises for invalid weights; returns the largest weight of each row (count, 1).
local function checked(rows)
  local top = rows:amax(2)
  if rows:amin(2):ge(0):logical_and(top:gt(0)):logical_and(top:lt(math.huge)):all():item() then
    return top:reshape(-1, 1)
  end
  local bad = rows:ge(0):logical_and(rows:lt(math.huge)):logical_not()
  local none = rows:sum(2):eq(0)
  if bad:any():item() then
    fail("multinomial", "probs has a value that is negative, infinite or NaN at position %d",
      bad:reshape(-1):long():argmax():item())
  end
  if none:any():item() then
    fail("multinomial",
      rows.shape[1] == 1 and "probs is 0 everywhere" or "row %d of probs is 0 everywhere",
      none:long():argmax():item())
  end
end

-- Draws n positions for each row of weights, and raises if they are invalid. On CUDA with at most
-- FEW classes nothing is read, and the next read raises; otherwise it reads values, so it
-- evaluates.
local function with_replacement(rows, n, shape)
  local count, classes = rows.shape[1], rows.shape[2]
  local few = classes <= FEW
  local top = not few and checked(rows) or nil
  local edges = edges_of(rows, top)
  local last = edges:narrow(2, classes, 1)
  if few and rows.device == "cpu" and (count == 1 and last or last:amin()):item() <= 0 then
    checked(rows)
  end
  -- u is below the sum of weights, so that searchsorted never returns 'classes' + 1
  local u = flame.rand({ count, n }, like(rows, "f64")) * last:double()
  return call("searchsorted", "multinomial", { edges, u:floor():long() },
    { count, classes, n, 1, count == 1 and 1 or 0 }, shape, "i64")
end

-- Draws n positions per row: those with the largest weight / e, for independent exponential
-- numbers e (half the sum of two squared normal numbers).
local function without_replacement(rows, n, shape)
  local top, a, b = checked(rows), flame.randn(rows.shape, like(rows)),
    flame.randn(rows.shape, like(rows))
  -- avoids 0 / 0, since NaN would win
  local _, at = (rows / top / (a * a + b * b + 1e-30)):topk(n, 2)
  return at:reshape(shape):clone()
end

--- n positions (i64) drawn from each row of probs, which may be any non-negative weights: (n), or
--- (rows, n). Without replacement they differ.
def("multinomial(probs: T, n: int, replacement = false) -> T", function(probs, n, replacement)
  if not probs:is_floating_point() then
    fail("multinomial", "probs is %s, need a float", probs.dtype)
  end
  if probs.ndim ~= 1 and probs.ndim ~= 2 then
    fail("multinomial", "probs has %d axes, need 1 or 2", probs.ndim)
  end
  if n < 1 then fail("multinomial", "n = %d, need at least 1", n) end
  local rows = probs:detach():to(probs.dtype == "f64" and "f64" or "f32")
  if probs.ndim == 1 then rows = rows:unsqueeze(1) end
  local count, classes = rows.shape[1], rows.shape[2]
  if not replacement and n > classes then
    fail("multinomial", "n = %d of %d classes without replacement", n, classes)
  end
  if classes == 0 then fail("multinomial", "probs has no classes") end
  local shape = probs.ndim == 1 and { n } or { count, n }
  if count == 0 then return flame.zeros(shape, like(probs, "i64")) end
  return (replacement and with_replacement or without_replacement)(rows, n, shape)
end)

-- ---- distributions ------------------------------------------------------------------------------
--- normal(mean, std) if one of the two is a tensor. Called from C.
function internal.normal(mean, std, dtype, device)
  local of = flame.is_tensor(mean) and mean or std
  for name, v in pairs { mean = mean, std = std } do
    if flame.is_tensor(v) and not v:is_floating_point() then
      fail("normal", "%s is %s, need a float", name, v.dtype)
    end
  end
  if type(std) == "number" and std < 0 then fail("normal", "std = %.14g is negative", std) end
  local size = flame.broadcast_shapes(flame.is_tensor(mean) and mean.shape or {},
    flame.is_tensor(std) and std.shape or {})
  local function value(v) return flame.is_tensor(v) and v:detach() or v end
  return flame.randn(size, { dtype = dtype or of.dtype, device = device or of.device })
    * value(std) + value(mean)
end

-- ROUNDS: for a mean below 10, larger draws have a probability below 1e-30
local where, ROUNDS <const> = flame.where, 72
-- Draws by inversion, for small means. none: the probability of 0; factor(k): the probability of k
-- divided by that of k - 1.
local function inverted(none, factor)
  local u = flame.rand(none.shape, like(none))
  local chance, below, k = none, none, flame.zeros_like(none)
  for i = 1, ROUNDS do
    k = k + u:ge(below):double()
    chance = chance * factor(i)
    below = below + chance
  end
  return k
end
-- Draws by transformed rejection (Hoermann 1993) for the elements where 'far' is true.
-- a, b, centre, squeeze and height are the paper's constants; log_chance(k) is the logarithm of
-- the probability of k, up to a constant that is in height; most is the largest k. It reads
-- values, so it evaluates.
local function rejected(far, a, b, centre, squeeze, height, log_chance, most)
  local k, open = flame.zeros_like(a), far
  while open:any():item() do
    local u, v = flame.rand(a.shape, like(a)) - 0.5, flame.rand(a.shape, like(a))
    local us = 0.5 - u:abs()
    local new = ((a * 2 / us + b) * u + centre):floor()
    local inside = new:ge(0):logical_and(new:le(most))
    local quick = us:ge(0.07):logical_and(v:le(squeeze))
    local safe = where(inside, new, 0)
    local fits = ((v * height / (a / us:square() + b)):log()):le(log_chance(safe))
      :logical_and(us:ge(0.013):logical_or(v:le(us)))
    local taken = open:logical_and(inside):logical_and(quick:logical_or(fits))
    k, open = where(taken, new, k), open:logical_and(taken:logical_not())
  end
  return k
end

-- x, untracked, in f64; raises unless it is a float and all its values are from least to most.
local function need_rates(op, name, x, least, most)
  if not x:is_floating_point() then fail(op, "%s is %s, need a float", name, x.dtype) end
  local v = x:detach():double()
  if not v:ge(least):logical_and(v:le(most)):all():item() then
    fail(op, "%s has a value that is %s", name,
      most == 1 and "no probability" or "negative, infinite or NaN")
  end
  return v
end
local LARGEST <const> = 2.0 ^ 53
--- A draw from Poisson's distribution for each mean in x. It reads values, so it evaluates.
def("poisson(x: T) -> T", function(x)
  local r = need_rates("poisson", "x", x, 0, LARGEST)
  if x:numel() == 0 then return x:detach():clone() end
  local far = r:ge(10)
  local low, high = where(far, 1, r), where(far, r, 10)
  local k = inverted((-low):exp(), function(i) return low / i end)
  if not far:any():item() then return k:to(x.dtype) end
  local b = high:sqrt() * 2.53 + 0.931
  local a = b * 0.02483 - 0.059
  local height, log = (b - 3.4):reciprocal() * 1.1328 + 1.1239, high:log()
  local y = rejected(far, a, b, high + 0.43, 0.9277 - (b - 2):reciprocal() * 3.6224, height,
    function(v) return v * log - high - (v + 1):lgamma() end, math.huge)
  return where(far, y, k):to(x.dtype)
end)
--- A draw from the binomial distribution (successes in n trials of probability p) for each element
--- of n and p. It reads values, so it evaluates.
def("binomial(n: T, p: T) -> T", function(n, p)
  local count, chance = need_rates("binomial", "n", n, 0, LARGEST),
    need_rates("binomial", "p", p, 0, 1)
  count, chance = table.unpack(flame.broadcast(count, chance))
  local size, dtype = count.shape, n.dtype
  if count:numel() == 0 then return flame.zeros(size, like(n)) end
  count = count:floor()
  local over = chance:gt(0.5)
  local q = where(over, 1 - chance, chance)
  local far = (count * q):ge(10)
  local trials, odds = where(far, 1, count), where(far, 0.5, q / (1 - q))
  local k = inverted((trials * where(far, -math.log(2), (-q):log1p())):exp(),
    function(i) return (trials - (i - 1)):clamp({ min = 0 }) * odds / i end)
  if far:any():item() then
    local many, share = where(far, count, 40), where(far, q, 0.5)
    local spread = (many * share * (1 - share)):sqrt()
    local b = spread * 2.53 + 1.15
    local a = b * 0.0248 - 0.0873 + share * 0.01
    local mode, log = ((many + 1) * share):floor(), (share / (1 - share)):log()
    local top = (mode + 1):lgamma() + (many - mode + 1):lgamma()
    local y = rejected(far, a, b, many * share + 0.5, 0.92 - b:reciprocal() * 4.2,
      (b:reciprocal() * 5.1 + 2.83) * spread,
      function(v)
        local w = v:minimum(many)
        return top - (w + 1):lgamma() - (many - w + 1):lgamma() + (w - mode) * log
      end, many)
    k = where(far, y, k)
  end
  k = k:minimum(count)
  return where(over, count - k, k):to(dtype)
end)
--- 1 with probability p, else 0.
def("bernoulli(p: T) -> T", function(p)
  if not p:is_floating_point() then fail("bernoulli", "p is %s, need a float", p.dtype) end
  local ok = p:detach():ge(0):logical_and(p:detach():le(1)):all()
  if not ok:item() then fail("bernoulli", "p has values outside 0 to 1") end
  return flame.rand_like(p):lt(p):to(p.dtype)
end)

-- ---- writes with random numbers -----------------------------------------------------------------
--- x becomes 1 with probability p, else 0.
def(":bernoulli_(x: T, p: num|T = 0.5) -> T", function(x, p)
  if type(p) == "number" and not (p >= 0 and p <= 1) then
    fail("bernoulli_", "p = %g, need 0 <= p <= 1", p)
  end
  return x:copy_(flame.rand(x.shape, { device = x.device }):lt(p):to(x.dtype))
end)
--- Replaces x by exponentially distributed numbers of rate lambd (mean 1 / lambd).
def(":exponential_(x: T, lambd = 1) -> T", function(x, rate)
  if not (rate > 0) then fail("exponential_", "lambd = %g, need lambd > 0", rate) end
  return x:copy_((1 - flame.rand(x.shape, { dtype = x.dtype, device = x.device })):log() / -rate)
end)
--- Replaces x by random integers from low to high; random_(high): from 1 to high.
def(":random_(x: T, high: int = 16777216) -> T",
  function(x, high)
    return x:copy_(flame.randint(x.shape, 1, high, { device = x.device }):to(x.dtype))
  end,
  ":random_(x: T, low: int, high: int) -> T", function(x, low, high)
    return x:copy_(flame.randint(x.shape, low, high, { device = x.device }):to(x.dtype))
  end)

-- Uniform numbers above 0 and below 1 for each element of x, in f64.
local function open_uniform(x)
  return flame.uniform(x.shape, 2.0 ^ -54, 1, { dtype = "f64", device = x.device })
end
local function random_write(name, parameters, f)
  def((":%s(x: T, %s) -> T"):format(name, parameters), function(x, ...)
    if not x:is_floating_point() then fail(name, "x is %s, need a float", x.dtype) end
    return x:copy_(f(open_uniform(x), ...):to(x.dtype))
  end)
end
--- Replaces x by numbers of the Cauchy distribution with this median and width sigma.
random_write("cauchy_", "median = 0, sigma = 1", function(u, median, sigma)
  if not (sigma > 0) then fail("cauchy_", "sigma = %g, need sigma > 0", sigma) end
  return ((u - 0.5) * math.pi):tan() * sigma + median
end)
--- Replaces x by log-normal numbers: exp of normal numbers of this mean and deviation.
random_write("log_normal_", "mean = 1, std = 2", function(u, mean, std)
  if not (std > 0) then fail("log_normal_", "std = %g, need std > 0", std) end
  return ((u * 2 - 1):erfinv() * (std * math.sqrt(2)) + mean):exp()
end)
--- Replaces x by numbers of trials up to the first success, with probability p each.
random_write("geometric_", "p = 0.5", function(u, p)
  if not (p > 0 and p < 1) then fail("geometric_", "p = %g, need 0 < p < 1", p) end
  return (u:log() / math.log(1 - p)):ceil():clamp({ min = 1 })
end)

-- ---- dropout of channels ------------------------------------------------------------------------
--- The shape of a mask with one draw per channel: axis 2, or axis 1 if there is no batch (single).
local function channels_of(x, single)
  local shape = x.shape
  for d = 1, #shape do if d > 2 or single and d > 1 then shape[d] = 1 end end
  return shape
end
for n = 1, 3 do
  local name = ("dropout%dd"):format(n)
  --- Whole channels are 0 with probability p, the rest scaled by 1 / (1 - p); only while training.
  def(name .. "(x: T, p = 0.5, training = true) -> T", function(x, p, training)
    if x.ndim < 2 then fail(name, "x has %d axes, need channels on axis 2", x.ndim) end
    if not training then return x:clone() end
    return x * flame.ones(channels_of(x, n ~= 2 and x.ndim == n + 1),
      { dtype = x.dtype, device = x.device }):dropout(p)
  end)
end
-- Dropped values become SELU's limit at -inf; a scale and a shift keep mean and variance.
local function alpha_dropout(name, shape_of)
  def(name .. "(x: T, p = 0.5, training = false) -> T", function(x, p, training)
    local low = -1.7580993408473766
    if not (p >= 0 and p <= 1) then fail(name, "p = %g, need 0 to 1", p) end
    if not training or p == 0 then return x:clone() end
    if p == 1 then return x * 0 end
    local a = ((1 - p) * (1 + p * low * low)) ^ -0.5
    return where(flame.rand(shape_of(x), { device = x.device }):ge(p), x, low) * a - a * low * p
  end)
end
--- Dropout that keeps the mean and variance of SELU's results; only while training.
alpha_dropout("alpha_dropout", function(x) return x.shape end)
--- alpha_dropout of whole channels.
alpha_dropout("feature_alpha_dropout", channels_of)
