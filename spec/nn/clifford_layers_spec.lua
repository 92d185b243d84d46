-- Layers of flame.clifford: training, gradients, and messages for wrong arguments.

local flame = require "flame"
local nn, optim = require "flame.nn", require "flame.optim"
local clifford = require "flame.clifford"

local F64 = { dtype = "f64" }

local refused = require("spec.support.helper").raises
local function same(expected, actual, tol)
  assert.allclose(expected, actual, { rtol = tol or 1e-9, atol = tol or 1e-9 })
end

local versor = dofile "spec/support/versor.lua"

--- Trains the net for a few steps of Adam with an arbitrary loss, so that no parameter has its
--- initial value; biases get random values before.
local function trained(net, ...)
  local inputs = { ... }
  flame.no_grad(function()
    for name, p in net:named_parameters() do
      if name:find("bias") then p:copy_(flame.randn(p.shape, { dtype = p.dtype })) end
    end
  end)
  local opt, target = optim.Adam(net:parameters(), { lr = 0.05 }), nil
  for _ = 1, 5 do
    local y = net(table.unpack(inputs))
    target = target or flame.randn(y.shape, { dtype = y.dtype })
    opt:zero_grad()
    flame.mse_loss(y, target):backward()
    opt:step()
  end
  net:requires_grad_(false)
  return net
end

local function layers(A, n)
  return {
    Linear = { clifford.Linear(A, n, n + 1, F64), 1 },
    GeometricProduct = { clifford.GeometricProduct(A, n, F64), 2 },
    FullyConnectedProduct = { clifford.FullyConnectedProduct(A, n, n + 2, F64), 2 },
    GELU = { clifford.GELU(A), 1 },
    GradeNorm = { clifford.GradeNorm(A), 1 },
    Layer = { clifford.Layer(A, n, F64), 1 },
    ["Layer, fully connected"] = { clifford.Layer(A, n, { fully_connected = true, dtype = "f64" }),
      1 },
    ["Layer, not normalized"] = { clifford.Layer(A, n, { normalize = false, dtype = "f64" }), 1 },
  }
end

describe("trained layers", function()
  for _, squares in ipairs { { 1, 1 }, { 1, 1, 1 }, { 0, 1, 1, 1 }, { 1, -1 } } do
    local A = clifford.algebra(squares)
    local list = layers(A, 3)
    for name, entry in pairs(list) do
      it(("of %s commute with versors: %s"):format(tostring(A), name), function()
        flame.seed(5)
        local net, xs = entry[1], {}
        for i = 1, entry[2] do xs[i] = flame.randn(A.size, 4, 3, F64) end
        if net:count() > 0 then trained(net, table.unpack(xs)) end
        for _, many in ipairs { 1, 2, 3 } do            -- reflections, rotations, both
          local v, moved = versor(A, many), {}
          for i, x in ipairs(xs) do moved[i] = A:sandwich(v, x) end
          same(A:sandwich(v, net(table.unpack(xs))), net(table.unpack(moved)), 1e-6)
        end
      end)
    end
  end

  it("do not where the bias goes to all components", function()
    local A = clifford.algebra(3)
    local net = trained(clifford.Linear(A, 2, 2, { bias = "all", dtype = "f64" }),
      flame.randn(8, 4, 2, F64))
    local x, v = flame.randn(8, 4, 2, F64), versor(A, 2)
    assert.is_true((A:sandwich(v, net(x)) - net(A:sandwich(v, x))):abs():max():item() > 1e-3)
    same(net(x), clifford.algebra(3):linear(x, net.weight) + net.bias)
  end)
end)

describe("layers", function()
  local A = clifford.algebra(3)

  it("are what their functions are", function()
    local x, y = flame.randn(8, 4, 3), flame.randn(8, 4, 3)
    local linear = clifford.Linear(A, 3, 2)
    linear.bias:requires_grad_(false):fill_(2)
    local r = linear(x)
    for k = 1, 8 do
      same(x[k]:matmul(linear.weight[A.grades[k] + 1]) + (k == 1 and 2 or 0), r[k], 1e-5)
    end
    local p = clifford.GeometricProduct(A, 3)
    same(A:product(x, y, p.weight), p(x, y))
    for _, full in ipairs { false, true } do
      local layer = clifford.Layer(A, 3, { fully_connected = full })
      local b = A:gelu(layer.linear(x))
      local o = full and A:fully_connected(A:gelu(x), b, layer.product.weight)
        or A:product(A:gelu(x), b, layer.product.weight)
      same(A:grade_norm(o), layer(x), 1e-4)
      layer.normalize = false
      same(o, layer(x), 1e-5)
    end
  end)

  it("name their parameters, and take a state", function()
    local a, b = clifford.Layer(A, 4), clifford.Layer(A, 4)
    local names = {}
    for name, p in a:named_parameters() do
      names[#names + 1] = name .. " " .. table.concat(p.shape, "x")
    end
    assert.same({ "linear.weight 4x4x4", "linear.bias 4", "product.weight 20x4" }, names)
    assert.equal(3, #a:parameters())
    b:load_state_dict(a:state_dict())
    local x = flame.randn(8, 3, 4)
    same(a(x), b(x))
    assert.equal("f64", a:double()(x:double()).dtype)
    assert.same({ 20, 4, 4 }, clifford.Layer(A, 4, { fully_connected = true }).product.weight.shape)
    assert.is_nil(clifford.Layer(A, 4, { bias = false }).linear.bias)
    assert.truthy(tostring(a):find("(linear): Linear(Cl(3,0), in_features=4, out_features=4, bias=true)", 1, true))
    assert.truthy(tostring(nn.Sequential { clifford.GELU(A), clifford.GradeNorm(A) })
      :find("GradeNorm(Cl(3,0), eps=1e-06)", 1, true))
  end)

  it("start with the deviations that keep variances", function()
    flame.seed(1)
    local function deviation(module) return module.weight:std():item() end
    assert.close(1 / 8, deviation(clifford.Linear(A, 64, 64)), 0.005)
    assert.close(1 / 2, deviation(clifford.GeometricProduct(A, 256)), 0.03)
    assert.close(1 / math.sqrt(32 * 4), deviation(clifford.FullyConnectedProduct(A, 32, 32)), 0.005)
    assert.equal(0, clifford.Linear(A, 4, 4).bias:abs():sum():item())
  end)

  it("keep a zero input zero and finite", function()
    local layer = clifford.Layer(A, 4)
    assert.same(flame.zeros(8, 2, 4):totable(), layer(flame.zeros(8, 2, 4)):totable())
    assert.same(flame.zeros(8, 0, 4):totable(), layer(flame.zeros(8, 0, 4)):totable())
    local x = flame.zeros({ 8, 2, 4 }, { requires_grad = true })
    layer(x):sum():backward()
    assert.is_true(flame.isfinite(x.grad):all():item())
  end)

  it("run in half types and under autocast", function()
    local layer = clifford.Layer(A, 4)
    local x = flame.randn(8, 5, 4)
    local whole = layer(x)
    assert.allclose(whole, flame.autocast("bf16", function() return layer(x) end):float(),
      { rtol = 0.1, atol = 0.1 })
    layer:bfloat16()
    local half = layer(x:bfloat16())
    assert.equal("bf16", half.dtype)
    assert.allclose(whole, half:float(), { rtol = 0.1, atol = 0.1 })
    half:sum():backward()
    assert.equal("bf16", layer.product.weight.grad.dtype)
  end)

  it("learn a rotation-invariant: the volume that three vectors span", function()
    flame.seed(2)
    local v = flame.randn(3, 200, 3)
    local volume = flame.det(v:permute(2, 1, 3))
    local x = A:embed(v, 1)
    local net = nn.ModuleList { clifford.Linear(A, 3, 8), clifford.Linear(A, 3, 8),
      clifford.Linear(A, 3, 8), clifford.GeometricProduct(A, 8),
      clifford.FullyConnectedProduct(A, 8, 1) }
    local function run()
      return A:grade(net[5](net[4](net[1](x), net[2](x)), net[3](x)), 3):reshape(-1)
    end
    local opt, loss = optim.Adam(net:parameters(), { lr = 0.02 }), nil
    for _ = 1, 150 do
      loss = flame.mse_loss(run(), volume)
      opt:zero_grad()
      loss:backward()
      opt:step()
    end
    assert.is_true(loss:item() < 0.05 * volume:var():item(), loss:item())
  end)
end)

-- ---- gradients ----------------------------------------------------------------------------------

describe("gradients", function()
  for _, squares in ipairs { { 1, 1 }, { 1, 1, 1 }, { 0, 1, -1 } } do
    local A = clifford.algebra(squares)
    local function some(...) return flame.randn(A.size, ..., F64) end
    it(("are differences: products of %s"):format(tostring(A)), function()
      flame.seed(3)
      local x, y = some(2, 2), some(2, 2)
      assert.is_true(flame.gradcheck(function(a, b) return A:product(a, b) end, { x, y }))
      assert.is_true(flame.gradcheck(function(a, b) return A:product(a, b) end,
        { some(1), some(2, 2) }))
      assert.is_true(flame.gradcheck(function(a, b, w) return A:product(a, b, w) end,
        { x, y, flame.randn(#A.paths, 2, F64) }))
      assert.is_true(flame.gradcheck(function(a, b, w) return A:fully_connected(a, b, w) end,
        { some(2, 2), some(2, 2), flame.randn(#A.paths, 2, 1, F64) }))
      assert.is_true(flame.gradcheck(function(a) return A:product(a, a) end, { x }))
    end)
    it(("are differences: the rest of %s"):format(tostring(A)), function()
      flame.seed(4)
      local x = some(2, 2)
      for _, name in ipairs { "reverse", "involute", "norm", "gelu", "grade_norm" } do
        assert.is_true(flame.gradcheck(function(a) return A[name](A, a) end, { x }), name)
      end
      assert.is_true(flame.gradcheck(function(v, a) return A:sandwich(v, a) end,
        { versor(A, 2), x }))
      assert.is_true(flame.gradcheck(function(a)
        return A:project(a, 0, 2) + A:embed(A:grade(a, 1), 1)
      end, { x }))
      assert.is_true(flame.gradcheck(function(a, w, b) return A:linear(a, w, b) end,
        { x, flame.randn(#squares + 1, 2, 3, F64), flame.randn(3, F64) }))
      local layer = clifford.Layer(A, 2, F64)
      assert.is_true(flame.gradcheck(function(a) return layer(a) end, { x }))
    end)
  end

  it("have gradients", function()
    local A = clifford.algebra(2)
    flame.seed(6)
    local x, y, w = flame.randn(4, 2, F64), flame.randn(4, 2, F64), flame.randn(10, 2, F64)
    assert.is_true(flame.gradcheck(function(a, b, c) return A:product(a, b, c) end, { x, y, w },
      { order = 2 }))
    assert.is_true(flame.gradcheck(function(a, b, c) return A:fully_connected(a, b, c) end,
      { x, y, flame.randn(10, 2, 2, F64) }, { order = 2 }))
    local seed = flame.randn(4, 2, F64)
    local _, tangent = flame.jvp(function(a) return A:product(a, a) end, x, seed)
    same(A:product(x, seed) + A:product(seed, x), tangent)
  end)
end)

-- ---- mistakes -----------------------------------------------------------------------------------

describe("mistakes", function()
  local A = clifford.algebra(3)
  local x = flame.zeros(8, 4, 5)

  it("in multivectors name the function and both facts", function()
    refused("product: x has 7 components on axis 1, Cl(3,0) has 8", A.product, A,
      flame.zeros(7, 4, 5), x)
    refused("product: y has 1 component on axis 1, Cl(3,0) has 8", A.product, A, x, flame.zeros(1))
    refused("product: y must be a tensor, got number", A.product, A, x, 3)
    refused("product: x must be a tensor, got nothing", A.product, A)
    refused("product: x has 0 axes, need 1 to 7 (components, …, features)", A.product, A,
      flame.zeros {}, x)
    refused("product: x has 8 axes", A.product, A, flame.zeros(8, 1, 1, 1, 1, 1, 1, 1), x)
    refused("product: x is bool, need numbers", A.product, A, x:gt(0), x)
    refused(
      "product: x has shape (8, 4, 5) and y (8, 3, 5): their axes after the first do not go together",
      A.product, A, x,
      flame.zeros(8, 3, 5))
    refused("inverse: v has 2 components on axis 1", A.inverse, A, flame.zeros(2, 3))
    for _, name in ipairs { "reverse", "involute", "norm", "gelu", "grade_norm" } do
      refused(name .. ": x has 2 components on axis 1", function()
        A[name](A, flame.zeros(2, 3))
      end)
    end
    refused("sandwich: v has 4 components", A.sandwich, A, flame.zeros(4, 1), x)
    refused("grade_norm: x has shape (8), need (components, …, features)", A.grade_norm, A,
      flame.zeros(8))
    refused("grade_norm: eps must be a number, got string", A.grade_norm, A, x, "small")
  end)

  it("in grades name those there are", function()
    refused("grade: there is no grade 4 in Cl(3,0), grades are 0 to 3", A.grade, A, x, 4)
    refused("grade: grade must be an integer, got nothing", A.grade, A, x)
    refused("project: need the grades that stay", A.project, A, x)
    refused("project: there is no grade -1", A.project, A, x, 1, -1)
    refused("embed: v has shape (4, 5), grade 1 of Cl(3,0) has 3 components on axis 1", A.embed, A,
      flame.zeros(4, 5), 1)
    refused("embed: v has shape (), grade 0 of Cl(3,0) has 1 component on axis 1", A.embed, A,
      flame.zeros {}, 0)
    refused("embed: v must be a tensor, got table", A.embed, A, { 1, 2, 3 }, 1)
  end)

  it("in weights name the shape that is needed", function()
    refused("product: weight has shape (5, 20), need (20, 5): a number for each path and feature",
      A.product, A, x, x, flame.zeros(5, 20))
    refused("product: weight is i64, need a float", A.product, A, x, x,
      flame.zeros({ 20, 5 }, { dtype = "i64" }))
    refused("product: weight must be a tensor, got number", A.product, A, x, x, 2)
    refused("product: x and y have no axis of features, which a weight needs", A.product, A,
      flame.zeros(8), flame.zeros(8),
      flame.zeros(20, 1))
    refused("fully_connected: weight has shape (20, 5), need (20, 5, any): a matrix for each path",
      A.fully_connected, A, x, x,
      flame.zeros(20, 5))
    refused("fully_connected: x has shape (8, 4, 5) and y (8, 1, 5), need the same",
      A.fully_connected, A, x, flame.zeros(8, 1, 5),
      flame.zeros(20, 5, 2))
    refused("linear: weight has shape (8, 5, 2), need (4, 5, any): a matrix for each grade",
      A.linear, A, x, flame.zeros(8, 5, 2))
    refused("linear: bias has shape (3), need (2): a number for each feature of the result",
      A.linear, A, x, flame.zeros(4, 5, 2),
      flame.zeros(3))
    refused("linear: bias_all must be true or false, got number", A.linear, A, x,
      flame.zeros(4, 5, 2), flame.zeros(2), 1)
    refused("linear: x has shape (8)", A.linear, A, flame.zeros(8), flame.zeros(4, 5, 2))
  end)

  it("in constructors name the module", function()
    refused("Linear: algebra must be an Algebra, got number", clifford.Linear, 3, 4, 4)
    refused("Linear: inputs is 0, need a positive integer", clifford.Linear, A, 0, 4)
    refused("Linear: outputs must be an integer, got nothing", clifford.Linear, A, 4)
    refused('Linear: bias must be true or false, "all" or "scalar", got string',
      clifford.Linear, A, 4, 4,
      { bias = "some" })
    refused("Linear: no option 'bais'", clifford.Linear, A, 4, 4, { bais = true })
    refused("GeometricProduct: features must be an integer, got number 2.5",
      clifford.GeometricProduct, A, 2.5)
    refused("FullyConnectedProduct: outputs must be an integer, got nothing",
      clifford.FullyConnectedProduct, A, 2)
    refused("GELU: algebra must be an Algebra, got nothing", clifford.GELU)
    refused("GradeNorm: no option 'epsilon'", clifford.GradeNorm, A, { epsilon = 1 })
    refused("Layer: no option 'normalise'", clifford.Layer, A, 4, { normalise = true })
    refused("Layer: 2 arguments at most, got 3", clifford.Layer, A, 4, true)
    refused("Layer: fully_connected must be true or false, got string", clifford.Layer, A, 4,
      { fully_connected = "yes" })
    refused("linear: weight has shape (4, 4, 4), need (4, 5, any)", clifford.Layer(A, 4), x)
  end)
end)
