/*
** flame.autograd.anomaly(true): each public call, and each step of a backward walk, computes the
** ops that it recorded, one after the other, and raises for the first that made a NaN or an
** infinity out of finite values, with the line that recorded it (for a backward op the line of its
** forward op). Constants that are not finite, and values computed from them, are allowed: -inf in a
** mask is intended. Every value is read back, so this is slow. FLAME_CHECK=nan only looks for a NaN
** made from operands without one, and calls this after a run that wrote a NaN (scan.c).
*/
#include "engine/evaluate.h"
#include "engine/memory.h"
#include "tensor/build_util.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static int is_bad(int mode, double v) { return mode == FL_ANOMALY_NAN ? isnan(v) : !isfinite(v); }

/* Statistics of the elements of a value. */
typedef struct survey { int64_t bad, inf; double first, low, high, sum; } survey;

static void see(survey *s, int mode, double v) {
  if (is_bad(mode, v) && s->bad++ == 0) s->first = v;
  if (isinf(v)) s->inf++;
  if (isnan(v)) return;
  if (v < s->low) s->low = v;
  if (v > s->high) s->high = v;
  s->sum += v;
}

/* 1: no element of n is bad (NaN in mode NAN, else not finite), or n is not a float; 0: s->bad of
** them are, or n is a number that is bad; -1: n could not be read, the error is kept. */
static int all_finite(flame_context *c, int mode, fl_node *n, survey *s) {
  *s = (survey){ .low = INFINITY, .high = -INFINITY };
  if (!fl_is_float(n->dtype)) return 1;
  if (n->state == FL_NUMBER) return n->isint || !is_bad(mode, n->scal[0].d);
  const int size = fl_dtype_size(n->dtype);
  const size_t bytes = (size_t)n->shape->numel * (size_t)size;
  if (bytes == 0) return 1;
  char *p = (char *)fl_alloc(&c->mem, bytes);
  if (p == NULL) return FL_FAIL(c, FLAME_NO_MEMORY, "anomaly", "no host memory"), -1;
  const flame_status e = fl_read_node(c, n, p, bytes);
  for (int64_t i = 0; e == FLAME_OK && i < n->shape->numel; i++)
    see(s, mode, fl_scalar_load(p + i * size, n->dtype).d);
  fl_free(&c->mem, p, bytes);
  return e == FLAME_OK ? s->bad == 0 : -1;
}

/* Appends "(2, 3) f32 from -1 to 4, mean 1.5" to 'out', after "; " if there is text already. If
** elements are infinite their number takes the place of the mean. */
static void tell_operand(char *out, size_t size, const fl_node *n, const survey *s) {
  char shape[FL_SHAPE_TEXT], more[48];
  if (n->state == FL_NUMBER || !fl_is_float(n->dtype) || s->low > s->high) return;
  if (s->inf) snprintf(more, sizeof more, "%lld infinite", (long long)s->inf);
  else snprintf(more, sizeof more, "mean %.4g", s->sum / (double)n->shape->numel);
  const size_t at = strlen(out);
  snprintf(out + at, size - at, "%s%s %s from %.4g to %.4g, %s", at ? "; " : "",
           fl_shape_text(shape, n->shape->rank, n->shape->size), fl_dtype_name(n->dtype), s->low,
           s->high, more);
}

static flame_status tell(flame_context *c, int mode, const fl_node *n, const char *op,
                         const survey *s, const char *operands) {
  char back[sizeof c->err.op], shape[FL_SHAPE_TEXT], made[64] = "";
  if (n->back) {
    snprintf(back, sizeof back, "backward%s%s", n->back == FL_BACK_CUSTOM ? "" : " of ",
             n->back == FL_BACK_CUSTOM ? "" : fl_ops[n->back - 1].name);
    snprintf(made, sizeof made, "%s ", op);
  }
  c->err.site = n->site;
  return FL_FAIL(c, FLAME_BAD_VALUE, n->back ? back : op,
                 "%smade %s out of %s%s, in %lld of %lld elements of shape %s%s%s", made,
                 isnan(s->first) ? "NaN" : "Inf",
                 mode == FL_ANOMALY_NAN ? "operands without one" : "finite values",
                 c->group ? " on this rank" : "",
                 (long long)s->bad, (long long)n->shape->numel,
                 fl_shape_text(shape, n->shape->rank, n->shape->size),
                 operands[0] ? "; operands: " : "", operands);
}

flame_status fl_anomaly_of(flame_context *c, int mode, fl_node *n, const char *op,
                           fl_node *const *in, int nin) {
  survey own, operand;
  char text[320] = "";
  const int ok = all_finite(c, mode, n, &own);
  if (ok != 0) return ok < 0 ? c->err.code : FLAME_OK;
  for (int i = 0; i < nin; i++) {
    const int clean = all_finite(c, mode, in[i], &operand);
    if (clean != 1) return clean < 0 ? c->err.code : FLAME_OK;
    tell_operand(text, sizeof text, in[i], &operand);
  }
  return tell(c, mode, n, op, &own, text);
}

void fl_anomaly_name(const fl_node *n, char op[FL_OP_TEXT]) {
  snprintf(op, FL_OP_TEXT, "%s", fl_node_op(n));
}

int fl_anomaly_possible(int mode, const fl_node *n) {
  if (n->state != FL_PENDING || n->base != NULL || n->nin == 0 || !fl_is_float(n->dtype)) return 0;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] == NULL && i < 4 && is_bad(mode, n->scal[i].d)) return 0;
  return 1;
}

/* A node to check. Its operands are held in c->borrowed, from index 'at' on: computing one value
** computes the whole window (all recorded ops), after which nodes release their inputs and, of a
** call, the name. */
typedef struct suspect { fl_node *n; int64_t at; int count; char op[FL_OP_TEXT]; } suspect;

/* 1: n must be checked, and its operands are held; 0: it need not; -1: no memory, the error is
** kept. */
static int suspected(flame_context *c, int mode, fl_node *n, suspect *s) {
  if (!fl_anomaly_possible(mode, n)) return 0;
  *s = (suspect){ .n = n, .at = c->borrowed.n };
  fl_anomaly_name(n, s->op);
  for (int i = 0; i < n->nin; i++) {
    if (n->in[i] == NULL) continue;
    if (fl_scope_hold(c, n->in[i]) == NULL) return -1;
    s->count++;
  }
  return 1;
}

/* Checks the nodes that c->borrowed holds from index 'mark' on, in the order in which they were
** recorded. */
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
  c->anomaly = 0;                             /* ops that a finaliser records now are not checked */
  for (int64_t i = 0; e == FLAME_OK && i < n; i++)
    e = fl_anomaly_of(c, mode, list[i].n, list[i].op, &c->borrowed.at[list[i].at], list[i].count);
  c->anomaly = mode;
  fl_free(&c->mem, list, (size_t)most * sizeof *list);
  return e;
}
