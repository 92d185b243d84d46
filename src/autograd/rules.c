/*
** Gradient rules of the elementwise ops and reductions: one function per op and input,
** made from the gradient text of ops.def, in a table by op; and the helper functions that
** the text calls.
**
** Rules. A rule calls builders (functions that record nodes) on x (or x1 x2 x3), y (the result) and
** g (its cotangent), so it fuses and can be differentiated again. For a scalar operand it gets a
** number (that of atan2: a 0-d tensor). Selection uses
** 'where', never a product with a mask: 0 times inf is NaN. Special points follow PyTorch.
*/
#include "autograd/rules.h"
#include "tensor/build_util.h"
#include <assert.h>
#include <math.h>

typedef fl_node *(*rule)(flame_context *c, fl_node *x1, fl_node *x2, fl_node *x3,
                         fl_node *y, fl_node *g);

#define K(v) n_num(c, v)
#define x x1          /* the single input of unary ops and reductions */
#define RULE(fn, text) \
  static fl_node *fn(flame_context *c, fl_node *x1, fl_node *x2, fl_node *x3, fl_node *y, \
                     fl_node *g) { \
    (void)c; (void)x1; (void)x2; (void)x3; (void)y; (void)g; \
    return text; \
  }
#define UNARY(name, kind, value, grad, domain, doc) RULE(by1_##name, grad)
#define BINARY(name, kind, value, g1, g2, domain, doc) RULE(by1_##name, g1) RULE(by2_##name, g2)
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) \
  RULE(by1_##name, g1) RULE(by2_##name, g2) RULE(by3_##name, g3)
#define REDUCE(name, kind, init, value, grad, doc) RULE(by1_##name, grad)
#define SPECIAL(...)
#include "tensor/ops.def"
#undef x

static const rule rules[FL_OP_COUNT][3] = {
#define UNARY(name, kind, value, grad, domain, doc) [FL_OP_##name] = { by1_##name, NULL, NULL },
#define BINARY(name, kind, value, g1, g2, domain, doc) \
  [FL_OP_##name] = { by1_##name, by2_##name, NULL },
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) \
  [FL_OP_##name] = { by1_##name, by2_##name, by3_##name },
#define REDUCE(name, kind, init, value, grad, doc) [FL_OP_##name] = { by1_##name, NULL, NULL },
#define SPECIAL(...)
#include "tensor/ops.def"
};

/* Input i of y for use in a rule. If it is stored as a scalar (in[i] NULL, scal[i] used), it
** becomes a node for a number. Only atan2, whose rule squares its operands, gets a 0-d tensor,
** since two numbers have no product. */
static fl_node *operand(fl_node *y, int i) {
  flame_context *c = y->ctx;
  if (i >= y->nin || y->in[i]) return i < y->nin ? y->in[i] : NULL;
  if (y->op == FL_OP_atan2) return n_fill(c, y->dtype, y->device, 0, NULL, y->scal[i]);
  return n_num(c, y->scal[i].d);
}

flame_status fl_rule(fl_node *y, fl_node *g, fl_node **gin) {
  flame_context *c = y->ctx;
  for (int i = 0; i < y->nin; i++) gin[i] = NULL;
  if (fl_ops[y->op].form == FL_FORM_SPECIAL) return fl_rule_structural(y, g, gin);
  fl_node *in[3] = { operand(y, 0), operand(y, 1), operand(y, 2) };
  for (int i = 0; i < y->nin; i++) if (!in[i]) return c->err.code;      /* no memory for a number */
  for (int i = 0; i < y->nin; i++) {
    if (!fl_wants(y, i)) continue;
    assert(rules[y->op][i]);             /* ops.def gives one for each input */
    gin[i] = rules[y->op][i](c, in[0], in[1], in[2], y, g);
    if (!gin[i] && c->err.code != FLAME_OK) return c->err.code;
  }
  return FLAME_OK;
}

/* ---- helpers of elementwise rules -------------------------------------------------- */

static int is_number(const fl_node *n) { return n->state == FL_NUMBER; }

/* x2 x1^(x2 - 1) g, and 0 where the exponent is 0 (also at x1 = 0). */
fl_node *fl_grad_pow_base(fl_node *g, fl_node *x1, fl_node *x2) {
  flame_context *c = g->ctx;
  if (is_number(x2)) {
    const double e = x2->scal[0].d;
    if (e == 0) return fl_zeros_like(g, g->shape);
    return n_mul(g, n_mul(n_pow(x1, K(e - 1)), K(e)));
  }
  fl_node *d = n_mul(g, n_mul(x2, n_pow(x1, n_sub(x2, K(1)))));
  return n_where(n_eq(x2, K(0)), K(0), d);
}

/* y log(x1) g, and 0 where the base is 0 and the exponent not negative. */
fl_node *fl_grad_pow_exponent(fl_node *g, fl_node *y, fl_node *x1, fl_node *x2) {
  flame_context *c = g->ctx;
  if (is_number(x1)) {
    const double base = x1->scal[0].d;
    fl_node *d = n_mul(g, n_mul(y, K(log(base))));
    return base == 0 ? n_where(n_ge(x2, K(0)), K(0), d) : d;
  }
  fl_node *d = n_mul(g, n_mul(y, n_log(x1)));
  fl_node *flat = n_eq(x1, K(0));
  if (!is_number(x2)) return n_where(n_logical_and(flat, n_ge(x2, K(0))), K(0), d);
  return x2->scal[0].d >= 0 ? n_where(flat, K(0), d) : d;
}

/* maximum and minimum: for equal values each side gets half; the side that is not chosen gets 0;
** with a NaN both get g. */
fl_node *fl_grad_extreme(fl_node *g, fl_node *x, fl_node *other, fl_node *y) {
  flame_context *c = g->ctx;
  fl_node *lost = y->op == FL_OP_maximum ? n_lt(x, other) : n_gt(x, other);
  return n_where(n_eq(x, other), n_mul(g, K(0.5)), n_where(lost, K(0), g));
}

fl_node *fl_grad_clamp(fl_node *g, fl_node *x, fl_node *lo, fl_node *hi) {
  flame_context *c = g->ctx;
  return n_where(n_logical_and(n_ge(x, lo), n_le(x, hi)), g, K(0));
}

/* g x1 times the second derivative of gelu's tanh form at x. With w = a x + b x^3, w' = a + 3 b x^2
** and s = sigmoid(w) it is s (1 - s) (2 w' + 6 b x^2 + x w'^2 (1 - 2 s)). For |x| > 12 it
** is that at 12 or -12, below 1e-55. */
fl_node *fl_grad_gelu_slope(fl_node *g, fl_node *x1, fl_node *x) {
  flame_context *c = g->ctx;
  const double a = 1.5957691216057308, b = 0.07135481627260025;
  fl_node *f = n_clamp(fl_widen(x), K(-12), K(12)), *z = n_square(f);
  fl_node *s = n_sigmoid(n_mul(f, n_add(n_mul(z, K(b)), K(a))));
  fl_node *slope = n_add(n_mul(z, K(3 * b)), K(a));
  fl_node *bend = n_mul(n_mul(f, n_square(slope)), n_sub(K(1), n_add(s, s)));
  fl_node *sum = n_add(n_add(n_add(slope, slope), n_mul(z, K(6 * b))), bend);
  fl_node *d = n_mul(n_mul(s, n_sub(K(1), s)), sum);
  return n_cast(n_mul(n_mul(fl_widen(g), fl_widen(x1)), d), g->dtype);
}

/* The second derivative of digamma for z > 0: eight terms of its series, then the remainder by the
** Euler-Maclaurin formula. All of it is nodes, so it has derivatives of all orders. */
static fl_node *tetragamma(flame_context *c, fl_node *z) {
  static const double rest[] = { -1, -1, -0.5, 0, 1.0 / 6, 0, -1.0 / 6, 0, 0.3, 0, -5.0 / 6, 0,
                                 691.0 / 210 };
  fl_node *sum = NULL;
  for (int k = 0; k < 8; k++) {
    fl_node *r = n_reciprocal(z), *term = n_mul(n_mul(r, n_mul(r, r)), K(-2));
    sum = k ? n_add(sum, term) : term;
    z = n_add(z, K(1));
  }
  fl_node *r = z ? n_reciprocal(z) : NULL, *tail = K(rest[12]);
  for (int k = 11; k >= 0; k--) tail = n_add(n_mul(tail, r), K(rest[k]));
  return n_add(sum, n_mul(tail, n_mul(r, r)));
}

/* psi2(x) = psi2(1 - x) - 2 pi^3 cot(pi x) / sin(pi x)^2 for x below 1/2, with cot and sin of x
** minus the nearest integer: -Inf at a pole. In f64, since the difference cancels. */
fl_node *fl_grad_trigamma(fl_node *g, fl_node *x) {
  flame_context *c = g->ctx;
  const double pi = 3.14159265358979323846;
  fl_node *v = x ? n_cast(x, FLAME_F64) : NULL;
  fl_node *low = n_lt(v, K(0.5));
  fl_node *y = tetragamma(c, n_where(low, n_sub(K(1), v), v));
  fl_node *a = n_mul(n_where(low, n_sub(v, n_round(v)), K(0.25)), K(pi)), *s = n_sin(a);
  fl_node *turn = n_div(n_mul(n_cos(a), K(2 * pi * pi * pi)), n_mul(s, n_mul(s, s)));
  fl_node *slope = n_where(low, n_sub(y, turn), y);
  return x && slope ? n_mul(g, n_cast(slope, x->dtype)) : NULL;
}

/* ---- helpers of reductions --------------------------------------------------------- */

fl_node *fl_zeros_like(fl_node *g, const fl_layout *shape) {
  return n_fill(g->ctx, g->dtype, g->device, shape->rank, shape->size,
                (fl_scalar){ .d = 0 });
}

/* g broadcast to the elements that were reduced to it. */
fl_node *fl_grad_spread(fl_node *y, fl_node *g) {
  const fl_layout *s = y->in[0]->shape;
  return n_expand(g, s->rank, s->size);
}

/* g divided evenly among the elements that equal the result. */
fl_node *fl_grad_amax(fl_node *g, fl_node *x, fl_node *y) {
  flame_context *c = g->ctx;
  fl_node *hit = n_eq(x, y);
  fl_node *ties = n_sum(n_cast(hit, g->dtype), y->axes, 1);
  return n_div(n_where(hit, g, K(0)), ties);
}

/* g times the product of the other elements, without a division by zero. */
static fl_node *prod_closed(fl_node *g, fl_node *x, uint32_t axes) {
  flame_context *c = g->ctx;
  fl_node *zero = n_eq(x, K(0));
  fl_node *safe = n_where(zero, K(1), x);
  fl_node *rest = n_prod(safe, axes, 1), *zeros = n_sum(zero, axes, 1);
  fl_node *at_zero = n_where(n_eq(zeros, n_int(c, 1)), rest, K(0));
  fl_node *elsewhere = n_where(n_eq(zeros, n_int(c, 0)), n_div(rest, safe), K(0));
  return n_mul(g, n_where(zero, at_zero, elsewhere));
}

typedef struct level { fl_node *a, *b; int64_t pairs; int odd; } level;

/* Multiplies neighbouring columns of v (rows, n) in pairs: one level up the tree of products. */
static fl_node *pair_up(fl_node *v, level *l) {
  const int64_t n = v->shape->size[1];
  l->pairs = n / 2;
  l->odd = (int)(n % 2);
  l->a = n_slice(v, 1, 0, l->pairs, 2);
  l->b = n_slice(v, 1, 1, l->pairs, 2);
  fl_node *up[2] = { n_mul(l->a, l->b), l->odd ? n_slice(v, 1, n - 1, 1, 1) : NULL };
  return l->odd ? n_cat(v->ctx, 2, up, 1) : up[0];
}

/* The reverse of pair_up: cotangents of the columns of a level from those of the level above. */
static fl_node *pair_down(fl_node *e, const level *l) {
  flame_context *c = e->ctx;
  fl_node *d = l->odd ? n_slice(e, 1, 0, l->pairs, 1) : e;
  fl_node *both[2] = { n_mul(d, l->b), n_mul(d, l->a) };
  if (!both[0] || !both[1]) return NULL;
  fl_node *s = n_stack(c, 2, both, 2);
  s = s ? n_reshape(s, 2, (int64_t[]){ e->shape->size[0], 2 * l->pairs }) : NULL;
  fl_node *all[2] = { s, l->odd ? n_slice(e, 1, l->pairs, 1, 1) : NULL };
  return l->odd && s ? n_cat(c, 2, all, 1) : s;
}

/* The gradient of prod by a tree of products, used when it is differentiated again: exact at zeros
** too. */
static fl_node *prod_tree(fl_node *g, fl_node *x, uint32_t axes) {
  const int r = x->shape->rank;
  int perm[FL_MAX_AXES], back[FL_MAX_AXES], k = 0;
  for (int a = 0; a < r; a++) if (!(axes >> a & 1)) perm[k++] = a;
  for (int a = 0; a < r; a++) if (axes >> a & 1) perm[k++] = a;
  for (int a = 0; a < r; a++) back[perm[a]] = a;
  const int64_t rows = g->shape->numel, n = x->shape->numel / rows;
  level at[64];
  int depth = 0;
  fl_node *p = n_permute(x, perm);
  fl_node *v = p ? n_reshape(p, 2, (int64_t[]){ rows, n }) : NULL;
  for (; v && v->shape->size[1] > 1; depth++) v = pair_up(v, &at[depth]);
  fl_node *e = v ? n_reshape(n_permute(g, perm), 2, (int64_t[]){ rows, 1 }) : NULL;
  while (e && depth > 0) e = pair_down(e, &at[--depth]);
  return e ? n_permute(n_reshape(e, r, p->shape->size), back) : NULL;
}

fl_node *fl_grad_prod(fl_node *g, fl_node *x, fl_node *y) {
  if (x->shape->numel == 0) return fl_zeros_like(g, x->shape);
  return g->ctx->grad_mode ? prod_tree(g, x, y->axes) : prod_closed(g, x, y->axes);
}
