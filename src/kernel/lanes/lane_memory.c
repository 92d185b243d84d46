/*
** Loads, stores and atomics of a block. An index is classified once (fl_lane_do_index): consecutive
** elements are one copy, the rows of a block one copy each, other indices are gathered. Ranges are
** first checked for all lanes together, and lane by lane only if that check fails (those of atomics
** always lane by lane).
*/
#include "kernel/lanes/lane_state.h"
#include <string.h>

static int64_t element_size(const fl_lane_array *a) {
  return a->kind == FL_KV_TABLE || a->kind == FL_KV_ARRAY ? (a->wide ? 8 : 4) : fl_kt_size(a->type);
}

/* The type of an element in memory; tables and local arrays hold slots, which are copied as
** integers of their size. */
static int memory_type(const fl_lane_array *a) {
  if (a->kind != FL_KV_TABLE && a->kind != FL_KV_ARRAY) return a->type;
  return a->wide ? FL_KT_I64 : FL_KT_I32;
}

/* Has the block several rows of threads (equal y and z), of at least 8 threads each, in which
** indices rise by 1? Then register p->dst gets the first index of each row, and q->low and q->high
** the range of all indices. */
static int find_rows(const fl_lane_state *s, fl_lane_info *q, const fl_lane_ins *p) {
  const char *a = s->reg[p->a];
  int64_t *at = s->reg[p->dst];
  const int64_t n = s->n, w = s->launch->block[0], slot = fl_lane_wide(p->type) ? 8 : 4;
  if (w < 8 || w == n) return 0;
  q->low = INT64_MAX;
  q->high = INT64_MIN;
  for (int64_t r = 0; r < n; r += w) {
    if (!s->table->in_a_row[p->type](a + r * slot, w)) return 0;
    const int64_t first = fl_lane_integer(a, p->type, r);
    at[r / w] = first;
    if (first < q->low) q->low = first;
    if (first + w - 1 > q->high) q->high = first + w - 1;
  }
  return 1;
}

void fl_lane_do_index(fl_lane_state *s, const fl_lane_ins *p) {
  fl_lane_info *q = &s->infos[p->x];
  const void *a = s->reg[p->a];
  const int64_t n = s->n;
  if ((p->lazy & 1) && fl_lane_index_linear(s, p, q)) return;
  if (p->lazy) fl_lane_spread_operands(s, p);
  q->rows = q->flat = q->linear = 0;
  q->row = (uint8_t)s->table->in_a_row[p->type](a, n);
  if (q->row) {
    q->first = q->low = fl_lane_integer(a, p->type, 0);
    q->high = q->first + n - 1;
    return;
  }
  q->rows = (uint8_t)find_rows(s, q, p);
  if (q->rows) return;
  int64_t *at = s->reg[p->dst];
  if (fl_lane_wide(p->type)) memcpy(at, a, (size_t)n * sizeof *at);
  else s->table->cast[p->type][FL_KT_I64](at, a, NULL, NULL, n, 0);
  s->table->range(at, n, &q->low, &q->high);
}

const int64_t *fl_lane_starts(fl_lane_state *s, const fl_lane_ins *p) {
  const fl_lane_info *q = &s->infos[p->x];
  if (!q->linear) return s->reg[p->a];
  int64_t at = q->first, r = 0;
  for (int64_t k = 0; k < s->depth; k++, at += q->turn)
    for (int64_t j = 0; j < s->height; j++, at += q->step) s->starts[r++] = at;
  return s->starts;
}

/* The indices of all lanes, in memory that the caller may overwrite. */
static int64_t *lane_indices(fl_lane_state *s, const fl_lane_ins *p) {
  const fl_lane_info *q = p->x >= 0 ? &s->infos[p->x] : NULL;
  if (!q || q->row) {
    const int64_t first = q ? q->first : *(const int64_t *)s->reg[p->a];
    for (int64_t i = 0; i < s->n; i++) s->at[i] = q ? first + i : first;
  } else if (q->rows || q->flat) {
    const int64_t *start = fl_lane_starts(s, p), w = s->width, step = q->rows;
    for (int64_t r = 0; r < s->rows; r++)
      for (int64_t i = 0; i < w; i++) s->at[r * w + i] = start[r] + i * step;
  } else {
    memcpy(s->at, s->reg[p->a], (size_t)s->n * sizeof *s->at);
  }
  return s->at;
}

/* Is the index negative or above 'last'? The sign bits of the index and of its distance to the last
** one say it without a branch. */
static uint64_t is_out(int64_t at, uint64_t last) {
  return ((uint64_t)at | (last - (uint64_t)at)) >> 63;
}

/* Are all n indices in range? */
static int all_in_range(const int64_t *at, int64_t n, int64_t count) {
  const uint64_t last = (uint64_t)(count - 1);
  uint64_t out = 0;
  for (int64_t i = 0; i < n; i++) out |= (uint64_t)at[i] | (last - (uint64_t)at[i]);
  return !(out >> 63);
}

/* Checks that the indices of all active lanes are in range (0: a fault), and sets those of the
** other lanes to valid ones. */
static int check_lanes(fl_lane_state *s, const fl_lane_ins *p, int64_t *at, int64_t count) {
  if (all_in_range(at, s->n, count)) return 1;
  const uint64_t last = (uint64_t)(count - 1);
  uint64_t out = 0;
  int64_t good = 0;
  for (int64_t i = 0; i < s->n; i++) {
    out |= is_out(at[i], last) & (s->now.at[i] != 0);
    good = s->now.at[i] ? at[i] : good;
  }
  for (int64_t i = 0; out; i++)
    if (s->now.at[i] && is_out(at[i], last))
      return fl_lane_fault_at(s, p, FL_LANE_INDEX, i, at[i]);
  for (int64_t i = 0; i < s->n; i++) at[i] = is_out(at[i], last) ? good : at[i];
  return 1;
}

static int how_read(const fl_lane_ins *p) { return p->sub ? FL_LANE_GUESS : FL_LANE_READ; }

/* Records and checks the accesses of all active lanes. 0: a fault. */
static int watch(fl_lane_state *s, const fl_lane_ins *p, const int64_t *at, int how) {
  for (int64_t i = 0; i < s->n; i++)
    if (s->now.at[i] && !fl_lane_touched(s, p, i, at[i], how)) return 0;
  return 1;
}

/* Converts indices of elements of a local array to those of slots: element e of lane i is slot
** e n + i. */
static void to_slots(const fl_lane_state *s, int64_t *at) {
  for (int64_t i = 0; i < s->n; i++) at[i] = at[i] * s->n + i;
}

/* ---- loads --------------------------------------------------------------------------- */

static int load_uniform(fl_lane_state *s, const fl_lane_ins *p, void *out) {
  const fl_lane_view *v = &s->views[p->var];
  const fl_lane_array *a = &s->code->arrays[p->var];
  const int64_t index = *(const int64_t *)s->reg[p->a];
  const int type = memory_type(a);
  if ((uint64_t)index >= (uint64_t)v->count)
    return fl_lane_fault_at(s, p, FL_LANE_INDEX, fl_lane_first(s), index);
  if (v->watched && !fl_lane_touched_all(s, p, how_read(p)) &&
      !watch(s, p, lane_indices(s, p), how_read(p))) return 0;
  if (a->kind == FL_KV_ARRAY)
    s->table->load[type](out, v->base + index * s->n * element_size(a), s->n);
  else s->table->load[type](out, v->base + index * element_size(a), 1);
  return 1;
}

void fl_lane_span(const fl_lane_state *s, int64_t *first, int64_t *last) {
  int64_t i = 0, j = s->n - 1;
  while (!s->now.at[i]) i++;
  while (!s->now.at[j]) j--;
  *first = i;
  *last = j;
}

/* Loads consecutive elements, of lane i that of index first + i. 0: a fault. */
static int load_row(fl_lane_state *s, const fl_lane_ins *p, char *out, int64_t first) {
  const fl_lane_view *v = &s->views[p->var];
  const fl_lane_array *a = &s->code->arrays[p->var];
  const int64_t size = element_size(a), slot = a->wide ? 8 : 4;
  int64_t i = 0, j = s->n - 1;
  if (first < 0 || first + s->n > v->count) fl_lane_span(s, &i, &j);
  if (first + i < 0 || first + j >= v->count) {
    while (!s->now.at[i] || (uint64_t)(first + i) < (uint64_t)v->count) i++;
    return fl_lane_fault_at(s, p, FL_LANE_INDEX, i, first + i);
  }
  if (p->fn > 0 && j - i + 1 == s->n) {
    s->reg[p->dst] = v->base + first * size;
    return 1;
  }
  s->table->load[memory_type(a)](out + i * slot, v->base + (first + i) * size, j - i + 1);
  return 1;
}

/* Loads rows of consecutive elements, or one element for each row. */
static void load_rows(const fl_lane_state *s, const fl_lane_view *v, const fl_lane_array *a,
                      const fl_lane_info *q, const int64_t *at, char *out) {
  const int64_t w = s->width, size = element_size(a), slot = a->wide ? 8 : 4;
  const int type = memory_type(a);
  if (size == slot) {
    (q->flat ? s->table->load_flat : s->table->load_rows)[a->wide](out, v->base, at, s->rows, w);
    return;
  }
  for (int64_t r = 0; r < s->rows; r++, out += w * slot) {
    s->table->load[type](out, v->base + at[r] * size, q->flat ? 1 : w);
    if (q->flat) s->table->splat[a->wide](out, out, NULL, NULL, w, 0);
  }
}

/* Leaves the value, f32, in memory: the register refers to the rows there. */
static void keep_rows(fl_lane_state *s, const fl_lane_ins *p, const fl_lane_info *q) {
  const char *base = s->views[p->var].base;
  s->rows_of[p->dst] = (fl_lane_rows){ base + q->first * 4, q->step * 4,
                                       (q->turn + q->step * s->height) * 4, 1 + q->flat };
}

void fl_lane_settle(fl_lane_state *s, int32_t reg) {
  fl_lane_rows *x = &s->rows_of[reg];
  if (!x->on) return;
  int64_t r = 0;
  for (int64_t k = 0; k < s->depth; k++)
    for (int64_t j = 0; j < s->height; j++)
      s->starts[r++] = (j * x->step + k * x->plane) / 4;
  (x->on == 2 ? s->table->load_flat : s->table->load_rows)[0](s->reg[reg], x->base, s->starts,
                                                              s->rows, s->width);
  x->on = 0;
}

int fl_lane_do_load(fl_lane_state *s, const fl_lane_ins *p, void *out) {
  if (p->fn >= 2) s->rows_of[p->dst].on = 0;
  if (p->x < 0) return load_uniform(s, p, out);
  const fl_lane_info *q = &s->infos[p->x];
  const fl_lane_view *v = &s->views[p->var];
  const fl_lane_array *a = &s->code->arrays[p->var];
  const int type = memory_type(a);
  const int watched = v->watched && !fl_lane_touched_all(s, p, how_read(p));
  if (q->row && a->kind != FL_KV_ARRAY && !watched) return load_row(s, p, out, q->first);
  const int good = q->low >= 0 && q->high < v->count;
  if (good && !watched && a->kind != FL_KV_ARRAY) {
    if (q->linear && ((p->fn >= 2 && q->rows) || (p->fn == 2 && q->flat))) keep_rows(s, p, q);
    else if (q->rows || q->flat) load_rows(s, v, a, q, fl_lane_starts(s, p), out);
    else s->table->gather[type](out, v->base, s->reg[p->a], s->n);
    return 1;
  }
  int64_t *at = lane_indices(s, p);
  if (!good && !check_lanes(s, p, at, v->count)) return 0;
  if (watched && !watch(s, p, at, how_read(p))) return 0;
  if (a->kind == FL_KV_ARRAY) to_slots(s, at);
  s->table->gather[type](out, v->base, at, s->n);
  return 1;
}

/* ---- stores -------------------------------------------------------------------------- */

/* Stores lane by lane; step: 0 if all lanes store one value, else 1. Compares each value with the
** one that it replaces, since the race check treats a store of the same value differently. */
static int store_watched(fl_lane_state *s, const fl_lane_ins *p, const int64_t *at, int64_t step) {
  const fl_lane_array *a = &s->code->arrays[p->var];
  const int64_t size = element_size(a), slot = a->wide ? 8 : 4;
  char *base = s->views[p->var].base;
  for (int64_t i = 0; i < s->n; i++) {
    if (!s->now.at[i]) continue;
    uint64_t fresh;
    char *to = base + (a->kind == FL_KV_ARRAY ? at[i] * s->n + i : at[i]) * size;
    s->table->store[memory_type(a)](&fresh, (const char *)s->reg[p->b] + i * slot * step, 1);
    const int same = !memcmp(to, &fresh, (size_t)size);
    if (!fl_lane_touched(s, p, i, at[i], FL_LANE_WRITE | (same ? FL_LANE_SAME : 0))) return 0;
    memcpy(to, &fresh, (size_t)size);
  }
  return 1;
}

static int store_lanes(fl_lane_state *s, const fl_lane_ins *p, int good, int watched) {
  const fl_lane_array *a = &s->code->arrays[p->var];
  const fl_lane_view *v = &s->views[p->var];
  int64_t *at = lane_indices(s, p);
  if (!good && !check_lanes(s, p, at, v->count)) return 0;
  if (watched) return store_watched(s, p, at, !p->once);
  if (a->kind == FL_KV_ARRAY) to_slots(s, at);
  s->table->scatter[memory_type(a)](v->base, s->reg[p->b], at, s->now.at, s->n);
  return 1;
}

static int store_uniform(fl_lane_state *s, const fl_lane_ins *p) {
  const fl_lane_view *v = &s->views[p->var];
  const fl_lane_array *a = &s->code->arrays[p->var];
  const int64_t index = *(const int64_t *)s->reg[p->a], size = element_size(a);
  if ((uint64_t)index >= (uint64_t)v->count)
    return fl_lane_fault_at(s, p, FL_LANE_INDEX, fl_lane_first(s), index);
  if (v->watched && !fl_lane_touched_all(s, p, FL_LANE_WRITE)) return store_lanes(s, p, 1, 1);
  if (a->kind == FL_KV_ARRAY) {
    char *row = v->base + index * s->n * size;
    if (s->now.count == s->n) s->table->store[memory_type(a)](row, s->reg[p->b], s->n);
    else s->table->blend[a->wide](row, s->reg[p->b], NULL, s->now.at, s->n, 0);
    return 1;
  }
  int64_t last = s->n - 1;
  while (!s->now.at[last]) last--;
  const char *from = (const char *)s->reg[p->b] + (p->once ? 0 : last * (a->wide ? 8 : 4));
  s->table->store[a->type](v->base + index * size, from, 1);
  return 1;
}

/* Stores the active lanes of each row, span by span. */
static void store_spans(fl_lane_state *s, const fl_lane_ins *p) {
  const fl_lane_array *a = &s->code->arrays[p->var];
  const int64_t *at = fl_lane_starts(s, p), w = s->width, size = element_size(a);
  const int32_t *on = s->now.at;
  const char *from = s->reg[p->b];
  char *base = s->views[p->var].base;
  for (int64_t r = 0; r < s->rows; r++, on += w, from += w * (a->wide ? 8 : 4))
    for (int64_t i = 0, j; i < w; i = j + 1) {
      for (; i < w && !on[i]; i++) {}
      for (j = i; j < w && on[j]; j++) {}
      if (i < j)
        s->table->store[a->type](base + (at[r] + i) * size, from + i * (a->wide ? 8 : 4), j - i);
    }
}

int fl_lane_do_store(fl_lane_state *s, const fl_lane_ins *p) {
  if (p->x < 0) return store_uniform(s, p);
  const fl_lane_info *q = &s->infos[p->x];
  const fl_lane_view *v = &s->views[p->var];
  const fl_lane_array *a = &s->code->arrays[p->var];
  const int64_t size = element_size(a), slot = a->wide ? 8 : 4, n = s->n;
  const int good = q->low >= 0 && q->high < v->count, full = s->now.count == n;
  const char *from = s->reg[p->b];
  const int watched = v->watched && !fl_lane_touched_all(s, p, FL_LANE_WRITE);
  if (a->kind == FL_KV_ARRAY || watched) return store_lanes(s, p, good, watched);
  if (q->row) {
    int64_t i = 0, j = n - 1;
    if (!full) fl_lane_span(s, &i, &j);
    if (j - i + 1 == s->now.count && q->first + i >= 0 && q->first + j < v->count) {
      s->table->store[a->type](v->base + (q->first + i) * size, from + i * slot, j - i + 1);
      return 1;
    }
  } else if (q->rows && full && good) {
    const int64_t *at = fl_lane_starts(s, p), w = s->width;
    for (int64_t r = 0; r < s->rows; r++)
      s->table->store[a->type](v->base + at[r] * size, from + r * w * slot, w);
    return 1;
  } else if (q->rows && good) {
    store_spans(s, p);
    return 1;
  }
  return store_lanes(s, p, good, 0);
}

/* ---- atomics ------------------------------------------------------------------------- */

static double float_atomic(int op, double old, double v, double expected) {
  switch (op) {
    case FL_KA_ADD: return old + v;
    case FL_KA_SUB: return old - v;
    case FL_KA_MAX: return old != old || v > old ? v : old;
    case FL_KA_MIN: return old != old || v < old ? v : old;
    case FL_KA_CAS: return old == expected ? v : old;
    default: return v;
  }
}

static uint64_t int_atomic(int op, uint64_t old, uint64_t v, uint64_t expected, int is_signed) {
  const int less = is_signed ? (int64_t)old < (int64_t)v : old < v;
  switch (op) {
    case FL_KA_ADD: return old + v;
    case FL_KA_SUB: return old - v;
    case FL_KA_MAX: return less ? v : old;
    case FL_KA_MIN: return less ? old : v;
    case FL_KA_AND: return old & v;
    case FL_KA_OR: return old | v;
    case FL_KA_XOR: return old ^ v;
    case FL_KA_CAS: return old == expected ? v : old;
    case FL_KA_INC: return old >= v ? 0 : old + 1;
    case FL_KA_DEC: return old == 0 || old > v ? v : old - 1;
    default: return v;
  }
}

/* slot = op(slot, value, other): halves are rounded when they are stored. */
static void atomic_slot(int cls, int op, void *slot, const void *value, const void *other) {
#define INTEGER(I) { I x, v, e = 0; memcpy(&x, slot, sizeof x); memcpy(&v, value, sizeof v); \
    if (other) memcpy(&e, other, sizeof e); \
    x = (I)int_atomic(op, (uint64_t)x, (uint64_t)v, (uint64_t)e, (I)-1 < (I)1); \
    memcpy(slot, &x, sizeof x); break; }
#define FLOAT(F) { F x, v, e = 0; memcpy(&x, slot, sizeof x); memcpy(&v, value, sizeof v); \
    if (other) memcpy(&e, other, sizeof e); \
    x = (F)float_atomic(op, (double)x, (double)v, (double)e); memcpy(slot, &x, sizeof x); break; }
  switch (cls) {
    case FL_LC_I32: INTEGER(int32_t)
    case FL_LC_U32: INTEGER(uint32_t)
    case FL_LC_I64: INTEGER(int64_t)
    case FL_LC_U64: INTEGER(uint64_t)
    case FL_LC_F32: FLOAT(float)
    default: FLOAT(double)
  }
#undef INTEGER
#undef FLOAT
}

/* Adds to memory of f32: the common case, without calls through tables. */
static int add_f32(fl_lane_state *s, const fl_lane_ins *p, const int64_t *at) {
  float *base = (float *)(void *)s->views[p->var].base;
  const float *v = s->reg[p->b];
  float *out = p->dst >= 0 ? s->reg[p->dst] : NULL;
  for (int64_t i = 0; i < s->n; i++) {
    if (!s->now.at[i]) continue;
    const float old = base[at[i]];
    if (out) out[i] = old;
    base[at[i]] = old + v[i];
  }
  return 1;
}

int fl_lane_do_atomic(fl_lane_state *s, const fl_lane_ins *p) {
  const fl_lane_array *a = &s->code->arrays[p->var];
  const fl_lane_view *v = &s->views[p->var];
  const int64_t size = element_size(a), slot = a->wide ? 8 : 4;
  const int cls = fl_lane_class_of(p->type), watched = v->watched;
  const char *value = s->reg[p->b], *other = p->c >= 0 ? s->reg[p->c] : NULL;
  char *out = p->dst >= 0 ? s->reg[p->dst] : NULL;
  int64_t *at = lane_indices(s, p);
  if (!check_lanes(s, p, at, v->count)) return 0;
  if (p->type == FL_KT_F32 && p->sub == FL_KA_ADD && !watched) return add_f32(s, p, at);
  for (int64_t i = 0; i < s->n; i++) {
    if (!s->now.at[i]) continue;
    uint64_t x = 0;
    if (watched && !fl_lane_touched(s, p, i, at[i], FL_LANE_WRITE | FL_LANE_ATOMIC)) return 0;
    s->table->load[p->type](&x, v->base + at[i] * size, 1);
    if (out) memcpy(out + i * slot, &x, (size_t)slot);
    atomic_slot(cls, p->sub, &x, value + i * slot, other ? other + i * slot : NULL);
    s->table->store[p->type](v->base + at[i] * size, &x, 1);
  }
  return 1;
}
