/*
** The numbers: every function that the value texts of ops.def name through M(f), for the
** four register types (fl_<f>_f64, _f32, _i64, _i32), casts between dtypes, and Philox.
** One text for the CPU and, embedded, for NVRTC, which sees no header. Rules:
** - f32 functions and the generators are built of + - * / sqrt fma, integer operations and
**   selects, in one order, so that every device gives the same bits (NaN payloads apart).
**   f64 functions may call the platform's library, except in the generators.
** - Nothing is contracted by a compiler (-ffp-contract=off, -fmad=false): fma() is written.
** - Both arms of a select are computed: loops over these functions then vectorise.
** - Integers wrap (computed unsigned), never trap: x // 0 and x % 0 give 0.
** Accuracy: docs/accuracy.md.
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

/* max: a wins unless b is larger or NaN; of zeros +0 is the larger, whatever the order.
** fmod_near: the same bits as fmod where fmod_is_near, and vectorises. The rounded quotient,
** below NEAR, cuts to k or k + 1, k the true one; a - k b and a - (k + 1) b are multiples of
** b's last place and at most |b|, so each step is exact. mod_of, floordiv_of: from r = fmod. */
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
    const T q = (a - r) / b - (T)below;       /* an integer but for rounding */ \
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
** pow: a negative exponent gives 0, but for bases 1 and -1 (as NumPy's and PyTorch's kernels). */
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

/* Truncates; what does not fit gives the nearest end, NaN 0. TOP: one above the highest. */
#define FL_SATURATE(F, f, T, t, LOW, TOP) \
  FL_FN T fl_cast_##f##_##t(F x) { \
    const F y = x > (F)(LOW) ? x : (F)(LOW);        /* NaN gives LOW, undone below */ \
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

/* The rest. A half type is reached through f32 (two roundings from f64 and integers). NaN
** is a true bool. */
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

/* ---- f64 functions: the platform's library, but for exp ------------------------------ */

/* e^x = 2^n e^(r + low), |r| <= log(2) / 2, n times the long half of log(2) exact; within 0.66 units
** of the last place (a subnormal result: 0.76). 2^n in two factors, of which only the second rounds.
** Vectorises, which a library's does not. */
FL_FN double fl_exp_f64(double x) {
  const double b = x > 710.0 ? 710.0 : x, c = b < -746.0 ? -746.0 : b;
  const double t = fma(c, 1.4426950408889634, 0x1.8p52), n = t - 0x1.8p52;
  const double s = fma(n, -0.6931471805598903, c), r = fma(n, -5.497923018708371e-14, s);
  const double low = fma(n, -5.497923018708371e-14, s - r);
  const uint64_t k = fl_bits_f64(t) - fl_bits_f64(0x1.8p52) + 4096, half = k >> 1;   /* n + 4096 */
  double p = 2.0914686968086876e-09;
  p = fma(p, r, 2.5105217004720745e-08);
  p = fma(p, r, 2.75572736431103e-07);
  p = fma(p, r, 2.7557255400206422e-06);
  p = fma(p, r, 2.4801587325547743e-05);
  p = fma(p, r, 0.00019841269874820627);
  p = fma(p, r, 0.0013888888888883748);
  p = fma(p, r, 0.008333333333326136);
  p = fma(p, r, 0.04166666666666667);
  p = fma(p, r, 0.1666666666666667);
  p = fma(p, r, 0.5);
  const double f = 1.0 + r, e = f + (fma(r * r, p, low) + (r - (f - 1.0)));
  return e * fl_as_f64((half - 2048 + 1023) << 52) * fl_as_f64((k - half - 2048 + 1023) << 52);
}

#define FL_LIBRARY(f) FL_FN double fl_##f##_f64(double x) { return f(x); }
FL_LIBRARY(sqrt) FL_LIBRARY(cbrt) FL_LIBRARY(exp2) FL_LIBRARY(expm1)
FL_LIBRARY(log) FL_LIBRARY(log2) FL_LIBRARY(log10) FL_LIBRARY(log1p)
FL_LIBRARY(sin) FL_LIBRARY(cos) FL_LIBRARY(tan)
FL_LIBRARY(asin) FL_LIBRARY(acos) FL_LIBRARY(atan)
FL_LIBRARY(sinh) FL_LIBRARY(cosh) FL_LIBRARY(tanh)
FL_LIBRARY(asinh) FL_LIBRARY(acosh) FL_LIBRARY(atanh)
FL_LIBRARY(erf) FL_LIBRARY(erfc)
#undef FL_LIBRARY
#ifdef __CUDACC__
FL_FN double fl_lgamma_f64(double x) { return lgamma(x); }
#else
FL_FN double fl_lgamma_f64(double x) { int sign; return lgamma_r(x, &sign); }   /* no signgam */
#endif
FL_FN double fl_pow_f64(double x, double y) { return pow(x, y); }
FL_FN double fl_atan2_f64(double y, double x) { return atan2(y, x); }
FL_FN double fl_hypot_f64(double x, double y) { return hypot(x, y); }
FL_FN double fl_sigmoid_f64(double x) { return 1.0 / (1.0 + fl_exp_f64(-x)); }
FL_FN double fl_softplus_f64(double x) {
  return fl_max_f64(x, 0.0) + log1p(exp(-fl_abs_f64(x)));
}
/* Kernels of our own in double, for what must give the same bits on every device. */
FL_FN double fl_own_log(double x) {                        /* x > 0, normal, finite */
  const uint64_t b = fl_bits_f64(x) - 0x3fe6a09e667f3bcdu;
  const double n = (double)(int32_t)((int64_t)b >> 52);
  const double m = fl_as_f64((b & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu);
  const double f = m - 1.0, s = f / (m + 1.0), z = s * s;
  double p = 0.1479703443567737;
  p = fma(p, z, 0.15313951499247033);
  p = fma(p, z, 0.18183567816144702);
  p = fma(p, z, 0.22222198513708188);
  p = fma(p, z, 0.2857142874288884);
  p = fma(p, z, 0.39999999999412794);
  p = fma(p, z, 0.6666666666666735);
  /* 2 s = f - s f, without the division's rounding error in the leading term */
  const double y = fma(s, fma(z, p, -f), n * 2.3190468138462996e-17);
  return fma(n, 0.6931471805599453, f + y);
}

FL_FN double fl_own_sin(double r) {                        /* |r| <= pi/4 */
  const double z = r * r;
  double p = 1.5896085906051395e-10;
  p = fma(p, z, -2.5050745432441632e-08);
  p = fma(p, z, 2.755731360761639e-06);
  p = fma(p, z, -0.000198412698295533);
  p = fma(p, z, 0.008333333333322078);
  p = fma(p, z, -0.1666666666666663);
  return fma(r * z, p, r);
}

FL_FN double fl_own_cos(double r) {
  const double z = r * r;
  double p = -1.1358428201163493e-11;
  p = fma(p, z, 2.087569882575324e-09);
  p = fma(p, z, -2.755731416509602e-07);
  p = fma(p, z, 2.4801587288805066e-05);
  p = fma(p, z, -0.0013888888888872986);
  p = fma(p, z, 0.041666666666666595);
  return fma(z * z, p, fma(z, -0.5, 1.0));
}

/* sin(pi x) and cos(pi x) for x >= 0, up to their common sign. */
FL_FN double fl_own_sinpi(double x, double *cosine) {
  const double r = x - floor(x), u = r > 0.5 ? 1.0 - r : r;            /* both exact */
  const double t = (u > 0.25 ? 0.5 - u : u) * 3.14159265358979323846;
  const double s = fl_own_sin(t), c = fl_own_cos(t), w = u > 0.25 ? s : c;
  *cosine = r > 0.5 ? -w : w;
  return u > 0.25 ? c : s;
}

/* digamma, trigamma, lgamma: recurrence up to 10, then the asymptotic series; reflection
** for x <= 0. One loop of at most ten rounds, the rest without branches. */
FL_FN double fl_digamma_f64(double x) {
  const double a = fl_abs_f64(x);
  double z = x <= 0.0 ? 1.0 + a : x, s = 0.0, c;
  for (; z < 10.0; z += 1.0) s -= 1.0 / z;
  const double u = 1.0 / z, w = u * u, n = fl_own_sinpi(a, &c);
  double p = 1.0 / 12.0;
  p = fma(p, -w, 691.0 / 32760.0);
  p = fma(p, -w, 1.0 / 132.0);
  p = fma(p, -w, 1.0 / 240.0);
  p = fma(p, -w, 1.0 / 252.0);
  p = fma(p, -w, 1.0 / 120.0);
  p = fma(p, -w, 1.0 / 12.0);
  const double v = s + (fl_own_log(z) - 0.5 * u - w * p);
  const double r = x <= 0.0 ? v + 3.14159265358979323846 * c / n : v;
  const double pole = x == 0.0 ? -1.0 / x : fl_as_f64(0x7ff8000000000000u);
  const double q = ((x <= 0.0) & (n == 0.0)) ? pole : r;
  return ((x != x) | (x == fl_highest_f64())) ? x : q;
}

FL_FN double fl_trigamma_f64(double x) {
  const double a = fl_abs_f64(x);
  double z = x <= 0.0 ? 1.0 + a : x, s = 0.0, c;
  for (; z < 10.0; z += 1.0) s += 1.0 / (z * z);
  const double u = 1.0 / z, w = u * u, n = 3.14159265358979323846 / fl_own_sinpi(a, &c);
  double p = 7.0 / 6.0;
  p = fma(p, -w, 691.0 / 2730.0);
  p = fma(p, -w, 5.0 / 66.0);
  p = fma(p, -w, 1.0 / 30.0);
  p = fma(p, -w, 1.0 / 42.0);
  p = fma(p, -w, 1.0 / 30.0);
  p = fma(p, -w, 1.0 / 6.0);
  s += u + 0.5 * w + w * u * p;
  return x <= 0.0 ? n * n - s : s;
}

/* For the f32 function: the error is absolute near the zeros 1 and 2. */
FL_FN double fl_own_lgamma(double x) {
  const double a = fl_abs_f64(x);
  double z = x <= 0.0 ? 1.0 + a : x, m = 1.0, c;
  for (; z < 10.0; z += 1.0) m *= z;
  const double u = 1.0 / z, w = u * u, l = fl_own_log(z);
  double p = 691.0 / 360360.0;
  p = fma(p, -w, 1.0 / 1188.0);
  p = fma(p, -w, 1.0 / 1680.0);
  p = fma(p, -w, 1.0 / 1260.0);
  p = fma(p, -w, 1.0 / 360.0);
  p = fma(p, -w, 1.0 / 12.0);
  const double v = ((z - 0.5) * l - z) + (u * p + 0.91893853320467274178) - fl_own_log(m);
  const double n = fl_own_sinpi(a, &c);
  const double r = x <= 0.0 ? 1.14472988584940017414 - fl_own_log(n) - v : v;
  const double q = ((x <= 0.0) & (n == 0.0)) ? fl_highest_f64() : r;
  const double e = a < 1e-60 ? -fl_own_log(a) : q;
  const double big = a == fl_highest_f64() ? a : e;
  const double zero = ((x == 1.0) | (x == 2.0)) ? 0.0 : big;
  const double inf = x == 0.0 ? fl_highest_f64() : zero;
  return x != x ? x : inf;
}

/* Start from Winitzki's formula, then Newton steps on erfc, which keeps the tails. */
FL_FN double fl_erfinv_f64(double x) {
  const double a = fl_abs_f64(x), l = log1p(-a * a);
  const double h = 4.33075024 + 0.5 * l;
  double y = sqrt(sqrt(h * h - l * 6.802721088) - h);
  for (int i = 0; i < 4; i++) {
    const double e = a < 0.5 ? erf(y) - a : (1.0 - a) - erfc(y);
    const double d = e * exp(y * y) * 0.88622692545275801365;
    y -= d / (1.0 + y * d);
  }
  const double v = a == 1.0 ? fl_highest_f64() : y;
  return fl_copysign_f64(a < 1e-300 ? a * 0.88622692545275801365 : v, x);
}

/* ---- f32: sqrt */

FL_FN float fl_sqrt_f32(float x) { return sqrtf(x); }

/* ---- f32: exponentials ------------------------------------------------------------- */

/* p * 2^n in two steps, so that the result is rounded once where it is denormal. |n| <= 250. */
FL_FN float fl_scale_f32(float p, int32_t n) {
  const int32_t h = n >> 1;
  return p * fl_as_f32((uint32_t)(h + 127) << 23) * fl_as_f32((uint32_t)(n - h + 127) << 23);
}

/* x = *n ln 2 + r, |r| <= ln 2 / 2. The sum with 1.5 * 2^23 rounds to an integer and leaves
** it in the low bits. |x| < 2^21. */
FL_FN float fl_exp_reduce(float x, int32_t *n) {
  const float t = fmaf(x, 1.44269502f, 0x1.8p23f), k = t - 0x1.8p23f;
  *n = (int32_t)(fl_bits_f32(t) - 0x4b400000u);
  return fmaf(k, 1.90465421e-09f, fmaf(k, -0.693147182f, x));
}

FL_FN float fl_exp_kernel(float r) {                       /* e^r - 1 */
  float p = 0.00138144661f;
  p = fmaf(p, r, 0.00836878084f);
  p = fmaf(p, r, 0.0416683927f);
  p = fmaf(p, r, 0.166665196f);
  p = fmaf(p, r, 0.49999994f);
  return fmaf(r * r, p, r);
}

/* x kept between -c and c; NaN goes through. (One comparison: two would be compiled badly.) */
#ifdef __CUDACC__
FL_FN float fl_within(float x, float c) {                   /* the same value, sooner */
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(c));
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(y), "f"(-c));
  return y;
}
#else
FL_FN float fl_within(float x, float c) {
  const float a = fl_abs_f32(x);
  return fl_copysign_f32(a > c ? c : a, x);
}
#endif

/* e^x * 2^k for small k, |x| <= 105 or NaN; overflow and underflow as they should be. */
FL_FN float fl_exp_scaled(float x, int32_t k) {
  int32_t n;
  const float e = fl_exp_kernel(fl_exp_reduce(x, &n)) + 1.0f;
  return fl_scale_f32(e, n + k);
}

FL_FN float fl_exp_f32(float x) { return fl_exp_scaled(fl_within(x, 105.0f), 0); }

FL_FN float fl_exp2_f32(float x) {
  const float b = fl_within(x, 152.0f), t = b + 0x1.8p23f;
  const float r = b - (t - 0x1.8p23f);
  float p = 0.000153523855f;
  p = fmaf(p, r, 0.00133991241f);
  p = fmaf(p, r, 0.00961844344f);
  p = fmaf(p, r, 0.0555033199f);
  p = fmaf(p, r, 0.240226477f);
  p = fmaf(p, r, 0.693147182f);
  return fl_scale_f32(fmaf(p, r, 1.0f), (int32_t)(fl_bits_f32(t) - 0x4b400000u));
}

FL_FN float fl_expm1_f32(float x) {
  int32_t n;
  const float r = fl_exp_reduce(fl_within(x, 90.0f), &n);
  const int32_t m = n < -40 ? -40 : n;
  float p = 0.000198455018f;
  p = fmaf(p, r, 0.00139407208f);
  p = fmaf(p, r, 0.00833339058f);
  p = fmaf(p, r, 0.0416663587f);
  p = fmaf(p, r, 0.166666657f);
  p = fmaf(p, r, 0.5f);
  const float e = fmaf(r * r, p, r);
  const float s = fl_as_f32((uint32_t)(m + 126) << 23);           /* 2^n / 2 */
  const float v = 2.0f * fmaf(s, e, s - 0.5f);
  const float w = x > 88.8f ? fl_highest_f32() : v;
  return x == 0.0f ? x : w;
}

/* e^-|x| */
FL_FN float fl_exp_minus_abs(float x) {
  const float a = fl_abs_f32(x);
  return fl_exp_scaled(-(a > 105.0f ? 105.0f : a), 0);
}

/* sigmoid, softplus: e^-|x| never overflows, and one division is all. */
FL_FN float fl_sigmoid_f32(float x) {
  const float e = fl_exp_minus_abs(x);
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* ---- f32: logarithms --------------------------------------------------------------- */

/* x > 0 as (1 + f) 2^n with 1 + f between sqrt(1/2) and sqrt(2). */
FL_FN float fl_log_reduce(float x, float *n) {
  const int tiny = x < 0x1p-126f;
  const uint32_t b = fl_bits_f32(tiny ? x * 0x1p25f : x);
  const int32_t e = (int32_t)(b - 0x3f3504f3u) >> 23;
  *n = (float)(tiny ? e - 25 : e);
  return fl_as_f32(b - ((uint32_t)e << 23)) - 1.0f;
}

FL_FN float fl_log_special(float x, float v) {     /* v for 0 < x < inf, else what log gives */
  const float bad = x == 0.0f ? fl_lowest_f32() : fl_as_f32(0x7fc00000u);
  const float w = x > 0.0f ? v : bad;
  return x == fl_highest_f32() ? x : w;
}

FL_FN float fl_log_kernel(float f, float n) {              /* log(1 + f) + n log 2 */
  float p = -0.0763249472f;
  p = fmaf(p, f, 0.127609715f);
  p = fmaf(p, f, -0.131605983f);
  p = fmaf(p, f, 0.142018631f);
  p = fmaf(p, f, -0.166233301f);
  p = fmaf(p, f, 0.200012222f);
  p = fmaf(p, f, -0.250008225f);
  p = fmaf(p, f, 0.333333313f);
  const float z = f * f;
  const float y = fmaf(z, -0.5f, fmaf(n, -1.90465421e-09f, z * f * p));
  return fmaf(n, 0.693147182f, f + y);
}

FL_FN float fl_log_f32(float x) {
  float n;
  const float f = fl_log_reduce(x, &n);
  return fl_log_special(x, fl_log_kernel(f, n));
}

FL_FN float fl_log2_f32(float x) {
  float n;
  const float f = fl_log_reduce(x, &n);
  float p = -0.10992898f;
  p = fmaf(p, f, 0.186161488f);
  p = fmaf(p, f, -0.191062331f);
  p = fmaf(p, f, 0.204602346f);
  p = fmaf(p, f, -0.239617944f);
  p = fmaf(p, f, 0.288567394f);
  p = fmaf(p, f, -0.360696614f);
  p = fmaf(p, f, 0.480898231f);
  p = fmaf(p, f, -0.721347332f);
  const float low = fmaf(f * f, p, f * 1.92596303e-08f);
  return fl_log_special(x, n + fmaf(f, 1.44269502f, low));
}

FL_FN float fl_log10_f32(float x) {
  float n;
  const float f = fl_log_reduce(x, &n);
  float p = -0.0330919214f;
  p = fmaf(p, f, 0.0560401939f);
  p = fmaf(p, f, -0.0575154908f);
  p = fmaf(p, f, 0.0615914427f);
  p = fmaf(p, f, -0.0721321851f);
  p = fmaf(p, f, 0.0868674368f);
  p = fmaf(p, f, -0.1085805f);
  p = fmaf(p, f, 0.144764796f);
  p = fmaf(p, f, -0.217147186f);
  const float low = fmaf(n, -1.43209888e-08f, fmaf(f * f, p, f * -1.010305e-08f));
  return fl_log_special(x, fmaf(n, 0.30103001f, fmaf(f, 0.434294492f, low)));
}

/* f = (1 + x) 2^-n - 1 by fma, exact for n = 0. Above 2^60 the 1 is gone, and x is scaled
** so that 2^-n stays normal. */
FL_FN float fl_log1p_f32(float x) {
  const int big = x > 0x1p60f;
  const float y = big ? x * 0x1p-64f : x, one = big ? 0.0f : 1.0f, u = y + one;
  const int32_t e = (int32_t)(fl_bits_f32(u) - 0x3f3504f3u) >> 23;
  const float s = fl_as_f32(0x3f800000u - ((uint32_t)e << 23));
  const float f = fmaf(s, y, fmaf(s, one, -1.0f));
  const float v = fl_log_special(u, fl_log_kernel(f, (float)(big ? e + 64 : e)));
  return x == 0.0f ? x : v;
}

FL_FN float fl_softplus_f32(float x) {
  const float l = fl_log1p_f32(fl_exp_minus_abs(x));
  return (x < 0.0f ? 0.0f : x) + l;
}

/* ---- f32: circular functions ------------------------------------------------------- */

/* |x| < 2^49: x = *q pi/2 + r, with two pieces of pi/2 in double. */
FL_FN float fl_quarter_near(float x, int32_t *q) {
  const double d = (double)x;
  const double t = fma(d, 0.6366197723675814, 0x1.8p52), k = t - 0x1.8p52;
  *q = (int32_t)(uint32_t)fl_bits_f64(t);
  return (float)fma(k, -6.123233995736766e-17, fma(k, -1.5707963267948966, d));
}

/* |x| >= 2^49: fractions of x times 26-bit pieces of 1/(2 pi), each product exact. Products
** that are integers (or that a finer piece can not change) drop out by themselves. */
FL_FN void fl_quarter_add(double d, double piece, double *sum, double *quarters) {
  const double p = d * piece, v = fma(p - rint(p), 4.0, *sum), k = rint(v);
  *sum = v - k;
  *quarters += k;
}

FL_FN float fl_quarter_far(float x, int32_t *q) {
  const double d = (double)x;
  double s = 0.0, k = 0.0;
  fl_quarter_add(d, 0x1b93910p-52, &s, &k);
  fl_quarter_add(d, 0x1529fc2p-78, &s, &k);
  fl_quarter_add(d, 0x1d5f47dp-104, &s, &k);
  fl_quarter_add(d, 0x134ddc0p-130, &s, &k);
  fl_quarter_add(d, 0x36d8a56p-156, &s, &k);
  fl_quarter_add(d, 0x193c439p-182, &s, &k);
  fl_quarter_add(d, 0x107f94p-208, &s, &k);
  *q = (int32_t)(uint32_t)fl_bits_f64(k + 0x1.8p52);
  return (float)(s * 1.5707963267948966);
}

FL_FN float fl_quarter(float x, int32_t *q) {
  int32_t far;
  const float r = fl_quarter_near(x, q);
#ifdef __CUDACC__
  if (fl_abs_f32(x) < 0x1p49f) return r;                   /* the same value, sooner */
#endif
  const float s = fl_quarter_far(x, &far);
  const int is_far = fl_abs_f32(x) >= 0x1p49f;
  *q = is_far ? far : *q;
  return is_far ? s : r;
}

FL_FN float fl_sin_kernel(float r) {                       /* |r| <= pi/4 */
  const float z = r * r;
  float p = -0.000195149521f;
  p = fmaf(p, z, 0.00833215844f);
  p = fmaf(p, z, -0.166666552f);
  return fmaf(r * z, p, r);
}

FL_FN float fl_cos_kernel(float r) {
  const float z = r * r;
  float p = 2.44327839e-05f;
  p = fmaf(p, z, -0.0013887313f);
  p = fmaf(p, z, 0.0416666456f);
  return fmaf(z * z, p, fmaf(z, -0.5f, 1.0f));
}

FL_FN float fl_turned(float r, int32_t q) {                /* sin(r + q pi/2) */
  const float s = fl_sin_kernel(r), c = fl_cos_kernel(r);
  const float v = q & 1 ? c : s;
  return fl_as_f32(fl_bits_f32(v) ^ (((uint32_t)q & 2u) << 30));
}

FL_FN float fl_sin_f32(float x) {
  int32_t q;
  const float r = fl_quarter(x, &q), v = fl_turned(r, q);
  return x == 0.0f ? x : v;
}

FL_FN float fl_cos_f32(float x) {
  int32_t q;
  const float r = fl_quarter(x, &q);
  return fl_turned(r, (int32_t)((uint32_t)q + 1u));
}

FL_FN float fl_tan_f32(float x) {
  int32_t q;
  const float r = fl_quarter(x, &q), s = fl_sin_kernel(r), c = fl_cos_kernel(r);
  const float v = (q & 1 ? -c : s) / (q & 1 ? s : c);
  return x == 0.0f ? x : v;
}

/* The same bits as sin, cos, tan for |x| < 2^49 (elsewhere: anything), several times faster in a
** vector loop: for callers that have looked at the block of values first. */
FL_FN float fl_sin_near_f32(float x) {
  int32_t q;
  const float r = fl_quarter_near(x, &q), v = fl_turned(r, q);
  return x == 0.0f ? x : v;
}

FL_FN float fl_cos_near_f32(float x) {
  int32_t q;
  const float r = fl_quarter_near(x, &q);
  return fl_turned(r, (int32_t)((uint32_t)q + 1u));
}

FL_FN float fl_tan_near_f32(float x) {
  int32_t q;
  const float r = fl_quarter_near(x, &q), s = fl_sin_kernel(r), c = fl_cos_kernel(r);
  const float v = (q & 1 ? -c : s) / (q & 1 ? s : c);
  return x == 0.0f ? x : v;
}

/* asin(s) / s - 1 over z = s s, z <= 1/4 */
FL_FN float fl_asin_kernel(float z) {
  float p = 0.0422248878f;
  p = fmaf(p, z, 0.0241475515f);
  p = fmaf(p, z, 0.0454762988f);
  p = fmaf(p, z, 0.0749525502f);
  p = fmaf(p, z, 0.166667536f);
  return p * z;
}

/* Near 1: asin a = pi/2 - 2 asin(sqrt((1 - a) / 2)). */
FL_FN float fl_asin_f32(float x) {
  const float a = fl_abs_f32(x), h = fmaf(a, -0.5f, 0.5f);
  const float z = a < 0.5f ? a * a : h, w = sqrtf(h), s = a < 0.5f ? a : w;
  const float v = fmaf(s, fl_asin_kernel(z), s);
  const float u = 1.57079637f - fmaf(2.0f, v, 4.37113883e-08f);
  return fl_copysign_f32(a < 0.5f ? v : u, x);
}

FL_FN float fl_acos_f32(float x) {
  const float a = fl_abs_f32(x), h = fmaf(a, -0.5f, 0.5f);
  const float z = a < 0.5f ? a * a : h, w = sqrtf(h), s = a < 0.5f ? a : w;
  const float p = fl_asin_kernel(z), v = fmaf(s, p, s);
  const float m = 1.57079637f - (fl_copysign_f32(v, x) + 4.37113883e-08f);
  const float u = x < 0.0f ? 3.14159274f - fmaf(2.0f, v, 8.74227766e-08f) : 2.0f * v;
  return a < 0.5f ? m : u;
}

FL_FN float fl_atan_kernel(float t) {                      /* |t| <= 1 */
  const float z = t * t;
  float p = -0.00179361692f;
  p = fmaf(p, z, 0.0109145865f);
  p = fmaf(p, z, -0.0311778132f);
  p = fmaf(p, z, 0.0579575673f);
  p = fmaf(p, z, -0.0840344876f);
  p = fmaf(p, z, 0.109521858f);
  p = fmaf(p, z, -0.142642424f);
  p = fmaf(p, z, 0.199985489f);
  p = fmaf(p, z, -0.333332986f);
  return fmaf(t * z, p, t);
}

FL_FN float fl_atan_f32(float x) {
  const float a = fl_abs_f32(x), i = 1.0f / a;
  const float p = fl_atan_kernel(a > 1.0f ? i : a);
  const float u = 1.57079637f - (p + 4.37113883e-08f);
  return fl_copysign_f32(a > 1.0f ? u : p, x);
}

FL_FN float fl_atan2_f32(float y, float x) {
  const float a = fl_abs_f32(y), b = fl_abs_f32(x);
  const float m = a > b ? b : a, n = a > b ? a : b, d = m / n;
  const float t = m == n ? (n == 0.0f ? 0.0f : 1.0f) : d;        /* 0/0 and inf/inf too */
  const float p = fl_atan_kernel(t);
  const float u = 1.57079637f - (p + 4.37113883e-08f), v = a > b ? u : p;
  const float w = 3.14159274f - (v + 8.74227766e-08f);
  const float r = fl_bits_f32(x) >> 31 ? w : v;
  return ((x != x) | (y != y)) ? x + y : fl_copysign_f32(r, y);
}

/* ---- f32: hyperbolic functions ----------------------------------------------------- */

FL_FN float fl_sinh_f32(float x) {
  const float a = fl_abs_f32(x), z = a * a;
  const float h = fl_exp_scaled(a > 90.0f ? 90.0f : a, -1), g = h - 0.25f / h;
  float p = 2.81695156e-06f;
  p = fmaf(p, z, 0.000198361595f);
  p = fmaf(p, z, 0.0083333496f);
  p = fmaf(p, z, 0.166666672f);
  const float v = fmaf(a * z, p, a);
  return fl_copysign_f32(a < 1.0f ? v : g, x);
}

FL_FN float fl_cosh_f32(float x) {
  const float a = fl_abs_f32(x), h = fl_exp_scaled(a > 90.0f ? 90.0f : a, -1);
  return h + 0.25f / h;
}

FL_FN float fl_tanh_f32(float x) {
  const float a = fl_abs_f32(x), z = a * a, b = a > 10.0f ? 10.0f : a;
  int32_t n;
  const float e = fl_exp_kernel(fl_exp_reduce(b + b, &n)) + 1.0f;
  const float g = fmaf(e, fl_as_f32((uint32_t)(n + 127) << 23), 1.0f);    /* e^2a + 1 */
  const float u = 1.0f - 2.0f / g;
  float p = -0.00589529891f;
  p = fmaf(p, z, 0.02079615f);
  p = fmaf(p, z, -0.0537839048f);
  p = fmaf(p, z, 0.133319259f);
  p = fmaf(p, z, -0.333332986f);
  const float v = fmaf(a * z, p, a);
  return fl_copysign_f32(a < 0.6f ? v : u, x);
}

FL_FN float fl_asinh_f32(float x) {
  const float a = fl_abs_f32(x), z = a * a;
  const int big = a > 0x1p30f;                             /* log(2a), as log(a) + log 2 */
  const float y = a + z / (1.0f + sqrtf(z + 1.0f));
  const float l = fl_log1p_f32(big ? a : y), v = big ? l + 0.693147182f : l;
  return fl_copysign_f32(v, x);
}

FL_FN float fl_acosh_f32(float x) {
  const int big = x > 0x1p30f;
  const float t = x - 1.0f, y = t + sqrtf(fmaf(t, t, t + t));
  const float l = fl_log1p_f32(big ? x : y), v = big ? l + 0.693147182f : l;
  return x < 1.0f ? fl_as_f32(0x7fc00000u) : v;
}

FL_FN float fl_atanh_f32(float x) {
  const float a = fl_abs_f32(x);
  const float v = 0.5f * fl_log1p_f32((a + a) / (1.0f - a));
  return fl_copysign_f32(v, x);
}

/* ---- f32: error functions ---------------------------------------------------------- */

FL_FN float fl_erf_kernel(float x) {                       /* |x| < 0.94 */
  const float z = x * x;
  float p = 8.31682628e-05f;
  p = fmaf(p, z, -0.000813003338f);
  p = fmaf(p, z, 0.00519990968f);
  p = fmaf(p, z, -0.0268589426f);
  p = fmaf(p, z, 0.112836875f);
  p = fmaf(p, z, -0.376126319f);
  p = fmaf(p, z, 0.128379166f);
  return fmaf(x, p, x);
}

/* Below 0.93 an odd polynomial, above 1 - e^(log erfc) with a polynomial for log erfc. */
FL_FN float fl_erf_f32(float x) {
  const float a = fl_abs_f32(x), b = a > 3.95f ? 3.95f : a, v = fl_erf_kernel(a);
  float q = -2.10951112e-05f;
  q = fmaf(q, b, 0.00043446332f);
  q = fmaf(q, b, -0.00417106645f);
  q = fmaf(q, b, 0.0251194369f);
  q = fmaf(q, b, -0.1082801f);
  q = fmaf(q, b, -0.633346915f);
  q = fmaf(q, b, -1.12951493f);
  q = fmaf(q, b, 0.000174685701f);
  int32_t n;
  const float e = fl_exp_kernel(fl_exp_reduce(q, &n)) + 1.0f;
  const float u = fmaf(e, -fl_as_f32((uint32_t)(n + 127) << 23), 1.0f);
  const float w = a < 0.93f ? v : u;
  return fl_copysign_f32(a != a ? a : w, x);
}

/* erfc a = e^(-a a) h(t) / (1 + 2 a), t = (a - 2) / (a + 2); the square is kept in two parts. */
FL_FN float fl_erfc_f32(float x) {
  const float m = fl_abs_f32(x), a = m > 10.2f ? 10.2f : m, t = (a - 2.0f) / (a + 2.0f);
  float h = -0.000399447337f;
  h = fmaf(h, t, -0.00122799934f);
  h = fmaf(h, t, 0.00131330849f);
  h = fmaf(h, t, 0.00863009505f);
  h = fmaf(h, t, -0.0080601424f);
  h = fmaf(h, t, -0.0542038828f);
  h = fmaf(h, t, 0.164055422f);
  h = fmaf(h, t, -0.166031465f);
  h = fmaf(h, t, -0.0927639827f);
  h = fmaf(h, t, 1.27697837f);
  const float z = a * a, low = fmaf(a, a, -z);
  int32_t n;
  const float e = fl_exp_kernel(fl_exp_reduce(-z, &n)) + 1.0f;
  const float g = fmaf(e, -low, e) * (h / fmaf(a, 2.0f, 1.0f));
  const float v = fl_scale_f32(g, n), w = x < 0.0f ? 2.0f - v : v;
  return m < 0.5f ? 1.0f - fl_erf_kernel(x) : w;
}

/* x P(w), w = -log(1 - x x); from w = 5 on P over sqrt(w). */
FL_FN float fl_erfinv_f32(float x) {
  const float a = fl_abs_f32(x), w = -fl_log_f32((1.0f - a) * (1.0f + a));
  const float u = w - 2.5f, s = sqrtf(w) - 3.0f;
  float p = -8.79107631e-09f;
  p = fmaf(p, u, 2.32326567e-08f);
  p = fmaf(p, u, 4.66171286e-07f);
  p = fmaf(p, u, -3.46270463e-06f);
  p = fmaf(p, u, -4.96335224e-06f);
  p = fmaf(p, u, 0.000218344445f);
  p = fmaf(p, u, -0.0012527419f);
  p = fmaf(p, u, -0.00417738687f);
  p = fmaf(p, u, 0.24664028f);
  p = fmaf(p, u, 1.50140941f);
  float q = 0.000115817442f;
  q = fmaf(q, s, -0.000309782656f);
  q = fmaf(q, s, -5.68092182e-05f);
  q = fmaf(q, s, 0.00148530817f);
  q = fmaf(q, s, -0.00359744392f);
  q = fmaf(q, s, 0.00568690384f);
  q = fmaf(q, s, -0.00763727399f);
  q = fmaf(q, s, 0.00944529381f);
  q = fmaf(q, s, 1.00167501f);
  q = fmaf(q, s, 2.83297682f);
  const float v = x * (w < 5.0f ? p : q);
  return a == 1.0f ? fl_copysign_f32(fl_highest_f32(), x) : v;
}

/* ---- f32: powers ------------------------------------------------------------------- */

/* Halley's iteration from a guess in the exponent; ends of the range are moved inside. */
FL_FN float fl_cbrt_f32(float x) {
  const float a = fl_abs_f32(x);
  const int big = a > 0x1p90f, tiny = a < 0x1p-100f;
  const float up = tiny ? 0x1p96f : 1.0f, down = tiny ? 0x1p-32f : 1.0f;
  const float c = a * (big ? 0x1p-96f : up);
  const int32_t third = (int32_t)((float)(int32_t)fl_bits_f32(c) * 0.333333343f);
  float y = fl_as_f32((uint32_t)third + 709958130u);
  float y3 = y * y * y;
  y = y * ((y3 + c + c) / (y3 + y3 + c));
  y3 = y * y;
  const float r = fmaf(-y3, y, c);
  y = y + y * (r / fmaf(y3 + y3, y, c));
  const float v = y * (big ? 0x1p32f : down);
  const int plain = (a > 0.0f) & (a < fl_highest_f32());
  return plain ? fl_copysign_f32(v, x) : x;
}

FL_FN float fl_hypot_f32(float x, float y) {
  const double a = (double)x, b = (double)y;
  const float v = (float)sqrt(fma(a, a, b * b));
  return (fl_isinf_f32(x) | fl_isinf_f32(y)) ? fl_highest_f32() : v;
}

/* log2 of x > 0 (finite, normal as a double) with an error below 2^-44 of it. */
FL_FN double fl_pow_log2(double x) {
  const uint64_t b = fl_bits_f64(x) - 0x3fe6a09e00000000u;
  /* The exponent e as a double: its bits under those of 1.5 2^52; b is made positive first. */
  const uint64_t e = ((b + 0x4000000000000000u) >> 52) & 0x7ff;
  const double n = fl_as_f64(e + 0x4338000000000000u) - (0x1.8p52 + 1024.0);
  const double m = fl_as_f64((b & 0xfffffffffffffu) + 0x3fe6a09e00000000u);
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double p = 0.2829209046197403;
  p = fma(p, z, 0.31990432096040655);
  p = fma(p, z, 0.4122092839486933);
  p = fma(p, z, 0.5770779420734807);
  p = fma(p, z, 0.9617966941142654);
  p = fma(p, z, 2.8853900817778495);
  return fma(s, p, n);
}

FL_FN float fl_pow_exp2(double t) {                        /* |t| < 1000; rounds once */
  const double k = t + 0x1.8p52, r = t - (k - 0x1.8p52);
  double p = 1.325966394236328e-06;
  p = fma(p, r, 1.5316487114533108e-05);
  p = fma(p, r, 0.00015403436434377428);
  p = fma(p, r, 0.0013333422538522593);
  p = fma(p, r, 0.009618129183671225);
  p = fma(p, r, 0.05550410976236768);
  p = fma(p, r, 0.24022650695737163);
  p = fma(p, r, 0.6931471805349886);
  return (float)fl_as_f64(fl_bits_f64(fma(p, r, 1.0)) + (fl_bits_f64(k) << 52));
}

/* C99's pow: x^0 and 1^y are 1 even for NaN; a negative base needs an integer exponent. */
FL_FN float fl_pow_f32(float x, float y) {
  const float a = fl_abs_f32(x), inf = fl_highest_f32(), half = y * 0.5f;
  const int whole = truncf(y) == y, odd = whole & (truncf(half) != half);
  const double t = (double)y * fl_pow_log2((double)a), m = fl_abs_f64(t);
  const float v = fl_pow_exp2(fl_copysign_f64(m > 300.0 ? 300.0 : m, t));
  const float end = (a == 0.0f) != (y < 0.0f) ? 0.0f : inf;            /* of bases 0 and inf */
  const float one = a == 1.0f ? 1.0f : v, u = ((a == 0.0f) | (a == inf)) ? end : one;
  const float w = ((x < 0.0f) & !whole & (a < inf)) ? fl_as_f32(0x7fc00000u) : u;
  const uint32_t sign = odd ? fl_bits_f32(x) & 0x80000000u : 0u;
  const float s = fl_as_f32(fl_bits_f32(w) ^ sign);
  const float n = ((x != x) | (y != y)) ? x + y : s;
  return ((y == 0.0f) | (x == 1.0f)) ? 1.0f : n;
}

/* ---- f32 by way of double ---------------------------------------------------------- */

FL_FN float fl_lgamma_f32(float x) { return (float)fl_own_lgamma((double)x); }
FL_FN float fl_digamma_f32(float x) { return (float)fl_digamma_f64((double)x); }
FL_FN float fl_trigamma_f32(float x) { return (float)fl_trigamma_f64((double)x); }

/* ---- Philox4x32-10 ----------------------------------------------------------------- */

typedef struct fl_u32x4 { uint32_t w[4]; } fl_u32x4;

FL_FN fl_u32x4 fl_philox_round(fl_u32x4 c, uint32_t k0, uint32_t k1) {
  const uint64_t p = (uint64_t)0xD2511F53u * c.w[0], q = (uint64_t)0xCD9E8D57u * c.w[2];
  fl_u32x4 r;
  r.w[0] = (uint32_t)(q >> 32) ^ c.w[1] ^ k0;
  r.w[1] = (uint32_t)q;
  r.w[2] = (uint32_t)(p >> 32) ^ c.w[3] ^ k1;
  r.w[3] = (uint32_t)p;
  return r;
}

FL_FN fl_u32x4 fl_philox4(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3,
                          uint32_t k0, uint32_t k1) {
  fl_u32x4 r = { { c0, c1, c2, c3 } };
  for (uint32_t i = 0; i < 10; i++)
    r = fl_philox_round(r, k0 + i * 0x9E3779B9u, k1 + i * 0xBB67AE85u);
  return r;
}

FL_FN fl_u32x4 fl_philox(uint64_t block, uint64_t seed) {
  return fl_philox4((uint32_t)block, (uint32_t)(block >> 32), 0, 0,
                    (uint32_t)seed, (uint32_t)(seed >> 32));
}

/* Element i takes word i % 4 of block base + i / 4. */
FL_FN uint32_t fl_random_u32(int64_t i, uint64_t base, uint64_t seed) {
  const fl_u32x4 r = fl_philox(base + ((uint64_t)i >> 2), seed);
  const uint32_t lo = i & 1 ? r.w[1] : r.w[0], hi = i & 1 ? r.w[3] : r.w[2];
  return i & 2 ? hi : lo;
}

/* Draws of 64 bits (f64, randint): words 2 (i % 2) and the next, the first one high, of block
** base + i / 2. They use n / 2 blocks, so their builders take fl_rng_take(2 n). */
FL_FN uint64_t fl_random_u64(int64_t i, uint64_t base, uint64_t seed) {
  const fl_u32x4 r = fl_philox(base + ((uint64_t)i >> 1), seed);
  const uint32_t hi = i & 1 ? r.w[2] : r.w[0], lo = i & 1 ? r.w[3] : r.w[1];
  return (uint64_t)hi << 32 | lo;
}

FL_FN float fl_uniform01_f32(int64_t i, uint64_t base, uint64_t seed) {
  return (float)(int32_t)(fl_random_u32(i, base, seed) >> 8) * 0x1p-24f;
}

FL_FN double fl_uniform01_f64(int64_t i, uint64_t base, uint64_t seed) {
  return (double)(int64_t)(fl_random_u64(i, base, seed) >> 11) * 0x1p-53;
}

/* The next float below x: uniform draws stay below 'hi' after every rounding. */
FL_FN float fl_below_f32(float x) {
  const uint32_t b = fl_bits_f32(x);
  const uint32_t r = x > 0.0f ? b - 1 : b + 1;
  return x == 0.0f ? fl_as_f32(0x80000001u) : fl_as_f32(r);
}

FL_FN double fl_below_f64(double x) {
  const uint64_t b = fl_bits_f64(x);
  const uint64_t r = x > 0.0 ? b - 1 : b + 1;
  return x == 0.0 ? fl_as_f64(0x8000000000000001u) : fl_as_f64(r);
}

/* The largest half value below hi, given by the encodings next to hi's own. */
FL_FN float fl_below_f16(float hi) {
  const float h = fl_round_f16(hi);
  const uint16_t b = fl_f16_bits(hi);
  const uint16_t z = h > 0.0f ? (uint16_t)(b - 1) : (uint16_t)(b + 1);
  const float below = h == 0.0f ? -0x1p-24f : fl_f16_value(z);
  return h < hi ? h : below;
}

FL_FN float fl_below_bf16(float hi) {
  const float h = fl_round_bf16(hi);
  const uint16_t b = fl_bf16_bits(hi);
  const uint16_t z = h > 0.0f ? (uint16_t)(b - 1) : (uint16_t)(b + 1);
  const float below = h == 0.0f ? -0x1p-133f : fl_bf16_value(z);
  return h < hi ? h : below;
}

/* Uniform in [lo, hi), for lo < hi; lo for lo == hi. */
FL_FN float fl_random_uniform_f32(int64_t i, uint64_t base, uint64_t seed,
                                  float lo, float hi) {
  const float v = fmaf(fl_uniform01_f32(i, base, seed), hi - lo, lo);
  return ((v >= hi) & (lo < hi)) ? fl_below_f32(hi) : v;
}

FL_FN float fl_random_uniform_f16(int64_t i, uint64_t base, uint64_t seed,
                                  float lo, float hi) {
  const float v = fl_round_f16(fmaf(fl_uniform01_f32(i, base, seed), hi - lo, lo));
  return ((v >= hi) & (lo < hi)) ? fl_below_f16(hi) : v;
}

FL_FN float fl_random_uniform_bf16(int64_t i, uint64_t base, uint64_t seed,
                                   float lo, float hi) {
  const float v = fl_round_bf16(fmaf(fl_uniform01_f32(i, base, seed), hi - lo, lo));
  return ((v >= hi) & (lo < hi)) ? fl_below_bf16(hi) : v;
}

FL_FN double fl_random_uniform_f64(int64_t i, uint64_t base, uint64_t seed,
                                   double lo, double hi) {
  const double v = fma(fl_uniform01_f64(i, base, seed), hi - lo, lo);
  return ((v >= hi) & (lo < hi)) ? fl_below_f64(hi) : v;
}

/* An integer from lo to hi inclusive: the high 64 bits of draw * (hi - lo + 1). */
FL_FN int64_t fl_random_randint_i64(int64_t i, uint64_t base, uint64_t seed,
                                    int64_t lo, int64_t hi) {
  const uint64_t d = fl_random_u64(i, base, seed), n = (uint64_t)hi - (uint64_t)lo + 1;
  const uint64_t dl = (uint32_t)d, dh = d >> 32, nl = (uint32_t)n, nh = n >> 32;
  const uint64_t mid = dh * nl + (dl * nl >> 32);                /* no carry is lost */
  const uint64_t low = dl * nh + (uint32_t)mid;
  const uint64_t high = dh * nh + (mid >> 32) + (low >> 32);
  return (int64_t)((uint64_t)lo + (n == 0 ? d : high));          /* n == 0: all of int64 */
}

FL_FN int32_t fl_random_randint_i32(int64_t i, uint64_t base, uint64_t seed,
                                    int32_t lo, int32_t hi) {
  return (int32_t)fl_random_randint_i64(i, base, seed, lo, hi);
}

/* Normals by Box and Muller: the two elements of a pair share radius and angle, the even one
** takes the cosine. f32: pair (i % 4) / 2 of the block, one word each. The radius comes from
** a number in (0, 1], the angle is an integer that is split into quarters exactly. */
FL_FN float fl_normal_radius_f32(uint32_t a) {
  const float u = fmaf((float)(int32_t)(a >> 8), 0x1p-24f,
                       (float)(int32_t)(a & 0xffu) * 0x1p-32f + 0x1p-33f);
  return sqrtf(-2.0f * fl_log_f32(u));
}

FL_FN float fl_normal_turn_f32(uint32_t b, int odd) {
  const uint32_t q = (b + 0x20000000u) >> 30;
  const float t = (float)(int32_t)(b - (q << 30)) * 1.46291807e-09f;      /* pi/2 2^-30 */
  return fl_turned(t, (int32_t)(odd ? q : q + 1u));
}

FL_FN float fl_normal01_f32(int64_t i, uint64_t base, uint64_t seed) {
  const fl_u32x4 r = fl_philox(base + ((uint64_t)i >> 2), seed);
  const uint32_t a = i & 2 ? r.w[2] : r.w[0], b = i & 2 ? r.w[3] : r.w[1];
  return fl_normal_radius_f32(a) * fl_normal_turn_f32(b, (int)(i & 1));
}

FL_FN float fl_random_normal_f32(int64_t i, uint64_t base, uint64_t seed,
                                 float mean, float std) {
  return fmaf(fl_normal01_f32(i, base, seed), std, mean);
}

/* f64: a pair takes a block of its own, words 0 1 for the radius and 2 3 for the angle. */
FL_FN double fl_normal01_f64(int64_t i, uint64_t base, uint64_t seed) {
  const fl_u32x4 r = fl_philox(base + ((uint64_t)i >> 1), seed);
  const uint64_t a = (uint64_t)r.w[0] << 32 | r.w[1], b = (uint64_t)r.w[2] << 32 | r.w[3];
  const double u = (double)(int64_t)((a >> 11) + 1) * 0x1p-53;
  const uint64_t q = ((b >> 11) + 0x4000000000000u) >> 51;
  const double t = (double)(int64_t)((b >> 11) - (q << 51)) * (0x1p-51 * 1.5707963267948966);
  const uint64_t k = i & 1 ? q : q + 1;
  const double s = fl_own_sin(t), c = fl_own_cos(t), v = k & 1 ? c : s;
  return sqrt(-2.0 * fl_own_log(u)) * (k & 2 ? -v : v);
}

FL_FN double fl_random_normal_f64(int64_t i, uint64_t base, uint64_t seed,
                                  double mean, double std) {
  return fma(fl_normal01_f64(i, base, seed), std, mean);
}
#endif
