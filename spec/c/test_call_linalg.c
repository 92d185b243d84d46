/*
** Linear algebra on the CPU: with LAPACK and without, f32 and f64, sizes on both sides of the limit
** above which LAPACK is used. Factorisations are checked by multiplying the factors.
*/
#include "call_setup.h"
#include "tensor/call_linalg.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;
static const char *mode = "";
static void check(int ok, const char *what, long a, long b, double seen) {
  if (ok) { passed++; return; }
  failed++;
  if (failed < 30) printf("call_linalg: FAILED %s (%s, %ld, %ld): %g\n", what, mode, a, b, seen);
}

/* ---- one call: its inputs and result are converted from and to doubles ---------------------- */

typedef struct result { double *at; char fault[200]; int fits; } result;

static void *typed(const double *x, int64_t n, int is64) {
  void *p = malloc((size_t)(n * (is64 ? 8 : 4)) + 8);
  for (int64_t i = 0; i < n; i++) {
    if (is64) ((double *)p)[i] = x[i];
    else ((float *)p)[i] = (float)x[i];
  }
  return p;
}

static result call(setup *s, int kind, int is64, const double *a, int64_t na, const double *b,
                   int64_t nb, int64_t nout, int np, const int64_t *p) {
  fl_call k = { .kind = (uint16_t)kind, .nin = b ? 2 : 1, .dtype = is64 ? FLAME_F64 : FLAME_F32,
                .numel = nout,
                .in_numel = { na, nb } };
  result r = { calloc((size_t)nout + 1, sizeof(double)), "", 0 };
  k.in_dtype[0] = k.in_dtype[1] = k.dtype;
  memcpy(k.p, p, sizeof *p * (size_t)np);
  r.fits = fl_calls[kind].fits(&k);
  check(r.fits, "fits", kind, (long)nout, 0);
  if (!r.fits) return r;
  k.numel++;
  check(!fl_calls[kind].fits(&k), "a wrong size does not fit", kind, 0, 0);
  k.numel--;
  void *out = malloc((size_t)nout * 8 + 8), *x = typed(a, na, is64),
       *y = b ? typed(b, nb, is64) : NULL;
  fl_call_run run = { .call = &k, .out = out, .in = { x, y }, .fault = r.fault };
  check(fl_cpu_call(&s->d, &run) == FLAME_OK, "status", kind, 0, 0);
  for (int64_t i = 0; i < nout; i++) r.at[i] = is64 ? ((double *)out)[i] : ((float *)out)[i];
  drop_scratch(s);
  free(out);
  free(x);
  free(y);
  return r;
}

static double *random_matrix(int64_t n, int is64) {
  double *a = malloc(sizeof *a * (size_t)(n + 1));
  for (int64_t i = 0; i < n; i++) a[i] = is64 ? 2 * unit() - 1 : (float)(2 * unit() - 1);
  return a;
}

/* The largest element of |a b - c| with a of shape (m, k), b (k, n) and c (m, n); c NULL: the
** identity. ta: a is stored transposed, as (k, m); tb: b is stored as (n, k). */
static double off_product(int64_t m, int64_t n, int64_t k, const double *a, int ta, const double *b,
                          int tb, const double *c) {
  double most = 0;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double s = c ? -c[i * n + j] : -(i == j);
      for (int64_t p = 0; p < k; p++)
        s += (ta ? a[p * m + i] : a[i * k + p]) * (tb ? b[j * k + p] : b[p * n + j]);
      if (!(fabs(s) <= most)) most = fabs(s);
    }
  return most;
}

static double eps(int is64) { return is64 ? 2.3e-16 : 1.2e-7; }

/* ---- kinds ----------------------------------------------------------------------------------- */

static void equations(setup *s, int is64, int64_t batch, int64_t n, int64_t k) {
  double *a = random_matrix(batch * n * n, is64), *b = random_matrix(batch * n * k, is64);
  for (int64_t q = 0; q < batch; q++)
    for (int64_t i = 0; i < n; i++) a[(q * n + i) * n + i] += 3 + sqrt((double)n);
  const double tol = eps(is64) * 60 * (double)(n + 1);
  result x = call(s, FL_CALL_inverse, is64, a, batch * n * n, NULL, 0, batch * n * n, 4,
                  (int64_t[]){ batch, 1, n, 0 });
  result y = call(s, FL_CALL_solve, is64, a, batch * n * n, b, batch * n * k, batch * n * k, 4,
                  (int64_t[]){ batch, 1, n, k });
  check(!*x.fault && !*y.fault, "no fault", (long)n, (long)k, 0);
  for (int64_t q = 0; q < batch; q++) {
    const double e = off_product(n, n, n, a + q * n * n, 0, x.at + q * n * n, 0, NULL);
    const double f = off_product(n, k, n, a + q * n * n, 0, y.at + q * n * k, 0, b + q * n * k);
    check(e <= tol, "inverse", (long)n, (long)q, e);
    check(f <= tol, "solve", (long)n, (long)k, f);
  }
  for (int flags = 0; flags < 4; flags++) {
    const int upper = flags & 1, one = flags >> 1;
    double *t = malloc(sizeof *t * (size_t)(n * n + 1));
    result z = call(s, FL_CALL_triangular, is64, a, batch * n * n, b, batch * n * k,
                    batch * n * k, 6, (int64_t[]){ batch, 1, n, k, upper, one });
    for (int64_t i = 0; batch && i < n; i++)
      for (int64_t j = 0; j < n; j++)
        t[i * n + j] = i == j ? (one ? 1 : a[i * n + j]) : (upper ? j > i : j < i)
                       ? a[i * n + j] : 0;
    double most = 1;
    for (int64_t i = 0; batch && i < n * k; i++) if (fabs(z.at[i]) > most) most = fabs(z.at[i]);
    const double e = batch ? off_product(n, k, n, t, 0, z.at, 0, b) : 0;
    check(e <= tol * most, "triangular", (long)n, flags, e);
    free(t);
    free(z.at);
  }
  free(a);
  free(b);
  free(x.at);
  free(y.at);
}

static void cholesky(setup *s, int is64, int64_t n) {
  double *g = random_matrix(n * n, is64), *a = calloc((size_t)(n * n + 1), sizeof *a);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) {
      for (int64_t p = 0; p < n; p++) a[i * n + j] += g[i * n + p] * g[j * n + p];
      a[i * n + j] = (is64 ? a[i * n + j] : (float)a[i * n + j]) + (i == j);
    }
  for (int upper = 0; upper < 2; upper++) {
    result l = call(s, FL_CALL_cholesky, is64, a, n * n, NULL, 0, n * n, 4,
                    (int64_t[]){ 1, 0, n, upper });
    double e = off_product(n, n, n, l.at, upper, l.at, !upper, a), rest = 0;
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < n; j++) if (upper ? j < i : j > i) rest += fabs(l.at[i * n + j]);
    check(e <= eps(is64) * 60 * (double)(n + 1) * (double)(n + 1) && rest == 0, "cholesky",
          (long)n, upper, e);
    free(l.at);
  }
  free(g);
  free(a);
}

static void lu(setup *s, int is64, int64_t m, int64_t n, const double *a, double tol) {
  const int64_t k = m < n ? m : n;
  result r = call(s, FL_CALL_lu, is64, a, m * n, NULL, 0, m * n + m, 4, (int64_t[]){ 1, 0, m, n });
  double *l = calloc((size_t)(m * k + 1), sizeof *l), *u = calloc((size_t)(k * n + 1), sizeof *u);
  double *pa = malloc(sizeof *pa * (size_t)(m * n + 1));
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      if (j < k) l[i * k + j] = i == j ? 1 : j < i ? r.at[i * n + j] : 0;
      if (i < k && j >= i) u[i * n + j] = r.at[i * n + j];
      pa[i * n + j] = a[((int64_t)r.at[m * n + i] - 1) * n + j];
    }
  for (int64_t i = 0; n == 0 && i < m; i++)
    check(r.at[i] == (double)(i + 1), "rows of an empty LU", (long)m, 0, r.at[i]);
  const double e = off_product(m, n, k, l, 0, u, 0, pa);
  check(e <= tol, "lu", (long)m, (long)n, e);
  free(l);
  free(u);
  free(pa);
  free(r.at);
}

static void qr(setup *s, int is64, int64_t m, int64_t n, const double *a, double tol,
               int complete) {
  const int64_t k = complete || m < n ? m : n;
  result q = call(s, FL_CALL_qr, is64, a, m * n, NULL, 0, m * k + k * n, 6,
                  (int64_t[]){ 1, 0, m, n, complete, 1 });
  result o = call(s, FL_CALL_qr, is64, a, m * n, NULL, 0, k * n, 6,
                  (int64_t[]){ 1, 0, m, n, complete, 0 });
  const double *r = q.at + m * k;
  double below = 0, other = 0;
  for (int64_t i = 0; i < k; i++)
    for (int64_t j = 0; j < n; j++) {
      if (j < i) below += fabs(r[i * n + j]);
      other += fabs(r[i * n + j] - o.at[i * n + j]);
    }
  const double e = off_product(m, n, k, q.at, 0, r, 0, a);
  const double orth = off_product(k, k, m, q.at, 1, q.at, 0, NULL);
  check(e <= tol && below == 0 && other == 0, "qr", (long)m, (long)n, e);
  check(orth <= tol, "Q'Q = I", (long)m, (long)n, orth);
  free(q.at);
  free(o.at);
}

static void lu_and_qr(setup *s, int is64, int64_t m, int64_t n) {
  double *a = random_matrix(m * n, is64);
  const double tol = eps(is64) * 40 * (double)(m + n + 1);
  lu(s, is64, m, n, a, tol);
  for (int complete = 0; complete < 2; complete++) qr(s, is64, m, n, a, tol, complete);
  free(a);
}

/* A matrix of a kind given by 'form': 0 random, 1 the last rows repeat the first, 2 rows shrink to
** 1e-8, 3 zeros, 4 identity, 5 tiny numbers. *most: the largest magnitude. The caller frees it. */
static double *matrix_of(int is64, int64_t m, int64_t n, int form, double *most) {
  double *a = random_matrix(m * n, is64);
  *most = 1e-300;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      if (form == 1 && i > m / 2) a[i * n + j] = a[(i - m / 2 - 1) * n + j];
      if (form == 2) a[i * n + j] *= pow(10, -8.0 * (double)i / (double)(m + 1));
      if (form == 3) a[i * n + j] = 0;
      if (form == 4) a[i * n + j] = i == j;
      if (form == 5) a[i * n + j] *= is64 ? 1e-290 : 1e-36;
      if (!is64) a[i * n + j] = (float)a[i * n + j];
      if (fabs(a[i * n + j]) > *most) *most = fabs(a[i * n + j]);
    }
  return a;
}

static void svd(setup *s, int is64, int64_t m, int64_t n, int form) {
  const int64_t k = m < n ? m : n;
  double most, *a = matrix_of(is64, m, n, form, &most);
  const double tol = eps(is64) * 60 * (double)(m + n + 1);
  result only = call(s, FL_CALL_svd, is64, a, m * n, NULL, 0, k, 6,
                     (int64_t[]){ 1, 0, m, n, 0, 0 });
  for (int full = 0; full < 2; full++) {
    const int64_t ku = full ? m : k, kv = full ? n : k;
    result r = call(s, FL_CALL_svd, is64, a, m * n, NULL, 0, m * ku + k + kv * n, 6,
                    (int64_t[]){ 1, 0, m, n, full, 1 });
    const double *u = r.at, *sv = u + m * ku, *vh = sv + k;
    double *us = malloc(sizeof *us * (size_t)(m * k + 1)), order = 0, differ = 0;
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < k; j++) us[i * k + j] = u[i * ku + j] * sv[j];
    for (int64_t j = 0; j < k; j++) {
      if (j && sv[j] > sv[j - 1]) order = 1;
      if (sv[j] < 0) order = 2;
      if (fabs(sv[j] - only.at[j]) > differ) differ = fabs(sv[j] - only.at[j]);
    }
    const double e = off_product(m, n, k, us, 0, vh, 0, a);
    const double ou = off_product(ku, ku, m, u, 1, u, 0, NULL),
                 ov = off_product(kv, kv, n, vh, 0, vh, 1, NULL);
    check(!*r.fault && e <= tol * most * (double)k, "svd",
          (long)m, (long)(n * 10 + form), e / most);
    check(ou <= tol && ov <= tol, "U'U = V'V = I", (long)m, (long)(n * 10 + form), fmax(ou, ov));
    check(order == 0 && differ <= tol * most * (double)k, "singular values",
          (long)m, (long)(n * 10 + form), differ);
    free(us);
    free(r.at);
  }
  free(a);
  free(only.at);
}

static void eigh(setup *s, int is64, int64_t n, int form) {
  double *a = random_matrix(n * n, is64), *b = malloc(sizeof *b * (size_t)(n * n + 1)), most = 1;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      if (form == 1) a[i * n + j] = (i == j) * 2;
      if (form == 2) a[i * n + j] = 1;
      a[j * n + i] = a[i * n + j];
    }
  for (int upper = 0; upper < 2; upper++) {
    for (int64_t i = 0; i < n; i++)               /* the other triangle must not be read */
      for (int64_t j = 0; j < n; j++) b[i * n + j] = (upper ? j < i : j > i) ? 77 : a[i * n + j];
    result r = call(s, FL_CALL_eigh, is64, b, n * n, NULL, 0, n + n * n, 5,
                    (int64_t[]){ 1, 0, n, upper, 1 });
    result o = call(s, FL_CALL_eigh, is64, b, n * n, NULL, 0, n, 5,
                    (int64_t[]){ 1, 0, n, upper, 0 });
    const double *w = r.at, *v = r.at + n;
    double *vw = malloc(sizeof *vw * (size_t)(n * n + 1)), bad = 0;
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < n; j++) vw[i * n + j] = v[i * n + j] * w[j];
    for (int64_t i = 0; i < n; i++) {
      if (i && w[i] < w[i - 1]) bad = 1;
      if (fabs(w[i]) > most) most = fabs(w[i]);
      if (fabs(w[i] - o.at[i]) > eps(is64) * 50 * most * (double)n) bad = 2;
    }
    const double tol = eps(is64) * 60 * (double)(n + 1), e = off_product(n, n, n, vw, 0, v, 1, a);
    const double orth = off_product(n, n, n, v, 1, v, 0, NULL);
    check(e <= tol * most && bad == 0, "eigh", (long)n, form, e);
    check(orth <= tol, "V'V = I", (long)n, form, orth);
    free(vw);
    free(r.at);
    free(o.at);
  }
  free(a);
  free(b);
}

/* ---- determinants ---------------------------------------------------------------------------- */

/* The determinant of an n by n matrix, by minors. */
static double det_of(int n, const double *a) {
  double b[64], sum = 0;
  if (n == 0) return 1;
  for (int c = 0; c < n; c++) {
    for (int i = 1; i < n; i++)
      for (int j = 0, t = 0; j < n; j++) if (j != c) b[(i - 1) * (n - 1) + t++] = a[i * n + j];
    sum += (c % 2 ? -1 : 1) * a[c] * det_of(n - 1, b);
  }
  return sum;
}

static double cofactor_of(int n, const double *a, int r, int c) {
  double b[64];
  int t = 0;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) if (i != r && j != c) b[t++] = a[i * n + j];
  return ((r + c) % 2 ? -1 : 1) * det_of(n - 1, b);
}

static void determinants(setup *s, int is64, int n, int rank) {
  double *a = random_matrix(n * n, is64), *g = random_matrix(n * n, is64);
  for (int i = rank; i < n; i++)
    for (int j = 0; j < n; j++) a[i * n + j] = i == 0 || i % 2 ? 0 : a[(i - 1) * n + j] * 2;
  const double tol = eps(is64) * 500;
  result d = call(s, FL_CALL_determinant, is64, a, n * n, NULL, 0, 3, 3, (int64_t[]){ 1, 0, n });
  const double want = det_of(n, a);
  check(fabs(d.at[0] - want) <= tol && d.at[1] == (d.at[0] > 0) - (d.at[0] < 0), "determinant",
        n, rank, d.at[0] - want);
  check(d.at[0] == 0 ? d.at[2] == -INFINITY : fabs(d.at[2] - log(fabs(d.at[0]))) <= tol * 10,
        "its log", n, rank, d.at[2]);
  result c = call(s, FL_CALL_cofactor, is64, a, n * n, NULL, 0, n * n, 3, (int64_t[]){ 1, 0, n });
  double e = 0;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) e = fmax(e, fabs(c.at[i * n + j] - cofactor_of(n, a, i, j)));
  check(e <= tol, "cofactor", n, rank, e);
  if (is64 && n) {
    result h = call(s, FL_CALL_cofactor_grad, is64, a, n * n, g, n * n, n * n, 3,
                    (int64_t[]){ 1, 0, n });
    for (int k = 0; k < n * n; k++) {
      double side[2], kept = a[k];
      for (int q = 0; q < 2; q++) {
        a[k] = kept + (q ? 1e-3 : -1e-3);      /* a determinant is linear in each element, so a
                                               ** difference with any step is exact */
        side[q] = 0;
        for (int i = 0; i < n; i++)
          for (int j = 0; j < n; j++) side[q] += g[i * n + j] * cofactor_of(n, a, i, j);
      }
      a[k] = kept;
      e = fabs((side[1] - side[0]) / 2e-3 - h.at[k]);
      check(e < 1e-9, "cofactor_grad", n, rank * 100 + k, e);
    }
    free(h.at);
  }
  free(a);
  free(g);
  free(d.at);
  free(c.at);
}

/* ---- exponentials ---------------------------------------------------------------------------- */

static void exponentials(setup *s, int is64) {
  for (double t = 1e-3; t < 60; t *= 3) {
    const double a[4] = { 0, -t, t, 0 };
    result r = call(s, FL_CALL_matrix_exp, is64, a, 4, NULL, 0, 4, 3, (int64_t[]){ 1, 0, 2 });
    const double te = is64 ? t : (float)t;
    const double e = fmax(fabs(r.at[0] - cos(te)), fabs(r.at[2] - sin(te)));
    check(e <= eps(is64) * 20 * (1 + t), "rotation", 0, 0, e);
    free(r.at);
  }
  for (int n = 1; n < 60; n = n * 2 + 1) {
    double *a = random_matrix(n * n, is64), *b = malloc(sizeof *b * (size_t)(n * n));
    for (int i = 0; i < n * n; i++) b[i] = -a[i];
    result x = call(s, FL_CALL_matrix_exp, is64, a, n * n, NULL, 0, n * n, 3,
                    (int64_t[]){ 1, 0, n });
    result y = call(s, FL_CALL_matrix_exp, is64, b, n * n, NULL, 0, n * n, 3,
                    (int64_t[]){ 1, 0, n });
    double most = 1;
    for (int i = 0; i < n * n; i++) most = fmax(most, fabs(x.at[i]) * fabs(y.at[i]));
    const double e = off_product(n, n, n, x.at, 0, y.at, 0, NULL);
    check(e <= eps(is64) * 100 * n * fmax(most, 100), "exp(a) exp(-a) = 1", n, 0, e);
    free(x.at);
    free(y.at);
    free(a);
    free(b);
  }
}

/* ---- bad values ------------------------------------------------------------------------------ */

static void faults(setup *s, int64_t n) {
  double *a = calloc((size_t)(4 * n * n), sizeof *a), *b = calloc((size_t)(4 * n), sizeof *b);
  for (int64_t q = 0; q < 4; q++)
    for (int64_t i = 0; i < n; i++) a[(q * n + i) * n + i] = q >= 2 && i == 1 ? 0 : 1 + q;
  const int64_t all = 4 * n * n;
  result r = call(s, FL_CALL_inverse, 1, a, all, NULL, 0, all, 4, (int64_t[]){ 4, 1, n, 0 });
  check(!strcmp(r.fault, "matrix 3 of the batch is singular"), r.fault, (long)n, 0, 0);
  free(r.at);
  r = call(s, FL_CALL_inverse, 1, a, all, NULL, 0, all, 4, (int64_t[]){ 4, 1, n, 1 });
  check(!*r.fault && isinf(r.at[2 * n * n]) && r.at[0] == 1, "quiet", (long)n, 0, 0);
  free(r.at);
  r = call(s, FL_CALL_solve, 1, a + 2 * n * n, n * n, b, n, n, 4, (int64_t[]){ 1, 0, n, 1 });
  check(!strcmp(r.fault, "the matrix is singular"), r.fault, (long)n, 0, 0);
  free(r.at);
  r = call(s, FL_CALL_cholesky, 1, a, all, NULL, 0, all, 4, (int64_t[]){ 4, 1, n, 0 });
  check(!strcmp(r.fault, "matrix 3 of the batch is not positive definite"), r.fault, (long)n, 0, 0);
  free(r.at);
  a[n * n] = NAN;
  r = call(s, FL_CALL_svd, 1, a, all, NULL, 0, 4 * n, 6, (int64_t[]){ 4, 1, n, n, 0, 0 });
  check(!strcmp(r.fault, "matrix 2 of the batch holds NaN or Inf"), r.fault, (long)n, 0, 0);
  free(r.at);
  r = call(s, FL_CALL_eigh, 1, a, all, NULL, 0, 4 * n, 5, (int64_t[]){ 4, 1, n, 0, 0 });
  check(!strcmp(r.fault, "matrix 2 of the batch holds NaN or Inf"), r.fault, (long)n, 0, 0);
  free(r.at);
  r = call(s, FL_CALL_cholesky, 1, a, all, NULL, 0, all, 4, (int64_t[]){ 4, 1, n, 0 });
  check(!strcmp(r.fault, "matrix 2 of the batch is not positive definite"), r.fault, (long)n, 0, 0);
  free(r.at);
  const double none[1] = { 0 };
  r = call(s, FL_CALL_matrix_exp, 1, none, 1, NULL, 0, 1, 3, (int64_t[]){ 1, 0, 1 });
  check(r.at[0] == 1, "exp(0)", 1, 0, r.at[0]);
  free(r.at);
  free(a);
  free(b);
}

static void all(setup *s) {
  const int64_t size[] = { 0, 1, 2, 3, 7, 24, 25, 40, 131 };
  for (int is64 = 0; is64 < 2; is64++) {
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
      const int64_t n = size[i];
      equations(s, is64, n > 50 ? 2 : 5, n, 3);
      equations(s, is64, 1, n, 1);
      cholesky(s, is64, n);
      for (int f = 0; f < 3; f++) eigh(s, is64, n, f);
      for (size_t j = 0; j < sizeof size / sizeof *size - (i > 6); j++) {
        lu_and_qr(s, is64, n, size[j]);
        for (int f = 0; f < (n > 50 || size[j] > 50 ? 2 : 6); f++) svd(s, is64, n, size[j], f);
      }
    }
    equations(s, is64, 0, 3, 2);
    equations(s, is64, 3, 4, 0);
    for (int n = 0; n < 6; n++)
      for (int k = n > 3 ? n - 3 : 0; k <= n; k++) determinants(s, is64, n, k);
    exponentials(s, is64);
  }
  faults(s, 3);
  faults(s, 40);
}

/* Checks that singular values have the same bits on the setups a and b, with different workers. */
static void same_bits(setup *a, setup *b) {
  const int64_t n = 9, batch = 3000;
  double *x = random_matrix(batch * n * n, 1);
  const int64_t p[6] = { batch, 1, n, n, 0, 1 };
  result u = call(a, FL_CALL_svd, 1, x, batch * n * n, NULL, 0, batch * (2 * n * n + n), 6, p);
  result v = call(b, FL_CALL_svd, 1, x, batch * n * n, NULL, 0, batch * (2 * n * n + n), 6, p);
  check(!memcmp(u.at, v.at, sizeof(double) * (size_t)(batch * (2 * n * n + n))), "same bits",
        0, 0, 0);
  free(x);
  free(u.at);
  free(v.at);
}

int main(void) {
  state = 1;
  setup *ours = open_setup_with(1, "FLAME_BLAS", "off");
  setup *ours3 = open_setup_with(3, "FLAME_BLAS", "off");
  setup *lib = open_setup_with(2, "FLAME_BLAS", "");
  mode = "ours";
  all(ours);
  mode = "ours, 3 threads";
  all(ours3);
  mode = "library";
  all(lib);
  same_bits(ours, ours3);
  check(close_setup(ours) && close_setup(ours3) && close_setup(lib), "memory", 0, 0, 0);
  printf("call_linalg: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
