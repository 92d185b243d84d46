/*
** Cells from program nodes: what is anchored and what stays deferred (planner.h).
*/
#include "plan/planner.h"

fl_ref fl_plan_ref(const fl_program *p, const fl_node *n) {
  if (n->state == FL_PENDING) return n->slot;
  (void)p;
  return ~n->slot;
}

/* Cell that an input position refers to through views; -1 for externals and scalars. */
static int32_t input_cell(const fl_node *n, int i) {
  const fl_node *q = n->in[i];
  if (!q) return -1;
  if (q->state == FL_PENDING && q->base) q = q->base;
  return q->state == FL_PENDING ? q->slot : -1;
}

static int is_step(int op) {
  return op == FL_OP_matmul || op == FL_OP_cat || op == FL_OP_setslice || op == FL_OP_scatter;
}

static int op_cost(int op) {
  switch (op) {
    case FL_OP_normal: return 24;
    case FL_OP_uniform: case FL_OP_randint: return 10;
    case FL_OP_pow: case FL_OP_lgamma: case FL_OP_digamma: case FL_OP_trigamma: return 12;
    default: return 1;
  }
}

/* Which inputs of a step must lie in memory of their own. */
static int wants_memory(int op, int i) {
  return op == FL_OP_matmul || (op == FL_OP_gather && i == 0) || (op == FL_OP_scatter && i > 0);
}

static void anchor_inputs(fl_planner *P, const fl_node *n) {
  for (int i = 0; i < n->nin; i++) {
    const int32_t t = input_cell(n, i);
    if (t < 0) continue;
    P->cell.at[t].consumers++;
    if (wants_memory(n->op, i)) P->cell.at[t].anchored = 1;
  }
}

static int same_before(const fl_node *n, int i) {
  for (int j = 0; j < i; j++) if (n->in[j] == n->in[i]) return 1;
  return 0;
}

/* Length and number of leaves of a cell's expression down to anchored cells; whether an INDEX
** is in it. *dearest: the deferred input with most leaves (by_leaves) or ops. */
static void sum_up(fl_planner *P, int32_t t, int by_leaves, int32_t *dearest) {
  fl_cell *cell = &P->cell.at[t];
  const fl_node *n = cell->node;
  int64_t cost = op_cost(n->op), leaves = 0, most = -1;
  cell->faulty = n->op == FL_OP_index;
  *dearest = -1;
  for (int i = 0; i < n->nin; i++) {
    const int32_t q = input_cell(n, i);
    if (!n->in[i]) { cost++; continue; }
    if (same_before(n, i)) continue;
    if (q < 0 || P->cell.at[q].anchored) { leaves++; continue; }
    const fl_cell *in = &P->cell.at[q];
    cost += in->cost;
    leaves += in->leaves;
    cell->faulty |= in->faulty;
    const int64_t mine = by_leaves ? in->leaves : in->cost;
    if (mine > most) { most = mine; *dearest = q; }
  }
  cell->cost = cost > 1000000 ? 1000000 : (int32_t)cost;
  cell->leaves = leaves > 1000000 ? 1000000 : (int32_t)leaves;
}

static void measure(fl_planner *P, int32_t t) {
  fl_cell *cell = &P->cell.at[t];
  int32_t dearest;
  if (is_step(cell->node->op)) return;
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
  if (cell->consumers > 1 && cell->cost > FL_REPEAT_LIMIT) cell->anchored = 1;
}

int fl_plan_classify(fl_planner *P) {
  const fl_program *p = P->p;
  if (!FL_RESERVE(P->mem, &P->cell, p->nodes.n + 16)) return 0;
  for (int64_t i = 0; i < p->nodes.n; i++) {
    fl_node *n = p->nodes.at[i];
    fl_cell *t = &P->cell.at[P->cell.n++];
    *t = (fl_cell){ .node = n, .shape = n->shape, .dtype = n->dtype, .live = p->live.at[i],
                    .group = -1, .out = -1, .home = -1, .first = INT32_MAX, .last = -1,
                    .bytes = n->shape->numel * fl_dtype_size(n->dtype) };
    for (int64_t h = 0; n->home && h < p->homes.n; h++)
      if (p->homes.at[h] == n->home) t->home = (int32_t)h;
    if (n->base) continue;
    t->anchored = t->live || fl_ops[n->op].fuse == FL_FUSE_R || is_step(n->op);
  }
  for (int64_t i = 0; i < P->cell.n; i++)
    if (!fl_is_view(&P->cell.at[i])) anchor_inputs(P, P->cell.at[i].node);
  for (int64_t i = 0; i < P->cell.n; i++)
    if (!fl_is_view(&P->cell.at[i])) measure(P, (int32_t)i);
  return 1;
}
