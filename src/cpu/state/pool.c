/*
** Worker threads (pool.h). Helpers are started at the first parallel run and sleep between
** runs, after a short spin. A run never waits for a helper that has not joined it: the caller works
** too, and closes the job when no unit is left. No side takes the mutex while the other is awake,
** since waking a thread costs more than most jobs. 'gate' holds OPEN while there is a job, and the
** number of helpers inside; the job's fields are written while it is 0 and read by helpers that
** entered. Each worker has a share of the units, the same at each run with the same number of
** units, so that its cache is still useful; a worker that is done helps the others. After a fork
** the child has no helpers and works alone.
*/
#include "cpu/state/pool.h"
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* How long a helper waits actively for the next run: small evaluations follow each other by some 10
** us, and waking a thread costs 30 to 100 us in a virtual machine. */
enum { SPIN_NS = 60000, SPIN_END = 4000 };      /* SPIN_END: pauses of the caller at a run's end */

enum { OPEN = 1 << 16 };

/* units of a worker */
typedef struct share { atomic_llong next; int64_t end; char apart[48]; } share;

struct fl_threads {
  fl_mem *mem;
  size_t bytes;
  int64_t little;                   /* when the last small piece of work began, or ended */
  int threads, most, started;       /* most: number of requested threads; there are fewer if some do
                                    ** not start */
  pid_t pid;
  pthread_mutex_t lock;             /* of those who sleep */
  pthread_cond_t work, idle;
  fl_unit_fn fn;                    /* the job */
  void *arg;
  const atomic_int *stop;
  int shares;
  atomic_int gate, quit;
  atomic_int sleepers, waiting;     /* number of helpers that sleep on 'work'; is the caller waiting
                                    ** on 'idle'? */
  atomic_uint generation;           /* of jobs: spun upon */
  _Alignas(64) share share[];       /* one per thread; after them in memory come the threads, then
                                    ** the helpers */
};

typedef struct helper { fl_threads *pool; int worker; } helper;

static size_t pool_bytes(int threads) {
  return sizeof(fl_threads) +
         (size_t)threads * (sizeof(share) + sizeof(pthread_t) + sizeof(helper));
}

static pthread_t *threads_of(fl_threads *p) { return (pthread_t *)(void *)(p->share + p->most); }
static helper *helpers(fl_threads *p) { return (helper *)(void *)(threads_of(p) + p->most); }

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

/* Processes units of the worker's own share, then of the others'. */
static void work(fl_threads *p, int worker) {
  for (int i = 0; i < p->shares; i++) {
    share *s = &p->share[(worker + i) % p->shares];
    while (atomic_load_explicit(&s->next, memory_order_relaxed) < s->end) {
      if (p->stop && atomic_load_explicit(p->stop, memory_order_relaxed)) return;
      const int64_t unit = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
      if (unit < s->end) p->fn(p->arg, unit, worker);
    }
  }
}

/* Enters the open job, if there is one, works on its units, and leaves it. */
static void join_job(fl_threads *p, int worker) {
  int gate = atomic_load(&p->gate);
  do
    if (!(gate & OPEN)) return;
  while (!atomic_compare_exchange_weak(&p->gate, &gate, gate + 1));
  work(p, worker);
  if (atomic_fetch_sub(&p->gate, 1) != 1 || !atomic_load(&p->waiting)) return;
  pthread_mutex_lock(&p->lock);
  pthread_cond_signal(&p->idle);
  pthread_mutex_unlock(&p->lock);
}

static void sleep_until(fl_threads *p, unsigned seen) {
  pthread_mutex_lock(&p->lock);
  atomic_fetch_add(&p->sleepers, 1);
  while (atomic_load(&p->generation) == seen) pthread_cond_wait(&p->work, &p->lock);
  atomic_fetch_sub(&p->sleepers, 1);
  pthread_mutex_unlock(&p->lock);
}

static void *helper_main(void *arg) {
  const helper *h = arg;
  fl_threads *p = h->pool;
  unsigned seen = 0;
  for (;;) {
    wait_awake(p, seen);
    if (atomic_load(&p->generation) == seen) sleep_until(p, seen);
    seen = atomic_load(&p->generation);
    if (atomic_load(&p->quit)) return NULL;
    join_job(p, h->worker);
  }
}

/* Makes helpers that wait for a job look for one again. */
static void call_helpers(fl_threads *p) {
  atomic_fetch_add(&p->generation, 1);
  if (!atomic_load(&p->sleepers)) return;
  pthread_mutex_lock(&p->lock);
  pthread_cond_broadcast(&p->work);
  pthread_mutex_unlock(&p->lock);
}

/* Starts the helpers with all signals blocked: the host's signals are handled by its own
** threads. */
static void start(fl_threads *p) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  while (p->started < p->threads - 1) {
    helper *h = &helpers(p)[p->started];
    *h = (helper){ p, p->started + 1 };
    if (pthread_create(&threads_of(p)[p->started], NULL, helper_main, h)) {
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
    atomic_store(&p->quit, 1);
    call_helpers(p);
    for (int i = 0; i < p->started; i++) pthread_join(threads_of(p)[i], NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->idle);
  }
  fl_free(p->mem, p, p->bytes);
}


int fl_threads_awake(fl_threads *p) {
  const int64_t now = now_ns(), before = p->little;
  p->little = now;
  return (p->started && !atomic_load_explicit(&p->sleepers, memory_order_relaxed)) ||
         now - before < SPIN_NS;
}

void fl_threads_alone(fl_threads *p) { p->little = now_ns(); }

/* Waits until all helpers have left: first actively, then asleep. */
static void wait_for_helpers(fl_threads *p) {
  for (int i = 0; i < SPIN_END && atomic_load(&p->gate) > 0; i++) relax();
  if (!atomic_load(&p->gate)) return;
  pthread_mutex_lock(&p->lock);
  atomic_store(&p->waiting, 1);
  while (atomic_load(&p->gate) > 0) pthread_cond_wait(&p->idle, &p->lock);
  atomic_store(&p->waiting, 0);
  pthread_mutex_unlock(&p->lock);
}

void fl_threads_run(fl_threads *p, int64_t n, fl_unit_fn fn, void *arg, const atomic_int *stop) {
  if (n > 1 && p->threads > 1 && p->pid == getpid() && p->started < p->threads - 1) start(p);
  if (n <= 1 || p->threads == 1 || p->pid != getpid()) {
    for (int64_t i = 0; i < n; i++) {
      if (stop && atomic_load_explicit(stop, memory_order_relaxed)) return;
      fn(arg, i, 0);
    }
    return;
  }
  p->fn = fn;
  p->arg = arg;
  p->stop = stop;
  p->shares = n < p->threads ? (int)n : p->threads;
  for (int i = 0; i < p->shares; i++) {
    atomic_store_explicit(&p->share[i].next, n * i / p->shares, memory_order_relaxed);
    p->share[i].end = n * (i + 1) / p->shares;
  }
  atomic_store(&p->gate, OPEN);
  call_helpers(p);
  work(p, 0);
  atomic_fetch_sub(&p->gate, OPEN);
  wait_for_helpers(p);
}
