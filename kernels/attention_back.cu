/*
** The gradients of attention in f16 and bf16; after attention.cu, where shapes and definitions are
** described. attention_delta runs first; the other two do not depend on each other. Both compute
** the scores again, which is 7 products instead of 5, but needs no sum over blocks: nothing is
** atomic. attention_keys has the scores transposed, one row per key, so that weights and their
** gradients are left operands as they are. Launch with 128 threads; ceil, LD, STAGES as in
** attention.cu, TILES and WIDTH as in KEYS and QUERIES below:
**   attention_delta    (t * h * b + R - 1) / R blocks, R = 128 / LANES, LANES = HEAD / 8 rounded up
**                      to a power of 2; no dynamic shared memory
**   attention_keys     ceil(s) * hk * b * PARTS blocks, PARTS = HEAD > 128 ? 2 : 1, and
**                      2 * LD * (128 * TILES + 2 * STAGES * WIDTH) + 8 * STAGES * WIDTH bytes
**   attention_queries  ceil(t) * h * b blocks and 2 * LD * (128 * TILES + 2 * STAGES * WIDTH) bytes
*/
#ifndef KEYS
#define KEYS \
  (HEAD <= 64 && !MASK ? 2 : 1), (HEAD > 192 || (HEAD > 64 && MASK) ? 16 : 32), \
  (HEAD <= 128 ? 2 : 1), 0
#endif
#ifndef QUERIES
#define QUERIES \
  (HEAD <= 64 && !MASK ? 2 : 1), (HEAD > 64 && MASK ? 16 : 32), (HEAD <= 128 ? 2 : 1), HEAD <= 128
#endif
typedef tiling<KEYS> keys_tiling;
typedef tiling<QUERIES> queries_tiling;

constexpr int PARTS = HEAD > 128 ? 2 : 1;
/* columns of dk and dv that a block of attention_keys makes */
constexpr int COLUMNS = HEAD / PARTS;

FN u32 two(const element *p) { return p[0] | (u32)p[1] << 16; }
FN float dot(u32 x, u32 y, float sum) {
  sum = __fmaf_rn(value_of((element)x), value_of((element)y), sum);
  return __fmaf_rn(value_of((element)(x >> 16)), value_of((element)(y >> 16)), sum);
}

/* delta, the sum of dout * out along a row: LANES lanes per row, 8 elements per lane. */
KERNEL __launch_bounds__(THREADS) attention_delta(const __grid_constant__ attention_args a) {
  constexpr int LANES = HEAD == 32 ? 4 : HEAD == 64 ? 8 : HEAD <= 128 ? 16 : 32;
  const long long row = blockIdx.x * (long long)(THREADS / LANES) + threadIdx.x / LANES;
  const int c = threadIdx.x % LANES * 8, i = (int)(row % a.t), h = (int)(row / a.t % a.h);
  const long long b = row / a.t / a.h;
  const element *const g = from_head(a.dout, a.gs, (int)b, h) + i * a.gs[2] + c;
  const element *const o = from_head(a.packed, a.os, (int)b, h) + i * a.os[2] + c;
  float sum = 0.0f;
  if (b < a.b && c < a.d) {
    const bool whole = ((long long)g & 15) == 0;
    const uint4 x = whole ? *(const uint4 *)g
                          : make_uint4(two(g), two(g + 2), two(g + 4), two(g + 6));
    const uint4 y = *(const uint4 *)o;
    sum = dot(x.w, y.w, dot(x.z, y.z, dot(x.y, y.y, dot(x.x, y.x, 0.0f))));
  }
#pragma unroll
  for (int l = LANES / 2; l > 0; l /= 2) sum += __shfl_xor_sync(~0u, sum, l);
  if (b < a.b && c == 0) ((float *)a.scratch)[row] = sum;
}

/* Per query of a lane's elements: -lse in units of log2, and delta. */
template <int T> struct by_row {
  float shift[T][2], delta[T][2];
  FN void open(const float *lse, const float *sums, int n) {
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
      for (int r = 0; r < 2; r++) {
        const int row = t * 16 + r * 8 + lane_row();
        shift[t][r] = row < n ? -LOG2E * lse[row] : 0.0f;
        delta[t][r] = row < n ? sums[row] : 0.0f;
      }
  }
  FN float shift_of(int t, int, int e) const { return shift[t][e / 2]; }
  FN float delta_of(int t, int, int e) const { return delta[t][e / 2]; }
};
/* The same where queries are the columns (scores transposed). */
template <int N> struct by_column {
  float2 shift[N], delta[N];
  FN void open(const float *lse, const float *sums) {
#pragma unroll
    for (int n = 0; n < N; n++) {
      shift[n] = *(const float2 *)(lse + n * 8 + lane_column());
      shift[n].x *= -LOG2E;
      shift[n].y *= -LOG2E;
      delta[n] = *(const float2 *)(sums + n * 8 + lane_column());
    }
  }
  FN float shift_of(int, int n, int e) const { return e % 2 ? shift[n].y : shift[n].x; }
  FN float delta_of(int, int n, int e) const { return e % 2 ? delta[n].y : delta[n].x; }
};

/* Which of a lane's pairs of a query and a key are seen; (i0, j0): the first of them. EDGE: not all
** are; TRANSPOSED: a row is a key. */
template <bool EDGE, bool TRANSPOSED> struct lane_sight {
  const sight &see;
  int i0, j0;
  FN int i(int t, int n, int e) const { return i0 + (TRANSPOSED ? right(n, e) : down(t, e)); }
  FN int j(int t, int n, int e) const { return j0 + (TRANSPOSED ? down(t, e) : right(n, e)); }
  FN bool seen(int t, int n, int e) const { return !EDGE || see.seen(i(t, n, e), j(t, n, e)); }
  FN float added(int t, int n, int e) const { return see.added(i(t, n, e), j(t, n, e)); }
  FN static int down(int t, int e) { return t * 16 + e / 2 * 8; }
  FN static int right(int n, int e) { return n * 8 + e % 2; }
};

/* Replaces scores by weights. In a row without a key (lse is NaN) they are NaN. */
template <bool EDGE, bool TRANSPOSED, int T, int N, class STATE>
FN void weigh(float (&s)[T][N][4], const STATE &x, const lane_sight<EDGE, TRANSPOSED> &w, float c) {
#pragma unroll
  for (int t = 0; t < T; t++)
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const float lse = x.shift_of(t, n, e),
                    shift = MASK == 2 ? __fmaf_rn(w.added(t, n, e), LOG2E, lse) : lse;
        s[t][n][e] = exp2_of(w.seen(t, n, e) ? __fmaf_rn(s[t][n][e], c, shift)
                                             : shift + minus_inf());
      }
}

/* Replaces gradients dp of weights p by those of scores: 0 where the query does not see the key. */
template <bool EDGE, bool TRANSPOSED, int T, int N, class STATE>
FN void gradients(float (&dp)[T][N][4], const float (&p)[T][N][4], const STATE &x,
                  const lane_sight<EDGE, TRANSPOSED> &w) {
#pragma unroll
  for (int t = 0; t < T; t++)
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        dp[t][n][e] = w.seen(t, n, e) ? p[t][n][e] * (dp[t][n][e] - x.delta_of(t, n, e)) : 0.0f;
}

/* 'open' takes gradients of what a dropout gives to those of the weights: times 'by', or 0 where a
** weight is dropped. Bit n * 4 + e of mark[t] notes that the weight of element [t][n][e] is, for
** drop_marked. (i, j): the warp's first query and first key. */
template <bool TRANSPOSED, int T, int N> struct dropped {
  u32 mark[T];
  FN void open(float (&dp)[T][N][4], const draws &x, int i, int j, float by) {
#if DROP
    kept_tile<(TRANSPOSED ? 8 * N : 16 * T), (TRANSPOSED ? 16 * T : 8 * N)> kept;
    static_assert(4 * N <= 32, "a bit for each element");
    kept.open(x, i, j);
#pragma unroll
    for (int t = 0; t < T; t++) {
      mark[t] = 0;
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const bool k = TRANSPOSED ? kept.at(n * 8 + lane_column() + e % 2, t * 16 + e / 2 * 8,
                                              lane_row())
                                    : kept.at(t * 16 + e / 2 * 8 + lane_row(), n * 8,
                                              lane_column() + e % 2);
          mark[t] |= (u32)!k << (n * 4 + e);
          dp[t][n][e] = k ? dp[t][n][e] * by : 0.0f;
        }
    }
#endif
  }
  FN void drop_marked(float (&p)[T][N][4]) const {
#if DROP
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) if (mark[t] >> (n * 4 + e) & 1) p[t][n][e] = 0.0f;
#endif
  }
};

/* Both. (i, j): query and key of the lane's first pair. */
template <bool EDGE, bool TRANSPOSED, int T, int N, class STATE>
FN void weigh_both(float (&s)[T][N][4], float (&dp)[T][N][4], const STATE &x, const sight &see,
                   int i, int j, float c) {
  const lane_sight<EDGE, TRANSPOSED> w = { see, i, j };
  weigh(s, x, w, c);
  gradients(dp, s, x, w);
}

/* The queries that see the keys of a block: head after head of those that share the keys, and in
** each head block after block of W rows, from block 'first' on. A query_step is one such block: n
** is its number in this order, and its data lie in stage n % STAGES of shared memory. */
struct query_step { int n, h, block; };
template <int W> struct query_stream {
  const attention_args &a;
  element *space;
  int b, first, blocks;
  FN element *stage(const query_step &x) const { return space + x.n % STAGES * (2 * W * LD); }
  FN float *sums(const query_step &x) const { return (float *)(space + STAGES * 2 * W * LD) +
                                              x.n % STAGES * (2 * W); }
  FN query_step after(const query_step &x) const {
    const bool more = x.block + 1 < blocks;
    return { x.n + 1, more ? x.h : x.h + 1, more ? x.block + 1 : first };
  }
  FN void fetch(const query_step &x) const {
    const int i0 = x.block * W, e = threadIdx.x, i = i0 + e % W;
    copy_rows<W>(stage(x), matrix(from_head(a.q, a.qs, b, x.h), a.qs[2], a.t, a.d), i0);
    copy_rows<W>(stage(x) + W * LD, matrix(from_head(a.dout, a.gs, b, x.h), a.gs[2], a.t, a.d), i0);
    const float *const from = (e < W ? lse_of(a, a.packed) : (const float *)a.scratch) +
    row_of(a, b, x.h);
    if (e < 2 * W) copy4(shared_address(sums(x) + e), i < a.t ? from + i : from, i < a.t);
  }
  FN void take(const query_step &x, int count) const {
    if (STAGES == 1 && x.n > 0) {
      __syncthreads();
      fetch(x);
    }
    arrive();
    if (STAGES == 2 && x.n + 1 < count) fetch(after(x));
  }
};

/* Adds what one block of queries contributes to dk and dv of a warp's keys. i, j: the first query
** and the first key. */
template <int T, int W, bool HELD>
FN void step_keys(float (&dk)[T][COLUMNS / 8][4], float (&dv)[T][COLUMNS / 8][4], left<T, HELD> &k,
                  left<T, HELD> &v, const element *q, int skip, const float *sums, const sight &see,
                  const draws &drawn, int i, int j, float c, float kept) {
  const element *const dout = q + W * LD;
  float s[T][W / 8][4], dp[T][W / 8][4];
  product_nt(s, k, q);
  product_nt(dp, v, dout);
  by_column<W / 8> x;
  dropped<true, T, W / 8> out;
  x.open(sums, sums + W);
  out.open(dp, drawn, i, j, kept);
  const int i0 = i + lane_column(), j0 = j + lane_row();
  if (MASK || (CAUSAL && j + 16 * T - 1 > i)) weigh_both<true, true>(s, dp, x, see, i0, j0, c);
  else weigh_both<false, true>(s, dp, x, see, i0, j0, c);
  out.drop_marked(s);
  u32 p[T][W / 16][4], ds[T][W / 16][4];
  round_to(p, s);
  round_to(ds, dp);
  product_nn(dv, p, dout + skip);
  product_nn(dk, ds, q + skip);
}

/* Writes dk, times the scale, and dv of a warp's rows, from 'row' of head h in batch element b on,
** and from column 'skip' on. dv is multiplied by 'bad', which is 1 or NaN. own_k, own_v: the warp's
** rows of shared memory, through which they go. */
template <int T>
FN void put_keys(const attention_args &a, int b, int h, int row, int skip, element *own_k,
                 element *own_v, const float (&dk)[T][COLUMNS / 8][4],
                 const float (&dv)[T][COLUMNS / 8][4], float bad) {
  float by[T][2];
#pragma unroll
  for (int t = 0; t < T; t++) by[t][0] = by[t][1] = a.scale;
  put_rows(row_in(a.dk, a.dks, b, h, row), a.dks[2], a.s - row, a.d, skip, own_k, dk, by);
#pragma unroll
  for (int t = 0; t < T; t++) by[t][0] = by[t][1] = bad * kept_by(a);
  put_rows(row_in(a.dv, a.dks, b, h, row), a.dks[2], a.s - row, a.d, skip, own_v, dv, by);
}

#ifndef KEYS_SHAPE              /* else attention_hopper.cu has both kernels */
KERNEL __launch_bounds__(THREADS, keys_tiling::blocks)
  attention_keys(const __grid_constant__ attention_args a) {
  extern __shared__ __align__(16) element shared[];
  constexpr int T = keys_tiling::tiles, W = keys_tiling::width, M = keys_tiling::rows;
  const place x = place_of(blockIdx.x / PARTS, a.s, M, a.hk);
  const int skip = blockIdx.x % PARTS * COLUMNS, first = x.block * M, row = first + warp_row(T),
            group = a.h / a.hk;
  const query_stream<W> queries = { a, shared + 2 * M * LD, x.b, CAUSAL ? first / W : 0,
                                    (a.t + W - 1) / W };
  const int count = max(0, queries.blocks - queries.first) * group;
  element *const own_k = shared + warp_row(T) * LD, *const own_v = own_k + M * LD;
  query_step now = { 0, x.h * group, queries.first };
  copy_rows<M>(shared, matrix(from_head(a.k, a.ks, x.b, x.h), a.ks[2], a.s, a.d), first);
  copy_rows<M>(shared + M * LD, matrix(from_head(a.v, a.vs, x.b, x.h), a.vs[2], a.s, a.d), first);
  if (count) queries.fetch(now);
  left<T, keys_tiling::held> k, v;
  float dk[T][COLUMNS / 8][4], dv[T][COLUMNS / 8][4];
  clear(dk);
  clear(dv);
  arrive();
  k.open(own_k);
  v.open(own_v);
#pragma unroll 1
  for (; now.n < count; now = queries.after(now)) {
    queries.take(now, count);
    if (CAUSAL && row > now.block * W + W - 1) continue;           /* nothing for this warp */
    step_keys<T, W>(dk, dv, k, v, queries.stage(now), skip, queries.sums(now), sight(a, x.b, now.h),
                    draws(a, x.b, now.h), now.block * W, row, a.scale * LOG2E, a.kept);
  }
  float bad = 1.0f;
  for (int g = 0; CAUSAL && g < group; g++)
    if (any_nan(lse_of(a, a.packed) + row_of(a, x.b, x.h * group + g), min(a.t, first + M)))
      bad = quiet_nan();
  put_keys<T>(a, x.b, x.h, row, skip, own_k, own_v, dk, dv, bad);
}

/* 'weigh_both' for a block of scores whose first query is 'row' and first key 'first'. */
template <int T, int N>
FN void queries_gradient(float (&s)[T][N / 8][4], float (&dp)[T][N / 8][4], const by_row<T> &sums,
                         const sight &see, int row, int first, float c) {
  const int i0 = row + lane_row(), j0 = first + lane_column();
  if (see.edge(row, first + N - 1)) weigh_both<true, false>(s, dp, sums, see, i0, j0, c);
  else weigh_both<false, false>(s, dp, sums, see, i0, j0, c);
}

KERNEL __launch_bounds__(THREADS, queries_tiling::blocks)
  attention_queries(const __grid_constant__ attention_args a) {
  extern __shared__ __align__(16) element shared[];
  constexpr int T = queries_tiling::tiles, N = queries_tiling::width, M = queries_tiling::rows;
  const place x = place_of(blockIdx.x, a.t, M, a.h);
  const int first = (x.blocks - 1 - x.block) * M, row = first + warp_row(T);
  const int keys = CAUSAL ? min(a.s, first + M) : a.s, count = (keys + N - 1) / N;
  const sight see(a, x.b, x.h);
  const draws drawn(a, x.b, x.h);
  const stream<N> kv = keys_and_values<N>(a, x.b, x.h, shared + 2 * M * LD);
  element *const own = shared + warp_row(T) * LD;
  const long long row0 = row_of(a, x.b, x.h) + row;
  copy_rows<M>(shared, matrix(from_head(a.q, a.qs, x.b, x.h), a.qs[2], a.t, a.d), first);
  copy_rows<M>(shared + M * LD, matrix(from_head(a.dout, a.gs, x.b, x.h), a.gs[2], a.t, a.d),
               first);
  kv.fetch(0);
  left<T, queries_tiling::held> q, g;
  float dq[T][HEAD / 8][4], by[T][2];
  by_row<T> sums;
  clear(dq);
  sums.open(lse_of(a, a.packed) + row0, (const float *)a.scratch + row0, a.t - row);
  arrive();
  q.open(own);
  g.open(own + M * LD);
#pragma unroll 1
  for (int n = 0; n < count; n++) {
    const element *const now = kv.take(n, count);
    if (CAUSAL && n * N > row + 16 * T - 1) continue;
    float s[T][N / 8][4], dp[T][N / 8][4];
    product_nt(s, q, now);
    product_nt(dp, g, now + N * LD);
    dropped<false, T, N / 8> out;
    out.open(dp, drawn, row, n * N, a.kept);
    queries_gradient<T, N>(s, dp, sums, see, row, n * N, a.scale * LOG2E);
    u32 ds[T][N / 16][4];
    round_to(ds, dp);
    product_nn(dq, ds, now);
  }
#pragma unroll
  for (int t = 0; t < T; t++) by[t][0] = by[t][1] = a.scale;
  put_rows(row_in(a.result, a.dqs, x.b, x.h, row), a.dqs[2], a.t - row, a.d, 0, own, dq, by);
}
#endif
