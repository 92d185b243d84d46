/*
** How equal a value is in the threads of a launch. A fixed point over the variables, falling from
** "the same in the grid" through "the same in a block" to unknown: what is assigned is at most as
** equal as its value and as the conditions that decide whether a thread comes by.
**
** Asked of any two threads, wherever they are: in
**   int n = m / blockDim.x;  if (threadIdx.x < 4) n++;  for (int j = 0; j < m; j++) s += x[j];
** m and j are the same in the grid (j: in one round), n is not, as some threads step it, and s is
** not, as other threads may have written x (x is no const array).
** Asked of threads that have come to a statement together ('place'), the conditions around it are
** passed by all of them, so what is assigned under these is as equal as its value. A variable from
** outside a loop may still bring along how often its thread has been around.
*/
#ifndef FL_KERNEL_UNIFORM_H
#define FL_KERNEL_UNIFORM_H
#include "kernel/tree/tree.h"

enum { FL_KEQUAL_GRID, FL_KEQUAL_BLOCK, FL_KEQUAL_NONE };            /* falling */

typedef struct fl_kuniform {
  const fl_kfunc *f;
  uint8_t *level;            /* by variable: FL_KEQUAL_… */
  int32_t *decl;             /* by variable: place of its DECL, 0: none */
  int32_t place, order;      /* of 'place', 0: any; of the statement at work */
  uint8_t shared;            /* elements of shared memory are equal where their indices are */
  uint8_t lost;              /* 'place' is not in the body: nothing is known */
  uint8_t changed;
} fl_kuniform;

/* place NULL: of any threads. 'shared': see above. In 'a'; NULL: no memory. */
fl_kuniform *fl_kuniform_new(fl_karena *a, const fl_kfunc *f, fl_kblock body,
                             const fl_kstmt *place, int shared);
int fl_kuniform_level(const fl_kuniform *u, const fl_kexpr *x);      /* FL_KEQUAL_… */
#endif
