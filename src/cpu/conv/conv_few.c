/*
** The weight's gradient of few outputs per group (conv.h), which would fill half a vector: a
** product whose rows are the outputs, whose terms are pixels, and whose columns are the taps of a
** row of the kernel and the channels. The source is transposed, channels innermost, so that all
** columns of a pixel are one run of memory; taps above or below the source are skipped.
**
** A chunk is some rows of results of one plane, at most KC pixels. Long sums are cut in 'splits'
** that follow from the shape; their sums are added in order at the end.
*/
#include "cpu/conv/conv.h"
#include "base/num.h"
#include <string.h>

enum { VECTOR = 16, LEAST_ROWS = 4, SOURCE = 1 << 18 };        /* SOURCE: elements */
enum { SPLIT_CHUNKS = 16, SPLITS = 16, UNITS = 8 };

typedef struct few {
  const fl_conv_job *job;
  const fl_conv_pass *p;
  const char *grad;
  int wide, lanes;
  int64_t rows, cols;          /* rows of the kernel; columns of a result, rounded up to a multiple
                               ** of NR in scratch */
  int64_t height, blocks1;     /* rows of results of a chunk, chunks of a plane */
  int64_t pitch, lines;        /* positions in a row of the transposed source; its number of rows */
  int64_t chunks, splits, split_chunks;
  char *workers;
  int64_t worker_bytes;
  int32_t off[FL_CONV_KC];     /* offset of each pixel of a chunk in the transposed source */
} few;

static int64_t padded(const few *q) { return fl_ceil_div(q->cols, FL_CONV_NR) * FL_CONV_NR; }
static int64_t source_size(const few *q) { return q->lines * q->pitch * q->p->chans + FL_CONV_NR; }
/* The number of sums of a group and split. */
static int64_t sums_size(const few *q) { return q->p->rows * q->rows * padded(q); }

/* Computes the sizes of chunks and buffers; 0 if this method can not compute the pass. */
static int plan(few *q, const fl_conv_pass *p) {
  const fl_conv_axis *ax = p->ax;
  *q = (few){ .p = p, .wide = fl_conv_wide(p->dtype) };
  if (ax[2].count > FL_CONV_KC || ax[2].step > FL_CONV_KC || (ax[2].taps > 1 && ax[2].doff != 1))
    return 0;
  q->rows = ax[0].taps * ax[1].taps;
  q->cols = ax[2].taps * p->chans;
  q->height = fl_min(FL_CONV_KC / ax[2].count, ax[1].count);
  q->blocks1 = fl_ceil_div(ax[1].count, q->height);
  q->pitch = (ax[2].count - 1) * ax[2].step + ax[2].taps;
  if (ax[1].step > FL_CONV_KC || ax[1].taps > FL_CONV_KC || ax[1].doff > FL_CONV_KC) return 0;
  q->lines = (q->height - 1) * ax[1].step + (ax[1].taps - 1) * ax[1].doff + 1;
  q->chunks = p->n * ax[0].count * q->blocks1;
  const int64_t wanted = fl_ceil_div(q->chunks, SPLIT_CHUNKS),
                least = fl_ceil_div(UNITS, p->groups);
  q->split_chunks = fl_ceil_div(q->chunks,
                                fl_min(fl_min(SPLITS, q->chunks), wanted > least ? wanted : least));
  q->splits = fl_ceil_div(q->chunks, q->split_chunks);
  return q->lines <= SOURCE / q->pitch && p->chans <= SOURCE / (q->lines * q->pitch);
}

int fl_conv_few_fits(const fl_conv_pass *p) {
  few q;
  if (p->rows > VECTOR || fl_conv_taps(p) == 1 || p->n * fl_conv_count(p) == 0 || !plan(&q, p))
    return 0;
  const int64_t vectors = fl_ceil_div(q.cols, VECTOR) * q.rows *
                          (p->rows < LEAST_ROWS ? LEAST_ROWS : p->rows);
  return vectors * VECTOR < fl_conv_taps(p) * p->chans * VECTOR;
}

static int64_t worker_bytes(const few *q) {
  return fl_round_up((source_size(q) + (q->p->rows + FL_CONV_MR) * FL_CONV_LDA) *
                     fl_conv_bytes(q->p->dtype), 64);
}
int64_t fl_conv_few_bytes(const fl_conv_pass *p, int workers) {
  few q;
  if (!plan(&q, p)) return 0;
  return workers * worker_bytes(&q) +
         p->groups * q.splits * sums_size(&q) * fl_conv_bytes(p->dtype);
}

/* Transposes the rows of one plane of a chunk's source, from row y on; rows outside the source are
** left out. 'at': the plane's first element. */
static void turn_lines(const few *q, int64_t at, int64_t y, char *to) {
  const fl_conv_pass *p = q->p;
  const fl_conv_axis *x = &p->ax[2];
  const int64_t size = fl_conv_bytes(p->dtype), pixel = p->chans * size, line = q->pitch * pixel;
  const int64_t lo = fl_min(q->pitch, x->off0 < 0 ? -x->off0 : 0),
                hi = fl_min(q->pitch, x->size - x->off0);
  for (int64_t i = y < 0 ? -y : 0; i < q->lines && y + i < p->ax[1].size; i++) {
    const char *from = p->src + (at + (y + i) * x->size + x->off0 + lo) * fl_dtype_size(p->dtype);
    if (hi <= lo) {
      memset(to + i * line, 0, (size_t)line);
      continue;
    }
    memset(to + i * line, 0, (size_t)(lo * pixel));
    memset(to + i * line + hi * pixel, 0, (size_t)((q->pitch - hi) * pixel));
    for (int64_t c = 0; c < p->chans; c += FL_CONV_NR) {
      const int64_t some = fl_min(FL_CONV_NR, p->chans - c);
      fl_conv_turn(q->job->loops, p->dtype, to + i * line + lo * pixel + c * size, p->chans, some,
                   from + c * fl_conv_source(p) * fl_dtype_size(p->dtype), fl_conv_source(p),
                   some, hi - lo);
    }
  }
}

/* Computes the tiles of one row of the kernel, with k terms. c: the sums of that row for output
** 0. */
static void multiply(const few *q, int64_t k, const char *a, const char *b, char *c) {
  const int64_t size = fl_conv_bytes(q->p->dtype), ld = q->rows * padded(q), outs = q->p->rows;
  const int64_t mr = fl_ceil_div(outs, fl_ceil_div(outs, q->job->loops->mr));
  for (int64_t j = 0; j < q->cols; j += 2 * q->lanes)
    for (int64_t i = 0; i < outs; i += mr)
      fl_conv_tile(q->job, q->wide, fl_min(mr, outs - i), q->cols - j <= q->lanes ? 1 : 2, k,
                   a + i * FL_CONV_LDA * size, b + j * size, q->off, q->lanes,
                   c + (i * ld + j) * size, ld, 1);
}

static void add_chunk(const few *q, int64_t g, int64_t chunk, char *a, char *source, char *sums) {
  const fl_conv_pass *p = q->p;
  const fl_conv_axis *ax = p->ax;
  const int64_t r0 = chunk % q->blocks1 * q->height, t0 = chunk / q->blocks1 % ax[0].count,
                n = chunk / q->blocks1 / ax[0].count;
  const int64_t height = fl_min(q->height, ax[1].count - r0), count = height * ax[2].count;
  const int64_t size = fl_conv_bytes(p->dtype), plane = fl_conv_count(p),
                y = r0 * ax[1].step + ax[1].off0;
  const fl_conv_run run = { 0, (int32_t)count, (n * p->groups + g) * p->rows * plane +
                            (t0 * ax[1].count + r0) * ax[2].count };
  q->job->loops->pack[p->dtype](a, FL_CONV_LDA, count, p->rows, q->grad, plane, 1, 1, &run);
  for (int64_t d = 0; d < ax[0].taps; d++) {
    const int64_t z = t0 * ax[0].step + ax[0].off0 + d * ax[0].doff;
    if (z < 0 || z >= ax[0].size) continue;
    turn_lines(q, (n * p->groups + g) * p->chans * fl_conv_source(p) + z * ax[1].size * ax[2].size,
               y, source);
    for (int64_t i = 0; i < ax[1].taps; i++) {
      int64_t top, end;
      fl_conv_inside(y + i * ax[1].doff, ax[1].step, ax[1].size, height, &top, &end);
      if (end > top)
        multiply(q, (end - top) * ax[2].count, a + top * ax[2].count * size,
                 source + (top * ax[1].step + i * ax[1].doff) * q->pitch * p->chans * size,
                 sums + (d * ax[1].taps + i) * padded(q) * size);
    }
  }
}

static char *sums_of(const few *q, int64_t g, int64_t split) {
  return q->job->scratch + (g * q->splits + split) * sums_size(q) * fl_conv_bytes(q->p->dtype);
}

static void unit(void *arg, int64_t index, int worker) {
  const few *q = arg;
  const int64_t size = fl_conv_bytes(q->p->dtype), g = index / q->splits, split = index % q->splits;
  char *a = q->workers + worker * q->worker_bytes,
       *source = a + (q->p->rows + FL_CONV_MR) * FL_CONV_LDA * size;
  char *sums = sums_of(q, g, split);
  memset(sums, 0, (size_t)(sums_size(q) * size));
  memset(source, 0, (size_t)(source_size(q) * size));
  for (int64_t i = split * q->split_chunks; i < fl_min((split + 1) * q->split_chunks, q->chunks);
       i++)
    if (!fl_stopped(q->job->dev)) add_chunk(q, g, i, a, source, sums);
}

/* Unit: a group's weights. */
static void collect_unit(void *arg, int64_t g, int worker) {
  const few *q = arg;
  const fl_conv_pass *p = q->p;
  const int64_t taps = p->ax[2].taps;
  const void *sums = sums_of(q, g, 0);
  (void)worker;
  for (int64_t o = 0; o < p->rows; o++)
    for (int64_t i = 0; i < q->rows; i++)
      for (int64_t j = 0; j < q->cols; j++) {
        fl_scalar v = { .d = 0 };
        for (int64_t s = 0; s < q->splits; s++) {
          const int64_t at = s * sums_size(q) + (o * q->rows + i) * padded(q) + j;
          v.d += q->wide ? ((const double *)sums)[at] : (double)((const float *)sums)[at];
        }
        const int64_t to = g * p->wg + o * p->wr + j % p->chans * p->wc + i * taps + j / p->chans;
        fl_scalar_store(p->dst + to * fl_dtype_size(p->dtype), p->dtype, v);
      }
}

/* Computes the weight's gradient. p: the forward pass (its kernel indices are its taps), with src:
** x, dst: the weight's gradient. */
void fl_conv_few(const fl_conv_job *job, const fl_conv_pass *p, const char *grad) {
  const fl_cpu *cpu = job->dev->state;
  const fl_conv_axis *ax = p->ax;
  few q;
  if (!plan(&q, p)) return;
  q.job = job;
  q.grad = grad;
  q.lanes = q.wide ? job->loops->lanes64 : job->loops->lanes32;
  q.workers = sums_of(&q, p->groups, 0);
  q.worker_bytes = worker_bytes(&q);
  for (int64_t i = 0; i < q.height * ax[2].count; i++)
    q.off[i] = (int32_t)((i / ax[2].count * ax[1].step * q.pitch + i % ax[2].count * ax[2].step) *
                         p->chans);
  fl_threads_run(cpu->pool, p->groups * q.splits, unit, &q, cpu->stop);
  if (!fl_stopped(job->dev)) fl_threads_run(cpu->pool, p->groups, collect_unit, &q, cpu->stop);
}
