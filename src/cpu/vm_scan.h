/*
** The walks of the scans (call_scan.c), for one instruction set: included by vm_scan_base.c,
** vm_scan_avx2.c and vm_scan_avx512.c with SCAN_TABLE. The same text with the same order of
** operations: the same bits.
**
** Sums of f32 are kept in f64, of half types in f32, of integers in i64, wrapping. A lane's
** elements are taken in order; lanes go side by side, so that one need not wait for its last.
*/
#include "cpu/scan.h"
#include "tensor/math.h"
#include <string.h>

enum { SUM_LANES = 16 };

static inline void lse_add(fl_scan_lse *a, double v) {
  if (v == a->m) a->s += 1;                    /* infinities too */
  else if (v < a->m) a->s += exp(v - a->m);
  else if (v > a->m) {
    a->s = a->s * exp(a->m - v) + 1;
    a->m = v;
  } else a->s = v - v;                         /* NaN, and stays: m was not NaN */
}
static inline double lse_value(const fl_scan_lse *a) { return a->m + log(a->s); }

#define STEP(A, O, state, where, ADD, VALUE) { \
    const int64_t i = where; \
    A *a = &state; \
    ADD \
    y[i] = (O)(VALUE); \
  }
/* T: what lies in memory, A: state, O: result's; ADD uses a (the state's address) and i (offset). */
#define WALK(name, T, A, O, ADD, VALUE) \
  static void name(const fl_scan_walk *w) { \
    const T *x = w->x, *x2 = w->x2; \
    O *y = w->y; \
    A *acc = w->acc; \
    const int64_t lanes = w->lanes, lane = w->lane, end = w->n * w->step, own = !w->same; \
    int64_t l = 0; \
    (void)x2; \
    if (w->across) { \
      for (int64_t at = 0; at != end; at += w->step) { \
        _Pragma("GCC ivdep") for (int64_t c = 0; c < lanes; c++) STEP(A, O, acc[c], at + c, ADD, VALUE) \
      } \
      return; \
    } \
    for (; l + 4 <= lanes; l += 4, x += 4 * lane, x2 += x2 ? 4 * lane : 0, y += 4 * lane) { \
      A s0 = acc[own * l], s1 = acc[own * (l + 1)], s2 = acc[own * (l + 2)], s3 = acc[own * (l + 3)]; \
      for (int64_t at = 0; at != end; at += w->step) { \
        STEP(A, O, s0, at, ADD, VALUE) \
        STEP(A, O, s1, at + lane, ADD, VALUE) \
        STEP(A, O, s2, at + 2 * lane, ADD, VALUE) \
        STEP(A, O, s3, at + 3 * lane, ADD, VALUE) \
      } \
    } \
    for (; l + 2 <= lanes; l += 2, x += 2 * lane, x2 += x2 ? 2 * lane : 0, y += 2 * lane) { \
      A s0 = acc[own * l], s1 = acc[own * (l + 1)]; \
      for (int64_t at = 0; at != end; at += w->step) { \
        STEP(A, O, s0, at, ADD, VALUE) \
        STEP(A, O, s1, at + lane, ADD, VALUE) \
      } \
    } \
    if (l < lanes) { \
      A s0 = acc[own * l]; \
      for (int64_t at = 0; at != end; at += w->step) STEP(A, O, s0, at, ADD, VALUE) \
    } \
  }
/* The sum of a block, element i in lane i % 16; lanes combined 8 + 8, 4 + 4, 2 + 2, 1 + 1. */
#define BLOCK(name, T, A, in) \
  static void block_##name(const void *x_, int64_t n, void *out) { \
    const T *x = x_; \
    A s[SUM_LANES] = { 0 }; \
    int64_t i = 0; \
    for (; i + SUM_LANES <= n; i += SUM_LANES) \
      for (int l = 0; l < SUM_LANES; l++) s[l] += (A)in(x[i + l]); \
    for (int l = 0; i + l < n; l++) s[l] += (A)in(x[i + l]); \
    for (int h = SUM_LANES / 2; h > 0; h /= 2) \
      for (int l = 0; l < h; l++) s[l] += s[l + h]; \
    memcpy(out, s, sizeof *s); \
  }
#define PLAIN(v) (v)
#define SUMS(name, T, A, O, in, out) \
  BLOCK(name, T, A, in) \
  WALK(sum_##name, T, A, O, *a += (A)in(x[i]);, out(*a)) \
  WALK(product_##name, T, A, O, *a *= (A)in(x[i]);, out(*a))
#define REALS(name, T, A, in, out) \
  SUMS(name, T, A, T, in, out) \
  WALK(lse_##name, T, fl_scan_lse, T, lse_add(a, (double)in(x[i]));, out((A)lse_value(a))) \
  WALK(line_##name, T, A, T, *a = (A)in(x[i]) * *a + (A)in(x2[i]);, out(*a))
REALS(f64, double, double, PLAIN, PLAIN)
REALS(f32, float, double, PLAIN, PLAIN)
REALS(f16, uint16_t, float, fl_f16_value, fl_f16_bits)
REALS(bf16, uint16_t, float, fl_bf16_value, fl_bf16_bits)
#define TRUTH(v) ((v) != 0)
SUMS(i64, int64_t, uint64_t, int64_t, PLAIN, (int64_t))
SUMS(i32, int32_t, uint64_t, int64_t, PLAIN, (int64_t))
SUMS(i16, int16_t, uint64_t, int64_t, PLAIN, (int64_t))
SUMS(i8, int8_t, uint64_t, int64_t, PLAIN, (int64_t))
SUMS(u8, uint8_t, uint64_t, int64_t, PLAIN, (int64_t))
SUMS(bool, uint8_t, uint64_t, int64_t, TRUTH, (int64_t))

/* Places of the extremes: the first of them; the first NaN beats all. A row goes by STRETCH
** elements, of which most change nothing: 'stays' says so without a branch an element. In columns
** a step is a select; the states are made here. */
enum { STRETCH = 32 };
#define EXTREME(which, name, T, V, in, stays) \
  static void row_##which##_##name(const T *x, int64_t *y, int64_t size) { \
    int64_t at = 1, i = 1; \
    V best = (V)in(x[0]); \
    y[0] = 1; \
    while (i < size) { \
      const int64_t n = size - i < STRETCH ? size - i : STRETCH; \
      int change = n < STRETCH; \
      if (!change) for (int j = 0; j < STRETCH; j++) change |= !((V)in(x[i + j]) stays best); \
      if (!change) { \
        for (int j = 0; j < STRETCH; j++) y[i + j] = at; \
        i += STRETCH; \
      } else for (const int64_t stop = i + n; i < stop; i++) { \
        const V v = (V)in(x[i]); \
        if (!(v stays best) && best == best) { best = v; at = i + 1; } \
        y[i] = at; \
      } \
    } \
  } \
  static void which##_##name(const fl_scan_walk *w) { \
    const T *x = w->x; \
    int64_t *y = w->y; \
    V best[FL_SCAN_COLUMNS]; \
    int64_t at[FL_SCAN_COLUMNS]; \
    if (!w->across) { \
      for (int64_t l = 0; l < w->lanes; l++) row_##which##_##name(x + l * w->lane, y + l * w->lane, w->n); \
      return; \
    } \
    for (int64_t c = 0; c < w->lanes; c++) { \
      best[c] = (V)in(x[c]); \
      at[c] = 1; \
      y[c] = 1; \
    } \
    for (int64_t k = 1; k < w->n; k++) { \
      x += w->step; \
      y += w->step; \
      _Pragma("GCC ivdep") for (int64_t c = 0; c < w->lanes; c++) { \
        const V v = (V)in(x[c]); \
        const int take = !(v stays best[c]) & (best[c] == best[c]); \
        best[c] = take ? v : best[c]; \
        at[c] = take ? k + 1 : at[c]; \
        y[c] = at[c]; \
      } \
    } \
  }
#define PLACED(name, T, V, in) \
  EXTREME(max, name, T, V, in, <=) \
  EXTREME(min, name, T, V, in, >=)
PLACED(f64, double, double, PLAIN)
PLACED(f32, float, float, PLAIN)
PLACED(f16, uint16_t, float, fl_f16_value)
PLACED(bf16, uint16_t, float, fl_bf16_value)
PLACED(i64, int64_t, int64_t, PLAIN)
PLACED(i32, int32_t, int32_t, PLAIN)
PLACED(i16, int16_t, int32_t, PLAIN)
PLACED(i8, int8_t, int32_t, PLAIN)
PLACED(u8, uint8_t, int32_t, PLAIN)
PLACED(bool, uint8_t, int32_t, TRUTH)

const fl_scan_loops SCAN_TABLE = {
#define REAL(t) { sum_##t, product_##t, lse_##t, max_##t, min_##t, line_##t }
#define WHOLE(t) { sum_##t, product_##t, NULL, max_##t, min_##t, NULL }
  .walk = {
    [FLAME_F64] = REAL(f64), [FLAME_F32] = REAL(f32), [FLAME_F16] = REAL(f16),
    [FLAME_BF16] = REAL(bf16), [FLAME_I64] = WHOLE(i64), [FLAME_I32] = WHOLE(i32),
    [FLAME_I16] = WHOLE(i16), [FLAME_I8] = WHOLE(i8), [FLAME_U8] = WHOLE(u8),
    [FLAME_BOOL] = WHOLE(bool) },
  .block = {
    [FLAME_F64] = block_f64, [FLAME_F32] = block_f32, [FLAME_F16] = block_f16,
    [FLAME_BF16] = block_bf16, [FLAME_I64] = block_i64, [FLAME_I32] = block_i32,
    [FLAME_I16] = block_i16, [FLAME_I8] = block_i8, [FLAME_U8] = block_u8,
    [FLAME_BOOL] = block_bool },
};
