/*
** Index expressions as polynomials (form.h). Unsigned constants beyond the greatest signed number
** of their width are read as the negative numbers that were meant: i + ~0u is i - 1.
*/
#include "kernel/facts/form.h"
#include "base/hash.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 40 };

/* ---- terms and sums --------------------------------------------------------------------- */

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
    p->unsure |= (p->t[i].c < 0) != (t.c < 0);
    if (__builtin_add_overflow(p->t[i].c, t.c, &p->t[i].c)) p->bad = 1;
    if (!p->t[i].c) p->t[i] = p->t[--p->n];
    return;
  }
  if (!t.c) return;
  if (p->n == FL_KPOLY_TERMS) p->bad = 1;
  else p->t[p->n++] = t;
}

static void take_flags(fl_kpoly *a, const fl_kpoly *b) {
  a->bad |= b->bad;
  a->narrow |= b->narrow;
  a->unsure |= b->unsure;
  a->wraps |= b->wraps;
  a->cut |= b->cut;
}

/* a = a + sign * b */
static void add_signed(fl_kpoly *a, const fl_kpoly *b, int sign) {
  take_flags(a, b);
  for (int i = 0; i < b->n; i++) {
    fl_kterm t = b->t[i];
    t.c *= sign;
    fl_kpoly_add(a, t);
  }
}

void fl_kpoly_subtract(fl_kpoly *a, const fl_kpoly *b) { add_signed(a, b, -1); }

int fl_kpoly_same(const fl_kpoly *a, const fl_kpoly *b) {
  fl_kpoly rest = *a;
  fl_kpoly_subtract(&rest, b);
  return !rest.bad && rest.n == 0;
}

fl_kpoly fl_kpoly_product(const fl_kpoly *a, const fl_kpoly *b) {
  fl_kpoly r = { 0 };
  take_flags(&r, a);
  take_flags(&r, b);
  for (int i = 0; i < a->n; i++)
    for (int j = 0; j < b->n && !r.bad; j++) {
      int ok;
      const fl_kterm t = fl_kterm_product(&a->t[i], &b->t[j], &ok);
      if (ok) fl_kpoly_add(&r, t);
      else r.bad = 1;
    }
  return r;
}

fl_kpoly fl_kpoly_symbol(int32_t s) {
  return (fl_kpoly){ .n = 1, .t = { { 1, 1, { s } } } };
}

fl_kpoly fl_kpoly_number(int64_t c) {
  return (fl_kpoly){ .n = c != 0, .bad = c == INT64_MIN, .t = { { c, 0, { 0 } } } };
}

int64_t fl_kpoly_take_constant(fl_kpoly *p) {
  for (int i = 0; i < p->n; i++) {
    const int64_t c = p->t[i].c;
    if (p->t[i].n) continue;
    p->t[i] = p->t[--p->n];
    return c;
  }
  return 0;
}

int fl_kpoly_has_negative(const fl_kpoly *p) {
  for (int i = 0; i < p->n; i++)
    if (p->t[i].c < 0) return 1;
  return 0;
}

int fl_kpoly_all(const fl_kpoly *p, fl_kis_known *is, const void *arg) {
  for (int i = 0; i < p->n; i++)
    if (!fl_kterm_all(&p->t[i], is, arg)) return 0;
  return 1;
}

static int is_of_threads(const void *none, int32_t s) { return (void)none, s < FL_KSYM_SAME; }

/* Has p no negative coefficients, and only indices of the thread and sizes of the launch as
** symbols? Then it is not negative. */
int fl_kpoly_is_natural(const fl_kpoly *p) {
  return !p->bad && !fl_kpoly_has_negative(p) && fl_kpoly_all(p, is_of_threads, NULL);
}

void fl_kterm_drop(fl_kterm *t, int32_t s) {
  for (int i = 0; i < t->n; i++) {
    if (t->s[i] != s) continue;
    memmove(t->s + i, t->s + i + 1, (size_t)(t->n - i - 1) * sizeof t->s[0]);
    t->n--;
    return;
  }
}

int32_t fl_kterm_digit(fl_kterm *t, fl_kis_known *known, const void *arg) {
  int32_t s = -1;
  for (int i = 0; i < t->n; i++) {
    if (known(arg, t->s[i])) continue;
    if (s >= 0) return FL_KDIGIT_SEVERAL;
    s = t->s[i];
  }
  if (s >= 0) fl_kterm_drop(t, s);
  return s;
}

int fl_kterm_all(const fl_kterm *t, fl_kis_known *is, const void *arg) {
  for (int i = 0; i < t->n; i++)
    if (!is(arg, t->s[i])) return 0;
  return 1;
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

/* ---- sums that were read before ---------------------------------------------------------- */

/* A hash that is equal for sums that differ only in the order of their terms. */
static uint64_t hash_of(const fl_kpoly *p) {
  uint64_t h = 0;
  for (int i = 0; i < p->n; i++)
    h += fl_hash64(p->t[i].s, (size_t)p->t[i].n * sizeof p->t[i].s[0], (uint64_t)p->t[i].c);
  return h;
}

int fl_kpolys_number(fl_kpolys *all, const fl_kpoly *p) {
  const uint64_t hash = hash_of(p);
  for (int i = 0; i < all->n; i++)
    if (all->at[i].hash == hash && fl_kpoly_same(&all->at[i].p, p)) return i + 1;
  void *at = fl_karena_room(all->a, all->at, all->n, &all->cap, sizeof *all->at);
  if (!at) return 0;
  all->at = at;
  all->at[all->n] = (struct fl_kpoly_met){ hash, *p };
  return ++all->n;
}

/* ---- quotients -------------------------------------------------------------------------- */

static fl_kpoly bad(void) { return (fl_kpoly){ .bad = 1 }; }

/* The quotient that a is; NULL: a is not a single quotient. */
static const fl_kquotient *quotient_of(const fl_kquotients *all, const fl_kpoly *a) {
  const int32_t s = fl_kpoly_single(a);
  return s >= FL_KSYM_QUOTIENT ? &all->at[s - FL_KSYM_QUOTIENT] : NULL;
}

/* The symbol of the quotient a / by, where 'by' has one term, which is positive if its symbols are;
** (b / m) / n becomes b / (m * n) if both have one type. */
static fl_kpoly quotient(fl_kquotients *all, fl_kpoly a, const fl_kpoly *by, int type) {
  fl_kquotient q = { .a = a, .m = by->t[0], .type = type };
  if (!all || by->bad || a.bad || by->n != 1 || q.m.c <= 0) return bad();
  fl_kpoly_join(&q.a);
  const fl_kquotient *inner = quotient_of(all, &a);
  if (inner) {
    const fl_kpoly m = { .n = 1, .t = { inner->m } }, product = fl_kpoly_product(&m, by);
    if (inner->type == type && !product.bad && product.n == 1) {
      q.a = inner->a;
      q.m = product.t[0];
    }
  }
  assert(!all->n || all->at);
  for (int i = 0; i < all->n; i++) {
    const fl_kquotient *x = &all->at[i];
    if (x->type == type && x->m.c == q.m.c && fl_kterm_same(&x->m, &q.m) &&
        fl_kpoly_same(&x->a, &q.a))
      return fl_kpoly_symbol(FL_KSYM_QUOTIENT + i);
  }
  void *at = fl_karena_room(all->a, all->at, all->n, &all->cap, sizeof *all->at);
  if (!at) return bad();
  all->at = at;
  all->at[all->n] = q;
  return fl_kpoly_symbol(FL_KSYM_QUOTIENT + all->n++);
}

const fl_kquotient *fl_kpoly_remainder(const fl_kquotients *all, const fl_kpoly *p, fl_kpoly *a,
                                       fl_kterm *m) {
  for (int i = 0; i < 2 && p->n == 2; i++) {
    const fl_kterm *big = &p->t[!i];
    *a = (fl_kpoly){ .n = 1, .t = { p->t[i] } };
    const fl_kquotient *inner = quotient_of(all, a);
    for (int j = 0; j < big->n; j++) {
      if (big->s[j] < FL_KSYM_QUOTIENT) continue;
      assert(all->at);
      const fl_kquotient *q = &all->at[big->s[j] - FL_KSYM_QUOTIENT];
      *m = *big;
      fl_kterm_drop(m, big->s[j]);
      m->c = -m->c;
      int ok = 1;
      const fl_kterm whole = inner ? fl_kterm_product(&inner->m, m, &ok) : *m;
      if (ok && fl_kpoly_same(&q->a, inner ? &inner->a : a) && fl_kterm_equal(&q->m, &whole))
        return q;
    }
  }
  return NULL;
}

/* The polynomial of a / b, or with 'rest' of a % b. */
static fl_kpoly divide(const fl_kreader *r, const fl_kexpr *x, const fl_kpoly *a,
                       const fl_kpoly *b, int rest) {
  const fl_kpoly q = quotient(r->quotients, *a, b, x->type);
  if (!rest || q.bad) return q;
  fl_kpoly left = *a;
  const fl_kpoly product = fl_kpoly_product(&q, b);
  fl_kpoly_subtract(&left, &product);
  return left;
}

/* The polynomials of a & (m - 1) and a >> n where a is not negative and m a power of two: a % m,
** and a / m with m = 1 << n. */
static fl_kpoly bits(const fl_kreader *r, const fl_kexpr *x, const fl_kpoly *a,
                     const fl_kpoly *b) {
  const int64_t c = b->n == 1 && b->t[0].n == 0 ? b->t[0].c : -1, most = (int64_t)1 << 30;
  const int64_t m = x->op == FL_KO_AND ? c + 1 : c >= 0 && c < 30 ? (int64_t)1 << c : 0;
  const fl_kpoly by = fl_kpoly_number(m);
  if (m < 1 || m > most || (m & (m - 1)) || !fl_kpoly_is_natural(a)) return bad();
  return divide(r, x, a, &by, x->op == FL_KO_AND);
}

/* ---- expressions ------------------------------------------------------------------------ */

int fl_kform_wraps(int type, const fl_kpoly *p) {
  const int64_t large = 1 << 20, c = p->n == 1 && p->t[0].n == 0 ? p->t[0].c : 0;
  return type == FL_KT_U32 && (c >= large || c <= -large);
}

static fl_kpoly times(const fl_kexpr *x, const fl_kpoly *a, const fl_kpoly *b) {
  fl_kpoly r = fl_kpoly_product(a, b);
  r.bad |= fl_kform_wraps(x->type, a) || fl_kform_wraps(x->type, b);
  return r;
}

static fl_kpoly read_binary(const fl_kreader *r, const fl_kexpr *x, int depth) {
  fl_kpoly a = fl_kform_read(r, x->x[0], depth + 1);
  if (a.bad) return a;
  if (x->op == FL_KO_SHL) {
    const int64_t by = x->x[1]->kind == FL_KX_CONST ? x->x[1]->value.i : -1;
    const fl_kpoly power = fl_kpoly_number(by >= 0 && by < 31 ? (int64_t)1 << by : 0);
    return power.n ? times(x, &a, &power) : bad();
  }
  const fl_kpoly b = fl_kform_read(r, x->x[1], depth + 1);
  if (b.bad) return b;
  switch (x->op) {
    case FL_KO_MUL: return times(x, &a, &b);
    case FL_KO_AND: case FL_KO_SHR: return bits(r, x, &a, &b);
    case FL_KO_DIV: case FL_KO_REM: return divide(r, x, &a, &b, x->op == FL_KO_REM);
    case FL_KO_SUB: fl_kpoly_subtract(&a, &b); return a;
    case FL_KO_ADD: add_signed(&a, &b, 1); return a;
    default: return bad();
  }
}

static fl_kpoly read_const(const fl_kexpr *x) {
  if (!fl_kt_is_int(x->type)) return bad();
  const int64_t c = x->value.i;
  const int high = x->type == FL_KT_U32 && c > INT32_MAX;
  fl_kpoly p = fl_kpoly_number(high ? c - ((int64_t)1 << 32) : c);
  p.unsure = (uint8_t)(high || (x->type == FL_KT_U64 && c < 0));
  return p;
}

/* Is symbol s an index of the thread or a size of the launch, or a quotient of such? */
static int is_launched(const void *quotients, int32_t s) {
  if (s < FL_KSYM_QUOTIENT || s >= FL_KSYM_UNKNOWN || !quotients) return s < FL_KSYM_SAME;
  const fl_kquotient *q = &((const fl_kquotients *)quotients)->at[s - FL_KSYM_QUOTIENT];
  return fl_kpoly_all(&q->a, is_launched, quotients) && fl_kterm_all(&q->m, is_launched, quotients);
}

/* Has the integer type 'to' all values of 'from'? */
static int holds(int to, int from) {
  const int more = fl_kt_size(to) > fl_kt_size(from);
  if (fl_ktypes[from].is_signed)
    return fl_ktypes[to].is_signed && fl_kt_size(to) >= fl_kt_size(from);
  return more || (fl_kt_size(to) == fl_kt_size(from) && !fl_ktypes[to].is_signed);
}

static fl_kpoly read_exact(const fl_kreader *r, const fl_kexpr *x, int depth) {
  fl_kpoly p;
  switch (x->kind) {
    case FL_KX_CONST: return read_const(x);
    case FL_KX_SPECIAL:
      return x->op == FL_KSPECIAL_WARP_SIZE ? fl_kpoly_number(32) : fl_kpoly_symbol(x->op);
    case FL_KX_VAR: return r->var(r, x->var, depth);
    case FL_KX_CAST:
      if (!fl_kt_is_int(x->type) || fl_kt_size(x->type) < 4 || !fl_kt_is_int(x->x[0]->type))
        return bad();
      p = fl_kform_read(r, x->x[0], depth + 1);
      break;
    case FL_KX_BINARY: p = read_binary(r, x, depth); break;
    case FL_KX_UNARY: {
      if (x->op != FL_KO_NEG) return bad();
      const fl_kpoly a = fl_kform_read(r, x->x[0], depth + 1);
      p = fl_kpoly_number(0);
      fl_kpoly_subtract(&p, &a);
      break;
    }
    default: return bad();
  }
  if (!p.bad && !fl_kpoly_all(&p, is_launched, r->quotients)) {
    p.wraps |= !fl_ktypes[x->type].is_signed && x->kind != FL_KX_VAR && x->kind != FL_KX_CAST;
    p.cut |= x->kind == FL_KX_CAST && !holds(x->type, x->x[0]->type);
  }
  p.narrow |= fl_kt_size(x->type) < 8;
  p.unsure |= !fl_ktypes[x->type].is_signed && fl_kpoly_has_negative(&p);
  return p;
}

fl_kpoly fl_kform_read(const fl_kreader *r, const fl_kexpr *x, int depth) {
  fl_kpoly p = depth > DEPTH ? bad() : read_exact(r, x, depth);
  if (p.bad && r->other) p = r->other(r, x);
  return p;
}
