--- flame.vmap makes one launch for a batch of each launch that a function of one example makes.
-- Values, gradients and second gradients are compared with a loop over the examples, on the CPU and
-- on the simulated GPU (spec/c/fake_compute.c).
local flame = require "flame"
local helper = require "spec.support.helper"
local machine = dofile("spec/support/machine.lua")

local SQUARES <const> = [[__global__ void k(const float *x, const float *w, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * x[(7 * i) % n] * w[i];
}]]
local CASES <const> = [==[
local cases, HEAD = {}, "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
local function add(name, k, f, axes, ...)
  cases[#cases + 1] = { name = name, f = f and f(flame.kernel(k)) or flame.kernel(k), axes = axes,
    ... }
end
local function randn(...) return flame.randn({ ... }) end
flame.seed(3)

add("a shared array, an index that gathers", { source = "__global__ void k(const float *x, "
  .. "const float *w, float a, float *y, int n) {" .. HEAD
  .. "if (i < n) y[i] = a * x[i] * x[i] * w[(i + 1) % n]; }" }, nil, { 1, false },
  randn(3, 70), randn(70), 2.5)
add("a batch along another axis", { source = "__global__ void k(const float *x, "
  .. "const float *w, float *y, int n) {" .. HEAD .. "if (i < n) y[i] = x[i] * w[i] * w[i]; }" },
  nil, { 2, -1 }, randn(40, 3), randn(40, 3))
add("one example", { source = "__global__ void k(const float *x, float *y, int n) {" .. HEAD
  .. "if (i < n) y[i] = sinf(x[i]); }" }, nil, nil, randn(1, 30))
add("a stencil, whose gradient a thread of each element gathers", { source = "__global__ void k("
  .. "const float *x, float *y, int n) {" .. HEAD
  .. "if (i >= 1 && i < n - 1) y[i] = x[i - 1] * x[i] + x[i + 1]; }" }, nil, nil, randn(4, 600))
add("sums by atomics, into one element", { source = "__global__ void k(const float *x, "
  .. "const int *to, float *y, int n) {" .. HEAD
  .. "if (i < n) atomicAdd(&y[to[i]], x[i] * x[i]); }", shape = { 5 } }, nil, { 1, false },
  randn(3, 50), flame.randint({ 50 }, 0, 4, { dtype = "i32" }))
add("two outputs, one of integers", { source = "__global__ void k(const float *x, float *y, "
  .. "int *s, float *z, int n) {" .. HEAD .. "if (i >= n) return; y[i] = x[i] * x[i]; "
  .. "s[i] = x[i] < 0 ? -1 : 1; z[i] = expf(x[i]) * s[i]; }" },
  function(k) return function(x) local y, s, z = k(x) return y * s + z end end, nil, randn(3, 33))
add("an array that is rewritten", { source = "__global__ void k(float *x, const float *r, int n) {"
  .. HEAD .. "if (i < n) for (int j = 0; j < 5; j++) x[i] = x[i] * x[i] * r[i] + x[i]; }",
  inout = { "x" } }, nil, { 1, false }, randn(3, 20) * 0.3, randn(20))
add("one array that is rewritten, for all examples", { source = "__global__ void k(float *x, "
  .. "const float *r, int n) {" .. HEAD .. "if (i < n) x[i] += x[i] * r[i]; }", inout = { "x" } },
  nil, { false, 1 }, randn(20), randn(3, 20))
add("shared memory and a block chosen", { source = "__global__ void k(const float *x, float *y, "
  .. "int w) { extern __shared__ float s[]; s[threadIdx.x] = 0; "
  .. "for (int c = threadIdx.x; c < w; c += blockDim.x) s[threadIdx.x] += x[blockIdx.x * w + c] * "
  .. "x[blockIdx.x * w + c]; for (int d = blockDim.x / 2; d; d /= 2) { __syncthreads(); "
  .. "if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d]; } "
  .. "if (!threadIdx.x) y[blockIdx.x] = s[0]; }", block = "auto",
  shared = function(threads) return 4 * threads end,
  shape = function(x) return { x.shape[1] } end, grid = function(x) return { x.shape[1] } end },
  function(k) return function(x) return k(x, 40) end end, nil, randn(3, 2, 40))
add("a grid of three axes", { source = "__global__ void k(const float *x, float *y, int n) {"
  .. "int at = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;"
  .. "if (at < n) y[at] = x[at] * x[(at + gridDim.z) % n] + blockIdx.z; }", grid = { 2, 3, 4 },
  block = { 1 } }, nil, nil, randn(3, 24))
add("numbers that are tensors", { source = "__global__ void k(const float *x, float a, float *y, "
  .. "int n) {" .. HEAD .. "if (i < n) y[i] = x[i] * x[i] * a * a; }" },
  function(k) return function(x, a) return k(x, a) end end, { 1, false }, randn(3, 20), randn(1))
add("constants of the file", { source = "__constant__ float c[2]; __global__ void k("
  .. "const float *x, float *y, int n) {" .. HEAD .. "if (i < n) y[i] = x[i] * x[i] * c[i % 2]; }" },
  function(k) return function(x, c) k:constant("c", c) return k(x) end end, { 1, false },
  randn(3, 20), randn(2))
add("a slot that an atomic returns", { source = "__global__ void k(const float *x, int *n_out, "
  .. "float *y, int n) {" .. HEAD .. "if (i < n && x[i] > 0) y[atomicAdd(n_out, 1)] = x[i] * x[i]; }",
  shape = { 50 }, block = { 64 } },
  function(k) return function(x) local _, y = k(x, 50) return y:sum() end end, nil, randn(3, 50))
add("vectors", { source = "struct P { float x, y; }; __global__ void k(const float4 *x, "
  .. "const P *p, float4 *y, float2 s, int n) {" .. HEAD .. "if (i >= n) return; float4 v = x[i]; "
  .. "v.x *= v.y * s.x; v.w *= p[i].x * p[i].y; y[i] = v; }" },
  function(k) return function(x, p) return k(x, p, { 2, 3 }, 5) end end, { 1, false },
  randn(3, 20), randn(10))
add("wide loads of parts that are aligned", { source = "__global__ void k(const float *x, float *y,"
  .. "int n4) {" .. HEAD .. "if (i >= n4) return; float4 v = reinterpret_cast<const float4 *>(x)[i];"
  .. "v.x *= v.y; reinterpret_cast<float4 *>(y)[i] = v; }" },
  function(k) return function(x) return k(x, 2) end end, nil, randn(3, 8))
add("f64, and a template", { source = "template <typename T> __global__ void k(const T *x, T *y, "
  .. "int n) {" .. HEAD .. "if (i < n) y[i] = x[i] * x[i] * x[i]; }" }, nil, nil,
  randn(3, 20):double())
add("a loop of as many rounds as the data says", { source = "__global__ void k(const float *x, "
  .. "const int *m, float *y, int n) {" .. HEAD .. "if (i >= n) return; float p = 1; "
  .. "for (int j = 0; j < m[i]; j++) p = p * x[i] + 0.1f; y[i] = p; }" }, nil, { 1, 1 },
  randn(3, 20), flame.randint({ 3, 20 }, 0, 9, { dtype = "i32" }))
add("calls around ops, of what ops made", { source = "__global__ void k(const float *x, "
  .. "const float *w, float *y, int n) {" .. HEAD .. "if (i < n) y[i] = x[i] * x[n - 1 - i] * w[i]; }" },
  function(k) return function(x, w) return k(k(x * 2, w) + w, w:cos()):mean() end end, { 1, false },
  randn(3, 20), randn(20))
add("examples that go different ways", { source = "__global__ void k(const float *x, float a, "
  .. "float *y, int n) {" .. HEAD .. "if (i < n) y[i] = a * x[i] * x[i]; }" },
  function(k)
    return function(x)
      if x:sum():item() > 0 then x = k(x, 3) end
      return k(k(x, 1), x:max():item() > 0.5 and 2 or 1)
    end
  end, nil, randn(6, 4))
add("a gradient that the script gives", { source = "__global__ void k(const float *x, float *y, int n) {"
  .. HEAD .. "if (i < n) y[i] = x[i] * x[i]; }", vjp = function(g, x) return g * x * 5 end },
  nil, nil, randn(3, 20))
add("rows that are filled from their own elements", { source = "__global__ void k(const float *x, "
  .. "float *y, int n) {" .. HEAD .. "if (i >= n) return; y[8 * i] = x[8 * i]; "
  .. "for (int j = 1; j < 8; j++) y[8 * i + j] = tanhf(y[8 * i + j - 1] + x[8 * i + j]); }",
  block = { 32 }, grid = { 1 }, shape = { 40 } },
  function(k) return function(x) return k(x, 5) end end, nil, randn(3, 40))

local function results(run, given)
  local leaves, list = {}, {}
  for i, x in ipairs(given) do
    list[i] = x
    if flame.is_tensor(x) and x:is_floating_point() then
      leaves[#leaves + 1] = x:detach():clone():requires_grad_(true)
      list[i] = leaves[#leaves]
    end
  end
  local y = run(table.unpack(list))
  local g = flame.autograd.grad(y:square():sum(), leaves, nil, nil, true)
  local s = 0
  for _, d in ipairs(g) do s = s + d:square():sum() end
  return y, g, flame.autograd.grad(s, leaves)
end
local function each(f, axes, n)
  return function(...)
    local given, out = table.pack(...), {}
    for j = 1, n do
      local one = {}
      for i = 1, given.n do
        local axis, x = axes and axes[i], given[i]
        if axis == nil then axis = 1 end
        one[i] = flame.is_tensor(x) and axis and x:select(axis, j):contiguous() or x
      end
      out[j] = f(table.unpack(one, 1, given.n))
    end
    return flame.stack(out)
  end
end
local function close(a, b) return (a:allclose(b, 2e-4, 2e-4)) end
local bad = {}
for at = 1, MOST or #cases do
  local c = cases[at]
  local y, g, h = results(flame.vmap(c.f, c.axes), c)
  local y2, g2, h2 = results(each(c.f, c.axes, y.shape[1]), c)
  local ok = close(y, y2)
  for i in ipairs(g2) do ok = ok and close(g[i], g2[i]) and close(h[i], h2[i]) end
  if not ok then bad[#bad + 1] = c.name end
end
]==]

describe("flame.vmap", function()
  it("gives what a loop over the examples gives, with both derivatives", function()
    local bad = assert(load("local flame = require 'flame'\n" .. CASES .. "return bad"))()
    assert.same({}, bad)
  end)

  it("does so on a GPU, in any mode", function()
    local folder = machine.new()
    for _, how in ipairs { { "" }, { "FLAME_EAGER=1" }, { "", "flame.deterministic(false)" },
        { "FLAME_CHECK=bounds", "MOST = 6" } } do
      local said = machine.run(folder, "local flame = require \"flame\"\n" .. (how[2] or "")
        .. "\n" .. CASES .. "print(\"bad:\", table.concat(bad, \", \"), flame.default_device())",
        ("FAKE_CUDA=\"computes=1\" FLAME_CACHE_DIR=%s/cache %s"):format(folder, how[1]))
      assert(said:find("bad:\t\tcuda:0", 1, true), how[1] .. said)
    end
    machine.remove(folder)
  end)

  it("launches as often for many examples as for one, gradients included", function()
    local folder = machine.new()
    local script = "local k = flame.kernel [==[" .. SQUARES .. [[]==]
      local x, w = flame.ones(N, 64, { requires_grad = true }), flame.ones(64, { requires_grad = true })
      local y = flame.vmap(function(x, w) return (k(k(x, w), w)) end, { 1, false })(x, w)
      y:sum():backward()
      print(x.grad:sum():item() / N, w.grad:sum():item() / N)]]
    local counts = {}
    for i, n in ipairs { "1", "50" } do
      local said = machine.run(folder, (script:gsub("N", n)), "FAKE_CUDA=\"computes=1 tell=2\" "
        .. "FLAME_CACHE_DIR=" .. folder .. "/cache")
      assert(said:find("256.0\t192.0", 1, true), said)
      counts[i] = said:match "(%d+) LaunchKernel"
    end
    machine.remove(folder)
    assert.equal(counts[1], counts[2])
  end)

  it("has as many examples as a grid does not hold", function()
    local folder = machine.new()
    local script = [[local k = flame.kernel { source = "__global__ void k(const float *x, "
        .. "float *y, int n) { if (blockIdx.z == 1) atomicAdd(y, x[0] * x[1] * gridDim.z); }",
        grid = { 1, 1, 2 }, block = { 1 }, shape = { 1 } }
      local x = flame.arange(140000.0):reshape(70000, 2):requires_grad_(true)
      local y = flame.internal.kernel_each(k, 70000, 1, x, 2)
      local want = x:select(2, 1) * x:select(2, 2) * 2
      y:sum():backward()
      local other = flame.stack({ x:select(2, 2), x:select(2, 1) }, 2) * 2
      print(y:reshape(-1):equal(want), x.grad:allclose(other))]]
    for _, device in ipairs { "cpu", "cuda" } do
      local said = machine.run(folder, script, "FAKE_CUDA=\"computes=1\" FLAME_DEVICE=" .. device)
      assert(said:find("true\ttrue", 1, true), said)
    end
    machine.remove(folder)
  end)

  it("has any function: shared values, several results, other axes, itself", function()
    local x, w = flame.randn(3, 4), flame.randn(4)
    local sum, both = flame.vmap(function(a) return (a * w):sum(), a + w end)(x)
    assert.is_true(sum:allclose((x * w):sum(2), 1e-5, 1e-6))
    assert.is_true(both:allclose(x + w))
    local k = flame.kernel(SQUARES)
    local outer = flame.vmap(flame.vmap(k, { 1, false }), { 1, false })
    local y = flame.randn(2, 3, 6)
    local want = flame.stack { flame.vmap(k)(y[1], y[2]), flame.vmap(k)(y[2], y[1]) }
    assert.same({ 2, 3, 6 }, outer(y, y[1][1]).shape)
    assert.same({ 2, 3, 6 }, flame.vmap(flame.vmap(k))(y, flame.stack { y[2], y[1] }).shape)
    assert.is_true(flame.vmap(flame.vmap(k))(y, flame.stack { y[2], y[1] }):allclose(want))
    assert.is_true(flame.vmap(function(a) return a * 2 end, -1)(x):equal((x * 2):t()))
  end)

  it("keeps to the example: an index beyond it raises", function()
    local k = flame.kernel [[__global__ void k(const float *x, float *y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = x[i + 1];
    }]]
    local x = flame.ones(3, 8, { device = "cpu" })           -- GPUs check only under FLAME_CHECK
    local why = helper.message(function() flame.vmap(k)(x):sum():item() end)
    assert(why:find("index 8 of 'x' (8 elements)", 1, true), why)
  end)

  it("launches each where one launch can not be all", function()
    local wide = flame.kernel { source = [[__global__ void k(const float *x, float *y, int n) {
      float4 v = *reinterpret_cast<const float4 *>(x);
      y[0] = v.x * v.w;
    }]], shape = { 1 } }
    local why = helper.message(function() flame.vmap(function(a) return wide(a, 1) end)(
      flame.ones(2, 6)) end)
    assert(why:find("begin at multiples of 16; launch it for each, without vmap", 1, true)
      or why:find("begin at multiples of 16: launch it for each, without vmap", 1, true), why)
    local scale = flame.kernel [[__global__ void k(const float *x, float a, float *y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = x[i] * a;
    }]]
    local x, a = flame.randn(3, 5), flame.randn(3):requires_grad_(true)
    local y = flame.vmap(scale)(x, a)
    assert.is_true(y:allclose(x * a:reshape(3, 1)))
    y:sum():backward()
    assert.is_true(a.grad:allclose(x:sum(2), 1e-5, 1e-6))
    local mode = flame.vmap(function(b)
      local _ <close> = flame.no_grad()
      return scale(b, 2)
    end)(x:clone():requires_grad_(true))
    assert.is_false(mode.requires_grad)
    assert.is_true(flame.is_grad_enabled())
  end)

  it("lets an example catch what its calls raise, opens scopes, and closes what an error leaves",
  function()
    local x, w = flame.randn(3, 4), flame.tensor { 0.5, 2 }
    local function square(row) return flame.scope(function() return row * row + w[2] end) end
    local k = flame.kernel { block = 32, shape = { 4 }, source = [[
__global__ void sq(const float *x, const float *w, float *y) {
  int i = threadIdx.x;
  if (i < 4) y[i] = x[i] * x[i] * w[0] * 2 + w[1];
}]] }
    local caught = 0
    local y = flame.vmap(function(row)
      local ok, why = pcall(k, row, "w")
      caught = caught + (not ok and tostring(why):find("sq: w", 1, true) and 1 or 0)
      return flame.scope(function() return k(row, w) end)
    end)(x)
    assert.equal(3, caught)
    assert.is_true(flame.allclose(y, flame.vmap(square)(x)))

    local open, n = 0, 0
    local ok, why = pcall(flame.vmap(function(row)
      n, open = n + 1, open + 1
      local _ <close> = setmetatable({}, { __close = function() open = open - 1 end })
      if n == 3 then error "the third" end
      return k(row, w)
    end), x)
    assert.is_false(ok)
    assert.truthy(tostring(why):find("the third", 1, true))
    assert.same({ 3, 0 }, { n, open })
  end)

  it("says what is wrong", function()
    local function says(text, f)
      local why = helper.message(f) or "no error"
      assert(why:find(text, 1, true), why)
      assert(why:find("kernel_vmap_spec.lua:", 1, true), why)
    end
    local k, x = flame.kernel(SQUARES), flame.ones(3, 4)
    says("vmap: argument 2 has 4 examples, those before it 3",
      function() flame.vmap(k)(x, flame.ones(4)) end)
    says("vmap: argument 1 has 2 axes, its batch can not be along axis 3",
      function() flame.vmap(k, 3)(x, x) end)
    says("vmap: no argument is a tensor with a batch", function() flame.vmap(k, false)(x, x) end)
    says("vmap: the batch is empty",
      function() flame.vmap(k)(flame.ones(0, 3), flame.ones(0, 3)) end)
    says("vmap: result 1 of example 1 is a number, need a tensor",
      function() flame.vmap(function() return 3 end)(x) end)
    says("vmap: the function yields",
      function() flame.vmap(function() coroutine.yield(3) end)(x) end)
    says("f launches a kernel over a batch (vmap), which programs do not have", function()
      flame.export(os.tmpname(), function(a) return { y = flame.vmap(k)(a, a) } end, { x })
    end)
    local shown = helper.message(function()
      flame.vmap(function(a) error("mine " .. a.shape[1]) end)(x)
    end)
    assert(shown:find("mine 4", 1, true), shown)
    assert.equal(2, k(flame.ones(2), flame.ones(2)):sum():item())       -- as it was before
  end)
end)
