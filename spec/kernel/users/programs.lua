--- Kernels from numerics, finance, sound and graphs whose threads diverge: state machines, stacks,
--- loops that are left early.

local lists = dofile("spec/kernel/users/lists.lua")
local each, sum = lists.each, lists.sum

local head = "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n"
local function over(body, before, sig)
  return (before or "") .. "__global__ void k(" .. (sig or "const float *x, float *y, int n")
    .. ") {\n" .. head .. body .. "\n}"
end
local function one(n, low, high)
  return function(t) return { t.f { n, low = low, high = high }, n } end
end
local function squares(x, n) return each(n, function(i) return x[i] ^ 2 end) end

return {
  { "a stack machine of operations from a table", [=[
__global__ void rpn(const float *x, const int *code, float *y, int m, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float st[8]; int sp = 0;
  for (int k = 0; k < m; ++k) {
    int op = code[k];
    if (op >= 0) { st[sp++] = x[i * 4 + op]; continue; }
    float b = st[--sp], a = st[--sp];
    switch (op) {
      case -1: st[sp++] = a + b; break;
      case -2: st[sp++] = a * b; break;
      case -3: st[sp++] = sinf(a) - b; break;
      default: st[sp++] = a / (1.f + b * b);
    }
  }
  y[i] = st[--sp];
}]=],
    shape = { 3 }, args = function(t)
      return { t.f { 3, 4 }, t.i { 0, 1, -2, 2, -1, 3, 0, -3, -4, 1, -2 }, 11, 3 }
    end,
    want = function(x, _, _, n) return each(n, function(i)
      local a, b, d, e = x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]
      local l, r = a * b + d, math.sin(e) - a
      return l / (1 + r * r) * b end) end },

  { "Gauss's elimination with pivots, rows exchanged in registers", [=[
#define N 3
__global__ void solve(const float *A, const float *b, float *x, float *det, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float m[N][N + 1];
  for (int r = 0; r < N; ++r) { for (int c = 0; c < N; ++c) m[r][c] = A[(i * N + r) * N + c]; m[r][N] = b[i * N + r]; }
  float d = 1;
  for (int k = 0; k < N; ++k) {
    int p = k;
    for (int r = k + 1; r < N; ++r) if (fabsf(m[r][k]) > fabsf(m[p][k])) p = r;
    if (p != k) { for (int c = 0; c <= N; ++c) { float t = m[k][c]; m[k][c] = m[p][c]; m[p][c] = t; } d = -d; }
    d *= m[k][k];
    for (int r = k + 1; r < N; ++r) {
      float f = m[r][k] / m[k][k];
      for (int c = k; c <= N; ++c) m[r][c] -= f * m[k][c];
    }
  }
  for (int r = N - 1; r >= 0; --r) {
    float s = m[r][N];
    for (int c = r + 1; c < N; ++c) s -= m[r][c] * m[c][N];
    m[r][N] = s / m[r][r];
  }
  for (int r = 0; r < N; ++r) x[i * N + r] = m[r][N];
  for (int r = 0; r < N; ++r) det[i * N + r] = d * r;
}]=], shape = { 2, 3 }, tol = 2e-3, args = function(t)
      return {
        t.tensor({ 0.1, 2, 1, 3, 0.5, -1, 1, 1, 4, 0, 1, 2.2, 1.5, -2, 0.3, -0.4, 1, 1 })
        :reshape { 2, 3, 3 }, t.f { 2, 3 }, 2 }
        end,
    want = function(A, b, n)
      local X, D = {}, {}
      local function det(m)
        return m[1] * (m[5] * m[9] - m[6] * m[8]) - m[2] * (m[4] * m[9] - m[6] * m[7])
          + m[3] * (m[4] * m[8] - m[5] * m[7]) end
      for i = 0, n - 1 do
        local m = {}
        for k = 1, 9 do m[k] = A[9 * i + k - 1] end
        local d = det(m)
        for r = 0, 2 do D[3 * i + r] = d * r end
        for c = 0, 2 do
          local q = table.move(m, 1, 9, 1, {})
          for r = 0, 2 do q[3 * r + c + 1] = b[3 * i + r] end
          X[3 * i + c] = det(q) / d
        end
      end
      return X, D end },

  { "Kepler's equation, left in the middle of a round", [=[
__global__ void kepler(const float *M, const float *e, float *E, float *its, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = M[i];
  int k = 0;
  for (;;) {
    float s, c;
    sincosf(x, &s, &c);
    float f = x - e[i] * s - M[i];
    if (fabsf(f) < 1e-13f || k == 20) break;
    x -= f / (1 - e[i] * c);
    ++k;
  }
  E[i] = x; its[i] = (k > 0) * x;
}]=],
    order = 1, tol = 1e-4, args = function(t)
      return { t.f { 5, low = 0.2, high = 2 }, t.f { 5, low = 0.1, high = 0.6 }, 5 }
    end,
    want = function(M, e, n)
      local E = each(n, function(i) local x = M[i] for _ = 1,
        60 do x = x - (x - e[i] * math.sin(x) - M[i]) / (1 - e[i] * math.cos(x))
        end return x end)
      return E, E end },

  { "an envelope's states, a switch that continues the loop around it", [=[
enum State { IDLE = 0, RISE, FALL };
__global__ void env(const float *x, float *y, int T, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  State st = IDLE; float e = 0, acc = 0;
  for (int t = 0; t < T; ++t) {
    const float v = x[i * T + t];
    switch (st) {
    case IDLE: if (v > 0.2f) { st = RISE; e = v; } else continue; break;
    case RISE: e += 0.5f * (v * v - e); if (e < 0.3f) { st = FALL; } break;
    case FALL: e *= 0.8f; if (e < 0.1f) { st = IDLE; continue; }
    }
    acc += e * v;
  }
  y[i] = acc;
}]=], shape = { 4 }, args = function(t) return { t.f { 4, 12 }, 12, 4 } end,
    want = function(x, T, n) return each(n, function(i)
      local st, e, acc = 0, 0, 0
      for t = 0, T - 1 do
        local v, skip = x[i * T + t], false
        if st == 0 then if v > 0.2 then st = 1 e = v else skip = true end
        elseif st == 1 then e = e + 0.5 * (v * v - e) if e < 0.3 then st = 2 end
        else e = e * 0.8 if e < 0.1 then st = 0 skip = true end end
        if not skip then acc = acc + e * v end
      end
      return acc end) end },

  { "a delay line that turns in a local array", [=[
__global__ void delay(const float *x, float *y, float fb, int T, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float ring[5] = {0}; int w = 0;
  for (int t = 0; t < T; ++t) {
    float d = ring[w];
    float o = x[i * T + t] + fb * tanhf(d);
    ring[w] = o;
    if (++w == 5) w = 0;
    y[i * T + t] = o;
  }
}]=],
    shape = { 2, 17 }, args = function(t)
      return { t.f { 2, 17 }, t.f { 1, low = 0.4, high = 0.6 }, 17, 2 }
    end,
    want = function(x, fb, T, n)
      local y = {}
      for i = 0, n - 1 do for t = 0, T - 1 do
        local d = t >= 5 and y[i * T + t - 5] or 0
        local e = math.exp(2 * d)
        y[i * T + t] = x[i * T + t] + fb[0] * (e - 1) / (e + 1) end end
      return y end },

  { "the median of nine by exchanges through references", [=[
template <typename T> __device__ __forceinline__ void cswap(T &a, T &b) { if (a > b) { T t = a; a = b; b = t; } }
__global__ void median(const float *x, float *y, int h, int w) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r >= h || c >= w) return;
  float v[9]; int k = 0;
  for (int dy = -1; dy <= 1; ++dy)
    for (int dx = -1; dx <= 1; ++dx) v[k++] = x[min(max(r + dy, 0), h - 1) * w + min(max(c + dx, 0), w - 1)];
  for (int a = 0; a < 8; ++a)
    for (int b = 0; b < 8 - a; ++b) cswap(v[b], v[b + 1]);
  y[r * w + c] = v[4] * v[4] + 0.1f * v[0];
}]=],
    block = { 4, 4 }, grid = { 2, 2 }, shape = { 5, 6 },
    args = function(t) return { t.f { 5, 6 }, 5, 6 } end,
    want = function(x, h, w) return each(h * w, function(i)
      local r, c, v = i // w, i % w, {}
      for dy = -1, 1 do
        for dx = -1, 1 do
          v[#v + 1] =
            x[math.min(math.max(r + dy, 0), h - 1) * w + math.min(math.max(c + dx, 0), w - 1)]
        end end
      table.sort(v)
      return v[5] ^ 2 + 0.1 * v[1] end) end },

  { "pairs until a limit, two loops left by a flag", [=[
__global__ void pairs(const float *x, float *y, float cut, int m, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float *r = x + i * m;
  float s = 0; bool done = false;
  for (int a = 0; a < m && !done; ++a)
    for (int b = 0; b < a; ++b) {
      s += r[a] * r[b];
      if (s > cut) { done = true; break; }
    }
  y[i] = done ? s * s : s;
}]=],
    shape = { 4 }, nodiff = { "cut" }, args = function(t)
      return { t.f { 4, 6, low = -0.4, high = 1 }, 0.9, 6, 4 }
    end,
    want = function(x, cut, m, n) cut = type(cut) == "table" and cut[0]
    or cut return each(n, function(i)
      local s, done = 0, false
      for a = 0, m - 1 do if done then break end
        for b = 0, a - 1 do
          s = s + x[i * m + a] * x[i * m + b]
          if s > cut then done = true break end
        end end
      return done and s * s or s end) end },

  { "vectors by the kernel's operators, crossed and normalised", over([=[
  float3 a = p[i], b = p[(i + 1) % n]; float3 c = cross(a, b); c += a * dot(a, b); c *= 0.5f; q[i] = normalize(-c) + b / 2.f;]=], [=[
inline __device__ float3 operator+(float3 a, float3 b) { return make_float3(a.x + b.x, a.y + b.y, a.z + b.z); }
inline __device__ float3 operator*(float3 a, float s) { return make_float3(a.x * s, a.y * s, a.z * s); }
inline __device__ float3 operator/(float3 a, float s) { return a * (1.f / s); }
inline __device__ float3 operator-(const float3 &a) { return make_float3(-a.x, -a.y, -a.z); }
inline __device__ void operator+=(float3 &a, float3 b) { a.x += b.x; a.y += b.y; a.z += b.z; }
inline __device__ void operator*=(float3 &a, float b) { a.x *= b; a.y *= b; a.z *= b; }
inline __device__ float dot(float3 a, float3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
inline __device__ float3 cross(float3 a, float3 b) {
  return make_float3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x); }
inline __device__ float3 normalize(float3 v) { float inv = rsqrtf(dot(v, v)); return v * inv; }
]=],
    "const float3 *p, float3 *q, int n"), shape = { 4, 3 }, order = 1,
  args = function(t) return { t.f { 4, 3 }, 4 } end,
    want = function(p, n) local y = {}
      for i = 0, n - 1 do local j = (i + 1) % n
        local a1, a2, a3, b1, b2, b3 = p[3 * i], p[3 * i + 1], p[3 * i + 2], p[3 * j],
          p[3 * j + 1], p[3 * j + 2]
        local d = a1 * b1 + a2 * b2 + a3 * b3
        local c = { 0.5 * (a2 * b3 - a3 * b2 + a1 * d), 0.5 * (a3 * b1 - a1 * b3 + a2 * d),
          0.5 * (a1 * b2 - a2 * b1 + a3 * d) }
        local l = math.sqrt(c[1] ^ 2 + c[2] ^ 2 + c[3] ^ 2)
        y[3 * i], y[3 * i + 1], y[3 * i + 2] = -c[1] / l + b1 / 2, -c[2] / l + b2 / 2,
          -c[3] / l + b3 / 2 end
      return y end },

  { "a function left from inside of two loops, a status and a reference", over([=[
  float r; int st = trace(x, n, x[i], r); y[i] = st * r + r * r;]=], [=[
__device__ int trace(const float *x, int n, float o, float &t) {
  t = o;
  for (int a = 0; a < n; ++a) { for (int b = a; b < n; ++b) { t += 0.1f * x[a] * x[b]; if (t > 0.6f) return a + 1;
    if (t < -0.5f) { t *= x[b]; return -b; } } if (t > 0.4f) break; }
  t *= 2; return 0; }
]=]), args = one(6), want = function(x, n) return each(n, function(i)
      local function trace() local t = x[i]
        for a = 0, n - 1 do
          for b = a, n - 1 do
            t = t + 0.1 * x[a] * x[b]
            if t > 0.6 then return a + 1, t end
            if t < -0.5 then
          return -b, t * x[b] end end if t > 0.4 then break end end
        return 0, t * 2 end
      local s, r = trace() return s * r + r * r end) end },

  { "a function that gets one variable by two references", over([=[
  float a = x[i], b = 2.f; mix(a, a, b); mix(b, a, a); y[i] = a * b;]=],
    "__device__ void mix(float &p, const float &q, float &r) { p = p * q + 0.5f; r = q * r - p; }\n"),
  args = one(5),
    want = function(x, n) return each(n, function(i) local a, b = x[i],
      2 a = a * a + 0.5 b = a * b - a
      b = b * a + 0.5 a = a * a - b return a * b end) end },

  { "running products, a scan carried over tiles", [=[
__global__ void cumprod(const float *x, float *y, int n) {
  __shared__ float s[8]; __shared__ float carry;
  if (threadIdx.x == 0) carry = 1.f;
  __syncthreads();
  for (int base = 0; base < n; base += 8) {
    int i = base + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 1.f;
    __syncthreads();
    for (int d = 1; d < 8; d <<= 1) {
      float t = threadIdx.x >= d ? s[threadIdx.x - d] : 1.f;
      __syncthreads();
      s[threadIdx.x] *= t;
      __syncthreads();
    }
    if (i < n) y[i] = carry * s[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 7) carry *= s[7];
    __syncthreads();
  }
}]=],
    block = { 8 }, grid = { 1 }, shape = { 20 }, order = 1,
    args = function(t) return { t.f { 20, low = 0.7, high = 1.4 }, 20 } end,
    want = function(x, n)
      local p, y = 1, {}
      for i = 0, n - 1 do p = p * x[i] y[i] = p end
      return y
    end },

  { "a layer's norm, means and deviations of lanes merged as Chan does", [=[
__global__ void ln(const float *x, const float *g, const float *b, float *y, float eps, int D) {
  int r = blockIdx.x, lane = threadIdx.x;
  float mean = 0, m2 = 0, cnt = 0;
  for (int c = lane; c < D; c += 32) { cnt += 1; float d = x[r * D + c] - mean; mean += d / cnt; m2 += d * (x[r * D + c] - mean); }
  for (int o = 16; o > 0; o >>= 1) {
    float mb = __shfl_xor_sync(~0u, mean, o), m2b = __shfl_xor_sync(~0u, m2, o), cb = __shfl_xor_sync(~0u, cnt, o);
    float t = cnt + cb;
    if (t > 0) { float d = mb - mean; mean = (cnt * mean + cb * mb) / t; m2 += m2b + d * d * cnt * cb / t; cnt = t; }
  }
  float inv = rsqrtf(m2 / D + eps);
  for (int c = lane; c < D; c += 32) y[r * D + c] = (x[r * D + c] - mean) * inv * g[c] + b[c];
}]=], block = { 32 }, grid = { 2 }, shape = { 2, 40 }, order = 1, args = function(t)
  return { t.f { 2, 40 }, t.f { 40 }, t.f { 40 }, 1e-5, 40 } end,
    want = function(x, g, b, eps, D) local y = {}
      for r = 0, 1 do local m = sum(D, function(c) return x[r * D + c] end) / D
        local v = sum(D, function(c) return (x[r * D + c] - m) ^ 2 end) / D
        for c = 0, D - 1 do
          y[r * D + c] = (x[r * D + c] - m) / math.sqrt(v + eps) * g[c] + b[c]
        end end
      return y end },

  { "the greatest few, shared memory cut in reals and marks", [=[
__global__ void topk(const float *x, const float *w, float *y, int D, int K) {
  extern __shared__ float smem[];
  float *v = smem, *red = v + D; int *used = (int *)(red + blockDim.x);
  const int t = threadIdx.x; const float *r = x + blockIdx.x * D;
  for (int c = t; c < D; c += blockDim.x) { v[c] = r[c] * w[c]; used[c] = 0; }
  __syncthreads();
  float total = 0;
  for (int k = 0; k < K; ++k) {
    float best = -1e30f; int at = -1;
    for (int c = 0; c < D; ++c) if (!used[c] && v[c] > best) { best = v[c]; at = c; }
    __syncthreads();
    if (t == 0) used[at] = 1;
    __syncthreads();
    total += best / (k + 1);
  }
  red[t] = total * v[t];
  __syncthreads();
  float s = 0;
  for (int c = 0; c < (int)blockDim.x; ++c) s += red[c];
  if (t == 0) y[blockIdx.x] = s;
}]=], block = { 4 }, grid = { 2 }, shape = { 2 }, shared = 7 * 4 + 4 * 4 + 7 * 4,
  refuses = "give all arrays but one a size", single = true, args = function(t)
    return { t.f { 2, 7 }, t.f { 7 }, 7, 3 } end,
    want = function(x, w, D, K) return each(2, function(r) local v = {} for c = 0,
      D - 1 do v[c + 1] = x[r * D + c] * w[c] end
      local o = table.move(v, 1, D, 1, {}) table.sort(o, function(a, b) return a > b end)
      local t = 0 for k = 1, K do t = t + o[k] / k end
      return t * (v[1] + v[2] + v[3] + v[4]) end) end },

  { "the greatest eigenvalue by powers, all leave the loop together", [=[
__global__ void power(const float *A, const float *v0, float *v, float *lam, int n, int iters, float tol) {
  __shared__ float s[8], red[8];
  const int t = threadIdx.x;
  s[t] = v0[t];
  __syncthreads();
  float l = 0;
  for (int it = 0; it < iters; ++it) {
    float w = 0;
    for (int c = 0; c < n; ++c) w += A[t * n + c] * s[c];
    red[t] = w * w;
    __syncthreads();
    float q = 0;
    for (int c = 0; c < n; ++c) q += red[c];
    float nl = sqrtf(q);
    __syncthreads();
    s[t] = w / nl;
    __syncthreads();
    bool stop = fabsf(nl - l) < tol;
    l = nl;
    if (stop) break;
  }
  v[t] = s[t]; lam[t] = l * (t == 0);
}]=], block = { 5 }, grid = { 1 }, shape = { 5 }, order = 1, nodiff = { "tol" }, args = function(t)
  return { t.f { 5, 5, low = 0.1, high = 1 }, t.f { 5, low = 0.5, high = 1 }, 5, 12, 1e-3 } end,
    want = function(A, v0, n, iters) local s, l = each(n, function(i) return v0[i] end), 0
      for _ = 1, iters do
        local w = each(n, function(t) return sum(n, function(c) return A[t * n + c] * s[c] end) end)
        local nl = math.sqrt(sum(n, function(c) return w[c] ^ 2 end))
        s = each(n, function(i) return w[i] / nl end)
        local stop = math.abs(nl - l) < 1e-3 l = nl if stop then break end end
      return s, each(n, function(i) return i == 0 and l or 0 end) end },

  { "Asian options with a barrier, paths left early", [=[
__global__ void asian(const float *z, const float *S0, const float *sig, float K, float B, float *pay, int T, int n) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= n) return;
  float s = S0[0], v = sig[0], dt = 1.f / T, mean = 0;
  bool out = false;
  for (int t = 0; t < T; ++t) {
    s *= __expf((0.03f - 0.5f * v * v) * dt + v * sqrtf(dt) * z[t * n + p]);
    if (s > B) { out = true; break; }
    mean += (s - mean) / (t + 1);
  }
  pay[p] = out ? 0.2f * s : fmaxf(mean - K, 0.f);
}]=],
    shape = { 6 }, args = function(t) return { t.f { 8, 6, low = -2, high = 2 }, t.tensor { 1.02 },
      t.tensor { 0.4 }, 1.0, 1.3, 8, 6 }
  end,
    want = function(z, S0, sig, K, B, T, n)
      return each(n, function(p)
        local s, v, m = S0[0], sig[0], 0
        for t = 0, T - 1 do
          s = s * math.exp((0.03 - 0.5 * v * v) / T + v * math.sqrt(1 / T) * z[t * n + p])
          if s > B then return 0.2 * s end
          m = m + (s - m) / (t + 1)
        end
        return math.max(m - K, 0)
      end)
    end },

  { "the greatest of each segment, pairs shuffled in a lambda", [=[
struct KV { int k; float v; };
__global__ void segmax(const int *key, const float *x, float *y) {
  const unsigned F = 0xffffffffu; int l = threadIdx.x & 31;
  KV a = {key[threadIdx.x], x[threadIdx.x]};
  auto up = [&](int d) { KV r; r.k = __shfl_up_sync(F, a.k, d); r.v = __shfl_up_sync(F, a.v, d); return r; };
  for (int d = 1; d < 32; d *= 2) { KV b = up(d); if (l >= d && b.k == a.k) a.v = max(a.v, b.v); }
  int nk = __shfl_down_sync(F, a.k, 1); bool tail = l == 31 || nk != a.k;
  y[threadIdx.x] = tail ? a.v * a.v : 0.f;
}]=],
    block = { 32 }, grid = { 1 }, shape = { 32 }, args = function(t) local k = {} for i = 1,
    32 do k[i] = (i * i) // 100 end
  return { t.i(k), t.f { 32 } } end,
    want = function(key, x) return each(32, function(i) if i < 31
      and key[i + 1] == key[i] then return 0 end local m = -1e9
      for j = 0, i do if key[j] == key[i] then m = math.max(m, x[j]) end end
      return m * m end) end },

  { "a pivot chosen by a vote, ranks by counting bits", [=[
__global__ void pivot(const float *x, float *y, int n) {
  int t = threadIdx.x; float v = t < n ? x[t] : 0.f;
  unsigned m = __ballot_sync(0xffffffff, v > 0.3f);
  if (!m) { if (t < n) y[t] = v; return; }
  int src = 31 - __clz(m);
  float p = __shfl_sync(0xffffffff, v, src);
  int rank = __popc(m & ((1u << t) - 1));
  if (t < n) y[t] = (m >> t & 1) ? v / p + rank * p : v * p;
}]=], block = { 32 }, grid = { 1 }, args = function(t) return { t.f { 20 }, 20 } end,
    want = function(x, n) local src for i = 0,
    n - 1 do if x[i] > 0.3 then src = i end end local rank = 0
      return each(n, function(i) if x[i]
        > 0.3 then rank = rank + 1 return x[i] / x[src]
        + (rank - 1) * x[src] end return x[i] * x[src]
        end) end },

  { "shortest ways between all pairs in shared memory", [=[
__global__ void fw(const float *w, float *d, int n) {
  __shared__ float s[5][5];
  int r = threadIdx.y, c = threadIdx.x;
  s[r][c] = r == c ? 0.f : w[r * n + c];
  __syncthreads();
  for (int k = 0; k < n; ++k) {
    float v = fminf(s[r][c], s[r][k] + s[k][c]);
    __syncthreads();
    s[r][c] = v;
    __syncthreads();
  }
  d[r * n + c] = s[r][c] * s[r][c];
}]=],
    block = { 5, 5 }, grid = { 1 }, shape = { 5, 5 }, args = function(t)
      return { t.f { 5, 5, low = 0.1, high = 2 }, 5 }
    end,
    want = function(w, n) local d = each(n * n, function(i)
      return i // n == i % n and 0 or w[i]
    end)
      for k = 0, n - 1 do
        for r = 0, n - 1 do
          for c = 0, n - 1 do d[r * n + c] = math.min(d[r * n + c], d[r * n + k] + d[k * n + c]) end
        end end
      return each(n * n, function(i) return d[i] ^ 2 end) end },

  { "Cholesky by a block, column after column", [=[
__global__ void chol(const float *A, float *L, int n) {
  __shared__ float s[4][4];
  const int t = threadIdx.x;
  for (int c = 0; c < n; ++c) s[t][c] = A[t * n + c] + (t == c ? 4.f : 0.f);
  __syncthreads();
  for (int k = 0; k < n; ++k) {
    if (t == k) s[k][k] = sqrtf(s[k][k]);
    __syncthreads();
    if (t > k) s[t][k] /= s[k][k];
    __syncthreads();
    for (int c = k + 1; c <= t; ++c) s[t][c] -= s[t][k] * s[c][k];
    __syncthreads();
  }
  for (int c = 0; c < n; ++c) L[t * n + c] = c <= t ? s[t][c] : 0.f;
}]=],
    block = { 4 }, grid = { 1 }, shape = { 4, 4 }, order = 1,
    args = function(t) return { t.f { 4, 4 }, 4 } end,
    want = function(A, n) local L = each(n * n, function() return 0 end)
      for r = 0, n - 1 do for c = 0, r do local v = A[r * n + c] + (r == c and 4 or 0)
        for e = 0, c - 1 do v = v - L[r * n + e] * L[c * n + e] end
        L[r * n + c] = r == c and math.sqrt(v) or v / L[c * n + c] end end return L end },

  { "Givens's rotations, rows of a template by operator[]", [=[
template <int N> struct Mat { float a[N][N]; __device__ float *operator[](int r) { return a[r]; } };
template <int N> __device__ void givens(Mat<N> &m, int p, int q, int col) {
  const float x = m[p][col], y = m[q][col], r = hypotf(x, y);
  if (r < 1e-12f) return;
  const float c = x / r, s = y / r;
  for (int j = 0; j < N; ++j) { const float u = m[p][j], v = m[q][j]; m[p][j] = c * u + s * v; m[q][j] = c * v - s * u; }
}
__global__ void qr(const float *A, float *R, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Mat<3> m;
  for (int e = 0; e < 9; ++e) m[e / 3][e % 3] = A[i * 9 + e];
  for (int c = 0; c < 2; ++c) for (int r = 2; r > c; --r) givens(m, r - 1, r, c);
  for (int e = 0; e < 9; ++e) R[i * 9 + e] = e / 3 <= e % 3 ? m[e / 3][e % 3] : 0.f;
}]=],
    shape = { 2, 3, 3 }, order = 1, tol = 1e-4, args = function(t)
      return { t.f { 2, 3, 3 }, 2 }
    end,
    want = function(A, n) local R = {}
      for i = 0, n - 1 do local q = {}
        for c = 0, 2 do local v = { A[9 * i + c], A[9 * i + 3 + c], A[9 * i + 6 + c] }
          for e = 0, 2 do R[9 * i + 3 * e + c] = 0 end
          local w = { v[1], v[2], v[3] }
          for e = 0, c - 1 do
            local d = q[e][1] * v[1] + q[e][2] * v[2] + q[e][3] * v[3]
            R[9 * i + 3 * e + c] = d
            for a = 1, 3 do w[a] = w[a] - d * q[e][a] end end
          local l = math.sqrt(w[1] ^ 2 + w[2] ^ 2 + w[3] ^ 2)
          if c < 2 then R[9 * i + 3 * c + c] = l q[c] = { w[1] / l, w[2] / l, w[3] / l }
          else
            R[9 * i + 8] = (q[0][2] * q[1][3] - q[0][3] * q[1][2]) * v[1]
              + (q[0][3] * q[1][1] - q[0][1] * q[1][3]) * v[2] +
              (q[0][1] * q[1][2] - q[0][2] * q[1][1]) * v[3]
          end
        end end
      return R end },

  { "LU in place in global memory", [=[
__global__ void lu(float *a, int m, int n) {
  int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b >= n) return;
  float *A = a + b * m * m;
  for (int k = 0; k < m; ++k)
    for (int r = k + 1; r < m; ++r) {
      A[r * m + k] /= A[k * m + k];
      for (int c = k + 1; c < m; ++c) A[r * m + c] -= A[r * m + k] * A[k * m + c];
    }
}]=],
    inout = { "a" }, args = function(t)
      return { t.f { 2, 3, 3, low = 0.5, high = 1.5 }, 3, 2 }
    end,
    want = function(a, m, n) local y = each(m * m * n, function(i) return a[i] end)
      for b = 0, n - 1 do local o = b * m * m for k = 0, m - 1 do
        for r = k + 1, m - 1 do y[o + r * m + k] = y[o + r * m + k] / y[o + k * m + k]
        for c = k + 1, m - 1 do
          y[o + r * m + c] = y[o + r * m + c] - y[o + r * m + k] * y[o + k * m + c]
        end end end end return y end },

  { "segments multiplied, the way chosen by an enum class", [=[
enum class Mode : int { SUM, MEAN, PROD };
template <Mode M> __global__ void seg(const float *x, const int *ptr, const int *idx, float *y, int rows, int D) {
  int t = blockIdx.x * blockDim.x + threadIdx.x, r = t / D, c = t - r * D;
  if (r >= rows) return;
  float a = M == Mode::PROD ? 1.f : 0.f;
  for (int k = ptr[r]; k < ptr[r + 1]; ++k) {
    const float v = x[idx[k] * D + c];
    if constexpr (M == Mode::PROD) a *= v; else a += v;
  }
  if (M == Mode::MEAN) a /= max(ptr[r + 1] - ptr[r], 1);
  y[r * D + c] = a;
}]=], entry = "seg<Mode::PROD>", block = { 4 }, grid = { 2 }, shape = { 4, 2 }, args = function(t)
  return { t.f { 3, 2 }, t.i { 0, 2, 2, 5, 6 }, t.i { 0, 2, 1, 1, 0, 2 }, 4, 2 } end,
    want = function(x, ptr, idx, rows, D) return each(rows * D, function(t) local r, c, a = t // D,
      t % D, 1
      for q = ptr[r], ptr[r + 1] - 1 do a = a * x[idx[q] * D + c] end return a end) end },

  { "a macro that makes the loop, namespaces in namespaces", [=[
#include <cuda_runtime.h>
#define CUDA_KERNEL_LOOP(i, n) for (int64_t i##_ = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i = i##_; i < (n); \
  i += (int64_t)blockDim.x * gridDim.x)
namespace { namespace detail {
template <typename scalar_t> __host__ __device__ static __forceinline__ scalar_t sq(const scalar_t &v) { return v * v; }
} }
extern "C" __global__ void __launch_bounds__(256, 2) k(const float *__restrict__ const x, float *const __restrict__ y, const int n) {
  CUDA_KERNEL_LOOP(i, n) { y[i] = detail::sq<float>(x[i]); }
}]=], block = { 4 }, grid = { 1 }, args = one(6), want = squares },

  { "a matrix of three vectors, members counted from the first", over([=[
  mat3 m = mat3::diag(x[i]); m[0].y = 1; m(2, 2) -= 0.f; const mat3 q = m * m; y[i] = q[1].y + (m < q ? 0.f : 0.f);]=], [=[
struct mat3 { float3 r[3];
  __device__ static mat3 diag(float v) { mat3 m{}; m.r[0].x = v; m.r[1].y = v; m.r[2].z = v; return m; }
  __device__ float3 &operator[](int i) { return r[i]; } __device__ const float3 &operator[](int i) const { return r[i]; }
  __device__ float &operator()(int a, int b) { return (&r[a].x)[b]; } __device__ float operator()(int a, int b) const {
    return (&r[a].x)[b]; }
  __device__ bool operator<(const mat3 &o) const { return r[0].x < o.r[0].x; }
  __device__ friend mat3 operator*(const mat3 &a, const mat3 &b) { mat3 c{}; for (int i = 0; i < 3; ++i) for (int j = 0; j < 3; ++j)
    for (int k = 0; k < 3; ++k) c(i, j) += a(i, k) * b(k, j); return c; }
};
]=]), args = one(6), want = squares },
}
