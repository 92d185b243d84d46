-- flame.distributions: values are compared with those of SciPy and PyTorch (reference.lua); also
-- gradients, shapes, dtypes and wrong arguments. Draws are tested in draws_spec.lua.
local flame = require "flame"
local D = require "flame.distributions"
local reference = dofile "spec/distributions/reference.lua"
local made = dofile "spec/distributions/made.lua"

local F64 <const> = { dtype = "f64" }
local t, make, title = made.tensor, made.make, made.title
local refused = require("spec.support.helper").raises

describe("distributions: values", function()
  for _, e in ipairs(reference.values) do
    it(("of %s are SciPy's"):format(title(e.name, e.args)), function()
      local d, close = make(e.name, e.args), { rtol = 1e-10, atol = 1e-13 }
      local x = t(e.values)
      assert.allclose(e.log_prob, d:log_prob(x), close)
      if e.cdf then assert.allclose(e.cdf, d:cdf(x), close) end
      if e.icdf then assert.allclose(e.icdf, d:icdf(t(e.shares)), close) end
      for _, name in ipairs { "mean", "variance", "mode" } do
        if e[name] then assert.allclose(e[name], d[name], close) end
      end
      if e.entropy then assert.allclose(e.entropy, d:entropy(), close) end
    end)
  end
  for _, e in ipairs(reference.divergences) do
    it(("of the divergence of %s from %s are PyTorch's"):format(title(e.p, e.p_args),
      title(e.q, e.q_args)), function()
      local kl = D.kl_divergence(make(e.p, e.p_args), make(e.q, e.q_args))
      assert.allclose(e.kl, kl, { rtol = 1e-10, atol = 1e-13 })
    end)
  end
end)

-- ---- gradients ----------------------------------------------------------------------------------
describe("distributions: gradients", function()
  it("of log_prob, cdf, icdf and entropy agree with differences", function()
    local function tracked(v) return t(v):requires_grad_(true) end
    local x, p = tracked { 0.2, 0.7 }, tracked { 0.3, 0.85 }
    for name, args in pairs { Normal = { 0.3, 2 }, Laplace = { 0.1, 2 }, Exponential = { 2 },
      Gamma = { 2.5, 2 }, Beta = { 2, 3 }, StudentT = { 3, 0.1, 2 }, LogNormal = { 0.2, 0.7 } } do
      local list = {}
      for i, v in ipairs(args) do list[i] = tracked(v) end
      local n = #list
      list[n + 1] = x
      flame.gradcheck(function(...)
        local d = D[name](table.unpack({ ... }, 1, n))
        return d:log_prob((select(n + 1, ...)))
      end, list)
      list[n + 1] = nil
      flame.gradcheck(function(...) return D[name](...):entropy() end, list)
      local d = make(name, args)
      flame.gradcheck(function(v) return d:cdf(v) end, { x })
      flame.gradcheck(function(v) return d:icdf(v) end, { p })
    end
  end)
  it("of counts are those of the formula where a probability is 0 or 1, and never NaN", function()
    local function slope(values, f)
      local p = t(values):requires_grad_(true)
      f(p):sum():backward()
      assert.is_false(p.grad:isnan():any():item())
      return p.grad:totable()
    end
    local half, ends = t { 0.5, 0.5 }, { 0, 1 }
    assert.same({ -1, 1 }, slope(ends, function(p) return D.Bernoulli(p):log_prob(t(ends)) end))
    assert.same({ -3, 3 }, slope(ends, function(p)
      return D.Binomial(3, p):log_prob(t { 0, 3 }) end))
    assert.same({ 1 }, slope({ 1 }, function(p) return D.Geometric(p):log_prob(0) end))
    assert.allclose({ -2 / 3, 1 / 3, -2 / 3 }, slope({ 0, 1, 0.5 }, function(p)
      return D.Categorical(p):log_prob(2) end))
    -- the gradient's limit is infinite: it must be large and have the right sign
    for _, of in ipairs { D.Bernoulli, D.Categorical } do
      local g = slope(ends, function(p) return of(p):entropy() end)
      assert.is_true(g[1] > 30 and g[1] < 1e3)
    end
    slope(ends, function(p) return D.kl_divergence(D.Bernoulli(p), D.Bernoulli(half)) end)
    slope(ends, function(p) return D.kl_divergence(D.Categorical(p), D.Categorical(half)) end)
    slope(ends, function(p) return D.Bernoulli(p):log_prob(t { 1, 0 }) end)
    slope({ 0, 3 }, function(p) return D.kl_divergence(D.Poisson(p), D.Poisson(2)) end)
    slope({ 0, 0.5 }, function(p) return D.kl_divergence(D.Uniform(p, 1), D.Beta(2, 3)) end)
    slope(ends, function(p)
      return D.MixtureSameFamily(D.Categorical(p), D.Normal(t { 0, 1 }, 1)):log_prob(0.3) end)
  end)
  it("of cdf by a concentration, which is not there, raises instead of being left out", function()
    local a = t(2):requires_grad_(true)
    for _, d in ipairs { D.Gamma(a, 1), D.Beta(a, 1), D.StudentT(a) } do
      refused("no gradient", function() d:cdf(0.4):backward() end)
    end
  end)
  it("do not flow through sample, and rsample of counts raises", function()
    local p = t(0.4):requires_grad_(true)
    assert.is_false(D.Normal(p, p):sample(3).requires_grad)
    for _, d in ipairs { D.Bernoulli(p), D.Poisson(p), D.Categorical(flame.ones(3)),
      D.Independent(D.Poisson(p:expand(2)), 1),
      D.MixtureSameFamily(D.Categorical(flame.ones(3)), D.Normal(flame.zeros(3), 1)) } do
      refused("its draws have no gradient: use sample", d.rsample, d)
    end
  end)
end)

-- ---- forms --------------------------------------------------------------------------------------
describe("distributions: forms", function()
  it("by logits and by probs are one, exact where a probability is 0", function()
    local logits = t { -30, 0.3, 800 }
    local a, b = D.Bernoulli { logits = logits }, D.Bernoulli { probs = logits:sigmoid() }
    assert.allclose(a.probs, b.probs)
    assert.allclose({ -30, -math.log(1 + math.exp(-0.3)), 0 }, a:log_prob(1), { atol = 1e-10 })
    assert.equal(-800, a:log_prob(0)[3]:item())
    local none = D.Bernoulli(t { 0, 1 })
    assert.same({ -math.huge, 0 }, none:log_prob(1):totable())
    assert.same({ 0, -math.huge }, none:log_prob(0):totable())
    assert.same({ 0, 0 }, none:entropy():totable())
    local c = D.Categorical { logits = t { { 1, 2, 3 }, { 0, 0, -math.huge } } }
    assert.allclose({ 1, 1 }, c.probs:sum(-1))
    assert.allclose(math.log(2), c:entropy()[2])
    assert.same({ 3, 1 }, c.mode:totable())
    assert.allclose(c.logits:select(2, 2), c:log_prob(2))
    assert.same({ 4, 2 }, c:log_prob(flame.ones(4, 1)).shape)
    local g = D.Geometric { logits = t(0.4) }
    assert.allclose(D.Geometric(g.probs):log_prob(5), g:log_prob(5))
    assert.allclose(D.Binomial(5, { probs = g.probs }):log_prob(2),
      D.Binomial(t(5), { logits = t(0.4) }):log_prob(2))
  end)
  -- A maker of each distribution: c(v) is v in the batch's shape, m(v) has a last axis of 3.
  local kinds = {
    { "Normal", function(c) return D.Normal(c(0), 1) end },
    { "Uniform", function(c) return D.Uniform(0, c(1)) end },
    { "Laplace", function(c) return D.Laplace(c(0), 1) end },
    { "Exponential", function(c) return D.Exponential(c(1)) end },
    { "Gamma", function(c) return D.Gamma(c(1), 1) end },
    { "Beta", function(c) return D.Beta(c(1), 2) end },
    { "StudentT", function(c) return D.StudentT(c(3)) end },
    { "LogNormal", function(c) return D.LogNormal(c(0), 1) end },
    { "Bernoulli", function(c) return D.Bernoulli(c(0.5)) end },
    { "Geometric", function(c) return D.Geometric(c(0.5)) end },
    { "Binomial", function(c) return D.Binomial(5, c(0.5)) end },
    { "Poisson", function(c) return D.Poisson(c(2)) end },
    { "Categorical", function(_, m) return D.Categorical(m(1)) end },
    { "Dirichlet", function(_, m) return D.Dirichlet(m(1)) end },
    { "a mixture", function(_, m)
      return D.MixtureSameFamily(D.Categorical(m(1)), D.Normal(m(0), 1))
    end },
    { "Independent", function(_, m) return D.Independent(D.Normal(m(0), 1), 1) end },
    { "TransformedDistribution", function(c)
      return D.TransformedDistribution(D.Normal(c(0), 1), { D.TanhTransform() })
    end },
    { "MultivariateNormal", function(_, m)
      return D.MultivariateNormal(m(0), flame.eye(3, { dtype = m(0).dtype }))
    end, "f64 f32" },
  }
  --- Checks that all results of the distribution that 'of' makes have right shapes, dtypes, no NaN.
  local function check_all(of, shape, dtype)
    local more = { table.unpack(shape) }
    more[#more + 1] = 3
    local d = of(function(v) return flame.full(shape, v, { dtype = dtype }) end,
      function(v) return flame.full(more, v, { dtype = dtype }) end)
    local name = ("(%s) "):format(table.concat(shape, ", "))
    local function check(what, y, batch, event)
      local want = { table.unpack(batch) }
      table.move(shape, 1, #shape, #want + 1, want)
      table.move(event, 1, #event, #want + 1, want)
      assert.same(want, y.shape, name .. what)
      assert.equal(dtype, y.dtype, name .. what)
      assert.is_false(y:isnan():any():item(), name .. what)
    end
    local x = d:sample(2)
    if d.class_name ~= "Categorical" then check("sample", x, { 2 }, d.event_shape) end
    check("log_prob", d:log_prob(x), { 2 }, {})
    for _, what in ipairs { "mean", "variance", "stddev", "entropy", "cdf", "icdf" } do
      local ok, y = pcall(function()
        local v = d[what]
        if type(v) ~= "function" then return v end
        if what == "icdf" then
          return v(d, flame.full({ 2, table.unpack(shape) }, 0.3, { dtype = dtype }))
        end
        return v(d, what == "cdf" and x or nil)
      end)
      if ok and (what == "cdf" or what == "icdf") then check(what, y, { 2 }, d.event_shape)
      elseif ok then check(what, y, {}, what == "entropy" and {} or d.event_shape)
      else assert.truthy(tostring(y):find "has no ", name .. tostring(y)) end
    end
    assert.same({ 4, table.unpack(shape) }, d:expand({ 4, table.unpack(shape) }).batch_shape)
  end
  -- one test per kind and dtype, since NVRTC compiles other kernels for each, which takes time
  for _, kind in ipairs(kinds) do
    for _, case in ipairs { { "f64", {}, { 2 }, { 0 }, { 3, 0 } }, { "f32", {}, { 0, 2 } },
      { "f16", { 2 }, { 0 } }, { "bf16", {}, { 0 } } } do
      local dtype = case[1]
      if not kind[3] or kind[3]:find(dtype, 1, true) then
        it(("of %s keep dtype %s and shapes in all they give, for empty batches too"):format(
          kind[1], dtype), function()
          for k = 2, #case do check_all(kind[2], case[k], dtype) end
        end)
      end
    end
  end
  it("of vectors in half types are refused where there is no factorisation", function()
    refused("MultivariateNormal: loc and scale_tril are f16, need f32 or f64", D.MultivariateNormal,
      flame.zeros(2):half(), { scale_tril = flame.eye(2):half() })
  end)
  it("of StudentT have the moments that there are", function()
    local d = D.StudentT(t { 0.5, 1, 1.5, 2, 3 }, 7)
    assert.allclose({ 0 / 0, 0 / 0, 7, 7, 7 }, d.mean)
    assert.allclose({ 0 / 0, 0 / 0, math.huge, math.huge, 3 }, d.variance)
  end)
  it("take numbers, dtypes of their tensors, and broadcast", function()
    assert.equal("f32", D.Normal(0, 1):sample().dtype)
    assert.equal("f64", D.Normal(t(0), 1):sample().dtype)
    assert.equal("f64", D.Normal(flame.zeros(2), t(1)):sample().dtype)
    local d = D.Normal(flame.zeros(3, 1), flame.ones(2))
    assert.same({ 3, 2 }, d.batch_shape)
    assert.same({ 5, 3, 2 }, d:log_prob(flame.zeros(5, 1, 1)).shape)
    assert.same({ 0, 3, 2 }, d:sample(0).shape)
    assert.same({ 0 }, D.Gamma(flame.zeros(0), 1):sample().shape)
    assert.equal("Normal(loc: (3, 2), scale: (3, 2))", tostring(d))
    assert.equal("Gamma(concentration: 2, rate: 0.5)", tostring(D.Gamma(2, 0.5)))
    assert.equal("LogNormal(loc: 0, scale: 1)", tostring(D.LogNormal(0, 1)))
    assert.equal("Independent(Normal(loc: (3, 2), scale: (3, 2)), 1)",
      tostring(D.Independent(d, 1)))
    assert.allclose(d:log_prob(0.5):sum(-1), D.Independent(d, 1):log_prob(0.5))
    assert.allclose(d:entropy():sum(-1), D.Independent(d, 1):entropy())
    assert.same({ 2 }, D.Independent(d, 1).event_shape)
    local normal = D.Normal(0, 3)
    assert.equal(3, normal.stddev:item())
    assert.equal(9, normal.variance:item())
  end)
  it("of divergences may be added", function()
    local p, q = D.StudentT(3), D.Normal(0, 1)
    refused('there is none of StudentT from Normal', D.kl_divergence, p, q)
    D.register_kl("StudentT", "Normal", function() return t(7) end)
    assert.equal(7, D.kl_divergence(p, q):item())
    refused("register_kl: p must be a string", D.register_kl, p, q, print)
    refused("f must be a function", D.register_kl, "A", "B", 3)
    local a, b = D.Normal(flame.zeros(2), 1), D.Normal(flame.ones(2), 2)
    assert.allclose(D.kl_divergence(a, b):sum(),
      D.kl_divergence(D.Independent(a, 1), D.Independent(b, 1)))
    local map = { D.ExpTransform() }
    assert.allclose(D.kl_divergence(a, b), D.kl_divergence(D.TransformedDistribution(a, map),
      D.TransformedDistribution(b, map)))
    refused("must be the same objects", D.kl_divergence, D.TransformedDistribution(a, map),
      D.TransformedDistribution(b, { D.TanhTransform() }))
  end)
end)

-- ---- mistakes -----------------------------------------------------------------------------------
describe("distributions: mistakes", function()
  it("in parameters name the distribution, the parameter and the first bad value", function()
    refused("Normal: scale is -1 at position (2), need a number above 0", D.Normal, 0,
      t { 1, -1, -2 })
    refused("Normal: scale is 0, need a number above 0", D.Normal, 0, 0)
    refused("Normal: loc is nan, need a finite number", D.Normal, t(0 / 0):abs(), 1)
    refused("LogNormal: scale is -3, need", D.LogNormal, 0, -3)
    refused("Gamma: rate is inf at position (1, 2), need", D.Gamma, 1, t { { 1, math.huge } })
    refused("Beta: concentration0 is 0, need", D.Beta, 1, 0)
    refused("Dirichlet: concentration is -0.5 at position (2), need", D.Dirichlet, t { 1, -0.5 })
    refused("Dirichlet: concentration is 0-d", D.Dirichlet, t(1))
    refused("StudentT: df is -1, need", D.StudentT, -1)
    refused("Poisson: rate is -1, need a number from 0 on", D.Poisson, -1)
    refused("Bernoulli: probs is 1.5, need 0 to 1", D.Bernoulli, 1.5)
    refused("Geometric: probs is 0, need above 0 and at most 1", D.Geometric, 0)
    refused("Binomial: total_count is 2.5, need a whole number from 0 on", D.Binomial, 2.5, 0.5)
    refused("Uniform: high is 1 at position (2), need more than low", D.Uniform, t { 0, 1 }, 1)
    refused("Laplace: scale is -1", D.Laplace, 0, -1)
    refused("Exponential: rate is 0", D.Exponential, 0)
    refused("Categorical: probs is -1 at position (2)", D.Categorical, t { 1, -1 })
    refused("Categorical: the sum of probs is 0", D.Categorical, t { 0, 0 })
    refused("Categorical: probs has shape ()", D.Categorical, t(1))
    local bad = t { { 1, 2 }, { 2, 1 } }
    refused("MultivariateNormal: covariance_matrix is not positive definite",
      D.MultivariateNormal, t { 0, 0 }, bad)
    refused("MultivariateNormal: covariance_matrix 2 is not positive definite",
      D.MultivariateNormal, t { 0, 0 }, flame.stack({ flame.eye(2, F64), bad }, 1))
    refused("a symmetric matrix", D.MultivariateNormal, t { 0, 0 }, t { { 1, 0.5 }, { 0, 1 } })
    refused("scale_tril", D.MultivariateNormal, t { 0, 0 }, { scale_tril = bad })
    refused("need one of covariance_matrix, precision_matrix, scale_tril, got none",
      D.MultivariateNormal, t { 0, 0 })
    refused("got covariance_matrix and scale_tril", D.MultivariateNormal, t { 0, 0 },
      { covariance_matrix = bad, scale_tril = bad })
    refused("loc has shape (3) and covariance_matrix (2, 2)", D.MultivariateNormal,
      flame.zeros(3), bad)
  end)
  it("in types, names and shapes are told", function()
    refused("Normal: scale must be a tensor or a number, got string", D.Normal, 0, "1")
    refused("Normal: loc is i64, need a float", D.Normal, flame.tensor({ 1 }, { dtype = "i64" }), 1)
    refused("Normal: shapes do not go together: loc (2), scale (3)", D.Normal, flame.zeros(2),
      flame.ones(3))
    refused("no option 'valdate_args'", D.Normal, 0, 1, { valdate_args = false })
    refused("Bernoulli: need probs or logits, got none of them", D.Bernoulli)
    refused("got both", D.Bernoulli, 0.5, 0.5)
    refused("Normal has no field 'varaince'; did you mean 'variance'?",
      function() return D.Normal(0, 1).varaince end)
    refused("Poisson: it has no entropy in closed form", function() D.Poisson(1):entropy() end)
    refused("Dirichlet: it has no cdf", function() D.Dirichlet(flame.ones(2)):cdf(0.5) end)
    refused("Uniform: it has no mode", function() return D.Uniform(0, 1).mode end)
    refused("Normal: sample: size 1 is -1", function() D.Normal(0, 1):sample(-1) end)
    refused("Normal: log_prob: value must be a tensor or a number, got string",
      function() D.Normal(0, 1):log_prob("0") end)
    refused("Normal: log_prob: value has shape (3), draws have (2)",
      function() D.Normal(flame.zeros(2), 1):log_prob(flame.zeros(3)) end)
    refused("Independent: reinterpreted_batch_ndims = 2, need 0 to 1", D.Independent,
      D.Normal(flame.zeros(2), 1), 2)
    refused("the mixture has 2 classes", D.MixtureSameFamily, D.Categorical(flame.ones(2)),
      D.Normal(flame.zeros(3), 1))
    refused("transform 1 is a number", D.TransformedDistribution, D.Normal(0, 1), { 3 })
    refused("base_distribution", D.TransformedDistribution, 3, { D.ExpTransform() })
    refused("need a list of transforms", D.ComposeTransform, 4)
  end)
  it("in values are told where they are looked at", function()
    refused("Independent: expand: need a list of sizes, got number",
      function() D.Independent(D.Normal(t { 0, 0 }, 1), 1):expand(3) end)
    refused("Gamma: log_prob: value is -1 at position (2), need a number from 0 on",
      function() D.Gamma(1, 1):expand({ 2 }):log_prob(t { 1, -1 }) end)
    refused("Bernoulli: log_prob: value is 0.5, need 0 or 1",
      function() D.Bernoulli(0.5):log_prob(0.5) end)
    refused("Categorical: log_prob: value is 0, need 1 to 3",
      function() D.Categorical(flame.ones(3)):log_prob(0) end)
    refused("Binomial: log_prob: value is 6, need at most total_count",
      function() D.Binomial(5, 0.5):log_prob(6) end)
    refused("Uniform: log_prob: value is 2, need low to high",
      function() D.Uniform(0, 1):log_prob(2) end)
    refused("icdf: value is 1.5, need 0 to 1", function() D.Normal(0, 1):icdf(1.5) end)
    refused("shares that sum to 1", function() D.Dirichlet(t { 1, 2 }):log_prob(t { 0.5, 0.6 }) end)
  end)
  it("are not looked for where a constructor or the session says so", function()
    local d = D.Normal(t { 0, 0 }, t { 1, -1 }, { validate_args = false })
    assert.is_true(d:log_prob(0):isnan():totable()[2])
    assert.equal(-math.huge, D.Uniform(0, 1, { validate_args = false }):log_prob(2):item())
    D.set_default_validate_args(false)
    local ok = pcall(D.Gamma, -1, 1)
    D.set_default_validate_args(true)
    assert.is_true(ok)
    refused("on must be true or false", D.set_default_validate_args, 1)
  end)
end)
