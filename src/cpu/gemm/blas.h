/* OpenBLAS, opened at run time (FLAME_BLAS names another library, or "off"), and its threads. */
#ifndef FL_CPU_BLAS_H
#define FL_CPU_BLAS_H
#include <stdint.h>

typedef struct fl_blas {
  void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                int lda, const float *b, int ldb, float beta, float *c, int ldc);
  void (*dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a,
                int lda, const double *b, int ldb, double beta, double *c, int ldc);
  /* the library's threads can not be turned off: one caller at a time, and results may differ in
  ** the last bits */
  int alone;
} fl_blas;

enum { FL_BLAS_ASKED = 9 };          /* level of a library named by FLAME_BLAS: above all others */
enum { FL_BLAS_ROW_MAJOR = 101, FL_BLAS_PLAIN = 111, FL_BLAS_TRANS = 112 };
/* The library, opened at the first call of the process that wants one; NULL: there is none, or a
** limit on the address space leaves no room for its buffers. name: as in FLAME_BLAS. callers:
** threads that may call it at once. least: vector width of our own kernel (2 AVX-512, 1 AVX2, 0
** less): a library with narrower kernels is not used. The answer for the same arguments stays the
** same. */
const fl_blas *fl_blas_get(const char *name, int callers, int least);

/* For lapack.c, which may open the same library. Opens the first of the files (terminated by NULL)
** that has all functions required by 'fits', and turns off its threads; NULL: none. callers: as for
** fl_blas_get. */
void *fl_blas_open(const char *const *files, int (*fits)(void *h), int callers);
/* Is there room for this many simultaneous callers of h? Called when there are more of them than
** when h was opened. */
int fl_blas_room(void *h, int callers);

/* To be called before and after calls of a library. threads: how many the library may use for each
** call: 1, when several workers call; more for a large factorisation, which gets them unless a
** worker in the process needs 1. */
void fl_blas_enter(int threads);
void fl_blas_leave(int threads);
/* To be called before and after calls of a library by one thread, a worker or the caller's: a
** library built on OpenMP has a number of threads for each calling thread. Returns the number
** before, for fl_blas_thread_leave to restore. */
int fl_blas_thread_enter(int threads);
void fl_blas_thread_leave(int before);
#endif
