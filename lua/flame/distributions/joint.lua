--- Distributions of vectors and those made of others: MultivariateNormal, Independent,
-- MixtureSameFamily. The file returns a function that adds them to flame.distributions.
local flame = require "flame"
local where, linalg = flame.where, flame.linalg
local LOG_2PI <const> = math.log(2 * math.pi)

return function(distributions, shared)
  local extend, constructor, joined = shared.extend, shared.constructor, shared.joined
  local need, value_of, new, take = shared.need, shared.value_of, shared.new, shared.take
  local fail = shared.fail

  -- ---- MultivariateNormal -----------------------------------------------------------------------
  local MultivariateNormal = extend "MultivariateNormal"
  local NAMES <const> = { "covariance_matrix", "precision_matrix", "scale_tril" }
  local function lower_triangular(x)
    return x:eq(x:tril()):logical_and(x:isfinite()):logical_and(
      where(flame.eye(x:size(-1), { dtype = x.dtype, device = x.device }):eq(1), x, 1):gt(0))
  end
  local symmetric = { text = "a symmetric matrix", holds = function(x)
    local y = x:transpose(-1, -2)
    return (x - y):abs():le((x:abs() + y:abs()) * 1e-5 + 1e-6)
  end }
  local triangular = { holds = lower_triangular,
    text = "a lower triangular matrix with numbers above 0 on the diagonal" }
  --- The lower triangular root of x, checked.
  local function root_of(self, name, x)
    if not self.validate then return linalg.cholesky(x) end
    local root, info = linalg.cholesky_ex(x)
    local bad = info:detach():reshape(-1):ne(0)
    if bad:any():item() then
      fail("MultivariateNormal", "%s%s is not positive definite", name,
        #bad > 1 and (" %d"):format(bad:long():argmax():item()) or "")
    end
    return root
  end
  --- The lower Cholesky factor of p's inverse: inverts that of p with both its axes reversed.
  local function root_of_precision(self, p)
    local root = root_of(self, "precision_matrix", p:flip(-1, -2)):flip(-1, -2):transpose(-1, -2)
    local one = flame.eye(p:size(-1), { dtype = p.dtype, device = p.device })
    return linalg.solve_triangular(root, one:expand(p.shape), { upper = false })
  end
  constructor(MultivariateNormal,
    "loc: T, covariance_matrix?: T, precision_matrix?: T, scale_tril?: T",
    --- The normal distribution of vectors: mean loc (…, n) and one of covariance_matrix, its
    --- inverse precision_matrix, or scale_tril, a lower triangular root of the covariance.
    function(loc, covariance_matrix, precision_matrix, scale_tril, validate)
      local op, given, name = "MultivariateNormal",
        { covariance_matrix, precision_matrix, scale_tril }, nil
      for i = 1, 3 do
        if given[i] ~= nil then
          if name then fail(op, "need one of %s, got %s and %s", table.concat(NAMES, ", "), name,
            NAMES[i]) end
          name = NAMES[i]
          given.x = given[i]
        end
      end
      if not name then fail(op, "need one of %s, got none", table.concat(NAMES, ", ")) end
      local n, x = loc.ndim > 0 and loc:size(-1) or 0, given.x
      if loc.ndim < 1 or x.ndim < 2 or x:size(-1) ~= n or x:size(-2) ~= n then
        fail(op, "loc has shape (%s) and %s (%s), need (…, n) and (…, n, n)",
          table.concat(loc.shape, ", "), name, table.concat(x.shape, ", "))
      end
      local self = new(MultivariateNormal, validate, { n })
      local all = take(self, op, { loc = loc, [name] = x },
        { { "loc", need.finite }, { name, name == "scale_tril" and triangular or symmetric } })
      if all[1].dtype ~= "f64" and all[1].dtype ~= "f32" then
        fail(op, "loc and %s are %s, need f32 or f64", name, all[1].dtype)
      end
      local batch = flame.broadcast_shapes(table.move(loc.shape, 1, loc.ndim - 1, 1, {}),
        table.move(x.shape, 1, x.ndim - 2, 1, {}))
      self.batch_shape, self.loc = batch, all[1]:expand(joined(batch, { n }))
      x = all[2]:expand(joined(batch, { n, n }))
      self[name] = x
      if name == "covariance_matrix" then self.scale_tril = root_of(self, name, x)
      elseif name == "precision_matrix" then self.scale_tril = root_of_precision(self, x) end
      self.names = name == "scale_tril" and { "loc", "scale_tril" }
        or { "loc", name, "scale_tril" }
      return self
    end)
  local properties = MultivariateNormal.properties
  function properties:covariance_matrix()
    return self.scale_tril:matmul(self.scale_tril:transpose(-1, -2))
  end
  function properties:precision_matrix() return linalg.inverse(self.covariance_matrix) end
  function properties:mean() return self.loc:clone() end
  properties.mode = properties.mean
  function properties:variance() return self.scale_tril:square():sum(-1) end
  --- The matrix 'root' times vectors z (…, n). Up to FEW columns are added in order, by one
  --- kernel, with the same bits on every device; more take a matrix product.
  local FEW <const> = 64
  local function spread(root, z)
    local n = z:size(-1)
    if n > FEW then
      if root.ndim == 2 then return z:matmul(root:t()) end
      return root:matmul(z:unsqueeze(-1)):squeeze(-1)
    end
    local x = 0
    for k = 1, n do x = x + root:select(-1, k) * z:narrow(-1, k, 1) end
    return x
  end
  function MultivariateNormal:draw(size)
    local z = flame.randn(size, { dtype = self.loc.dtype, device = self.loc.device })
    return self.loc + spread(self.scale_tril, z)
  end
  --- Half the log-determinant of root rootᵀ: the sum of the diagonal's logarithms.
  local function half_log_det(root) return root:diagonal(0, -2, -1):log():sum(-1) end
  --- root⁻¹ x for vectors x (…, n).
  local function whitened(root, x)
    local size = flame.broadcast_shapes(table.move(root.shape, 1, root.ndim - 2, 1, {}),
      table.move(x.shape, 1, x.ndim - 1, 1, {}))
    local n = x:size(-1)
    return linalg.solve_triangular(root:expand(joined(size, { n, n })),
      x:expand(joined(size, { n })):unsqueeze(-1), { upper = false }):squeeze(-1)
  end
  shared.half_log_det = half_log_det
  function MultivariateNormal:log_prob(value)
    local x = value_of(self, "log_prob", value, need.number)
    local z = whitened(self.scale_tril, x - self.loc)
    return (z:square():sum(-1) + self.event_shape[1] * LOG_2PI) * -0.5
      - half_log_det(self.scale_tril)
  end
  function MultivariateNormal:entropy()
    return half_log_det(self.scale_tril) + 0.5 * self.event_shape[1] * (1 + LOG_2PI)
  end

  -- ---- Independent ------------------------------------------------------------------------------
  --- The sum over the last n axes.
  local function inner_sum(x, n)
    for _ = 1, n do x = x:sum(-1) end
    return x
  end
  local Independent = extend "Independent"
  constructor(Independent, "base_dist: Distribution, reinterpreted_batch_ndims: int",
    --- The last reinterpreted_batch_ndims axes of the base's batch become axes of an event:
    --- log_prob sums over them.
    function(base, n, validate)
      local self, batch = new(Independent, validate), base.batch_shape
      if n < 0 or n > #batch then
        fail("Independent", "reinterpreted_batch_ndims = %d, need 0 to %d, the axes of the batch",
          n, #batch)
      end
      self.base_dist, self.reinterpreted_batch_ndims, self.names = base, n, { "base_dist" }
      self.batch_shape = table.move(batch, 1, #batch - n, 1, {})
      self.event_shape = joined(table.move(batch, #batch - n + 1, #batch, 1, {}),
        base.event_shape)
      return self
    end)
  function Independent.properties:has_rsample() return self.base_dist.has_rsample end
  function Independent:draw(size) return self.base_dist:draw(size) end
  function Independent:log_prob(value)
    return inner_sum(self.base_dist:log_prob(value), self.reinterpreted_batch_ndims)
  end
  function Independent:entropy()
    return inner_sum(self.base_dist:entropy(), self.reinterpreted_batch_ndims)
  end
  function Independent:expand(shape)
    shared.need_sizes(self, shape)
    local n, own = self.reinterpreted_batch_ndims, self.base_dist.batch_shape
    local inner = table.move(own, #own - n + 1, #own, 1, {})
    return distributions.Independent(self.base_dist:expand(joined(shape, inner)), n,
      { validate_args = self.validate })
  end
  function Independent:__tostring()
    return ("Independent(%s, %d)"):format(tostring(self.base_dist),
      self.reinterpreted_batch_ndims)
  end
  for _, name in ipairs { "mean", "variance", "mode" } do
    Independent.properties[name] = function(self) return self.base_dist[name] end
  end

  -- ---- MixtureSameFamily ------------------------------------------------------------------------
  local Mixture = extend "MixtureSameFamily"
  Mixture.properties.has_rsample = shared.never
  constructor(Mixture,
    "mixture_distribution: Categorical, component_distribution: Distribution",
    --- A mixture: each draw comes from one of the distributions along the last axis of the
    --- component's batch, chosen by 'mixture_distribution', a Categorical over that axis.
    function(mixture, component, validate)
      local self, batch = new(Mixture, validate), component.batch_shape
      if #batch < 1 or batch[#batch] ~= mixture.num_events then
        fail("MixtureSameFamily", "the component's batch is (%s), need (…, %d): the mixture has %d classes",
          table.concat(batch, ", "), mixture.num_events, mixture.num_events)
      end
      local outer = table.move(batch, 1, #batch - 1, 1, {})
      if table.concat(outer, " ") ~= table.concat(mixture.batch_shape, " ") then
        mixture = mixture:expand(outer)
      end
      self.mixture_distribution, self.component_distribution = mixture, component
      self.names = { "mixture_distribution", "component_distribution" }
      self.batch_shape, self.event_shape = outer, component.event_shape
      return self
    end)
  --- x with an axis of size 1 for the mixture's components, before the axes of an event.
  local function lifted(self, x) return x:unsqueeze(-1 - #self.event_shape) end
  --- The mixture's weights with an axis of size 1 appended for each axis of an event.
  local function weights(self)
    local p = self.mixture_distribution.probs
    for _ = 1, #self.event_shape do p = p:unsqueeze(-1) end
    return p
  end
  --- A parameter of the innermost distribution in d; tells the dtype and device of values.
  local function like_of(d)
    local inner = rawget(d, "base_dist") or rawget(d, "component_distribution")
    if inner then return like_of(inner) end
    return d[d.names[1]]
  end
  shared.like_of = like_of
  function Mixture:draw(size)
    local outer = table.move(size, 1, #size - #self.event_shape, 1, {})
    local classes = self.mixture_distribution:draw(outer)
    local all = self.component_distribution:draw(joined(outer,
      { self.mixture_distribution.num_events }, self.event_shape))
    local at = classes:unsqueeze(-1)
    for _ = 1, #self.event_shape do at = at:unsqueeze(-1) end
    local wanted = joined(outer, { 1 }, self.event_shape)
    return all:gather(#outer + 1, at:expand(wanted)):squeeze(#outer + 1)
  end
  function Mixture:log_prob(value)
    local x = value_of(self, "log_prob", value, nil, like_of(self))
    return (self.component_distribution:log_prob(lifted(self, x))
      + self.mixture_distribution.logits):logsumexp(-1)
  end
  function Mixture:cdf(value)
    local x = value_of(self, "cdf", value, nil, like_of(self))
    return (self.component_distribution:cdf(lifted(self, x)) * self.mixture_distribution.probs)
      :sum(-1)
  end
  function Mixture.properties:mean()
    return (self.component_distribution.mean * weights(self)):sum(-1 - #self.event_shape)
  end
  function Mixture.properties:variance()
    local d, w, axis = self.component_distribution, weights(self), -1 - #self.event_shape
    local off = d.mean - lifted(self, self.mean)
    return (d.variance * w):sum(axis) + (off:square() * w):sum(axis)
  end
  function Mixture:expand(shape)
    shared.need_sizes(self, shape)
    local components = self.mixture_distribution.num_events
    return distributions.MixtureSameFamily(self.mixture_distribution:expand(shape),
      self.component_distribution:expand(joined(shape, { components })),
      { validate_args = self.validate })
  end
  function Mixture:__tostring()
    return ("MixtureSameFamily(%s, %s)"):format(tostring(self.mixture_distribution),
      tostring(self.component_distribution))
  end
  shared.inner_sum = inner_sum
  return distributions
end
