/*
** A rehearsal (flame.warmup): evaluations are planned and compiled, but not run. Devices get a
** table whose 'run' only reports that all is done; small results are zero, and the contents of
** large ones are undefined. Existing handles keep their values: each old node is held, so that a
** write finds it in use and leaves its memory unchanged, and handles get their old nodes again at
** the end. Gradients and the state of random numbers are restored then, too.
*/
#include "engine/dry.h"
#include "engine/evaluate.h"
#include <string.h>

enum { SMALL = 65536 };                          /* bytes */

typedef struct kept { flame_tensor *t, *grad; fl_node *n; } kept;

struct fl_dry {
  fl_device_table table[FL_MAX_DEVICES];
  const fl_device_table *inner[FL_MAX_DEVICES];  /* NULL: not attached */
  struct { kept *at; int64_t n, cap; } handles;
  fl_rng rng;
  fl_stats stats;
  uint8_t scan;
};

static flame_status run(fl_device *d, fl_plan *p, const fl_binding *b, fl_fault *fault,
                        int32_t *done) {
  static char zeros[SMALL];   /* only read; as a constant it would add 64 KB to the executable */
  flame_status e = FLAME_OK;
  (void)fault;
  for (int32_t i = 0; e == FLAME_OK && i < p->nout; i++)
    if (p->out[i].home < 0 && p->out[i].bytes > 0 && p->out[i].bytes <= SMALL)
      e = d->table->upload(d, b->out[i], zeros, p->out[i].bytes);
  *done = e == FLAME_OK ? p->nstep : 0;
  return e;
}

void fl_dry_attach(fl_engine *e, fl_device *d) {
  fl_dry *y = e->dry;
  if (y == NULL || y->inner[d->index]) return;
  y->inner[d->index] = d->table;
  y->table[d->index] = *d->table;
  y->table[d->index].run = run;
  d->table = &y->table[d->index];
}

static void let_go(flame_context *c, fl_dry *y) {
  for (int64_t i = 0; i < y->handles.n; i++) {
    const kept *k = &y->handles.at[i];
    fl_node_drop(k->n);
    if (k->grad) fl_tensor_release(k->grad);
    fl_tensor_release(k->t);
  }
  FL_DROP(&c->mem, &y->handles);
  fl_free(&c->mem, y, sizeof *y);
}

static int keep(flame_context *c, fl_dry *y) {
  for (flame_tensor *t = c->handles; t; t = t->next) {
    if (t->closed || t->node == NULL) continue;
    kept *k = FL_PUSH(&c->mem, &y->handles);
    if (k == NULL) return 0;
    *k = (kept){ fl_tensor_retain(t), t->grad ? fl_tensor_retain(t->grad) : NULL, t->node };
    fl_node_hold(t->node);
  }
  return 1;
}

void fl_dry_free(flame_context *c) {
  fl_engine *e = c->engine;
  fl_dry *y = e->dry;
  if (y == NULL) return;
  for (int i = 0; i < FL_MAX_DEVICES; i++) if (y->inner[i]) e->device[i].table = y->inner[i];
  e->dry = NULL;
  let_go(c, y);
}

flame_status fl_dry_begin(flame_context *c) {
  fl_engine *e = c->engine;
  if (e->dry) return FL_FAIL(c, FLAME_BAD_ARGUMENT, "warmup", "one is under way");
  if (e->profile)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "warmup", "a profile is on" FL_DO ": close it first");
  flame_status s = fl_evaluate_all(c);
  if (s != FLAME_OK) return s;
  fl_dry *y = fl_zalloc(&c->mem, sizeof *y);
  if (y == NULL || !keep(c, y)) {
    if (y) let_go(c, y);
    return FL_FAIL(c, FLAME_NO_MEMORY, "warmup", "no host memory");
  }
  y->rng = c->rng;
  y->stats = c->stats;
  y->scan = c->scan;
  c->scan = 0;                                   /* no looking for NaN: it would read memory that
                                                 ** was not written */
  e->dry = y;
  for (int i = 0; i < FL_MAX_DEVICES; i++) if (e->open[i]) fl_dry_attach(e, &e->device[i]);
  return FLAME_OK;
}

flame_status fl_dry_end(flame_context *c) {
  fl_engine *e = c->engine;
  fl_dry *y = e->dry;
  if (y == NULL) return FLAME_OK;
  const flame_status s = fl_evaluate_all(c);
  e->dry = NULL;
  for (int i = 0; i < FL_MAX_DEVICES; i++) if (y->inner[i]) e->device[i].table = y->inner[i];
  for (int64_t i = 0; i < y->handles.n; i++) {
    const kept *k = &y->handles.at[i];
    if (k->t->closed || k->t->node == NULL) continue;
    if (k->t->node != k->n) fl_tensor_rename(k->t, k->n);
    if (k->t->grad != k->grad) fl_tensor_set_grad(k->t, k->grad);
  }
  c->rng = y->rng;
  c->scan = y->scan;
  c->stats.launches = y->stats.launches;
  c->stats.bytes_moved = y->stats.bytes_moved;
  let_go(c, y);
  return s;
}
