/* Error and gamma functions of f64: a part of math.h, which is the file to include. */
#ifndef FL_TENSOR_MATH_SPECIAL_H
#define FL_TENSOR_MATH_SPECIAL_H

/* ---- f64: error functions ------------------------------------------------------------- */

/* p(a^2), where erf a = a + a p(a^2); 0 <= a < 0.9 */
FL_FN double fl_erf_kernel_f64(double a) {
  const double z = a * a;
  double p = -8.511545546130249e-10;
  p = fma(p, z, 1.4059562455400111e-08);
  p = fma(p, z, -1.6278141955961775e-07);
  p = fma(p, z, 1.6455512480511768e-06);
  p = fma(p, z, -1.4925320629498751e-05);
  p = fma(p, z, 0.00012055321989194509);
  p = fma(p, z, -0.0008548326782827047);
  p = fma(p, z, 0.005223977622125446);
  p = fma(p, z, -0.026866170644865385);
  p = fma(p, z, 0.11283791670954062);
  p = fma(p, z, -0.37612638903183737);
  return fma(p, z, 0.1283791670955126);
}

/* 1 - e^(log erfc) with a polynomial for log erfc, which is above -39; a >= 0.9 */
FL_FN double fl_erf_large(double a) {
  const double t = (a > 6.0 ? 6.0 : a) - 1.5;
  double p = 1.3513812031330996e-12, low, rest;
  uint64_t k;
  p = fma(p, t, -2.3988463328422324e-11);
  p = fma(p, t, 1.9035506635768397e-10);
  p = fma(p, t, -8.792155938101467e-10);
  p = fma(p, t, 2.3812404447550236e-09);
  p = fma(p, t, -1.1900228404253698e-09);
  p = fma(p, t, -2.776958533682383e-08);
  p = fma(p, t, 1.926320146311713e-07);
  p = fma(p, t, -8.188317543574956e-07);
  p = fma(p, t, 2.37084423158398e-06);
  p = fma(p, t, -2.6468110217193168e-06);
  p = fma(p, t, -2.2473692327443933e-05);
  p = fma(p, t, 0.0002159633005303978);
  p = fma(p, t, -0.0012572166861368);
  p = fma(p, t, 0.006006746386865855);
  p = fma(p, t, -0.025824140633675545);
  p = fma(p, t, -0.892640330615052);
  p = fma(p, t, -3.5088008017795276);
  p = fma(p, t, -3.3844920895515527);
  const double r = fl_exp_reduce_f64(p, &low, &k), e = fl_exp_kernel_f64(r, low, &rest);
  return fma(-e, fl_as_f64((k - 4096 + 1023) << 52), 1.0);
}

FL_FN double fl_own_erf(double x) {
  const double a = fl_abs_f64(x), u = fma(a, fl_erf_kernel_f64(a), a), v = fl_erf_large(a);
  return fl_copysign_f64(a < 0.9 ? u : v, x);
}

/* erfc(a) e^(a^2) = h(t) / (a + 4), t = (a - 4) / (a + 4), 0.9 <= a <= 28 */
FL_FN double fl_erfc_kernel_f64(double a) {
  const double d = a + 4.0, i = fl_near_reciprocal(d), m = (a - 4.0) * i,
               t = fma(fma(-m, d, a - 4.0), i, m);
  double p = -1.0093228236891176e-08;
  p = fma(p, t, -1.0552097435911753e-09);
  p = fma(p, t, 1.1597451794781702e-07);
  p = fma(p, t, -7.154273496334993e-08);
  p = fma(p, t, -8.401554331597297e-07);
  p = fma(p, t, 1.4208831192748907e-06);
  p = fma(p, t, 4.691859581930394e-06);
  p = fma(p, t, -1.8859400097253217e-05);
  p = fma(p, t, -3.6345132179651776e-06);
  p = fma(p, t, 0.00017681242382100787);
  p = fma(p, t, -0.00045505278926701026);
  p = fma(p, t, -0.0002809588024646261);
  p = fma(p, t, 0.0061120556660572405);
  p = fma(p, t, -0.02637005334620264);
  p = fma(p, t, 0.076381514908706);
  p = fma(p, t, -0.17401093723964012);
  p = fma(p, t, 0.3308515878780308);
  p = fma(p, t, -0.5408538313132417);
  p = fma(p, t, 0.7732087022652369);
  p = fma(p, t, -0.976548729080882);
  p = fma(p, t, 1.095995661000491);
  const double g = p * i;
  return fma(fma(-g, d, p), i, g);
}

/* e^(s a^2) = (the result + *rest) 2^(*k - 4096), from the two parts of the square; s is 1 or
** -1. */
FL_FN double fl_exp_square(double a, double s, double *rest, uint64_t *k) {
  double low;
  const double z = a * a, r = fl_exp_reduce_f64(s * z, &low, k),
               e = fl_exp_kernel_f64(r, low, rest);
  *rest = fma(s * fma(a, a, -z), e, *rest);
  return e;
}

FL_FN double fl_own_erfc(double x) {
  const double a = fl_abs_f64(x), b = a > 27.3 ? 27.3 : a, p = fl_erf_kernel_f64(a),
               g = fl_erfc_kernel_f64(b);
  double rest;
  uint64_t k;
  const double e = fl_exp_square(b, -1.0, &rest, &k), v = fl_scale_f64(fma(e, g, rest * g), k);
  const double u = fma(-a, p, 1.0 - a), w = a < 0.9 ? u : v;
  const double y = x < 0.0 ? (a < 0.9 ? fma(a, p, 1.0 + a) : 2.0 - v) : w;
  return x != x ? x : y;
}

FL_OURS(erf, fl_own_erf(x))
FL_OURS(erfc, fl_own_erfc(x))

/* ---- f64: gamma functions ------------------------------------------------------------- */

#ifdef __CUDACC__
FL_FN double fl_lgamma_f64(double x) { return lgamma(x); }
#else
FL_FN double fl_lgamma_f64(double x) { int sign; return lgamma_r(x, &sign); }   /* no signgam */
#endif

/* Our own functions in double, for functions that must give the same bits on every device. */
FL_FN double fl_own_log(double x) {                        /* x > 0, normal, finite */
  double n;
  const double f = fl_log_split(x, &n) - 1.0, s = f / (2.0 + f), z = s * s;
  /* 2 s = f - s f, without the division's rounding error in the leading term */
  const double y = fma(s, fma(z, fl_log_series(z), -f), n * 2.3190468138462996e-17);
  return fma(n, 0.6931471805599453, f + y);
}

FL_FN double fl_own_sin(double r) {                        /* |r| <= pi/4 */
  const double z = r * r;
  return fma(r * z, fl_sin_series(z), r);
}

FL_FN double fl_own_cos(double r) {
  const double z = r * r;
  return fma(z * z, fl_cos_series(z), fma(z, -0.5, 1.0));
}

/* sin(pi x) and cos(pi x) for x >= 0, up to their common sign. */
FL_FN double fl_own_sinpi(double x, double *cosine) {
  const double r = x - floor(x), u = r > 0.5 ? 1.0 - r : r;            /* both exact */
  const double t = (u > 0.25 ? 0.5 - u : u) * 3.14159265358979323846;
  const double s = fl_own_sin(t), c = fl_own_cos(t), w = u > 0.25 ? s : c;
  *cosine = r > 0.5 ? -w : w;
  return u > 0.25 ? c : s;
}

/* digamma, trigamma, lgamma: recurrence up to 10, then the asymptotic series; reflection for x <=
** 0. The recurrence has at most ten steps; where loops over the function are to vectorise it has
** always ten, unrolled. Sums of 1 / z or 1 / z^2 are kept as quotients, for one division at the
** end. */
#ifdef FL_VECTORS
#define FL_UP_TO_TEN(z, ...) \
  _Pragma("GCC unroll 10") for (int i = 0; i < 10; i++) { \
    const int on = z < 10.0; \
    __VA_ARGS__ z = on ? z + 1.0 : z; \
  }
#define FL_THRICE _Pragma("GCC unroll 3") for (int i = 0; i < 3; i++)
#else
#define FL_UP_TO_TEN(z, ...) for (; z < 10.0; z += 1.0) { const int on = 1; __VA_ARGS__ }
#define FL_THRICE for (int i = 0; i < 3; i++)
#endif
FL_FN double fl_digamma_f64(double x) {
  const double a = fl_abs_f64(x);
  double z = x <= 0.0 ? 1.0 + a : x, s = 0.0, q0 = 1.0, c;
  FL_UP_TO_TEN(z, s = on ? fma(s, z, q0) : s; q0 = on ? q0 * z : q0;)
  const double u = 1.0 / z, w = u * u, n = fl_own_sinpi(a, &c);
  double p = 1.0 / 12.0;
  p = fma(p, -w, 691.0 / 32760.0);
  p = fma(p, -w, 1.0 / 132.0);
  p = fma(p, -w, 1.0 / 240.0);
  p = fma(p, -w, 1.0 / 252.0);
  p = fma(p, -w, 1.0 / 120.0);
  p = fma(p, -w, 1.0 / 12.0);
  const double v = (fl_own_log(z) - 0.5 * u - w * p) - s / q0;
  const double r = x <= 0.0 ? v + 3.14159265358979323846 * c / n : v;
  const double pole = x == 0.0 ? -1.0 / x : fl_as_f64(0x7ff8000000000000u);
  const double q = ((x <= 0.0) & (n == 0.0)) ? pole : r;
  return ((x != x) | (x == fl_highest_f64())) ? x : q;
}

FL_FN double fl_trigamma_f64(double x) {
  const double a = fl_abs_f64(x);
  double z = x <= 0.0 ? 1.0 + a : x, t = 0.0, q = 1.0, c;
  FL_UP_TO_TEN(z, t = on ? fma(t, z * z, q) : t; q = on ? q * (z * z) : q;)
  const double u = 1.0 / z, w = u * u, n = 3.14159265358979323846 / fl_own_sinpi(a, &c);
  double p = 7.0 / 6.0;
  p = fma(p, -w, 691.0 / 2730.0);
  p = fma(p, -w, 5.0 / 66.0);
  p = fma(p, -w, 1.0 / 30.0);
  p = fma(p, -w, 1.0 / 42.0);
  p = fma(p, -w, 1.0 / 30.0);
  p = fma(p, -w, 1.0 / 6.0);
  const double s = t / q + (u + 0.5 * w + w * u * p);
  return x <= 0.0 ? n * n - s : s;
}

/* Used by lgamma in f32: near the zeros 1 and 2 its absolute error is small, but not its relative
** error. */
FL_FN double fl_own_lgamma(double x) {
  const double a = fl_abs_f64(x);
  double z = x <= 0.0 ? 1.0 + a : x, m = 1.0, c;
  FL_UP_TO_TEN(z, m = on ? m * z : m;)
  const double u = 1.0 / z, w = u * u, n = fl_own_sinpi(a, &c);
  double p = 691.0 / 360360.0;
  p = fma(p, -w, 1.0 / 1188.0);
  p = fma(p, -w, 1.0 / 1680.0);
  p = fma(p, -w, 1.0 / 1260.0);
  p = fma(p, -w, 1.0 / 360.0);
  p = fma(p, -w, 1.0 / 12.0);
  const double v = ((z - 0.5) * fl_own_log(z) - z) + (u * p + 0.91893853320467274178);
  const double k = x <= 0.0 ? m / n : m, l = fl_own_log(a < 1e-60 ? a : k);
  const double r = x <= 0.0 ? 1.14472988584940017414 - v + l : v - l;
  const double q = ((x <= 0.0) & (n == 0.0)) ? fl_highest_f64() : r;
  const double e = a < 1e-60 ? -l : q;
  const double big = a == fl_highest_f64() ? a : e;
  const double zero = ((x == 1.0) | (x == 2.0)) ? 0.0 : big;
  const double inf = x == 0.0 ? fl_highest_f64() : zero;
  return x != x ? x : inf;
}
/* Starts from Winitzki's formula; then steps of Halley's method on erf y - a, or (1 - a) - erfc y,
** both times e^(y^2). */
FL_FN double fl_own_erfinv(double x) {
  const double a = fl_abs_f64(x), l = fl_log1p_f64(-a * a);
  const double h = 4.33075024 + 0.5 * l;
  double y = sqrt(sqrt(h * h - l * 6.802721088) - h);
  FL_THRICE {
    double rest;
    uint64_t k;
    const double f = fl_exp_square(y, 1.0, &rest, &k),
    e = (f + rest) * fl_as_f64((k - 4096 + 1023) << 52);
    const double near = (fma(y, fl_erf_kernel_f64(y), y) - a) * e,
    far = fma(1.0 - a, e, -fl_erfc_kernel_f64(y));
    const double d = (y < 0.9 ? near : far) * 0.88622692545275801365;
    y -= d / (1.0 + y * d);
  }
  const double v = a == 1.0 ? fl_highest_f64() : y;
  return fl_copysign_f64(a < 1e-300 ? a * 0.88622692545275801365 : v, x);
}
FL_OURS(erfinv, fl_own_erfinv(x))
#undef FL_OURS
#undef FL_UP_TO_TEN
#undef FL_THRICE
#endif
