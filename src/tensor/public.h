/* What the functions of flame.h that record nodes (public*.c) share. */
#ifndef FL_TENSOR_PUBLIC_H
#define FL_TENSOR_PUBLIC_H
#include "tensor/build.h"
#include "tensor/tensor.h"

/* Are all handles usable and of one context? If not, stores the error of the first that is not, in
** the context of the first handle. If a handle is NULL: 0 without a new error, since the function
** that should have made the handle has stored one. */
int fl_public_ready(const char *op, int n, flame_tensor *const *x);
/* A handle on n; ends the scope of the call. n NULL: NULL. */
flame_tensor *fl_public_result(flame_context *c, int64_t mark, fl_node *n);
flame_tensor *fl_public_view(flame_context *c, int64_t mark, fl_node *n, const char *made_by);
/* The axis counted from 0; -1 with an error if it does not exist. */
int fl_public_axis(flame_tensor *x, int axis, const char *op);
/* Writes the set of the axes, of all if naxes is 0, to *set. Returns 0 with an error. */
int fl_public_axes(flame_tensor *x, const char *op, int naxes, const int *axes, uint32_t *set);
/* Writes v as a value of dtype t to *out; 0 with an error if it does not fit. */
int fl_public_scalar(flame_context *c, double v, int t, const char *op, fl_scalar *out);
int fl_public_dtype(flame_context *c, int t, const char *op);
/* v as a value for a part of 'old', in its dtype; NULL if that is impossible. */
fl_node *fl_public_value(flame_context *c, const fl_node *old, fl_node *v, const char *op);

/* Ops of the op table, by number. */
flame_tensor *fl_public_unary(int op, flame_tensor *x);
flame_tensor *fl_public_binary(int op, flame_tensor *x, flame_tensor *y);
flame_tensor *fl_public_ternary(int op, flame_tensor *x, flame_tensor *y, flame_tensor *z);
flame_tensor *fl_public_reduce(int op, flame_tensor *x, int naxes, const int *axes, int keepdim);
#endif
