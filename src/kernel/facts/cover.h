/*
** Does a launch write every element of an output? Then the launcher need not fill it with zeros
** first. What the kernel stores is found once (fl_kcover_new), and each launch is asked for with
** its geometry and scalars (fl_kcover_all). The answer "yes" is a proof, "no" says nothing.
*/
#ifndef FL_KERNEL_COVER_H
#define FL_KERNEL_COVER_H
#include "kernel/tree/tree.h"

typedef struct fl_kcover fl_kcover;
/* NULL: nothing can be proven for any launch, or memory is out. Borrows f. */
fl_kcover *fl_kcover_new(fl_mem *m, const fl_kfunc *f);
void fl_kcover_free(fl_kcover *c);                      /* NULL is fine */

typedef struct fl_kcover_launch {
  int64_t grid[3], block[3];
  /* The bytes of argument 'param' as CUDA lays them out; NULL: not known. */
  const void *(*argument)(void *arg, int param);
  void *arg;
} fl_kcover_launch;
/* 1: the launch writes all 'n' scalars behind pointer parameter 'param', and no thread reads one of
** them before it has written it. 0: that is not proven, or c is NULL. */
int fl_kcover_all(fl_kcover *c, int param, int64_t n, const fl_kcover_launch *l);
#endif
