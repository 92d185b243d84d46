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

/* What is read. here: for fl_kpoly_guess the place of the statement that holds the expression; -1:
** for fl_kpoly_of. */
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

/* The symbol of x in list 'all', whose symbols are first to last; a new one is added. 'bad': there
** are too many. */
static fl_kpoly symbol_of(const asked *q, const fl_kexpr *x, int32_t order, fl_kunknown **all,
                          int32_t first, int32_t last) {
  for (const fl_kunknown *u = *all; u; u = u->next)
    if (u->order == order && fl_kexpr_same(u->x, x)) return fl_kpoly_symbol(u->symbol);
  const int32_t symbol = *all ? (*all)->symbol + 1 : first;
  fl_kunknown *u = symbol <= last ? fl_karena_new(q->k->quotients->a, sizeof *u) : NULL;
  if (!u) return (fl_kpoly){ .bad = 1 };
  *u = (fl_kunknown){ x, order, symbol, *all };
  *all = u;
  return fl_kpoly_symbol(symbol);
}

/* Do the variables of x have fixed values at the place, in one iteration of the loops around it? */
static int is_fixed(const asked *q, const fl_kexpr *x) {
  const fl_kdefs *defs = q->k->defs;
  if (x->kind == FL_KX_VAR && !fl_kdef_is_given(defs, x->var) &&
      !fl_kdef_at(defs, x->var, q->at.order) &&
      !(fl_kdef_is_counter(defs, x->var) && in_loop(q, defs->var[x->var].step_loop))) return 0;
  for (int i = 0; i < x->n; i++)
    if (!is_fixed(q, x->x[i])) return 0;
  return 1;
}

int fl_kplace_agrees(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x) {
  return at->same == FL_KSAME_IN_GRID ? fl_kuniform_in_grid(k, x)
       : at->same == FL_KSAME_IN_BLOCK && fl_kuniform_in_block(k, x);
}

/* The polynomial of an expression that fl_kform_read does not read: for fl_kpoly_guess a symbol
** UNKNOWN; else a symbol SAME if its value is equal in the threads that are compared, or 'bad'. */
static fl_kpoly expand_other(const fl_kreader *r, const fl_kexpr *x) {
  const asked *q = r->arg;
  if (!fl_kt_is_int(x->type)) return (fl_kpoly){ .bad = 1 };
  if (q->here >= 0)
    return symbol_of(q, x, q->at.order == q->here ? 0 : q->at.order, q->k->unknown,
                     FL_KSYM_UNKNOWN, INT32_MAX);
  if (!fl_kplace_agrees(q->k, &q->at, x)) return (fl_kpoly){ .bad = 1 };
  return symbol_of(q, x, is_fixed(q, x) ? 0 : q->at.order, q->k->equal, FL_KSYM_SAME,
                   FL_KSYM_VAR - 1);
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
