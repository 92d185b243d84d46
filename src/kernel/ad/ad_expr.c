/*
** The adjoint of an expression: d(value) flows to the variables and loads in it.
**
** First the values that the partial derivatives need are put into variables, bottom up and each
** subexpression once ('seen'); then the derivative is passed down. The arms of a SELECT are
** computed inside an IF, so that guarded loads stay guarded and the arm not chosen adds no NaN.
** Derivatives of halves are computed in F32.
*/
#include "kernel/ad/ad_state.h"
#include "kernel/ad/partial.h"
#include <math.h>

typedef struct fl_kad_seen { const fl_kexpr *x; int32_t var; struct fl_kad_seen *next; } seen;

/* A subexpression x of the source. */
typedef struct part {
  const fl_kexpr *x;
  fl_kexpr *value;           /* its value in the derived kernel; NULL: not needed */
  struct part *kid[FL_K_MAX_ARGS];   /* its operands; NULL: not needed */
  int active;                /* does a derivative flow to it? */
} part;

static int is_leaf(const fl_kexpr *x) {
  return x->kind == FL_KX_VAR || x->kind == FL_KX_CONST || x->kind == FL_KX_SPECIAL;
}

/* Is x so cheap that it is evaluated again rather than kept in a variable? Leaves are, and short
** integer expressions of casts, +, - and *. */
static int is_cheap(const fl_kexpr *x) {
  if (is_leaf(x)) return 1;
  if (!fl_kt_is_int(x->type)) return 0;
  if (x->kind == FL_KX_CAST) return fl_kt_is_int(x->x[0]->type) && is_cheap(x->x[0]);
  return x->kind == FL_KX_BINARY && x->depth <= 3 && x->op <= FL_KO_MUL && is_cheap(x->x[0])
      && is_cheap(x->x[1]);
}

/* A new variable, set to x; NULL: no memory. */
static fl_kexpr *in_variable(fl_kad_state *d, fl_kblock *b, fl_kexpr *x) {
  const int v = x ? fl_ktemp(d->f, x->type) : -1;
  if (v < 0) return NULL;
  kx_set(d, b, v, x);
  return kx_var(d, v);
}

/* The variable that holds the value of the source expression x: an earlier one where x has been
** seen, else a new one, set to 'value'. */
static fl_kexpr *keep(fl_kad_state *d, fl_kblock *b, const fl_kexpr *x, fl_kexpr *value) {
  for (const seen *s = d->seen; s; s = s->next)
    if (fl_kexpr_same(s->x, x)) return kx_var(d, s->var);
  fl_kexpr *var = in_variable(d, b, value);
  seen *s = var ? fl_karena_new(d->a, sizeof *s) : NULL;
  if (!s) return NULL;
  *s = (seen){x, var->var, d->seen};
  d->seen = s;
  return var;
}

fl_kexpr *fl_kad_atom(fl_kad_state *d, fl_kblock *b, fl_kexpr *x) {
  return !x || is_leaf(x) ? x : in_variable(d, b, x);
}

/* A copy of p->x whose operands are replaced by the variables that hold their values. */
static fl_kexpr *again(fl_kad_state *d, const part *p) {
  fl_kexpr *x[FL_K_MAX_ARGS];
  for (int i = 0; i < p->x->n; i++) x[i] = p->kid[i] ? p->kid[i]->value : p->x->x[i];
  return fl_kexpr_over(d->a, p->x, x);
}

/* Puts into variables the values in x that its adjoint reads, and with 'need' the value of x. */
static part *prepare(fl_kad_state *d, fl_kblock *b, const fl_kexpr *x, int need) {
  part *p = fl_karena_new(d->a, sizeof *p);
  int active[FL_K_MAX_ARGS] = {0};
  if (!p || d->a->failed) return NULL;
  p->x = x;
  p->active = fl_kad_flows(d->active, x);
  fl_kexpr *self = (fl_kexpr *)(uintptr_t)x;          /* shared, never changed */
  if (is_leaf(x) || (!p->active && is_cheap(x))) {
    p->value = self;
    return p;
  }
  if (!p->active || x->kind == FL_KX_SELECT) {
    if (need) p->value = keep(d, b, x, self);
    if (p->active && x->kind == FL_KX_SELECT) p->kid[0] = prepare(d, b, x->x[0], 1);
    return p;
  }
  for (int i = 0; i < x->n; i++) active[i] = fl_kad_flows(d->active, x->x[i]);
  for (int i = 0; i < x->n; i++)
    if (!(p->kid[i] = prepare(d, b, x->x[i], need || fl_kad_uses(x, i, active)))) return NULL;
  if (need) p->value = keep(d, b, x, again(d, p));
  return p;
}

/* ---- sums into shadows ------------------------------------------------------------------ */

fl_kexpr *fl_kad_at(fl_kad_state *d, int var, fl_kexpr *index) {
  const fl_kvar *v = &d->f->vars[var];
  if (!v->dynamic) return index;
  fl_kexpr *region = kx_op(d, FL_KO_DIV, kx_var(d, d->shared_offset),
                           kx_int(d, fl_kt_size(fl_kad_type(v->type))));
  if (d->halves && !fl_kt_is_half(v->type)) region = kx_op(d, FL_KO_MUL, region, kx_int(d, 3));
  return kx_op(d, FL_KO_ADD, index, region);
}

/* Gives s, a sum into the gradient of the element that x loads, the line of x, for messages. */
static void at_line(fl_kstmt *s, const fl_kexpr *x) {
  if (s && x->line) s->line = x->line;
}

/* Adds seed to the variable in which one round of the reverse code hands it to the next. */
static void carry(fl_kad_state *d, fl_kblock *b, const fl_kad_carry *c, const fl_kexpr *x,
                  fl_kexpr *seed) {
  fl_kad_chose(d, x->line, x->var, "handed to the next round in a register");
  kx_set(d, b, c->reg, kx_op(d, FL_KO_ADD, kx_var(d, c->reg),
                             fl_kexpr_cast(d->a, d->f->vars[c->reg].type, seed)));
}

/* Adds seed to element 'index' of array 'to', to which no other thread adds. With how STORE it is
** stored, if the array is a gradient that holds nothing yet; else added. */
static void add_alone(fl_kad_state *d, fl_kblock *b, const fl_kexpr *x, int how, int to,
                      fl_kexpr *index, fl_kexpr *seed) {
  const int p = d->f->vars[to].param;
  if (how == FL_KAD_ADD_STORE && p >= 0 && d->res->params[p].role == FL_KAD_GRAD) {
    d->res->params[p].stores = 1;
    at_line(fl_kstmt_store(d->f, b, to, index, seed), x);
  } else {
    at_line(fl_kstmt_accumulate(d->f, b, to, index, seed), x);
  }
  d->res->n_plain += d->f->vars[x->var].kind == FL_KV_POINTER;
}

static void add_element(fl_kad_state *d, fl_kblock *b, const fl_kexpr *x, fl_kexpr *index,
                        fl_kexpr *seed) {
  const int v = x->var, to = d->shadow[v], kind = d->f->vars[v].kind;
  const fl_kad_carry *c = fl_kad_carry_of_load(d, x);
  if (c) carry(d, b, c, x, seed);
  if (to < 0 || c) return;
  const int work = kind == FL_KV_POINTER && fl_kad_written(d, v);
  int how = kind == FL_KV_ARRAY ? FL_KAD_ADD_PLAIN : FL_KAD_ADD_ATOMIC;
  int mode = d->r->deterministic ? FL_KM_ORDERED : FL_KM_FREE;
  if (x->site >= 0 && x->site < d->n_sites0 && kind != FL_KV_ARRAY) {
    const int class = fl_kfact_of(d->facts, x->site)->class;
    how = d->site_add[x->site];
    if (kind == FL_KV_POINTER && !work && d->top && class <= FL_KI_UNIFORM_BLOCK
        && class != FL_KI_OTHER) how = FL_KAD_ADD_BLOCK;
  }
  static const char *const said[] = { "plain sum", "sum of the block, then one atomic",
                                      "atomic sum", "stored, the only sum" };
  fl_kad_chose(d, x->line, v, "%s", said[how]);
  seed = fl_kexpr_cast(d->a, d->f->vars[to].type, seed);
  index = fl_kad_at(d, v, index);
  if (how == FL_KAD_ADD_PLAIN || how == FL_KAD_ADD_STORE) {
    add_alone(d, b, x, how, to, index, seed);
    return;
  }
  if (kind == FL_KV_SHARED || work) {          /* this launch reads the shadow (derivatives) again,
                                               ** but ordered sums are known only after it */
    if (mode == FL_KM_ORDERED && !d->res->unordered_line)
      d->res->unordered_line = x->line ? x->line : 1;
    mode = FL_KM_FREE;
  }
  if (how == FL_KAD_ADD_BLOCK) mode = FL_KM_BLOCK;
  d->res->n_block += mode == FL_KM_BLOCK;
  d->res->n_atomic += mode != FL_KM_BLOCK;
  at_line(fl_kstmt_atomic(d->f, b, FL_KA_ADD, mode, to, index, seed, -1), x);
}

static void add_variable(fl_kad_state *d, fl_kblock *b, int var, fl_kexpr *seed) {
  const int to = d->shadow[var];
  if (to < 0) return;
  seed = fl_kexpr_cast(d->a, d->f->vars[to].type, seed);
  kx_set(d, b, to, kx_op(d, FL_KO_ADD, kx_var(d, to), seed));
}

/* ---- passing down ----------------------------------------------------------------------- */

fl_kexpr *fl_kad_slope(fl_kad_state *d, const fl_kexpr *x, const fl_kexpr *call, int i,
                       fl_kexpr *r) {
  const fl_kbuiltin_info *of = &fl_kbuiltins[x->op];
  fl_kexpr *slope = call ? fl_kbuiltin_partial(d->a, call, i, r) : NULL;
  if (!slope) fl_kad_refuse(d, x->line, "%s()", of->name64[0] ? of->name64 : of->name32);
  return slope;
}

static void pass(fl_kad_state *d, fl_kblock *b, const part *p, fl_kexpr *seed);

/* Is 0 op x certainly 0, for a real number x? */
static int keeps_zero(int op, const fl_kexpr *x) {
  return x->kind == FL_KX_CONST && isfinite(x->value.d) && (op == FL_KO_MUL || x->value.d != 0);
}

/* seed op x, where op is MUL or DIV; with d->strong: 0 where seed is 0, also if seed op x would be
** NaN. seed: an expression cheap enough to appear twice. */
static fl_kexpr *scaled(fl_kad_state *d, int op, fl_kexpr *seed, fl_kexpr *x) {
  fl_kexpr *r = kx_op(d, op, seed, x);
  return !d->strong || !r || keeps_zero(op, x) ? r : kx_unless_zero(d, seed, r);
}

static void arm(fl_kad_state *d, fl_kblock *b, const fl_kexpr *x, fl_kexpr *seed) {
  seen *outer = d->seen;
  const int top = d->top;
  d->top = 0;
  part *p = prepare(d, b, x, 0);
  if (p) pass(d, b, p, seed);
  d->top = (uint8_t)top;
  d->seen = outer;
}

static void pass_select(fl_kad_state *d, fl_kblock *b, const part *p, fl_kexpr *seed) {
  fl_kstmt *s = fl_kstmt_if(d->f, b, p->kid[0] ? p->kid[0]->value : NULL);
  if (!s) return;
  if (fl_kad_flows(d->active, p->x->x[1])) arm(d, &s->body, p->x->x[1], seed);
  if (fl_kad_flows(d->active, p->x->x[2])) arm(d, &s->other, p->x->x[2], seed);
  fl_kstmt_set_upright(d->a, s);
}

static void pass_call(fl_kad_state *d, fl_kblock *b, const part *p, fl_kexpr *seed) {
  const fl_kexpr *x = p->x;
  fl_kexpr *at[FL_K_MAX_ARGS] = {0};
  const int linear = x->op == FL_KB_ADD_RN || x->op == FL_KB_SUB_RN || x->op == FL_KB_FMA
                  || x->op == FL_KB_MUL_RN;
  fl_kexpr *call = NULL, *r = NULL;
  if (!linear) {
    for (int i = 0; i < x->n; i++) at[i] = fl_kad_atom(d, b, p->kid[i]->value);
    call = fl_kexpr_call(d->a, x->op, x->type, x->n, at);
    r = p->value ? p->value : keep(d, b, x, call);
  }
  for (int i = 0; i < x->n && !fl_kad_dead(d); i++) {
    if (!p->kid[i]->active) continue;
    fl_kexpr *g = seed;
    if (linear) {
      if (x->op == FL_KB_SUB_RN && i == 1) g = fl_kexpr_unary(d->a, FL_KO_NEG, seed);
      if ((x->op == FL_KB_FMA || x->op == FL_KB_MUL_RN) && i < 2)
        g = scaled(d, FL_KO_MUL, seed, p->kid[1 - i]->value);
    } else {
      fl_kexpr *slope = fl_kad_slope(d, x, call, i, r);
      if (!slope) return;
      if (slope->kind == FL_KX_CONST && slope->value.d == 0) continue;
      if (slope->kind != FL_KX_CONST || slope->value.d != 1)
        g = scaled(d, FL_KO_MUL, seed, kx_real(d, slope));
      if (g != seed && fl_kad_chooses(x)) g = kx_unless_zero(d, slope, g);   /* infinite * 0: 0 */
    }
    const uint8_t strong = d->strong;
    d->strong |= (uint8_t)fl_kad_chooses(x);
    pass(d, b, p->kid[i], g);
    d->strong = strong;
  }
}

static void pass_binary(fl_kad_state *d, fl_kblock *b, const part *p, fl_kexpr *seed) {
  const part *l = p->kid[0], *r = p->kid[1];
  switch (p->x->op) {
  case FL_KO_ADD: case FL_KO_SUB:
    if (l->active) pass(d, b, l, seed);
    if (r->active)
      pass(d, b, r, p->x->op == FL_KO_ADD ? seed : fl_kexpr_unary(d->a, FL_KO_NEG, seed));
    return;
  case FL_KO_MUL:
    if (l->active) pass(d, b, l, scaled(d, FL_KO_MUL, seed, kx_real(d, r->value)));
    if (r->active) pass(d, b, r, scaled(d, FL_KO_MUL, seed, kx_real(d, l->value)));
    return;
  case FL_KO_DIV: {
    fl_kexpr *t = fl_kad_atom(d, b, scaled(d, FL_KO_DIV, seed, kx_real(d, r->value)));
    if (l->active) pass(d, b, l, t);
    if (r->active) {
      fl_kexpr *q = kx_op(d, FL_KO_DIV, kx_real(d, l->value), kx_real(d, r->value));
      pass(d, b, r, fl_kexpr_unary(d->a, FL_KO_NEG, scaled(d, FL_KO_MUL, t, q)));
    }
    return;
  }
  default: return;
  }
}

/* Passes the derivative 'seed' down to the operands of p->x, or to its shadow if it is a variable
** or a load. seed: any expression of type fl_kad_type(p->x->type). */
static void pass(fl_kad_state *d, fl_kblock *b, const part *p, fl_kexpr *seed) {
  const fl_kexpr *x = p->x;
  if (!seed || !p->active || fl_kad_dead(d)) return;
  if (x->kind == FL_KX_VAR) {
    add_variable(d, b, x->var, seed);
    return;
  }
  if (x->kind == FL_KX_LOAD) {
    add_element(d, b, x, p->kid[0]->value, seed);
    return;
  }
  seed = fl_kad_atom(d, b, seed);
  switch (x->kind) {
  case FL_KX_UNARY: pass(d, b, p->kid[0], fl_kexpr_unary(d->a, FL_KO_NEG, seed)); return;
  case FL_KX_CAST:
    pass(d, b, p->kid[0], fl_kexpr_cast(d->a, fl_kad_type(x->x[0]->type), seed));
    return;
  case FL_KX_SELECT: pass_select(d, b, p, seed); return;
  case FL_KX_CALL: pass_call(d, b, p, seed); return;
  case FL_KX_BINARY: pass_binary(d, b, p, seed); return;
  default: return;
  }
}

void fl_kad_expr_of(fl_kad_state *d, fl_kblock *b, const fl_kexpr *x, fl_kexpr *result,
                    fl_kexpr *seed) {
  if (!seed || !fl_kad_flows(d->active, x) || fl_kad_dead(d)) return;
  d->seen = NULL;
  seed = fl_kexpr_cast(d->a, fl_kad_type(x->type), seed);
  part *p = prepare(d, b, x, 0);
  if (p && result && x->kind == FL_KX_CALL) p->value = keep(d, b, x, result);
  if (p) pass(d, b, p, seed);
}

void fl_kad_expr(fl_kad_state *d, fl_kblock *b, const fl_kexpr *x, fl_kexpr *seed) {
  fl_kad_expr_of(d, b, x, NULL, seed);
}
