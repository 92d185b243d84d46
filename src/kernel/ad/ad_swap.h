#ifndef FL_KERNEL_AD_SWAP_H
#define FL_KERNEL_AD_SWAP_H
#include "kernel/tree/tree.h"

/* f with atomic operations in place of loops around atomicCAS that do the same: sums, differences
** and, unless 'sums' is set, maxima and minima of real numbers. f itself if it has none; NULL: no
** memory. */
fl_kfunc *fl_kad_without_swaps(fl_karena *a, const fl_kfunc *f, int sums);
#endif
