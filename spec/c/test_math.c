/*
** tensor/math.h, tensor/dtype.c, tensor/ops.c.
** Accuracy: f32 functions against the C library in double, at every p-th bit pattern (p a prime;
** subnormals, infinities and NaN among them), within limits in units in the last place. Also
** special values, integer division, casts, half types, Philox's published test vectors, ranges of
** draws, and the op table. test_math_device.c tests the same functions on a GPU.
*/
#include "tensor/dtype.h"
#include "tensor/math.h"
#include "tensor/ops.h"
#include "ulp.h"
#include <stdio.h>
#include <stdlib.h>

static int passed, failed;

static void check(int ok, const char *what) {
  if (ok) passed++;
  else { failed++; fprintf(stderr, "FAILED: %s\n", what); }
}

/* ---- accuracy ---------------------------------------------------------------------------- */

#define SAME(f, limit) { #f, fl_##f##_f32, f, limit },
#define OWN(f, reference, limit) { #f, fl_##f##_f32, reference, limit },
static const struct { const char *name; float (*f)(float); double (*g)(double); double limit;
                      } fun[] = {
  SAME(exp, 1.5) SAME(exp2, 1.5) SAME(expm1, 2) SAME(log, 1.5) SAME(log2, 1.5) SAME(log10, 1.5)
  SAME(log1p, 2) SAME(sin, 2) SAME(cos, 2) SAME(tan, 4) SAME(asin, 3) SAME(acos, 2)
  SAME(atan, 2) SAME(sinh, 2) SAME(cosh, 2) SAME(tanh, 2) SAME(asinh, 3) SAME(acosh, 3)
  SAME(atanh, 3) SAME(erf, 2) SAME(erfc, 4) SAME(cbrt, 1) SAME(sqrt, 0.5)
  OWN(sigmoid, d_sigmoid, 3) OWN(softplus, d_softplus, 2) OWN(lgamma, d_lgamma, 1)
  OWN(erfinv, fl_erfinv_f64, 4) OWN(digamma, fl_digamma_f64, 0.51)
  OWN(trigamma, fl_trigamma_f64, 0.51)
};

static void test_accuracy(void) {
  for (size_t k = 0; k < sizeof fun / sizeof *fun; k++) {
    double worst = 0;
    float at = 0;
    for (uint64_t b = 0; b <= UINT32_MAX; b += k < 16 ? 4099 : 8209) {
      const float x = fl_as_f32((uint32_t)b);
      const double e = error_of(fun[k].f(x), fun[k].g((double)x));
      if (e > worst) worst = e, at = x;
    }
    char what[96];
    snprintf(what, sizeof what, "%s is off by %.3g ulp at %a", fun[k].name, worst, (double)at);
    check(worst <= fun[k].limit, what);
  }
}

/* fl_exp_below, for x <= 0, must have the bits of fl_exp: at every 1021st f32, and at all near
** those where results become subnormal and 0. */
static void test_exp_below(void) {
  const float ends[] = { -87.33655f, -103.27893f, -103.97208f, -104.5f, -105.0f };
  int differ = 0;
  for (uint64_t b = fl_bits_f32(-0.0f); b <= fl_bits_f32(-INFINITY); b += 1021)
    differ += fl_bits_f32(fl_exp_below_f32(fl_as_f32((uint32_t)b))) !=
              fl_bits_f32(fl_exp_f32(fl_as_f32((uint32_t)b)));
  for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
    for (uint32_t b = fl_bits_f32(ends[k]) - 40000; b < fl_bits_f32(ends[k]) + 40000; b++)
      differ += fl_bits_f32(fl_exp_below_f32(fl_as_f32(b))) !=
                fl_bits_f32(fl_exp_f32(fl_as_f32(b)));
  check(!differ, "exp_below has the bits of exp");
  check(fl_exp_below_f32(0.0f) == 1 && fl_exp_below_f32(-INFINITY) == 0 &&
        isnan(fl_exp_below_f32(NAN)) && fl_exp_below_f32(-0x1p127f) == 0, "exp_below at the ends");
}

static const float edges[] = {
  0.0f, -0.0f, 0.5f, -0.5f, 1.0f, -1.0f, 1.5f, -1.5f, 2.0f, -2.0f, 3.0f, -3.0f, 4.0f, -7.0f,
  INFINITY, -INFINITY, NAN, 0x1p-149f, -0x1p-149f, 0x1p-126f, 0x1.fffffep127f, -0x1.fffffep127f,
  88.72284f, -87.33655f, -103.97208f, -104.0f, 128.0f, -149.0f, -150.0f, -126.0f, 89.41599f,
  0.6f, 0.93f, 10.05f, 0x1p49f, 0x1.fffffep48f, -0x1p50f, 0x1p60f, 0x1p24f, 16777215.0f, 0.99999994f
};
enum { NEDGES = sizeof edges / sizeof *edges };

static void test_edges(void) {
  for (size_t k = 0; k < sizeof fun / sizeof *fun; k++)
    for (int i = 0; i < NEDGES; i++) {
      const float v = fun[k].f(edges[i]);
      char what[96];
      snprintf(what, sizeof what, "%s(%a) = %a", fun[k].name, (double)edges[i], (double)v);
      check(error_of(v, fun[k].g((double)edges[i])) <= fun[k].limit, what);
    }
}

/* ---- f64 functions against long double, where long double has more digits -------------------- */
#if LDBL_MANT_DIG >= 64
static const double odd[] = { 0, 0.5, 1, 1.5707963267948966, 3.141592653589793, 0.41421356237309503,
                              2.414213562373095,
  0.9, 6, 22, 27.3, 40, 0.34657359027997264, 0.7071067811865476, 1.4142135623730951,
  709.78271289338397, 709.8, 710, 710.4758600739439, 710.47586007394398, 711, 745.13, 745.14, 746,
  1022, 1023.9999999999999, 1024, 1074, 1075, 1080, 0x1p-1074, 0x1p-1022, 0x1.fffffffffffffp-1023,
  0x1p-500, 0x1p-450, 0x1p-54, 0x1p-53, 0x1p-30, 0x1p20, 0x1.fffffffffffffp19, 0x1p21, 0x1p53,
  0x1p60, 0x1p61, 0x1p500, 0x1p501, 0x1.fffffffffffffp1023, 6381956970095103e255, INFINITY, NAN };
enum { NODD = sizeof odd / sizeof *odd, WIDE_FROM = -16 * NODD, WIDE_TO = 300000 };

/* Sample i. i < 0: special values, their neighbours, and the negatives of both; i >= 0: random
** bits, or a random number of magnitude below 1, 16 or 1024. */
static double wide_sample(int64_t i, uint64_t which) {
  if (i >= 0) {
    const uint64_t w = (uint64_t)fl_random_u32(2 * i, 9, which) << 32 |
                       fl_random_u32(2 * i + 1, 9, which);
    return i & 1 ? fl_as_f64(w)
                 : (double)(int64_t)w * (i & 2 ? 0x1p-63 : i & 4 ? 0x1p-59 : 0x1p-53);
  }
  const int64_t j = -i - 1;
  const double y = odd[j / 16];
  const double x = fl_as_f64(fl_bits_f64(y) + (uint64_t)(y > 0 && y < INFINITY ? j % 8 - 3 : 0));
  return j & 8 ? -x : x;
}

typedef struct worst { double e, x, y; } worst;
static void note_worst(worst *w, double e, double x, double y) {
  if (e > w->e) *w = (worst){ e, x, y };
}
static void check_worst(const worst *w, const char *name, double limit) {
  char what[128];
  snprintf(what, sizeof what, "%s of f64 is off by %.3g ulp at %a, %a", name, w->e, w->x, w->y);
  check(w->e <= limit, what);
}

static void test_wide(void) {
#define WIDE(f, g, limit) { #f, fl_##f##_f64, g, limit },
  static const struct { const char *name; double (*f)(double); long double (*g)(long double);
                        double limit; } wide[] = {
    WIDE(exp, expl, 0.8) WIDE(exp2, exp2l, 0.8) WIDE(expm1, expm1l, 1.1) WIDE(log, logl, 0.7)
    WIDE(log2, log2l, 0.7)
    WIDE(log10, log10l, 0.7) WIDE(log1p, log1pl, 0.9) WIDE(sin, sinl, 0.8) WIDE(cos, cosl, 0.8)
    WIDE(tan, tanl, 0.9)
    WIDE(asin, asinl, 0.7) WIDE(acos, acosl, 0.7) WIDE(atan, atanl, 0.7) WIDE(sinh, sinhl, 0.85)
    WIDE(cosh, coshl, 0.7)
    WIDE(tanh, tanhl, 0.8) WIDE(asinh, asinhl, 1.8) WIDE(acosh, acoshl, 1.9) WIDE(atanh, atanhl, 2)
    WIDE(erf, erfl, 1.2)
    WIDE(erfc, erfcl, 4) WIDE(sigmoid, l_sigmoid, 2.4) WIDE(softplus, l_softplus, 1.6)
  };
  for (size_t k = 0; k < sizeof wide / sizeof *wide; k++) {
    worst w = { 0 };
    for (int64_t i = WIDE_FROM; i < WIDE_TO; i++) {
      const double x = wide_sample(i, 1);
      note_worst(&w, wide_error(wide[k].f(x), wide[k].g((long double)x)), x, 0);
    }
    check_worst(&w, wide[k].name, wide[k].limit);
  }
  for (int n = -1074; n < 1024; n++)
    check(fl_log2_f64(ldexp(1, n)) == n && fl_exp2_f64(n) == ldexp(1, n),
          "powers of two are exact");
  for (int n = 0; n < 23; n++)
    check(fl_log10_f64(pow(10, n)) == n, "logarithms of powers of ten are exact");
}

static void wide_pair(worst *at, worst *hyp, double x, double y) {
  note_worst(at, wide_error(fl_atan2_f64(x, y), atan2l(x, y)), x, y);
  note_worst(hyp, wide_error(fl_hypot_f64(x, y), hypotl(x, y)), x, y);
}

static void test_wide_pairs(void) {
  worst at = { 0 }, hyp = { 0 }, inv = { 0 };
  for (int64_t i = WIDE_FROM; i < 0; i++)
    for (int64_t j = WIDE_FROM; j < 0; j++)
      wide_pair(&at, &hyp, wide_sample(i, 1), wide_sample(j, 1));
  for (int64_t i = 0; i < WIDE_TO; i++) {
    const double x = wide_sample(i, 1), y = wide_sample(i, 2);
    wide_pair(&at, &hyp, x, y);
    wide_pair(&at, &hyp, x, x * (1 + y * 0x1p-12));
  }
  for (int64_t i = WIDE_FROM; i < WIDE_TO; i++) {
    const double u = wide_sample(i, 1), x = i % 3 == 0 ? 1 - fabs(u) * 0x1p-20 : u,
                 y = fl_erfinv_f64(x);
    note_worst(&inv, wide_error(y, l_erfinv(x, y)), x, 0);
  }
  check_worst(&at, "atan2", 1.3);
  check_worst(&hyp, "hypot", 0.7);   /* more than 0.5, since subnormal results are rounded twice */
  check_worst(&inv, "erfinv", 2);
}
#else
static void test_wide_pairs(void) { }
static void test_wide(void) {
  printf("math: f64 is left out, long double has no more digits here\n");
}
#endif

static float any_float(uint32_t *state) {             /* any bit pattern, or a number near 1 */
  *state = *state * 1664525u + 1013904223u;
  const uint32_t b = *state ^ *state >> 15;
  return *state >> 31 ? fl_as_f32(b) : ((float)(int32_t)b) * 0x1p-27f;
}

static void check_two(const char *name, float v, double r, float x, float y, double limit) {
  const double e = error_of(v, r);
  if (e <= limit) { passed++; return; }
  char what[128];
  snprintf(what, sizeof what, "%s(%a, %a) = %a, off by %.3g",
           name, (double)x, (double)y, (double)v, e);
  check(0, what);
}

static void one_pair(float x, float y) {
  const double a = (double)x, b = (double)y;
  check_two("pow", fl_pow_f32(x, y), pow(a, b), x, y, 1);
  check_two("atan2", fl_atan2_f32(x, y), atan2(a, b), x, y, 2);
  check_two("hypot", fl_hypot_f32(x, y), hypot(a, b), x, y, 1);
  check_two("fmod", fl_fmod_f32(x, y), fmod(a, b), x, y, 0);
}

static void test_pairs(void) {
  uint32_t state = 1;
  for (int i = 0; i < NEDGES; i++)
    for (int j = 0; j < NEDGES; j++) one_pair(edges[i], edges[j]);
  for (int i = 0; i < 200000; i++) {
    const float x = any_float(&state), y = any_float(&state);
    one_pair(x, y);
  }
  for (int i = 1; i < 200; i++)
    check(fl_pow_f32((float)i, 2.0f) == (float)(i * i) &&
          fl_pow_f32((float)i, 3.0f) == (float)(i * i * i),
          "small powers of integers are exact");
}

/* ---- the rest of floats --------------------------------------------------------------------- */

static int same(double a, double b) {
  return a != a ? b != b : a == b && !signbit(a) == !signbit(b);
}

static void test_floats(void) {
  const float inf = INFINITY;
  check(isnan(fl_max_f32(NAN, 1)) && isnan(fl_max_f32(1, NAN)) && isnan(fl_min_f64(NAN, 1)) &&
        isnan(fl_min_f64(1, NAN)), "NaN wins in max and min");
  check(same(fl_max_f32(-0.0f, 0.0f), 0) && same(fl_max_f32(0.0f, -0.0f), 0) &&
        same(fl_min_f32(-0.0f, 0.0f), -0.0) && same(fl_min_f32(0.0f, -0.0f), -0.0) &&
        same(fl_max_f64(-0.0, -0.0), -0.0) && same(fl_min_f64(0.0, 0.0), 0),
        "zeros in max and min");
  check(fl_max_f32(-3, -2) == -2 && fl_min_f32(-3, 2) == -3 && fl_max_f32(5, 5) == 5,
        "max and min");
  check(isnan(fl_relu_f32(NAN)) && fl_relu_f32(-1) == 0 && fl_relu_f32(3) == 3, "relu keeps NaN");
  check(isnan(fl_sign_f32(NAN)) && fl_sign_f32(-2) == -1 && fl_sign_f64(7) == 1 &&
        fl_sign_f64(0) == 0,
        "sign keeps NaN");
  check(fl_isnan_f32(NAN) && !fl_isnan_f32(inf) && fl_isinf_f32(-inf) && !fl_isinf_f64(1e308) &&
        fl_isfinite_f32(1) && !fl_isfinite_f32(NAN) && !fl_isfinite_f64((double)inf),
        "isnan isinf isfinite");
  check(fl_lowest_f32() == -inf && fl_highest_f64() == (double)inf, "lowest and highest of floats");
  check(fl_mod_f32(5, 3) == 2 && fl_mod_f32(-5, 3) == 1 && fl_mod_f32(5, -3) == -1 &&
        fl_mod_f32(-5, -3) == -2 && isnan(fl_mod_f32(1, 0)) && fl_mod_f32(-1, inf) == inf,
        "mod of floats");
  check(fl_floordiv_f32(5, 3) == 1 && fl_floordiv_f32(-5, 3) == -2 &&
        fl_floordiv_f32(5, -3) == -2 && fl_floordiv_f32(1, 0) == inf &&
        fl_floordiv_f32(-1, 0) == -inf && isnan(fl_floordiv_f32(0, 0)) &&
        fl_floordiv_f32(-1, inf) == -1 && fl_floordiv_f32(1, inf) == 0 &&
        fl_floordiv_f64(1.0, 0.1) == 9, "floordiv of floats rounds the exact quotient down");
  check(fl_rint_f32(2.5f) == 2 && fl_rint_f32(-3.5f) == -4 && fl_trunc_f32(-1.5f) == -1 &&
        fl_ceil_f32(1.2f) == 2 && fl_floor_f32(-1.2f) == -2, "roundings");
  check(fl_copysign_f32(2, -0.0f) == -2 && fl_abs_f32(-3) == 3 && same(fl_neg_f32(0), -0.0),
        "signs");
  for (float x = -40; x < 40; x += 0.37f)
    if (fl_sin_near_f32(x) != fl_sin_f32(x) || fl_cos_near_f32(x) != fl_cos_f32(x))
      check(0, "sin_near gives the bits of sin");
}

static void test_f64(void) {
  double worst = 0;
  for (double x = -0.9995; x < 1; x += 0.00037)
    worst = fmax(worst, fabs(erf(fl_erfinv_f64(x)) - x));
  check(worst < 3e-16, "f64 erfinv inverts erf");
  check(fabs(fl_digamma_f64(1) + 0.57721566490153286) < 2e-15 &&
        fabs(fl_digamma_f64(-0.3) - 2.1133097796354) < 1e-12 &&
        fabs(fl_trigamma_f64(1) - 1.6449340668482264) < 4e-15 &&
        fabs(fl_trigamma_f64(-2.7) - 14.7693758451323) < 1e-12, "f64 digamma and trigamma");
  check(fl_sigmoid_f64(-800) >= 0 && fl_softplus_f64(1000) == 1000 &&
        isnan(fl_softplus_f64((double)NAN)) && fabs(fl_sigmoid_f64(-700) / exp(-700) - 1) < 1e-15,
        "f64 sigmoid and softplus");
  worst = 0;
  for (double x = 1e-17; x <= 1; x = x * 1.0009 + 1e-19)
    worst = fmax(worst, fabs(fl_own_log(x) - log(x)) / fmax(fabs(log(x)), 1e-300));
  check(worst < 4e-16, "the generators' log");
}

/* The tanh form of gelu is x sigmoid(w). Where w < 0, that multiplies the relative error of w by
** |w|, so the tests of it have a wider limit. */
static double gelu_w(double x) { return 1.5957691216057308 * x + 0.07135481627260025 * x * x * x; }
static double d_gelu(double x) { return fmax(x, -30) * d_sigmoid(gelu_w(fmax(x, -30))); }
static double d_gelu_slope(double x) {
  const double a = fmin(fmax(x, -30), 30), w = gelu_w(a);
  return d_sigmoid(w) * (1 + a * (1.5957691216057308 + 0.21406444881780073 * a * a) *
                                 d_sigmoid(-w));
}

static void test_gelu(void) {
  double worst = 0, above = 0, slope = 0;
  for (uint64_t b = 0; b <= UINT32_MAX; b += 8209) {
    const float x = fl_as_f32((uint32_t)b);
    if (x != x || x == -INFINITY) continue;
    const double e = error_of(fl_gelu_tanh_f32(x), d_gelu(x));
    worst = fmax(worst, e / (1 + fmin(150, fabs(gelu_w(x)))));
    if (x > 0) above = fmax(above, e);
    slope = fmax(slope, fabs((double)fl_gelu_tanh_slope_f32(x) - d_gelu_slope(x)));
  }
  check(worst < 2.6 && above < 2.6 && slope < 0x1p-22, "gelu_tanh and its slope");
  check(isnan(fl_gelu_tanh_f32(-INFINITY)) && isnan(fl_gelu_tanh_f64(-INFINITY)) &&
        fl_gelu_tanh_f32(INFINITY) == INFINITY && fl_gelu_tanh_f64(INFINITY) == INFINITY &&
        signbit(fl_gelu_tanh_f32(-0.0f)) && fl_gelu_tanh_f32(-1e30f) == 0 &&
        isnan(fl_gelu_tanh_f32(NAN)) &&
        isnan(fl_gelu_tanh_slope_f32(NAN)) && fl_gelu_tanh_slope_f32(INFINITY) == 1 &&
        fl_gelu_tanh_slope_f32(-INFINITY) == 0, "gelu_tanh at the ends");
  for (double x = -26; x < 40; x += 0.0137)
    check(fabs(fl_gelu_tanh_f64(x) - d_gelu(x)) <= 1e-15 * fabs(x) &&
          fabs(fl_gelu_tanh_slope_f64(x) - d_gelu_slope(x)) <= 2e-15, "gelu_tanh in f64");
}

/* ---- integers -------------------------------------------------------------------------------- */

static void test_integers(void) {
  int ok = 1;
  for (int a = -25; a <= 25; a++)
    for (int b = -25; b <= 25; b++) {
      const int q = b ? (int)floor((double)a / b) : 0, r = b ? a - q * b : 0;
      ok &= fl_floordiv_i32(a, b) == q && fl_mod_i32(a, b) == r && fl_floordiv_i64(a, b) == q &&
            fl_mod_i64(a, b) == r && fl_fmod_i32(a, b) == (b ? a % b : 0);
    }
  check(ok, "integer quotients round down, by zero give 0");
  check(fl_floordiv_i32(INT32_MIN, -1) == INT32_MIN && fl_mod_i32(INT32_MIN, -1) == 0 &&
        fl_floordiv_i64(INT64_MIN, -1) == INT64_MIN && fl_mod_i64(INT64_MIN, -1) == 0 &&
        fl_floordiv_i64(INT64_MIN, 0) == 0 && fl_fmod_i64(INT64_MIN, 0) == 0,
        "the lowest integer by -1 wraps");
  check(fl_neg_i32(INT32_MIN) == INT32_MIN && fl_abs_i64(INT64_MIN) == INT64_MIN &&
        fl_add_i32(INT32_MAX, 1) == INT32_MIN && fl_mul_i64(INT64_MAX, 2) == -2 &&
        fl_sub_i32(INT32_MIN, 1) == INT32_MAX, "integers wrap");
  check(fl_pow_i32(3, 5) == 243 && fl_pow_i32(-2, 3) == -8 && fl_pow_i32(7, 0) == 1 &&
        fl_pow_i32(0, 0) == 1 && fl_pow_i32(2, 32) == 0 &&
        fl_pow_i64(-3, 39) == -4052555153018976267 && fl_pow_i32(2, -1) == 0 &&
        fl_pow_i32(1, -5) == 1 && fl_pow_i32(-1, -3) == -1 && fl_pow_i32(-1, -4) == 1 &&
        fl_pow_i64(-1, INT64_MIN) == 1 && fl_pow_i64(0, -1) == 0, "integer powers");
  check(fl_lowest_i32() == INT32_MIN && fl_highest_i64() == INT64_MAX && fl_sign_i64(-9) == -1 &&
        fl_relu_i32(-4) == 0 && fl_max_i64(3, -3) == 3 && fl_isfinite_i32(5) && !fl_isnan_i64(5),
        "the rest of the integers");
}

/* ---- casts and half types -------------------------------------------------------------------- */

static void test_casts(void) {
  check(fl_cast_f32_i32(2147483648.0f) == INT32_MAX && fl_cast_f32_i32(-3e9f) == INT32_MIN &&
        fl_cast_f32_i32(NAN) == 0 && fl_cast_f32_i32(-1.9f) == -1 &&
        fl_cast_f32_i32(2147483520.0f) == 2147483520 &&
        fl_cast_f64_i32(2147483647.5) == INT32_MAX && fl_cast_f64_i32(-2147483648.9) == INT32_MIN &&
        fl_cast_f32_i32(-INFINITY) == INT32_MIN, "float to i32 saturates");
  check(fl_cast_f64_i64(1e300) == INT64_MAX && fl_cast_f32_i64(-INFINITY) == INT64_MIN &&
        fl_cast_f64_i64((double)NAN) == 0 && fl_cast_f64_i64(-0x1p63) == INT64_MIN &&
        fl_cast_f64_i64(4503599627370497.0) == 4503599627370497, "float to i64 saturates");
  check(fl_cast_f32_i8(127.9f) == 127 && fl_cast_f32_i8(-1000) == -128 && fl_cast_f32_u8(-3) == 0 &&
        fl_cast_f32_u8(255.9f) == 255 && fl_cast_f32_u8(300) == 255 &&
        fl_cast_f64_i16(1e9) == 32767 && fl_cast_f64_i16((double)NAN) == 0 &&
        fl_cast_f32_u8(NAN) == 0 && fl_cast_f32_i8(-1.9f) == -1,
        "float to narrow integers saturates");
  check(fl_cast_i64_i32(0x180000001) == -2147483647 && fl_cast_i32_i8(200) == -56 &&
        fl_cast_i32_u8(-1) == 255 && fl_cast_i64_i16(65535) == -1 && fl_cast_i32_i64(-5) == -5,
        "integers wrap into narrower ones");
  check(fl_cast_f32_bool(0.5f) == 1 && fl_cast_f32_bool(NAN) == 1 && fl_cast_f64_bool(-0.0) == 0 &&
        fl_cast_i64_bool(1LL << 40) == 1 && fl_bool(7) == 1, "to bool: is it different from 0");
  check(fl_cast_i32_f32(16777217) == 16777216.0f &&
        fl_cast_i64_f64(9007199254740993) == 9007199254740992.0,
        "integers to floats round to even");
  fl_scalar v = { .d = 300.7 };
  check(fl_scalar_cast(v, FLAME_F64, FLAME_U8).i == 255 &&
        fl_scalar_cast(v, FLAME_F64, FLAME_I32).i == 300 &&
        fl_scalar_cast(v, FLAME_F64, FLAME_F16).d == 300.75, "scalar casts");
  uint16_t h;
  fl_scalar_store(&h, FLAME_F16, v);
  check(fl_scalar_load(&h, FLAME_F16).d == 300.75, "scalar store and load");
}

/* x rounded to p significant bits, of which none is below 2^low; above 'top' it is infinite. */
static double rounded(double x, int p, int low, double top) {
  int e;
  if (x == 0 || x != x || isinf(x)) return x;
  (void)frexp(x, &e);
  const double u = ldexp(1, e - p > low ? e - p : low), r = rint(x / u) * u;
  return fabs(r) > top ? copysign((double)INFINITY, x) : copysign(r, x);
}

static void test_halves(void) {
  int ok = 1;
  for (uint32_t h = 0; h < 65536; h++) {
    const float f = fl_f16_value((uint16_t)h), g = fl_bf16_value((uint16_t)h);
    ok &= f != f ? (h & 0x7fff) > 0x7c00 : fl_f16_bits(f) == h;
    ok &= g != g ? (h & 0x7fff) > 0x7f80 : fl_bf16_bits(g) == h;
  }
  check(ok, "every half value survives the way to f32 and back");
  check(fl_f16_value(1) == 0x1p-24f && fl_f16_value(0x3ff) == 0x3ffp-24f &&
        fl_f16_value(0x7bff) == 65504.0f,
        "half values");
  ok = 1;
  for (uint64_t b = 0; b <= UINT32_MAX; b += 2039) {
    const float x = fl_as_f32((uint32_t)b);
    ok &= same((double)fl_round_f16(x), rounded((double)x, 11, -24, 65504));
    ok &= same((double)fl_round_bf16(x), rounded((double)x, 8, -133, 0x1.fep127));
  }
  check(ok, "f32 to f16 and bf16 rounds to nearest even");
}

/* ---- random numbers -------------------------------------------------------------------------- */

static int words(fl_u32x4 r, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return r.w[0] == a && r.w[1] == b && r.w[2] == c && r.w[3] == d;
}

static void test_philox(void) {
  const uint32_t f = 0xffffffffu;
  check(words(fl_philox4(0, 0, 0, 0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8) &&
        words(fl_philox4(f, f, f, f, f, f), 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd) &&
        words(fl_philox4(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0),
              0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1), "Philox' published vectors");
  int ok = 1;
  for (int64_t i = 0; i < 40; i++) {
    const fl_u32x4 r = fl_philox(7 + (uint64_t)i / 4, 9);
    ok &= fl_random_u32(i, 7, 9) == r.w[i % 4];
    const fl_u32x4 s = fl_philox(7 + (uint64_t)i / 2, 9);
    ok &= fl_random_u64(i, 7, 9) == ((uint64_t)s.w[i % 2 * 2] << 32 | s.w[i % 2 * 2 + 1]);
  }
  check(ok, "element i takes its word of its block");
}

static void test_uniform(void) {
  int ok = 1;
  double sum = 0;
  for (int64_t i = 0; i < 100000; i++) {
    const float u = fl_random_uniform_f32(i, 1, 2, 0, 1), h = fl_random_uniform_f16(i, 1, 2, 0, 1);
    const float b = fl_random_uniform_bf16(i, 1, 2, -3, 2),
                n = fl_random_uniform_f32(i, 1, 2, 1, 1.0000001f);
    const double d = fl_random_uniform_f64(i, 1, 2, -1, 1);
    ok &= u >= 0 && u < 1 && h >= 0 && h < 1 && b >= -3 && b < 2 && n == 1 && d >= -1 && d < 1;
    ok &= fl_round_f16(h) == h && fl_round_bf16(b) == b;
    sum += (double)u;
  }
  check(ok, "uniform draws stay in the range, in half types too");
  check(fabs(sum / 100000 - 0.5) < 0.005, "uniform mean");
  check(fl_below_f16(1) == 0.99951171875f && fl_below_bf16(1) == 0.99609375f &&
        fl_below_f32(0) == -0x1p-149f && fl_below_f32(-1) < -1 && fl_below_f64(1) < 1,
        "the next value below");
}

static void test_normal(void) {
  double m1 = 0, m2 = 0, m4 = 0, d2 = 0, worst = 0;
  const int n = 100000;
  for (int64_t i = 0; i < n; i++) {
    const double x = (double)fl_random_normal_f32(i, 3, 4, 0, 1),
                 y = fl_random_normal_f64(i, 3, 4, 0, 1);
    m1 += x, m2 += x * x, m4 += x * x * x * x, d2 += y * y;
    const fl_u32x4 r = fl_philox(3 + (uint64_t)i / 4, 4);
    const int64_t pair = i % 4 / 2 * 2;
    const double u = (r.w[pair] + 0.5) * 0x1p-32, t = (double)r.w[pair + 1] * 0x1p-32;
    const double e = sqrt(-2 * log(u)) * (i % 2 ? sin(t * 6.283185307179586)
                                                : cos(t * 6.283185307179586));
    worst = fmax(worst, fabs(e - x));
  }
  check(fabs(m1 / n) < 0.01 && fabs(m2 / n - 1) < 0.02 && fabs(m4 / n - 3) < 0.1 &&
        fabs(d2 / n - 1) < 0.02,
        "moments of normal draws");
  check(worst < 4e-6, "normal draws are Box and Muller's");
}

static void test_randint(void) {
  int64_t count[6] = { 0 };
  int ok = 1;
  for (int64_t i = 0; i < 60000; i++) {
    const int64_t v = fl_random_randint_i64(i, 0, 5, -2, 3);
    if (v < -2 || v > 3) { ok = 0; break; }
    count[v + 2]++;
    ok &= fl_random_randint_i32(i, 0, 5, -2, 3) == v;
  }
  for (int k = 0; k < 6; k++) ok &= llabs(count[k] - 10000) < 500;
  check(ok, "integers from both ends inclusive, evenly");
  ok = 1;
  for (int64_t i = 0; i < 3000; i++) {
    const uint64_t d = fl_random_u64(i, 0, 5), n = 0xfedcba9876543211u;
    const uint64_t high = (uint64_t)((__extension__ (unsigned __int128)d * n) >> 64);
    ok &= fl_random_randint_i64(i, 0, 5, 0,
                                9) == (int64_t)((__extension__ (unsigned __int128)d * 10) >> 64);
    ok &= fl_random_randint_i64(i, 0, 5, INT64_MIN, (int64_t)((uint64_t)INT64_MIN + n - 1)) ==
          (int64_t)((uint64_t)INT64_MIN + high);
    ok &= fl_random_randint_i64(i, 0, 5, INT64_MIN, INT64_MAX) ==
        (int64_t)((uint64_t)INT64_MIN + d);
  }
  check(ok, "multiply-shift over 64 bits");
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void test_tables(void) {
  check(fl_op_of_name("exp") == FL_OP_exp && fl_op_of_name("custom") == FL_OP_custom &&
        fl_op_of_name("no such op") == -1 && fl_op_of_name(NULL) == -1, "ops by name");
  check(!strcmp(fl_ops[FL_OP_exp].value, "M(exp)(x)") &&
        !strcmp(fl_ops[FL_OP_amax].init, "M(lowest)()") &&
        !strcmp(fl_ops[FL_OP_where].value, "x1 ? x2 : x3"), "value texts stand unexpanded");
  check(fl_ops[FL_OP_bitwise_not].nograd && fl_ops[FL_OP_eq].nograd &&
        fl_ops[FL_OP_argmax].nograd && !fl_ops[FL_OP_exp].nograd && !fl_ops[FL_OP_where].nograd &&
        !fl_ops[FL_OP_floor].nograd && !fl_ops[FL_OP_copysign].nograd &&
        !fl_ops[FL_OP_trigamma].nograd && !fl_ops[FL_OP_view].nograd, "which ops have no gradient");
  check(fl_ops[FL_OP_add].nin == 2 && fl_ops[FL_OP_where].nin == 3 && fl_ops[FL_OP_cat].nin == -1 &&
        fl_ops[FL_OP_sum].fuse == FL_FUSE_R && fl_ops[FL_OP_matmul].fuse == FL_FUSE_S &&
        fl_ops[FL_OP_view].fuse == FL_FUSE_V && fl_ops[FL_OP_sum].kind == FL_KIND_SUMS,
        "descriptors");
  check(fl_dtype_of_name("bf16") == FLAME_BF16 && fl_dtype_of_name("f8") == -1 &&
        fl_dtype_size(FLAME_I16) == 2 && fl_dtype_reg(FLAME_F16) == FL_REG_F32 &&
        fl_is_float(FLAME_BF16) && !fl_is_integer(FLAME_BOOL), "dtypes");
  check(fl_promote(FLAME_F16, FLAME_BF16) == FLAME_F32 &&
        fl_promote(FLAME_U8, FLAME_I8) == FLAME_I16 && fl_promote(FLAME_I64, FLAME_F16) ==
        FLAME_F16 && fl_promote(FLAME_BOOL, FLAME_U8) == FLAME_U8 &&
        fl_promote(FLAME_F32, FLAME_F64) == FLAME_F64 &&
        fl_promote(FLAME_I16, FLAME_U8) == FLAME_I16,
        "promotion");
  int ok = 1;
  for (int a = 0; a < FLAME_DTYPE_COUNT; a++)
    for (int b = 0; b < FLAME_DTYPE_COUNT; b++) ok &= fl_promote(a, b) == fl_promote(b, a);
  check(ok, "promotion does not ask for an order");
}

int main(void) {
  test_accuracy();
  test_exp_below();
  test_edges();
  test_wide();
  test_wide_pairs();
  test_pairs();
  test_floats();
  test_f64();
  test_gelu();
  test_integers();
  test_casts();
  test_halves();
  test_philox();
  test_uniform();
  test_normal();
  test_randint();
  test_tables();
  printf("math: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
