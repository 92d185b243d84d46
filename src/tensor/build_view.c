/*
** Builders of views: another indexing of a value, no bytes moved.
**
** Rules. A view of a PENDING value is a node with base (the node, not a view, that it shows),
** layout (strides over base's row-major elements) and offset; a view of a view composes the two.
** in[0] is the parent if the view is tracked, for its gradient, otherwise the base. A view of a
** STORED value is STORED at once in the same buffer; it keeps in[0] and attr only when it is
** tracked. A reshape that strides can not express records a copy first.
*/
#include "tensor/build_util.h"
#include <string.h>

/* Does a view of x get an entry of the tape? Only then is it recorded how the view was made. */
static inline int tracks(const fl_node *x) { return x->ctx->grad_mode && x->entry; }

/* A view of x; 'layout' is consumed and may be NULL (memory is out). how: the kind of view and its
** numbers, for the gradient; NULL: the view is untracked. */
static fl_node *view(fl_node *x, fl_layout *layout, int64_t offset, const fl_attr *how) {
  flame_context *c = x->ctx;
  fl_layout *shape = NULL;
  if (layout)
    shape = layout->contiguous ? fl_layout_retain(layout)
          : fl_layout_of(&c->layouts, layout->rank, layout->size, NULL);
  fl_node *v = fl_node_view(x, shape, layout, offset, how, how != NULL);
  return v ? v : fl_no_memory(c, "view");
}

static fl_node *view_as(fl_node *x, int rank, const int64_t *size, const int64_t *stride,
                        int64_t offset, int kind) {
  fl_layout *l = fl_layout_of(&x->ctx->layouts, rank, size, stride);
  if (!tracks(x)) return view(x, l, offset, NULL);
  const fl_attr how = { .view = (int8_t)kind };
  return view(x, l, offset, &how);
}

/* Notes that y has the values of x: if those were cast from a narrower dtype, so were y's
** (n_narrowed). */
static fl_node *same_values(const fl_node *x, fl_node *y) {
  if (y && (x->op == FL_OP_cast || x->op == FL_OP_view)) y->scal[0] = x->scal[0];
  return y;
}

fl_node *n_alias(fl_node *x) {
  if (!x || !fl_usable(x, "alias")) return NULL;
  const fl_attr how = { .view = FL_VIEW_ALIAS };
  return same_values(x, view(x, fl_layout_retain(x->layout), x->offset, tracks(x) ? &how : NULL));
}

fl_node *n_detach(fl_node *x) {
  if (!x || !fl_usable(x, "detach")) return NULL;
  return same_values(x, view(x, fl_layout_retain(x->layout), x->offset, NULL));
}

/* Fills in the single -1 of a size list; 0 with an error if the sizes do not fit. */
static int resolve_sizes(fl_node *x, int rank, const int64_t *size, int64_t *out) {
  char a[FL_SHAPE_TEXT], b[FL_SHAPE_TEXT];
  int64_t known = 1;
  int hole = -1, bad = rank > FL_MAX_AXES || rank < 0;
  if (bad) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "reshape", "%d axes, at most %d",
            rank, FL_MAX_AXES);
    return 0;
  }
  if (!fl_given(x->ctx, size, rank, "reshape", "sizes")) return 0;
  for (int k = 0; k < rank; k++) {
    out[k] = size[k];
    if (size[k] == -1 && hole < 0) { hole = k; out[k] = 1; }
    else if (size[k] < 0) bad = 1;
  }
  known = bad ? -1 : fl_numel(rank, out);
  if (hole >= 0 && known > 0) { out[hole] = x->shape->numel / known; known *= out[hole]; }
  else if (hole >= 0) bad = 1;                     /* any size would do */
  if (!bad && known == x->shape->numel) return 1;
  FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "reshape", "shape %s can not become %s",
          FL_SHAPE(a, x->shape), fl_shape_text(b, rank, size));
  return 0;
}

fl_node *n_reshape(fl_node *x, int rank, const int64_t *size) {
  int64_t to[FL_MAX_AXES], stride[FL_MAX_AXES];
  if (!x || !fl_usable(x, "reshape") || !resolve_sizes(x, rank, size, to)) return NULL;
  if (x->layout->contiguous)
    return view_as(x, rank, to, NULL, x->offset, FL_VIEW_RESHAPE);
  const fl_layout *l = x->layout;
  if (fl_view_strides(l->rank, l->size, l->stride, rank, to, stride))
    return view_as(x, rank, to, stride, x->offset, FL_VIEW_RESHAPE);
  x = n_copy(x);
  return x ? view_as(x, rank, to, NULL, 0, FL_VIEW_RESHAPE) : NULL;
}

/* ---- bytes --------------------------------------------------------------------------- */

/* The sizes of x with its last axis counted in elements of 'dtype'; 0 with an error. */
static int sizes_in(fl_node *x, int dtype, int64_t *size) {
  const int64_t from = fl_dtype_size(x->dtype), to = fl_dtype_size(dtype);
  const int last = x->shape->rank - 1;
  const char *a = fl_dtype_name(x->dtype), *b = fl_dtype_name(dtype);
  memcpy(size, x->shape->size, sizeof x->shape->size);
  if (dtype == FLAME_BOOL) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "view", "the bytes of %s need not be 0 or 1, as those of "
            "bool are" FL_DO ": x:ne(0) says where x is not zero", a);
    return 0;
  }
  if (from == to) return 1;
  if (last < 0) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "view", "a 0-d %s has %d bytes, an element of %s %d" FL_DO
            ": x:reshape(1) has an axis that can change", a, (int)from, b, (int)to);
    return 0;
  }
  if (from < to && size[last] % (to / from)) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "view", "the last axis has %lld elements of %s, need a "
            "multiple of %d for %s", (long long)size[last], a, (int)(to / from), b);
    return 0;
  }
  if (x->shape->numel > INT64_MAX / from) {
    fl_no_memory(x->ctx, "view");
    return 0;
  }
  size[last] = size[last] * from / to;
  return 1;
}

/* Are x's elements row-major, from an address that is aligned for 'dtype'? */
static int lies_for(const fl_node *x, int dtype) {
  const int64_t to = fl_dtype_size(dtype);
  uintptr_t at = (uintptr_t)(x->offset * fl_dtype_size(x->dtype));
  if (x->state == FL_STORED && x->buffer) at += (uintptr_t)x->buffer->ptr;
  return x->layout->contiguous && at % (uintptr_t)to == 0;
}

fl_node *n_bits(fl_node *x, int dtype) {
  int64_t size[FL_MAX_AXES];
  if (!x || !fl_usable(x, "view")) return NULL;
  if (x->dtype == dtype) return n_alias(x);
  if (!sizes_in(x, dtype, size)) return NULL;
  if (!lies_for(x, dtype) && !(x = n_copy(x))) return NULL;
  fl_layout *shape = fl_shape_of(x->ctx, x->shape->rank, size, "view");
  return shape ? fl_record(x->ctx, FL_OP_bits, dtype, x->device, shape, 1, &x) : NULL;
}

/* ---- axes ---------------------------------------------------------------------------- */

/* perm: each axis of x once. */
static fl_node *permuted(fl_node *x, const int *perm) {
  int64_t size[FL_MAX_AXES], stride[FL_MAX_AXES];
  const fl_layout *l = x->layout;
  for (int k = 0; k < l->rank; k++) {
    size[k] = l->size[perm[k]];
    stride[k] = l->stride[perm[k]];
  }
  fl_layout *to = fl_layout_of(&x->ctx->layouts, l->rank, size, stride);
  if (!tracks(x)) return view(x, to, x->offset, NULL);
  fl_attr how = { .view = FL_VIEW_PERMUTE };
  for (int k = 0; k < l->rank; k++) how.perm[k] = (int8_t)perm[k];
  return view(x, to, x->offset, &how);
}

fl_node *n_permute(fl_node *x, const int *perm) {
  uint32_t seen = 0;
  if (!x || !fl_usable(x, "permute")) return NULL;
  for (int k = 0; k < x->shape->rank; k++) {
    if (!fl_check_axis(x, perm[k], "permute")) return NULL;
    if (seen >> perm[k] & 1) {
      FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "permute", "axis %d appears twice",
              (int)fl_counted(x->ctx, perm[k]));
      return NULL;
    }
    seen |= 1u << perm[k];
  }
  return permuted(x, perm);
}

fl_node *n_transpose(fl_node *x, int a, int b) {
  int perm[FL_MAX_AXES] = { 0 };
  if (!x || !fl_usable(x, "transpose")) return NULL;
  if (!fl_check_axis(x, a, "transpose") || !fl_check_axis(x, b, "transpose")) return NULL;
  for (int k = 0; k < x->shape->rank; k++) perm[k] = k == a ? b : k == b ? a : k;
  return permuted(x, perm);
}

/* The Lua functions have checked their positions already: this message counts from 0, as flame.h
** does. */
int fl_box_fits(fl_node *x, const int64_t *start, const int64_t *step,
                const int64_t *count, uint32_t drop, const char *op) {
  char s[FL_SHAPE_TEXT];
  for (int a = 0; a < x->shape->rank; a++) {
    const int64_t n = x->shape->size[a], k = count[a];
    int ok = k >= 0 && (!(drop >> a & 1) || k == 1);
    if (ok && k > 0) ok = start[a] >= 0 && start[a] < n;
    if (ok && k > 1)                               /* the step of a single position has no effect */
      ok = step[a] > -n && step[a] < n && step[a] != 0 &&
           (step[a] > 0 ? (n - 1 - start[a]) / step[a] : start[a] / -step[a]) >= k - 1;
    if (ok) continue;
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op,
            "%lld positions from %lld by %lld leave axis %d of shape %s", (long long)k,
            (long long)start[a], (long long)step[a], a, FL_SHAPE(s, x->shape));
    return 0;
  }
  return 1;
}

fl_node *n_box(fl_node *x, const int64_t *start, const int64_t *step,
               const int64_t *count, uint32_t drop) {
  int64_t size[FL_MAX_AXES], stride[FL_MAX_AXES], offset;
  if (!x || !fl_usable(x, "slice") || !fl_box_fits(x, start, step, count, drop, "slice"))
    return NULL;
  const fl_layout *l = x->layout;
  int rank = 0, empty = 0;
  offset = x->offset;
  for (int a = 0; a < l->rank; a++) empty |= count[a] == 0;
  for (int a = 0; a < l->rank; a++) {
    if (!empty) offset += start[a] * l->stride[a];
    if (drop >> a & 1) continue;
    size[rank] = count[a];
    stride[rank++] = count[a] > 1 ? l->stride[a] * step[a] : l->stride[a];
  }
  fl_layout *to = fl_layout_of(&x->ctx->layouts, rank, size, stride);
  if (!tracks(x)) return view(x, to, offset, NULL);
  fl_attr how = { .view = FL_VIEW_SLICE };
  for (int a = 0; a < l->rank; a++) {
    how.start[a] = start[a];
    how.step[a] = count[a] > 1 ? step[a] : 1;
    how.size[a] = count[a];
  }
  return view(x, to, offset, &how);
}

void fl_whole_box(const fl_node *x, int64_t *start, int64_t *step, int64_t *count) {
  for (int a = 0; a < x->shape->rank; a++) {
    start[a] = 0;
    step[a] = 1;
    count[a] = x->shape->size[a];
  }
}

fl_node *n_slice(fl_node *x, int axis, int64_t first, int64_t count, int64_t step) {
  int64_t b[FL_MAX_AXES] = { 0 }, s[FL_MAX_AXES] = { 0 }, n[FL_MAX_AXES] = { 0 };
  if (!x || !fl_usable(x, "slice") || !fl_check_axis(x, axis, "slice")) return NULL;
  fl_whole_box(x, b, s, n);
  b[axis] = first;
  s[axis] = step;
  n[axis] = count;
  return n_box(x, b, s, n, 0);
}

fl_node *n_select(fl_node *x, int axis, int64_t i) {
  int64_t b[FL_MAX_AXES] = { 0 }, s[FL_MAX_AXES] = { 0 }, n[FL_MAX_AXES] = { 0 };
  char text[FL_SHAPE_TEXT];
  if (!x || !fl_usable(x, "select") || !fl_check_axis(x, axis, "select")) return NULL;
  if (i < 0 || i >= x->shape->size[axis]) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "select",
            "position %lld is outside axis %d of shape %s", (long long)fl_counted(x->ctx, i),
            (int)fl_counted(x->ctx, axis), FL_SHAPE(text, x->shape));
    return NULL;
  }
  fl_whole_box(x, b, s, n);
  b[axis] = i;
  n[axis] = 1;
  return n_box(x, b, s, n, 1u << axis);
}

fl_node *n_expand(fl_node *x, int rank, const int64_t *size) {
  int64_t to[FL_MAX_AXES] = { 0 }, stride[FL_MAX_AXES];
  char a[FL_SHAPE_TEXT], b[FL_SHAPE_TEXT];
  if (!x || !fl_usable(x, "expand")) return NULL;
  const fl_layout *l = x->layout;
  const int lead = rank - l->rank;
  int ok = lead >= 0 && rank <= FL_MAX_AXES;
  for (int k = 0; ok && k < rank; k++) {
    const int64_t have = k < lead ? 1 : l->size[k - lead];
    to[k] = size[k] == -1 && k >= lead ? have : size[k];
    stride[k] = k < lead || have != to[k] ? 0 : l->stride[k - lead];
    ok = to[k] >= 0 && (have == to[k] || have == 1);
  }
  if (!ok) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "expand", "shape %s can not become %s",
            FL_SHAPE(a, l),
            rank <= FL_MAX_AXES ? fl_shape_text(b, rank, size) : "more than 8 axes");
    return NULL;
  }
  fl_layout *check = fl_shape_of(x->ctx, rank, to, "expand");
  if (!check) return NULL;
  fl_layout_release(&x->ctx->layouts, check);
  return view_as(x, rank, to, stride, x->offset, FL_VIEW_EXPAND);
}

fl_node *n_squeeze(fl_node *x, int axis) {
  int64_t size[FL_MAX_AXES];
  int rank = 0;
  if (!x || !fl_usable(x, "squeeze")) return NULL;
  if (axis != -1 && !fl_check_axis(x, axis, "squeeze")) return NULL;
  for (int a = 0; a < x->shape->rank; a++)
    if (x->shape->size[a] != 1 || (axis != -1 && a != axis))
      size[rank++] = x->shape->size[a];
  return n_reshape(x, rank, size);
}

fl_node *n_unsqueeze(fl_node *x, int axis) {
  int64_t size[FL_MAX_AXES + 1];
  if (!x || !fl_usable(x, "unsqueeze")) return NULL;
  const int rank = x->shape->rank;
  if (axis < 0 || axis > rank || rank == FL_MAX_AXES) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "unsqueeze", "no axis %d can be added to %d axes",
            (int)fl_counted(x->ctx, axis), rank);
    return NULL;
  }
  for (int k = 0; k <= rank; k++)
    size[k] = k == axis ? 1 : x->shape->size[k - (k > axis)];
  return n_reshape(x, rank + 1, size);
}

/* Are all elements of the strided layout within those of x? */
static int stays_inside(fl_node *x, int rank, const int64_t *size, const int64_t *stride,
                        int64_t offset) {
  __int128_t low = offset, high = offset;
  for (int a = 0; a < rank; a++) {
    if (size[a] == 0) return 1;
    const __int128_t d = (__int128_t)(size[a] - 1) * stride[a];
    if (d < 0) low += d; else high += d;
  }
  if (low >= 0 && high < x->shape->numel) return 1;
  FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "strided",
          "the layout leaves the %lld elements of the source",
          (long long)x->shape->numel);
  return 0;
}

fl_node *n_strided(fl_node *x, int rank, const int64_t *size, const int64_t *stride,
                   int64_t offset) {
  if (!x || !fl_usable(x, "strided")) return NULL;
  fl_layout *check = fl_shape_of(x->ctx, rank, size, "strided");
  if (!check) return NULL;
  fl_layout_release(&x->ctx->layouts, check);
  if (!stays_inside(x, rank, size, stride, offset)) return NULL;
  int64_t out[FL_MAX_AXES] = { 0 }, at = x->offset;
  if (x->layout->contiguous) {
    memcpy(out, stride, sizeof out[0] * (size_t)rank);
    at += offset;
  } else if (!fl_map_compose(x->shape->rank, x->shape->size, x->layout->stride, rank,
                             size, stride, offset, out, &at)) {
    return n_strided(n_copy(x), rank, size, stride, offset);
  }
  fl_layout *to = fl_layout_of(&x->ctx->layouts, rank, size, out);
  if (!tracks(x)) return view(x, to, at, NULL);
  fl_attr how = { .view = FL_VIEW_STRIDED, .naxes = (int8_t)rank, .offset = offset };
  for (int k = 0; k < rank; k++) {
    how.size[k] = size[k];
    how.stride[k] = stride[k];
  }
  return view(x, to, at, &how);
}

/* Returns a view of 'value'. Its entry on the tape names the custom function's inputs, not 'value',
** as the inputs of the gradient. */
fl_node *n_custom(fl_node *value, int n, fl_node *const *in, struct fl_custom *custom,
                  int which) {
  if (!value || !fl_usable(value, "custom")) return NULL;
  flame_context *c = value->ctx;
  int tracked = 0;
  for (int i = 0; i < n; i++) tracked |= in[i] && in[i]->entry;
  fl_node *v = n_detach(value);
  if (!v || !tracked || !c->grad_mode) return v;
  if (n > FL_MOST_INPUTS) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "custom", "%d inputs, at most %d", n, FL_MOST_INPUTS);
    return NULL;
  }
  fl_node **many = n > 3 ? fl_alloc(&c->mem, (size_t)n * sizeof *many) : v->in0;
  if (!many || !fl_node_attr(v)) {
    if (many != v->in0) fl_free(&c->mem, many, (size_t)n * sizeof *many);
    return fl_no_memory(c, "custom");
  }
  for (int i = 0; i < n; i++) many[i] = in[i] && !fl_is_number(in[i]) ? in[i] : NULL;
  v->op = FL_OP_custom;
  v->attr->offset = which;
  v->in = many;
  v->nin = (uint8_t)n;
  if (!fl_entry_attach(v)) return NULL;
  if (v->entry) {
    v->entry->custom = custom;
    custom->refs++;
  }
  return v;
}

fl_node *n_ruled(fl_node *value, int n, fl_node *const *in, fl_rule_fn *backward,
                 void (*release)(void *arg), void *arg) {
  flame_context *c = value->ctx;
  fl_custom *f = fl_zalloc(&c->mem, sizeof *f);
  if (!f) {
    if (release) release(arg);
    return fl_no_memory(c, fl_ops[value->op].name);
  }
  *f = (fl_custom){ .refs = 1, .backward = backward, .release = release, .arg = arg };
  fl_node *t = n_custom(value, n, in, f, 0);
  fl_custom_drop(c, f);                                       /* freed if no entry took it */
  return t;
}
