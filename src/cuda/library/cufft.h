/*
** cuFFT, opened at run time (libcufft.so.12 or .11); without it transforms are made by
** kernels/fft.cu, or on the host. Plans are kept by their sizes, and the least recently used are
** dropped first; their working memory is the call's scratch, so a plan holds only its tables.
*/
#ifndef FL_CUDA_CUFFT_H
#define FL_CUDA_CUFFT_H
#include "cuda/api/cufft_api.h"
#include "cuda/driver/state.h"

/* 'batch' transforms of length n: element k of transform t at t * next + k * step. across > 1: a
** transform of two axes, of (across, n) elements in a row. */
typedef struct fl_cufft_key {
  int64_t n, across, batch, in_step, in_next, out_step, out_next;
  int64_t type;
} fl_cufft_key;

typedef struct fl_cufft_plan fl_cufft_plan;
/* The plan of a key, made if necessary, valid until the next call of this function. NULL: the
** library is missing or does not support it; or, with an error in the context, it failed. */
const fl_cufft_plan *fl_cufft_find(fl_cuda *s, const fl_cufft_key *k);
int64_t fl_cufft_space(const fl_cufft_plan *p);         /* bytes of working memory */
/* Computes y from x, which a C2R transform may destroy; inverse: the direction of complex
** transforms. */
flame_status fl_cufft_run(fl_cuda *s, const fl_cufft_plan *p, void *x, void *y, int inverse,
                          void *space, const char *what);
void fl_cufft_close(fl_cuda *s, int host_only);
#endif
