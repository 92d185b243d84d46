--- Gradients of kernels that read neighbours, by a gather where the index allows it: compared with
--- sums by atomics and with differences, also at sizes that are not multiples of the block, with
--- flame.deterministic true and false. Runs on the default device.
local flame = require "flame"
local proof = dofile("spec/kernel/kernel_proof.lua")
local internal = flame.internal

local function f64(...) return flame.randn(...):double() end

local HEAT = flame.kernel [[
__global__ void heat(const float *u, float *v, int w, int h) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= w * h) return;
  int x = i % w, y = i / w;
  float c = u[i];
  float l = x > 0 ? u[i - 1] : c, r = x < w - 1 ? u[i + 1] : c;
  float t = y > 0 ? u[i - w] : c, b = y < h - 1 ? u[i + w] : c;
  v[i] = c + 0.2f * (l + r + t + b - 4 * c);
}]]

-- A kernel with threads along two axes; k has a factor for each element, a is one for all.
local WAVE = flame.kernel { source = [[
__global__ void wave(const double *u, const double *k, double a, double *v, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  int i = y * w + x;
  double s = -4 * u[i] * k[i];
  if (x > 0) s += u[i - 1]; if (x + 1 < w) s += u[i + 1] * u[i];
  if (y > 0) s += a * u[i - w]; if (y + 1 < h) s += sin(u[i + w]);
  v[i] = s;
}]], shape = function(u) return u.shape end, block = { 8, 4 },
  grid = function(u) return { (u.shape[2] + 7) // 8, (u.shape[1] + 3) // 4 } end }

--- The gradients of k(args) with respect to 'inputs' for the cotangent g; ordered: deterministic
--- sums or not; most: the limit of internal.kernel_gather (-1: no gathers).
local function gradients(k, inputs, args, g, ordered, most)
  local before, limit = flame.deterministic(), internal.kernel_gather()
  flame.deterministic(ordered)
  internal.kernel_gather(most or limit)
  local ok, list = pcall(function()
    local by, out = k(table.unpack(args)):gradients(inputs, { seed = g }), {}
    for i, x in ipairs(inputs) do out[i] = by[x]:detach() * 1 end
    flame.eval(table.unpack(out))
    return out
  end)
  flame.deterministic(before)
  internal.kernel_gather(limit)
  assert(ok, list)
  return list
end

describe("the gradient of a stencil", function()
  it("has no atomics and no second kernel", function()
    local r = HEAT:report().adjoint
    assert.equal(0, r.atomics)
    assert.equal(5, r.gathers)
    local text = HEAT:source("adjoint")
    assert.truthy(text:find("heat_vjp_gather(", 1, true))
    assert.falsy(text:find("void heat_vjp(", 1, true))
  end)

  it("is that by atomics, at all sizes", function()
    for _, size in ipairs { { 1, 1 }, { 1, 7 }, { 9, 1 }, { 3, 2 }, { 17, 33 }, { 64, 64 },
        { 31, 257 } } do
      local u = flame.randn({ size[1], size[2] }, { requires_grad = true })
      local g = flame.randn(size[1], size[2])
      local args = { u, size[2], size[1] }
      local want = gradients(HEAT, { u }, args, g, false, -1)[1]
      local got = gradients(HEAT, { u }, args, g, false)[1]
      assert.allclose(want:totable(), got:totable(), { rtol = 1e-5, atol = 1e-5 })
      assert.is_true(flame.equal(got, gradients(HEAT, { u }, args, g, true)[1]), "the modes differ")
    end
  end)

  it("is zero where the launch does not come", function()
    local k = HEAT:with { grid = { 1 }, block = { 32 } }
    local u = flame.ones({ 8, 8 }, { requires_grad = true })
    local d = gradients(k, { u }, { u, 8, 8 }, flame.ones(8, 8), true)[1]
    assert.equal(0, d:narrow(1, 6, 3):abs():sum():item())
    assert.allclose(gradients(k, { u }, { u, 8, 8 }, flame.ones(8, 8), true, -1)[1]:totable(),
      d:totable(), { rtol = 1e-6, atol = 1e-6 })
  end)

  it("is right for launches that are too large", function()
    local u = flame.randn({ 5, 6 }, { requires_grad = true })
    local g = flame.randn(5, 6)
    local want = gradients(HEAT, { u }, { u, 6, 5 }, g, true)[1]
    for _, grid in ipairs { 1, 3, 40 } do
      assert.allclose(want:totable(),
        gradients(HEAT:with { grid = { grid }, block = { 96 } }, { u }, { u, 6, 5 }, g,
          true)[1]:totable())
    end
  end)

  it("of no elements is empty", function()
    local u = flame.zeros({ 0, 4 }, { requires_grad = true })
    assert.equal(0, gradients(HEAT, { u }, { u, 4, 0 }, flame.zeros(0, 4), true)[1]:numel())
  end)

  it("in threads along two axes, with factors, goes to second order", function()
    for _, size in ipairs { { 3, 5 }, { 5, 9 } } do
      local a = f64({ 1 }):reshape(1)[1]
      proof.check(function(u, k, c) return WAVE(u, k, c, size[2], size[1]) end,
        { f64(size), f64(size), a })
    end
  end)

  it("comes with that of a scalar, which stays a sum", function()
    local u, k = f64 { 20, 13 }:requires_grad_(true), f64 { 20, 13 }:requires_grad_(true)
    local a = flame.tensor(0.7, { dtype = "f64", requires_grad = true })
    local g, args = f64 { 20, 13 }, { u, k, a, 13, 20 }
    local want = gradients(WAVE, { u, k, a }, args, g, false, -1)
    for _, ordered in ipairs { false, true } do
      local got = gradients(WAVE, { u, k, a }, args, g, ordered)
      for i = 1, 3 do
        assert.allclose(want[i]:reshape(-1):totable(), got[i]:reshape(-1):totable(),
          { rtol = 1e-12, atol = 1e-12 })
      end
    end
  end)

  it("has the same bits each time and in both modes", function()
    local u = flame.randn({ 200, 300 }, { requires_grad = true })
    local g = flame.randn(200, 300)
    local first = gradients(HEAT, { u }, { u, 300, 200 }, g, true)[1]
    for j = 1, 4 do
      assert.is_true(flame.equal(first, gradients(HEAT, { u }, { u, 300, 200 }, g, j % 2 == 0)[1]))
    end
  end)

  it("of halves is summed in f32", function()
    local k = flame.kernel [[
      __global__ void smooth(const __half *u, __half *v, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < 1 || i >= n - 1) return;
        float l = __half2float(u[i - 1]), c = __half2float(u[i]), r = __half2float(u[i + 1]);
        v[i] = __float2half(0.25f * l + 0.5f * c + 0.25f * r);
      }]]
    local u = flame.randn(100):half():requires_grad_(true)
    local g = flame.randn(100):half()
    local want = gradients(k, { u }, { u }, g, false, -1)[1]
    assert.equal("f16", want.dtype)
    assert.same(want:totable(), gradients(k, { u }, { u }, g, true)[1]:totable())
  end)

  it("is taken through many steps", function()
    local u = (flame.randn(12, 10) * 0.1):requires_grad_(true)
    local function run(most)
      local limit = internal.kernel_gather()
      internal.kernel_gather(most)
      local v = u
      for _ = 1, 20 do v = HEAT(v, 10, 12) end
      local d = (v * v):sum():gradients({ u })[u] * 1
      flame.eval(d)
      internal.kernel_gather(limit)
      return d:totable()
    end
    assert.allclose(run(-1), run(internal.kernel_gather()), { rtol = 1e-4, atol = 1e-6 })
  end)

  it("with indices that are clamped or wrap around goes to second order", function()
    for _, body in ipairs { "u[max(i - 1, 0)] * u[min(i + 1, n - 1)]",
      "u[(i + n - 1) % n] * u[(i + 1) % n]",
      "u[i == 0 ? n - 1 : i - 1] * u[i + 1 < n ? i + 1 : i]" } do
      local k = flame.kernel(("__global__ void k(const double *u, double *v, int n) {\n" ..
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) v[i] = %s;\n}"):format(body))
      local r = k:report().adjoint
      assert.equal(0, r.atomics)
      assert.is_true(r.gathers >= 2)
      for _, n in ipairs { 1, 2, 7 } do proof.check(k, { f64 { n } }) end
    end
  end)

  it("in a window of two loops, with weights", function()
    local k = flame.kernel { source = [[
      __global__ void window(const double *u, const double *k, double *v, int w, int h) {
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
        if (x >= w || y >= h) return;
        double s = 0;
        for (int dy = -1; dy <= 1; ++dy)
          for (int dx = -1; dx <= 1; ++dx) {
            int xx = x + dx, yy = y + dy;
            if (xx < 0 || xx >= w || yy < 0 || yy >= h) continue;
            s += k[(dy + 1) * 3 + dx + 1] * u[yy * w + xx];
          }
        v[y * w + x] = s;
      }]], shape = function(u) return u.shape end, block = { 4, 2 },
      grid = function(u) return { (u.shape[2] + 3) // 4, (u.shape[1] + 1) // 2 } end }
    assert.equal(9, k:report().adjoint.gathers)
    proof.check(function(u, weights) return k(u, weights, 5, 3) end, { f64 { 3, 5 }, f64 { 9 } })
  end)

  -- index of what thread (x, y) of h rows of w reads; what becomes of sums into it
  for index, way in pairs {
    ["y / 2 * (w / 2) + x / 2"] = "gathers", ["y / 3 * w + x / 2"] = "gathers",
    ["y * w + x / 8"] = "gathers", ["2 * y * w + 2 * x + 1"] = "plain",
    ["(2 * y + 1) * 2 * w + 2 * x"] = "plain",
    -- many threads of one element, a thread twice, a quotient by a size, or of no thread's number
    ["y * w + x / 9"] = "atomics", ["x / 2 + x"] = "atomics", ["y * w + x / h"] = "atomics",
    ["(x + 1) / 2"] = "atomics",
  } do
    it("that reads another grid, at " .. index, function()
      local k = flame.kernel { source = ([[
        __global__ void k(const double *u, double *v, int w, int h) {
          int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
          if (x >= w || y >= h) return;
          v[y * w + x] = u[%s] * (x + 2 * y + 1);
        }]]):format(index), block = { 4, 3 },
        shape = function(_, w, h) return { h, w } end,
        grid = function(_, w, h) return { (w + 3) // 4, (h + 2) // 3 } end }
      local a = k:report().adjoint
      assert.same({ 1, 1 }, { a[way], a.gathers + a.plain + a.atomics })
      for _, size in ipairs { { 1, 1 }, { 6, 4 }, { 7, 5 }, { 8, 3 } } do
        proof.check(function(u) return k(u, size[1], size[2]) end, { f64 { 160 } })
      end
    end)
  end

  it("asks for positive sizes, and takes sums where they are not", function()
    local k = flame.kernel [[
      __global__ void k(const double *u, double *v, int w, int h) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= w * h) return;
        int x = i % w, y = i / w;
        v[i] = u[y * w + max(x - 1, 0)] * (u[i] + 1);
      }]]
    assert.is_true(k:report().adjoint.gathers > 0)
    for _, size in ipairs { { 4, 3 }, { -4, -3 } } do
      local u = f64 { 12 }:requires_grad_(true)
      local args, g = { u, size[1], size[2] }, f64 { 12 }
      local want, got = gradients(k, { u }, args, g, false, -1)[1],
        gradients(k, { u }, args, g, true)[1]
      assert.allclose(want:totable(), got:totable(), { rtol = 1e-13, atol = 1e-13 })
    end
  end)

  it("stays a sum where an index is no neighbour", function()
    for _, body in ipairs { "u[(3 * i + 1) % n] * u[i]", "u[n - 1 - i] * u[i]" } do
      local k = flame.kernel(("__global__ void k(const double *u, double *v, int n) {\n" ..
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) v[i] = %s;\n}"):format(body))
      assert.equal(0, k:report().adjoint.gathers)
      proof.check(k, { f64 { 7 } })
    end
  end)
end)
