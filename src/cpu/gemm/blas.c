/* OpenBLAS by dlopen (blas.h). The handle is process-wide, as is OpenBLAS' own thread count. */
#include "cpu/gemm/blas.h"
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fl_blas blas;                     /* under the lock until 'tried', constant after it */
static int tried, level;

static void *open_any(const char *name) {
  static const char *const names[] = { "libopenblas.so.0", "libopenblas.so", NULL };
  void *h = NULL;
  if (*name) return dlopen(name, RTLD_NOW | RTLD_LOCAL);
  for (int i = 0; names[i] && !h; i++) h = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  return h;
}

/* A function pointer out of a data pointer, as POSIX has it. */
static void find(void *h, const char *name, void *out) {
  void *p = dlsym(h, name);
  memcpy(out, &p, sizeof p);
}

/* How wide the kernels are that OpenBLAS has chosen: 2 AVX-512, 1 AVX2, 0 narrower or unknown.
** It takes a processor newer than itself for the oldest it knows. */
static int level_of(void *h) {
  static const char *const wide[] = { "SkylakeX", "Cooperlake", "Sapphire", NULL };
  static const char *const middle[] = { "Haswell", "Zen", "Excavator", NULL };
  char *(*corename)(void) = NULL;
  find(h, "openblas_get_corename", &corename);
  const char *core = corename ? corename() : "";
  for (int i = 0; wide[i]; i++) if (!strncmp(core, wide[i], strlen(wide[i]))) return 2;
  for (int i = 0; middle[i]; i++) if (!strncmp(core, middle[i], strlen(middle[i]))) return 1;
  return 0;
}

static void open_blas(const char *name, int threads) {
  void (*set_threads)(int) = NULL;
  void *h = open_any(name);
  if (!h) return;
  level = *name ? FL_BLAS_ASKED : level_of(h);
  find(h, "cblas_sgemm", &blas.sgemm);
  find(h, "cblas_dgemm", &blas.dgemm);
  find(h, "openblas_set_num_threads", &set_threads);
  if (set_threads) set_threads(threads);
}

const fl_blas *fl_blas_get(const char *name, int threads, int least) {
  if (!strcmp(name, "off")) return NULL;
  pthread_mutex_lock(&lock);
  if (!tried) open_blas(name, threads);
  tried = 1;
  pthread_mutex_unlock(&lock);
  return blas.sgemm && blas.dgemm && level >= least ? &blas : NULL;
}
