--- Kernels of simulation: bodies, fluids, solids, fields, circuits.
-- luacheck: no max line length

local lists = dofile("spec/kernel/users/lists.lua")
local each, sum = lists.each, lists.sum

return {
  { "mass and momentum from particles to a grid", [=[
struct Mat2 {
  float a, b, c, d;
  __device__ float2 operator*(float2 v) const { return make_float2(a * v.x + b * v.y, c * v.x + d * v.y); }
};
__device__ __forceinline__ float2 operator-(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ __forceinline__ float2 operator*(float s, float2 a) { return {s * a.x, s * a.y}; }
__device__ __forceinline__ void weights(float fx, float (&w)[3]) {
  w[0] = 0.5f * (1.5f - fx) * (1.5f - fx);
  w[1] = 0.75f - (fx - 1.f) * (fx - 1.f);
  w[2] = 0.5f * (fx - 0.5f) * (fx - 0.5f);
}
__global__ void p2g(const float2 *x, const float2 *v, const Mat2 *C, float *mass, float2 *mom, float inv_dx, float pm, int g, int n) {
  const int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= n) return;
  const float2 xp = inv_dx * x[p];
  const int bx = (int)(xp.x - 0.5f), by = (int)(xp.y - 0.5f);
  float wx[3], wy[3];
  weights(xp.x - bx, wx);
  weights(xp.y - by, wy);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      const float2 dpos = (1.f / inv_dx) * (make_float2(bx + i, by + j) - xp);
      const float w = wx[i] * wy[j] * pm;
      const float2 av = C[p] * dpos;
      const int cell = (by + j) * g + bx + i;
      atomicAdd(&mass[cell], w);
      atomicAdd(&mom[cell].x, w * (v[p].x + av.x));
      atomicAdd(&mom[cell].y, w * (v[p].y + av.y));
    }
}]=],
    shape = { 5, 5, 2 }, args = function(t)
      return { t.f { 3, 2, low = 0.4, high = 0.6 }, t.f { 3, 2 }, t.f { 3, 4 }, 5,
        t.f { 1, low = 1, high = 2 }, 5, 3 }
    end,
    want = function(x, v, C, inv_dx, pm, g, n)
      local mass, mom = each(50, function() return 0 end), each(50, function() return 0 end)
      local function spline(d)
        d = math.abs(d)
        return d < 0.5 and 0.75 - d * d or d < 1.5 and 0.5 * (1.5 - d) ^ 2 or 0
      end
      for p = 0, n - 1 do
        for cell = 0, g * g - 1 do
          local dx, dy = cell % g - x[2 * p] * inv_dx, cell // g - x[2 * p + 1] * inv_dx
          local w = spline(dx) * spline(dy) * pm[0]
          mass[cell] = mass[cell] + w
          for d = 0, 1 do
            mom[2 * cell + d] = mom[2 * cell + d]
              + w * (v[2 * p + d] + (C[4 * p + 2 * d] * dx + C[4 * p + 2 * d + 1] * dy) / inv_dx)
          end
        end
      end
      return mass, mom
    end, tol = 1e-4 },

  { "a rigid body that spins, matrices and quaternions", [=[
struct quat { float w, x, y, z; };
struct mat3 {
  float m[9];
  __device__ float operator()(int r, int c) const { return m[3 * r + c]; }
  __device__ mat3 transposed() const {
    mat3 t;
    #pragma unroll
    for (int i = 0; i < 9; ++i) t.m[i] = m[i % 3 * 3 + i / 3];
    return t;
  }
};
__device__ float3 mul(const mat3 &a, const float3 v) {
  return make_float3(a(0, 0) * v.x + a(0, 1) * v.y + a(0, 2) * v.z, a(1, 0) * v.x + a(1, 1) * v.y + a(1, 2) * v.z,
                     a(2, 0) * v.x + a(2, 1) * v.y + a(2, 2) * v.z);
}
__device__ float3 cross(float3 a, float3 b) { return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }
__device__ mat3 rotation(const quat q) {
  return {{1 - 2 * (q.y * q.y + q.z * q.z), 2 * (q.x * q.y - q.w * q.z), 2 * (q.x * q.z + q.w * q.y),
           2 * (q.x * q.y + q.w * q.z), 1 - 2 * (q.x * q.x + q.z * q.z), 2 * (q.y * q.z - q.w * q.x),
           2 * (q.x * q.z - q.w * q.y), 2 * (q.y * q.z + q.w * q.x), 1 - 2 * (q.x * q.x + q.y * q.y)}};
}
__global__ void spin(const float *inertia, const float3 *w0, float *energy, float3 *axis, float dt, int steps, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float3 I = make_float3(inertia[3 * i], inertia[3 * i + 1], inertia[3 * i + 2]);
  quat q = {1.f, 0.f, 0.f, 0.f};
  float3 w = w0[i];
  for (int s = 0; s < steps; ++s) {
    const mat3 R = rotation(q);
    const float3 b = mul(R.transposed(), w), Lb = make_float3(I.x * b.x, I.y * b.y, I.z * b.z), t = cross(b, Lb);
    const float3 acc = mul(R, make_float3(-t.x / I.x, -t.y / I.y, -t.z / I.z));
    w.x += dt * acc.x; w.y += dt * acc.y; w.z += dt * acc.z;
    const float h = 0.5f * dt;
    quat d = {-w.x * q.x - w.y * q.y - w.z * q.z, w.x * q.w + w.y * q.z - w.z * q.y, w.y * q.w + w.z * q.x - w.x * q.z, w.z * q.w + w.x * q.y - w.y * q.x};
    q.w += h * d.w; q.x += h * d.x; q.y += h * d.y; q.z += h * d.z;
    const float r = rsqrtf(q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z);
    q.w *= r; q.x *= r; q.y *= r; q.z *= r;
  }
  const mat3 R = rotation(q);
  const float3 b = mul(R.transposed(), w);
  energy[i] = 0.5f * (I.x * b.x * b.x + I.y * b.y * b.y + I.z * b.z * b.z);
  axis[i] = make_float3(R(0, 2), R(1, 2), R(2, 2));
}]=],
    shape = { 2, 3 },
    args = function(t)
      return { t.f { 2, 3, low = 1, high = 2 }, t.f { 2, 3, low = 1, high = 2 }, 0.02, 8, 2 }
    end, tol = 1e-4,
    want = function(inertia, w0, dt, steps, n)
      local energy, axis = each(6, function() return 0 end), {}
      for i = 0, n - 1 do
        local function turn(q, v, s)                -- v rotated by quaternion q; s = -1: inverse
          local u = { s * q[2], s * q[3], s * q[4] }
          local t = { 2 * (u[2] * v[3] - u[3] * v[2]), 2 * (u[3] * v[1] - u[1] * v[3]),
            2 * (u[1] * v[2] - u[2] * v[1]) }
          return { v[1] + q[1] * t[1] + u[2] * t[3] - u[3] * t[2],
            v[2] + q[1] * t[2] + u[3] * t[1] - u[1] * t[3],
            v[3] + q[1] * t[3] + u[1] * t[2] - u[2] * t[1] }
        end
        local I, q = { inertia[3 * i], inertia[3 * i + 1], inertia[3 * i + 2] }, { 1, 0, 0, 0 }
        local w = { w0[3 * i], w0[3 * i + 1], w0[3 * i + 2] }
        for _ = 1, steps do
          local b = turn(q, w, -1)
          local a = turn(q,
            { (I[2] - I[3]) * b[2] * b[3] / I[1], (I[3] - I[1]) * b[3] * b[1] / I[2],
              (I[1] - I[2]) * b[1] * b[2] / I[3] }, 1)
          for d = 1, 3 do w[d] = w[d] + dt * a[d] end
          local h, o = dt / 2, { table.unpack(q) }
          q[1] = o[1] + h * (-w[1] * o[2] - w[2] * o[3] - w[3] * o[4])
          q[2] = o[2] + h * (w[1] * o[1] + w[2] * o[4] - w[3] * o[3])
          q[3] = o[3] + h * (w[2] * o[1] + w[3] * o[2] - w[1] * o[4])
          q[4] = o[4] + h * (w[3] * o[1] + w[1] * o[3] - w[2] * o[2])
          local r = math.sqrt(q[1] ^ 2 + q[2] ^ 2 + q[3] ^ 2 + q[4] ^ 2)
          for d = 1, 4 do q[d] = q[d] / r end
        end
        local b, z = turn(q, w, -1), turn(q, { 0, 0, 1 }, 1)
        energy[i] = 0.5 * sum(3, function(d) return I[d + 1] * b[d + 1] ^ 2 end)
        for d = 0, 2 do axis[3 * i + d] = z[d + 1] end
      end
      return energy, axis
    end },

  { "a solid of tetrahedra, its energy and forces", [=[
#define IDX(r, c) ((r) * 3 + (c))
__device__ float det3(const float *m) {
  return m[0] * (m[4] * m[8] - m[5] * m[7]) - m[1] * (m[3] * m[8] - m[5] * m[6]) + m[2] * (m[3] * m[7] - m[4] * m[6]);
}
__device__ void cofactor(const float m[9], float *c) {
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      const int i1 = (i + 1) % 3, i2 = (i + 2) % 3, j1 = (j + 1) % 3, j2 = (j + 2) % 3;
      c[IDX(i, j)] = m[IDX(i1, j1)] * m[IDX(i2, j2)] - m[IDX(i1, j2)] * m[IDX(i2, j1)];
    }
}
__global__ void neo_hookean(const float *x, const int4 *tet, const float *rest, float *energy, float *force, float mu, float lambda, int n) {
  const int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= n) return;
  const int4 t = tet[e];
  const int id[4] = {t.x, t.y, t.z, t.w};
  float D[9], F[9], C[9], P[9];
  for (int k = 0; k < 3; ++k)
    for (int d = 0; d < 3; ++d) D[IDX(d, k)] = x[3 * id[k + 1] + d] - x[3 * id[0] + d];
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      float s = 0.f;
      for (int k = 0; k < 3; ++k) s += D[IDX(i, k)] * rest[9 * e + IDX(k, j)];
      F[IDX(i, j)] = s;
    }
  const float J = det3(F), logJ = logf(J);
  float I1 = 0.f;
  for (float f : F) I1 += f * f;
  energy[e] = 0.5f * mu * (I1 - 3.f - 2.f * logJ) + 0.5f * lambda * logJ * logJ;
  cofactor(F, C);
  for (int k = 0; k < 9; ++k) P[k] = mu * F[k] + (lambda * logJ - mu) * C[k] / J;
  for (int d = 0; d < 3; ++d) {
    float total = 0.f;
    for (int k = 0; k < 3; ++k) {
      float h = 0.f;
      for (int j = 0; j < 3; ++j) h += P[IDX(d, j)] * rest[9 * e + IDX(k, j)];
      atomicAdd(force + 3 * id[k + 1] + d, -h);
      total += h;
    }
    atomicAdd(force + 3 * id[0] + d, total);
  }
}]=], shape = { 5, 3 }, args = function(t)
      return {
        t.tensor { { 0, 0, 0 }, { 1.1, 0.1, 0 }, { 0.1, 0.9, 0.1 }, { 0, 0.1, 1.2 },
          { 1, 1.1, 0.9 } }, t.tensor({ { 0, 1, 2, 3 }, { 4, 2, 1, 3 } }, "i32"),
        t.tensor { { 1, 0, 0, 0, 1, 0, 0, 0, 1 },
          { -0.6, 0.4, 0.5, 0.5, -0.5, 0.5, 0.3, 0.6, -0.5 } }, 0.8,
        t.f { 1, low = 1, high = 2 }, 2 }
    end, tol = 1e-4,
    want = function(x, tet, rest, mu, lambda, n)
      local energy, force = each(15, function() return 0 end), each(15, function() return 0 end)
      local function value(e, y)
        local F = {}
        for i = 0, 2 do
          for j = 0, 2 do
            F[3 * i + j] = sum(3, function(k)
              return (y[3 * tet[4 * e + k + 1] + i] - y[3 * tet[4 * e] + i])
                * rest[9 * e + 3 * k + j]
            end)
          end
        end
        local J = F[0] * (F[4] * F[8] - F[5] * F[7]) - F[1] * (F[3] * F[8] - F[5] * F[6])
          + F[2] * (F[3] * F[7] - F[4] * F[6])
        return mu / 2 * (sum(9, function(k) return F[k] ^ 2 end) - 3 - 2 * math.log(J))
          + lambda[0] / 2 * math.log(J) ^ 2
      end
      for e = 0, n - 1 do
        energy[e] = value(e, x)
        -- the force: minus the derivative of the energy, by a difference of fourth order
        for k = 0, 14 do
          local function at(h)
            local y = each(15, function(i) return x[i] end)
            y[k] = y[k] + h
            return value(e, y)
          end
          force[k] = force[k] - (8 * (at(1e-3) - at(-1e-3)) - at(2e-3) + at(-2e-3)) / 12e-3
        end
      end
      return energy, force
    end, tol64 = 1e-8 },

  { "a gas in one dimension, fluxes of HLL", [=[
struct Cons { float rho, mom, e; };
__device__ Cons operator+(const Cons &a, const Cons &b) { return {a.rho + b.rho, a.mom + b.mom, a.e + b.e}; }
__device__ Cons operator-(const Cons &a, const Cons &b) { return {a.rho - b.rho, a.mom - b.mom, a.e - b.e}; }
__device__ Cons operator*(float s, const Cons &a) { return {s * a.rho, s * a.mom, s * a.e}; }
static constexpr float GAMMA = 1.4f;
__device__ float pressure(const Cons &q) { return (GAMMA - 1.f) * (q.e - 0.5f * q.mom * q.mom / q.rho); }
__device__ Cons flux(const Cons &q) {
  const float u = q.mom / q.rho, p = pressure(q);
  return {q.mom, q.mom * u + p, u * (q.e + p)};
}
__device__ Cons hll(const Cons &l, const Cons &r) {
  const float ul = l.mom / l.rho, ur = r.mom / r.rho, al = sqrtf(GAMMA * pressure(l) / l.rho), ar = sqrtf(GAMMA * pressure(r) / r.rho);
  const float sl = fminf(ul - al, ur - ar), sr = fmaxf(ul + al, ur + ar);
  if (sl >= 0.f) return flux(l);
  if (sr <= 0.f) return flux(r);
  return 1.f / (sr - sl) * (sr * flux(l) - sl * flux(r) + sl * sr * (r - l));
}
__global__ void euler_step(const Cons *q, Cons *out, float dtdx, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const Cons here = q[i], west = i > 0 ? q[i - 1] : here, east = i < n - 1 ? q[i + 1] : here;
  out[i] = here - dtdx * (hll(here, east) - hll(west, here));
}]=], args = function(t)
      return {
        t.tensor { { 1, 0.3, 2.5 }, { 0.9, 0.2, 2.4 }, { 0.3, -0.1, 0.5 }, { 0.2, 0.9, 2.9 },
          { 0.25, 0.1, 0.4 } }, t.f { 1, low = 0.1, high = 0.2 }, 5 }
    end,
    want = function(q, dtdx, n)
      local function cons(i)
        i = math.max(0, math.min(n - 1, i))
        return { q[3 * i], q[3 * i + 1], q[3 * i + 2] }
      end
      local function p(c) return 0.4 * (c[3] - c[2] ^ 2 / c[1] / 2) end
      local function flux(c)
        return { c[2], c[2] ^ 2 / c[1] + p(c), c[2] / c[1] * (c[3] + p(c)) }
      end
      local function hll(l, r)
        local function speed(c) return math.sqrt(1.4 * p(c) / c[1]) end
        local low = math.min(l[2] / l[1] - speed(l), r[2] / r[1] - speed(r))
        local high = math.max(l[2] / l[1] + speed(l), r[2] / r[1] + speed(r))
        if low >= 0 then return flux(l) elseif high <= 0 then return flux(r) end
        local f = {}
        for d = 1, 3 do
          f[d] = (high * flux(l)[d] - low * flux(r)[d] + low * high * (r[d] - l[d])) / (high - low)
        end
        return f
      end
      return each(3 * n, function(e)
        local i, d = e // 3, e % 3 + 1
        return q[e] - dtdx[0] * (hll(cons(i), cons(i + 1))[d] - hll(cons(i - 1), cons(i))[d])
      end)
    end, tol = 1e-4 },

  { "forces through a tree, a stack in registers", [=[
__device__ __constant__ float SOFT = 0.05f;
__global__ void tree_force(const float4 *node, const int2 *child, const float *size, const float2 *pos, float2 *acc, float theta, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int stack[16], top = 0;
  stack[top++] = 0;
  const float2 me = pos[i];
  float ax = 0.f, ay = 0.f;
  while (top > 0) {
    const int k = stack[--top];
    const float4 c = node[k];
    const float dx = c.x - me.x, dy = c.y - me.y, d2 = dx * dx + dy * dy + SOFT;
    const int2 ch = child[k];
    if (ch.x < 0 || size[k] * size[k] < theta * theta * d2) {
      const float inv = rsqrtf(d2);
      ax += c.z * dx * inv * inv * inv;
      ay += c.z * dy * inv * inv * inv;
    } else {
      stack[top++] = ch.x;
      stack[top++] = ch.y;
    }
  }
  acc[i] = make_float2(ax, ay);
}]=], shape = { 3, 2 }, args = function(t)
      return { t.f { 7, 4, low = 0, high = 2 },
        t.tensor({ { 1, 2 }, { 3, 4 }, { 5, 6 }, { -1, 0 }, { -1, 0 }, { -1, 0 }, { -1, 0 } },
          "i32"),
        t.tensor { 4, 1, 0.4, 0, 0, 0, 0 }, t.f { 3, 2 }, 0.8, 3 }
    end,
    want = function(node, child, size, pos, theta, n)
      return each(2 * n, function(e)
        local function pull(k)
          local d = { node[4 * k] - pos[e - e % 2], node[4 * k + 1] - pos[e - e % 2 + 1] }
          local r = d[1] ^ 2 + d[2] ^ 2 + 0.05
          if child[2 * k] >= 0 and size[k] ^ 2 >= theta ^ 2 * r then
            return pull(child[2 * k]) + pull(child[2 * k + 1])
          end
          return node[4 * k + 2] * d[e % 2 + 1] / r ^ 1.5
        end
        return pull(0)
      end)
    end, tol = 1e-4 },

  { "a nerve of four variables by Runge and Kutta", [=[
struct State { float v, m, h, n; };
__device__ float rate(float x, float y) { return fabsf(x / y) < 1e-4f ? y * (1.f - x / y / 2.f) : x / (expm1f(x / y)); }
__device__ State slope(const State &s, float I) {
  const float v = s.v;
  const float am = 0.1f * rate(-(v + 40.f), 10.f), bm = 4.f * expf(-(v + 65.f) / 18.f);
  const float ah = 0.07f * expf(-(v + 65.f) / 20.f), bh = 1.f / (1.f + expf(-(v + 35.f) / 10.f));
  const float an = 0.01f * rate(-(v + 55.f), 10.f), bn = 0.125f * expf(-(v + 65.f) / 80.f);
  const float na = 120.f * s.m * s.m * s.m * s.h * (v - 50.f), k = 36.f * powf(s.n, 4.f) * (v + 77.f), leak = 0.3f * (v + 54.387f);
  return State{I - na - k - leak, am * (1.f - s.m) - bm * s.m, ah * (1.f - s.h) - bh * s.h, an * (1.f - s.n) - bn * s.n};
}
__device__ State axpy(float a, const State &x, const State &y) { return {a * x.v + y.v, a * x.m + y.m, a * x.h + y.h, a * x.n + y.n}; }
__global__ void hodgkin_huxley(const float *current, float *v, float dt, int steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  State s = {-65.f, 0.0529f, 0.5961f, 0.3177f};
  for (int t = 0; t < steps; ++t) {
    const State a = slope(s, current[i]), b = slope(axpy(0.5f * dt, a, s), current[i]), c = slope(axpy(0.5f * dt, b, s), current[i]),
                d = slope(axpy(dt, c, s), current[i]);
    s = axpy(dt / 6.f, axpy(2.f, b, axpy(2.f, c, axpy(1.f, d, a))), s);
  }
  v[i] = s.v;
}]=], args = function(t) return { t.f { 3, low = 5, high = 12 }, 0.05, 20, 3 } end, tol = 2e-4,
    want = function(current, dt, steps, n)
      return each(n, function(i)
        local function f(s)
          local v, m, h, k, e = s[1], s[2], s[3], s[4], math.exp
          return {
            current[i] - 120 * m ^ 3 * h * (v - 50) - 36 * k ^ 4 * (v + 77) - 0.3 * (v + 54.387),
            0.1 * (v + 40) / (1 - e(-(v + 40) / 10)) * (1 - m) - 4 * e(-(v + 65) / 18) * m,
            0.07 * e(-(v + 65) / 20) * (1 - h) - h / (1 + e(-(v + 35) / 10)),
            0.01 * (v + 55) / (1 - e(-(v + 55) / 10)) * (1 - k) - 0.125 * e(-(v + 65) / 80) * k }
        end
        local s = { -65, 0.0529, 0.5961, 0.3177 }
        local function go(k, by)
          return { s[1] + by * k[1], s[2] + by * k[2], s[3] + by * k[3], s[4] + by * k[4] }
        end
        for _ = 1, steps do
          local a = f(s)
          local b = f(go(a, dt / 2))
          local c = f(go(b, dt / 2))
          local d = f(go(c, dt))
          for q = 1, 4 do s[q] = s[q] + dt / 6 * (a[q] + 2 * b[q] + 2 * c[q] + d[q]) end
        end
        return s[1]
      end)
    end },

  { "conjugate gradients in one block", [=[
template <int N> __device__ float dot_block(float a, float b) {
  float v = a * b;
  __shared__ float warp[N / 32];
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
  if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0.f;
  for (int k = 0; k < N / 32; ++k) v += warp[k];
  __syncthreads();
  return v;
}
__global__ void __launch_bounds__(64) cg(const float *b, const float *diag, float *x, int iterations, int n) {
  __shared__ float p[66];
  const int i = threadIdx.x;
  const bool in = i < n;
  const float d = in ? diag[i] : 1.f;
  float xi = 0.f, r = in ? b[i] : 0.f, pi = r, rs = dot_block<64>(r, r);
  if (i == 0) p[0] = p[65] = 0.f;
  for (int k = 0; k < iterations; ++k) {
    p[i + 1] = pi;
    __syncthreads();
    const float q = in ? d * pi - p[i] - p[i + 2] : 0.f;
    const float alpha = rs / dot_block<64>(pi, q);
    xi += alpha * pi;
    r -= alpha * q;
    const float next = dot_block<64>(r, r);
    pi = r + next / rs * pi;
    rs = next;
  }
  if (in) x[i] = xi;
}]=],
    block = { 64 }, grid = { 1 },
    args = function(t) return { t.f { 6 }, t.f { 6, low = 3, high = 4 }, 6, 6 } end, tol = 1e-4,
    want = function(b, diag, _, n)
      -- solves by elimination the tridiagonal system that the kernel solves by six reduction steps
      local c, d, x = {}, {}, {}
      for i = 0, n - 1 do
        local m = diag[i] + (i > 0 and c[i - 1] or 0)
        c[i], d[i] = -1 / m, (b[i] + (i > 0 and d[i - 1] or 0)) / m
      end
      for i = n - 1, 0, -1 do x[i] = d[i] - (i < n - 1 and c[i] * x[i + 1] or 0) end
      return x
    end, tol64 = 1e-7, order = 1 },

  { "pressure of neighbours found in cells", [=[
typedef unsigned int uint;
__device__ __forceinline__ int3 cell_of(float3 p, float h) { return make_int3((int)floorf(p.x / h), (int)floorf(p.y / h), (int)floorf(p.z / h)); }
__device__ __forceinline__ uint cell_hash(int3 c, uint mask) {
  return (((uint)c.x * 73856093u) ^ ((uint)c.y * 19349663u) ^ ((uint)c.z * 83492791u)) & mask;
}
__global__ void sph_force(const float3 *pos, const float *rho, const int *start, const int *list, float3 *force, float h, float k, uint mask, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float3 me = pos[i];
  const int3 c = cell_of(me, h);
  float3 f = make_float3(0, 0, 0);
  for (int z = -1; z <= 1; ++z) for (int y = -1; y <= 1; ++y) for (int x = -1; x <= 1; ++x) {
    const int3 cc = make_int3(c.x + x, c.y + y, c.z + z);
    const uint slot = cell_hash(cc, mask);
    for (int s = start[slot]; s < start[slot + 1]; ++s) {
      const int j = list[s];
      const int3 o = cell_of(pos[j], h);
      if (j == i || o.x != cc.x || o.y != cc.y || o.z != cc.z) continue;
      const float3 d = make_float3(me.x - pos[j].x, me.y - pos[j].y, me.z - pos[j].z);
      const float r = sqrtf(d.x * d.x + d.y * d.y + d.z * d.z);
      if (r >= h) continue;
      const float w = k * (rho[i] + rho[j]) * (h - r) * (h - r) / (r + 1e-3f);
      f.x += w * d.x; f.y += w * d.y; f.z += w * d.z;
    }
  }
  force[i] = f;
}]=], args = function(t)
      local mask, h, n, where, buckets = 7, 0.5, 8, {}, {}
      local pos = t.f { n, 3, low = 0, high = 1 }
      for i, p in ipairs(pos:totable()) do
        local q = {}
        for d = 1, 3 do q[d] = math.floor(p[d] / h) end
        where[i] = (q[1] * 73856093 ~ q[2] * 19349663 ~ q[3] * 83492791) & mask
      end
      local first = { 0 }
      for s = 0, mask do
        for i = 1, n do if where[i] == s then buckets[#buckets + 1] = i - 1 end end
        first[s + 2] = #buckets
      end
      return { pos, t.f { n, low = 1, high = 2 }, t.i(first), t.i(buckets), h,
        t.f { 1, low = 1, high = 2 }, mask, n }
    end, tol = 1e-4,
    want = function(pos, rho, _, _, h, k, _, n)
      return each(3 * n, function(e)
        local i, d = e // 3, e % 3
        return sum(n, function(j)
          local r = math.sqrt(sum(3, function(c) return (pos[3 * i + c] - pos[3 * j + c]) ^ 2 end))
          return j ~= i and r < h
            and k[0] * (rho[i] + rho[j]) * (h - r) ^ 2 / (r + 1e-3) * (pos[e] - pos[3 * j + d]) or 0
        end)
      end)
    end },

  { "gates on a state of qubits, amplitudes by bits", [=[
__device__ __forceinline__ float2 cmul(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
__device__ __forceinline__ float2 cadd(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__global__ void rotate_and_flip(float2 *psi, const float *theta, int qubits, int layers) {
  const unsigned t = threadIdx.x;
  for (int l = 0; l < layers; ++l) {
    for (int q = 0; q < qubits; ++q) {
      const unsigned lo = t & ((1u << q) - 1u), i0 = ((t >> q) << (q + 1)) | lo, i1 = i0 | (1u << q);
      float s, c;
      sincosf(0.5f * theta[l * qubits + q], &s, &c);
      const float2 a = psi[i0], b = psi[i1];
      __syncthreads();
      psi[i0] = cadd(cmul(make_float2(c, 0.f), a), cmul(make_float2(0.f, -s), b));
      psi[i1] = cadd(cmul(make_float2(0.f, -s), a), cmul(make_float2(c, 0.f), b));
      __syncthreads();
    }
  }
}]=],
    block = { 4 }, grid = { 1 }, inout = { "psi" },
    args = function(t) return { t.f { 8, 2 }, t.f { 2, 3 }, 3, 2 } end,
    want = function(psi, theta, qubits, layers)
      psi = each(16, function(i) return psi[i] end)
      for g = 0, layers * qubits - 1 do
        local c, s, bit, old = math.cos(theta[g] / 2), math.sin(theta[g] / 2), 1 << g % qubits, psi
        psi = each(16, function(e)
          local other = (e // 2 ~ bit) * 2
          return c * old[e] + (e % 2 == 0 and s * old[other + 1] or -s * old[other])
        end)
      end
      return psi
    end },

  { "an arm of joints and where its hand is, by matrices", [=[
struct alignas(16) Mat4 { float m[4][4]; };
__device__ inline Mat4 dh(float theta, float d, float a, float alpha) {
  float st, ct, sa, ca;
  sincosf(theta, &st, &ct);
  sincosf(alpha, &sa, &ca);
  return Mat4{{{ct, -st * ca, st * sa, a * ct}, {st, ct * ca, -ct * sa, a * st}, {0.f, sa, ca, d}, {0.f, 0.f, 0.f, 1.f}}};
}
__device__ void times(Mat4 &out, const Mat4 &a, const Mat4 &b) {
  #pragma unroll
  for (int r = 0; r < 4; ++r)
    #pragma unroll
    for (int c = 0; c < 4; ++c) {
      float s = 0.f;
      for (int k = 0; k < 4; ++k) s = fmaf(a.m[r][k], b.m[k][c], s);
      out.m[r][c] = s;
    }
}
__constant__ float link[3][3] = {{0.3f, 0.1f, 1.5f}, {0.f, 0.8f, 0.f}, {0.1f, 0.6f, -0.7f}};
__global__ void hand(const float *angle, float3 *at, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Mat4 T = dh(0.f, 0.f, 0.f, 0.f), next;
  for (int j = 0; j < 3; ++j) {
    times(next, T, dh(angle[3 * i + j], link[j][0], link[j][1], link[j][2]));
    T = next;
  }
  at[i] = {T.m[0][3], T.m[1][3], T.m[2][3]};
}]=], args = function(t) return { t.f { 3, 3 }, 3 } end, shape = { 3, 3 }, tol = 1e-4,
    want = function(angle, n)
      local at, links = {}, { { 0.3, 0.1, 1.5 }, { 0, 0.8, 0 }, { 0.1, 0.6, -0.7 } }
      for i = 0, n - 1 do
        local p = { 0, 0, 0 }
        for j = 3, 1, -1 do                                -- from the hand back to the base
          local d, a, al = table.unpack(links[j])
          local th = angle[3 * i + j - 1]
          local x, y, z = p[1] + a, p[2] * math.cos(al) - p[3] * math.sin(al),
            p[2] * math.sin(al) + p[3] * math.cos(al)
          p = { x * math.cos(th) - y * math.sin(th), x * math.sin(th) + y * math.cos(th), z + d }
        end
        for d = 0, 2 do at[3 * i + d] = p[d + 1] end
      end
      return at
    end },

  { "distances held between points, a colour of edges at a time", [=[
__global__ void pbd(const float2 *p0, float2 *out, const float *rest, float stiff, int n, int rounds) {
  __shared__ float2 p[16];
  const int t = threadIdx.x;
  if (t < n) p[t] = p0[t];
  __syncthreads();
  #pragma unroll 1
  for (int r = 0; r < rounds; ++r)
    for (int colour = 0; colour < 2; ++colour) {
      const int a = 2 * t + colour, b = a + 1;
      if (b < n) {
        const float dx = p[b].x - p[a].x, dy = p[b].y - p[a].y, len = hypotf(dx, dy), c = 0.5f * stiff * (len - rest[a]) / len;
        p[a].x += c * dx; p[a].y += c * dy;
        p[b].x -= c * dx; p[b].y -= c * dy;
      }
      __syncthreads();
    }
  if (t < n) out[t] = p[t];
}]=],
    block = { 8 }, grid = { 1 }, args = function(t)
      return { t.tensor { { 0, 0 }, { 1.2, 0.3 }, { 1.9, -0.5 }, { 3.2, 0 }, { 4, 0.8 } },
        t.f { 4, low = 0.8, high = 1.1 }, t.f { 1, low = 0.5, high = 0.9 }, 5, 3 }
    end,
    want = function(p0, rest, stiff, n, rounds)
      local p = each(2 * n, function(i) return p0[i] end)
      for _ = 1, rounds do
        for colour = 0, 1 do
          for a = colour, n - 2, 2 do
            local dx, dy = p[2 * a + 2] - p[2 * a], p[2 * a + 3] - p[2 * a + 1]
            local len = math.sqrt(dx * dx + dy * dy)
            local c = 0.5 * stiff[0] * (len - rest[a]) / len
            p[2 * a], p[2 * a + 1], p[2 * a + 2], p[2 * a + 3] = p[2 * a] + c * dx,
              p[2 * a + 1] + c * dy, p[2 * a + 2] - c * dx, p[2 * a + 3] - c * dy
          end
        end
      end
      return p
    end },

  { "shallow water with walls, planes in one array", [=[
#define AT(f, x, y) q[((f) * h + (y)) * w + (x)]
__global__ void shallow(const float *__restrict__ q, float *__restrict__ out, int w, int h, float dt, float g) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  float F[2][2][3];                            // low and high face, along x and y
  for (int axis = 0; axis < 2; ++axis)
    for (int side = 0; side < 2; ++side) {
      const int step = side ? 1 : -1, nx = x + (axis ? 0 : step), ny = y + (axis ? step : 0);
      const bool wall = nx < 0 || nx >= w || ny < 0 || ny >= h;
      const float a[3] = {AT(0, x, y), AT(1, x, y), AT(2, x, y)};
      float b[3];
      for (int f = 0; f < 3; ++f) b[f] = wall ? (f == 1 + axis ? -a[f] : a[f]) : AT(f, nx, ny);
      const float ua = a[1 + axis] / a[0], ub = b[1 + axis] / b[0];
      const float speed = fmaxf(fabsf(ua) + sqrtf(g * a[0]), fabsf(ub) + sqrtf(g * b[0]));
      for (int f = 0; f < 3; ++f) {
        const float fa = a[f] * ua + (f == 1 + axis ? 0.5f * g * a[0] * a[0] : 0.f);
        const float fb = b[f] * ub + (f == 1 + axis ? 0.5f * g * b[0] * b[0] : 0.f);
        F[axis][side][f] = 0.5f * (fa + fb) - 0.5f * speed * step * (b[f] - a[f]);
      }
    }
  for (int f = 0; f < 3; ++f)
    out[(f * h + y) * w + x] = AT(f, x, y) - dt * (F[0][1][f] - F[0][0][f] + F[1][1][f] - F[1][0][f]);
}]=],
    block = { 4, 4 }, grid = { 1, 1 }, args = function(t)
      return { t.f { 3, 3, 4, low = 0.8, high = 1.4 }, 4, 3, 0.1, t.f { 1, low = 0.9, high = 1.1 } }
    end,
    order = 1, want = function(q, w, h, dt, g)
      local function cell(x, y)
        local cx, cy = math.max(0, math.min(w - 1, x)), math.max(0, math.min(h - 1, y))
        local c = {}
        for f = 0, 2 do c[f] = q[(f * h + cy) * w + cx] end
        if cx ~= x then c[1] = -c[1] end
        if cy ~= y then c[2] = -c[2] end
        return c
      end
      local function face(a, b, axis, f)                   -- flux from cell a to its next one, b
        local function speed(c) return math.abs(c[1 + axis] / c[0]) + math.sqrt(g[0] * c[0]) end
        local function flux(c)
          return c[f] * c[1 + axis] / c[0] + (f == 1 + axis and g[0] * c[0] ^ 2 / 2 or 0)
        end
        return (flux(a) + flux(b)) / 2 - math.max(speed(a), speed(b)) * (b[f] - a[f]) / 2
      end
      return each(3 * w * h, function(e)
        local f, y, x = e // (w * h), e // w % h, e % w
        local c = cell(x, y)
        return c[f] - dt * (face(c, cell(x + 1, y), 0, f) - face(cell(x - 1, y), c, 0, f) + face(c,
          cell(x, y + 1), 1, f) - face(cell(x, y - 1), c, 1, f))
      end)
    end },

  { "oscillators coupled by tiles", [=[
template <unsigned TILE> __device__ float coupling(const float *th, float me, int n) {
  __shared__ float tile[TILE];
  float s = 0.f;
  for (int base = 0; base < n; base += TILE) {
    tile[threadIdx.x] = base + threadIdx.x < n ? th[base + threadIdx.x] : me;
    __syncthreads();
    #pragma unroll 4
    for (unsigned j = 0; j < TILE; ++j) s += base + j < n ? __sinf(tile[j] - me) : 0.f;
    __syncthreads();
  }
  return s;
}
__global__ void kuramoto(const float *theta, const float *omega, float *out, float K, float dt, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float me = i < n ? theta[i] : 0.f, c = coupling<4u>(theta, me, n);
  if (i < n) out[i] = fmodf(me + dt * (omega[i] + K / n * c) + 6.283185307179586f, 6.283185307179586f);
}]=],
    block = { 4 }, grid = { 2 },
    args = function(t) return { t.f { 7, low = 0, high = 6 }, t.f { 7 }, t.f { 1 }, 0.1, 7 } end,
    tol = 1e-4,
    want = function(theta, omega, K, dt, n)
      return each(n, function(i)
        local s = sum(n, function(j) return math.sin(theta[j] - theta[i]) end)
        return (theta[i] + dt * (omega[i] + K[0] / n * s)) % (2 * math.pi)
      end)
    end },

  { "the least distance of two segments", [=[
__device__ __forceinline__ float dot(const float3 &a, const float3 &b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ __forceinline__ float3 sub(const float3 &a, const float3 &b) { return make_float3(a.x - b.x, a.y - b.y, a.z - b.z); }
__device__ __forceinline__ float3 along(const float3 &p, float t, const float3 &d) { return make_float3(p.x + t * d.x, p.y + t * d.y, p.z + t * d.z); }
__device__ float clamp01(float v) { return __saturatef(v); }
struct Capsule { float3 p, q; float r; };
__device__ float distance(const Capsule &A, const Capsule &B) {
  const float3 d1 = sub(A.q, A.p), d2 = sub(B.q, B.p), r = sub(A.p, B.p);
  const float a = dot(d1, d1), e = dot(d2, d2), f = dot(d2, r), c = dot(d1, r), b = dot(d1, d2), denom = a * e - b * b;
  float s = denom > 1e-8f ? clamp01((b * f - c * e) / denom) : 0.f;
  float t = (b * s + f) / e;
  if (t < 0.f) { t = 0.f; s = clamp01(-c / a); }
  else if (t > 1.f) { t = 1.f; s = clamp01((b - c) / a); }
  const float3 gap = sub(along(A.p, s, d1), along(B.p, t, d2));
  return sqrtf(dot(gap, gap)) - A.r - B.r;
}
__global__ void contacts(const float *caps, const int2 *pairs, float *depth, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  auto load = [caps](int k) {
    const float *c = caps + 7 * k;
    return Capsule{{c[0], c[1], c[2]}, {c[3], c[4], c[5]}, c[6]};
  };
  depth[i] = fmaxf(-distance(load(pairs[i].x), load(pairs[i].y)), -10.f);
}]=],
    shape = { 4 },
    args = function(t)
      return { t.f { 4, 7, low = -2, high = 2 },
        t.tensor({ { 0, 1 }, { 1, 2 }, { 3, 0 }, { 2, 3 } }, "i32"), 4 }
    end, order = 1,
    want = function(caps, pairs, n)
      return each(n, function(i)
        local function at(k, t)
          local p = {}
          for d = 0, 2 do p[d] = caps[7 * k + d] + t * (caps[7 * k + 3 + d] - caps[7 * k + d]) end
          return p
        end
        local a, b = pairs[2 * i], pairs[2 * i + 1]
        local function far(s, t)
          local p, q = at(a, s), at(b, t)
          return math.sqrt(sum(3, function(d) return (p[d] - q[d]) ^ 2 end))
        end
        -- the minimum of a convex function on 0 … 1
        local function least(f)
          local low, high = 0, 1
          for _ = 1, 60 do
            local x, y = low + (high - low) * 0.382, low + (high - low) * 0.618
            if f(x) < f(y) then high = y else low = x end
          end
          return math.min(f(0), f(1), f((low + high) / 2))
        end
        return -(least(function(s) return least(function(t) return far(s, t) end) end)
          - caps[7 * a + 6] - caps[7 * b + 6])
      end)
    end, tol64 = 1e-7 },

  { "phases that part, fourth derivatives through a tile", [=[
constexpr int T = 4, R = 2, S = T + 2 * R;
__global__ void cahn_hilliard(const float *c, float *out, int w, int h, float dt, float kappa) {
  __shared__ float u[S][S], mu[S][S];
  const int x0 = blockIdx.x * T - R, y0 = blockIdx.y * T - R;
  auto wrap = [](int v, int n) { return (v + n) % n; };
  for (int k = threadIdx.y * T + threadIdx.x; k < S * S; k += T * T)
    u[k / S][k % S] = c[wrap(y0 + k / S, h) * w + wrap(x0 + k % S, w)];
  __syncthreads();
  for (int k = threadIdx.y * T + threadIdx.x; k < S * S; k += T * T) {
    const int y = k / S, x = k % S;
    if (y == 0 || x == 0 || y == S - 1 || x == S - 1) continue;
    const float v = u[y][x];
    mu[y][x] = v * v * v - v - kappa * (u[y - 1][x] + u[y + 1][x] + u[y][x - 1] + u[y][x + 1] - 4.f * v);
  }
  __syncthreads();
  const int x = threadIdx.x + R, y = threadIdx.y + R;
  out[(y0 + y) * w + x0 + x] = u[y][x] + dt * (mu[y - 1][x] + mu[y + 1][x] + mu[y][x - 1] + mu[y][x + 1] - 4.f * mu[y][x]);
}]=],
    block = { 4, 4 }, grid = { 2, 1 }, args = function(t)
      return { t.f { 4, 8 }, 8, 4, 0.05, t.f { 1, low = 0.2, high = 0.4 } }
    end,
    want = function(c, w, h, dt, kappa)
      local function at(f, x, y) return f(x % w, y % h) end
      local function lap(f, x, y)
        return at(f, x - 1, y) + at(f, x + 1, y) + at(f, x, y - 1) + at(f, x,
          y + 1) - 4 * at(f, x, y)
      end
      local function u(x, y) return c[y * w + x] end
      local function mu(x, y) return u(x, y) ^ 3 - u(x, y) - kappa[0] * lap(u, x, y) end
      return each(w * h, function(i) return u(i % w, i // w) + dt * lap(mu, i % w, i // w) end)
    end },
}
