/*
** Index expressions as polynomials at a place of a kernel (poly.h): a variable with one value is
** replaced by that value; parameters and counters of the loops around are symbols.
*/
#include "kernel/facts/poly.h"

int fl_kpoly_is_uniform(const void *indices, int32_t s) {
  const fl_kindices *k = indices;
  if (s >= FL_KSYM_QUOTIENT) {
    const fl_kquotient *q = fl_kquotient_of(k, s);
    return fl_kpoly_all(&q->a, fl_kpoly_is_uniform, k) &&
           fl_kterm_all(&q->m, fl_kpoly_is_uniform, k);
  }
  if (s >= FL_KSYM_VAR)
    return !fl_kdef_is_counter(k->defs, s - FL_KSYM_VAR) &&
           k->uniform->level[s - FL_KSYM_VAR] == FL_KEQUAL_GRID;
  return s >= FL_KSPECIAL_BDIM_X && s < FL_KSPECIAL_COUNT;
}

/* here: number of the statement that holds the expression, if parts that are no polynomials get
** symbols; -1: such parts make it 'bad'. */
typedef struct asked { const fl_kindices *k; fl_kplace at; int32_t here; } asked;

static fl_kpoly expand(const asked *q, const fl_kexpr *x, int depth);

/* Is the place in the body of the loop? (The place of a value that is computed before the loop is
** not.) */
static int in_loop(const asked *q, int32_t loop) {
  for (int i = 0; i < q->at.n_loops; i++)
    if (q->at.loops[i] == loop) return q->at.order > q->k->defs->loop_order[loop];
  return 0;
}

static fl_kpoly expand_var(const fl_kreader *r, int32_t var, int depth) {
  const asked *q = r->arg;
  const fl_kdefs *defs = q->k->defs;
  const fl_kdef *v = &defs->var[var];
  if (v->zero) return fl_kpoly_number(0);
  if (fl_kdef_at(defs, var, q->at.order)) {
    asked there = *q;
    there.at.order = v->order;
    return expand(&there, v->value, depth + 1);
  }
  if (fl_kdef_is_given(defs, var) || (fl_kdef_is_counter(defs, var) && in_loop(q, v->step_loop)))
    return fl_kpoly_symbol(FL_KSYM_VAR + var);
  return (fl_kpoly){ .bad = 1 };
}

static fl_kpoly unknown(const asked *q, const fl_kexpr *x) {
  const int32_t order = q->at.order == q->here ? 0 : q->at.order;
  fl_kunknown **const all = q->k->unknown;
  for (const fl_kunknown *u = *all; u; u = u->next)
    if (u->order == order && fl_kexpr_same(u->x, x)) return fl_kpoly_symbol(u->symbol);
  fl_kunknown *u = fl_karena_new(q->k->quotients->a, sizeof *u);
  if (!u) return (fl_kpoly){ .bad = 1 };
  *u = (fl_kunknown){ x, order, *all ? (*all)->symbol + 1 : FL_KSYM_UNKNOWN, *all };
  *all = u;
  return fl_kpoly_symbol(u->symbol);
}

int fl_kplace_agrees(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x) {
  return at->same == FL_KSAME_IN_GRID ? fl_kuniform_in_grid(k, x)
       : at->same == FL_KSAME_IN_BLOCK && fl_kuniform_in_block(k, x);
}

/* The polynomial of an expression that is not a sum or product: for fl_kpoly_guess a separate
** symbol; else FL_KSYM_SAME if its value is the same in the threads that are compared, or 'bad'. */
static fl_kpoly expand_other(const fl_kreader *r, const fl_kexpr *x) {
  const asked *q = r->arg;
  if (q->here >= 0 && fl_kt_is_int(x->type)) return unknown(q, x);
  const int agrees = fl_kt_is_int(x->type) && fl_kplace_agrees(q->k, &q->at, x);
  return agrees ? fl_kpoly_symbol(FL_KSYM_SAME) : (fl_kpoly){ .bad = 1 };
}

static fl_kpoly expand(const asked *q, const fl_kexpr *x, int depth) {
  const fl_kreader r = { expand_var, expand_other, q->here < 0 ? q->k->quotients : NULL, q };
  return fl_kform_read(&r, x, depth);
}

static fl_kpoly joined(const asked *q, const fl_kexpr *x) {
  fl_kpoly p = expand(q, x, 0);
  if (!p.bad) fl_kpoly_join(&p);
  return p;
}

fl_kpoly fl_kpoly_of(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x) {
  return joined(&(asked){ k, *at, -1 }, x);
}

fl_kpoly fl_kpoly_guess(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x) {
  return joined(&(asked){ k, *at, at->order }, x);
}
