--- Kernels for simulation and numerics: sparse rows, stencils, solvers, filters, recursions.

local lists = dofile("spec/kernel/users/lists.lua")
local each, sum = lists.each, lists.sum

return {
  { "sparse rows times a vector, one row per warp", [=[
__global__ void spmv(const int *__restrict__ row_ptr, const int *__restrict__ col, const float *__restrict__ val,
                     const float *__restrict__ x, float *__restrict__ y, int rows) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x & 31;
  if (row >= rows) return;
  float s = 0.f;
  for (int k = row_ptr[row] + lane; k < row_ptr[row + 1]; k += 32) s += val[k] * x[col[k]];
  for (int d = 16; d > 0; d /= 2) s += __shfl_down_sync(0xffffffff, s, d);
  if (lane == 0) y[row] = s;
}]=], block = { 64 }, grid = { 2 }, shape = { 4 },
    args = function(t)
      return { t.i { 0, 2, 2, 5, 7 }, t.i { 0, 3, 1, 2, 3, 0, 2 }, t.f { 7 }, t.f { 4 }, 4 }
    end,
    want = function(ptr, col, val, x, rows)
      return each(rows, function(r)
        local s = 0
        for k = ptr[r], ptr[r + 1] - 1 do s = s + val[k] * x[col[k]] end
        return s
      end)
    end },

  { "segments by offsets: mean and root of squares", [=[
struct Stats {
  float s, q; int n;
  __device__ Stats() : s(0.f), q(0.f), n(0) {}
  __device__ Stats &operator+=(float v) { s += v; q += v * v; ++n; return *this; }
  __device__ float mean() const { return n > 0 ? s / n : 0.f; }
};
__global__ void segments(const float *x, const long long *offset, float *mean, float *rms, int n) {
  int g = blockIdx.x * blockDim.x + threadIdx.x;
  if (g >= n) return;
  Stats st;
  for (long long k = offset[g]; k < offset[g + 1]; ++k) st += x[k];
  mean[g] = st.mean();
  rms[g] = st.n ? sqrtf(st.q / st.n) : 0.f;
}]=],
    shape = { 4 }, args = function(t)
      return { t.f { 9 }, t.tensor({ 0, 3, 3, 4, 9 }, "i64"), 4 }
    end,
    want = function(x, o, n)
      local function count(g) return math.max(o[g + 1] - o[g], 1) end
      return each(n, function(g)
        return sum(o[g + 1] - o[g], function(k) return x[o[g] + k] end) / count(g)
      end),
        each(n, function(g)
          return math.sqrt(sum(o[g + 1] - o[g], function(k) return x[o[g] + k] ^ 2 end) / count(g))
        end)
    end },

  { "a stencil of seven points in three dimensions", [=[
#define IDX(x, y, z) (((z) * ny + (y)) * nx + (x))
__global__ void laplace(const float *u, float *v, float c, int nx, int ny, int nz) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  const int z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x >= nx || y >= ny || z >= nz) return;
  const float m = u[IDX(x, y, z)];
  if (x == 0 || y == 0 || z == 0 || x == nx - 1 || y == ny - 1 || z == nz - 1) { v[IDX(x, y, z)] = m; return; }
  v[IDX(x, y, z)] = m + c * (u[IDX(x - 1, y, z)] + u[IDX(x + 1, y, z)] + u[IDX(x, y - 1, z)] + u[IDX(x, y + 1, z)] +
                             u[IDX(x, y, z - 1)] + u[IDX(x, y, z + 1)] - 6.f * m) * m;
}]=],
    block = { 4, 2, 2 }, grid = { 1, 2, 2 },
    args = function(t) return { t.f { 4, 3, 4 }, t.f { 1 }, 4, 3, 4 } end, shape = { 4, 3, 4 },
    want = function(u, c, nx, ny, nz)
      return each(nx * ny * nz, function(i)
        local x, y, z = i % nx, i // nx % ny, i // (nx * ny)
        if x == 0 or y == 0 or z == 0 or x == nx - 1 or y == ny - 1 or z == nz - 1 then
          return u[i]
        end
        local s = u[i - 1] + u[i + 1] + u[i - nx] + u[i + nx] + u[i - nx * ny] + u[i + nx * ny]
        return u[i] + c[0] * (s - 6 * u[i]) * u[i]
      end)
    end },

  { "red and black points in shared memory", [=[
template <int COLOR, int N>
__device__ void sweep(float (&u)[N][N], const float *f) {
  const int x = threadIdx.x, y = threadIdx.y;
  if (x > 0 && y > 0 && x < N - 1 && y < N - 1 && (x + y) % 2 == COLOR)
    u[y][x] = 0.25f * (u[y][x - 1] + u[y][x + 1] + u[y - 1][x] + u[y + 1][x] - f[y * N + x]);
  __syncthreads();
}
__global__ void gauss_seidel(const float *u0, const float *f, float *u, int sweeps) {
  __shared__ float s[6][6];
  s[threadIdx.y][threadIdx.x] = u0[threadIdx.y * 6 + threadIdx.x];
  __syncthreads();
  for (int k = 0; k < sweeps; ++k) { sweep<0>(s, f); sweep<1>(s, f); }
  u[threadIdx.y * 6 + threadIdx.x] = s[threadIdx.y][threadIdx.x];
}]=],
    block = { 6, 6 }, grid = { 1 }, shape = { 6, 6 }, args = function(t)
      return { t.f { 6, 6 }, t.f { 6, 6 }, 5 }
    end,
    want = function(u0, f, sweeps)
      local u = each(36, function(i) return u0[i] end)
      for k = 0, 2 * sweeps - 1 do
        for y = 1, 4 do
          for x = 1, 4 do
            local i = y * 6 + x
            if (x + y) % 2 == k % 2 then
              u[i] = 0.25 * (u[i - 1] + u[i + 1] + u[i - 6] + u[i + 6] - f[i])
            end
          end
        end
      end
      return u
    end },

  { "density of particles, tiles in shared memory", [=[
struct Particle { float x, y, z, mass; };
__device__ __forceinline__ float poly6(float r2, float h2) {
  if (r2 >= h2) return 0.f;
  const float d = h2 - r2;
  return d * d * d;
}
__global__ void density(const Particle *p, float *rho, float h, int n) {
  extern __shared__ Particle tile[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  Particle me = {0, 0, 0, 0};
  if (i < n) me = p[i];
  float sum = 0.f;
  for (int base = 0; base < n; base += blockDim.x) {
    if (base + threadIdx.x < n) tile[threadIdx.x] = p[base + threadIdx.x];
    __syncthreads();
    const int m = min((int)blockDim.x, n - base);
    for (int j = 0; j < m; ++j) {
      const float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
      sum += tile[j].mass * poly6(dx * dx + dy * dy + dz * dz, h * h);
    }
    __syncthreads();
  }
  if (i < n) rho[i] = sum;
}]=], block = { 4 }, grid = { 3 }, shared = 64, shape = { 10 },
    args = function(t) return { t.f { 10, 4 }, t.f { 1, low = 1, high = 1.5 }, 10 } end,
    want = function(p, h, n)
      return each(n, function(i)
        return sum(n, function(j)
          local r = sum(3, function(c) return (p[4 * j + c] - p[4 * i + c]) ^ 2 end)
          return r < h[0] ^ 2 and p[4 * j + 3] * (h[0] ^ 2 - r) ^ 3 or 0
        end)
      end)
    end },

  { "Runge-Kutta of a functor, states with operators", [=[
struct S3 { float x, y, z; };
__device__ inline S3 operator+(S3 a, S3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
__device__ inline S3 operator*(float h, S3 a) { return {h * a.x, h * a.y, h * a.z}; }
struct Lorenz {
  float sigma, rho, beta;
  __device__ S3 operator()(const S3 &s) const {
    return {sigma * (s.y - s.x), s.x * (rho - s.z) - s.y, s.x * s.y - beta * s.z};
  }
};
template <typename State, typename F>
__device__ State rk4(State s, float h, const F &f) {
  const State k1 = f(s), k2 = f(s + 0.5f * h * k1), k3 = f(s + 0.5f * h * k2), k4 = f(s + h * k3);
  return s + (h / 6.f) * (k1 + 2.f * k2 + 2.f * k3 + k4);
}
__global__ void lorenz(const S3 *from, S3 *to, float rho, float h, int steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  S3 s = from[i];
  const Lorenz f{10.f, rho, 8.f / 3.f};
  for (int k = 0; k < steps; ++k) s = rk4(s, h, f);
  to[i] = s;
}]=],
    shape = { 3, 3 },
    args = function(t) return { t.f { 3, 3 }, t.f { 1, low = 20, high = 28 }, 0.01, 12, 3 } end,
    tol = 1e-4,
    want = function(from, rho, h, steps, n)
      local y = {}
      local function f(s)
        return { 10 * (s[2] - s[1]), s[1] * (rho[0] - s[3]) - s[2], s[1] * s[2] - 8 / 3 * s[3] }
      end
      local function go(s, by, k)
        return { s[1] + by * k[1], s[2] + by * k[2], s[3] + by * k[3] }
      end
      for i = 0, n - 1 do
        local s = { from[3 * i], from[3 * i + 1], from[3 * i + 2] }
        for _ = 1, steps do
          local k1 = f(s)
          local k2 = f(go(s, h / 2, k1))
          local k3 = f(go(s, h / 2, k2))
          local k4 = f(go(s, h, k3))
          for c = 1, 3 do s[c] = s[c] + h / 6 * (k1[c] + 2 * k2[c] + 2 * k3[c] + k4[c]) end
        end
        for c = 0, 2 do y[3 * i + c] = s[c + 1] end
      end
      return y
    end },

  { "a filter of second order, one channel per thread", [=[
struct Biquad {
  float b0, b1, b2, a1, a2;
  float z1 = 0.f, z2 = 0.f;
  __device__ float operator()(float v) {
    const float out = b0 * v + z1;
    z1 = b1 * v - a1 * out + z2;
    z2 = b2 * v - a2 * out;
    return out;
  }
};
__global__ void iir(const float *x, const float *c, float *y, int T, int channels) {
  const int ch = threadIdx.x;
  if (ch >= channels) return;
  Biquad f{c[0], c[1], c[2], c[3], c[4]};
  for (int t = 0; t < T; ++t) y[ch * T + t] = f(x[ch * T + t]);
}]=], args = function(t) return { t.f { 2, 20 }, t.f { 5, low = -0.4, high = 0.4 }, 20, 2 } end,
    want = function(x, c, T, channels)
      local y = {}
      for ch = 0, channels - 1 do
        for k = ch * T, ch * T + T - 1 do
          local function at(v, d) return k - d >= ch * T and v[k - d] or 0 end
          y[k] = c[0] * x[k] + c[1] * at(x, 1) + c[2] * at(x, 2) - c[3] * at(y, 1) - c[4] * at(y, 2)
        end
      end
      return y
    end },

  { "Viterbi in shared memory", [=[
#define STATES 5
__global__ void viterbi(const float *emit, const float *trans, float *score, int *path, int T) {
  __shared__ float v[2][STATES];
  __shared__ int back[8][STATES];
  const int s = threadIdx.x;
  v[0][s] = emit[s];
  __syncthreads();
  for (int t = 1; t < T; ++t) {
    const float *old = v[(t - 1) & 1];
    float best = -INFINITY;
    int from = 0;
    for (int q = 0; q < STATES; ++q) {
      const float w = old[q] + trans[q * STATES + s];
      if (w > best) best = w, from = q;
    }
    v[t & 1][s] = best + emit[t * STATES + s];
    back[t][s] = from;
    __syncthreads();
  }
  if (s == 0) {
    int k = 0;
    for (int q = 1; q < STATES; ++q) if (v[(T - 1) & 1][q] > v[(T - 1) & 1][k]) k = q;
    score[0] = v[(T - 1) & 1][k];
    for (int t = T - 1; t >= 0; --t) { path[t] = k; if (t) k = back[t][k]; }
  }
}]=],
    block = { 5 }, grid = { 1 }, shape = { 7 }, args = function(t)
      return { t.f { 7, 5 }, t.f { 5, 5 }, 7 }
    end,
    want = function(emit, trans, T)
      local v, back = each(5, function(s) return emit[s] end), {}
      for t = 1, T - 1 do
        back[t] = {}
        v = each(5, function(s)
          local best = 0
          for q = 1, 4 do
            if v[q] + trans[5 * q + s] > v[best] + trans[5 * best + s] then best = q end
          end
          back[t][s] = best
          return v[best] + trans[5 * best + s] + emit[5 * t + s]
        end)
      end
      local k, path, score = 0, {}, each(7, function() return 0 end)
      for q = 1, 4 do if v[q] > v[k] then k = q end end
      score[0] = v[k]
      for t = T - 1, 0, -1 do path[t] = k if t > 0 then k = back[t][k] end end
      return score, path
    end },

  { "Sinkhorn's rows and columns", [=[
constexpr int N = 6;
template <bool ROWS>
__device__ void balance(float (*m)[N + 1], float *total) {
  const int r = threadIdx.y, c = threadIdx.x;
  if ((ROWS ? c : r) == 0) {
    float s = 0.f;
    for (int k = 0; k < N; ++k) s += ROWS ? m[r][k] : m[k][c];
    total[ROWS ? r : c] = s;
  }
  __syncthreads();
  m[r][c] /= total[ROWS ? r : c];
  __syncthreads();
}
__global__ void sinkhorn(const float *cost, float *plan, float eps, int rounds) {
  __shared__ float m[N][N + 1], total[N];
  m[threadIdx.y][threadIdx.x] = expf(-cost[threadIdx.y * N + threadIdx.x] / eps);
  __syncthreads();
  for (int k = 0; k < rounds; ++k) { balance<true>(m, total); balance<false>(m, total); }
  plan[threadIdx.y * N + threadIdx.x] = m[threadIdx.y][threadIdx.x];
}]=],
    block = { 6, 6 }, grid = { 1 }, shape = { 6, 6 }, args = function(t)
      return { t.f { 6, 6 }, t.f { 1, low = 0.5, high = 1 }, 4 }
    end,
    want = function(cost, eps, rounds)
      local m = each(36, function(i) return math.exp(-cost[i] / eps[0]) end)
      for _ = 1, rounds do
        m = each(36, function(i) return m[i] / sum(6, function(k) return m[i // 6 * 6 + k] end) end)
        m = each(36, function(i) return m[i] / sum(6, function(k) return m[k * 6 + i % 6] end) end)
      end
      return m
    end },

  { "soft dynamic time warping along diagonals", [=[
__device__ float softmin(float a, float b, float c, float gamma) {
  const float m = fminf(a, fminf(b, c));
  return m - gamma * logf(expf((m - a) / gamma) + expf((m - b) / gamma) + expf((m - c) / gamma));
}
__global__ void soft_dtw(const float *x, const float *y, float *out, float gamma, int n) {
  __shared__ float r[7][7];
  const int i = threadIdx.x;
  for (int j = 0; j <= n; ++j) { if (i == 0) r[0][j] = j ? 1e6f : 0.f; }
  r[i + 1][0] = 1e6f;
  __syncthreads();
  for (int d = 0; d < 2 * n - 1; ++d) {
    const int j = d - i;
    if (j >= 0 && j < n) {
      const float e = x[i] - y[j];
      r[i + 1][j + 1] = e * e + softmin(r[i][j], r[i][j + 1], r[i + 1][j], gamma);
    }
    __syncthreads();
  }
  if (i == 0) *out = r[n][n];
}]=],
    block = { 6 }, grid = { 1 }, shape = { 1 }, args = function(t)
      return { t.f { 6 }, t.f { 6 }, t.f { 1, low = 0.5, high = 1 }, 6 }
    end,
    tol = 1e-4, want = function(x, y, gamma, n)
      local r, g = {}, gamma[0]
      for i = 0, n do r[i] = { [0] = i == 0 and 0 or 1e6 } end
      for j = 1, n do r[0][j] = 1e6 end
      for i = 1, n do
        for j = 1, n do
          local a, b, c = r[i - 1][j - 1], r[i - 1][j], r[i][j - 1]
          local m = math.min(a, b, c)
          local s = math.exp((m - a) / g) + math.exp((m - b) / g) + math.exp((m - c) / g)
          r[i][j] = (x[i - 1] - y[j - 1]) ^ 2 + m - g * math.log(s)
        end
      end
      return { [0] = r[n][n] }
    end },

  { "tridiagonal systems, a system a thread", [=[
template <typename real, int N>
__device__ void thomas(const real *a, const real *b, const real *c, const real (&d)[N], real (&x)[N]) {
  real cp[N], dp[N];
  cp[0] = c[0] / b[0];
  dp[0] = d[0] / b[0];
  for (int k = 1; k < N; ++k) {
    const real m = real(1) / (b[k] - a[k] * cp[k - 1]);
    cp[k] = c[k] * m;
    dp[k] = (d[k] - a[k] * dp[k - 1]) * m;
  }
  x[N - 1] = dp[N - 1];
  for (int k = N - 2; k >= 0; --k) x[k] = dp[k] - cp[k] * x[k + 1];
}
__global__ void solve(const float *a, const float *b, const float *c, const float *d, float *x, int systems) {
  const int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= systems) return;
  float rhs[5], u[5];
  for (int k = 0; k < 5; ++k) rhs[k] = d[s * 5 + k];
  thomas(a + s * 5, b + s * 5, c + s * 5, rhs, u);
  for (int k = 0; k < 5; ++k) x[s * 5 + k] = u[k];
}]=],
    args = function(t)
      return { t.f { 3, 5 }, t.f { 3, 5, low = 3, high = 4 }, t.f { 3, 5 }, t.f { 3, 5 }, 3 }
    end,
    want = function(a, b, c, d, systems)
      local x = {}
      for s = 0, systems - 1 do
        local m = {}
        for r = 0, 4 do
          m[r] = each(6, function(q) return q == 5 and d[5 * s + r] or q == r and b[5 * s + r]
            or q == r - 1 and a[5 * s + r]
            or q == r + 1 and c[5 * s + r] or 0 end)
        end
        for p = 0, 4 do
          local e = m[p][p]
          for q = 0, 5 do m[p][q] = m[p][q] / e end
          for r = 0, 4 do
            local g = m[r][p]
            if r ~= p then for q = 0, 5 do m[r][q] = m[r][q] - g * m[p][q] end end
          end
        end
        for r = 0, 4 do x[5 * s + r] = m[r][5] end
      end
      return x
    end },

  { "a transform of Fourier in shared memory", [=[
struct cpx {
  float re, im;
  __device__ cpx() {}
  __device__ cpx(float r, float i = 0.f) : re(r), im(i) {}
};
__device__ cpx operator+(cpx a, cpx b) { return cpx(a.re + b.re, a.im + b.im); }
__device__ cpx operator-(cpx a, cpx b) { return cpx(a.re - b.re, a.im - b.im); }
__device__ cpx operator*(cpx a, cpx b) { return cpx(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re); }
template <int LOG> __device__ int reversed(int i) { return __brev(i) >> (32 - LOG); }
__global__ void fft8(const float *x, float2 *out) {
  __shared__ cpx s[8];
  const int t = threadIdx.x;
  s[reversed<3>(t)] = cpx(x[t]);
  __syncthreads();
  for (int half = 1; half < 8; half *= 2) {
    if (t < 4) {
      const int k = t % half, a = t / half * 2 * half + k, b = a + half;
      float sn, cs;
      sincosf(-3.14159265358979324f * k / half, &sn, &cs);
      const cpx w = cpx(cs, sn) * s[b], u = s[a];
      s[a] = u + w;
      s[b] = u - w;
    }
    __syncthreads();
  }
  out[t] = make_float2(s[t].re, s[t].im);
}]=], block = { 8 }, grid = { 1 }, shape = { 8, 2 }, args = function(t) return { t.f { 8 } } end,
    want = function(x)
      return each(16, function(i)
        local k = i // 2
        return sum(8, function(j)
          local a = -2 * math.pi * j * k / 8
          return x[j] * (i % 2 == 0 and math.cos(a) or math.sin(a))
        end)
      end)
    end },

  { "a bitonic sort in shared memory", [=[
template <typename T> __device__ void order(T &a, T &b, bool up) {
  if ((a > b) == up) { const T t = a; a = b; b = t; }
}
__global__ void sort16(const float *x, float *y) {
  __shared__ float s[16];
  const unsigned t = threadIdx.x;
  s[t] = x[t] * x[t];
  s[t + 8] = x[t + 8] * x[t + 8];
  for (unsigned k = 2; k <= 16; k <<= 1)
    for (unsigned j = k >> 1; j > 0; j >>= 1) {
      __syncthreads();
      const unsigned a = 2 * t - (t & (j - 1));
      order(s[a], s[a + j], (a & k) == 0);
    }
  __syncthreads();
  y[t] = s[t] * (t + 1);
  y[t + 8] = s[t + 8] * (t + 9);
}]=], block = { 8 }, grid = { 1 }, args = function(t) return { t.f { 16 } } end,
    want = function(x)
      local s = {}
      for i = 0, 15 do s[i + 1] = x[i] ^ 2 end
      table.sort(s)
      return each(16, function(i) return s[i + 1] * (i + 1) end)
    end },

  { "sums that keep what was lost", [=[
struct Kahan {
  float s{0.f}, c{0.f};
  __device__ void operator+=(float v) { const float y = v - c, t = s + y; c = (t - s) - y; s = t; }
};
__global__ void rows(const float *x, float *y, int w, int n) {
  int r = threadIdx.x;
  if (r >= n) return;
  Kahan k;
  for (int c = 0; c < w; ++c) k += x[r * w + c] * x[r * w + c];
  y[r] = k.s;
}]=], shape = { 3 }, args = function(t) return { t.f { 3, 50 }, 50, 3 } end,
    want = function(x, w, n)
      return each(n, function(r) return sum(w, function(c) return x[r * w + c] ^ 2 end) end)
    end },

  { "prices of options", [=[
__device__ __forceinline__ float cnd(float d) { return 0.5f * erfcf(-d * 0.70710678118654752f); }
__global__ void black_scholes(const float *S, const float *K, const float *T, float *call, float *put, float r, float v, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float sq = sqrtf(T[i]), d1 = (logf(S[i] / K[i]) + (r + 0.5f * v * v) * T[i]) / (v * sq), d2 = d1 - v * sq;
  const float disc = K[i] * expf(-r * T[i]);
  call[i] = S[i] * cnd(d1) - disc * cnd(d2);
  put[i] = disc * cnd(-d2) - S[i] * cnd(-d1);
}]=], args = function(t)
      return { t.f { 6, low = 8, high = 12 }, t.f { 6, low = 8, high = 12 },
        t.f { 6, low = 0.2, high = 1 }, 0.02, t.f { 1, low = 0.2, high = 0.4 }, 6 }
    end, tol = 1e-4,
    want = function(S, K, T, r, v, n)
      local function cdf(d)                      -- by Simpson's rule from 0
        local m, h = 2000, d / 2000
        local s = sum(m + 1, function(k)
          return ((k == 0 or k == m) and 1 or k % 2 == 1 and 4 or 2) * math.exp(-(k * h) ^ 2 / 2)
        end)
        return 0.5 + s * h / 3 / math.sqrt(2 * math.pi)
      end
      local call = each(n, function(i)
        local q = v[0] * math.sqrt(T[i])
        local d1 = (math.log(S[i] / K[i]) + (r + v[0] ^ 2 / 2) * T[i]) / q
        return S[i] * cdf(d1) - K[i] * math.exp(-r * T[i]) * cdf(d1 - q)
      end)
      return call, each(n, function(i) return call[i] - S[i] + K[i] * math.exp(-r * T[i]) end)
    end },

  { "a table read between its entries", [=[
template <typename T>
__device__ int lower(const T *a, int n, T v) {
  int lo = 0, hi = n;
  while (lo < hi) { const int mid = (lo + hi) >> 1; if (a[mid] < v) lo = mid + 1; else hi = mid; }
  return lo;
}
__global__ void interp(const float *x, const float *xs, const float *ys, float *y, int m, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int k = min(max(lower(xs, m, x[i]), 1), m - 1);
  const float t = (x[i] - xs[k - 1]) / (xs[k] - xs[k - 1]);
  y[i] = ys[k - 1] + t * (ys[k] - ys[k - 1]);
}]=],
    args = function(t)
      return { t.f { 9, low = -0.5, high = 4.5 }, t.tensor { 0, 0.7, 1.9, 3.1, 4 },
        t.f { 5 }, 5, 9 }
    end,
    want = function(x, xs, ys, m, n)
      return each(n, function(i)
        local k = 1
        while k < m - 1 and xs[k] < x[i] do k = k + 1 end
        return ys[k - 1] + (x[i] - xs[k - 1]) / (xs[k] - xs[k - 1]) * (ys[k] - ys[k - 1])
      end)
    end },
}
