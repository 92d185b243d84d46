/*
** FLAME_CHECK=nan. Plans of such a context record for each step whether it wrote a NaN
** (plan/scan.c). Windows (sequences of recorded ops) are planned, run and replayed as without the
** check, except that memory which a run overwrites is copied first. If a step wrote a NaN, the
** copies are restored, nothing is stored, and the window, which still has its inputs, is run again
** op by op; the first op that makes a NaN out of operands without one is the error. If there is
** none (the NaN was given), the values are already right.
*/
#include "engine/scan.h"
#include "engine/memory.h"
#include "tensor/limits.h"
#include <stdio.h>

/* Reports once that memory may double. */
static void say(flame_context *c) {
  fl_engine *e = c->engine;
  if (e->said_scan || c->limits.any) return;
  e->said_scan = 1;
  fputs("flame: FLAME_CHECK=nan keeps a copy of what a step writes, so memory may double\n", stderr);
}

flame_status fl_scan_keep(flame_context *c, const fl_program *p, fl_device *d, fl_buffer **old) {
  flame_status e = FLAME_OK;
  for (int64_t h = 0; e == FLAME_OK && h < p->homes.n; h++) {
    fl_engine *g = c->engine;
    const fl_buffer *b = p->homes.at[h];
    say(c);
    g->making = b->nodes;
    old[h] = fl_buffer_new(c, p->device, b->bytes);
    g->making = NULL;
    if (!old[h]) return c->err.code;
    old[h]->site = b->site;
    if (b->bytes) e = d->table->copy(d, old[h]->ptr, b->ptr, b->bytes);
  }
  return e;
}

flame_status fl_scan_look(flame_context *c, const fl_plan *p, fl_device *d, int *found) {
  const fl_engine *e = c->engine;
  const size_t n = (size_t)p->nscan;
  uint8_t few[512], *flag = n <= sizeof few ? few : fl_alloc(&c->mem, n);
  *found = 0;
  if (!flag) return FL_FAIL(c, FLAME_NO_MEMORY, "evaluate", "out of host memory");
  const flame_status s = d->table->download(d, flag, (char *)e->arena[d->index] + p->scan_at,
                                            p->nscan);
  for (size_t i = 0; s == FLAME_OK && i < n && !*found; i++) *found = flag[i] != 0;
  if (flag != few) fl_free(&c->mem, flag, n);
  return s;
}

flame_status fl_scan_restore(const fl_program *p, fl_device *d, fl_buffer *const *old) {
  flame_status e = FLAME_OK;
  for (int64_t h = 0; e == FLAME_OK && h < p->homes.n; h++)
    if (p->homes.at[h]->bytes)
      e = d->table->copy(d, p->homes.at[h]->ptr, old[h]->ptr, p->homes.at[h]->bytes);
  return e;
}

static int is_resting(const fl_node *n, const fl_node *nan) {
  return n == nan || (n->state == FL_PENDING && n->rests);
}

/* Refuses writes of values that depend on 'nan', the node that made the NaN: parameters keep their
** values. Other values that depend on this node can be read, to inspect the NaN. */
static void refuse_writes(flame_context *c, const fl_node *nan) {
  for (int64_t i = 0; i < c->win.nodes.n; i++) {
    fl_node *n = c->win.nodes.at[i];
    if (!n) continue;
    n->rests = n->base && is_resting(n->base, nan);
    for (int k = 0; !n->base && k < n->nin; k++)
      n->rests |= (uint8_t)(n->in[k] && is_resting(n->in[k], nan));
    const fl_node *b = n->rests ? n->before : NULL;
    if (!b || b->state == FL_FAILED || is_resting(b, nan)) continue;
    fl_node_refuse(n);
    n->rests = 0;
  }
}

/* Computes n, whose operands are stored, alone. Fails if it makes a NaN out of operands without
** one, and then refuses the writes that depend on it. */
static flame_status compute(flame_context *c, fl_node *n) {
  fl_engine *e = c->engine;
  fl_node *in[UINT8_MAX];
  int held = 0;
  char op[FL_OP_TEXT];
  const int look = fl_anomaly_possible(FL_ANOMALY_NAN, n);
  fl_anomaly_name(n, op);
  for (int i = 0; look && i < n->nin; i++) if (n->in[i]) in[held++] = n->in[i];
  for (int i = 0; i < held; i++) fl_node_hold(in[i]);
  fl_node_hold(n);
  e->met_nan = 0;
  flame_status s = fl_evaluate_alone(c, n);
  if (s == FLAME_OK && e->met_nan && look && n->state == FL_STORED)
    s = fl_anomaly_of(c, FL_ANOMALY_NAN, n, op, in, held);
  if (s == FLAME_BAD_VALUE) refuse_writes(c, n);
  for (int i = 0; i < held; i++) fl_node_drop(in[i]);
  fl_node_drop(n);
  return s;
}

flame_status fl_scan_trace(flame_context *c, int device) {
  fl_engine *e = c->engine;
  flame_status s = FLAME_OK;
  e->tracing = 1;
  for (int64_t i = 0; s == FLAME_OK && i < c->win.nodes.n; i++) {
    fl_node *n = c->win.nodes.at[i];
    if (n && n->state == FL_PENDING && n->device == device) s = compute(c, n);
  }
  e->tracing = e->met_nan = 0;
  if (s != FLAME_BAD_VALUE) return s;
  e->made_nan = 1;
  if (!c->flushing) return s;
  e->untold = 1;                           /* the next read raises it */
  e->untold_error = c->err;
  return s;
}
