/*
** From groups to the plan: which cells need memory, the order of steps, the steps, and equal
** kernels merged into one launch.
*/
#include "base/hooks.h"
#include "plan/planner.h"
#include <stdlib.h>
#include <string.h>

enum { LAST_STAGE = INT32_MAX };

/* ---- memory wanted -------------------------------------------------------------------------- */

/* A separate step writes its cell even if nothing but views without elements reads it. */
static void mark_stored(fl_planner *P) {
  for (int64_t g = 0; g < P->group.n; g++) {
    const fl_group *G = &P->group.at[g];
    if (!fl_plan_is_kernel(G)) P->cell.at[G->cell].stored = 1;
    for (int64_t i = 0; i < G->access.n; i++) {
      const fl_access *a = &G->access.at[i];
      if (!a->store && !a->iota && a->ref >= 0) P->cell.at[a->ref].stored = 1;
    }
  }
  for (int64_t t = 0; t < P->cell.n; t++) if (P->cell.at[t].live) P->cell.at[t].stored = 1;
}

/* ---- order ----------------------------------------------------------------------------------- */

static int by_stage(const void *a, const void *b) {
  const fl_turn *x = a, *y = b;
  if (x->stage != y->stage) return x->stage < y->stage ? -1 : 1;
  if (x->checks != y->checks) return x->checks ? -1 : 1;
  const int32_t xi = x->group >= 0 ? x->group : x->cell, yi = y->group >= 0 ? y->group : y->cell;
  return (xi > yi) - (xi < yi);
}

/* ---- which steps use a cell ---- */

static void touch(fl_planner *P, fl_ref ref, int32_t step) {
  if (ref < 0) return;
  fl_cell *t = &P->cell.at[ref];
  if (step < t->first) t->first = step;
  if (step > t->last) t->last = step;
}

static void touch_group(fl_planner *P, const fl_group *G, int32_t step) {
  for (int64_t i = 0; i < G->access.n; i++)
    if (!G->access.at[i].iota) touch(P, G->access.at[i].ref, step);
  if (fl_plan_is_kernel(G)) return;
  const fl_node *n = P->cell.at[G->cell].node;
  touch(P, G->cell, step);
  for (int i = 0; i < n->nin; i++) {
    int64_t off;
    touch(P, fl_plan_target(P->p, fl_plan_read(P, G->cell, i), &off), step);
  }
}

/* The memory that a GPU's collective reads and writes is not reused: the collective may run until
** the plan's end. */
static void touch_collective(fl_planner *P, const fl_group *G, int32_t last) {
  int64_t off;
  const fl_node *n = P->cell.at[G->cell].node;
  touch(P, G->cell, last);
  if (n->nin) touch(P, fl_plan_target(P->p, fl_plan_read(P, G->cell, 0), &off), last);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int64_t product(int n, const int64_t *size) {
  int64_t p = 1;
  for (int i = 0; i < n; i++) p *= size[i];
  return p;
}

/* A step that copies between a cell's memory and its home (the buffer of a handle). */
static void copy_step(const fl_cell *c, int back, fl_step *s) {
  const fl_place home = { .where = FL_AT_OUT, .index = c->out };
  s->kind = FL_S_COPY;
  s->from = back ? c->place : home;
  s->to = back ? home : c->place;
  s->bytes = c->bytes;
  s->moved = 2 * c->bytes;
}

static int scatter_step(fl_planner *P, int32_t g, fl_step *s, int *empty) {
  s->kind = FL_S_SCATTER;
  s->scatter = fl_zalloc(P->mem, sizeof *s->scatter);
  if (!s->scatter || !fl_plan_scatter_step(P, g, s->scatter)) return 0;
  const int64_t points = product(s->scatter->rank, s->scatter->size);
  s->moved = points * (8 + 2 * fl_dtype_size(s->scatter->dtype));
  *empty = points == 0 || s->scatter->dst_numel == 0;       /* a scatter into no elements: its index
                                                            ** check raises */
  return 1;
}

static int make_step(fl_planner *P, const fl_turn *t, fl_step *s, int *empty) {
  memset(s, 0, sizeof *s);
  *empty = 0;
  s->node = -1;
  if (t->cell >= 0) {
    s->node = t->cell;
    copy_step(&P->cell.at[t->cell], t->stage != 0, s);
    *empty = s->bytes == 0;
    return 1;
  }
  const fl_group *G = fl_plan_group(P, t->group);
  s->node = G->cell;
  switch (G->kind) {
    case FL_G_SCATTER: return scatter_step(P, t->group, s, empty);
    case FL_G_MATMUL:
      s->kind = FL_S_MATMUL;
      s->matmul = fl_zalloc(P->mem, sizeof *s->matmul);
      *empty = P->cell.at[G->cell].node->shape->numel == 0;
      if (!s->matmul) return 0;
      fl_plan_matmul_step(P, t->group, s->matmul);
      fl_plan_pad_matmul(P, G, s->matmul);
      return 1;
    case FL_G_CALL:
      s->kind = FL_S_CALL;
      s->call = fl_zalloc(P->mem, sizeof *s->call);
      if (s->call) s->moved = fl_plan_call_step(P, t->group, s->call);
      return s->call != NULL;
    default:
      s->kind = FL_S_KERNEL;
      s->count = 1;
      s->kernel = fl_zalloc(P->mem, sizeof *s->kernel);
      if (!s->kernel || !fl_plan_kernelize(P, t->group, s->kernel, empty)) return 0;
      s->moved = s->kernel->bytes;
      return 1;
  }
}

/* The number of kernels for which a step of 'count' kernels has memory: a power of two, so that
** merging takes linear time. */
static size_t room_of(int32_t count) {
  size_t n = 1;
  while (n < (size_t)count) n *= 2;
  return n;
}

static void free_step(fl_mem *m, fl_step *s) {
  for (int32_t i = 0; s->kernel && i < s->count; i++) fl_kernel_free(m, &s->kernel[i]);
  if (s->kernel) fl_free(m, s->kernel, sizeof *s->kernel * room_of(s->count));
  if (s->matmul) fl_free(m, s->matmul, sizeof *s->matmul);
  if (s->scatter) fl_free(m, s->scatter, sizeof *s->scatter);
  if (s->call) fl_callee_release(s->call->call.callee);
  if (s->call) fl_free(m, s->call, sizeof *s->call);
}

/* Adds the kernel of step b to the equal kernels of step a, as one more instance of their launch. b
** is left empty. */
static int merge(fl_mem *m, fl_step *a, fl_step *b) {
  const size_t had = room_of(a->count), need = room_of(a->count + 1);
  fl_kernel *k = need == had ? a->kernel
                             : fl_realloc(m, a->kernel, sizeof *k * had, sizeof *k * need);
  if (!k) return 0;
  k[a->count++] = b->kernel[0];
  a->kernel = k;
  a->moved += b->moved;
  fl_free(m, b->kernel, sizeof *b->kernel);
  b->kernel = NULL;
  return 1;
}

/* Can kernels like k be merged? MAPs (elementwise kernels) and reductions of everything can; other
** kernels of rows or columns have many rows or columns, enough for a launch. */
static int merges(const fl_kernel *k) {
  return k->kind == FL_K_MAP || (k->kind == FL_K_ROW && k->nkept == 0);
}

static int mergeable(const fl_step *a, const fl_step *b) {
  return a->kind == FL_S_KERNEL && b->kind == FL_S_KERNEL && merges(a->kernel) &&
         a->kernel->key == b->kernel->key && fl_kernel_same_structure(a->kernel, b->kernel);
}

/* The steps of the current stage by the keys of their kernels: the newest in each bin, and for each
** step the one before it in its bin. */
typedef struct { int32_t *bin, *before; int64_t nbin; } by_key;

static int add_step(fl_planner *P, fl_plan *plan, by_key *t, fl_step s, int32_t stage_begin) {
  const int kernel = s.kind == FL_S_KERNEL && merges(s.kernel);
  int32_t *bin = &t->bin[kernel ? s.kernel->key & (uint64_t)(t->nbin - 1) : 0];
  for (int32_t i = kernel ? *bin : -1; i >= stage_begin; i = t->before[i])
    if (mergeable(&plan->step[i], &s)) return merge(P->mem, &plan->step[i], &s);
  if (kernel) {
    t->before[plan->nstep] = *bin;
    *bin = plan->nstep;
  }
  plan->step[plan->nstep++] = s;
  return 1;
}

/* Adds the step, or the parts into which its kernel is split. Takes ownership of it, also if memory
** is out. */
static int add_parts(fl_planner *P, fl_plan *plan, by_key *t, fl_step *s, int32_t stage_begin) {
  fl_kernel part[FL_MAX_OPERANDS];
  const int n = s->kind == FL_S_KERNEL ? fl_plan_split(P, s->kernel, part) : 0;
  int ok = n >= 0, i = 0;
  if (n == 0) {
    ok = add_step(P, plan, t, *s, stage_begin);
    if (!ok) free_step(P->mem, s);
    return ok;
  }
  for (; ok && i < n; i++) {
    fl_step one = { .kind = FL_S_KERNEL, .count = 1, .moved = part[i].bytes, .stage = s->stage,
                    .node = s->node };
    one.kernel = fl_alloc(P->mem, sizeof *one.kernel);
    ok = one.kernel != NULL;
    if (!ok) break;
    *one.kernel = part[i];
    if (add_step(P, plan, t, one, stage_begin)) continue;
    free_step(P->mem, &one);
    ok = 0;
    i++;
    break;
  }
  for (; i < n; i++) fl_kernel_free(P->mem, &part[i]);
  free_step(P->mem, s);
  return ok;
}

static int fill_steps(fl_planner *P, const fl_turn *turns, int64_t n, fl_plan *plan, by_key *t) {
  int32_t stage = -1, begin = 0;
  for (int64_t i = 0; i < t->nbin; i++) t->bin[i] = -1;
  for (int64_t i = 0; i < n; i++) {
    fl_step s;
    int empty;
    if (fl_plan_stops(P, i)) return 0;
    if (turns[i].stage != stage) { stage = turns[i].stage; begin = plan->nstep; }
    if (!make_step(P, &turns[i], &s, &empty)) { free_step(P->mem, &s); return 0; }
    s.stage = stage;
    if (empty) { free_step(P->mem, &s); continue; }
    if (!add_parts(P, plan, t, &s, begin)) return 0;
  }
  return 1;
}

/* The number of steps beyond one per group that splitting may produce. */
static int64_t more_steps(const fl_planner *P) {
  int64_t more = 0;
  for (int64_t g = 0; g < P->group.n; g++) {
    const fl_group *G = &P->group.at[g];
    if (fl_plan_may_split(P, G->kind, G->red == (1u << G->nd) - 1, G->access.n))
      more += G->access.n;
  }
  return more;
}

static int make_steps(fl_planner *P, const fl_turn *turns, int64_t turn_count, fl_plan *plan) {
  const int64_t n = turn_count + more_steps(P);
  by_key t = { .nbin = (int64_t)room_of((int32_t)n + 1) };
  plan->step_cap = (int32_t)n + 1;
  plan->step = fl_zalloc(P->mem, sizeof *plan->step * (size_t)plan->step_cap);
  t.bin = fl_alloc(P->mem, sizeof *t.bin * (size_t)t.nbin);
  t.before = fl_alloc(P->mem, sizeof *t.before * (size_t)(n + 1));
  const int ok = plan->step && t.bin && t.before && fill_steps(P, turns, turn_count, plan, &t);
  fl_free(P->mem, t.bin, sizeof *t.bin * (size_t)t.nbin);
  fl_free(P->mem, t.before, sizeof *t.before * (size_t)(n + 1));
  return ok;
}

/* If 'at', which 'step' writes, is a result, notes the first and the last step that write it, and
** that the step commits if the result is in a home (the buffer of a handle). */
static void note_out(fl_plan *plan, fl_place at, int32_t step) {
  if (at.where != FL_AT_OUT) return;
  fl_out *o = &plan->out[at.index];
  if (o->first < 0) o->first = step;
  o->step = step;
  if (o->home >= 0) plan->step[step].commits = 1;
}

static void note_outs(fl_plan *plan) {
  for (int32_t i = 0; i < plan->nout; i++) plan->out[i].first = plan->out[i].step = -1;
  for (int32_t i = 0; i < plan->nstep; i++) {
    const fl_step *s = &plan->step[i];
    for (int32_t j = 0; s->kind == FL_S_KERNEL && j < s->count; j++)
      for (int o = 0; o < s->kernel[j].nstore; o++)
        note_out(plan, s->kernel[j].operand[s->kernel[j].store[o].operand].place, i);
    if (s->kind == FL_S_MATMUL) note_out(plan, s->matmul->ct, i);
    if (s->kind == FL_S_SCATTER) note_out(plan, s->scatter->dst.place, i);
    if (s->kind == FL_S_CALL) note_out(plan, s->call->out, i);
    if (s->kind == FL_S_COPY) note_out(plan, s->to, i);
  }
}

/* On a GPU the host queues the steps that write homes (buffers of handles) before it has seen the
** run's checks, so these kernels test the checks themselves. Not in a plan with a user's kernel,
** which may never end: an interrupt does not wait for it, so nothing that writes a home may be
** queued until it has ended. */
static void note_guards(fl_plan *plan) {
  int fine = plan->device > 0 && plan->nfault > 0;
  for (int32_t i = 0; i < plan->nstep; i++) {
    const fl_step *s = &plan->step[i];
    if (s->kind == FL_S_CALL && s->call->call.kind == FL_CALL_kernel) fine = 0;
  }
  for (int32_t i = 0; fine && i < plan->nstep; i++) {
    const fl_step *s = &plan->step[i];
    for (int32_t j = 0; s->kind == FL_S_KERNEL && j < s->count; j++)
      s->kernel[j].guard = s->commits;
  }
}

/* Goes over the reports of a step (of checks that may fail). With step >= 0 it sets at[number] to
** 'step' for each report; with step -1 each report gets the new number at[old number]. */
static void sites_of(fl_step *s, int32_t *at, int32_t step) {
  int32_t *own = s->kind == FL_S_CALL ? &s->call->fault : s->kind == FL_S_SCATTER
                 ? &s->scatter->fault : NULL;
  if (own && *own >= 0) {
    if (step < 0) *own = at[*own];
    else at[*own] = step;
  }
  for (int32_t j = 0; s->kind == FL_S_KERNEL && j < s->count; j++) {
    for (int i = 0; i < s->kernel[j].ninstr; i++) {
      fl_instr *x = &s->kernel[j].instr[i];
      if (x->code != FL_I_INDEX) continue;
      if (step < 0) x->arg = (uint16_t)at[x->arg];
      else at[x->arg] = step;
    }
  }
}

/* Numbers the reports in the order of their steps (and of emission within a step): the lowest
** report of a run then belongs to the first step that reports, and results of the steps before it
** are right. */
static int order_faults(const fl_planner *P, fl_plan *plan) {
  const int32_t n = plan->nfault, steps = plan->nstep;
  if (n < 2) return 1;
  int32_t *at = fl_alloc(P->mem, sizeof *at * (size_t)n);
  int32_t *start = fl_zalloc(P->mem, sizeof *start * (size_t)(steps + 2));
  const int ok = at && start;
  for (int32_t i = 0; ok && i < n; i++) at[i] = steps;            /* for a kernel that is not run */
  for (int32_t i = 0; ok && i < steps; i++) sites_of(&plan->step[i], at, i);
  for (int32_t i = 0; ok && i < n; i++) start[at[i] + 1]++;
  for (int32_t i = 0; ok && i <= steps; i++) start[i + 1] += start[i];
  for (int32_t i = 0; ok && i < n; i++) {
    at[i] = start[at[i]]++;
    plan->fault[at[i]].node = P->fault.at[i];
  }
  for (int32_t i = 0; ok && i < steps; i++) sites_of(&plan->step[i], at, -1);
  fl_free(P->mem, at, sizeof *at * (size_t)n);
  fl_free(P->mem, start, sizeof *start * (size_t)(steps + 2));
  return ok;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static int64_t count_layouts(const fl_plan *p) { return 2 * (int64_t)p->nnode + p->next; }

/* Holds the layouts of the key. */
static int hold_layouts(fl_planner *P, fl_plan *plan) {
  const fl_program *p = P->p;
  fl_layout **at = fl_alloc(P->mem, sizeof *at * (size_t)count_layouts(plan));
  plan->layout = at;
  plan->layouts = &P->c->layouts;
  for (int64_t i = 0; at && i < p->nodes.n; i++) {
    *at++ = fl_layout_retain(p->nodes.at[i]->shape);
    *at++ = fl_layout_retain(p->nodes.at[i]->layout);
  }
  for (int64_t i = 0; at && i < p->ext.n; i++) *at++ = fl_layout_retain(p->ext.at[i]->layout);
  return at != NULL;
}

static int describe(fl_planner *P, fl_plan *plan) {
  const fl_program *p = P->p;
  fl_mem *m = P->mem;
  for (int64_t t = 0; t < P->cell.n; t++) {
    fl_cell *c = &P->cell.at[t];
    if (c->live && !fl_is_view(c)) c->out = plan->nout++;
    c->place = c->live ? (fl_place){ .where = FL_AT_OUT, .index = c->out }
                       : (fl_place){ .where = FL_AT_ARENA };
  }
  plan->next = (int32_t)p->ext.n;
  plan->nscalar = (int32_t)p->scalars.n;
  plan->nfault = (int32_t)P->fault.n;
  plan->nnode = (int32_t)p->nodes.n;
  plan->key_bytes = (size_t)p->key.n;
  plan->ext = fl_zalloc(m, sizeof *plan->ext * (size_t)plan->next);
  plan->out = fl_zalloc(m, sizeof *plan->out * (size_t)plan->nout);
  plan->fault = fl_zalloc(m, sizeof *plan->fault * (size_t)plan->nfault);
  plan->live = fl_zalloc(m, (size_t)plan->nnode);
  plan->key = fl_zalloc(m, plan->key_bytes);
  if (!plan->ext || !plan->out || !plan->fault || !plan->live || !plan->key ||
      !hold_layouts(P, plan))
    return 0;
  if (p->live.n) memcpy(plan->live, p->live.at, (size_t)p->live.n);
  if (p->key.n) memcpy(plan->key, p->key.at, (size_t)p->key.n);
  for (int32_t i = 0; i < plan->next; i++)
    plan->ext[i] = (fl_ext){ p->ext.at[i]->dtype, fl_program_home(p, p->ext.at[i]->buffer) };
  for (int32_t i = 0; i < plan->nfault; i++) plan->fault[i].node = P->fault.at[i];
  int32_t scalars = (int32_t)(4 * p->nodes.n);
  for (int64_t t = 0; t < p->nodes.n; t++) {
    fl_cell *c = &P->cell.at[t];
    c->scalar = scalars;
    if (c->node->op == FL_OP_call) scalars += c->node->attr->call->nscalar;
    if (c->out >= 0)
      plan->out[c->out] = (fl_out){ .node = (int32_t)t, .dtype = c->dtype, .home = c->home,
                                    .bytes = c->bytes };
  }
  return 1;
}

static int order_turns(fl_planner *P, fl_turn **turns, int64_t *n, size_t *cap) {
  *cap = sizeof(fl_turn) * (size_t)(P->group.n + 2 * P->cell.n + 1);
  fl_turn *at = *turns = fl_alloc(P->mem, *cap);
  if (!at) return 0;
  *n = 0;
  fl_homes h;
  const int ok = fl_homes_open(P, &h);
  for (int64_t t = 0; ok && t < P->p->nodes.n; t++) {
    fl_cell *c = &P->cell.at[t];
    if (c->home < 0 || fl_homes_in_place(P, &h, (int32_t)t)) continue;
    c->place = (fl_place){ .where = FL_AT_ARENA };
    at[(*n)++] = (fl_turn){ -1, (int32_t)t, LAST_STAGE, 0 };
    if (c->base_home) at[(*n)++] = (fl_turn){ -1, (int32_t)t, 0, 0 };
  }
  fl_homes_close(P, &h);
  if (!ok) return 0;
  fl_plan_delay_fills(P);
  fl_plan_delay_copies(P);
  for (int64_t g = 0; g < P->group.n; g++) {
    const fl_group *G = &P->group.at[g];
    if (fl_plan_is_kernel(G) && G->access.n == 0) continue;
    at[(*n)++] = (fl_turn){ (int32_t)g, -1, G->stage,
                            P->p->device && fl_plan_is_kernel(G) && G->faulty };
  }
  qsort(at, (size_t)*n, sizeof *at, by_stage);
  for (int64_t i = 0; i < *n; i++) {
    if (at[i].cell >= 0) touch(P, at[i].cell, (int32_t)i);
    else touch_group(P, fl_plan_group(P, at[i].group), (int32_t)i);
    if (at[i].group >= 0 && P->p->device && fl_plan_is_collective(P, at[i].group))
      touch_collective(P, fl_plan_group(P, at[i].group), (int32_t)*n - 1);
  }
  return 1;
}

fl_plan *fl_plan_finish(fl_planner *P) {
  fl_plan *plan = fl_zalloc(P->mem, sizeof *plan);
  fl_turn *turns = NULL;
  int64_t n = 0;
  size_t cap = 0;
  if (!plan) return NULL;
  plan->mem = P->mem;
  plan->hash = P->p->hash;
  plan->device = P->p->device;
  mark_stored(P);
  P->plan = plan;
  int ok = describe(P, plan) && order_turns(P, &turns, &n, &cap);
  if (ok) fl_plan_pad_rows(P);
  ok = ok && fl_plan_place_memory(P, turns, n, plan) && make_steps(P, turns, n, plan);
  if (ok) note_outs(plan);
  ok = ok && fl_plan_order_lanes(plan) && order_faults(P, plan) &&
       (!P->c->scan || fl_plan_scan(plan));
  fl_free(P->mem, turns, cap);
  if (!ok) {
    fl_plan_free(plan);
    return NULL;
  }
  note_outs(plan);
  note_guards(plan);
  fl_plan_note_lanes(plan);
  return plan;
}

void fl_plan_free(fl_plan *p) {
  if (!p) return;
  fl_mem *m = p->mem;
  if (p->unprepare) p->unprepare(p);
  for (int32_t i = 0; i < p->nstep; i++) free_step(m, &p->step[i]);
  if (p->step) fl_free(m, p->step, sizeof *p->step * (size_t)p->step_cap);
  if (p->ext) fl_free(m, p->ext, sizeof *p->ext * (size_t)p->next);
  if (p->out) fl_free(m, p->out, sizeof *p->out * (size_t)p->nout);
  if (p->fault) fl_free(m, p->fault, sizeof *p->fault * (size_t)p->nfault);
  if (p->live) fl_free(m, p->live, (size_t)p->nnode);
  if (p->key) fl_free(m, p->key, p->key_bytes);
  const int64_t n = p->layout ? count_layouts(p) : 0;
  for (int64_t i = 0; i < n; i++) fl_layout_release(p->layouts, p->layout[i]);
  if (p->layout) fl_free(m, p->layout, sizeof *p->layout * (size_t)n);
  fl_free(m, p->scan, sizeof *p->scan * (size_t)p->nscan);
  fl_free(m, p, sizeof *p);
}
