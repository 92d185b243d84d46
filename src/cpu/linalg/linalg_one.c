/*
** One matrix of a call (linalg_one.h).
**
** LAPACK is column-major: a row-major matrix passed to it is its transpose. Nothing is transposed
** here unless necessary: the inverse of the transpose is the transpose of the inverse, its LQ is
** our QR, its singular vectors are exchanged, the other triangle is named, and equations are solved
** from the right. Only the matrix of an LU (whose rows are pivoted), its factors, and eigenvectors
** are transposed, element by element.
**
** Our own code (dense.c) works in f64, so f32 is widened for it. Library workspaces have the
** documented sizes, with blocks of 64.
*/
#include "cpu/linalg/linalg_room.h"
#include "cpu/linalg/dense.h"
#include <math.h>


/* The bytes of scratch of one matrix, enough for LAPACK and for our own code; d counts doubles. */
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

/* The library, if it should compute this matrix; NULL: our own code is better, as it is for very
** small ones. */
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
    fl_dense_lu(n, n, lu, perm, &zero, o->stop);
    bad = zero > 0;
    memset(one, 0, sizeof *one * (size_t)(n * n));
    for (int64_t i = 0; i < n; i++) one[i * n + i] = 1;
    if (!bad) {
      fl_dense_lu_solve(n, n, lu, perm, one, y, o->stop);
      store(o, x, y, n * n);
    }
  }
  if (bad && o->f->a) fill(o, x, n * n, INFINITY);      /* as the call wants, instead of an error */
  return bad && !o->f->a ? FL_LINALG_SINGULAR : FL_LINALG_OK;
}

/* Multiplies x' (k, n, column-major) with the inverse of the triangle of a', from the right. */
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
  fl_dense_lu(n, n, lu, perm, &zero, o->stop);
  if (zero) return FL_LINALG_SINGULAR;
  fl_dense_lu_solve(n, k, lu, perm, rhs, y, o->stop);
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
  fl_dense_triangle(n, k, t, o->f->a, o->f->b, y, o->stop);
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
  if (fl_dense_cholesky(n, t, o->stop)) return FL_LINALG_INDEFINITE;
  for (int64_t i = 0; upper && i < n; i++)
    for (int64_t j = 0; j < i; j++) {
      t[j * n + i] = t[i * n + j];
      t[i * n + j] = 0;
    }
  store(o, l, t, n * n);
  return FL_LINALG_OK;
}

/* ---- LU and determinants --------------------- */

/* Parts of the result: L (below the diagonal) and U in one matrix, and for each row the row of a
** that it was, from 1. */
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
    fl_dense_lu(m, n, t, perm, &zero, o->stop);
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
    side = fl_dense_lu(n, n, t, perm, &zero, o->stop);
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

/* ---- orthogonal factors --------------------- */

/* Uses the library's LQ of the transpose: its L is our R, its Q is our Q, both without a
** transposition. */
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
  fl_dense_qr(m, n, t, kq, q ? dq : NULL, dr, doubles(r, n * m + n + m), o->stop);
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
                    doubles(r, fl_dense_svd_space(m, n, full)), o->stop))
    return FL_LINALG_NO_CONVERGENCE;
  store(o, s, ds, k);
  if (!vectors) return FL_LINALG_OK;
  store(o, u, du, m * (full ? m : k));
  store(o, vh, dv, n * (full ? n : k));
  return FL_LINALG_OK;
}

/* Fills in a symmetric matrix from one of its triangles. */
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
  if (!fl_dense_eigh(n, t, dw, o->f->b ? dv : NULL, work, o->stop)) return FL_LINALG_NO_CONVERGENCE;
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
    case FL_CALL_cofactor: return fl_linalg_cofactor(o, in[0], out[0], r);
    case FL_CALL_cofactor_grad: return fl_linalg_cofactor_grad(o, in[0], in[1], out[0], r);
    case FL_CALL_matrix_exp: return fl_linalg_exp(o, in[0], out[0], r);
    case FL_CALL_qr: return qr_one(o, in[0], out[0], out[1], &r);
    case FL_CALL_svd: return svd_one(o, in[0], out[0], out[1], out[2], &r);
    default: return eigh_one(o, in[0], out[0], out[1], &r);
  }
}
