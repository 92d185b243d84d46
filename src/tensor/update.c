/*
** Steps of optimisers (update.h): ordinary ops, which fuse over all parameters. In C because a step
** of a model with many parameters is limited by the time of recording. A parameter's new value is
** made from the new values of its state, not read from the tensors that hold the state: if an index
** check fails, no tensor is written, and a value read from one of them would be the old one.
*/
#include "tensor/update.h"
#include "tensor/build.h"
#include <math.h>

/* x a + y b */
static fl_node *mixed(fl_node *x, double a, fl_node *y, double b) {
  if (!x || !y) return NULL;
  return n_add(n_mul_num(x, a), n_mul_num(y, b));
}

/* x a / (1 - beta^t), or with 'root' x a / sqrt(1 - beta^t); t is the number of the step. If t is a
** tensor (r->count), the factor is a 0-d value of x's dtype. */
static fl_node *corrected(fl_node *x, const fl_adam *r, double a, double beta, int root) {
  const double left = root ? r->left2 : r->left1;
  if (!r->count || !x) return n_mul_num(x, a / (root ? sqrt(left) : left));
  flame_context *c = x->ctx;
  fl_node *y = n_sub(n_num(c, 1), n_pow(n_num(c, beta), n_cast(r->count->node, FLAME_F64)));
  return n_mul(x, n_cast(n_div(n_num(c, a), root ? n_sqrt(y) : y), x->dtype));
}

void fl_adam_count(fl_adam *r, int64_t step) {
  if (r->step == step) return;
  r->step = step;
  r->left1 = 1 - pow(r->beta1, (double)step);
  r->left2 = 1 - pow(r->beta2, (double)step);
}

/* The step itself: m divided by the root of v, both corrected for starting at 0. */
static fl_node *adam_change(fl_node *m, fl_node *v, const fl_adam *r) {
  if (!m || !v) return NULL;
  fl_node *root = corrected(n_sqrt(v), r, 1, r->beta2, 1);
  return corrected(n_div(m, n_add_num(root, r->eps)), r, r->lr, r->beta1, 0);
}

flame_status fl_adam_step(flame_tensor *p, fl_node *g, flame_tensor *m, flame_tensor *v,
                          flame_tensor *largest, const fl_adam *r) {
  flame_context *c = p->ctx;
  fl_node *x = p->node;
  if (r->decay != 0 && !r->decoupled) g = n_add(g, n_mul_num(x, r->decay));
  fl_node *m1 = mixed(m->node, r->beta1, g, 1 - r->beta1);
  fl_node *v1 = mixed(v->node, r->beta2, g ? n_mul(g, g) : NULL, 1 - r->beta2);
  fl_node *top = largest ? n_maximum(largest->node, v1) : v1;
  if (r->decoupled) x = n_mul_num(x, 1 - r->lr * r->decay);
  x = n_sub(x, adam_change(m1, top, r));
  if (!x) return (flame_status)c->err.code;
  flame_status e = fl_tensor_write(m, m1, "adam");
  if (e == FLAME_OK) e = fl_tensor_write(v, v1, "adam");
  if (e == FLAME_OK && largest) e = fl_tensor_write(largest, top, "adam");
  return e == FLAME_OK ? fl_tensor_write(p, x, "adam") : e;
}

flame_status fl_sgd_step(flame_tensor *p, fl_node *g, flame_tensor *moving, const fl_sgd *r) {
  fl_node *x = p->node, *v = NULL;
  if (r->decay != 0) g = n_add(g, n_mul_num(x, r->decay));
  if (moving) {
    v = mixed(moving->node, r->momentum, g, 1 - r->dampening);
    g = r->nesterov ? n_add(g, n_mul_num(v, r->momentum)) : v;
  }
  x = n_sub(x, n_mul_num(g, r->lr));
  if (!x) return (flame_status)p->ctx->err.code;
  const flame_status e = moving ? fl_tensor_write(moving, n_copy(v), "copy_") : FLAME_OK;
  return e == FLAME_OK ? fl_tensor_write(p, n_copy(x), "copy_") : e;
}
