/*
** ulp: prints the tables of docs/accuracy.md: the largest error of each f32 function of
** tensor/math.h against the C library in double, in units in the last place (ulp) of the exact
** result; and of the f64 functions against the C library in long double, which must have a
** significand of 64 bits or more.
**
**   cc -O2 -mfma -ffp-contract=off -D_GNU_SOURCE -Isrc tools/ulp.c -o ulp -lm && ./ulp [step | f64]
**
** Functions of one argument get every step-th of the 2^32 bit patterns (default 251; 1: all of
** them, some minutes for each function). Those of two arguments get as many random pairs, half of
** them of random bits, half of moderate size. Results below 2^-126 are counted in units of 2^-149;
** infinity is taken as 2^128; a wrong NaN or sign of zero counts as 1e9. f64 functions get 20
** million values each, half of them of random bits, the others below 1, 16 and 1024.
*/
#include "tensor/math.h"
#include "../spec/c/ulp.h"
#include <stdio.h>
#include <stdlib.h>

#define F(f) { #f, fl_##f##_f32, f },
#define G(f, g) { #f, fl_##f##_f32, g },
static const struct { const char *name; float (*f)(float); double (*g)(double); } one[] = {
  F(exp) F(exp2) F(expm1) F(log) F(log2) F(log10) F(log1p) F(sin) F(cos) F(tan) F(asin) F(acos)
  F(atan) F(sinh) F(cosh) F(tanh) F(asinh) F(acosh) F(atanh) F(erf) F(erfc) F(sqrt) F(cbrt)
  G(sigmoid, d_sigmoid) G(softplus, d_softplus) G(erfinv, fl_erfinv_f64) G(lgamma, d_lgamma)
  G(digamma, fl_digamma_f64) G(trigamma, fl_trigamma_f64)
};
static const struct { const char *name; float (*f)(float, float); double (*g)(double, double);
                      } two[] = {
  F(pow) F(atan2) F(hypot) F(fmod)
};

static void test_one(size_t k, uint64_t step) {
  double worst = 0;
  float at = 0;
  for (uint64_t b = 0; b <= UINT32_MAX; b += step) {
    const float x = fl_as_f32((uint32_t)b);
    const double e = error_of(one[k].f(x), one[k].g((double)x));
    if (e > worst) worst = e, at = x;
  }
  printf("| %s | %.2f | %.9g |\n", one[k].name, worst, (double)at);
  fflush(stdout);
}

static float draw(int64_t i, uint64_t which) {
  const uint32_t w = fl_random_u32(i, 0, which);
  return i & 1 ? fl_as_f32(w) : (float)(int32_t)w * 0x1p-27f;
}

static void test_two(size_t k, uint64_t step) {
  double worst = 0;
  float ax = 0, ay = 0;
  for (int64_t i = 0; i < (int64_t)(UINT32_MAX / step); i++) {
    const float x = draw(i, 1), y = draw(i, 2);
    const double e = error_of(two[k].f(x, y), two[k].g((double)x, (double)y));
    if (e > worst) worst = e, ax = x, ay = y;
  }
  printf("| %s | %.2f | %.9g, %.9g |\n", two[k].name, worst, (double)ax, (double)ay);
  fflush(stdout);
}

/* ---- f64 -------------------------------------------------------------------------------- */
#define L(f) { #f, fl_##f##_f64, f##l },
#define M(f, g) { #f, fl_##f##_f64, g },
static const struct { const char *name; double (*f)(double); long double (*g)(long double);
                      } wide[] = {
  L(exp) L(exp2) L(expm1) L(log) L(log2) L(log10) L(log1p) L(sin) L(cos) L(tan) L(asin) L(acos)
  L(atan) L(sinh) L(cosh) L(tanh) L(asinh) L(acosh) L(atanh) L(erf) L(erfc) L(sqrt) L(cbrt)
  M(sigmoid, l_sigmoid) M(softplus, l_softplus) M(lgamma, l_lgamma)
};

#define L2(f) { #f, fl_##f##_f64, f##l },
static const struct { const char *name; double (*f)(double, double);
                      long double (*g)(long double, long double); } wide2[] = {
  L2(pow) L2(atan2) L2(hypot) L2(fmod)
};

static double wide_draw(int64_t i, uint64_t which) {
  const uint64_t w = (uint64_t)fl_random_u32(2 * i, 0, which) << 32 | fl_random_u32(2 * i + 1,
                                                                                    0, which);
  return i & 1 ? fl_as_f64(w) : (double)(int64_t)w * (i & 2 ? 0x1p-63 : i & 4 ? 0x1p-59 : 0x1p-53);
}

static void test_wide2(size_t k) {
  double worst = 0, ax = 0, ay = 0;
  for (int64_t i = 0; i < 20000000; i++) {
    const double x = wide_draw(i, 1), y = wide_draw(i, 2);
    const double e = wide_error(wide2[k].f(x, y), wide2[k].g((long double)x, (long double)y));
    if (e > worst) worst = e, ax = x, ay = y;
  }
  printf("| %s | %.2f | %.17g, %.17g |\n", wide2[k].name, worst, ax, ay);
  fflush(stdout);
}

static void test_wide(size_t k) {
  double worst = 0, at = 0;
  for (int64_t i = 0; i < 20000000; i++) {
    const double x = wide_draw(i, 1);
    const double e = wide_error(wide[k].f(x), wide[k].g((long double)x));
    if (e > worst) worst = e, at = x;
  }
  printf("| %s | %.2f | %.17g |\n", wide[k].name, worst, at);
  fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc > 1 && argv[1][0] == 'f') {
    printf("| function | largest error, ulp | at |\n|---|---|---|\n");
    for (size_t k = 0; k < sizeof wide / sizeof *wide; k++) test_wide(k);
    for (size_t k = 0; k < sizeof wide2 / sizeof *wide2; k++) test_wide2(k);
    return 0;
  }
  const uint64_t step = argc > 1 ? strtoull(argv[1], NULL, 10) : 251;
  if (step == 0) return fprintf(stderr, "ulp: the step is a positive number\n"), 2;
  printf("| function | largest error, ulp | at |\n|---|---|---|\n");
  for (size_t k = 0; k < sizeof one / sizeof *one; k++) test_one(k, step);
  for (size_t k = 0; k < sizeof two / sizeof *two; k++) test_two(k, step);
  return 0;
}
