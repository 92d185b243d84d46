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
** add: each destination adds its terms in ascending order of g: no float atomics, one order. The g
** of each key are counted, get room in a list, and are put there and ranked. Keys have slots for
** that: the key itself, or, where there are many more keys than g, a place in a hash table. So the
** work is in proportion to ng and not to nb. Which slot and which room a key gets depends on the
** order of threads; the order of a key's terms does not. The terms of keys that have more than LONG
** are ranked, and added, by a block for each. */
struct scatter_params {
  long long ng, nk, nb, gm, bm, grank, krank;
  long long gsize[8], gidx[8], gsrc[8], gdst[8];
  long long ksize[8], ksrc[8], kdst[8];
  const long long *idx;
  const void *src;
  void *dst;
  long long *owner;
  /* by slot: number of terms, and where they begin in list and order. table: the slot's key, -1 if
  ** free; its size, a power of two, is 'slots' (0: no table) */
  long long *count, *start, *table, slots;
  /* by g: its slot. list: the g of each key; order: before, the rank of g among the first to come,
  ** by g; then where the sources of the terms begin, ascending by g. used, hot: the slots of all
  ** keys, and those with more than LONG terms; total: room given, number of used and of hot */
  long long *slot, *list, *order, *used, *hot, *total;
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
  EACH(g, s.ng) s.owner[key_of(s, g)] = -1;
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

#define LONG 256

extern "C" __global__ void scatter_no_count(const __grid_constant__ scatter_params s) {
  if (blockIdx.x == 0 && threadIdx.x < 3) s.total[threadIdx.x] = 0;
  if (!s.slots) EACH(g, s.ng) s.count[key_of(s, g)] = 0;
  EACH(i, s.slots) {
    s.count[i] = 0;
    s.table[i] = -1;
  }
}

/* The slot of a key in the table, which has room for all. */
FN long long find_slot(const scatter_params &s, long long key) {
  unsigned long long at = (unsigned long long)key * 0x9e3779b97f4a7c15ull;
  for (at ^= at >> 29;; at++) {
    const long long i = (long long)at & (s.slots - 1);
    const long long was = s.table[i] == key ? key : (long long)atomicCAS(
      (unsigned long long *)&s.table[i], ~0ull, (unsigned long long)key);
    if (was == key || was == -1) return i;
  }
}

extern "C" __global__ void scatter_count(const __grid_constant__ scatter_params s) {
  EACH(g, s.ng) {
    const long long key = key_of(s, g), slot = s.slots ? find_slot(s, key) : key;
    s.slot[g] = slot;
    s.order[g] = (long long)atomicAdd((unsigned long long *)&s.count[slot], 1ull);
  }
}

/* Sum of x over the lanes up to this one. */
FN long long sum_of_lanes(long long x, int lane) {
  for (int d = 1; d < 32; d *= 2) {
    const long long y = __shfl_up_sync(~0u, x, d);
    if (lane >= d) x += y;
  }
  return x;
}

FN long long take(long long *from, long long n, int lane) {
  long long at = 0;
  if (lane == 0) at = (long long)atomicAdd((unsigned long long *)from, (unsigned long long)n);
  return __shfl_sync(~0u, at, 0);
}

/* Gives each key room; the first of its g to be counted asks for it. A warp asks once. */
extern "C" __global__ void scatter_room(const __grid_constant__ scatter_params s) {
  const int lane = threadIdx.x % 32;
  for (long long g = blockIdx.x * (long long)blockDim.x + threadIdx.x; g - lane < s.ng;
       g += gridDim.x * (long long)blockDim.x) {
    const bool asks = g < s.ng && s.order[g] == 0;
    const long long slot = asks ? s.slot[g] : 0, n = asks ? s.count[slot] : 0;
    const long long up_to = sum_of_lanes(n, lane);
    const unsigned who = __ballot_sync(~0u, asks);
    const long long room = take(&s.total[0], __shfl_sync(~0u, up_to, 31), lane);
    const long long used = take(&s.total[1], __popc(who), lane);
    if (!asks) continue;
    s.start[slot] = room + up_to - n;
    s.used[used + __popc(who & ((1u << lane) - 1))] = slot;
    if (n > LONG) s.hot[atomicAdd((unsigned long long *)&s.total[2], 1ull)] = slot;
  }
}

extern "C" __global__ void scatter_fill(const __grid_constant__ scatter_params s) {
  EACH(g, s.ng) s.list[s.start[s.slot[g]] + s.order[g]] = g;
}

extern "C" __global__ void scatter_rank(const __grid_constant__ scatter_params s) {
  EACH(i, s.ng) {
    const long long g = s.list[i], slot = s.slot[g], from = s.start[slot], n = s.count[slot];
    long long rank = from;
    if (n > LONG) continue;
    for (long long j = from; j < from + n; j++) rank += s.list[j] < g;
    s.order[rank] = place(g, s.grank, s.gsize, s.gsrc);
  }
}

/* Blocks of 1024, each for a key at a time: marks its g in a map of bits, a window of them after
** the other, and writes them as the bits follow each other. */
extern "C" __global__ void __launch_bounds__(1024)
  scatter_rank_hot(const __grid_constant__ scatter_params s) {
  enum { WORDS = 8192, EACH_HAS = WORDS / 1024 };
  __shared__ unsigned map[WORDS];
  __shared__ long long warp[32];
  const int t = threadIdx.x, lane = t % 32;
  for (long long h = blockIdx.x; h < s.total[2]; h += gridDim.x) {
    const long long slot = s.hot[h], from = s.start[slot], to = from + s.count[slot];
    long long at = from;
    for (long long low = 0; low < s.ng && at < to; low += WORDS * 32) {
      for (int w = t; w < WORDS; w += 1024) map[w] = 0;
      __syncthreads();
      for (long long j = from + t; j < to; j += 1024) {
        const long long bit = s.list[j] - low;
        if (bit >= 0 && bit < WORDS * 32) atomicOr(&map[bit / 32], 1u << bit % 32);
      }
      __syncthreads();
      int n = 0;
      for (int w = 0; w < EACH_HAS; w++) n += __popc(map[t * EACH_HAS + w]);
      const long long up_to = sum_of_lanes(n, lane);
      if (lane == 31) warp[t / 32] = up_to;
      __syncthreads();
      const long long warps = sum_of_lanes(warp[lane], lane);
      const long long before = __shfl_sync(~0u, warps, t / 32 ? t / 32 - 1 : 0);
      long long mine = at + up_to - n + (t < 32 ? 0 : before);
      for (int w = 0; w < EACH_HAS; w++)
        for (unsigned left = map[t * EACH_HAS + w]; left; left &= left - 1)
          s.order[mine++] = place(low + (t * EACH_HAS + w) * 32ll + __ffs(left) - 1, s.grank,
                                  s.gsize, s.gsrc);
      at += __shfl_sync(~0u, warps, 31);
      __syncthreads();
    }
  }
}

/* scatter_hot: blocks of 256, each for a key and up to 32 values of k at a time: all threads read
** terms into a tile, then one thread for each k adds them. */
#define SCATTER_ADD(dtype, S, T, SUM) \
  extern "C" __global__ void scatter_hot_##dtype(const __grid_constant__ scatter_params s) { \
    enum { TILE = 4096 }; \
    __shared__ T tile[TILE]; \
    const int log = min(sharers(s.nk), 5), width = 1 << log, rows = TILE >> log; \
    const int t = threadIdx.x, column = t & (width - 1); \
    const long long chunks = (s.nk + width - 1) >> log; \
    for (long long h = blockIdx.x; h < s.total[2] * chunks; h += gridDim.x) { \
      const long long slot = s.hot[h / chunks], k = h % chunks * width + column; \
      const long long from = s.start[slot], to = from + s.count[slot]; \
      const long long key = s.slots ? s.table[slot] : slot, on = k < s.nk; \
      S *const dst = (S *)s.dst + key * s.bm + (on ? place(k, s.krank, s.ksize, s.kdst) : 0); \
      const S *const src = (const S *)s.src + (on ? place(k, s.krank, s.ksize, s.ksrc) : 0); \
      T sum = in_##dtype(*dst); \
      for (long long j0 = from; j0 < to; j0 += rows) { \
        const int n = (int)min((long long)rows, to - j0); \
        _Pragma("unroll 8") \
        for (int row = t >> log; row < n; row += 256 >> log) \
          if (on) tile[(row << log) + column] = in_##dtype(src[s.order[j0 + row]]); \
        __syncthreads(); \
        if (t < width && on) { \
          _Pragma("unroll 8") \
          for (int row = 0; row < n; row++) { \
            const T x = tile[(row << log) + t]; \
            sum = SUM; \
          } \
        } \
        __syncthreads(); \
      } \
      if (t < width && on) *dst = out_##dtype(sum); \
    } \
  } \
  extern "C" __global__ void scatter_add_##dtype(const __grid_constant__ scatter_params s) { \
    const int log = sharers(s.nk); \
    EACH_SHARED(i, s.total[1], log) { \
      const long long slot = s.used[i], from = s.start[slot], to = from + s.count[slot]; \
      const long long key = s.slots ? s.table[slot] : slot; \
      if (to - from > LONG) continue; \
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

/* Terms are added as they come: integers, and floats whose order does not matter. */
#define SCATTER_ANY(dtype, T) \
  extern "C" __global__ void scatter_any_##dtype(const __grid_constant__ scatter_params s) { \
    const int log = sharers(s.nk); \
    EACH_SHARED(g, s.ng, log) { \
      T *const dst = (T *)s.dst + key_of(s, g) * s.bm; \
      const T *const src = (const T *)s.src + place(g, s.grank, s.gsize, s.gsrc); \
      EACH_K(k, s, log) \
        atomicAdd(&dst[place(k, s.krank, s.ksize, s.kdst)], \
                  src[place(k, s.krank, s.ksize, s.ksrc)]); \
    } \
  }
SCATTER_ANY(f64, double)
SCATTER_ANY(f32, float)
SCATTER_ANY(i64, unsigned long long)
SCATTER_ANY(i32, unsigned)

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
