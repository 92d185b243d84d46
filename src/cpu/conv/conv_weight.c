/*
** The weight's gradient as a product over all pixels (conv.h): rows are taps and channels of
** the source, columns the outputs, a term a pixel.
**
** Pixels are taken KC at a time. A unit has up to ROWS rows and COLS columns: it packs its rows
** (runs of neighbouring pixels, not transposed) and the output's gradient (transposed, pixels
** outermost), and adds the product to sums in scratch. With many channels the rows of a tap are
** handled separately, with only the pixels at which it is inside the source; otherwise positions
** outside are 0. Long sums are divided into 'splits' that depend on the shape; their sums are added
** in order at the end.
*/
#include "cpu/conv/conv.h"
#include "base/num.h"
#include <string.h>

enum { ROWS = 288, COLS = 256, COLS64 = 128 };
enum { SPLIT_PIXELS = 4096, SPLITS = 16, SPLIT_BYTES = 16 << 20 };
enum { TERMS = 32, OUTS = 16, RUN = 74 }; /* size of the blocks in which sums are transposed */
enum { HALVES = 128 };        /* values of a row widened at a time */
enum { CHANNELS = 32 };       /* from this number on, the channels of one tap fill panels */

typedef struct product {
  const fl_conv_job *job;
  const fl_conv_pass *p;
  const char *grad;
  int wide, lanes, nr;
  int apart; /* the rows of a tap are handled separately; their sums are ordered by channel and tap,
             ** otherwise by tap and channel */
  int64_t terms, outs; /* rows and columns of a group's result */
  int64_t padded; /* columns in scratch */
  int64_t pixels, chunks, splits, split_chunks;
  int64_t rows, cols, row_blocks, col_blocks;
  char *sums, *workers;
  int64_t worker_bytes;
  fl_conv_offsets packed;
} product;

static int64_t rows_bytes(int64_t size) {
  return (ROWS + FL_CONV_MR) * (int64_t)FL_CONV_LDA * size;
}
static int64_t cols_bytes(int64_t size) { return (int64_t)FL_CONV_KC * (COLS + FL_CONV_NR) * size; }
static int64_t worker_bytes(int64_t size) {
  return fl_round_up(rows_bytes(size) + cols_bytes(size) +
                    FL_CONV_KC * (int64_t)(sizeof(fl_conv_seg) + sizeof(fl_conv_run)) + 64, 64);
}

/* Sets everything that follows from the shape alone: the scratch is sized, and the call run, by the
** same numbers. */
static void plan(product *q, const fl_conv_pass *p) {
  *q = (product){ .p = p, .wide = fl_conv_wide(p->dtype) };
  const int64_t size = fl_conv_bytes(p->dtype);
  q->terms = fl_conv_taps(p) * p->chans;
  q->outs = p->rows;
  q->apart = p->chans >= CHANNELS && fl_conv_taps(p) > 1;
  q->padded = fl_ceil_div(q->outs, 16) * 16;
  q->pixels = p->n * fl_conv_count(p);
  q->chunks = fl_ceil_div(q->pixels, FL_CONV_KC);
  const int64_t one = p->groups * q->terms * q->padded * size;
  q->splits = fl_min(SPLITS, fl_ceil_div(q->pixels, SPLIT_PIXELS));
  while (q->splits > 1 && one > SPLIT_BYTES / q->splits) q->splits--;
  q->split_chunks = fl_ceil_div(q->chunks, q->splits);
  q->splits = fl_ceil_div(q->chunks, q->split_chunks);
}

int64_t fl_conv_weight_bytes(const fl_conv_pass *p, int workers) {
  product q;
  if (p->n * fl_conv_count(p) == 0 || p->rows * p->chans * p->groups == 0) return 0;
  plan(&q, p);
  const int64_t size = fl_conv_bytes(p->dtype);
  return fl_round_up(q.splits * p->groups * q.terms * q.padded * size, 64) +
         workers * worker_bytes(size);
}

/* Sizes of units; do not change results. */
static void plan_units(product *q, const fl_conv_job *job) {
  const fl_conv_loops *l = job->loops;
  const int64_t want = 3 * job->workers, size = fl_conv_bytes(q->p->dtype),
                units = q->p->groups * q->splits;
  q->job = job;
  q->lanes = q->wide ? l->lanes64 : l->lanes32;
  q->nr = 2 * q->lanes;
  fl_conv_packed(&q->packed, q->lanes);
  q->row_blocks = fl_ceil_div(q->terms, ROWS);
  q->col_blocks = fl_ceil_div(q->outs, q->wide ? COLS64 : COLS);
  while (units * q->row_blocks * q->col_blocks < want && q->terms / q->row_blocks > 4 * l->mr)
    q->row_blocks++;
  q->rows = fl_ceil_div(fl_ceil_div(q->terms, q->row_blocks), l->mr) * l->mr;
  if (q->rows > ROWS) q->rows = ROWS / l->mr * l->mr;
  q->row_blocks = fl_ceil_div(q->terms, q->rows);
  q->cols = fl_ceil_div(fl_ceil_div(q->outs, q->col_blocks), FL_CONV_NR) * FL_CONV_NR;
  q->col_blocks = fl_ceil_div(q->outs, q->cols);
  q->sums = job->scratch;
  q->workers = job->scratch + fl_round_up(q->splits * q->p->groups * q->terms * q->padded * size,
                                          64);
  q->worker_bytes = worker_bytes(size);
}

/* ---- packing ---- */

/* Half types are widened first. */
void fl_conv_turn(const fl_conv_loops *l, int dtype, void *b, int64_t ldb, int64_t w,
                  const char *from, int64_t plane, int64_t cols, int64_t n) {
  const void *x = from;
  float wide[FL_CONV_NR * HALVES], *to = b;
  if (dtype == FLAME_F64) l->turn64(b, ldb, w, x, plane, cols, n);
  else if (dtype == FLAME_F32) l->turn32(b, ldb, w, x, plane, cols, n);
  else for (int64_t i = 0; i < n; i += HALVES) {
    const int64_t m = fl_min(HALVES, n - i);
    const fl_conv_run run = { 0, (int32_t)m, i };
    l->pack[dtype](wide, HALVES, m, cols, from, plane, 1, 1, &run);
    l->turn32(to + i * ldb, ldb, w, wide, HALVES, cols, m);
  }
}

/* Packs the output's gradient of a chunk in panels of 'nr' columns; the last panel has 'lanes'
** columns if these are enough. */
static void pack_cols(const product *q, int64_t g, int64_t col, int64_t cols, int64_t pixel,
                      int64_t count, char *to) {
  const fl_conv_pass *p = q->p;
  const int64_t plane = fl_conv_count(p), element = fl_dtype_size(p->dtype),
                size = fl_conv_bytes(p->dtype);
  for (int64_t j = 0; j < cols; j += q->nr) {
    const int64_t have = fl_min(q->nr, cols - j), w = have <= q->lanes ? q->lanes : q->nr;
    for (int64_t i = 0; i < count;) {
      const int64_t image = (pixel + i) / plane, at = (pixel + i) % plane,
                    n = fl_min(plane - at, count - i);
      const int64_t from = ((image * p->groups + g) * p->rows + col + j) * plane + at;
      fl_conv_turn(q->job->loops, p->dtype, to + i * w * size, w, w, q->grad + from * element,
                   plane, have, n);
      i += n;
    }
    to += count * w * size;
  }
}

/* ---- products ---- */

/* Multiplies n rows; their terms are the k pixels in 'off', of the 'count' pixels of a chunk. c:
** sums, rows ldc apart. */
static void multiply(const product *q, int64_t n, int64_t cols, int64_t k, int64_t count,
                     const fl_conv_offsets *off, const char *a, const char *b, char *c, int64_t ldc,
                     int add) {
  const int64_t size = fl_conv_bytes(q->p->dtype),
                mr = fl_ceil_div(n, fl_ceil_div(n, q->job->loops->mr));
  for (int64_t j = 0; j < cols; j += q->nr) {
    const int64_t nv = cols - j <= q->lanes ? 1 : 2;
    for (int64_t i = 0; i < n; i += mr)
      fl_conv_tile(q->job, q->wide, fl_min(mr, n - i), nv, k, a + i * FL_CONV_LDA * size, b,
                   off->of[nv - 1], q->lanes, c + (i * ldc + j) * size, ldc, add);
    b += count * nv * q->lanes * size;
  }
}

/* Moves the runs together, so that there are no gaps between them: changes run[].at, copies the
** offsets of their pixels' columns to 'off', and returns the number of pixels. */
static int64_t close_up(const product *q, int runs, fl_conv_run *run, fl_conv_offsets *off) {
  int64_t k = 0;
  for (int i = 0; i < runs; i++) {
    const int64_t at = run[i].at;
    run[i].at = (int32_t)k;
    for (int64_t j = 0; j < run[i].len; j++, k++)
      for (int two = 0; two < 2; two++) off->of[two][k] = q->packed.of[two][at + j];
  }
  return k;
}

/* Adds a chunk of pixels, which is divided into the segments 'seg', to the sums of rows row … row +
** rows - 1. b: the chunk's packed columns; c: the group's sums. */
static void add_chunk(const product *q, int64_t g, int64_t row, int64_t rows, int64_t cols,
                      int64_t count, int nseg, const fl_conv_seg *seg, fl_conv_run *run, char *a,
                      const char *b, char *c, int add) {
  const fl_conv_pass *p = q->p;
  const int64_t plane = fl_conv_source(p), size = fl_conv_bytes(p->dtype), taps = fl_conv_taps(p);
  char *to = a;
  for (int64_t r = row, n; r < row + rows; r += n) {
    const int64_t i = r / p->chans, first = r % p->chans;
    const char *x = p->src + (g * p->chans + first) * plane * fl_dtype_size(p->dtype);
    int64_t tap[3], k = count;
    fl_conv_offsets off;
    n = fl_min(p->chans - first, row + rows - r);
    fl_conv_tap_of(p, i, tap);
    const int runs = fl_conv_runs(p, seg, nseg, tap, run);
    if (q->apart) k = close_up(q, runs, run, &off);
    q->job->loops->pack[p->dtype](to, FL_CONV_LDA, k, n, x, plane, p->ax[2].step, runs, run);
    if (!q->apart) to += n * FL_CONV_LDA * size;
    else
      multiply(q, n, cols, k, count, &off, a, b, c + (first * taps + i) * q->padded * size,
               taps * q->padded, add);
  }
  if (!q->apart)
    multiply(q, rows, cols, count, count, &q->packed, a, b, c + row * q->padded * size,
             q->padded, add);
}

static void unit(void *arg, int64_t index, int worker) {
  const product *q = arg;
  const fl_conv_pass *p = q->p;
  const int64_t size = fl_conv_bytes(p->dtype);
  char *a = q->workers + worker * q->worker_bytes, *b = a + rows_bytes(size);
  fl_conv_seg *seg = (fl_conv_seg *)(void *)(b + cols_bytes(size));
  fl_conv_run *run = (fl_conv_run *)(void *)(seg + FL_CONV_KC);
  const int64_t col = index % q->col_blocks * q->cols,
                row = index / q->col_blocks % q->row_blocks * q->rows;
  const int64_t split = index / q->col_blocks / q->row_blocks % q->splits,
                g = index / q->col_blocks / q->row_blocks / q->splits;
  const int64_t rows = fl_min(q->rows, q->terms - row),
                cols = fl_min(q->cols, q->outs - col);
  char *c = q->sums + ((split * p->groups + g) * q->terms * q->padded + col) * size;
  const int64_t first = split * q->split_chunks,
                last = fl_min(first + q->split_chunks, q->chunks);
  for (int64_t chunk = first; chunk < last; chunk++) {
    const int64_t pixel = chunk * FL_CONV_KC, count = fl_min(FL_CONV_KC, q->pixels - pixel);
    int start[2];
    const int nseg = fl_conv_cut(p, pixel, count, FL_CONV_KC, seg, start);
    pack_cols(q, g, col, cols, pixel, count, b);
    add_chunk(q, g, row, rows, cols, count, nseg, seg, run, a, b, c, chunk > first);
    if (fl_stopped(q->job->dev)) return;
  }
}

/* Adds the sums of all splits, in order, for n neighbouring outputs; the results are RUN apart. */
static void add_splits(const product *q, int64_t at, int64_t n, double *to) {
  const int64_t stride = q->p->groups * q->terms * q->padded;
  const void *sums = q->sums;
  const double *wide = (const double *)sums + at;
  const float *x = (const float *)sums + at;
  if (q->wide)
    for (int64_t j = 0; j < n; j++) to[j * RUN] = wide[j];
  else
    for (int64_t j = 0; j < n; j++) to[j * RUN] = (double)x[j];
  for (int64_t s = 1; s < q->splits; s++)
    for (int64_t j = 0; j < n; j++)
      to[j * RUN] += q->wide ? wide[s * stride + j] : (double)x[s * stride + j];
}

static void put(int dtype, char *to, const double *v, int64_t n) {
  void *out = to;
  if (dtype == FLAME_F64) memcpy(out, v, (size_t)n * sizeof *v);
  else if (dtype == FLAME_F32)
    for (int64_t j = 0; j < n; j++) ((float *)out)[j] = (float)v[j];
  else
    for (int64_t j = 0; j < n; j++)
      fl_scalar_store(to + j * fl_dtype_size(dtype), dtype, (fl_scalar){ .d = v[j] });
}

/* One unit of work: OUTS neighbouring outputs of a group. Sums are read in order and written in
** runs, through a buffer: rows of the weight are often a power of two apart, and would share cache
** sets. */
static void collect_unit(void *arg, int64_t index, int worker) {
  const product *q = arg;
  const fl_conv_pass *p = q->p;
  const int64_t blocks = fl_ceil_div(q->outs, OUTS), g = index / blocks, o = index % blocks * OUTS;
  const int64_t n = fl_min(OUTS, q->outs - o), taps = fl_conv_taps(p), all = taps * p->chans;
  double buffer[OUTS * RUN];
  int64_t c = 0, i = 0;
  (void)worker;
  for (int64_t first = 0; first < all; first += RUN) {
    const int64_t m = fl_min(RUN, all - first);
    for (int64_t k = 0; k < m; k++) {
      add_splits(q, (g * q->terms + (q->apart ? c * taps + i : i * p->chans + c)) * q->padded + o,
                 n, buffer + k);
      if (++i == taps) i = 0, c++;
    }
    for (int64_t j = 0; j < n; j++)
      put(p->dtype, p->dst + (g * p->wg + (o + j) * p->wr + first) * fl_dtype_size(p->dtype),
          buffer + j * RUN, m);
  }
}

/* Are the sums in scratch already the weight's gradient, except that they are transposed? */
static int turned(const product *q) {
  return q->splits == 1 && (q->apart || fl_conv_taps(q->p) == 1) &&
         fl_conv_bytes(q->p->dtype) == fl_dtype_size(q->p->dtype);
}

/* One unit of work: transposes the sums of TERMS terms of a group, for all outputs. */
static void turn_unit(void *arg, int64_t index, int worker) {
  const product *q = arg;
  const fl_conv_pass *p = q->p;
  const int64_t blocks = fl_ceil_div(q->terms, TERMS), g = index / blocks,
                first = index % blocks * TERMS;
  const int64_t n = fl_min(TERMS, q->terms - first), size = fl_conv_bytes(p->dtype);
  (void)worker;
  fl_conv_turn(q->job->loops, p->dtype, p->dst + (g * p->wg + first) * size, p->wr, n,
               q->sums + (g * q->terms + first) * q->padded * size, q->padded, n, q->outs);
}

/* Computes the weight's gradient. p: the forward pass (its kernel indices are its taps), with src:
** x, dst: the weight's gradient. */
void fl_conv_weight(const fl_conv_job *job, const fl_conv_pass *p, const char *grad) {
  const fl_cpu *cpu = job->dev->state;
  product q;
  plan(&q, p);
  q.grad = grad;
  plan_units(&q, job);
  fl_threads_run(cpu->pool, p->groups * q.splits * q.row_blocks * q.col_blocks, unit, &q,
                 cpu->stop);
  if (fl_stopped(job->dev)) return;
  if (turned(&q))
    fl_threads_run(cpu->pool, p->groups * fl_ceil_div(q.terms, TERMS), turn_unit, &q, cpu->stop);
  else
    fl_threads_run(cpu->pool, p->groups * fl_ceil_div(q.outs, OUTS), collect_unit, &q, cpu->stop);
}
