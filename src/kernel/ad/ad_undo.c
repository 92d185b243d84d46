/*
** Loops whose stores to an array are undone: the reverse code of each iteration first restores the
** array to its state before the iteration. The index of a store must follow from the loop's
** counters and from values that the loop does not change, and differ between iterations. The old
** elements come from one of these:
** - global memory of which the loop is the first writer, each element once: the launch's argument
**   (zeros of a fresh output);
** - else a second array of the same size, in which the iterations of the forward code save them;
**   if several stores may write one element, an array for each store. In shared memory this needs
**   no barrier: between two barriers an element that a thread writes is its own.
*/
#include "kernel/ad/ad_loop.h"

/* The n writes to array var in the loop. ok: all can be undone so far; meets: the FL_KAD_MEETS…
** flags that no write may have; span: the set of their indices. */
typedef struct undo {
  fl_kloop *l; int var, n, ok, meets; fl_kspan span;
} undo;

static int is_write(const void *var, const fl_kstmt *s) {
  return fl_kwrites_to(s, *(const int *)var);
}

/* Is the loop, which is in b, the first code that writes v, and inside no other loop? */
static int is_first_writer(const fl_kblock *b, const fl_kstmt *loop, int v) {
  for (const fl_kstmt *s = b->first; s; s = s->next) {
    if (s == loop) return 1;
    const int in_body = fl_kblock_holds(s->body, loop);
    if (in_body || fl_kblock_holds(s->other, loop))
      return s->kind != FL_KS_LOOP && is_first_writer(in_body ? &s->body : &s->other, loop, v);
    if (fl_kstmt_any(s, is_write, &v)) return 0;
  }
  return 0;
}

/* Does 'goal' come before the statement 'use' of the loop's body? */
static int precedes(const fl_kloop *l, const fl_kstmt *goal, const fl_kstmt *use) {
  for (const fl_kstmt *s = l->s->body.first; s && s != use; s = s->next)
    if (fl_kloop_holds(s, goal)) return 1;
  return 0;
}

static int is_at_top(const fl_kloop *l, const fl_kstmt *goal) {
  for (const fl_kstmt *s = l->s->body.first; s; s = s->next)
    if (s == goal) return 1;
  return 0;
}

/* fl_kloop_by_counters; depth: how many operands and variables were entered so far. */
static fl_kexpr *by_counters(const fl_kloop *l, fl_kexpr *x, const fl_kstmt *use, int depth) {
  const fl_kstmt *one = NULL;
  if ((x->kind == FL_KX_LOAD && fl_kad_written(l->d, x->var)) || depth > 20) return NULL;
  if (x->kind == FL_KX_VAR && fl_kset_has(l->all, x->var)) {
    const int n = fl_kassigned(&l->s->body, x->var, &one);
    for (int i = 0; i < l->n_counters; i++)
      if (l->counter[i].var == x->var) return one && precedes(l, one, use) ? NULL : x;
    if (n != 1 || fl_kassigned(&l->s->other, x->var, &one) || !precedes(l, one, use)) return NULL;
    return is_at_top(l, one) ? by_counters(l, one->x[0], one, depth + 1) : NULL;
  }
  fl_kexpr *k[FL_K_MAX_ARGS];
  for (int i = 0; i < x->n; i++)
    if (!(k[i] = by_counters(l, x->x[i], use, depth + 1))) return NULL;
  return fl_kexpr_over(l->d->a, x, k);
}

/* Finds the conditions under which an iteration reaches 'goal' in b, as by_counters expresses them
** (NULL: always), and *use, the statement of the body that holds 'goal'. 0: the conditions are not
** known. */
static int guard_of(const fl_kloop *l, const fl_kblock *b, const fl_kstmt *goal,
                    const fl_kstmt **use, fl_kexpr **guard) {
  fl_kad_state *d = l->d;
  for (fl_kstmt *s = b->first; s; s = s->next) {
    if (!fl_kloop_holds(s, goal)) continue;
    const int in_body = fl_kblock_holds(s->body, goal);
    if (!*use) *use = s;
    if (s == goal || s->kind != FL_KS_IF) return s == goal;
    fl_kexpr *c = by_counters(l, s->x[0], *use, 0);
    if (!c) return 0;
    if (!in_body) c = fl_kexpr_unary(d->a, FL_KO_NOT, c);
    *guard = kx_both(d, *guard, c);
    return guard_of(l, in_body ? &s->body : &s->other, goal, use, guard);
  }
  return 0;
}

static int see_store(void *arg, fl_kstmt *s) {
  undo *u = arg;
  fl_kloop *l = u->l;
  if (!fl_kwrites_to(s, u->var)) return 1;
  u->n++;
  fl_kspan_add(&u->span, fl_kfact_of(l->d->facts, s->site));
  const fl_kstmt *use = NULL;
  fl_kexpr *guard = NULL, *at = NULL;
  if (s->kind == FL_KS_STORE && guard_of(l, &l->s->body, s, &use, &guard))
    at = by_counters(l, s->x[0], use, 0);
  if (!at || !fl_kloop_bit(fl_kfact_of(l->d->facts, s->site)->rounds, l->s->label) ||
      fl_kad_meets_of(l->d, s->site) & u->meets
      || l->n_undo == FL_KLOOP_UNDO) u->ok = 0;
  else l->undo[l->n_undo++] = (struct fl_kloop_undo){u->var, -1, -1, 0, at, guard};
  return 1;
}

/* Takes the old elements from the launch's argument, for which a parameter is added (zeros of a
** fresh output need none). 0: no memory. */
static int from_argument(fl_kloop *l, const undo *u, int first) {
  fl_kad_state *d = l->d;
  const int v = u->var, fresh = d->r->want[d->f->vars[v].param] & FL_KAD_FRESH;
  const int original = fresh ? -1 : fl_kad_param_new(d, FL_KAD_ORIGINAL, v, "original_",
                                                     d->f->vars[v].type, 1, 1);
  for (int i = first; i < l->n_undo; i++) l->undo[i].original = original;
  return fresh || original >= 0;
}

/* Makes the arrays from which old elements are restored; fl_kloop_keep_round fills them. first: of
** l->undo, the first store to the array. 0: no memory, or too many parameters. */
static int from_copies(fl_kloop *l, const undo *u, int first) {
  fl_kad_state *d = l->d;
  for (int i = first; i < l->n_undo; i++) {
    struct fl_kloop_undo *to = &l->undo[i];
    const fl_kvar x = d->f->vars[u->var];
    to->copied = 1;
    if (i > first && !u->span.split) to->original = to[-1].original, to->region = to[-1].region;
    else if (x.kind == FL_KV_POINTER)
      to->original = fl_kad_kept(d, u->var, "kept_", x.type, 1);
    else to->original = fl_kloop_room(d, u->var, "kept_", 1, &to->region);
    if (to->original < 0) return 0;
  }
  return 1;
}

/* Is x a shared array of real numbers, or a pointer parameter (but not a pointer that is a member
** of a struct)? Of these facts/own.c can prove that no other thread accesses an element. */
static int is_array(const fl_kad_state *d, const fl_kvar *x) {
  if (x->kind == FL_KV_SHARED) return fl_kt_is_float(x->type);
  return x->kind == FL_KV_POINTER && x->param >= 0
      && (!d->f->params[x->param].is_struct || d->f->params[x->param].is_pointer);
}

int fl_kloop_can_undo(fl_kloop *l, int v) {
  fl_kad_state *d = l->d;
  const fl_kvar x = d->f->vars[v];
  const int first = l->n_undo;
  undo u = {.l = l, .var = v, .ok = !l->barrier, .meets = FL_KAD_MEETS_ALIKE};
  const fl_kvisitor see = {see_store, NULL, &u};
  if (!is_array(d, &x)) return 0;
  if (u.ok) fl_kwalk_stmt(&see, l->s);
  if (u.ok) {
    const int given = x.kind == FL_KV_POINTER && !u.span.split &&
                      is_first_writer(&d->body, l->s, v);
    if (given ? from_argument(l, &u, first) : from_copies(l, &u, first)) return 1;
  }
  l->n_undo = first;
  return 0;
}

fl_kexpr *fl_kloop_by_counters(const fl_kloop *l, const fl_kexpr *x, const fl_kstmt *use) {
  return by_counters(l, (fl_kexpr *)(uintptr_t)x, use, 0);
}

static fl_kexpr *kept_at(fl_kloop *l, const struct fl_kloop_undo *u) {
  fl_kad_state *d = l->d;
  return u->region < 0 ? u->at
                       : kx_op(d, FL_KO_ADD, fl_kloop_region(d, u->var, kx_int(d, u->region)),
                                       fl_kexpr_cast(d->a, FL_KT_I64, u->at));
}

/* Returns the block for code that runs only in iterations that reach the store u: b, or the body of
** a new IF in b. */
static fl_kblock *guarded(fl_kloop *l, fl_kblock *b, const struct fl_kloop_undo *u) {
  fl_kstmt *s = u->guard ? fl_kstmt_if(l->d->f, b, u->guard) : NULL;
  return s ? &s->body : b;
}

void fl_kloop_keep_round(fl_kloop *l, fl_kblock *b) {
  fl_kad_state *d = l->d;
  for (int i = 0; i < l->n_undo; i++) {
    const struct fl_kloop_undo *u = &l->undo[i];
    if (u->copied)
      fl_kstmt_store(d->f, guarded(l, b, u), u->original, kept_at(l, u),
                     fl_kexpr_load(d->f, u->var, u->at));
  }
}

void fl_kloop_undo_round(fl_kloop *l, fl_kblock *b) {
  fl_kad_state *d = l->d;
  for (int i = 0; i < l->n_undo; i++) {
    const struct fl_kloop_undo *u = &l->undo[i];
    fl_kstmt_store(d->f, guarded(l, b, u), u->var, u->at,
                   u->original < 0 ? fl_kexpr_zero(d->a, d->f->vars[u->var].type)
                                   : fl_kexpr_load(d->f, u->original, kept_at(l, u)));
  }
}
