--- lua/flame/ops/aliases.lua and nn/lazy.lua: functions of PyTorch that few scripts use. Expected
-- values come from PyTorch or from an independent formula.
local helper = require "spec.support.helper"
local raises = helper.raises
local flame = require "flame"
local nn = require "flame.nn"
local T, special = flame.tensor, flame.special
local function eq(expected, x, o) assert.allclose(expected, x, o) end
local function D(v) return T(v, { dtype = "f64" }) end

describe("Bessel functions", function()
  --- The integral of f from a to b by Simpson's rule with n intervals.
  local function integral(f, a, b, n)
    local h, s = (b - a) / n, f(a) + f(b)
    for k = 1, n - 1 do s = s + f(a + k * h) * (k % 2 == 1 and 4 or 2) end
    return s * h / 3
  end
  it("J and K are their integrals", function()
    for _, x in ipairs { 0.3, 2, 2.1, 6.5, 14, 24.9, 25.1, 60 } do
      for n = 0, 1 do
        local j = integral(function(t) return math.cos(n * t - x * math.sin(t)) end, 0, math.pi,
          4000) / math.pi
        eq(j, special["bessel_j" .. n](D(x)), { atol = 1e-13, rtol = 1e-12 })
        local k = integral(function(t) return math.exp(-x * (math.exp(t) + math.exp(-t)) / 2 + x)
          * (math.exp(n * t) + math.exp(-n * t)) / 2 end, 0, 8, 8000)
        eq(k, special["scaled_modified_bessel_k" .. n](D(x)), { rtol = 1e-11 })
        eq(k * math.exp(-x), special["modified_bessel_k" .. n](D(x)), { rtol = 1e-11, atol = 0 })
      end
    end
  end)
  it("J, Y and their slopes have Wronski's determinant", function()
    local x = flame.linspace(0.2, 60, 97, { dtype = "f64" })
    local w = special.bessel_j1(x) * special.bessel_y0(x)
      - special.bessel_j0(x) * special.bessel_y1(x)
    eq((x * math.pi):reciprocal() * 2, w, { rtol = 1e-11 })
  end)
  it("have their limits, signs and derivatives", function()
    eq({ 1, 0, 0 }, special.bessel_j0(T { 0, math.huge, -math.huge }))
    eq({ 0, -0.5767248 }, special.bessel_j1(T { 0, -2 }))
    eq({ -math.huge, 0 / 0 }, special.bessel_y0(T { 0, -1 }))
    eq({ math.huge, 0, 0 / 0 }, special.modified_bessel_k1(T { 0, math.huge, -1 }))
    eq({ math.huge, 1.1444631 }, special.scaled_modified_bessel_k0(T { 0, 1 }))
    eq({ math.huge, 1.6361535 }, special.scaled_modified_bessel_k1(T { 0, 1 }))
    eq({ 0.355028053887817239, 1.3529241631288141e-1, 1.1047532552898687e-10, 1.0834442813607441e-4,
      0.35076100902411431, 0.04024123848644319, 0, 0 / 0, 0 / 0 },
    special.airy_ai(D { 0, 1, 10, 5, -5, -10, 200, math.huge, -math.huge }),
      { rtol = 1e-12, atol = 0 })
    local wide = flame.linspace(-14, 14, 113, { dtype = "f64" }):clone():requires_grad_()
    local first = special.airy_ai(wide):sum():gradients({ wide }, { create_graph = true })[wide]
    local bend = first:sum():gradients({ wide })[wide]
    -- Ai'' = x Ai
    assert.close(0, (bend - wide * special.airy_ai(wide)):detach():abs():amax():item(), 1e-10)
    eq({ 1, 0.8414710, 0 }, special.spherical_bessel_j0(T { 0, 1, math.huge }))
    for name, slope in pairs { bessel_j0 = "bessel_j1", bessel_y0 = "bessel_y1",
        modified_bessel_k0 = "modified_bessel_k1" } do
      local x = T({ 0.5, 3, 30 }, { dtype = "f64", requires_grad = true })
      eq(-special[slope](x:detach()), special[name](x):sum():gradients({ x })[x], { rtol = 1e-11 })
    end
    assert.equal("f16", special.bessel_j0(T({ 1 }, { dtype = "f16" })).dtype)
  end)
end)

describe("fractional_max_pool", function()
  it("takes windows at the places that the draw moves", function()
    local x = flame.arange(25.0):reshape(1, 1, 5, 5)
    local u = T { { { 0.3, 0.5 } } }                             -- columns, rows
    local y, at = flame.fractional_max_pool2d(x, 2,
      { output_size = 3, return_indices = true, _random_samples = u })
    eq({ { { { 7, 8, 10 }, { 17, 18, 20 }, { 22, 23, 25 } } } }, y)
    eq(y, at:float())
    eq({ 1, 2, 2, 2 },
      flame.fractional_max_pool2d(flame.rand(1, 2, 5, 5), 2, { output_ratio = 0.5 }).shape)
    eq({ 1, 1, 3, 3 }, nn.FractionalMaxPool2d(2, 3)(x).shape)
    eq({ 1, 1, 2, 2, 2 }, flame.fractional_max_pool3d(flame.rand(1, 1, 4, 4, 4), 2, 2).shape)
    eq({ 2, 2, 3, 2 },
      nn.FractionalMaxPool3d(2, { output_size = { 2, 3, 2 } })(flame.rand(2, 4, 5, 4)).shape)
    raises("5 windows of 2 do not fit 5 elements", flame.fractional_max_pool2d, x, 2, 5)
    raises("output_size or output_ratio is missing", flame.fractional_max_pool2d, x, 2)
  end)
  it("sends the gradient to the largest", function()
    local x = flame.rand({ 1, 1, 6, 6 }, { requires_grad = true })
    local y = flame.fractional_max_pool2d(x, 2, 3)
    eq(9, y:sum():gradients({ x })[x]:sum())
  end)
end)

describe("histograms and segments", function()
  it("histogramdd counts points", function()
    local x = T { { 0, 1 }, { 1, 0 }, { 2, 0 }, { 2, 2 }, { 0 / 0, 1 }, { 3, 1 } }
    local y, edges = flame.histogramdd(x, { 3, 2 },
      { weight = T { 1, 2, 4, 8, 16, 32 }, range = { 0, 2, 0, 2 } })
    assert.same({ { 0, 1 }, { 2, 0 }, { 4, 8 } }, y:totable())
    eq({ 0, 1, 2 }, edges[2])
    assert.equal(4, #edges[1])
    local diagonal = T { { 0, 0 }, { 1, 1 }, { 2, 2 } }
    eq({ { 2, 0 }, { 0, 2 } },
      (flame.histogramdd(diagonal, 2, { range = { 0, 1, 0, 1 }, density = true })))
    eq({ { 0, 1 }, { 2, 2 } }, (flame.histogramdd(x, { T { 0, 1, 3 }, T { 0, 1, 2 } })))
    raises("histogramdd: x has shape (6, 2), need points", flame.histogramdd, x, { 3 })
    raises("histogramdd: bins = 0, need at least 1", flame.histogramdd, x, 0)
    raises("histogramdd: weight has shape (5), need (6)", flame.histogramdd, x, 2,
      { weight = flame.ones(5) })
    raises("histogramdd: range[4] must be a number, got string", flame.histogramdd, x, 2,
      { range = { 0, 1, 0, "1" } })
    raises("histogram: weight has shape (2, 6), need (6, 2)", flame.histogram, x, 2,
      { weight = flame.ones(2, 6) })
    raises("histogram: range has 1 bounds, need 2", flame.histogram, x, 2, { range = { 0 } })
  end)
  it("count, weigh and share out", function()
    local x = T { 1, 2, 2, 4, 4.5, 0 / 0 }
    local y, edges = flame.histogram(x, 2, { range = { 1, 4 } })
    eq({ { 3, 1 }, { 1, 2.5, 4 } }, { y:totable(), edges:totable() })
    eq({ 6, 9 },
      (flame.histogram(T { 1, 2, 2, 4, 4.5 }, T { 1, 2.5, 5 }, { weight = T { 2, 2, 2, 4, 5 } })))
    eq({ 0.5, 0.5 }, (flame.histogram(T { 0, 0.5, 1.5, 2 }, 2, { density = true })))
    raises("bins = 0, need at least 1", flame.histogram, x, 0)
  end)
  it("reduce runs of rows", function()
    local n = T({ 2, 0, 1 }, { dtype = "i64" })
    local x = T({ { 1, 2 }, { 3, 4 }, { 5, 6 } })
    eq({ { 4, 6 }, { 0, 0 }, { 5, 6 } }, flame.segment_reduce(x, "sum", { lengths = n }))
    eq({ { 3, 4 }, { -1, -1 }, { 5, 6 } },
      flame.segment_reduce(x, "max", { lengths = n, initial = -1 }))
    eq({ { 3, 4 }, { 2, 2 }, { 7, 8 } },
      flame.segment_reduce(x, "mean", { lengths = n, initial = 2 }))
    eq({ { 4, 6 }, { 0, 0 }, { 5, 6 } },
      flame.segment_reduce(x, "sum", { offsets = T({ 1, 3, 3, 4 }, { dtype = "i64" }) }))
    raises("lengths add up to 3, x has 2 rows", flame.segment_reduce, flame.zeros(2), "sum",
      { lengths = n })
  end)
end)

describe("other forms", function()
  it("of shapes, dtypes and products", function()
    assert.same({ 2, 5, 3 }, flame.broadcast_shapes({ 5, 1 }, { 3 }, { 2, 1, 1 }))
    raises("broadcast_shapes: sizes 3 and 2 do not broadcast", flame.broadcast_shapes, { 3 }, { 2 })
    raises("broadcast_shapes: need numbers or a list of them, got a table with names",
      flame.broadcast_shapes, { 3 }, { dim = 1 })
    raises("broadcast_shapes: size must be an integer, got string", flame.broadcast_shapes,
      { 3 }, { "3" })
    raises("broadcast_shapes: size -1 is negative", flame.broadcast_shapes, 3, -1)
    raises("broadcast_shapes: size must be an integer, got nil", flame.broadcast_shapes, 3, nil, 4)
    assert.same({ "f32", "i32" },
      { flame.promote_types("f16", "bf16"), flame.promote_types("i32", "bool") })
    local a, b, c = flame.randn(2, 3), flame.randn(3, 4), flame.randn(4, 2)
    eq(a:mm(b):mm(c), flame.chain_matmul(a, b, c), { rtol = 1e-4 })
    eq(a:t(), a:adjoint())
    eq({ { 0, 7, 0 } }, T({ { 7 } }):constant_pad_nd({ 1, 1 }))
    local at = flame.unravel_index(T({ 1, 6, 12 }, { dtype = "i64" }), { 3, 4 })
    assert.same({ { 1, 2, 3 }, { 1, 2, 4 } }, { at[1]:totable(), at[2]:totable() })
    eq({ { { 1, 1, 2, 2 } } }, flame.upsample_nearest(T { { { 1, 2 } } }, 4))
    eq({ { { { 1, 1.5, 2 } } } },
      flame.upsample_bilinear(T { { { { 1, 2 } } } }, { size = { 1, 3 } }))
  end)
  it("of tensors and what they are", function()
    local x = flame.randn(2, 3)
    eq(x, flame.as_tensor(x))
    assert.equal("i64", flame.as_tensor({ 1, 2 }, { dtype = "i64" }).dtype)
    eq(3, flame.scalar_tensor(3))
    assert.same({ true, false }, { flame.is_nonzero(T(2)), flame.is_nonzero(T(false)) })
    assert.same({ true, false, false },
      { x:is_signed(), x:byte():is_signed(), x:bool():is_signed() })
    assert.same({ 8, 2, 1 },
      { x:double():element_size(), x:half():element_size(), x:bool():element_size() })
    assert.is_true(x:isreal():all():item())
    eq(x:narrow(2, 2, 2), x:narrow_copy(2, 2, 2))
    eq(x:split({ 1, 2 }, 2)[2], x:split_with_sizes({ 1, 2 }, 2)[2])
    flame.manual_seed(5)
    local a = flame.rand(3)
    flame.manual_seed(5)
    eq(a, flame.rand(3))
    eq(flame.interpolate(x:reshape(1, 2, 3), { size = 6 }), flame.upsample(x:reshape(1, 2, 3), 6))
  end)
  it("of LU in three parts", function()
    local a = flame.randn(2, 4, 3):double()
    local p, l, u = flame.lu_unpack(flame.linalg.lu_factor(a))
    eq(a, p:matmul(l):matmul(u), { rtol = 1e-9 })
  end)
  it("of dropout keep channels together", function()
    flame.seed(1)
    local y = flame.dropout2d(flame.ones(2, 6, 3, 3))
    eq(y:amax({ 3, 4 }), y:amin({ 3, 4 }))
    assert.is_true(y:amin():item() == 0 and y:amax():item() == 2)
    -- without a batch: channels come first
    local z = flame.dropout3d(flame.ones(8, 2, 2, 2))
    eq(z:amax({ 2, 3, 4 }), z:amin({ 2, 3, 4 }))
    local w = flame.dropout1d(flame.ones(2, 6, 3))
    eq(w:amax(3), w:amin(3))
    local v = flame.feature_alpha_dropout(flame.ones(2, 6, 3), 0.5, true)
    eq(v:amax(3), v:amin(3))
    eq(flame.ones(3), flame.alpha_dropout(flame.ones(3), 0.9))
    local x = flame.randn(20000):alpha_dropout(0.3, true)
    assert.close(0, x:mean():item(), 0.05)
    assert.close(1, x:std():item(), 0.05)
  end)
  it("of random writes have their medians", function()
    flame.seed(3)
    assert.close(2, flame.zeros(20001):cauchy_(2, 0.5):median():item(), 0.05)
    assert.close(math.exp(1), flame.zeros(20001):log_normal_(1, 0.5):median():item(), 0.1)
    assert.close(4, flame.zeros(20001):geometric_(0.25):mean():item(), 0.15)
    raises("geometric_: p = 1, need 0 < p < 1", flame.zeros(2).geometric_, flame.zeros(2), 1)
  end)
end)

describe("lazy layers", function()
  it("take the size of their input from the first", function()
    local net = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(),
      nn.LazyLinear(5, { bias = false }))
    assert.equal(0, #net:parameters())
    assert.same({ 2, 5 }, net(flame.randn(2, 3, 6, 6)).shape)
    assert.same({ 4, 3, 3, 3 }, net[1].weight.shape)
    assert.same({ 5, 64 }, net[5].weight.shape)
    assert.equal(5, #net:parameters())
    assert.is_nil(net[5].bias)
    assert.same({ 7, 5 }, net(flame.randn(7, 3, 6, 6)).shape)
    local shapes = { { 2, 3, 6 }, { 2, 3, 6, 6 }, { 2, 3, 6, 6, 6 } }
    local made = {
      { nn.LazyConv1d, nn.LazyConvTranspose1d, nn.LazyBatchNorm1d, nn.LazyInstanceNorm1d },
      { nn.LazyConv2d, nn.LazyConvTranspose2d, nn.LazyBatchNorm2d, nn.LazyInstanceNorm2d },
      { nn.LazyConv3d, nn.LazyConvTranspose3d, nn.LazyBatchNorm3d, nn.LazyInstanceNorm3d } }
    for n = 1, 3 do
      local x = flame.randn(shapes[n])
      assert.equal(4, made[n][1](4, 3)(x).shape[2])
      local up = made[n][2](4, 3)
      assert.equal(8, up(x).shape[3])
      assert.same({ 3, 4 }, { up.weight.shape[1], up.weight.shape[2] })
      local norm = made[n][3]()
      assert.same(x.shape, norm(x).shape)
      assert.same({ 3 }, norm.weight.shape)
      assert.same(x.shape, made[n][4]()(x).shape)
    end
    local odd = nn.LazyLinear(0)
    assert.is_false(pcall(odd, flame.zeros(2, 3)))
    assert.equal(0, #odd:parameters())
  end)
end)

describe("weights made of others", function()
  it("weight_norm: length and direction, trained apart", function()
    local layer = nn.Linear(3, 2)
    local x, w = flame.randn(4, 3), layer.weight:detach():clone()
    local y = layer(x):detach()
    nn.utils.weight_norm(layer)
    eq(y, layer(x), { atol = 1e-6 })
    local names = {}
    for name in layer:named_parameters() do names[#names + 1] = name end
    table.sort(names)
    assert.same({ "bias", "weight_g", "weight_v" }, names)
    flame.no_grad(function() layer.weight_g:mul_(2) end)
    local z = layer(x)
    eq(w * 2, layer.weight, { atol = 1e-6 })
    z:sum():backward()
    assert.same({ 2, 1 }, layer.weight_g.grad.shape)
    nn.utils.remove_weight_norm(layer)
    eq(w * 2, layer.weight, { atol = 1e-6 })
    assert.equal(2, #layer:parameters())
    raises("'weight' is not made of others", nn.utils.remove_weight_norm, layer)
  end)
  it("name what they can not be put on once", function()
    for _, f in ipairs { nn.utils.weight_norm, nn.utils.spectral_norm } do
      assert.matches("^[%w_/.]*:?%d*:? ?%a+_norm: the module has no parameter 'weight'$",
        helper.message(f, nn.ReLU()))
    end
  end)
  it("spectral_norm: the largest singular value becomes 1", function()
    local layer = nn.utils.spectral_norm(nn.Linear(6, 4), "weight", 30)
    for _ = 1, 5 do layer(flame.zeros(1, 6)) end
    assert.close(1, flame.linalg.svdvals(layer.weight:detach())[1]:item(), 1e-3)
    assert.is_true(layer.weight.requires_grad)
    layer:eval()
    local u = layer.weight_u:clone()
    layer(flame.zeros(1, 6))
    eq(u, layer.weight_u)
    local w = layer.weight:detach():clone()
    nn.utils.remove_spectral_norm(layer)
    eq(w, layer.weight, { atol = 1e-6 })
    assert.equal(2, #layer:parameters())
  end)
  it("spectral_norm: keeps both vectors, which only a forward in training moves", function()
    local layer = nn.utils.spectral_norm(nn.Linear(3, 2))
    layer(flame.zeros(1, 3))
    local state, seen = layer:state_dict(), layer.weight:detach():clone()
    local left, right = state.weight_u, state.weight_v
    assert.same({ 3 }, right.shape)
    flame.no_grad(function()
      layer.weight_orig:copy_(flame.tensor { { 1, -2, 0 }, { 3, 1, 2 } })
    end)
    layer:eval()(flame.zeros(1, 3))
    eq(layer.weight_orig / left:dot(layer.weight_orig:mv(right)), layer.weight, { atol = 1e-6 })
    layer:load_state_dict(state)
    layer:train()
    nn.utils.remove_spectral_norm(layer)
    eq(seen, layer.weight, { atol = 1e-6 })
    assert.is_nil(layer:state_dict().weight_v)
  end)
end)

describe("orthogonal polynomials", function()
  local x = flame.linspace(-1.5, 1.5, 13, { dtype = "f64" })
  local closed = {
    chebyshev_polynomial_t = function(v) return v * (v * v * 4 - 3) end,
    chebyshev_polynomial_u = function(v) return v * (v * v * 8 - 4) end,
    chebyshev_polynomial_v = function(v) return v ^ 3 * 8 - v ^ 2 * 4 - v * 4 + 1 end,
    chebyshev_polynomial_w = function(v) return v ^ 3 * 8 + v ^ 2 * 4 - v * 4 - 1 end,
    hermite_polynomial_h = function(v) return v ^ 3 * 8 - v * 12 end,
    hermite_polynomial_he = function(v) return v ^ 3 - v * 3 end,
    laguerre_polynomial_l = function(v) return (v * 18 - v ^ 2 * 9 + v ^ 3) * (-1 / 6) + 1 end,
    legendre_polynomial_p = function(v) return (v ^ 3 * 5 - v * 3) * 0.5 end,
  }
  it("of degree 3 are these", function()
    for name, f in pairs(closed) do
      eq(f(x), special[name](x, 3), { rtol = 1e-12, atol = 1e-12 })
    end
    for name, of in pairs {
      shifted_chebyshev_polynomial_t = "chebyshev_polynomial_t",
      shifted_chebyshev_polynomial_u = "chebyshev_polynomial_u",
      shifted_chebyshev_polynomial_v = "chebyshev_polynomial_v",
      shifted_chebyshev_polynomial_w = "chebyshev_polynomial_w",
    } do eq(closed[of](x * 2 - 1), special[name](x, 3), { rtol = 1e-12, atol = 1e-12 }) end
  end)
  it("take a tensor of degrees, numbers on either side, and are 0 for a negative degree", function()
    local n = T({ -1, 0, 1, 2, 3 }, { dtype = "i64" })
    eq(T({ 0, 1, 0.5, -0.5, -1 }), special.chebyshev_polynomial_t(0.5, n))
    eq(T({ 0, 1, 0.5, -0.5, -1 }), special.chebyshev_polynomial_t(T { 0.5, 0.5, 0.5, 0.5, 0.5 }, n))
    eq(T({ 0, 0 }), special.legendre_polynomial_p(T { 1, 2 }, -2))
    assert.equal("f32", special.legendre_polynomial_p(T({ true }), T({ true })).dtype)
    assert.same({ 0 }, special.legendre_polynomial_p(flame.zeros(0), flame.zeros(0)).shape)
    raises("legendre_polynomial_p: n must be a tensor or a number, got string",
      special.legendre_polynomial_p, x, "3")
  end)
  it("have degrees up to 10000; higher ones and NaN are refused, also among a tensor's", function()
    local v = T({ -1, -0.5, 0.3, 1, 0 / 0 }, { dtype = "f64" })
    eq((v:acos() * 10000):cos(), special.chebyshev_polynomial_t(v, 10000), { rtol = 1e-9 })
    eq(T({ 0, 1, 0.3 }, { dtype = "f64" }),
      special.legendre_polynomial_p(T({ 0.3 }, { dtype = "f64" }), T { -math.huge, -0.5, 1.9 }))
    for name in pairs(closed) do
      for _, n in ipairs { 10001, 1e300, math.huge, 0 / 0, 1 << 62, math.maxinteger } do
        raises(name .. ": n = ", special[name], v, n)
        raises(name .. ": n = ", special[name], v, T({ 1, n }, { dtype = "f64" }):reshape(2, 1))
      end
    end
    raises("hermite_polynomial_h: n = nan, need a number up to 10000", special.hermite_polynomial_h,
      v, 0 / 0)
  end)
end)

describe("draws from distributions", function()
  local function moments(y) return y:mean():item(), y:var():item() end
  it("poisson has its mean as its variance, for small and large ones", function()
    flame.seed(5)
    for _, rate in ipairs { 0, 0.5, 9, 11, 300 } do
      local y = flame.poisson(flame.full({ 40000 }, rate))
      local mean, var = moments(y)
      assert.close(rate, mean, 5 * math.sqrt(rate / 40000))
      assert.close(rate, var, 0.05 * rate)
      eq(y:floor(), y)
    end
    assert.equal("f16", flame.poisson(flame.ones(2, { dtype = "f16" })).dtype)
    assert.same({ 0 }, flame.poisson(flame.zeros(0)).shape)
    raises("poisson: x has a value that is negative, infinite or NaN", flame.poisson, T { 1, -1 })
    raises("poisson: x is i64, need a float", flame.poisson, T({ 1 }, { dtype = "i64" }))
  end)
  it("binomial has the mean n p and the variance n p (1 - p)", function()
    flame.seed(6)
    for _, case in ipairs { { 8, 0.3 }, { 20, 0.9 }, { 100, 0.5 }, { 1000, 0.02 },
        { 5, 0 }, { 5, 1 } } do
      local n, p = case[1], case[2]
      local y = flame.binomial(flame.full({ 40000 }, n), T(p))
      local mean, var = moments(y)
      assert.close(n * p, mean, 5 * math.sqrt(n * p * (1 - p) / 40000) + 1e-5)
      assert.close(n * p * (1 - p), var, 0.05 * n * p * (1 - p))
      assert.is_true(y:ge(0):logical_and(y:le(n)):all():item())
    end
    assert.same({ 2, 3 }, flame.binomial(flame.ones(2, 1), flame.ones(3)).shape)
    raises("binomial: p has a value that is no probability", flame.binomial, T { 1 }, T { 1.5 })
  end)
  it("normal takes tensors of means and deviations, or numbers and a shape", function()
    local y = flame.normal(T { 0, 100, 200 }, T { 0, 0, 0 })
    eq(T { 0, 100, 200 }, y)
    eq(T { { 5, 5 } }, flame.normal(5, 0, { 1, 2 }))
    assert.same({ 2, 3 }, flame.normal(flame.zeros(2, 1), flame.ones(3)).shape)
    assert.equal("f64", flame.normal(flame.zeros(2), 1, { dtype = "f64" }).dtype)
    raises("normal: std = -1 is negative", flame.normal, flame.zeros(2), -1)
    raises("normal: mean is i64, need a float", flame.normal, T({ 1 }, { dtype = "i64" }), 1)
  end)
end)

describe("products with second derivatives", function()
  it("hvp and vhp give f(x) and H v", function()
    local x, v = D { 1, 2, 3 }, D { 1, 0, 2 }
    for _, name in ipairs { "hvp", "vhp" } do
      local y, h = flame[name](function(a) return (a ^ 3):sum() end, x, v)
      assert.equal(36, y:item())
      eq(D { 6, 0, 36 }, h)
    end
    local _, h = flame.hvp(function(a, b) return (a * b * b):sum() end, { x, x })
    eq(x * 2, h[1])
    eq(x * 4, h[2])
    local _, none = flame.hvp(function(a) return a:sum() end, x)
    eq(D { 0, 0, 0 }, none)
    raises("hvp: v has shape (2), x has (3)", flame.hvp, function(a) return a:sum() end,
      x, D { 1, 2 })
  end)
end)

describe("dtypes of results", function()
  it("as_strided counts x's elements row by row", function()
    local x = flame.arange(9.0):reshape(3, 3)
    assert.same({ { 1, 3 }, { 2, 4 } }, x:as_strided({ 2, 2 }, { 1, 2 }):totable())
    assert.same({ { 2, 4 }, { 3, 5 } },
      x:as_strided({ 2, 2 }, { 1, 2 }, { storage_offset = 1 }):totable())
    assert.same({ { 1, 1 }, { 4, 4 } }, x:as_strided({ 2, 2 }, { 3, 0 }):totable())
    assert.same({ 1, 4, 7 }, x:t():as_strided({ 3 }, { 1 }):totable())
    assert.same({ 0, 3 }, x:as_strided({ 0, 3 }, { 1, 1 }).shape)
    assert.equal(3, x:as_strided({}, {}, 2):item())
    assert.same({ { 0, 0, 0 }, { 0, 5, 6 }, { 7, 8, 9 } },
      x:as_strided_scatter(flame.zeros(2, 2), { 2, 2 }, { 1, 2 }):totable())
    local function windows(a) return a:as_strided({ 2, 3 }, { 1, 1 }):square() end
    assert.is_true(flame.gradcheck(windows, { flame.randn({ 4 }, { dtype = "f64" }) },
      { order = 2 }))
    raises("positions 1 to 19, x has 9 elements", x.as_strided, x, { 4, 4 }, { 3, 3 })
    raises("positions 0 to 1", x.as_strided, x, { 2 }, { 1 }, -1)
    raises("a size or stride is negative", x.as_strided, x, { 2 }, { -1 })
    raises("lists of the same length", x.as_strided, x, { 2 }, { 1, 2 })
    raises("src has shape (3), the region (2, 2)", x.as_strided_scatter, x, flame.zeros(3),
      { 2, 2 }, { 1, 2 })
  end)
  it("asarray and can_cast", function()
    assert.same({ 1, 2 }, flame.asarray({ 1, 2 }):totable())
    assert.same({ false, true, false, true, true },
      { flame.can_cast("f64", "i32"), flame.can_cast("i64", "f16"),
      flame.can_cast("i8", "bool"), flame.can_cast("f64", "f16"), flame.can_cast("bool", "u8") })
    raises("can_cast: from must be a dtype (f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool), got string 'x'",
      flame.can_cast, "x", "f32")
  end)
  it("result_type, is_complex and angle", function()
    assert.equal("f32", flame.result_type(T({ 1 }, { dtype = "i64" }), 1.5))
    raises("result_type: x or y must be a tensor, both are numbers", flame.result_type, 1, 2)
    assert.equal("i64", flame.result_type(T({ 1 }, { dtype = "i64" }), T({ 1 }, { dtype = "u8" })))
    assert.is_false(flame.is_complex(flame.zeros(2)))
    eq(T { math.pi, 0, 0 }, flame.angle(T { -1, 0, 2 }))
    assert.equal("f32", flame.angle(T({ -1 }, { dtype = "i64" })).dtype)
    assert.equal(math.pi, flame.tensor(-2, { dtype = "f64" }):angle():item())
  end)
end)

describe("methods of PyTorch's tensors", function()
  it("is_same_size, type, is_cpu and is_cuda", function()
    local x = flame.ones(2, 3)
    assert.is_true(x:is_same_size(flame.zeros(2, 3)))
    assert.is_false(x:is_same_size(flame.zeros(3, 2)))
    assert.equal("f32", x:type())
    assert.equal("f64", x:type("f64").dtype)
    assert.is_true(x:cpu().is_cpu)
    assert.is_false(x:cpu().is_cuda)
    assert.equal(x.device ~= "cpu", x.is_cuda)
    raises("field 'is_cuda' can not be assigned", function() x.is_cuda = true end)
  end)
  it("apply_ calls a function of a number for each element", function()
    local x = T { { 1, 2 }, { 3, 4 } }
    assert.equal(x, x:apply_(function(v) return v * v end))
    eq(T { { 1, 4 }, { 9, 16 } }, x)
    local i = T({ 1, 2 }, { dtype = "i64" })
    raises("is not an integer", i.apply_, i, function(v) return v / 2 end)
    eq(T({ 1, 2 }, { dtype = "i64" }), i)
    raises("apply_: f must be a function, got number", x.apply_, x, 3)
  end)
  it("lu, lu_solve and orgqr stand among them, igamma_ and igammac_ too", function()
    local a, b = D { { 4, 1 }, { 2, 3 } }, D { { 1 }, { 2 } }
    local lu, pivots = a:lu()
    eq(lu, (flame.linalg.lu_factor(a)))
    local p, l, u = flame.lu_unpack(lu, pivots)
    eq(a, p:matmul(l):matmul(u), { rtol = 1e-12 })
    eq(flame.linalg.solve(a, b), b:lu_solve(lu, pivots), { rtol = 1e-12 })
    local _, _, infos = flame.lu(flame.stack { a, D { { 1, 2 }, { 2, 4 } } }, true, true)
    assert.same({ 0, 2 }, infos:totable())
    assert.equal("i32", infos.dtype)
    eq(infos, select(3, flame.linalg.lu_factor_ex(flame.stack { a, D { { 1, 2 }, { 2, 4 } } })))
    raises("lu: pivot = false is not supported", flame.lu, a, false)
    eq(flame.orgqr(D { { 1 }, { 2 } }, D { 0.3 }), D({ { 1 }, { 2 } }):orgqr(D { 0.3 }))
    eq(flame.igamma(T { 2 }, T { 1 }), T({ 2 }):igamma_(T { 1 }))
    eq(flame.igammac(T { 2 }, T { 1 }), T({ 2 }):igammac_(T { 1 }))
  end)
end)
