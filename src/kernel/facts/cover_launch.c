/*
** The stores of cover.c against one launch: here everything except the threads and the counters is
** a known number. An index is read as a number in mixed radix: each digit (a thread's index along
** an axis, in its block or in the launch, or a counter) takes all values below its range,
** independently of the others; if each weight is the product of the ranges of the lower digits, the
** index takes all values below the product of all ranges.
*/
#include "kernel/facts/cover_form.h"
#include "kernel/tree/verify.h"
#include <stdio.h>
#include <string.h>

typedef struct digit { int32_t symbol; int64_t weight, range; } digit;
enum { MAX_DIGITS = FL_KPOLY_TERMS };
/* A polynomial for this launch: c + the sum of weight * digit. range: the digit takes the values 0
** to range - 1. */
typedef struct number { int64_t c; int n; digit d[MAX_DIGITS]; } number;

typedef struct ask {
  const fl_kcover *c;
  const fl_kcover_launch *l;
  const fl_kc_store *s;      /* the store that is looked at */
  int nest;                  /* counters whose start is being looked at */
} ask;

static int is_axis(int32_t s) { return s >= FL_KSYM_GLOBAL && s < FL_KSYM_GLOBAL + 3; }
static int is_counter(int32_t s) { return s >= FL_KSYM_COUNTER; }
static int is_digit(int32_t s) { return s <= FL_KSPECIAL_BID_Z || is_axis(s) || is_counter(s); }

static int is_size(const void *arg, int32_t s) {
  (void)arg;
  return !is_digit(s);
}

/* ---- numbers ------------------------------------------------------------------------- */

/* Sets *out to the value of an integer parameter. Returns 0 if that is unknown, or negative. */
static int parameter(const ask *q, int32_t var, int64_t *out) {
  const fl_kvar *v = &q->c->f->vars[var];
  const char *at = q->l->argument(q->l->arg, v->param);
  if (!at) return 0;
  int64_t x = 0;
  int32_t narrow;
  if (fl_kt_size(v->type) == 8) memcpy(&x, at + v->offset, 8);
  else {
    memcpy(&narrow, at + v->offset, 4);
    x = v->type == FL_KT_U32 ? (int64_t)(uint32_t)narrow : narrow;
  }
  *out = x;
  return x >= 0;
}

static int uniform_symbol(const ask *q, int32_t s, int64_t *out) {
  if (s >= FL_KSYM_VAR && s < FL_KSYM_COUNTER) return parameter(q, s - FL_KSYM_VAR, out);
  if (s >= FL_KSPECIAL_BDIM_X && s <= FL_KSPECIAL_BDIM_Z)
    *out = q->l->block[s - FL_KSPECIAL_BDIM_X];
  else if (s >= FL_KSPECIAL_GDIM_X && s <= FL_KSPECIAL_GDIM_Z)
    *out = q->l->grid[s - FL_KSPECIAL_GDIM_X];
  else return 0;
  return 1;
}

/* value_of: the value of a term that has only sizes of the launch and parameters in it. constant:
** that of a polynomial of such terms. Both return 0 if it is unknown or overflows. */
static int value_of(const ask *q, const fl_kterm *t, int64_t *v) {
  int64_t x;
  *v = t->c;
  for (int k = 0; k < t->n; k++)
    if (!uniform_symbol(q, t->s[k], &x) || __builtin_mul_overflow(*v, x, v)) return 0;
  return 1;
}

static int constant(const ask *q, const fl_kpoly *p, int64_t *out) {
  int64_t r = 0, v;
  for (int i = 0; i < p->n; i++)
    if (!value_of(q, &p->t[i], &v) || __builtin_add_overflow(r, v, &r)) return 0;
  *out = r;
  return 1;
}

/* Sets *out to a bound that no value of symbol s exceeds. Returns 0 if none is known. */
static int largest(const ask *q, int32_t s, int64_t *out) {
  if (s <= FL_KSPECIAL_TID_Z) *out = q->l->block[s - FL_KSPECIAL_TID_X] - 1;
  else if (s <= FL_KSPECIAL_BID_Z) *out = q->l->grid[s - FL_KSPECIAL_BID_X] - 1;
  else if (is_counter(s)) return constant(q, q->c->loops[s - FL_KSYM_COUNTER].to, out);
  else return uniform_symbol(q, s, out);
  return 1;
}

/* Does each step of computing p certainly fit its type? */
static int is_exact(const ask *q, const fl_kpoly *p) {
  int64_t r = 0;
  for (int i = 0; i < p->n; i++) {
    int64_t v = p->t[i].c < 0 ? -p->t[i].c : p->t[i].c, x;
    for (int k = 0; k < p->t[i].n; k++)
      if (!largest(q, p->t[i].s[k], &x) || x < 0 || __builtin_mul_overflow(v, x, &v)) return 0;
    if (__builtin_add_overflow(r, v, &r)) return 0;
  }
  return r <= (p->narrow ? INT32_MAX - FL_KC_ROOM : INT64_MAX / 2);
}

/* ---- digits -------------------------------------------------------------------------- */

/* Writes p as a constant and digits; the ranges are not set. Returns 0 if it has another form. */
static int numbers(const ask *q, const fl_kpoly *p, number *out) {
  fl_kpoly joined = *p;
  *out = (number){ 0 };
  if (!is_exact(q, p)) return 0;
  fl_kpoly_join(&joined);
  for (int i = 0; i < joined.n; i++) {
    fl_kterm *t = &joined.t[i];
    const int32_t s = fl_kterm_digit(t, is_size, NULL);
    int64_t v;
    if (s == FL_KDIGIT_SEVERAL || !value_of(q, t, &v)) return 0;
    if (s < 0) { out->c += v; continue; }
    for (int k = 0; k < out->n; k++) if (out->d[k].symbol == s) return 0;
    out->d[out->n++] = (digit){ .symbol = s, .weight = v };
  }
  return 1;
}

static int64_t covered(ask *q, const fl_kpoly *p);

/* Sets the range of a digit. Returns 0 if the range is unknown, or if the digit is a counter that
** may not take all values in it. A counter that steps by 'by' takes all values below 'to' if for
** each of 0 … by - 1 there is a thread in which it starts there. */
static int range_of(ask *q, digit *d) {
  const int a = d->symbol % 3;
  int64_t by, to;
  if (is_axis(d->symbol)) {
    const int axis = d->symbol - FL_KSYM_GLOBAL;
    return !__builtin_mul_overflow(q->l->grid[axis], q->l->block[axis], &d->range);
  }
  if (!is_counter(d->symbol)) {
    d->range = d->symbol <= FL_KSPECIAL_TID_Z ? q->l->block[a] : q->l->grid[a];
    return 1;
  }
  const fl_kc_loop *l = &q->c->loops[d->symbol - FL_KSYM_COUNTER];
  if (q->nest > 4 || !is_exact(q, l->by) || !is_exact(q, l->to) || !constant(q, l->by, &by) ||
      !constant(q, l->to, &to) || by < 1 || to > INT32_MAX - by) return 0;
  q->nest++;
  const int64_t begins = covered(q, l->from);            /* threads start at 0 … begins - 1 */
  q->nest--;
  d->range = to;
  return begins >= by;
}

/* Applies the guards to the n digits d of the index: a guard on one digit limits its range, and a
** guard on no digit must hold. For a digit that is not in the index it is enough that some value
** passes: if any does, 0 does. Returns 0 if a guard is not understood or is never true. */
static int limit(ask *q, digit *d, int n) {
  for (int g = 0; g < q->s->n_guards; g++) {
    const fl_kc_guard *x = &q->s->guard[g];
    number a;
    int64_t b;
    if (!is_exact(q, x->b) || !constant(q, x->b, &b) || !numbers(q, x->a, &a)) return 0;
    if (a.n > 1) continue;                               /* see limit_flat */
    if (a.n == 0) {
      if (a.c >= b) return 0;
      continue;
    }
    if (a.d[0].weight < 1) return 0;
    const int64_t room = b - a.c, most = room < 1 ? 0 : (room - 1) / a.d[0].weight + 1;
    if (most < 1) return 0;
    for (int k = 0; k < n; k++)
      if (d[k].symbol == a.d[0].symbol && d[k].range > most) d[k].range = most;
  }
  return 1;
}

static int same_digits(const number *a, const number *b) {
  int found = 0;
  for (int i = 0; i < a->n; i++)
    for (int j = 0; j < b->n; j++)
      found += a->d[i].symbol == b->d[j].symbol && a->d[i].weight == b->d[j].weight;
  return a->n == b->n && found == a->n;
}

/* A guard on several digits must be a bound on the index itself, as in "if (i < n) y[i] = …".
** Lowers *most to the least such bound on the sum of weights times digits. 0: a guard has another
** form. */
static int limit_flat(ask *q, const number *at, int64_t *most) {
  for (int g = 0; g < q->s->n_guards; g++) {
    number a;
    int64_t b;
    if (!numbers(q, q->s->guard[g].a, &a)) return 0;
    if (a.n < 2) continue;
    if (!same_digits(&a, at) || !constant(q, q->s->guard[g].b, &b)) return 0;
    if (b - a.c < *most) *most = b - a.c;
  }
  return 1;
}

/* The set of indices that p depends on, also through the starts of its counters. Bits 0 to 2:
** threadIdx along an axis, 3 to 5: blockIdx, 6 to 8: the index in the launch. Sets *apart to 0 if
** one occurs twice, or if a start is not understood. */
static unsigned threads_of(const ask *q, const number *p, int nest, int *apart) {
  unsigned all = 0;
  for (int i = 0; i < p->n; i++) {
    const int32_t s = p->d[i].symbol;
    unsigned bits = 0;
    number from;
    if (is_axis(s)) bits = 1u << (6 + s - FL_KSYM_GLOBAL);
    else if (!is_counter(s)) bits = 1u << s;
    else if (nest > 4 || !numbers(q, q->c->loops[s - FL_KSYM_COUNTER].from, &from)) *apart = 0;
    else bits = threads_of(q, &from, nest + 1, apart);
    if (all & bits) *apart = 0;
    all |= bits;
  }
  return all;
}

/* Are all digits of the index and of the guards independent? An axis must appear everywhere as the
** index in the launch, or everywhere as threadIdx and blockIdx. */
static int independent(const ask *q, const number *at) {
  int apart = 1, ignored = 1;
  unsigned all = threads_of(q, at, 0, &apart);
  for (int g = 0; g < q->s->n_guards; g++) {
    number a;
    if (!numbers(q, q->s->guard[g].a, &a)) return 0;
    all |= threads_of(q, &a, 0, &ignored);
  }
  return apart && ignored && !((all >> 6) & (all | all >> 3) & 7);
}

/* How many of the values 0, unit, 2 * unit, … (without a gap) the digits certainly take; *unit:
** their lowest weight. *unit may be unchanged if the answer is 0. */
static int64_t covered_by(ask *q, const number *at, int64_t *unit) {
  digit d[MAX_DIGITS];
  int64_t all = 1, most = INT64_MAX / 4;
  memcpy(d, at->d, sizeof d);
  for (int i = 0; i < at->n; i++)
    if (d[i].weight < 1 || !range_of(q, &d[i]) || d[i].range < 1) return 0;
  if (!limit(q, d, at->n) || !limit_flat(q, at, &most)) return 0;
  for (int i = 0; i < at->n; i++)                        /* by weight and range */
    for (int k = i + 1; k < at->n; k++)
      if (d[k].weight < d[i].weight || (d[k].weight == d[i].weight && d[k].range < d[i].range)) {
        const digit t = d[i];
        d[i] = d[k];
        d[k] = t;
      }
  *unit = at->n ? d[0].weight : 1;
  for (int i = 0; i < at->n; i++) {
    int64_t weight;
    if (__builtin_mul_overflow(all, *unit, &weight) || d[i].weight != weight) return 0;
    if (__builtin_mul_overflow(all, d[i].range, &all)) return 0;
  }
  const int64_t room = most < 1 ? 0 : (most - 1) / *unit + 1;
  return all < room ? all : room;
}

/* How many of the values 0, 1, … (without a gap) p certainly takes. */
static int64_t covered(ask *q, const fl_kpoly *p) {
  number at;
  int64_t unit = 0;
  if (!numbers(q, p, &at) || at.c) return 0;
  const int64_t n = covered_by(q, &at, &unit);
  return unit == 1 ? n : 0;
}

/* ---- the answer ---------------------------------------------------------------------- */

/* Do store s and others to its array certainly write elements 0 to n - 1? If s writes the multiples
** of a unit, u * (digits), the others must be at u * (the same digits) + 1 … u - 1, as are the
** stores of a vector. */
static int store_covers(const fl_kcover *c, const fl_kc_store *s, int64_t n,
                        const fl_kcover_launch *l) {
  ask q = { c, l, s, 0 };
  number at;
  int64_t unit = 1;
  if (!numbers(&q, s->at, &at) || at.c != 0 || !independent(&q, &at)) return 0;
  const int64_t first = covered_by(&q, &at, &unit);
  if (unit < 1 || first < (n + unit - 1) / unit) return 0;
  for (int64_t r = 1; r < unit && r < n; r++) {
    int found = 0;
    for (const fl_kc_store *o = c->stores; o && !found; o = o->next) {
      ask other = { c, l, o, 0 };
      number too;
      int64_t step = 1;
      if (o->var != s->var || !numbers(&other, o->at, &too) || too.c != r ||
          !same_digits(&at, &too) || !independent(&other, &too)) continue;
      found = covered_by(&other, &too, &step) >= (n - r + unit - 1) / unit;
    }
    if (!found) return 0;
  }
  return 1;
}

static int find_answer(const fl_kcover *c, int param, int64_t n, const fl_kcover_launch *l) {
  for (const fl_kc_store *s = c->stores; s; s = s->next)
    if (c->f->vars[s->var].param == param && store_covers(c, s, n, l)) return 1;
  return 0;
}

static int all(fl_kcover *c, int param, int64_t n, const fl_kcover_launch *l) {
  if (!c || n < 1) return 0;
  fl_kc_memo *m = &c->memo[param % FL_KC_MEMOS], now = { .param = param + 1, .n = n };
  const ask q = { c, l, NULL, 0 };
  if (c->n_used > FL_KC_USED) return find_answer(c, param, n, l);
  for (int i = 0; i < c->n_used; i++) if (!parameter(&q, c->used[i], &now.value[i])) return 0;
  memcpy(now.grid, l->grid, sizeof now.grid);
  memcpy(now.block, l->block, sizeof now.block);
  now.answer = m->answer;
  if (!memcmp(m, &now, sizeof now)) return m->answer;
  now.answer = find_answer(c, param, n, l);
  *m = now;
  return now.answer;
}

int fl_kcover_all(fl_kcover *c, int param, int64_t n, const fl_kcover_launch *l) {
  const int answer = all(c, param, n, l);
  if (c && fl_kpass_is_told()) {
    char text[200];
    snprintf(text, sizeof text, "cover of %d, %lld elements, by %lld %lld %lld blocks of %lld %lld "
             "%lld: %d", param, (long long)n, (long long)l->grid[0], (long long)l->grid[1],
             (long long)l->grid[2], (long long)l->block[0], (long long)l->block[1],
             (long long)l->block[2], answer);
    fl_kpass_tell(c->f, text);
  }
  return answer;
}
