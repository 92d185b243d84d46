-- Draws of flame.distributions are tested against the distribution functions (Kolmogorov-Smirnov,
-- and Pearson's test for counts), with fixed seeds. Each test must reject draws with a parameter 10
-- % off. Gradients of draws are compared with differences and closed forms.
local flame = require "flame"
local D = require "flame.distributions"
local reference = dofile "spec/distributions/reference.lua"
local made = dofile "spec/distributions/made.lua"

local F64 <const> = { dtype = "f64" }
local t, make, title = made.tensor, made.make, made.title
local N <const> = 20000

-- ---- measures of misfit ------------------------------------------------------------------------
--- Each function returns a number that for correct draws is above 1 with one seed in a thousand.

--- Kolmogorov-Smirnov: the largest distance between the empirical distribution of the draws x and
--- the distribution function of d, divided by its bound.
local function by_cdf(d, x)
  local n = x:numel()
  local p, i = d:cdf((x:reshape(-1):double():sort(1))), flame.arange(1, n, F64)
  local worst = (i / n - p):maximum(p - (i - 1) / n):amax():item()
  return worst / (1.95 / math.sqrt(n))                   -- exp(-2 1.95²) = 0.0005 on either side
end
--- Pearson's chi-squared, divided by its bound: over values with an expected count of at least 5,
--- and one cell for all others; if of these less than 5 are expected, but over 20 found, infinite.
local function by_counts(d, x)
  local low, high = math.tointeger(x:amin():item()), math.tointeger(x:amax():item())
  local n, chi, cells, rest, many = x:numel(), 0, 0, 1, 0
  for k = low, high do
    local p, count = d:log_prob(k):exp():item(), x:eq(k):long():sum():item()
    if p * n >= 5 then
      chi, cells = chi + (count - p * n) ^ 2 / (p * n), cells + 1
      rest, many = rest - p, many + count
    end
  end
  if rest * n >= 5 then chi, cells = chi + (n - many - rest * n) ^ 2 / (rest * n), cells + 1
  elseif n - many > 20 then return math.huge end
  -- the bound of chi-squared with cells - 1 degrees of freedom at 3.3 deviations, by Wilson and
  -- Hilferty
  local f = math.max(cells - 1, 1)
  return chi / (f * (1 - 2 / (9 * f) + 3.3 * math.sqrt(2 / (9 * f))) ^ 3)
end
--- The correlation of two columns.
local function by_correlation(x, y)
  x, y = x - x:mean(), y - y:mean()
  local r = (x * y):mean() / (x:square():mean() * y:square():mean()):sqrt()
  return math.abs(r:item()) * math.sqrt(x:numel()) / 3.3
end
--- For a Dirichlet distribution: each component must be a beta variate, and x2 / (1 - x1) too,
--- which must be uncorrelated with x1.
local function by_margins(d, x)
  local a = d.concentration
  local total, worst = a:sum(), 0
  for k = 1, #a do worst = math.max(worst, by_cdf(D.Beta(a[k], total - a[k]), x:select(2, k))) end
  local first = x:select(2, 1)
  local second = x:select(2, 2) / (1 - first)
  return math.max(worst, by_cdf(D.Beta(a[2], total - a[1] - a[2]), second),
    by_correlation(first, second))
end
--- For a multivariate normal: L⁻¹ (x - mean), L the Cholesky factor of the covariance, must be
--- independent standard normal numbers.
local function by_whitening(d, x)
  local z = flame.linalg.solve_triangular(d.scale_tril, (x - d.loc):t(), { upper = false })
  local worst = by_cdf(D.Gamma(t(z:size(1) / 2), t(0.5)), z:square():sum(1))
  for k = 1, z:size(1) do
    worst = math.max(worst, by_cdf(D.Normal(t(0), t(1)), z[k]))
    for m = 1, k - 1 do worst = math.max(worst, by_correlation(z[k], z[m])) end
  end
  return worst
end
local function by_columns(d, x)
  local worst = by_correlation(x:select(2, 1), x:select(2, 2))
  for k = 1, x:size(2) do
    local one = D.Gamma(d.base_dist.concentration[k], d.base_dist.rate[k])
    worst = math.max(worst, by_cdf(one, x:select(2, k)))
  end
  return worst
end

-- ---- the samplers -------------------------------------------------------------------------------
local continuous = {
  { "Normal", 0.3, 2 }, { "Uniform", -1, 3 }, { "Laplace", 0.3, 2 }, { "Exponential", 0.7 },
  { "LogNormal", 0.1, 0.6 }, { "Gamma", 0.03, 1 }, { "Gamma", 0.7, 2 }, { "Gamma", 1, 2 },
  { "Gamma", 4.5, 0.1 }, { "Gamma", 900, 3 }, { "Beta", 0.2, 0.3 }, { "Beta", 2, 5 },
  { "Beta", 300, 40 }, { "StudentT", 1.5, 1, 2 }, { "StudentT", 30, 0, 1 },
}
-- {title, distribution, the same with a parameter 10 % off, measure of misfit}
local samplers = {}
local function add(name, right, wrong, misfit)
  samplers[#samplers + 1] = { name, right, wrong, misfit }
end
--- A copy of the arguments in which the k-th is 10 % larger.
local function off(args, k)
  local out = { table.unpack(args) }
  out[k] = out[k] * 1.1
  return out
end
for _, c in ipairs(continuous) do
  local name, args = c[1], { table.unpack(c, 2) }
  local wrong = make(name, off(args, name == "StudentT" and 3 or #args == 2 and name ~= "Gamma"
    and name ~= "Beta" and 2 or 1))
  add(title(name, args), make(name, args), wrong, by_cdf)
end
for _, c in ipairs { { "Normal", 0.3, 2 }, { "Uniform", -1, 3 }, { "Laplace", 0.3, 2 },
  { "Exponential", 0.7 }, { "LogNormal", 0.1, 0.6 }, { "Gamma", 0.7, 2 }, { "Gamma", 4.5, 0.1 },
  { "Beta", 2, 5 }, { "StudentT", 1.5, 1, 2 } } do
  local name, args = c[1], { table.unpack(c, 2) }
  local d, wrong = make(name, args, "f32"), make(name, off(args, #args), "f32")
  add(title(name, args) .. " in f32", d, wrong, function(_, x)
    return by_cdf(make(name, args), x)
  end)
end
for _, c in ipairs { { "Bernoulli", 0.3 }, { "Geometric", 0.2 }, { "Binomial", 9, 0.3 },
  { "Binomial", 200, 0.7 }, { "Poisson", 2.5 }, { "Poisson", 80 } } do
  local name, args = c[1], { table.unpack(c, 2) }
  add(title(name, args), make(name, args), make(name, off(args, #args)), by_counts)
end
add("Categorical by probs", D.Categorical(t { 1, 2, 7, 4 }), D.Categorical(t { 1, 2, 7.7, 4 }),
  by_counts)
add("Categorical by logits", D.Categorical { logits = t { 0.3, -2, 1.5 } },
  D.Categorical { logits = t { 0.4, -2, 1.5 } }, by_counts)
add("Dirichlet", D.Dirichlet(t { 0.4, 2, 1.1 }), D.Dirichlet(t { 0.4, 2.2, 1.1 }), by_margins)
do
  local loc, root = t { 1, -1, 0 }, t { { 1.2, 0, 0 }, { -0.4, 0.5, 0 }, { 0.3, 0.2, 2 } }
  local bent = root + t { { 0, 0, 0 }, { 0.1, 0, 0 }, { 0, 0, 0 } }
  add("MultivariateNormal", D.MultivariateNormal(loc, { scale_tril = root }),
    D.MultivariateNormal(loc, { scale_tril = bent }), by_whitening)
end
add("a mixture", D.MixtureSameFamily(D.Categorical(t { 0.3, 0.7 }),
  D.Normal(t { -2, 1 }, t { 0.5, 1 })), D.MixtureSameFamily(D.Categorical(t { 0.33, 0.67 }),
  D.Normal(t { -2, 1 }, t { 0.5, 1 })), by_cdf)
add("Independent", D.Independent(D.Gamma(t { 0.7, 4 }, 1), 1),
  D.Independent(D.Gamma(t { 0.7, 4.4 }, 1), 1), by_columns)
for _, case in ipairs { { "tanh", { D.TanhTransform() } }, { "sigmoid", { D.SigmoidTransform() } },
  { "a falling map", { D.ExpTransform(), D.AffineTransform(1, -2) } },
  { "three maps", { D.AffineTransform(t(0.2), t(-1.5)), D.TanhTransform(), D.ExpTransform() } } } do
  local name, maps = case[1], case[2]
  add(name, D.TransformedDistribution(D.Normal(t(0.1), t(0.8)), maps),
    D.TransformedDistribution(D.Normal(t(0.1), t(0.88)), maps), by_cdf)
end

describe("distributions: draws", function()
  for _, s in ipairs(samplers) do
    local name, right, wrong, misfit = table.unpack(s)
    it(("of %s fit it"):format(name), function()
      flame.seed(7)
      assert.is_true(misfit(right, right:sample(N)) < 1)
    end)
    it(("of %s, a tenth off, do not"):format(name), function()
      flame.seed(7)
      assert.is_true(misfit(right, wrong:sample(N)) > 1)
    end)
  end
  it("of Geometric(1) are all 0", function()
    assert.equal(0, D.Geometric(1):sample(N):amax():item())
  end)
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
  it("of Dirichlet sum to 1", function()
    local x = D.Dirichlet(t { 0.4, 2, 1.1 }):sample(1000)
    assert.allclose(flame.ones(1000, F64), x:sum(-1), { atol = 1e-15 * 4 })
    assert.allclose(flame.ones(50), D.Dirichlet(flame.ones(1)):sample(50):reshape(-1))
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
  it("of MultivariateNormal are loc + root z, by columns and by a product", function()
    for _, n in ipairs { 1, 5, 64, 65 } do
      for _, batch in ipairs { {}, { 2 } } do
        local shape = { table.unpack(batch) }
        table.move({ n, n }, 1, 2, #shape + 1, shape)
        local root = flame.randn(shape, F64):tril()
        local loc = flame.randn({ n }, F64):requires_grad_(true)
        root:requires_grad_(true)
        flame.seed(3)
        local x = D.MultivariateNormal(loc, { scale_tril = root, validate_args = false }):rsample(3)
        flame.seed(3)
        local z = flame.randn(x.shape, F64)
        local y = loc + root:matmul(z:unsqueeze(-1)):squeeze(-1)
        assert.allclose(y, x, { rtol = 1e-12, atol = 1e-12 })
        local w = flame.randn(x.shape, F64)
        local got = (x * w):sum():gradients { loc, root }
        local want = (y * w):sum():gradients { loc, root }
        for _, p in ipairs { loc, root } do
          assert.allclose(want[p], got[p], { rtol = 1e-11, atol = 1e-11 })
        end
      end
    end
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
  it("of a mixture take a vector whole, and its moments are the mixture's", function()
    flame.seed(4)
    local far = D.Independent(D.Normal(t { { -9, -9 }, { 9, 9 } }, 1), 1)
    local x = D.MixtureSameFamily(D.Categorical(t { 0.3, 0.7 }), far):sample(2000)
    assert.is_true(x:select(2, 1):gt(0):eq(x:select(2, 2):gt(0)):all():item())
    local d = D.MixtureSameFamily(D.Categorical(t { 0.3, 0.7 }),
      D.Normal(t { -2, 1 }, t { 0.5, 1 }))
    x = d:sample(N)
    assert.allclose(d.mean, x:mean(), { atol = 0.03 })
    assert.allclose(d.variance, x:var(), { atol = 0.06 })
    local z = t { -2, 0.4 }
    local parts = D.Normal(t { -2, 1 }, t { 0.5, 1 }):log_prob(z:unsqueeze(-1)):exp()
    assert.allclose((parts * t { 0.3, 0.7 }):sum(-1):log(), d:log_prob(z), { rtol = 1e-12 })
  end)
  it("through transforms have the density that is the slope of the cdf", function()
    for _, s in ipairs(samplers) do
      local d = s[2]
      if d.class_name == "TransformedDistribution" then
        local p = t { 0.01, 0.4, 0.9 }
        assert.allclose(p, d:cdf(d:icdf(p)), { rtol = 1e-10 })
        local y = d:icdf(p)
        local slope = (d:cdf(y + 1e-6) - d:cdf(y - 1e-6)) / 2e-6
        assert.allclose(slope, d:log_prob(y):exp(), { rtol = 1e-6 })
      end
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
  -- Makers of distributions, by family: p(v) is v 500 times, rows(n) positive numbers (500, n).
  local families = {}
  for _, c in ipairs(continuous) do
    families[c[1]] = families[c[1]] or {}
    families[c[1]][#families[c[1]] + 1] = function(p)
      local args = {}
      for i = 2, #c do args[i - 1] = p(c[i]) end
      return D[c[1]](table.unpack(args))
    end
  end
  for _, n in ipairs { 1, 3, 40 } do
    local function add_one(name, f)
      families[name] = families[name] or {}
      table.insert(families[name], function(_, rows) return f(rows(n)) end)
    end
    add_one("Dirichlet", D.Dirichlet)
    add_one("Categorical", D.Categorical)
    add_one("Categorical by logits", function(x) return D.Categorical { logits = x * 3 } end)
    add_one("a mixture", function(x)
      return D.MixtureSameFamily(D.Categorical(x), D.Laplace(x, 1))
    end)
    add_one("MultivariateNormal", function(x)
      local root = (x:unsqueeze(-1) * x:unsqueeze(-2)):tril()
      return D.MultivariateNormal(x, { scale_tril = root })
    end)
  end
  families.Bernoulli = { function(p) return D.Bernoulli(p(0.3)) end }
  families.Geometric = { function(p) return D.Geometric { logits = p(-0.7) } end }
  families.Binomial = { function(p) return D.Binomial(p(9), p(0.3)) end,
    function(p) return D.Binomial(p(200), p(0.7)) end }
  families.Poisson = { function(p) return D.Poisson(p(2.5)) end,
    function(p) return D.Poisson(p(80)) end }
  families.Independent = { function(_, rows) return D.Independent(D.Gamma(rows(3), 1), 1) end }
  families.TransformedDistribution = { function(p)
    return D.TransformedDistribution(D.Normal(p(0.1), p(0.8)), { D.AffineTransform(0.2, p(-1.5)),
      D.TanhTransform(), D.ExpTransform(), D.SigmoidTransform() })
  end }
  local names = {}
  for name in pairs(families) do names[#names + 1] = name end
  table.sort(names)
  --- The bytes of draws by each maker of a family, with parameters of this dtype on this device.
  local function draws_of(family, dtype, device)
    local o, out = { dtype = dtype, device = device }, {}
    local function p(v) return flame.full({ 500 }, v, o) end
    local function rows(n)
      return flame.arange(1, 500 * n, o):reshape(500, n):remainder(7) + 0.25
    end
    for k, sampler in ipairs(families[family]) do
      flame.seed(2)
      out[k] = sampler(p, rows):sample(3):cpu():bytes()
    end
    return out
  end
  -- one test per family and dtype, since NVRTC compiles other kernels for each, which takes time
  for _, family in ipairs(names) do
    for _, dtype in ipairs { "f64", "f32", "f16", "bf16" } do
      if family ~= "MultivariateNormal" or dtype:find "^f[63]" then
        it(("#cuda of %s in %s come in the same bits on the GPU"):format(family, dtype), function()
          if flame.best_device() ~= "cuda" then return pending("no CUDA device") end
          local here, there = draws_of(family, dtype, "cpu"), draws_of(family, dtype, "cuda")
          for k, bytes in ipairs(here) do assert.is_true(bytes == there[k], "sampler " .. k) end
        end)
      end
    end
  end
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
describe("distributions: gradients of draws", function()
  it("of gamma variates by their concentration are those of the quantile", function()
    local a, x, slope = {}, {}, {}
    for i, row in ipairs(reference.slopes) do a[i], x[i], slope[i] = row[1], row[2], row[3] end
    local d = D.Gamma(t(a):requires_grad_(true), 1)
    local p = d:cdf(t(x)):detach()
    local q = D.Gamma(t(a), 1):icdf(p)
    local inner = p:gt(1e-300):logical_and(p:lt(0.99))   -- nearer to 1, p has few digits of 1 - p
    assert.allclose(flame.where(inner, t(x), 0), flame.where(inner, q, 0), { rtol = 1e-9 })
    local shared = {}
    require "flame.distributions.share"(shared)
    assert.allclose(slope, shared.gamma_slope(t(a), t(x):log()), { rtol = 1e-11 })
  end)
  local COUNT <const> = 40
  --- The derivative of f(params) with respect to the k-th parameter, by a central difference.
  local function difference(f, params, k)
    local h = params[k]:abs():amax():item() * 1e-5
    local function moved(by)
      local list = { table.unpack(params) }
      list[k] = list[k] + by
      return f(table.unpack(list))
    end
    return (moved(h) - moved(-h)) / (2 * h)
  end
  --- Gradients of draws with respect to each parameter must agree with differences of the function
  --- again_of(draws, parameters), which computes the same draws for other parameters.
  local function agree(name, args, again_of)
    local params, tracked = {}, {}
    for i, v in ipairs(args) do
      params[i] = t(v):expand { COUNT }
      tracked[i] = params[i]:clone():requires_grad_(true)
    end
    flame.seed(21)
    local x = D[name](table.unpack(tracked)):rsample()
    flame.seed(21)
    local again = again_of(x:detach(), table.unpack(params))
    assert.allclose(x, again(table.unpack(params)), { rtol = 1e-9, atol = 1e-12 })
    local grads = x:sum():gradients(tracked)
    for k = 1, #params do
      local want = difference(again, params, k)
      assert.allclose(want, grads[tracked[k]], { rtol = 1e-5, atol = 1e-8 })
    end
  end
  for _, c in ipairs { { "Normal", 0.3, 2 }, { "Uniform", -1, 3 }, { "Laplace", 0.3, 2 },
    { "Exponential", 0.7 }, { "LogNormal", 0.1, 0.6 }, { "Gamma", 0.3, 2 }, { "Gamma", 4.5, 0.1 },
    { "Gamma", 60, 3 } } do
    local args = { table.unpack(c, 2) }
    it(("of %s are how their quantiles move"):format(title(c[1], args)), function()
      agree(c[1], args, function(x, ...)
        local p = D[c[1]](...):cdf(x)
        return function(...) return D[c[1]](...):icdf(p) end
      end)
    end)
  end
  --- Draws a gamma variate with concentration a, and returns it as a function of the concentration.
  local function variate(a)
    local one = D.Gamma(a, t(1):expand(a.shape))
    local p = one:cdf(one:sample())
    return function(b) return D.Gamma(b, t(1):expand(b.shape)):icdf(p) end
  end
  it("of Beta are those of the two gamma variates that it is made of", function()
    agree("Beta", { 0.7, 3 }, function(_, a, b)
      local x, y = variate(a), variate(b)
      return function(c, d) return x(c) / (x(c) + y(d)) end
    end)
  end)
  it("of StudentT are those of the gamma and the normal variate", function()
    agree("StudentT", { 3, 0.5, 2 }, function(_, df)
      local z = flame.randn(df.shape, F64)
      local x = variate(df * 0.5)
      return function(n, loc, scale) return loc + scale * z * (n * 0.5 / x(n * 0.5)):sqrt() end
    end)
  end)
  it("of Dirichlet are those of its gamma variates", function()
    local a = t({ 0.4, 2, 1.1 }):expand { COUNT, 3 }
    local tracked, w = a:clone():requires_grad_(true), flame.randn({ COUNT, 3 }, F64)
    flame.seed(21)
    local x = D.Dirichlet(tracked):rsample()
    flame.seed(21)
    local g = variate(a)
    local function total(b)
      local y = g(b)
      return (y * w):sum(-1) / y:sum(-1)
    end
    assert.allclose((x * w):sum(-1), total(a), { rtol = 1e-9, atol = 1e-12 })
    local grad = (x * w):sum():gradients { tracked }[tracked]
    for k = 1, 3 do
      local step = flame.one_hot(flame.tensor(k, { dtype = "i64" }), 3):double() * 1e-5
      assert.allclose((total(a + step) - total(a - step)) / 2e-5, grad:select(2, k),
        { rtol = 1e-5, atol = 1e-8 })
    end
  end)
  it("go through maps", function()
    local loc, scale = t({ 0.3, -1 }):requires_grad_(true), t({ 0.5, 2 }):requires_grad_(true)
    flame.gradcheck(function(m, s, a)
      flame.seed(5)
      return D.TransformedDistribution(D.Normal(m, s), { D.TanhTransform(),
        D.AffineTransform(a, m), D.SigmoidTransform() }):rsample(3)
    end, { loc, scale, t(0.7):requires_grad_(true) })
  end)
  --- The gradients, with respect to the parameters, of the mean of f(x) over draws x.
  local function slopes(make_one, f, ...)
    flame.seed(11)
    local params = {}
    for i, v in ipairs { ... } do params[i] = t(v):requires_grad_(true) end
    local x = make_one(table.unpack(params)):rsample(50000)
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
    it(("of %s have those of the mean"):format(title(c[1], c[3])), function()
      local got = slopes(D[c[1]], c[2], table.unpack(c[3]))
      for i, v in ipairs(c[4]) do assert.close(v, got[i], 0.04 + 0.06 * math.abs(v)) end
    end)
  end
  it("of Dirichlet have those of the mean", function()
    flame.seed(12)
    local a = t({ 0.5, 1, 2.5 }):requires_grad_(true)
    D.Dirichlet(a):rsample(50000):select(2, 1):mean():backward()
    assert.allclose({ 3.5 / 16, -0.5 / 16, -0.5 / 16 }, a.grad, { atol = 4e-3 })
  end)
end)
