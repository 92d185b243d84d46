/* Between the files of autograd/: rules of ops that ops.def can not state in one line. */
#ifndef FL_AUTOGRAD_RULES_H
#define FL_AUTOGRAD_RULES_H
#include "autograd/autograd.h"

/* Is the gradient by input i asked for? A rule computes these and no others: the values that
** others read may be gone. */
static inline int fl_wants(const fl_node *y, int i) {
  return y->in[i] && y->in[i]->entry && y->entry->tracked >> (i < 31 ? i : 31) & 1;
}
/* The sum of two cotangents of one value. */
fl_node *fl_add_cotangents(fl_node *sum, fl_node *g);
/* A cotangent that waits for others of one value (late.c): a product a' g, where turned g' a, or
** (no a) the sum of g's rows. next: of the same value, -1: none. */
typedef struct fl_late {
  fl_node *a, *g;
  int32_t next;
  uint32_t site;
  uint8_t turned, back;
} fl_late;

/* The rule of a product but for its second factor; that factor's cotangent, or (turned) that
** of the matrix whose transpose it is. */
void fl_product_rule(fl_node *y, fl_node *g, fl_node **gin);
fl_node *fl_right_cotangent(fl_node *a, fl_node *g, fl_node *b, int turned);
fl_node *fl_as_rows(fl_node *x);            /* as a matrix of its last axis */
/* Zeros of a shape, in g's dtype and on its device. */
fl_node *fl_zeros_like(fl_node *g, const fl_layout *shape);
/* Views, gather, scatter, setslice, cat, matmul, custom. */
flame_status fl_rule_structural(fl_node *y, fl_node *g, fl_node **gin);

/* Named in ops.def. g has y's shape and dtype; broadcasting is undone by the walk. */
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
