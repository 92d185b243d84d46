--- Distributions on the line and on half-lines that have closed forms: Normal, Uniform, Laplace,
-- Exponential. The file returns a function that adds them to flame.distributions.
local flame = require "flame"
local where = flame.where
local HALF_LOG_2PI <const> = 0.5 * math.log(2 * math.pi)

return function(distributions, shared)
  local extend, constructor, simple = shared.extend, shared.constructor, shared.simple
  local need, value_of, fail = shared.need, shared.value_of, shared.fail

  local function random(size, x) return flame.rand(size, { dtype = x.dtype, device = x.device }) end
  --- Exponential numbers of mean 1.
  local function waits(size, x) return -(-random(size, x)):log1p() end
  shared.waits = waits
  local function mean_of(name) return function(self) return self[name]:clone() end end

  -- ---- Normal -----------------------------------------------------------------------------------
  local Normal = extend "Normal"
  shared.normal_class = Normal
  constructor(Normal, "loc: T|num, scale: T|num",
    --- The normal distribution of mean loc and standard deviation scale.
    function(loc, scale, validate)
      return simple(Normal, validate, { "loc", loc, need.finite },
        { "scale", scale, need.positive })
    end)
  function Normal:draw(size)
    return flame.randn(size, { dtype = self.loc.dtype, device = self.loc.device }) * self.scale
      + self.loc
  end
  function Normal:log_prob(value)
    local z = (value_of(self, "log_prob", value, need.number) - self.loc) / self.scale
    return z:square() * -0.5 - self.scale:log() - HALF_LOG_2PI
  end
  function Normal:entropy() return self.scale:log() + (0.5 + HALF_LOG_2PI) end
  function Normal:cdf(value)
    return ((value_of(self, "cdf", value, need.number) - self.loc) / self.scale):ndtr()
  end
  function Normal:icdf(share)
    return value_of(self, "icdf", share, need.share):ndtri() * self.scale + self.loc
  end
  Normal.properties.mean, Normal.properties.mode = mean_of "loc", mean_of "loc"
  function Normal.properties:variance() return self.scale:square() end
  function Normal.properties:stddev() return self.scale:clone() end

  -- ---- Uniform ----------------------------------------------------------------------------------
  local Uniform = extend "Uniform"
  constructor(Uniform, "low: T|num, high: T|num",
    --- The uniform distribution from low to high, high above low.
    function(low, high, validate)
      local self = simple(Uniform, validate, { "low", low, need.finite },
        { "high", high, need.finite })
      if self.validate then
        local top = self.high:detach()
        shared.check("Uniform", "high", top, top:gt(self.low:detach()), "more than low")
      end
      return self
    end)
  function Uniform:draw(size)
    return random(size, self.low) * (self.high - self.low) + self.low
  end
  function Uniform:log_prob(value)
    local x = value_of(self, "log_prob", value, need.number)
    if self.validate then
      local v = x:detach()
      shared.check("Uniform", "log_prob: value", v,
        v:ge(self.low:detach()):logical_and(v:le(self.high:detach())), "low to high")
    end
    local inside = x:ge(self.low):logical_and(x:lt(self.high))
    return where(inside, -(self.high - self.low):log() + x * 0, -math.huge)
  end
  function Uniform:entropy() return (self.high - self.low):log() end
  function Uniform:cdf(value)
    local x = value_of(self, "cdf", value, need.number)
    return ((x - self.low) / (self.high - self.low)):clamp(0, 1)
  end
  function Uniform:icdf(share)
    return value_of(self, "icdf", share, need.share) * (self.high - self.low) + self.low
  end
  function Uniform.properties:mean() return (self.low + self.high) * 0.5 end
  function Uniform.properties:variance() return (self.high - self.low):square() / 12 end
  function Uniform.properties:mode()
    fail("Uniform", "it has no mode: all values are alike")
  end

  -- ---- Laplace ----------------------------------------------------------------------------------
  local Laplace = extend "Laplace"
  constructor(Laplace, "loc: T|num, scale: T|num",
    --- Laplace's distribution around loc, with the density exp(-|x - loc| / scale) / (2 scale).
    function(loc, scale, validate)
      return simple(Laplace, validate, { "loc", loc, need.finite },
        { "scale", scale, need.positive })
    end)
  function Laplace:draw(size)
    local wait = waits(size, self.loc)
    return self.loc + self.scale * where(random(size, self.loc):lt(0.5), -wait, wait)
  end
  function Laplace:log_prob(value)
    local x = value_of(self, "log_prob", value, need.number)
    return -(x - self.loc):abs() / self.scale - (self.scale * 2):log()
  end
  function Laplace:entropy() return (self.scale * 2):log() + 1 end
  function Laplace:cdf(value)
    local z = (value_of(self, "cdf", value, need.number) - self.loc) / self.scale
    local tail = (-z:abs()):exp() * 0.5
    return where(z:lt(0), tail, 1 - tail)
  end
  function Laplace:icdf(share)
    local p = value_of(self, "icdf", share, need.share)
    local low = p:lt(0.5)
    local side = where(low, (where(low, p, 0.5) * 2):log(),
      -((1 - where(low, 0.5, p)) * 2):log())
    return self.loc + self.scale * side
  end
  Laplace.properties.mean, Laplace.properties.mode = mean_of "loc", mean_of "loc"
  function Laplace.properties:variance() return self.scale:square() * 2 end
  function Laplace.properties:stddev() return self.scale * math.sqrt(2) end

  -- ---- Exponential ------------------------------------------------------------------------------
  local Exponential = extend "Exponential"
  constructor(Exponential, "rate: T|num",
    --- Exponential distribution: times between events that occur 'rate' times per unit of time.
    function(rate, validate)
      return simple(Exponential, validate, { "rate", rate, need.positive })
    end)
  function Exponential:draw(size) return waits(size, self.rate) / self.rate end
  function Exponential:log_prob(value)
    return self.rate:log() - self.rate * value_of(self, "log_prob", value, need.not_negative)
  end
  function Exponential:entropy() return 1 - self.rate:log() end
  function Exponential:cdf(value)
    return -(-self.rate * value_of(self, "cdf", value, need.number):clamp { min = 0 }):expm1()
  end
  function Exponential:icdf(share)
    return -(-value_of(self, "icdf", share, need.share)):log1p() / self.rate
  end
  function Exponential.properties:mean() return self.rate:reciprocal() end
  function Exponential.properties:variance() return self.rate:square():reciprocal() end
  function Exponential.properties:stddev() return self.rate:reciprocal() end
  function Exponential.properties:mode() return flame.zeros_like(self.rate) end
  return distributions
end
