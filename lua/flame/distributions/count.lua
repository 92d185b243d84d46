--- Classes and counts: Bernoulli, Geometric, Binomial, Poisson, Categorical. Draws have no
-- gradient. The file returns a function that adds them to flame.distributions.
local flame = require "flame"
local dtypes = require "flame.base.dtypes"
local where = flame.where

return function(distributions, shared)
  local extend, constructor, simple = shared.extend, shared.constructor, shared.simple
  local need, value_of, new, take = shared.need, shared.value_of, shared.new, shared.take
  local fail, either = shared.fail, shared.either

  --- A class with the parameter probs or its log-odds, logits; the one not given is a property.
  local function by_chance(name, parent)
    local class = extend(name, parent)
    class.properties.has_rsample = shared.never
    function class.properties:probs() return self.logits:sigmoid() end
    function class.properties:logits()
      local one, none = shared.logs(self)
      return one - none
    end
    return class
  end
  --- log p, with the gradient 0 at p = 0 instead of an infinite one. With 'least', a small number,
  --- log p is log(least) at p = 0, for callers that multiply it by p: p log p is then 0 there.
  function shared.log(p, least) return where(p:detach():eq(0), least or 0, p):log() end
  --- log p and log(1 - p) without cancellation, from probs or logits, whichever was given.
  function shared.logs(self, least)
    local logits, p = rawget(self, "logits"), self.probs
    if logits then return logits:logsigmoid(), (-logits):logsigmoid() end
    return shared.log(p, least),
      (-where(p:detach():eq(1), 1 - (least or 0), p)):log1p()
  end
  local logs = shared.logs
  local function epsilon(p) return dtypes.epsilon[p.dtype] end
  --- count times log; where count is 0 and log infinite, 0 with gradients of 0 instead of NaN.
  local function times(count, log)
    return count * where(count:detach():eq(0):logical_and(log:detach():isinf()), 0, log)
  end

  -- ---- Bernoulli --------------------------------------------------------------------------------
  local Bernoulli = by_chance "Bernoulli"
  constructor(Bernoulli, "probs?: T|num, logits?: T|num",
    --- 1 with probability probs, else 0; logits are log(p / (1 - p)).
    function(probs, logits, validate)
      local name, x = either("Bernoulli", probs, logits)
      return simple(Bernoulli, validate,
        { name, x, name == "probs" and need.share or need.number })
    end)
  function Bernoulli:draw(size)
    local p = self.probs
    return flame.rand(size, { dtype = p.dtype, device = p.device }):lt(p):to(p.dtype)
  end
  local bit = { holds = function(x) return x:eq(0):logical_or(x:eq(1)) end, text = "0 or 1" }
  function Bernoulli:log_prob(value)
    local x = value_of(self, "log_prob", value, bit)
    local one, none = logs(self)
    return times(x, one) + times(1 - x, none)
  end
  function Bernoulli:entropy()
    local p, one, none = self.probs, logs(self, epsilon(self.probs))
    return -(times(p, one) + times(1 - p, none))
  end
  function Bernoulli:cdf(value)
    local x = value_of(self, "cdf", value, need.number)
    return where(x:lt(0), 0, where(x:lt(1), 1 - self.probs, 1))
  end
  function Bernoulli.properties:mean() return self.probs:clone() end
  function Bernoulli.properties:variance() return self.probs * (1 - self.probs) end
  function Bernoulli.properties:mode() return self.probs:ge(0.5):to(self.probs.dtype) end

  -- ---- Geometric --------------------------------------------------------------------------------
  local Geometric = by_chance "Geometric"
  constructor(Geometric, "probs?: T|num, logits?: T|num",
    --- The number of failures before the first success; trials succeed with probability probs.
    function(probs, logits, validate)
      local name, x = either("Geometric", probs, logits)
      return simple(Geometric, validate,
        { name, x, name == "probs" and need.positive_share or need.number })
    end)
  function Geometric:draw(size)
    local _, none = logs(self)
    return (shared.waits(size, none) / -none):floor()
  end
  function Geometric:log_prob(value)
    local x = value_of(self, "log_prob", value, need.count)
    local one, none = logs(self)
    return times(x, none) + one
  end
  function Geometric:entropy()
    local p, one, none = self.probs, logs(self, epsilon(self.probs))
    return -(one + times(1 - p, none) / p)
  end
  function Geometric:cdf(value)
    local x = value_of(self, "cdf", value, need.number):floor():clamp { min = -1 }
    local _, none = logs(self)
    return -times(x + 1, none):expm1()
  end
  function Geometric.properties:mean() return self.probs:reciprocal() - 1 end
  function Geometric.properties:variance()
    return (1 - self.probs) / self.probs:square()
  end
  function Geometric.properties:mode() return self.probs * 0 end

  -- ---- Binomial ---------------------------------------------------------------------------------
  local Binomial = by_chance "Binomial"
  constructor(Binomial, "total_count: T|num = 1, probs?: T|num, logits?: T|num",
    --- The number of successes in total_count trials, each with probability probs.
    function(total_count, probs, logits, validate)
      local name, x = either("Binomial", probs, logits)
      if flame.is_tensor(total_count) and flame.is_tensor(x) then
        total_count = total_count:to(x.dtype)
      end
      return simple(Binomial, validate, { "total_count", total_count, need.count },
        { name, x, name == "probs" and need.share or need.number })
    end)
  function Binomial:draw(size)
    return flame.binomial(self.total_count:expand(size), self.probs:expand(size))
  end
  function Binomial:log_prob(value)
    local n = self.total_count
    local x = value_of(self, "log_prob", value, need.count)
    if self.validate then
      local v = x:detach()
      shared.check("Binomial", "log_prob: value", v, v:le(n:detach()), "at most total_count")
    end
    local one, none = logs(self)
    return (n + 1):lgamma() - (x + 1):lgamma() - (n - x + 1):lgamma() + times(x, one)
      + times(n - x, none)
  end
  function Binomial:cdf(value)
    local n = self.total_count
    local x = value_of(self, "cdf", value, need.number):detach():floor()
    local inside = x:ge(0):logical_and(x:lt(n))
    local k, p = where(inside, x, 0), self.probs
    local share = shared.beta_share("Binomial", where(inside, n - k, 1):detach(),
      (k + 1):detach(), (1 - p) + k * 0, p + k * 0)
    return where(inside, share, where(x:lt(0), 0, 1))
  end
  function Binomial.properties:mean() return self.total_count * self.probs end
  function Binomial.properties:variance()
    return self.total_count * self.probs * (1 - self.probs)
  end
  function Binomial.properties:mode()
    return ((self.total_count + 1) * self.probs):floor():minimum(self.total_count)
  end

  -- ---- Poisson ----------------------------------------------------------------------------------
  local Poisson = extend "Poisson"
  Poisson.properties.has_rsample = shared.never
  constructor(Poisson, "rate: T|num",
    --- The number of events that occur independently, 'rate' of them on average.
    function(rate, validate)
      return simple(Poisson, validate, { "rate", rate, need.not_negative })
    end)
  function Poisson:draw(size) return flame.poisson(self.rate:expand(size)) end
  function Poisson:log_prob(value)
    local x = value_of(self, "log_prob", value, need.count)
    return x:xlogy(self.rate) - self.rate - (x + 1):lgamma()
  end
  function Poisson:cdf(value)
    local x = value_of(self, "cdf", value, need.number):detach():floor()
    local share = flame.igammac(x:clamp { min = 0 } + 1, self.rate + x * 0)
    return where(x:lt(0), 0, share)
  end
  function Poisson.properties:mean() return self.rate:clone() end
  function Poisson.properties:variance() return self.rate:clone() end
  function Poisson.properties:mode() return self.rate:floor() end

  -- ---- Categorical ------------------------------------------------------------------------------
  local Categorical = extend("Categorical")
  Categorical.properties.has_rsample = shared.never
  constructor(Categorical, "probs?: T, logits?: T",
    --- Classes 1 to n: weights probs (…, n) are scaled to sum to 1; logits are their logarithms.
    function(probs, logits, validate)
      local self, name, x = new(Categorical, validate), either("Categorical", probs, logits)
      if x.ndim < 1 or x:size(-1) < 1 then
        fail("Categorical", "%s has shape (%s), need an axis of at least one class", name,
          table.concat(x.shape, ", "))
      end
      x = take(self, "Categorical", { [name] = x },
        { { name, name == "probs" and need.not_negative or need.number } })[1]
      if name == "probs" then
        local total = x:sum(-1, { keepdim = true })
        if self.validate then
          shared.check("Categorical", "the sum of probs", total:detach(), total:detach():gt(0),
            "weights above 0")
        end
        self.probs = x / total
      else self.logits = x:log_softmax(-1) end
      -- draws use weights as given: their sum, as other sums, differs in bits between devices
      self.weights = x:detach()
      self.names, self.shown = { name, "weights" }, { name }
      self.batch_shape = table.move(x.shape, 1, x.ndim - 1, 1, {})
      return self
    end)
  function Categorical.properties:probs() return self.logits:exp() end
  function Categorical.properties:logits() return shared.log(self.probs) end
  function Categorical.properties:num_events() return self[self.names[1]]:size(-1) end
  function Categorical:draw(size)
    local p = self.weights
    if self.names[1] == "logits" then
      p = p:to(p.dtype == "f64" and "f64" or "f32")
      p = (p - p:amax(-1, { keepdim = true })):exp()
    end
    local classes, count = p:size(-1), 1
    for i = 1, #size - #self.batch_shape do count = count * size[i] end
    local rows = p:reshape(-1, classes)
    if count == 0 or rows:size(1) == 0 then
      return flame.zeros(size, { dtype = "i64", device = p.device })
    end
    return flame.multinomial(rows, count, { replacement = true }):t():reshape(size):clone()
  end
  --- Log-probabilities of classes 1 to num_events; value and batch broadcast against each other.
  function Categorical:log_prob(value)
    local log = self.logits
    local class = { text = "1 to " .. self.num_events, holds = function(x)
      return x:ge(1):logical_and(x:le(self.num_events)):logical_and(x:eq(x:floor()))
    end }
    local x = value_of(self, "log_prob", value, class, log):long()
    if x.ndim < #self.batch_shape or table.concat(x.shape, " ") ~= table.concat(self.batch_shape,
        " ") then
      local size = flame.broadcast_shapes(x.shape, self.batch_shape)
      x, log = x:expand(size), log:expand(shared.joined(size, { log:size(-1) }))
    end
    return log:gather(-1, x:unsqueeze(-1)):squeeze(-1)
  end
  function Categorical:entropy()
    local p = self.probs
    local log = self.names[1] == "probs" and shared.log(p, epsilon(p))
    return -times(p, log or self.logits):sum(-1)
  end
  function Categorical.properties:mode() return self[self.names[1]]:argmax(-1) end
  function Categorical.properties:mean()
    fail("Categorical", "it has no mean: its values are names of classes")
  end
  Categorical.properties.variance = Categorical.properties.mean
  return distributions
end
