/*
** Errors in units in the last place (ulp) of an exact result known to more digits, for test_math.c
** and tools/ulp.c: f32 against double, f64 against long double with a significand of 64 bits or
** more. A wrong NaN or sign of zero counts as an error of 1e9. Infinity, and any exact result
** beyond the power of two above the largest number, is taken as that power of two, with its sign:
** a wrong infinity counts as its distance from there. Also reference functions that the C library
** lacks.
*/
#ifndef FL_SPEC_ULP_H
#define FL_SPEC_ULP_H
#include <float.h>
#include <math.h>

static inline double error_of(float v, double r) {
  int e;
  if (v != v || r != r) return (v != v) && (r != r) ? 0 : 1e9;
  if (fabs(r) > 0x1p128) r = copysign(0x1p128, r);
  const double w = isinf(v) ? copysign(0x1p128, (double)v) : (double)v;
  if (r == 0 && v == 0) return !signbit(r) == !signbit(w) ? 0 : 1e9;
  (void)frexp(r, &e);
  return fabs(w - r) / (fabs(r) < 0x1p-126 ? 0x1p-149 : ldexp(1, (e > 128 ? 128 : e) - 24));
}

static inline double wide_error(double v, long double r) {
  int e;
  if (v != v || r != r) return (v != v) && (r != r) ? 0 : 1e9;
  if (fabsl(r) > 0x1p1024L) r = copysignl(0x1p1024L, r);
  const long double w = isinf(v) ? copysignl(0x1p1024L, (long double)v) : (long double)v;
  if (r == 0 && v == 0) return !signbit(r) == !signbit(w) ? 0 : 1e9;
  (void)frexpl(r, &e);
  return (double)(fabsl(w - r) / (fabsl(r) < 0x1p-1022L
                                  ? 0x1p-1074L : ldexpl(1, (e > 1024 ? 1024 : e) - 53)));
}

static inline double d_sigmoid(double x) {
  return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}
static inline double d_softplus(double x) {
  return x != x ? x : (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}
static inline double d_lgamma(double x) { int s; return lgamma_r(x, &s); }
static inline long double l_sigmoid(long double x) {
  return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}
static inline long double l_softplus(long double x) {
  return x != x ? x : (x > 0 ? x : 0) + log1pl(expl(-fabsl(x)));
}
static inline long double l_lgamma(long double x) { int s; return lgammal_r(x, &s); }

/* erfinv x in long double: one step of Newton's method from y, its value in double. Where erf is
** near 1, erfc is used. */
static inline long double l_erfinv(double x, double y) {
  if (!(fabs(x) < 1) || x == 0) return fabs(x) == 1 ? copysignl(INFINITY, x) : x == 0 ? x : NAN;
  const long double a = fabsl(x), z = fabsl(y), off = z < 0.5L ? erfl(z) - a : (1 - a) - erfcl(z);
  return copysignl(z - off * 0.886226925452758013649L * expl(z * z), x);
}
#endif
