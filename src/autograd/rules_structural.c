/*
** Gradient rules of the ops that move values: views, gather and scatter, slices, joins,
** products of matrices, host functions.
**
** Rules. in[i] may have been freed unless the entry saved it (entry.c): shapes and attr remain,
** values do not. A cotangent may be larger than its input because of broadcasting; the walk reduces
** it.
*/
#include "autograd/rules.h"

/* Linear positions 0 .. n-1 of a shape, i64. */
static fl_node *positions(flame_context *c, int device, int rank, const int64_t *size) {
  return n_iota(c, FLAME_I64, device, rank, size, (fl_scalar){ .i = 0 },
                (fl_scalar){ .i = 1 });
}

/* ---- views ------------------------------------------------------------------------- */

static fl_node *unpermute(const fl_node *y, fl_node *g) {
  int back[FL_MAX_AXES];
  for (int k = 0; k < y->shape->rank; k++) back[y->attr->perm[k]] = k;
  return n_permute(g, back);
}

static fl_node *unslice(const fl_node *y, fl_node *g) {
  const fl_layout *s = y->in[0]->shape;
  const fl_attr *a = y->attr;
  if (g->shape->rank != s->rank) g = n_reshape(g, s->rank, a->size);
  return g ? n_setslice(fl_zeros_like(g, s), a->start, a->step, a->size, g) : NULL;
}

/* The gradient of a view in which elements may appear several times: adds g where they were
** read. */
static fl_node *unstride(const fl_node *y, fl_node *g) {
  const fl_layout *s = y->in[0]->shape;
  const fl_attr *a = y->attr;
  const int64_t n = g->shape->numel, all = s->numel;
  fl_node *at = n_strided(positions(g->ctx, g->device, 1, &all), a->naxes, a->size,
                          a->stride, a->offset);
  fl_node *flat = n_fill(g->ctx, g->dtype, g->device, 1, &all, (fl_scalar){ .d = 0 });
  at = at ? n_reshape(at, 1, &n) : NULL;
  flat = n_put_axis(flat, 0, at, n_reshape(g, 1, &n), 1);
  return flat ? n_reshape(flat, s->rank, s->size) : NULL;
}

static fl_node *unview(const fl_node *y, fl_node *g) {
  const fl_layout *s = y->in[0]->shape;
  switch (y->attr->view) {
    case FL_VIEW_RESHAPE: return n_reshape(g, s->rank, s->size);
    case FL_VIEW_PERMUTE: return unpermute(y, g);
    case FL_VIEW_SLICE: return unslice(y, g);
    case FL_VIEW_STRIDED: return unstride(y, g);
    default: return g;                           /* alias; expand: the walk sums */
  }
}

/* ---- index tensors ----------------------------------------------------------------- */

enum { OWN_SHAPE = 1 };       /* bit of attr->flags: the index has an element for each result */

static fl_node *read_at(const fl_node *y, fl_node *x, fl_node *idx) {
  return y->attr->flags & OWN_SHAPE ? n_gather_axis(x, y->attr->axis, idx)
                                    : n_take_axis(x, y->attr->axis, idx);
}

static fl_node *write_at(const fl_node *y, fl_node *x, fl_node *idx, fl_node *src,
                         int add) {
  return y->attr->flags & OWN_SHAPE ? n_scatter_axis(x, y->attr->axis, idx, src, add)
                                    : n_put_axis(x, y->attr->axis, idx, src, add);
}

/* If several sources have one target, the last one is stored, and only that one gets a gradient. To
** find them, each source writes its number to its target; those whose number is still there
** afterwards were stored. */
static fl_node *winners(const fl_node *y, fl_node *idx) {
  flame_context *c = y->ctx;
  const fl_layout *s = y->shape, *src = y->in[2]->shape;
  fl_node *number = positions(c, y->device, src->rank, src->size);
  fl_node *place =
      n_fill(c, FLAME_I64, y->device, s->rank, s->size, (fl_scalar){ .i = -1 });
  return n_eq(read_at(y, write_at(y, place, idx, number, 0), idx), number);
}

static void scatter_rule(fl_node *y, fl_node *g, fl_node **gin) {
  flame_context *c = y->ctx;
  fl_node *idx = y->in[1];
  const int add = y->attr->add;
  if (fl_wants(y, 0)) {
    gin[0] = g;
    if (!add) gin[0] = write_at(y, g, idx, fl_zeros_like(g, y->in[2]->shape), 0);
  }
  if (fl_wants(y, 2)) {
    gin[2] = read_at(y, g, idx);
    if (!add) gin[2] = n_where(winners(y, idx), gin[2], n_num(c, 0));
  }
}

/* ---- joins and products ------------------------------------------------------------ */

static void cat_rule(fl_node *y, fl_node *g, fl_node **gin) {
  const int axis = y->attr->axis;
  int64_t at = 0;
  for (int i = 0; i < y->nin; i++) {
    const int64_t n = y->in[i]->shape->size[axis];
    if (fl_wants(y, i)) gin[i] = n_slice(g, axis, at, n, 1);
    at += n;
  }
}

static fl_node *turned(fl_node *x) {
  if (!x) return NULL;
  const int r = x->shape->rank;
  return n_transpose(x, r - 2, r - 1);
}

fl_node *fl_as_rows(fl_node *x) {
  const int r = x->shape->rank;
  const int64_t last = x->shape->size[r - 1];
  int64_t rows = 1;
  for (int k = 0; k < r - 1; k++) rows *= x->shape->size[k];
  return n_reshape(x, 2, (int64_t[]){ rows, last });
}

/* Is x column-major, like a transposed weight? */
static int lies_turned(const fl_node *x) {
  const fl_layout *l = x->layout;
  const int r = l->rank;
  return l->size[r - 1] > 1 && l->size[r - 2] > 1 && l->stride[r - 2] == 1 && l->stride[r - 1] != 1;
}

/* The product p q, computed as (q' p')' if the result should be column-major as 'like' is: the
** gradient of a transposed weight then reaches the weight row-major. */
static fl_node *product_like(fl_node *p, fl_node *q, const fl_node *like) {
  if (!p || !q) return NULL;
  return lies_turned(like) ? turned(n_matmul(turned(q), turned(p))) : n_matmul(p, q);
}

/* da = g b', db = a' g; the bias in[2] gets g, which the walk sums over the rows. If many matrices
** a have one b, db is one product over all their rows. */
static void matmul_rule(fl_node *y, fl_node *g, fl_node **gin) {
  fl_node *a = y->in[0], *b = y->in[1];
  fl_product_rule(y, g, gin);
  if (!fl_wants(y, 1)) return;
  if (a->shape->rank > 2 && b->shape->rank == 2) {
    a = fl_as_rows(a);
    g = fl_as_rows(g);
  }
  gin[1] = fl_right_cotangent(a, g, b, 0);
}

void fl_product_rule(fl_node *y, fl_node *g, fl_node **gin) {
  fl_node *a = y->in[0], *b = y->in[1];
  for (int i = 0; i < y->nin; i++) gin[i] = NULL;
  if (fl_wants(y, 0)) gin[0] = product_like(g, turned(b), a);
  if (y->nin > 2 && fl_wants(y, 2)) gin[2] = g;
}

fl_node *fl_right_cotangent(fl_node *a, fl_node *g, fl_node *b, int turn) {
  if (!a || !g) return NULL;
  return turn ? n_matmul(turned(g), a) : product_like(turned(a), g, b);
}

static flame_status custom_rule(fl_node *y, fl_node *g, fl_node **gin) {
  flame_context *c = y->ctx;
  fl_custom *f = y->entry->custom;
  f->refs++; /* the host may drop the entry during the call */
  const flame_status e = f->backward(c, f->arg, y, g, y->nin, gin);
  fl_custom_drop(c, f);
  return e;
}

flame_status fl_rule_structural(fl_node *y, fl_node *g, fl_node **gin) {
  flame_context *c = y->ctx;
  const fl_attr *a = y->attr;
  switch (y->op) {
    case FL_OP_cast: case FL_OP_copy: gin[0] = g; break;
    case FL_OP_view: gin[0] = unview(y, g); break;
    case FL_OP_gather:
      gin[0] = write_at(y, fl_zeros_like(g, y->in[0]->shape), y->in[1], g, 1);
      break;
    case FL_OP_scatter: scatter_rule(y, g, gin); break;
    case FL_OP_setslice:
      if (fl_wants(y, 0)) gin[0] = n_setslice(g, a->start, a->step, a->size, n_num(c, 0));
      if (fl_wants(y, 1)) gin[1] = n_box(g, a->start, a->step, a->size, 0);
      break;
    case FL_OP_cat: cat_rule(y, g, gin); break;
    case FL_OP_matmul: matmul_rule(y, g, gin); break;
    case FL_OP_custom: return custom_rule(y, g, gin);
    default:
      return FL_FAIL(c, FLAME_INTERNAL, fl_ops[y->op].name, "no gradient rule");
  }
  return c->err.code;
}
