/*
** Unrolls loops whose iterations are known from the text.
*/
#ifndef FL_KERNEL_UNROLL_H
#define FL_KERNEL_UNROLL_H
#include "kernel/tree/tree.h"

/* A copy of f without its short loops, as "for (int d = -1; d <= 1; ++d)": each iteration is
** written out, with its counter's value substituted and with separate variables. A loop stays if
** the copy would have more than 'most' statements without it. NULL: no loop is written out, or
** memory is out. */
fl_kfunc *fl_kunroll(fl_karena *a, const fl_kfunc *f, int most);
#endif
