/*
** Indices at a border, split into pieces. Each piece is the index of the thread plus a number that
** is the same in all threads: for 0 <= x < w, (x + 1) % w is x + 1 or x + 1 - w, and max(x - 1, 0)
** is x - 1 or, where x is 0, x.
*/
#ifndef FL_KERNEL_PIECES_H
#define FL_KERNEL_PIECES_H
#include "kernel/tree/tree.h"

/* Loads of const arrays of real numbers in f, outside of loops, whose index has a remainder, a
** minimum, a maximum or a choice in it become a choice of loads, if the pieces are few: u[c ? a :
** b] becomes c ? u[a] : u[b]. The values stay the same where the parameters that are then marked in
** 'positive' (n_params entries) are greater than 0. geometry: which sizes of the launch are 1
** (FL_KONE_…). Returns whether anything was changed; 0 also when memory is out. */
int fl_kpieces(fl_kfunc *f, int geometry, uint8_t *positive);
#endif
