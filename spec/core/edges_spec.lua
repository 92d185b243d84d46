--- Values and gradients at poles, bounds and infinities, and unusual forms of arguments that
--- PyTorch accepts.
local helper = require "spec.support.helper"
local raises = helper.raises
local flame = require "flame"

local NAN <const> = 0 / 0
local function near(want, got, bound)
  got = type(got) == "table" and got or got:reshape(-1):totable()
  assert.equal(#want, #got)
  for i, w in ipairs(want) do
    local g = got[i]
    local same = w == g or w ~= w and g ~= g
      or math.abs(w - g) <= (bound or 1e-6) * math.max(1, math.abs(w))
    assert.is_true(same, ("element %d: %s, want %s"):format(i, tostring(g), tostring(w)))
  end
end
--- The gradient of the sum of f's first result.
local function slope(f, values, dtype)
  local x = flame.tensor(values, { dtype = dtype or "f64", requires_grad = true })
  local y = (f(x)):sum()
  return y:gradients({ x })[x]
end

describe("joining", function()
  it("takes its axis from the tensors that it joins, and not from an empty first one", function()
    local none, a, b = flame.zeros(0), flame.ones(2, 3), flame.ones(2, 4)
    assert.same({ 2, 7 }, flame.cat({ none, a, b }, 2).shape)
    assert.same({ 2, 7 }, flame.cat({ none, a, none, b }, -1).shape)
    assert.same({ 4, 3 }, flame.cat({ none, none, a, a }, -2).shape)
    assert.same({ 0 }, flame.cat({ none, none }, -1).shape)
    raises("cat: axis 3 is out of range, the tensor has 2 axes", flame.cat, { none, a }, 3)
    raises("cat: axis 2 is out of range, the tensor has 1 axis", flame.cat, { none }, 2)
    raises("cat: shapes (2, 3) and (2) differ in their number of axes", flame.cat,
      { a, flame.ones(2) }, 2)
    raises("cat: shapes (2) and (2, 3) differ in their number of axes", flame.cat,
      { flame.ones(2), a }, 2)
    raises("cat: shapes (2) and () differ in their number of axes", flame.cat,
      { flame.ones(2), flame.tensor(1) })
    raises("stack: shapes (2) and (2, 1) differ in their number of axes", flame.stack,
      { flame.ones(2), flame.ones(2, 1) }, 3)
    raises("stack: shapes (0) and (2, 3) differ in their number of axes", flame.stack,
      { none, a }, 2)
    raises("hstack: shapes (2) and (2, 3) differ in their number of axes", flame.hstack,
      { flame.ones(2), a })
  end)

  it("takes many tensors, as a batch or the examples of vmap are, and passes gradients on", function()
    local n <const> = 4200
    local list, x = {}, flame.zeros(2, { requires_grad = true })
    for i = 1, n do list[i] = i == n - 1 and x or flame.full({ 2 }, i) end
    local joined, stacked = flame.cat(list), flame.stack(list, 2)
    assert.same({ { 2 * n }, { 2, n } }, { joined.shape, stacked.shape })
    local whole = n * (n + 1) // 2 - (n - 1)
    assert.equal(2 * whole, joined:double():sum():item())
    assert.equal(whole, stacked[2]:double():sum():item())
    local weights = flame.arange(1.0 * n)
    assert.same({ n - 1, n - 1 }, (stacked * weights):sum():gradients({ x })[x]:totable())
    assert.equal(n, flame.vmap(function(v) return v * 2 end)(flame.ones(n)):size(1))
    for i = n + 1, 524289 do list[i] = x end
    raises("cat: 524289 tensors, need 1 to 524288", flame.cat, list)
  end)
end)

describe("slopes at the edge", function()

  it("are infinite at the poles of polygamma, of every order", function()
    near({ -math.huge, -math.huge, -math.huge, -251.478 },
      slope(function(x) return flame.polygamma(1, x) end, { 0, -1, -2, 0.2 }), 1e-5)
    near({ math.huge, math.huge, 0.00026937 },
      slope(function(x) return flame.polygamma(2, x) end, { 0, -3, 20 }, "f32"), 1e-4)
    near({ -math.huge, -2.4e16 },
      slope(function(x) return flame.polygamma(3, x) end, { 1e-160, 1e-3 }), 1e-5)
  end)
  it("of trigamma keep the digits of half types", function()
    near({ -129.3, 68.2 }, slope(flame.trigamma, { 0.25, -7.3 }, "f16"), 0.02)
    local x = flame.tensor({ 0.5, -0.3, -2.6 }, { dtype = "f64", requires_grad = true })
    assert.is_true(flame.gradcheck(flame.trigamma, { x }, { order = 2 }))
    assert.is_true(flame.gradcheck(function(v) return flame.polygamma(2, v) end, { x },
      { order = 2 }))
  end)
  it("of a bound that is NaN, or of NaN at a bound, are 0 on both sides", function()
    for _, name in ipairs { "clamp_min", "clamp_max" } do
      local x = flame.tensor({ 1, NAN, 2, 3 }, { requires_grad = true })
      local b = flame.tensor({ NAN, 1, 2, name == "clamp_min" and 4 or 2 },
        { requires_grad = true })
      local g = flame[name](x, b):sum():gradients({ x, b })
      near({ 0, 0, 1, 0 }, g[x])
      near({ 0, 0, 0, 1 }, g[b])
    end
  end)
  it("of frexp at infinity is that of the value itself, which stays", function()
    near({ 1, 1, 0.25 },
      slope(function(x) return (x:frexp()) end, { math.huge, -math.huge, 3 }, "f32"))
    local m, e = flame.tensor({ math.huge, -math.huge, 3 }, { requires_grad = true }):frexp()
    near({ math.huge, -math.huge, 0.75 }, m)
    near({ 0, 0, 2 }, e)
  end)
end)

describe("a margin that is just reached", function()
  it("has no slope, as in PyTorch", function()
    local x = flame.tensor({ { 0, 0, 1, -1 } }, { dtype = "f64" }):requires_grad_(true)
    flame.multi_margin_loss(x, flame.tensor({ 1 }, { dtype = "i64" })):backward()
    assert.same({ { -0.5, 0.25, 0.25, 0 } }, x.grad:totable())
    local y = flame.tensor({ { 1, 0, 0.5 } }, { dtype = "f64" }):requires_grad_(true)
    flame.multilabel_margin_loss(y, flame.tensor({ { 1, 0, 0 } }, { dtype = "i64" })):backward()
    assert.same({ { -1 / 3, 0, 1 / 3 } }, y.grad:totable())
  end)
end)

describe("the incomplete gamma functions", function()
  it("keep their digits where a is large and x near it", function()
    local a = flame.tensor({ 899.01, 1e4, 30.5, 200, 1e5 }, { dtype = "f64" })
    local x = flame.tensor({ 885.006, 9665.39, 30.5, 260, 1e5 }, { dtype = "f64" })
    near({ 0.32334740, 0.00036134853, 0.52408104, 0.99995250, 0.50042052 },
      flame.igamma(a, x), 1e-5)
    near({ 1, 1, 1, 1, 1 }, flame.igamma(a, x) + flame.igammac(a, x), 1e-13)
    near({ 8.8171e-07 },
      flame.igammac(flame.tensor({ 200 }, { dtype = "f64" }),
        flame.tensor({ 275 }, { dtype = "f64" })), 1e-10)
  end)
  it("join their expansions without a step", function()
    for _, a in ipairs { 30, 31, 100 } do
      for _, share in ipairs { 0.65, 1.35 } do
        local x = flame.tensor({ a * share * (1 - 1e-9), a * share * (1 + 1e-9) },
          { dtype = "f64" })
        local y = flame.igamma(flame.full({ 2 }, a, { dtype = "f64" }), x)
        assert.is_true((y[1] - y[2]):abs():item() < 1e-8 * a)
      end
    end
  end)
  it("are 0 and 1 where a is infinite", function()
    local a, x = flame.full({ 3 }, math.huge), flame.tensor({ 0, 3, math.huge })
    near({ 0, 0, NAN }, flame.igamma(a, x))
    near({ 1, 1, NAN }, flame.igammac(a, x))
  end)
end)

describe("shapes and dtypes", function()
  it("fmax and fmin keep integers beside a whole number", function()
    local x = flame.tensor({ 1, 2, 3 }, { dtype = "i64" })
    assert.equal("i64", flame.fmax(x, 2).dtype)
    assert.equal("i64", flame.fmin(2, x).dtype)
    assert.equal("f32", flame.fmax(x, 2.5).dtype)
    near({ 2, 2, 3 }, flame.fmax(x, 2))
  end)
  it("a norm of a 0-d tensor stays 0-d with keepdim", function()
    assert.same({}, flame.linalg.vector_norm(flame.tensor(3), 2, 1, true).shape)
    assert.equal(3, flame.linalg.vector_norm(flame.tensor(-3), 2, 1, true):item())
  end)
  it("histogram has its edges from 0 to 1 when there is nothing to count", function()
    local count, edges = flame.histogram(flame.zeros(0), 2)
    near({ 0, 0 }, count)
    near({ 0, 0.5, 1 }, edges)
  end)
  it("linspace and logspace of integers go between integers", function()
    near({ 4, 2, 1, 0, -1 }, flame.linspace(4.3, -1.2, 5, { dtype = "i64" }))
    near({ 16, 10, 6, 4 }, flame.logspace(4.3, 2, 4, 2, { dtype = "i64" }))
    near({ 19.698 }, flame.logspace(4.3, 2, 4, 2)({ 1, 1 }), 1e-4)
  end)
  it("x.T and x.mT are views with the axes exchanged", function()
    local x = flame.arange(6.0):reshape(1, 2, 3)
    assert.same({ 3, 2, 1 }, x.T.shape)
    assert.same({ 1, 3, 2 }, x.mT.shape)
    assert.same({ { { 1, 4 }, { 2, 5 }, { 3, 6 } } }, x.mH:totable())
    assert.same(x.T:totable(), x.H:totable())
    assert.same({ 3 }, flame.arange(3.0).T.shape)
    raises("mT: x has 1 axes, need two or more", function() return flame.arange(3.0).mT end)
    raises("write to a view made by T", function() return x.T:zero_() end)
    raises("field 'T' can not be assigned", function() x.T = x end)
    local w = flame.ones(2, 3, { requires_grad = true })
    local y = (w.T * flame.arange(2.0)):sum()
    near({ 1, 1, 1, 2, 2, 2 }, y:gradients({ w })[w])
  end)
end)

describe("arguments by position", function()
  local function same(a, b) near(b:reshape(-1):totable(), a) end

  it("stand for the options of losses, with a table behind them", function()
    local x, y = flame.tensor({ -1, 0.5, 2 }), flame.tensor({ 1, -1, 1 })
    local m, l = flame.randn(3, 4), flame.tensor({ 1, 4, 2 }, { dtype = "i64" })
    same(flame.huber_loss(x, y, "sum", 0.5),
      flame.huber_loss(x, y, { reduction = "sum", delta = 0.5 }))
    same(flame.hinge_embedding_loss(x, y, 2, { reduction = "none" }),
      flame.hinge_embedding_loss(x, y, { margin = 2, reduction = "none" }))
    same(flame.hinge_loss(x, y, 2), flame.hinge_loss(x, y, { margin = 2 }))
    same(flame.poisson_nll_loss(x, y:abs(), true, true),
      flame.poisson_nll_loss(x, y:abs(), { full = true }))
    same(flame.gaussian_nll_loss(x, y, x:abs(), true, 1e-3, "sum"),
      flame.gaussian_nll_loss(x, y, x:abs(), { full = true, eps = 1e-3, reduction = "sum" }))
    same(flame.margin_ranking_loss(x, y, y, 0.5, { reduction = "sum" }),
      flame.margin_ranking_loss(x, y, y, { margin = 0.5, reduction = "sum" }))
    same(flame.cosine_embedding_loss(m, m, y, 0.5),
      flame.cosine_embedding_loss(m, m, y, { margin = 0.5 }))
    same(flame.multi_margin_loss(m, l, 2, 1.5, flame.arange(4.0)),
      flame.multi_margin_loss(m, l, { p = 2, margin = 1.5, weight = flame.arange(4.0) }))
    raises("hinge_embedding_loss: reduction must be \"mean\", \"sum\" or \"none\", got number 3",
      function() return flame.hinge_embedding_loss(x, y, 2, 3) end)
    raises("embedding_bag: offsets is bool, need integers", flame.embedding_bag,
      flame.arange(2), m, flame.ones(2):bool())
    raises("logaddexp_: x must be a tensor, got number", x.logaddexp_, 3, x)
    raises("mse_loss: reduction must be \"mean\", \"sum\" or \"none\", got number 2",
      function() return flame.mse_loss(x, y, 2) end)
  end)
  it("stand for options of reductions, softmax and windows", function()
    local x = flame.randn(3, 4)
    local v, m = flame.var_mean(x, 1, false, true)
    same(v, x:var(1, { correction = 0, keepdim = true }))
    same(m, x:mean(1, { keepdim = true }))
    assert.same({ 1, 4 }, m.shape)
    v, m = flame.std_mean(x, false)
    same(v, x:std({ correction = 0 }))
    assert.same({}, m.shape)
    for _, name in ipairs { "quantile", "nanquantile" } do
      local y = flame[name](x, 0.4, 1, true, { interpolation = "lower" })
      assert.same({ 1, 4 }, y.shape)
      same(y, flame[name](x, 0.4, { dim = 1, keepdim = true, interpolation = "lower" }))
    end
    assert.equal("f64", flame.softmax(x, 1, "f64").dtype)
    assert.equal("f64", flame.log_softmax(x, 1, "f64").dtype)
    raises("softmax: 3 arguments at most, got 4", function()
      return flame.softmax(x, 1, "f64", 2)
    end)
    same(flame.hamming_window(8, true, 0.5, 0.5), flame.hann_window(8))
    same(flame.hamming_window(8, { alpha = 0.5, beta = 0.5, periodic = false }),
      flame.hann_window(8, false))
  end)
end)

describe("second derivatives", function()
  it("at kinks are PyTorch's", function()
    local function second(f, at)
      local x = flame.tensor(at, { dtype = "f64" }):requires_grad_(true)
      local g = f(x):sum():gradients({ x }, { create_graph = true })[x]
      return g:totable(), g:sum():gradients({ x })[x]:totable()
    end
    local function far(name, o)
      return function(x) return flame[name](x, flame.zeros_like(x), o) end
    end
    local edge, ALPHA, SCALE = { 0, 1, -1, 2 }, 1.6732632423543772, 1.0507009873554805
    local cases = {
      { far("huber_loss", { reduction = "sum" }), { 0, 1, -1, 1 }, { 1, 0, 0, 0 } },
      { far("huber_loss", { reduction = "sum", delta = 2 }), { 0, 1, -1, 2 }, { 1, 1, 1, 0 } },
      { far("smooth_l1_loss", { reduction = "sum" }), { 0, 1, -1, 1 }, { 1, 0, 0, 0 } },
      { far("smooth_l1_loss", { reduction = "sum", beta = 2 }), { 0, 0.5, -0.5, 1 },
        { 0.5, 0.5, 0.5, 0 } },
      { function(x) return x:elu() end, { 1, 1, math.exp(-1), 1 }, { 0, 0, math.exp(-1), 0 } },
      { function(x) return x:elu(2) end, { 2, 1, 2 * math.exp(-1), 1 },
        { 0, 0, 2 * math.exp(-1), 0 } },
      { function(x) return x:selu() end,
        { SCALE * ALPHA, SCALE, SCALE * ALPHA * math.exp(-1), SCALE },
        { 0, 0, SCALE * ALPHA * math.exp(-1), 0 } },
      { function(x) return x:celu(2) end, { 1, 1, math.exp(-0.5), 1 },
        { 0, 0, 0.5 * math.exp(-0.5), 0 } },
    }
    for k, c in ipairs(cases) do
      local one, two = second(c[1], edge)
      for e = 1, #edge do
        local off = math.max(math.abs(one[e] - c[2][e]), math.abs(two[e] - c[3][e]))
        assert(off < 1e-15, ("case %d at %g: %g, %g"):format(k, edge[e], one[e], two[e]))
      end
    end
  end)

  it("of igamma, igammac and ndtri are those of their slopes", function()
    local a = flame.tensor({ { 0.7 }, { 3 }, { 40 } }, { dtype = "f64" })
    local x = flame.tensor({ 0.6, 2.5, 39 }, { dtype = "f64", requires_grad = true })
    for _, name in ipairs { "igamma", "igammac" } do
      assert.is_true(flame.gradcheck(function(v) return flame[name](a, v) end, { x },
        { order = 2 }))
    end
    local p = flame.tensor({ 0.3, 0.5, 0.9 }, { dtype = "f64", requires_grad = true })
    assert.is_true(flame.gradcheck(flame.ndtri, { p }, { order = 2 }))
    near({ math.huge, math.huge }, slope(flame.ndtri, { 0, 1 }))
  end)
end)

describe("a 0-d tensor", function()
  it("flattens to one element, with axes named or not", function()
    assert.same({ 1 }, flame.tensor(3):flatten().shape)
    assert.same({ 3 }, flame.tensor(3):flatten(1, -1):totable())
  end)
end)

describe("an LSTM with proj_size", function()
  local nn = require "flame.nn"
  it("has states of two sizes, h being a product with weight_hr", function()
    local m = nn.LSTM(2, 3, { proj_size = 1, num_layers = 2, bidirectional = true })
    local y, h, c = m(flame.randn(4, 5, 2))
    assert.same({ { 4, 5, 2 }, { 4, 5, 1 }, { 4, 5, 3 } }, { y.shape, h.shape, c.shape })
    assert.same({ 1, 3 }, m.weight_hr_l1_reverse.shape)
    assert.same({ 12, 1 }, m.weight_hh_l0.shape)
    local one = nn.LSTM(2, 3, { proj_size = 2 })
    local x, h0, c0 = flame.randn(1, 1, 2), flame.randn(1, 1, 2), flame.randn(1, 1, 3)
    local gates = flame.linear(x[1], one.weight_ih_l0, one.bias_ih_l0) + flame.linear(h0[1],
      one.weight_hh_l0, one.bias_hh_l0)
    local i, f, g, o = table.unpack(gates:chunk(4, 2))
    local last = f:sigmoid() * c0[1] + i:sigmoid() * g:tanh()
    near((o:sigmoid() * last:tanh()):matmul(one.weight_hr_l0:t()):reshape(-1):totable(),
      (one(x, h0, c0)))
  end)
  it("refuses one that is not below hidden_size, and where there is none", function()
    raises("LSTM: proj_size = 4, need 0 to 3, less than hidden_size", nn.LSTM, 3, 4,
      { proj_size = 4 })
    raises("GRU: no option 'proj_size'", nn.GRU, 3, 4, { proj_size = 2 })
  end)
end)

describe("arguments that do not go together", function()
  local T = flame.tensor
  it("raise in losses", function()
    local x, p = flame.randn(3, 4), flame.rand(3, 4)
    raises("binary_cross_entropy: input has shape (3, 4) and target (4), need the same",
      flame.binary_cross_entropy, p, p[1])
    raises("binary_cross_entropy_with_logits: input has shape (3, 4) and target (4)",
      flame.binary_cross_entropy_with_logits, x, p[1])
    raises("smooth_l1_loss: beta = -1 is negative", flame.smooth_l1_loss, x, x, { beta = -1 })
    raises("margin_ranking_loss: shapes (3, 4) and (4)", flame.margin_ranking_loss, x, x, x[1])
    raises("triplet_margin_loss: shapes (3, 4) and (4)", flame.triplet_margin_loss, x, x, x[1])
    raises("cosine_embedding_loss: target has shape (3, 4)", flame.cosine_embedding_loss, x, x, x)
    local ids = T({ 1, 2, 3 }, { dtype = "i64" })
    raises("multi_margin_loss: p = 3, need 1 or 2", flame.multi_margin_loss, x, ids, { p = 3 })
    raises("multi_margin_loss: weight has shape (3), need (4)", flame.multi_margin_loss, x, ids,
      { weight = flame.ones(3) })
    raises("nll_loss: weight has shape (5), need (4)", flame.nll_loss, x, ids, flame.ones(5))
    raises("cross_entropy", flame.cross_entropy, x, ids, flame.ones(5))
  end)
  it("raise in norms with statistics, which then stay as they were", function()
    local mean, var, x = flame.zeros(4), flame.ones(3), flame.randn(3, 4, 5)
    raises("batch_norm: running_var has shape (3), need (4)", flame.batch_norm, x, mean, var,
      { training = true })
    raises("instance_norm: running_var has shape (3), need (4)", flame.instance_norm, x, mean, var)
    raises("batch_norm: weight has shape (1), need (4)", flame.batch_norm, x, mean, flame.ones(4),
      flame.ones(1), { training = true })
    near({ 0, 0, 0, 0 }, mean)
  end)
  it("raise in writes of regions, products and searches", function()
    local x = flame.zeros(3, 4)
    raises("select_scatter: src has shape (1), the region (4)", flame.select_scatter, x,
      flame.ones(1), 1, 2)
    raises("slice_scatter: src has shape (4), the region (2, 4)", flame.slice_scatter, x,
      flame.ones(4), 1, 1, 2)
    raises("addr: ", flame.addr, flame.zeros(1, 2), flame.ones(1), flame.ones(1), { beta = 0 })
    raises("threshold: value must be a tensor or a number, got nothing", flame.threshold,
      flame.ones(2), 1)
    raises("threshold: threshold must be a tensor or a number, got nothing", flame.threshold,
      flame.ones(2))
    raises("sum: keepdim must be true or false, got number 1", flame.sum, flame.ones(2), 1, 1)
    raises("tril_indices: columns = -1 is negative", flame.tril_indices, 3, -1)
    raises("tril_indices: columns must be an integer, got nothing", flame.tril_indices, 3)
    raises("triu_indices: offset must be an integer, got string", flame.triu_indices, 3, 3, "a")
    raises("triu_indices: no option 'diagonal', there is: columns offset dtype device",
      flame.triu_indices,
      3, 3, { diagonal = 1 })
    raises("unflatten: sizes do not multiply to 5", flame.unflatten, flame.zeros(5, 0), 1, { 2, 2 })
    local sorter = T({ 1, 2 }, { dtype = "i64" })
    raises("searchsorted: sorter is (2), sorted (3)", flame.searchsorted, flame.arange(3.0),
      flame.zeros(2), { sorter = sorter })
    local lu, pivots = flame.linalg.lu_factor(flame.eye(3))
    raises("lu_solve: ", flame.linalg.lu_solve, lu, pivots:unsqueeze(1), flame.ones(3, 1))
    raises("lu_solve: ", flame.linalg.lu_solve, lu, pivots, flame.ones(2, 1))
    raises("lu_solve: pivots is f32, need integers", flame.linalg.lu_solve, lu, pivots:float(),
      flame.ones(3, 1))
    raises("lu_solve: pivot 0 at position 1, need 1 to 3", flame.linalg.lu_solve, lu, pivots * 0,
      flame.ones(3, 1))
    raises("lu_unpack: pivot 9 at position 1, need 1 to 3", flame.lu_unpack, lu, pivots * 0 + 9)
    raises("norm: ord needs dim", flame.linalg.norm, flame.tensor(3), 0)
  end)
  it("are told at the script's line also behind a return", function()
    local script = "local flame = ... return flame.linalg.svdvals(flame.zeros(2, 2):long())"
    assert.equal("script:1: svdvals: x is i64, need f32 or f64",
      helper.message(load(script, "=script"), flame))
  end)
end)

describe("operands of different dtypes", function()
  local function I(v, dtype) return flame.tensor(v, { dtype = dtype or "i64" }) end
  it("bool goes with integers in gcd, lcm and shifts", function()
    local b = flame.tensor({ true, false })
    near({ 1, 6 }, flame.gcd(I { 4, 6 }, b))
    near({ 4, 0 }, flame.lcm(b, I({ 4, 6 }, "i16")))
    near({ 8, 6 }, flame.bitwise_left_shift(I { 4, 6 }, b))
    assert.equal("i16", flame.gcd(b, I({ 4, 6 }, "i16")).dtype)
    raises("gcd: x is bool, need integers", flame.gcd, b, b)
    raises("gcd_: the result is i64, x is bool and keeps its dtype",
      function() b:gcd_(I { 1, 2 }) end)
  end)
  it("nextafter takes the wider float", function()
    local y = flame.nextafter(flame.ones(1), I { 3 })
    assert.equal("f32", y.dtype)
    assert.equal(1 + 2.0 ^ -23, y:item())
    y = flame.nextafter(flame.ones(1), flame.full({ 1 }, 3, { dtype = "f64" }))
    assert.equal("f64", y.dtype)
    assert.equal(1 + 2.0 ^ -52, y:item())
    raises("nextafter: x is i64, need a float", flame.nextafter, I { 1 }, I { 2 })
  end)
  it("a transposed convolution without a result raises", function()
    raises("conv_transpose1d: axis 3 of x has 2 elements: the result would have 0",
      flame.conv_transpose1d, flame.ones(1, 1, 2),
      flame.ones(1, 1, 3), nil, { padding = 2 })
  end)
end)

describe("writes with random numbers", function()
  it("refuse parameters without a meaning and leave the target as it was", function()
    local x = flame.ones(3)
    raises("bernoulli_: p = 2, need 0 <= p <= 1", x.bernoulli_, x, 2)
    raises("exponential_: lambd = -1, need lambd > 0", x.exponential_, x, -1)
    raises("cauchy_: sigma = 0, need sigma > 0", x.cauchy_, x, 0, 0)
    raises("log_normal_: std = -1, need std > 0", x.log_normal_, x, 0, -1)
    near({ 1, 1, 1 }, x)
  end)
end)
