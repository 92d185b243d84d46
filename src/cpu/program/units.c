/*
** Execution of a program's units on one worker (program.h). A worker's scratch holds, in order: the
** register pointers (twice, for line_at), the areas of FULL, ROW and LINE registers, positions of a
** tile's rows, and the states of its counter. Nothing here allocates.
**
** The counter (plan/kernel.h) fixes in which order the results of a row's parts are combined: they
** lie on a stack, which after k results has one for each binary digit 1 of k. A group that one
** worker computes is a power of two of parts, so combining the results of groups in the same way
** gives the same tree.
*/
#include "cpu/program/exec.h"
#include "base/num.h"
#include <string.h>

/* ---- a worker's memory --------------------- */

/* A load waits for a pending store whose address has the same low twelve bits. Tensors begin at the
** start of a page, so registers are placed at another offset within their pages. */
enum { PAGE = 4096, FULL_AT = 3072 };

static int64_t pointer_bytes(const fl_prog *g) {
  return fl_round_up(g->reg.n * (int64_t)sizeof(void *), 64);
}

int64_t fl_prog_worker_bytes(const fl_prog *g) {
  const int64_t slots = g->mode >= FL_MODE_LONG ? g->slots : 1;
  const int64_t state = g->mode >= FL_MODE_LONG ? g->state_bytes : 8 * g->row;
  return 2 * pointer_bytes(g) + PAGE + FULL_AT + fl_round_up(g->full_bytes, 64) + g->row_bytes +
         g->line_bytes + fl_round_up(8 * g->row, 64) + fl_round_up(slots * state + 64, 64);
}

static void point_rows(fl_tile *t, char *row) {
  t->row = row;
  for (int64_t i = 0; i < t->g->reg.n; i++) {
    const fl_vreg *r = &t->g->reg.at[i];
    /* fills stay the worker's */
    if (r->kind == FL_KIND_ROW && !r->lives) t->reg[i] = row + r->off;
  }
}

static void set_up(fl_tile *t, const fl_prog *g, char *scratch, fl_vm_fault *fault) {
  memset(t, 0, sizeof *t);
  t->g = g;
  t->fault = fault;
  t->reg = (void **)(void *)scratch;
  t->line_at = (void **)(void *)(scratch + pointer_bytes(g));
  const uintptr_t behind = (uintptr_t)scratch + (uintptr_t)(2 * pointer_bytes(g));
  t->full = (char *)((behind + PAGE - 1) / PAGE * PAGE + FULL_AT);
  t->row = t->full + fl_round_up(g->full_bytes, 64);
  t->line = t->row + g->row_bytes;
  t->pos = (int64_t *)(void *)(t->line + g->line_bytes);
  t->state = (char *)t->pos + fl_round_up(8 * g->row, 64);
  for (int64_t i = 0; i < g->reg.n; i++) t->reg[i] = fl_tile_own(t, (uint16_t)i);
  t->n1 = g->full;
  t->n0 = g->row;
  t->n2 = FL_VM_CHUNK;
}

void fl_prog_bind(fl_prog *g, const fl_binding *b, char *scratch, fl_vm_fault *fault) {
  fl_tile t;
  fl_prog_address(g, b);
  if (!g->sec[FL_SEC_BIND].n) return;
  set_up(&t, g, scratch, fault);
  t.n1 = t.n0 = 1;
  fl_tile_run(&t, &g->sec[FL_SEC_BIND]);
}

/* ---- MAP and WHOLE --------------------- */

static void map_unit(fl_tile *t, int64_t unit) {
  const fl_prog *g = t->g;
  const int64_t end = fl_min(g->k->points, (unit + 1) * g->unit);
  for (int64_t p = unit * g->unit; p < end; p += t->n1) {
    t->pt1 = p;
    t->n1 = fl_min(g->full, end - p);
    fl_tile_run(t, &g->sec[FL_SEC_FULL(0)]);
  }
}

/* Prefetches the cache lines of an operand that the tile t uses: hardware prefetching and store
** buffers do not reach that far. */
static void touch_box(fl_tile *t, int operand, int write) {
  const int size = fl_dtype_size(t->g->k->operand[operand].dtype);
  const fl_view v = fl_tile_view(t, operand, 1);
  const uintptr_t base = (uintptr_t)fl_tile_origin(t, operand, &v);
  const int inner = v.w->stride[0] == 1 || v.w->stride[0] == -1 ? 0 : 1;
  const int64_t step = 64 / size;
  for (int64_t i = 0; i < v.w->size[!inner]; i++)
    for (int64_t j = 0; j < v.w->size[inner]; j += step) {
      const int64_t at = i * v.w->stride[!inner] + j * v.w->stride[inner];
      const void *p = (const void *)(base + (uintptr_t)(at * size));
      if (write) __builtin_prefetch(p, 1);
      else __builtin_prefetch(p, 0);
    }
}

typedef struct box_span { int64_t a0, a1, b0, b1; } box_span;

/* Sets t to tile i of the unit's part s, which is a range of two dims; 0: the part has fewer
** tiles. */
static int box_tile(fl_tile *t, const box_span *s, int64_t i) {
  const fl_prog *g = t->g;
  const int a = g->box_dim, b = g->box_last;
  const int64_t across = (s->b1 - s->b0 + g->width - 1) / g->width;
  t->corner[a] = s->a0 + i / across * g->batch;
  t->corner[b] = s->b0 + i % across * g->width;
  if (t->corner[a] >= s->a1) return 0;
  t->rows = fl_min(g->batch, s->a1 - t->corner[a]);
  t->cols = fl_min(g->width, s->b1 - t->corner[b]);
  t->n1 = t->rows * t->cols;
  return 1;
}

static void touch_boxes(fl_tile *t, const box_span *s, int64_t i) {
  const fl_kernel *k = t->g->k;
  if (!box_tile(t, s, i)) return;
  for (int o = 0; o < k->noperand; o++)
    if (t->g->access[o].used && k->operand[o].gstride == 0)
      touch_box(t, o, t->g->access[o].used > 1);
}

/* A unit is FL_BOX_TILES x FL_BOX_TILES tiles of two dims: few pages, each well used. */
static void box_unit(fl_tile *t, int64_t unit) {
  const fl_prog *g = t->g;
  const fl_kernel *k = g->k;
  const int a = g->box_dim, b = g->box_last;
  const int64_t high = g->batch * FL_BOX_TILES, wide = g->width * FL_BOX_TILES;
  const int64_t across = (k->size[b] + wide - 1) / wide, down = (k->size[a] + high - 1) / high;
  int64_t rest = unit / (across * down);
  for (int d = k->nkept - 1; d >= 0; d--) {
    if (d == a || d == b) continue;
    t->corner[d] = rest % k->size[d];
    rest /= k->size[d];
  }
  box_span s = { .a0 = unit / across % down * high, .b0 = unit % across * wide };
  s.a1 = fl_min(s.a0 + high, k->size[a]);
  s.b1 = fl_min(s.b0 + wide, k->size[b]);
  touch_boxes(t, &s, 0);
  for (int64_t i = 0; ; i++) {
    touch_boxes(t, &s, i + 1);
    if (!box_tile(t, &s, i)) return;
    fl_tile_run(t, &g->sec[FL_SEC_FULL(0)]);
  }
}

/* Runs one unit of mode WHOLE. Each row of a tile is for one index of the dims that are not reduced
** (ROW kernels), or for one index of the outer dims, with 'columns' indices of the innermost dim
** (COL kernels). */
static void whole_unit(fl_tile *t, int64_t unit) {
  const fl_prog *g = t->g;
  const int64_t end = fl_min(g->k->rows / g->columns, (unit + 1) * g->unit);
  t->cols = g->k->n * g->columns;
  for (int64_t r = unit * g->unit; r < end; r += t->rows) {
    t->rows = fl_min(g->batch, end - r);
    t->n0 = t->rows * g->columns;
    t->n1 = t->rows * t->cols;
    t->pt0 = r * g->columns;
    t->pt1 = r * t->cols;
    fl_tile_run(t, &g->sec[FL_SEC_FULL(0)]);
  }
}

/* ---- LONG and COL --------------------- */

static void merge(const fl_prog *g, char *a, const char *b, int round, int64_t n) {
  for (int64_t i = 0; i < g->red.n; i++) {
    const fl_red *r = &g->red.at[i];
    if (r->round != round) continue;
    char *p = a + i * 16 * g->row;
    const char *q = b + i * 16 * g->row;
    r->fn->merge(p, (int64_t *)(void *)(p + 8 * g->row), q,
                 (const int64_t *)(const void *)(q + 8 * g->row), n);
  }
}

static void start_state(const fl_prog *g, char *a, int round, int64_t n) {
  for (int64_t i = 0; i < g->red.n; i++) {
    const fl_red *r = &g->red.at[i];
    char *p = a + i * 16 * g->row;
    if (r->round == round) r->fn->start(p, (int64_t *)(void *)(p + 8 * g->row), n);
  }
}

/* Sets the position of a block: its first index of the dims that are not reduced and, for COL, the
** number of its columns. */
static void at_block(fl_tile *t, int64_t block) {
  const fl_prog *g = t->g;
  if (g->mode == FL_MODE_LONG) {
    t->pt0 = block;
    t->n0 = t->rows = 1;
    return;
  }
  const int64_t outer = block / g->col_blocks, c0 = block % g->col_blocks * g->width;
  t->pt0 = outer * g->columns + c0;
  t->n0 = t->cols = fl_min(g->width, g->columns - c0);
}

static void long_tile(fl_tile *t, int round, int64_t block, int64_t i) {
  const fl_kernel *k = t->g->k;
  t->n1 = t->cols = fl_min(t->g->full, k->n - i);
  t->pt1 = block * k->n + i;
  t->first = i;
  fl_tile_run(t, &t->g->sec[FL_SEC_FULL(round)]);
}

/* Computes the LINE values (one per reduced index) of the n reduced indices from i on. move_lines
** then makes the tile begin at the r-th of them. */
static void start_lines(fl_tile *t, int64_t i, int64_t n) {
  const fl_prog *g = t->g;
  if (!g->line_bytes) return;
  t->pt2 = i;
  t->n2 = n;
  for (int64_t v = 0; v < g->reg.n; v++)
    if (g->reg.at[v].kind == FL_KIND_LINE) t->reg[v] = fl_tile_own(t, (uint16_t)v);
  fl_tile_run(t, &g->sec[FL_SEC_LINE]);
  memcpy(t->line_at, t->reg, (size_t)g->reg.n * sizeof *t->reg);
}

static void move_lines(fl_tile *t, int64_t r) {
  const fl_prog *g = t->g;
  for (int64_t v = 0; g->line_bytes && v < g->reg.n; v++)
    if (g->reg.at[v].kind == FL_KIND_LINE)
      t->reg[v] = (char *)t->line_at[v] + r * fl_reg_size(g->reg.at[v].reg);
}

static void col_chunk(fl_tile *t, int round, int64_t block, int64_t i) {
  const fl_prog *g = t->g;
  const int64_t end = fl_min(i + FL_VM_CHUNK, g->k->n), outer = block / g->col_blocks;
  const int64_t c0 = block % g->col_blocks * g->width;
  start_state(g, t->into, round, t->n0);
  start_lines(t, i, end - i);
  for (int64_t r = i; r < end; r += t->rows) {
    move_lines(t, r - i);
    t->rows = fl_min(g->batch, end - r);
    t->n1 = t->rows * t->cols;
    t->pt1 = (outer * g->k->n + r) * g->columns + c0;
    t->first = r;
    fl_tile_run(t, &g->sec[FL_SEC_FULL(round)]);
  }
}

/* Combines the two results on top of the counter (the stack of partial results). */
static void merge_top(fl_tile *t, int round, int64_t depth) {
  char *a = t->state + (depth - 2) * t->g->state_bytes;
  merge(t->g, a, a + t->g->state_bytes, round, t->n0);
}

/* Does round 'round' for one group of a block; the result is the lowest on the counter (the stack
** of partial results). */
static void group_round(fl_tile *t, int round, int64_t block, int64_t group) {
  const fl_prog *g = t->g;
  const int64_t part = g->mode == FL_MODE_LONG ? g->full : FL_VM_CHUNK;
  const int64_t end = fl_min(g->k->n, (group + 1) * g->group);
  int64_t depth = 0, count = 0;
  for (int64_t i = group * g->group; i < end; i += part, count++) {
    t->into = t->state + depth * g->state_bytes;
    if (g->mode == FL_MODE_LONG) long_tile(t, round, block, i);
    else col_chunk(t, round, block, i);
    depth++;
    if (round == g->rounds) { depth = 0; continue; }
    for (int64_t k = count; k & 1; k >>= 1, depth--) merge_top(t, round, depth);
  }
  if (end <= group * g->group) start_state(g, t->state, round, t->n0);
  for (; depth > 1; depth--) merge_top(t, round, depth);
}

/* Ends the reductions of a round: computes their values, then the work that depends on them and is
** done once per row (level 0). */
static void end_round(fl_tile *t, int round, const char *state) {
  const fl_prog *g = t->g;
  for (int64_t i = 0; i < g->red.n; i++) {
    const fl_red *r = &g->red.at[i];
    const char *p = state + i * 16 * g->row;
    if (r->round == round)
      fl_tile_finish(g, r, t->reg[r->value], p,
                     (const int64_t *)(const void *)(p + 8 * g->row), t->n0);
  }
  fl_tile_run(t, &g->sec[FL_SEC_ROW(round + 1)]);
}

static void block_unit(fl_tile *t, int64_t block) {
  const fl_prog *g = t->g;
  at_block(t, block);
  fl_tile_run(t, &g->sec[FL_SEC_ROW(0)]);
  for (int r = 0; r < g->rounds; r++) {
    group_round(t, r, block, 0);
    end_round(t, r, t->state);
  }
  if (g->sec[FL_SEC_FULL(g->rounds)].n) group_round(t, g->rounds, block, 0);
  fl_tile_run(t, &g->sec[FL_SEC_STORE]);
}

void fl_prog_unit(const fl_prog *g, int64_t unit, char *scratch, fl_vm_fault *fault) {
  fl_tile t;
  set_up(&t, g, scratch, fault);
  if (g->one_line) t.n1 = g->k->n;
  fl_tile_run(&t, &g->sec[FL_SEC_UNIT]);
  if (g->boxes) box_unit(&t, unit);
  else if (g->mode == FL_MODE_MAP) map_unit(&t, unit);
  else if (g->mode == FL_MODE_WHOLE) whole_unit(&t, unit);
  else
    for (int64_t b = unit * g->unit; b < fl_min(g->blocks, (unit + 1) * g->unit); b++)
      block_unit(&t, b);
}

/* ---- blocks divided into groups: all workers do each round together ---------- */

enum { FEW_ELEMENTS = 4096 };

typedef struct split {
  const fl_prog *g;
  fl_cpu *d;
  int64_t block0, batch, stride;   /* first block of the batch; number of its blocks; bytes of a
                                   ** block in 'shared' */
  int round;
} split;

int fl_prog_split(const fl_prog *g) { return g->mode >= FL_MODE_LONG && g->groups > 1; }

static int64_t split_bytes(const fl_prog *g) {
  return fl_round_up(g->row_bytes, 64) + fl_round_up(g->groups * g->state_bytes, 64) + 64;
}

static int64_t split_batch(const fl_prog *g) {
  int64_t n = (4 << 20) / split_bytes(g);
  if (n > g->blocks) n = g->blocks;
  return n < 1 ? 1 : n;
}

int64_t fl_prog_shared_bytes(const fl_prog *g) {
  return fl_prog_split(g) ? split_batch(g) * split_bytes(g) : 0;
}

static void enter(fl_tile *t, const split *s, int64_t in_batch, int worker) {
  set_up(t, s->g, s->d->scratch + worker * s->d->worker_bytes, &s->d->fault[worker]);
  fl_tile_run(t, &s->g->sec[FL_SEC_UNIT]);
  point_rows(t, s->d->shared + in_batch * s->stride);
  at_block(t, s->block0 + in_batch);
}

static void split_begin(void *arg, int64_t unit, int worker) {
  const split *s = arg;
  fl_tile t;
  enter(&t, s, unit, worker);
  fl_tile_run(&t, &s->g->sec[FL_SEC_ROW(0)]);
}

static int64_t split_units(const fl_prog *g) { return (g->groups + g->few - 1) / g->few; }

static void split_group(void *arg, int64_t unit, int worker) {
  const split *s = arg;
  const fl_prog *g = s->g;
  const int64_t units = split_units(g), b = unit / units, first = unit % units * g->few;
  fl_tile t;
  enter(&t, s, b, worker);
  char *parts = s->d->shared + b * s->stride + fl_round_up(g->row_bytes, 64);
  for (int64_t group = first; group < fl_min(first + g->few, g->groups); group++) {
    group_round(&t, s->round, s->block0 + b, group);
    if (s->round < g->rounds)
      memcpy(parts + group * g->state_bytes, t.state, (size_t)g->state_bytes);
  }
}

/* Combines the results of a block's groups in place, in the order of the counter, and ends the
** round. */
static void split_end(void *arg, int64_t unit, int worker) {
  const split *s = arg;
  const fl_prog *g = s->g;
  char *parts = s->d->shared + unit * s->stride + fl_round_up(g->row_bytes, 64);
  const int64_t size = g->state_bytes;
  int64_t stack[64], depth = 0;
  fl_tile t;
  enter(&t, s, unit, worker);
  for (int64_t i = 0; i < g->groups; i++) {
    stack[depth++] = i;
    for (int64_t k = i; k & 1; k >>= 1, depth--)
      merge(g, parts + stack[depth - 2] * size, parts + stack[depth - 1] * size, s->round, t.n0);
  }
  for (; depth > 1; depth--)
    merge(g, parts + stack[depth - 2] * size, parts + stack[depth - 1] * size, s->round, t.n0);
  end_round(&t, s->round, parts);
}

static void split_store(void *arg, int64_t unit, int worker) {
  const split *s = arg;
  fl_tile t;
  enter(&t, s, unit, worker);
  fl_tile_run(&t, &s->g->sec[FL_SEC_STORE]);
}

/* Runs 'fn' for the blocks, which have this many elements each: by the caller alone if that is
** little work. */
static void run_rows(split *s, int64_t elements, fl_unit_fn fn, const atomic_int *stop) {
  if (s->batch * elements > FEW_ELEMENTS) fl_threads_run(s->d->pool, s->batch, fn, s, stop);
  else for (int64_t i = 0; i < s->batch; i++) fn(s, i, 0);
}

void fl_prog_run_split(fl_cpu *d, const fl_prog *g, const atomic_int *stop) {
  split s = { .g = g, .d = d, .stride = split_bytes(g) };
  const int64_t batch = split_batch(g);
  for (s.block0 = 0; s.block0 < g->blocks; s.block0 += batch) {
    s.batch = fl_min(batch, g->blocks - s.block0);
    run_rows(&s, g->row, split_begin, stop);
    for (s.round = 0; s.round < g->rounds; s.round++) {
      fl_threads_run(d->pool, s.batch * split_units(g), split_group, &s, stop);
      run_rows(&s, g->row * g->groups, split_end, stop);
    }
    if (g->sec[FL_SEC_FULL(g->rounds)].n)
      fl_threads_run(d->pool, s.batch * split_units(g), split_group, &s, stop);
    run_rows(&s, g->row, split_store, stop);
    if (atomic_load_explicit(stop, memory_order_relaxed)) return;
  }
}
