/* Functions of f64: a part of math.h, which is the file to include. */
#ifndef FL_TENSOR_MATH_F64_H
#define FL_TENSOR_MATH_F64_H

/* Where a sum or a product is rounded, its rounding error is kept in 'low' and added last: most
** results are within 0.6 to 0.9 units of the last place (docs/accuracy.md). The functions have no
** branches, so that loops over them vectorise, which calls of a library do not. The platform's
** library computes cbrt, pow, lgamma, and sin, cos and tan of |x| >= 2^20, and on the GPU those of
** FL_OURS as well; all other functions give the same bits on every device. */

FL_FN double fl_sqrt_f64(double x) { return sqrt(x); }

/* a + b = the result + *low, for |a| >= |b| or a = 0 (Dekker 1971); fl_two_sum: for any a and b
** (Knuth). */
FL_FN double fl_fast_two_sum(double a, double b, double *low) {
  const double s = a + b;
  *low = b - (s - a);
  return s;
}
FL_FN double fl_two_sum(double a, double b, double *low) {
  const double s = a + b, t = s - a;
  *low = (a - (s - t)) + (b - t);
  return s;
}

/* 1 / x to about 45 bits, for x within the range of f32; faster than a division, for quotients that
** are corrected by their remainder. */
FL_FN double fl_near_reciprocal(double x) {
  const double i = (double)(1.0f / (float)x);
  return fma(i, fma(-x, i, 1.0), i);
}

/* Functions that are faster by a quarter in CUDA's library: on the GPU its functions are called,
** whose results differ from ours by a few ulp. */
#ifdef __CUDACC__
#define FL_OURS(f, ours) FL_FN double fl_##f##_f64(double x) { return f(x); }
#else
#define FL_OURS(f, ours) FL_FN double fl_##f##_f64(double x) { return ours; }
#endif

/* ---- f64: exponentials ---------------------------------------------------------------- */

/* Cody and Waite: x = n log(2) + r + *low, |r| <= log(2) / 2, where n times the high part of log(2)
** is exact; *k = n + 4096. |x| < 2^20. */
FL_FN double fl_exp_reduce_f64(double x, double *low, uint64_t *k) {
  const double t = fma(x, 1.4426950408889634, 0x1.8p52), n = t - 0x1.8p52;
  const double s = fma(n, -0.6931471805598903, x), r = fma(n, -5.497923018708371e-14, s);
  *low = fma(n, -5.497923018708371e-14, s - r);
  *k = fl_bits_f64(t) - fl_bits_f64(0x1.8p52) + 4096;
  return r;
}

FL_FN double fl_exp_tail(double r, double low) {           /* e^(r + low) - 1 - r */
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
  return fma(r * r, p, low);
}

/* e^(r + low) = the result + *rest */
FL_FN double fl_exp_kernel_f64(double r, double low, double *rest) {
  const double f = 1.0 + r;
  return fl_fast_two_sum(f, fl_exp_tail(r, low) + (r - (f - 1.0)), rest);
}

/* v 2^(k - 4096) in two factors, of which only the second rounds. */
FL_FN double fl_scale_f64(double v, uint64_t k) {
  const uint64_t half = k >> 1;
  return v * fl_as_f64((half - 2048 + 1023) << 52) * fl_as_f64((k - half - 2048 + 1023) << 52);
}

FL_FN double fl_exp_f64(double x) {
  double low, rest;
  uint64_t k;
  const double b = x > 710.0 ? 710.0 : x, r = fl_exp_reduce_f64(b < -746.0 ? -746.0 : b, &low, &k);
  return fl_scale_f64(fl_exp_kernel_f64(r, low, &rest), k);
}

FL_FN double fl_exp2_f64(double x) {
  const double b = x > 1025.0 ? 1025.0 : x, c = b < -1080.0 ? -1080.0 : b, t = c + 0x1.8p52,
               d = c - (t - 0x1.8p52);
  const double r = d * 0.6931471805599453,
               low = fma(d, 2.3190468138462996e-17, fma(d, 0.6931471805599453, -r));
  double rest;
  return fl_scale_f64(fl_exp_kernel_f64(r, low, &rest),
                      fl_bits_f64(t) - fl_bits_f64(0x1.8p52) + 4096);
}

/* Half of e^x - 1 = the result + *low, for x between -60 and 709.8. */
FL_FN double fl_expm1_half(double x, double *low) {
  double l, rest, over;
  uint64_t k;
  const double r = fl_exp_reduce_f64(x, &l, &k),
               e = fl_fast_two_sum(r, fl_exp_tail(r, fma(l, r, l)), &rest);
  const double s = fl_as_f64((k - 4096 + 1022) << 52);
  const double t = fl_fast_two_sum(s - 0.5, s * e, &over);
  *low = fma(s, rest, over);
  return t;
}

FL_FN double fl_expm1_f64(double x) {
  double low;
  const double b = x > 709.8 ? 709.8 : x, t = fl_expm1_half(b < -60.0 ? -60.0 : b, &low);
  return fl_abs_f64(x) < 0x1p-54 ? x : 2.0 * (t + low);
}

FL_FN double fl_sigmoid_f64(double x) {
  const double e = fl_exp_f64(-fl_abs_f64(x)); /* like in f32, this form keeps subnormal results */
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

/* ---- f64: logarithms ------------------------------------------------------------------ */

/* x > 0 as the result times 2^*n, the result between sqrt(1/2) and sqrt(2). */
FL_FN double fl_log_split(double x, double *n) {
  const uint64_t b = fl_bits_f64(x < 0x1p-1022 ? x * 0x1p54 : x) - 0x3fe6a09e667f3bcdu;
  const double e = fl_as_f64(((b >> 52) ^ 0x800u) | 0x4330000000000000u);      /* 2^52 + 2048 + n */
  *n = e - (x < 0x1p-1022 ? 0x1p52 + 2102.0 : 0x1p52 + 2048.0);
  return fl_as_f64((b & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu);
}

/* log((1 + s) / (1 - s)) = 2 s + s z p, z = s^2, |s| < 0.172 */
FL_FN double fl_log_series(double z) {
  double p = 0.1479703443567737;
  p = fma(p, z, 0.15313951499247033);
  p = fma(p, z, 0.18183567816144702);
  p = fma(p, z, 0.22222198513708188);
  p = fma(p, z, 0.2857142874288884);
  p = fma(p, z, 0.39999999999412794);
  return fma(p, z, 0.6666666666666735);
}

/* log(1 + f) = the result + *low: f - f^2 / 2 + s (f^2 / 2 + z p), s = f / (2 + f), z = s^2. */
FL_FN double fl_log_pair(double f, double *low) {
  const double s = f / (2.0 + f), z = s * s, g = 0.5 * f, h = g * f, t = f - h;
  *low = fma(s, fma(z, fl_log_series(z), h), ((f - t) - h) - fma(g, f, -h));
  return t;
}

/* n log(2) + a + low */
FL_FN double fl_log_joined(double n, double a, double low) {
  double over;
  const double t = fl_fast_two_sum(n * 0.6931471805592082, a, &over);
  return t + (over + fma(n, 7.371002565167799e-13, low));
}

FL_FN double fl_log_special_f64(double x, double v) {   /* v for 0 < x < inf, else log's value */
  const double bad = x == 0.0 ? fl_lowest_f64() : fl_as_f64(0x7ff8000000000000u);
  const double w = x > 0.0 ? v : bad;
  return x == fl_highest_f64() ? x : w;
}

FL_FN double fl_log_f64(double x) {
  double n, low;
  const double a = fl_log_pair(fl_log_split(x, &n) - 1.0, &low);
  return fl_log_special_f64(x, fl_log_joined(n, a, low));
}

FL_FN double fl_log2_f64(double x) {
  double n, low, over;
  const double a = fl_log_pair(fl_log_split(x, &n) - 1.0, &low), p = a * 1.4426950408889634;
  const double t = fl_fast_two_sum(n, p, &over);
  const double rest = fma(low, 1.4426950408889634,
                          fma(a, 2.0355273740931033e-17, fma(a, 1.4426950408889634, -p)));
  return fl_log_special_f64(x, t + (over + rest));
}

FL_FN double fl_log10_f64(double x) {
  double n, low, over;
  const double a = fl_log_pair(fl_log_split(x, &n) - 1.0, &low), p = a * 0.4342944819032518;
  const double t = fl_fast_two_sum(n * 0.30102999566361177, p, &over);
  const double rest = fma(low, 0.4342944819032518,
                          fma(a, 1.098319650216765e-17, fma(a, 0.4342944819032518, -p)));
  return fl_log_special_f64(x, t + (over + fma(n, 3.694239077158931e-13, rest)));
}

/* log(u) + c / u, u + c = 1 + x. Beyond the range of f32 c / u is taken as 0. */
FL_FN double fl_log1p_f64(double x) {
  double n, low, c;
  const double u = fl_two_sum(1.0, x, &c), a = fl_log_pair(fl_log_split(u, &n) - 1.0, &low);
  const double v = fl_log_special_f64(u, fl_log_joined(n, a, fma(c, fl_near_reciprocal(u), low)));
  return x == 0.0 ? x : v;
}

FL_FN double fl_softplus_f64(double x) {
  return (x < 0.0 ? 0.0 : x) + fl_log1p_f64(fl_exp_f64(-fl_abs_f64(x)));
}

/* ---- f64: circular functions ---------------------------------------------------------- */

/* |x| < 2^20: x = q pi/2 + r + *low, with three pieces of pi/2; the first difference is exact. */
FL_FN double fl_quarter_f64(double x, double *low, uint64_t *q) {
  const double t = fma(x, 0.6366197723675814, 0x1.8p52), n = t - 0x1.8p52;
  const double s = fma(n, -1.5707963267948966, x), p = n * 6.123233995736766e-17;
  double over;
  const double r = fl_two_sum(s, -p, &over);
  *q = fl_bits_f64(t);
  *low = over - fma(n, -1.4973849048591833e-33, fma(n, 6.123233995736766e-17, -p));
  return r;
}

/* sin r = r + r z p, cos r = 1 - z / 2 + z^2 p, z = r^2, |r| <= pi/4 */
FL_FN double fl_sin_series(double z) {
  double p = 1.5896085906051395e-10;
  p = fma(p, z, -2.5050745432441632e-08);
  p = fma(p, z, 2.755731360761639e-06);
  p = fma(p, z, -0.000198412698295533);
  p = fma(p, z, 0.008333333333322078);
  return fma(p, z, -0.1666666666666663);
}
FL_FN double fl_cos_series(double z) {
  double p = -1.1358428201163493e-11;
  p = fma(p, z, 2.087569882575324e-09);
  p = fma(p, z, -2.755731416509602e-07);
  p = fma(p, z, 2.4801587288805066e-05);
  p = fma(p, z, -0.0013888888888872986);
  return fma(p, z, 0.041666666666666595);
}

FL_FN double fl_sin_tail(double r, double low) {           /* sin(r + low) - r */
  const double z = r * r;
  return fma(r * z, fl_sin_series(z), low * fma(z, -0.5, 1.0));
}

/* cos(r + low) = the result + *rest */
FL_FN double fl_cos_pair(double r, double low, double *rest) {
  const double z = r * r, h = 0.5 * z, w = 1.0 - h;
  const double lost = ((1.0 - w) - h) - 0.5 * fma(r, r, -z);
  *rest = fma(z * z, fl_cos_series(z), fma(-r, low, lost));
  return w;
}

FL_FN double fl_turned_f64(double r, double low, uint64_t q) {       /* sin(r + low + q pi/2) */
  double rest;
  const double s = r + fl_sin_tail(r, low), w = fl_cos_pair(r, low, &rest), c = w + rest,
               v = q & 1 ? c : s;
  return fl_as_f64(fl_bits_f64(v) ^ (q & 2) << 62);
}

FL_FN double fl_sin_near_f64(double x) {                   /* |x| < 2^20, as the next two */
  double low;
  uint64_t q;
  const double r = fl_quarter_f64(x, &low, &q), v = fl_turned_f64(r, low, q);
  return x == 0.0 ? x : v;
}

FL_FN double fl_cos_near_f64(double x) {
  double low;
  uint64_t q;
  const double r = fl_quarter_f64(x, &low, &q);
  return fl_turned_f64(r, low, q + 1);
}

FL_FN double fl_tan_near_f64(double x) {
  double low, sl, cl;
  uint64_t q;
  const double r = fl_quarter_f64(x, &low, &q), s = fl_fast_two_sum(r, fl_sin_tail(r, low), &sl);
  double rest;
  const double w = fl_cos_pair(r, low, &rest), c = fl_fast_two_sum(w, rest, &cl);
  const double a = q & 1 ? -c : s, b = q & 1 ? s : c, al = q & 1 ? -cl : sl, bl = q & 1 ? sl : cl;
  const double i = fl_near_reciprocal(b), t = a * i;
  const double v = fma(fma(-t, bl, fma(-t, b, a) + al), i, t);
  return x == 0.0 ? x : v;
}

FL_FN double fl_sin_f64(double x) { return fl_abs_f64(x) < 0x1p20 ? fl_sin_near_f64(x) : sin(x); }
FL_FN double fl_cos_f64(double x) { return fl_abs_f64(x) < 0x1p20 ? fl_cos_near_f64(x) : cos(x); }
FL_OURS(tan, fl_abs_f64(x) < 0x1p20 ? fl_tan_near_f64(x) : tan(x))

FL_FN double fl_asin_kernel_f64(double z) {                /* asin(s) / s - 1, z = s^2 <= 1/4 */
  double p = 0.03267155755908994;
  p = fma(p, z, -0.02106803712988027);
  p = fma(p, z, 0.021756433196500266);
  p = fma(p, z, 0.003686164926274783);
  p = fma(p, z, 0.010785644241317355);
  p = fma(p, z, 0.011397944098779006);
  p = fma(p, z, 0.013980939680154562);
  p = fma(p, z, 0.017351602006871317);
  p = fma(p, z, 0.022372215548387614);
  p = fma(p, z, 0.03038194268777033);
  p = fma(p, z, 0.04464285717503072);
  p = fma(p, z, 0.0749999999997036);
  p = fma(p, z, 0.16666666666666763);
  return p * z;
}

/* asin |x| below 1/2, asin sqrt((1 - |x|) / 2) from there on = the result + *low. The root is that
** of f32 with two steps of Newton's method; a third step gives its rounding error. */
FL_FN double fl_asin_half(double a, double *low) {
  const double h = fma(a, -0.5, 0.5), root = (double)sqrtf((float)h);
  const double i = (double)(0.5f / (float)(root == 0.0 ? 1.0 : root)),
               near = fma(fma(-root, root, h), i, root);
  const double w = fma(fma(-near, near, h), i, near), z = a < 0.5 ? a * a : h, s = a < 0.5 ? a : w;
  const double lost = a < 0.5 ? 0.0 : fma(-w, w, h) * i;
  *low = fma(s, fl_asin_kernel_f64(z), lost);
  return s;
}

FL_FN double fl_own_asin(double x) {
  double low, over;
  const double a = fl_abs_f64(x), s = fl_asin_half(a, &low);
  const double t = fl_fast_two_sum(1.5707963267948966, -2.0 * s, &over);
  const double u = t + (over + fma(-2.0, low, 6.123233995736766e-17));
  return fl_copysign_f64(a < 0.5 ? s + low : u, x);
}

FL_FN double fl_own_acos(double x) {
  double low, over;
  const double a = fl_abs_f64(x), s = fl_asin_half(a, &low), m = a < 0.5 ? 1.0 : 2.0;
  const double b = fl_copysign_f64(m * s, x), l = fl_copysign_f64(m, x) * low;
  const double whole = a < 0.5 ? 1.5707963267948966 : 3.141592653589793;
  /* for |x| >= 0.5, acos(-|x|) is pi - 2 s */
  const double t = fl_fast_two_sum(whole, a < 0.5 ? -b : b, &over);
  const double u = t + (over + ((a < 0.5 ? -l : l) + whole * 3.8981718325193755e-17));
  return ((a < 0.5) | (x < 0.0)) ? u : b + l;
}

FL_OURS(asin, fl_own_asin(x))
FL_OURS(acos, fl_own_acos(x))

/* atan(m / n) = the result + *low, 0 <= m <= n: from tan(pi / 8) on as pi / 4
** + atan((m - n) / (m + n)). */
FL_FN double fl_atan_pair(double m, double n, double *low) {
  const double a = m - n, b = n + m, edge = n * 0.41421356237309503;
  const double al = m > edge ? m - (a + n) : 0.0, bl = m > edge ? m - (b - n) : 0.0;
  const double c = m > edge ? a : m, d = m > edge ? b : n,
               base = m > edge ? 0.7853981633974483 : 0.0;
  const double i = 1.0 / d, t = c * i, z = t * t, tl = (fma(-t, d, c) + fma(-t, bl, al)) * i;
  double p = -0.017922210204703037, over;
  p = fma(p, z, 0.038078254460639505);
  p = fma(p, z, -0.05039842771072023);
  p = fma(p, z, 0.05848008286163669);
  p = fma(p, z, -0.06663120295617785);
  p = fma(p, z, 0.07692061629395966);
  p = fma(p, z, -0.09090897836035239);
  p = fma(p, z, 0.11111110786125189);
  p = fma(p, z, -0.14285714280248332);
  p = fma(p, z, 0.19999999999954082);
  p = fma(p, z, -0.333333333333332);
  const double s = fl_fast_two_sum(base, t, &over);
  *low = over + fma(base, 3.8981718325193755e-17, fma(t * z, p, tl * (1.0 - z)));
  return s;
}

/* c - (s + low), where c is a multiple of pi / 2; *low: the rounding error. */
FL_FN double fl_turn_less(double c, double s, double *low) {
  double over;
  const double t = fl_fast_two_sum(c, -s, &over);
  *low = over + fma(c, 3.8981718325193755e-17, -*low);
  return t;
}

FL_FN double fl_atan_f64(double x) {
  const double c = fl_abs_f64(x), a = c > 0x1p60 ? 0x1p60 : c;
  double low;
  const double s = fl_atan_pair(a > 1.0 ? 1.0 : a, a > 1.0 ? a : 1.0, &low), v = s + low;
  const double t = fl_turn_less(1.5707963267948966, s, &low);
  return fl_copysign_f64(a > 1.0 ? t + low : v, x);
}

/* 0 / 0 is taken as 0, inf / inf as 1; very large and very small arguments are scaled. */
FL_FN double fl_atan2_f64(double y, double x) {
  const double a = fl_abs_f64(y), b = fl_abs_f64(x), m = a > b ? b : a, n = a > b ? a : b,
               big = fl_highest_f64();
  const double c = n > 0x1p500 ? 0x1p-100 : 1.0, e = n < 0x1p-500 ? 0x1p100 : c;
  const double d = m == big ? 1.0 : 0.0, k = n == big ? d : m * e, l = n == big ? 1.0 : n * e;
  double low;
  const double s = fl_atan_pair(k, n == 0.0 ? 1.0 : l, &low);
  double u = low, w;
  const double t = fl_turn_less(1.5707963267948966, s, &u), v = a > b ? t : s;
  w = a > b ? u : low;
  double o = w;
  const double r = fl_turn_less(3.141592653589793, v, &o);
  const double q = fl_bits_f64(x) >> 63 ? r + o : v + w;
  return ((x != x) | (y != y)) ? x + y : fl_copysign_f64(q, y);
}

/* ---- f64: hyperbolic functions -------------------------------------------------------- */

/* Half of e^x = the result + *low, 0 <= x <= 711. */
FL_FN double fl_exp_half(double x, double *low) {
  double l, rest;
  uint64_t k;
  const double r = fl_exp_reduce_f64(x, &l, &k), e = fl_exp_kernel_f64(r, l, &rest);
  *low = fl_scale_f64(rest, k - 1);
  return fl_scale_f64(e, k - 1);
}

/* cosh, and below sinh: h + q and h - q, where h + low is half of e^|x|, and q is half of e^-|x|,
** with d q / d h = -4 q^2. */
FL_FN double fl_cosh_f64(double x) {
  double low, over;
  const double a = fl_abs_f64(x), b = a > 711.0 ? 711.0 : a, h = fl_exp_half(b, &low), q = 0.25 / h;
  const double t = fl_fast_two_sum(h, q, &over), v = t + fma(low, fma(-4.0 * q, q, 1.0), over);
  return a > 710.4758600739439 ? fl_highest_f64() : v;
}

FL_FN double fl_sinh_f64(double x) {
  double low, over;
  const double a = fl_abs_f64(x), z = a * a, b = a > 711.0 ? 711.0 : a, h = fl_exp_half(b, &low),
               q = 0.25 / h;
  const double t = fl_fast_two_sum(h, -q, &over), u = t + fma(low, fma(4.0 * q, q, 1.0), over);
  double p = 7.759303165036548e-13;
  p = fma(p, z, 1.6057240741900334e-10);
  p = fma(p, z, 2.5052123391832943e-08);
  p = fma(p, z, 2.7557319155390856e-06);
  p = fma(p, z, 0.00019841269841437467);
  p = fma(p, z, 0.008333333333333139);
  p = fma(p, z, 0.16666666666666669);
  const double v = a > 710.4758600739439 ? fl_highest_f64() : u;
  return fl_copysign_f64(a < 1.0 ? fma(a * z, p, a) : v, x);
}

/* t / (1 + t), t = (e^2a - 1) / 2 */
FL_FN double fl_tanh_f64(double x) {
  double low, over;
  const double a = fl_abs_f64(x), b = a > 22.0 ? 22.0 : a, t = fl_expm1_half(b + b, &low);
  const double d = fl_two_sum(1.0, t, &over), i = fl_near_reciprocal(d), q = t * i;
  const double v = fma(fma(-q, over + low, fma(-q, d, t) + low), i, q);
  return fl_copysign_f64(v, x);
}

FL_FN double fl_asinh_f64(double x) {
  const double a = fl_abs_f64(x), z = a * a;
  const int big = a > 0x1p500;                             /* log(2a), as log(a) + log 2 */
  const double y = a + z / (1.0 + sqrt(z + 1.0));
  const double l = fl_log1p_f64(big ? a : y), v = big ? l + 0.6931471805599453 : l;
  return fl_copysign_f64(v, x);
}

FL_FN double fl_acosh_f64(double x) {
  const int big = x > 0x1p500;
  const double t = x - 1.0, y = t + sqrt(fma(t, t, t + t));
  const double l = fl_log1p_f64(big ? x : y), v = big ? l + 0.6931471805599453 : l;
  return x < 1.0 ? fl_as_f64(0x7ff8000000000000u) : v;
}

FL_FN double fl_atanh_f64(double x) {
  const double a = fl_abs_f64(x);
  return fl_copysign_f64(0.5 * fl_log1p_f64((a + a) / (1.0 - a)), x);
}

/* ---- f64: roots and powers ------------------------------------------------------------- */

FL_FN double fl_cbrt_f64(double x) { return cbrt(x); }
FL_FN double fl_pow_f64(double x, double y) { return pow(x, y); }

FL_FN double fl_hypot_f64(double x, double y) {             /* scaled, the squares in two parts */
  const double a = fl_abs_f64(x), b = fl_abs_f64(y), m = a > b ? b : a, n = a > b ? a : b;
  const double c = n > 0x1p500 ? 0x1p-600 : 1.0, e = n < 0x1p-450 ? 0x1p600 : c,
               d = n < 0x1p-450 ? 0x1p-600 : 1.0;
  const double k = m * e, l = n * e, p = k * k, q = l * l, s = q + p;
  const double low = (p - (s - q)) + (fma(l, l, -q) + fma(k, k, -p)), r = sqrt(s);
  const double v = r + (fma(-r, r, s) + low) / (s == 0.0 ? 1.0 : r + r);
  const double w = v * (n > 0x1p500 ? 0x1p600 : d), big = fl_highest_f64();
  return ((a == big) | (b == big)) ? big : ((x != x) | (y != y)) ? x + y : w;
}
#endif
