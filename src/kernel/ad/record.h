/*
** Atomics whose old value the kernel uses (a counter that gives out places): the value depends
** on the order of the threads, so a derivative cannot find it again. The launch that is
** differentiated writes such values down, one for each place in the text and thread, and the
** derivatives are those of a kernel that reads them there.
*/
#ifndef FL_KERNEL_RECORD_H
#define FL_KERNEL_RECORD_H
#include "kernel/tree/tree.h"

/* How many such places there are: atomics of integers outside loops whose results are used. */
int fl_krecord_count(const fl_kfunc *f);
/* f with one parameter more, "recorded": long long, count * threads of the launch. replay = 0: the
** kernel writes them; 1: it reads them (const) in place of the results. NULL: no memory. */
fl_kfunc *fl_krecord_make(fl_karena *a, const fl_kfunc *f, int replay);
#endif
