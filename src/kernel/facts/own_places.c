/*
** One element accessed at two places. The proof of own.c for one place holds for both if both
** indices are the same function of the thread and of counters that begin and step alike, and if it
** uses only conditions that hold at both. Two indices that stay in one strip of a thread need not
** be the same function: the strip is the thread's. In
**   int q = i / s, r = i % s;   x[q * (3 * s) + r], x[q * (3 * s) + r + 2 * s]
** the digits r (stride 1, below s) and q (stride 3 s) determine the thread. Between them is room
** for one more digit v of stride s that is below 3: both indices are of the strip of unit s, with
** v = 0 and 2.
*/
#include "kernel/facts/own.h"

typedef fl_kown_search search;

static int is_around(const search *w, int32_t loop) {
  for (int i = 0; i < w->r.at.n_loops; i++)
    if (w->r.at.loops[i] == loop && loop >= 0) return 1;
  return 0;
}

/* Do counter u at a's place and counter v at b's have the same type, first value and step? */
static int are_alike(const search *a, int32_t u, const search *b, int32_t v) {
  const fl_kvar *vars = a->r.k->f->vars;
  fl_kpoly first, step, other, by;
  return is_around(a, a->r.k->defs->var[u].step_loop) && vars[u].type == vars[v].type &&
         fl_kroute_counts(&a->r, FL_KSYM_VAR + u, &first, &step) &&
         fl_kroute_counts(&b->r, FL_KSYM_VAR + v, &other, &by) &&
         fl_kpoly_same(&first, &other) && fl_kpoly_same(&step, &by);
}

/* Is symbol s no counter: an index of the thread, a size of the launch or a parameter? */
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

/* The polynomial of x, as evaluated at place 'order' before b's access, in the symbols (counters)
** of a's place. */
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

/* Is x, evaluated at place 'order' before a's access, the same polynomial as y at 'then' before
** b's? */
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

/* ---- strips ----------------------------------------------------------------------------- */

/* Is s an index of the thread, or made of one: a quotient of it, or a counter that begins at it? */
static int is_of_thread(const search *w, int32_t s) {
  if (s < FL_KSYM_VAR) return fl_ksym_is_number(s);
  if (s < FL_KSYM_QUOTIENT) return fl_kroute_counter(&w->r, s - FL_KSYM_VAR) >= 0;
  const fl_kquotient *q = fl_kquotient_of(w->r.k, s);
  for (int i = 0; i < q->a.n; i++)
    for (int j = 0; j < q->a.t[i].n; j++)
      if (is_of_thread(w, q->a.t[i].s[j])) return 1;
  return 0;
}

/* Moves the terms of p with an index of the thread to *core. */
static void take_core(const search *w, fl_kpoly *p, fl_kpoly *core) {
  *core = (fl_kpoly){ 0 };
  for (int i = p->n - 1; i >= 0; i--)
    for (int j = 0; j < p->t[i].n; j++) {
      if (!is_of_thread(w, p->t[i].s[j])) continue;
      fl_kpoly_add(core, p->t[i]);
      p->t[i] = p->t[--p->n];
      break;
    }
}

/* Divides each term of p by the term 'by'; those that are not multiples of it are moved to *core.
** Returns 0 if one of these may differ between threads or iterations, or if p is 'bad'. */
static int divide_all(const fl_kindices *k, fl_kpoly *p, const fl_kterm *by, fl_kpoly *core) {
  for (int i = p->n - 1; i >= 0; i--) {
    int ok;
    fl_kterm q = fl_kterm_ratio(&p->t[i], by, &ok);
    if (ok && (p->t[i].c < 0) != (by->c < 0)) q.c = -q.c;
    if (!ok && !fl_kterm_all(&p->t[i], fl_kpoly_is_uniform, k)) return 0;
    if (!ok) fl_kpoly_add(core, p->t[i]);
    p->t[i] = ok ? q : p->t[--p->n];
  }
  return !p->bad;
}

static int is_constant(const fl_kpoly *p, int64_t *c) {
  *c = p->n ? p->t[0].c : 0;
  return !p->bad && (!p->n || (p->n == 1 && !p->t[0].n));
}

/* Sets the bounds of v where it is a number, or the sum of a number and a counter that begins and
** steps by numbers; else there are none. */
static void find_bounds(const search *w, fl_kpoly v, fl_kstrip *strip) {
  fl_kpoly first, step;
  int64_t from, by;
  const int64_t c = fl_kpoly_take_constant(&v);
  strip->least = v.n ? INT64_MIN : c;
  strip->most = v.n ? INT64_MAX : c;
  if (v.n != 1 || v.t[0].n != 1 || v.t[0].c != 1 || c < -INT32_MAX || c > INT32_MAX ||
      !fl_kroute_counts(&w->r, v.t[0].s[0], &first, &step) || !is_constant(&first, &from) ||
      !is_constant(&step, &by) || from < -INT32_MAX || from > INT32_MAX) return;
  if (by > 0) strip->least = c + from;
  if (by < 0) strip->most = c + from;
}

/* An index core + rest: n digits of the core, which determine the thread (owned: FL_KI_OWNED_…),
** with room for one more, and the strips that are found. */
typedef struct numeral {
  search *w;
  fl_kdigit d[FL_KPOLY_TERMS + 1];
  int n, owned;
  fl_kpoly core, rest;
  fl_kstrip *out;
} numeral;

/* Do the digits and the rest / unit (v), as one more digit, form a chain? Where v is 0 and unit 1,
** the digits alone may. */
static int is_strip(numeral *x, const fl_kterm *unit, const fl_kpoly *v, fl_klimits *used) {
  x->w->r.used = used;
  x->d[x->n] = (fl_kdigit){ .s = -1, .kind = FL_KDIGIT_OFFSET, .stride = *unit, .unit = v };
  return fl_kroute_is_chain(&x->w->r, x->d, x->n + 1) ||
         (!v->n && unit->c == 1 && !unit->n && fl_kroute_is_chain(&x->w->r, x->d, x->n));
}

/* Adds the strip of the elements core + v * unit to the list, if the index stays in it and there is
** room. */
static void add_strip(numeral *x, const fl_kterm *unit) {
  const fl_kindices *k = x->w->r.k;
  const fl_kterm mark = { 1, 1, { FL_KSYM_SAME } };         /* tells the unit from the core */
  fl_kpoly v = x->rest, key = x->core;
  int at = 0, ok = 1;
  while (at < FL_KSTRIPS && x->out[at].number) at++;
  for (int i = 0; i < x->n && (unit->n || unit->c != 1); i++)
    if (fl_kterm_equal(&x->d[i].stride, unit)) return;   /* a digit has it: no room for v */
  if (at == FL_KSTRIPS || !divide_all(k, &v, unit, &key)) return;
  if (!is_strip(x, unit, &v, NULL)) {
    const int wanted = v.n || x->n == 1 || (!unit->n && unit->c == 1);   /* worth a limit */
    if (!k->launched || !wanted) return;
    fl_klimits more = *k->used;
    if (!is_strip(x, unit, &v, &more)) return;
    *k->used = more;
  }
  fl_kpoly_add(&key, fl_kterm_product(unit, &mark, &ok));
  if (!ok || key.bad) return;
  find_bounds(x->w, v, &x->out[at]);
  x->out[at].number = fl_kpolys_number(k->seen, &key);
}

/* Adds strips whose unit is above digit i: its stride times a bound that it does not reach, the
** divisor of a remainder or a parameter. */
static void add_above(numeral *x, int i) {
  const fl_kindices *k = x->w->r.k;
  int ok;
  if (x->d[i].kind == FL_KDIGIT_REM) {
    const fl_kterm unit = fl_kterm_product(&x->d[i].stride, &x->d[i].bound, &ok);
    if (ok) add_strip(x, &unit);
    return;
  }
  for (int32_t v = 0; v < k->f->n_vars; v++) {
    const fl_kterm size = { 1, 1, { FL_KSYM_VAR + v } };
    if (k->f->vars[v].kind != FL_KV_LOCAL || k->f->vars[v].param < 0 ||
        !fl_kdef_is_given(k->defs, v)) continue;
    const fl_kterm unit = fl_kterm_product(&x->d[i].stride, &size, &ok);
    if (ok) add_strip(x, &unit);
  }
}

/* Are strides, divisors and divided units made of indices of the thread and of numbers that are the
** same in all threads and iterations? A divisor or a stride that changes from round to round of a
** loop would make another index of the digits. */
static int are_steady(const numeral *x) {
  const fl_kindices *k = x->w->r.k;
  for (int i = 0; i < x->n; i++) {
    const fl_kdigit *d = &x->d[i];
    const fl_kterm *const of[] = { &d->stride, &d->low, &d->high, &d->bound };
    for (int j = 0; j < 4; j++)
      if (!fl_kterm_all(of[j], fl_kpoly_is_uniform, k)) return 0;
    for (int t = 0; d->kind != FL_KDIGIT_SYMBOL && t < d->unit->n; t++)
      for (int j = 0; j < d->unit->t[t].n; j++)
        if (!fl_ksym_is_number(d->unit->t[t].s[j]) && !fl_kpoly_is_uniform(k, d->unit->t[t].s[j]))
          return 0;
  }
  return 1;
}

/* Splits index p into core and rest, and finds the digits of the core. Returns whether they
** determine the thread as 'needed' (FL_KI_OWNED_…) says. */
static int find_digits(numeral *x, const fl_kpoly *p, int needed) {
  const fl_kindices *k = x->w->r.k;
  x->rest = *p;
  take_core(x->w, &x->rest, &x->core);
  if (!x->core.n || x->core.bad || !fl_kown_digits(x->w, &x->core, x->d, &x->n) ||
      x->n == FL_KPOLY_TERMS || !are_steady(x)) return 0;
  x->owned = fl_kown_prove_digits(x->w, x->d, x->n, NULL);
  if (x->owned & needed || !k->launched) return (x->owned & needed) != 0;
  fl_klimits more = *k->used;
  x->owned = fl_kown_prove_digits(x->w, x->d, x->n, &more);
  if (x->owned & needed) *k->used = more;
  return (x->owned & needed) != 0;
}

void fl_kindex_strips(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index, int needed,
                      fl_kstrip *out) {
  static const fl_kterm one = { 1, 0, { 0 } };
  search w = { .r = { .k = k, .goal = s } };
  numeral x = { .w = &w, .out = out };
  if (!fl_kroute_reaches(&w.r, index)) return;
  const fl_kpoly p = fl_kpoly_of(k, &w.r.at, index);
  if (p.bad || p.cut || !find_digits(&x, &p, needed)) return;
  if (p.wraps && (x.n > 1 || x.d[0].kind != FL_KDIGIT_SYMBOL)) return;
  add_strip(&x, &one);
  for (int i = 0; i < x.n && !p.wraps; i++) add_above(&x, i);
  if (out->number || p.wraps || !fl_kpoly_all(&x.rest, fl_kpoly_is_uniform, k)) return;
  x.core = p;                                       /* the rest is one more part of the core */
  x.rest.n = 0;
  add_strip(&x, &one);
}
