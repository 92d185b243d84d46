/*
** Loads that only guess what an atomicCAS of the same element will find:
**
**   int old = *p, assumed;
**   do { assumed = old; old = atomicCAS(p, assumed, next(assumed)); } while (old != assumed);
**
** An atomic change of the element in between makes the guess wrong and nothing else.
*/
#ifndef FL_KERNEL_GUESS_H
#define FL_KERNEL_GUESS_H
#include "kernel/tree/tree.h"

/* By site of the function: 1 where the load is such a guess. n_sites + 1 of them, to be freed;
** NULL: no memory. */
uint8_t *fl_kguess_find(fl_mem *m, const fl_kfunc *f);
void fl_kguess_free(fl_mem *m, const fl_kfunc *f, uint8_t *guess);
#endif
