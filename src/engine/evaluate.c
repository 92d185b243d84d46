/*
** Evaluation (docs/design.md 2): collect, program, plan, reserve all memory, run, store. Nothing
** has an effect before the run, so a failure until then leaves the window (the recorded ops) as it
** was; if the whole window can not be run, the value asked for is tried with its ancestors alone.
*/
#include "engine/evaluate.h"
#include "engine/faults.h"
#include "engine/flight.h"
#include "engine/profile.h"
#include "engine/scan.h"
#include "engine/stay.h"
#include "group/group.h"
#include "base/hooks.h"
#include "tensor/entry.h"
#include "base/num.h"
#include <stdio.h>
#include <string.h>

enum { SPARE_BYTES = 1 << 20, FEW = 24 };

/* The memory that a run uses. All arrays are in one block, 'few' if they fit there. A home is the
** buffer of a handle, which the run writes in place. */
typedef struct run {
  fl_program program;
  fl_plan *plan;
  void **ext, **out;            /* addresses of the plan's external buffers and of its results */
  fl_buffer **made;             /* per result: the buffer that it will own (a reference), or NULL */
  fl_buffer **saved;             /* per home: where its old value is saved, or NULL */
  fl_buffer **old;               /* by home, when looking for a NaN: a copy of its old value */
  int nan;                       /* there was a NaN: everything is as it was before the run */
  void *block; size_t bytes;
  void *few[FEW];
} run;

/* Memory of a run is kept for the next one: small evaluations would spend a third of their time on
** allocating it. */
static void keep_program(fl_engine *e, fl_program *p) {
  if (e->spare.mem || p->key.cap > SPARE_BYTES) {
    fl_program_free(p);
    return;
  }
  fl_program_empty(p);
  e->spare = *p;
}

static void take_program(fl_engine *e, fl_program *p) {
  *p = e->spare;
  memset(&e->spare, 0, sizeof e->spare);
}

static void keep_block(flame_context *c, fl_engine *e, void *block, size_t bytes) {
  const int larger = bytes <= SPARE_BYTES && (!e->block || e->block_bytes < bytes);
  fl_free(&c->mem, larger ? e->block : block, larger ? e->block_bytes : bytes);
  if (!larger) return;
  e->block = block;
  e->block_bytes = bytes;
}

/* A block that begins with 'bytes' zeros; *have: the size of the block. */
static void *take_block(flame_context *c, size_t bytes, size_t *have) {
  fl_engine *e = c->engine;
  *have = bytes;
  if (!e->block || e->block_bytes < bytes) return fl_zalloc(&c->mem, bytes);
  void *block = e->block;
  *have = e->block_bytes;
  e->block = NULL;
  return memset(block, 0, bytes);
}

static void close_run(flame_context *c, run *r) {
  for (int32_t i = 0; r->made && i < r->plan->nout; i++) fl_buffer_release(c, r->made[i]);
  for (int64_t i = 0; r->saved && i < r->program.homes.n; i++) {
    fl_buffer_release(c, r->saved[i]);
    fl_buffer_release(c, r->old[i]);
  }
  if (r->block && r->block != r->few) keep_block(c, c->engine, r->block, r->bytes);
  keep_program(c->engine, &r->program);
  memset(r, 0, sizeof *r);
}

static flame_status no_host(flame_context *c) {
  return FL_FAIL(c, FLAME_NO_MEMORY, "evaluate", "out of host memory");
}

/* ---- plans ----------------------------------------------------------------------------------- */

static flame_status find_plan(flame_context *c, run *r) {
  fl_engine *e = c->engine;
  r->plan = fl_plans_find(&e->plans, &r->program);
  if (r->plan) {
    c->stats.hits++;
    return FLAME_OK;
  }
  fl_plan *p = fl_plan_make(c, &r->program);
  if (!p) return c->err.code;
  p->serial = ++e->plan_serial;
  p->why = fl_plans_differ(&e->plans, &r->program);
  c->stats.plans++;
  if (e->debug >= 1) fl_debug_plan(c, p);
  if (p->device == 0) fl_engine_texts(c, p);
  fl_plans_put(&e->plans, p);
  r->plan = p;
  return FLAME_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int lay_out(flame_context *c, run *r) {
  const size_t ne = (size_t)r->plan->next, no = (size_t)r->plan->nout,
               nh = (size_t)r->program.homes.n;
  const size_t bytes = (ne + 2 * no + 2 * nh + 1) * sizeof(void *);
  r->block = bytes <= sizeof r->few ? r->few : take_block(c, bytes, &r->bytes);
  if (!r->block) return 0;
  r->ext = r->block;
  r->out = r->ext + ne;
  r->made = (fl_buffer **)(r->out + no);
  r->saved = r->made + no;
  r->old = r->saved + nh;
  return 1;
}

/* Is the value of x, which is in the buffer of a home (where a write ends), needed after the run?
** Yes if a handle or a gradient rule may read it. If only a part of the window runs: also if a node
** uses it, or if a write that may fail would keep it (guards). If the whole window runs, only uses
** by nodes outside the program count, since it is known after the run which writes have failed. */
static int survives(const run *r, const fl_node *x, int whole) {
  if (x->held > 0 || (x->entry && x->entry->reads_out && x->grefs > 0)) return 1;
  if (!whole) return x->uses > 0 || x->guards > 0;
  if (x->uses == 0) return 0;
  const int32_t s = x->slot;
  const int in = s >= 0 && s < r->program.ext.n && r->program.ext.at[s] == x;
  return x->uses > (in ? r->program.uses.at[s] : 0);
}

/* Memory for n's value, at address 'at' if that is free. If memory is out, the error names n. */
static fl_buffer *new_buffer(flame_context *c, const fl_node *n, int device, int64_t bytes,
                             void *at) {
  fl_engine *e = c->engine;
  e->making = n;
  e->place = at;
  fl_buffer *b = fl_buffer_new(c, device, bytes);
  e->making = NULL;
  e->place = NULL;
  if (b) b->site = n->site;
  return b;
}

/* Reserves separate memory for old values that are still held: the written tensor keeps its
** address. */
static flame_status reserve_snapshots(flame_context *c, run *r, int whole) {
  fl_program *p = &r->program;
  flame_status e = FLAME_OK;
  if (p->homes.n == 0 || FL_PLANTED(c, FL_PLANT_COPY)) return FLAME_OK;
  for (int64_t h = 0; e == FLAME_OK && h < p->homes.n; h++) {
    int keep = 0;
    for (const fl_node *x = p->homes.at[h]->nodes; x && !keep; x = x->bnext)
      keep = survives(r, x, whole);
    if (!keep) continue;
    r->saved[h] = new_buffer(c, p->homes.at[h]->nodes, p->device, p->homes.at[h]->bytes,
                             NULL);
    if (!r->saved[h]) e = c->err.code;
  }
  return e;
}

/* Reserves memory for result i. back: only at its last address; if that is not free, none. */
static flame_status reserve_out(flame_context *c, run *r, int32_t i, int back) {
  fl_program *p = &r->program;
  fl_out *o = &r->plan->out[i];
  if (r->made[i] || (back && !o->last)) return FLAME_OK;
  fl_buffer *b = new_buffer(c, p->nodes.at[o->node], p->device, o->bytes, back ? o->last : NULL);
  if (!b) return c->err.code;
  if (back && b->ptr != o->last) {
    fl_buffer_release(c, b);
    return FLAME_OK;
  }
  r->made[i] = b;
  const flame_status s = back ? FLAME_OK : fl_stay(c, p, r->plan, i, b);
  r->out[i] = o->last = b->ptr;
  return s;
}

/* Memory for the results. On devices with graphs, which hold addresses, the results that can return
** to their last address come first: a result that cannot, since the script still has its last
** value, must not take the place of another. */
static flame_status reserve_outs(flame_context *c, run *r) {
  const fl_engine *e = c->engine;
  const fl_plan *plan = r->plan;
  flame_status s = FLAME_OK;
  for (int back = e->device[plan->device].table->alloc_at != NULL; back >= 0; back--)
    for (int32_t i = 0; s == FLAME_OK && i < plan->nout; i++) {
      const int32_t home = plan->out[i].home;
      if (home < 0) s = reserve_out(c, r, i, back);
      else r->out[i] = r->program.homes.at[home]->ptr;
    }
  return s;
}

static flame_status reserve(flame_context *c, run *r, int whole) {
  fl_program *p = &r->program;
  const fl_plan *plan = r->plan;
  if (!lay_out(c, r)) return no_host(c);
  const flame_status s = reserve_outs(c, r);
  if (s != FLAME_OK) return s;
  for (int32_t i = 0; i < plan->next; i++) {
    const fl_node *x = p->ext.at[i];
    r->ext[i] = (char *)x->buffer->ptr + x->offset * fl_dtype_size(x->dtype);
  }
  if (plan->arena_bytes && !fl_engine_arena(c, p->device, plan->arena_bytes)) {
    fl_engine *g = c->engine;
    g->making = plan->widest >= 0 ? p->nodes.at[plan->widest] : NULL;
    fl_out_of_memory(c, p->device, plan->arena_bytes, "intermediate values, its own the largest");
    g->making = NULL;
    return c->err.code;
  }
  return reserve_snapshots(c, r, whole);
}

/* ---- results --------------------------------------------------------------------------------- */

static flame_status save_snapshots(flame_context *c, run *r, fl_device *d, int whole) {
  fl_program *p = &r->program;
  flame_status e = FLAME_OK;
  int any = 0;
  for (int64_t h = 0; h < p->homes.n; h++) any |= r->saved[h] != NULL;
  if (!any) return FLAME_OK;
  for (int64_t h = 0; e == FLAME_OK && h < p->homes.n; h++) {
    fl_buffer *home = p->homes.at[h];
    if (!r->saved[h]) continue;
    e = d->table->copy(d, r->saved[h]->ptr, home->ptr, home->bytes);
    c->stats.copies++;
    for (fl_node *x = home->nodes, *next; e == FLAME_OK && x; x = next) {
      next = x->bnext;
      if (survives(r, x, whole)) fl_node_move(x, r->saved[h]);
    }
  }
  return e;
}

/* Marks result i's node as stored. */
static void store_out(run *r, int32_t i) {
  fl_node *n = r->program.nodes.at[r->plan->out[i].node];
  if (r->made[i]) {
    fl_buffer *b = r->made[i];
    r->made[i] = NULL;
    fl_node_store(n, b, 0);
  } else fl_node_store(n, fl_buffer_retain(r->program.homes.at[r->plan->out[i].home]), 0);
}

/* Has no home (a handle's buffer) been written yet? Then steps that were not run can still run. */
static int intact(const fl_plan *p, int32_t done) {
  for (int32_t i = 0; i < done; i++) if (p->step[i].commits) return 0;
  return 1;
}

/* Stores the values that steps below 'done' have completed and that do not depend on a failed
** check, in recorded order, so that inputs outlive their consumers. The others fail with 'why',
** with two exceptions: a write that was not run leaves its target with the old bytes; and if a
** check failed or an interrupt came ('cut') before any effect, values that do not depend on the
** check stay PENDING, and refused writes become copies. The program's nodes may be gone
** afterwards. */
static void settle_run(run *r, int32_t done, const char *why, uint32_t site, int checked, int cut) {
  fl_program *p = &r->program;
  const int later = (checked || cut) && intact(r->plan, done);
  const uint8_t *kept = r->plan->live, *wanted = p->live.at;
  int32_t k = 0;
  for (int64_t i = 0; i < p->nodes.n; i++) {
    if (!kept[i] && !wanted[i] && !later) continue;                  /* goes with its consumers */
    fl_node *n = p->nodes.at[i];
    const int is_out = k < r->plan->nout && r->plan->out[k].node == i;
    const int rests = checked ? n->rests : FL_CLEAN;
    const int wait = later && rests != FL_RESTS;
    if (n->base) {
      if (!kept[i] && !wanted[i]) continue;
      if (n->base->state == FL_STORED)
        fl_node_store(n, fl_buffer_retain(n->base->buffer), n->base->offset);
      else if (why && !wait) fl_node_fail(n, why, site);
      continue;
    }
    const int have = is_out && r->plan->out[k].step < done &&
                     (rests == FL_CLEAN || (rests == FL_UNSURE && !later));
    if (later && rests == FL_REFUSED) fl_node_refuse(n);
    else if (have || (is_out && !wait && r->plan->out[k].home >= 0)) {
      n->refused |= !have;
      store_out(r, k);
    } else if (is_out && !wait && why) fl_node_fail(n, why, site);
    k += is_out;
  }
}

static void note_refused(flame_context *c, const run *r) {
  for (int64_t i = 0; i < r->program.nodes.n; i++)
    if (r->program.nodes.at[i]->rests == FL_REFUSED) fl_raise_later(c);
}

/* If a failed run did not complete a write to a home (the buffer of a handle), makes the next read
** raise the error. */
static void note_unwritten(flame_context *c, const fl_plan *p, int32_t done) {
  for (int32_t i = 0; i < p->nout; i++)
    if (p->out[i].home >= 0 && p->out[i].step >= done) fl_raise_later(c);
}

/* Is the step a GPU's collective that NCCL makes in one call with the next collective? */
static int joins_next(const fl_plan *p, const fl_step *s) {
  return p->device && s->kind == FL_S_CALL && s->call->call.kind == FL_CALL_collective &&
         s->call->call.p[FL_COLLECT_JOINS];
}

static void count_run(flame_context *c, const fl_plan *p, int32_t done) {
  for (int32_t i = 0; i < done; i++) {
    if (p->step[i].looks) continue;
    c->stats.launches += !joins_next(p, &p->step[i]);
    c->stats.bytes_moved += p->step[i].moved;
  }
}

/* Did the run write a NaN? If so, restores what it has overwritten, unless ops are traced. */
static flame_status look_for_nan(flame_context *c, run *r, fl_device *d) {
  fl_engine *e = c->engine;
  int found;
  flame_status s = fl_scan_look(c, r->plan, d, &found);
  if (s != FLAME_OK || !found) return s;
  e->met_nan = 1;
  if (e->tracing) return s;
  r->nan = 1;
  return fl_scan_restore(&r->program, d, r->old);
}

static void note_fault(flame_context *c, run *r, const fl_fault *fault) {
  fl_faults_mark(&r->program, r->plan, fault);
  note_refused(c, r);
}

static flame_status tell(flame_context *c, const run *r, const fl_fault *fault) {
  const fl_fault_fact x = fl_fault_of(&r->program, r->plan, fault->site);
  return fl_fault_tell(c, &x, fault);
}

/* Runs the plan, and reads its checks unless it is now in flight (flight.h). */
static flame_status run_plan(flame_context *c, run *r, fl_device *d, const fl_binding *b, int whole,
                             fl_fault *fault, int32_t *done) {
  const flame_status s = d->table->run(d, r->plan, b, fault, done);
  fl_unreplayed *why = &r->plan->why;
  if (d->index && why->step >= 0)
    why->site = fl_step_value(&r->program, r->plan, why->step)->site;
  if (s != FLAME_OK || !fault->later ||
      (whole && fl_flight_begin(c, &r->program, r->plan, r->made))) return s;
  return d->table->checked(d, r->plan, fault, done);
}

static flame_status execute(flame_context *c, run *r, fl_device *d, int whole) {
  static const char stopped[] = "evaluate: interrupted before the value was computed";
  fl_engine *e = c->engine;
  fl_fault fault = { .site = -1 };
  int32_t done = 0;
  flame_status s = save_snapshots(c, r, d, whole);
  if (s == FLAME_OK && c->scan && !e->tracing) s = fl_scan_keep(c, &r->program, d, r->old);
  if (s != FLAME_OK) return s;
  const fl_binding b = { .ext = (void *const *)r->ext, .out = (void *const *)r->out,
                         .arena = e->arena[d->index], .scalar = r->program.scalars.at,
                         .program = &r->program };
  if (e->profile) e->profile->program = &r->program;
  fl_group_begin(c, r->plan);
  e->now_plan = d->index ? r->plan : NULL;
  e->now = &r->program;
  e->now_done = &done;
  s = run_plan(c, r, d, &b, whole, &fault, &done);
  e->now_plan = NULL;
  if (d->index && s == FLAME_OK) fl_suspects_note(c, &r->program, r->plan);
  if (e->profile) e->profile->program = NULL;
  count_run(c, r->plan, done);
  if (s == FLAME_DEVICE_LOST && c->sync_each) fl_step_blame(c, &r->program, r->plan, done);
  if (fault.site >= 0) s = tell(c, r, &fault);
  else if (s == FLAME_INTERRUPTED) fl_interrupted(c, "evaluate");
  fl_group_end(c, s);
  if (s == FLAME_OK && fault.site < 0 && r->plan->nscan) s = look_for_nan(c, r, d);
  if (s == FLAME_OK && r->nan) return s;
  char why[sizeof c->err.message + 64];
  if (s == FLAME_INTERRUPTED) memcpy(why, stopped, sizeof stopped);
  else if (s != FLAME_OK) fl_error_text(&c->err, why, sizeof why);
  if (fault.site >= 0) note_fault(c, r, &fault);
  else if (s != FLAME_OK && s != FLAME_INTERRUPTED && s != FLAME_DEVICE_LOST)
    note_unwritten(c, r->plan, done);
  settle_run(r, s == FLAME_OK ? r->plan->nstep : done, s == FLAME_OK ? NULL : why, c->err.site,
             fault.site >= 0, s == FLAME_INTERRUPTED &&
             (done > 0 || d->index == 0 || intact(r->plan, r->plan->nstep)));
  fl_flight_stored(c, d->index);
  if (s == FLAME_INTERRUPTED) c->cut = c->win.live;
  return s;
}

/* ---- one evaluation -------------------------------------------------------------------------- */

/* *effects becomes 1 once the run has begun, so that it can not be tried again. */
static flame_status run_roots(flame_context *c, int device, fl_node *const *roots, int nroots,
                              int *effects) {
  run r = { 0 };
  *effects = 0;
  fl_device *d = fl_engine_device(c, device);
  if (!d) return c->err.code;
  c->evaluating = 1;
  take_program(c->engine, &r.program);
  flame_status s = fl_program_make(c, device, roots, nroots, &r.program);
  if (s != FLAME_OK) { c->evaluating = 0; return s; }
  if (r.program.nodes.n) {
    const int debug = ((const fl_engine *)c->engine)->debug;
    if (debug >= 5) fl_debug_window(c, &r.program);
    fl_profile *f = ((const fl_engine *)c->engine)->profile;
    const double begin = f ? fl_trace_now() : 0;
    s = find_plan(c, &r);
    if (f) fl_profile_span(f, FL_EVENT_PLAN, device, begin, 0);
    if (s == FLAME_OK) s = reserve(c, &r, roots == NULL);
    if (s == FLAME_OK && !r.plan->prepared) {
      const int64_t before = r.plan->total_bytes;
      s = d->table->prepare(d, r.plan);
      r.plan->prepared = s == FLAME_OK;
      fl_plans_resized(&((fl_engine *)c->engine)->plans, r.plan, before);
    }
    if (s == FLAME_OK) {
      const double start = debug >= 2 ? fl_trace_now() : 0;
      *effects = 1;
      const int64_t nodes = r.program.nodes.n, before = r.plan->total_bytes;
      s = execute(c, &r, d, roots == NULL);
      fl_plans_resized(&((fl_engine *)c->engine)->plans, r.plan, before);
      if (debug >= 2) fl_debug_run(c, nodes, r.plan, fl_trace_now() - start);
    }
  }
  const int nan = r.nan;
  close_run(c, &r);
  if (s != FLAME_OK && *effects) fl_fail_dependents(c);
  c->evaluating = 0;
  return s == FLAME_OK && nan ? fl_scan_trace(c, device) : s;
}

static flame_status run_with_retry(flame_context *c, int device, fl_node *const *roots, int nroots,
                                   int *effects) {
  const fl_error before = c->err;
  flame_status s = run_roots(c, device, roots, nroots, effects);
  if (s != FLAME_NO_MEMORY || *effects) return s;
  fl_engine_collect(c);                    /* this may free nodes: the program is made again */
  fl_engine_drop_arena(c, device);
  fl_engine_drop_spare(c);
  fl_engine *e = c->engine;
  if (e->open[device]) e->device[device].table->trim(&e->device[device]);
  c->err = before;
  return run_roots(c, device, roots, nroots, effects);
}

static int pending_on(const flame_context *c, int device) {
  for (int64_t i = 0; i < c->win.nodes.n; i++)
    if (c->win.nodes.at[i] && c->win.nodes.at[i]->device == device) return 1;
  return 0;
}

static flame_status check_alive(flame_context *c, int device) {
  if (!fl_is_lost(c, device)) return FLAME_OK;
  if (c->err.code == FLAME_OK) c->err = c->lost[device];
  return FLAME_DEVICE_LOST;
}

/* Fails the nodes that were still to be computed on a lost device. */
static void fail_lost(flame_context *c, int device) {
  char why[sizeof c->err.message + 64];
  fl_error_text(&c->lost[device], why, sizeof why);
  for (int64_t i = 0; i < c->win.nodes.n; i++) {
    fl_node *n = c->win.nodes.at[i];
    if (n && n->state == FL_PENDING && n->device == device) fl_node_fail(n, why, 0);
  }
}

/* Runs the window (all recorded ops). After a failed check the values that do not depend on it are
** still run. Each failure is kept for the values that depend on it; the call reports the first. */
static flame_status run_window(flame_context *c, int device, int *effects) {
  fl_engine *e = c->engine;
  const fl_error before = c->err;
  fl_error told = before;
  flame_status first = FLAME_OK;
  for (e->made_nan = 0;;) {
    const int64_t live = c->win.live;
    const flame_status s = run_with_retry(c, device, NULL, 0, effects);
    if (first == FLAME_OK) {
      first = s;
      told = c->err;
    }
    const int again = s == FLAME_BAD_VALUE && *effects && c->win.live < live && !e->made_nan &&
                      pending_on(c, device) && !fl_is_lost(c, device);
    c->err = again ? before : told;
    if (!again) return first;
  }
}

/* Runs the windows of all devices; returns the first failure. */
static flame_status run_windows(flame_context *c) {
  flame_status s = FLAME_OK;
  fl_engine_collect_before(c);
  for (int d = 0; d < FL_MAX_DEVICES; d++) {
    int effects;
    if (fl_is_lost(c, d)) fail_lost(c, d);
    if (!pending_on(c, d)) continue;
    const flame_status e = run_window(c, d, &effects);
    if (s == FLAME_OK) s = e;
    if (e == FLAME_INTERRUPTED) break;
  }
  if (s != FLAME_INTERRUPTED) c->cut = 0;
  return s;
}

flame_status fl_evaluate_all(flame_context *c) {
  if (c->trace) return FLAME_OK;
  const fl_error before = c->err;
  flame_status s = fl_flight_land(c);
  if (c->win.live == 0) c->cut = 0;
  if (s == FLAME_INTERRUPTED) return s;
  if (c->win.live > 0) {
    const fl_error landed = c->err;
    c->err = before;
    const flame_status e = run_windows(c);
    if (s == FLAME_OK || e == FLAME_INTERRUPTED) s = e;
    else c->err = landed;
  }
  if (s != FLAME_OK) c->effect_lost = 0;
  if (s != FLAME_OK && !c->flushing) fl_tell_untold(c);          /* by this call, not later */
  fl_window_compact(c);
  return s;
}

static flame_status state_of(flame_context *c, const fl_node *n) {
  fl_engine *e = c->engine;
  const int untold = e->untold;
  e->untold = 0;
  if (n->state == FL_FAILED) {
    const flame_status s = fl_node_raise(n);
    if (untold) fl_add_error(c, &c->err, &e->untold_error);
    return s;
  }
  if (n->state == FL_STORED && !untold) return FLAME_OK;
  if (n->state == FL_NUMBER)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "evaluate", "expected a tensor, got a number");
  if (untold && c->err.code == FLAME_OK) c->err = e->untold_error;
  return c->err.code != FLAME_OK
         ? c->err.code : FL_FAIL(c, FLAME_INTERNAL, "evaluate", "a value was not computed");
}

flame_status fl_evaluate_alone(flame_context *c, fl_node *n) {
  int effects;
  return run_with_retry(c, n->device, &n, 1, &effects);
}

/* Did this evaluation end at an op that made a NaN (scan.c)? */
static int made_nan(const flame_context *c) { return ((const fl_engine *)c->engine)->made_nan; }

flame_status fl_evaluate_later(flame_context *c, fl_node *n) {
  const fl_error before = c->err;
  flame_status s = c->trace ? c->trace_read(c, n) : fl_flight_land(c);
  if (s != FLAME_OK && s != FLAME_INTERRUPTED && !c->trace) {
    c->err = before;               /* told by a value that has failed or is on a device that was
                                   ** lost, or by the next read */
    s = FLAME_OK;
  }
  if (s != FLAME_OK) return s;
  if (n->state != FL_PENDING) return state_of(c, n);
  s = check_alive(c, n->device);
  if (s != FLAME_OK) return s;
  fl_node_hold(n);
  int effects = 0;
  ((fl_engine *)c->engine)->made_nan = 0;
  fl_engine_collect_before(c);
  if (n->state != FL_PENDING) s = FLAME_OK;
  else if (c->cut || c->trace) s = run_with_retry(c, n->device, &n, 1, &effects);
  else s = run_window(c, n->device, &effects);
  const int stopped = s == FLAME_INTERRUPTED || fl_is_lost(c, n->device);
  if (s != FLAME_OK && !effects && n->state == FL_PENDING && !stopped) {
    c->err = before;                       /* the rest may be impossible: tries this value alone */
    s = run_with_retry(c, n->device, &n, 1, &effects);
  } else if (s == FLAME_BAD_VALUE && n->state != FL_PENDING && !made_nan(c)) {
    if (c->effect_lost) fl_raise_later(c);   /* perhaps nothing will read what was lost:
                                              ** this read raises */
    c->err = before;      /* of another value, reported when that is read, or of n, which has it */
  }
  fl_window_compact(c);
  if (c->win.live == 0) c->cut = 0;
  if (s != FLAME_INTERRUPTED && !fl_is_lost(c, n->device) && !(s != FLAME_OK && made_nan(c)))
    s = state_of(c, n);
  c->effect_lost = 0;
  fl_node_drop(n);
  return s;
}

flame_status fl_evaluate(flame_context *c, fl_node *n) {
  const flame_status s = fl_evaluate_later(c, n);
  return s == FLAME_OK && ((const fl_engine *)c->engine)->flying ? fl_evaluate_later(c, n) : s;
}
