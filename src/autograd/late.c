/*
** Cotangents that wait for others. A weight that is used many times, for example in each step of a
** sequence, receives a product of few rows from each use: g1' a1 + g2' a2 + …, and a bias receives
** sums of few rows. These are kept apart until the walk reaches the weight, and are then one
** product over all rows, cat(g)' cat(a), and one sum of rows.
**
** Which cotangents wait depends only on shapes: the order of sums, and so the bits, are the same
** whether recorded nodes were evaluated in between or not. A cotangent that waited alone is
** unchanged.
*/
#include "autograd/walk.h"

/* FEW: this many elements may always be copied to have a single product, since a launch costs more
** than such a copy; more only if they are no more than the elements of the product. MOST: most
** elements of all cotangents that wait for one value. FEW_WAIT: for so many waiting cotangents no
** list is allocated. */
enum { FEW = 1 << 16, MOST = 1 << 23, FEW_WAIT = 8 };

/* ---- which wait ---- */

static int64_t last_size(const fl_node *x) { return x->shape->size[x->shape->rank - 1]; }

/* For a product y = a b and y's cotangent g: the number of elements that are copied if the
** cotangent of b waits; 0: it does not wait. */
static int64_t copied_by(const fl_node *a, const fl_node *g, const fl_node *b) {
  if (b->shape->rank != 2 || a->shape->rank < 2 || g->shape->numel == 0 || a->shape->numel == 0)
    return 0;
  const int64_t in = last_size(a), out = last_size(g), rows = a->shape->numel / in;
  if (in > FEW || out > FEW || rows > MOST / (in + out)) return 0;
  const int64_t copied = rows * (in + out);
  return copied <= FEW || copied <= in * out ? copied : 0;
}

/* The matrix whose transpose is b, or NULL. */
static fl_node *whole_of(const fl_node *b) {
  const int turns = b->op == FL_OP_view && b->nin == 1 && b->attr &&
                    b->attr->view == FL_VIEW_PERMUTE && b->attr->perm[0] == 1;
  return turns ? b->in[0] : NULL;
}

/* May a cotangent pass through this view, to wait at the node that it views? Not if something needs
** the view's own cotangent, such as a hook. */
static int passes(const walk *w, const fl_node *view) {
  const fl_entry *e = view->entry;
  return tracked_input(view, 0) && !e->hooks && !wants_grad(e) && !ends(w, e) &&
         find_target(w, e->sequence) == w->targets.n;
}

/* The item of node n, if n is still to be walked; else NULL. */
item *fl_walk_item(walk *w, const fl_node *n) {
  int64_t lo = 0, hi = w->order.n;
  while (lo < hi) {
    const int64_t mid = (lo + hi) / 2;
    if (w->order.at[mid].sequence > n->entry->sequence) lo = mid + 1; else hi = mid;
  }
  item *it = lo < w->order.n ? &w->order.at[lo] : NULL;
  return it && it->node == n && it->needed && !outside(w, n->entry) ? it : NULL;
}

static int no_memory(walk *w) {
  FL_FAIL(w->c, FLAME_NO_MEMORY, w->op, "host memory is out");
  return -1;
}

int fl_late_wait(walk *w, item *it, fl_late x, int64_t copied) {
  fl_late *at = FL_PUSH(&w->c->mem, &w->lates);
  if (!at) return no_memory(w);
  x.next = it->late;
  x.site = w->c->site;
  x.back = w->c->back;
  *at = x;
  if (x.a) fl_node_hold(x.a);
  fl_node_hold(x.g);
  it->late = (int32_t)(w->lates.n - 1);
  it->copied += copied;
  return it->copied <= MOST || fl_late_join(w, it) ? 1 : -1;
}

int fl_late_factor(walk *w, const item *it, fl_node *g) {
  fl_node *y = it->node, *a = y->in[0], *b = y->in[1];
  if (y->op != FL_OP_matmul || !(it->wanted >> 1 & 1) || !tracked_input(y, 1)) return 0;
  const int64_t copied = copied_by(a, g, b);
  fl_node *whole = copied ? whole_of(b) : NULL;
  const int turned = whole && passes(w, b);
  item *to = copied ? fl_walk_item(w, turned ? whole : b) : NULL;
  if (!to) return 0;
  if (a->shape->rank > 2) {
    a = fl_as_rows(a);
    g = fl_as_rows(g);
  }
  if (!a || !g) return -1;
  return fl_late_wait(w, to, (fl_late){ .a = a, .g = g, .kind = (uint8_t)turned }, copied);
}

int fl_late_rows(walk *w, fl_node *in, fl_node *g) {
  if (in->shape->rank != 1 || g->shape->rank != 2 || g->dtype != in->dtype ||
      last_size(g) != last_size(in) || g->shape->numel == 0 || g->shape->numel > FEW) return 0;
  item *to = fl_walk_item(w, in);
  return to ? fl_late_wait(w, to, (fl_late){ .g = g }, g->shape->numel) : 0;
}

/* ---- their sum ---- */

static void drop(fl_late *x) {
  if (x->a) fl_node_drop(x->a);
  if (x->g) fl_node_drop(x->g);
  x->g = x->a = NULL;
}

void fl_late_close(walk *w) {
  for (int64_t i = 0; i < w->lates.n; i++) drop(&w->lates.at[i]);
}

static fl_node *joined(flame_context *c, int n, fl_node **x) {
  return n == 1 ? x[0] : n_cat(c, n, x, 0);
}

/* The sum of the n products of 'a' and 'g', or, if a[0] is NULL, of the rows of 'g'. */
static fl_node *total(flame_context *c, fl_node *b, int n, fl_node **a, fl_node **g, int turned) {
  fl_node *rows = joined(c, n, g);
  if (!a[0]) return rows ? fl_sum_to(rows, b->shape) : NULL;
  fl_node *inputs = joined(c, n, a);
  return rows && inputs ? fl_right_cotangent(inputs, rows, b, turned) : NULL;
}

/* Collects the waiting cotangents of one kind, the latest first: n values of 'a', or slices, then n
** of 'g', in *list, which is 'few' if they fit. -1: no memory. */
static int gather(walk *w, int32_t first, int kind, fl_node **few, fl_node ***list) {
  const fl_late *all = w->lates.at;
  int n = 0, k = 0;
  for (int32_t i = first; i >= 0; i = all[i].next) n += all[i].kind == kind;
  if (n == 0) return 0;
  *list = n <= FEW_WAIT ? few : fl_alloc(&w->c->mem, 2 * (size_t)n * sizeof **list);
  if (!*list) return no_memory(w);
  for (int32_t i = first; i >= 0; i = all[i].next) {
    if (all[i].kind != kind) continue;
    (*list)[k] = kind == FL_LATE_SLICE ? all[i].slice : all[i].a;
    (*list)[n + k++] = all[i].g;
  }
  return n;
}

static fl_node *sum_of(walk *w, int32_t first, fl_node *b) {
  flame_context *c = w->c;
  fl_node *sum = NULL;
  for (int kind = 0; kind < FL_LATE_KINDS; kind++) {
    fl_node *few[2 * FEW_WAIT], **list;
    const int n = gather(w, first, kind, few, &list);
    if (n == 0) continue;
    fl_node *part = n < 0 ? NULL
                  : kind == FL_LATE_SLICE ? fl_slices_join(w, b, n, list, list + n)
                  : total(c, b, n, list, list + n, kind == FL_LATE_TURNED);
    if (n > FEW_WAIT) fl_free(&c->mem, list, 2 * (size_t)n * sizeof *list);
    if (part) part = n_cast(part, b->dtype);
    sum = part && sum ? fl_add_cotangents(sum, part) : part;
    if (!sum) return NULL;
  }
  return sum;
}

int fl_late_join(walk *w, item *it) {
  flame_context *c = w->c;
  const int32_t first = it->late;
  const uint32_t site = c->site;
  const uint8_t back = c->back;
  const int64_t mark = fl_scope_begin(c);
  c->site = w->lates.at[first].site;
  c->back = w->lates.at[first].back;
  fl_node *g = sum_of(w, first, it->node);
  int ok = g && add_into(&it->node->grad, g);
  for (int32_t i = first; i >= 0; i = w->lates.at[i].next) drop(&w->lates.at[i]);
  it->late = -1;
  it->copied = 0;
  if (ok && c->anomaly && c->up && c->up->anomaly) ok = c->up->anomaly(c, mark) == FLAME_OK;
  fl_scope_end(c, mark);
  c->site = site;
  c->back = back;
  return ok;
}
