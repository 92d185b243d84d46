/*
** Execution of a program's units on one worker (cpu.h). A worker's scratch holds, in order:
** the register pointers, the FULL area, the ROW area, positions of a tile's rows, and the
** states of its counter. Nothing here allocates.
**
** The counter (plan/kernel.h): part results lie on a stack; after k results the stack has one
** for each binary digit 1 of k. Groups hold a power of two of parts, so a group's result is
** a digit of the whole, and combining groups the same way gives the same tree.
*/
#include "cpu/cpu.h"
#include <string.h>

typedef struct tile {
  const fl_prog *g;
  void **reg, **line_at;          /* line_at: COL, of LINE registers at the chunk's start */
  char *full, *row, *line, *state;       /* areas */
  int64_t *pos;
  int64_t n1, n0, n2;             /* elements of FULL, ROW and LINE registers now */
  int64_t pt1, pt0, pt2;          /* first point in tile order, first kept, first reduced index */
  int64_t rows, cols;             /* of a tile: FULL = rows x cols */
  int64_t first;                  /* position in the row of its first element */
  char *into;                     /* LONG, COL: the state being made */
  int64_t corner[FL_MAX_AXES];    /* MAP in boxes: coordinates of the tile's first point */
  fl_walk box;
  fl_vm_fault *fault;
} tile;

/* ---- operations --------------------- */

static void *own(const tile *t, uint16_t v) {
  const fl_vreg *r = &t->g->reg.at[v];
  if (r->kind == FL_KIND_FULL) return t->full + r->off;
  if (r->kind == FL_KIND_LINE) return t->line + r->off;
  return r->kind == FL_KIND_ROW ? t->row + r->off : t->g->uni + r->off;
}

/* Where point 'at' and the n - 1 after it lie at unit stride: the address, or NULL. */
static void *unit_run(void *base, const fl_walk *w, int64_t at, int64_t n, int size) {
  if (w->linear) return (char *)base + at * size;
  const int last = w->rank - 1;
  if (w->stride[last] != 1) return NULL;
  fl_cursor c;
  fl_walk_seek(w, at, &c);
  return w->size[last] - c.at[last] >= n ? (char *)base + c.off * size : NULL;
}

/* An operand as the tile sees it: walk, first point in it, elements before the walk's origin. */
typedef struct view { const fl_walk *w; int64_t at, shift; } view;

static view view_of(tile *t, int operand, int level) {
  const fl_prog *g = t->g;
  const fl_operand *o = &g->k->operand[operand];
  if (!level) return (view){ &g->access[operand].w0, t->pt0, 0 };
  if (level == 2) return (view){ &g->access[operand].w2, t->pt2, 0 };
  if (!g->boxes) return (view){ &g->access[operand].w1, t->pt1, 0 };
  int64_t shift = 0;
  for (int d = 0; d < g->k->nkept; d++) shift += t->corner[d] * o->stride[d];
  t->box.rank = 2;
  t->box.size[0] = t->rows;
  t->box.size[1] = t->cols;
  t->box.stride[0] = o->stride[g->box_dim];
  t->box.stride[1] = o->stride[g->box_last];
  t->box.box = (o->stride[g->box_dim] == 1 || o->stride[g->box_dim] == -1) && t->box.stride[1] != 1;
  return (view){ &t->box, 0, shift };
}

static char *origin(const tile *t, int operand, const view *v) {
  return (char *)t->g->address[operand] + v->shift * fl_dtype_size(t->g->k->operand[operand].dtype);
}

/* The first lines of the next tile, 'elements' further on (COL: the next rows of the same
** columns): hardware looks ahead within a page only, and a tile is one. Where that costs more
** than it saves (AMD), not. */
static void ask_ahead(const tile *t, const void *p, int64_t elements, int size) {
  const fl_prog *g = t->g;
  if (!g->asks) return;
  const int64_t ahead = g->mode == FL_MODE_COL ? g->batch * g->columns : elements;
  for (int i = 0; i < 16; i++)
    __builtin_prefetch((const void *)((uintptr_t)p + (uintptr_t)(ahead * size + 64 * i)));
}

static int64_t count_at(const tile *t, int level) { return level == 1 ? t->n1 : level ? t->n2 : t->n0; }

static void load(tile *t, const fl_vop *x) {
  const view v = view_of(t, x->arg, x->level);
  const int64_t n = count_at(t, x->level);
  void *base = origin(t, x->arg, &v);
  if (x->flags) {
    void *p = unit_run(base, v.w, v.at, n, fl_dtype_size(x->reg));
    if (p) {
      ask_ahead(t, p, n, fl_dtype_size(x->reg));
      t->reg[x->v] = p;
      return;
    }
  }
  if (!x->target) t->reg[x->v] = own(t, x->v);
  x->fn.load(t->reg[x->v], base, v.w, v.at, n);
}

/* Where a direct store of FULL registers goes at once: the address, or NULL. */
static void *direct_to(tile *t, int s) {
  const fl_prog *g = t->g;
  const int o = g->k->store[s].operand;
  if (!g->direct[s]) return NULL;
  const view v = view_of(t, o, 1);
  return unit_run(origin(t, o, &v), v.w, v.at, t->n1, fl_dtype_size(g->k->operand[o].dtype));
}

/* v is made in the memory of its store where that is allowed and unbroken. */
static void aim(tile *t, const fl_vop *x) {
  void *p = direct_to(t, x->target - 1);
  t->reg[x->v] = p ? p : own(t, x->v);
}

static void store(tile *t, const fl_vop *x) {
  const int o = t->g->k->store[x->arg].operand;
  if (x->level && t->reg[x->a] == direct_to(t, x->arg)) return;
  const view v = view_of(t, o, x->level);
  x->fn.store(origin(t, o, &v), t->reg[x->a], v.w, v.at, x->level ? t->n1 : t->n0);
}

/* A state's value as a ROW register: positions 1-based, half types rounded. */
static void finish_value(const fl_prog *g, const fl_red *r, void *out, const void *val,
                         const int64_t *pos, int64_t n) {
  if (fl_ops[r->op].kind == FL_KIND_POSITION) {
    int64_t *y = out;
    for (int64_t i = 0; i < n; i++) y[i] = pos[i] + 1;
    return;
  }
  if (out != val) memcpy(out, val, (size_t)(n * fl_reg_size(r->reg)));
  if (g->vm->round[r->dtype]) g->vm->round[r->dtype](out, out, n);
}

/* Rows, or (cols) columns, of a tile into the state; a sum of products has a second operand. */
static void reduce_tile(tile *t, const fl_vop *x, char *val, int64_t *pos, int64_t rows, int64_t n, int cols) {
  const fl_vm *vm = t->g->vm;
  const fl_red *r = &t->g->red.at[x->arg];
  if (x->flags) (cols ? vm->pairs->dot_cols : vm->pairs->dot_rows)[r->reg](val, t->reg[x->a], t->reg[x->b], rows, n);
  else (cols ? r->fn->cols : r->fn->rows)(val, pos, t->reg[x->a], rows, n, t->first);
}

/* All rows of a tile, or all blocks of columns (then n rows of 'columns' each). */
static void reduce_whole(tile *t, const fl_vop *x) {
  const fl_prog *g = t->g;
  const fl_red *r = &g->red.at[x->arg];
  const int size = fl_reg_size(r->reg);
  char *val = fl_ops[r->op].kind == FL_KIND_POSITION ? t->state : t->reg[x->v];
  if (g->k->kind == FL_K_ROW) {
    reduce_tile(t, x, val, t->pos, t->rows, t->cols, 0);
  } else {
    r->fn->start(val, t->pos, t->n0);
    for (int64_t i = 0; i < t->rows; i++) {
      char *v = val + i * g->columns * size, *a = (char *)t->reg[x->a] + i * t->cols * size;
      if (x->flags) g->vm->pairs->dot_cols[r->reg](v, a, (char *)t->reg[x->b] + i * t->cols * size, g->k->n, g->columns);
      else r->fn->cols(v, t->pos + i * g->columns, a, g->k->n, g->columns, 0);
    }
  }
  finish_value(g, r, t->reg[x->v], val, t->pos, t->n0);
}

static void reduce(tile *t, const fl_vop *x) {
  const fl_prog *g = t->g;
  char *val = t->into + x->arg * 16 * g->row;
  int64_t *pos = (int64_t *)(void *)(val + 8 * g->row);
  if (g->mode == FL_MODE_LONG) reduce_tile(t, x, val, pos, 1, t->n1, 0);
  else reduce_tile(t, x, val, pos, t->rows, t->cols, 1);
}

static void spread(tile *t, const fl_vop *x) {
  const fl_prog *g = t->g;
  const int64_t size = fl_reg_size(x->reg), columns = g->columns;
  if (g->mode != FL_MODE_WHOLE || g->k->kind == FL_K_ROW) {
    x->fn.spread(t->reg[x->v], t->reg[x->a], t->rows, t->cols);
    return;
  }
  for (int64_t i = 0; i < t->rows; i++)
    x->fn.spread((char *)t->reg[x->v] + i * t->cols * size,
                 (char *)t->reg[x->a] + i * columns * size, g->k->n, columns);
}

/* The first lines of a row that is read a few rows later. */
static void ask_row(const char *p, int64_t bytes) {
  for (int64_t i = 0; i < bytes && i < 4 * 64; i += 64) __builtin_prefetch(p + i);
}

/* One index for each row of the tile. */
static void gather_rows(tile *t, const fl_vop *x) {
  const fl_prog *g = t->g;
  const view v = view_of(t, x->arg, x->level);
  const int64_t *index = t->reg[x->a], step = g->k->operand[x->arg].gstride * fl_dtype_size(x->reg);
  const int size = fl_dtype_size(x->reg), wide = fl_reg_size(fl_dtype_reg(x->reg)), last = v.w->rank - 1;
  const int plain = !g->vm->round[x->reg] && t->cols > 0 &&
                    v.w->stride[last] == 1 && v.w->size[last] % t->cols == 0;
  char *base = origin(t, x->arg, &v), *y = t->reg[x->v];
  fl_cursor c;
  fl_walk_seek(v.w, v.at, &c);
  if (plain && t->rows == 1 && x->flags && !x->target) {
    t->reg[x->v] = base + index[0] * step + c.off * size;
    return;
  }
  if (!x->target) y = t->reg[x->v] = own(t, x->v);
  for (int64_t i = 0; i < t->rows; i++, y += t->cols * wide) {
    const char *from = base + index[i] * step;
    if (i + 4 < t->rows) ask_row(base + index[i + 4] * step + c.off * size, t->cols * size);
    if (plain) memcpy(y, from + c.off * size, (size_t)(t->cols * wide));
    else g->vm->load[x->reg](y, from, v.w, v.at + i * t->cols, t->cols);
    fl_walk_next(v.w, &c, plain ? t->cols : 0);
  }
}

static void gather(tile *t, const fl_vop *x, int64_t n) {
  if (x->uni) {
    gather_rows(t, x);
    return;
  }
  const view v = view_of(t, x->arg, x->level);
  x->fn.gather(t->reg[x->v], origin(t, x->arg, &v), t->reg[x->a],
               t->g->k->operand[x->arg].gstride, v.w, v.at, n);
}

static void iota(tile *t, int operand, int level, void *y, int64_t n) {
  const view v = view_of(t, operand, level);
  t->g->vm->iota(y, v.w, t->g->k->operand[operand].offset + v.shift, v.at, n);
}

/* Positions are needed for a report only. What the next tile checks is asked for: nothing else is done
** meanwhile that would hide the wait, and hardware looks ahead within a page only. */
static void check_index(tile *t, const fl_vop *x, int64_t n) {
  const fl_vm *vm = t->g->vm;
  const int64_t size = *(const int64_t *)t->reg[x->b];
  const uintptr_t next = (uintptr_t)t->reg[x->a] + (uintptr_t)n * 8;
  for (int64_t i = 0; i < n && t->reg[x->a] != own(t, x->a); i += 8)
    __builtin_prefetch((const void *)(next + (uintptr_t)i * 8));
  if (vm->index(t->reg[x->v], t->reg[x->a], size, n, x->flags)) return;
  if (x->reg) iota(t, x->reg - 1, x->level, t->reg[x->c], n);
  vm->report(t->reg[x->a], size, t->reg[x->c], n, x->uni, x->flags, x->arg, t->fault);
}

/* Elements from row to row of an operand with these bits of 'uni'. */
static int64_t row_step(const tile *t, int uni) {
  const int bits = uni & 17;
  return bits == 0 ? t->cols : bits == 17;
}

/* An operation one row at a time: some of its operands have one element a row. */
static void op_rows(tile *t, const fl_vop *x) {
  const fl_prog *g = t->g;
  const uint16_t v[4] = { x->v, x->a, x->b, x->c };
  char *p[4];
  int64_t step[4];
  for (int i = 0; i < 4; i++) {
    p[i] = t->reg[v[i]];
    step[i] = row_step(t, i ? x->uni >> (i - 1) : 0) * fl_reg_size(g->reg.at[v[i]].reg);
  }
  for (int64_t r = 0; r < t->rows; r++) {
    x->fn.op(p[0], p[1], p[2], p[3], t->cols, x->uni & 7);
    for (int i = 0; i < 4; i++) p[i] += step[i];
  }
}

static void chain(tile *t, const fl_vop *x, int64_t n) {
  const fl_chain *c = &t->g->chain.at[x->arg];
  fl_vm_link link[FL_CHAIN];
  for (int i = 0; i < c->n; i++)
    link[i] = (fl_vm_link){ .op = c->link[i].op, .saved = c->link[i].saved, .moves = !(c->link[i].uni & 1),
                            .p = c->link[i].v == FL_NO_REG ? NULL : t->reg[c->link[i].v],
                            .row = c->by_row && c->link[i].v != FL_NO_REG ? row_step(t, c->link[i].uni) : 0 };
  t->g->vm->pairs->chain[c->reg](t->reg[x->v], link, c->n, c->by_row ? t->rows : 1, c->by_row ? t->cols : n);
}

static void run(tile *t, const fl_section *s) {
  const fl_prog *g = t->g;
  void **r = t->reg;
  for (const fl_vop *x = s->at, *end = x + s->n; x < end; x++) {
    const int64_t n = count_at(t, x->level);
    if (x->target) aim(t, x);
    switch (x->code) {
      case FL_V_OP: x->fn.op(r[x->v], r[x->a], r[x->b], r[x->c], n, x->uni); break;
      case FL_V_ROWS: op_rows(t, x); break;
      case FL_V_CHAIN: chain(t, x, n); break;
      case FL_V_MOVE: x->fn.move(r[x->v], r[x->a], n); break;
      case FL_V_LOAD: load(t, x); break;
      case FL_V_IOTA: iota(t, x->arg, x->level, r[x->v], n); break;
      case FL_V_GATHER: gather(t, x, n); break;
      case FL_V_INDEX: check_index(t, x, n); break;
      case FL_V_DRAW: x->fn.draw(r[x->v], r[x->a], &g->draw.at[x->arg].q, n); break;
      case FL_V_FILL: x->fn.fill(r[x->v], r[x->a], n); break;
      case FL_V_SPREAD: spread(t, x); break;
      case FL_V_REDUCE: (g->mode == FL_MODE_WHOLE ? reduce_whole : reduce)(t, x); break;
      case FL_V_STORE: store(t, x); break;
      default: break;
    }
  }
}

/* ---- a worker's memory --------------------- */

static int64_t pointer_bytes(const fl_prog *g) { return fl_round64(g->reg.n * (int64_t)sizeof(void *)); }

int64_t fl_prog_worker_bytes(const fl_prog *g) {
  const int64_t slots = g->mode >= FL_MODE_LONG ? g->slots : 1;
  const int64_t state = g->mode >= FL_MODE_LONG ? g->state_bytes : 8 * g->row;
  return 2 * pointer_bytes(g) + fl_round64(g->full_bytes) + g->row_bytes + g->line_bytes + fl_round64(8 * g->row) +
         fl_round64(slots * state + 64);
}

static void point_rows(tile *t, char *row) {
  t->row = row;
  for (int64_t i = 0; i < t->g->reg.n; i++) {
    const fl_vreg *r = &t->g->reg.at[i];
    if (r->kind == FL_KIND_ROW && !r->lives) t->reg[i] = row + r->off;   /* fills stay the worker's */
  }
}

static void set_up(tile *t, const fl_prog *g, char *scratch, fl_vm_fault *fault) {
  memset(t, 0, sizeof *t);
  t->g = g;
  t->fault = fault;
  t->reg = (void **)(void *)scratch;
  t->line_at = (void **)(void *)(scratch + pointer_bytes(g));
  t->full = scratch + 2 * pointer_bytes(g);
  t->row = t->full + fl_round64(g->full_bytes);
  t->line = t->row + g->row_bytes;
  t->pos = (int64_t *)(void *)(t->line + g->line_bytes);
  t->state = (char *)t->pos + fl_round64(8 * g->row);
  for (int64_t i = 0; i < g->reg.n; i++) t->reg[i] = own(t, (uint16_t)i);
  t->n1 = g->full;
  t->n0 = g->row;
  t->n2 = FL_VM_CHUNK;
}

void fl_prog_bind(fl_prog *g, const fl_binding *b, char *scratch, fl_vm_fault *fault) {
  tile t;
  fl_prog_address(g, b);
  if (!g->sec[FL_SEC_BIND].n) return;
  set_up(&t, g, scratch, fault);
  t.n1 = t.n0 = 1;
  run(&t, &g->sec[FL_SEC_BIND]);
}

/* ---- MAP and WHOLE --------------------- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void map_unit(tile *t, int64_t unit) {
  const fl_prog *g = t->g;
  const int64_t end = least(g->k->points, (unit + 1) * g->unit);
  for (int64_t p = unit * g->unit; p < end; p += t->n1) {
    t->pt1 = p;
    t->n1 = least(g->full, end - p);
    run(t, &g->sec[FL_SEC_FULL(0)]);
  }
}

/* Ask for the lines of a box's operand ahead: neither hardware nor store buffers see that far. */
static void touch_box(tile *t, int operand, int write) {
  const int size = fl_dtype_size(t->g->k->operand[operand].dtype);
  const view v = view_of(t, operand, 1);
  const uintptr_t base = (uintptr_t)origin(t, operand, &v);
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

/* Tile i of a unit's span; 0: there is none. */
static int box_tile(tile *t, const box_span *s, int64_t i) {
  const fl_prog *g = t->g;
  const int a = g->box_dim, b = g->box_last;
  const int64_t across = (s->b1 - s->b0 + g->width - 1) / g->width;
  t->corner[a] = s->a0 + i / across * g->batch;
  t->corner[b] = s->b0 + i % across * g->width;
  if (t->corner[a] >= s->a1) return 0;
  t->rows = least(g->batch, s->a1 - t->corner[a]);
  t->cols = least(g->width, s->b1 - t->corner[b]);
  t->n1 = t->rows * t->cols;
  return 1;
}

static void touch_boxes(tile *t, const box_span *s, int64_t i) {
  const fl_kernel *k = t->g->k;
  if (!box_tile(t, s, i)) return;
  for (int o = 0; o < k->noperand; o++)
    if (t->g->access[o].used && k->operand[o].gstride == 0) touch_box(t, o, t->g->access[o].used > 1);
}

/* A unit is FL_BOX_TILES x FL_BOX_TILES tiles of two dims: few pages, each well used. */
static void box_unit(tile *t, int64_t unit) {
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
  s.a1 = least(s.a0 + high, k->size[a]);
  s.b1 = least(s.b0 + wide, k->size[b]);
  touch_boxes(t, &s, 0);
  for (int64_t i = 0; ; i++) {
    touch_boxes(t, &s, i + 1);
    if (!box_tile(t, &s, i)) return;
    run(t, &g->sec[FL_SEC_FULL(0)]);
  }
}

/* A tile's rows are kept indices (ROW) or outer ones, of 'columns' kept indices each (COL). */
static void whole_unit(tile *t, int64_t unit) {
  const fl_prog *g = t->g;
  const int64_t end = least(g->k->rows / g->columns, (unit + 1) * g->unit);
  t->cols = g->k->n * g->columns;
  for (int64_t r = unit * g->unit; r < end; r += t->rows) {
    t->rows = least(g->batch, end - r);
    t->n0 = t->rows * g->columns;
    t->n1 = t->rows * t->cols;
    t->pt0 = r * g->columns;
    t->pt1 = r * t->cols;
    run(t, &g->sec[FL_SEC_FULL(0)]);
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

/* Position of a block: its kept index and, for COL, its columns. */
static void at_block(tile *t, int64_t block) {
  const fl_prog *g = t->g;
  if (g->mode == FL_MODE_LONG) {
    t->pt0 = block;
    t->n0 = t->rows = 1;
    return;
  }
  const int64_t outer = block / g->col_blocks, c0 = block % g->col_blocks * g->width;
  t->pt0 = outer * g->columns + c0;
  t->n0 = t->cols = least(g->width, g->columns - c0);
}

static void long_tile(tile *t, int round, int64_t block, int64_t i) {
  const fl_kernel *k = t->g->k;
  t->n1 = t->cols = least(t->g->full, k->n - i);
  t->pt1 = block * k->n + i;
  t->first = i;
  run(t, &t->g->sec[FL_SEC_FULL(round)]);
}

/* LINE values of the n reduced indices from i on; then the tile's first is the r-th of them. */
static void start_lines(tile *t, int64_t i, int64_t n) {
  const fl_prog *g = t->g;
  if (!g->line_bytes) return;
  t->pt2 = i;
  t->n2 = n;
  for (int64_t v = 0; v < g->reg.n; v++)
    if (g->reg.at[v].kind == FL_KIND_LINE) t->reg[v] = own(t, (uint16_t)v);
  run(t, &g->sec[FL_SEC_LINE]);
  memcpy(t->line_at, t->reg, (size_t)g->reg.n * sizeof *t->reg);
}

static void move_lines(tile *t, int64_t r) {
  const fl_prog *g = t->g;
  for (int64_t v = 0; g->line_bytes && v < g->reg.n; v++)
    if (g->reg.at[v].kind == FL_KIND_LINE) t->reg[v] = (char *)t->line_at[v] + r * fl_reg_size(g->reg.at[v].reg);
}

static void col_chunk(tile *t, int round, int64_t block, int64_t i) {
  const fl_prog *g = t->g;
  const int64_t end = least(i + FL_VM_CHUNK, g->k->n), outer = block / g->col_blocks;
  const int64_t c0 = block % g->col_blocks * g->width;
  start_state(g, t->into, round, t->n0);
  start_lines(t, i, end - i);
  for (int64_t r = i; r < end; r += t->rows) {
    move_lines(t, r - i);
    t->rows = least(g->batch, end - r);
    t->n1 = t->rows * t->cols;
    t->pt1 = (outer * g->k->n + r) * g->columns + c0;
    t->first = r;
    run(t, &g->sec[FL_SEC_FULL(round)]);
  }
}

/* The two results on top of the counter become one. */
static void merge_top(tile *t, int round, int64_t depth) {
  char *a = t->state + (depth - 2) * t->g->state_bytes;
  merge(t->g, a, a + t->g->state_bytes, round, t->n0);
}

/* Round 'round' over one group of a block; the result is left in slot 0 of the counter. */
static void group_round(tile *t, int round, int64_t block, int64_t group) {
  const fl_prog *g = t->g;
  const int64_t part = g->mode == FL_MODE_LONG ? g->full : FL_VM_CHUNK;
  const int64_t end = least(g->k->n, (group + 1) * g->group);
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

/* The reductions of a round are done: their values, then the level-0 work that waited. */
static void end_round(tile *t, int round, const char *state) {
  const fl_prog *g = t->g;
  for (int64_t i = 0; i < g->red.n; i++) {
    const fl_red *r = &g->red.at[i];
    const char *p = state + i * 16 * g->row;
    if (r->round == round)
      finish_value(g, r, t->reg[r->value], p, (const int64_t *)(const void *)(p + 8 * g->row), t->n0);
  }
  run(t, &g->sec[FL_SEC_ROW(round + 1)]);
}

static void block_unit(tile *t, int64_t block) {
  const fl_prog *g = t->g;
  at_block(t, block);
  run(t, &g->sec[FL_SEC_ROW(0)]);
  for (int r = 0; r < g->rounds; r++) {
    group_round(t, r, block, 0);
    end_round(t, r, t->state);
  }
  if (g->sec[FL_SEC_FULL(g->rounds)].n) group_round(t, g->rounds, block, 0);
  run(t, &g->sec[FL_SEC_STORE]);
}

void fl_prog_unit(const fl_prog *g, int64_t unit, char *scratch, fl_vm_fault *fault) {
  tile t;
  set_up(&t, g, scratch, fault);
  run(&t, &g->sec[FL_SEC_UNIT]);
  if (g->boxes) box_unit(&t, unit);
  else if (g->mode == FL_MODE_MAP) map_unit(&t, unit);
  else if (g->mode == FL_MODE_WHOLE) whole_unit(&t, unit);
  else for (int64_t b = unit * g->unit; b < least(g->blocks, (unit + 1) * g->unit); b++) block_unit(&t, b);
}

/* ---- blocks of several groups: rounds with all workers --------------------- */

enum { FEW_ELEMENTS = 4096 };

typedef struct split {
  const fl_prog *g;
  fl_cpu *d;
  int64_t block0, batch, stride;   /* first block of the batch; blocks; bytes of one in 'shared' */
  int round;
} split;

int fl_prog_split(const fl_prog *g) { return g->mode >= FL_MODE_LONG && g->groups > 1; }

static int64_t split_bytes(const fl_prog *g) {
  return fl_round64(g->row_bytes) + fl_round64(g->groups * g->state_bytes) + 64;
}

static int64_t split_batch(const fl_prog *g) {
  int64_t n = (4 << 20) / split_bytes(g);
  if (n > g->blocks) n = g->blocks;
  return n < 1 ? 1 : n;
}

int64_t fl_prog_shared_bytes(const fl_prog *g) {
  return fl_prog_split(g) ? split_batch(g) * split_bytes(g) : 0;
}

static void enter(tile *t, const split *s, int64_t in_batch, int worker) {
  set_up(t, s->g, s->d->scratch + worker * s->d->worker_bytes, &s->d->fault[worker]);
  run(t, &s->g->sec[FL_SEC_UNIT]);
  point_rows(t, s->d->shared + in_batch * s->stride);
  at_block(t, s->block0 + in_batch);
}

static void split_begin(void *arg, int64_t unit, int worker) {
  const split *s = arg;
  tile t;
  enter(&t, s, unit, worker);
  run(&t, &s->g->sec[FL_SEC_ROW(0)]);
}

static int64_t split_units(const fl_prog *g) { return (g->groups + g->few - 1) / g->few; }

static void split_group(void *arg, int64_t unit, int worker) {
  const split *s = arg;
  const fl_prog *g = s->g;
  const int64_t units = split_units(g), b = unit / units, first = unit % units * g->few;
  tile t;
  enter(&t, s, b, worker);
  char *parts = s->d->shared + b * s->stride + fl_round64(g->row_bytes);
  for (int64_t group = first; group < least(first + g->few, g->groups); group++) {
    group_round(&t, s->round, s->block0 + b, group);
    if (s->round < g->rounds) memcpy(parts + group * g->state_bytes, t.state, (size_t)g->state_bytes);
  }
}

/* Groups of a block combined as one counter, in place. */
static void split_end(void *arg, int64_t unit, int worker) {
  const split *s = arg;
  const fl_prog *g = s->g;
  char *parts = s->d->shared + unit * s->stride + fl_round64(g->row_bytes);
  const int64_t size = g->state_bytes;
  int64_t stack[64], depth = 0;
  tile t;
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
  tile t;
  enter(&t, s, unit, worker);
  run(&t, &s->g->sec[FL_SEC_STORE]);
}

/* Work on rows, of so many elements a block: little of it stays on the caller. */
static void run_rows(split *s, int64_t elements, fl_unit_fn fn, const atomic_int *stop) {
  if (s->batch * elements > FEW_ELEMENTS) fl_threads_run(s->d->pool, s->batch, fn, s, stop);
  else for (int64_t i = 0; i < s->batch; i++) fn(s, i, 0);
}

void fl_prog_run_split(fl_cpu *d, const fl_prog *g, const atomic_int *stop) {
  split s = { .g = g, .d = d, .stride = split_bytes(g) };
  const int64_t batch = split_batch(g);
  for (s.block0 = 0; s.block0 < g->blocks; s.block0 += batch) {
    s.batch = least(batch, g->blocks - s.block0);
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
