/* Functions of f32: a part of math.h, which is the file to include. */
#ifndef FL_TENSOR_MATH_F32_H
#define FL_TENSOR_MATH_F32_H

/* ---- f32: sqrt */

FL_FN float fl_sqrt_f32(float x) { return sqrtf(x); }

/* ---- f32: exponentials ------------------------------------------------------------- */

/* p * 2^n in two steps, so that the result is rounded once where it is denormal. |n| <= 250; the
** low 9 bits of b are those of n + 254. */
FL_FN float fl_scale_f32(float p, uint32_t b) {
  const uint32_t h = b << 22 & 0x7f800000u;                /* 2^(n >> 1), and the rest of n */
  return p * fl_as_f32(h) * fl_as_f32((b << 23) - h);
}

/* x = n ln 2 + r, |r| <= ln 2 / 2. The sum with 1.5 * 2^23 + 254 rounds to an integer and leaves
** n + 254 in the low bits of *b. |x| < 2^21. */
FL_FN float fl_exp_reduce(float x, uint32_t *b) {
  const float c = 0x1.8p23f + 254.0f, t = fmaf(x, 1.44269502f, c), k = t - c;
  *b = fl_bits_f32(t);
  return fmaf(k, 1.90465421e-09f, fmaf(k, -0.693147182f, x));
}

FL_FN float fl_exp_octaves(uint32_t b) {         /* 2^n, b as fl_exp_reduce gives it, |n| <= 126 */
  return fl_as_f32((b << 23) - 0x3f800000u);
}

FL_FN float fl_exp_kernel(float r) {                       /* e^r - 1 */
  float p = 0.00138144661f;
  p = fmaf(p, r, 0.00836878084f);
  p = fmaf(p, r, 0.0416683927f);
  p = fmaf(p, r, 0.166665196f);
  p = fmaf(p, r, 0.49999994f);
  return fmaf(r * r, p, r);
}

/* x limited to at most c, at least c, or between -c and c; NaN stays. (One comparison: two would be
** compiled badly.) */
#ifdef __CUDACC__
FL_FN float fl_most_f32(float x, float c) {                 /* one instruction, the same value */
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(c));
  return y;
}
FL_FN float fl_least_f32(float x, float c) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(c));
  return y;
}
FL_FN float fl_within(float x, float c) { return fl_least_f32(fl_most_f32(x, c), -c); }
#else
FL_FN float fl_most_f32(float x, float c) { return x > c ? c : x; }
FL_FN float fl_least_f32(float x, float c) { return x < c ? c : x; }
FL_FN float fl_within(float x, float c) {
  const float a = fl_abs_f32(x);
  return fl_copysign_f32(a > c ? c : a, x);
}
#endif

/* 1 / x where both are normal numbers. */
#ifdef __CUDACC__
FL_FN float fl_recip_f32(float x) {                        /* the same value, without a branch */
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return fmaf(y, fmaf(-x, y, 1.0f), y);
}
#else
FL_FN float fl_recip_f32(float x) { return 1.0f / x; }
#endif

/* e^x times 'by', which is 1 or 0.5, for |x| <= 105 or NaN; overflows and underflows correctly. */
FL_FN float fl_exp_scaled(float x, float by) {
  uint32_t b;
  const float e = fl_exp_kernel(fl_exp_reduce(x, &b)) + 1.0f;
  return fl_scale_f32(e * by, b);
}

FL_FN float fl_exp_f32(float x) { return fl_exp_scaled(fl_within(x, 105.0f), 1.0f); }

FL_FN float fl_exp2_f32(float x) {
  const float b = fl_within(x, 152.0f), c = 0x1.8p23f + 254.0f, t = b + c;
  const float r = b - (t - c);
  float p = 0.000153523855f;
  p = fmaf(p, r, 0.00133991241f);
  p = fmaf(p, r, 0.00961844344f);
  p = fmaf(p, r, 0.0555033199f);
  p = fmaf(p, r, 0.240226477f);
  p = fmaf(p, r, 0.693147182f);
  return fl_scale_f32(fmaf(p, r, 1.0f), fl_bits_f32(t));
}

FL_FN float fl_expm1_f32(float x) {
  uint32_t b;
  const float r = fl_exp_reduce(fl_within(x, 90.0f), &b);
  const int32_t n = (int32_t)(b - 0x4b4000feu), m = n < -40 ? -40 : n;
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
  return fl_exp_scaled(-fl_most_f32(a, 105.0f), 1.0f);
}

/* Splits e^x as s s e^r: x = 2 n ln 2 + r, *s = 2^n, for -105 <= x <= 88 or NaN; |r| <= ln 2. */
FL_FN float fl_exp_halve(float x, float *s) {
  const float c = 0x1.8p23f + 127.0f, t = fmaf(x, 0.721347511f, c), k = t - c;
  *s = fl_as_f32(fl_bits_f32(t) << 23);
  return fmaf(k, 3.80930843e-09f, fmaf(k, -1.38629436f, x));
}

/* s s / (s s + e^-r), with e^x = s s e^r, so that neither end overflows. */
FL_FN float fl_sigmoid_f32(float x) {
  const float a = fl_within(x, 105.0f);
  float s, p = 0.000196293797f;
  const float r = -fl_exp_halve(fl_most_f32(a, 30.0f), &s);
  p = fmaf(p, r, 0.00141046708f);
  p = fmaf(p, r, 0.00833593588f);
  p = fmaf(p, r, 0.0416612327f);
  p = fmaf(p, r, 0.16666618f);
  p = fmaf(p, r, 0.500000358f);
  return fl_recip_f32(fmaf(s, s, fmaf(r * r, p, r) + 1.0f)) * s * s;
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

FL_FN float fl_log_special(float x, float v) {     /* v for 0 < x < inf, else log's value */
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

/* |x| >= 2^49: adds fractional parts of products of x with 26-bit pieces of 1/(2 pi), each product
** exact. Products that are integers (or too large for a finer piece to change) add 0. */
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
  if (fl_abs_f32(x) < 0x1p49f) return r;                   /* the same value, in less time */
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

/* The same bits as sin, cos, tan for |x| < 2^49 (elsewhere any value), several times faster in a
** vector loop: for callers that have checked the block of values first. */
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
  const float h = fl_exp_scaled(fl_most_f32(a, 90.0f), 0.5f), g = h - 0.25f / h;
  float p = 2.81695156e-06f;
  p = fmaf(p, z, 0.000198361595f);
  p = fmaf(p, z, 0.0083333496f);
  p = fmaf(p, z, 0.166666672f);
  const float v = fmaf(a * z, p, a);
  return fl_copysign_f32(a < 1.0f ? v : g, x);
}

FL_FN float fl_cosh_f32(float x) {
  const float a = fl_abs_f32(x), h = fl_exp_scaled(fl_most_f32(a, 90.0f), 0.5f);
  return h + 0.25f / h;
}

FL_FN float fl_tanh_f32(float x) {
  const float a = fl_abs_f32(x), z = a * a, b = fl_most_f32(a, 10.0f);
  uint32_t n;
  const float e = fl_exp_kernel(fl_exp_reduce(b + b, &n)) + 1.0f;
  const float g = fmaf(e, fl_exp_octaves(n), 1.0f);        /* e^2a + 1 */
  const float u = fmaf(fl_recip_f32(g), -2.0f, 1.0f);
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
  uint32_t n;
  const float e = fl_exp_kernel(fl_exp_reduce(q, &n)) + 1.0f;
  const float u = fmaf(e, -fl_exp_octaves(n), 1.0f);
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
  uint32_t n;
  const float e = fl_exp_kernel(fl_exp_reduce(-z, &n)) + 1.0f;
  const float g = fmaf(e, -low, e) * (h / fmaf(a, 2.0f, 1.0f));
  const float v = fl_scale_f32(g, n), w = x < 0.0f ? 2.0f - v : v;
  return m < 0.5f ? 1.0f - fl_erf_kernel(x) : w;
}

/* x P(w), w = -log(1 - x x), |x| < 1; for w >= 5 a polynomial in sqrt(w) takes the place of P. */
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

/* Halley's iteration from a guess that divides the exponent; extreme x are scaled. */
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

/* log2 of x > 0 (finite, normal as a double) with a relative error below 2^-44. */
FL_FN double fl_pow_log2(double x) {
  const uint64_t b = fl_bits_f64(x) - 0x3fe6a09e00000000u;
  /* n: the exponent e as a double, by adding its bits to those of 1.5 2^52; b is made positive. */
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
  const float end = (a == 0.0f) != (y < 0.0f) ? 0.0f : inf;            /* for bases 0 and inf */
  const float one = a == 1.0f ? 1.0f : v, u = ((a == 0.0f) | (a == inf)) ? end : one;
  const float w = ((x < 0.0f) & !whole & (a < inf)) ? fl_as_f32(0x7fc00000u) : u;
  const uint32_t sign = odd ? fl_bits_f32(x) & 0x80000000u : 0u;
  const float s = fl_as_f32(fl_bits_f32(w) ^ sign);
  const float n = ((x != x) | (y != y)) ? x + y : s;
  return ((y == 0.0f) | (x == 1.0f)) ? 1.0f : n;
}

/* ---- f32 computed in double ----------------------------------------------------------------- */

FL_FN float fl_lgamma_f32(float x) { return (float)fl_own_lgamma((double)x); }
FL_FN float fl_digamma_f32(float x) { return (float)fl_digamma_f64((double)x); }
FL_FN float fl_trigamma_f32(float x) { return (float)fl_trigamma_f64((double)x); }
#endif
