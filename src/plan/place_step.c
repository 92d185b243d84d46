/*
** Placement of steps that are not expressions (place.h): products, calls and scatters, which
** read cells from memory, and writes of slices, which are closed groups (nothing joins them).
*/
#include "plan/place.h"
#include "tensor/call_collective.h"

/* Makes a closed group (a kernel of elements that nothing else joins) over 'space'. It reads 'ref'
** by 'stride' and 'offset' and stores that into value t by 'to_stride' and 'to_offset'. 1: done,
** *made is the group; 0: the value *first must be placed in a group before; -1: no memory. */
static int store_group(fl_planner *P, const fl_layout *space, fl_ref ref, const int64_t *stride,
                       int64_t offset, int32_t t, const int64_t *to_stride, int64_t to_offset,
                       int32_t *first, int32_t *made) {
  int64_t size[FL_MAX_AXES];
  const int nd = fl_place_space(space, size);
  const int32_t g = fl_place_group(P, FL_K_MAP, nd, size);
  if (g < 0) return -1;
  fl_map from = { .offset = offset }, to = { .offset = to_offset };
  for (int a = 0, d = 0; a < space->rank; a++) {
    if (space->size[a] == 1) continue;
    from.stride[d] = stride[a];
    to.stride[d++] = to_stride[a];
  }
  const fl_place_was was = fl_place_mark(P, fl_plan_group(P, g));
  int v = fl_plan_pull(P, g, ref, &from, 0);
  if (v >= 0 && fl_place_store(P, g, t, P->cell.at[t].dtype, v, &to) < 0) v = FL_EMIT_MEMORY;
  if (v < 0) {
    fl_place_drop(P, &was);
    if (v <= FL_EMIT_ANCHOR) { *first = FL_EMIT_ANCHOR - v; return 0; }
    if (v == FL_EMIT_REJECT && ref >= 0 && !P->cell.at[ref].anchored) { *first = ref; return 0; }
    return -1;
  }
  fl_group *G = fl_plan_group(P, g);
  G->full = G->closed = 1;
  fl_place_commit(P, g, G->need + 1);
  *made = g;
  return 1;
}

/* Strides of input q over the axes of 'shape' (broadcast). */
static void broadcast_strides(const fl_node *q, const fl_layout *shape, int64_t *stride) {
  const fl_layout *l = q->layout;
  const int lead = shape->rank - l->rank;
  for (int a = 0; a < shape->rank; a++)
    stride[a] = a < lead || l->size[a - lead] == 1 ? 0 : l->stride[a - lead];
}

/* Copies cell t's old value in[0] into t's memory. If t's home (the buffer in which it must end)
** holds the old value already, only notes this (base_home). *base: the group that copies; -1:
** none. Returns as store_group. */
static int place_base(fl_planner *P, int32_t t, int32_t *first, int32_t *base) {
  fl_cell *cell = &P->cell.at[t];
  const fl_node *n = cell->node, *q = n->in[0];
  int64_t from[FL_MAX_AXES], to[FL_MAX_AXES], offset;
  const fl_ref ref = fl_plan_target(P->p, q, &offset);
  *base = -1;
  if (ref < 0 && cell->home >= 0 && q->buffer == P->p->homes.at[cell->home] &&
      q->layout == q->shape && q->offset == 0) {
    cell->base_home = 1;
    return 1;
  }
  broadcast_strides(q, n->shape, from);
  fl_row_major(n->shape->rank, n->shape->size, to);
  return store_group(P, n->shape, ref, from, offset, t, to, 0, first, base);
}

static void raise_above(fl_planner *P, int32_t g, int32_t base) {
  if (base < 0) return;
  fl_group *B = fl_plan_group(P, base), *G = fl_plan_group(P, g);
  if (G->stage <= B->stage) fl_place_commit(P, g, B->stage + 1);
}

int fl_place_setslice(fl_planner *P, int32_t t, int32_t *first) {
  const fl_node *n = P->cell.at[t].node;
  int64_t from[FL_MAX_AXES], to[FL_MAX_AXES], row[FL_MAX_AXES], offset, to_offset = 0;
  int32_t base = -1, g;
  fl_layout box = { .rank = n->shape->rank };
  fl_row_major(n->shape->rank, n->shape->size, row);
  box.numel = 1;
  for (int a = 0; a < box.rank; a++) {
    box.size[a] = n->attr->size[a];
    box.numel *= box.size[a];
    to[a] = row[a] * n->attr->step[a];
    to_offset += row[a] * n->attr->start[a];
  }
  const fl_ref ref = fl_plan_target(P->p, n->in[1], &offset);
  broadcast_strides(n->in[1], &box, from);
  int r = store_group(P, &box, ref, from, offset, t, to, to_offset, first, &g);
  if (r <= 0) return r;
  r = place_base(P, t, first, &base);
  if (r <= 0) {                   /* the store is made again after the old value is placed */
    fl_plan_group(P, g)->access.n = 0;
    fl_plan_group(P, g)->instr.n = 0;
    return r;
  }
  raise_above(P, g, base);
  P->cell.at[t].group = g;
  return 1;
}

/* Makes the group of a separate step, which reads cells from memory. */
static int step_group(fl_planner *P, int kind, int32_t t, const fl_ref *reads, int n) {
  const int32_t g = fl_place_group(P, kind, 0, NULL);
  if (g < 0) return -1;
  fl_group *G = fl_plan_group(P, g);
  G->cell = t;
  G->closed = 1;
  for (int i = 0; i < n; i++) {
    if (reads[i] < 0) continue;
    if (fl_plan_depend(P, g, reads[i]) < 0) return -1;
    P->cell.at[reads[i]].stored = 1;
  }
  fl_place_commit(P, g, G->need + 1);
  P->cell.at[t].group = g;
  return 1;
}

/* Notes that step t may report a fault of program node 'node'. Returns 1; -1: no memory. */
static int add_fault(fl_planner *P, int32_t t, int32_t node) {
  fl_group *G = fl_plan_group(P, P->cell.at[t].group);
  int32_t *f = FL_PUSH(P->mem, &P->fault);
  if (!f) return -1;
  *f = node;
  G->fault = (int32_t)P->fault.n - 1;
  G->faulty = 1;
  return 1;
}

int fl_place_scatter(fl_planner *P, int32_t t, int32_t *first) {
  fl_ref reads[2];
  int32_t base = -1;
  int64_t off;
  for (int i = 1; i < 3; i++) {
    reads[i - 1] = fl_plan_target(P->p, fl_plan_read(P, t, i), &off);
    if (reads[i - 1] >= 0 && P->cell.at[reads[i - 1]].group < 0) {
      *first = reads[i - 1];
      return 0;
    }
  }
  int r = place_base(P, t, first, &base);
  if (r <= 0) return r;
  r = step_group(P, FL_G_SCATTER, t, reads, 2);
  if (r <= 0) return r;
  raise_above(P, P->cell.at[t].group, base);
  return P->cell.at[t].checks ? add_fault(P, t, P->cell.at[t].node->in[1]->slot) : r;
}

/* A copy of the same elements that was made for an earlier product, or -1. */
static int32_t find_copy(const fl_planner *P, fl_ref ref, const fl_layout *view, int64_t offset,
                         int dtype) {
  for (int64_t k = P->cell.n - 1; k >= 0 && !P->cell.at[k].node; k--) {
    const fl_cell *t = &P->cell.at[k];
    if (t->source == ref && t->view == view && t->view_offset == offset && t->dtype == dtype)
      return (int32_t)k;
  }
  return -1;
}

/* Finds or makes the planner's own copy of an input that a product can not read as it lies:
** row-major, or column-major if the input is, so that the copy runs along memory. Products that
** read the same elements, transposed or not, share one copy. -1: no memory. */
static int32_t copy_cell(fl_planner *P, fl_ref ref, const fl_node *q, int64_t offset) {
  fl_layouts *table = &P->c->layouts;
  int64_t size[FL_MAX_AXES], stride[FL_MAX_AXES];
  const int r = q->shape->rank, turned = fl_plan_lies_turned(q);
  for (int a = 0; a < r; a++) {
    const int from = !turned || a < r - 2 ? a : 2 * r - 3 - a;
    size[a] = q->shape->size[from];
    stride[a] = q->layout->stride[from];
  }
  fl_layout *shape = fl_layout_of(table, r, size, NULL),
            *view = fl_layout_of(table, r, size, stride);
  const int32_t there = view ? find_copy(P, ref, view, offset, q->dtype) : -1;
  fl_cell *t = shape && view && there < 0 ? FL_PUSH(P->mem, &P->cell) : NULL;
  if (!t) {
    if (shape) fl_layout_release(table, shape);
    if (view) fl_layout_release(table, view);
    return there;
  }
  *t = (fl_cell){ .source = ref, .view = view, .view_offset = offset, .shape = shape,
                  .dtype = q->dtype, .anchored = 1, .group = -1, .pieces = -1, .out = -1,
                  .home = -1, .first = INT32_MAX, .last = -1,
                  .bytes = q->shape->numel * fl_dtype_size(q->dtype) };
  return (int32_t)P->cell.n - 1;
}

/* Finds, or makes, input i of matmul n in memory: *ref. 1: done; 0: *first must be placed before;
** -1: no memory. */
static int matmul_input(fl_planner *P, const fl_node *n, int i, fl_ref *ref, int32_t *first) {
  int64_t off;
  *ref = fl_plan_target(P->p, n->in[i], &off);
  if (fl_plan_reads_as_is(P->p, n, i)) {
    if (*ref < 0 || P->cell.at[*ref].group >= 0) return 1;
    *first = *ref;
    return 0;
  }
  const int32_t copy = copy_cell(P, *ref, n->in[i], off);
  const int placed = copy >= 0 && P->cell.at[copy].group >= 0;
  const int r = copy < 0 ? -1 : placed ? 1
              : fl_place_own(P, copy, -1, P->cell.at[copy].shape, first);
  if (r <= 0) {
    if (copy >= 0) fl_plan_drop_copy(P);            /* the copy is made again when the step is tried
                                                    ** again, after *first was placed */
    return r;
  }
  P->cell.at[copy].stored = 1;
  *ref = copy;
  return 1;
}

int fl_place_matmul(fl_planner *P, int32_t t, int32_t *first) {
  const fl_node *n = P->cell.at[t].node;
  fl_ref reads[3];
  for (int i = 0; i < n->nin; i++) {
    const int made = matmul_input(P, n, i, &reads[i], first);
    if (made <= 0) return made;                    /* copies made for inputs before i stay: the
                                                   ** next try finds them (find_copy) */
  }
  const int r = step_group(P, FL_G_MATMUL, t, reads, n->nin);
  if (r > 0) {
    fl_group *G = fl_plan_group(P, P->cell.at[t].group);
    for (int i = 0; i < n->nin; i++) {                  /* finish.c reads the operands from here */
      fl_access *a = FL_PUSH(P->mem, &G->access);
      if (!a) return -1;
      *a = (fl_access){ .ref = reads[i], .dtype = n->dtype };
    }
  }
  return r;
}

/* A collective comes after the previous one, whose result it does not read: within a stage they are
** in this order, since steps of a stage are ordered by their groups. If each had its own stage, the
** last of many would come after all the work that the collectives could overlap with. */
static int follow(fl_planner *P, int32_t g, fl_ref before) {
  if (before >= 0) {
    const int32_t own = fl_plan_group(P, g)->stage;
    const int32_t there = fl_plan_group(P, P->cell.at[before].group)->stage;
    if (fl_plan_depend(P, g, before) < 0) return -1;
    P->cell.at[before].stored = 1;
    fl_place_commit(P, g, own < there ? there : own);
  }
  P->collected = fl_plan_group(P, g)->stage;
  return 1;
}

/* The inputs are row-major already, as n_call has recorded them, so they only have to be in
** memory. */
int fl_place_call(fl_planner *P, int32_t t, int32_t *first) {
  const fl_node *n = P->cell.at[t].node;
  const fl_call *k = n->attr->call;
  const int faults = fl_call_reports(k), collects = k->kind == FL_CALL_collective;
  const int arrays = collects ? (int)k->p[FL_COLLECT_ARRAYS] : n->nin;
  fl_ref reads[FL_CALL_INPUTS] = { -1 };
  int64_t off;
  for (int i = 0; i < n->nin; i++) {
    reads[i] = fl_plan_target(P->p, n->in[i], &off);
    if (reads[i] >= 0 && P->cell.at[reads[i]].group < 0) { *first = reads[i]; return 0; }
  }
  int r = step_group(P, FL_G_CALL, t, reads, arrays);
  if (r > 0 && collects)
    r = follow(P, P->cell.at[t].group, n->nin > arrays ? reads[arrays] : -1);
  return r > 0 && faults ? add_fault(P, t, t) : r;
}

