/*
** A pass as a product whose pixels are not packed (conv.h). Packed pixels are as many copies of the
** source as there are taps, which costs as much as a few dozen rows of weights; here a block's
** source is stored once in padded planes, and for each term a tile reads the run at which its tap
** begins. If rows of results are whole vectors ('whole'), nothing superfluous is computed and tiles
** write results in place. Otherwise vectors continue over the columns between rows, and sums are
** stored row by row, without these columns; this is used if there are so few rows of weights that
** packing would cost more. A column is a pixel, a term a channel and a tap, taps innermost; whole
** channels are a part, of at most KC terms.
*/
#include "cpu/conv/conv.h"
#include "base/num.h"
#include <string.h>

enum { VECTOR = 16, VECTOR64 = 8, MOST_TAPS = FL_CONV_KC / 2, BOX = 32 << 10, PIXELS = 256,
       LEAST_ROWS = 4, ROWS = 480 };
/* Packing a pixel takes about as long as multiplying it by this many rows of weights. */
enum { WORTH = 8 };
static const int64_t most_weights = 32 << 20;        /* bytes */

typedef struct shift {
  const fl_conv_job *job;
  const fl_conv_pass *p;
  int wide, lanes, whole;
  int64_t taps, channels, parts;        /* taps of a sum; channels of a part, and number of parts */
  int64_t panels, panel_rows;           /* of the weights of a group */
  int64_t row_panels, row_blocks;       /* panels per unit; units that all panels make */
  int64_t blocks1, blocks;              /* number of blocks of rows of results in a plane, and in
                                        ** all images */
  fl_conv_box box;
  char *a, *workers;
  int64_t worker_bytes;
  int32_t off[FL_CONV_KC], index[MOST_TAPS];   /* per term: offset in the buffer; per tap: index in
                                               ** the kernel */
} shift;

/* Computes the sizes of blocks and buffers; 0 if this method can not compute the pass. */
static int plan(shift *q, const fl_conv_pass *p) {
  q->p = p;
  q->wide = fl_conv_wide(p->dtype);
  q->taps = fl_conv_taps(p);
  q->whole = p->ax[2].count % (q->wide ? VECTOR64 : VECTOR) == 0;
  for (int a = 0; a < 3; a++)
    q->whole = q->whole && p->ax[a].hop == 1 && p->ax[a].count == p->ax[a].osize;
  if (q->taps < 2 || q->taps > MOST_TAPS || !fl_conv_box_of(p, &q->box)) return 0;
  q->channels = fl_min(p->chans, FL_CONV_KC / q->taps);
  q->channels = fl_ceil_div(p->chans, fl_ceil_div(p->chans, q->channels));
  q->parts = fl_ceil_div(p->chans, q->channels);
  const int64_t cols = p->ax[2].count, pitch = cols + q->box.reach[1];
  const int64_t room = BOX / (q->channels * q->box.planes * pitch) - q->box.reach[0];
  const int64_t wanted = (q->whole ? PIXELS : 2 * PIXELS) / cols,
                rows = wanted > LEAST_ROWS ? wanted : LEAST_ROWS;
  if (room < 1 || room < fl_min(LEAST_ROWS, p->ax[1].count)) return 0;
  fl_conv_box_size(&q->box, fl_min(fl_min(rows, room), p->ax[1].count), cols);
  return 1;
}

static int64_t weights_bytes(const shift *q) {
  /* enough rows for panels of any height */
  const int64_t rows = q->p->rows + fl_ceil_div(q->p->rows, 4);
  return q->p->groups * rows * q->parts * FL_CONV_LDA * fl_conv_bytes(q->p->dtype);
}

/* The bytes of the buffer, including what the last vector reads beyond its end. */
static int64_t box_bytes(const shift *q) {
  return fl_round_up((q->channels * q->box.planes * q->box.plane + FL_CONV_NR) *
                     fl_conv_bytes(q->p->dtype), 64);
}
static int64_t sums_width(const shift *q) {
  return (q->box.rows * q->box.pitch + VECTOR) / VECTOR * VECTOR;
}
static int64_t worker_bytes(const shift *q) {
  const int64_t rows = fl_min(q->p->rows, ROWS) + FL_CONV_MR;
  return box_bytes(q) +
         (q->whole ? 0 : fl_round_up(rows * sums_width(q) * fl_conv_bytes(q->p->dtype), 64));
}

int fl_conv_shift_fits(const fl_conv_pass *p) {
  shift q;
  if ((p->dtype != FLAME_F32 && p->dtype != FLAME_F64) || p->n == 0 || p->chans == 0 ||
      p->rows == 0)
    return 0;
  if (fl_conv_count(p) == 0 || !plan(&q, p) || weights_bytes(&q) > most_weights) return 0;
  return q.whole || q.box.reach[1] * p->rows <= WORTH * q.box.cols;
}

int64_t fl_conv_shift_bytes(const fl_conv_pass *p, int workers) {
  shift q;
  return plan(&q, p) ? fl_round_up(weights_bytes(&q), 64) + workers * worker_bytes(&q) : 0;
}

/* Makes units smaller until there are three for every worker: first fewer rows of results, then
** fewer panels. */
static void plan_units(shift *q) {
  const fl_conv_pass *p = q->p;
  const int64_t images = p->n * p->groups * p->ax[0].count, want = 3 * q->job->workers;
  int64_t rows = q->box.rows;
  while (q->job->workers > 1 && rows > 2 && images * fl_ceil_div(p->ax[1].count, rows) < want)
    rows = (rows + 1) / 2;
  fl_conv_box_size(&q->box, rows, q->box.cols);
  q->blocks1 = fl_ceil_div(p->ax[1].count, rows);
  q->blocks = images * q->blocks1;
  q->row_panels = q->whole ? q->panels : fl_min(q->panels, ROWS / q->panel_rows);
  while (q->job->workers > 1 && q->row_panels > 1 &&
         q->blocks * fl_ceil_div(q->panels, q->row_panels) < want)
    q->row_panels = (q->row_panels + 1) / 2;
  q->row_blocks = fl_ceil_div(q->panels, q->row_panels);
}

static void find_terms(shift *q) {
  const int64_t channel = q->box.planes * q->box.plane;
  for (int64_t i = 0; i < q->taps; i++) {
    int64_t tap[3];
    fl_conv_tap_of(q->p, i, tap);
    const int64_t at = fl_conv_box_tap(q->p, &q->box, tap);
    q->index[i] = (int32_t)fl_conv_kernel_index(q->p, tap);
    for (int64_t c = 0; c < q->channels; c++) q->off[c * q->taps + i] = (int32_t)(c * channel + at);
  }
}

/* ---- weights ---- */

/* Packs 'channels' channels of 'rows' rows, the first of which is at w: rows become LDA apart, taps
** innermost. */
#define GATHER(name, T) \
  static void name(const shift *q, T *to, const T *w, int64_t rows, int64_t channels) { \
    const int64_t taps = q->taps; \
    for (int64_t c = 0; c < channels; c++) \
      for (int64_t r = 0; r < rows; r++) { \
        const T *from = w + c * q->p->wc + r * q->p->wr; \
        T *out = to + r * FL_CONV_LDA + c * taps; \
        for (int64_t t = 0; t < taps; t++) out[t] = from[q->index[t]]; \
      } \
  }
GATHER(gather_f64, double)
GATHER(gather_f32, float)
#undef GATHER

static char *panel_at(const shift *q, int64_t g, int64_t part, int64_t panel) {
  const int64_t one = q->panel_rows * FL_CONV_LDA * fl_conv_bytes(q->p->dtype);
  return q->a + ((g * q->parts + part) * q->panels + panel) * one;
}

/* One unit of work: packs all parts of one panel of one group's weights. */
static void weights_unit(void *arg, int64_t unit, int worker) {
  const shift *q = arg;
  const fl_conv_pass *p = q->p;
  const int64_t g = unit / q->panels, panel = unit % q->panels, row0 = panel * q->panel_rows;
  const int64_t rows = fl_min(q->panel_rows, p->rows - row0);
  (void)worker;
  for (int64_t part = 0; part < q->parts; part++) {
    const int64_t c = part * q->channels, channels = fl_min(q->channels, p->chans - c);
    const void *w = p->w + (g * p->wg + row0 * p->wr + c * p->wc) * fl_conv_bytes(p->dtype);
    void *to = panel_at(q, g, part, panel);
    if (q->wide) gather_f64(q, to, w, rows, channels);
    else gather_f32(q, to, w, rows, channels);
  }
}

/* ---- products ---- */

/* Where vector j of a block's results is read in the buffer. */
static int64_t vector_at(const shift *q, int64_t j) {
  if (!q->whole) return j * q->lanes;
  const int64_t per = q->box.cols / q->lanes;
  return j / per * q->box.pitch + j % per * q->lanes;
}

/* Adds one part, k terms, to a panel's sums of 'vectors' vectors. c: the sums, rows ldc apart. */
static void multiply(const shift *q, int64_t rows, int64_t k, const char *a, const char *b,
                     int64_t vectors, char *c, int64_t ldc, int add) {
  const int64_t size = fl_conv_bytes(q->p->dtype);
  for (int64_t j = 0; j < vectors; j += 2) {
    const int64_t at = vector_at(q, j), nv = fl_min(2, vectors - j);
    fl_conv_tile(q->job, q->wide, rows, nv, k, a, b + at * size, q->off, vector_at(q, j + 1) - at,
                 c + j * q->lanes * size, ldc, add);
  }
}

/* Writes the sums of 'rows' rows, ld apart, to the result: those of the block at t0, r0. plane:
** plane of the first row. */
static void store(const shift *q, const char *sums, int64_t ld, int64_t rows, int64_t plane,
                  int64_t t0, int64_t r0, int64_t height) {
  const fl_conv_pass *p = q->p;
  const fl_conv_axis *ax = p->ax;
  const int64_t size = fl_conv_bytes(p->dtype);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t h = 0; h < height; h++) {
      const int64_t line = (ax[0].first + t0 * ax[0].hop) * ax[1].osize + ax[1].first +
                           (r0 + h) * ax[1].hop;
      fl_conv_store(q->job->loops, p->dtype,
                    p->dst + ((plane + r) * fl_conv_dest(p) + line * ax[2].osize + ax[2].first) *
                    size, ax[2].hop, sums + (r * ld + h * q->box.pitch) * size, q->box.cols);
    }
}

/* One unit of work: a block of rows of results of one image and group, for some panels of
** weights. */
static void unit(void *arg, int64_t index, int worker) {
  const shift *q = arg;
  const fl_conv_pass *p = q->p;
  const int64_t panel0 = index % q->row_blocks * q->row_panels, block = index / q->row_blocks;
  const int64_t r0 = block % q->blocks1 * q->box.rows, t0 = block / q->blocks1 % p->ax[0].count;
  const int64_t image = block / q->blocks1 / p->ax[0].count, n = image / p->groups,
                g = image % p->groups;
  const int64_t size = fl_conv_bytes(p->dtype), plane = fl_conv_dest(p), source = fl_conv_source(p);
  const int64_t height = fl_min(q->box.rows, p->ax[1].count - r0), row0 = panel0 * q->panel_rows;
  const int64_t vectors = q->whole ? height * (q->box.cols / q->lanes)
                                   : fl_ceil_div((height - 1) * q->box.pitch + q->box.cols,
                                                 q->lanes);
  const int64_t panels = fl_min(q->row_panels, q->panels - panel0);
  char *b = q->workers + worker * q->worker_bytes, *sums = b + box_bytes(q);
  char *c = q->whole
            ? p->dst +
            ((image * p->rows + row0) * plane + (t0 * p->ax[1].count + r0) * q->box.cols) *
            size : sums;
  const int64_t ldc = q->whole ? plane : sums_width(q);
  for (int64_t part = 0; part < q->parts; part++) {
    const int64_t first = part * q->channels, channels = fl_min(q->channels, p->chans - first);
    for (int64_t i = 0; i < channels; i++)
      fl_conv_box_fill(q->job, p, &q->box, b + i * q->box.planes * q->box.plane * size,
                       ((n * p->groups + g) * p->chans + first + i) * source, t0, r0, 0);
    for (int64_t i = 0; i < panels; i++) {
      const int64_t row = i * q->panel_rows;
      multiply(q, fl_min(q->panel_rows, p->rows - row0 - row), channels * q->taps,
               panel_at(q, g, part, panel0 + i), b, vectors, c + row * ldc * size, ldc, part > 0);
    }
  }
  if (!q->whole)
    store(q, sums, ldc, fl_min(panels * q->panel_rows, p->rows - row0), image * p->rows + row0, t0,
          r0, height);
}

void fl_conv_shift(const fl_conv_job *job, const fl_conv_pass *p) {
  const fl_cpu *cpu = job->dev->state;
  const int mr = job->loops->mr;
  shift q;
  if (!plan(&q, p)) return;
  q.job = job;
  q.lanes = q.wide ? job->loops->lanes64 : job->loops->lanes32;
  q.panels = fl_ceil_div(p->rows, mr);
  q.panel_rows = fl_ceil_div(p->rows, q.panels);
  q.panels = fl_ceil_div(p->rows, q.panel_rows);
  q.worker_bytes = worker_bytes(&q);
  q.a = job->scratch;
  q.workers = job->scratch + fl_round_up(weights_bytes(&q), 64);
  plan_units(&q);
  find_terms(&q);
  fl_threads_run(cpu->pool, p->groups * q.panels, weights_unit, &q, cpu->stop);
  fl_threads_run(cpu->pool, q.blocks * q.row_blocks, unit, &q, cpu->stop);
}
