--- Variables of file scope in kernel texts: __constant__ arrays that the script sets, and
-- __device__ variables that are initialised at each launch. Values are compared with plain Lua,
-- gradients with central differences.
local flame = require "flame"
local helper = require "spec.support.helper"
local proof = dofile("spec/kernel/kernel_proof.lua")

local f64 = { dtype = "f64" }

local function row(n, shift)
  return flame.tensor((function()
    local list = {}
    for i = 1, n do list[i] = math.sin(1.3 * i + (shift or 0)) end
    return list
  end)(), f64)
end

local function near(got, want)
  local list = got:totable()
  for i, v in ipairs(want) do
    assert(math.abs(list[i] - v) < 1e-12, ("%d: %.17g, expected %.17g"):format(i, list[i], v))
  end
  assert.equal(#want, #list)
end

local message = helper.message

local stencil = [[
__constant__ double w[2][3];
__constant__ double shift;
__device__ double at(const double *x, int i, int n) { return x[(i + n) % n] * w[1][1]; }
__global__ void k(const double *x, double *y, int n) {
  int i = threadIdx.x;
  if (i < n) y[i] = w[0][0] * at(x, i - 1, n) + w[0][i % 3] * x[i] * shift;
}]]

local function stencil_of(x, w, shift)
  local y, n = {}, #x
  for i = 0, n - 1 do
    y[i + 1] = w[1] * x[(i - 1) % n + 1] * w[5] + w[i % 3 + 1] * x[i + 1] * shift
  end
  return y
end

describe("a __constant__ array without a value", function()
  it("is what the script has set when the launch is recorded", function()
    local k, x, w = flame.kernel { source = stencil, block = { 8 } }, row(7), row(6, 2)
    assert.equal(k, k:constant("w", w:reshape(2, 3)))
    k:constant("shift", 0.5)
    local y = k(x)
    k:constant("w", flame.ones(6, f64))
    k:constant("shift", flame.tensor({ 2 }, f64))
    near(y, stencil_of(x:totable(), w:totable(), 0.5))
    near(k(x), stencil_of(x:totable(), { 1, 1, 1, 1, 1, 1 }, 2))
  end)

  it("has a gradient to second order", function()
    local k = flame.kernel { source = stencil, block = { 8 } }
    proof.check(function(x, w, shift)
      k:constant("w", w)
      k:constant("shift", shift)
      return k(x)
    end, { row(7), row(6, 2), row(1, 4) })
  end)

  it("has none where it is in nodiff, and a given vjp does not see it", function()
    local x, w = row(3), row(6, 2)
    for _, o in ipairs { { nodiff = { "w", "shift" } },
        { vjp = function(g, a, n)
          assert.equal(3, n)
          return g * a
        end } } do
      o.source, o.block = stencil, { 8 }
      local k = flame.kernel(o):constant("w", w):constant("shift", 1)
      w.requires_grad, x.requires_grad = true, true
      local g = k(x):sum():gradients({ x, w }, { allow_unused = true })
      assert.truthy(g[x])
      assert.equal(nil, g[w])
    end
  end)

  it("of members of several types is its bytes, and what __managed__ names is an argument", function()
    local k = flame.kernel { source = [[
      struct S { double3 o; int n; double r[2]; };
      __constant__ S s;
      __managed__ int hits, others;
      __global__ void first(int *y) { y[0] = hits + others; }
      __global__ void k(const double *x, double *y, int n) {
        int i = threadIdx.x;
        if (i >= n) return;
        y[i] = x[i] * s.o.y + s.n + s.r[i & 1];
        atomicAdd(&hits, 1);
        others = 7;
      }]], entry = "k", inout = { "hits", "others" }, block = { 8 } }
    local list = {}
    for c in string.pack("<dddi4xxxxdd", 1, 2.5, 3, 7, 0.5, 0.25):gmatch "." do
      list[#list + 1] = c:byte()
    end
    k:constant("s", flame.tensor(list, { dtype = "u8" }))
    local function apply(x)
      local two, none = flame.tensor({ 2 }, { dtype = "i32" }), flame.zeros(1, { dtype = "i32" })
      local y, hits, others = k(x, 3, two, none)
      assert.same({ 5, 7 }, { hits:item(), others:item() })
      return y
    end
    local x = row(3):totable()
    near(apply(row(3)), { x[1] * 2.5 + 7.5, x[2] * 2.5 + 7.25, x[3] * 2.5 + 7.5 })
    assert.truthy(flame.gradcheck(apply, { row(3) }))
    local why = message(function() k:constant("s", flame.ones(3)) end)
    assert.truthy(why:find("s has 48 elements of u8, got 3 of f32", 1, true), why)
  end)

  it("belongs to one kernel, and to those made of it by with", function()
    local k, x, w = flame.kernel { source = stencil, block = { 8 } }, row(4), row(6, 2)
    k:constant("w", w):constant("shift", 1)
    local other = k:with { block = { 4 } }
    other:constant("shift", 3)
    near(k(x), stencil_of(x:totable(), w:totable(), 1))
    near(other(x), stencil_of(x:totable(), w:totable(), 3))
  end)

  it("serves launches in place", function()
    local k, x, w = flame.kernel { source = stencil }, row(4), row(6, 2)
    local y = flame.zeros(4, f64)
    k:constant("w", w):constant("shift", 1)
    k:launch({ grid = { 1 }, block = { 4 } }, x, y, 4)
    near(y, stencil_of(x:totable(), w:totable(), 1))
  end)

  it("says what is wrong with it", function()
    local k, x = flame.kernel { source = stencil, block = { 8 } }, row(4)
    local failed = flame.tensor({ 1, 2 }, { dtype = "i64" })
    local plain = flame.kernel "__global__ void k(float *y) { y[0] = 1; }"
    for _, c in ipairs {
      { function() return k(x) end, "k: constant 'w' has no value: set it by k:constant(\"w\", x)" },
      { function() k:constant("v", x) end, "no constant 'v' to set, the kernel has: shift w" },
      { function() k:constant(nil, x) end, "no constant 'nil' to set" },
      { function() k:constant("w", x) end, "w has 6 elements of f64, got 4 of f64" },
      { function() k:constant("w", flame.ones(6)) end, "w has 6 elements of f64, got 6 of f32" },
      { function() k:constant("w", failed) end, "got 2 of i64" },
      { function() k:constant("w", { 1 }) end, "w must be a tensor or a number, got table" },
      { function() k:constant("w", 1) end, "w has 6 elements of f64, got 1 of f64" },
      { function() k:launch({ grid = { 1 } }, x, x) end,
        "2 arguments after the geometry, the kernel has 3" },
      { function() plain:constant("w", x) end, "the kernel has: none" },
    } do
      local why = message(c[1])
      assert(why:find(c[2], 1, true), why)
    end
  end)

  it("compiles", function()
    local k = flame.kernel { source = stencil, block = { 8 } }
    local plain = flame.kernel("__global__ void k(const float *x, float *y) { y[0] = x[0]; }")
    local there = plain:report().registers > 0
    assert.equal(there, k:report().registers > 0)
    assert.equal(there, k:report().adjoint.registers > 0)
    assert.same({ "const double *x: in", "double *y: out", "int n: scalar", "const double *w: in",
      "const double *shift: in" }, k:report().parameters)
  end)
end)

local turned = [[
__device__ double room[8];
__device__ unsigned int count = 0;
static __device__ int hits[2] = {0, 0};
__global__ void turn(const double *x, double *y, int *seen, int n) {
  int i = threadIdx.x;
  if (i < n) room[i] = x[i] * x[i];
  if (x[i % n] > 0) atomicAdd(&hits[i & 1], 1);
  __syncthreads();
  if (i < n) y[i] = room[n - 1 - i] * x[i];
  if (i == 0) { seen[0] = (int)atomicInc(&count, 5); seen[1] = hits[0] * 100 + hits[1]; }
}]]

describe("a __device__ variable", function()
  it("begins as zeros in each launch", function()
    local k = flame.kernel { source = turned, block = { 8 }, shape = { 8 } }
    local x = row(8)
    local list, even, odd = x:totable(), 0, 0
    for i, v in ipairs(list) do
      if v > 0 and i % 2 == 1 then even = even + 1 elseif v > 0 then odd = odd + 1 end
    end
    for _ = 1, 2 do
      local y, seen, more = k(x, 8)
      assert.equal(nil, more)
      local want = {}
      for i = 1, 8 do want[i] = list[9 - i] ^ 2 * list[i] end
      near(y, want)
      assert.equal(0, seen:totable()[1])
      assert.equal(100 * even + odd, seen:totable()[2])
    end
  end)

  it("has its part in a gradient", function()
    local k = flame.kernel { source = [[
__device__ double room[8];
__global__ void turn(const double *x, double *y, int n) {
  int i = threadIdx.x;
  if (i < n) room[i] = x[i] * x[i];
  __syncthreads();
  if (i < n) y[i] = room[n - 1 - i] * x[i];
}]], block = { 8 } }
    proof.check(k, { row(8) })
  end)

  it("that is never written is zeros, or what the script sets", function()
    local k = flame.kernel { source = [[
__device__ float gain;
__device__ float table[2] = {3, 4};
__global__ void k(const float *x, float *y, int n) {
  int i = threadIdx.x;
  if (i < n) y[i] = x[i] * gain + table[i & 1];
}]], block = { 4 } }
    assert.same({ 3.0, 4.0, 3.0 }, k(flame.ones(3)):totable())
    assert.same({ 5.0, 6.0, 5.0 }, k:constant("gain", 2)(flame.ones(3)):totable())
  end)

  local pair = [[
__device__ float total[4];
__global__ void add(const float *x, float *y) {
  total[threadIdx.x] += x[threadIdx.x];
  y[threadIdx.x] = 2 * total[threadIdx.x];
}
__global__ void use(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x] * total[threadIdx.x]; }]]

  it("that another kernel uses is an argument, named in inout", function()
    local add = flame.kernel { source = pair, entry = "add", inout = { "total" }, block = { 4 } }
    local use = flame.kernel { source = pair, entry = "use", block = { 4 } }
    local x = flame.tensor({ 1, 2, 3, 4 }, { requires_grad = true })
    local _, total = add(x, flame.zeros(4))
    local y, twice = add(x, total)
    assert.same({ 2.0, 4.0, 6.0, 8.0 }, twice:totable())
    assert.same({ 4.0, 8.0, 12.0, 16.0 }, y:totable())
    local z = use:constant("total", twice)(x)
    assert.same({ 2.0, 8.0, 18.0, 32.0 }, z:totable())
    z:sum():backward()
    assert.same({ 4.0, 8.0, 12.0, 16.0 }, x.grad:totable())
  end)

  it("that another kernel uses is refused where it is not named, with its line", function()
    local add = flame.kernel { source = pair, entry = "add", block = { 4 } }
    local use = flame.kernel { source = pair, entry = "use", block = { 4 } }
    assert.truthy(add:report().refusal:find("line 1 (", 1, true))
    assert.truthy(add:report().refusal:find("'total' is used by another kernel, too", 1, true))
    assert.truthy(message(use, flame.ones(4)):find("constant 'total' has no value", 1, true))
  end)
end)
