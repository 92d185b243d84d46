--- Kernels as fields of modules: calls as methods, copies and moves of the modules, on the default
--- device.
local flame = require "flame"
local nn = require "flame.nn"
local helper = require "spec.support.helper"
local message = helper.message

local scale <const> = [[
  __global__ void scale(const float *x, const float *weight, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * weight[i];
  }]]
local affine <const> = [[
  __global__ void affine(const float *x, float a, float b, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * a + b;
  }]]

--- A module with a field k, and a parameter 'weight' of 2, 3, 4.
local function module_of(k)
  local Net = nn.Module.extend("Net")
  function Net:init()
    self.weight = nn.Parameter(flame.tensor { 2, 3, 4 })
    self.k = k
  end
  function Net:forward(x) return self:k(x) end
  return Net()
end

local x
before_each(function() x = flame.tensor { 1, 10, 100 } end)

describe("a kernel that is a field of a module", function()
  it("is called as a method without the module as an argument", function()
    local net = module_of(flame.kernel(scale))
    assert.same({ 2, 30, 400 }, net:k(x, net.weight):totable())
    assert.same({ 2, 30, 400 }, net:k(x, net.weight, 3):totable())
    assert.same({ 2, 30, 400 }, net.k(x, net.weight):totable())
    assert.same({ 5, 50, 500 }, net:k(x, flame.full({ 3 }, 5)):totable())
  end)

  it("takes missing arguments from the module, with their gradients", function()
    local net = module_of(flame.kernel(scale))
    assert.same({ 2, 30, 400 }, net(x):totable())
    assert.same({ 2, 30, 400 }, net:k(x, 3):totable())
    net(x):sum():backward()
    assert.same({ 1, 10, 100 }, net.weight.grad:totable())
    local other = flame.tensor { 1, 1, 2 }
    assert.same({ 1, 10, 200 }, flame.functional_call(net, { weight = other }, x):totable())
  end)

  it("works where the class has the field", function()
    local net = module_of()
    getmetatable(net).k = flame.kernel(scale)
    assert.same({ 2, 30, 400 }, net(x):totable())
  end)

  it("may be a template", function()
    local net = module_of(flame.kernel("template <typename T>" .. scale:gsub("float", "T")))
    assert.same({ 2, 30, 400 }, net(x):totable())
    assert.same({ 2, 30, 400 }, net:k(x, net.weight, 3):totable())
    net:double()
    assert.equal("f64", net(x:double()).dtype)
    local whole = flame.tensor({ 2, 3 }, { dtype = "i32" })
    assert.same({ 4, 9 }, net:k(whole, whole):totable())
  end)

  it("says how many arguments it needs, and which the module has", function()
    local net = module_of(flame.kernel(scale))
    assert.matches("scale: 4 arguments after the module, need 2 or 3: %(x, weight, n%): give all, "
      .. "or 1 or 2 without weight, which the module has$", message(net.k, net, x, x, 3, 4))
    assert.matches("scale: 0 arguments after the module", message(net.k, net))
    net.weight = nil
    assert.matches("1 argument after the module, need 2 or 3: %(x, weight, n%)$",
      message(net.k, net, x))
    assert.matches("scale: x must be a tensor, got table", message(net.k, {}, x))
  end)

  it("refuses a number that may be either of two arguments", function()
    local net = module_of(flame.kernel(affine))
    net.a = nn.Parameter(flame.tensor { 2 })
    assert.same({ 7, 25, 205 }, net:k(x, 5):totable())
    assert.same({ 8, 35, 305 }, net:k(x, 3, 5, 3):totable())
    assert.matches("affine: the last argument may be b or n, since the module has a: give all 4",
      message(net.k, net, x, 3, 3))
  end)

  it("takes a module that is a list of tensors as its list", function()
    local total = [[
      __global__ void total(const float *const *xs, float *y, int m, int n) {
        int i = threadIdx.x;
        if (i >= n) return;
        y[i] = 0;
        for (int j = 0; j < m; ++j) y[i] += xs[j][i];
      }]]
    local k = flame.kernel { source = total, inout = { "y" } }
    local net = module_of(k)
    local list = nn.ParameterList { flame.ones(3), x }
    local zeros = flame.zeros(3)
    assert.same({ 2, 11, 101 }, k(list, zeros, 2, 3):totable())
    assert.same({ 2, 11, 101 }, net:k(list, zeros, 2, 3):totable())
  end)

  it("runs for a batch", function()
    local net = module_of(flame.kernel(scale))
    local both = flame.vmap(function(v) return net:k(v) end)(flame.stack { x, x + 1 })
    assert.same({ { 2, 30, 400 }, { 4, 33, 404 } }, both:totable())
    both:sum():backward()
    assert.same({ 3, 21, 201 }, net.weight.grad:totable())
  end)
end)

describe("a module with a kernel", function()
  local function with_constants()
    local net = module_of(flame.kernel { source = [[
      __constant__ float weight[3]; __constant__ float shift;
      __global__ void smooth(const float *x, float *y, int n) {
        int i = threadIdx.x;
        if (i < n) y[i] = weight[i] * x[i] + shift;
      }]], block = 32 })
    net.k:constant("weight", net.weight):constant("shift", 1)
    return net
  end

  it("is evaluated, described, saved and loaded as others", function()
    local net, path = module_of(flame.kernel(scale)), os.tmpname()
    assert.equal("Net()", tostring(net))
    assert.same({ 2, 30, 400 }, net:eval()(x):totable())
    flame.save(path, net:state_dict())
    flame.no_grad(function() net.weight:zero_() end)
    net:load_state_dict(flame.load(path))
    assert.same({ 2, 30, 400 }, net(x):totable())
    os.remove(path)
  end)

  it("is copied with the kernel's constants", function()
    local net = with_constants()
    local copy = net:clone()
    flame.no_grad(function() copy.weight:zero_() end)
    copy.k:constant("shift", 7)
    assert.same({ 3, 31, 401 }, net(x):totable())
    assert.same({ 7, 7, 7 }, copy(x):totable())
    copy(x):sum():backward()
    assert.same({ 1, 10, 100 }, copy.weight.grad:totable())
    assert.is_nil(net.weight.grad)
  end)

  it("moves the kernel's constants with it", function()
    local here = flame.default_device()
    flame.default_device("cpu")
    local net = with_constants()
    net.list = { net.k:with {} }
    flame.default_device(here)
    net:to(here)
    assert.same({ 3, 31, 401 }, net(x):totable())
    assert.same({ 3, 31, 401 }, net.list[1](x):totable())
    net:double():float()
    assert.same({ 3, 31, 401 }, net(x):totable())
  end)
end)
