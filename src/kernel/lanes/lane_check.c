/*
** What FLAME_CHECK finds in addition to wrong indices: races, values that were never set, division
** by zero. Two accesses of different threads to one element, at least one a write, are a race
** unless a barrier (__syncthreads, or __syncwarp within a warp) lies between them; only a barrier
** of the grid separates threads of two blocks. Atomics do not race with each other, nor with loads
** that only guess what an atomicCAS will find (facts/guess.h); a write of the value that is already
** there does not race with accesses before it nor, if another thread wrote that value, with reads
** after it. A kernel with fences (__threadfence) may order its blocks itself: accesses of different
** blocks are then not compared.
**
** An access is recorded as a stamp, a number that grows with time. From its highest bits: the
** block, the barriers that it has met so far, the instruction, 'same' (a write: other threads wrote
** this value too), the lane. So one comparison tells whether an access belongs to this launch, to
** this block, or to the time since a barrier, and tables need no clearing (lane_shadow.c).
** An array that is only read, or only changed by atomics, needs no marks.
*/
#include "kernel/lanes/lane_state.h"
#include <string.h>

enum { SAME = FL_LANE_LANES + 1, INS_SHIFT = 11 };
enum { NO_LANE = -2 * FL_LANE_MAX_BLOCK };                      /* a lane that no thread has */

/* ---- races --------------------------------------------------------------------------- */

/* The stamp of an access by p now, without the lane. */
static int64_t stamp_of(const fl_lane_state *s, const fl_lane_ins *p) {
  return s->clock | (int64_t)(p - s->code->ins.at) << INS_SHIFT;
}

/* How accesses to this array are ordered: accesses of other blocks do not matter in shared memory
** and in kernels with fences. */
static fl_lane_order order_of(const fl_lane_state *s, const fl_lane_ins *p) {
  fl_lane_order o = s->order;
  if (s->code->fences || s->code->arrays[p->var].kind == FL_KV_SHARED) o.from = o.block;
  return o;
}

/* May the recorded access 'old' (0: none) and an access of this lane now happen at the same
** time? */
static int unordered(const fl_lane_state *s, const fl_lane_order *o, int64_t old, int64_t lane) {
  if (old < o->from) return 0;
  if (old < o->block) return 1;
  const int64_t other = old & FL_LANE_LANES, warp = lane / FL_LANE_WARP;
  if (other == lane || old < o->epoch) return 0;
  return other / FL_LANE_WARP != warp || old >= s->warp_order[warp];
}

static int race(fl_lane_state *s, const fl_lane_ins *p, int64_t lane, int64_t index, int how,
                int64_t old, int old_how) {
  const fl_lane_shadow *w = s->launch->shadow;
  const int64_t ins = old >> INS_SHIFT & (((int64_t)1 << (w->tick_shift - INS_SHIFT)) - 1);
  fl_lane_report *r = s->report;
  fl_lane_fault_at(s, p, FL_LANE_RACED, lane, index);
  r->at.write = (how & FL_LANE_WRITE) != 0;
  r->at.atomic = (how & FL_LANE_ATOMIC) != 0;
  r->other = (fl_lane_place){ .block = (old - w->first) >> w->block_shift,
                              .thread = (int32_t)(old & FL_LANE_LANES),
                              .line = s->code->ins.at[ins].line,
                              .write = (old_how & FL_LANE_WRITE) != 0,
                              .atomic = (old_how & FL_LANE_ATOMIC) != 0 };
  return 0;
}

/* The later of two recorded accesses of an element, *last by one thread and *other by the others,
** that may race with one by this lane; 0: neither. last NULL: they are not recorded. */
static int64_t met(const fl_lane_state *s, const fl_lane_order *o, const int64_t *last,
                   const int64_t *other, int64_t lane) {
  if (!last) return 0;
  return unordered(s, o, *last, lane) ? *last : unordered(s, o, *other, lane) ? *other : 0;
}

/* Records an access in *last; that of another thread moves to *other. */
static void note(const fl_lane_order *o, int64_t *last, int64_t *other, int64_t now) {
  if (*last < o->block || ((*last ^ now) & FL_LANE_LANES)) *other = *last;
  *last = now;
}

/* The marks of element 'index'. */
static fl_lane_marks marks_of(const fl_lane_view *v, int64_t index) {
  const int64_t k = index * v->step;
  const fl_lane_marks *m = &v->marks;
  return (fl_lane_marks){ m->write + k, m->change ? m->change + k : NULL,
                          m->changer ? m->changer + k : NULL, m->read ? m->read + k : NULL,
                          m->reader ? m->reader + k : NULL };
}

/* Compares an access with those recorded, and records it. 0: a race, which is reported. */
static int meet(fl_lane_state *s, const fl_lane_ins *p, int64_t lane, int64_t index, int how) {
  const int atomic = (how & FL_LANE_ATOMIC) != 0, writes = (how & FL_LANE_WRITE) != 0,
            guess = (how & FL_LANE_GUESS) != 0, same = (how & FL_LANE_SAME) != 0;
  const fl_lane_marks m = marks_of(&s->views[p->var], index);
  const fl_lane_order o = order_of(s, p);
  const int64_t now = stamp_of(s, p) | lane;
  int64_t wrote = unordered(s, &o, *m.write, lane) ? *m.write : 0, read = 0;
  int wrote_how = FL_LANE_WRITE;
  if (wrote && !writes && (wrote & SAME)) wrote = 0;
  if (!wrote && !atomic && !guess) {
    wrote = met(s, &o, m.change, m.changer, lane);
    wrote_how |= FL_LANE_ATOMIC;
  }
  if (wrote && !same) return race(s, p, lane, index, how, wrote, wrote_how);
  if (writes && !same) read = met(s, &o, m.read, m.reader, lane);
  if (read) return race(s, p, lane, index, how, read, FL_LANE_READ);
  if (atomic) note(&o, m.change, m.changer, now);
  else if (writes) *m.write = now | (wrote ? SAME : 0);
  else if (!guess) note(&o, m.read, m.reader, now);
  return 1;
}

/* ---- values that were never set ------------------------------------------------------ */

/* Checks that an element is set before it is read, and notes that it is written. set: its flags,
** 'bytes' of them. 0: a fault. */
static int is_set(fl_lane_state *s, const fl_lane_ins *p, int64_t lane, int64_t index, int how,
                  uint8_t *set, int64_t bytes) {
  if (!(how & FL_LANE_WRITE) || (how & FL_LANE_ATOMIC)) {
    if (!*set) return fl_lane_fault_at(s, p, FL_LANE_UNSET, lane, index);
  }
  if (how & FL_LANE_WRITE) memset(set, 1, (size_t)bytes);
  return 1;
}

/* The flag that tells whether an element of the lane's local array was set. The elements of all
** local arrays are numbered, those in slots of 4 bytes before those in slots of 8. */
static uint8_t *local_flag(const fl_lane_state *s, const fl_lane_array *a, int64_t index,
                           int64_t lane) {
  const int64_t before = a->offset + (a->wide ? s->code->local4 : 0);
  return s->local_set + (before + index) * s->n + lane;
}

int fl_lane_touched(fl_lane_state *s, const fl_lane_ins *p, int64_t lane, int64_t index, int how) {
  const fl_lane_array *a = &s->code->arrays[p->var];
  const fl_lane_view *v = &s->views[p->var];
  const int64_t size = fl_kt_size(a->type);
  if (a->kind == FL_KV_ARRAY)
    return is_set(s, p, lane, index, how, local_flag(s, a, index, lane), 1);
  if (a->kind == FL_KV_SHARED && s->shared_set &&
      !is_set(s, p, lane, index, how, s->shared_set + (v->base - s->shared) + index * size, size))
    return 0;
  return !v->marks.write || meet(s, p, lane, index, how);
}

/* ---- many lanes at once -------------------------------------------------------------- */

/* Of the n elements from 'first' on: are all recorded accesses that could race with one of kind
** 'how' certainly before the present ones, and are all shared elements set that are read? Now lane
** 'lane' accesses the first element, the next lane the next one, and so on; NO_LANE: several lanes
** access each. */
static int all_ordered(const fl_lane_state *s, const fl_lane_ins *p, int64_t first, int64_t n,
                       int64_t lane, int how) {
  const fl_lane_view *v = &s->views[p->var];
  const fl_lane_marks m = marks_of(v, first);
  const fl_lane_order o = order_of(s, p);
  const fl_lane_table *t = s->table;
  if (s->shared_set && s->code->arrays[p->var].kind == FL_KV_SHARED && how != FL_LANE_WRITE) {
    const int64_t size = fl_kt_size(s->code->arrays[p->var].type);
    if (memchr(s->shared_set + (v->base - s->shared) + first * size, 0, (size_t)(n * size)))
      return 0;
  }
  if (!v->marks.write) return 1;
  if (!t->in_order(m.write, n, &o, lane)) return 0;
  if (m.change && how != FL_LANE_GUESS &&
      (!t->in_order(m.change, n, &o, lane) || !t->in_order(m.changer, n, &o, lane))) return 0;
  return how != FL_LANE_WRITE || !m.read ||
         (t->in_order(m.read, n, &o, lane) && t->in_order(m.reader, n, &o, lane));
}

static void record_all(fl_lane_state *s, const fl_lane_ins *p, int64_t first, int64_t n,
                       int64_t lane, int how) {
  const fl_lane_view *v = &s->views[p->var];
  const fl_lane_marks m = marks_of(v, first);
  const int64_t now = stamp_of(s, p) + lane;
  if (s->shared_set && s->code->arrays[p->var].kind == FL_KV_SHARED && how == FL_LANE_WRITE) {
    const int64_t size = fl_kt_size(s->code->arrays[p->var].type);
    memset(s->shared_set + (v->base - s->shared) + first * size, 1, (size_t)(n * size));
  }
  if (!v->marks.write || how == FL_LANE_GUESS) return;
  if (how == FL_LANE_WRITE) s->table->stamp(m.write, n, now);
  else s->table->stamp_read(m.read, m.reader, n, now, s->order.block);
}

/* Records accesses whose indices rise by 1 in each row of the block; of rows that read the same
** elements only the last two. 0: nothing was recorded, since an access may be a fault, or rows of a
** write are not in order and apart. */
static int all_rows(fl_lane_state *s, const fl_lane_ins *p, int how) {
  const int64_t *at = fl_lane_starts(s, p), w = s->width, rows = s->rows;
  int same = 1, apart = 1;
  for (int64_t r = 1; r < rows; r++) {
    same &= at[r] == at[0];
    apart &= at[r] >= at[r - 1] + w;
  }
  if (how == FL_LANE_WRITE && !apart) return 0;
  for (int64_t r = 0; r < (same ? 1 : rows); r++)
    if (!all_ordered(s, p, at[r], w, same ? NO_LANE : r * w, how)) return 0;
  for (int64_t r = same && rows > 2 ? rows - 2 : 0; r < rows; r++)
    record_all(s, p, at[r], w, r * w, how);
  return 1;
}

/* Records and checks accesses by each thread to one element of its local array. 0: it must be done
** lane by lane (indices differ, not all lanes write, or a lane reads what may not be set). */
static int all_local(fl_lane_state *s, const fl_lane_ins *p, int how) {
  if (p->x >= 0) return 0;
  uint8_t *set = local_flag(s, &s->code->arrays[p->var], *(const int64_t *)s->reg[p->a], 0);
  if (how != FL_LANE_WRITE) return !memchr(set, 0, (size_t)s->n);
  if (s->now.count != s->n) return 0;
  memset(set, 1, (size_t)s->n);
  return 1;
}

/* Records that each row of lanes reads one element: only the last two readers of an element are
** kept. 0: nothing was recorded, since it is a write, or may be a fault. */
static int all_flat(fl_lane_state *s, const fl_lane_ins *p, int how) {
  const int64_t *at = fl_lane_starts(s, p), w = s->width;
  int same = 1;
  for (int64_t r = 1; r < s->rows; r++) same &= at[r] == at[0];
  if (how == FL_LANE_WRITE) return 0;
  for (int64_t r = 0; r < (same ? 1 : s->rows); r++)
    if (!all_ordered(s, p, at[r], 1, NO_LANE, how)) return 0;
  for (int64_t r = same ? s->rows - 1 : 0; r < s->rows; r++) {
    record_all(s, p, at[r], 1, r * w + w - 2, how);
    record_all(s, p, at[r], 1, r * w + w - 1, how);
  }
  return 1;
}

int fl_lane_touched_all(fl_lane_state *s, const fl_lane_ins *p, int how) {
  const fl_lane_info *q = p->x >= 0 ? &s->infos[p->x] : NULL;
  const fl_lane_view *v = &s->views[p->var];
  if (s->code->arrays[p->var].kind == FL_KV_ARRAY) return all_local(s, p, how);
  if (v->step > 1) return 0;
  int64_t i, j;
  fl_lane_span(s, &i, &j);
  if (!q) {
    const int64_t index = *(const int64_t *)s->reg[p->a];
    if (how == FL_LANE_WRITE || !all_ordered(s, p, index, 1, NO_LANE, how)) return 0;
    int64_t k = i < j ? j - 1 : j;
    while (!s->now.at[k]) k--;
    record_all(s, p, index, 1, k, how);               /* of all readers the last two */
    if (k < j) record_all(s, p, index, 1, j, how);
    return 1;
  }
  if (q->row) {
    const int64_t first = q->first + i, n = j - i + 1;
    if (n != s->now.count || first < 0 || first + n > v->count) return 0;
    if (!all_ordered(s, p, first, n, i, how)) return 0;
    record_all(s, p, first, n, i, how);
    return 1;
  }
  if (s->now.count != s->n || q->low < 0 || q->high >= v->count) return 0;
  return q->rows ? all_rows(s, p, how) : q->flat && all_flat(s, p, how);
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
    if (s->now.at[i] & ~set[i]) return fl_lane_fault_at(s, p, FL_LANE_UNSET, i, -1);
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
