/*
** Polynomials of index expressions (poly.h). Variables with one definition are looked through;
** sums are taken as exact: an index that overflows its type is no index. Constants of unsigned
** types beyond INT_MAX are the negative numbers that they were in the source (i + ~0u).
*/
#include "kernel/facts/poly.h"
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 40 };

static int compare(const void *a, const void *b) {
  const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

int fl_kterm_same(const fl_kterm *a, const fl_kterm *b) {
  return a->n == b->n && !memcmp(a->s, b->s, (size_t)a->n * sizeof a->s[0]);
}

void fl_kpoly_add(fl_kpoly *p, fl_kterm t) {
  qsort(t.s, (size_t)t.n, sizeof t.s[0], compare);
  for (int i = 0; i < p->n; i++) {
    if (!fl_kterm_same(&p->t[i], &t)) continue;
    if (__builtin_add_overflow(p->t[i].c, t.c, &p->t[i].c)) p->bad = 1;
    if (!p->t[i].c) p->t[i] = p->t[--p->n];
    return;
  }
  if (!t.c) return;
  if (p->n == FL_KPOLY_TERMS) p->bad = 1;
  else p->t[p->n++] = t;
}

void fl_kpoly_subtract(fl_kpoly *a, const fl_kpoly *b) {
  a->bad |= b->bad;
  for (int i = 0; i < b->n; i++) {
    fl_kterm t = b->t[i];
    t.c = -t.c;
    fl_kpoly_add(a, t);
  }
}

int fl_kpoly_same(const fl_kpoly *a, const fl_kpoly *b) {
  fl_kpoly rest = *a;
  fl_kpoly_subtract(&rest, b);
  return !rest.bad && rest.n == 0;
}

static void multiply(const fl_kpoly *a, const fl_kpoly *b, fl_kpoly *r) {
  *r = (fl_kpoly){ .bad = a->bad | b->bad };
  for (int i = 0; i < a->n; i++)
    for (int j = 0; j < b->n && !r->bad; j++) {
      int ok;
      const fl_kterm t = fl_kterm_product(&a->t[i], &b->t[j], &ok);
      if (ok) fl_kpoly_add(r, t);
      else r->bad = 1;
    }
}

void fl_kterm_drop(fl_kterm *t, int32_t s) {
  for (int i = 0; i < t->n; i++) {
    if (t->s[i] != s) continue;
    memmove(t->s + i, t->s + i + 1, (size_t)(t->n - i - 1) * sizeof t->s[0]);
    t->n--;
    return;
  }
}

int fl_kterm_holds(const fl_kterm *t, int32_t s) {
  for (int i = 0; i < t->n; i++)
    if (t->s[i] == s) return 1;
  return 0;
}

fl_kterm fl_kterm_ratio(const fl_kterm *big, const fl_kterm *small, int *ok) {
  fl_kterm q = *big;
  *ok = 0;
  for (int i = 0; i < small->n; i++) {
    if (!fl_kterm_holds(&q, small->s[i])) return q;
    fl_kterm_drop(&q, small->s[i]);
  }
  if (!small->c || q.c % small->c) return q;
  q.c /= small->c;
  if (q.c < 0) q.c = -q.c;
  *ok = 1;
  return q;
}

fl_kterm fl_kterm_product(const fl_kterm *a, const fl_kterm *b, int *ok) {
  fl_kterm t = *a;
  fl_kpoly sorted = { 0 };
  *ok = a->n + b->n <= FL_KPOLY_FACTORS && !__builtin_mul_overflow(a->c, b->c, &t.c);
  if (!*ok) return t;
  memcpy(t.s + t.n, b->s, (size_t)b->n * sizeof t.s[0]);
  t.n += b->n;
  fl_kpoly_add(&sorted, t);
  return sorted.t[0];
}

void fl_kpoly_join(fl_kpoly *p) {
  for (int axis = 0; axis < 3; axis++)
    for (int i = 0; i < p->n; i++) {
      fl_kterm big = p->t[i];
      if (!fl_kterm_holds(&big, FL_KSPECIAL_BID_X + axis) ||
          !fl_kterm_holds(&big, FL_KSPECIAL_BDIM_X + axis))
        continue;
      fl_kterm_drop(&big, FL_KSPECIAL_BID_X + axis);
      fl_kterm_drop(&big, FL_KSPECIAL_BDIM_X + axis);
      for (int j = 0; j < p->n; j++) {
        fl_kterm small = p->t[j];
        if (!fl_kterm_holds(&small, FL_KSPECIAL_TID_X + axis)) continue;
        fl_kterm_drop(&small, FL_KSPECIAL_TID_X + axis);
        if (!fl_kterm_same(&small, &big) || small.c != big.c) continue;
        const int high = i > j ? i : j, low = i > j ? j : i;
        big.s[big.n++] = FL_KSYM_GLOBAL + axis;
        qsort(big.s, (size_t)big.n, sizeof big.s[0], compare);
        p->t[high] = p->t[--p->n];
        p->t[low] = p->t[--p->n];
        p->t[p->n++] = big;
        i = -1;
        break;
      }
    }
}

/* ---- symbols ---------------------------------------------------------------------------- */

int fl_kpoly_is_uniform(const fl_kindices *k, int32_t s) {
  if (s >= FL_KSYM_QUOTIENT) {
    const fl_kquotient *q = &k->quotients->at[s - FL_KSYM_QUOTIENT];
    int all = 1;
    for (int i = 0; i < q->a.n; i++)
      for (int j = 0; j < q->a.t[i].n; j++) all &= fl_kpoly_is_uniform(k, q->a.t[i].s[j]);
    for (int j = 0; j < q->m.n; j++) all &= fl_kpoly_is_uniform(k, q->m.s[j]);
    return all;
  }
  if (s >= FL_KSYM_VAR)
    return !fl_kdef_is_counter(k->defs, s - FL_KSYM_VAR) && !k->level[s - FL_KSYM_VAR];
  return s >= FL_KSPECIAL_BDIM_X && s < FL_KSPECIAL_COUNT;
}

static fl_kpoly symbol(int32_t s) {
  return (fl_kpoly){ .n = 1, .t = { { 1, 1, { s } } } };
}

/* ---- expressions ------------------------------------------------------------------------ */

static fl_kpoly expand(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x, int depth);

/* Is the place in the body of the loop? What was computed before the loop is not. */
static int in_loop(const fl_kindices *k, const fl_kplace *at, int32_t loop) {
  for (int i = 0; i < at->n_loops; i++)
    if (at->loops[i] == loop) return at->order > k->defs->loop_order[loop];
  return 0;
}

static fl_kpoly expand_var(const fl_kindices *k, const fl_kplace *at, int32_t var, int depth) {
  const fl_kdef *v = &k->defs->var[var];
  if (v->zero) return (fl_kpoly){ .n = 0 };
  if (fl_kdef_at(k->defs, var, at->order)) {
    fl_kplace there = *at;
    there.order = v->order;
    return expand(k, &there, v->value, depth + 1);
  }
  if (fl_kdef_is_given(k->defs, var)) return symbol(FL_KSYM_VAR + var);
  if (fl_kdef_is_counter(k->defs, var) && in_loop(k, at, v->step_loop))
    return symbol(FL_KSYM_VAR + var);
  return (fl_kpoly){ .bad = 1 };
}

/* a / m; (b / m) / n is b / (m * n). */
static fl_kpoly quotient(const fl_kindices *k, fl_kpoly a, const fl_kpoly *by, int type) {
  struct fl_kquotients *all = k->quotients;
  fl_kquotient q = { .a = a, .m = by->t[0], .type = type };
  if (by->bad || a.bad || by->n != 1 || q.m.c <= 0) return (fl_kpoly){ .bad = 1 };
  fl_kpoly_join(&q.a);
  if (a.n == 1 && a.t[0].n == 1 && a.t[0].c == 1 && a.t[0].s[0] >= FL_KSYM_QUOTIENT) {
    const fl_kquotient *inner = &all->at[a.t[0].s[0] - FL_KSYM_QUOTIENT];
    const fl_kpoly m = { .n = 1, .t = { inner->m } };
    fl_kpoly product;
    multiply(&m, by, &product);
    if (inner->type == type && !product.bad && product.n == 1) {
      q.a = inner->a;
      q.m = product.t[0];
    }
  }
  for (int i = 0; i < all->n; i++) {
    const fl_kquotient *x = &all->at[i];
    if (x->type == type && x->m.c == q.m.c && fl_kterm_same(&x->m, &q.m) &&
        fl_kpoly_same(&x->a, &q.a))
      return symbol(FL_KSYM_QUOTIENT + i);
  }
  if (all->n == FL_KPOLY_QUOTIENTS) return (fl_kpoly){ .bad = 1 };
  all->at[all->n] = q;
  return symbol(FL_KSYM_QUOTIENT + all->n++);
}

static fl_kpoly divide(const fl_kindices *k, const fl_kexpr *x, const fl_kpoly *a,
                       const fl_kpoly *b) {
  fl_kpoly q = quotient(k, *a, b, x->type), r = *a, product;
  if (x->op == FL_KO_DIV || q.bad) return q;
  multiply(&q, b, &product);
  fl_kpoly_subtract(&r, &product);
  return r;
}

/* Sums of positive multiples of the threads' numbers: not negative. */
int fl_kpoly_is_natural(const fl_kpoly *p) {
  for (int i = 0; i < p->n; i++) {
    if (p->t[i].c < 0) return 0;
    for (int j = 0; j < p->t[i].n; j++)
      if (p->t[i].s[j] >= FL_KSYM_SAME) return 0;
  }
  return !p->bad;
}

/* a & (m - 1) and a >> n of what is not negative: a % m, a / m. */
static fl_kpoly bits(const fl_kindices *k, const fl_kexpr *x, const fl_kpoly *a,
                     const fl_kpoly *b) {
  const int64_t c = b->n == 1 && b->t[0].n == 0 ? b->t[0].c : -1, most = (int64_t)1 << 30;
  const int64_t m = x->op == FL_KO_AND ? c + 1 : c >= 0 && c < 30 ? (int64_t)1 << c : 0;
  const fl_kpoly by = { .n = 1, .t = { { m, 0, { 0 } } } };
  if (m < 1 || m > most || (m & (m - 1)) || !fl_kpoly_is_natural(a)) return (fl_kpoly){ .bad = 1 };
  fl_kpoly q = quotient(k, *a, &by, x->type), r = *a, product;
  if (x->op == FL_KO_SHR || q.bad) return q;
  multiply(&q, &by, &product);
  fl_kpoly_subtract(&r, &product);
  return r;
}

/* An unsigned product with a factor this large is one that wraps, as in a hash. */
static int wraps(const fl_kexpr *x, const fl_kpoly *p) {
  const int64_t large = 1 << 20, c = p->n == 1 && p->t[0].n == 0 ? p->t[0].c : 0;
  return x->type == FL_KT_U32 && (c >= large || c <= -large);
}

static fl_kpoly expand_binary(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x,
                              int depth) {
  fl_kpoly a = expand(k, at, x->x[0], depth + 1), b, r;
  if (a.bad) return a;
  if (x->op == FL_KO_SHL && x->x[1]->kind == FL_KX_CONST && x->x[1]->value.i >= 0 &&
      x->x[1]->value.i < 31)
    b = (fl_kpoly){ .n = 1, .t = { { (int64_t)1 << x->x[1]->value.i, 0, { 0 } } } };
  else b = expand(k, at, x->x[1], depth + 1);
  if (b.bad) return b;
  switch (x->op) {
    case FL_KO_MUL: case FL_KO_SHL:
      multiply(&a, &b, &r);
      r.bad |= wraps(x, &a) || wraps(x, &b);
      return r;
    case FL_KO_AND: case FL_KO_SHR: return bits(k, x, &a, &b);
    case FL_KO_DIV: case FL_KO_REM: return divide(k, x, &a, &b);
    case FL_KO_SUB: fl_kpoly_subtract(&a, &b); return a;
    case FL_KO_ADD: for (int i = 0; i < b.n; i++) fl_kpoly_add(&a, b.t[i]); return a;
    default: return (fl_kpoly){ .bad = 1 };
  }
}

static fl_kpoly expand_const(const fl_kexpr *x) {
  int64_t c = x->value.i;
  if (!fl_kt_is_int(x->type) || c == INT64_MIN) return (fl_kpoly){ .bad = 1 };
  if (x->type == FL_KT_U32 && c > INT32_MAX) c -= (int64_t)1 << 32;
  return (fl_kpoly){ .n = c != 0, .t = { { c, 0, { 0 } } } };
}

static fl_kpoly expand_exact(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x,
                             int depth) {
  fl_kpoly a = { .bad = 1 };
  if (depth > DEPTH) return a;
  switch (x->kind) {
    case FL_KX_CONST: return expand_const(x);
    case FL_KX_SPECIAL:
      return x->op == FL_KSPECIAL_WARP_SIZE ? (fl_kpoly){ .n = 1, .t = { { 32, 0, { 0 } } } }
                                            : symbol(x->op);
    case FL_KX_VAR: return expand_var(k, at, x->var, depth);
    case FL_KX_CAST:
      if (!fl_kt_is_int(x->type) || fl_kt_size(x->type) < 4 || !fl_kt_is_int(x->x[0]->type))
        return a;
      return expand(k, at, x->x[0], depth + 1);
    case FL_KX_BINARY: return expand_binary(k, at, x, depth);
    case FL_KX_UNARY:
      if (x->op != FL_KO_NEG) return a;
      fl_kpoly r = { 0 };
      a = expand(k, at, x->x[0], depth + 1);
      fl_kpoly_subtract(&r, &a);
      return r;
    default: return a;
  }
}

static fl_kpoly expand(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x, int depth) {
  const fl_kpoly a = expand_exact(k, at, x, depth);
  if (!a.bad || at->same == FL_KSAME_NONE || !fl_kt_is_int(x->type)) return a;
  const int same = at->same == FL_KSAME_IN_GRID ? fl_kuniform_in_grid(k, x)
                                                : fl_kuniform_in_block(k, x);
  return same ? symbol(FL_KSYM_SAME) : a;
}

fl_kpoly fl_kpoly_of(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x) {
  fl_kpoly p = expand(k, at, x, 0);
  if (!p.bad) fl_kpoly_join(&p);
  return p;
}
