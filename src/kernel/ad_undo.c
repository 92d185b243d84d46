/*
** Loops that overwrite elements of an array in global memory, each once, and are its first writers: before a
** round its elements are those of the launch's argument (zeros of a fresh output). Going back, each round takes
** its stores back first, so the array is what it was before the round. The place of a store must be known from
** the loop's counters alone.
*/
#include "kernel/ad_loop.h"

typedef struct undo { fl_kloop *l; int var, n, ok; fl_kad_affine first; int64_t least, most; } undo;

static int count_writes(const fl_kblock *b, int v) {
  int n = 0;
  for (const fl_kstmt *s = b->first; s; s = s->next)
    n += ((s->kind == FL_KS_STORE || s->kind == FL_KS_ATOMIC) && s->var == v)
       + count_writes(&s->body, v) + count_writes(&s->other, v);
  return n;
}

/* Is v written by nothing that may stand before the loop? */
static int is_first_writer(const fl_kblock *b, const fl_kstmt *loop, int v) {
  for (const fl_kstmt *s = b->first; s; s = s->next) {
    if (s == loop) return 1;
    const int in_body = fl_kloop_holds(&s->body, loop);
    if (in_body || fl_kloop_holds(&s->other, loop))
      return s->kind != FL_KS_LOOP && is_first_writer(in_body ? &s->body : &s->other, loop, v);
    const fl_kblock parts[] = {s->body, s->other};
    if (((s->kind == FL_KS_STORE || s->kind == FL_KS_ATOMIC) && s->var == v)
        || count_writes(&parts[0], v) + count_writes(&parts[1], v)) return 0;
  }
  return 0;
}

static int assignments(const fl_kblock *b, int v, const fl_kstmt **one) {
  int n = 0;
  for (const fl_kstmt *s = b->first; s; s = s->next) {
    if (s->kind == FL_KS_ASSIGN && s->var == v) *one = s, n++;
    n += 2 * (s->result == v) + assignments(&s->body, v, one) + assignments(&s->other, v, one);
  }
  return n;
}

static int is_at_top(const fl_kloop *l, const fl_kstmt *goal) {
  for (const fl_kstmt *s = l->s->body.first; s; s = s->next)
    if (s == goal) return 1;
  return 0;
}

/* x by the loop's counters and what it does not change; NULL: it is not. */
static fl_kexpr *by_counters(const fl_kloop *l, fl_kexpr *x, int depth) {
  const fl_kstmt *one = NULL;
  if (x->kind == FL_KX_LOAD || depth > 20) return NULL;
  if (x->kind == FL_KX_VAR && fl_kset_has(l->all, x->var)) {
    for (int i = 0; i < l->n_counters; ++i)
      if (l->counter[i].var == x->var) return x;
    if (assignments(&l->s->body, x->var, &one) + assignments(&l->s->other, x->var, &one) != 1) return NULL;
    return one && is_at_top(l, one) ? by_counters(l, one->x[0], depth + 1) : NULL;
  }
  fl_kexpr *r = fl_karena_new(l->d->a, sizeof *r);
  if (!r) return NULL;
  *r = *x;
  for (int i = 0; i < x->n; ++i)
    if (!(r->x[i] = by_counters(l, x->x[i], depth + 1))) return NULL;
  return r;
}

static int see_store(void *arg, fl_kstmt *s) {
  undo *u = arg;
  fl_kloop *l = u->l;
  if ((s->kind != FL_KS_STORE && s->kind != FL_KS_ATOMIC) || s->var != u->var) return 1;
  const int known = s->site >= 0 && s->site < l->d->n_sites0 && l->s->label >= 0 && l->s->label < 64;
  const fl_kad_affine a = fl_kad_split(s->x[0]);
  if (!u->n++) u->first = a, u->least = u->most = a.add;
  if (a.add < u->least) u->least = a.add;
  if (a.add > u->most) u->most = a.add;
  const int plain = known && s->kind == FL_KS_STORE && is_at_top(l, s) && a.core && u->first.core;
  fl_kexpr *at = plain ? by_counters(l, s->x[0], 0) : NULL;
  if (!at || !(l->d->site_rounds[s->site] >> l->s->label & 1) || a.mul != u->first.mul
      || !fl_kexpr_same(a.core, u->first.core) || u->most - u->least >= (a.mul < 0 ? -a.mul : a.mul)
      || l->n_undo == FL_KLOOP_UNDO) u->ok = 0;
  else l->undo[l->n_undo++] = (struct fl_kloop_undo){u->var, -1, at};
  return 1;
}

int fl_kloop_can_undo(fl_kloop *l, int v) {
  fl_kad_state *d = l->d;
  const int before = l->n_undo, param = d->f->vars[v].param;
  undo u = {.l = l, .var = v, .ok = !l->barrier && d->f->vars[v].kind == FL_KV_POINTER && param >= 0};
  const fl_kvisitor see = {see_store, NULL, &u};
  if (!u.ok || (d->f->params[param].is_struct && !d->f->params[param].is_pointer)
      || !is_first_writer(&d->body, l->s, v)) return 0;
  fl_kwalk_stmt(&see, l->s);
  if (!u.ok) {
    l->n_undo = before;
    return 0;
  }
  int original = -1;
  if (!(d->r->want[param] & FL_KAD_FRESH)) {
    original = fl_kad_param_new(d, FL_KAD_ORIGINAL, v, "original_", d->f->vars[v].type, 1, 1);
    if (original < 0) return 0;
  }
  for (int i = before; i < l->n_undo; ++i) l->undo[i].original = original;
  return 1;
}

void fl_kloop_undo_round(fl_kloop *l, fl_kblock *b) {
  fl_kad_state *d = l->d;
  for (int i = 0; i < l->n_undo; ++i) {
    const struct fl_kloop_undo *u = &l->undo[i];
    fl_kstmt_store(d->f, b, u->var, u->at, u->original < 0 ? fl_kexpr_zero(d->a, d->f->vars[u->var].type)
                                                           : fl_kexpr_load(d->f, u->original, u->at));
  }
}
