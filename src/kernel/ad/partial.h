/* Derivatives of the functions of builtins.def, as trees. */
#ifndef FL_KERNEL_PARTIAL_H
#define FL_KERNEL_PARTIAL_H
#include "kernel/tree/tree.h"

/* The derivative of call 'c' (CALL node) with respect to operand i, as an expression of c->type (a
** 0 of F32 if that is an integer type). 'r' is the value of the call (NULL: the call is repeated).
** NULL with arena->failed unset: there is no derivative (refuse). A constant 0: the function is
** piecewise constant in that operand. Operands may appear several times in the result, so they
** should be constants or variables. */
fl_kexpr *fl_kbuiltin_partial(fl_karena *a, const fl_kexpr *c, int i, fl_kexpr *r);
#endif
