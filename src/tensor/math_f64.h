/* The numbers: functions of f64. A part of math.h, which is what to include. */
#ifndef FL_TENSOR_MATH_F64_H
#define FL_TENSOR_MATH_F64_H

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
FL_FN double fl_sigmoid_f64(double x) {
  const double e = fl_exp_f64(-fl_abs_f64(x));             /* as the f32 form: subnormal results are kept */
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
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
#endif
