/*
** What the files of calls on matrices (linear algebra) on a CUDA device share.
**   call_linalg.c         chooses the way (fl_linalg_way), divides scratch, reads statuses
**   cusolver_factor.c     equations and triangular factors
**   cusolver_spectrum.c   orthogonal factors, singular values, eigenvalues
** The libraries are column-major, so they see a row-major matrix as its transpose. As on the CPU
** (cpu/linalg/linalg_one.c) the transposed problem is solved where that saves transposing the
** elements.
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
  int64_t shared;              /* SMALL: bytes of shared memory of a block */
  unsigned threads;            /* SMALL: threads of a block */
  int lanes;                   /* threads per pair of columns in svd_small */
  const char *x, *y;           /* the call's inputs */
  char *part[3];               /* the parts of its result */
  /* in scratch: */
  uint64_t *status;            /* 8 * the lowest index of a matrix without a result + the reason */
  int *info;                   /* status of each matrix; then statuses of later steps, which are not
                               ** read */
  void *pivot;                 /* pivots: int64_t (LOOP) or int per row */
  void **at_a, **at_b;         /* BATCH: addresses of matrices */
  char *a, *b, *tau, *space;   /* matrices; the library's own */
  size_t device, host;         /* bytes of 'space', and of the library's memory on the host */
  char *on_host;
} fl_linalg_work;

/* Asks the library how much memory it needs: sets w->device and w->host. */
flame_status fl_linalg_ask_factor(fl_linalg_work *w);
flame_status fl_linalg_ask_spectrum(fl_linalg_work *w);
flame_status fl_linalg_run_factor(fl_linalg_work *w);
flame_status fl_linalg_run_spectrum(fl_linalg_work *w);

/* Launches an entry of kernels/linalg.cu; items: number of items of work, over which
** the threads loop. */
flame_status fl_linalg_start(const fl_linalg_work *w, const char *entry, int64_t items,
                             void **params);
/* one block per matrix */
flame_status fl_linalg_blocks(const fl_linalg_work *w, const char *entry, unsigned threads,
                              int64_t shared, void **params);
/* one block */
flame_status fl_linalg_single(const fl_linalg_work *w, const char *entry, unsigned threads,
                              void **params);
flame_status fl_linalg_copy(const fl_linalg_work *w, void *to, const void *from, int64_t elements);
/* to[c * ld_to + r] = from[r * ld_from + c] for 'count' matrices of rows x columns; the matrices
** are 'across' elements apart in 'from', and 'over' in 'to'. With 'only' 1 elements with c > r
** become 0, with 2 those with r > c. */
flame_status fl_linalg_turn(const fl_linalg_work *w, char *to, const char *from, int64_t rows,
                            int64_t columns, int64_t ld_from, int64_t ld_to, int64_t across,
                            int64_t over, int64_t count, int only);
/* Copies 'count' matrices, to be the input of an iterative method; 'at' is the number of the first.
** One with NaN or Inf gets a status, and zeros in place of these values, so that the iteration
** ends. */
flame_status fl_linalg_guard(const fl_linalg_work *w, char *to, const char *from, int64_t at,
                             int64_t count);
/* Sets the statuses of matrices: those with info != 0 have no result, because of 'why'. */
flame_status fl_linalg_look(const fl_linalg_work *w, int why);
/* Writes the addresses of all matrices, which are 'elements' apart; the first is at base. */
flame_status fl_linalg_point(const fl_linalg_work *w, void **to, const char *base,
                             int64_t elements);
#endif
