/*
** Shared arrays that each iteration of a loop writes again before it reads them, as the tiles of a
** product: they are no part of the loop's state, so no snapshot is taken of them.
**
** Which elements are written follows from the indices of the stores alone. Accepted are a store
** whose index is the same in all iterations, two such stores in the branches of an IF, and an inner
** loop that stores at its counter, from the same start to the same bound,
**   for (e = threadIdx.x; e < 256; e += blockDim.x) tile[e] = x[at + e];
** also nested. Other elements of the array are not written by the loop at all.
*/
#include "kernel/ad/ad_loop.h"

/* The loop, and the counters of n loops inside it that take the same values in all of its
** iterations. */
typedef struct fill { const fl_kloop *l; int n; int32_t counter[4]; } fill;

static int varies(const void *of, const fl_kexpr *x) {
  const fill *c = of;
  if (x->kind == FL_KX_LOAD) return 1;
  if (x->var < 0 || !fl_kset_has(c->l->all, x->var)) return 0;
  for (int i = 0; i < c->n; i++) if (c->counter[i] == x->var) return 0;
  return 1;
}

/* Has x the same values in all iterations? */
static int is_same(const fill *c, const fl_kexpr *x) { return !fl_kexpr_any(x, varies, c); }

static int fills(const fill *c, const fl_kblock *b, const fl_kstmt *s, int v);

static int is_jump(const void *arg, const fl_kstmt *s) {
  (void)arg;
  return s->kind == FL_KS_BREAK || s->kind == FL_KS_CONTINUE || s->kind == FL_KS_LEAVE
      || s->kind == FL_KS_RETURN;
}

/* Does the statement, or one in it, read or write v? */
static int uses(const fill *c, fl_kstmt *s, int v) {
  fl_kusage u = {v, 0, 0, 0, 0, c->l->d};
  const fl_kvisitor see = {fl_kloop_see_usage, NULL, &u};
  fl_kwalk_stmt(&see, s);
  return u.reads + u.sets + u.sums;
}

/* The value that an assignment earlier in block b gives to the counter of the loop s; NULL: there
** is none, or the outer loop assigns to the counter elsewhere too. */
static const fl_kexpr *start_of(const fill *c, const fl_kblock *b, const fl_kstmt *s, int counter) {
  const fl_kstmt *first = NULL;
  const fl_kstmt *loop = c->l->s;
  if (fl_kassigned(&loop->body, counter, NULL) + fl_kassigned(&loop->other, counter, NULL) != 2)
    return NULL;                                          /* one is the step of s */
  for (const fl_kstmt *t = b->first; t && t != s; t = t->next)
    if (t->kind == FL_KS_ASSIGN && t->var == counter) first = t;
  return first ? first->x[0] : NULL;
}

/* Is s, of block b, a loop that stores to the same elements of v each time it runs, without reading
** v? */
static int fills_by_loop(const fill *outer, const fl_kblock *b, const fl_kstmt *s, int v) {
  fill c = *outer;
  fl_kcount n;
  int found = 0;
  if (!fl_kcount_of(c.l->d->f, s, &n) || fl_kblock_any(s->body, is_jump, NULL) ||
      c.n == sizeof c.counter / sizeof *c.counter) return 0;
  const fl_kexpr *start = start_of(&c, b, s, n.step.var);
  if (!start || !is_same(&c, start)) return 0;
  c.counter[c.n++] = n.step.var;
  if (!is_same(&c, s->x[0]) || !is_same(&c, n.step.by)) return 0;
  for (fl_kstmt *t = s->body.first; t; t = t->next) {
    if (fills(&c, &s->body, t, v)) found = 1;
    else if (uses(&c, t, v)) return 0;
  }
  return found;
}

/* Does statement s of block b store to the same elements of v in all iterations, for certain, and
** without reading v? */
static int fills(const fill *c, const fl_kblock *b, const fl_kstmt *s, int v) {
  if (s->kind == FL_KS_STORE && s->var == v && !s->accumulate)
    return is_same(c, s->x[0]) && !fl_kreads(s->x[1], v);
  if (s->kind == FL_KS_LOOP) return fills_by_loop(c, b, s, v);
  if (s->kind != FL_KS_IF || !s->body.first || !s->other.first) return 0;
  const fl_kstmt *x = s->body.last, *y = s->other.last;
  return x->kind == FL_KS_STORE && y->kind == FL_KS_STORE && fills(c, &s->body, x, v)
      && fills(c, &s->other, y, v) && fl_kexpr_same(x->x[0], y->x[0]) && s->body.first == x
      && s->other.first == y && !fl_kreads(s->x[0], v);
}

int fl_kloop_rewrites(const fl_kloop *l, int v) {
  const fill c = {l, 0, {0}};
  fl_kusage u = {v, 0, 0, 0, 0, l->d};
  const fl_kvisitor see = {fl_kloop_see_usage, NULL, &u};
  int begun = 0;
  for (const fl_kblock *b = &l->s->body; b; b = b == &l->s->body ? &l->s->other : NULL)
    for (fl_kstmt *s = b->first; s; s = s->next) {
      if (fills(&c, b, s, v)) {
        if (u.reads) return 0;
        begun = 1;
        continue;
      }
      u.sets = u.sums = 0;
      fl_kwalk_stmt(&see, s);
      if (u.sets || u.sums || (u.reads && !begun)) return 0;
    }
  return begun;
}

int fl_kloop_overwrites(const fl_kloop *l, const fl_kstmt *s) {
  const fill c = {l, 0, {0}};
  for (const fl_kblock *b = &l->s->body; b; b = b == &l->s->body ? &l->s->other : NULL)
    for (const fl_kstmt *t = b->first; t; t = t->next)
      if (t->kind != FL_KS_LOOP && fills(&c, b, t, s->var)) {
        const fl_kstmt *k = t->kind == FL_KS_IF ? t->body.last : t;
        if (fl_kad_steady(l->d, s->x[0]) && fl_kexpr_same(k->x[0], s->x[0])) return 1;
      }
  return 0;
}
