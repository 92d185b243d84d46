/*
** Sums over the elements of several arrays: their squares (what = 0), magnitudes (1), or the
** largest magnitude (2). A block has CHUNK elements of one array, a thread every 256th of these in
** four sums of its dtype (half types in f32); the sums of blocks are joined in f64, by the block
** that ends last, in the order of their numbers, so the order follows from sizes alone. joined: the
** first array is a sum that was made so, and is added as it is; root: the result is the square
** root. Each element is read once. Any lengths; dtype: 0 f32, 1 f64, 2 f16, 3 bf16.
*/
typedef long long i64;
typedef unsigned short u16;
enum { CHUNK = 32768, MOST = 96 };

struct power_args {                     /* laid out as in src/cuda/call/call_power.c */
  const void *in[MOST];
  i64 n[MOST];
  int first[MOST];                      /* the block with which an array begins */
  unsigned char dtype[MOST];
  int count, what, joined, root, wide, blocks;    /* wide: the result is f64 */
  double *part; unsigned *done; void *out;
};

struct halves { u16 bits; };
struct brains { u16 bits; };
static __device__ __forceinline__ float value_of(float x) { return x; }
static __device__ __forceinline__ double value_of(double x) { return x; }
static __device__ __forceinline__ float value_of(halves h) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h.bits));
  return x;
}
static __device__ __forceinline__ float value_of(brains h) {
  return __uint_as_float((unsigned)h.bits << 16);
}

template<typename T> __device__ __forceinline__ T join(T a, T b, int what) {
  return what != 2 ? a + b : b > a || b != b ? b : a;
}

template<typename S, typename T> __device__ double sum_of(const void *x, i64 from, int n,
                                                          int what) {
  const T *at = (const T *)x + from;
  S sum[4] = { 0, 0, 0, 0 };
  for (int i = threadIdx.x; i < n; i += 1024)
    for (int k = 0; k < 4; k++) {
      S v = i + 256 * k < n ? (S)value_of(at[i + 256 * k]) : (S)0;
      if (v < 0) v = -v;
      sum[k] = join(sum[k], what == 0 ? v * v : v, what);
    }
  return join(join((double)sum[0], (double)sum[1], what),
              join((double)sum[2], (double)sum[3], what), what);
}

/* Thread 0 gets all threads' values joined. */
static __device__ double block_sum(double v, double *sums, int what) {
  for (int d = 16; d > 0; d /= 2) v = join(v, __shfl_xor_sync(~0u, v, d), what);
  if ((threadIdx.x & 31) == 0) sums[threadIdx.x >> 5] = v;
  __syncthreads();
  v = sums[0];
  for (int k = 1; k < 8; k++) v = join(v, sums[k], what);
  return v;
}

extern "C" __global__ void __launch_bounds__(256) power_sum(const __grid_constant__ power_args a) {
  __shared__ double sums[8];
  __shared__ int last;
  const int b = blockIdx.x;
  int k = 0;
  for (int step = 64; step > 0; step /= 2)
    if (k + step < a.count && a.first[k + step] <= b) k += step;
  const i64 from = (i64)(b - a.first[k]) * CHUNK, left = a.n[k] - from;
  const int n = left < 0 ? 0 : left < CHUNK ? (int)left : CHUNK;
  const int what = a.joined && k == 0 && a.what == 0 ? 1 : a.what;
  double v = 0;
  if (a.dtype[k] == 0) v = sum_of<float, float>(a.in[k], from, n, what);
  else if (a.dtype[k] == 1) v = sum_of<double, double>(a.in[k], from, n, what);
  else if (a.dtype[k] == 2) v = sum_of<float, halves>(a.in[k], from, n, what);
  else v = sum_of<float, brains>(a.in[k], from, n, what);
  v = block_sum(v, sums, what);
  if (threadIdx.x == 0) {
    a.part[b] = v;
    __threadfence();
    last = atomicAdd(a.done, 1u) == (unsigned)a.blocks - 1;
  }
  __syncthreads();
  if (!last) return;                                        /* uniform in the block */
  __threadfence();
  v = 0;
  for (int i = threadIdx.x; i < a.blocks; i += 256)
    v = join(v, ((volatile double *)a.part)[i], a.what);
  v = block_sum(v, sums, what);
  if (threadIdx.x != 0) return;
  if (a.root) v = sqrt(v);
  *a.done = 0;
  if (a.wide) *(double *)a.out = v;
  else *(float *)a.out = (float)v;
}
