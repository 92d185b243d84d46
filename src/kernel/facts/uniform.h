/*
** In which threads of a launch a value is the same. The levels are "the same in the grid", "the
** same in a block" and unknown, from the highest to the lowest. All variables start at the highest,
** and fall until nothing changes: a variable's level is at most that of each value assigned to it
** and of the conditions that decide whether a thread reaches the assignment.
**
** For any two threads, wherever they are: in
**   int n = m / blockDim.x;  if (threadIdx.x < 4) n++;  for (int j = 0; j < m; j++) s += x[j];
** m and j are the same in the grid (j: in one iteration). n is not, since some threads increment
** it, and s is not, since other threads may have written x (x is not a const array). For threads
** that have reached a statement together ('place'), all of them passed the conditions around it, so
** what is assigned under these conditions has the level of its value. A variable from outside a
** loop may still depend on how many iterations its thread has made.
*/
#ifndef FL_KERNEL_UNIFORM_H
#define FL_KERNEL_UNIFORM_H
#include "kernel/tree/tree.h"

/* The levels, from the highest to the lowest. */
enum { FL_KEQUAL_GRID, FL_KEQUAL_BLOCK, FL_KEQUAL_NONE };

typedef struct fl_kuniform {
  const fl_kfunc *f;
  uint8_t *level;            /* by variable: FL_KEQUAL_… */
  int32_t *decl;             /* by variable: place (defs.h) of its DECL; 0: none, or no 'place' is
                             ** given */
  int32_t place, order;      /* place of the statement 'place' (0: none is given); place of the
                             ** statement being looked at, while the table is made */
  uint8_t shared;            /* elements of shared memory count as equal if their indices are
                             ** equal */
  uint8_t lost;              /* 'place' is not in the body: nothing is known */
  uint8_t changed;           /* in this round of the search a level has fallen */
} fl_kuniform;

/* The level of each variable: equality in the threads that reach statement 'place' (NULL: in all
** threads, wherever they are). shared: elements of shared memory with equal indices count as equal.
** The result is in 'a'; NULL: no memory. */
fl_kuniform *fl_kuniform_new(fl_karena *a, const fl_kfunc *f, fl_kblock body,
                             const fl_kstmt *place, int shared);
int fl_kuniform_level(const fl_kuniform *u, const fl_kexpr *x);      /* of x: FL_KEQUAL_… */
#endif
