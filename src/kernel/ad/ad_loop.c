/*
** Loops, forward and reverse: which strategy is used, and what all strategies need. The state of an
** iteration is the variables that it reads and that some iteration assigns. Values from before the
** loop that the reverse code of earlier statements reads are kept, and restored after the loop's
** reverse code.
*/
#include "kernel/ad/ad_loop.h"

/* ---- what an iteration reads ------------------------------------------------------------ */

static void note_read(fl_kset reads, fl_kset done, const fl_kset now, int words) {
  for (int i = 0; i < words; i++) reads[i] |= now[i] & ~done[i];
}

void fl_kloop_exposed(fl_kad_state *d, const fl_kblock *b, fl_kset reads, fl_kset done, int flows) {
  for (const fl_kstmt *s = b->first; s && !d->a->failed; s = s->next) {
    const int marks = fl_kad_marks(s);
    if (s->kind == FL_KS_DECL) fl_kset_add(done, s->var);
    if (!marks) continue;
    fl_kset now = fl_kset_new(d);
    if (!now) return;
    const int control = s->kind == FL_KS_IF || s->kind == FL_KS_LOOP;
    if (marks & FL_KN_FORWARD || control || flows)
      for (int i = 0; i < 4; i++) fl_kad_values(now, s->x[i]);
    if (marks & FL_KN_FORWARD && (s->accumulate || s->kind == FL_KS_ATOMIC))
      fl_kset_add(now, s->var);
    fl_kad_reads(d, now, s);
    note_read(reads, done, now, d->words);
    if (s->kind == FL_KS_ASSIGN && (flows || marks & FL_KN_FORWARD)) fl_kset_add(done, s->var);
    if (s->result >= 0 && (flows || marks & FL_KN_FORWARD)) fl_kset_add(done, s->result);
    if (!control) continue;
    fl_kset x = fl_kset_copy(d, done), y = fl_kset_copy(d, done);
    if (!x || !y) return;
    fl_kloop_exposed(d, &s->body, reads, x, flows);
    fl_kloop_exposed(d, &s->other, reads, s->kind == FL_KS_IF ? y : x, flows);
    for (int i = 0; s->kind == FL_KS_IF && i < d->words; i++) done[i] = x[i] & y[i];
  }
}

typedef struct writes { fl_kset needed, all; int barrier, grid; } writes;

static int see_write(void *arg, fl_kstmt *s) {
  writes *w = arg;
  const int forward = fl_kad_marks(s) & FL_KN_FORWARD;
  const int to = s->kind == FL_KS_ASSIGN || fl_kwrites(s) ? s->var : -1;
  if (to >= 0) fl_kset_add(w->all, to);
  if (s->result >= 0) fl_kset_add(w->all, s->result);
  if (forward && to >= 0) fl_kset_add(w->needed, to);
  if (forward && s->result >= 0) fl_kset_add(w->needed, s->result);
  if (s->kind == FL_KS_BARRIER && fl_kad_marks(s) && (!w->barrier || s->op == FL_KBAR_BLOCK))
    w->barrier = s->op + 1;
  w->grid |= s->kind == FL_KS_BARRIER && s->mode;
  return 1;
}

/* ---- the loop's sets -------------------------------------------------------------------- */

static int see_marks(void *arg, fl_kstmt *s) {
  fl_kmarks *m = arg;
  fl_kad_note *note = s->note;
  if (note && m->back) note->marks = m->at[m->n];
  if (note && !m->back) m->at[m->n] = note->marks;
  m->n++;
  return 1;
}

void fl_kloop_move_marks(fl_kmarks *m, const fl_kloop *l, int back) {
  const fl_kvisitor see = {see_marks, NULL, m};
  const int n = fl_kblock_length(l->s->body) + fl_kblock_length(l->s->other);
  if (!back) m->at = fl_karena_new(l->d->a, (size_t)n + 1);
  m->n = 0;
  m->back = back;
  if (!m->at) return;
  fl_kwalk_block(&see, l->s->body);
  fl_kwalk_block(&see, l->s->other);
}

static fl_kset assigned_by(fl_kloop *l) {
  writes w = {fl_kset_new(l->d), fl_kset_new(l->d), 0, 0};
  const fl_kvisitor see = {see_write, NULL, &w};
  if (!w.needed || !w.all) return NULL;
  fl_kwalk_stmt(&see, l->s);
  l->all = w.all;
  l->barrier = w.barrier;
  l->grid = w.grid;
  return w.needed;
}

static int begin(fl_kloop *l) {
  fl_kad_state *d = l->d;
  l->of = fl_karena_new(d->a, (size_t)d->n0 * sizeof *l->of + 1);
  if (!l->of || !(l->before = assigned_by(l))) return 0;
  for (int v = 0; v < d->n0; v++) l->of[v].pre = l->of[v].snap = -1;
  for (const fl_kstmt *s = l->s->other.first; s; s = s->next)
    l->returns_step |= fl_kad_marks(s) & FL_KN_REVERSE;
  return 1;
}

int fl_kloop_look_back(fl_kloop *l, int condition) {
  fl_kad_state *d = l->d;
  fl_kset done = fl_kset_new(d);
  fl_kad_need_again(d, l->s, condition);
  l->writes = assigned_by(l);
  l->reads = fl_kset_new(d);
  if (!done || !l->writes || !l->reads) return 0;
  fl_kloop_exposed(d, &l->s->body, l->reads, done, 0);
  fl_kloop_exposed(d, &l->s->other, l->reads, done, 0);
  l->state = fl_kset_copy(d, l->reads);
  for (int i = 0; l->state && i < d->words; i++) l->state[i] &= l->writes[i];
  return l->state != NULL;
}

/* ---- values before the loop ------------------------------------------------------------- */

int fl_kloop_can_copy_shared(const fl_kloop *l, const fl_kvar *x) {
  return x->kind == FL_KV_SHARED && l->barrier == FL_KBAR_BLOCK + 1;
}

int fl_kloop_room(fl_kad_state *d, int v, const char *prefix, int64_t n, int32_t *region) {
  const fl_kvar x = d->f->vars[v];
  if (!x.dynamic)
    return fl_kad_var(d, x.kind == FL_KV_SHARED ? FL_KV_SHARED : FL_KV_ARRAY, x.type,
                      fl_kad_name(d, prefix, v), n * x.count);
  *region = d->regions;
  d->regions += (int32_t)n;
  return v;
}

fl_kexpr *fl_kloop_region(fl_kad_state *d, int var, fl_kexpr *k) {
  return k ? kx_op(d, FL_KO_MUL, k, fl_kad_shared_count(d, var)) : kx_int(d, 0);
}

/* Saves the array v as it is before the loop, or restores it ('back'). */
static void move_array(fl_kloop *l, fl_kblock *b, int v, int back) {
  fl_kad_state *d = l->d;
  const int dynamic = d->f->vars[v].dynamic;
  fl_kexpr *at = fl_kloop_region(d, v, dynamic ? kx_int(d, l->of[v].pre_region) : NULL);
  fl_kad_move(d, b, v, l->of[v].pre, at, back);
}

void fl_kloop_save_before(fl_kloop *l, fl_kset set, fl_kblock *b) {
  fl_kad_state *d = l->d;
  for (int v = 0; v < d->n0; v++) {
    const fl_kloop_var *kept = &l->of[v];
    if (!fl_kset_has(set, v) || !fl_kset_has(l->before, v) || kept->pre >= 0 || kept->final >= 2)
      continue;
    const fl_kvar x = d->f->vars[v];
    if (x.kind == FL_KV_LOCAL) {
      l->of[v].pre = fl_kad_local(d, x.type, fl_kad_name(d, "before_", v));
      kx_set(d, b, l->of[v].pre, kx_var(d, v));
    } else if (x.kind == FL_KV_ARRAY || fl_kloop_can_copy_shared(l, &x)) {
      l->of[v].pre = fl_kloop_room(d, v, "before_", 1, &l->of[v].pre_region);
      move_array(l, b, v, 0);
    } else if (fl_kloop_can_list(l, v)) {
      fl_kloop_open_list(l, v, b);
    } else {
      fl_kad_refuse(d, l->s->line, "a loop that overwrites '%s', whose old contents are needed "
                    "(write to a second array),", x.source);
    }
  }
}

/* Before and after it, other threads may access the elements. */
static void put_list_back(fl_kloop *l, const fl_kad_list *t, fl_kblock *b) {
  fl_kloop_barrier(l, b);
  fl_kloop_put_list_back(t, b);
  fl_kloop_barrier(l, b);
}

void fl_kloop_put_back(fl_kloop *l, fl_kset set, fl_kblock *b) {
  fl_kad_state *d = l->d;
  for (int v = 0; v < d->n0; v++) {
    if (!fl_kset_has(set, v)) continue;
    if (l->of[v].list) put_list_back(l, l->of[v].list, b);
    if (l->of[v].pre < 0) continue;
    if (d->f->vars[v].kind == FL_KV_LOCAL) kx_set(d, b, v, kx_var(d, l->of[v].pre));
    else move_array(l, b, v, 1);
  }
}

void fl_kloop_update_keep(fl_kloop *l, fl_kset keep, int replayed) {
  fl_kad_state *d = l->d;
  fl_kset cond = fl_kset_new(d);
  if (!cond) return;
  fl_kad_values(cond, l->s->x[0]);
  for (int i = 0; i < d->words; i++) {
    keep[i] &= ~l->before[i];
    if (replayed) keep[i] |= (l->reads[i] | cond[i]) & ~l->before[i];
  }
  for (int v = 0; v < d->n0; v++)
    if (l->of[v].final) fl_kset_add(keep, v);
}

fl_kstmt *fl_kloop_head(const fl_kloop *l, fl_kblock *b) {
  fl_kstmt *s = fl_kstmt_loop(l->d->f, b, l->s->x[0]);
  if (!s) return NULL;
  s->post = l->s->post;
  s->line = l->s->line;
  return s;
}

void fl_kloop_replay_loop(fl_kloop *l, fl_kblock *b) {
  fl_kstmt *s = fl_kloop_head(l, b);
  if (!s) return;
  if (!l->s->post) fl_kad_list_loads(l->d, &s->body, l->s->x[0], l->s->line);
  fl_kad_primal(l->d, &l->s->body, &s->body);
  fl_kad_primal(l->d, &l->s->other, &s->other);
  fl_kad_list_loads(l->d, l->s->post ? &s->other : b, l->s->x[0], l->s->line);
  fl_kloop_end_lists(l);
}

void fl_kloop_sweep(fl_kloop *l, fl_kset keep, fl_kset carried, fl_kblock *f, fl_kblock *r) {
  fl_kad_state *d = l->d;
  fl_kset outer = d->carried;
  d->carried = carried;
  fl_kad_sweep(d, &l->s->body, keep, f, r);
  if (l->returns_step) fl_kad_sweep(d, &l->s->other, keep, f, r);
  d->carried = outer;
}

/* ---- entry ------------------------------------------------------------------------------ */

/* Derives a loop that has no adjoint but computes values that are needed later. */
static void plain_loop(fl_kloop *l, fl_kset keep, fl_kblock *f, fl_kblock *r) {
  fl_kloop_save_before(l, keep, f);
  fl_kloop_replay_loop(l, f);
  fl_kloop_put_back(l, keep, r);
  fl_kloop_close_lists(l, r);
  fl_kloop_update_keep(l, keep, 0);
}

static void tell_stored(const fl_kloop *l) {
  fl_kad_state *d = l->d;
  fl_kad_chose(d, l->s->line, -1, "counted, then from the last round to the first, %lld snapshots",
               (long long)l->slots);
  for (int i = 0; i < l->n_counters; i++)
    fl_kad_chose(d, l->s->line, l->counter[i].var, "computed from the round's number");
  for (int v = 0; v < d->n0; v++) {
    if (l->of[v].snap >= 0) fl_kad_chose(d, l->s->line, v, "in the snapshots");
    const int final = l->of[v].final;
    if (final)
      fl_kad_chose(d, l->s->line, v, final == 3   ? "its elements are listed, and in the snapshots"
                                     : final == 2 ? "its stores are taken back round by round"
                                                  : "read as it is after the loop");
  }
}

void fl_kad_loop(fl_kad_state *d, fl_kstmt *s, fl_kset keep, fl_kblock *forward,
                 fl_kblock *reverse) {
  fl_kloop l = {.d = d, .s = s};
  const int top = d->top;
  if (!begin(&l)) return;
  d->top = 0;
  if (!(fl_kad_marks(s) & FL_KN_REVERSE)) {
    plain_loop(&l, keep, forward, reverse);
    fl_kad_chose(d, s->line, -1, "run for its values, no adjoint");
  } else {
    fl_kloop_move_marks(&l.outer, &l, 0);
    if (fl_kloop_look_back(&l, 1) && fl_kloop_is_one_pass(&l)) {
      fl_kloop_one_pass(&l, keep, forward, reverse);
      fl_kad_chose(d, s->line, -1, "one pass, each round forward and reverse at once");
    } else if (fl_kloop_look_back(&l, 0)) {
      fl_kloop_stored_loop(&l, keep, forward, reverse);
      tell_stored(&l);
    }
    fl_kloop_move_marks(&l.outer, &l, 1);
  }
  d->top = (uint8_t)top;
}

