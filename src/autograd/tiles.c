/*
** Cotangents of the slices of one value. They wait (late.c) until the walk reaches the value, and
** if the slices divide it along one axis, they are joined: no zeros are recorded, and 0 is added
** to each, since a sum with zeros has no negative zero. So the gates of a cell, the steps of a
** sequence or the heads of a projection are written by one kernel. Otherwise each is written into
** zeros, and these are added (regions.c).
**
** Which of the two happens depends only on the slices, not on what has been evaluated.
*/
#include "autograd/walk.h"

static int is_slice(const fl_node *y) {
  return y->op == FL_OP_view && y->nin == 1 && y->attr && y->attr->view == FL_VIEW_SLICE;
}

int fl_late_slice(walk *w, const item *it, fl_node *g) {
  const fl_node *y = it->node;
  if (!is_slice(y) || !tracked_input(y, 0) || g->shape != y->shape ||
      g->dtype != y->in[0]->dtype || g->shape->numel == 0) return 0;
  item *to = fl_walk_item(w, y->in[0]);
  return to ? fl_late_wait(w, to, (fl_late){ .g = g, .slice = it->node, .kind = FL_LATE_SLICE }, 0)
            : 0;
}

/* The axis along which the slices divide a value of shape s; each must cover all other axes. -1:
** there is none. */
static int divided_axis(const fl_layout *s, int n, fl_node *const *slice) {
  int axis = -1;
  for (int i = 0; i < n; i++) {
    const fl_attr *a = slice[i]->attr;
    for (int k = 0; k < s->rank; k++) {
      if (a->step[k] != 1 && a->size[k] > 1) return -1;
      if (a->size[k] == s->size[k]) continue;
      if (axis >= 0 && axis != k) return -1;
      axis = k;
    }
  }
  return axis;
}

static void swap(fl_node **x, int i, int k) {
  fl_node *t = x[i];
  x[i] = x[k];
  x[k] = t;
}

static int64_t start_of(const fl_node *slice, int axis) { return slice->attr->start[axis]; }

/* Moves slice k down to its place in a heap of n slices, in which higher positions come first. */
static void sink(int n, fl_node **slice, fl_node **g, int axis, int k) {
  for (int low = 2 * k + 1; low < n; k = low, low = 2 * k + 1) {
    if (low + 1 < n && start_of(slice[low + 1], axis) > start_of(slice[low], axis)) low++;
    if (start_of(slice[low], axis) <= start_of(slice[k], axis)) return;
    swap(slice, k, low), swap(g, k, low);
  }
}

/* Sorts by position: in place, and n log n steps whatever the order of a script's slices. */
static void sort(int n, fl_node **slice, fl_node **g, int axis) {
  for (int k = n / 2; k-- > 0;) sink(n, slice, g, axis, k);
  for (int k = n - 1; k > 0; k--) {
    swap(slice, 0, k), swap(g, 0, k);
    sink(k, slice, g, axis, 0);
  }
}

/* Do the slices, in this order, cover each position along the axis once? */
static int is_covered(const fl_layout *s, int n, fl_node *const *slice, int axis) {
  int64_t at = 0;
  for (int i = 0; i < n; i++) {
    if (start_of(slice[i], axis) != at) return 0;
    at += slice[i]->attr->size[axis];
  }
  return at == s->size[axis];
}

/* The cotangent g of a slice, with the axes of size 1 that the slice dropped. */
static fl_node *with_axes(const fl_node *slice, const fl_layout *s, fl_node *g) {
  return g->shape->rank == s->rank ? g : n_reshape(g, s->rank, slice->attr->size);
}

static fl_node *separate(const fl_layout *s, int n, fl_node *const *slice, fl_node *const *g) {
  fl_node *sum = NULL;
  for (int i = n - 1; i >= 0; i--) {                    /* adds in the order in which the
                                                        ** walk met the slices */
    const fl_attr *a = slice[i]->attr;
    fl_node *v = with_axes(slice[i], s, g[i]);
    v = v ? n_setslice(fl_zeros_like(v, s), a->start, a->step, a->size, v) : NULL;
    sum = sum && v ? fl_add_cotangents(sum, v) : v;
    if (!sum) return NULL;
  }
  return sum;
}

fl_node *fl_slices_join(walk *w, const fl_node *x, int n, fl_node **slice, fl_node **g) {
  const fl_layout *s = x->shape;
  for (int i = 0; i < n; i++) {
    if (is_slice(slice[i])) continue;
    FL_FAIL(w->c, FLAME_BAD_ARGUMENT, w->op, "second backward: a hook freed this graph");
    return NULL;
  }
  const int axis = divided_axis(s, n, slice);
  if (axis < 0) return separate(s, n, slice, g);
  int64_t covered = 0;
  for (int i = 0; i < n; i++) covered += slice[i]->attr->size[axis];
  if (covered != s->size[axis]) return separate(s, n, slice, g);
  if (!is_covered(s, n, slice, axis)) sort(n, slice, g, axis);
  if (!is_covered(s, n, slice, axis)) return separate(s, n, slice, g);
  for (int i = 0; i < n; i++) {
    fl_node *v = with_axes(slice[i], s, g[i]);
    g[i] = v && n > 1 ? n_add(v, n_num(w->c, 0)) : v;
    if (!g[i]) return NULL;
  }
  return n_cat(w->c, n, g, axis);
}
