/* LAPACK by dlopen (lapack.h). The handle is process-wide and never closed, as blas.c has it. */
#include "cpu/linalg/lapack.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fl_lapack lapack[2];              /* f32, f64; under the lock until 'tried', constant after it */
static int tried, whole;
static void (*set_threads)(int);         /* OpenBLAS' own number of threads, or NULL … */
static int (*get_threads)(void);
static int sharing, kept_threads;        /* … which is 1 while 'sharing'; under the lock */

static const struct { const char *name; size_t at; } entries[] = {
  { "getrf", offsetof(fl_lapack, getrf) }, { "getri", offsetof(fl_lapack, getri) },
  { "potrf", offsetof(fl_lapack, potrf) }, { "gelqf", offsetof(fl_lapack, gelqf) },
  { "orglq", offsetof(fl_lapack, orglq) }, { "gesdd", offsetof(fl_lapack, gesdd) },
  { "syevd", offsetof(fl_lapack, syevd) }, { "trsm", offsetof(fl_lapack, trsm) },
  { "gemm", offsetof(fl_lapack, gemm) },
};

/* All entries of both types; 0 when one is missing. */
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

/* The BLAS that is used may come without LAPACK: then the system's own, if any. */
static void open_lapack(const char *name, int threads) {
  const char *const files[] = { *name ? name : "libopenblas.so.0", *name ? NULL : "libopenblas.so", "liblapack.so.3" };
  for (size_t i = 0; i < 3 && !whole; i++) {
    void *h = files[i] ? dlopen(files[i], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!h || !find_all(h)) continue;
    whole = 1;
    void *set = dlsym(h, "openblas_set_num_threads"), *get = dlsym(h, "openblas_get_num_threads");
    if (!set || !get) continue;
    memcpy(&set_threads, &set, sizeof set);
    memcpy(&get_threads, &get, sizeof get);
    set_threads(threads);
  }
}

const fl_lapack *fl_lapack_get(const char *name, int threads, int is64) {
  if (!strcmp(name, "off")) return NULL;
  pthread_mutex_lock(&lock);
  if (!tried) open_lapack(name, threads);
  tried = 1;
  pthread_mutex_unlock(&lock);
  return whole ? &lapack[is64 != 0] : NULL;
}

void fl_lapack_shared(int begin) {
  pthread_mutex_lock(&lock);
  if (set_threads && begin && sharing++ == 0) {
    kept_threads = get_threads();
    set_threads(1);
  }
  if (set_threads && !begin && --sharing == 0) set_threads(kept_threads);
  pthread_mutex_unlock(&lock);
}
