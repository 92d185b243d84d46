/*
** The tables of the race check, and its time. A launch gets stamps above all those so far, so what
** earlier launches left in a table is older. The tables are cleared only when stamps reach their
** end (after thousands of launches) or a table must grow. Within a block, stamps count barriers;
** when the bits for barriers are used up, all stamps of the block are renumbered so that only the
** last barriers are still distinguished. If there are more blocks than fit the bits (2^24 in the
** largest kernels), the last ones count as one.
*/
#include "kernel/lanes/lane_state.h"
#include <string.h>

enum { LOW_BITS = 11, MOST_INS_BITS = 20, LEAST_TICK_BITS = 8, MOST_TICK_BITS = 16 };

static int bits_of(int64_t n) {
  int k = 0;
  while (n >> k) k++;
  return k;
}

/* ---- which arrays need marks --------------------------------------------------------- */

/* The first variable with the same array as variable k, since an array may be passed for two
** parameters: of the same type and not shorter; k if there is none before. -1: k is no pointer
** parameter. */
static int first_of(const fl_lane_code *c, const fl_lane_launch *l, int k) {
  const fl_lane_array *a = &c->arrays[k];
  if (a->kind != FL_KV_POINTER || a->param < 0) return -1;
  const fl_lane_memory *mem = &l->args[a->param].memory[a->leaf];
  for (int j = 0; j < k; j++) {
    const fl_lane_array *b = &c->arrays[j];
    if (b->kind != FL_KV_POINTER || b->param < 0 || b->type != a->type) continue;
    const fl_lane_memory *other = &l->args[b->param].memory[b->leaf];
    if (other->data == mem->data && other->bytes >= mem->bytes) return j;
  }
  return k;
}

/* Places the marks (recorded accesses) of n elements of an array with these 'uses'
** (fl_lane_array.uses) at base + at; with base NULL it only counts them. Returns the position after
** them. */
static int64_t place(fl_lane_marks *m, int uses, int64_t n, int64_t *base, int64_t at) {
  if (!(uses & FL_LANE_WRITE) && !((uses & FL_LANE_ATOMIC) && (uses & FL_LANE_READ))) return at;
  int64_t **role[] = { &m->write, &m->change, &m->changer, &m->read, &m->reader };
  for (int k = 0; k < 5; k++) {
    if ((k == 1 || k == 2) && !(uses & FL_LANE_ATOMIC)) continue;
    if (k > 2 && !(uses & FL_LANE_READ)) continue;
    if (base) *role[k] = base + at;
    at += n;
  }
  return at;
}

/* Places the marks of all arrays in global memory; returns their number. */
static int64_t place_all(fl_lane_shadow *w, const fl_lane_code *c, const fl_lane_launch *l,
                         int64_t *base) {
  int64_t at = 0;
  for (int k = 0; k < c->n_vars; k++) {
    const int first = first_of(c, l, k);
    if (first < 0) continue;
    if (first < k) { w->of[k] = w->of[first]; continue; }
    const fl_lane_array *a = &c->arrays[k];
    int uses = a->uses;
    for (int j = k + 1; j < c->n_vars; j++)
      if (first_of(c, l, j) == k) uses |= c->arrays[j].uses;
    at = place(&w->of[k], uses, l->args[a->param].memory[a->leaf].bytes / fl_kt_size(a->type),
               base, at);
    if (at > INT64_MAX / 128) return at;                          /* more than any memory */
  }
  return at;
}

/* Places the marks of shared memory: each array has its own, but arrays of dynamic size share
** theirs. */
int64_t fl_lane_shared_marks(fl_lane_state *s, int64_t *base) {
  const fl_lane_code *c = s->code;
  const int64_t dynamic = s->launch->shared_bytes;
  fl_lane_marks of_dynamic = { 0 };
  int uses = 0, unit = 8;
  for (int k = 0; k < c->n_vars; k++) {
    if (c->arrays[k].kind != FL_KV_SHARED) continue;
    uses |= c->arrays[k].uses;
    if (c->arrays[k].dynamic && fl_kt_size(c->arrays[k].type) < unit)
      unit = fl_kt_size(c->arrays[k].type);
  }
  int64_t at = place(&of_dynamic, uses, dynamic / unit, base, 0);
  for (int k = 0; k < c->n_vars; k++) {
    const fl_lane_array *a = &c->arrays[k];
    fl_lane_view *v = &s->views[k];
    fl_lane_marks m = of_dynamic;
    if (a->kind != FL_KV_SHARED) continue;
    if (!a->dynamic) at = place(&m, uses, a->count, base, at);
    if (base) v->marks = m;
    if (base) v->step = a->dynamic ? fl_kt_size(a->type) / unit : 1;
  }
  return at;
}

/* ---- launches ------------------------------------------------------------------------ */

fl_lane_shadow *fl_lane_shadow_new(fl_mem *m) {
  fl_lane_shadow *w = fl_zalloc(m, sizeof *w);
  if (w) w->mem = m;
  return w;
}

static void drop_cells(fl_lane_shadow *w) {
  fl_free(w->mem, w->cells, (size_t)w->n_cells * sizeof *w->cells);
  w->cells = NULL;
  w->n_cells = w->n_used = 0;
}

void fl_lane_shadow_end(fl_lane_shadow *w, int64_t most) {
  fl_free(w->mem, w->of, (size_t)w->n_vars * sizeof *w->of);
  w->of = NULL;
  w->n_vars = 0;
  w->n_used = 0;
  if (w->n_cells * (int64_t)sizeof *w->cells > most) drop_cells(w);
}

void fl_lane_shadow_free(fl_lane_shadow *w) {
  if (!w) return;
  fl_lane_shadow_end(w, -1);
  fl_free(w->mem, w, sizeof *w);
}

/* Gives the launch its stamps, and clears the tables if stamps must begin again. */
static void take_stamps(fl_lane_shadow *w, const fl_lane_code *c, const fl_lane_launch *l) {
  const int64_t blocks = fl_lane_blocks(l);
  int ins = bits_of(c->ins.n), tick;
  if (ins > MOST_INS_BITS) ins = MOST_INS_BITS;
  tick = 62 - LOW_BITS - ins - bits_of(blocks);
  w->tick_bits = tick < LEAST_TICK_BITS ? LEAST_TICK_BITS
               : tick > MOST_TICK_BITS ? MOST_TICK_BITS : tick;
  w->tick_shift = LOW_BITS + ins;
  w->block_shift = w->tick_shift + w->tick_bits;
  const int64_t room = (INT64_MAX >> w->block_shift) - 2;
  w->most = blocks < room ? blocks : room;
  int64_t first = (w->next >> w->block_shift) + 1;
  if (first > room + 2 - w->most) {
    if (w->cells) memset(w->cells, 0, (size_t)w->n_cells * sizeof *w->cells);
    first = 1;
  }
  w->first = first << w->block_shift;
  w->next = w->first + (w->most << w->block_shift) - 1;
}

int fl_lane_shadow_again(fl_lane_shadow *w, const fl_lane_code *c, const fl_lane_launch *l) {
  const int64_t before = w->first;
  take_stamps(w, c, l);
  return w->first <= before;
}

int fl_lane_shadow_begin(fl_lane_shadow *w, const fl_lane_code *c, const fl_lane_launch *l,
                         fl_error *e) {
  fl_lane_shadow_end(w, INT64_MAX);
  w->of = fl_zalloc(w->mem, (size_t)c->n_vars * sizeof *w->of);
  if (!w->of) goto fail;
  w->n_vars = c->n_vars;
  const int64_t n = place_all(w, c, l, NULL);
  if (n > w->n_cells) {
    drop_cells(w);
    if (n > INT64_MAX / 128) goto fail;
    w->cells = fl_zalloc(w->mem, (size_t)n * sizeof *w->cells);
    if (!w->cells) goto fail;
    w->n_cells = n;
    w->next = 0;
  }
  w->n_used = place_all(w, c, l, w->cells);
  take_stamps(w, c, l);
  return 1;
fail:
  fl_fail(e, FLAME_NO_MEMORY, "kernel", "no memory for the race check of '%s'", c->func->name);
  return 0;
}

/* ---- time ---------------------------------------------------------------------------- */

enum { N_ORDERS = 1 + FL_LANE_MAX_BLOCK / FL_LANE_WARP };

/* How many of 'orders' (the stamps of the block's last barrier and of each warp's last one) are at
** or before stamp x: the time that x gets when stamps are renumbered. */
static int64_t rank(const int64_t *orders, int64_t x) {
  int64_t n = 0;
  for (int k = 0; k < N_ORDERS; k++) n += orders[k] <= x;
  return n;
}

static void renumber_cells(const fl_lane_state *s, const int64_t *orders, int64_t *cell,
                           int64_t n) {
  const int shift = s->launch->shadow->tick_shift;
  const int64_t block = s->order.block, low = ((int64_t)1 << shift) - 1;
  for (int64_t k = 0; k < n; k++)
    if (cell[k] >= block) cell[k] = block + (rank(orders, cell[k]) << shift) + (cell[k] & low);
}

static void renumber(fl_lane_state *s) {
  const fl_lane_shadow *w = s->launch->shadow;
  int64_t orders[N_ORDERS];
  orders[0] = s->order.epoch;
  memcpy(orders + 1, s->warp_order, sizeof s->warp_order);
  renumber_cells(s, orders, w->cells, w->n_used);
  renumber_cells(s, orders, s->shared_cells, s->n_shared_cells);
  s->clock = s->order.block + ((int64_t)N_ORDERS << w->tick_shift);
  for (int k = 0; k < N_ORDERS; k++)
    *(k ? &s->warp_order[k - 1] : &s->order.epoch) =
        s->order.block + (rank(orders, orders[k]) << w->tick_shift);
}

void fl_lane_time_tick(fl_lane_state *s) {
  const fl_lane_shadow *w = s->launch->shadow;
  if (!s->order.block) return;                                   /* no race check */
  if (((s->clock - s->order.block) >> w->tick_shift) + 1 >= (int64_t)1 << w->tick_bits) renumber(s);
  s->clock += (int64_t)1 << w->tick_shift;
}

void fl_lane_time_begin(fl_lane_state *s) {
  const fl_lane_shadow *w = s->launch->shadow;
  const int64_t number = s->block < w->most ? s->block : w->most - 1,
                block = w->first + (number << w->block_shift);
  if (block != s->order.block) s->clock = block;
  else fl_lane_time_tick(s);
  s->order = (fl_lane_order){ w->first, block, s->clock };
  for (size_t k = 0; k < sizeof s->warp_order / sizeof *s->warp_order; k++)
    s->warp_order[k] = s->clock;
}
