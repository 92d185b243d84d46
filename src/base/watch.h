/*
** A watch: at a given time, sets bits of a word from a separate thread, which sleeps otherwise.
** Setting a later time than the last needs no system call, so it may be set for each of many calls.
*/
#ifndef FL_BASE_WATCH_H
#define FL_BASE_WATCH_H
#include "base/mem.h"
#include <stdatomic.h>

typedef struct fl_watch fl_watch;

int64_t fl_now_ns(void);                         /* of the clock that watches use */
/* NULL: no memory, or no thread could be started. */
fl_watch *fl_watch_open(fl_mem *m);
void fl_watch_close(fl_watch *w);                /* NULL is fine */
/* At 'when' (0: never) stores 'reason' in *why if that is 0, then sets 'bits' in *word. Replaces
** what was set before. Must not be called by two threads at once. */
void fl_watch_set(fl_watch *w, int64_t when, atomic_int *why, int reason, atomic_int *word,
                  int bits);
#endif
