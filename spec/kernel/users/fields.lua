--- Kernels from physics, signal processing, finance and linear algebra: schemes with fluxes,
-- springs, small decompositions, transforms in shared memory, random paths.

local lists = dofile("spec/kernel/users/lists.lua")
local each, sum = lists.each, lists.sum

local function clamp(v, low, high) return math.max(low, math.min(high, v)) end

local function minmod(a, b)
  if a * b <= 0 then return 0 end
  return math.abs(a) < math.abs(b) and a or b
end

return {
  { "Burgers' equation, upwind with a limiter, in shared memory", [=[
#define CELLS 12
__device__ __forceinline__ float minmod(float a, float b) {
  return a * b <= 0.f ? 0.f : (fabsf(a) < fabsf(b) ? a : b);
}
__device__ float flux(float l, float r) {               /* Godunov */
  if (l > r) { const float s = 0.5f * (l + r); return 0.5f * (s > 0.f ? l * l : r * r); }
  if (l > 0.f) return 0.5f * l * l;
  if (r < 0.f) return 0.5f * r * r;
  return 0.f;
}
__global__ void burgers(const float *u0, float *u1, const float lambda, const int steps) {
  __shared__ float u[CELLS + 4];
  __shared__ float f[CELLS + 1];
  const int c = threadIdx.x;
  u[c + 2] = u0[c];
  for (int t = 0; t < steps; ++t) {
    if (c < 2) { u[c] = u0[0]; u[CELLS + 2 + c] = u0[CELLS - 1]; }
    __syncthreads();
    for (int k = c; k <= CELLS; k += CELLS) {
      const float a = u[k], b = u[k + 1], d = u[k + 2], e = u[k + 3];
      f[k] = flux(b + 0.5f * minmod(b - a, d - b), d - 0.5f * minmod(d - b, e - d));
    }
    __syncthreads();
    u[c + 2] -= lambda * (f[c + 1] - f[c]);
    __syncthreads();
  }
  u1[c] = u[c + 2];
}]=], block = { 12 }, grid = { 1 }, shape = { 12 }, order = 1,
    args = function(t) return { t.f { 12 }, 0.3, 4 } end,
    want = function(u0, lambda, steps)
      local u = { [-2] = u0[0], [-1] = u0[0], [12] = u0[11], [13] = u0[11] }
      for c = 0, 11 do u[c] = u0[c] end
      local function flux(l, r)
        if l > r then return 0.5 * (l + r > 0 and l * l or r * r) end
        return l > 0 and 0.5 * l * l or r < 0 and 0.5 * r * r or 0
      end
      for _ = 1, steps do
        local f = {}
        for k = 0, 12 do
          local a, b, d, e = u[k - 2], u[k - 1], u[k], u[k + 1]
          f[k] = flux(b + 0.5 * minmod(b - a, d - b), d - 0.5 * minmod(d - b, e - d))
        end
        for c = 0, 11 do u[c] = u[c] - lambda * (f[c + 1] - f[c]) end
      end
      return each(12, function(c) return u[c] end)
    end },

  { "WENO5 of a periodic row", [=[
__device__ float weno5(const float v[5]) {
  const float eps = 1e-3f;
  const float b0 = 13.f / 12.f * (v[0] - 2 * v[1] + v[2]) * (v[0] - 2 * v[1] + v[2]) +
                   0.25f * (v[0] - 4 * v[1] + 3 * v[2]) * (v[0] - 4 * v[1] + 3 * v[2]);
  const float b1 = 13.f / 12.f * (v[1] - 2 * v[2] + v[3]) * (v[1] - 2 * v[2] + v[3]) +
                   0.25f * (v[1] - v[3]) * (v[1] - v[3]);
  const float b2 = 13.f / 12.f * (v[2] - 2 * v[3] + v[4]) * (v[2] - 2 * v[3] + v[4]) +
                   0.25f * (3 * v[2] - 4 * v[3] + v[4]) * (3 * v[2] - 4 * v[3] + v[4]);
  const float a0 = 0.1f / ((eps + b0) * (eps + b0)), a1 = 0.6f / ((eps + b1) * (eps + b1)),
              a2 = 0.3f / ((eps + b2) * (eps + b2));
  const float q0 = (2 * v[0] - 7 * v[1] + 11 * v[2]) / 6, q1 = (-v[1] + 5 * v[2] + 2 * v[3]) / 6,
              q2 = (2 * v[2] + 5 * v[3] - v[4]) / 6;
  return (a0 * q0 + a1 * q1 + a2 * q2) / (a0 + a1 + a2);
}
extern "C" __global__ void __launch_bounds__(64) weno(const float *__restrict__ u, float *__restrict__ du, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float at[2];
  #pragma unroll
  for (int side = 0; side < 2; ++side) {
    float v[5];
    for (int k = 0; k < 5; ++k) v[k] = __ldg(&u[(i + k - 3 + side + n) % n]);
    at[side] = weno5(v);
  }
  du[i] = at[0] - at[1];
}]=], args = function(t) return { t.f { 9 } } end, tol = 1e-4,
    want = function(u)
      local function q(v)
        local e = 1e-3
        local b = {
          13 / 12 * (v[0] - 2 * v[1] + v[2]) ^ 2 + 0.25 * (v[0] - 4 * v[1] + 3 * v[2]) ^ 2,
          13 / 12 * (v[1] - 2 * v[2] + v[3]) ^ 2 + 0.25 * (v[1] - v[3]) ^ 2,
          13 / 12 * (v[2] - 2 * v[3] + v[4]) ^ 2 + 0.25 * (3 * v[2] - 4 * v[3] + v[4]) ^ 2 }
        local a = { 0.1 / (e + b[1]) ^ 2, 0.6 / (e + b[2]) ^ 2, 0.3 / (e + b[3]) ^ 2 }
        local s = a[1] * (2 * v[0] - 7 * v[1] + 11 * v[2]) + a[2] * (-v[1] + 5 * v[2] + 2 * v[3]) +
          a[3] * (2 * v[2] + 5 * v[3] - v[4])
        return s / 6 / (a[1] + a[2] + a[3])
      end
      return each(9, function(i)
        local function at(side)
          return q(each(5, function(k) return u[(i + k - 3 + side) % 9] end))
        end
        return at(0) - at(1)
      end)
    end },

  { "FDTD: two fields that leap over each other", [=[
constexpr int N = 16;
__global__ void fdtd(const float *eps, const float *source, float *probe, int steps) {
  __shared__ float e[N + 1], h[N];
  const int i = threadIdx.x;
  e[i] = h[i] = 0.f;
  if (i == N - 1) e[N] = 0.f;
  float ca = 1.f / eps[i];
  __syncthreads();
  for (int t = 0; t < steps; t++) {
    h[i] += 0.5f * (e[i + 1] - e[i]);
    __syncthreads();
    if (i > 0) e[i] += ca * 0.5f * (h[i] - h[i - 1]);
    if (i == 4) e[i] += source[t];
    __syncthreads();
    if (i == 11) probe[t] = e[i] * h[i];
  }
}]=], block = { 16 }, grid = { 1 }, shape = { 14 },
    args = function(t) return { t.f { 16, low = 1, high = 2 }, t.f { 14 }, 14 } end,
    want = function(eps, source, steps)
      local e, h = {}, {}
      for i = 0, 16 do e[i], h[i] = 0, 0 end
      return each(steps, function(t)
        for i = 0, 15 do h[i] = h[i] + 0.5 * (e[i + 1] - e[i]) end
        for i = 15, 1, -1 do e[i] = e[i] + 0.5 / eps[i] * (h[i] - h[i - 1]) end
        e[4] = e[4] + source[t]
        return e[11] * h[11]
      end)
    end },

  { "Lennard-Jones with a cutoff, each pair once", [=[
__global__ void lj(const float *p, float *force, float *energy, float cutoff, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int j = i + 1; j < n; ++j) {
    float d[3], r2 = 0.f;
    for (int c = 0; c < 3; ++c) { d[c] = p[3 * i + c] - p[3 * j + c]; r2 += d[c] * d[c]; }
    if (r2 > cutoff * cutoff) continue;
    const float s2 = 1.f / (r2 + 0.5f), s6 = s2 * s2 * s2;
    atomicAdd(energy, 4.f * s6 * (s6 - 1.f));
    const float f = 24.f * s6 * (2.f * s6 - 1.f) * s2;
    for (int c = 0; c < 3; ++c) {
      atomicAdd(&force[3 * i + c], f * d[c]);
      atomicAdd(force + 3 * j + c, -f * d[c]);
    }
  }
}]=], args = function(t) return { t.f { 5, 3 }, 1.2, 5 } end, shape = { 15 }, grid = { 1 },
    want = function(p, cutoff, n)
      local force, energy = each(15, function() return 0 end), each(15, function() return 0 end)
      for i = 0, n - 1 do
        for j = i + 1, n - 1 do
          local d = each(3, function(c) return p[3 * i + c] - p[3 * j + c] end)
          local r2 = d[0] ^ 2 + d[1] ^ 2 + d[2] ^ 2
          if r2 <= cutoff ^ 2 then
            local s6 = (r2 + 0.5) ^ -3
            energy[0] = energy[0] + 4 * s6 * (s6 - 1)
            for c = 0, 2 do
              local f = 24 * s6 * (2 * s6 - 1) / (r2 + 0.5) * d[c]
              force[3 * i + c], force[3 * j + c] = force[3 * i + c] + f, force[3 * j + c] - f
            end
          end
        end
      end
      return force, energy
    end },

  { "cloth: springs along edges, then a step", [=[
typedef struct __align__(8) { int a, b; } Edge;
struct Spring { float rest, k; };
__global__ void cloth(const int2 *edges, const Spring *springs, const float3 *x, const float3 *v, float3 *f,
                      int n_edges) {
  for (int e = threadIdx.x; e < n_edges; e += blockDim.x) {
    const int2 q = edges[e];
    const float3 a = x[q.x], b = x[q.y], va = v[q.x], vb = v[q.y];
    const float3 d = make_float3(b.x - a.x, b.y - a.y, b.z - a.z);
    const float len = sqrtf(d.x * d.x + d.y * d.y + d.z * d.z);
    const float damp = 0.1f * ((vb.x - va.x) * d.x + (vb.y - va.y) * d.y + (vb.z - va.z) * d.z) / len;
    const Spring s = springs[e];
    const float m = (s.k * (len - s.rest) + damp) / len;
    float *fa = &f[q.x].x, *fb = &f[q.y].x;
    atomicAdd(fa + 0, m * d.x); atomicAdd(fa + 1, m * d.y); atomicAdd(fa + 2, m * d.z);
    atomicAdd(fb + 0, -m * d.x); atomicAdd(fb + 1, -m * d.y); atomicAdd(fb + 2, -m * d.z);
  }
}]=], block = { 4 }, grid = { 1 }, shape = { 4, 3 },
    args = function(t)
      return { t.i { 0, 1, 1, 2, 2, 3, 3, 0, 0, 2 }, t.f { 5, 2, low = 0.5, high = 1.5 },
        t.f { 4, 3 }, t.f { 4, 3 }, 5 }
    end,
    want = function(edges, springs, x, v, n)
      local f = each(12, function() return 0 end)
      for e = 0, n - 1 do
        local a, b = 3 * edges[2 * e], 3 * edges[2 * e + 1]
        local d = each(3, function(c) return x[b + c] - x[a + c] end)
        local len = math.sqrt(d[0] ^ 2 + d[1] ^ 2 + d[2] ^ 2)
        local damp = 0.1 * sum(3, function(c) return (v[b + c] - v[a + c]) * d[c] end) / len
        for c = 0, 2 do
          local m = (springs[2 * e + 1] * (len - springs[2 * e]) + damp) / len * d[c]
          f[a + c], f[b + c] = f[a + c] + m, f[b + c] - m
        end
      end
      return f
    end },

  { "van der Pol by implicit Euler, Newton's steps inside", [=[
__device__ void residual(float x, float v, const float x0, const float v0, float h, float mu, float *r, float J[2][2]) {
  r[0] = x - x0 - h * v;
  r[1] = v - v0 - h * (mu * (1 - x * x) * v - x);
  J[0][0] = 1; J[0][1] = -h;
  J[1][0] = h * (2 * mu * x * v + 1); J[1][1] = 1 - h * mu * (1 - x * x);
}
__global__ void vdp(const float *start, const float *mu, float *end, int n, int steps, float h) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = start[2 * i], v = start[2 * i + 1];
  for (int s = 0; s < steps; ++s) {
    const float x0 = x, v0 = v;
    for (int k = 0; k < 12; ++k) {
      float r[2], J[2][2];
      residual(x, v, x0, v0, h, mu[i], r, J);
      const float det = J[0][0] * J[1][1] - J[0][1] * J[1][0];
      const float dx = (r[0] * J[1][1] - J[0][1] * r[1]) / det, dv = (J[0][0] * r[1] - J[1][0] * r[0]) / det;
      x -= dx, v -= dv;
      if (fabsf(dx) + fabsf(dv) < 1e-6f) break;
    }
  }
  end[2 * i] = x;
  end[2 * i + 1] = v;
}]=],
    shape = { 3, 2 }, args = function(t)
      return { t.f { 3, 2 }, t.f { 3, low = 0.5, high = 2 }, 3, 5, 0.1 }
    end,
    order = 1, tol64 = 1e-9,
    want = function(start, mu, n, steps, h)
      local y = {}
      for i = 0, n - 1 do
        local x, v = start[2 * i], start[2 * i + 1]
        for _ = 1, steps do
          local x0, v0 = x, v
          for _ = 1, 30 do                        -- a step of Newton's method for (x, v)
            local g = x - x0 - h * v
            local q = v - v0 - h * (mu[i] * (1 - x * x) * v - x)
            local a, b = h * (2 * mu[i] * x * v + 1), 1 - h * mu[i] * (1 - x * x)
            local det = b + h * a
            x, v = x - (g * b + h * q) / det, v - (q - a * g) / det
          end
        end
        y[2 * i], y[2 * i + 1] = x, v
      end
      return y
    end },

  { "LU with partial pivoting, rows swapped by index", [=[
#define N 4
#define SWAP(T, a, b) do { T t_ = (a); (a) = (b); (b) = t_; } while (0)
__global__ void lu_solve(const float *A, const float *b, float *x, float *logdet, int n) {
  const int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= n) return;
  float m[N][N], r[N];
  int piv[N];
  for (int i = 0; i < N; ++i) { piv[i] = i; for (int j = 0; j < N; ++j) m[i][j] = A[(s * N + i) * N + j]; }
  float ld = 0.f;
  for (int k = 0; k < N; ++k) {
    int best = k;
    for (int i = k + 1; i < N; ++i) if (fabsf(m[piv[i]][k]) > fabsf(m[piv[best]][k])) best = i;
    if (best != k) SWAP(int, piv[best], piv[k]);
    ld += logf(fabsf(m[piv[k]][k]));
    for (int i = k + 1; i < N; ++i) {
      const float f = m[piv[i]][k] /= m[piv[k]][k];
      for (int j = k + 1; j < N; ++j) m[piv[i]][j] -= f * m[piv[k]][j];
    }
  }
  for (int i = 0; i < N; ++i) {
    r[i] = b[s * N + piv[i]];
    for (int j = 0; j < i; ++j) r[i] -= m[piv[i]][j] * r[j];
  }
  for (int i = N - 1; i >= 0; --i) {
    for (int j = i + 1; j < N; ++j) r[i] -= m[piv[i]][j] * r[j];
    r[i] /= m[piv[i]][i];
  }
  for (int i = 0; i < N; ++i) x[s * N + i] = r[i];
  logdet[s] = ld;
}]=], shape = { 8 }, args = function(t)
      return {
        t.f { 2, 4, 4 } + t.tensor { { 0, 0, 2, 0 }, { 2, 0, 0, 0 }, { 0, 0, 0, 2 },
          { 0, 2, 0, 0 } }, t.f { 2, 4 }, 2 }
    end, tol = 1e-4,
    want = function(A, b, n)
      local x, det = {}, each(8, function() return 0 end)
      for s = 0, n - 1 do
        local m, d = {}, 0
        for i = 0, 3 do
          m[i] = each(4, function(j) return A[(s * 4 + i) * 4 + j] end)
          m[i][4] = b[s * 4 + i]
        end
        for k = 0, 3 do                                     -- Gauss and Jordan
          local best = k
          for i = k + 1, 3 do if math.abs(m[i][k]) > math.abs(m[best][k]) then best = i end end
          m[k], m[best] = m[best], m[k]
          d = d + math.log(math.abs(m[k][k]))
          for i = 0, 3 do
            local f = i ~= k and m[i][k] / m[k][k] or 0
            for j = k, 4 do m[i][j] = m[i][j] - f * m[k][j] end
          end
        end
        for i = 0, 3 do x[s * 4 + i] = m[i][4] / m[i][i] end
        det[s] = d
      end
      return x, det
    end },

  { "QR by Givens rotations", [=[
template <int M, int N>
__device__ void givens(float (&a)[M][N]) {
  for (int c = 0; c < N; ++c)
    for (int r = M - 1; r > c; --r) {
      const float p = a[r - 1][c], q = a[r][c], h = hypotf(p, q);
      if (h == 0.f) continue;
      const float cs = p / h, sn = q / h;
      #pragma unroll
      for (int k = 0; k < N; ++k) {
        const float u = a[r - 1][k], v = a[r][k];
        a[r - 1][k] = cs * u + sn * v;
        a[r][k] = cs * v - sn * u;
      }
    }
}
__global__ void qr(const float *A, float *R, int n) {
  int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= n) return;
  float a[4][3];
  for (int e = 0; e < 12; ++e) a[e / 3][e % 3] = A[12 * s + e];
  givens(a);
  for (int i = 0; i < 3; ++i) for (int j = i; j < 3; ++j) R[9 * s + 3 * i + j] = a[i][j];
}]=], shape = { 2, 9 }, args = function(t) return { t.f { 2, 4, 3 }, 2 } end,
    want = function(A, n)
      local R = each(18, function() return 0 end)
      for s = 0, n - 1 do                     -- Gram-Schmidt, signs as after rotations
        local q = {}
        for j = 0, 2 do
          local v = each(4, function(i) return A[12 * s + 3 * i + j] end)
          for k = 0, j - 1 do
            local d = sum(4, function(i) return q[k][i] * v[i] end)
            R[9 * s + 3 * k + j] = d
            for i = 0, 3 do v[i] = v[i] - d * q[k][i] end
          end
          local h = math.sqrt(sum(4, function(i) return v[i] * v[i] end))
          R[9 * s + 4 * j] = h
          q[j] = each(4, function(i) return v[i] / h end)
        end
      end
      return R
    end },

  { "eigenvalues of symmetric 3x3 matrices by Jacobi's sweeps", [=[
__global__ void jacobi(const float *A, float *values, int n) {
  const int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= n) return;
  float a[3][3];
  for (int i = 0; i < 3; ++i) for (int j = 0; j < 3; ++j) a[i][j] = 0.5f * (A[9 * s + 3 * i + j] + A[9 * s + 3 * j + i]);
  for (int sweep = 0; sweep < 8; ++sweep) {
    const float off = a[0][1] * a[0][1] + a[0][2] * a[0][2] + a[1][2] * a[1][2];
    if (off < 1e-30f) break;
    for (int p = 0; p < 2; ++p) for (int q = p + 1; q < 3; ++q) {
      if (fabsf(a[p][q]) < 1e-18f) continue;
      const float theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
      const float t = copysignf(1.f, theta) / (fabsf(theta) + sqrtf(theta * theta + 1)), c = rsqrtf(t * t + 1), d = t * c;
      for (int k = 0; k < 3; ++k) { float u = a[k][p], v = a[k][q]; a[k][p] = c * u - d * v; a[k][q] = d * u + c * v; }
      for (int k = 0; k < 3; ++k) { float u = a[p][k], v = a[q][k]; a[p][k] = c * u - d * v; a[q][k] = d * u + c * v; }
    }
  }
  float e0 = a[0][0], e1 = a[1][1], e2 = a[2][2], t;
  if (e0 > e1) t = e0, e0 = e1, e1 = t;
  if (e1 > e2) t = e1, e1 = e2, e2 = t;
  if (e0 > e1) t = e0, e0 = e1, e1 = t;
  values[3 * s] = e0; values[3 * s + 1] = e1; values[3 * s + 2] = e2;
}]=],
    shape = { 2, 3 }, args = function(t) return { t.f { 2, 9 }, 2 } end, order = 1,
    tol = 1e-4, tol64 = 1e-9,
    want = function(A, n)
      local e = {}
      for s = 0, n - 1 do                                   -- the trigonometric roots of the cubic
        local function a(i, j) return 0.5 * (A[9 * s + 3 * i + j] + A[9 * s + 3 * j + i]) end
        local q = (a(0, 0) + a(1, 1) + a(2, 2)) / 3
        local p1 = a(0, 1) ^ 2 + a(0, 2) ^ 2 + a(1, 2) ^ 2
        local p =
          math.sqrt(((a(0, 0) - q) ^ 2 + (a(1, 1) - q) ^ 2 + (a(2, 2) - q) ^ 2 + 2 * p1) / 6)
        local function b(i, j) return (a(i, j) - (i == j and q or 0)) / p end
        local det = b(0, 0) * (b(1, 1) * b(2, 2) - b(1, 2) ^ 2) - b(0,
          1) * (b(0, 1) * b(2, 2) - b(1, 2) * b(0, 2)) +
          b(0, 2) * (b(0, 1) * b(1, 2) - b(1, 1) * b(0, 2))
        local phi = math.acos(clamp(det / 2, -1, 1)) / 3
        e[3 * s + 2] = q + 2 * p * math.cos(phi)
        e[3 * s] = q + 2 * p * math.cos(phi + 2 * math.pi / 3)
        e[3 * s + 1] = 3 * q - e[3 * s] - e[3 * s + 2]
      end
      return e
    end },

  { "tridiagonal systems by parallel cyclic reduction", [=[
__global__ void pcr(const float *lower, const float *diag, const float *upper, const float *rhs, float *x) {
  enum { N = 16 };
  __shared__ float a[N], b[N], c[N], d[N];
  const int i = threadIdx.x;
  a[i] = i ? lower[i] : 0.f; b[i] = diag[i]; c[i] = i < N - 1 ? upper[i] : 0.f; d[i] = rhs[i];
  __syncthreads();
  for (int s = 1; s < N; s <<= 1) {
    const int l = i - s, r = i + s;
    float na = 0, nb = b[i], nc = 0, nd = d[i];
    if (l >= 0) { const float k = a[i] / b[l]; na = -k * a[l]; nb -= k * c[l]; nd -= k * d[l]; }
    if (r < N) { const float k = c[i] / b[r]; nc = -k * c[r]; nb -= k * a[r]; nd -= k * d[r]; }
    __syncthreads();
    a[i] = na; b[i] = nb; c[i] = nc; d[i] = nd;
    __syncthreads();
  }
  x[i] = d[i] / b[i];
}]=], block = { 16 }, grid = { 1 }, shape = { 16 },
    args = function(t)
      return { t.f { 16 }, t.f { 16, low = 3, high = 4 }, t.f { 16 }, t.f { 16 } }
    end,
    want = function(a, b, c, d)
      local x, p, q = {}, {}, {}
      for i = 0, 15 do
        local m = b[i] - (i > 0 and a[i] * p[i - 1] or 0)
        p[i], q[i] = c[i] / m, (d[i] - (i > 0 and a[i] * q[i - 1] or 0)) / m
      end
      for i = 15, 0, -1 do x[i] = q[i] - (i < 15 and p[i] * x[i + 1] or 0) end
      return x
    end },

  { "a Walsh-Hadamard transform by shuffles, then through shared memory", [=[
__global__ void hadamard(const float *x, float *y) {
  __shared__ float s[64];
  const int t = threadIdx.x, lane = t & 31;
  float v = x[blockIdx.x * 64 + t];
  for (int h = 1; h < 32; h <<= 1) {
    const float w = __shfl_xor_sync(0xffffffff, v, h);
    v = lane & h ? w - v : v + w;
  }
  s[t] = v;
  __syncthreads();
  v = t < 32 ? s[t] + s[t + 32] : s[t - 32] - s[t];
  y[blockIdx.x * 64 + t] = 0.125f * v * fabsf(v);
}]=],
    block = { 64 }, grid = { 2 }, shape = { 128 },
    args = function(t) return { t.f { 128 } } end, tol = 5e-5,
    order = 1,
    want = function(x)
      return each(128, function(e)
        local row, i = e // 64, e % 64
        local s = sum(64, function(j)
          local bits, v = 0, i & j
          while v > 0 do bits, v = bits + (v & 1), v >> 1 end
          return (bits % 2 == 0 and 1 or -1) * x[row * 64 + j]
        end)
        return 0.125 * s * math.abs(s)
      end)
    end },

  { "a wavelet by lifting, in place in registers", [=[
template <typename T, int N> struct Lift {
  T v[N];
  __device__ __host__ inline T &operator[](int k) { return v[k]; }
  __device__ void step(int stride, T p, T u) {
    for (int k = stride; k < N; k += 2 * stride)
      v[k] -= p * (v[k - stride] + (k + stride < N ? v[k + stride] : v[k - stride]));
    for (int k = 0; k < N; k += 2 * stride)
      v[k] += u * ((k >= stride ? v[k - stride] : v[k + stride]) + v[k + stride]);
  }
};
__global__ void wavelet(const float *x, const float *w, float *y, int n) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= n) return;
  Lift<float, 8> l;
  for (int k = 0; k < 8; ++k) l[k] = x[8 * r + k];
  for (int stride = 1; stride < 8; stride *= 2) l.step(stride, w[0], w[1]);
  for (int k = 0; k < 8; ++k) y[8 * r + k] = l[k] * l[k];
}]=], shape = { 2, 8 }, args = function(t) return { t.f { 2, 8 }, t.tensor { 0.5, 0.25 }, 2 } end,
    want = function(x, w, n)
      local y = {}
      for r = 0, n - 1 do
        local v, stride = each(8, function(k) return x[8 * r + k] end), 1
        while stride < 8 do
          local function at(k) return v[k < 0 and -k or k > 7 and 2 * (8 - stride) - k or k] end
          for k = stride, 7, 2 * stride do
            v[k] = v[k] - w[0] * (at(k - stride) + at(k + stride))
          end
          for k = 0, 7, 2 * stride do v[k] = v[k] + w[1] * (at(k - stride) + at(k + stride)) end
          stride = 2 * stride
        end
        for k = 0, 7 do y[8 * r + k] = v[k] ^ 2 end
      end
      return y
    end },

  { "a filter with taps in constant memory, every second sample", [=[
__constant__ float taps[5] = { 0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f };
__global__ void decimate(const float *__restrict__ x, const float *gain, float *__restrict__ y, const int n, const int m) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= m) return;
  float acc = 0.f;
  #pragma unroll 5
  for (int k = -2; k <= 2; ++k) {
    int j = 2 * i + k;
    j = j < 0 ? -j : j >= n ? 2 * n - 2 - j : j;        /* reflected */
    acc = fmaf(taps[k + 2], x[j], acc);
  }
  y[i] = acc * gain[0];
}]=], shape = { 5 }, args = function(t) return { t.f { 9 }, t.f { 1 }, 9, 5 } end,
    want = function(x, g, n, m)
      local w = { [0] = 0.0625, 0.25, 0.375, 0.25, 0.0625 }
      return each(m, function(i)
        return g[0] * sum(5, function(k)
          local j = math.abs(2 * i + k - 2)
          return w[k] * x[j >= n and 2 * n - 2 - j or j]
        end)
      end)
    end },

  { "a Kalman filter of position and speed", [=[
struct Mat2 { float a, b, c, d; };
__device__ __forceinline__ Mat2 operator*(const Mat2 &x, const Mat2 &y) {
  return Mat2{ x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d };
}
__device__ __forceinline__ Mat2 transposed(Mat2 m) { float t = m.b; m.b = m.c; m.c = t; return m; }
__global__ void kalman(const float *z, const float *q, const float *r, float *nll, int n, int T) {
  const int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= n) return;
  float x = 0.f, v = 0.f, loss = 0.f;
  Mat2 P = { 1.f, 0.f, 0.f, 1.f };
  const Mat2 F = { 1.f, 0.1f, 0.f, 1.f };
  for (int t = 0; t < T; ++t) {
    x += 0.1f * v;
    P = F * P * transposed(F);
    P.a += q[0]; P.d += q[1];
    const float y = z[s * T + t] - x, S = P.a + r[s], ka = P.a / S, kc = P.c / S;
    x += ka * y;
    v += kc * y;
    loss += 0.5f * (y * y / S + logf(S));
    const float pa = P.a, pb = P.b;
    P.a -= ka * pa; P.b -= ka * pb; P.c -= kc * pa; P.d -= kc * pb;
  }
  nll[s] = loss;
}]=], shape = { 2 }, args = function(t)
      return { t.f { 2, 6 }, t.f { 2, low = 0.1, high = 0.3 },
        t.f { 2, low = 0.2, high = 0.5 }, 2, 6 }
    end,
    want = function(z, q, r, n, T)
      return each(n, function(s)
        local x, v, a, b, d, loss = 0, 0, 1, 0, 1, 0          -- P is symmetric: a b; b d
        for t = 0, T - 1 do
          x = x + 0.1 * v
          a, b, d = a + 0.2 * b + 0.01 * d + q[0], b + 0.1 * d, d + q[1]
          local y, S = z[s * T + t] - x, a + r[s]
          loss = loss + 0.5 * (y * y / S + math.log(S))
          x, v = x + a / S * y, v + b / S * y
          a, b, d = a - a * a / S, b - a * b / S, d - b * b / S
        end
        return loss
      end)
    end },

  { "paths of Heston, a counter's random numbers", [=[
typedef unsigned int u32;
__device__ __forceinline__ u32 rotl(u32 v, int by) { return (v << by) | (v >> (32 - by)); }
__device__ uint2 threefry(u32 c0, u32 c1, u32 k0, u32 k1) {
  const u32 ks[3] = { k0, k1, 0x1BD11BDAu ^ k0 ^ k1 };
  const int rot[8] = { 13, 15, 26, 6, 17, 29, 16, 24 };
  u32 x = c0 + ks[0], y = c1 + ks[1];
  for (u32 r = 0; r < 12; ++r) {
    x += y; y = rotl(y, rot[r & 7]) ^ x;
    if ((r & 3) == 3) { const u32 j = (r >> 2) + 1; x += ks[j % 3]; y += ks[(j + 1) % 3] + j; }
  }
  uint2 o; o.x = x; o.y = y;
  return o;
}
__global__ void heston(const float *p, float *payoff, int paths, int steps, unsigned seed) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= paths) return;
  const float kappa = p[0], theta = p[1], xi = p[2], rho = p[3], dt = 1.f / steps;
  float s = 0.f, v = p[4];
  for (int t = 0; t < steps; ++t) {
    const uint2 u = threefry(i, t, seed, 0u);
    const float u1 = ((u.x >> 8) + 0.5f) * (1.f / 16777216.f), u2 = (u.y >> 8) * (1.f / 16777216.f);
    const float r = sqrtf(-2.f * logf(u1)), z1 = r * cosf(6.2831853f * u2), z2 = r * sinf(6.2831853f * u2);
    const float vp = fmaxf(v, 0.f), sd = sqrtf(vp * dt + 1e-6f);
    s += -0.5f * vp * dt + sd * z1;
    v += kappa * (theta - vp) * dt + xi * sd * (rho * z1 + sqrtf(1 - rho * rho) * z2);
  }
  payoff[i] = fmaxf(expf(s) - 0.9f, 0.f);
}]=],
    shape = { 6 },
    args = function(t) return { t.tensor { 1.5, 0.09, 0.4, -0.6, 0.08 }, 6, 8, 1234 } end,
    order = 1,
    tol = 1e-4, tol64 = 1e-7,
    want = function(p, paths, steps, seed)
      local M = 0xffffffff
      local function threefry(c0, c1)
        local ks = { [0] = seed, 0, 0x1BD11BDA ~ seed }
        local rot = { [0] = 13, 15, 26, 6, 17, 29, 16, 24 }
        local x, y = (c0 + ks[0]) & M, (c1 + ks[1]) & M
        for r = 0, 11 do
          x = (x + y) & M
          y = (((y << rot[r & 7]) | (y >> (32 - rot[r & 7]))) & M) ~ x
          if r & 3 == 3 then
            local j = (r >> 2) + 1
            x, y = (x + ks[j % 3]) & M, (y + ks[(j + 1) % 3] + j) & M
          end
        end
        return x, y
      end
      return each(paths, function(i)
        local s, v, dt = 0, p[4], 1 / steps
        for t = 0, steps - 1 do
          local a, b = threefry(i, t)
          local u1, u2 = ((a >> 8) + 0.5) / 16777216, (b >> 8) / 16777216
          local r = math.sqrt(-2 * math.log(u1))
          local z1, z2 = r * math.cos(6.2831853 * u2), r * math.sin(6.2831853 * u2)
          local vp = math.max(v, 0)
          local sd = math.sqrt(vp * dt + 1e-6)
          s = s - 0.5 * vp * dt + sd * z1
          v = v + p[0] * (p[1] - vp) * dt + p[2] * sd * (p[3] * z1 + math.sqrt(1 - p[3] ^ 2) * z2)
        end
        return math.max(math.exp(s) - 0.9, 0)
      end)
    end },

  { "an American put on a binomial tree", [=[
#ifndef STEPS
#define STEPS 8
#endif
static_assert(STEPS > 1, "too few");
__global__ void american(const float *spot, const float *vol, float *price, float strike, float rate, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float dt = 1.f / STEPS, u = expf(vol[i] * sqrtf(dt)), d = 1.f / u;
  const float pu = (expf(rate * dt) - d) / (u - d), disc = expf(-rate * dt);
  float v[STEPS + 1], s = spot[i];
  for (int k = 0; k < STEPS; ++k) s *= d;
  for (int k = 0; k <= STEPS; ++k, s *= u * u) v[k] = fmaxf(strike - s, 0.f);
  for (int t = STEPS - 1; t >= 0; --t) {
    s = spot[i] * powf(d, t);
    for (int k = 0; k <= t; ++k) {
      const float hold = disc * (pu * v[k + 1] + (1.f - pu) * v[k]);
      v[k] = hold > strike - s ? hold : strike - s;
      s *= u * u;
    }
  }
  price[i] = v[0];
}]=], args = function(t)
      return { t.f { 3, low = 0.8, high = 1.2 }, t.f { 3, low = 0.2, high = 0.4 }, 1, 0.04, 3 }
    end, order = 1,
    want = function(spot, vol, strike, rate, n)
      return each(n, function(i)
        local dt = 1 / 8
        local u = math.exp(vol[i] * math.sqrt(dt))
        local pu, disc = (math.exp(rate * dt) - 1 / u) / (u - 1 / u), math.exp(-rate * dt)
        local function value(t, k)
          local now = strike - spot[i] * u ^ (2 * k - t)
          if t == 8 then return math.max(now, 0) end
          return math.max(now, disc * (pu * value(t + 1, k + 1) + (1 - pu) * value(t + 1, k)))
        end
        return value(0, 0)
      end)
    end },

  { "a logistic map of many rounds, left early", [=[
__global__ void logistic(const float *r, const float *x0, float *x, int *rounds, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  float v = x0[i];
  int k = 0;
  do {
    float w = r[i] * v * (1.f - v);
    if (fabsf(w - v) < 1e-7f) { v = w; break; }
    v = w;
  } while (++k < 200);
  x[i] = v;
  rounds[i] = k >= 0;
}]=],
    args = function(t) return { t.tensor { 1.5, 2.2, 2.7 }, t.tensor { 0.3, 0.4, 0.2 } } end,
    block = { 32 },
    grid = { 1 }, order = 1, tol64 = 1e-6,
    want = function(r)
      return each(3, function(i) return 1 - 1 / r[i] end), each(3, function() return 1 end)
    end },

  { "rotated points, blended dual quaternions", [=[
struct Quat {
  float w, x, y, z;
  __device__ Quat operator*(const Quat &q) const {
    return { w * q.w - x * q.x - y * q.y - z * q.z, w * q.x + x * q.w + y * q.z - z * q.y,
             w * q.y - x * q.z + y * q.w + z * q.x, w * q.z + x * q.y - y * q.x + z * q.w };
  }
  __device__ Quat conj() const { return { w, -x, -y, -z }; }
  __device__ Quat &operator+=(const Quat &q) { w += q.w; x += q.x; y += q.y; z += q.z; return *this; }
};
__device__ Quat operator*(float s, const Quat &q) { return { s * q.w, s * q.x, s * q.y, s * q.z }; }
__global__ void skin(const float4 *real, const float4 *dual, const float *weight, const int *bone, const float3 *p,
                     float3 *out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Quat r = { 0, 0, 0, 0 }, d = { 0, 0, 0, 0 };
  float4 first = real[bone[2 * i]];
  for (int k = 0; k < 2; ++k) {
    const float4 a = real[bone[2 * i + k]], b = dual[bone[2 * i + k]];
    float w = weight[2 * i + k];
    if (a.x * first.x + a.y * first.y + a.z * first.z + a.w * first.w < 0) w = -w;
    r += w * Quat{ a.x, a.y, a.z, a.w };
    d += w * Quat{ b.x, b.y, b.z, b.w };
  }
  const float len = sqrtf(r.w * r.w + r.x * r.x + r.y * r.y + r.z * r.z);
  r = 1.f / len * r;
  d = (1.f / len) * d;
  const Quat v = r * Quat{ 0, p[i].x, p[i].y, p[i].z } * r.conj(), t = 2.f * (d * r.conj());
  out[i] = make_float3(v.x + t.x, v.y + t.y, v.z + t.z);
}]=], shape = { 3, 3 }, args = function(t)
      return { t.f { 3, 4 }, t.f { 3, 4 }, t.f { 3, 2, low = 0.2, high = 1 },
        t.i { 0, 1, 2, 1, 0, 2 }, t.f { 3, 3 }, 3 }
    end, tol = 1e-4, order = 1,
    want = function(real, dual, weight, bone, p, n)
      local out = {}
      for i = 0, n - 1 do
        local r, d = { [0] = 0, 0, 0, 0 }, { [0] = 0, 0, 0, 0 }
        for k = 0, 1 do
          local b, f, w = bone[2 * i + k], bone[2 * i], weight[2 * i + k]
          if sum(4, function(c) return real[4 * b + c] * real[4 * f + c] end) < 0 then w = -w end
          for c = 0, 3 do r[c], d[c] = r[c] + w * real[4 * b + c], d[c] + w * dual[4 * b + c] end
        end
        local l = math.sqrt(sum(4, function(c) return r[c] ^ 2 end))
        for c = 0, 3 do r[c], d[c] = r[c] / l, d[c] / l end
        local v, u = each(3, function(c) return p[3 * i + c] end),
          each(3, function(c) return r[c + 1] end)
        local function cross(a, b)
          return { [0] = a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2],
            a[0] * b[1] - a[1] * b[0] }
        end
        local uv = cross(u, v)
        local uuv, du = cross(u, uv), each(3, function(c) return d[c + 1] end)
        local ud = cross(u, du)
        for c = 0, 2 do
          out[3 * i + c] = v[c] + 2 * (r[0] * uv[c] + uuv[c])
            + 2 * (r[0] * du[c] - d[0] * u[c] + ud[c])
        end
      end
      return out
    end },

  { "components by the smallest label, until nothing changes", [=[
__global__ void components(const int *edge, int *label, int n, int m) {
  __shared__ int changed;
  const int t = threadIdx.x;
  for (int v = t; v < n; v += blockDim.x) label[v] = v;
  do {
    __syncthreads();
    if (t == 0) changed = 0;
    __syncthreads();
    for (int e = t; e < m; e += blockDim.x) {
      const int a = edge[2 * e], b = edge[2 * e + 1], la = label[a], lb = label[b];
      if (la < lb) { if (atomicMin(&label[b], la) > la) changed = 1; }
      else if (lb < la) { if (atomicMin(&label[a], lb) > lb) changed = 1; }
    }
    __syncthreads();
  } while (changed);
}]=], block = { 32 }, grid = { 1 }, shape = { 8 }, same = true, inout = { "label" },
    args = function(t)
      return { t.i { 0, 3, 3, 5, 1, 2, 6, 7, 7, 6 }, t.i { 9, 9, 9, 9, 9, 9, 9, 9 }, 8, 5 }
    end,
    want = function() return { [0] = 0, 1, 1, 0, 4, 0, 6, 6 } end },
}
