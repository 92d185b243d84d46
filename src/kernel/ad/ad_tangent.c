/*
** Forward mode. Before each statement on active numbers comes the statement for the tangents, which
** reads the same values. The control flow is that of the source, jumps included. The tangent of a
** SELECT is computed in an IF with the arms' tangents as branches, so guarded loads stay guarded.
** PRINTF and ASSERT are dropped.
*/
#include "kernel/ad/ad_copies.h"
#include "kernel/ad/ad_state.h"
#include "kernel/ad/ad_swap.h"

static fl_kexpr *tangent(fl_kad_state *d, fl_kblock *b, fl_kexpr *x);

/* x + y where either may be zero (NULL). */
static fl_kexpr *sum(fl_kad_state *d, fl_kexpr *x, fl_kexpr *y) {
  return !x ? y : !y ? x : kx_op(d, FL_KO_ADD, x, y);
}

static fl_kexpr *negative(fl_kad_state *d, fl_kexpr *x) {
  return x ? fl_kexpr_unary(d->a, FL_KO_NEG, x) : NULL;
}

static fl_kexpr *times(fl_kad_state *d, fl_kexpr *t, fl_kexpr *x) {
  return t ? kx_op(d, FL_KO_MUL, t, kx_real(d, x)) : NULL;
}

/* Does the function have finite values at points where its slope is infinite? */
static int has_steep_ends(int op) {
  return op == FL_KB_SQRT || op == FL_KB_CBRT || op == FL_KB_POW || op == FL_KB_FAST_POW ||
         op == FL_KB_ASIN
      || op == FL_KB_ACOS || op == FL_KB_ACOSH;
}

/* t times the slope. For a function with steep ends, 0 where t is 0 and the slope is not finite
** (the product would be NaN): an operand whose tangent is 0 has no effect. */
static fl_kexpr *along_slope(fl_kad_state *d, fl_kblock *b, fl_kexpr *t, fl_kexpr *slope, int op) {
  if (!t || !slope || slope->kind == FL_KX_CONST || !has_steep_ends(op)) return times(d, t, slope);
  t = fl_kad_atom(d, b, t);
  slope = fl_kad_atom(d, b, slope);
  if (!t || !slope) return NULL;
  fl_kexpr *moves = kx_op(d, FL_KO_NE, t, fl_kexpr_zero(d->a, t->type));
  fl_kexpr *use = kx_op(d, FL_KO_LOR, moves,
                        fl_kexpr_call(d->a, FL_KB_ISFINITE, FL_KT_BOOL, 1, &slope));
  return times(d, t, fl_kexpr_select(d->a, use, slope, fl_kexpr_zero(d->a, slope->type)));
}

static fl_kexpr *of_select(fl_kad_state *d, fl_kblock *b, fl_kexpr *x) {
  const int type = fl_kad_type(x->type), t = fl_ktemp(d->f, type);
  fl_kstmt *s = fl_kstmt_if(d->f, b, x->x[0]);
  if (!s || t < 0) return NULL;
  for (int i = 1; i < 3; i++) {
    fl_kblock *arm = i == 1 ? &s->body : &s->other;
    fl_kexpr *g = fl_kad_flows(d->active, x->x[i]) ? tangent(d, arm, x->x[i]) : NULL;
    kx_set(d, arm, t, g ? g : fl_kexpr_zero(d->a, type));
  }
  return kx_var(d, t);
}

static fl_kexpr *of_call(fl_kad_state *d, fl_kblock *b, fl_kexpr *x) {
  fl_kexpr *at[FL_K_MAX_ARGS] = {0}, *all = NULL;
  if (x->op == FL_KB_FMA || x->op == FL_KB_MUL_RN) {
    fl_kexpr *p = times(d, tangent(d, b, x->x[0]), x->x[1]);
    p = sum(d, p, times(d, tangent(d, b, x->x[1]), x->x[0]));
    return x->op == FL_KB_FMA ? sum(d, p, tangent(d, b, x->x[2])) : p;
  }
  for (int i = 0; i < x->n; i++) at[i] = fl_kad_atom(d, b, x->x[i]);
  fl_kexpr *call = fl_kexpr_call(d->a, x->op, x->type, x->n, at);
  fl_kexpr *r = fl_kad_atom(d, b, call);
  for (int i = 0; i < x->n && call && !fl_kad_dead(d); i++) {
    if (!fl_kad_flows(d->active, x->x[i])) continue;
    fl_kexpr *slope = fl_kad_slope(d, x, call, i, r);
    if (!slope) return NULL;
    if (slope->kind == FL_KX_CONST && slope->value.d == 0) continue;
    fl_kexpr *g = tangent(d, b, x->x[i]);
    fl_kexpr *part = slope->kind == FL_KX_CONST && slope->value.d == 1 ? g
                   : along_slope(d, b, g, slope, x->op);
    /* the tangent of the operand not chosen may be NaN */
    if (part && fl_kad_chooses(x)) part = kx_unless_zero(d, slope, part);
    all = sum(d, all, part);
  }
  return all;
}

/* The tangent of x, NULL: zero. */
static fl_kexpr *tangent(fl_kad_state *d, fl_kblock *b, fl_kexpr *x) {
  if (!fl_kad_flows(d->active, x) || fl_kad_dead(d)) return NULL;
  switch (x->kind) {
  case FL_KX_VAR: return kx_var(d, d->shadow[x->var]);
  case FL_KX_LOAD: {
    fl_kexpr *g = fl_kexpr_load(d->f, d->shadow[x->var], fl_kad_at(d, x->var, x->x[0]));
    return g ? fl_kexpr_cast(d->a, fl_kad_type(x->type), g) : NULL;
  }
  case FL_KX_UNARY: return negative(d, tangent(d, b, x->x[0]));
  case FL_KX_CAST: {
    fl_kexpr *g = tangent(d, b, x->x[0]);
    return g ? fl_kexpr_cast(d->a, fl_kad_type(x->type), g) : NULL;
  }
  case FL_KX_SELECT: return of_select(d, b, x);
  case FL_KX_CALL: return of_call(d, b, x);
  default: break;
  }
  fl_kexpr *p = tangent(d, b, x->x[0]), *q = tangent(d, b, x->x[1]);
  switch (x->op) {
  case FL_KO_ADD: return sum(d, p, q);
  case FL_KO_SUB: return sum(d, p, negative(d, q));
  case FL_KO_MUL: return sum(d, times(d, p, x->x[1]), times(d, q, x->x[0]));
  case FL_KO_DIV: {                                   /* (p - q * (x / y)) / y */
    fl_kexpr *over = kx_real(d, x->x[1]);
    fl_kexpr *t = sum(d, p, negative(d, q ? kx_op(d, FL_KO_MUL, q, kx_real(d, x)) : NULL));
    return t ? kx_op(d, FL_KO_DIV, t, over) : NULL;
  }
  default: return NULL;
  }
}

/* The tangent of x converted to 'type'; a constant 0 if x has none. */
static fl_kexpr *value(fl_kad_state *d, fl_kblock *b, fl_kexpr *x, int type) {
  fl_kexpr *g = tangent(d, b, x);
  return g ? fl_kexpr_cast(d->a, type, g) : fl_kexpr_zero(d->a, type);
}

static void statement(fl_kad_state *d, fl_kblock *b, fl_kstmt *s) {
  const int to = fl_kad_target_of(s);
  const int shadow = to >= 0 && to < d->n0 ? d->shadow[to] : -1;
  if (shadow < 0 || !d->active[to]) return;
  const int type = d->f->vars[shadow].type;
  switch (s->kind) {
  case FL_KS_DECL: if (shadow != to) fl_kstmt_decl(d->f, b, shadow); return;
  case FL_KS_ASSIGN: kx_set(d, b, shadow, value(d, b, s->x[0], type)); return;
  case FL_KS_STORE: {
    fl_kexpr *g = value(d, b, s->x[1], type), *at = fl_kad_at(d, to, s->x[0]);
    fl_kstmt *r = fl_kstmt_store(d->f, b, shadow, at, g);
    if (r) r->accumulate = s->accumulate;
    return;
  }
  case FL_KS_ATOMIC: {
    if (s->op != FL_KA_ADD && s->op != FL_KA_SUB) {
      fl_kad_refuse(d, s->line, "an atomic operation other than add on '%s'",
                    d->f->vars[to].source);
      return;
    }
    fl_kexpr *g = value(d, b, s->x[1], type), *at = fl_kad_at(d, to, s->x[0]);
    fl_kstmt_atomic(d->f, b, s->op, s->mode, shadow, at, g, -1);
    return;
  }
  case FL_KS_SHUFFLE: {
    fl_kexpr *g = fl_kad_atom(d, b, value(d, b, s->x[1], type));
    fl_kstmt *r = fl_kstmt_new(d->a, b, FL_KS_SHUFFLE, s->line);
    if (!r) return;
    r->op = s->op;
    r->result = shadow;
    for (int i = 0; i < 4; i++) r->x[i] = i == 1 ? g : s->x[i];
    return;
  }
  default: return;
  }
}

static fl_kblock along(fl_kad_state *d, fl_kblock in) {
  fl_kblock out = {NULL, NULL};
  for (fl_kstmt *s; !fl_kad_dead(d) && (s = fl_kblock_take(&in));) {
    if (s->kind == FL_KS_PRINTF || s->kind == FL_KS_ASSERT) continue;
    statement(d, &out, s);
    s->body = along(d, s->body);
    s->other = along(d, s->other);
    fl_kblock_put(&out, s);
  }
  return out;
}

/* ---- parameters ------------------------------------------------------------------------- */

static void of_pointer(fl_kad_state *d, int v) {
  const fl_kvar x = d->f->vars[v];
  const int want = d->r->want[x.param], output = (want & FL_KAD_OUTPUT) && !x.is_const;
  const int result = fl_kad_written(d, v) || output;
  d->shadow[v] = fl_kad_param_new(d, result ? FL_KAD_TANGENT_RESULT : FL_KAD_TANGENT, v, "t_",
                                  fl_kad_type(x.type), 1, !result);
}

/* Makes the tangent of v, a scalar parameter or a member of a struct that is passed by value. The
** tangent of a scalar is a parameter too; that of an array is copied from a parameter into an
** array. If the request does not mark the parameter INPUT, the tangent begins as 0. */
static void of_value(fl_kad_state *d, int v, fl_kblock *b) {
  const fl_kvar x = d->f->vars[v];
  const int type = fl_kad_type(x.type), input = d->r->want[x.param] & FL_KAD_INPUT;
  if (x.kind == FL_KV_LOCAL && input) {
    d->shadow[v] = fl_kad_param_new(d, FL_KAD_TANGENT_SCALAR, v, "t_", type, 0, 0);
    return;
  }
  int from = -1;
  if (input) from = fl_kad_param_new(d, FL_KAD_TANGENT_ARRAY, v, "t_", type, 1, 1);
  if (input && from >= 0) d->res->params[d->f->n_params - 1].count = x.count;
  d->shadow[v] = fl_kad_shadow(d, v, "t_");
  if (x.kind == FL_KV_LOCAL) {
    kx_set(d, b, d->shadow[v], fl_kexpr_zero(d->a, type));
    return;
  }
  for (int64_t e = 0; e < x.count && !d->a->failed; e++)
    fl_kstmt_store(d->f, b, d->shadow[v], kx_int(d, e),
                   from < 0 ? fl_kexpr_zero(d->a, type) : fl_kexpr_load(d->f, from, kx_int(d, e)));
}

static void make_tangents(fl_kad_state *d, fl_kblock *b) {
  for (int v = 0; v < d->n0 && !fl_kad_dead(d); v++) {
    if (!d->active[v]) continue;
    const fl_kvar *x = &d->f->vars[v];
    if (x->kind == FL_KV_POINTER) of_pointer(d, v);
    else if (x->param >= 0) of_value(d, v, b);
    else d->shadow[v] = fl_kad_shadow(d, v, "t_");
  }
}

static void synthesise(fl_kad_state *d) {
  fl_kblock first = {NULL, NULL};
  make_tangents(d, &first);
  fl_kblock_append(&first, along(d, d->body));
  if (!fl_kad_dead(d)) d->body = d->f->body = first;
}

static void tidy(fl_kad_state *d) {
  fl_kad_tidy(d);
  fl_kad_roles(d, d->source->n_params, 1);
}

static fl_kad *forward_mode(fl_karena *a, const fl_kfunc *f, const fl_kad_request *r) {
  static const fl_kad_pass passes[] = {
    { "bits", fl_kad_twin_bits, 0 }, { "variables", fl_kad_variables, 0 },
    { "activity", fl_kad_activity, 0 }, { "refusals", fl_kad_refuse_early, 0 },
    { "synthesis", synthesise, 1 }, { "tidying", tidy, 1 },
  };
  fl_kad_state d = {.a = a, .r = r};
  return fl_kad_derive(&d, f, passes, (int)(sizeof passes / sizeof *passes), "jvp");
}

fl_kad *fl_kad_tangent(fl_karena *a, const fl_kfunc *given, const fl_kad_request *r) {
  const fl_kfunc *g = fl_kad_without_swaps(a, given, 1);
  const fl_kfunc *f = g ? fl_kad_without_copies(a, g) : NULL;
  fl_kad *res = f ? forward_mode(a, f, r) : NULL;
  for (int between = 0; between < 2 && res && res->refusal && !a->failed; between++) {
    const fl_kfunc *g = fl_kad_meet_grid(a, f, between);
    fl_kad *next = g ? forward_mode(a, g, r) : NULL;
    if (next && next->func) res = next;
  }
  fl_kad_tell("tangent", given, r, res);
  return res;
}
