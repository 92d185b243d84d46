--- Kernels from machine learning, graphics and data processing: recurrences, sequence losses,
-- quantised products, samplers, segmented scans, renderers.

local lists = dofile("spec/kernel/users/lists.lua")
local each, sum = lists.each, lists.sum

local function sigmoid(v) return 1 / (1 + math.exp(-v)) end

local function log_sum(list)
  local m = -math.huge
  for _, v in ipairs(list) do m = math.max(m, v) end
  if m == -math.huge then return m end
  local s = 0
  for _, v in ipairs(list) do s = s + math.exp(v - m) end
  return m + math.log(s)
end

return {
  { "bytes times floats, a scale for each group", [=[
template <int GROUP>
__global__ void dequant_gemv(const signed char *__restrict__ w, const float *__restrict__ scale, const unsigned char *zero,
                             const float *__restrict__ x, float *__restrict__ y, int rows, int cols) {
  const int row = blockIdx.x, lane = threadIdx.x;
  float acc = 0.f;
  for (int c = lane * 4; c < cols; c += blockDim.x * 4) {
    const int g = row * (cols / GROUP) + c / GROUP;
    const float s = scale[g];
    const int z = zero[g];
    #pragma unroll
    for (int k = 0; k < 4; ++k) acc = fmaf(s * (float)(w[row * cols + c + k] - z), x[c + k], acc);
  }
  for (int o = 16; o; o >>= 1) acc += __shfl_down_sync(0xffffffffu, acc, o);
  if (!lane) y[row] = acc;
}]=], entry = "dequant_gemv<8>", block = { 32 }, grid = { 3 }, shape = { 3 },
    args = function(t)
      local w = {}
      for i = 1, 48 do w[i] = (i * 37) % 255 - 127 end
      return { t.tensor(w, "i8"), t.f { 6 }, t.tensor({ 1, 0, 3, 200, 7, 9 }, "u8"),
        t.f { 16 }, 3, 16 }
    end, tol = 2e-4,
    want = function(w, scale, zero, x, rows, cols)
      return each(rows, function(r)
        return sum(cols, function(c)
          local g = r * 2 + c // 8
          return scale[g] * (w[r * cols + c] - zero[g]) * x[c]
        end)
      end)
    end },

  { "CTC in shared memory, in logs", [=[
#define NEG -1e30f
__device__ __forceinline__ float lse(float a, float b) {
  const float m = fmaxf(a, b);
  return m <= NEG ? NEG : m + logf(expf(a - m) + expf(b - m));
}
__global__ void ctc(const float *logp, const int *target, float *loss, int T, int C, int L) {
  extern __shared__ float alpha[];
  const int s = threadIdx.x, S = 2 * L + 1;
  const int label = s < S && (s & 1) ? target[s / 2] : 0;
  const bool skip = s < S && (s & 1) && s > 2 && label != target[s / 2 - 1];
  if (s < S) alpha[s] = s < 2 ? logp[label] : NEG;
  __syncthreads();
  for (int t = 1; t < T; ++t) {
    float a = NEG;
    if (s < S) {
      a = alpha[s];
      if (s > 0) a = lse(a, alpha[s - 1]);
      if (skip) a = lse(a, alpha[s - 2]);
      if (a > NEG) a += logp[t * C + label];
    }
    __syncthreads();
    if (s < S) alpha[s] = a;
    __syncthreads();
  }
  if (s == 0) *loss = -lse(alpha[S - 1], alpha[S - 2]);
}]=], block = { 8 }, grid = { 1 }, shared = 8 * 4, shape = { 1 },
    args = function(t) return { t.f { 6, 4, low = -3, high = -0.5 }, t.i { 2, 2, 1 }, 6, 4, 3 } end,
    want = function(logp, target, T, C, L)
      local paths = {}
      local function walk(t, last, at, score)               -- every alignment
        if t == T then
          if at == L then paths[#paths + 1] = score end
          return
        end
        for c = 0, C - 1 do
          local now = score + logp[t * C + c]
          if c == 0 or c == last then walk(t + 1, c, at, now)
          elseif at < L and c == target[at] then walk(t + 1, c, at + 1, now) end
        end
      end
      walk(0, 0, 0, 0)
      return { [0] = -log_sum(paths) }
    end },

  { "a hidden Markov model, scaled as it goes", [=[
constexpr int K = 3;
struct Row { float p[K]; };
__global__ void hmm(const float *A, const float *pi, const float *B, const int *obs, float *ll, int n, int T, int M) {
  const int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= n) return;
  Row a;
  float sum = 0.f, total = 0.f;
  for (int k = 0; k < K; ++k) sum += a.p[k] = pi[k] * B[k * M + obs[s * T]];
  for (int t = 1; ; ++t) {
    total += logf(sum);
    const float inv = 1.f / sum;
    if (t == T) break;
    Row b = {};
    for (int j = 0; j < K; ++j)
      for (int k = 0; k < K; ++k) b.p[k] += a.p[j] * inv * A[j * K + k];
    sum = 0.f;
    for (int k = 0; k < K; ++k) sum += b.p[k] *= B[k * M + obs[s * T + t]];
    a = b;
  }
  ll[s] = total;
}]=], shape = { 2 }, args = function(t)
      return { t.f { 3, 3, low = 0.1, high = 1 }, t.f { 3, low = 0.2, high = 1 },
        t.f { 3, 2, low = 0.1, high = 1 }, t.i { 0, 1, 1, 0, 1, 0, 0, 1, 1, 1 }, 2, 5, 2 }
    end,
    want = function(A, pi, B, obs, n, T, M)
      return each(n, function(s)
        local a = each(3, function(k) return pi[k] * B[k * M + obs[s * T]] end)
        for t = 1, T - 1 do
          local old = a
          a = each(3, function(k)
            return sum(3, function(j) return old[j] * A[3 * j + k] end) * B[k * M + obs[s * T + t]]
          end)
        end
        return math.log(a[0] + a[1] + a[2])
      end)
    end },

  { "a chain of tags: score less the partition", [=[
__global__ void crf(const float *emit, const float *trans, const int *tags, float *loss, int B, int T) {
  enum : int { N = 4 };
  const int b = threadIdx.x + blockIdx.x * blockDim.x;
  if (b >= B) return;
  const float *e = emit + (long long)b * T * N;
  const int *y = tags + b * T;
  float alpha[N], gold = e[y[0]];
  for (int k = 0; k < N; ++k) alpha[k] = e[k];
  for (int t = 1; t < T; ++t) {
    float next[N];
    for (int k = 0; k < N; ++k) {
      float m = -3.4e38f;
      for (int j = 0; j < N; ++j) m = max(m, alpha[j] + trans[j * N + k]);
      float s = 0.f;
      for (int j = 0; j < N; ++j) s += __expf(alpha[j] + trans[j * N + k] - m);
      next[k] = m + __logf(s) + e[t * N + k];
    }
    for (int k = 0; k < N; ++k) alpha[k] = next[k];
    gold += trans[y[t - 1] * N + y[t]] + e[t * N + y[t]];
  }
  float m = fmaxf(fmaxf(alpha[0], alpha[1]), fmaxf(alpha[2], alpha[3])), z = 0.f;
  for (float a : alpha) z += __expf(a - m);
  loss[b] = m + __logf(z) - gold;
}]=],
    shape = { 2 }, args = function(t)
      return { t.f { 2, 3, 4 }, t.f { 4, 4 }, t.i { 0, 2, 3, 1, 1, 0 }, 2, 3 }
    end,
    tol = 1e-4,
    want = function(emit, trans, tags, B, T)
      return each(B, function(b)
        local all, gold = {}, nil
        for code = 0, (1 << 2 * T) - 1 do
          local c, score, same, last = code, 0, true, nil
          for t = 0, T - 1 do
            local k = c % 4
            c = c // 4
            score = score + emit[(b * T + t) * 4 + k] + (last and trans[last * 4 + k] or 0)
            same, last = same and k == tags[b * T + t], k
          end
          all[#all + 1] = score
          if same then gold = score end
        end
        return log_sum(all) - gold
      end)
    end },

  { "a selective state space, one channel per thread", [=[
#define D_STATE 3
__global__ void selective_scan(const float *u, const float *delta, const float *A, const float *B, const float *C,
                               const float *D, float *y, int L, int channels) {
  const int d = blockIdx.x * blockDim.x + threadIdx.x;
  if (d >= channels) return;
  float h[D_STATE] = { 0.f };
  for (int t = 0; t < L; t++) {
    const float raw = delta[t * channels + d], dt = raw > 20.f ? raw : log1pf(expf(raw)), x = u[t * channels + d];
    float out = D[d] * x;
    #pragma unroll
    for (int n = 0; n < D_STATE; n++) {
      h[n] = expf(dt * A[d * D_STATE + n]) * h[n] + dt * B[t * D_STATE + n] * x;
      out += h[n] * C[t * D_STATE + n];
    }
    y[t * channels + d] = out;
  }
}]=], shape = { 5, 2 }, args = function(t)
      return { t.f { 5, 2 }, t.f { 5, 2 }, t.f { 2, 3, low = -2, high = -0.2 }, t.f { 5, 3 },
        t.f { 5, 3 }, t.f { 2 }, 5, 2 }
    end,
    want = function(u, delta, A, B, C, D, L, channels)
      local y, h = {}, each(6, function() return 0 end)
      for t = 0, L - 1 do
        for d = 0, channels - 1 do
          local e = t * channels + d
          local dt = math.log(1 + math.exp(delta[e]))
          y[e] = D[d] * u[e]
          for n = 0, 2 do
            h[3 * d + n] = math.exp(dt * A[3 * d + n]) * h[3 * d + n] + dt * B[3 * t + n] * u[e]
            y[e] = y[e] + h[3 * d + n] * C[3 * t + n]
          end
        end
      end
      return y
    end },

  { "weighted keys with a running maximum", [=[
__global__ void wkv(const float *w, const float *bonus, const float *k, const float *v, float *y, int T, int C) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= C) return;
  float p = 0, q = 0, o = -1e38f;
  const float decay = -expf(w[c]), u = bonus[c];
  for (int t = 0; t < T; ++t) {
    const int i = t * C + c;
    float no = fmaxf(o, u + k[i]), A = expf(o - no), B = expf(u + k[i] - no);
    y[i] = (A * p + B * v[i]) / (A * q + B);
    no = fmaxf(decay + o, k[i]);
    A = expf(decay + o - no);
    B = expf(k[i] - no);
    p = A * p + B * v[i];
    q = A * q + B;
    o = no;
  }
}]=],
    shape = { 5, 2 }, args = function(t)
      return { t.f { 2 }, t.f { 2 }, t.f { 5, 2 }, t.f { 5, 2 }, 5, 2 }
    end,
    want = function(w, bonus, k, v, T, C)
      local y = {}
      for c = 0, C - 1 do
        for t = 0, T - 1 do
          local a, b = math.exp(bonus[c] + k[t * C + c]) * v[t * C + c],
            math.exp(bonus[c] + k[t * C + c])
          for s = 0, t - 1 do
            local e = math.exp(k[s * C + c] - (t - 1 - s) * math.exp(w[c]))
            a, b = a + e * v[s * C + c], b + e
          end
          y[t * C + c] = a / b
        end
      end
      return y
    end },

  { "causal attention with slopes, rows in registers", [=[
template <int D, typename acc_t = float>
__device__ __forceinline__ acc_t dot(const float *a, const float *b) {
  acc_t s = acc_t(0);
  #pragma unroll
  for (int i = 0; i < D; i += 2) s += a[i] * b[i] + a[i + 1] * b[i + 1];
  return s;
}
__global__ void alibi(const float *q, const float *k, const float *v, float *o, int T, float slope) {
  constexpr unsigned D = 4u;
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= (unsigned)T) return;
  float m = -INFINITY, l = 0.f, acc[D] = {};
  for (unsigned j = 0u; j < (unsigned)T; ++j) {
    if (j > i) break;
    const float s = dot<D>(q + i * D, k + j * D) * 0.5f - slope * (float)(i - j);
    const float mn = fmaxf(m, s), scale = expf(m - mn), e = expf(s - mn);
    l = l * scale + e;
    for (unsigned c = 0; c < D; ++c) acc[c] = acc[c] * scale + e * v[j * D + c];
    m = mn;
  }
  for (unsigned c = 0; c < D; ++c) o[i * D + c] = acc[c] / l;
}]=],
    shape = { 5, 4 }, args = function(t)
      return { t.f { 5, 4 }, t.f { 5, 4 }, t.f { 5, 4 }, 5, 0.3 }
    end,
    want = function(q, k, v, T, slope)
      local o = {}
      for i = 0, T - 1 do
        local p = each(i + 1, function(j)
          return math.exp(0.5 * sum(4,
            function(c) return q[4 * i + c] * k[4 * j + c] end) - slope * (i - j))
        end)
        local l = sum(i + 1, function(j) return p[j] end)
        for c = 0, 3 do
          o[4 * i + c] = sum(i + 1, function(j) return p[j] * v[4 * j + c] end) / l
        end
      end
      return o
    end },

  { "sums in a warp that begin again at flags", [=[
__global__ void segmented(const float *x, const int *head, float *y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % warpSize;
  float v = i < n ? x[i] * x[i] : 0.f;
  int f = i < n ? head[i] : 1;
  for (int d = 1; d < 32; d *= 2) {
    const float u = __shfl_up_sync(0xffffffff, v, d);
    const int g = __shfl_up_sync(0xffffffff, f, d);
    if (lane >= d && !f) { v += u; f |= g; }
  }
  if (i < n) y[i] = v;
}]=], block = { 32 }, grid = { 1 }, args = function(t)
      return { t.f { 11 }, t.i { 1, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0 }, 11 }
    end,
    want = function(x, head, n)
      local s = 0
      return each(n, function(i)
        s = (head[i] == 1 and 0 or s) + x[i] ^ 2
        return s
      end)
    end },

  { "what stands before, over a block by warps", [=[
__device__ float warp_inclusive(float v, unsigned lane) {
  for (unsigned d = 1u; d < 32u; d <<= 1u) {
    float t = __shfl_up_sync(~0u, v, d);
    v += lane >= d ? t : 0.f;
  }
  return v;
}
__global__ void exclusive(const float *x, float *y) {
  __shared__ float totals[32];
  const unsigned t = threadIdx.x, lane = t & 31u, warp = t >> 5;
  const float own = x[t], in = warp_inclusive(own, lane);
  if (lane == 31u) totals[warp] = in;
  __syncthreads();
  if (warp == 0u) {
    const float v = lane < blockDim.x / 32u ? totals[lane] : 0.f, s = warp_inclusive(v, lane);
    totals[lane] = s - v;
  }
  __syncthreads();
  y[t] = (in - own + totals[warp]) * own;
}]=],
    block = { 96 }, grid = { 1 }, shape = { 96 }, args = function(t) return { t.f { 96 } } end,
    tol = 1e-4, order = 1,
    want = function(x)
      local s = 0
      return each(96, function(i)
        s = s + x[i]
        return (s - x[i]) * x[i]
      end)
    end },

  { "sparse entries in any order, and rows of one width", [=[
struct Entry { int row, col; };
__global__ void coo(const Entry *at, const float *val, const float *x, float *y, int nnz) {
  for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < nnz; e += gridDim.x * blockDim.x) {
    const Entry q = at[e];
    if (q.col < 0) continue;
    atomicAdd(y + q.row, val[e] * x[q.col]);
  }
}]=], block = { 4 }, grid = { 1 }, shape = { 3 },
    args = function(t)
      return { t.i { 0, 1, 2, 0, 0, 1, 1, -1, 2, 2, 0, 3 }, t.f { 6 }, t.f { 4 }, 6 }
    end,
    want = function(at, val, x, nnz)
      local y = { [0] = 0, 0, 0 }
      for e = 0, nnz - 1 do
        local r, c = at[2 * e], at[2 * e + 1]
        if c >= 0 then y[r] = y[r] + val[e] * x[c] end
      end
      return y
    end },

  { "alignment of two strings along diagonals", [=[
__global__ void align(const int *a, const int *b, const float *score, float gap, float *best, int n, int m) {
  __shared__ float H[3][16];
  __shared__ float top[16];
  const int i = threadIdx.x;
  float mine = 0.f;
  for (int r = 0; r < 3; ++r) H[r][i] = 0.f;
  __syncthreads();
  for (int d = 0; d < n + m - 1; ++d) {
    const int j = d - i, now = d % 3, before = (d + 2) % 3, two = (d + 1) % 3;
    if (i < n && j >= 0 && j < m) {
      float h = fmaxf(0.f, (i > 0 && j > 0 ? H[two][i - 1] : 0.f) + score[a[i] * 4 + b[j]]);
      if (j > 0) h = fmaxf(h, H[before][i] - gap);
      if (i > 0) h = fmaxf(h, H[before][i - 1] - gap);
      H[now][i] = h;
      mine = fmaxf(mine, h);
    }
    __syncthreads();
  }
  top[i] = mine;
  __syncthreads();
  if (i == 0) {
    float m_ = top[0];
    for (int k = 1; k < blockDim.x; ++k) m_ = fmaxf(m_, top[k]);
    best[0] = m_;
  }
}]=], block = { 16 }, grid = { 1 }, shape = { 1 }, order = 1,
    args = function(t)
      local eye = {}
      for i = 0, 15 do eye[i + 1] = i % 5 == 0 and 2 or -1 end
      return { t.i { 0, 2, 1, 3, 1, 1 }, t.i { 2, 1, 1, 3, 0 },
        t.f { 16, low = -0.1, high = 0.1 } + t.tensor(eye), 0.7, 6, 5 }
    end,
    want = function(a, b, score, gap, n, m)
      local H, best = {}, 0
      local function at(i, j) return H[i * m + j] or 0 end
      for i = 0, n - 1 do
        for j = 0, m - 1 do
          local diagonal = i > 0 and j > 0 and at(i - 1, j - 1) or 0
          H[i * m + j] = math.max(0, diagonal + score[a[i] * 4 + b[j]],
            j > 0 and at(i, j - 1) - gap or 0,
            i > 0 and at(i - 1, j) - gap or 0)
          best = math.max(best, H[i * m + j])
        end
      end
      return { [0] = best }
    end },

  { "rays through a volume, left when opaque", [=[
__global__ void render(const float *__restrict__ sigma, const float *__restrict__ rgb, const float *__restrict__ dt,
                       float3 *color, float *depth, int rays, int samples) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rays) return;
  float T = 1.f, z = 0.f, expected = 0.f;
  float3 c = make_float3(0.f, 0.f, 0.f);
  for (int s = 0; s < samples; ++s) {
    const int i = r * samples + s;
    const float alpha = 1.f - __expf(-fmaxf(sigma[i], 0.f) * dt[i]), w = alpha * T;
    c.x += w * rgb[3 * i]; c.y += w * rgb[3 * i + 1]; c.z += w * rgb[3 * i + 2];
    z += dt[i];
    expected += w * z;
    T *= 1.f - alpha;
    if (T < 0.05f) break;
  }
  color[r] = c;
  depth[r] = expected + T * 10.f;
}]=], shape = { 3, 3 }, grid = { 1 }, args = function(t)
      return { t.f { 3, 6, low = -1, high = 6 }, t.f { 3, 6, 3 },
        t.f { 3, 6, low = 0.1, high = 0.4 }, 3, 6 }
    end,
    want = function(sigma, rgb, dt, rays, samples)
      local color, depth = {}, each(9, function() return 0 end)
      for r = 0, rays - 1 do
        local T, z = 1, 0
        for c = 0, 2 do color[3 * r + c] = 0 end
        for s = 0, samples - 1 do
          local i = r * samples + s
          local alpha = 1 - math.exp(-math.max(sigma[i], 0) * dt[i])
          for c = 0, 2 do color[3 * r + c] = color[3 * r + c] + alpha * T * rgb[3 * i + c] end
          z = z + dt[i]
          depth[r] = depth[r] + alpha * T * z
          T = T * (1 - alpha)
          if T < 0.05 then break end
        end
        depth[r] = depth[r] + T * 10
      end
      return color, depth
    end },

  { "colours of spherical harmonics, the degree falls through", [=[
__global__ void sh(const float *coef, const float3 *dir, float *y, int degree, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float3 d = dir[i];
  const float r = rsqrtf(d.x * d.x + d.y * d.y + d.z * d.z), x = d.x * r, yy = d.y * r, z = d.z * r;
  const float *c = &coef[9 * i];
  float v = 0.f;
  switch (degree) {
    default: case 2:
      v += 1.0925484f * (c[4] * x * yy + c[5] * yy * z + c[7] * x * z) + 0.3153916f * c[6] * (3.f * z * z - 1.f) +
           0.5462742f * c[8] * (x * x - yy * yy);
    case 1: v += 0.4886025f * (c[1] * yy + c[2] * z + c[3] * x);
    case 0: v += 0.2820948f * c[0];
  }
  y[i] = fmaxf(v + 0.5f, 0.f);
}]=], shape = { 3 }, args = function(t) return { t.f { 3, 9 }, t.f { 3, 3 }, 2, 3 } end, tol = 1e-4,
    want = function(coef, dir, _, n)
      return each(n, function(i)
        local r = math.sqrt(sum(3, function(c) return dir[3 * i + c] ^ 2 end))
        local x, y, z = dir[3 * i] / r, dir[3 * i + 1] / r, dir[3 * i + 2] / r
        local basis = { [0] = 0.2820948, 0.4886025 * y, 0.4886025 * z, 0.4886025 * x,
          1.0925484 * x * y, 1.0925484 * y * z, 0.3153916 * (3 * z * z - 1), 1.0925484 * x * z,
          0.5462742 * (x * x - y * y) }
        return math.max(0.5 + sum(9, function(k) return coef[9 * i + k] * basis[k] end), 0)
      end)
    end },

  { "points through a lens that bends", [=[
typedef struct { float fx, fy, cx, cy, k[3], p[2]; } Camera;
__device__ inline bool project(const Camera *cam, float X, float Y, float Z, float *u, float *v) {
  if (Z <= 0.1f) return false;
  float x = X / Z, y = Y / Z, r2 = x * x + y * y;
  const float radial = 1 + r2 * (cam->k[0] + r2 * (cam->k[1] + r2 * cam->k[2]));
  *u = cam->fx * (x * radial + 2 * cam->p[0] * x * y + cam->p[1] * (r2 + 2 * x * x)) + cam->cx;
  *v = cam->fy * (y * radial + cam->p[0] * (r2 + 2 * y * y) + 2 * cam->p[1] * x * y) + cam->cy;
  return true;
}
__global__ void reproject(Camera cam, const float *pose, const float *points, const float *seen, float *residual, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float w0 = pose[0], w1 = pose[1], w2 = pose[2], th2 = w0 * w0 + w1 * w1 + w2 * w2, th = sqrtf(th2 + 1e-12f);
  const float A = sinf(th) / th, B = (1 - cosf(th)) / (th2 + 1e-12f);
  const float X = points[3 * i], Y = points[3 * i + 1], Z = points[3 * i + 2];
  const float c0 = w1 * Z - w2 * Y, c1 = w2 * X - w0 * Z, c2 = w0 * Y - w1 * X;
  float u = 0, v = 0;
  const bool ok = project(&cam, X + A * c0 + B * (w1 * c2 - w2 * c1) + pose[3], Y + A * c1 + B * (w2 * c0 - w0 * c2) + pose[4],
                          Z + A * c2 + B * (w0 * c1 - w1 * c0) + pose[5], &u, &v);
  residual[2 * i] = ok ? u - seen[2 * i] : 0.f;
  residual[2 * i + 1] = ok ? v - seen[2 * i + 1] : 0.f;
}]=], shape = { 4, 2 }, args = function(t)
      local cam = { fx = 1.5, fy = 1.25, cx = 0.5, cy = 0.25, k = { 0.125, -0.0625, 0.03125 },
        p = { 0.0625, -0.03125 } }
      return { cam, t.tensor { 0.2, -0.1, 0.3, 0.1, 0.2, 0.5 }, t.f { 4, 3 } + t.tensor { 0, 0, 1 },
        t.f { 4, 2 }, 4 }
    end, tol = 1e-4,
    want = function(cam, pose, points, seen, n)
      local out = {}
      for i = 0, n - 1 do
        local w, th = { pose[0], pose[1], pose[2] },
          math.sqrt(pose[0] ^ 2 + pose[1] ^ 2 + pose[2] ^ 2)
        local p, k = { points[3 * i], points[3 * i + 1], points[3 * i + 2] }, {}
        for c = 1, 3 do k[c] = w[c] / th end
        local dot = k[1] * p[1] + k[2] * p[2] + k[3] * p[3]
        local cross = { k[2] * p[3] - k[3] * p[2], k[3] * p[1] - k[1] * p[3],
          k[1] * p[2] - k[2] * p[1] }
        local q = {}
        for c = 1, 3 do                                     -- Rodrigues
          q[c] = p[c] * math.cos(th) + cross[c] * math.sin(th)
            + k[c] * dot * (1 - math.cos(th)) + pose[2 + c]
        end
        out[2 * i], out[2 * i + 1] = 0, 0
        if q[3] > 0.1 then
          local x, y = q[1] / q[3], q[2] / q[3]
          local r2 = x * x + y * y
          local radial = 1 + r2 * (cam.k[1] + r2 * (cam.k[2] + r2 * cam.k[3]))
          out[2 * i] = cam.fx * (x * radial + 2 * cam.p[1] * x * y + cam.p[2] * (r2 + 2 * x * x))
            + cam.cx - seen[2 * i]
          out[2 * i + 1] =
            cam.fy * (y * radial + cam.p[1] * (r2 + 2 * y * y) + 2 * cam.p[2] * x * y) + cam.cy
            - seen[2 * i + 1]
        end
      end
      return out
    end },

  { "cubic sampling with a border", [=[
__device__ __forceinline__ void cubic(float t, float (&w)[4]) {
  constexpr float a = -0.75f;
  auto near_ = [=](float x) { return ((a + 2.f) * x - (a + 3.f)) * x * x + 1.f; };
  auto far_ = [=](float x) { return ((a * x - 5.f * a) * x + 8.f * a) * x - 4.f * a; };
  w[0] = far_(t + 1.f); w[1] = near_(t); w[2] = near_(1.f - t); w[3] = far_(2.f - t);
}
__global__ void bicubic(const float *img, const float2 *at, float *y, int w, int h, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float fx = floorf(at[i].x), fy = floorf(at[i].y);
  float wx[4], wy[4], acc = 0.f;
  cubic(at[i].x - fx, wx);
  cubic(at[i].y - fy, wy);
  for (int r = 0; r < 4; ++r) {
    const int yy = min(max((int)fy + r - 1, 0), h - 1);
    float row = 0.f;
    for (int c = 0; c < 4; ++c) row += wx[c] * img[yy * w + min(max((int)fx + c - 1, 0), w - 1)];
    acc += wy[r] * row;
  }
  y[i] = acc;
}]=],
    shape = { 4 }, args = function(t)
      return { t.f { 4, 5 }, t.f { 4, 2, low = 0, high = 4 }, 5, 4, 4 }
    end,
    want = function(img, at, w, h, n)
      local function k(x)
        x = math.abs(x)
        if x <= 1 then return 1.25 * x ^ 3 - 2.25 * x ^ 2 + 1 end
        return x < 2 and -0.75 * x ^ 3 + 3.75 * x ^ 2 - 6 * x + 3 or 0
      end
      return each(n, function(i)
        local s, px, py = 0, at[2 * i], at[2 * i + 1]
        for y = -3, h + 3 do
          for x = -3, w + 3 do
            local v = img[math.max(0, math.min(h - 1, y)) * w + math.max(0, math.min(w - 1, x))]
            s = s + k(px - x) * k(py - y) * v
          end
        end
        return s
      end)
    end },

  { "a volume read between its eight neighbours", [=[
template <bool ALIGN> struct Unnormalise {
  static __device__ float at(float v, int size) { return ALIGN ? (v + 1) * 0.5f * (size - 1) : ((v + 1) * size - 1) * 0.5f; }
};
__global__ void trilinear(const float *vol, const float *grid, float *y, int3 size, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float p[3] = { Unnormalise<false>::at(grid[3 * i], size.x), Unnormalise<false>::at(grid[3 * i + 1], size.y),
                       Unnormalise<false>::at(grid[3 * i + 2], size.z) };
  float acc = 0.f;
  #pragma unroll
  for (int corner = 0; corner < 8; ++corner) {
    float w = 1.f;
    int q[3];
    bool inside = true;
    for (int a = 0; a < 3; ++a) {
      const float f = floorf(p[a]);
      const int up = corner >> a & 1;
      q[a] = (int)f + up;
      w *= up ? p[a] - f : 1.f - (p[a] - f);
      inside = inside && q[a] >= 0 && q[a] < (a == 0 ? size.x : a == 1 ? size.y : size.z);
    }
    if (inside) acc += w * vol[(q[2] * size.y + q[1]) * size.x + q[0]];
  }
  y[i] = acc;
}]=],
    shape = { 5 }, args = function(t) return { t.f { 3, 2, 4 }, t.f { 5, 3 }, { 4, 2, 3 }, 5 } end,
    want = function(vol, grid, size, n)
      return each(n, function(i)
        local p = {}
        for a = 1, 3 do p[a] = ((grid[3 * i + a - 1] + 1) * size[a] - 1) / 2 end
        local s = 0
        for z = 0, size[3] - 1 do
          for y = 0, size[2] - 1 do
            for x = 0, size[1] - 1 do
              s = s + math.max(0, 1 - math.abs(p[1] - x)) * math.max(0, 1 - math.abs(p[2] - y)) *
                math.max(0, 1 - math.abs(p[3] - z)) * vol[(z * size[2] + y) * size[1] + x]
            end
          end
        end
        return s
      end)
    end },

  { "an edge-keeping blur", [=[
__global__ void bilateral(const float *x, float *y, int w, int h, float inv_s, float inv_r) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (c >= w || r >= h) return;
  const float m = x[r * w + c];
  float a = 0, b = 0;
  for (int dy = -1; dy <= 1; ++dy) {
    if (r + dy < 0 || r + dy >= h) continue;
    for (int dx = -1; dx <= 1; ++dx) {
      if ((unsigned)(c + dx) >= (unsigned)w) continue;
      const float v = x[(r + dy) * w + c + dx], d = v - m;
      const float k = __expf(-(dx * dx + dy * dy) * inv_s - d * d * inv_r);
      a += k * v; b += k;
    }
  }
  y[r * w + c] = a / b;
}]=],
    block = { 4, 2 }, grid = { 2, 2 }, shape = { 3, 5 },
    args = function(t) return { t.f { 3, 5 }, 5, 3, 0.4, 2 } end,
    want = function(x, w, h, s, q)
      return each(w * h, function(e)
        local a, b, c, r = 0, 0, e % w, e // w
        for yy = math.max(r - 1, 0), math.min(r + 1, h - 1) do
          for xx = math.max(c - 1, 0), math.min(c + 1, w - 1) do
            local k = math.exp(-((xx - c) ^ 2 + (yy - r) ^ 2) * s - (x[yy * w + xx] - x[e]) ^ 2 * q)
            a, b = a + k * x[yy * w + xx], b + k
          end
        end
        return a / b
      end)
    end },

  { "a soft histogram in shared memory", [=[
#define BINS 6
__global__ void soft_hist(const float *x, float *hist, float width, int n) {
  __shared__ float h[BINS];
  for (int b = threadIdx.x; b < BINS; b += blockDim.x) h[b] = 0.f;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const float p = (x[i] + 1.f) * 0.5f * (BINS - 1);
    for (int b = 0; b < BINS; ++b) {
      const float d = fabsf(p - b) / width;
      if (d >= 1.f) continue;
      atomicAdd(&h[b], (1.f - d) * (1.f - d) * (1.f + 2.f * d));
    }
  }
  __syncthreads();
  if (threadIdx.x < BINS) atomicAdd(hist + threadIdx.x, h[threadIdx.x] / n);
}]=],
    block = { 8 }, grid = { 2 }, shape = { 6 },
    args = function(t) return { t.f { 21 }, 1.5, 21 } end, tol = 1e-4,
    want = function(x, width, n)
      return each(6, function(b)
        return sum(n, function(i)
          local d = math.abs((x[i] + 1) * 2.5 - b) / width
          return d < 1 and (1 - d) ^ 2 * (1 + 2 * d) / n or 0
        end)
      end)
    end },

  { "the nearest of the other set, both ways", [=[
__device__ float nearest(const float *a, const float *b, int i, int m, int *who) {
  float best = 1e30f;
  int at = -1;
  for (int j = 0; j < m; ++j) {
    float d = 0.f;
    for (int c = 0; c < 3; ++c) { const float e = a[3 * i + c] - b[3 * j + c]; d += e * e; }
    if (d < best) best = d, at = j;
  }
  *who = at;
  return best;
}
__global__ void chamfer(const float *a, const float *b, float *loss, int *match, int n, int m) {
  __shared__ float part[16];
  const int t = threadIdx.x;
  int who = -1;
  float d = 0.f;
  if (t < n) { d = nearest(a, b, t, m, &who) / n; match[t] = who; }
  else if (t < n + m) { d = nearest(b, a, t - n, n, &who) / m; match[t] = who; }
  part[t] = d;
  __syncthreads();
  for (int s = blockDim.x >> 1; s; s >>= 1) { if (t < s) part[t] += part[t + s]; __syncthreads(); }
  if (!t) loss[0] = part[0];
}]=],
    block = { 16 }, grid = { 1 }, shape = { 9 }, args = function(t)
      return { t.f { 4, 3 }, t.f { 5, 3 }, 4, 5 }
    end,
    order = 1,
    want = function(a, b, n, m)
      local match, loss = {}, each(9, function() return 0 end)
      local function way(p, q, np, nq, from)
        for i = 0, np - 1 do
          local best = math.huge
          for j = 0, nq - 1 do
            local d = sum(3, function(c) return (p[3 * i + c] - q[3 * j + c]) ^ 2 end)
            if d < best then best, match[from + i] = d, j end
          end
          loss[0] = loss[0] + best / np
        end
      end
      way(a, b, n, m, 0)
      way(b, a, m, n, n)
      return loss, match
    end },

  { "the best three by insertion, weighted", [=[
template <typename T, int K>
struct TopK {
  T v[K]; int at[K];
  __device__ TopK() { for (int k = 0; k < K; ++k) { v[k] = T(-1e30f); at[k] = -1; } }
  __device__ void push(T x, int i) {
    if (!(x > v[K - 1])) return;
    int k = K - 1;
    for (; k > 0 && x > v[k - 1]; --k) { v[k] = v[k - 1]; at[k] = at[k - 1]; }
    v[k] = x; at[k] = i;
  }
};
__global__ void topk(const float *x, float *y, int *idx, int rows, int cols) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  TopK<float, 3> best;
  for (int c = 0; c < cols; ++c) best.push(x[r * cols + c], c);
  float z = 0.f;
  for (int k = 0; k < 3; ++k) z += expf(best.v[k]);
  for (int k = 0; k < 3; ++k) { y[3 * r + k] = expf(best.v[k]) / z; idx[3 * r + k] = best.at[k]; }
}]=], shape = { 2, 3 }, args = function(t) return { t.f { 2, 7 }, 2, 7 } end,
    want = function(x, rows, cols)
      local y, at = {}, {}
      for r = 0, rows - 1 do
        local order = {}
        for c = 0, cols - 1 do order[c + 1] = c end
        table.sort(order, function(a, b) return x[r * cols + a] > x[r * cols + b] end)
        local z = sum(3, function(k) return math.exp(x[r * cols + order[k + 1]]) end)
        for k = 0, 2 do
          y[3 * r + k], at[3 * r + k] = math.exp(x[r * cols + order[k + 1]]) / z, order[k + 1]
        end
      end
      return y, at
    end },

  { "regions pooled by samples between pixels", [=[
__device__ float sample(const float *f, int h, int w, float y, float x) {
  if (y < -1.f || y > h || x < -1.f || x > w) return 0.f;
  y = fmaxf(y, 0.f); x = fmaxf(x, 0.f);
  int y0 = (int)y, x0 = (int)x, y1, x1;
  if (y0 >= h - 1) { y1 = y0 = h - 1; y = (float)y0; } else y1 = y0 + 1;
  if (x0 >= w - 1) { x1 = x0 = w - 1; x = (float)x0; } else x1 = x0 + 1;
  const float ly = y - y0, lx = x - x0, hy = 1.f - ly, hx = 1.f - lx;
  return hy * hx * f[y0 * w + x0] + hy * lx * f[y0 * w + x1] + ly * hx * f[y1 * w + x0] + ly * lx * f[y1 * w + x1];
}
__global__ void roi_align(const float *f, const float4 *boxes, float *out, int h, int w, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n * 4) return;
  const int px = i % 2, py = i / 2 % 2, b = i / 4;
  const float4 q = boxes[b];
  const float bw = fmaxf(q.z - q.x, 0.5f) / 2, bh = fmaxf(q.w - q.y, 0.5f) / 2;
  float s = 0.f;
  for (int k = 0; k < 4; ++k)
    s += sample(f, h, w, q.y + bh * (py + (k / 2 + 0.5f) / 2), q.x + bw * (px + (k % 2 + 0.5f) / 2));
  out[i] = s / 4;
}]=], shape = { 2, 2, 2 }, args = function(t)
      return { t.f { 4, 5 },
        t.tensor { { 0.3, 0.2, 3.1, 2.7 }, { 1.15, 1.35, 4.6, 3.3 } }, 4, 5, 2 }
    end,
    want = function(f, boxes, h, w, n)
      return each(4 * n, function(i)
        local b, px, py = 4 * (i // 4), i % 2, i // 2 % 2
        local bw, bh = math.max(boxes[b + 2] - boxes[b], 0.5) / 2,
          math.max(boxes[b + 3] - boxes[b + 1], 0.5) / 2
        return sum(4, function(k)
          local y = boxes[b + 1] + bh * (py + (k // 2 + 0.5) / 2)
          local x = boxes[b] + bw * (px + (k % 2 + 0.5) / 2)
          y, x = math.min(y, h - 1), math.min(x, w - 1)
          local v = 0
          for r = 0, h - 1 do
            for c = 0, w - 1 do
              v = v + math.max(0, 1 - math.abs(y - r)) * math.max(0,
                1 - math.abs(x - c)) * f[r * w + c]
            end
          end
          return v / 4
        end)
      end)
    end },

  { "a gate of two experts with a capacity drawn by ballots", [=[
__global__ void route(const float *logit, const float *x, float *y, int n, int capacity) {
  const int i = threadIdx.x;
  const bool live = i < n;
  const float a = live ? logit[2 * i] : -1e30f, b = live ? logit[2 * i + 1] : -1e30f;
  const int e = b > a;
  const unsigned mask = __ballot_sync(0xffffffffu, live && e), other = __ballot_sync(0xffffffffu, live && !e);
  const unsigned before = (1u << i) - 1u;
  const int rank = __popc((e ? mask : other) & before);
  const float p = 1.f / (1.f + expf(e ? a - b : b - a));
  if (live) y[i] = rank < capacity ? p * x[i] * (e ? 2.f : 1.f) : x[i];
}]=],
    block = { 32 }, grid = { 1 }, shape = { 9 }, args = function(t)
      return { t.f { 9, 2 }, t.f { 9 }, 9, 3 }
    end,
    want = function(logit, x, n, capacity)
      local count = { [0] = 0, 0 }
      return each(n, function(i)
        local e = logit[2 * i + 1] > logit[2 * i] and 1 or 0
        count[e] = count[e] + 1
        if count[e] > capacity then return x[i] end
        return sigmoid(math.abs(logit[2 * i + 1] - logit[2 * i])) * x[i] * (e == 1 and 2 or 1)
      end)
    end },
}
