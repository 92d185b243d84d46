/*
** Steps of optimisers (update.h): ordinary ops, which fuse over all parameters. In C because a step
** of a model with many parameters is limited by the time of recording. A parameter's new value is
** made from the new values of its state, not read from the tensors that hold the state: if an index
** check fails, no tensor is written, and a value read from one of them would be the old one. What
** is computed at each point from arrays of one shape is one node (plan/joint.c), with the bits of
** the ops that are recorded where single ops are checked, saved or differentiated.
*/
#include "tensor/update.h"
#include "tensor/build_util.h"
#include <math.h>

/* May operations on these be one node? Not where gradients, a saved program (trace), the search for
** a NaN (scan) or for an anomaly need the single ones. */
static int may_join(int n, fl_node *const *x) {
  const fl_node *first = x[0];
  const flame_context *c = first->ctx;
  if (c->grad_mode || c->trace || c->scan || c->anomaly || !fl_is_float(first->dtype)) return 0;
  for (int i = 0; i < n; i++)
    if (x[i]->state > FL_STORED || x[i]->shape != first->shape || x[i]->dtype != first->dtype ||
        x[i]->device != first->device)
      return 0;
  return 1;
}

/* Records a joint op with its scalars. */
static fl_node *joined(int op, int n, fl_node *const *x, double a, double b, double d) {
  fl_node *y = fl_record(x[0]->ctx, op, x[0]->dtype, x[0]->device, fl_layout_retain(x[0]->shape), n,
                         x);
  if (!y) return NULL;
  y->scal[0].d = a;
  y->scal[1].d = b;
  y->scal[2].d = d;
  return y;
}

/* x a + y b */
static fl_node *mixed(fl_node *x, double a, fl_node *y, double b) {
  fl_node *in[2] = { x, y };
  if (!x || !y) return NULL;
  if (may_join(2, in)) return joined(FL_OP_mix, 2, in, a, b, 0);
  return n_add(n_mul_num(x, a), n_mul_num(y, b));
}

/* x a + y y b */
static fl_node *mixed_square(fl_node *x, double a, fl_node *y, double b) {
  fl_node *in[2] = { x, y };
  if (!x || !y) return NULL;
  if (may_join(2, in)) return joined(FL_OP_mix_square, 2, in, a, b, 0);
  return mixed(x, a, n_mul(y, y), b);
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

/* x minus the step: m divided by the root of v, both corrected for starting at 0. */
static fl_node *adam_moved(fl_node *x, fl_node *m, fl_node *v, const fl_adam *r) {
  fl_node *in[3] = { x, m, v };
  if (!x || !m || !v) return NULL;
  if (!r->count && may_join(3, in))
    return joined(FL_OP_adam, 3, in, 1 / sqrt(r->left2), r->eps, r->lr / r->left1);
  fl_node *root = corrected(n_sqrt(v), r, 1, r->beta2, 1);
  return n_sub(x, corrected(n_div(m, n_add_num(root, r->eps)), r, r->lr, r->beta1, 0));
}

flame_status fl_adam_step(flame_tensor *p, fl_node *g, flame_tensor *m, flame_tensor *v,
                          flame_tensor *largest, const fl_adam *r) {
  flame_context *c = p->ctx;
  fl_node *x = p->node;
  if (r->decay != 0 && !r->decoupled) g = n_add(g, n_mul_num(x, r->decay));
  fl_node *m1 = mixed(m->node, r->beta1, g, 1 - r->beta1);
  fl_node *v1 = mixed_square(v->node, r->beta2, g, 1 - r->beta2);
  fl_node *top = largest ? n_maximum(largest->node, v1) : v1;
  if (r->decoupled) x = n_mul_num(x, 1 - r->lr * r->decay);
  x = adam_moved(x, m1, top, r);
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
