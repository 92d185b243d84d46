/*
** One element accessed at two places. The proof of own.c for one place holds for both if both
** indices are the same function of the thread and of counters that begin and step alike, and if it
** uses only conditions that hold at both.
*/
#include "kernel/facts/own.h"

typedef fl_kown_search search;

static int is_around(const search *w, int32_t loop) {
  for (int i = 0; i < w->r.at.n_loops; i++)
    if (w->r.at.loops[i] == loop && loop >= 0) return 1;
  return 0;
}

/* Do counter u at a's place and counter v at b's have the same first value and step? */
static int are_alike(const search *a, int32_t u, const search *b, int32_t v) {
  const fl_kvar *vars = a->r.k->f->vars;
  fl_kpoly first, step, other, by;
  return is_around(a, a->r.k->defs->var[u].step_loop) && vars[u].type == vars[v].type &&
         fl_kroute_counts(&a->r, FL_KSYM_VAR + u, &first, &step) &&
         fl_kroute_counts(&b->r, FL_KSYM_VAR + v, &other, &by) &&
         fl_kpoly_same(&first, &other) && fl_kpoly_same(&step, &by);
}

/* Is symbol s an index of the thread, a size of the launch or a parameter? */
static int is_no_counter(const void *f, int32_t s) {
  return s < FL_KSYM_VAR ||
         (s < FL_KSYM_QUOTIENT && ((const fl_kfunc *)f)->vars[s - FL_KSYM_VAR].param >= 0);
}

/* The symbol of a's place that corresponds to symbol s of b's place: s itself, or a counter that
** begins and steps as s does; -1: there is none. */
static int32_t twin(const search *a, const search *b, int32_t s) {
  const fl_kindices *k = a->r.k;
  if (s >= FL_KSYM_QUOTIENT) {
    const fl_kquotient *q = fl_kquotient_of(k, s);
    return fl_kpoly_all(&q->a, is_no_counter, k->f) && fl_kterm_all(&q->m, is_no_counter, k->f)
           ? s : -1;
  }
  if (is_no_counter(k->f, s)) return s;
  if (!fl_kdef_is_counter(k->defs, s - FL_KSYM_VAR)) return -1;
  if (is_around(a, k->defs->var[s - FL_KSYM_VAR].step_loop)) return s;
  for (int32_t u = 0; u < k->f->n_vars; u++)
    if (are_alike(a, u, b, s - FL_KSYM_VAR)) return FL_KSYM_VAR + u;
  return -1;
}

/* The polynomial of x at b's place, in the symbols (counters) of a's place. */
static fl_kpoly seen_from(const search *a, const search *b, const fl_kexpr *x, int32_t order) {
  fl_kplace at = b->r.at;
  at.order = order;
  const fl_kpoly p = fl_kpoly_of(b->r.k, &at, x);
  fl_kpoly r = { .bad = p.bad };
  for (int i = 0; i < p.n && !r.bad; i++) {
    fl_kterm t = { p.t[i].c, 0, { 0 } };
    for (int j = 0; j < p.t[i].n; j++) {
      const int32_t s = twin(a, b, p.t[i].s[j]);
      int ok = s >= 0;
      const fl_kterm one = { 1, 1, { s } };
      if (ok) t = fl_kterm_product(&t, &one, &ok);
      r.bad |= !ok;
    }
    fl_kpoly_add(&r, t);
  }
  return r;
}

static int same_from(const search *a, const fl_kexpr *x, int32_t order, const search *b,
                     const fl_kexpr *y, int32_t then) {
  const fl_kpoly p = seen_from(a, a, x, order), q = seen_from(a, b, y, then);
  return !p.bad && !q.bad && fl_kpoly_same(&p, &q);
}

/* Does condition i of a's place hold at b's place as well? */
static int is_common(const search *a, int i, const search *b) {
  const fl_kexpr *c = a->r.cond[i];
  if (c->kind != FL_KX_BINARY || c->n != 2) return 0;
  for (int j = 0; j < b->r.n; j++) {
    const fl_kexpr *o = b->r.cond[j];
    if (o->kind != FL_KX_BINARY || o->op != c->op || a->r.truth[i] != b->r.truth[j] ||
        o->x[0]->type != c->x[0]->type
        || !fl_kt_is_int(o->x[0]->type)) continue;
    if (same_from(a, c->x[0], a->r.order[i], b, o->x[0], b->r.order[j])
        && same_from(a, c->x[1], a->r.order[i], b, o->x[1], b->r.order[j])) return 1;
  }
  return 0;
}

int fl_kindex_owned_by_one(const fl_kindices *k, const fl_kaccess_at *p, const fl_kaccess_at *q) {
  search a = { .r = { .k = k, .goal = p->s } }, b = { .r = { .k = k, .goal = q->s } };
  const fl_ksame any[2] = { FL_KSAME_NONE, FL_KSAME_NONE };
  int n = 0;
  if (!fl_kroute_is_place(&a.r) || !fl_kroute_is_place(&b.r)) return 0;
  if (!same_from(&a, p->index, a.r.at.order, &b, q->index, b.r.at.order)) return 0;
  for (int i = 0; i < a.r.n; i++) {
    if (!is_common(&a, i, &b)) continue;
    a.r.cond[n] = a.r.cond[i];
    a.r.truth[n] = a.r.truth[i];
    a.r.order[n++] = a.r.order[i];
  }
  a.r.n = n;
  return fl_kown_prove(&a, p->index, any);
}
