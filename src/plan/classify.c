/*
** Makes cells from program nodes: which are anchored (computed in one group) and which stay
** deferred (written into each group that needs them); see planner.h.
*/
#include "plan/planner.h"
#include "tensor/form.h"
#include <stdlib.h>
#include <string.h>

fl_ref fl_plan_ref(const fl_program *p, const fl_node *n) {
  if (n->state == FL_PENDING) return n->slot;
  (void)p;
  return ~n->slot;
}

/* The cell (a node as the planner sees it) that an input refers to through views and pieces; -1 for
** externals (stored inputs of the plan) and scalars. */
static int32_t input_cell(const fl_planner *P, const fl_node *n, int i) {
  return n->in[i] ? fl_plan_source(P, n->in[i]) : -1;
}

static int is_step(int op) { return fl_ops[op].fuse == FL_FUSE_S; }

static int op_cost(int op) {
  switch (op) {
    case FL_OP_normal: return 24;
    case FL_OP_uniform: case FL_OP_randint: return 10;
    case FL_OP_pow: case FL_OP_lgamma: case FL_OP_digamma: case FL_OP_trigamma: return 12;
    case FL_OP_mix: case FL_OP_mix_square: case FL_OP_adam: return fl_plan_joint_cost(op);
    default: return 1;
  }
}

/* Can a library read the last two axes as they are in memory? */
static int library_layout(const fl_layout *l) {
  const int r = l->rank;
  const int64_t m = l->size[r - 2], n = l->size[r - 1], sm = l->stride[r - 2],
                sn = l->stride[r - 1];
  for (int a = 0; a < r; a++) if (l->stride[a] < 0) return 0;
  const int rows = (n == 1 || sn == 1) && (m == 1 || sm >= n),
            cols = (m == 1 || sm == 1) && (n == 1 || sn >= m);
  return rows || cols;
}

/* Can the batch axes be one axis with a single step? 1 also if only some of them are broadcast: a
** copy would be no better, since it would expand them. */
static int one_batch(const fl_layout *l, const fl_layout *out) {
  const int lead = out->rank - l->rank;
  int64_t want = -1;
  for (int a = out->rank - 3; a >= 0; a--) {
    const int64_t stride = a < lead || l->size[a - lead] == 1 ? 0 : l->stride[a - lead];
    if (out->size[a] == 1) continue;
    if (stride == 0 && want != 0 && want != -1) return 1;
    if (want >= 0 && stride != want) return stride == 0 || want == 0;
    want = stride * out->size[a];
  }
  return 1;
}

/* Can a matrix product read input i as it lies in memory, without a copy? On a GPU many small
** products must be one call of the library, which requires the same distance between all of
** them. */
int fl_plan_reads_as_is(const fl_program *p, const fl_node *n, int i) {
  const fl_layout *l = n->in[i]->layout;
  if (n->shape->numel == 0 || i == 2) return 1;           /* a bias is contiguous */
  return library_layout(l) && (p->device == 0 || one_batch(l, n->shape));
}

/* Must input i of n be in separate memory? An input that is copied anyway may stay an
** expression, which the copy computes. */
static int wants_memory(const fl_planner *P, const fl_node *n, int i) {
  if (n->op == FL_OP_matmul) return fl_plan_reads_as_is(P->p, n, i);
  return fl_ops[n->op].memory >> (i < 7 ? i : 7) & 1;
}

/* A node that is written in pieces (a cat; a form, which has components, form.c) needs memory if
** its consumer n reads more than one piece or needs its input in memory. Forms as consumers are
** exempt: they read their inputs one component at a time. */
static void anchor_pieced(fl_planner *P, const fl_node *n) {
  for (int i = 0; i < n->nin && n->op != FL_OP_form; i++) {
    int64_t offset;
    const fl_ref t = n->in[i] ? fl_plan_target(P->p, n->in[i], &offset) : -1;
    if (t >= 0 && (wants_memory(P, n, i) || !fl_plan_in_piece(P, n->in[i])))
      P->cell.at[t].anchored = 1;
  }
}

/* Adds the number of components of a form (sums of products of slices, form.c), each of which may
** read its input i, to the consumers of that input and, if this is a cat without memory, of its
** pieces. */
static void count_form_reads(fl_planner *P, const fl_node *n, int i) {
  const fl_form_code *f = n->attr->form;
  const int32_t t = fl_plan_source(P, n->in[i]);
  if (t < 0) return;
  P->cell.at[t].consumers += fl_form_components(f);
  const fl_node *q = P->cell.at[t].node;
  for (int k = 0; q->op == FL_OP_cat && !P->cell.at[t].anchored && k < q->nin; k++) {
    const int32_t part = fl_plan_source(P, q->in[k]);
    if (part >= 0) P->cell.at[part].consumers += fl_form_components(f);
  }
}

static void anchor_inputs(fl_planner *P, const fl_node *n) {
  if (n->op == FL_OP_cat && !P->cell.at[n->slot].anchored) return;     /* a reader of the cat counts
                                                                       ** as one of its piece */
  for (int i = 0; n->op == FL_OP_form && i < n->nin; i++) count_form_reads(P, n, i);
  if (n->op == FL_OP_form) return;
  for (int i = 0; i < n->nin; i++) {
    const int32_t t = input_cell(P, n, i);
    if (t < 0) continue;
    P->cell.at[t].consumers++;
    if (n->shape->numel / FL_WIDE >= P->cell.at[t].shape->numel) P->cell.at[t].wide = 1;
    if (wants_memory(P, n, i)) P->cell.at[t].anchored = 1;
  }
}

/* On the CPU a scatter checks its index itself if nothing else uses the checked index and the index
** tensor is in memory: positions then take no memory. But a write in place may not fail half-way,
** and a scatter of no elements, or into none, is not a step; the indices of these are checked
** separately. */
static void take_check(fl_planner *P, int32_t t) {
  fl_cell *cell = &P->cell.at[t];
  const fl_node *n = cell->node, *q = n->op == FL_OP_scatter && P->p->device == 0 ? n->in[1] : NULL;
  if (!q || cell->home >= 0 || n->in[2]->shape->numel == 0 || n->shape->numel == 0) return;
  if (q->state != FL_PENDING || q->op != FL_OP_index || q->base) return;
  fl_cell *index = &P->cell.at[q->slot];
  const int32_t from = input_cell(P, q, 0);
  if (index->live || index->consumers != 1 || (from >= 0 && !P->cell.at[from].anchored)) return;
  index->anchored = 0;
  cell->checks = 1;
}

const fl_node *fl_plan_read(const fl_planner *P, int32_t t, int i) {
  const fl_node *q = P->cell.at[t].node->in[i];
  return i == 1 && P->cell.at[t].checks ? q->in[0] : q;
}

static int same_before(const fl_node *n, int i) {
  for (int j = 0; j < i; j++) if (n->in[j] == n->in[i]) return 1;
  return 0;
}

static int of_reduction(const fl_cell *t, const fl_cell *in) {
  return (in->reduced || fl_ops[in->node->op].fuse == FL_FUSE_R) &&
         in->shape->numel == t->shape->numel;
}

/* Notes one more array that the cell is computed from, if it is no smaller than the cell and not
** noted yet. */
static void note_read(fl_cell *cell, const fl_node *x) {
  if (!x || x->shape->numel < cell->shape->numel) return;
  for (int i = 0; i < FL_REPEAT_READS; i++) {
    if (cell->reads[i] == x) return;
    if (cell->reads[i]) continue;
    cell->reads[i] = x;
    return;
  }
}

/* Do several consumers use the cell, and does computing it again for each, or reading its arrays
** again, cost more than storing it once? */
static int is_costly_to_repeat(const fl_cell *cell) {
  int64_t bytes = 0;
  const int pieces = cell->node->op == FL_OP_form ? fl_form_components(cell->node->attr->form) : 1;
  if (cell->consumers < 2 || cell->consumers <= pieces) return 0;
  if (cell->cost > FL_REPEAT_LIMIT) return 1;
  if (cell->consumers >= FL_REPEAT_MANY && cell->leaves > 2 && cell->reads[1]) return 1;
  if (!cell->reads[FL_REPEAT_READS - 1]) return 0;
  for (int i = 0; i < FL_REPEAT_READS; i++) bytes += fl_dtype_size(cell->reads[i]->dtype);
  return bytes >= 2 * fl_dtype_size(cell->dtype);
}

/* Computes length and number of leaves of a cell's expression, down to anchored cells (those that
** are computed once, not by each reader), whether it has an INDEX, and how many inputs of the
** cell's size are reductions, or are made from them. *dearest: the input that is not anchored and
** has the most leaves (by_leaves) or, otherwise, the longest expression; -1: none. */
static void sum_up(fl_planner *P, int32_t t, int by_leaves, int32_t *dearest) {
  fl_cell *cell = &P->cell.at[t];
  const fl_node *n = cell->node;
  int64_t cost = op_cost(n->op), leaves = 0, most = -1;
  int reduced = 0;
  cell->faulty = n->op == FL_OP_index;
  memset(cell->reads, 0, sizeof cell->reads);
  *dearest = -1;
  for (int i = 0; i < n->nin; i++) {
    const int32_t q = input_cell(P, n, i);
    if (!n->in[i]) { cost++; continue; }
    if (same_before(n, i)) continue;
    if (q >= 0 && of_reduction(cell, &P->cell.at[q])) reduced++;
    if (q < 0 || P->cell.at[q].anchored) {
      leaves++;
      note_read(cell, n->in[i]);
      continue;
    }
    const fl_cell *in = &P->cell.at[q];
    for (int k = 0; k < FL_REPEAT_READS; k++) note_read(cell, in->reads[k]);
    cost += in->cost;
    leaves += in->leaves;
    cell->faulty |= in->faulty;
    const int64_t mine = by_leaves ? in->leaves : in->cost;
    if (mine > most) { most = mine; *dearest = q; }
  }
  cell->cost = cost > 1000000 ? 1000000 : (int32_t)cost;
  cell->leaves = leaves > 1000000 ? 1000000 : (int32_t)leaves;
  cell->reduced = (uint8_t)reduced;
}

/* Computes length and number of leaves of the largest component of a form (form.c), whose reads are
** taken to be divided equally among the inputs. Anchors inputs (each is then computed once, in
** memory) until the component is not longer than FL_FORM_LIMIT. */
static void measure_form(fl_planner *P, int32_t t) {
  fl_cell *cell = &P->cell.at[t];
  const fl_node *n = cell->node;
  const fl_form_code *f = n->attr->form;
  for (;;) {
    int64_t cost = f->cost, most = 0;
    int32_t dearest = -1;
    for (int i = 0; i < n->nin; i++) {
      const int32_t q = input_cell(P, n, i);
      if (q < 0 || P->cell.at[q].anchored || same_before(n, i)) continue;
      const int64_t mine = (int64_t)f->reads * P->cell.at[q].cost / n->nin;
      cell->faulty |= P->cell.at[q].faulty;
      cost += mine;
      if (mine > most) { most = mine; dearest = q; }
    }
    cell->cost = cost > 1000000 ? 1000000 : (int32_t)cost;
    cell->leaves = f->reads;
    if (cost <= FL_FORM_LIMIT || dearest < 0) break;
    P->cell.at[dearest].anchored = 1;
  }
  if (is_costly_to_repeat(cell)) cell->anchored = 1;
}

static void measure(fl_planner *P, int32_t t) {
  fl_cell *cell = &P->cell.at[t];
  int32_t dearest;
  if (cell->node->op == FL_OP_form) {
    measure_form(P, t);
    return;
  }
  if (is_step(cell->node->op) || cell->node->op == FL_OP_cat) return;
  sum_up(P, t, 0, &dearest);
  while (cell->cost > FL_COST_LIMIT && dearest >= 0) {
    P->cell.at[dearest].anchored = 1;
    sum_up(P, t, 0, &dearest);
  }
  sum_up(P, t, 1, &dearest);
  while (cell->leaves > FL_LEAF_LIMIT && dearest >= 0) {
    P->cell.at[dearest].anchored = 1;
    sum_up(P, t, 1, &dearest);
  }
  if (is_costly_to_repeat(cell)) cell->anchored = 1;
  if (cell->wide && cell->reduced && cell->cost > 1 && cell->shape->numel > 1)
    cell->hoist = FL_HOIST_MAY;
  if (cell->reduced > 1 && cell->shape->numel > 1 && !cell->anchored) {   /* readers then read one
                                                                          ** array, not several */
    cell->anchored = 1;
    cell->hoist = FL_HOIST_ASKED;
  }
}

/* A cell is awaited if it, or a cell of its size that readers recompute from it, is broadcast. If t
** is awaited and not anchored, marks its inputs of the same size as awaited, too. */
static void note_awaited(fl_planner *P, int32_t t) {
  fl_cell *cell = &P->cell.at[t];
  const fl_node *n = cell->node;
  cell->awaited |= cell->wide;
  for (int i = 0; cell->awaited && !cell->anchored && i < n->nin; i++) {
    const int32_t q = input_cell(P, n, i);
    if (q >= 0 && P->cell.at[q].shape->numel == cell->shape->numel) P->cell.at[q].awaited = 1;
  }
}

/* A run on a GPU ends when the host has seen the report of the last check (cuda/run.c). An INDEX
** beside values that the run computes would be checked when these are there, so it is anchored:
** then it is checked at the beginning of the run, and the host goes on while the GPU works. Not if
** it is computed from such values itself, or has more than EARLY_BYTES: storing and reading it
** takes longer than the host would wait. */
enum { EARLY_BYTES = 1 << 20 };
static void check_early(fl_planner *P, int32_t t) {
  fl_cell *cell = &P->cell.at[t];
  const fl_node *n = cell->node;
  cell->index = n->op == FL_OP_index && !cell->anchored ? t : -1;
  for (int i = 0; i < n->nin; i++) {
    const int32_t q = input_cell(P, n, i);
    if (q < 0) continue;
    cell->waits |= P->cell.at[q].anchored || P->cell.at[q].waits;
    if (cell->index < 0 && !P->cell.at[q].anchored) cell->index = P->cell.at[q].index;
  }
  if (!cell->waits || cell->index < 0) return;
  fl_cell *index = &P->cell.at[cell->index];
  if (!index->waits && index->bytes <= EARLY_BYTES) index->anchored = 1;
  cell->index = -1;
}

/* ---- indices that a plan would read in part -------------------------------------------------- */

/* cell.whole: bit a: a reader that is computed reads each position along axis a; READ: it reads at
** least one element. */
enum { READ = 1 << FL_MAX_AXES, WHOLE = 2 * READ - 1 };

/* The axes of q, input i of cell t, along which whatever computes t reads each position. */
static int axes_read(const fl_cell *t, const fl_node *q, int i) {
  const fl_node *n = t->node;
  const int own = n->op == FL_OP_gather && i == 1 && !(n->attr->flags & 1),
            at = own ? n->attr->axis : t->shape->rank - q->layout->rank;
  if (t->shape->numel == 0 || !(t->live || t->whole & READ)) return 0;
  if (n->op == FL_OP_form) return t->anchored ? WHOLE & ~(1 << n->attr->axis) : 0;
  if (t->anchored) return WHOLE;
  if (n->op == FL_OP_cat && !(t->whole >> n->attr->axis & 1)) return 0;
  int axes = READ;
  for (int a = 0; a < q->layout->rank; a++)
    if (a + at >= 0 && t->whole >> (a + at) & 1) axes |= 1 << a;
  return axes;
}

/* The axes of an array of 'shape' along which each position is read, if a view of the array is read
** at each position of its axes in the mask 'axes'. */
static int axes_covered(const fl_layout *shape, const fl_layout *view, int axes) {
  int64_t run = 1, row[FL_MAX_AXES];
  int covered = axes & READ;
  if (!covered || view->numel == 0) return 0;
  for (int again = 1; again;) {
    again = 0;
    for (int a = 0; a < view->rank && !again; a++) {
      again = axes >> a & 1 && view->size[a] > 1 && llabs(view->stride[a]) == run;
      if (again) run *= view->size[a];
    }
  }
  if (run == shape->numel) return WHOLE;
  fl_row_major(shape->rank, shape->size, row);
  for (int b = 0; b < shape->rank; b++) {
    int all = shape->size[b] == 1;
    for (int a = 0; a < view->rank && !all; a++) {
      const int64_t step = llabs(view->stride[a]);
      all = axes >> a & 1 && step && row[b] % step == 0 &&
            step * view->size[a] % (row[b] * shape->size[b]) == 0;
    }
    if (all) covered |= 1 << b;
  }
  return covered;
}

static int axes_of(int mask) {
  int n = 0;
  for (; mask; mask &= mask - 1) n++;
  return n;
}

/* An index out of range raises whichever elements are read: an INDEX that no reader reads whole is
** anchored, and stored even if nothing reads it. Called from the last cell to the first, so after
** the readers of t. */
static void check_whole(fl_planner *P, int32_t t) {
  fl_cell *cell = &P->cell.at[t];
  const fl_node *n = cell->node;
  const int all = READ | ((1 << cell->shape->rank) - 1);
  if (n->op == FL_OP_index && !cell->live && cell->shape->numel && (cell->whole & all) != all) {
    cell->anchored = cell->stored = 1;
    cell->whole = WHOLE;
  }
  for (int i = 0; i < n->nin; i++) {
    int64_t offset;
    const fl_ref ref = n->in[i] ? fl_plan_target(P->p, n->in[i], &offset) : -1;
    if (ref < 0) continue;
    fl_cell *in = &P->cell.at[ref];
    const int axes = axes_covered(in->shape, n->in[i]->layout, axes_read(cell, n->in[i], i));
    if (axes_of(axes) > axes_of(in->whole)) in->whole = (uint16_t)axes;
  }
}

int fl_plan_classify(fl_planner *P) {
  const fl_program *p = P->p;
  int checks = 0;
  if (!FL_RESERVE(P->mem, &P->cell, p->nodes.n + 16)) return 0;
  for (int64_t i = 0; i < p->nodes.n; i++) {
    fl_node *n = p->nodes.at[i];
    fl_cell *t = &P->cell.at[P->cell.n++];
    *t = (fl_cell){ .node = n, .shape = n->shape, .dtype = n->dtype, .live = p->live.at[i],
                    .group = -1, .pieces = -1, .out = -1, .home = -1, .index = -1,
                    .first = INT32_MAX, .last = -1,
                    .bytes = n->shape->numel * fl_dtype_size(n->dtype) };
    if (n->home) t->home = fl_program_home(p, n->home);
    if (n->base) continue;
    checks |= n->op == FL_OP_index;
    t->anchored = t->live || fl_ops[n->op].fuse == FL_FUSE_R || is_step(n->op);
  }
  for (int64_t i = 0; i < P->cell.n; i++)
    if (!fl_is_view(&P->cell.at[i])) anchor_pieced(P, P->cell.at[i].node);
  for (int64_t i = 0; i < P->cell.n; i++)
    if (!fl_is_view(&P->cell.at[i])) anchor_inputs(P, P->cell.at[i].node);
  for (int64_t i = 0; i < P->cell.n; i++)
    if (!fl_is_view(&P->cell.at[i])) take_check(P, (int32_t)i);
  for (int64_t i = 0; i < P->cell.n; i++)
    if (!fl_is_view(&P->cell.at[i])) measure(P, (int32_t)i);
  for (int64_t i = 0; P->p->device && i < P->cell.n; i++)
    if (!fl_is_view(&P->cell.at[i])) check_early(P, (int32_t)i);
  for (int64_t i = checks ? P->cell.n - 1 : -1; i >= 0; i--)
    if (!fl_is_view(&P->cell.at[i])) check_whole(P, (int32_t)i);
  for (int64_t i = P->cell.n - 1; i >= 0; i--)
    if (!fl_is_view(&P->cell.at[i])) note_awaited(P, (int32_t)i);
  return 1;
}
