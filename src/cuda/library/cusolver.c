/* The handles of cuSOLVER and cuBLAS (cusolver.h). */
#include "cuda/library/cusolver.h"
#include <string.h>

static flame_status failed(fl_cuda *s, int memory, const char *name, fl_sol_status r) {
  const flame_status e = fl_cuda_wait_all(s);          /* a lost device has reported that itself */
  if (e != FLAME_OK) return e;
  if (memory) return FL_FAIL(s->ctx, FLAME_NO_MEMORY, "cuda", "no device memory for %s", name);
  return FL_FAIL(s->ctx, FLAME_INTERNAL, "cuda", "%s failed with status %u", name, r);
}

flame_status fl_solver_check(fl_cuda *s, fl_sol_status r, const char *name) {
  return r == FL_SOL_OK ? FLAME_OK : failed(s, r == FL_SOL_ALLOC_FAILED, name, r);
}

flame_status fl_solver_check_blas(fl_cuda *s, fl_sol_status r, const char *name) {
  return r == FL_SOL_OK ? FLAME_OK : failed(s, r == FL_BLA_ALLOC_FAILED, name, r);
}

static void drop_handles(fl_solver *q) {
  if (q->jacobi) q->lib->cusolverDnDestroyGesvdjInfo(q->jacobi);
  if (q->params) q->lib->cusolverDnDestroyParams(q->params);
  if (q->handle) q->lib->cusolverDnDestroy(q->handle);
  if (q->blas) q->lib->cublasDestroy_v2(q->blas);
  q->jacobi = NULL;
  q->params = NULL;
  q->handle = NULL;
  q->blas = NULL;
}

#define MAKE(call, field, name) \
  do { \
    const fl_sol_status r_ = (call); \
    if (r_ != FL_SOL_OK) q->field = NULL; \
    e = fl_solver_check(s, r_, name); \
    if (e != FLAME_OK) return e; \
  } while (0)

static flame_status make_handles(fl_cuda *s, fl_solver *q) {
  const fl_cusolver *lib = q->lib;
  flame_status e;
  MAKE(lib->cusolverDnCreate(&q->handle), handle, "cusolverDnCreate");
  MAKE(lib->cusolverDnCreateParams(&q->params), params, "cusolverDnCreateParams");
  MAKE(lib->cusolverDnCreateGesvdjInfo(&q->jacobi), jacobi, "cusolverDnCreateGesvdjInfo");
  const fl_sol_status r = lib->cublasCreate_v2(&q->blas);
  if (r != FL_SOL_OK) q->blas = NULL;
  e = fl_solver_check_blas(s, r, "cublasCreate");
  if (e == FLAME_OK)
    e = fl_solver_check(s, lib->cusolverDnSetStream(q->handle, s->stream), "cusolverDnSetStream");
  if (e == FLAME_OK)
    e = fl_solver_check_blas(s, lib->cublasSetStream_v2(q->blas, s->stream), "cublasSetStream");
  return e;
}

flame_status fl_solver_get(fl_cuda *s, fl_solver **out) {
  *out = NULL;
  if (!s->solver) {
    fl_solver *q = fl_zalloc(s->mem, sizeof *q);
    if (!q) return FL_FAIL(s->ctx, FLAME_NO_MEMORY, "cuda", "no host memory");
    q->lib = s->lib->solver(NULL);
    s->solver = q;
  }
  fl_solver *q = s->solver;
  if (q->lib && !q->blas) {
    const flame_status e = make_handles(s, q);
    if (e != FLAME_OK) {
      drop_handles(q);
      return e;
    }
  }
  if (q->lib) *out = q;
  return FLAME_OK;
}

void fl_solver_close(fl_cuda *s, int host_only) {
  fl_solver *q = s->solver;
  if (!q) return;
  if (!host_only) drop_handles(q);
  fl_free(s->mem, q, sizeof *q);
  s->solver = NULL;
}
