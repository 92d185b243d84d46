/*
** flame.autograd.anomaly(true): each public call, and each step of a backward walk, computes
** what it recorded, one op after the other, and raises for the first that made a NaN or an infinity out of finite values, with
** the line that recorded it (for a backward op the line of its forward op). Constants that
** are not finite, and what is computed from them, pass: -inf in a mask is meant.
** Every value is read back, so this is slow and for finding faults only.
*/
#include "engine/evaluate.h"
#include <math.h>
#include <stdio.h>

/* 1: all finite (or not a float), 0: *bad of them are not, -1: could not be read, the error kept. */
static int all_finite(flame_context *c, fl_node *n, int64_t *bad, double *first) {
  *bad = 0;
  if (!fl_is_float(n->dtype)) return 1;
  if (n->state == FL_NUMBER) return n->isint || isfinite(n->scal[0].d);
  const int size = fl_dtype_size(n->dtype);
  const size_t bytes = (size_t)n->shape->numel * (size_t)size;
  if (bytes == 0) return 1;
  char *p = (char *)fl_alloc(&c->mem, bytes);
  if (p == NULL) return FL_FAIL(c, FLAME_NO_MEMORY, "anomaly", "no host memory"), -1;
  const flame_status e = fl_read_node(c, n, p, bytes);
  for (int64_t i = 0; e == FLAME_OK && i < n->shape->numel; i++) {
    const double v = fl_scalar_load(p + i * size, n->dtype).d;
    if (isfinite(v)) continue;
    if ((*bad)++ == 0) *first = v;
  }
  fl_free(&c->mem, p, bytes);
  return e == FLAME_OK ? *bad == 0 : -1;
}

/* Were the operands of n, still PENDING, all finite? */
static int operands_finite(flame_context *c, const fl_node *n) {
  int64_t bad;
  double first;
  if (n->nin == 0) return 0;                        /* a constant is meant */
  for (int i = 0; i < n->nin; i++) {
    fl_node *x = n->in[i];
    if (x == NULL) {
      if (!fl_is_integer(n->dtype) && !isfinite(n->scal[i].d)) return 0;
      continue;
    }
    if (x->state == FL_NUMBER && !x->isint && !isfinite(x->scal[0].d)) return 0;
    const int ok = all_finite(c, x, &bad, &first);
    if (ok != 1) return ok;
    if (n->state != FL_PENDING) return 1;            /* computed along with its operand */
  }
  return 1;
}

static flame_status check(flame_context *c, fl_node *n) {
  int64_t bad;
  double first = 0;
  if (n->state != FL_PENDING || n->base != NULL || !fl_is_float(n->dtype)) return FLAME_OK;
  const int before = operands_finite(c, n);
  if (before < 0) return c->err.code;
  if (before == 0) return FLAME_OK;
  const int after = all_finite(c, n, &bad, &first);
  if (after != 0) return after < 0 ? c->err.code : FLAME_OK;
  c->err.site = n->site;
  const flame_status e = FL_FAIL(c, FLAME_BAD_VALUE, fl_ops[n->op].name,
      "made %s out of finite values, in %lld of %lld elements", isnan(first) ? "NaN" : "Inf",
      (long long)bad, (long long)n->shape->numel);
  return e;
}

/* What was recorded since 'mark', in order. The nodes are held by the borrowing scope. */
flame_status fl_anomaly_check(flame_context *c, int64_t mark) {
  flame_status e = FLAME_OK;
  if (c->evaluating || c->flushing) return e;
  const int64_t last = c->borrowed.n;
  c->anomaly = 0;                                    /* not what a finaliser records meanwhile */
  for (int64_t i = mark; e == FLAME_OK && i < last; i++)
    e = check(c, (fl_node *)((uintptr_t)c->borrowed.at[i] & ~(uintptr_t)1));
  c->anomaly = 1;
  return e;
}
