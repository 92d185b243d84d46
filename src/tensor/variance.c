/*
** The variance with its own gradient: 2 g (x - mean) / (n - correction), as in PyTorch also where n
** - correction is not above 0. The gradient that autograd would derive also sums the mean's part,
** which is 0 except for rounding.
*/
#include "tensor/build_util.h"

typedef struct spread {           /* what the gradient reads; nodes are held */
  fl_node *x, *mean;
  uint32_t axes;
  double left;                    /* number of elements minus the correction */
} spread;

/* For a second derivative the mean is recorded again, as a function of x. */
static flame_status back(flame_context *c, void *arg, fl_node *y, fl_node *g, int nin,
                         fl_node **gin) {
  const spread *s = arg;
  const fl_layout *one = s->mean->shape;
  fl_node *x = fl_widen(s->x), *mean = c->grad_mode ? n_mean(x, s->axes, 1) : s->mean;
  fl_node *scaled = n_mul(n_reshape(fl_widen(g), one->rank, one->size), n_num(c, 2 / s->left));
  gin[0] = n_mul(scaled, n_sub(x, mean));
  (void)y, (void)nin;
  return gin[0] ? FLAME_OK : c->err.code;
}

static void release(void *arg) {
  spread *s = arg;
  fl_mem *m = &s->x->ctx->mem;
  fl_node_drop(s->x);
  fl_node_drop(s->mean);
  fl_free(m, s, sizeof *s);
}

fl_node *n_var(fl_node *x, uint32_t axes, double correction, int keepdim) {
  if (!x || !fl_usable(x, "var")) return NULL;
  flame_context *c = x->ctx;
  if (!fl_is_float(x->dtype)) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "var",
            "dtype %s is not supported" FL_DO "; cast first: x:float()", fl_dtype_name(x->dtype));
    return NULL;
  }
  const uint8_t mode = c->grad_mode;
  c->grad_mode = 0;
  fl_node *w = fl_widen(x), *mean = n_mean(w, axes, 1);
  const int64_t results = mean ? mean->shape->numel : 0,
                elements = results ? x->shape->numel / results : 1;
  const double left = (double)elements - correction;
  fl_node *y = n_div(n_sum(n_square(n_sub(w, mean)), axes, keepdim), n_num(c, left > 0 ? left : 0));
  if (fl_is_half(x->dtype)) y = n_cast(y, x->dtype);
  c->grad_mode = mode;
  if (!y || !mode || !x->entry) return y;
  spread *s = fl_zalloc(&c->mem, sizeof *s);
  if (!s) return fl_no_memory(c, "var");
  *s = (spread){ x, mean, axes, left };
  fl_node_hold(x);
  fl_node_hold(mean);
  return n_ruled(y, 1, &x, back, release, s);
}
