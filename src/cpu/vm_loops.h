/*
** Loops over one register type, from ops.def. Included once for each type by vm_table.h with
**   T        the C type           SUFFIX   f64 f32 i64 i32       IS_FLOAT 1 or 0
**   R        its fl_reg           POS(x)   M(f): function f of tensor/math.h
** Rules: no branch in a loop that is to be vectorised; no contraction; in-place safe ('ivdep'
** promises that arrays are equal or apart).
*/
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define FN(name) JOIN(name, SUFFIX)
#define M(f) JOIN(fl_##f, SUFFIX)
#define EACH _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)

#if IS_FLOAT
#define IF_FLOAT(...) __VA_ARGS__
#define IF_INT(...)
#else
#define IF_FLOAT(...)
#define IF_INT(...) __VA_ARGS__
#endif
#define IF_NUM(...) __VA_ARGS__
#define IF_SAME(...) __VA_ARGS__
#define IF_TEST(...) __VA_ARGS__
#define IF_WHERE(...) __VA_ARGS__
#define OUT_FLOAT T
#define OUT_NUM T
#define OUT_SAME T
#define OUT_INT T
#define OUT_TEST int32_t
#define FIRST_SAME T
#define FIRST_WHERE int32_t

#define UNARY(name, kind, value, grad, domain, doc) IF_##kind( \
  static void FN(u_##name)(void *y_, const void *a_, const void *b_, const void *c_, \
                           int64_t n, int uni) { \
    (void)b_; (void)c_; (void)uni; \
    OUT_##kind *y = y_; const T *a = a_; \
    EACH { const T x = a[i]; y[i] = (OUT_##kind)(value); } \
  })
#define BINARY(name, kind, value, g1, g2, domain, doc) IF_##kind( \
  static void FN(b_##name)(void *y_, const void *a_, const void *b_, const void *c_, \
                           int64_t n, int uni) { \
    (void)c_; (void)uni; \
    OUT_##kind *y = y_; const T *a = a_, *b = b_; \
    if (CHEAP(name) && uni == 1) { \
      const T x1 = a[0]; \
      EACH { const T x2 = b[i]; y[i] = (OUT_##kind)(value); } \
    } else if (CHEAP(name) && uni == 2) { \
      const T x2 = b[0]; \
      EACH { const T x1 = a[i]; y[i] = (OUT_##kind)(value); } \
    } else { \
      EACH { const T x1 = a[i], x2 = b[i]; y[i] = (OUT_##kind)(value); } \
    } \
  })
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) \
  static void FN(t_##name)(void *y_, const void *a_, const void *b_, const void *c_, \
                           int64_t n, int uni) { \
    T *y = y_; const FIRST_##kind *a = a_; const T *b = b_, *c = c_; \
    if (uni == 2) { \
      const T x2 = b[0]; \
      EACH { const FIRST_##kind x1 = a[i]; const T x3 = c[i]; y[i] = (value); } \
    } else if (uni == 4) { \
      const T x3 = c[0]; \
      EACH { const FIRST_##kind x1 = a[i]; const T x2 = b[i]; y[i] = (value); } \
    } else if (uni == 6) { \
      const T x2 = b[0], x3 = c[0]; \
      EACH { const FIRST_##kind x1 = a[i]; y[i] = (value); } \
    } else { \
      EACH { const FIRST_##kind x1 = a[i]; const T x2 = b[i], x3 = c[i]; y[i] = (value); } \
    } \
  }
#define REDUCE(name, kind, init, value, grad, doc)
#define SPECIAL(name, nin, fusion, doc)
#include "tensor/ops.def"

/* Ops with a form that vectorises and gives the same bits for all but rare values: stretches
** of 64 are looked at first. In the table these stand instead of what ops.def gives. */
#define NEAR_LOOP(f, near, ...) \
  static void FN(near_##f)(void *y_, const void *a_, const void *b_, const void *c_, \
                           int64_t n, int uni) { \
    (void)b_; (void)c_; (void)uni; \
    for (int64_t at = 0; at < n; at += 64) { \
      const int64_t m = n - at < 64 ? n - at : 64; \
      T *y = (T *)y_ + at; \
      const T *a = (const T *)a_ + at, *b = NEAR_SECOND(b_); \
      int far = 0; \
      (void)b; \
      for (int64_t i = 0; i < m; i++) far |= !(near); \
      if (far) for (int64_t i = 0; i < m; i++) y[i] = M(f)(__VA_ARGS__); \
      else _Pragma("GCC ivdep") for (int64_t i = 0; i < m; i++) y[i] = M(f##_near)(__VA_ARGS__); \
    } \
  }
#if IS_FLOAT
#define NEAR_SECOND(p) (const T *)(p) + at
#define NEAR_BINARY(f) NEAR_LOOP(f, M(fmod_is_near)(a[i], b[i]), a[i], b[i])
NEAR_BINARY(fmod) NEAR_BINARY(mod) NEAR_BINARY(floordiv)
#undef NEAR_SECOND
#undef NEAR_BINARY
#endif
#ifdef NEAR_CIRCULAR                     /* f32: how far |x| may be */
#define NEAR_SECOND(p) NULL
#define NEAR_UNARY(f) NEAR_LOOP(f, M(abs)(a[i]) < NEAR_CIRCULAR, a[i])
NEAR_UNARY(sin) NEAR_UNARY(cos) NEAR_UNARY(tan)
#undef NEAR_SECOND
#undef NEAR_UNARY
#undef NEAR_CIRCULAR
#endif
#undef NEAR_LOOP

#if IS_FLOAT
/* The lanes of blocks of sums (vm_pair_loops.h): four blocks go at once. */
#define SIDE(name) \
  extern void VM_NAMED(FN(fl_some_##name))(T *lane, const T *x, int64_t blocks, int64_t n); \
  static inline void FN(some_##name)(T *lane, const T *x, int64_t blocks, int64_t n) { \
    VM_NAMED(FN(fl_some_##name))(lane, x, blocks, n); \
  } \
  static inline void FN(lanes_##name)(T *lane, const T *x, int64_t n) { FN(some_##name)(lane, x, 1, n); }
SIDE(sum) SIDE(prod)
#undef SIDE
#endif

/* ---- reductions --------------------- */

static inline T FN(start_value_argmax)(void) { return M(lowest)(); }
static inline T FN(start_value_argmin)(void) { return M(highest)(); }

/* One block of at most 1024 elements: 16 lanes, then 8+8, 4+4, 2+2, 1+1. */
#define LANES_ORDERED(name, init) IF_INT( \
  static inline void FN(lanes_##name)(T *out, const T *x, int64_t n) { \
    T lane[FL_VM_LANES]; \
    int64_t i = 0; \
    for (int l = 0; l < FL_VM_LANES; l++) lane[l] = (T)(init); \
    for (; i + FL_VM_LANES <= n; i += FL_VM_LANES) \
      for (int l = 0; l < FL_VM_LANES; l++) lane[l] = FN(f_##name)(lane[l], x[i + l]); \
    for (int l = 0; i + l < n; l++) lane[l] = FN(f_##name)(lane[l], x[i + l]); \
    memcpy(out, lane, sizeof lane); \
  })
/* Where the order can not be seen and a value may count twice (largest, any, …). The step is
** a function of its own so that the loop in it is what is vectorised. */
#define LANES_ANY(name, init) \
  static __attribute__((noinline)) void FN(step_##name)(T *lane, const T *x, int64_t n) { \
    EACH lane[i] = FN(f_##name)(lane[i], x[i]); \
  } \
  QUICK_LANES(name) \
  static inline void FN(lanes_##name)(T *out, const T *x, int64_t n) { \
    T lane[256]; \
    const int64_t w = n >= 256 ? 256 : n >= 64 ? 64 : 16; \
    if (HAVE_QUICK && n >= QUICK && !FN(quick_##name)(out, x, n)) return; \
    for (int l = 0; l < FL_VM_LANES; l++) lane[l] = (T)(init); \
    if (n < w) memcpy(lane, x, (size_t)n * sizeof *x); \
    else memcpy(lane, x, (size_t)w * sizeof *x); \
    for (int64_t i = w; i < n; i += w) FN(step_##name)(lane, x + (i + w <= n ? i : n - w), w); \
    for (int64_t s = w / 2; s >= FL_VM_LANES; s /= 2) FN(step_##name)(lane, lane + s, s); \
    memcpy(out, lane, FL_VM_LANES * sizeof *lane); \
  }
/* Floats: extremes by the processor's own instruction, which knows neither NaN nor the sign of
** zero. Returns 1 where that might show: then the loop above decides. */
#if IS_FLOAT
#define HAVE_QUICK 1
#define QUICK_STEP(name, from) \
  for (int l = 0; l < QUICK; l++) { \
    const T v = (from)[l]; \
    lane[l] = v BEATS_##name lane[l] ? v : lane[l]; \
  } \
  for (int l = 0; l < QUICK / 2; l++) odd[l] |= __builtin_isunordered((from)[l], (from)[l + QUICK / 2]);
#define QUICK_LANES(name) \
  static __attribute__((noinline)) int FN(quick_##name)(T *out, const T *x, int64_t n) { \
    T lane[QUICK]; \
    int32_t odd[QUICK / 2] = { 0 }, any = 0; \
    memcpy(lane, x, sizeof lane); \
    for (int l = 0; l < QUICK / 2; l++) odd[l] = __builtin_isunordered(x[l], x[l + QUICK / 2]); \
    for (int64_t i = QUICK; i + QUICK <= n; i += QUICK) { QUICK_STEP(name, x + i) } \
    if (n % QUICK) { QUICK_STEP(name, x + n - QUICK) } \
    for (int s = QUICK / 2; s >= FL_VM_LANES; s /= 2) \
      for (int l = 0; l < s; l++) lane[l] = lane[l] BEATS_##name lane[l + s] ? lane[l] : lane[l + s]; \
    for (int l = 0; l < QUICK / 2; l++) any |= odd[l]; \
    for (int l = 0; l < FL_VM_LANES; l++) any |= lane[l] == (T)0; \
    memcpy(out, lane, FL_VM_LANES * sizeof *lane); \
    return any; \
  }
#else
#define HAVE_QUICK 0
#define QUICK_LANES(name) \
  static inline int FN(quick_##name)(T *out, const T *x, int64_t n) { \
    (void)out; (void)x; (void)n; \
    return 1; \
  }
#endif
#define SOME(name) \
  static void FN(some_##name)(T *lane, const T *x, int64_t rows, int64_t n) { \
    for (int64_t r = 0; r < rows; r++) FN(lanes_##name)(lane + r * FL_VM_LANES, x + r * n, n); \
  }
#define BLOCK(name) \
  static inline T FN(tree_##name)(T *lane) { \
    for (int s = FL_VM_LANES / 2; s > 0; s /= 2) \
      for (int l = 0; l < s; l++) lane[l] = FN(f_##name)(lane[l], lane[l + s]); \
    return lane[0]; \
  } \
  static inline T FN(block_##name)(const T *x, int64_t n) { \
    T lane[FL_VM_LANES]; \
    FN(lanes_##name)(lane, x, n); \
    return FN(tree_##name)(lane); \
  }
/* Rows of at most 16, 16 rows at once: element l of each row is lane l. A lane without an
** element holds the start value, which changes nothing once another lane has met it. Longer
** rows of one block: their lanes first. */
#define SHORT_ROWS(name, init) \
  static void FN(short_##name)(T *v, const T *x, int64_t rows, int64_t n) { \
    T lane[FL_VM_LANES][16]; \
    for (int64_t r0 = 0; r0 < rows; r0 += 16, x += 16 * n) { \
      const int m = rows - r0 < 16 ? (int)(rows - r0) : 16; \
      for (int l = 0; l < n; l++) \
        for (int r = 0; r < m; r++) lane[l][r] = FN(f_##name)((T)(init), x[r * n + l]); \
      for (int s = FL_VM_LANES / 2; s > 0; s /= 2) \
        for (int l = 0; l < s && l + s < n; l++) { \
          _Pragma("GCC ivdep") _Pragma("GCC unroll 1") \
          for (int r = 0; r < 16; r++) lane[l][r] = FN(f_##name)(lane[l][r], lane[l + s][r]); \
        } \
      for (int r = 0; r < m; r++) v[r0 + r] = lane[0][r]; \
    } \
  } \
  static void FN(blocks_##name)(T *v, const T *x, int64_t rows, int64_t n) { \
    T lane[16 * FL_VM_LANES]; \
    if (rows == 1) { \
      v[0] = FN(block_##name)(x, n); \
      return; \
    } \
    for (int64_t r0 = 0; r0 < rows; r0 += 16, v += 16) { \
      const int64_t m = rows - r0 < 16 ? rows - r0 : 16; \
      FN(some_##name)(lane, x, m, n); \
      x += m * n; \
      FN(short_##name)(v, lane, m, FL_VM_LANES); \
    } \
  }
#define REDUCE(name, kind, init, value, grad, doc) IFR_##kind( \
  static inline T FN(f_##name)(T a, T b) { return (T)(value); } \
  BLOCK_##kind(name, init) \
  static void FN(start_##name)(void *val, int64_t *pos, int64_t n) { \
    T *v = val; \
    for (int64_t i = 0; i < n; i++) v[i] = (T)(init); \
    if (POS_##kind) memset(pos, 0, (size_t)n * sizeof *pos); \
  } \
  REDUCE_##kind(name))

#define IFR_SUMS(...) __VA_ARGS__
#define IFR_SAME(...) __VA_ARGS__
#define IFR_POSITION(...) __VA_ARGS__
#define IFR_TEST(...) IF_INT(__VA_ARGS__)
#define BLOCK_SUMS(name, init) LANES_ORDERED(name, init) IF_INT(SOME(name)) BLOCK(name) SHORT_ROWS(name, init)
#define BLOCK_SAME(name, init) LANES_ANY(name, init) SOME(name) BLOCK(name) SHORT_ROWS(name, init)
#define BLOCK_TEST(name, init) LANES_ANY(name, init) SOME(name) BLOCK(name) SHORT_ROWS(name, init)
#define BLOCK_POSITION(name, init) LANES_ANY(name, init) BLOCK(name)
#define REDUCE_SUMS(name) ROWS_VALUE(name, IS_FLOAT) COLS_VALUE(name)
#define REDUCE_SAME(name) ROWS_VALUE(name, 0) COLS_VALUE(name)
#define REDUCE_TEST(name) ROWS_VALUE(name, 0) COLS_VALUE(name)
#define REDUCE_POSITION(name) ROWS_POSITION(name) COLS_POSITION(name)
#define POS_SUMS 0
#define POS_SAME 0
#define POS_TEST 0
#define POS_POSITION 1

/* Blocks combined as a binary counter: equal sizes first, the rest from the last on. fours: four
** blocks go side by side. */
#define ROWS_VALUE(name, fours) \
  static T FN(row_##name)(const T *x, int64_t n) { \
    T part[48], four[4 * FL_VM_LANES]; \
    int depth = 0; \
    for (int64_t i = 0, k = 0; i < n; i += FL_VM_BLOCK, k++) { \
      const int side = (fours) && k / 4 < n / (4 * FL_VM_BLOCK); \
      if (side && k % 4 == 0) FN(some_##name)(four, x + i, 4, FL_VM_BLOCK); \
      T v = side ? FN(tree_##name)(four + k % 4 * FL_VM_LANES) : FN(block_##name)(x + i, n - i < FL_VM_BLOCK ? n - i : FL_VM_BLOCK); \
      for (int64_t t = k; t & 1; t >>= 1) v = FN(f_##name)(part[--depth], v); \
      part[depth++] = v; \
    } \
    T v = part[--depth]; \
    while (depth > 0) v = FN(f_##name)(part[--depth], v); \
    return v; \
  } \
  static void FN(rows_##name)(void *val, int64_t *pos, const void *x_, int64_t rows, \
                              int64_t n, int64_t first) { \
    T *v = val; const T *x = x_; \
    (void)pos; (void)first; \
    if (n > 0 && n <= FL_VM_LANES) \
      FN(short_##name)(v, x, rows, n); \
    else if (n <= FL_VM_BLOCK) \
      FN(blocks_##name)(v, x, rows, n); \
    else \
      for (int64_t r = 0; r < rows; r++) v[r] = FN(row_##name)(x + r * n, n); \
  }
#define COLS_VALUE(name) \
  static void FN(cols_##name)(void *val, int64_t *pos, const void *x_, int64_t rows, \
                              int64_t n, int64_t first) { \
    T *v = val; const T *x = x_; \
    (void)pos; (void)first; \
    int64_t r = 0; \
    for (; r + 4 <= rows; r += 4, x += 4 * n) \
      EACH v[i] = FN(f_##name)(FN(f_##name)(FN(f_##name)(FN(f_##name)(v[i], x[i]), x[i + n]), \
                                            x[i + 2 * n]), x[i + 3 * n]); \
    for (; r < rows; r++, x += n) \
      EACH v[i] = FN(f_##name)(v[i], x[i]); \
  } \
  static void FN(merge_##name)(void *a_, int64_t *ap, const void *b_, const int64_t *bp, \
                               int64_t n) { \
    T *a = a_; const T *b = b_; \
    (void)ap; (void)bp; \
    EACH a[i] = FN(f_##name)(a[i], b[i]); \
  }

/* The value by the usual order (it is exact), then its first place. 'later wins' when the
** combination changes the value; a NaN never gives way. */
#define ROWS_POSITION(name) \
  static inline int FN(later_##name)(T a, T b) { \
    return (a == a) & ((b != b) | (b BEATS_##name a)); \
  } \
  static inline void FN(step_short_##name)(T *best, const T *x, int32_t *at, int32_t l) { \
    _Pragma("GCC ivdep") _Pragma("GCC unroll 1") for (int r = 0; r < 16; r++) { \
      const T a = best[r], b = x[r]; \
      const int take = FN(later_##name)(a, b); \
      best[r] = take ? b : a; \
      at[r] = take ? l : at[r]; \
    } \
  } \
  static void FN(short_##name)(T *v, int64_t *pos, const T *x, int64_t rows, int64_t n, int64_t first) { \
    T lane[FL_VM_LANES][16] = { { 0 } }, best[16]; \
    for (int64_t r0 = 0; r0 < rows; r0 += 16, x += 16 * n) { \
      const int m = rows - r0 < 16 ? (int)(rows - r0) : 16; \
      int32_t at[16] = { 0 }; \
      for (int l = 0; l < n; l++) \
        for (int r = 0; r < m; r++) lane[l][r] = x[r * n + l]; \
      memcpy(best, lane[0], sizeof best); \
      for (int l = 1; l < n; l++) FN(step_short_##name)(best, lane[l], at, l); \
      for (int r = 0; r < m; r++) v[r0 + r] = best[r]; \
      for (int r = 0; r < m; r++) pos[r0 + r] = first + at[r]; \
    } \
  } \
  static inline int64_t FN(place_##name)(const T *x, int64_t n, T w) { \
    int64_t j = 0; \
    for (; j + 64 < n; j += 64) { \
      int met = 0; \
      for (int64_t i = 0; i < 64; i++) \
        met |= (x[j + i] == w) | ((w != w) & (x[j + i] != x[j + i])); \
      if (met) break; \
    } \
    while (j < n - 1 && !((x[j] == w) | ((w != w) & (x[j] != x[j])))) j++; \
    return j; \
  } \
  static void FN(rows_##name)(void *val, int64_t *pos, const void *x_, int64_t rows, \
                              int64_t n, int64_t first) { \
    T *v = val; const T *x = x_; \
    if (n > 0 && n <= FL_VM_LANES) { \
      FN(short_##name)(v, pos, x, rows, n, first); \
      return; \
    } \
    for (int64_t r = 0; r < rows; r++, x += n) { \
      T best = (T)FN(start_value_##name)(); \
      int64_t at = 0; \
      for (int64_t i = 0; i < n; i += FL_VM_BLOCK) { \
        const int64_t m = n - i < FL_VM_BLOCK ? n - i : FL_VM_BLOCK; \
        const T w = FN(block_##name)(x + i, m); \
        if (i > 0 && !FN(later_##name)(best, w)) continue; \
        best = w; \
        at = i + FN(place_##name)(x + i, m, w); \
      } \
      v[r] = best; \
      pos[r] = first + at; \
    } \
  }
#define COLS_POSITION(name) \
  static void FN(cols_##name)(void *val, int64_t *pos, const void *x_, int64_t rows, \
                              int64_t n, int64_t first) { \
    T *v = val; const T *x = x_; \
    for (int64_t r = 0; r < rows; r++, x += n) \
      EACH { \
        const int take = FN(later_##name)(v[i], x[i]); \
        v[i] = take ? x[i] : v[i]; \
        pos[i] = take ? first + r : pos[i]; \
      } \
  } \
  static void FN(merge_##name)(void *a_, int64_t *ap, const void *b_, const int64_t *bp, \
                               int64_t n) { \
    T *a = a_; const T *b = b_; \
    EACH { \
      const int take = FN(later_##name)(a[i], b[i]); \
      a[i] = take ? b[i] : a[i]; \
      ap[i] = take ? bp[i] : ap[i]; \
    } \
  }
#define UNARY(name, kind, value, grad, domain, doc)
#define BINARY(name, kind, value, g1, g2, domain, doc)
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc)
#define SPECIAL(name, nin, fusion, doc)
#include "tensor/ops.def"

/* ---- copies within registers --------------------- */

static void FN(fill)(void *y_, const void *x_, int64_t n) {
  T *y = y_;
  const T x = *(const T *)x_;
  EACH y[i] = x;
}

static void FN(spread)(void *y_, const void *x_, int64_t rows, int64_t n) {
  T *y = y_;
  const T *x = x_;
  for (int64_t r = 0; r < rows; r++, y += n) EACH y[i] = x[r];
}

static void FN(tile)(void *y_, const void *x_, int64_t rows, int64_t n) {
  T *y = y_;
  const T *x = x_;
  for (int64_t r = 0; r < rows; r++, y += n) EACH y[i] = x[i];
}

/* ---- casts, rounded to the dtype; draws --------------------- */

#define CAST(d, OUT) \
  static void FN(cast_##d)(void *y_, const void *x_, int64_t n) { \
    OUT *y = y_; \
    const T *x = x_; \
    EACH y[i] = JOIN(M(cast), d)(x[i]); \
  }
CAST(f64, double) CAST(f32, float) CAST(f16, float) CAST(bf16, float) CAST(i64, int64_t)
CAST(i32, int32_t) CAST(i16, int32_t) CAST(i8, int32_t) CAST(u8, int32_t) CAST(bool, int32_t)
#undef CAST

/* name: draw, out: how the result is rounded, P: member of the scalars. DRAW4: consecutive indices,
** which is what fills have, are taken by four: the four share the generator's block, and the
** compiler sees it because q << 2 | j is written so. DRAW_NARROW: an i32, rounded. */
#define DRAW(name, f, out, P) \
  static void draw_##name(void *y_, const int64_t *idx, const fl_vm_random *q, int64_t n) { \
    T *y = y_; \
    const T a = (T)q->a.P, b = (T)q->b.P; \
    const uint64_t base = (uint64_t)q->base, seed = (uint64_t)q->seed; \
    EACH y[i] = fl_round_##out(f(idx[i], base, seed, a, b)); \
  }
#define DRAW_NARROW(d) \
  static void draw_randint_##d(void *y_, const int64_t *idx, const fl_vm_random *q, int64_t n) { \
    T *y = y_; \
    draw_randint_i32(y, idx, q, n); \
    EACH y[i] = fl_round_##d(y[i]); \
  }
#define DRAW4(name, f, out, P) \
  static __attribute__((noinline)) void plain_##name(T *y, const int64_t *idx, const fl_vm_random *q, int64_t n) { \
    const T a = (T)q->a.P, b = (T)q->b.P; \
    for (int64_t i = 0; i < n; i++) { \
      y[i] = fl_round_##out(f(idx[i], (uint64_t)q->base, (uint64_t)q->seed, a, b)); \
      __asm__ volatile("" ::: "memory");          /* few: 10 KB less than by vectors */ \
    } \
  } \
  static void draw_##name(void *y_, const int64_t *idx, const fl_vm_random *q_, int64_t n) { \
    T *y = y_; \
    const T a = (T)q_->a.P, b = (T)q_->b.P; \
    const uint64_t base = (uint64_t)q_->base, seed = (uint64_t)q_->seed; \
    int64_t apart = n > 0 && idx[0] < 0; \
    for (int64_t j = 0; j < n; j++) apart |= idx[j] - idx[0] - j; \
    const int64_t lead = n > 0 ? -idx[0] & 3 : 0, i = apart || lead > n ? n : lead; \
    const int64_t first = i < n ? idx[i] >> 2 : 0, blocks = (n - i) / 4, end = i + 4 * blocks; \
    T *z = y + i; \
    plain_##name(y, idx, q_, i); \
    _Pragma("GCC ivdep") for (int64_t k = 0; k < blocks; k++) { \
      const int64_t q = first + k; \
      z[4 * k] = fl_round_##out(f(q << 2, base, seed, a, b)); \
      z[4 * k + 1] = fl_round_##out(f(q << 2 | 1, base, seed, a, b)); \
      z[4 * k + 2] = fl_round_##out(f(q << 2 | 2, base, seed, a, b)); \
      z[4 * k + 3] = fl_round_##out(f(q << 2 | 3, base, seed, a, b)); \
    } \
    plain_##name(y + end, idx + end, q_, n - end); \
  }
/* fl_random_uniform_* of f32 and halves: what is in [0, 1) first, the bound's neighbour once. */
#define UNIFORM(out) \
  static void draw_uniform_##out(void *y_, const int64_t *idx, const fl_vm_random *q, int64_t n) { \
    T *y = y_; \
    const T lo = (T)q->a.d, hi = (T)q->b.d, below = fl_below_##out(hi); \
    draw_unit_f32(y, idx, q, n); \
    EACH { \
      const T v = fl_round_##out(fmaf(y[i], hi - lo, lo)); \
      y[i] = (v >= hi) & (lo < hi) ? below : v; \
    } \
  }
/* Normals of f32: fl_random_normal_f32 by four, its steps in loops of their own, 64 blocks at a
** time, so that each vectorises and a pair's radius is found once. */
#define NORMAL4(name, out) \
  static void four_##name(float *z, int64_t first, int64_t n, const fl_vm_random *q) { \
    const float mean = (float)q->a.d, std = (float)q->b.d; \
    uint32_t w[4][64]; \
    float v[4][64]; \
    for (int64_t k = 0; k < n; k++) { \
      const fl_u32x4 r = fl_philox((uint64_t)q->base + (uint64_t)(first + k), (uint64_t)q->seed); \
      for (int l = 0; l < 4; l++) w[l][k] = r.w[l]; \
    } \
    for (int l = 0; l < 4; l += 2) \
      for (int64_t k = 0; k < n; k++) { \
        const float r = fl_normal_radius_f32(w[l][k]); \
        v[l][k] = fl_round_##out(fmaf(r * fl_normal_turn_f32(w[l + 1][k], 0), std, mean)); \
        v[l + 1][k] = fl_round_##out(fmaf(r * fl_normal_turn_f32(w[l + 1][k], 1), std, mean)); \
      } \
    for (int64_t k = 0; k < n; k++) \
      for (int l = 0; l < 4; l++) z[4 * k + l] = v[l][k]; \
  } \
  static void draw_##name(void *y_, const int64_t *idx, const fl_vm_random *q, int64_t n) { \
    T *y = y_; \
    const T a = (T)q->a.d, b = (T)q->b.d; \
    const uint64_t base = (uint64_t)q->base, seed = (uint64_t)q->seed; \
    int64_t i = 0, apart = n > 0 && idx[0] < 0; \
    for (int64_t j = 0; j < n; j++) apart |= idx[j] - idx[0] - j; \
    if (apart) { \
      for (; i < n; i++) y[i] = fl_round_##out(fl_random_normal_f32(idx[i], base, seed, a, b)); \
      return; \
    } \
    for (; i < n && (idx[i] & 3); i++) \
      y[i] = fl_round_##out(fl_random_normal_f32(idx[i], base, seed, a, b)); \
    for (; n - i >= 4; ) { \
      const int64_t m = (n - i) / 4 < 64 ? (n - i) / 4 : 64; \
      four_##name(y + i, idx[i] >> 2, m, q); \
      i += 4 * m; \
    } \
    for (; i < n; i++) y[i] = fl_round_##out(fl_random_normal_f32(idx[i], base, seed, a, b)); \
  }
DRAWS
#undef DRAW
#undef DRAW4
#undef DRAW_NARROW
#undef UNIFORM
#undef NORMAL4
#undef DRAWS

#undef T
#undef SUFFIX
#undef IS_FLOAT
#undef IF_FLOAT
#undef IF_INT
#undef IF_NUM
#undef IF_SAME
#undef IF_TEST
#undef IF_WHERE
#undef IFR_SUMS
#undef IFR_SAME
#undef IFR_POSITION
#undef IFR_TEST
#undef OUT_FLOAT
#undef OUT_NUM
#undef OUT_SAME
#undef OUT_INT
#undef OUT_TEST
#undef FIRST_SAME
#undef FIRST_WHERE
#undef LANES_ORDERED
#undef LANES_ANY
#undef QUICK_LANES
#undef QUICK_STEP
#undef HAVE_QUICK
#undef BLOCK
#undef SOME
#undef SHORT_ROWS
#undef BLOCK_SUMS
#undef BLOCK_SAME
#undef BLOCK_TEST
#undef BLOCK_POSITION
#undef REDUCE_SUMS
#undef REDUCE_SAME
#undef REDUCE_TEST
#undef REDUCE_POSITION
#undef ROWS_VALUE
#undef COLS_VALUE
#undef ROWS_POSITION
#undef COLS_POSITION
#undef POS_SUMS
#undef POS_SAME
#undef POS_TEST
#undef POS_POSITION
#undef JOIN_
#undef JOIN
#undef FN
#undef M
#undef EACH
