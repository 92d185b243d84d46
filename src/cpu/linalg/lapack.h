/* LAPACK, opened at run time from the library that cpu/gemm/blas.h names (FLAME_BLAS). */
#ifndef FL_CPU_LAPACK_H
#define FL_CPU_LAPACK_H
#include <stddef.h>

/* Fortran's calls: everything by address, matrices column-major; lengths of character arguments
** follow. float * and double * are passed as void *. */
typedef struct fl_lapack {
  void (*getrf)(const int *m, const int *n, void *a, const int *lda, int *pivot, int *info);
  void (*getri)(const int *n, void *a, const int *lda, const int *pivot, void *work,
                const int *lwork, int *info);
  void (*potrf)(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t l1);
  void (*gelqf)(const int *m, const int *n, void *a, const int *lda, void *tau, void *work,
                const int *lwork, int *info);
  void (*orglq)(const int *m, const int *n, const int *k, void *a, const int *lda, const void *tau,
                void *work, const int *lwork, int *info);
  void (*gesdd)(const char *job, const int *m, const int *n, void *a, const int *lda, void *s,
                void *u, const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork,
                int *iwork, int *info, size_t l1);
  void (*syevd)(const char *job, const char *uplo, const int *n, void *a, const int *lda, void *w,
                void *work, const int *lwork, int *iwork, const int *liwork, int *info, size_t l1,
                size_t l2);
  void (*trsm)(const char *side, const char *uplo, const char *trans, const char *diag,
               const int *m, const int *n, const void *alpha, const void *a, const int *lda,
               void *b, const int *ldb, size_t l1, size_t l2, size_t l3, size_t l4);
  void (*gemm)(const char *ta, const char *tb, const int *m, const int *n, const int *k,
               const void *alpha, const void *a, const int *lda, const void *b, const int *ldb,
               const void *beta, void *c, const int *ldc, size_t l1, size_t l2);
} fl_lapack;

/* The functions for f32 (is64 0) or f64, opened at the first call of the process that wants them;
** NULL: there are none, or no room for them. name: as in FLAME_BLAS. callers: as in fl_blas_get. */
const fl_lapack *fl_lapack_get(const char *name, int callers, int is64);
#endif
