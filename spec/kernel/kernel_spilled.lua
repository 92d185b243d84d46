--- For kernel_spilled_spec.lua: kernels whose adjoint has much shared memory for each block, and
--- their gradients on a device.
local flame = require "flame"
local kernels = {}

--- A tile that is rewritten in rounds; TILE: its declaration.
local rounds <const> = [[
  __global__ void rounds(const double *x, double *y, int n, int steps) {
    TILE
    const T *row = x + blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = row[i];
    __syncthreads();
    for (int s = 0; s < steps; s++) {
      for (int i = threadIdx.x; i < n; i += blockDim.x)
        tile[i] = tile[i] * tile[i] * 0.5 + 0.3 * s * tile[i];
      __syncthreads();
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x)
      y[blockIdx.x * n + i] = tile[n - 1 - i] * tile[i];
  }]]
local function rounds_of(type, tile, o)
  o.source = rounds:gsub("T %*row", type .. " *row"):gsub("double %*", type .. " *")
    :gsub("TILE", tile)
  o.dtype, o.blocks, o.numbers = type == "double" and "f64" or "f32", 2, { o.n, 5 }
  return o
end

kernels.doubles = rounds_of("double", "extern __shared__ double tile[];",
  { n = 10000, threads = 512, shared = 80000 })
kernels.floats = rounds_of("float", "__shared__ float tile[10000];", { n = 10000, threads = 512 })
kernels.small = rounds_of("double", "extern __shared__ double tile[];",
  { n = 100, threads = 32, shared = 800 })

--- Two types in one dynamic array, rewritten in rounds.
local function two(n, threads)
  return { n = n, threads = threads, shared = 12 * n, dtype = "f64", coarse = true,
    blocks = 2, numbers = { n }, source = [[
  __global__ void two(const double *x, double *y, int n) {
    extern __shared__ unsigned char memory[];
    double *d = (double *)memory;
    float *f = (float *)(memory + 8 * ]] .. n .. [[);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
      d[i] = x[blockIdx.x * n + i];
      f[i] = (float)i / n;
    }
    __syncthreads();
    for (int s = 0; s < 4; s++) {
      for (int i = threadIdx.x; i < n; i += blockDim.x) {
        f[i] = f[i] + (float)d[i];
        d[i] = d[i] * f[i] * 0.2 + 0.1;
      }
      __syncthreads();
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x)
      y[blockIdx.x * n + i] = d[n - 1 - i] * f[i];
  }]] }
end
kernels.types = two(6000, 512)
kernels.small_types = two(60, 32)

kernels.halves = { n = 100, threads = 32, shared = 600, dtype = "f32", blocks = 3,
  numbers = { 100 }, source = [[
  __global__ void halves(const float *x, float *y, int n) {
    extern __shared__ float s[];
    __half *h = (__half *)(s + n);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
      s[i] = x[blockIdx.x * n + i];
      h[i] = __float2half(s[i] * 0.5f);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
      y[blockIdx.x * n + i] = s[n - 1 - i] * s[i] + __half2float(h[i]);
  }]] }

--- Gradients that threads add to elements of others, and a loop with two arrays.
kernels.neighbours = { n = 100, threads = 32, dtype = "f64", blocks = 3, numbers = { 100, 4 },
  source = [[
  __global__ void neighbours(const double *x, double *y, int n, int steps) {
    __shared__ double a[100], b[100];
    for (int i = threadIdx.x; i < n; i += blockDim.x) a[i] = x[blockIdx.x * n + i];
    __syncthreads();
    for (int s = 0; s < steps; s++) {
      for (int i = threadIdx.x; i < n; i += blockDim.x) b[i] = sin(a[i]) * a[(i + 1) % n];
      __syncthreads();
      for (int i = threadIdx.x; i < n; i += blockDim.x) a[i] = b[i] + 0.5 * b[(i + 7) % n];
      __syncthreads();
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = a[i];
  }]] }

kernels.gathered = { n = 100, threads = 32, shared = 1600, dtype = "f64", blocks = 3,
  numbers = { 100 }, source = [[
  __global__ void gathered(const double *x, double *y, int n) {
    extern __shared__ double s[];
    for (int i = threadIdx.x; i < 2 * n; i += blockDim.x)
      s[i] = x[blockIdx.x * n + i % n] + 0.01 * i;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
      double sum = 0;
      for (int j = 0; j < 5; j++) sum += s[(i * i * 7 + j) % (2 * n)] * s[i / 3];
      y[blockIdx.x * n + i] = sum * s[n];
    }
  }]] }

--- All blocks add to one gradient, in an order that does not show.
kernels.summed = { n = 96, threads = 96, shared = 384, dtype = "f32", blocks = 3,
  numbers = { 96, 5 }, source = [[
  __global__ void summed(const float *x, float *y, int n, int steps) {
    extern __shared__ float s[];
    __shared__ float t[96];
    int i = threadIdx.x;
    s[i] = x[i] * (1 + blockIdx.x) + 1e-3f * x[n + i];
    t[i] = x[2 * n + i];
    __syncthreads();
    for (int k = 0; k < steps; k++) {
      float v = s[n - 1 - i] * t[i];
      __syncthreads();
      s[i] = s[i] * 0.4f + 0.1f * s[i] * s[i];
      t[i] = t[i] * 0.5f + v;
      __syncthreads();
    }
    y[blockIdx.x * n + i] = s[i] * t[n - 1 - i];
  }]] }

--- State of other types: halves, bytes, long integers, flags.
kernels.mixed = { n = 96, threads = 32, dtype = "f32", blocks = 2, numbers = { 96, 5 },
  coarse = true, source = [[
  __global__ void mixed(const float *x, float *y, int n, int steps) {
    __shared__ __half h[96];
    __shared__ signed char at[96];
    __shared__ unsigned long long seed[96];
    __shared__ bool up[96];
    __shared__ float s[96];
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
      s[i] = x[blockIdx.x * n + i];
      h[i] = __float2half(1.0f);
      at[i] = i;
      seed[i] = 1 + i;
      up[i] = i & 1;
    }
    __syncthreads();
    for (int k = 0; k < steps; k++) {
      float v[3];
      int j = 0;
      for (int i = threadIdx.x; i < n; i += blockDim.x, j++)
        v[j] = s[at[i] + 0] * (up[i] ? 1.25f : 0.5f) * __half2float(h[i]) + 0.125f * s[seed[i] % n];
      __syncthreads();
      j = 0;
      for (int i = threadIdx.x; i < n; i += blockDim.x, j++) {
        s[i] = v[j];
        h[i] = __float2half(__half2float(h[i]) * 0.5f + 0.5f * (k & 1));
        at[i] = (at[i] * 5 + k) % n;
        seed[i] = seed[i] * 6364136223846793005ull + 1442695040888963407ull;
        up[i] = !up[i] || i == k;
      }
      __syncthreads();
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = s[i] * s[i];
  }]] }

local made = {}
local spilled = { kernels = kernels }

function spilled.kernel(name)
  local o = kernels[name]
  made[name] = made[name] or flame.kernel { source = o.source, block = { o.threads },
    grid = { o.blocks }, shared = o.shared, shape = { o.blocks * o.n } }
  return made[name]
end

--- n numbers of the kernel's type.
function spilled.row(name, phase, device)
  local o, l = kernels[name], {}
  for i = 1, o.blocks * o.n do l[i] = 0.5 + 0.4 * math.sin(1.7 * i + phase) end
  return flame.tensor(l, { dtype = o.dtype }):to(device or "cpu")
end

function spilled.call(name, x)
  return spilled.kernel(name)(x, table.unpack(kernels[name].numbers))
end

--- The gradient with respect to x of the result times some weights.
function spilled.gradient(name, device)
  local x = spilled.row(name, 0, device):requires_grad_()
  local loss = (spilled.call(name, x) * spilled.row(name, 2, device)):sum()
  loss:backward()
  return x.grad
end

--- How far a is from b, relative to the largest element of b.
function spilled.distance(a, b)
  a, b = a:to("cpu"), b:to("cpu")
  return ((a - b):abs():max() / b:abs():max()):item()
end

return spilled
