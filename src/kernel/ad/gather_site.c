/*
** The code of one access in a gather: the index of the thread that accesses element j by it, and
** that thread's adjoint, in which threadIdx and blockIdx are replaced by its indices. The guards
** are tested again as ordinary code; of the sums only those of this access stay.
*/
#include "kernel/ad/gather.h"
#include <assert.h>

/* ---- the thread's adjoint --------------------------------------------------------------- */

typedef struct thread {
  fl_kgathering *g;
  const fl_ksite *site;
  int32_t *map;                  /* variables of the source -> of this copy */
  int32_t at[FL_KG_RANGES];      /* the thread's indices (U32), in the order of fl_kgathering.range;
                                 ** -1: not known */
  int32_t v[3];               /* variables: the digits that the site's chain gives of the index
                              ** that it splits; v[0] -1: the site has no chain */
  int total;
  fl_kplace place;               /* of the expression at work, in the adjoint */
  const fl_kstmt *placed;        /* the statement of 'place' */
  fl_kblock head;                /* goes before the copy */
} thread;

static fl_kexpr *as(thread *y, int type, fl_kexpr *x) { return fl_kexpr_cast(y->g->d.a, type, x); }

/* threadIdx or blockIdx along an axis; 0 if the site's index has no digit for the axis: the launch
** then has an extent of 1 along it. */
static fl_kexpr *thread_number(thread *y, int op) {
  fl_kad_state *d = &y->g->d;
  const int which = op - FL_KSPECIAL_TID_X, axis = which % 3, whole = y->at[6 + axis];
  if (y->at[which] < 0 && whole < 0) return fl_kexpr_int(d->a, FL_KT_U32, 0);
  if (y->at[which] < 0) {
    fl_kexpr *block = as(y, FL_KT_U32, fl_kg_extent(y->g, FL_KSPECIAL_BDIM_X + axis));
    y->at[which] = kg_local(y->g, FL_KT_U32, which < 3 ? "in_block" : "block");
    if (y->at[which] < 0) return NULL;
    kx_set(d, &y->head, y->at[which],
           kx_op(d, which < 3 ? FL_KO_REM : FL_KO_DIV, kx_var(d, whole), block));
  }
  return kx_var(d, y->at[which]);
}

static fl_kexpr *special(thread *y, const fl_kexpr *x) {
  if (x->op == FL_KSPECIAL_WARP_SIZE) return fl_kexpr_int(y->g->d.a, FL_KT_I32, 32);
  if (x->op >= FL_KSPECIAL_BDIM_X) return as(y, FL_KT_U32, fl_kg_extent(y->g, x->op));
  return thread_number(y, x->op);
}

static int level_in(const fl_kchain *c, const fl_kterm *t) {
  if (t->c == 1 && !t->n) return 0;
  for (int i = 0; i < c->n; i++)
    if (fl_kterm_equal(t, &c->whole[i])) return i + 1;
  return -1;
}

/* The value of x if it is a quotient or remainder of the thread's index, from the index's digits;
** NULL: it is not, or not by moduli of the chain. */
static fl_kexpr *known_part(thread *y, const fl_kexpr *x) {
  const fl_kchain *c = &y->g->chain[y->site->chain];
  fl_kad_state *d = &y->g->d;
  fl_kterm below, whole;
  if (!fl_kg_part_of(y->g->k, &y->place, x, c->symbol, &below, &whole)) return NULL;
  const int low = level_in(c, &below), high = level_in(c, &whole);
  if (low < 0 || high < 1) return NULL;
  int first = x->op == FL_KO_DIV ? high : low, last = x->op == FL_KO_DIV ? c->n : high - 1;
  fl_kexpr *r = kx_var(d, y->v[last]);
  while (last-- > first)
    r = kx_op(d, FL_KO_ADD, kx_var(d, y->v[last]), kx_op(d, FL_KO_MUL, kx_var(d, c->m[last]), r));
  for (int i = 0; i < (x->op == FL_KO_DIV ? high : low); i++)
    if (c->sign[i] >= 0) r = kx_op(d, FL_KO_MUL, r, kx_var(d, c->sign[i]));
  return as(y, x->type, r);
}

/* The value of x, whose polynomial is p. The site's index equals the index j of the target. If it
** exceeds x by a value that is the same in all threads, x is j minus that value; else NULL. */
static fl_kexpr *known_index(thread *y, const fl_kexpr *x, const fl_kpoly *p) {
  fl_kgathering *g = y->g;
  fl_kpoly by = y->site->digits.whole;
  fl_kpoly_subtract(&by, p);
  if (by.bad || by.n > 2 || !fl_kpoly_all(&by, fl_kpoly_is_uniform, g->k)) return NULL;
  const int near = by.n == 0 ||
                   (by.n == 1 && !by.t[0].n && by.t[0].c < FL_KG_NEAR && by.t[0].c > -FL_KG_NEAR);
  const int narrow = fl_kt_size(x->type) == 4 && fl_kg_is_short(g, &by);
  return as(y, x->type, fl_kg_number(g, &by, near ? FL_KT_I32 : narrow ? FL_KT_U32 : FL_KT_I64));
}

/* The value of x if it follows from the thread's known indices; else NULL. */
static fl_kexpr *known(thread *y, const fl_kstmt *s, const fl_kexpr *x) {
  const int division = fl_kg_is_division(x) && y->v[0] >= 0 &&
                       y->g->chain[y->site->chain].symbol >= 0;
  const int sum = x->kind == FL_KX_BINARY && (x->op == FL_KO_ADD || x->op == FL_KO_SUB)
               && x->type >= FL_KT_I32 && fl_kt_is_int(x->type);
  if (!division && !sum) return NULL;
  if (y->placed != s) {
    if (!fl_kindex_place(y->g->k, s, &y->place)) return NULL;
    y->placed = s;
  }
  if (division) return known_part(y, x);
  const fl_kpoly p = fl_kpoly_of(y->g->k, &y->place, x);
  if (p.bad) return NULL;
  for (int axis = 0; axis < 3; axis++)
    if (y->at[6 + axis] >= 0 && fl_kpoly_is(&p, FL_KSYM_GLOBAL + axis))
      return as(y, x->type, kx_var(&y->g->d, y->at[6 + axis]));
  return known_index(y, x, &p);
}

static fl_kexpr *moved(thread *y, const fl_kstmt *s, const fl_kexpr *x) {
  fl_kad_state *d = &y->g->d;
  if (!x || d->a->failed) return NULL;
  fl_kexpr *e = known(y, s, x);
  if (e) return e;
  if (x->kind == FL_KX_SPECIAL) return special(y, x);
  if (x->kind == FL_KX_VAR) return kx_var(d, y->map[x->var]);
  fl_kexpr *k[FL_K_MAX_ARGS];
  for (int i = 0; i < x->n; i++) k[i] = moved(y, s, x->x[i]);
  if (!(e = fl_kexpr_over(d->a, x, k))) return NULL;
  if (x->kind == FL_KX_LOAD) {
    e->var = y->map[x->var];
    e->site = d->f->n_sites++;
  }
  return e;
}

static int is_mine(const thread *y, const fl_kstmt *s) {
  const fl_kgathering *g = y->g;
  for (int i = 0; i < g->n_sums; i++)
    if (g->sum[i].s == s) return g->sum[i].site >= 0 && &g->site[g->sum[i].site] == y->site;
  return 0;
}

static void copy(thread *y, fl_kblock *to, const fl_kblock *from);

static void copy_one(thread *y, fl_kblock *to, const fl_kstmt *s) {
  fl_kad_state *d = &y->g->d;
  fl_kstmt *r = NULL;
  switch (s->kind) {
  case FL_KS_ASSIGN: kx_set(d, to, y->map[s->var], moved(y, s, s->x[0])); return;
  case FL_KS_STORE: case FL_KS_ATOMIC:
    if (is_mine(y, s)) {
      fl_kexpr *more = as(y, d->f->vars[y->total].type, moved(y, s, s->x[1]));
      kx_set(d, to, y->total, kg_op(y->g, FL_KO_ADD, y->total, more));
    } else if (s->kind == FL_KS_STORE && d->f->vars[s->var].kind == FL_KV_ARRAY) {
      r = fl_kstmt_store(d->f, to, y->map[s->var], moved(y, s, s->x[0]), moved(y, s, s->x[1]));
      if (r) r->accumulate = s->accumulate;
    }
    return;
  case FL_KS_IF: r = fl_kstmt_if(d->f, to, moved(y, s, s->x[0])); break;
  case FL_KS_LOOP:
    r = fl_kstmt_loop(d->f, to, moved(y, s, s->x[0]));
    if (r) r->post = s->post;
    break;
  default: return;
  }
  if (!r) return;
  r->line = s->line;
  copy(y, &r->body, &s->body);
  copy(y, &r->other, &s->other);
}

static void copy(thread *y, fl_kblock *to, const fl_kblock *from) {
  for (const fl_kstmt *s = from->first; s && !y->g->d.a->failed; s = s->next) copy_one(y, to, s);
}

/* Makes the variables of the copied adjoint. Parameters are not copied unless the kernel writes to
** them. */
static void make_variables(thread *y) {
  fl_kad_state *d = &y->g->d;
  const fl_kfunc *src = y->g->src;
  for (int v = 0; v < src->n_vars && !d->a->failed; v++) {
    const fl_kvar *x = &src->vars[v];
    const int own = (x->kind == FL_KV_LOCAL || x->kind == FL_KV_ARRAY) &&
                    (x->param < 0 || y->g->assigned[v]);
    y->map[v] = own ? fl_kvar_add(d->f, (fl_kvkind)x->kind, x->type, x->name, x->count) : v;
    if (own && x->param >= 0 && x->kind == FL_KV_LOCAL)
      kx_set(d, &y->head, y->map[v], kx_var(d, v));
  }
}

static void run_thread(thread *y, fl_kblock *b) {
  fl_kblock body = {0};
  y->map = fl_karena_new(y->g->d.a, ((size_t)y->g->src->n_vars + 1) * sizeof *y->map);
  if (!y->map) return;
  make_variables(y);
  copy(y, &body, &y->g->src->body);
  fl_kblock_append(b, y->head);
  fl_kblock_append(b, body);
}

/* ---- the site --------------------------------------------------------------------------- */

/* The condition x < the size of the launch that bounds the symbol (blockDim.x for threadIdx.x);
** NULL: x is NULL. */
static fl_kexpr *within(fl_kgathering *g, fl_kexpr *x, int32_t symbol) {
  return x ? kx_op(&g->d, FL_KO_LT, x, fl_kexpr_cast(g->d.a, x->type, fl_kg_extent(g, symbol)))
           : NULL;
}

static void set_number(thread *y, fl_kblock *b, int32_t symbol, fl_kexpr *x) {
  static const char *const names[3] = {"thread", "in_block", "block"};
  const int which = fl_kg_range(symbol);
  const int v = kg_local(y->g, FL_KT_U32, names[which < 3 ? 1 : which < 6 ? 2 : 0]);
  if (v < 0) return;
  kx_set(&y->g->d, b, v, as(y, FL_KT_U32, x));
  y->at[which] = v;
}

/* Adds the code that runs the adjoint of each thread with these digits: of one thread, or of
** several where digits are quotients. Quotients are of type I64. */
static void run_digits(thread *y, fl_kblock *b, fl_kexpr *const *digit) {
  fl_kgathering *g = y->g;
  fl_kad_state *d = &g->d;
  const fl_kdigits *x = &y->site->digits;
  fl_kexpr *number[FL_KDIGITS], *c = NULL;
  assert(x->n <= FL_KDIGITS);
  for (int i = 0; i < x->n && !d->a->failed; i++) {
    number[i] = digit[i];
    if (x->by[i] > 1) {
      const int part = kg_local(g, FL_KT_I64, "part");
      kx_set(d, b, part, kx_int(d, 0));
      fl_kstmt *s = fl_kstmt_loop(d->f, b, kg_op(g, FL_KO_LT, part, kx_int(d, x->by[i])));
      if (!s) return;
      s->op = 1;
      kx_set(d, &s->other, part, kg_op(g, FL_KO_ADD, part, kx_int(d, 1)));
      b = &s->body;
      number[i] = kx_op(d, FL_KO_ADD, kx_op(d, FL_KO_MUL, digit[i], kx_int(d, x->by[i])),
                        kx_var(d, part));
      number[i] = fl_kad_atom(d, b, number[i]);
      c = kx_both(d, c, kx_op(d, FL_KO_GE, number[i], kx_int(d, 0)));
    }
    c = kx_both(d, c, within(g, number[i], x->symbol[i]));
  }
  fl_kstmt *in = d->a->failed ? NULL : fl_kstmt_if(d->f, b, c);
  if (!in) return;
  for (int i = 0; i < x->n; i++) set_number(y, &in->body, x->symbol[i], number[i]);
  if (x->n == 1 && y->site->chain >= 0) fl_kg_digits(g, &in->body, y->site, number[0], y->v);
  run_thread(y, &in->body);
}

/* Adds the code for an index t with unique digits (each is below its modulus): finds the digits and
** runs the adjoint of the threads that have them. t: NULL if the site is near. */
static void unique_digits(thread *y, fl_kblock *b, fl_kexpr *t) {
  fl_kgathering *g = y->g;
  fl_kad_state *d = &g->d;
  const fl_kdigits *x = &y->site->digits;
  fl_kexpr *digit[FL_KDIGITS] = {NULL}, *c = NULL;
  fl_kg_digits(g, b, y->site, t, y->v);
  if (d->a->failed) return;
  for (int i = 0; i < x->n && !t && x->scale > 1; i++) {  /* digits must be multiples of scale */
    fl_kexpr *scale = kg_int(g, x->scale);
    c = kx_both(d, c, kx_op(d, FL_KO_EQ, kg_op(g, FL_KO_REM, y->v[i], scale), kg_int(g, 0)));
  }
  fl_kstmt *whole = c ? fl_kstmt_if(d->f, b, c) : NULL;
  if (whole) b = &whole->body;
  for (int i = 0; i < x->n; i++) {
    if (whole) kx_set(d, b, y->v[i], kg_op(g, FL_KO_DIV, y->v[i], kg_int(g, x->scale)));
    digit[i] = as(y, x->by[i] > 1 ? FL_KT_I64 : FL_KT_U32, kx_var(d, y->v[i]));
  }
  run_digits(y, b, digit);
}

/* Adds a loop over all digits (d0, d1) of threads with d0 + m * d1 = t. If m is positive it goes
** down from the largest d1, to which the smallest d0 belongs, until d0 is too large; otherwise over
** all d1. */
static void all_digits(thread *y, fl_kblock *b, fl_kexpr *t) {
  fl_kgathering *g = y->g;
  fl_kad_state *d = &g->d;
  const fl_kdigits *x = &y->site->digits;
  const fl_kchain *c = &g->chain[y->site->chain];
  assert(x->n == 2);
  const int high = kg_local(g, FL_KT_I64, "high"), low = kg_local(g, FL_KT_I64, "low");
  fl_kg_digits(g, b, y->site, t, y->v);
  if (d->a->failed) return;
  const int m = c->given[0] >= 0 ? c->given[0] : c->m[0];
  fl_kexpr *by = kg_wide(g, kx_var(d, m)), *zero = kx_int(d, 0),
           *positive = kx_op(d, FL_KO_GT, by, zero);
  fl_kexpr *first = kg_wide(g, kx_var(d, y->v[1]));
  fl_kexpr *top = kx_op(d, FL_KO_SUB, kg_wide(g, fl_kg_extent(g, x->symbol[1])), kx_int(d, 1));
  fl_kexpr *rest = kx_op(d, FL_KO_SUB, t, kx_op(d, FL_KO_MUL, kx_var(d, high), by));
  kx_set(d, b, high,
         fl_kexpr_select(d->a, kx_both(d, positive, kx_op(d, FL_KO_LT, first, top)), first, top));
  fl_kexpr *most = x->by[0] > 1 ? kx_op(d, FL_KO_MUL, rest, kx_int(d, x->by[0])) : rest;
  fl_kexpr *reach = kx_op(d, FL_KO_LOR, kx_op(d, FL_KO_LE, by, zero),
                          within(g, most, x->symbol[0]));
  fl_kexpr *on = kx_both(d, kx_op(d, FL_KO_GE, kx_var(d, high), zero), reach);
  fl_kstmt *s = fl_kstmt_loop(d->f, b, on);
  if (!s) return;
  s->op = 1;
  kx_set(d, &s->body, low, rest);
  kx_set(d, &s->other, high, kg_op(g, FL_KO_SUB, high, kx_int(d, 1)));
  fl_kstmt *in = fl_kstmt_if(d->f, &s->body, kx_op(d, FL_KO_GE, kx_var(d, low), zero));
  if (!in) return;
  fl_kexpr *const digit[FL_KDIGITS] = {kx_var(d, low), kx_var(d, high)};
  run_digits(y, &in->body, digit);
}

void fl_kg_site(fl_kgathering *g, fl_kblock *b, int site, int total) {
  fl_kad_state *d = &g->d;
  const fl_ksite *s = &g->site[site];
  const fl_kdigits *x = &s->digits;
  const int all = x->n > 1 && !x->unique,
            in_u32 = x->n == 1 && x->scale == 1 && x->by[0] == 1 && fl_kg_is_short(g, &x->shift);
  thread y = {.g = g, .site = s, .total = total, .v = {-1, -1, -1}};
  memset(y.at, -1, sizeof y.at);
  if (x->n > 1 && x->unique && s->near) {
    unique_digits(&y, b, NULL);
    return;
  }
  fl_kexpr *t = fl_kad_atom(d, b, fl_kg_number(g, &x->shift, in_u32 ? FL_KT_U32 : FL_KT_I64)),
           *zero = kx_int(d, 0), *c = NULL;
  fl_kexpr *scale = kx_int(d, x->scale);
  if (!in_u32 && !all) c = kx_op(d, FL_KO_GE, t, zero);
  if (x->scale != 1) c = kx_both(&g->d, c, kx_op(d, FL_KO_EQ, kx_op(d, FL_KO_REM, t, scale), zero));
  fl_kstmt *in = c ? fl_kstmt_if(d->f, b, c) : NULL;
  if (in) b = &in->body;
  if (x->scale != 1) t = fl_kad_atom(d, b, kx_op(d, FL_KO_DIV, t, scale));
  if (!t || d->a->failed) return;
  fl_kexpr *const one[FL_KDIGITS] = {t};
  if (all) all_digits(&y, b, t);
  else if (x->n == 1) run_digits(&y, b, one);
  else unique_digits(&y, b, t);
}
