/*
** Arrays in pieces along an axis: what is joined there (cat), and the components of a form
** (tensor/form.h). An array that needs no memory only leads readers to its pieces: a reader that
** stays within one piece reads that piece. An array that needs memory is written piece by piece.
** Each piece is an expression that goes into a group (one kernel) of the piece's space, as any cell
** does, and is stored at its place in the whole. So pieces that are made of the same arrays are one
** kernel with several stores, and nothing is copied.
**
** Pieces may be in several groups and at several stages; a reader of the whole array waits for all
** of them.
*/
#include "plan/place.h"
#include "tensor/form.h"
#include <string.h>

static int is_cat(const fl_cell *t) { return t->node && t->node->op == FL_OP_cat; }

static int pieces_of(const fl_node *n) {
  return n->op == FL_OP_form ? fl_form_components(n->attr->form) : n->nin;
}

/* Computes the range, *low to *high, of the positions that map m reaches along the axis on which n
** (a cat or a form) has pieces. 0: there are none, or they are no affine function of the dims. */
static int reach(const fl_node *n, int nd, const int64_t *size, const fl_map *m, int64_t *low,
                 int64_t *high) {
  int64_t along[FL_MAX_AXES] = { 0 }, step[FL_MAX_AXES];
  along[n->attr->axis] = 1;
  *low = 0;
  if (fl_numel(nd, size) == 0 || !fl_map_compose(n->shape->rank, n->shape->size, along, nd, size,
                                                 m->stride, m->offset, step, low))
    return 0;
  *high = *low;
  for (int d = 0; d < nd; d++) *(step[d] < 0 ? low : high) += step[d] * (size[d] - 1);
  return 1;
}

int fl_plan_piece(const fl_planner *P, fl_ref ref, int nd, const int64_t *size, const fl_map *m,
                  fl_ref *to, fl_map *out) {
  int64_t low, high, start = 0;
  const fl_node *n = ref >= 0 && is_cat(&P->cell.at[ref]) ? P->cell.at[ref].node : NULL;
  if (!n || !reach(n, nd, size, m, &low, &high)) return 0;
  int i = 0;
  const int axis = n->attr->axis;
  while (start + n->in[i]->shape->size[axis] <= low) start += n->in[i++]->shape->size[axis];
  const fl_node *q = n->in[i];
  if (high >= start + q->shape->size[axis]) return 0;
  memset(out, 0, sizeof *out);
  *to = fl_plan_target(P->p, q, &out->offset);
  out->offset -= start * q->layout->stride[axis];
  return fl_map_compose(n->shape->rank, n->shape->size, q->layout->stride, nd, size, m->stride,
                        m->offset, out->stride, &out->offset);
}

int fl_plan_component(const fl_planner *P, int32_t t, int32_t g, const fl_map *m) {
  const fl_group *G = &P->group.at[g];
  int64_t low, high;
  if (fl_numel(G->nd, G->size) == 0) return 0;           /* it is not read */
  return reach(P->cell.at[t].node, G->nd, G->size, m, &low, &high) && low == high ? (int)low : -1;
}

/* The cell from which node q, an input of a cell, is read. A cat that has all of q in one piece and
** needs no memory is skipped: the piece is read. -1: it is not a cell. */
int32_t fl_plan_source(const fl_planner *P, const fl_node *q) {
  fl_map m = { 0 }, piece;
  fl_ref ref = fl_plan_target(P->p, q, &m.offset), to;
  memcpy(m.stride, q->layout->stride, sizeof m.stride);
  while (ref >= 0 && !P->cell.at[ref].anchored &&
         fl_plan_piece(P, ref, q->shape->rank, q->shape->size, &m, &to, &piece)) {
    ref = to;
    m = piece;
  }
  return ref < 0 ? -1 : ref;
}

int fl_plan_in_piece(const fl_planner *P, const fl_node *q) {
  fl_map m = { 0 }, piece;
  int64_t low, high;
  fl_ref to;
  const fl_ref ref = fl_plan_target(P->p, q, &m.offset);
  memcpy(m.stride, q->layout->stride, sizeof m.stride);
  if (ref < 0 || !fl_is_pieced(&P->cell.at[ref])) return 1;
  if (is_cat(&P->cell.at[ref]))
    return fl_plan_piece(P, ref, q->shape->rank, q->shape->size, &m, &to, &piece);
  return reach(P->cell.at[ref].node, q->shape->rank, q->shape->size, &m, &low, &high) &&
         low == high;
}

/* ---- groups that complete a cell ------------------------------------------------------------- */

int fl_plan_writers(const fl_planner *P, fl_ref t) {
  const fl_cell *cell = &P->cell.at[t];
  return cell->pieces < 0 ? 1 : pieces_of(cell->node);
}

int32_t fl_plan_writer(const fl_planner *P, fl_ref t, int i) {
  const fl_cell *cell = &P->cell.at[t];
  return cell->pieces < 0 ? cell->group : P->piece.at[cell->pieces + i];
}

/* ---- placing --------------------------------------------------------------------------------- */

static int64_t start_of(const fl_node *n, int piece) {
  int64_t at = 0;
  if (n->op == FL_OP_form) return piece;
  for (int i = 0; i < piece; i++) at += n->in[i]->shape->size[n->attr->axis];
  return at;
}

/* The shape of a piece. */
static fl_layout shape_of(const fl_node *n, int piece) {
  fl_layout s = { .rank = n->shape->rank };
  memcpy(s.size, n->shape->size, sizeof s.size);
  s.size[n->attr->axis] = n->op == FL_OP_form ? 1 : n->in[piece]->shape->size[n->attr->axis];
  return s;
}

static int compose(const fl_group *G, const fl_layout *s, const int64_t *stride, const fl_map *m,
                   fl_map *out) {
  return fl_map_compose(s->rank, s->size, stride, G->nd, G->size, m->stride, m->offset,
                        out->stride, &out->offset);
}

/* Emits the value of a piece. s: the piece's shape; m: the group's map of an array of this shape;
** to: the map of the piece within the whole. */
static int piece_value(fl_planner *P, int32_t g, int32_t t, int piece, const fl_layout *s,
                       const fl_map *m, const fl_map *to) {
  const fl_node *n = P->cell.at[t].node;
  fl_group *G = fl_plan_group(P, g);
  fl_map from = { 0 };
  if (n->op == FL_OP_form) {
    const int v = fl_plan_find(G, t, to);
    if (v < 0) return fl_plan_emit_form(P, g, t, to, 0);
    G->shared++;
    return v;
  }
  const fl_node *q = n->in[piece];
  const fl_ref ref = fl_plan_target(P->p, q, &from.offset);
  return compose(G, s, q->layout->stride, m, &from) ? fl_plan_pull(P, g, ref, &from, 0)
                                                    : FL_EMIT_REJECT;
}

/* An input of n that is not anchored (its readers recompute it): anchoring it, which stores it in
** memory, makes a piece need fewer instructions; -1: none. */
static int32_t deferred_input(const fl_planner *P, const fl_node *n, int piece) {
  for (int i = 0; i < n->nin; i++) {
    const int32_t t = n->op == FL_OP_form || i == piece ? fl_plan_source(P, n->in[i]) : -1;
    if (t >= 0 && !P->cell.at[t].anchored) return t;
  }
  return -1;
}

int fl_piece_join(fl_planner *P, int32_t g, int32_t t, int piece) {
  const fl_node *n = P->cell.at[t].node;
  const fl_group *G = fl_plan_group(P, g);
  const fl_layout s = shape_of(n, piece);
  int64_t row[FL_MAX_AXES];
  fl_map m, to = { 0 };
  int level;
  if (!fl_plan_natural(G, &s, &m, &level) || !fl_place_takes(P, G, level)) return FL_EMIT_REJECT;
  fl_row_major(n->shape->rank, n->shape->size, row);
  to.offset = start_of(n, piece) * row[n->attr->axis];
  if (!compose(G, &s, row, &m, &to)) return FL_EMIT_REJECT;
  const int v = piece_value(P, g, t, piece, &s, &m, &to);
  const int32_t input = v == FL_EMIT_REJECT ? deferred_input(P, n, piece) : -1;
  if (input >= 0) return FL_EMIT_ANCHOR - input;
  const int err = v < 0 ? v : fl_place_store(P, g, t, P->cell.at[t].dtype, v, &to);
  if (err < 0) return err;
  if (level) fl_plan_group(P, g)->full = 1;
  return v;
}

/* The groups that compute the inputs of a piece, in near[]; returns how many. */
static int near_groups(fl_planner *P, int32_t t, int piece, int32_t *near, int most) {
  const fl_node *n = P->cell.at[t].node;
  if (n->op == FL_OP_form) return fl_plan_dep_groups(P, t, near, most);
  t = fl_plan_source(P, n->in[piece]);
  if (t < 0) return 0;
  if (!P->cell.at[t].anchored) return fl_plan_dep_groups(P, t, near, most);
  near[0] = P->cell.at[t].group;
  return near[0] >= 0;
}

/* Tries to place all n pieces of a cell in one group (kernel) that exists: one that computes inputs
** of the first piece, or one of its space. 1: done; 0: none is placed. */
static int place_together(fl_planner *P, int32_t t, int n) {
  const fl_layout s = shape_of(P->cell.at[t].node, 0);
  int32_t near[6];
  return fl_place_near(P, t, 0, n, near, near_groups(P, t, 0, near, 6)) ||
         fl_place_beside(P, t, 0, n, &s);
}

/* The groups that write the pieces before 'piece', newest first. */
static int placed_groups(const fl_planner *P, int32_t t, int piece, int32_t *near, int most) {
  int n = 0;
  for (int i = piece - 1; i >= 0 && n < most; i--) {
    const int32_t g = fl_plan_writer(P, t, i);
    int k = 0;
    while (k < n && near[k] != g) k++;
    if (k == n) near[n++] = g;
  }
  return n;
}

/* Places one piece. Components of a form stay together as long as they fit in a group; pieces of a
** cat may have nothing in common. */
static int place_piece(fl_planner *P, int32_t t, int piece, int32_t *first) {
  const fl_layout s = shape_of(P->cell.at[t].node, piece);
  int32_t near[6];
  if (P->cell.at[t].node->op == FL_OP_form) {
    if (fl_place_near(P, t, piece, 1, near, placed_groups(P, t, piece, near, 6))) return 1;
    return fl_place_own(P, t, piece, &s, first);
  }
  if (fl_place_near(P, t, piece, 1, near, near_groups(P, t, piece, near, 6)) ||
      fl_place_beside(P, t, piece, 1, &s)) return 1;
  return fl_place_own(P, t, piece, &s, first);
}

/* Places the components of form t after the first, of which none has a group yet, together in the
** group of the first, if they may join it: then 1, else 0. */
static int place_rest(fl_planner *P, int32_t t, int n) {
  const int32_t g = fl_plan_writer(P, t, 0);
  return P->cell.at[t].node->op == FL_OP_form && n > 1 && g >= 0 &&
         fl_plan_writer(P, t, 1) < 0 && fl_place_near(P, t, 1, n - 1, &g, 1);
}

/* A piece that needs another cell first is tried again after that cell is placed; the pieces before
** it stay placed. */
int fl_place_pieces(fl_planner *P, int32_t t, int32_t *first) {
  const int n = pieces_of(P->cell.at[t].node);
  if (P->cell.at[t].pieces < 0) {
    if (!FL_RESERVE(P->mem, &P->piece, P->piece.n + n)) return -1;
    P->cell.at[t].pieces = (int32_t)P->piece.n;
    for (int i = 0; i < n; i++) P->piece.at[P->piece.n++] = -1;
    if (place_together(P, t, n)) { P->cell.at[t].group = fl_plan_writer(P, t, 0); return 1; }
  }
  for (int i = 0; i < n; i++) {
    if (P->piece.at[P->cell.at[t].pieces + i] >= 0) continue;
    if (i == 1 && place_rest(P, t, n)) break;
    const int r = place_piece(P, t, i, first);
    if (r <= 0) return r;
  }
  P->cell.at[t].group = fl_plan_writer(P, t, n - 1);
  return 1;
}
