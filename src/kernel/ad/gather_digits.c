/*
** Indices in a gather: the sizes of the launch, how the index j of an element is split into digits
** (chains), and the digits of t = j - shift. Integer divisions would be most of the work: the
** digits of j are found once (fl_kg_bases), those of t follow by additions and carries.
**
** Example: v[i] += u[i - 1] + u[i + w] in a picture of width w = 100, thread i = 100 y + x. The
** gradient of u[j] is the sum of the cotangents of v at the threads that read it:
**   chain of j = 1234     x = 34, y = 12: one remainder and one division for all reads
**   u[i - 1]              shift -1, t = j + 1: x = 34 + 1 = 35 is below 100, no carry: (35, 12)
**                         of j = 1299: x = 99 + 1 = 100 carries: (0, 13)
**   u[i + w]              shift w, t = j - 100: the digit y alone, 12 - 1: (34, 11)
** The digits of t then replace x and y in what the thread computed and in the conditions under
** which it read: "if (x > 0)" tests 35, without dividing t.
*/
#include "kernel/ad/gather.h"
#include <assert.h>
#include <limits.h>
#include <stdlib.h>

/* ---- values ----------------------------------------------------------------------------- */

static const char *const range_names[FL_KG_RANGES] = {
  "block_x", "block_y", "block_z", "grid_x", "grid_y", "grid_z", "threads_x", "threads_y",
  "threads_z" };

int fl_kg_range(int32_t symbol) {
  if (symbol >= FL_KSYM_GLOBAL) return 6 + symbol - FL_KSYM_GLOBAL;
  if (symbol >= FL_KSPECIAL_GDIM_X) return 3 + symbol - FL_KSPECIAL_GDIM_X;
  if (symbol >= FL_KSPECIAL_BDIM_X) return symbol - FL_KSPECIAL_BDIM_X;
  return symbol - FL_KSPECIAL_TID_X;                    /* blockIdx follows threadIdx: 3 to 5 */
}

fl_kexpr *fl_kg_extent(fl_kgathering *g, int32_t symbol) {
  const int which = fl_kg_range(symbol);
  if (g->range[which] < 0) {
    g->range[which] = fl_kad_param_new(&g->d, FL_KAD_LAUNCH, -1, range_names[which],
                                       FL_KT_I32, 0, 0);
    if (g->range[which] >= 0) g->d.res->params[g->d.f->n_params - 1].count = which;
  }
  return kx_var(&g->d, g->range[which]);
}

static fl_kexpr *poly_value(fl_kgathering *g, const fl_kpoly *p);
static fl_kexpr *term_value(fl_kgathering *g, const fl_kterm *t);

static fl_kexpr *symbol_value(fl_kgathering *g, int32_t s) {
  fl_kad_state *d = &g->d;
  if (s >= FL_KSYM_QUOTIENT) {
    const fl_kquotient *q = fl_kquotient_of(g->k, s);
    fl_kexpr *m = term_value(g, &q->m), *zero = kx_int(d, 0);
    fl_kexpr *x = kx_op(d, FL_KO_DIV, poly_value(g, &q->a), m);
    return fl_kexpr_select(d->a, kx_op(d, FL_KO_NE, m, zero), x, zero);
  }
  if (s >= FL_KSYM_VAR) return kg_wide(g, kx_var(d, s - FL_KSYM_VAR));
  return s == FL_KSPECIAL_WARP_SIZE ? kx_int(d, 32) : kg_wide(g, fl_kg_extent(g, s));
}

static fl_kexpr *term_value(fl_kgathering *g, const fl_kterm *t) {
  fl_kexpr *x = t->c == 1 && t->n ? NULL : kx_int(&g->d, t->c);
  for (int i = 0; i < t->n; i++) {
    fl_kexpr *s = symbol_value(g, t->s[i]);
    x = x ? kx_op(&g->d, FL_KO_MUL, x, s) : s;
  }
  return x;
}

/* x - by */
static fl_kexpr *less(fl_kgathering *g, fl_kexpr *x, int64_t by) {
  if (!x || !by) return x;
  return kx_op(&g->d, by < 0 ? FL_KO_ADD : FL_KO_SUB, x,
               fl_kexpr_int(g->d.a, x->type, by < 0 ? -by : by));
}

/* x - p */
static fl_kexpr *less_poly(fl_kgathering *g, fl_kexpr *x, const fl_kpoly *p) {
  for (int i = 0; i < p->n; i++) {
    fl_kterm t = p->t[i];
    const int add = t.c < 0;
    t.c = add ? -t.c : t.c;
    x = kx_op(&g->d, add ? FL_KO_ADD : FL_KO_SUB, x, term_value(g, &t));
  }
  return x;
}

static fl_kexpr *poly_value(fl_kgathering *g, const fl_kpoly *p) {
  fl_kpoly minus = *p;
  for (int i = 0; i < p->n; i++) minus.t[i].c = -minus.t[i].c;
  return less_poly(g, kx_int(&g->d, 0), &minus);
}

/* ---- chains: how indices are split into digits ------------------------------------------ */

int fl_kg_part_of(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x, int32_t symbol,
                  fl_kterm *below, fl_kterm *whole) {
  int ok;
  const fl_kpoly a = fl_kpoly_of(k, at, x->x[0]), m = fl_kpoly_of(k, at, x->x[1]);
  const int32_t of = fl_kpoly_single(&a);
  const fl_kquotient *q = of < FL_KSYM_QUOTIENT ? NULL : fl_kquotient_of(k, of);
  if (m.bad || m.n != 1 || m.t[0].c <= 0 || !fl_kterm_all(&m.t[0], fl_kpoly_is_uniform, k) ||
      (q ? !fl_kpoly_is(&q->a, symbol) : of != symbol))
    return 0;
  *below = q ? q->m : (fl_kterm){1, 0, {0}};
  *whole = fl_kterm_product(below, &m.t[0], &ok);
  return ok;
}

typedef struct finder {
  fl_kgathering *g; fl_kplace at; int32_t symbol; fl_kterm found[8]; int n;
} finder;

int fl_kg_is_division(const fl_kexpr *x) {
  return x->kind == FL_KX_BINARY && (x->op == FL_KO_DIV || x->op == FL_KO_REM) &&
         fl_kt_is_int(x->type);
}

static int find_division(void *arg, fl_kexpr *x) {
  finder *f = arg;
  fl_kterm below, whole;
  if (!fl_kg_is_division(x) || !fl_kg_part_of(f->g->k, &f->at, x, f->symbol, &below, &whole))
    return 1;
  for (int i = 0; i < f->n; i++)
    if (fl_kterm_equal(&f->found[i], &whole)) return 1;
  if (f->n < 8) f->found[f->n++] = whole;
  return 1;
}

static int find_divisions(void *arg, fl_kstmt *s) {
  finder *f = arg;
  const fl_kvisitor see = {NULL, find_division, f};
  if (!fl_kindex_place(f->g->k, s, &f->at)) return 1;
  fl_kwalk_operands(&see, s);
  return 1;
}

/* Makes a chain (moduli of a mixed radix) from the divisors by which the adjoint divides the
** thread's index: one that no other divides, and a multiple of it if there is one. 0: there is no
** division. */
static int chain_of_symbol(fl_kgathering *g, int32_t symbol, fl_kchain *c) {
  finder f = {.g = g, .symbol = symbol};
  const fl_kvisitor see = {find_divisions, NULL, &f};
  int ok;
  fl_kwalk_block(&see, g->src->body);
  if (!f.n) return 0;
  c->symbol = symbol;
  c->n = 1;
  c->whole[0] = f.found[0];
  for (int i = 1; i < f.n; i++) {
    (void)fl_kterm_ratio(&c->whole[0], &f.found[i], &ok);
    if (ok) c->whole[0] = f.found[i];
  }
  for (int i = 0; i < f.n && c->n == 1; i++) {
    (void)fl_kterm_ratio(&f.found[i], &c->whole[0], &ok);
    if (ok && !fl_kterm_equal(&f.found[i], &c->whole[0])) c->whole[c->n++] = f.found[i];
  }
  return 1;
}

static int chain_of_index(const fl_kdigits *x, fl_kchain *c) {
  int ok = 1;
  c->symbol = -1;
  c->n = x->n - 1;
  c->whole[0] = x->modulus[0];
  if (c->n == 2) c->whole[1] = fl_kterm_product(&x->modulus[0], &x->modulus[1], &ok);
  return ok;
}

/* Splits the shift, by which the site's index differs from the thread's index, into digits of the
** chain (s->by). The site is 'near' only if all of them are constants below FL_KG_CARRIES in
** magnitude. */
static void take_shift_apart(fl_ksite *s, const fl_kchain *c) {
  int ok;
  s->near = s->digits.scale == 1 || (c->symbol < 0 && s->digits.tight);
  for (int i = 0; i < s->digits.shift.n; i++) {
    const fl_kterm t = s->digits.shift.t[i];
    const int64_t sign = t.c < 0 ? -1 : 1;
    int at = c->n;
    for (; at > 0; at--) {
      const fl_kterm q = fl_kterm_ratio(&t, &c->whole[at - 1], &ok);
      if (!ok || q.n) continue;
      s->by[at] += sign * q.c;
      break;
    }
    if (!at && !t.n) s->by[0] += t.c;
    else if (!at) s->near = 0;
  }
  if (!c->whole[0].n) {                    /* a constant m: makes the lowest digit at most m / 2 */
    const int64_t m = c->whole[0].c, half = s->by[0] < 0 ? -(m / 2) : m / 2,
                  k = (s->by[0] + half) / m;
    s->by[0] -= k * m;
    s->by[1] += k;
  }
  for (int i = 0; i <= c->n; i++)
    if (s->by[i] >= FL_KG_CARRIES || s->by[i] <= -FL_KG_CARRIES) s->near = 0;
}

void fl_kg_chains(fl_kgathering *g) {
  for (int i = 0; i < g->n_sites; i++) {
    fl_ksite *s = &g->site[i];
    fl_kchain c = {.given = {-1, -1}, .sign = {-1, -1}};
    int at = 0;
    s->chain = -1;
    if (s->digits.n == 1 && s->digits.by[0] > 1) continue;
    if (!(s->digits.n == 1 ? chain_of_symbol(g, s->digits.symbol[0], &c)
                           : chain_of_index(&s->digits, &c)))
      continue;
    for (; at < g->n_chains; at++) {
      const fl_kchain *x = &g->chain[at];
      if (x->symbol == c.symbol && x->n == c.n && fl_kterm_equal(&x->whole[0], &c.whole[0])
          && (c.n == 1 || fl_kterm_equal(&x->whole[1], &c.whole[1]))) break;
    }
    if (at == FL_KG_CHAINS) continue;
    if (at == g->n_chains) g->chain[g->n_chains++] = c;
    s->chain = at;
    take_shift_apart(s, &c);
  }
}

/* The modulus t as an int; INT_MAX stands for any that is larger, -INT_MAX for any that is less
** than -INT_MAX. */
static fl_kexpr *modulus(fl_kgathering *g, fl_kblock *b, const fl_kterm *t) {
  fl_kad_state *d = &g->d;
  const int single = t->c == 1 && t->n == 1, s = single ? t->s[0] : 0;
  if (!t->n && t->c < INT32_MAX) return kg_int(g, t->c);
  if (single && s >= FL_KSYM_VAR && s < FL_KSYM_QUOTIENT &&
      d->f->vars[s - FL_KSYM_VAR].type == FL_KT_I32)
    return kx_var(d, s - FL_KSYM_VAR);
  if (single && s < FL_KSYM_VAR) return fl_kg_extent(g, s);
  fl_kexpr *x = fl_kad_atom(d, b, term_value(g, t)), *top = kx_int(d, INT32_MAX),
           *low = kx_int(d, -INT32_MAX);
  x = fl_kad_atom(d, b, fl_kexpr_select(d->a, kx_op(d, FL_KO_LT, x, top), x, top));
  return fl_kexpr_cast(d->a, FL_KT_I32, fl_kexpr_select(d->a, kx_op(d, FL_KO_GT, x, low), x, low));
}

static int is_size(const void *none, int32_t s) { return (void)none, s < FL_KSYM_VAR; }

/* Adds code that sets modulus k of the chain; 1 takes the place of 0. A negative one is made
** positive if an index of the thread is split, and becomes 1 if an index of an array is. Returns
** the condition that the given one is positive; NULL: it certainly is, or no memory. */
static fl_kexpr *set_modulus(fl_kgathering *g, fl_kblock *b, fl_kchain *c, int k) {
  fl_kad_state *d = &g->d;
  int ok;
  const fl_kterm t = k ? fl_kterm_ratio(&c->whole[1], &c->whole[0], &ok) : c->whole[0];
  fl_kexpr *x = modulus(g, b, &t), *zero = kg_int(g, 0), *one = kg_int(g, 1);
  if ((c->m[k] = kg_local(g, FL_KT_I32, "m")) < 0) return NULL;
  if (t.c > 0 && fl_kterm_all(&t, is_size, NULL)) {
    kx_set(d, b, c->m[k], x);
    return NULL;
  }
  if ((c->given[k] = kg_local(g, FL_KT_I32, "given")) < 0) return NULL;
  kx_set(d, b, c->given[k], x);
  x = kx_var(d, c->given[k]);
  fl_kexpr *positive = kx_op(d, FL_KO_GT, x, zero), *negative = kx_op(d, FL_KO_LT, x, zero);
  if (c->symbol >= 0) {
    fl_kexpr *minus = fl_kexpr_select(d->a, negative, fl_kexpr_unary(d->a, FL_KO_NEG, x), one);
    c->sign[k] = kg_local(g, FL_KT_I32, "sign");
    kx_set(d, b, c->sign[k], fl_kexpr_select(d->a, negative, kg_int(g, -1), one));
    one = minus;
  }
  kx_set(d, b, c->m[k], fl_kexpr_select(d->a, positive, x, one));
  return positive;
}

/* to = x % m, quotient = x / m, of ints that are not negative */
static void split(fl_kgathering *g, fl_kblock *b, int x, int m, int to, int quotient) {
  fl_kad_state *d = &g->d;
  fl_kexpr *q = kx_op(d, FL_KO_DIV, fl_kexpr_cast(d->a, FL_KT_U32, kx_var(d, x)),
                      fl_kexpr_cast(d->a, FL_KT_U32, kx_var(d, m)));
  q = fl_kad_atom(d, b, fl_kexpr_cast(d->a, FL_KT_I32, q));
  kx_set(d, b, to, kx_op(d, FL_KO_SUB, kx_var(d, x), kx_op(d, FL_KO_MUL, q, kx_var(d, m))));
  kx_set(d, b, quotient, q);
}

static void set_base(fl_kgathering *g, fl_kblock *b, fl_kchain *c) {
  static const char *const names[3] = {"low", "mid", "high"};
  fl_kad_state *d = &g->d;
  fl_kexpr *there = NULL;
  const int n = c->n;
  assert(n >= 1 && n <= 2);
  for (int k = 0; k < n; k++) there = kx_both(d, there, set_modulus(g, b, c, k));
  for (int k = 0; k <= n; k++) c->b[k] = kg_local(g, FL_KT_I32, names[k + (k == n && k == 1)]);
  if (d->a->failed) return;
  split(g, b, g->element, c->m[0], c->b[0], c->b[1]);
  if (c->n == 2) split(g, b, c->b[1], c->m[1], c->b[1], c->b[2]);
  if (there && c->symbol < 0)
    kx_set(d, b, c->b[c->n],
           fl_kexpr_select(d->a, there, kx_var(d, c->b[c->n]), kg_int(g, -(1 << 30))));
}

void fl_kg_bases(fl_kgathering *g, fl_kblock *b) {
  for (int i = 0; i < g->n_chains && !g->d.a->failed; i++) set_base(g, b, &g->chain[i]);
}

/* ---- the digits of t -------------------------------------------------------------------- */

/* Brings digit v, which is too large ('up') or negative, into 0 … m - 1, in at most 'steps' steps
** of m, and carries to the next digit, 'above'. A few steps are written out without a branch, so
** that the reads of several sites can overlap. */
static void carry(fl_kgathering *g, fl_kblock *b, int v, int m, int above, int up, int steps) {
  enum { WRITTEN_OUT = 2 };
  fl_kad_state *d = &g->d;
  const int beyond = up ? FL_KO_GE : FL_KO_LT, back = up ? FL_KO_SUB : FL_KO_ADD,
            on = up ? FL_KO_ADD : FL_KO_SUB;
  fl_kexpr *limit = up ? kx_var(d, m) : kg_int(g, 0);
  if (steps <= WRITTEN_OUT) {
    for (int k = 0; k < steps; k++) {
      fl_kexpr *is = fl_kad_atom(d, b, kg_op(g, beyond, v, limit));
      kx_set(d, b, v, fl_kexpr_select(d->a, is, kg_op(g, back, v, kx_var(d, m)), kx_var(d, v)));
      kx_set(d, b, above,
             fl_kexpr_select(d->a, is, kg_op(g, on, above, kg_int(g, 1)), kx_var(d, above)));
    }
    return;
  }
  fl_kstmt *s = fl_kstmt_loop(d->f, b, kg_op(g, beyond, v, limit));
  if (!s) return;
  s->op = 1;                                      /* until fl_kad_sum_lanes: marks a loop that is
                                                  ** not in the source (gather.c: weigh_stmt) */
  kx_set(d, &s->body, v, kg_op(g, back, v, kx_var(d, m)));
  kx_set(d, &s->body, above, kg_op(g, on, above, kg_int(g, 1)));
}

/* Digit i of j - shift, before carries: the digit of j minus that of the shift. Moduli are made
** positive, so the shift's digit is multiplied by the signs of the moduli of all lower digits. */
static fl_kexpr *near_digit(fl_kgathering *g, const fl_ksite *s, const fl_kchain *c, int i) {
  fl_kexpr *b = kx_var(&g->d, c->b[i]), *by = kg_int(g, s->by[i]);
  int signs = 0;
  for (int k = 0; k < i && s->by[i]; k++)
    if (c->sign[k] >= 0) by = kx_op(&g->d, FL_KO_MUL, by, kx_var(&g->d, c->sign[k])), signs = 1;
  return signs ? kx_op(&g->d, FL_KO_SUB, b, by) : less(g, b, s->by[i]);
}

static void near_digits(fl_kgathering *g, fl_kblock *b, const fl_ksite *s, const fl_kchain *c,
                        const int *v) {
  int down = 0, up = 0;
  int64_t steps = 0;                   /* bound on how many times m must be added or subtracted;
                                       ** each time carries 1 into the next digit */
  for (int i = 0; i <= c->n; i++) kx_set(&g->d, b, v[i], near_digit(g, s, c, i));
  for (int i = 0; i < c->n; i++) {        /* a carry from the lower digit may cause another carry */
    const int any = i && s->by[i] && c->sign[0] >= 0;
    down |= s->by[i] > 0 || any;
    up |= s->by[i] < 0 || any;
    steps += llabs(s->by[i]);
    const int most = steps < INT_MAX ? (int)steps : INT_MAX;
    if (down) carry(g, b, v[i], c->m[i], v[i + 1], 0, most);
    if (up) carry(g, b, v[i], c->m[i], v[i + 1], 1, most);
  }
}

/* Finds the digits by division; t is not negative. */
static void far_digits(fl_kgathering *g, fl_kblock *b, const fl_kchain *c, fl_kexpr *t,
                       const int *v) {
  fl_kad_state *d = &g->d;
  fl_kexpr *x = kg_wide(g, t);
  for (int i = 0; i < c->n; i++) {
    fl_kexpr *m = kg_wide(g, kx_var(d, c->m[i]));
    kx_set(d, b, v[i], fl_kexpr_cast(d->a, FL_KT_I32, kx_op(d, FL_KO_REM, x, m)));
    x = fl_kad_atom(d, b, kx_op(d, FL_KO_DIV, x, m));
  }
  x = fl_kexpr_cast(d->a, FL_KT_I32, x);
  if (c->symbol < 0) {
    fl_kexpr *there = kx_op(d, FL_KO_GE, kx_var(d, c->b[c->n]), kg_int(g, 0));
    x = fl_kexpr_select(d->a, there, x, kg_int(g, -1));
  }
  kx_set(d, b, v[c->n], x);
}

void fl_kg_digits(fl_kgathering *g, fl_kblock *b, const fl_ksite *s, fl_kexpr *t, int *v) {
  const fl_kchain *c = &g->chain[s->chain];
  static const char *const names[3] = {"d0", "d1", "d2"};
  const int n = c->n;
  assert(n <= 2);
  for (int i = 0; i <= n; i++) v[i] = kg_local(g, FL_KT_I32, names[i]);
  if (g->d.a->failed) return;
  if (s->near) near_digits(g, b, s, c, v);
  else far_digits(g, b, c, t, v);
}

int fl_kg_is_short(const fl_kgathering *g, const fl_kpoly *p) {
  int ints = 0;
  for (int i = 0; i < p->n; i++) {
    const fl_kterm *t = &p->t[i];
    const int v = t->n ? t->s[0] - FL_KSYM_VAR : -1;
    if (!t->n && (t->c >= FL_KG_NEAR || t->c <= -FL_KG_NEAR)) return 0;
    if (t->n &&
        (t->n > 1 || (t->c != 1 && t->c != -1) || v < 0 || t->s[0] >= FL_KSYM_QUOTIENT || ints++
                 || g->src->vars[v].type != FL_KT_I32)) return 0;
  }
  return 1;
}

fl_kexpr *fl_kg_number(fl_kgathering *g, const fl_kpoly *shift, int type) {
  fl_kad_state *d = &g->d;
  fl_kexpr *x = fl_kexpr_cast(d->a, type, kx_var(d, g->element));
  if (type == FL_KT_I64) return less_poly(g, x, shift);
  for (int i = 0; i < shift->n; i++) {
    const fl_kterm *t = &shift->t[i];
    if (!t->n) x = less(g, x, t->c);
    else x = kx_op(d, t->c < 0 ? FL_KO_ADD : FL_KO_SUB, x,
                   fl_kexpr_cast(d->a, type, kx_var(d, t->s[0] - FL_KSYM_VAR)));
  }
  return x;
}
