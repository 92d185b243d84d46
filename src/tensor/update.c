/*
** Steps of optimisers (update.h): ordinary ops, which fuse over all parameters. In C because a step
** of a model with many parameters is limited by the time of recording.
*/
#include "tensor/update.h"
#include "tensor/build.h"
#include <math.h>

/* x a + y b */
static fl_node *mixed(fl_node *x, double a, fl_node *y, double b) {
  if (!x || !y) return NULL;
  return n_add(n_mul(x, n_num(x->ctx, a)), n_mul(y, n_num(x->ctx, b)));
}

/* a / (1 - beta^t), with 'root' a / sqrt(1 - beta^t): a number or, if t is a tensor, a 0-d value of
** m's dtype. */
static fl_node *correction(const fl_node *m, const fl_adam *r, double a, double beta, int root) {
  flame_context *c = m->ctx;
  const double left = 1 - pow(beta, (double)r->step);
  if (!r->count) return n_num(c, a / (root ? sqrt(left) : left));
  fl_node *x = n_sub(n_num(c, 1), n_pow(n_num(c, beta), n_cast(r->count->node, FLAME_F64)));
  return n_cast(n_div(n_num(c, a), root ? n_sqrt(x) : x), m->dtype);
}

/* The step itself: m divided by the root of v, both corrected for starting at 0. */
static fl_node *adam_change(fl_node *m, fl_node *v, const fl_adam *r) {
  if (!m || !v) return NULL;
  flame_context *c = m->ctx;
  fl_node *root = n_mul(n_sqrt(v), correction(m, r, 1, r->beta2, 1));
  return n_mul(n_div(m, n_add(root, n_num(c, r->eps))), correction(m, r, r->lr, r->beta1, 0));
}

flame_status fl_adam_step(flame_tensor *p, fl_node *g, flame_tensor *m, flame_tensor *v,
                          flame_tensor *largest, const fl_adam *r) {
  flame_context *c = p->ctx;
  fl_node *x = p->node;
  if (r->decay != 0 && !r->decoupled) g = n_add(g, n_mul(x, n_num(c, r->decay)));
  fl_node *m1 = mixed(m->node, r->beta1, g, 1 - r->beta1);
  fl_node *v1 = mixed(v->node, r->beta2, g ? n_mul(g, g) : NULL, 1 - r->beta2);
  fl_node *top = largest ? n_maximum(largest->node, v1) : v1;
  if (r->decoupled) x = n_mul(x, n_num(c, 1 - r->lr * r->decay));
  x = n_sub(x, adam_change(m1, top, r));
  if (!x) return (flame_status)c->err.code;
  flame_status e = fl_tensor_write(m, m1, "adam");
  if (e == FLAME_OK) e = fl_tensor_write(v, v1, "adam");
  if (e == FLAME_OK && largest) e = fl_tensor_write(largest, top, "adam");
  return e == FLAME_OK ? fl_tensor_write(p, x, "adam") : e;
}
