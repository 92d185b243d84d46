/*
** Scans along the middle axis of (outer, n, inner): sums, products, log-sum-exp, running
** extremes, and first-order recurrences (the gradients of the others).
**
** Several lanes go side by side: neighbouring columns, or four rows, so that one lane's
** addition need not wait for its last. Sums of f32 are kept in f64, of half types in f32, of
** integers in i64, wrapping. Long rows of sums are cut into blocks of BLOCK elements whose
** sums are taken first; then every block starts from the sum of those before it, a block a
** lane. The order depends on the sizes alone. Products are not cut: the product of a block
** may overflow where the running one is 0.
*/
#include "cpu/calls.h"
#include "tensor/math.h"
#include <string.h>

enum { BLOCK = 4096, CUT = 1 << 15, COLUMNS = 64, ROWS = 4, UNIT = 1 << 14 };

/* State of the log of a sum of exp: s times e to the power m. */
typedef struct lse { double m, s; } lse;

static inline void lse_add(lse *a, double v) {
  if (v == a->m) a->s += 1;                    /* infinities too */
  else if (v < a->m) a->s += exp(v - a->m);
  else if (v > a->m) {
    a->s = a->s * exp(a->m - v) + 1;
    a->m = v;
  } else a->s = v - v;                         /* NaN, and stays: m was not NaN */
}
static inline double lse_value(const lse *a) { return a->m + log(a->s); }

/* A walk of 'lanes' lanes, 'lane' elements apart, n steps of 'step' elements. acc: a state for
** each lane, of no use afterwards. */
typedef struct walk {
  const void *x, *x2;
  void *y;
  int64_t n, step, lanes, lane;
  void *acc;
} walk;

#define LANE(A, O, state, where, number, ADD, VALUE) { \
    const int64_t i = where, k = number; \
    (void)k; \
    A *a = &state; \
    ADD \
    y[i] = (O)(VALUE); \
  }
/* T: what lies in memory, A: state, O: result's; ADD uses a (the state's address), i (offset)
** and k (number of the step, from 1). */
#define WALK(name, T, A, O, ADD, VALUE) \
  static void name(const walk *w) { \
    const T *x = w->x, *x2 = w->x2; \
    O *y = w->y; \
    A *acc = w->acc; \
    (void)x2; \
    if (w->lanes == ROWS && w->lane != 1) { \
      A s0 = acc[0], s1 = acc[1], s2 = acc[2], s3 = acc[3]; \
      const int64_t lane = w->lane, end = w->n * w->step; \
      for (int64_t at = 0, j = 1; at != end; at += w->step, j++) { \
        LANE(A, O, s0, at, j, ADD, VALUE) \
        LANE(A, O, s1, at + lane, j, ADD, VALUE) \
        LANE(A, O, s2, at + 2 * lane, j, ADD, VALUE) \
        LANE(A, O, s3, at + 3 * lane, j, ADD, VALUE) \
      } \
      return; \
    } \
    for (int64_t j = 0; j < w->n; j++) \
      for (int64_t l = 0; l < w->lanes; l++) \
        LANE(A, O, acc[l], j * w->step + l * w->lane, j + 1, ADD, VALUE) \
  }
#define PLAIN(v) (v)
#define SUMS(name, T, A, O, in, out) \
  WALK(sum_##name, T, A, O, *a += (A)in(x[i]);, out(*a)) \
  WALK(product_##name, T, A, O, *a *= (A)in(x[i]);, out(*a))
#define REALS(name, T, A, in, out) \
  SUMS(name, T, A, T, in, out) \
  WALK(lse_##name, T, lse, T, lse_add(a, (double)in(x[i]));, out((A)lse_value(a))) \
  WALK(line_##name, T, A, T, *a = (A)in(x[i]) * *a + (A)in(x2[i]);, out(*a))
REALS(f64, double, double, PLAIN, PLAIN)
REALS(f32, float, double, PLAIN, PLAIN)
REALS(f16, uint16_t, float, fl_f16_value, fl_f16_bits)
REALS(bf16, uint16_t, float, fl_bf16_value, fl_bf16_bits)
#define TRUTH(v) ((v) != 0)
SUMS(i64, int64_t, uint64_t, int64_t, PLAIN, (int64_t))
SUMS(i32, int32_t, uint64_t, int64_t, PLAIN, (int64_t))
SUMS(i16, int16_t, uint64_t, int64_t, PLAIN, (int64_t))
SUMS(i8, int8_t, uint64_t, int64_t, PLAIN, (int64_t))
SUMS(u8, uint8_t, uint64_t, int64_t, PLAIN, (int64_t))
SUMS(bool, uint8_t, uint64_t, int64_t, TRUTH, (int64_t))

/* The first of the extremes; the first NaN beats all. at 0: none yet. A row alone goes by STRETCH
** elements, of which most change nothing: 'stays' says so without a branch an element. */
enum { STRETCH = 32 };
#define EXTREME(which, name, T, V, in, stays) \
  WALK(each_##which##_##name, T, placed_##name, int64_t, \
       const V v = (V)in(x[i]); \
       if (a->at == 0 || (!(v stays a->v) && a->v == a->v)) { a->v = v; a->at = k; }, a->at) \
  static void which##_##name(const walk *w) { \
    const T *x = w->x; \
    int64_t *y = w->y, at = 1, i = 1; \
    if (w->lanes != 1 || w->step != 1) { \
      each_##which##_##name(w); \
      return; \
    } \
    V best = (V)in(x[0]); \
    y[0] = 1; \
    while (i < w->n) { \
      const int64_t n = w->n - i < STRETCH ? w->n - i : STRETCH; \
      int change = n < STRETCH; \
      if (!change) for (int j = 0; j < STRETCH; j++) change |= !((V)in(x[i + j]) stays best); \
      if (!change) { \
        for (int j = 0; j < STRETCH; j++) y[i + j] = at; \
        i += STRETCH; \
      } else for (const int64_t end = i + n; i < end; i++) { \
        const V v = (V)in(x[i]); \
        if (!(v stays best) && best == best) { best = v; at = i + 1; } \
        y[i] = at; \
      } \
    } \
  }
#define PLACED(name, T, V, in) \
  typedef struct placed_##name { V v; int64_t at; } placed_##name; \
  EXTREME(max, name, T, V, in, <=) \
  EXTREME(min, name, T, V, in, >=)
PLACED(f64, double, double, PLAIN)
PLACED(f32, float, float, PLAIN)
PLACED(f16, uint16_t, float, fl_f16_value)
PLACED(bf16, uint16_t, float, fl_bf16_value)
PLACED(i64, int64_t, int64_t, PLAIN)
PLACED(i32, int32_t, int32_t, PLAIN)
PLACED(i16, int16_t, int32_t, PLAIN)
PLACED(i8, int8_t, int32_t, PLAIN)
PLACED(u8, uint8_t, int32_t, PLAIN)
PLACED(bool, uint8_t, int32_t, TRUTH)
_Static_assert(sizeof(placed_f64) == sizeof(placed_bool), "states of one size");

typedef void (*walk_fn)(const walk *w);
enum { SUM, PRODUCT, LSE, MAX, MIN, LINE, KINDS };
static const walk_fn walks[FLAME_DTYPE_COUNT][KINDS] = {
#define REAL(t) { sum_##t, product_##t, lse_##t, max_##t, min_##t, line_##t }
#define WHOLE(t) { sum_##t, product_##t, NULL, max_##t, min_##t, NULL }
  [FLAME_F64] = REAL(f64), [FLAME_F32] = REAL(f32), [FLAME_F16] = REAL(f16),
  [FLAME_BF16] = REAL(bf16), [FLAME_I64] = WHOLE(i64), [FLAME_I32] = WHOLE(i32),
  [FLAME_I16] = WHOLE(i16), [FLAME_I8] = WHOLE(i8), [FLAME_U8] = WHOLE(u8),
  [FLAME_BOOL] = WHOLE(bool),
};

/* Any state. */
typedef union state { double d; float f; uint64_t u; lse l; placed_f64 p; } state;

typedef struct job {
  const char *x, *x2;
  char *y;
  int64_t outer, n, inner;
  int dtype, in_size, out_size, kind, reverse;
  walk_fn fn;
  int64_t blocks, group;          /* cut rows: blocks of a row; else rows or column blocks a unit */
  char *sums;                     /* 8 bytes a block */
  const atomic_int *stop;
} job;

/* ---- states ---- */

static size_t state_size(const job *j) {
  switch (j->kind) {
    case LSE: return sizeof(lse);
    case MAX: case MIN: return sizeof(placed_f64);      /* all are of one size */
    default: return j->dtype == FLAME_F16 || j->dtype == FLAME_BF16 ? sizeof(float) : sizeof(double);
  }
}

/* lanes states before the first element. */
static void start(const job *j, void *acc, int64_t lanes) {
  const size_t size = state_size(j);
  memset(acc, 0, size * (size_t)lanes);
  for (int64_t l = 0; l < lanes; l++) {
    char *a = (char *)acc + size * (size_t)l;
    if (j->kind == LSE) ((lse *)(void *)a)->m = -INFINITY;
    if (j->kind != PRODUCT) continue;
    if (!fl_is_float(j->dtype)) *(uint64_t *)(void *)a = 1;
    else if (size == sizeof(float)) *(float *)(void *)a = 1;
    else *(double *)(void *)a = 1;
  }
}

/* The walk from element 'first' on, forwards or backwards. */
static walk walk_from(const job *j, int64_t first, int64_t n, int64_t lanes, int64_t lane, void *acc) {
  return (walk){ .x = j->x + first * j->in_size, .x2 = j->x2 ? j->x2 + first * j->in_size : NULL,
                 .y = j->y + first * j->out_size, .n = n,
                 .step = j->reverse ? -j->inner : j->inner, .lanes = lanes, .lane = lane, .acc = acc };
}

/* ---- whole rows and columns ---- */

static void scan_rows(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  const int64_t end = (unit + 1) * j->group < j->outer ? (unit + 1) * j->group : j->outer;
  const int64_t last = j->reverse ? j->n - 1 : 0;
  state acc[ROWS];
  (void)worker;
  for (int64_t r = unit * j->group; r < end; ) {
    const int alone = end - r < ROWS || j->kind == MAX || j->kind == MIN;
    const int64_t lanes = alone ? 1 : ROWS;
    start(j, acc, lanes);
    const walk w = walk_from(j, r * j->n + last, j->n, lanes, j->n, acc);
    j->fn(&w);
    r += lanes;
    if (atomic_load_explicit(j->stop, memory_order_relaxed)) return;
  }
}

/* group: blocks of columns of one outer index. */
static void scan_columns(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  const int64_t o = unit / j->group, c = unit % j->group * COLUMNS;
  const int64_t lanes = j->inner - c < COLUMNS ? j->inner - c : COLUMNS;
  const int64_t last = j->reverse ? (j->n - 1) * j->inner : 0;
  state acc[COLUMNS];
  (void)worker;
  start(j, acc, lanes);
  const walk w = walk_from(j, o * j->n * j->inner + last + c, j->n, lanes, 1, acc);
  j->fn(&w);
}

/* ---- rows in blocks ---- */

/* Blocks are counted in the direction of the walk; begin is its lowest element. */
static int64_t block_begin(const job *j, int64_t block, int64_t *n) {
  const int64_t row = block / j->blocks, first = block % j->blocks * BLOCK;
  *n = j->n - first < BLOCK ? j->n - first : BLOCK;
  return row * j->n + (j->reverse ? j->n - first - *n : first);
}

#define BLOCK_SUM(T, A, in) { \
    const T *x = (const T *)(const void *)j->x + at; \
    A s[4] = { 0, 0, 0, 0 }; \
    int64_t i = 0; \
    for (; i + 4 <= n; i += 4) \
      for (int l = 0; l < 4; l++) s[l] += (A)in(x[i + l]); \
    for (; i < n; i++) s[0] += (A)in(x[i]); \
    const A sum = (s[0] + s[1]) + (s[2] + s[3]); \
    memcpy(j->sums + 8 * block, &sum, sizeof sum); \
    break; \
  }
static void sum_block(const job *j, int64_t block) {
  int64_t n;
  const int64_t at = block_begin(j, block, &n);
  switch (j->dtype) {
    case FLAME_F64: BLOCK_SUM(double, double, PLAIN)
    case FLAME_F32: BLOCK_SUM(float, double, PLAIN)
    case FLAME_F16: BLOCK_SUM(uint16_t, float, fl_f16_value)
    case FLAME_BF16: BLOCK_SUM(uint16_t, float, fl_bf16_value)
    case FLAME_I64: BLOCK_SUM(int64_t, uint64_t, PLAIN)
    case FLAME_I32: BLOCK_SUM(int32_t, uint64_t, PLAIN)
    case FLAME_I16: BLOCK_SUM(int16_t, uint64_t, PLAIN)
    case FLAME_I8: BLOCK_SUM(int8_t, uint64_t, PLAIN)
    case FLAME_U8: BLOCK_SUM(uint8_t, uint64_t, PLAIN)
    default: BLOCK_SUM(uint8_t, uint64_t, TRUTH)
  }
}

static void sum_blocks(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  const int64_t most = j->outer * j->blocks, end = (unit + 1) * ROWS < most ? (unit + 1) * ROWS : most;
  (void)worker;
  for (int64_t b = unit * ROWS; b < end; b++) sum_block(j, b);
}

/* Sums of the blocks become sums of those before. */
#define BEFORE(A) { \
    A run = 0; \
    for (int64_t b = 0; b < j->blocks; b++) { \
      A sum; \
      memcpy(&sum, j->sums + 8 * (row * j->blocks + b), sizeof sum); \
      memcpy(j->sums + 8 * (row * j->blocks + b), &run, sizeof run); \
      run += sum; \
    } \
  }
static void sums_before(const job *j) {
  for (int64_t row = 0; row < j->outer; row++) {
    if (!fl_is_float(j->dtype)) BEFORE(uint64_t)
    else if (state_size(j) == sizeof(float)) BEFORE(float)
    else BEFORE(double)
  }
}

/* Four whole blocks of a row side by side, else one after the other. */
static void scan_blocks(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  const int64_t most = j->outer * j->blocks, end = (unit + 1) * ROWS < most ? (unit + 1) * ROWS : most;
  const size_t size = state_size(j);
  state acc[ROWS];
  (void)worker;
  for (int64_t b = unit * ROWS; b < end; ) {
    int64_t n, last;
    const int64_t at = block_begin(j, b, &n);
    (void)block_begin(j, end - 1, &last);
    const int side = end - b == ROWS && n == last && b / j->blocks == (end - 1) / j->blocks;
    const int lanes = side ? ROWS : 1;
    for (int l = 0; l < lanes; l++) memcpy((char *)acc + size * (size_t)l, j->sums + 8 * (b + l), size);
    const walk w = walk_from(j, at + (j->reverse ? n - 1 : 0), n, lanes, j->reverse ? -BLOCK : BLOCK, acc);
    j->fn(&w);
    b += lanes;
  }
}

/* ---- calls ---- */

static int is_cut(const fl_call *c) {
  return c->kind == FL_CALL_scan && c->p[3] == 0 && c->p[2] == 1 && c->p[1] >= CUT;
}

int64_t fl_cpu_scratch_scan(const fl_call *call, int workers) {
  (void)workers;
  return is_cut(call) ? 8 * call->p[0] * ((call->p[1] + BLOCK - 1) / BLOCK) : 0;
}
int64_t fl_cpu_scratch_extreme(const fl_call *call, int workers) { (void)call; (void)workers; return 0; }
int64_t fl_cpu_scratch_recurrence(const fl_call *call, int workers) { (void)call; (void)workers; return 0; }

static flame_status run(fl_device *d, const fl_call_run *r, int kind, int reverse) {
  fl_cpu *cpu = d->state;
  const fl_call *c = r->call;
  job j = { .x = r->in[0], .x2 = c->nin > 1 ? r->in[1] : NULL, .y = r->out, .outer = c->p[0],
            .n = c->p[1], .inner = c->p[2], .dtype = c->in_dtype[0], .kind = kind,
            .in_size = fl_dtype_size(c->in_dtype[0]), .out_size = fl_dtype_size(c->dtype),
            .reverse = reverse, .fn = walks[c->in_dtype[0]][kind], .stop = cpu->stop };
  if (c->numel == 0) return FLAME_OK;
  if (is_cut(c)) {
    j.blocks = (j.n + BLOCK - 1) / BLOCK;
    j.sums = r->scratch;
    const int64_t units = (j.outer * j.blocks + ROWS - 1) / ROWS;
    fl_threads_run(cpu->pool, units, sum_blocks, &j, cpu->stop);
    if (fl_stopped(d)) return FLAME_OK;
    sums_before(&j);
    fl_threads_run(cpu->pool, units, scan_blocks, &j, cpu->stop);
  } else if (j.inner == 1) {
    j.group = (UNIT / j.n / ROWS + 1) * ROWS;
    fl_threads_run(cpu->pool, (j.outer + j.group - 1) / j.group, scan_rows, &j, cpu->stop);
  } else {
    j.group = (j.inner + COLUMNS - 1) / COLUMNS;
    fl_threads_run(cpu->pool, j.outer * j.group, scan_columns, &j, cpu->stop);
  }
  return FLAME_OK;
}

flame_status fl_cpu_call_scan(fl_device *d, const fl_call_run *r) {
  static const int kinds[] = { SUM, PRODUCT, LSE };
  return run(d, r, kinds[r->call->p[3]], (int)r->call->p[4]);
}

flame_status fl_cpu_call_extreme(fl_device *d, const fl_call_run *r) {
  return run(d, r, r->call->p[3] ? MIN : MAX, 0);
}

flame_status fl_cpu_call_recurrence(fl_device *d, const fl_call_run *r) {
  return run(d, r, LINE, (int)r->call->p[3]);
}
