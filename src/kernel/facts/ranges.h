/*
** Which elements the accesses of a kernel may reach in one launch. The arguments and the sizes of
** the launch are numbers here, the indices of threads and blocks are intervals; from these follows
** an interval for each integer of the kernel:
**   int t = threadIdx.x;  if (t < n) s[n + t] = x[t];     64 threads, n = 40: s[40] to s[79]
**
** An interval holds for all threads of the launch. A variable has two: one for all that is ever
** assigned to it, and a narrower one at the statement that is looked at, after an assignment or
** under the conditions around. The body is walked again until the first ones no longer grow.
**
** Elements of shared and local arrays have one interval for all that is stored in the array. So it
** is taken for granted that no variable and no element is read before it was written (it could have
** any value, and FLAME_CHECK=uninit tells of it; with 0 in each interval, indices such as q[t] - 1
** would have no bound that is of use), and that the bytes of an array are not written as another
** one (which views.h proves).
*/
#ifndef FL_KERNEL_RANGES_H
#define FL_KERNEL_RANGES_H
#include "kernel/facts/cover.h"

/* The values lo to hi; lo > hi: none. INT64_MIN to INT64_MAX: nothing is known. */
typedef struct fl_kinterval { int64_t lo, hi; } fl_kinterval;

/* A LOAD, STORE or ATOMIC of var that threads of the launch may reach, and the interval of its
** index; called at least once for each. */
typedef void fl_kranges_see(void *arg, int32_t var, int32_t line, fl_kinterval index);
/* Calls 'see' for all accesses of f in the launch. If the search takes too many steps, it also
** calls it for each variable, with all indices. 0: memory is out, and some were left out. */
int fl_kranges(fl_mem *m, const fl_kfunc *f, const fl_kcover_launch *l, fl_kranges_see *see,
               void *arg);
#endif
