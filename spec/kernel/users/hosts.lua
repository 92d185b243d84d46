--- Kernels with what texts written for nvcc, PyTorch and game engines take for granted: moved
--- values, texts in tables, copies of an object in a lambda, unnamed unions, names in namespaces.
-- luacheck: no max line length
local lists = dofile("spec/kernel/users/lists.lua")
local each = lists.each

return {
  { "values that are moved and forwarded", [=[
#include <utility>
struct V { float x, y; };
template <class T> __device__ float twice(T &&v) { return v * 2.f; }
template <class T> __device__ float pass(T &&v) { return twice(std::forward<T>(v)); }
template <class A, class B> __device__ void add(A &&a, B &&b) { std::forward<A>(a) += std::forward<B>(b); }
__global__ void k(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  V a{x[i], x[i + 1]};
  V b = std::move(a);
  float &&r = std::move(b.x);
  r += 1.f;
  add(b.y, r * x[i]);
  y[i] = b.y * b.x + pass(b.x) - pass(x[i] * 3.f) * a.y;
}]=], shape = { 4 }, args = function(t) return { t.f { 5 }, 4 } end,
    want = function(x, n)
      return each(n, function(i)
        local bx = x[i] + 1
        local by = x[i + 1] + bx * x[i]
        return by * bx + 2 * bx - 6 * x[i] * x[i + 1]
      end)
    end },

  { "texts as tables of characters", [=[
__device__ const char *order = "ACGT";
__device__ float weight(int c, const float *x) {
  static const char *const letters = "TGCA\n";
  float s = 0.f;
  for (int j = 0; letters[j] != '\n'; ++j) s += letters[j] == c ? x[j] : 0.f;
  return s;
}
__global__ void k(const float *x, const int *at, float *y, int n) {
  const int i = threadIdx.x;
  char const *small = "acgt";
  if (i < n) y[i] = weight(order[at[i]], x) * (float)(small[at[i]] - order[at[i]]) + (float)small[4];
}]=], shape = { 4 }, args = function(t) return { t.f { 5 }, t.i { 3, 0, 1, 2 }, 4 } end,
    want = function(x, at, n) return each(n, function(i) return 32 * x[3 - at[i]] end) end },

  { "the size of a pointer to a text", [=[
__global__ void k(const float *x, float *y) {
  const char *t = "abc";
  y[0] = x[0] * (float)t[1] + (float)sizeof(t);
}]=], shape = { 1 }, args = function(t) return { t.f { 1 } } end,
    outside = "'t' is a text, for printf and [i]" },

  { "a lambda with a copy of its object", [=[
struct Line {
  float a, b;
  __device__ float at(float v) const { return a * v + b; }
  __device__ float both(float v, float w) {
    auto f = [*this](float u) { return a * u + at(u) + this->b; };
    auto g = [=, *this](float u) { return b * u * w; };
    auto h = hides(v);
    a = v;
    b = 0.f;
    return f(v) + g(w) + a * w + h;
  }
  __device__ float hides(float a) {
    auto f = [*this, a]() { return 3.f * a + this->a; };
    auto g = [=, *this](float w) { return a * w + b; };
    this->a += 1.f;
    const float r = f() + g(2.f);
    this->a -= 1.f;
    return r;
  }
};
__global__ void k(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  Line l{x[i], x[i + 1]};
  y[i] = l.both(x[i + 2], 0.5f) + l.a;
}]=], shape = { 4 }, args = function(t) return { t.f { 6 }, 4 } end,
    want = function(x, n)
      return each(n, function(i)
        local a, b, v = x[i], x[i + 1], x[i + 2]
        return 2 * a * v + 2 * b + 0.25 * b + 0.5 * v + v + 5 * v + a + b
      end)
    end },

  { "members of several unnamed unions, and bases of one template", [=[
#define VECTOR(name) template <class T, int N> struct name {}; \
  template <class T> struct name<T, 3> { \
    union { T x, r; }; union { T y, g; }; union { T z, b; }; \
    __device__ name(T a, T c) : z{a}, r(a * c), y{c} {} \
    __device__ T sum() const { return r + 2 * y + 3 * b; } \
  }; \
  using name##3x1 = name<float, 3>;
VECTOR(vec)
template <class T> struct Held { T v; __device__ T get() const { return v * v; } };
struct Two : Held<float>, Held<int> {
  __device__ Two(float a, int b) { static_cast<Held<float> &>(*this).v = a; static_cast<Held<int> &>(*this).v = b; }
};
__global__ void k(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  vec3x1 v(x[i], x[i + 1]), u = v;
  v.x = x[i];
  v.g = x[i + 1] * v.r;
  v.b = v.y;
  const Two t(v.z, i);
  y[i] = v.sum() + u.sum() + static_cast<const Held<float> &>(t).get() * static_cast<const Held<int> &>(t).get();
}]=], shape = { 4 }, args = function(t) return { t.f { 5 }, 4 } end,
    want = function(x, n)
      return each(n, function(i)
        local p = x[i] * x[i + 1]
        return x[i] + 5 * p + p + 2 * x[i + 1] + 3 * x[i] + p * p * i * i
      end)
    end },

  { "a function in a namespace that has the name of a built-in one", [=[
typedef int int32;
namespace own {
using ::int32;
static inline __device__ void atomicAdd(float *at, float v) { ::atomicAdd(at, v); }
__device__ inline float sqrtf(float v) { return 2.f * ::sqrtf(v); }
template <class T> __device__ T fmin(T a, T b) { return std::fmin(a, b) + T(3); }
struct Part {
  mutable float kept;
  float v;
  __device__ float square() const { return v * v + kept; }
};
}
__global__ void k(const float *x, float *y, int n) {
  const own::int32 i = threadIdx.x;
  if (i >= n) return;
  const own::Part part = {1.f, x[i]};
  own::atomicAdd(y + i % 2, own::sqrtf(part.square()));
  ::atomicAdd(y, ::sqrtf(part.square()) * own::fmin(x[i], 0.f) + std::fmin(part.v, 2.f));
}]=], shape = { 2 }, args = function(t) return { t.f { 4 }, 4 } end,
    want = function(x, n)
      return each(2, function(i)
        local s = 0
        for j = i, n - 1, 2 do s = s + 2 * math.sqrt(x[j] * x[j] + 1) end
        for j = 0, i == 0 and n - 1 or -1 do
          s = s + math.sqrt(x[j] * x[j] + 1) * (math.min(x[j], 0) + 3) + x[j]
        end
        return s
      end)
    end },

  { "names of CUDA and of std that functions of namespaces, members and variables have, too", [=[
#include <utility>
namespace own {
__device__ float fmaxf(float a, float b) { return a * b; }
__device__ float sqrtf(float v) { return ::sqrtf(v * v + 1.f); }
__device__ float most(float v) { return v > ::fmaxf(v, 0.25f) - 0.5f ? fmaxf(v, 2.f) : v; }
__device__ void swap(float &a, float &b) { a = 2.f * b; }
__device__ float move(float v) { return v * v; }
__device__ int max(int a, int b) { return a + b; }
__device__ float fabsf(int v) { return 100.f + (float)v; }
__device__ float whole(float v) { return fabsf(v * 0.f + 2.f); }
struct S {
  float v;
  __device__ float fabsf(float w) const { return 5.f * w; }
  __device__ float both() const { return fabsf(v) + ::fabsf(v) + std::exp(v); }
  __device__ float far() const;
};
__device__ void atomicAdd(float *p, float v) { if (v > 9.f) *p = v; else ::atomicAdd(p, 3.f * v); }
}
namespace other { __device__ float twice(float v) { return 2.f * fmaxf(v, 0.5f); } }
__device__ float own::S::far() const { return fmaxf(v, 3.f) + ::fmaxf(v, 3.f); }
__global__ void k(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  float a = x[i], b = x[i + 1];
  std::swap(a, b);
  own::swap(b, a);
  auto exp = [](float v) { return 7.f * v; };
  const own::S s{x[i]};
  const float c = a + std::move(b) + own::move(b) + exp(a) + std::exp(a);
  y[i] = c + own::sqrtf(a) + own::most(a) + other::twice(a) + fmaxf(a, 0.75f) + own::whole(a);
  y[i] += s.both() + s.far() + (float)(__vmaxs2(0x10002u, 0x20001u) & 3u) + (float)own::max(i, 2);
  if (i & 1) own::atomicAdd(y + i, a); else ::atomicAdd(y + i, a);
}]=], shape = { 4 }, args = function(t) return { t.f { 5 }, 4 } end,
    want = function(x, n)
      local max, exp = math.max, math.exp
      return each(n, function(i)
        local a, v = x[i + 1], x[i]
        local b = 2 * a
        local r = a + b + b * b + 7 * a + exp(a) + math.sqrt(a * a + 1)
        r = r + (a > max(a, 0.25) - 0.5 and 2 * a or a) + 2 * max(a, 0.5) + max(a, 0.75) + 102
        r = r + 5 * v + math.abs(v) + exp(v) + 3 * v + 3 + 2 + i + 2
        return r + (i % 2 == 1 and 3 or 1) * a
      end)
    end },

  { "sums of a warp and in memory by PyTorch's names", [=[
#include <ATen/cuda/DeviceUtils.cuh>
#include <ATen/cuda/Atomic.cuh>
template <class T> __device__ T warp_sum(T v) {
  for (int d = C10_WARP_SIZE / 2; d > 0; d /= 2) v += WARP_SHFL_XOR(v, d);
  return v;
}
__global__ void k(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  const float v = i < n ? x[i] : 0.f;
  const float s = warp_sum(v * v), next = WARP_SHFL_DOWN(v, 1, 4), first = WARP_SHFL(v, 0);
  if (i < n) gpuAtomicAdd(y + i % 2, next * s);
  const unsigned low = WARP_BALLOT(i < 2 && n > 2);
  if (i < n) gpuAtomicAddNoReturn(y, first * low);
}]=], shape = { 2 }, block = { 32 }, args = function(t) return { t.f { 8 }, 8 } end,
    want = function(x, n)
      local s = 0
      for j = 0, n - 1 do s = s + x[j] * x[j] end
      return each(2, function(i)
        local r = i == 0 and n * x[0] * 3 or 0
        for j = i, n - 1, 2 do r = r + x[j % 4 == 3 and j or j + 1] * s end
        return r
      end)
    end },
  { "members whose types say how they are copied, as C++ would without it", [=[
template <class Real> struct vec {
  Real x, y;
  __device__ vec(const Real &a, const Real &b) : x(a), y(b) {}
  __device__ vec(const int2 &a) : x(Real(a.x)), y(Real(a.y)) {}
  __device__ vec(const vec<Real> &a) : x(a.x), y{a.y} {}
  __device__ vec &operator=(const vec &o) { y = o.y; x = Real(o.x); return *this; }
};
struct quat { vec<float> v; float s; };
__device__ inline float4 __ldg(const float4 *p) {
  const float2 a = __ldg((const float2 *)p), b = __ldg((const float2 *)p + 1);
  return make_float4(a.x, a.y, b.x, b.y);
}
__global__ void k(const float4 *x, float *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  const float4 p = __ldg(x + i);
  quat a{vec<float>(p.x, p.y), p.z}, b = a;
  b.v = vec<float>(p.w, a.v.x);
  a = b;
  y[i] = a.v.x * a.v.y + b.s * p.y;
}]=], shape = { 3 }, args = function(t) return { t.f { 12 }, 3 } end,
    want = function(x, n)
      return each(n, function(i)
        return x[4 * i + 3] * x[4 * i] + x[4 * i + 2] * x[4 * i + 1]
      end)
    end },

  { "a member whose type copies otherwise", [=[
struct Once {
  float x, y;
  __device__ Once(float a, float b) : x(a), y(b) {}
  __device__ Once(const Once &o) : x(o.x), y(o.x) {}
};
struct Holder { Once v; float s; };
__global__ void k(const float *x, float *y) {
  Holder a{Once(x[0], x[1]), x[2]};
  y[0] = a.v.y;
}]=], outside = "a struct with its own copies is no part of another",
    args = function(t) return { t.f { 4 } } end },

  { "a mutable member that a function which is const changes", [=[
struct Count {
  mutable float n;
  __device__ float next() const { n += 1.f; return n; }
};
__global__ void k(const float *x, float *y) {
  const Count c{x[0]};
  y[0] = c.next();
}]=], shape = { 1 }, args = function(t) return { t.f { 4 } } end,
    want = function(x) return { [0] = x[0] + 1 } end },

  { "the greatest value of a block and where, by CUB", [=[
#include <cub/cub.cuh>
using Pair = cub::KeyValuePair<int, float>;
__global__ void k(const float *x, float *y, int *at, int n) {
  typedef cub::BlockReduce<Pair, 32> Reduce;
  __shared__ typename Reduce::TempStorage room;
  float whole;
  const int i = threadIdx.x;
  const float v = i < n ? x[i] * x[i] : 1.f;
  const Pair best = Reduce(room).Reduce(Pair(i, i < n ? v : -1.f), cub::ArgMax());
  __syncthreads();
  const Pair least = Reduce(room).Reduce(Pair(i, v), cub::ArgMin());
  if (i) return;
  y[0] = best.value - std::modf(3.f * least.value, &whole);
  y[1] = whole;
  at[0] = best.key;
  at[1] = least.key;
}]=], shape = { { 2 }, { 2 } }, block = { 32 }, order = 1,
    args = function(t) return { t.f { 8, low = 0.5, high = 0.9 }, 8 } end,
    want = function(x, n)
      local most, least = 0, 0
      for j = 1, n - 1 do
        if x[j] > x[most] then most = j end
        if x[j] < x[least] then least = j end
      end
      local whole = math.floor(3 * x[least] ^ 2)
      return { [0] = x[most] ^ 2 - 3 * x[least] ^ 2 + whole, whole }, { [0] = most, least }
    end },
}
