--- Kernels for training models, as users write them: layers, losses, optimisers, quantisation.
-- luacheck: no max line length

local lists = dofile("spec/kernel/users/lists.lua")
local each, sum = lists.each, lists.sum

local function sigmoid(v) return 1 / (1 + math.exp(-v)) end
local function clamp(v, low, high) return math.max(low, math.min(high, v)) end

return {
  { "Lion: the sign of a blend of moments", [=[
template <typename T> __device__ __forceinline__ T sgn(T v) { return static_cast<T>((v > T(0)) - (v < T(0))); }
extern "C" __global__ void lion(float *__restrict__ p, float *__restrict__ m, const float *__restrict__ g,
                                const float lr, const float b1, const float b2, const float wd, const int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const float gi = __ldg(g + i), mi = m[i];
    const float u = sgn(fmaf(b1, mi, (1.f - b1) * gi));
    p[i] = p[i] * (1.f - lr * wd) - lr * u;
    m[i] = b2 * mi + (1.f - b2) * gi;
  }
}]=], inout = { "p", "m" }, block = { 4 }, grid = { 2 }, args = function(t)
      return { t.f { 11 }, t.f { 11 }, t.f { 11 }, t.f { 1, low = 0.1, high = 0.2 }, 0.75,
        0.5, 0.125, 11 }
    end,
    want = function(p, m, g, lr, b1, b2, wd, n)
      lr = lr[0]
      return each(n, function(i)
        local u = b1 * m[i] + (1 - b1) * g[i]
        return p[i] * (1 - lr * wd) - lr * (u > 0 and 1 or u < 0 and -1 or 0)
      end), each(n, function(i) return b2 * m[i] + (1 - b2) * g[i] end)
    end },

  { "a row to bytes by its largest, and back", [=[
#define WARP 32
#define FULL 0xffffffffu
__global__ void quant(const float *x, signed char *q, float *back, int w) {
  const int lane = threadIdx.x % WARP, row = blockIdx.x;
  float amax = 0.f;
  for (int c = lane; c < w; c += WARP) amax = fmaxf(amax, fabsf(x[row * w + c]));
  #pragma unroll
  for (int o = WARP / 2; o > 0; o >>= 1) amax = fmaxf(amax, __shfl_xor_sync(FULL, amax, o, WARP));
  const float scale = amax / 127.f, inv = amax > 0.f ? __fdividef(127.f, amax) : 0.f;
  for (int c = lane; c < w; c += WARP) {
    const int v = max(-128, min(127, __float2int_rn(x[row * w + c] * inv)));
    q[row * w + c] = static_cast<signed char>(v);
    back[row * w + c] = v * scale;
  }
}]=], block = { 32 }, grid = { 3 }, args = function(t) return { t.f { 3, 40 }, 40 } end, order = 1,
    want = function(x, w)
      local q, back = {}, {}
      for r = 0, 2 do
        local top = 0
        for c = 0, w - 1 do top = math.max(top, math.abs(x[r * w + c])) end
        for c = r * w, r * w + w - 1 do
          q[c] = math.floor(x[c] * 127 / top + 0.5)
          back[c] = q[c] * top / 127
        end
      end
      return q, back
    end },

  { "weights of four bits, eight in a word", [=[
constexpr int kGroup = 8;
template <int BITS> __device__ __forceinline__ int nibble(unsigned w, int k) { return (int)((w >> (BITS * k)) & ((1u << BITS) - 1u)); }
__global__ void gemv_w4(const float *__restrict__ x, const unsigned *__restrict__ w, const float *__restrict__ scale,
                        const unsigned char *__restrict__ zero, float *__restrict__ y, int k, int rows) {
  const int r = blockIdx.x * blockDim.y + threadIdx.y;
  if (r >= rows) return;
  float acc = 0.f;
  for (int g = threadIdx.x; g < k / kGroup; g += blockDim.x) {
    const unsigned word = w[r * (k / kGroup) + g];
    const float s = scale[r * (k / kGroup) + g];
    const int z = zero[r * (k / kGroup) + g];
    const float4 a = *reinterpret_cast<const float4 *>(x + g * kGroup), b = *reinterpret_cast<const float4 *>(x + g * kGroup + 4);
    const float v[kGroup] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    float part = 0.f;
    #pragma unroll
    for (int j = 0; j < kGroup; ++j) part = __fmaf_rn(v[j], (float)(nibble<4>(word, j) - z), part);
    acc = __fmaf_rn(part, s, acc);
  }
  acc += __shfl_down_sync(0xffffffffu, acc, 2, 4);
  acc += __shfl_down_sync(0xffffffffu, acc, 1, 4);
  if (threadIdx.x == 0) y[r] = acc;
}]=], block = { 4, 2 }, grid = { 2 }, shape = { 3 }, args = function(t)
      return { t.f { 40 },
        t.i { 0x12345678, 0x0fedcba9, -559038737, 77, -1, 0x7abcdef0, 3, 9, -2023406815, 12,
          0x5a5a5a5a, 1, 2, 3, 4 }, t.f { 15 },
        t.tensor({ 7, 8, 8, 7, 6, 8, 8, 8, 1, 0, 15, 8, 8, 8, 8 }, "u8"), 40, 3 }
    end,
    want = function(x, w, scale, zero, k, rows)
      return each(rows, function(r)
        return sum(k, function(c)
          local g = r * (k // 8) + c // 8
          return x[c] * ((w[g] >> (4 * (c % 8)) & 15) - zero[g]) * scale[g]
        end)
      end)
    end },

  { "a transducer's lattice by diagonals", [=[
__device__ __forceinline__ float log_add(float a, float b) {
  if (a == -INFINITY) return b;
  if (b == -INFINITY) return a;
  const float m = fmaxf(a, b);
  return m + log1pf(__expf(-fabsf(a - b)));
}
__global__ void rnnt_alpha(const float *blank, const float *emit, float *loss, int T, int U) {
  extern __shared__ float alpha[];
  const int u = threadIdx.x, b = blockIdx.x;
  blank += b * T * U; emit += b * T * U;
  for (int d = 0; d < T + U - 1; ++d) {
    const int t = d - u;
    if (t >= 0 && t < T && u < U) {
      const float skip = t > 0 ? alpha[(t - 1) * U + u] + blank[(t - 1) * U + u] : -INFINITY;
      const float go = u > 0 ? alpha[t * U + u - 1] + emit[t * U + u - 1] : -INFINITY;
      alpha[t * U + u] = d == 0 ? 0.f : log_add(skip, go);
    }
    __syncthreads();
  }
  if (u == 0) loss[b] = -(alpha[T * U - 1] + blank[T * U - 1]);
}]=], block = { 4 }, grid = { 2 }, shared = 60, shape = { 2 }, args = function(t)
      return { t.f { 2, 5, 3, low = -2, high = 0 }, t.f { 2, 5, 3, low = -2, high = 0 }, 5, 3 }
    end,
    want = function(blank, emit, T, U)
      return each(2, function(b)
        local function paths(t, u)                 -- the sum over all paths from (t, u) to the end
          local at, s = b * T * U + t * U + u, 0
          if t == T - 1 and u == U - 1 then return math.exp(blank[at]) end
          if t < T - 1 then s = s + math.exp(blank[at]) * paths(t + 1, u) end
          if u < U - 1 then s = s + math.exp(emit[at]) * paths(t, u + 1) end
          return s
        end
        return -math.log(paths(0, 0))
      end)
    end, tol = 1e-4 },

  { "time mixed with a decay, one channel per thread", [=[
#define MIN_VALUE (-1e38f)
__global__ void wkv(const float *__restrict__ w, const float *__restrict__ u, const float *__restrict__ k,
                    const float *__restrict__ v, float *__restrict__ y, int T, int C) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= C) return;
  const float decay = -expf(w[c]), bonus = u[c];
  float p = 0.f, q = 0.f, o = MIN_VALUE;
  for (int t = 0; t < T; ++t) {
    const int ii = t * C + c;
    const float kk = k[ii], vv = v[ii];
    float no = fmaxf(o, bonus + kk), A = expf(o - no), B = expf(bonus + kk - no);
    y[ii] = (A * p + B * vv) / (A * q + B);
    no = fmaxf(decay + o, kk);
    A = expf(decay + o - no);
    B = expf(kk - no);
    p = A * p + B * vv;
    q = A * q + B;
    o = no;
  }
}]=],
    shape = { 9, 3 }, args = function(t)
      return { t.f { 3 }, t.f { 3 }, t.f { 9, 3 }, t.f { 9, 3 }, 9, 3 }
    end,
    want = function(w, u, k, v, T, C)
      return each(T * C, function(i)
        local t, c, top, low = i // C, i % C, 0, 0
        for s = 0, t do
          local e = math.exp(s == t and u[c] + k[i] or -(t - 1 - s) * math.exp(w[c]) + k[s * C + c])
          top, low = top + e * v[s * C + c], low + e
        end
        return top / low
      end)
    end, tol = 1e-4 },

  { "a hashed grid of features, levels by a template", [=[
template <int DIM> __device__ __forceinline__ unsigned fast_hash(const unsigned (&pos)[DIM]) {
  constexpr unsigned primes[3] = {1u, 2654435761u, 805459861u};
  unsigned h = 0;
  #pragma unroll
  for (int d = 0; d < DIM; ++d) h ^= pos[d] * primes[d];
  return h;
}
template <int DIM, int F>
__global__ void hash_grid(const float *xyz, const float *table, float *out, int levels, unsigned size, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, level = blockIdx.y;
  if (i >= n) return;
  const float scale = exp2f((float)level) * 3.f - 1.f;
  float frac[DIM]; unsigned cell[DIM];
  for (int d = 0; d < DIM; ++d) {
    const float p = fmaf(scale, xyz[i * DIM + d], 0.5f), f = floorf(p);
    cell[d] = (unsigned)(int)f;
    frac[d] = p - f;
  }
  float acc[F] = {};
  for (unsigned corner = 0; corner < (1u << DIM); ++corner) {
    float w = 1.f; unsigned at[DIM];
    for (int d = 0; d < DIM; ++d) {
      if (corner & (1u << d)) { w *= frac[d]; at[d] = cell[d] + 1; }
      else { w *= 1.f - frac[d]; at[d] = cell[d]; }
    }
    const unsigned slot = (fast_hash<DIM>(at) % size + level * size) * F;
    for (int f = 0; f < F; ++f) acc[f] += w * table[slot + f];
  }
  for (int f = 0; f < F; ++f) out[(i * levels + level) * F + f] = acc[f];
}]=], entry = "hash_grid<3, 2>", block = { 8 }, grid = { 1, 2 }, shape = { 4, 2, 2 },
    args = function(t) return { t.f { 4, 3, low = 0, high = 1 }, t.f { 2, 7, 2 }, 2, 7, 4 } end,
    tol = 1e-4, want = function(xyz, tab, levels, size, n)
      local primes = { [0] = 1, 2654435761, 805459861 }
      return each(n * levels * 2, function(e)
        local i, level, f = e // (2 * levels), e // 2 % levels, e % 2
        local s = 0
        for corner = 0, 7 do
          local w, h = 1, 0
          for d = 0, 2 do
            local p = (2 ^ level * 3 - 1) * xyz[3 * i + d] + 0.5
            local c, up = math.floor(p), corner >> d & 1
            w = w * (up == 1 and p - c or 1 - p + c)
            h = h ~ ((c + up) * primes[d] & 0xffffffff)
          end
          s = s + w * tab[(h % size + level * size) * 2 + f]
        end
        return s
      end)
    end },

  { "a small network in registers, weights in shared memory", [=[
template <int IN, int OUT, bool LAST> struct Layer {
  static constexpr int size = IN * OUT + OUT;
  __device__ static void run(const float *w, const float (&in)[IN], float (&out)[OUT]) {
    const float *bias = w + IN * OUT;
    #pragma unroll
    for (int o = 0; o < OUT; ++o) {
      float a = bias[o];
      #pragma unroll
      for (int k = 0; k < IN; ++k) a += w[o * IN + k] * in[k];
      if constexpr (LAST) out[o] = 1.f / (1.f + __expf(-a));
      else out[o] = a > 0.f ? a : 0.1f * a;
    }
  }
};
using First = Layer<2, 4, false>;
using Second = Layer<4, 3, true>;
__global__ void mlp(const float *w, const float *x, float *y, int n) {
  __shared__ float s[First::size + Second::size];
  for (int k = threadIdx.x; k < First::size + Second::size; k += blockDim.x) s[k] = w[k];
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float in[2] = {x[2 * i], x[2 * i + 1]}, mid[4], out[3];
  First::run(s, in, mid);
  Second::run(s + First::size, mid, out);
  for (int o = 0; o < 3; ++o) y[i * 3 + o] = out[o];
}]=],
    block = { 4 }, grid = { 2 }, shape = { 5, 3 },
    args = function(t) return { t.f { 27 }, t.f { 5, 2 }, 5 } end, tol = 1e-4,
    want = function(w, x, n)
      return each(3 * n, function(e)
        local i, o = e // 3, e % 3
        return sigmoid(w[12 + 12 + o] + sum(4, function(m)
          local a = w[8 + m] + w[2 * m] * x[2 * i] + w[2 * m + 1] * x[2 * i + 1]
          return w[12 + 4 * o + m] * (a > 0 and a or 0.1 * a)
        end))
      end)
    end },

  { "windows that wrap, with a bias of relative places", [=[
#define W 2
__global__ void window_bias(const float *q, const float *k, const float *bias, float *score, int H, int shift) {
  const int win = blockIdx.x, a = threadIdx.y, b = threadIdx.x, per = H / W;
  auto source = [&](int t) -> int {
    const int r = ((win / per) * W + t / W + shift) % H, c = ((win % per) * W + t % W + shift) % H;
    return r * H + c;
  };
  const int dy = a / W - b / W + W - 1, dx = a % W - b % W + W - 1;
  float s = bias[dy * (2 * W - 1) + dx];
  s += q[source(a)] * k[source(b)];
  __shared__ float e[W * W][W * W + 1];
  e[a][b] = s;
  __syncthreads();
  float top = e[a][0];
  for (int j = 1; j < W * W; ++j) top = fmaxf(top, e[a][j]);
  float total = 0.f;
  for (int j = 0; j < W * W; ++j) total += __expf(e[a][j] - top);
  score[(win * W * W + a) * W * W + b] = __expf(s - top) / total;
}
#undef W]=],
    block = { 4, 4 }, grid = { 4 }, shape = { 4, 4, 4 },
    args = function(t) return { t.f { 4, 4 }, t.f { 4, 4 }, t.f { 9 }, 4, 1 } end,
    want = function(q, k, bias, H, shift)
      local function at(win, t)
        return ((win // 2 * 2 + t // 2 + shift) % H) * H + (win % 2 * 2 + t % 2 + shift) % H
      end
      local function s(win, a, b)
        return bias[(a // 2 - b // 2 + 1) * 3 + a % 2 - b % 2 + 1] + q[at(win, a)] * k[at(win, b)]
      end
      return each(64, function(e)
        local win, a, b = e // 16, e // 4 % 4, e % 4
        return math.exp(s(win, a, b)) / sum(4, function(j) return math.exp(s(win, a, j)) end)
      end)
    end },

  { "samples where learned offsets point", [=[
__device__ __forceinline__ float bilinear(const float *__restrict__ im, int h, int w, float y, float x) {
  if (y <= -1 || h <= y || x <= -1 || w <= x) return 0;
  const int y0 = (int)floorf(y), x0 = (int)floorf(x), y1 = y0 + 1, x1 = x0 + 1;
  const float ly = y - y0, lx = x - x0, hy = 1 - ly, hx = 1 - lx;
  const float v00 = y0 >= 0 && x0 >= 0 ? im[y0 * w + x0] : 0.f, v01 = y0 >= 0 && x1 <= w - 1 ? im[y0 * w + x1] : 0.f;
  const float v10 = y1 <= h - 1 && x0 >= 0 ? im[y1 * w + x0] : 0.f, v11 = y1 <= h - 1 && x1 <= w - 1 ? im[y1 * w + x1] : 0.f;
  return hy * hx * v00 + hy * lx * v01 + ly * hx * v10 + ly * lx * v11;
}
__global__ void deform(const float *im, const float *offset, const float *mask, const float *w, float *out, int H, int W, int K) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= W || y >= H) return;
  float acc = 0.f;
  for (int i = 0; i < K; ++i)
    for (int j = 0; j < K; ++j) {
      const int tap = i * K + j, p = y * W + x;
      const float dy = offset[(2 * tap) * H * W + p], dx = offset[(2 * tap + 1) * H * W + p];
      acc += w[tap] * mask[tap * H * W + p] * bilinear(im, H, W, y - K / 2 + i + dy, x - K / 2 + j + dx);
    }
  out[y * W + x] = acc;
}]=], block = { 4, 4 }, grid = { 1, 1 }, shape = { 3, 4 }, args = function(t)
      return { t.f { 3, 4 }, t.f { 8, 3, 4, low = 0.1, high = 0.9 }, t.f { 4, 3, 4 },
        t.f { 4 }, 3, 4, 2 }
    end,
    want = function(im, offset, mask, w, H, W, K)
      return each(H * W, function(p)
        return sum(K * K, function(tap)
          local y = p // W - K // 2 + tap // K + offset[2 * tap * H * W + p]
          local x = p % W - K // 2 + tap % K + offset[(2 * tap + 1) * H * W + p]
          local v = 0
          for r = 0, H - 1 do
            for c = 0, W - 1 do
              v = v + math.max(0, 1 - math.abs(y - r)) * math.max(0,
                1 - math.abs(x - c)) * im[r * W + c]
            end
          end
          return w[tap] * mask[tap * H * W + p] * v
        end)
      end)
    end },

  { "bags of embeddings: a sum, a mean or the largest", [=[
enum class Mode : int { Sum = 0, Mean, Max };
__global__ void bag(const int *index, const int *offset, const float *weight, const float *table, float *out, int bags, int dim, int mode_) {
  const int b = blockIdx.x, d = threadIdx.x;
  if (d >= dim || b >= bags) return;
  const Mode mode = static_cast<Mode>(mode_);
  const int from = offset[b], to = offset[b + 1];
  float acc = mode == Mode::Max ? -FLT_MAX : 0.f;
  for (int k = from; k < to; ++k) {
    const float v = table[(size_t)index[k] * dim + d] * weight[k];
    switch (mode) {
      case Mode::Sum: case Mode::Mean: acc += v; break;
      case Mode::Max: acc = fmaxf(acc, v); break;
    }
  }
  if (mode == Mode::Mean && to > from) acc /= static_cast<float>(to - from);
  out[b * dim + d] = to > from ? acc : 0.f;
}]=], block = { 4 }, grid = { 3 }, shape = { 3, 3 }, args = function(t)
      return { t.i { 4, 0, 0, 2, 3, 1 }, t.i { 0, 4, 4, 6 }, t.f { 6 }, t.f { 5, 3 }, 3, 3, 1 }
    end,
    want = function(index, offset, weight, tab, bags, dim)
      return each(bags * dim, function(e)
        local b, d = e // dim, e % dim
        local n = offset[b + 1] - offset[b]
        return n == 0 and 0
          or sum(n,
            function(k) return tab[index[offset[b] + k] * dim + d] * weight[offset[b] + k] end) / n
      end)
    end },

  { "a margin in the angle, then cross entropy", [=[
__global__ void arcface(const float *cosine, const int *label, float *loss, float s, float m, int classes, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float *row = cosine + i * classes;
  const float cm = cosf(m), sm = sinf(m);
  auto logit = [&](int c) {
    const float v = row[c];
    if (c != label[i]) return s * v;
    const float sine = sqrtf(fmaxf(1.f - v * v, 1e-6f));
    return v > -cm ? s * (v * cm - sine * sm) : s * (v - sm * m);
  };
  float top = -INFINITY, total = 0.f;
  for (int c = 0; c < classes; ++c) {
    const float z = logit(c);
    if (z > top) { total = total * __expf(top - z) + 1.f; top = z; }
    else total += __expf(z - top);
  }
  loss[i] = top + __logf(total) - logit(label[i]);
}]=],
    shape = { 4 }, args = function(t)
      return { t.f { 4, 5, low = -0.9, high = 0.9 }, t.i { 0, 3, 4, 1 },
        t.f { 1, low = 2, high = 4 }, 0.3, 5, 4 }
    end,
    tol = 1e-4, want = function(cosine, label, s, m, classes, n)
      return each(n, function(i)
        local function z(c)
          local v = cosine[i * classes + c]
          if c ~= label[i] then return s[0] * v end
          return v > -math.cos(m) and s[0] * math.cos(math.acos(v) + m)
            or s[0] * (v - math.sin(m) * m)
        end
        return math.log(sum(classes, function(c) return math.exp(z(c)) end)) - z(label[i])
      end)
    end },

  { "activations chosen by a functor", [=[
#define ACT(NAME, EXPR) struct NAME { __device__ __forceinline__ float operator()(float x) const { return EXPR; } };
ACT(Mish, x * tanhf(x > 20.f ? x : log1pf(__expf(x))))
ACT(HardSwish, x * fminf(fmaxf(x + 3.f, 0.f), 6.f) / 6.f)
ACT(Selu, 1.0507009873554805f * (x > 0.f ? x : 1.6732632423543772f * expm1f(x)))
ACT(QuickGelu, x / (1.f + __expf(-1.702f * x)))
template <typename... Unused> struct Never;
template <class A, class B> struct Compose { A a; B b; __device__ float operator()(float x) const { return a(b(x)); } };
template <class Op> __device__ void apply(const float *x, float *y, int n, Op op = Op()) {
  const int stride = blockDim.x * gridDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) y[i] = op(x[i]);
}
__global__ void acts(const float *x, float *a, float *b, float *c, int n) {
  apply<Mish>(x, a, n);
  apply(x, b, n, Compose<HardSwish, Selu>{});
  apply(x, c, n, QuickGelu());
}]=],
    block = { 4 }, grid = { 1 },
    args = function(t) return { t.f { 9, low = -2, high = 2 } } end, tol = 1e-4,
    want = function(x)
      local function selu(v)
        return 1.0507009873554805 * (v > 0 and v or 1.6732632423543772 * (math.exp(v) - 1))
      end
      return each(9, function(i)
        local e = (1 + math.exp(x[i])) ^ 2
        return x[i] * (e - 1) / (e + 1)
      end), each(9, function(i) return selu(x[i]) * clamp(selu(x[i]) + 3, 0, 6) / 6 end),
        each(9, function(i) return x[i] * sigmoid(1.702 * x[i]) end)
    end },

  { "statistics of a batch by blocks, and running ones", [=[
template <int N> __device__ float2 block_sum(float2 v) {
  __shared__ float2 part[N];
  part[threadIdx.x] = v;
  __syncthreads();
  #pragma unroll
  for (int s = N / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) {
      part[threadIdx.x].x += part[threadIdx.x + s].x;
      part[threadIdx.x].y += part[threadIdx.x + s].y;
    }
    __syncthreads();
  }
  return part[0];
}
__global__ void batch_norm(const float *x, const float2 *affine, float2 *running, float *y, int N, int C, int HW, float momentum) {
  const int c = blockIdx.x;
  float2 s = {0.f, 0.f};
  for (int i = threadIdx.x; i < N * HW; i += blockDim.x) {
    const float v = x[(i / HW * C + c) * HW + i % HW];
    s.x += v; s.y += v * v;
  }
  s = block_sum<8>(s);
  const float count = N * HW, mean = s.x / count, var = s.y / count - mean * mean, inv = rsqrtf(var + 1e-5f);
  if (threadIdx.x == 0) {
    float2 &r = running[c];
    r.x += momentum * (mean - r.x);
    r.y += momentum * (var * count / (count - 1.f) - r.y);
  }
  const auto [gamma, beta] = affine[c];
  for (int i = threadIdx.x; i < N * HW; i += blockDim.x) {
    const int at = (i / HW * C + c) * HW + i % HW;
    y[at] = (x[at] - mean) * inv * gamma + beta;
  }
}]=], block = { 8 }, grid = { 2 }, inout = { "running" }, shape = { 3, 2, 5 }, args = function(t)
      return { t.f { 3, 2, 5 }, t.f { 2, 2 }, t.f { 2, 2 }, 3, 2, 5, 0.25 }
    end, tol = 1e-4,
    want = function(x, affine, running, N, C, HW, momentum)
      local out, r, n = {}, {}, N * HW
      for c = 0, C - 1 do
        local function at(i) return (i // HW * C + c) * HW + i % HW end
        local mean = sum(n, function(i) return x[at(i)] end) / n
        local var = sum(n, function(i) return (x[at(i)] - mean) ^ 2 end) / n
        for i = 0, n - 1 do
          out[at(i)] = (x[at(i)] - mean) / math.sqrt(var + 1e-5) * affine[2 * c] + affine[2 * c + 1]
        end
        r[2 * c] = running[2 * c] + momentum * (mean - running[2 * c])
        r[2 * c + 1] = running[2 * c + 1] + momentum * (var * n / (n - 1) - running[2 * c + 1])
      end
      return r, out
    end },

  { "heads that share keys, the cache a ring", [=[
__global__ void decode(const float *q, const float *cache_k, const float *cache_v, float *out, int len, int cap, int start, int group) {
  constexpr int D = 4;
  const int head = blockIdx.x, kv = head / group, lane = threadIdx.x;
  __shared__ float raw[12], p[12];
  float m = -INFINITY;
  for (int t = lane; t < len; t += blockDim.x) {
    const int slot = (start + t) % cap;
    float s = 0.f;
    for (int d = 0; d < D; ++d) s += q[head * D + d] * cache_k[(kv * cap + slot) * D + d];
    raw[t] = s *= 0.5f;
    m = fmaxf(m, s);
  }
  for (int o = 4; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
  float total = 0.f;
  for (int t = lane; t < len; t += blockDim.x) total += p[t] = expf(raw[t] - m);
  for (int o = 4; o; o >>= 1) total += __shfl_xor_sync(~0u, total, o);
  __syncthreads();
  if (lane < D) {
    float acc = 0.f;
    for (int t = 0; t < len; ++t) acc += p[t] * cache_v[(kv * cap + (start + t) % cap) * D + lane];
    out[head * D + lane] = acc / total;
  }
}]=], block = { 8 }, grid = { 4 }, shape = { 4, 4 }, args = function(t)
      return { t.f { 4, 4 }, t.f { 2, 12, 4 }, t.f { 2, 12, 4 }, 11, 12, 7, 2 }
    end, tol = 1e-4,
    want = function(q, k, v, len, cap, start, group)
      return each(16, function(e)
        local head, d = e // 4, e % 4
        local top, low = 0, 0
        for t = 0, len - 1 do
          local at = (head // group * cap + (start + t) % cap) * 4
          local w = math.exp(0.5 * sum(4, function(c) return q[head * 4 + c] * k[at + c] end))
          top, low = top + w * v[at + d], low + w
        end
        return top / low
      end)
    end },

  { "boxes that overlap, a word of bits per row", [=[
struct Box { float x1, y1, x2, y2; };
__device__ inline float iou(Box const *const a, Box const *const b) {
  const float left = max(a->x1, b->x1), right = min(a->x2, b->x2), top = max(a->y1, b->y1), bottom = min(a->y2, b->y2);
  const float inter = max(right - left, 0.f) * max(bottom - top, 0.f);
  const float sa = (a->x2 - a->x1) * (a->y2 - a->y1), sb = (b->x2 - b->x1) * (b->y2 - b->y1);
  return inter / (sa + sb - inter);
}
#define DIVUP(m, n) ((m) / (n) + ((m) % (n) > 0))
__global__ void nms(const Box *boxes, unsigned long long *mask, float thresh, int n) {
  const int row = blockIdx.y, col = blockIdx.x, T = 4;
  const int rows = min(n - row * T, T), cols = min(n - col * T, T);
  __shared__ Box block[4];
  if (threadIdx.x < cols) block[threadIdx.x] = boxes[T * col + threadIdx.x];
  __syncthreads();
  if (threadIdx.x < rows) {
    const int cur = T * row + threadIdx.x;
    const Box me = boxes[cur];
    unsigned long long t = 0;
    const int start = row == col ? threadIdx.x + 1 : 0;
    for (int i = start; i < cols; i++)
      if (iou(&me, block + i) > thresh) t |= 1ULL << i;
    mask[cur * DIVUP(n, T) + col] = t;
  }
}]=], block = { 4 }, grid = { 2, 2 }, shape = { 6, 2 }, same = true,
    args = function(t)
      return {
        t.tensor { { 0, 0, 2, 2 }, { 0.2, 0, 2, 2 }, { 5, 5, 6, 6 }, { 0, 0.1, 2, 2.1 },
          { 5, 5, 6.1, 6 }, { 9, 9, 10, 10 } }, 0.5, 6 }
    end,
    want = function(b, thresh, n)
      return each(n * 2, function(e)
        local i, col, bits = e // 2, e % 2, 0
        for k = 0, math.min(3, n - 4 * col - 1) do
          local j = 4 * col + k
          local w = math.min(b[4 * i + 2], b[4 * j + 2]) - math.max(b[4 * i], b[4 * j])
          local h = math.min(b[4 * i + 3], b[4 * j + 3]) - math.max(b[4 * i + 1], b[4 * j + 1])
          local both = math.max(w, 0) * math.max(h, 0)
          local function area(q)
            return (b[4 * q + 2] - b[4 * q]) * (b[4 * q + 3] - b[4 * q + 1])
          end
          if (i // 4 ~= col or j > i) and both / (area(i) + area(j) - both) > thresh then
            bits = bits | 1 << k
          end
        end
        return bits
      end)
    end },

  { "sorted projections compared, a network of swaps", [=[
#define CAS(a, b) do { const float lo_ = fminf(v[a], v[b]), hi_ = fmaxf(v[a], v[b]); v[a] = lo_; v[b] = hi_; } while (0)
__device__ void sort4(float (&v)[4]) { CAS(0, 1); CAS(2, 3); CAS(0, 2); CAS(1, 3); CAS(1, 2); }
__global__ void sliced(const float2 *a, const float2 *b, const float *angle, float *out, int dirs) {
  const int d = blockIdx.x * blockDim.x + threadIdx.x;
  if (d >= dirs) return;
  float s, c, p[4], q[4];
  sincosf(angle[d], &s, &c);
  for (int k = 0; k < 4; ++k) { p[k] = a[k].x * c + a[k].y * s; q[k] = b[k].x * c + b[k].y * s; }
  sort4(p); sort4(q);
  float w = 0.f;
  for (int k = 0; k < 4; ++k) w += (p[k] - q[k]) * (p[k] - q[k]);
  out[d] = w * 0.25f;
}]=],
    shape = { 3 }, args = function(t)
      return { t.f { 4, 2 }, t.f { 4, 2 }, t.f { 3, low = 0, high = 3 }, 3 }
    end,
    want = function(a, b, angle, dirs)
      return each(dirs, function(d)
        local function along(x)
          local l = {}
          for k = 0, 3 do
            l[k + 1] = x[2 * k] * math.cos(angle[d]) + x[2 * k + 1] * math.sin(angle[d])
          end
          table.sort(l)
          return l
        end
        local p, q = along(a), along(b)
        return sum(4, function(k) return (p[k + 1] - q[k + 1]) ^ 2 end) / 4
      end)
    end },

  { "pixels shuffled, then a norm of each instance", [=[
__global__ void shuffle_norm(const float *__restrict__ x, float *__restrict__ y, int C, int H, int W, int r, float eps) {
  const int c = blockIdx.x, OH = H * r, OW = W * r;
  auto in = [=](int oy, int ox) { return ((c * r * r + (oy % r) * r + ox % r) * H + oy / r) * W + ox / r; };
  float mean = 0.f, m2 = 0.f; int n = 0;
  for (int t = 0; t < OH * OW; ++t) {
    const float v = x[in(t / OW, t % OW)], d = v - mean;
    mean += d / ++n;
    m2 += d * (v - mean);
  }
  const float inv = rsqrtf(m2 / n + eps);
  for (int t = threadIdx.x; t < OH * OW; t += blockDim.x) y[c * OH * OW + t] = (x[in(t / OW, t % OW)] - mean) * inv;
}]=],
    block = { 3 }, grid = { 2 }, shape = { 2, 4, 4 },
    args = function(t) return { t.f { 8, 2, 2 }, 2, 2, 2, 2, 1e-3 } end, tol = 1e-4,
    want = function(x, C, H, W, r, eps)
      local y = {}
      for c = 0, C - 1 do
        local function v(t)
          local oy, ox = t // (W * r), t % (W * r)
          return x[((c * r * r + oy % r * r + ox % r) * H + oy // r) * W + ox // r]
        end
        local n = H * W * r * r
        local mean = sum(n, v) / n
        local var = sum(n, function(t) return (v(t) - mean) ^ 2 end) / n
        for t = 0, n - 1 do y[c * n + t] = (v(t) - mean) / math.sqrt(var + eps) end
      end
      return y
    end },

  { "noise of Gumbel from a hash, a softmax that samples", [=[
__device__ __forceinline__ uint32_t wang(uint32_t s) {
  s = (s ^ 61) ^ (s >> 16); s *= 9; s = s ^ (s >> 4); s *= 0x27d4eb2d; s = s ^ (s >> 15);
  return s;
}
__device__ __forceinline__ float uniform01(uint32_t h) { return ((h >> 8) + 0.5f) * (1.0f / 16777216.0f); }
__global__ void gumbel_softmax(const float *logits, float *y, float tau, uint32_t seed, int classes, int rows) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float z[8], top = -INFINITY;
  for (int c = 0; c < classes; ++c) {
    const float u = uniform01(wang(seed + r * classes + c));
    z[c] = (logits[r * classes + c] - __logf(-__logf(u))) / tau;
    top = fmaxf(top, z[c]);
  }
  float total = 0.f;
  for (int c = 0; c < classes; ++c) total += (z[c] = __expf(z[c] - top));
  for (int c = 0; c < classes; ++c) y[r * classes + c] = z[c] / total;
}]=],
    args = function(t) return { t.f { 3, 5 }, t.f { 1, low = 0.5, high = 1 }, 12345, 5, 3 } end,
    tol = 1e-4,
    want = function(logits, tau, seed, classes, rows)
      local y = {}
      for r = 0, rows - 1 do
        local e = each(classes, function(c)
          local s = seed + r * classes + c
          s = (s ~ 61) ~ s >> 16
          s = s * 9 & 0xffffffff
          s = s ~ s >> 4
          s = s * 0x27d4eb2d & 0xffffffff
          s = s ~ s >> 15
          return math.exp(
            (logits[r * classes + c] - math.log(-math.log(((s >> 8) + 0.5) / 2 ^ 24))) / tau[0])
        end)
        local total = sum(classes, function(c) return e[c] end)
        for c = 0, classes - 1 do y[r * classes + c] = e[c] / total end
      end
      return y
    end },

  { "two ranks added to a product, in shared memory", [=[
template <int RANK> __global__ void lora(const float *x, const float *w, const float *a, const float *b, float *y, float alpha, int in, int out) {
  __shared__ float h[RANK];
  const int row = blockIdx.x, o = threadIdx.x;
  if (o < RANK) {
    float s = 0.f;
    for (int k = 0; k < in; ++k) s += x[row * in + k] * a[o * in + k];
    h[o] = s * (alpha / RANK);
  }
  __syncthreads();
  float s = 0.f;
  for (int k = 0; k < in; ++k) s += x[row * in + k] * w[o * in + k];
  #pragma unroll
  for (int r = 0; r < RANK; ++r) s += h[r] * b[o * RANK + r];
  y[row * out + o] = s;
}]=], entry = "lora<2>", block = { 3 }, grid = { 2 }, shape = { 2, 3 },
    args = function(t)
      return { t.f { 2, 4 }, t.f { 3, 4 }, t.f { 2, 4 }, t.f { 3, 2 }, t.f { 1 }, 4, 3 }
    end,
    want = function(x, w, a, b, alpha, n, out)
      return each(2 * out, function(e)
        local row, o = e // out, e % out
        return sum(n, function(k)
          return x[row * n + k] * (w[o * n + k] + alpha[0] / 2 * sum(2,
            function(r) return b[2 * o + r] * a[r * n + k] end))
        end)
      end)
    end },

  { "a query's loss of ranks, pairs above a margin", [=[
__global__ void lambda_rank(const float *score, const int *grade, const int *offset, float *loss, int queries) {
  const int q = blockIdx.x;
  const int from = offset[q], len = offset[q + 1] - from;
  __shared__ float total;
  if (threadIdx.x == 0) total = 0.f;
  __syncthreads();
  float mine = 0.f;
  for (int p = threadIdx.x; p < len * len; p += blockDim.x) {
    const int i = from + p / len, j = from + p % len;
    if (grade[i] <= grade[j]) continue;
    const float gain = (float)((1 << grade[i]) - (1 << grade[j]));
    mine += gain * log1pf(expf(score[j] - score[i]));
  }
  atomicAdd(&total, mine);
  __syncthreads();
  if (threadIdx.x == 0) loss[q] = total;
}]=],
    block = { 4 }, grid = { 2 }, shape = { 2 }, args = function(t)
      return { t.f { 7 }, t.i { 2, 0, 1, 0, 1, 1, 0 }, t.i { 0, 4, 7 }, 2 }
    end,
    want = function(score, grade, offset, queries)
      return each(queries, function(q)
        local s = 0
        for i = offset[q], offset[q + 1] - 1 do
          for j = offset[q], offset[q + 1] - 1 do
            if grade[i] > grade[j] then
              s = s + (2 ^ grade[i] - 2 ^ grade[j]) * math.log(1 + math.exp(score[j] - score[i]))
            end
          end
        end
        return s
      end)
    end },

  { "a state of products that decays, rows of heads", [=[
__global__ void retention(const float *q, const float *k, const float *v, const float *decay, float *o, int T) {
  constexpr int D = 3;
  const int h = blockIdx.x, j = threadIdx.x;
  float S[D] = {0.f};                              // a column of the state
  const float g = 1.f / (1.f + expf(-decay[h]));
  for (int t = 0; t < T; ++t) {
    const int at = (h * T + t) * D;
    float acc = 0.f;
    #pragma unroll
    for (int i = 0; i < D; ++i) {
      S[i] = g * S[i] + k[at + i] * v[at + j];
      acc += q[at + i] * S[i];
    }
    o[at + j] = acc;
  }
}]=],
    block = { 3 }, grid = { 2 }, shape = { 2, 6, 3 }, args = function(t)
      return { t.f { 2, 6, 3 }, t.f { 2, 6, 3 }, t.f { 2, 6, 3 }, t.f { 2 }, 6 }
    end,
    want = function(q, k, v, decay, T)
      return each(2 * T * 3, function(e)
        local h, t, j = e // (3 * T), e // 3 % T, e % 3
        return sum(t + 1, function(s)
          return sigmoid(decay[h]) ^ (t - s) * v[(h * T + s) * 3 + j] *
            sum(3, function(i) return q[(h * T + t) * 3 + i] * k[(h * T + s) * 3 + i] end)
        end)
      end)
    end },

  { "halves in pairs: a residual and its root mean square", [=[
#include <cuda_fp16.h>
__global__ void add_rms(const float2 *__restrict__ x, const float2 *__restrict__ r, const float *__restrict__ w, float *__restrict__ y, int pairs) {
  __shared__ float part[4];
  float s = 0.f;
  for (int c = threadIdx.x; c < pairs; c += blockDim.x) {
    const float2 f = x[blockIdx.x * pairs + c], g = r[blockIdx.x * pairs + c];
    const __half2 v = __hadd2(__floats2half2_rn(f.x, f.y), __floats2half2_rn(g.x, g.y));
    const float a = __low2float(v), b = __high2float(v);
    s += a * a + b * b;
  }
  part[threadIdx.x] = s;
  __syncthreads();
  s = 0.f;
  for (int k = 0; k < blockDim.x; ++k) s += part[k];
  const float inv = rsqrtf(s / (2 * pairs) + 1e-3f);
  for (int c = threadIdx.x; c < pairs; c += blockDim.x) {
    const float2 f = x[blockIdx.x * pairs + c], g = r[blockIdx.x * pairs + c];
    const __half2 v = __floats2half2_rn(f.x, f.y) + __floats2half2_rn(g.x, g.y);
    y[(blockIdx.x * pairs + c) * 2] = __low2float(v) * inv * w[2 * c];
    y[(blockIdx.x * pairs + c) * 2 + 1] = __high2float(v) * inv * w[2 * c + 1];
  }
}]=], block = { 4 }, grid = { 2 }, shape = { 2, 10 }, order = 1, eps = 1 / 256, half = true,
    args = function(t)
      local list = {}
      for i = 1, 20 do list[i] = (i * 7 % 13 - 6) / 8 end
      return { t.tensor(list):reshape(2, 10), t.tensor(list):reshape(2, 10), t.f { 10 }, 5 }
    end, tol = 1e-3, tol64 = 1e-3,
    want = function(x, r, w, pairs)
      return each(4 * pairs, function(e)
        local row, c, n = e // (2 * pairs), e % (2 * pairs), 2 * pairs
        local s = sum(n, function(k) return (x[row * n + k] + r[row * n + k]) ^ 2 end)
        return (x[e] + r[e]) / math.sqrt(s / n + 1e-3) * w[c]
      end)
    end },
}
