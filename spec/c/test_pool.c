/*
** Tests of worker threads (cpu/state/pool.h): each unit of work is run once, for any number of
** units and any pauses between runs; a worker runs one unit at a time; a stop flag ends a run.
*/
#include "cpu/state/pool.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MOST = 700, THREADS = 5 };

static int passed, failed;

static void check_at(int ok, const char *what, int line) {
  if (ok) { passed++; return; }
  failed++;
  printf("test_pool.c:%d: failed: %s\n", line, what);
}
#define CHECK(x) check_at((x) != 0, #x, __LINE__)

typedef struct job {
  int times[MOST];                  /* not atomic: the pool must order workers' writes */
  atomic_int busy[THREADS];
  atomic_int wrong, stop;
  int64_t n, stop_at;
} job;

static void wait_ns(int64_t ns) {
  const struct timespec t = { .tv_nsec = (long)ns };
  nanosleep(&t, NULL);
}

static void unit(void *arg, int64_t i, int worker) {
  job *j = arg;
  if (worker < 0 || worker >= THREADS || i < 0 || i >= j->n ||
      atomic_fetch_add(&j->busy[worker], 1))
    atomic_fetch_add(&j->wrong, 1);
  j->times[i]++;
  if (i == j->stop_at) atomic_store(&j->stop, 1);
  for (volatile int k = 0; k < (int)(i % 7) * 100; k++) { }
  atomic_fetch_sub(&j->busy[worker], 1);
}

static int all_once(job *j, fl_threads *p, int64_t n) {
  memset(j, 0, sizeof *j);
  j->n = n;
  j->stop_at = -1;
  fl_threads_run(p, n, unit, j, n % 2 ? &j->stop : NULL);
  int right = !atomic_load(&j->wrong);
  for (int64_t i = 0; i < n; i++) right &= j->times[i] == 1;
  return right;
}

static void runs_each_unit_once(void) {
  static job j;
  fl_mem m = { 0 };
  for (int threads = 1; threads <= THREADS; threads++) {
    fl_threads *p = fl_threads_open(&m, threads);
    int right = p != NULL;
    for (int k = 0; p && k < 3000; k++) {
      right &= all_once(&j, p, k % 11 == 0 ? k % MOST : k % 13);
      if (k % 100 == 0) wait_ns(200000);                     /* helpers fall asleep */
    }
    CHECK(right);
    fl_threads_close(p);
  }
  CHECK(m.live_blocks == 0);
}

static void opens_and_closes(void) {
  static job j;
  fl_mem m = { 0 };
  int right = 1;
  for (int k = 0; k < 200; k++) {
    fl_threads *p = fl_threads_open(&m, THREADS);
    for (int i = 0; i < k % 4; i++) right &= all_once(&j, p, 20);
    if (k % 10 == 0) wait_ns(200000);
    fl_threads_close(p);
  }
  CHECK(right && m.live_blocks == 0);
}

/* When the stop flag is set, a unit that has begun is finished, and no other begins. */
static void stops(void) {
  static job j;
  fl_mem m = { 0 };
  fl_threads *p = fl_threads_open(&m, 3);
  memset(&j, 0, sizeof j);
  j.n = MOST;
  j.stop_at = 2;
  fl_threads_run(p, MOST, unit, &j, &j.stop);
  CHECK(j.times[2] == 1 && !atomic_load(&j.wrong));
  memset(j.times, 0, sizeof j.times);
  fl_threads_run(p, MOST, unit, &j, &j.stop);
  int none = 1;
  for (int i = 0; i < MOST; i++) none &= j.times[i] == 0;
  CHECK(none);
  fl_threads_close(p);
}

int main(void) {
  runs_each_unit_once();
  opens_and_closes();
  stops();
  printf("test_pool: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
