/*
** What FLAME_DEBUG and flame.debug(level) write to stderr in addition to plans and kernel texts: a
** line for each evaluation (from level 2 on), its steps (3), and the recorded ops before planning
** (5).
*/
#include "engine/profile.h"
#include "base/text.h"
#include <stdio.h>

static int64_t number_of(const fl_program *g, const fl_node *n) {
  for (int64_t i = 0; i < g->nodes.n; i++) if (g->nodes.at[i] == n) return i + 1;
  return 0;
}

static void put_node(fl_text *t, const fl_program *g, int64_t i) {
  const fl_node *n = g->nodes.at[i];
  char shape[192];
  fl_text_printf(t, "  %%%lld = %s", (long long)i + 1, fl_ops[n->op].name);
  for (int k = 0; k < n->nin; k++) {
    const int64_t j = n->in[k] ? number_of(g, n->in[k]) : 0;
    if (j) fl_text_printf(t, " %%%lld", (long long)j);
    else fl_text_puts(t, n->in[k] ? " value" : " number");
  }
  fl_text_printf(t, "  %s %s%s\n", fl_shape_text(shape, n->shape->rank, n->shape->size),
                 fl_dtype_name(n->dtype), g->live.at[i] ? "  kept" : "");
}

/* Prints the window (the recorded ops). A long one is shortened, since looking up operands takes
** quadratic time. */
void fl_debug_window(flame_context *c, const fl_program *g) {
  enum { MOST = 4000 };
  fl_text t;
  fl_text_init(&t, &c->mem);
  fl_text_printf(&t, "window of %lld ops\n", (long long)g->nodes.n);
  for (int64_t i = 0; i < g->nodes.n && i < MOST; i++) put_node(&t, g, i);
  if (g->nodes.n > MOST) fl_text_puts(&t, "  ...\n");
  const char *s = fl_text_str(&t);
  if (s) fputs(s, stderr);
  fl_text_free(&t);
}

void fl_debug_plan(flame_context *c, const fl_plan *p) {
  fl_text t;
  fl_text_init(&t, &c->mem);
  fl_plan_print(p, &t);
  const char *s = fl_text_str(&t);
  if (s) fputs(s, stderr);
  fl_text_free(&t);
}

void fl_debug_run(flame_context *c, int64_t ops, const fl_plan *p, double ms) {
  const fl_engine *e = c->engine;
  char device[16], name[72];
  fl_device_name(p->device, device);
  fprintf(stderr, "evaluated %lld ops on %s: %d steps, %.3f ms%s\n", (long long)ops, device,
          (int)p->nstep, ms, p->device == 0 ? "" : " until queued");
  for (int32_t i = 0; e->debug >= 3 && i < p->nstep; i++) {
    fl_step_name(&p->step[i], name, sizeof name);
    fprintf(stderr, "  %s, %lld bytes\n", name, (long long)p->step[i].moved);
  }
}
