/*
** The functions of flame.h that join, view, index and write parts. Positions of a single element
** count from 0, the values inside index tensors from 1; negative ones count from the end.
*/
#include "tensor/public.h"
#include <math.h>
#include <string.h>

/* ---- making -------------------------------------------------------------------------------- */

flame_tensor *flame_arange(flame_context *c, flame_dtype t, double first, double step, int64_t n) {
  FL_HOLD(c, NULL);
  fl_scalar a, b;
  if (!fl_public_dtype(c, (int)t, "arange") || !fl_public_scalar(c, first, (int)t, "arange", &a) ||
      !fl_public_scalar(c, step, (int)t, "arange", &b)) return NULL;
  FL_ENTER(c);
  return fl_public_result(c, fl_mark_, n_iota(c, (int)t, c->default_device, 1, &n, a, b));
}

flame_tensor *flame_randint(flame_context *c, flame_dtype t, int ndim, const int64_t *shape,
                            int64_t low, int64_t high) {
  FL_HOLD(c, NULL);
  if (!fl_public_dtype(c, (int)t, "randint")) return NULL;
  FL_ENTER(c);
  fl_node *n = n_randint(c, (int)t, c->default_device, ndim, shape, low, high);
  return fl_public_result(c, fl_mark_, n);
}

/* ---- joining ------------------------------------------------------------------------------- */

typedef fl_node *joins(flame_context *c, int n, fl_node *const *x, int axis);

/* Joins n tensors by 'build'. room: how many axes the result has in addition to theirs. */
static flame_tensor *join(flame_context *c, int n, flame_tensor *const *x, int axis,
                          const char *op, joins *build, int room) {
  FL_HOLD(c, NULL);
  if (n < 1) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "no tensors are given");
    return NULL;
  }
  if (!fl_given(c, x, n, op, "tensors") || !fl_public_ready(op, n, x)) return NULL;
  if (x[0]->ctx != c) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "operands of different contexts");
    return NULL;
  }
  fl_node **in = fl_alloc(&c->mem, (size_t)n * sizeof *in);
  if (!in) {
    FL_FAIL(c, FLAME_NO_MEMORY, op, "host memory is out");
    return NULL;
  }
  FL_ENTER(c);
  for (int i = 0; i < n; i++) in[i] = x[i]->node;
  const int rank = in[0]->shape->rank + room;
  flame_tensor *y = fl_public_result(c, fl_mark_,
                                     build(c, n, in, axis < 0 ? axis + rank : axis));
  fl_free(&c->mem, in, (size_t)n * sizeof *in);
  return y;
}

flame_tensor *flame_cat(flame_context *c, int n, flame_tensor *const *x, int axis) {
  return join(c, n, x, axis, "cat", n_cat, 0);
}

flame_tensor *flame_stack(flame_context *c, int n, flame_tensor *const *x, int axis) {
  return join(c, n, x, axis, "stack", n_stack, 1);
}

flame_tensor *flame_pad(flame_tensor *x, const int64_t *before, const int64_t *after,
                        double value) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  fl_scalar v;
  if (!fl_public_ready("pad", 1, &x)) return NULL;
  const int rank = x->node->shape->rank;
  if (!fl_given(x->ctx, before, rank, "pad", "sizes before") ||
      !fl_given(x->ctx, after, rank, "pad", "sizes after") ||
      !fl_public_scalar(x->ctx, value, x->node->dtype, "pad", &v)) return NULL;
  for (int k = 0; k < rank; k++) {
    const __int128_t n = (__int128_t)before[k] + x->node->shape->size[k] + after[k];
    if (n >= 0 && n <= INT64_MAX) continue;
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "pad", "axis %d would have %s", k,
            n < 0 ? "fewer than no elements" : "too many elements");
    return NULL;
  }
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, n_pad(x->node, before, after, value));
}

/* ---- views --------------------------------------------------------------------------------- */

flame_tensor *flame_reshape(flame_tensor *x, int ndim, const int64_t *shape) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready("reshape", 1, &x)) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_view(x->ctx, fl_mark_, n_reshape(x->node, ndim, shape), "reshape");
}

flame_tensor *flame_permute(flame_tensor *x, const int *axes) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  int perm[FL_MAX_AXES];
  uint32_t seen = 0;
  if (!fl_public_ready("permute", 1, &x) ||
      !fl_given(x->ctx, axes, x->node->shape->rank, "permute", "axes")) return NULL;
  for (int i = 0; i < x->node->shape->rank; i++) {
    perm[i] = fl_public_axis(x, axes[i], "permute");
    if (perm[i] < 0) return NULL;
    if (seen & (1u << perm[i])) {
      FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "permute", "axis %d is named twice", axes[i]);
      return NULL;
    }
    seen |= 1u << perm[i];
  }
  FL_ENTER(x->ctx);
  return fl_public_view(x->ctx, fl_mark_, n_permute(x->node, perm), "permute");
}

flame_tensor *flame_transpose(flame_tensor *x, int axis1, int axis2) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready("transpose", 1, &x)) return NULL;
  const int a = fl_public_axis(x, axis1, "transpose");
  const int b = a < 0 ? -1 : fl_public_axis(x, axis2, "transpose");
  if (b < 0) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_view(x->ctx, fl_mark_, n_transpose(x->node, a, b), "transpose");
}

flame_tensor *flame_slice(flame_tensor *x, int axis, int64_t first, int64_t count, int64_t step) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready("slice", 1, &x)) return NULL;
  const int k = fl_public_axis(x, axis, "slice");
  if (k < 0) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_view(x->ctx, fl_mark_, n_slice(x->node, k, first, count, step), "slice");
}

/* A position on the axis, counted from 0; the builder reports one that does not exist. */
static int64_t position_of(const flame_tensor *x, int axis, int64_t i) {
  return i < 0 ? i + x->node->shape->size[axis] : i;
}

flame_tensor *flame_select(flame_tensor *x, int axis, int64_t i) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready("select", 1, &x)) return NULL;
  const int k = fl_public_axis(x, axis, "select");
  if (k < 0) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_view(x->ctx, fl_mark_, n_select(x->node, k, position_of(x, k, i)), "select");
}

flame_tensor *flame_expand(flame_tensor *x, int ndim, const int64_t *shape) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready("expand", 1, &x) || !fl_given(x->ctx, shape, ndim, "expand", "sizes"))
    return NULL;
  FL_ENTER(x->ctx);
  return fl_public_view(x->ctx, fl_mark_, n_expand(x->node, ndim, shape), "expand");
}

flame_tensor *flame_squeeze(flame_tensor *x, int axis) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready("squeeze", 1, &x)) return NULL;
  const int k = fl_public_axis(x, axis, "squeeze");
  if (k < 0) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_view(x->ctx, fl_mark_, n_squeeze(x->node, k), "squeeze");
}

flame_tensor *flame_unsqueeze(flame_tensor *x, int axis) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready("unsqueeze", 1, &x)) return NULL;
  FL_ENTER(x->ctx);
  const int rank = x->node->shape->rank, k = axis < 0 ? axis + rank + 1 : axis;
  return fl_public_view(x->ctx, fl_mark_, n_unsqueeze(x->node, k), "unsqueeze");
}

/* ---- indexing ------------------------------------------------------------------------------ */

/* The positions in idx along axis k of x, as an index that is checked when it is computed. */
static fl_node *positions(flame_tensor *x, int k, flame_tensor *idx, const char *op) {
  return n_index(idx->node, x->node->shape->size[k], FL_INDEX_NEGATIVE, op);
}

typedef fl_node *takes(fl_node *x, int axis, fl_node *idx);

static flame_tensor *take(flame_tensor *x, int axis, flame_tensor *idx, const char *op,
                          takes *build) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  flame_tensor *const all[] = {x, idx};
  if (!fl_public_ready(op, 2, all)) return NULL;
  const int k = fl_public_axis(x, axis, op);
  if (k < 0) return NULL;
  FL_ENTER(x->ctx);
  fl_node *at = positions(x, k, idx, op);
  return fl_public_result(x->ctx, fl_mark_, at ? build(x->node, k, at) : NULL);
}

flame_tensor *flame_index_select(flame_tensor *x, int axis, flame_tensor *idx) {
  return take(x, axis, idx, "index_select", n_take_axis);
}

flame_tensor *flame_gather(flame_tensor *x, int axis, flame_tensor *idx) {
  return take(x, axis, idx, "gather", n_gather_axis);
}

typedef fl_node *puts_in(fl_node *x, int axis, fl_node *idx, fl_node *src, int add);

static flame_tensor *put(flame_tensor *x, int axis, flame_tensor *idx, flame_tensor *src,
                         const char *op, puts_in *build, int add) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  flame_tensor *const all[] = {x, idx, src};
  if (!fl_public_ready(op, 3, all)) return NULL;
  const int k = fl_public_axis(x, axis, op);
  if (k < 0) return NULL;
  FL_ENTER(x->ctx);
  fl_node *at = positions(x, k, idx, op);
  return fl_public_result(x->ctx, fl_mark_, at ? build(x->node, k, at, src->node, add) : NULL);
}

flame_tensor *flame_scatter(flame_tensor *x, int axis, flame_tensor *idx, flame_tensor *src) {
  return put(x, axis, idx, src, "scatter", n_scatter_axis, 0);
}

flame_tensor *flame_scatter_add(flame_tensor *x, int axis, flame_tensor *idx, flame_tensor *src) {
  return put(x, axis, idx, src, "scatter_add", n_scatter_axis, 1);
}

flame_tensor *flame_index_copy(flame_tensor *x, int axis, flame_tensor *idx, flame_tensor *src) {
  return put(x, axis, idx, src, "index_copy", n_put_axis, 0);
}

flame_tensor *flame_index_add(flame_tensor *x, int axis, flame_tensor *idx, flame_tensor *src) {
  return put(x, axis, idx, src, "index_add", n_put_axis, 1);
}

flame_tensor *flame_tril(flame_tensor *x, int64_t k) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready("tril", 1, &x)) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, n_tril(x->node, k, 0));
}

flame_tensor *flame_triu(flame_tensor *x, int64_t k) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready("triu", 1, &x)) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, n_tril(x->node, k, 1));
}

/* ---- writing a part ------------------------------------------------------------------------ */

flame_status flame_write_slice(flame_tensor *x, int axis, int64_t first, int64_t count,
                               int64_t step, flame_tensor *v) {
  static const char op[] = "write_slice";
  FL_HOLD(x ? x->ctx : NULL, FLAME_BAD_ARGUMENT);
  int64_t b[FL_MAX_AXES] = { 0 }, s[FL_MAX_AXES], n[FL_MAX_AXES];
  flame_tensor *const all[] = {x, v};
  const int k = fl_public_ready(op, 2, all) ? fl_public_axis(x, axis, op) : -1;
  if (k < 0) return x->ctx->err.code ? x->ctx->err.code : FLAME_BAD_ARGUMENT;
  FL_ENTER(x->ctx);
  const fl_layout *shape = x->node->shape;
  for (int a = 0; a < shape->rank; a++) s[a] = 1, n[a] = shape->size[a];
  b[k] = first;
  s[k] = step;
  n[k] = count;
  fl_node *value = fl_public_value(x->ctx, x->node, v->node, op);
  fl_node *y = value ? n_setslice(x->node, b, s, n, value) : NULL;
  if (!y) fl_error_own(&x->ctx->err, op);
  const flame_status e = y ? fl_tensor_write(x, y, op) : x->ctx->err.code;
  FL_LEAVE(x->ctx);
  return e;
}
