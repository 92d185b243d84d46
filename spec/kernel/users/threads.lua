--- Kernels with independent threads: solvers, geometry, integrators, sampling.

local flame = require "flame"

local each = dofile("spec/kernel/users/each.lua")

return {
  { "Newton's cube root with a tolerance", [[
__device__ float newton(float a, float x0) {
  float x = x0;
  int iter = 0;
  while (true) {
    float fx = x * x * x - a;
    if (fabsf(fx) < 1e-6f * fmaxf(1.f, fabsf(a)) || iter >= 60) break;
    x -= fx / (3.f * x * x);
    ++iter;
  }
  return x;
}
__global__ void roots(const float *a, float *x, int n) {
  int i = blockDim.x * blockIdx.x + threadIdx.x;
  if (i < n) x[i] = newton(a[i], 1.0f);
}]], args = function(t) return { t.f { 9, low = 0.2, high = 9 } } end, tol = 1e-5, tol64 = 1e-5,
    order = 1,
    want = function(a) return each(9, function(i) return a[i] ^ (1 / 3) end) end },

  { "bisection, then one Newton step for the gradient", [[
__device__ inline float f(float x, float p) { return x + 0.5f * sinf(x) - p; }
__global__ void solve(const float *p, float *x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float lo = -4.f, hi = 4.f;
  for (int k = 0; k < 50; ++k) {
    float mid = 0.5f * (lo + hi);
    if (f(mid, p[i]) > 0.f) hi = mid; else lo = mid;
  }
  float r = 0.5f * (lo + hi);
  r = r - f(r, p[i]) / (1.f + 0.5f * cosf(r));
  x[i] = r;
}]], args = function(t) return { t.f { 7, low = -2, high = 2 } } end, order = 1,
    want = function(p)
      return each(7, function(i)
        local x = p[i]
        for _ = 1, 60 do x = x - (x + 0.5 * math.sin(x) - p[i]) / (1 + 0.5 * math.cos(x)) end
        return x
      end)
    end },

  { "inverse of 3x3 matrices", [[
__global__ void inv3(const float *A, float *B, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  float m[3][3], r[3][3];
  for (int a = 0; a < 3; a++) for (int b = 0; b < 3; b++) m[a][b] = A[i * 9 + a * 3 + b];
  for (int a = 0; a < 3; a++)
    for (int b = 0; b < 3; b++) {
      const int a1 = (a + 1) % 3, a2 = (a + 2) % 3, b1 = (b + 1) % 3, b2 = (b + 2) % 3;
      r[b][a] = m[a1][b1] * m[a2][b2] - m[a1][b2] * m[a2][b1];
    }
  float det = m[0][0] * r[0][0] + m[0][1] * r[1][0] + m[0][2] * r[2][0];
  for (int k = 0; k < 9; ++k) B[i * 9 + k] = r[k / 3][k % 3] / det;
}]], args = function(t)
      local a = t.f { 4, 3, 3 }
      return { a + t.tensor { { 2, 0, 0 }, { 0, 2, 0 }, { 0, 0, 2 } }, 4 }
    end,
    want = function(A, n)
      local B = {}
      for i = 0, n - 1 do
        local m = {}
        for r = 0, 2 do
          m[r] = {}
          for c = 0, 2 do m[r][c], m[r][c + 3] = A[9 * i + 3 * r + c], r == c and 1 or 0 end
        end
        for p = 0, 2 do
          local d = m[p][p]
          for c = 0, 5 do m[p][c] = m[p][c] / d end
          for r = 0, 2 do
            local f = m[r][p]
            if r ~= p then for c = 0, 5 do m[r][c] = m[r][c] - f * m[p][c] end end
          end
        end
        for r = 0, 2 do for c = 0, 2 do B[9 * i + 3 * r + c] = m[r][c + 3] end end
      end
      return B
    end },

  { "Cholesky of small matrices and a solve", [[
#define N 4
__device__ void cholesky(float L[N][N]) {
  for (int j = 0; j < N; ++j) {
    float d = L[j][j];
    for (int k = 0; k < j; ++k) d -= L[j][k] * L[j][k];
    L[j][j] = sqrtf(d);
    for (int i = j + 1; i < N; ++i) {
      float s = L[i][j];
      for (int k = 0; k < j; ++k) s -= L[i][k] * L[j][k];
      L[i][j] = s / L[j][j];
    }
  }
}
__global__ void chol_solve(const float *A, const float *b, float *x, float *logdet, int batch) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= batch) return;
  float L[N][N], y[N];
  for (int i = 0; i < N; ++i) for (int j = 0; j < N; ++j) L[i][j] = A[(t * N + i) * N + j];
  cholesky(L);
  float ld = 0.f;
  for (int i = 0; i < N; ++i) {
    float s = b[t * N + i];
    for (int j = 0; j < i; ++j) s -= L[i][j] * y[j];
    y[i] = s / L[i][i];
    ld += 2.f * logf(L[i][i]);
  }
  for (int i = N - 1; i >= 0; --i) {
    float s = y[i];
    for (int j = i + 1; j < N; ++j) s -= L[j][i] * y[j];
    y[i] = s / L[i][i];
  }
  for (int i = 0; i < N; ++i) x[t * N + i] = y[i];
  logdet[t] = ld;
}]], shape = { 3, 4 }, args = function(t)
      local a = t.f { 3, 4, 4 }
      return { a:matmul(a:transpose(2, 3)) + flame.eye(4, { dtype = a.dtype }) * 2,
        t.f { 3, 4 }, 3 }
    end,
    want = function(A, b, n)
      local x, ld = {}, {}
      for i = 0, 11 do ld[i] = 0 end
      for t = 0, n - 1 do
        local m, det = {}, 1
        for r = 0, 3 do
          m[r] = { [4] = b[4 * t + r] }
          for c = 0, 3 do m[r][c] = A[16 * t + 4 * r + c] end
        end
        for p = 0, 3 do
          local d = m[p][p]
          det = det * d
          for c = 0, 4 do m[p][c] = m[p][c] / d end
          for r = 0, 3 do
            local f = m[r][p]
            if r ~= p then for c = 0, 4 do m[r][c] = m[r][c] - f * m[p][c] end end
          end
        end
        for r = 0, 3 do x[4 * t + r] = m[r][4] end
        ld[t] = math.log(det)
      end
      return x, ld
    end, tol = 1e-4 },

  { "rotation by quaternions in structs with operators", [[
struct Quat { float w; float3 v; };
__device__ __forceinline__ float3 operator+(float3 a, float3 b) { return make_float3(a.x+b.x, a.y+b.y, a.z+b.z); }
__device__ __forceinline__ float3 operator*(float s, float3 a) { return make_float3(s*a.x, s*a.y, s*a.z); }
__device__ __forceinline__ float3 cross(const float3 &a, const float3 &b) {
  return make_float3(a.y*b.z - a.z*b.y, a.z*b.x - a.x*b.z, a.x*b.y - a.y*b.x);
}
__device__ __forceinline__ float dot(float3 a, float3 b) { return a.x*b.x + a.y*b.y + a.z*b.z; }
__device__ Quat normalize(Quat q) {
  float r = rsqrtf(q.w * q.w + dot(q.v, q.v));
  q.w *= r;
  q.v = r * q.v;
  return q;
}
__device__ float3 rotate(const Quat& q, float3 p) {
  const float3 t = 2.0f * cross(q.v, p);
  return p + q.w * t + cross(q.v, t);
}
__global__ void rotate_points(const float4 *q, const float3 *p, float3 *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Quat u = { q[i].w, make_float3(q[i].x, q[i].y, q[i].z) };
  u = normalize(u);
  out[i] = rotate(u, p[i]);
}]], shape = { 5, 3 }, args = function(t) return { t.f { 5, 4 }, t.f { 5, 3 }, 5 } end,
    want = function(q, p, n)
      local y = {}
      for i = 0, n - 1 do
        local x, yy, z, w = q[4 * i], q[4 * i + 1], q[4 * i + 2], q[4 * i + 3]
        local l = math.sqrt(x * x + yy * yy + z * z + w * w)
        x, yy, z, w = x / l, yy / l, z / l, w / l
        local m = { { 1 - 2 * (yy * yy + z * z), 2 * (x * yy - z * w), 2 * (x * z + yy * w) },
          { 2 * (x * yy + z * w), 1 - 2 * (x * x + z * z), 2 * (yy * z - x * w) },
          { 2 * (x * z - yy * w), 2 * (yy * z + x * w), 1 - 2 * (x * x + yy * yy) } }
        for r = 1, 3 do
          y[3 * i + r - 1] = m[r][1] * p[3 * i] + m[r][2] * p[3 * i + 1] + m[r][3] * p[3 * i + 2]
        end
      end
      return y
    end },

  { "rays and a sphere", [[
struct Ray { float3 o, d; };
struct Sphere { float3 c; float r; };
__device__ bool hit(const Ray &ray, const Sphere &s, float *t) {
  float3 oc; oc.x = ray.o.x - s.c.x; oc.y = ray.o.y - s.c.y; oc.z = ray.o.z - s.c.z;
  const float b = oc.x * ray.d.x + oc.y * ray.d.y + oc.z * ray.d.z;
  const float c = oc.x * oc.x + oc.y * oc.y + oc.z * oc.z - s.r * s.r;
  const float disc = b * b - c;
  if (disc < 0.f) return false;
  *t = -b - sqrtf(disc);
  return *t > 0.f;
}
__global__ void shade(const float *sphere, float *img, int w, int h) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  Sphere s = { { sphere[0], sphere[1], sphere[2] }, sphere[3] };
  Ray r;
  float u = 2.f * (x + 0.5f) / w - 1.f, v = 1.f - 2.f * (y + 0.5f) / h;
  float inv = 1.f / sqrtf(u * u + v * v + 1.f);
  r.o = make_float3(0.f, 0.f, 0.f);
  r.d = make_float3(u * inv, v * inv, -inv);
  float t;
  float color = 0.1f;
  if (hit(r, s, &t)) {
    float nx = (t * r.d.x - s.c.x) / s.r, ny = (t * r.d.y - s.c.y) / s.r;
    color = fmaxf(0.f, 0.6f * nx + 0.8f * ny) + 0.05f * t;
  }
  img[y * w + x] = color;
}]], block = { 8, 8 }, grid = { 1, 1 }, shape = { 6, 7 },
    args = function(t) return { t.tensor { 0.13, -0.21, -3.1, 1.37 }, 7, 6 } end,
    want = function(s, w, h)
      local img = {}
      for y = 0, h - 1 do
        for x = 0, w - 1 do
          local u, v = 2 * (x + 0.5) / w - 1, 1 - 2 * (y + 0.5) / h
          local l = math.sqrt(u * u + v * v + 1)
          local dx, dy, dz = u / l, v / l, -1 / l
          local b = -(s[0] * dx + s[1] * dy + s[2] * dz)
          local c = s[0] ^ 2 + s[1] ^ 2 + s[2] ^ 2 - s[3] ^ 2
          local e, color = b * b - c, 0.1
          if e >= 0 then
            local t = -b - math.sqrt(e)
            color = math.max(0,
              0.6 * (t * dx - s[0]) / s[3] + 0.8 * (t * dy - s[1]) / s[3]) + 0.05 * t
          end
          img[y * w + x] = color
        end
      end
      return img
    end, tol = 1e-4 },

  { "Runge-Kutta with an adaptive step", [[
#define A21 0.2f
typedef struct { float x, v; } State;
__device__ State deriv(State s, float k, float c) {
  State d;
  d.x = s.v;
  d.v = -k * s.x - c * s.v;
  return d;
}
__device__ State axpy(State s, float h, State d) { s.x += h * d.x; s.v += h * d.v; return s; }
__global__ void ode(const float *x0, const float *v0, float *x1, float *steps, float k, float c,
                    float t_end, float tol, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  State s = { x0[i], v0[i] };
  float t = 0.f, h = 0.1f;
  int taken = 0;
  do {
    if (t + h > t_end) h = t_end - t;
    State k1 = deriv(s, k, c);
    State k2 = deriv(axpy(s, h, k1), k, c);
    State e = axpy(s, h, k1);
    State heun = axpy(axpy(s, 0.5f * h, k1), 0.5f * h, k2);
    float err = fabsf(heun.x - e.x) + fabsf(heun.v - e.v);
    if (err < tol) { s = heun; t += h; taken++; }
    else { h *= 0.5f; continue; }
    if (err < 0.25f * tol) h *= 2.0f;
  } while (t < t_end - 1e-6f && taken < 10000);
  x1[i] = s.x;
  steps[i] = taken;
}]], shape = { 3 }, args = function(t)
      return { t.f { 3 }, t.f { 3 }, t.f { 1, low = 1, high = 2 }, 0.1, 1.5, 1e-2, 3 }
    end, order = 1, eps = 1e-7,
    want = function(x0, v0, k, c, te, tol, n)
      local y, m = {}, {}
      for i = 0, n - 1 do
        local x, v, t, h, taken = x0[i], v0[i], 0, 0.1, 0
        repeat
          if t + h > te then h = te - t end
          local ax, av = v, -k[0] * x - c * v
          local ex, ev = x + h * ax, v + h * av
          local bx, bv = ev, -k[0] * ex - c * ev
          local hx, hv = x + 0.5 * h * ax + 0.5 * h * bx, v + 0.5 * h * av + 0.5 * h * bv
          local err = math.abs(hx - ex) + math.abs(hv - ev)
          if err < tol then
            x, v, t, taken = hx, hv, t + h, taken + 1
            if err < 0.25 * tol then h = 2 * h end
          else
            h = h / 2
          end
        until not (t < te - 1e-6)
        y[i], m[i] = x, taken
      end
      return y, m
    end, tol = 1e-4 },

  { "bilinear sampling with border", [[
__device__ __forceinline__ float fetch(const float *img, int x, int y, int w, int h) {
  return (x >= 0 && x < w && y >= 0 && y < h) ? img[y * w + x] : 0.0f;
}
__global__ void sample(const float *img, const float2 *at, float *out, int w, int h, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float2 p = at[i];
  const float fx = (p.x + 1.f) * 0.5f * (w - 1), fy = (p.y + 1.f) * 0.5f * (h - 1);
  const int x0 = __float2int_rd(fx), y0 = __float2int_rd(fy);
  const float ax = fx - (float)x0, ay = fy - (float)y0;
  out[i] = (1.f - ay) * ((1.f - ax) * fetch(img, x0, y0, w, h) + ax * fetch(img, x0 + 1, y0, w, h))
         + ay * ((1.f - ax) * fetch(img, x0, y0 + 1, w, h) + ax * fetch(img, x0 + 1, y0 + 1, w, h));
}]],
    shape = { 10 }, args = function(t)
      return { t.f { 4, 5 }, t.f { 10, 2, low = -1.2, high = 1.2 }, 5, 4, 10 }
    end,
    order = 1,
    want = function(img, at, w, h, n)
      local function fetch(x, y)
        return x >= 0 and x < w and y >= 0 and y < h and img[y * w + x] or 0
      end
      return each(n, function(i)
        local fx, fy = (at[2 * i] + 1) * 0.5 * (w - 1), (at[2 * i + 1] + 1) * 0.5 * (h - 1)
        local x, y = math.floor(fx), math.floor(fy)
        local a, b = fx - x, fy - y
        return (1 - b) * ((1 - a) * fetch(x, y) + a * fetch(x + 1, y))
          + b * ((1 - a) * fetch(x, y + 1) + a * fetch(x + 1, y + 1))
      end)
    end },

  { "Mandelbrot with a smooth count", [[
__global__ void mandel(const float2 *c, float *smooth, int *count, int maxiter, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float zx = 0, zy = 0, m = 0;
  int k;
  for (k = 0; k < maxiter; k++) {
    float t = zx * zx - zy * zy + c[i].x;
    zy = 2 * zx * zy + c[i].y;
    zx = t;
    m = zx * zx + zy * zy;
    if (m > 16.0f) break;
  }
  count[i] = k;
  smooth[i] = k < maxiter ? k + 1 - log2f(logf(m) * 0.5f) : 0.0f;
}]], shape = { 6 }, args = function(t)
      return {
        t.tensor { { 0.4, 0.5 }, { -0.8, 0.4 }, { 0.35, 0.1 }, { 0.5, 0.6 }, { -1.5, 0.2 },
          { 0, 0.1 } }, 100, 6 }
    end, order = 1, tol = 1e-3,
    want = function(c, max, n)
      local s, count = {}, {}
      for i = 0, n - 1 do
        local x, y, m, k = 0, 0, 0, 0
        while k < max do
          x, y = x * x - y * y + c[2 * i], 2 * x * y + c[2 * i + 1]
          m = x * x + y * y
          if m > 16 then break end
          k = k + 1
        end
        count[i] = k
        s[i] = k < max and k + 1 - math.log(math.log(m) * 0.5) / math.log(2) or 0
      end
      return s, count
    end },

  { "lattice Boltzmann, one collision and stream", [[
__constant__ int ex[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
__constant__ int ey[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
__constant__ float wt[9] = {4.f/9, 1.f/9, 1.f/9, 1.f/9, 1.f/9, 1.f/36, 1.f/36, 1.f/36, 1.f/36};
__global__ void lbm(const float *f, float *g, float omega, int nx, int ny) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= nx || y >= ny) return;
  const int plane = nx * ny;
  float fi[9], rho = 0.f, ux = 0.f, uy = 0.f;
  #pragma unroll
  for (int q = 0; q < 9; q++) {
    fi[q] = f[q * plane + y * nx + x];
    rho += fi[q];
    ux += ex[q] * fi[q];
    uy += ey[q] * fi[q];
  }
  ux /= rho; uy /= rho;
  const float usq = 1.5f * (ux * ux + uy * uy);
  for (int q = 0; q < 9; q++) {
    float eu = 3.f * (ex[q] * ux + ey[q] * uy);
    float feq = wt[q] * rho * (1.f + eu + 0.5f * eu * eu - usq);
    int xn = (x + ex[q] + nx) % nx, yn = (y + ey[q] + ny) % ny;
    g[q * plane + yn * nx + xn] = fi[q] - omega * (fi[q] - feq);
  }
}]],
    block = { 4, 4 }, grid = { 1, 1 }, args = function(t)
      return { t.f { 9, 3, 4, low = 0.1, high = 0.3 }, 1.3, 4, 3 }
    end,
    want = function(f, omega, nx, ny)
      local ex, ey = { [0] = 0, 1, 0, -1, 0, 1, -1, -1, 1 }, { [0] = 0, 0, 1, 0, -1, 1, 1, -1, -1 }
      local g = {}
      for y = 0, ny - 1 do
        for x = 0, nx - 1 do
          local rho, ux, uy = 0, 0, 0
          for q = 0, 8 do
            local v = f[q * nx * ny + y * nx + x]
            rho, ux, uy = rho + v, ux + ex[q] * v, uy + ey[q] * v
          end
          ux, uy = ux / rho, uy / rho
          for q = 0, 8 do
            local w = q == 0 and 4 / 9 or q < 5 and 1 / 9 or 1 / 36
            local eu = 3 * (ex[q] * ux + ey[q] * uy)
            local feq = w * rho * (1 + eu + eu * eu / 2 - 1.5 * (ux * ux + uy * uy))
            local v = f[q * nx * ny + y * nx + x]
            g[q * nx * ny + (y + ey[q]) % ny * nx + (x + ex[q]) % nx] = v - omega * (v - feq)
          end
        end
      end
      return g
    end },

  { "switch with fall through, do-while, nested break and continue", [[
__global__ void jumps(const float *x, const int *op, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i], acc = 0.f;
  int k = 0;
  do {
    for (int j = 0;; j++) {
      if (j == 1) continue;
      if (j > k) break;
      switch (op[(i + j) % n]) {
        case 0: acc += v; break;
        case 1: acc += v * v;      // falls through
        case 2: acc *= 0.5f; break;
        case 3: { float t = sinf(v); if (t < 0.f) break; acc -= t; }
        default: acc += 0.1f; continue;
      }
      acc += 0.01f * v;
    }
  } while (++k < 4 && acc < 3.f);
  y[i] = acc;
}]],
    args = function(t) return { t.f { 8, low = -2, high = 2 }, t.i { 0, 1, 2, 3, 4, 1, 3, 0 } } end,
    want = function(x, op)
      return each(8, function(i)
        local v, acc, k = x[i], 0, 0
        repeat
          for j = 0, k do
            if j ~= 1 then
              local o, skip = op[(i + j) % 8], false
              if o == 0 then acc = acc + v
              elseif o == 1 then acc = (acc + v * v) * 0.5
              elseif o == 2 then acc = acc * 0.5
              elseif o == 3 then
                local s = math.sin(v)
                if s >= 0 then acc = acc - s + 0.1 skip = true end
              else acc = acc + 0.1 skip = true end
              if not skip then acc = acc + 0.01 * v end
            end
          end
          k = k + 1
        until not (k < 4 and acc < 3)
        return acc
      end)
    end },

  { "device functions that return early", [[
static __device__ float pick(float x, int mode) {
  if (mode == 0) return x;
  for (int i = 0; i < 5; ++i) {
    if (x > 2.f) return x * i;
    if (mode == 2 && i == 3) return -x;
    x = x * 1.25f + 0.1f;
  }
  return x * x;
}
__global__ void early(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = pick(x[i], i % 3) + pick(-x[i], (i + 1) % 3);
}]], args = function(t) return { t.f { 9, low = -2, high = 2 } } end,
    want = function(x)
      local function pick(v, mode)
        if mode == 0 then return v end
        for i = 0, 4 do
          if v > 2 then return v * i end
          if mode == 2 and i == 3 then return -v end
          v = v * 1.25 + 0.1
        end
        return v * v
      end
      return each(9, function(i) return pick(x[i], i % 3) + pick(-x[i], (i + 1) % 3) end)
    end },

  { "macros with arguments and types of all widths", [[
#define IDX2(r, c, ld) ((r) * (ld) + (c))
#define SQR(a) ((a) * (a))
#define CLAMP(v, lo, hi) (((v) < (lo)) ? (lo) : (((v) > (hi)) ? (hi) : (v)))
#define AT(p, i) (*((p) + (i)))
#ifdef NOT_DEFINED
#error never
#elif defined(SQR) && 1
#define SCALE 2
#else
#define SCALE 3
#endif
__global__ void widths(const float *a, float *out, unsigned int rows, unsigned int cols) {
  const size_t r = blockIdx.y, c = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows || c >= cols) return;
  long long off = (long long)IDX2(r, c, cols);
  int64_t other = (int64_t)rows * cols - 1 - off;
  unsigned char b = (unsigned char)(off * 100);
  short s = (short)(-off);
  uint32_t h = (uint32_t)off * 2654435761u;
  h ^= h >> 16;
  float v = AT(a, off) * SCALE + SQR(AT(a, other));
  v = CLAMP(v, -1.5f, 1.5f);
  out[off] = v * (b & 1 ? -1.f : 1.f) + s * 0.5f + (float)(h % 7u) + (h & 0x10 ? .25f : 0.f);
}]], block = { 4 }, grid = { 2, 3 }, args = function(t) return { t.f { 3, 5 }, 3, 5 } end,
    want = function(a, rows, cols)
      local n = rows * cols
      return each(n, function(i)
        local v = math.min(math.max(a[i] * 2 + a[n - 1 - i] ^ 2, -1.5), 1.5)
        local h = i * 2654435761 & 0xffffffff
        h = h ~ h >> 16
        return v * ((i * 100 & 255) & 1 == 1 and -1 or 1) - i * 0.5 + h % 7 + (h & 16 ~= 0
          and 0.25 or 0)
      end)
    end },

  { "pointers that move along rows", [[
__global__ void rows(const float *x, float *y, int w, int stride, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= n) return;
  const float *row = x + r * stride;
  const float *end = row + w;
  float s = 0.f;
  for (const float *p = row; p < end; ++p) s += *p * *p;
  float *o = y + r * w;
  for (int c = 0; c < w; c++) *o++ = *row++ / (1.0f + s);
}]], shape = { 3, 4 }, args = function(t) return { t.f { 3, 6 }, 4, 6, 3 } end,
    want = function(x, w, stride, n)
      local y = {}
      for r = 0, n - 1 do
        local s = 0
        for c = 0, w - 1 do s = s + x[r * stride + c] ^ 2 end
        for c = 0, w - 1 do y[r * w + c] = x[r * stride + c] / (1 + s) end
      end
      return y
    end },

  { "in place with inout: one step of Adam", [[
__global__ void adam(float *p, float *m, float *v, const float *g, float lr, float b1, float b2,
                     float eps, float t, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  m[i] = b1 * m[i] + (1.f - b1) * g[i];
  v[i] = b2 * v[i] + (1.f - b2) * g[i] * g[i];
  float mh = m[i] / (1.f - powf(b1, t)), vh = v[i] / (1.f - powf(b2, t));
  p[i] -= lr * mh / (sqrtf(vh) + eps);
}]], inout = { "p", "m", "v" }, args = function(t)
      return { t.f { 7 }, t.f { 7 }, t.f { 7, low = 0.1, high = 1 }, t.f { 7 }, 0.01, 0.9,
        0.99, 1e-3, 3 }
    end,
    want = function(p, m, v, g, lr, b1, b2, eps, t)
      for i = 0, 6 do
        m[i] = b1 * m[i] + (1 - b1) * g[i]
        v[i] = b2 * v[i] + (1 - b2) * g[i] ^ 2
        p[i] = p[i] - lr * m[i] / (1 - b1 ^ t) / (math.sqrt(v[i] / (1 - b2 ^ t)) + eps)
      end
      return p, m, v
    end },
}
