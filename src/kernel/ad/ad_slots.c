/*
** Loops that must be reversed from the last iteration to the first. Where the number of iterations
** is a constant and there is room, the forward code keeps a snapshot of the state (ad_loop.c)
** before each. Else it keeps one before each n-th iteration, where n begins as 1 and doubles when
** about three quarters of the room are used up: then every second snapshot is dropped. The rest of
** the room is for the iterations between two of these, by binomial checkpointing: with s free slots
** the last of l iterations is reached by running ahead and leaving snapshots so that no iteration
** runs more than r times, r being the least with C(s + r, s) >= l (a binomial coefficient). So any
** trip count takes the same memory.
**
** Integer counters that move by the same amount each time are computed from the iteration's
** number and are not stored.
*/
#include "kernel/ad/ad_loop.h"

/* ---- counters --------------------------------------------------------------------------- */

static int varies(const void *of, const fl_kexpr *x) {
  const fl_kloop *l = of;
  return x->kind == FL_KX_LOAD || (x->var >= 0 && fl_kset_has(l->all, x->var));
}

static int invariant(const fl_kloop *l, const fl_kexpr *x) { return !fl_kexpr_any(x, varies, l); }

static void look_for_counters(fl_kloop *l, const fl_kblock *b) {
  for (const fl_kstmt *s = b->first; s; s = s->next) {
    const fl_kad_note *note = s->note;
    fl_kstep step;
    if (s->kind == FL_KS_IF && note && note->step) look_for_counters(l, &s->body);
    if (s->kind != FL_KS_ASSIGN || !fl_kset_has(l->state, s->var)) continue;
    const int v = s->var, type = l->d->f->vars[v].type;
    if (!fl_kstep_of(l->d->f, s, &step) || !step.exact || !invariant(l, step.by) ||
        fl_kassigned(&l->s->body, v, NULL) + fl_kassigned(&l->s->other, v, NULL) != 1 ||
        l->n_counters == FL_KLOOP_COUNTERS) continue;
    const int n = l->n_counters++;
    l->counter[n].var = v;
    l->counter[n].by = step.by;
    l->counter[n].op = step.op;
    l->counter[n].start = fl_kad_local(l->d, type, fl_kad_name(l->d, "first_", v));
    fl_kset_del(l->state, v);
  }
}

/* Sets the counters to their values at the start of iteration 'at'. */
static void set_counters(fl_kloop *l, fl_kblock *b, int at) {
  fl_kad_state *d = l->d;
  for (int i = 0; i < l->n_counters; i++) {
    const int v = l->counter[i].var, type = d->f->vars[v].type;
    fl_kexpr *by = fl_kexpr_cast(d->a, type, (fl_kexpr *)(uintptr_t)l->counter[i].by);
    fl_kexpr *n = fl_kexpr_cast(d->a, type, kx_var(d, at));
    kx_set(d, b, v, kx_op(d, l->counter[i].op, kx_var(d, l->counter[i].start),
                          kx_op(d, FL_KO_MUL, n, by)));
  }
}

/* ---- snapshots -------------------------------------------------------------------------- */

typedef struct later { const fl_kloop *l; int var; } later;

static int writes_more(const void *of, const fl_kstmt *s) {
  const later *c = of;
  return fl_kwrites_to(s, c->var) && !fl_kloop_overwrites(c->l, s);
}

/* Does anything store to v after the loop, in the same iteration of the enclosing loop, at an
** element that iterations of the loop do not certainly overwrite? */
static int stored_later(const fl_kloop *l, const fl_kblock *b, int v) {
  const later c = {l, v};
  const fl_kstmt *s = b->first;
  while (s && !fl_kloop_holds(s, l->s)) s = s->next;
  if (!s) return 0;
  if (s != l->s && (stored_later(l, &s->body, v) || stored_later(l, &s->other, v))) return 1;
  const fl_kblock rest = {s->next, b->last};
  if (s == l->s || s->kind != FL_KS_LOOP) return fl_kblock_any(rest, writes_more, &c);
  return fl_kblock_holds(s->body, l->s) && fl_kblock_any(s->other, writes_more, &c);
}

typedef struct settled { const fl_kloop *l; int var, ok; } settled;

static int see_settled(void *arg, fl_kexpr *x) {
  settled *c = arg;
  const fl_kad_state *d = c->l->d;
  if (x->kind == FL_KX_LOAD && x->var == c->var
      && !fl_kloop_bit(fl_kfact_of(d->facts, x->site)->final, c->l->s->label)) c->ok = 0;
  return 1;
}

static int see_settling(void *arg, fl_kstmt *s) {
  settled *c = arg;
  if (s->var == c->var && (s->kind == FL_KS_ATOMIC || (s->kind == FL_KS_STORE && s->accumulate)))
    c->ok = 0;
  return 1;
}

/* Does s read or write array v, but for maxima, whose adjoints read what they leave together? */
static int is_no_maximum(const void *of, const fl_kstmt *s) {
  const settled *c = of;
  for (int i = 0; i < 4; i++)
    if (s->x[i] && fl_kreads(s->x[i], c->var)) return 1;
  return fl_kwrites_to(s, c->var) && !fl_kad_reads_won(c->l->d, s);
}

/* Does each read of array v in the loop find the value that the element has after the loop? */
static int reads_final_values(const fl_kloop *l, int v) {
  const int kind = l->d->f->vars[v].kind, memory = kind == FL_KV_POINTER || kind == FL_KV_SHARED;
  settled c = {l, v, l->s->label >= 0 && l->s->label < 64 && !l->barrier && memory};
  if (memory && !l->barrier && !fl_kstmt_any(l->s, is_no_maximum, &(settled){l, v, 0})) return 1;
  const fl_kvisitor see = {see_settling, see_settled, &c};
  if (c.ok) fl_kwalk_stmt(&see, l->s);
  return c.ok;
}

/* Adds to *bytes and *shared the size of a snapshot in registers or local memory and in shared
** memory, and sets *dynamic to 1 if it has dynamic shared memory. Arrays that need no snapshot are
** taken out of l->state. Those in 'keep' need their values before the loop too, so their stores are
** undone if possible. */
static void measure_state(fl_kloop *l, fl_kset keep, int64_t *bytes, int64_t *shared,
                          int *dynamic) {
  fl_kad_state *d = l->d;
  for (int v = 0; v < d->n0; v++) {
    const fl_kvar x = d->f->vars[v];
    const int old = fl_kset_has(keep, v) && fl_kset_has(l->before, v);
    const int memory = x.kind == FL_KV_SHARED || x.kind == FL_KV_POINTER;
    if (memory && old && fl_kloop_can_undo(l, v)) l->of[v].final = 2, fl_kset_del(l->state, v);
    else if (memory && old && !fl_kloop_can_copy_shared(l, &x) && fl_kloop_can_list(l, v))
      fl_kset_del(l->state, v);
    if (!fl_kset_has(l->state, v)) continue;
    if (x.kind == FL_KV_SHARED && fl_kloop_rewrites(l, v)) {
      l->of[v].final = (uint8_t)stored_later(l, &d->body, v);
      fl_kset_del(l->state, v);
    } else if (reads_final_values(l, v)) l->of[v].final = 1, fl_kset_del(l->state, v);
    else if (fl_kloop_can_undo(l, v)) l->of[v].final = 2, fl_kset_del(l->state, v);
    else if (fl_kloop_can_copy_shared(l, &x) && x.dynamic) *dynamic = 1;
    else if (fl_kloop_can_copy_shared(l, &x)) *shared += x.count * fl_kt_size(x.type);
    else if (fl_kloop_can_list(l, v)) fl_kset_del(l->state, v);
    else if (memory)
      fl_kad_refuse(d, l->s->line, "a loop in which '%s' is read and rewritten (write to a second "
                    "array or to a local)", x.source);
    else *bytes += x.count * fl_kt_size(x.type);
  }
}

/* The number of loops in b around 'goal'. */
static int loops_around(const fl_kblock *b, const fl_kstmt *goal) {
  for (const fl_kstmt *s = b->first; s; s = s->next)
    if (s != goal && fl_kloop_holds(s, goal))
      return (s->kind == FL_KS_LOOP) + (fl_kblock_holds(s->body, goal)
                                            ? loops_around(&s->body, goal)
                                            : loops_around(&s->other, goal));
  return 0;
}

static void note_kept(const fl_kloop *l, int32_t bytes) {
  enum { MOST_DEEP = 6 };
  fl_kad *ad = l->d->res;
  const int most = sizeof ad->kept / sizeof *ad->kept, line = l->s->line;
  const int deep = loops_around(&l->d->body, l->s);
  ad->moved += (int64_t)bytes << 4 * (deep < MOST_DEEP ? deep : MOST_DEEP);
  struct fl_kad_kept *x = &ad->kept[ad->n_kept < most ? ad->n_kept++ : most - 1];
  if (!x->line) x->line = line;
  x->bytes += bytes;
}

/* The statement before the loop in its block, or NULL. */
static const fl_kstmt *before_loop(const fl_kloop *l, const fl_kblock *b) {
  const fl_kstmt *before = NULL;
  for (const fl_kstmt *s = b->first; s; before = s, s = s->next) {
    if (s == l->s) return before;
    if (fl_kblock_holds(s->body, l->s)) return before_loop(l, &s->body);
    if (fl_kblock_holds(s->other, l->s)) return before_loop(l, &s->other);
  }
  return NULL;
}

/* Chooses the number of snapshots, of which one takes 'bytes' bytes of a thread, 'shared' bytes of
** a block and, with 'dynamic', a region of dynamic shared memory. */
static void choose_slots(fl_kloop *l, int64_t bytes, int64_t shared, int dynamic) {
  fl_kad_state *d = l->d;
  const int64_t room = d->r->slot_bytes > 0 ? d->r->slot_bytes : FL_KAD_SLOT_BYTES;
  fl_krange range;
  l->slots = bytes ? room / bytes : 16;
  if (l->slots > FL_KLOOP_SLOTS) l->slots = FL_KLOOP_SLOTS;
  if (shared && l->slots > FL_KLOOP_SHARED / 2 / shared) l->slots = FL_KLOOP_SHARED / 2 / shared;
  if (shared && l->slots > 16) l->slots = 16;
  if (dynamic && l->slots > FL_KLOOP_DYNAMIC) l->slots = FL_KLOOP_DYNAMIC;
  const int64_t listed = fl_kloop_listed_slots(l);
  if (listed && l->slots > listed) l->slots = listed;
  if (l->slots < 4) l->slots = 4;
  l->first = (l->slots - l->slots / 4) / 2 * 2;
  const int rounds = fl_krange_of(d->f, before_loop(l, &d->body), l->s, (int)l->slots, &range);
  l->whole = rounds > 0;
  if (l->whole) l->slots = rounds;
}

static void make_slots(fl_kloop *l, fl_kset keep) {
  fl_kad_state *d = l->d;
  int64_t bytes = 0, shared = 0;
  int dynamic = 0;
  measure_state(l, keep, &bytes, &shared, &dynamic);
  if (!bytes && !shared && !dynamic && !fl_kloop_listed_slots(l)) return;
  choose_slots(l, bytes, shared, dynamic);
  note_kept(l, (int32_t)(l->slots * (bytes + (l->whole ? 0 : fl_kt_size(l->type)))));
  for (int v = 0; v < d->n0; v++)
    if (fl_kset_has(l->state, v))
      l->of[v].snap = fl_kloop_room(d, v, "slots_", l->slots, &l->of[v].snap_region);
  if (!l->whole) l->pos = fl_kad_var(d, FL_KV_ARRAY, l->type, "slot_of", l->slots);
}

static fl_kexpr *wide_var(fl_kad_state *d, int v) {
  return fl_kexpr_cast(d->a, FL_KT_I64, kx_var(d, v));
}

/* The first element of variable v in snapshot number 'at' (an I64 expression). */
static fl_kexpr *snapshot_of(const fl_kloop *l, int v, fl_kexpr *at) {
  fl_kad_state *d = l->d;
  const fl_kvar x = d->f->vars[v];
  if (!x.dynamic) return kx_op(d, FL_KO_MUL, at, kx_int(d, x.count));
  return fl_kloop_region(d, v, kx_op(d, FL_KO_ADD, at, kx_int(d, l->of[v].snap_region)));
}

void fl_kloop_barrier(fl_kloop *l, fl_kblock *b) {
  fl_kstmt *s = l->barrier ? fl_kstmt_new(l->d->a, b, FL_KS_BARRIER, l->s->line) : NULL;
  if (s) s->op = (uint8_t)(l->barrier - 1), s->mode = (uint8_t)l->grid;
  if (s) fl_kad_next_phase(l->d, b, s);
}

/* Copies the state to snapshot number 'at', or back from it ('back'). An element that a thread has
** listed may be one that another thread has written since, or is about to write. */
static void move_state(fl_kloop *l, fl_kblock *b, fl_kexpr *at, int back) {
  fl_kad_state *d = l->d;
  const int listed = fl_kloop_listed_slots(l) > 0;
  at = fl_kad_atom(d, b, fl_kexpr_cast(d->a, FL_KT_I64, at));
  if (listed && !back) fl_kloop_barrier(l, b);
  for (int v = 0; v < d->n0 && at; v++) {
    const fl_kad_list *list = l->of[v].list;
    if (list && list->in_state) fl_kloop_move_list(list, b, at, back);
    if (l->of[v].snap < 0) continue;
    if (d->f->vars[v].kind != FL_KV_LOCAL)
      fl_kad_move(d, b, v, l->of[v].snap, snapshot_of(l, v, at), back);
    else if (back) kx_set(d, b, v, fl_kexpr_load(d->f, l->of[v].snap, at));
    else fl_kstmt_store(d->f, b, l->of[v].snap, at, kx_var(d, v));
  }
  if (listed) fl_kloop_barrier(l, b);
}

/* Copies snapshot number 'from' to number 'to'. */
static void move_slot(fl_kloop *l, fl_kblock *b, int to, int from) {
  fl_kad_state *d = l->d;
  for (int v = 0; v < d->n0; v++) {
    const fl_kad_list *list = l->of[v].list;
    if (list && list->in_state)
      fl_kloop_move_listed_slot(list, b, wide_var(d, to), wide_var(d, from));
    if (l->of[v].snap < 0) continue;
    fl_kexpr *at = snapshot_of(l, v, wide_var(d, to)), *x = snapshot_of(l, v, wide_var(d, from));
    const int snap = l->of[v].snap;
    if (d->f->vars[v].kind != FL_KV_LOCAL) fl_kad_copy_between(d, b, v, snap, at, snap, x);
    else fl_kstmt_store(d->f, b, snap, at, fl_kexpr_load(d->f, snap, x));
  }
}

/* A number of the type in which iterations, or snapshots, are counted. */
static fl_kexpr *num(const fl_kloop *l, int64_t i) { return fl_kexpr_int(l->d->a, l->type, i); }
static fl_kexpr *slot_num(const fl_kloop *l, int64_t i) {
  return fl_kexpr_int(l->d->a, FL_KT_I32, i);
}

static void add_to(fl_kloop *l, fl_kblock *b, int v, int op, fl_kexpr *x) {
  kx_set(l->d, b, v, kx_op(l->d, op, kx_var(l->d, v), x));
}

/* Adds code that drops every second snapshot; from now on half as many are taken. */
static void halve(fl_kloop *l, fl_kblock *b) {
  fl_kad_state *d = l->d;
  const int to = fl_kad_local(d, FL_KT_I32, "to"), from = fl_kad_local(d, FL_KT_I32, "from");
  fl_kblock *in = fl_kad_for(d, b, to, slot_num(l, 1), slot_num(l, l->first / 2), slot_num(l, 1));
  if (in) {
    kx_set(d, in, from, kx_op(d, FL_KO_MUL, kx_var(d, to), slot_num(l, 2)));
    move_slot(l, in, to, from);
  }
  kx_set(d, b, l->sp, slot_num(l, l->first / 2));
  add_to(l, b, l->stride, FL_KO_MUL, num(l, 2));
}

/* Adds code that puts the state on the stack of snapshots. */
static void push(fl_kloop *l, fl_kblock *b) {
  move_state(l, b, kx_var(l->d, l->sp), 0);
  add_to(l, b, l->sp, FL_KO_ADD, slot_num(l, 1));
}

/* Adds code that takes a snapshot before iteration number 'trips', if one is due. When l->first
** slots are full, 'trips' is a multiple of the doubled stride too. */
static void take_snapshot(fl_kloop *l, fl_kblock *b) {
  fl_kad_state *d = l->d;
  if (l->whole) {
    move_state(l, b, kx_var(d, l->trips), 0);
    return;
  }
  fl_kexpr *mask = kx_op(d, FL_KO_SUB, kx_var(d, l->stride), num(l, 1));
  fl_kexpr *past = kx_op(d, FL_KO_AND, kx_var(d, l->trips), mask);
  fl_kstmt *due = fl_kstmt_if(d->f, b, kx_op(d, FL_KO_EQ, past, num(l, 0)));
  if (!due) return;
  fl_kexpr *is_full = kx_op(d, FL_KO_EQ, kx_var(d, l->sp), slot_num(l, l->first));
  fl_kstmt *full = fl_kstmt_if(d->f, &due->body, is_full);
  if (full) halve(l, &full->body);
  push(l, &due->body);
}

static void count_pass(fl_kloop *l, fl_kset keep, fl_kblock *f) {
  fl_kad_state *d = l->d;
  fl_kloop_save_before(l, keep, f);
  for (int i = 0; i < l->n_counters; i++)
    kx_set(d, f, l->counter[i].start, kx_var(d, l->counter[i].var));
  kx_set(d, f, l->trips, num(l, 0));
  if (l->slots && !l->whole) {
    kx_set(d, f, l->sp, slot_num(l, 0));
    kx_set(d, f, l->stride, num(l, 1));
  }
  fl_kloop_begin_lists(l, f);
  if (!l->s->post) fl_kad_list_loads(d, f, l->s->x[0], l->s->line);
  fl_kstmt *s = fl_kloop_head(l, f);
  if (!s) return;
  if (l->slots) take_snapshot(l, &s->body);
  fl_kloop_keep_round(l, &s->body);
  fl_kad_primal(d, &l->s->body, &s->body);
  fl_kad_primal(d, &l->s->other, &s->other);
  fl_kad_list_loads(d, &s->other, l->s->x[0], l->s->line);
  fl_kloop_end_lists(l);
  add_to(l, &s->body, l->trips, FL_KO_ADD, num(l, 1));
}

/* Adds code that sets 'reach' to the least C(s + r, s) of at least 'left', with s free slots. */
static void find_reach(fl_kloop *l, fl_kblock *b, int s, int left, int reach, int r) {
  fl_kad_state *d = l->d;
  kx_set(d, b, reach, kx_int(d, 1));
  kx_set(d, b, r, kx_int(d, 0));
  fl_kstmt *w = fl_kstmt_loop(d->f, b, kx_op(d, FL_KO_LT, kx_var(d, reach), kx_var(d, left)));
  if (!w) return;
  add_to(l, &w->body, r, FL_KO_ADD, kx_int(d, 1));
  fl_kexpr *sum = kx_op(d, FL_KO_ADD, kx_var(d, s), kx_var(d, r));
  kx_set(d, &w->body, reach, kx_op(d, FL_KO_DIV, kx_op(d, FL_KO_MUL, kx_var(d, reach), sum),
                                   kx_var(d, r)));
}

/* Adds code that sets l->m to the number of iterations to run from p on before the next snapshot,
** on the way to iteration k, where there is no room for one at each. */
static void choose_step(fl_kloop *l, fl_kblock *b) {
  fl_kad_state *d = l->d;
  const int left = fl_kad_local(d, FL_KT_I64, "left"), s = fl_kad_local(d, FL_KT_I64, "free");
  const int reach = fl_kad_local(d, FL_KT_I64, "reach"), r = fl_kad_local(d, FL_KT_I64, "runs");
  kx_set(d, b, left, kx_op(d, FL_KO_ADD, kx_op(d, FL_KO_SUB, wide_var(d, l->k), wide_var(d, l->p)),
                           kx_int(d, 1)));
  kx_set(d, b, s, kx_op(d, FL_KO_SUB, kx_int(d, l->slots + 1), wide_var(d, l->sp)));
  find_reach(l, b, s, left, reach, r);
  /* right: the number of iterations after the next snapshot, C(s + r - 1, s - 1). At least one
  ** iteration must remain before it. */
  fl_kexpr *sum = kx_op(d, FL_KO_ADD, kx_var(d, s), kx_var(d, r));
  fl_kexpr *right = fl_kad_atom(d, b, kx_op(d, FL_KO_DIV, kx_op(d, FL_KO_MUL, kx_var(d, reach),
                                                                kx_var(d, s)), sum));
  fl_kexpr *most = kx_op(d, FL_KO_SUB, kx_var(d, left), kx_int(d, 1));
  right = fl_kexpr_select(d->a, kx_op(d, FL_KO_LT, right, most), right, most);
  kx_set(d, b, l->m, fl_kexpr_cast(d->a, l->type, kx_op(d, FL_KO_SUB, kx_var(d, left), right)));
}

/* Adds code that undoes the stores of iterations k down to p: the last first, since an iteration
** may have overwritten what an earlier one wrote. */
static void undo_rounds(fl_kloop *l, fl_kblock *b) {
  fl_kad_state *d = l->d;
  const int q = fl_kad_local(d, l->type, "back");
  if (q < 0) return;
  kx_set(d, b, q, kx_var(d, l->k));
  fl_kstmt *s = fl_kstmt_loop(d->f, b, kx_op(d, FL_KO_GE, kx_var(d, q), kx_var(d, l->p)));
  if (!s) return;
  set_counters(l, &s->body, q);
  fl_kloop_undo_round(l, &s->body);
  add_to(l, &s->other, q, FL_KO_SUB, num(l, 1));
}

static fl_kexpr *is_irregular(fl_kloop *l) {
  return kx_op(l->d, FL_KO_EQ, kx_var(l->d, l->regular), fl_kexpr_zero(l->d->a, FL_KT_BOOL));
}

/* Adds code that sets p to the iteration of the newest snapshot, number 'top'. If it is one that
** the forward code took, 'taken' and 'regular' are set as well. There is room for the state of each
** iteration from it on if these are at most two more than the free slots: the first has a snapshot
** already, and the last needs none. */
static void find_newest(fl_kloop *l, fl_kblock *b, fl_kexpr *top) {
  fl_kad_state *d = l->d;
  fl_kstmt *c = fl_kstmt_if(d->f, b, kx_op(d, FL_KO_LE, kx_var(d, l->sp), kx_var(d, l->taken)));
  if (!c) return;
  kx_set(d, &c->body, l->taken, kx_var(d, l->sp));
  kx_set(d, &c->body, l->regular,
         kx_op(d, FL_KO_LE, kx_var(d, l->stride),
               fl_kexpr_cast(d->a, l->type, kx_op(d, FL_KO_SUB, slot_num(l, l->slots + 2),
                                                  kx_var(d, l->sp)))));
  fl_kexpr *from = kx_op(d, FL_KO_SUB, kx_var(d, l->taken), slot_num(l, 1));
  fl_kexpr *base = kx_op(d, FL_KO_MUL, fl_kexpr_cast(d->a, l->type, from), kx_var(d, l->stride));
  fl_kexpr *by = kx_op(d, FL_KO_SUB, kx_var(d, l->sp), kx_var(d, l->taken));
  kx_set(d, b, l->p, kx_op(d, FL_KO_ADD, base, fl_kexpr_cast(d->a, l->type, by)));
  fl_kexpr *later = kx_op(d, FL_KO_GT, kx_var(d, l->sp), kx_var(d, l->taken));
  c = fl_kstmt_if(d->f, b, kx_op(d, FL_KO_LAND, later, is_irregular(l)));
  if (c) kx_set(d, &c->body, l->p, fl_kexpr_load(d->f, l->pos, top));
}

/* Adds code that runs iterations from p on, at most to the start of k, and then takes a snapshot
** unless k is reached. short_of: p < k. */
static void run_on(fl_kloop *l, fl_kblock *b, fl_kexpr *short_of) {
  fl_kad_state *d = l->d;
  kx_set(d, b, l->m, num(l, 1));
  fl_kstmt *c = fl_kstmt_if(d->f, b, is_irregular(l));
  if (c) choose_step(l, &c->body);
  fl_kstmt *run = fl_kstmt_loop(d->f, b, kx_op(d, FL_KO_GT, kx_var(d, l->m), num(l, 0)));
  if (!run) return;
  fl_kad_primal(d, &l->s->body, &run->body);
  fl_kad_primal(d, &l->s->other, &run->body);
  add_to(l, &run->other, l->p, FL_KO_ADD, num(l, 1));
  add_to(l, &run->other, l->m, FL_KO_SUB, num(l, 1));
  if (!(c = fl_kstmt_if(d->f, b, short_of))) return;
  b = &c->body;
  if ((c = fl_kstmt_if(d->f, b, is_irregular(l))))
    fl_kstmt_store(d->f, &c->body, l->pos, kx_var(d, l->sp), kx_var(d, l->p));
  push(l, b);
}

/* Adds code that brings the state to the start of iteration k, from the newest snapshot. */
static void approach(fl_kloop *l, fl_kblock *b) {
  fl_kad_state *d = l->d;
  fl_kloop_barrier(l, b);
  if (l->whole) {
    move_state(l, b, kx_var(d, l->k), 1);
    return;
  }
  fl_kexpr *top = fl_kad_atom(d, b, kx_op(d, FL_KO_SUB, kx_var(d, l->sp), slot_num(l, 1)));
  move_state(l, b, top, 1);
  find_newest(l, b, top);
  fl_kexpr *short_of = kx_op(d, FL_KO_LT, kx_var(d, l->p), kx_var(d, l->k));
  kx_set(d, b, l->on_it, kx_op(d, FL_KO_EQ, kx_var(d, l->p), kx_var(d, l->k)));
  if (l->n_counters) {
    fl_kstmt *c = fl_kstmt_if(d->f, b, short_of);
    if (c && l->n_undo) undo_rounds(l, &c->body);
    if (c) set_counters(l, &c->body, l->p);
  }
  fl_kstmt *w = fl_kstmt_loop(d->f, b, short_of);
  if (w) run_on(l, &w->body, short_of);
}

/* Sets which carries of the loop (ad_last.c) are used: those of which a store before the loop takes
** the rest, and those whose last element is known after the loop. */
static void begin_carries(fl_kloop *l) {
  for (fl_kad_carry *c = l->d->carries; c; c = c->next)
    if (c->loop == l->s)
      c->now = c->before || fl_kloop_by_counters(l, c->load->x[0], c->use);
}

/* Adds code after the reverse loop, where the counters have their first values again, that adds
** what is left in carries to memory. */
static void end_carries(fl_kloop *l, fl_kblock *r) {
  fl_kad_state *d = l->d;
  for (fl_kad_carry *c = d->carries; c; c = c->next) {
    const int now = c->loop == l->s && c->now;
    if (now) c->now = 0;
    if (!now || c->before) continue;
    fl_kexpr *zero = fl_kexpr_zero(d->a, d->f->vars[c->reg].type);
    fl_kstmt *some = fl_kstmt_if(d->f, r, kx_op(d, FL_KO_NE, kx_var(d, c->reg), zero));
    if (!some) return;
    fl_kstmt_accumulate(d->f, &some->body, d->shadow[c->store->var],
                        fl_kloop_by_counters(l, c->load->x[0], c->use), kx_var(d, c->reg));
    kx_set(d, &some->body, c->reg, zero);
  }
}

static void reverse_pass(fl_kloop *l, fl_kblock *r) {
  fl_kad_state *d = l->d;
  fl_kset inner = fl_kset_new(d), taken = d->taken_back, listed = d->listed;
  fl_kblock fb = {0}, rb = {0};
  if (!inner) return;
  d->listed = listed ? fl_kset_copy(d, listed) : fl_kset_new(d);
  for (int v = 0; d->listed && v < d->n0; v++) if (l->of[v].list) fl_kset_add(d->listed, v);
  for (int i = 0; i < l->n_undo; i++) fl_kset_add(inner, l->undo[i].var);
  d->taken_back = fl_kset_copy(d, inner);
  begin_carries(l);
  fl_kloop_sweep(l, inner, l->reads, &fb, &rb);
  d->taken_back = taken;
  d->listed = listed;
  kx_set(d, r, l->k, kx_op(d, FL_KO_SUB, kx_var(d, l->trips), num(l, 1)));
  if (l->slots && !l->whole) kx_set(d, r, l->taken, kx_var(d, l->sp));
  fl_kstmt *s = fl_kstmt_loop(d->f, r, kx_op(d, FL_KO_GE, kx_var(d, l->k), num(l, 0)));
  if (!s) return;
  if (l->slots) approach(l, &s->body);
  else fl_kloop_barrier(l, &s->body);
  set_counters(l, &s->body, l->k);
  fl_kloop_undo_round(l, &s->body);
  fl_kblock_append(&s->body, fb);
  fl_kblock_append(&s->body, rb);
  if (l->slots && !l->whole) {
    fl_kstmt *c = fl_kstmt_if(d->f, &s->body, kx_var(d, l->on_it));
    if (c) add_to(l, &c->body, l->sp, FL_KO_SUB, slot_num(l, 1));
  }
  add_to(l, &s->other, l->k, FL_KO_SUB, num(l, 1));
  fl_kloop_barrier(l, r);
  end_carries(l, r);
}

static void make_stack(fl_kloop *l) {
  fl_kad_state *d = l->d;
  l->stride = fl_kad_local(d, l->type, "stride");
  l->p = fl_kad_local(d, l->type, "p");
  l->m = fl_kad_local(d, l->type, "ahead");
  l->sp = fl_kad_local(d, FL_KT_I32, "held");
  l->taken = fl_kad_local(d, FL_KT_I32, "taken");
  l->regular = fl_kad_local(d, FL_KT_BOOL, "regular");
  l->on_it = fl_kad_local(d, FL_KT_BOOL, "on_it");
}

/* Is x, of type int, a constant of at least 'least' or, if 'least' is 0, an index or a size of the
** launch? */
static int is_at_least(const fl_kexpr *x, int64_t least) {
  if (x->kind == FL_KX_CAST && x->type == FL_KT_I32) x = x->x[0];
  if (x->kind == FL_KX_SPECIAL) return least < 1;
  return fl_kexpr_is_int(x) && x->value.i >= least && x->value.i <= INT32_MAX;
}

/* Is the loop one for (v = first; v < bound && …; v += by), for an int v from 0 or more, with a
** constant by > 0? Then it has less than 2^31 iterations. */
static int has_few_rounds(const fl_kloop *l) {
  const fl_kfunc *f = l->d->f;
  const fl_kstmt *before = before_loop(l, &l->d->body);
  fl_kcount c;
  return before && before->kind == FL_KS_ASSIGN && fl_kcount_most(f, l->s, &c) && c.step.exact &&
         c.direct && c.step.var == before->var && f->vars[before->var].type == FL_KT_I32 &&
         is_at_least(before->x[0], 0) && c.step.op == FL_KO_ADD && is_at_least(c.step.by, 1) &&
         c.op == FL_KO_LT && !fl_kassigned(&l->s->body, c.step.var, NULL);
}

/* Maxima that are read as they are after the loop are not made again in its reverse code. */
static int see_made(void *arg, fl_kstmt *s) {
  const fl_kloop *l = arg;
  if (fl_kad_reads_won(l->d, s) && l->of[s->var].final == 1 && s->note)
    ((fl_kad_note *)s->note)->marks &= (uint8_t)~FL_KN_FORWARD;
  return 1;
}

void fl_kloop_stored_loop(fl_kloop *l, fl_kset keep, fl_kblock *f, fl_kblock *r) {
  fl_kad_state *d = l->d;
  look_for_counters(l, &l->s->body);
  look_for_counters(l, &l->s->other);
  l->type = has_few_rounds(l) ? FL_KT_I32 : FL_KT_I64;
  l->trips = fl_kad_local(d, l->type, "trips");
  l->k = fl_kad_local(d, l->type, "k");
  make_slots(l, keep);
  fl_kloop_make_lists(l);
  if (l->slots && !l->whole) make_stack(l);
  if (fl_kad_dead(d)) return;
  fl_kwalk_stmt(&(fl_kvisitor){see_made, NULL, l}, l->s);
  reverse_pass(l, r);
  fl_kloop_move_marks(&l->outer, l, 1);
  count_pass(l, keep, f);
  fl_kloop_put_back(l, keep, r);
  fl_kloop_close_lists(l, r);
  fl_kloop_update_keep(l, keep, 1);
}

/* ---- dynamic shared memory ---- */

static int32_t first_view(const fl_kfunc *f, int32_t v) {
  if (v < 0 || !f->vars[v].dynamic) return v;
  for (int i = 0; i < v; i++)
    if (f->vars[i].dynamic == f->vars[v].dynamic && f->vars[i].type == f->vars[v].type) return i;
  return v;
}

static int unify_stmt(void *arg, fl_kstmt *s) {
  s->var = first_view(arg, s->var);
  return 1;
}

static int unify_expr(void *arg, fl_kexpr *x) {
  if (x->kind == FL_KX_LOAD) x->var = first_view(arg, x->var);
  return 1;
}

void fl_kad_unify_views(fl_kfunc *f) {
  const fl_kvisitor v = {unify_stmt, unify_expr, f};
  fl_kwalk_block(&v, f->body);
}
