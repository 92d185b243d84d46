--- Kernels whose threads work together in a block: shared tiles, trees, scans, shuffles, votes.

local function rows_of(x, rows, width, f)
  local y = {}
  for r = 0, rows - 1 do
    local row = {}
    for c = 0, width - 1 do row[c] = x[r * width + c] end
    for c, v in pairs(f(row)) do y[r * width + c] = v end
  end
  return y
end

local function softmax(row, width)
  local top, sum, y = -math.huge, 0, {}
  for c = 0, width - 1 do top = math.max(top, row[c]) end
  for c = 0, width - 1 do y[c] = math.exp(row[c] - top) sum = sum + y[c] end
  for c = 0, width - 1 do y[c] = y[c] / sum end
  return y
end

return {
  { "tiled matrix product", [[
#define TILE 4
// C = A * B, row-major
__global__ void matmul(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
                       int M, int N, int K) {
  __shared__ float As[TILE][TILE];
  __shared__ float Bs[TILE][TILE + 1];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;
  float acc = 0.0f;
  for (int t = 0; t < (K + TILE - 1) / TILE; ++t) {
    As[ty][tx] = (row < M && t * TILE + tx < K) ? A[row * K + t * TILE + tx] : 0.0f;
    Bs[ty][tx] = (col < N && t * TILE + ty < K) ? B[(t * TILE + ty) * N + col] : 0.0f;
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < TILE; ++k) acc += As[ty][k] * Bs[k][tx];
    __syncthreads();
  }
  if (row < M && col < N) C[row * N + col] = acc;
}]], block = { 4, 4 }, grid = { 2, 2 }, shape = { 5, 6 },
    args = function(t) return { t.f { 5, 7 }, t.f { 7, 6 }, 5, 6, 7 } end,
    want = function(a, b, m, n, k)
      local c = {}
      for i = 0, m - 1 do
        for j = 0, n - 1 do
          local s = 0
          for l = 0, k - 1 do s = s + a[i * k + l] * b[l * n + j] end
          c[i * n + j] = s
        end
      end
      return c
    end },

  { "transpose through a tile", [[
#define TILE_DIM 8
#define BLOCK_ROWS 2
__global__ void transpose(float *odata, const float *idata, int width, int height) {
  __shared__ float tile[TILE_DIM][TILE_DIM + 1];
  int x = blockIdx.x * TILE_DIM + threadIdx.x;
  int y = blockIdx.y * TILE_DIM + threadIdx.y;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];
  __syncthreads();
  x = blockIdx.y * TILE_DIM + threadIdx.x;
  y = blockIdx.x * TILE_DIM + threadIdx.y;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    if (x < height && y + j < width) odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}]], block = { 8, 2 }, grid = { 2, 2 }, shape = { 9, 11 },
    args = function(t) return { t.f { 11, 9 }, 9, 11 } end,
    want = function(a, w, h)
      local b = {}
      for y = 0, h - 1 do for x = 0, w - 1 do b[x * h + y] = a[y * w + x] end end
      return b
    end },

  { "sum by a tree and one atomic a block", [[
extern "C" __global__ void reduce(const float *g_idata, float *g_odata, unsigned int n) {
  extern __shared__ float sdata[];
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
  float mySum = (i < n) ? g_idata[i] : 0;
  if (i + blockDim.x < n) mySum += g_idata[i + blockDim.x];
  sdata[tid] = mySum;
  __syncthreads();
  for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) sdata[tid] = mySum = mySum + sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) atomicAdd(g_odata, mySum);
}]], block = { 16 }, grid = { 3 }, shared = 16 * 4, shape = { 1 },
    args = function(t) return { t.f { 77 }, 77 } end,
    want = function(x, n)
      local s = 0
      for i = 0, n - 1 do s = s + x[i] end
      return { [0] = s }
    end },

  { "block sum of squares by two levels of shuffles", [[
__inline__ __device__ float warpReduceSum(float val) {
  for (int offset = warpSize / 2; offset > 0; offset /= 2)
    val += __shfl_down_sync(0xffffffff, val, offset);
  return val;
}
__inline__ __device__ float blockReduceSum(float val) {
  static __shared__ float shared[32];
  int lane = threadIdx.x % warpSize;
  int wid = threadIdx.x / warpSize;
  val = warpReduceSum(val);
  if (lane == 0) shared[wid] = val;
  __syncthreads();
  val = (threadIdx.x < blockDim.x / warpSize) ? shared[lane] : 0;
  if (wid == 0) val = warpReduceSum(val);
  return val;
}
__global__ void deviceReduce(const float *in, float *out, int N) {
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += blockDim.x * gridDim.x)
    sum += in[i] * in[i];
  sum = blockReduceSum(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}]], block = { 64 }, grid = { 2 }, shape = { 2 },
    args = function(t) return { t.f { 150 }, 150 } end,
    want = function(x, n)
      local out = { [0] = 0, 0 }
      for i = 0, n - 1 do
        local b = i // 64 % 2
        out[b] = out[b] + x[i] * x[i]
      end
      return out
    end },

  { "softmax, one row per block", [[
__global__ void softmax(const float *x, float *y, int cols) {
  extern __shared__ float buf[];
  const float *row = x + blockIdx.x * cols;
  float *out = y + blockIdx.x * cols;
  float m = -INFINITY;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) m = fmaxf(m, row[c]);
  buf[threadIdx.x] = m;
  __syncthreads();
  for (int s = blockDim.x >> 1; s > 0; s >>= 1) {
    if (threadIdx.x < s) buf[threadIdx.x] = fmaxf(buf[threadIdx.x], buf[threadIdx.x + s]);
    __syncthreads();
  }
  m = buf[0];
  __syncthreads();
  float sum = 0.f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    float e = __expf(row[c] - m);
    out[c] = e;
    sum += e;
  }
  buf[threadIdx.x] = sum;
  __syncthreads();
  for (int s = blockDim.x >> 1; s > 0; s >>= 1) {
    if (threadIdx.x < s) buf[threadIdx.x] += buf[threadIdx.x + s];
    __syncthreads();
  }
  float inv = 1.0f / buf[0];
  for (int c = threadIdx.x; c < cols; c += blockDim.x) out[c] *= inv;
}]], block = { 8 }, grid = { 3 }, shared = 8 * 4,
    args = function(t) return { t.f { 3, 13, low = -3, high = 3 }, 13 } end,
    want = function(x, w) return rows_of(x, 3, w, function(row) return softmax(row, w) end) end },

  { "online softmax, one row per warp", [[
__global__ void softmax_warp(const float *__restrict__ x, float *__restrict__ y, int rows, int cols) {
  int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int lane = threadIdx.x & 31;
  if (warp >= rows) return;
  const float *in = x + (size_t)warp * cols;
  float m = -3.0e38f, s = 0.f;
  for (int c = lane; c < cols; c += 32) {
    float v = in[c];
    float nm = max(m, v);
    s = s * expf(m - nm) + expf(v - nm);
    m = nm;
  }
  for (int d = 16; d >= 1; d >>= 1) {
    float om = __shfl_xor_sync(0xFFFFFFFFu, m, d);
    float os = __shfl_xor_sync(0xFFFFFFFFu, s, d);
    float nm = max(m, om);
    s = s * expf(m - nm) + os * expf(om - nm);
    m = nm;
  }
  for (int c = lane; c < cols; c += 32) y[(size_t)warp * cols + c] = expf(in[c] - m) / s;
}]], block = { 64 }, grid = { 2 },
    args = function(t) return { t.f { 3, 40, low = -2, high = 2 }, 3, 40 } end,
    want = function(x, h, w)
      return rows_of(x, h, w, function(row) return softmax(row, w) end)
    end },

  { "layer norm with weight and bias", [[
__device__ __forceinline__ float warp_sum(float v) {
  #pragma unroll
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
__global__ void __launch_bounds__(32)
layernorm(const float *x, const float *gamma, const float *beta, float *y, float *mean, float *rstd,
          int cols, float eps) {
  const int row = blockIdx.x;
  x += row * cols;
  float s = 0;
  for (int c = threadIdx.x; c < cols; c += 32) s += x[c];
  const float mu = warp_sum(s) / cols;
  float q = 0;
  for (int c = threadIdx.x; c < cols; c += 32) { float d = x[c] - mu; q += d * d; }
  const float r = rsqrtf(warp_sum(q) / (float)cols + eps);
  for (int c = threadIdx.x; c < cols; c += 32)
    y[row * cols + c] = fmaf((x[c] - mu) * r, gamma[c], beta[c]);
  if (threadIdx.x == 0) { mean[row] = mu; rstd[row] = r; }
}]], block = { 32 }, grid = { 3 }, shape = { 3, 35 },
    args = function(t) return { t.f { 3, 35 }, t.f { 35 }, t.f { 35 }, 35, 1e-3 } end,
    want = function(x, g, b, w, eps)
      local mean, rstd = {}, {}
      for i = 0, 104 do mean[i], rstd[i] = 0, 0 end
      local r = -1
      local y = rows_of(x, 3, w, function(row)
        local m, q, out = 0, 0, {}
        r = r + 1
        for c = 0, w - 1 do m = m + row[c] / w end
        for c = 0, w - 1 do q = q + (row[c] - m) ^ 2 / w end
        for c = 0, w - 1 do out[c] = (row[c] - m) / math.sqrt(q + eps) * g[c] + b[c] end
        mean[r], rstd[r] = m, 1 / math.sqrt(q + eps)
        return out
      end)
      return y, mean, rstd
    end },

  { "Blelloch scan", [[
__global__ void prescan(float *g_odata, const float *g_idata, int n) {
  extern __shared__ float temp[];
  int thid = threadIdx.x;
  int offset = 1;
  temp[2*thid] = g_idata[2*thid];
  temp[2*thid+1] = g_idata[2*thid+1];
  for (int d = n>>1; d > 0; d >>= 1) {
    __syncthreads();
    if (thid < d) {
      int ai = offset*(2*thid+1)-1;
      int bi = offset*(2*thid+2)-1;
      temp[bi] += temp[ai];
    }
    offset *= 2;
  }
  if (thid == 0) { temp[n - 1] = 0; }
  for (int d = 1; d < n; d *= 2) {
    offset >>= 1;
    __syncthreads();
    if (thid < d) {
      int ai = offset*(2*thid+1)-1;
      int bi = offset*(2*thid+2)-1;
      float t = temp[ai];
      temp[ai] = temp[bi];
      temp[bi] += t;
    }
  }
  __syncthreads();
  g_odata[2*thid] = temp[2*thid];
  g_odata[2*thid+1] = temp[2*thid+1];
}]], block = { 8 }, grid = { 1 }, shared = 16 * 4,
    args = function(t) return { t.f { 16 }, 16 } end,
    want = function(x, n)
      local y, s = {}, 0
      for i = 0, n - 1 do y[i] = s s = s + x[i] end
      return y
    end },

  { "Hillis-Steele scan with two buffers", [[
__global__ void scan(const float *in, float *out, int n) {
  __shared__ float temp[2 * 16];
  int t = threadIdx.x, pout = 0, pin = 1;
  temp[pout * n + t] = in[t];
  __syncthreads();
  for (int offset = 1; offset < n; offset *= 2) {
    pout = 1 - pout;
    pin = 1 - pout;
    if (t >= offset) temp[pout * n + t] = temp[pin * n + t] + temp[pin * n + t - offset];
    else temp[pout * n + t] = temp[pin * n + t];
    __syncthreads();
  }
  out[t] = temp[pout * n + t];
}]], block = { 16 }, grid = { 1 },
    args = function(t) return { t.f { 16 }, 16 } end,
    want = function(x, n)
      local y, s = {}, 0
      for i = 0, n - 1 do s = s + x[i] y[i] = s end
      return y
    end },

  { "inclusive scan of products in a warp", [[
__global__ void warp_scan(const float *in, float *out) {
  const unsigned lane = threadIdx.x & 31u;
  float v = in[threadIdx.x];
  for (unsigned d = 1; d < 32; d <<= 1) {
    float up = __shfl_up_sync(0xffffffffu, v, d);
    if (lane >= d) v *= up;
  }
  out[threadIdx.x] = v;
}]], block = { 64 }, grid = { 1 },
    args = function(t) return { t.f { 64, low = 0.7, high = 1.3 } } end,
    want = function(x)
      local y = {}
      for i = 0, 63 do y[i] = (i % 32 == 0 and 1 or y[i - 1]) * x[i] end
      return y
    end },

  { "convolution in one dimension with halo", [[
#define R 3
#define BS 16
__constant__ float weights_[2*R+1] = {0.05f, 0.1f, 0.2f, 0.3f, 0.2f, 0.1f, 0.05f};
__global__ void conv1d(const float *in, float *out, int n) {
  __shared__ float s[BS + 2 * R];
  int g = blockIdx.x * BS + threadIdx.x;
  int l = threadIdx.x + R;
  s[l] = g < n ? in[g] : 0.f;
  if (threadIdx.x < R) {
    s[l - R] = g >= R ? in[g - R] : 0.f;
    s[l + BS] = g + BS < n ? in[g + BS] : 0.f;
  }
  __syncthreads();
  if (g >= n) return;
  float r = 0.f;
#pragma unroll
  for (int o = -R; o <= R; o++) r += s[l + o] * weights_[o + R];
  out[g] = r;
}]], block = { 16 },
    args = function(t) return { t.f { 41 }, 41 } end,
    want = function(x, n)
      local w, y = { 0.05, 0.1, 0.2, 0.3, 0.2, 0.1, 0.05 }, {}
      for i = 0, n - 1 do
        y[i] = 0
        for o = -3, 3 do y[i] = y[i] + w[o + 4] * (x[i + o] or 0) end
      end
      return y
    end },

  { "convolution in two dimensions, tile with halo", [[
const int RADIUS = 1;
enum { W = 8, H = 4 };
__global__ void conv2d(const float* __restrict__ img, const float* __restrict__ filt, float* out,
                       int width, int height) {
  __shared__ float tile[H + 2 * RADIUS][W + 2 * RADIUS];
  const int x0 = blockIdx.x * W - RADIUS, y0 = blockIdx.y * H - RADIUS;
  for (int y = threadIdx.y; y < H + 2 * RADIUS; y += H)
    for (int x = threadIdx.x; x < W + 2 * RADIUS; x += W) {
      int gx = min(max(x0 + x, 0), width - 1), gy = min(max(y0 + y, 0), height - 1);
      tile[y][x] = __ldg(&img[gy * width + gx]);
    }
  __syncthreads();
  const int gx = blockIdx.x * W + threadIdx.x, gy = blockIdx.y * H + threadIdx.y;
  if (gx >= width || gy >= height) return;
  float acc = 0.f;
  for (int dy = -RADIUS; dy <= RADIUS; ++dy)
    for (int dx = -RADIUS; dx <= RADIUS; ++dx)
      acc += tile[threadIdx.y + RADIUS + dy][threadIdx.x + RADIUS + dx]
           * filt[(dy + RADIUS) * (2 * RADIUS + 1) + dx + RADIUS];
  out[gy * width + gx] = acc;
}]], block = { 8, 4 }, grid = { 2, 2 }, shape = { 7, 11 },
    args = function(t) return { t.f { 7, 11 }, t.f { 3, 3 }, 11, 7 } end,
    want = function(img, f, w, h)
      local y = {}
      for r = 0, h - 1 do
        for c = 0, w - 1 do
          local s = 0
          for dy = -1, 1 do
            for dx = -1, 1 do
              local a, b = math.min(math.max(r + dy, 0), h - 1),
                math.min(math.max(c + dx, 0), w - 1)
              s = s + img[a * w + b] * f[(dy + 1) * 3 + dx + 1]
            end
          end
          y[r * w + c] = s
        end
      end
      return y
    end },

  { "N-body accelerations, tiles of float4", [[
#define SOFTENING 1e-2f
__device__ float3 bodyBodyInteraction(float3 ai, float4 bi, float4 bj) {
  float3 r;
  r.x = bj.x - bi.x; r.y = bj.y - bi.y; r.z = bj.z - bi.z;
  float distSqr = r.x * r.x + r.y * r.y + r.z * r.z + SOFTENING;
  float invDist = rsqrtf(distSqr);
  float invDistCube = invDist * invDist * invDist;
  float s = bj.w * invDistCube;
  ai.x += r.x * s; ai.y += r.y * s; ai.z += r.z * s;
  return ai;
}
__global__ void integrate(const float4 *pos, float3 *acc, int n) {
  __shared__ float4 sharedPos[4];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float3 a = make_float3(0.0f, 0.0f, 0.0f);
  float4 me = pos[i];
  for (int t = 0; t < n / 4; t++) {
    sharedPos[threadIdx.x] = pos[t * blockDim.x + threadIdx.x];
    __syncthreads();
#pragma unroll 4
    for (unsigned int c = 0; c < blockDim.x; c++) a = bodyBodyInteraction(a, me, sharedPos[c]);
    __syncthreads();
  }
  acc[i] = a;
}]], block = { 4 }, grid = { 2 }, shape = { 8, 3 },
    args = function(t) return { t.f { 8, 4 }, 8 } end,
    want = function(p, n)
      local a = {}
      for i = 0, n - 1 do
        for c = 0, 2 do a[3 * i + c] = 0 end
        for j = 0, n - 1 do
          local r, d = {}, 1e-2
          for c = 0, 2 do r[c] = p[4 * j + c] - p[4 * i + c] d = d + r[c] ^ 2 end
          for c = 0, 2 do a[3 * i + c] = a[3 * i + c] + r[c] * p[4 * j + 3] / d ^ 1.5 end
        end
      end
      return a
    end },

  { "FFT, radix 2 in shared memory", [[
#define N 16
#define LOGN 4
__global__ void fft(const float2 *in, float2 *out) {
  __shared__ float2 s[N];
  const int t = threadIdx.x;
  for (int k = t; k < N; k += blockDim.x) {
    int r = 0;
    for (int b = 0; b < LOGN; ++b) if (k & (1 << b)) r |= 1 << (LOGN - 1 - b);
    s[r] = in[k];
  }
  __syncthreads();
  for (int half = 1; half < N; half <<= 1) {
    int pos = t & (half - 1);
    int i = ((t - pos) << 1) + pos, j = i + half;
    float sn, cs;
    sincosf(-3.14159265358979f * pos / half, &sn, &cs);
    float2 a = s[i], b = s[j], w;
    w.x = b.x * cs - b.y * sn;
    w.y = b.x * sn + b.y * cs;
    s[i] = make_float2(a.x + w.x, a.y + w.y);
    s[j] = make_float2(a.x - w.x, a.y - w.y);
    __syncthreads();
  }
  for (int k = t; k < N; k += blockDim.x) out[k] = s[k];
}]], block = { 8 }, grid = { 1 },
    args = function(t) return { t.f { 16, 2 } } end,
    want = function(x)
      local y = {}
      for k = 0, 15 do
        local re, im = 0, 0
        for j = 0, 15 do
          local a = -2 * math.pi * j * k / 16
          re = re + x[2 * j] * math.cos(a) - x[2 * j + 1] * math.sin(a)
          im = im + x[2 * j] * math.sin(a) + x[2 * j + 1] * math.cos(a)
        end
        y[2 * k], y[2 * k + 1] = re, im
      end
      return y
    end, tol64 = 1e-7 },

  { "argmax of a row by shared pairs", [[
__global__ void argmax_rows(const float *x, float *best, int *where, int cols) {
  __shared__ float v[16];
  __shared__ int ix[16];
  const int t = threadIdx.x;
  float m = -1e30f; int k = -1;
  for (int c = t; c < cols; c += blockDim.x) {
    float a = x[blockIdx.x * cols + c];
    if (a > m) { m = a; k = c; }
  }
  v[t] = m; ix[t] = k;
  __syncthreads();
  for (int s = blockDim.x / 2; s; s >>= 1) {
    if (t < s && v[t + s] > v[t]) { v[t] = v[t + s]; ix[t] = ix[t + s]; }
    __syncthreads();
  }
  if (!t) { best[blockIdx.x] = v[0]; where[blockIdx.x] = ix[0]; }
}]], block = { 16 }, grid = { 3 }, shape = { 3 },
    args = function(t) return { t.f { 3, 40 }, 40 } end,
    want = function(x, w)
      local best, at = {}, {}
      for r = 0, 2 do
        best[r] = -math.huge
        for c = 0, w - 1 do if x[r * w + c] > best[r] then best[r], at[r] = x[r * w + c], c end end
      end
      return best, at
    end },

  { "argmax by shuffles", [[
__global__ void argmax_warp(const float *x, float *best, int *where) {
  float v = x[threadIdx.x]; int i = threadIdx.x;
  for (int d = 16; d > 0; d >>= 1) {
    float ov = __shfl_down_sync(0xffffffff, v, d);
    int oi = __shfl_down_sync(0xffffffff, i, d);
    if (ov > v) { v = ov; i = oi; }
  }
  if (threadIdx.x == 0) { *best = v; where[0] = i; }
}]], block = { 32 }, grid = { 1 }, shape = { 1 },
    args = function(t) return { t.f { 32 } } end,
    want = function(x)
      local b, at = x[0], 0
      for i = 1, 31 do if x[i] > b then b, at = x[i], i end end
      return { [0] = b }, { [0] = at }
    end },

  { "bitonic sort in shared memory", [[
__global__ void bitonic(const float *in, float *out) {
  __shared__ float s[16];
  unsigned int i = threadIdx.x;
  s[i] = in[i];
  __syncthreads();
  for (unsigned int k = 2; k <= 16; k <<= 1) {
    for (unsigned int j = k >> 1; j > 0; j >>= 1) {
      unsigned int ixj = i ^ j;
      if (ixj > i) {
        bool up = (i & k) == 0;
        if ((s[i] > s[ixj]) == up) { float t = s[i]; s[i] = s[ixj]; s[ixj] = t; }
      }
      __syncthreads();
    }
  }
  out[i] = s[i];
}]], block = { 16 }, grid = { 1 },
    args = function(t) return { t.f { 16 } } end,
    want = function(x)
      local list, y = {}, {}
      for i = 0, 15 do list[i + 1] = x[i] end
      table.sort(list)
      for i = 0, 15 do y[i] = list[i + 1] end
      return y
    end },

  { "votes choose what the warp does", [[
__global__ void votes(const float *x, float *y, int *count) {
  const float v = x[threadIdx.x];
  unsigned ballot = __ballot_sync(0xffffffffu, v > 0.f);
  int below = __popc(ballot & ((1u << (threadIdx.x & 31)) - 1));
  bool any = __any_sync(0xffffffffu, v > 0.9f), all = __all_sync(0xffffffffu, v > -2.f);
  float r = v * below;
  if (any) r += v * v;
  if (!all) r = 0;
  __syncwarp();
  y[threadIdx.x] = r;
  count[threadIdx.x] = __popc(ballot) + (any ? 100 : 0) + (int)all * 1000;
}]], block = { 64 }, grid = { 1 },
    args = function(t) return { t.f { 64 } } end,
    want = function(x)
      local y, c = {}, {}
      for w = 0, 1 do
        local n, any = 0, false
        for l = 0, 31 do any = any or x[32 * w + l] > 0.9 end
        for l = 0, 31 do
          local v = x[32 * w + l]
          y[32 * w + l] = v * n + (any and v * v or 0)
          if v > 0 then n = n + 1 end
        end
        for l = 0, 31 do c[32 * w + l] = n + (any and 100 or 0) + 1000 end
      end
      return y, c
    end },

  { "histogram in shared memory, then atomics", [[
#define BINS 8
__global__ void histogram(const float *x, int *hist, int n) {
  __shared__ int local[BINS];
  if (threadIdx.x < BINS) local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int b = (int)floorf((x[i] + 1.0f) * 0.5f * BINS);
    b = b < 0 ? 0 : b >= BINS ? BINS - 1 : b;
    atomicAdd(&local[b], 1);
  }
  __syncthreads();
  if (threadIdx.x < BINS) atomicAdd(hist + threadIdx.x, local[threadIdx.x]);
}]], block = { 32 }, grid = { 2 }, shape = { 8 }, same = true,
    args = function(t) return { t.f { 200 }, 200 } end,
    want = function(x, n)
      local h = {}
      for b = 0, 7 do h[b] = 0 end
      for i = 0, n - 1 do
        local b = math.min(math.max(math.floor((x[i] + 1) * 4), 0), 7)
        h[b] = h[b] + 1
      end
      return h
    end },

  { "weighted histogram of reals", [[
__global__ void splat(const float *x, const float *w, float *hist, int bins, int n) {
  extern __shared__ float local[];
  for (int b = threadIdx.x; b < bins; b += blockDim.x) local[b] = 0.f;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float p = (x[i] + 1.f) * 0.5f * (bins - 1);
    int b = (int)p;
    float f = p - b;
    atomicAdd(&local[b], w[i] * (1.f - f));
    if (b + 1 < bins) atomicAdd(&local[b + 1], w[i] * f);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += blockDim.x) atomicAdd(&hist[b], local[b]);
}]], block = { 16 }, grid = { 3 }, shape = { 6 }, shared = 24,
    args = function(t) return { t.f { 40 }, t.f { 40 }, 6, 40 } end,
    want = function(x, w, bins, n)
      local h = {}
      for b = 0, bins - 1 do h[b] = 0 end
      for i = 0, n - 1 do
        local p = (x[i] + 1) * 0.5 * (bins - 1)
        local b = math.floor(p)
        h[b] = h[b] + w[i] * (1 - p + b)
        if b + 1 < bins then h[b + 1] = h[b + 1] + w[i] * (p - b) end
      end
      return h
    end },

  { "attention of a query a block", [[
__global__ void attention(const float *q, const float *k, const float *v, float *o, int T, int D, float scale) {
  extern __shared__ float s[];
  const int row = blockIdx.x, t = threadIdx.x;
  float dot = 0.f;
  if (t < T) for (int d = 0; d < D; ++d) dot += q[row * D + d] * k[t * D + d];
  s[t] = t < T ? dot * scale : -INFINITY;
  __syncthreads();
  float m = -INFINITY;
  for (int j = 0; j < T; ++j) m = fmaxf(m, s[j]);
  float sum = 0.f;
  for (int j = 0; j < T; ++j) sum += expf(s[j] - m);
  const float p = expf(s[t] - m) / sum;
  __syncthreads();
  s[t] = p;
  __syncthreads();
  for (int d = t; d < D; d += blockDim.x) {
    float a = 0.f;
    for (int j = 0; j < T; ++j) a += s[j] * v[j * D + d];
    o[row * D + d] = a;
  }
}]], block = { 8 }, grid = { 5 }, shape = { 5, 10 }, shared = 32,
    args = function(t) return { t.f { 5, 10 }, t.f { 6, 10 }, t.f { 6, 10 }, 6, 10, 0.4 } end,
    want = function(q, k, v, T, D, scale)
      local o = {}
      for r = 0, 4 do
        local s = {}
        for j = 0, T - 1 do
          s[j] = 0
          for d = 0, D - 1 do s[j] = s[j] + scale * q[r * D + d] * k[j * D + d] end
        end
        local p = softmax(s, T)
        for d = 0, D - 1 do
          o[r * D + d] = 0
          for j = 0, T - 1 do o[r * D + d] = o[r * D + d] + p[j] * v[j * D + d] end
        end
      end
      return o
    end },

  { "heat in shared memory, many steps", [[
__global__ void heat(const float *u0, float *u, float alpha, int steps) {
  __shared__ float s[18];
  int t = threadIdx.x + 1;
  s[t] = u0[threadIdx.x];
  if (threadIdx.x == 0) s[0] = s[17] = 0.f;
  __syncthreads();
  for (int k = 0; k < steps; ++k) {
    float next = s[t] + alpha * (s[t - 1] - 2.f * s[t] + s[t + 1]);
    __syncthreads();
    s[t] = next;
    __syncthreads();
  }
  u[threadIdx.x] = s[t];
}]], block = { 16 }, grid = { 1 },
    args = function(t) return { t.f { 16 }, t.f { 1, low = 0.1, high = 0.3 }, 50 } end,
    want = function(u, alpha, steps)
      for _ = 1, steps do
        local n = {}
        for i = 0, 15 do n[i] = u[i] + alpha[0] * ((u[i - 1] or 0) - 2 * u[i] + (u[i + 1] or 0)) end
        u = n
      end
      return u
    end },

  { "heat in dynamic shared memory with two halves", [[
__global__ void heat2(const float *u0, float *u, int n, int steps) {
  extern __shared__ float mem[];
  float *cur = mem, *next = mem + n;
  int t = threadIdx.x;
  cur[t] = u0[t];
  __syncthreads();
  for (int k = 0; k < steps; ++k) {
    float left = t > 0 ? cur[t - 1] : 0.f, right = t < n - 1 ? cur[t + 1] : 0.f;
    next[t] = cur[t] + 0.2f * sinf(left - 2.f * cur[t] + right);
    __syncthreads();
    cur[t] = next[t];
    __syncthreads();
  }
  u[t] = cur[t];
}]], block = { 12 }, grid = { 1 }, shared = 96,
    args = function(t) return { t.f { 12 }, 12, 30 } end,
    want = function(u, n, steps)
      for _ = 1, steps do
        local new = {}
        for i = 0, n - 1 do
          new[i] = u[i] + 0.2 * math.sin((u[i - 1] or 0) - 2 * u[i] + (u[i + 1] or 0))
        end
        u = new
      end
      return u
    end },
}
