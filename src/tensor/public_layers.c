/*
** The functions of flame.h that networks are made of: products, reductions that are composites,
** norms, activations, embedding, losses, attention. An omitted optional operand is NULL.
*/
#include "tensor/public.h"

/* The node of an optional operand. */
static fl_node *optional(const flame_tensor *x) { return x ? x->node : &fl_none; }

/* Are the n operands usable? Those from 'given' on may be NULL. */
static int ready_with(const char *op, int n, int given, flame_tensor *const *x) {
  flame_tensor *there[8];
  int m = 0;
  for (int i = 0; i < n; i++) if (i < given || x[i]) there[m++] = x[i];
  return fl_public_ready(op, m, there);
}

/* ---- products ------------------------------------------------------------------------------ */

flame_tensor *flame_matmul(flame_tensor *x, flame_tensor *y) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  flame_tensor *const all[] = {x, y};
  if (!fl_public_ready("matmul", 2, all)) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, n_matmul(x->node, y->node));
}

flame_tensor *flame_linear(flame_tensor *x, flame_tensor *w, flame_tensor *b) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  flame_tensor *const all[] = {x, w, b};
  if (!ready_with("linear", 3, 2, all)) return NULL;
  FL_ENTER(x->ctx);
  fl_node *n = n_linear(x->node, w->node, optional(b));
  if (!n) fl_error_own(&x->ctx->err, "linear");
  return fl_public_result(x->ctx, fl_mark_, n);
}

/* ---- along axes ---------------------------------------------------------------------------- */

flame_tensor *flame_mean(flame_tensor *x, int naxes, const int *axes, int keepdim) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  uint32_t set;
  if (!fl_public_ready("mean", 1, &x) || !fl_public_axes(x, "mean", naxes, axes, &set)) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, n_mean(x->node, set, keepdim));
}

flame_tensor *flame_var(flame_tensor *x, int naxes, const int *axes, double correction,
                        int keepdim) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  uint32_t set;
  if (!fl_public_ready("var", 1, &x) || !fl_public_axes(x, "var", naxes, axes, &set)) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, n_var(x->node, set, correction, keepdim));
}

flame_tensor *flame_logsumexp(flame_tensor *x, int naxes, const int *axes, int keepdim) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  uint32_t set;
  if (!fl_public_ready("logsumexp", 1, &x) ||
      !fl_public_axes(x, "logsumexp", naxes, axes, &set)) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, n_logsumexp(x->node, set, keepdim));
}

flame_tensor *flame_softmax(flame_tensor *x, int axis) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready("softmax", 1, &x)) return NULL;
  const int k = fl_public_axis(x, axis, "softmax");
  if (k < 0) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, n_softmax(x->node, k));
}

flame_tensor *flame_log_softmax(flame_tensor *x, int axis) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready("log_softmax", 1, &x)) return NULL;
  const int k = fl_public_axis(x, axis, "log_softmax");
  if (k < 0) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, n_log_softmax(x->node, k));
}

/* ---- norms --------------------------------------------------------------------------------- */

flame_tensor *flame_layer_norm(flame_tensor *x, int naxes, flame_tensor *w, flame_tensor *b,
                               double eps) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  flame_tensor *const all[] = {x, w, b};
  if (!ready_with("layer_norm", 3, 1, all)) return NULL;
  FL_ENTER(x->ctx);
  fl_node *n = n_layer_norm(x->node, naxes, optional(w), optional(b), eps);
  return fl_public_result(x->ctx, fl_mark_, n);
}

flame_tensor *flame_group_norm(flame_tensor *x, int64_t groups, flame_tensor *w, flame_tensor *b,
                               double eps) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  flame_tensor *const all[] = {x, w, b};
  if (!ready_with("group_norm", 3, 1, all)) return NULL;
  FL_ENTER(x->ctx);
  fl_node *n = n_group_norm(x->node, groups, optional(w), optional(b), eps);
  return fl_public_result(x->ctx, fl_mark_, n);
}

/* ---- activations --------------------------------------------------------------------------- */

flame_tensor *flame_gelu(flame_tensor *x, int tanh_form) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready("gelu", 1, &x)) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, n_gelu(x->node, tanh_form));
}

flame_tensor *flame_silu(flame_tensor *x) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready("silu", 1, &x)) return NULL;
  FL_ENTER(x->ctx);
  return fl_public_result(x->ctx, fl_mark_, n_silu(x->node));
}

flame_tensor *flame_dropout(flame_tensor *x, double p) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  if (!fl_public_ready("dropout", 1, &x)) return NULL;
  if (!(p >= 0 && p <= 1)) {
    FL_FAIL(x->ctx, FLAME_BAD_ARGUMENT, "dropout", "p = %g, need 0 <= p <= 1", p);
    return NULL;
  }
  FL_ENTER(x->ctx);
  fl_node *n = p == 0 ? n_alias(x->node) : p == 1 ? n_mul(x->node, n_int(x->ctx, 0))
                                                  : n_dropout(x->node, p);
  return fl_public_result(x->ctx, fl_mark_, n);
}

/* ---- ids, losses, attention ---------------------------------------------------------------- */

flame_tensor *flame_embedding(flame_tensor *ids, flame_tensor *w) {
  FL_HOLD(ids ? ids->ctx : NULL, NULL);
  flame_tensor *const all[] = {ids, w};
  if (!fl_public_ready("embedding", 2, all)) return NULL;
  FL_ENTER(ids->ctx);
  return fl_public_result(ids->ctx, fl_mark_, n_embedding(ids->node, w->node));
}

flame_tensor *flame_cross_entropy(flame_tensor *x, flame_tensor *target, flame_tensor *weight,
                                  flame_reduction reduction, int64_t ignore, double smoothing) {
  FL_HOLD(x ? x->ctx : NULL, NULL);
  flame_tensor *const all[] = {x, target, weight};
  if (!ready_with("cross_entropy", 3, 2, all)) return NULL;
  flame_context *c = x->ctx;
  if ((int)reduction < FLAME_EACH || reduction > FLAME_SUM) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "cross_entropy",
            "reduction %d, need FLAME_EACH, FLAME_MEAN or FLAME_SUM", (int)reduction);
    return NULL;
  }
  FL_ENTER(c);
  fl_node *n = n_cross_entropy(x->node, target->node, optional(weight), (int)reduction, ignore,
                               smoothing);
  return fl_public_result(c, fl_mark_, n);
}

flame_tensor *flame_attention(flame_tensor *q, flame_tensor *k, flame_tensor *v,
                              flame_tensor *mask, double scale, int causal) {
  FL_HOLD(q ? q->ctx : NULL, NULL);
  flame_tensor *const all[] = {q, k, v, mask};
  if (!ready_with("attention", 4, 3, all)) return NULL;
  if (mask && mask->node->entry) {
    FL_FAIL(q->ctx, FLAME_BAD_ARGUMENT, "attention",
            "the mask is tracked, and gets no gradient" FL_DO "; use flame_detach");
    return NULL;
  }
  FL_ENTER(q->ctx);
  fl_node *n = n_attention(q->node, k->node, v->node, optional(mask), scale, causal != 0, 0);
  if (!n) fl_error_own(&q->ctx->err, "attention");
  return fl_public_result(q->ctx, fl_mark_, n);
}
