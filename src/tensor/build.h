/*
** Builders: functions that check operands by every shape, dtype and device rule of the library, and
** record a node of the graph. They return a node borrowed from the innermost scope
** (fl_scope_begin), or NULL with the error in the context; NULL in gives NULL out, so gradient
** rules are single expressions. They infer shape and dtype, insert casts, record, and, when the
** grad mode is on and an input is tracked, attach an entry of the tape (fl_entry_attach). A view of
** a view refers to the same base; a reshape that strides can not express records a copy first. 'op'
** names in messages are those of the public function.
*/
#ifndef FL_TENSOR_BUILD_H
#define FL_TENSOR_BUILD_H
#include "tensor/context.h"
#include "tensor/entry.h"

/* Returns 1 if the caller gave the list of n sizes or axes, else 0 with an error about 'what'. */
int fl_given(flame_context *c, const void *list, int n, const char *op, const char *what);

/* Numbers: not rounded to any dtype before use; as operands they are stored in the node (scal). */
fl_node *n_num(flame_context *c, double v);
fl_node *n_int(flame_context *c, int64_t v);

fl_node *fl_build_unary(int op, fl_node *x);
fl_node *fl_build_binary(int op, fl_node *x1, fl_node *x2);
/* x op v, or with 'first' v op x, for a number v: v.i if 'isint', else v.d. In common cases no node
** is made for v, as n_num and n_int would. */
fl_node *fl_build_number(int op, fl_node *x, int isint, fl_scalar v, int first);
static inline fl_node *n_mul_num(fl_node *x, double v) {
  return fl_build_number(FL_OP_mul, x, 0, (fl_scalar){ .d = v }, 0);
}
static inline fl_node *n_add_num(fl_node *x, double v) {
  return fl_build_number(FL_OP_add, x, 0, (fl_scalar){ .d = v }, 0);
}
fl_node *fl_build_ternary(int op, fl_node *x1, fl_node *x2, fl_node *x3);
/* axes: a bit for each axis of x; ~0u: all axes. keepdim 0 drops the reduced axes by a reshape
** view. Without axes the result is x in the result's dtype or, of argmax and argmin, all 1. */
fl_node *fl_build_reduce(int op, fl_node *x, uint32_t axes, int keepdim);
/* The first of the axes whose length 0 leaves the reduction 'op' without a result; -1: none. */
int fl_empty_axis(int op, const fl_node *x, uint32_t axes);

#define UNARY(name, kind, value, grad, domain, doc) \
  static inline fl_node *n_##name(fl_node *x) { return fl_build_unary(FL_OP_##name, x); }
#define BINARY(name, kind, value, g1, g2, domain, doc) \
  static inline fl_node *n_##name(fl_node *a, fl_node *b) { \
    return fl_build_binary(FL_OP_##name, a, b); \
  }
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) \
  static inline fl_node *n_##name(fl_node *a, fl_node *b, fl_node *d) { \
    return fl_build_ternary(FL_OP_##name, a, b, d); \
  }
#define REDUCE(name, kind, init, value, grad, doc) \
  static inline fl_node *n_##name(fl_node *x, uint32_t axes, int keepdim) { \
    return fl_build_reduce(FL_OP_##name, x, axes, keepdim); \
  }
#define SPECIAL(...)
#include "tensor/ops.def"

/* Generators. Sizes are at least 0; values are in .d for float dtypes, else in .i. */
fl_node *n_fill(flame_context *c, int dtype, int device, int rank, const int64_t *size,
                fl_scalar v);
fl_node *n_iota(flame_context *c, int dtype, int device, int rank, const int64_t *size,
                fl_scalar first, fl_scalar step);
/* op: FL_OP_uniform (a = low, b = high), FL_OP_normal (mean, deviation),
** FL_OP_randint (low, high incl.) */
fl_node *n_random(flame_context *c, int op, int dtype, int device, int rank, const int64_t *size,
                  double a, double b);
fl_node *n_randint(flame_context *c, int dtype, int device, int rank, const int64_t *size,
                   int64_t low, int64_t high);

/* The key for a call that draws 'words' random words itself, two i64: the first counter and the
** seed. Reserves as many counters as a random node of so many words would. */
fl_node *n_draw_key(flame_context *c, int device, int64_t words);
/* The numbers, f32 in [0, 1), that a call draws with such a key: for gradients by ordinary ops. */
fl_node *n_drawn(flame_context *c, int device, int rank, const int64_t *size, int64_t base,
                 int64_t seed);

fl_node *n_cast(fl_node *x, int dtype);              /* x itself when it has the dtype */
/* The values of y in the half dtype from which y was cast; NULL: y is no such cast. The answer is
** the same before and after y is computed. */
fl_node *n_narrowed(fl_node *y);
fl_node *n_copy(fl_node *x);                         /* a new node with the same value */
/* x as a separate, row-major value. Memory is shared until one of the two is written; a part of a
** larger value is copied, so that a clone of one row does not keep all rows. */
fl_node *n_clone(fl_node *x);
/* The bytes of x, row-major, as elements of another dtype; the size of the last axis changes
** accordingly. */
fl_node *n_bits(fl_node *x, int dtype);
fl_node *n_contiguous(fl_node *x);          /* x itself if its elements are row-major without gaps,
                                            ** else a copy of it */

/* Views. 0-based axes; negative axes are resolved by the caller. */
fl_node *n_reshape(fl_node *x, int rank, const int64_t *size);      /* one -1 allowed */
fl_node *n_permute(fl_node *x, const int *perm);
fl_node *n_transpose(fl_node *x, int a, int b);
/* step < 0: from first downwards */
fl_node *n_slice(fl_node *x, int axis, int64_t first, int64_t count, int64_t step);
fl_node *n_select(fl_node *x, int axis, int64_t i);                 /* drops the axis */
fl_node *n_expand(fl_node *x, int rank, const int64_t *size);       /* broadcast to */
fl_node *n_squeeze(fl_node *x, int axis);                           /* axis -1: all of size 1 */
fl_node *n_unsqueeze(fl_node *x, int axis);
fl_node *n_alias(fl_node *x);                                    /* same value, separate identity */
fl_node *n_detach(fl_node *x);                                    /* alias without entry */
fl_node *n_strided(fl_node *x, int rank, const int64_t *size, const int64_t *stride,
                   int64_t offset);

/* Joining, writing and indexing. */
fl_node *n_cat(flame_context *c, int n, fl_node *const *x, int axis);
fl_node *n_stack(flame_context *c, int n, fl_node *const *x, int axis);
/* per axis; constant mode */
fl_node *n_pad(fl_node *x, const int64_t *before, const int64_t *after, double value);
/* x with the box start/step/count (per axis of x) replaced by v, broadcast to the box and cast */
fl_node *n_setslice(fl_node *x, const int64_t *start, const int64_t *step, const int64_t *count,
                    fl_node *v);
/* The hint that is added to an error about an index tensor of this dtype; "" unless the dtype is a
** float. */
const char *fl_index_hint(int dtype);
/* Converts 1-based positions (any integer dtype) to checked 0-based i64 positions below n */
fl_node *n_index(fl_node *idx, int64_t n, int flags, const char *what);
/* Gather along one axis. idx: from n_index.
** n_take_axis: result = x.shape[0..axis) + idx.shape + x.shape(axis..]: index_select, embedding,
** x[idx]. n_gather_axis: idx has x's rank and is the result's shape (torch.gather). */
fl_node *n_take_axis(fl_node *x, int axis, fl_node *idx);
fl_node *n_gather_axis(fl_node *x, int axis, fl_node *idx);
/* The adjoints of n_take_axis and n_gather_axis: a copy of x with src stored, or added, at the
** indices, in row-major order of src, so that the last store wins and sums have a fixed order. */
/* idx has the shape of src (torch.scatter) */
fl_node *n_scatter_axis(fl_node *x, int axis, fl_node *idx, fl_node *src, int add);
/* src has the shape of n_take_axis' result (index_add, index_copy) */
fl_node *n_put_axis(fl_node *x, int axis, fl_node *idx, fl_node *src, int add);

/* Products: vectors, matrices, batches with broadcasting, as torch.matmul. */
fl_node *n_matmul(fl_node *a, fl_node *b);
/* n_matmul of operands of a half type with at least two axes; bias (n) is added before rounding. */
fl_node *n_matmul_bias(fl_node *a, fl_node *b, fl_node *bias);

/* The product of a and b, at least two axes each, plus an array x of its shape; all f32
** (torch.addmm, baddbmm). */
fl_node *n_matmul_add(fl_node *a, fl_node *b, fl_node *x);
/* p + x, where one of the two is used nowhere else. On a GPU, if one is a large product of f32 that
** is not computed yet, the other becomes its third operand (n_matmul_add): the same bits, and one
** pass over memory less. */
fl_node *n_add_fused(fl_node *p, fl_node *x);

/* Composites of the functions above, which fuse. Axes count from 0. */
fl_node *n_mean(fl_node *x, uint32_t axes, int keepdim);
fl_node *n_var(fl_node *x, uint32_t axes, double correction, int keepdim);
fl_node *n_root(fl_node *x);                          /* sqrt whose gradient at 0 is 0, of x >= 0 */
fl_node *n_logsumexp(fl_node *x, uint32_t axes, int keepdim);
fl_node *n_softmax(fl_node *x, int axis);
/* Is y the tracked result of a softmax along this axis? */
int fl_is_softmax(const fl_node *y, int axis);
fl_node *n_log_softmax(fl_node *x, int axis);
/* normalises over the last naxes axes; w, b: fl_none if absent */
fl_node *n_layer_norm(fl_node *x, int naxes, fl_node *w, fl_node *b, double eps);
/* channels are axis 1; w, b: one number per channel, or fl_none */
fl_node *n_group_norm(fl_node *x, int64_t groups, fl_node *w, fl_node *b, double eps);
/* piecewise.c: of a float x; hardtanh between a and b, leaky_relu with slope
** a, the others without numbers. */
enum { FL_HARDTANH, FL_LEAKY_RELU, FL_HARDSIGMOID, FL_HARDSWISH };
fl_node *n_piecewise(int kind, fl_node *x, double a, double b);
/* (x - mean) / sqrt(variance + eps) w + b over 'axes', computed at least in f32; all have
** floating-point dtypes; w and b may be fl_none, otherwise they broadcast to x. */
fl_node *n_normalise(fl_node *x, uint32_t axes, double eps, fl_node *w, fl_node *b);
fl_node *n_gelu(fl_node *x, int tanh_form);
fl_node *n_silu(fl_node *x);
fl_node *n_linear(fl_node *x, fl_node *w, fl_node *b);            /* w (out, in); b may be absent */
fl_node *n_embedding(fl_node *ids, fl_node *w);                   /* ids 1-based */
/* input (n, classes, …); target ids 1-based (n, …) or probabilities; weight may be absent.
** reduction: 0 none, 1 mean, 2 sum. ignore: the label that is ignored (-100). */
fl_node *n_cross_entropy(fl_node *input, fl_node *target, fl_node *weight, int reduction,
                         int64_t ignore, double smoothing);
/* softmax(scale q k' + mask) v of q (b, h, t, d), k (b, hk, s, d), v (b, hk, s, d2), all sizes 1 or
** more; mask: bool (true: the key is used) or of q's dtype, broadcast to (b, h, t, s), untracked,
** or fl_none. p: the probability with which a dropout sets an element of the softmax to 0, by the
** numbers that n_dropout draws. */
fl_node *n_attention(fl_node *q, fl_node *k, fl_node *v, fl_node *mask, double scale, int causal,
                     double p);
/* Attention like n_attention, without a mask, for heads in the rows of x (b, t, h + 2 hk, d): q, k
** and v side by side; scale > 0. The result is (b, t, h, d); the gradient is one array with the
** layout of x. */
fl_node *n_attention_rows(fl_node *x, int64_t h, int64_t hk, double scale, int causal, double p);
fl_node *n_truncdiv(fl_node *x, fl_node *y);              /* x / y towards 0; of integers exact */
fl_node *n_dropout(fl_node *x, double p);                 /* training form: scales by 1 / (1 - p) */
/* keeps the lower (upper: the upper) triangle of the last two axes */
fl_node *n_tril(fl_node *x, int64_t k, int upper);

/* 'value', which is not differentiated through, with a gradient that 'custom', a function of the
** script, computes with respect to the n nodes in[], the function's inputs. 'which': the number of
** this result among the function's results. The result's entry on the tape takes a reference of
** custom; the caller keeps its own. */
fl_node *n_custom(fl_node *value, int n, fl_node *const *in, struct fl_custom *custom, int which);
/* n_custom with a rule of the library; 'arg' is released with the result's entry of the tape,
** or now if it gets none. */
fl_node *n_ruled(fl_node *value, int n, fl_node *const *in, fl_rule_fn *backward,
                 void (*release)(void *arg), void *arg);
/* x[start + i * step], i < count, on every axis at once; bit a of 'drop': axis a (count 1) is
** dropped. */
fl_node *n_box(fl_node *x, const int64_t *start, const int64_t *step, const int64_t *count,
               uint32_t drop);

/* Stands for an omitted optional operand, since NULL means that an error happened. */
extern fl_node fl_none;

/* Shared helpers of the gradient rules. */
fl_node *fl_sum_to(fl_node *g, const fl_layout *shape);               /* undoes broadcasting */
#define FL_ALL_AXES (~0u)
#endif
