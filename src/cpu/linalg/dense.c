/*
** Linear algebra without a library, for machines that have none, for FLAME_BLAS=off, and for
** small matrices, where a library call costs more than the work. f32 is computed here in f64.
**
** Methods, chosen for being short and accurate: LU with partial pivoting, Cholesky, Householder
** QR, and Jacobi rotations: two-sided for symmetric matrices, one-sided on the triangle of a QR
** for singular values (small ones have relative accuracy). Sums are taken in a fixed order.
*/
#include "cpu/linalg/dense.h"
#include <float.h>
#include <math.h>
#include <string.h>

typedef double v4 __attribute__((vector_size(32)));
enum { SWEEPS = 60 };

static int ended(const atomic_int *stop) {
  return atomic_load_explicit(stop, memory_order_relaxed) != 0;
}

/* ---- rows --------------------- */

/* y += a x */
static void add_row(int64_t n, double a, const double *x, double *y) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    v4 p, q;
    memcpy(&p, x + i, sizeof p);
    memcpy(&q, y + i, sizeof q);
    q += a * p;
    memcpy(y + i, &q, sizeof q);
  }
  for (; i < n; i++) y[i] += a * x[i];
}

static double dot(int64_t n, const double *x, const double *y) {
  v4 sum = { 0 };
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    v4 p, q;
    memcpy(&p, x + i, sizeof p);
    memcpy(&q, y + i, sizeof q);
    sum += p * q;
  }
  double s = (sum[0] + sum[2]) + (sum[1] + sum[3]);
  for (; i < n; i++) s += x[i] * y[i];
  return s;
}

/* (x, y) = (c x - s y, s x + c y) */
static void rotate(int64_t n, double c, double s, double *x, double *y) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    v4 p, q;
    memcpy(&p, x + i, sizeof p);
    memcpy(&q, y + i, sizeof q);
    const v4 u = c * p - s * q, v = s * p + c * q;
    memcpy(x + i, &u, sizeof u);
    memcpy(y + i, &v, sizeof v);
  }
  for (; i < n; i++) {
    const double p = x[i], q = y[i];
    x[i] = c * p - s * q;
    y[i] = s * p + c * q;
  }
}

static void scale_row(int64_t n, double a, double *x) { for (int64_t i = 0; i < n; i++) x[i] *= a; }

static void swap_rows(int64_t n, double *x, double *y) {
  if (x == y) return;
  for (int64_t i = 0; i < n; i++) {
    const double t = x[i];
    x[i] = y[i];
    y[i] = t;
  }
}

static double largest(int64_t n, const double *x) {
  double most = 0;
  for (int64_t i = 0; i < n; i++) if (fabs(x[i]) > most) most = fabs(x[i]);
  return most;
}

/* The length of x, without overflow or underflow on the way. */
static double length(int64_t n, const double *x) {
  const double s = dot(n, x, x);
  if (s > 1e-280 && s < 1e280) return sqrt(s);
  const double most = largest(n, x);
  if (!(most > 0) || isinf(most)) return most;
  double t = 0;
  for (int64_t i = 0; i < n; i++) t += (x[i] / most) * (x[i] / most);
  return most * sqrt(t);
}

void fl_dense_product(int64_t m, int64_t n, int64_t k, const double *a, const double *b,
                      double *c, const atomic_int *stop) {
  memset(c, 0, sizeof *c * (size_t)(m * n));
  for (int64_t i = 0; i < m && !ended(stop); i++)
    for (int64_t p = 0; p < k; p++) add_row(n, a[i * k + p], b + p * n, c + i * n);
}

/* ---- LU, triangles, Cholesky --------------------- */

int fl_dense_lu(int64_t m, int64_t n, double *a, int64_t *perm, int64_t *zero,
                const atomic_int *stop) {
  int sign = 1;
  *zero = 0;
  for (int64_t i = 0; i < m; i++) perm[i] = i;
  for (int64_t j = 0; j < (m < n ? m : n) && !ended(stop); j++) {
    int64_t at = j;
    for (int64_t i = j + 1; i < m; i++) if (fabs(a[i * n + j]) > fabs(a[at * n + j])) at = i;
    if (a[at * n + j] == 0) {
      if (!*zero) *zero = j + 1;
      continue;
    }
    if (at != j) {
      const int64_t t = perm[j];
      perm[j] = perm[at];
      perm[at] = t;
      swap_rows(n, a + j * n, a + at * n);
      sign = -sign;
    }
    const double pivot = a[j * n + j];
    for (int64_t i = j + 1; i < m; i++) {
      const double f = a[i * n + j] /= pivot;
      if (f != 0) add_row(n - j - 1, -f, a + j * n + j + 1, a + i * n + j + 1);
    }
  }
  return sign;
}

void fl_dense_triangle(int64_t n, int64_t k, const double *a, int upper, int unit, double *b,
                       const atomic_int *stop) {
  for (int64_t s = 0; s < n && !ended(stop); s++) {
    const int64_t i = upper ? n - 1 - s : s;
    const int64_t from = upper ? i + 1 : 0, to = upper ? n : i;
    for (int64_t j = from; j < to; j++)
      if (a[i * n + j] != 0) add_row(k, -a[i * n + j], b + j * k, b + i * k);
    if (!unit) for (int64_t c = 0; c < k; c++) b[i * k + c] /= a[i * n + i];
  }
}

void fl_dense_lu_solve(int64_t n, int64_t k, const double *lu, const int64_t *perm, const double *b,
                       double *x, const atomic_int *stop) {
  for (int64_t i = 0; i < n; i++) memcpy(x + i * k, b + perm[i] * k, sizeof *x * (size_t)k);
  fl_dense_triangle(n, k, lu, 0, 1, x, stop);
  fl_dense_triangle(n, k, lu, 1, 0, x, stop);
}

int64_t fl_dense_cholesky(int64_t n, double *a, const atomic_int *stop) {
  for (int64_t j = 0; j < n && !ended(stop); j++) {
    double *column = a + j * n;             /* column j of the triangle is kept to the right of the
                                            ** diagonal of row j */
    if (!(column[j] > 0)) return j + 1;
    const double d = column[j] = sqrt(column[j]);
    for (int64_t i = j + 1; i < n; i++) a[i * n + j] = column[i] = a[i * n + j] / d;
    for (int64_t i = j + 1; i < n; i++) {
      double *row = a + i * n;
      const double f = column[i];
      for (int64_t k = j + 1; k <= i; k++) row[k] -= f * column[k];
    }
  }
  for (int64_t i = 0; i < n; i++) for (int64_t j = i + 1; j < n; j++) a[i * n + j] = 0;
  return 0;
}

/* ---- QR --------------------- */

/* The reflection 1 - tau v v' that sends x to (beta, 0, …): x becomes v (v[0] = 1); returns
** beta. */
static double reflector(int64_t n, double *x, double *tau) {
  const double rest = n > 1 ? length(n - 1, x + 1) : 0;
  *tau = 0;
  if (rest == 0) {
    const double whole = x[0];
    x[0] = 1;
    return whole;
  }
  const double norm = hypot(x[0], rest), beta = x[0] >= 0 ? -norm : norm;
  *tau = (beta - x[0]) / beta;
  const double head = x[0] - beta;
  for (int64_t i = 1; i < n; i++) x[i] /= head;
  x[0] = 1;
  return beta;
}

static void reflect(int64_t n, double tau, const double *v, double *x) {
  if (tau != 0) add_row(n, -tau * dot(n, v, x), v, x);
}

/* Works on a' so that columns are contiguous. Column j of t holds R above element j, and the
** reflector from j on. */
void fl_dense_qr(int64_t m, int64_t n, const double *a, int64_t kq, double *q, double *r,
                 double *work, const atomic_int *stop) {
  const int64_t k = m < n ? m : n;
  double *t = work, *tau = work + n * m, *sum = tau + n;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) t[j * m + i] = a[i * n + j];
  memset(r, 0, sizeof *r * (size_t)(kq * n));
  for (int64_t j = 0; j < k && !ended(stop); j++) {
    r[j * n + j] = reflector(m - j, t + j * m + j, &tau[j]);
    for (int64_t c = j + 1; c < n; c++) {
      reflect(m - j, tau[j], t + j * m + j, t + c * m + j);
      r[j * n + c] = t[c * m + j];
    }
  }
  if (!q) return;
  for (int64_t i = 0; i < m; i++)
    for (int64_t c = 0; c < kq; c++) q[i * kq + c] = i == c;
  for (int64_t j = k - 1; j >= 0 && !ended(stop); j--) {
    /* q -= tau v (v' q); before row j, q is still the identity */
    const double *v = t + j * m;
    const int64_t w = kq - j;
    memset(sum, 0, sizeof *sum * (size_t)w);
    for (int64_t i = j; i < m; i++) add_row(w, v[i], q + i * kq + j, sum);
    for (int64_t i = j; i < m; i++) add_row(w, -tau[j] * v[i], sum, q + i * kq + j);
  }
}

/* ---- singular values --------------------- */

int64_t fl_dense_svd_space(int64_t m, int64_t n, int full) {
  const int64_t tall = m > n ? m : n, k = m > n ? n : m;
  return 3 * tall * k + tall + (full ? tall * tall : tall * k) + (full ? tall : k) * k + k * k + k;
}

/* Makes the rows of w orthogonal by rotations, and applies these to z as well. 0: not orthogonal
** after SWEEPS sweeps. */
static int orthogonal_rows(int64_t n, double *w, double *z, const atomic_int *stop) {
  const double tol = DBL_EPSILON * (n > 10 ? sqrt((double)n) : 3);
  for (int sweep = 0; sweep < SWEEPS && !ended(stop); sweep++) {
    double most = 0;
    int64_t turned = 0;
    for (int64_t i = 0; i < n; i++) {
      const double s = dot(n, w + i * n, w + i * n);
      if (s > most) most = s;
    }
    const double none = most * DBL_EPSILON * DBL_EPSILON;     /* rows that are only rounding errors
                                                              ** are not changed */
    for (int64_t p = 0; p < n - 1 && !ended(stop); p++)
      for (int64_t q = p + 1; q < n; q++) {
        double *x = w + p * n, *y = w + q * n;
        const double a = dot(n, x, x), b = dot(n, y, y), d = dot(n, x, y);
        if (fabs(d) <= tol * sqrt(a) * sqrt(b) || a <= none || b <= none) {
          if (a < b) swap_rows(n, x, y), swap_rows(n, z + p * n, z + q * n);
          continue;
        }
        turned++;
        const double zeta = (b - a) / (2 * d);
        const double t = (zeta >= 0 ? 1 : -1) / (fabs(zeta) + hypot(1, zeta)),
                     c = 1 / sqrt(1 + t * t);
        rotate(n, c, c * t, x, y);
        rotate(n, c, c * t, z + p * n, z + q * n);
      }
    if (!turned) return 1;
  }
  return 0;
}

static void sort_rows(int64_t n, double *w, double *z, double *s) {
  for (int64_t i = 0; i < n; i++) s[i] = length(n, w + i * n);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = i;
    for (int64_t j = i + 1; j < n; j++) if (s[j] > s[at]) at = j;
    const double t = s[i];
    s[i] = s[at];
    s[at] = t;
    swap_rows(n, w + i * n, w + at * n);
    swap_rows(n, z + i * n, z + at * n);
  }
}

/* Row i of w becomes a unit vector orthogonal to the rows before it. */
static void complete_row(int64_t n, int64_t i, double *w, const atomic_int *stop) {
  double *x = w + i * n;
  for (int64_t e = 0; e < n && !ended(stop); e++) {
    memset(x, 0, sizeof *x * (size_t)n);
    x[(i + e) % n] = 1;
    for (int twice = 0; twice < 2; twice++)
      for (int64_t j = 0; j < i; j++) add_row(n, -dot(n, x, w + j * n), w + j * n, x);
    const double s = length(n, x);
    if (s > 0.5 / sqrt((double)n)) {
      scale_row(n, 1 / s, x);
      return;
    }
  }
}

/* m >= n. a = q r; rows of w = r are turned into s_i times the rows of vh, with r = z' w. */
static int tall_svd(int64_t m, int64_t n, const double *a, int64_t ku, double *u, double *s,
                    double *vh, double *work, const atomic_int *stop) {
  double *q = work, *r = q + m * ku, *z = r + ku * n, *space = z + n * n;
  fl_dense_qr(m, n, a, u ? ku : n, u ? q : NULL, r, space, stop);
  memset(z, 0, sizeof *z * (size_t)(n * n));
  for (int64_t i = 0; i < n; i++) z[i * n + i] = 1;
  if (!orthogonal_rows(n, r, z, stop)) return 0;
  sort_rows(n, r, z, s);
  if (!u) return 1;
  for (int64_t i = 0; i < n; i++) {
    if (s[i] > s[0] * DBL_EPSILON) {
      memcpy(vh + i * n, r + i * n, sizeof *vh * (size_t)n);
      scale_row(n, 1 / s[i], vh + i * n);
    } else {
      complete_row(n, i, vh, stop);
    }
  }
  for (int64_t i = 0; i < m && !ended(stop); i++) {
    for (int64_t j = 0; j < n; j++) u[i * ku + j] = dot(n, q + i * ku, z + j * n);
    for (int64_t j = n; j < ku; j++) u[i * ku + j] = q[i * ku + j];
  }
  return 1;
}

/* y (n, m) = x (m, n)' */
static void transpose(int64_t m, int64_t n, const double *x, double *y) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) y[j * m + i] = x[i * n + j];
}

/* The matrix is scaled by a power of two so that no square overflows or vanishes. For a wide matrix
** the transpose is decomposed, and the factors are exchanged; complete_row computes the vectors for
** null rows. */
int fl_dense_svd(int64_t m, int64_t n, const double *a, int full, double *u, double *s, double *vh,
                 double *work, const atomic_int *stop) {
  const int64_t tall = m > n ? m : n, k = m > n ? n : m, ku = full ? tall : k;
  const double most = largest(m * n, a);
  int e = 0;
  if (most > 0) frexp(most, &e);
  const double scale = ldexp(1, e > 1000 ? -1000 : -e);
  double *b = work, *left = work + tall * k;
  if (m >= n) memcpy(b, a, sizeof *a * (size_t)(m * n));
  else transpose(m, n, a, b);
  scale_row(tall * k, scale, b);
  if (m >= n) {
    if (!tall_svd(m, n, b, ku, u, s, vh, left, stop)) return 0;
  } else if (!u) {
    if (!tall_svd(n, m, b, ku, NULL, s, NULL, left, stop)) return 0;
  } else {                                      /* a' = vh' s u': vh and u are made as transposes */
    if (!tall_svd(n, m, b, ku, vh, s, u, left, stop)) return 0;
    memcpy(left, u, sizeof *u * (size_t)(m * m));
    transpose(m, m, left, u);
    memcpy(left, vh, sizeof *vh * (size_t)(n * ku));
    transpose(n, ku, left, vh);
  }
  for (int64_t i = 0; i < k; i++) s[i] /= scale;
  return 1;
}

/* ---- symmetric eigenvalues --------------------- */

/* Rotates rows p and q, then columns p and q: the rotation that makes a[p][q] and a[q][p] 0. */
static void turn_both(int64_t n, double c, double s, double *a, int64_t p, int64_t q) {
  rotate(n, c, s, a + p * n, a + q * n);
  for (int64_t i = 0; i < n; i++) {
    const double x = a[i * n + p], y = a[i * n + q];
    a[i * n + p] = c * x - s * y;
    a[i * n + q] = s * x + c * y;
  }
  a[p * n + q] = a[q * n + p] = 0;
}

static int diagonal_form(int64_t n, double *a, double *z, const atomic_int *stop) {
  for (int sweep = 0; sweep < SWEEPS && !ended(stop); sweep++) {
    double off = 0, all = 0;
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < n; j++) {
        all += a[i * n + j] * a[i * n + j];
        if (i != j) off += a[i * n + j] * a[i * n + j];
      }
    if (off <= all * DBL_EPSILON * DBL_EPSILON * 0.01) return 1;
    int64_t turned = 0;
    for (int64_t p = 0; p < n - 1 && !ended(stop); p++)
      for (int64_t q = p + 1; q < n; q++) {
        const double d = a[p * n + q];
        if (fabs(d) <= DBL_EPSILON * 0.01 * sqrt(all) / (double)n) continue;
        const double theta = (a[q * n + q] - a[p * n + p]) / (2 * d);
        const double t = (theta >= 0 ? 1 : -1) / (fabs(theta) + hypot(1, theta)),
                     c = 1 / sqrt(1 + t * t);
        turn_both(n, c, c * t, a, p, q);
        if (z) rotate(n, c, c * t, z + p * n, z + q * n);
        turned++;
      }
    if (!turned) return 1;
  }
  return 0;
}

int fl_dense_eigh(int64_t n, double *a, double *w, double *v, double *work,
                  const atomic_int *stop) {
  int e = 0;
  const double most = largest(n * n, a);
  if (most > 0) frexp(most, &e);
  const double scale = ldexp(1, e > 1000 ? -1000 : -e);
  double *z = v ? work : NULL;
  scale_row(n * n, scale, a);
  for (int64_t i = 0; z && i < n; i++)
    for (int64_t j = 0; j < n; j++) z[i * n + j] = i == j;
  if (!diagonal_form(n, a, z, stop)) return 0;
  for (int64_t i = 0; i < n; i++) w[i] = a[i * n + i] / scale;
  for (int64_t i = 0; i < n; i++) {
    int64_t at = i;
    for (int64_t j = i + 1; j < n; j++) if (w[j] < w[at]) at = j;
    const double t = w[i];
    w[i] = w[at];
    w[at] = t;
    if (z) swap_rows(n, z + i * n, z + at * n);
  }
  if (z) transpose(n, n, z, v);
  return 1;
}
