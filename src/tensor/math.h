/*
** Mathematics: every function that the value texts of ops.def name through M(f), for the four
** register types (fl_<f>_f64, _f32, _i64, _i32), casts between dtypes, and Philox. One text for the
** CPU and, embedded, for NVRTC, which sees no header. Rules:
** - Functions and generators are built of + - * / sqrt fma, integer operations and selects, in
**   one order, so that every device gives the same bits (NaN payloads apart). In f64 a few
**   functions, but no generator, call the platform's library instead (docs/accuracy.md).
** - Compilers contract nothing (-ffp-contract=off, -fmad=false): where a fma is wanted, fma() is
**   written.
** - Both arms of a select are computed: loops over these functions then vectorise.
** - Integers wrap (computed unsigned), never trap: x // 0 and x % 0 give 0.
** Accuracy: docs/accuracy.md. Polynomials are minimax (Remez). The text goes on in
** math_f64.h, math_special.h, math_f32.h, math_inner.h and math_random.h.
*/
#ifndef FL_TENSOR_MATH_H
#define FL_TENSOR_MATH_H

#ifdef __CUDACC__
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define FL_FN __device__ __forceinline__
FL_FN float fl_as_f32(uint32_t b) { return __uint_as_float(b); }
FL_FN uint32_t fl_bits_f32(float x) { return __float_as_uint(x); }
FL_FN double fl_as_f64(uint64_t b) { return __longlong_as_double((int64_t)b); }
FL_FN uint64_t fl_bits_f64(double x) { return (uint64_t)__double_as_longlong(x); }
#else
#include <math.h>
#include <stdint.h>
#include <string.h>
#define FL_FN static inline
FL_FN float fl_as_f32(uint32_t b) { float x; memcpy(&x, &b, 4); return x; }
FL_FN uint32_t fl_bits_f32(float x) { uint32_t b; memcpy(&b, &x, 4); return b; }
FL_FN double fl_as_f64(uint64_t b) { double x; memcpy(&x, &b, 8); return x; }
FL_FN uint64_t fl_bits_f64(double x) { uint64_t b; memcpy(&b, &x, 8); return b; }
#endif

/* ---- both float types -------------------------------------------------------------- */

/* max: a wins unless b is larger or NaN; of zeros +0 is the larger, whatever the order. fmod_near:
** the same bits as fmod where fmod_is_near, in a form that vectorises. There the rounded quotient
** is below NEAR and is truncated to k or k + 1, where k is right; a - k b and a - (k + 1) b are
** multiples of b's last place and at most |b|, so each step is exact. mod_of, floordiv_of: from r =
** fmod. */
#define FL_FLOAT(T, U, t, rnd, flr, cei, tru, fmo, mad, NEAR) \
  FL_FN T fl_neg_##t(T x) { return -x; } \
  FL_FN T fl_add_##t(T a, T b) { return a + b; } \
  FL_FN T fl_sub_##t(T a, T b) { return a - b; } \
  FL_FN T fl_mul_##t(T a, T b) { return a * b; } \
  FL_FN T fl_abs_##t(T x) { return fl_as_##t(fl_bits_##t(x) & (~(U)0 >> 1)); } \
  FL_FN T fl_copysign_##t(T x, T s) { \
    return fl_as_##t((fl_bits_##t(x) & (~(U)0 >> 1)) | (fl_bits_##t(s) & ~(~(U)0 >> 1))); \
  } \
  FL_FN T fl_sign_##t(T x) { \
    const T s = (T)((x > (T)0) - (x < (T)0)); \
    return x != x ? x : s; \
  } \
  FL_FN T fl_max_##t(T a, T b) { \
    const U keep = a == b ? ~(U)0 >> 1 : ~(U)0; \
    const T m = a > b ? a : b; \
    const T n = fl_as_##t(fl_bits_##t(m) & (fl_bits_##t(a) | keep)); \
    return a != a ? a : n; \
  } \
  FL_FN T fl_min_##t(T a, T b) { \
    const U keep = a == b ? ~(U)0 >> 1 : ~(U)0; \
    const T m = a < b ? a : b; \
    const T n = fl_as_##t(fl_bits_##t(m) | (fl_bits_##t(a) & ~keep)); \
    return a != a ? a : n; \
  } \
  FL_FN T fl_relu_##t(T x) { return x <= (T)0 ? (T)0 : x; } \
  FL_FN T fl_rint_##t(T x) { return rnd(x); } \
  FL_FN T fl_floor_##t(T x) { return flr(x); } \
  FL_FN T fl_ceil_##t(T x) { return cei(x); } \
  FL_FN T fl_trunc_##t(T x) { return tru(x); } \
  FL_FN T fl_highest_##t(void) { return fl_as_##t(fl_inf_bits_##t()); } \
  FL_FN T fl_fmod_##t(T a, T b) { return fmo(a, b); } \
  FL_FN int32_t fl_fmod_is_near_##t(T a, T b) { \
    return (fl_abs_##t(a / b) < (T)NEAR) & (fl_abs_##t(b) < fl_highest_##t()); \
  } \
  FL_FN T fl_fmod_near_##t(T a, T b) { \
    const T x = fl_abs_##t(a), y = fl_abs_##t(b), r = mad(-tru(x / y), y, x); \
    return fl_copysign_##t(r < (T)0 ? r + y : r, a); \
  } \
  FL_FN T fl_mod_of_##t(T r, T b) { \
    return ((r != (T)0) & ((r < (T)0) != (b < (T)0))) ? r + b : r; \
  } \
  FL_FN T fl_mod_##t(T a, T b) { return fl_mod_of_##t(fmo(a, b), b); } \
  FL_FN T fl_mod_near_##t(T a, T b) { return fl_mod_of_##t(fl_fmod_near_##t(a, b), b); } \
  FL_FN T fl_floordiv_of_##t(T r, T a, T b) { \
    const int below = (r != (T)0) & ((r < (T)0) != (b < (T)0)); \
    const T q = (a - r) / b - (T)below;       /* an integer, up to rounding */ \
    const T f = flr(q); \
    const T g = q - f > (T)0.5 ? f + (T)1 : f; \
    const T z = fl_copysign_##t((T)0, a / b); \
    const T v = q == (T)0 ? z : g; \
    return b == (T)0 ? a / b : v; \
  } \
  FL_FN T fl_floordiv_##t(T a, T b) { return fl_floordiv_of_##t(fmo(a, b), a, b); } \
  FL_FN T fl_floordiv_near_##t(T a, T b) { \
    return fl_floordiv_of_##t(fl_fmod_near_##t(a, b), a, b); \
  } \
  FL_FN int32_t fl_isnan_##t(T x) { return x != x; } \
  FL_FN int32_t fl_isinf_##t(T x) { return fl_abs_##t(x) == fl_as_##t(fl_inf_bits_##t()); } \
  FL_FN int32_t fl_isfinite_##t(T x) { return fl_abs_##t(x) < fl_as_##t(fl_inf_bits_##t()); } \
  FL_FN T fl_lowest_##t(void) { return -fl_highest_##t(); }

FL_FN uint64_t fl_inf_bits_f64(void) { return 0x7ff0000000000000u; }
FL_FN uint32_t fl_inf_bits_f32(void) { return 0x7f800000u; }
FL_FLOAT(double, uint64_t, f64, rint, floor, ceil, trunc, fmod, fma, 0x1p51)
FL_FLOAT(float, uint32_t, f32, rintf, floorf, ceilf, truncf, fmodf, fmaf, 0x1p22)
#undef FL_FLOAT

/* ---- both integer types ------------------------------------------------------------ */

/* Division: the divisors 0 and -1 would trap for some x, so they are replaced by 1.
** pow: a negative exponent gives 0, except for bases 1 and -1 (as in NumPy and PyTorch). */
#define FL_INTEGER(T, U, t, LOWEST) \
  FL_FN T fl_neg_##t(T x) { return (T)((U)0 - (U)x); } \
  FL_FN T fl_add_##t(T a, T b) { return (T)((U)a + (U)b); } \
  FL_FN T fl_sub_##t(T a, T b) { return (T)((U)a - (U)b); } \
  FL_FN T fl_mul_##t(T a, T b) { return (T)((U)a * (U)b); } \
  FL_FN T fl_abs_##t(T x) { return x < 0 ? fl_neg_##t(x) : x; } \
  FL_FN T fl_sign_##t(T x) { return (T)((x > 0) - (x < 0)); } \
  FL_FN T fl_max_##t(T a, T b) { return a > b ? a : b; } \
  FL_FN T fl_min_##t(T a, T b) { return a < b ? a : b; } \
  FL_FN T fl_relu_##t(T x) { return x > 0 ? x : (T)0; } \
  FL_FN T fl_rint_##t(T x) { return x; } \
  FL_FN T fl_floor_##t(T x) { return x; } \
  FL_FN T fl_ceil_##t(T x) { return x; } \
  FL_FN T fl_trunc_##t(T x) { return x; } \
  FL_FN T fl_fmod_##t(T a, T b) { \
    const T d = ((b == 0) | (b == -1)) ? (T)1 : b; \
    return a % d; \
  } \
  FL_FN T fl_mod_##t(T a, T b) { \
    const T r = fl_fmod_##t(a, b); \
    return ((r != 0) & ((r ^ b) < 0)) ? r + b : r; \
  } \
  FL_FN T fl_floordiv_##t(T a, T b) { \
    const T d = ((b == 0) | (b == -1)) ? (T)1 : b; \
    const T q = a / d, r = a % d; \
    const T f = ((r != 0) & ((r ^ d) < 0)) ? q - 1 : q; \
    const T g = b == -1 ? fl_neg_##t(a) : f; \
    return b == 0 ? (T)0 : g; \
  } \
  FL_FN T fl_pow_##t(T x, T n) { \
    U r = 1, b = (U)x, e = (U)(n < 0 ? fl_neg_##t(n) : n); \
    if (n < 0) b = ((x == 1) | (x == -1)) ? b : (U)0; \
    for (; e; e >>= 1, b *= b) r = e & 1 ? r * b : r; \
    return (T)r; \
  } \
  FL_FN int32_t fl_isnan_##t(T x) { (void)x; return 0; } \
  FL_FN int32_t fl_isinf_##t(T x) { (void)x; return 0; } \
  FL_FN int32_t fl_isfinite_##t(T x) { (void)x; return 1; } \
  FL_FN T fl_lowest_##t(void) { return LOWEST; } \
  FL_FN T fl_highest_##t(void) { return -(LOWEST + 1); }

FL_INTEGER(int64_t, uint64_t, i64, (-0x7fffffffffffffff - 1))
FL_INTEGER(int32_t, uint32_t, i32, (-0x7fffffff - 1))
#undef FL_INTEGER

/* ---- storage dtypes ---------------------------------------------------------------- */

/* Round to nearest even. NaN stays a (quiet) NaN; from 65520 on infinity. Below 2^-14 the
** addition of 0.5 lets the hardware round at the spacing of half's denormals. */
FL_FN uint16_t fl_f16_bits(float x) {
  const uint32_t b = fl_bits_f32(x), a = b & 0x7fffffffu;
  const uint32_t normal = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
  const uint32_t tiny = fl_bits_f32(fl_as_f32(a) + 0.5f) - 0x3f000000u;
  uint32_t h = a < 0x38800000u ? tiny : normal;
  h = a >= 0x47800000u ? 0x7c00u : h;
  h = a > 0x7f800000u ? 0x7e00u : h;
  return (uint16_t)(h | ((b >> 16) & 0x8000u));
}

FL_FN float fl_f16_value(uint16_t h) {
  const uint32_t m = ((uint32_t)h & 0x7fffu) << 13;
  const uint32_t tiny = fl_bits_f32(fl_as_f32(m + 0x38800000u) - 0x1p-14f);       /* exact */
  const uint32_t v = m < 0x00800000u ? tiny : m + 0x38000000u;
  const uint32_t a = m >= 0x0f800000u ? m | 0x7f800000u : v;
  return fl_as_f32(a | (((uint32_t)h & 0x8000u) << 16));
}

FL_FN uint16_t fl_bf16_bits(float x) {
  const uint32_t b = fl_bits_f32(x);
  const uint32_t r = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
  return (uint16_t)(x != x ? (b >> 16) | 0x40u : r);
}

FL_FN float fl_bf16_value(uint16_t h) { return fl_as_f32((uint32_t)h << 16); }

/* A register's value rounded to the dtype it stands for: after every recorded op. */
FL_FN double fl_round_f64(double x) { return x; }
FL_FN float fl_round_f32(float x) { return x; }
FL_FN float fl_round_f16(float x) { return fl_f16_value(fl_f16_bits(x)); }
FL_FN float fl_round_bf16(float x) { return fl_bf16_value(fl_bf16_bits(x)); }
FL_FN int64_t fl_round_i64(int64_t x) { return x; }
FL_FN int32_t fl_round_i32(int32_t x) { return x; }
FL_FN int32_t fl_round_i16(int32_t x) { return (int16_t)x; }
FL_FN int32_t fl_round_i8(int32_t x) { return (int8_t)x; }
FL_FN int32_t fl_round_u8(int32_t x) { return (uint8_t)x; }
FL_FN int32_t fl_round_bool(int32_t x) { return x != 0; }
FL_FN int32_t fl_wrap_i16(int32_t x) { return (int16_t)x; }
FL_FN int32_t fl_wrap_i8(int32_t x) { return (int8_t)x; }
FL_FN int32_t fl_wrap_u8(int32_t x) { return (uint8_t)x; }
FL_FN int32_t fl_bool(int32_t x) { return x != 0; }

/* ---- casts: fl_cast_<register>_<dtype>, the result in the dtype's register --------- */

/* Truncates; a value out of range gives the nearest end of the range, NaN gives 0. TOP: one above
** the highest. */
#define FL_SATURATE(F, f, T, t, LOW, TOP) \
  FL_FN T fl_cast_##f##_##t(F x) { \
    const F y = x > (F)(LOW) ? x : (F)(LOW);        /* NaN gives LOW here, and 0 below */ \
    const T v = (T)(y < (F)(TOP) ? y : (F)0); \
    const T s = y < (F)(TOP) ? v : fl_highest_##t(); \
    return x != x ? (T)0 : s; \
  }
FL_SATURATE(double, f64, int64_t, i64, -0x1p63, 0x1p63)
FL_SATURATE(double, f64, int32_t, i32, -0x1p31, 0x1p31)
FL_SATURATE(float, f32, int64_t, i64, -0x1p63f, 0x1p63f)
FL_SATURATE(float, f32, int32_t, i32, -0x1p31f, 0x1p31f)
#undef FL_SATURATE

#define FL_NARROW(F, f, t, LOW, HIGH) \
  FL_FN int32_t fl_cast_##f##_##t(F x) { \
    const F y = x > (F)(LOW) ? x : (F)(LOW); \
    const int32_t v = (int32_t)(y < (F)(HIGH) ? y : (F)(HIGH)); \
    return x != x ? 0 : v; \
  }
FL_NARROW(double, f64, i16, -32768, 32767)
FL_NARROW(double, f64, i8, -128, 127)
FL_NARROW(double, f64, u8, 0, 255)
FL_NARROW(float, f32, i16, -32768, 32767)
FL_NARROW(float, f32, i8, -128, 127)
FL_NARROW(float, f32, u8, 0, 255)
#undef FL_NARROW

/* Casts to floats and bool, then casts of integers. Casts to a half type go through f32 (two
** roundings from f64 and integers). NaN gives true. */
#define FL_CASTS(F, f) \
  FL_FN float fl_cast_##f##_f16(F x) { return fl_round_f16((float)x); } \
  FL_FN float fl_cast_##f##_bf16(F x) { return fl_round_bf16((float)x); } \
  FL_FN float fl_cast_##f##_f32(F x) { return (float)x; } \
  FL_FN double fl_cast_##f##_f64(F x) { return (double)x; } \
  FL_FN int32_t fl_cast_##f##_bool(F x) { return x != (F)0; }
#define FL_CASTS_INTEGER(F, f) \
  FL_FN int64_t fl_cast_##f##_i64(F x) { return (int64_t)x; } \
  FL_FN int32_t fl_cast_##f##_i32(F x) { return (int32_t)x; } \
  FL_FN int32_t fl_cast_##f##_i16(F x) { return (int16_t)x; } \
  FL_FN int32_t fl_cast_##f##_i8(F x) { return (int8_t)x; } \
  FL_FN int32_t fl_cast_##f##_u8(F x) { return (uint8_t)x; }
FL_CASTS(double, f64)
FL_CASTS(float, f32)
FL_CASTS(int64_t, i64)
FL_CASTS(int32_t, i32)
FL_CASTS_INTEGER(int64_t, i64)
FL_CASTS_INTEGER(int32_t, i32)
#undef FL_CASTS
#undef FL_CASTS_INTEGER

#include "tensor/math_f64.h"
#include "tensor/math_special.h"
#include "tensor/math_f32.h"
#include "tensor/math_inner.h"
#include "tensor/math_random.h"
#endif
