/*
** Searches in sorted rows, counts of ids, positions of elements that are not zero. Header-free;
** compiled for one dtype, with these lines before it: BITS of an element; KIND 0 float, 1 signed, 2
** unsigned, 3 bool; HALF 1 for bf16 (f16 is the float of 16 bits otherwise). Counts are integers,
** so the order in which blocks add to them does not change the result.
*/
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#define FN __device__ __forceinline__
#define KERNEL extern "C" __global__ void

#if BITS == 64
typedef u64 S;
#elif BITS == 32
typedef u32 S;
#elif BITS == 16
typedef u16 S;
#else
typedef u8 S;
#endif

/* ---- searchsorted: one thread per value ---- */

/* Maps elements to integers in the same order; a NaN has no such integer (is_nan finds it). */
#if KIND == 0
#define SIGN ((u64)1 << (BITS - 1))
#if BITS == 64
#define INF 0x7FF0000000000000ull
#elif BITS == 32
#define INF 0x7F800000ull
#elif HALF
#define INF 0x7F80ull
#else
#define INF 0x7C00ull
#endif
FN bool is_nan(S b) { return ((u64)b & (SIGN - 1)) > INF; }
FN long long rank_of(S b) {
  const long long size = (long long)((u64)b & (SIGN - 1));
  return (u64)b & SIGN ? -size : size;
}
#else
FN bool is_nan(S) { return false; }
#if KIND == 1 && BITS == 64
FN long long rank_of(S b) { return (long long)b; }
#elif KIND == 1 && BITS == 32
FN long long rank_of(S b) { return (int)b; }
#elif KIND == 1 && BITS == 16
FN long long rank_of(S b) { return (short)b; }
#elif KIND == 1
FN long long rank_of(S b) { return (signed char)b; }
#else
FN long long rank_of(S b) { return (long long)b; }
#endif
#endif

/* out: the 1-based position at which each element of v (rows of m) would be inserted in its sorted
** row of 'table' (rows of n, or one shared row); right: after the elements equal to it. */
KERNEL search(const S *table, const S *v, long long *out, long long n, long long m, long long total,
              int right, int shared) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < total;
       i += gridDim.x * (long long)blockDim.x) {
    const S *row = table + (shared ? 0 : i / m * n);
    const bool odd = is_nan(v[i]);
    const long long key = rank_of(v[i]);
    long long low = 0, high = n;
    while (low < high) {
      const long long mid = low + (high - low) / 2;
      const long long here = rank_of(row[mid]);
      if (!odd && !is_nan(row[mid]) && (right ? here > key : here >= key)) high = mid;
      else low = mid + 1;
    }
    out[i] = low + 1;
  }
}

/* ---- histogram ---- */

KERNEL histogram_clear(long long *count, long long bins) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < bins;
       i += gridDim.x * (long long)blockDim.x)
    count[i] = 0;
}

/* Up to 4096 bins are counted in shared memory first. Ids outside 1 .. bins are ignored. */
KERNEL histogram_add(const long long *id, u64 *count, long long n, long long bins) {
  __shared__ u32 h[4096];
  const bool few = bins <= 4096;
  for (int b = threadIdx.x; few && b < bins; b += blockDim.x) h[b] = 0;
  __syncthreads();
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * (long long)blockDim.x) {
    const u64 b = (u64)id[i] - 1;
    if (b >= (u64)bins) continue;
    if (few) atomicAdd(&h[b], 1u);
    else atomicAdd(&count[b], 1ull);
  }
  __syncthreads();
  for (int b = threadIdx.x; few && b < bins; b += blockDim.x)
    if (h[b]) atomicAdd(&count[b], (u64)h[b]);
}

/* ---- nonzero: one warp per chunk, blocks of 8 warps ---- */

FN bool is_set(S b) {
#if KIND == 0
  return (S)(b << 1) != 0;
#else
  return b != 0;
#endif
}

/* Which of the MANY elements (16 bytes) from i on are set, as bits. Chunks start at multiples of
** 512 elements, so if x is aligned to 16 bytes, every chunk is. */
enum { MANY = 16 / (BITS / 8), STEP = 32 * MANY };
struct __align__(16) pack { S e[MANY]; };
FN u32 bits_of(const S *x, long long i, long long end, bool aligned) {
  u32 bits = 0;
  if (aligned && i + MANY <= end) {
    const pack p = *(const pack *)(x + i);
    for (int k = 0; k < MANY; k++) bits |= (u32)is_set(p.e[k]) << k;
  } else {
    for (int k = 0; k < MANY; k++)
      if (i + k < end && is_set(x[i + k])) bits |= 1u << k;
  }
  return bits;
}

/* Sum of v over the warp's lanes up to and with this one. */
template <class T> FN T sum_to(T v) {
  for (int d = 1; d < 32; d *= 2) {
    const T y = __shfl_up_sync(~0u, v, d);
    if ((threadIdx.x & 31) >= d) v += y;
  }
  return v;
}

/* Writes to counts[1 + i] the number of elements of chunk i that are set. nonzero_before then
** replaces it by the number in the chunks before i, and writes the number of all to counts[0]. */
KERNEL nonzero_count(const S *x, long long *counts, long long n, long long chunk) {
  const long long w = blockIdx.x * 8ll + threadIdx.x / 32, first = w * chunk;
  const long long end = first + chunk < n ? first + chunk : n;
  const bool aligned = (u64)x % 16 == 0;
  u32 mine = 0;
  for (long long i = first + (threadIdx.x & 31) * MANY; i < end; i += STEP)
    mine += __popc(bits_of(x, i, end, aligned));
  const u32 all = sum_to(mine);
  if ((threadIdx.x & 31) == 31) counts[1 + w] = all;
}

/* One block of 32 warps, 8 chunks per thread. */
KERNEL nonzero_before(long long *counts, long long chunks) {
  __shared__ long long words[32];
  const int warp = threadIdx.x / 32;
  long long v[8], mine = 0, before = 0;
  for (int q = 0; q < 8; q++) {
    const long long c = threadIdx.x * 8 + q;
    v[q] = c < chunks ? counts[1 + c] : 0;
    mine += v[q];
  }
  const long long run = sum_to(mine);
  if (threadIdx.x % 32 == 31) words[warp] = run;
  __syncthreads();
  for (int w = 0; w < warp; w++) before += words[w];
  before += run - mine;
  for (int q = 0; q < 8; q++) {
    const long long c = threadIdx.x * 8 + q;
    if (c < chunks) counts[1 + c] = before;
    before += v[q];
  }
  if (threadIdx.x == 1023) counts[0] = before;
}

struct sides { long long rank, size[8]; };

FN void put_place(long long *out, long long k, long long i, const sides &s) {
  if (s.rank == 1) {
    out[k] = i + 1;
    return;
  }
  for (int d = (int)s.rank - 1; d >= 0; d--) {
    const long long up = i < 0x80000000ll && s.size[d] < 0x80000000ll
                         ? (long long)((u32)i / (u32)s.size[d]) : i / s.size[d];
    out[k * s.rank + d] = i - up * s.size[d] + 1;
    i = up;
  }
}

/* A warp gathers the positions of those of its next STEP elements that are set in shared memory, so
** that neighbouring lanes then write neighbouring results. */
KERNEL nonzero_write(const S *x, const long long *counts, long long *out, long long n,
                     long long chunk, long long count, const __grid_constant__ sides s) {
  __shared__ u16 places_of[8][STEP];
  u16 *const at = places_of[threadIdx.x / 32];
  const int lane = threadIdx.x & 31;
  const long long w = blockIdx.x * 8ll + threadIdx.x / 32, first = w * chunk;
  const long long end = first + chunk < n ? first + chunk : n;
  const bool aligned = (u64)x % 16 == 0;
  long long base = counts[1 + w];
  for (long long i0 = first; i0 < end; i0 += STEP) {
    u32 bits = bits_of(x, i0 + lane * MANY, end, aligned);
    const int mine = __popc(bits), run = sum_to(mine), all = __shfl_sync(~0u, run, 31);
    for (int j = run - mine; bits; bits &= bits - 1) at[j++] = (u16)(lane * MANY + __ffs(bits) - 1);
    __syncwarp();
    for (int j = lane; j < all && base + j < count; j += 32)
      put_place(out, base + j, i0 + at[j], s);
    __syncwarp();
    base += all;
  }
}
