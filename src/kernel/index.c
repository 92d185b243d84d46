/*
** Index classes. Two analyses:
** - How equal is a value in the threads of a launch: a fixed point over the variables, falling
**   from "same in the grid" through "same in the block" to "unknown"; what is assigned under
**   a condition is at most as equal as the condition.
** - Is an index a mixed-radix number of the thread (and loop counters)? Written as a sum of
**   stride * digit, the smallest stride a nonzero constant, each next stride the one before
**   times a bound that its digit is known to stay under. Bounds come from the conditions
**   around the access and from the launch (threadIdx.x < blockDim.x).
** Sums are taken as exact: an index that overflows its type is no index.
*/
#include "kernel/access.h"
#include "kernel/builtins.h"
#include <stdlib.h>
#include <string.h>

enum { GRID, BLOCK_WIDE, NONE };            /* falling */
enum { MAX_TERMS = 12, MAX_FACTORS = 8, MAX_FACTS = 48, MAX_LOOPS = 32 };

typedef struct varinfo {
  uint8_t level, defs, param;
  int32_t order, step_loop; /* place of the definition; loop that steps it */
  const fl_kexpr *def;      /* of the only one, or the first of a counter */
  const fl_kexpr *step;     /* the second, if it stands in a loop's step */
} varinfo;

struct fl_kindices {
  fl_mem *m;
  const fl_kfunc *f;
  int geometry;
  varinfo *var;
  int32_t *loop_order;                      /* place of each loop */
  int32_t order;
  int changed;
};

/* ---- equality of threads ------------------------------------------------------------------------ */

static int worse(int a, int b) { return a > b ? a : b; }

static int level_of(const fl_kindices *k, const fl_kexpr *x) {
  int l = GRID;
  if (x->kind == FL_KX_SPECIAL)
    return x->op <= FL_KP_TID_Z ? NONE : x->op <= FL_KP_BID_Z ? BLOCK_WIDE : GRID;
  if (x->kind == FL_KX_VAR) return k->var[x->var].level;
  if (x->kind == FL_KX_LOAD) {
    const fl_kvar *v = &k->f->vars[x->var];
    const int constant =
        v->kind == FL_KV_TABLE || (v->kind == FL_KV_POINTER && v->is_const);
    if (!constant && !(v->kind == FL_KV_ARRAY && v->param >= 0)) return NONE;
    if (v->kind == FL_KV_ARRAY && k->var[x->var].level) return NONE;
  }
  for (int i = 0; i < x->n; i++) l = worse(l, level_of(k, x->x[i]));
  return l;
}

static void lower(fl_kindices *k, int32_t var, int level) {
  if (var < 0 || k->var[var].level >= level) return;
  k->var[var].level = (uint8_t)level;
  k->changed = 1;
}

static int jumps(fl_kblock b) {
  for (const fl_kstmt *s = b.first; s; s = s->next)
    if (s->kind == FL_KS_BREAK || s->kind == FL_KS_CONTINUE || s->kind == FL_KS_LEAVE ||
        jumps(s->body) || jumps(s->other))
      return 1;
  return 0;
}

/* The worst condition in the block that decides about a jump. */
static int jump_level(const fl_kindices *k, fl_kblock b) {
  int l = GRID;
  for (const fl_kstmt *s = b.first; s; s = s->next) {
    if (s->x[0] && (s->kind == FL_KS_IF || s->kind == FL_KS_LOOP) &&
        (jumps(s->body) || jumps(s->other)))
      l = worse(l, level_of(k, s->x[0]));
    l = worse(l, worse(jump_level(k, s->body), jump_level(k, s->other)));
  }
  return l;
}

static void spread(fl_kindices *k, fl_kblock b, int around) {
  for (const fl_kstmt *s = b.first; s; s = s->next) {
    int inner = around;
    if (s->kind == FL_KS_ASSIGN) lower(k, s->var, worse(around, level_of(k, s->x[0])));
    if (s->result >= 0) lower(k, s->result, NONE);
    if (s->kind == FL_KS_STORE && k->f->vars[s->var].kind == FL_KV_ARRAY)
      lower(k, s->var, NONE);
    if ((s->kind == FL_KS_IF || s->kind == FL_KS_LOOP) && s->x[0])
      inner = worse(inner, level_of(k, s->x[0]));
    if (s->kind == FL_KS_LOOP || s->kind == FL_KS_BLOCK)
      inner = worse(inner, jump_level(k, s->body));
    spread(k, s->body, inner);
    spread(k, s->other, inner);
  }
}

/* ---- definitions ----------------------------------------------------------------------------------- */

static void define(fl_kindices *k, fl_kblock b, int32_t loop) {
  for (const fl_kstmt *s = b.first; s; s = s->next) {
    varinfo *v = s->kind == FL_KS_ASSIGN ? &k->var[s->var] : NULL;
    k->order++;
    if (v) {
      if (v->defs < 100) v->defs++;
      if (v->defs == 1) v->def = s->x[0], v->order = k->order;
      if (v->defs == 2 && loop >= 0) v->step = s->x[0], v->step_loop = loop;
    }
    if (s->result >= 0) k->var[s->result].defs = 100;
    if (s->kind == FL_KS_LOOP && s->label >= 0 && s->label < k->f->n_loops)
      k->loop_order[s->label] = k->order;
    define(k, s->body, -1);
    define(k, s->other, s->kind == FL_KS_LOOP && !s->post ? s->label : -1);
  }
}

fl_kindices *fl_kindices_new(fl_mem *m, const fl_kfunc *f, int geometry) {
  fl_kindices *k = fl_zalloc(m, sizeof *k);
  if (!k) return NULL;
  k->m = m;
  k->f = f;
  k->geometry = geometry;
  k->var = fl_zalloc(m, ((size_t)f->n_vars + 1) * sizeof *k->var);
  k->loop_order = fl_zalloc(m, ((size_t)f->n_loops + 1) * sizeof *k->loop_order);
  if (!k->var || !k->loop_order) { fl_kindices_free(k); return NULL; }
  for (int i = 0; i < f->n_vars; i++) k->var[i].param = f->vars[i].param >= 0;
  define(k, f->body, -1);
  do {
    k->changed = 0;
    spread(k, f->body, GRID);
  } while (k->changed);
  return k;
}

void fl_kindices_free(fl_kindices *k) {
  if (!k) return;
  fl_free(k->m, k->var, ((size_t)k->f->n_vars + 1) * sizeof *k->var);
  fl_free(k->m, k->loop_order, ((size_t)k->f->n_loops + 1) * sizeof *k->loop_order);
  fl_free(k->m, k, sizeof *k);
}

int fl_kuniform_in_block(const fl_kindices *k, const fl_kexpr *x) {
  return level_of(k, x) <= BLOCK_WIDE;
}

/* ---- polynomials ------------------------------------------------------------------------------------- */

/* Symbols: specials are 0..; GLOBAL_X.. the global thread indices; variables behind them. */
enum { GLOBAL_X = 100, SYMBOL_VAR = 200 };
typedef struct term {
  int64_t c;
  int n;
  int32_t s[MAX_FACTORS];
} term; /* c * product, sorted */
typedef struct poly { int n, bad; term t[MAX_TERMS]; } poly;

static int compare(const void *a, const void *b) {
  const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

static int same_product(const term *a, const term *b) {
  return a->n == b->n && !memcmp(a->s, b->s, (size_t)a->n * sizeof a->s[0]);
}

static void add_term(poly *p, term t) {
  qsort(t.s, (size_t)t.n, sizeof t.s[0], compare);
  for (int i = 0; i < p->n; i++) {
    if (!same_product(&p->t[i], &t)) continue;
    if (__builtin_add_overflow(p->t[i].c, t.c, &p->t[i].c)) p->bad = 1;
    if (!p->t[i].c) p->t[i] = p->t[--p->n];
    return;
  }
  if (!t.c) return;
  if (p->n == MAX_TERMS) p->bad = 1;
  else p->t[p->n++] = t;
}

static void multiply(const poly *a, const poly *b, poly *r) {
  *r = (poly){ .bad = a->bad | b->bad };
  for (int i = 0; i < a->n; i++)
    for (int j = 0; j < b->n && !r->bad; j++) {
      term t = a->t[i];
      if (t.n + b->t[j].n > MAX_FACTORS || __builtin_mul_overflow(t.c, b->t[j].c, &t.c)) {
        r->bad = 1;
        return;
      }
      memcpy(t.s + t.n, b->t[j].s, (size_t)b->t[j].n * sizeof t.s[0]);
      t.n += b->t[j].n;
      add_term(r, t);
    }
}

typedef struct place { int32_t order; int32_t loops[MAX_LOOPS]; int n_loops; } place;

/* Is the place in the body of the loop? What was computed before the loop is not. */
static int in_loop(const fl_kindices *k, const place *at, int32_t loop) {
  for (int i = 0; i < at->n_loops; i++)
    if (at->loops[i] == loop) return at->order > k->loop_order[loop];
  return 0;
}

static int is_counter(const fl_kindices *k, int32_t var) {
  const varinfo *v = &k->var[var];
  return v->defs == 2 && v->step && !v->param && v->order < k->loop_order[v->step_loop];
}

static poly expand(const fl_kindices *k, const place *at, const fl_kexpr *x, int depth);

static poly symbol(int32_t s) {
  return (poly){ .n = 1, .t = { { 1, 1, { s } } } };
}

static poly expand_var(const fl_kindices *k, const place *at, int32_t var, int depth) {
  const varinfo *v = &k->var[var];
  if (v->defs == 1 && !v->param && v->order <= at->order) {
    place there = *at;
    there.order = v->order;
    return expand(k, &there, v->def, depth + 1);
  }
  if (v->defs == 0 && v->param) return symbol(SYMBOL_VAR + var);
  if (is_counter(k, var) && in_loop(k, at, v->step_loop)) return symbol(SYMBOL_VAR + var);
  return (poly){ .bad = 1 };
}

static poly expand_binary(const fl_kindices *k, const place *at, const fl_kexpr *x,
                          int depth) {
  poly a = expand(k, at, x->x[0], depth + 1), b, r;
  if (a.bad) return a;
  if (x->op == FL_KO_SHL && x->x[1]->kind == FL_KX_CONST && x->x[1]->value.i >= 0 &&
      x->x[1]->value.i < 31)
    b = (poly){ .n = 1, .t = { { (int64_t)1 << x->x[1]->value.i, 0, { 0 } } } };
  else b = expand(k, at, x->x[1], depth + 1);
  if (b.bad) return b;
  if (x->op == FL_KO_MUL || x->op == FL_KO_SHL) { multiply(&a, &b, &r); return r; }
  if (x->op != FL_KO_ADD && x->op != FL_KO_SUB) return (poly){ .bad = 1 };
  for (int i = 0; i < b.n; i++) {
    if (x->op == FL_KO_SUB) b.t[i].c = -b.t[i].c;
    add_term(&a, b.t[i]);
  }
  return a;
}

static poly expand(const fl_kindices *k, const place *at, const fl_kexpr *x, int depth) {
  if (depth > 40) return (poly){ .bad = 1 };
  switch (x->kind) {
    case FL_KX_CONST:
      if (!fl_kt_is_int(x->type) || x->value.i == INT64_MIN) return (poly){ .bad = 1 };
      return (poly){ .n = x->value.i != 0, .t = { { x->value.i, 0, { 0 } } } };
    case FL_KX_SPECIAL: return symbol(x->op);
    case FL_KX_VAR: return expand_var(k, at, x->var, depth);
    case FL_KX_CAST:
      if (!fl_kt_is_int(x->type) || fl_kt_size(x->type) < 4 ||
          !fl_kt_is_int(x->x[0]->type))
        return (poly){ .bad = 1 };
      return expand(k, at, x->x[0], depth + 1);
    case FL_KX_BINARY: return expand_binary(k, at, x, depth);
    case FL_KX_UNARY: {
      poly a = expand(k, at, x->x[0], depth + 1);
      if (x->op != FL_KO_NEG) a.bad = 1;
      for (int i = 0; i < a.n; i++) a.t[i].c = -a.t[i].c;
      return a;
    }
    default: return (poly){ .bad = 1 };
  }
}

static void drop(term *t, int32_t s) {
  for (int i = 0; i < t->n; i++) {
    if (t->s[i] != s) continue;
    memmove(t->s + i, t->s + i + 1, (size_t)(t->n - i - 1) * sizeof t->s[0]);
    t->n--;
    return;
  }
}

static int holds(const term *t, int32_t s) {
  for (int i = 0; i < t->n; i++)
    if (t->s[i] == s) return 1;
  return 0;
}

/* blockIdx.a * blockDim.a * P + threadIdx.a * P becomes the global index of a, times P. */
static void join_global(poly *p) {
  for (int axis = 0; axis < 3; axis++)
    for (int i = 0; i < p->n; i++) {
      term big = p->t[i];
      if (!holds(&big, FL_KP_BID_X + axis) || !holds(&big, FL_KP_BDIM_X + axis)) continue;
      drop(&big, FL_KP_BID_X + axis);
      drop(&big, FL_KP_BDIM_X + axis);
      for (int j = 0; j < p->n; j++) {
        term small = p->t[j];
        if (!holds(&small, FL_KP_TID_X + axis)) continue;
        drop(&small, FL_KP_TID_X + axis);
        if (!same_product(&small, &big) || small.c != big.c) continue;
        const int high = i > j ? i : j, low = i > j ? j : i;
        big.s[big.n++] = GLOBAL_X + axis;
        qsort(big.s, (size_t)big.n, sizeof big.s[0], compare);
        p->t[high] = p->t[--p->n];
        p->t[low] = p->t[--p->n];
        p->t[p->n++] = big;
        i = -1;
        break;
      }
      if (i < 0) break;
    }
}

/* ---- the way to a statement ---------------------------------------------------------------------------- */

typedef struct route {
  const fl_kindices *k;
  const fl_kstmt *goal;
  const fl_kexpr *cond[MAX_FACTS];
  uint8_t truth[MAX_FACTS];
  int32_t order[MAX_FACTS];                 /* where the condition was asked */
  int n;
  place at;
} route;

static void learn(route *r, const fl_kexpr *c, int truth) {
  if (c->kind == FL_KX_UNARY && c->op == FL_KO_NOT) { learn(r, c->x[0], !truth); return; }
  if (c->kind == FL_KX_BINARY && c->op == (truth ? FL_KO_LAND : FL_KO_LOR)) {
    learn(r, c->x[0], truth);
    learn(r, c->x[1], truth);
    return;
  }
  if (r->n == MAX_FACTS) return;
  r->cond[r->n] = c;
  r->order[r->n] = r->at.order + 1;         /* of a loop's own condition: in the loop */
  r->truth[r->n++] = (uint8_t)truth;
}

static int never_ends(fl_kblock b) {
  const fl_kstmt *s = b.last;
  return s && (s->kind == FL_KS_RETURN || s->kind == FL_KS_BREAK ||
               s->kind == FL_KS_CONTINUE || s->kind == FL_KS_LEAVE);
}

static int find(route *r, fl_kblock b);

static int enter(route *r, const fl_kstmt *s, int other) {
  const int n = r->n, loops = r->at.n_loops;
  if (s->kind == FL_KS_IF) learn(r, s->x[0], !other);
  if (s->kind == FL_KS_LOOP) {
    if (s->x[0] && !s->post && !other) learn(r, s->x[0], 1);
    if (r->at.n_loops < MAX_LOOPS)
      r->at.loops[r->at.n_loops++] = other ? -1 : s->label; /* stepping: no digit */
  }
  if (find(r, other ? s->other : s->body)) return 1;
  r->n = n;
  r->at.n_loops = loops;
  return 0;
}

/* Conditions on the way to r->goal; what was learned behind "if (c) return;" stays. */
static int find(route *r, fl_kblock b) {
  for (const fl_kstmt *s = b.first; s; s = s->next) {
    r->at.order++;
    if (s == r->goal) return 1;
    if (enter(r, s, 0) || enter(r, s, 1)) return 1;
    if (s->kind == FL_KS_IF && never_ends(s->body) && !s->other.first)
      learn(r, s->x[0], 0);
  }
  return 0;
}

/* ---- digits ------------------------------------------------------------------------------------------------ */

typedef struct digit { int32_t s; term stride; } digit;

/* Is symbol s the same in all threads (at this place)? Counters of a uniform loop are not
** digits of the thread but of the loop. */
static int is_uniform_symbol(const fl_kindices *k, int32_t s) {
  if (s >= SYMBOL_VAR)
    return !is_counter(k, s - SYMBOL_VAR) && k->var[s - SYMBOL_VAR].level == GRID;
  return s >= FL_KP_BDIM_X && s < FL_KP_COUNT;
}

static int is_monomial(const term *a, const term *b, int64_t factor) {
  return a->c == b->c * factor && same_product(a, b);
}

/* Does condition c say: symbol s < bound monomial m? */
static int says_below(const route *r, int i, int32_t s, const term *m) {
  const fl_kexpr *c = r->cond[i];
  if (c->kind != FL_KX_BINARY) return 0;
  int op = c->op, swap = 0;
  if (!r->truth[i])
    op = op == FL_KO_LT   ? FL_KO_GE
         : op == FL_KO_GE ? FL_KO_LT
         : op == FL_KO_GT ? FL_KO_LE
         : op == FL_KO_LE ? FL_KO_GT
                          : FL_KO_NONE;
  if (op == FL_KO_GT || op == FL_KO_GE)
    swap = 1, op = op == FL_KO_GT ? FL_KO_LT : FL_KO_LE;
  if (op != FL_KO_LT && op != FL_KO_LE) return 0;
  place then = r->at;
  then.order = r->order[i];
  poly low = expand(r->k, &then, c->x[swap], 0),
       high = expand(r->k, &then, c->x[!swap], 0);
  join_global(&low);
  if (low.bad || high.bad || low.n != 1 || low.t[0].c != 1 || low.t[0].n != 1 ||
      low.t[0].s[0] != s)
    return 0;
  if (op == FL_KO_LE) add_term(&high, (term){ 1, 0, { 0 } });
  if (high.n != 1) return 0;
  if (same_product(&high.t[0], m)) return high.t[0].c <= m->c && high.t[0].c > 0;
  return 0;
}

/* Counters start at a constant >= 0 or at an index of the thread, and step upwards. */
static int not_negative(const route *r, int32_t s) {
  if (s < SYMBOL_VAR) return 1;
  const varinfo *v = &r->k->var[s - SYMBOL_VAR];
  if (!is_counter(r->k, s - SYMBOL_VAR)) return 0;
  place then = r->at;
  then.order = v->order;
  poly p = expand(r->k, &then, v->def, 0);
  join_global(&p);
  if (p.bad || p.n > 1) return 0;
  return p.n == 0 || (p.t[0].c >= 0 &&
                      (p.t[0].n == 0 || (p.t[0].n == 1 && p.t[0].s[0] < SYMBOL_VAR)));
}

/* 0 <= s < m, m a monomial. */
static int stays_below(const route *r, int32_t s, const term *m) {
  if (!not_negative(r, s)) return 0;
  for (int axis = 0; axis < 3; axis++) {
    const term dim = { 1, 1, { FL_KP_BDIM_X + axis } },
               grid = { 1, 1, { FL_KP_GDIM_X + axis } };
    if (s == FL_KP_TID_X + axis && is_monomial(m, &dim, 1)) return 1;
    if (s == FL_KP_BID_X + axis && is_monomial(m, &grid, 1)) return 1;
    if (s == FL_KP_TID_X + axis && m->n == 0 && r->k->f->max_threads &&
        m->c >= r->k->f->max_threads)
      return 1;
  }
  for (int i = 0; i < r->n; i++)
    if (says_below(r, i, s, m)) return 1;
  return 0;
}

static term ratio(const term *big, const term *small, int *ok) {
  term q = *big;
  *ok = 0;
  for (int i = 0; i < small->n; i++) {
    if (!holds(&q, small->s[i])) return q;
    drop(&q, small->s[i]);
  }
  if (!small->c || q.c % small->c) return q;
  q.c /= small->c;
  if (q.c < 0) q.c = -q.c;
  *ok = 1;
  return q;
}

/* Orders the digits so that the strides form a chain; 1 when they do. */
static int is_chain(const route *r, digit *d, int n) {
  int last = -1;
  uint8_t used[MAX_TERMS] = { 0 };
  for (int i = 0; i < n && last < 0; i++)
    if (d[i].stride.n == 0 && d[i].stride.c) {
      int least = 1;
      for (int j = 0; j < n; j++)
        if (j != i && d[j].stride.n == 0 && llabs(d[j].stride.c) <= llabs(d[i].stride.c))
          least = 0;
      if (least) last = i;
    }
  if (last < 0) return 0;
  used[last] = 1;
  for (int count = 1; count < n; count++) {
    int next = -1;
    for (int i = 0; i < n && next < 0; i++) {
      int ok;
      const term q = used[i] ? d[i].stride : ratio(&d[i].stride, &d[last].stride, &ok);
      if (!used[i] && ok && q.c > 0 && stays_below(r, d[last].s, &q)) next = i;
    }
    if (next < 0) return 0;
    used[next] = 1;
    last = next;
  }
  return 1;
}

/* What a counter that begins at a thread's index stands for: GLOBAL_X + axis with a grid
** stride, threadIdx with a block stride; -1: it is the same in all threads. -2: unknown. */
static int32_t counter_of(const route *r, int32_t var) {
  const varinfo *v = &r->k->var[var];
  place then = r->at;
  then.order = v->order;
  poly first = expand(r->k, &then, v->def, 0), step = expand(r->k, &r->at, v->step, 0);
  join_global(&first);
  if (first.bad || step.bad) return -2;
  add_term(&step, (term){ -1, 1, { SYMBOL_VAR + var } });
  if (step.n != 1 || step.t[0].c <= 0) return -2;
  const int uniform = level_of(r->k, v->def) == GRID;
  if (step.t[0].n == 0 && uniform) return -1;
  if (first.n != 1 || first.t[0].c != 1 || first.t[0].n != 1 || step.t[0].c != 1)
    return -2;
  for (int axis = 0; axis < 3; axis++) {
    const term block = { 1, 1, { FL_KP_BDIM_X + axis } };
    const term grid = { 1, 2, { FL_KP_BDIM_X + axis, FL_KP_GDIM_X + axis } };
    if (first.t[0].s[0] == GLOBAL_X + axis && same_product(&step.t[0], &grid))
      return GLOBAL_X + axis;
    if (first.t[0].s[0] == FL_KP_TID_X + axis && same_product(&step.t[0], &block))
      return FL_KP_TID_X + axis;
  }
  return -2;
}

/* ---- the answer --------------------------------------------------------------------------------------------- */

typedef struct coverage {
  uint8_t thread[3], block[3];
  int32_t loops[MAX_TERMS];
  int n_loops;
} coverage;

static int cover(const route *r, int32_t s, coverage *c) {
  int32_t base = s;
  if (s >= SYMBOL_VAR) {
    base = counter_of(r, s - SYMBOL_VAR);
    if (base == -2 || c->n_loops == MAX_TERMS) return 0;
    c->loops[c->n_loops++] = r->k->var[s - SYMBOL_VAR].step_loop;
  }
  for (int axis = 0; axis < 3; axis++) {
    if (base == GLOBAL_X + axis || base == FL_KP_TID_X + axis) c->thread[axis] = 1;
    if (base == GLOBAL_X + axis || base == FL_KP_BID_X + axis) c->block[axis] = 1;
  }
  return 1;
}

/* Splits into digits; 0: a term holds two of them, or none and is not the same everywhere. */
static int split(const route *r, const poly *p, digit *d, int *n, coverage *c) {
  *n = 0;
  for (int i = 0; i < p->n; i++) {
    int32_t s = -1;
    for (int q = 0; q < p->t[i].n; q++) {
      if (is_uniform_symbol(r->k, p->t[i].s[q])) continue;
      if (s >= 0) return 0;
      s = p->t[i].s[q];
    }
    if (s < 0) continue;                                 /* a shift, the same for all */
    for (int j = 0; j < *n; j++)
      if (d[j].s == s) return 0;
    d[*n].s = s;
    d[*n].stride = p->t[i];
    drop(&d[(*n)++].stride, s);
    if (!cover(r, s, c)) return 0;
  }
  return *n > 0;
}

static fl_kindex judge(const route *r, const coverage *c) {
  const int g = r->k->geometry;
  const int thread = c->thread[0] && (c->thread[1] || g & FL_KG_BLOCK_Y1) &&
                     (c->thread[2] || g & FL_KG_BLOCK_Z1);
  const int block = c->block[0] && (c->block[1] || g & FL_KG_GRID_Y1) &&
                    (c->block[2] || g & FL_KG_GRID_Z1);
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
  digit d[MAX_TERMS];
  int n;
  const int level = level_of(k, index);
  if (level == GRID) return FL_KI_UNIFORM_GRID;
  if (level == BLOCK_WIDE) return FL_KI_UNIFORM_BLOCK;
  if (s->kind == FL_KS_LOOP || !find(&r, k->f->body) || r.at.n_loops == MAX_LOOPS)
    return FL_KI_OTHER;
  memset(&c, 0, sizeof c);
  poly p = expand(k, &r.at, index, 0);
  join_global(&p);
  if (p.bad || !split(&r, &p, d, &n, &c) || !is_chain(&r, d, n)) return FL_KI_OTHER;
  return judge(&r, &c);
}
