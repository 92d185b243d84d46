/*
** What FLAME_CHECK finds in addition to wrong indices: races, values that were never set, division
** by zero. Two accesses of different threads to one element, at least one a write, are a race
** unless a barrier (__syncthreads, or __syncwarp within a warp) lies between them; no barrier
** separates threads of two blocks. Atomics do not race with each other, nor with loads that only
** guess what an atomicCAS will find (facts/guess.h); nor do writes of a value that is there
** already. A kernel with fences (__threadfence) may order its blocks itself: accesses of different
** blocks are then not compared.
*/
#include "kernel/lanes/lane_state.h"
#include <string.h>

int fl_lane_watched(const fl_lane_state *s, int var) {
  const unsigned c = s->launch->checks;
  const fl_lane_array *a = &s->code->arrays[var];
  switch (a->kind) {
    case FL_KV_SHARED: return (c & (FL_LANE_RACE | FL_LANE_UNINIT)) != 0;
    case FL_KV_ARRAY: return (c & FL_LANE_UNINIT) && a->param < 0;
    case FL_KV_POINTER: return (c & FL_LANE_RACE) && s->launch->shadow;
    default: return 0;
  }
}

/* ---- races --------------------------------------------------------------------------- */

/* May the recorded access 'old' and an access of this lane now happen at the same time? */
static int unordered(const fl_lane_state *s, const fl_lane_touch *old, int64_t lane) {
  if (!old->block) return 0;
  if (old->block != s->block + 1) return !s->code->fences;
  if (old->lane == lane || old->epoch != s->epoch) return 0;
  const int64_t warp = lane / FL_LANE_WARP;
  return old->lane / FL_LANE_WARP != warp || old->warp_epoch == s->warp_epoch[warp];
}

static int race(fl_lane_state *s, const fl_lane_ins *p, int64_t lane, int64_t index, int how,
                const fl_lane_touch *old, int old_write) {
  fl_lane_fault(s, p, FL_LANE_RACED, lane);
  fl_lane_report *r = s->report;
  r->index = index;
  r->at.write = (how & FL_LANE_WRITE) != 0;
  r->at.atomic = (how & FL_LANE_ATOMIC) != 0;
  r->other = (fl_lane_place){ .block = old->block - 1, .thread = old->lane, .line = old->line,
                              .write = (uint8_t)old_write, .atomic = old->atomic };
  return 0;
}

/* The later of two recorded accesses by other threads that may race with this one; NULL: none. */
static const fl_lane_touch *met(const fl_lane_state *s, const fl_lane_touch *last,
                                const fl_lane_touch *other, int64_t lane) {
  return unordered(s, last, lane) ? last : unordered(s, other, lane) ? other : NULL;
}

static void note(fl_lane_touch *last, fl_lane_touch *other, const fl_lane_touch *now) {
  if (last->block != now->block || last->lane != now->lane) *other = *last;
  *last = *now;
}

static int meet(fl_lane_state *s, const fl_lane_ins *p, int64_t lane, int64_t index, int how,
                fl_lane_cell *c) {
  const int atomic = (how & FL_LANE_ATOMIC) != 0, writes = (how & FL_LANE_WRITE) != 0,
            guess = (how & FL_LANE_GUESS) != 0, same = (how & FL_LANE_SAME) != 0;
  fl_lane_touch now = { .block = s->block + 1, .lane = (int32_t)lane, .epoch = s->epoch,
                        .warp_epoch = s->warp_epoch[lane / FL_LANE_WARP], .line = p->line,
                        .atomic = (uint8_t)atomic };
  const fl_lane_touch *wrote = unordered(s, &c->write, lane) ? &c->write : NULL, *read = NULL;
  if (wrote && !writes && wrote->same) wrote = NULL;
  if (!wrote && !atomic && !guess) wrote = met(s, &c->change, &c->changer, lane);
  if (wrote && !same) return race(s, p, lane, index, how, wrote, 1);
  now.same = wrote != NULL;
  if (writes && !same) read = met(s, &c->read, &c->reader, lane);
  if (read) return race(s, p, lane, index, how, read, 0);
  if (atomic) note(&c->change, &c->changer, &now);
  else if (writes) c->write = now;
  else if (!guess) note(&c->read, &c->reader, &now);
  return 1;
}

/* ---- values that were never set ------------------------------------------------------ */

static int unset(fl_lane_state *s, const fl_lane_ins *p, int64_t lane, int64_t index) {
  fl_lane_fault(s, p, FL_LANE_UNSET, lane);
  s->report->index = index;
  return 0;
}

static int is_set(fl_lane_state *s, const fl_lane_ins *p, int64_t lane, int64_t index, int how,
                  uint8_t *set, int64_t bytes) {
  if (!(how & FL_LANE_WRITE) || (how & FL_LANE_ATOMIC)) {
    if (!*set) return unset(s, p, lane, index);
  }
  if (how & FL_LANE_WRITE) memset(set, 1, (size_t)bytes);
  return 1;
}

/* Slots per lane are numbered over both widths: narrow ones first. */
static uint8_t *local_flag(const fl_lane_state *s, const fl_lane_array *a, int64_t index,
                           int64_t lane) {
  const int64_t before = a->offset + (a->wide ? s->code->local4 : 0);
  return s->local_set + (before + index) * s->n + lane;
}

int fl_lane_touched(fl_lane_state *s, const fl_lane_ins *p, int64_t lane, int64_t index, int how) {
  const fl_lane_array *a = &s->code->arrays[p->var];
  const int64_t size = fl_kt_size(a->type);
  if (a->kind == FL_KV_ARRAY)
    return is_set(s, p, lane, index, how, local_flag(s, a, index, lane), 1);
  if (a->kind == FL_KV_POINTER) {
    const struct fl_lane_shade *of = &s->launch->shadow->of[p->var];
    return index >= of->n || meet(s, p, lane, index, how, &of->at[index]);
  }
  const int64_t byte = s->views[p->var].base - s->shared + index * size;
  if (s->shared_set && !is_set(s, p, lane, index, how, s->shared_set + byte, size)) return 0;
  return !s->shared_cells || meet(s, p, lane, index, how, &s->shared_cells[byte]);
}

void fl_lane_do_begin(fl_lane_state *s, const fl_lane_ins *p) {
  if (!(s->launch->checks & FL_LANE_UNINIT)) return;
  const fl_lane_array *a = &s->code->arrays[p->var];
  if (p->m >= 0) {
    s->table->mask_without(s->tracks + p->m * s->n, s->tracks + p->m * s->n, s->now.at, s->n);
    return;
  }
  for (int64_t e = 0; e < a->count; e++)
    for (int64_t i = 0; i < s->n; i++)
      if (s->now.at[i]) *local_flag(s, a, e, i) = a->param >= 0;
}

void fl_lane_do_set(fl_lane_state *s, const fl_lane_ins *p) {
  if (!(s->launch->checks & FL_LANE_UNINIT)) return;
  int32_t *set = s->tracks + p->m * s->n;
  for (int64_t i = 0; i < s->n; i++) set[i] |= s->now.at[i];
}

int fl_lane_do_check(fl_lane_state *s, const fl_lane_ins *p) {
  if (!(s->launch->checks & FL_LANE_UNINIT)) return 1;
  const int32_t *set = s->tracks + p->m * s->n;
  for (int64_t i = 0; i < s->n; i++)
    if (s->now.at[i] & ~set[i]) return unset(s, p, i, -1);
  return 1;
}

int fl_lane_do_divisor(fl_lane_state *s, const fl_lane_ins *p) {
  if (!(s->launch->checks & FL_LANE_BOUNDS)) return 1;
  const int uniform = s->code->regs.at[p->a].uniform, wide = fl_lane_wide(p->type);
  const char *v = s->reg[p->a];
  for (int64_t i = 0; i < s->n; i++) {
    int64_t x = 0;
    memcpy(&x, v + (uniform ? 0 : i * (wide ? 8 : 4)), wide ? 8 : 4);
    if (s->now.at[i] && !x) return fl_lane_fault(s, p, FL_LANE_DIVISION, i);
    if (uniform && x) return 1;
  }
  return 1;
}

/* ---- the shadow of global memory ----------------------------------------------------- */

fl_lane_shadow *fl_lane_shadow_new(fl_mem *m, const fl_lane_code *c, const fl_lane_launch *l,
                                   fl_error *e) {
  fl_lane_shadow *w = fl_zalloc(m, sizeof *w);
  if (!w) goto fail;
  w->mem = m;
  w->n = c->n_vars;
  w->of = fl_zalloc(m, (size_t)w->n * sizeof *w->of);
  if (!w->of) goto fail;
  for (int k = 0; k < w->n; k++) {
    const fl_lane_array *a = &c->arrays[k];
    if (a->kind != FL_KV_POINTER || a->param < 0) continue;
    const fl_lane_memory *mem = &l->args[a->param].memory[a->leaf];
    const int64_t n = mem->bytes / fl_kt_size(a->type);
    for (int j = 0; j < k && !w->of[k].at; j++) {                 /* one array given twice */
      const fl_lane_array *b = &c->arrays[j];
      if (b->kind != FL_KV_POINTER || b->param < 0 || b->type != a->type) continue;
      if (l->args[b->param].memory[b->leaf].data != mem->data || w->of[j].n < n) continue;
      w->of[k] = w->of[j];
      w->of[k].borrowed = 1;
    }
    if (w->of[k].at || !n) continue;
    if ((uint64_t)n > (uint64_t)INT64_MAX / sizeof(fl_lane_cell)) goto fail;
    w->of[k].at = fl_zalloc(m, (size_t)n * sizeof(fl_lane_cell));
    if (!w->of[k].at) goto fail;
    w->of[k].n = n;
  }
  return w;
fail:
  fl_lane_shadow_free(w);
  fl_fail(e, FLAME_NO_MEMORY, "kernel", "no memory for the race check of '%s'", c->func->name);
  return NULL;
}

void fl_lane_shadow_free(fl_lane_shadow *w) {
  if (!w) return;
  for (int k = 0; w->of && k < w->n; k++)
    if (!w->of[k].borrowed) fl_free(w->mem, w->of[k].at, (size_t)w->of[k].n * sizeof(fl_lane_cell));
  fl_free(w->mem, w->of, w->of ? (size_t)w->n * sizeof *w->of : 0);
  fl_free(w->mem, w, sizeof *w);
}
