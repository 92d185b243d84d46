/*
** A pass as a product whose columns are outputs and whose rows are pixels (conv.h). The weights are
** transposed, outputs innermost, and so is the source, channels innermost; a tap's terms are the
** channels of one source pixel, which are already contiguous, so no pixel is packed once per tap,
** and a tap that is outside the source for some pixels is skipped for these: on small planes that
** is a fifth of all products.
**
** A unit has a block of pixels (rows of results of one plane, or some small images) and some panels
** of outputs. What all units would transpose in the same way is transposed first, once: the
** weights, or, if all pixels of a group are one block, the source, and then each unit transposes
** its own panels' weights. The order of a sum: part by part of the channels, in a part
** tap by tap.
*/
#include "cpu/conv/conv.h"
#include "base/num.h"
#include <string.h>

enum { PIXELS = 256, LEAST_COLS = 4, MOST_COLS = 256, MOST_TAPS = 128, LEAST = 32 };
enum { UNITS = 4 };                     /* of a worker */
/* PART: most channels of a part; SLOTS: most channels times kernel indices; LINE: elements of a
** cache line */
enum { PART = 128, SLOTS = 4096, LINE = 16 };
static const int64_t most_weights = 32 << 20, most_source = 4 << 20;       /* bytes */

/* A tap. off: its source offsets; lo, hi: it is inside the source for the results lo … hi - 1 of
** axis 2; index: in the kernel. */
typedef struct tap { int64_t off[3], lo, hi, index; } tap;

typedef struct lanes {
  const fl_conv_job *job;
  const fl_conv_pass *p;
  int wide, nr;
  int fresh;                      /* all pixels of a group are one block, so units transpose the
                                  ** weights */
  /* taps; volume: kernel indices; slots: step from channel to channel in a panel */
  int64_t taps, volume, slots;
  int64_t channels, parts, panels;
  int64_t images, rows;           /* of a block */
  int64_t blocks, blocks1;        /* number of blocks; number of blocks of rows in a plane */
  int64_t per, ranges;            /* panels per unit; units that all panels make */
  int64_t pitch, planes, lines;   /* the transposed source of a block: distance of its pixels, sizes
                                  ** of axes 0 and 1 */
  char *shared, *workers;
  int64_t worker_bytes;
  tap tap[MOST_TAPS];
  fl_conv_offsets off;            /* of the channels of a panel's part */
} lanes;

/* The pixels of a unit, and the first plane and line of the source that they need. */
typedef struct spot { int64_t n, images, g, t0, r0, height, z, y; } spot;

/* ---- the plan ---- */

/* Elements of one part of the transposed source of an image. */
static int64_t source_size(const lanes *q) {
  return q->planes * q->lines * q->p->ax[2].size * q->pitch;
}
static int64_t source_bytes(const lanes *q, int64_t images) {          /* of a block, turned */
  return fl_round_up((images * q->parts * source_size(q) + FL_CONV_LDA) *
                     fl_conv_bytes(q->p->dtype), 64);
}
static int64_t panel_bytes(const lanes *q) {                           /* of one part */
  return fl_round_up(q->channels * q->slots * FL_CONV_NR * fl_conv_bytes(q->p->dtype), 64);
}
static int64_t panel_count(const lanes *q) {                          /* whatever a panel's width */
  return fl_ceil_div(q->p->rows, FL_CONV_NR);
}
static int64_t sums_bytes(const lanes *q) {
  return (q->images * q->rows * q->p->ax[2].count + LINE) * FL_CONV_NR * fl_conv_bytes(q->p->dtype);
}
static int64_t worker_bytes(const lanes *q) {
  return 2 * sums_bytes(q) + (q->fresh ? panel_bytes(q) : source_bytes(q, q->images));
}
static int64_t weights_bytes(const lanes *q) {
  return q->p->groups * panel_count(q) * q->parts * panel_bytes(q);
}
static int64_t shared_bytes(const lanes *q) {
  return q->fresh ? q->p->groups * source_bytes(q, q->images) : weights_bytes(q);
}

/* For the offsets of an axis: the smallest one, and how far the largest is beyond it. */
static int64_t least_of(const fl_conv_axis *a) {
  return a->doff < 0 ? a->off0 + (a->taps - 1) * a->doff : a->off0;
}
static int64_t span_of(const fl_conv_axis *a) {
  return (a->taps - 1) * (a->doff < 0 ? -a->doff : a->doff);
}

/* Decides how sums are divided; 0 if this method can not handle the steps or the kernel's size. */
static int plan_terms(lanes *q, const fl_conv_pass *p) {
  q->p = p;
  q->wide = fl_conv_wide(p->dtype);
  q->taps = fl_conv_taps(p);
  q->volume = p->kernel[0] * p->kernel[1] * p->kernel[2];
  if (q->taps < 2 || q->volume > MOST_TAPS || p->ax[2].step > 4 || FL_CONV_LDA % p->ax[2].step)
    return 0;
  q->slots = q->volume | 1;                 /* an even step would make cache lines share sets */
  q->pitch = FL_CONV_LDA / p->ax[2].step;   /* pixels read by neighbouring results of a row are then
                                            ** LDA apart */
  q->channels = fl_min(fl_min(PART, q->pitch / LINE * LINE), SLOTS / q->slots);
  q->channels = fl_ceil_div(p->chans, fl_ceil_div(p->chans, q->channels));
  q->parts = fl_ceil_div(p->chans, q->channels);
  return 1;
}

/* Sets what follows from the number of rows and images of a block. */
static void cut(lanes *q, int64_t rows, int64_t images) {
  const fl_conv_pass *p = q->p;
  const fl_conv_axis *ax = p->ax;
  q->rows = rows;
  q->images = fl_ceil_div(p->n, fl_ceil_div(p->n, images));
  q->lines = fl_min(ax[1].size, (rows - 1) * ax[1].step + span_of(&ax[1]) + 1);
  q->blocks1 = fl_ceil_div(ax[1].count, rows);
  q->blocks = fl_ceil_div(p->n, q->images) * p->groups * ax[0].count * q->blocks1;
  q->fresh = q->blocks == p->groups;
}

/* Computes the sizes of blocks and buffers for this number of workers; 0 if this method can not
** compute the pass. */
static int plan(lanes *q, const fl_conv_pass *p, int workers) {
  const fl_conv_axis *ax = p->ax;
  const int64_t cols = ax[2].count, span = span_of(&ax[1]) / ax[1].step;
  if (cols > MOST_COLS || ax[2].size > 4 * MOST_COLS || span > MOST_COLS ||
      span_of(&ax[0]) > MOST_COLS)
    return 0;
  if (!plan_terms(q, p)) return 0;
  int64_t rows = PIXELS / cols > span / 2 ? PIXELS / cols : span / 2;
  rows = fl_min(rows < 4 ? 4 : rows, ax[1].count);
  q->planes = fl_min(ax[0].size, span_of(&ax[0]) + 1);
  cut(q, rows, rows == ax[1].count && ax[0].count == 1 ? fl_min(p->n, PIXELS / (rows * cols) + 1)
                                                       : 1);
  while (q->images > 1 && source_bytes(q, q->images) > most_source) cut(q, rows, q->images - 1);
  if (source_bytes(q, q->images) > most_source || (!q->fresh && weights_bytes(q) > most_weights))
    return 0;
  while (workers > 1 && q->blocks * panel_count(q) < UNITS * workers &&
         weights_bytes(q) <= most_weights) {
    if (q->images > 1) cut(q, rows, (q->images + 1) / 2);
    else if (q->rows * cols > 2 * LINE && q->rows > 1) cut(q, (q->rows + 1) / 2, 1);
    else break;
  }
  return 1;
}

int fl_conv_lanes_fits(const fl_conv_pass *p) {
  lanes q;
  if (!fl_is_float(p->dtype) || p->n == 0 || p->chans < LEAST || p->rows < LEAST ||
      fl_conv_count(p) == 0)
    return 0;
  return p->ax[2].count >= LEAST_COLS && plan(&q, p, 1);
}

int64_t fl_conv_lanes_bytes(const fl_conv_pass *p, int workers) {
  lanes q;
  return plan(&q, p, workers) ? shared_bytes(&q) + workers * worker_bytes(&q) : 0;
}

static void find_taps(lanes *q) {
  const fl_conv_axis *ax = q->p->ax;
  for (int64_t i = 0; i < q->taps; i++) {
    int64_t k[3];
    tap *t = &q->tap[i];
    fl_conv_tap_of(q->p, i, k);
    for (int a = 0; a < 3; a++) t->off[a] = ax[a].off0 + k[a] * ax[a].doff;
    fl_conv_inside(t->off[2], ax[2].step, ax[2].size, ax[2].count, &t->lo, &t->hi);
    t->index = fl_conv_kernel_index(q->p, k);
  }
}

/* Divides the panels among units. Units of a block each transpose the source, unless it is
** shared. */
static void plan_units(lanes *q) {
  const int64_t want = UNITS * q->job->workers, least = q->fresh ? 1 : 3;
  q->panels = fl_ceil_div(q->p->rows, q->nr);
  q->ranges = 1;
  while (q->blocks * q->ranges < want && q->panels > least * q->ranges) q->ranges++;
  q->per = fl_ceil_div(q->panels, q->ranges);
  q->ranges = fl_ceil_div(q->panels, q->per);
}

/* ---- the source and the weights, turned ---- */

static char *source_at(const lanes *q, char *block, int64_t image, int64_t part) {
  return block + (image * q->parts + part) * source_size(q) * fl_conv_bytes(q->p->dtype);
}

/* Transposes a part's channels of one image of a block. */
static void turn_source(const lanes *q, const spot *s, int64_t image, int64_t part, char *block) {
  const fl_conv_pass *p = q->p;
  const fl_conv_axis *ax = p->ax;
  const int64_t size = fl_conv_bytes(p->dtype), first = part * q->channels,
                plane = fl_conv_source(p);
  const int64_t all = fl_min(q->channels, p->chans - first),
                lines = fl_min(q->lines, ax[1].size - s->y);
  for (int64_t z = 0; z < fl_min(q->planes, ax[0].size - s->z); z++)
    for (int64_t c = 0; c < all; c += LINE) {
      const int64_t channel = ((s->n + image) * p->groups + s->g) * p->chans + first + c;
      const int64_t from = channel * plane + ((s->z + z) * ax[1].size + s->y) * ax[2].size;
      fl_conv_turn(q->job->loops, p->dtype, source_at(q, block, image, part) +
                   (z * q->lines * ax[2].size * q->pitch + c) * size, q->pitch, LINE,
                   p->src + from * fl_dtype_size(p->dtype), plane, fl_min(LINE, all - c),
                   lines * ax[2].size);
    }
}

static int64_t panel_width(const lanes *q, int64_t panel) {
  return q->p->rows - panel * q->nr <= q->nr / 2 ? q->nr / 2 : q->nr;
}

/* Copies a part of a panel's weights to 'to', transposed: by channel, kernel index, output, which
** is innermost. */
static void turn_panel(const lanes *q, int64_t g, int64_t panel, int64_t part, char *to) {
  const fl_conv_pass *p = q->p;
  const int64_t first = part * q->channels, all = fl_min(q->channels, p->chans - first),
                w = panel_width(q, panel);
  const int64_t have = fl_min(w, p->rows - panel * q->nr), element = fl_dtype_size(p->dtype);
  const char *from = p->w + (g * p->wg + panel * q->nr * p->wr + first * p->wc) * element;
  const int one = p->wc == q->slots;                     /* then all is one matrix */
  for (int64_t c = 0; c < (one ? 1 : all); c++)
    fl_conv_turn(q->job->loops, p->dtype, to + c * q->slots * w * fl_conv_bytes(p->dtype), w, w,
                 from + c * p->wc * element, p->wr, have, q->volume * (one ? all : 1));
}

static char *panel_at(const lanes *q, int64_t g, int64_t panel, int64_t part) {
  return q->shared + ((g * q->panels + panel) * q->parts + part) * q->channels * q->slots * q->nr *
         fl_conv_bytes(q->p->dtype);
}

static spot spot_of(const lanes *q, int64_t block) {
  const fl_conv_pass *p = q->p;
  const fl_conv_axis *ax = p->ax;
  const int64_t r0 = block % q->blocks1 * q->rows, t0 = block / q->blocks1 % ax[0].count;
  const int64_t image = block / q->blocks1 / ax[0].count / p->groups * q->images;
  const int64_t z = t0 * ax[0].step + least_of(&ax[0]), y = r0 * ax[1].step + least_of(&ax[1]);
  return (spot){ .n = image, .images = fl_min(q->images, p->n - image),
                 .g = block / q->blocks1 / ax[0].count % p->groups,
                 .t0 = t0, .r0 = r0, .height = fl_min(q->rows, ax[1].count - r0),
                 .z = fl_min(z < 0 ? 0 : z, ax[0].size - 1),
                 .y = fl_min(y < 0 ? 0 : y, ax[1].size - 1) };
}

/* One unit of the work that is done once, before the products: transposes one part of a panel of
** weights or, if 'fresh', of an image of the source. */
static void shared_unit(void *arg, int64_t unit, int worker) {
  const lanes *q = arg;
  (void)worker;
  const int64_t part = unit % q->parts, i = unit / q->parts;
  if (q->fresh) {
    const spot s = spot_of(q, i / q->images);
    turn_source(q, &s, i % q->images, part, q->shared + s.g * source_bytes(q, q->images));
  } else turn_panel(q, i / q->panels, i % q->panels, part,
                    panel_at(q, i / q->panels, i % q->panels, part));
}

/* ---- products ---- */

/* Adds tap t, k terms (the channels of a part of the block 'source'), to the sums of all pixels
** that it reaches. b: that part's weights of a panel of w outputs. */
static void add_tap(const lanes *q, const spot *s, const tap *t, int64_t part, int64_t k, int64_t w,
                    char *source, const char *b, char *sums) {
  const fl_conv_axis *ax = q->p->ax;
  const int64_t size = fl_conv_bytes(q->p->dtype), mr = q->job->loops->mr, cols = ax[2].count,
                z = s->t0 * ax[0].step + t->off[0];
  int64_t top, end;
  if (z < 0 || z >= ax[0].size) return;
  fl_conv_inside(s->r0 * ax[1].step + t->off[1], ax[1].step, ax[1].size, s->height, &top, &end);
  const int64_t each = t->hi > t->lo ? fl_ceil_div(t->hi - t->lo, fl_ceil_div(t->hi - t->lo, mr))
                                     : 0;
  for (int64_t i = 0; i < s->images; i++) {
    const char *a = source_at(q, source, i, part) +
                    ((z - s->z) * q->lines * ax[2].size + t->off[2]) * q->pitch * size;
    for (int64_t r = top; r < end; r++) {
      const int64_t line = ((s->r0 + r) * ax[1].step + t->off[1] - s->y) * ax[2].size * q->pitch;
      for (int64_t x = t->lo; x < t->hi; x += each)
        fl_conv_tile(q->job, q->wide, fl_min(each, t->hi - x), w == q->nr ? 2 : 1, k,
                     a + (line + x * FL_CONV_LDA) * size, b + t->index * w * size,
                     q->off.of[w == q->nr], q->nr / 2,
                     sums + ((i * s->height + r) * cols + x) * w * size, w, 1);
    }
  }
}

/* Writes the sums of a panel to the result. */
static void store(const lanes *q, const spot *s, int64_t panel, int64_t w, const char *sums,
                  char *turned) {
  const fl_conv_pass *p = q->p;
  const fl_conv_axis *ax = p->ax;
  const int64_t size = fl_conv_bytes(p->dtype), cols = ax[2].count,
                have = fl_min(w, p->rows - panel * q->nr);
  const int64_t all = s->images * s->height * cols, ld = fl_ceil_div(all, LINE) * LINE;
  const int whole = ax[1].hop == 1 && ax[2].hop == 1 && cols == ax[2].osize;
  const int64_t run = whole ? s->height * cols : cols;
  fl_conv_turn(q->job->loops, q->wide ? FLAME_F64 : FLAME_F32, turned, ld, ld, sums, w, all, have);
  for (int64_t o = 0; o < have; o++)
    for (int64_t at = 0; at < all; at += run) {
      const int64_t r = s->r0 + at / cols % s->height, n = s->n + at / cols / s->height;
      const int64_t line = (ax[0].first + s->t0 * ax[0].hop) * ax[1].osize + ax[1].first +
                           r * ax[1].hop;
      const int64_t plane = (n * p->groups + s->g) * p->rows + panel * q->nr + o;
      const int64_t to = plane * fl_conv_dest(p) + line * ax[2].osize + ax[2].first;
      fl_conv_store(q->job->loops, p->dtype, p->dst + to * fl_dtype_size(p->dtype), ax[2].hop,
                    turned + (o * ld + at) * size, run);
    }
}

static void unit(void *arg, int64_t index, int worker) {
  const lanes *q = arg;
  const fl_conv_pass *p = q->p;
  const spot s = spot_of(q, index / q->ranges);
  const int64_t first = index % q->ranges * q->per, last = fl_min(first + q->per, q->panels);
  char *sums = q->workers + worker * q->worker_bytes, *turned = sums + sums_bytes(q);
  char *own = turned + sums_bytes(q),
       *source = q->fresh ? q->shared + s.g * source_bytes(q, q->images) : own;
  for (int64_t i = 0; !q->fresh && i < s.images * q->parts; i++)
    turn_source(q, &s, i / q->parts, i % q->parts, own);
  for (int64_t panel = first; panel < last && !fl_stopped(q->job->dev); panel++) {
    const int64_t w = panel_width(q, panel);
    memset(sums, 0, (size_t)(s.images * s.height * p->ax[2].count * w * fl_conv_bytes(p->dtype)));
    for (int64_t part = 0; part < q->parts; part++) {
      if (q->fresh) turn_panel(q, s.g, panel, part, own);
      const char *b = q->fresh ? own : panel_at(q, s.g, panel, part);
      const int64_t k = fl_min(q->channels, p->chans - part * q->channels);
      for (int64_t i = 0; i < q->taps; i++) add_tap(q, &s, &q->tap[i], part, k, w, source, b, sums);
    }
    store(q, &s, panel, w, sums, turned);
  }
}

void fl_conv_lanes(const fl_conv_job *job, const fl_conv_pass *p) {
  const fl_cpu *cpu = job->dev->state;
  lanes q;
  if (!plan(&q, p, job->workers)) return;
  q.job = job;
  q.nr = 2 * (q.wide ? job->loops->lanes64 : job->loops->lanes32);
  for (int64_t k = 0; k < q.channels; k++)
    for (int two = 0; two < 2; two++) q.off.of[two][k] = (int32_t)(k * q.slots * (q.nr >> !two));
  q.shared = job->scratch;
  q.workers = job->scratch + shared_bytes(&q);
  q.worker_bytes = worker_bytes(&q);
  plan_units(&q);
  find_taps(&q);
  fl_threads_run(cpu->pool, p->groups * q.parts * (q.fresh ? q.images : q.panels), shared_unit, &q,
                 cpu->stop);
  fl_threads_run(cpu->pool, q.blocks * q.ranges, unit, &q, cpu->stop);
}
