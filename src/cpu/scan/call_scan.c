/*
** Scans along the middle axis of (outer, n, inner): sums, products, log-sum-exp, running
** extremes, and first-order recurrences (the gradients of the others). This file distributes the
** work; the loops are in vm_scan.h.
**
** Long rows of sums are divided into blocks of BLOCK elements whose sums are taken first; then
** every block starts from the sum of those before it, one block per lane. The order depends only on
** the sizes. Products are not divided: the product of a block may overflow where the running one is
** 0.
*/
#include "cpu/state/state.h"
#include "cpu/scan/scan.h"
#include "tensor/math.h"
#include <string.h>

enum { BLOCK = 4096, CUT = 1 << 15, ROWS = 4, UNIT = 1 << 14, DEAR_UNIT = 1 << 12 };

/* The state of a lane, for any kind of scan. */
typedef union state { double d; float f; uint64_t u; fl_scan_lse l; } state;

typedef struct job {
  const char *x, *x2;
  char *y;
  int64_t outer, n, inner;
  int dtype, in_size, in2_size, out_size, kind, reverse;
  const fl_scan_loops *loops;
  fl_scan_fn fn;
  /* for rows that are cut: blocks of a row; group: rows per unit, or blocks of columns per outer
  ** index */
  int64_t blocks, group;
  char *sums;                     /* 8 bytes per block */
  const atomic_int *stop;
} job;

/* ---- states ---- */

static size_t state_size(const job *j) {
  switch (j->kind) {
    case FL_SCAN_LSE: return sizeof(fl_scan_lse);
    default:
      return j->dtype == FLAME_F16 || j->dtype == FLAME_BF16 ? sizeof(float) : sizeof(double);
  }
}

/* Sets the states of all lanes to those before the first element. */
static void start(const job *j, void *acc, int64_t lanes) {
  const size_t size = state_size(j);
  memset(acc, 0, size * (size_t)lanes);
  for (int64_t l = 0; l < lanes; l++) {
    char *a = (char *)acc + size * (size_t)l;
    if (j->kind == FL_SCAN_LSE) ((fl_scan_lse *)(void *)a)->m = -INFINITY;
    if (j->kind != FL_SCAN_PRODUCT) continue;
    if (!fl_is_float(j->dtype)) *(uint64_t *)(void *)a = 1;
    else if (size == sizeof(float)) *(float *)(void *)a = 1;
    else *(double *)(void *)a = 1;
  }
}

/* The walk from element 'first' on, forwards or backwards. */
static fl_scan_walk walk_from(const job *j, int64_t first, int64_t n, int64_t lanes, int64_t lane,
                              void *acc) {
  return (fl_scan_walk){ .x = j->x + first * j->in_size,
                         .x2 = j->x2 ? j->x2 + first * j->in2_size : NULL,
                         .y = j->y + first * j->out_size, .n = n,
                         .step = j->reverse ? -j->inner : j->inner, .lanes = lanes, .lane = lane,
                         .acc = acc };
}

/* ---- whole rows and columns ---- */

static void scan_rows(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  const int64_t first = unit * j->group, rest = j->outer - first;
  state acc;
  (void)worker;
  start(j, &acc, 1);
  fl_scan_walk w = walk_from(j, first * j->n + (j->reverse ? j->n - 1 : 0), j->n,
                             rest < j->group ? rest : j->group, j->n, &acc);
  w.same = 1;
  j->fn(&w);
}

/* One unit of work: one of the 'group' blocks of columns of an outer index. */
static void scan_columns(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  const int64_t o = unit / j->group, c = unit % j->group * FL_SCAN_COLUMNS;
  const int64_t lanes = j->inner - c < FL_SCAN_COLUMNS ? j->inner - c : FL_SCAN_COLUMNS;
  const int64_t last = j->reverse ? (j->n - 1) * j->inner : 0;
  state acc[FL_SCAN_COLUMNS];
  (void)worker;
  start(j, acc, lanes);
  fl_scan_walk w = walk_from(j, o * j->n * j->inner + last + c, j->n, lanes, 1, acc);
  w.across = 1;
  j->fn(&w);
}

/* ---- rows in blocks ---- */

/* The lowest element of a block. Blocks are counted in the direction of the walk. */
static int64_t block_begin(const job *j, int64_t block, int64_t *n) {
  const int64_t row = block / j->blocks, first = block % j->blocks * BLOCK;
  *n = j->n - first < BLOCK ? j->n - first : BLOCK;
  return row * j->n + (j->reverse ? j->n - first - *n : first);
}

static void sum_block(const job *j, int64_t block) {
  int64_t n;
  const int64_t at = block_begin(j, block, &n);
  j->loops->block[j->dtype](j->x + at * j->in_size, n, j->sums + 8 * block);
}

/* Replaces the sums of blocks first to end - 1 of a row with the sums of all blocks before each;
** 'before' is that of the first. */
#define BEFORE(A) { \
    A run; \
    memcpy(&run, before, sizeof run); \
    for (int64_t b = first; b < end; b++) { \
      A sum; \
      memcpy(&sum, j->sums + 8 * b, sizeof sum); \
      memcpy(j->sums + 8 * b, &run, sizeof run); \
      run += sum; \
    } \
    memcpy(before, &run, sizeof run); \
  }
static void sums_before(const job *j, int64_t first, int64_t end, state *before) {
  if (!fl_is_float(j->dtype)) BEFORE(uint64_t)
  else if (state_size(j) == sizeof(float)) BEFORE(float)
  else BEFORE(double)
}

/* Scans blocks of a row, those of one length side by side: the last may be shorter. */
static void scan_some(const job *j, int64_t first, int64_t end) {
  state acc[ROWS];
  const size_t size = state_size(j);
  for (int64_t b = first; b < end; ) {
    int64_t n, last;
    const int64_t at = block_begin(j, b, &n);
    (void)block_begin(j, end - 1, &last);
    const int lanes = (int)(end - b) - (n != last);
    for (int l = 0; l < lanes; l++)
      memcpy((char *)acc + size * (size_t)l, j->sums + 8 * (b + l), size);
    const fl_scan_walk w = walk_from(j, at + (j->reverse ? n - 1 : 0), n, lanes,
                                     j->reverse ? -BLOCK : BLOCK, acc);
    j->fn(&w);
    b += lanes;
  }
}

/* The blocks of a unit: ROWS blocks of one row. */
static void span_of(const job *j, int64_t unit, int64_t *first, int64_t *end) {
  const int64_t units = (j->blocks + ROWS - 1) / ROWS, row = unit / units;
  *first = row * j->blocks + unit % units * ROWS;
  *end = *first + ROWS < (row + 1) * j->blocks ? *first + ROWS : (row + 1) * j->blocks;
}

static void sum_blocks(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  int64_t first, end;
  (void)worker;
  span_of(j, unit, &first, &end);
  for (int64_t b = first; b < end; b++) sum_block(j, b);
}

static void scan_blocks(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  int64_t first, end;
  (void)worker;
  span_of(j, unit, &first, &end);
  scan_some(j, first, end);
}

/* Scans a row by one worker: blocks are scanned while they are in a cache. */
static void scan_row_in_blocks(void *arg, int64_t row, int worker) {
  const job *j = arg;
  const int64_t units = (j->blocks + ROWS - 1) / ROWS;
  state before = { .u = 0 };
  for (int64_t u = row * units; u < (row + 1) * units; u++) {
    int64_t first, end;
    span_of(j, u, &first, &end);
    sum_blocks(arg, u, worker);
    sums_before(j, first, end, &before);
    scan_some(j, first, end);
    if (atomic_load_explicit(j->stop, memory_order_relaxed)) return;
  }
}

static void run_cut(fl_device *d, job *j) {
  fl_cpu *cpu = d->state;
  const int64_t units = j->outer * ((j->blocks + ROWS - 1) / ROWS);
  if (j->outer >= cpu->width) {
    fl_threads_run(cpu->pool, j->outer, scan_row_in_blocks, j, cpu->stop);
    return;
  }
  fl_threads_run(cpu->pool, units, sum_blocks, j, cpu->stop);
  if (fl_stopped(d)) return;
  for (int64_t row = 0; row < j->outer; row++) {
    state before = { .u = 0 };
    sums_before(j, row * j->blocks, (row + 1) * j->blocks, &before);
  }
  fl_threads_run(cpu->pool, units, scan_blocks, j, cpu->stop);
}

/* ---- calls ---- */

static int is_cut(const fl_call *c) {
  return c->kind == FL_CALL_scan && c->p[3] == 0 && c->p[2] == 1 && c->p[1] >= CUT;
}

int64_t fl_cpu_scratch_scan(const fl_call *call, int workers) {
  (void)workers;
  return is_cut(call) ? 8 * call->p[0] * ((call->p[1] + BLOCK - 1) / BLOCK) : 0;
}
int64_t fl_cpu_scratch_extreme(const fl_call *call, int workers) {
  (void)workers;
  return call->p[4] && call->nin == 1 ? 8 * call->numel : 0;
}
int64_t fl_cpu_scratch_recurrence(const fl_call *call, int workers) {
  (void)call;
  (void)workers;
  return 0;
}

static flame_status run(fl_device *d, const fl_call_run *r, int kind, int reverse) {
  fl_cpu *cpu = d->state;
  const fl_call *c = r->call;
  job j = { .x = r->in[0], .x2 = c->nin > 1 ? r->in[1] : NULL, .y = r->out, .outer = c->p[0],
            .n = c->p[1], .inner = c->p[2], .dtype = c->in_dtype[0], .kind = kind,
            .in_size = fl_dtype_size(c->in_dtype[0]), .in2_size = c->nin > 1
            ? fl_dtype_size(c->in_dtype[1]) : 0, .out_size = fl_dtype_size(c->dtype),
            .reverse = reverse, .loops = cpu->scan, .fn = cpu->scan->walk[c->in_dtype[0]][kind],
            .stop = cpu->stop };
  if (c->numel == 0) return FLAME_OK;
  if (is_cut(c)) {
    j.blocks = (j.n + BLOCK - 1) / BLOCK;
    j.sums = r->scratch;
    run_cut(d, &j);
  } else if (j.inner == 1) {
    const int64_t unit = c->numel <= UNIT && kind == FL_SCAN_LSE && fl_threads_awake(cpu->pool)
                         ? DEAR_UNIT : UNIT;
    j.group = (unit / j.n / ROWS + 1) * ROWS;
    fl_threads_run(cpu->pool, (j.outer + j.group - 1) / j.group, scan_rows, &j, cpu->stop);
  } else {
    j.group = (j.inner + FL_SCAN_COLUMNS - 1) / FL_SCAN_COLUMNS;
    fl_threads_run(cpu->pool, j.outer * j.group, scan_columns, &j, cpu->stop);
  }
  return FLAME_OK;
}

flame_status fl_cpu_call_scan(fl_device *d, const fl_call_run *r) {
  static const int kinds[] = { FL_SCAN_SUM, FL_SCAN_PRODUCT, FL_SCAN_LSE };
  return run(d, r, kinds[r->call->p[3]], (int)r->call->p[4]);
}

/* If the values are wanted: finds the positions first, unless they are given, then takes the
** elements there. */
flame_status fl_cpu_call_extreme(fl_device *d, const fl_call_run *r) {
  const fl_call *c = r->call;
  const int kind = c->p[3] ? FL_SCAN_MIN : FL_SCAN_MAX;
  if (!c->p[4]) return run(d, r, kind, 0);
  fl_call_run places = *r, values = *r;
  fl_call at = *c, take = *c;
  at.dtype = take.in_dtype[1] = FLAME_I64;
  take.nin = 2;
  places.call = &at;
  values.call = &take;
  if (c->nin == 1) values.in[1] = places.out = r->scratch;
  const flame_status e = c->nin == 1 ? run(d, &places, kind, 0) : FLAME_OK;
  return e == FLAME_OK && !fl_stopped(d) ? run(d, &values, FL_SCAN_TAKE, 0) : e;
}

flame_status fl_cpu_call_recurrence(fl_device *d, const fl_call_run *r) {
  return run(d, r, FL_SCAN_LINE, (int)r->call->p[3]);
}
