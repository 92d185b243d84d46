/*
** Indices at a border, split into pieces. Each piece is the index of the thread plus a number that
** is the same in all threads: for x < w, (x + 1) % w is x + 1 or x + 1 - w, max(x - 1, 0) is x - 1
** or x.
*/
#ifndef FL_KERNEL_PIECES_H
#define FL_KERNEL_PIECES_H
#include "kernel/tree/tree.h"

/* Loads of constant arrays in f whose index has a remainder, a minimum, a maximum or a choice in it
** become a choice of loads: u[c ? a : b] is c ? u[a] : u[b]. The values stay the same where the
** parameters marked in 'positive' (n_params) are greater than 0. geometry: which sizes of the
** launch are 1 (FL_KONE_…). Returns whether there was anything to do; 0 also when memory is out. */
int fl_kpieces(fl_kfunc *f, int geometry, uint8_t *positive);
#endif
