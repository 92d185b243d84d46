/*
** Values that are the same in all blocks of a launch, or differ only by the block's position in the
** grid, are computed once per launch: uniform values of parameters and constants, and integers that
** are linear in the positions of the thread and of its block ("forms"). A block then only adds its
** position to the forms that it needs (fl_lane_renew), and the instructions that made them are
** passed over.
**
** fl_lane_find_hoisted marks such instructions: they alone set their result, for all lanes, from
** results marked before. Whether a value fits into its type in all threads of all blocks is known
** when the launch begins; one that does not is computed block by block.
*/
#include "kernel/lanes/lane_state.h"
#include <string.h>

/* ---- at compile time ----------------------------------------------------------------- */

/* The kind of the result of p, given the kinds of all registers ('known'): one value in the launch,
** a form (linear in the positions of thread and block), a test (comparison of forms), or none of
** these. */
static fl_lane_hoist kind_of(const fl_lane_ins *p, const uint8_t *known, int *cls, int *to) {
  const int32_t operand[3] = { p->a, p->b, p->c };
  int fixed = p->once;
  for (int j = 0; j < 3; j++) {
    if (operand[j] < 0) continue;
    if (known[operand[j]] == FL_LANE_EACH) return FL_LANE_EACH;
    fixed &= known[operand[j]] == FL_LANE_ONCE;
  }
  if (p->op == FL_LI_INDEX) return FL_LANE_FORM;
  if (fixed) return FL_LANE_ONCE;
  if (!p->linear && !p->once) return FL_LANE_EACH;
  const int kind = fl_lane_linear_kind(p, cls, to);
  if (kind >= FL_KO_LT && kind <= FL_KO_NE && !p->once) return FL_LANE_TEST;
  return kind == FL_KO_ADD || kind == FL_KO_SUB || kind == FL_KO_MUL || kind == FL_KO_NEG ||
         kind == FL_LANE_COPY || kind == FL_LANE_CAST ? FL_LANE_FORM : FL_LANE_EACH;
}

/* Sets the kinds of the registers that have a value before the code runs. */
static void begin_known(fl_lane_code *c, const int32_t *defs, uint8_t *known) {
  for (int64_t k = 0; k < c->inits.n; k++) {
    fl_lane_init *i = &c->inits.at[k];
    const int place = i->special >= 0 && i->special <= FL_KSPECIAL_BID_Z;
    i->changes = i->param >= 0 && (defs[i->reg] || !c->regs.at[i->reg].uniform);
    if (!i->changes) known[i->reg] = place ? FL_LANE_FORM : FL_LANE_ONCE;
    c->regs.at[i->reg].fixed = known[i->reg] == FL_LANE_ONCE;
  }
}

int fl_lane_find_hoisted(fl_lane_code *c) {
  const size_t n = (size_t)c->regs.n, bytes = n * (sizeof(int32_t) + 1);
  int32_t *defs = fl_zalloc(c->mem, bytes);
  uint8_t *known = (uint8_t *)(defs + n);
  if (!defs) return 0;
  for (int64_t k = 0; k < c->ins.n; k++)
    if (c->ins.at[k].dst >= 0) defs[c->ins.at[k].dst]++;
  begin_known(c, defs, known);
  for (int64_t k = 0; k < c->ins.n; k++) {
    fl_lane_ins *p = &c->ins.at[k];
    int cls = p->type, to = p->sub;
    if ((p->op != FL_LI_EVAL && p->op != FL_LI_INDEX) || p->masked || defs[p->dst] != 1) continue;
    p->hoist = (uint8_t)kind_of(p, known, &cls, &to);
    if (!p->hoist) continue;
    p->type = (uint8_t)cls;
    p->sub = (uint8_t)to;
    if (p->op == FL_LI_INDEX || p->hoist == FL_LANE_TEST) continue;
    known[p->dst] = p->hoist;
    c->regs.at[p->dst].fixed = p->hoist == FL_LANE_ONCE;
    c->regs.at[p->dst].kept = p->hoist == FL_LANE_FORM;
  }
  fl_free(c->mem, defs, bytes);
  return 1;
}

/* ---- at the begin of a launch -------------------------------------------------------- */

static int64_t extent(const fl_lane_state *s, int axis) {
  return axis < 3 ? s->launch->block[axis] : s->launch->grid[axis - 3];
}

/* Finds the range of f, a linear function of the positions of thread and block; sets f->on to 0 if
** its numbers are too large for exact sums. */
static void set_range(const fl_lane_state *s, fl_lane_form *f) {
  int64_t low = 0, high = 0, v;
  f->on = fl_lane_fits(FL_LC_I64, f->u, f->u);
  for (int d = 0; d < FL_LANE_AXES; d++) {
    if (d == 3) { f->below = low; f->above = high; }
    if (__builtin_mul_overflow(f->k[d], extent(s, d) - 1, &v) || !fl_lane_fits(FL_LC_I64, v, v))
      f->on = 0;
    else if (v < 0) low += v;
    else high += v;
  }
  f->low = f->u + low;
  f->high = f->u + high;
}

/* Register r as a form (linear function of the positions of thread and block). Its 'on' is 0 if r
** has no form, or if its values do not all fit the class. */
static fl_lane_form operand(const fl_lane_state *s, int32_t r, int cls) {
  fl_lane_form f = s->forms[r];
  if (s->code->regs.at[r].fixed)
    f = (fl_lane_form){ .u = fl_lane_integer(s->reg[r], cls, 0), .on = 1 }, f.low = f.high = f.u;
  f.on &= fl_lane_fits(cls, f.low, f.high);
  return f;
}

/* a = a + sign b */
static void add(fl_lane_form *a, const fl_lane_form *b, int64_t sign) {
  a->u += sign * b->u;
  for (int d = 0; d < FL_LANE_AXES; d++) a->k[d] += sign * b->k[d];
}

static int is_constant(const fl_lane_form *f) { return f->low == f->high; }

/* a = a b; a->on = 0: neither is constant, or a number is too large */
static void multiply(fl_lane_form *a, const fl_lane_form *b) {
  if (!is_constant(b) && is_constant(a)) {
    const fl_lane_form t = *a;
    *a = *b;
    multiply(a, &t);
    return;
  }
  int bad = !is_constant(b) || __builtin_mul_overflow(a->u, b->u, &a->u);
  for (int d = 0; d < FL_LANE_AXES; d++) bad |= __builtin_mul_overflow(a->k[d], b->u, &a->k[d]);
  if (bad) a->on = 0;
}

/* Finds the form (linear function of positions) of the result of p, or of the difference that p
** compares with 0, and puts it in s->forms; 0: there is none. */
static int form_of(fl_lane_state *s, const fl_lane_ins *p) {
  int cls, to;
  const int kind = fl_lane_linear_kind(p, &cls, &to);
  fl_lane_form f = operand(s, p->a, p->type), b = { .on = 1 }, *out = &s->forms[p->dst];
  if (p->b >= 0) b = operand(s, p->b, p->type);
  if (!f.on || !b.on) return 0;
  if (kind == FL_KO_ADD || kind == FL_KO_SUB || p->hoist == FL_LANE_TEST)
    add(&f, &b, kind == FL_KO_ADD ? 1 : -1);
  if (kind == FL_KO_MUL) multiply(&f, &b);
  if (kind == FL_KO_NEG) { b = f; f = (fl_lane_form){ .on = 1 }; add(&f, &b, -1); }
  if (!f.on) return 0;
  set_range(s, &f);
  if (!f.on || (p->hoist == FL_LANE_FORM && !fl_lane_holds(p, kind, f.low, f.high))) return 0;
  *out = f;
  return 1;
}

/* Runs p for all blocks at once, if that is possible. 1: p need not be run in each block. */
static int hoist(fl_lane_state *s, const fl_lane_ins *p) {
  const fl_lane_fn *fns = (const fl_lane_fn *)(const void *)s->table;
  if (p->hoist == FL_LANE_ONCE) {
    fns[p->fn](s->reg[p->dst], s->reg[p->a], p->b < 0 ? NULL : s->reg[p->b],
               p->c < 0 ? NULL : s->reg[p->c], 1, p->uni);
    return 1;
  }
  if (!p->hoist) return 0;
  if (p->op != FL_LI_INDEX) return form_of(s, p) && p->hoist == FL_LANE_FORM;
  const fl_lane_form f = operand(s, p->a, p->type);
  return f.on && fl_lane_classify(s, f.k[0], f.k[1], f.k[2], &s->infos[p->x]);
}

/* Marks the forms (linear functions of positions) that instruction k reads, since each block runs
** k. */
static void need(fl_lane_state *s, int64_t k) {
  const fl_lane_ins *p = &s->code->ins.at[k];
  for (int j = 0; j < fl_lane_n_operands(p); j++) {
    const int32_t r = fl_lane_operand(s->code, p, j);
    if (r >= 0) s->forms[r].needed = 1;
  }
}

/* Adds to s->fresh how each block updates the result of p from the block's position. hoisted: p is
** not run in each block. */
static void renew(fl_lane_state *s, const fl_lane_ins *p, int hoisted) {
  const int is_index = p->op == FL_LI_INDEX, is_test = p->hoist == FL_LANE_TEST;
  if (p->hoist <= FL_LANE_ONCE || hoisted == is_test) return;
  const fl_lane_form *f = &s->forms[is_index ? p->a : p->dst];
  if (!f->on || (!is_index && !is_test && !f->needed)) return;
  fl_lane_fresh *x = &s->fresh[s->n_fresh++];
  *x = (fl_lane_fresh){ .u = f->u, .k = { f->k[3], f->k[4], f->k[5] }, .below = f->below,
                        .above = f->above };
  if (is_index) x->info = &s->infos[p->x];
  else if (p->once) x->cell = s->reg[p->dst], x->wide = p->wide;
  else {
    x->linear = &s->linear[p->dst];
    x->linear->x = is_test ? 0 : f->k[0];
    x->linear->y = is_test ? 0 : f->k[1];
    x->linear->z = is_test ? 0 : f->k[2];
    x->test = is_test ? p->linear : 0;
  }
}

void fl_lane_do_hoist(fl_lane_state *s) {
  const fl_lane_code *c = s->code;
  memset(s->forms, 0, (size_t)c->regs.n * sizeof *s->forms);
  for (int64_t k = 0; k < c->inits.n; k++) {
    const fl_lane_init *i = &c->inits.at[k];
    if (i->special < 0 || i->special > FL_KSPECIAL_BID_Z) continue;
    s->forms[i->reg].k[i->special] = 1;
    set_range(s, &s->forms[i->reg]);
  }
  for (int64_t k = 0; k < c->ins.n; k++) {
    s->next[k] = hoist(s, &c->ins.at[k]) ? -1 : (int32_t)k;
    if (s->next[k] >= 0) need(s, k);
  }
  s->n_fresh = 0;
  for (int64_t k = c->ins.n - 1; k >= 0; k--) {
    if (s->next[k] < 0) s->next[k] = s->next[k + 1];
    renew(s, &c->ins.at[k], s->next[k] != k);
  }
}
