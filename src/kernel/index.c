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
#include "kernel/poly.h"
#include "kernel/builtins.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { GRID, BLOCK_WIDE, NONE };            /* falling */
enum { MAX_FACTS = 48 };

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
    assert(k->var);
    fl_kvarinfo *v = s->kind == FL_KS_ASSIGN ? &k->var[s->var] : NULL;
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
  k->quotients = fl_zalloc(m, sizeof *k->quotients);
  if (!k->var || !k->loop_order || !k->quotients) { fl_kindices_free(k); return NULL; }
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
  fl_free(k->m, k->quotients, sizeof *k->quotients);
  fl_free(k->m, k, sizeof *k);
}

int fl_kuniform_in_block(const fl_kindices *k, const fl_kexpr *x) {
  return level_of(k, x) <= BLOCK_WIDE;
}

/* ---- the way to a statement ---------------------------------------------------------------------------- */

typedef struct route {
  const fl_kindices *k;
  const fl_kstmt *goal;
  const fl_kexpr *cond[MAX_FACTS];
  uint8_t truth[MAX_FACTS];
  int32_t order[MAX_FACTS];                 /* where the condition was asked */
  int n;
  fl_kplace at;
} route;

static void learn(route *r, const fl_kexpr *c, int truth) {
  if (c->kind == FL_KX_VAR && r->at.n_loops == 0) {     /* asked before, kept in a variable */
    const fl_kvarinfo *v = &r->k->var[c->var];
    if (v->defs == 1 && !v->param && v->order <= r->at.order) learn(r, v->def, truth);
    return;
  }
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
    if (r->at.n_loops < FL_KPOLY_LOOPS)
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

typedef struct digit { int32_t s; fl_kterm stride; } digit;

static int is_monomial(const fl_kterm *a, const fl_kterm *b, int64_t factor) {
  return a->c == b->c * factor && fl_kterm_same(a, b);
}

/* Does low < high say s < m by constants alone (s + 1 < m, s < m - 2)? In signed numbers, which
** do not wrap. */
static int shows_below(fl_kpoly low, fl_kpoly high, int32_t s, const fl_kterm *m) {
  for (int i = 0; i < low.n; i++) {
    low.t[i].c = -low.t[i].c;
    fl_kpoly_add(&high, low.t[i]);
  }
  fl_kterm bound = *m;
  bound.c = -bound.c;
  fl_kpoly_add(&high, (fl_kterm){ 1, 1, { s } });
  fl_kpoly_add(&high, bound);
  return !high.bad && (high.n == 0 || (high.n == 1 && high.t[0].n == 0 && high.t[0].c <= 0));
}

/* Does condition c say: symbol s < bound monomial m? */
static int says_below(const route *r, int i, int32_t s, const fl_kterm *m) {
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
  fl_kplace then = r->at;
  then.order = r->order[i];
  fl_kpoly low = fl_kpoly_of(r->k, &then, c->x[swap]),
       high = fl_kpoly_of(r->k, &then, c->x[!swap]);
  if (low.bad || high.bad) return 0;
  if (op == FL_KO_LE) fl_kpoly_add(&high, (fl_kterm){ 1, 0, { 0 } });
  if (fl_ktypes[c->x[0]->type].is_signed && shows_below(low, high, s, m)) return 1;
  if (!fl_kpoly_is(&low, s)) return 0;
  if (high.n != 1) return 0;
  if (fl_kterm_same(&high.t[0], m)) return high.t[0].c <= m->c && high.t[0].c > 0;
  return 0;
}

/* Counters start at a constant >= 0 or at an index of the thread, and step upwards. */
static int not_negative(const route *r, int32_t s) {
  if (s < FL_KSYM_VAR) return 1;
  const fl_kvarinfo *v = &r->k->var[s - FL_KSYM_VAR];
  if (!fl_kpoly_is_counter(r->k, s - FL_KSYM_VAR)) return 0;
  fl_kplace then = r->at;
  then.order = v->order;
  fl_kpoly p = fl_kpoly_of(r->k, &then, v->def);
  if (p.bad || p.n > 1) return 0;
  return p.n == 0 || (p.t[0].c >= 0 &&
                      (p.t[0].n == 0 || (p.t[0].n == 1 && p.t[0].s[0] < FL_KSYM_VAR)));
}

/* 0 <= s < m, m a monomial. */
static int stays_below(const route *r, int32_t s, const fl_kterm *m) {
  if (!not_negative(r, s)) return 0;
  for (int axis = 0; axis < 3; axis++) {
    const fl_kterm dim = { 1, 1, { FL_KP_BDIM_X + axis } },
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

/* Orders the digits so that the strides form a chain; 1 when they do. */
static int is_chain(const route *r, digit *d, int n) {
  int last = -1;
  uint8_t used[FL_KPOLY_TERMS] = { 0 };
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
      const fl_kterm q = used[i] ? d[i].stride : fl_kterm_ratio(&d[i].stride, &d[last].stride, &ok);
      if (!used[i] && ok && q.c > 0 && stays_below(r, d[last].s, &q)) next = i;
    }
    if (next < 0) return 0;
    used[next] = 1;
    last = next;
  }
  return 1;
}

/* What a counter that begins at a thread's index stands for: FL_KSYM_GLOBAL + axis with a grid
** stride, threadIdx with a block stride; -1: it is the same in all threads. -2: unknown. */
static int32_t counter_of(const route *r, int32_t var) {
  const fl_kvarinfo *v = &r->k->var[var];
  fl_kplace then = r->at;
  then.order = v->order;
  fl_kpoly first = fl_kpoly_of(r->k, &then, v->def), step = fl_kpoly_of(r->k, &r->at, v->step);
  if (first.bad || step.bad) return -2;
  fl_kpoly_add(&step, (fl_kterm){ -1, 1, { FL_KSYM_VAR + var } });
  if (step.n != 1 || step.t[0].c <= 0) return -2;
  const int uniform = level_of(r->k, v->def) == GRID;
  if (step.t[0].n == 0 && uniform) return -1;
  if (first.n != 1 || first.t[0].c != 1 || first.t[0].n != 1 || step.t[0].c != 1)
    return -2;
  for (int axis = 0; axis < 3; axis++) {
    const fl_kterm block = { 1, 1, { FL_KP_BDIM_X + axis } };
    const fl_kterm grid = { 1, 2, { FL_KP_BDIM_X + axis, FL_KP_GDIM_X + axis } };
    if (first.t[0].s[0] == FL_KSYM_GLOBAL + axis && fl_kterm_same(&step.t[0], &grid))
      return FL_KSYM_GLOBAL + axis;
    if (first.t[0].s[0] == FL_KP_TID_X + axis && fl_kterm_same(&step.t[0], &block))
      return FL_KP_TID_X + axis;
  }
  return -2;
}

/* ---- the answer --------------------------------------------------------------------------------------------- */

typedef struct coverage {
  uint8_t thread[3], block[3];
  int32_t loops[FL_KPOLY_TERMS];
  int n_loops;
} coverage;

static int cover(const route *r, int32_t s, coverage *c) {
  int32_t base = s;
  if (s >= FL_KSYM_VAR) {
    base = counter_of(r, s - FL_KSYM_VAR);
    if (base == -2 || c->n_loops == FL_KPOLY_TERMS) return 0;
    c->loops[c->n_loops++] = r->k->var[s - FL_KSYM_VAR].step_loop;
  }
  for (int axis = 0; axis < 3; axis++) {
    if (base == FL_KSYM_GLOBAL + axis || base == FL_KP_TID_X + axis) c->thread[axis] = 1;
    if (base == FL_KSYM_GLOBAL + axis || base == FL_KP_BID_X + axis) c->block[axis] = 1;
  }
  return 1;
}

/* Splits into digits; 0: a term holds two of them, or none and is not the same everywhere. */
static int split(const route *r, const fl_kpoly *p, digit *d, int *n, coverage *c) {
  *n = 0;
  for (int i = 0; i < p->n; i++) {
    int32_t s = -1;
    for (int q = 0; q < p->t[i].n; q++) {
      if (fl_kpoly_is_uniform(r->k, p->t[i].s[q])) continue;
      if (s >= 0) return 0;
      s = p->t[i].s[q];
    }
    if (s < 0) continue;                                 /* a shift, the same for all */
    if (s >= FL_KSYM_QUOTIENT) return 0;
    for (int j = 0; j < *n; j++)
      if (d[j].s == s) return 0;
    d[*n].s = s;
    d[*n].stride = p->t[i];
    fl_kterm_drop(&d[(*n)++].stride, s);
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
  digit d[FL_KPOLY_TERMS];
  int n;
  const int level = level_of(k, index);
  if (level == GRID) return FL_KI_UNIFORM_GRID;
  if (level == BLOCK_WIDE) return FL_KI_UNIFORM_BLOCK;
  if (s->kind == FL_KS_LOOP || !find(&r, k->f->body) || r.at.n_loops == FL_KPOLY_LOOPS)
    return FL_KI_OTHER;
  memset(&c, 0, sizeof c);
  fl_kpoly p = fl_kpoly_of(k, &r.at, index);
  if (p.bad || !split(&r, &p, d, &n, &c) || !is_chain(&r, d, n)) return FL_KI_OTHER;
  return judge(&r, &c);
}

/* ---- which thread ------------------------------------------------------------------------------------------- */

int fl_kindex_place(const fl_kindices *k, const fl_kstmt *s, fl_kplace *at) {
  route r = { .k = k, .goal = s };
  if (!find(&r, k->f->body)) return 0;
  *at = r.at;
  return 1;
}

/* The terms of p without a digit. */
static fl_kpoly shift_of(const fl_kindices *k, const fl_kpoly *p) {
  fl_kpoly r = { 0 };
  for (int i = 0; i < p->n; i++) {
    int uniform = 1;
    for (int q = 0; q < p->t[i].n; q++) uniform &= fl_kpoly_is_uniform(k, p->t[i].s[q]);
    if (uniform) r.t[r.n++] = p->t[i];
  }
  return r;
}

/* Digit i of the answer is that of d whose stride is 'unit' times a product; the least first. */
static int next_digit(const digit *d, int n, const uint8_t *used, const fl_kterm *unit, fl_kterm *q) {
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

/* One thread has each set of digits: no axis twice, none left out. */
static int are_all(const route *r, const digit *d, int n, const coverage *c) {
  const fl_kindex class = judge(r, c);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      if (d[i].s >= FL_KSYM_GLOBAL && (d[j].s == FL_KP_TID_X + d[i].s - FL_KSYM_GLOBAL
                                       || d[j].s == FL_KP_BID_X + d[i].s - FL_KSYM_GLOBAL)) return 0;
  return class == FL_KI_INJECTIVE || class == FL_KI_OWN;
}

int fl_kindex_digits(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index, fl_kdigits *out) {
  route r = { .k = k, .goal = s };
  coverage c;
  digit d[FL_KPOLY_TERMS];
  uint8_t used[FL_KPOLY_TERMS] = { 0 };
  fl_kterm unit = { 1, 0, { 0 } }, q;
  int n;
  memset(out, 0, sizeof *out);
  memset(&c, 0, sizeof c);
  if (s->kind == FL_KS_LOOP || !find(&r, k->f->body) || r.at.n_loops) return 0;
  const fl_kpoly p = fl_kpoly_of(k, &r.at, index);
  if (p.bad || !split(&r, &p, d, &n, &c) || n > FL_KDIGITS || !are_all(&r, d, n, &c)) return 0;
  for (int count = 0; count < n; count++) {
    const int i = next_digit(d, n, used, &unit, &q);
    if (i < 0 || (count == 0 && q.n)) return 0;
    if (count) out->modulus[count - 1] = q;
    else out->scale = q.c;
    out->symbol[count] = d[i].s;
    used[i] = 1;
    unit = d[i].stride;
  }
  out->n = n;
  out->whole = p;
  out->shift = shift_of(k, &p);
  out->unique = n == 1 || is_chain(&r, d, n);
  return 1;
}

/* ---- numbers with bounds ------------------------------------------------------------------------------------ */

static int is_number(int32_t s) {                         /* of the thread: not negative */
  return s <= FL_KP_BID_Z || (s >= FL_KSYM_GLOBAL && s < FL_KSYM_VAR);
}

/* Marks the parameters of a product as needed positive; 0: other things are in it. */
static int need_positive(const fl_kindices *k, const fl_kterm *t, uint8_t *need) {
  for (int i = 0; i < t->n; i++) {
    if (t->s[i] < FL_KSYM_VAR) continue;
    if (t->s[i] >= FL_KSYM_QUOTIENT || k->f->vars[t->s[i] - FL_KSYM_VAR].param < 0) return 0;
    need[k->f->vars[t->s[i] - FL_KSYM_VAR].param] = 1;
  }
  return t->c > 0;
}

/* The quotient of a number of the thread that d is; NULL: it is none. */
static const fl_kquotient *quotient_of(const fl_kindices *k, const fl_kterm *d) {
  if (d->n != 1 || d->c != 1 || d->s[0] < FL_KSYM_QUOTIENT) return NULL;
  const fl_kquotient *q = &k->quotients->at[d->s[0] - FL_KSYM_QUOTIENT];
  return q->a.n == 1 && q->a.t[0].n == 1 && q->a.t[0].c == 1 && is_number(q->a.t[0].s[0]) ? q : NULL;
}

static fl_kterm product(const fl_kterm *a, const fl_kterm *b, int *ok) {
  fl_kterm t = *a;
  fl_kpoly sorted = { 0 };
  *ok = a->n + b->n <= FL_KPOLY_FACTORS && !__builtin_mul_overflow(a->c, b->c, &t.c);
  if (!*ok) return t;
  memcpy(t.s + t.n, b->s, (size_t)b->n * sizeof t.s[0]);
  t.n += b->n;
  fl_kpoly_add(&sorted, t);
  return sorted.t[0];
}

/* d = a % m for a number of the thread, or a quotient of one: a - m * (a / m). */
static int is_remainder(const fl_kindices *k, const fl_kpoly *d, fl_kterm *m, uint8_t *need) {
  for (int i = 0; i < 2 && d->n == 2; i++) {
    const fl_kterm *a = &d->t[i];
    fl_kterm big = d->t[!i];
    if (a->c != 1 || a->n != 1 || big.c >= 0) continue;
    for (int j = 0; j < big.n; j++) {
      const fl_kterm one = { 1, 1, { big.s[j] } };
      const fl_kquotient *q = quotient_of(k, &one), *inner = quotient_of(k, a);
      int ok = q != NULL;
      if (!ok || (!inner && !is_number(a->s[0]))) continue;
      *m = big;
      fl_kterm_drop(m, one.s[0]);
      m->c = -m->c;
      const fl_kterm whole = inner ? product(&inner->m, m, &ok) : *m;
      if (!ok || !fl_kterm_same(&whole, &q->m) || whole.c != q->m.c) continue;
      if (q->a.t[0].s[0] != (inner ? inner->a.t[0].s[0] : a->s[0])) continue;
      return need_positive(k, &whole, need);
    }
  }
  return 0;
}

int fl_kindex_below(const fl_kindices *k, const fl_kstmt *s, const fl_kpoly *d, const fl_kterm *m,
                    uint8_t *need) {
  route r = { .k = k, .goal = s };
  fl_kterm by;
  int ok;
  if (d->bad || !find(&r, k->f->body)) return 0;
  if (is_remainder(k, d, &by, need)) return !m || (by.c == m->c && fl_kterm_same(&by, m));
  if (d->n != 1 || d->t[0].c != 1 || d->t[0].n != 1) return 0;
  if (is_number(d->t[0].s[0])) return !m || stays_below(&r, d->t[0].s[0], m);
  const fl_kquotient *q = quotient_of(k, &d->t[0]);
  if (!q || !need_positive(k, &q->m, need)) return 0;
  if (!m) return 1;
  const fl_kterm whole = product(&q->m, m, &ok);          /* i / w < h where i < w * h or i / w < h is known */
  if (!ok || !need_positive(k, m, need)) return 0;
  if (stays_below(&r, q->a.t[0].s[0], &whole)) return 1;
  for (int i = 0; i < r.n; i++)
    if (says_below(&r, i, d->t[0].s[0], m)) return 1;
  return 0;
}
