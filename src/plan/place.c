/*
** Placement: every anchored cell goes, in program order, into a group of its iteration space
** that it can join without breaking the order of stages, or into a new one.
**
** Joining pays when something is shared: a load, or a value the group computes. Then the cell
** costs no pass of its own. Equal groups without anything in common become instances of one
** launch later (finish.c).
*/
#include "plan/planner.h"
#include "base/hash.h"
#include <string.h>

typedef struct { int64_t instr, access, scalar, deps, fault; uint8_t faulty; } mark;

static mark mark_of(const fl_planner *P, const fl_group *G) {
  return (mark){ G->instr.n, G->access.n, G->scalar.n, G->deps.n, P->fault.n, G->faulty };
}

static void cut_back(fl_planner *P, fl_group *G, mark m) {
  G->instr.n = G->value.n = m.instr;
  G->access.n = m.access;
  G->scalar.n = m.scalar;
  G->deps.n = m.deps;
  G->faulty = m.faulty;
  P->fault.n = m.fault;
}

static int space_of(const fl_layout *s, int64_t size[FL_MAX_AXES]) {
  int nd = 0;
  for (int a = 0; a < s->rank; a++) if (s->size[a] != 1) size[nd++] = s->size[a];
  return nd;
}

static int32_t *bin_of(fl_planner *P, int nd, const int64_t *size) {
  return &P->bin[fl_hash64(size, sizeof(int64_t) * (size_t)nd, (uint64_t)nd) & 255];
}

static int32_t new_group(fl_planner *P, int kind, int nd, const int64_t *size) {
  fl_group *G = FL_PUSH(P->mem, &P->group);
  if (!G) return -1;
  memset(G, 0, sizeof *G);
  G->kind = (uint8_t)kind;
  G->nd = (uint8_t)nd;
  if (nd) memcpy(G->size, size, sizeof(int64_t) * (size_t)nd);
  G->stage = 1;
  G->limit = INT32_MAX;
  G->cell = -1;
  G->sibling = G->fault = -1;
  return (int32_t)P->group.n - 1;
}

static void enter_bin(fl_planner *P, int32_t g) {
  fl_group *G = fl_plan_group(P, g);
  int32_t *bin = bin_of(P, G->nd, G->size);
  G->sibling = *bin;
  *bin = g;
}

/* The group reads its deps: they may not move to its stage or beyond. */
static void commit(fl_planner *P, int32_t g, int32_t stage) {
  fl_group *G = fl_plan_group(P, g);
  G->stage = stage;
  for (int64_t i = 0; i < G->deps.n; i++) {
    fl_group *H = fl_plan_group(P, G->deps.at[i]);
    if (stage < H->limit) H->limit = stage;
  }
}

static int push_store(fl_planner *P, int32_t g, fl_ref ref, int dtype, int value, const fl_map *m) {
  fl_group *G = fl_plan_group(P, g);
  if (G->access.n >= FL_MAX_OPERANDS) return FL_EMIT_REJECT;
  fl_access *a = FL_PUSH(P->mem, &G->access);
  if (!a) return FL_EMIT_MEMORY;
  *a = (fl_access){ .ref = ref, .dtype = (uint8_t)dtype, .store = 1, .value = (uint16_t)value,
                    .map = *m };
  return 0;
}

static int64_t row_length(const fl_group *G, uint32_t red) {
  int64_t n = 1;
  for (int d = 0; d < G->nd; d++) if (red >> d & 1) n *= G->size[d];
  return n;
}

/* May the group hold whole rows beside reductions over 'red' (planner.h, FL_ROW_LIMIT)? Not rows of
** no elements: no dim of theirs moves, so their values would be taken for those of which there is
** one a row. */
static int row_program(const fl_group *G, uint32_t red) {
  const int64_t n = row_length(G, red);
  int64_t rows = 1;
  for (int d = 0; d < G->nd; d++) if (!(red >> d & 1)) rows *= G->size[d];
  return n > 0 && n <= FL_ROW_LIMIT && (rows >= 32 || n <= 8192);
}

/* An elementwise cell joins g: instruction id, or a refusal. */
static int join_map(fl_planner *P, int32_t g, int32_t t) {
  fl_group *G = fl_plan_group(P, g);
  fl_map m;
  int level;
  if (!fl_plan_natural(G, P->cell.at[t].shape, &m, &level)) return FL_EMIT_REJECT;
  if (level && (G->kind == FL_K_COL || (G->kind == FL_K_ROW && !row_program(G, G->red))))
    return FL_EMIT_REJECT;
  int v = fl_plan_find(G, t, &m);           /* a deferred one that was written in before */
  if (v >= 0) G->shared++;
  else v = fl_plan_emit_cell(P, g, t, &m, 0);
  if (v < 0) return v;
  const int err = push_store(P, g, t, P->cell.at[t].dtype, v, &m);
  if (err) return err;
  if (level) fl_plan_group(P, g)->full = 1;
  return v;
}

/* Reduced dims of a reduction in its own space; kind by the innermost dim that counts. */
static uint32_t reduced_dims(const fl_node *n, const fl_layout *in, int *kind) {
  uint32_t red = 0;
  int d = 0;
  *kind = FL_K_ROW;
  for (int a = 0; a < in->rank; a++) {
    if (in->size[a] == 1) continue;
    const int r = n->axes >> a & 1;
    if (r) red |= 1u << d;
    *kind = r ? FL_K_ROW : FL_K_COL;
    d++;
  }
  if (!red) *kind = FL_K_ROW;
  return red;
}

/* Where t's results lie: row-major over the dims that are kept. */
static fl_map results_of(const fl_group *G, uint32_t red) {
  fl_map out;
  memset(&out, 0, sizeof out);
  int64_t step = 1;
  for (int d = G->nd - 1; d >= 0; d--) {
    if (red >> d & 1) continue;
    out.stride[d] = G->size[d] == 1 ? 0 : step;
    step *= G->size[d];
  }
  return out;
}

/* The input of reduction n, read at each point m of the group's space; of
** rows of no elements nothing is. */
static int pull_row(fl_planner *P, int32_t g, const fl_node *n, const fl_map *m) {
  const fl_group *G = fl_plan_group(P, g);
  const fl_node *q = n->in[0];
  fl_map im = { 0 };
  const fl_ref ref = fl_plan_target(P->p, q, &im.offset);
  if (row_length(G, G->red) == 0) return fl_plan_absent(P, g, q->dtype);
  if (!fl_map_compose(q->shape->rank, q->shape->size, q->layout->stride, G->nd, G->size, m->stride,
                      m->offset, im.stride, &im.offset)) return FL_EMIT_REJECT;
  return fl_plan_pull(P, g, ref, &im, 0);
}

static int join_reduce(fl_planner *P, int32_t g, int32_t t) {
  fl_group *G = fl_plan_group(P, g);
  const fl_node *n = P->cell.at[t].node, *q = n->in[0];
  int kind, level;
  const uint32_t red = reduced_dims(n, q->shape, &kind), had = G->red;
  const int had_kind = G->kind;
  if (G->kind == FL_K_MAP) {
    if (G->full && (kind != FL_K_ROW || !red || !row_program(G, red))) return FL_EMIT_REJECT;
    G->red = red;
    G->kind = (uint8_t)kind;
  } else if (G->red != red || !red || G->kind != kind) return FL_EMIT_REJECT;
  fl_map m;
  int v = fl_plan_natural(G, q->shape, &m, &level) && level
          ? pull_row(P, g, n, &m) : FL_EMIT_REJECT;
  G = fl_plan_group(P, g);
  const int single = G->kind == FL_K_COL || row_length(G, red) > FL_ROW_LIMIT;
  if (v >= 0 && single && G->instr.at[v].pass > 0) v = FL_EMIT_REJECT;
  if (v >= 0) {
    const fl_map out = results_of(G, red);
    v = fl_plan_add(P, g, (fl_instr){ .code = FL_I_REDUCE, .dtype = n->dtype, .from = q->dtype,
                                      .op = n->op, .a = (uint16_t)v }, t, &out);
    const int err = v < 0 ? v : push_store(P, g, t, n->dtype, v, &out);
    if (err < 0) v = err;
  }
  if (v < 0) {
    G = fl_plan_group(P, g);
    G->red = had;
    G->kind = (uint8_t)had_kind;
  }
  return v;
}

static int join(fl_planner *P, int32_t g, int32_t t) {
  const fl_node *n = P->cell.at[t].node;
  return n && fl_ops[n->op].fuse == FL_FUSE_R ? join_reduce(P, g, t) : join_map(P, g, t);
}

/* Try to put t into an existing group; 1 when done. */
static int try_group(fl_planner *P, int32_t g, int32_t t) {
  fl_group *G = fl_plan_group(P, g);
  if (G->closed || G->kind > FL_K_COL || G->instr.n > 300) return 0;
  const mark was = mark_of(P, G);
  const uint8_t full = G->full, kind = G->kind;
  const uint32_t red = G->red;
  G->need = 0;
  G->shared = 0;
  const int v = join(P, g, t);
  G = fl_plan_group(P, g);
  const int32_t stage = G->need + 1 > G->stage ? G->need + 1 : G->stage;
  if (v >= 0 && G->shared > 0 && stage < G->limit) {
    P->cell.at[t].group = g;
    commit(P, g, stage);
    return 1;
  }
  cut_back(P, G, was);
  G->full = full;
  G->kind = kind;
  G->red = red;
  return 0;
}

int fl_plan_dep_groups(fl_planner *P, int32_t t, int32_t *out, int most) {
  int32_t stack[64];
  int n = 0, sp = 0, seen = 0;
  stack[sp++] = t;
  while (sp && seen++ < 96) {
    const fl_node *x = P->cell.at[stack[--sp]].node;
    for (int i = 0; x && i < x->nin; i++) {
      int64_t off;
      if (!x->in[i]) continue;
      const fl_ref r = fl_plan_target(P->p, x->in[i], &off);
      if (r < 0) continue;
      const fl_cell *q = &P->cell.at[r];
      if (!q->anchored) { if (sp < 64) stack[sp++] = r; continue; }
      int k = 0;
      while (k < n && out[k] != q->group) k++;
      if (k == n && q->group >= 0 && n < most) out[n++] = q->group;
    }
  }
  return n;
}

/* Take back the newest group, and the fault sites its expression added. */
static void drop_newest(fl_planner *P, mark was) {
  fl_group *G = fl_plan_group(P, (int32_t)P->group.n - 1);
  cut_back(P, G, was);
  FL_DROP(P->mem, &G->instr);
  FL_DROP(P->mem, &G->value);
  FL_DROP(P->mem, &G->access);
  FL_DROP(P->mem, &G->scalar);
  FL_DROP(P->mem, &G->deps);
  P->group.n--;
}

/* In its own new group: 1 done, 0 a cell must be anchored first (in *first), -1 memory. */
static int own_group(fl_planner *P, int32_t t, const fl_layout *space, int32_t *first) {
  int64_t size[FL_MAX_AXES];
  const int nd = space_of(space, size);
  const int32_t g = new_group(P, FL_K_MAP, nd, size);
  if (g < 0) return -1;
  const mark was = mark_of(P, fl_plan_group(P, g));
  const int v = join(P, g, t);
  if (v < 0) {
    drop_newest(P, was);
    if (v <= FL_EMIT_ANCHOR) { *first = FL_EMIT_ANCHOR - v; return 0; }
    if (v == FL_EMIT_MEMORY) return -1;
    *first = -1;
    return 0;
  }
  enter_bin(P, g);
  P->cell.at[t].group = g;
  commit(P, g, fl_plan_group(P, g)->need + 1);
  return 1;
}

/* ---- steps that are not expressions ------------------------------------------------------ */

/* A closed MAP group over 'space' that stores (ref seen by strides over the space) into cell
** t at 'to'. Same results as own_group; *made: the group. */
static int store_group(fl_planner *P, const fl_layout *space, fl_ref ref, const int64_t *stride,
                       int64_t offset, int32_t t, const int64_t *to_stride, int64_t to_offset,
                       int32_t *first, int32_t *made) {
  int64_t size[FL_MAX_AXES];
  const int nd = space_of(space, size);
  const int32_t g = new_group(P, FL_K_MAP, nd, size);
  if (g < 0) return -1;
  fl_map from = { .offset = offset }, to = { .offset = to_offset };
  for (int a = 0, d = 0; a < space->rank; a++) {
    if (space->size[a] == 1) continue;
    from.stride[d] = stride[a];
    to.stride[d++] = to_stride[a];
  }
  const mark was = mark_of(P, fl_plan_group(P, g));
  int v = fl_plan_pull(P, g, ref, &from, 0);
  if (v >= 0 && push_store(P, g, t, P->cell.at[t].dtype, v, &to) < 0) v = FL_EMIT_MEMORY;
  if (v < 0) {
    drop_newest(P, was);
    if (v <= FL_EMIT_ANCHOR) { *first = FL_EMIT_ANCHOR - v; return 0; }
    if (v == FL_EMIT_REJECT && ref >= 0 && !P->cell.at[ref].anchored) { *first = ref; return 0; }
    return -1;
  }
  fl_group *G = fl_plan_group(P, g);
  G->full = G->closed = 1;
  commit(P, g, G->need + 1);
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

/* Cell t's old value in[0] is copied into t's memory; nothing to do when t is written in
** place (its home holds the old value already). *base: the group, -1 none. */
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
  if (G->stage <= B->stage) commit(P, g, B->stage + 1);
}

static int place_setslice(fl_planner *P, int32_t t, int32_t *first) {
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
  if (r <= 0) {                   /* the store is made again when the base is there: drop it */
    fl_plan_group(P, g)->access.n = 0;
    fl_plan_group(P, g)->instr.n = 0;
    return r;
  }
  raise_above(P, g, base);
  P->cell.at[t].group = g;
  return 1;
}

static int place_cat(fl_planner *P, int32_t t, int32_t *first) {
  const fl_node *n = P->cell.at[t].node;
  const int axis = n->attr->axis;
  int64_t row[FL_MAX_AXES], at = 0;
  int32_t g = -1, stage = 0;
  const int64_t begin = P->group.n;
  fl_row_major(n->shape->rank, n->shape->size, row);
  for (int i = 0; i < n->nin; i++) {
    const fl_node *q = n->in[i];
    int64_t offset;
    const fl_ref ref = fl_plan_target(P->p, q, &offset);
    const int r = store_group(P, q->shape, ref, q->layout->stride, offset, t, row, at * row[axis],
                              first, &g);
    if (r <= 0) {                 /* empty the pieces made so far; they are made again */
      for (int64_t k = begin; k < P->group.n; k++)
        P->group.at[k].access.n = P->group.at[k].instr.n = 0;
      return r;
    }
    at += q->shape->size[axis];
    if (fl_plan_group(P, g)->stage > stage) stage = fl_plan_group(P, g)->stage;
  }
  for (int64_t k = begin; k < P->group.n; k++) commit(P, (int32_t)k, stage);
  P->cell.at[t].group = g;
  return g >= 0 ? 1 : -1;
}

/* A step of its own that reads cells from memory. */
static int step_group(fl_planner *P, int kind, int32_t t, const fl_ref *reads, int n) {
  const int32_t g = new_group(P, kind, 0, NULL);
  if (g < 0) return -1;
  fl_group *G = fl_plan_group(P, g);
  G->cell = t;
  G->closed = 1;
  for (int i = 0; i < n; i++) {
    if (reads[i] < 0) continue;
    const int32_t h = P->cell.at[reads[i]].group;
    int32_t *d = FL_PUSH(P->mem, &G->deps);
    if (!d) return -1;
    *d = h;
    P->cell.at[reads[i]].stored = 1;
    if (fl_plan_group(P, h)->stage > G->need) G->need = fl_plan_group(P, h)->stage;
  }
  commit(P, g, G->need + 1);
  P->cell.at[t].group = g;
  return 1;
}

/* Step t may report a fault of program node 'node'. 1, or -1: memory. */
static int add_fault(fl_planner *P, int32_t t, int32_t node) {
  fl_group *G = fl_plan_group(P, P->cell.at[t].group);
  int32_t *f = FL_PUSH(P->mem, &P->fault);
  if (!f) return -1;
  *f = node;
  G->fault = (int32_t)P->fault.n - 1;
  G->faulty = 1;
  return 1;
}

static int place_scatter(fl_planner *P, int32_t t, int32_t *first) {
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

/* A copy of the same elements that an earlier product reads, or -1. */
static int32_t find_copy(const fl_planner *P, fl_ref ref, const fl_layout *view, int64_t offset,
                         int dtype) {
  for (int64_t k = P->cell.n - 1; k >= 0 && !P->cell.at[k].node; k--) {
    const fl_cell *t = &P->cell.at[k];
    if (t->source == ref && t->view == view && t->view_offset == offset && t->dtype == dtype)
      return (int32_t)k;
  }
  return -1;
}

/* The planner's own copy of an input that no library could read: row-major, but columns stay
** columns, so that the copy moves along the memory. Products that read the same elements, turned
** or not, read one copy. */
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
                  .dtype = q->dtype, .anchored = 1, .group = -1, .out = -1, .home = -1,
                  .first = INT32_MAX,
                  .last = -1, .bytes = q->shape->numel * fl_dtype_size(q->dtype) };
  return (int32_t)P->cell.n - 1;
}

/* Input i of matmul n in memory: in *ref. Same results as own_group. */
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
  const int r = copy < 0 ? -1 : placed ? 1 : own_group(P, copy, P->cell.at[copy].shape, first);
  if (r <= 0) {
    if (copy >= 0) fl_plan_drop_copy(P);            /* made again when the rest is there */
    return r;
  }
  P->cell.at[copy].stored = 1;
  *ref = copy;
  return 1;
}

static int place_matmul(fl_planner *P, int32_t t, int32_t *first) {
  const fl_node *n = P->cell.at[t].node;
  fl_ref reads[2];
  for (int i = 0; i < 2; i++) {
    const int made = matmul_input(P, n, i, &reads[i], first);
    if (made <= 0) return made;                     /* a copy for the first is found again */
  }
  const int r = step_group(P, FL_G_MATMUL, t, reads, 2);
  if (r > 0) {
    fl_group *G = fl_plan_group(P, P->cell.at[t].group);
    for (int i = 0; i < 2; i++) {                       /* finish.c finds the operands here */
      fl_access *a = FL_PUSH(P->mem, &G->access);
      if (!a) return -1;
      *a = (fl_access){ .ref = reads[i], .dtype = n->dtype };
    }
  }
  return r;
}

/* Inputs are row-major already (n_call): they only have to be in memory. */
static int place_call(fl_planner *P, int32_t t, int32_t *first) {
  const fl_node *n = P->cell.at[t].node;
  const int faults = fl_calls[n->attr->call->kind].faults == FL_FAULTS_RUN;
  fl_ref reads[FL_CALL_INPUTS];
  int64_t off;
  for (int i = 0; i < n->nin; i++) {
    reads[i] = fl_plan_target(P->p, n->in[i], &off);
    if (reads[i] >= 0 && P->cell.at[reads[i]].group < 0) { *first = reads[i]; return 0; }
  }
  const int r = step_group(P, FL_G_CALL, t, reads, n->nin);
  return r > 0 && faults ? add_fault(P, t, t) : r;
}

/* ---- all cells ------------------------------------------------------------------------- */

static int place_expression(fl_planner *P, int32_t t, int32_t *first) {
  const fl_node *n = P->cell.at[t].node;
  const fl_layout *space = fl_ops[n->op].fuse == FL_FUSE_R ? n->in[0]->shape : n->shape;
  int64_t size[FL_MAX_AXES];
  int32_t near[6];
  const int nd = space_of(space, size), k = fl_plan_dep_groups(P, t, near, 6);
  for (int i = 0; i < k; i++) if (try_group(P, near[i], t)) return 1;
  if (P->cell.at[t].hoist == FL_HOIST_ASKED) {    /* worth no pass of its own: repeated after all */
    P->cell.at[t].hoist = P->cell.at[t].anchored = 0;
    return 1;
  }
  int tries = FL_CANDIDATES;
  for (int32_t g = *bin_of(P, nd, size); g >= 0 && tries; g = fl_plan_group(P, g)->sibling) {
    const fl_group *G = fl_plan_group(P, g);
    if (G->nd != nd || memcmp(G->size, size, sizeof(int64_t) * (size_t)nd)) continue;
    tries--;
    if (try_group(P, g, t)) return 1;
  }
  return own_group(P, t, space, first);
}

static int place_one(fl_planner *P, int32_t t, int32_t *first) {
  const fl_node *n = P->cell.at[t].node;
  switch (n->op) {
    case FL_OP_matmul: return place_matmul(P, t, first);
    case FL_OP_call: return place_call(P, t, first);
    case FL_OP_cat: return place_cat(P, t, first);
    case FL_OP_setslice: return place_setslice(P, t, first);
    case FL_OP_scatter: return place_scatter(P, t, first);
    default: return place_expression(P, t, first);
  }
}

/* Place t, first whatever turns out to need a group of its own before it. */
static int place(fl_planner *P, int32_t t) {
  int32_t *top = FL_PUSH(P->mem, &P->todo);
  if (!top) return 0;
  *top = t;
  while (P->todo.n) {
    const int32_t x = P->todo.at[P->todo.n - 1];
    int32_t first = -1;
    if (P->cell.at[x].group >= 0) { P->todo.n--; continue; }
    const int r = place_one(P, x, &first);
    if (r > 0) { P->todo.n--; continue; }
    if (r < 0 || first < 0 || first == x) return 0;
    P->cell.at[first].anchored = 1;
    top = FL_PUSH(P->mem, &P->todo);
    if (!top) return 0;
    *top = first;
  }
  return 1;
}

int fl_plan_place(fl_planner *P) {
  for (int i = 0; i < 256; i++) P->bin[i] = -1;
  const int64_t n = P->cell.n;
  for (int64_t t = 0; t < n; t++) {
    const fl_cell *cell = &P->cell.at[t];
    if (fl_plan_stops(P, t)) return 0;
    if (cell->anchored && !fl_is_view(cell) && cell->group < 0 && !place(P, (int32_t)t)) return 0;
  }
  return 1;
}
