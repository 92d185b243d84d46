--- Kernels that compute pictures: light, surfaces, cameras, filters.
-- luacheck: no max line length

local lists = dofile("spec/kernel/users/lists.lua")
local each, sum = lists.each, lists.sum

local function clamp(v, low, high) return math.max(low, math.min(high, v)) end

return {
  { "a surface of microfacets under a light", [=[
#define VOP(op) \
  __device__ __forceinline__ float3 operator op(float3 a, float3 b) { return make_float3(a.x op b.x, a.y op b.y, a.z op b.z); } \
  __device__ __forceinline__ float3 operator op(float3 a, float b) { return make_float3(a.x op b, a.y op b, a.z op b); }
VOP(+) VOP(-) VOP(*) VOP(/)
__device__ __forceinline__ float3 &operator+=(float3 &a, const float3 b) { return a = a + b; }
__device__ __forceinline__ float dot(float3 a, float3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ __forceinline__ float3 normalize(float3 a) { return a * rsqrtf(dot(a, a)); }
__device__ __forceinline__ float sq(float v) { return v * v; }
struct Material {
  float3 base; float rough, metal;
  __device__ float alpha() const { return sq(fmaxf(rough, 0.05f)); }
  __device__ float3 f0() const { return make_float3(0.04f, 0.04f, 0.04f) * (1.f - metal) + base * metal; }
};
__device__ float ggx(float nh, float a) { const float d = nh * nh * (a * a - 1.f) + 1.f; return a * a / (3.14159265358979f * d * d); }
__device__ float smith(float nv, float nl, float a) {
  auto g1 = [k = a * 0.5f](float c) { return c / (c * (1.f - k) + k); };
  return g1(nv) * g1(nl);
}
__global__ void shade(const float3 *n_, const float3 *v_, const float3 *light, const float *mat, float3 *out, int lights, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const Material m = {make_float3(mat[0], mat[1], mat[2]), mat[3], mat[4]};
  const float3 N = normalize(n_[i]), V = normalize(v_[i]);
  float3 sum = make_float3(0.f, 0.f, 0.f);
  for (int k = 0; k < lights; ++k) {
    const float3 L = normalize(light[k]), H = normalize(V + L);
    const float nl = dot(N, L), nv = fmaxf(dot(N, V), 1e-3f), nh = fmaxf(dot(N, H), 0.f), vh = fmaxf(dot(V, H), 0.f);
    if (nl <= 0.f) continue;
    const float fc = powf(1.f - vh, 5.f);
    const float3 F = m.f0() * (1.f - fc) + fc, diff = m.base * ((1.f - m.metal) / 3.14159265358979f);
    sum += (diff + F * (ggx(nh, m.alpha()) * smith(nv, nl, m.alpha()) / (4.f * nv * nl))) * nl;
  }
  out[i] = sum;
}]=], args = function(t)
      return { t.f { 3, 3, low = 0.5, high = 1 }, t.f { 3, 3, low = 0.3, high = 1 },
        t.tensor { { 1, 1, 0.3 }, { -1, -0.2, -1 }, { 0.2, 0.4, 1 } },
        t.tensor { 0.8, 0.5, 0.3, 0.6, 0.4 }, 3, 3 }
    end, tol = 1e-4,
    want = function(ns, vs, light, mat, lights, n)
      local function dot(a, b) return a[1] * b[1] + a[2] * b[2] + a[3] * b[3] end
      local function unit(a, at)
        local v = { a[at], a[at + 1], a[at + 2] }
        local r = math.sqrt(dot(v, v))
        return { v[1] / r, v[2] / r, v[3] / r }
      end
      return each(3 * n, function(e)
        local i, c, s = e // 3, e % 3, 0
        local N, V, a = unit(ns, 3 * i), unit(vs, 3 * i), math.max(mat[3], 0.05) ^ 2
        for k = 0, lights - 1 do
          local L = unit(light, 3 * k)
          local H = unit({ V[1] + L[1], V[2] + L[2], V[3] + L[3] }, 1)
          local nl, nv, nh, vh = dot(N, L), math.max(dot(N, V), 1e-3), math.max(dot(N, H), 0),
            math.max(dot(V, H), 0)
          if nl > 0 then
            local f0 = 0.04 * (1 - mat[4]) + mat[c] * mat[4]
            local F = f0 + (1 - f0) * (1 - vh) ^ 5
            local D = a * a / (math.pi * (nh * nh * (a * a - 1) + 1) ^ 2)
            local G = nv / (nv * (1 - a / 2) + a / 2) * nl / (nl * (1 - a / 2) + a / 2)
            s = s + (mat[c] * (1 - mat[4]) / math.pi + F * D * G / (4 * nv * nl)) * nl
          end
        end
        return s
      end)
    end },

  { "triangles in a tree of boxes, the nearest hit", [=[
struct Vec { float x, y, z; };
inline __device__ Vec operator-(const Vec &a, const Vec &b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
inline __device__ Vec cross(const Vec &a, const Vec &b) { return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }
inline __device__ float dot(const Vec &a, const Vec &b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ bool slab(const float *box, const Vec &o, const Vec &inv, float far) {
  const float o_[3] = {o.x, o.y, o.z}, i_[3] = {inv.x, inv.y, inv.z};
  float lo = 0.f, hi = far;
  for (int a = 0; a < 3; ++a) {
    float t0 = (box[a] - o_[a]) * i_[a], t1 = (box[3 + a] - o_[a]) * i_[a];
    if (t0 > t1) { const float t = t0; t0 = t1; t1 = t; }
    lo = fmaxf(lo, t0);
    hi = fminf(hi, t1);
  }
  return lo <= hi;
}
__device__ bool hit(const Vec &o, const Vec &d, const Vec *v, float &t, float &u, float &w) {
  const Vec e1 = v[1] - v[0], e2 = v[2] - v[0], p = cross(d, e2);
  const float det = dot(e1, p);
  if (fabsf(det) < 1e-8f) return false;
  const Vec s = o - v[0], q = cross(s, e1);
  u = dot(s, p) / det;
  w = dot(d, q) / det;
  t = dot(e2, q) / det;
  return u >= 0.f && w >= 0.f && u + w <= 1.f && t > 1e-4f;
}
__global__ void trace(const float *box, const int4 *node, const Vec *tri, const Vec *dir, float *depth, float *shade, int *which, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const Vec o = {0.f, 0.f, -3.f}, d = dir[i], inv = {1.f / d.x, 1.f / d.y, 1.f / d.z};
  int stack[8], sp = 0, best = -1;
  float far = 1e3f, bu = 0.f, bw = 0.f;
  stack[sp++] = 0;
  do {
    const int k = stack[--sp];
    if (!slab(box + 6 * k, o, inv, far)) continue;
    const int4 q = node[k];
    if (q.z == 0) { stack[sp++] = q.x; stack[sp++] = q.y; continue; }
    for (int f = q.x; f < q.x + q.z; ++f) {
      float t, u, w;
      if (hit(o, d, tri + 3 * f, t, u, w) && t < far) { far = t; bu = u; bw = w; best = f; }
    }
  } while (sp > 0);
  which[i] = best;
  depth[i] = best < 0 ? 0.f : far;
  shade[i] = best < 0 ? 0.1f : (1.f - bu - bw) * 0.2f + bu * 0.7f + bw;
}]=], shape = { 4 }, args = function(t)
      return {
        t.tensor { { -2, -2, -1, 2, 2, 2 }, { -2, -2, -1, 0, 2, 2 }, { -0.5, -2, -1, 2, 2, 2 } },
        t.tensor({ { 1, 2, 0, 0 }, { 0, 0, 2, 0 }, { 2, 0, 1, 0 } }, "i32"),
        t.tensor { { -1.5, -1, 0 }, { 0, -1, 0.2 }, { -0.7, 1.5, 0.1 }, { -2, -2, 1 }, { 0, -2, 1 },
          { -1, 2, 1 }, { -0.4, -1, 1 }, { 1.8, -1, 0.5 }, { 0.6, 1.7, 1.5 } },
        t.tensor { { -0.2, 0.05, 1 }, { 0.15, -0.03, 1 }, { -0.25, -0.2, 1 }, { 0.6, 0.5, 1 } }, 4 }
    end, order = 1,
    want = function(_, _, tri, dir, n)
      local depth, shade, which = {}, {}, {}
      for i = 0, n - 1 do
        depth[i], shade[i], which[i] = 0, 0.1, -1
        for f = 0, 2 do                               -- ray o + t d meets triangle a + u e1 + w e2
          local function v(k, c) return tri[9 * f + 3 * k + c] end
          local m = {}
          for c = 0, 2 do
            m[c] = { v(1, c) - v(0, c), v(2, c) - v(0, c), -dir[3 * i + c],
              (c == 2 and -3 or 0) - v(0, c) }
          end
          local function det(a, b, c)
            return m[0][a] * (m[1][b] * m[2][c] - m[1][c] * m[2][b])
              - m[0][b] * (m[1][a] * m[2][c] - m[1][c] * m[2][a]) +
              m[0][c] * (m[1][a] * m[2][b] - m[1][b] * m[2][a])
          end
          local u, w, t = det(4, 2, 3) / det(1, 2, 3), det(1, 4, 3) / det(1, 2, 3),
            det(1, 2, 4) / det(1, 2, 3)
          if u >= 0 and w >= 0 and u + w <= 1 and t > 0 and (which[i] < 0 or t < depth[i]) then
            depth[i], shade[i], which[i] = t, (1 - u - w) * 0.2 + u * 0.7 + w, f
          end
        end
      end
      return depth, shade, which
    end },

  { "a splat of three dimensions seen by a camera", [=[
#include <cstdint>
struct mat3 { float m[3][3]; };
__device__ mat3 mul(const mat3 &a, const mat3 &b) {
  mat3 c;
  #pragma unroll
  for (int i = 0; i < 3; ++i)
    #pragma unroll
    for (int j = 0; j < 3; ++j) c.m[i][j] = a.m[i][0] * b.m[0][j] + a.m[i][1] * b.m[1][j] + a.m[i][2] * b.m[2][j];
  return c;
}
__device__ mat3 transpose(const mat3 &a) {
  mat3 t;
  for (int i = 0; i < 9; ++i) t.m[i / 3][i % 3] = a.m[i % 3][i / 3];
  return t;
}
__device__ mat3 quat_to_mat(float4 q) {
  const float s = rsqrtf(q.x * q.x + q.y * q.y + q.z * q.z + q.w * q.w), w = q.x * s, x = q.y * s, y = q.z * s, z = q.w * s;
  return {{{1.f - 2.f * (y * y + z * z), 2.f * (x * y - w * z), 2.f * (x * z + w * y)},
           {2.f * (x * y + w * z), 1.f - 2.f * (x * x + z * z), 2.f * (y * z - w * x)},
           {2.f * (x * z - w * y), 2.f * (y * z + w * x), 1.f - 2.f * (x * x + y * y)}}};
}
__global__ void project(const float3 *mean, const float3 *scale, const float4 *quat, float3 *conic, float2 *at, int *radius, float fx, float fy, int n) {
  const auto i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= static_cast<uint32_t>(n)) return;
  const float3 p = mean[i], s = scale[i];
  const mat3 R = quat_to_mat(quat[i]), S = {{{expf(s.x), 0, 0}, {0, expf(s.y), 0}, {0, 0, expf(s.z)}}}, M = mul(R, S), cov = mul(M, transpose(M));
  const float iz = 1.f / p.z, lim = 1.3f, tx = fminf(lim, fmaxf(-lim, p.x * iz)) * p.z, ty = fminf(lim, fmaxf(-lim, p.y * iz)) * p.z;
  const mat3 J = {{{fx * iz, 0.f, -fx * tx * iz * iz}, {0.f, fy * iz, -fy * ty * iz * iz}, {0.f, 0.f, 0.f}}};
  const mat3 T = mul(mul(J, cov), transpose(J));
  const float a = T.m[0][0] + 0.3f, b = T.m[0][1], c = T.m[1][1] + 0.3f, det = a * c - b * b;
  conic[i] = make_float3(c / det, -b / det, a / det);
  at[i] = make_float2(fx * p.x * iz, fy * p.y * iz);
  const float mid = 0.5f * (a + c);
  radius[i] = (int)ceilf(3.f * sqrtf(mid + sqrtf(fmaxf(0.1f, mid * mid - det))));
}]=], shape = { 2, 3 }, args = function(t)
      return { t.f { 2, 3, low = 1, high = 2 }, t.f { 2, 3, low = -1, high = 0 },
        t.f { 2, 4, low = 0.2, high = 1 }, t.f { 1, low = 2, high = 3 }, 2.5, 2 }
    end, tol = 1e-4, tol64 = 1e-8,
    want = function(mean, scale, quat, fx, fy, n)
      local conic, at, radius = each(6, function() return 0 end), each(6, function() return 0 end),
        each(6, function() return 0 end)
      for i = 0, n - 1 do
        local p = { mean[3 * i], mean[3 * i + 1], mean[3 * i + 2] }
        local q, r = {}, math.sqrt(sum(4, function(k) return quat[4 * i + k] ^ 2 end))
        for k = 0, 3 do q[k] = quat[4 * i + k] / r end
        local f = { fx[0], fy }
        local row = { {}, {} }                         -- rows of M = J R S: the covariance is M M'
        for axis = 0, 2 do
          local e = { axis == 0 and 1 or 0, axis == 1 and 1 or 0, axis == 2 and 1 or 0 }
          local u = { q[1], q[2], q[3] }
          local t = { 2 * (u[2] * e[3] - u[3] * e[2]), 2 * (u[3] * e[1] - u[1] * e[3]),
            2 * (u[1] * e[2] - u[2] * e[1]) }
          local v = { e[1] + q[0] * t[1] + u[2] * t[3] - u[3] * t[2],
            e[2] + q[0] * t[2] + u[3] * t[1] - u[1] * t[3],
            e[3] + q[0] * t[3] + u[1] * t[2] - u[2] * t[1] }
          for d = 1, 2 do
            row[d][axis] = math.exp(scale[3 * i + axis]) * f[d] / p[3] * (v[d] - clamp(p[d] / p[3],
              -1.3, 1.3) * v[3])
          end
        end
        local function cov(a, b) return sum(3, function(k) return row[a][k] * row[b][k] end) end
        local a, b, c = cov(1, 1) + 0.3, cov(1, 2), cov(2, 2) + 0.3
        local det, mid = a * c - b * b, (a + c) / 2
        conic[3 * i], conic[3 * i + 1], conic[3 * i + 2] = c / det, -b / det, a / det
        at[2 * i], at[2 * i + 1] = f[1] * p[1] / p[3], f[2] * p[2] / p[3]
        radius[i] = math.ceil(3 * math.sqrt(mid + math.sqrt(math.max(0.1, mid * mid - det))))
      end
      return conic, at, radius
    end },

  { "corners by a tensor of slopes, a tile with its halo", [=[
#define TILE 4
#define PAD 2
__global__ void harris(const float *__restrict__ im, float *__restrict__ out, int w, int h, float k) {
  __shared__ float s[TILE + 2 * PAD][TILE + 2 * PAD + 1];
  const int gx = blockIdx.x * TILE + threadIdx.x, gy = blockIdx.y * TILE + threadIdx.y;
  for (int y = threadIdx.y; y < TILE + 2 * PAD; y += TILE)
    for (int x = threadIdx.x; x < TILE + 2 * PAD; x += TILE) {
      const int ix = min(max((int)(blockIdx.x * TILE) + x - PAD, 0), w - 1), iy = min(max((int)(blockIdx.y * TILE) + y - PAD, 0), h - 1);
      s[y][x] = im[iy * w + ix];
    }
  __syncthreads();
  if (gx >= w || gy >= h) return;
  float xx = 0.f, xy = 0.f, yy = 0.f;
  #pragma unroll
  for (int dy = -1; dy <= 1; ++dy)
    #pragma unroll
    for (int dx = -1; dx <= 1; ++dx) {
      const int x = threadIdx.x + PAD + dx, y = threadIdx.y + PAD + dy;
      const float ix = 0.5f * (s[y][x + 1] - s[y][x - 1]), iy = 0.5f * (s[y + 1][x] - s[y - 1][x]);
      const float g = (2 - abs(dx)) * (2 - abs(dy)) / 16.f;
      xx += g * ix * ix; xy += g * ix * iy; yy += g * iy * iy;
    }
  out[gy * w + gx] = xx * yy - xy * xy - k * (xx + yy) * (xx + yy);
}]=], block = { 4, 4 }, grid = { 2, 1 }, args = function(t) return { t.f { 4, 6 }, 6, 4, 0.05 } end,
    want = function(im, w, h, k)
      local function at(x, y) return im[clamp(y, 0, h - 1) * w + clamp(x, 0, w - 1)] end
      return each(w * h, function(i)
        local function m(f)
          return sum(9, function(d)
            local dx, dy = d % 3 - 1, d // 3 - 1
            local x, y = i % w + dx, i // w + dy
            return (2 - math.abs(dx)) * (2 - math.abs(dy)) / 16
              * f((at(x + 1, y) - at(x - 1, y)) / 2, (at(x, y + 1) - at(x, y - 1)) / 2)
          end)
        end
        local xx, xy, yy = m(function(a) return a * a end), m(function(a, b) return a * b end),
          m(function(_, b) return b * b end)
        return xx * yy - xy ^ 2 - k * (xx + yy) ^ 2
      end)
    end },

  { "blocks of eight to cosines and back, small ones dropped", [=[
__constant__ float zig[8] = {16.f, 11.f, 10.f, 16.f, 24.f, 40.f, 51.f, 61.f};
constexpr float kPi = 3.14159265358979f;
__device__ void dct8(float *v, bool inverse) {
  float o[8];
  for (int k = 0; k < 8; ++k) {
    float s = 0.f;
    for (int n = 0; n < 8; ++n) {
      const float c = inverse ? __cosf((2 * k + 1) * n * kPi / 16.f) * (n ? 0.5f : 0.35355339059327f)
                              : __cosf((2 * n + 1) * k * kPi / 16.f) * (k ? 0.5f : 0.35355339059327f);
      s += c * v[n];
    }
    o[k] = s;
  }
  for (int k = 0; k < 8; ++k) v[k] = o[k];
}
__global__ void compress(const float *x, float *y, float quality, int rows) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float v[8];
  for (int k = 0; k < 8; ++k) v[k] = 100.f * x[r * 8 + k];
  dct8(v, false);
  for (int k = 0; k < 8; ++k) if (fabsf(v[k]) < zig[k] * quality) v[k] = 0.f;
  dct8(v, true);
  for (int k = 0; k < 8; ++k) y[r * 8 + k] = v[k] / 100.f;
}]=],
    args = function(t) return { t.f { 3, 8 }, 1.5, 3 } end, nodiff = { "quality" }, tol = 1e-4,
    order = 1, tol64 = 1e-8,
    want = function(x, quality, rows)
      local zig = { [0] = 16, 11, 10, 16, 24, 40, 51, 61 }
      local function base(k, n)
        return math.cos((2 * n + 1) * k * math.pi / 16) * (k == 0 and math.sqrt(1 / 8) or 0.5)
      end
      return each(8 * rows, function(e)
        return sum(8, function(k)
          local c = sum(8, function(n) return base(k, n) * 100 * x[e - e % 8 + n] end)
          return math.abs(c) < zig[k] * quality and 0 or c * base(k, e % 8) / 100
        end)
      end)
    end },

  { "colours: a filmic curve, then hue and saturation", [=[
__device__ float srgb(float v) { return v <= 0.0031308f ? 12.92f * v : 1.055f * __powf(v, 1.f / 2.4f) - 0.055f; }
__device__ float aces(float v) {
  constexpr float a = 2.51f, b = 0.03f, c = 2.43f, d = 0.59f, e = 0.14f;
  return fminf(1.f, fmaxf(0.f, (v * (a * v + b)) / (v * (c * v + d) + e)));
}
__device__ void to_hsv(const float3 &c, float &h, float &s, float &v) {
  const float mx = fmaxf(c.x, fmaxf(c.y, c.z)), mn = fminf(c.x, fminf(c.y, c.z)), d = mx - mn;
  v = mx;
  s = mx > 0.f ? d / mx : 0.f;
  if (d == 0.f) { h = 0.f; return; }
  if (mx == c.x) h = fmodf((c.y - c.z) / d + 6.f, 6.f);
  else if (mx == c.y) h = (c.z - c.x) / d + 2.f;
  else h = (c.x - c.y) / d + 4.f;
}
__global__ void grade(const float3 *in, float3 *out, float exposure, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float3 c = in[i];
    c.x = srgb(aces(c.x * exposure)); c.y = srgb(aces(c.y * exposure)); c.z = srgb(aces(c.z * exposure));
    float3 hsv;
    to_hsv(c, hsv.x, hsv.y, hsv.z);
    out[i] = hsv;
  }
}]=],
    args = function(t)
      return { t.f { 5, 3, low = 0.01, high = 0.6 }, t.f { 1, low = 0.8, high = 1.2 }, 5 }
    end, tol = 1e-4,
    want = function(c, exposure, n)
      local out = {}
      for i = 0, n - 1 do
        local v = {}
        for d = 0, 2 do
          local a = c[3 * i + d] * exposure[0]
          a = clamp(a * (2.51 * a + 0.03) / (a * (2.43 * a + 0.59) + 0.14), 0, 1)
          v[d] = a <= 0.0031308 and 12.92 * a or 1.055 * a ^ (1 / 2.4) - 0.055
        end
        local top, low = math.max(v[0], v[1], v[2]), math.min(v[0], v[1], v[2])
        local h = top == v[0] and ((v[1] - v[2]) / (top - low)) % 6
          or top == v[1] and (v[2] - v[0]) / (top - low) + 2 or (v[0] - v[1]) / (top - low) + 4
        out[3 * i], out[3 * i + 1], out[3 * i + 2] = h, (top - low) / top, top
      end
      return out
    end },

  { "points seen by cameras, residuals that saturate", [=[
template <typename T> struct V3 {
  T x, y, z;
  __device__ V3() = default;
  __device__ V3(T a, T b, T c) : x(a), y(b), z(c) {}
  __device__ explicit V3(const T *p) : V3(p[0], p[1], p[2]) {}
};
template <typename T> __device__ V3<T> rodrigues(const V3<T> &w, const V3<T> &p) {
  const T th2 = w.x * w.x + w.y * w.y + w.z * w.z;
  const V3<T> c(w.y * p.z - w.z * p.y, w.z * p.x - w.x * p.z, w.x * p.y - w.y * p.x);
  if (th2 < T(1e-12)) return V3<T>(p.x + c.x, p.y + c.y, p.z + c.z);
  const T th = sqrt(th2), s = sin(th) / th, k = (T(1) - cos(th)) / th2, d = w.x * p.x + w.y * p.y + w.z * p.z, co = cos(th);
  return V3<T>(p.x * co + c.x * s + w.x * d * k, p.y * co + c.y * s + w.y * d * k, p.z * co + c.z * s + w.z * d * k);
}
__global__ void reproject(const float *camera, const float *point, const int2 *pair, const float2 *seen, float *cost, float delta, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float *c = camera + 9 * pair[i].x, *q = point + 3 * pair[i].y;
  const V3<float> w(c), at(q), r = rodrigues(w, at), p(r.x + c[3], r.y + c[4], r.z + c[5]);
  const float u = -p.x / p.z, v = -p.y / p.z, r2 = u * u + v * v, f = c[6] * (1.f + r2 * (c[7] + c[8] * r2));
  const float ex = f * u - seen[i].x, ey = f * v - seen[i].y, e = ex * ex + ey * ey;
  cost[i] = e <= delta * delta ? e : 2.f * delta * sqrtf(e) - delta * delta;
}]=], shape = { 4 }, args = function(t)
      return {
        t.tensor { { 0.1, -0.2, 0.3, 0.2, 0.1, 3, 1.5, 0.1, -0.05 },
          { -0.3, 0.1, 0, -0.1, 0.3, 4, 1.2, -0.1, 0.02 } }, t.f { 3, 3 },
        t.tensor({ { 0, 0 }, { 1, 1 }, { 0, 2 }, { 1, 0 } }, "i32"),
        t.f { 4, 2, low = -0.3, high = 0.3 }, 0.3, 4 }
    end, nodiff = { "delta" },
    tol = 1e-4, want = function(camera, point, pair, seen, delta, n)
      return each(n, function(i)
        local c, q = 9 * pair[2 * i], 3 * pair[2 * i + 1]
        local m = { 1, 0, 0, 0, 1, 0, 0, 0, 1 }   -- rotation: power series of its generator
        local term, K = m,
          { 0, -camera[c + 2], camera[c + 1], camera[c + 2], 0, -camera[c], -camera[c + 1],
            camera[c], 0 }
        for k = 1, 20 do
          local next, total = {}, {}
          for e = 1, 9 do
            local r, d = (e - 1) // 3 * 3, (e - 1) % 3 + 1
            next[e] = (term[r + 1] * K[d] + term[r + 2] * K[d + 3] + term[r + 3] * K[d + 6]) / k
            total[e] = m[e] + next[e]
          end
          term, m = next, total
        end
        local p = {}
        for d = 1, 3 do
          p[d] = m[3 * d - 2] * point[q] + m[3 * d - 1] * point[q + 1] + m[3 * d] * point[q + 2]
            + camera[c + 2 + d]
        end
        local u, v = -p[1] / p[3], -p[2] / p[3]
        local r2 = u * u + v * v
        local f = camera[c + 6] * (1 + camera[c + 7] * r2 + camera[c + 8] * r2 * r2)
        local e = (f * u - seen[2 * i]) ^ 2 + (f * v - seen[2 * i + 1]) ^ 2
        return e <= delta * delta and e or 2 * delta * math.sqrt(e) - delta * delta
      end)
    end },

  { "flow between two pictures, rounds in shared memory", [=[
#define N 4
__device__ float mean4(const float (*a)[N + 2], int y, int x) { return 0.25f * (a[y - 1][x] + a[y + 1][x] + a[y][x - 1] + a[y][x + 1]); }
__global__ void horn_schunck(const float *A, const float *B, float2 *flow, float alpha, int rounds) {
  __shared__ float u[2][N + 2][N + 2], v[2][N + 2][N + 2];
  const int x = threadIdx.x + 1, y = threadIdx.y + 1, i = threadIdx.y * N + threadIdx.x;
  for (int k = i; k < 2 * (N + 2) * (N + 2); k += N * N) { (&u[0][0][0])[k] = 0.f; (&v[0][0][0])[k] = 0.f; }
  const int xr = min(x, N - 1), yr = min(y, N - 1);
  const float ix = A[threadIdx.y * N + xr] - A[i], iy = A[yr * N + threadIdx.x] - A[i], it = B[i] - A[i];
  __syncthreads();
  for (int r = 0; r < rounds; ++r) {
    const int from = r & 1, to = from ^ 1;
    const float mu = mean4(u[from], y, x), mv = mean4(v[from], y, x), t = (ix * mu + iy * mv + it) / (alpha + ix * ix + iy * iy);
    u[to][y][x] = mu - ix * t;
    v[to][y][x] = mv - iy * t;
    __syncthreads();
  }
  flow[i] = make_float2(u[rounds & 1][y][x], v[rounds & 1][y][x]);
}]=],
    block = { 4, 4 }, grid = { 1 }, shape = { 4, 4, 2 }, args = function(t)
      return { t.f { 4, 4 }, t.f { 4, 4 }, t.f { 1, low = 0.3, high = 0.6 }, 3 }
    end,
    want = function(A, B, alpha, rounds)
      local u, v = each(16, function() return 0 end), each(16, function() return 0 end)
      for _ = 1, rounds do
        local function mean(f, i)
          local x, y = i % 4, i // 4
          return ((x > 0 and f[i - 1] or 0) + (x < 3 and f[i + 1] or 0) + (y > 0 and f[i - 4]
            or 0) + (y < 3 and f[i + 4] or 0)) / 4
        end
        local a, b = {}, {}
        for i = 0, 15 do
          local ix, iy = i % 4 < 3 and A[i + 1] - A[i] or 0, i // 4 < 3 and A[i + 4] - A[i] or 0
          local t = (ix * mean(u, i) + iy * mean(v, i) + B[i] - A[i])
            / (alpha[0] + ix * ix + iy * iy)
          a[i], b[i] = mean(u, i) - ix * t, mean(v, i) - iy * t
        end
        u, v = a, b
      end
      return each(32, function(e) return e % 2 == 0 and u[e // 2] or v[e // 2] end)
    end },

  { "lines between values on a grid, cases in a table", [=[
__device__ __constant__ signed char edges[16][4] = {
  {-1, -1, -1, -1}, {3, 0, -1, -1}, {0, 1, -1, -1}, {3, 1, -1, -1}, {1, 2, -1, -1}, {3, 0, 1, 2}, {0, 2, -1, -1}, {3, 2, -1, -1},
  {2, 3, -1, -1}, {2, 0, -1, -1}, {0, 1, 2, 3}, {2, 1, -1, -1}, {1, 3, -1, -1}, {1, 0, -1, -1}, {0, 3, -1, -1}, {-1, -1, -1, -1}};
__global__ void contour(const float *f, float *length, float iso, int w, int h) {
  const int cx = blockIdx.x * blockDim.x + threadIdx.x, cy = blockIdx.y * blockDim.y + threadIdx.y;
  if (cx >= w - 1 || cy >= h - 1) return;
  const float v[4] = {f[cy * w + cx], f[cy * w + cx + 1], f[(cy + 1) * w + cx + 1], f[(cy + 1) * w + cx]};
  int code = 0;
  for (int k = 0; k < 4; ++k) code |= (v[k] < iso) << k;
  auto point = [&](int e) {
    const float t = (iso - v[e]) / (v[(e + 1) & 3] - v[e]);
    switch (e) {
      case 0: return make_float2(t, 0.f);
      case 1: return make_float2(1.f, t);
      case 2: return make_float2(1.f - t, 1.f);
      default: return make_float2(0.f, 1.f - t);
    }
  };
  float total = 0.f;
  for (int s = 0; s < 4 && edges[code][s] >= 0; s += 2) {
    const float2 a = point(edges[code][s]), b = point(edges[code][s + 1]);
    total += hypotf(a.x - b.x, a.y - b.y);
  }
  atomicAdd(length, total);
}]=],
    block = { 4, 4 }, grid = { 1, 1 }, shape = { 1 },
    args = function(t) return { t.f { 4, 5 }, t.f { 1, low = -0.1, high = 0.1 }, 5, 4 } end,
    order = 1,
    want = function(f, iso, w, h)
      local total = 0
      for c = 0, (w - 1) * (h - 1) - 1 do
        local x, y = c % (w - 1), c // (w - 1)
        local v = { [0] = f[y * w + x], f[y * w + x + 1], f[(y + 1) * w + x + 1],
          f[(y + 1) * w + x] }
        local corner, p, inside = { [0] = { 0, 0 }, { 1, 0 }, { 1, 1 }, { 0, 1 } }, {}, {}
        for e = 0, 3 do
          local a, b = v[e] < iso[0], v[(e + 1) % 4] < iso[0]
          inside[e] = a
          if a ~= b then
            local t = (iso[0] - v[e]) / (v[(e + 1) % 4] - v[e])
            local q, r = corner[e], corner[(e + 1) % 4]
            p[#p + 1] = { q[1] + t * (r[1] - q[1]), q[2] + t * (r[2] - q[2]) }
          end
        end
        local function far(a, b) return math.sqrt((a[1] - b[1]) ^ 2 + (a[2] - b[2]) ^ 2) end
        if #p == 2 then total = total + far(p[1], p[2])
        elseif #p == 4 then        -- two lines, each cutting off a corner that is inside
          total = total + (inside[0] and far(p[4], p[1]) + far(p[2], p[3])
            or far(p[1], p[2]) + far(p[3], p[4]))
        end
      end
      return { [0] = total }
    end },
}
