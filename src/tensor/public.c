/*
** The op functions of flame.h over the builders. Each is one public call: it enters the
** context (which may run a full window), builds, makes a handle and leaves; NULL in gives
** NULL out. Axes may be negative here and are resolved before a builder sees them. View
** functions give view handles, which refuse writes.
*/
#include "tensor/build.h"
#include "tensor/tensor.h"
#include <math.h>
#include <string.h>

/* ---- shared ------------------------------------------------------------------------ */

/* Handles that can be worked on, all of one context? Keeps the error of the first that is
** not, in the context of the first handle. NULL among them is silent: its error is already kept. */
static int ready(const char *op, int n, flame_tensor *const *x) {
  for (int i = 0; i < n; i++)
    if (!x[i]) return 0;
  for (int i = 0; i < n; i++) {
    if (x[i]->ctx != x[0]->ctx) {
      FL_FAIL(x[0]->ctx, FLAME_BAD_ARGUMENT, op, "operands of different contexts");
      return 0;
    }
    if (!fl_tensor_open(x[i], op)) return 0;
  }
  return 1;
}

static flame_tensor *result(flame_context *c, int64_t mark, fl_node *n) {
  flame_tensor *t = fl_tensor_new(c, n);
  fl_scope_end(c, mark);
  return t;
}

static flame_tensor *view_result(flame_context *c, int64_t mark, fl_node *n,
                                 const char *made_by) {
  flame_tensor *t = fl_tensor_new_view(c, n, made_by);
  fl_scope_end(c, mark);
  return t;
}

static int axis_of(flame_tensor *x, int axis, const char *op) {
  const int rank = x->node->shape->rank, k = axis < 0 ? axis + rank : axis;
  char buf[192];
  if (k >= 0 && k < rank) return k;
  FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op, "axis %d is out of range for shape %s", axis,
          fl_shape_text(buf, rank, x->node->shape->size));
  return -1;
}

/* Has the reduction a result? The builders count axes from 1 in what they say. */
static int reducible(flame_tensor *x, int op, uint32_t axes) {
  const fl_layout *shape = x->node->shape;
  const int k = fl_empty_axis(op, x->node, axes);
  char buf[192];
  if (k < 0) return 1;
  FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, fl_ops[op].name,
          "axis %d of shape %s is empty and has no %s", k,
          fl_shape_text(buf, shape->rank, shape->size), fl_ops[op].name);
  return 0;
}

static int op_of_form(flame_context *c, const char *name, fl_form form, const char *of) {
  const int op = fl_op_of_name(name);
  if (op >= 0 && fl_ops[op].form == (int)form) return op;
  FL_FAIL(c, FLAME_BAD_ARGUMENT, name, "there is no %s op of this name", of);
  return -1;
}

/* ---- making ------------------------------------------------------------------------ */

/* Does v belong to the integers of dtype t? */
static int in_range(double v, int t) {
  const int bits = 8 * fl_dtype_size(t);
  if (!(v == floor(v))) return 0;
  if (t == FLAME_BOOL) return v == 0 || v == 1;
  if (t == FLAME_U8) return v >= 0 && v <= 255;
  return v >= -ldexp(1, bits - 1) && v < ldexp(1, bits - 1);
}

static int scalar_of(flame_context *c, double v, int t, const char *op, fl_scalar *out) {
  if (fl_is_float(t)) {
    out->d = v;
    return 1;
  }
  if (in_range(v, t)) {
    out->i = (int64_t)v;
    return 1;
  }
  FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "%g does not fit in %s", v, fl_dtype_name(t));
  return 0;
}

static int known_dtype(flame_context *c, int t, const char *op) {
  if (t >= 0 && t < FLAME_DTYPE_COUNT) return 1;
  FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "there is no dtype %d", t);
  return 0;
}

flame_tensor *flame_full(flame_context *c, flame_dtype t, int ndim, const int64_t *shape,
                         double value) {
  FL_HOLD(c, NULL);
  fl_scalar v;
  if (!known_dtype(c, (int)t, "full")) return NULL;
  if (!scalar_of(c, value, (int)t, "full", &v)) return NULL;
  FL_ENTER(c);
  return result(c, fl_mark_, n_fill(c, (int)t, c->default_device, ndim, shape, v));
}

static flame_tensor *random_tensor(flame_context *c, int op, flame_dtype t, int ndim,
                                   const int64_t *shape, double a, double b) {
  FL_HOLD(c, NULL);
  if (!known_dtype(c, (int)t, fl_ops[op].name)) return NULL;
  FL_ENTER(c);
  fl_node *n = n_random(c, op, (int)t, c->default_device, ndim, shape, a, b);
  return result(c, fl_mark_, n);
}

flame_tensor *flame_uniform(flame_context *c, flame_dtype t, int ndim,
                            const int64_t *shape, double low, double high) {
  return random_tensor(c, FL_OP_uniform, t, ndim, shape, low, high);
}

flame_tensor *flame_normal(flame_context *c, flame_dtype t, int ndim,
                           const int64_t *shape, double mean, double deviation) {
  return random_tensor(c, FL_OP_normal, t, ndim, shape, mean, deviation);
}

/* A whole number counts as an integer: it leaves integer tensors what they are. */
flame_tensor *flame_number(flame_context *c, double v) {
  FL_HOLD(c, NULL);
  FL_ENTER(c);
  const int whole = v == floor(v) && fabs(v) <= ldexp(1, 53) && !(v == 0 && signbit(v));
  return result(c, fl_mark_, whole ? n_int(c, (int64_t)v) : n_num(c, v));
}

/* ---- ops by name ------------------------------------------------------------------- */

flame_tensor *flame_unary(const char *name, flame_tensor *x) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!ready(name, 1, &x)) return NULL;
  const int op = op_of_form(x->ctx, name, FL_FORM_UNARY, "unary");
  if (op < 0) return NULL;
  FL_ENTER(x->ctx);
  return result(x->ctx, fl_mark_, fl_build_unary(op, x->node));
}

flame_tensor *flame_binary(const char *name, flame_tensor *x, flame_tensor *y) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  flame_tensor *const all[] = {x, y};
  if (!ready(name, 2, all)) return NULL;
  const int op = op_of_form(x->ctx, name, FL_FORM_BINARY, "binary");
  if (op < 0) return NULL;
  FL_ENTER(x->ctx);
  return result(x->ctx, fl_mark_, fl_build_binary(op, x->node, y->node));
}

flame_tensor *flame_ternary(const char *name, flame_tensor *x, flame_tensor *y,
                            flame_tensor *z) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  flame_tensor *const all[] = {x, y, z};
  if (!ready(name, 3, all)) return NULL;
  const int op = op_of_form(x->ctx, name, FL_FORM_TERNARY, "ternary");
  if (op < 0) return NULL;
  FL_ENTER(x->ctx);
  return result(x->ctx, fl_mark_, fl_build_ternary(op, x->node, y->node, z->node));
}

/* naxes 0: all axes. "mean" is a composite and has its name here all the same. */
flame_tensor *flame_reduce(const char *name, flame_tensor *x, int naxes, const int *axes,
                           int keepdim) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!ready(name, 1, &x)) return NULL;
  const int mean = name && !strcmp(name, "mean");
  const int op = mean ? 0 : op_of_form(x->ctx, name, FL_FORM_REDUCE, "reduction");
  uint32_t set = naxes == 0 ? FL_ALL_AXES : 0;
  if (op < 0 || !fl_given(x->ctx, naxes < 0 ? NULL : axes, naxes, name, "axes")) return NULL;
  for (int i = 0; i < naxes; i++) {
    const int k = axis_of(x, axes[i], name);
    if (k < 0) return NULL;
    set |= 1u << k;
  }
  if (!mean && !reducible(x, op, set)) return NULL;
  FL_ENTER(x->ctx);
  fl_node *n = mean ? n_mean(x->node, set, keepdim)
                    : fl_build_reduce(op, x->node, set, keepdim);
  return result(x->ctx, fl_mark_, n);
}

flame_tensor *flame_exp(flame_tensor *x) { return flame_unary("exp", x); }
flame_tensor *flame_log(flame_tensor *x) { return flame_unary("log", x); }
flame_tensor *flame_tanh(flame_tensor *x) { return flame_unary("tanh", x); }
flame_tensor *flame_relu(flame_tensor *x) { return flame_unary("relu", x); }
flame_tensor *flame_add(flame_tensor *x, flame_tensor *y) {
  return flame_binary("add", x, y);
}

flame_tensor *flame_sub(flame_tensor *x, flame_tensor *y) {
  return flame_binary("sub", x, y);
}

flame_tensor *flame_mul(flame_tensor *x, flame_tensor *y) {
  return flame_binary("mul", x, y);
}

flame_tensor *flame_div(flame_tensor *x, flame_tensor *y) {
  return flame_binary("div", x, y);
}

flame_tensor *flame_sum_all(flame_tensor *x) {
  return flame_reduce("sum", x, 0, NULL, 0);
}

flame_tensor *flame_mean_all(flame_tensor *x) {
  return flame_reduce("mean", x, 0, NULL, 0);
}

flame_tensor *flame_softmax(flame_tensor *x, int axis) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!ready("softmax", 1, &x)) return NULL;
  const int k = axis_of(x, axis, "softmax");
  if (k < 0) return NULL;
  FL_ENTER(x->ctx);
  return result(x->ctx, fl_mark_, n_softmax(x->node, k));
}

flame_tensor *flame_matmul(flame_tensor *x, flame_tensor *y) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  flame_tensor *const all[] = {x, y};
  if (!ready("matmul", 2, all)) return NULL;
  FL_ENTER(x->ctx);
  return result(x->ctx, fl_mark_, n_matmul(x->node, y->node));
}

/* ---- views ------------------------------------------------------------------------- */

flame_tensor *flame_reshape(flame_tensor *x, int ndim, const int64_t *shape) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!ready("reshape", 1, &x)) return NULL;
  FL_ENTER(x->ctx);
  return view_result(x->ctx, fl_mark_, n_reshape(x->node, ndim, shape), "reshape");
}

flame_tensor *flame_permute(flame_tensor *x, const int *axes) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  int perm[FL_MAX_AXES];
  uint32_t seen = 0;
  if (!ready("permute", 1, &x) || !fl_given(x->ctx, axes, x->node->shape->rank, "permute", "axes"))
    return NULL;
  for (int i = 0; i < x->node->shape->rank; i++) {
    perm[i] = axis_of(x, axes[i], "permute");
    if (perm[i] < 0) return NULL;
    if (seen & (1u << perm[i])) {
      FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "permute", "axis %d is named twice", axes[i]);
      return NULL;
    }
    seen |= 1u << perm[i];
  }
  FL_ENTER(x->ctx);
  return view_result(x->ctx, fl_mark_, n_permute(x->node, perm), "permute");
}

flame_tensor *flame_slice(flame_tensor *x, int axis, int64_t first, int64_t count,
                          int64_t step) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!ready("slice", 1, &x)) return NULL;
  const int k = axis_of(x, axis, "slice");
  if (k < 0) return NULL;
  FL_ENTER(x->ctx);
  return view_result(x->ctx, fl_mark_, n_slice(x->node, k, first, count, step), "slice");
}

/* ---- separate values ----------------------------------------------------------- */

flame_tensor *flame_cast(flame_tensor *x, flame_dtype t) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!ready("cast", 1, &x) || !known_dtype(x->ctx, (int)t, "cast")) return NULL;
  FL_ENTER(x->ctx);
  return result(x->ctx, fl_mark_, n_cast(x->node, (int)t));
}

flame_tensor *flame_clone(flame_tensor *x) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!ready("clone", 1, &x)) return NULL;
  FL_ENTER(x->ctx);
  return result(x->ctx, fl_mark_, n_clone(x->node));
}

flame_tensor *flame_detach(flame_tensor *x) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!ready("detach", 1, &x)) return NULL;
  FL_ENTER(x->ctx);
  return result(x->ctx, fl_mark_, n_detach(x->node));
}

/* v as a value that x can become: a number fills, a tensor is cast to x's dtype. */
static fl_node *value_for(flame_tensor *x, fl_node *v) {
  flame_context *c = x->ctx;
  const fl_node *old = x->node;
  if (v->state == FL_NUMBER) {
    fl_scalar s;
    const double d = v->isint ? (double)v->scal[0].i : v->scal[0].d;
    if (!scalar_of(c, d, old->dtype, "write", &s)) return NULL;
    return n_fill(c, old->dtype, old->device, old->shape->rank, old->shape->size, s);
  }
  if (fl_is_float(v->dtype) && !fl_is_float(old->dtype)) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "write", "%s into a tensor of %s" FL_DO ": cast it first",
            fl_dtype_name(v->dtype), fl_dtype_name(old->dtype));
    return NULL;
  }
  return n_cast(v, old->dtype);
}

flame_status flame_write(flame_tensor *x, flame_tensor *v) {
  FL_HOLD(x ? x->ctx : NULL, FLAME_BAD_ARGUMENT);
  flame_tensor *const all[] = {x, v};
  if (!ready("write", 2, all))
    return x->ctx->err.code ? x->ctx->err.code : FLAME_BAD_ARGUMENT;
  FL_ENTER(x->ctx);
  fl_node *n = value_for(x, v->node);
  const flame_status e = n ? fl_tensor_write(x, n, "write") : x->ctx->err.code;
  FL_LEAVE(x->ctx);
  return e;
}
