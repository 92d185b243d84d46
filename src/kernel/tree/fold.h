/* Arithmetic on constants, as the kernel would do it at run time. */
#ifndef FL_KERNEL_FOLD_H
#define FL_KERNEL_FOLD_H
#include "kernel/tree/tree.h"

fl_kvalue fl_kfold_cast(fl_kvalue v, int from, int to);
/* 0: not folded, and *out has no meaning (the kernel computes it). type: of x, and of y, which for
** a shift is an I64 count instead. */
int fl_kfold_unary(int op, int type, fl_kvalue x, fl_kvalue *out);
int fl_kfold_binary(int op, int type, fl_kvalue x, fl_kvalue y, fl_kvalue *out);
#endif
