/*
** Attention, softmax(scale q k' + mask) v: the forward pass in f16 and bf16 by the tensor cores
** (mma.sync m16n8k16, sm_80 on), and what all types share. Header-free; with or without prelude.cu
** before it. Before it come
**   #define TYPE    1 f32, 2 f16, 3 bf16
**   #define HEAD    32, 64, 96, 128, 192 or 256: the head size d, a multiple
**                   of 8, rounded up to one of these
**   #define CAUSAL  1: query i sees the keys j <= i; 0: all
**   #define MASK    0 none, 1 bool (true: seen), 2 added, of TYPE
**   #define DROP    1: dropout of the softmax; then the text of tensor/math.h comes first too
** and after it, in the same program, attention_back.cu for the gradients (with "#define BACKWARD"
** before all of it, which leaves the forward pass out) or, with TYPE 1, attention_f32.cu.
**
** Shapes: q (b, h, t, d), k and v (b, hk, s, d), h a multiple of hk, all sizes at least 1. Strides
** are in elements, that of d is 1. Rows that are not aligned to 16 bytes are read by elements,
** slowly.
**   packed   out in TYPE with strides os over (b, h, t), b * h * t * d elements, then lse (b, h, t)
**            in f32: the log of a row's sum of exponentials
**   result   of attention_forward: packed; of attention_queries dq, with strides dqs
**   dk, dv   of attention_keys, with strides dks
**   scratch  of the gradients: delta (b, h, t) in f32, the sum of dout * out along a row
** All rows of these are aligned to 16 bytes in half types.
**
** A warp owns 16 * TILES rows of a result and walks over the other axis in steps of WIDTH columns,
** which all four warps of a block read from shared memory while, if STAGES is 2, the next ones are
** on their way. Scores stay in the registers of the warp: the accumulators of one product are the
** left operand of the next. Launch with 128 threads, ceil(t) * h * b blocks and 2 * LD * (64 *
** TILES + 2 * STAGES * WIDTH) bytes of dynamic shared memory; ceil(n) = (n + 64 * TILES - 1) / (64
** * TILES), LD = HEAD + 8, STAGES = HEAD > 128 ? 1 : 2, TILES and WIDTH as in FORWARD below.
**
** Sums are in f32, in an order that follows from sizes and flags. What a query does not see may be
** skipped, also where v is NaN or infinite; a row whose scores are all -inf is NaN.
*/
#define FN __device__ __forceinline__
#define KERNEL extern "C" __global__ void
#pragma nv_diag_suppress 177    /* no warning about constants that one type or pass does not use */

typedef unsigned u32;
struct attention_args {
  const void *q, *k, *v, *mask, *dout, *packed;
  void *result, *dk, *dv, *scratch;
  const unsigned long long *key;                  /* of a dropout: counter base and seed */
  /* strides in elements over (b, h, row), those of the mask over (b, h, query, key) */
  long long qs[3], ks[3], vs[3], gs[3], ms[4], os[3], dqs[3], dks[3];
  int b, h, hk, t, s, d;
  float scale;
  u32 drop;                              /* a weight whose draw is below drop / 2^24 is 0 */
  float kept;                            /* other weights are multiplied by this */
};

#if TYPE == 1
typedef float element;
FN float value_of(element x) { return x; }
#elif TYPE == 2
typedef unsigned short element;
#define FORMAT "f16"
FN float value_of(element x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
#else
typedef unsigned short element;
#define FORMAT "bf16"
FN float value_of(element x) { return __uint_as_float((u32)x << 16); }
#endif

constexpr float LOG2E = 1.4426950408889634f, LN2 = 0.6931471805599453f;
FN float minus_inf() { return __uint_as_float(0xFF800000u); }
FN float quiet_nan() { return __uint_as_float(0x7FC00000u); }
FN float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/* ---- places and masks ---- */

/* The rows and the head that block x computes. Blocks of one head have neighbouring numbers, so
** that they find its keys in the cache. */
struct place { int block, blocks, h, b; };
FN place place_of(u32 x, int n, int rows, int heads) {
  const u32 blocks = (u32)(n + rows - 1) / rows, head = x / blocks;
  return { (int)(x % blocks), (int)blocks, (int)(head % heads), (int)(head / heads) };
}
FN const element *from_head(const void *x, const long long *stride, int b, int h) {
  return (const element *)x + b * stride[0] + h * stride[1];
}
/* Row i of a result. */
FN element *row_in(void *x, const long long *stride, int b, int h, int i) {
  return (element *)x + b * stride[0] + h * stride[1] + i * stride[2];
}
FN long long row_of(const attention_args &a, int b, int h) {
  return ((long long)b * a.h + h) * a.t;
}
FN const float *lse_of(const attention_args &a, const void *packed) {
  return (const float *)((const element *)packed + (long long)a.b * a.h * a.t * a.d);
}
/* Is the log-sum-exp of one of n queries NaN? Then all of dv is NaN, also in the rows of keys that
** this query does not see. */
FN bool any_nan(const float *lse, int n) {
  bool found = false;
  for (int i = threadIdx.x; i < n; i += blockDim.x) found |= lse[i] != lse[i];
  return __syncthreads_or(found);
}

#if MASK == 1
typedef unsigned char cell;
#else
typedef element cell;
#endif
/* Which keys the queries of a head see, and what a mask adds to their scores. i: query, j: key. */
struct sight {
  const cell *mask;
  long long over_i, over_j;
  int t, s;
  FN sight(const attention_args &a, int b, int h)
      : mask((const cell *)a.mask), over_i(a.ms[2]), over_j(a.ms[3]), t(a.t), s(a.s) {
    if (MASK) mask += b * a.ms[0] + h * a.ms[1];
  }
  FN bool seen(int i, int j) const {
    return j < s && (!CAUSAL || j <= i) && (MASK != 1 || (i < t && mask[i * over_i + j * over_j]));
  }
  FN float added(int i, int j) const {
#if MASK == 2
    return i < t && j < s ? value_of(mask[i * over_i + j * over_j]) : 0.0f;
#else
    return 0.0f;
#endif
  }
  /* May the tile whose first query is i and whose last key is j hold a pair that is not seen? */
  FN bool edge(int i, int j) const { return MASK || j >= s || (CAUSAL && j > i); }
};

/* ---- dropout ---- */

/* What a head draws (tensor/call_attention.h): element (i, j) of its weights has the number 'first'
** + i s + j. */
struct draws {
#if DROP
  unsigned long long base, seed, first;
  u32 drop;
  int s;
  FN draws(const attention_args &a, int b, int h)
      : base(a.key[0]), seed(a.key[1]), first((unsigned long long)row_of(a, b, h) * a.s),
      drop(a.drop), s(a.s) {}
  FN bool keeps(u32 word) const { return word >> 8 >= drop; }
  FN bool kept(int i, int j) const {
    const unsigned long long e = first + (long long)i * s + j;
    const fl_u32x4 r = fl_philox(base + (e >> 2), seed);
    const u32 low = e & 1 ? r.w[1] : r.w[0], high = e & 1 ? r.w[3] : r.w[2];
    return keeps(e & 2 ? high : low);
  }
  /* Bit k: is (i, j + k) kept? k < N <= 32. */
  template <int N> FN u32 bits(int i, int j) const {
    const unsigned long long e = first + (long long)i * s + j, block = base + (e >> 2);
    const int skip = (int)(e & 3);
    unsigned long long all = 0;
#pragma unroll 3
    for (int k = 0; k <= N / 4; k++) {
      const fl_u32x4 r = fl_philox(block + k, seed);
      const u32 four = keeps(r.w[0]) | keeps(r.w[1]) << 1 | keeps(r.w[2]) << 2 | keeps(r.w[3]) << 3;
      all |= (unsigned long long)four << 4 * k;
    }
    return (u32)(all >> skip);
  }
#else
  FN draws(const attention_args &, int, int) {}
#endif
};
/* The factor of sums of kept weights: 1 without a dropout. */
FN float kept_by(const attention_args &a) { return DROP ? a.kept : 1.0f; }

#if TYPE != 1
/* Which elements of a warp's R x C weights, R queries by C keys, are kept. R lanes, or all 32 if R
** is 16, draw SPAN columns of a row each. */
template <int R, int C> struct kept_tile {
  static_assert(R == 16 || R == 32, "a lane draws for one row");
  static constexpr int SPAN = R * C / 32, WORDS = (SPAN + 31) / 32;
  u32 word[WORDS];
  /* (i, j): the first query and the first key. */
  FN void open(const draws &x, int i, int j) {
#if DROP
    const int lane = threadIdx.x % 32, row = lane % R, part = lane / R * SPAN;
#pragma unroll
    for (int k = 0; k < WORDS; k++)
      word[k] = x.template bits<(SPAN < 32 ? SPAN : 32)>(i + row, j + part + 32 * k);
#endif
  }
  /* Is element (r, c) kept, c = fixed + c0, c0 < 8 and 'fixed' a multiple of 8 that is the same in
  ** all lanes? All lanes must ask. */
  FN bool at(int r, int fixed, int c0) const {
    const u32 w = __shfl_sync(~0u, word[fixed % SPAN / 32], r + R * (fixed / SPAN));
    return w >> (fixed % SPAN % 32 + c0) & 1;
  }
};

/* ---- tiles ---- */

/* T and W are TILES and WIDTH (see the head of this file), B is the number of blocks that a
** multiprocessor is to hold, H tells whether the left operands of the scores stay in registers.
** More rows per warp make better use of what is read from shared memory; registers are the
** limit. */
template <int T, int W, int B, int H> struct tiling {
  static constexpr int tiles = T, width = W, blocks = B, rows = 64 * T;
  static constexpr bool held = H;
};
#ifndef FORWARD
#define FORWARD (HEAD <= 64 && !MASK ? 2 : 1), (HEAD > 128 && MASK ? 32 : 64), 2, HEAD <= 128
#endif
typedef tiling<FORWARD> forward_tiling;

constexpr int THREADS = 128, STAGES = HEAD > 128 ? 1 : 2;
/* elements from one row to the next in shared memory: eight rows lie in different banks */
constexpr int LD = HEAD + 8;

FN u32 two_of(float low, float high) {
  u32 r;
  asm("cvt.rn." FORMAT "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

/* ---- global to shared memory ---- */

FN u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
FN void copy16(u32 to, const void *from, bool real) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from),
               "r"(real ? 16 : 0) : "memory");
}
FN void copy4(u32 to, const void *from, bool real) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(to), "l"(from),
               "r"(real ? 4 : 0) : "memory");
}
/* Waits until all copies asked for have arrived, for all threads of the block. */
FN void arrive() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
}

/* n rows of d elements. */
struct matrix {
  const element *p;
  long long stride;
  int n, d;
  bool whole;                                     /* rows are aligned to 16 bytes */
  FN matrix(const element *from, long long over, int rows, int columns)
      : p(from), stride(over), n(rows), d(columns),
      whole((((long long)from | over * 2) & 15) == 0) {}
};

/* Copies ROWS rows from 'first' on, with zeros for rows after the last and for columns above d. A
** thread copies the same 8 columns of every STEP-th row. */
template <int ROWS> FN void copy_rows(element *to, const matrix &x, int first) {
  constexpr int CHUNKS = HEAD / 8, STEP = THREADS / CHUNKS;
  const int row = threadIdx.x / CHUNKS, c = threadIdx.x % CHUNKS * 8,
            rows = c < x.d ? x.n - first - row : 0;
  const element *from = x.p + (first + row) * x.stride + c;
  element *const into = to + row * LD + c;
  if (THREADS % CHUNKS && row >= STEP) return;
  if (x.whole) {
    const u32 address = shared_address(into);
#pragma unroll
    for (int r = 0; r < ROWS; r += STEP, from += STEP * x.stride) {
      if (ROWS % STEP && row + r >= ROWS) break;
      copy16(address + r * LD * 2, r < rows ? from : x.p, r < rows);
    }
    return;
  }
#pragma unroll 1
  for (int e = 0; e < 8 * ((ROWS - row + STEP - 1) / STEP); e++) {
    const int r = e / 8 * STEP;
    into[r * LD + e % 8] = r < rows ? from[r * x.stride + e % 8] : 0;
  }
}

/* Reads two matrices through shared memory, in blocks of ROWS rows. */
template <int ROWS> struct stream {
  matrix x, y;
  element *space;
  FN element *stage(int n) const { return space + n % STAGES * (2 * ROWS * LD); }
  FN void fetch(int n) const {
    copy_rows<ROWS>(stage(n), x, n * ROWS);
    copy_rows<ROWS>(stage(n) + ROWS * LD, y, n * ROWS);
  }
  /* Waits for block n, and returns its address in shared memory. */
  FN element *take(int n, int count) const {
    if (STAGES == 1 && n > 0) {
      __syncthreads();                            /* block n - 1 was read by all */
      fetch(n);
    }
    arrive();
    if (STAGES == 2 && n + 1 < count) fetch(n + 1);
    return stage(n);
  }
};

/* The keys and values that query head h reads, as a stream of blocks of N rows: h / hk query heads
** share one head of keys and values. */
template <int N> FN stream<N> keys_and_values(const attention_args &a, int b, int h, element *to) {
  const int kh = h / (a.h / a.hk);
  return { matrix(from_head(a.k, a.ks, b, kh), a.ks[2], a.s, a.d),
           matrix(from_head(a.v, a.vs, b, kh), a.vs[2], a.s, a.d), to };
}

/* ---- tensor cores ---- */

/* Loads four 8 x 8 matrices; a lane gives the address of row lane % 8 of matrix lane / 8. */
FN void load_matrices(u32 (&r)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
FN void load_transposed(u32 (&r)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
/* Addresses for loading a 16 x 16 block: its 8 x 8 quarters in the order down, then right; or
** right, then down. */
FN u32 down_address(const element *p) {
  const int lane = threadIdx.x % 32;
  return shared_address(p + lane % 16 * LD + lane / 16 * 8);
}
FN u32 right_address(const element *p) {
  const int lane = threadIdx.x % 32;
  return shared_address(p + (lane / 16 * 8 + lane % 8) * LD + lane / 8 % 2 * 8);
}
FN void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32." FORMAT "." FORMAT ".f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* A warp's rows as left operand: in registers, or read from shared memory for each product. */
template <int T, bool HELD> struct left {
  u32 f[HELD ? HEAD / 16 : 1][T][4], from;
  FN void load(int k) {
#pragma unroll
    for (int t = 0; t < T; t++)
      load_matrices(f[HELD ? k : 0][t], from + (t * 16 * LD + k * 16) * 2);
  }
  FN void open(const element *rows) {
    from = down_address(rows);
#pragma unroll
    for (int k = 0; HELD && k < HEAD / 16; k++) load(k);
  }
};

template <int T, int N> FN void clear(float (&c)[T][N][4]) {
#pragma unroll
  for (int t = 0; t < T; t++)
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) c[t][n][e] = 0.0f;
}

/* c = a b'; the rows of b are in shared memory, and each gives a column of c. */
template <int T, bool HELD,
int N> FN void product_nt(float (&c)[T][N][4], left<T, HELD> &a, const element *b) {
  const u32 from = right_address(b);
  clear(c);
#pragma unroll
  for (int k = 0; k < HEAD / 16; k++) {
    if (!HELD) a.load(k);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      u32 x[4];
      load_matrices(x, from + (n * 8 * LD + k * 16) * 2);
#pragma unroll
      for (int t = 0; t < T; t++) {
        multiply(c[t][n], a.f[HELD ? k : 0][t], x[0], x[1]);
        multiply(c[t][n + 1], a.f[HELD ? k : 0][t], x[2], x[3]);
      }
    }
  }
}

/* c += a b; b has 16 K rows in shared memory. */
template <int T, int K,
int N> FN void product_nn(float (&c)[T][N][4], const u32 (&a)[T][K][4], const element *b) {
  const u32 from = down_address(b);
#pragma unroll
  for (int k = 0; k < K; k++)
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      u32 x[4];
      load_transposed(x, from + (k * 16 * LD + n * 8) * 2);
#pragma unroll
      for (int t = 0; t < T; t++) {
        multiply(c[t][n], a[t][k], x[0], x[1]);
        multiply(c[t][n + 1], a[t][k], x[2], x[3]);
      }
    }
}

/* Rounds accumulators to a left operand: two tiles of 8 columns make one of 16. */
template <int T, int N> FN void round_to(u32 (&a)[T][N / 2][4], const float (&c)[T][N][4]) {
#pragma unroll
  for (int t = 0; t < T; t++)
#pragma unroll
    for (int n = 0; n < N; n++) {
      a[t][n / 2][n % 2 * 2] = two_of(c[t][n][0], c[t][n][1]);
      a[t][n / 2][n % 2 * 2 + 1] = two_of(c[t][n][2], c[t][n][3]);
    }
}

/* Element e of an accumulator lies in row lane / 4 + e / 2 * 8, column lane % 4 * 2 + e % 2. */
FN int lane_row() { return threadIdx.x % 32 / 4; }
FN int lane_column() { return threadIdx.x % 4 * 2; }
FN int warp_row(int tiles) { return threadIdx.x / 32 * 16 * tiles; }

/* Writes the first n of a warp's rows, multiplied by by[], to rows of d elements from 'to' on,
** 'over' apart, from column 'skip' on. own: the warp's rows of shared memory, through which they
** go. */
template <int T, int N>
FN void put_rows(element *to, long long over, int n, int d, int skip, element *own,
                 const float (&c)[T][N][4], const float (&by)[T][2]) {
  __syncwarp();
#pragma unroll
  for (int t = 0; t < T; t++)
#pragma unroll
    for (int m = 0; m < N; m++)
#pragma unroll
      for (int r = 0; r < 2; r++)
        *(u32 *)(own + (t * 16 + r * 8 + lane_row()) * LD + m * 8 + lane_column()) =
            two_of(c[t][m][2 * r] * by[t][r], c[t][m][2 * r + 1] * by[t][r]);
  __syncwarp();
#pragma unroll 4
  for (int i = threadIdx.x % 32; i < 16 * T * N; i += 32) {
    const int row = i / N, column = i % N * 8;
    if (row < n && skip + column < d)
      *(uint4 *)(to + row * over + skip + column) =
          *(const uint4 *)(own + row * LD + column);
  }
}

#ifndef BACKWARD
/* ---- forward ---- */

/* The online softmax of a warp's rows: the largest score so far, and the sum of exponentials
** relative to it, which until finish_rows is that of this lane's columns only. */
template <int T> struct running {
  float top[T][2], sum[T][2];
  FN void begin() {
#pragma unroll
    for (int t = 0; t < T; t++)
      top[t][0] = top[t][1] = minus_inf(), sum[t][0] = sum[t][1] = 0.0f;
  }
};

/* Replaces scores that are not seen by -inf. With a mask that is added (MASK 2), scores also become
** exponents of 2; otherwise (MASK 0 and 1) exponentials() multiplies them by c. */
template <int T,
int N> FN void mask_scores(float (&s)[T][N][4], const sight &w, int i0, int j0, float c) {
#pragma unroll
  for (int t = 0; t < T; t++)
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int i = i0 + t * 16 + e / 2 * 8, j = j0 + n * 8 + e % 2;
        const float x = w.seen(i, j) ? (MASK == 2 ? s[t][n][e] * c : s[t][n][e]) : minus_inf();
        s[t][n][e] = MASK == 2 ? __fmaf_rn(w.added(i, j), LOG2E, x) : x;
      }
}

/* Replaces scores by exponentials, and scales the sums so far to the new largest score. c > 0. */
template <int T, int N, int D>
FN void exponentials(float (&s)[T][N][4], float (&o)[T][D][4], running<T> &w, float c) {
#pragma unroll
  for (int t = 0; t < T; t++)
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float top = w.top[t][r], sum = 0.0f;
#pragma unroll
      for (int n = 0; n < N; n++) top = fmaxf(top, fmaxf(s[t][n][2 * r], s[t][n][2 * r + 1]));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
      /* a row that sees no key: avoids -inf - -inf */
      const float shift = top == minus_inf() ? 0.0f : -top * c;
      const float less = exp2_of(__fmaf_rn(w.top[t][r], c, shift));
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 2 * r; e < 2 * r + 2; e++) {
          s[t][n][e] = exp2_of(__fmaf_rn(s[t][n][e], c, shift));
          sum += s[t][n][e];
        }
      w.top[t][r] = top;
      w.sum[t][r] = __fmaf_rn(w.sum[t][r], less, sum);
#pragma unroll
      for (int n = 0; n < D; n++) o[t][n][2 * r] *= less, o[t][n][2 * r + 1] *= less;
    }
}

/* Writes the log-sum-exp of each of n rows to lse[], and the factor of a row's result, kept / sum,
** to by[]. */
template <int T>
FN void finish_rows(float (&by)[T][2], running<T> &w, float c, float *lse, int n, float kept) {
#pragma unroll
  for (int t = 0; t < T; t++)
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float sum = w.sum[t][r];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      /* a row that sees no key: 0 * inf, the NaN that is wanted */
      by[t][r] = kept / sum;
      const int row = t * 16 + r * 8 + lane_row();
      const float x = sum > 0.0f ? __fmaf_rn(w.top[t][r], c, log2f(sum)) * LN2 : quiet_nan();
      if (threadIdx.x % 4 == 0 && row < n) lse[row] = x;
    }
}

/* Sets the weights to 0 that are dropped. (i, j): the warp's first query and the first key. */
template <int T, int N> FN void drop_weights(float (&s)[T][N][4], const draws &x, int i, int j) {
  kept_tile<16 * T, 8 * N> kept;
  kept.open(x, i, j);
#pragma unroll
  for (int t = 0; t < T; t++)
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        if (!kept.at(t * 16 + e / 2 * 8 + lane_row(), n * 8, lane_column() + e % 2))
          s[t][n][e] = 0.0f;
}

KERNEL __launch_bounds__(THREADS, forward_tiling::blocks)
  attention_forward(const __grid_constant__ attention_args a) {
  extern __shared__ __align__(16) element shared[];
  constexpr int T = forward_tiling::tiles, N = forward_tiling::width, M = forward_tiling::rows;
  const place x = place_of(blockIdx.x, a.t, M, a.h);
  const int first = (x.blocks - 1 - x.block) * M, row = first + warp_row(T);
  const int keys = CAUSAL ? min(a.s, first + M) : a.s, count = (keys + N - 1) / N;
  const sight see(a, x.b, x.h);
  const draws drawn(a, x.b, x.h);
  const stream<N> kv = keys_and_values<N>(a, x.b, x.h, shared + M * LD);
  element *const own = shared + warp_row(T) * LD;
  const float c = a.scale * LOG2E, unit = MASK == 2 ? 1.0f : c;
  copy_rows<M>(shared, matrix(from_head(a.q, a.qs, x.b, x.h), a.qs[2], a.t, a.d), first);
  kv.fetch(0);
  left<T, forward_tiling::held> q;
  float o[T][HEAD / 8][4], s[T][N / 8][4], by[T][2];
  running<T> w;
  clear(o);
  w.begin();
  arrive();
  q.open(own);
#pragma unroll 1
  for (int n = 0; n < count; n++) {
    const element *const now = kv.take(n, count);
    if (CAUSAL && n * N > row + 16 * T - 1) continue;              /* nothing for this warp */
    product_nt(s, q, now);
    if (see.edge(row, n * N + N - 1))
      mask_scores(s, see, row + lane_row(), n * N + lane_column(), c);
    exponentials(s, o, w, unit);
    if (DROP) drop_weights(s, drawn, row, n * N);
    u32 p[T][N / 16][4];
    round_to(p, s);
    product_nn(o, p, now + N * LD);
  }
  float *const lse = (float *)lse_of(a, a.result) + row_of(a, x.b, x.h) + row;
  finish_rows(by, w, unit, lse, a.t - row, kept_by(a));
  put_rows(row_in(a.result, a.os, x.b, x.h, row), a.os[2], a.t - row, a.d, 0, own, o, by);
}
#endif
#endif
