/*
** What layer, group, batch and instance norm have in common: x minus its mean, divided by its
** standard deviation, times w, plus b, with its own gradient. The gradient that autograd would
** derive sums terms that are 0 except for rounding (the variance's part of the mean's gradient) in
** a separate pass and keeps the centred values; this one keeps x, the means and the inverse
** deviations. The walk sums the gradients of w and b to their shapes after the gradient of x is
** recorded, so that they can share its kernel.
*/
#include "tensor/build_util.h"
#include "tensor/entry.h"

enum { X, W, B, INPUTS };
/* below these numbers an additional kernel costs more time than it saves by fewer reads */
enum { MANY_PLACES = 16, MANY_VALUES = 1 << 16 };

typedef struct norm {             /* what the backward reads; all held */
  flame_context *c;
  uint32_t axes;
  double count, eps;
  fl_node *in[INPUTS];            /* w and b may be NULL */
  fl_node *mean, *inverse;
} norm;

static fl_node *mean_of(const norm *s, fl_node *x) {
  return n_div(n_sum(x, s->axes, 1), n_num(s->c, s->count));
}

/* Like mean_of, for values that are already summed along the axes 'done'. */
static fl_node *mean_of_sums(const norm *s, fl_node *x, uint32_t done) {
  return done == s->axes ? n_div(x, n_num(s->c, s->count)) : mean_of(s, x);
}

/* x - mean; *inverse: the inverse deviation. */
static fl_node *centre(const norm *s, fl_node *x, fl_node **mean, fl_node **inverse) {
  *mean = mean_of(s, x);
  fl_node *d = n_sub(x, *mean);
  *inverse = n_rsqrt(n_add(mean_of(s, n_square(d)), n_num(s->c, s->eps)));
  return d;
}

/* The axes of the norm along which w is constant, if it is cheaper to sum along them first: if w is
** constant along all axes of the norm (batch norm), or if x is large and these axes have many
** positions (the places of a group norm, not its channels); else 0. */
static uint32_t shared_axes(const norm *s) {
  const fl_layout *x = s->in[X]->shape, *w = s->in[W] ? s->in[W]->shape : NULL;
  uint32_t same = 0;
  int64_t places = 1;
  for (int a = 0; w && a < x->rank; a++) {
    const int at = a - (x->rank - w->rank);
    if (!(s->axes >> a & 1) || (at >= 0 && w->size[at] != 1)) continue;
    same |= 1u << a;
    places *= x->size[a];
  }
  return same == s->axes || (places >= MANY_PLACES && x->numel >= MANY_VALUES) ? same : 0;
}

/* With y = d r w + b, d = x - mean, r the inverse deviation and u = g w, the gradient with respect
** to x is r (u - mean(u) - d r^2 mean(u d)), to w g d r, to b g, which the walk sums to the shapes
** of w and b. If w is constant along many places, g and g d are summed along them first: all three
** gradients use these sums. For a gradient of this the statistics are recorded again, as functions
** of x. */
static flame_status norm_back(flame_context *c, void *arg, fl_node *y, fl_node *g, int nin,
                              fl_node **gin) {
  const norm *s = arg;
  const uint32_t places = shared_axes(s);
  fl_node *x = fl_widen(s->in[X]), *w = s->in[W] ? fl_widen(s->in[W]) : NULL, *mean = s->mean,
          *r = s->inverse;
  fl_node *d = c->grad_mode ? centre(s, x, &mean, &r) : n_sub(x, mean);
  fl_node *u = w ? n_mul(g, w) : g, *level, *slope;
  if (places) {
    fl_node *sg = n_sum(g, places, 1), *sgd = n_sum(n_mul(g, d), places, 1);
    level = mean_of_sums(s, n_mul(sg, w), places);
    slope = mean_of_sums(s, n_mul(sgd, w), places);
    gin[W] = n_mul(sgd, r);
    gin[B] = s->in[B] ? sg : NULL;
  } else { /* g d is not shared by slope and gin[W]: with it a row would not fit in registers */
    level = mean_of(s, u);
    slope = mean_of(s, n_mul(u, d));
    gin[W] = w ? n_mul(g, n_mul(d, r)) : NULL;
    gin[B] = s->in[B] ? g : NULL;
  }
  gin[X] = n_mul(n_sub(n_sub(u, level), n_mul(d, n_mul(slope, n_square(r)))), r);
  (void)y, (void)nin;
  return gin[X] && !gin[W] == !s->in[W] ? FLAME_OK : c->err.code;
}

static void norm_release(void *arg) {
  norm *s = arg;
  for (int i = 0; i < INPUTS; i++) if (s->in[i]) fl_node_drop(s->in[i]);
  fl_node_drop(s->mean);
  fl_node_drop(s->inverse);
  fl_free(&s->c->mem, s, sizeof *s);
}

/* Gives y the gradient rule norm_back, with a copy of s that holds its nodes. */
static fl_node *with_rule(fl_node *y, const norm *s) {
  norm *kept = fl_zalloc(&s->c->mem, sizeof *kept);
  if (!kept) return fl_no_memory(s->c, "norm");
  *kept = *s;
  for (int i = 0; i < INPUTS; i++) if (s->in[i]) fl_node_hold(s->in[i]);
  fl_node_hold(kept->mean);
  fl_node_hold(kept->inverse);
  return n_ruled(y, INPUTS, kept->in, norm_back, norm_release, kept);
}

fl_node *n_normalise(fl_node *x, uint32_t axes, double eps, fl_node *w, fl_node *b) {
  if (!x || !w || !b) return NULL;
  flame_context *c = x->ctx;
  norm s = { .c = c, .axes = axes, .eps = eps, .count = 1,
             .in = { x, fl_is_none(w) ? NULL : w, fl_is_none(b) ? NULL : b } };
  for (int a = 0; a < x->shape->rank; a++) if (axes >> a & 1) s.count *= (double)x->shape->size[a];
  const uint8_t mode = c->grad_mode;
  c->grad_mode = 0;
  fl_node *d = centre(&s, fl_widen(x), &s.mean, &s.inverse), *y = n_mul(d, s.inverse);
  if (s.in[W]) y = n_mul(y, fl_widen(w));
  if (s.in[B]) y = n_add(y, fl_widen(b));
  c->grad_mode = mode;
  return y && mode && (x->entry || w->entry || b->entry) ? with_rule(y, &s) : y;
}
