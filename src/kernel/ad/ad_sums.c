/*
** Sums that a loop of the derivative adds to one element. The adjoint of
**   for (int j = 0; j < n; j++) s += w[i] * x[j];
** adds to grad_w[i] in each iteration. Where neither the index nor any variable in it changes in
** the loop, and the loop does nothing else with the array, the thread sums in a register and adds
** once:
**   r = 0; for (…) { …; r += d_s * x[j]; }  if (r != 0) grad_w[i] += r;
** A sum of 0 is not added, so an element that no iteration has reached is not touched (NaN != 0). A
** sum into memory that is read later does not move over a barrier.
*/
#include "kernel/ad/ad_state.h"

enum { MOST_SUMS = 16, MOST_NODES = 64 };

typedef struct sum { const fl_kstmt *of; fl_kexpr *index; int32_t reg; } sum;

typedef struct sums {
  fl_kad_state *d;
  fl_kdefs *defs;                /* of the adjoint */
  const fl_kexpr **value;       /* by variable: the value that the loop assigns to it; NULL: none */
  uint8_t *busy;                 /* by variable: the loop assigns different values to it or, if it
                                 ** is an array, does more than add to it */
  int n_vars, nodes;             /* nodes: how many of one index were looked at so far */
  int waits, leaves;             /* the loop has barriers, shuffles or votes; a return */
  sum at[MOST_SUMS];
  int n;
} sums;

/* ---- what a loop does ------------------------------------------------------------------- */

static int is_sum(const fl_kad_state *d, const fl_kstmt *s) {
  if (s->kind == FL_KS_STORE ? !s->accumulate
                             : s->kind != FL_KS_ATOMIC || s->op != FL_KA_ADD || s->result >= 0 ||
                               s->as || s->mode == FL_KM_BLOCK)
    return 0;
  const fl_kvar *x = &d->f->vars[s->var];
  return (x->kind == FL_KV_POINTER || (x->kind == FL_KV_SHARED && !x->dynamic)) &&
         fl_kt_is_float(x->type) && x->type == s->x[1]->type;
}

static int see_statement(void *arg, fl_kstmt *s) {
  sums *l = arg;
  if (s->kind == FL_KS_ASSIGN && s->var < l->n_vars) {
    const fl_kexpr *old = l->value[s->var];
    l->busy[s->var] |= old && !fl_kexpr_same(old, s->x[0]);
    l->value[s->var] = s->x[0];
  }
  if (s->result >= 0) l->busy[s->result] = 1;
  if (fl_kwrites(s) && !is_sum(l->d, s)) l->busy[s->var] = 1;
  l->waits |= s->kind == FL_KS_BARRIER || s->kind == FL_KS_SHUFFLE || s->kind == FL_KS_VOTE;
  l->leaves |= s->kind == FL_KS_RETURN;
  return 1;
}

static int see_load(void *arg, fl_kexpr *x) {
  if (x->kind == FL_KX_LOAD) ((sums *)arg)->busy[x->var] = 1;
  return 1;
}

/* ---- an index expressed by values that the loop does not change -------------------------- */

static fl_kexpr *fixed(void *sums, fl_kexpr *x);

/* The value that the loop assigns to variable v, if the kernel gives v no other value, in terms of
** what the loop does not change; else NULL. */
static fl_kexpr *fixed_variable(sums *l, int v) {
  const fl_kexpr *only = fl_kdef_only(v < l->d->n0 ? l->d->defs : l->defs, v);
  if (!only || !l->value[v] || l->busy[v] || !fl_kexpr_same(only, l->value[v])) return NULL;
  return fixed(l, (fl_kexpr *)(uintptr_t)only);
}

/* x, or the same value without the variables that the loop assigns; NULL: the loop may change it.
** Real numbers are not computed again: their last bits could differ. */
static fl_kexpr *fixed(void *of, fl_kexpr *x) {
  sums *l = of;
  if (++l->nodes > MOST_NODES) return NULL;
  if (x->kind == FL_KX_VAR)
    return l->value[x->var] || l->busy[x->var] ? fixed_variable(l, x->var) : x;
  if (fl_kt_is_float(x->type)) return NULL;
  if (x->kind == FL_KX_LOAD && l->defs->var[x->var].count) return NULL;
  return fl_kexpr_mapped(l->d->a, x, fixed, l);
}

/* ---- rewriting -------------------------------------------------------------------------- */

/* May other code read the array before the kernel ends? */
static int is_read(const fl_kad_state *d, int v) {
  const fl_kvar *x = &d->f->vars[v];
  return x->kind != FL_KV_POINTER || x->param < 0 || d->res->params[x->param].role != FL_KAD_GRAD;
}

/* The record of the sum that s adds to the element 'index', which is made if there is none; NULL:
** there are too many sums, or no memory. */
static sum *sum_of(sums *l, const fl_kstmt *s, fl_kexpr *index) {
  fl_kad_state *d = l->d;
  for (int i = 0; i < l->n; i++) {
    const fl_kstmt *of = l->at[i].of;
    if (of->var == s->var && of->kind == s->kind && of->mode == s->mode &&
        fl_kexpr_same(l->at[i].index, index))
      return &l->at[i];
  }
  fl_kstmt *of = l->n < MOST_SUMS ? fl_karena_new(d->a, sizeof *of) : NULL;
  const char *name = of ? fl_kad_name(d, "sum_", s->var) : NULL;
  const int reg = fl_kad_local(d, d->f->vars[s->var].type, name);
  if (!of || reg < 0) return NULL;
  *of = *s;
  fl_kad_chose(d, s->line, s->var, "summed in a register through the loop");
  l->at[l->n] = (sum){ of, index, reg };
  return &l->at[l->n++];
}

static int see_sum(void *arg, fl_kstmt *s) {
  sums *l = arg;
  fl_kad_state *d = l->d;
  if (!is_sum(d, s) || l->busy[s->var] || (l->waits && is_read(d, s->var))) return 1;
  l->nodes = 0;
  fl_kexpr *index = fixed(l, s->x[0]);
  const sum *to = index ? sum_of(l, s, index) : NULL;
  if (!to) return 1;
  s->kind = FL_KS_ASSIGN;
  s->x[0] = kx_op(d, FL_KO_ADD, kx_var(d, to->reg), s->x[1]);
  s->x[1] = NULL;
  s->var = to->reg;
  s->site = -1;
  s->op = s->mode = s->accumulate = 0;
  return 1;
}

static void sum_in_loop(sums *l, fl_kstmt *s, fl_kblock *before, fl_kblock *after) {
  fl_kad_state *d = l->d;
  const fl_kvisitor look = { see_statement, see_load, l }, rewrite = { see_sum, NULL, l };
  memset(l->value, 0, (size_t)l->n_vars * sizeof *l->value);
  memset(l->busy, 0, (size_t)l->n_vars);
  l->n = l->waits = l->leaves = 0;
  fl_kwalk_stmt(&look, s);
  if (!l->leaves) fl_kwalk_stmt(&rewrite, s);
  for (int i = 0; i < l->n; i++) {
    const sum *x = &l->at[i];
    fl_kexpr *zero = fl_kexpr_zero(d->a, d->f->vars[x->reg].type);
    kx_set(d, before, x->reg, zero);
    fl_kstmt *c = fl_kstmt_if(d->f, after, kx_op(d, FL_KO_NE, kx_var(d, x->reg), zero));
    fl_kstmt *add = c ? fl_kad_copy(d, &c->body, x->of) : NULL;
    if (add) add->x[0] = x->index, add->x[1] = kx_var(d, x->reg);
  }
}

static fl_kblock walk(sums *l, fl_kblock b) {
  fl_kblock out = { NULL, NULL };
  for (fl_kstmt *s; !l->d->a->failed && (s = fl_kblock_take(&b));) {
    fl_kblock after = { NULL, NULL };
    if (s->kind == FL_KS_LOOP) sum_in_loop(l, s, &out, &after);
    s->body = walk(l, s->body);
    s->other = walk(l, s->other);
    fl_kblock_put(&out, s);
    fl_kblock_append(&out, after);
  }
  return out;
}

void fl_kad_sum_loops(fl_kad_state *d) {
  sums l = { .d = d, .n_vars = d->f->n_vars };         /* the registers are beyond these */
  l.defs = fl_kdefs_new(d->a, d->f, d->body);
  l.value = fl_karena_new(d->a, ((size_t)l.n_vars + 1) * sizeof *l.value);
  l.busy = fl_karena_new(d->a, (size_t)l.n_vars + 1);
  if (!l.defs || !l.value || !l.busy) return;
  d->body = d->f->body = walk(&l, d->body);
}
