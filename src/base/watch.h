/*
** A watch: sets bits of a word at a time, from a separate thread, which sleeps otherwise. Setting
** a later time than the last costs no call of the system, so it may be set for each of many calls.
*/
#ifndef FL_BASE_WATCH_H
#define FL_BASE_WATCH_H
#include "base/mem.h"
#include <stdatomic.h>

typedef struct fl_watch fl_watch;

int64_t fl_now_ns(void);                         /* of the clock that watches go by */
/* NULL: no memory, or the system starts no thread. */
fl_watch *fl_watch_open(fl_mem *m);
void fl_watch_close(fl_watch *w);                /* NULL is fine */
/* At 'when' (0: never) 'reason' is stored into *why if that is 0, then 'bits' are set in *word.
** Replaces what was set before. Not to be called by two threads at once. */
void fl_watch_set(fl_watch *w, int64_t when, atomic_int *why, int reason, atomic_int *word,
                  int bits);
#endif
