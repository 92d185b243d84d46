/* Dense linear algebra of our own (dense.c): row-major f64, one matrix, one thread. When *stop is
** set, loops of cubic cost end early, and results are invalid. */
#ifndef FL_CPU_DENSE_H
#define FL_CPU_DENSE_H
#include <stdatomic.h>
#include <stdint.h>

/* c (m, n) = a (m, k) b (k, n); c is neither a nor b. */
void fl_dense_product(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c,
                      const atomic_int *stop);
/* P a = L U in place with row pivoting: perm[i] is the row of a that is at position i. Returns the
** sign of the permutation; *zero: 1-based column of the first pivot that is 0, or 0. */
int fl_dense_lu(int64_t m, int64_t n, double *a, int64_t *perm, int64_t *zero,
                const atomic_int *stop);
/* x (n, k) = inverse(a) b, with a's factors from fl_dense_lu; x is not b. */
void fl_dense_lu_solve(int64_t n, int64_t k, const double *lu, const int64_t *perm, const double *b,
                       double *x, const atomic_int *stop);
/* b (n, k) in place = inverse(a) b, where a is a triangle. */
void fl_dense_triangle(int64_t n, int64_t k, const double *a, int upper, int unit, double *b,
                       const atomic_int *stop);
/* a = L L' in place from the lower triangle, zero above. Returns the 1-based row whose pivot is not
** positive, or 0. */
int64_t fl_dense_cholesky(int64_t n, double *a, const atomic_int *stop);
/* a (m, n) = q (m, kq) r; kq is min(m, n) or m, r has kq rows; q may be NULL. work: n m + n + m
** numbers. */
void fl_dense_qr(int64_t m, int64_t n, const double *a, int64_t kq, double *q, double *r,
                 double *work, const atomic_int *stop);
/* a = u s vh, s in descending order; u (m, m or min), vh (n or min, n); both NULL: s alone. work:
** fl_dense_svd_space numbers. 0 if the iteration did not converge. */
int64_t fl_dense_svd_space(int64_t m, int64_t n, int full);
int fl_dense_svd(int64_t m, int64_t n, const double *a, int full, double *u, double *s, double *vh,
                 double *work, const atomic_int *stop);
/* a = v w v' for a symmetric a, which is destroyed; w in ascending order; v gets the eigenvectors
** as columns, and may be NULL. work: n n numbers. */
int fl_dense_eigh(int64_t n, double *a, double *w, double *v, double *work, const atomic_int *stop);
#endif
