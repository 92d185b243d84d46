/*
** Attention and its gradients in f32 by ordinary multiply-adds. This text follows attention.cu in
** one program, with TYPE 1; the head of attention.cu describes shapes and definitions. The kernels
** have the names and results of those for halves in attention.cu and attention_back.cu, which such
** a program does not contain.
**
** A block owns TILE rows of a result and walks over the other axis in tiles of TILE rows, through
** shared memory. Four lanes share a row: lane l has the scores of columns l, l + 4, l + 8 … of a
** tile, and the same columns of the result; weights go through shared memory from one product to
** the next. attention_keys has the scores transposed, one row per key. Launch with 4 * TILE
** threads, TILE = HEAD > 128 ? 16 : 32, LD = HEAD + 4, ceil(n) = (n + TILE - 1) / TILE; kernels,
** their blocks, and bytes of dynamic shared memory:
**   attention_forward  ceil(t) * h * b blocks     4 * TILE * (3 * LD + TILE + 1)
**   attention_delta    ceil(t * h * b) blocks     none
**   attention_keys     ceil(s) * hk * b blocks    4 * TILE * (4 * LD + 2 * (TILE + 1))
**   attention_queries  ceil(t) * h * b blocks     4 * TILE * (4 * LD + 2 * (TILE + 1))
*/
constexpr int TILE = HEAD > 128 ? 16 : 32, THREADS = 4 * TILE, LD = HEAD + 4, SPAN = TILE / 4,
OWN = HEAD / 4;
constexpr int WEIGHTS = TILE + 1;                 /* from row to row of weights */

FN int thread_row() { return threadIdx.x / 4; }
FN int thread_column() { return threadIdx.x % 4; }

/* Copies a tile's rows from 'first' on of n rows 'over' elements apart, with zeros for rows after
** the last and for columns above d. */
FN void copy_rows(float *to, const float *from, long long over, int first, int n, int d) {
  for (int e = threadIdx.x; e < TILE * HEAD; e += THREADS) {
    const int r = e / HEAD, c = e % HEAD;
    to[r * LD + c] = first + r < n && c < d ? from[(first + r) * over + c] : 0.0f;
  }
}

/* s = dot products of the thread's row with the rows of b that belong to the thread's columns. */
FN void product_nt(float (&s)[SPAN], const float *row, const float *b) {
#pragma unroll
  for (int i = 0; i < SPAN; i++) s[i] = 0.0f;
#pragma unroll 4
  for (int k = 0; k < HEAD; k += 4) {
    const float4 x = *(const float4 *)(row + k);
#pragma unroll
    for (int i = 0; i < SPAN; i++) {
      const float4 y = *(const float4 *)(b + (thread_column() + 4 * i) * LD + k);
      s[i] = __fmaf_rn(x.w, y.w,
                       __fmaf_rn(x.z, y.z, __fmaf_rn(x.y, y.y, __fmaf_rn(x.x, y.x, s[i]))));
    }
  }
}

/* o += w b. w: the thread's part of a row of weights; 'row': space in shared memory through which
** the lanes of the row exchange them. */
FN void product_nn(float (&o)[OWN], float *row, const float (&w)[SPAN], const float *b) {
#pragma unroll
  for (int i = 0; i < SPAN; i++) row[thread_column() + 4 * i] = w[i];
  __syncwarp();
#pragma unroll 1
  for (int j = 0; j < TILE; j++) {
    const float x = row[j];
#pragma unroll
    for (int e = 0; e < OWN; e++) o[e] = __fmaf_rn(x, b[j * LD + 4 * e + thread_column()], o[e]);
  }
  __syncwarp();
}

FN void clear(float (&o)[OWN]) {
#pragma unroll
  for (int e = 0; e < OWN; e++) o[e] = 0.0f;
}
FN void put_row(float *to, const float (&o)[OWN], float by, int d) {
#pragma unroll
  for (int e = 0; e < OWN; e++)
    if (4 * e + thread_column() < d) to[4 * e + thread_column()] = o[e] * by;
}

FN float over_row(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

/* Largest score and sum of exponentials of the thread's row. */
struct running { float top, sum; };

/* Replaces scores by exponentials, and scales the sums so far to the new largest score. */
FN void exponentials(float (&s)[SPAN], float (&o)[OWN], running &w, const sight &see, int i, int j0,
                     float scale) {
  float top = w.top, sum = 0.0f;
#pragma unroll
  for (int e = 0; e < SPAN; e++) {
    const int j = j0 + thread_column() + 4 * e;
    s[e] = (see.seen(i, j) ? s[e] * scale : minus_inf()) + see.added(i, j);
    top = fmaxf(top, s[e]);
  }
  top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
  top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
  /* a row that sees no key: avoids -inf - -inf */
  const float base = top == minus_inf() ? 0.0f : top;
  const float less = exp2_of((w.top - base) * LOG2E);
#pragma unroll
  for (int e = 0; e < SPAN; e++) {
    s[e] = exp2_of((s[e] - base) * LOG2E);
    sum += s[e];
  }
  w.top = top;
  w.sum = __fmaf_rn(w.sum, less, over_row(sum));
#pragma unroll
  for (int e = 0; e < OWN; e++) o[e] *= less;
}

/* Sets weights of the thread's row to 0 that are dropped. */
FN void drop_weights(float (&s)[SPAN], const draws &x, int i, int j0) {
#if DROP
#pragma unroll 1
  for (int e = 0; e < SPAN; e++)
    if (!x.kept(i, j0 + thread_column() + 4 * e)) {
#pragma unroll
      for (int k = 0; k < SPAN; k++) s[k] = k == e ? 0.0f : s[k];
    }
#endif
}

KERNEL __launch_bounds__(THREADS) attention_forward(const __grid_constant__ attention_args a) {
  extern __shared__ __align__(16) float shared[];
  const place x = place_of(blockIdx.x, a.t, TILE, a.h);
  const int first = (x.blocks - 1 - x.block) * TILE, i = first + thread_row(),
            kh = x.h / (a.h / a.hk);
  const int keys = CAUSAL ? min(a.s, first + TILE) : a.s;
  const sight see(a, x.b, x.h);
  const draws drawn(a, x.b, x.h);
  float *const q = shared, *const k = q + TILE * LD, *const v = k + TILE * LD;
  float *const weights = v + TILE * LD + thread_row() * WEIGHTS;
  running w = { minus_inf(), 0.0f };
  float o[OWN], s[SPAN];
  clear(o);
  copy_rows(q, from_head(a.q, a.qs, x.b, x.h), a.qs[2], first, a.t, a.d);
  for (int j = 0; j < keys; j += TILE) {
    __syncthreads();
    copy_rows(k, from_head(a.k, a.ks, x.b, kh), a.ks[2], j, a.s, a.d);
    copy_rows(v, from_head(a.v, a.vs, x.b, kh), a.vs[2], j, a.s, a.d);
    __syncthreads();
    product_nt(s, q + thread_row() * LD, k);
    exponentials(s, o, w, see, i, j, a.scale);
    drop_weights(s, drawn, i, j);
    product_nn(o, weights, s, v);
  }
  if (i >= a.t) return;
  const long long row = row_of(a, x.b, x.h) + i;
  if (thread_column() == 0)
    ((float *)lse_of(a, a.result))[row] = w.sum > 0.0f ? w.top + log2f(w.sum) * LN2 : quiet_nan();
  put_row(row_in(a.result, a.os, x.b, x.h, i), o, kept_by(a) / w.sum, a.d);  /* no key: NaN */
}

/* ---- backward ---- */

KERNEL __launch_bounds__(THREADS) attention_delta(const __grid_constant__ attention_args a) {
  const long long row = blockIdx.x * (long long)TILE + thread_row(), bh = row / a.t;
  const bool real = bh < (long long)a.b * a.h;
  const float *const o = from_head(a.packed, a.os, (int)(bh / a.h), (int)(bh % a.h)) +
                         row % a.t * a.os[2];
  const float *const g = from_head(a.dout, a.gs, (int)(bh / a.h), (int)(bh % a.h)) +
                         row % a.t * a.gs[2];
  float sum = 0.0f;
  for (int c = thread_column(); real && c < a.d; c += 4) sum = __fmaf_rn(g[c], o[c], sum);
  sum = over_row(sum);
  if (real && thread_column() == 0) ((float *)a.scratch)[row] = sum;
}

/* Replaces a score s by its weight, 0 if the dropout drops it, and dp, the gradient of the
** dropout's result, by that of the score, for query i of the head that lse and delta belong to. by:
** kept_by. */
FN void gradient(float &s, float &dp, const sight &see, const draws &x, int i, int j, float scale,
                 const float *lse, const float *delta, float by) {
  const bool seen = see.seen(i, j);
  const float m = i < see.t ? lse[i] : 0.0f, sum = i < see.t ? delta[i] : 0.0f,
              add = see.added(i, j) - m;
  s = exp2_of((seen ? __fmaf_rn(s, scale, add) : minus_inf() + add) * LOG2E);
#if DROP
  const bool kept = x.kept(i, j);
  dp = seen ? s * ((kept ? dp * by : 0.0f) - sum) : 0.0f;
  if (!kept) s = 0.0f;
#else
  dp = seen ? s * (dp - sum) : 0.0f;
#endif
}

KERNEL __launch_bounds__(THREADS) attention_keys(const __grid_constant__ attention_args a) {
  extern __shared__ __align__(16) float shared[];
  const place x = place_of(blockIdx.x, a.s, TILE, a.hk);
  const int first = x.block * TILE, j = first + thread_row(), group = a.h / a.hk;
  float *const k = shared, *const v = k + TILE * LD, *const q = v + TILE * LD,
  *const g = q + TILE * LD;
  float *const weights = g + TILE * LD + thread_row() * WEIGHTS,
  *const changes = weights + TILE * WEIGHTS;
  float dk[OWN], dv[OWN], s[SPAN], dp[SPAN], bad = 1.0f;
  clear(dk);
  clear(dv);
  copy_rows(k, from_head(a.k, a.ks, x.b, x.h), a.ks[2], first, a.s, a.d);
  copy_rows(v, from_head(a.v, a.vs, x.b, x.h), a.vs[2], first, a.s, a.d);
  for (int h = x.h * group; h < (x.h + 1) * group; h++) {
    const sight see(a, x.b, h);
    const draws drawn(a, x.b, h);
    const float *const lse = lse_of(a, a.packed) + row_of(a, x.b, h);
    const float *const delta = (float *)a.scratch + row_of(a, x.b, h);
    for (int i = CAUSAL ? first : 0; i < a.t; i += TILE) {
      __syncthreads();
      copy_rows(q, from_head(a.q, a.qs, x.b, h), a.qs[2], i, a.t, a.d);
      copy_rows(g, from_head(a.dout, a.gs, x.b, h), a.gs[2], i, a.t, a.d);
      __syncthreads();
      product_nt(s, k + thread_row() * LD, q);
      product_nt(dp, v + thread_row() * LD, g);
#pragma unroll
      for (int e = 0; e < SPAN; e++)
        gradient(s[e], dp[e], see, drawn, i + thread_column() + 4 * e, j, a.scale, lse, delta,
                 a.kept);
      product_nn(dv, weights, s, g);
      product_nn(dk, changes, dp, q);
    }
    if (CAUSAL && any_nan(lse, min(first, a.t))) bad = quiet_nan();
  }
  if (j >= a.s) return;
  put_row(row_in(a.dk, a.dks, x.b, x.h, j), dk, a.scale, a.d);
  put_row(row_in(a.dv, a.dks, x.b, x.h, j), dv, bad * kept_by(a), a.d);
}

KERNEL __launch_bounds__(THREADS) attention_queries(const __grid_constant__ attention_args a) {
  extern __shared__ __align__(16) float shared[];
  const place x = place_of(blockIdx.x, a.t, TILE, a.h);
  const int first = (x.blocks - 1 - x.block) * TILE, i = first + thread_row(),
            kh = x.h / (a.h / a.hk);
  const int keys = CAUSAL ? min(a.s, first + TILE) : a.s;
  const sight see(a, x.b, x.h);
  const draws drawn(a, x.b, x.h);
  const float *const lse = lse_of(a, a.packed) + row_of(a, x.b, x.h);
  const float *const delta = (float *)a.scratch + row_of(a, x.b, x.h);
  float *const q = shared, *const g = q + TILE * LD, *const k = g + TILE * LD,
  *const v = k + TILE * LD;
  float *const changes = v + TILE * LD + thread_row() * WEIGHTS;
  float dq[OWN], s[SPAN], dp[SPAN];
  clear(dq);
  copy_rows(q, from_head(a.q, a.qs, x.b, x.h), a.qs[2], first, a.t, a.d);
  copy_rows(g, from_head(a.dout, a.gs, x.b, x.h), a.gs[2], first, a.t, a.d);
  for (int j = 0; j < keys; j += TILE) {
    __syncthreads();
    copy_rows(k, from_head(a.k, a.ks, x.b, kh), a.ks[2], j, a.s, a.d);
    copy_rows(v, from_head(a.v, a.vs, x.b, kh), a.vs[2], j, a.s, a.d);
    __syncthreads();
    product_nt(s, q + thread_row() * LD, k);
    product_nt(dp, g + thread_row() * LD, v);
#pragma unroll
    for (int e = 0; e < SPAN; e++)
      gradient(s[e], dp[e], see, drawn, i, j + thread_column() + 4 * e, a.scale, lse, delta,
               a.kept);
    product_nn(dq, changes, dp, k);
  }
  if (i < a.t) put_row(row_in(a.result, a.dqs, x.b, x.h, i), dq, a.scale, a.d);
}
