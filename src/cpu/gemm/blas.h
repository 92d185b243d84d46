/* OpenBLAS, opened at run time (FLAME_BLAS names another library, or "off"). */
#ifndef FL_CPU_BLAS_H
#define FL_CPU_BLAS_H
#include <stdint.h>

typedef struct fl_blas {
  void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                int lda, const float *b, int ldb, float beta, float *c, int ldc);
  void (*dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a,
                int lda, const double *b, int ldb, double beta, double *c, int ldc);
} fl_blas;

enum { FL_BLAS_ASKED = 9 };          /* level of a library that FLAME_BLAS names */
enum { FL_BLAS_ROW_MAJOR = 101, FL_BLAS_PLAIN = 111, FL_BLAS_TRANS = 112 };
/* The library, opened at the first call of the process that wants one; NULL: there is none. name:
** as in FLAME_BLAS. threads: set then, for the whole process. least: of what use our own kernel is
** (2 AVX-512, 1 AVX2, 0): a library whose kernels are narrower is not given. */
const fl_blas *fl_blas_get(const char *name, int threads, int least);
#endif
