/*
** Padded rows. A GPU's library is slow with large products of half floats whose sizes or distances
** of rows are not multiples of 16 bytes, so cuda/library/blas.c multiplies copies that have such
** rows. A matrix in the arena gets them from the start if all steps that access it can do with
** that: its rows have a pitch (fl_cell.pitch: elements from one row to the next) of a multiple of
** FL_PITCH elements, and there is room for a multiple of FL_PITCH rows. What the padding holds
** matters to no one: a product that sums over it clears it first.
**
** Example: logits = x w', x of 4096 x 768 and w of 50257 x 768. The rows of the logits get a pitch
** of 50264, w (rounded from f32 in the same run) has room for 50264 rows of 768. The kernel of the
** cross entropy, whose map over (row, column) was (50257, 1), has the map (50264, 1).
*/
#include "plan/planner.h"
#include "base/num.h"

/* A matrix as a product reads or writes it: 'rows' rows of 'length' elements, which follow each
** other, at a distance of 'step', from 'offset' on in cell 'ref'. */
typedef struct matrix { fl_ref ref; int64_t rows, length, step, offset; } matrix;

/* ---- which matrices ---- */

static int64_t length_of(const fl_cell *t) { return t->shape->size[t->shape->rank - 1]; }

static int64_t rows_of(const fl_cell *t) { return t->shape->numel / length_of(t); }

/* Is the cell an array of rows of half floats that no one but the plan's own steps can see? (A
** product may read the bytes of a cell of another dtype as half floats.) */
static int may_pad(const fl_planner *P, fl_ref ref) {
  if (ref < 0) return 0;
  const fl_cell *t = &P->cell.at[ref];
  return fl_is_float(t->dtype) && fl_dtype_size(t->dtype) == 2 &&
         t->place.where == FL_AT_ARENA && t->home < 0 && t->pieces < 0 && !fl_is_pieced(t) &&
         !fl_is_view(t) && t->shape->rank > 1 && t->shape->numel > 0;
}

/* Is G's product one that the library takes, large enough for padding (blas.c decides by the same
** numbers)? If so, x receives its two operands and its result. */
static int matrices_of(fl_planner *P, int32_t g, matrix x[3]) {
  fl_matmul m;
  const fl_group *G = fl_plan_group(P, g);
  fl_plan_matmul_step(P, g, &m);
  if (!fl_plan_pads(&m) || m.nbatch) return 0;
  const int at = m.as[1] != 1, bt = m.bs[1] != 1;
  x[0] = (matrix){ G->access.at[0].ref, at ? m.k : m.m, at ? m.m : m.k, m.as[at ? 1 : 0], m.aoff };
  x[1] = (matrix){ G->access.at[1].ref, bt ? m.n : m.k, bt ? m.k : m.n, m.bs[bt ? 1 : 0], m.boff };
  x[2] = (matrix){ G->cell, m.m, m.n, m.n, 0 };
  return 1;
}

/* Is the matrix made of whole rows of its cell, and what follows the last one, up to a multiple of
** FL_PITCH rows, no part of the cell? */
static int is_whole(const fl_planner *P, const matrix *x) {
  const fl_cell *t = &P->cell.at[x->ref];
  const int64_t n = length_of(t);
  return x->length == n && x->step == n && x->offset % n == 0 &&
         (x->rows % FL_PITCH == 0 || x->offset / n + x->rows == rows_of(t));
}

static int propose(fl_planner *P, int32_t g) {
  matrix x[3];
  int any = 0;
  if (!matrices_of(P, g, x)) return 0;
  for (int i = 0; i < 3; i++) {
    if (!may_pad(P, x[i].ref) || (x[i].rows % FL_PITCH == 0 && x[i].length % FL_PITCH == 0))
      continue;
    P->cell.at[x[i].ref].pitch = fl_round_up(x[i].length, FL_PITCH);
    any = 1;
  }
  return any;
}

/* The cell, if it is, or may be, padded; else NULL. */
static const fl_cell *padded_cell(const fl_planner *P, fl_ref ref) {
  return ref >= 0 && P->cell.at[ref].pitch ? &P->cell.at[ref] : NULL;
}

/* ---- what stands against it ---- */

/* Widens the range [*lo, *hi] of positions in a row of n elements by those that 'size' steps of
** 'stride' reach, unless the steps lead from row to row. */
static void reach(int64_t size, int64_t stride, int64_t n, int64_t *lo, int64_t *hi) {
  if (size < 2 || stride % n == 0) return;
  *(stride < 0 ? lo : hi) += (size - 1) * stride;
}

/* Does each dim of the access lead along a row or from row to row of n elements? */
static int keeps_rows(const fl_group *G, const fl_access *a, int64_t n) {
  int64_t lo = a->map.offset % n, hi = lo;
  for (int d = 0; d < G->nd; d++) reach(G->size[d], a->map.stride[d], n, &lo, &hi);
  if (a->gstride) reach(a->extent, a->gstride, n, &lo, &hi);
  return lo >= 0 && hi < n;
}

/* Can the access go to the cell with its pitch? Stores of partial results can not. Otherwise, if
** the rows have no gaps, it can. If they have, a MAP can not, since it reads vectors across rows;
** in a ROW or COL each dim must stay in a row or lead from row to row, and the access must have
** elements of the cell's size, which its map counts. */
static int accepts(const fl_group *G, const fl_access *a, const fl_cell *t) {
  const int64_t n = length_of(t);
  if (a->store == FL_STORE_ACROSS) return 0;
  return t->pitch == n || (G->kind != FL_K_MAP && keeps_rows(G, a, n) &&
                           fl_dtype_size(a->dtype) == fl_dtype_size(t->dtype));
}

static void refuse(fl_planner *P, fl_ref ref) {
  if (ref >= 0) P->cell.at[ref].pitch = 0;
}

static void check_kernel(fl_planner *P, const fl_group *G) {
  for (int64_t i = 0; i < G->access.n; i++) {
    const fl_access *a = &G->access.at[i];
    const fl_cell *t = a->iota ? NULL : padded_cell(P, a->ref);
    if (t && !accepts(G, a, t)) refuse(P, a->ref);
  }
}

/* Other steps know only arrays without gaps. */
static void check_step(fl_planner *P, int32_t g) {
  const fl_group *G = fl_plan_group(P, g);
  const fl_node *n = P->cell.at[G->cell].node;
  matrix x[3];
  int64_t offset;
  const int product = G->kind == FL_G_MATMUL && matrices_of(P, g, x);
  for (int i = 0; product && i < 3; i++)
    if (padded_cell(P, x[i].ref) && !is_whole(P, &x[i])) refuse(P, x[i].ref);
  for (int i = product ? 2 : 0; i < n->nin; i++)
    refuse(P, fl_plan_target(P->p, fl_plan_read(P, G->cell, i), &offset));
  for (int64_t i = product ? 2 : 0; i < G->access.n; i++) refuse(P, G->access.at[i].ref);
  if (!product) refuse(P, G->cell);
}

/* ---- maps ---- */

/* The distance, in the padded cell, of two elements that were 'elements' apart without padding. It
** was a number of whole rows, or both elements are in one row. */
static int64_t padded(const fl_cell *t, int64_t elements) {
  const int64_t n = length_of(t);
  return elements / n * t->pitch + elements % n;
}

void fl_plan_pad_matmul(const fl_planner *P, const fl_group *G, fl_matmul *m) {
  const fl_cell *a = padded_cell(P, G->access.at[0].ref),
                *b = padded_cell(P, G->access.at[1].ref), *c = padded_cell(P, G->cell);
  for (int i = 0; a && i < 2; i++) m->as[i] = padded(a, m->as[i]);
  for (int i = 0; b && i < 2; i++) m->bs[i] = padded(b, m->bs[i]);
  if (a) m->aoff = padded(a, m->aoff);
  if (b) m->boff = padded(b, m->boff);
  if (c) m->cpad = c->pitch - m->n;
  m->padded = (uint8_t)((a ? FL_PADDED_A : 0) | (b ? FL_PADDED_B : 0) | (c ? FL_PADDED_C : 0));
}

static void pad_maps(fl_planner *P, fl_group *G) {
  for (int64_t i = 0; i < G->access.n; i++) {
    fl_access *a = &G->access.at[i];
    const fl_cell *t = a->iota ? NULL : padded_cell(P, a->ref);
    if (!t) continue;
    a->map.offset = padded(t, a->map.offset);
    a->gstride = padded(t, a->gstride);
    for (int d = 0; d < G->nd; d++) a->map.stride[d] = padded(t, a->map.stride[d]);
  }
}

void fl_plan_pad_rows(fl_planner *P) {
  const int64_t groups = P->p->device ? P->group.n : 0;
  int any = 0;
  for (int64_t g = 0; g < groups; g++)
    if (P->group.at[g].kind == FL_G_MATMUL) any |= propose(P, (int32_t)g);
  if (!any) return;
  for (int64_t g = 0; g < groups; g++) {
    if (fl_plan_is_kernel(&P->group.at[g])) check_kernel(P, &P->group.at[g]);
    else check_step(P, (int32_t)g);
  }
  for (int64_t g = 0; g < groups; g++)
    if (fl_plan_is_kernel(&P->group.at[g])) pad_maps(P, &P->group.at[g]);
  for (int64_t t = 0; t < P->cell.n; t++) {
    fl_cell *c = &P->cell.at[t];
    if (c->pitch)
      c->bytes = c->pitch * fl_round_up(rows_of(c), FL_PITCH) * fl_dtype_size(c->dtype);
  }
}
