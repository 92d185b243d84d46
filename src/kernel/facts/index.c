/*
** Index classes: in which threads of a launch an index is equal (uniform.h), and whether it is a
** mixed-radix number made of indices of the thread (and loop counters): a sum of stride * digit,
** where the smallest stride is a nonzero constant, and each next stride is at least the previous
** one times a bound below which the previous digit is known to stay. Bounds come from the
** conditions around the access and from the launch (threadIdx.x < blockDim.x). Sums are taken as
** exact: an index that overflows its type is not a valid index anyway.
*/
#include "kernel/facts/route.h"
#include "kernel/tree/builtins.h"
#include <stdlib.h>
#include <string.h>

typedef fl_kroute route;
typedef fl_kdigit digit;

/* ---- the object --------------------------------------------------------------------------- */

fl_kindices *fl_kindices_new(fl_mem *m, const fl_kfunc *f, int geometry) {
  fl_kindices *k = fl_zalloc(m, sizeof *k);
  if (!k) return NULL;
  k->m = m;
  k->f = f;
  k->geometry = geometry;
  fl_karena_init(&k->arena, m);
  k->defs = fl_kdefs_new(&k->arena, f, f->body);
  k->uniform = fl_kuniform_new(&k->arena, f, f->body, NULL, 0);
  k->quotients = fl_karena_new(&k->arena, sizeof *k->quotients);
  k->seen = fl_karena_new(&k->arena, sizeof *k->seen);
  k->unknown = fl_karena_new(&k->arena, sizeof *k->unknown);
  k->equal = fl_karena_new(&k->arena, sizeof *k->equal);
  if (k->arena.failed) { fl_kindices_free(k); return NULL; }
  k->quotients->a = k->seen->a = &k->arena;
  return k;
}

void fl_kindices_launch(fl_kindices *k, const fl_klaunched *l, fl_klimits *used) {
  k->launched = l;
  k->used = used;
}

int fl_kindices_free(fl_kindices *k) {
  if (!k) return 0;
  const int whole = !k->arena.failed;
  fl_karena_close(&k->arena);
  fl_free(k->m, k, sizeof *k);
  return whole;
}

int fl_kuniform_in_grid(const fl_kindices *k, const fl_kexpr *x) {
  return fl_kuniform_level(k->uniform, x) == FL_KEQUAL_GRID;
}

int fl_kuniform_in_block(const fl_kindices *k, const fl_kexpr *x) {
  return fl_kuniform_level(k->uniform, x) <= FL_KEQUAL_BLOCK;
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* What an index determines: threadIdx and blockIdx by axis, and iterations of n_loops loops
** (labels). */
typedef struct coverage {
  uint8_t thread[3], block[3];
  int32_t loops[FL_KPOLY_TERMS];
  int n_loops;
} coverage;

/* Adds to c what digit s determines. 0: s is a counter of which the start is not known, or there
** are too many loops. */
static int cover(const route *r, int32_t s, coverage *c) {
  int32_t base = s;
  if (s >= FL_KSYM_VAR) {
    base = fl_kroute_counter(r, s - FL_KSYM_VAR);
    if (base == -2 || c->n_loops == FL_KPOLY_TERMS) return 0;
    c->loops[c->n_loops++] = r->k->defs->var[s - FL_KSYM_VAR].step_loop;
  }
  for (int axis = 0; axis < 3; axis++) {
    if (base == FL_KSYM_GLOBAL + axis || base == FL_KSPECIAL_TID_X + axis) c->thread[axis] = 1;
    if (base == FL_KSYM_GLOBAL + axis || base == FL_KSPECIAL_BID_X + axis) c->block[axis] = 1;
  }
  return 1;
}

/* If symbol s is the quotient of an index of the thread by a number up to FL_KSHARERS: the symbol
** of that index; else -1. */
static int32_t shared_of(const fl_kindices *k, int32_t s) {
  const fl_kquotient *q = s < FL_KSYM_QUOTIENT ? NULL : fl_kquotient_of(k, s);
  const int32_t of = q && !q->m.n && q->m.c <= FL_KSHARERS ? fl_kpoly_single(&q->a) : -1;
  return fl_ksym_is_number(of) ? of : -1;
}

/* The symbol that is digit d or is divided in it. */
static int32_t base_of(const digit *d) {
  return d->kind == FL_KDIGIT_LAST ? fl_kpoly_single(d->unit) : d->s;
}

/* Splits p into n digits d (indices of the thread and counters, each with a stride; with
** 'quotients' also quotients of these indices by small numbers, as LAST) and a shift that is the
** same in all threads. *c gets what the digits determine. Returns 0 if a term has two digits, or
** one of another kind, if two terms have the same digit, or if no term has one. */
static int split(const route *r, const fl_kpoly *p, int quotients, digit *d, int *n, coverage *c,
                 fl_kpoly *shift) {
  *n = 0;
  *shift = (fl_kpoly){ 0 };
  for (int i = 0; i < p->n; i++) {
    fl_kterm stride = p->t[i];
    const int32_t s = fl_kterm_digit(&stride, fl_kpoly_is_uniform, r->k);
    if (s == -1) shift->t[shift->n++] = stride;
    if (s == -1) continue;
    const int32_t of = quotients ? shared_of(r->k, s) : -1;
    if (s < 0 || (s >= FL_KSYM_QUOTIENT && of < 0)) return 0;
    digit x = { .s = s, .stride = stride };
    if (of >= 0) x.kind = FL_KDIGIT_LAST, x.unit = &fl_kquotient_of(r->k, s)->a;
    if (of >= 0) x.high = fl_kquotient_of(r->k, s)->m;
    for (int j = 0; j < *n; j++)
      if (base_of(&d[j]) == base_of(&x)) return 0;
    d[(*n)++] = x;
    if (!cover(r, base_of(&x), c)) return 0;
  }
  return *n > 0;
}

/* The class of an index that determines c. */
static fl_kindex judge(const route *r, const coverage *c) {
  const int g = r->k->geometry;
  const int thread = c->thread[0] && (c->thread[1] || g & FL_KONE_BLOCK_Y) &&
                     (c->thread[2] || g & FL_KONE_BLOCK_Z);
  const int block = c->block[0] && (c->block[1] || g & FL_KONE_GRID_Y) &&
                    (c->block[2] || g & FL_KONE_GRID_Z);
  if (!thread) return FL_KI_OTHER;
  if (!block) return FL_KI_THREAD_IN_BLOCK;
  for (int i = 0; i < r->at.n_loops; i++) {
    int seen = 0;
    for (int j = 0; j < c->n_loops; j++) seen |= c->loops[j] == r->at.loops[i];
    if (!seen) return FL_KI_OWN;
  }
  return FL_KI_INJECTIVE;
}

fl_kindex fl_kindex_class(const fl_kindices *k, const fl_kstmt *s,
                          const fl_kexpr *index) {
  route r = { .k = k, .goal = s };
  coverage c;
  digit d[FL_KPOLY_TERMS];
  fl_kpoly shift;
  int n;
  const int level = fl_kuniform_level(k->uniform, index);
  if (level == FL_KEQUAL_GRID) return FL_KI_UNIFORM_GRID;
  if (level == FL_KEQUAL_BLOCK) return FL_KI_UNIFORM_BLOCK;
  if (!fl_kroute_reaches(&r, index)) return FL_KI_OTHER;
  memset(&c, 0, sizeof c);
  fl_kpoly p = fl_kpoly_of(k, &r.at, index);
  if (p.bad || !split(&r, &p, 0, d, &n, &c, &shift) || !fl_kroute_is_chain(&r, d, n))
    return FL_KI_OTHER;
  return judge(&r, &c);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

int64_t fl_kdivisor(int64_t a, int64_t b) {
  while (b) {
    const int64_t r = a % b;
    a = b;
    b = r;
  }
  return a < 0 ? -a : a;
}

/* Is s a free counter: one that is equal in all threads that are in the same iteration of its
** loop? */
static int is_free_counter(const fl_kindices *k, int32_t s) {
  const int32_t v = s - FL_KSYM_VAR;
  if (s < FL_KSYM_VAR || s >= FL_KSYM_COUNTER || !fl_kdef_is_counter(k->defs, v)) return 0;
  return fl_kdef_gives(k->defs, k->defs->var[v].value, v) &&
         fl_kdef_gives(k->defs, k->defs->var[v].step, v);
}

/* Orders terms by their coefficients, then by their factors without the free counters. */
static int compare_fixed(const fl_kindices *k, const fl_kterm *a, const fl_kterm *b) {
  if (a->c != b->c) return a->c < b->c ? -1 : 1;
  for (int i = 0, j = 0;; i++, j++) {
    while (i < a->n && is_free_counter(k, a->s[i])) i++;
    while (j < b->n && is_free_counter(k, b->s[j])) j++;
    if (i == a->n || j == b->n) return (i < a->n) - (j < b->n);
    if (a->s[i] != b->s[j]) return a->s[i] < b->s[j] ? -1 : 1;
  }
}

/* p with its free counters replaced by COUNTER + 0, 1, … in the order of compare_fixed. */
static fl_kpoly renamed(const fl_kindices *k, fl_kpoly p) {
  int32_t met[FL_KPOLY_TERMS * FL_KPOLY_FACTORS];
  int n = 0;
  fl_kpoly r = { .bad = p.bad };
  for (int i = 1; i < p.n; i++)
    for (int j = i; j > 0 && compare_fixed(k, &p.t[j - 1], &p.t[j]) > 0; j--) {
      const fl_kterm t = p.t[j];
      p.t[j] = p.t[j - 1];
      p.t[j - 1] = t;
    }
  for (int i = 0; i < p.n; i++) {
    fl_kterm t = p.t[i];
    for (int j = 0; j < t.n; j++) {
      int at = 0;
      if (!is_free_counter(k, t.s[j])) continue;
      while (at < n && met[at] != t.s[j]) at++;
      if (at == n) met[n++] = t.s[j];
      t.s[j] = FL_KSYM_COUNTER + at;
    }
    fl_kpoly_add(&r, t);
  }
  return r;
}

fl_kshape fl_kindex_shape(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index) {
  route r = { .k = k, .goal = s };
  fl_kshape x = { 1, 0, 0, 0 };
  if (!fl_kroute_find(&r)) return x;
  fl_kpoly p = fl_kpoly_of(k, &r.at, index);
  const int exact = !p.bad;
  if (!exact) p = fl_kpoly_guess(k, &r.at, index);
  if (p.bad) return x;
  x.mod = 0;
  x.rest = fl_kpoly_take_constant(&p);
  for (int i = 0; i < p.n; i++) x.mod = fl_kdivisor(x.mod, p.t[i].c);
  x.core = fl_kpolys_number(k->seen, &p);
  p = renamed(k, p);
  if (exact) x.alike = fl_kpolys_number(k->seen, &p);
  return x;
}

/* ---- which thread ---------------------------------------------------------------------------- */

int fl_kindex_place(const fl_kindices *k, const fl_kstmt *s, fl_kplace *at) {
  route r = { .k = k, .goal = s };
  if (!fl_kroute_find(&r)) return 0;
  *at = r.at;
  return 1;
}

/* Finds the next digit of the index: the position in d of the unused digit whose stride is a
** multiple of 'unit', but of no other unused stride; *q: the stride divided by unit. -1: there is
** none. Strides are positive. */
static int next_digit(const digit *d, int n, const uint8_t *used, const fl_kterm *unit,
                      fl_kterm *q) {
  for (int i = 0; i < n; i++) {
    int ok, least = 1;
    if (used[i] || d[i].stride.c <= 0) continue;
    *q = fl_kterm_ratio(&d[i].stride, unit, &ok);
    for (int j = 0; j < n; j++) {
      int divides = 0;
      if (j != i && !used[j]) (void)fl_kterm_ratio(&d[i].stride, &d[j].stride, &divides);
      least &= !divides;
    }
    if (ok && least) return i;
  }
  return -1;
}

/* Do these digits determine the thread? Each axis of the launch must be among them, and none may
** appear twice. */
static int are_all(const route *r, const digit *d, int n, const coverage *c) {
  const fl_kindex class = judge(r, c);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      const int32_t s = base_of(&d[i]), t = base_of(&d[j]), axis = s - FL_KSYM_GLOBAL;
      if (axis >= 0 && (t == FL_KSPECIAL_TID_X + axis || t == FL_KSPECIAL_BID_X + axis)) return 0;
    }
  return class == FL_KI_INJECTIVE || class == FL_KI_OWN;
}

/* Are all digits but the last indices themselves, not quotients, and below modulus / scale? */
static int is_tight(const route *r, const fl_kdigits *x) {
  for (int i = 0; i + 1 < x->n; i++) {
    fl_kterm m = x->modulus[i];
    if (m.c % x->scale || x->by[i] > 1) return 0;
    m.c /= x->scale;
    if (!fl_kroute_stays_below(r, x->symbol[i], &m)) return 0;
  }
  return 1;
}

int fl_kindex_digits(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index,
                     fl_kdigits *out) {
  route r = { .k = k, .goal = s };
  coverage c;
  digit d[FL_KPOLY_TERMS];
  uint8_t used[FL_KPOLY_TERMS] = { 0 };
  fl_kterm unit = { 1, 0, { 0 } }, q;
  int n;
  memset(out, 0, sizeof *out);
  memset(&c, 0, sizeof c);
  if (!fl_kroute_is_place(&r) || r.at.n_loops) return 0;
  const fl_kpoly p = fl_kpoly_of(k, &r.at, index);
  if (p.bad || !split(&r, &p, 1, d, &n, &c, &out->shift) || n > FL_KDIGITS ||
      !are_all(&r, d, n, &c)) return 0;
  for (int count = 0; count < n; count++) {
    const int i = next_digit(d, n, used, &unit, &q);
    if (i < 0 || (count == 0 && q.n)) return 0;
    if (count) out->modulus[count - 1] = q;
    else out->scale = q.c;
    out->symbol[count] = base_of(&d[i]);
    out->by[count] = d[i].kind == FL_KDIGIT_LAST ? d[i].high.c : 1;
    used[i] = 1;
    unit = d[i].stride;
  }
  out->n = n;
  out->whole = p;
  out->unique = n == 1 || fl_kroute_is_chain(&r, d, n);
  out->tight = out->unique && is_tight(&r, out);
  return 1;
}

/* ---- numbers with bounds --------------------------------------------------------------------- */

/* Marks in 'need' the parameters that must be positive for the product t not to be negative.
** Returns 0 if t has factors other than parameters, sizes and indices of the thread, or its
** coefficient is not positive. */
static int need_positive(const fl_kindices *k, const fl_kterm *t, uint8_t *need) {
  for (int i = 0; i < t->n; i++) {
    if (t->s[i] < FL_KSYM_VAR) continue;
    if (t->s[i] >= FL_KSYM_QUOTIENT || k->f->vars[t->s[i] - FL_KSYM_VAR].param < 0) return 0;
    need[k->f->vars[t->s[i] - FL_KSYM_VAR].param] = 1;
  }
  return t->c > 0;
}

/* Is p an index of the thread (fl_ksym_is_number)? */
static int is_one_number(const fl_kpoly *p) { return fl_ksym_is_number(fl_kpoly_single(p)); }

/* Is d = a % m (which sets *m), where a is an index of the thread or a quotient of it? Parameters
** that must be positive for that are marked in 'need'. */
static int is_remainder(const fl_kindices *k, const fl_kpoly *d, fl_kterm *m, uint8_t *need) {
  fl_kpoly a;
  const fl_kquotient *q = fl_kpoly_remainder(k->quotients, d, &a, m);
  return q && m->c > 0 && is_one_number(&q->a) && need_positive(k, &q->m, need);
}

int fl_kindex_below(const fl_kindices *k, const fl_kstmt *s, const fl_kpoly *d, const fl_kterm *m,
                    uint8_t *need) {
  route r = { .k = k, .goal = s };
  fl_kterm by;
  int ok;
  if (d->bad || !fl_kroute_find(&r)) return 0;
  if (is_remainder(k, d, &by, need)) return !m || (by.c == m->c && fl_kterm_same(&by, m));
  const int32_t one = fl_kpoly_single(d);
  if (fl_ksym_is_number(one)) return !m || fl_kroute_stays_below(&r, one, m);
  const fl_kquotient *q = one < FL_KSYM_QUOTIENT ? NULL : fl_kquotient_of(k, one);
  if (!q || !is_one_number(&q->a) || !need_positive(k, &q->m, need)) return 0;
  if (!m) return 1;
  /* i / w < h holds if i < w * h or i / w < h is known */
  const fl_kterm whole = fl_kterm_product(&q->m, m, &ok);
  if (!ok || !need_positive(k, m, need)) return 0;
  if (fl_kroute_stays_below(&r, q->a.t[0].s[0], &whole)) return 1;
  for (int i = 0; i < r.n; i++)
    if (fl_kroute_says_below(&r, i, one, m)) return 1;
  return 0;
}
