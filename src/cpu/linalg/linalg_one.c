/*
** One matrix of a call (linalg_one.h).
**
** LAPACK is column-major: a row-major matrix handed over as it is is its transpose. Nothing is
** transposed here beyond what that asks for: the inverse of the transpose is the transpose of
** the inverse, its LQ is our QR, its singular vectors change places, the other triangle is
** named, and equations are solved from the right. LU (rows pivoted) and eigenvectors are copied.
**
** Ours works in f64, so f32 is widened. Library workspaces are the documented sizes, with
** blocks of 64.
*/
#include "cpu/linalg/linalg_one.h"
#include "cpu/linalg/dense.h"
#include "base/num.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { SMALL = 24, SMALL_SPECTRUM = 3, BLOCK = 64 };      /* up to these sizes: ours */

typedef struct room { char *at; } room;

/* The next n bytes of the working memory. */
static void *take(room *r, int64_t n) {
  void *p = r->at;
  r->at += (n + 63) & ~(int64_t)63;
  return p;
}
static double *doubles(room *r, int64_t n) { return take(r, n * (int64_t)sizeof(double)); }

static int32_t as_length(int64_t n) { return n < INT32_MAX ? (int32_t)n : INT32_MAX; }

/* Of gesdd: a tall or wide matrix goes by way of its triangle. */
static int64_t svd_work(int64_t m, int64_t n) {
  const int64_t k = m < n ? m : n;
  return 4 * k * k + (3 * BLOCK + 10) * k + fl_max(m, n);
}

/* In doubles, what either way takes. */
int64_t fl_linalg_space(int kind, const fl_linalg_form *f) {
  const int64_t m = f->m, n = f->n, k = f->k, big = fl_max(m, n), less = m > n ? n : m;
  int64_t d;
  switch (kind) {
    case FL_CALL_inverse: d = 3 * n * n + BLOCK * n; break;
    case FL_CALL_solve: d = n * n + 2 * n * k; break;
    case FL_CALL_triangular: d = n * n + n * k; break;
    case FL_CALL_qr: d = 2 * m * n + m * k + k * n + (m + BLOCK + 2) * fl_max(n, k) + m; break;
    case FL_CALL_svd:
      d = fl_dense_svd_space(m, n, f->a) + m * n + m * (f->a ? m : k) + n * (f->a ? n : k) +
          svd_work(m, n);
      break;
    case FL_CALL_eigh: d = 4 * n * n + (BLOCK + 16) * n; break;
    case FL_CALL_matrix_exp: d = 9 * n * n; break;
    case FL_CALL_cofactor: case FL_CALL_cofactor_grad: d = 18 * n * n + (3 * BLOCK + 32) * n; break;
    default: d = m * n; break;
  }
  return (d + 2 * big + 8 * less + 64) * (int64_t)sizeof(double) + 16 * 64;
}

/* ---- elements --------------------- */

static int64_t width(const fl_linalg_one *o) { return o->is64 ? 8 : 4; }

static void load(const fl_linalg_one *o, double *y, const void *x, int64_t n) {
  const float *f = x;
  if (o->is64) memcpy(y, x, sizeof *y * (size_t)n);
  else for (int64_t i = 0; i < n; i++) y[i] = f[i];
}

static void store(const fl_linalg_one *o, void *y, const double *x, int64_t n) {
  float *f = y;
  if (o->is64) memcpy(y, x, sizeof *x * (size_t)n);
  else for (int64_t i = 0; i < n; i++) f[i] = (float)x[i];
}

static double element(const fl_linalg_one *o, const void *x, int64_t i) {
  return o->is64 ? ((const double *)x)[i] : ((const float *)x)[i];
}

static void put(const fl_linalg_one *o, void *x, int64_t i, double v) {
  if (o->is64) ((double *)x)[i] = v;
  else ((float *)x)[i] = (float)v;
}

static void fill(const fl_linalg_one *o, void *x, int64_t n, double v) {
  for (int64_t i = 0; i < n; i++) put(o, x, i, v);
}

static int all_finite(const fl_linalg_one *o, const void *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) if (!isfinite(element(o, x, i))) return 0;
  return 1;
}

static int stopped(const fl_linalg_one *o) {
  return atomic_load_explicit(o->stop, memory_order_relaxed) != 0;
}

static void copy(const fl_linalg_one *o, void *y, const void *x, int64_t n) {
  memcpy(y, x, (size_t)(n * width(o)));
}

static void swap_bytes(char *x, char *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const char t = x[i];
    x[i] = y[i];
    y[i] = t;
  }
}

/* Is this one for the library? Rotations pay for very small matrices only. */
static const fl_lapack *library(const fl_linalg_one *o, int64_t size) {
  const int spectrum = o->kind == FL_CALL_svd || o->kind == FL_CALL_eigh;
  return size > (spectrum ? SMALL_SPECTRUM : SMALL) ? o->lib : NULL;
}

/* ---- equations --------------------- */

static int inverse_one(const fl_linalg_one *o, const void *a, void *x, room *r) {
  const int64_t n = o->f->n;
  const fl_lapack *lib = library(o, n);
  int bad;
  if (lib) {
    const int in = (int)n, lwork = as_length(n * BLOCK);
    int *pivot = take(r, n * 4), info;
    void *work = take(r, n * BLOCK * width(o));
    copy(o, x, a, n * n);
    lib->getrf(&in, &in, x, &in, pivot, &info);
    bad = info > 0;
    if (!bad && !stopped(o)) lib->getri(&in, x, &in, pivot, work, &lwork, &info);
  } else {
    double *lu = doubles(r, n * n), *one = doubles(r, n * n), *y = doubles(r, n * n);
    int64_t *perm = take(r, n * 8), zero;
    load(o, lu, a, n * n);
    fl_dense_lu(n, n, lu, perm, &zero);
    bad = zero > 0;
    memset(one, 0, sizeof *one * (size_t)(n * n));
    for (int64_t i = 0; i < n; i++) one[i * n + i] = 1;
    if (!bad) {
      fl_dense_lu_solve(n, n, lu, perm, one, y);
      store(o, x, y, n * n);
    }
  }
  if (bad && o->f->a) fill(o, x, n * n, INFINITY);      /* asked to go on */
  return bad && !o->f->a ? FL_LINALG_SINGULAR : FL_LINALG_OK;
}

/* x' (k, n, column-major) times the inverse of the triangle of a'. */
static void from_right(const fl_linalg_one *o, const fl_lapack *lib, const char *uplo,
                       const char *diag, int64_t k, int64_t n, const void *a, void *x) {
  static const double one64 = 1;
  static const float one32 = 1;
  const int ik = (int)k, in = (int)n;
  const void *one = o->is64 ? (const void *)&one64 : &one32;
  if (k > 0 && n > 0) lib->trsm("R", uplo, "N", diag, &ik, &in, one, a, &in, x, &ik, 1, 1, 1, 1);
}

static int solve_one(const fl_linalg_one *o, const void *a, const void *b, void *x, room *r) {
  const int64_t n = o->f->n, k = o->f->k;
  const fl_lapack *lib = library(o, n);
  if (lib) {
    const int in = (int)n;
    int *pivot = take(r, n * 4), info;
    void *lu = take(r, n * n * width(o));
    copy(o, lu, a, n * n);
    lib->getrf(&in, &in, lu, &in, pivot, &info);
    if (info > 0) return FL_LINALG_SINGULAR;
    copy(o, x, b, n * k);
    from_right(o, lib, "U", "N", k, n, lu, x);
    from_right(o, lib, "L", "U", k, n, lu, x);
    for (int64_t i = n - 1; i >= 0; i--)
      if (pivot[i] - 1 != i)
        swap_bytes((char *)x + i * k * width(o), (char *)x + (pivot[i] - 1) * k * width(o),
                   k * width(o));
    return FL_LINALG_OK;
  }
  double *lu = doubles(r, n * n), *rhs = doubles(r, n * k), *y = doubles(r, n * k);
  int64_t *perm = take(r, n * 8), zero;
  load(o, lu, a, n * n);
  load(o, rhs, b, n * k);
  fl_dense_lu(n, n, lu, perm, &zero);
  if (zero) return FL_LINALG_SINGULAR;
  fl_dense_lu_solve(n, k, lu, perm, rhs, y);
  store(o, x, y, n * k);
  return FL_LINALG_OK;
}

static int triangular_one(const fl_linalg_one *o, const void *a, const void *b, void *x, room *r) {
  const int64_t n = o->f->n, k = o->f->k;
  const fl_lapack *lib = library(o, n);
  if (lib) {
    copy(o, x, b, n * k);
    from_right(o, lib, o->f->a ? "L" : "U", o->f->b ? "U" : "N", k, n, a, x);
    return FL_LINALG_OK;
  }
  double *t = doubles(r, n * n), *y = doubles(r, n * k);
  load(o, t, a, n * n);
  load(o, y, b, n * k);
  fl_dense_triangle(n, k, t, o->f->a, o->f->b, y);
  store(o, x, y, n * k);
  return FL_LINALG_OK;
}

static int cholesky_one(const fl_linalg_one *o, const void *a, void *l, room *r) {
  const int64_t n = o->f->n;
  const fl_lapack *lib = library(o, n);
  const int upper = o->f->a;
  if (lib) {
    const int in = (int)n;
    int info;
    copy(o, l, a, n * n);
    lib->potrf(upper ? "L" : "U", &in, l, &in, &info, 1);
    if (info) return FL_LINALG_INDEFINITE;
    for (int64_t i = 0; i < n; i++) {
      if (isnan(element(o, l, i * n + i))) return FL_LINALG_INDEFINITE;
      const int64_t from = upper ? 0 : i + 1, to = upper ? i : n;
      memset((char *)l + (i * n + from) * width(o), 0, (size_t)((to - from) * width(o)));
    }
    return FL_LINALG_OK;
  }
  double *t = doubles(r, n * n);
  load(o, t, a, n * n);
  for (int64_t i = 0; upper && i < n; i++)
    for (int64_t j = 0; j < i; j++) t[i * n + j] = t[j * n + i];
  if (fl_dense_cholesky(n, t)) return FL_LINALG_INDEFINITE;
  for (int64_t i = 0; upper && i < n; i++)
    for (int64_t j = 0; j < i; j++) {
      t[j * n + i] = t[i * n + j];
      t[i * n + j] = 0;
    }
  store(o, l, t, n * n);
  return FL_LINALG_OK;
}

/* ---- LU and determinants --------------------- */

/* Parts: L below the diagonal and U, and for each row the row of a it was, from 1. */
static int lu_one(const fl_linalg_one *o, const void *a, void *lu, void *rows, room *r) {
  const int64_t m = o->f->m, n = o->f->n, k = m < n ? m : n;
  const fl_lapack *lib = library(o, k);
  int64_t *perm = take(r, m * 8), zero;
  if (lib) {
    const int im = (int)m, in = (int)n;
    int *pivot = take(r, k * 4), info;
    void *t = take(r, m * n * width(o));
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) put(o, t, j * m + i, element(o, a, i * n + j));
    lib->getrf(&im, &in, t, &im, pivot, &info);
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) put(o, lu, i * n + j, element(o, t, j * m + i));
    for (int64_t i = 0; i < m; i++) perm[i] = i;
    for (int64_t i = 0; i < k; i++) {
      const int64_t p = perm[i];
      perm[i] = perm[pivot[i] - 1];
      perm[pivot[i] - 1] = p;
    }
  } else {
    double *t = doubles(r, m * n);
    load(o, t, a, m * n);
    fl_dense_lu(m, n, t, perm, &zero);
    store(o, lu, t, m * n);
  }
  for (int64_t i = 0; i < m; i++) put(o, rows, i, (double)(perm[i] + 1));
  return FL_LINALG_OK;
}

static int determinant_one(const fl_linalg_one *o, const void *a, void *det, void *sign,
                           void *log_abs, room *r) {
  const int64_t n = o->f->n;
  const fl_lapack *lib = library(o, n);
  double product = 1, side = 1, sum = 0;
  if (lib) {
    const int in = (int)n;
    int *pivot = take(r, n * 4), info;
    void *t = take(r, n * n * width(o));
    copy(o, t, a, n * n);
    lib->getrf(&in, &in, t, &in, pivot, &info);
    for (int64_t i = 0; i < n; i++) if (pivot[i] != i + 1) side = -side;
    a = t;
  } else {
    double *t = doubles(r, n * n);
    int64_t *perm = take(r, n * 8), zero;
    load(o, t, a, n * n);
    side = fl_dense_lu(n, n, t, perm, &zero);
    a = t;
  }
  for (int64_t i = 0; i < n; i++) {
    const double u = lib ? element(o, a, i * n + i) : ((const double *)a)[i * n + i];
    product *= u;
    side *= u > 0 ? 1 : u < 0 ? -1 : u;
    sum += log(fabs(u));
  }
  put(o, sign, 0, side);
  put(o, det, 0, (side < 0) == (product < 0) ? product : -product);
  put(o, log_abs, 0, sum);
  return FL_LINALG_OK;
}

/* ---- f64 helpers for determinants' gradients and exponentials --------------------- */

static void product64(const fl_linalg_one *o, int64_t n, const double *a, const double *b,
                      double *c) {
  const double one = 1, zero = 0;
  const int in = (int)n;
  if (n > SMALL && o->lib64)
    o->lib64->gemm("N", "N", &in, &in, &in, &one, b, &in, a, &in, &zero, c, &in, 1, 1);
  else fl_dense_product(n, n, n, a, b, c);
}

static void transpose64(int64_t n, double *x) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < i; j++) {
      const double t = x[i * n + j];
      x[i * n + j] = x[j * n + i];
      x[j * n + i] = t;
    }
}

/* u, s, vh of a square a (destroyed). */
static int svd64(const fl_linalg_one *o, int64_t n, double *a, double *u, double *s,
                 double *vh, room r) {
  const int in = (int)n, lwork = as_length(svd_work(n, n));
  if (n <= SMALL || !o->lib64)
    return fl_dense_svd(n, n, a, 0, u, s, vh, doubles(&r, fl_dense_svd_space(n, n, 0)));
  int *iwork = take(&r, 8 * n * 4), info;
  double *work = doubles(&r, lwork);
  o->lib64->gesdd("S", &in, &in, a, &in, s, vh, &in, u, &in, work, &lwork, iwork, &info, 1);
  return info == 0;
}

/* Determinant of an orthogonal q: 1 or -1. */
static double side_of(int64_t n, const double *q, room r) {
  double *t = doubles(&r, n * n);
  int64_t *perm = take(&r, n * 8), zero;
  memcpy(t, q, sizeof *t * (size_t)(n * n));
  double side = fl_dense_lu(n, n, t, perm, &zero);
  for (int64_t i = 0; i < n; i++) side = t[i * n + i] < 0 ? -side : side;
  return side;
}

/* det(a) and the transposed inverse for an a far from singular: 1. */
static int regular(int64_t n, const double *a, double *c, room r) {
  double *lu = doubles(&r, n * n), *one = doubles(&r, n * n);
  int64_t *perm = take(&r, n * 8), zero;
  memcpy(lu, a, sizeof *lu * (size_t)(n * n));
  double det = fl_dense_lu(n, n, lu, perm, &zero), low = INFINITY, high = 0;
  for (int64_t i = 0; i < n; i++) {
    const double u = fabs(lu[i * n + i]);
    det *= lu[i * n + i];
    low = u < low ? u : low;
    high = u > high ? u : high;
  }
  if (!(low > high * DBL_EPSILON * 64 * (double)n) || !isnormal(det)) return 0;
  memset(one, 0, sizeof *one * (size_t)(n * n));
  for (int64_t i = 0; i < n; i++) one[i * n + i] = det;
  fl_dense_lu_solve(n, n, lu, perm, one, c);
  transpose64(n, c);
  return 1;
}

/* The gradient of det, also where a is singular: det(U V) U P V' with P the products of all
** singular values but one. */
static int cofactor_one(const fl_linalg_one *o, const void *in, void *out, room r) {
  const int64_t n = o->f->n;
  double *a = doubles(&r, n * n), *c = doubles(&r, n * n), *u = doubles(&r, n * n),
         *vh = doubles(&r, n * n);
  double *s = doubles(&r, n), *p = doubles(&r, n);
  load(o, a, in, n * n);
  if (!regular(n, a, c, r)) {
    if (!all_finite(o, in, n * n) || !svd64(o, n, a, u, s, vh, r)) {
      fill(o, out, n * n, NAN);
      return FL_LINALG_OK;
    }
    double side = side_of(n, u, r) * side_of(n, vh, r);
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
static int cofactor_grad_one(const fl_linalg_one *o, const void *in, const void *seed,
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
  const double side = side_of(n, u, r) * side_of(n, vh, r);
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

/* The Padé form of degree q of exp(a): x; even powers in p, all of them n x n. */
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
  fl_dense_lu(n, n, u, perm, &zero);
  fl_dense_lu_solve(n, n, u, perm, v, x);
}

/* Scaling and squaring; limits of the degrees as Higham (2005) has them for f64. */
static int exp_one(const fl_linalg_one *o, const void *in, void *out, room r) {
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

/* ---- orthogonal factors --------------------- */

/* The library's LQ of the transpose: L is our R, its Q ours, both as they lie. */
static void qr_library(const fl_linalg_one *o, const fl_lapack *lib, const void *a, void *q,
                       void *rr, room *r) {
  const int64_t m = o->f->m, n = o->f->n, kq = o->f->k, k = m < n ? m : n, ld = n > kq ? n : kq,
                w = width(o);
  const int im = (int)m, in = (int)n, ikq = (int)kq, ik = (int)k, ild = (int)ld,
            lwork = as_length(BLOCK * ld);
  char *t = take(r, m * ld * w), *tau = take(r, k * w), *work = take(r, (int64_t)lwork * w);
  int info;
  for (int64_t i = 0; i < m; i++) copy(o, t + i * ld * w, (const char *)a + i * n * w, n);
  lib->gelqf(&in, &im, t, &ild, tau, work, &lwork, &info);
  memset(rr, 0, (size_t)(kq * n * w));
  for (int64_t i = 0; i < k; i++)
    copy(o, (char *)rr + (i * n + i) * w, t + (i * ld + i) * w, n - i);
  if (!q) return;
  lib->orglq(&ikq, &im, &ik, t, &ild, tau, work, &lwork, &info);
  for (int64_t i = 0; i < m; i++) copy(o, (char *)q + i * kq * w, t + i * ld * w, kq);
}

static int qr_one(const fl_linalg_one *o, const void *a, void *q, void *rr, room *r) {
  const int64_t m = o->f->m, n = o->f->n, kq = o->f->k;
  const fl_lapack *lib = library(o, m < n ? m : n);
  if (!o->f->b) q = NULL;
  if (lib) {
    qr_library(o, lib, a, q, rr, r);
    return FL_LINALG_OK;
  }
  double *t = doubles(r, m * n), *dq = doubles(r, m * kq), *dr = doubles(r, kq * n);
  load(o, t, a, m * n);
  fl_dense_qr(m, n, t, kq, q ? dq : NULL, dr, doubles(r, n * m + n + m));
  if (q) store(o, q, dq, m * kq);
  store(o, rr, dr, kq * n);
  return FL_LINALG_OK;
}

static int svd_one(const fl_linalg_one *o, const void *a, void *u, void *s, void *vh, room *r) {
  const int64_t m = o->f->m, n = o->f->n, k = o->f->k;
  const int full = o->f->a, vectors = o->f->b;
  const fl_lapack *lib = library(o, k);
  if (!all_finite(o, a, m * n)) return FL_LINALG_NOT_FINITE;
  if (lib) {
    const int64_t lwork = svd_work(m, n);
    const int im = (int)m, in = (int)n, iw = as_length(lwork), ldu = in, ldvt = full ? im : (int)k;
    void *t = take(r, m * n * width(o)), *work = take(r, lwork * width(o));
    int *iwork = take(r, 8 * k * 4), info;
    copy(o, t, a, m * n);
    lib->gesdd(!vectors ? "N" : full ? "A" : "S", &in, &im, t, &in, s, vectors ? vh : work, &ldu,
               vectors ? u : work, &ldvt, work, &iw, iwork, &info, 1);
    return info ? FL_LINALG_NO_CONVERGENCE : FL_LINALG_OK;
  }
  double *t = doubles(r, m * n), *du = doubles(r, m * (full ? m : k)),
         *dv = doubles(r, n * (full ? n : k));
  double *ds = doubles(r, k);
  load(o, t, a, m * n);
  if (!fl_dense_svd(m, n, t, full, vectors ? du : NULL, ds, vectors ? dv : NULL,
                    doubles(r, fl_dense_svd_space(m, n, full))))
    return FL_LINALG_NO_CONVERGENCE;
  store(o, s, ds, k);
  if (!vectors) return FL_LINALG_OK;
  store(o, u, du, m * (full ? m : k));
  store(o, vh, dv, n * (full ? n : k));
  return FL_LINALG_OK;
}

/* A symmetric matrix from one of its triangles. */
static void symmetric(int64_t n, int upper, double *a) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < i; j++) {
      if (upper) a[i * n + j] = a[j * n + i];
      else a[j * n + i] = a[i * n + j];
    }
}

static int eigh_one(const fl_linalg_one *o, const void *a, void *w, void *v, room *r) {
  const int64_t n = o->f->n;
  const fl_lapack *lib = library(o, n);
  for (int64_t i = 0; i < n; i++) {
    const int64_t from = o->f->a ? i : 0, to = o->f->a ? n : i + 1;
    if (!all_finite(o, (const char *)a + (i * n + from) * width(o), to - from))
      return FL_LINALG_NOT_FINITE;
  }
  if (lib) {
    const int64_t lwork = 1 + (6 + BLOCK) * n + 2 * n * n;
    const int in = (int)n, iw = as_length(lwork), liwork = 3 + 5 * in;
    void *t = take(r, n * n * width(o)), *work = take(r, lwork * width(o));
    int *iwork = take(r, liwork * 4), info;
    copy(o, t, a, n * n);
    lib->syevd(o->f->b ? "V" : "N", o->f->a ? "L" : "U", &in, t, &in, w, work, &iw, iwork, &liwork,
               &info, 1, 1);
    for (int64_t i = 0; o->f->b && i < n; i++)
      for (int64_t j = 0; j < n; j++) put(o, v, j * n + i, element(o, t, i * n + j));
    return info ? FL_LINALG_NO_CONVERGENCE : FL_LINALG_OK;
  }
  double *t = doubles(r, n * n), *dw = doubles(r, n), *dv = doubles(r, n * n),
         *work = doubles(r, n * n);
  load(o, t, a, n * n);
  symmetric(n, o->f->a, t);
  if (!fl_dense_eigh(n, t, dw, o->f->b ? dv : NULL, work)) return FL_LINALG_NO_CONVERGENCE;
  store(o, w, dw, n);
  if (o->f->b) store(o, v, dv, n * n);
  return FL_LINALG_OK;
}

int fl_linalg_one_run(const fl_linalg_one *o, const void *const in[2], void *const out[3],
                      void *space) {
  room r = { space };
  switch (o->kind) {
    case FL_CALL_inverse: return inverse_one(o, in[0], out[0], &r);
    case FL_CALL_solve: return solve_one(o, in[0], in[1], out[0], &r);
    case FL_CALL_triangular: return triangular_one(o, in[0], in[1], out[0], &r);
    case FL_CALL_cholesky: return cholesky_one(o, in[0], out[0], &r);
    case FL_CALL_lu: return lu_one(o, in[0], out[0], out[1], &r);
    case FL_CALL_determinant: return determinant_one(o, in[0], out[0], out[1], out[2], &r);
    case FL_CALL_cofactor: return cofactor_one(o, in[0], out[0], r);
    case FL_CALL_cofactor_grad: return cofactor_grad_one(o, in[0], in[1], out[0], r);
    case FL_CALL_matrix_exp: return exp_one(o, in[0], out[0], r);
    case FL_CALL_qr: return qr_one(o, in[0], out[0], out[1], &r);
    case FL_CALL_svd: return svd_one(o, in[0], out[0], out[1], out[2], &r);
    default: return eigh_one(o, in[0], out[0], out[1], &r);
  }
}
