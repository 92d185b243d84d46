#ifndef FL_KERNEL_AD_COPIES_H
#define FL_KERNEL_AD_COPIES_H
#include "kernel/tree/tree.h"

/* f without the variables that only copy another one: where such a variable is read, the other is
** read. Inlined functions have many: an argument, a member of the result, the result. f itself if
** it has none; NULL: no memory. */
fl_kfunc *fl_kad_without_copies(fl_karena *a, const fl_kfunc *f);
#endif
