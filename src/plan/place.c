/*
** Placement: every anchored cell (one that is computed once, not by each reader) goes, in program
** order, into a group of its iteration space (cells that become one kernel) that it can join
** without breaking the order of stages, or into a new one.
**
** Joining pays when something is shared: a load, or a value the group computes. Then the cell
** costs no separate pass. An array that the cell itself reads twice counts as well: that brings
** equal work of several stages together in one group (the squares of all gradients, an optimiser's
** step); for a GPU, split.c divides such a kernel into parts again. Equal groups of one stage
** without anything in common become instances of one launch later (finish.c).
*/
#include "plan/place.h"
#include "base/hash.h"
#include <string.h>

fl_place_was fl_place_mark(const fl_planner *P, const fl_group *G) {
  return (fl_place_was){ G->instr.n, G->access.n, G->scalar.n, G->deps.n, P->fault.n,
                         G->faulty, G->full, G->kind, G->red };
}

void fl_place_cut(fl_planner *P, fl_group *G, const fl_place_was *was) {
  G->instr.n = G->value.n = was->instr;
  G->access.n = was->access;
  G->scalar.n = was->scalar;
  G->deps.n = was->deps;
  G->faulty = was->faulty;
  G->full = was->full;
  G->kind = was->kind;
  G->red = was->red;
  P->fault.n = was->fault;
}

int fl_place_space(const fl_layout *s, int64_t size[FL_MAX_AXES]) {
  int nd = 0;
  for (int a = 0; a < s->rank; a++) if (s->size[a] != 1) size[nd++] = s->size[a];
  return nd;
}

int32_t *fl_place_bin(fl_planner *P, int nd, const int64_t *size) {
  return &P->bin[fl_hash64(size, sizeof(int64_t) * (size_t)nd, (uint64_t)nd) & 255];
}

int32_t fl_place_group(fl_planner *P, int kind, int nd, const int64_t *size) {
  fl_group *G = FL_PUSH(P->mem, &P->group);
  if (!G) return -1;
  memset(G, 0, sizeof *G);
  G->kind = (uint8_t)kind;
  G->nd = (uint8_t)nd;
  if (nd) memcpy(G->size, size, sizeof(int64_t) * (size_t)nd);
  G->stage = 1;
  G->limit = INT32_MAX;
  G->cell = -1;
  G->sibling = G->fault = G->reader = G->partial = -1;
  return (int32_t)P->group.n - 1;
}

static void enter_bin(fl_planner *P, int32_t g) {
  fl_group *G = fl_plan_group(P, g);
  int32_t *bin = fl_place_bin(P, G->nd, G->size);
  G->sibling = *bin;
  *bin = g;
}

void fl_place_commit(fl_planner *P, int32_t g, int32_t stage) {
  fl_group *G = fl_plan_group(P, g);
  G->stage = stage;
  for (int64_t i = 0; i < G->deps.n; i++) {
    fl_group *H = fl_plan_group(P, G->deps.at[i]);
    if (stage < H->limit) H->limit = stage;
  }
  fl_raise_note(P, g);
}

int fl_place_store(fl_planner *P, int32_t g, fl_ref ref, int dtype, int value, const fl_map *m) {
  fl_group *G = fl_plan_group(P, g);
  if (G->access.n >= FL_MAX_OPERANDS) return FL_EMIT_REJECT;
  if (G->kind == FL_K_COL && G->instr.at[value].pass && fl_plan_moves_in_row(G, m))
    return FL_EMIT_REJECT;
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

/* May the group store whole rows beside reductions over 'red' (planner.h, FL_ROW_LIMIT)? Not if
** there are few rows and they are long, or if rows have no elements: their dims have no strides
** then, so values at each point would look like values per row. */
static int row_program(const fl_group *G, uint32_t red) {
  const int64_t n = row_length(G, red);
  int64_t rows = 1;
  for (int d = 0; d < G->nd; d++) if (!(red >> d & 1)) rows *= G->size[d];
  return n > 0 && n <= FL_ROW_LIMIT && (rows >= 32 || n <= 8192);
}

/* May the group sum columns beside the values of each point that it stores? Only on a GPU, where
** that saves a launch and the sum's loads. Not if tiles of columns would be mostly empty, or if the
** group reads or computes so much that going through it in tiles costs more. */
static int column_program(const fl_planner *P, const fl_group *G, uint32_t red) {
  const int last = G->nd - 1;
  int reads = 0;
  if (!P->p->device || last < 1 || G->size[last] < FL_COLUMNS_LEAST ||
      row_length(G, red) < FL_COLUMN_LEAST || G->instr.n > FL_COLUMN_JOIN) return 0;
  for (int64_t i = 0; i < G->access.n; i++) {
    const fl_access *a = &G->access.at[i];
    reads += !a->store && !a->iota && a->map.stride[last];
  }
  return reads <= FL_COLUMN_READS;
}

int fl_place_takes(const fl_planner *P, const fl_group *G, int level) {
  if (!level || G->kind == FL_K_MAP) return 1;
  return G->kind == FL_K_ROW ? row_program(G, G->red)
                             : G->full && column_program(P, G, G->red);
}

/* Lets an elementwise cell join group g. Returns an instruction id, or a refusal (FL_EMIT_*). */
static int join_map(fl_planner *P, int32_t g, int32_t t) {
  fl_group *G = fl_plan_group(P, g);
  fl_map m;
  int level;
  if (!fl_plan_natural(G, P->cell.at[t].shape, &m, &level) || !fl_place_takes(P, G, level))
    return FL_EMIT_REJECT;
  int v = fl_plan_find(G, t, &m);           /* t may be computed here already, for a reader */
  if (v >= 0) G->shared++;
  else v = fl_plan_emit_cell(P, g, t, &m, 0);
  if (v < 0) return v;
  const int err = fl_place_store(P, g, t, P->cell.at[t].dtype, v, &m);
  if (err) return err;
  if (level) fl_plan_group(P, g)->full = 1;
  return v;
}

/* The reduced dims of a reduction in its own space; the innermost dim of size above 1 determines
** the kind. */
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

uint32_t fl_place_reduced_here(const fl_group *G, const fl_node *n, const fl_layout *in) {
  uint32_t red = 0;
  int a = 0;
  for (int d = 0; d < G->nd;) {
    int64_t here = G->size[d], there = 1;
    uint32_t dims = 1u << d++;
    int flags = 0;
    while (here != there) {
      if (there > here && d == G->nd) return 0;
      if (there > here) { dims |= 1u << d; here *= G->size[d++]; continue; }
      if (a == in->rank) return 0;
      if (in->size[a] != 1) flags |= n->axes >> a & 1 ? 1 : 2;
      there *= in->size[a++];
    }
    if (flags == 3) return 0;
    if (flags == 1) red |= dims;
  }
  while (a < in->rank && in->size[a] == 1) a++;
  return a == in->rank ? red : 0;
}

fl_map fl_place_results_of(const fl_group *G, uint32_t red) {
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

int fl_place_pull_row(fl_planner *P, int32_t g, const fl_node *n, const fl_map *m) {
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
  int kind, level = 1;
  uint32_t red = reduced_dims(n, q->shape, &kind);
  const uint32_t had = G->red;
  const int had_kind = G->kind, columns = kind == FL_K_COL && G->full;
  if (columns) red = fl_place_reduced_here(G, n, q->shape);
  if (G->kind == FL_K_MAP) {
    if (G->full && !(red && (kind == FL_K_ROW ? row_program(G, red) : column_program(P, G, red))))
      return FL_EMIT_REJECT;
    G->red = red;
    G->kind = (uint8_t)kind;
  } else if (G->red != red || !red || G->kind != kind || (kind == FL_K_COL && G->partial > 0))
    return FL_EMIT_REJECT;
  fl_map m = fl_place_results_of(G, 0);                                    /* of each point */
  int v = (columns || fl_plan_natural(G, q->shape, &m, &level)) && level
          ? fl_place_pull_row(P, g, n, &m) : FL_EMIT_REJECT;
  G = fl_plan_group(P, g);
  const int single = G->kind == FL_K_COL || row_length(G, red) > FL_ROW_LIMIT;
  if (v >= 0 && single && G->instr.at[v].pass > 0) v = FL_EMIT_REJECT;
  if (v >= 0 && columns && !column_program(P, G, red)) v = FL_EMIT_REJECT;
  if (v >= 0) {
    const fl_map out = fl_place_results_of(G, red);
    v = fl_plan_add(P, g, (fl_instr){ .code = FL_I_REDUCE, .dtype = n->dtype, .from = q->dtype,
                                      .op = n->op, .a = (uint16_t)v }, t, &out);
    const int err = v < 0 ? v : fl_place_store(P, g, t, n->dtype, v, &out);
    if (err < 0) v = err;
  }
  if (v < 0) {
    G = fl_plan_group(P, g);
    G->red = had;
    G->kind = (uint8_t)had_kind;
  }
  return v;
}

static int join(fl_planner *P, int32_t g, int32_t t, int piece) {
  const fl_node *n = P->cell.at[t].node;
  if (piece >= 0) return fl_piece_join(P, g, t, piece);
  return n && fl_ops[n->op].fuse == FL_FUSE_R ? join_reduce(P, g, t) : join_map(P, g, t);
}

/* Records that cell t, or its piece 'piece' (-1: the cell), is placed in group g, which moves to
** 'stage'. */
static void settle(fl_planner *P, int32_t g, int32_t t, int piece, int32_t stage) {
  if (piece < 0) P->cell.at[t].group = g;
  else P->piece.at[P->cell.at[t].pieces + piece] = g;
  fl_place_commit(P, g, stage);
}

/* Would the cell make the group too large? Rows and columns are traversed once per round of
** reductions, with many values in registers. A cell is better placed in another kernel if it adds
** much work to a long program, or more arrays than it shares (unless it is a reduction, which is
** what rows and columns are traversed for). */
int fl_place_crowds(const fl_group *G, const fl_place_was *was, int reduces) {
  int fresh = 0;
  if (G->instr.n > FL_JOIN_LIMIT) return 1;
  if (G->kind == FL_K_MAP || was->kind == FL_K_MAP) return 0;
  if (G->instr.n > FL_ROW_JOIN_LIMIT && G->instr.n - was->instr > FL_ROW_JOIN_MOST) return 1;
  for (int64_t i = was->access; !reduces && i < G->access.n; i++) fresh += !G->access.at[i].store;
  return fresh > FL_FRESH_ARRAYS && fresh > G->shared;
}

/* Do other cells wait for G, a small reduction of everything (without kept dims), and would a move
** to 'stage' delay it? */
static int delays(const fl_planner *P, const fl_group *G, int32_t stage) {
  if (stage <= G->stage || G->kind != FL_K_ROW || G->red + 1 != 1u << G->nd ||
      row_length(G, G->red) > FL_AWAIT_LIMIT) return 0;
  for (int64_t i = 0; i < G->access.n; i++) {
    const fl_access *a = &G->access.at[i];
    if (a->store && a->ref >= 0 && P->cell.at[a->ref].awaited) return 1;
  }
  return 0;
}

int fl_place_try(fl_planner *P, int32_t g, int32_t t, int piece, int n) {
  fl_group *G = fl_plan_group(P, g);
  if (G->closed || G->kind > FL_K_COL) return 0;
  const fl_place_was was = fl_place_mark(P, G);
  const fl_node *q = P->cell.at[t].node;
  const int reduces = q && fl_ops[q->op].fuse == FL_FUSE_R;
  int v = 0;
  G->need = 0;
  G->shared = 0;
  for (int i = 0; v >= 0 && i < n; i++) v = join(P, g, t, piece < 0 ? piece : piece + i);
  G = fl_plan_group(P, g);
  const int32_t stage = G->need + 1 > G->stage ? G->need + 1 : G->stage;
  if (v >= 0 && G->shared > 0 && !fl_place_crowds(G, &was, reduces) && !delays(P, G, stage) &&
      fl_place_across_fits(G) && (stage < G->limit || fl_raise(P, g, stage))) {
    for (int i = 0; i < n; i++) settle(P, g, t, piece < 0 ? piece : piece + i, stage);
    return 1;
  }
  fl_place_cut(P, G, &was);
  if (v <= FL_EMIT_ANCHOR) P->asked = FL_EMIT_ANCHOR - v;
  return 0;
}

/* Adds to the list 'out' the groups that compute cell q, or its pieces, if they are not in the list
** yet. Returns its new length. */
static int add_writers(const fl_planner *P, fl_ref q, int32_t *out, int n, int most) {
  for (int i = 0, of = fl_plan_writers(P, q); i < of && n < most; i++) {
    const int32_t g = fl_plan_writer(P, q, i);
    int k = 0;
    while (k < n && out[k] != g) k++;
    if (k == n && g >= 0) out[n++] = g;
  }
  return n;
}

int fl_plan_dep_groups(fl_planner *P, int32_t t, int32_t *out, int most) {
  int32_t stack[64];
  int n = 0, sp = 0, seen = 0;
  stack[sp++] = t;
  while (sp && seen++ < 96) {
    const fl_node *x = P->cell.at[stack[--sp]].node;
    for (int i = 0; x && i < x->nin; i++) {
      const int32_t r = x->in[i] ? fl_plan_source(P, x->in[i]) : -1;
      if (r < 0) continue;
      if (P->cell.at[r].anchored) n = add_writers(P, r, out, n, most);
      else if (sp < 64) stack[sp++] = r;
    }
  }
  return n;
}

void fl_place_drop(fl_planner *P, const fl_place_was *was) {
  fl_group *G = fl_plan_group(P, (int32_t)P->group.n - 1);
  fl_place_cut(P, G, was);
  FL_DROP(P->mem, &G->instr);
  FL_DROP(P->mem, &G->value);
  FL_DROP(P->mem, &G->access);
  FL_DROP(P->mem, &G->scalar);
  FL_DROP(P->mem, &G->deps);
  P->group.n--;
}

int fl_place_own(fl_planner *P, int32_t t, int piece, const fl_layout *space, int32_t *first) {
  int64_t size[FL_MAX_AXES];
  const int nd = fl_place_space(space, size);
  const int32_t g = fl_place_group(P, FL_K_MAP, nd, size);
  if (g < 0) return -1;
  const fl_place_was was = fl_place_mark(P, fl_plan_group(P, g));
  const int v = join(P, g, t, piece);
  if (v < 0) {
    fl_place_drop(P, &was);
    if (v <= FL_EMIT_ANCHOR) { *first = FL_EMIT_ANCHOR - v; return 0; }
    if (v == FL_EMIT_MEMORY) return -1;
    *first = -1;
    return 0;
  }
  enter_bin(P, g);
  settle(P, g, t, piece, fl_plan_group(P, g)->need + 1);
  return 1;
}

int fl_place_near(fl_planner *P, int32_t t, int piece, int n, const int32_t *near, int k) {
  for (int i = 0; i < k; i++) if (fl_place_try(P, near[i], t, piece, n)) return 1;
  return 0;
}

int fl_place_beside(fl_planner *P, int32_t t, int piece, int n, const fl_layout *space) {
  int64_t size[FL_MAX_AXES];
  const int nd = fl_place_space(space, size);
  int tries = FL_CANDIDATES;
  for (int32_t g = *fl_place_bin(P, nd, size); g >= 0 && tries; g = fl_plan_group(P, g)->sibling) {
    const fl_group *G = fl_plan_group(P, g);
    if (G->nd != nd || memcmp(G->size, size, sizeof(int64_t) * (size_t)nd)) continue;
    tries--;
    if (fl_place_try(P, g, t, piece, n)) return 1;
  }
  return 0;
}

/* ---- all cells ------------------------------------------------------------------------- */

/* Is it worth placing q, the cell that a refusal requested, before t is tried again? It is if q is
** no larger than t and has no group yet. */
static int helps(const fl_planner *P, int32_t q, int32_t t) {
  return q >= 0 && q != t && P->cell.at[q].group < 0 &&
         P->cell.at[q].shape->numel <= P->cell.at[t].shape->numel;
}

static int place_expression(fl_planner *P, int32_t t, int32_t *first) {
  const fl_node *n = P->cell.at[t].node;
  const fl_layout *space = fl_ops[n->op].fuse == FL_FUSE_R ? n->in[0]->shape : n->shape;
  int32_t near[6];
  P->asked = -1;
  const int across = fl_place_across(P, t);
  if (across) return across;
  if (fl_place_near(P, t, -1, 1, near, fl_plan_dep_groups(P, t, near, 6))) return 1;
  if (P->cell.at[t].hoist == FL_HOIST_ASKED) {
    if (helps(P, P->asked, t)) { *first = P->asked; return 0; }
    /* t is not worth a separate pass: each group that needs it recomputes it after all */
    P->cell.at[t].hoist = P->cell.at[t].anchored = 0;
    return 1;
  }
  return fl_place_beside(P, t, -1, 1, space) ? 1 : fl_place_own(P, t, -1, space, first);
}

static int place_one(fl_planner *P, int32_t t, int32_t *first) {
  const fl_node *n = P->cell.at[t].node;
  switch (n->op) {
    case FL_OP_matmul: return fl_place_matmul(P, t, first);
    case FL_OP_call: return fl_place_call(P, t, first);
    case FL_OP_cat: case FL_OP_form: return fl_place_pieces(P, t, first);
    case FL_OP_setslice: return fl_place_setslice(P, t, first);
    case FL_OP_scatter: return fl_place_scatter(P, t, first);
    default: return place_expression(P, t, first);
  }
}

/* Places t. Cells that turn out to need their own groups before it are placed first. */
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
  return !P->failed;
}
