/*
** Scans along the middle axis of (outer, n, inner): sums, products, log-sum-exp, positions of
** running extremes, first-order recurrences. Header-free; compiled for one dtype and op, with
** these lines before it:
**   TYPE 0 f64, 1 f32, 2 f16, 3 bf16, 4 i64, 5 i32, 6 i16, 7 i8, 8 u8, 9 bool
**   OP 0 sum, 1 product, 2 log-sum-exp, 3 maximum, 4 minimum, 5 y[k] = a[k] y[k-1] + b[k]
** Sums of f32 are kept in f64, of half types in f32, of integers in i64, wrapping.
** States are joined in an order that the sizes alone decide; a join may not commute.
**   inner 1: scan_short, a warp a row; or tiles of 1024 elements by blocks of 256, 4 neighbours
**   a thread. A row of several chunks takes three launches: scan_chunks (states of chunks),
**   scan_before (of those before), scan_rows. Bytes: 2 readings and 1 writing, at least 1 and 1.
**   inner > 1: a thread a column, or a segment of one when columns are few (the same three).
*/
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#define FN __device__ __forceinline__
#define KERNEL extern "C" __global__ void

/* S: storage; V: value; A: of sums and products; O: storage of a result that is a value. */
#if TYPE == 0
typedef double S, V, A, O;
FN V value_of(S x) { return x; }
FN O stored(A x) { return x; }
#elif TYPE == 1
typedef float S, V, O;
typedef double A;
FN V value_of(S x) { return x; }
FN O stored(A x) { return (float)x; }
#elif TYPE == 2
typedef u16 S, O;
typedef float V, A;
#ifndef HOST_HALF
FN V value_of(S h) { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h)); return x; }
FN O stored(A x) { u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }
#endif
#elif TYPE == 3
typedef u16 S, O;
typedef float V, A;
#ifndef HOST_HALF
FN V value_of(S h) { return __uint_as_float((u32)h << 16); }
FN O stored(A x) { u16 h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }
#endif
#else
#if TYPE == 4
typedef long long S;
#elif TYPE == 5
typedef int S;
#elif TYPE == 6
typedef short S;
#elif TYPE == 7
typedef signed char S;
#else
typedef u8 S;
#endif
typedef long long V, O;
typedef u64 A;
#if TYPE == 9
FN V value_of(S x) { return x != 0; }
#else
FN V value_of(S x) { return x; }
#endif
FN O stored(A x) { return (O)x; }
#endif

/* ---- states ---- */

#define UP(x, d) __shfl_up_sync(~0u, x, d)
#define LAST(x) __shfl_sync(~0u, x, 31)
#if OP == 0 || OP == 1
typedef O R;                                     /* what results are */
struct state { A v; };
FN state start() { return { (A)OP }; }
FN state lift(const S *x, const S *, long long i, long long) { return { (A)value_of(x[i]) }; }
#if OP == 0
FN state join(state a, state b) { return { a.v + b.v }; }
#else
FN state join(state a, state b) { return { a.v * b.v }; }
#endif
FN R result(state a) { return stored(a.v); }
FN state up(state a, int d) { return { UP(a.v, d) }; }
FN state last_of(state a) { return { LAST(a.v) }; }
#elif OP == 2
/* s times e to the power m; -Inf and 0 for none. */
typedef O R;
struct state { double m, s; };
FN double minus_inf() { return __longlong_as_double((long long)0xFFF0000000000000ull); }
FN state start() { return { minus_inf(), 0.0 }; }
FN state lift(const S *x, const S *, long long i, long long) {
  const double v = (double)value_of(x[i]);
  if (v != v) return { minus_inf(), v };
  return { v, 1.0 };
}
FN state join(state a, state b) {
  if (a.m == b.m) return { a.m, a.s + b.s };
  if (a.m > b.m) return { a.m, a.s + b.s * exp(b.m - a.m) };
  return { b.m, a.s * exp(a.m - b.m) + b.s };
}
FN R result(state a) { return stored((A)(a.m + log(a.s))); }
FN state up(state a, int d) { return { UP(a.m, d), UP(a.s, d) }; }
FN state last_of(state a) { return { LAST(a.m), LAST(a.s) }; }
#elif OP == 3 || OP == 4
/* at: 1-based, 0 for none. The first extreme; the first NaN beats all. */
typedef long long R;
struct state { V v; long long at; };
FN state start() { return { (V)0, 0 }; }
FN state lift(const S *x, const S *, long long i, long long k) { return { value_of(x[i]), k + 1 }; }
FN state join(state a, state b) {
  if (a.at == 0) return b;
  if (b.at == 0 || a.v != a.v) return a;
  return b.v != b.v || (OP == 3 ? b.v > a.v : b.v < a.v) ? b : a;
}
FN R result(state a) { return a.at; }
FN state up(state a, int d) { return { UP(a.v, d), UP(a.at, d) }; }
FN state last_of(state a) { return { LAST(a.v), LAST(a.at) }; }
#else
/* The map y -> a y + b; result: of 0. */
typedef O R;
struct state { A a, b; };
FN state start() { return { (A)1, (A)0 }; }
FN state lift(const S *x, const S *x2, long long i, long long) { return { (A)value_of(x[i]), (A)value_of(x2[i]) }; }
FN state join(state l, state r) { return { l.a * r.a, r.a * l.b + r.b }; }
FN R result(state a) { return stored(a.b); }
FN state up(state a, int d) { return { UP(a.a, d), UP(a.b, d) }; }
FN state last_of(state a) { return { LAST(a.a), LAST(a.b) }; }
#endif

/* Inclusive joins over the warp's lanes. */
FN state join_before(state a) {
  const int lane = threadIdx.x & 31;
  for (int d = 1; d < 32; d *= 2) {
    const state y = up(a, d);
    if (lane >= d) a = join(y, a);
  }
  return a;
}

/* ---- rows ---- */

/* A warp a row, 8 rows a block of 256. */
KERNEL scan_short(const S *x, const S *x2, R *y, long long rows, long long n, int reverse) {
  const long long row = blockIdx.x * 8ll + threadIdx.x / 32, from = row * n;
  const int lane = threadIdx.x & 31;
  if (row >= rows) return;                        /* whole warps */
  state carry = start();
  for (long long k0 = 0; k0 < n; k0 += 32) {
    const long long k = k0 + lane, i = from + (reverse ? n - 1 - k : k);
    const state all = join_before(k < n ? lift(x, x2, i, k) : start());
    const state mine = join(carry, all);
    if (k < n) y[i] = result(mine);
    carry = last_of(mine);
  }
}

/* One chunk of one row by a block of 256, from the state 'carry'; y NULL: only its state. */
FN state scan_chunk(const S *x, const S *x2, R *y, long long from, long long n, long long first, long long end,
                    int reverse, state carry, state *shared) {
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  for (long long tile = first; tile < end; tile += 1024) {
    state a[4], own = start();
#pragma unroll
    for (int q = 0; q < 4; q++) {
      const long long k = tile + t * 4 + q;
      a[q] = k < end ? lift(x, x2, from + (reverse ? n - 1 - k : k), k) : start();
      own = q ? join(own, a[q]) : a[0];
    }
    const state all = join_before(own);
    if (lane == 31) shared[warp] = all;
    __syncthreads();
    state before = carry;
    for (int w = 0; w < warp; w++) before = join(before, shared[w]);
    const state left = up(all, 1);
    if (lane > 0) before = join(before, left);
#pragma unroll
    for (int q = 0; q < 4; q++) {
      const long long k = tile + t * 4 + q;
      before = join(before, a[q]);
      if (y && k < end) y[from + (reverse ? n - 1 - k : k)] = result(before);
    }
    for (int w = 0; w < 8; w++) carry = join(carry, shared[w]);
    __syncthreads();
  }
  return carry;
}

/* Blocks: rows * chunks. */
KERNEL scan_chunks(const S *x, const S *x2, state *states, long long n, long long chunk, long long chunks, int reverse) {
  __shared__ state shared[8];
  const long long row = blockIdx.x / chunks, c = blockIdx.x % chunks;
  const long long end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
  const state s = scan_chunk(x, x2, (R *)0, row * n, n, c * chunk, end, reverse, start(), shared);
  if (threadIdx.x == 0) states[blockIdx.x] = s;
}

/* A warp a row (or column), 8 a block: states of the chunks become those of what is before them.
** states: (outer, chunks, inner), lanes = outer * inner. */
KERNEL scan_before(state *states, long long lanes, long long chunks, long long inner) {
  const long long l = blockIdx.x * 8ll + threadIdx.x / 32;
  if (l >= lanes) return;                         /* whole warps */
  state run = start();
  for (long long c0 = 0; c0 < chunks; c0 += 32) {
    const long long c = c0 + (threadIdx.x & 31);
    state *at = states + (l / inner * chunks + c) * inner + l % inner;
    const state all = join_before(c < chunks ? *at : start()), left = up(all, 1);
    if (c < chunks) *at = (threadIdx.x & 31) ? join(run, left) : run;
    run = join(run, last_of(all));
  }
}

/* states NULL: rows of one chunk. */
KERNEL scan_rows(const S *x, const S *x2, R *y, const state *states, long long n, long long chunk, long long chunks,
                 int reverse) {
  __shared__ state shared[8];
  const long long row = blockIdx.x / chunks, c = blockIdx.x % chunks;
  const long long end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
  scan_chunk(x, x2, y, row * n, n, c * chunk, end, reverse, states ? states[blockIdx.x] : start(), shared);
}

/* ---- columns ---- */

/* A thread a segment of 'chunk' elements of a column; threads: (outer, chunks, inner). y NULL:
** only its state into states; else from states (NULL: columns of one segment). */
KERNEL scan_columns(const S *x, const S *x2, R *y, state *states, long long outer, long long n, long long inner,
                    long long chunk, long long chunks, int reverse) {
  const long long id = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (id >= outer * chunks * inner) return;
  const long long i = id % inner, c = id / inner % chunks, o = id / inner / chunks;
  const long long end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
  state run = y && states ? states[id] : start();
#pragma unroll 4
  for (long long k = c * chunk; k < end; k++) {
    const long long at = (o * n + (reverse ? n - 1 - k : k)) * inner + i;
    run = join(run, lift(x, x2, at, k));
    if (y) y[at] = result(run);
  }
  if (!y) states[id] = run;
}
