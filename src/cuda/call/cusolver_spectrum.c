/*
** Orthogonal factors, singular values and eigenvalues on a CUDA device (cusolver_work.h). For qr
** and svd, small matrices that fit shared memory are factored by kernels/linalg.cu, with one block
** per matrix. Otherwise
**   qr     the matrix is transposed, factored (geqrf, orgqr), and both factors are transposed back
**   svd    by Jacobi's method (gesvdj) of the transpose, so U and V are exchanged: its U, column-
**          major, is our V' as it is; its V is transposed
**   eigh   the other triangle is passed; vectors are transposed
*/
#include "cuda/call/cusolver_work.h"
#include "base/num.h"

#define SOLVER(call, name) fl_solver_check(w->s, call, name)
#define BOTH(w, name) ((w)->wide ? (w)->q->lib->cusolverDnD##name : (w)->q->lib->cusolverDnS##name)

static fl_sol_fill other_side(const fl_linalg_work *w) {
  return w->f.a ? FL_SOL_LOWER : FL_SOL_UPPER;
}
static fl_sol_mode mode_of(const fl_linalg_work *w) {
  return w->f.b ? FL_SOL_VECTORS : FL_SOL_VALUES;
}

/* ---- what the library asks for ---- */

static flame_status ask_qr(fl_linalg_work *w) {
  const int64_t m = w->f.m, n = w->f.n, k = fl_min(m, n);
  int lwork = 0;
  flame_status e = SOLVER(w->q->lib->cusolverDnXgeqrf_bufferSize(w->q->handle, w->q->params, m, n,
                                                                 w->type, NULL, m, w->type,
                                                                NULL, w->type, &w->device,
                                                                &w->host),
                          "cusolverDnXgeqrf_bufferSize");
  if (e == FLAME_OK && w->f.b)
    e = SOLVER(BOTH(w, orgqr_bufferSize)(w->q->handle, (int)m, (int)w->f.k, (int)k, NULL, (int)m,
                                         NULL, &lwork),
               "orgqr_bufferSize");
  if (w->device < (size_t)(lwork * w->width)) w->device = (size_t)(lwork * w->width);
  return e;
}

static flame_status ask_svd(fl_linalg_work *w) {
  const int m = (int)w->f.m, n = (int)w->f.n;
  int lwork = 0;
  const flame_status e = SOLVER(BOTH(w, gesvdj_bufferSize)(w->q->handle, mode_of(w), !w->f.a, n, m,
                                                           NULL, n, NULL, NULL, n, NULL, m, &lwork,
                                                           w->q->jacobi), "gesvdj_bufferSize");
  w->device = (size_t)(lwork * w->width);
  return e;
}

static flame_status ask_eigh(fl_linalg_work *w) {
  const fl_cusolver *lib = w->q->lib;
  const int64_t n = w->f.n;
  if (w->way == FL_WAY_BATCH)
    return SOLVER(lib->cusolverDnXsyevBatched_bufferSize(w->q->handle, w->q->params, mode_of(w),
                                                         other_side(w), n, w->type, NULL, n,
                                                         w->type, NULL, w->type, &w->device,
                                                         &w->host, w->f.batch),
                  "cusolverDnXsyevBatched_bufferSize");
  return SOLVER(lib->cusolverDnXsyevd_bufferSize(w->q->handle, w->q->params, mode_of(w),
                                                 other_side(w), n, w->type, NULL, n, w->type, NULL,
                                                 w->type, &w->device, &w->host),
                "cusolverDnXsyevd_bufferSize");
}

flame_status fl_linalg_ask_spectrum(fl_linalg_work *w) {
  if (fl_min(w->f.m, w->f.n) == 0) return FLAME_OK;
  return w->c->kind == FL_CALL_qr ? ask_qr(w) : w->c->kind == FL_CALL_svd
         ? ask_svd(w) : ask_eigh(w);
}

/* ---- in shared memory ---- */

static flame_status small_qr(const fl_linalg_work *w) {
  int m = (int)w->f.m, n = (int)w->f.n, k = (int)w->f.k;
  char *q = w->f.b ? w->part[0] : NULL;
  void *params[] = { (void *)&w->x, &q, (void *)&w->part[1], &m, &n, &k };
  return fl_linalg_blocks(w, "qr_small", w->threads, w->shared, params);
}

static flame_status small_svd(const fl_linalg_work *w) {
  int m = (int)w->f.m, n = (int)w->f.n, full = w->f.a, vectors = w->f.b, lanes = w->lanes;
  void *params[] = { (void *)&w->x, (void *)&w->part[0], (void *)&w->part[1], (void *)&w->part[2],
                     &m, &n, &full, &vectors, &lanes, (void *)&w->status };
  return fl_linalg_blocks(w, "svd_small", w->threads, w->shared, params);
}

/* ---- by the library ---- */

static flame_status identities(const fl_linalg_work *w, char *to, int64_t size) {
  int64_t batch = w->f.batch;
  void *params[] = { &to, &size, &batch };
  return fl_linalg_start(w, "identities", batch * size * size, params);
}

/* For matrices without elements: the complete Q, and the full U and V', are identities. */
static flame_status no_elements(const fl_linalg_work *w) {
  if (!w->f.b) return FLAME_OK;
  if (w->c->kind == FL_CALL_qr) return identities(w, w->part[0], w->f.k);
  if (w->c->kind != FL_CALL_svd || !w->f.a) return FLAME_OK;
  const flame_status e = identities(w, w->part[0], w->f.m);
  return e == FLAME_OK ? identities(w, w->part[2], w->f.n) : e;
}

static flame_status qr_one(const fl_linalg_work *w, int64_t i) {
  const int64_t m = w->f.m, n = w->f.n, kq = w->f.k, k = fl_min(m, n);
  int *info = w->info + i;
  flame_status e = fl_linalg_turn(w, w->a, w->x + i * m * n * w->width, m, n, n, m, 0, 0, 1, 0);
  if (e == FLAME_OK)
    e = SOLVER(w->q->lib->cusolverDnXgeqrf(w->q->handle, w->q->params, m, n, w->type, w->a, m,
                                           w->type, w->tau, w->type, w->space, w->device,
                                           w->on_host, w->host, info), "cusolverDnXgeqrf");
  if (e == FLAME_OK)
    e = fl_linalg_turn(w, w->part[1] + i * kq * n * w->width, w->a, n, kq, m, n, 0, 0, 1, 1);
  if (e != FLAME_OK || !w->f.b) return e;
  e = SOLVER(BOTH(w, orgqr)(w->q->handle, (int)m, (int)kq, (int)k, w->a, (int)m, w->tau, w->space,
                            (int)((int64_t)w->device / w->width), info), "orgqr");
  return e == FLAME_OK ? fl_linalg_turn(w, w->part[0] + i * m * kq * w->width, w->a, kq, m, m, kq,
                                        0, 0, 1, 0) : e;
}

static flame_status svd_one(const fl_linalg_work *w, int64_t i) {
  const int64_t m = w->f.m, n = w->f.n, k = fl_min(m, n), ku = w->f.a ? m : k, kv = w->f.a ? n : k;
  /* gesvdj needs room for vectors in any case */
  char *vh = w->f.b ? w->part[2] + i * kv * n * w->width : w->tau;
  flame_status e = fl_linalg_guard(w, w->a, w->x + i * m * n * w->width, i, 1);
  if (e == FLAME_OK)
    e = SOLVER(BOTH(w, gesvdj)(w->q->handle, mode_of(w), !w->f.a, (int)n, (int)m, w->a, (int)n,
                               w->part[1] + i * k * w->width, vh, (int)n, w->b, (int)m, w->space,
                               (int)((int64_t)w->device / w->width), w->info + i, w->q->jacobi),
               "gesvdj");
  if (e != FLAME_OK || !w->f.b) return e;
  return fl_linalg_turn(w, w->part[0] + i * m * ku * w->width, w->b, ku, m, m, ku, 0, 0, 1, 0);
}

static flame_status eigh_one(const fl_linalg_work *w, int64_t i) {
  const int64_t n = w->f.n;
  flame_status e = fl_linalg_guard(w, w->a, w->x + i * n * n * w->width, i, 1);
  if (e == FLAME_OK)
    e = SOLVER(w->q->lib->cusolverDnXsyevd(w->q->handle, w->q->params, mode_of(w), other_side(w), n,
                                           w->type, w->a, n, w->type, w->part[0] + i * n * w->width,
                                           w->type, w->space, w->device, w->on_host, w->host,
                                           w->info + i), "cusolverDnXsyevd");
  if (e != FLAME_OK || !w->f.b) return e;
  return fl_linalg_turn(w, w->part[1] + i * n * n * w->width, w->a, n, n, n, n, 0, 0, 1, 0);
}

static flame_status eigh_batch(const fl_linalg_work *w) {
  const int64_t n = w->f.n, batch = w->f.batch;
  flame_status e = fl_linalg_guard(w, w->a, w->x, 0, batch);
  if (e == FLAME_OK)
    e = SOLVER(w->q->lib->cusolverDnXsyevBatched(w->q->handle, w->q->params, mode_of(w),
                                                 other_side(w), n, w->type, w->a, n, w->type,
                                                 w->part[0], w->type, w->space, w->device,
                                                 w->on_host, w->host, w->info, batch),
               "cusolverDnXsyevBatched");
  if (e != FLAME_OK || !w->f.b) return e;
  return fl_linalg_turn(w, w->part[1], w->a, n, n, n, n, n * n, n * n, batch, 0);
}

flame_status fl_linalg_run_spectrum(fl_linalg_work *w) {
  flame_status e = FLAME_OK;
  const int kind = w->c->kind;
  if (w->way == FL_WAY_SMALL) return kind == FL_CALL_qr ? small_qr(w) : small_svd(w);
  if (fl_min(w->f.m, w->f.n) == 0) return no_elements(w);
  if (w->way == FL_WAY_BATCH) e = eigh_batch(w);
  for (int64_t i = 0; w->way == FL_WAY_LOOP && i < w->f.batch && e == FLAME_OK; i++) {
    e = fl_cuda_poll(w->s);
    if (e == FLAME_OK)
      e = kind == FL_CALL_qr ? qr_one(w, i) : kind == FL_CALL_svd ? svd_one(w, i) : eigh_one(w, i);
  }
  return e == FLAME_OK && kind != FL_CALL_qr ? fl_linalg_look(w, FL_LINALG_NO_CONVERGENCE) : e;
}
