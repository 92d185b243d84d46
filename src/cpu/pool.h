/* Worker threads of one device. Units are handed out in any order to any worker, so a unit's
** result may depend on its number alone. */
#ifndef FL_CPU_POOL_H
#define FL_CPU_POOL_H
#include "base/mem.h"
#include <stdatomic.h>

/* worker: 0 is the calling thread, else below fl_pool_width. */
typedef void (*fl_unit_fn)(void *arg, int64_t unit, int worker);
typedef struct fl_pool fl_pool;

fl_pool *fl_pool_open(fl_mem *m, int threads);       /* NULL: no memory; starts no thread yet */
void fl_pool_close(fl_pool *p);
int fl_pool_width(const fl_pool *p);                 /* threads that may work, the caller included */
/* Run fn for units 0 .. n - 1; returns when all are done. Stops handing out units once
** *stop is not 0 (NULL: never). */
void fl_pool_run(fl_pool *p, int64_t n, fl_unit_fn fn, void *arg, const atomic_int *stop);
#endif
