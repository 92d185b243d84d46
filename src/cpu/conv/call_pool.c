/*
** Pooling on the CPU (tensor/call_conv.h says what each kind computes). Windows are products of
** ranges, so values and sums are taken in two steps: rows of a window into one buffer row,
** vectors at a time, then columns of it. Half types and integers are widened row by row to the
** type of the buffer: f32, f64 or i64. A unit is some rows of results, or some planes.
*/
#include "cpu/conv/conv.h"
#include "base/num.h"
#include <stdatomic.h>
#include <string.h>

enum { WORK = 32768 }; /* approximate number of elements read by a unit */
typedef enum { SUM_F32, SUM_F64, SUM_I64 } sums;

typedef struct pool {
  fl_pooling s;
  const fl_call_run *r;
  const fl_conv_loops *loops;
  sums kind;
  int dtype, size, max; /* of the elements; max: 1: the largest, 0: the mean */
  int64_t each, all; /* number of rows or planes of a unit; number of all */
  int64_t volume, results; /* elements of a plane, results of a plane */
  char *scratch;
  int64_t worker_bytes;
  const atomic_int *stop; /* polled, since one unit may have a row of millions of results with
                          ** windows as long */
} pool;

static int ended(const pool *q) {
  return atomic_load_explicit(q->stop, memory_order_relaxed) != 0;
}

typedef struct range {
  int64_t lo, hi, step;
} range; /* lo, lo + step, … below hi */

/* The part of the plane's axis a that window o covers. */
static range window(const fl_pooling *s, int a, int64_t o) {
  const int64_t in = s->in[a], out = s->out[a];
  if (s->adaptive) return (range){ o * in / out, ((o + 1) * in + out - 1) / out, 1 };
  const int64_t start = o * s->stride[a] - s->pad[a], end = start + (s->k[a] - 1) * s->dil[a] + 1;
  const int64_t skip = start < 0 ? (-start + s->dil[a] - 1) / s->dil[a] * s->dil[a] : 0;
  return (range){ start + skip, end < in ? end : in, s->dil[a] };
}

/* The number of positions that a mean's window counts along axis a, including padding on either
** side. */
static int64_t padded_count(const fl_pooling *s, int a, int64_t o) {
  const int64_t start = o * s->stride[a] - s->pad[a], end = start + s->k[a],
                most = s->in[a] + s->pad[a];
  return (end < most ? end : most) - start;
}

static int64_t length(range w) { return w.hi > w.lo ? (w.hi - w.lo + w.step - 1) / w.step : 0; }

/* ---- rows ---- */

static int sum_size(sums kind) { return kind == SUM_F32 ? 4 : 8; }

static sums kind_of(int dtype) {
  return dtype == FLAME_F64 ? SUM_F64 : fl_is_float(dtype) ? SUM_F32 : SUM_I64;
}

static void read_row(int dtype, void *to, const char *from, int64_t n) {
  const void *x = from;
  if (dtype == FLAME_F32 || dtype == FLAME_F64 || dtype == FLAME_I64) {
    memcpy(to, x, (size_t)(n * fl_dtype_size(dtype)));
  } else if (dtype == FLAME_F16) {
    for (int64_t i = 0; i < n; i++) ((float *)to)[i] = fl_f16_to_f32(((const uint16_t *)x)[i]);
  } else if (dtype == FLAME_BF16) {
    for (int64_t i = 0; i < n; i++) ((float *)to)[i] = fl_bf16_to_f32(((const uint16_t *)x)[i]);
  } else {
    for (int64_t i = 0; i < n; i++)
      ((int64_t *)to)[i] = fl_scalar_load(from + i * fl_dtype_size(dtype), dtype).i;
  }
}

static void write_row(const fl_conv_loops *l, int dtype, char *to, const void *from, int64_t n) {
  if (fl_is_float(dtype)) {
    fl_conv_store(l, dtype, to, 1, from, n);
  } else {
    for (int64_t i = 0; i < n; i++)
      fl_scalar_store(to + i * fl_dtype_size(dtype), dtype,
                      (fl_scalar){ .i = ((const int64_t *)from)[i] });
  }
}

static void fill(const pool *q, void *y, int64_t n) {
  const fl_scalar none = { 0 }, low = q->max ? fl_dtype_lowest(q->dtype) : none;
  if (q->kind == SUM_F32)
    for (int64_t i = 0; i < n; i++) ((float *)y)[i] = (float)low.d;
  else if (q->kind == SUM_F64)
    for (int64_t i = 0; i < n; i++) ((double *)y)[i] = low.d;
  else
    for (int64_t i = 0; i < n; i++) ((int64_t *)y)[i] = low.i;
}

/* Combines y[i] with x[i * step], n times: the larger one or, of floats, the sum. */
static void combine(const pool *q, void *y, const void *x, int64_t step, int64_t n) {
  const fl_conv_loops *l = q->loops;
  if (n <= 0) return;
  if (q->kind == SUM_F32) (q->max ? l->larger32 : l->plus32)(y, x, step, n);
  else if (q->kind == SUM_F64) (q->max ? l->larger64 : l->plus64)(y, x, step, n);
  else
    for (int64_t i = 0; i < n; i++) {
      const int64_t v = ((const int64_t *)x)[i * step], w = ((int64_t *)y)[i];
      ((int64_t *)y)[i] = v > w ? v : w;
    }
}

/* Combines y with all of n elements. */
static void reduce(const pool *q, char *y, const char *row, int64_t n) {
  const void *x = row;
  void *to = y;
  if (q->max) {
    for (int64_t i = 0; i < n; i++) combine(q, y, row + i * sum_size(q->kind), 1, 1);
  } else if (q->kind == SUM_F32) {
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += ((const float *)x)[i];
    *(float *)to += sum;
  } else {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += ((const double *)x)[i];
    *(double *)to += sum;
  }
}

static void scale(const pool *q, void *y, int64_t i, double by) {
  if (q->kind == SUM_F32) ((float *)y)[i] = ((float *)y)[i] / (float)by;
  else ((double *)y)[i] = ((double *)y)[i] / by;
}

/* ---- values and means ---- */

/* Combines all rows of a window into 'row'. tmp: memory for widening. */
static void take_rows(const pool *q, int64_t plane, range d, range h, char *row, char *tmp) {
  const int64_t w = q->s.in[2];
  const int native = q->dtype == FLAME_F32 || q->dtype == FLAME_F64 || q->dtype == FLAME_I64;
  int first = 1;
  for (int64_t z = d.lo; z < d.hi; z += d.step)
    for (int64_t y = h.lo; y < h.hi && !ended(q); y += h.step) {
      const char *x =
          (const char *)q->r->in[0] + (plane * q->volume + (z * q->s.in[1] + y) * w) * q->size;
      if (first) read_row(q->dtype, row, x, w);
      else if (native) combine(q, row, x, 1, w);
      else read_row(q->dtype, tmp, x, w), combine(q, row, tmp, 1, w);
      first = 0;
    }
  if (first) fill(q, row, w);
}

/* Combines the columns of the windows into y: adaptive windows result by result, others for each
** column of the kernel, over all results for which it is inside the plane. */
static void take_columns(const pool *q, const char *row, char *y) {
  const fl_pooling *s = &q->s;
  const int64_t n = s->out[2], ss = sum_size(q->kind), step = s->stride[2];
  fill(q, y, n);
  if (s->adaptive) {
    for (int64_t o = 0; o < n && !ended(q); o++) {
      const range w = window(s, 2, o);
      if (w.hi > w.lo) reduce(q, y + o * ss, row + w.lo * ss, w.hi - w.lo);
    }
    return;
  }
  for (int64_t k = 0; k < s->k[2] && !ended(q); k++) {
    const int64_t x = k * s->dil[2] - s->pad[2]; /* of result 0 */
    const int64_t lo = x < 0 ? (-x + step - 1) / step : 0,
                  hi = x < s->in[2] ? (s->in[2] - 1 - x) / step + 1 : 0;
    const int64_t end = hi < n ? hi : n;
    if (end > lo) combine(q, y + lo * ss, row + (x + lo * step) * ss, step, end - lo);
  }
}

/* Divides y[o] by the divisor that the call gives or, without one, by the number of positions that
** its window counts: the counts on axes 0 and 1 times the count on axis 2. */
static void divide_row(const pool *q, char *y, int64_t d, int64_t h, range rd, range rh) {
  const fl_pooling *s = &q->s;
  const int padded = s->include_pad && !s->adaptive;
  const int64_t rows = padded ? padded_count(s, 0, d) * padded_count(s, 1, h)
                              : length(rd) * length(rh);
  if (length(rd) == 0 || length(rh) == 0) return;
  for (int64_t o = 0; o < s->out[2]; o++) {
    const int64_t n =
        s->divisor ? s->divisor : rows * (padded ? padded_count(s, 2, o) : length(window(s, 2, o)));
    if (s->divisor || n > 0) scale(q, y, o, (double)n);
  }
}

static void rows_unit(void *arg, int64_t unit, int worker) {
  const pool *q = arg;
  const fl_pooling *s = &q->s;
  const int64_t ss = sum_size(q->kind), first = unit * q->each,
                last = fl_min(first + q->each, q->all);
  char *row = q->scratch + worker * q->worker_bytes, *tmp = row + fl_round_up(s->in[2] * ss, 64),
       *y = tmp + fl_round_up(s->in[2] * ss, 64);
  for (int64_t i = first; i < last; i++) {
    const int64_t plane = i / s->out[1] / s->out[0], d = i / s->out[1] % s->out[0],
                  h = i % s->out[1];
    const range rd = window(s, 0, d), rh = window(s, 1, h);
    take_rows(q, plane, rd, rh, row, tmp);
    take_columns(q, row, y);
    if (!q->max) divide_row(q, y, d, h, rd, rh);
    write_row(q->loops, q->dtype, (char *)q->r->out + i * s->out[2] * q->size, y, s->out[2]);
  }
}

/* ---- positions ---- */

/* Compares results 0 … n - 1 with elements x[i * step], which are at positions first + i * step:
** at[i] becomes the position (from 1) of the larger one; 0: none yet. A NaN counts as larger than
** all before it. */
#define MEET(name, S, T, FROM) \
  static void name(const S *x, int64_t step, int64_t n, T *most, int64_t *at, int64_t first) { \
    for (int64_t i = 0; i < n; i++) { \
      const T v = FROM(x[i * step]); \
      const int better = (at[i] == 0) | (v > most[i]) | (v != v); \
      most[i] = better ? v : most[i]; \
      at[i] = better ? first + i * step : at[i]; \
    } \
  }
#define AS_IS(v) (v)
MEET(meet_f16, uint16_t, float, fl_f16_to_f32)
MEET(meet_bf16, uint16_t, float, fl_bf16_to_f32)
MEET(meet_i64, int64_t, int64_t, AS_IS)
MEET(meet_i32, int32_t, int32_t, AS_IS)
MEET(meet_i16, int16_t, int16_t, AS_IS)
MEET(meet_i8, int8_t, int8_t, AS_IS)
MEET(meet_u8, uint8_t, uint8_t, AS_IS)

static void meet(const pool *q, const void *x, int64_t step, int64_t n, void *most, int64_t *at,
                 int64_t first) {
  switch (q->dtype) {
  case FLAME_F64: q->loops->meet64(x, step, n, most, at, first); break;
  case FLAME_F32: q->loops->meet32(x, step, n, most, at, first); break;
  case FLAME_F16: meet_f16(x, step, n, most, at, first); break;
  case FLAME_BF16: meet_bf16(x, step, n, most, at, first); break;
  case FLAME_I64: meet_i64(x, step, n, most, at, first); break;
  case FLAME_I32: meet_i32(x, step, n, most, at, first); break;
  case FLAME_I16: meet_i16(x, step, n, most, at, first); break;
  case FLAME_I8: meet_i8(x, step, n, most, at, first); break;
  default: meet_u8(x, step, n, most, at, first);
  }
}

/* Compares one row of the plane, whose first element is number 'first', with a row of results. */
static void meet_row(const pool *q, const char *x, int64_t first, char *most, int64_t *at) {
  const fl_pooling *s = &q->s;
  const int64_t n = s->out[2], step = s->stride[2],
                size = q->kind == SUM_F32 ? 4 : q->size; /* of 'most' */
  if (s->adaptive) {
    for (int64_t o = 0; o < n && !ended(q); o++) {
      const range w = window(s, 2, o);
      for (int64_t i = w.lo; i < w.hi; i++)
        meet(q, x + i * q->size, 1, 1, most + o * 8, at + o, first + i + 1);
    }
    return;
  }
  for (int64_t k = 0; k < s->k[2] && !ended(q); k++) {
    const int64_t i = k * s->dil[2] - s->pad[2];
    const int64_t lo = i < 0 ? (-i + step - 1) / step : 0,
                  hi = i < s->in[2] ? (s->in[2] - 1 - i) / step + 1 : 0;
    const int64_t end = hi < n ? hi : n;
    if (end > lo)
      meet(q, x + (i + lo * step) * q->size, step, end - lo, most + lo * size, at + lo,
           first + i + lo * step + 1);
  }
}

static void at_unit(void *arg, int64_t unit, int worker) {
  const pool *q = arg;
  const fl_pooling *s = &q->s;
  const int64_t first = unit * q->each, last = fl_min(first + q->each, q->all);
  char *most = q->scratch + worker * q->worker_bytes;
  for (int64_t i = first; i < last; i++) {
    const int64_t plane = i / s->out[1] / s->out[0], d = i / s->out[1] % s->out[0],
                  h = i % s->out[1];
    int64_t *at = (int64_t *)q->r->out + i * s->out[2];
    const range rd = window(s, 0, d), rh = window(s, 1, h);
    memset(at, 0, (size_t)s->out[2] * sizeof *at);
    for (int64_t z = rd.lo; z < rd.hi; z += rd.step)
      for (int64_t y = rh.lo; y < rh.hi && !ended(q); y += rh.step) {
        const int64_t row = (z * s->in[1] + y) * s->in[2];
        meet_row(q, (const char *)q->r->in[0] + (plane * q->volume + row) * q->size, row, most, at);
      }
  }
}

/* ---- by position ---- */

#define TAKE(T) \
  { \
    const T *from = x; \
    T *to = y; \
    for (int64_t i = 0; i < n; i++) \
      if (at[i] >= 1 && at[i] <= most) to[i] = from[at[i] - 1]; \
    return; \
  }
static void take(int size, void *y, const void *x, const int64_t *at, int64_t n, int64_t most) {
  if (size == 8) TAKE(uint64_t)
  if (size == 4) TAKE(uint32_t)
  if (size == 2) TAKE(uint16_t)
  TAKE(uint8_t)
}

static void take_unit(void *arg, int64_t unit, int worker) {
  const pool *q = arg;
  const int64_t first = unit * q->each, last = fl_min(first + q->each, q->all), n = q->results;
  (void)worker;
  for (int64_t p = first; p < last; p++) {
    char *y = (char *)q->r->out + p * n * q->size;
    memset(y, 0, (size_t)(n * q->size));
    take(q->size, y, (const char *)q->r->in[0] + p * q->volume * q->size,
         (const int64_t *)q->r->in[1] + p * n, n, q->volume);
  }
}

static void put_unit(void *arg, int64_t unit, int worker) {
  const pool *q = arg;
  const int64_t first = unit * q->each, last = fl_min(first + q->each, q->all), n = q->results,
                ss = sum_size(q->kind);
  char *row = q->scratch + worker * q->worker_bytes, *sum = row + fl_round_up(n * ss, 64);
  for (int64_t p = first; p < last; p++) {
    const int64_t *at = (const int64_t *)q->r->in[1] + p * n;
    char *to = (char *)q->r->out + p * q->volume * q->size;
    void *y = q->size == ss ? to : sum, *g = row;
    memset(y, 0, (size_t)(q->volume * ss));
    read_row(q->dtype, row, (const char *)q->r->in[0] + p * n * q->size, n);
    for (int64_t i = 0; i < n; i++) {
      if (at[i] < 1 || at[i] > q->volume) continue;
      if (q->kind == SUM_F32) ((float *)y)[at[i] - 1] += ((float *)g)[i];
      else ((double *)y)[at[i] - 1] += ((double *)g)[i];
    }
    if (y == sum) write_row(q->loops, q->dtype, to, sum, q->volume);
  }
}

/* ---- the mean's adjoint ---- */

/* row[i * step] += g[i], n times. */
static void add_apart(const pool *q, char *row, const char *g, int64_t step, int64_t n) {
  void *y = row;
  const void *x = g;
  if (q->kind == SUM_F32)
    for (int64_t i = 0; i < n; i++) ((float *)y)[i * step] += ((const float *)x)[i];
  else
    for (int64_t i = 0; i < n; i++) ((double *)y)[i * step] += ((const double *)x)[i];
}

/* Sets 'row' to a row of the plane with each cotangent of g, which divide_row has divided, added to
** the columns of its window. */
static void spread_columns(const pool *q, const char *g, char *row) {
  const fl_pooling *s = &q->s;
  const int64_t ss = sum_size(q->kind), n = s->out[2], step = s->stride[2];
  memset(row, 0, (size_t)(s->in[2] * ss));
  for (int64_t o = 0; s->adaptive && o < n && !ended(q); o++) {
    const range w = window(s, 2, o);
    for (int64_t i = w.lo; i < w.hi; i++) add_apart(q, row + i * ss, g + o * ss, 1, 1);
  }
  for (int64_t k = 0; !s->adaptive && k < s->k[2] && !ended(q); k++) {
    const int64_t i = k * s->dil[2] - s->pad[2];
    const int64_t lo = i < 0 ? (-i + step - 1) / step : 0,
                  hi = i < s->in[2] ? (s->in[2] - 1 - i) / step + 1 : 0;
    const int64_t end = hi < n ? hi : n;
    if (end > lo) add_apart(q, row + (i + lo * step) * ss, g + lo * ss, step, end - lo);
  }
}

static void back_unit(void *arg, int64_t unit, int worker) {
  const pool *q = arg;
  const fl_pooling *s = &q->s;
  const int64_t first = unit * q->each, last = fl_min(first + q->each, q->all),
                ss = sum_size(q->kind), width = s->in[2];
  char *g = q->scratch + worker * q->worker_bytes, *row = g + fl_round_up(s->out[2] * ss, 64),
       *sum = row + fl_round_up(width * ss, 64);
  for (int64_t p = first; p < last; p++) {
    char *to = (char *)q->r->out + p * q->volume * q->size, *y = q->size == ss ? to : sum;
    memset(y, 0, (size_t)(q->volume * ss));
    for (int64_t i = 0; i < s->out[0] * s->out[1] && !ended(q); i++) {
      const int64_t d = i / s->out[1], h = i % s->out[1];
      const range rd = window(s, 0, d), rh = window(s, 1, h);
      if (length(rd) == 0 || length(rh) == 0) continue;
      read_row(q->dtype, g, (const char *)q->r->in[0] + (p * q->results + i * s->out[2]) * q->size,
               s->out[2]);
      divide_row(q, g, d, h, rd, rh);
      spread_columns(q, g, row);
      for (int64_t z = rd.lo; z < rd.hi; z += rd.step)
        for (int64_t v = rh.lo; v < rh.hi && !ended(q); v += rh.step)
          combine(q, y + (z * s->in[1] + v) * width * ss, row, 1, width);
    }
    if (y == sum) write_row(q->loops, q->dtype, to, sum, q->volume);
  }
}

/* ---- calls ---- */

/* Prepares a call. dtype: of the elements. by_plane: units are planes, otherwise rows of
** results. */
static int start(pool *q, fl_device *d, const fl_call_run *r, int dtype, int max, int by_plane) {
  const fl_cpu *cpu = d->state;
  memset(q, 0, sizeof *q);
  if (!fl_pooling_read(r->call, &q->s)) return 0;
  const fl_pooling *s = &q->s;
  q->r = r;
  q->loops = fl_conv_loops_of(cpu->vm);
  q->dtype = dtype, q->size = fl_dtype_size(dtype), q->kind = kind_of(dtype), q->max = max;
  q->volume = fl_volume3(s->in), q->results = fl_volume3(s->out);
  q->all = by_plane ? s->planes : s->planes * s->out[0] * s->out[1];
  int64_t work = by_plane ? q->volume + q->results : s->in[2] + s->out[2];
  if (!by_plane)
    for (int a = 0; a < 2; a++) work *= s->adaptive ? s->in[a] / s->out[a] + 1 : s->k[a];
  q->each = work > 0 && work < WORK ? WORK / work : 1;
  q->scratch = r->scratch;
  q->stop = cpu->stop;
  return 1;
}

static flame_status run(fl_device *d, pool *q, fl_unit_fn fn, int64_t worker_bytes) {
  const fl_cpu *cpu = d->state;
  q->worker_bytes = worker_bytes;
  fl_threads_run(cpu->pool, fl_ceil_div(q->all, q->each), fn, q, cpu->stop);
  return FLAME_OK;
}

static int64_t row_bytes(const fl_pooling *s) {
  return 2 * fl_round_up(s->in[2] * 8, 64) + fl_round_up(s->out[2] * 8, 64);
}
static int64_t most_bytes(const fl_pooling *s) { return fl_round_up(s->out[2] * 8, 64); }
static int64_t put_bytes(const fl_pooling *s) {
  return fl_round_up(fl_volume3(s->in) * 8, 64) + fl_round_up(fl_volume3(s->out) * 8, 64);
}
static int64_t back_bytes(const fl_pooling *s) {
  return row_bytes(s) + fl_round_up(fl_volume3(s->in) * 8, 64);
}

static int64_t scratch(const fl_call *call, int workers, int64_t (*bytes)(const fl_pooling *)) {
  fl_pooling s;
  return call->numel && fl_pooling_read(call, &s) && s.planes ? workers * bytes(&s) : 0;
}

int64_t fl_cpu_scratch_max_pool(const fl_call *call, int workers) {
  return scratch(call, workers, row_bytes);
}
int64_t fl_cpu_scratch_avg_pool(const fl_call *call, int workers) {
  return scratch(call, workers, row_bytes);
}
int64_t fl_cpu_scratch_pool_put(const fl_call *call, int workers) {
  return scratch(call, workers, put_bytes);
}
int64_t fl_cpu_scratch_avg_pool_back(const fl_call *call, int workers) {
  return scratch(call, workers, back_bytes);
}
int64_t fl_cpu_scratch_max_pool_at(const fl_call *call, int workers) {
  return scratch(call, workers, most_bytes);
}
int64_t fl_cpu_scratch_pool_take(const fl_call *call, int workers) {
  return (void)call, (void)workers, 0;
}

flame_status fl_cpu_call_max_pool(fl_device *d, const fl_call_run *r) {
  pool q;
  if (r->call->numel == 0 || !start(&q, d, r, r->call->dtype, 1, 0)) return FLAME_OK;
  return run(d, &q, rows_unit, row_bytes(&q.s));
}

flame_status fl_cpu_call_max_pool_at(fl_device *d, const fl_call_run *r) {
  pool q;
  if (r->call->numel == 0 || !start(&q, d, r, r->call->in_dtype[0], 1, 0)) return FLAME_OK;
  return run(d, &q, at_unit, most_bytes(&q.s));
}

flame_status fl_cpu_call_pool_take(fl_device *d, const fl_call_run *r) {
  pool q;
  if (r->call->numel == 0 || !start(&q, d, r, r->call->dtype, 1, 1)) return FLAME_OK;
  return run(d, &q, take_unit, 0);
}

flame_status fl_cpu_call_pool_put(fl_device *d, const fl_call_run *r) {
  pool q;
  if (r->call->numel == 0 || !start(&q, d, r, r->call->dtype, 0, 1)) return FLAME_OK;
  return run(d, &q, put_unit, put_bytes(&q.s));
}

flame_status fl_cpu_call_avg_pool(fl_device *d, const fl_call_run *r) {
  pool q;
  if (r->call->numel == 0 || !start(&q, d, r, r->call->dtype, 0, 0)) return FLAME_OK;
  return run(d, &q, rows_unit, row_bytes(&q.s));
}

flame_status fl_cpu_call_avg_pool_back(fl_device *d, const fl_call_run *r) {
  pool q;
  if (r->call->numel == 0 || !start(&q, d, r, r->call->dtype, 0, 1)) return FLAME_OK;
  return run(d, &q, back_unit, back_bytes(&q.s));
}
