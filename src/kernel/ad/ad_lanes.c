/*
** Sums to which the lanes of a warp add together. In the adjoint of
**   for (int j = 0; j < n; j++) s += f(tile[2 * j], tile[2 * j + 1], x);
** all threads add to grad_tile[2 * j] at one time, and their atomics are done one after the other.
** Where lanes differ in no part of an index but the counters of loops, the sum gets the mode
** FL_KM_WARP: lanes that are there together, at one element, are summed first. Sums of a fl_kblock
** whose indices differ by constants are made together: the index of the first decides for all.
** Loops that count down to 0 around such a sum are DOWN, so that lanes that make fewer rounds are
** at the same round as the others. If nothing in the innermost loop reads the array or waits, lanes
** may hold what they have summed until it ends.
** Which sums and loops are chosen is a guess for speed: the text compares the elements when it
** runs, and rounds are only delayed. That indices of joined sums differ by constants is proven, and
** so is that all threads of a block make a sum together, at one element (in_step): the conditions
** around it and its index are the same in the block. Nothing is then compared when it runs, and the
** sums of several rounds are made at once. In all of this one lane adds for another, so none of it
** is done where a part of a warp waits for itself: its lanes may read before the other lanes add.
*/
#include "kernel/ad/ad_state.h"
#include "kernel/facts/uniform.h"

enum { MOST_JOINED = 8, MOST_HELD = 4, RECENT = 16, MOST_TERMS = 8, MOST_PARTS = 40,
       MOST_APART = 1 << 28 };

typedef struct lanes {
  fl_karena *a;
  fl_kfunc *f;
  uint8_t *differs;              /* by variable: 1: its value comes from the number of the thread,
                                 ** from another lane or from an atomic operation */
  int32_t beyond;                /* the variable in indices of gradients in dynamic memory;
                                 ** -1: none */
  uint8_t parted;                /* lanes of a part of a warp wait for each other */
  int changed;
  int n_held;
} lanes;

/* ---- which sums ---- */

static int is_of_lane(const void *of, const fl_kexpr *x) {
  const lanes *l = of;
  if (x->kind == FL_KX_SPECIAL) return x->op <= FL_KSPECIAL_TID_Z;
  const int held = x->kind == FL_KX_VAR ||
                   (x->kind == FL_KX_LOAD && l->f->vars[x->var].kind == FL_KV_ARRAY);
  return held && l->differs[x->var];
}

static void mark(lanes *l, int32_t var) {
  l->changed |= !l->differs[var];
  l->differs[var] = 1;
}

static int is_private(const fl_kfunc *f, const fl_kstmt *s) {
  return s->kind == FL_KS_STORE && f->vars[s->var].kind == FL_KV_ARRAY;
}

static int see_value(void *arg, fl_kstmt *s) {
  lanes *l = arg;
  if ((s->kind == FL_KS_ASSIGN || is_private(l->f, s)) &&
      (fl_kexpr_any(s->x[0], is_of_lane, l) || fl_kexpr_any(s->x[1], is_of_lane, l)))
    mark(l, s->var);
  if (s->result >= 0) mark(l, s->result);
  return 1;
}

static int see_sum(void *arg, fl_kstmt *s) {
  const lanes *l = arg;
  s->in_step = 0;
  s->apart = 0;
  if (s->kind != FL_KS_ATOMIC || s->op != FL_KA_ADD || s->mode > FL_KM_WARP || s->result >= 0 ||
      s->as)
    return 1;
  const int type = l->f->vars[s->var].type;
  const int real = (type == FL_KT_F32 || type == FL_KT_F64) && s->x[1]->type == type;
  s->mode = real && !l->parted && !fl_kexpr_any(s->x[0], is_of_lane, l) ? FL_KM_WARP : FL_KM_FREE;
  s->joined = s->held = 0;
  return 1;
}

static int is_warp_sum(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_ATOMIC && s->mode == FL_KM_WARP;
}

/* ---- which sums are made in step ---- */

static int is_same(const fl_kuniform *u, const fl_kexpr *x) {
  return !x || fl_kuniform_level(u, x) <= FL_KEQUAL_BLOCK;
}

/* All threads of a block reach b together. Marks the sums in it, and the loops: their threads make
** as many rounds. */
static void mark_steps(const fl_kuniform *u, fl_kblock b) {
  for (fl_kstmt *s = b.first; s; s = s->next) {
    if (is_warp_sum(NULL, s)) s->in_step = (uint8_t)is_same(u, s->x[0]);
    if ((s->kind != FL_KS_IF && s->kind != FL_KS_LOOP) || !is_same(u, s->x[0])) continue;
    s->in_step = s->kind == FL_KS_LOOP;
    mark_steps(u, s->body);
    mark_steps(u, s->other);
  }
}

static int ends_early(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_RETURN;
}

static void find_steps(lanes *l) {
  const fl_kblock b = l->f->body;
  if (fl_kjumps(b) || fl_kblock_any(b, ends_early, NULL)) return;
  const fl_kuniform *u = fl_kuniform_new(l->a, l->f, b, NULL, 0);
  if (u) mark_steps(u, b);
}

/* ---- which loops ---- */

/* Is s a barrier of a part of a warp? After it the lanes of the part see what they have added
** themselves, but not what other lanes add for them. */
static int parts_warp(const void *none, const fl_kstmt *s) {
  (void)none;
  const fl_kexpr *mask = s->x[0];
  return s->kind == FL_KS_BARRIER &&
         (s->op == FL_KBAR_HERE ||
          (s->op == FL_KBAR_WARP && mask &&
           !(fl_kexpr_is_int(mask) && (uint32_t)mask->value.i == UINT32_MAX)));
}

static int is_joint(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_BARRIER || s->kind == FL_KS_SHUFFLE || s->kind == FL_KS_VOTE ||
         s->kind == FL_KS_RETURN || (s->kind == FL_KS_ATOMIC && s->mode == FL_KM_BLOCK);
}

static int is_number(const fl_kexpr *x, int64_t i) {
  return fl_kexpr_is_int(x) && x->value.i == i;
}

/* Marks a loop that is DOWN (fl_kloop_form). Not one whose threads wait for each other or run in
** step: they all make the same number of rounds. */
static int see_loop(void *arg, fl_kstmt *s) {
  const lanes *l = arg;
  fl_kcount c;
  if (s->kind != FL_KS_LOOP) return 1;
  s->op = FL_KLOOP_ANY;
  if (s->post || s->in_step || !fl_kcount_of(l->f, s, &c)) return 1;
  if (c.op == FL_KO_GE && c.direct && is_number(c.bound, 0) && c.step.op == FL_KO_SUB &&
      is_number(c.step.by, 1) && !fl_kassigned(&s->body, c.step.var, NULL) &&
      (l->f->vars[c.step.var].type == FL_KT_I32 || l->f->vars[c.step.var].type == FL_KT_I64) &&
      fl_kblock_any(s->body, is_warp_sum, NULL) && !fl_kblock_any(s->body, is_joint, NULL) &&
      !fl_kjumps(s->body))
    s->op = FL_KLOOP_DOWN;
  return 1;
}

/* ---- which sums together ---- */

/* An integer as a sum: its terms with their signs; shift: the sum of its constants. */
typedef struct terms {
  int n, sign[MOST_TERMS];
  const fl_kexpr *x[MOST_TERMS];
  int64_t shift;
} terms;

/* A walk through one fl_kblock. recent: the last values that were assigned to integer variables in
** it and that these still have; sum: the n sums that wait to be joined, whose indices have the
** terms 'index' in common. */
typedef struct way {
  const lanes *l;
  struct { int32_t var; const fl_kexpr *x; } recent[RECENT];
  int at, n, parts;
  fl_kstmt *sum[MOST_JOINED];
  terms index;
} way;

static const fl_kexpr *recent_value(const way *w, int32_t var) {
  for (int i = 0; i < RECENT; i++)
    if (w->recent[i].x && w->recent[i].var == var) return w->recent[i].x;
  return NULL;
}

/* Adds the terms of x, times sign, to t; 0: there are too many. An int sum that is cast to I64 is
** split into its terms too: its overflow is undefined in CUDA. */
static int add_terms(way *w, terms *t, const fl_kexpr *x, int sign) {
  if (++w->parts > MOST_PARTS) return 0;
  if (fl_kexpr_is_int(x)) {
    const int small = x->value.i < MOST_APART && x->value.i > -MOST_APART;
    t->shift += small ? sign * x->value.i : 0;
    return small && t->shift < MOST_APART && t->shift > -MOST_APART;
  }
  if (x->kind == FL_KX_CAST && x->type == FL_KT_I64 && x->x[0]->type == FL_KT_I32)
    return add_terms(w, t, x->x[0], sign);
  const fl_kexpr *value = x->kind == FL_KX_VAR ? recent_value(w, x->var) : NULL;
  if (value) return add_terms(w, t, value, sign);
  if (x->kind == FL_KX_BINARY && (x->op == FL_KO_ADD || x->op == FL_KO_SUB))
    return add_terms(w, t, x->x[0], sign) &&
           add_terms(w, t, x->x[1], x->op == FL_KO_SUB ? -sign : sign);
  if (t->n == MOST_TERMS) return 0;
  t->sign[t->n] = sign;
  t->x[t->n++] = x;
  return 1;
}

static int same_terms(const terms *a, const terms *b) {
  uint32_t used = 0;
  if (a->n != b->n) return 0;
  for (int i = 0; i < a->n; i++) {
    int k = 0;
    while (k < b->n && (used >> k & 1 || a->sign[i] != b->sign[k] ||
                        !fl_kexpr_same(a->x[i], b->x[k])))
      k++;
    if (k == b->n) return 0;
    used |= 1u << k;
  }
  return 1;
}

/* ---- sums that wait ---- */

/* Makes the sums that wait, in their order, at the end of b. */
static void flush(way *w, fl_kblock *b) {
  for (int i = 0; i < w->n; i++) {
    w->sum[i]->joined = (uint8_t)(w->n - 1 - i);
    fl_kblock_put(b, w->sum[i]);
  }
  w->n = 0;
}

/* Does a sum that waits read variable var, or an element of it? */
static int is_awaited(const way *w, int32_t var) {
  for (int i = 0; i < w->n; i++)
    if (fl_kreads(w->sum[i]->x[0], var) || fl_kreads(w->sum[i]->x[1], var)) return 1;
  for (int i = 0; i < w->index.n && w->n; i++)
    if (fl_kreads(w->index.x[i], var)) return 1;
  return 0;
}

/* Does s read an array to which a sum that waits adds? */
static int reads_sums(const way *w, const fl_kstmt *s) {
  for (int i = 0; i < w->n; i++)
    if (fl_kreads(s->x[0], w->sum[i]->var) || fl_kreads(s->x[1], w->sum[i]->var)) return 1;
  return 0;
}

/* Forgets what depends on var, then keeps its value x if it is an integer that reads no memory. */
static void note_assigned(way *w, int32_t var, const fl_kexpr *x) {
  for (int i = 0; i < RECENT; i++)
    if (w->recent[i].x && (w->recent[i].var == var || fl_kreads(w->recent[i].x, var)))
      w->recent[i].x = NULL;
  if (!x || !fl_kt_is_int(x->type) || fl_kreads_of(x, NULL) || fl_kreads(x, var)) return;
  w->recent[w->at].var = var;
  w->recent[w->at].x = x;
  w->at = (w->at + 1) % RECENT;
}

/* Are s and the sums that wait of one type, and in one array or all in shared memory, so that the
** distance of their elements is small? */
static int are_near(const way *w, const fl_kstmt *s) {
  const fl_kvar *a = &w->l->f->vars[w->sum[0]->var], *b = &w->l->f->vars[s->var];
  return a->type == b->type && (a == b || (a->kind == FL_KV_SHARED && b->kind == FL_KV_SHARED));
}

/* Lets the sum s wait; those that wait already are made first if it can not be joined with them. */
static void add_sum(way *w, fl_kstmt *s, fl_kblock *b) {
  terms t = { 0 };
  w->parts = 0;
  const int known = add_terms(w, &t, s->x[0], 1);
  int joins = known;
  for (int i = 0; i < t.n; i++) joins &= !fl_kreads_of(t.x[i], NULL);
  if (w->n && (!joins || w->n == MOST_JOINED || reads_sums(w, s) || !are_near(w, s) ||
               !same_terms(&w->index, &t)))
    flush(w, b);
  if (!w->n) w->index = t;
  s->apart = (int32_t)(t.shift - w->index.shift);
  w->sum[w->n++] = s;
  if (!joins && w->n == 1) flush(w, b);
}

static fl_kblock join(const lanes *l, fl_kblock b) {
  fl_kblock out = { NULL, NULL };
  way *w = b.first ? fl_karena_new(l->a, sizeof *w) : NULL;
  if (!w) return b;
  w->l = l;
  for (fl_kstmt *s; (s = fl_kblock_take(&b));) {
    if (is_warp_sum(NULL, s)) {
      add_sum(w, s, &out);
      continue;
    }
    const int passes = s->kind == FL_KS_ASSIGN || is_private(l->f, s);
    if (w->n && (!passes || is_awaited(w, s->var) || reads_sums(w, s))) flush(w, &out);
    if (s->kind == FL_KS_ASSIGN) note_assigned(w, s->var, s->x[0]);
    else if (!passes) memset(w->recent, 0, sizeof w->recent);
    s->body = join(l, s->body);
    s->other = join(l, s->other);
    fl_kblock_put(&out, s);
  }
  flush(w, &out);
  return out;
}

/* ---- sums that lanes hold ---- */

typedef struct holder { lanes *l; int32_t var; fl_kstmt *sum[MOST_HELD]; int n; } holder;

static int reads_gradient(const void *of, const fl_kexpr *x) {
  const holder *h = of;
  if (x->kind != FL_KX_LOAD || x->var != h->var) return 0;
  return !h->l->f->vars[x->var].dynamic || h->l->beyond < 0 ||
         fl_kreads(x->x[0], h->l->beyond);
}

/* Does s read the array h->var, or write to it otherwise than by sums of lanes? */
static int disturbs(const void *of, const fl_kstmt *s) {
  const holder *h = of;
  for (int i = 0; i < 4; i++)
    if (s->x[i] && fl_kexpr_any(s->x[i], reads_gradient, h)) return 1;
  return fl_kwrites_to(s, h->var) && !is_warp_sum(NULL, s);
}

/* Finds in b, outside of its loops, the first sum of each group of joined sums; n is above
** MOST_HELD if there are too many. */
static void find_sums(holder *h, fl_kblock b) {
  int rest = 0;
  for (fl_kstmt *s = b.first; s && h->n <= MOST_HELD; s = s->next) {
    const int sum = is_warp_sum(NULL, s), next = sum && rest && s->joined == rest - 1;
    if (sum && !next && h->n++ < MOST_HELD) h->sum[h->n - 1] = s;
    rest = sum ? s->joined : 0;
    if (s->kind == FL_KS_LOOP) continue;
    find_sums(h, s->body);
    find_sums(h, s->other);
  }
}

static int may_hold(holder *h, const fl_kstmt *loop, const fl_kstmt *sum) {
  int last;
  do {
    h->var = sum->var;
    if (fl_kblock_any(loop->body, disturbs, h) || fl_kblock_any(loop->other, disturbs, h) ||
        (loop->x[0] && fl_kexpr_any(loop->x[0], reads_gradient, h)))
      return 0;
    last = !sum->joined;
    sum = sum->next;
  } while (!last);
  return 1;
}

static int see_holder(void *arg, fl_kstmt *s) {
  holder h = { .l = arg };
  if (s->kind != FL_KS_LOOP) return 1;
  find_sums(&h, s->body);
  if (h.n > MOST_HELD || fl_kblock_any(s->body, is_joint, NULL) ||
      fl_kblock_any(s->other, is_joint, NULL) || fl_kjumps(s->body))
    return 1;
  for (int i = 0; i < h.n && h.l->n_held < 255; i++)
    if (may_hold(&h, s, h.sum[i])) h.sum[i]->held = (uint8_t)++h.l->n_held;
  return 1;
}

void fl_kad_sum_lanes(fl_karena *a, fl_kfunc *f, int32_t beyond) {
  lanes l = { .a = a, .f = f, .differs = fl_karena_new(a, (size_t)f->n_vars + 1),
              .beyond = beyond };
  const fl_kvisitor values = { see_value, NULL, &l }, sums = { see_sum, NULL, &l },
                    loops = { see_loop, NULL, &l }, holders = { see_holder, NULL, &l };
  if (a->failed) return;
  l.parted = (uint8_t)fl_kblock_any(f->body, parts_warp, NULL);
  do {
    l.changed = 0;
    fl_kwalk_block(&values, f->body);
  } while (l.changed);
  fl_kwalk_block(&sums, f->body);
  if (fl_kblock_any(f->body, is_warp_sum, NULL)) find_steps(&l);
  fl_kwalk_block(&loops, f->body);
  if (!fl_kblock_any(f->body, is_warp_sum, NULL)) return;
  f->body = join(&l, f->body);
  fl_kwalk_block(&holders, f->body);
}
