/*
** Structured control flow: BREAK, CONTINUE, LEAVE and RETURN become flags and IFs, so that every
** statement is left at its end and the reverse code need not consider jumps.
**
** - Every construct that a jump leaves has one BOOL: 'skip' (the rest of this body is not run);
**   loops may have a second, 'stop' (no further iteration). A jump sets the flags of all constructs
**   that it leaves.
** - Statements after a branch that always jumps move into the other branch: the common early
**   exits then need no flag at all (a flag that is not read is dropped with the dead code).
** - The condition of a loop left by a jump becomes "!stop && condition", so it is evaluated
**   as often as before; the step is guarded by !stop.
** - In a kernel with barriers, a return at its start may stay (kept_return).
** - PRINTF and ASSERT are removed (DECLs stay for the analyses). Stores of real numbers of the form
**   a[i] = a[i] + v or a[i] - v become accumulations.
*/
#include "kernel/ad/ad_state.h"

typedef struct frame {
  int kind;                    /* FL_KS_LOOP, FL_KS_BLOCK, or for the whole function FL_KS_RETURN */
  int32_t label, skip, stop;     /* variables or -1 */
  int crossed;                   /* a jump inside leaves this construct for an outer one */
  struct frame *up;
} frame;

static fl_kblock lower(fl_kad_state *d, fl_kblock b, frame *fr, int *jumps);

static int32_t flag_of(fl_kad_state *d, int32_t *flag, const char *name) {
  if (*flag < 0) *flag = fl_kad_local(d, FL_KT_BOOL, name);
  return *flag;
}

/* Sets the flags of all constructs that jump s leaves. */
static void leave(fl_kad_state *d, fl_kblock *out, const fl_kstmt *s, frame *fr) {
  for (; fr; fr = fr->up) {
    const int here = s->kind == FL_KS_LEAVE ? fr->kind == FL_KS_BLOCK && fr->label == s->label
                   : s->kind == FL_KS_RETURN ? fr->kind == FL_KS_RETURN
                   : fr->kind == FL_KS_LOOP;
    kx_set(d, out, flag_of(d, &fr->skip, "skip"), kx_bool(d, 1));
    if (fr->kind == FL_KS_LOOP && !(here && s->kind == FL_KS_CONTINUE))
      kx_set(d, out, flag_of(d, &fr->stop, "stop"), kx_bool(d, 1));
    if (here) return;
    fr->crossed = 1;
  }
}

/* Does control never reach the end of the block? */
static int ends(const fl_kblock *b) {
  for (const fl_kstmt *s = b->first; s; s = s->next) {
    if (fl_kis_exit(s)) return 1;
    if (s->kind == FL_KS_IF && ends(&s->body) && ends(&s->other)) return 1;
  }
  return 0;
}

static void lower_if(fl_kad_state *d, fl_kblock *out, fl_kstmt *s, frame *fr, int *jumps) {
  int j = 0;
  s->body = lower(d, s->body, fr, &j);
  s->other = lower(d, s->other, fr, &j);
  fl_kstmt_set_upright(d->a, s);
  if (s->body.first) fl_kblock_put(out, s);
  *jumps |= j;
}

static void lower_block(fl_kad_state *d, fl_kblock *out, fl_kstmt *s, frame *fr, int *jumps) {
  frame in = {FL_KS_BLOCK, s->label, -1, -1, 0, fr};
  int j = 0;
  fl_kblock body = lower(d, s->body, &in, &j);
  if (in.skip >= 0) kx_set(d, out, in.skip, kx_bool(d, 0));
  fl_kblock_append(out, body);
  *jumps |= in.crossed;
}

/* The line of the first return in s; 0: there is none. */
static int return_in(const fl_kstmt *s) {
  int line = s->kind != FL_KS_RETURN ? 0 : s->line ? s->line : 1;
  for (const fl_kstmt *t = s->body.first; t && !line; t = t->next) line = return_in(t);
  for (const fl_kstmt *t = s->other.first; t && !line; t = t->next) line = return_in(t);
  return line;
}

/* Adds to d->gone the condition 'when' of a return at s, to be checked later (refuse_gone): a
** barrier does not wait for a thread that has returned, but it would wait for one that only skips
** the rest. */
static void note_gone(fl_kad_state *d, const fl_kstmt *s, const fl_kexpr *when, int line) {
  if (d->n_gone < FL_KAD_GONE) d->gone[d->n_gone++] = (fl_kad_gone){s, when, line};
  else fl_kad_refuse(d, line, "so many returns before barriers");
}

static void refuse_gone(fl_kad_state *d) {
  for (int i = 0; i < d->n_gone; i++)
    if (!fl_kad_equal_in_block(d, d->gone[i].s, d->gone[i].when, 1))
      fl_kad_refuse(d, d->gone[i].line,
          "a return of some threads that have stored something, before a __syncthreads() of "
                    "the others (put what follows under a condition, barriers aside),");
}

static void lower_loop(fl_kad_state *d, fl_kblock *out, fl_kstmt *s, frame *fr, int *jumps) {
  frame in = {FL_KS_LOOP, s->label, -1, -1, 0, fr};
  int j = 0;
  const int gone = fl_kad_has_barrier(&s->body) ? return_in(s) : 0;
  fl_kblock first = {NULL, NULL}, body = lower(d, s->body, &in, &j);
  s->other = lower(d, s->other, &in, &j);
  if (in.stop >= 0) {
    kx_set(d, out, in.stop, kx_bool(d, 0));
    kx_set(d, &first, in.stop, kx_bool(d, 0));
    fl_kexpr *on = fl_kexpr_unary(d->a, FL_KO_NOT, kx_var(d, in.stop));
    if (gone) note_gone(d, s, on, gone);
    s->x[0] = s->x[0] ? kx_op(d, FL_KO_LAND, on, s->x[0]) : on;
    if (s->other.first) {
      fl_kblock step = s->other;
      s->other.first = s->other.last = NULL;
      fl_kstmt *guard = fl_kstmt_if(d->f, &s->other, on);
      if (!guard) return;
      guard->body = step;
      fl_kad_note *note = fl_kad_note_of(d, guard);
      if (note) note->step = 1;
    }
  }
  if (in.skip >= 0) kx_set(d, &first, in.skip, kx_bool(d, 0));
  fl_kblock_append(&first, body);
  s->body = first;
  fl_kblock_put(out, s);
  *jumps |= in.crossed;
}

/* Can another thread or an output see the effect of s? */
static int is_seen(const void *f, const fl_kstmt *s) {
  if (s->kind == FL_KS_STORE) return ((const fl_kfunc *)f)->vars[s->var].kind != FL_KV_ARRAY;
  return s->kind == FL_KS_ATOMIC || (s->kind >= FL_KS_BARRIER && s->kind <= FL_KS_VOTE);
}

/* Is s an IF with a return that stays, in a kernel with barriers or warp operations? It is if s is
** not inside another construct and the thread has done nothing yet that others can see: then it
** takes no part in the barriers below, forward or reverse. out: the code before s. */
static int kept_return(fl_kad_state *d, const fl_kstmt *s, const frame *fr, const fl_kblock *out) {
  if (!(d->f->uses_barrier || d->f->uses_warp) || fr->kind != FL_KS_RETURN || fr->skip >= 0)
    return 0;
  return s->kind == FL_KS_IF && !s->other.first && s->body.first
      && s->body.first->kind == FL_KS_RETURN && !fl_kblock_any(*out, is_seen, d->f);
}

static void accumulation(fl_kad_state *d, fl_kstmt *s) {
  const fl_kexpr *x = s->x[1];
  if (s->accumulate || x->kind != FL_KX_BINARY || !fl_kt_is_float(x->type)
      || (x->op != FL_KO_ADD && x->op != FL_KO_SUB)) return;
  for (int i = 0; i < (x->op == FL_KO_ADD ? 2 : 1); i++) {
    const fl_kexpr *y = x->x[i];
    if (y->kind != FL_KX_LOAD || y->var != s->var || !fl_kexpr_same(y->x[0], s->x[0])) continue;
    s->accumulate = 1;
    s->x[1] = x->op == FL_KO_ADD ? x->x[1 - i] : fl_kexpr_unary(d->a, FL_KO_NEG, x->x[1]);
    return;
  }
}

/* Lowers one statement. Returns 1 if it is a jump, so that what follows is never reached. */
static int lower_one(fl_kad_state *d, fl_kblock *out, fl_kstmt *s, frame *fr, int *jumps) {
  switch (s->kind) {
  case FL_KS_PRINTF: case FL_KS_ASSERT: return 0;
  case FL_KS_BREAK: case FL_KS_CONTINUE: case FL_KS_LEAVE: case FL_KS_RETURN:
    leave(d, out, s, fr);
    if (s->kind == FL_KS_RETURN && (d->f->uses_barrier || d->f->uses_warp)) d->returns = 1;
    *jumps = 1;
    return 1;
  case FL_KS_IF: lower_if(d, out, s, fr, jumps); return 0;
  case FL_KS_BLOCK: lower_block(d, out, s, fr, jumps); return 0;
  case FL_KS_LOOP: lower_loop(d, out, s, fr, jumps); return 0;
  case FL_KS_STORE: accumulation(d, s); fl_kblock_put(out, s); return 0;
  default: fl_kblock_put(out, s); return 0;
  }
}

static fl_kblock lower(fl_kad_state *d, fl_kblock b, frame *fr, int *jumps) {
  fl_kblock out = {NULL, NULL};
  for (fl_kstmt *s; !d->a->failed && (s = fl_kblock_take(&b));) {
    int j = 0;
    if (kept_return(d, s, fr, &out)) {
      fl_kblock_put(&out, s);
      d->returns = d->leave = 1;
      continue;
    }
    const int gone = d->f->uses_barrier && fl_kad_has_barrier(&b) ? return_in(s) : 0;
    if (s->kind == FL_KS_IF && b.first && (ends(&s->body) || ends(&s->other))) {
      if (gone) note_gone(d, s, s->x[0], gone);
      fl_kblock_append(ends(&s->body) ? &s->other : &s->body, b);
      b.first = NULL;
    }
    const int over = lower_one(d, &out, s, fr, &j);
    *jumps |= j;
    if (over) break;
    if (!j || !b.first) continue;
    fl_kblock rest = lower(d, b, fr, jumps);
    fl_kexpr *on = fl_kexpr_unary(d->a, FL_KO_NOT, kx_var(d, flag_of(d, &fr->skip, "skip")));
    fl_kstmt *guard = rest.first ? fl_kstmt_if(d->f, &out, on) : NULL;
    if (guard && gone) note_gone(d, guard, on, gone);
    if (guard) guard->body = rest;
    break;
  }
  return out;
}

void fl_kad_normalise(fl_kad_state *d) {
  frame fr = {FL_KS_RETURN, -1, -1, -1, 0, NULL};
  fl_kblock first = {NULL, NULL};
  int jumps = 0;
  d->body = lower(d, d->f->body, &fr, &jumps);
  d->f->body.first = d->f->body.last = NULL;
  if (fr.skip >= 0) {
    kx_set(d, &first, fr.skip, kx_bool(d, 0));
    fl_kblock_append(&first, d->body);
    d->body = first;
  }
  refuse_gone(d);
}
