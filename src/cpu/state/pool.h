/* Worker threads of one device. Units are handed out in any order to any worker, so a unit's result
** may depend only on its number. */
#ifndef FL_CPU_POOL_H
#define FL_CPU_POOL_H
#include "base/mem.h"
#include <stdatomic.h>

/* worker: 0 is the calling thread, else below the number of threads. */
typedef void (*fl_unit_fn)(void *arg, int64_t unit, int worker);
typedef struct fl_threads fl_threads;

fl_threads *fl_threads_open(fl_mem *m, int threads);     /* NULL: no memory; starts no thread yet */
void fl_threads_close(fl_threads *p);
/* Is it worthwhile to share a small piece of work? Not if the helpers sleep, since they would wake
** up too late: they must be awake, or this must be called so often that helpers woken now stay
** awake. */
int fl_threads_awake(fl_threads *p);
/* To be called when a small piece of work has ended that the caller did alone. */
void fl_threads_alone(fl_threads *p);
/* Runs fn for units 0 .. n - 1; returns when all are done. Stops handing out units once
** *stop is not 0 (NULL: never). */
void fl_threads_run(fl_threads *p, int64_t n, fl_unit_fn fn, void *arg, const atomic_int *stop);
#endif
