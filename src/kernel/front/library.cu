/*
** Functions of CUDA in the language itself (library.h). Embedded as text, read before a source
** that names one of them. Names that begin with "fl_" are the library's own.
*/
__device__ float modff(float x, float *whole) {
  *whole = truncf(x);
  return copysignf(isinf(x) ? 0.f : x - truncf(x), x);
}
__device__ double modf(double x, double *whole) {
  *whole = trunc(x);
  return copysign(isinf(x) ? 0. : x - trunc(x), x);
}
__device__ float modf(float x, float *whole) { return modff(x, whole); }
__device__ float frexpf(float x, int *e) {
  const int k = x == 0.f || !isfinite(x) ? 0 : (int)logbf(x) + 1;
  *e = k;
  return k < -100 ? ldexpf(ldexpf(x, 100), -k - 100) : ldexpf(x, -k);
}
__device__ double frexp(double x, int *e) {
  const int k = x == 0. || !isfinite(x) ? 0 : (int)logb(x) + 1;
  *e = k;
  return k < -1000 ? ldexp(ldexp(x, 100), -k - 100) : ldexp(x, -k);
}
__device__ int ilogbf(float x) {
  if (x == 0.f || isnan(x)) return (int)0x80000000;
  return isinf(x) ? 0x7fffffff : (int)logbf(x);
}
__device__ int ilogb(double x) {
  if (x == 0. || isnan(x)) return (int)0x80000000;
  return isinf(x) ? 0x7fffffff : (int)logb(x);
}
__device__ float norm4df(float a, float b, float c, float d) {
  return hypotf(hypotf(a, b), hypotf(c, d));
}
__device__ double norm4d(double a, double b, double c, double d) {
  return hypot(hypot(a, b), hypot(c, d));
}
__device__ float rnorm4df(float a, float b, float c, float d) { return 1.f / norm4df(a, b, c, d); }
__device__ double rnorm4d(double a, double b, double c, double d) {
  return 1. / norm4d(a, b, c, d);
}
__device__ float __frcp_rn(float x) { return 1.f / x; }
__device__ double __drcp_rn(double x) { return 1. / x; }
/* the number before r, seen from 0, where r is above 1 / x: what is left of 1 tells exactly */
__device__ float __frcp_rz(float x) {
  const float r = 1.f / x;
  if (!(fmaf(-r, x, 1.f) < 0.f)) return r;
  return isinf(r) ? copysignf(3.402823466e38f, r)
                  : fabsf(r) < 2e-38f ? r - copysignf(1e-45f, r) : r * 0.99999994f;
}

__device__ __half __ushort_as_half(unsigned short x) { return *(__half *)&x; }
__device__ __half __short_as_half(short x) { return *(__half *)&x; }
__device__ unsigned short __half_as_ushort(__half x) { return *(unsigned short *)&x; }
__device__ short __half_as_short(__half x) { return *(short *)&x; }
__device__ int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
__device__ int __double2loint(double x) { return (int)__double_as_longlong(x); }
__device__ double __hiloint2double(int high, int low) {
  return __longlong_as_double((long long)high << 32 | (unsigned)low);
}

/* ---- PyTorch's names of atomicAdd and of shuffles ---- */
#define FL_WARP(NAME, T, OF) template <class V> \
__device__ V NAME(V v, T k, const int n = 32, unsigned mask = ~0u) { return OF(mask, v, k, n); }
FL_WARP(WARP_SHFL, int, __shfl_sync)
FL_WARP(WARP_SHFL_XOR, int, __shfl_xor_sync)
FL_WARP(WARP_SHFL_UP, unsigned, __shfl_up_sync)
FL_WARP(WARP_SHFL_DOWN, unsigned, __shfl_down_sync)
__device__ unsigned WARP_BALLOT(int p, unsigned mask = ~0u) { return __ballot_sync(mask, p); }
template <class T, class U>
__device__ T gpuAtomicAdd(T *p, U v) { return atomicAdd(p, (T)v); }
template <class T, class U>
__device__ void gpuAtomicAddNoReturn(T *p, U v) { atomicAdd(p, (T)v); }

/* ---- waits for asynchronous copies: these are made at once (shared.c), so nothing is left ---- */
__device__ void __pipeline_commit() {}
__device__ void __pipeline_wait_prior(size_t) {}

/* ---- integers ---- */
__device__ int __mul24(int x, int y) { return (x << 8 >> 8) * (y << 8 >> 8); }
__device__ unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffffu) * (y & 0xffffffu); }
__device__ unsigned __usad(unsigned x, unsigned y, unsigned z) {
  return z + (x > y ? x - y : y - x);
}
__device__ unsigned __sad(int x, int y, unsigned z) {
  return z + (x > y ? (unsigned)x - (unsigned)y : (unsigned)y - (unsigned)x);
}
__device__ int __dp4a(int a, int b, int c) {
  for (int k = 0; k < 32; k += 8) c += (a << (24 - k) >> 24) * (b << (24 - k) >> 24);
  return c;
}
__device__ unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int k = 0; k < 32; k += 8) c += (a >> k & 255u) * (b >> k & 255u);
  return c;
}
__device__ unsigned __brev(unsigned x) {
  x = (x & 0x55555555u) << 1 | (x >> 1 & 0x55555555u);
  x = (x & 0x33333333u) << 2 | (x >> 2 & 0x33333333u);
  x = (x & 0x0f0f0f0fu) << 4 | (x >> 4 & 0x0f0f0f0fu);
  x = (x & 0x00ff00ffu) << 8 | (x >> 8 & 0x00ff00ffu);
  return x << 16 | x >> 16;
}
__device__ unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
__device__ unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  const unsigned long long b = (unsigned long long)y << 32 | x;
  unsigned r = 0u;
  for (int i = 0; i < 4; ++i) {
    const unsigned k = s >> (4 * i), byte = (unsigned)(b >> (8 * (k & 7u))) & 255u;
    r |= (k & 8u ? (byte & 128u ? 255u : 0u) : byte) << (8 * i);
  }
  return r;
}
__device__ unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) {
  return (unsigned)(((unsigned long long)high << 32 | low) << (n & 31u) >> 32);
}
__device__ unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (n & 31u));
}

/* ---- the block ---- */
__device__ unsigned fl_thread() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
__device__ int __syncthreads_count(int p) {
  __shared__ int n;
  __syncthreads();
  if (fl_thread() == 0u) n = 0;
  __syncthreads();
  if (p) atomicAdd(&n, 1);
  __syncthreads();
  return n;
}
__device__ int __syncthreads_or(int p) { return __syncthreads_count(p != 0) > 0 ? 1 : 0; }
__device__ int __syncthreads_and(int p) { return __syncthreads_count(p == 0) > 0 ? 0 : 1; }

/* ---- the warp: lanes that are not in the mask are not asked ---- */
#define EACH_LANE(T, STEP) \
  for (int j = 0; j < 32; ++j) { \
    const T x = __shfl_sync(mask, v, mask >> j & 1u ? j : __ffs((int)mask) - 1); \
    if (mask >> j & 1u) { STEP; } \
  }
#define REDUCE(NAME, T, FIRST, STEP) \
  __device__ T NAME(unsigned mask, T v) { T r = FIRST; EACH_LANE(T, r = STEP) return r; }
REDUCE(__reduce_add_sync, unsigned, 0u, r + x)
REDUCE(__reduce_add_sync, int, 0, r + x)
REDUCE(__reduce_min_sync, unsigned, ~0u, min(r, x))
REDUCE(__reduce_min_sync, int, 0x7fffffff, min(r, x))
REDUCE(__reduce_max_sync, unsigned, 0u, max(r, x))
REDUCE(__reduce_max_sync, int, (int)0x80000000, max(r, x))
REDUCE(__reduce_and_sync, unsigned, ~0u, r & x)
REDUCE(__reduce_or_sync, unsigned, 0u, r | x)
REDUCE(__reduce_xor_sync, unsigned, 0u, r ^ x)
#define MATCH(T) \
  __device__ unsigned __match_any_sync(unsigned mask, T v) { \
    unsigned r = 0u; \
    EACH_LANE(T, if (x == v) r |= 1u << j) \
    return r; \
  }
MATCH(unsigned)
MATCH(int)
MATCH(unsigned long)
MATCH(long)
MATCH(unsigned long long)
MATCH(long long)
MATCH(float)
MATCH(double)

/* ---- four bytes and two shorts in a word ---- */
#define PAIR_LANES(NAME, T, N, E) __device__ unsigned NAME(unsigned p, unsigned q) { \
  unsigned r = 0; \
  for (int k = 0; k < 32; k += N) { \
    const int a = (T)(p >> k), b = (T)(q >> k); \
    r |= ((unsigned)(E) & (~0u >> (32 - N))) << k; \
  } \
  return r; \
}
#define PAIR_LANE(NAME, T, N, E) __device__ unsigned NAME(unsigned p) { \
  unsigned r = 0; \
  for (int k = 0; k < 32; k += N) { \
    const int a = (T)(p >> k); \
    r |= ((unsigned)(E) & (~0u >> (32 - N))) << k; \
  } \
  return r; \
}
#define FL_SC signed char
#define FL_UC unsigned char
#define FL_US unsigned short
PAIR_LANES(__vadd4, FL_UC, 8, a + b)
PAIR_LANES(__vsub4, FL_UC, 8, a - b)
PAIR_LANES(__vaddss4, FL_SC, 8, max(min(a + b, 127), -128))
PAIR_LANES(__vsubss4, FL_SC, 8, max(min(a - b, 127), -128))
PAIR_LANES(__vaddus4, FL_UC, 8, min(a + b, 255))
PAIR_LANES(__vsubus4, FL_UC, 8, max(a - b, 0))
PAIR_LANES(__vavgu4, FL_UC, 8, (a + b + 1) / 2)
PAIR_LANES(__vabsdiffu4, FL_UC, 8, a < b ? b - a : a - b)
PAIR_LANES(__vabsdiffs4, FL_SC, 8, a < b ? b - a : a - b)
PAIR_LANES(__vmaxs4, FL_SC, 8, max(a, b))
PAIR_LANES(__vmaxu4, FL_UC, 8, max(a, b))
PAIR_LANES(__vmins4, FL_SC, 8, min(a, b))
PAIR_LANES(__vminu4, FL_UC, 8, min(a, b))
PAIR_LANES(__vcmpeq4, FL_UC, 8, a == b ? 255 : 0)
PAIR_LANES(__vcmpne4, FL_UC, 8, a == b ? 0 : 255)
PAIR_LANES(__vcmpgts4, FL_SC, 8, a > b ? 255 : 0)
PAIR_LANES(__vcmpgtu4, FL_UC, 8, a > b ? 255 : 0)
PAIR_LANES(__vcmpges4, FL_SC, 8, a < b ? 0 : 255)
PAIR_LANES(__vcmpgeu4, FL_UC, 8, a < b ? 0 : 255)
PAIR_LANES(__vcmplts4, FL_SC, 8, a < b ? 255 : 0)
PAIR_LANES(__vcmpltu4, FL_UC, 8, a < b ? 255 : 0)
PAIR_LANE(__vneg4, FL_UC, 8, -a)
PAIR_LANE(__vabs4, FL_SC, 8, a < 0 ? -a : a)
PAIR_LANES(__vadd2, FL_US, 16, a + b)
PAIR_LANES(__vsub2, FL_US, 16, a - b)
PAIR_LANES(__vmaxs2, short, 16, max(a, b))
PAIR_LANES(__vmins2, short, 16, min(a, b))
PAIR_LANES(__vmaxu2, FL_US, 16, max(a, b))
PAIR_LANES(__vminu2, FL_US, 16, min(a, b))
PAIR_LANES(__vaddus2, FL_US, 16, min(a + b, 65535))
PAIR_LANES(__vsubus2, FL_US, 16, max(a - b, 0))
PAIR_LANES(__vaddss2, short, 16, max(min(a + b, 32767), -32768))
PAIR_LANES(__vsubss2, short, 16, max(min(a - b, 32767), -32768))
PAIR_LANES(__vavgu2, FL_US, 16, (a + b + 1) / 2)
PAIR_LANES(__vabsdiffu2, FL_US, 16, a < b ? b - a : a - b)
PAIR_LANES(__vcmpeq2, FL_US, 16, a == b ? 65535 : 0)
PAIR_LANES(__vcmpne2, FL_US, 16, a == b ? 0 : 65535)
PAIR_LANES(__vcmpgtu2, FL_US, 16, a > b ? 65535 : 0)
PAIR_LANES(__vcmpgts2, short, 16, a > b ? 65535 : 0)
PAIR_LANES(__vcmpgeu2, FL_US, 16, a < b ? 0 : 65535)
PAIR_LANES(__vcmpges2, short, 16, a < b ? 0 : 65535)
PAIR_LANES(__vcmpltu2, FL_US, 16, a < b ? 65535 : 0)
PAIR_LANES(__vcmplts2, short, 16, a < b ? 65535 : 0)
PAIR_LANE(__vneg2, FL_US, 16, -a)
PAIR_LANE(__vabs2, short, 16, a < 0 ? -a : a)
__device__ unsigned __vsadu4(unsigned p, unsigned q) {
  unsigned s = 0;
  for (int k = 0; k < 32; k += 8) {
    const int a = p >> k & 255, b = q >> k & 255;
    s += a < b ? b - a : a - b;
  }
  return s;
}
__device__ int __dp2a_lo(int a, int b, int c) {
  return c + (short)a * (signed char)b + (short)(a >> 16) * (signed char)(b >> 8);
}
__device__ int __dp2a_hi(int a, int b, int c) {
  return c + (short)a * (signed char)(b >> 16) + (short)(a >> 16) * (signed char)(b >> 24);
}
__device__ unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by) {
  return by < 32 ? __funnelshift_l(low, high, by) : low;
}
__device__ unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by) {
  return by < 32 ? __funnelshift_r(low, high, by) : high;
}

/* ---- pairs of halves ---- */
#define PAIR1(P, NAME, X, Y) __device__ P NAME(P a) { P r; r.x = X; r.y = Y; return r; }
#define PAIR2(P, NAME, X, Y) __device__ P NAME(P a, P b) { P r; r.x = X; r.y = Y; return r; }
#define PAIR_IS(P, NAME, OP) \
  __device__ bool NAME(P a, P b) { return a.x OP b.x && a.y OP b.y; }
#define PAIRS(H, P) \
  __device__ P fl_pair(H a, H b) { P r; r.x = a; r.y = b; return r; } \
  PAIR2(P, __hadd2, a.x + b.x, a.y + b.y) \
  PAIR2(P, __hsub2, a.x - b.x, a.y - b.y) \
  PAIR2(P, __hmul2, a.x * b.x, a.y * b.y) \
  PAIR2(P, __h2div, a.x / b.x, a.y / b.y) \
  PAIR2(P, operator+, a.x + b.x, a.y + b.y) \
  PAIR2(P, operator-, a.x - b.x, a.y - b.y) \
  PAIR2(P, operator*, a.x * b.x, a.y * b.y) \
  PAIR2(P, operator/, a.x / b.x, a.y / b.y) \
  PAIR2(P, __hmin2, __hmin(a.x, b.x), __hmin(a.y, b.y)) \
  PAIR2(P, __hmax2, __hmax(a.x, b.x), __hmax(a.y, b.y)) \
  PAIR1(P, __hneg2, __hneg(a.x), __hneg(a.y)) \
  PAIR1(P, __habs2, __habs(a.x), __habs(a.y)) \
  PAIR1(P, h2exp, hexp(a.x), hexp(a.y)) \
  PAIR1(P, h2exp2, hexp2(a.x), hexp2(a.y)) \
  PAIR1(P, h2log, hlog(a.x), hlog(a.y)) \
  PAIR1(P, h2sqrt, hsqrt(a.x), hsqrt(a.y)) \
  PAIR1(P, h2rsqrt, hrsqrt(a.x), hrsqrt(a.y)) \
  PAIR1(P, h2rcp, hrcp(a.x), hrcp(a.y)) \
  PAIR1(P, h2sin, hsin(a.x), hsin(a.y)) \
  PAIR1(P, h2cos, hcos(a.x), hcos(a.y)) \
  PAIR2(P, __heq2, (H)(a.x == b.x), (H)(a.y == b.y)) \
  PAIR2(P, __hne2, (H)(a.x < b.x || a.x > b.x), (H)(a.y < b.y || a.y > b.y)) \
  PAIR2(P, __hle2, (H)(a.x <= b.x), (H)(a.y <= b.y)) \
  PAIR2(P, __hge2, (H)(a.x >= b.x), (H)(a.y >= b.y)) \
  PAIR2(P, __hlt2, (H)(a.x < b.x), (H)(a.y < b.y)) \
  PAIR2(P, __hgt2, (H)(a.x > b.x), (H)(a.y > b.y)) \
  PAIR1(P, __hisnan2, (H)(a.x != a.x), (H)(a.y != a.y)) \
  PAIR_IS(P, __hbeq2, ==) \
  PAIR_IS(P, __hble2, <=) \
  PAIR_IS(P, __hbge2, >=) \
  PAIR_IS(P, __hblt2, <) \
  PAIR_IS(P, __hbgt2, >) \
  PAIR1(P, __low2half2, a.x, a.x) \
  PAIR1(P, __high2half2, a.y, a.y) \
  PAIR1(P, __lowhigh2highlow, a.y, a.x) \
  __device__ P __hfma2(P a, P b, P c) { \
    P r; \
    r.x = __hfma(a.x, b.x, c.x); \
    r.y = __hfma(a.y, b.y, c.y); \
    return r; \
  }
__device__ __half hrcp(__half x) { return (__half)(1.f / (float)x); }
__device__ __nv_bfloat16 hrcp(__nv_bfloat16 x) { return (__nv_bfloat16)(1.f / (float)x); }
#define PAIR_NAN(NAME, T) __device__ bool NAME(T x) { return x != x; }
PAIR_NAN(__hisnan, __half)
PAIR_NAN(__hisnan, __nv_bfloat16)
PAIRS(__half, __half2)
PAIRS(__nv_bfloat16, __nv_bfloat162)
__device__ __half2 __halves2half2(__half a, __half b) { return fl_pair(a, b); }
__device__ __half2 __lows2half2(__half2 a, __half2 b) { return fl_pair(a.x, b.x); }
__device__ __half2 __highs2half2(__half2 a, __half2 b) { return fl_pair(a.y, b.y); }
__device__ __half2 __half2half2(__half a) { return fl_pair(a, a); }
__device__ __half2 __float2half2_rn(float a) { return fl_pair((__half)a, (__half)a); }
__device__ __half2 __floats2half2_rn(float a, float b) { return fl_pair((__half)a, (__half)b); }
__device__ __half2 __float22half2_rn(float2 a) { return fl_pair((__half)a.x, (__half)a.y); }
__device__ float2 __half22float2(__half2 a) { return make_float2((float)a.x, (float)a.y); }
__device__ float __low2float(__half2 a) { return (float)a.x; }
__device__ float __high2float(__half2 a) { return (float)a.y; }
__device__ __half __low2half(__half2 a) { return a.x; }
__device__ __half __high2half(__half2 a) { return a.y; }
__device__ __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) {
  return fl_pair(a, b);
}
__device__ __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) {
  return fl_pair(a.x, b.x);
}
__device__ __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) {
  return fl_pair(a.y, b.y);
}
__device__ __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return fl_pair(a, a); }
__device__ __nv_bfloat162 __float2bfloat162_rn(float a) {
  return fl_pair((__nv_bfloat16)a, (__nv_bfloat16)a);
}
__device__ __nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
  return fl_pair((__nv_bfloat16)a, (__nv_bfloat16)b);
}
__device__ __nv_bfloat162 __float22bfloat162_rn(float2 a) {
  return fl_pair((__nv_bfloat16)a.x, (__nv_bfloat16)a.y);
}
__device__ float2 __bfloat1622float2(__nv_bfloat162 a) {
  return make_float2((float)a.x, (float)a.y);
}
__device__ float __low2float(__nv_bfloat162 a) { return (float)a.x; }
__device__ float __high2float(__nv_bfloat162 a) { return (float)a.y; }
__device__ __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
__device__ __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }

#ifdef FL_GROUPS
/* ---- cooperative groups: "cg::name" is fl_cg_name (library.c) ---- */
struct fl_cg_thread_block {
  __device__ static void sync() { __syncthreads(); }
  __device__ static unsigned thread_rank() { return fl_thread(); }
  __device__ static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  __device__ static unsigned num_threads() { return size(); }
  __device__ static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  __device__ static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  __device__ static dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  __device__ static dim3 dim_threads() { return group_dim(); }
};
struct fl_cg_grid_group {
  __device__ static void sync() { fl_sync_grid(); }
  __device__ static bool is_valid() { return true; }
  __device__ static dim3 group_dim() { return dim3(gridDim.x, gridDim.y, gridDim.z); }
  __device__ static dim3 dim_blocks() { return group_dim(); }
  __device__ static dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  __device__ static unsigned long long block_rank() {
    return blockIdx.x + (unsigned long long)gridDim.x *
           (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
  }
  __device__ static unsigned long long num_blocks() {
    return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
  }
  __device__ static unsigned long long thread_rank() {
    return block_rank() * fl_cg_thread_block::size() + fl_thread();
  }
  __device__ static unsigned long long size() { return num_blocks() * fl_cg_thread_block::size(); }
  __device__ static unsigned long long num_threads() { return size(); }
};
template <unsigned N, class P = fl_cg_thread_block> struct fl_cg_thread_block_tile {
  __device__ static unsigned fl_low() { return fl_thread() & (32u - N); }
  __device__ static unsigned fl_mask() { return 0xffffffffu >> (32u - N) << fl_low(); }
  __device__ static void sync() {
    if constexpr (N == 32u) __syncwarp();
    else __syncwarp(fl_mask());
  }
  __device__ static unsigned thread_rank() { return fl_thread() & (N - 1u); }
  __device__ static constexpr unsigned size() { return N; }
  __device__ static constexpr unsigned num_threads() { return N; }
  __device__ static unsigned meta_group_rank() { return fl_thread() / N; }
  __device__ static unsigned meta_group_size() { return (fl_cg_thread_block::size() + N - 1u) / N; }
  template <class T> __device__ T shfl(T v, int k) const { return __shfl_sync(fl_mask(), v, k, N); }
  template <class T> __device__ T shfl_up(T v, int k) const {
    return __shfl_up_sync(fl_mask(), v, k, N);
  }
  template <class T> __device__ T shfl_down(T v, int k) const {
    return __shfl_down_sync(fl_mask(), v, k, N);
  }
  template <class T> __device__ T shfl_xor(T v, int k) const {
    return __shfl_xor_sync(fl_mask(), v, k, N);
  }
  __device__ int any(int p) const { return __any_sync(fl_mask(), p); }
  __device__ int all(int p) const { return __all_sync(fl_mask(), p); }
  __device__ unsigned ballot(int p) const { return __ballot_sync(fl_mask(), p) >> fl_low(); }
  template <class T> __device__ unsigned match_any(T v) const {
    return __match_any_sync(fl_mask(), v) >> fl_low();
  }
};
struct fl_cg_coalesced_group {
  unsigned fl_mask;
  __device__ void sync() const { __syncwarp(fl_mask); }
  __device__ unsigned thread_rank() const {
    return __popc(fl_mask & ((1u << (fl_thread() & 31u)) - 1u));
  }
  __device__ unsigned size() const { return __popc(fl_mask); }
  __device__ unsigned num_threads() const { return __popc(fl_mask); }
  template <class T> __device__ T shfl(T v, unsigned rank) const {
    int k = 0;
    for (int j = 0; j < 32; ++j)
      if (fl_mask >> j & 1u) {
        if (rank == 0u) k = j;
        --rank;
      }
    return __shfl_sync(fl_mask, v, k);
  }
  template <class T> __device__ T shfl_down(T v, unsigned by) const {
    const unsigned k = thread_rank() + by;
    return shfl(v, k < size() ? k : thread_rank());
  }
  template <class T> __device__ T shfl_up(T v, unsigned by) const {
    return shfl(v, thread_rank() < by ? thread_rank() : thread_rank() - by);
  }
  __device__ unsigned meta_group_rank() const { return 0u; }
  __device__ unsigned meta_group_size() const { return 1u; }
  __device__ int any(int p) const { return __any_sync(fl_mask, p); }
  __device__ int all(int p) const { return __all_sync(fl_mask, p); }
  __device__ unsigned ballot(int p) const {
    const unsigned set = __ballot_sync(fl_mask, p);
    unsigned r = 0u, k = 0u;
    for (int j = 0; j < 32; ++j)
      if (fl_mask >> j & 1u) r |= (set >> j & 1u) << k++;
    return r;
  }
};
/* To this type every other group converts: all threads of the block (fl_lanes is 0), or the lanes
** fl_lanes of a warp. */
struct fl_cg_thread_group {
  unsigned fl_n, fl_lanes;
  __device__ fl_cg_thread_group(unsigned n, unsigned lanes) : fl_n(n), fl_lanes(lanes) {}
  __device__ fl_cg_thread_group(const fl_cg_thread_block &g) : fl_n(g.size()), fl_lanes(0u) {}
  __device__ fl_cg_thread_group(const fl_cg_coalesced_group &g)
      : fl_n(g.size()), fl_lanes(g.fl_mask) {}
  template <unsigned N, class P>
  __device__ fl_cg_thread_group(const fl_cg_thread_block_tile<N, P> &g)
      : fl_n(N), fl_lanes(g.fl_mask()) {}
  __device__ void sync() const {
    if (fl_lanes == 0u) __syncthreads();
    else __syncwarp(fl_lanes);
  }
  __device__ unsigned thread_rank() const {
    return fl_lanes == 0u ? fl_thread()
                          : __popc(fl_lanes & ((1u << (fl_thread() & 31u)) - 1u));
  }
  __device__ unsigned size() const { return fl_n; }
  __device__ unsigned num_threads() const { return fl_n; }
};
/* The part of n threads of g in which this thread is; the last part may have fewer threads. */
template <class P> __device__ fl_cg_thread_group fl_cg_tiled_partition(const P &g, unsigned n) {
  assert(n > 0u && n <= 32u && (n & (n - 1u)) == 0u && "tiles have 1, 2, 4, 8, 16 or 32 threads");
  const fl_cg_thread_group all(g);
  const unsigned first = all.thread_rank() & (0u - n), have = min(n, all.size() - first);
  if (all.fl_lanes == 0u)
    return fl_cg_thread_group(have, 0xffffffffu >> (32u - have) << (first & 31u));
  unsigned lanes = 0u, k = 0u;
  for (unsigned l = 0u; l < 32u; ++l)
    if ((all.fl_lanes >> l & 1u) != 0u && k++ - first < n) lanes |= 1u << l;
  return fl_cg_thread_group(have, lanes);
}
/* The threads of g that have the same label as this thread. */
template <class T> __device__ fl_cg_coalesced_group fl_cg_labeled_partition(
    const fl_cg_coalesced_group &g, T label) {
  return fl_cg_coalesced_group{__match_any_sync(g.fl_mask, label)};
}
template <class G, class T> __device__ fl_cg_coalesced_group fl_cg_labeled_partition(
    const G &g, T label) {
  return fl_cg_coalesced_group{__match_any_sync(g.fl_mask(), label)};
}
__device__ fl_cg_coalesced_group fl_cg_binary_partition(const fl_cg_coalesced_group &g, bool p) {
  const unsigned set = __ballot_sync(g.fl_mask, p);
  return fl_cg_coalesced_group{p ? set : g.fl_mask & ~set};
}
template <class G> __device__ fl_cg_coalesced_group fl_cg_binary_partition(const G &g, bool p) {
  const unsigned set = __ballot_sync(g.fl_mask(), p);
  return fl_cg_coalesced_group{p ? set : g.fl_mask() & ~set};
}
__device__ fl_cg_thread_block fl_cg_this_thread_block() { return fl_cg_thread_block{}; }
__device__ fl_cg_grid_group fl_cg_this_grid() { return fl_cg_grid_group{}; }
__device__ fl_cg_coalesced_group fl_cg_coalesced_threads() {
  return fl_cg_coalesced_group{__activemask()};
}
template <unsigned N, class P> __device__ fl_cg_thread_block_tile<N> fl_cg_tiled_partition(
    const P &group) {
  static_assert(N > 0u && N <= 32u && (N & (N - 1u)) == 0u,
                "tiles have 1, 2, 4, 8, 16 or 32 threads here");
  return fl_cg_thread_block_tile<N>{};
}
template <class G> __device__ void fl_cg_sync(const G &g) { g.sync(); }
template <class G> __device__ void fl_cg_wait(const G &g) { g.sync(); }
template <class G, class T> __device__ void fl_cg_memcpy_async(
    const G &g, T *to, const T *from, unsigned bytes) {
  for (unsigned i = g.thread_rank(); i < bytes / sizeof(T); i += g.size()) to[i] = from[i];
}
#define CHOICE(NAME, E) \
  template <class T> struct fl_cg_##NAME { __device__ T operator()(T a, T b) const { return E; } };
CHOICE(plus, a + b)
CHOICE(less, b < a ? b : a)
CHOICE(greater, a < b ? b : a)
CHOICE(bit_and, a & b)
CHOICE(bit_or, a | b)
CHOICE(bit_xor, a ^ b)
template <class G, class T, class F> __device__ T fl_cg_reduce(const G &g, T v, F f) {
  for (unsigned o = g.size() / 2u; o > 0u; o >>= 1) v = f(v, g.shfl_xor(v, o));
  return v;
}
template <class T, class F> __device__ T fl_cg_reduce(const fl_cg_coalesced_group &g, T v, F f) {
  T r = g.shfl(v, 0u);
  for (unsigned k = 1u; k < g.size(); ++k) r = f(r, g.shfl(v, k));
  return r;
}
template <class G, class T, class F = fl_cg_plus<T>> __device__ T fl_cg_inclusive_scan(
    const G &g, T v, F f = F()) {
  for (unsigned o = 1u; o < g.size(); o <<= 1) {
    const T u = g.shfl_up(v, o);
    if (g.thread_rank() >= o) v = f(u, v);
  }
  return v;
}
template <class G, class T, class F = fl_cg_plus<T>> __device__ T fl_cg_exclusive_scan(
    const G &g, T v, F f = F()) {
  const T u = g.shfl_up(fl_cg_inclusive_scan(g, v, f), 1);
  return g.thread_rank() == 0u ? T(0) : u;
}
#endif
