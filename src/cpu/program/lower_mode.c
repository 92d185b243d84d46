/*
** How a kernel is divided into work: the mode (program.h), tiles, units and groups, from sizes,
** strides and the kinds of values; and how each operand is traversed. Units, and the blocks and
** groups of COL, depend on the number of workers too; no value depends on it.
*/
#include "cpu/program/lower.h"
#include "base/num.h"
#include <string.h>

/* A row is kept whole in registers (mode WHOLE) if it is short, or if that saves a second pass over
** it and the registers fit a second-level cache. */
enum { WHOLE_ROW = 4096, WHOLE_ONCE = 2048, WHOLE_WORK = 16384 * 48, SHORT_ROW = 256,
       LIGHT_TILE = 4 * FL_VM_BLOCK, PLAIN_TILE = 16 * FL_VM_BLOCK, LIGHT_MAP = 3,
       COL_BLOCK = 1024, NARROW_BLOCK = 64, NARROW_POINTS = 8192, WIDE_BLOCK = 8192, EIGHT = 8,
       LINE_UNIT = 65536, ROW_GROUP = 64 * FL_VM_BLOCK, COL_GROUP = 4 * FL_VM_CHUNK,
       UNIT_POINTS = 16384, DEAR_POINTS = 4096, STREAM_POINTS = 262144, BOX = 64, JUMP = 8 };

/* ---- modes --------------------- */


static int full_work(const fl_kernel *k, const uint8_t *kind) {
  int work = 0;
  for (int i = 0; i < k->ninstr; i++)
    work += kind[i] == FL_KIND_FULL && k->instr[i].code != FL_I_LOAD;
  return work;
}

/* Does the kernel do little more than reduce what it reads? Then a tile has several rows or blocks,
** so that their sums do not wait for each other. */
static int is_light(const fl_prog *g, const fl_kernel *k, const uint8_t *kind, int trips) {
  return trips == 1 && g->rounds == 1 && full_work(k, kind) <= 1;
}

/* Are rows looked up and stored unchanged? */
static int is_lookup(const fl_kernel *k, const uint8_t *kind) {
  int other = 0;
  for (int i = 0; i < k->ninstr; i++)
    other += kind[i] == FL_KIND_FULL && k->instr[i].code != FL_I_GATHER;
  return !other;
}

/* Is everything that is read stored in the format of registers? */
static int reads_as_is(const fl_prog *g, const fl_kernel *k) {
  int other = 0;
  for (int i = 0; i < k->ninstr; i++)
    other += k->instr[i].code == FL_I_LOAD && g->vm->round[k->instr[i].dtype] != NULL;
  return !other;
}

/* Is x a product that the sum of a light kernel includes (fuse.c)? */
static int is_taken(const uint8_t *kind, const fl_instr *x) {
  if (x->code != FL_I_OP || fl_dtype_reg(x->dtype) > FL_REG_F32) return 0;
  return x->op == FL_OP_square ||
         (x->op == FL_OP_mul && kind[x->a] == FL_KIND_FULL && kind[x->b] == FL_KIND_FULL);
}

/* Is all that is read stored in the format of registers, and nothing computed at each point but
** products that sums include (is_taken)? Then a tile needs no buffers. */
static int is_plain(const fl_prog *g, const fl_kernel *k, const uint8_t *kind) {
  int taken = 0, sums = 1;
  for (int i = 0; i < k->ninstr; i++) {
    const fl_instr *x = &k->instr[i];
    taken += kind[i] == FL_KIND_FULL && is_taken(kind, x);
    sums &= x->code != FL_I_REDUCE || x->op == FL_OP_sum;
  }
  return reads_as_is(g, k) && full_work(k, kind) == (sums ? taken : 0);
}

static int has_line(const fl_kernel *k, const uint8_t *kind) {
  for (int i = 0; i < k->ninstr; i++)
    if (kind[i] == FL_KIND_LINE && k->instr[i].code != FL_I_LOAD) return 1;
  return 0;
}

/* Is x a function that takes ten times as long as a sum? */
static int is_dear(const fl_instr *x) {
  if (x->code != FL_I_OP) return 0;
  switch (x->op) {
    case FL_OP_sqrt: case FL_OP_rsqrt: case FL_OP_reciprocal: case FL_OP_frac: return 0;
    case FL_OP_pow: case FL_OP_atan2: return 1;
    default: return fl_ops[x->op].form == FL_FORM_UNARY && fl_ops[x->op].kind == FL_KIND_FLOAT;
  }
}

/* With expensive work a few thousand points are worth another worker. */
static int64_t work_points(const fl_prog *g, const fl_kernel *k, int64_t points) {
  return g->dear && k->points <= UNIT_POINTS ? DEAR_POINTS : points;
}

/* Points of a unit. Hardware prefetching starts again at each unit, so with light work units are
** larger: 16 per worker, but not more than STREAM_POINTS each. */
static int64_t unit_points(const fl_kernel *k, int workers, int light) {
  return light ? fl_max(fl_min(k->points / (16 * workers), STREAM_POINTS), UNIT_POINTS)
               : UNIT_POINTS;
}

/* Chooses mode, tiles and units of a ROW kernel. trips: number of rounds of reductions, plus one if
** values at each point are stored. */
static void choose_rows(fl_prog *g, const fl_kernel *k, const uint8_t *kind, int workers,
                        int trips) {
  const int line = has_line(k, kind), whole = trips > 1 || line;
  const int light = is_light(g, k, kind, trips), plain = light && is_plain(g, k, kind);
  const int64_t tile = plain ? PLAIN_TILE : LIGHT_TILE,
                points = work_points(g, k, unit_points(k, workers, light));
  if (k->n <= (whole ? WHOLE_ROW : light ? tile / 2 : WHOLE_ONCE) ||
      (whole && k->n <= ROW_GROUP && k->n * k->ninstr <= WHOLE_WORK)) {
    g->mode = FL_MODE_WHOLE;
    g->batch = k->n > SHORT_ROW
               ? 1 : (k->n >= FL_UNI_ROW ? LIGHT_TILE : FL_VM_BLOCK) / (k->n ? k->n : 1);
    if (k->n && light && k->n <= tile) g->batch = tile / k->n;
    else if (k->n && k->n <= WHOLE_ONCE && !line && is_lookup(k, kind))
      g->batch = LIGHT_TILE / k->n;
    if (g->batch > k->rows) g->batch = k->rows ? k->rows : 1;
    g->full = g->batch * k->n;
    g->row = g->batch;
    g->unit = (line && points < LINE_UNIT && !g->dear ? LINE_UNIT : points) /
              (g->full ? g->full : points) * g->batch;
    if (g->unit < g->batch) g->unit = g->batch;
    g->units = fl_ceil_div(k->rows, g->unit);
    return;
  }
  g->mode = FL_MODE_LONG;
  g->full = light ? tile : FL_VM_BLOCK;
  g->row = 1;
  g->blocks = k->rows;
  g->unit = fl_max(points / k->n, 1);
  g->few = fl_max(points / ROW_GROUP, 1);
  g->group = ROW_GROUP;
  g->slots = 10;
}

/* Columns of a block. For plain rows (is_plain) as many as WIDE_BLOCK, as they are contiguous, if
** each worker has work then. For other rows at most COL_BLOCK, and fewer if there are few rows, but
** not fewer than are worth another worker. */
static int64_t col_width(const fl_prog *g, const fl_kernel *k, int64_t columns, int workers,
                         int plain) {
  const int64_t parts_of_block = fl_ceil_div(k->n, FL_VM_CHUNK) * (columns ? k->rows / columns : 1);
  int64_t width = plain ? WIDE_BLOCK : COL_BLOCK;
  while (plain && width > COL_BLOCK &&
         (width >= 2 * columns || fl_ceil_div(columns, width) * parts_of_block < 4 * workers))
    width /= 2;
  while (!plain && width > NARROW_BLOCK && width * k->n >= 2 * work_points(g, k, NARROW_POINTS) &&
         (width >= 2 * columns || fl_ceil_div(columns, width) * parts_of_block < workers))
    width /= 2;
  return width;
}

static void choose_cols(fl_prog *g, const fl_kernel *k, const uint8_t *kind, int workers,
                        int trips) {
  const int light = is_light(g, k, kind, trips), plain = light && is_plain(g, k, kind);
  const int tile = plain ? PLAIN_TILE : light ? LIGHT_TILE : FL_VM_BLOCK;
  g->columns = k->nkept ? k->size[k->nkept - 1] : 1;
  const int64_t block = k->n * g->columns;
  if (k->rows && k->n <= FL_VM_CHUNK && g->columns <= FL_VM_BLOCK && block <= FL_VM_BLOCK) {
    g->mode = FL_MODE_WHOLE;
    g->batch = fl_min(tile / fl_max(block, g->columns), k->rows / g->columns);
    g->full = g->batch * block;
    g->row = g->batch * g->columns;
    g->unit = fl_max(work_points(g, k, UNIT_POINTS) / fl_max(g->full, 1), 1) * g->batch;
    g->units = fl_ceil_div(k->rows / g->columns, g->unit);
    return;
  }
  g->mode = FL_MODE_COL;
  g->width = fl_min(g->columns, col_width(g, k, g->columns, workers, plain));
  if (g->width < 1) g->width = 1;
  g->col_blocks = fl_ceil_div(g->columns, g->width);
  const int rows = plain ? EIGHT : 1;
  g->batch = g->col_blocks > 1 ? 1 : fl_max(fl_min(tile / g->width, FL_VM_CHUNK), rows);
  g->full = g->batch * g->width;
  g->row = g->width;
  g->unit = g->few = 1;
  g->blocks = g->columns ? k->rows / g->columns * g->col_blocks : 0;
  g->group = COL_GROUP;
  if (workers > 1 && g->blocks * fl_ceil_div(k->n, COL_GROUP) < 4 * workers &&
      k->points >= 4 * UNIT_POINTS)
    g->group = FL_VM_CHUNK;
  g->slots = 6;
}

/* A dim along which some operand has unit stride while its stride along dim 'last' is long; -1:
** none. */
int fl_jumping_dim(const fl_kernel *k, int last) {
  for (int i = 0; i < k->noperand; i++) {
    const int64_t *s = k->operand[i].stride;
    if (s[last] < JUMP && s[last] > -JUMP) continue;
    for (int d = 0; d < last; d++)
      if ((s[d] == 1 || s[d] == -1) && k->size[d] >= JUMP) return d;
  }
  return -1;
}

static void choose_map(fl_prog *g, const fl_kernel *k, const uint8_t *kind) {
  int last = k->nkept - 1;
  while (last > 0 && k->size[last] == 1) last--;
  const int worth = last > 0 && k->size[last] >= JUMP && k->points >= 4 * FL_VM_BLOCK;
  const int d = worth ? fl_jumping_dim(k, last) : -1;
  const int light = full_work(k, kind) <= LIGHT_MAP && (d < 0 || reads_as_is(g, k));
  g->mode = FL_MODE_MAP;
  g->full = fl_min(k->points, light ? LIGHT_TILE : FL_VM_BLOCK);
  if (d < 0 && full_work(k, kind) <= 1 && reads_as_is(g, k))
    g->full = fl_min(k->points, PLAIN_TILE);
  g->unit = work_points(g, k, UNIT_POINTS);
  g->units = fl_ceil_div(k->points, g->unit);
  if (d < 0) return;
  g->box_dim = d;
  g->box_last = last;
  g->batch = fl_min(light ? BOX : BOX / 2, k->size[d]);
  g->width = fl_min(g->full / g->batch, k->size[last]);
  g->boxes = k->points / (k->size[d] * k->size[last]) *
             fl_ceil_div(k->size[d], g->batch * FL_BOX_TILES) *
             fl_ceil_div(k->size[last], g->width * FL_BOX_TILES);
  g->units = g->boxes;
}

void fl_prog_choose_mode(fl_prog *g, const uint8_t *kind, int workers) {
  const fl_kernel *k = g->k;
  int full = 0;
  for (int s = 0; s < k->nstore; s++) full |= (kind[k->store[s].value] & FL_KIND_LINE) != 0;
  g->width = g->batch = g->row = g->columns = 1;
  for (int i = 0; i < k->ninstr; i++)
    g->dear += kind[i] == FL_KIND_FULL && is_dear(&k->instr[i]) && g->dear < 8;
  if (k->kind == FL_K_MAP) {
    choose_map(g, k, kind);
    return;
  }
  if (k->kind == FL_K_ROW) choose_rows(g, k, kind, workers, g->rounds + full);
  else choose_cols(g, k, kind, workers, g->rounds + full);
  if (g->mode == FL_MODE_WHOLE) return;
  g->groups = k->n ? fl_ceil_div(k->n, g->group) : 1;
  g->units = fl_ceil_div(g->blocks, g->unit);
}

/* ---- walks --------------------- */

/* Makes a walk over the dims of 'order'; dims of size 1 are left out, and others are merged where
** the operand's strides allow it. */
static void make_walk(fl_walk *w, int n, const int *order, const int64_t *size,
                      const int64_t *stride) {
  memset(w, 0, sizeof *w);
  for (int i = 0; i < n; i++) {
    const int64_t s = size[order[i]], t = stride[order[i]];
    if (s == 1) continue;
    const int last = w->rank - 1;
    if (last >= 0 && w->stride[last] == t * s) {
      w->size[last] *= s;
      w->stride[last] = t;
    } else {
      w->size[w->rank] = s;
      w->stride[w->rank++] = t;
    }
  }
  if (w->rank == 0) {
    w->rank = 1;
    w->size[0] = 1;
    w->stride[0] = 1;
  }
  w->linear = w->rank == 1 && w->stride[0] == 1;
}

void fl_prog_access(fl_prog *g, int i) {
  const fl_kernel *k = g->k;
  const fl_operand *o = &k->operand[i];
  fl_access_info *a = &g->access[i];
  int order[FL_MAX_AXES], n = 0;
  const int outer = k->kind == FL_K_COL && k->nkept ? k->nkept - 1 : k->nkept;
  for (int d = 0; d < outer; d++) order[n++] = d;
  for (int d = 0; d < k->nred; d++) order[n++] = k->nkept + d;
  if (outer < k->nkept) order[n++] = outer;
  make_walk(&a->w1, n, order, k->size, o->stride);
  for (int d = 0; d < k->nkept; d++) order[d] = d;
  make_walk(&a->w0, k->nkept, order, k->size, o->stride);
  for (int d = 0; d < k->nred; d++) order[d] = k->nkept + d;
  make_walk(&a->w2, k->nred, order, k->size, o->stride);
  a->low = a->high = 0;
  for (int d = 0; d < k->nkept + k->nred; d++) {
    const int64_t reach = o->stride[d] * (k->size[d] - 1);
    if (k->size[d] > 1) *(reach < 0 ? &a->low : &a->high) += reach;
  }
}
