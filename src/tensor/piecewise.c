/*
** Activations whose pieces meet at corners, with their own gradients: the gradients that autograd
** would derive from the comparisons need twice the operations. At a corner the slope is PyTorch's:
** that of the outer piece, for leaky_relu at 0 the lower one. Computed at least in f32, and rounded
** once.
*/
#include "tensor/build_util.h"

typedef struct pieces {           /* what the gradient reads */
  fl_node *x;                     /* held */
  int kind;
  double a, b;
} pieces;

static fl_node *between(fl_node *x, fl_node *low, fl_node *outside_low, fl_node *high,
                        fl_node *outside_high, fl_node *inside) {
  return n_where(n_ge(x, high), outside_high, n_where(n_le(x, low), outside_low, inside));
}

static fl_node *value_of(flame_context *c, int kind, fl_node *x, double a, double b) {
  fl_node *six = n_num(c, 6), *zero = n_num(c, 0);
  switch (kind) {
    case FL_HARDTANH: return n_clamp(x, n_num(c, a), n_num(c, b));
    case FL_LEAKY_RELU: return n_where(n_gt(x, zero), x, n_mul(x, n_num(c, a)));
    case FL_HARDSIGMOID: return n_div(n_clamp(n_add(x, n_num(c, 3)), zero, six), six);
    default: return n_div(n_mul(x, n_clamp(n_add(x, n_num(c, 3)), zero, six)), six);
  }
}

static flame_status back(flame_context *c, void *arg, fl_node *y, fl_node *g_, int nin,
                         fl_node **gin) {
  const pieces *s = arg;
  fl_node *x = fl_widen(s->x), *g = fl_widen(g_), *zero = n_num(c, 0), *three = n_num(c, 3),
          *sixth = n_num(c, 1.0 / 6);
  switch (s->kind) {
    case FL_HARDTANH:
      gin[0] = between(x, n_num(c, s->a < s->b ? s->a : s->b), zero, n_num(c, s->b), zero, g);
      break;
    case FL_LEAKY_RELU: gin[0] = n_where(n_gt(x, zero), g, n_mul(g, n_num(c, s->a))); break;
    case FL_HARDSIGMOID:
      gin[0] = between(x, n_num(c, -3), zero, three, zero, n_mul(g, sixth));
      break;
    default:
      gin[0] = between(x, n_num(c, -3), zero, three, g,
                       n_mul(g, n_add(n_mul(x, n_num(c, 1.0 / 3)), n_num(c, 0.5))));
      break;
  }
  (void)y, (void)nin;
  return gin[0] ? FLAME_OK : c->err.code;
}

static void release(void *arg) {
  pieces *s = arg;
  fl_mem *m = &s->x->ctx->mem;
  fl_node_drop(s->x);
  fl_free(m, s, sizeof *s);
}

fl_node *n_piecewise(int kind, fl_node *x, double a, double b) {
  if (!x) return NULL;
  flame_context *c = x->ctx;
  const uint8_t mode = c->grad_mode;
  c->grad_mode = 0;
  fl_node *y = value_of(c, kind, fl_widen(x), a, b);
  if (fl_is_half(x->dtype)) y = n_cast(y, x->dtype);
  c->grad_mode = mode;
  if (!y || !mode || !x->entry) return y;
  pieces *s = fl_zalloc(&c->mem, sizeof *s);
  if (!s) return fl_no_memory(c, "hardtanh");
  *s = (pieces){ x, kind, a, b };
  fl_node_hold(x);
  return n_ruled(y, 1, &x, back, release, s);
}
