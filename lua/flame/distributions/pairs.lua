--- Divergences of pairs of distributions in closed form: kl_divergence, register_kl. The file
--- returns a function that adds them to flame.distributions.
local flame = require "flame"
local internal, where, linalg = flame.internal, flame.where, flame.linalg

return function(distributions, shared)
  local fail, joined, log_beta = shared.fail, shared.joined, shared.log_beta
  local known = {}                                       -- "P Q" -> f(p, q)

  --- Registers f(p, q) as the Kullback-Leibler divergence of the class named p from the class named
  --- q, in place of an existing one. f returns a tensor of the batch's shape.
  distributions.register_kl = internal.declare("register_kl(p: str, q: str, f: fn)", "",
    function(p, q, f) known[p .. " " .. q] = f end)
  local register = distributions.register_kl

  --- The Kullback-Leibler divergence of p from q: the mean of log p(x) - log q(x) for draws x of p.
  distributions.kl_divergence = internal.declare(
    "kl_divergence(p: Distribution, q: Distribution) -> T", "", function(p, q)
      local f = known[p.class_name .. " " .. q.class_name]
      if not f then
        fail("kl_divergence",
          "there is none of %s from %s\1: add one by distributions.register_kl(\"%s\", \"%s\", f)",
          p.class_name, q.class_name, p.class_name, q.class_name)
      end
      return f(p, q)
    end)

  --- count (a - b), for logarithms a and b; where count is 0, 0 with gradients of 0.
  local function part(count, a, b)
    local none = count:detach():eq(0)
    return where(none, 0, count * where(none, 0, a - b))
  end

  -- ---- of one class -----------------------------------------------------------------------------
  register("Normal", "Normal", function(p, q)
    local ratio = (p.scale / q.scale):square()
    return (ratio + ((p.loc - q.loc) / q.scale):square() - 1 - ratio:log()) * 0.5
  end)
  local function of_bases(p, q) return distributions.kl_divergence(p.base_dist, q.base_dist) end
  register("LogNormal", "LogNormal", of_bases)
  register("Uniform", "Uniform", function(p, q)
    local inside = p.low:ge(q.low):logical_and(p.high:le(q.high))
    return where(inside, ((q.high - q.low) / (p.high - p.low)):log(), math.huge)
  end)
  register("Laplace", "Laplace", function(p, q)
    local ratio, off = p.scale / q.scale, (p.loc - q.loc):abs()
    return off / q.scale + ratio * (-off / p.scale):exp() - ratio:log() - 1
  end)
  register("Exponential", "Exponential", function(p, q)
    local ratio = q.rate / p.rate
    return ratio - ratio:log() - 1
  end)
  local function of_gammas(a, r, b, s)
    return (a - b) * a:digamma() - a:lgamma() + b:lgamma() + b * (r / s):log() + a * (s / r - 1)
  end
  register("Gamma", "Gamma", function(p, q)
    return of_gammas(p.concentration, p.rate, q.concentration, q.rate)
  end)
  local function of_betas(a, b, c, d)
    return log_beta(c, d) - log_beta(a, b) + (a - c) * a:digamma() + (b - d) * b:digamma()
      + (c + d - a - b) * (a + b):digamma()
  end
  register("Beta", "Beta", function(p, q)
    return of_betas(p.concentration1, p.concentration0, q.concentration1, q.concentration0)
  end)
  register("Dirichlet", "Dirichlet", function(p, q)
    local a, b = p.concentration, q.concentration
    local n = a:sum(-1)
    return n:lgamma() - b:sum(-1):lgamma() + (b:lgamma() - a:lgamma()):sum(-1)
      + ((a - b) * (a:digamma() - n:digamma():unsqueeze(-1))):sum(-1)
  end)
  local function of_bits(p, q)
    local a, b = shared.logs(p)
    local c, d = shared.logs(q)
    return part(p.probs, a, c) + part(1 - p.probs, b, d)
  end
  register("Bernoulli", "Bernoulli", of_bits)
  register("Binomial", "Binomial", function(p, q)
    local n, m = p.total_count, q.total_count
    if n:gt(m):any():item() then
      return where(n:gt(m), math.huge, 0)
    end
    if n:lt(m):any():item() then
      fail("kl_divergence", "of Binomials with a total_count below the other's there is no closed form")
    end
    return n * of_bits(p, q)
  end)
  register("Geometric", "Geometric", function(p, q) return of_bits(p, q) / p.probs end)
  register("Poisson", "Poisson", function(p, q)
    return part(p.rate, shared.log(p.rate), shared.log(q.rate)) - (p.rate - q.rate)
  end)
  register("Categorical", "Categorical", function(p, q)
    if p.num_events ~= q.num_events then
      fail("kl_divergence", "one Categorical has %d classes, the other %d", p.num_events,
        q.num_events)
    end
    return part(p.probs, p.logits, q.logits):sum(-1)
  end)
  register("MultivariateNormal", "MultivariateNormal", function(p, q)
    local n, m = p.event_shape[1], q.event_shape[1]
    if n ~= m then
      fail("kl_divergence", "one MultivariateNormal has %d components, the other %d", n, m)
    end
    local size = flame.broadcast_shapes(p.batch_shape, q.batch_shape)
    local a, b = p.scale_tril:expand(joined(size, { n, n })),
      q.scale_tril:expand(joined(size, { n, n }))
    local off = (q.loc - p.loc):expand(joined(size, { n })):unsqueeze(-1)
    local z = linalg.solve_triangular(b, flame.cat({ a, off }, -1), { upper = false })
    return shared.half_log_det(b) - shared.half_log_det(a)
      + (z:square():sum({ -1, -2 }) - n) * 0.5
  end)
  register("Independent", "Independent", function(p, q)
    if p.reinterpreted_batch_ndims ~= q.reinterpreted_batch_ndims then
      fail("kl_divergence", "one Independent has %d axes, the other %d",
        p.reinterpreted_batch_ndims, q.reinterpreted_batch_ndims)
    end
    return shared.inner_sum(of_bases(p, q), p.reinterpreted_batch_ndims)
  end)
  register("TransformedDistribution", "TransformedDistribution", function(p, q)
    local same = #p.transforms == #q.transforms
    for i, t in ipairs(p.transforms) do same = same and rawequal(t, q.transforms[i]) end
    if not same then
      fail("kl_divergence", "the transforms of both must be the same objects")
    end
    return of_bases(p, q)
  end)

  -- ---- of two -----------------------------------------------------------------------------------
  register("Exponential", "Gamma", function(p, q)
    return of_gammas(flame.ones_like(p.rate), p.rate, q.concentration, q.rate)
  end)
  register("Gamma", "Exponential", function(p, q)
    return of_gammas(p.concentration, p.rate, flame.ones_like(q.rate), q.rate)
  end)
  register("Uniform", "Normal", function(p, q)
    local off = ((p.low + p.high) * 0.5 - q.loc) / q.scale
    return (q.scale * math.sqrt(2 * math.pi) / (p.high - p.low)):log() + off:square() * 0.5
      + ((p.high - p.low) / q.scale):square() * (1 / 24)
  end)
  register("Laplace", "Normal", function(p, q)
    local ratio = (p.scale / q.scale):square()
    return ratio + ((p.loc - q.loc) / q.scale):square() * 0.5 - ratio:log() * 0.5
      + (0.5 * math.log(math.pi / 2) - 1)
  end)
  register("Normal", "Laplace", function(p, q)
    local z = (p.loc - q.loc) / p.scale
    local spread = p.scale * ((z:square() * -0.5):exp() * math.sqrt(2 / math.pi)
      + z * (z * math.sqrt(0.5)):erf())
    return (q.scale * 2):log() - p.scale:log() - 0.5 * math.log(2 * math.pi) - 0.5
      + spread / q.scale
  end)
  register("Uniform", "Beta", function(p, q)
    local function of(x) return x * shared.log(x:abs(), 1) end
    local a, b, width = q.concentration1, q.concentration0, p.high - p.low
    local log_x = (of(p.high) - of(p.low)) / width - 1
    local log_y = (of(1 - p.low) - of(1 - p.high)) / width - 1
    local inside = p.low:ge(0):logical_and(p.high:le(1))
    return where(inside, -width:log() - (a - 1) * log_x - (b - 1) * log_y + log_beta(a, b),
      math.huge)
  end)
  return distributions
end
