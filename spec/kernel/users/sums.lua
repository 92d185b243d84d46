--- Kernels for reductions, scans, histograms and sorts, as in textbooks and samples.
-- luacheck: no max line length

local lists = dofile("spec/kernel/users/lists.lua")
local each, sum = lists.each, lists.sum

local function zeros(n) return each(n, function() return 0 end) end

--- n sums of consecutive parts of x of 'size' elements each; x has 'count'.
local function parts(x, size, n, count)
  return each(n, function(b)
    return sum(math.min(size, count - b * size), function(i) return x[b * size + i] end)
  end)
end

local function squares(n) return function(t) return { t.f { n }, n } end end

return {
  { "reduction 1: interleaved, threads by remainders", [=[
__global__ void reduce0(float *g_idata, float *g_odata, unsigned int n) {
  extern __shared__ float sdata[];
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  sdata[tid] = (i < n) ? g_idata[i] : 0;
  __syncthreads();
  for (unsigned int s = 1; s < blockDim.x; s *= 2) {
    if ((tid % (2 * s)) == 0) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}]=],
    block = { 16 }, grid = { 3 }, shared = 64, shape = { 3 }, inout = { "g_idata" }, order = 1,
    args = function(t) return { t.f { 40 }, 40 } end,
    want = function(x, n) return x, parts(x, 16, 3, n) end },

  { "reduction 2: interleaved, indices by strides", [=[
__global__ void reduce1(const float *g_idata, float *g_odata, unsigned int n) {
  extern __shared__ float sdata[];
  unsigned int tid = threadIdx.x, i = blockIdx.x * blockDim.x + threadIdx.x;
  sdata[tid] = (i < n) ? g_idata[i] * g_idata[i] : 0;
  __syncthreads();
  for (unsigned int s = 1; s < blockDim.x; s *= 2) {
    int index = 2 * s * tid;
    if (index < blockDim.x) { sdata[index] += sdata[index + s]; }
    __syncthreads();
  }
  if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}]=], block = { 16 }, grid = { 3 }, shared = 64, shape = { 3 }, order = 1, args = squares(40),
    want = function(x, n) return parts(each(n, function(i) return x[i] ^ 2 end), 16, 3, n) end },

  { "reduction 3: the first addition while loading, a template of the block, unrolled with __syncwarp", [=[
template <unsigned int blockSize>
__device__ void warpReduce(float *sdata, unsigned int tid) {
  float v = sdata[tid];
  if (blockSize >= 64) { v += sdata[tid + 32]; __syncwarp(); sdata[tid] = v; __syncwarp(); }
  if (blockSize >= 32) { v += sdata[tid + 16]; __syncwarp(); sdata[tid] = v; __syncwarp(); }
  if (blockSize >= 16) { v += sdata[tid + 8]; __syncwarp(); sdata[tid] = v; __syncwarp(); }
  if (blockSize >= 8) { v += sdata[tid + 4]; __syncwarp(); sdata[tid] = v; __syncwarp(); }
  if (blockSize >= 4) { v += sdata[tid + 2]; __syncwarp(); sdata[tid] = v; __syncwarp(); }
  if (blockSize >= 2) { v += sdata[tid + 1]; __syncwarp(); sdata[tid] = v; __syncwarp(); }
}
template <unsigned int blockSize>
__global__ void reduce6(const float *g_idata, float *g_odata, unsigned int n) {
  __shared__ float sdata[blockSize + 32];
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * (blockSize * 2) + tid;
  unsigned int gridSize = blockSize * 2 * gridDim.x;
  float mySum = 0;
  while (i < n) {
    mySum += g_idata[i];
    if (i + blockSize < n) mySum += g_idata[i + blockSize];
    i += gridSize;
  }
  sdata[tid] = mySum;
  if (tid < 32) sdata[blockSize + tid] = 0.f;
  __syncthreads();
  if (blockSize >= 128) { if (tid < 64) { sdata[tid] += sdata[tid + 64]; } __syncthreads(); }
  if (tid < 32) warpReduce<(blockSize > 64 ? 64 : blockSize)>(sdata, tid);
  if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}]=],
    entry = "reduce6<128>", block = { 128 }, grid = { 1 }, shape = { 1 }, order = 1,
    args = squares(300),
    want = function(x, n) return { [0] = sum(n, function(i) return x[i] end) } end },

  { "reduction 4: the last warp by volatile memory", [=[
__device__ void warpReduce(volatile float *sdata, int tid) {
  sdata[tid] += sdata[tid + 32];
  sdata[tid] += sdata[tid + 16];
  sdata[tid] += sdata[tid + 8];
  sdata[tid] += sdata[tid + 4];
  sdata[tid] += sdata[tid + 2];
  sdata[tid] += sdata[tid + 1];
}
__global__ void reduce(const float *x, float *y, int n) {
  __shared__ float sdata[128];
  const int tid = threadIdx.x;
  sdata[tid] = tid < n ? x[tid] : 0.f;
  __syncthreads();
  if (tid < 32) warpReduce(sdata, tid);
  if (tid == 0) y[0] = sdata[0];
}]=],
    block = { 64 }, grid = { 1 }, shape = { 1 }, args = squares(40),
    want = function(x, n) return { [0] = sum(n, function(i) return x[i] end) } end },

  { "reduction 5: shuffles twice, the remainder of the grid", [=[
template <class T> __device__ __forceinline__ T warpReduceSum(unsigned int mask, T mySum) {
  for (int offset = warpSize / 2; offset > 0; offset /= 2) { mySum += __shfl_down_sync(mask, mySum, offset); }
  return mySum;
}
__global__ void reduce7(const float *__restrict__ g_idata, float *__restrict__ g_odata, unsigned int n) {
  extern __shared__ float sdata[];
  unsigned int tid = threadIdx.x;
  unsigned int gridSize = blockDim.x * gridDim.x;
  unsigned int maskLength = (blockDim.x & 31);
  maskLength = (maskLength > 0) ? (32 - maskLength) : maskLength;
  const unsigned int mask = (0xffffffff) >> maskLength;
  float mySum = 0;
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  while (i < n) { mySum += sinf(g_idata[i]); i += gridSize; }
  mySum = warpReduceSum<float>(mask, mySum);
  if ((tid % warpSize) == 0) { sdata[tid / warpSize] = mySum; }
  __syncthreads();
  const unsigned int shmem_extent = (blockDim.x / warpSize) > 0 ? (blockDim.x / warpSize) : 1;
  if (tid < warpSize) {
    mySum = tid < shmem_extent ? sdata[tid] : 0.f;
    mySum = warpReduceSum<float>(0xffffffff, mySum);
  }
  if (tid == 0) { g_odata[blockIdx.x] = mySum; }
}]=],
    block = { 64 }, grid = { 2 }, shared = 32, shape = { 2 }, order = 1,
    args = squares(150), tol = 1e-4,
    want = function(x, n)
      return each(2, function(b)
        return sum(n, function(i) return i % 128 // 64 == b and math.sin(x[i]) or 0 end)
      end)
    end },

  { "reduction 6: several loads of four for each thread, Kahan's sum", [=[
__global__ void reduce(const float4 *x, float *y, int n4) {
  __shared__ float s[64];
  float sum = 0.f, lost = 0.f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n4; i += gridDim.x * blockDim.x) {
    const float4 v = x[i];
    const float e[4] = {v.x, v.y, v.z, v.w};
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float a = e[k] - lost, t = __fadd_rn(sum, a);
      lost = __fsub_rn(__fsub_rn(t, sum), a);
      sum = t;
    }
  }
  s[threadIdx.x] = sum;
  __syncthreads();
  #pragma unroll
  for (int d = 32; d >= 1; d >>= 1) {
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
    __syncthreads();
  }
  if (!threadIdx.x) atomicAdd(y, s[0]);
}]=],
    block = { 64 }, grid = { 2 }, shape = { 1 }, order = 1,
    args = function(t) return { t.f { 400 }, 100 } end,
    want = function(x, n) return { [0] = sum(4 * n, function(i) return x[i] end) } end },

  { "reduction 7: a class for shared memory of any type, an operator by a template", [=[
template <class T> struct SharedMemory {
  __device__ inline operator T *() { extern __shared__ int __smem[]; return (T *)__smem; }
  __device__ inline operator const T *() const { extern __shared__ int __smem[]; return (T *)__smem; }
};
template <class T, class Op> __device__ T fold(const T *x, int n, T start, Op op) {
  T *s = SharedMemory<T>();
  T v = start;
  for (int i = threadIdx.x; i < n; i += blockDim.x) v = op(v, x[i]);
  s[threadIdx.x] = v;
  __syncthreads();
  for (int d = blockDim.x / 2; d; d /= 2) {
    if (threadIdx.x < d) s[threadIdx.x] = op(s[threadIdx.x], s[threadIdx.x + d]);
    __syncthreads();
  }
  return s[0];
}
struct LogSum { __device__ float operator()(float a, float b) const { const float m = fmaxf(a, b); return m + logf(expf(a - m) + expf(b - m)); } };
__global__ void k(const float *x, float *y, int n) {
  const float v = fold<float>(x, n, -30.f, LogSum());
  if (threadIdx.x == 0) y[0] = v;
}]=],
    block = { 16 }, grid = { 1 }, shared = 64, shape = { 1 }, order = 1,
    args = squares(21), tol64 = 1e-8,
    want = function(x, n)
      return { [0] = math.log(sum(n, function(i) return math.exp(x[i]) end) + 16 * math.exp(-30)) }
    end },

  { "a mean and a variance of all, pairs merged as Chan does", [=[
struct Moments { float n, mean, m2; };
__device__ Moments merge(Moments a, Moments b) {
  const float n = a.n + b.n;
  if (n == 0.f) return a;
  const float d = b.mean - a.mean;
  return {n, a.mean + d * (b.n / n), a.m2 + b.m2 + d * d * a.n * (b.n / n)};
}
__global__ void variance(const float *x, float *y, int n) {
  __shared__ Moments s[32];
  Moments m = {0.f, 0.f, 0.f};
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    m.n += 1.f;
    const float d = x[i] - m.mean;
    m.mean += d / m.n;
    m.m2 += d * (x[i] - m.mean);
  }
  s[threadIdx.x] = m;
  for (int d = blockDim.x / 2; d > 0; d >>= 1) {
    __syncthreads();
    if (threadIdx.x < d) s[threadIdx.x] = merge(s[threadIdx.x], s[threadIdx.x + d]);
  }
  if (threadIdx.x == 0) { y[0] = s[0].mean; y[1] = s[0].m2 / s[0].n; }
}]=], block = { 32 }, grid = { 1 }, shape = { 2 }, order = 1, args = squares(75),
    want = function(x, n)
      local m = sum(n, function(i) return x[i] end) / n
      return { [0] = m, sum(n, function(i) return (x[i] - m) ^ 2 end) / n }
    end },

  { "the least and the greatest, by a pair of keys in one word", [=[
__device__ __forceinline__ unsigned order(float f) { unsigned u = __float_as_uint(f); return u & 0x80000000u ? ~u : u | 0x80000000u; }
__global__ void arg(const float *x, unsigned long long *best, int n) {
  __shared__ unsigned long long top;
  if (threadIdx.x == 0) top = 0ull;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    atomicMax(&top, (unsigned long long)order(x[i]) << 32 | (0xffffffffu - (unsigned)i));
  __syncthreads();
  if (threadIdx.x == 0) best[0] = 0xffffffffull - (top & 0xffffffffull);
}]=], block = { 32 }, grid = { 1 }, shape = { 1 }, single = true, same = true, args = squares(70),
    want = function(x, n)
      local at = 0
      for i = 1, n - 1 do if x[i] > x[at] then at = i end end
      return { [0] = at }
    end },

  { "a scan of Hillis and Steele in shared memory, then sums of blocks before", [=[
__global__ void scan(const float *in, float *out, float *sums, int n) {
  extern __shared__ float temp[];
  int thid = threadIdx.x, i = blockIdx.x * blockDim.x + thid;
  int pout = 0, pin = 1;
  temp[pout * blockDim.x + thid] = i < n ? in[i] : 0.f;
  __syncthreads();
  for (int offset = 1; offset < blockDim.x; offset *= 2) {
    pout = 1 - pout;
    pin = 1 - pout;
    if (thid >= offset) temp[pout * blockDim.x + thid] = temp[pin * blockDim.x + thid] + temp[pin * blockDim.x + thid - offset];
    else temp[pout * blockDim.x + thid] = temp[pin * blockDim.x + thid];
    __syncthreads();
  }
  if (i < n) out[i] = temp[pout * blockDim.x + thid];
  if (thid == blockDim.x - 1) sums[blockIdx.x] = temp[pout * blockDim.x + thid];
}]=], block = { 8 }, grid = { 3 }, shared = 64, order = 1, args = squares(22),
    want = function(x, n)
      local sums = zeros(n)
      for b = 0, 2 do sums[b] = parts(x, 8, 3, n)[b] end
      return each(n,
        function(i) return sum(i % 8 + 1, function(k) return x[i // 8 * 8 + k] end) end), sums
    end },

  { "an exclusive scan of Blelloch, banks without conflicts", [=[
#define NUM_BANKS 16
#define LOG_NUM_BANKS 4
#define CONFLICT_FREE_OFFSET(n) ((n) >> NUM_BANKS + (n) >> (2 * LOG_NUM_BANKS))
__global__ void prescan(const float *g_idata, float *g_odata, int n) {
  __shared__ float temp[64];
  int thid = threadIdx.x;
  int offset = 1;
  int ai = thid;
  int bi = thid + (n / 2);
  int bankOffsetA = CONFLICT_FREE_OFFSET(ai);
  int bankOffsetB = CONFLICT_FREE_OFFSET(bi);
  temp[ai + bankOffsetA] = g_idata[ai];
  temp[bi + bankOffsetB] = g_idata[bi];
  for (int d = n >> 1; d > 0; d >>= 1) {
    __syncthreads();
    if (thid < d) {
      int ai = offset * (2 * thid + 1) - 1;
      int bi = offset * (2 * thid + 2) - 1;
      ai += CONFLICT_FREE_OFFSET(ai);
      bi += CONFLICT_FREE_OFFSET(bi);
      temp[bi] += temp[ai];
    }
    offset *= 2;
  }
  if (thid == 0) { temp[n - 1 + CONFLICT_FREE_OFFSET(n - 1)] = 0; }
  for (int d = 1; d < n; d *= 2) {
    offset >>= 1;
    __syncthreads();
    if (thid < d) {
      int ai = offset * (2 * thid + 1) - 1;
      int bi = offset * (2 * thid + 2) - 1;
      ai += CONFLICT_FREE_OFFSET(ai);
      bi += CONFLICT_FREE_OFFSET(bi);
      float t = temp[ai];
      temp[ai] = temp[bi];
      temp[bi] += t;
    }
  }
  __syncthreads();
  g_odata[ai] = temp[ai + bankOffsetA];
  g_odata[bi] = temp[bi + bankOffsetB];
}]=], block = { 8 }, grid = { 1 }, order = 1, args = squares(16),
    want = function(x, n)
      return each(n, function(i) return sum(i, function(k) return x[k] end) end)
    end },

  { "a scan of a block by shuffles of warps, carried on over tiles", [=[
__device__ __forceinline__ float warp_scan(float v, int lane) {
  #pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    const float u = __shfl_up_sync(0xffffffffu, v, d);
    if (lane >= d) v += u;
  }
  return v;
}
__global__ void cumsum(const float *x, float *y, int n) {
  __shared__ float sums[2];
  __shared__ float carry;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  float before = 0.f;
  for (int base = 0; base < n; base += blockDim.x) {
    const int i = base + threadIdx.x;
    float v = i < n ? x[i] : 0.f;
    v = warp_scan(v, lane);
    if (lane == 31) sums[warp] = v;
    __syncthreads();
    if (warp > 0) v += sums[0];
    if (threadIdx.x == blockDim.x - 1) carry = v;
    if (i < n) y[i] = before + v;
    __syncthreads();
    before += carry;
  }
}]=], block = { 64 }, grid = { 1 }, order = 1, args = squares(150), tol = 1e-4,
    want = function(x, n)
      return each(n, function(i) return sum(i + 1, function(k) return x[k] end) end)
    end },

  { "a scan of gates: x = a x + b, composed by shuffles", [=[
struct __align__(8) Affine { float a, b; };
__device__ Affine then(const Affine &f, const Affine &g) { return {g.a * f.a, fmaf(g.a, f.b, g.b)}; }
__global__ void gates(const Affine *f, float *h, float h0, int n) {
  const int lane = threadIdx.x;
  Affine v = lane < n ? f[lane] : Affine{1.f, 0.f};
  for (int d = 1; d < 32; d *= 2) {
    Affine u;
    u.a = __shfl_up_sync(~0u, v.a, d);
    u.b = __shfl_up_sync(~0u, v.b, d);
    if (lane >= d) v = then(u, v);
  }
  if (lane < n) h[lane] = v.a * h0 + v.b;
}]=],
    block = { 32 }, grid = { 1 }, shape = { 20 }, order = 1,
    args = function(t) return { t.f { 20, 2 }, 0.5, 20 } end,
    want = function(f, h, n)
      return each(n, function(i) h = f[2 * i] * h + f[2 * i + 1] return h end)
    end },

  { "segments by flags, in a block, with struct operators", [=[
struct Seg {
  float v; int head;
  __device__ friend Seg operator+(const Seg &a, const Seg &b) { Seg r; r.head = a.head | b.head; r.v = b.head ? b.v : a.v + b.v; return r; }
};
__global__ void segscan(const float *x, const int *flag, float *y, int n) {
  __shared__ Seg s[2][32];
  int t = threadIdx.x, src = 0;
  s[0][t] = t < n ? Seg{x[t], flag[t]} : Seg{0.f, 1};
  __syncthreads();
  for (int d = 1; d < 32; d <<= 1, src ^= 1) {
    s[src ^ 1][t] = t >= d ? s[src][t - d] + s[src][t] : s[src][t];
    __syncthreads();
  }
  if (t < n) y[t] = s[src][t].v;
}]=],
    block = { 32 }, grid = { 1 }, order = 1, args = function(t)
      return { t.f { 12 }, t.i { 1, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1, 0 }, 12 }
    end,
    want = function(x, flag, n)
      local s = 0
      return each(n, function(i) s = (flag[i] == 1 and 0 or s) + x[i] return s end)
    end },

  { "a histogram for each warp, then all of them", [=[
#define WARPS 2
#define BINS 8
typedef unsigned int uint;
inline __device__ void addByte(uint *s_WarpHist, uint data, uint threadTag) { atomicAdd(s_WarpHist + data, 1u); }
__global__ void histogram(uint *partial, const uint *data, int n) {
  __shared__ uint s_Hist[WARPS * BINS];
  uint *s_WarpHist = s_Hist + (threadIdx.x >> 5) * BINS;
  #pragma unroll
  for (uint i = 0; i < WARPS * BINS; i += 64) if (threadIdx.x + i < WARPS * BINS) s_Hist[threadIdx.x + i] = 0;
  __syncthreads();
  const uint tag = threadIdx.x << (sizeof(uint) * 8 - 5);
  for (uint pos = blockIdx.x * blockDim.x + threadIdx.x; pos < n; pos += blockDim.x * gridDim.x) {
    uint word = data[pos];
    addByte(s_WarpHist, (word >> 0) & 7u, tag);
    addByte(s_WarpHist, (word >> 8) & 7u, tag);
  }
  __syncthreads();
  for (uint bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
    uint sum = 0;
    for (uint i = 0; i < WARPS; i++) sum += s_Hist[bin + i * BINS];
    partial[blockIdx.x * BINS + bin] = sum;
  }
}]=], block = { 64 }, grid = { 2 }, shape = { 16 }, same = true, args = function(t)
      local list = {}
      for i = 1, 150 do list[i] = i * 2654435761 % 65536 end
      return { t.i(list), 150 }
    end,
    want = function(x, n)
      local h = zeros(16)
      for i = 0, n - 1 do
        local b = i % 128 // 64 * 8
        for _, v in ipairs { x[i] & 7, x[i] >> 8 & 7 } do h[b + v] = h[b + v] + 1 end
      end
      return h
    end },

  { "a sort by bits, scans of ballots, keys with values", [=[
__global__ void radix(const unsigned *keys, const float *vals, unsigned *ks, float *vs, int n) {
  __shared__ unsigned k[2][32];
  __shared__ float v[2][32];
  const int t = threadIdx.x;
  int cur = 0;
  k[0][t] = t < n ? keys[t] : 0xffffffffu;
  v[0][t] = t < n ? vals[t] : 0.f;
  __syncwarp();
  for (int bit = 0; bit < 4; ++bit) {
    const unsigned key = k[cur][t];
    const float val = v[cur][t];
    const bool one = key >> bit & 1u;
    const unsigned ones = __ballot_sync(0xffffffffu, one), below = (1u << t) - 1u;
    const int at = one ? __popc(~ones) + __popc(ones & below) : __popc(~ones & below);
    k[cur ^ 1][at] = key;
    v[cur ^ 1][at] = val;
    __syncwarp();
    cur ^= 1;
  }
  if (t < n) { ks[t] = k[cur][t]; vs[t] = v[cur][t]; }
}]=],
    block = { 32 }, grid = { 1 }, shape = { 9 }, order = 1,
    args = function(t) return { t.i { 7, 3, 9, 3, 0, 12, 7, 1, 3 }, t.f { 9 }, 9 } end,
    want = function(k, v, n)
      local at = {}
      for i = 0, n - 1 do at[i + 1] = i end
      table.sort(at, function(a, b) return k[a] < k[b] or (k[a] == k[b] and a < b) end)
      return each(n, function(i) return k[at[i + 1]] end),
        each(n, function(i) return v[at[i + 1]] end)
    end },

  { "odd and even neighbours exchanged until in order", [=[
__device__ __forceinline__ void compare_swap(float &a, float &b) { if (a > b) { const float t = a; a = b; b = t; } }
__global__ void oddeven(const float *x, float *y, int n) {
  __shared__ float s[64];
  const int t = threadIdx.x;
  if (t < n) s[t] = x[t];
  for (int phase = 0; phase < n; ++phase) {
    __syncthreads();
    const int i = 2 * t + (phase & 1);
    if (i + 1 < n) compare_swap(s[i], s[i + 1]);
  }
  __syncthreads();
  if (t < n) y[t] = s[t];
}]=], block = { 32 }, grid = { 1 }, order = 1, args = squares(11),
    want = function(x, n)
      local s = {}
      for i = 0, n - 1 do s[i + 1] = x[i] end
      table.sort(s)
      return each(n, function(i) return s[i + 1] end)
    end },

  { "a bitonic sort of one row per warp, in registers by shuffles", [=[
__global__ void bitonic(const float *x, float *y, int *at) {
  const int lane = threadIdx.x & 31, row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
  float v = x[row * 32 + lane];
  int id = lane;
  #pragma unroll
  for (int size = 2; size <= 32; size <<= 1)
    #pragma unroll
    for (int stride = size >> 1; stride > 0; stride >>= 1) {
      const float o = __shfl_xor_sync(0xffffffff, v, stride);
      const int oid = __shfl_xor_sync(0xffffffff, id, stride);
      const bool up = (lane & size) == 0, low = (lane & stride) == 0;
      const bool less = o < v || (o == v && oid < id);
      if (less == (up == low)) { v = o; id = oid; }
    }
  y[row * 32 + lane] = v;
  at[row * 32 + lane] = id;
}]=], block = { 64 }, grid = { 1 }, order = 1, args = function(t) return { t.f { 2, 32 } } end,
    want = function(x)
      local y, at = {}, {}
      for r = 0, 1 do
        local s = {}
        for i = 0, 31 do s[i + 1] = i end
        table.sort(s, function(a, b) return x[32 * r + a] < x[32 * r + b] end)
        for i = 0, 31 do y[32 * r + i], at[32 * r + i] = x[32 * r + s[i + 1]], s[i + 1] end
      end
      return y, at
    end },

  { "ranks by counting, one thread per element", [=[
__global__ void rank_sort(const float *__restrict__ a, float *__restrict__ sorted, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int rank = 0;
    for (int j = 0; j < n; j++) rank += (a[j] < a[i]) || (a[j] == a[i] && j < i);
    sorted[rank] = a[i];
  }
}]=], block = { 4 }, grid = { 2 }, order = 1, args = squares(11),
    want = function(x, n)
      local s = {}
      for i = 0, n - 1 do s[i + 1] = x[i] end
      table.sort(s)
      return each(n, function(i) return s[i + 1] end)
    end },

  { "the greatest k of a row, one after the other", [=[
template <int K> __global__ void topk(const float *__restrict__ x, float *__restrict__ values, int *__restrict__ places, int cols) {
  const float *row = x + blockIdx.x * cols;
  const unsigned lane = threadIdx.x;
  unsigned taken = 0u;                     // of this lane's columns
  for (int k = 0; k < K; ++k) {
    float best = -3.4e38f;
    int at = -1;
    for (int c = lane, j = 0; c < cols; c += 32, ++j)
      if (!(taken >> j & 1u) && row[c] > best) { best = row[c]; at = c; }
    for (int o = 16; o > 0; o >>= 1) {
      const float ob = __shfl_xor_sync(0xffffffffu, best, o);
      const int oa = __shfl_xor_sync(0xffffffffu, at, o);
      if (ob > best || (ob == best && oa < at)) { best = ob; at = oa; }
    }
    if (at % 32 == lane) taken |= 1u << at / 32;
    if (lane == 0) { values[blockIdx.x * K + k] = best; places[blockIdx.x * K + k] = at; }
  }
}]=],
    entry = "topk<3>", block = { 32 }, grid = { 2 }, shape = { 2, 3 }, order = 1,
    args = function(t) return { t.f { 2, 40 }, 40 } end,
    want = function(x, cols)
      local v, at = {}, {}
      for r = 0, 1 do
        local s = {}
        for c = 1, cols do s[c] = c - 1 end
        table.sort(s, function(a, b) return x[r * cols + a] > x[r * cols + b] end)
        for k = 0, 2 do v[3 * r + k], at[3 * r + k] = x[r * cols + s[k + 1]], s[k + 1] end
      end
      return v, at
    end },

  { "beams: the best of all continuations, and where they came from", [=[
__global__ void beam_step(const float *score, const float *logp, float *next, int *parent, int *token, int beams, int vocab) {
  __shared__ float s[64];
  __shared__ int id[64];
  const int b = blockIdx.x, all = beams * vocab, t = threadIdx.x;
  s[t] = t < all ? score[b * beams + t / vocab] + logp[b * all + t] : -1e30f;
  id[t] = t;
  __syncthreads();
  for (int k = 0; k < beams; ++k) {
    __shared__ int winner;
    if (t == 0) {
      int w = 0;
      for (int j = 1; j < all; ++j) if (s[j] > s[w]) w = j;
      winner = w;
    }
    __syncthreads();
    if (t == winner) {
      next[b * beams + k] = s[t];
      parent[b * beams + k] = id[t] / vocab;
      token[b * beams + k] = id[t] % vocab;
      s[t] = -1e30f;
    }
    __syncthreads();
  }
}]=],
    block = { 64 }, grid = { 2 }, shape = { 2, 3 }, order = 1,
    args = function(t) return { t.f { 2, 3 }, t.f { 2, 3, 5, low = -3, high = 0 }, 3, 5 } end,
    want = function(score, logp, beams, vocab)
      local next, parent, token = {}, {}, {}
      for b = 0, 1 do
        local s = {}
        for j = 0, beams * vocab - 1 do s[j + 1] = j end
        local function of(j) return score[b * beams + j // vocab] + logp[b * beams * vocab + j] end
        table.sort(s, function(i, j) return of(i) > of(j) end)
        for k = 0, beams - 1 do
          next[b * beams + k], parent[b * beams + k], token[b * beams + k] = of(s[k + 1]),
            s[k + 1] // vocab, s[k + 1] % vocab
        end
      end
      return next, parent, token
    end },
}
