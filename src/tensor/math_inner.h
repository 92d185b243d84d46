/* Functions that only composites record: the exponential of numbers up to 0; gelu in its tanh form,
** x sigmoid(w), w = 2 sqrt(2 / pi) (x + 0.044715 x^3), and its slope. A part of math.h, which is
** the file to include. */
#ifndef FL_TENSOR_MATH_INNER_H
#define FL_TENSOR_MATH_INNER_H

/* ---- exponential -------------------------------------------------------------------- */

FL_FN double fl_exp_below_f64(double x) { return fl_exp_f64(x); }

/* e^x of x <= 0 or NaN, with the bits of fl_exp_f32. With x = n ln 2 + r (fl_exp_reduce) it is
** e^r 2^n. Only small results leave the normal numbers, so that one power of two is enough: the
** fmaf gives e^r 2^-24 ('e' is e^r - 1) with the bits of a rounded e^r, and 2^(n + 24) is a normal
** number or, where e^x is below half of the smallest denormal, 0. */
FL_FN float fl_exp_below_f32(float x) {
  uint32_t b;
  const float e = fl_exp_kernel(fl_exp_reduce(fl_least_f32(x, -105.0f), &b));
  return fmaf(e, 0x1p-24f, 0x1p-24f) * fl_as_f32((b << 23) - (103u << 23));
}

/* ---- gelu, f64 ---------------------------------------------------------------------------- */

/* -0 for x <= -30, x for x >= 30. The last product makes it NaN for -inf (-inf times 0, as in the
** exact form of gelu). */
FL_FN double fl_gelu_tanh_f64(double x) {
  const double a = x < -30.0 ? -30.0 : x;
  const double y = a * fl_sigmoid_f64(a * fma(a * a, 0.07135481627260025, 1.5957691216057308));
  return fma(0.0, x < -1.0 ? x : -1.0, y);
}

FL_FN double fl_gelu_tanh_slope_f64(double x) {
  const double a = x < -30.0 ? -30.0 : x, b = a > 30.0 ? 30.0 : a, z = b * b;
  const double w = b * fma(z, 0.07135481627260025, 1.5957691216057308);
  const double slope = fma(z, 0.21406444881780073, 1.5957691216057308);
  return fl_sigmoid_f64(w) * fma(b * slope, fl_sigmoid_f64(-w), 1.0);
}

/* ---- gelu, f32 ---------------------------------------------------------------------------- */

/* With h = *s squared and p the result, sigmoid(w) = h / (h + p); the caller does the division.
** w = 1.5957691 x + 0.0713548 x^3 = log 4^v and 4^v = h 4^r; z = x x, -11 <= x <= 5.5: below that
** range the gate, sigmoid(w), is 0, above it 1. */
FL_FN float fl_gelu_gate(float x, float z, float *s) {
  const float c = 0x1.8p23f + 127.0f, v = x * fmaf(z, 0.0514716198f, 1.1511041f);
  const float t = v + c, r = v - (t - c);
  float p = -0.00190940348f;
  p = fmaf(p, r, 0.010012988f);
  p = fmaf(p, r, -0.0426934958f);
  p = fmaf(p, r, 0.15386951f);
  p = fmaf(p, r, -0.444029272f);
  p = fmaf(p, r, 0.960906744f);
  p = fmaf(p, r, -1.38629448f);
  *s = fl_as_f32(fl_bits_f32(t) << 23);
  return fmaf(p, r, 1.0f);
}

FL_FN float fl_gelu_tanh_f32(float x) {
  const float a = fl_least_f32(x, -11.0f), b = fl_most_f32(a, 5.5f);
  float s;
  const float p = fl_gelu_gate(b, b * b, &s);
  return fmaf(0.0f, fl_most_f32(x, -1.0f), a * fl_recip_f32(fmaf(s, s, p)) * s * s);
}

/* The slope of x h, where h = sigmoid(w) and w = 1.5958 (x + 0.0447 x^3): h (1 + x w' (1 - h)),
** with h = s s / (s s + p) and 1 - h = p / (s s + p). */
FL_FN float fl_gelu_tanh_slope_f32(float x) {
  const float b = fl_most_f32(fl_least_f32(x, -11.0f), 5.5f), z = b * b;
  float s;
  const float p = fl_gelu_gate(b, z, &s), y = fl_recip_f32(fmaf(s, s, p));
  return fmaf(b * fmaf(z, 0.214064449f, 1.59576917f), p * y, 1.0f) * y * s * s;
}
#endif
