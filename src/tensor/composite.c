/*
** Composites: functions written in the primitives so that the planner fuses them.
**
** Rules. Half types are cast to f32 inside and back at the end, as recorded casts. A maximum
** that is subtracted so that exponentials do not overflow is untracked: it has no effect on the
** value's gradient. Counts and constants are numbers, so they are not rounded to a half type.
*/
#include "tensor/build_util.h"
#include <math.h>

static int need_float(fl_node *x, const char *op) {
  if (!fl_usable(x, op)) return 0;
  if (fl_is_float(x->dtype)) return 1;
  FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, op,
          "dtype %s is not supported" FL_DO "; cast first: x:float()", fl_dtype_name(x->dtype));
  return 0;
}

/* Casts integers, bool and half types to f32. */
static fl_node *as_float(fl_node *x, const char *op) {
  if (!x || !fl_usable(x, op)) return NULL;
  return fl_is_float(x->dtype) ? fl_widen(x) : n_cast(x, FLAME_F32);
}

static fl_node *back_to(fl_node *y, int dtype) {
  return y && fl_is_half(dtype) ? n_cast(y, dtype) : y;
}

/* The number of elements that each result of a reduction over 'axes' sums. Bits of axes that x does
** not have are ignored. */
static int64_t reduced_count(const fl_node *x, uint32_t axes) {
  int64_t n = 1;
  for (int a = 0; a < x->shape->rank; a++)
    if (axes >> a & 1) n *= x->shape->size[a];
  return n;
}

/* The largest value along 'axes', which stay with size 1. It is untracked, as it is recorded with
** the grad mode off: a detached alias would be a second operand for the same memory. */
static fl_node *range_of(fl_node *x, uint32_t axes) {
  if (!x) return NULL;
  const uint8_t mode = x->ctx->grad_mode;
  x->ctx->grad_mode = 0;
  fl_node *m = n_amax(x, axes, 1);
  x->ctx->grad_mode = mode;
  return m;
}

static uint32_t last_axes(const fl_node *x, int n) {
  const int r = x->shape->rank;
  return fl_mask_of(r) & ~fl_mask_of(r - n);
}

fl_node *n_mean(fl_node *x, uint32_t axes, int keepdim) {
  if (!x || !need_float(x, "mean")) return NULL;
  const int dtype = x->dtype;
  fl_node *w = fl_widen(x);
  if (!w) return NULL;
  const double n = (double)reduced_count(x, axes);
  return back_to(n_div(n_sum(w, axes, keepdim), n_num(x->ctx, n)), dtype);
}

/* sqrt(x), whose gradient at 0 is 0. Where no gradient is needed plain sqrt is recorded. */
fl_node *n_root(fl_node *x) {
  if (!x || !need_float(x, "sqrt")) return NULL;
  if (!x->entry || !x->ctx->grad_mode) return n_sqrt(x);
  fl_node *zero = n_eq(x, n_num(x->ctx, 0));
  return n_where(zero, n_num(x->ctx, 0), n_sqrt(n_where(zero, n_num(x->ctx, 1), x)));
}

/* y, a keepdim result, without the reduced axes. */
static fl_node *drop_axes(fl_node *y, uint32_t axes) {
  int64_t size[FL_MAX_AXES];
  int rank = 0;
  if (!y) return NULL;
  for (int a = 0; a < y->shape->rank; a++)
    if (!(axes >> a & 1)) size[rank++] = y->shape->size[a];
  return n_reshape(y, rank, size);
}

/* log(sum(exp(x - m))) + m with m = 0 where the maximum is infinite. A sum of 0 (all are
** -inf) gives -inf with gradient 0 instead of 0 / 0. */
fl_node *n_logsumexp(fl_node *x, uint32_t axes, int keepdim) {
  if (!x || !fl_usable(x, "logsumexp")) return NULL;
  flame_context *c = x->ctx;
  const int dtype = x->dtype;
  fl_node *w = as_float(x, "logsumexp"), *m;
  if (!w) return NULL;
  if (axes == FL_ALL_AXES) axes = fl_mask_of(x->shape->rank);
  if (reduced_count(x, axes) == 0)
    return back_to(n_log(n_sum(n_exp(w), axes, keepdim)), dtype);
  m = range_of(w, axes);
  m = n_where(n_isinf(m), n_num(c, 0), m);
  fl_node *s = n_sum(n_exp(n_sub(w, m)), axes, 1);
  fl_node *none = n_eq(s, n_num(c, 0));
  fl_node *y = n_add(n_log(n_where(none, n_num(c, 1), s)), m);
  y = back_to(n_where(none, n_num(c, -INFINITY), y), dtype);
  return keepdim ? y : drop_axes(y, axes);
}

/* What a softmax keeps for its gradient: the result, so that no exponential is computed again. */
typedef struct shares { fl_node *y; uint32_t axes; } shares;

static fl_node *with_softmax_rule(fl_node *x, fl_node *y, uint32_t axes);

/* The gradient of a softmax y: y (g - sum(g y)). For a second derivative the kept value gets this
** rule again, since the value of node y may be gone. */
static flame_status softmax_back(flame_context *c, void *arg, fl_node *y, fl_node *g, int nin,
                                 fl_node **gin) {
  const shares *s = arg;
  fl_node *p = fl_widen(c->grad_mode ? with_softmax_rule(y->in[0], s->y, s->axes) : s->y),
          *f = fl_widen(g);
  gin[0] = n_mul(p, n_sub(f, n_sum(n_mul(f, p), s->axes, 1)));
  (void)nin;
  return gin[0] ? FLAME_OK : c->err.code;
}

static void softmax_release(void *arg) {
  shares *s = arg;
  fl_mem *m = &s->y->ctx->mem;
  fl_node_drop(s->y);
  fl_free(m, s, sizeof *s);
}

static fl_node *with_softmax_rule(fl_node *x, fl_node *y, uint32_t axes) {
  flame_context *c = x->ctx;
  shares *s = fl_zalloc(&c->mem, sizeof *s);
  if (!s) return fl_no_memory(c, "softmax");
  *s = (shares){ y, axes };
  fl_node_hold(y);
  return n_ruled(y, 1, &x, softmax_back, softmax_release, s);
}

fl_node *n_softmax(fl_node *x, int axis) {
  if (!x || !(x->shape->rank == 0 || fl_check_axis(x, axis, "softmax"))) return NULL;
  const int dtype = x->dtype;
  fl_node *w = as_float(x, "softmax");
  if (!w || w->shape->numel == 0) return back_to(w ? n_copy(w) : NULL, dtype);
  const uint32_t axes = x->shape->rank ? 1u << axis : 0;
  const uint8_t mode = x->ctx->grad_mode;
  x->ctx->grad_mode = 0;
  fl_node *e = n_exp_below(n_sub(w, n_amax(w, axes, 1)));
  fl_node *y = back_to(n_div(e, n_sum(e, axes, 1)), dtype);
  x->ctx->grad_mode = mode;
  return y && mode && x->entry ? with_softmax_rule(x, y, axes) : y;
}

int fl_is_softmax(const fl_node *y, int axis) {
  const fl_custom *f = y->entry && y->op == FL_OP_custom ? y->entry->custom : NULL;
  return f && f->backward == softmax_back && ((const shares *)f->arg)->axes == 1u << axis;
}

/* The result stays in the compute dtype. */
static fl_node *log_softmax(fl_node *w, int axis) {
  const uint32_t axes = w->shape->rank ? 1u << axis : 0;
  if (w->shape->numel == 0) return n_copy(w);
  fl_node *z = n_sub(w, range_of(w, axes));
  return n_sub(z, n_log(n_sum(n_exp_below(z), axes, 1)));
}

fl_node *n_log_softmax(fl_node *x, int axis) {
  if (!x || !(x->shape->rank == 0 || fl_check_axis(x, axis, "log_softmax"))) return NULL;
  const int dtype = x->dtype;
  fl_node *w = as_float(x, "log_softmax");
  return w ? back_to(log_softmax(w, axis), dtype) : NULL;
}

/* Checks w or b of a norm: it must be absent, or have the shape of x's last axes. */
static int norm_operand_ok(fl_node *x, int naxes, fl_node *w, const char *which) {
  char a[FL_SHAPE_TEXT], b[FL_SHAPE_TEXT];
  if (fl_is_none(w)) return 1;
  if (!fl_usable(w, "layer_norm")) return 0;
  const int64_t *want = x->shape->size + x->shape->rank - naxes;
  int ok = w->shape->rank == naxes;
  for (int k = 0; ok && k < naxes; k++) ok = w->shape->size[k] == want[k];
  if (!ok)
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "layer_norm", "%s has shape %s, need %s", which,
            FL_SHAPE(a, w->shape), fl_shape_text(b, naxes, want));
  return ok;
}

fl_node *n_layer_norm(fl_node *x, int naxes, fl_node *w, fl_node *b, double eps) {
  if (!x || !w || !b || !need_float(x, "layer_norm")) return NULL;
  if (naxes < 1 || naxes > x->shape->rank) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "layer_norm", "%d axes to normalise, x has %d",
            naxes, x->shape->rank);
    return NULL;
  }
  if (!norm_operand_ok(x, naxes, w, "weight") || !norm_operand_ok(x, naxes, b, "bias"))
    return NULL;
  const int dtype = x->dtype;
  const uint32_t axes = last_axes(x, naxes);
  return back_to(n_normalise(x, axes, eps, w, b), dtype);
}

/* w or b of n_group_norm, one value per channel, as (1, groups, channels per group, 1), which fits
** x as (n, groups, channels per group, places). */
static fl_node *by_group(fl_node *x, int64_t groups, fl_node *w, const char *which) {
  char a[FL_SHAPE_TEXT];
  const int64_t channels = x->shape->size[1];
  if (!w || fl_is_none(w)) return w;
  if (w->shape->numel == channels)
    return n_reshape(w, 4, (int64_t[]){ 1, groups, channels / groups, 1 });
  FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "group_norm",
          "%s has shape %s, need (%lld): one for each channel", which, FL_SHAPE(a, w->shape),
          (long long)channels);
  return NULL;
}

fl_node *n_group_norm(fl_node *x, int64_t groups, fl_node *w, fl_node *b, double eps) {
  char a[FL_SHAPE_TEXT];
  if (!x || !w || !b || !need_float(x, "group_norm")) return NULL;
  const fl_layout *l = x->shape;
  if (l->rank < 2 || groups < 1 || l->size[1] % groups) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "group_norm",
            "shape %s has no channels that divide into %lld groups", FL_SHAPE(a, l),
            (long long)groups);
    return NULL;
  }
  int64_t size[4] = { l->size[0], groups, l->size[1] / groups, 1 };
  for (int d = 2; d < l->rank; d++) size[3] *= l->size[d];
  fl_node *y = n_normalise(n_reshape(x, 4, size), 12, eps, by_group(x, groups, w, "weight"),
                           by_group(x, groups, b, "bias"));
  return y ? back_to(n_reshape(y, l->rank, l->size), x->dtype) : NULL;
}

fl_node *n_gelu(fl_node *x, int tanh_form) {
  if (!x || !need_float(x, "gelu")) return NULL;
  flame_context *c = x->ctx;
  if (tanh_form) return n_gelu_tanh(x);
  fl_node *f = fl_widen(x), *t = n_erf(n_mul(f, n_num(c, 0.70710678118654752440)));
  return back_to(n_mul(n_mul(n_add(t, n_num(c, 1)), n_num(c, 0.5)), f), x->dtype);
}

fl_node *n_silu(fl_node *x) {
  if (!x || !need_float(x, "silu")) return NULL;
  fl_node *f = fl_widen(x);
  return back_to(n_mul(f, n_sigmoid(f)), x->dtype);
}

fl_node *n_embedding(fl_node *ids, fl_node *w) {
  char s[FL_SHAPE_TEXT];
  if (!ids || !w || !fl_usable(w, "embedding")) return NULL;
  if (w->shape->rank != 2) {
    FL_FAIL(w->ctx, FLAME_BAD_ARGUMENT, "embedding", "w has shape %s, need (ids, size)",
            FL_SHAPE(s, w->shape));
    return NULL;
  }
  return n_take_axis(w, 0, n_index(ids, w->shape->size[0], 0, "embedding"));
}

fl_node *n_dropout(fl_node *x, double p) {
  if (!x || !need_float(x, "dropout")) return NULL;
  flame_context *c = x->ctx;
  if (!(p >= 0 && p <= 1)) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "dropout", "p = %g, need 0 <= p <= 1", p);
    return NULL;
  }
  fl_node *u = n_random(c, FL_OP_uniform, FLAME_F32, x->device, x->shape->rank,
                        x->shape->size, 0, 1);
  fl_node *keep = n_ge(u, n_num(c, p));
  return n_where(keep, n_mul(x, n_num(c, p < 1 ? 1 / (1 - p) : 0)), n_num(c, 0));
}

/* ---- cross entropy ----------------------------------------------------------------- */

typedef struct loss {             /* what the parts of a cross entropy share */
  flame_context *c;
  fl_node *input, *x;             /* x: the input in the compute dtype */
  fl_node *weight;                /* broadcastable over x, or fl_none */
  int axis;                       /* of the classes */
  int64_t classes;
  int reduction;
  double smoothing;
} loss;

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

static fl_node *zero(const loss *l) { return n_num(l->c, 0); }

static fl_node *sum_classes(const loss *l, fl_node *x) {
  return n_sum(x, 1u << l->axis, 0);
}

static fl_node *sum_all(fl_node *x) { return n_sum(x, FL_ALL_AXES, 0); }

/* A vector placed along an axis of x. */
static fl_node *along(fl_node *v, const fl_node *x, int axis) {
  int64_t size[FL_MAX_AXES];
  if (!v) return NULL;
  for (int a = 0; a < x->shape->rank; a++) size[a] = a == axis ? x->shape->size[axis] : 1;
  return n_reshape(v, x->shape->rank, size);
}

static fl_node *log_probabilities(const loss *l) { return log_softmax(l->x, l->axis); }

/* Has the target the input's shape without the class axis? */
static int ids_ok(const loss *l, const fl_node *target) {
  char a[FL_SHAPE_TEXT], b[FL_SHAPE_TEXT], w[FL_SHAPE_TEXT];
  const fl_layout *s = l->x->shape, *t = target->shape;
  int64_t want[FL_MAX_AXES];
  int rank = 0;
  for (int k = 0; k < s->rank; k++) if (k != l->axis) want[rank++] = s->size[k];
  int ok = rank == t->rank;
  for (int k = 0; ok && k < rank; k++) ok = want[k] == t->size[k];
  if (!ok)
    FL_FAIL(l->c, FLAME_BAD_ARGUMENT, "cross_entropy",
            "input has shape %s and target %s, need %s", FL_SHAPE(a, s), FL_SHAPE(b, t),
            fl_shape_text(w, rank, want));
  return ok;
}

/* sum(where(chosen, x, 0)) over the classes: x at the target's class. */
static fl_node *pick(const loss *l, fl_node *chosen, fl_node *x) {
  return sum_classes(l, n_where(chosen, x, zero(l)));
}

/* Which elements of x belong to the class 'id'; 'id' has size 1 along the axis. */
static fl_node *is_class(fl_node *id, const fl_node *x, int axis) {
  if (!id) return NULL;
  fl_node *classes = n_iota(id->ctx, id->dtype, id->device, 1, &x->shape->size[axis],
                            (fl_scalar){ .i = 0 }, (fl_scalar){ .i = 1 });
  return n_eq(along(classes, x, axis), id);
}

/* x, or what autocast cast to x, if that is an array in memory anyway: if it is stored, or the
** result of a product or call. Otherwise NULL. */
static fl_node *in_memory(fl_node *x) {
  if (x->state == FL_PENDING && x->op == FL_OP_cast && !x->base) x = x->in[0];
  const fl_node *b = x->base ? x->base : x;
  return b->state != FL_PENDING || b->op == FL_OP_matmul || b->op == FL_OP_call ? x : NULL;
}

/* x at the target class, without the axis, minus 'most': gathered if x is in memory, otherwise
** found in the pass over z that sums the exponentials. Both give the same bits. */
static fl_node *at_class(const loss *l, fl_node *index, fl_node *chosen, fl_node *most,
                         fl_node *z) {
  fl_node *from = in_memory(l->input), *x;
  if (!from) return pick(l, chosen, z);
  x = n_gather_axis(from, l->axis, n_unsqueeze(index, l->axis));
  x = x ? n_cast(x, l->input->dtype) : NULL;
  return drop_axes(n_sub(x ? n_cast(x, l->x->dtype) : NULL, most), 1u << l->axis);
}

/* What the gradient of log_loss reads. most: the largest value along the axis; sum: the sum of e^(x
** - most). */
typedef struct kept_loss { fl_node *x, *most, *sum, *id; int axis; } kept_loss;

static void log_loss_release(void *arg) {
  kept_loss *k = arg;
  fl_mem *m = &k->id->ctx->mem;
  fl_node_drop(k->x);
  fl_node_drop(k->most);
  fl_node_drop(k->sum);
  fl_node_drop(k->id);
  fl_free(m, k, sizeof *k);
}

/* The gradient of log_loss: (p - 1) g at the target's class, p g elsewhere. */
static flame_status log_loss_back(flame_context *c, void *arg, fl_node *y, fl_node *g, int nin,
                                  fl_node **gin) {
  const kept_loss *k = arg;
  fl_node *x = k->x, *gk = n_unsqueeze(g, k->axis);
  fl_node *t = c->grad_mode ? n_mul(n_softmax(x, k->axis), gk)
                            : n_mul(n_exp_below(n_sub(x, k->most)), n_div(gk, k->sum));
  gin[0] = n_where(is_class(k->id, x, k->axis), n_sub(t, gk), t);
  (void)y, (void)nin;
  return gin[0] ? FLAME_OK : c->err.code;
}

/* -log p of the class 'id', without the axis: log(sum e^(x - most)) - (x[id] - most). The gradient
** is a separate rule, without a sum over the other classes. index: id as n_index gives it, for a
** gather. */
static fl_node *log_loss(const loss *l, fl_node *index, fl_node *id, fl_node *chosen) {
  flame_context *c = l->c;
  const uint8_t mode = c->grad_mode;
  if (!id || !chosen) return NULL;
  c->grad_mode = 0;
  fl_node *most = n_amax(l->x, 1u << l->axis, 1), *z = n_sub(l->x, most);
  fl_node *sum = n_sum(n_exp_below(z), 1u << l->axis, 1);
  fl_node *y = n_sub(drop_axes(n_log(sum), 1u << l->axis), at_class(l, index, chosen, most, z));
  c->grad_mode = mode;
  if (!y || !mode || !l->x->entry) return y;
  kept_loss *k = fl_zalloc(&c->mem, sizeof *k);
  if (!k) return fl_no_memory(c, "cross_entropy");
  *k = (kept_loss){ l->x, most, sum, id, l->axis };
  fl_node_hold(l->x);
  fl_node_hold(most);
  fl_node_hold(sum);
  fl_node_hold(id);
  return n_ruled(y, 1, &l->x, log_loss_back, log_loss_release, k);
}

static fl_node *loss_of_ids(const loss *l, fl_node *target, int64_t ignore) {
  flame_context *c = l->c;
  if (!ids_ok(l, target)) return NULL;
  fl_node *valid = n_ne(target = n_cast(target, FLAME_I64), n_int(c, ignore));
  int flags = FL_INDEX_CLASS;
  if (ignore == -100) flags |= FL_INDEX_IGNORE;
  else target = n_where(valid, target, n_int(c, 1));
  fl_node *index = n_index(target, l->classes, flags, "cross_entropy"), *id;
  if (!index) return NULL;
  /* comparing in i32 costs half as much */
  id = n_unsqueeze(n_cast(index, l->classes <= INT32_MAX ? FLAME_I32 : FLAME_I64), l->axis);
  fl_node *chosen = is_class(id, l->x, l->axis);
  fl_node *nll = log_loss(l, index, id, chosen), *each, *smooth = NULL;
  const int weighted = !fl_is_none(l->weight);
  if (weighted) {
    each = n_where(valid, pick(l, chosen, l->weight), zero(l));
    nll = n_where(valid, n_mul(nll, each), zero(l));
  } else {
    each = n_cast(valid, l->x->dtype);
    nll = n_where(valid, nll, zero(l));
  }
  if (l->smoothing > 0) {
    fl_node *logp = log_probabilities(l);
    smooth = n_neg(sum_classes(l, weighted ? n_mul(logp, l->weight) : logp));
    smooth = n_where(valid, smooth, zero(l));
    nll = n_add(n_mul(nll, n_num(c, 1 - l->smoothing)),
                n_mul(smooth, n_num(c, l->smoothing / (double)l->classes)));
  }
  if (l->reduction == REDUCE_NONE) return nll;
  return l->reduction == REDUCE_SUM ? sum_all(nll) : n_div(sum_all(nll), sum_all(each));
}

static fl_node *loss_of_probabilities(const loss *l, fl_node *target) {
  char a[FL_SHAPE_TEXT], b[FL_SHAPE_TEXT];
  flame_context *c = l->c;
  const fl_layout *s = l->x->shape;
  if (target->shape != s) {
    const int ids = target->shape->rank + 1 == s->rank;
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "cross_entropy",
            "input has shape %s and the probabilities %s%s%s%s", FL_SHAPE(a, s),
            FL_SHAPE(b, target->shape), ids ? "; class ids have an integer dtype, target is " : "",
            ids ? fl_dtype_name(target->dtype) : "", ids ? FL_DO ": use target:long()" : "");
    return NULL;
  }
  fl_node *p = n_cast(target, l->x->dtype);
  if (l->smoothing > 0)
    p = n_add(n_mul(p, n_num(c, 1 - l->smoothing)),
              n_num(c, l->smoothing / (double)l->classes));
  fl_node *x = n_mul(log_probabilities(l), p);
  if (!fl_is_none(l->weight)) x = n_mul(x, l->weight);
  fl_node *each = n_neg(sum_classes(l, x));
  if (l->reduction == REDUCE_NONE) return each;
  fl_node *y = sum_all(each);
  if (l->reduction == REDUCE_SUM) return y;
  return n_div(y, n_num(c, (double)s->numel / (double)l->classes));
}

static int has_classes(const loss *l, const fl_node *input, const char *op) {
  char s[FL_SHAPE_TEXT];
  if (l->classes > 0) return 1;
  FL_FAIL(l->c, FLAME_BAD_ARGUMENT, op,
          "input has shape %s: no classes along axis %d, need at least 1",
          FL_SHAPE(s, input->shape), (int)fl_counted(l->c, l->axis));
  return 0;
}

fl_node *n_cross_entropy(fl_node *input, fl_node *target, fl_node *weight, int reduction,
                         int64_t ignore, double smoothing) {
  static const char op[] = "cross_entropy";
  char s[FL_SHAPE_TEXT];
  if (!input || !target || !weight || !need_float(input, op) || !fl_usable(target, op))
    return NULL;
  if (!fl_same_device(input, target, op)) return NULL;
  loss l = { .c = input->ctx,
             .input = input,
             .axis = input->shape->rank > 1,
             .reduction = reduction,
             .smoothing = smoothing };
  if (input->shape->rank == 0 || !(smoothing >= 0 && smoothing <= 1)) {
    FL_FAIL(l.c, FLAME_BAD_ARGUMENT, op,
            input->shape->rank ? "label_smoothing %g, need 0 to 1"
                               : "input has no class axis",
            smoothing);
    return NULL;
  }
  l.classes = input->shape->size[l.axis];
  if (!has_classes(&l, input, op)) return NULL;
  if (!(l.x = fl_widen(input))) return NULL;
  l.weight = weight;
  if (!fl_is_none(weight)) {
    if (!fl_usable(weight, op)) return NULL;
    if (weight->shape->rank != 1 || weight->shape->numel != l.classes) {
      FL_FAIL(l.c, FLAME_BAD_ARGUMENT, op, "weight has shape %s, need (%lld)",
              FL_SHAPE(s, weight->shape), (long long)l.classes);
      return NULL;
    }
    l.weight = along(n_cast(weight, l.x->dtype), l.x, l.axis);
    if (!l.weight) return NULL;
  }
  fl_node *y = fl_is_float(target->dtype) ? loss_of_probabilities(&l, target)
                                          : loss_of_ids(&l, target, ignore);
  return back_to(y, input->dtype);
}

/* q, a step function of x / y, as a value whose gradient is 0. Its own rule would give NaN where
** the quotient's gradient is infinite (0 times infinity). So q is untracked, in a 'where' whose
** other branch, which is never taken, is floordiv: that has the gradient 0. */
static fl_node *with_no_slope(fl_node *q, fl_node *x, fl_node *y) {
  fl_node *zero = q ? n_num(q->ctx, 0) : NULL;
  return n_where(n_eq(zero, zero), q, n_floordiv(x, y));
}

fl_node *n_truncdiv(fl_node *x, fl_node *y) {
  fl_node *rest = n_fmod(x, y);
  if (!rest) return NULL;
  /* without the remainder there is no fraction */
  if (!fl_is_float(rest->dtype)) return n_floordiv(n_sub(x, rest), y);
  fl_node *u = x->entry ? n_detach(x) : x, *v = y->entry ? n_detach(y) : y,
          *q = n_trunc(n_div(u, v));
  return u != x || v != y ? with_no_slope(q, x, y) : q;
}
