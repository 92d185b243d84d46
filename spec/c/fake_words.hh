/*
** Definitions of CUDA's keywords and functions for a CPU, which g++ reads before each text that the
** fake NVRTC compiles (fake_compute.c). A thread is a fiber of fake_fibers.c; 'fake_m' points to
** the state of the running one. One block, and one thread of it, runs at a time until it waits, so
** atomics are plain operations. No header is included: texts for NVRTC define the names of the C
** library themselves. fake_math.hh has functions, fake_half.hh halves, fake_ptx.hh asm statements.
*/
#pragma GCC diagnostic ignored "-Wall"
#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __CUDA_ARCH__ 900
#define __CUDACC_VER_MAJOR__ 13
#undef __x86_64__
#undef __aarch64__
#define __host__
#define __device__
#define __constant__ static
#define __managed__
#define __forceinline__ inline
#define __inline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
typedef decltype(sizeof 0) size_t;
typedef decltype((char *)0 - (char *)0) ptrdiff_t;
namespace std {                  /* NVRTC defines this namespace, too */
template <class T> class initializer_list {
  const T *fake_at;
  size_t fake_n;
  constexpr initializer_list(const T *p, size_t n) : fake_at(p), fake_n(n) {}
public:
  constexpr initializer_list() : fake_at(0), fake_n(0) {}
  constexpr size_t size() const { return fake_n; }
  constexpr const T *begin() const { return fake_at; }
  constexpr const T *end() const { return fake_at + fake_n; }
};
}
typedef unsigned char fake_u8;
typedef unsigned short fake_u16;
typedef unsigned int fake_u32;
typedef unsigned long long fake_u64;
#define FAKE static inline
extern "C" {
void *memcpy(void *, const void *, size_t);
void *memset(void *, int, size_t);
int printf(const char *, ...);
}

/* ---- vectors ---- */
#define FAKE_VECTORS(T, N, A2, A4) \
  struct N##1 { T x; }; \
  struct alignas(A2) N##2 { T x, y; }; \
  struct N##3 { T x, y, z; }; \
  struct alignas(A4) N##4 { T x, y, z, w; }; \
  FAKE N##1 make_##N##1(T x) { return N##1{ x }; } \
  FAKE N##2 make_##N##2(T x, T y) { return N##2{ x, y }; } \
  FAKE N##3 make_##N##3(T x, T y, T z) { return N##3{ x, y, z }; } \
  FAKE N##4 make_##N##4(T x, T y, T z, T w) { return N##4{ x, y, z, w }; }
FAKE_VECTORS(signed char, char, 2, 4)
FAKE_VECTORS(unsigned char, uchar, 2, 4)
FAKE_VECTORS(short, short, 4, 8)
FAKE_VECTORS(unsigned short, ushort, 4, 8)
FAKE_VECTORS(int, int, 8, 16)
FAKE_VECTORS(unsigned, uint, 8, 16)
FAKE_VECTORS(long, long, 16, 16)
FAKE_VECTORS(unsigned long, ulong, 16, 16)
FAKE_VECTORS(long long, longlong, 16, 16)
FAKE_VECTORS(unsigned long long, ulonglong, 16, 16)
FAKE_VECTORS(float, float, 8, 16)
FAKE_VECTORS(double, double, 16, 16)
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  operator uint3() const { return uint3{ x, y, z }; }
};

/* ---- the machine: fake_fibers.c declares the same structs in C ---- */
/* the values that the lanes of a warp have passed to one operation */
struct fake_lanes {
  unsigned mask;                 /* the lanes that have passed a value */
  unsigned lane;                 /* the lane whose result is computed */
  unsigned char value[32][32];
};
enum fake_kind { FAKE_SYNC, FAKE_SHFL, FAKE_VOTE, FAKE_MATCH, FAKE_REDUCE, FAKE_MMA };
struct fake_machine {
  uint3 thread, block;
  uint3 threads, blocks;
  unsigned linear;               /* of the thread in its block */
  unsigned run;                  /* a number that differs for each block that runs */
  unsigned char *dynamic;        /* dynamic shared memory of the launch */
  /* __syncthreads(): waits, and returns the number of threads that passed p != 0 */
  unsigned (*barrier)(int id, unsigned n, int p);
  /* the number of threads of the block that have not ended, which all meet at a barrier */
  unsigned (*arrived)(void);
  void (*warp)(int kind, unsigned mask, const void *value, unsigned size,
               void (*finish)(const fake_lanes *, void *), void *arg);
  unsigned (*active)(void *at);
  void (*fail)(const char *why, const char *what);
  void (*leave)(void);           /* the thread ends */
};
extern "C" { __attribute__((visibility("default"))) fake_machine *fake_m = 0; }
#define threadIdx (fake_m->thread)
#define blockIdx (fake_m->block)
#define blockDim (fake_m->threads)
#define gridDim (fake_m->blocks)
#define warpSize 32

/* Shared memory is undefined when a block begins: the first thread that meets the declaration fills
** the variable with bytes that are unlikely values. */
FAKE void fake_shared(unsigned *seen, void *p, size_t n) {
  if (*seen == fake_m->run) return;
  *seen = fake_m->run;
  memset(p, 0xa5 + (fake_m->run & 0x5a), n);
}
/* Addresses of shared memory have 32 bits: 2^31 plus the offset in dynamic shared memory, or 2^30
** plus the distance of a static shared variable from fake_near. */
static char fake_near[1];
FAKE size_t __cvta_generic_to_shared(const void *p) {
  const size_t far = (size_t)p - (size_t)fake_m->dynamic;
  return far < 1 << 20 ? 0x80000000u + far : (unsigned)((size_t)p - (size_t)fake_near + 0x40000000);
}
FAKE void *fake_at_shared(unsigned at) {
  return at >= 0x80000000u ? (void *)(fake_m->dynamic + (at - 0x80000000u))
                           : (void *)(fake_near + ((ptrdiff_t)at - 0x40000000));
}
template <class T> FAKE int __isShared(const T *) { return 0; }

/* ---- launches: fake_start calls a kernel with arguments from an array of their addresses ---- */
template <int... I> struct fake_list {};
template <int N, int... I> struct fake_count : fake_count<N - 1, N - 1, I...> {};
template <int... I> struct fake_count<0, I...> { typedef fake_list<I...> list; };
template <class T> struct fake_plain { typedef T type; };
template <class T> struct fake_plain<const T> { typedef T type; };
template <class T> struct fake_plain<T &> { typedef T type; };
template <class... A, int... I> FAKE void fake_call(void (*f)(A...), void **p, fake_list<I...>) {
  f(*(typename fake_plain<A>::type *)p[I]...);
}
template <class... A> FAKE void fake_start(void (*f)(A...), void **p) {
  fake_call(f, p, typename fake_count<sizeof...(A)>::list());
}
template <class... A> FAKE int fake_sizes(void (*)(A...), unsigned *size) {
  const unsigned all[] = { 0u, (unsigned)sizeof(A)... };
  for (unsigned i = 0; size && i < sizeof...(A); i++) size[i] = all[i + 1];
  return (int)sizeof...(A);
}

/* ---- waiting ---- */
FAKE void __syncthreads() { fake_m->barrier(0, 0, 0); }
FAKE int __syncthreads_count(int p) { return (int)fake_m->barrier(0, 0, p != 0); }
FAKE int __syncthreads_or(int p) { return fake_m->barrier(0, 0, p != 0) > 0; }
FAKE int __syncthreads_and(int p) { return fake_m->barrier(0, 0, p == 0) == 0; }
FAKE void __syncwarp(unsigned mask = ~0u) { fake_m->warp(FAKE_SYNC, mask, 0, 0, 0, 0); }
static __attribute__((noinline)) unsigned __activemask() {
  return fake_m->active(__builtin_return_address(0));
}
FAKE void __threadfence() {}
FAKE void __threadfence_block() {}
FAKE void __threadfence_system() {}
FAKE void __nanosleep(unsigned) { fake_m->warp(-1, 0, 0, 0, 0, 0); }
/* to += x of shared memory, which is not atomic: other threads run between its load and its
** store. */
template <class T, class X> FAKE T &fake_plus(T &to, const X &x) {
  const T sum = (T)(to + x);
  __nanosleep(0);
  return to = sum;
}
static long long fake_time;
FAKE long long clock64() { return fake_time += 7; }
FAKE int clock() { return (int)clock64(); }
FAKE void __trap() { fake_m->fail("a kernel ended with __trap()", ""); }
FAKE void __brkpt() { fake_m->fail("a kernel called __brkpt()", ""); }
#define assert(x) ((x) ? (void)0 : fake_m->fail("assertion failed", #x))
#define __builtin_assume(x) assert(x)
#define __assume(x) assert(x)

/* ---- lanes ---- */
template <class T> struct fake_shuffle { unsigned from; T got; };
template <class T> FAKE void fake_shuffled(const fake_lanes *l, void *p) {
  fake_shuffle<T> *s = (fake_shuffle<T> *)p;
  if (l->mask >> s->from & 1) memcpy(&s->got, l->value[s->from], sizeof(T));
  else memset(&s->got, 0xa5, sizeof(T));     /* the source lane takes no part: undefined */
}
template <class T> FAKE T fake_shfl(unsigned mask, T v, unsigned from) {
  fake_shuffle<T> s = { from & 31, v };
  fake_m->warp(FAKE_SHFL, mask, &v, sizeof v, fake_shuffled<T>, &s);
  return s.got;
}
#define FAKE_LANE int lane = (int)(fake_m->linear & 31), base = lane & ~(width - 1), k = lane - base
template <class T> FAKE T __shfl_sync(unsigned mask, T v, int from, int width = 32) {
  FAKE_LANE;
  (void)k;
  return fake_shfl(mask, v, (unsigned)(base + (from & (width - 1))));
}
template <class T> FAKE T __shfl_up_sync(unsigned mask, T v, unsigned d, int width = 32) {
  FAKE_LANE;
  return fake_shfl(mask, v, (unsigned)(k < (int)d ? lane : lane - (int)d));
}
template <class T> FAKE T __shfl_down_sync(unsigned mask, T v, unsigned d, int width = 32) {
  FAKE_LANE;
  return fake_shfl(mask, v, (unsigned)(k + (int)d >= width ? lane : lane + (int)d));
}
template <class T> FAKE T __shfl_xor_sync(unsigned mask, T v, int d, int width = 32) {
  FAKE_LANE;
  (void)k;
  const int from = lane ^ d;
  return fake_shfl(mask, v, (unsigned)(from >= base + width ? lane : from));
}
FAKE void fake_voted(const fake_lanes *l, void *p) {
  unsigned r = 0;
  for (int i = 0; i < 32; i++) if (l->mask >> i & 1 && l->value[i][0]) r |= 1u << i;
  *(unsigned *)p = r;
}
FAKE unsigned __ballot_sync(unsigned mask, int p) {
  const unsigned char v = p != 0;
  unsigned r = 0;
  fake_m->warp(FAKE_VOTE, mask, &v, 1, fake_voted, &r);
  return r;
}
FAKE int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
FAKE int __all_sync(unsigned mask, int p) { return __ballot_sync(mask, !p) == 0; }
template <class T> FAKE void fake_matched(const fake_lanes *l, void *p) {
  unsigned r = 0;
  for (int i = 0; i < 32; i++)
    if (l->mask >> i & 1 && !__builtin_memcmp(l->value[i], l->value[l->lane], sizeof(T)))
      r |= 1u << i;
  *(unsigned *)p = r;
  ((unsigned *)p)[1] = r == l->mask;
}
template <class T> FAKE unsigned __match_any_sync(unsigned mask, T v) {
  unsigned r[2];
  fake_m->warp(FAKE_MATCH, mask, &v, sizeof v, fake_matched<T>, r);
  return r[0];
}
template <class T> FAKE unsigned __match_all_sync(unsigned mask, T v, int *same) {
  unsigned r[2];
  fake_m->warp(FAKE_MATCH, mask, &v, sizeof v, fake_matched<T>, r);
  *same = (int)r[1];
  return r[1] ? mask : 0;
}
#define FAKE_REDUCES(NAME, T, STEP) \
  FAKE void fake_##NAME(const fake_lanes *l, T *p) { \
    int first = 1; \
    T r = 0, x; \
    for (int i = 0; i < 32; i++) { \
      if (!(l->mask >> i & 1)) continue; \
      memcpy(&x, l->value[i], sizeof x); \
      r = first ? x : (T)(STEP); \
      first = 0; \
    } \
    *p = r; \
  } \
  FAKE T __reduce_##NAME##_sync(unsigned mask, T v) { \
    T r; \
    fake_m->warp(FAKE_REDUCE, mask, &v, sizeof v, \
                 [](const fake_lanes *l, void *p) { fake_##NAME(l, (T *)p); }, &r); \
    return r; \
  }
FAKE_REDUCES(add, unsigned, r + x)
FAKE_REDUCES(add, int, (unsigned)r + (unsigned)x)
FAKE_REDUCES(min, unsigned, x < r ? x : r)
FAKE_REDUCES(min, int, x < r ? x : r)
FAKE_REDUCES(max, unsigned, x > r ? x : r)
FAKE_REDUCES(max, int, x > r ? x : r)
FAKE_REDUCES(and, unsigned, r & x)
FAKE_REDUCES(or, unsigned, r | x)
FAKE_REDUCES(xor, unsigned, r ^ x)

/* ---- memory ---- */
#define FAKE_LOAD(NAME) template <class T> FAKE T NAME(const T *p) { return *p; }
FAKE_LOAD(__ldg) FAKE_LOAD(__ldca) FAKE_LOAD(__ldcg) FAKE_LOAD(__ldcs) FAKE_LOAD(__ldcv)
FAKE_LOAD(__ldlu)
#define FAKE_STORE(NAME) \
  template <class T> FAKE void NAME(T *p, typename fake_plain<T>::type v) { *p = v; }
FAKE_STORE(__stwb) FAKE_STORE(__stcg) FAKE_STORE(__stcs) FAKE_STORE(__stwt)
#define FAKE_ATOMIC(NAME, STEP) \
  template <class T> FAKE T NAME(T *p, typename fake_plain<T>::type v) { \
    const T old = *p; \
    *p = (T)(STEP); \
    return old; \
  } \
  template <class T> FAKE T NAME##_block(T *p, typename fake_plain<T>::type v) { \
    return NAME(p, v); \
  } \
  template <class T> FAKE T NAME##_system(T *p, typename fake_plain<T>::type v) { \
    return NAME(p, v); \
  }
FAKE_ATOMIC(atomicAdd, old + v)
FAKE_ATOMIC(atomicSub, old - v)
FAKE_ATOMIC(atomicMin, v < old ? v : old)
FAKE_ATOMIC(atomicMax, v > old ? v : old)
FAKE_ATOMIC(atomicAnd, old & v)
FAKE_ATOMIC(atomicOr, old | v)
FAKE_ATOMIC(atomicXor, old ^ v)
FAKE_ATOMIC(atomicExch, v)
FAKE_ATOMIC(atomicInc, old >= v ? 0 : old + 1)
FAKE_ATOMIC(atomicDec, old == 0 || old > v ? v : old - 1)
#define FAKE_CAS(NAME) \
  template <class T> \
  FAKE T NAME(T *p, typename fake_plain<T>::type old, typename fake_plain<T>::type v) { \
    const T seen = *p; \
    if (!__builtin_memcmp(&seen, &old, sizeof(T))) *p = v; \
    return seen; \
  }
FAKE_CAS(atomicCAS) FAKE_CAS(atomicCAS_block) FAKE_CAS(atomicCAS_system)
FAKE float2 atomicAdd(float2 *p, float2 v) {
  const float2 old = *p;
  *p = float2{ old.x + v.x, old.y + v.y };
  return old;
}
FAKE float4 atomicAdd(float4 *p, float4 v) {
  const float4 old = *p;
  *p = float4{ old.x + v.x, old.y + v.y, old.z + v.z, old.w + v.w };
  return old;
}
#include "fake_math.hh"
#include "fake_half.hh"
#include "fake_ptx.hh"
