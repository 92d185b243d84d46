/*
** Sums over the rows of a group of rows: the gradients of a norm's gain and bias read what the
** gradient of its input reads, so the group of the input's gradient computes these sums as well. It
** can not finish such a sum, since its blocks have some rows each: it stores partial results
** (kernel.h, fl_store.across) in a cell that the planner adds, and a group of columns joins them.
** The order of the sum is that of a COL kernel over the same elements, so its bits are the same.
** Only on a GPU: the CPU goes through columns in its cache.
*/
#include "plan/place.h"
#include "base/num.h"

typedef struct shape { int64_t rows, n; } shape;

/* The number of rows and their length, if the group's rows are its last dims; else n is 0. */
static shape shape_of(const fl_group *G) {
  shape s = { 1, 1 };
  int reduced = 0;
  for (int d = 0; d < G->nd; d++) {
    if (G->red >> d & 1) s.n *= G->size[d];
    else if (reduced) return (shape){ 0, 0 };
    else s.rows *= G->size[d];
    reduced |= G->red >> d & 1;
  }
  return s;
}

/* The 32-bit registers that a thread needs for one element of a row: of the arrays that differ
** along the row and from row to row, and of the sums. -1: the group gathers from an array. */
static int words_of(const fl_group *G) {
  int bytes = 0;
  for (int64_t i = 0; i < G->access.n; i++) {
    const fl_access *a = &G->access.at[i];
    int across = 0, along = 0;
    for (int d = 0; d < G->nd; d++)
      if (a->map.stride[d]) *(G->red >> d & 1 ? &along : &across) = 1;
    if (a->gstride) return -1;
    if (a->store == FL_STORE_ACROSS || (!a->store && !a->iota && across && along))
      bytes += fl_dtype_size(a->dtype);
  }
  return (bytes + 3) / 4;
}

static int sums_rows(const fl_group *G) {
  for (int64_t i = 0; G->kind == FL_K_ROW && i < G->access.n; i++)
    if (G->access.at[i].store == FL_STORE_ACROSS) return 1;
  return 0;
}

static int fits(const fl_group *G) {
  const shape s = shape_of(G);
  const int threads = fl_row_lanes(s.n), words = words_of(G);
  const int64_t elements = fl_round_up(s.n, 4 * threads) / threads;
  return words >= 0 && !G->faulty &&
         elements * words <= (threads <= 256 ? FL_ACROSS_WORDS : FL_ACROSS_WORDS_LONG);
}

int fl_place_across_fits(const fl_group *G) {
  return !sums_rows(G) || fits(G);
}

/* Is G a group that may add up n, a sum over its rows? n must reduce exactly the dims that G keeps;
** the rows must have a suitable length, and be enough for all multiprocessors. */
static int takes(const fl_group *G, const fl_node *n) {
  if (G->closed || G->kind != FL_K_ROW) return 0;
  const shape s = shape_of(G);
  const uint32_t all = (1u << G->nd) - 1;
  return s.n > FL_ACROSS_LEAST && s.n <= FL_ACROSS_MOST &&
         fl_row_partials(s.rows, s.n) >= FL_ACROSS_BLOCKS &&
         fl_place_reduced_here(G, n, n->in[0]->shape) == (all & ~G->red);
}

/* Adds a cell for the partial results of sum t over rows of this shape. -1: no memory. */
static int32_t add_cell(fl_planner *P, int32_t t, shape s) {
  fl_layouts *table = &P->c->layouts;
  const int64_t size[2] = { fl_row_partials(s.rows, s.n), s.n };
  const int dtype = P->cell.at[t].dtype == FLAME_F64 ? FLAME_F64 : FLAME_F32;
  fl_layout *layout = fl_layout_of(table, 2, size, NULL);
  fl_cell *p = layout ? FL_PUSH(P->mem, &P->cell) : NULL;
  if (!p) {
    if (layout) fl_layout_release(table, layout);
    return -1;
  }
  *p = (fl_cell){ .source = INT32_MIN, .view = fl_layout_retain(layout), .shape = layout,
                  .dtype = (uint8_t)dtype, .anchored = 1, .group = -1, .pieces = -1, .out = -1,
                  .home = -1, .index = -1, .first = INT32_MAX, .last = -1,
                  .bytes = layout->numel * fl_dtype_size(dtype) };
  return (int32_t)P->cell.n - 1;
}

/* Has group H, which joins, room for the partial results of one more sum? */
static int has_room(const fl_group *H) {
  return H->access.n + 2 <= FL_MAX_READS && H->instr.n + 2 < FL_MAX_INSTR - 2 * FL_MAX_OPERANDS;
}

/* Places sum t, whose partial results are cell p of group g, in the group that joins those of g. 0:
** no memory. */
static int join(fl_planner *P, int32_t g, int32_t t, int32_t p) {
  const fl_layout *shape = P->cell.at[p].shape;
  const fl_map from = { .stride = { shape->size[1], 1 } }, to = { .stride = { 0, 1 } };
  int32_t h = fl_plan_group(P, g)->partial;
  if (h < 0 || !has_room(fl_plan_group(P, h))) h = fl_place_group(P, FL_K_COL, 2, shape->size);
  if (h < 0) return 0;
  fl_group *H = fl_plan_group(P, h);
  fl_plan_group(P, g)->partial = h;
  H->red = 1;
  H->partial = fl_row_parts(shape->size[1]);
  H->need = 0;
  const int dtype = P->cell.at[t].dtype, v = fl_plan_pull(P, h, p, &from, 0);
  const fl_instr x = { .code = FL_I_REDUCE, .dtype = (uint8_t)dtype, .from = P->cell.at[p].dtype,
                       .op = FL_OP_sum, .a = (uint16_t)v };
  const int sum = v < 0 ? v : fl_plan_add(P, h, x, t, &to);
  if (sum < 0 || fl_place_store(P, h, t, dtype, sum, &to) < 0) return 0;
  H = fl_plan_group(P, h);
  P->cell.at[t].group = h;
  fl_place_commit(P, h, H->need + 1 > H->stage ? H->need + 1 : H->stage);
  return 1;
}

/* Tries to add sum t to group g. 1: done; 0: it does not fit there; -1: no memory. */
static int try(fl_planner *P, int32_t g, int32_t t) {
  fl_group *G = fl_plan_group(P, g);
  const fl_node *n = P->cell.at[t].node;
  if (!takes(G, n)) return 0;
  const fl_place_was was = fl_place_mark(P, G);
  const fl_map point = fl_place_results_of(G, 0);
  fl_map column = fl_place_results_of(G, ((1u << G->nd) - 1) & ~G->red);
  const int32_t p = add_cell(P, t, shape_of(G));
  if (p < 0) return -1;
  G->need = G->shared = 0;
  int v = fl_place_pull_row(P, g, n, &point);
  if (v >= 0) {
    const int err = fl_place_store(P, g, p, P->cell.at[p].dtype, v, &column);
    if (err < 0) v = err;
  }
  G = fl_plan_group(P, g);
  const int32_t stage = G->need + 1 > G->stage ? G->need + 1 : G->stage;
  if (v >= 0) G->access.at[G->access.n - 1].store = FL_STORE_ACROSS;
  if (v >= 0 && G->shared > 0 && fits(G) && !fl_place_crowds(G, &was, 1) &&
      (stage < G->limit || fl_raise(P, g, stage))) {
    P->cell.at[p].group = g;
    fl_place_commit(P, g, stage);
    return join(P, g, t, p) ? 1 : -1;
  }
  fl_place_cut(P, G, &was);
  fl_plan_drop_copy(P);
  return v == FL_EMIT_MEMORY ? -1 : 0;
}

int fl_place_across(fl_planner *P, int32_t t) {
  const fl_node *n = P->cell.at[t].node;
  int32_t near[6];
  if (!P->p->device || n->op != FL_OP_sum || !fl_is_float(n->dtype) || n->dtype != n->in[0]->dtype)
    return 0;
  const int k = fl_plan_dep_groups(P, t, near, 6);
  int r = 0, tries = FL_CANDIDATES;
  for (int i = 0; i < k && !r; i++) r = try(P, near[i], t);
  int64_t size[FL_MAX_AXES];
  const int nd = fl_place_space(n->in[0]->shape, size);
  for (int32_t g = *fl_place_bin(P, nd, size); g >= 0 && tries-- && !r;
       g = fl_plan_group(P, g)->sibling) r = try(P, g, t);
  return r;
}
