/*
** The functions of flame.h that record nodes: numbers, ops by name and separate values; shapes are
** in public_shape.c, layers in public_layers.c. Each is one public call: it enters the context
** (which may evaluate what was recorded), records, makes a handle and leaves; NULL in gives NULL
** out. Axes may be negative here and are resolved before the functions of build.h see them. View
** functions give view handles, which refuse writes.
*/
#include "tensor/public.h"
#include <math.h>
#include <string.h>

/* ---- shared ------------------------------------------------------------------------ */

/* Are all handles usable and of one context? If not, stores the error of the first that is not, in
** the context of the first handle. If a handle is NULL: 0 without a new error, since the function
** that should have made the handle has stored one. */
int fl_public_ready(const char *op, int n, flame_tensor *const *x) {
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

flame_tensor *fl_public_result(flame_context *c, int64_t mark, fl_node *n) {
  flame_tensor *t = fl_tensor_new(c, n);
  fl_scope_end(c, mark);
  return t;
}

flame_tensor *fl_public_view(flame_context *c, int64_t mark, fl_node *n,
                             const char *made_by) {
  flame_tensor *t = fl_tensor_new_view(c, n, made_by);
  fl_scope_end(c, mark);
  return t;
}

int fl_public_axis(flame_tensor *x, int axis, const char *op) {
  const int rank = x->node->shape->rank, k = axis < 0 ? axis + rank : axis;
  char buf[192];
  if (k >= 0 && k < rank) return k;
  FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op, "axis %d is out of range for shape %s", axis,
          fl_shape_text(buf, rank, x->node->shape->size));
  return -1;
}

static int op_of_form(flame_context *c, const char *name, fl_form form, const char *of) {
  const int op = fl_op_of_name(name);
  if (op >= 0 && fl_ops[op].form == (int)form) return op;
  FL_FAIL(c, FLAME_BAD_ARGUMENT, name, "there is no %s op of this name", of);
  return -1;
}

/* ---- dtypes ------------------------------------------------------------------------ */

const char *flame_dtype_name(flame_dtype t) {
  return (int)t >= 0 && t < FLAME_DTYPE_COUNT ? fl_dtype_name((int)t) : "";
}

size_t flame_dtype_size(flame_dtype t) {
  return (int)t >= 0 && t < FLAME_DTYPE_COUNT ? (size_t)fl_dtype_size((int)t) : 0;
}

/* ---- making ------------------------------------------------------------------------ */

/* Is v an integer in the range of the integer dtype t? */
static int in_range(double v, int t) {
  const int bits = 8 * fl_dtype_size(t);
  if (!(v == floor(v))) return 0;
  if (t == FLAME_BOOL) return v == 0 || v == 1;
  if (t == FLAME_U8) return v >= 0 && v <= 255;
  return v >= -ldexp(1, bits - 1) && v < ldexp(1, bits - 1);
}

int fl_public_scalar(flame_context *c, double v, int t, const char *op, fl_scalar *out) {
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

int fl_public_dtype(flame_context *c, int t, const char *op) {
  if (t >= 0 && t < FLAME_DTYPE_COUNT) return 1;
  FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "there is no dtype %d", t);
  return 0;
}

flame_tensor *flame_full(flame_context *c, flame_dtype t, int ndim, const int64_t *shape,
                         double value) {
  FL_HOLD(c, NULL);
  fl_scalar v;
  if (!fl_public_dtype(c, (int)t, "full")) return NULL;
  if (!fl_public_scalar(c, value, (int)t, "full", &v)) return NULL;
  FL_ENTER(c);
  return fl_public_result(c, fl_mark_, n_fill(c, (int)t, c->default_device, ndim, shape, v));
}

static flame_tensor *random_tensor(flame_context *c, int op, flame_dtype t, int ndim,
                                   const int64_t *shape, double a, double b) {
  FL_HOLD(c, NULL);
  if (!fl_public_dtype(c, (int)t, fl_ops[op].name)) return NULL;
  FL_ENTER(c);
  fl_node *n = n_random(c, op, (int)t, c->default_device, ndim, shape, a, b);
  return fl_public_result(c, fl_mark_, n);
}

flame_tensor *flame_uniform(flame_context *c, flame_dtype t, int ndim,
                            const int64_t *shape, double low, double high) {
  return random_tensor(c, FL_OP_uniform, t, ndim, shape, low, high);
}

flame_tensor *flame_normal(flame_context *c, flame_dtype t, int ndim,
                           const int64_t *shape, double mean, double deviation) {
  return random_tensor(c, FL_OP_normal, t, ndim, shape, mean, deviation);
}

/* A number without a fraction becomes an integer, so that integer tensors combined with it keep
** their dtype. */
flame_tensor *flame_number(flame_context *c, double v) {
  FL_HOLD(c, NULL);
  FL_ENTER(c);
  const int whole = v == floor(v) && fabs(v) <= ldexp(1, 53) && !(v == 0 && signbit(v));
  return fl_public_result(c, fl_mark_, whole ? n_int(c, (int64_t)v) : n_num(c, v));
}

/* ---- ops by name ------------------------------------------------------------------- */

flame_tensor *fl_public_unary(int op, flame_tensor *x) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready(fl_ops[op].name, 1, &x)) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, fl_build_unary(op, x->node));
}

flame_tensor *fl_public_binary(int op, flame_tensor *x, flame_tensor *y) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  flame_tensor *const all[] = {x, y};
  if (!fl_public_ready(fl_ops[op].name, 2, all)) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, fl_build_binary(op, x->node, y->node));
}

flame_tensor *fl_public_ternary(int op, flame_tensor *x, flame_tensor *y, flame_tensor *z) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  flame_tensor *const all[] = {x, y, z};
  if (!fl_public_ready(fl_ops[op].name, 3, all)) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, fl_build_ternary(op, x->node, y->node, z->node));
}

int fl_public_axes(flame_tensor *x, const char *op, int naxes, const int *axes, uint32_t *set) {
  if (!fl_given(x->ctx, naxes < 0 ? NULL : axes, naxes, op, "axes")) return 0;
  *set = naxes == 0 ? FL_ALL_AXES : 0;
  for (int i = 0; i < naxes; i++) {
    const int k = fl_public_axis(x, axes[i], op);
    if (k < 0) return 0;
    if (*set >> k & 1) {
      FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op, "axis %d is named twice", axes[i]);
      return 0;
    }
    *set |= 1u << k;
  }
  return 1;
}

flame_tensor *fl_public_reduce(int op, flame_tensor *x, int naxes, const int *axes, int keepdim) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  uint32_t set;
  if (!fl_public_ready(fl_ops[op].name, 1, &x)) return NULL;
  if (!fl_public_axes(x, fl_ops[op].name, naxes, axes, &set)) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, fl_build_reduce(op, x->node, set, keepdim));
}

flame_tensor *flame_unary(const char *name, flame_tensor *x) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready(name, 1, &x)) return NULL;
  const int op = op_of_form(x->ctx, name, FL_FORM_UNARY, "unary");
  return op < 0 ? NULL : fl_public_unary(op, x);
}

flame_tensor *flame_binary(const char *name, flame_tensor *x, flame_tensor *y) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  flame_tensor *const all[] = {x, y};
  if (!fl_public_ready(name, 2, all)) return NULL;
  const int op = op_of_form(x->ctx, name, FL_FORM_BINARY, "binary");
  return op < 0 ? NULL : fl_public_binary(op, x, y);
}

flame_tensor *flame_ternary(const char *name, flame_tensor *x, flame_tensor *y,
                            flame_tensor *z) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  flame_tensor *const all[] = {x, y, z};
  if (!fl_public_ready(name, 3, all)) return NULL;
  const int op = op_of_form(x->ctx, name, FL_FORM_TERNARY, "ternary");
  return op < 0 ? NULL : fl_public_ternary(op, x, y, z);
}

/* naxes 0: all axes. The name may also be "mean", although that is a composite. */
flame_tensor *flame_reduce(const char *name, flame_tensor *x, int naxes, const int *axes,
                           int keepdim) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready(name, 1, &x)) return NULL;
  if (name && !strcmp(name, "mean")) return flame_mean(x, naxes, axes, keepdim);
  const int op = op_of_form(x->ctx, name, FL_FORM_REDUCE, "reduction");
  return op < 0 ? NULL : fl_public_reduce(op, x, naxes, axes, keepdim);
}

flame_tensor *flame_sum_all(flame_tensor *x) { return flame_sum(x, 0, NULL, 0); }
flame_tensor *flame_mean_all(flame_tensor *x) { return flame_mean(x, 0, NULL, 0); }

/* ---- separate values ----------------------------------------------------------- */

flame_tensor *flame_cast(flame_tensor *x, flame_dtype t) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready("cast", 1, &x) || !fl_public_dtype(x->ctx, (int)t, "cast")) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, n_cast(x->node, (int)t));
}

flame_tensor *flame_clone(flame_tensor *x) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready("clone", 1, &x)) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, n_clone(x->node));
}

flame_tensor *flame_detach(flame_tensor *x) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready("detach", 1, &x)) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, n_detach(x->node));
}

fl_node *fl_public_value(flame_context *c, const fl_node *old, fl_node *v, const char *op) {
  if (v->state == FL_NUMBER) {
    fl_scalar s;
    const double d = v->isint ? (double)v->scal[0].i : v->scal[0].d;
    if (!fl_public_scalar(c, d, old->dtype, op, &s)) return NULL;
    return n_fill(c, old->dtype, old->device, 0, NULL, s);
  }
  if (fl_is_float(v->dtype) && !fl_is_float(old->dtype)) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "%s into a tensor of %s" FL_DO ": cast it first",
            fl_dtype_name(v->dtype), fl_dtype_name(old->dtype));
    return NULL;
  }
  return n_cast(v, old->dtype);
}

/* v as a value for x: a number is expanded, a tensor is cast to x's dtype. */
static fl_node *value_for(flame_tensor *x, fl_node *v) {
  const fl_layout *shape = x->node->shape;
  fl_node *n = fl_public_value(x->ctx, x->node, v, "write");
  return v->state == FL_NUMBER && n ? n_expand(n, shape->rank, shape->size) : n;
}

flame_status flame_write(flame_tensor *x, flame_tensor *v) {
  FL_HOLD(x ? x->ctx : NULL, FLAME_BAD_ARGUMENT);
  flame_tensor *const all[] = {x, v};
  if (!fl_public_ready("write", 2, all))
    return x->ctx->err.code ? x->ctx->err.code : FLAME_BAD_ARGUMENT;
  FL_ENTER(x->ctx);
  fl_node *n = value_for(x, v->node);
  const flame_status e = n ? fl_tensor_write(x, n, "write") : x->ctx->err.code;
  FL_LEAVE(x->ctx);
  return e;
}
