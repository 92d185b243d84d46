/*
** Scans along the middle axis of (outer, n, inner): sums, products, log-sum-exp, positions of
** running extremes, first-order recurrences. Header-free; compiled for one dtype and op, with
** these lines before it:
**   TYPE    0 f64, 1 f32, 2 f16, 3 bf16, 4 i64, 5 i32, 6 i16, 7 i8, 8 u8, 9 bool
**   OP      0 sum, 1 product, 2 log-sum-exp, 3 maximum, 4 minimum, 5 y[k] = a[k] y[k-1] + b[k]
**   VALUES  1: the value of an extreme, 0: its position
** Sums of f32 are kept in f64, of half types in f32, of integers in i64, wrapping.
** States are joined in an order that follows from the sizes alone; a join may not commute.
**   inner 1    scan_short, one warp per row; or tiles of 4096 elements (2048 of wide states) by
**              blocks of 256, one per row or, of few long rows, one per chunk: scan_chunks (states
**              of chunks), then scan_rows, whose blocks first join the states of the chunks before.
**              Bytes: rows are read once, with chunks twice, and written once.
**   inner > 1  one thread per column, or per segment of one when columns are few: scan_columns
**              (states of segments), scan_before (of those before), scan_columns. Bytes: columns
**              are read once, with segments twice, and written once.
*/
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#define FN __device__ __forceinline__
#define KERNEL extern "C" __global__ void

/* S: an element in memory; V: its value; A: sums and products; O: a result in memory, if it is a
** value and not a position. */
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
#define FROM(x, l) __shfl_sync(~0u, x, l)
#if OP == 0 || OP == 1
typedef O R;                                     /* what results are */
struct state { A v; };
FN state start() { return { (A)OP }; }
FN state lift(S x, S, long long) { return { (A)value_of(x) }; }
#if OP == 0
FN state join(state a, state b) { return { a.v + b.v }; }
#else
FN state join(state a, state b) { return { a.v * b.v }; }
#endif
FN R result(state a) { return stored(a.v); }
FN state up(state a, int d) { return { UP(a.v, d) }; }
FN state from_lane(state a, int l) { return { FROM(a.v, l) }; }
#elif OP == 2
/* The state is s times e to the power m; m -Inf and s 0 for no element. */
typedef O R;
struct state { double m, s; };
FN double minus_inf() { return __longlong_as_double((long long)0xFFF0000000000000ull); }
FN state start() { return { minus_inf(), 0.0 }; }
FN state lift(S x, S, long long) {
  const double v = (double)value_of(x);
  if (v != v) return { minus_inf(), v };
  return { v, 1.0 };
}
FN state join(state a, state b) {
  if (a.m == b.m) return { a.m, a.s + b.s };
  const bool first = a.m > b.m;
  const double less = exp(first ? b.m - a.m : a.m - b.m);
  return { first ? a.m : b.m, first ? a.s + b.s * less : a.s * less + b.s };
}
FN R result(state a) { return stored((A)(a.m + log(a.s))); }
FN state up(state a, int d) { return { UP(a.m, d), UP(a.s, d) }; }
FN state from_lane(state a, int l) { return { FROM(a.m, l), FROM(a.s, l) }; }
#elif VALUES
/* The first NaN beats all. */
typedef S R;
struct state { V v; };
#if TYPE < 4
FN state start() {
  return { (V)__longlong_as_double(OP == 3 ? (long long)0xFFF0000000000000ull
                                           : 0x7FF0000000000000ll) };
}
FN R result(state a) { return stored((A)a.v); }
#else
FN state start() { return { OP == 3 ? (V)0x8000000000000000ull : 0x7FFFFFFFFFFFFFFFll }; }
FN R result(state a) { return (R)a.v; }
#endif
FN state lift(S x, S, long long) { return { value_of(x) }; }
FN state join(state a, state b) {
  return a.v == a.v && (b.v != b.v || (OP == 3 ? b.v > a.v : b.v < a.v)) ? b : a;
}
FN state up(state a, int d) { return { UP(a.v, d) }; }
FN state from_lane(state a, int l) { return { FROM(a.v, l) }; }
#elif OP == 3 || OP == 4
/* at: 1-based, 0 for none. Of equal extremes the first; the first NaN beats all. */
typedef long long R;
struct state { V v; long long at; };
FN state start() { return { (V)0, 0 }; }
FN state lift(S x, S, long long k) { return { value_of(x), k + 1 }; }
FN state join(state a, state b) {
  if (a.at == 0) return b;
  if (b.at == 0 || a.v != a.v) return a;
  return b.v != b.v || (OP == 3 ? b.v > a.v : b.v < a.v) ? b : a;
}
FN R result(state a) { return a.at; }
FN state up(state a, int d) { return { UP(a.v, d), UP(a.at, d) }; }
FN state from_lane(state a, int l) { return { FROM(a.v, l), FROM(a.at, l) }; }
#else
/* The map y -> a y + b; its result is its value at 0. */
typedef O R;
struct state { A a, b; };
FN state start() { return { (A)1, (A)0 }; }
FN state lift(S x, S x2, long long) { return { (A)value_of(x), (A)value_of(x2) }; }
FN state join(state l, state r) { return { l.a * r.a, r.a * l.b + r.b }; }
FN R result(state a) { return stored(a.b); }
FN state up(state a, int d) { return { UP(a.a, d), UP(a.b, d) }; }
FN state from_lane(state a, int l) { return { FROM(a.a, l), FROM(a.b, l) }; }
#endif

FN state last_of(state a) { return from_lane(a, 31); }

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

/* Scans short rows: one warp per row, 8 rows per block of 256. */
KERNEL scan_short(const S *x, const S *x2, R *y, long long rows, long long n, int reverse) {
  const long long row = blockIdx.x * 8ll + threadIdx.x / 32, from = row * n;
  const int lane = threadIdx.x & 31;
  if (row >= rows) return;                        /* uniform in the warp */
  state carry = start();
  for (long long k0 = 0; k0 < n; k0 += 32) {
    const long long k = k0 + lane, i = from + (reverse ? n - 1 - k : k);
    const state all = join_before(k < n ? lift(x[i], OP == 5 ? x2[i] : (S)0, k) : start());
    const state mine = join(carry, all);
    if (k < n) y[i] = result(mine);
    carry = last_of(mine);
  }
}

/* Fewer pieces for wide states: they need registers, and time to compile. */
enum { PIECES = sizeof(state) > 8 ? 2 : 4, PIECE = 1024, TILE = PIECES * PIECE };
template <class T> struct __align__(sizeof(T) * 4 < 16 ? sizeof(T) * 4 : 16) four { T e[4]; };

/* A row of n elements, in the direction of the walk. aligned: it can be read four elements at a
** time. */
struct line {
  const S *x, *x2;
  R *y;
  long long n;
  int reverse;
  bool aligned;
};

FN line line_of(const S *x, const S *x2, R *y, long long from, long long n, int reverse) {
  const long long base = reverse ? from + n : from;
  const u64 in = OP == 5 ? (u64)(x + base) | (u64)(x2 + base) : (u64)(x + base);
  return { x + from, x2 + from, y + from, n, reverse,
           in % sizeof(four<S>) % 16 == 0 && (u64)(y + base) % sizeof(four<R>) % 16 == 0 };
}

/* Elements k … k + 3; 0 after the end. */
FN four<S> load(const line &l, const S *x, long long k) {
  four<S> v = { { 0, 0, 0, 0 } };
  if (l.aligned && k + 4 <= l.n) {
    v = *(const four<S> *)(x + (l.reverse ? l.n - 4 - k : k));
    if (l.reverse) v = { { v.e[3], v.e[2], v.e[1], v.e[0] } };
    return v;
  }
#pragma unroll
  for (int q = 0; q < 4; q++)
    if (k + q < l.n) v.e[q] = x[l.reverse ? l.n - 1 - k - q : k + q];
  return v;
}

FN void store(const line &l, long long k, four<R> v) {
  if (l.aligned && k + 4 <= l.n) {
    if (l.reverse) v = { { v.e[3], v.e[2], v.e[1], v.e[0] } };
    *(four<R> *)(l.y + (l.reverse ? l.n - 4 - k : k)) = v;
    return;
  }
#pragma unroll
  for (int q = 0; q < 4; q++)
    if (k + q < l.n) l.y[l.reverse ? l.n - 1 - k - q : k + q] = v.e[q];
}

/* A tile's elements, 4 neighbours per thread in each piece, and for each piece the joined states of
** the tile's elements before the thread's four. */
struct tile {
  four<S> x[PIECES], x2[OP == 5 ? PIECES : 1];
  state before[PIECES];
};

/* The state of element q of the thread's vector in piece j; start() after the row's end. left: the
** number of elements from the thread's first one to the end of the row or of the tile; k: the
** element's index in the row. */
FN state lift_at(const tile &t, int j, int q, int left, long long k) {
  return j * PIECE + q < left ? lift(t.x[j].e[q], OP == 5 ? t.x2[OP == 5 ? j : 0].e[q] : (S)0, k)
                              : start();
}
FN int left_of(const line &l, long long first) {
  return (int)(l.n - first < TILE ? l.n - first : TILE) - (int)threadIdx.x * 4;
}

/* Reads the tile at 'first' by a block of 256; returns the state of all of it. words: room for 32
** states, in use until the next barrier. */
FN state take_tile(const line &l, long long first, tile &t, state *words) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, left = left_of(l, first);
  const long long k = first + threadIdx.x * 4;
#pragma unroll
  for (int j = 0; j < PIECES; j++) {
    t.x[j] = load(l, l.x, k + j * PIECE);
    if (OP == 5) t.x2[OP == 5 ? j : 0] = load(l, l.x2, k + j * PIECE);
  }
#pragma unroll
  for (int j = 0; j < PIECES; j++) {
    state all = start();
    t.before[j] = all;
    if (first + j * PIECE < l.n) {                 /* uniform in the block */
      all = lift_at(t, j, 0, left, k + j * PIECE);
#pragma unroll
      for (int q = 1; q < 4; q++) all = join(all, lift_at(t, j, q, left, k + j * PIECE + q));
      all = join_before(all);
      const state left_one = up(all, 1);
      if (lane > 0) t.before[j] = left_one;
    }
    if (lane == 31) words[j * 8 + warp] = all;
  }
  __syncthreads();
  const state all = join_before(lane < PIECES * 8 ? words[lane] : start());
#pragma unroll
  for (int j = 0; j < PIECES; j++) {
    const state before = from_lane(all, (j * 8 + warp + 31) & 31);
    if (j * 8 + warp > 0) t.before[j] = join(before, t.before[j]);
  }
  return last_of(all);
}

FN void put_tile(const line &l, long long first, const tile &t, state before) {
  const int left = left_of(l, first);
  const long long k = first + threadIdx.x * 4;
#pragma unroll
  for (int j = 0; j < PIECES; j++) {
    if (j * PIECE >= left) continue;
    state run = join(before, t.before[j]);
    four<R> y;
#pragma unroll
    for (int q = 0; q < 4; q++) {
      run = join(run, lift_at(t, j, q, left, k + j * PIECE + q));
      y.e[q] = result(run);
    }
    store(l, k + j * PIECE, y);
  }
}

/* The join of the first 'count' of 'all' states, by a block of 256, in an order that follows from
** 'all'. */
FN state join_first(const state *states, long long count, long long all, state *words) {
  const long long each = (all + 255) / 256, from = threadIdx.x * each;
  state s = start();
  for (long long i = from; i < from + each; i++) s = join(s, i < count ? states[i] : start());
  s = join_before(s);
  if ((threadIdx.x & 31) == 31) words[threadIdx.x >> 5] = s;
  __syncthreads();
  s = words[0];
  for (int w = 1; w < 8; w++) s = join(s, words[w]);
  __syncthreads();
  return s;
}

/* Writes the state of each chunk; one block of 256 per chunk, rows * chunks blocks. Where joins
** commute, each thread joins its own elements of all tiles first. */
KERNEL __launch_bounds__(256) scan_chunks(const S *x, const S *x2, state *states, long long n,
                                          long long chunk, long long chunks, int reverse) {
  __shared__ state words[32];
  const long long row = blockIdx.x / chunks, c = blockIdx.x % chunks, end = (c + 1) * chunk;
  const line l = line_of(x, x2, (R *)0, row * n, n, reverse);
  state s = start();
#if OP <= 2 || VALUES
  state own[PIECES];
  for (int j = 0; j < PIECES; j++) own[j] = start();
  for (long long first = c * chunk; first < end && first < n; first += TILE) {
    tile t;
    const int left = left_of(l, first);
#pragma unroll
    for (int j = 0; j < PIECES; j++) t.x[j] = load(l, l.x, first + j * PIECE + threadIdx.x * 4);
#pragma unroll
    for (int j = 0; j < PIECES; j++)
#pragma unroll
      for (int q = 0; q < 4; q++) own[j] = join(own[j], lift_at(t, j, q, left, 0));
  }
  for (int j = 0; j < PIECES; j++) s = join(s, own[j]);
  s = join_before(s);
  if ((threadIdx.x & 31) == 31) words[threadIdx.x >> 5] = s;
  __syncthreads();
  s = words[0];
  for (int w = 1; w < 8; w++) s = join(s, words[w]);
#else
  for (long long first = c * chunk; first < end && first < n; first += TILE) {
    tile t;
    s = join(s, take_tile(l, first, t, words));
    __syncthreads();
  }
#endif
  if (threadIdx.x == 0) states[blockIdx.x] = s;
}

/* Writes the results; blocks are those of scan_chunks. states NULL: each row is one chunk. */
KERNEL __launch_bounds__(256) scan_rows(const S *x, const S *x2, R *y, const state *states,
                                        long long n, long long chunk, long long chunks,
                                        int reverse) {
  __shared__ state words[32];
  const long long row = blockIdx.x / chunks, c = blockIdx.x % chunks, end = (c + 1) * chunk;
  const line l = line_of(x, x2, y, row * n, n, reverse);
  state carry = start();
  if (states) carry = join_first(states + row * chunks, c, chunks, words);
  for (long long first = c * chunk; first < end && first < n; first += TILE) {
    tile t;
    const state all = take_tile(l, first, t, words);
    put_tile(l, first, t, carry);
    carry = join(carry, all);
    __syncthreads();
  }
}

/* ---- columns ---- */

/* One warp per column, 8 per block: replaces the state of each segment by the joined states of
** those before it. states: (outer, chunks, inner), lanes = outer * inner. */
KERNEL scan_before(state *states, long long lanes, long long chunks, long long inner) {
  const long long l = blockIdx.x * 8ll + threadIdx.x / 32;
  if (l >= lanes) return;                         /* uniform in the warp */
  state run = start();
  for (long long c0 = 0; c0 < chunks; c0 += 32) {
    const long long c = c0 + (threadIdx.x & 31);
    state *at = states + (l / inner * chunks + c) * inner + l % inner;
    const state all = join_before(c < chunks ? *at : start()), left = up(all, 1);
    if (c < chunks) *at = (threadIdx.x & 31) ? join(run, left) : run;
    run = join(run, last_of(all));
  }
}

/* One thread per segment of 'chunk' elements of a column; threads: (outer, chunks, inner). y NULL:
** only writes the segment's state to states; else results begin from states (NULL: columns of one
** segment). */
KERNEL scan_columns(const S *x, const S *x2, R *y, state *states, long long outer, long long n,
                    long long inner, long long chunk, long long chunks, int reverse) {
  const long long id = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (id >= outer * chunks * inner) return;
  const long long i = id % inner, c = id / inner % chunks, o = id / inner / chunks;
  const long long end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
  state run = y && states ? states[id] : start();
#pragma unroll 4
  for (long long k = c * chunk; k < end; k++) {
    const long long at = (o * n + (reverse ? n - 1 - k : k)) * inner + i;
    run = join(run, lift(x[at], OP == 5 ? x2[at] : (S)0, k));
    if (y) y[at] = result(run);
  }
  if (!y) states[id] = run;
}
