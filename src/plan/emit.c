/*
** Emission: appends the expression of a cell, read through a map (planner.h), to the instructions
** of a group. Deferred inputs are appended recursively, to a depth of about FL_PULL_DEPTH at most,
** however many ops are recorded. Nothing is undone here; place.c cuts the lists back after a
** refusal.
*/
#include "plan/planner.h"
#include <assert.h>
#include <string.h>

fl_group *fl_plan_group(fl_planner *P, int32_t g) { return &P->group.at[g]; }

static int same_map(const fl_map *a, const fl_map *b, int nd) {
  return a->offset == b->offset && !memcmp(a->stride, b->stride, sizeof(int64_t) * (size_t)nd);
}

static int flat_map(const fl_map *m, int nd) {
  for (int d = 0; d < nd; d++) if (m->stride[d]) return 0;
  return 1;
}

int fl_plan_natural(const fl_group *G, const fl_layout *shape, fl_map *m, int *level) {
  int64_t stride[FL_MAX_AXES];
  int axis[FL_MAX_AXES], k = 0;
  fl_row_major(shape->rank, shape->size, stride);
  for (int a = 0; a < shape->rank; a++) if (shape->size[a] != 1) axis[k++] = a;
  for (int kept = 0; kept < 2; kept++) {
    int j = 0, ok = 1;
    memset(m, 0, sizeof *m);
    for (int d = 0; d < G->nd && ok; d++) {
      if (kept && (G->red >> d & 1)) continue;
      if (G->size[d] == 1) continue;
      ok = j < k && shape->size[axis[j]] == G->size[d];
      if (ok) m->stride[d] = stride[axis[j++]];
    }
    if (ok && j == k) { *level = !kept; return 1; }
    if (!G->red) break;
  }
  return 0;
}

int fl_plan_input(fl_planner *P, int32_t t, int i, fl_ref *ref, int64_t stride[FL_MAX_AXES],
                  int64_t *offset) {
  const fl_cell *cell = &P->cell.at[t];
  const fl_layout *l;
  if (!cell->node) {                       /* the planner's own copy of a node */
    *ref = cell->source;
    l = cell->view;
    *offset = cell->view_offset;
  } else {
    const fl_node *q = cell->node->in[i];
    if (!q) return 0;
    *offset = 0;
    l = q->layout;
    if (q->state == FL_PENDING && q->base) {
      *offset = q->offset;
      q = q->base;
    }
    *ref = fl_plan_ref(P->p, q);
  }
  const int lead = cell->shape->rank - l->rank;   /* broadcasting aligns the last axes */
  for (int a = 0; a < cell->shape->rank; a++)
    stride[a] = a < lead || l->size[a - lead] == 1 ? 0 : l->stride[a - lead];
  return 1;
}

static uint8_t pass_of(const fl_group *G, const fl_instr *x) {
  const fl_instr *at = G->instr.at;
  uint8_t pass = 0;
  switch (x->code) {
    case FL_I_OP:
      for (int i = 0; i < fl_ops[x->op].nin; i++) {
        const uint16_t v = i == 0 ? x->a : i == 1 ? x->b : x->c;
        if (at[v].pass > pass) pass = at[v].pass;
      }
      return pass;
    case FL_I_CAST: case FL_I_INDEX: case FL_I_GATHER: case FL_I_RANDOM: return at[x->a].pass;
    case FL_I_REDUCE: return (uint8_t)(at[x->a].pass + 1);
    default: return 0;
  }
}

/* Finds an instruction of a ROW group (a kernel that reduces rows) that does the same operation on
** the same values, so that two equal nodes are computed once. (The values of a ROW may be kept from
** one sweep to the next.) -1: none. */
static int find_op(const fl_group *G, const fl_instr *x) {
  if (G->kind != FL_K_ROW || (x->code != FL_I_OP && x->code != FL_I_CAST)) return -1;
  for (int64_t i = G->instr.n - 1; i >= 0; i--)
    if (memcmp(&G->instr.at[i], x, sizeof *x) == 0) return (int)i;
  return -1;
}

/* Has the group no room for x? A long chain of reductions, each of a value made from the one
** before, would otherwise be one kernel that computes everything again in each sweep, and whose
** text takes NVRTC minutes. */
static int is_full(const fl_group *G, const fl_instr *x) {
  const int64_t n = G->instr.n;
  int pass = x->pass;
  if (n >= FL_MAX_INSTR - 2 * FL_MAX_OPERANDS) return 1;       /* finish.c needs room */
  if (G->kind != FL_K_ROW) return 0;
  for (int64_t i = 0; i < n; i++) if (G->instr.at[i].pass > pass) pass = G->instr.at[i].pass;
  return n * pass > FL_MAX_SWEPT;
}

/* Appends an instruction whose value is ref (a cell or a stored input) read through map m (from
** points to elements), or finds an equal one. */
int fl_plan_add(fl_planner *P, int32_t g, fl_instr x, fl_ref ref, const fl_map *m) {
  fl_group *G = fl_plan_group(P, g);
  x.pass = pass_of(G, &x);
  const int found = find_op(G, &x);
  if (found >= 0) return found;
  if (is_full(G, &x)) return FL_EMIT_REJECT;
  if (!FL_RESERVE(P->mem, &G->instr, G->instr.n + 1) ||
      !FL_RESERVE(P->mem, &G->value, G->instr.n + 1))
    return FL_EMIT_MEMORY;
  fl_value *v = &G->value.at[G->instr.n];
  v->ref = ref;
  if (m) v->map = *m;
  G->instr.at[G->instr.n] = x;
  G->value.n = G->instr.n + 1;
  return (int)G->instr.n++;
}

int fl_plan_find(const fl_group *G, fl_ref ref, const fl_map *m) {
  for (int64_t i = G->instr.n - 1; i >= 0; i--)
    if (G->value.at[i].ref == ref && same_map(&G->value.at[i].map, m, G->nd)) return (int)i;
  return -1;
}

int fl_plan_access(fl_planner *P, int32_t g, fl_access a) {
  fl_group *G = fl_plan_group(P, g);
  int reads = 0;
  for (int64_t i = 0; i < G->access.n; i++) {
    const fl_access *b = &G->access.at[i];
    reads += !b->store;
    if (!b->store && b->ref == a.ref && b->dtype == a.dtype && b->iota == a.iota &&
        b->gstride == a.gstride && b->extent == a.extent && same_map(&b->map, &a.map, G->nd))
      return (int)i;
  }
  if (reads >= FL_MAX_READS || G->access.n >= FL_MAX_OPERANDS) return FL_EMIT_REJECT;
  fl_access *n = FL_PUSH(P->mem, &G->access);
  if (!n) return FL_EMIT_MEMORY;
  *n = a;
  return (int)G->access.n - 1;
}

static int add_dep(fl_planner *P, int32_t g, int32_t on) {
  fl_group *G = fl_plan_group(P, g);
  const int32_t stage = fl_plan_ready(P, on);
  if (stage > G->need) G->need = stage;
  for (int64_t i = G->deps.n - 1; i >= 0; i--) if (G->deps.at[i] == on) return 0;
  int32_t *d = FL_PUSH(P->mem, &G->deps);
  if (!d) return FL_EMIT_MEMORY;
  *d = on;
  return 0;
}

int fl_plan_depend(fl_planner *P, int32_t g, fl_ref t) {
  for (int i = 0, n = fl_plan_writers(P, t); i < n; i++) {
    const int err = add_dep(P, g, fl_plan_writer(P, t, i));
    if (err) return err;
  }
  return 0;
}

/* Notes that group g reads cell 'ref' from memory: the groups that write it become dependences of
** g. Refuses if the cell has no group yet, or if g itself writes it. An external (a stored input of
** the plan) is there already. */
static int note_read(fl_planner *P, int32_t g, fl_ref ref) {
  if (ref < 0) return 0;
  if (P->cell.at[ref].group < 0) return FL_EMIT_ANCHOR - ref;
  for (int i = 0, n = fl_plan_writers(P, ref); i < n; i++)
    if (fl_plan_writer(P, ref, i) == g) return FL_EMIT_REJECT;
  return fl_plan_depend(P, g, ref);
}

static int dtype_of(fl_planner *P, fl_ref ref) {
  return ref >= 0 ? P->cell.at[ref].dtype : P->p->ext.at[~ref]->dtype;
}

static int load(fl_planner *P, int32_t g, fl_ref ref, const fl_map *m) {
  const int err = note_read(P, g, ref);
  if (err) return err;
  const int dtype = dtype_of(P, ref);
  const int a = fl_plan_access(P, g, (fl_access){ .ref = ref, .dtype = (uint8_t)dtype, .map = *m });
  if (a < 0) return a;
  return fl_plan_add(P, g, (fl_instr){ .code = FL_I_LOAD, .dtype = (uint8_t)dtype,
                                       .from = (uint8_t)dtype, .arg = (uint16_t)a }, ref, m);
}

/* Would g recompute t, which depends on reductions of other groups, at each of many points? Then
** requests (hoist) that t be anchored, that is, computed once, in one group. */
static int repeats(fl_planner *P, int32_t g, int32_t t) {
  const fl_group *G = fl_plan_group(P, g);
  int32_t from[6];
  int64_t points = 1;
  for (int d = 0; d < G->nd; d++) points *= G->size[d];
  if (points / FL_WIDE < P->cell.at[t].shape->numel) return 0;
  for (int k = fl_plan_dep_groups(P, t, from, 6); k > 0; k--) if (from[k - 1] == g) return 0;
  P->cell.at[t].hoist = FL_HOIST_ASKED;
  return 1;
}

int fl_plan_pull(fl_planner *P, int32_t g, fl_ref ref, const fl_map *m, int depth) {
  fl_group *G = fl_plan_group(P, g);
  if (ref < 0) ref = ~P->p->same.at[~ref];
  const int found = fl_plan_find(G, ref, m);
  fl_ref piece;
  fl_map pm;
  if (found >= 0) {
    if (!flat_map(m, G->nd)) G->shared++;
    return found;
  }
  if (ref < 0) return load(P, g, ref, m);
  const fl_cell *t = &P->cell.at[ref];
  const int within = fl_plan_piece(P, ref, G->nd, G->size, m, &piece, &pm);
  if (within && !t->anchored && depth <= FL_PULL_DEPTH)
    return fl_plan_pull(P, g, piece, &pm, depth + 1);
  /* does the group itself compute the piece? */
  const int there = within ? fl_plan_find(G, piece, &pm) : -1;
  if (there >= 0) {
    G->shared++;
    return there;
  }
  if (t->anchored) return load(P, g, ref, m);
  if (t->node && t->node->op == FL_OP_cat) return FL_EMIT_ANCHOR - ref;   /* read as a whole */
  if (depth > FL_PULL_DEPTH || (t->hoist && repeats(P, g, ref))) return FL_EMIT_ANCHOR - ref;
  return fl_plan_emit_cell(P, g, ref, m, depth + 1);
}

/* Finds *ref, which input i of cell t reads, and *out, the map from points of group G to elements
** by which it is read when t is read through map m. 0: the input is a number; < 0: there is no such
** map, so t must be anchored. */
static int input_map(fl_planner *P, const fl_group *G, int32_t t, int i, const fl_map *m,
                     fl_ref *ref, fl_map *out) {
  int64_t stride[FL_MAX_AXES], offset;
  if (!fl_plan_input(P, t, i, ref, stride, &offset)) return 0;
  const fl_layout *s = P->cell.at[t].shape;
  memset(out, 0, sizeof *out);
  out->offset = offset;
  if (!fl_map_compose(s->rank, s->size, stride, G->nd, G->size, m->stride, m->offset, out->stride,
                      &out->offset))
    return FL_EMIT_ANCHOR - t;
  return 1;
}

int fl_plan_read_input(fl_planner *P, int32_t g, int32_t t, int i, const fl_map *m, int depth) {
  fl_ref ref;
  fl_map im;
  const int has = input_map(P, fl_plan_group(P, g), t, i, m, &ref, &im);
  assert(has);                            /* an input is a tensor */
  return has < 0 ? has : fl_plan_pull(P, g, ref, &im, depth);
}

int fl_plan_scalar(fl_planner *P, int32_t g, int32_t t, int i, int dtype) {
  fl_group *G = fl_plan_group(P, g);
  const uint32_t which = (uint32_t)t * 4 + (uint32_t)i;
  if (G->scalar.n >= FL_MAX_SCALARS - 4) return FL_EMIT_REJECT;
  uint32_t *s = FL_PUSH(P->mem, &G->scalar);
  if (!s) return FL_EMIT_MEMORY;
  *s = which;
  const fl_instr x = { .code = FL_I_SCALAR, .dtype = (uint8_t)dtype, .from = (uint8_t)dtype,
                       .arg = (uint16_t)(G->scalar.n - 1) };
  return fl_plan_add(P, g, x, INT32_MIN, NULL);
}

static int operand_dtype(const fl_node *n, int i) {
  if (n->op == FL_OP_where && i == 0) return FLAME_BOOL;
  if (fl_ops[n->op].kind == FL_KIND_TEST && fl_ops[n->op].form != FL_FORM_REDUCE) {
    for (int k = 0; k < n->nin; k++) if (n->in[k]) return n->in[k]->dtype;
  }
  return n->dtype;
}

/* Emits a unary, binary or ternary op. */
static int emit_op(fl_planner *P, int32_t g, int32_t t, const fl_map *m, int depth) {
  const fl_node *n = P->cell.at[t].node;
  int v[3] = { 0, 0, 0 };
  for (int i = 0; i < n->nin; i++) {
    fl_ref ref;
    fl_map im;
    const int has = input_map(P, fl_plan_group(P, g), t, i, m, &ref, &im);
    if (has < 0) return has;
    v[i] = has ? fl_plan_pull(P, g, ref, &im, depth)
               : fl_plan_scalar(P, g, t, i, operand_dtype(n, i));
    if (v[i] < 0) return v[i];
  }
  const int from = operand_dtype(n, n->op == FL_OP_where ? 1 : 0);
  return fl_plan_add(P, g, (fl_instr){ .code = FL_I_OP, .dtype = n->dtype, .from = (uint8_t)from,
                                       .op = n->op,
             .a = (uint16_t)v[0], .b = (uint16_t)v[1], .c = (uint16_t)v[2] }, t, m);
}

static int emit_iota(fl_planner *P, int32_t g, const fl_map *m) {
  const int a = fl_plan_access(P, g, (fl_access){ .ref = INT32_MIN, .dtype = FLAME_I64, .iota = 1,
                                                  .map = *m });
  if (a < 0) return a;
  return fl_plan_add(P, g, (fl_instr){ .code = FL_I_IOTA, .dtype = FLAME_I64, .from = FLAME_I64,
                                       .arg = (uint16_t)a }, INT32_MIN, NULL);
}

static int emit_cast(fl_planner *P, int32_t g, int v, int from, int to, int32_t t,
                     const fl_map *m) {
  return fl_plan_add(P, g, (fl_instr){ .code = FL_I_CAST, .dtype = (uint8_t)to,
                                       .from = (uint8_t)from, .a = (uint16_t)v }, t, m);
}

int fl_plan_absent(fl_planner *P, int32_t g, int dtype) {
  const fl_map none = { 0 };
  const int v = emit_iota(P, g, &none);
  return v < 0 ? v : emit_cast(P, g, v, FLAME_I64, dtype, INT32_MIN, NULL);
}

/* Emits an arange: the node's scalar 0 (first) + its scalar 1 (step) * linear index, in i64 or f64;
** for a count (FL_IOTA_COUNT) the index itself. A draw_key has scalars of the same meaning. */
static int emit_arange(fl_planner *P, int32_t g, int32_t t, const fl_map *m) {
  const fl_node *n = P->cell.at[t].node;
  const int wide = fl_is_float(n->dtype) ? FLAME_F64 : FLAME_I64;
  int v = emit_iota(P, g, m);
  if (v >= 0 && n->attr && n->attr->flags & FL_IOTA_COUNT)
    return emit_cast(P, g, v, FLAME_I64, n->dtype, t, m);
  if (v >= 0 && wide == FLAME_F64) v = emit_cast(P, g, v, FLAME_I64, FLAME_F64, INT32_MIN, NULL);
  const int first = v < 0 ? v : fl_plan_scalar(P, g, t, 0, wide),
            step = first < 0 ? first : fl_plan_scalar(P, g, t, 1, wide);
  if (step < 0) return step;
  fl_instr x = { .code = FL_I_OP, .dtype = (uint8_t)wide, .from = (uint8_t)wide, .op = FL_OP_mul,
                 .a = (uint16_t)v, .b = (uint16_t)step };
  v = fl_plan_add(P, g, x, INT32_MIN, NULL);
  if (v < 0) return v;
  x.op = FL_OP_add;
  x.a = (uint16_t)first;
  x.b = (uint16_t)v;
  v = fl_plan_add(P, g, x, INT32_MIN, NULL);
  return v < 0 ? v : emit_cast(P, g, v, wide, n->dtype, t, m);
}

static int emit_random(fl_planner *P, int32_t g, int32_t t, const fl_map *m) {
  const fl_node *n = P->cell.at[t].node;
  const int v = emit_iota(P, g, m), dtype = n->op == FL_OP_randint ? FLAME_I64 : n->dtype;
  const int a = v < 0 ? v : fl_plan_scalar(P, g, t, 0, dtype),
            b = a < 0 ? a : fl_plan_scalar(P, g, t, 1, dtype);
  if (b < 0) return b;
  fl_group *G = fl_plan_group(P, g);
  if (!FL_RESERVE(P->mem, &G->scalar, G->scalar.n + 2)) return FL_EMIT_MEMORY;
  const int arg = (int)G->scalar.n;
  G->scalar.at[G->scalar.n++] = (uint32_t)t * 4 + 2;
  G->scalar.at[G->scalar.n++] = (uint32_t)t * 4 + 3;
  return fl_plan_add(P, g, (fl_instr){ .code = FL_I_RANDOM, .dtype = n->dtype, .from = n->dtype,
                                       .op = n->op,
             .a = (uint16_t)v, .b = (uint16_t)a, .c = (uint16_t)b, .arg = (uint16_t)arg }, t, m);
}

static int emit_index(fl_planner *P, int32_t g, int32_t t, const fl_map *m, int depth) {
  const fl_node *n = P->cell.at[t].node;
  fl_ref ref;
  fl_map im;
  int err = input_map(P, fl_plan_group(P, g), t, 0, m, &ref, &im);
  if (err < 0) return err;
  assert(err > 0);                        /* since the input is a tensor, never a number */
  int v = fl_plan_pull(P, g, ref, &im, depth);
  if (v >= 0 && dtype_of(P, ref) != FLAME_I64)
    v = emit_cast(P, g, v, dtype_of(P, ref), FLAME_I64, INT32_MIN, NULL);
  const int size = v < 0 ? v : fl_plan_scalar(P, g, t, 0, FLAME_I64),
            at = size < 0 ? size : emit_iota(P, g, m);
  if (at < 0) return at;
  int32_t *f = FL_PUSH(P->mem, &P->fault);
  if (!f) return FL_EMIT_MEMORY;
  *f = t;
  fl_plan_group(P, g)->faulty = 1;
  return fl_plan_add(P, g, (fl_instr){ .code = FL_I_INDEX, .dtype = FLAME_I64, .from = FLAME_I64,
                                       .op = n->attr ? n->attr->flags : 0,
             .a = (uint16_t)v, .b = (uint16_t)size, .c = (uint16_t)at,
             .arg = (uint16_t)(P->fault.n - 1) }, t, m);
}

/* The strides of a gather's source and index over the result's axes (conventions of build.h). */
static void gather_strides(const fl_node *n, const fl_layout *src, const fl_layout *idx,
                           int64_t *ss, int64_t *is, int64_t *gstride) {
  const int axis = n->attr->axis, grid = n->attr->flags & 1, k = grid ? 1 : n->attr->naxes;
  *gstride = src->stride[axis];
  for (int a = 0; a < n->shape->rank; a++) {
    if (grid) {
      ss[a] = a == axis ? 0 : src->stride[a];
      is[a] = idx->stride[a];
    } else if (a < axis) { ss[a] = src->stride[a]; is[a] = 0; }
    else if (a < axis + k) { ss[a] = 0; is[a] = idx->stride[a - axis]; }
    else { ss[a] = src->stride[a - k + 1]; is[a] = 0; }
  }
}

static int compose(const fl_group *G, const fl_layout *s, const int64_t *stride, const fl_map *m,
                   int64_t offset, fl_map *out) {
  memset(out, 0, sizeof *out);
  out->offset = offset;
  return fl_map_compose(s->rank, s->size, stride, G->nd, G->size, m->stride, m->offset, out->stride,
                        &out->offset);
}

fl_ref fl_plan_target(const fl_program *p, const fl_node *q, int64_t *offset) {
  *offset = 0;
  if (q->state == FL_PENDING && q->base) { *offset = q->offset; q = q->base; }
  return fl_plan_ref(p, q);
}

static int emit_gather(fl_planner *P, int32_t g, int32_t t, const fl_map *m, int depth) {
  const fl_node *n = P->cell.at[t].node;
  int64_t ss[FL_MAX_AXES], is[FL_MAX_AXES], gstride, soff, ioff;
  gather_strides(n, n->in[0]->layout, n->in[1]->layout, ss, is, &gstride);
  const fl_ref sref = fl_plan_target(P->p, n->in[0], &soff),
               iref = fl_plan_target(P->p, n->in[1], &ioff);
  fl_map sm, im;
  const fl_group *G = fl_plan_group(P, g);
  if (!compose(G, n->shape, ss, m, soff, &sm) || !compose(G, n->shape, is, m, ioff, &im))
    return FL_EMIT_ANCHOR - t;
  const int v = fl_plan_pull(P, g, iref, &im, depth);
  if (v < 0) return v;
  /* the source has no elements: only the check of the index remains */
  if (n->in[0]->shape->numel == 0) return emit_cast(P, g, v, FLAME_I64, n->dtype, t, m);
  const int err = note_read(P, g, sref);
  if (err) return err;
  const int64_t extent = n->in[0]->shape->size[n->attr->axis];
  const int a = fl_plan_access(P, g, (fl_access){ .ref = sref, .dtype = n->dtype, .map = sm,
                                                  .gstride = gstride,
                                                  .extent = extent });
  if (a < 0) return a;
  return fl_plan_add(P, g, (fl_instr){ .code = FL_I_GATHER, .dtype = n->dtype, .from = n->dtype,
                                       .a = (uint16_t)v, .arg = (uint16_t)a }, t, m);
}

/* Loads an element of a view of the input's bytes as another dtype. The map gives the element's
** position in the result; counted in elements of the result's dtype, this is also its position in
** the input's memory, relative to the input's first element. */
static int emit_bits(fl_planner *P, int32_t g, int32_t t, const fl_map *m) {
  const fl_node *n = P->cell.at[t].node;
  int64_t first;
  const fl_ref ref = fl_plan_target(P->p, n->in[0], &first);
  fl_access x = { .ref = ref, .dtype = n->dtype, .map = *m };
  x.map.offset += first * fl_dtype_size(n->in[0]->dtype) / fl_dtype_size(n->dtype);
  const int err = note_read(P, g, ref), a = err ? err : fl_plan_access(P, g, x);
  if (a < 0) return a;
  return fl_plan_add(P, g, (fl_instr){ .code = FL_I_LOAD, .dtype = n->dtype, .from = n->dtype,
                                       .arg = (uint16_t)a }, t, m);
}

int fl_plan_fill(fl_planner *P, int32_t g, int32_t t, int dtype, const fl_map *m) {
  const int v = fl_plan_scalar(P, g, t, 0, dtype);
  return v < 0 ? v : emit_cast(P, g, v, dtype, dtype, t, m);
}

int fl_plan_emit_cell(fl_planner *P, int32_t g, int32_t t, const fl_map *m, int depth) {
  const fl_cell *cell = &P->cell.at[t];
  const int op = cell->node ? cell->node->op : FL_OP_copy;
  fl_ref ref;
  fl_map im;
  switch (op) {
    case FL_OP_fill: return fl_plan_fill(P, g, t, cell->dtype, m);
    case FL_OP_form: return fl_plan_emit_form(P, g, t, m, depth);
    case FL_OP_iota: case FL_OP_draw_key: return emit_arange(P, g, t, m);
    case FL_OP_uniform: case FL_OP_normal: case FL_OP_randint: return emit_random(P, g, t, m);
    case FL_OP_index: return emit_index(P, g, t, m, depth);
    case FL_OP_bits: return emit_bits(P, g, t, m);
    case FL_OP_gather: return emit_gather(P, g, t, m, depth);
    case FL_OP_mix: case FL_OP_mix_square: case FL_OP_adam:
      return fl_plan_emit_joint(P, g, t, m, depth);
    case FL_OP_cast: case FL_OP_copy: {
      const int err = input_map(P, fl_plan_group(P, g), t, 0, m, &ref, &im);
      if (err < 0) return err;
      assert(err > 0);                    /* the input is a tensor */
      const int v = fl_plan_pull(P, g, ref, &im, depth);
      return v < 0 ? v : emit_cast(P, g, v, dtype_of(P, ref), cell->dtype, t, m);
    }
    default: return emit_op(P, g, t, m, depth);
  }
}
