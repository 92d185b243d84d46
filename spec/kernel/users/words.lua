--- Kernels with type traits, parameter packs, reinterpreted bits, pools of shared memory, macros.
-- luacheck: no max line length

local lists = dofile("spec/kernel/users/lists.lua")
local each, sum = lists.each, lists.sum

local head = "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n"
local function one(n, low, high)
  return function(t) return { t.f { n, low = low, high = high }, n } end
end

return {
  { "the least of a row and where, from the limits of its type", [=[
#include <limits>
template <typename T> struct Best { T v; int at; };
template <typename T> __device__ Best<T> argmin(const T *x, int n) {
  Best<T> b = {std::numeric_limits<T>::max(), -1};
  for (int c = 0; c < n; ++c)
    if (x[c] < b.v) b = {x[c], c};
  return b;
}
__global__ void least(const float *x, float *v, int *at, int cols, int n) {
  static_assert(std::numeric_limits<float>::is_specialized && !std::numeric_limits<float>::is_integer, "");
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= n) return;
  const Best<float> b = argmin(x + r * cols, cols);
  v[r] = fminf(b.v, std::numeric_limits<float>::infinity());
  at[r] = b.at;
}]=], shape = { 3 }, order = 1, args = function(t) return { t.f { 3, 5 }, 5, 3 } end,
    want = function(x, cols, n)
      local at = each(n, function(r)
        local k = 0
        for c = 1, cols - 1 do if x[r * cols + c] < x[r * cols + k] then k = c end end
        return k
      end)
      return each(n, function(r) return x[r * cols + at[r]] end), at
    end },

  { "a type to add in, chosen by traits", [=[
#include <type_traits>
template <typename T> using acc_t = std::conditional_t<std::is_same<T, float>::value || sizeof(T) < 4, double, T>;
template <typename T, typename = std::enable_if_t<std::is_floating_point<T>::value>>
__device__ T square(T v) { return v * v; }
template <typename T, std::enable_if_t<std::is_integral<T>::value, int> = 0>
__device__ T square(T v) { return v * v + T(1); }
template <typename T> __device__ acc_t<T> total(const T *x, int n) {
  acc_t<T> s = 0;
  for (int c = 0; c < n; ++c) {
    if constexpr (std::is_floating_point_v<T>) s += square(x[c]);
    else s += x[c];
  }
  return s;
}
__global__ void k(const float *x, const int *w, float *y, int n) {
]=] .. head .. [=[
  y[i] = total(x + i * 3, 3) * square(w[i]) + total(w, n);
}]=], shape = { 2 }, order = 1, args = function(t) return { t.f { 2, 3 }, t.i { 2, -1 }, 2 } end,
    want = function(x, w, n)
      local all = sum(n, function(i) return w[i] end)
      return each(n, function(i)
        return sum(3, function(c) return x[3 * i + c] ^ 2 end) * (w[i] ^ 2 + 1) + all
      end)
    end },

  { "any function of any number of arrays", [=[
template <typename F, typename... In>
__device__ __forceinline__ void elementwise(int n, float *out, F f, const In *__restrict__... in) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = f(in[i]...);
}
__global__ void fused(const float *a, const float *b, const float *c, float *y, float *z, int n) {
  elementwise(n, y, [](float u, float v, float w) { return u * v + sinf(w); }, a, b, c);
  elementwise(n, z, [=] __device__(float u) { return u * u; }, a);
}]=],
    block = { 4 }, grid = { 2 }, order = 1, args = function(t)
      return { t.f { 11 }, t.f { 11 }, t.f { 11 }, 11 }
    end,
    want = function(a, b, c, n)
      return each(n, function(i) return a[i] * b[i] + math.sin(c[i]) end),
        each(n, function(i) return a[i] ^ 2 end)
    end },

  { "packs folded: a polynomial of constants, a product, all of them", [=[
template <int... C> __device__ float poly(float v) { float r = 0.f; ((r = r * v + C), ...); return r + sizeof...(C); }
template <typename... T> __device__ auto product(T... v) { return (v * ... * 1.f); }
template <typename... T> __device__ bool in_range(float low, float high, T... v) { return (... && (v >= low && v <= high)); }
template <typename T> __device__ T largest(T a) { return a; }
template <typename T, typename... R> __device__ T largest(T a, R... r) { return fmaxf(a, largest(r...)); }
__global__ void k(const float *x, float *y, int n) {
]=] .. head .. [=[
  const float v = x[i], w = poly<1, -2, 3>(v);
  float s = in_range(-0.5f, 0.5f, v, v * v) ? product(v, w, 2.f) : largest(v, w, 0.1f);
  for (float u : {v, 2.f * v, w}) s += u * u;
  y[i] = s;
}]=], args = one(7), order = 1,
    want = function(x, n)
      return each(n, function(i)
        local v = x[i]
        local w = v * v - 2 * v + 3 + 3
        local s = math.abs(v) <= 0.5 and 2 * v * w or math.max(v, w, 0.1)
        return s + 5 * v * v + w * w
      end)
    end },

  { "the greatest by atomics on the bits, by sign", [=[
__device__ __forceinline__ float atomicMaxFloat(float *addr, float value) {
  return (value >= 0) ? __int_as_float(atomicMax((int *)addr, __float_as_int(value)))
                      : __uint_as_float(atomicMin((unsigned int *)addr, __float_as_uint(value)));
}
__global__ void absmax(const float *x, float *top, int n) {
  __shared__ float m;
  if (threadIdx.x == 0) m = -3.0e38f;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicMaxFloat(&m, x[i]);
  __syncthreads();
  if (threadIdx.x == 0) atomicMaxFloat(top, m);
}]=],
    block = { 16 }, grid = { 2 }, inout = { "top" }, single = true,
    refuses = "the bits of a real number", args = function(t)
      return { t.f { 50 }, t.tensor { -5 }, 50 }
    end,
    want = function(x, top, n)
      for i = 0, n - 1 do top[0] = math.max(top[0], x[i]) end
      return top
    end },

  { "a sum by compare and swap", [=[
__device__ float atomicAddCas(float *address, float val) {
  unsigned int *address_as_uint = reinterpret_cast<unsigned int *>(address);
  unsigned int old = *address_as_uint, assumed;
  do {
    assumed = old;
    old = atomicCAS(address_as_uint, assumed, __float_as_uint(val + __uint_as_float(assumed)));
  } while (assumed != old);
  return __uint_as_float(old);
}
__global__ void total(const float *x, float *sums, int n) {
  if (threadIdx.x < n) atomicAddCas(&sums[threadIdx.x & 1], x[threadIdx.x]);
}]=],
    block = { 32 }, grid = { 1 }, inout = { "sums" }, single = true,
    args = function(t)
      return { t.f { 20 }, t.tensor { 1, 2 }, 20 }
    end,
    want = function(x, s, n)
      for i = 0, n - 1 do s[i % 2] = s[i % 2] + x[i] end
      return s
    end },

  { "the root by a shift of the bits, one step of Newton", [=[
__device__ float Q_rsqrt(float number) {
  const float x2 = number * 0.5f;
  float y = number;
  int i = *(int *)&y;
  i = 0x5f3759df - (i >> 1);
  y = *(float *)&i;
  y = y * (1.5f - (x2 * y * y));
  y = y * (1.5f - (x2 * y * y));
  return y * (1.5f - (x2 * y * y));
}
__global__ void k(const float *x, float *y, int n) {
]=] .. head .. "  y[i] = Q_rsqrt(x[i]);\n}", args = one(6, 0.5, 4), single = true,
    refuses = "the bits of a real number", tol = 1e-5,
    want = function(x, n) return each(n, function(i) return 1 / math.sqrt(x[i]) end) end },

  { "a tile moved as words of sixteen bytes", [=[
__global__ void tile(const float *__restrict__ x, float *__restrict__ y, int rows) {
  __shared__ float s[4][8];
  const int t = threadIdx.x;
  if (t < 8) reinterpret_cast<int4 *>(&s[0][0])[t] = reinterpret_cast<const int4 *>(x + blockIdx.x * 32)[t];
  __syncthreads();
  for (int e = t; e < 32; e += blockDim.x) y[blockIdx.x * 32 + e] = s[e % 4][e / 4] * s[0][e / 4];
}]=],
    block = { 16 }, grid = { 2 }, single = true, order = 1,
    args = function(t) return { t.f { 8, 8 }, 8 } end,
    want = function(x)
      return each(64, function(e)
        local b, k = e // 32 * 32, e % 32
        return x[b + k % 4 * 8 + k // 4] * x[b + k // 4]
      end)
    end },

  { "vectors of a type and a width by specialised structs", [=[
template <typename T, int N> struct VecType;
template <> struct VecType<float, 4> { using type = float4; };
template <> struct VecType<float, 2> { using type = float2; };
template <typename T> struct VecType<T, 1> { using type = T; };
template <class V> struct Width { static constexpr int value = 1; };
template <class T, int N> struct Pack { T v[N]; };
template <class T, int N> struct Width<Pack<T, N>> { static constexpr int value = N; };
template <typename T, int N> __device__ float dot(const T *a, const T *b, int n) {
  using V = typename VecType<T, N>::type;
  float s = 0.f;
  for (int k = 0; k < n / N; ++k) {
    const V u = reinterpret_cast<const V *>(a)[k], w = reinterpret_cast<const V *>(b)[k];
    if constexpr (N == 4) s += u.x * w.x + u.y * w.y + u.z * w.z + u.w * w.w;
    else if constexpr (N == 2) s += u.x * w.x + u.y * w.y;
    else s += u * w;
  }
  return s;
}
template <class T> constexpr T scale_of = T(Width<Pack<float, 3>>::value) / T(2);
__global__ void k(const float *a, const float *b, float *y, int n) {
]=] .. head .. [=[
  y[i] = scale_of<float> * (dot<float, 4>(a + 8 * i, b, 8) + dot<float, 2>(a + 8 * i, b, 8) + dot<float, 1>(a + 8 * i, b, 3));
}]=], shape = { 2 }, order = 1, args = function(t) return { t.f { 2, 8 }, t.f { 8 }, 2 } end,
    want = function(a, b, n)
      local function dot(i, m) return sum(m, function(k) return a[8 * i + k] * b[k] end) end
      return each(n, function(i) return 1.5 * (2 * dot(i, 8) + dot(i, 3)) end)
    end },

  { "a class that reduces a block, its storage by reference", [=[
template <typename T, int THREADS> class BlockReduce {
 public:
  struct TempStorage { T warp[THREADS / 32]; T all; };
  __device__ explicit BlockReduce(TempStorage &s) : storage(s) {}
 private:
  TempStorage &storage;
};
__global__ void k(const float *x, float *y, int n) { y[0] = x[0]; }]=],
    shape = { 1 }, args = one(3), order = 1,
    want = function(x) return { [0] = x[0] } end },

  { "a class that reduces a block, its storage given to each call", [=[
template <typename T, int THREADS> struct BlockReduce {
  struct TempStorage { T warp[THREADS / 32]; T all; };
  static __device__ T Sum(TempStorage &s, T v) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    #pragma unroll
    for (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
    if (lane == 0) s.warp[warp] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
      T t = s.warp[0];
      for (int k = 1; k < THREADS / 32; ++k) t += s.warp[k];
      s.all = t;
    }
    __syncthreads();
    return s.all;
  }
};
__global__ void center(const float *x, float *y, int cols) {
  using Reduce = BlockReduce<float, 64>;
  __shared__ typename Reduce::TempStorage temp;
  float s = 0.f;
  for (int c = threadIdx.x; c < cols; c += 64) s += x[blockIdx.x * cols + c];
  const float mean = Reduce::Sum(temp, s) / cols;
  for (int c = threadIdx.x; c < cols; c += 64) y[blockIdx.x * cols + c] = x[blockIdx.x * cols + c] - mean * mean;
}]=], block = { 64 }, grid = { 2 }, order = 1, args = function(t) return { t.f { 2, 70 }, 70 } end,
    want = function(x, C)
      return each(2 * C, function(e)
        local m = sum(C, function(c) return x[e // C * C + c] end) / C
        return x[e] - m * m
      end)
    end },

  { "one pool of shared memory for reals, then integers", [=[
__global__ void pool(const float *x, float *y, int *order, int n) {
  extern __shared__ __align__(16) unsigned char smem[];
  float *vals = reinterpret_cast<float *>(smem);
  int *ids = reinterpret_cast<int *>(smem + n * sizeof(float));
  const int t = threadIdx.x;
  if (t < n) { vals[t] = x[t] * x[t]; ids[t] = n - 1 - t; }
  __syncthreads();
  if (t < n) { y[t] = vals[ids[t]]; order[t] = ids[t]; }
}]=],
    block = { 8 }, grid = { 1 }, shared = 96,
    args = one(7),
    want = function(x, n)
      return each(n, function(i) return x[n - 1 - i] ^ 2 end),
        each(n, function(i) return n - 1 - i end)
    end },

  { "random numbers by ten rounds of products, two at a time", [=[
struct Philox {
  unsigned key, ctr[2];
  __device__ Philox(unsigned seed, unsigned long long n) : key(seed), ctr{(unsigned)n, (unsigned)(n >> 32)} {}
  __device__ __forceinline__ uint2 operator()() const {
    unsigned a = ctr[0], b = ctr[1], k = key;
    #pragma unroll
    for (int r = 0; r < 10; ++r, k += 0x9E3779B9u) {
      const unsigned hi = __umulhi(0xD256D193u, a), lo = 0xD256D193u * a;
      a = hi ^ k ^ b;
      b = lo;
    }
    return make_uint2(a, b);
  }
};
__device__ __forceinline__ float uniform(unsigned v) { return (v >> 8) * 0x1p-24f; }
__global__ void noisy(const float *x, float *y, unsigned seed, float p, int n) {
]=] .. head .. [=[
  const uint2 u = Philox(seed, i)();
  const float keep = uniform(u.x) < p ? 0.f : 1.f / (1.f - p);
  y[i] = x[i] * keep + uniform(__funnelshift_l(u.y, u.y, 7)) * x[i] * x[i];
}]=], args = function(t) return { t.f { 9 }, 17, 0.3, 9 } end, order = 1,
    want = function(x, seed, p, n)
      return each(n, function(i)
        local a, b, k = i, 0, seed
        for _ = 1, 10 do
          local v = 0xD256D193 * a
          a, b, k = (v >> 32) ~ k ~ b, v & 0xffffffff, (k + 0x9E3779B9) & 0xffffffff
        end
        local r = ((b << 7) | (b >> 25)) & 0xffffffff
        return x[i] * ((a >> 8) / 2 ^ 24 < p and 0 or 1 / (1 - p)) + (r >> 8) / 2 ^ 24 * x[i] ^ 2
      end)
    end },

  { "bits: counted, reversed, permuted, shifted through two words", [=[
__global__ void bits(const unsigned *x, int *y, int n) {
]=] .. head .. [=[
  const unsigned v = x[i];
  const int b[8] = {__popc(v), __clz((int)v), __ffs((int)v), (int)(__brev(v) >> 20), (int)(__byte_perm(v, ~v, 0x2765) & 0xffff),
                    (int)(__funnelshift_r(v, 0x12345678u, 12) & 0xfffff), __dp4a((int)v, 0x01020304, -5), (int)((v * 0x9E3779B1u) >> 24)};
  for (int k = 0; k < 8; ++k) y[8 * i + k] = b[k];
}]=], shape = { 3, 8 }, same = true, args = function(t) return { t.i { 0x00f01c81, -1, 6 }, 3 } end,
    want = function(x, n)
      local y = {}
      for i = 0, n - 1 do
        local v, ones, rev = x[i] & 0xffffffff, 0, 0
        for k = 0, 31 do ones, rev = ones + (v >> k & 1), rev << 1 | v >> k & 1 end
        local clz, ffs = 32, 0
        for k = 0, 31 do
          if v >> k & 1 == 1 then clz = 31 - k if ffs == 0 then ffs = k + 1 end end
        end
        local byte = each(8, function(k)
          return (k < 4 and v >> 8 * k or (~v & 0xffffffff) >> 8 * (k - 4)) & 255
        end)
        local dp = -5
        for k = 0, 3 do local b = byte[k] dp = dp + (b > 127 and b - 256 or b) * (4 - k) end
        local list = { ones, clz, ffs, rev >> 20, byte[5] | byte[6] << 8,
          ((0x12345678 << 32 | v) >> 12) & 0xfffff, dp, (v * 0x9E3779B1 & 0xffffffff) >> 24 }
        for k = 0, 7 do y[8 * i + k] = list[k + 1] end
      end
      return y
    end },

  { "activations made by a list of macros, chosen by a switch", [=[
#define ACTIVATIONS(X) \
  X(RELU, fmaxf(v, 0.f)) \
  X(SILU, v / (1.f + expf(-v))) \
  X(SOFTPLUS, log1pf(expf(v))) \
  X(HARDTANH, fminf(fmaxf(v, -1.f), 1.f))
enum class Act : int {
#define X(name, e) name,
  ACTIVATIONS(X)
#undef X
  COUNT
};
#define X(name, e) __device__ __forceinline__ float act_##name(float v) { return e; }
ACTIVATIONS(X)
#undef X
__device__ float apply(Act a, float v) {
  switch (a) {
#define X(name, e) case Act::name: return act_##name(v);
    ACTIVATIONS(X)
#undef X
    default: return v;
  }
}
__global__ void k(const float *x, const int *which, float *y, int n) {
]=] .. head .. [=[
  assert(which[i] <= static_cast<int>(Act::COUNT));
  y[i] = apply(static_cast<Act>(which[i]), 1.7f * x[i]);
}]=],
    args = function(t) return { t.f { 10 }, t.i { 0, 1, 2, 3, 4, 3, 2, 1, 0, 1 }, 10 } end,
    order = 1,
    want = function(x, which, n)
      return each(n, function(i)
        local v = 1.7 * x[i]
        local all = { math.max(v, 0), v / (1 + math.exp(-v)), math.log(1 + math.exp(v)),
          math.max(-1, math.min(1, v)), v }
        return all[which[i] + 1]
      end)
    end },

  { "matrices of four by pointers to rows", [=[
__device__ void mul(const float (*a)[4], const float (*b)[4], float (&c)[4][4]) {
  for (int r = 0; r < 4; ++r)
    for (int q = 0; q < 4; ++q) {
      float s = 0.f;
      #pragma unroll
      for (int k = 0; k < 4; ++k) s = fmaf(a[r][k], b[k][q], s);
      c[r][q] = s;
    }
}
__global__ void chain(const float *m, float *out, int n) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= n) return;
  float a[4][4], b[4][4];
  for (int e = 0; e < 16; ++e) a[e >> 2][e & 3] = m[t * 16 + e];
  mul(a, a, b);
  float (*rows)[4] = b;
  float (&last)[4] = b[3];
  for (int q = 0; q < 4; ++q) last[q] += rows[0][q];
  for (int e = 0; e < 16; ++e) out[t * 16 + e] = b[e / 4][e % 4];
}]=], order = 1, args = function(t) return { t.f { 2, 4, 4 }, 2 } end,
    want = function(m, n)
      return each(16 * n, function(e)
        local t, r, q = e // 16 * 16, e // 4 % 4, e % 4
        local function at(i)
          return sum(4, function(k) return m[t + 4 * i + k] * m[t + 4 * k + q] end)
        end
        return at(r) + (r == 3 and at(0) or 0)
      end)
    end },

  { "turns between orientations, the short way", [=[
struct Quat { float x, y, z, w; };
__device__ inline Quat operator*(float s, const Quat &q) { return {s * q.x, s * q.y, s * q.z, s * q.w}; }
__device__ inline Quat operator+(const Quat &a, const Quat &b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
__device__ inline float dot(const Quat &a, const Quat &b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
__device__ Quat slerp(const Quat &a, Quat b, float t) {
  float c = dot(a, b);
  if (c < 0.f) { b = -1.f * b; c = -c; }
  if (c > 0.9995f) { const Quat q = (1.f - t) * a + t * b; return rsqrtf(dot(q, q)) * q; }
  const float th = acosf(c), s = sinf(th);
  return (sinf((1.f - t) * th) / s) * a + (sinf(t * th) / s) * b;
}
__global__ void k(const Quat *a, const Quat *b, const float *t, Quat *q, int n) {
]=] .. head .. [=[
  const Quat u = rsqrtf(dot(a[i], a[i])) * a[i], v = rsqrtf(dot(b[i], b[i])) * b[i];
  q[i] = slerp(u, v, t[i]);
}]=],
    shape = { 3, 4 }, order = 1, args = function(t)
      return { t.tensor { { 1, 0.2, 0.3, 1 }, { 0.5, -1, 0.1, 0.4 }, { 1, 1, 0, 0.2 } },
        t.tensor { { 0.3, -1, 0.2, 0.9 }, { -0.4, 1, 0.6, 0.1 }, { 1, 1.001, 0, 0.2 } },
        t.tensor { 0.3, 0.8, 0.5 }, 3 }
    end,
    want = function(a, b, t, n)
      local q = {}
      for i = 0, n - 1 do
        local function unit(m)
          local r = math.sqrt(sum(4, function(k) return m[4 * i + k] ^ 2 end))
          return each(4, function(k) return m[4 * i + k] / r end)
        end
        local u, v = unit(a), unit(b)
        local c = sum(4, function(k) return u[k] * v[k] end)
        local sign = c < 0 and -1 or 1
        c = math.abs(c)
        local th = math.acos(c)
        local p, s = (1 - t[i]), t[i]
        if c <= 0.9995 then
          p, s = math.sin((1 - t[i]) * th) / math.sin(th), math.sin(t[i] * th) / math.sin(th)
        end
        local w = each(4, function(k) return p * u[k] + s * sign * v[k] end)
        local r = c > 0.9995 and math.sqrt(sum(4, function(k) return w[k] ^ 2 end)) or 1
        for k = 0, 3 do q[4 * i + k] = w[k] / r end
      end
      return q
    end },

  { "the turn in a matrix, by Newton's steps with its inverse", [=[
struct Mat3 {
  float m[3][3];
  __device__ float det() const {
    return m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
  }
  __device__ Mat3 inverse_transposed() const {
    Mat3 r;
    const float d = 1.f / det();
    #pragma unroll
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) {
        const int a = (i + 1) % 3, b = (i + 2) % 3, c = (j + 1) % 3, e = (j + 2) % 3;
        r.m[i][j] = (m[a][c] * m[b][e] - m[a][e] * m[b][c]) * d;
      }
    return r;
  }
};
__global__ void polar(const Mat3 *in, Mat3 *out, int steps, int n) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= n) return;
  Mat3 R = in[t];
  for (int s = 0; s < steps; ++s) {
    const Mat3 q = R.inverse_transposed();
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) R.m[i][j] = 0.5f * (R.m[i][j] + q.m[i][j]);
  }
  out[t] = R;
}]=],
    order = 1,
    args = function(t)
      return { t.tensor { { { 2, 0.3, 0.1 }, { -0.2, 1.5, 0.4 }, { 0.1, -0.3, 1.1 } } }, 6, 1 }
    end, shape = { 1, 3, 3 },
    want = function(a, steps)
      local r = each(9, function(e) return a[e] end)
      for _ = 1, steps do
        local function cof(i, j)
          local function at(p, q) return r[p % 3 * 3 + q % 3] end
          return at(i + 1, j + 1) * at(i + 2, j + 2) - at(i + 1, j + 2) * at(i + 2, j + 1)
        end
        local det = r[0] * cof(0, 0) + r[1] * cof(0, 1) + r[2] * cof(0, 2)
        r = each(9, function(e) return 0.5 * (r[e] + cof(e // 3, e % 3) / det) end)
      end
      return r
    end },

  { "an attractor by Runge and Kutta, the field a lambda", [=[
template <typename F> __device__ float3 rk4(F f, float3 s, float h) {
  auto axpy = [](float a, float3 x, float3 y) { return make_float3(fmaf(a, x.x, y.x), fmaf(a, x.y, y.y), fmaf(a, x.z, y.z)); };
  const float3 k1 = f(s), k2 = f(axpy(0.5f * h, k1, s)), k3 = f(axpy(0.5f * h, k2, s)), k4 = f(axpy(h, k3, s));
  return make_float3(s.x + h / 6.f * (k1.x + 2.f * k2.x + 2.f * k3.x + k4.x), s.y + h / 6.f * (k1.y + 2.f * k2.y + 2.f * k3.y + k4.y),
                     s.z + h / 6.f * (k1.z + 2.f * k2.z + 2.f * k3.z + k4.z));
}
__global__ void lorenz(const float3 *s0, const float *p, float3 *s1, float h, int steps, int n) {
]=] .. head .. [=[
  const float sigma = p[0], rho = p[1], beta = p[2];
  auto field = [=](float3 s) { return make_float3(sigma * (s.y - s.x), s.x * (rho - s.z) - s.y, s.x * s.y - beta * s.z); };
  float3 s = s0[i];
  for (int k = 0; k < steps; ++k) s = rk4(field, s, h);
  s1[i] = s;
}]=],
    order = 1,
    args = function(t)
      return { t.f { 2, 3, low = 0.5, high = 2 }, t.tensor { 10, 28, 2.5 }, 0.01, 12, 2 }
    end, tol = 1e-4,
    want = function(s0, p, h, steps, n)
      local out = {}
      for i = 0, n - 1 do
        local s = { s0[3 * i], s0[3 * i + 1], s0[3 * i + 2] }
        local function f(v)
          return { p[0] * (v[2] - v[1]), v[1] * (p[1] - v[3]) - v[2], v[1] * v[2] - p[2] * v[3] }
        end
        local function add(a, k) return { s[1] + a * k[1], s[2] + a * k[2], s[3] + a * k[3] } end
        for _ = 1, steps do
          local k1 = f(s)
          local k2 = f(add(h / 2, k1))
          local k3 = f(add(h / 2, k2))
          local k4 = f(add(h, k3))
          for c = 1, 3 do k1[c] = k1[c] + 2 * k2[c] + 2 * k3[c] + k4[c] end
          s = add(h / 6, k1)
        end
        for c = 0, 2 do out[3 * i + c] = s[c + 1] end
      end
      return out
    end },

  { "colours through a table of three dimensions", [=[
template <int S> __device__ float3 fetch(const float3 *lut, int3 p) { return lut[(p.z * S + p.y) * S + p.x]; }
__device__ inline float3 lerp(const float3 &a, const float3 &b, float t) { return {a.x + t * (b.x - a.x), a.y + t * (b.y - a.y), a.z + t * (b.z - a.z)}; }
__global__ void grade(const float3 *rgb, const float3 *lut, float3 *out, int n) {
]=] .. head .. [=[
  constexpr int S = 3;
  const float3 c = {fminf(fmaxf(rgb[i].x, 0.f), 1.f) * (S - 1), fminf(fmaxf(rgb[i].y, 0.f), 1.f) * (S - 1), fminf(fmaxf(rgb[i].z, 0.f), 1.f) * (S - 1)};
  const int3 lo = make_int3(min((int)c.x, S - 2), min((int)c.y, S - 2), min((int)c.z, S - 2));
  const float3 f = make_float3(c.x - lo.x, c.y - lo.y, c.z - lo.z);
  float3 q[2][2];
  #pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int dy = k & 1, dz = k >> 1;
    q[dz][dy] = lerp(fetch<S>(lut, {lo.x, lo.y + dy, lo.z + dz}), fetch<S>(lut, {lo.x + 1, lo.y + dy, lo.z + dz}), f.x);
  }
  out[i] = lerp(lerp(q[0][0], q[0][1], f.y), lerp(q[1][0], q[1][1], f.y), f.z);
}]=],
    order = 1, args = function(t)
      return { t.tensor { { 0.1, 0.3, 0.7 }, { 0.9, 0.2, 0.6 }, { 0.35, 0.85, 0.15 } },
        t.f { 27, 3 }, 3 }
    end,
    want = function(rgb, lut, n)
      return each(3 * n, function(e)
        local i, s = e // 3 * 3, 0
        local p = each(3, function(k) return rgb[i + k] * 2 end)
        local lo = each(3, function(k) return math.min(math.floor(p[k]), 1) end)
        for corner = 0, 7 do
          local w, at = 1, 0
          for k = 2, 0, -1 do
            local up = corner >> k & 1
            w = w * (up == 1 and p[k] - lo[k] or 1 - p[k] + lo[k])
            at = at * 3 + lo[k] + up
          end
          s = s + w * lut[3 * at + e % 3]
        end
        return s
      end)
    end },

  { "a transform of sixteen points, four at a time in registers", [=[
__device__ inline float2 cmul(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
__device__ inline float2 operator+(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }
__device__ inline float2 operator-(float2 a, float2 b) { return {a.x - b.x, a.y - b.y}; }
__device__ inline void fft4(float2 &a, float2 &b, float2 &c, float2 &d) {
  const float2 s = a + c, t = a - c, u = b + d, v = b - d;
  a = s + u;
  b = t + make_float2(v.y, -v.x);
  c = s - u;
  d = t - make_float2(v.y, -v.x);
}
__global__ void fft16(const float2 *in, float2 *out) {
  __shared__ float2 s[16];
  const int t = threadIdx.x;
  float2 v[4];
  #pragma unroll
  for (int k = 0; k < 4; ++k) v[k] = in[blockIdx.x * 16 + t + 4 * k];
  fft4(v[0], v[1], v[2], v[3]);
  #pragma unroll
  for (int k = 0; k < 4; ++k) {
    float sn, cs;
    sincospif(-2.f * k * t / 16.f, &sn, &cs);
    s[4 * t + k] = cmul(v[k], make_float2(cs, sn));
  }
  __syncthreads();
  for (int k = 0; k < 4; ++k) v[k] = s[t + 4 * k];
  fft4(v[0], v[1], v[2], v[3]);
  for (int k = 0; k < 4; ++k) out[blockIdx.x * 16 + t + 4 * k] = v[k];
}]=], block = { 4 }, grid = { 2 }, order = 1, args = function(t) return { t.f { 2, 16, 2 } } end,
    want = function(x)
      return each(64, function(e)
        local b, k, c = e // 32 * 32, e // 2 % 16, e % 2
        return sum(16, function(j)
          local a = -2 * math.pi * j * k / 16
          local re, im = x[b + 2 * j], x[b + 2 * j + 1]
          return c == 0 and re * math.cos(a) - im * math.sin(a)
            or re * math.sin(a) + im * math.cos(a)
        end)
      end)
    end },

  { "means of what is scattered, counts by integer atomics, the last block divides", [=[
__device__ unsigned int done;
__global__ void scatter(const float *x, const int *at, float *sum, int *count, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { atomicAdd(sum + at[i], x[i]); atomicAdd(&count[at[i]], 1); }
}]=],
    block = { 8 }, grid = { 2 }, shape = { 4 }, order = 1,
    args = function(t) return { t.f { 12 }, t.i { 0, 3, 3, 1, 0, 0, 3, 1, 1, 0, 3, 3 }, 12 } end,
    want = function(x, at, n)
      local s, c = each(4, function() return 0 end), each(4, function() return 0 end)
      for i = 0, n - 1 do s[at[i]], c[at[i]] = s[at[i]] + x[i], c[at[i]] + 1 end
      return s, c
    end },

  { "pairs of short reals: a gate, sums in single precision", [=[
#include <cuda_bf16.h>
__global__ void swiglu(const __nv_bfloat162 *gate, const __nv_bfloat162 *up, __nv_bfloat162 *out, float *norm, int n) {
]=] .. head .. [=[
  const float2 g = __bfloat1622float2(gate[i]), u = __bfloat1622float2(up[i]);
  const float2 r = {g.x / (1.f + __expf(-g.x)) * u.x, g.y / (1.f + __expf(-g.y)) * u.y};
  out[i] = __floats2bfloat162_rn(r.x, r.y);
  norm[i] = r.x * r.x + r.y * r.y;
}]=], shape = { 4 }, single = true, same = true, args = function(t)
      return { t.tensor({ 0.5, -1, 2, 0.25 }, "bf16"), t.tensor({ 1, 2, -0.5, 4 }, "bf16"), 2 }
    end, tol = 1e-2,
    want = function(g, u)
      local r = each(4, function(e) return g[e] / (1 + math.exp(-g[e])) * u[e] end)
      return r, { [0] = r[0] ^ 2 + r[1] ^ 2, r[2] ^ 2 + r[3] ^ 2, 0, 0 }
    end },

  { "words of bits by votes, unpacked again", [=[
__global__ void pack(const float *x, unsigned *mask, float *y, float t, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  const bool on = i < n && x[i] > t;
  const unsigned m = __ballot_sync(0xffffffffu, on);
  if (lane == 0) mask[i >> 5] = m;
  const int rank = __popc(m & ((1u << lane) - 1u)), first = __ffs(m) - 1;
  const float lead = __shfl_sync(0xffffffffu, i < n ? x[i] : 0.f, max(first, 0));
  if (i < n) y[i] = (m >> lane & 1u) ? x[i] * (rank + 1) : lead * x[i];
}]=],
    block = { 32 }, grid = { 2 }, order = 1, args = function(t) return { t.f { 40 }, 0.3, 40 } end,
    shape = { 40 },
    want = function(x, t, n)
      local mask, y = each(n, function() return 0 end), {}
      for w = 0, 1 do
        local m, rank, first = 0, 0, nil
        for l = 0, 31 do
          if w * 32 + l < n and x[w * 32 + l] > t then m, first = m | 1 << l, first or l end
        end
        mask[w] = m > 0x7fffffff and m - 0x100000000 or m
        for l = 0, 31 do
          local i = w * 32 + l
          if i < n then
            y[i] = m >> l & 1 == 1 and x[i] * (rank + 1) or x[w * 32 + (first or 0)] * x[i]
          end
          rank = rank + (m >> l & 1)
        end
      end
      return mask, y
    end },

  { "a vector that counts its members, in an aligned template", [=[
#include <cuda/std/limits>
template <typename T, uint32_t N> struct alignas(sizeof(T) * 4) Block { T data[N]; };
struct vec3 {
  float x, y, z;
  vec3() = default;
  __device__ vec3(float a, float b, float c) : x(a), y(b), z(c) {}
  __device__ vec3 &operator+=(const vec3 &o) { x += o.x; y += o.y; z += o.z; return *this; }
  __device__ float &operator[](int i) { return (&x)[i]; }
  __device__ const float &operator[](int i) const { return (&x)[i]; }
};
__device__ vec3 operator*(float s, const vec3 &v) { return vec3(s * v.x, s * v.y, s * v.z); }
__global__ void k(const float *in, float *out, int *size, int n) {
]=] .. head .. [=[
  const Block<float, 3> b = {in[3 * i], in[3 * i + 1], in[3 * i + 2]};
  vec3 v(b.data[0], b.data[1], b.data[2]);
  v += 2.f * v;
  float best = cuda::std::numeric_limits<float>::lowest();
  for (int k = 0; k < 3; ++k) {
    v[k] *= v[(k + 1) % 3];
    best = fmaxf(best, v[k]);
  }
  out[i] = best + v[n % 3];
  size[i] = sizeof(Block<float, 3>) / sizeof(float);
}]=],
    shape = { 2 }, order = 1, args = function(t)
      return { t.tensor { { 0.5, 1.5, -1 }, { 2, 0.25, 1 } }, 2 }
    end,
    want = function(x, n)
      return each(n, function(i)
        local v = each(3, function(k) return 3 * x[3 * i + k] end)
        for k = 0, 2 do v[k] = v[k] * v[(k + 1) % 3] end
        return math.max(v[0], v[1], v[2]) + v[n % 3]
      end), each(n, function() return 4 end)
    end },
}
