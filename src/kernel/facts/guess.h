/*
** Loads that are only a guess of what an atomicCAS of the same element will find:
**
**   int old = *p, assumed;
**   do { assumed = old; old = atomicCAS(p, assumed, next(assumed)); } while (old != assumed);
**
** If another thread changes the element in between, only the guess is wrong.
*/
#ifndef FL_KERNEL_GUESS_H
#define FL_KERNEL_GUESS_H
#include "kernel/tree/tree.h"

/* One byte per site of the function: 1 where the load only guesses what an atomicCAS will find.
** Freed by fl_kguess_free. NULL: no memory. */
uint8_t *fl_kguess_find(fl_mem *m, const fl_kfunc *f);
void fl_kguess_free(fl_mem *m, const fl_kfunc *f, uint8_t *guess);
#endif
