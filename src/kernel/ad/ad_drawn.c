/*
** Atomic operations that the derivative would run again, and whose outcome the order of the threads
** decides: with another order it would find other values than the launch had. That is so if
** - their result is used (outside of loops it is recorded, see record.h), or
** - they write what their thread has, as in atomicExch(&s, t), or
** - several threads change one element by operations that do not commute, as atomicAdd and
**   atomicMax, with no barrier in between.
** Sums, maxima, minima and bits of one kind leave the same in any order.
*/
#include "kernel/ad/ad_state.h"

/* Does the atomic s have the same operands in each thread? Then it leaves the same if it is done
** twice, or in any order. */
static int is_fixed(const fl_kad_state *d, const fl_kstmt *s) {
  for (int i = 1; i < 4; i++)
    if (s->x[i] && !fl_kdef_gives(d->defs, s->x[i], -1)) return 0;
  return 1;
}

static int is_sum(const fl_kstmt *s) { return s->op == FL_KA_ADD || s->op == FL_KA_SUB; }

static int commute(const fl_kad_state *d, const fl_kstmt *s, const fl_kstmt *t) {
  if (is_sum(s) || is_sum(t)) return is_sum(s) && is_sum(t);
  if (s->op != t->op || s->op < FL_KA_EXCH) return s->op == t->op;
  int same = is_fixed(d, s) && is_fixed(d, t);
  for (int i = 1; same && i < 4; i++)
    same = s->x[i] == t->x[i] || (s->x[i] && t->x[i] && fl_kexpr_same(s->x[i], t->x[i]));
  return same;
}

typedef struct drawn {
  const fl_kad_state *d;
  const fl_kstmt *s;
  int met, found;
} drawn;

static void see_meeting(void *arg, int i, int k) {
  drawn *w = arg;
  w->met |= i != k;
}

/* May threads make s and t, which change one array, with no barrier in between? */
static int meet(drawn *w, const fl_kstmt *t) {
  const fl_kstmt *const both[] = { w->s, t };
  const fl_kad_meeting m = { .a = w->d->a, .at = both, .n = 2, .pair = see_meeting, .arg = w };
  w->met = w->d->f->vars[t->var].kind != FL_KV_SHARED;
  if (!w->met) fl_kad_meetings(&m, &w->d->body);
  return w->met;
}

static int see_other(void *arg, fl_kstmt *t) {
  drawn *w = arg;
  if (t == w->s || t->kind != FL_KS_ATOMIC || t->var != w->s->var || commute(w->d, w->s, t))
    return 1;
  const fl_kfact *a = fl_kfact_of(w->d->facts, w->s->site), *b = fl_kfact_of(w->d->facts, t->site);
  if (fl_kfact_is_apart(a, b) || (a->own && b->own && fl_kfact_is_one(a, b))) return 1;
  w->found |= meet(w, t);
  return 1;
}

int fl_kad_is_drawn(fl_kad_state *d, const fl_kstmt *s) {
  const int forward = fl_kad_marks(s) & FL_KN_FORWARD;
  if (s->kind != FL_KS_ATOMIC) return 0;
  if (s->result >= 0 && (forward || d->active[s->result])) {
    fl_kad_refuse(d, s->line, "the result of an atomic operation on '%s' (it depends on the "
                  "order of the threads)", d->f->vars[s->var].source);
    return 1;
  }
  if (!forward) return 0;
  drawn w = { d, s, 0, !commute(d, s, s) && !fl_kfact_of(d->facts, s->site)->own };
  fl_kwalk_block(&(fl_kvisitor){ see_other, NULL, &w }, d->body);
  if (w.found)
    fl_kad_refuse(d, s->line, "what atomic operations leave in '%s' (it depends on the order of "
                  "the threads)", d->f->vars[s->var].source);
  return w.found;
}
