/*
** Kernels for the steps of a plan that need no generated text: scatter, and the matrix products
** that no library does (integers and general strides; all of them where there is no library). After
** prelude.cu. src/cuda/text/text_steps.c chooses the kernel and fills its parameter struct; its
** structs must match these.
*/

/* ---- scatter -----------------------------------------------------------------------------
** The points of the source's space are split by dims: those along which the place in dst does not
** change (the group, indexed by g, row-major) and those along which it does (kept, indexed by k).
** Two points can go to the same element of dst only if their keys are equal: key(g) = idx(g) * gm +
** gdst(g). If the index varies along a kept dim, all dims are in the group and the key is the place
** in dst. The place of (key, k) in dst is key * bm + kdst(k).
**
** set: owner[key] = the last g with that key, by an integer maximum; its points are stored.
** add: the g of each key in ascending order (count, prefix sum, fill, rank within the key; order
** holds where their sources begin), then each destination adds its terms in that order, one thread
** per destination: no float atomics, one order. Where there are fewer g than keys, threads go over
** the g instead (runs), and the first g of a key in the list does the work for that key. */
struct scatter_params {
  long long ng, nk, nb, gm, bm, grank, krank;
  long long gsize[8], gidx[8], gsrc[8], gdst[8];
  long long ksize[8], ksrc[8], kdst[8];
  const long long *idx;
  const void *src;
  void *dst;
  long long *owner, *start, *cursor, *list, *order;
  long long runs;
};

/* Sums coordinate * stride over the axes of linear position i. What is left after the inner axes is
** the coordinate of the outermost one. */
__device__ __noinline__ long long place_of_many(long long i, int rank, const long long *size,
                                                const long long *stride) {
  long long at = 0;
  for (int d = rank - 1; d > 0; d--) {
    const long long q = i / size[d];
    at += (i - q * size[d]) * stride[d];
    i = q;
  }
  return at + i * stride[0];
}
FN long long place(long long i, long long rank, const long long *size, const long long *stride) {
  if (rank > 1) return place_of_many(i, (int)rank, size, stride);
  return rank ? i * stride[0] : 0;
}

FN long long key_of(const scatter_params &s, long long g) {
  return s.idx[place(g, s.grank, s.gsize, s.gidx)] * s.gm + place(g, s.grank, s.gsize, s.gdst);
}

#define EACH(i, n) \
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < (n); \
       i += gridDim.x * (long long)blockDim.x)

extern "C" __global__ void scatter_no_owner(const __grid_constant__ scatter_params s) {
  EACH(b, s.nb) s.owner[b] = -1;
}

extern "C" __global__ void scatter_owner(const __grid_constant__ scatter_params s) {
  EACH(g, s.ng) atomicMax(&s.owner[key_of(s, g)], g);
}

/* log2 of the number of threads of a block of 256 that share a key or a g; each takes other values
** of k. */
FN int sharers(long long nk) { return nk >= 256 ? 8 : 32 - __clz((int)nk - 1); }

#define EACH_SHARED(i, n, log) \
  for (long long i = (blockIdx.x * 256ll + threadIdx.x) >> (log); i < (n); \
       i += gridDim.x * 256ll >> (log))
#define EACH_K(k, s, log) \
  for (long long k = threadIdx.x & ((1 << (log)) - 1); k < (s).nk; k += 1 << (log))

template <class S> FN void scatter_store(const scatter_params &s) {
  const int log = sharers(s.nk);
  EACH_SHARED(g, s.ng, log) {
    const long long key = key_of(s, g);
    if (s.owner[key] != g) continue;
    S *const dst = (S *)s.dst + key * s.bm;
    const S *const src = (const S *)s.src + place(g, s.grank, s.gsize, s.gsrc);
    EACH_K(k, s, log)
      dst[place(k, s.krank, s.ksize, s.kdst)] = src[place(k, s.krank, s.ksize, s.ksrc)];
  }
}

extern "C" __global__ void scatter_set_1(const __grid_constant__ scatter_params s) {
  scatter_store<s1>(s);
}
extern "C" __global__ void scatter_set_2(const __grid_constant__ scatter_params s) {
  scatter_store<s2>(s);
}
extern "C" __global__ void scatter_set_4(const __grid_constant__ scatter_params s) {
  scatter_store<s4>(s);
}
extern "C" __global__ void scatter_set_8(const __grid_constant__ scatter_params s) {
  scatter_store<s8>(s);
}

extern "C" __global__ void scatter_no_count(const __grid_constant__ scatter_params s) {
  EACH(b, s.nb) s.cursor[b] = 0;
}

extern "C" __global__ void scatter_count(const __grid_constant__ scatter_params s) {
  EACH(g, s.ng) atomicAdd((unsigned long long *)&s.cursor[key_of(s, g)], 1ull);
}


/* One block of 1024: start[b] = number of g with a key below b; cursor[b] = start[b]. The block
** goes over the keys 4 per thread at a time; the sum over the threads before one is made in warps,
** then in the block. */
extern "C" __global__ void __launch_bounds__(1024)
  scatter_scan(const __grid_constant__ scatter_params s) {
  __shared__ long long warp[2][32];
  const int t = threadIdx.x, lane = t % 32;
  long long carry = 0;
  for (long long from = 0, step = 0; from < s.nb; from += 4096, step ^= 1) {
    const long long b = from + t * 4;
    long long n[4], sum = 0;
    for (int q = 0; q < 4; q++) sum += n[q] = b + q < s.nb ? s.cursor[b + q] : 0;
    long long before = sum;
    for (int d = 1; d < 32; d *= 2) {
      const long long x = __shfl_up_sync(~0u, before, d);
      if (lane >= d) before += x;
    }
    if (lane == 31) warp[step][t / 32] = before;
    __syncthreads();
    long long all = warp[step][lane];
    for (int d = 1; d < 32; d *= 2) {
      const long long x = __shfl_up_sync(~0u, all, d);
      if (lane >= d) all += x;
    }
    before += carry - sum + __shfl_sync(~0u, all, t / 32 > 0 ? t / 32 - 1 : 0) * (t >= 32);
    carry += __shfl_sync(~0u, all, 31);
    for (int q = 0; q < 4; before += n[q++])
      if (b + q < s.nb) s.start[b + q] = s.cursor[b + q] = before;
  }
  if (t == 0) s.start[s.nb] = s.ng;
}

extern "C" __global__ void scatter_fill(const __grid_constant__ scatter_params s) {
  EACH(g, s.ng) {
    const unsigned long long at = atomicAdd((unsigned long long *)&s.cursor[key_of(s, g)], 1ull);
    s.list[at] = g;
  }
}

/* list holds the g of a key in any order; order[] has their sources, ascending by g. */
extern "C" __global__ void scatter_rank(const __grid_constant__ scatter_params s) {
  EACH(i, s.ng) {
    const long long g = s.list[i], key = key_of(s, g);
    const long long from = s.start[key], to = s.start[key + 1];
    long long rank = from;
    for (long long j = from; j < to; j++) rank += s.list[j] < g;
    s.order[rank] = place(g, s.grank, s.gsize, s.gsrc);
  }
}

#define SCATTER_ADD(dtype, S, T, SUM) \
  extern "C" __global__ void scatter_add_##dtype(const __grid_constant__ scatter_params s) { \
    const int log = sharers(s.nk); \
    EACH_SHARED(i, s.runs ? s.ng : s.nb, log) { \
      const long long key = s.runs ? key_of(s, s.list[i]) : i; \
      const long long from = s.start[key], to = s.start[key + 1]; \
      if (from == to || (s.runs && from != i)) continue; \
      EACH_K(k, s, log) { \
        S *const dst = (S *)s.dst + key * s.bm + place(k, s.krank, s.ksize, s.kdst); \
        const S *const src = (const S *)s.src + place(k, s.krank, s.ksize, s.ksrc); \
        T sum = in_##dtype(*dst); \
        _Pragma("unroll 4") \
        for (long long j = from; j < to; j++) { \
          const T x = in_##dtype(src[s.order[j]]); \
          sum = SUM; \
        } \
        *dst = out_##dtype(sum); \
      } \
    } \
  }
SCATTER_ADD(f64, s8, double, sum + x)
SCATTER_ADD(f32, s4, float, sum + x)
SCATTER_ADD(f16, s2, float, sum + x)
SCATTER_ADD(bf16, s2, float, sum + x)
SCATTER_ADD(i64, s8, int64_t, fl_add_i64(sum, x))
SCATTER_ADD(i32, s4, int32_t, fl_add_i32(sum, x))
SCATTER_ADD(i16, s2, int32_t, fl_add_i32(sum, x))
SCATTER_ADD(i8, s1, int32_t, fl_add_i32(sum, x))
SCATTER_ADD(u8, s1, int32_t, fl_add_i32(sum, x))
SCATTER_ADD(bool, s1, int32_t, sum | x)

/* ---- matrix product --------------------------------------------------------------------------
** C[b] = A[b] B[b]. A block of 256 threads makes a tile of 64 x 64 of C, 4 x 4 per thread, with 16
** steps of k at a time in shared memory; k ascending. Any strides; C row-major. */
struct matmul_params {
  /* distances of rows: cm of C, biasm of what is added to it (0: it is a row) */
  long long m, n, k, cm, biasm, rank;
  long long size[6], as[6], bs[6], cs[6];
  long long am, ak, bk, bn;
  const void *a, *b, *bias;             /* bias: n elements, or as C, or NULL */
  void *c;
};

#define MATMUL(dtype, S, T, SUM) \
  extern "C" __global__ void __launch_bounds__(256) \
  matmul_##dtype(const __grid_constant__ matmul_params p) { \
    __shared__ T at[16][65], bt[16][65]; \
    const long long tm = (p.m + 63) / 64, tn = (p.n + 63) / 64, tile = blockIdx.x % (tm * tn); \
    const long long batch = blockIdx.x / (tm * tn), m0 = tile / tn * 64, n0 = tile % tn * 64; \
    const S *const a = (const S *)p.a + place(batch, p.rank, p.size, p.as); \
    const S *const b = (const S *)p.b + place(batch, p.rank, p.size, p.bs); \
    const S *const bias = !p.bias || !p.biasm ? (const S *)p.bias : \
      (const S *)p.bias + place(batch, p.rank, p.size, p.cs); \
    S *const c = (S *)p.c + place(batch, p.rank, p.size, p.cs); \
    const int t = threadIdx.x, ty = t / 16, tx = t % 16; \
    T sum[4][4] = {}; \
    for (long long k0 = 0; k0 < p.k; k0 += 16) { \
      _Pragma("unroll 1") \
      for (int i = t; i < 1024; i += 256) { \
        const int ar = p.ak == 1 ? i / 16 : i % 64, ac = p.ak == 1 ? i % 16 : i / 64; \
        const int br = p.bn == 1 ? i / 64 : i % 16, bc = p.bn == 1 ? i % 64 : i / 16; \
        at[ac][ar] = m0 + ar < p.m && k0 + ac < p.k ? \
          (T)in_##dtype(a[(m0 + ar) * p.am + (k0 + ac) * p.ak]) : (T)0; \
        bt[br][bc] = k0 + br < p.k && n0 + bc < p.n ? \
          (T)in_##dtype(b[(k0 + br) * p.bk + (n0 + bc) * p.bn]) : (T)0; \
      } \
      __syncthreads(); \
      const int steps = p.k - k0 < 16 ? (int)(p.k - k0) : 16; \
      _Pragma("unroll 1") \
      for (int k = 0; k < steps; k++) \
        for (int i = 0; i < 4; i++) \
          for (int j = 0; j < 4; j++) { \
            const T s = sum[i][j], x = at[k][ty * 4 + i], y = bt[k][tx + 16 * j]; \
            sum[i][j] = SUM; \
          } \
      __syncthreads(); \
    } \
    for (int i = 0; i < 4; i++) \
      for (int j = 0; j < 4; j++) { \
        const long long r = m0 + ty * 4 + i, q = n0 + tx + 16 * j; \
        if (r >= p.m || q >= p.n) continue; \
        if (bias) sum[i][j] += (T)in_##dtype(bias[r * p.biasm + q]); \
        c[r * p.cm + q] = out_##dtype(sum[i][j]); \
      } \
  }
MATMUL(f64, s8, double, fma(x, y, s))
MATMUL(f32, s4, float, fmaf(x, y, s))
MATMUL(f16, s2, float, fmaf(x, y, s))
MATMUL(bf16, s2, float, fmaf(x, y, s))
MATMUL(i64, s8, int64_t, fl_add_i64(s, fl_mul_i64(x, y)))
MATMUL(i32, s4, int32_t, fl_add_i32(s, fl_mul_i32(x, y)))
MATMUL(i16, s2, int32_t, fl_add_i32(s, fl_mul_i32(x, y)))
MATMUL(i8, s1, int32_t, fl_add_i32(s, fl_mul_i32(x, y)))
MATMUL(u8, s1, int32_t, fl_add_i32(s, fl_mul_i32(x, y)))
MATMUL(bool, s1, int32_t, s | (x & y))
