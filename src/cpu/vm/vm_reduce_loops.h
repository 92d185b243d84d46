/*
** Reductions over one register type, from ops.def: part of vm_loops.h, with its macros. The order
** of sums is fixed by plan/kernel.h.
*/
#if IS_FLOAT
/* fl_some_sum and fl_some_prod of vm_pair_loops.h reduce each block to FL_VM_LANES partial
** results. */
#define SIDE(name) \
  extern void FL_ISA_NAME(FN(fl_some_##name))(T *lane, const T *x, int64_t blocks, int64_t n); \
  static inline void FN(some_##name)(T *lane, const T *x, int64_t blocks, int64_t n) { \
    FL_ISA_NAME(FN(fl_some_##name))(lane, x, blocks, n); \
  } \
  static inline void FN(lanes_##name)(T *lane, const T *x, int64_t n) { \
    FN(some_##name)(lane, x, 1, n); \
  }
SIDE(sum) SIDE(prod)
#undef SIDE
#endif

/* ---- reductions --------------------- */

static inline T FN(start_value_argmax)(void) { return M(lowest)(); }
static inline T FN(start_value_argmin)(void) { return M(highest)(); }

/* lane[l][r] = element l of row r, for the first w elements of m rows that are n apart. */
static __attribute__((noinline)) void FN(side_by_side)(T lane[FL_VM_LANES][16], const T *x,
                                                       int64_t n, int64_t w, int m) {
  const int64_t turned = m == 16 ? w & ~(int64_t)3 : 0;
  if (turned) (sizeof(T) == 8 ? turn_8_bytes : turn_4_bytes)(lane, 16, x, n, turned, 16, 0);
  for (int64_t l = turned; l < w; l++)
    for (int r = 0; r < m; r++) lane[l][r] = x[r * n + l];
}

/* One block of at most 1024 elements is reduced to 16 lanes, which are then combined in halves:
** 8+8, 4+4, 2+2, 1+1. */
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
/* For ops whose order has no effect and for which a value may count twice (largest, any, …). The
** step is a separate function so that its loop is vectorised. */
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
/* Floats: extremes by the processor's instruction, which handles neither NaN nor the sign of zero.
** Returns 1 if that might matter: then the loop above decides. */
#if IS_FLOAT
#define HAVE_QUICK 1
#define QUICK_STEP(name, from) \
  for (int l = 0; l < QUICK; l++) { \
    const T v = (from)[l]; \
    lane[l] = v BEATS_##name lane[l] ? v : lane[l]; \
  } \
  for (int l = 0; l < QUICK / 2; l++) \
    odd[l] |= __builtin_isunordered((from)[l], (from)[l + QUICK / 2]);
#define QUICK_LANES(name) \
  static __attribute__((noinline)) int FN(quick_##name)(T *out, const T *x, int64_t n) { \
    T lane[QUICK]; \
    int32_t odd[QUICK / 2] = { 0 }, any = 0; \
    memcpy(lane, x, sizeof lane); \
    for (int l = 0; l < QUICK / 2; l++) odd[l] = __builtin_isunordered(x[l], x[l + QUICK / 2]); \
    for (int64_t i = QUICK; i + QUICK <= n; i += QUICK) { QUICK_STEP(name, x + i) } \
    if (n % QUICK) { QUICK_STEP(name, x + n - QUICK) } \
    for (int s = QUICK / 2; s >= FL_VM_LANES; s /= 2) \
      for (int l = 0; l < s; l++) \
        lane[l] = lane[l] BEATS_##name lane[l + s] ? lane[l] : lane[l + s]; \
    for (int l = 0; l < QUICK / 2; l++) any |= odd[l]; \
    for (int l = 0; l < FL_VM_LANES; l++) any |= lane[l] == (T)0; \
    memcpy(out, lane, FL_VM_LANES * sizeof *lane); \
    return any; \
  }
#define LONG_ROW(name) \
  static inline int FN(long_##name)(T *v, const T *x, int64_t n) { \
    T lane[FL_VM_LANES]; \
    if (FN(quick_##name)(lane, x, n)) return 0; \
    *v = FN(tree_##name)(lane); \
    return 1; \
  }
/* Combines a strip of QUICK columns of eight rows with the columns' extremes v. Returns 1, and
** changes nothing, if a NaN or the sign of a zero might matter. */
#define QUICK_COLS(name) \
  static __attribute__((noinline)) int FN(quick_cols_##name)(T *v, const T *x, int64_t n) { \
    T lane[QUICK]; \
    int32_t odd[QUICK / 2] = { 0 }, any = 0; \
    memcpy(lane, v, sizeof lane); \
    for (int r = 0; r < 8; r++) { QUICK_STEP(name, x + r * n) } \
    for (int l = 0; l < QUICK / 2; l++) any |= odd[l]; \
    for (int l = 0; l < QUICK; l++) any |= lane[l] == (T)0; \
    if (!any) memcpy(v, lane, sizeof lane); \
    return any; \
  }
#else
#define HAVE_QUICK 0
#define LONG_ROW(name) \
  static inline int FN(long_##name)(T *v, const T *x, int64_t n) { \
    (void)v; \
    (void)x; \
    (void)n; \
    return 0; \
  }
#define QUICK_COLS(name) \
  static inline int FN(quick_cols_##name)(T *v, const T *x, int64_t n) { \
    (void)v; (void)x; (void)n; \
    return 1; \
  }
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
/* Rows of at most 16, 16 rows at once: element l of each row is lane l. A lane without an element
** holds the start value, which changes nothing when it is combined with another lane. Rows of
** exactly 16 are halved as they lie; the start value may come last, since it changes only -0.
** Longer rows of one block are first reduced to lanes. */
#define SHORT_ROWS(name, init) \
  static __attribute__((noinline)) void FN(halve_##name)(T *v, const T *x) { \
    T half[16 * 8], quarter[16 * 4]; \
    for (int r = 0; r < 16; r++) \
      for (int l = 0; l < 8; l++) \
        half[8 * r + l] = FN(f_##name)(x[16 * r + l], x[16 * r + 8 + l]); \
    for (int r = 0; r < 16; r++) \
      for (int l = 0; l < 4; l++) \
        quarter[4 * r + l] = FN(f_##name)(half[8 * r + l], half[8 * r + 4 + l]); \
    for (int r = 0; r < 16; r++) { \
      const T even = FN(f_##name)(quarter[4 * r], quarter[4 * r + 2]); \
      const T odd = FN(f_##name)(quarter[4 * r + 1], quarter[4 * r + 3]); \
      v[r] = FN(f_##name)((T)(init), FN(f_##name)(even, odd)); \
    } \
  } \
  static __attribute__((noinline)) void FN(short_##name)(T *v, const T *x, int64_t rows, \
                                                         int64_t n) { \
    T lane[FL_VM_LANES][16]; \
    int64_t r0 = 0; \
    if (n == FL_VM_LANES) \
      for (; r0 + 16 <= rows; r0 += 16, x += 16 * FL_VM_LANES) FN(halve_##name)(v + r0, x); \
    for (; r0 < rows; r0 += 16, x += 16 * n) { \
      const int m = rows - r0 < 16 ? (int)(rows - r0) : 16; \
      FN(side_by_side)(lane, x, n, n, m); \
      for (int l = 0; l < n; l++) \
        for (int r = 0; r < 16; r++) lane[l][r] = FN(f_##name)((T)(init), lane[l][r]); \
      for (int s = FL_VM_LANES / 2; s > 0; s /= 2) \
        for (int l = 0; l < s && l + s < n; l++) { \
          _Pragma("GCC ivdep") _Pragma("GCC unroll 1") \
          for (int r = 0; r < 16; r++) lane[l][r] = FN(f_##name)(lane[l][r], lane[l + s][r]); \
        } \
      for (int r = 0; r < m; r++) v[r0 + r] = lane[0][r]; \
    } \
  } \
  static __attribute__((noinline)) void FN(blocks_##name)(T *v, const T *x, int64_t rows, \
                                                          int64_t n) { \
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
#define BLOCK_SUMS(name, init) \
  LANES_ORDERED(name, init) IF_INT(SOME(name)) BLOCK(name) SHORT_ROWS(name, init)
#define BLOCK_SAME(name, init) \
  LANES_ANY(name, init) SOME(name) BLOCK(name) LONG_ROW(name) SHORT_ROWS(name, init)
#define BLOCK_TEST(name, init) LANES_ANY(name, init) SOME(name) BLOCK(name) SHORT_ROWS(name, init)
#define BLOCK_POSITION(name, init) LANES_ANY(name, init) BLOCK(name)
#define REDUCE_SUMS(name) ROWS_VALUE(name, 0) EIGHT_PLAIN(name) COLS_VALUE(name)
#define REDUCE_SAME(name) \
  ROWS_VALUE(name, FN(long_##name)(v + r, x + r * n, n)) EIGHT_QUICK(name) COLS_VALUE(name)
#define REDUCE_TEST(name) ROWS_VALUE(name, 0) EIGHT_PLAIN(name) COLS_VALUE(name)
#define REDUCE_POSITION(name) ROWS_POSITION(name) COLS_POSITION(name)
#define POS_SUMS 0
#define POS_SAME 0
#define POS_TEST 0
#define POS_POSITION 1

/* Reduces 16 blocks at a time and combines the results as a binary counter carries: two sums over
** equally many blocks become one, and at the end the remaining ones are combined, the last first.
** 'whole': an expression that reduces row r in one go where its value does not depend on the order,
** and is 1 if it did; 0 for other ops. */
#define ROWS_VALUE(name, whole) \
  static T FN(row_##name)(const T *x, int64_t n) { \
    T part[48], some[16]; \
    int depth = 0; \
    for (int64_t i = 0, k = 0; i < n; i += FL_VM_BLOCK, k++) { \
      const int64_t left = (n - i) / FL_VM_BLOCK; \
      if (k % 16 == 0) FN(blocks_##name)(some, x + i, left < 16 ? left : 16, FL_VM_BLOCK); \
      T v = left ? some[k % 16] : FN(block_##name)(x + i, n - i); \
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
      for (int64_t r = 0; r < rows; r++) \
        if (!(whole)) v[r] = FN(row_##name)(x + r * n, n); \
  }
#define EIGHT_COLS(name) \
  static __attribute__((noinline)) void FN(eight_##name)(T *v, const T *x, int64_t n, \
                                                         int64_t cols) { \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < cols; i++) { \
      T s = v[i]; \
      for (int r = 0; r < 8; r++) s = FN(f_##name)(s, x[i + r * n]); \
      v[i] = s; \
    } \
  }
#define EIGHT_PLAIN(name) EIGHT_COLS(name) \
  static inline void FN(some_rows_##name)(T *v, const T *x, int64_t n) { \
    FN(eight_##name)(v, x, n, n); \
  }
#define EIGHT_QUICK(name) EIGHT_COLS(name) QUICK_COLS(name) \
  static void FN(some_rows_##name)(T *v, const T *x, int64_t n) { \
    int64_t i = 0; \
    for (; HAVE_QUICK && i + QUICK <= n; i += QUICK) \
      if (FN(quick_cols_##name)(v + i, x + i, n)) FN(eight_##name)(v + i, x + i, n, QUICK); \
    FN(eight_##name)(v + i, x + i, n, n - i); \
  }
#define COLS_VALUE(name) \
  static void FN(cols_##name)(void *val, int64_t *pos, const void *x_, int64_t rows, \
                              int64_t n, int64_t first) { \
    T *v = val; const T *x = x_; \
    (void)pos; (void)first; \
    const int64_t some = FL_VM_EIGHT(n, T) ? rows & ~(int64_t)7 : 0; \
    for (int64_t r = 0; r < some; r += 8, x += 8 * n) FN(some_rows_##name)(v, x, n); \
    for (int64_t r = some; r < rows; r++, x += n) \
      EACH v[i] = FN(f_##name)(v[i], x[i]); \
  } \
  static void FN(merge_##name)(void *a_, int64_t *ap, const void *b_, const int64_t *bp, \
                               int64_t n) { \
    T *a = a_; const T *b = b_; \
    (void)ap; (void)bp; \
    EACH a[i] = FN(f_##name)(a[i], b[i]); \
  }

/* Short rows: 16 of them side by side. Others: the value is reduced in the usual order (it is
** exact), then its first position is searched. A later value wins if the combination changes the
** value; a NaN is never replaced. */
#define ROWS_POSITION(name) \
  static inline int FN(later_##name)(T a, T b) { \
    return (a == a) & ((b != b) | (b BEATS_##name a)); \
  } \
  static inline void FN(step_short_##name)(T *best, const T *x, int32_t *at, int32_t l) { \
    _Pragma("GCC ivdep") _Pragma("GCC unroll 1") for (int r = 0; r < 16; r++) { \
      const T a = best[r], b = x[r]; \
      at[r] = FN(later_##name)(a, b) ? l : at[r]; \
      best[r] = FN(f_##name)(a, b); \
    } \
  } \
  static void FN(short_##name)(T *v, int64_t *pos, const T *x, int64_t rows, int64_t n, \
                               int64_t first) { \
    T lane[FL_VM_LANES][16] = { { 0 } }, best[16]; \
    for (int64_t r0 = 0; r0 < rows; r0 += 16, x += 16 * n) { \
      const int m = rows - r0 < 16 ? (int)(rows - r0) : 16; \
      int32_t at[16] = { 0 }; \
      for (int64_t l0 = 0; l0 < n; l0 += FL_VM_LANES) { \
        const int w = n - l0 < FL_VM_LANES ? (int)(n - l0) : FL_VM_LANES; \
        FN(side_by_side)(lane, x + l0, n, w, m); \
        if (l0 == 0) memcpy(best, lane[0], sizeof best); \
        for (int l = l0 == 0; l < w; l++) \
          FN(step_short_##name)(best, lane[l], at, (int32_t)l0 + l); \
      } \
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
    if (n > 0 && n <= SIDE_BY_SIDE) { \
      FN(short_##name)(v, pos, x, rows, n, first); \
      return; \
    } \
    for (int64_t r = 0; r < rows; r++, x += n) { \
      T best = (T)FN(start_value_##name)(); \
      int64_t at = 0; \
      for (int64_t i = 0; i < n; i += FL_VM_BLOCK) { \
        const int64_t m = n - i < FL_VM_BLOCK ? n - i : FL_VM_BLOCK; \
        const T w = FN(block_##name)(x + i, m); \
        if (i == 0 || FN(later_##name)(best, w)) at = i + FN(place_##name)(x + i, m, w); \
        best = FN(f_##name)(best, w); \
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
#define SPECIAL(...)
#include "tensor/ops.def"

#undef LANES_ORDERED
#undef LANES_ANY
#undef QUICK_LANES
#undef LONG_ROW
#undef QUICK_COLS
#undef EIGHT_COLS
#undef EIGHT_PLAIN
#undef EIGHT_QUICK
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
#undef IFR_SUMS
#undef IFR_SAME
#undef IFR_POSITION
#undef IFR_TEST
