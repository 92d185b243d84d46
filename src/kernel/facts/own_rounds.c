/*
** Two accesses in one loop: which iterations reach one element (access.h: is_behind, is_next,
** is_first, in_one_round). The indices are polynomials in one counter of the loop, which steps by
** one term.
*/
#include "kernel/facts/own.h"
#include <stdlib.h>

typedef fl_kown_search search;

/* ---- reads of later elements than writes ----------------------------------------------- */

/* Is |m| certainly at least 1? It is if m is a constant other than 0, or an index of the thread is
** known to be below |m|. */
static int is_positive(const fl_kroute *r, fl_kterm m) {
  if (!m.n) return m.c != 0;
  if (m.c < 0) m.c = -m.c;
  for (int axis = 0; axis < 3; axis++)
    if (fl_kroute_stays_below(r, FL_KSYM_GLOBAL + axis, &m) ||
        fl_kroute_stays_below(r, FL_KSPECIAL_TID_X + axis, &m)
        || fl_kroute_stays_below(r, FL_KSPECIAL_BID_X + axis, &m)) return 1;
  return 0;
}

/* Does symbol s differ between iterations of the loop? */
static int changes(const fl_kindices *k, int32_t s, int32_t loop) {
  if (s < FL_KSYM_QUOTIENT)
    return s >= FL_KSYM_VAR && fl_kdef_is_counter(k->defs, s - FL_KSYM_VAR) &&
           k->defs->var[s - FL_KSYM_VAR].step_loop == loop;
  const fl_kquotient *q = fl_kquotient_of(k, s);
  int any = 0;
  for (int i = 0; i < q->a.n; i++)
    for (int j = 0; j < q->a.t[i].n; j++) any |= changes(k, q->a.t[i].s[j], loop);
  for (int j = 0; j < q->m.n; j++) any |= changes(k, q->m.s[j], loop);
  return any;
}

/* An index that changes with a loop: rest + times * counter; each iteration adds 'step' to the
** counter. */
typedef struct moving { int32_t counter; fl_kterm times, step; } moving;

/* Is p an index that changes with the loop ('moving')? The loop must be the innermost around the
** place of the access, w->r.at. */
static int is_moving(const search *w, const fl_kpoly *p, int32_t loop, moving *m) {
  int n = 0;
  for (int i = 0; i < p->n; i++)
    for (int j = 0; j < p->t[i].n; j++) {
      const int32_t s = p->t[i].s[j];
      if (!changes(w->r.k, s, loop)) continue;
      if (s >= FL_KSYM_QUOTIENT || n++) return 0;
      const fl_kpoly step = fl_kroute_step(&w->r, s - FL_KSYM_VAR);
      if (step.bad || step.n != 1) return 0;
      *m = (moving){ s, p->t[i], step.t[0] };
      fl_kterm_drop(&m->times, s);
    }
  return n && w->r.at.n_loops && w->r.at.loops[w->r.at.n_loops - 1] == loop;
}

/* Is p an index that moves with the loop, of a counter with a constant step? *move: what each
** iteration adds to p. */
static int moving_term(const search *w, const fl_kpoly *p, int32_t loop, fl_kterm *move) {
  moving m;
  if (!is_moving(w, p, loop, &m) || m.step.n) return 0;
  *move = m.times;
  return !__builtin_mul_overflow(move->c, m.step.c, &move->c);
}

/* Two accesses whose indices move with a loop: *apart is the index of 'read' less that of 'write',
** *move what each iteration adds to the latter. 0: they are not such, or differ by more than one
** term. */
static int move_along(const fl_kindices *k, search *a, search *b, const fl_kaccess_at *read,
                      const fl_kaccess_at *write, int32_t loop, fl_kpoly *apart, fl_kterm *move) {
  fl_kterm other;
  if (!fl_kroute_is_place(&a->r) || !fl_kroute_is_place(&b->r)) return 0;
  *apart = fl_kpoly_of(k, &a->r.at, read->index);
  const fl_kpoly q = fl_kpoly_of(k, &b->r.at, write->index);
  if (apart->bad || q.bad || !moving_term(b, &q, loop, move) ||
      !moving_term(a, apart, loop, &other)) return 0;
  fl_kpoly_subtract(apart, &q);
  return !apart->bad && apart->n <= 1;
}

int fl_kindex_is_behind(const fl_kindices *k, const fl_kaccess_at *read, const fl_kaccess_at *write,
                        int32_t loop) {
  search a = { .r = { .k = k, .goal = read->s } }, b = { .r = { .k = k, .goal = write->s } };
  fl_kterm move;
  fl_kpoly p;
  if (!move_along(k, &a, &b, read, write, loop, &p, &move)) return 0;
  if (!p.n) return write->s != read->s && b.r.at.order < a.r.at.order && is_positive(&b.r, move);
  if (!fl_kterm_same(&p.t[0], &move) || !is_positive(&b.r, move)) return 0;
  return p.t[0].c % move.c != 0 || (p.t[0].c < 0) != (move.c < 0);
}

int fl_kindex_is_next(const fl_kindices *k, const fl_kaccess_at *read, const fl_kaccess_at *write,
                      int32_t loop) {
  search a = { .r = { .k = k, .goal = read->s } }, b = { .r = { .k = k, .goal = write->s } };
  fl_kterm move;
  fl_kpoly p;
  return move_along(k, &a, &b, read, write, loop, &p, &move) && p.n == 1 &&
         fl_kterm_same(&p.t[0], &move) && p.t[0].c == -move.c;
}

int fl_kindex_is_first(const fl_kindices *k, const fl_kaccess_at *read, const fl_kaccess_at *write,
                       int32_t loop) {
  search a = { .r = { .k = k, .goal = read->s } }, b = { .r = { .k = k, .goal = write->s } };
  fl_kpoly first, step, times = { 0 };
  moving m;
  if (!fl_kroute_is_place(&a.r) || !fl_kroute_is_place(&b.r)) return 0;
  fl_kpoly p = fl_kpoly_of(k, &a.r.at, read->index);
  const fl_kpoly q = fl_kpoly_of(k, &b.r.at, write->index);
  if (p.bad || q.bad || !is_moving(&a, &p, loop, &m) ||
      !fl_kroute_counts(&a.r, m.counter, &first, &step)) return 0;
  fl_kpoly_add(&times, m.times);
  const fl_kpoly count = fl_kpoly_symbol(m.counter), now = fl_kpoly_product(&times, &count),
                 then = fl_kpoly_product(&times, &first);
  fl_kpoly_subtract(&p, &now);                          /* p - now + then = q? */
  fl_kpoly_subtract(&p, &q);
  for (int i = 0; i < then.n; i++) fl_kpoly_add(&p, then.t[i]);
  return !p.bad && !then.bad && !p.n;
}

/* ---- elements of one round -------------------------------------------------------------- */

/* Are rest + times * a and rest + times * b + e different for any two different values a, b of the
** loop's counter? They are if |e| is smaller than the change of one iteration, or if the counter is
** not negative and below e / times at both accesses. */
static int keeps_off(const search *w, const search *other, const moving *m, const fl_kterm *e) {
  int ok;
  int64_t move;
  const fl_kterm bound = fl_kterm_ratio(e, &m->times, &ok);
  if (ok && fl_kroute_stays_below(&w->r, m->counter, &bound) &&
      fl_kroute_stays_below(&other->r, m->counter, &bound))
    return 1;
  if (e->n || m->times.n || !fl_kroute_is_nonzero(&w->r, &m->step) ||
      __builtin_mul_overflow(m->times.c, m->step.c, &move))
    return 0;
  return move != INT64_MIN && llabs(e->c) < llabs(move);
}

int fl_kindex_in_one_round(const fl_kindices *k, const fl_kaccess_at *p, const fl_kaccess_at *q,
                           int32_t loop) {
  search a = { .r = { .k = k, .goal = p->s } }, b = { .r = { .k = k, .goal = q->s } };
  moving m, other;
  if (!fl_kroute_is_place(&a.r) || !fl_kroute_is_place(&b.r)) return 0;
  const fl_kpoly x = fl_kpoly_of(k, &a.r.at, p->index);
  fl_kpoly y = fl_kpoly_of(k, &b.r.at, q->index);
  if (x.bad || y.bad || !is_moving(&a, &x, loop, &m) || !is_moving(&b, &y, loop, &other)) return 0;
  if (m.counter != other.counter || !fl_kterm_equal(&m.times, &other.times)) return 0;
  fl_kpoly_subtract(&y, &x);
  if (y.bad || y.n > 1) return 0;
  return !y.n || keeps_off(&a, &b, &m, &y.t[0]);
}
