--- Kernels about probability: random numbers made in the kernel, likelihoods, prices, samplers.
-- luacheck: no max line length

local lists = dofile("spec/kernel/users/lists.lua")
local each, sum = lists.each, lists.sum

local function philox(c, k)                              -- Philox 4x32-10: counter c, key k
  c, k = { table.unpack(c) }, { table.unpack(k) }
  for _ = 1, 10 do
    local a, b = c[1] * 0xD2511F53, c[3] * 0xCD9E8D57
    c = { (b >> 32) ~ c[2] ~ k[1], b & 0xffffffff, (a >> 32) ~ c[4] ~ k[2], a & 0xffffffff }
    k = { (k[1] + 0x9E3779B9) & 0xffffffff, (k[2] + 0xBB67AE85) & 0xffffffff }
  end
  return c
end

return {
  { "an Asian option by a counter's numbers", [=[
struct Philox {
  uint32_t key[2];
  __device__ explicit Philox(uint64_t seed) : key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)} {}
  __device__ uint4 operator()(uint4 c) const {
    uint32_t k0 = key[0], k1 = key[1];
    #pragma unroll
    for (int r = 0; r < 10; ++r) {
      const uint32_t h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x, h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
      c = make_uint4(h1 ^ c.y ^ k0, l1, h0 ^ c.w ^ k1, l0);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return c;
  }
};
__device__ __forceinline__ float u01(uint32_t v) { return fmaf((float)(v >> 8), 5.9604644775390625e-8f, 2.98023223876953125e-8f); }
__device__ float2 box_muller(uint32_t a, uint32_t b) {
  const float r = sqrtf(-2.f * logf(u01(a)));
  float s, c;
  sincospif(2.f * u01(b), &s, &c);
  return make_float2(r * c, r * s);
}
__global__ void asian(const float *S0, const float *sigma, float *payoff, float strike, float rate, float dt, int steps, unsigned long long seed, int paths) {
  const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= (unsigned)paths) return;
  const Philox rng(seed);
  float s = *S0, mean = 0.f;
  const float v = *sigma, drift = (rate - 0.5f * v * v) * dt, vol = v * sqrtf(dt);
  for (int t = 0; t < steps; t += 2) {
    const uint4 q = rng(make_uint4(t / 2, p, 0u, 0u));
    const float2 z = box_muller(q.x, q.y);
    s *= expf(drift + vol * z.x);
    mean += s;
    s *= expf(drift + vol * z.y);
    mean += s;
  }
  payoff[p] = expf(-rate * dt * steps) * fmaxf(mean / steps - strike, 0.f);
}]=],
    shape = { 6 },
    args = function(t)
      return { t.tensor { 1.05 }, t.tensor { 0.3 }, 1, 0.05, 0.125, 8, 0x123456789a, 6 }
    end, nodiff = { "strike", "rate", "dt" },
    tol = 1e-4, want = function(S0, sigma, strike, rate, dt, steps, seed, paths)
      return each(paths, function(p)
        local s, mean = S0[0], 0
        for t = 0, steps - 1, 2 do
          local q = philox({ t // 2, p, 0, 0 }, { seed & 0xffffffff, seed >> 32 })
          local a, b = ((q[1] >> 8) + 0.5) / 2 ^ 24, ((q[2] >> 8) + 0.5) / 2 ^ 24
          local r = math.sqrt(-2 * math.log(a))
          for _, z in ipairs { r * math.cos(2 * math.pi * b), r * math.sin(2 * math.pi * b) } do
            s = s * math.exp((rate - sigma[0] ^ 2 / 2) * dt + sigma[0] * math.sqrt(dt) * z)
            mean = mean + s
          end
        end
        return math.exp(-rate * dt * steps) * math.max(mean / steps - strike, 0)
      end)
    end },

  { "gamma variates by rejection, states of 64 bits", [=[
class Pcg32 {
  uint64_t state, inc;
public:
  __device__ Pcg32(uint64_t seed, uint64_t stream) : state(0), inc(stream << 1 | 1) { next(); state += seed; next(); }
  __device__ uint32_t next() {
    const uint64_t old = state;
    state = old * 6364136223846793005ULL + inc;
    const uint32_t x = static_cast<uint32_t>(((old >> 18u) ^ old) >> 27u), rot = static_cast<uint32_t>(old >> 59u);
    return (x >> rot) | (x << ((~rot + 1u) & 31));
  }
  __device__ float uniform() { return ((next() >> 9) + 0.5f) * (1.f / 8388608.f); }
};
__global__ void gamma_draw(const float *shape, const float *scale, float *out, int *tries, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Pcg32 g(42, i);
  const float d = shape[i] - 1.f / 3.f, c = rsqrtf(9.f * d);
  int k = 0;
  float v = 1.f;
  for (;;) {
    ++k;
    const float x = g.uniform() + g.uniform() + g.uniform() + g.uniform() - 2.f, t = 1.f + c * x * 1.7320508f;
    if (t <= 0.f) continue;
    v = t * t * t;
    const float u = g.uniform();
    if (logf(u) < 1.5f * x * x + d * (1.f - v + logf(v))) break;
  }
  out[i] = scale[i] * d * v;
  tries[i] = k;
}]=],
    args = function(t)
      return { t.f { 9, low = 1.2, high = 3 }, t.f { 9, low = 0.5, high = 2 }, 9 }
    end, tol = 1e-4,
    want = function(shape, scale, n)
      local out, tries = {}, {}
      for i = 0, n - 1 do
        local state, inc = 0, i << 1 | 1
        local function next32()
          local old = state
          state = old * 6364136223846793005 + inc
          local x, rot = ((old >> 18) ~ old) >> 27 & 0xffffffff, old >> 59
          return (x >> rot | x << (32 - rot)) & 0xffffffff
        end
        next32()
        state = state + 42
        next32()
        local function uniform() return ((next32() >> 9) + 0.5) / 2 ^ 23 end
        local d, k = shape[i] - 1 / 3, 0
        repeat
          k = k + 1
          local x = uniform() + uniform() + uniform() + uniform() - 2
          local t, done = 1 + x * 1.7320508 / math.sqrt(9 * d), false
          if t > 0 then
            out[i] = scale[i] * d * t ^ 3
            done = math.log(uniform()) < 1.5 * x * x + d * (1 - t ^ 3 + math.log(t ^ 3))
          end
        until done
        tries[i] = k
      end
      return out, tries
    end, tol64 = 1e-6 },

  { "an integral by points of Sobol, Gray's order", [=[
#define DIMS 2
__device__ constexpr unsigned direction[DIMS][6] = {
  {1u << 31, 1u << 30, 1u << 29, 1u << 28, 1u << 27, 1u << 26},
  {1u << 31, 3u << 30, 5u << 29, 15u << 28, 17u << 27, 51u << 26}};
template <int D> __device__ unsigned sobol(unsigned i) {
  unsigned g = i ^ (i >> 1), x = 0u;
  while (g) {
    const int bit = __ffs(g) - 1;
    x ^= direction[D][bit];
    g &= g - 1u;
  }
  return x;
}
__global__ void integrate(const float *p, float *total, int n) {
  float s = 0.f;
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
    const float x = sobol<0>(i) * 2.3283064365386963e-10f, y = sobol<1>(i) * 2.3283064365386963e-10f;
    s += expf(-p[0] * x * x) * cosf(p[1] * y + x);
  }
  s += __shfl_xor_sync(0xffu, s, 4);
  s += __shfl_xor_sync(0xffu, s, 2);
  s += __shfl_xor_sync(0xffu, s, 1);
  if (threadIdx.x == 0) *total = s / n;
}]=], block = { 8 }, grid = { 1 }, shape = { 1 }, args = function(t) return { t.f { 2 }, 32 } end,
    want = function(p, n)
      local seen = {}
      for i = 0, n - 1 do      -- second Sobol dimension: Pascal's triangle mod 2
        local g, x, y = i ~ i >> 1, 0, 0
        for b = 0, 4 do
          if g >> b & 1 == 1 then
            x = x + 2.0 ^ -(b + 1)
            local bits = 0
            for k = 0, b do
              local c = 1
              for q = 1, k do c = c * (b - q + 1) // q end
              bits = bits | (c % 2) << k
            end
            for k = 0, b do if bits >> k & 1 == 1 then y = y ~ 1 << (31 - k) end end
          end
        end
        seen[i] = { x, y / 2 ^ 32 }
      end
      return {
        [0] = sum(n,
          function(i)
            return math.exp(-p[0] * seen[i][1] ^ 2) * math.cos(p[1] * seen[i][2] + seen[i][1])
          end) / n }
    end, tol = 1e-4 },

  { "a step of Hamilton, taken or not", [=[
template <int D> struct Normal {
  const float mean, precision;
  __device__ float energy(const float (&q)[D]) const {
    float e = 0.f;
    for (int d = 0; d < D; ++d) e += 0.5f * precision * (d + 1) * (q[d] - mean) * (q[d] - mean);
    return e;
  }
  __device__ void slope(const float (&q)[D], float (&g)[D]) const {
    for (int d = 0; d < D; ++d) g[d] = precision * (d + 1) * (q[d] - mean);
  }
};
__global__ void hmc(const float *q0, const float *p0, const float *u, float *out, float mean, float precision, float eps, int leaps, int chains) {
  constexpr int D = 2;
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= chains) return;
  const Normal<D> target{mean, precision};
  float q[D], p[D], g[D], before = 0.f, after = 0.f;
  for (int d = 0; d < D; ++d) { q[d] = q0[c * D + d]; p[d] = p0[c * D + d]; before += 0.5f * p[d] * p[d]; }
  before += target.energy(q);
  target.slope(q, g);
  for (int k = 0; k < leaps; ++k) {
    for (int d = 0; d < D; ++d) p[d] -= 0.5f * eps * g[d];
    for (int d = 0; d < D; ++d) q[d] += eps * p[d];
    target.slope(q, g);
    for (int d = 0; d < D; ++d) p[d] -= 0.5f * eps * g[d];
  }
  for (int d = 0; d < D; ++d) after += 0.5f * p[d] * p[d];
  after += target.energy(q);
  const bool take = logf(u[c]) < before - after;
  for (int d = 0; d < D; ++d) out[c * D + d] = take ? q[d] : q0[c * D + d];
}]=], args = function(t)
      return { t.f { 4, 2 }, t.f { 4, 2 }, t.tensor { 0.5, 0.99, 0.9, 0.999 }, t.f { 1 },
        t.f { 1, low = 1, high = 2 }, 0.5, 6, 4 }
    end, nodiff = { "u", "eps" }, tol = 1e-4,
    want = function(q0, p0, u, mean, precision, eps, leaps, chains)
      local out = {}
      for c = 0, chains - 1 do
        local q, change = {}, 0
        for d = 0, 1 do
          local w = precision[0] * (d + 1)
          local x, m = q0[2 * c + d] - mean[0], p0[2 * c + d]
          change = change + 0.5 * (m * m + w * x * x)
          for _ = 1, leaps do
            m = m - eps / 2 * w * x
            x = x + eps * m
            m = m - eps / 2 * w * x
          end
          change = change - 0.5 * (m * m + w * x * x)
          q[d] = x + mean[0]
        end
        for d = 0, 1 do out[2 * c + d] = math.log(u[c]) < change and q[d] or q0[2 * c + d] end
      end
      return out
    end },

  { "particles chosen again by one draw, sums and a search in shared memory", [=[
template <typename T> __device__ int upper(const T *a, int n, T v) {
  int lo = 0;
  for (int len = n; len > 0;) {
    const int half = len >> 1;
    if (a[lo + half] <= v) { lo += half + 1; len -= half + 1; }
    else len = half;
  }
  return lo;
}
__global__ void resample(const float *logw, const float *x, float *out, float *evidence, float u, int n) {
  __shared__ float sum[16];
  const int t = threadIdx.x;
  float top = -INFINITY;
  for (int k = 0; k < n; ++k) top = fmaxf(top, logw[k]);
  sum[t] = t < n ? expf(logw[t] - top) : 0.f;
  __syncthreads();
  for (int d = 1; d < 16; d *= 2) {
    const float add = t >= d ? sum[t - d] : 0.f;
    __syncthreads();
    sum[t] += add;
    __syncthreads();
  }
  const float total = sum[15];
  if (t < n) out[t] = x[min(upper(sum, n, (t + u) / n * total), n - 1)];
  if (t == 0) *evidence = top + logf(total / n);
}]=],
    block = { 16 }, grid = { 1 }, shape = { 12 }, nodiff = { "u" },
    args = function(t) return { t.f { 12, low = -2, high = 1 }, t.f { 12 }, 0.37, 12 } end,
    want = function(logw, x, u, n)
      local total = sum(n, function(k) return math.exp(logw[k]) end)
      local evidence = each(n, function() return 0 end)
      evidence[0] = math.log(total / n)
      return each(n, function(t)
        local k, s = 0, math.exp(logw[0])
        while s <= (t + u) / n * total do k = k + 1 s = s + math.exp(logw[k]) end
        return x[k]
      end), evidence
    end },

  { "counts with more spread than Poisson's, a mixture of two", [=[
__device__ __forceinline__ float log_sum_exp(float a, float b) { const float m = fmaxf(a, b); return m + logf(expf(a - m) + expf(b - m)); }
__device__ float negbin(float k, float mu, float r) {
  return lgammaf(k + r) - lgammaf(r) - lgammaf(k + 1.f) + r * logf(r / (r + mu)) + k * logf(mu / (r + mu));
}
__global__ void loglik(const int *count, const float *eta, const float *theta, double *total, int n) {
  double mine = 0.0;
  const float r = expf(theta[0]), pi = 1.f / (1.f + expf(-theta[1]));
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const float zero = count[i] == 0 ? logf(pi) : -INFINITY, rest = log1pf(-pi) + negbin((float)count[i], expf(eta[i]), r);
    mine += count[i] == 0 ? log_sum_exp(zero, rest) : rest;
  }
  atomicAdd(total, mine);
}]=],
    block = { 4 }, grid = { 1 }, shape = { 1 },
    args = function(t) return { t.i { 0, 3, 1, 0, 7, 2 }, t.f { 6 }, t.f { 2 }, 6 } end, tol = 1e-4,
    want = function(count, eta, theta, n)
      local r, pi = math.exp(theta[0]), 1 / (1 + math.exp(-theta[1]))
      return { [0] = sum(n, function(i)
        local mu, p = math.exp(eta[i]), 1
        for k = 0, count[i] - 1 do p = p * (r + k) / (k + 1) * mu / (r + mu) end
        p = p * (r / (r + mu)) ^ r * (1 - pi)
        return math.log(count[i] == 0 and p + pi or p)
      end) }
    end },

  { "volatilities implied by prices, Newton's steps in double", [=[
__device__ inline double cdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }
__device__ inline double pdf(double x) { return 0.39894228040143267794 * exp(-0.5 * x * x); }
__global__ void implied(const float *price, const float *strike, float *vol, float S, float T, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double v = 0.3;
  for (int k = 0; k < 50; ++k) {
    const double sq = v * sqrt((double)T), d1 = log((double)S / strike[i]) / sq + 0.5 * sq;
    const double f = S * cdf(d1) - strike[i] * cdf(d1 - sq) - price[i], vega = S * pdf(d1) * sqrt((double)T);
    const double step = f / vega;
    v -= step;
    if (fabs(step) < 1e-12) break;
  }
  vol[i] = (float)v;
}]=],
    args = function(t)
      return { t.tensor { 0.15, 0.12, 0.25 }, t.tensor { 1, 1.1, 0.9 }, 1, 0.75, 3 }
    end, nodiff = { "S", "T" }, order = 1, tol = 1e-4,
    want = function(price, strike, S, T, n)
      local function cdf(x)
        local m, h = 400, x / 400
        return 0.5 + sum(m + 1,
          function(k)
            return ((k == 0 or k == m) and 1 or k % 2 == 1 and 4 or 2) * math.exp(-(k * h) ^ 2 / 2)
          end) * h / 3 / math.sqrt(2 * math.pi)
      end
      return each(n, function(i)
        local low, high = 0.01, 3
        for _ = 1, 60 do
          local v = (low + high) / 2
          local q = v * math.sqrt(T)
          local d = math.log(S / strike[i]) / q + q / 2
          if S * cdf(d) - strike[i] * cdf(d - q) < price[i] then low = v else high = v end
        end
        return low
      end)
    end },

  { "kernels of Matern, their matrix from half its tiles", [=[
template <int NU2> __device__ float matern(float r) {
  if constexpr (NU2 == 1) return expf(-r);
  else if constexpr (NU2 == 3) { const float a = 1.7320508075688772f * r; return (1.f + a) * expf(-a); }
  else { const float a = 2.23606797749979f * r; return (1.f + a + a * a / 3.f) * expf(-a); }
}
template <int NU2, int D> __global__ void gram(const float *x, const float *scale, float *K, float noise, int n) {
  if (blockIdx.y > blockIdx.x) return;
  __shared__ float a[D][4], b[D][4];
  const int r = blockIdx.y * 4 + threadIdx.y, c = blockIdx.x * 4 + threadIdx.x;
  for (int d = threadIdx.y; d < D; d += 4) {
    a[d][threadIdx.x] = blockIdx.y * 4 + threadIdx.x < n ? x[(blockIdx.y * 4 + threadIdx.x) * D + d] / scale[d] : 0.f;
    b[d][threadIdx.x] = c < n ? x[c * D + d] / scale[d] : 0.f;
  }
  __syncthreads();
  if (r >= n || c >= n || r > c) return;
  float s = 0.f;
  for (int d = 0; d < D; ++d) { const float e = a[d][threadIdx.y] - b[d][threadIdx.x]; s = fmaf(e, e, s); }
  const float k = r == c ? 1.f + noise : matern<NU2>(sqrtf(s));
  K[r * n + c] = k;
  if (r != c) K[c * n + r] = k;
}]=],
    entry = "gram<5, 2>", block = { 4, 4 }, grid = { 2, 2 }, shape = { 5, 5 },
    args = function(t) return { t.f { 5, 2 }, t.f { 2, low = 0.5, high = 1 }, t.f { 1 }, 5 } end,
    want = function(x, scale, noise, n)
      return each(n * n, function(e)
        local r, c = e // n, e % n
        local a =
          math.sqrt(5 * sum(2, function(d)
            return ((x[2 * r + d] - x[2 * c + d]) / scale[d]) ^ 2
          end))
        return r == c and 1 + noise[0] or (1 + a + a * a / 3) * math.exp(-a)
      end)
    end },
}
