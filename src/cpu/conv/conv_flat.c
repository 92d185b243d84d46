/*
** Passes with few outputs per group (conv.h), as depthwise and grouped convolutions have: too small
** for a product, which would spend its time packing. Source planes are copied into padded buffers,
** their rows and columns sorted by residue of the step, so that a tap reads one run of memory for a
** whole block of rows and the sum of all taps is a sum of shifted vectors. Buffers have some more
** columns than the result ("pitch"); results there are dropped at the end.
**
** The gradient of such weights is a dot product of the output's gradient, laid out at the same
** pitch with zeros between rows, and the same buffer, one for each tap.
*/
#include "cpu/conv/conv.h"
#include "base/num.h"
#include <string.h>

enum { SOURCE = 48 << 10, RESULT = 12 << 10 };           /* elements */
/* TAPS: most taps that the loops take at a time; MOST_TAPS: of a kernel. Most output channels per
** group (rows): FEW for the weight's gradient, ROWS for a pass. */
enum { TAPS = 64, MOST_TAPS = 1024, FEW = 2, ROWS = 8 };

typedef struct flat {
  const fl_conv_job *job;
  const fl_conv_pass *p;
  const char *grad;
  int weight; /* the weight's gradient */
  fl_conv_box box; /* of a block of results */
  int64_t blocks0, blocks1, blocks2; /* blocks of an image */
  int32_t at[MOST_TAPS];    /* per tap: where its run begins in the buffer */
  int32_t index[MOST_TAPS]; /* per tap: its index in the kernel */
  char *workers;
  int64_t worker_bytes;
} flat;

static int64_t round_block(int64_t n) { return fl_ceil_div(n, FL_CONV_BLOCK) * FL_CONV_BLOCK; }

/* Computes the sizes of blocks and buffers; 0 if this method can not compute the pass. */
static int plan(flat *q, const fl_conv_pass *p) {
  *q = (flat){ .p = p };
  if (fl_conv_taps(p) > MOST_TAPS || !fl_conv_box_of(p, &q->box)) return 0;
  const int64_t cols = fl_min(p->ax[2].count, 2048), pitch = cols + q->box.reach[1];
  const int64_t rows = fl_min(RESULT / pitch, SOURCE / (q->box.planes * pitch) - q->box.reach[0]);
  if (rows < 1) return 0;
  fl_conv_box_size(&q->box, fl_min(p->ax[1].count, rows), cols);
  q->blocks0 = p->ax[0].count;
  q->blocks1 = fl_ceil_div(p->ax[1].count, q->box.rows);
  q->blocks2 = fl_ceil_div(p->ax[2].count, q->box.cols);
  return 1;
}

static int64_t source_bytes(const flat *q) {
  return fl_round_up((q->box.planes * q->box.plane + 2 * FL_CONV_BLOCK) *
                     fl_conv_bytes(q->p->dtype), 64);
}
static int64_t result_bytes(const flat *q) {
  return fl_round_up((round_block(q->box.rows * q->box.pitch) + FL_CONV_BLOCK) *
                     fl_conv_bytes(q->p->dtype), 64);
}

/* Of one worker. */
static int64_t bytes_of(const flat *q) {
  return source_bytes(q) + (q->p->rows > FEW ? q->p->rows : FEW) * result_bytes(q);
}

int fl_conv_flat_fits(const fl_conv_pass *p) {
  flat q;
  return p->rows <= ROWS && fl_conv_taps(p) > 1 && fl_conv_count(p) > 0 && fl_is_float(p->dtype) &&
         plan(&q, p);
}

int fl_conv_flat_weight_fits(const fl_conv_pass *p) {
  flat q;
  return p->rows <= FEW && p->chans <= FEW && fl_conv_count(p) > 0 && plan(&q, p);
}

int64_t fl_conv_flat_bytes(const fl_conv_pass *p, int workers) {
  flat q;
  return plan(&q, p) ? workers * bytes_of(&q) : 0;
}

/* ---- buffers ---- */

/* Reads n values of the source from element 'at' on, 'step' apart, and widens them. */
static void read_row(int dtype, void *to, const char *src, int64_t at, int64_t step, int64_t n) {
  const void *s = src;
  if (dtype == FLAME_F32) {
    const float *x = (const float *)s + at;
    if (step == 1) memcpy(to, x, (size_t)n * sizeof *x);
    else
      for (int64_t i = 0; i < n; i++) ((float *)to)[i] = x[i * step];
  } else if (dtype == FLAME_F64) {
    const double *x = (const double *)s + at;
    for (int64_t i = 0; i < n; i++) ((double *)to)[i] = x[i * step];
  } else {
    const uint16_t *x = (const uint16_t *)s + at;
    for (int64_t i = 0; i < n; i++)
      ((float *)to)[i] = dtype == FLAME_F16 ? fl_f16_to_f32(x[i * step])
                                            : fl_bf16_to_f32(x[i * step]);
  }
}

static void fill(const flat *q, char *to, int64_t at, int64_t t0, int64_t r0, int64_t c0) {
  const int64_t size = fl_conv_bytes(q->p->dtype);
  fl_conv_box_fill(q->job, q->p, &q->box, to, at, t0, r0, c0);
  memset(to + q->box.planes * q->box.plane * size, 0, (size_t)(2 * FL_CONV_BLOCK * size));
}

/* Finds for each tap where it begins in the buffer, and its index in the kernel: they are the same
** for all blocks. */
static void find_taps(flat *q) {
  for (int64_t i = 0; i < fl_conv_taps(q->p); i++) {
    int64_t tap[3];
    fl_conv_tap_of(q->p, i, tap);
    q->at[i] = (int32_t)fl_conv_box_tap(q->p, &q->box, tap);
    q->index[i] = (int32_t)fl_conv_kernel_index(q->p, tap);
  }
}

static double weight_at(const flat *q, int64_t at) {
  const void *w = q->p->w;
  switch (q->p->dtype) {
  case FLAME_F64: return ((const double *)w)[at];
  case FLAME_F32: return (double)((const float *)w)[at];
  case FLAME_F16: return (double)fl_f16_to_f32(((const uint16_t *)w)[at]);
  default: return (double)fl_bf16_to_f32(((const uint16_t *)w)[at]);
  }
}

/* Reads the weights of 'taps' taps from 'first' on, for 'rows' rows. w: index of row 0's first
** weight. */
static void weights64(const flat *q, double *to, int rows, int64_t w, int64_t first, int taps) {
  for (int i = 0; i < taps; i++)
    for (int r = 0; r < rows; r++)
      to[i * rows + r] = weight_at(q, w + r * q->p->wr + q->index[first + i]);
}
static void weights32(const flat *q, float *to, int rows, int64_t w, int64_t first, int taps) {
  const void *all = q->p->w;
  const float *from = (const float *)all + w;
  if (q->p->dtype == FLAME_F32) {
    for (int i = 0; i < taps; i++)
      for (int r = 0; r < rows; r++) to[i * rows + r] = from[r * q->p->wr + q->index[first + i]];
    return;
  }
  double wide[4 * TAPS];
  weights64(q, wide, rows, w, first, taps);
  for (int i = 0; i < taps * rows; i++) to[i] = (float)wide[i];
}

/* y (of 'rows' rows: 1 or 4) = or += all taps of one source channel; w: its first weight. 'lines'
** not 0 (then rows is 1 and there are at most TAPS taps): that many rows of results, cols apart; n
** values of each are computed, and those beyond cols are overwritten by the next row. */
#define ADD_TAPS(name, T, bits) \
  static void name(const flat *q, void *y, int rows, const void *buffer, int64_t w, int64_t n, \
                   int add, int64_t lines) { \
    const fl_conv_loops *l = q->job->loops; \
    const T *x[TAPS]; \
    T weight[4 * TAPS]; \
    const int64_t all = fl_conv_taps(q->p), ld = result_bytes(q) / (int64_t)sizeof(T); \
    for (int64_t first = 0; first < all; first += TAPS, add = 1) { \
      const int taps = (int)fl_min(TAPS, all - first); \
      for (int i = 0; i < taps; i++) x[i] = (const T *)buffer + q->at[first + i]; \
      weights##bits(q, weight, rows, w, first, taps); \
      for (int64_t h = 0; h < lines; h++) { \
        l->flat##bits((T *)y + h * q->box.cols, n, taps, x, weight, add); \
        for (int i = 0; i < taps; i++) x[i] += q->box.pitch; \
      } \
      if (lines) continue; \
      if (rows == 1) l->flat##bits(y, n, taps, x, weight, add); \
      else l->four##bits(y, ld, n, taps, x, weight, add); \
    } \
  }
ADD_TAPS(add_taps64, double, 64)
ADD_TAPS(add_taps32, float, 32)
#undef ADD_TAPS

/* ---- a pass ---- */

static void add_taps(const flat *q, void *y, int rows, const void *buffer, int64_t w, int64_t n,
                     int add, int64_t lines) {
  (fl_conv_wide(q->p->dtype) ? add_taps64 : add_taps32)(q, y, rows, buffer, w, n, add, lines);
}

/* The number of rows of a block's results that are written to the result directly: all but the
** last, since the last vectors of each row may write beyond it, into the next. 0: not possible with
** this pass. */
static int64_t lines_inplace(const flat *q, int64_t rows, int64_t cols) {
  const fl_conv_pass *p = q->p;
  const int64_t n = round_block(cols);
  int fits = p->chans == 1 && p->rows == 1 && fl_conv_taps(p) <= TAPS && q->blocks2 == 1 &&
             4 * n <= 5 * cols;
  fits = fits && fl_conv_bytes(p->dtype) == fl_dtype_size(p->dtype);
  for (int a = 1; a < 3; a++) fits = fits && p->ax[a].hop == 1 && p->ax[a].count == p->ax[a].osize;
  return fits ? rows - 1 : 0;
}

/* One unit of work: a block (rows and columns) of the results of one image and group. */
static void flat_unit(void *arg, int64_t unit, int worker) {
  const flat *q = arg;
  const fl_conv_pass *p = q->p;
  const fl_conv_axis *ax = p->ax;
  const int64_t c0 = unit % q->blocks2 * q->box.cols,
                r0 = unit / q->blocks2 % q->blocks1 * q->box.rows;
  const int64_t t0 = unit / q->blocks2 / q->blocks1 % q->blocks0,
                image = unit / q->blocks2 / q->blocks1 / q->blocks0;
  const int64_t n = image / p->groups, g = image % p->groups, element = fl_dtype_size(p->dtype),
                size = fl_conv_bytes(p->dtype);
  const int64_t rows = fl_min(q->box.rows, ax[1].count - r0),
                cols = fl_min(q->box.cols, ax[2].count - c0);
  char *buffer = q->workers + worker * q->worker_bytes, *y = buffer + source_bytes(q);
  const int64_t first = lines_inplace(q, rows, cols),
                wide = round_block((rows - first - 1) * q->box.pitch + cols);
  for (int64_t c = 0; c < p->chans; c++) {
    fill(q, buffer, ((n * p->groups + g) * p->chans + c) * fl_conv_source(p), t0, r0, c0);
    if (first)
      add_taps(q,
               p->dst + (image * fl_conv_dest(p) +
                         ((ax[0].first + t0 * ax[0].hop) * ax[1].osize + r0) * cols) * size, 1,
               buffer, g * p->wg, round_block(cols), 0, first);
    for (int64_t r = 0, some; r < p->rows; r += some) {
      some = p->rows - r < 4 ? 1 : 4;
      add_taps(q, y + r * result_bytes(q), (int)some, buffer + first * q->box.pitch * size,
               g * p->wg + r * p->wr + c * p->wc, wide, c > 0, 0);
    }
  }
  for (int64_t r = 0; r < p->rows; r++) {
    const int64_t plane = ((n * p->groups + g) * p->rows + r) * fl_conv_dest(p) +
                          (ax[0].first + t0 * ax[0].hop) * ax[1].osize * ax[2].osize;
    for (int64_t h = first; h < rows; h++) {
      const int64_t at =
          plane + (ax[1].first + (r0 + h) * ax[1].hop) * ax[2].osize + ax[2].first + c0 * ax[2].hop;
      fl_conv_store(q->job->loops, p->dtype, p->dst + at * element, ax[2].hop,
                    y + r * result_bytes(q) + (h - first) * q->box.pitch * size, cols);
    }
  }
}

void fl_conv_flat(const fl_conv_job *job, const fl_conv_pass *p) {
  const fl_cpu *cpu = job->dev->state;
  flat q;
  if (!plan(&q, p)) return;
  find_taps(&q);
  q.job = job;
  q.workers = job->scratch;
  q.worker_bytes = bytes_of(&q);
  fl_threads_run(cpu->pool, p->n * p->groups * q.blocks0 * q.blocks1 * q.blocks2, flat_unit, &q,
                 cpu->stop);
}

/* ---- the weight's gradient ---- */

/* Copies the output's gradient of a block, at the buffer's pitch, with zeros between its rows and
** after them. */
static void fill_grad(const flat *q, char *to, int64_t at, int64_t rows, int64_t cols,
                      int64_t all) {
  const fl_conv_pass *p = q->p;
  const int64_t size = fl_conv_bytes(p->dtype);
  memset(to, 0, (size_t)(all * size));
  for (int64_t h = 0; h < rows; h++)
    read_row(p->dtype, to + h * q->box.pitch * size, q->grad, at + h * p->ax[2].count, 1, cols);
}

static double dot(const flat *q, int64_t n, const void *a, const void *b) {
  return fl_conv_wide(q->p->dtype) ? q->job->loops->dot64(n, a, b) : q->job->loops->dot32(n, a, b);
}

/* Adds one block's terms to the gradients of a group's weights. */
static void weight_block(const flat *q, int64_t n, int64_t g, int64_t block, char *buffer,
                         double *sum) {
  const fl_conv_pass *p = q->p;
  const fl_conv_axis *ax = p->ax;
  const int64_t c0 = block % q->blocks2 * q->box.cols,
                r0 = block / q->blocks2 % q->blocks1 * q->box.rows;
  const int64_t t0 = block / q->blocks2 / q->blocks1, taps = fl_conv_taps(p),
                size = fl_conv_bytes(p->dtype);
  const int64_t rows = fl_min(q->box.rows, ax[1].count - r0),
                cols = fl_min(q->box.cols, ax[2].count - c0);
  const int64_t wide = round_block((rows - 1) * q->box.pitch + cols);
  char *y = buffer + source_bytes(q);
  for (int64_t r = 0; r < p->rows; r++)
    fill_grad(q, y + r * result_bytes(q),
              ((n * p->groups + g) * p->rows + r) * fl_conv_count(p) +
                  (t0 * ax[1].count + r0) * ax[2].count + c0,
              rows, cols, wide);
  for (int64_t c = 0; c < p->chans; c++) {
    fill(q, buffer, ((n * p->groups + g) * p->chans + c) * fl_conv_source(p), t0, r0, c0);
    for (int64_t r = 0; r < p->rows; r++)
      for (int64_t i = 0; i < taps; i++)
        sum[(r * FEW + c) * MOST_TAPS + i] += dot(q, wide, y + r * result_bytes(q),
                                                  buffer + q->at[i] * size);
  }
}

static void weight_unit(void *arg, int64_t g, int worker) {
  const flat *q = arg;
  const fl_conv_pass *p = q->p;
  char *buffer = q->workers + worker * q->worker_bytes;
  double sum[FEW * FEW * MOST_TAPS];
  const int64_t taps = fl_conv_taps(p);
  for (int64_t i = 0; i < FEW * FEW; i++)
    memset(sum + i * MOST_TAPS, 0, (size_t)taps * sizeof *sum);
  for (int64_t n = 0; n < p->n; n++)
    for (int64_t b = 0; b < q->blocks0 * q->blocks1 * q->blocks2; b++)
      weight_block(q, n, g, b, buffer, sum);
  for (int64_t r = 0; r < p->rows; r++)
    for (int64_t c = 0; c < p->chans; c++)
      for (int64_t i = 0; i < taps; i++) {
        const fl_scalar v = { .d = sum[(r * FEW + c) * MOST_TAPS + i] };
        const int64_t at = g * p->wg + r * p->wr + c * p->wc + q->index[i];
        fl_scalar_store(p->dst + at * fl_dtype_size(p->dtype), p->dtype, v);
      }
}

void fl_conv_flat_weight(const fl_conv_job *job, const fl_conv_pass *p, const char *grad) {
  const fl_cpu *cpu = job->dev->state;
  flat q;
  if (!plan(&q, p)) return;
  find_taps(&q);
  q.job = job;
  q.grad = grad;
  q.workers = job->scratch;
  q.worker_bytes = bytes_of(&q);
  fl_threads_run(cpu->pool, p->groups, weight_unit, &q, cpu->stop);
}
