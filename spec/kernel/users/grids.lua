--- Kernels with steps on grids, small linear systems per thread, dynamic programming, random
-- numbers. luacheck: no max line length

local lists = dofile("spec/kernel/users/lists.lua")
local each, sum = lists.each, lists.sum

local function zeros(n) return each(n, function() return 0 end) end

return {
  { "lattice Boltzmann in nine directions, pulled, walls that bounce back", [=[
__constant__ int ex[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
__constant__ int ey[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
__constant__ int opp[9] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
__constant__ float w[9] = {4.f/9, 1.f/9, 1.f/9, 1.f/9, 1.f/9, 1.f/36, 1.f/36, 1.f/36, 1.f/36};
#define IDX(x, y, q) ((q) * nx * ny + (y) * nx + (x))
__global__ void lbm(const float *__restrict__ fin, float *__restrict__ fout, const unsigned char *__restrict__ solid, float omega, int nx, int ny) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= nx || y >= ny) return;
  float f[9], rho = 0.f, ux = 0.f, uy = 0.f;
  #pragma unroll
  for (int q = 0; q < 9; ++q) {
    const int xs = (x - ex[q] + nx) % nx, ys = (y - ey[q] + ny) % ny;
    f[q] = solid[ys * nx + xs] ? fin[IDX(x, y, opp[q])] : fin[IDX(xs, ys, q)];
    rho += f[q];
    ux += ex[q] * f[q];
    uy += ey[q] * f[q];
  }
  ux /= rho;
  uy /= rho;
  const float usq = 1.5f * (ux * ux + uy * uy);
  for (int q = 0; q < 9; ++q) {
    const float eu = 3.f * (ex[q] * ux + ey[q] * uy);
    const float feq = w[q] * rho * (1.f + eu + 0.5f * eu * eu - usq);
    fout[IDX(x, y, q)] = f[q] - omega * (f[q] - feq);
  }
}]=], block = { 4, 2 }, grid = { 1, 2 }, order = 1, args = function(t)
      return { t.f { 9, 3, 4, low = 0.5, high = 1 },
        t.tensor({ { 0, 0, 1, 0 }, { 0, 0, 0, 0 }, { 1, 0, 0, 0 } }, "u8"), 0.8, 4, 3 }
    end,
    want = function(fin, solid, omega, nx, ny)
      local ex, ey, opp = { [0] = 0, 1, 0, -1, 0, 1, -1, -1, 1 },
        { [0] = 0, 0, 1, 0, -1, 1, 1, -1, -1 }, { [0] = 0, 3, 4, 1, 2, 7, 8, 5, 6 }
      local out = {}
      for c = 0, nx * ny - 1 do
        local x, y = c % nx, c // nx
        local f = each(9, function(q)
          local from = (y - ey[q]) % ny * nx + (x - ex[q]) % nx
          return solid[from] == 1 and fin[opp[q] * nx * ny + c] or fin[q * nx * ny + from]
        end)
        local rho = sum(9, function(q) return f[q] end)
        local u, v = sum(9, function(q) return ex[q] * f[q] end) / rho,
          sum(9, function(q) return ey[q] * f[q] end) / rho
        for q = 0, 8 do
          local w = q == 0 and 4 / 9 or q < 5 and 1 / 9 or 1 / 36
          local eu = ex[q] * u + ey[q] * v
          out[q * nx * ny + c] = f[q]
            + omega * (w * rho * (1 + 3 * eu + 4.5 * eu * eu - 1.5 * (u * u + v * v)) - f[q])
        end
      end
      return out
    end },

  { "waves in two dimensions through a tile, a border that absorbs", [=[
#define TX 4
#define TY 4
__global__ void wave(const float *u0, const float *u1, const float *c2, float *u2, int w, int h) {
  __shared__ float tile[TY + 2][TX + 2];
  const int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
  const int x = blockIdx.x * TX + threadIdx.x, y = blockIdx.y * TY + threadIdx.y;
  auto at = [=](int i, int j) { return i >= 0 && i < w && j >= 0 && j < h ? u1[j * w + i] : 0.f; };
  tile[ty][tx] = at(x, y);
  if (threadIdx.x == 0) tile[ty][0] = at(x - 1, y);
  if (threadIdx.x == TX - 1) tile[ty][TX + 1] = at(x + 1, y);
  if (threadIdx.y == 0) tile[0][tx] = at(x, y - 1);
  if (threadIdx.y == TY - 1) tile[TY + 1][tx] = at(x, y + 1);
  __syncthreads();
  if (x >= w || y >= h) return;
  const float lap = tile[ty][tx - 1] + tile[ty][tx + 1] + tile[ty - 1][tx] + tile[ty + 1][tx] - 4.f * tile[ty][tx];
  const bool border = x == 0 || y == 0 || x == w - 1 || y == h - 1;
  const float damp = border ? 0.1f : 0.f;
  u2[y * w + x] = ((2.f * tile[ty][tx] - (1.f - damp) * u0[y * w + x]) + c2[y * w + x] * lap) / (1.f + damp);
}]=],
    block = { 4, 4 }, grid = { 2, 2 }, order = 1, args = function(t)
      return { t.f { 5, 6 }, t.f { 5, 6 }, t.f { 5, 6, low = 0, high = 0.4 }, 6, 5 }
    end,
    want = function(u0, u1, c2, w, h)
      return each(w * h, function(e)
        local x, y = e % w, e // w
        local function at(i, j)
          return i >= 0 and i < w and j >= 0 and j < h and u1[j * w + i] or 0
        end
        local d = (x == 0 or y == 0 or x == w - 1 or y == h - 1) and 0.1 or 0
        local lap = at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1) - 4 * u1[e]
        return (2 * u1[e] - (1 - d) * u0[e] + c2[e] * lap) / (1 + d)
      end)
    end },

  { "two substances that react and spread, steps in one block with both planes in shared memory", [=[
typedef struct { float feed, kill, du, dv; } Rates;
__global__ void grayscott(const float2 *in, float2 *out, Rates r, float dt, int steps) {
  __shared__ float2 s[2][5][5];
  const int x = threadIdx.x, y = threadIdx.y, n = blockDim.x;
  const int l = (x + n - 1) % n, rr = (x + 1) % n, up = (y + n - 1) % n, dn = (y + 1) % n;
  s[0][y][x] = in[y * n + x];
  __syncthreads();
  for (int t = 0; t < steps; ++t) {
    const float2(*a)[5] = s[t & 1];
    const float2 c = a[y][x];
    const float lu = a[y][l].x + a[y][rr].x + a[up][x].x + a[dn][x].x - 4.f * c.x;
    const float lv = a[y][l].y + a[y][rr].y + a[up][x].y + a[dn][x].y - 4.f * c.y;
    const float uvv = c.x * c.y * c.y;
    s[(t + 1) & 1][y][x] = make_float2(c.x + dt * (r.du * lu - uvv + r.feed * (1.f - c.x)), c.y + dt * (r.dv * lv + uvv - (r.feed + r.kill) * c.y));
    __syncthreads();
  }
  out[y * n + x] = s[steps & 1][y][x];
}]=], block = { 5, 5 }, grid = { 1 }, args = function(t)
      return { t.f { 5, 5, 2, low = 0, high = 1 },
        { feed = 0.04, kill = 0.06, du = 0.16, dv = 0.08 }, 0.5, 3 }
    end, order = 1,
    want = function(uv, r, dt, steps)
      for _ = 1, steps do
        uv = each(50, function(e)
          local x, y, k = e // 2 % 5, e // 10, e % 2
          local function at(i, j, q) return uv[(j % 5 * 5 + i % 5) * 2 + q] end
          local u, v = at(x, y, 0), at(x, y, 1)
          local lap = at(x - 1, y, k) + at(x + 1, y, k) + at(x, y - 1, k) + at(x, y + 1,
            k) - 4 * at(x, y, k)
          if k == 0 then return u + dt * (r.du * lap - u * v * v + r.feed * (1 - u)) end
          return v + dt * (r.dv * lap + u * v * v - (r.feed + r.kill) * v)
        end)
      end
      return uv
    end },

  { "one colour of a board relaxed in place", [=[
__global__ void sor(float *__restrict__ p, const float *__restrict__ rhs, float omega, int colour, int nx, int ny) {
  const int j = blockIdx.y * blockDim.y + threadIdx.y + 1;
  const int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + 1 + ((j + colour) & 1);
  if (i >= nx - 1 || j >= ny - 1) return;
  const int c = j * nx + i;
  const float gs = 0.25f * (p[c - 1] + p[c + 1] + p[c - nx] + p[c + nx] - rhs[c]);
  p[c] = (1.f - omega) * p[c] + omega * gs;
}]=],
    block = { 2, 2 }, grid = { 2, 2 }, inout = { "p" }, order = 1,
    args = function(t) return { t.f { 6, 7 }, t.f { 6, 7 }, 1.3, 1, 7, 6 } end,
    want = function(p, rhs, w, colour, nx, ny)
      local out = each(nx * ny, function(e) return p[e] end)
      for c = 0, nx * ny - 1 do
        local i, j = c % nx, c // nx
        if i > 0 and j > 0 and i < nx - 1 and j < ny - 1 and (i + j + colour) % 2 == 1 then
          out[c] = (1 - w) * p[c]
            + w * 0.25 * (p[c - 1] + p[c + 1] + p[c - nx] + p[c + nx] - rhs[c])
        end
      end
      return out
    end },

  { "sweeps of Jacobi over global memory inside one block", [=[
__global__ void jacobi(const float *b, float *u, float *v, int n, int sweeps) {
  const int i = threadIdx.x;
  float *now = u, *next = v;
  if (i < n) u[i] = b[i];
  __syncthreads();
  for (int s = 0; s < sweeps; ++s) {
    if (i < n) {
      const float l = i > 0 ? now[i - 1] : 0.f, r = i + 1 < n ? now[i + 1] : 0.f;
      next[i] = 0.5f * (l + r) + b[i];
    }
    __syncthreads();
    float *t = now; now = next; next = t;
  }
}]=],
    block = { 16 }, grid = { 1 }, inout = { "v" }, order = 1,
    args = function(t) return { t.f { 9 }, t.f { 9 }, 9, 4 } end,
    want = function(b, _, n, sweeps)
      local two = { each(n, function(i) return b[i] end), zeros(n) }
      for s = 1, sweeps do
        local now = two[(s - 1) % 2 + 1]
        two[s % 2 + 1] = each(n, function(i)
          return 0.5 * ((now[i - 1] or 0) + (now[i + 1] or 0)) + b[i]
        end)
      end
      return two[1], two[2]
    end },

  { "columns solved by Thomas's sweep, scratch in global memory", [=[
__global__ void thomas(const float *a, const float *b, const float *c, const float *d, float *cp, float *dp, float *x, int n, int m) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= m) return;
  cp[t] = c[t] / b[t];
  dp[t] = d[t] / b[t];
  for (int i = 1; i < n; ++i) {
    const int k = i * m + t;
    const float den = 1.f / (b[k] - a[k] * cp[k - m]);
    cp[k] = c[k] * den;
    dp[k] = (d[k] - a[k] * dp[k - m]) * den;
  }
  x[(n - 1) * m + t] = dp[(n - 1) * m + t];
  for (int i = n - 2; i >= 0; --i) x[i * m + t] = dp[i * m + t] - cp[i * m + t] * x[(i + 1) * m + t];
}]=],
    order = 1, args = function(t)
      return { t.f { 5, 3 }, t.f { 5, 3, low = 3, high = 4 }, t.f { 5, 3 }, t.f { 5, 3 }, 5, 3 }
    end,
    want = function(a, b, c, d, n, m)
      local cp, dp, x = {}, {}, {}
      for t = 0, m - 1 do
        for i = 0, n - 1 do
          local k = i * m + t
          local den = b[k] - (i > 0 and a[k] * cp[k - m] or 0)
          cp[k], dp[k] = c[k] / den, (d[k] - (i > 0 and a[k] * dp[k - m] or 0)) / den
        end
        for i = n - 1, 0, -1 do
          local k = i * m + t
          x[k] = dp[k] - (i < n - 1 and cp[k] * x[k + m] or 0)
        end
      end
      return cp, dp, x
    end },

  { "packed factors of Cholesky in a thread, log of the determinant", [=[
template <int N> struct Packed {
  float v[N * (N + 1) / 2];
  __device__ __forceinline__ float &operator()(int i, int j) { return v[i * (i + 1) / 2 + j]; }
};
__global__ void logdet(const float *a, float *out, int n) {
  constexpr int N = 4;
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= n) return;
  Packed<N> L;
  #pragma unroll
  for (int i = 0; i < N; ++i)
    for (int j = 0; j <= i; ++j) L(i, j) = a[(t * N + i) * N + j];
  float ld = 0.f;
  for (int j = 0; j < N; ++j) {
    for (int k = 0; k < j; ++k) L(j, j) -= L(j, k) * L(j, k);
    L(j, j) = sqrtf(L(j, j));
    ld += 2.f * logf(L(j, j));
    const float inv = 1.f / L(j, j);
    for (int i = j + 1; i < N; ++i) {
      float s = L(i, j);
      for (int k = 0; k < j; ++k) s -= L(i, k) * L(j, k);
      L(i, j) = s * inv;
    }
  }
  out[t] = ld;
}]=], shape = { 2 }, order = 1, args = function(t)
      local m = {}
      for s = 0, 1 do
        for i = 0, 3 do
          for j = 0, 3 do m[#m + 1] = (i == j and 3 or 0) + math.cos(s + i * j + i + j) end
        end
      end
      return { t.tensor(m), 2 }
    end,
    want = function(a, n)
      return each(n, function(t)
        local m, det = each(16,
          function(e) return a[16 * t + math.max(e // 4, e % 4) * 4 + math.min(e // 4, e % 4)] end),
        1
        for j = 0, 3 do
          det = det * m[5 * j]
          for i = j + 1, 3 do
            local f = m[4 * i + j] / m[5 * j]
            for k = j, 3 do m[4 * i + k] = m[4 * i + k] - f * m[4 * j + k] end
          end
        end
        return math.log(det)
      end)
    end },

  { "a chain of spins, tried by a congruential generator", [=[
struct Lcg {
  unsigned int s;
  __device__ explicit Lcg(unsigned int seed) : s(seed * 747796405u + 2891336453u) {}
  __device__ float operator()() { s = s * 1664525u + 1013904223u; return (s >> 8) * (1.0f / 16777216.0f); }
};
__global__ void metropolis(const float *J, float *energy, int *spins, float beta, int sweeps, int n) {
  constexpr int L = 6;
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= n) return;
  Lcg rng(c + 1);
  int s[L];
  for (int i = 0; i < L; ++i) s[i] = rng() < 0.5f ? -1 : 1;
  for (int k = 0; k < sweeps; ++k)
    for (int i = 0; i < L; ++i) {
      const float dE = 2.f * J[0] * s[i] * (s[(i + 1) % L] + s[(i + L - 1) % L]);
      const float u = rng();
      if (dE <= 0.f || u < expf(-beta * dE)) s[i] = -s[i];
    }
  float e = 0.f;
  for (int i = 0; i < L; ++i) { e -= J[0] * s[i] * s[(i + 1) % L]; spins[c * L + i] = s[i]; }
  energy[c] = e;
}]=],
    shape = { 24 }, grid = { 1 }, order = 1, args = function(t)
      return { t.tensor { 0.7 }, 0.6, 5, 4 }
    end,
    want = function(J, beta, sweeps, n)
      local energy, spins = zeros(24), zeros(24)
      for c = 0, n - 1 do
        local state = ((c + 1) * 747796405 + 2891336453) & 0xffffffff
        local function rng()
          state = (state * 1664525 + 1013904223) & 0xffffffff
          return (state >> 8) / 16777216
        end
        local s = {}
        for i = 0, 5 do s[i] = rng() < 0.5 and -1 or 1 end
        for _ = 1, sweeps do
          for i = 0, 5 do
            local d, u = 2 * J[0] * s[i] * (s[(i + 1) % 6] + s[(i + 5) % 6]), rng()
            if d <= 0 or u < math.exp(-beta * d) then s[i] = -s[i] end
          end
        end
        for i = 0, 5 do
          energy[c], spins[c * 6 + i] = energy[c] - J[0] * s[i] * s[(i + 1) % 6], s[i]
        end
      end
      return energy, spins
    end },

  { "options by a polynomial for the normal's integral", [=[
__device__ inline float cndGPU(float d) {
  const float A1 = 0.31938153f, A2 = -0.356563782f, A3 = 1.781477937f, A4 = -1.821255978f, A5 = 1.330274429f;
  const float RSQRT2PI = 0.39894228040143267793994605993438f;
  float K = __fdividef(1.0f, (1.0f + 0.2316419f * fabsf(d)));
  float cnd = RSQRT2PI * __expf(-0.5f * d * d) * (K * (A1 + K * (A2 + K * (A3 + K * (A4 + K * A5)))));
  if (d > 0) cnd = 1.0f - cnd;
  return cnd;
}
__device__ inline void BlackScholesBodyGPU(float &CallResult, float &PutResult, float S, float X, float T, float R, float V) {
  float sqrtT = __fdividef(1.0F, rsqrtf(T));
  float d1 = __fdividef(__logf(S / X) + (R + 0.5f * V * V) * T, V * sqrtT);
  float d2 = d1 - V * sqrtT;
  float CNDD1 = cndGPU(d1), CNDD2 = cndGPU(d2);
  float expRT = __expf(-R * T);
  CallResult = S * CNDD1 - X * expRT * CNDD2;
  PutResult = X * expRT * (1.0f - CNDD2) - S * (1.0f - CNDD1);
}
__launch_bounds__(128) __global__ void BlackScholesGPU(float2 *__restrict d_CallResult, float2 *__restrict d_PutResult, const float2 *__restrict d_StockPrice,
    const float2 *__restrict d_OptionStrike, const float2 *__restrict d_OptionYears, float Riskfree, float Volatility, int optN) {
  const int opt = blockDim.x * blockIdx.x + threadIdx.x;
  if (opt < (optN / 2)) {
    float callResult1, callResult2;
    float putResult1, putResult2;
    BlackScholesBodyGPU(callResult1, putResult1, d_StockPrice[opt].x, d_OptionStrike[opt].x, d_OptionYears[opt].x, Riskfree, Volatility);
    BlackScholesBodyGPU(callResult2, putResult2, d_StockPrice[opt].y, d_OptionStrike[opt].y, d_OptionYears[opt].y, Riskfree, Volatility);
    d_CallResult[opt] = make_float2(callResult1, callResult2);
    d_PutResult[opt] = make_float2(putResult1, putResult2);
  }
}]=], block = { 32 }, args = function(t)
      return { t.f { 6, low = 15, high = 30 }, t.f { 6, low = 15, high = 30 },
        t.f { 6, low = 0.5, high = 3 }, 0.02, 0.3, 6 }
    end, tol = 1e-4, order = 1,
    want = function(S, X, T, R, V, n)
      local function cnd(d)
        local k = 1 / (1 + 0.2316419 * math.abs(d))
        local c = 0.39894228040143267793994605993438 * math.exp(-d * d / 2) *
          (k * (0.31938153
            + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429)))))
        return d > 0 and 1 - c or c
      end
      local call, put = {}, {}
      for i = 0, n - 1 do
        local q = V * math.sqrt(T[i])
        local d1 = (math.log(S[i] / X[i]) + (R + V * V / 2) * T[i]) / q
        local disc = X[i] * math.exp(-R * T[i])
        call[i] = S[i] * cnd(d1) - disc * cnd(d1 - q)
        put[i] = disc * (1 - cnd(d1 - q)) - S[i] * (1 - cnd(d1))
      end
      return call, put
    end },

  { "edit distance of words, a row of the table in registers and shared memory", [=[
__global__ void levenshtein(const unsigned char *a, const unsigned char *b, int *dist, int na, int nb) {
  extern __shared__ int row[];
  const unsigned char *wa = a + blockIdx.x * na;
  for (int j = threadIdx.x; j <= nb; j += blockDim.x) row[j] = j;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int i = 1; i <= na; ++i) {
      int diag = row[0];
      row[0] = i;
      for (int j = 1; j <= nb; ++j) {
        const int up = row[j];
        row[j] = min(min(up + 1, row[j - 1] + 1), diag + (wa[i - 1] != b[j - 1]));
        diag = up;
      }
    }
  __syncthreads();
  if (threadIdx.x == 0) dist[blockIdx.x] = row[nb];
}]=], block = { 8 }, grid = { 2 }, shared = 32, shape = { 2 }, same = true, args = function(t)
      return { t.tensor({ string.byte("kittensaturn", 1, 12) }, "u8"),
        t.tensor({ string.byte("sitting", 1, 7) }, "u8"), 6, 7 }
    end,
    want = function(a, b, na, nb)
      return each(2, function(w)
        local d = {}
        for i = 0, na do for j = 0, nb do
          d[i * 100 + j] = i == 0 and j or j == 0 and i
            or math.min(d[(i - 1) * 100 + j] + 1, d[i * 100 + j - 1] + 1,
            d[(i - 1) * 100 + j - 1] + (a[w * na + i - 1] == b[j - 1] and 0 or 1))
        end end
        return d[na * 100 + nb]
      end)
    end },

  { "the best local alignment, antidiagonals of three rows in shared memory", [=[
__global__ void smith_waterman(const int *q, const int *r, const float *score, float *best, float gap, int m, int n) {
  __shared__ float d0[8], d1[8], d2[8], top[8];
  float *a = d0, *b = d1, *c = d2;
  const int i = threadIdx.x;
  a[i] = b[i] = 0.f;
  float mine = 0.f;
  __syncthreads();
  for (int k = 0; k < m + n - 1; ++k) {
    const int j = k - i;
    float h = 0.f;
    if (i < m && j >= 0 && j < n) {
      const float diag = i > 0 && j > 0 ? a[i - 1] : 0.f, up = i > 0 ? b[i - 1] : 0.f, left = j > 0 ? b[i] : 0.f;
      h = fmaxf(fmaxf(0.f, diag + score[q[i] * 4 + r[j]]), fmaxf(up, left) - gap);
      mine = fmaxf(mine, h);
    }
    c[i] = h;
    __syncthreads();
    float *t = a; a = b; b = c; c = t;
  }
  top[i] = mine;
  __syncthreads();
  if (i == 0) {
    for (int k = 1; k < m; ++k) mine = fmaxf(mine, top[k]);
    best[0] = mine;
  }
}]=], block = { 8 }, grid = { 1 }, shape = { 1 }, order = 1, args = function(t)
      return { t.i { 0, 1, 2, 3, 1, 0 }, t.i { 3, 1, 2, 0, 1, 1, 0 },
        t.f { 4, 4, low = -0.5, high = 2 }, 0.3, 6, 7 }
    end,
    want = function(q, r, s, gap, m, n)
      local h, best = {}, 0
      local function at(i, j) return i >= 0 and j >= 0 and h[i * n + j] or 0 end
      for i = 0, m - 1 do for j = 0, n - 1 do
        h[i * n + j] = math.max(0, at(i - 1, j - 1) + s[q[i] * 4 + r[j]], at(i - 1, j) - gap,
          at(i, j - 1) - gap)
        best = math.max(best, h[i * n + j])
      end end
      return { [0] = best }
    end },

  { "patches as columns, and columns summed back", [=[
#define CUDA_KERNEL_LOOP(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
template <typename Dtype>
__device__ void im2col(const int n, const Dtype *data_im, int height, int width, int kernel, int pad, int stride, int height_col, int width_col, Dtype *data_col) {
  CUDA_KERNEL_LOOP(index, n) {
    const int h_index = index / width_col;
    const int h_col = h_index % height_col;
    const int w_col = index % width_col;
    const int c_im = h_index / height_col;
    const int c_col = c_im * kernel * kernel;
    const int h_offset = h_col * stride - pad;
    const int w_offset = w_col * stride - pad;
    Dtype *data_col_ptr = data_col;
    data_col_ptr += (c_col * height_col + h_col) * width_col + w_col;
    const Dtype *data_im_ptr = data_im;
    data_im_ptr += (c_im * height + h_offset) * width + w_offset;
    for (int i = 0; i < kernel; ++i)
      for (int j = 0; j < kernel; ++j) {
        int h_im = h_offset + i;
        int w_im = w_offset + j;
        *data_col_ptr = (h_im >= 0 && w_im >= 0 && h_im < height && w_im < width) ? data_im_ptr[i * width + j] : static_cast<Dtype>(0);
        data_col_ptr += height_col * width_col;
      }
  }
}
__global__ void im2col_gpu_kernel(const float *im, float *col, int n, int height, int width, int hc, int wc) {
  im2col<float>(n, im, height, width, 3, 1, 2, hc, wc, col);
}]=],
    block = { 8 }, grid = { 1 }, shape = { 2, 9, 2, 3 }, order = 1,
    args = function(t) return { t.f { 2, 4, 5 }, 12, 4, 5, 2, 3 } end,
    want = function(im, _, h, w, hc, wc)
      return each(108, function(e)
        local c, k, y, x = e // 54, e // 6 % 9, e // 3 % hc, e % wc
        local i, j = y * 2 - 1 + k // 3, x * 2 - 1 + k % 3
        return i >= 0 and j >= 0 and i < h and j < w and im[(c * h + i) * w + j] or 0
      end)
    end },

  { "rows filtered with a halo, taps in constant memory", [=[
#define KERNEL_RADIUS 2
#define KERNEL_LENGTH (2 * KERNEL_RADIUS + 1)
__constant__ float c_Kernel[KERNEL_LENGTH] = {0.1f, 0.2f, 0.4f, 0.2f, 0.1f};
#define ROWS_BLOCKDIM_X 4
#define ROWS_BLOCKDIM_Y 2
#define ROWS_RESULT_STEPS 2
#define ROWS_HALO_STEPS 1
__global__ void convolutionRowsKernel(float *d_Dst, const float *d_Src, int imageW, int imageH, int pitch) {
  __shared__ float s_Data[ROWS_BLOCKDIM_Y][(ROWS_RESULT_STEPS + 2 * ROWS_HALO_STEPS) * ROWS_BLOCKDIM_X];
  const int baseX = (blockIdx.x * ROWS_RESULT_STEPS - ROWS_HALO_STEPS) * ROWS_BLOCKDIM_X + threadIdx.x;
  const int baseY = blockIdx.y * ROWS_BLOCKDIM_Y + threadIdx.y;
  d_Src += baseY * pitch + baseX;
  d_Dst += baseY * pitch + baseX;
  #pragma unroll
  for (int i = ROWS_HALO_STEPS; i < ROWS_HALO_STEPS + ROWS_RESULT_STEPS; i++) s_Data[threadIdx.y][threadIdx.x + i * ROWS_BLOCKDIM_X] = d_Src[i * ROWS_BLOCKDIM_X];
  #pragma unroll
  for (int i = 0; i < ROWS_HALO_STEPS; i++)
    s_Data[threadIdx.y][threadIdx.x + i * ROWS_BLOCKDIM_X] = (baseX >= -i * ROWS_BLOCKDIM_X) ? d_Src[i * ROWS_BLOCKDIM_X] : 0;
  #pragma unroll
  for (int i = ROWS_HALO_STEPS + ROWS_RESULT_STEPS; i < ROWS_HALO_STEPS + ROWS_RESULT_STEPS + ROWS_HALO_STEPS; i++)
    s_Data[threadIdx.y][threadIdx.x + i * ROWS_BLOCKDIM_X] = (imageW - baseX > i * ROWS_BLOCKDIM_X) ? d_Src[i * ROWS_BLOCKDIM_X] : 0;
  __syncthreads();
  #pragma unroll
  for (int i = ROWS_HALO_STEPS; i < ROWS_HALO_STEPS + ROWS_RESULT_STEPS; i++) {
    float sum = 0;
    #pragma unroll
    for (int j = -KERNEL_RADIUS; j <= KERNEL_RADIUS; j++) sum += c_Kernel[KERNEL_RADIUS - j] * s_Data[threadIdx.y][threadIdx.x + i * ROWS_BLOCKDIM_X + j];
    d_Dst[i * ROWS_BLOCKDIM_X] = sum;
  }
}]=],
    block = { 4, 2 }, grid = { 2, 1 }, order = 1, args = function(t)
      return { t.f { 2, 16 }, 16, 2, 16 }
    end,
    want = function(x, w)
      local taps = { 0.1, 0.2, 0.4, 0.2, 0.1 }
      return each(32, function(e)
        return sum(5, function(k)
          local j = e % w + k - 2
          return j >= 0 and j < w and taps[k + 1] * x[e - e % w + j] or 0
        end)
      end)
    end },

  { "a depthwise filter, channels last, four at a time", [=[
__device__ __forceinline__ float4 fma4(float4 a, float4 b, float4 c) {
  return make_float4(fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y), fmaf(a.z, b.z, c.z), fmaf(a.w, b.w, c.w));
}
__global__ void dwconv_nhwc(const float *in, const float *filt, const float *bias, float *out, int H, int W, int C) {
  const int c4 = threadIdx.x, x = blockIdx.x, y = blockIdx.y;
  const float4 *f = reinterpret_cast<const float4 *>(filt) + c4;
  float4 acc = reinterpret_cast<const float4 *>(bias)[c4];
  #pragma unroll
  for (int dy = -1; dy <= 1; ++dy)
    #pragma unroll
    for (int dx = -1; dx <= 1; ++dx) {
      const int yy = y + dy, xx = x + dx;
      if (unsigned(yy) < unsigned(H) && unsigned(xx) < unsigned(W)) {
        const float4 v = *reinterpret_cast<const float4 *>(in + (yy * W + xx) * C + 4 * c4);
        acc = fma4(v, f[((dy + 1) * 3 + dx + 1) * (C / 4)], acc);
      }
    }
  acc.x = fmaxf(acc.x, 0.f); acc.y = fmaxf(acc.y, 0.f); acc.z = fmaxf(acc.z, 0.f); acc.w = fmaxf(acc.w, 0.f);
  *reinterpret_cast<float4 *>(&out[(y * W + x) * C + 4 * c4]) = acc;
}]=],
    block = { 2 }, grid = { 3, 2 }, order = 1, args = function(t)
      return { t.f { 2, 3, 8 }, t.f { 9, 8 }, t.f { 8 }, 2, 3, 8 }
    end,
    want = function(x, f, b, H, W, C)
      return each(H * W * C, function(e)
        local c, i, j = e % C, e // C % W, e // (C * W)
        return math.max(0, b[c] + sum(9, function(k)
          local yy, xx = j + k // 3 - 1, i + k % 3 - 1
          return yy >= 0 and xx >= 0 and yy < H and xx < W
            and x[(yy * W + xx) * C + c] * f[k * C + c] or 0
        end))
      end)
    end },

  { "windows averaged, the gradient by hand: each pixel asks its windows", [=[
__global__ void avg_pool_backward(const float *__restrict__ dtop, float *__restrict__ dbottom, int n, int H, int W, int PH, int PW, int k, int s) {
  for (int index = blockIdx.x * blockDim.x + threadIdx.x; index < n; index += blockDim.x * gridDim.x) {
    const int w = index % W, h = (index / W) % H, c = index / W / H;
    const int phstart = (h < k) ? 0 : (h - k) / s + 1, phend = min(h / s + 1, PH);
    const int pwstart = (w < k) ? 0 : (w - k) / s + 1, pwend = min(w / s + 1, PW);
    float gradient = 0;
    const float *const top = dtop + c * PH * PW;
    for (int ph = phstart; ph < phend; ++ph)
      for (int pw = pwstart; pw < pwend; ++pw) {
        const int hstart = ph * s, wstart = pw * s, hend = min(hstart + k, H), wend = min(wstart + k, W);
        gradient += top[ph * PW + pw] / ((hend - hstart) * (wend - wstart));
      }
    dbottom[index] = gradient;
  }
}]=],
    block = { 8 }, grid = { 2 }, shape = { 2, 4, 5 }, order = 1,
    args = function(t) return { t.f { 2, 2, 3 }, 40, 4, 5, 2, 3, 3, 2 } end,
    want = function(top, n, H, W, PH, PW, k, s)
      local d = zeros(n)
      for e = 0, 2 * PH * PW - 1 do
        local c, h0, w0 = e // (PH * PW), e // PW % PH * s, e % PW * s
        local h1, w1 = math.min(h0 + k, H), math.min(w0 + k, W)
        for h = h0, h1 - 1 do for w = w0, w1 - 1 do
          d[(c * H + h) * W + w] = d[(c * H + h) * W + w] + top[e] / ((h1 - h0) * (w1 - w0))
        end end
      end
      return d
    end },

  { "a set's distance by the derivative along the orbit", [=[
struct cplx { float re, im; };
__device__ __host__ inline cplx operator*(cplx a, cplx b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
__device__ inline cplx operator+(cplx a, cplx b) { return {a.re + b.re, a.im + b.im}; }
__device__ inline float norm2(cplx a) { return a.re * a.re + a.im * a.im; }
__global__ void mandel(const float *cx, const float *cy, float *dist, int *iters, int max_iter, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const cplx c{cx[i], cy[i]};
  cplx z{0.f, 0.f}, dz{0.f, 0.f};
  int k = 0;
  while (k < max_iter && norm2(z) < 1e4f) {
    dz = cplx{2.f, 0.f} * z * dz + cplx{1.f, 0.f};
    z = z * z + c;
    ++k;
  }
  iters[i] = k;
  dist[i] = k == max_iter ? 0.f : sqrtf(norm2(z) / norm2(dz)) * 0.5f * logf(norm2(z));
}]=],
    order = 1,
    args = function(t)
      return { t.tensor { 0.4, -0.2, 0.5, -1.8, 0 }, t.tensor { 0.5, 0.9, 0.1, 0.05, 0.2 }, 60, 5 }
    end, tol = 1e-3,
    want = function(cx, cy, most, n)
      local dist, iters = {}, {}
      for i = 0, n - 1 do
        local a, b, da, db, k = 0, 0, 0, 0, 0
        while k < most and a * a + b * b < 1e4 do
          da, db = 2 * (a * da - b * db) + 1, 2 * (a * db + b * da)
          a, b, k = a * a - b * b + cx[i], 2 * a * b + cy[i], k + 1
        end
        local q = a * a + b * b
        iters[i], dist[i] = k,
          k == most and 0 or math.sqrt(q / (da * da + db * db)) * 0.5 * math.log(q)
      end
      return dist, iters
    end },

  { "messages along edges, a softmax over those that arrive", [=[
__global__ void gat(const int *__restrict__ rowptr, const int *__restrict__ col, const float *__restrict__ el, const float *__restrict__ er,
                    const float *__restrict__ feat, float *__restrict__ out, int nodes, int F) {
  const int v = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x & 31;
  if (v >= nodes) return;
  const int lo = rowptr[v], hi = rowptr[v + 1];
  float m = -1e38f;
  for (int e = lo + lane; e < hi; e += 32) { const float s = el[col[e]] + er[v]; m = fmaxf(m, s > 0.f ? s : 0.2f * s); }
  for (int d = 16; d; d >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
  float den = 0.f;
  for (int e = lo + lane; e < hi; e += 32) { const float s = el[col[e]] + er[v]; den += expf((s > 0.f ? s : 0.2f * s) - m); }
  for (int d = 16; d; d >>= 1) den += __shfl_xor_sync(~0u, den, d);
  for (int f = lane; f < F; f += 32) {
    float acc = 0.f;
    for (int e = lo; e < hi; ++e) {
      const int u = col[e];
      const float s = el[u] + er[v];
      acc += expf((s > 0.f ? s : 0.2f * s) - m) * feat[u * F + f];
    }
    out[v * F + f] = hi > lo ? acc / den : 0.f;
  }
}]=], block = { 64 }, grid = { 2 }, shape = { 4, 3 }, order = 1, args = function(t)
      return { t.i { 0, 2, 2, 5, 6 }, t.i { 1, 3, 0, 1, 2, 0 }, t.f { 4 }, t.f { 4 },
        t.f { 4, 3 }, 4, 3 }
    end,
    want = function(ptr, col, el, er, feat, _, F)
      return each(4 * F, function(i)
        local v, num, den = i // F, 0, 0
        for e = ptr[v], ptr[v + 1] - 1 do
          local s = el[col[e]] + er[v]
          local p = math.exp(s > 0 and s or 0.2 * s)
          num, den = num + p * feat[col[e] * F + i % F], den + p
        end
        return den > 0 and num / den or 0
      end)
    end },

  { "sparse rows: one format as a base, another by its width", [=[
struct Matrix { int rows, cols; };
struct Ell : Matrix {
  int width;
  __device__ int at(int r, int k) const { return k * rows + r; }
};
__global__ void spmv_ell(const float *val, const int *idx, const float *x, float *y, Ell m, float alpha, float beta) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= m.rows) return;
  float s = 0.f;
  for (int k = 0; k < m.width; ++k) {
    const int c = idx[m.at(r, k)];
    if (c < 0) break;
    s += val[m.at(r, k)] * x[c];
  }
  y[r] = alpha * s + beta * y[r];
}]=], inout = { "y" }, block = { 32 }, grid = { 1 }, order = 1, args = function(t)
      return { t.f { 2, 4 }, t.i { 0, 2, -1, 1, 1, -1, -1, 2 }, t.f { 3 }, t.f { 4 },
        { rows = 4, cols = 3, width = 2 }, 0.5, 2 }
    end,
    want = function(val, idx, x, y, m, alpha, beta)
      return each(4, function(r)
        local s = 0
        for k = 0, m.width - 1 do
          if idx[k * 4 + r] < 0 then break end
          s = s + val[k * 4 + r] * x[idx[k * 4 + r]]
        end
        return alpha * s + beta * y[r]
      end)
    end },

  { "entries in any order, sums of a warp where the row changes", [=[
__global__ void spmv_coo(const int *row, const int *col, const float *val, const float *x, float *y, int nnz) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  const int r = i < nnz ? row[i] : -1;
  float v = i < nnz ? val[i] * x[col[i]] : 0.f;
  #pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const float o = __shfl_up_sync(0xffffffffu, v, d);
    const int ro = __shfl_up_sync(0xffffffffu, r, d);
    if (lane >= d && ro == r) v += o;
  }
  const int next = __shfl_down_sync(0xffffffffu, r, 1);
  if (r >= 0 && (lane == 31 || next != r)) atomicAdd(&y[r], v);
}]=], block = { 32 }, grid = { 2 }, shape = { 5 }, order = 1, args = function(t)
      local row, col = {}, {}
      for i = 1, 40 do row[i], col[i] = (i - 1) // 9, i * 7 % 6 end
      return { t.i(row), t.i(col), t.f { 40 }, t.f { 6 }, 40 }
    end,
    want = function(row, col, val, x, nnz)
      local y = zeros(5)
      for i = 0, nnz - 1 do y[row[i]] = y[row[i]] + val[i] * x[col[i]] end
      return y
    end },

  { "a product of tiles in two buffers, loads of four, a micro tile a thread", [=[
template <int BM, int BN, int BK, int TM, int TN>
__device__ void sgemm(const float *A, const float *B, float *C, int M, int N, int K, float alpha) {
  __shared__ float As[2][BK][BM];
  __shared__ float Bs[2][BK][BN];
  const int tid = threadIdx.x, tx = tid % (BN / TN), ty = tid / (BN / TN);
  float acc[TM][TN] = {};
  float ra[TM], rb[TN];
  const int a_row = tid / (BK / 4), a_col = tid % (BK / 4) * 4, b_row = tid / (BN / 4), b_col = tid % (BN / 4) * 4;
  A += blockIdx.y * BM * K;
  B += blockIdx.x * BN;
  auto load = [&](int k0, int buf) {
    if (a_row < BM) {
      const float4 v = *reinterpret_cast<const float4 *>(&A[a_row * K + k0 + a_col]);
      As[buf][a_col + 0][a_row] = v.x;
      As[buf][a_col + 1][a_row] = v.y;
      As[buf][a_col + 2][a_row] = v.z;
      As[buf][a_col + 3][a_row] = v.w;
    }
    if (b_row < BK) *reinterpret_cast<float4 *>(&Bs[buf][b_row][b_col]) = *reinterpret_cast<const float4 *>(&B[(k0 + b_row) * N + b_col]);
  };
  load(0, 0);
  __syncthreads();
  int cur = 0;
  for (int k0 = 0; k0 < K; k0 += BK) {
    if (k0 + BK < K) load(k0 + BK, cur ^ 1);
    #pragma unroll
    for (int k = 0; k < BK; ++k) {
      for (int i = 0; i < TM; ++i) ra[i] = As[cur][k][ty * TM + i];
      for (int j = 0; j < TN; ++j) rb[j] = Bs[cur][k][tx * TN + j];
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) acc[i][j] += ra[i] * rb[j];
    }
    __syncthreads();
    cur ^= 1;
  }
  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) C[(blockIdx.y * BM + ty * TM + i) * N + blockIdx.x * BN + tx * TN + j] = alpha * acc[i][j];
}
__global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K, float alpha) { sgemm<8, 8, 4, 2, 2>(A, B, C, M, N, K, alpha); }]=],
    block = { 16 }, grid = { 1, 2 }, shape = { 16, 8 }, order = 1,
    args = function(t) return { t.f { 16, 12 }, t.f { 12, 8 }, 16, 8, 12, 0.5 } end, tol = 1e-4,
    want = function(a, b, M, N, K, alpha)
      return each(M * N, function(e)
        return alpha * sum(K, function(k) return a[e // N * K + k] * b[k * N + e % N] end)
      end)
    end },

  { "bodies in tiles, the interaction unrolled, float4 with masses", [=[
#define EPS2 0.01f
__device__ float3 bodyBodyInteraction(float4 bi, float4 bj, float3 ai) {
  float3 r;
  r.x = bj.x - bi.x;
  r.y = bj.y - bi.y;
  r.z = bj.z - bi.z;
  float distSqr = r.x * r.x + r.y * r.y + r.z * r.z + EPS2;
  float distSixth = distSqr * distSqr * distSqr;
  float invDistCube = 1.0f / sqrtf(distSixth);
  float s = bj.w * invDistCube;
  ai.x += r.x * s;
  ai.y += r.y * s;
  ai.z += r.z * s;
  return ai;
}
__device__ float3 tile_calculation(float4 myPosition, float3 accel) {
  extern __shared__ float4 shPosition[];
  for (int i = 0; i < blockDim.x; i++) { accel = bodyBodyInteraction(myPosition, shPosition[i], accel); }
  return accel;
}
__global__ void calculate_forces(const float4 *globalX, float4 *globalA, int N) {
  extern __shared__ float4 shPosition[];
  float4 myPosition;
  int i, tile;
  float3 acc = {0.0f, 0.0f, 0.0f};
  int gtid = blockIdx.x * blockDim.x + threadIdx.x;
  myPosition = globalX[gtid];
  for (i = 0, tile = 0; i < N; i += blockDim.x, tile++) {
    int idx = tile * blockDim.x + threadIdx.x;
    shPosition[threadIdx.x] = globalX[idx];
    __syncthreads();
    acc = tile_calculation(myPosition, acc);
    __syncthreads();
  }
  float4 acc4 = {acc.x, acc.y, acc.z, 0.0f};
  globalA[gtid] = acc4;
}]=],
    block = { 4 }, grid = { 2 }, shared = 64, order = 1,
    args = function(t) return { t.f { 8, 4 }, 8 } end,
    want = function(x, n)
      return each(4 * n, function(e)
        local i, c = e // 4 * 4, e % 4
        if c == 3 then return 0 end
        return sum(n, function(j)
          local d = sum(3, function(k) return (x[4 * j + k] - x[i + k]) ^ 2 end) + 0.01
          return (x[4 * j + c] - x[i + c]) * x[4 * j + 3] / d ^ 1.5
        end)
      end)
    end },
}
