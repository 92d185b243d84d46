/*
** Worker threads (pool.h). Helpers are started at the first parallel run and sleep between
** runs, after a short spin. A run never waits for a helper that did not join it: the caller
** works too, and closes the job when no unit is left. All job fields are read and written under
** the mutex; 'ticket' (next unit) and 'generation' are the only shared counters outside it.
** After a fork the child has no helpers and works alone.
*/
#include "cpu/pool.h"
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* How long a helper waits awake for the next run: small evaluations follow each other by some 10 us,
** and to wake a thread costs 30 to 100 us in a virtual machine. */
enum { SPIN_NS = 60000, SPIN_END = 4000 };      /* SPIN_END: pauses of the caller at a run's end */

struct fl_threads {
  fl_mem *mem;
  size_t bytes;
  int threads, most, started;       /* most: threads asked for; fewer if they do not start */
  pid_t pid;
  pthread_mutex_t lock;
  pthread_cond_t work, idle;
  int open, quit;                   /* under lock: is there a job; leave */
  fl_unit_fn fn;                    /* under lock */
  void *arg;
  const atomic_int *stop;
  int64_t n;
  atomic_int running;               /* helpers inside a job; changed under lock */
  atomic_uint generation;           /* changed under lock; also spun upon */
  _Alignas(64) atomic_llong ticket;
  pthread_t thread[];
};

typedef struct helper { fl_threads *pool; int worker; } helper;

static size_t pool_bytes(int threads) {
  return sizeof(fl_threads) + (size_t)threads * (sizeof(pthread_t) + sizeof(helper));
}

static helper *helpers(fl_threads *p) { return (helper *)(void *)(p->thread + p->most); }

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void wait_awake(fl_threads *p, unsigned seen) {
  const int64_t end = now_ns() + SPIN_NS;
  do
    for (int i = 0; i < 16; i++) {
      if (atomic_load(&p->generation) != seen) return;
      relax();
    }
  while (now_ns() < end);
}

static void work(fl_threads *p, fl_unit_fn fn, void *arg, int64_t n, const atomic_int *stop, int worker) {
  for (;;) {
    if (stop && atomic_load_explicit(stop, memory_order_relaxed)) return;
    const int64_t unit = atomic_fetch_add_explicit(&p->ticket, 1, memory_order_relaxed);
    if (unit >= n) return;
    fn(arg, unit, worker);
  }
}

/* Called with the lock; joins the open job, if any. */
static void join_job(fl_threads *p, int worker) {
  if (!p->open) return;
  fl_unit_fn fn = p->fn;
  void *arg = p->arg;
  const int64_t n = p->n;
  const atomic_int *stop = p->stop;
  atomic_fetch_add(&p->running, 1);
  pthread_mutex_unlock(&p->lock);
  work(p, fn, arg, n, stop, worker);
  pthread_mutex_lock(&p->lock);
  if (atomic_fetch_sub(&p->running, 1) == 1) pthread_cond_signal(&p->idle);
}

static void *helper_main(void *arg) {
  const helper *h = arg;
  fl_threads *p = h->pool;
  unsigned seen = 0;
  for (;;) {
    wait_awake(p, seen);
    pthread_mutex_lock(&p->lock);
    while (!p->quit && atomic_load(&p->generation) == seen) pthread_cond_wait(&p->work, &p->lock);
    seen = atomic_load(&p->generation);
    if (p->quit) break;
    join_job(p, h->worker);
    pthread_mutex_unlock(&p->lock);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

/* Signals of the host stay with its own threads. */
static void start(fl_threads *p) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  while (p->started < p->threads - 1) {
    helper *h = &helpers(p)[p->started];
    *h = (helper){ p, p->started + 1 };
    if (pthread_create(&p->thread[p->started], NULL, helper_main, h)) {
      p->threads = p->started + 1;             /* do with what there is */
      break;
    }
    p->started++;
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

fl_threads *fl_threads_open(fl_mem *m, int threads) {
  fl_threads *p = fl_zalloc(m, pool_bytes(threads));
  if (!p) return NULL;
  p->mem = m;
  p->bytes = pool_bytes(threads);
  p->threads = p->most = threads;
  p->pid = getpid();
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->work, NULL);
  pthread_cond_init(&p->idle, NULL);
  return p;
}

void fl_threads_close(fl_threads *p) {
  if (!p) return;
  if (p->pid == getpid()) {
    pthread_mutex_lock(&p->lock);
    p->quit = 1;
    atomic_fetch_add(&p->generation, 1);
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->started; i++) pthread_join(p->thread[i], NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->idle);
  }
  fl_free(p->mem, p, p->bytes);
}

int fl_threads_width(const fl_threads *p) { return p->threads; }

void fl_threads_run(fl_threads *p, int64_t n, fl_unit_fn fn, void *arg, const atomic_int *stop) {
  if (n > 1 && p->threads > 1 && p->pid == getpid() && p->started < p->threads - 1) start(p);
  if (n <= 1 || p->threads == 1 || p->pid != getpid()) {
    for (int64_t i = 0; i < n; i++) {
      if (stop && atomic_load_explicit(stop, memory_order_relaxed)) return;
      fn(arg, i, 0);
    }
    return;
  }
  pthread_mutex_lock(&p->lock);
  p->fn = fn;
  p->arg = arg;
  p->n = n;
  p->stop = stop;
  p->open = 1;
  atomic_store_explicit(&p->ticket, 0, memory_order_relaxed);
  atomic_fetch_add(&p->generation, 1);
  pthread_cond_broadcast(&p->work);
  pthread_mutex_unlock(&p->lock);
  work(p, fn, arg, n, stop, 0);
  for (int i = 0; i < SPIN_END && atomic_load(&p->running) > 0; i++) relax();
  pthread_mutex_lock(&p->lock);
  p->open = 0;
  while (atomic_load(&p->running) > 0) pthread_cond_wait(&p->idle, &p->lock);
  pthread_mutex_unlock(&p->lock);
}
