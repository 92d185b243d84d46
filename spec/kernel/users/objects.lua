--- Kernels with the C++ of CUDA users: templates, structs with functions and operators, lambdas,
-- macros; for graphics, geometry and bits of integers.

local lists = dofile("spec/kernel/users/lists.lua")
local each, sum = lists.each, lists.sum

local vec3 = [=[
struct Vec3 {
  float x, y, z;
  __host__ __device__ Vec3(float s = 0.f) : x(s), y(s), z(s) {}
  __host__ __device__ Vec3(float a, float b, float c) : x(a), y(b), z(c) {}
  __host__ __device__ Vec3 operator+(const Vec3 &o) const { return Vec3(x + o.x, y + o.y, z + o.z); }
  __host__ __device__ Vec3 operator-(const Vec3 &o) const { return Vec3(x - o.x, y - o.y, z - o.z); }
  __host__ __device__ Vec3 operator-() const { return Vec3(-x, -y, -z); }
  __host__ __device__ Vec3 operator*(float s) const { return Vec3(x * s, y * s, z * s); }
  __host__ __device__ Vec3 &operator+=(const Vec3 &o) { x += o.x; y += o.y; z += o.z; return *this; }
  __host__ __device__ float dot(const Vec3 &o) const { return x * o.x + y * o.y + z * o.z; }
  __host__ __device__ float length() const { return sqrtf(dot(*this)); }
  __host__ __device__ Vec3 normalized() const { return *this * (1.f / length()); }
  friend __host__ __device__ Vec3 operator*(float s, const Vec3 &v) { return v * s; }
  friend __host__ __device__ Vec3 cross(const Vec3 &a, const Vec3 &b) {
    return Vec3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
  }
};
]=]

local function dot(a, b) return a[1] * b[1] + a[2] * b[2] + a[3] * b[3] end
local function axpy(a, s, b) return { a[1] + s * b[1], a[2] + s * b[2], a[3] + s * b[3] } end
local function unit(a) return axpy({ 0, 0, 0 }, 1 / math.sqrt(dot(a, a)), a) end

return {
  { "rays, a sphere and its mirror", vec3 .. [=[
struct Ray { Vec3 o, d; __device__ Vec3 at(float t) const { return o + t * d; } };
class Ball {
  Vec3 c; float r;
public:
  __device__ Ball(Vec3 centre, float radius) : c(centre), r(radius) {}
  __device__ bool hit(const Ray &ray, float &t) const {
    const Vec3 oc = ray.o - c;
    const float b = oc.dot(ray.d), q = b * b - oc.dot(oc) + r * r;
    if (q < 0.f) return false;
    t = -b - sqrtf(q);
    return t > 1e-3f;
  }
  __device__ Vec3 normal(const Vec3 &p) const { return (p - c).normalized(); }
};
__device__ Vec3 reflect(const Vec3 &d, const Vec3 &n) { return d - 2.f * d.dot(n) * n; }
__global__ void trace(const float *ball, float *img, int w, int h) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  const Ball b(Vec3(ball[0], ball[1], ball[2]), ball[3]);
  Ray ray{Vec3(), Vec3((x + .5f) / w - .5f, (y + .5f) / h - .5f, 1.f).normalized()};
  auto sky = [](const Vec3 &d) { return 0.5f + 0.5f * d.y; };
  float t, light = sky(ray.d);
  if (b.hit(ray, t)) {
    const Vec3 p = ray.at(t), n = b.normal(p);
    ray = Ray{p, reflect(ray.d, n)};
    light = 0.2f * fmaxf(0.f, n.dot(Vec3(0.f, 0.6f, -0.8f))) + 0.8f * sky(ray.d);
  }
  img[y * w + x] = light;
}]=],
    block = { 8, 8 }, grid = { 1, 1 }, shape = { 5, 6 },
    args = function(t) return { t.tensor { 0.1, -0.05, 2.1, 0.77 }, 6, 5 } end,
    tol = 1e-4, want = function(s, w, h)
      return each(w * h, function(i)
        local d = unit { (i % w + 0.5) / w - 0.5, (i // w + 0.5) / h - 0.5, 1 }
        local oc = { -s[0], -s[1], -s[2] }
        local b = dot(oc, d)
        local q = b * b - dot(oc, oc) + s[3] ^ 2
        if q < 0 then return 0.5 + 0.5 * d[2] end
        local n = unit(axpy(oc, -b - math.sqrt(q), d))
        return 0.2 * math.max(0,
          dot(n, { 0, 0.6, -0.8 })) + 0.8 * (0.5 + 0.5 * axpy(d, -2 * dot(d, n), n)[2])
      end)
    end },

  { "areas and normals of triangles, summed at corners", vec3 .. [=[
__global__ void normals(const float3 *pos, const int3 *tri, float3 *out, float *area, int n) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= n) return;
  auto corner = [&](int k) { const float3 p = pos[k]; return Vec3(p.x, p.y, p.z); };
  const Vec3 a = corner(tri[t].x), c = cross(corner(tri[t].y) - a, corner(tri[t].z) - a);
  area[t] = 0.5f * c.length();
  const int id[3] = {tri[t].x, tri[t].y, tri[t].z};
  for (int k : id) {
    atomicAdd(&out[k].x, c.x);
    atomicAdd(&out[k].y, c.y);
    atomicAdd(&out[k].z, c.z);
  }
}]=],
    shape = { 5, 3 }, args = function(t)
      return { t.f { 5, 3 }, t.tensor({ { 0, 1, 2 }, { 2, 1, 3 }, { 4, 0, 3 } }, "i32"), 3 }
    end,
    want = function(pos, tri, n)
      local out, area = each(15, function() return 0 end), each(15, function() return 0 end)
      for t = 0, n - 1 do
        local p = {}
        for k = 0, 2 do
          local v = 3 * tri[3 * t + k]
          p[k] = { pos[v], pos[v + 1], pos[v + 2] }
        end
        local u, v = axpy(p[1], -1, p[0]), axpy(p[2], -1, p[0])
        local c = { u[2] * v[3] - u[3] * v[2], u[3] * v[1] - u[1] * v[3],
          u[1] * v[2] - u[2] * v[1] }
        area[t] = 0.5 * math.sqrt(dot(c, c))
        for k = 0, 2 do
          for d = 0, 2 do out[3 * tri[3 * t + k] + d] = out[3 * tri[3 * t + k] + d] + c[d + 1] end
        end
      end
      return out, area
    end },

  { "dual numbers through a template", [=[
template <typename T>
struct Dual {
  T v, d;
  __device__ Dual(T value, T deriv = T(0)) : v(value), d(deriv) {}
  friend __device__ Dual operator+(Dual a, Dual b) { return Dual(a.v + b.v, a.d + b.d); }
  friend __device__ Dual operator*(Dual a, Dual b) { return {a.v * b.v, a.d * b.v + a.v * b.d}; }
  friend __device__ Dual sin(Dual a) { return {sinf(a.v), a.d * cosf(a.v)}; }
};
template <typename N> __device__ N f(N x) { return x * x * x + sin(x * x); }
__global__ void derivative(const float *x, float *y, float *dy, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const Dual<float> r = f(Dual<float>(x[i], 1.f));
  y[i] = r.v;
  dy[i] = r.d;
}]=], args = function(t) return { t.f { 7 } } end,
    want = function(x)
      return each(7, function(i) return x[i] ^ 3 + math.sin(x[i] ^ 2) end),
        each(7, function(i) return 3 * x[i] ^ 2 + 2 * x[i] * math.cos(x[i] ^ 2) end)
    end },

  { "Julia sets with a complex class", [=[
class Complex {
  float re_, im_;
public:
  __device__ Complex(float re, float im) : re_(re), im_(im) {}
  __device__ Complex operator*(const Complex &o) const { return {re_ * o.re_ - im_ * o.im_, re_ * o.im_ + im_ * o.re_}; }
  __device__ Complex operator+(const Complex &o) const { return {re_ + o.re_, im_ + o.im_}; }
  __device__ float norm() const { return re_ * re_ + im_ * im_; }
};
__global__ void julia(const float *c, float *out, int w, int n, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Complex z(-1.f + 2.f * (i % w) / w, -1.f + 2.f * (i / w) / w);
  const Complex k{c[0], c[1]};
  int r = 0;
  while (z.norm() < 4.f && r < rounds) { z = z * z + k; ++r; }
  out[i] = r + 0.125f * z.norm();
}]=],
    shape = { 4, 4 },
    args = function(t) return { t.tensor { -0.3, 0.55 }, 4, 16, 6 } end, order = 1,
    want = function(c, w, n, rounds)
      return each(n, function(i)
        local x, y, r = -1 + 2 * (i % w) / w, -1 + 2 * (i // w) / w, 0
        while x * x + y * y < 4 and r < rounds do
          x, y, r = x * x - y * y + c[0], 2 * x * y + c[1], r + 1
        end
        return r + 0.125 * (x * x + y * y)
      end)
    end, tol = 1e-4 },

  { "matrices of template sizes", [=[
template <int R, int C> struct Mat {
  float m[R][C];
  __device__ float &operator()(int r, int c) { return m[r][c]; }
  __device__ float operator()(int r, int c) const { return m[r][c]; }
  __device__ static Mat identity() {
    Mat a{};
    for (int k = 0; k < (R < C ? R : C); ++k) a(k, k) = 1.f;
    return a;
  }
};
template <int R, int K, int C>
__device__ Mat<R, C> operator*(const Mat<R, K> &a, const Mat<K, C> &b) {
  Mat<R, C> o{};
  for (int r = 0; r < R; ++r) for (int c = 0; c < C; ++c)
    #pragma unroll
    for (int k = 0; k < K; ++k) o(r, c) += a(r, k) * b(k, c);
  return o;
}
__global__ void chain(const float *angle, const float *p, float *q, int joints, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Mat<3, 3> t = Mat<3, 3>::identity();
  for (int j = 0; j < joints; ++j) {
    auto r = Mat<3, 3>::identity();
    const float c = cosf(angle[j]), s = sinf(angle[j]);
    r(0, 0) = c; r(0, 1) = -s; r(1, 0) = s; r(1, 1) = c; r(0, 2) = 1.f;
    t = t * r;
  }
  Mat<3, 1> v;
  v(0, 0) = p[2 * i]; v(1, 0) = p[2 * i + 1]; v(2, 0) = 1.f;
  const Mat<3, 1> o = t * v;
  q[2 * i] = o(0, 0);
  q[2 * i + 1] = o(1, 0);
}]=], shape = { 4, 2 }, args = function(t) return { t.f { 3 }, t.f { 4, 2 }, 3, 4 } end,
    want = function(angle, p, joints, n)
      local q = {}
      for i = 0, n - 1 do
        local x, y = p[2 * i], p[2 * i + 1]
        for j = joints - 1, 0, -1 do
          local c, s = math.cos(angle[j]), math.sin(angle[j])
          x, y = c * x - s * y + 1, s * x + c * y
        end
        q[2 * i], q[2 * i + 1] = x, y
      end
      return q
    end },

  { "a signed distance field marched with lambdas", [=[
__device__ float smooth_min(float a, float b, float k) {
  const float h = fmaxf(k - fabsf(a - b), 0.f) / k;
  return fminf(a, b) - h * h * k * 0.25f;
}
template <typename Field>
__device__ float march(const Field &field, float3 o, float3 d, int steps) {
  float t = 0.f;
  for (int k = 0; k < steps; ++k) {
    const float s = field(make_float3(o.x + t * d.x, o.y + t * d.y, o.z + t * d.z));
    if (s < 1e-4f) break;
    t += s;
  }
  return t;
}
__global__ void depth(const float *p, float *out, int w) {
  const int x = threadIdx.x, y = threadIdx.y;
  const float r0 = p[0], r1 = p[1], k = p[2];
  auto sphere = [](float3 q, float cx, float r) { return norm3df(q.x - cx, q.y, q.z - 3.f) - r; };
  auto scene = [=](float3 q) { return smooth_min(sphere(q, -0.4f, r0), sphere(q, 0.5f, r1), k); };
  const float u = (x - 1.5f) * 0.15f, v = (y - 1.f) * 0.15f, n = rsqrtf(1.f + u * u + v * v);
  out[y * w + x] = march(scene, make_float3(0.f, 0.f, 0.f), make_float3(u * n, v * n, n), 6);
}]=],
    block = { 4, 3 }, grid = { 1 }, shape = { 3, 4 },
    args = function(t) return { t.tensor { 0.7, 0.55, 0.3 }, 4 } end, tol = 1e-4,
    want = function(p, w)
      return each(12, function(i)
        local d = unit { (i % w - 1.5) * 0.15, (i // w - 1) * 0.15, 1 }
        local t = 0
        for _ = 1, 6 do
          local function ball(cx, r)
            return math.sqrt((t * d[1] - cx) ^ 2 + (t * d[2]) ^ 2 + (t * d[3] - 3) ^ 2) - r
          end
          local a, b = ball(-0.4, p[0]), ball(0.5, p[1])
          local h = math.max(p[2] - math.abs(a - b), 0) / p[2]
          local s = math.min(a, b) - h * h * p[2] * 0.25
          if s < 1e-4 then break end
          t = t + s
        end
        return t
      end)
    end },

  { "splats blended front to back", [=[
struct Splat { float x, y, r, alpha, value; };
__global__ void blend(const float *splats, float *img, float *left, int count, int w, int h) {
  const int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= w || py >= h) return;
  float T = 1.f, c = 0.f;
  for (int k = 0; k < count; ++k) {
    const float *s = splats + k * 5;
    const Splat g = {s[0], s[1], s[2], s[3], s[4]};
    const float dx = px - g.x, dy = py - g.y;
    const float a = fminf(0.97f, 0.5f * g.alpha * expf(-0.5f * (dx * dx + dy * dy) / (g.r * g.r)));
    if (a < 1.f / 255.f) continue;
    const float next = T * (1.f - a);
    if (next < 1e-2f) break;
    c += g.value * a * T;
    T = next;
  }
  img[py * w + px] = c;
  left[py * w + px] = T;
}]=],
    block = { 4, 4 }, grid = { 1, 1 }, shape = { 3, 4 },
    args = function(t) return { t.f { 6, 5, low = 0.5, high = 2 }, 6, 4, 3 } end,
    order = 1, want = function(s, count, w, h)
      local c, left = {}, {}
      for i = 0, w * h - 1 do
        c[i], left[i] = 0, 1
        for k = 0, count - 1 do
          local g = 5 * k
          local d = (i % w - s[g]) ^ 2 + (i // w - s[g + 1]) ^ 2
          local a = math.min(0.97, 0.5 * s[g + 3] * math.exp(-0.5 * d / s[g + 2] ^ 2))
          if a >= 1 / 255 then
            if left[i] * (1 - a) < 1e-2 then break end
            c[i], left[i] = c[i] + s[g + 4] * a * left[i], left[i] * (1 - a)
          end
        end
      end
      return c, left
    end },

  { "coverage of a triangle by barycentrics", [=[
struct Edge {
  float a, b, c;
  __device__ Edge(float2 p, float2 q) : a(p.y - q.y), b(q.x - p.x), c(p.x * q.y - p.y * q.x) {}
  __device__ float operator()(float x, float y) const { return a * x + b * y + c; }
};
__global__ void raster(const float2 *v, const float *colour, float *img, float soft, int w, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float x = i % w + 0.5f, y = i / w + 0.5f;
  const Edge e0(v[1], v[2]), e1(v[2], v[0]), e2(v[0], v[1]);
  const float area = e0(v[0].x, v[0].y), u = e0(x, y) / area, s = e1(x, y) / area, t = e2(x, y) / area;
  auto inside = [=](float k) { return 1.f / (1.f + expf(-k / soft)); };
  img[i] = inside(u) * inside(s) * inside(t) * (u * colour[0] + s * colour[1] + t * colour[2]);
}]=],
    shape = { 3, 4 }, args = function(t)
      return { t.tensor { { 0.3, 0.2 }, { 3.9, 0.4 }, { 1.1, 2.8 } }, t.f { 3 }, 0.1, 4, 12 }
    end,
    want = function(v, colour, soft, w, n)
      local function edge(a, b, x, y)
        return (v[2 * a + 1] - v[2 * b + 1]) * x + (v[2 * b] - v[2 * a]) * y
          + v[2 * a] * v[2 * b + 1] - v[2 * a + 1] * v[2 * b]
      end
      return each(n, function(i)
        local x, y, area, out, c = i % w + 0.5, i // w + 0.5, edge(1, 2, v[0], v[1]), 1, 0
        for k, e in ipairs { { 1, 2 }, { 2, 0 }, { 0, 1 } } do
          local q = edge(e[1], e[2], x, y) / area
          out, c = out / (1 + math.exp(-q / soft)), c + q * colour[k - 1]
        end
        return out * c
      end)
    end, tol = 1e-4 },

  { "curves of Bezier by de Casteljau", [=[
template <int N> __device__ float2 casteljau(float2 (&p)[N], float t) {
  for (int k = N - 1; k > 0; --k)
    for (int j = 0; j < k; ++j) {
      p[j].x += t * (p[j + 1].x - p[j].x);
      p[j].y += t * (p[j + 1].y - p[j].y);
    }
  return p[0];
}
__global__ void curve(const float2 *control, const float *t, float2 *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 p[4];
  for (float2 &q : p) q = control[&q - p];
  out[i] = casteljau(p, t[i]);
}]=],
    shape = { 5, 2 }, args = function(t)
      return { t.f { 4, 2 }, t.f { 5, low = 0, high = 1 }, 5 }
    end,
    want = function(c, t, n)
      return each(2 * n, function(e)
        local s, d = t[e // 2], e % 2
        return (1 - s) ^ 3 * c[d] + 3 * s * (1 - s) ^ 2 * c[2 + d] + 3 * s * s * (1 - s) * c[4 + d]
          + s ^ 3 * c[6 + d]
      end)
    end },

  { "codes of Morton and Gray, bits counted", [=[
__device__ __forceinline__ unsigned spread(unsigned v) {
  v = (v | v << 8) & 0x00ff00ffu; v = (v | v << 4) & 0x0f0f0f0fu;
  v = (v | v << 2) & 0x33333333u; v = (v | v << 1) & 0x55555555u;
  return v;
}
#define GRAY(v) ((v) ^ (v) >> 1)
__global__ void codes(const float *x, float *y, unsigned *code, int w, int n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned m = spread(i % w) | spread(i / w) << 1;
  code[i] = m;
  y[i] = x[i] * (__popc(m) - __clz(GRAY(m) | 1u) + __ffs(m)) + (__brev(m) >> 28);
}]=], shape = { 3, 5 }, args = function(t) return { t.f { 3, 5 }, 5, 15 } end,
    want = function(x, w, n)
      local m = each(n, function(i)
        local c = 0
        for b = 0, 3 do c = c | (i % w >> b & 1) << 2 * b | (i // w >> b & 1) << 2 * b + 1 end
        return c
      end)
      return each(n, function(i)
        local c, g, count, clz, ffs, rev = m[i], m[i] ~ m[i] >> 1 | 0, 0, 0, 0, 0
        g = g | 1
        for b = 31, 0, -1 do
          if c >> b & 1 == 1 then count, ffs = count + 1, b + 1 end
        end
        while g >> (31 - clz) == 0 do clz = clz + 1 end
        for b = 0, 3 do rev = rev | (c >> b & 1) << 3 - b end
        return x[i] * (count - clz + ffs) + rev
      end), m
    end },

  { "places in a warp by ballot and count", [=[
__global__ void positives(const float *x, float *y, int *count) {
  const int lane = threadIdx.x % warpSize;
  const float v = x[blockIdx.x * 32 + lane];
  y[blockIdx.x * 32 + lane] = 0.f;
  __syncwarp();
  const bool keep = v > 0.f;
  const unsigned mask = __ballot_sync(0xffffffffu, keep);
  const int at = __popc(mask & ((1u << lane) - 1u));
  if (keep) y[blockIdx.x * 32 + at] = v * v;
  if (lane == 0) count[blockIdx.x] = __popc(mask) + 100 * __any_sync(1u, v > 2.f);
}]=], block = { 32 }, grid = { 2 }, args = function(t) return { t.f { 2, 32 } } end,
    want = function(x)
      local y, count = each(64, function() return 0 end), each(64, function() return 0 end)
      for i = 0, 63 do
        if x[i] > 0 then
          y[i // 32 * 32 + count[i // 32]] = x[i] ^ 2
          count[i // 32] = count[i // 32] + 1
        end
      end
      return y, count
    end },

  { "noise of a lattice with fading", [=[
#define FADE(t) ((t) * (t) * (t) * ((t) * ((t) * 6.f - 15.f) + 10.f))
#define LERP(a, b, t) ((a) + (t) * ((b) - (a)))
static const unsigned char perm[16] = {7, 2, 9, 14, 0, 11, 5, 3, 15, 8, 1, 12, 6, 13, 4, 10};
__device__ float grad(int h, float x, float y) {
  switch (h & 3) {
    case 0: return x + y;
    case 1: return -x + y;
    case 2: return x - y;
    default: return -x - y;
  }
}
__global__ void noise(const float2 *p, float *out, int octaves, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float total = 0.f, amp = 1.f;
  for (float2 q = p[i]; octaves-- > 0; q.x *= 2.f, q.y *= 2.f, amp *= 0.5f) {
    const int X = (int)floorf(q.x), Y = (int)floorf(q.y);
    const float x = q.x - X, y = q.y - Y, u = FADE(x), v = FADE(y);
    auto h = [&](int dx, int dy) { return perm[(perm[(X + dx) & 15] + Y + dy) & 15]; };
    total += amp * LERP(LERP(grad(h(0, 0), x, y), grad(h(1, 0), x - 1, y), u),
                        LERP(grad(h(0, 1), x, y - 1), grad(h(1, 1), x - 1, y - 1), u), v);
  }
  out[i] = total;
}]=],
    shape = { 6 },
    args = function(t) return { t.f { 6, 2, low = -3, high = 3 }, 3, 6 } end, tol = 1e-4,
    want = function(p, octaves, n)
      local perm = { [0] = 7, 2, 9, 14, 0, 11, 5, 3, 15, 8, 1, 12, 6, 13, 4, 10 }
      local function fade(t) return t ^ 3 * (t * (t * 6 - 15) + 10) end
      return each(n, function(i)
        local total = 0
        for o = 0, octaves - 1 do
          local qx, qy = p[2 * i] * 2 ^ o, p[2 * i + 1] * 2 ^ o
          local X, Y = math.floor(qx), math.floor(qy)
          local x, y = qx - X, qy - Y
          local function at(a, b)
            local h = perm[perm[X + a & 15] + Y + b & 15] & 3
            return (h % 2 == 0 and 1 or -1) * (x - a) + (h < 2 and 1 or -1) * (y - b)
          end
          local u, v = fade(x), fade(y)
          total = total
            + 0.5 ^ o * ((1 - v) * ((1 - u) * at(0, 0) + u * at(1, 0))
              + v * ((1 - u) * at(0, 1) + u * at(1, 1)))
        end
        return total
      end)
    end },

  { "an integral by a rule and a function object", [=[
struct Bump { float a; __device__ float operator()(float x) const { return expf(-a * x * x) * cosf(x); } };
template <int STEPS, typename F>
__device__ float simpson(const F &f, float lo, float hi) {
  static_assert(STEPS % 2 == 0, "even");
  const float h = (hi - lo) / STEPS;
  float s = f(lo) + f(hi);
  for (int k = 1; k < STEPS; ++k) s += (k & 1 ? 4.f : 2.f) * f(lo + k * h);
  return s * h / 3.f;
}
__global__ void integrate(const float *a, const float *hi, float *y, int n) {
  int i = threadIdx.x;
  if (i < n) y[i] = simpson<16>(Bump{a[i]}, 0.f, hi[i]);
}]=],
    args = function(t)
      return { t.f { 4, low = 0.2, high = 1 }, t.f { 4, low = 0.5, high = 2 } }
    end,
    want = function(a, hi)
      return each(4, function(i)
        local h = hi[i] / 16
        return h / 3 * sum(17, function(k)
          local x = k * h
          return ((k == 0 or k == 16) and 1 or k % 2 == 1 and 4
            or 2) * math.exp(-a[i] * x * x) * math.cos(x)
        end)
      end)
    end },

  { "a path of random steps, two overloads and a class", [=[
class Rng {
  unsigned s;
  __device__ unsigned step() { s ^= s << 13; s ^= s >> 17; s ^= s << 5; return s; }
public:
  __device__ explicit Rng(unsigned seed) : s(seed * 2654435761u + 1u) {}
  __device__ float uniform() { return (step() >> 8) * (1.f / 16777216.f); }
  __device__ float operator()(float lo, float hi) { return lo + (hi - lo) * uniform(); }
};
__device__ float drift(float v, float s) { return v + s * v; }
__device__ float drift(float v, int k) { return v * (1.f + 0.01f * k); }
__global__ void paths(const float *start, const float *sigma, float *end, int steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Rng rng(i + 1);
  float v = start[i];
  for (int k = 0; k < steps; ++k) v = drift(drift(v, sigma[0] * rng(-1.f, 1.f)), k);
  end[i] = v;
}]=],
    args = function(t)
      return { t.f { 5, low = 1, high = 2 }, t.f { 1, low = 0.1, high = 0.2 }, 8, 5 }
    end,
    want = function(start, sigma, steps, n)
      return each(n, function(i)
        local s, v = (i + 1) * 2654435761 + 1 & 0xffffffff, start[i]
        for k = 0, steps - 1 do
          s = (s ~ s << 13) & 0xffffffff
          s = s ~ s >> 17
          s = (s ~ s << 5) & 0xffffffff
          v = v * (1 + sigma[0] * (2 * (s >> 8) / 16777216 - 1)) * (1 + 0.01 * k)
        end
        return v
      end)
    end },

  { "a constant expression makes a table's size", [=[
namespace poly {
constexpr __device__ int terms(int degree) { return degree + 1; }
constexpr float c[terms(4)] = {1.f, -0.5f, 0.25f, 2.f, -1.f};
template <int K> __device__ float horner(float x) {
  if constexpr (K == terms(4) - 1) return c[K];
  else return c[K] + x * horner<K + 1>(x);
}
}
__global__ void eval(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = poly::horner<0>(x[i]) + poly::c[i % poly::terms(4)];
}]=], args = function(t) return { t.f { 8 } } end,
    want = function(x)
      local c = { [0] = 1, -0.5, 0.25, 2, -1 }
      return each(8, function(i)
        return sum(5, function(k) return c[k] * x[i] ^ k end) + c[i % 5]
      end)
    end },

  { "tiles of threads that hold four results each", [=[
#define CEIL(a, b) (((a) + (b) - 1) / (b))
template <int BM, int BN, int BK, int TM>
__device__ void gemm(const float *A, const float *B, float *C, int M, int N, int K) {
  __shared__ float As[BM * BK], Bs[BK * BN];
  const int col = threadIdx.x % BN, row = threadIdx.x / BN, m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  float acc[TM] = {};
  for (int k0 = 0; k0 < CEIL(K, BK) * BK; k0 += BK) {
    for (int e = threadIdx.x; e < BM * BK; e += blockDim.x) {
      const int r = e / BK, k = e % BK;
      As[e] = m0 + r < M && k0 + k < K ? A[(m0 + r) * K + k0 + k] : 0.f;
    }
    for (int e = threadIdx.x; e < BK * BN; e += blockDim.x) {
      const int k = e / BN, c = e % BN;
      Bs[e] = n0 + c < N && k0 + k < K ? B[(k0 + k) * N + n0 + c] : 0.f;
    }
    __syncthreads();
    for (int k = 0; k < BK; ++k) {
      const float b = Bs[k * BN + col];
      #pragma unroll
      for (int t = 0; t < TM; ++t) acc[t] += As[(row * TM + t) * BK + k] * b;
    }
    __syncthreads();
  }
  for (int t = 0; t < TM; ++t) {
    const int r = m0 + row * TM + t;
    if (r < M && n0 + col < N) C[r * N + n0 + col] = acc[t];
  }
}
__global__ void product(const float *A, const float *B, float *C, int M, int N, int K) { gemm<8, 4, 4, 2>(A, B, C, M, N, K); }]=],
    block = { 16 }, grid = { 2, 2 }, shape = { 9, 5 }, args = function(t)
      return { t.f { 9, 6 }, t.f { 6, 5 }, 9, 5, 6 }
    end,
    want = function(a, b, M, N, K)
      return each(M * N, function(i)
        return sum(K, function(k) return a[i // N * K + k] * b[k * N + i % N] end)
      end)
    end },

  { "a struct in a template, named outside, whose functions use what is around it", [=[
template <int R, typename T> struct Tile {
  static constexpr int ROWS = R, COLUMNS = 3;
  T m[R][COLUMNS];
  struct Column {
    T v[R];
    struct Sum { T s; __device__ T mean() const { return s / R; } };
    __device__ Sum sum() const {
      Sum r{T(0)};
      for (int i = 0; i < ROWS; ++i) r.s += v[i] * v[i];
      return r;
    }
  };
  __device__ Column column(int c) const {
    Column r;
    for (int i = 0; i < R; ++i) r.v[i] = m[i][c];
    return r;
  }
};
template <typename V> __device__ float mean(const V &tile, int c) {
  typename V::Column::Sum s = tile.column(c).sum();
  return s.mean();
}
__global__ void columns(const float *x, float *y, int n) {
  typedef Tile<2, float> Two;
  const int i = threadIdx.x;
  if (i >= n) return;
  Two t;
  for (int r = 0; r < Two::ROWS; ++r)
    for (int c = 0; c < Two::COLUMNS; ++c) t.m[r][c] = x[6 * i + 3 * r + c];
  Tile<2, float>::Column last = t.column(2);
  last.v[0] *= 2.f;
  y[i] = mean(t, 0) + last.sum().mean();
}]=], block = { 4 }, grid = { 1 }, shape = { 3 }, args = function(t) return { t.f { 18 }, 3 } end,
    want = function(x)
      return each(3, function(i)
        return (x[6 * i] ^ 2 + x[6 * i + 3] ^ 2 + 4 * x[6 * i + 2] ^ 2 + x[6 * i + 5] ^ 2) / 2
      end)
    end },
}
