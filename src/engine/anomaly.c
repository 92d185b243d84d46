/*
** flame.autograd.anomaly(true): each public call, and each step of a backward walk, computes
** what it recorded, one op after the other, and raises for the first that made a NaN or an infinity
** out of finite values, with the line that recorded it (for a backward op the line of its forward
** op). Constants that are not finite, and what is computed from them, pass: -inf in a mask is
** meant. FLAME_CHECK=nan does the same for a NaN alone, made of operands without one. Every value
** is read back, so this is slow and for finding faults only.
*/
#include "engine/evaluate.h"
#include <math.h>

static int is_bad(int mode, double v) { return mode == FL_ANOMALY_NAN ? isnan(v) : !isfinite(v); }

/* 1: all finite (or not a float), 0: *bad of them are not, -1: could not be
** read, the error kept. */
static int all_finite(flame_context *c, int mode, fl_node *n, int64_t *bad, double *first) {
  *bad = 0;
  if (!fl_is_float(n->dtype)) return 1;
  if (n->state == FL_NUMBER) return n->isint || !is_bad(mode, n->scal[0].d);
  const int size = fl_dtype_size(n->dtype);
  const size_t bytes = (size_t)n->shape->numel * (size_t)size;
  if (bytes == 0) return 1;
  char *p = (char *)fl_alloc(&c->mem, bytes);
  if (p == NULL) return FL_FAIL(c, FLAME_NO_MEMORY, "anomaly", "no host memory"), -1;
  const flame_status e = fl_read_node(c, n, p, bytes);
  for (int64_t i = 0; e == FLAME_OK && i < n->shape->numel; i++) {
    const double v = fl_scalar_load(p + i * size, n->dtype).d;
    if (!is_bad(mode, v)) continue;
    if ((*bad)++ == 0) *first = v;
  }
  fl_free(&c->mem, p, bytes);
  return e == FLAME_OK ? *bad == 0 : -1;
}

/* A node to look at. Its operands are held by the borrowing scope, from 'at' on: computing one
** value computes the window, and nodes then let go of their inputs. */
typedef struct suspect { fl_node *n; int64_t at; int count; } suspect;

/* 1: n is to be looked at, its operands are held; 0: not; -1: no memory, the error kept. */
static int suspected(flame_context *c, int mode, fl_node *n, suspect *s) {
  if (n->state != FL_PENDING || n->base != NULL || n->nin == 0 || !fl_is_float(n->dtype)) return 0;
  *s = (suspect){ n, c->borrowed.n, 0 };
  for (int i = 0; i < n->nin; i++) {
    if (n->in[i] == NULL && i < 4 && fl_is_float(n->dtype) && is_bad(mode, n->scal[i].d)) return 0;
    if (n->in[i] == NULL) continue;
    if (fl_scope_hold(c, n->in[i]) == NULL) return -1;
    s->count++;
  }
  return 1;
}

static flame_status check(flame_context *c, int mode, const suspect *s) {
  int64_t bad;
  double first = 0;
  const fl_node *n = s->n;
  const int ok = all_finite(c, mode, s->n, &bad, &first);
  if (ok != 0) return ok < 0 ? c->err.code : FLAME_OK;
  for (int i = 0; i < s->count; i++) {
    int64_t before;
    double unused;
    const int clean = all_finite(c, mode, c->borrowed.at[s->at + i], &before, &unused);
    if (clean != 1) return clean < 0 ? c->err.code : FLAME_OK;
  }
  c->err.site = n->site;
  return FL_FAIL(c, FLAME_BAD_VALUE, fl_ops[n->op].name,
                 "made %s out of %s, in %lld of %lld elements", isnan(first) ? "NaN" : "Inf",
                 mode == FL_ANOMALY_NAN ? "operands without one" : "finite values", (long long)bad,
                 (long long)n->shape->numel);
}

/* What was recorded since 'mark', in order. The nodes are held by the borrowing scope. */
flame_status fl_anomaly_check(flame_context *c, int64_t mark) {
  const int64_t last = c->borrowed.n, most = last - mark;
  if (c->evaluating || c->flushing || most <= 0) return FLAME_OK;
  suspect *list = (suspect *)fl_alloc(&c->mem, (size_t)most * sizeof *list);
  if (list == NULL) return FL_FAIL(c, FLAME_NO_MEMORY, "anomaly", "no host memory");
  int64_t n = 0;
  const uint8_t mode = c->anomaly;
  int ok = 0;
  for (int64_t i = mark; ok >= 0 && i < last; i++) {
    ok = suspected(c, mode, c->borrowed.at[i], &list[n]);
    if (ok > 0) n++;
  }
  flame_status e = ok < 0 ? c->err.code : FLAME_OK;
  c->anomaly = 0;                                    /* not what a finaliser records meanwhile */
  for (int64_t i = 0; e == FLAME_OK && i < n; i++) e = check(c, mode, &list[i]);
  c->anomaly = mode;
  fl_free(&c->mem, list, (size_t)most * sizeof *list);
  return e;
}
