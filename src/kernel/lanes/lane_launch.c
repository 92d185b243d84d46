/* Launches: whether one can be run, whether its blocks need an order, and running one as a
** whole. */
#include "kernel/lanes/lane_state.h"
#include <string.h>

/* Do two pointers overlap, one of which a STORE writes? */
static int overlaps(const fl_lane_code *c, const fl_lane_launch *l) {
  for (int j = 0; j < c->n_vars; j++) {
    const fl_lane_array *a = &c->arrays[j];
    if (a->kind != FL_KV_POINTER || !(a->touched & 2) || a->param < 0) continue;
    const fl_lane_memory *x = &l->args[a->param].memory[a->leaf];
    for (int k = 0; k < c->n_vars; k++) {
      const fl_lane_array *b = &c->arrays[k];
      if (k == j || b->kind != FL_KV_POINTER || !b->touched || b->param < 0) continue;
      const fl_lane_memory *y = &l->args[b->param].memory[b->leaf];
      const uintptr_t p = (uintptr_t)x->data, q = (uintptr_t)y->data;
      if (p < q + (uintptr_t)y->bytes && q < p + (uintptr_t)x->bytes) return 1;
    }
  }
  return 0;
}

int fl_lane_serial(const fl_lane_code *c, const fl_lane_launch *l) {
  return c->serial || (l->checks & FL_LANE_RACE) || overlaps(c, l);
}

static int positive(const uint32_t *v, double limit) {
  return v[0] && v[1] && v[2] && (double)v[0] * v[1] * v[2] <= limit;
}

int fl_lane_launch_ok(const fl_lane_code *c, const fl_lane_launch *l, fl_error *e) {
  const char *name = c->func->name;
  if (!positive(l->block, FL_LANE_MAX_BLOCK)) {
    fl_fail(e, FLAME_BAD_ARGUMENT, "kernel", "'%s': block of (%u, %u, %u) threads, at most %d",
            name, l->block[0], l->block[1], l->block[2], FL_LANE_MAX_BLOCK);
    return 0;
  }
  if (!positive(l->grid, 9e18) || l->shared_bytes < 0 || l->shared_bytes > INT32_MAX ||
      c->shared_bytes > INT32_MAX) {
    fl_fail(e, FLAME_BAD_ARGUMENT, "kernel", "'%s': grid of (%u, %u, %u) blocks with %lld bytes of "
            "shared memory", name, l->grid[0], l->grid[1], l->grid[2],
            (long long)(l->shared_bytes + c->shared_bytes));
    return 0;
  }
  if (l->n_args != c->func->n_params) {
    fl_fail(e, FLAME_BAD_ARGUMENT, "kernel", "'%s' takes %d argument%s, got %d", name,
            (int)c->func->n_params, FL_S(c->func->n_params), (int)l->n_args);
    return 0;
  }
  if (!fl_lane_grid_ok(c, l, e)) return 0;
  if (c->local4 + c->local8 > (int64_t)1 << 32) {
    fl_fail(e, FLAME_NO_MEMORY, "kernel", "'%s': local arrays of %lld elements per thread", name,
            (long long)(c->local4 + c->local8));
    return 0;
  }
  return 1;
}

void fl_lane_report_join(fl_lane_report *r, const fl_lane_report *other) {
  if (other->kind && (!r->kind || other->at.block < r->at.block)) *r = *other;
}

int fl_lane_run(fl_mem *m, const fl_lane_code *c, const fl_lane_launch *launch,
                fl_lane_report *report, fl_error *e) {
  fl_lane_launch l = *launch;
  fl_lane_shadow *shadow = NULL;
  memset(report, 0, sizeof *report);
  if (!fl_lane_launch_ok(c, &l, e)) return 0;
  if ((l.checks & FL_LANE_RACE) && !l.shadow) l.shadow = shadow = fl_lane_shadow_new(m);
  if (l.checks & FL_LANE_RACE && (!l.shadow || !fl_lane_shadow_begin(l.shadow, c, &l, e))) {
    fl_lane_shadow_free(shadow);
    if (!e->code) fl_fail(e, FLAME_NO_MEMORY, "kernel", "no memory to run '%s'", c->func->name);
    return 0;
  }
  const size_t bytes = fl_lane_scratch(c, &l) * (size_t)fl_lane_copies(c, &l);
  void *scratch = fl_alloc(m, bytes);
  int ok = scratch != NULL;
  if (ok && fl_lane_meets(c)) {
    ok = fl_lane_grid(c, &l, scratch, report);
  } else if (ok) {
    fl_lane_begin(c, &l, scratch);
    for (int64_t b = 0; ok && b < fl_lane_blocks(&l); b++)
      ok = fl_lane_block(c, &l, b, scratch, report);
  } else {
    fl_fail(e, FLAME_NO_MEMORY, "kernel", "no memory to run '%s': %zu bytes", c->func->name, bytes);
  }
  fl_free(m, scratch, scratch ? bytes : 0);
  fl_lane_shadow_free(shadow);
  return ok;
}
