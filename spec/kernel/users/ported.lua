--- Kernels that pass memory as large programs do: array parameters and pointers to arrays, memory
--- read as words of another size, volatile memory, constants that the host sets.

local each = dofile("spec/kernel/users/each.lua")

return {
  { "parameters that are arrays of arrays", [=[
__device__ float corner(const float (*m)[3], int i) { return m[i][0] * m[i][2]; }
__global__ void rows(const float a[4][2][3], const float (*__restrict__ b)[3], float c[][3],
                     float (*d)[2]) {
  const int i = threadIdx.x;
  const float (*row)[3] = a[i];
  c[i][0] = corner(row, 1) * (*b)[1];
  c[i][1] = row[0][1] * a[i][1][1];
  c[i][2] = b[i][0] + (*(b + i))[2];
  ++row;
  d[i][1] = (*row)[1] * b[i][1];
  d[i][0] = (float)(sizeof(*d) / sizeof(float));
}]=], block = { 4 }, grid = { 1 }, shape = { 12 },
    args = function(t) return { t.f { 4, 2, 3 }, t.f { 12 } } end,
    want = function(a, b)
      local c, d = {}, each(12, function() return 0 end)
      for i = 0, 3 do
        c[3 * i] = a[6 * i + 3] * a[6 * i + 5] * b[1]
        c[3 * i + 1] = a[6 * i + 1] * a[6 * i + 4]
        c[3 * i + 2] = b[3 * i] + b[3 * i + 2]
        d[2 * i], d[2 * i + 1] = 2, a[6 * i + 4] * b[3 * i + 1]
      end
      return c, d
    end },

  { "memory cast to rows, vectors in arrays", [=[
typedef float mat[2][2];
__device__ void turn(mat m, float v) { m[0][1] = v * m[0][0]; m[1][0] = v - m[1][1]; }
__global__ void cast_rows(const float4 (*p)[2], const float *x, float *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  const float (*x2)[2] = (const float (*)[2])x;
  float (*y2)[2] = reinterpret_cast<float (*)[2]>(y);
  mat m = {{x2[i][0], 0.f}, {0.f, x2[i][1]}};
  turn(m, p[i][0].y * p[i][1].w);
  y2[i][0] = m[0][1] * m[1][0];
  y2[i][1] = (*(const float (*)[2])(x + 2 * i))[0] * p[0][i & 1].x;
}]=], block = { 4 }, grid = { 1 }, shape = { 8 },
    args = function(t) return { t.f { 4, 2, 4 }, t.f { 8 }, 4 } end,
    want = function(p, x)
      local y = {}
      for i = 0, 3 do
        local v = p[8 * i + 1] * p[8 * i + 7]
        y[2 * i] = v * x[2 * i] * (v - x[2 * i + 1])
        y[2 * i + 1] = x[2 * i] * p[4 * (i % 2)]
      end
      return y
    end },

  { "planes of a box, more elements than a byte counts", [=[
__global__ void planes(const float u[2][16][18], float v[][16][18]) {
  const int x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;
  if (x < 1 || x > 16 || y < 1 || y > 14) return;
  v[z][y][x] = u[z][y][x] * (u[1 - z][y - 1][x] - u[z][y][x + 1]);
}]=], block = { 18 }, grid = { 16, 2 }, order = 1,
    args = function(t) return { t.f { 2, 16, 18 } } end,
    want = function(u)
      return each(576, function(e)
        local x, y, z = e % 18, e // 18 % 16, e // 288
        if x < 1 or x > 16 or y < 1 or y > 14 then return 0 end
        return u[e] * (u[288 * (1 - z) + 18 * (y - 1) + x] - u[e + 1])
      end)
    end },

  { "words of 16 bytes over halves, computed on as floats", [=[
__device__ int4 load16(const __half *p) { return *reinterpret_cast<const int4 *>(p); }
__global__ void scale8(const __half *x, const float *w, __half *y, float *norm, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 raw = ((const float4 *)x)[i];
  const __half2 *pairs = (const __half2 *)&raw;
  float sum = 0.f, v[8];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    float2 f = __half22float2(pairs[k]);
    v[2 * k] = f.x * w[2 * k];
    v[2 * k + 1] = f.y * w[2 * k + 1];
    sum += f.x * f.x + f.y * f.y;
  }
  int4 out = make_int4(0, 0, 0, 0), again = load16(x + 8 * i);
  __half *h = reinterpret_cast<__half *>(&out);
  for (int k = 0; k < 8; ++k) h[k] = __float2half(v[k]) + ((__half *)&again)[7 - k];
  *reinterpret_cast<int4 *>(y + 8 * i) = out;
  norm[i] = sum;
}]=], block = { 4 }, grid = { 1 }, shape = { 32 }, single = true, tol = 2e-3,
    args = function(t)
      local x = t.f { 32 }
      return { x:to("f16"), t.f { 8 }, 4 }
    end,
    want = function(x, w)
      local y, norm = {}, each(32, function() return 0 end)
      for i = 0, 31 do
        y[i] = x[i] * w[i % 8] + x[i - i % 8 + 7 - i % 8]
        norm[i // 8] = norm[i // 8] + x[i] ^ 2
      end
      return y, norm
    end },

  { "rows copied as int4, through registers and shared memory", [=[
__global__ void by_words(const float *x, float *y, float *z, int n) {
  constexpr int V = sizeof(int4) / sizeof(float), W = sizeof(uint2);
  __shared__ int4 tile[16];
  const int t = threadIdx.x, words = n / V;
  for (int w = t; w < words; w += 8) tile[w] = ((const int4 *)x)[w];
  __syncthreads();
  for (int w = t; w < words; w += 8) {
    int4 v = tile[w];
    float *f = (float *)&v;
    for (int k = 0; k < V; ++k) f[k] *= ((float *)tile)[(V * w + k + 16) % n];
    *(int4 *)(y + V * w) = v;
  }
  for (int w = t; w < n * (int)sizeof(float) / W; w += 8) {
    uint2 half = *(const uint2 *)((const char *)x + W * w);
    if (w % 8) reinterpret_cast<uint2 *>(z)[w] = half;
    else ((long long *)z)[w] = ((const long long *)x)[w];
  }
}]=], block = { 8 }, grid = { 1 }, shape = { 32 },
    args = function(t) return { t.f { 32 }, 32 } end,
    want = function(x)
      return each(32, function(i) return x[i] * x[(i + 16) % 32] end), x
    end },

  { "four bytes at a time, with a scale for each group", [=[
__global__ void dequantise(const unsigned char *q, const signed char *zero, const float *scale,
                           float *y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (4 * i >= n) return;
  const unsigned packed = *(const unsigned *)(q + 4 * i);
  const char4 z = reinterpret_cast<const char4 *>(zero)[i / 2];
  const unsigned short low = ((const unsigned short *)q)[2 * i];
  float4 v;
  v.x = scale[i / 2] * ((int)(packed & 0xff) - z.x);
  v.y = scale[i / 2] * ((int)(packed >> 8 & 0xff) - z.y);
  v.z = scale[i / 2] * ((int)(packed >> 16 & 0xff) - z.z) + 0.01f * low;
  v.w = scale[i / 2] * ((int)(packed >> 24) - z.w) * scale[i];
  ((float4 *)y)[i] = v;
}]=], block = { 4 }, grid = { 1 }, shape = { 16 },
    args = function(t)
      local q, z = {}, {}
      for i = 1, 16 do q[i], z[i] = (i * 37 + 11) % 256, (i * 29) % 200 - 100 end
      return { t.tensor(q, "u8"), t.tensor(z, "i8"), t.f { 4 }, 16 }
    end,
    want = function(q, z, s)
      return each(16, function(e)
        local i, k = e // 4, e % 4
        local v = s[i // 2] * (q[e] - z[4 * (i // 2) + k])
        if k == 2 then v = v + 0.01 * (q[4 * i] + 256 * q[4 * i + 1]) end
        return k == 3 and v * s[i] or v
      end)
    end },

  { "halves packed into words in registers", [=[
__device__ unsigned pack2(float a, float b) {
  __half2 h = __floats2half2_rn(a, b);
  return *reinterpret_cast<unsigned *>(&h);
}
__global__ void pack8(const float *x, __half *y, int n) {
  const int i = threadIdx.x;
  const float *p = x + 8 * i;
  uint4 o;
  o.x = pack2(p[0] * p[1], p[1]);
  o.y = pack2(p[2], p[3] * p[3]);
  unsigned z = pack2(p[4], p[5]);
  o.z = z;
  o.w = i < 2 ? pack2(p[6], p[7]) : 0u;
  *(uint4 *)&y[8 * i] = o;
}]=], block = { 4 }, grid = { 1 }, shape = { 32 }, single = true, tol = 2e-3,
    args = function(t) return { t.f { 32 }, 32 } end,
    want = function(x)
      return each(32, function(e)
        local k = e % 8
        if k > 5 and e > 15 then return 0 end
        return k == 0 and x[e] * x[e + 1] or k == 3 and x[e] * x[e] or x[e]
      end)
    end },

  { "vectors of a template, loaded as one", [=[
template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T at[N]; };
template <typename T, int N> __device__ void load(T (&to)[N], const T *from) {
  using V = Pack<T, N>;
  *(V *)&to = *reinterpret_cast<const V *>(from);
}
__global__ void squares(const float *x, float *y, int n) {
  float v[2], w[4];
  const int i = threadIdx.x;
  load(v, x + 2 * i);
  load(w, x + 4 * (i / 2));
  Pack<float, 2> r;
  r.at[0] = v[0] * w[1];
  r.at[1] = v[1] * w[3] + w[0];
  ((Pack<float, 2> *)y)[i] = r;
}]=], block = { 8 }, grid = { 1 }, shape = { 16 },
    args = function(t) return { t.f { 16 }, 16 } end,
    want = function(x)
      return each(16, function(e)
        local w = 4 * (e // 4)
        return e % 2 == 0 and x[e] * x[w + 1] or x[e] * x[w + 3] + x[w]
      end)
    end },

  { "shared bytes cut into reals and integers", [=[
__global__ void cut(const float *x, const int *at, float *y, int n) {
  __shared__ __align__(16) unsigned char room[8 * sizeof(float) + 8 * sizeof(int)];
  float *values = reinterpret_cast<float *>(room);
  int *places = (int *)(room + 8 * sizeof(float));
  const int t = threadIdx.x;
  values[t] = x[t] * x[t];
  places[t] = at[t];
  __syncthreads();
  y[t] = values[places[t]] * x[t];
}]=], block = { 8 }, grid = { 1 }, shape = { 8 },
    refuses = "the bits of a real number",
    args = function(t) return { t.f { 8 }, t.i { 3, 0, 7, 7, 1, 2, 5, 4 }, 8 } end,
    want = function(x, at)
      return each(8, function(i) return x[at[i]] ^ 2 * x[i] end)
    end },

  { "a scan of a warp in volatile memory, then of the warps", [=[
__device__ float scan_warp(volatile float *s, float v, int lane) {
  s[lane] = 0.f;
  s += 32;
  s[lane] = v;
  for (int d = 1; d < 32; d *= 2) s[lane] = s[lane] + s[lane - d];
  return s[lane];
}
__global__ void scan(const float *x, float *y, int n) {
  __shared__ volatile float room[2][64];
  __shared__ float sums[2];
  const int t = threadIdx.x, w = t / 32;
  const float mine = t < n ? x[t] * x[t] : 0.f;
  const float all = scan_warp(&room[w][0], mine, t % 32);
  if (t % 32 == 31) sums[w] = all;
  __syncthreads();
  if (t < n) y[t] = (w ? all + sums[0] : all) * x[t];
}]=], block = { 64 }, grid = { 1 }, order = 1, args = function(t) return { t.f { 50 }, 50 } end,
    want = function(x)
      local sum = 0
      return each(50, function(i)
        sum = sum + x[i] ^ 2
        return sum * x[i]
      end)
    end },

  { "volatile memory of fewer threads than a warp, in halves", [=[
template <int N> __device__ void fold(volatile float *s, const int t) {
  if (N >= 16) { if (t < 8) s[t] = s[t] * s[t + 8]; }
  if (t < 4) {
    s[t] += s[t + 4];
    float m = s[t + 2];
    s[t] = fmaxf(s[t], m);
    s[t] -= 2.f * s[t + 1];
  }
}
__global__ void fold16(const float *x, float *y, volatile int *seen, int n) {
  extern __shared__ volatile float s[];
  const int t = threadIdx.x;
  s[t] = x[blockIdx.x * 16 + t];
  fold<16>(s, t);
  if (t == 0) { y[blockIdx.x] = s[0]; seen[blockIdx.x] = t + 1; }
}]=], block = { 16 }, grid = { 3 }, shape = { 3 }, shared = 16 * 4,
    args = function(t) return { t.f { 48 }, 48 } end,
    want = function(x)
      local y = each(3, function(b)
        local s = each(16, function(i) return x[16 * b + i] end)
        for i = 0, 7 do s[i] = s[i] * s[i + 8] end
        local function step(f)
          local new = each(4, f)
          for i = 0, 3 do s[i] = new[i] end
        end
        step(function(i) return s[i] + s[i + 4] end)
        step(function(i) return math.max(s[i], s[i + 2]) end)
        step(function(i) return s[i] - 2 * s[i + 1] end)
        return s[0]
      end)
      return y, { [0] = 1, 1, 1 }
    end },

  { "constructors by default, and those of other instances of the template", [=[
template <typename T> struct Pair {
  T a, b;
  Pair() = default;
  __device__ Pair(T x, T y) : a(x), b(y) {}
  __host__ __device__ Pair(const Pair &) = default;
  template <typename U> __device__ Pair(const Pair<U> &o) : a((T)o.a), b((T)o.b) {}
  Pair &operator=(const Pair &) = default;
  ~Pair() = default;
  __device__ T dot(const Pair &o) const { return a * o.a + b * o.b; }
};
struct Unit {
  float v;
  __device__ Unit() = default;
  template <typename U> __device__ Unit(U x) : v((float)x + 1.f) {}
};
__device__ float weigh(Pair<float> p, Unit u) { return p.a * u.v - p.b; }
__global__ void pairs(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  Pair<float> p(x[i], 2.f), q, all[2];
  Pair<double> wide(x[(i + 1) % n], 3.);
  q = wide;
  Pair<float> r = wide, s(r);
  all[0] = p;
  all[1] = s;
  Unit u = 2;
  u = x[i] * x[i];
  y[i] = p.dot(q) + weigh(wide, u) * all[1].dot(all[0]) + weigh(r, x[i]);
}]=], block = { 8 }, args = function(t) return { t.f { 6 }, 6 } end,
    want = function(x, n)
      return each(n, function(i)
        local a, b = x[i], x[(i + 1) % n]
        local dot = a * b + 6
        return dot + (b * (a * a + 1) - 3) * dot + b * (a + 1) - 3
      end)
    end },

  { "pointers that are not given", [=[
__device__ float act(const float *x, const float *bias, const float *scale, int i, float *keep) {
  float v = x[i];
  if (bias != nullptr) v += bias[i];
  if (scale) v *= scale[0];
  if (keep) *keep = v * v;
  return bias == NULL ? v : v + (scale ? scale[1] : 1.f);
}
template <typename T> __device__ T sum(const T *x, int n, const T *w = nullptr) {
  T s = 0;
  for (int i = 0; i < n; ++i) s += w ? w[i] * x[i] : x[i];
  return s;
}
__global__ void given(const float *x, const float *b, const float *s, float *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  float k;
  y[i] = act(x, nullptr, nullptr, i, nullptr) * act(x, b, s, i, &k) + k * act(x, 0, s, i, NULL);
  y[i] += sum(x, n) * sum(x, n, b) * act(x, b, nullptr, i, 0);
}]=], block = { 8 }, args = function(t) return { t.f { 5 }, t.f { 5 }, t.f { 2 }, 5 } end,
    want = function(x, b, s, n)
      local all, weighted = 0, 0
      for i = 0, n - 1 do all, weighted = all + x[i], weighted + b[i] * x[i] end
      return each(n, function(i)
        local v = (x[i] + b[i]) * s[0]
        return x[i] * (v + s[1]) + v * v * x[i] * s[0] + all * weighted * (x[i] + b[i] + 1)
      end)
    end },

  { "memcpy and memset", [=[
struct Node { float v[3]; int n; __device__ Node() { v[0] = v[1] = v[2] = 7.f; n = 9; } };
__global__ void bytes(const float *x, float *y, int *z, int n) {
  __shared__ float tile[32];
  const int t = threadIdx.x;
  float v[4], w[20];
  memcpy(v, x + 4 * t, sizeof(v));
  memset(w, 0, sizeof(w));
  memset(w + 2, 0, (size_t)n * sizeof(float));
  memcpy(&w[3], (const char *)v + sizeof(float), 2 * sizeof(float));
  Node d;
  if (t & 1) memset(&d, 0, sizeof d);
  int ones;
  memset(&ones, 0xff, sizeof(int));
  memcpy(tile + 4 * t, v, 4 * sizeof(float));
  __syncthreads();
  memcpy((void *)v, (const void *)&tile[4 * (t ^ 1)], 16 * sizeof(float) / 4);
  for (int k = 0; k < 4; ++k) v[k] *= w[3] + w[k + 1] + d.v[k % 3];
  memcpy(y + 4 * t, v, sizeof v);
  z[t] = d.n + ones;
}]=], block = { 8 }, shape = { 32 }, grid = { 1 },
    args = function(t) return { t.f { 32 }, 8 } end,
    want = function(x)
      return each(32, function(e)
        local t, k = e // 4, e % 4
        local w = { [3] = x[4 * t + 1], [4] = x[4 * t + 2] }
        return x[4 * (t ~ 1) + k] * (w[3] + (w[k + 1] or 0) + (t % 2 == 1 and 0 or 7))
      end), each(32, function(t) return t > 7 and 0 or t % 2 == 1 and -1 or 8 end)
    end },

  { "functions as arguments of functions and of templates", [=[
using fold_t = float (*)(float, float);
typedef float (*map_t)(float);
__device__ float add(float a, float b) { return a + b; }
__device__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ float square(float v) { return v * v; }
__device__ float twice(float v) { return 2.f * v; }
template <fold_t fold> __device__ float over(const float *x, int n, float first = 0.f) {
  float s = first;
  for (int i = 0; i < n; ++i) s = fold(s, x[i]);
  return s;
}
template <fold_t fold, int N> struct Folder {
  __device__ float operator()(const float *x) const { return over<fold>(x, N); }
};
__device__ float through(map_t f, float v) { return f(v) + v; }
__device__ float through2(float (*f)(float), float (*g)(float, float), float v) {
  return g(f(v), through(f, v));
}
template <typename F> __device__ float each(F f, float v) { return f(v) * f(v + 1.f); }
__global__ void folds(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  Folder<larger, 4> most;
  y[i] = over<add>(x + i, 3) * over<larger>(x, n, -9.f) + most(x) * through(square, x[i]);
  y[i] += through2(square, add, x[i]) + each(square, x[i]) + each(twice, x[i]);
}]=], block = { 8 }, shape = { 5 }, args = function(t) return { t.f { 8 }, 5 } end,
    want = function(x)
      local m = math.max(x[0], x[1], x[2], x[3], x[4])
      local first = math.max(0, x[0], x[1], x[2], x[3])
      return each(5, function(i)
        local v = x[i]
        return (v + x[i + 1] + x[i + 2]) * m + first * (v * v + v) + v * v + v * v + v
          + v ^ 2 * (v + 1) ^ 2 + 2 * v * 2 * (v + 1)
      end)
    end },

  { "specialisations that say their arguments by what they return", [=[
enum class Policy { All, Global };
template <typename To, typename From> __device__ To to(From v) { return (To)v; }
template <> __device__ int to(float v) { return __float2int_rn(v) + 100; }
template <typename T> __device__ T limited(const float v) { return v; }
template <> __device__ int limited(const float v) { return (int)v - 1; }
template <int Bytes, Policy p = Policy::All> __device__ void load(void *to, const void *from);
template <int Bytes, Policy p = Policy::All> __device__ void load(void *to, const void *from,
                                                                   bool really);
template <> __device__ void load<8>(void *to, const void *from) {
  ((int2 *)to)[0] = ((const int2 *)from)[0];
}
template <> __device__ void load<8, Policy::Global>(void *to, const void *from) {
  ((int2 *)to)[0] = make_int2(((const int2 *)from)[0].y, 0);
}
template <> __device__ void load<8>(void *to, const void *from, bool really) {
  if (really) ((int2 *)to)[0] = ((const int2 *)from)[0];
  else ((int2 *)to)[0] = make_int2(0, 0);
}
__global__ void loads(const float *x, float *y, const int n = 4) {
  const int i = threadIdx.x;
  float a[2], b[2], c[2];
  load<8>(a, x + 2 * i);
  load<8, Policy::Global>(b, x + 2 * i);
  load<8>(c, x + 2 * i, i != 1);
  y[i] = a[0] * a[1] + 3.f * b[0] + c[0] * c[0] * a[1];
  y[i] += (float)to<int>(1.5f) + to<float>(2) + limited<int>(7.5f) + limited<float>(.5f);
  if (i == n) printf("%d: " "not " "reached\n", i);
}]=], block = { 4 }, grid = { 1 }, shape = { 4 }, single = true,
    args = function(t) return { t.f { 8 }, 4 } end,
    want = function(x)
      return each(4, function(i)
        local a, b = x[2 * i], x[2 * i + 1]
        return a * b + 3 * b + (i == 1 and 0 or a * a * b) + 102 + 2 + 6 + .5
      end)
    end },

  { "a function of the host beside the device's of its name", [=[
namespace host { inline int half_of(int v) { return v >> 2; } }
namespace gpu { __host__ __device__ __forceinline__ int half_of(int v) { return v >> 1; } }
const auto kSmall = 0.25f;
typedef short3 place;
__device__ place make_place(short x, short y, short z) { place p; p.x = x + y * z; return p; }
__global__ void halves(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  if (i < n) y[i] = x[gpu::half_of(i)] * kSmall + (float)make_place(i, 2, 3).x;
}]=], block = { 8 }, args = function(t) return { t.f { 6 }, 6 } end,
    want = function(x) return each(6, function(i) return x[i // 2] / 4 + i + 6 end) end },

  { "casts to references", [=[
struct Base { float v; };
struct Derived : Base { float w; };
__global__ void views(const float *x, float *y, int *b, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  Derived d;
  static_cast<Base &>(d).v = v;
  d.w = const_cast<const float &>(v);
  y[i] = d.v * d.w + reinterpret_cast<float &>(v);
  b[i] = reinterpret_cast<int &>(v) - (int &)v + __float_as_int(v);
}]=], block = { 8 }, shape = { 5 }, single = true, args = function(t) return { t.f { 5 }, 5 } end,
    want = function(x)
      return each(5, function(i) return x[i] * x[i] + x[i] end),
        each(5, function(i) return (string.unpack("<i4", string.pack("<f", x[i]))) end)
    end },

  { "pointers that are null where a flag says so", [=[
struct Scale { const float *by; };
__device__ float scaled(float v, const float *by, int i) {
  if (by != nullptr) v *= by[i];
  return by ? v + by[0] : v;
}
__device__ void keep(float v, float *to, int i) {
  if (!to) return;
  to[i] = v;
}
template <bool FIRST> __device__ float chosen(const float *a, int i) {
  const float *p = FIRST ? nullptr : a;
  return p ? p[i] : 1.f;
}
__global__ void maybe(const float *x, const float *w, float *y, float *z, int n, int flag) {
  const int i = threadIdx.x;
  if (i >= n) return;
  const float *row = flag > 1 ? w + 1 : nullptr;
  const float *next = row == nullptr ? nullptr : row + 1;
  y[i] = scaled(x[i], i < flag ? w : nullptr, i) + scaled(x[i], row, i) * scaled(2.f, next, i);
  y[i] += chosen<true>(x, i) * chosen<false>(x, i);
  keep(y[i] * x[i], i % 2 ? nullptr : z, i);
  if ((size_t)(x + 4 * i) % 16 == 0 && (((unsigned long long)&x[i]) & 7) == (i % 2) * sizeof(float))
    y[i] += x[0];
}]=], block = { 8 }, shape = { 5 }, single = true,
    args = function(t) return { t.f { 20 }, t.f { 8 }, 5, 3 } end,
    want = function(x, w)
      local y = each(5, function(i)
        local a = i < 3 and x[i] * w[i] + w[0] or x[i]
        local b, c = x[i] * w[1 + i] + w[1], 2 * w[2 + i] + w[2]
        return a + b * c + x[i]
      end)
      local z = each(5, function(i) return i % 2 == 0 and y[i] * x[i] or 0 end)
      for i = 0, 4 do y[i] = y[i] + x[0] end
      return y, z
    end },

  { "a loop over an object with begin and end", [=[
template <typename T> struct Strided {
  struct Iterator {
    T at, by;
    __device__ Iterator(T at, T by) : at(at), by(by) {}
    __device__ T operator*() const { return at; }
    __device__ Iterator &operator++() { at += by; return *this; }
    __device__ bool operator!=(const Iterator &o) const { return at < o.at; }
  };
  T from, to, by;
  __device__ Strided(T from, T to, T by) : from(from), to(to), by(by) {}
  __device__ Iterator begin() const { return Iterator(from, by); }
  __device__ Iterator end() const { return Iterator(to, by); }
};
__global__ void strides(const float *x, float *y, int n) {
  for (int i : Strided<int>(threadIdx.x, n, blockDim.x)) {
    float s = 0.f;
    for (auto k : Strided<int>(0, 3, 1)) {
      if (k == i) continue;
      s += x[i] * x[k];
    }
    y[i] = s;
  }
}]=], block = { 4 }, grid = { 1 }, args = function(t) return { t.f { 10 }, 10 } end,
    want = function(x)
      return each(10, function(i)
        local s = 0
        for k = 0, 2 do if k ~= i then s = s + x[i] * x[k] end end
        return s
      end)
    end },

  { "other names of enumerations, constants that are templates", [=[
namespace reduce { enum class Op { Sum, Max }; }
using ROp = reduce::Op;
typedef enum { LEFT = 2, RIGHT = 5 } side_t;
template <typename T> const T kHalf = T(0.5);
template <ROp op> __device__ float combine(float a, float b) {
  return op == ROp::Sum ? a + b : fmaxf(a, b);
}
__global__ void named(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  const __half h = __ushort_as_half(__half_as_ushort(__float2half(1.5f)));
  y[i] = combine<ROp::Sum>(x[i], kHalf<float>) * combine<ROp::Max>(x[i], 0.25f);
  y[i] += (float)(side_t::RIGHT - LEFT) + __half2float(h);
}]=], block = { 8 }, single = true, args = function(t) return { t.f { 6 }, 6 } end,
    want = function(x)
      return each(6, function(i) return (x[i] + 0.5) * math.max(x[i], 0.25) + 3 + 1.5 end)
    end },
}
