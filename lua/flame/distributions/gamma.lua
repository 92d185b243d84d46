--- Gamma variates and what is made of them: Gamma, Beta, Dirichlet, StudentT. The file returns a
--- function that adds them to flame.distributions.
--
-- A gamma variate is drawn by Marsaglia and Tsang's method ("A simple method for generating gamma
-- variables", 2000) as its logarithm, which does not underflow for small concentrations, in f64.
-- There is a fixed number of rounds of rejection for all elements at once, and the last accepted
-- candidate is taken, so no value is read and draws fuse into one kernel. A round accepts with
-- probability 0.95 or more; if none of 8 does, which happens once in 3e10 draws, the result is that
-- of the most likely candidate.
local flame = require "flame"
local dtypes = require "flame.base.dtypes"
local where = flame.where
local ROUNDS <const> = 8

return function(distributions, shared)
  local extend, constructor, simple = shared.extend, shared.constructor, shared.simple
  local need, value_of, new, take = shared.need, shared.value_of, shared.new, shared.take
  local fail, followed = shared.fail, shared.followed

  -- ---- variates ---------------------------------------------------------------------------------
  --- The logarithms of gamma variates, one for each concentration in a (f64), of rate 1.
  local function draw(a)
    local like, shape = { dtype = "f64", device = a.device }, a.shape
    local small = a:lt(1)
    local d = where(small, a + 1, a) - 1 / 3
    local c, log = (d * 9):rsqrt(), flame.zeros_like(a)                  -- log of v = (1 + c n)³
    for _ = 1, ROUNDS do
      local n, u = flame.randn(shape, like), flame.rand(shape, like)
      local root = n * c + 1
      local inside = root:gt(0)
      local new_log = where(inside, root, 1):log() * 3
      local fits = u:log():lt(n:square() * 0.5 + d * (1 - root * root * root + new_log))
      log = where(inside:logical_and(fits), new_log, log)
    end
    -- if a < 1: a variate of a + 1 times u^(1 / a) is a variate of a; shared.waits gives -log u
    return d:log() + log - where(small, shared.waits(shape, a) / a, 0)
  end
  local log_variate = flame.func {
    name = "rsample",
    forward = function(ctx, a)
      local log = draw(a)
      ctx:save(a, log)
      return log
    end,
    backward = function(ctx, g) return g * shared.gamma_slope(ctx:saved()) end,
  }
  --- Logarithms of gamma variates of concentration a, of shape 'size'; differentiable in a.
  local function variates(a, size) return log_variate(a:double():expand(size)) end
  --- The smallest positive number of the dtype.
  local function least(dtype) return 2.0 ^ (dtypes.least[dtype] - 1) end
  local function above_zero(x, dtype)
    return x:clamp({ min = least(dtype) }):to(dtype)
  end
  --- Clamps to the numbers strictly between 0 and 1.
  local function inner(x, dtype)
    return x:clamp(least(dtype), 1 - dtypes.epsilon[dtype] / 2):to(dtype)
  end

  --- icdf where no quantile is finite: infinity for probabilities p above a half, else 'low'.
  local function beyond(p, low)
    return where(p:detach():gt(0.5), flame.full_like(p, math.huge), low)
  end

  -- ---- Gamma ------------------------------------------------------------------------------------
  local Gamma = extend "Gamma"
  constructor(Gamma, "concentration: T|num, rate: T|num",
    --- The gamma distribution: density rate^a x^(a - 1) exp(-rate x) / gamma(a), a the
    --- concentration.
    function(concentration, rate, validate)
      return simple(Gamma, validate, { "concentration", concentration, need.positive },
        { "rate", rate, need.positive })
    end)
  function Gamma:draw(size)
    local a, rate = self.concentration, self.rate
    return above_zero((variates(a, size) - rate:double():log()):exp(), a.dtype)
  end
  function Gamma:log_prob(value)
    local a, x = self.concentration, value_of(self, "log_prob", value, need.not_negative)
    return a * self.rate:log() + (a - 1):xlogy(x) - self.rate * x - a:lgamma()
  end
  function Gamma:entropy()
    local a = self.concentration
    return a - self.rate:log() + a:lgamma() + (1 - a) * a:digamma()
  end
  function Gamma:cdf(value)
    local x = value_of(self, "cdf", value, need.number):clamp { min = 0 }
    return flame.igamma(self.concentration, self.rate * x)
  end
  function Gamma:icdf(share)
    local p = value_of(self, "icdf", share, need.share)
    local a, rate, dtype = self.concentration, self.rate, p.dtype
    local inside = p:gt(0):logical_and(p:lt(1)):detach()
    local q = where(inside, p:detach(), 0.5):double()
    local x = shared.gamma_quantile((a:detach():double() + q * 0), q):exp():to(dtype)
    local y = x / rate:detach()
    y = where(rate:detach():gt(0):logical_and(inside), y, beyond(p, 0))
    local safe = where(inside, y, 1)
    return followed(y, p, flame.igamma(a, rate * safe), self:log_prob(safe))
  end
  function Gamma.properties:mean() return self.concentration / self.rate end
  function Gamma.properties:variance() return self.concentration / self.rate:square() end
  function Gamma.properties:mode()
    return ((self.concentration - 1) / self.rate):clamp { min = 0 }
  end

  -- ---- Beta -------------------------------------------------------------------------------------
  local Beta = extend "Beta"
  constructor(Beta, "concentration1: T|num, concentration0: T|num",
    --- The beta distribution on 0 to 1: density proportional to x^(concentration1 - 1)
    --- (1 - x)^(concentration0 - 1).
    function(concentration1, concentration0, validate)
      return simple(Beta, validate, { "concentration1", concentration1, need.positive },
        { "concentration0", concentration0, need.positive })
    end)
  function Beta:draw(size)
    local a, b = self.concentration1, self.concentration0
    return inner((variates(a, size) - variates(b, size)):sigmoid(), a.dtype)
  end
  function Beta:log_prob(value)
    local a, b, x = self.concentration1, self.concentration0,
      value_of(self, "log_prob", value, need.share)
    return (a - 1):xlogy(x) + (b - 1):xlog1py(-x) - shared.log_beta(a, b)
  end
  function Beta:entropy()
    local a, b = self.concentration1, self.concentration0
    local n = a + b
    return shared.log_beta(a, b) - (a - 1) * a:digamma() - (b - 1) * b:digamma()
      + (n - 2) * n:digamma()
  end
  function Beta:cdf(value)
    local x = value_of(self, "cdf", value, need.number):clamp(0, 1)
    return shared.beta_share("Beta", self.concentration1, self.concentration0, x, 1 - x)
  end
  function Beta:icdf(share)
    local p = value_of(self, "icdf", share, need.share)
    local a, b = self.concentration1, self.concentration0
    local inside = p:gt(0):logical_and(p:lt(1)):detach()
    local q = where(inside, p:detach(), 0.5):double()
    local u, v = a:detach():double() + q * 0, b:detach():double() + q * 0
    local x = shared.beta_quantile(u, v, q, 1 - q):sigmoid():to(p.dtype)
    x = where(inside, x, p:detach())
    return followed(x, p, shared.beta_share("Beta", a, b, x, 1 - x), self:log_prob(x))
  end
  function Beta.properties:mean()
    return self.concentration1 / (self.concentration1 + self.concentration0)
  end
  function Beta.properties:variance()
    local a, b = self.concentration1, self.concentration0
    return a * b / ((a + b):square() * (a + b + 1))
  end
  --- The mode of Dirichlet's distribution for the concentrations c along the last axis; if all of
  --- them are below 1, the corner (a one-hot vector) of the largest.
  local function densest(c)
    local more = (c - 1):clamp { min = 0 }
    local none = c:lt(1):all(-1, { keepdim = true })
    local corner = flame.one_hot(c:argmax(-1), c:size(-1)):to(c.dtype)
    local total = where(none, 1, more:sum(-1, { keepdim = true }))
    return where(none, corner, more / total)
  end
  function Beta.properties:mode()
    return densest(flame.stack({ self.concentration1, self.concentration0 }, -1))
      :select(-1, 1):clone()
  end

  -- ---- Dirichlet --------------------------------------------------------------------------------
  local Dirichlet = extend "Dirichlet"
  constructor(Dirichlet, "concentration: T",
    --- Dirichlet's distribution of shares that sum to 1 along the last axis of concentration.
    function(concentration, validate)
      local self = new(Dirichlet, validate)
      if concentration.ndim < 1 then
        fail("Dirichlet", "concentration is 0-d, need an axis of shares")
      end
      self.concentration = take(self, "Dirichlet", { concentration = concentration },
        { { "concentration", need.positive } })[1]
      self.names, self.event_shape = { "concentration" }, { concentration:size(-1) }
      self.batch_shape = table.move(concentration.shape, 1, concentration.ndim - 1, 1, {})
      return self
    end)
  function Dirichlet:draw(size)
    local a = self.concentration
    if a:size(-1) == 0 then return flame.zeros(size, a) end
    local log = variates(a, size)
    local x = (log - log:detach():amax(-1, { keepdim = true })):exp()
    return above_zero(x / shared.halved_sum(x), a.dtype)
  end
  local simplex = { text = "shares that sum to 1", holds = function(x)
    -- tolerance for the sum of x: rounding, and each element being raised to the smallest number
    local near = 1e-6 + dtypes.epsilon[x.dtype] + x:size(-1) * least(x.dtype)
    local off = (x:double():sum(-1, { keepdim = true }) - 1):abs()
    return x:ge(0):logical_and(off:le(near))
  end }
  function Dirichlet:log_prob(value)
    local a, x = self.concentration, value_of(self, "log_prob", value, simplex)
    return (a - 1):xlogy(x):sum(-1) + a:sum(-1):lgamma() - a:lgamma():sum(-1)
  end
  function Dirichlet:entropy()
    local a = self.concentration
    local n, k = a:sum(-1), a:size(-1)
    return a:lgamma():sum(-1) - n:lgamma() - (k - n) * n:digamma()
      - ((a - 1) * a:digamma()):sum(-1)
  end
  function Dirichlet.properties:mean()
    return self.concentration / self.concentration:sum(-1, { keepdim = true })
  end
  function Dirichlet.properties:variance()
    local a = self.concentration
    local n = a:sum(-1, { keepdim = true })
    return a * (n - a) / (n:square() * (n + 1))
  end
  function Dirichlet.properties:mode() return densest(self.concentration) end

  -- ---- StudentT ---------------------------------------------------------------------------------
  local StudentT = extend "StudentT"
  constructor(StudentT, "df: T|num, loc: T|num = 0, scale: T|num = 1",
    --- Student's t distribution of df degrees of freedom, moved by loc and stretched by scale.
    function(df, loc, scale, validate)
      return simple(StudentT, validate, { "df", df, need.positive }, { "loc", loc, need.finite },
        { "scale", scale, need.positive })
    end)
  function StudentT:draw(size)
    local df, dtype = self.df, self.df.dtype
    local z = flame.randn(size, { dtype = "f64", device = df.device })
    -- log of the mean square of df normal numbers: a gamma variate of df / 2, over df / 2
    local log = variates(df * 0.5, size) - (df * 0.5):double():log()
    return self.loc + self.scale * (z * (log * -0.5):exp()):to(dtype)
  end
  function StudentT:log_prob(value)
    local df = self.df
    local z = (value_of(self, "log_prob", value, need.number) - self.loc) / self.scale
    return (df + 1) * -0.5 * (z:square() / df):log1p() - self.scale:log()
      - df:log() * 0.5 - shared.log_beta(df * 0.5, flame.full_like(df, 0.5))
  end
  function StudentT:entropy()
    local df = self.df
    return self.scale:log() + (df + 1) * 0.5 * (((df + 1) * 0.5):digamma() - (df * 0.5):digamma())
      + df:log() * 0.5 + shared.log_beta(df * 0.5, flame.full_like(df, 0.5))
  end
  function StudentT:cdf(value)
    local df = self.df
    local z = (value_of(self, "cdf", value, need.number) - self.loc) / self.scale
    local d = df + z:square()                            -- x = df / d, 1 - x = z² / d
    local tail = shared.beta_share("StudentT", df * 0.5, flame.full_like(df, 0.5), df / d,
      z:square() / d) * 0.5
    return where(z:le(0), tail, 1 - tail)
  end
  function StudentT:icdf(share)
    local p = value_of(self, "icdf", share, need.share)
    local inside = p:gt(0):logical_and(p:lt(1)):logical_and(p:ne(0.5)):detach()
    local q = where(inside, p:detach(), 0.25):double()
    local df = self.df:detach():double() + q * 0
    local tail = q:minimum(1 - q) * 2
    -- t = log(x / (1 - x)) for x = df / (df + z²), hence z² = df exp(-t)
    local t = shared.beta_quantile(df * 0.5, flame.full_like(df, 0.5), tail, 1 - tail)
    local z = df:sqrt() * (t * -0.5):exp() * where(q:lt(0.5), -1, 1)
    local y = self.loc:detach() + self.scale:detach() * z:to(p.dtype)
    local ends = where(p:detach():eq(0.5), self.loc:detach(), beyond(p, -math.huge))
    y = where(inside, y, ends)
    return followed(y, p, self:cdf(where(y:isfinite(), y, 0)), self:log_prob(where(y:isfinite(),
      y, 0)))
  end
  function StudentT.properties:mean()
    return where(self.df:gt(1), self.loc, 0 / 0)
  end
  function StudentT.properties:mode() return self.loc:clone() end
  function StudentT.properties:variance()
    local df = self.df
    local many = where(df:gt(2), df, 3)
    local v = self.scale:square() * many / (many - 2)
    return where(df:gt(2), v, where(df:gt(1), flame.full_like(v, math.huge), 0 / 0))
  end
  return distributions
end
