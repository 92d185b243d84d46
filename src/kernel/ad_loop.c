/*
** Loops, there and back.
**
** One pass: where the iterations' adjoints commute (locals are made and used up within an
** iteration or only summed into; an array element belongs to one iteration), each iteration
** goes forward and back at once, in the original order. Grid-stride loops and sums are such.
**
** Otherwise: the forward code counts the iterations, keeping a snapshot of the state before each
** of the first S; the reverse code visits them last to first. If there were no more than S,
** each snapshot is at hand. If there were more, binomial checkpointing: with s free slots the
** last of l iterations is reached by running ahead and leaving snapshots so that no iteration
** runs more than r times, r being the least with C(s + r, s) >= l. Any trip count, fixed memory.
**
** State: what an iteration reads and an iteration assigns. Integer counters that move by the
** same amount each time are computed from the iteration's number and are not stored.
*/
#include "kernel/ad_state.h"

enum { MAX_COUNTERS = 8, SHARED_LIMIT = 40 << 10 };

/* The marks in the loop, so that they can be put back. */
typedef struct marks { uint8_t *at; int n, back; } marks;

typedef struct loop {
  fl_kad_state *d;
  fl_kstmt *s;
  marks outer;
  int returns_step;              /* the step has an adjoint of its own */
  fl_kset before;                /* variables assigned by the loop in the forward code */
  fl_kset writes;                /* ... when it is run again in the reverse code */
  fl_kset all;                   /* all variables assigned in the loop */
  fl_kset reads;                 /* values read before the iteration assigns them */
  fl_kset state;                 /* of those: assigned in the loop, counters aside */
  struct { int32_t var, start; const fl_kexpr *by; int op; } counter[MAX_COUNTERS];
  int n_counters;
  int32_t *pre;                  /* by variable: its value before the loop, -1 */
  int32_t *snap;                 /* by variable: array of snapshots, -1 */
  int32_t pos, trips, k, p, m, sp;
  int64_t slots;                 /* 0: no state */
  int barrier;                   /* fl_kbarrier + 1 inside the loop that matters; 0: none */
} loop;

/* ---- what an iteration reads ---------------------------------------------------------------- */

static void note_read(fl_kset reads, fl_kset done, const fl_kset now, int words) {
  for (int i = 0; i < words; ++i) reads[i] |= now[i] & ~done[i];
}

/* Adds to 'reads' what the block reads and has not assigned; 'done': assigned so far for
** sure. 'flows': count reads of active values too (they matter for adjoints, not replays). */
static void exposed(fl_kad_state *d, const fl_kblock *b, fl_kset reads, fl_kset done, int flows) {
  for (const fl_kstmt *s = b->first; s && !d->a->failed; s = s->next) {
    const int marks = fl_kad_marks(s);
    if (s->kind == FL_KS_DECL) fl_kset_add(done, s->var);
    if (!marks) continue;
    fl_kset now = fl_kset_new(d);
    if (!now) return;
    const int control = s->kind == FL_KS_IF || s->kind == FL_KS_LOOP;
    if (marks & FL_KN_FORWARD || control || flows)
      for (int i = 0; i < 4; ++i) fl_kad_values(now, s->x[i]);
    if (marks & FL_KN_FORWARD && (s->accumulate || s->kind == FL_KS_ATOMIC))
      fl_kset_add(now, s->var);
    fl_kad_reads(d, now, s);
    note_read(reads, done, now, d->words);
    if (s->kind == FL_KS_ASSIGN && (flows || marks & FL_KN_FORWARD)) fl_kset_add(done, s->var);
    if (s->result >= 0 && (flows || marks & FL_KN_FORWARD)) fl_kset_add(done, s->result);
    if (!control) continue;
    fl_kset x = fl_kset_copy(d, done), y = fl_kset_copy(d, done);
    if (!x || !y) return;
    exposed(d, &s->body, reads, x, flows);
    exposed(d, &s->other, reads, s->kind == FL_KS_IF ? y : x, flows);
    for (int i = 0; s->kind == FL_KS_IF && i < d->words; ++i) done[i] = x[i] & y[i];
  }
}

typedef struct writes { fl_kset needed, all; int barrier; const fl_kad_state *d; } writes;

static int see_write(void *arg, fl_kstmt *s) {
  writes *w = arg;
  const int forward = fl_kad_marks(s) & FL_KN_FORWARD;
  const int to = s->kind == FL_KS_ASSIGN || s->kind == FL_KS_STORE || s->kind == FL_KS_ATOMIC
                 ? s->var : -1;
  if (to >= 0) fl_kset_add(w->all, to);
  if (s->result >= 0) fl_kset_add(w->all, s->result);
  if (forward && to >= 0) fl_kset_add(w->needed, to);
  if (forward && s->result >= 0) fl_kset_add(w->needed, s->result);
  if (s->kind == FL_KS_BARRIER && fl_kad_marks(s) && (!w->barrier || s->op == FL_KBAR_BLOCK))
    w->barrier = s->op + 1;
  return 1;
}

/* ---- the loop's sets ------------------------------------------------------------------------- */

static int see_marks(void *arg, fl_kstmt *s) {
  marks *m = arg;
  fl_kad_note *note = s->note;
  if (note && m->at && m->back) note->marks = m->at[m->n];
  if (note && m->at && !m->back) m->at[m->n] = note->marks;
  m->n++;
  return 1;
}

static void move_marks(marks *m, const loop *l, int back) {
  const fl_kvisitor see = {see_marks, NULL, m};
  for (int turn = back ? 1 : 0; turn < 2; ++turn) {
    if (turn && !back && !(m->at = fl_karena_new(l->d->a, (size_t)m->n + 1))) return;
    m->n = 0;
    m->back = back;
    fl_kwalk_block(&see, l->s->body);
    fl_kwalk_block(&see, l->s->other);
  }
}

static fl_kset assigned_by(loop *l) {
  writes w = {fl_kset_new(l->d), fl_kset_new(l->d), 0, l->d};
  const fl_kvisitor see = {see_write, NULL, &w};
  if (!w.needed || !w.all) return NULL;
  fl_kwalk_stmt(&see, l->s);
  l->all = w.all;
  l->barrier = w.barrier;
  return w.needed;
}

static int begin(loop *l) {
  fl_kad_state *d = l->d;
  l->pre = fl_karena_new(d->a, (size_t)d->n0 * sizeof *l->pre + 1);
  l->snap = fl_karena_new(d->a, (size_t)d->n0 * sizeof *l->snap + 1);
  if (!l->pre || !l->snap || !(l->before = assigned_by(l))) return 0;
  for (int i = 0; i < d->n0; ++i) l->pre[i] = l->snap[i] = -1;
  for (const fl_kstmt *s = l->s->other.first; s; s = s->next)
    l->returns_step |= fl_kad_marks(s) & FL_KN_REVERSE;
  return 1;
}

/* What the reverse code runs again: marks for that, and the sets that follow from them. */
static int look_back(loop *l, int condition) {
  fl_kad_state *d = l->d;
  fl_kset done = fl_kset_new(d);
  fl_kad_need_again(d, l->s, condition);
  l->writes = assigned_by(l);
  l->reads = fl_kset_new(d);
  if (!done || !l->writes || !l->reads) return 0;
  exposed(d, &l->s->body, l->reads, done, 0);
  exposed(d, &l->s->other, l->reads, done, 0);
  l->state = fl_kset_copy(d, l->reads);
  for (int i = 0; l->state && i < d->words; ++i) l->state[i] &= l->writes[i];
  return l->state != NULL;
}

/* ---- counters ------------------------------------------------------------------------------------ */

static int assigned_in(const fl_kblock *b, int v) {
  int n = 0;
  for (const fl_kstmt *s = b->first; s; s = s->next)
    n += ((s->kind == FL_KS_ASSIGN && s->var == v) || s->result == v)
       + assigned_in(&s->body, v) + assigned_in(&s->other, v);
  return n;
}

static int invariant(const loop *l, const fl_kexpr *x) {
  if (x->kind == FL_KX_LOAD) return 0;
  if (x->var >= 0 && fl_kset_has(l->all, x->var)) return 0;
  for (int i = 0; i < x->n; ++i)
    if (!invariant(l, x->x[i])) return 0;
  return 1;
}

static void look_for_counters(loop *l, const fl_kblock *b) {
  for (const fl_kstmt *s = b->first; s; s = s->next) {
    const fl_kad_note *note = s->note;
    if (s->kind == FL_KS_IF && note && note->step) look_for_counters(l, &s->body);
    if (s->kind != FL_KS_ASSIGN || !fl_kset_has(l->state, s->var)) continue;
    const int v = s->var, type = l->d->f->vars[v].type;
    const fl_kexpr *x = s->x[0];
    if (type < FL_KT_I32 || type > FL_KT_U64 || x->kind != FL_KX_BINARY
        || (x->op != FL_KO_ADD && x->op != FL_KO_SUB)
        || assigned_in(&l->s->body, v) + assigned_in(&l->s->other, v) != 1) continue;
    const int at = x->x[0]->kind == FL_KX_VAR && x->x[0]->var == v ? 1
                 : x->op == FL_KO_ADD && x->x[1]->kind == FL_KX_VAR && x->x[1]->var == v ? 0 : -1;
    if (at < 0 || !invariant(l, x->x[at]) || l->n_counters == MAX_COUNTERS) continue;
    const int n = l->n_counters++;
    l->counter[n].var = v;
    l->counter[n].by = x->x[at];
    l->counter[n].op = x->op;
    l->counter[n].start = fl_kad_local(l->d, type, fl_kad_name(l->d, "first_", v));
    fl_kset_del(l->state, v);
  }
}

/* The counters as they are at the begin of iteration 'at'. */
static void set_counters(loop *l, fl_kblock *b, int at) {
  fl_kad_state *d = l->d;
  for (int i = 0; i < l->n_counters; ++i) {
    const int v = l->counter[i].var, type = d->f->vars[v].type;
    fl_kexpr *by = (fl_kexpr *)(uintptr_t)l->counter[i].by;
    fl_kexpr *n = fl_kexpr_cast(d->a, type, kx_var(d, at));
    kx_set(d, b, v, kx_op(d, l->counter[i].op, kx_var(d, l->counter[i].start),
                          kx_op(d, FL_KO_MUL, n, by)));
  }
}

/* ---- values before the loop -------------------------------------------------------------------- */

/* n elements of an array. */
static void copy_array(fl_kad_state *d, fl_kblock *b, int to, fl_kexpr *to_at, int from,
                       fl_kexpr *from_at, int64_t n) {
  const int j = fl_ktemp(d->f, FL_KT_I64);
  if (j < 0) return;
  kx_set(d, b, j, kx_int(d, 0));
  fl_kstmt *s = fl_kstmt_loop(d->f, b, kx_op(d, FL_KO_LT, kx_var(d, j), kx_int(d, n)));
  if (!s) return;
  fl_kexpr *x = fl_kexpr_load(d->f, from, kx_op(d, FL_KO_ADD, from_at, kx_var(d, j)));
  fl_kstmt_store(d->f, &s->body, to, kx_op(d, FL_KO_ADD, to_at, kx_var(d, j)), x);
  kx_set(d, &s->other, j, kx_op(d, FL_KO_ADD, kx_var(d, j), kx_int(d, 1)));
}

/* Can the block keep a copy of shared array x? A barrier in the loop says that all its threads
** come by. */
static int can_copy_shared(const loop *l, const fl_kvar *x) {
  return x->kind == FL_KV_SHARED && !x->dynamic && l->barrier == FL_KBAR_BLOCK + 1
      && x->count * fl_kt_size(x->type) <= SHARED_LIMIT / 4;
}

static int shared_array(fl_kad_state *d, int type, const char *name, int64_t count) {
  return name ? fl_kvar_add(d->f, FL_KV_SHARED, type, name, count) : -1;
}

/* Keep the values before the loop of all in 'set' that it assigns. */
static void save_before(loop *l, fl_kset set, fl_kblock *b) {
  fl_kad_state *d = l->d;
  for (int v = 0; v < d->n0; ++v) {
    if (!fl_kset_has(set, v) || !fl_kset_has(l->before, v) || l->pre[v] >= 0) continue;
    const fl_kvar x = d->f->vars[v];
    if (x.kind == FL_KV_LOCAL) {
      l->pre[v] = fl_kad_local(d, x.type, fl_kad_name(d, "before_", v));
      kx_set(d, b, l->pre[v], kx_var(d, v));
    } else if (x.kind == FL_KV_ARRAY) {
      l->pre[v] = fl_kad_array(d, x.type, fl_kad_name(d, "before_", v), x.count);
      copy_array(d, b, l->pre[v], kx_int(d, 0), v, kx_int(d, 0), x.count);
    } else if (can_copy_shared(l, &x)) {
      l->pre[v] = shared_array(d, x.type, fl_kad_name(d, "before_", v), x.count);
      fl_kad_copy_shared(d, b, l->pre[v], kx_int(d, 0), v, kx_int(d, 0), x.count);
    } else {
      fl_kad_refuse(d, l->s->line, "a loop that overwrites '%s', whose old contents are needed "
                    "(write to a second array),", x.source);
    }
  }
}

static void put_back(loop *l, fl_kset set, fl_kblock *b) {
  fl_kad_state *d = l->d;
  for (int v = 0; v < d->n0; ++v) {
    if (!fl_kset_has(set, v) || l->pre[v] < 0) continue;
    const fl_kvar x = d->f->vars[v];
    if (x.kind == FL_KV_LOCAL) kx_set(d, b, v, kx_var(d, l->pre[v]));
    else if (x.kind == FL_KV_ARRAY)
      copy_array(d, b, v, kx_int(d, 0), l->pre[v], kx_int(d, 0), x.count);
    else fl_kad_copy_shared(d, b, v, kx_int(d, 0), l->pre[v], kx_int(d, 0), x.count);
  }
}

/* After the loop: 'keep' loses what was put back and gains what the reverse code reads. */
static void update_keep(loop *l, fl_kset keep, int replayed) {
  fl_kad_state *d = l->d;
  fl_kset cond = fl_kset_new(d);
  if (!cond) return;
  fl_kad_values(cond, l->s->x[0]);
  for (int i = 0; i < d->words; ++i) {
    keep[i] &= ~l->before[i];
    if (replayed) keep[i] |= (l->reads[i] | cond[i]) & ~l->before[i];
  }
}

/* The loop once more, for the values that are needed of it. */
static fl_kstmt *replay_loop(loop *l, fl_kblock *b) {
  fl_kad_state *d = l->d;
  fl_kstmt *s = fl_kstmt_loop(d->f, b, l->s->x[0]);
  if (!s) return NULL;
  s->post = l->s->post;
  s->line = l->s->line;
  fl_kad_primal(d, &l->s->body, &s->body);
  fl_kad_primal(d, &l->s->other, &s->other);
  return s;
}

/* ---- one pass ---------------------------------------------------------------------------------------- */

typedef struct usage { int var, reads, sums, sets, declared; fl_kad_state *d; } usage;

static int see_usage(void *arg, fl_kstmt *s) {
  usage *u = arg;
  const int mine = s->kind == FL_KS_ASSIGN && s->var == u->var;
  if (s->kind == FL_KS_DECL && s->var == u->var) u->declared = 1;
  if (s->result == u->var) u->sets = 1;
  if (mine && fl_kad_added(u->d, s)) {
    u->sums = 1;
    return 1;
  }
  if (mine) u->sets = 1;
  if ((s->kind == FL_KS_STORE || s->kind == FL_KS_ATOMIC) && s->var == u->var) {
    u->sums |= s->accumulate || s->kind == FL_KS_ATOMIC;
    u->sets |= s->kind == FL_KS_STORE && !s->accumulate;
  }
  for (int i = 0; i < 4; ++i) u->reads |= fl_kad_uses(s->x[i], u->var);
  return 1;
}

/* Reads of v in the block b, outside statement 'but'. */
static int read_outside(const fl_kblock *b, const fl_kstmt *but, int v) {
  for (const fl_kstmt *s = b->first; s; s = s->next) {
    if (s == but) continue;
    if ((s->accumulate || s->kind == FL_KS_ATOMIC) && s->var == v) return 1;
    for (int i = 0; i < 4; ++i)
      if (fl_kad_uses(s->x[i], v)) return 1;
    if (read_outside(&s->body, but, v) || read_outside(&s->other, but, v)) return 1;
  }
  return 0;
}

/* An access of array v in the loop: all must have one injective index. */
typedef struct same_index { fl_kad_state *d; const fl_kexpr *index; int var, ok; } same_index;

static void check_index(same_index *c, const fl_kexpr *x, int site) {
  const int known = site >= 0 && site < c->d->n_sites0;
  if (c->index && !fl_kexpr_same(c->index, x)) c->ok = 0;
  if (!known || c->d->site_index[site] != FL_KI_INJECTIVE) c->ok = 0;
  c->index = x;
}

static int see_index_stmt(void *arg, fl_kstmt *s) {
  same_index *c = arg;
  if ((s->kind == FL_KS_STORE || s->kind == FL_KS_ATOMIC) && s->var == c->var)
    check_index(c, s->x[0], s->site);
  return 1;
}

static int see_index_expr(void *arg, fl_kexpr *x) {
  same_index *c = arg;
  if (x->kind == FL_KX_LOAD && x->var == c->var) check_index(c, x->x[0], x->site);
  return 1;
}

static int own_elements(loop *l, int v) {
  same_index c = {l->d, NULL, v, 1};
  const fl_kvisitor see = {see_index_stmt, see_index_expr, &c};
  fl_kwalk_stmt(&see, l->s);
  return c.ok;
}

/* Does the adjoint of variable v pass from one iteration to another only as a sum? */
static int commutes(loop *l, int v, fl_kset carried) {
  fl_kad_state *d = l->d;
  const fl_kvar *x = &d->f->vars[v];
  usage u = {v, 0, 0, 0, 0, d};
  const fl_kvisitor see = {see_usage, NULL, &u};
  fl_kwalk_stmt(&see, l->s);
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
    if (needed && read_outside(&d->body, l->s, v)) return 0;
    if (!needed && !u.reads && (!u.sets || !d->zeroes[v])) return 1;
    return own_elements(l, v);
  default: return !d->active[v] && !needed;
  }
}

static int see_ordered(void *arg, fl_kstmt *s) {
  int *bad = arg;
  *bad |= s->kind == FL_KS_BARRIER || s->kind == FL_KS_SHUFFLE || s->kind == FL_KS_VOTE;
  return 1;
}

static int is_one_pass(loop *l) {
  fl_kad_state *d = l->d;
  int bad = 0;
  const fl_kvisitor see = {see_ordered, NULL, &bad};
  fl_kset carried = fl_kset_new(d), done = fl_kset_new(d);
  if (!carried || !done) return 0;
  fl_kwalk_stmt(&see, l->s);
  exposed(d, &l->s->body, carried, done, 1);
  exposed(d, &l->s->other, carried, done, 1);
  for (int v = 0; v < d->n0 && !bad; ++v)
    if (fl_kset_has(l->all, v)) bad = !commutes(l, v, carried);
  return !bad;
}

static int assigned_anywhere(const fl_kblock *b, int v) {
  for (const fl_kstmt *s = b->first; s; s = s->next)
    if ((s->kind == FL_KS_ASSIGN && s->var == v) || assigned_anywhere(&s->body, v)
        || assigned_anywhere(&s->other, v)) return 1;
  return 0;
}

/* Is the state after the loop read by anything? */
static int results_read(loop *l, fl_kset head) {
  fl_kad_state *d = l->d;
  for (int v = 0; v < d->n0; ++v) {
    if (!fl_kset_has(l->before, v)) continue;
    if (read_outside(&d->body, l->s, v)) return 1;
    if (fl_kset_has(head, v) && d->carried && fl_kset_has(d->carried, v)) return 1;
  }
  return 0;
}

static void one_pass(loop *l, fl_kset keep, fl_kblock *f, fl_kblock *r) {
  fl_kad_state *d = l->d;
  fl_kset head = fl_kset_copy(d, l->reads), inner = fl_kset_new(d), old = fl_kset_copy(d, keep);
  fl_kblock fb = {0}, rb = {0}, again = {0};
  if (!head || !inner || !old) return;
  fl_kad_values(head, l->s->x[0]);
  const int replay = results_read(l, head);
  if (replay) {
    save_before(l, head, f);
    save_before(l, keep, f);
    move_marks(&l->outer, l, 1);
    replay_loop(l, f);
    if (!look_back(l, 1)) return;
    put_back(l, head, r);
  }
  for (int v = 0; v < d->n0; ++v)      /* elements of arrays are put back one by one */
    if (fl_kset_has(keep, v) && d->f->vars[v].kind == FL_KV_POINTER) {
      fl_kset_add(inner, v);
      fl_kset_del(keep, v);
    }
  if (!replay) save_before(l, keep, r);
  fl_kset outer = d->carried;
  d->carried = head;
  fl_kad_sweep(d, &l->s->body, inner, &fb, &rb);
  if (l->returns_step) fl_kad_sweep(d, &l->s->other, inner, &fb, &rb);
  d->carried = outer;
  for (int v = 0; v < d->n0; ++v) {
    if (d->f->vars[v].kind != FL_KV_LOCAL || !assigned_anywhere(&rb, v)) continue;
    if (!fl_kset_has(head, v) && !read_outside(&l->s->other, NULL, v)) continue;
    const int after = fl_kad_local(d, d->f->vars[v].type, fl_kad_name(d, "after_", v));
    kx_set(d, &fb, after, kx_var(d, v));
    kx_set(d, &again, v, kx_var(d, after));
  }
  fl_kstmt *s = fl_kstmt_loop(d->f, r, l->s->x[0]);
  if (!s) return;
  s->post = l->s->post;
  s->line = l->s->line;
  fl_kblock_append(&s->body, fb);
  fl_kblock_append(&s->body, rb);
  fl_kblock_append(&s->body, again);
  if (!l->returns_step) fl_kad_primal(d, &l->s->other, &s->other);
  put_back(l, old, r);
  update_keep(l, keep, 1);
  for (int v = 0; v < d->n0; ++v)
    if (fl_kset_has(old, v) && d->f->vars[v].kind == FL_KV_POINTER) fl_kset_add(keep, v);
}

/* ---- snapshots ---------------------------------------------------------------------------------------- */

/* Is the shared array written anew in each iteration before it is read? All its stores in the
** loop are at the same places in all iterations, for sure, and come first. */
static int kills(const loop *l, const fl_kstmt *s, int v) {
  if (s->kind == FL_KS_STORE && s->var == v && !s->accumulate)
    return invariant(l, s->x[0]) && !fl_kad_uses(s->x[1], v);
  if (s->kind != FL_KS_IF || !s->body.first || !s->other.first) return 0;
  const fl_kstmt *x = s->body.last, *y = s->other.last;
  return x->kind == FL_KS_STORE && y->kind == FL_KS_STORE && kills(l, x, v) && kills(l, y, v)
      && fl_kexpr_same(x->x[0], y->x[0]) && s->body.first == x && s->other.first == y
      && !fl_kad_uses(s->x[0], v);
}

static int written_anew(const loop *l, int v) {
  usage u = {v, 0, 0, 0, 0, l->d};
  const fl_kvisitor see = {see_usage, NULL, &u};
  int begun = 0;
  for (const fl_kblock *b = &l->s->body; b; b = b == &l->s->body ? &l->s->other : NULL)
    for (fl_kstmt *s = b->first; s; s = s->next) {
      if (kills(l, s, v)) {
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

/* Bytes of a snapshot in registers or local memory, and in shared memory. */
static void measure_state(loop *l, int64_t *bytes, int64_t *shared) {
  fl_kad_state *d = l->d;
  for (int v = 0; v < d->n0; ++v) {
    if (!fl_kset_has(l->state, v)) continue;
    const fl_kvar x = d->f->vars[v];
    if (x.kind == FL_KV_SHARED && written_anew(l, v)) fl_kset_del(l->state, v);
    else if (can_copy_shared(l, &x)) *shared += x.count * fl_kt_size(x.type);
    else if (x.kind == FL_KV_SHARED || x.kind == FL_KV_POINTER)
      fl_kad_refuse(d, l->s->line, "a loop in which '%s' is read and rewritten (write to a second "
                    "array or to a local)", x.source);
    else *bytes += x.count * fl_kt_size(x.type);
  }
}

static void make_slots(loop *l) {
  fl_kad_state *d = l->d;
  int64_t bytes = 0, shared = 0;
  measure_state(l, &bytes, &shared);
  if (!bytes && !shared) return;
  const int64_t room = d->r->slot_bytes > 0 ? d->r->slot_bytes : 256;
  l->slots = bytes ? room / bytes : 16;
  if (shared && l->slots > SHARED_LIMIT / 2 / shared) l->slots = SHARED_LIMIT / 2 / shared;
  if (shared && l->slots > 16) l->slots = 16;
  if (l->slots < 4) l->slots = 4;
  if (l->slots * shared > SHARED_LIMIT) {
    fl_kad_refuse(d, l->s->line, "a loop that keeps so much in shared memory");
    return;
  }
  d->res->n_slots += (int32_t)(l->slots * (bytes + 8));
  for (int v = 0; v < d->n0; ++v) {
    if (!fl_kset_has(l->state, v)) continue;
    const fl_kvar x = d->f->vars[v];
    const char *name = fl_kad_name(d, "slots_", v);
    l->snap[v] = x.kind == FL_KV_SHARED ? shared_array(d, x.type, name, l->slots * x.count)
                                        : fl_kad_array(d, x.type, name, l->slots * x.count);
  }
  l->pos = fl_kad_array(d, FL_KT_I64, "slot_of", l->slots);
}

/* Copy the state into slot 'at' (an I64 expression) or back. */
static void move_state(loop *l, fl_kblock *b, fl_kexpr *at, int back) {
  fl_kad_state *d = l->d;
  at = fl_kad_atom(d, b, at);
  for (int v = 0; v < d->n0 && at; ++v) {
    if (l->snap[v] < 0) continue;
    const fl_kvar x = d->f->vars[v];
    fl_kexpr *i = kx_op(d, FL_KO_MUL, at, kx_int(d, x.count));
    if (x.kind == FL_KV_LOCAL && back) kx_set(d, b, v, fl_kexpr_load(d->f, l->snap[v], at));
    else if (x.kind == FL_KV_LOCAL) fl_kstmt_store(d->f, b, l->snap[v], at, kx_var(d, v));
    else if (x.kind == FL_KV_SHARED && back)
      fl_kad_copy_shared(d, b, v, kx_int(d, 0), l->snap[v], i, x.count);
    else if (x.kind == FL_KV_SHARED)
      fl_kad_copy_shared(d, b, l->snap[v], i, v, kx_int(d, 0), x.count);
    else if (back) copy_array(d, b, v, kx_int(d, 0), l->snap[v], i, x.count);
    else copy_array(d, b, l->snap[v], i, v, kx_int(d, 0), x.count);
  }
}

static void barrier_between(loop *l, fl_kblock *b) {
  fl_kstmt *s = l->barrier ? fl_kstmt_new(l->d->a, b, FL_KS_BARRIER, l->s->line) : NULL;
  if (s) s->op = (uint8_t)(l->barrier - 1);
}

static void count_pass(loop *l, fl_kset keep, fl_kblock *f) {
  fl_kad_state *d = l->d;
  save_before(l, keep, f);
  for (int i = 0; i < l->n_counters; ++i)
    kx_set(d, f, l->counter[i].start, kx_var(d, l->counter[i].var));
  kx_set(d, f, l->trips, kx_int(d, 0));
  fl_kstmt *s = fl_kstmt_loop(d->f, f, l->s->x[0]);
  if (!s) return;
  s->post = l->s->post;
  s->line = l->s->line;
  if (l->slots) {
    fl_kexpr *fits = kx_op(d, FL_KO_LT, kx_var(d, l->trips), kx_int(d, l->slots));
    fl_kstmt *c = fl_kstmt_if(d->f, &s->body, fits);
    if (!c) return;
    move_state(l, &c->body, kx_var(d, l->trips), 0);
    fl_kstmt_store(d->f, &c->body, l->pos, kx_var(d, l->trips), kx_var(d, l->trips));
  }
  fl_kad_primal(d, &l->s->body, &s->body);
  fl_kad_primal(d, &l->s->other, &s->other);
  kx_set(d, &s->body, l->trips, kx_op(d, FL_KO_ADD, kx_var(d, l->trips), kx_int(d, 1)));
}

/* m = how far to run from p before the next snapshot, on the way to iteration k. */
static void choose_step(loop *l, fl_kblock *b) {
  fl_kad_state *d = l->d;
  const int left = fl_kad_local(d, FL_KT_I64, "left"), s = fl_kad_local(d, FL_KT_I64, "free");
  const int reach = fl_kad_local(d, FL_KT_I64, "reach"), r = fl_kad_local(d, FL_KT_I64, "runs");
  kx_set(d, b, left, kx_op(d, FL_KO_ADD, kx_op(d, FL_KO_SUB, kx_var(d, l->k), kx_var(d, l->p)),
                           kx_int(d, 1)));
  kx_set(d, b, s, kx_op(d, FL_KO_SUB, kx_int(d, l->slots + 1), kx_var(d, l->sp)));
  kx_set(d, b, reach, kx_int(d, 1));
  kx_set(d, b, r, kx_int(d, 0));
  fl_kstmt *w = fl_kstmt_loop(d->f, b, kx_op(d, FL_KO_LT, kx_var(d, reach), kx_var(d, left)));
  if (!w) return;
  kx_set(d, &w->body, r, kx_op(d, FL_KO_ADD, kx_var(d, r), kx_int(d, 1)));
  fl_kexpr *sum = kx_op(d, FL_KO_ADD, kx_var(d, s), kx_var(d, r));
  kx_set(d, &w->body, reach, kx_op(d, FL_KO_DIV, kx_op(d, FL_KO_MUL, kx_var(d, reach), sum),
                                   kx_var(d, r)));
  /* The part after the snapshot: C(s + r - 1, s - 1), but at least one iteration before it. */
  fl_kexpr *right = fl_kad_atom(d, b, kx_op(d, FL_KO_DIV, kx_op(d, FL_KO_MUL, kx_var(d, reach),
                                                                kx_var(d, s)), sum));
  fl_kexpr *most = kx_op(d, FL_KO_SUB, kx_var(d, left), kx_int(d, 1));
  kx_set(d, b, l->m, kx_op(d, FL_KO_SUB, kx_var(d, left),
                           fl_kexpr_select(d->a, kx_op(d, FL_KO_LT, right, most), right, most)));
}

/* Bring the state to the begin of iteration k, from the newest snapshot. */
static void approach(loop *l, fl_kblock *b) {
  fl_kad_state *d = l->d;
  fl_kexpr *top = kx_op(d, FL_KO_SUB, kx_var(d, l->sp), kx_int(d, 1));
  barrier_between(l, b);
  move_state(l, b, top, 1);
  kx_set(d, b, l->p, fl_kexpr_load(d->f, l->pos, top));
  fl_kexpr *short_of = kx_op(d, FL_KO_LT, kx_var(d, l->p), kx_var(d, l->k));
  if (l->n_counters) {
    fl_kstmt *c = fl_kstmt_if(d->f, b, short_of);
    if (c) set_counters(l, &c->body, l->p);
  }
  fl_kstmt *w = fl_kstmt_loop(d->f, b, short_of);
  if (!w) return;
  choose_step(l, &w->body);
  fl_kexpr *more = kx_op(d, FL_KO_GT, kx_var(d, l->m), kx_int(d, 0));
  fl_kstmt *run = fl_kstmt_loop(d->f, &w->body, more);
  if (!run) return;
  fl_kad_primal(d, &l->s->body, &run->body);
  fl_kad_primal(d, &l->s->other, &run->body);
  kx_set(d, &run->other, l->p, kx_op(d, FL_KO_ADD, kx_var(d, l->p), kx_int(d, 1)));
  kx_set(d, &run->other, l->m, kx_op(d, FL_KO_SUB, kx_var(d, l->m), kx_int(d, 1)));
  fl_kstmt *c = fl_kstmt_if(d->f, &w->body, short_of);
  if (!c) return;
  move_state(l, &c->body, kx_var(d, l->sp), 0);
  fl_kstmt_store(d->f, &c->body, l->pos, kx_var(d, l->sp), kx_var(d, l->p));
  kx_set(d, &c->body, l->sp, kx_op(d, FL_KO_ADD, kx_var(d, l->sp), kx_int(d, 1)));
}

static void reverse_pass(loop *l, fl_kblock *r) {
  fl_kad_state *d = l->d;
  fl_kset inner = fl_kset_new(d), outer = d->carried;
  fl_kblock fb = {0}, rb = {0};
  if (!inner) return;
  d->carried = l->reads;
  fl_kad_sweep(d, &l->s->body, inner, &fb, &rb);
  if (l->returns_step) fl_kad_sweep(d, &l->s->other, inner, &fb, &rb);
  d->carried = outer;
  kx_set(d, r, l->k, kx_op(d, FL_KO_SUB, kx_var(d, l->trips), kx_int(d, 1)));
  if (l->slots)
    kx_set(d, r, l->sp, fl_kexpr_select(d->a, kx_op(d, FL_KO_LE, kx_var(d, l->trips),
                                                    kx_int(d, l->slots)),
                                        kx_var(d, l->trips), kx_int(d, 1)));
  fl_kstmt *s = fl_kstmt_loop(d->f, r, kx_op(d, FL_KO_GE, kx_var(d, l->k), kx_int(d, 0)));
  if (!s) return;
  if (l->slots) approach(l, &s->body);
  else barrier_between(l, &s->body);
  set_counters(l, &s->body, l->k);
  fl_kblock_append(&s->body, fb);
  fl_kblock_append(&s->body, rb);
  if (l->slots) {
    fl_kexpr *top = kx_op(d, FL_KO_SUB, kx_var(d, l->sp), kx_int(d, 1));
    fl_kstmt *c = fl_kstmt_if(d->f, &s->body, kx_op(d, FL_KO_EQ, fl_kexpr_load(d->f, l->pos, top),
                                                    kx_var(d, l->k)));
    if (c) kx_set(d, &c->body, l->sp, top);
  }
  kx_set(d, &s->other, l->k, kx_op(d, FL_KO_SUB, kx_var(d, l->k), kx_int(d, 1)));
  barrier_between(l, r);
}

/* ---- entry ---------------------------------------------------------------------------------------------- */

/* A loop with values that are needed but without an adjoint of its own. */
static void plain_loop(loop *l, fl_kset keep, fl_kblock *f, fl_kblock *r) {
  save_before(l, keep, f);
  replay_loop(l, f);
  put_back(l, keep, r);
  update_keep(l, keep, 0);
}

static void stored_loop(loop *l, fl_kset keep, fl_kblock *f, fl_kblock *r) {
  fl_kad_state *d = l->d;
  look_for_counters(l, &l->s->body);
  look_for_counters(l, &l->s->other);
  l->trips = fl_kad_local(d, FL_KT_I64, "trips");
  l->k = fl_kad_local(d, FL_KT_I64, "k");
  make_slots(l);
  if (l->slots) {
    l->p = fl_kad_local(d, FL_KT_I64, "p");
    l->m = fl_kad_local(d, FL_KT_I64, "ahead");
    l->sp = fl_kad_local(d, FL_KT_I64, "held");
  }
  if (fl_kad_dead(d)) return;
  reverse_pass(l, r);
  move_marks(&l->outer, l, 1);
  count_pass(l, keep, f);
  put_back(l, keep, r);
  update_keep(l, keep, 1);
}

void fl_kad_loop(fl_kad_state *d, fl_kstmt *s, fl_kset keep, fl_kblock *forward,
                 fl_kblock *reverse) {
  loop l = {.d = d, .s = s};
  const int top = d->top;
  if (!begin(&l)) return;
  d->top = 0;
  if (!(fl_kad_marks(s) & FL_KN_REVERSE)) {
    plain_loop(&l, keep, forward, reverse);
  } else {
    move_marks(&l.outer, &l, 0);
    if (look_back(&l, 1) && is_one_pass(&l)) one_pass(&l, keep, forward, reverse);
    else if (look_back(&l, 0)) stored_loop(&l, keep, forward, reverse);
    move_marks(&l.outer, &l, 1);
  }
  d->top = (uint8_t)top;
}
