/*
** Several operations in one pass over their operands, for one float register type: included by
** vm_pair.h. Every operation rounds as it does alone, so the bits are the same; the passes through
** memory between them are saved.
**
**   chain    operations on the value so far and an operand each (FL_LINK_*), of rows of n
**   dot      the sum of a b: rows and columns, in the order of 'sum' (plan/kernel.h)
**   some     for each block of a sum or product, its FL_VM_LANES partial results
*/
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define FN(name) JOIN(name, SUFFIX)
typedef T FN(vec) __attribute__((vector_size(FL_ISA_BYTES), aligned(sizeof(T)), may_alias));
#define V FN(vec)
typedef INT FN(bits) __attribute__((vector_size(FL_ISA_BYTES), aligned(sizeof(T)), may_alias));
#define BITS FN(bits)
#define PER ((int64_t)(FL_ISA_BYTES / sizeof(T)))
#define LANE_VECS (FL_VM_LANES / PER)
static inline V FN(splat)(T x) { return x - (V){ 0 }; }          /* - 0 keeps the sign of zero */

/* ---- chains --------------------- */

#define BLOCK_VECS 4
#define EVERY(DO) DO(0) DO(1) DO(2) DO(3)
#define BLOCK (BLOCK_VECS * PER)
/* moves: -1: p moves along the row; 0: it is one block for the whole row */
typedef struct FN(link) { int op; int64_t moves; T *p; } FN(link);

static inline V FN(roots)(V x) {
  union { V v; T e[FL_ISA_BYTES / sizeof(T)]; } u = { x };
  for (int i = 0; i < PER; i++) u.e[i] = ROOT(u.e[i]);
  return u.v;
}

/* COMPARE: the mask of a comparison of vectors, element by element; pick: a where k is true, b
** elsewhere. */
#if defined(__AVX512F__)
#if IS_F32
#define MASK __mmask16
#define COMPARE(a, op, b) _mm512_cmp_ps_mask((__m512)(a), (__m512)(b), AS_##op)
static inline V FN(pick)(MASK k, V a, V b) {
  return (V)_mm512_mask_blend_ps(k, (__m512)b, (__m512)a);
}
#else
#define MASK __mmask8
#define COMPARE(a, op, b) _mm512_cmp_pd_mask((__m512d)(a), (__m512d)(b), AS_##op)
static inline V FN(pick)(MASK k, V a, V b) {
  return (V)_mm512_mask_blend_pd(k, (__m512d)b, (__m512d)a);
}
#endif
#else
#define MASK BITS
#define COMPARE(a, op, b) (BITS)((a) AS_##op (b))
static inline V FN(pick)(MASK k, V a, V b) { return (V)(((BITS)a & k) | ((BITS)b & ~k)); }
#endif
/* Like fl_max and fl_min: NaN wins, and of two zeros the sign bits are combined. */
static inline V FN(larger)(V a, V b) {
  const V m = FN(pick)(COMPARE(a, gt, b), a, b),
  n = FN(pick)(COMPARE(a, eq, b), (V)((BITS)a & (BITS)b), m);
  return FN(pick)(COMPARE(a, ne, a), a, n);
}
static inline V FN(smaller)(V a, V b) {
  const V m = FN(pick)(COMPARE(a, lt, b), a, b),
  n = FN(pick)(COMPARE(a, eq, b), (V)((BITS)a | (BITS)b), m);
  return FN(pick)(COMPARE(a, ne, a), a, n);
}

/* bf16, only for f32: from_half widens elements read from memory, put_halves writes to memory as
** fl_bf16_bits does, and ROUND_HALF gives the value after rounding. */
#if IS_F32
typedef uint16_t FN(halves) __attribute__((vector_size(FL_ISA_BYTES / 2), aligned(2), may_alias));
typedef uint32_t FN(words) __attribute__((vector_size(FL_ISA_BYTES), may_alias));
/* Written by hand: compilers make several instructions of a vector conversion. */
static inline FN(words) FN(widened)(FN(halves) h) {
#if defined(__AVX512F__)
  return (FN(words))_mm512_cvtepu16_epi32((__m256i)h);
#elif defined(__AVX2__)
  return (FN(words))_mm256_cvtepu16_epi32((__m128i)h);
#else
  return __builtin_convertvector(h, FN(words));
#endif
}
static inline V FN(from_half)(FN(halves) h) { return (V)(FN(widened)(h) << 16); }
/* The upper halves of the result's words are the rounded x. */
static inline FN(words) FN(rounded)(V x) {
  const FN(words) b = (FN(words))x, up = b + ((b >> 16 & 1) + 0x7fff);
#if defined(__AVX512F__)
  const __mmask16 nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
  return (FN(words))_mm512_mask_or_epi32((__m512i)up, nan, (__m512i)b, _mm512_set1_epi32(0x400000));
#else
  const FN(words) nan = (FN(words))(x != x);   /* NOLINT(misc-redundant-expression) */
  return (up & ~nan) | ((b | 0x400000) & nan);
#endif
}
/* Rounds two vectors to bf16 and writes them to y. */
static inline void FN(put_halves)(uint16_t *y, V x0, V x1) {
  const FN(words) a = FN(rounded)(x0), b = FN(rounded)(x1);
#if defined(__AVX512BW__)
  uint16_t odd[32];
  for (int i = 0; i < 32; i++) odd[i] = (uint16_t)(2 * i + 1);
  _mm512_storeu_si512(y,
                      _mm512_permutex2var_epi16((__m512i)a, _mm512_loadu_si512(odd), (__m512i)b));
#elif defined(__AVX2__)
  const __m256i both = _mm256_packus_epi32((__m256i)(a >> 16), (__m256i)(b >> 16));
  _mm256_storeu_si256((__m256i *)(void *)y, _mm256_permute4x64_epi64(both, 0xD8));
#else
  *(FN(halves) *)y = __builtin_convertvector(a >> 16, FN(halves));
  *(FN(halves) *)(y + PER) = __builtin_convertvector(b >> 16, FN(halves));
#endif
}
#define LOAD_HALF(v) \
  s##v = FN(from_half)(*(const FN(halves) *)((const uint16_t *)l->p + (i & l->moves) + v * PER));
#define ROUND_HALF(v) s##v = (V)(FN(rounded)(s##v) & 0xffff0000u);
#define HALVES \
  case FL_LINK_load_half: EVERY(LOAD_HALF) break; \
  case FL_LINK_round_half: EVERY(ROUND_HALF) break;
#define PUT_PAIR(v, w) FN(put_halves)((uint16_t *)y + i + v * PER, s##v, s##w);
#define PUT_HALVES { PUT_PAIR(0, 1) PUT_PAIR(2, 3) }
#else
#define HALVES
#define PUT_HALVES { }
#endif

/* Applies all links of the chain to each block of BLOCK elements while it is in registers; n:
** elements, in whole blocks. */
#define VALUE(v) V s##v = { 0 }; MASK k##v = { 0 };
#define PUT(v) p[v] = s##v;
#define LOAD(v) s##v = p[v];
#define ADD(v) s##v = s##v + p[v];
#define SUB(v) s##v = s##v - p[v];
#define RSUB(v) s##v = p[v] - s##v;
#define MUL(v) s##v = s##v * p[v];
#define DIV(v) s##v = s##v / p[v];
#define RDIV(v) s##v = p[v] / s##v;
#define MAX(v) s##v = FN(larger)(s##v, p[v]);
#define MIN(v) s##v = FN(smaller)(s##v, p[v]);
#define RAISE(v) s##v = FN(pick)(COMPARE(s##v, le, p[v]), p[v], s##v);
#define CUT(v) s##v = FN(pick)(COMPARE(s##v, ge, p[v]), p[v], s##v);
#define GT(v) k##v = COMPARE(s##v, gt, p[v]);
#define GE(v) k##v = COMPARE(s##v, ge, p[v]);
#define LT(v) k##v = COMPARE(s##v, lt, p[v]);
#define LE(v) k##v = COMPARE(s##v, le, p[v]);
#define EQ(v) k##v = COMPARE(s##v, eq, p[v]);
#define NE(v) k##v = COMPARE(s##v, ne, p[v]);
#define PICK(v) s##v = FN(pick)(k##v, p[v], s##v);
#define KEEP(v) s##v = FN(pick)(k##v, s##v, p[v]);
#define SQUARE(v) s##v = s##v * s##v;
#define NEG(v) s##v = -s##v;
#define RELU(v) s##v = (V)((BITS)s##v & ~(BITS)(s##v <= (V){ 0 }));
#define SQRT(v) s##v = FN(roots)(s##v);
static __attribute__((noinline)) void FN(chain_blocks)(T *y, const FN(link) *link, int count,
                                                       int64_t n, int half) {
  EVERY(VALUE)
  for (int64_t i = 0; i < n; i += BLOCK) {
    V *p;
    for (const FN(link) *l = link, *end = link + count; l < end; l++) {
      p = (V *)(l->p + (i & l->moves));
      switch (l->op) {
        case FL_LINK_load: EVERY(LOAD) break;
        case FL_LINK_save: EVERY(PUT) break;
        case FL_LINK_add: EVERY(ADD) break;
        case FL_LINK_sub: EVERY(SUB) break;
        case FL_LINK_rsub: EVERY(RSUB) break;
        case FL_LINK_mul: EVERY(MUL) break;
        case FL_LINK_div: EVERY(DIV) break;
        case FL_LINK_rdiv: EVERY(RDIV) break;
        case FL_LINK_max: EVERY(MAX) break;
        case FL_LINK_min: EVERY(MIN) break;
        case FL_LINK_raise: EVERY(RAISE) break;
        case FL_LINK_cut: EVERY(CUT) break;
        case FL_LINK_gt: EVERY(GT) break;
        case FL_LINK_ge: EVERY(GE) break;
        case FL_LINK_lt: EVERY(LT) break;
        case FL_LINK_le: EVERY(LE) break;
        case FL_LINK_eq: EVERY(EQ) break;
        case FL_LINK_ne: EVERY(NE) break;
        case FL_LINK_pick: EVERY(PICK) break;
        case FL_LINK_keep: EVERY(KEEP) break;
        case FL_LINK_square: EVERY(SQUARE) break;
        case FL_LINK_neg: EVERY(NEG) break;
        case FL_LINK_relu: EVERY(RELU) break;
        case FL_LINK_sqrt: EVERY(SQRT) break;
        HALVES
        default: __builtin_unreachable();
      }
    }
    p = (V *)(y + i);
    if (half) PUT_HALVES else { EVERY(PUT) }
  }
}
#undef VALUE
#undef PUT
#undef LOAD
#undef ADD
#undef SUB
#undef RSUB
#undef MUL
#undef DIV
#undef RDIV
#undef MAX
#undef MIN
#undef RAISE
#undef CUT
#undef GT
#undef GE
#undef LT
#undef LE
#undef EQ
#undef NE
#undef PICK
#undef KEEP
#undef SQUARE
#undef NEG
#undef RELU
#undef SQRT
#undef HALVES
#undef PUT_HALVES
#undef LOAD_HALF
#undef ROUND_HALF
#undef PUT_PAIR

/* The address n elements after p; half: they are bf16. */
static inline T *FN(ahead)(T *p, int64_t n, int half) {
  return (T *)(void *)((char *)p + n * (half ? 2 : (int64_t)sizeof(T)));
}

static inline void FN(splat_block)(T *y, T x) {
  for (int v = 0; v < BLOCK_VECS; v++) *(V *)(y + v * PER) = FN(splat)(x);
}

/* The operands for the last block of a row of 'all' elements: its last BLOCK elements or, if the
** row is shorter, its n elements padded with zeros. */
static void FN(last_links)(FN(link) *last, const FN(link) *link, T (*room)[BLOCK], int count,
                           int64_t n, int64_t all) {
  const int64_t first = all < BLOCK ? 0 : all - BLOCK;
  for (int k = 0; k < count; k++) {
    const int halves = link[k].op == FL_LINK_load_half;
    last[k] = link[k];
    last[k].p = FN(ahead)(link[k].p, first & link[k].moves, halves);
    if (all >= BLOCK || !link[k].moves) continue;
    memset(room[k], 0, sizeof room[k]);
    memcpy(room[k], last[k].p, (size_t)n * (halves ? 2 : sizeof(T)));
    last[k].p = room[k];
    last[k].moves = 0;
  }
}

/* The link to use for op with the constant p: if p is neither NaN nor a zero whose sign matters,
** one comparison is enough for max (raise) or min (cut). */
static int FN(bound)(int op, T p) {
  if (op == FL_LINK_max) return p == p && (p != 0 || !signbit(p)) ? FL_LINK_raise : op;
  if (op == FL_LINK_min) return p == p && (p != 0 || signbit(p)) ? FL_LINK_cut : op;
  return op;
}

/* What is left of a row after its whole blocks is computed before them, as one more block that
** overlaps them or is padded: y may be an operand, which they overwrite. */
static void FN(chain)(void *y_, const fl_vm_link *from, int count, int64_t rows, int64_t n,
                      int half) {
  T *y = y_, out[BLOCK], room[FL_CHAIN][BLOCK] __attribute__((aligned(64)));
  FN(link) link[FL_CHAIN], last[FL_CHAIN];
  const int64_t rest = n % BLOCK, whole = n - rest;
  for (int k = 0; k < count; k++) {
    const fl_vm_link *f = &from[k];
    link[k] = (FN(link)){ f->op, f->p && f->moves ? -1 : 0,
                          f->p && f->moves ? (T *)(uintptr_t)f->p : room[f->saved] };
    if (!f->p || f->moves) continue;
    FN(splat_block)(room[k], *(const T *)f->p);
    if (!f->row) link[k].op = FN(bound)(f->op, *(const T *)f->p);
  }
  for (int64_t r = 0; r < rows; r++, y = FN(ahead)(y, n, half)) {
    if (rest) {
      FN(last_links)(last, link, room, count, rest, n);
      FN(chain_blocks)(out, last, count, BLOCK, half);
    }
    FN(chain_blocks)(y, link, count, whole, half);
    if (rest)
      memcpy(FN(ahead)(y, whole, half), FN(ahead)(out, whole ? BLOCK - rest : 0, half),
             (size_t)rest * (half ? 2 : sizeof(T)));
    for (int k = 0; k < count && r + 1 < rows; k++)
      if (link[k].moves)
        link[k].p = FN(ahead)(link[k].p, from[k].row, link[k].op == FL_LINK_load_half);
      else if (from[k].row) FN(splat_block)(room[k], ((const T *)from[k].p)[r + 1]);
  }
}
#undef BLOCK
#undef BLOCK_VECS
#undef EVERY
#undef MASK
#undef COMPARE

/* ---- sums --------------------- */

static void FN(dot_lanes)(T *out, const T *x, const T *y, int64_t n) {
  V s[LANE_VECS];
  int64_t i = 0;
  for (int v = 0; v < LANE_VECS; v++) s[v] = FN(splat)(0);
  for (; i + FL_VM_LANES <= n; i += FL_VM_LANES)
    for (int v = 0; v < LANE_VECS; v++)
      s[v] += *(const V *)(x + i + v * PER) * *(const V *)(y + i + v * PER);
  memcpy(out, s, sizeof s);
  for (int l = 0; i + l < n; l++) out[l] += x[i + l] * y[i + l];
}

/* Sums of 16 lanes of each of 16 rows: 8 + 8, 4 + 4, 2 + 2, 1 + 1. */
static __attribute__((noinline)) void FN(halve)(T *v, const T *lane) {
  T half[16 * 8], quarter[16 * 4];
  for (int r = 0; r < 16; r++)
    for (int l = 0; l < 8; l++) half[8 * r + l] = lane[16 * r + l] + lane[16 * r + 8 + l];
  for (int r = 0; r < 16; r++)
    for (int l = 0; l < 4; l++) quarter[4 * r + l] = half[8 * r + l] + half[8 * r + 4 + l];
  for (int r = 0; r < 16; r++)
    v[r] = (quarter[4 * r] + quarter[4 * r + 2]) + (quarter[4 * r + 1] + quarter[4 * r + 3]);
}

/* At most 16 rows of one block. */
static void FN(dot_blocks)(T *v, const T *x, const T *y, int64_t rows, int64_t n) {
  T lane[16 * FL_VM_LANES] = { 0 };
  if (n == FL_VM_LANES) for (int64_t i = 0; i < rows * n; i++) lane[i] += x[i] * y[i];
  else
    for (int64_t r = 0; r < rows; r++)
      FN(dot_lanes)(lane + r * FL_VM_LANES, x + r * n, y + r * n, n);
  FN(halve)(lane, lane);
  memcpy(v, lane, (size_t)rows * sizeof *v);
}

/* A row of many blocks (of products, if there is a y): sums of 16 blocks at a time, which are
** combined in pairs of equal size, as a binary counter carries. */
#define LONG_ROW(name, S, blocks) \
  static T FN(name)(const S *x, const S *y, int64_t n) { \
    T part[48] = { 0 }, some[16]; \
    int depth = 0; \
    for (int64_t i = 0, k = 0; i < n; i += FL_VM_BLOCK, k++) { \
      const int64_t left = (n - i) / FL_VM_BLOCK; \
      const S *z = y ? y + i : NULL; \
      if (k % 16 == 0) FN(blocks)(some, x + i, z, left < 16 ? left : 16, FL_VM_BLOCK); \
      if (!left) FN(blocks)(some + k % 16, x + i, z, 1, n - i); \
      T w = some[k % 16]; \
      for (int64_t t = k; t & 1; t >>= 1) w = part[--depth] + w; \
      part[depth++] = w; \
    } \
    for (; depth > 1; depth--) part[depth - 2] += part[depth - 1]; \
    return part[0]; \
  }
LONG_ROW(dot_row, T, dot_blocks)

static void FN(dot_rows)(void *val, const void *x_, const void *y_, int64_t rows, int64_t n) {
  T *v = val;
  const T *x = x_, *y = y_;
  if (n > FL_VM_BLOCK) {
    for (int64_t r = 0; r < rows; r++) v[r] = FN(dot_row)(x + r * n, y + r * n, n);
    return;
  }
  for (int64_t r = 0; r < rows; r += 16)
    FN(dot_blocks)(v + r, x + r * n, y + r * n, rows - r < 16 ? rows - r : 16, n);
}

static void FN(dot_cols)(void *val, const void *x_, const void *y_, int64_t rows, int64_t n) {
  T *v = val;
  const T *x = x_, *y = y_;
  int64_t r = 0;
  for (; r + 8 <= rows && FL_VM_EIGHT(n, T); r += 8, x += 8 * n, y += 8 * n)
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) {
      T s = v[i];
      for (int k = 0; k < 8; k++) s += x[i + k * n] * y[i + k * n];
      v[i] = s;
    }
  for (; r < rows; r++, x += n, y += n)
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) v[i] += x[i] * y[i];
}

/* Sums of bf16 read from memory or, if y is not NULL, of products of two such arrays, in the order
** of 'sum'; only for f32. Four blocks are summed side by side, so that an addition need not wait
** for the previous one. */
#if IS_F32
#define ALONE __asm__ volatile("" ::: "memory");            /* a short loop: no vectors */
#define HALF_AT(p, i) FN(from_half)(*(const FN(halves) *)((p) + (i)))
static inline T FN(half_value)(uint16_t h) {
  const uint32_t bits = (uint32_t)h << 16;
  T x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
#define HALF_LANES(name, blocks, PRODUCT, ONE) \
  static __attribute__((noinline)) void FN(half_##name)(T *out, const uint16_t *x, \
                                                        const uint16_t *y, int64_t n) { \
    V s[blocks][LANE_VECS]; \
    int64_t i = 0; \
    (void)y; \
    for (int b = 0; b < blocks; b++) for (int v = 0; v < LANE_VECS; v++) s[b][v] = FN(splat)(0); \
    for (; i + FL_VM_LANES <= n; i += FL_VM_LANES) \
      for (int b = 0; b < blocks; b++) \
        for (int v = 0; v < LANE_VECS; v++) s[b][v] += HALF_AT(x + b * n, i + v * PER) PRODUCT; \
    memcpy(out, s, sizeof s); \
    for (int b = 0; b < blocks; b++) \
      for (int64_t l = b * n + i, at = b * FL_VM_LANES; l < (b + 1) * n; l++, at++) { \
        out[at] += FN(half_value)(x[l]) ONE; \
        ALONE \
      } \
  }
HALF_LANES(sum_1, 1, , ) HALF_LANES(sum_4, 4, , )
HALF_LANES(dot_1, 1, * HALF_AT(y + b * n, i + v * PER), * FN(half_value)(y[l]))
HALF_LANES(dot_4, 4, * HALF_AT(y + b * n, i + v * PER), * FN(half_value)(y[l]))
#undef HALF_LANES

/* At most 16 rows of one block. */
static void FN(half_blocks)(T *v, const uint16_t *x, const uint16_t *y, int64_t rows, int64_t n) {
  T lane[16 * FL_VM_LANES] = { 0 };
  for (int64_t r = 0, some; r < rows; r += some) {
    T *to = lane + r * FL_VM_LANES;
    some = rows - r < 4 ? 1 : 4;
    if (y) (some == 4 ? FN(half_dot_4) : FN(half_dot_1))(to, x + r * n, y + r * n, n);
    else (some == 4 ? FN(half_sum_4) : FN(half_sum_1))(to, x + r * n, NULL, n);
  }
  FN(halve)(lane, lane);
  memcpy(v, lane, (size_t)rows * sizeof *v);
}

LONG_ROW(half_row, uint16_t, half_blocks)

static void FN(half_rows)(void *val, const void *x_, const void *y_, int64_t rows, int64_t n) {
  T *v = val;
  const uint16_t *x = x_, *y = y_;
  for (int64_t r = 0, some; r < rows; r += some, x += some * n, y += y ? some * n : 0) {
    some = n > FL_VM_BLOCK ? 1 : rows - r < 16 ? rows - r : 16;
    if (n > FL_VM_BLOCK) v[r] = FN(half_row)(x, y, n);
    else FN(half_blocks)(v + r, x, y, some, n);
  }
}

/* Up to eight rows at a time. */
static void FN(half_cols)(void *val, const void *x_, const void *y_, int64_t rows, int64_t n) {
  T *v = val;
  const uint16_t *x = x_, *y = y_;
  for (int64_t r = 0, some; r < rows; r += some, x += some * n, y += y ? some * n : 0) {
    some = rows - r < 8 ? rows - r : 8;
    int64_t i = 0;
    for (; i + PER <= n; i += PER) {
      V s = *(V *)(v + i);
      if (y) for (int64_t k = 0; k < some; k++) s += HALF_AT(x + k * n, i) * HALF_AT(y + k * n, i);
      else for (int64_t k = 0; k < some; k++) s += HALF_AT(x + k * n, i);
      *(V *)(v + i) = s;
    }
    for (; i < n; i++)
      for (int64_t k = 0; k < some; k++) {
        ALONE
        v[i] += y ? FN(half_value)(x[k * n + i]) * FN(half_value)(y[k * n + i])
                  : FN(half_value)(x[k * n + i]);
      }
  }
}
#undef HALF_AT
#undef ALONE
#endif

/* Sums (or multiplies) blocks of n elements into lanes, one block after the other: processors
** prefetch one stream per page, and begin the next block while the additions of the previous one
** wait for each other. */
#define SOME(name, init, op) \
  void FL_ISA_NAME(FN(fl_some_##name))(T *lane, const T *x, int64_t blocks, int64_t n); \
  void FL_ISA_NAME(FN(fl_some_##name))(T *lane, const T *x, int64_t blocks, int64_t n) { \
    for (int64_t b = 0; b < blocks; b++, lane += FL_VM_LANES, x += n) { \
      V s[LANE_VECS]; \
      int64_t i = 0; \
      for (int v = 0; v < LANE_VECS; v++) s[v] = FN(splat)(init); \
      for (; i + FL_VM_LANES <= n; i += FL_VM_LANES) \
        for (int v = 0; v < LANE_VECS; v++) s[v] op *(const V *)(x + i + v * PER); \
      memcpy(lane, s, sizeof s); \
      for (int l = 0; i + l < n; l++) lane[l] op x[i + l]; \
    } \
  }
SOME(sum, 0, +=) SOME(prod, 1, *=)
#undef SOME
#undef LONG_ROW
#undef V
#undef BITS
#undef INT
#undef ROOT
#undef IS_F32
#undef PER
#undef LANE_VECS
#undef FN
#undef JOIN
#undef JOIN_
#undef T
#undef SUFFIX
