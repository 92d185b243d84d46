/* Small products of f32 by our own kernel (small.c). */
#ifndef FL_CUDA_SMALL_H
#define FL_CUDA_SMALL_H
#include "cuda/driver/state.h"

/* Does small.c take this product? Depends only on dtype, sizes and the GPU's architecture. */
int fl_small_takes(const fl_cuda *s, const fl_matmul *m);
flame_status fl_small_prepare(fl_cuda *s);
/* at: addresses of the places of a, b, c and, if there is one, of what is added. */
flame_status fl_small_run(fl_cuda *s, const fl_matmul *m, char *const at[4]);
#endif
