/*
** Builders (functions that record nodes) that join values and address them by index tensors.
**
** Rules. Index tensors are 1-based at the public edge and pass through n_index once,
** which checks them at run time and gives 0-based i64. gather: in[0] source, in[1] that
** index. scatter: in[0] base value, in[1] index, in[2] source. attr of both: axis; naxes
** = axes of the index (n_take_axis); flags bit 0: the index has the result's (source's)
** own shape (n_gather_axis). setslice: in[0] old, in[1] new (broadcasts to the box),
** attr start/step/size per axis. cat: attr.axis.
*/
#include "tensor/build_util.h"
#include <string.h>

enum { OWN_SHAPE = 1 };      /* a bit of attr.flags of gather and scatter */

const char *fl_index_hint(int dtype) {
  return fl_is_float(dtype) ? FL_DO ": use :long() (arange(n / 2) is f32, as n / 2 is a float; "
                              "arange(n // 2) is i64)" : "";
}

fl_node *n_index(fl_node *idx, int64_t n, int flags, const char *what) {
  if (!idx || !fl_usable(idx, what)) return NULL;
  flame_context *c = idx->ctx;
  if (!fl_is_integer(idx->dtype)) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, what, "the %s tensor is %s, need an integer dtype%s",
            flags & FL_INDEX_CLASS ? "class" : "index", fl_dtype_name(idx->dtype),
            fl_index_hint(idx->dtype));
    return NULL;
  }
  if (!(idx = n_cast(idx, FLAME_I64))) return NULL;
  fl_node *y = fl_node_new(c, FL_OP_index, FLAME_I64, idx->device,
                           fl_layout_retain(idx->shape), 1, &idx);
  fl_attr *a = y ? fl_node_attr(y) : NULL;
  if (!a) return fl_no_memory(c, what);
  a->flags = (uint8_t)flags;
  a->what = what;
  y->scal[0].i = n;
  return y;
}

static int index_ok(fl_node *x, fl_node *idx, int axis, const char *op) {
  if (!fl_usable(x, op) || !fl_usable(idx, op) || !fl_check_axis(x, axis, op)) return 0;
  if (!fl_same_device(x, idx, op)) return 0;
  if (idx->op == FL_OP_index && idx->attr && idx->attr->axis == 0)
    idx->attr->axis = (int8_t)(axis + 1);   /* A message about a bad index names this axis, unless
                                            ** the caller has set another one. */
  if (idx->dtype == FLAME_I64) return 1;
  FL_FAIL(x->ctx, FLAME_INTERNAL, op, "the index did not pass through n_index");
  return 0;
}

/* Shape of x with axis 'axis' replaced by idx's axes; the rank, or -1 with an error. */
static int take_shape(fl_node *x, int axis, fl_node *idx, int64_t *size, const char *op) {
  const int r = x->shape->rank, k = idx->shape->rank;
  if (r - 1 + k > FL_MAX_AXES) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op,
            "the result would have %d axes, at most %d", r - 1 + k,
            FL_MAX_AXES);
    return -1;
  }
  memcpy(size, x->shape->size, sizeof size[0] * (size_t)axis);
  memcpy(size + axis, idx->shape->size, sizeof size[0] * (size_t)k);
  memcpy(size + axis + k, x->shape->size + axis + 1,
         sizeof size[0] * (size_t)(r - axis - 1));
  return r - 1 + k;
}

/* Has idx the rank of x, and is it no larger than x in all axes but 'axis'? */
static int along_fits(const fl_node *x, int axis, const fl_node *idx) {
  int ok = x->shape->rank == idx->shape->rank;
  for (int k = 0; ok && k < x->shape->rank; k++)
    ok = k == axis || idx->shape->size[k] <= x->shape->size[k];
  return ok;
}

static int along_ok(fl_node *x, int axis, fl_node *idx, const char *op) {
  char a[FL_SHAPE_TEXT], b[FL_SHAPE_TEXT];
  const int ok = along_fits(x, axis, idx);
  if (!ok)
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op,
            "index shape %s does not go with %s along axis %d", FL_SHAPE(a, idx->shape),
            FL_SHAPE(b, x->shape), (int)fl_counted(x->ctx, axis));
  return ok;
}

static fl_node *addressed(int op, int dtype, fl_layout *shape, int nin,
                          fl_node *const *in, int axis, int flags, int add) {
  flame_context *c = in[0]->ctx;
  fl_node *y = shape ? fl_node_new(c, op, dtype, in[0]->device, shape, nin, in) : NULL;
  fl_attr *a = y ? fl_node_attr(y) : NULL;
  if (!a) return fl_no_memory(c, fl_ops[op].name);
  a->axis = (int8_t)axis;
  a->naxes = in[1]->shape->rank;
  a->flags = (uint8_t)flags;
  a->add = (int8_t)(add ? c->deterministic || dtype > FLAME_F32 ? 1 : 2 : 0);
  return fl_finish(y);
}

fl_node *n_take_axis(fl_node *x, int axis, fl_node *idx) {
  int64_t size[FL_MAX_AXES];
  if (!x || !idx || !index_ok(x, idx, axis, "index_select")) return NULL;
  const int rank = take_shape(x, axis, idx, size, "index_select");
  fl_layout *shape = rank < 0 ? NULL : fl_shape_of(x->ctx, rank, size, "index_select");
  if (!shape) return NULL;
  fl_node *in[2] = { x, idx };
  return addressed(FL_OP_gather, x->dtype, shape, 2, in, axis, 0, 0);
}

fl_node *n_gather_axis(fl_node *x, int axis, fl_node *idx) {
  if (!x || !idx || !index_ok(x, idx, axis, "gather")) return NULL;
  /* if there are no positions any shape is allowed, as in PyTorch */
  if (idx->shape->numel == 0 && !along_fits(x, axis, idx))
    return n_reshape(n_slice(x, axis, 0, 0, 1), idx->shape->rank, idx->shape->size);
  if (!along_ok(x, axis, idx, "gather")) return NULL;
  fl_node *in[2] = { x, idx };
  return addressed(FL_OP_gather, x->dtype, fl_layout_retain(idx->shape), 2, in, axis,
                   OWN_SHAPE, 0);
}

/* The source of a scatter in x's dtype; a float into integers raises. */
static fl_node *source_for(fl_node *x, fl_node *src, const char *op) {
  const int isfloat = fl_is_number(src) ? !src->isint : fl_is_float(src->dtype);
  if (isfloat && !fl_is_float(x->dtype)) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op,
            "a float can not be written into dtype %s" FL_DO "; cast it first",
            fl_dtype_name(x->dtype));
    return NULL;
  }
  if (fl_is_number(src)) return fl_as_tensor(src, x->dtype, x->device, op);
  if (!fl_usable(src, op) || !fl_same_device(x, src, op)) return NULL;
  return n_cast(src, x->dtype);
}

fl_node *n_scatter_axis(fl_node *x, int axis, fl_node *idx, fl_node *src, int add) {
  const char *op = add ? "scatter_add" : "scatter";
  if (!x || !idx || !src || !index_ok(x, idx, axis, op)) return NULL;
  if (!(src = source_for(x, src, op))) return NULL;
  if (idx->shape->numel == 0 && (src->shape->rank != idx->shape->rank || !along_fits(x, axis, idx)))
    return n_copy(x);                                            /* as n_gather_axis */
  if (!along_ok(x, axis, idx, op)) return NULL;
  if (src->shape->rank == 0) src = n_expand(src, idx->shape->rank, idx->shape->size);
  for (int k = 0; src && src->shape != idx->shape &&
                  src->shape->rank == idx->shape->rank && k < idx->shape->rank;
       k++)
    if (idx->shape->size[k] < src->shape->size[k])
      src = n_slice(src, k, 0, idx->shape->size[k], 1);
  if (!src) return NULL;
  if (src->shape != idx->shape) {
    char a[FL_SHAPE_TEXT], b[FL_SHAPE_TEXT];
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op, "index shape %s is larger than src %s",
            FL_SHAPE(a, idx->shape), FL_SHAPE(b, src->shape));
    return NULL;
  }
  fl_node *in[3] = { x, idx, src };
  return addressed(FL_OP_scatter, x->dtype, fl_layout_retain(x->shape), 3, in, axis,
                   OWN_SHAPE, add);
}

fl_node *n_put_axis(fl_node *x, int axis, fl_node *idx, fl_node *src, int add) {
  const char *op = add ? "index_add" : "index_copy";
  int64_t size[FL_MAX_AXES], both[FL_MAX_AXES];
  if (!x || !idx || !src || !index_ok(x, idx, axis, op)) return NULL;
  const int rank = take_shape(x, axis, idx, size, op);
  if (rank < 0 || !(src = source_for(x, src, op))) return NULL;
  const fl_layout *s = src->shape;
  if (fl_broadcast(rank, size, s->rank, s->size, both) != rank ||
      memcmp(size, both, sizeof size[0] * (size_t)rank)) {
    char a[FL_SHAPE_TEXT], b[FL_SHAPE_TEXT];
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op, "src has shape %s, need %s",
            FL_SHAPE(a, s), fl_shape_text(b, rank, size));
    return NULL;
  }
  if (s->rank != rank || memcmp(s->size, size, sizeof size[0] * (size_t)rank))
    src = n_expand(src, rank, size);
  if (!src) return NULL;
  fl_node *in[3] = { x, idx, src };
  return addressed(FL_OP_scatter, x->dtype, fl_layout_retain(x->shape), 3, in, axis, 0,
                   add);
}

/* v with surplus leading axes of size 1 removed. */
static fl_node *strip_leading(fl_node *v, int rank) {
  int lead = v->shape->rank - rank;
  if (lead <= 0) return v;
  for (int k = 0; k < lead; k++) if (v->shape->size[k] != 1) return v;
  return n_reshape(v, rank, v->shape->size + lead);
}

fl_node *n_setslice(fl_node *x, const int64_t *start, const int64_t *step,
                    const int64_t *count, fl_node *v) {
  static const char op[] = "x[…] = v";
  int64_t both[FL_MAX_AXES];
  if (!x || !v || !fl_usable(x, op) || !fl_box_fits(x, start, step, count, 0, op))
    return NULL;
  if (!(v = source_for(x, v, op)) || !(v = strip_leading(v, x->shape->rank))) return NULL;
  const int rank = x->shape->rank;
  if (fl_broadcast(rank, count, v->shape->rank, v->shape->size, both) != rank ||
      memcmp(both, count, sizeof both[0] * (size_t)rank)) {
    char a[FL_SHAPE_TEXT], b[FL_SHAPE_TEXT];
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op,
            "a value of shape %s does not fit a region of shape %s",
            FL_SHAPE(a, v->shape), fl_shape_text(b, rank, count));
    return NULL;
  }
  fl_node *in[2] = { x, v };
  fl_node *y = fl_node_new(x->ctx, FL_OP_setslice, x->dtype, x->device,
                           fl_layout_retain(x->shape), 2, in);
  fl_attr *a = y ? fl_node_attr(y) : NULL;
  if (!a) return fl_no_memory(x->ctx, op);
  for (int k = 0; k < rank; k++) {
    a->start[k] = start[k];
    a->step[k] = step[k];
    a->size[k] = count[k];
  }
  return fl_finish(y);
}

/* ---- joining ----------------------------------------------------------------------- */

static int skipped(const fl_node *x, int rank) { /* torch.cat ignores pieces of shape (0) */
  return x->shape->rank == 1 && x->shape->size[0] == 0 && rank != 1;
}

/* The common dtype and shape of the tensors to be joined; 0 with an error. */
static int cat_facts(flame_context *c, int n, fl_node *const *x, int axis, int *dtype,
                     int64_t *size, int *rank) {
  char a[FL_SHAPE_TEXT], b[FL_SHAPE_TEXT];
  const fl_node *lead = NULL;
  for (int i = 0; i < n; i++) {
    if (!x[i] || !fl_usable(x[i], "cat") || !fl_same_device(x[0], x[i], "cat")) return 0;
    if (!lead || skipped(lead, x[i]->shape->rank)) lead = x[i];
  }
  if (!lead || axis < 0 || axis >= lead->shape->rank) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "cat",
            lead ? "axis %d is out of range" : "no tensors are given", (int)fl_counted(c, axis));
    return 0;
  }
  *rank = lead->shape->rank;
  *dtype = lead->dtype;
  memcpy(size, lead->shape->size, sizeof size[0] * FL_MAX_AXES);
  size[axis] = 0;
  for (int i = 0; i < n; i++) {
    *dtype = fl_promote(*dtype, x[i]->dtype);
    if (skipped(x[i], *rank)) continue;
    int ok = x[i]->shape->rank == *rank;
    for (int k = 0; ok && k < *rank; k++)
      ok = k == axis || x[i]->shape->size[k] == size[k];
    if (ok) { size[axis] += x[i]->shape->size[axis]; continue; }
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "cat", "shapes %s and %s differ outside axis %d",
            FL_SHAPE(a, lead->shape), FL_SHAPE(b, x[i]->shape), (int)fl_counted(c, axis));
    return 0;
  }
  return 1;
}

/* One cat node of at most FL_MOST_INPUTS tensors, which are checked already. */
static fl_node *cat_some(flame_context *c, int n, fl_node *const *x, int axis, int dtype,
                         int rank) {
  fl_node *in[FL_MOST_INPUTS];
  int64_t size[FL_MAX_AXES] = { 0 };
  int k = 0;
  for (int i = 0; i < n; i++) {
    if (skipped(x[i], rank)) continue;
    if (!(in[k] = n_cast(x[i], dtype))) return NULL;
    const int64_t before = k ? size[axis] : 0;
    memcpy(size, in[k]->shape->size, sizeof size);
    size[axis] += before;
    k++;
  }
  if (k == 1) return n_alias(in[0]);
  if (k == 0) return n_cast(x[0], dtype);
  fl_layout *shape = fl_shape_of(c, rank, size, "cat");
  if (!shape) return NULL;
  fl_node *y = fl_node_new(c, FL_OP_cat, dtype, in[0]->device, shape, k, in);
  fl_attr *a = y ? fl_node_attr(y) : NULL;
  if (!a) return fl_no_memory(c, "cat");
  a->axis = (int8_t)axis;
  return fl_finish(y);
}

fl_node *n_cat(flame_context *c, int n, fl_node *const *x, int axis) {
  int64_t size[FL_MAX_AXES];
  int dtype, rank;
  if (!cat_facts(c, n, x, axis, &dtype, size, &rank)) return NULL;
  if (n <= FL_MOST_INPUTS) return cat_some(c, n, x, axis, dtype, rank);
  const int groups = (n + FL_MOST_INPUTS - 1) / FL_MOST_INPUTS;
  fl_node **part = fl_alloc(&c->mem, (size_t)groups * sizeof *part), *y = NULL;
  if (!part) return fl_no_memory(c, "cat");
  int ok = 1;
  for (int g = 0; ok && g < groups; g++) {
    const int from = g * FL_MOST_INPUTS, rest = n - from;
    const int many = rest < FL_MOST_INPUTS ? rest : FL_MOST_INPUTS;
    part[g] = cat_some(c, many, x + from, axis, dtype, rank);
    ok = part[g] != NULL;
  }
  if (ok) y = n_cat(c, groups, part, axis);       /* recursion of depth log n to the base 255 */
  fl_free(&c->mem, part, (size_t)groups * sizeof *part);
  return y;
}

fl_node *n_stack(flame_context *c, int n, fl_node *const *x, int axis) {
  char a[FL_SHAPE_TEXT], b[FL_SHAPE_TEXT];
  if (n < 1) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "stack", "no tensors are given");
    return NULL;
  }
  fl_node **part = fl_alloc(&c->mem, (size_t)n * sizeof *part), *y = NULL;
  if (!part) return fl_no_memory(c, "stack");
  int ok = 1;
  for (int i = 0; ok && i < n; i++) {
    ok = x[i] && fl_usable(x[i], "stack");
    if (ok && x[i]->shape != x[0]->shape) {
      FL_FAIL(c, FLAME_BAD_ARGUMENT, "stack", "shapes %s and %s differ",
              FL_SHAPE(a, x[0]->shape), FL_SHAPE(b, x[i]->shape));
      ok = 0;
    }
    if (ok) ok = (part[i] = n_unsqueeze(x[i], axis)) != NULL;
  }
  if (ok) y = n_cat(c, n, part, axis);
  fl_free(&c->mem, part, (size_t)n * sizeof *part);
  return y;
}

fl_node *n_pad(fl_node *x, const int64_t *before, const int64_t *after, double value) {
  int64_t size[FL_MAX_AXES], start[FL_MAX_AXES], step[FL_MAX_AXES], count[FL_MAX_AXES];
  if (!x || !fl_usable(x, "pad")) return NULL;
  flame_context *c = x->ctx;
  const int dtype = x->dtype, device = x->device;
  for (int a = 0; a < x->shape->rank; a++) {      /* negative: cut off */
    const int64_t lo = before[a] < 0 ? -before[a] : 0, hi = after[a] < 0 ? -after[a] : 0;
    if (!lo && !hi) continue;
    x = n_slice(x, a, lo, x->shape->size[a] - lo - hi, 1);
    if (!x) return NULL;
  }
  fl_whole_box(x, start, step, count);
  int same = 1;
  for (int a = 0; a < x->shape->rank; a++) {
    start[a] = before[a] > 0 ? before[a] : 0;
    size[a] = count[a] + start[a] + (after[a] > 0 ? after[a] : 0);
    same = same && size[a] == count[a];
  }
  if (same) return n_copy(x);
  const fl_scalar v =
      fl_is_float(dtype) ? (fl_scalar){ .d = value } : (fl_scalar){ .i = (int64_t)value };
  return n_setslice(n_fill(c, dtype, device, x->shape->rank, size, v), start, step, count,
                    x);
}

fl_node *n_tril(fl_node *x, int64_t k, int upper) {
  const char *op = upper ? "triu" : "tril";
  if (!x || !fl_usable(x, op)) return NULL;
  flame_context *c = x->ctx;
  const int r = x->shape->rank;
  if (r < 2) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "x has %d axes, need at least 2", r);
    return NULL;
  }
  const fl_scalar from = { .i = 0 }, one = { .i = 1 };
  const int64_t rows[2] = { x->shape->size[r - 2], 1 },
                cols[1] = { x->shape->size[r - 1] };
  /* beyond: all or nothing */
  const int64_t far = rows[0] + cols[0], bound = k < -far ? -far : k > far ? far : k;
  fl_node *row = n_iota(c, FLAME_I64, x->device, 2, rows, from, one);
  fl_node *col = n_iota(c, FLAME_I64, x->device, 1, cols, from, one);
  fl_node *edge = n_add(row, n_int(c, bound));
  fl_node *keep = upper ? n_ge(col, edge) : n_le(col, edge);
  if (x->dtype == FLAME_BOOL) return n_logical_and(x, keep);
  return n_where(keep, x, n_int(c, 0));
}
