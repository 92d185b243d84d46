/*
** The loops over lanes: one table per instruction set, compiled for base and
** AVX2 (base/isa.h). Both are compiled from the same text with the same order of operations, so
** results are bit-identical. Rules: no branch in a loop that is to be vectorised; nothing is
** contracted; loops work in place ('ivdep' promises that arrays are equal or do not overlap, except
** in gather and scatter, which have no pragma).
*/
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#pragma clang diagnostic ignored "-Winitializer-overrides"
#elif defined(__GNUC__)
#if defined(__AVX2__) || !defined(__x86_64__)        /* the base table of x86-64 is not
                                                     ** vectorised */
#pragma GCC optimize("O3")
#endif
#pragma GCC diagnostic ignored "-Wtype-limits"      /* the absolute value of an unsigned one */
#pragma GCC diagnostic ignored "-Woverride-init"    /* sin and cos, below */
#endif
#include "kernel/lanes/lane_code.h"
#include "base/isa.h"
#include "tensor/math.h"

#if defined(__clang__)
#define EACH _Pragma("clang loop vectorize(assume_safety)") for (int64_t i = 0; i < n; i++)
#else
#define EACH _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)
#endif
#define ARGS void *y_, const void *a_, const void *b_, const void *c_, int64_t n, int uni
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

/* Functions that builtins.def expects in the file that includes it. */
static inline float ops_round_f32(float x) { return roundf(x); }
static inline double ops_round_f64(double x) { return round(x); }
#define ops_fma_f32 fmaf
#define ops_fma_f64 fma
#define ops_nextafter_f32 nextafterf
#define ops_nextafter_f64 nextafter
#undef FL_FN
#define FL_FN static __attribute__((noinline))        /* long and rarely called: one copy of each */
#include "kernel/lanes/polygamma.h"
#undef FL_FN
#define FL_FN static inline

/* exp(x x) erfc(x): for x >= 5 a continued fraction, which does not overflow. */
static inline double ops_erfcx(double x) {
  if (x < 5.0) return exp(x * x) * erfc(x);
  double r = x;
  for (int k = 40; k > 0; k--) r = x + 0.5 * k / r;
  return 0.56418958354775628695 / r;
}

/* ---- operators ----------------------------------------------------------------------- */

/* Computes v from operands x and y. There is a separate loop for x uniform, and for y uniform; if
** both are, n is 1. */
#define BINARY(name, T, R, v) \
  static void name(ARGS) { \
    (void)c_; \
    R *out = y_; const T *a = a_, *b = b_; \
    if (uni == 1) { \
      const T x = a[0]; \
      EACH { const T y = b[i]; out[i] = (R)(v); } \
    } else if (uni == 2) { \
      const T y = b[0]; \
      EACH { const T x = a[i]; out[i] = (R)(v); } \
    } else { \
      EACH { const T x = a[i], y = b[i]; out[i] = (R)(v); } \
    } \
  }
/* For functions of mathematics: uni is ignored. Either all operands are uniform, and n is 1, or
** none is: a uniform one was copied to all lanes before. */
#define BOTH(name, T, R, v) \
  static void name(ARGS) { \
    (void)c_; (void)uni; \
    R *out = y_; const T *a = a_, *b = b_; \
    EACH { const T x = a[i], y = b[i]; out[i] = (R)(v); } \
  }
#define UNARY(name, T, R, v) \
  static void name(ARGS) { \
    (void)b_; (void)c_; (void)uni; \
    R *out = y_; const T *a = a_; \
    EACH { const T x = a[i]; out[i] = (R)(v); } \
  }
#define COMPARE(T, s) \
  BINARY(lt_##s, T, int32_t, x < y) BINARY(le_##s, T, int32_t, x <= y) \
  BINARY(gt_##s, T, int32_t, x > y) BINARY(ge_##s, T, int32_t, x >= y) \
  BINARY(eq_##s, T, int32_t, x == y) BINARY(ne_##s, T, int32_t, x != y)
#define FLOATS(T, s) \
  COMPARE(T, s) BINARY(add_##s, T, T, x + y) BINARY(sub_##s, T, T, x - y) \
  BINARY(mul_##s, T, T, x * y) BINARY(div_##s, T, T, x / y) UNARY(neg_##s, T, T, -x)
/* U: the unsigned type of the same width. Divisors 0 and (signed) -1 are handled separately; x / 0
** and x % 0 give what the GPU's code gives. */
#define INTEGERS(T, U, s, BITS, QUOTIENT, REMAINDER, TOP) \
  COMPARE(T, s) BINARY(add_##s, T, T, (U)x + (U)y) BINARY(sub_##s, T, T, (U)x - (U)y) \
  BINARY(mul_##s, T, T, (U)x * (U)y) UNARY(neg_##s, T, T, (U)0 - (U)x) \
  UNARY(invert_##s, T, T, ~x) BINARY(and_##s, T, T, x & y) BINARY(or_##s, T, T, x | y) \
  BINARY(xor_##s, T, T, x ^ y) BINARY(div_##s, T, T, QUOTIENT) BINARY(rem_##s, T, T, REMAINDER) \
  BINARY(shl_##s, T, T, (U)y < BITS ? (U)x << ((U)y & (BITS - 1)) : (U)0) \
  BINARY(shr_##s, T, T, (U)y < BITS ? x >> ((U)y & (BITS - 1)) : (TOP))
#define SIGNED_Q(T, U) \
  y == 0 ? (T)-1 : y == -1 ? (T)((U)0 - (U)x) : x / (((y == 0) | (y == -1)) ? (T)1 : y)
#define SIGNED_R(T, U) y == 0 ? x : x % (((y == 0) | (y == -1)) ? (T)1 : y)
#define UNSIGNED_Q(T) y == 0 ? ~(T)0 : x / (y == 0 ? (T)1 : y)
#define UNSIGNED_R(T) y == 0 ? x : x % (y == 0 ? (T)1 : y)

FLOATS(float, f32)
FLOATS(double, f64)
INTEGERS(int32_t, uint32_t, i32, 32, SIGNED_Q(int32_t, uint32_t), SIGNED_R(int32_t, uint32_t),
         x < 0 ? -1 : 0)
INTEGERS(uint32_t, uint32_t, u32, 32, UNSIGNED_Q(uint32_t), UNSIGNED_R(uint32_t), 0)
INTEGERS(int64_t, uint64_t, i64, 64, SIGNED_Q(int64_t, uint64_t), SIGNED_R(int64_t, uint64_t),
         x < 0 ? -1 : 0)
INTEGERS(uint64_t, uint64_t, u64, 64, UNSIGNED_Q(uint64_t), UNSIGNED_R(uint64_t), 0)
UNARY(not_bool, int32_t, int32_t, x ^ 1)

#define SELECT(name, T) \
  static void name(ARGS) { \
    T *out = y_; const int32_t *a = a_; const T *b = b_, *c = c_; \
    if (uni == 2) { \
      const T x = b[0]; \
      EACH out[i] = a[i] ? x : c[i]; \
    } else if (uni == 4) { \
      const T y = c[0]; \
      EACH out[i] = a[i] ? b[i] : y; \
    } else if (uni == 6) { \
      const T x = b[0], y = c[0]; \
      EACH out[i] = a[i] ? x : y; \
    } else if (uni & 1) { \
      const T *from = a[0] ? b : c; \
      const int step = a[0] ? !(uni & 2) : !(uni & 4); \
      EACH out[i] = from[step ? i : 0]; \
    } else { \
      EACH out[i] = a[i] ? b[i] : c[i]; \
    } \
  }
#define MOVES(w, T, M) \
  SELECT(select_##w, T) UNARY(copy_##w, T, T, x) \
  static void splat_##w(ARGS) { \
    (void)b_; (void)c_; (void)uni; \
    T *out = y_; \
    const T x = *(const T *)a_; \
    EACH out[i] = x; \
  } \
  static void blend_##w(ARGS) { \
    (void)b_; (void)uni; \
    T *out = y_; const T *a = a_; const int32_t *c = c_; \
    EACH { const T m = (T)(M)c[i]; out[i] = (a[i] & m) | (out[i] & ~m); } \
  }
MOVES(4, uint32_t, int32_t)
MOVES(8, uint64_t, int64_t)

/* ---- casts --------------------------------------------------------------------------- */

/* Truncates a float between LOW and TOP (one above the highest); values beyond saturate, NaN gives
** 0. */
#define TO_INT(x, F, V, LOW, TOP, FIRST, LAST) \
  ((x) >= (F)(TOP) ? (V)(LAST) : (x) > (F)(LOW) ? (V)(x) : (x) != (x) ? (V)0 : (V)(FIRST))
#define FLOAT_CASTS(F, f) \
  UNARY(cast_##f##_bool, F, int32_t, x != (F)0) \
  UNARY(cast_##f##_i8, F, int32_t, TO_INT(x, F, int32_t, -128, 128, -128, 127)) \
  UNARY(cast_##f##_u8, F, int32_t, TO_INT(x, F, int32_t, 0, 256, 0, 255)) \
  UNARY(cast_##f##_i16, F, int32_t, TO_INT(x, F, int32_t, -32768, 32768, -32768, 32767)) \
  UNARY(cast_##f##_u16, F, int32_t, TO_INT(x, F, int32_t, 0, 65536, 0, 65535)) \
  UNARY(cast_##f##_i32, F, int32_t, fl_cast_##f##_i32(x)) \
  UNARY(cast_##f##_u32, F, uint32_t, TO_INT(x, F, uint32_t, 0, 0x1p32, 0, UINT32_MAX)) \
  UNARY(cast_##f##_i64, F, int64_t, fl_cast_##f##_i64(x)) \
  UNARY(cast_##f##_u64, F, uint64_t, TO_INT(x, F, uint64_t, 0, 0x1p64, 0, UINT64_MAX)) \
  UNARY(cast_##f##_f16, F, float, fl_cast_##f##_f16(x)) \
  UNARY(cast_##f##_bf16, F, float, fl_cast_##f##_bf16(x)) \
  UNARY(cast_##f##_f32, F, float, (float)x) \
  UNARY(cast_##f##_f64, F, double, (double)x)
#define INT_CASTS(I, s) \
  UNARY(cast_##s##_bool, I, int32_t, x != 0) \
  UNARY(cast_##s##_i8, I, int32_t, (int8_t)x) \
  UNARY(cast_##s##_u8, I, int32_t, (uint8_t)x) \
  UNARY(cast_##s##_i16, I, int32_t, (int16_t)x) \
  UNARY(cast_##s##_u16, I, int32_t, (uint16_t)x) \
  UNARY(cast_##s##_i32, I, int32_t, (int32_t)x) \
  UNARY(cast_##s##_u32, I, uint32_t, (uint32_t)x) \
  UNARY(cast_##s##_i64, I, int64_t, (int64_t)x) \
  UNARY(cast_##s##_u64, I, uint64_t, (uint64_t)x) \
  UNARY(cast_##s##_f16, I, float, fl_round_f16((float)x)) \
  UNARY(cast_##s##_bf16, I, float, fl_round_bf16((float)x)) \
  UNARY(cast_##s##_f32, I, float, (float)x) \
  UNARY(cast_##s##_f64, I, double, (double)x)
FLOAT_CASTS(float, f32)
FLOAT_CASTS(double, f64)
INT_CASTS(int32_t, i32)
INT_CASTS(uint32_t, u32)
INT_CASTS(int64_t, i64)
INT_CASTS(uint64_t, u64)
UNARY(round_to_f16, float, float, fl_round_f16(x))
UNARY(round_to_bf16, float, float, fl_round_bf16(x))

/* ---- functions ----------------------------------------------------------------------- */

#define fl_fma_f32 ops_fma_f32
#define fl_fma_f64 ops_fma_f64
#define fl_round_f32 ops_round_f32
#define fl_round_f64 ops_round_f64
#define fl_nextafter_f32 ops_nextafter_f32
#define fl_nextafter_f64 ops_nextafter_f64
#define M(f) JOIN(fl_##f, S)

#define T float
#define S f32
#include "kernel/lanes/lane_calls.h"
#undef T
#undef S
#define T double
#define S f64
#include "kernel/lanes/lane_calls.h"
#undef T
#undef S

/* Is each f32 of the block below 2^49 in magnitude? Then sin and cos have a faster way with the
** same bits. */
static int all_near(const float *a, int64_t n) {
  int32_t far = 0;
  EACH far |= !(fl_abs_f32(a[i]) < 0x1p49f);
  return !far;
}
UNARY(near_sin, float, float, fl_sin_near_f32(x))
UNARY(near_cos, float, float, fl_cos_near_f32(x))
static void block_sin(ARGS) {
  (all_near(a_, n) ? near_sin : call_SIN_f32)(y_, a_, b_, c_, n, uni);
}
static void block_cos(ARGS) {
  (all_near(a_, n) ? near_cos : call_COS_f32)(y_, a_, b_, c_, n, uni);
}

#define INT1(id, name, value) UNARY(JOIN(call_##id, S), I, I, value)
#define INT2(id, name, value) BOTH(JOIN(call_##id, S), I, I, value)
#define I int32_t
#define U uint32_t
#define S i32
#include "kernel/tree/builtins.def"
#undef I
#undef S
#define INT1(id, name, value) UNARY(JOIN(call_##id, S), I, I, value)
#define INT2(id, name, value) BOTH(JOIN(call_##id, S), I, I, value)
#define I uint32_t
#define S u32
#include "kernel/tree/builtins.def"
#undef I
#undef U
#undef S
#define INT1(id, name, value) UNARY(JOIN(call_##id, S), I, I, value)
#define INT2(id, name, value) BOTH(JOIN(call_##id, S), I, I, value)
#define I int64_t
#define U uint64_t
#define S i64
#include "kernel/tree/builtins.def"
#undef I
#undef S
#define INT1(id, name, value) UNARY(JOIN(call_##id, S), I, I, value)
#define INT2(id, name, value) BOTH(JOIN(call_##id, S), I, I, value)
#define I uint64_t
#define S u64
#include "kernel/tree/builtins.def"
#undef I
#undef U
#undef S

#define C_I32 int32_t
#define C_U32 uint32_t
#define C_I64 int64_t
#define C_U64 uint64_t
#define C_F32 float
#define C_F64 double
#define BITS1(id, name, R, A, value) UNARY(bits_##id, C_##A, C_##R, value)
#define BITS2(id, name, R, A, value) __extension__ BOTH(bits_##id, C_##A, C_##R, value)
#include "kernel/tree/builtins.def"

/* ---- memory -------------------------------------------------------------------------- */

/* E: type of an element in memory, T: type of the slot. */
#define MEMORY(t, E, T, FROM, TO) \
  static void load_##t(void *y_, const void *p_, int64_t n) { \
    T *y = y_; const E *p = p_; \
    EACH y[i] = (T)FROM(p[i]); \
  } \
  static void store_##t(void *p_, const void *y_, int64_t n) { \
    E *p = p_; const T *y = y_; \
    EACH p[i] = (E)TO(y[i]); \
  } \
  static void gather_##t(void *y_, const void *p_, const int64_t *at, int64_t n) { \
    T *y = y_; const E *p = p_; \
    for (int64_t i = 0; i < n; i++) { const int64_t k = at[i]; y[i] = (T)FROM(p[k]); } \
  } \
  static void scatter_##t(void *p_, const void *y_, const int64_t *at, const int32_t *m, \
                          int64_t n) { \
    E *p = p_; const T *y = y_; \
    for (int64_t i = 0; i < n; i++) if (m[i]) p[at[i]] = (E)TO(y[i]); \
  }
#define PLAIN(x) (x)
#define TRUTH(x) ((x) != 0)
MEMORY(bool, uint8_t, int32_t, TRUTH, TRUTH)
MEMORY(i8, int8_t, int32_t, PLAIN, PLAIN)
MEMORY(u8, uint8_t, int32_t, PLAIN, PLAIN)
MEMORY(i16, int16_t, int32_t, PLAIN, PLAIN)
MEMORY(u16, uint16_t, int32_t, PLAIN, PLAIN)
MEMORY(b32, uint32_t, uint32_t, PLAIN, PLAIN)
MEMORY(b64, uint64_t, uint64_t, PLAIN, PLAIN)
MEMORY(f16, uint16_t, float, fl_f16_value, fl_f16_bits)
MEMORY(bf16, uint16_t, float, fl_bf16_value, fl_bf16_bits)

#define IN_A_ROW(s, I, U, W) \
  static int in_a_row_##s(const void *a_, int64_t n) { \
    const I *a = a_; \
    const U first = (U)a[0]; \
    U other = 0; \
    if ((W)a[0] + (W)(n - 1) != (W)(I)(U)(first + (U)(n - 1))) return 0; \
    EACH other |= (U)a[i] ^ (U)(first + (U)i); \
    return other == 0; \
  }
IN_A_ROW(i32, int32_t, uint32_t, int64_t)
IN_A_ROW(u32, uint32_t, uint32_t, int64_t)
static int in_a_row_i64(const void *a_, int64_t n) {
  const uint64_t *a = a_, first = a[0];
  uint64_t other = 0;
  EACH other |= a[i] ^ (first + (uint64_t)i);
  return other == 0 && (int64_t)first <= INT64_MAX - n;
}

static void range_i64(const int64_t *a, int64_t n, int64_t *low, int64_t *high) {
  int64_t l = a[0], h = a[0];
  EACH { l = a[i] < l ? a[i] : l; h = a[i] > h ? a[i] : h; }
  *low = l;
  *high = h;
}

#define BY_ROWS(w, T) \
  static void ramp_##w(void *y_, int64_t n, int64_t first, int64_t step) { \
    T *y = y_; \
    EACH y[i] = (T)first + (T)step * (T)i; \
  } \
  static void load_rows_##w(void *y_, const void *p_, const int64_t *at, int64_t rows, \
                            int64_t n) { \
    T *y = y_; const T *p = p_; \
    for (int64_t r = 0; r < rows; r++, y += n) { const T *from = p + at[r]; EACH y[i] = from[i]; } \
  } \
  static void load_flat_##w(void *y_, const void *p_, const int64_t *at, int64_t rows, \
                            int64_t n) { \
    T *y = y_; const T *p = p_; \
    for (int64_t r = 0; r < rows; r++, y += n) { const T x = p[at[r]]; EACH y[i] = x; } \
  }
/* y = c + a b or c - a b, where one of a and b may be uniform, and c too. */
#define MUL_ADD(name, op) \
  static void name(ARGS) { \
    float *y = y_; const float *a = uni & 2 ? b_ : a_, *b = uni & 2 ? a_ : b_, *c = c_; \
    const float x = a[0], z = c[0]; \
    switch ((uni & 3 ? 1 : 0) | (uni & 4)) { \
      case 0: EACH y[i] = c[i] op a[i] * b[i]; break; \
      case 1: EACH y[i] = c[i] op x * b[i]; break; \
      case 4: EACH y[i] = z op a[i] * b[i]; break; \
      default: EACH y[i] = z op x * b[i]; break; \
    } \
  }
MUL_ADD(mul_add_f32, +)
MUL_ADD(mul_sub_f32, -)

#define BY_ROW(name, op) \
  static void name(float *y, const fl_lane_rows *a, const fl_lane_rows *b, int64_t rows, \
                   int64_t n) { \
    const char *p = a->base, *q = b->base; \
    for (int64_t r = 0; r < rows; r++, y += n, p += a->step, q += b->step) { \
      const float *u = (const float *)(const void *)p, *v = (const float *)(const void *)q; \
      EACH y[i] = u[i] op v[i]; \
    } \
  }
BY_ROW(add_rows, +)
BY_ROW(sub_rows, -)

static inline void add_row(float *y, const float *c, float x, const float *b, int64_t n) {
  EACH y[i] = c[i] + x * b[i];
}
static inline void add_whole_row(float *y, const float *c, float x, const float *b, int64_t n) {
  n = n / 8 * 8;
  EACH y[i] = c[i] + x * b[i];
}
static void mul_add_rows(float *y, const float *c, const fl_lane_rows *a, const fl_lane_rows *b,
                         int64_t rows, int64_t n) {
  const float *p = (const float *)(const void *)a->base, *q = (const float *)(const void *)b->base;
  const int64_t step = a->step / 4, other = b->step / 4;
  for (int64_t r = 0; r < rows; r++, y += n, c += n, p += step, q += other) {
    if (a->on == 1) EACH y[i] = c[i] + p[i] * q[i];
    else if (n % 8 == 0) add_whole_row(y, c, *p, q, n);
    else add_row(y, c, *p, q, n);
  }
}
BY_ROWS(4, uint32_t)
BY_ROWS(8, uint64_t)

/* ---- masks --------------------------------------------------------------------------- */

#define MASK(name, kept) \
  static int32_t name(int32_t *y, const int32_t *m, const int32_t *c, int64_t n) { \
    int32_t count = 0; \
    EACH { const int32_t v = m[i] & (kept); y[i] = v; count -= v; } \
    return count; \
  }
MASK(mask_and, -(c[i] != 0))
MASK(mask_and_not, -(c[i] == 0))
MASK(mask_without, ~c[i])
static int32_t mask_test(const int32_t *m, const int32_t *c, int64_t n) {
  int32_t count = 0;
  EACH count -= m[i] & -(c[i] != 0);
  return count;
}

/* ---- marks of the race check ----------------------------------------------------------- */

static int in_order(const int64_t *old, int64_t n, const fl_lane_order *o, int64_t lane) {
  const int64_t from = o->from, block = o->block, epoch = o->epoch;
  int64_t bad = 0;
  EACH {
    const int64_t x = old[i], other = (x & FL_LANE_LANES) - lane - i;
    bad |= -(int64_t)(x >= from) & (-(int64_t)(x < block) | (-(int64_t)(x >= epoch) & other));
  }
  return bad == 0;
}
static void stamp(int64_t *to, int64_t n, int64_t first) { EACH to[i] = first + i; }
static void stamp_read(int64_t *read, int64_t *reader, int64_t n, int64_t first, int64_t block) {
  EACH {
    const int64_t x = read[i], now = first + i, other = (x ^ now) & FL_LANE_LANES;
    reader[i] = ((x < block) | (other != 0)) ? x : reader[i];
    read[i] = now;
  }
}

/* ---- the table ----------------------------------------------------------------------- */

#define SIX(name) { name##_i32, name##_u32, name##_f32, name##_i64, name##_u64, name##_f64 }
#define FOUR(name) { name##_i32, name##_u32, NULL, name##_i64, name##_u64, NULL }
#define TWO(name) { NULL, NULL, name##_f32, NULL, NULL, name##_f64 }
#define CAST_ROW(s) { NULL, cast_##s##_bool, cast_##s##_i8, cast_##s##_u8, cast_##s##_i16, \
  cast_##s##_u16, cast_##s##_i32, cast_##s##_u32, cast_##s##_i64, cast_##s##_u64, \
  cast_##s##_f16, cast_##s##_bf16, cast_##s##_f32, cast_##s##_f64 }
#define BY_TYPE(name) { NULL, name##_bool, name##_i8, name##_u8, name##_i16, name##_u16, \
  name##_b32, name##_b32, name##_b64, name##_b64, name##_f16, name##_bf16, name##_b32, \
  name##_b64 }
#define FLOAT1(id, ...) [FL_KB_##id] = TWO(call_##id),
#define FLOAT2 FLOAT1
#define FLOAT3 FLOAT1
#define FLOATI FLOAT1
#define TEST1 FLOAT1
#define INT1(id, ...) [FL_KB_##id] = FOUR(call_##id),
#define INT2 INT1
#define BITS1(id, name, R, A, value) [FL_KB_##id] = { [FL_LC_##A] = bits_##id },
#define BITS2 BITS1
const fl_lane_table FL_ISA_NAME(fl_lane) = {
  .op = {
    [FL_KO_ADD] = SIX(add), [FL_KO_SUB] = SIX(sub), [FL_KO_MUL] = SIX(mul),
    [FL_KO_DIV] = SIX(div), [FL_KO_REM] = FOUR(rem), [FL_KO_SHL] = FOUR(shl),
    [FL_KO_SHR] = FOUR(shr), [FL_KO_AND] = FOUR(and), [FL_KO_OR] = FOUR(or),
    [FL_KO_XOR] = FOUR(xor), [FL_KO_LT] = SIX(lt), [FL_KO_LE] = SIX(le), [FL_KO_GT] = SIX(gt),
    [FL_KO_GE] = SIX(ge), [FL_KO_EQ] = SIX(eq), [FL_KO_NE] = SIX(ne), [FL_KO_NEG] = SIX(neg),
    [FL_KO_INVERT] = FOUR(invert), [FL_KO_NOT] = { not_bool },
    [FL_KO_LAND] = { and_i32 }, [FL_KO_LOR] = { or_i32 },
  },
  .call = {
#include "kernel/tree/builtins.def"
    [FL_KB_SIN] = { [FL_LC_F32] = block_sin, [FL_LC_F64] = call_SIN_f64 },
    [FL_KB_COS] = { [FL_LC_F32] = block_cos, [FL_LC_F64] = call_COS_f64 },
    [FL_KB_FAST_SIN] = { [FL_LC_F32] = block_sin, [FL_LC_F64] = call_SIN_f64 },
    [FL_KB_FAST_COS] = { [FL_LC_F32] = block_cos, [FL_LC_F64] = call_COS_f64 },
  },
  .cast = { CAST_ROW(i32), CAST_ROW(u32), CAST_ROW(f32), CAST_ROW(i64), CAST_ROW(u64),
            CAST_ROW(f64) },
  .round = { [FL_KT_F16] = round_to_f16, [FL_KT_BF16] = round_to_bf16 },
  .select = { select_4, select_8 }, .copy = { copy_4, copy_8 }, .splat = { splat_4, splat_8 },
  .all = and_i32, .any = or_i32, .blend = { blend_4, blend_8 },
  .mul_add = { mul_add_f32, mul_sub_f32 }, .mul_add_rows = mul_add_rows,
  .by_rows = { add_rows, sub_rows },
  .load = BY_TYPE(load), .store = BY_TYPE(store), .gather = BY_TYPE(gather),
  .scatter = BY_TYPE(scatter),
  .in_a_row = { in_a_row_i32, in_a_row_u32, NULL, in_a_row_i64, in_a_row_i64, NULL },
  .ramp = { ramp_4, ramp_8 }, .load_rows = { load_rows_4, load_rows_8 },
  .load_flat = { load_flat_4, load_flat_8 }, .range = range_i64,
  .mask_and = mask_and, .mask_and_not = mask_and_not, .mask_without = mask_without,
  .mask_test = mask_test, .in_order = in_order, .stamp = stamp, .stamp_read = stamp_read,
};
