/*
** Runs a section (a list of operations) of a program on one tile (program.h). Nothing here
** allocates.
*/
#include "cpu/program/exec.h"
#include <string.h>

void *fl_tile_own(const fl_tile *t, uint16_t v) {
  const fl_vreg *r = &t->g->reg.at[v];
  if (r->kind == FL_KIND_FULL) return t->full + r->off;
  if (r->kind == FL_KIND_LINE) return t->line + r->off;
  return r->kind == FL_KIND_ROW ? t->row + r->off : t->g->uni + r->off;
}

/* The address of point 'at' if it and the n - 1 after it have unit stride, or NULL. */
static void *unit_run(void *base, const fl_walk *w, int64_t at, int64_t n, int size) {
  if (w->linear) return (char *)base + at * size;
  const int last = w->rank - 1;
  if (w->stride[last] != 1) return NULL;
  fl_cursor c;
  fl_walk_seek(w, at, &c);
  return w->size[last] - c.at[last] >= n ? (char *)base + c.off * size : NULL;
}

fl_view fl_tile_view(fl_tile *t, int operand, int level) {
  const fl_prog *g = t->g;
  const fl_operand *o = &g->k->operand[operand];
  if (!level) return (fl_view){ &g->access[operand].w0, t->pt0, 0 };
  if (level == 2) return (fl_view){ &g->access[operand].w2, t->pt2, 0 };
  if (!g->boxes) return (fl_view){ &g->access[operand].w1, t->pt1, 0 };
  int64_t shift = 0;
  for (int d = 0; d < g->k->nkept; d++) shift += t->corner[d] * o->stride[d];
  t->box.rank = 2;
  t->box.size[0] = t->rows;
  t->box.size[1] = t->cols;
  t->box.stride[0] = o->stride[g->box_dim];
  t->box.stride[1] = o->stride[g->box_last];
  t->box.box = (o->stride[g->box_dim] == 1 || o->stride[g->box_dim] == -1) && t->box.stride[1] != 1;
  return (fl_view){ &t->box, 0, shift };
}

char *fl_tile_origin(const fl_tile *t, int operand, const fl_view *v) {
  return (char *)t->g->address[operand] + v->shift * fl_dtype_size(t->g->k->operand[operand].dtype);
}

/* Prefetches the first lines of the next tile, 'elements' further on (COL: the next rows of the
** same columns): hardware prefetches only within a page, and a tile is mostly a page or more. Not
** done on processors where it costs more than it saves (AMD). */
static void ask_ahead(const fl_tile *t, const void *p, int64_t elements, int size) {
  const fl_prog *g = t->g;
  if (!g->asks) return;
  const int64_t ahead = g->mode == FL_MODE_COL ? g->batch * g->columns : elements;
  for (int i = 0; i < 16; i++)
    __builtin_prefetch((const void *)((uintptr_t)p + (uintptr_t)(ahead * size + 64 * i)));
}

static int64_t count_at(const fl_tile *t, int level) {
  return level == 1 ? t->n1 : level ? t->n2 : t->n0;
}

static void load(fl_tile *t, const fl_vop *x) {
  const fl_view v = fl_tile_view(t, x->arg, x->level);
  const int64_t n = count_at(t, x->level);
  void *base = fl_tile_origin(t, x->arg, &v);
  if (x->flags) {
    void *p = unit_run(base, v.w, v.at, n, fl_dtype_size(x->reg));
    if (p) {
      ask_ahead(t, p, n, fl_dtype_size(x->reg));
      t->reg[x->v] = p;
      return;
    }
  }
  if (!x->target) t->reg[x->v] = fl_tile_own(t, x->v);
  x->fn.load(t->reg[x->v], base, v.w, v.at, n);
}

/* If the value of store s may be computed directly in the memory that s writes, and its n1 elements
** are contiguous there, their address; else NULL. */
static void *direct_to(fl_tile *t, int s) {
  const fl_prog *g = t->g;
  const int o = g->k->store[s].operand;
  if (!g->direct[s]) return NULL;
  const fl_view v = fl_tile_view(t, o, 1);
  return unit_run(fl_tile_origin(t, o, &v), v.w, v.at, t->n1,
                  fl_dtype_size(g->k->operand[o].dtype));
}

/* Lets x's result be computed in the memory of the store that writes it (x->target), if that is
** allowed and contiguous. */
static void aim(fl_tile *t, const fl_vop *x) {
  void *p = direct_to(t, x->target - 1);
  t->reg[x->v] = p ? p : fl_tile_own(t, x->v);
}

static void store(fl_tile *t, const fl_vop *x) {
  const int o = t->g->k->store[x->arg].operand;
  if (x->level && t->reg[x->a] == direct_to(t, x->arg)) return;
  const fl_view v = fl_tile_view(t, o, x->level);
  x->fn.store(fl_tile_origin(t, o, &v), t->reg[x->a], v.w, v.at, x->level ? t->n1 : t->n0);
}

void fl_tile_finish(const fl_prog *g, const fl_red *r, void *out, const void *val,
                    const int64_t *pos, int64_t n) {
  if (fl_ops[r->op].kind == FL_KIND_POSITION) {
    int64_t *y = out;
    for (int64_t i = 0; i < n; i++) y[i] = pos[i] + 1;
    return;
  }
  if (out != val) memcpy(out, val, (size_t)(n * fl_reg_size(r->reg)));
  if (g->vm->round[r->dtype]) g->vm->round[r->dtype](out, out, n);
}

enum { SHORT = 64, FAR_POINTS = 1 << 16 };

/* Is a register not in its own buffer, but in the memory that is read or written? */
static int is_aimed(const fl_tile *t, uint16_t v) { return t->reg[v] != fl_tile_own(t, v); }

/* Does a register hold bf16? It does if a load by reference made it point at bf16 in memory; not if
** it points at a store's memory, which holds values of the register's type. */
static int is_half(const fl_tile *t, uint16_t v) {
  return t->g->reg.at[v].halves && is_aimed(t, v);
}

static void widen(fl_tile *t, uint16_t v) {
  const fl_vm_link link = { .op = FL_LINK_load_half, .moves = 1, .p = t->reg[v] };
  t->reg[v] = fl_tile_own(t, v);
  t->g->vm->pairs->chain[FL_REG_F32](t->reg[v], &link, 1, 1, t->n1, 0);
}

/* Does a sum read bf16 itself? If only one of two operands is bf16, it is widened first; so are the
** operands of short rows. */
static int finds_halves(fl_tile *t, const fl_vop *x, int is_short) {
  if (!(x->flags & FL_BY_HALVES)) return 0;
  const int all = !is_short && is_half(t, x->a) && is_half(t, x->b);
  if (!all && is_half(t, x->a)) widen(t, x->a);
  if (!all && is_half(t, x->b)) widen(t, x->b);
  return all;
}

/* Adds rows of a tile (with 'cols' columns), from the tile's element 'at' on, to the state; a sum
** of products has a second operand. */
static void reduce_tile(fl_tile *t, const fl_vop *x, char *val, int64_t *pos, int64_t at,
                        int64_t rows, int64_t n, int cols) {
  const fl_vm_pairs *pairs = t->g->vm->pairs;
  const fl_red *r = &t->g->red.at[x->arg];
  const int halves = finds_halves(t, x, !cols && n < SHORT),
            size = halves ? 2 : fl_reg_size(r->reg);
  const char *a = (char *)t->reg[x->a] + at * size,
             *b = x->flags & 1 ? (char *)t->reg[x->b] + at * size : NULL;
  if (halves) (cols ? pairs->half_cols : pairs->half_rows)(val, a, b, rows, n);
  else if (b) (cols ? pairs->dot_cols : pairs->dot_rows)[r->reg](val, a, b, rows, n);
  else (cols ? r->fn->cols : r->fn->rows)(val, pos, a, rows, n, t->first);
}

/* Reduces all rows of a tile, or all blocks of columns (n rows of 'columns' each). */
static void reduce_whole(fl_tile *t, const fl_vop *x) {
  const fl_prog *g = t->g;
  const fl_red *r = &g->red.at[x->arg];
  const int size = fl_reg_size(r->reg);
  char *val = fl_ops[r->op].kind == FL_KIND_POSITION ? t->state : t->reg[x->v];
  if (x->flags & FL_BY_PLACE) {
    val = t->state;
  } else if (g->k->kind == FL_K_ROW) {
    reduce_tile(t, x, val, t->pos, 0, t->rows, t->cols, 0);
  } else {
    r->fn->start(val, t->pos, t->n0);
    for (int64_t i = 0; i < t->rows; i++)
      reduce_tile(t, x, val + i * g->columns * size, t->pos + i * g->columns, i * t->cols, g->k->n,
                  g->columns, 1);
  }
  fl_tile_finish(g, r, t->reg[x->v], val, t->pos, t->n0);
}

static void reduce(fl_tile *t, const fl_vop *x) {
  const fl_prog *g = t->g;
  char *val = t->into + x->arg * 16 * g->row;
  int64_t *pos = (int64_t *)(void *)(val + 8 * g->row);
  if (g->mode == FL_MODE_LONG) reduce_tile(t, x, val, pos, 0, 1, t->n1, 0);
  else reduce_tile(t, x, val, pos, 0, t->rows, t->cols, 1);
}

static void spread(fl_tile *t, const fl_vop *x) {
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

/* Prefetches the first lines of a row that is read a few rows later. */
static void ask_row(const char *p, int64_t bytes) {
  for (int64_t i = 0; i < bytes && i < 4 * 64; i += 64) __builtin_prefetch(p + i);
}

/* Gathers rows: there is one index for each row of the tile. */
static void gather_rows(fl_tile *t, const fl_vop *x) {
  const fl_prog *g = t->g;
  const fl_view v = fl_tile_view(t, x->arg, x->level);
  const int64_t *index = t->reg[x->a], step = g->k->operand[x->arg].gstride * fl_dtype_size(x->reg);
  const int size = fl_dtype_size(x->reg), wide = fl_reg_size(fl_dtype_reg(x->reg)),
            last = v.w->rank - 1;
  const int plain = !g->vm->round[x->reg] && t->cols > 0 &&
                    v.w->stride[last] == 1 && v.w->size[last] % t->cols == 0;
  char *base = fl_tile_origin(t, x->arg, &v), *y = t->reg[x->v];
  fl_cursor c;
  fl_walk_seek(v.w, v.at, &c);
  if (plain && t->rows == 1 && x->flags && !x->target) {
    t->reg[x->v] = base + index[0] * step + c.off * size;
    return;
  }
  if (!x->target) y = t->reg[x->v] = fl_tile_own(t, x->v);
  for (int64_t i = 0; i < t->rows; i++, y += t->cols * wide) {
    const char *from = base + index[i] * step;
    if (i + 4 < t->rows) ask_row(base + index[i + 4] * step + c.off * size, t->cols * size);
    if (plain) memcpy(y, from + c.off * size, (size_t)(t->cols * wide));
    else g->vm->load[x->reg](y, from, v.w, v.at + i * t->cols, t->cols);
    fl_walk_next(v.w, &c, plain ? t->cols : 0);
  }
}

static void gather(fl_tile *t, const fl_vop *x, int64_t n) {
  if (x->uni) {
    gather_rows(t, x);
    return;
  }
  const fl_view v = fl_tile_view(t, x->arg, x->level);
  x->fn.gather(t->reg[x->v], fl_tile_origin(t, x->arg, &v), t->reg[x->a],
               t->g->k->operand[x->arg].gstride, v.w, v.at, n);
}

static void iota(fl_tile *t, int operand, int level, void *y, int64_t n) {
  const fl_view v = fl_tile_view(t, operand, level);
  t->g->vm->iota(y, v.w, t->g->k->operand[operand].offset + v.shift, v.at, n);
}

static void report_index(fl_tile *t, const fl_vop *x, int64_t size, int64_t n) {
  if (x->reg) iota(t, x->reg - 1, x->level, t->reg[x->c], n);
  t->g->vm->report(t->reg[x->a], size, t->reg[x->c], n, x->uni, x->flags, x->arg, t->fault);
}

/* Checks n indices; their positions are needed only to report a bad one. The next tile's indices
** are prefetched: nothing else hides the latency, as hardware prefetches only within a page. */
static void check_index(fl_tile *t, const fl_vop *x, int64_t n) {
  const fl_vm *vm = t->g->vm;
  const int64_t size = *(const int64_t *)t->reg[x->b];
  const uintptr_t next = (uintptr_t)t->reg[x->a] + (uintptr_t)n * 8;
  const int far = t->g->k->points >= FAR_POINTS && t->reg[x->a] != fl_tile_own(t, x->a);
  const int in_place = t->reg[x->v] == t->reg[x->a];     /* what it reads is overwritten */
  for (int64_t i = 0; far && i < n; i += 8)
    __builtin_prefetch((const void *)(next + (uintptr_t)i * 8));
  if (in_place) report_index(t, x, size, n);
  if (vm->index(t->reg[x->v], t->reg[x->a], size, n, x->flags) || in_place) return;
  report_index(t, x, size, n);
}

/* The number of elements from one row to the next of an operand. Bits 0 and 4 of 'uni' together say
** that it has one element per row; bit 4 alone, that one row serves for all rows, and bit 0 alone,
** that one element serves for all: the step is 0 then. */
static int64_t row_step(const fl_tile *t, int uni) {
  const int bits = uni & 17;
  return bits == 0 ? t->cols : bits == 17;
}

/* Does an operation one row at a time, since some of its operands have one element per row. */
static void op_rows(fl_tile *t, const fl_vop *x) {
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

static void chain(fl_tile *t, const fl_vop *x, int64_t n) {
  const fl_prog *g = t->g;
  const fl_chain *c = &g->chain.at[x->arg];
  const int half = x->target && g->k->operand[g->k->store[x->target - 1].operand].dtype ==
                   FLAME_BF16 && is_aimed(t, x->v);
  /* with 'half' the chain writes bf16 and so rounds itself: a last link that rounds is left out */
  const int count = c->n - (half && c->link[c->n - 1].op == FL_LINK_round_half);
  fl_vm_link link[FL_CHAIN];
  for (int i = 0; i < count; i++) {
    const uint16_t v = c->link[i].v;
    link[i] = (fl_vm_link){ .op = c->link[i].op, .saved = c->link[i].saved,
                            .moves = !(c->link[i].uni & 1),
                            .p = v == FL_NO_REG ? NULL : t->reg[v],
                            .row = c->by_row && v != FL_NO_REG ? row_step(t, c->link[i].uni) : 0 };
    if (link[i].op == FL_LINK_load_half && !is_half(t, v)) link[i].op = FL_LINK_load;
  }
  g->vm->pairs->chain[c->reg](t->reg[x->v], link, count, c->by_row ? t->rows : 1,
                              c->by_row ? t->cols : n, half);
}

void fl_tile_run(fl_tile *t, const fl_section *s) {
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
      case FL_V_FILL: x->fn.fill(r[x->v], r[x->a], x->level == 1 ? g->full : n); break;
      case FL_V_SPREAD: spread(t, x); break;
      case FL_V_REDUCE: (g->mode == FL_MODE_WHOLE ? reduce_whole : reduce)(t, x); break;
      case FL_V_STORE: store(t, x); break;
      default: break;
    }
  }
}
