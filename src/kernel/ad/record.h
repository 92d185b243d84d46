/*
** Atomics of which the kernel uses the old value (as of a counter that gives each thread a place):
** it depends on the order of the threads, so a derivative cannot find it again. The launch that is
** differentiated records these values, one per place in the text and thread, and the derivative is
** that of a kernel that reads the recorded values.
*/
#ifndef FL_KERNEL_RECORD_H
#define FL_KERNEL_RECORD_H
#include "kernel/tree/tree.h"

/* The number of atomics of f to record: those of integers, outside of loops, whose results are
** used. */
int fl_krecord_count(const fl_kfunc *f);
/* Does x load such a value, in a kernel f that replays them? */
int fl_krecord_is(const void *f, const fl_kexpr *x);
/* A copy of f with one more parameter, "recorded": long long[count * threads of the launch]. replay
** = 0: the kernel writes the results there; 1: it reads them from there (const), and its atomics
** have no results. NULL: no memory. */
fl_kfunc *fl_krecord_make(fl_karena *a, const fl_kfunc *f, int replay);
#endif
