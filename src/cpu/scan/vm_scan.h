/*
** The walks of the scans (call_scan.c), for one instruction set: compiled for each (base/isa.h).
** The text and so the order of operations is the same in all, and so are the bits.
**
** Sums of f32 are kept in f64, of half types in f32, of integers in i64, wrapping. A lane's
** elements are processed in order; lanes are processed side by side, so that additions need not
** wait for each other.
*/
#include "cpu/scan/scan.h"
#define TURN_SHORT
#include "cpu/vm/vm_turn.h"
#include "base/isa.h"
#include "tensor/math.h"
#include <string.h>

enum { SUM_LANES = 16 };
/* Prevents vector code, for loops that are too short for it. */
#define ALONE __asm__ volatile("" ::: "memory");

static inline void lse_add(fl_scan_lse *a, double v) {
  if (v == a->m) a->s += 1;                    /* also if both are infinite */
  else if (v < a->m) a->s += exp(v - a->m);
  else if (v > a->m) {
    a->s = a->s * exp(a->m - v) + 1;
    a->m = v;
  } else a->s = v - v;                         /* NaN, and it stays: m was not NaN */
}
static __attribute__((noinline)) double lse_value(const fl_scan_lse *a) { return a->m + log(a->s); }

#define STEP(A, O, state, where, ADD, VALUE) { \
    const int64_t i = where; \
    A *a = &state; \
    ADD \
    y[i] = (O)(VALUE); \
  }
/* T: type in memory, A: state, O: type of the result; ADD uses a (the state's address) and i
** (offset). */
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
        _Pragma("GCC ivdep") for (int64_t c = 0; c < lanes; c++) \
        STEP(A, O, acc[c], at + c, ADD, VALUE) \
      } \
      return; \
    } \
    for (; l + 4 <= lanes; l += 4, x += 4 * lane, x2 += x2 ? 4 * lane : 0, y += 4 * lane) { \
      A s0 = acc[own * l], s1 = acc[own * (l + 1)], s2 = acc[own * (l + 2)], \
      s3 = acc[own * (l + 3)]; \
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
    for (int l = 0; i + l < n; l++) { s[l] += (A)in(x[i + l]); ALONE } \
    for (int h = SUM_LANES / 2; h > 0; h /= 2) \
      for (int l = 0; l < h; l++) { s[l] += s[l + h]; ALONE } \
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

/* Positions of the extremes: of equal ones the first; the first NaN beats all. Narrow types are
** widened as they are read. In columns a step is a select; the states are made here. In a row, most
** changes of the extreme come early: the first HEAD elements of SIDE rows are transposed and
** processed as columns. After them a row is processed STRETCH elements at a time, and most
** stretches change nothing: 'stays' tells so without a branch per element. Loops have constant
** lengths, for short code. */
enum { STRETCH = 32, SIDE = 32, HEAD = 32, SPAN = 8 * STRETCH, STEP_LANES = 16 };
/* NULL: as it is */
typedef struct wide { int size; void (*make)(const void *x, int64_t n, void *v); } wide;
#define WIDEN(name, T, V, in) \
  static void widen_##name(const void *x_, int64_t n, void *v_) { \
    const T *x = x_; \
    V *v = v_; \
    int64_t i = 0; \
    for (; i + STEP_LANES <= n; i += STEP_LANES) \
      _Pragma("GCC unroll 1") for (int l = 0; l < STEP_LANES; l++) v[i + l] = (V)in(x[i + l]); \
    for (; i < n; i++) { v[i] = (V)in(x[i]); ALONE } \
  }
WIDEN(f16, uint16_t, float, fl_f16_value)
WIDEN(bf16, uint16_t, float, fl_bf16_value)
WIDEN(i16, int16_t, int32_t, PLAIN)
WIDEN(i8, int8_t, int32_t, PLAIN)
WIDEN(u8, uint8_t, int32_t, PLAIN)
WIDEN(bool, uint8_t, int32_t, TRUTH)

/* x itself, or its n elements widened into 'room' to the type that the walk uses. */
static const void *widened(const wide *t, const char *x, int64_t n, void *room) {
  if (!t->make) return x;
  t->make(x, n, room);
  return room;
}

/* Transposes the first n elements of 'rows' rows, so that x has SIDE elements per step; turn_places
** transposes the positions found in these back to rows. */
static void turn_heads(const wide *t, const char *from, int64_t lane, int64_t rows, int64_t n,
                       void *x) {
  int32_t room[SIDE * HEAD];
  if (rows < SIDE) memset(x, 0, (size_t)(SIDE * n * (t->size == 8 ? 8 : 4)));   /* all are walked */
  for (int64_t r = 0; t->make && r < rows; r++)
    t->make(from + r * lane * t->size, n, room + r * HEAD);
  if (t->size == 8) turn_8_bytes(x, SIDE, from, lane, n, rows, 1);
  else
    turn_4_bytes(x, SIDE, t->make ? (const char *)room : from, t->make ? HEAD : lane, n, rows, 1);
}
static void turn_places(int64_t *y, int64_t lane, const void *place, int64_t rows, int64_t n,
                        int size) {
  int32_t room[SIDE * HEAD];
  if (size == 8) {
    turn_8_bytes(y, lane, place, SIDE, rows, n, 0);
    return;
  }
  turn_4_bytes(room, HEAD, place, SIDE, rows, n, 0);
  for (int64_t r = 0; r < rows; r++, y += lane) {
    int64_t i = 0;
    for (; i + STEP_LANES <= n; i += STEP_LANES)
      _Pragma("GCC unroll 1") for (int l = 0; l < STEP_LANES;
                                   l++) y[i + l] = room[r * HEAD + i + l];
    for (; i < n; i++) { y[i] = room[r * HEAD + i]; ALONE }
  }
}

#define CHOOSE(c, stays) { \
    const int take = !(x[c] stays best[c]) & (best[c] == best[c]); \
    best[c] = take ? x[c] : best[c]; \
    at[c] = take ? place : at[c]; \
    y[c] = at[c]; \
  }
#define EXTREME(which, name, V, I, stays) \
  typedef V which##_vec_##name \
      __attribute__((vector_size(FL_ISA_BYTES), aligned(sizeof(V)), may_alias)); \
  typedef I which##_bits_##name \
      __attribute__((vector_size(FL_ISA_BYTES), aligned(sizeof(I)), may_alias)); \
  static void head_##which##_##name(const V *x, I *place, int64_t n) { \
    for (int64_t c = 0; c < SIDE; c += FL_ISA_BYTES / (int64_t)sizeof(V)) { \
      which##_vec_##name best = *(const which##_vec_##name *)(x + c); \
      which##_bits_##name at = { 0 }; \
      for (int64_t k = 0; k < n; k++) { \
        const which##_vec_##name v = *(const which##_vec_##name *)(x + k * SIDE + c); \
        const which##_bits_##name take = ~(which##_bits_##name)(v stays best) & \
                                         (which##_bits_##name)(best == best); \
        best = (which##_vec_##name)(((which##_bits_##name)v & take) | \
                                    ((which##_bits_##name)best & ~take)); \
        at = ((at - at + (I)k) & take) | (at & ~take); \
        *(which##_bits_##name *)(place + k * SIDE + c) = at + 1; \
      } \
    } \
  } \
  static __attribute__((noinline)) void step_##which##_##name(V *best, int64_t *at, const V *x, \
                                                              int64_t *y, \
                                                              int64_t lanes, int64_t place) { \
    int64_t c = 0; \
    for (; c + STEP_LANES <= lanes; c += STEP_LANES) \
      _Pragma("GCC ivdep") _Pragma("GCC unroll 1") for (int l = 0; l < STEP_LANES; l++) \
      CHOOSE(c + l, stays) \
    for (; c < lanes; c++) { CHOOSE(c, stays) ALONE } \
  } \
  static void columns_##which##_##name(const fl_scan_walk *w, const wide *t) { \
    V best[FL_SCAN_COLUMNS], room[FL_SCAN_COLUMNS]; \
    int64_t at[FL_SCAN_COLUMNS]; \
    const int64_t lanes = w->lanes; \
    const char *x = w->x; \
    int64_t *y = w->y; \
    memcpy(best, widened(t, x, lanes, room), sizeof *best * (size_t)lanes); \
    for (int64_t c = 0; c < lanes; c++) { y[c] = at[c] = 1; ALONE } \
    for (int64_t k = 1; k < w->n; k++) { \
      x += w->step * t->size; \
      y += w->step; \
      step_##which##_##name(best, at, widened(t, x, lanes, room), y, lanes, k + 1); \
    } \
  } \
  static __attribute__((noinline)) void stretch_##which##_##name(const V *x, int64_t *y, \
                                                                 int64_t first, int64_t n, \
                                                                 V *best, int64_t *at) { \
    int change = n < STRETCH; \
    const V before = *best; \
    const int64_t place = *at; \
    if (!change) \
      _Pragma("GCC unroll 1") for (int j = 0; j < STRETCH; j++) change |= !(x[j] stays before); \
    if (!change) _Pragma("GCC unroll 1") for (int j = 0; j < STRETCH; j++) y[j] = place; \
    else for (int64_t j = 0; j < n; j++) { \
      if (!(x[j] stays *best) && *best == *best) { *best = x[j]; *at = first + j + 1; } \
      y[j] = *at; \
    } \
  } \
  static void rows_##which##_##name(const fl_scan_walk *w, const wide *t) { \
    V room[SIDE * HEAD], next[SPAN]; \
    I place[SIDE * HEAD]; \
    for (int64_t l = 0, m; l < w->lanes; l += m) { \
      const int64_t n = w->n < HEAD ? w->n : HEAD; \
      m = w->lanes - l < SIDE ? w->lanes - l : SIDE; \
      const char *x = (const char *)w->x + l * w->lane * t->size; \
      int64_t *y = (int64_t *)w->y + l * w->lane; \
      turn_heads(t, x, w->lane, m, n, room); \
      head_##which##_##name(room, place, n); \
      turn_places(y, w->lane, place, m, n, sizeof(I)); \
      for (int64_t r = 0; w->n > n && r < m; r++, x += w->lane * t->size, y += w->lane) { \
        int64_t at = y[n - 1]; \
        V best = room[(at - 1) * SIDE + r]; \
        for (int64_t i = n; i < w->n; i += SPAN) { \
          const int64_t span = w->n - i < SPAN ? w->n - i : SPAN; \
          const V *v = widened(t, x + i * t->size, span, next); \
          for (int64_t j = 0; j < span; j += STRETCH) \
            stretch_##which##_##name(v + j, y + i + j, i + j, \
                                     span - j < STRETCH ? span - j : STRETCH, &best, &at); \
        } \
      } \
    } \
  } \
  static void which##_of_##name(const fl_scan_walk *w, const wide *t) { \
    (w->across ? columns_##which##_##name : rows_##which##_##name)(w, t); \
  }
#define PLACED(name, V, I) EXTREME(max, name, V, I, <=) EXTREME(min, name, V, I, >=)
PLACED(f64, double, int64_t) PLACED(f32, float, int32_t) PLACED(i64, int64_t, int64_t)
PLACED(i32, int32_t, int32_t)
#define OF(name, V, bytes, make) \
  static void max_##name(const fl_scan_walk *w) { max_of_##V(w, &(wide){ bytes, make }); } \
  static void min_##name(const fl_scan_walk *w) { min_of_##V(w, &(wide){ bytes, make }); }
OF(f64, f64, 8, NULL) OF(f32, f32, 4, NULL) OF(f16, f32, 2, widen_f16) OF(bf16, f32, 2, widen_bf16)
OF(i64, i64, 8, NULL) OF(i32, i32, 4, NULL) OF(i16, i32, 2, widen_i16) OF(i8, i32, 1, widen_i8)
OF(u8, i32, 1, widen_u8) OF(bool, i32, 1, widen_bool)

/* TAKE: the elements of x at the positions of the running extremes. These never decrease: if the
** position of a column is not that of this step, the column repeats its last element; and if the
** positions at both ends of a run are equal, the whole run has one element. */
#define TAKE(bytes, T, EACH_ONE) \
  static void take_##bytes(const fl_scan_walk *w) { \
    const T *x = w->x; \
    const int64_t *at = w->x2, step = w->step, lanes = w->lanes; \
    T *y = w->y; \
    if (w->across) { \
      memcpy(y, x, sizeof *x * (size_t)lanes); \
      for (int64_t k = 1; k < w->n; k++) { \
        x += step; at += step; y += step; \
        _Pragma("GCC ivdep") for (int64_t c = 0; c < lanes; c++) { \
          y[c] = at[c] == k + 1 ? x[c] : y[c - step]; \
          EACH_ONE \
        } \
      } \
      return; \
    } \
    for (int64_t l = 0; l < lanes; l++, x += w->lane, at += w->lane, y += w->lane) { \
      int64_t i = 0; \
      for (; i + STEP_LANES <= w->n; i += STEP_LANES) { \
        const int64_t first = at[i]; \
        if (first == at[i + STEP_LANES - 1]) \
          _Pragma("GCC unroll 1") for (int j = 0; j < STEP_LANES; j++) { \
            y[i + j] = x[first - 1]; \
            EACH_ONE \
          } \
        else \
          _Pragma("GCC ivdep") _Pragma("GCC unroll 1") for (int j = 0; j < STEP_LANES; j++) { \
            y[i + j] = x[at[i + j] - 1]; \
            EACH_ONE \
          } \
      } \
      for (; i < w->n; i++) { y[i] = x[at[i] - 1]; ALONE } \
    } \
  }
TAKE(1, uint8_t, ALONE) TAKE(2, uint16_t, ALONE) TAKE(4, uint32_t,) TAKE(8, uint64_t,)

const fl_scan_loops FL_ISA_NAME(fl_scan) = {
#define REAL(t, bytes) { sum_##t, product_##t, lse_##t, max_##t, min_##t, line_##t, take_##bytes }
#define WHOLE(t, bytes) { sum_##t, product_##t, NULL, max_##t, min_##t, NULL, take_##bytes }
  .walk = {
    [FLAME_F64] = REAL(f64, 8), [FLAME_F32] = REAL(f32, 4), [FLAME_F16] = REAL(f16, 2),
    [FLAME_BF16] = REAL(bf16, 2), [FLAME_I64] = WHOLE(i64, 8), [FLAME_I32] = WHOLE(i32, 4),
    [FLAME_I16] = WHOLE(i16, 2), [FLAME_I8] = WHOLE(i8, 1), [FLAME_U8] = WHOLE(u8, 1),
    [FLAME_BOOL] = WHOLE(bool, 1) },
  .block = {
    [FLAME_F64] = block_f64, [FLAME_F32] = block_f32, [FLAME_F16] = block_f16,
    [FLAME_BF16] = block_bf16, [FLAME_I64] = block_i64, [FLAME_I32] = block_i32,
    [FLAME_I16] = block_i16, [FLAME_I8] = block_i8, [FLAME_U8] = block_u8,
    [FLAME_BOOL] = block_bool },
};
