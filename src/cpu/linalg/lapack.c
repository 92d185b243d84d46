/* LAPACK by dlopen (lapack.h). The handle is process-wide and never closed, as in blas.c. */
#include "cpu/linalg/lapack.h"
#include "cpu/gemm/blas.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fl_lapack lapack[2];          /* f32, f64; under the lock until 'tried', constant after it */
static int tried;
static void *library;

static const struct { const char *name; size_t at; } entries[] = {
  { "getrf", offsetof(fl_lapack, getrf) }, { "getri", offsetof(fl_lapack, getri) },
  { "potrf", offsetof(fl_lapack, potrf) }, { "gelqf", offsetof(fl_lapack, gelqf) },
  { "orglq", offsetof(fl_lapack, orglq) }, { "gesdd", offsetof(fl_lapack, gesdd) },
  { "syevd", offsetof(fl_lapack, syevd) }, { "trsm", offsetof(fl_lapack, trsm) },
  { "gemm", offsetof(fl_lapack, gemm) },
};

/* Finds the functions of the table for f32 and f64; 0 when one is missing. */
static int find_all(void *h) {
  for (int d = 0; d < 2; d++)
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
      char name[16];
      snprintf(name, sizeof name, "%c%s_", d ? 'd' : 's', entries[i].name);
      void *p = dlsym(h, name);
      if (!p) return 0;
      memcpy((char *)&lapack[d] + entries[i].at, &p, sizeof p);
    }
  return 1;
}

/* The BLAS that is used may come without LAPACK; then the system's own LAPACK is opened, if there
** is one. */
static void open_lapack(const char *name, int callers) {
  static const char *const usual[] = { "libopenblas.so.0", "libopenblas.so",
                                       "liblapack.so.3", NULL };
  const char *const asked[] = { name, "liblapack.so.3", NULL };
  library = fl_blas_open(*name ? asked : usual, find_all, callers);
}

const fl_lapack *fl_lapack_get(const char *name, int callers, int is64) {
  if (!strcmp(name, "off")) return NULL;
  pthread_mutex_lock(&lock);
  if (!tried) open_lapack(name, callers);
  tried = 1;
  const int room = library && fl_blas_room(library, callers);
  pthread_mutex_unlock(&lock);
  return room ? &lapack[is64 != 0] : NULL;
}
