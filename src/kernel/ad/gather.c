/*
** Adjoints that add into neighbours, inverted. The adjoint of v[i] = u[i - 1] + u[i + 1] adds to
** grad_u[i - 1] and grad_u[i + 1]: atomics, or slow sums in a fixed order. Element j receives these
** sums from threads j + 1 and j - 1, so one thread per j can collect them: for each index at which
** the source reads the array (a "site", fl_ksite) it finds the thread that read j there, runs that
** thread's adjoint again and takes what it adds for this access. This needs no atomics and no array
** of zeros, and the order of the sum is fixed.
**
** This pass turns the finished adjoint, a function of the language, into another function, so it
** serves the adjoints of tangent kernels (second order) as well. Where it fails, it is tried again
** with short loops over neighbours written out and indices at a border split into pieces. Only
** arrays all of whose sums are of this kind are gathered; everything else that the adjoint computes
** stays in 'rest'.
*/
#include "kernel/ad/gather.h"
#include "kernel/tree/builtins.h"
#include "kernel/ad/pieces.h"
#include "kernel/ad/unroll.h"

enum { MOST_STATEMENTS = 400, MOST_WRITTEN = 800, MOST_PARAMS = 42, MOST_WEIGHT = 8000 };
/* The additional cost of a sum by an atomic, and of a sum in a fixed order, compared with a plain
** sum, in units of 'weigh' below; FREE_WEIGHT: the work that a GPU does while it waits for the
** memory of one element. Measured with the stencil of docs/performance.md: 96 us more than a
** hand-written kernel for three atomics, 1446 us in a fixed order. */
enum { ATOMIC_WEIGHT = 40, ORDERED_WEIGHT = 400, FREE_WEIGHT = 80 };

/* ---- what the adjoint does -------------------------------------------------------------- */

typedef struct survey { fl_kgathering *g; int statements, strange, loops; } survey;

static int is_gradient(const fl_kgathering *g, int v) {
  const fl_kvar *x = &g->src->vars[v];
  return x->kind == FL_KV_POINTER && g->from->params[x->param].role == FL_KAD_GRAD
      && g->from->params[x->param].leaf < 0;
}

static int see_load(void *arg, fl_kexpr *x) {
  survey *y = arg;
  if (x->kind == FL_KX_LOAD && y->g->assigned[x->var]) y->g->late[x->var] = 1;
  return 1;
}

/* Visits statements in the order of the text. 'late' marks arrays that are read after a write. From
** the first loop on every array that is written is marked: a later iteration may read it. */
static int see_statement(void *arg, fl_kstmt *s) {
  survey *x = arg;
  fl_kgathering *g = x->g;
  x->statements++;
  switch (s->kind) {
  case FL_KS_LOOP: x->loops = 1; break;
  case FL_KS_DECL: case FL_KS_IF: break;
  case FL_KS_ASSIGN: g->assigned[s->var] = 1; break;
  case FL_KS_STORE: case FL_KS_ATOMIC:
    g->assigned[s->var] = 1;
    g->late[s->var] |= (uint8_t)x->loops;
    g->n_sums += is_gradient(g, s->var);
    /* an atomic other than a sum (an exchange) gives a thread a value that no other can compute */
    if (s->kind == FL_KS_ATOMIC && s->op != FL_KA_ADD) x->strange = 1;
    break;
  default: x->strange = 1;                        /* threads work together */
  }
  return 1;
}

static int look(fl_kgathering *g) {
  survey x = {.g = g};
  const fl_kvisitor see = {see_statement, see_load, &x};
  g->assigned = fl_karena_new(g->d.a, (size_t)g->src->n_vars + 1);
  g->late = fl_karena_new(g->d.a, (size_t)g->src->n_vars + 1);
  g->taken = fl_karena_new(g->d.a, (size_t)g->src->n_vars + 1);
  if (!g->assigned || !g->late || !g->taken) return 0;
  fl_kwalk_block(&see, g->src->body);
  return !x.strange && !g->src->uses_shared && x.statements <= MOST_STATEMENTS && g->n_sums > 0;
}

/* ---- sums and sites --------------------------------------------------------------------- */

static int same_digits(const fl_kdigits *a, const fl_kdigits *b) {
  if (a->n != b->n || a->scale != b->scale || !fl_kpoly_same(&a->shift, &b->shift)) return 0;
  for (int i = 0; i < a->n; i++) {
    if (a->symbol[i] != b->symbol[i] || a->by[i] != b->by[i]) return 0;
    if (i && !fl_kterm_equal(&a->modulus[i - 1], &b->modulus[i - 1])) return 0;
  }
  return 1;
}

/* Can the threads that add to an element by s be computed from the element's index? Sets *x to the
** index as a number in mixed radix, as in x + w * (y + h * z). An index of three digits (x, y, z)
** is accepted only where each digit is known to be below its modulus. */
static int is_solvable(const fl_kgathering *g, const fl_kstmt *s, fl_kdigits *x) {
  return !(s->kind == FL_KS_ATOMIC &&
           (s->mode == FL_KM_BLOCK || s->op != FL_KA_ADD || s->result >= 0))
      && fl_kindex_digits(g->k, s, s->x[0], x) && (x->unique || x->n <= 2) && x->scale < FL_KG_NEAR;
}

static int site_for(fl_kgathering *g, int grad, const fl_kdigits *x) {
  for (int i = 0; i < g->n_sites; i++)
    if (g->site[i].grad == grad && same_digits(&g->site[i].digits, x)) {
      g->site[i].digits.unique &= x->unique;
      g->site[i].digits.tight &= x->tight;
      return i;
    }
  g->site[g->n_sites].grad = grad;
  g->site[g->n_sites].digits = *x;
  return g->n_sites++;
}

static int see_sum(void *arg, fl_kstmt *s) {
  fl_kgathering *g = arg;
  fl_kdigits x;
  if (!fl_kwrites(s) || !is_gradient(g, s->var)) return 1;
  fl_ksum *sum = &g->sum[g->n_sums++];
  *sum = (fl_ksum){s, is_solvable(g, s, &x) ? site_for(g, s->var, &x) : -1};
  return 1;
}

/* Chooses the gradients to gather: arrays with an atomic sum, all of whose sums have an index that
** can be inverted (is_solvable). Arrays with plain sums are chosen too if the rest of the adjoint
** is then empty. Returns the number of arrays. */
static int choose(fl_kgathering *g) {
  const fl_kvisitor see = {see_sum, NULL, g};
  int others = 0, n = 0, all = 1;
  g->sum = fl_karena_new(g->d.a, (size_t)g->n_sums * sizeof *g->sum);
  g->site = fl_karena_new(g->d.a, (size_t)g->n_sums * sizeof *g->site);
  if (!g->sum || !g->site) return 0;
  g->n_sums = 0;
  fl_kwalk_block(&see, g->src->body);
  for (int p = 0; p < g->from->n_params; p++) {
    const int role = g->from->params[p].role;
    others |= role == FL_KAD_GRAD_SCALAR || role == FL_KAD_WORK;
  }
  uint8_t *wanted = fl_karena_new(g->d.a, (size_t)g->src->n_vars + 1);
  if (!wanted) return 0;
  for (int i = 0; i < g->n_sums; i++) {           /* bits by array: 1: it has an atomic; 2: it has a
                                                  ** sum without a site */
    const fl_ksum *s = &g->sum[i];
    wanted[s->s->var] |=
        (uint8_t)((s->s->kind == FL_KS_ATOMIC && s->s->mode != FL_KM_BLOCK) | (s->site < 0) << 1);
  }
  for (int i = 0; i < g->n_sums; i++) all &= !(wanted[g->sum[i].s->var] & 2);
  for (int v = 0; v < g->src->n_vars; v++) n += g->taken[v] = wanted[v] == 1;
  for (int i = 0; n && all && !others && i < g->n_sums; i++) {
    n += !g->taken[g->sum[i].s->var];
    g->taken[g->sum[i].s->var] = 1;
  }
  return n;
}

/* ---- kernels ---------------------------------------------------------------------------- */

/* Sets up g->d to change a copy of the adjoint, with room for more parameters. */
static int begin(fl_kgathering *g) {
  fl_kad_state *d = &g->d;
  d->n_cap = g->from->n_params + FL_KG_RANGES + g->src->n_vars;
  d->f = fl_kfunc_clone(d->a, g->src);
  d->res = fl_karena_new(d->a, sizeof *d->res);
  if (!d->f || !d->res) return 0;
  d->res->params = fl_karena_new(d->a, (size_t)d->n_cap * sizeof *d->res->params);
  if (!d->res->params) return 0;
  memcpy(d->res->params, g->from->params, (size_t)g->from->n_params * sizeof *d->res->params);
  return 1;
}

/* Does parameter p hold a gradient when the kernel ends? */
static int is_result(const fl_kad_state *d, const fl_kad_param *p) {
  return p->role == FL_KAD_GRAD || p->role == FL_KAD_GRAD_SCALAR
      || (p->role == FL_KAD_WORK && p->param >= 0 && d->r->want[p->param] & FL_KAD_INPUT);
}

/* Sets the roles of the parameters from the code that is left. Returns whether any gradient is
** computed. */
static int settle(fl_kad_state *d, int n_params, int gather) {
  fl_kad_touched t;
  int results = 0;
  if (!fl_kad_find_touched(d, &t)) return 0;
  fl_kad_roles(d, n_params, 0);
  for (int v = 0; v < d->f->n_vars; v++) {
    const fl_kvar *x = &d->f->vars[v];
    if (x->kind != FL_KV_POINTER || x->param < n_params) continue;
    fl_kad_param *p = &d->res->params[x->param];
    if (gather && p->role == FL_KAD_WORK) p->role = t.read[v] ? FL_KAD_COTANGENT : FL_KAD_UNUSED;
    if (p->role == FL_KAD_GRAD || p->role == FL_KAD_GRAD_SCALAR)
      if (!t.read[v] && !t.written[v]) p->role = FL_KAD_UNUSED;
    if (gather && p->role == FL_KAD_GRAD) p->stores = 1;
    results += is_result(d, p);
  }
  d->res->func = d->f;
  d->res->n_params = d->f->n_params;
  return results;
}

static void gather_array(fl_kgathering *g, fl_kblock *b, int grad) {
  fl_kad_state *d = &g->d;
  const fl_kvar x = d->f->vars[grad];
  const int of = g->from->params[x.param].param, first = d->f->params[of].first_var;
  const int size = fl_kad_param_new(d, FL_KAD_SIZE, first, "size_", FL_KT_I32, 0, 0);
  const int total = fl_kad_local(d, x.type, fl_kad_name(d, "sum_", first));
  if (size < 0 || total < 0) return;
  fl_kstmt *s = fl_kstmt_if(d->f, b, kx_op(d, FL_KO_LT, kx_var(d, g->element), kx_var(d, size)));
  if (!s) return;
  kx_set(d, &s->body, total, fl_kexpr_zero(d->a, x.type));
  for (int i = 0; i < g->n_sites; i++)
    if (g->site[i].grad == grad) fl_kg_site(g, &s->body, i, total);
  fl_kstmt_store(d->f, &s->body, grad, kx_var(d, g->element), kx_var(d, total));
}

static fl_kexpr *special(fl_kad_state *d, int what) { return fl_kexpr_special(d->a, what); }

static fl_kad *make_gather(fl_kgathering *g, int n_params) {
  fl_kad_state *d = &g->d;
  fl_kblock body = {0};
  if (!begin(g)) return NULL;
  memset(g->range, -1, sizeof g->range);
  g->element = fl_kad_local(d, FL_KT_I32, "j");
  if (g->element < 0) return NULL;
  fl_kexpr *j = kx_op(d, FL_KO_ADD, kx_op(d, FL_KO_MUL, special(d, FL_KSPECIAL_BID_X),
                                          special(d, FL_KSPECIAL_BDIM_X)),
                      special(d, FL_KSPECIAL_TID_X));
  kx_set(d, &body, g->element, fl_kexpr_cast(d->a, FL_KT_I32, j));
  fl_kg_chains(g);
  fl_kg_bases(g, &body);
  for (int v = 0; v < g->src->n_vars && !d->a->failed; v++)
    if (g->taken[v]) gather_array(g, &body, v);
  if (d->a->failed) return NULL;
  d->f->body = body;
  d->f->max_threads = 0;
  fl_kad_tidy(d);
  d->f->name = fl_karena_printf(d->a, "%s_gather", g->src->name);
  if (!d->a->failed) fl_kpass_done("gathering", d->f, d->f->body);
  settle(d, n_params, 1);
  d->res->gathered = fl_karena_new(d->a, (size_t)g->n_sums * sizeof *d->res->gathered);
  for (int i = 0; i < g->n_sums && d->res->gathered; i++) {
    const fl_kstmt *s = g->sum[i].s;
    if (g->taken[s->var])
      d->res->gathered[d->res->n_gather++]
        = (struct fl_kad_sum){s->line, g->from->params[g->src->vars[s->var].param].param};
  }
  return d->a->failed ? NULL : d->res;
}

static fl_kblock without(const uint8_t *taken, fl_kblock b) {
  fl_kblock out = {0};
  for (fl_kstmt *s; (s = fl_kblock_take(&b));) {
    if (fl_kwrites(s) && taken[s->var]) continue;
    s->body = without(taken, s->body);
    s->other = without(taken, s->other);
    fl_kblock_put(&out, s);
  }
  return out;
}

/* The adjoint without the sums that are gathered; NULL: it computes nothing. */
static fl_kad *make_rest(fl_kgathering *g, int n_params) {
  fl_kad_state *d = &g->d;
  if (!begin(g)) return NULL;
  fl_kad_param *params = d->res->params;
  *d->res = *g->from;
  d->res->params = params;
  d->f->body = without(g->taken, d->f->body);
  fl_kad_tidy(d);
  if (!d->a->failed) fl_kpass_done("gathering of the rest", d->f, d->f->body);
  for (int i = 0; i < g->n_sums; i++) {
    const fl_kstmt *s = g->sum[i].s;
    if (!g->taken[s->var]) continue;
    d->res->n_atomic -= s->kind == FL_KS_ATOMIC;
    d->res->n_plain -= s->kind == FL_KS_STORE;
  }
  return !d->a->failed && settle(d, n_params, 0) && !d->a->failed ? d->res : NULL;
}

/* ---- is it right, is it worth it -------------------------------------------------------- */

typedef struct measure {
  int64_t weight; int loops, arrays; const fl_kfunc *f;
} measure;

/* Adds to the measure about how many GPU instructions x takes, without its operands. */
static int weigh(void *arg, fl_kexpr *x) {
  measure *m = arg;
  const int real = fl_kt_is_float(x->type);
  switch (x->kind) {
  case FL_KX_LOAD:
    m->weight += 4;
    m->arrays |= m->f->vars[x->var].kind == FL_KV_ARRAY && m->f->vars[x->var].param < 0;
    break;
  case FL_KX_BINARY:
    if (x->op == FL_KO_DIV || x->op == FL_KO_REM)
      m->weight += real ? 8 : x->x[1]->kind == FL_KX_CONST ? 4 : 20;
    else m->weight += 1;
    break;
  case FL_KX_CALL: m->weight += fl_kt_is_int(x->type) ? 1 : 16; break;
  case FL_KX_UNARY: case FL_KX_SELECT: m->weight += 1; break;
  default: break;
  }
  return 1;
}

static int weigh_stmt(void *arg, fl_kstmt *s) {
  measure *m = arg;
  m->weight += s->kind == FL_KS_IF;
  m->loops += s->kind == FL_KS_LOOP && !s->op;
  return 1;
}

static measure measure_of(const fl_kfunc *f) {
  measure m = {.f = f};
  fl_kwalk_block(&(fl_kvisitor){weigh_stmt, weigh, &m}, f->body);
  return m;
}

/* Does the gather kernel read only memory that the adjoint does not write? It may also read given
** cotangents (the adjoint overwrites only its copy of them) of an array of which the adjoint reads
** no cotangent after it has written one. */
static int reads_inputs(fl_kgathering *g) {
  fl_kad_touched now;
  if (!fl_kad_find_touched(&g->d, &now)) return 0;
  for (int v = 0; v < g->src->n_vars; v++) {
    const fl_kvar *x = &g->src->vars[v];
    if (x->kind != FL_KV_POINTER || !g->assigned[v]) continue;
    const fl_kad_param *p = &g->from->params[x->param];
    if (p->role == FL_KAD_WORK && p->seeded && !g->late[v]) continue;
    for (int w = 0; w < g->d.f->n_vars; w++)
      if (g->d.f->vars[w].kind == FL_KV_POINTER && g->d.f->vars[w].param == x->param && now.read[w])
        return 0;
  }
  return 1;
}

/* How many threads have the same digits: their atomics are done one after the other. */
static int64_t threads_of(const fl_kdigits *x) {
  int64_t n = 1;
  for (int i = 0; i < x->n; i++) n *= x->by[i];
  return n;
}

/* May the gather kernel replace the sums (reads_inputs), and is it no slower than the adjoint with
** its atomics? Loops that could not be written out count as too expensive: a gather would run them
** once per site. */
static int is_worth_it(fl_kgathering *g) {
  const measure m = measure_of(g->d.f), before = measure_of(g->src);
  int64_t atomics = 0;
  for (int i = 0; i < g->n_sums; i++)
    if (g->taken[g->sum[i].s->var] && g->sum[i].s->kind == FL_KS_ATOMIC)
      atomics += threads_of(&g->site[g->sum[i].site].digits);
  const int64_t sums = atomics * (g->d.r->deterministic ? ORDERED_WEIGHT : ATOMIC_WEIGHT);
  const int64_t other = sums + (before.weight > FREE_WEIGHT ? before.weight : FREE_WEIGHT);
  return !m.loops && !m.arrays && m.weight <= MOST_WEIGHT && m.weight <= other
      && g->d.f->n_params <= MOST_PARAMS && reads_inputs(g);
}

static fl_kad_parts inverted(fl_karena *a, const fl_kfunc *f, const fl_kad *adjoint,
                             const fl_kad_request *r) {
  fl_kad_parts parts = {NULL, NULL};
  fl_kgathering g = {.d = {.a = a, .r = r, .shared_offset = -1}, .from = adjoint,
                     .src = adjoint->func};
  for (int i = 0; g.src && i < adjoint->n_params; i++)     /* lists are of one thread (ad_list.c) */
    if (adjoint->params[i].role == FL_KAD_KEPT && adjoint->params[i].count > 1) return parts;
  if (!g.src || !look(&g)) return parts;
  g.k = fl_kindices_new(a->mem, g.src, r->geometry);
  fl_klimits limits = adjoint->limits;
  if (g.k) fl_kindices_launch(g.k, r->launched, &limits);
  if (g.k && choose(&g)) {
    parts.gather = make_gather(&g, f->n_params);
    if (parts.gather && !is_worth_it(&g)) parts.gather = NULL;
    if (parts.gather) parts.gather->limits = limits, parts.rest = make_rest(&g, f->n_params);
  }
  if (!fl_kindices_free(g.k) && !a->failed) a->failed = FL_KARENA_MEMORY;
  if (a->failed) parts.gather = parts.rest = NULL;
  return parts;
}

/* f with short loops written out and indices at a border split into cases; NULL: neither applies,
** or memory is out. */
static fl_kfunc *rewritten(fl_karena *a, const fl_kfunc *f, const fl_kad_request *r,
                           uint8_t **positive) {
  fl_kfunc *flat = fl_kunroll(a, f, MOST_WRITTEN), *g = flat ? flat : fl_kfunc_clone(a, f);
  *positive = fl_karena_new(a, (size_t)f->n_params + 1);
  if (!g || !*positive) return NULL;
  return fl_kpieces(g, r->geometry, *positive) || flat ? g : NULL;
}

fl_kad_parts fl_kad_gather(fl_karena *a, const fl_kfunc *f, const fl_kad *adjoint,
                           const fl_kad_request *r) {
  fl_kad_parts parts = inverted(a, f, adjoint, r);
  uint8_t *positive = NULL;
  fl_kfunc *g = parts.gather || a->failed ? NULL : rewritten(a, f, r, &positive);
  const fl_kad *other = g ? fl_kad_adjoint(a, g, r) : NULL;
  if (other && other->func) parts = inverted(a, g, other, r);
  for (int i = 0; parts.gather && g && i < f->n_params; i++)
    if (positive[i]) parts.gather->positive = positive;
  if (parts.gather) fl_kad_sum_lanes(a, parts.gather->func, -1);
  if (parts.rest) fl_kad_sum_lanes(a, parts.rest->func, -1);
  if (a->failed) parts.gather = parts.rest = NULL;
  fl_kad_tell("gather", f, r, parts.gather);
  fl_kad_tell("rest", f, r, parts.rest);
  /* a gather that is too large is no failure: the adjoint is used as it is */
  if (a->failed == FL_KARENA_DEEP || a->failed == FL_KARENA_LARGE) a->failed = 0;
  return parts;
}
