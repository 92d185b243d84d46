/*
** Loops in one pass: where the iterations' adjoints commute (locals are set and used within an
** iteration or only summed into; an array element belongs to one iteration), the forward and the
** reverse code of an iteration run one after the other, in the original order of iterations.
** Grid-stride loops and sums are such loops.
*/
#include "kernel/ad/ad_loop.h"

int fl_kloop_see_usage(void *arg, fl_kstmt *s) {
  fl_kusage *u = arg;
  const int mine = s->kind == FL_KS_ASSIGN && s->var == u->var;
  if (s->kind == FL_KS_DECL && s->var == u->var) u->declared = 1;
  if (s->result == u->var) u->sets = 1;
  if (mine && fl_kad_added(u->d, s)) {
    u->sums = 1;
    return 1;
  }
  if (mine) u->sets = 1;
  if (fl_kwrites_to(s, u->var)) {
    u->sums |= s->accumulate || s->kind == FL_KS_ATOMIC;
    u->sets |= s->kind == FL_KS_STORE && !s->accumulate;
  }
  for (int i = 0; i < 4; i++) u->reads |= fl_kreads(s->x[i], u->var);
  return 1;
}

static fl_kusage usage_of(const fl_kloop *l, int var) {
  fl_kusage u = {var, 0, 0, 0, 0, l->d};
  const fl_kvisitor see = {fl_kloop_see_usage, NULL, &u};
  fl_kwalk_stmt(&see, l->s);
  return u;
}

/* Does block b read v outside statement 'but'? A += or an atomic reads its array. */
static int read_outside(const fl_kblock *b, const fl_kstmt *but, int v) {
  for (const fl_kstmt *s = b->first; s; s = s->next) {
    if (s == but) continue;
    if ((s->accumulate || s->kind == FL_KS_ATOMIC) && s->var == v) return 1;
    for (int i = 0; i < 4; i++)
      if (fl_kreads(s->x[i], v)) return 1;
    if (read_outside(&s->body, but, v) || read_outside(&s->other, but, v)) return 1;
  }
  return 0;
}

/* Can v be read after the statement 'but', which is in b: by what follows it, or by an iteration of
** a loop around it? */
static int read_after(const fl_kblock *b, const fl_kstmt *but, int v) {
  const fl_kstmt *s = b->first;
  while (s && !fl_kloop_holds(s, but)) s = s->next;
  if (!s) return 0;
  if (s->kind == FL_KS_LOOP && s != but) return read_outside(b, but, v);
  const fl_kblock rest = {s->next, b->last};
  if (s->next && read_outside(&rest, NULL, v)) return 1;
  return read_after(&s->body, but, v) || read_after(&s->other, but, v);
}

/* The accesses of array 'var' in the loop. ok: the index of each access differs between iterations;
** span.split: these indices are not all known from one of them (fl_kspan). */
typedef struct same_index { const fl_kloop *l; fl_kspan span; int var, ok; } same_index;

static void check_index(same_index *c, int site) {
  const fl_kfact *fact = fl_kfact_of(c->l->d->facts, site);
  fl_kspan_add(&c->span, fact);
  if (fact->class != FL_KI_INJECTIVE && !fl_kloop_bit(fact->rounds, c->l->s->label)) c->ok = 0;
}

static int see_index_stmt(void *arg, fl_kstmt *s) {
  same_index *c = arg;
  if (fl_kwrites_to(s, c->var)) check_index(c, s->site);
  return 1;
}

static int see_index_expr(void *arg, fl_kexpr *x) {
  same_index *c = arg;
  if (x->kind == FL_KX_LOAD && x->var == c->var) check_index(c, x->site);
  return 1;
}

static same_index indices_of(const fl_kloop *l, int v) {
  same_index c = {.l = l, .var = v, .ok = 1};
  const fl_kvisitor see = {see_index_stmt, see_index_expr, &c};
  fl_kwalk_stmt(&see, l->s);
  return c;
}

static int own_elements(fl_kloop *l, int v) {
  const same_index c = indices_of(l, v);
  return c.ok && (!c.span.split || (v < l->d->facts->f->n_vars &&
                              fl_kloop_bit(l->d->facts->var_rounds[v], l->s->label)));
}

/* As far as variable v is concerned, may the adjoints of iterations run in any order? They may if
** they pass nothing to each other by v but sums. */
static int commutes(fl_kloop *l, int v, fl_kset carried) {
  fl_kad_state *d = l->d;
  const fl_kvar *x = &d->f->vars[v];
  const fl_kusage u = usage_of(l, v);
  const int needed = fl_kset_has(l->writes, v);
  switch (x->kind) {
  case FL_KV_LOCAL:
    if (!d->active[v]) return 1;
    if (u.sums && !u.sets && !u.reads) return 1;
    return !fl_kset_has(carried, v) && (u.declared || !read_outside(&d->body, l->s, v));
  case FL_KV_ARRAY:
    if (u.declared) return 1;
    if (needed) return 0;
    return !d->active[v] || (!u.sets && !u.reads);
  case FL_KV_POINTER:
    if (!d->active[v] && !needed) return 1;
    if (needed && read_after(&d->body, l->s, v)) return 0;
    if (!needed && !u.reads && (!u.sets || !d->zeroes[v])) return 1;
    return own_elements(l, v);
  default: return !d->active[v] && !needed;
  }
}

static int is_ordered(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_BARRIER || s->kind == FL_KS_SHUFFLE || s->kind == FL_KS_VOTE;
}

int fl_kloop_is_one_pass(fl_kloop *l) {
  fl_kad_state *d = l->d;
  int bad = fl_kblock_any(l->s->body, is_ordered, NULL);
  fl_kset carried = fl_kset_new(d), done = fl_kset_new(d);
  if (!carried || !done) return 0;
  fl_kloop_exposed(d, &l->s->body, carried, done, 1);
  fl_kloop_exposed(d, &l->s->other, carried, done, 1);
  for (int v = 0; v < d->n0 && !bad; v++)
    if (fl_kset_has(l->all, v)) bad = !commutes(l, v, carried);
  return !bad;
}

/* May code after the loop, or a next iteration of the loop around it, read a variable that the loop
** assigns in the forward code? (A local counts if code before the loop reads it, too.) head: what
** the loop reads from before it. */
static int results_read(fl_kloop *l, fl_kset head) {
  fl_kad_state *d = l->d;
  for (int v = 0; v < d->n0; v++) {
    if (!fl_kset_has(l->before, v)) continue;
    const int memory = d->f->vars[v].kind == FL_KV_POINTER;
    if (memory ? read_after(&d->body, l->s, v) : read_outside(&d->body, l->s, v)) return 1;
    if (fl_kset_has(head, v) && d->carried && fl_kset_has(d->carried, v)) return 1;
  }
  return 0;
}

/* Moves arrays in global memory from 'keep' of the code around the loop to 'keep' of one iteration:
** each iteration then restores the elements that it overwrites. */
static void move_arrays(const fl_kad_state *d, fl_kset from, fl_kset to) {
  for (int v = 0; v < d->n0; v++) {
    if (!fl_kset_has(from, v) || d->f->vars[v].kind != FL_KV_POINTER) continue;
    fl_kset_add(to, v);
    fl_kset_del(from, v);
  }
}

/* Keeps locals that pass a value to the next iteration, to the condition or to the step. The
** reverse code 'rb' of an iteration sets them back to values from its start, so the values after
** its forward code 'fb' are saved at the end of fb, and restored by 'again', which follows rb. */
static void keep_results(fl_kloop *l, fl_kset head, fl_kblock *fb, const fl_kblock *rb,
                         fl_kblock *again) {
  fl_kad_state *d = l->d;
  for (int v = 0; v < d->n0; v++) {
    if (d->f->vars[v].kind != FL_KV_LOCAL || !fl_kassigned(rb, v, NULL)) continue;
    if (!fl_kset_has(head, v) && !read_outside(&l->s->other, NULL, v)) continue;
    const int after = fl_kad_local(d, d->f->vars[v].type, fl_kad_name(d, "after_", v));
    kx_set(d, fb, after, kx_var(d, v));
    kx_set(d, again, v, kx_var(d, after));
  }
}

/* Does each iteration access one element of v alone, and give no other result that carries a
** derivative? If that element is overwritten after the loop, its cotangent is 0, and what the
** iteration reads does not matter. */
static int stays_in_element(fl_kloop *l, int v) {
  fl_kad_state *d = l->d;
  const same_index c = indices_of(l, v);
  int ok = c.ok && !c.span.split && c.span.most == c.span.least &&
           d->f->vars[v].kind == FL_KV_POINTER;
  for (int w = 0; w < d->n0 && ok; w++) {
    if (w == v || !d->active[w] || !fl_kset_has(l->all, w)) continue;
    const fl_kusage u = usage_of(l, w);
    ok = d->f->vars[w].kind == FL_KV_LOCAL && (u.sets || u.reads);
  }
  return ok;
}

/* The forward code drops the loop: keeps the values that the first iteration reads until the
** reverse code runs it ('keep', or d->wished). */
static void keep_begin(fl_kloop *l, fl_kset head, fl_kset keep) {
  fl_kad_state *d = l->d;
  if (!d->wished && !(d->wished = fl_kset_new(d))) return;
  for (int v = 0; v < d->n0; v++)
    if (fl_kset_has(head, v))
      fl_kset_add(fl_kset_has(l->before, v) && stays_in_element(l, v) ? d->wished : keep, v);
}

void fl_kloop_one_pass(fl_kloop *l, fl_kset keep, fl_kblock *f, fl_kblock *r) {
  fl_kad_state *d = l->d;
  fl_kset head = fl_kset_copy(d, l->reads), inner = fl_kset_new(d), old = fl_kset_copy(d, keep);
  fl_kblock fb = {0}, rb = {0}, again = {0};
  if (!head || !inner || !old) return;
  fl_kad_values(head, l->s->x[0]);
  const int replay = results_read(l, head);
  if (replay) {
    fl_kloop_save_before(l, head, f);
    fl_kloop_save_before(l, keep, f);
    fl_kloop_move_marks(&l->outer, l, 1);
    fl_kloop_replay_loop(l, f);
    if (!fl_kloop_look_back(l, 1)) return;
    fl_kloop_put_back(l, head, r);
  }
  move_arrays(d, keep, inner);
  if (!replay) fl_kloop_save_before(l, keep, r);
  fl_kset carried = fl_kset_copy(d, head);
  for (int v = 0; carried && v < d->n0; v++)            /* no iteration reads elements that belong
                                                        ** to another one */
    if (d->f->vars[v].kind == FL_KV_POINTER) fl_kset_del(carried, v);
  fl_kloop_sweep(l, inner, carried, &fb, &rb);
  keep_results(l, head, &fb, &rb, &again);
  fl_kstmt *s = fl_kloop_head(l, r);
  if (!s) return;
  fl_kblock_append(&s->body, fb);
  fl_kblock_append(&s->body, rb);
  fl_kblock_append(&s->body, again);
  if (!l->returns_step) fl_kad_primal(d, &l->s->other, &s->other);
  fl_kloop_put_back(l, old, r);
  fl_kloop_close_lists(l, r);
  fl_kloop_update_keep(l, keep, 1);
  if (!replay) keep_begin(l, head, keep);
  for (int v = 0; v < d->n0; v++)
    if (fl_kset_has(old, v) && d->f->vars[v].kind == FL_KV_POINTER) fl_kset_add(keep, v);
}

