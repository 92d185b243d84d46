/*
** Equations and triangular factors on a CUDA device (cusolver_work.h): LU and Cholesky by cuSOLVER
** one after another, or by the calls for batches. The library sees the transpose of each matrix:
**   inverse      of the transpose is the transpose of the inverse
**   solve        factors of the transpose solve for the matrix when asked for their transpose; a
**                right-hand side of several columns is transposed before and after. Large systems
**                are solved with both triangles, from the right, and their rows are permuted
**   triangular   the right-hand side, seen transposed, is solved with the triangle from the right;
**                one column, its own transpose, with the transposed triangle from the left
**   cholesky     the lower triangle, as the library is slow with the upper one: the matrix is
**                transposed before and after, but not for an upper factor
**   lu           rows are pivoted, so the matrix is transposed
*/
#include "cuda/call/cusolver_work.h"
#include "base/num.h"

enum { BY_TRIANGLES = 128 };       /* from this size on solving by triangles is faster than getrs */

#define SOLVER(call, name) fl_solver_check(w->s, call, name)
#define BLAS(call, name) fl_solver_check_blas(w->s, call, name)
#define BOTH(w, prefix, name) \
  ((w)->wide ? (w)->q->lib->prefix##D##name : (w)->q->lib->prefix##S##name)

static fl_sol_fill other_side(const fl_linalg_work *w) {
  return w->f.a ? FL_SOL_LOWER : FL_SOL_UPPER;
}

static const void *one_of(const fl_linalg_work *w) {
  static const double one64 = 1;
  static const float one32 = 1;
  return w->wide ? (const void *)&one64 : &one32;
}

flame_status fl_linalg_ask_factor(fl_linalg_work *w) {
  const fl_cusolver *lib = w->q->lib;
  const fl_linalg_form *f = &w->f;
  if (w->way != FL_WAY_LOOP || w->c->kind == FL_CALL_triangular || fl_min(f->m, f->n) == 0)
    return FLAME_OK;
  if (w->c->kind == FL_CALL_cholesky)
    return SOLVER(lib->cusolverDnXpotrf_bufferSize(w->q->handle, w->q->params, FL_SOL_LOWER, f->n,
                                                   w->type, NULL, f->n, w->type, &w->device,
                                                   &w->host), "cusolverDnXpotrf_bufferSize");
  return SOLVER(lib->cusolverDnXgetrf_bufferSize(w->q->handle, w->q->params, f->m, f->n, w->type,
                                                 NULL, f->m, w->type, &w->device, &w->host),
                "cusolverDnXgetrf_bufferSize");
}

/* ---- LU ---- */

static int64_t *pivots_of(const fl_linalg_work *w, int64_t i) {
  return (int64_t *)w->pivot + i * fl_min(w->f.m, w->f.n);
}

/* Factors matrix i, which is at 'a' (column-major, m x n). */
static flame_status factor_one(const fl_linalg_work *w, int64_t i, char *a) {
  const fl_linalg_form *f = &w->f;
  return SOLVER(w->q->lib->cusolverDnXgetrf(w->q->handle, w->q->params, f->m, f->n, w->type, a,
                                            f->m, pivots_of(w, i), w->type, w->space, w->device,
                                            w->on_host, w->host, w->info + i),
                "cusolverDnXgetrf");
}

/* Factors all matrices; the first is at 'a'. */
static flame_status factor_all(const fl_linalg_work *w, char *a) {
  const fl_linalg_form *f = &w->f;
  const int64_t each = f->m * f->n;
  flame_status e = FLAME_OK;
  if (each == 0) return FLAME_OK;
  if (w->way == FL_WAY_BATCH) {
    e = fl_linalg_point(w, w->at_a, a, each);
    return e != FLAME_OK ? e
      : BLAS(BOTH(w, cublas, getrfBatched)(w->q->blas, (int)f->n, w->at_a, (int)f->n, w->pivot,
                                           w->info, (int)f->batch),
             "getrfBatched");
  }
  for (int64_t i = 0; i < f->batch && e == FLAME_OK; i++)
    e = factor_one(w, i, a + i * each * w->width);
  return e;
}

static flame_status substitute(const fl_linalg_work *w, int64_t i, fl_sol_op trans, int64_t k,
                               const char *lu, char *b) {
  return SOLVER(w->q->lib->cusolverDnXgetrs(w->q->handle, w->q->params, trans, w->f.n, k, w->type,
                                            lu, w->f.n, pivots_of(w, i), w->type, b, w->f.n,
                                            w->info + w->f.batch), "cusolverDnXgetrs");
}

/* Multiplies b (n, k), row-major, by the inverse of a triangle of a, from the right as the library,
** which is column-major, sees it. */
static flame_status triangle_from_right(const fl_linalg_work *w, fl_sol_fill fill, fl_sol_diag diag,
                                        int64_t k, const char *a, char *b) {
  const int n = (int)w->f.n;
  return BLAS(BOTH(w, cublas, trsm_v2)(w->q->blas, FL_SOL_RIGHT, fill, FL_SOL_N, diag, (int)k, n,
                                       one_of(w), a, n, b, (int)k),
              "trsm");
}

/* Solves for b (n, k), row-major, in w->b with both triangles of w->a, then permutes the rows by
** matrix i's pivots: the result is x. */
static flame_status by_triangles(const fl_linalg_work *w, int64_t i, int64_t k, char *x) {
  int64_t n = w->f.n, rows = k;
  int is64 = 1;
  const void *pivot = pivots_of(w, i);
  char *none = NULL, *p = (char *)w->pivot + w->f.batch * n * 8;
  flame_status e = triangle_from_right(w, FL_SOL_UPPER, FL_SOL_DIAGONAL, k, w->a, w->b);
  if (e == FLAME_OK) e = triangle_from_right(w, FL_SOL_LOWER, FL_SOL_UNIT, k, w->a, w->b);
  if (e != FLAME_OK) return e;
  void *permute[] = { &none, &p, &pivot, &is64, &n, &n };
  e = fl_linalg_single(w, "permutations", 256, permute);
  void *scatter[] = { &x, (void *)&w->b, &p, &n, &rows };
  return e == FLAME_OK ? fl_linalg_start(w, "scatter_rows", n * k, scatter) : e;
}

static flame_status inverses(const fl_linalg_work *w) {
  const int64_t n = w->f.n, each = n * n, bytes = each * w->width;
  int64_t batch = w->f.batch, size = n;
  flame_status e = FLAME_OK;
  if (w->way == FL_WAY_BATCH) {
    e = fl_linalg_copy(w, w->a, w->x, batch * each);
    if (e == FLAME_OK) e = factor_all(w, w->a);
    if (e == FLAME_OK) e = fl_linalg_point(w, w->at_b, w->part[0], each);
    return e != FLAME_OK ? e
      : BLAS(BOTH(w, cublas, getriBatched)(w->q->blas, (int)n, (const void *const *)w->at_a, (int)n,
                                           w->pivot, w->at_b, (int)n, w->info + batch, (int)batch),
             "getriBatched");
  }
  for (int64_t i = 0; i < batch && e == FLAME_OK; i++) {
    int64_t one = 1;
    char *x = w->part[0] + i * bytes, *b = n < BY_TRIANGLES ? x : w->b;
    void *params[] = { &b, &size, &one };
    e = fl_linalg_copy(w, w->a, w->x + i * bytes, each);
    if (e == FLAME_OK) e = factor_one(w, i, w->a);
    if (e == FLAME_OK) e = fl_linalg_start(w, "identities", each, params);
    if (e == FLAME_OK)
      e = n < BY_TRIANGLES ? substitute(w, i, FL_SOL_N, n, w->a, x) : by_triangles(w, i, n, x);
  }
  return e;
}

static flame_status inverse(const fl_linalg_work *w) {
  int64_t each = w->f.n * w->f.n, batch = w->f.batch;
  const flame_status e = inverses(w);
  if (e != FLAME_OK) return e;
  if (!w->f.a) return fl_linalg_look(w, FL_LINALG_SINGULAR);
  void *params[] = { (void *)&w->part[0], &each, (void *)&w->info, &batch };
  return fl_linalg_start(w, "infinite", batch * each, params);
}

/* Transposes the right-hand sides b of 'count' matrices from row-major (n, k) to column-major, or
** back. */
static flame_status turn_sides(const fl_linalg_work *w, char *to, const char *from, int64_t count,
                               int back) {
  const int64_t n = w->f.n, k = w->f.k, rows = back ? k : n, columns = back ? n : k;
  return fl_linalg_turn(w, to, from, rows, columns, columns, rows, n * k, n * k, count, 0);
}

static flame_status solve_batch(const fl_linalg_work *w) {
  const int64_t n = w->f.n, k = w->f.k, batch = w->f.batch;
  char *b = k > 1 ? w->b : w->part[0];
  int bad = 0;
  flame_status e = fl_linalg_copy(w, w->a, w->x, batch * n * n);
  if (e == FLAME_OK) e = factor_all(w, w->a);
  if (e == FLAME_OK)
    e = k > 1 ? turn_sides(w, b, w->y, batch, 0) : fl_linalg_copy(w, b, w->y, batch * n);
  if (e == FLAME_OK) e = fl_linalg_point(w, w->at_b, b, n * k);
  if (e == FLAME_OK)
    e = BLAS(BOTH(w, cublas, getrsBatched)(w->q->blas, FL_SOL_T, (int)n, (int)k,
                                           (const void *const *)w->at_a, (int)n, w->pivot, w->at_b,
                                           (int)n, &bad, (int)batch), "getrsBatched");
  return e == FLAME_OK && k > 1 ? turn_sides(w, w->part[0], b, batch, 1) : e;
}

static flame_status solve(const fl_linalg_work *w) {
  const int64_t n = w->f.n, k = w->f.k;
  flame_status e = FLAME_OK;
  if (w->way == FL_WAY_BATCH) e = solve_batch(w);
  for (int64_t i = 0; w->way == FL_WAY_LOOP && i < w->f.batch && e == FLAME_OK; i++) {
    char *x = w->part[0] + i * n * k * w->width, *b = k > 1 ? w->b : x;
    const char *y = w->y + i * n * k * w->width;
    const int turns = k > 1 && n < BY_TRIANGLES;
    e = fl_linalg_copy(w, w->a, w->x + i * n * n * w->width, n * n);
    if (e == FLAME_OK) e = factor_one(w, i, w->a);
    if (e == FLAME_OK) e = turns ? turn_sides(w, b, y, 1, 0) : fl_linalg_copy(w, b, y, n * k);
    if (e == FLAME_OK)
      e = k > 1 && !turns ? by_triangles(w, i, k, x) : substitute(w, i, FL_SOL_T, k, w->a, b);
    if (e == FLAME_OK && turns) e = turn_sides(w, x, b, 1, 1);
  }
  return e == FLAME_OK ? fl_linalg_look(w, FL_LINALG_SINGULAR) : e;
}

static flame_status lu(const fl_linalg_work *w) {
  int64_t m = w->f.m, n = w->f.n, k = fl_min(m, n), batch = w->f.batch, each = m * n;
  int is64 = w->way == FL_WAY_LOOP;
  flame_status e = fl_linalg_turn(w, w->a, w->x, m, n, n, m, each, each, batch, 0);
  if (e == FLAME_OK) e = factor_all(w, w->a);
  if (e == FLAME_OK) e = fl_linalg_turn(w, w->part[0], w->a, n, m, m, n, each, each, batch, 0);
  if (e != FLAME_OK) return e;
  const char *room = (const char *)w->pivot + batch * m * 8;
  void *params[] = { (void *)&w->part[1], &room, (void *)&w->pivot, &is64, &m, &k };
  return fl_linalg_blocks(w, "permutations", 256, 0, params);
}

static flame_status determinant(const fl_linalg_work *w) {
  int64_t n = w->f.n;
  int is64 = w->way == FL_WAY_LOOP;
  flame_status e = fl_linalg_copy(w, w->a, w->x, w->f.batch * n * n);
  if (e == FLAME_OK) e = factor_all(w, w->a);
  void *params[] = { (void *)&w->a, &n, (void *)&w->pivot, &is64, (void *)&w->part[0],
                     (void *)&w->part[1], (void *)&w->part[2] };
  return e == FLAME_OK ? fl_linalg_blocks(w, "determinants", 32, 0, params) : e;
}

/* ---- triangles ---- */

static flame_status triangular(const fl_linalg_work *w) {
  const fl_linalg_form *f = &w->f;
  const int n = (int)f->n, k = (int)f->k, left = k == 1;      /* a vector is its own transpose */
  const fl_sol_side side = left ? FL_SOL_LEFT : FL_SOL_RIGHT;
  const fl_sol_op trans = left ? FL_SOL_T : FL_SOL_N;
  const fl_sol_diag diag = f->b ? FL_SOL_UNIT : FL_SOL_DIAGONAL;
  const int rows = left ? n : k, columns = left ? 1 : n;
  flame_status e = fl_linalg_copy(w, w->part[0], w->y, f->batch * f->n * f->k);
  if (e == FLAME_OK && w->way == FL_WAY_BATCH) {
    e = fl_linalg_point(w, w->at_a, w->x, f->n * f->n);
    if (e == FLAME_OK) e = fl_linalg_point(w, w->at_b, w->part[0], f->n * f->k);
    return e != FLAME_OK ? e
      : BLAS(BOTH(w, cublas, trsmBatched)(w->q->blas, side, other_side(w), trans, diag, rows,
                                          columns, one_of(w), (const void *const *)w->at_a, n,
                                          w->at_b, rows, (int)f->batch), "trsmBatched");
  }
  for (int64_t i = 0; i < f->batch && e == FLAME_OK; i++)
    e = BLAS(BOTH(w, cublas, trsm_v2)(w->q->blas, side, other_side(w), trans, diag, rows, columns,
                                      one_of(w), w->x + i * f->n * f->n * w->width, n,
                                      w->part[0] + i * f->n * f->k * w->width, rows),
             "trsm");
  return e;
}

static flame_status cholesky_batch(const fl_linalg_work *w, char *a) {
  const int64_t n = w->f.n;
  const flame_status e = fl_linalg_point(w, w->at_a, a, n * n);
  return e != FLAME_OK ? e
    : SOLVER(BOTH(w, cusolverDn, potrfBatched)(w->q->handle, FL_SOL_LOWER, (int)n, w->at_a, (int)n,
                                               w->info, (int)w->f.batch),
             "potrfBatched");
}

/* Factors matrix i, or (FL_WAY_BATCH) all matrices; 'a' is the first of them, column-major. */
static flame_status cholesky_some(const fl_linalg_work *w, int64_t i, char *a) {
  const int64_t n = w->f.n;
  if (w->way == FL_WAY_BATCH) return cholesky_batch(w, a);
  return SOLVER(w->q->lib->cusolverDnXpotrf(w->q->handle, w->q->params, FL_SOL_LOWER, n, w->type, a,
                                            n, w->type, w->space, w->device, w->on_host, w->host,
                                            w->info + i), "cusolverDnXpotrf");
}

static flame_status cholesky(const fl_linalg_work *w) {
  int64_t n = w->f.n, batch = w->f.batch, each = n * n;
  const int64_t count = w->way == FL_WAY_BATCH ? batch : 1;
  flame_status e = FLAME_OK;
  for (int64_t i = 0; i < batch && e == FLAME_OK; i += count) {
    const char *x = w->x + i * each * w->width;
    char *l = w->part[0] + i * each * w->width, *a = w->f.a ? l : w->a;
    e = w->f.a ? fl_linalg_copy(w, a, x, count * each)
               : fl_linalg_turn(w, a, x, n, n, n, n, each, each, count, 0);
    if (e == FLAME_OK) e = cholesky_some(w, i, a);
    if (e == FLAME_OK && !w->f.a) e = fl_linalg_turn(w, l, a, n, n, n, n, each, each, count, 2);
  }
  void *zero[] = { (void *)&w->part[0], &n, &batch };
  if (e == FLAME_OK && w->f.a) e = fl_linalg_start(w, "triangle", batch * each, zero);
  void *params[] = { (void *)&w->part[0], &n, &batch, (void *)&w->info, (void *)&w->status };
  return e == FLAME_OK ? fl_linalg_start(w, "indefinite", batch * n, params) : e;
}

flame_status fl_linalg_run_factor(fl_linalg_work *w) {
  switch (w->c->kind) {
    case FL_CALL_inverse: return inverse(w);
    case FL_CALL_solve: return solve(w);
    case FL_CALL_triangular: return triangular(w);
    case FL_CALL_cholesky: return cholesky(w);
    case FL_CALL_lu: return lu(w);
    default: return determinant(w);
  }
}
