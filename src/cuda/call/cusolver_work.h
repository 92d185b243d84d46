/*
** One call on matrices on a CUDA device: what its files share.
**   call_linalg.c         the call: which way, scratch, statuses
**   cusolver_factor.c     equations and triangular factors
**   cusolver_spectrum.c   orthogonal factors, singular values, eigenvalues
** The libraries are column-major: a row-major matrix handed over as it is is its transpose. As on
** the CPU (cpu/linalg/linalg_one.c) names change sides instead of elements where that will do.
*/
#ifndef FL_CUDA_CUSOLVER_WORK_H
#define FL_CUDA_CUSOLVER_WORK_H
#include "cuda/call/call.h"
#include "cuda/library/cusolver.h"
#include "tensor/call_linalg.h"

typedef enum {
  FL_WAY_LOOP,                           /* one matrix after another */
  FL_WAY_BATCH,                          /* the library's call for batches */
  FL_WAY_SMALL                           /* kernels/linalg.cu, in shared memory */
} fl_linalg_way;

typedef struct fl_linalg_work {
  fl_cuda *s;
  fl_solver *q;
  const fl_call *c;
  fl_linalg_form f;
  int wide;                    /* f64 */
  int64_t width;               /* bytes per element */
  fl_sol_type type;
  fl_linalg_way way;
  int64_t shared;              /* SMALL: bytes of shared memory … */
  unsigned threads;            /* … and threads per block */
  int lanes;                   /* … and threads for a pair of columns (svd_small) */
  const char *x, *y;           /* the call's inputs */
  char *part[3];               /* and the parts of its result */
  /* in scratch: */
  uint64_t *status;            /* lowest matrix without a result * 8 + why */
  int *info;                   /* of each matrix; then of what follows its factors, not looked at */
  void *pivot;                 /* int64_t (LOOP) or int of each row */
  void **at_a, **at_b;         /* BATCH: addresses of matrices */
  char *a, *b, *tau, *space;   /* matrices; the library's own */
  size_t device, host;         /* bytes of space, of its memory on the host */
  char *on_host;
} fl_linalg_work;

/* What the library asks for: w->device and w->host. */
flame_status fl_linalg_ask_factor(fl_linalg_work *w);
flame_status fl_linalg_ask_spectrum(fl_linalg_work *w);
flame_status fl_linalg_run_factor(fl_linalg_work *w);
flame_status fl_linalg_run_spectrum(fl_linalg_work *w);

/* Launches of kernels/linalg.cu; items: threads that there is work for. */
flame_status fl_linalg_start(const fl_linalg_work *w, const char *entry, int64_t items,
                             void **params);
flame_status fl_linalg_blocks(const fl_linalg_work *w, const char *entry, unsigned threads,
                              int64_t shared, void **params);
/* one block */
flame_status fl_linalg_single(const fl_linalg_work *w, const char *entry, unsigned threads,
                              void **params);
flame_status fl_linalg_copy(const fl_linalg_work *w, void *to, const void *from, int64_t elements);
/* to[c * ld_to + r] = from[r * ld_from + c] for 'count' matrices of rows x columns, 'over' and
** 'across' elements apart; only 1: 0 where c > r, 2: where r > c. */
flame_status fl_linalg_turn(const fl_linalg_work *w, char *to, const char *from, int64_t rows,
                            int64_t columns, int64_t ld_from, int64_t ld_to, int64_t across,
                            int64_t over, int64_t count, int only);
/* A copy of 'count' matrices for an iteration, the first of them 'at': the statuses of those that
** hold NaN or Inf say so, and the iteration does not see them. */
flame_status fl_linalg_guard(const fl_linalg_work *w, char *to, const char *from, int64_t at,
                             int64_t count);
/* Statuses of matrices: those with info != 0 have no result because of 'why'. */
flame_status fl_linalg_look(const fl_linalg_work *w, int why);
/* Addresses of all matrices that lie 'elements' apart from base on. */
flame_status fl_linalg_point(const fl_linalg_work *w, void **to, const char *base,
                             int64_t elements);
#endif
