/* Products of few tiles and many terms, divided along the terms (long.c). */
#ifndef FL_CUDA_LONG_H
#define FL_CUDA_LONG_H
#include "cuda/driver/state.h"

/* Is this product divided? Depends only on dtype and sizes. */
int fl_long_takes(const fl_cuda *s, const fl_matmul *m);
/* As fl_blas_prepare and fl_blas_run, for such a product. */
flame_status fl_long_prepare(fl_cuda *s, const fl_matmul *m, int *yes, int64_t *scratch);
flame_status fl_long_run(fl_cuda *s, const fl_matmul *m, char *const at[4]);
#endif
