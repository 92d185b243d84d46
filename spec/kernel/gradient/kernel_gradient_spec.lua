--- Derived gradients of user kernels, for each feature of the language: compared to second order
-- with central differences, and forward with reverse mode. Runs on the default device.
local flame = require "flame"
local ordered = require "spec.support.ordered"
local proof = dofile("spec/kernel/kernel_proof.lua")

local small = dofile("spec/kernel/kernel_body.lua")
local f64, wave, kernel = small.f64, small.wave, small.kernel

describe("the derived gradient of a kernel with", function()
  it("branches, else, ?:, && and switch", function()
    local k = kernel("const double *x, double *y", [[
      double v = x[i], r;
      if (v > 0.5 && i != 3) r = v * v;
      else if (v < -0.5 || i == 2) r = sin(v);
      else { r = v; r *= exp(v); }
      switch (i % 4) {
        case 0: r += v; break;
        case 1: r *= v;
        case 2: r = r * r; break;
        default: r -= 3.0 * v;
      }
      y[i] = r > 0.0 ? r : 0.5 * r * v;]], 8)
    proof.check(k, { f64(wave(8)) })
  end)

  it("an early return", function()
    local k = kernel("const double *x, double *y", [[
      double v = x[i];
      if (v < 0.0) { y[i] = v * v; return; }
      if (i == 2) return;
      y[i] = v * v * v;]], 6)
    proof.check(k, { f64(wave(6)) })
  end)

  it("loops whose bounds are data", function()
    local k = kernel("const int *count, const double *x, double *y", [[
      double v = x[i];
      for (int j = 0; j < count[i]; ++j) v = v * 0.99 + sin(v + j) * 0.1;
      y[i] = v;]], 5)
    local count = flame.tensor({ 0, 1, 7, 40, 300 }, { dtype = "i32" })
    proof.check(function(x) return k(count, x) end, { f64(wave(5)) })
  end)

  it("break, continue and loops in loops", function()
    local k = kernel("const double *x, double *y, int n", [[
      double s = 0.1 * x[i];
      for (int a = 0; a < n; ++a) {
        if (a % 3 == 1) continue;
        int b = 0;
        while (true) {
          s += 0.2 * x[(i + a + b) % 6] * s;
          if (s > 2.0 || ++b > a) break;
        }
        if (s < -5.0) break;
        for (int c = a; c > 0; c /= 2) { if (c == 2) continue; s = s * cos(s); }
      }
      y[i] = s;]], 6)
    proof.check(function(x) return k(x, 6) end, { f64(wave(6, 0.3)) })
  end)

  it("local arrays indexed by variables", function()
    local k = kernel("const double *x, double *y", [[
      double a[3][2], t[4] = { 1.0, 2.0 };
      for (int r = 0; r < 3; ++r)
        for (int c = 0; c < 2; ++c) a[r][c] = x[(i + r * 2 + c) % 6];
      t[i % 4] += a[i % 3][i % 2];
      for (int j = 0; j < 5; ++j) t[(j + i) % 4] = t[j % 4] * a[j % 3][1] + a[j % 3][0];
      y[i] = t[0] * t[1] + t[2] * t[3];]], 6)
    proof.check(k, { f64(wave(6, 0.8)) })
  end)

  it("device functions: values, references, early returns, calls in calls", function()
    local k = kernel("const double *x, double *y", [[
      double s, c;
      pair(x[i], s, c);
      y[i] = soft(s) * c + soft(soft(x[i]));]], 5, 5, [[
      __device__ double soft(double v) { if (v < -20.0) return exp(v); return log1p(exp(v)); }
      __device__ void pair(double v, double &s, double &c) { s = soft(v) * sin(v); c = cos(v) + s; }]])
    proof.check(k, { f64(wave(5)) })
  end)

  it("structs by value", function()
    local k = kernel("const double *x, double *y, Spring p", [[
      State s = { x[i], 0.0 };
      for (int t = 0; t < p.steps; ++t) s = step(s, p);
      y[i] = s.at * s.at + s.speed;]], 4, 4, [[
      struct Spring { double stiff, damp, ends[2]; int steps; };
      struct State { double at, speed; };
      __device__ State step(State s, Spring p) {
        State r;
        double f = -p.stiff * s.at - p.damp * s.speed + p.ends[1] - p.ends[0];
        r.speed = s.speed + 0.1 * f;
        r.at = s.at + 0.1 * r.speed;
        return r;
      }]])
    local spring = { stiff = 2, damp = 0.3, ends = { 0.5, -0.25 }, steps = 25 }
    proof.check(function(x) return k(x, spring) end, { f64(wave(4)) })
  end)

  it("float4", function()
    local k = flame.kernel { source = [[
      __global__ void k(const float4 *p, float4 *q, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        float4 v = p[i], w;
        float r = v.x * v.x + v.y * v.y + v.z * v.z + 1.f;
        w.x = v.y * v.w; w.y = v.x / r; w.z = r; w.w = v.w * v.w;
        q[i] = w;
      }]], shape = { 3, 4 }, grid = { 1 }, block = { 32 } }
    local p = flame.tensor(wave(12)):reshape(3, 4):contiguous()
    proof.check(function(x) return k(x, 3) end, { p }, { tol = 1e-5, order = 2 })
  end)

  it("halves: computed in float, gradients to halves", function()
    for dtype, name in pairs { f16 = "__half", bf16 = "__nv_bfloat16" } do
      local k = flame.kernel(([[
        #include <cuda_fp16.h>
        #include <cuda_bf16.h>
        __global__ void k(const %s *x, const float *w, float *y, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) { float v = (float)x[i]; y[i] = v * v * w[i]; }
        }]]):format(name))
      -- steps of 1/16 are exact in f16 and bf16, and so is the central difference of a parabola
      local x, w = flame.tensor { 0.5, -0.25, 0.75, 1 }, flame.tensor { 1, 2, -1, 0.5 }
      proof.check(function(v, u) return k(v:to(dtype), u) end, { x, w },
        { eps = 1 / 16, order = 2, tol = 1e-2 })
      local h = x:to(dtype):requires_grad_(true)
      k(h, w):sum():backward()
      assert.equal(dtype, h.grad.dtype)
      assert.same({ 1, -1, -1.5, 1 }, h.grad:float():totable())
    end
  end)

  it("arrays that are read and written", function()
    local k = kernel("double *x, const double *w, double *y", [[
      x[i] = x[i] * w[i];
      x[i] += sin(x[i]);
      y[i] = x[i] * x[i];
      x[i] = x[i] * w[(i + 1) % 4];]], 4, 4, nil, { inout = { "x" } })
    proof.check(function(x, w) return k(x, w) end, { f64(wave(4)), f64(wave(4, 1)) })
  end)

  it("an array that it only adds to, overwrites, or leaves alone", function()
    for _, body in ipairs { "x[i] += w[i] * w[i];", "x[i] = w[i];", "y[i] = w[i];",
      "if (i == 1) x[i] = 0.0;", "atomicAdd(&x[i / 2], w[i] * w[i]);" } do
      local k = kernel("double *x, const double *w, double *y", body, 4, 4, nil,
        { inout = { "x" } })
      proof.check(function(x, w)
        local a, b = k(x, w)
        return a * a, b
      end, { f64(wave(4)), f64(wave(4, 1)) })
    end
  end)

  it("atomic sums", function()
    local k = kernel("const int *at, const double *x, double *sum", [=[
      atomicAdd(&sum[at[i]], x[i] * x[i]);
      if (i % 2) atomicAdd(sum + at[i], sin(x[i]));]=], 8, 3)
    local at = flame.tensor({ 0, 1, 2, 2, 1, 0, 0, 2 }, { dtype = "i32" })
    proof.check(function(x) return k(at, x) end, { f64(wave(8)) })
  end)

  it("several outputs, one of them integer", function()
    local k = kernel("const double *x, const double *w, double *y, int *sign, double *z", [[
      y[i] = x[i] * w[i];
      sign[i] = x[i] > 0.0 ? 1 : -1;
      z[i] = exp(x[i]);]], 5)
    local x = f64(wave(5)):requires_grad_(true)
    local y, sign, z = k(x, x)
    assert.is_false(sign.requires_grad)
    local g = (y:sum() + z:sum()):gradients({ x })[x]
    assert.allclose((x:detach() * 2 + x:detach():exp()):totable(), g:totable())
    proof.check(function(a, b)
      local p, _, q = k(a, b)
      return p * q, q
    end, { f64(wave(5)), f64(wave(5, 1)) })
  end)

  it("a reduction in shared memory", function()
    local k = flame.kernel { source = [[
      __global__ void k(const double *x, double *y, int n) {
        __shared__ double s[64];
        int t = threadIdx.x, i = blockIdx.x * 64 + t;
        s[t] = i < n ? x[i] * x[i] : 0.0;
        __syncthreads();
        for (int d = 32; d > 0; d /= 2) {
          if (t < d) s[t] += s[t + d];
          __syncthreads();
        }
        if (t == 0) y[blockIdx.x] = log(1.0 + s[0]);
      }]], shape = { 2 }, grid = { 2 }, block = { 64 } }
    proof.check(function(x) return k(x, 100) end, { f64(wave(100)) }, { order = 1 })
    proof.check(function(x) return k(x:pad { 0, 90 }:contiguous(), 100) end, { f64(wave(10)) })
  end)

  it("a softmax of rows in shared memory, all products of it", function()
    local k = flame.kernel { source = [[
      __global__ void softmax(const double *x, double *y, int n) {
        extern __shared__ double s[];
        int t = threadIdx.x;
        double big = -1e300;
        for (int j = 0; j < n; ++j) big = fmax(big, x[blockIdx.x * n + j]);
        double e = t < n ? exp(x[blockIdx.x * n + t] - big) : 0.0;
        s[t] = e;
        __syncthreads();
        double sum = 0.0;
        for (int j = 0; j < n; ++j) sum += s[j];
        if (t < n) y[blockIdx.x * n + t] = e / sum;
      }]], shape = { 2, 5 }, grid = { 2 }, block = { 32 }, shared = 32 * 8 }
    local x = f64(wave(10)):reshape(2, 5):contiguous()
    assert.allclose(x:softmax(2):totable(), k(x, 5):totable(), { rtol = 1e-12 })
    proof.check(function(v) return k(v, 5) end, { x })
  end)

  -- value, gradient, J v, a batch and the gradient's gradient must agree with those of the same
  -- array with a size, and roughly with those of an array of floats
  for name, body in pairs {
    ["a sum"] = "for (int k = 4; k > 0; k /= 2) { if (t < k) s[t] = s[t] + s[t + k]; __syncthreads(); }"
      .. "y[t] = (float)s[0] * x[t];",
    ["a product"] = "for (int k = 4; k > 0; k /= 2) { if (t < k) s[t] = s[t] * s[t + k]; __syncthreads(); }"
      .. "y[t] = (float)s[0] * x[t];",
    ["a butterfly"] = "for (int k = 4; k > 0; k /= 2) { T v = s[t ^ k]; __syncthreads(); "
      .. "s[t] = T(0.5f * (float)s[t] * (float)v + 0.5f); __syncthreads(); } y[t] = (float)s[t] * x[t];",
    ["a loop with a condition"] = "for (int k = 0; k < 4 && (float)s[0] < 9; ++k) { float v = s[(t + k) % 8]; "
      .. "__syncthreads(); s[t] = T(v * (float)s[t] * 0.7f + 1); __syncthreads(); } y[t] = s[t];",
    ["two parts"] = "T *q = s + 8; q[t] = s[7 - t]; __syncthreads(); y[t] = (float)q[(t + 1) % 8] * (float)s[t];",
  } do
    it("halves in dynamic shared memory: " .. name, function()
      local function all(T, dynamic)
        local k = flame.kernel { source = ("typedef %s T;\n"
          .. "__global__ void k(const float *x, float *y) { %s int t = threadIdx.x; s[t] = T(x[t] + 1.25f); __syncthreads();\n%s\n}"):format(T,
          dynamic and "extern __shared__ T s[];" or "__shared__ T s[16];", body),
          block = { 8 }, grid = { 1 }, shape = { 8 },
          shared = dynamic and 16 * (T == "float" and 4 or 2) or 0 }
        local x, v = flame.tensor(wave(8)):requires_grad_(), flame.tensor(wave(8)):cos()
        local y = k(x)
        local g = (y * y):sum():gradients({ x }, { create_graph = true })[x]
        local _, j = flame.jvp(function(z) return k(z) end, { x:detach() }, { v })
        local batch = flame.vmap(function(z) return k(z) end)(flame.tensor(wave(24)):reshape(3, 8))
        return flame.cat({ y, g, type(j) == "table" and j[1] or j, batch:reshape(24),
          (g * v):sum():gradients({ x })[x] }):totable()
      end
      local floats = all("float", true)
      for T, tolerance in pairs { half = 2e-2, __nv_bfloat16 = 2e-1 } do
        local got = all(T, true)
        assert.allclose(all(T), got, { rtol = 1e-5, atol = 1e-5 })
        assert.allclose(floats, got, { rtol = tolerance, atol = tolerance })
      end
    end)
  end

  it("elements that functions change in a loop, by their own names for the index", function()
    local k = flame.kernel { source = [[
      struct Parts { double *x, *v; const double *m; };
      __device__ void kick(Parts p, int i, double dt) { p.v[i] += dt * -sin(p.x[i]) / p.m[i]; }
      __device__ void drift(double *x, const double *v, int j, double dt) { x[j] += dt * v[j]; }
      __device__ void move(Parts &p, int k, double dt) { drift(p.x, p.v, k, dt); kick(p, k, dt / 2); }
      __global__ void leap(double *x, double *v, const double *m, double *e, int n, int steps) {
        const int i = threadIdx.x;
        Parts p{x, v, m};
        if (i >= n) return;
        for (int s = 0; s < steps; ++s) { kick(p, i, 0.05); move(p, i, 0.1); }
        e[i] = m[i] * v[i] * v[i] - cos(x[i]);
      }]], block = { 8 }, grid = { 1 }, inout = { "x", "v" }, shape = { 4 } }
    proof.check(function(x, v, m) return k(x, v, m, 4, 5) end,
      { f64(wave(4)), f64(wave(4)) * 0.5, f64(wave(4)) + 2 })
  end)

  it("shuffles up, down, across and by index", function()
    for _, shuffle in ipairs { "__shfl_up_sync(~0u, v, 3)", "__shfl_down_sync(~0u, v, 1, 8)",
      "__shfl_xor_sync(~0u, v, 5)", "__shfl_sync(~0u, v, 7)",
      "__shfl_sync(~0u, v, (threadIdx.x * 3) % 32)" } do
      local k = kernel("const double *x, double *y",
        ("double v = x[i] * x[i]; double o = %s; y[i] = v * o + o * o;")
        :format(shuffle), 32)
      proof.check(k, { f64(wave(32)) }, { order = 1 })
      proof.check(function(x) return k(x:pad { 0, 28 }:contiguous()) end, { f64(wave(4)) })
    end
  end)

  it("numbers given as 0-d tensors", function()
    local k = kernel("double a, const double *x, float b, double *y, int n",
      "if (i < n) y[i] = a * a * x[i] + sin(a) * (double)b;", 4)
    proof.check(function(a, x) return k(a, x, 0.5) end, { f64(0.7), f64(wave(4)) })
    local b = flame.tensor(0.5, { requires_grad = true })
    k(0.5, f64(wave(4)), b):sum():backward()
    assert.equal("f32", b.grad.dtype)
    assert.close(4 * math.sin(0.5), b.grad:item(), 1e-6)
  end)

  it("atan2, pow, hypot, fma, erf, fmod, min and max", function()
    local k = kernel("const double *x, const double *w, double *y", [[
      double a = x[i] + 3.0, b = w[i] + 2.5;
      y[i] = atan2(a, b) + pow(a, b) + hypot(a, b) + fma(a, b, a) + erf(a * 0.2) + fmod(a, 0.8)
        + fmin(a, b) * fmax(a, 0.1) + tanh(a) * rsqrt(b) + cbrt(a) + fabs(x[i]);]], 6)
    proof.check(k, { f64(wave(6)), f64(wave(6, 1)) }, { rtol = 1e-3 })
  end)

  it("flame.map, of ops and of a kernel", function()
    local fused = flame.map("x, y -> x > 0. ? sqrt(x * x + y * y) : x * sin(y)")
    proof.check(fused, { f64(wave(4)):reshape(4, 1), f64(wave(3, 1)) })
    local through = flame.map("x, w -> cospi(x) * w * w")
    proof.check(through, { f64(wave(4)):reshape(4, 1), f64(wave(3, 1)) })
  end)

  it("more threads than a block, a grid-stride loop", function()
    local k = flame.kernel { source = [[
      __global__ void k(const double *x, double *y, int n) {
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] = x[i] * x[i] * x[i];
      }]], grid = { 3 }, block = { 32 } }
    local x = flame.linspace(-1, 1, 1000, { dtype = "f64" }):requires_grad_(true)
    k(x):sum():backward()
    assert.allclose((x:detach():square() * 3):totable(), x.grad:totable(), { rtol = 1e-12 })
  end)

  it("third derivatives", function()
    local k = kernel("const double *x, double *y",
      "double v = x[i]; for (int j = 0; j < 3; ++j) v = v * x[i]; y[i] = v;", 2)
    local x = f64 { 0.5, -1.5 }:requires_grad_(true)
    local g = k(x):sum():gradients({ x }, { create_graph = true })[x]
    local h = g:sum():gradients({ x }, { create_graph = true })[x]
    assert.allclose({ 12 * 0.25, 12 * 2.25 }, h:totable(), { rtol = 1e-12 })
    local t = h:sum():gradients({ x }, { create_graph = true })[x]
    assert.allclose({ 12, -36 }, t:totable(), { rtol = 1e-12 })
  end)

  it("third derivatives of an array of two axes", function()
    local k = flame.kernel [[__global__ void k(const double *x, double *y, int n) {
      int i = threadIdx.x;
      if (i < n) y[i] = x[i] * x[i] * x[i] * x[i];
    }]]
    local x = f64 { { 0.5, -1.5 }, { 2, 3 } }:requires_grad_(true)
    local g = k(x):square():sum():gradients({ x }, { create_graph = true })[x]
    local h = g:sum():gradients({ x }, { create_graph = true })[x]
    local t = h:sum():gradients({ x }, { create_graph = true })[x]
    assert.allclose((x:detach() ^ 5 * 336):totable(), t:totable(), { rtol = 1e-12 })
  end)

  it("a product of mixed derivatives: forward over reverse", function()
    local k = kernel("const double *x, const double *w, double *y",
      "y[i] = sin(x[i]) * w[i] * w[i];", 3)
    local x, w = f64(wave(3)), f64(wave(3, 1))
    local _, hv = flame.jvp(function(a)
      return k(a, w):sum():gradients({ a }, { create_graph = true })[a]
    end, x, f64 { 1, 2, 3 })
    assert.allclose((x:sin() * -1 * w * w * f64 { 1, 2, 3 }):totable(), hv:totable(),
      { rtol = 1e-12 })
    -- the second derivative is by w, of a gradient that was requested for x alone
    local a, b = x:detach():requires_grad_(true), w:detach():requires_grad_(true)
    local g = k(a, b):sum():gradients({ a }, { create_graph = true })[a]
    local mixed = g:sum():gradients({ b })[b]
    assert.allclose((x:cos() * 2 * w):totable(), mixed:totable(), { rtol = 1e-12 })
  end)

  it("is not derived for a forward derivative: flame.jvp uses the tangent alone", function()
    local fail_alloc = flame.internal.fail_alloc
    --- How often memory is allocated when a product with a new kernel's derivatives is made.
    local function allocations(product)
      local k = kernel("const double *x, double *y", "y[i] = sin(x[i]) * x[i] * exp(x[i]);", 3)
      local x, v = f64 { 1, 2, 3 }, f64 { 1, 1, 1 }
      flame.eval(x, v)
      local before = fail_alloc(1 << 40, false)
      product(function(a) return k(a):sum() end, x, v)
      return fail_alloc(0) - before
    end
    local second, first = allocations(flame.hvp), allocations(flame.jvp)
    assert(first < 0.8 * second, ("%d allocations, %d for flame.hvp"):format(first, second))
  end)
end)

describe("the gradient through pointers to one or another array", function()
  local cases = {
    { "swapped in shared memory", [[
      __shared__ double a[8], b[8];
      double *now = a, *then = b;
      now[i] = x[i];
      __syncthreads();
      for (int s = 0; s < 5; ++s) {
        then[i] = now[i] + 0.2 * (now[(i + 7) % 8] + now[(i + 1) % 8] - 2 * now[i]) * now[i];
        double *t = now; now = then; then = t;
        __syncthreads();
      }
      y[i] = now[i];]] },
    { "swapped through many rounds", [[
      double p[3] = {x[i], 0.5, 0.1}, q[3];
      double *a = p, *b = q;
      for (int s = 0; s < 41; ++s) {
        for (int k = 0; k < 3; ++k) b[k] = a[k] + 0.05 * sin(a[(k + 1) % 3]) * a[k];
        double *t = a; a = b; b = t;
      }
      y[i] = a[0] * a[1] + p[2];]] },
    { "chosen for atomic sums", "__shared__ double a[4], b[4]; if (i < 4) a[i] = b[i] = 0.0; __syncthreads();\n" ..
      "      double *o = i & 1 ? a : b; atomicAdd(o + i / 2, x[i] * x[i]); __syncthreads();\n" ..
      "      y[i] = a[i / 2] * b[i / 2] * x[i];" },
  }
  for _, c in ipairs(cases) do
    it(c[1], function()
      proof.check(kernel("const double *x, double *y", c[2], 8), { f64(wave(8, 0.3)) })
    end)
  end
end)

describe("a branch that is not taken has no part in the gradient, though its slope is", function()
  local cases = {
    { "of a root below 0", "double r = sqrt(x[i]); y[i] = x[i] > 0.0 ? r : x[i];" },
    { "told by isnan", "double r = sqrt(x[i]); y[i] = isnan(r) ? 2.0 * x[i] : r;" },
    { "of a quotient by 0", "double z = i & 1 ? 0.0 : 1.0, q = x[i] / z; y[i] = z != 0.0 ? q : x[i];" },
    { "of a product with what is infinite",
      "double z = i & 1, f = 1.0 / z, q = x[i] * f; if (z != 0.0) y[i] = q; else y[i] = x[i];" },
    { "of a product with the constant infinity",
      "double q = x[i] * INFINITY; y[i] = i > 7 ? q : x[i];" },
    { "of a quotient by the constant 0", "double q = x[i] / 0.0; y[i] = i > 7 ? q : x[i];" },
    { "of a length at 0", "double u = x[i] - x[i], r = sqrt(u * u); y[i] = x[i] + (r > 0.0 ? u / r : 0.0);" },
    { "in max", "double r = log(-fabs(x[i])); y[i] = fmax(r, x[i] * x[i]) + fmin(x[i], sqrt(-1.0 - x[i] * x[i]));" },
    { "in a sum", "double s = x[i]; s += pow(x[i] - x[i], 0.5); y[i] = 0.0; if (i < 4) y[i] = x[i]; else if (s != s) y[i] = s;" },
  }
  for _, c in ipairs(cases) do
    it(c[1], function()
      proof.check(kernel("const double *x, double *y", c[2], 8), { f64(wave(8)) })
    end)
  end
end)

describe("a value that is replaced has no part in the gradient, though its slope is", function()
  local ROOT <const> = "double u = x[i] - x[i], d = sqrt(u); "
  local cases = {
    { "an integer is made of it", ROOT .. "int p = d > 2.0 ? 1 : 3; d = x[i] * p; y[i] = d;" },
    { "after a quotient, too", "double d = x[i] / (x[i] - x[i]); int p = d > 2.0; d = x[i] * (p + 1); y[i] = d;" },
    { "a loop changes it",
      ROOT .. "while (d < 3.0) d += 1.0; int p = d > 2.0; d = x[i] * (p + 2); y[i] = d;" },
    { "a loop replaces it", ROOT .. "for (int j = 0; j < 3; j++) d = x[i] * j; y[i] = d;" },
    { "in each round of a loop", "double s = 0.0, d; for (int j = 0; j < 3; j++) { d = sqrt(x[i] - x[i]); if (d > 4.0) s += 1.0; d = x[i] * j; s += d; } y[i] = s;" },
    { "a constant function has seen it", ROOT .. "double e = floor(d); d = x[i]; y[i] = d + e;" },
    { "another variable, which is replaced, has it",
      ROOT .. "double e = d * 2.0; e = x[i]; y[i] = e;" },
    { "in a function", "auto f = [](double &r, double a) { r = a / (a - a); int q = r > 3.0; r = a * (q + 2); }; double d; f(d, x[i]); y[i] = d * d;" },
    { "in two fields", "struct { double a, b; } v; v.a = sqrt(x[i] - x[i]); v.b = v.a > 1.0; v.a = x[i]; y[i] = v.a * v.a + v.b;" },
  }
  for _, c in ipairs(cases) do
    it(c[1], function()
      proof.check(kernel("const double *x, double *y", c[2], 8), { f64(wave(8)) })
    end)
  end
end)

-- NVRTC folds (0. / 0.) != (0. / 0.) to false, so generated text must not test for NaN by a != a.
describe("beside a constant that is NaN, a", function()
  local function slopes(body, types, x)
    local k = kernel(("const %s *x, %s *y"):format(types, types), body, 2)
    local at = flame.tensor({ 0.5, -2 }, { dtype = x or "f64", requires_grad = true })
    k(at):sum():backward()
    assert(not k:source("adjoint"):find("%f[%w](%w+) != %1%f[%W]"), "asks for NaN by a comparison")
    return at.grad:double():totable()
  end
  for _, form in ipairs { "fmax(a, 0. / 0.)", "fmax(0. / 0., a)", "fmin(a, 0. / 0.)",
                          "fmin(0. / 0., a)", "max(a, 0. / 0.)", "min(0. / 0., a)",
                          "fmax(a, (double)NAN)", "fmin(fmax(a, 0. / 0.), 0. / 0.)" } do
    it(form .. " has the other operand's slope", function()
      assert.same({ 1, 1 }, slopes("double a = x[i]; y[i] = " .. form .. ";", "double"))
    end)
  end
  for _, form in ipairs { "fmaxf(a, 0.f / 0.f)", "fminf(0.f / 0.f, a)", "max(a, 0.f / 0.f)",
      "fmax(NAN, a)" } do
    it(form .. " of floats has it, too", function()
      assert.same({ 1, 1 }, slopes("float a = x[i]; y[i] = " .. form .. ";", "float", "f32"))
    end)
  end
  for types, dtype in ordered { __half = "f16", __nv_bfloat16 = "bf16" } do
    it("__hmax of " .. types .. " has it, too", function()
      assert.same({ 1, 1 },
        slopes(("%s a = x[i], n = 0.f / 0.f; y[i] = __hmin(__hmax(a, n), n);"):format(types),
          types, dtype))
    end)
  end
  it("fdim has none, and __saturatef its own", function()
    assert.same({ 0, 0 }, slopes("y[i] = fdim(x[i], 0. / 0.) + fdim(0. / 0., x[i]);", "double"))
    assert.same({ 1, 0 }, slopes("y[i] = fmaxf(__saturatef(x[i]), 0.f / 0.f);", "float", "f32"))
  end)
end)

describe("the cotangent of an element that several threads write", function()
  local cases = {                                  -- several threads write one value: no race
    { "an output's first element", "y[0] = x[0] * x[1]; if (i > 0) y[i] = x[i];" },
    { "neighbours' quotient", "y[i / 2] = x[i / 2] * x[i / 2]; if (i < 4) y[4 + i] = x[i];" },
    { "a remainder under a condition", "if (x[0] < 9.0) y[i % 3] = sin(x[i % 3]); if (i > 2) y[i] = x[i];" },
    { "a clamped place", "y[min(i, 5)] = exp(x[min(i, 5)]); if (i > 5) y[i] = 0.0;" },
    { "a shared variable", "__shared__ double m; m = x[0] * x[1]; __syncthreads(); y[i] = m * x[i];" },
    { "a shared variable, again and again", [[
      __shared__ double m;
      double s = 0.0;
      for (int r = 0; r < 3; ++r) {
        m = x[r] * x[r + 1];
        __syncthreads();
        s += m * x[i];
        __syncthreads();
      }
      y[i] = s * s;]] },
    { "a shared table", "__shared__ double w[4]; w[i & 3] = x[i & 3] * x[7]; __syncthreads(); y[i] = w[i % 4] * w[3];" },
  }
  for _, c in ipairs(cases) do
    it("goes to one of them: " .. c[1], function()
      proof.check(kernel("const double *x, double *y", c[2], 8), { f64(wave(8)) })
      local single = kernel("const float *x, float *y", c[2]:gsub("double", "float"), 8)
      local v, u = proof.both_modes(single, { flame.tensor(wave(8)) })
      assert(math.abs(v - u) < 1e-5 * (1 + math.abs(v)))
    end)
  end

  it("is only read where a condition chooses one of them", function()
    for body, exchanged in pairs {
      ["__shared__ double m; if (threadIdx.x == 0) m = x[0] * x[1]; __syncthreads(); y[i] = m * x[i];"] = false,
      ["__shared__ double m; const bool first = !threadIdx.x; if (first && i < 8) m = x[0]; __syncthreads(); y[i] = m * m;"] = false,
      ["__shared__ double m; if (threadIdx.x & 1) m = x[0]; __syncthreads(); y[i] = m * m;"] = true,
      ["y[i / 2 * 2 + i % 2] = x[i] * x[i];"] = false,
      ["if (i > 0) return; y[0] = x[0] * x[1];"] = false,
      ["if (i - 1 > 0) return; y[0] = x[0] * x[1];"] = true,
    } do
      local k = kernel("const double *x, double *y", body, 8)
      proof.check(k, { f64(wave(8)) })
      assert.equal(exchanged, k:source("adjoint"):find("atomicExch", 1, true) ~= nil)
    end
  end)

  it("goes to one of them where the old value is read, too", function()
    local k = kernel("const double *x, double *y", [[
      __shared__ double m;
      m = x[0] * x[0];
      __syncthreads();
      const double a = m * m;
      __syncthreads();
      m = x[1] * a;
      __syncthreads();
      y[i] = a * m * m * x[i];]], 8)
    proof.check(k, { f64(wave(8)) })
  end)

  it("is refused where the old value is needed in a loop that is run again", function()
    local k = kernel("const double *x, double *y, double *z", [[
      double a = 0.5;
      for (int j = 0; j < 3; ++j) {
        y[0] = x[0];
        a = a * y[0] + y[0] * y[0];
      }
      z[i] = a;]], 8, 8, nil, { inout = { "y" } })
    local why = k:report().adjoint.refusal
    assert(why and why:find("line 6 (", 1, true) and why:find("several threads may write", 1, true),
      why)
  end)
end)
