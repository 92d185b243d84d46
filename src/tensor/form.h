/*
** Sums of products of slices, as one node: op 'form'. Its inputs have an axis of components, and
** so has the result; component k of the result is a sum of products of components of the inputs:
**
**   r[k] = sum over groups of sign * (sum over terms of sign * x[i] y[j] …) * w[at]
**
** with signs 1 and -1. The other axes broadcast. The list of groups is the form's code: integers
** that the planner turns into ordinary operations (plan/form.c), in one kernel for all components
** if they fit. A form has no gradient rule of the op table: its gradients are forms that its
** builder makes.
**
** Code: factors, last, components; then for each component the index in the code at which its
** groups begin; at that index: the number of groups, and for each group its sign, its component of
** the last input (NONE if the form has last = 0), the number of terms, and for each term its sign
** and a component of each factor, or NONE. A component without groups is 0.
*/
#ifndef FL_TENSOR_FORM_H
#define FL_TENSOR_FORM_H
#include "tensor/node.h"

enum { FL_FORM_INPUTS = 4, FL_FORM_NONE = -1, FL_FORM_HEAD = 3,
       FL_FORM_READS = 80 };    /* most components of inputs that a component of the result reads */

typedef struct fl_form_code {
  int32_t n;                     /* of code */
  int32_t cost, reads;       /* largest numbers of operations, and of slices read, of a component */
  int16_t code[];
} fl_form_code;

static inline int fl_form_components(const fl_form_code *f) { return f->code[2]; }
static inline int fl_form_has_last(const fl_form_code *f) { return f->code[1]; }
static inline int fl_form_factors(const fl_form_code *f) { return f->code[0]; }
static inline const int16_t *fl_form_groups(const fl_form_code *f, int component) {
  return f->code + f->code[FL_FORM_HEAD + component];
}
void fl_form_free(struct flame_context *c, fl_form_code *f);

/* code: n integers of two bytes. Inputs of one float dtype and device, as many as the code says
** (factors, then the last), of one rank, with components along 'axis'. NULL with the error in the
** context: also for a code that does not fit them. 'what' names the op in messages. */
fl_node *n_form(struct flame_context *c, const char *what, int axis, int nin, fl_node *const *in,
                const void *code, int n);
/* The sums of x over 'axes' for each position along 'axis', joined: x is not stored as a whole. */
fl_node *n_sum_parts(fl_node *x, int axis, uint32_t axes);
#endif
