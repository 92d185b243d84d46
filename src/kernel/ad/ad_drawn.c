/*
** Atomic operations that the derivative would run again, and whose outcome the order of the threads
** decides: with another order it would find other values than the launch had. That is so if
** - their result is used (outside of loops it is recorded, see record.h), or
** - they write what their thread has, as in atomicExch(&s, t), or
** - several threads change one element by operations that do not commute, as atomicAdd and
**   atomicMax, with no barrier in between, or
** - they change global memory that other threads read, or store to, with no barrier in between: one
**   of the grid, or of the block where each element is of one block, which the derivative then
**   asserts (ad_list.c).
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

/* ---- global memory that is read again ---------------------------------------------------- */

enum { MOST_ACCESSES = 256 };

/* An access ('site', in statement at[0]) of array var, and the statements at[1 …] with other
** accesses that may reach its element. For a load: all writes; for an atomic: stores and loads; for
** a store: writes with which it does not commute, as two sums do. */
typedef struct again {
  fl_kad_state *d;
  const fl_kstmt *at[MOST_ACCESSES], *in;    /* in: the statement that is being read */
  int32_t var, site;
  int n, load, met, bad;
} again;

/* Does the write s leave in the element what it held, plus something? */
static int adds(const fl_kstmt *s) {
  return s->kind == FL_KS_STORE ? s->accumulate : s->kind == FL_KS_ATOMIC && is_sum(s);
}

static void note_access(again *w, int32_t site) {
  const fl_kfact *a = fl_kfact_of(w->d->facts, w->site), *b = fl_kfact_of(w->d->facts, site);
  if (fl_kfact_is_apart(a, b) || (a->own && b->own && fl_kfact_is_one(a, b))) return;
  if (fl_kfact_is_one_strip(a, b)) return;
  w->bad |= w->n == MOST_ACCESSES || w->in->kind == FL_KS_LOOP;    /* a loop's condition */
  if (!w->bad) w->at[w->n++] = w->in;
}

static int see_load(void *arg, fl_kexpr *x) {
  again *w = arg;
  if (x->kind == FL_KX_LOAD && x->var == w->var) note_access(w, x->site);
  return 1;
}

static int see_access(void *arg, fl_kstmt *s) {
  again *w = arg;
  const int store = !w->load && w->at[0]->kind == FL_KS_STORE;
  w->in = s;
  if (!w->load && !store) fl_kwalk_operands(&(fl_kvisitor){ NULL, see_load, w }, s);
  if (!fl_kwrites_to(s, w->var) || (store && s == w->at[0])) return 1;
  if (store ? !adds(s) || !adds(w->at[0]) : w->load || s->kind == FL_KS_STORE)
    note_access(w, s->site);
  return 1;
}

static void see_again(void *arg, int i, int k) {
  again *w = arg;
  w->met |= i != k && (i == 0 || k == 0);
}

/* Is the launch of one block? Then the derivative is for such launches. */
static int is_one_block(const fl_kad_state *d) {
  const fl_klaunched *l = d->r->launched;
  fl_klimits *x = &d->res->limits;
  if (!l || l->extent[FL_KEXTENT_BLOCKS] != 1 || x->n == FL_KLIMITS) return 0;
  x->at[x->n++] = (fl_klimit){ FL_KEXTENT_BLOCKS, -1, 1 };
  return 1;
}

int fl_kad_apart_in_time(fl_kad_state *d, const fl_kstmt *s, const fl_kexpr *load) {
  again *w = fl_karena_new(d->a, sizeof *w);
  if (!w) return FL_KAD_OPEN;
  *w = (again){ .d = d, .at = { s }, .n = 1, .load = load != NULL,
                .var = load ? load->var : s->var, .site = load ? load->site : s->site };
  fl_kwalk_block(&(fl_kvisitor){ see_access, NULL, w }, d->body);
  if (w->n == 1) return w->bad ? FL_KAD_OPEN : FL_KAD_GRID;
  for (int grid = 1; grid >= 0 && !w->bad; grid--) {
    const fl_kad_meeting m = { .a = d->a, .at = w->at, .n = w->n, .pair = see_again, .arg = w,
                               .grid = grid };
    w->met = 0;
    fl_kad_meetings(&m, &d->body);
    if (!w->met) return grid || is_one_block(d) ? FL_KAD_GRID : FL_KAD_BLOCK;
  }
  return FL_KAD_OPEN;
}

/* Refuses s, an atomic on global memory that the derivative runs again, unless barriers keep apart
** what other threads do with the element. */
static int is_read_at_once(fl_kad_state *d, const fl_kstmt *s) {
  const char *name = d->f->vars[s->var].source;
  const int apart = d->f->vars[s->var].kind == FL_KV_POINTER ? fl_kad_apart_in_time(d, s, NULL)
                                                             : FL_KAD_GRID;
  if (apart == FL_KAD_GRID || (apart == FL_KAD_BLOCK && d->blocks && d->blocks[s->var])) return 0;
  if (apart == FL_KAD_OPEN)
    fl_kad_refuse(d, s->line, "an atomic operation on '%s', whose values are read again with no "
                  "barrier in between,", name);
  else
    fl_kad_refuse(d, s->line, "an atomic operation on '%s', whose values are read again where other "
                  "blocks may still add to them (read them after a barrier of the grid, or in "
                  "another launch),", name);
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
  if (is_read_at_once(d, s)) return 1;
  drawn w = { d, s, 0, !commute(d, s, s) && !fl_kfact_of(d->facts, s->site)->own };
  fl_kwalk_block(&(fl_kvisitor){ see_other, NULL, &w }, d->body);
  if (w.found)
    fl_kad_refuse(d, s->line, "what atomic operations leave in '%s' (it depends on the order of "
                  "the threads)", d->f->vars[s->var].source);
  return w.found;
}
