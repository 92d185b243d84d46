/*
** Which thread owns an element? Two threads that compute the same index agree in its value, and in
** both sides of each equality that holds at the access: "if (lane == 0) y[i / 32] = ...". Both are
** sums of strides times digits (i, its quotients and remainders). Two threads that agree in a sum
** agree in each of its digits if the strides form a chain: each is larger than all that the digits
** before it add up to, as in decimal numbers (route.h). A sum with quotients a / m, a / n of one a
** is written with remainders: a is m * (a / m) + a % m.
** Two threads that agree in the block and in their index in it are the same thread.
**
** Example, with i = blockIdx.x * blockDim.x + threadIdx.x:
**   if (i % 32 == 0) y[i / 32] = v;
** Two threads that write one element of y agree in
**   i / 32           the index. It is one digit, the quotient, which is known from now on
**   i - 32 (i / 32)  the condition, 0 for both. With 32 (i / 32) + i % 32 in the place of i the
**                    quotients cancel, which leaves one digit: i % 32
** Quotient and remainder of i by one number give i, the index in the launch: the two threads are
** the same. This thread owns the element, whose sum needs no atomic. With "i % 64 == 0" i still
** follows: it is a multiple of 32 as well. Without a condition 32 threads share an element.
*/
#include "kernel/facts/own.h"
#include <string.h>

typedef fl_kown_rest rest;
typedef fl_kown_search search;

static const fl_kterm ONE = { 1, 0, { 0 } };

/* ---- what is known ---------------------------------------------------------------------- */

static int has(const search *w, int32_t s) {
  for (int i = 0; i < w->n_known; i++)
    if (w->known[i] == s) return 1;
  return 0;
}

static void add_known(search *w, int32_t s) {
  if (has(w, s) || w->n_known == FL_KOWN_KNOWN) return;
  w->known[w->n_known++] = s;
  w->changed = 1;
}

static int is_known(const void *search_, int32_t s) {
  const search *w = search_;
  if (fl_ksym_is_same(s) || fl_kpoly_is_uniform(w->r.k, s) || has(w, s)) return 1;
  if (s >= FL_KSYM_QUOTIENT) {
    const fl_kquotient *q = fl_kquotient_of(w->r.k, s);
    return fl_kpoly_all(&q->a, is_known, w) && fl_kterm_all(&q->m, is_known, w);
  }
  const fl_kexpr x = { .kind = FL_KX_VAR, .var = s - FL_KSYM_VAR };
  return s >= FL_KSYM_VAR && fl_kplace_agrees(w->r.k, &w->r.at, &x);
}

/* p without the terms that are known. */
static fl_kpoly unknown_part(const search *w, const fl_kpoly *p) {
  fl_kpoly r = { 0 };
  for (int i = 0; i < p->n; i++)
    if (!fl_kterm_all(&p->t[i], is_known, w)) r.t[r.n++] = p->t[i];
  return r;
}

static int has_rest(const search *w, const fl_kpoly *unit, const fl_kterm *low,
                    const fl_kterm *high) {
  for (int i = 0; i < w->n_rests; i++)
    if (fl_kpoly_same(&w->rests[i].unit, unit) && fl_kterm_equal(&w->rests[i].low, low)
        && fl_kterm_equal(&w->rests[i].high, high)) return 1;
  return 0;
}

static void add_rest(search *w, const fl_kpoly *unit, const fl_kterm *low, const fl_kterm *high) {
  if (has_rest(w, unit, low, high) || w->n_rests == FL_KOWN_RESTS) return;
  w->rests[w->n_rests++] = (rest){ *unit, *low, *high };
  w->changed = 1;
}

static void add_sum(search *w, const fl_kpoly *p) {
  if (p->bad || w->n_sums == FL_KOWN_SUMS) return;
  for (int i = 0; i < w->n_sums; i++)
    if (fl_kpoly_same(&w->sum[i], p)) return;
  w->sum[w->n_sums++] = *p;
  w->changed = 1;
}

/* ---- sums as digits --------------------------------------------------------------------- */

/* Removes the terms with a factor s from p, and sets *r to their sum divided by s. Returns 0 if a
** term has the factor twice. */
static int take_factor(fl_kpoly *p, int32_t s, fl_kpoly *r) {
  *r = (fl_kpoly){ 0 };
  for (int i = p->n - 1; i >= 0; i--) {
    if (!fl_kterm_holds(&p->t[i], s)) continue;
    fl_kterm t = p->t[i];
    fl_kterm_drop(&t, s);
    if (fl_kterm_holds(&t, s)) return 0;
    fl_kpoly_add(r, t);
    p->t[i] = p->t[--p->n];
  }
  return 1;
}

/* Finds the multiple *r * unit that is a part of p, by the terms of p that are multiples of the
** unit's first term, and subtracts it from p. Returns 0 if that fails. */
static int take_unit(fl_kpoly *p, const fl_kpoly *unit, fl_kpoly *r) {
  const int32_t one = fl_kpoly_single(unit);
  *r = (fl_kpoly){ 0 };
  if (one >= 0) return take_factor(p, one, r);
  for (int i = 0; i < p->n; i++) {
    int ok;
    fl_kterm q = fl_kterm_ratio(&p->t[i], &unit->t[0], &ok);
    if (!ok) continue;
    if (p->t[i].c < 0) q.c = -q.c;
    fl_kpoly_add(r, q);
  }
  for (int i = 0; i < r->n; i++)
    for (int j = 0; j < unit->n; j++) {
      int ok;
      fl_kterm t = fl_kterm_product(&unit->t[j], &r->t[i], &ok);
      if (!ok) return 0;
      t.c = -t.c;
      fl_kpoly_add(p, t);
    }
  return !p->bad && !r->bad;
}

static int add_digit(fl_kdigit *d, int *n, fl_kdigit x, const fl_kpoly *stride) {
  if (stride->bad || stride->n > 1 || *n == FL_KPOLY_TERMS) return 0;
  if (!stride->n) return 1;                               /* the unit is not in the sum */
  x.stride = stride->t[0];
  d[(*n)++] = x;
  return 1;
}

/* The symbol of the quotient unit / m in p whose m is the least multiple of 'low', and *by = m /
** low; -1: there is none. */
static int32_t next_quotient(const search *w, const fl_kpoly *p, const fl_kpoly *unit,
                             const fl_kterm *low, fl_kterm *by) {
  int32_t best = -1;
  for (int i = 0; i < p->n; i++)
    for (int j = 0; j < p->t[i].n; j++) {
      int ok, less = 1;
      const int32_t s = p->t[i].s[j];
      if (s < FL_KSYM_QUOTIENT) continue;
      const fl_kquotient *q = fl_kquotient_of(w->r.k, s);
      if (!fl_kpoly_same(&q->a, unit)) continue;
      const fl_kterm ratio = fl_kterm_ratio(&q->m, low, &ok);
      if (!ok) continue;
      if (best >= 0)
        (void)fl_kterm_ratio(&fl_kquotient_of(w->r.k, best)->m, &q->m, &less);
      if (less) best = s, *by = ratio;
    }
  return best;
}

/* Finds the digits of p that are remainders and quotients of one unit (the integer that is
** divided), and removes them from p. 0: impossible, as where the two threads may divide by
** different numbers. */
static int split_unit(const search *w, fl_kpoly *p, const fl_kpoly *unit, fl_kdigit *d, int *n) {
  fl_kpoly stride, more;
  fl_kterm low = ONE, by;
  int32_t s, last = -1;
  if (!take_unit(p, unit, &stride)) return 0;
  while ((s = next_quotient(w, p, unit, &low, &by)) >= 0) {
    fl_kdigit x = { .s = -1, .kind = FL_KDIGIT_REM, .unit = unit, .low = low, .bound = by };
    x.high = fl_kquotient_of(w->r.k, s)->m;
    if (!fl_kterm_all(&x.high, is_known, w)) return 0;
    if (!has_rest(w, unit, &low, &x.high) && !add_digit(d, n, x, &stride)) return 0;
    if (!take_factor(p, s, &more)) return 0;
    for (int i = 0; i < stride.n; i++) {                  /* q' = by * q + rest */
      int ok;
      const fl_kterm t = fl_kterm_product(&stride.t[i], &by, &ok);
      if (!ok) return 0;
      fl_kpoly_add(&more, t);
    }
    stride = more;
    low = x.high;
    last = s;
  }
  if (last < 0) return 0;
  const fl_kdigit x = { .s = last, .kind = FL_KDIGIT_LAST, .unit = unit, .high = low };
  return add_digit(d, n, x, &stride);
}

/* Can quotients and remainders of a be digits? It must be a sum of indices of the thread and sizes
** of the launch that is not negative, or a positive multiple of a symbol that is never negative. */
static int is_unit(const search *w, const fl_kpoly *a) {
  if (fl_kpoly_is_natural(a)) return 1;
  return a->n == 1 && a->t[0].n == 1 && a->t[0].c > 0 &&
         fl_kroute_not_negative(&w->r, a->t[0].s[0]);
}

static int32_t first_quotient(const search *w, const fl_kpoly *p) {
  for (int i = 0; i < p->n; i++)
    for (int j = 0; j < p->t[i].n; j++)
      if (p->t[i].s[j] >= FL_KSYM_QUOTIENT && !is_known(w, p->t[i].s[j])) return p->t[i].s[j];
  return -1;
}

int fl_kown_digits(const search *w, const fl_kpoly *sum, fl_kdigit *d, int *n) {
  fl_kpoly p = *sum;
  int32_t s;
  *n = 0;
  while ((s = first_quotient(w, &p)) >= 0) {
    const fl_kpoly *unit = &fl_kquotient_of(w->r.k, s)->a;
    if (!is_unit(w, unit) || !split_unit(w, &p, unit, d, n)) return 0;
  }
  for (int i = 0; i < p.n; i++) {
    fl_kdigit x = { .stride = p.t[i] };
    x.s = fl_kterm_digit(&x.stride, is_known, w);
    if (x.s == -1) continue;
    if (x.s < 0) return 0;
    for (int j = 0; j < *n; j++)
      if (d[j].kind == FL_KDIGIT_SYMBOL && d[j].s == x.s) return 0;
    if (*n == FL_KPOLY_TERMS) return 0;
    d[(*n)++] = x;
  }
  return 1;
}

/* ---- conclusions ----------------------------------------------------------------------- */

static void know_digits(search *w, const fl_kdigit *d, int n) {
  for (int j = 0; j < n; j++) {
    if (d[j].kind == FL_KDIGIT_REM) add_rest(w, d[j].unit, &d[j].low, &d[j].high);
    else add_known(w, d[j].s);
  }
}

/* Adds the digits of sum i to what is known (equal in the two threads that are compared), if they
** follow from the sum. */
static void use_sum(search *w, int i) {
  fl_kdigit d[FL_KPOLY_TERMS];
  int n;
  if (w->used[i] || !fl_kown_digits(w, &w->sum[i], d, &n)) return;
  if (n && !(n == 1 && fl_kroute_is_nonzero(&w->r, &d[0].stride)) &&
      !fl_kroute_is_chain(&w->r, d, n)) return;
  w->used[i] = 1;
  know_digits(w, d, n);
}

/* Is b - a known, that is, equal in the two threads that are compared? */
static int move_alike(const search *w, const fl_kpoly *a, const fl_kpoly *b) {
  const fl_kpoly x = unknown_part(w, a), y = unknown_part(w, b);
  if (fl_kpoly_same(&x, &y)) return 1;
  for (int axis = 0; axis < 3; axis++)             /* in one block the index in the launch gives the
                                                   ** index in the block */
    if (has(w, FL_KSPECIAL_BID_X + axis)
        && ((fl_kpoly_is(&x, FL_KSPECIAL_TID_X + axis) && fl_kpoly_is(&y, FL_KSYM_GLOBAL + axis))
            || (fl_kpoly_is(&y, FL_KSPECIAL_TID_X + axis) &&
                fl_kpoly_is(&x, FL_KSYM_GLOBAL + axis)))) return 1;
  return 0;
}

/* If a / m and b % n are known (equal in both threads), where b - a is known, m <= n, and both have
** the same symbols, then a is known. If a / high and (a / low) % (high / low) are known, a / low
** is. */
static void join_rests(search *w) {
  for (int i = 0; i < w->n_rests; i++) {
    const rest *x = &w->rests[i];
    for (int s = 0; s < w->r.k->quotients->n; s++) {
      const fl_kquotient *q = &w->r.k->quotients->at[s];
      if (!has(w, FL_KSYM_QUOTIENT + s)) continue;
      if (fl_kterm_equal(&x->low, &ONE) && fl_kterm_same(&q->m, &x->high) && q->m.c <= x->high.c
          && move_alike(w, &q->a, &x->unit)) add_sum(w, &q->a);
      for (int t = 0; t < w->r.k->quotients->n; t++) {   /* a / high and (a / low) % (high / low) */
        const fl_kquotient *low = &w->r.k->quotients->at[t];
        if (fl_kterm_equal(&low->m, &x->low) && fl_kterm_equal(&q->m, &x->high) &&
            fl_kpoly_same(&q->a, &x->unit)
            && fl_kpoly_same(&low->a, &x->unit)) add_known(w, FL_KSYM_QUOTIENT + t);
      }
    }
  }
}

/* A counter begins at 'first', whose unknown part has several terms, and steps by 'move'; its value
** is known. If the digits of 'first' form a chain with the number of the round (a digit of stride
** 'move' without a bound, like an OFFSET of several terms), they are known too. */
static void use_digits(search *w, const fl_kpoly *first, const fl_kterm *move) {
  fl_kdigit d[FL_KPOLY_TERMS];
  int n;
  if (!fl_kown_digits(w, first, d, &n) || n == FL_KPOLY_TERMS) return;
  d[n] = (fl_kdigit){ .s = -1, .kind = FL_KDIGIT_OFFSET, .stride = *move, .unit = first };
  if (fl_kroute_is_chain(&w->r, d, n + 1)) know_digits(w, d, n);
}

/* The value of a counter is known (equal in both threads). If its start is less than its step, and
** the step is known, then the start is known too:
**    for (v = b + c * n; …; v += c * m)     b known, index n < m of the thread: n is known
**    for (v = a % m; …; v += m)             a % m is known
**    for (v = 16 * y + x; …; v += 256)      x and y are known, if they are below 16 */
static void use_counter(search *w, int32_t var) {
  fl_kpoly first, step, a;
  fl_kterm m;
  if (!fl_kroute_counts(&w->r, FL_KSYM_VAR + var, &first, &step) || step.n != 1) return;
  const fl_kterm move = step.t[0];
  if (!fl_kterm_all(&move, is_known, w)) return;
  const fl_kpoly own = unknown_part(w, &first);
  const int32_t base = own.n == 1 && own.t[0].n == 1 ? own.t[0].s[0] : -1;
  if (base >= 0 && fl_ksym_is_number(base)) {
    const fl_kterm times = { own.t[0].c, 0, { 0 } };
    int ok;
    m = fl_kterm_ratio(&move, &times, &ok);
    if (ok && fl_kroute_stays_below(&w->r, base, &m)) add_known(w, base);
  }
  if (fl_kroute_is_remainder(&w->r, &first, &a, &m) && fl_kterm_equal(&m, &move))
    add_rest(w, &a, &ONE, &m);
  if (own.n > 1) use_digits(w, &first, &move);
}

/* Completes what is known (equal in the two threads). Along an axis, from the index in the launch
** follow threadIdx and blockIdx, and from these two the index in the launch. From a counter follows
** the index of the thread at which it began. */
static void close_axes(search *w) {
  for (int i = 0; i < w->n_known; i++) {
    const int32_t s = w->known[i];
    if (s < FL_KSYM_VAR || s >= FL_KSYM_QUOTIENT) continue;
    const int32_t base = fl_kroute_counter(&w->r, s - FL_KSYM_VAR);
    if (base >= 0) add_known(w, base);
    else use_counter(w, s - FL_KSYM_VAR);
  }
  for (int axis = 0; axis < 3; axis++) {
    if (has(w, FL_KSYM_GLOBAL + axis))
      add_known(w, FL_KSPECIAL_TID_X + axis), add_known(w, FL_KSPECIAL_BID_X + axis);
    if (has(w, FL_KSPECIAL_TID_X + axis) && has(w, FL_KSPECIAL_BID_X + axis))
      add_known(w, FL_KSYM_GLOBAL + axis);
  }
}

static int is_one_thread(const search *w) {
  for (int s = FL_KSPECIAL_TID_X; s <= FL_KSPECIAL_BID_Z; s++)
    if (!has(w, s)) return 0;
  return 1;
}

/* ---- equalities ------------------------------------------------------------------------- */

/* Does the condition x (negated if 'truth' is 0) say e < 1 or e <= 0 of its left side e, so that e
** == 0 if e is not negative? */
static int is_first(const fl_kexpr *x, int truth) {
  if (x->x[1]->kind != FL_KX_CONST) return 0;
  const int64_t v = x->x[1]->value.i;
  return (v == 1 && x->op == (truth ? FL_KO_LT : FL_KO_GE)) ||
         (v == 0 && x->op == (truth ? FL_KO_LE : FL_KO_GT));
}

static void learn_equality(search *w, int i) {
  const fl_kexpr *x = w->r.cond[i];
  if (x->kind != FL_KX_BINARY || x->n != 2 || !fl_kt_is_int(x->x[0]->type)) return;
  fl_kplace then = w->r.at;
  then.order = w->r.order[i];
  fl_kpoly a = fl_kpoly_of(w->r.k, &then, x->x[0]);
  if (is_first(x, w->r.truth[i]) && fl_kpoly_is_natural(&a)) { add_sum(w, &a); return; }
  if (x->op != (w->r.truth[i] ? FL_KO_EQ : FL_KO_NE)) return;
  const fl_kpoly b = fl_kpoly_of(w->r.k, &then, x->x[1]);
  if (a.bad || b.bad) return;
  fl_kpoly_subtract(&a, &b);
  fl_kpoly_join(&a);
  add_sum(w, &a);
}

/* ---- the answer ------------------------------------------------------------------------- */

static void know_launch(search *w, int in_block) {
  static const int flat[6] = { 0, FL_KONE_BLOCK_Y, FL_KONE_BLOCK_Z,
                               0, FL_KONE_GRID_Y, FL_KONE_GRID_Z };
  const int one = in_block || fl_kroute_launched(&w->r, FL_KEXTENT_BLOCKS, -1, 1);
  for (int s = FL_KSPECIAL_TID_X; s <= FL_KSPECIAL_BID_Z; s++)
    if ((w->r.k->geometry & flat[s]) || (s >= FL_KSPECIAL_BID_X && one)) add_known(w, s);
}

/* Is it proven that the two threads are one? in_block: they are of one block. d: n digits that are
** known at the start. used: fl_kroute.used for this proof. */
static int prove(search *w, int in_block, const fl_kdigit *d, int n, fl_klimits *used) {
  w->n_known = w->n_rests = 0;
  w->n_sums = w->n_given;
  memset(w->used, 0, sizeof w->used);
  w->r.used = used;
  know_launch(w, in_block);
  know_digits(w, d, n);
  do {
    w->changed = 0;
    for (int i = 0; i < w->n_sums; i++) use_sum(w, i);
    join_rests(w);
    close_axes(w);
  } while (w->changed && !is_one_thread(w));
  return is_one_thread(w);
}

static int is_continue(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_CONTINUE || s->kind == FL_KS_LEAVE;
}

/* Does every iteration of the loop pass a barrier of the block, unless it leaves the loop for good?
** Then threads that run one store in it, with no barrier in between, are in the same iteration. */
static int is_in_step(const fl_kstmt *loop) {
  return fl_kwaits(loop->body) && !fl_kblock_any(loop->body, is_continue, NULL);
}

/* Does is_in_step hold for all loops around the goal? -1: the goal is not in the block. */
static int all_in_step(const fl_kstmt *goal, fl_kblock b) {
  for (const fl_kstmt *s = b.first; s; s = s->next) {
    if (s == goal) return 1;
    int inner = all_in_step(goal, s->body);
    if (inner < 0) inner = all_in_step(goal, s->other);
    if (inner >= 0) return inner && (s->kind != FL_KS_LOOP || is_in_step(s));
  }
  return -1;
}

static void gather_sums(search *w, const fl_kexpr *index, fl_ksame same) {
  w->r.at.same = same;
  w->n_sums = 0;
  const fl_kpoly p = fl_kpoly_of(w->r.k, &w->r.at, index);
  add_sum(w, &p);
  for (int i = 0; i < w->r.n; i++) learn_equality(w, i);
  w->n_given = w->n_sums;
}

/* FL_KI_OWNED_… by the sums that are given, or 0. Extents of the launch are used only if there is
** no proof without them. */
static int prove_given(search *w, int in_block) {
  const fl_kindices *k = w->r.k;
  const int bits = in_block ? FL_KI_OWNED_IN_BLOCK : FL_KI_OWNED_IN_BLOCK | FL_KI_OWNED_IN_GRID;
  if (prove(w, in_block, NULL, 0, NULL)) return bits;
  if (!k->launched) return 0;
  fl_klimits more = *k->used;
  if (!prove(w, in_block, NULL, 0, &more)) return 0;
  *k->used = more;
  return bits;
}

int fl_kown_prove(search *w, const fl_kexpr *index, const fl_ksame same[2]) {
  int bits = 0;
  for (int in_block = 0; in_block < 2 && !bits; in_block++) {
    gather_sums(w, index, same[in_block]);
    bits = prove_given(w, in_block);
  }
  return bits;
}

int fl_kown_prove_digits(const search *w, const fl_kdigit *d, int n, fl_klimits *used) {
  search u = { .r = w->r };
  u.r.n = 0;
  for (int in_block = 0; in_block < 2; in_block++) {
    fl_klimits more = { 0 };
    if (used) more = *used;
    if (!prove(&u, in_block, d, n, used ? &more : NULL)) continue;
    if (used) *used = more;
    return in_block ? FL_KI_OWNED_IN_BLOCK : FL_KI_OWNED_IN_BLOCK | FL_KI_OWNED_IN_GRID;
  }
  return 0;
}

int fl_kindex_owned(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index) {
  search w = { .r = { .k = k, .goal = s } };
  if (!fl_kroute_is_place(&w.r)) return 0;
  const fl_ksame same[2] = { w.r.at.n_loops ? FL_KSAME_NONE : FL_KSAME_IN_GRID,
                             all_in_step(s, k->f->body) > 0 ? FL_KSAME_IN_BLOCK : FL_KSAME_NONE };
  return fl_kown_prove(&w, index, same);
}

/* ---- rounds of loops -------------------------------------------------------------------- */

/* The loop of which s is the counter, if s changes in each of its iterations; -1: none, or
** unknown. */
static int32_t loop_of(const search *w, int32_t s) {
  if (s < FL_KSYM_VAR || s >= FL_KSYM_QUOTIENT ||
      !fl_kdef_is_counter(w->r.k->defs, s - FL_KSYM_VAR))
    return -1;
  const fl_kdef *v = &w->r.k->defs->var[s - FL_KSYM_VAR];
  const fl_kpoly step = fl_kroute_step(&w->r, s - FL_KSYM_VAR);
  const int moves = !step.bad && step.n == 1 && fl_kroute_is_nonzero(&w->r, &step.t[0]);
  return moves || fl_kroute_counter(&w->r, s - FL_KSYM_VAR) != -2 ? v->step_loop : -1;
}

static int has_round(const search *w, int32_t loop) {
  for (int i = 0; i < w->n_known; i++)
    if (loop_of(w, w->known[i]) == loop) return 1;
  return 0;
}

/* Sets what is known to this: the two accesses are by one thread, in one iteration of each of the
** 'first' outermost loops. So all indices of the thread are known, and the counters of these
** loops. */
static void know_round(search *w, int first) {
  w->n_known = w->n_rests = 0;
  memset(w->used, 0, sizeof w->used);
  for (int s = FL_KSPECIAL_TID_X; s <= FL_KSPECIAL_BID_Z; s++) add_known(w, s);
  for (int axis = 0; axis < 3; axis++) add_known(w, FL_KSYM_GLOBAL + axis);
  for (int v = 0; v < w->r.k->f->n_vars; v++)
    for (int i = 0; i < first; i++)
      if (w->r.at.loops[i] >= 0 && loop_of(w, FL_KSYM_VAR + v) == w->r.at.loops[i])
        add_known(w, FL_KSYM_VAR + v);
}

uint64_t fl_kindex_rounds(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index) {
  search w = { .r = { .k = k, .goal = s } };
  uint64_t bits = 0;
  if (!fl_kroute_is_place(&w.r)) return 0;
  const fl_kpoly p = fl_kpoly_of(k, &w.r.at, index);
  add_sum(&w, &p);
  for (int first = w.r.at.n_loops - 1; first >= 0 && w.n_sums; first--) {
    const int32_t loop = w.r.at.loops[first];
    know_round(&w, first);
    use_sum(&w, 0);
    int all = loop >= 0 && loop < 64;
    for (int i = first; i < w.r.at.n_loops; i++) all = all && has_round(&w, w.r.at.loops[i]);
    if (!all) break;
    bits |= (uint64_t)1 << loop;
  }
  return bits;
}
