--- Gradients of kernels that cut dynamic shared memory in arrays of several types. The parts are
-- proven not to overlap in each launch (src/kernel/facts/views.h); where they may, the gradient is
-- refused. Fixed kernels against differences to second order; random ones
-- (spec/kernel/views_run.lua) against the same text with arrays and against differences, on the
-- CPU and on the fake GPU; and random programs over integers, whose indices must be in the
-- intervals from which the proof is made (spec/kernel/ranges_run.lua). Other programs:
-- VIEWS_SEED=1000 VIEWS_COUNT=500.
local flame = require "flame"
local proof = dofile "spec/kernel/kernel_proof.lua"
local programs = dofile "spec/kernel/views_run.lua"
local ranges = dofile "spec/kernel/ranges_run.lua"
local machine = dofile "spec/support/machine.lua"
local has_gxx = os.execute "g++ --version >/dev/null 2>&1"
local first <const> = math.tointeger(os.getenv "VIEWS_SEED" or 1)
local count <const> = math.tointeger(os.getenv "VIEWS_COUNT" or 60)
local FEW <const> = 8                              -- programs on the fake GPU, compiled by g++
local child <const> = os.getenv "FLAME_PROOF_CHILD"

local THREADS <const> = 6

--- A kernel with this body; S: the declaration of raw as bytes. t is the thread, n = 6, m = 3.
local function kernel(body, options)
  options = options or {}
  options.source = ([[
struct L { int a, b; };
__global__ void k(const double *x, double *y, int n, int m, LAST) {
  const int t = threadIdx.x + blockDim.x * threadIdx.y; double v = 0;
  BODY
  y[t + blockIdx.x * blockDim.x * blockDim.y] = v;
}]]):gsub("LAST", options.last or "const int *at"):gsub("BODY", function()
    return (body:gsub("S;", "extern __shared__ __align__(16) char raw[];", 1))
  end)
  options.last = nil
  options.block, options.grid = options.block or { THREADS }, options.grid or { 1 }
  options.shape, options.shared = options.shape or { THREADS }, options.shared or 400
  return flame.kernel(options)
end

local function wave(n, phase)
  return (flame.arange(n, { dtype = "f64" }) * 1.7 + phase):sin() * 0.7
end

--- The kernel as a function of x, 24 numbers.
local function by_x(k, n, m, last)
  last = last or flame.tensor({ 5, 3, 0, 1, 2, 4 }, { dtype = "i32" })
  return function(x) return k(x, n or 6, m or 3, last) end
end

local cases <const> = {
  { "numbers and then integers", [=[S; double *a = (double *)raw; int *q = (int *)(a + n);
    a[t] = x[t]; q[t] = (t * 5) % 6; __syncthreads(); v = a[q[t]] * a[t] * a[t];]=] },
  { "integers and then numbers", [=[S; int *q = (int *)raw; double *a = (double *)(q + ((n + 1) & ~1));
    q[t] = n - 1 - t; a[t] = sin(x[t]); __syncthreads(); v = a[q[t]] * a[q[q[t]]];]=] },
  { "flags, integers and numbers, by bytes", [=[S; char *f = raw; int *q = (int *)(raw + ((n + 3) / 4) * 4);
    double *a = (double *)(raw + ((n + 3) / 4 * 4 + n * sizeof(int) + 7 & ~7));
    f[t] = t % 2; q[t] = t ^ 1; a[t] = x[t]; __syncthreads();
    v = f[q[t]] ? a[q[t]] * a[t] : a[t];]=] },
  { "numbers on both sides of integers", [=[extern __shared__ double s[]; int *q = (int *)(s + n);
    double *b = (double *)(q + 2 * n); s[t] = x[t]; q[t] = (t + 2) % n; b[t] = x[t + 6] * x[t]; __syncthreads();
    v = s[q[t]] * b[q[t]] + b[t] * s[t];]=] },
  { "a rounded size_t", [=[S; int *q = (int *)raw; double *a = (double *)(raw + ((n * sizeof(int) + 7) & ~(size_t)7));
    q[t] = n - 1 - t; a[t] = x[t] * x[t]; __syncthreads(); v = a[q[t]] * x[t];]=] },
  { "vectors and integers", [=[S; double2 *a = (double2 *)raw; int2 *q = (int2 *)(a + blockDim.x);
    a[t] = make_double2(x[t], x[t + 6]); q[t] = make_int2(5 - t, (t + 1) % 6); __syncthreads();
    v = a[q[t].x].x * a[q[t].y].y;]=] },
  { "an array that is overwritten beside integers", [=[S; double *a = (double *)raw; int *q = (int *)(a + n);
    a[t] = x[t]; q[t] = t; __syncthreads();
    for (int r = 0; r < m; r++) {
      double b = a[(q[t] + 1) % n] * a[t]; __syncthreads();
      a[t] = sin(b + r); q[t] = (q[t] + 1) % n; __syncthreads();
    }
    v = a[t] * x[q[t]];]=] },
  { "a sum by halving steps, and flags after it", [=[extern __shared__ double s[]; char *f = (char *)(s + blockDim.x);
    s[t] = x[t] * x[t + 6]; f[t] = t < 4; __syncthreads();
    for (int d = 4; d > 0; d /= 2) { if (t < d && t + d < n) s[t] += s[t + d] * s[t]; __syncthreads(); }
    v = f[(t + 1) % n] ? s[0] * x[t] : x[t];]=] },
  { "prefix sums between integers", [=[S; int *q = (int *)raw; double *a = (double *)(q + 6); int *r = (int *)(a + n);
    q[t] = t; r[t] = 5 - t; a[t] = x[t]; __syncthreads();
    for (int d = 1; d < n; d *= 2) {
      double b = t >= d ? a[t - d] * a[t] : a[t]; __syncthreads(); a[t] = b; __syncthreads();
    }
    v = a[q[t]] * a[r[t]];]=] },
  { "threads that leave", [=[S; double *a = (double *)raw; int *q = (int *)(a + m);
    if (t < m) a[t] = x[t]; q[t] = t % m; __syncthreads();
    if (t >= m + 2) return; v = a[q[t]] * a[q[(t + 1) % m]];]=] },
  { "sizes in a struct", [=[S; double *a = (double *)raw; int *q = (int *)(a + l.a);
    if (t < l.a) a[t] = x[t] * x[t]; if (t < l.b) q[t] = t % l.a; __syncthreads();
    v = a[q[t % l.b]] * x[t];]=],
    last = "L l", given = { a = 5, b = 4 } },
  { "a flag by the block's condition", [=[S; double *a = (double *)raw; int *q = (int *)(a + n);
    const bool in = t < n && x[t] < 100; if (in) { a[t] = x[t]; q[t] = t; } __syncthreads();
    if (!in) return; v = a[t] * a[q[n - 1 - t]];]=] },
  { "two rows of threads", [=[S; double *a = (double *)raw; int *q = (int *)(a + blockDim.x * blockDim.y);
    const int i = threadIdx.y * blockDim.x + threadIdx.x; a[i] = x[i]; q[i] = 5 - i; __syncthreads();
    v = a[q[i]] * a[(i + 1) % 6];]=], block = { 3, 2 } },
}

describe("dynamic shared memory of several types:", function()
  for _, case in ipairs(cases) do
    it(case[1], function()
      local k <const> = kernel(case[2], { last = case.last, block = case.block })
      proof.check(by_x(k, 6, 3, case.given), { wave(24, 0.3) })
    end)
  end

  it("halves, floats, doubles and integers", function()
    local k <const> = flame.kernel { source = [=[
__global__ void k(const float *x, const float *z, float *y, int n) {
  extern __shared__ char raw[];
  half *h = (half *)raw;
  float *f = (float *)(h + 2 * n);
  int *q = (int *)(f + n);
  double *d = (double *)(raw + ((12 * n + 7) & ~7));
  const int t = threadIdx.x;
  h[t] = __float2half(x[t]);
  h[n + t] = __float2half(z[t]);
  f[t] = x[t] * z[t];
  q[t] = n - 1 - t;
  d[t] = sin(x[t]);
  __syncthreads();
  y[t] = __half2float(h[q[t]]) * f[t] * f[q[t]] * d[q[t]] + __half2float(h[n + q[t]]) * d[t];
}]=], block = { 8 }, grid = { 1 }, shape = { 8 }, shared = 8 * 20 }
    local whole <const> = flame.tensor { 1, 2, 3, 4, 5, 6, 7, 8 }
    local function gradients(f, dtype)
      local x <const> = whole:to(dtype):requires_grad_()
      local z <const> = (whole * -0.5 + 2):to(dtype):requires_grad_()
      local g <const> = f(x, z):sum():gradients { x, z }
      return flame.cat { g[x], g[z] }:double()
    end
    local got <const> = gradients(function(x, z) return k(x, z, 8) end, "f32")
    local want <const> = gradients(function(x, z)
      local f <const> = x * z
      return x:flip(1) * f * f:flip(1) * x:sin():flip(1) + z:flip(1) * x:sin()
    end, "f64")
    assert(((got - want):abs() / (want:abs() + 1)):max():item() < 1e-5, tostring(got))
  end)

  it("all without a race", function()
    proof.checked("spec/kernel/gradient/kernel_views_spec.lua", "race")
  end)
end)

-- ---- what is refused ----------------------------------------------------------------------------

local function why(k, n, m)
  local x <const> = wave(24, 0.3):requires_grad_()
  local y <const> = by_x(k, n, m)(x)
  local ok, said = pcall(function() return y:sum():gradients { x } end)
  return not ok and said or nil
end

describe("a gradient beside dynamic shared memory of several types is refused", function()
  local function refused(title, body, pattern, options)
    it(title, function()
      local said <const> = why(kernel(body, options))
      assert(said and said:find(pattern), tostring(said))
    end)
  end

  refused("where parts overlap by one element", [=[S; double *a = (double *)raw; int *q = (int *)(a + n - 1);
    a[t] = x[t]; __syncthreads(); q[t] = t; v = a[(t + 1) % 5] * q[t];]=],
    "double %(line %d+, bytes 0 to 47%) and int %(line %d+, bytes 40 to 63%)")
  refused("where one type follows another", [=[S; double *a = (double *)raw; int *q = (int *)raw;
    a[t] = x[t]; __syncthreads(); v = a[5 - t] * a[t]; __syncthreads(); q[t] = t; __syncthreads(); v *= q[5 - t];]=],
    "give all arrays but one a size")
  refused("where an index is read from global memory", [=[S; double *a = (double *)raw; int *q = (int *)(a + n);
    a[t] = x[t]; q[t] = at[t]; __syncthreads(); v = a[q[t]] * a[t];]=],
    "double %(line %d+, bytes 0 to 399, its index has no known bound%)")
  refused("where integers are read as another type", [=[S; float *a = (float *)raw; double *b = (double *)raw;
    b[t] = x[t]; __syncthreads(); v = a[2 * t + 1] * x[t];]=], "double .* and float")
  refused("of a launch alone, that has other numbers", [=[S; double *a = (double *)raw; int *q = (int *)(a + m);
    a[t] = x[t]; __syncthreads(); if (t < m) q[t] = t; v = a[(t + 1) % 6];]=], "double .* and int")

  refused("where an index is stored by one pointer and read by another", [=[S; double *a = (double *)raw + 4;
    ((int *)raw)[t] = t; int *q = (int *)raw; if (t == 0) q[3] = 8; __syncthreads();
    if (t == 0) a[0] = x[0]; __syncthreads(); v = a[0] * x[1]; __syncthreads();
    if (t == 5) { q[((int *)raw)[3]] = 0; q[((int *)raw)[3] + 1] = 0; } __syncthreads(); v += a[0] * x[t];]=],
    "int %(line %d+, bytes %d+ to 39%) and double %(line %d+, bytes 32 to 39%)")
  refused("where an index of unsigned numbers wraps below 0", [=[S; double *a = (double *)raw; unsigned u = t;
    if (t == 0) a[0] = x[0]; __syncthreads(); v = a[0] * x[1]; __syncthreads();
    if (u - 1u > 100u) ((int *)raw)[(u - 1u) >> 31] = 0; __syncthreads(); v += a[0] * x[t];]=],
    "double %(line %d+, bytes 0 to 7%) and int")
  refused("where an index of unsigned numbers wraps above their greatest", [=[S; double *a = (double *)raw; int *q = (int *)raw;
    unsigned w = t - 1u; if (t == 0) a[0] = x[0]; __syncthreads(); v = a[0] * x[1]; __syncthreads();
    if (w + 1u < 4u) q[(w + 1u) * 2u] = 0; __syncthreads(); v += a[0] * x[t];]=],
    "double %(line %d+, bytes 0 to 7%) and int %(line %d+, bytes 0 to 27%)")

  it("and given in a launch where they keep apart", function()
    local k <const> = kernel [=[S; double *a = (double *)raw; int *q = (int *)(a + n);
      if (t < m) a[t] = x[t]; q[t] = (t + 1) % m; __syncthreads(); v = a[q[t]] * a[q[q[t]]];]=]
    assert.is_nil(why(k, 6, 6))
    assert.is_nil(why(k, 3, 3))
    assert.truthy(why(k, 3, 4))
    assert.is_nil(why(k, 4, 4))
  end)

  it("and an index from memory is bounded by a condition", function()
    local k <const> = kernel [=[S; double *a = (double *)raw; int *q = (int *)(a + n);
      a[t] = x[t]; q[t] = at[t]; __syncthreads();
      const int i = q[t]; if (i >= 0 && i < n) v = a[i] * a[t];
      v += a[min(max(at[5 - t], 0), n - 1)] * x[t];]=]
    proof.check(by_x(k), { wave(24, 0.3) })
  end)
end)

if child then return end

describe("random kernels with dynamic shared memory of several types", function()
  local folder
  setup(function() folder = machine.new() end)
  teardown(function() machine.remove(folder) end)

  it("have the gradients of differences, and of arrays", function()
    local compared <const> = programs.run(flame, first, count)
    assert(compared >= 0.7 * count, compared)
  end)

  it("have second derivatives where parts of both half types are overwritten", function()
    assert.equal(1, programs.run(flame, 4059, 1))
  end)

  it("are refused where a part begins an element too early", function()
    local found <const> = programs.run_misfits(flame, first, count)
    assert(found >= 0.2 * count, found)
  end)

  it("have indices in the intervals of the proof", function()
    local reached <const>, bound = ranges.run(flame, first, 3 * count)
    assert(reached >= count and bound >= 0.6 * reached, ("%d, %d"):format(reached, bound))
  end)

  for _, seed in ipairs { 0, first } do
    local title <const> = seed > 0 and "in seed " .. seed or "with all lanes together"
    it("have them on a GPU, threads ordered " .. title, has_gxx and function()
      local said <const> = machine.run(folder, ([[
local flame = require "flame"
local programs = dofile "spec/kernel/views_run.lua"
print(pcall(programs.run, flame, %d, %d))
print(pcall(programs.run_misfits, flame, %d, %d))]]):format(first, FEW, first, FEW),
        ("FAKE_CUDA=\"computes=1 seed=%d\" FLAME_CACHE_DIR=%s/cache TMPDIR=%s"):format(seed, folder,
          folder))
      local compared <const>, found = said:match "^true\t(%d+)\ntrue\t(%d+)\n$"
      assert(compared and math.tointeger(compared) >= 4 and math.tointeger(found) >= 1, said)
    end or function() pending "no g++" end)
  end
end)
