--- Kernels for neural networks, as users write them: norms, losses, pooling, recurrent cells,
--- optimisers.

local lists = dofile("spec/kernel/users/lists.lua")
local each, sum = lists.each, lists.sum

local function sigmoid(v) return 1 / (1 + math.exp(-v)) end
local function tanh(v) return 2 / (1 + math.exp(-2 * v)) - 1 end

local warp = [=[
#define FULL 0xffffffffu
template <typename T>
__device__ __forceinline__ T warp_sum(T v) {
  #pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(FULL, v, o);
  return v;
}
template <typename T>
__device__ __forceinline__ T warp_max(T v) {
  for (int o = 16; o > 0; o >>= 1) v = max(v, __shfl_xor_sync(FULL, v, o));
  return v;
}
]=]

return {
  { "flash attention, tiles of keys", [=[
template <int BK, int D>
struct Tile { float k[BK][D]; float v[BK][D]; };
constexpr int BK = 4, HEAD = 6;
__global__ void flash(const float *__restrict__ Q, const float *__restrict__ K, const float *__restrict__ V,
                      float *__restrict__ O, int T, float scale) {
  __shared__ Tile<BK, HEAD> s;
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  float q[HEAD], acc[HEAD] = {0.f};
  float m = -INFINITY, l = 0.f;
  if (row < T) for (int d = 0; d < HEAD; ++d) q[d] = Q[row * HEAD + d] * scale;
  for (int t0 = 0; t0 < T; t0 += BK) {
    for (int e = threadIdx.x; e < BK * HEAD; e += blockDim.x) {
      const int j = e / HEAD, d = e % HEAD;
      s.k[j][d] = t0 + j < T ? K[(t0 + j) * HEAD + d] : 0.f;
      s.v[j][d] = t0 + j < T ? V[(t0 + j) * HEAD + d] : 0.f;
    }
    __syncthreads();
    if (row < T)
      for (int j = 0; j < BK && t0 + j <= row; ++j) {
        float dot = 0.f;
        #pragma unroll
        for (int d = 0; d < HEAD; ++d) dot += q[d] * s.k[j][d];
        const float mn = fmaxf(m, dot), c = expf(m - mn), p = expf(dot - mn);
        l = l * c + p;
        for (int d = 0; d < HEAD; ++d) acc[d] = acc[d] * c + p * s.v[j][d];
        m = mn;
      }
    __syncthreads();
  }
  if (row < T) for (int d = 0; d < HEAD; ++d) O[row * HEAD + d] = acc[d] / l;
}]=],
    block = { 4 }, grid = { 3 }, args = function(t)
      return { t.f { 10, 6 }, t.f { 10, 6 }, t.f { 10, 6 }, 10, 0.5 }
    end,
    want = function(q, k, v, T, scale)
      local o = {}
      for r = 0, T - 1 do
        local p, l = {}, 0
        for j = 0, r do
          p[j] = math.exp(scale * sum(6, function(d) return q[6 * r + d] * k[6 * j + d] end))
          l = l + p[j]
        end
        for d = 0, 5 do
          o[6 * r + d] = sum(r + 1, function(j) return p[j] * v[6 * j + d] end) / l
        end
      end
      return o
    end },

  { "cross entropy, one row per warp", warp .. [=[
__global__ void xent(const float *logits, const int *target, float *loss, int C, int rows) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float *x = logits + row * C;
  float m = -FLT_MAX;
  for (int c = lane; c < C; c += 32) m = fmaxf(m, x[c]);
  m = warp_max(m);
  float z = 0.f;
  for (int c = lane; c < C; c += 32) z += expf(x[c] - m);
  z = warp_sum(z);
  if (lane == 0) loss[row] = logf(z) + m - x[target[row]];
}]=], block = { 64 }, grid = { 2 }, shape = { 3 },
    args = function(t) return { t.f { 3, 37, low = -3, high = 3 }, t.i { 5, 36, 0 }, 37, 3 } end,
    want = function(x, target, C, rows)
      return each(rows, function(r)
        return math.log(sum(C, function(c) return math.exp(x[r * C + c]) end))
          - x[r * C + target[r]]
      end)
    end },

  { "rotary embedding of pairs", [=[
__global__ void rope(const float2 *x, float2 *y, int heads, int half_dim, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int j = i % half_dim, pos = i / (half_dim * heads);
  const float theta = pos * powf(10.0f, -(float)j / half_dim);
  float s, c;
  sincosf(theta, &s, &c);
  const float2 v = x[i];
  y[i] = make_float2(v.x * c - v.y * s, v.x * s + v.y * c);
}]=], args = function(t) return { t.f { 3, 2, 8 }, 2, 4, 24 } end,
    want = function(x, heads, half, n)
      local y = {}
      for i = 0, n - 1 do
        local a = i // (half * heads) * 10 ^ (-(i % half) / half)
        y[2 * i] = x[2 * i] * math.cos(a) - x[2 * i + 1] * math.sin(a)
        y[2 * i + 1] = x[2 * i] * math.sin(a) + x[2 * i + 1] * math.cos(a)
      end
      return y
    end },

  { "RMSNorm with a template of the width", warp .. [=[
template <int WIDTH>
__device__ void rms_row(const float *x, const float *w, float *y, float eps) {
  float v[(WIDTH + 31) / 32], ss = 0.f;
  for (int k = 0; k < (WIDTH + 31) / 32; ++k) {
    const int c = k * 32 + threadIdx.x;
    v[k] = c < WIDTH ? x[c] : 0.f;
    ss += v[k] * v[k];
  }
  const float r = rsqrtf(warp_sum(ss) / WIDTH + eps);
  for (int k = 0; k < (WIDTH + 31) / 32; ++k)
    if (k * 32 + threadIdx.x < WIDTH) y[k * 32 + threadIdx.x] = v[k] * r * w[k * 32 + threadIdx.x];
}
__global__ void rms(const float *x, const float *w, float *y) {
  rms_row<50>(x + blockIdx.x * 50, w, y + blockIdx.x * 50, 1e-5f);
}]=],
    block = { 32 }, grid = { 2 }, args = function(t) return { t.f { 2, 50 }, t.f { 50 } } end,
    shape = { 2, 50 },
    want = function(x, w)
      return each(100, function(i)
        local r = i // 50 * 50
        return x[i] * w[i % 50]
          / math.sqrt(sum(50, function(c) return x[r + c] ^ 2 end) / 50 + 1e-5)
      end)
    end },

  { "SwiGLU and gated GELU by an enum", [=[
enum class Gate { Silu, Gelu, Relu };
template <Gate G>
__device__ __forceinline__ float gate(float v) {
  if constexpr (G == Gate::Silu) return v / (1.f + expf(-v));
  else if constexpr (G == Gate::Gelu) return 0.5f * v * (1.f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
  else return fmaxf(v, 0.f);
}
__global__ void glu(const float *x, float *y, int half, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int r = i / half, c = i % half;
  const float a = x[r * 2 * half + c], b = x[r * 2 * half + half + c];
  y[i] = b * (c % 3 == 0 ? gate<Gate::Silu>(a) : c % 3 == 1 ? gate<Gate::Gelu>(a) : gate<Gate::Relu>(a));
}]=], shape = { 3, 6 }, args = function(t) return { t.f { 3, 12, low = -2, high = 2 }, 6, 18 } end,
    want = function(x, half, n)
      return each(n, function(i)
        local r, c = i // half, i % half
        local a, b = x[r * 2 * half + c], x[r * 2 * half + half + c]
        if c % 3 == 0 then return b * a * sigmoid(a) end
        if c % 3 == 2 then return b * math.max(a, 0) end
        return b * 0.5 * a * (1 + tanh(0.7978845608 * (a + 0.044715 * a ^ 3)))
      end)
    end, tol = 5e-5 },

  { "a bias and an activation on four at a time", [=[
__device__ __forceinline__ float softplus(float v) { return v > 20.f ? v : log1pf(expf(v)); }
__global__ void act4(const float *__restrict__ x, const float *__restrict__ bias, float *__restrict__ y, int cols, int n) {
  const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (i >= n) return;
  float v[4];
  *reinterpret_cast<float4 *>(v) = *reinterpret_cast<const float4 *>(x + i);
  #pragma unroll
  for (int k = 0; k < 4; ++k) v[k] = (v[k] + __ldg(&bias[(i + k) % cols])) * tanhf(softplus(v[k]));
  *reinterpret_cast<float4 *>(y + i) = make_float4(v[0], v[1], v[2], v[3]);
}]=], args = function(t) return { t.f { 4, 10 }, t.f { 10 }, 10, 40 } end,
    want = function(x, b, cols, n)
      return each(n, function(i)
        return (x[i] + b[i % cols]) * tanh(math.log(1 + math.exp(x[i])))
      end)
    end },

  { "embedding with positions", [=[
__global__ void embed(const int *ids, const float *wte, const float *wpe, float *out, int T, int C, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const int bt = i / C, c = i - bt * C;
    out[i] = wte[(size_t)ids[bt] * C + c] + wpe[bt % T * C + c];
  }
}]=], block = { 8 }, grid = { 2 }, shape = { 2, 3, 4 },
    args = function(t)
      return { t.i { 4, 0, 4, 2, 1, 4 }, t.f { 5, 4 }, t.f { 3, 4 }, 3, 4, 24 }
    end,
    want = function(ids, wte, wpe, T, C, n)
      return each(n, function(i)
        return wte[ids[i // C] * C + i % C] + wpe[i // C % T * C + i % C]
      end)
    end },

  { "rows scattered into a table by atomics", [=[
__global__ void scatter(const float *g, const int *ids, float *table, float scale, int C, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (ids[i / C] == 0) return;                      // padding
  atomicAdd(table + ids[i / C] * C + i % C, scale * g[i] * g[i]);
}]=],
    shape = { 4, 3 }, args = function(t)
      return { t.f { 5, 3 }, t.i { 1, 3, 0, 1, 1 }, t.f { 1 }, 3, 15 }
    end,
    want = function(g, ids, scale, C, n)
      local y = each(12, function() return 0 end)
      for i = 0, n - 1 do
        local at = ids[i // C] * C + i % C
        if ids[i // C] ~= 0 then y[at] = y[at] + scale[0] * g[i] ^ 2 end
      end
      return y
    end },

  { "convolution with stride and padding, templated", [=[
template <int KH, int KW, int STRIDE, int PAD>
__device__ float conv_at(const float *in, const float *w, int C, int H, int W, int oy, int ox) {
  float acc = 0.f;
  for (int c = 0; c < C; ++c)
    #pragma unroll
    for (int ky = 0; ky < KH; ++ky)
      for (int kx = 0; kx < KW; ++kx) {
        const int iy = oy * STRIDE - PAD + ky, ix = ox * STRIDE - PAD + kx;
        if (iy < 0 || iy >= H || ix < 0 || ix >= W) continue;
        acc = fmaf(in[(c * H + iy) * W + ix], w[(c * KH + ky) * KW + kx], acc);
      }
  return acc;
}
__global__ void conv(const float *in, const float *w, const float *b, float *out, int C, int H, int W, int OH, int OW) {
  const int ox = blockIdx.x * blockDim.x + threadIdx.x, oy = blockIdx.y * blockDim.y + threadIdx.y, k = blockIdx.z;
  if (ox >= OW || oy >= OH) return;
  out[(k * OH + oy) * OW + ox] = b[k] + conv_at<3, 2, 2, 1>(in, w + k * C * 6, C, H, W, oy, ox);
}]=], block = { 4, 4 }, grid = { 1, 1, 3 }, shape = { 3, 3, 3 },
    args = function(t) return { t.f { 2, 5, 4 }, t.f { 3, 2, 3, 2 }, t.f { 3 }, 2, 5, 4, 3, 3 } end,
    want = function(x, w, b, C, H, W, OH, OW)
      return each(27, function(e)
        local k, oy, ox = e // (OH * OW), e // OW % OH, e % OW
        return b[k] + sum(C * 6, function(q)
          local c, iy, ix = q // 6, oy * 2 - 1 + q // 2 % 3, ox * 2 - 1 + q % 2
          return iy >= 0 and iy < H and ix >= 0 and ix < W
            and x[(c * H + iy) * W + ix] * w[k * C * 6 + q] or 0
        end)
      end)
    end },

  { "depthwise convolution, a plane a block in z", [=[
__global__ void depthwise(const float *x, const float *w, float *y, int H, int W) {
  const int c = threadIdx.x, r = threadIdx.y;
  const size_t plane = (size_t)blockIdx.z * H * W;
  float s = 0;
  for (int dy = -1; dy <= 1; dy++)
    for (int dx = -1; dx <= 1; dx++) {
      int yy = r + dy, xx = c + dx;
      bool in = (unsigned)yy < (unsigned)H && (unsigned)xx < (unsigned)W;
      s += in ? x[plane + yy * W + xx] * w[blockIdx.z * 9 + (dy + 1) * 3 + dx + 1] : 0.f;
    }
  y[plane + r * W + c] = s;
}]=],
    block = { 4, 3 }, grid = { 1, 1, 2 },
    args = function(t) return { t.f { 2, 3, 4 }, t.f { 2, 9 }, 3, 4 } end, shape = { 2, 3, 4 },
    want = function(x, w, H, W)
      return each(24, function(e)
        local p, r, c = e // 12, e // 4 % 3, e % 4
        return sum(9, function(k)
          local yy, xx = r + k // 3 - 1, c + k % 3 - 1
          return yy >= 0 and yy < H and xx >= 0 and xx < W
            and x[p * 12 + yy * W + xx] * w[p * 9 + k] or 0
        end)
      end)
    end },

  { "max pooling that keeps where", [=[
__global__ void maxpool(const float *x, float *y, int *where, int H, int W, int OW, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int oy = i / OW, ox = i % OW, best = -1;
  float top = -INFINITY;
  for (int k = 0; k < 9; ++k) {
    int yy = oy * 2 + k / 3, xx = ox * 2 + k % 3;
    if (yy >= H || xx >= W) continue;
    if (float v = x[yy * W + xx]; v > top) { top = v; best = yy * W + xx; }
  }
  y[i] = top;
  where[i] = best;
}]=], shape = { 3, 3 }, args = function(t) return { t.f { 6, 7 }, 6, 7, 3, 9 } end,
    want = function(x, H, W, OW, n)
      local at = each(n, function(i)
        local best
        for k = 0, 8 do
          local yy, xx = i // OW * 2 + k // 3, i % OW * 2 + k % 3
          if yy < H and xx < W and (not best or x[yy * W + xx] > x[best]) then
            best = yy * W + xx
          end
        end
        return best
      end)
      return each(n, function(i) return x[at[i]] end), at
    end },

  { "bilinear upsampling, half-pixel centres", [=[
struct Tap { int a, b; float t; };
__device__ Tap tap(int o, float scale, int size) {
  float s = (o + 0.5f) * scale - 0.5f;
  s = s < 0.f ? 0.f : s;
  Tap r;
  r.a = min((int)s, size - 1);
  r.b = min(r.a + 1, size - 1);
  r.t = s - r.a;
  return r;
}
__global__ void upsample(const float *x, float *y, int h, int w, int H, int W) {
  int X = blockIdx.x * blockDim.x + threadIdx.x, Y = blockIdx.y * blockDim.y + threadIdx.y;
  if (X >= W || Y >= H) return;
  const Tap u = tap(X, (float)w / W, w), v = tap(Y, (float)h / H, h);
  const float *r0 = x + v.a * w, *r1 = x + v.b * w;
  auto lerp = [](float a, float b, float t) { return a + t * (b - a); };
  y[Y * W + X] = lerp(lerp(r0[u.a], r0[u.b], u.t), lerp(r1[u.a], r1[u.b], u.t), v.t);
}]=],
    block = { 8, 8 }, grid = { 1, 1 }, shape = { 5, 7 },
    args = function(t) return { t.f { 2, 3 }, 2, 3, 5, 7 } end, tol = 1e-5,
    want = function(x, h, w, H, W)
      local function tap(o, scale, size)
        local s = math.max((o + 0.5) * scale - 0.5, 0)
        local a = math.min(math.floor(s), size - 1)
        return a, math.min(a + 1, size - 1), s - a
      end
      return each(H * W, function(i)
        local a, b, s = tap(i % W, w / W, w)
        local c, d, t = tap(i // W, h / H, h)
        return (1 - t) * ((1 - s) * x[c * w + a] + s * x[c * w + b])
          + t * ((1 - s) * x[d * w + a] + s * x[d * w + b])
      end)
    end },

  { "LSTM cell", [=[
#define SIGMOID(v) (1.f / (1.f + __expf(-(v))))
__global__ void lstm(const float *gates, const float *c0, float *h, float *c, int H, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int b = i / H, u = i % H;
  const float *g = gates + (size_t)b * 4 * H + u;
  const float in = SIGMOID(g[0]), forget = SIGMOID(g[H]), cell = tanhf(g[2 * H]), out = SIGMOID(g[3 * H]);
  const float now = forget * c0[i] + in * cell;
  c[i] = now;
  h[i] = out * tanhf(now);
}]=],
    shape = { 2, 5 }, args = function(t)
      return { t.f { 2, 20, low = -2, high = 2 }, t.f { 2, 5 }, 5, 10 }
    end,
    want = function(g, c0, H, n)
      local c = each(n, function(i)
        local o = i // H * 4 * H + i % H
        return sigmoid(g[o + H]) * c0[i] + sigmoid(g[o]) * tanh(g[o + 2 * H])
      end)
      return each(n,
        function(i) return sigmoid(g[i // H * 4 * H + i % H + 3 * H]) * tanh(c[i]) end), c
    end },

  { "GRU cell", [=[
__device__ inline float sigmoid(float v) { return 0.5f * tanhf(0.5f * v) + 0.5f; }
__global__ void gru(const float *gi, const float *gh, const float *h0, float *h, int H, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int b = i / H, u = i % H, o = b * 3 * H + u;
  float r = sigmoid(gi[o] + gh[o]);
  float z = sigmoid(gi[o + H] + gh[o + H]);
  float c = tanhf(gi[o + 2 * H] + r * gh[o + 2 * H]);
  h[i] = (1 - z) * c + z * h0[i];
}]=],
    shape = { 2, 4 }, args = function(t)
      return { t.f { 2, 12 }, t.f { 2, 12 }, t.f { 2, 4 }, 4, 8 }
    end,
    want = function(gi, gh, h0, H, n)
      return each(n, function(i)
        local o = i // H * 3 * H + i % H
        local r, z = sigmoid(gi[o] + gh[o]), sigmoid(gi[o + H] + gh[o + H])
        return (1 - z) * tanh(gi[o + 2 * H] + r * gh[o + 2 * H]) + z * h0[i]
      end)
    end },

  { "focal loss, a mean by atomics", [=[
__device__ float block_sum(float v, float *s) {
  s[threadIdx.x] = v;
  __syncthreads();
  for (int d = blockDim.x >> 1; d; d >>= 1) {
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
    __syncthreads();
  }
  return s[0];
}
__global__ void focal(const float *logit, const float *label, float *loss, float alpha, float gamma, int n) {
  __shared__ float s[16];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float l = 0.f;
  if (i < n) {
    float p = 1.f / (1.f + expf(-logit[i]));
    float pt = label[i] > 0.5f ? p : 1.f - p, a = label[i] > 0.5f ? alpha : 1.f - alpha;
    l = -a * powf(1.f - pt, gamma) * logf(fmaxf(pt, 1e-7f));
  }
  l = block_sum(l, s);
  if (!threadIdx.x) atomicAdd(loss, l / n);
}]=], block = { 16 }, grid = { 2 }, shape = { 1 }, args = function(t)
      return { t.f { 21, low = -2, high = 2 }, t.f { 21, low = 0, high = 1 },
        t.f { 1, low = 0.2, high = 0.3 }, 2.0, 21 }
    end,
    want = function(x, y, alpha, gamma, n)
      return { [0] = sum(n, function(i)
        local p, pos = sigmoid(x[i]), y[i] > 0.5
        local pt, a = pos and p or 1 - p, pos and alpha[0] or 1 - alpha[0]
        return -a * (1 - pt) ^ gamma * math.log(pt) / n
      end) }
    end },

  { "triplet loss and cosine similarity", warp .. [=[
__global__ void triplet(const float *a, const float *p, const float *q, float *loss, float *cosine, int D, float margin) {
  const int lane = threadIdx.x, row = blockIdx.x * D;
  float dp = 0, dq = 0, ap = 0, aa = 0, pp = 0;
  for (int d = lane; d < D; d += warpSize) {
    const float u = a[row + d], v = p[row + d], w = q[row + d];
    dp += (u - v) * (u - v), dq += (u - w) * (u - w);
    ap += u * v, aa += u * u, pp += v * v;
  }
  dp = warp_sum(dp), dq = warp_sum(dq), ap = warp_sum(ap), aa = warp_sum(aa), pp = warp_sum(pp);
  if (lane) return;
  loss[blockIdx.x] = fmaxf(sqrtf(dp) - sqrtf(dq) + margin, 0.f);
  cosine[blockIdx.x] = ap * rsqrtf(fmaxf(aa * pp, 1e-12f));
}]=], block = { 32 }, grid = { 3 }, shape = { 3 },
    args = function(t) return { t.f { 3, 40 }, t.f { 3, 40 }, t.f { 3, 40 }, 40, 0.5 } end,
    want = function(a, p, q, D, margin)
      local function dot(x, y, r)
        return sum(D, function(d) return x[r * D + d] * y[r * D + d] end)
      end
      local function dist(x, y, r)
        return math.sqrt(sum(D, function(d) return (x[r * D + d] - y[r * D + d]) ^ 2 end))
      end
      return each(3, function(r) return math.max(dist(a, p, r) - dist(a, q, r) + margin, 0) end),
        each(3, function(r) return dot(a, p, r) / math.sqrt(dot(a, a, r) * dot(p, p, r)) end)
    end },

  { "the best of a row by a warp, value and index", [=[
template <typename T> struct Best { T value; int index; };
template <typename T>
__device__ Best<T> better(const Best<T> &a, const Best<T> &b) {
  return a.value > b.value || (a.value == b.value && a.index < b.index) ? a : b;
}
__global__ void top1(const float *x, float *value, int *index, int cols) {
  Best<float> b = {-INFINITY, cols};
  for (int c = threadIdx.x; c < cols; c += 32) b = better(b, Best<float>{x[blockIdx.x * cols + c], c});
  for (int d = 16; d; d >>= 1) {
    Best<float> o;
    o.value = __shfl_down_sync(0xffffffffu, b.value, d);
    o.index = __shfl_down_sync(0xffffffffu, b.index, d);
    b = better(b, o);
  }
  if (threadIdx.x == 0) { value[blockIdx.x] = b.value * b.value; index[blockIdx.x] = b.index; }
}]=],
    block = { 32 }, grid = { 3 }, shape = { 3 }, args = function(t)
      return { t.f { 3, 45 }, 45 }
    end,
    want = function(x, cols)
      local at = each(3, function(r)
        local best = 0
        for c = 1, cols - 1 do if x[r * cols + c] > x[r * cols + best] then best = c end end
        return best
      end)
      return each(3, function(r) return x[r * cols + at[r]] ^ 2 end), at
    end },

  { "group norm with Welford's sums", [=[
struct Welford {
  float mean = 0.f, m2 = 0.f;
  int n = 0;
  __device__ void add(float v) {
    ++n;
    const float d = v - mean;
    mean += d / n;
    m2 += d * (v - mean);
  }
  __device__ float variance() const { return n ? m2 / n : 0.f; }
};
__global__ void group_norm(const float *x, const float *w, float *y, int per_group, int hw, float eps) {
  const int g = blockIdx.x * blockDim.x + threadIdx.x, from = g * per_group * hw;
  Welford s;
  for (int k = 0; k < per_group * hw; ++k) s.add(x[from + k]);
  const float r = rsqrtf(s.variance() + eps);
  for (int k = 0; k < per_group * hw; ++k) y[from + k] = (x[from + k] - s.mean) * r * w[g * per_group + k / hw];
}]=],
    block = { 2 }, grid = { 1 },
    args = function(t) return { t.f { 4, 5 }, t.f { 4 }, 2, 5, 1e-3 } end, shape = { 4, 5 },
    want = function(x, w, per, hw, eps)
      return each(20, function(i)
        local from, n = i // (per * hw) * per * hw, per * hw
        local m = sum(n, function(k) return x[from + k] end) / n
        local v = sum(n, function(k) return (x[from + k] - m) ^ 2 end) / n
        return (x[i] - m) / math.sqrt(v + eps) * w[i // hw]
      end)
    end },

  { "dropout by a hash of the place", [=[
__device__ __forceinline__ unsigned hash(unsigned x) {
  x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; x ^= x >> 16;
  return x;
}
__global__ void dropout(const float *x, float *y, unsigned char *kept, float p, unsigned seed, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const bool keep = (hash(seed + i) >> 8) * (1.f / 16777216.f) >= p;
  kept[i] = keep;
  y[i] = keep ? x[i] * x[i] / (1.f - p) : 0.f;
}]=], args = function(t) return { t.f { 20 }, 0.3, 77, 20 } end,
    want = function(x, p, seed, n)
      local keep = each(n, function(i)
        local h = seed + i & 0xffffffff
        h = (h ~ h >> 16) * 0x7feb352d & 0xffffffff
        h = (h ~ h >> 15) * 0x846ca68b & 0xffffffff
        return (h ~ h >> 16) >> 8 >= p * 16777216 and 1 or 0
      end)
      return each(n, function(i) return keep[i] * x[i] ^ 2 / (1 - p) end), keep
    end },

  { "two optimisers in one, by a template's flag", [=[
template <bool NESTEROV, typename real>
__device__ void sgd(real &p, real &m, real g, real lr, real mu) {
  m = mu * m + g;
  p -= lr * (NESTEROV ? g + mu * m : m);
}
__global__ void step(float *p, float *m, const float *g, float lr, float mu, float decay, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float d = g[i] + decay * p[i];
  if (i & 1) sgd<true>(p[i], m[i], d, lr, mu);
  else sgd<false>(p[i], m[i], d, lr, mu);
}]=], inout = { "p", "m" }, block = { 4 },
    args = function(t)
      return { t.f { 11 }, t.f { 11 }, t.f { 11 }, t.f { 1, low = 0.1, high = 0.2 }, 0.9, 0.01, 11 }
    end,
    want = function(p, m, g, lr, mu, decay, n)
      for i = 0, n - 1 do
        local d = g[i] + decay * p[i]
        m[i] = mu * m[i] + d
        p[i] = p[i] - lr[0] * (i % 2 == 1 and d + mu * m[i] or m[i])
      end
      return p, m
    end },

  { "a gate that takes the best two of eight", [=[
template <typename T, int N> __device__ void top2(const T (&v)[N], int &a, int &b) {
  a = v[1] > v[0]; b = 1 - a;
  for (int k = 2; k < N; ++k) {
    if (v[k] > v[a]) { b = a; a = k; }
    else if (v[k] > v[b]) b = k;
  }
}
__global__ void gate(const float *x, float *w, int *expert, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float v[8];
  for (int k = 0; k < 8; ++k) v[k] = x[r * 8 + k];
  int a, b;
  top2(v, a, b);
  const float e = expf(v[b] - v[a]);
  w[2 * r] = 1.f / (1.f + e);
  w[2 * r + 1] = e / (1.f + e);
  expert[2 * r] = a;
  expert[2 * r + 1] = b;
}]=], shape = { 5, 2 }, args = function(t) return { t.f { 5, 8 }, 5 } end,
    want = function(x, rows)
      local w, e = {}, {}
      for r = 0, rows - 1 do
        local at = {}
        for k = 0, 7 do at[k + 1] = k end
        table.sort(at, function(p, q) return x[8 * r + p] > x[8 * r + q] end)
        e[2 * r], e[2 * r + 1] = at[1], at[2]
        w[2 * r] = sigmoid(x[8 * r + at[1]] - x[8 * r + at[2]])
        w[2 * r + 1] = 1 - w[2 * r]
      end
      return w, e
    end },

  { "smoothed labels and a KL divergence", [=[
__global__ void kl(const float *logp, const int *target, float *loss, float smooth, int C, int rows) {
  const int r = threadIdx.x;
  if (r >= rows) return;
  const float low = smooth / (C - 1), high = 1.f - smooth;
  float s = 0.f;
  for (int c = 0; c < C; ++c) {
    const float q = c == target[r] ? high : low;
    s += q > 0 ? q * (logf(q) - logp[r * C + c]) : 0;
  }
  loss[r] = s;
}]=], shape = { 3 },
    args = function(t)
      return { t.f { 3, 5, low = -3, high = -1 }, t.i { 1, 4, 0 },
        t.f { 1, low = 0.1, high = 0.2 }, 5, 3 }
    end,
    want = function(x, target, s, C, rows)
      return each(rows, function(r)
        return sum(C, function(c)
          local q = c == target[r] and 1 - s[0] or s[0] / (C - 1)
          return q * (math.log(q) - x[r * C + c])
        end)
      end)
    end },
}
