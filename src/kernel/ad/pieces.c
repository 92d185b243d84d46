/*
** Splits indices at a border into cases, the "pieces" (pieces.h). In these rules D is a term that
** is not negative (the index of a thread, its quotients and remainders) and, except in the first
** rule, less than w by the conditions around it or because it is a remainder:
**   max(D - r, 0)      is D - r, else D - r + 1, … else D, the first of them that is >= 0
**   min(D + r, w - 1)  is D + r, else D + r - 1, … else D, the first that is < w
**   (D + r) % w        is D + r, else D + r - w, … the first that is < w (likewise upwards for
**                      r < 0, also where k * w is added)
** with r of at most MOST_STEPS.
*/
#include "kernel/ad/pieces.h"
#include "kernel/tree/builtins.h"
#include "kernel/facts/poly.h"
#include <string.h>

enum { MOST_STEPS = 2, MOST_PIECES = 9, DEPTH = 30 };

typedef struct splitter {
  fl_kfunc *f;
  fl_kindices *k;
  const fl_kstmt *s;             /* the statement at work */
  fl_kplace place;
  uint8_t *positive;
  int done, pieces, changed;     /* was any index changed? number of pieces of the current index;
                                 ** was the current index changed? */
} splitter;

static fl_kpoly poly_of(const splitter *y, const fl_kexpr *x) {
  return fl_kpoly_of(y->k, &y->place, x);
}

/* Is 0 <= d (m NULL), or 0 <= d < m? Marks in y->positive the parameters that must be positive for
** that. */
static int is_below(splitter *y, const fl_kpoly *d, const fl_kterm *m) {
  uint8_t need[64] = {0};
  const int n = y->f->n_params;
  if (n > 64 || !fl_kindex_below(y->k, y->s, d, m, need)) return 0;
  for (int i = 0; i < n; i++) y->positive[i] |= need[i];
  return 1;
}

/* ---- a piecewise expression: a tree of SELECTs over its pieces ------------------------------- */

static fl_kexpr *binary(splitter *y, int op, fl_kexpr *x, fl_kexpr *z) {
  return fl_kexpr_binary(y->f->arena, op, x, z);
}

static fl_kexpr *plus(splitter *y, fl_kexpr *x, int64_t c) {
  if (!x || !c) return x;
  return binary(y, c < 0 ? FL_KO_SUB : FL_KO_ADD, x,
                fl_kexpr_int(y->f->arena, x->type, c < 0 ? -c : c));
}

/* The choice c ? a : b, counted as one more piece; NULL if c, a or b is NULL. */
static fl_kexpr *choose(splitter *y, fl_kexpr *c, fl_kexpr *a, fl_kexpr *b) {
  y->pieces++;
  return c && a && b ? fl_kexpr_select(y->f->arena, c, a, b) : NULL;
}

/* max(x, 0) as a choice of pieces; NULL: x is not D + r with r >= -MOST_STEPS. */
static fl_kexpr *above_zero(splitter *y, fl_kexpr *x) {
  fl_kpoly d = poly_of(y, x);
  const int64_t r = d.bad ? -MOST_STEPS - 1 : fl_kpoly_take_constant(&d);
  if (r < -MOST_STEPS || !is_below(y, &d, NULL)) return NULL;
  fl_kexpr *e = r < 0 ? plus(y, x, -r) : x, *zero = fl_kexpr_int(y->f->arena, x->type, 0);
  for (int64_t i = -r - 1; i >= 0; i--) {
    fl_kexpr *one = plus(y, x, i);
    e = choose(y, binary(y, FL_KO_GE, one, zero), one, e);
  }
  return e;
}

/* Is x of the form m - 1, where m is a single term? If so, *m is that term. */
static int modulus_of(splitter *y, const fl_kexpr *x, fl_kpoly *m) {
  *m = poly_of(y, x);
  if (m->bad || fl_kpoly_take_constant(m) != -1) return 0;
  return m->n == 1 && m->t[0].c > 0;
}

/* min(x, top) as a choice of pieces; NULL: x is not D + r with r <= MOST_STEPS, or top is not
** w - 1. */
static fl_kexpr *below_top(splitter *y, fl_kexpr *x, fl_kexpr *top) {
  fl_kpoly d = poly_of(y, x), m;
  const int64_t r = d.bad ? MOST_STEPS + 1 : fl_kpoly_take_constant(&d);
  if (r > MOST_STEPS || !modulus_of(y, top, &m) || !is_below(y, &d, &m.t[0])) return NULL;
  fl_kexpr *e = r > 0 ? plus(y, x, -r) : x;
  for (int64_t i = r - 1; i >= 0; i--) {
    fl_kexpr *one = plus(y, x, -i);
    e = choose(y, binary(y, FL_KO_LE, one, top), one, e);
  }
  return e;
}

/* x % by as a choice of pieces, if x is D + r + k * by with a small constant r and a small k >= 0,
** which is > 0 if r < 0; NULL: x is not of this kind. */
static fl_kexpr *wrapped(splitter *y, fl_kexpr *x, fl_kexpr *by) {
  fl_kpoly d = poly_of(y, x), m = poly_of(y, by);
  int64_t r, k = 0;
  if (d.bad || m.bad || m.n != 1 || m.t[0].c <= 0 || !m.t[0].n) return NULL;
  r = fl_kpoly_take_constant(&d);
  for (int i = 0; i < d.n; i++) {
    if (!fl_kterm_same(&d.t[i], &m.t[0]) || d.t[i].c % m.t[0].c || d.t[i].c < 0) continue;
    k = d.t[i].c / m.t[0].c;
    d.t[i] = d.t[--d.n];
    break;
  }
  if (r > MOST_STEPS || r < -MOST_STEPS || (r < 0 && k < 1) || k > 4 || !is_below(y, &d, &m.t[0]))
    return NULL;
  for (; k > 0; k--) x = binary(y, FL_KO_SUB, x, by);
  fl_kexpr *e = x, *zero = fl_kexpr_int(y->f->arena, x ? x->type : FL_KT_I32, 0),
           *piece[MOST_STEPS + 1] = {NULL};
  const int n = (int)(r < 0 ? -r : r);
  for (int i = 0; i <= n; i++, e = binary(y, r < 0 ? FL_KO_ADD : FL_KO_SUB, e, by))
    piece[i] = e;
  e = piece[n];
  for (int i = n - 1; i >= 0; i--)
    e = choose(y, r < 0 ? binary(y, FL_KO_GE, piece[i], zero) : binary(y, FL_KO_LT, piece[i], by),
               piece[i], e);
  return e;
}

/* The only value of the variable, if it is set before the statement y->s; else NULL. */
static const fl_kexpr *value_before(const splitter *y, int32_t var) {
  return y->k->defs->var[var].order <= y->place.order ? fl_kdef_only(y->k->defs, var) : NULL;
}

static int may_change(const void *of, const fl_kexpr *x) {
  const splitter *y = of;
  return x->kind == FL_KX_LOAD || (x->kind == FL_KX_VAR && !fl_kdef_is_given(y->k->defs, x->var) &&
                                   !value_before(y, x->var));
}

/* Does x keep its value up to the statement y->s? It does if it reads no memory, and only variables
** that are set once, before that statement. */
static int is_steady(const splitter *y, const fl_kexpr *x) {
  return !fl_kexpr_any(x, may_change, y);
}

static int is_zero(const fl_kexpr *x) { return x->kind == FL_KX_CONST && x->value.i == 0; }

static fl_kexpr *leaf(splitter *y, fl_kexpr *x, fl_kexpr *const *k) {
  fl_karena *a = y->f->arena;
  fl_kexpr *r = NULL;
  if (x->kind == FL_KX_CAST) return fl_kexpr_cast(a, x->type, k[0]);
  if (x->kind == FL_KX_UNARY) return fl_kexpr_unary(a, x->op, k[0]);
  const int is_signed = fl_ktypes[x->type].is_signed;
  if (x->kind == FL_KX_CALL && x->op == FL_KB_IMAX && is_signed) {
    r = is_zero(k[1]) ? above_zero(y, k[0]) : is_zero(k[0]) ? above_zero(y, k[1]) : NULL;
  } else if (x->kind == FL_KX_CALL && x->op == FL_KB_IMIN && is_signed) {
    r = below_top(y, k[0], k[1]);
    if (!r) r = below_top(y, k[1], k[0]);
  } else if (x->kind == FL_KX_BINARY && x->op == FL_KO_REM && is_signed) {
    r = wrapped(y, k[0], k[1]);
  }
  y->changed |= r != NULL;
  if (r) return r;
  return x->kind == FL_KX_CALL ? fl_kexpr_call(a, x->op, x->type, x->n, k)
                               : fl_kexpr_binary(a, x->op, k[0], k[1]);
}

/* p is D + c with D >= 0, or D - m + c with 0 <= D < m (c a constant). If p can have only one value
** where "p op 0" holds (as D has where D <= 0), and that is not above 0, returns it; else 1.
** *symbol: the term D. */
static int64_t value_of(splitter *y, fl_kpoly p, int op, fl_kterm *symbol) {
  fl_kpoly d = p;
  fl_kterm m;
  int down = -1;
  const int64_t c = fl_kpoly_take_constant(&d);
  for (int i = 0; i < d.n && d.n > 1; i++)            /* the term of D - m that has no index of the
                                                      ** thread in it */
    if (d.t[i].c < 0 && fl_kterm_all(&d.t[i], fl_kpoly_is_uniform, y->k)) down = i;
  if (down >= 0) {
    m = d.t[down];
    m.c = -m.c;
    d.t[down] = d.t[--d.n];
  }
  if (!d.n || d.t[0].n < 1 || !is_below(y, &d, down < 0 ? NULL : &m)) return 1;
  *symbol = d.t[0];
  if (op == FL_KO_EQ) return 0;
  /* D <= -c or D < -c: D can only be 0 if this says D <= 0; then p is c */
  if (down < 0 && (op == FL_KO_LE || op == FL_KO_LT))
    return -c - (op == FL_KO_LT) == 0 ? c : 1;
  /* D >= m - c or D > m - c: D can only be m - 1 if this says D >= m - 1; then p is c - 1 */
  if (down >= 0 && (op == FL_KO_GE || op == FL_KO_GT))
    return c - (op == FL_KO_GT) == 1 ? c - 1 : 1;
  return 1;
}

/* The value e of the choice for 'truth' of its condition c. If c allows only one value there of an
** index D of the thread (D > 0 ? … : 0), adds D minus that value, which is 0, to e, so that e is
** the index of the thread plus a number. */
static fl_kexpr *pinned(splitter *y, fl_kexpr *c, int truth, fl_kexpr *e) {
  if (!e || e->kind == FL_KX_SELECT || c->kind != FL_KX_BINARY || c->op < FL_KO_LT ||
      c->op > FL_KO_NE
      || !fl_kt_is_int(c->x[0]->type) || !fl_ktypes[c->x[0]->type].is_signed || !is_steady(y, c))
    return e;
  const fl_kpoly l = poly_of(y, c->x[0]), r = poly_of(y, c->x[1]), value = poly_of(y, e);
  const int op = truth ? c->op : fl_kop_negated(c->op);
  if (l.bad || r.bad || value.bad) return e;
  for (int side = 0; side < 2; side++) {
    fl_kterm symbol;
    fl_kpoly p = side ? r : l;
    fl_kpoly_subtract(&p, side ? &l : &r);
    const int64_t v = p.bad ? 1 : value_of(y, p, side ? fl_kop_mirrored(op) : op, &symbol);
    if (v > 0) continue;
    for (int i = 0; i < value.n; i++)
      if (fl_kterm_same(&value.t[i], &symbol)) return e;
    fl_kexpr *zero = binary(y, FL_KO_SUB, c->x[side], c->x[!side]);
    return binary(y, FL_KO_ADD, e, fl_kexpr_cast(y->f->arena, e->type, plus(y, zero, -v)));
  }
  return e;
}

/* The operation x on operands k; choices among the operands are moved outside of it. NULL: there
** are too many pieces, or no memory. */
static fl_kexpr *over(splitter *y, fl_kexpr *x, fl_kexpr **k) {
  for (int i = 0; i < x->n; i++) {
    fl_kexpr *s = k[i];
    if (!s) return NULL;
    if (s->kind != FL_KX_SELECT) continue;
    fl_kexpr *l[FL_K_MAX_ARGS], *r[FL_K_MAX_ARGS];
    memcpy(l, k, sizeof l);
    memcpy(r, k, sizeof r);
    l[i] = s->x[1];
    r[i] = s->x[2];
    return y->pieces > MOST_PIECES ? NULL : choose(y, s->x[0], over(y, x, l), over(y, x, r));
  }
  return leaf(y, x, k);
}

/* Is there a choice (?:, %, or a call such as min) in x, or in the values of its variables? */
static int has_choice(const splitter *y, const fl_kexpr *x, int depth) {
  if (depth > DEPTH) return 0;
  if (x->kind == FL_KX_VAR) {
    const fl_kexpr *value = value_before(y, x->var);
    return value && has_choice(y, value, depth + 1);
  }
  if (x->kind == FL_KX_SELECT || x->kind == FL_KX_CALL ||
      (x->kind == FL_KX_BINARY && x->op == FL_KO_REM))
    return 1;
  for (int i = 0; i < x->n; i++)
    if (has_choice(y, x->x[i], depth + 1)) return 1;
  return 0;
}

static int is_no_quotient(const void *none, int32_t s) { return (void)none, s < FL_KSYM_QUOTIENT; }

static fl_kexpr *spread(splitter *y, fl_kexpr *x, int depth) {
  fl_kexpr *k[FL_K_MAX_ARGS] = {0};
  if (depth > DEPTH || y->pieces > MOST_PIECES) return NULL;
  if (!has_choice(y, x, 0)) return x;
  const fl_kpoly p = poly_of(y, x);                /* a sum in which quotients and remainders cancel
                                                   ** need not be split */
  if (!p.bad && fl_kpoly_all(&p, is_no_quotient, NULL)) return x;
  if (x->kind == FL_KX_VAR) {
    fl_kexpr *def = (fl_kexpr *)(uintptr_t)fl_kdef_only(y->k->defs, x->var);
    return is_steady(y, def) ? spread(y, def, depth + 1) : x;
  }
  if (x->kind == FL_KX_LOAD) return x;
  if (x->kind == FL_KX_SELECT) {
    y->changed = 1;
    fl_kexpr *a = pinned(y, x->x[0], 1, spread(y, x->x[1], depth + 1));
    return choose(y, x->x[0], a, pinned(y, x->x[0], 0, spread(y, x->x[2], depth + 1)));
  }
  for (int i = 0; i < x->n; i++) k[i] = spread(y, x->x[i], depth + 1);
  return over(y, x, k);
}

/* ---- loads ----------------------------------------------------------------------------------- */

static fl_kexpr *loads(splitter *y, const fl_kexpr *x, fl_kexpr *index) {
  if (!index) return NULL;
  if (index->kind == FL_KX_SELECT)
    return fl_kexpr_select(y->f->arena, index->x[0], loads(y, x, index->x[1]),
                           loads(y, x, index->x[2]));
  fl_kexpr *r = fl_kexpr_load(y->f, x->var, index);
  if (r) r->line = x->line;
  return r;
}

static fl_kexpr *rewrite(void *of, fl_kexpr *x) {
  splitter *y = of;
  if (!x) return NULL;
  const fl_kvar *v = x->kind == FL_KX_LOAD ? &y->f->vars[x->var] : NULL;
  if (v && v->kind == FL_KV_POINTER && v->is_const && fl_kt_is_float(v->type)) {
    y->pieces = y->changed = 0;
    fl_kexpr *index = is_steady(y, x->x[0]) ? spread(y, x->x[0], 0) : NULL;
    if (!index || y->pieces > MOST_PIECES || !y->changed) return x;
    y->done = 1;
    return loads(y, x, index);
  }
  fl_kexpr *r = fl_kexpr_mapped(y->f->arena, x, rewrite, y);
  return r ? r : x;
}

static int see(void *arg, fl_kstmt *s) {
  splitter *y = arg;
  y->s = s;
  if (s->kind == FL_KS_LOOP || !fl_kindex_place(y->k, s, &y->place) || y->place.n_loops) return 1;
  for (int i = 0; i < 4; i++) {
    fl_kexpr *x = rewrite(y, s->x[i]);
    if (x && !y->f->arena->failed) s->x[i] = x;
  }
  return 1;
}

int fl_kpieces(fl_kfunc *f, int geometry, uint8_t *positive) {
  splitter y = {.f = f, .positive = positive};
  const fl_kvisitor v = {see, NULL, &y};
  y.k = fl_kindices_new(f->arena->mem, f, geometry);
  if (y.k) fl_kwalk_block(&v, f->body);
  if (!fl_kindices_free(y.k) && !f->arena->failed) f->arena->failed = FL_KARENA_MEMORY;
  return y.done && !f->arena->failed;
}
