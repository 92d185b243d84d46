/*
** Sums of cotangents that are zero except in a region, like those of slices. If the regions do not
** overlap, nothing is added: one is written into the other, and regions that fill the array along
** one axis are joined. So the cotangents of slices that divide a tensor (as q, k and v of one
** projection) cost one pass, and each step of a sequence costs only its own elements, not the
** whole sequence.
**
** The bits are those of the sum: a part plus 0 (which turns -0 into 0). A sum that has been
** evaluated in between is added to as usual.
*/
#include "autograd/rules.h"

static int is_region(const fl_node *n) { return n->state == FL_PENDING && n->op == FL_OP_setslice; }

static int is_zeros(const fl_node *n) {
  return n->state == FL_PENDING && n->op == FL_OP_fill && n->scal[0].i == 0;        /* not -0 */
}

static int64_t region_numel(const fl_node *n) {
  int64_t all = 1;
  for (int k = 0; k < n->shape->rank; k++) all *= n->attr->size[k];
  return all;
}

/* Positions of a region along axis k, from the first to the last in memory; steps may be
** negative. */
static void span(const fl_attr *a, int k, int64_t *low, int64_t *high) {
  const int64_t last = a->start[k] + a->step[k] * (a->size[k] - 1);
  *low = a->step[k] < 0 ? last : a->start[k];
  *high = a->step[k] < 0 ? a->start[k] : last;
}

/* May the regions have an element in common? True unless this simple test excludes it. */
static int meet(const fl_attr *a, const fl_attr *b, int rank) {
  for (int k = 0; k < rank; k++) {
    int64_t al, ah, bl, bh;
    if (!a->size[k] || !b->size[k]) return 0;
    span(a, k, &al, &ah);
    span(b, k, &bl, &bh);
    if (al > bh || bl > ah) return 0;
    if ((a->step[k] == b->step[k] || a->step[k] == -b->step[k]) && (al - bl) % a->step[k]) return 0;
  }
  return 1;
}

/* Is v a sum with 0? */
static int is_cleared(const fl_node *v) {
  return v->state == FL_PENDING && v->op == FL_OP_add && v->nin == 2 && !v->in[1] &&
         v->scal[1].i == 0;
}

/* 'sum' is a chain of regions written into zeros, g one more region. Returns the number of regions,
** including g's, or 0 if one of them overlaps g's. If there were two or more before g, 0 must have
** been added to the value of each already (is_cleared). Every new region is compared with all
** before it, which for the steps of a sequence is far cheaper than a sum of whole arrays. */
static int count_apart(const fl_node *sum, const fl_node *g, int64_t *covered) {
  int n = 1, bare = 0;
  *covered = region_numel(g);
  for (; is_region(sum); sum = sum->in[0], n++) {
    if (meet(sum->attr, g->attr, g->shape->rank)) return 0;
    *covered += region_numel(sum);
    bare |= !is_cleared(sum->in[1]);
  }
  return is_zeros(sum) && (n <= 2 || !bare) ? n : 0;
}

/* The axis along which the n regions divide the whole array; each must cover all other axes. -1:
** there is none. */
static int split_axis(const fl_node *sum, const fl_node *g, int n) {
  const fl_layout *s = g->shape;
  int axis = -1;
  for (int i = 0; i < n; i++) {
    const fl_node *x = i ? sum : g;
    if (i) sum = sum->in[0];
    if (x->in[1]->shape->rank != s->rank) return -1;
    for (int k = 0; k < s->rank; k++) {
      if (x->in[1]->shape->size[k] != x->attr->size[k]) return -1;      /* it is broadcast */
      if (x->attr->step[k] != 1 && x->attr->size[k] > 1) return -1;
      if (x->attr->size[k] == s->size[k]) continue;
      if (axis >= 0 && axis != k) return -1;
      axis = k;
    }
  }
  return axis;
}

/* Inserts x into the list, which is sorted by the start along the axis, by bisection: mostly
** regions come in ascending or descending order, and few are moved. */
static void insert(fl_node **list, int n, fl_node *x, int axis) {
  int lo = 0, hi = n;
  while (lo < hi) {
    const int mid = (lo + hi) / 2;
    if (list[mid]->attr->start[axis] < x->attr->start[axis]) lo = mid + 1; else hi = mid;
  }
  for (int k = n; k > lo; k--) list[k] = list[k - 1];
  list[lo] = x;
}

static fl_node *cleared(fl_node *v) { return is_cleared(v) ? v : n_add(v, n_num(v->ctx, 0)); }

static fl_node *join(fl_node *sum, fl_node *g, int n, int axis) {
  flame_context *c = g->ctx;
  fl_node **list = fl_alloc(&c->mem, (size_t)n * sizeof *list), *y = NULL, *x = sum;
  if (!list) {
    FL_FAIL(c, FLAME_NO_MEMORY, "backward", "host memory is out");
    return NULL;
  }
  insert(list, 0, g, axis);
  for (int i = 1; i < n; i++, x = x->in[0]) insert(list, i, x, axis);
  int ok = 1;
  for (int i = 0; ok && i < n; i++) ok = (list[i] = cleared(list[i]->in[1])) != NULL;
  if (ok) y = n_cat(c, n, list, axis);
  fl_free(&c->mem, list, (size_t)n * sizeof *list);
  return y;
}

static fl_node *set(fl_node *base, fl_node *region, fl_node *value) {
  const fl_attr *a = region->attr;
  return value ? n_setslice(base, a->start, a->step, a->size, value) : NULL;
}

fl_node *fl_add_cotangents(fl_node *sum, fl_node *g) {
  int64_t covered;
  if (!is_region(g) || !is_zeros(g->in[0]) || sum->shape != g->shape || sum->dtype != g->dtype ||
      !g->shape->numel)
    return n_add_fused(sum, g);
  const int n = count_apart(sum, g, &covered);
  if (n < 2) return n_add_fused(sum, g);
  const int axis = covered == g->shape->numel ? split_axis(sum, g, n) : -1;
  if (axis >= 0) return join(sum, g, n, axis);
  if (n == 2) sum = set(sum->in[0], sum, cleared(sum->in[1]));
  return sum ? set(sum, g, cleared(g->in[1])) : NULL;
}
