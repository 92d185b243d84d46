/*
** psi(n, x), the derivative of log |gamma| of order n + 1, which CUDA lacks. The text is compiled
** for the CPU, and embedded in derived kernels, where FL_FN is defined and there are no headers.
**
** Above 0 the recurrence up to 12 + n and the asymptotic series, whose terms are
** B(2k) (2k + n - 1)! / (2k)! / z^(2k + n). Elsewhere the reflection with the n-th derivative of
** cot(pi x): pi^n times a polynomial in the cotangent, P(0) = t, P(k + 1) = -(1 + t t) P(k)'.
*/
FL_FN double fl_psi_above(double z, int n) {
  const double bernoulli[8] = {1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0,
                               -691.0 / 2730.0, 7.0 / 6.0, -3617.0 / 510.0};
  double sum = 0.0, factorial = 1.0;
  for (int k = 2; k <= n; k++) factorial *= k;
  for (; z < 12.0 + n; z += 1.0) sum += 1.0 / pow(z, n + 1.0);
  const double power = 1.0 / pow(z, n + 1.0);
  double r = n ? factorial / n * power * z : -log(z);
  double term = factorial * (n + 1) * 0.5 * power / z;
  r += factorial * (sum + 0.5 * power);
  for (int k = 1; k <= 8; k++) {
    r += bernoulli[k - 1] * term;
    term *= (2.0 * k + n) * (2.0 * k + n + 1.0) / ((2.0 * k + 1.0) * (2.0 * k + 2.0) * z * z);
  }
  return n % 2 ? r : -r;
}

enum { FL_PSI_MOST = 14 };           /* the highest order for x below 0; a higher one gives NaN */

FL_FN double fl_psi_cotangent(double x, int n) {
  const double pi = 3.14159265358979323846, part = pi * (x - rint(x));
  const double t = cos(part) / sin(part);
  double p[FL_PSI_MOST + 3] = {0.0, 1.0}, r = 0.0, scale = 1.0;
  for (int k = 0; k < n; k++) {
    double below = 0.0;              /* (j - 1) P(k)[j - 1] */
    for (int j = 0; j <= k + 2; j++) {
      const double next = (j + 1) * p[j + 1], mine = j * p[j];
      p[j] = -(next + below);
      below = mine;
    }
    scale *= pi;
  }
  for (int j = n + 1; j >= 0; j--) r = r * t + p[j];
  return scale * r;
}

FL_FN double fl_polygamma_f64(double x, int n) {
  if (x > 0.0) return fl_psi_above(x, n);
  if (n > FL_PSI_MOST || x != x) return x - x + 0.0 * log(-1.0);
  const double above = fl_psi_above(1.0 - x, n);
  return (n % 2 ? -above : above) - 3.14159265358979323846 * fl_psi_cotangent(x, n);
}

FL_FN float fl_polygamma_f32(float x, int n) { return (float)fl_polygamma_f64((double)x, n); }
