/*
** Square matrices in f64 whatever their dtype: the gradient of the determinant, also of singular
** matrices, and the exponential (linalg_one.c).
*/
#include "cpu/linalg/linalg_room.h"
#include "cpu/linalg/dense.h"
#include <float.h>

/* ---- f64 helpers for determinants' gradients and exponentials --------------------- */

static void product64(const fl_linalg_one *o, int64_t n, const double *a, const double *b,
                      double *c) {
  const double one = 1, zero = 0;
  const int in = (int)n;
  if (n > SMALL && o->lib64)
    o->lib64->gemm("N", "N", &in, &in, &in, &one, b, &in, a, &in, &zero, c, &in, 1, 1);
  else fl_dense_product(n, n, n, a, b, c, o->stop);
}

static void transpose64(int64_t n, double *x) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < i; j++) {
      const double t = x[i * n + j];
      x[i * n + j] = x[j * n + i];
      x[j * n + i] = t;
    }
}

/* The singular value decomposition u, s, vh of a square a (destroyed). */
static int svd64(const fl_linalg_one *o, int64_t n, double *a, double *u, double *s,
                 double *vh, room r) {
  const int in = (int)n, lwork = as_length(svd_work(n, n));
  if (n <= SMALL || !o->lib64)
    return fl_dense_svd(n, n, a, 0, u, s, vh, doubles(&r, fl_dense_svd_space(n, n, 0)),
                        o->stop);
  int *iwork = take(&r, 8 * n * 4), info;
  double *work = doubles(&r, lwork);
  o->lib64->gesdd("S", &in, &in, a, &in, s, vh, &in, u, &in, work, &lwork, iwork, &info, 1);
  return info == 0;
}

/* The determinant of an orthogonal q: 1 or -1. */
static double side_of(const fl_linalg_one *o, int64_t n, const double *q, room r) {
  double *t = doubles(&r, n * n);
  int64_t *perm = take(&r, n * 8), zero;
  memcpy(t, q, sizeof *t * (size_t)(n * n));
  double side = fl_dense_lu(n, n, t, perm, &zero, o->stop);
  for (int64_t i = 0; i < n; i++) side = t[i * n + i] < 0 ? -side : side;
  return side;
}

/* c = det(a) times the transposed inverse of a. Returns 0 if a is close to singular, or if its
** determinant is not a normal number. */
static int regular(const fl_linalg_one *o, int64_t n, const double *a, double *c, room r) {
  double *lu = doubles(&r, n * n), *one = doubles(&r, n * n);
  int64_t *perm = take(&r, n * 8), zero;
  memcpy(lu, a, sizeof *lu * (size_t)(n * n));
  double det = fl_dense_lu(n, n, lu, perm, &zero, o->stop), low = INFINITY, high = 0;
  for (int64_t i = 0; i < n; i++) {
    const double u = fabs(lu[i * n + i]);
    det *= lu[i * n + i];
    low = u < low ? u : low;
    high = u > high ? u : high;
  }
  if (!(low > high * DBL_EPSILON * 64 * (double)n) || !isnormal(det)) return 0;
  memset(one, 0, sizeof *one * (size_t)(n * n));
  for (int64_t i = 0; i < n; i++) one[i * n + i] = det;
  fl_dense_lu_solve(n, n, lu, perm, one, c, o->stop);
  transpose64(n, c);
  return 1;
}

/* The gradient of det, also where a is singular: det(U V) U P V' with P the products of all
** singular values but one. */
int fl_linalg_cofactor(const fl_linalg_one *o, const void *in, void *out, room r) {
  const int64_t n = o->f->n;
  double *a = doubles(&r, n * n), *c = doubles(&r, n * n), *u = doubles(&r, n * n),
         *vh = doubles(&r, n * n);
  double *s = doubles(&r, n), *p = doubles(&r, n);
  load(o, a, in, n * n);
  if (!regular(o, n, a, c, r)) {
    if (!all_finite(o, in, n * n) || !svd64(o, n, a, u, s, vh, r)) {
      fill(o, out, n * n, NAN);
      return FL_LINALG_OK;
    }
    double side = side_of(o, n, u, r) * side_of(o, n, vh, r);
    for (int64_t i = 0; i < n; side *= s[i], i++) p[i] = side;
    for (int64_t i = n - 1, first = 1; i >= 0; i--, first = 0) {
      side = first ? 1 : side * s[i + 1];
      p[i] *= side;
    }
    for (int64_t i = 0; i < n; i++) for (int64_t j = 0; j < n; j++) u[i * n + j] *= p[j];
    product64(o, n, u, vh, c);
  }
  store(o, out, c, n * n);
  return FL_LINALG_OK;
}

/* The gradient of <g, cofactor(a)>: in the basis of the singular vectors, where a is diagonal,
** it is made of products of all singular values but two. */
int fl_linalg_cofactor_grad(const fl_linalg_one *o, const void *in, const void *seed,
                             void *out, room r) {
  const int64_t n = o->f->n;
  double *a = doubles(&r, n * n), *u = doubles(&r, n * n), *vh = doubles(&r, n * n),
         *g = doubles(&r, n * n);
  double *h = doubles(&r, n * n), *d = doubles(&r, n * n), *s = doubles(&r, n),
         *after = doubles(&r, n + 1);
  load(o, a, in, n * n);
  if (!all_finite(o, in, n * n) || !svd64(o, n, a, u, s, vh, r)) {
    fill(o, out, n * n, NAN);
    return FL_LINALG_OK;
  }
  const double side = side_of(o, n, u, r) * side_of(o, n, vh, r);
  load(o, g, seed, n * n);
  transpose64(n, u);
  transpose64(n, vh);
  product64(o, n, u, g, a);
  product64(o, n, a, vh, h);                     /* h = u' g v */
  transpose64(n, u);
  transpose64(n, vh);
  memset(d, 0, sizeof *d * (size_t)(n * n));
  after[n] = 1;
  for (int64_t i = n - 1; i >= 0; i--) after[i] = after[i + 1] * s[i];
  double before = side;
  for (int64_t k = 0; k < n; before *= s[k], k++) {
    double between = 1;
    for (int64_t l = k + 1; l < n; between *= s[l], l++) {
      const double p = before * between * after[l + 1];
      d[k * n + k] += p * h[l * n + l];
      d[l * n + l] += p * h[k * n + k];
      d[k * n + l] = -p * h[l * n + k];
      d[l * n + k] = -p * h[k * n + l];
    }
  }
  product64(o, n, u, d, a);
  product64(o, n, a, vh, h);
  store(o, out, h, n * n);
  return FL_LINALG_OK;
}

/* ---- exponential --------------------- */

/* x = the Padé approximant of degree q of exp(a). power: even powers of a; all are n x n. */
static void pade(const fl_linalg_one *o, int64_t n, int q, const double *a, double *x, room r) {
  double *a2 = doubles(&r, n * n), *power = doubles(&r, n * n), *u = doubles(&r, n * n),
         *v = doubles(&r, n * n);
  double *t = doubles(&r, n * n);
  int64_t *perm = take(&r, n * 8), zero;
  double c[16] = { 1 };
  for (int i = 1; i <= q; i++) c[i] = c[i - 1] * (q - i + 1) / ((double)(2 * q - i + 1) * i);
  product64(o, n, a, a, a2);
  for (int64_t i = 0; i < n * n; i++) u[i] = v[i] = power[i] = 0;
  for (int64_t i = 0; i < n; i++) power[i * n + i] = 1;
  for (int e = 0; e <= q && !stopped(o); e += 2) {
    if (e) {
      product64(o, n, power, a2, t);
      memcpy(power, t, sizeof *t * (size_t)(n * n));
    }
    for (int64_t i = 0; i < n * n; i++) {
      v[i] += c[e] * power[i];
      u[i] += c[e + 1] * power[i];
    }
  }
  if (stopped(o)) return;
  product64(o, n, a, u, t);                      /* odd part */
  for (int64_t i = 0; i < n * n; i++) {
    u[i] = v[i] - t[i];
    v[i] += t[i];
  }
  fl_dense_lu(n, n, u, perm, &zero, o->stop);
  fl_dense_lu_solve(n, n, u, perm, v, x, o->stop);
}

/* Scaling and squaring; limits of the degrees as Higham (2005) has them for f64. */
int fl_linalg_exp(const fl_linalg_one *o, const void *in, void *out, room r) {
  static const struct { int degree; double limit; } forms[] = {
    { 3, 0.01495585217958292 }, { 5, 0.2539398330063230 }, { 7, 0.9504178996162932 },
    { 9, 2.097847961257068 },
    { 13, 5.371920351148152 } };
  const int64_t n = o->f->n;
  double *a = doubles(&r, n * n), *x = doubles(&r, n * n), *t = doubles(&r, n * n), norm = 0;
  load(o, a, in, n * n);
  for (int64_t j = 0; j < n; j++) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += fabs(a[i * n + j]);
    if (!(sum <= norm)) norm = sum;
  }
  if (!isfinite(norm)) {
    fill(o, out, n * n, NAN);
    return FL_LINALG_OK;
  }
  int f = 0, squarings = 0;
  while (f < 4 && norm > forms[f].limit) f++;
  if (norm > forms[f].limit) frexp(norm / forms[f].limit, &squarings);
  for (int64_t i = 0; i < n * n; i++) a[i] = ldexp(a[i], -squarings);
  pade(o, n, forms[f].degree, a, x, r);
  for (int i = 0; i < squarings && !stopped(o); i++) {
    product64(o, n, x, x, t);
    double *other = x;
    x = t;
    t = other;
  }
  store(o, out, x, n * n);
  return FL_LINALG_OK;
}
