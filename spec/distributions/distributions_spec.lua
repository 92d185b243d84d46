-- flame.distributions: values against SciPy's and PyTorch's (reference.lua), draws against the
-- distribution functions, gradients of draws against closed forms, mistakes.
local flame = require "flame"
local D = require "flame.distributions"
local reference = dofile "spec/distributions/reference.lua"

local F64 <const> = { dtype = "f64" }
local function t(v) return flame.tensor(v, F64) end
local refused = require("spec.support.helper").raises
local function make(name, args)
  local list = {}
  for i, v in ipairs(args) do list[i] = t(v) end
  if name == "Bernoulli" or name == "Geometric" or name == "Categorical" then
    return D[name] { probs = list[1] }
  end
  return D[name](table.unpack(list))
end
local function title(name, args)
  local parts = {}
  for i, v in ipairs(args) do parts[i] = type(v) == "number" and ("%g"):format(v) or "…" end
  return ("%s(%s)"):format(name, table.concat(parts, ", "))
end

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

-- ---- draws --------------------------------------------------------------------------------------
--- The largest distance between the shares of sorted draws and the distribution function.
local function distance(d, x)
  local n = x:numel()
  local p = d:cdf((x:reshape(-1):sort(1))):totable()
  local worst = 0
  for i = 1, n do worst = math.max(worst, i / n - p[i], p[i] - (i - 1) / n) end
  return worst
end
local N <const> = 20000
local LIMIT <const> = 1.95 / math.sqrt(N)                -- passed by one draw in a thousand seeds

local continuous = {
  { "Normal", 0.3, 2 }, { "Uniform", -1, 3 }, { "Laplace", 0.3, 2 }, { "Exponential", 0.7 },
  { "LogNormal", 0.1, 0.6 }, { "Gamma", 0.03, 1 }, { "Gamma", 0.7, 2 }, { "Gamma", 1, 2 },
  { "Gamma", 4.5, 0.1 }, { "Gamma", 900, 3 }, { "Beta", 0.2, 0.3 }, { "Beta", 2, 5 },
  { "Beta", 300, 40 }, { "StudentT", 1.5, 1, 2 }, { "StudentT", 30, 0, 1 },
}
describe("distributions: draws", function()
  for _, c in ipairs(continuous) do
    local name, args = c[1], { table.unpack(c, 2) }
    it(("of %s agree with its cdf"):format(title(name, args)), function()
      flame.seed(7)
      local d = make(name, args)
      local x = d:sample(N)
      assert.same({ N }, x.shape)
      assert.is_true(distance(d, x) < LIMIT, name)
    end)
  end
  for _, c in ipairs { { "Bernoulli", 0.3 }, { "Geometric", 0.2 }, { "Geometric", 1 },
    { "Binomial", 9, 0.3 }, { "Binomial", 200, 0.7 }, { "Poisson", 2.5 }, { "Poisson", 80 } } do
    local name, args = c[1], { table.unpack(c, 2) }
    it(("of %s come as often as log_prob says"):format(title(name, args)), function()
      flame.seed(8)
      local d = make(name, args)
      local x = d:sample(N)
      local low, high = math.tointeger(x:amin():item()), math.tointeger(x:amax():item())
      local chi, cells, rest, many = 0, 0, 1, 0
      for k = low, high do
        local p, n = d:log_prob(k):exp():item(), x:eq(k):long():sum():item()
        if p * N >= 5 then
          chi, cells, rest, many = chi + (n - p * N) ^ 2 / (p * N), cells + 1, rest - p, many + n
        end
      end
      if rest * N >= 5 then
        chi, cells = chi + (N - many - rest * N) ^ 2 / (rest * N), cells + 1
      end
      -- mean cells - 1, deviation sqrt(2 (cells - 1)); Wilson and Hilferty for 3.3 deviations
      local f = math.max(cells - 1, 1)
      assert.is_true(chi < f * (1 - 2 / (9 * f) + 3.3 * math.sqrt(2 / (9 * f))) ^ 3, chi)
    end)
  end
  it("of Categorical are classes 1 to n in the shares of probs, one row of a batch each", function()
    flame.seed(3)
    local d = D.Categorical(t { { 1, 2, 7 }, { 0, 4, 6 } })
    local x = d:sample { N }
    assert.same({ N, 2 }, x.shape)
    assert.equal("i64", x.dtype)
    for class, shares in ipairs { { 0.1, 0 }, { 0.2, 0.4 }, { 0.7, 0.6 } } do
      assert.allclose(shares, x:eq(class):double():mean(1), { atol = 0.012 })
    end
  end)
  it("of Dirichlet sum to 1 and have beta margins", function()
    flame.seed(5)
    local d = D.Dirichlet(t { 0.4, 2, 1.1 })
    local x = d:sample(N)
    assert.allclose(flame.ones(N, F64), x:sum(-1), { atol = 1e-12 })
    assert.is_true(distance(D.Beta(t(0.4), t(3.1)), x:select(2, 1)) < LIMIT)
    assert.is_true(distance(D.Beta(t(2), t(1.5)), x:select(2, 2)) < LIMIT)
  end)
  it("of MultivariateNormal have its covariance, whichever matrix is given", function()
    local cov = t { { 2, 0.3 }, { 0.3, 0.5 } }
    for _, o in ipairs { { covariance_matrix = cov }, { precision_matrix = cov:inverse() },
      { scale_tril = cov:cholesky() } } do
      flame.seed(9)
      local d = D.MultivariateNormal(t { 1, -1 }, o)
      assert.allclose(cov, d.covariance_matrix, { rtol = 1e-12 })
      assert.allclose(cov:inverse(), d.precision_matrix, { rtol = 1e-12 })
      local x = d:sample(N)
      local z = x - x:mean(1)
      assert.allclose(cov, z:t():matmul(z) / N, { atol = 0.05 })
      assert.allclose({ 1, -1 }, x:mean(1), { atol = 0.04 })
    end
  end)
  it("of a mixture come from its parts", function()
    flame.seed(4)
    local d = D.MixtureSameFamily(D.Categorical(t { 0.3, 0.7 }),
      D.Normal(t { -2, 1 }, t { 0.5, 1 }))
    local x = d:sample(N)
    assert.is_true(distance(d, x) < LIMIT)
    assert.allclose(d.mean, x:mean(), { atol = 0.03 })
    assert.allclose(d.variance, x:var(), { atol = 0.06 })
    local z = t { -2, 0.4 }
    local parts = D.Normal(t { -2, 1 }, t { 0.5, 1 }):log_prob(z:unsqueeze(-1)):exp()
    assert.allclose((parts * t { 0.3, 0.7 }):sum(-1):log(), d:log_prob(z), { rtol = 1e-12 })
  end)
  it("of mixtures of vectors have the shape of an event", function()
    local parts = D.Independent(D.Normal(flame.zeros(5, 3, 2), 1), 1)
    local d = D.MixtureSameFamily(D.Categorical(flame.ones(5, 3)), parts)
    assert.same({ 5 }, d.batch_shape)
    assert.same({ 4, 5, 2 }, d:sample(4).shape)
    assert.same({ 4, 5 }, d:log_prob(d:sample(4)).shape)
    assert.same({ 5, 2 }, d.mean.shape)
    assert.allclose(flame.ones(5, 2), d.variance, { atol = 1e-6 })
  end)
  it("through transforms agree with the cdf, also where a map falls", function()
    flame.seed(6)
    for _, maps in ipairs { { D.TanhTransform() }, { D.SigmoidTransform() },
      { D.ExpTransform(), D.AffineTransform(1, -2) },
      { D.AffineTransform(t(0.2), t(-1.5)), D.TanhTransform(), D.ExpTransform() } } do
      local d = D.TransformedDistribution(D.Normal(t(0.1), t(0.8)), maps)
      local x = d:sample(N)
      assert.is_true(distance(d, x) < LIMIT)
      local p = t { 0.01, 0.4, 0.9 }
      assert.allclose(p, d:cdf(d:icdf(p)), { rtol = 1e-10 })
      local y = d:icdf(p)                                -- the density is the slope of the cdf
      local slope = (d:cdf(y + 1e-6) - d:cdf(y - 1e-6)) / 2e-6
      assert.allclose(slope, d:log_prob(y):exp(), { rtol = 1e-6 })
    end
  end)
  it("through transforms have the slopes of log_abs_det_jacobian", function()
    local x = t { -1.2, 0.3, 2 }
    for _, map in ipairs { D.AffineTransform(1, -2), D.ExpTransform(), D.SigmoidTransform(),
      D.TanhTransform(), D.ComposeTransform { D.ExpTransform(), D.AffineTransform(0, 0.1),
        D.SigmoidTransform() } } do
      local y = map(x)
      assert.allclose(x, map:inv(y), { rtol = 1e-10 })
      assert.allclose(y, map:forward(x))
      local slope = ((map(x + 1e-6) - map(x - 1e-6)) / 2e-6):abs():log()
      assert.allclose(slope, map:log_abs_det_jacobian(x, y), { rtol = 1e-7, atol = 1e-8 })
      assert.equal("Transform", getmetatable(getmetatable(map)).__index.__name)
    end
  end)
  --- Draws of each sampler with parameters of a dtype on a device: name -> bytes.
  local function draws_of_all(dtype, device)
    local o = { dtype = dtype, device = device }
    local function p(v) return flame.full({ 500 }, v, o) end
    local function rows(n) return flame.arange(1, 500 * n, o):reshape(500, n):remainder(7) + 0.25 end
    local all = {}
    for _, c in ipairs(continuous) do
      local args = {}
      for i = 2, #c do args[i - 1] = p(c[i]) end
      all[title(c[1], { table.unpack(c, 2) })] = D[c[1]](table.unpack(args))
    end
    for _, n in ipairs { 1, 3, 40 } do
      all["Dirichlet " .. n] = D.Dirichlet(rows(n))
      all["Categorical " .. n] = D.Categorical(rows(n))
      all["Categorical by logits " .. n] = D.Categorical { logits = rows(n) * 3 }
      all["Mixture " .. n] = D.MixtureSameFamily(D.Categorical(rows(n)), D.Laplace(rows(n), 1))
      local root = (rows(n):unsqueeze(-1) * rows(n):unsqueeze(-2)):tril()
      if dtype == "f64" or dtype == "f32" then
        all["MultivariateNormal " .. n] = D.MultivariateNormal(rows(n), { scale_tril = root })
      end
    end
    all.Bernoulli, all.Geometric = D.Bernoulli(p(0.3)), D.Geometric { logits = p(-0.7) }
    all.Binomial, all.Poisson = D.Binomial(p(9), p(0.3)), D.Poisson(p(2.5))
    all["Binomial of many"], all["Poisson of many"] = D.Binomial(p(200), p(0.7)), D.Poisson(p(80))
    all.Independent = D.Independent(D.Gamma(rows(3), 1), 1)
    all.Transformed = D.TransformedDistribution(D.Normal(p(0.1), p(0.8)),
      { D.AffineTransform(0.2, p(-1.5)), D.TanhTransform(), D.ExpTransform(), D.SigmoidTransform() })
    local out = {}
    for name, d in pairs(all) do
      flame.seed(2)
      out[name] = d:sample(3):cpu():bytes()
    end
    return out
  end
  it("#cuda come in the same bits on the GPU", function()
    if flame.best_device() ~= "cuda" then return pending("no CUDA device") end
    for _, dtype in ipairs { "f64", "f32", "f16", "bf16" } do
      local here, there, differ = draws_of_all(dtype, "cpu"), draws_of_all(dtype, "cuda"), {}
      for name, bytes in pairs(here) do
        if there[name] ~= bytes then differ[#differ + 1] = name end
      end
      table.sort(differ)
      assert.same({}, differ, dtype)
    end
  end)
  it("repeat with the seed, and expand gives each element its own", function()
    local d = D.Gamma(t(2), t(1)):expand { 4, 3 }
    assert.same({ 4, 3 }, d.batch_shape)
    flame.seed(1)
    local x = d:sample(2)
    flame.seed(1)
    assert.is_true(flame.equal(x, d:sample { 2 }))
    assert.same({ 2, 4, 3 }, x.shape)
    assert.is_true(x[1][1][1]:item() ~= x[1][1][2]:item())
    local m = D.MultivariateNormal(flame.zeros(2), flame.eye(2)):expand { 5 }
    assert.same({ 3, 5, 2 }, m:rsample(3).shape)
    local i = D.Independent(D.Normal(flame.zeros(3), 1), 1):expand { 2 }
    assert.same({ 2 }, i.batch_shape)
    assert.same({ 2, 3 }, i:sample().shape)
  end)
  it("of tiny concentrations are above 0 and finite in each dtype", function()
    for _, dtype in ipairs { "f64", "f32", "f16", "bf16" } do
      local a = flame.full({ 2000 }, 1e-3, { dtype = dtype })
      for _, x in ipairs { D.Gamma(a, 1):sample(), D.Beta(a, a):sample(),
        D.Dirichlet(a:reshape(-1, 2)):sample() } do
        assert.equal(dtype, x.dtype)
        assert.is_true(x:gt(0):logical_and(x:isfinite()):all():item(), dtype)
      end
      assert.is_true(D.Beta(a, a):sample():lt(1):all():item(), dtype)
    end
  end)
end)

-- ---- gradients ----------------------------------------------------------------------------------
describe("distributions: gradients", function()
  it("of gamma variates by their concentration are those of the quantile", function()
    local a, x, slope = {}, {}, {}
    for i, row in ipairs(reference.slopes) do a[i], x[i], slope[i] = row[1], row[2], row[3] end
    local d = D.Gamma(t(a):requires_grad_(true), 1)
    local p = d:cdf(t(x)):detach()
    local q = D.Gamma(t(a), 1):icdf(p)
    local inner = p:gt(1e-300):logical_and(p:lt(0.99))   -- beyond, p has no digits of 1 - p
    assert.allclose(flame.where(inner, t(x), 0), flame.where(inner, q, 0), { rtol = 1e-9 })
    local shared = {}
    require "flame.distributions.share"(shared)
    assert.allclose(slope, shared.gamma_slope(t(a), t(x):log()), { rtol = 1e-11 })
  end)
  --- Mean over draws of f(x), differentiated by the parameters.
  local function slopes(make_one, f, ...)
    flame.seed(11)
    local params = {}
    for i, v in ipairs { ... } do params[i] = t(v):requires_grad_(true) end
    local x = make_one(table.unpack(params)):rsample(200000)
    f(x):mean():backward()
    local out = {}
    for i, p in ipairs(params) do out[i] = p.grad:item() end
    return out
  end
  local function self(x) return x end
  for _, c in ipairs {
    { "Normal", self, { 0.3, 2 }, { 1, 0 } },
    { "Uniform", flame.square, { 1, 3 }, { 5 / 3, 7 / 3 } },        -- (l² + l h + h²) / 3
    { "Laplace", flame.square, { 0, 2 }, { 0, 8 } },                 -- 2 scale²
    { "Exponential", self, { 2 }, { -0.25 } },
    { "Gamma", self, { 0.4, 2 }, { 0.5, -0.1 } },                    -- a / rate
    { "Gamma", flame.log, { 3, 1 }, { math.pi ^ 2 / 6 - 1.25, -1 } },       -- digamma(a) - log rate
    { "Gamma", flame.log, { 50, 1 }, { 0.0202013333, -1 } },
    { "Beta", self, { 2, 3 }, { 3 / 25, -2 / 25 } },                 -- a / (a + b)
    { "Beta", flame.log, { 0.5, 1 }, { 4, -0.9348022 } },
    { "StudentT", flame.square, { 9, 0, 2 }, { -8 / 49, 0, 36 / 7 } },       -- scale² df / (df - 2)
    { "LogNormal", flame.log, { 0.3, 2 }, { 1, 0 } },
  } do
    it(("of draws of %s are those of the mean"):format(title(c[1], c[3])), function()
      local got = slopes(D[c[1]], c[2], table.unpack(c[3]))
      for i, v in ipairs(c[4]) do assert.close(v, got[i], 0.02 + 0.03 * math.abs(v)) end
    end)
  end
  it("of Dirichlet's draws are those of the mean", function()
    flame.seed(12)
    local a = t({ 0.5, 1, 2.5 }):requires_grad_(true)
    D.Dirichlet(a):rsample(200000):select(2, 1):mean():backward()
    assert.allclose({ 3.5 / 16, -0.5 / 16, -0.5 / 16 }, a.grad, { atol = 2e-3 })
  end)
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
  --- One of each, of a batch of this shape and dtype.
  local function one_of_each(shape, dtype)
    local function c(v) return flame.full(shape, v, { dtype = dtype }) end
    local o, more = { dtype = dtype }, table.move(shape, 1, #shape, 1, {})
    more[#more + 1] = 3
    local list = { D.Normal(c(0), 1), D.Uniform(0, c(1)), D.Laplace(c(0), 1), D.Exponential(c(1)),
      D.Gamma(c(1), 1), D.Beta(c(1), 2), D.StudentT(c(3)), D.LogNormal(c(0), 1),
        D.Bernoulli(c(0.5)),
      D.Geometric(c(0.5)), D.Binomial(5, c(0.5)), D.Poisson(c(2)), D.Categorical(flame.ones(more,
        o)),
      D.Dirichlet(flame.ones(more, o)), D.MixtureSameFamily(D.Categorical(flame.ones(more, o)),
        D.Normal(flame.zeros(more, o), 1)), D.Independent(D.Normal(flame.zeros(more, o), 1), 1),
      D.TransformedDistribution(D.Normal(c(0), 1), { D.TanhTransform() }) }
    if dtype == "f64" or dtype == "f32" then
      list[#list + 1] = D.MultivariateNormal(flame.zeros(more, o), flame.eye(3, o))
    end
    return list
  end
  it("keep their dtype and shapes in all they give, for empty batches too", function()
    for _, dtype in ipairs { "f64", "f32", "f16", "bf16" } do
      for _, shape in ipairs { {}, { 2 }, { 0 }, { 3, 0 } } do
        for _, d in ipairs(one_of_each(shape, dtype)) do
          local name = ("%s %s (%s) "):format(d.class_name, dtype, table.concat(shape, ", "))
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
      end
    end
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
