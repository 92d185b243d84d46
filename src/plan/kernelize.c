/*
** Groups to kernels: removes dead instructions, assigns levels (kernel.h: per row or per point),
** puts kept dims before reduced ones, collapses dims jointly for all operands; and makes the
** library steps.
*/
#include "plan/planner.h"
#include <string.h>

fl_place fl_plan_place_of(const fl_planner *P, fl_ref ref) {
  if (ref < 0) return (fl_place){ .where = FL_AT_EXT, .index = ~ref };
  return P->cell.at[ref].place;
}

int fl_instr_inputs(const fl_instr *x, uint16_t v[3]) {
  switch (x->code) {
    case FL_I_OP: v[0] = x->a; v[1] = x->b; v[2] = x->c; return fl_ops[x->op].nin;
    case FL_I_INDEX: case FL_I_RANDOM: v[0] = x->a; v[1] = x->b; v[2] = x->c; return 3;
    case FL_I_CAST: case FL_I_GATHER: case FL_I_REDUCE: v[0] = x->a; return 1;
    default: return 0;
  }
}

int fl_instr_accesses(const fl_instr *x) {
  return x->code == FL_I_LOAD || x->code == FL_I_IOTA || x->code == FL_I_GATHER;
}

static int is_kept_store(const fl_planner *P, const fl_access *a) {
  return a->store && a->ref >= 0 && (P->cell.at[a->ref].stored || P->cell.at[a->ref].live);
}

static void mark_used(const fl_planner *P, const fl_group *G, uint8_t *used) {
  for (int64_t i = 0; i < G->access.n; i++)
    if (is_kept_store(P, &G->access.at[i])) used[G->access.at[i].value] = 1;
  for (int64_t i = G->instr.n - 1; i >= 0; i--) {
    uint16_t v[3];
    if (!used[i]) continue;
    for (int k = fl_instr_inputs(&G->instr.at[i], v) - 1; k >= 0; k--) used[v[k]] = 1;
  }
}

int fl_plan_moves_in_row(const fl_group *G, const fl_map *m) {
  for (int d = 0; d < G->nd; d++) if ((G->red >> d & 1) && m->stride[d]) return 1;
  return 0;
}

void fl_plan_levels(const fl_group *G, uint8_t *level) {
  for (int64_t i = 0; i < G->instr.n; i++) {
    const fl_instr *x = &G->instr.at[i];
    uint16_t v[3];
    level[i] = G->kind == FL_K_MAP ||
               (fl_instr_accesses(x) && fl_plan_moves_in_row(G, &G->access.at[x->arg].map));
    for (int k = fl_instr_inputs(x, v) - 1; k >= 0; k--) if (level[v[k]]) level[i] = 1;
    if (x->code == FL_I_REDUCE) level[i] = 0;
  }
}

typedef struct { fl_instr *at; int n; } list;

static uint16_t lift(list *out, uint16_t v) {       /* copies a level-0 value, one per row, to each
                                                    ** point of the row */
  const fl_instr from = out->at[v];
  if (from.level) return v;
  out->at[out->n] = (fl_instr){ .code = FL_I_CAST, .dtype = from.dtype, .from = from.dtype,
                                .level = 1, .pass = from.pass, .a = v };
  return (uint16_t)out->n++;
}

/* Copies the used instructions, renumbered, with levels. remap: old id -> new id. */
static void renumber(const fl_group *G, const uint8_t *used, list *out, uint16_t *remap) {
  uint8_t level[FL_MAX_INSTR];
  fl_plan_levels(G, level);
  for (int64_t i = 0; i < G->instr.n; i++) {
    if (!used[i]) continue;
    fl_instr x = G->instr.at[i];
    x.a = remap[x.a]; x.b = remap[x.b]; x.c = remap[x.c];
    if (x.code == FL_I_REDUCE) x.a = lift(out, x.a);
    x.level = level[i];
    remap[i] = (uint16_t)out->n;
    out->at[out->n++] = x;
  }
}

/* Dims in kernel order: kept, then reduced (at least one reduced dim if there is a reduction). */
static void space_of_group(const fl_group *G, fl_kernel *k, int order[FL_MAX_AXES]) {
  int n = 0;
  for (int d = 0; d < G->nd; d++) if (!(G->red >> d & 1)) order[n++] = d;
  k->nkept = (uint8_t)n;
  for (int d = 0; d < G->nd; d++) if (G->red >> d & 1) order[n++] = d;
  k->nred = (uint8_t)(n - k->nkept);
  for (int d = 0; d < n; d++) k->size[d] = G->size[order[d]];
  if (G->kind != FL_K_MAP && k->nred == 0) {
    order[n] = -1;
    k->size[n] = 1;
    k->nred = 1;
  }
}

static void set_operand(const fl_planner *P, const fl_access *a, const int *order, int nd,
                        fl_operand *o) {
  memset(o, 0, sizeof *o);
  o->dtype = a->dtype;
  o->offset = a->map.offset;
  o->gstride = a->gstride;
  for (int d = 0; d < nd; d++) o->stride[d] = order[d] < 0 ? 0 : a->map.stride[order[d]];
  if (a->iota) return;
  o->place = fl_plan_place_of(P, a->ref);
  o->reads = !a->store;
  o->writes = a->store;
}

static int collapsible(const fl_kernel *k, int d) {
  if (d + 1 == k->nkept) return 0;
  for (int i = 0; i < k->noperand; i++)
    if (k->operand[i].stride[d] != k->operand[i].stride[d + 1] * k->size[d + 1]) return 0;
  return 1;
}

static void collapse(fl_kernel *k) {
  for (int d = k->nkept + k->nred - 2; d >= 0; d--) {
    if (!collapsible(k, d)) continue;
    const int n = k->nkept + k->nred;
    k->size[d + 1] *= k->size[d];
    for (int e = d; e + 1 < n; e++) {
      k->size[e] = k->size[e + 1];
      for (int i = 0; i < k->noperand; i++) k->operand[i].stride[e] = k->operand[i].stride[e + 1];
    }
    for (int i = 0; i < k->noperand; i++) k->operand[i].stride[n - 1] = 0;
    k->size[n - 1] = 0;
    if (d < k->nkept) k->nkept--; else k->nred--;
  }
}

/* Do the first element and the start of each row (in a COL: of each run of columns) have an address
** that is a multiple of 16? A step of 1 may also be that from row to row (overlapping windows). */
static int is_aligned(const fl_planner *P, const fl_kernel *k, const fl_operand *o) {
  const int size = fl_dtype_size(o->dtype);
  if (o->place.where == FL_AT_EXT) {
    const fl_node *n = P->p->ext.at[o->place.index];
    const int64_t first = n->offset * fl_dtype_size(n->dtype);
    if (((uintptr_t)n->buffer->ptr + (uintptr_t)first) % 16) return 0;
  }
  if (o->offset * size % 16) return 0;
  const int nd = k->nkept + k->nred, along = k->kind == FL_K_COL ? k->nkept - 1 : nd - 1;
  for (int d = 0; d < nd; d++)
    if ((d != along || o->stride[d] != 1) && o->stride[d] * size % 16) return 0;
  return 1;
}

static int64_t operand_bytes(const fl_kernel *k, const fl_operand *o) {
  int64_t n = 1;
  for (int d = 0; d < k->nkept + k->nred; d++) if (o->stride[d]) n *= k->size[d];
  return n * fl_dtype_size(o->dtype);
}

/* The number of elements that the gathers of operand o read: one at each point, or one per row. */
static int64_t gathered(const fl_kernel *k, int o) {
  for (int v = 0; v < k->ninstr; v++)
    if (k->instr[v].code == FL_I_GATHER && k->instr[v].arg == o && k->instr[v].level != 0)
      return k->points;
  return k->kind == FL_K_MAP ? k->points : k->rows;
}

void fl_kernel_measure(const fl_planner *P, fl_kernel *k) {
  k->rows = k->n = 1;
  k->bytes = k->passes = 0;
  for (int d = 0; d < k->nkept; d++) k->rows *= k->size[d];
  for (int d = k->nkept; d < k->nkept + k->nred; d++) k->n *= k->size[d];
  k->points = k->rows * k->n;
  for (int i = 0; i < k->noperand; i++) {
    fl_operand *o = &k->operand[i];
    if (!o->reads && !o->writes) continue;
    o->aligned16 = (uint8_t)is_aligned(P, k, o);
    k->bytes += o->gstride ? gathered(k, i) * fl_dtype_size(o->dtype) : operand_bytes(k, o);
  }
  for (int s = 0; s < k->nstore; s++)
    if (k->store[s].across)              /* the operand's strides are those of one partial result */
      k->bytes += (fl_row_partials(k->rows, k->n) - 1) *
                  operand_bytes(k, &k->operand[k->store[s].operand]);
  for (int i = 0; i < k->ninstr; i++)
    if (k->instr[i].pass > k->passes) k->passes = k->instr[i].pass;
}

/* If the kernel writes a home (the buffer of a handle) and reads that buffer, too, marks both
** operands as read and written. */
static void mark_in_place(const fl_planner *P, fl_kernel *k) {
  for (int i = 0; i < k->noperand; i++) {
    fl_operand *w = &k->operand[i];
    if (!w->writes || w->reads || w->place.where != FL_AT_OUT) continue;
    const int32_t home = P->plan->out[w->place.index].home;
    for (int j = 0; home >= 0 && j < k->noperand; j++) {
      fl_operand *r = &k->operand[j];
      if (!r->reads || r->place.where != FL_AT_EXT ||
          P->p->homes.at[home] != P->p->ext.at[r->place.index]->buffer)
        continue;
      r->writes = w->reads = 1;
    }
  }
}

void fl_kernel_free(fl_mem *m, fl_kernel *k) {
  fl_free(m, k->instr, sizeof *k->instr * k->ninstr);
  fl_free(m, k->operand, sizeof *k->operand * k->noperand);
  fl_free(m, k->store, sizeof *k->store * k->nstore);
  fl_free(m, k->scalar, sizeof *k->scalar * k->nscalar);
  k->instr = NULL; k->operand = NULL; k->store = NULL; k->scalar = NULL;
  k->ninstr = k->noperand = k->nstore = k->nscalar = 0;
}

static void *copy_of(fl_mem *m, const void *p, size_t n, int *ok) {
  void *q = fl_alloc(m, n);
  if (!q) *ok = 0;
  else if (n) memcpy(q, p, n);
  return q;
}

/* Makes operands for the accesses that are still used; instructions with equal accesses share an
** operand. Returns how many. */
static int read_operands(const fl_planner *P, const fl_group *G, const uint8_t *used,
                         const uint16_t *remap, const int *order, int nd, fl_instr *instr,
                         fl_operand *operand) {
  int n = 0;
  for (int64_t i = 0; i < G->instr.n; i++) {
    if (!used[i] || !fl_instr_accesses(&G->instr.at[i])) continue;
    const uint16_t arg = G->instr.at[i].arg;
    int seen = -1;
    for (int64_t j = 0; j < i; j++)
      if (used[j] && fl_instr_accesses(&G->instr.at[j]) && G->instr.at[j].arg == arg)
        seen = instr[remap[j]].arg;
    if (seen < 0) set_operand(P, &G->access.at[arg], order, nd, &operand[seen = n++]);
    instr[remap[i]].arg = (uint16_t)seen;
  }
  return n;
}

/* Makes the stores, whose operands follow the *n that are there. Returns how many. */
static int stores_of(const fl_planner *P, const fl_group *G, const uint16_t *remap,
                     const int *order, int nd, list *out, fl_operand *operand, int *n,
                     fl_store *store) {
  int ns = 0;
  for (int64_t i = 0; i < G->access.n; i++) {
    const fl_access *a = &G->access.at[i];
    if (!is_kept_store(P, a)) continue;
    const uint16_t v = remap[a->value];
    const int full = G->kind != FL_K_MAP && fl_plan_moves_in_row(G, &a->map);
    set_operand(P, a, order, nd, &operand[*n]);
    store[ns++] = (fl_store){ full ? lift(out, v) : v, (uint16_t)(*n)++,
                              a->store == FL_STORE_ACROSS };
  }
  return ns;
}

int fl_plan_kernelize(fl_planner *P, int32_t g, fl_kernel *k, int *empty) {
  const fl_group *G = fl_plan_group(P, g);
  uint8_t used[FL_MAX_INSTR] = { 0 };
  uint16_t remap[FL_MAX_INSTR] = { 0 };
  fl_instr instr[FL_MAX_INSTR * 2];
  fl_operand operand[FL_MAX_OPERANDS * 4];
  fl_store store[FL_MAX_OPERANDS * 4];
  list out = { instr, 0 };
  int order[FL_MAX_AXES + 1], ok = 1;
  memset(k, 0, sizeof *k);
  k->kind = G->kind;
  k->partial = (uint8_t)(G->kind == FL_K_COL && G->partial > 0 ? G->partial : 0);
  mark_used(P, G, used);
  renumber(G, used, &out, remap);
  space_of_group(G, k, order);
  const int nd = k->nkept + k->nred;
  int no = read_operands(P, G, used, remap, order, nd, instr, operand);
  const int ns = stores_of(P, G, remap, order, nd, &out, operand, &no, store);
  k->ninstr = (uint16_t)out.n;
  k->noperand = (uint16_t)no;
  k->nstore = (uint16_t)ns;
  k->nscalar = (uint16_t)G->scalar.n;
  k->instr = copy_of(P->mem, instr, sizeof *instr * (size_t)out.n, &ok);
  k->operand = copy_of(P->mem, operand, sizeof *operand * (size_t)no, &ok);
  k->store = copy_of(P->mem, store, sizeof *store * (size_t)ns, &ok);
  k->scalar = copy_of(P->mem, G->scalar.at, sizeof *k->scalar * (size_t)G->scalar.n, &ok);
  if (!ok) { fl_kernel_free(P->mem, k); return 0; }
  mark_in_place(P, k);
  collapse(k);
  fl_kernel_measure(P, k);
  k->key = fl_kernel_key(k);
  *empty = ns == 0 || (k->kind == FL_K_MAP ? k->points == 0 : k->rows == 0);
  return 1;
}

/* ---- library steps ------------------------------------------------------------------------- */

typedef struct {
  fl_place place; int64_t offset, stride[FL_MAX_AXES]; int rank; const int64_t *size;
} seen;

static seen operand_seen(const fl_planner *P, fl_ref ref, const fl_node *q) {
  seen s = { .rank = q->shape->rank, .size = q->shape->size };
  s.place = fl_plan_place_of(P, ref);
  if (ref >= 0 && !P->cell.at[ref].node) {                   /* the planner's copy */
    const fl_cell *t = &P->cell.at[ref];
    fl_row_major(s.rank, t->shape->size, s.stride);
    if (fl_plan_lies_turned(q)) {
      const int64_t inner = s.stride[s.rank - 1];
      s.stride[s.rank - 1] = s.stride[s.rank - 2];
      s.stride[s.rank - 2] = inner;
    }
    return s;
  }
  memcpy(s.stride, q->layout->stride, sizeof s.stride);
  s.offset = q->state == FL_PENDING && q->base ? q->offset : 0;
  return s;
}

/* Folds batch dims with matching steps into their neighbour, and the only batch dim, if B does not
** have it and it continues the rows of A, into m. */
static void fold_batches(fl_matmul *m) {
  for (int d = m->nbatch - 2; d >= 0; d--) {
    const int64_t n = m->batch[d + 1];
    if (m->abatch[d] != m->abatch[d + 1] * n || m->bbatch[d] != m->bbatch[d + 1] * n ||
        m->cbatch[d] != m->cbatch[d + 1] * n)
      continue;
    m->batch[d + 1] *= m->batch[d];
    for (int e = d; e + 1 < m->nbatch; e++) {
      m->batch[e] = m->batch[e + 1];
      m->abatch[e] = m->abatch[e + 1];
      m->bbatch[e] = m->bbatch[e + 1];
      m->cbatch[e] = m->cbatch[e + 1];
    }
    m->nbatch--;
  }
  if (m->nbatch == 1 && m->bbatch[0] == 0 && m->abatch[0] == m->as[0] * m->m && m->as[1] == 1) {
    m->m *= m->batch[0];
    m->nbatch = 0;
  }
}

/* Puts the outermost batch dim first. */
static void reverse_batches(fl_matmul *m) {
  for (int i = 0; i < m->nbatch / 2; i++) {
    const int j = m->nbatch - 1 - i;
#define SWAP(v) do { const int64_t s_ = m->v[i]; m->v[i] = m->v[j]; m->v[j] = s_; } while (0)
    SWAP(batch); SWAP(abatch); SWAP(bbatch); SWAP(cbatch);
#undef SWAP
  }
}

static void add_bias(fl_matmul *m, seen x) {
  m->biased = x.rank > 1 ? FL_BIAS_ALL : FL_BIAS_ROW;
  m->bias = x.place;
  m->bias_off = x.offset;
}

void fl_plan_matmul_step(fl_planner *P, int32_t g, fl_matmul *m) {
  const fl_group *G = fl_plan_group(P, g);
  const fl_node *n = P->cell.at[G->cell].node;
  const seen a = operand_seen(P, G->access.at[0].ref, n->in[0]),
             b = operand_seen(P, G->access.at[1].ref, n->in[1]);
  const int r = n->shape->rank;
  memset(m, 0, sizeof *m);
  m->dtype = n->dtype;
  m->tf32 = n->axes;
  m->m = a.size[a.rank - 2]; m->k = a.size[a.rank - 1]; m->n = b.size[b.rank - 1];
  m->at = a.place; m->aoff = a.offset; m->bt = b.place; m->boff = b.offset;
  m->ct = P->cell.at[G->cell].place;
  if (n->nin > 2) add_bias(m, operand_seen(P, G->access.at[2].ref, n->in[2]));
  m->as[0] = a.stride[a.rank - 2]; m->as[1] = a.stride[a.rank - 1];
  m->bs[0] = b.stride[b.rank - 2]; m->bs[1] = b.stride[b.rank - 1];
  /* the stride of a single row is arbitrary: use the standard one */
  if (m->m == 1) m->as[0] = m->k * (m->as[1] ? m->as[1] : 1);
  if (m->k == 1) {
    m->as[1] = m->as[0] == 1 && m->m > 1 ? m->m : 1;
    m->bs[0] = m->bs[1] == 1 || m->n == 1 ? m->n : 1;
  }
  if (m->n == 1) m->bs[1] = m->bs[0] == 1 ? m->k : 1;
  int64_t step = m->m * m->n;
  for (int d = r - 3; d >= 0; d--) {
    const int ad = d - (r - a.rank), bd = d - (r - b.rank);
    if (n->shape->size[d] == 1) continue;
    const int i = m->nbatch++;
    m->batch[i] = n->shape->size[d];
    m->abatch[i] = ad >= 0 && a.size[ad] != 1 ? a.stride[ad] : 0;
    m->bbatch[i] = bd >= 0 && b.size[bd] != 1 ? b.stride[bd] : 0;
    m->cbatch[i] = step;
    step *= m->batch[i];
  }
  reverse_batches(m);
  fold_batches(m);
}

int fl_plan_scatter_step(fl_planner *P, int32_t g, fl_scatter *s) {
  const fl_group *G = fl_plan_group(P, g);
  const fl_node *n = P->cell.at[G->cell].node, *index = fl_plan_read(P, G->cell, 1);
  const fl_layout *x = n->shape, *sp = n->in[2]->shape, *il = index->layout;
  int64_t row[FL_MAX_AXES], at[FL_MAX_AXES], off;
  const int axis = n->attr->axis, grid = n->attr->flags & 1, k = grid ? 1 : n->attr->naxes;
  memset(s, 0, sizeof *s);
  fl_row_major(x->rank, x->size, row);
  s->dtype = n->dtype;
  s->add = (uint8_t)n->attr->add;
  s->rank = (uint8_t)sp->rank;
  s->extent = x->size[axis];
  s->dst_numel = x->numel;
  s->fault = G->fault;
  s->flags = index != n->in[1] && n->in[1]->attr ? n->in[1]->attr->flags : 0;
  s->limit = (uint32_t)(4 * n->in[1]->slot);
  fl_row_major(il->rank, il->size, at);
  const fl_ref iref = fl_plan_target(P->p, index, &off);
  s->idx = (fl_operand){ .place = fl_plan_place_of(P, iref), .dtype = FLAME_I64, .reads = 1,
                         .offset = off };
  const fl_ref sref = fl_plan_target(P->p, n->in[2], &off);
  s->src = (fl_operand){ .place = fl_plan_place_of(P, sref), .dtype = n->dtype, .reads = 1,
                         .offset = off };
  s->dst = (fl_operand){ .place = P->cell.at[G->cell].place, .dtype = n->dtype, .writes = 1,
                         .gstride = row[axis] };
  for (int a = 0; a < sp->rank; a++) {
    s->size[a] = sp->size[a];
    s->src.stride[a] = n->in[2]->layout->stride[a];
    const int from = grid ? a : a - axis;
    if (from >= 0 && from < il->rank) {
      s->idx.stride[a] = il->stride[from];
      s->position[a] = at[from];
    }
    if (grid) s->dst.stride[a] = a == axis ? 0 : row[a];
    else if (a < axis || a >= axis + k) s->dst.stride[a] = row[a < axis ? a : a - k + 1];
  }
  return 1;
}

int64_t fl_plan_call_step(fl_planner *P, int32_t g, fl_call_step *s) {
  const fl_group *G = fl_plan_group(P, g);
  const fl_node *n = P->cell.at[G->cell].node;
  int64_t moved = n->shape->numel * fl_dtype_size(n->dtype), off;
  s->call = *n->attr->call;
  s->call.scalar = NULL;
  memset(s->call.few, 0, sizeof s->call.few);
  if (s->call.callee) s->call.callee->refs++;
  for (int i = 0; i < n->nin; i++) {
    const int64_t size = fl_dtype_size(n->in[i]->dtype);
    s->in[i] = fl_plan_place_of(P, fl_plan_target(P->p, n->in[i], &off));
    s->in_byte[i] = off * size;
    moved += n->in[i]->shape->numel * size;
  }
  if (s->call.kind == FL_CALL_kernel) moved += fl_call_prepared_kernel(&s->call);
  s->out = P->cell.at[G->cell].place;
  s->fault = G->fault;
  s->scalar = P->cell.at[G->cell].scalar;
  return moved;
}
