/*
** A watch's thread sleeps until the time that was set when it went to sleep. It is woken only for
** an earlier time; it sees a later one when it wakes. After a fork there is no thread, and setting
** does nothing.
*/
#include "base/watch.h"
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

struct fl_watch {
  fl_mem *mem;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  pid_t pid;
  int quit;
  int64_t when, until;             /* when: the time that is set, 0: none; until: the time until
                                   ** which the thread sleeps, 0: without limit */
  atomic_int *why, *word;
  int reason, bits;
};

int64_t fl_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void strike(fl_watch *w) {
  int none = 0;
  w->when = 0;
  atomic_compare_exchange_strong(w->why, &none, w->reason);
  atomic_fetch_or(w->word, w->bits);
}

static void *watch_main(void *arg) {
  fl_watch *w = arg;
  pthread_mutex_lock(&w->lock);
  while (!w->quit) {
    if (w->when && fl_now_ns() >= w->when) strike(w);
    w->until = w->when;
    if (!w->when) {
      pthread_cond_wait(&w->wake, &w->lock);
      continue;
    }
    const struct timespec t = { .tv_sec = (time_t)(w->when / 1000000000),
                                .tv_nsec = (long)(w->when % 1000000000) };
    pthread_cond_timedwait(&w->wake, &w->lock, &t);
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

fl_watch *fl_watch_open(fl_mem *m) {
  fl_watch *w = fl_zalloc(m, sizeof *w);
  pthread_condattr_t clock;
  sigset_t all, old;
  if (!w) return NULL;
  w->mem = m;
  w->pid = getpid();
  pthread_mutex_init(&w->lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&w->wake, &clock);
  pthread_condattr_destroy(&clock);
  sigfillset(&all);                          /* signals are handled by the host's threads */
  pthread_sigmask(SIG_SETMASK, &all, &old);
  const int started = pthread_create(&w->thread, NULL, watch_main, w) == 0;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (started) return w;
  w->pid = 0;
  fl_watch_close(w);
  return NULL;
}

void fl_watch_close(fl_watch *w) {
  if (!w) return;
  if (w->pid == getpid()) {
    pthread_mutex_lock(&w->lock);
    w->quit = 1;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
  }
  fl_free(w->mem, w, sizeof *w);
}

void fl_watch_set(fl_watch *w, int64_t when, atomic_int *why, int reason, atomic_int *word,
                  int bits) {
  if (w->pid != getpid()) return;
  pthread_mutex_lock(&w->lock);
  w->when = when;
  w->why = why;
  w->reason = reason;
  w->word = word;
  w->bits = bits;
  if (when && (!w->until || when < w->until)) pthread_cond_signal(&w->wake);
  pthread_mutex_unlock(&w->lock);
}
