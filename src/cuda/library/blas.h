/* Matrix products by cuBLASLt (blas.c). */
#ifndef FL_CUDA_BLAS_H
#define FL_CUDA_BLAS_H
#include "cuda/driver/state.h"

/* Can the library, or small.c, compute this product? Opens the library when it is first needed.
** *yes 0: the kernel of kernels/steps.cu is used. *scratch: bytes of device memory that the run
** needs. */
flame_status fl_blas_prepare(fl_cuda *s, const fl_matmul *m, int *yes, int64_t *scratch);
/* at: addresses of the places of a, b, c and the bias (NULL: there is none). */
flame_status fl_blas_run(fl_cuda *s, const fl_matmul *m, char *const at[4]);
/* Bytes that all products share. */
int64_t fl_blas_workspace(const fl_cuda *s);
void fl_blas_close(fl_cuda *s, int host_only);
#endif
