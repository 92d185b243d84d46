--- Kernels with less common parts of C++ and CUDA: unions, overloads, constants computed by
--- functions, shared memory of file scope, several case labels together, parts of elements.
local each = dofile("spec/kernel/users/each.lua")

return {
  { "a union of reals", [=[
union Quad {
  float v[4];
  struct { float a, b, c, d; };
  struct { float2 low, high; };
};
union Node { float2 at; float f[2]; };
__device__ float length2(const Node &n) { return n.f[0] * n.f[0] + n.at.y * n.at.y; }
__global__ void quads(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  Quad q;
  for (int k = 0; k < 4; ++k) q.v[k] = x[4 * i + k] * (k + 1);
  q.b += q.high.x * q.a;
  Node m;
  m.at = q.low;
  y[i] = q.v[1] * q.d + 3 * length2(m);
}]=], block = { 4 }, shape = { 3 }, args = function(t) return { t.f { 12 }, 3 } end,
    want = function(x)
      return each(3, function(i)
        local a, b, c, d = x[4 * i], 2 * x[4 * i + 1], 3 * x[4 * i + 2], 4 * x[4 * i + 3]
        b = b + c * a
        return b * d + 3 * (a * a + b * b)
      end)
    end },

  { "a union of bytes and words, without a name", [=[
union Packed { struct __align__(8) { short low, high; }; unsigned word; };
struct Held { int k; union { int whole; short half[2]; }; };
__device__ int half_of(const Held &h) { return h.half[1] + h.k; }
__global__ void words(const int *x, int *y, int *z, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  union { signed char c[4]; int w; };
  for (int k = 0; k < 4; ++k) c[k] = (signed char)(x[i] + k);
  y[i] = w;
  Packed p;
  p.word = (unsigned)x[i];
  p.high += 1;
  Held h;
  h.k = 1;
  h.whole = x[i];
  Held other = h;
  other.half[0] = 5;
  z[i] = p.low - 2 * p.high + (int)sizeof(Packed) + 7 * half_of(other) + (other.whole & 15);
}]=], block = { 8 }, shape = { 5 }, single = true, same = true,
    args = function(t) return { t.i { 1, -2, 70000, -70000, 0x01020304 }, 5 } end,
    want = function(x)
      local function signed(v, bits)
        v = v & (1 << bits) - 1
        return v >= 1 << (bits - 1) and v - (1 << bits) or v
      end
      return each(5, function(i)
        local w = 0
        for k = 0, 3 do w = w | ((x[i] + k) & 255) << 8 * k end
        return signed(w, 32)
      end), each(5, function(i)
        return signed(x[i], 16) - 2 * signed((x[i] >> 16) + 1, 16) + 8
          + 7 * (signed(x[i] >> 16, 16) + 1) + 5
      end)
    end },

  { "the bits of a real in a union", [=[
__global__ void bits(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  union { float f; unsigned u; } v;
  v.f = x[i];
  v.u &= 0x7fffffffu;
  if (i < n) y[i] = v.f;
}]=], block = { 4 }, shape = { 4 }, single = true, refuses = "the bits of a real number",
    args = function(t) return { t.f { 4 }, 4 } end,
    want = function(x) return each(4, function(i) return math.abs(x[i]) end) end },

  { "the more special template", [=[
template <typename A, typename B> __device__ float pick(A a, B b) { return a + 2 * b; }
template <typename A> __device__ float pick(A a, A b) { return a * b; }
template <typename A> __device__ float pick(A *a, A *b) { return *a - *b; }
template <typename T> __device__ void move(T *to, const T *from, int at) { to[0] = from[at]; }
template <typename T> __device__ void move(T *to, volatile T *from, int at) { to[0] = -from[at]; }
__device__ float &first(float2 &v) { return v.x; }
__device__ float first(const float2 &v) { return 3 * v.x; }
__device__ float fixed(const float2 &v) { return first(v); }
__global__ void picks(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  float a[1], b = x[i + 1];
  move(a, x, i);
  float2 v = make_float2(a[0], b);
  first(v) *= b;
  y[i] = pick(a[0], b) + pick(b, 2) + pick(a, &b) + first(v) * v.y + fixed(v);
}]=], block = { 4 }, shape = { 3 }, args = function(t) return { t.f { 4 }, 3 } end,
    want = function(x)
      return each(3, function(i)
        local a, b = x[i], x[i + 1]
        return a * b + b + 4 + a - b + a * b * b + 3 * a * b
      end)
    end },

  { "constants of functions, arrays under another name, one place or another", [=[
template <typename T> __host__ __device__ constexpr int bytes_of() {
  if constexpr (sizeof(T) == 2) return 2;
  else {
    static_assert(sizeof(T) > 2, "small");
    constexpr int twice = 2 * sizeof(int);
    return sizeof(T) * 0 + twice;
  }
}
template <typename T> constexpr int WIDE = bytes_of<T>();
using Table = float[2][3];
template <typename T> struct Shared {
  __device__ operator T *() { extern __shared__ float room[]; return room; }
};
template <int G> __device__ float update(float x, float y) {
  ((G == 0) ? x : y) += 2 * y;
  return x * y;
}
__device__ float2 turn(float2 v) { return float2{ -v.y, v.x }; }
__global__ void made(const float *x, float *y, int n) {
  float *s = Shared<float>() + WIDE<int> - 8;
  const int i = threadIdx.x;
  Table t;
  for (int k = 0; k < 6; ++k) t[k / 3][k % 3] = x[i] * k;
  s[i] = t[1][1];
  __syncthreads();
  const float2 v = turn(make_float2(x[i], s[i ^ 1]));
  if (i < n) y[i] = v.x * v.y + update<0>(x[i], x[i ^ 1]) + update<1>(x[i], x[i ^ 1]);
}]=], block = { 4 }, grid = { 1 }, shape = { 4 }, shared = 16,
    args = function(t) return { t.f { 4 }, 4 } end,
    want = function(x)
      return each(4, function(i)
        local a, b = x[i], x[i ~ 1]
        return -4 * b * a + (a + 2 * b) * b + a * 3 * b
      end)
    end },

  { "shared memory of the file", [=[
__shared__ float tile[2][4];
__shared__ int count;
__device__ float other(int i) { return tile[1][i ^ 1] * tile[0][i]; }
__global__ void shares(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  tile[0][i] = x[i];
  tile[1][i] = x[i] * x[i];
  if (i == 0) count = n;
  __syncthreads();
  y[i] = other(i) * count;
}]=], block = { 4 }, grid = { 1 }, shape = { 4 }, args = function(t) return { t.f { 4 }, 4 } end,
    want = function(x)
      return each(4, function(i) return 4 * x[i ~ 1] * x[i ~ 1] * x[i] end)
    end },

  { "groups of labels", [=[
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void labels(const float *x, const int *label, float *y, int *rank, int n) {
  const int i = threadIdx.x;
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto half = cg::binary_partition(warp, i < n);
  if (i < n) {
    auto active = cg::coalesced_threads();
    auto group = cg::labeled_partition(active, label[i]);
    y[i] = cg::reduce(group, x[i] * x[i], cg::plus<float>());
    rank[i] = (int)group.thread_rank() + 100 * (int)group.size() + 10000 * (int)half.size() +
              (int)group.shfl_down(i, 1) * 1000000;
  }
}]=], block = { 32 }, grid = { 1 }, shape = { 9 },
    args = function(t) return { t.f { 9 }, t.i { 2, 1, 2, 2, 7, 1, 2, 7, 3 }, 9 } end,
    want = function(x, label)
      local function members(i)
        local list = {}
        for j = 0, 8 do if label[j] == label[i] then list[#list + 1] = j end end
        return list
      end
      return each(9, function(i)
        local s = 0
        for _, j in ipairs(members(i)) do s = s + x[j] * x[j] end
        return s
      end), each(9, function(i)
        local list, at = members(i), 0
        for k, j in ipairs(list) do if j == i then at = k end end
        return at - 1 + 100 * #list + 90000 + 1000000 * (list[at + 1] or i)
      end)
    end },

  { "parts of elements of integers", [=[
__global__ void parts(const int *x, int *y, long long *z, int n) {
  const int i = threadIdx.x;
  unsigned char *bytes = (unsigned char *)y;
  short *halves = (short *)z;
  if (i >= n) return;
  bytes[i] = (unsigned char)(x[i] * 3);
  halves[i] = (short)(x[i] - 2);
}]=], block = { 16 }, grid = { 1 }, shape = { 4 }, single = true, same = true,
    args = function(t)
      return { t.i { 1, 2, 3, 255, -1, 86, 7, 8, 9, -10, 11, 12, 13, 14, 15 }, 15 }
    end,
    want = function(x)
      local function word(at, size, n, f)
        local w = 0
        for k = 0, n - 1 do
          if at + k < 15 then w = w | (f(x[at + k]) & (1 << size) - 1) << size * k end
        end
        return w
      end
      return each(4, function(i)
        local w = word(4 * i, 8, 4, function(v) return 3 * v end)
        return w >= 1 << 31 and w - (1 << 32) or w
      end), each(4, function(i) return word(4 * i, 16, 4, function(v) return v - 2 end) end)
    end },

  { "aligned storage", [=[
template <typename T> __device__ void load(T *to, const T *from, int at) {
  typedef typename std::aligned_storage<4 * sizeof(T), 4 * alignof(T)>::type Four;
  ((Four *)to)[0] = ((Four *)from)[at];
}
__global__ void fours(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  float v[4];
  if (i >= n) return;
  load(v, x, i);
  for (int k = 0; k < 4; ++k) v[k] *= v[3 - k];
  load(y + 4 * i, v, 0);
}]=], block = { 4 }, shape = { 12 }, single = true, args = function(t) return { t.f { 12 }, 3 } end,
    want = function(x)
      return each(12, function(e)
        local i, k = e // 4 * 4, e % 4
        local last = x[i + 3 - k]
        return k < 2 and x[e] * last or x[e] * x[e] * last
      end)
    end },

  { "sums of vectors by atomics", [=[
__global__ void vectors(const float *x, float *y, float *z, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  const float2 v = make_float2(x[i], x[i] * x[(i + 1) % n]);
  atomicAdd((float2 *)y + i % 2, v);
  const float4 w = make_float4(v.x, v.y, 1, v.x * v.x);
  atomicAdd(reinterpret_cast<float4 *>(z), w);
}]=], block = { 8 }, grid = { 1 }, shape = { 4 }, tol = 1e-4, single = true,
    args = function(t) return { t.f { 7 }, 7 } end,
    want = function(x)
      local y, z = { [0] = 0, 0, 0, 0 }, { [0] = 0, 0, 0, 0 }
      for i = 0, 6 do
        local a, b = x[i], x[i] * x[(i + 1) % 7]
        y[2 * (i % 2)], y[2 * (i % 2) + 1] = y[2 * (i % 2)] + a, y[2 * (i % 2) + 1] + b
        z[0], z[1], z[2], z[3] = z[0] + a, z[1] + b, z[2] + 1, z[3] + a * a
      end
      return y, z
    end },

  { "addresses of locals beside a pointer to one or another array", [=[
__device__ void split(int i, int n, int *high, int *low) { *high = i / n; *low = i % n; }
__device__ void split3(int i, int n, int m, int *a, int *b, int *c) {
  split(i, m, a, c);
  split(*a, n, a, b);
}
__global__ void copies(const float *x, float *y, float *z, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  int a, b, c;
  split3(i, 2, 3, &a, &b, &c);
  float *to = y;
  if (b) to = z;
  to[3 * a + c] = x[i] * x[i];
}]=], block = { 16 }, grid = { 1 }, shape = { 6 },
    args = function(t) return { t.f { 12 }, 12 } end,
    want = function(x)
      return each(6, function(e) return x[6 * (e // 3) + e % 3] ^ 2 end),
        each(6, function(e) return x[6 * (e // 3) + 3 + e % 3] ^ 2 end)
    end },

  { "types beside what is outside the language", [=[
typedef float Real;
template <int N, typename T> struct Row { T at[N]; };
class Domain;
typedef Real &(Domain::*Member)(int);
struct View {
  typedef Real value;
  typedef std::vector<Real> Kept;
  class iterator {
   public:
    typedef iterator self;
    typedef std::forward_iterator_tag category;
    __host__ __device__ iterator(Real *p) : p_(p) {}
    Real *p_;
  };
  template <bool CHECKED> struct Column { value v[CHECKED ? 1 : 2]; };
  value scale;
};
__global__ void views(const Real *x, Real *y, int n) {
  const int i = threadIdx.x;
  View v;
  v.scale = 3;
  if (i < n) {
    using row = struct Row<2, Real>;
    const row r = *((const row *)x + i);
    y[i] = v.scale * r.at[0] * r.at[1];
  }
}]=], block = { 4 }, shape = { 3 }, args = function(t) return { t.f { 6 }, 3 } end,
    want = function(x) return each(3, function(i) return 3 * x[2 * i] * x[2 * i + 1] end) end },

  { "templates among members", [=[
constexpr int W = 100;
template <typename T, int W> struct Tile {
  enum { HALF = W / 2 };
  typedef T value;
  template <bool CHECKED, int K = 2> struct Column {
    value v;
    T more[K];
    __device__ void load(const T *p, int i, int n) {
      v = CHECKED && i >= n ? T(0) : p[i] * W + HALF;
      for (int k = 0; k < K; ++k) more[k] = v * k;
    }
    __device__ T get() const { return v + more[K - 1]; }
  };
  template <typename S> using Wide = Column<false, sizeof(S) / 2>;
  template <bool C> __device__ T pass(Column<C> &a, const T *p, int i, int n) {
    a.load(p, i, n);
    return a.get();
  }
  __device__ T run(const T *p, int i, int n) {
    Column<true> a;
    Column<false, 3> b;
    Wide<double> c;
    b.load(p, i, n);
    c.load(p, i, n);
    return pass<true>(a, p, i, n) + b.get() + c.get();
  }
};
__global__ void tiles(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  Tile<float, 4> t;
  Tile<float, 6> u;
  y[i] = t.run(x, i, n) + u.run(x, i, n) * u.run(x, i, n);
}]=], block = { 4 }, shape = { 3 }, args = function(t) return { t.f { 3 }, 3 } end,
    want = function(x)
      local function run(v, w) return (v * w + w // 2) * (2 + 3 + 4) end
      return each(3, function(i) return run(x[i], 4) + run(x[i], 6) ^ 2 end)
    end },
}
