/*
** Weights as whole numbers and their running sums, for draws: a block of 1024 threads per row, in
** which each thread takes some neighbouring elements. Header-free; T, float or double, is defined
** before it. Quotients and roundings are those of IEEE 754 and sums of integers do not depend on
** the order, so the results are those of the CPU. Memory traffic: a row, which is short, is read
** three times, twice from a cache.
*/
typedef long long i64;

/* The largest of the block's values; 'tops' has room for 32. *any: does a thread have 'stop'? */
static __device__ __forceinline__ double top_of(double top, double *tops, int stop, int *any) {
  for (int d = 16; d > 0; d /= 2) {
    const double v = __shfl_xor_sync(~0u, top, d);
    if (v > top) top = v;
  }
  if ((threadIdx.x & 31) == 0) tops[threadIdx.x >> 5] = top;
  *any = __syncthreads_or(stop);
  for (int k = 0; k < 32; k++) if (tops[k] > top) top = tops[k];
  return top;
}

/* The sum of the values of the threads before this one; 'sums' has room for 32. */
static __device__ __forceinline__ i64 sum_before(i64 own, i64 *sums) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  i64 run = own, before = 0;
  for (int d = 1; d < 32; d *= 2) {
    const i64 y = __shfl_up_sync(~0u, run, d);
    if (lane >= d) run += y;
  }
  if (lane == 31) sums[warp] = run;
  __syncthreads();
  for (int k = 0; k < warp; k++) before += sums[k];
  return before + run - own;
}

/* at[j]: the sum of round(w / largest * scale) up to j. Where a weight is negative, infinite or
** NaN, or all are 0: at[j] = j + 1, and a report in 'late' (src/cuda/driver/state.h). Of several
** reports the least is kept: one of a bad weight before one of zeros, then the lowest place. */
extern "C" __global__ void __launch_bounds__(1024) weights(const T *w, i64 *at, int n, double scale,
                                                           unsigned long long *late,
                                                           unsigned long long site) {
  __shared__ double tops[32];
  __shared__ int first;
  __shared__ i64 sums[32];
  const int each = (n + 1023) / 1024;
  const int from = threadIdx.x * each, end = from + each < n ? from + each : n;
  w += blockIdx.x * (i64)n;
  at += blockIdx.x * (i64)n;
  double top = 0;
  int bad = n;
  if (threadIdx.x == 0) first = n;
  for (int i = threadIdx.x; i < n; i += 1024) {
    const double v = w[i];
    if (bad == n && !(v >= 0 && v < __longlong_as_double(0x7FF0000000000000ll))) bad = i;
    if (v > top) top = v;
  }
  int any;
  top = top_of(top, tops, bad < n, &any);
  if (any || top == 0) {                                    /* uniform in the block */
    for (int i = threadIdx.x; i < n; i += 1024) at[i] = i + 1;
    if (bad < n) atomicMin(&first, bad);
    __syncthreads();
    const unsigned long long place = any ? blockIdx.x * (unsigned long long)n + first
                                         : gridDim.x == 1 ? 1ull << 46 : blockIdx.x;
    if (threadIdx.x == 0) atomicMin(late, (unsigned long long)!any << 63 | place << 16 | site);
    return;
  }
  i64 own = 0;
  for (int i = from; i < end; i++) own += (i64)rint(w[i] / top * scale);
  i64 before = sum_before(own, sums);
  for (int i = from; i < end; i++) {
    before += (i64)rint(w[i] / top * scale);
    at[i] = before;
  }
}
