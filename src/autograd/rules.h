/* Shared by the files of autograd/: rules of ops that ops.def can not state in one line. */
#ifndef FL_AUTOGRAD_RULES_H
#define FL_AUTOGRAD_RULES_H
#include "autograd/autograd.h"

/* Is the gradient with respect to input i needed? A rule computes only the needed ones: the values
** that the others read may have been freed. */
static inline int fl_wants(const fl_node *y, int i) {
  return y->in[i] && y->in[i]->entry && y->entry->tracked >> (i < 31 ? i : 31) & 1;
}
/* The sum of two cotangents of one value. */
fl_node *fl_add_cotangents(fl_node *sum, fl_node *g);
/* A cotangent that waits for others of the same value (late.c): a product a' g, or g' a if
** transposed, or the sum of g's rows if there is no a; or g, the cotangent of 'slice', a node that
** the walk holds. next: the next one of the same value; -1: none. site, back: those of the context
** when it came (fl_late_wait). */
enum { FL_LATE_STRAIGHT, FL_LATE_TURNED, FL_LATE_SLICE, FL_LATE_KINDS };
typedef struct fl_late {
  fl_node *a, *g, *slice;
  int32_t next;
  uint32_t site;
  uint8_t kind, back;
} fl_late;

/* For a product y = a b. fl_product_rule computes the cotangents of a and of a bias, not that of b.
** fl_right_cotangent is the cotangent of b or, with 'turned', of the matrix whose transpose is
** b. */
void fl_product_rule(fl_node *y, fl_node *g, fl_node **gin);
fl_node *fl_right_cotangent(fl_node *a, fl_node *g, fl_node *b, int turned);
fl_node *fl_as_rows(fl_node *x);            /* x (…, n) as a matrix (rows, n) */
/* Zeros of a shape, in g's dtype and on its device. */
fl_node *fl_zeros_like(fl_node *g, const fl_layout *shape);
/* Runs the rules of the SPECIAL ops of ops.def: casts, views, gather, scatter, matmul, and so
** on. */
flame_status fl_rule_structural(fl_node *y, fl_node *g, fl_node **gin);

/* Gradient functions that rules in ops.def call. g has y's shape and dtype; the walk undoes
** broadcasting. */
fl_node *fl_grad_pow_base(fl_node *g, fl_node *x1, fl_node *x2);
fl_node *fl_grad_pow_exponent(fl_node *g, fl_node *y, fl_node *x1, fl_node *x2);
fl_node *fl_grad_extreme(fl_node *g, fl_node *x, fl_node *other, fl_node *y);
fl_node *fl_grad_gelu_slope(fl_node *g, fl_node *x1, fl_node *x);
fl_node *fl_grad_clamp(fl_node *g, fl_node *x, fl_node *lo, fl_node *hi);
fl_node *fl_grad_spread(fl_node *y, fl_node *g);
fl_node *fl_grad_prod(fl_node *g, fl_node *x, fl_node *y);
fl_node *fl_grad_amax(fl_node *g, fl_node *x, fl_node *y);
fl_node *fl_grad_trigamma(fl_node *g, fl_node *x);
#endif
