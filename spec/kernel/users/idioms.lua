--- Kernels with idioms of texts written for nvcc: host code, pointers that are null at first,
--- templates whose arguments are deduced.
local each = dofile("spec/kernel/users/each.lua")

return {
  { "a pointer that is null at first", [=[
__global__ void k(const float *x, const float *w, float *y, int n, int flag) {
  int i = threadIdx.x;
  if (i >= n) return;
  const float *p = nullptr, *q = nullptr;
  if (i < flag) p = x + i;
  for (int j = 0; j < 2; ++j) {
    if (j == i % 2) q = w + 1;
    if (q != nullptr) y[i] += q[j] * w[i];
    if (j) q = nullptr;
  }
  y[i] += p ? *p * *p : 0.5f * w[i];
  if (p != nullptr && q == nullptr) y[i] += p[0];
}]=], inout = { "y" }, order = 1,
    args = function(t) return { t.f { 6 }, t.f { 6 }, t.f { 6 }, 5, 3 } end,
    want = function(x, w, y, n, flag)
      return each(6, function(i)
        if i >= n then return y[i] end
        local s = y[i] + w[2] * w[i] + (i % 2 == 0 and w[1] * w[i] or 0)
        s = s + (i < flag and x[i] * x[i] or 0.5 * w[i])
        return s + (i < flag and x[i] or 0)
      end)
    end },

  { "a pointer that is null at first, to one or another array", [=[
__global__ void k(const float *x, const float *w, float *y, int n) {
  int i = threadIdx.x;
  const float2 *p = nullptr;
  if (i % 3 == 0) p = (const float2 *)x;
  else if (i % 3 == 1) p = (const float2 *)w + 1;
  if (i < n) y[i] = p ? p[0].y * p[1].x : 2.f;
}]=], shape = { 6 }, block = { 6 }, args = function(t) return { t.f { 8 }, t.f { 8 }, 6 } end,
    want = function(x, w, n)
      return each(n, function(i)
        return i % 3 == 0 and x[1] * x[2] or i % 3 == 1 and w[3] * w[4] or 2
      end)
    end },

  { "templates that are chosen, constants of any type, and parts for the host", [=[
#include <iostream>
#include <thrust/tuple.h>
#include <string>
template <class T> struct is3 { static constexpr bool value = false; };
template <> struct is3<float3> { static constexpr bool value = true; };
template <class V, std::enable_if_t<is3<V>::value> * = nullptr> __device__ float sum(V v) { return v.x + v.z; }
template <class V, std::enable_if_t<!is3<V>::value> * = nullptr> __device__ float sum(V v) { return v; }
template <int N> struct Many { static constexpr int value = 2 * N; };
struct Scale {
  float a;
  friend std::ostream &operator<<(std::ostream &os, const Scale &s) { os << s.a; return os; }
  void save(const std::string &name) const;
  __device__ float of(float v) const { return a * v; }
};
__device__ thrust::tuple<float2, float> parts(float a) {
  return thrust::make_tuple(make_float2(a, 2.f), a);
}
__device__ std::tuple<float, float, int, float> four(float a) {
  return std::make_tuple(a, 2.f * a, 3, a * a);
}
template <class F> __device__ float fold(const float *x, F f) { return f(f(x[0], x[1]), x[2]); }
__global__ void k(const float *x, const Scale *s, float *y, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  constexpr auto many = Many<3>::value;
  const std::pair<float, int> both = std::make_pair(x[i], i);
  std::array<float, many> kept;
  for (int j = 0; j < many; ++j) kept.data()[j] = j + both.first;
  const auto t = parts(x[i]);
  auto q = four(x[i]);
  cudaTriggerProgrammaticLaunchCompletion();
  y[i] = thrust::get<0>(t).x * thrust::get<1>(t) * std::get<2>(q) + std::get<3>(q) - std::get<1>(q);
  y[i] += sum(make_float3(x[i], 1.f, kept[many - 1])) + sum(s[0].of(x[i])) + both.second +
         fold(x, std::plus<float>()) * fold(x, std::multiplies<>()) +
         __builtin_ctz(i + 8) + __builtin_popcount(i) + __builtin_clz(i + 1) + __builtin_ffs(i);
}]=], shape = { 4 }, block = { 4 }, args = function(t) return { t.f { 4 }, t.f { 1 }, 4 } end,
    want = function(x, s, n)
      return each(n, function(i)
        local counts = ({ [0] = 3 + 0 + 31 + 0, 0 + 1 + 30 + 1, 1 + 1 + 30 + 2, 0 + 2 + 29 + 1 })[i]
        local f = (x[0] + x[1] + x[2]) * (x[0] * x[1] * x[2])
        return x[i] + 5 + x[i] + s[0] * x[i] + i + f + counts +
          4 * x[i] ^ 2 - 2 * x[i]
      end)
    end },

  { "objects that lanes of a group give each other", [=[
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
struct Most { float v, at; };
__device__ Most later(Most a, Most b) { return a.v < b.v ? b : a; }
__global__ void k(const float *x, float *y, float *z) {
  cg::thread_block_tile<8> tile = cg::tiled_partition<8>(cg::this_thread_block());
  const int i = threadIdx.x;
  const Most m = cg::reduce(tile, Most{x[i], 3.f * x[i]}, later);
  const float2 v = tile.shfl_xor(make_float2(x[i], x[i] * x[i]), 1);
  y[i] = v.x * v.y + m.at;
  z[i] = tile.shfl(m, 0).v;
}]=], shape = { 16 }, block = { 16 }, order = 1, args = function(t) return { t.f { 16 } } end,
    want = function(x)
      local function most(i)
        local m = -math.huge
        for j = i // 8 * 8, i // 8 * 8 + 7 do m = math.max(m, x[j]) end
        return m
      end
      return each(16, function(i) return x[i ~ 1] ^ 3 + 3 * most(i) end), each(16, most)
    end },

  { "complex numbers of CUDA's header", [=[
#include <cuComplex.h>
__device__ cuFloatComplex unit(float a) { return make_cuFloatComplex(cosf(a), sinf(a)); }
__global__ void k(const cuFloatComplex *x, const float *a, float *y, float *z, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  const cuFloatComplex u = unit(a[i]), p = cuCmulf(x[i], u), q = cuCsubf(p, cuConjf(x[0]));
  const cuFloatComplex r = cuCaddf(cuCdivf(q, cuCfmaf(u, x[i], p)), x[i]);
  y[i] = cuCrealf(r) * cuCimagf(r) + cuCabsf(q);
  z[i] = cuCabsf(make_cuFloatComplex(0.f, 0.f * r.x)) + r.x;
}]=], shape = { 4 }, block = { 4 }, order = 1, tol = 2e-4,
    args = function(t) return { t.f { 8, low = 0.3 }, t.f { 4 }, 4 } end,
    want = function(x, a, n)
      local y, z = {}, {}
      for i = 0, n - 1 do
        local xr, xi, c, s = x[2 * i], x[2 * i + 1], math.cos(a[i]), math.sin(a[i])
        local pr, pi = xr * c - xi * s, xr * s + xi * c
        local qr, qi = pr - x[0], pi + x[1]
        local dr, di = 2 * pr, 2 * pi
        local d = dr * dr + di * di
        local rr, ri = (qr * dr + qi * di) / d + xr, (qi * dr - qr * di) / d + xi
        y[i], z[i] = rr * ri + math.sqrt(qr * qr + qi * qi), rr
      end
      return y, z
    end },

  { "types of a class that is for the host", [=[
#include <vector>
class Field : public Solver {
public:
  enum Kind { FREE, HELD };
  struct Rule { float stiff; int from; float more[2]; };
  typedef float number;
  Field(const char *file, int n);
  virtual ~Field();
  virtual void step(std::vector<float> &all) { for (float &v : all) v += rule.stiff; }
protected:
  std::vector<Rule> rules;
  struct Left { Rule rule; number by; };
  Rule rule;
};
Field::Field(const char *file, int n) { rules.resize(n); }
__device__ float bent(const Field::Rule &r, float v) { return r.stiff * v * v + r.more[1]; }
__global__ void k(Field::Left left, const float *x, float *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  Field::number t = x[i] * left.by;
  const Field::Rule own = { x[0], i, { t, 1.f } };
  y[i] = i < left.rule.from ? t : bent(left.rule, t) + bent(own, t) * own.more[0];
}]=], shape = { 4 }, block = { 4 }, order = 1,
    args = function(t)
      return { { rule = { stiff = 0.5, from = 1, more = { 2, 3 } }, by = 1.5 }, t.f { 4 }, 4 }
    end,
    want = function(_, x, n)
      return each(n, function(i)
        local t = 1.5 * x[i]
        return i < 1 and t or 0.5 * t * t + 3 + (x[0] * t * t + 1) * t
      end)
    end },

  { "templates that are declared first, constants in (…), objects made of one arm of ?:", [=[
constexpr unsigned int A(5), B(A * 2), C = (A + 7) / 4;
const float F((float)A + 0.5f);
constexpr int next_of(int v);
constexpr int next_of(int v) { return v + 1; }
template <typename T, int N> __device__ T sum(const T *x, int n);
template <class U, class Q> __device__ void put(U *y, Q v, U w);
struct V {
  float a, b;
  __device__ V(float v) : a(v), b(2 * v) {}
  __device__ V(float p, float q) : a(p), b(q) {}
};
__device__ float fresh(float *count, float v) { *count += 1.f; return v; }
__global__ void k(const float *x, float *y, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  int3 warpSize = make_int3(7, 8, 9);
  float s = sum<float, 3>(x, n), count = 0.f;
  V v = x[i] > 0.25f ? V(x[i], 1.f) : 0.5f;
  V w = x[i] > 0.f ? fresh(&count, 3.f * x[i]) : v;
  put(y + i, s, v.a + 10 * v.b + w.a * w.b + warpSize.y + B + F + next_of(2) + count + C);
}
template <typename S, int M> __device__ S sum(const S *x, int n) {
  S s = 0;
  for (int i = 0; i < M; ++i) s += x[i] * x[i];
  return s;
}
template <class U, class Q> __device__ void put(U *y, Q v, U w) { *y = v + w; }]=],
    shape = { 4 }, block = { 4 }, args = function(t) return { t.f { 4 }, 4 } end,
    want = function(x, n)
      local s = x[0] ^ 2 + x[1] ^ 2 + x[2] ^ 2
      return each(n, function(i)
        local v = x[i] > 0.25 and { x[i], 1 } or { 0.5, 1 }
        local w = x[i] > 0 and { 3 * x[i], 6 * x[i] } or v
        return s + v[1] + 10 * v[2] + w[1] * w[2] + 29.5 + (x[i] > 0 and 1 or 0)
      end)
    end },
}
