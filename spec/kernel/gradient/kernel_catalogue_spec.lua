--- Kernels whose derivatives other systems get wrong, according to their documentation and issue
--- trackers (titles and comments name them). Here each must agree with central differences in f64,
--- to second order, and forward mode with reverse mode. Runs on the default device: CPU or GPU.
local flame = require "flame"
local proof = dofile("spec/kernel/kernel_proof.lua")

local function f64(list) return flame.tensor(list, { dtype = "f64" }) end
local function i32(list) return flame.tensor(list, { dtype = "i32" }) end

--- A kernel with this body, in which i is the thread's index. It runs as one block of 'threads'.
local function kernel(params, body, threads, shape, more)
  local spec = { source = ("__global__ void k(%s, int n) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n%s\n}")
    :format(params, body), shape = { shape or threads }, grid = { 1 }, block = { threads } }
  for name, v in pairs(more or {}) do spec[name] = v end
  return flame.kernel(spec)
end

local function gradient(f, x)
  x = x:detach():requires_grad_(true)
  return f(x):sum():gradients({ x })[x]:totable()
end

describe("what Warp documents as wrong:", function()
  it("the product in a loop over an array has gradient [4 4 4]", function()
    local k = kernel("const double *x, double *y", [[
      if (i > 0) return;
      double p = 1.0;
      for (int j = 0; j < n; ++j) p = p * x[j];
      y[0] = p;]], 32, 1)
    local function f(x) return k(x, 3) end
    assert.allclose({ 4, 4, 4 }, gradient(f, f64 { 2, 2, 2 }), { rtol = 1e-14 })
    proof.check(f, { f64 { 2, -1.5, 0.5 } })
    assert.allclose({ 0, -3, 0 }, gradient(f, f64 { 1.5, 0, -2 }), { rtol = 1e-14 })
  end)

  local mean = [[
      double sum = 0.0, norm = 0.0;
      for (int j = 0; j < n; ++j) { sum += w[j] * x[j]; norm += w[j]; }]]

  it("the weighted mean has a finite gradient", function()
    local k = kernel("const double *w, const double *x, double *y",
      "if (i > 0) return;\n" .. mean .. "\n y[0] = sum / norm;", 1)
    proof.check(function(w, x) return k(w, x, 4) end,
      { f64 { 0.5, 1, 1.5, 0.25 }, f64 { 1, -2, 3, 4 } })
  end)

  it("the loop in a separate function, with what is not linear inside and outside of it", function()
    for _, last in ipairs { { "sum / norm", "v" }, { "sum", "1.0 / (v + 40.0)" },
        { "sum * sum / norm", "v * v" } } do
      local k = flame.kernel { source = ([[
        __device__ double mean(const double *w, const double *x, int n, double start) {
          %s
          sum += start;
          return %s;
        }
        __global__ void k(const double *w, const double *x, double *y, double start, int n) {
          double v = mean(w, x, n, start);
          y[0] = %s;
        }]]):format(mean, last[1], last[2]), shape = { 1 }, grid = { 1 }, block = { 1 } }
      -- start is added to the sum after the loop: once nothing, once a constant
      for _, start in ipairs { 0.0, 1.25 } do
        proof.check(function(w, x) return k(w, x, start, 4) end,
          { f64 { 0.5, 1, 1.5, 0.25 }, f64 { 1, -2, 3, 4 } })
      end
    end
  end)
end)

describe("Warp's tracker:", function()
  it("a variable from before a loop is used behind it (#1694)", function()
    local k = kernel("const double *x, const double *s, double *y", [[
      if (i >= 3) return;
      double area = x[i] * x[i] + 1.0, force = 0.0;
      for (int j = 0; j < n; ++j) force += s[j] * sin(s[j] * area);
      y[i] = area * force + exp(-area);]], 3)
    for _, n in ipairs { 0, 1, 5 } do
      proof.check(function(x, s) return k(x, s, n) end,
        { f64 { 0.3, -0.7, 1.1 }, f64 { 0.2, 0.4, -0.6, 0.8, 1 } })
    end
  end)

  it("continue in a search for the largest (#1552)", function()
    local k = kernel("const double *c, const double *x, double *y", [[
      if (i >= n) return;
      double best = -1e20;
      for (int p = 0; p < 5; ++p)
        for (int q = 0; q < 5; ++q) {
          double v = c[p * 5 + q];
          if (v == 0.0) continue;
          v = x[i] * v * (p + 1 + 0.37 * q);
          if (v > best) best = v;
        }
      y[i] = best;]], 4)
    local c = {}
    for j = 1, 25 do c[j] = j % 3 == 0 and 0 or math.cos(j * 1.7) end
    proof.check(function(x) return k(f64(c), x, 4) end, { f64 { 0.5, -0.5, 2, -3 } })
    local weights = f64(c)
    local plain, with_gaps = gradient(function(x) return k(weights, x, 4) end,
      f64 { 1, -1, 2, 0.1 }), {}
    for t, x in ipairs { 1, -1, 2, 0.1 } do
      local best
      for j = 1, 25 do
        local d = c[j] * ((j - 1) // 5 + 1 + 0.37 * ((j - 1) % 5))
        if c[j] ~= 0 and (not best or x * d > x * best) then best = d end
      end
      with_gaps[t] = best
    end
    assert.allclose(with_gaps, plain, { rtol = 1e-14 })
  end)

  it("nested loops with bounds from memory along a chain of joints (#1293)", function()
    local k = flame.kernel { source = [[
      struct Q { double w, x, y, z; };
      __device__ Q turn(Q a, double angle, int axis) {
        double h = 0.5 * angle, c = cos(h), s = sin(h);
        double x = axis == 0 ? s : 0.0, y = axis == 1 ? s : 0.0, z = axis == 2 ? s : 0.0;
        Q r;
        r.w = a.w * c - a.x * x - a.y * y - a.z * z;
        r.x = a.w * x + a.x * c + a.y * z - a.z * y;
        r.y = a.w * y - a.x * z + a.y * c + a.z * x;
        r.z = a.w * z + a.x * y - a.y * x + a.z * c;
        return r;
      }
      __global__ void k(const int *first, const int *axis, const double *angle, double *out, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= 2) return;
        Q q;
        q.w = 1.0; q.x = 0.0; q.y = 0.0; q.z = 0.0;
        double reach = 0.0;
        for (int body = 0; body < n; ++body) {
          int start = first[body], stop = first[body + 1];
          for (int j = start; j < stop; ++j) q = turn(q, angle[i * 6 + j], axis[j]);
          reach += q.w * q.x + q.y;
        }
        out[i] = reach * reach + q.z;
      }]], shape = { 2 }, grid = { 1 }, block = { 32 } }
    local first, axis = i32 { 0, 2, 2, 5, 6 }, i32 { 0, 1, 2, 0, 2, 1 }
    proof.check(function(a) return k(first, axis, a, 4) end,
      { f64 { 0.3, -0.4, 0.5, 0.9, -1.2, 0.1, 0.8, 0.2, -0.3, 0.4, 0.6, -0.7 } })
  end)

  it("a value of the loop is used after it has ended (#1740)", function()
    local k = kernel("const double *x, double *y", [[
      if (i >= 3) return;
      double s = x[i], last = 0.0;
      int j = 0;
      for (j = 0; j < n; ++j) { last = s * x[j]; s = s + sin(last); }
      y[i] = s * s * last + j * x[i];]], 3)
    for _, n in ipairs { 0, 1, 3 } do
      proof.check(function(x) return k(x, n) end, { f64 { 0.4, 1.3, -0.8 } })
    end
  end)

  it("a gradient that is kept counts once (retain_grad)", function()
    local double = flame.kernel [[
      __global__ void k(const double *x, double *y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = 2.0 * x[i];
      }]]
    local square = flame.kernel [[
      __global__ void k(const double *x, double *y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = x[i] * x[i];
      }]]
    local x = f64 { 1, 2, 3 }:requires_grad_(true)
    local middle = double(x)
    middle:retain_grad()
    local y = square(middle)
    y:retain_grad()
    local loss = (y * 3):sum() + middle:sum()
    loss:backward()
    assert.same({ 3, 3, 3 }, y.grad:totable())
    assert.same({ 13, 25, 37 }, middle.grad:totable())
    assert.same({ 26, 50, 74 }, x.grad:totable())
  end)
end)

describe("Slang's tracker:", function()
  it("nested loops that are a dense layer, and the layers before it (#13000)", function()
    local k = kernel("const double *x, const double *w, const double *b, double *y", [[
      if (i >= n) return;
      double in[4], out[4];
      for (int r = 0; r < 4; ++r) in[r] = x[i * 4 + r];
      for (int layer = 0; layer < 3; ++layer) {
        for (int r = 0; r < 4; ++r) {
          double s = b[layer * 4 + r];
          for (int c = 0; c < 4; ++c) s += w[(layer * 4 + r) * 4 + c] * in[c];
          out[r] = tanh(s);
        }
        for (int r = 0; r < 4; ++r) in[r] = out[r];
      }
      y[i] = in[0] + 2.0 * in[1] - in[2] * in[3];]], 2)
    local x, w, b = {}, {}, {}
    for j = 1, 8 do x[j] = math.sin(j) end
    for j = 1, 48 do w[j] = 0.6 * math.cos(1.3 * j) end
    for j = 1, 12 do b[j] = 0.1 * math.sin(0.7 * j) end
    proof.check(function(v, a, c) return k(v, a, c, 2) end, { f64(x), f64(w), f64(b) },
      { order = 1 })
    local weights, bias = f64(w), f64(b)
    proof.check(function(v) return k(v, weights, bias, 2) end, { f64(x) })
  end)

  it("do … while, with continue in it (#2914, #2901)", function()
    local k = kernel("const double *x, double *y", [[
      if (i >= n) return;
      double t = x[i];
      int j = 0;
      do {
        j++;
        if (t > 4.0) continue;
        t = t * t + 0.1;
      } while (j < 3);
      y[i] = t;]], 4)
    proof.check(function(x) return k(x, 4) end, { f64 { 2, 0.4, -1.1, 5 } })
    local g = gradient(function(x) return k(x, 4) end, f64 { 2.1, 0, 0, 5 })
    assert.close(4.2, g[1], 1e-12)
    assert.close(1, g[4], 1e-12)
  end)
end)

describe("Taichi's tracker:", function()
  it("two ways to write a sum have one gradient (#8356)", function()
    local straight = kernel("double *x, const double *y",
      "if (i < 5) for (int j = 0; j < n; ++j) x[i] += y[j];", 5, 5, { inout = { "x" } })
    local through = kernel("double *x, const double *y", [[
      if (i < 5) {
        double a = 0.0;
        for (int j = 0; j < n; ++j) a += y[j];
        x[i] += a;
      }]], 5, 5, { inout = { "x" } })
    for _, k in ipairs { straight, through } do
      local x, y = f64 { 0, 0, 0, 0, 0 }:requires_grad_(true), f64 { 1, 2, 3 }:requires_grad_(true)
      local g = k(x, y, 3):sum():gradients { x, y }
      assert.same({ 1, 1, 1, 1, 1 }, g[x]:totable())
      assert.same({ 5, 5, 5 }, g[y]:totable())
      proof.check(function(a, b) return (k(a, b, 3):square()) end,
        { f64 { 1, 2, 3, 4, 5 }, f64 { 0.5, -1, 2 } })
    end
  end)

  it("a value is multiplied in place (#2505)", function()
    local k = kernel("double *x, const double *theta",
      "if (i < n) { double m = x[i]; x[i] = cos(theta[0]) * m; }", 2, 2, { inout = { "x" } })
    proof.check(function(x, theta) return k(x, theta, 2) end, { f64 { 0.7, -2 }, f64 { 0.9 } })
    proof.check(function(x, theta)           -- and once more, over its own result
      return k(k(x, theta, 2), theta, 2)
    end, { f64 { 0.7, -2 }, f64 { 0.9 } })
  end)

  it("branches that depend on values, in a function that returns (#3802)", function()
    local k = flame.kernel [[
      __device__ double frac(double x) {
        double f;
        if (x > 0.) f = x - floor(x);
        else f = x - ceil(x);
        return f;
      }
      __device__ double frac_by_select(double x) { return x > 0. ? x - floor(x) : x - ceil(x); }
      __device__ double frac_by_return(double x) { if (x > 0.) return x - floor(x); return x - ceil(x); }
      __global__ void k(const double *x, double *y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        double a = frac(x[i]), b = frac_by_select(x[i]), c = frac_by_return(x[i]);
        y[i] = a * a + 10.0 * b * b + 100.0 * c * c;
      }]]
    local x = { 1.3, -0.4, -2.7, 0.2, 5.9 }
    proof.check(k, { f64(x) })
    local want = {}
    for i, v in ipairs(x) do want[i] = 222 * (v - (v > 0 and math.floor(v) or math.ceil(v))) end
    assert.allclose(want, gradient(k, f64(x)), { rtol = 1e-12 })
  end)

  it("sums by atomics in a loop over what one thread has (#4412)", function()
    local k = kernel("const double *a, double *f",
      "if (i < n) { double p = a[i] * a[i]; for (int j = 0; j < 5; ++j) atomicAdd(&f[i / 2], p); }", 4, 2)
    proof.check(function(a) return k(a, 4) end, { f64 { 1, 2, 3, 4 } })
    assert.same({ 10, 20, 30, 40 }, gradient(function(a) return k(a, 4) end, f64 { 1, 2, 3, 4 }))
  end)
end)

describe("Dr.Jit's loops:", function()
  local k = kernel("const double *x, double *y", [[
    if (i >= 2) return;
    double v = x[i];
    for (int j = 0; j < n; ++j) v = v * v;
    y[i] = v;]], 2)

  it("squared again and again", function()
    proof.check(function(x) return k(x, 6) end, { f64 { 1.01, 0.97 } }, { eps = 1e-7 })
  end)

  it("any number of iterations without a bound given: 10,000", function()
    local long = kernel("const double *x, double *y", [[
      if (i >= 2) return;
      double v = x[i];
      for (int j = 0; j < n; ++j) v = v + 1e-4 * (v * v - 0.5 * v);
      y[i] = v;]], 2)
    proof.check(function(x) return long(x, 10000) end, { f64 { 0.3, -0.7 } }, { rtol = 1e-3 })
  end)

  it("until a condition on the value, a different number in each thread", function()
    local some = kernel("const double *x, double *y", [[
      if (i >= n) return;
      double v = x[i];
      while (v < 50.0) v = v * v;
      y[i] = v;]], 4)
    proof.check(function(x) return some(x, 4) end, { f64 { 1.05, 1.4, 3, 60 } }, { rtol = 1e-4 })
  end)
end)

describe("Enzyme's tracker:", function()
  local tree = [[
      double v = i < n ? x[i] * x[i] : 0.0;
      for (int d = 16; d > 0; d /= 2) v += %s;
      if (threadIdx.x %% 32 == 0) y[threadIdx.x / 32] = sqrt(v + 1.0);]]

  for name, shuffle in pairs { down = "__shfl_down_sync(0xffffffffu, v, d)",
      xor = "__shfl_xor_sync(0xffffffffu, v, d)" } do
    it("a reduction by shuffles, " .. name .. " (#3452)", function()
      local k = kernel("const double *x, double *y", tree:format(shuffle), 64, 2)
      local x = {}
      for j = 1, 40 do x[j] = math.sin(j) end
      proof.check(function(v) return k(v, 40) end, { f64(x) }, { order = 1 })
      local short = f64(x)[{ { 1, 40 } }]
      local u = (short * 0.5):cos()
      local _, hv = flame.jvp(function(v)
        local _ <close> = flame.enable_grad()
        return k(v, 40):square():sum():gradients({ v }, { create_graph = true })[v]
      end, short, u)
      assert.allclose((u * 2):totable(), hv:totable(), { rtol = 1e-9 })      -- its square is x² + …
    end)
  end
end)

describe("an allocator of slots by integer atomics", function()
  it("is refused or right, never wrong", function()
    local k = kernel("const double *x, double *y, int *count", [[
      if (i < n && x[i] > 0.0) {
        int slot = atomicAdd(count, 1);
        y[slot] = x[i] * x[i];
      }]], 32, 8)
    local x = f64 { 1, -1, 2, -2, 3 }:requires_grad_(true)
    local y, count = k(x, 5)
    assert.equal(3, count[1]:item())
    local ok, g = pcall(function() return y:sum():gradients({ x })[x]:totable() end)
    if ok then
      assert.same({ 2, 0, 4, 0, 6 }, g)
    else
      assert.truthy(g:find("line 4", 1, true), g)
      assert.truthy(g:find("cannot be differentiated", 1, true), g)
    end
  end)
end)

describe("kernels as they are written:", function()
  before_each(function() flame.seed(11) end)
  local function normal(...) return flame.randn({ ... }, { dtype = "f64" }) end

  it("a product of matrices in tiles", function()
    local k = flame.kernel { source = [[
      #define T 4
      __global__ void matmul(const double *a, const double *b, double *c, int m, int n, int depth) {
        __shared__ double sa[T][T], sb[T][T + 1];
        int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
        double s = 0.0;
        for (int t = 0; t < (depth + T - 1) / T; t++) {
          int ca = t * T + threadIdx.x, rb = t * T + threadIdx.y;
          sa[threadIdx.y][threadIdx.x] = row < m && ca < depth ? a[row * depth + ca] : 0.0;
          sb[threadIdx.y][threadIdx.x] = rb < depth && col < n ? b[rb * n + col] : 0.0;
          __syncthreads();
          for (int j = 0; j < T; j++) s += sa[threadIdx.y][j] * sb[j][threadIdx.x];
          __syncthreads();
        }
        if (row < m && col < n) c[row * n + col] = s;
      }]], shape = { 3, 5 }, grid = { 2, 1 }, block = { 4, 4 } }
    local a, b = normal(3, 6), normal(6, 5)
    assert.allclose(a:matmul(b):totable(), k(a, b, 3, 5, 6):totable(), { rtol = 1e-12 })
    proof.check(function(x, y) return k(x, y, 3, 5, 6) end, { a, b })
  end)

  it("a layer norm of rows by warps", function()
    local k = flame.kernel { source = [[
      __device__ double warp_sum(double v) {
        for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffff, v, d);
        return v;
      }
      __global__ void layer_norm(const double *x, const double *gain, double *y, int w) {
        int r = blockIdx.x, t = threadIdx.x;
        double s = 0.0, q = 0.0;
        for (int c = t; c < w; c += 32) s += x[r * w + c];
        double mean = warp_sum(s) / w;
        for (int c = t; c < w; c += 32) { double d = x[r * w + c] - mean; q += d * d; }
        double scale = rsqrt(warp_sum(q) / w + 1e-5);
        for (int c = t; c < w; c += 32) y[r * w + c] = (x[r * w + c] - mean) * scale * gain[c];
      }]], grid = { 2 }, block = { 32 } }
    proof.check(function(x, g) return k(x, g, 7) end, { normal(2, 7), normal(7) })
  end)

  it("a scan in two shared buffers", function()
    local k = flame.kernel { source = [[
      __global__ void scan(const double *x, double *y, int n) {
        __shared__ double s[2][32];
        int t = threadIdx.x, a = 0;
        s[0][t] = t < n ? x[t] * x[t] : 0.0;
        __syncthreads();
        for (int d = 1; d < 32; d *= 2) {
          s[1 - a][t] = t >= d ? s[a][t] + s[a][t - d] : s[a][t];
          a = 1 - a;
          __syncthreads();
        }
        if (t < n) y[t] = s[a][t];
      }]], grid = { 1 }, block = { 32 } }
    local x = f64 { 1, 2, 3, 4, 5 }
    assert.same({ 1, 5, 14, 30, 55 }, k(x):totable())
    proof.check(k, { x })
  end)

  it("forces between all pairs of bodies", function()
    local k = flame.kernel { source = [[
      __global__ void forces(const double *p, double *a, int n) {
        int i = threadIdx.x;
        if (i >= n) return;
        double ax = 0.0, ay = 0.0;
        for (int j = 0; j < n; j++) {
          double dx = p[2 * j] - p[2 * i], dy = p[2 * j + 1] - p[2 * i + 1];
          double r = rsqrt(dx * dx + dy * dy + 0.1);
          r = r * r * r;
          ax += dx * r;
          ay += dy * r;
        }
        a[2 * i] = ax;
        a[2 * i + 1] = ay;
      }]], grid = { 1 }, block = { 32 } }
    proof.check(function(p) return k(p, 4) end, { normal(4, 2) })
  end)

  it("Newton's method until it stands still", function()
    local k = flame.kernel [[
      __global__ void root(const double *x, double *y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        double s = x[i];
        while (fabs(s * s - x[i]) > 1e-14 * x[i]) {
          double t = 0.5 * (s + x[i] / s);
          if (t == s) break;
          s = t;
        }
        y[i] = s;
      }]]
    assert.allclose({ 0.5 / math.sqrt(2), 1 / 6, 0.005 }, gradient(k, f64 { 2, 9, 1e4 }),
      { rtol = 1e-9 })
  end)

  it("a state in global memory, stepped in a loop", function()
    local k = kernel("double *y, const double *x",
      "if (i < 3) for (int j = 0; j < n; j++) y[i] = y[i] * x[j] + sin(y[i]);",
      3, 3, { inout = { "y" } })
    proof.check(function(y, x) return k(y, x, 4) end,
      { f64 { 0.1, 0.2, 0.3 }, f64 { 0.5, 0.6, -0.7, 0.8 } })
  end)
end)
