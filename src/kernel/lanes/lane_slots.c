/*
** Assigns registers of lane code to slots of a worker's memory: uniform ones get a cell each;
** vectors of one width may share a slot if their lifetimes do not overlap.
*/
#include "kernel/lanes/lane_build.h"

typedef struct life { int32_t first, last; } life;

static void live_at(life *l, int32_t reg, int32_t at) {
  if (reg < 0) return;
  if (l[reg].first < 0) l[reg].first = at;
  l[reg].last = at;
}

static void find_lives(const fl_lane_code *c, life *l) {
  for (int32_t k = 0; k < (int32_t)c->ins.n; k++) {
    const fl_lane_ins *p = &c->ins.at[k];
    live_at(l, p->dst, k);
    for (int j = 0; j < fl_lane_n_operands(p); j++) live_at(l, fl_lane_operand(c, p, j), k);
  }
  /* A value that is computed before a loop and used in it is needed in all iterations. */
  for (int32_t k = 0; k < (int32_t)c->ins.n; k++) {
    if (c->ins.at[k].op != FL_LI_LOOP) continue;
    for (int64_t r = 0; r < c->regs.n; r++)
      if (l[r].first >= 0 && l[r].first < c->ins.at[k].x && l[r].last >= c->ins.at[k].x &&
          l[r].last < k) l[r].last = k;
  }
}

/* A variable lives through all loops in which it occurs, since an iteration may use its value from
** the one before; so does a value that may be set before the block runs (lane_hoist.c). A variable
** with a value before the first instruction lives throughout. */
static void lives_of_variables(const fl_lane_code *c, life *l) {
  for (int64_t k = c->ins.n - 1; k >= 0; k--) {       /* outer loops end last */
    const fl_lane_ins *p = &c->ins.at[k];
    if (p->op != FL_LI_LOOP) continue;
    for (int64_t r = 0; r < c->regs.n; r++)
      if ((!c->regs.at[r].temporary || c->regs.at[r].kept) && l[r].first <= k &&
          l[r].last >= p->x) {
        if (l[r].first > p->x) l[r].first = p->x;
        if (l[r].last < k) l[r].last = (int32_t)k;
      }
  }
  for (int64_t k = 0; k < c->inits.n; k++) l[c->inits.at[k].reg] = (life){ 0, INT32_MAX };
}

/* The slots of one width as the leaves of a binary tree: the end of the last lifetime assigned to
** each, -1: none, and in each node above the least end below it. The root is end[1]. */
typedef struct slots { int32_t *end; size_t leaves; } slots;

/* The first slot that is free before instruction 'first', which is then taken to 'last'. */
static int32_t take(const slots *x, int32_t first, int32_t last) {
  size_t at = 1;
  while (at < x->leaves) at = 2 * at + (x->end[2 * at] >= first);
  const int32_t slot = (int32_t)(at - x->leaves);
  x->end[at] = last;
  while ((at /= 2)) x->end[at] = x->end[2 * at] < x->end[2 * at + 1] ? x->end[2 * at]
                                                                    : x->end[2 * at + 1];
  return slot;
}

static void give(fl_lane_code *c, const life *l, const slots *narrow, const slots *wide) {
  for (int64_t k = 0; k < c->regs.n; k++) {
    fl_lane_reg *r = &c->regs.at[k];
    int32_t *count = r->wide ? &c->n_wide : &c->n_narrow;
    if (r->uniform) { r->slot = c->n_cells++; continue; }
    if (l[k].first < 0) { r->slot = 0; continue; }                /* no instruction uses it */
    r->slot = take(r->wide ? wide : narrow, l[k].first, l[k].last);
    if (r->slot >= *count) *count = r->slot + 1;
  }
  if (!c->n_wide) c->n_wide = 1;
  if (!c->n_narrow) c->n_narrow = 1;
}

/* Assigns slots in the order of register numbers, which is for temporaries the order of their first
** instruction. */
int fl_lane_give_slots(fl_lane_builder *b) {
  fl_lane_code *c = b->code;
  const size_t n = (size_t)c->regs.n;
  size_t leaves = 1;
  while (leaves < n + 1) leaves *= 2;
  life *l = fl_alloc(b->mem, n * sizeof *l);
  int32_t *end = fl_alloc(b->mem, 4 * leaves * sizeof *end);
  if (l && end) {
    for (size_t k = 0; k < n; k++) l[k] = (life){ -1, -1 };
    for (size_t k = 0; k < 4 * leaves; k++) end[k] = -1;
    find_lives(c, l);
    lives_of_variables(c, l);
    give(c, l, &(slots){ end, leaves }, &(slots){ end + 2 * leaves, leaves });
  }
  fl_free(b->mem, l, n * sizeof *l);
  fl_free(b->mem, end, 4 * leaves * sizeof *end);
  return l && end;
}
