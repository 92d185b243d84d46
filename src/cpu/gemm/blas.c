/*
** OpenBLAS by dlopen (blas.h). The handle is process-wide, as is OpenBLAS' own thread count.
**
** Our workers compute the parts of a product (matmul.c), so the library is kept at one thread: the
** results of the library's threads depend on their number, and they wait actively. Only large
** factorisations use them.
**
** Memory. Each simultaneous caller takes a buffer of some 128 MB of address space, which the
** library keeps. So does each thread of the library: when it is opened it starts one for each
** processor that the opening thread may use. When there is no room for a buffer the library retries
** forever. So if the address space is limited (ulimit -v) the library is opened by a thread that
** may use a single processor, and the buffers of all callers are allocated then, each after a check
** that there is room.
*/
#include "cpu/gemm/blas.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* LIBRARIES: one for fl_blas, one for fl_lapack; MOST_CALLERS: of a process with limited memory;
** in MB: CODE, of the library and what it needs, BUFFER, of a thread that it starts */
enum { LIBRARIES = 2, MOST_CALLERS = 64, CODE = 192, BUFFER = 136 };
static const size_t mega = 1 << 20;

typedef struct library {
  void *h;
  void (*set)(int);                  /* sets its number of threads; NULL: it has no such function */
  void *(*take)(int);                    /* one of its buffers */
  void (*give)(void *);
  /* memory was limited when the library was opened; the number of its buffers; 0, or a number of
  ** callers for which there was no room */
  int limited, ready, refused;
} library;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* written under the lock, as are the variables below; blas, omp_set and omp_get are read without
** it, after the library was opened */
static library opened[LIBRARIES];
static int count, tried, level;
static fl_blas blas;                 /* constant once 'tried' is set */
static void (*omp_set)(int);         /* for a library built on OpenMP: sets the threads of the
                                     ** calling thread */
static int (*omp_get)(void);
static int narrow, wide;                 /* number of callers that use one thread, and several */

/* Finds a symbol as a function pointer, copied from the data pointer as POSIX describes. */
static void find(void *h, const char *name, void *out) {
  void *p = dlsym(h, name);
  memcpy(out, &p, sizeof p);
}

static int is_limited(void) {
  struct rlimit r;
  return getrlimit(RLIMIT_AS, &r) == 0 && r.rlim_cur != RLIM_INFINITY;
}

/* Is there room for this many bytes in the address space? */
static int has_room(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return 0;
  munmap(p, bytes);
  return 1;
}

/* Is there room for the library's code and its threads, with a stack and a buffer each? */
static int has_room_to_open(long threads) {
  struct rlimit r;
  size_t stack = 8 * mega;
  if (getrlimit(RLIMIT_STACK, &r) == 0 && r.rlim_cur != RLIM_INFINITY) stack = (size_t)r.rlim_cur;
  return has_room(CODE * mega + (size_t)threads * (stack + BUFFER * mega));
}

/* Opens a library where memory is limited, with a single processor if that can be set, so that it
** starts no threads. NULL also if there is no room. */
static void *open_limited(const char *file) {
  cpu_set_t all, one;
  CPU_ZERO(&one);
  int k = 0;
  int narrow = sched_getaffinity(0, sizeof all, &all) == 0;
  while (narrow && k < CPU_SETSIZE - 1 && !CPU_ISSET(k, &all)) k++;
  CPU_SET(k, &one);
  narrow = narrow && sched_setaffinity(0, sizeof one, &one) == 0;
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  void *h = has_room_to_open(narrow || cores < 2 ? 0 : cores) ? dlopen(file, RTLD_NOW | RTLD_LOCAL)
                                                              : NULL;
  if (narrow) sched_setaffinity(0, sizeof all, &all);
  return h;
}

/* Where memory is limited: makes the library allocate buffers for this many callers, and one more.
** 0: there is no room. */
static int make_ready(library *l, int callers) {
  void *buffer[MOST_CALLERS + 1];
  int n = 0, room = callers <= MOST_CALLERS;
  if (!l->limited || !l->take || callers < l->ready) return 1;
  if (l->refused && callers >= l->refused) return 0;
  while (room && n <= callers) {
    room = has_room(512 * mega);
    if (room) buffer[n++] = l->take(0);
  }
  while (n > 0) l->give(buffer[--n]);
  if (room) l->ready = callers + 1;
  else l->refused = callers;
  return room;
}

static library *note(void *h) {
  for (int i = 0; i < count; i++) if (opened[i].h == h) return &opened[i];
  library *l = &opened[count++];
  int (*parallel)(void) = NULL;
  *l = (library){ .h = h, .limited = is_limited() };
  find(h, "openblas_set_num_threads", &l->set);
  find(h, "openblas_get_parallel", &parallel);
  find(h, "blas_memory_alloc", &l->take);
  find(h, "blas_memory_free", &l->give);
  if (!l->give) l->take = NULL;
  if (parallel && parallel() == 2) {
    find(h, "omp_set_num_threads", &omp_set);
    find(h, "omp_get_max_threads", &omp_get);
  }
  if (l->set) l->set(1);
  return l;
}

static void *open_one(const char *const *files, int (*fits)(void *h), int callers) {
  const int limited = is_limited();
  for (int i = 0; files[i]; i++) {
    void *h = limited ? open_limited(files[i]) : dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (h && fits(h)) return make_ready(note(h), callers) ? h : NULL;
  }
  return NULL;
}

void *fl_blas_open(const char *const *files, int (*fits)(void *h), int callers) {
  pthread_mutex_lock(&lock);
  void *h = open_one(files, fits, callers);
  pthread_mutex_unlock(&lock);
  return h;
}

int fl_blas_room(void *h, int callers) {
  pthread_mutex_lock(&lock);
  const int room = make_ready(note(h), callers);
  pthread_mutex_unlock(&lock);
  return room;
}

/* The vector width of the kernels that OpenBLAS has chosen: 2 AVX-512, 1 AVX2, 0 narrower or
** unknown. OpenBLAS takes a processor that is newer than itself for the oldest one that it
** knows. */
static int level_of(void *h) {
  static const char *const wide_cores[] = { "SkylakeX", "Cooperlake", "Sapphire", NULL };
  static const char *const middle[] = { "Haswell", "Zen", "Excavator", NULL };
  char *(*corename)(void) = NULL;
  find(h, "openblas_get_corename", &corename);
  const char *core = corename ? corename() : "";
  for (int i = 0; wide_cores[i]; i++)
    if (!strncmp(core, wide_cores[i], strlen(wide_cores[i]))) return 2;
  for (int i = 0; middle[i]; i++) if (!strncmp(core, middle[i], strlen(middle[i]))) return 1;
  return 0;
}

static int has_products(void *h) { return dlsym(h, "cblas_sgemm") && dlsym(h, "cblas_dgemm"); }

static void *open_products(const char *name, int callers) {
  const char *const usual[] = { "libopenblas.so.0", "libopenblas.so", NULL },
  *const asked[] = { name, NULL };
  void *h = open_one(*name ? asked : usual, has_products, callers);
  if (!h) return NULL;
  level = *name ? FL_BLAS_ASKED : level_of(h);
  find(h, "cblas_sgemm", &blas.sgemm);
  find(h, "cblas_dgemm", &blas.dgemm);
  blas.alone = !note(h)->set;
  return h;
}

const fl_blas *fl_blas_get(const char *name, int callers, int least) {
  static void *h;
  if (!strcmp(name, "off")) return NULL;
  pthread_mutex_lock(&lock);
  if (!tried) h = open_products(name, callers);
  tried = 1;
  const int room = h && level >= least && make_ready(note(h), callers);
  pthread_mutex_unlock(&lock);
  return room ? &blas : NULL;
}

/* ---- threads --------------------- */

static void set_all(int threads) {
  for (int i = 0; i < count; i++) if (opened[i].set && !opened[i].limited) opened[i].set(threads);
}

void fl_blas_enter(int threads) {
  pthread_mutex_lock(&lock);
  if (threads > 1) {
    if (wide++ == 0 && narrow == 0) set_all(threads);
  } else if (narrow++ == 0 && wide > 0) {
    set_all(1);
  }
  pthread_mutex_unlock(&lock);
}

void fl_blas_leave(int threads) {
  pthread_mutex_lock(&lock);
  if (threads > 1) {
    if (--wide == 0) set_all(1);
  } else {
    narrow--;
  }
  pthread_mutex_unlock(&lock);
}

int fl_blas_thread_enter(int threads) {
  const int before = omp_get ? omp_get() : 0;
  if (omp_set) omp_set(threads);
  return before;
}

void fl_blas_thread_leave(int before) {
  if (omp_set && before > 0) omp_set(before);
}
