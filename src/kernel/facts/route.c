/*
** The conditions and loops around a statement (route.h), and the bounds of digits that follow. A
** condition that was stored in a variable is evaluated at the place where the variable was set.
*/
#include "kernel/facts/route.h"
#include <stdlib.h>
#include <string.h>

typedef fl_kroute route;

/* ---- conditions ------------------------------------------------------------------------- */

static void learn(route *r, const fl_kexpr *c, int truth, int32_t order) {
  if (c->kind == FL_KX_VAR) {               /* a condition that was computed earlier and stored in a
                                            ** variable */
    const fl_kdef *v = &r->k->defs->var[c->var];
    if (fl_kdef_at(r->k->defs, c->var, order)) learn(r, v->value, truth, v->order);
    return;
  }
  if (c->kind == FL_KX_UNARY && c->op == FL_KO_NOT) { learn(r, c->x[0], !truth, order); return; }
  if (c->kind == FL_KX_BINARY && c->op == (truth ? FL_KO_LAND : FL_KO_LOR)) {
    learn(r, c->x[0], truth, order);
    learn(r, c->x[1], truth, order);
    return;
  }
  if (r->n == FL_KROUTE_FACTS) return;
  r->cond[r->n] = c;
  r->order[r->n] = order;
  r->truth[r->n++] = (uint8_t)truth;
}

/* Learns from the exits before the statement at position i in its block, and notes the block's loop
** and conditions, of all blocks from the outermost on. */
static void enter(route *r, const fl_kspots *t, int32_t i) {
  const fl_kspot *p = &t->at[i];
  if (p->around >= 0) {
    const fl_kstmt *s = t->at[p->around].s;
    const int32_t inside = p->begin + 1;
    enter(r, t, p->around);
    if (s->kind == FL_KS_IF) learn(r, s->x[0], !p->other, inside);
    if (s->kind == FL_KS_LOOP) {                    /* the loop's own condition holds in its body */
      if (s->x[0] && !s->post && !p->other) learn(r, s->x[0], 1, inside);
      if (r->at.n_loops < FL_KPOLY_LOOPS)
        r->at.loops[r->at.n_loops++] = p->other ? -1 : s->label;       /* -1: in the loop's step */
    }
  }
  for (int32_t e = p->first; e >= 0 && e < i; e = t->at[e].next)
    learn(r, t->at[e].s->x[0], 0, e + 1);
}

int fl_kroute_find(fl_kroute *r) {
  fl_kindices *k = (fl_kindices *)(uintptr_t)r->k;      /* a cache: the answers stay the same */
  if (!k->spots) k->spots = fl_kspots_new(&k->arena, k->f->body);
  const int32_t i = k->spots ? fl_kspots_find(k->spots, r->goal) : -1;
  if (i < 0) return 0;
  enter(r, k->spots, i);
  r->at.order = i + 1;
  return 1;
}

int fl_kroute_is_place(fl_kroute *r) {
  return r->goal->kind != FL_KS_LOOP && fl_kroute_find(r) && r->at.n_loops < FL_KPOLY_LOOPS;
}

/* Learns the conditions in x under which 'index', a part of x, is evaluated. Returns how often x
** holds it. */
static int learn_inside(route *r, const fl_kexpr *x, const fl_kexpr *index) {
  int times = x == index;
  for (int i = 0; x && i < x->n && x != index; i++) {
    const int n = r->n;
    if (fl_kis_lazy(x, i))
      learn(r, x->x[0], x->kind == FL_KX_SELECT ? i == 1 : x->op == FL_KO_LAND, r->at.order);
    const int found = learn_inside(r, x->x[i], index);
    if (!found) r->n = n;
    times += found;
  }
  return times;
}

int fl_kroute_reaches(route *r, const fl_kexpr *index) {
  if (!fl_kroute_is_place(r)) return 0;
  const int n = r->n;
  int times = 0;
  for (int i = 0; i < 4 && r->goal->x[i]; i++) times += learn_inside(r, r->goal->x[i], index);
  if (times != 1) r->n = n;                             /* not one place: no conditions of it */
  return 1;
}

/* ---- digits ----------------------------------------------------------------------------- */

typedef fl_kdigit digit;

/* Does low < high imply p < m? The two inequalities may differ only by constants (p + 1 < m, p < m
** - 2). Numbers are signed, so they do not wrap. */
static int shows_below(fl_kpoly low, fl_kpoly high, const fl_kpoly *p, const fl_kterm *m) {
  fl_kpoly_subtract(&low, p);
  fl_kpoly_subtract(&high, &low);
  fl_kterm bound = *m;
  bound.c = -bound.c;
  fl_kpoly_add(&high, bound);
  return !high.bad && (high.n == 0 || (high.n == 1 && high.t[0].n == 0 && high.t[0].c <= 0));
}

/* Adds x to the limits 'used' that a launch must meet for the answer to hold, unless one of them
** implies it. Returns 0 if there is no room for it. */
static int note_limit(fl_klimits *used, fl_klimit x) {
  for (int i = 0; i < used->n; i++) {
    const fl_klimit *o = &used->at[i];
    if (o->which == x.which && o->param == x.param && o->factor <= x.factor) return 1;
  }
  if (used->n == FL_KLIMITS) return 0;
  used->at[used->n++] = x;
  return 1;
}

int fl_kroute_launched(const route *r, int which, int32_t param, int64_t m) {
  const fl_klaunched *l = r->k->launched;
  int64_t most = m;
  if (!l || !r->used || l->extent[which] < 1 || m < 1) return 0;
  if (param >= 0 && (param >= l->n_values || !l->known[param])) return 0;
  if (param >= 0 && __builtin_mul_overflow(m, l->value[param], &most)) return 0;
  return l->extent[which] <= most && note_limit(r->used, (fl_klimit){ which, param, m });
}

/* The parameter that symbol s stands for, if that is a scalar, not in a struct; else NULL. */
static const fl_kvar *parameter(const fl_kindices *k, int32_t s) {
  const fl_kvar *v = s >= FL_KSYM_VAR && s < FL_KSYM_QUOTIENT ? &k->f->vars[s - FL_KSYM_VAR] : NULL;
  return v && v->param >= 0 && v->kind == FL_KV_LOCAL && !k->f->params[v->param].is_struct
         ? v : NULL;
}

/* Is the parameter n that symbol s stands for > 0? The question is put as a limit (fl_klimit): a
** block has at least one thread along x, so threads <= BLOCK * n implies n > 0; and it has at most
** BLOCK threads, so n > 0 implies that limit. */
int fl_kroute_is_positive(const route *r, int32_t s) {
  enum { BLOCK = 1024 };
  const fl_kvar *v = parameter(r->k, s);
  return v && fl_kroute_launched(r, 0, v->param, BLOCK);
}

int fl_kroute_is_nonzero(const route *r, const fl_kterm *t) {
  for (int i = 0; i < t->n; i++)
    if ((t->s[i] < FL_KSPECIAL_BDIM_X || t->s[i] > FL_KSPECIAL_GDIM_Z) &&
        !fl_kroute_is_positive(r, t->s[i])) return 0;
  return t->c != 0;
}

/* In a comparison of unsigned numbers a negative bound m is a large number. Is the comparison c
** signed, or m certainly not negative in the launch? If no launch is given the answer is yes:
** compared() has refused casts that change a sign. */
static int is_no_less(const route *r, const fl_kexpr *c, const fl_kterm *m) {
  const fl_kindices *k = r->k;
  const fl_klaunched *l = k->launched;
  if (!l || fl_ktypes[c->x[0]->type].is_signed) return 1;
  for (int i = 0; i < m->n; i++) {
    const fl_kvar *v = parameter(k, m->s[i]);
    if (m->s[i] < FL_KSYM_SAME || (v && !fl_ktypes[v->type].is_signed)) continue;
    if (!v || v->param >= l->n_values || !l->known[v->param] || l->value[v->param] < 0) return 0;
    if (!note_limit(r->used ? r->used : k->used, (fl_klimit){ FL_KEXTENT_NONE, v->param, 1 }))
      return 0;
  }
  return 1;
}

/* Writes condition i as *low < *high; 0: the condition does not have this form. */
static int compared(const route *r, int i, fl_kpoly *low, fl_kpoly *high) {
  const fl_kexpr *c = r->cond[i];
  if (c->kind != FL_KX_BINARY) return 0;
  int op = c->op, swap = 0;
  if (!r->truth[i]) op = fl_kop_negated(op);
  if (op == FL_KO_GT || op == FL_KO_GE)
    swap = 1, op = op == FL_KO_GT ? FL_KO_LT : FL_KO_LE;
  if (op != FL_KO_LT && op != FL_KO_LE) return 0;
  fl_kplace then = r->at;
  then.order = r->order[i];
  *low = fl_kpoly_of(r->k, &then, c->x[swap]);
  *high = fl_kpoly_of(r->k, &then, c->x[!swap]);
  if (low->bad || high->bad || low->cut || high->cut) return 0;
  if (op == FL_KO_LE) fl_kpoly_add(high, (fl_kterm){ 1, 0, { 0 } });
  return 1;
}

/* The dividend of bound p if p is a quotient by a number, else p: a number that is not negative and
** below p is below the dividend too. */
static const fl_kpoly *dividend(const fl_kindices *k, const fl_kpoly *p) {
  const int32_t s = fl_kpoly_single(p);
  if (s < FL_KSYM_QUOTIENT) return p;
  const fl_kquotient *q = fl_kquotient_of(k, s);
  return q->m.n ? p : &q->a;
}

int fl_kroute_says_below(const route *r, int i, int32_t s, const fl_kterm *m) {
  const fl_kexpr *c = r->cond[i];
  fl_kpoly low, high;
  if (!compared(r, i, &low, &high)) return 0;
  const fl_kpoly p = fl_kpoly_symbol(s);
  if (fl_ktypes[c->x[0]->type].is_signed && shows_below(low, high, &p, m)) return 1;
  if (!fl_kpoly_is(&low, s)) return 0;
  const fl_kpoly *const bound[2] = { &high, dividend(r->k, &high) };
  for (int j = 0; j < 2; j++)
    if (bound[j]->n == 1 && fl_kterm_same(&bound[j]->t[0], m))
      return bound[j]->t[0].c <= m->c && bound[j]->t[0].c > 0 && is_no_less(r, c, m);
  return 0;
}

/* Does condition i, on signed numbers, say that s is not negative? */
static int says_natural(const route *r, int i, int32_t s) {
  fl_kpoly low, high;
  if (!compared(r, i, &low, &high) || !fl_ktypes[r->cond[i]->x[0]->type].is_signed) return 0;
  fl_kpoly_subtract(&high, &low);
  fl_kpoly_add(&high, (fl_kterm){ -1, 1, { s } });
  return !high.bad && (!high.n || (high.n == 1 && !high.t[0].n && high.t[0].c <= 1));
}

int fl_kroute_is_remainder(const route *r, const fl_kpoly *p, fl_kpoly *a, fl_kterm *m) {
  return fl_kpoly_remainder(r->k->quotients, p, a, m) && fl_kpoly_is_natural(a);
}

fl_kpoly fl_kroute_step(const route *r, int32_t var) {
  fl_kpoly step = fl_kpoly_of(r->k, &r->at, r->k->defs->var[var].step);
  fl_kpoly_add(&step, (fl_kterm){ -1, 1, { FL_KSYM_VAR + var } });
  step.bad |= fl_kform_wraps(r->k->f->vars[var].type, &step);
  return step;
}

int fl_kroute_counts(const route *r, int32_t s, fl_kpoly *first, fl_kpoly *step) {
  if (s < FL_KSYM_VAR || s >= FL_KSYM_QUOTIENT || !fl_kdef_is_counter(r->k->defs, s - FL_KSYM_VAR))
    return 0;
  const fl_kdef *v = &r->k->defs->var[s - FL_KSYM_VAR];
  fl_kplace then = r->at;
  then.order = v->order;
  *first = fl_kpoly_of(r->k, &then, v->value);
  *step = fl_kroute_step(r, s - FL_KSYM_VAR);
  return !first->bad && !step->bad;
}

/* Is s certainly not negative? Indices of the thread and sizes of the launch are not. A counter is
** not if a condition says so, or if it steps upwards from a constant >= 0, a sum of such numbers or
** a remainder of one. */
int fl_kroute_not_negative(const route *r, int32_t s) {
  fl_kpoly p, step, a;
  fl_kterm m;
  if (s < FL_KSYM_SAME) return 1;
  if (s >= FL_KSYM_QUOTIENT || !fl_kroute_counts(r, s, &p, &step)) return 0;
  for (int i = 0; i < r->n; i++)
    if (says_natural(r, i, s)) return 1;
  if (!fl_kpoly_is_natural(&step)) return 0;
  if (p.n > 1) return fl_kpoly_is_natural(&p) || fl_kroute_is_remainder(r, &p, &a, &m);
  return p.n == 0 || (p.t[0].c >= 0 &&
                      (p.t[0].n == 0 || (p.t[0].n == 1 && p.t[0].s[0] < FL_KSYM_SAME)));
}

/* Is s a counter that starts below m and steps downwards? */
static int begins_below(const route *r, int32_t s, const fl_kterm *m) {
  fl_kpoly first, step, down = { 0 };
  if (!fl_kroute_counts(r, s, &first, &step)) return 0;
  fl_kpoly_subtract(&down, &step);
  fl_kterm bound = *m;
  bound.c = -bound.c;
  fl_kpoly_add(&first, bound);
  return fl_kpoly_is_natural(&down) && !first.bad && first.n == 1 && !first.t[0].n &&
         first.t[0].c < 0;
}

/* Does the index s of the thread stay below m in this launch? */
static int is_launched_below(const route *r, int32_t s, const fl_kterm *m) {
  const int which = s >= FL_KSYM_GLOBAL ? 6 + s - FL_KSYM_GLOBAL : s - FL_KSPECIAL_TID_X;
  if (!fl_ksym_is_number(s)) return 0;
  if (!m->n) return fl_kroute_launched(r, which, -1, m->c);
  const fl_kvar *v = m->n == 1 ? parameter(r->k, m->s[0]) : NULL;
  return v && fl_kroute_launched(r, which, v->param, m->c);
}

int fl_kroute_stays_below(const route *r, int32_t s, const fl_kterm *m) {
  if (!fl_kroute_not_negative(r, s)) return 0;
  for (int axis = 0; axis < 3; axis++) {
    const fl_kterm dim = { 1, 1, { FL_KSPECIAL_BDIM_X + axis } },
               grid = { 1, 1, { FL_KSPECIAL_GDIM_X + axis } };
    if (s == FL_KSPECIAL_TID_X + axis && fl_kterm_equal(m, &dim)) return 1;
    if (s == FL_KSPECIAL_BID_X + axis && fl_kterm_equal(m, &grid)) return 1;
    if (s == FL_KSPECIAL_TID_X + axis && m->n == 0 && r->k->f->max_threads &&
        m->c >= r->k->f->max_threads)
      return 1;
  }
  for (int i = 0; i < r->n; i++)
    if (fl_kroute_says_below(r, i, s, m)) return 1;
  return begins_below(r, s, m) || is_launched_below(r, s, m);
}

/* Is |a| <= |b|, where the coefficients are positive? The signs of the symbols do not matter: a
** remainder is less than its divisor in magnitude. */
static int is_at_most(const fl_kterm *a, const fl_kterm *b) {
  return fl_kterm_same(a, b) && a->c <= b->c;
}

/* Is 0 <= e < |m|, for a number e, or the sum of a number and a symbol that is below a bound? */
static int offset_below(const route *r, fl_kpoly e, const fl_kterm *m) {
  fl_kpoly first, step;
  const int64_t c = fl_kpoly_take_constant(&e);
  if (!e.n) return c >= 0 && c < m->c && fl_kroute_is_nonzero(r, m);
  if (e.n > 1 || e.t[0].n != 1 || e.t[0].c != 1 || (c > 0 && (m->n || c >= m->c))) return 0;
  const int32_t s = e.t[0].s[0];
  if (c < -INT32_MAX || m->c > INT32_MAX) return 0;
  const fl_kterm left = { m->c - c, 0, { 0 } };
  if (!fl_kroute_stays_below(r, s, m->n ? m : &left)) return 0;
  if (c >= 0) return 1;
  if (!fl_kroute_counts(r, s, &first, &step) || !fl_kpoly_is_natural(&step)) return 0;
  fl_kpoly_add(&first, (fl_kterm){ c, 0, { 0 } });
  return !first.bad && (!first.n || (first.n == 1 && !first.t[0].n && first.t[0].c > 0));
}

static int digit_below(const route *r, const digit *d, const fl_kterm *m) {
  if (d->kind == FL_KDIGIT_OFFSET) return offset_below(r, *d->unit, m);
  if (d->kind == FL_KDIGIT_SYMBOL) return fl_kroute_stays_below(r, d->s, m);
  if (d->kind == FL_KDIGIT_REM) return is_at_most(&d->bound, m);
  /* i / w < h is known, for w > 0, or i < w * h is */
  const int positive = d->high.c > 0 && fl_kroute_is_nonzero(r, &d->high);
  for (int i = 0; i < r->n && positive; i++)
    if (fl_kroute_says_below(r, i, d->s, m)) return 1;
  int ok;
  const fl_kterm whole = fl_kterm_product(&d->high, m, &ok);
  return ok && d->unit->n == 1 && fl_kroute_stays_below(r, d->unit->t[0].s[0], &whole);
}

/* The digits of a chain so far, from the least stride on. */
typedef struct chain { const digit *at[FL_KPOLY_TERMS]; int n; } chain;

/* Is sum p of digits that are not negative below m by a condition: x < w for x = 16 * bx + tx? */
static int sum_below(const route *r, const fl_kpoly *p, const fl_kterm *m) {
  for (int i = 0; i < r->n; i++) {
    fl_kpoly low, high;
    if (!compared(r, i, &low, &high) || !fl_ktypes[r->cond[i]->x[0]->type].is_signed) continue;
    if (shows_below(low, high, p, m)) return 1;
  }
  return 0;
}

/* Is the sum of the chain's digits, each times its stride, less than 'stride'? It is if the last
** digit is below stride / its stride, or if a condition says so of the sum of the last few digits.
** The strides of these may differ by constant factors only: with others, one index could be read as
** digits in two ways. */
static int chain_below(const route *r, const chain *c, const fl_kterm *stride) {
  const digit *last = c->at[c->n - 1];
  fl_kpoly sum = { 0 };
  int ok;
  fl_kterm q = fl_kterm_ratio(stride, &last->stride, &ok);
  if (ok && q.c > 0 && digit_below(r, last, &q)) return 1;
  for (int i = c->n - 1; i >= 0; i--) {
    const digit *x = c->at[i];
    if (x->kind != FL_KDIGIT_SYMBOL || x->stride.c < 0 || !fl_kroute_not_negative(r, x->s))
      return 0;
    ok = 1;
    const fl_kterm by = { 1, 1, { x->s } };
    fl_kpoly_add(&sum, fl_kterm_product(&x->stride, &by, &ok));
    if (!ok || sum.bad) return 0;
    fl_kpoly part = sum;
    for (int j = 0; j < part.n && ok; j++) {
      part.t[j] = fl_kterm_ratio(&part.t[j], &x->stride, &ok);
      ok &= part.t[j].n == 1;
    }
    if (!ok) return 0;
    q = fl_kterm_ratio(stride, &x->stride, &ok);
    if (ok && i < c->n - 1 && q.c > 0 && sum_below(r, &part, &q)) return 1;
  }
  return 0;
}

/* The digit with the least stride of those that are not tried yet: 16 comes before 32, n before
** n * m. -1: all are tried. */
static int least_of(const digit *d, int n, const uint8_t *tried) {
  int least = -1;
  for (int i = 0; i < n; i++) {
    int ok = 1;
    if (tried[i]) continue;
    if (least >= 0) (void)fl_kterm_ratio(&d[least].stride, &d[i].stride, &ok);
    if (ok || d[i].stride.n < d[least].stride.n) least = i;
  }
  return least;
}

int fl_kroute_is_chain(const route *r, const digit *d, int n) {
  chain c = { .n = 0 };
  uint8_t used[FL_KPOLY_TERMS] = { 0 };
  for (int i = 0; i < n && !c.n; i++)
    if (d[i].stride.n == 0 && d[i].stride.c) {
      int least = 1;
      for (int j = 0; j < n; j++)
        if (j != i && d[j].stride.n == 0 && llabs(d[j].stride.c) <= llabs(d[i].stride.c))
          least = 0;
      if (least) c.at[c.n++] = &d[i], used[i] = 1;
    }
  if (!c.n) return 0;
  while (c.n < n) {
    uint8_t tried[FL_KPOLY_TERMS];
    int next;
    memcpy(tried, used, sizeof tried);
    while ((next = least_of(d, n, tried)) >= 0 && !chain_below(r, &c, &d[next].stride))
      tried[next] = 1;
    if (next < 0) return 0;
    used[next] = 1;
    c.at[c.n++] = &d[next];
  }
  return 1;
}

int32_t fl_kroute_counter(const route *r, int32_t var) {
  fl_kpoly first, step;
  if (!fl_kroute_counts(r, FL_KSYM_VAR + var, &first, &step)) return -2;
  if (step.n != 1 || step.t[0].c <= 0) return -2;
  if (step.t[0].n == 0 && fl_kuniform_in_grid(r->k, r->k->defs->var[var].value)) return -1;
  const int32_t base = fl_kpoly_single(&first);
  if (base < 0) return -2;
  for (int axis = 0; axis < 3; axis++) {
    const fl_kterm block = { 1, 1, { FL_KSPECIAL_BDIM_X + axis } };
    const fl_kterm grid = { 1, 2, { FL_KSPECIAL_BDIM_X + axis, FL_KSPECIAL_GDIM_X + axis } };
    if (base == FL_KSYM_GLOBAL + axis && step.t[0].c == 1 && fl_kterm_same(&step.t[0], &grid))
      return base;
    if (base == FL_KSPECIAL_TID_X + axis && step.t[0].c == 1 && fl_kterm_same(&step.t[0], &block))
      return base;
  }
  /* the counter j makes j % step known, which is the index at which it began */
  const int one_step = fl_kterm_all(&step.t[0], fl_kpoly_is_uniform, r->k);
  return fl_ksym_is_number(base) && one_step && fl_kroute_stays_below(r, base, &step.t[0])
         ? base : -2;
}
