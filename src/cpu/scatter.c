/*
** Scatter (plan/plan.h): all points in row-major order, so the last store to a place wins and
** sums have one order. Half types are summed in f32 and rounded once, at the end.
**
** The work is split over workers along a dim that is a separate axis of the target, or, for
** narrow rows of a table, by ranges of the index: then no two workers write the same place, and
** each place still gets its terms in the same order.
*/
#include "cpu/scatter.h"
#include "tensor/math.h"
#include "base/num.h"
#include <assert.h>
#include <string.h>

/* POLL: points between tests of the stop flag; ROW: rows of this many bytes or more are copied
** whole, or added by the loops of vm.h; AHEAD: number of rows prefetched; SHARE: bytes of a row
** that are worth another worker. */
enum { POLL = 65536, ROW = 64, AHEAD = 8, SHARE = 128, UNIT = 65536, PIECE = 256, BLOCK = 256,
       SERIAL = 32768 };

/* A dim of the points that are scattered: their number, and the step of each of the three arrays,
** in elements. position: the step of the position in the index tensor that a message names. */
typedef struct dim { int64_t size, dst, idx, src, position; } dim;

typedef struct job {
  const fl_vm *vm;
  uint8_t dtype, add, half;    /* half: dst holds f32 in place of a half type */
  /* split: the dim that is divided into 'pieces' for the workers; -1: none. If it is 'rank', the
  ** range of the index values is divided */
  int rank, split;
  dim at[FL_MAX_AXES];         /* two at least */
  int64_t extent, gstride, pieces, dst_numel;
  char *dst, *home;            /* home: the half type's own memory */
  const int64_t *idx;
  const char *src;
  int site, flags;             /* site >= 0: idx is to be checked against 'limit' */
  int64_t limit;
  fl_vm_fault *fault;          /* one per worker */
  const atomic_int *stop;
} job;

/* A part of the points of one unit: at one position in all dims but the last two, some indices of
** the last but one ('rows') and all points of the last ('row'). dst, idx, src: the arrays' elements
** for the first point; position: that of its index. */
typedef struct sheet {
  char *dst;
  const int64_t *idx;
  const char *src;
  int64_t position;
  dim rows, row;
  fl_vm_fault *fault;
  int64_t low, high;              /* the unit handles rows whose index is in low … high - 1; only
                                  ** used if a row has one index */
} sheet;

static int is_half(int dtype) { return dtype == FLAME_F16 || dtype == FLAME_BF16; }

int64_t fl_scatter_bytes(const fl_scatter *s) {
  return s->add && is_half(s->dtype) ? s->dst_numel * 4 : 0;
}

/* ---- index values --------------------- */

/* Checks n indices at *idx, *step apart, if the scatter checks its indices (j->site >= 0): *idx and
** *step then lead to the checked ones, in 'out'. For a report, the positions of these indices in
** the index tensor begin at 'position' and are 'apart' from each other. */
static void check(const job *j, const int64_t **idx, int64_t *step, int64_t n, int64_t position,
                  int64_t apart, int64_t *out, fl_vm_fault *fault) {
  int64_t place[BLOCK] = { 0 };
  const int64_t *a = *idx;
  if (j->site < 0) return;
  for (int64_t i = 0; *step != 1 && i < n; i++) place[i] = a[i * *step];
  const int64_t *given = *step == 1 ? a : place;
  for (int64_t i = n; *step == 1 && i < 2 * n; i += 8)              /* of the next block */
    __builtin_prefetch((const void *)((uintptr_t)a + (uintptr_t)i * sizeof *a));
  if (!j->vm->index(out, given, j->limit, n, j->flags))
    for (int64_t i = 0, at = position; i < n; i++, at += apart)
      j->vm->report(given + i, j->limit, &at, 1, 0, j->flags, j->site, fault);
  *idx = out;
  *step = 1;
}

/* ---- runs: points along the last dim --------------------- */

#define POINTS(T, X, read, expr, ds, is, ss, g) \
  for (int64_t i = 0; i < n; i++) { \
    T *p = d + i * (ds) + idx[i * (is)] * (g); \
    const X v = read(x[i * (ss)]); \
    *p = (expr); \
  }
/* Scatters the points along one dim, with separate loops for steps of one along the target's axis,
** across it, and for other steps. dst of half types with 'add' is f32. */
#define RUN(T, S, X, read, expr) { \
    T *d = (T *)(void *)dst; \
    const S *x = (const S *)(const void *)src; \
    const int dense = r->idx == 1 && r->src == 1; \
    if (dense && r->dst == 0 && g == 1) POINTS(T, X, read, expr, 0, 1, 1, 1) \
    else if (dense && r->dst == 1) POINTS(T, X, read, expr, 1, 1, 1, g) \
    else POINTS(T, X, read, expr, r->dst, r->idx, r->src, g) \
    break; \
  }
#define AS_IS(x) (x)
#define SAME(T, expr) RUN(T, T, T, AS_IS, expr)

static void run_add(int dtype, char *dst, const int64_t *idx, const char *src, int64_t n,
                    const dim *r, int64_t g) {
  switch (dtype) {
    case FLAME_F64: SAME(double, *p + v)
    case FLAME_F32: SAME(float, *p + v)
    case FLAME_F16: RUN(float, uint16_t, float, fl_f16_value, *p + v)
    case FLAME_BF16: RUN(float, uint16_t, float, fl_bf16_value, *p + v)
    case FLAME_I64: SAME(int64_t, fl_add_i64(*p, v))
    case FLAME_I32: SAME(int32_t, fl_add_i32(*p, v))
    case FLAME_I16: SAME(int16_t, (int16_t)(*p + v))
    case FLAME_I8: SAME(int8_t, (int8_t)(*p + v))
    case FLAME_U8: SAME(uint8_t, (uint8_t)(*p + v))
    default: SAME(uint8_t, (uint8_t)(*p | v))
  }
}

static void run_put(int size, char *dst, const int64_t *idx, const char *src, int64_t n,
                    const dim *r, int64_t g) {
  switch (size) {
    case 8: SAME(uint64_t, v)
    case 4: SAME(uint32_t, v)
    case 2: SAME(uint16_t, v)
    default: SAME(uint8_t, v)
  }
}

/* ---- rows: runs of one index --------------------- */

static const fl_walk line = { .rank = 1, .linear = 1, .size = { INT64_MAX }, .stride = { 1 } };

/* Adds a dense row to one of a table; the loops of vm.h give the same bits as run_add. */
static void row_add(const job *j, char *dst, const char *src, int64_t n) {
  const int reg = j->half ? FL_REG_F32 : fl_dtype_reg(j->dtype);
  const fl_vm_fn add = j->vm->op[FL_OP_add][reg];
  float piece[PIECE];
  if (!j->half) {
    add(dst, dst, src, src, n, 0);
    return;
  }
  for (int64_t i = 0; i < n; i += PIECE) {
    const int64_t m = n - i < PIECE ? n - i : PIECE;
    j->vm->load[j->dtype](piece, src, &line, i, m);
    add(dst + i * 4, dst + i * 4, piece, piece, m, 0);
  }
}

static int has_rows(const job *j, const dim *r) {
  const int size = fl_dtype_size(j->dtype), wide = size >= 4 || is_half(j->dtype);
  return r->idx == 0 && r->dst == 1 && r->src == 1 && r->size * size >= ROW && (!j->add || wide);
}

/* Prefetches the place of a row that is written a few rows later, the first 256 bytes at most. */
static void ask(const char *p, int64_t bytes) {
  for (int64_t i = 0; i < bytes && i < 4 * 64; i += 64) __builtin_prefetch(p + i, 1);
}

/* Scatters rows first to first + n - 1 of a sheet, at most BLOCK. */
static void some_rows(const job *j, const sheet *s, int64_t first, int64_t n) {
  const int size = fl_dtype_size(j->dtype), wide = j->half ? 4 : size, dense = has_rows(j, &s->row);
  const int64_t length = s->row.size, g = j->gstride;
  int64_t checked[BLOCK], step = s->rows.idx;
  const int64_t *idx = s->idx + first * step;
  char *base = s->dst + first * s->rows.dst * wide;
  const char *from = s->src + first * s->rows.src * size;
  check(j, &idx, &step, n, s->position + first * s->rows.position, s->rows.position, checked,
        s->fault);
  for (int64_t k = 0; k < n; k++, base += s->rows.dst * wide, from += s->rows.src * size) {
    const int64_t index = idx[k * step];
    if (k + AHEAD < n)
      ask(base + (AHEAD * s->rows.dst + idx[(k + AHEAD) * step] * g) * wide, length * wide);
    if (index < s->low || index >= s->high) continue;
    if (dense && j->add) row_add(j, base + index * g * wide, from, length);
    else if (dense) memcpy(base + index * g * wide, from, (size_t)(length * size));
    else if (j->add) run_add(j->dtype, base, idx + k * step, from, length, &s->row, g);
    else run_put(size, base, idx + k * step, from, length, &s->row, g);
  }
}

/* Scatters points first to first + n - 1 of rows k to k + m - 1, at most BLOCK in all. If m is
** above 1, the points are whole rows whose indices are adjacent in memory. */
static void some_points(const job *j, const sheet *s, int64_t k, int64_t m, int64_t first,
                        int64_t n) {
  const int size = fl_dtype_size(j->dtype), wide = j->half ? 4 : size;
  dim row = s->row;
  int64_t checked[BLOCK];
  const int64_t *idx = s->idx + k * s->rows.idx + first * row.idx;
  char *dst = s->dst + (k * s->rows.dst + first * row.dst) * wide;
  const char *src = s->src + (k * s->rows.src + first * row.src) * size;
  check(j, &idx, &row.idx, m * n, s->position + k * s->rows.position + first * row.position,
        row.position, checked, s->fault);
  for (; m > 0; m--, idx += n, dst += s->rows.dst * wide, src += s->rows.src * size) {
    if (j->add) run_add(j->dtype, dst, idx, src, n, &row, j->gstride);
    else run_put(size, dst, idx, src, n, &row, j->gstride);
  }
}

static void run_sheet(const job *j, const sheet *s) {
  const int64_t rows = s->rows.size, n = s->row.size;
  const int dense = s->row.idx == 1 && s->rows.idx == n && s->rows.position == n * s->row.position;
  const int64_t most = dense && n > 0 && n < BLOCK ? BLOCK / n : 1;
  for (int64_t k = 0; s->row.idx == 0 && k < rows; k += BLOCK)
    some_rows(j, s, k, fl_min(BLOCK, rows - k));
  for (int64_t k = 0; s->row.idx != 0 && k < rows; k += most)
    for (int64_t i = 0; i < n; i += BLOCK)
      some_points(j, s, k, fl_min(most, rows - k), i, fl_min(BLOCK, n - i));
}

/* ---- the whole space --------------------- */

static int stopped(const job *j) {
  return atomic_load_explicit(j->stop, memory_order_relaxed) != 0;
}

/* The sheet whose first point is 'at'. */
static void place_sheet(const job *j, const int64_t *at, sheet *s) {
  const int size = fl_dtype_size(j->dtype), wide = j->half ? 4 : size;
  int64_t d = 0, i = 0, x = 0;
  s->position = 0;
  for (int a = 0; a < j->rank; a++) {
    d += at[a] * j->at[a].dst;
    i += at[a] * j->at[a].idx;
    x += at[a] * j->at[a].src;
    s->position += at[a] * j->at[a].position;
  }
  s->dst = j->dst + d * wide;
  s->idx = j->idx + i;
  s->src = j->src + x * size;
}

/* One unit of work: all points whose coordinate along dim 'split', or whose index, is in piece
** 'unit'. */
static void scatter_unit(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  const dim *inner = &j->at[j->rank - 2];
  sheet s = { .row = inner[1], .high = INT64_MAX, .fault = &j->fault[worker] };
  int64_t from[FL_MAX_AXES] = { 0 }, to[FL_MAX_AXES], at[FL_MAX_AXES], some;
  assert(j->rank >= 2);
  for (int a = 0; a < j->rank; a++) to[a] = j->at[a].size;
  if (j->split == j->rank) {
    s.low = j->extent * unit / j->pieces;
    s.high = j->extent * (unit + 1) / j->pieces;
  } else if (j->split >= 0) {
    from[j->split] = to[j->split] * unit / j->pieces;
    to[j->split] = to[j->split] * (unit + 1) / j->pieces;
  }
  s.row.size = to[j->rank - 1] - from[j->rank - 1];
  some = s.row.size ? POLL / s.row.size + 1 : 1;
  memcpy(at, from, sizeof at);
  while (at[0] < to[0] && !stopped(j)) {
    int a = j->rank - 2;
    place_sheet(j, at, &s);
    s.rows = inner[0];
    s.rows.size = fl_min(to[a] - at[a], some);
    run_sheet(j, &s);
    at[a] += s.rows.size;
    for (; a > 0 && at[a] >= to[a]; at[--a]++) at[a] = from[a];
  }
}

/* Collects the dims: those of one point are left out, neighbours with matching steps are joined,
** and at least two remain. */
static void take_dims(job *j, const fl_scatter *s) {
  for (int a = 0; a < s->rank; a++) {
    const int64_t n = s->size[a];
    dim d = { n, s->dst.stride[a], s->idx.stride[a], s->src.stride[a], s->position[a] };
    dim *p = j->rank ? &j->at[j->rank - 1] : &d;
    if (n == 1) continue;
    const int joins = j->rank && p->dst == d.dst * n && p->idx == d.idx * n && p->src == d.src * n;
    if (joins && p->position == d.position * n) {
      d.size *= p->size;
      *p = d;
    } else j->at[j->rank++] = d;
  }
  for (; j->rank < 2; j->rank++) {
    if (j->rank) j->at[1] = j->at[0];
    j->at[0] = (dim){ .size = 1 };
  }
}

/* Chooses the dim along which the work is divided: the longest one along which dst's address
** changes, an axis that the index does not address. If rows of a table are not wide enough for
** that, ranges of the index are used. */
static void choose_split(job *j, int width, int64_t points) {
  const int last = j->rank - 1, wide = j->half ? 4 : fl_dtype_size(j->dtype);
  const int64_t row = j->at[last].size * wide;
  j->split = -1;
  j->pieces = 1;
  if (width < 2 || points < SERIAL) return;
  for (int a = 0; a <= last; a++) {
    if (j->at[a].dst == 0 || j->at[a].size < width || (a == last && row < width * SHARE)) continue;
    if (j->split < 0 || j->at[a].size > j->at[j->split].size) j->split = a;
  }
  if (j->split < 0 && j->at[last].idx == 0 && row >= ROW) j->split = j->rank;
  if (j->split >= 0) j->pieces = width;
}

/* ---- half types --------------------- */

static void widen_unit(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  const int64_t i = unit * UNIT, n = j->dst_numel - i < UNIT ? j->dst_numel - i : UNIT;
  (void)worker;
  j->vm->load[j->dtype](j->dst + i * 4, j->home, &line, i, n);
}

static void narrow_unit(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  const int64_t i = unit * UNIT, n = j->dst_numel - i < UNIT ? j->dst_numel - i : UNIT;
  (void)worker;
  j->vm->store[j->dtype](j->home, j->dst + i * 4, &line, i, n);
}

static void *address(const fl_binding *b, const fl_operand *o) {
  return (char *)fl_place_address(b, &o->place) + o->offset * fl_dtype_size(o->dtype);
}

flame_status fl_scatter_run(fl_device *dev, const fl_scatter *s, const fl_binding *b) {
  fl_cpu *d = dev->state;
  int64_t points = 1;
  for (int a = 0; a < s->rank; a++) points *= s->size[a];
  if (points == 0) return FLAME_OK;
  char *dst = address(b, &s->dst);
  job j = { .vm = d->vm, .dtype = s->dtype, .add = s->add, .half = s->add && is_half(s->dtype),
            .extent = s->extent,
            .gstride = s->dst.gstride, .dst_numel = s->dst_numel, .home = dst,
            .idx = address(b, &s->idx), .src = address(b, &s->src), .site = s->fault,
            .flags = s->flags,
            .limit = s->fault < 0 ? 0 : b->scalar[s->limit].i, .fault = d->fault, .stop = d->stop };
  const int64_t units = j.half ? (s->dst_numel + UNIT - 1) / UNIT : 0;
  j.dst = j.half ? d->shared : dst;
  take_dims(&j, s);
  choose_split(&j, d->width, points);
  fl_threads_run(d->pool, units, widen_unit, &j, d->stop);
  fl_threads_run(d->pool, j.pieces, scatter_unit, &j, d->stop);
  fl_threads_run(d->pool, units, narrow_unit, &j, d->stop);
  return FLAME_OK;
}
