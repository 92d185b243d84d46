/*
** A pass as a product (conv.h): rows of packed weights times columns of packed pixels.
**
** A column is a pixel, a term of its sum a channel and a tap: taps are innermost, as in the
** weights, and whole channels form a part of at most KC terms; for kernels with many taps channels
** are innermost. Weights are packed once, or, if they are used with few pixels, panel by panel as
** they are needed. A unit (what a worker takes at a time) packs NC pixels of one part at a time and
** multiplies them with its rows, panel by panel. If results are contiguous in memory and need no
** rounding the tiles write them there; otherwise they are summed in the worker's scratch and
** scattered or rounded once.
*/
#include "cpu/conv/conv.h"
#include "tensor/math.h"
#include "base/num.h"
#include <string.h>

enum { NC = 256, NC64 = 128, ROWS = 480, GROUP_BYTES = 32 << 20, FEW_TAPS = 16, FEW_BLOCKS = 2 };

typedef struct product {
  const fl_conv_job *job;
  const fl_conv_pass *p;
  int wide, mr, nr, lanes;
  /* taps and terms of a sum; its blocks of terms and their length */
  int64_t taps, terms, parts, kc;
  int64_t channels; /* of a part whose taps are innermost; 0: channels are innermost */
  int64_t index[FEW_TAPS]; /* kernel indices of the taps, if few */
  int64_t panels, panel_rows; /* of the weights of a group */
  int64_t group, groups; /* the first group that is packed now, and the number of these groups */
  int64_t width, blocks; /* pixels per unit; units that all pixels make */
  int64_t row_panels, row_blocks; /* panels of a unit; units that all panels make */
  int direct; /* tiles write directly to the result */
  int fresh; /* weights are packed when they are needed */
  int64_t image; /* number of pixels that are cut into blocks together: with 'direct' those of one
                 ** image, else those of all images */
  char *a, *workers;
  int64_t worker_bytes;
  fl_conv_offsets packed;
} product;

/* ---- pixels and runs ---- */

int fl_conv_cut(const fl_conv_pass *p, int64_t first, int64_t count, int64_t width,
                fl_conv_seg *seg, int *start) {
  const int64_t c2 = p->ax[2].count, c1 = p->ax[1].count, c0 = p->ax[0].count;
  int n = 0, part = 0;
  int64_t row = first / c2, t2 = first % c2, at = 0, left = count;
  while (left > 0) {
    if (at == 0) start[part++] = n;
    const int64_t len = fl_min(fl_min(c2 - t2, width - at), left);
    seg[n++] =
        (fl_conv_seg){ (int32_t)at, (int32_t)len, row / c1 / c0, { row / c1 % c0, row % c1, t2 } };
    at = at + len == width ? 0 : at + len;
    t2 += len;
    left -= len;
    if (t2 == c2) t2 = 0, row++;
  }
  start[part] = n;
  return n;
}

int fl_conv_runs(const fl_conv_pass *p, const fl_conv_seg *seg, int nseg, const int64_t tap[3],
                 fl_conv_run *run) {
  const fl_conv_axis *ax = p->ax;
  const int64_t off0 = ax[0].off0 + tap[0] * ax[0].doff, off1 = ax[1].off0 + tap[1] * ax[1].doff;
  const int64_t off2 = ax[2].off0 + tap[2] * ax[2].doff, step = ax[2].step;
  const int64_t batch = p->groups * p->chans * fl_conv_source(p);
  int n = 0;
  for (int i = 0; i < nseg; i++) {
    const fl_conv_seg *s = &seg[i];
    const int64_t z = s->t[0] * ax[0].step + off0, y = s->t[1] * ax[1].step + off1,
                  x = s->t[2] * step + off2;
    if (z < 0 || z >= ax[0].size || y < 0 || y >= ax[1].size) continue;
    int64_t lo, hi;
    fl_conv_inside(x, step, ax[2].size, s->len, &lo, &hi);
    if (hi <= lo) continue;
    const int64_t from = s->n * batch + (z * ax[1].size + y) * ax[2].size + x + lo * step;
    const int32_t at = s->at + (int32_t)lo;
    if (n > 0 && step == 1 && run[n - 1].at + run[n - 1].len == at &&
        run[n - 1].from + run[n - 1].len == from)
      run[n - 1].len += (int32_t)(hi - lo);
    else run[n++] = (fl_conv_run){ at, (int32_t)(hi - lo), from };
  }
  return n;
}

/* ---- the plan ---- */

/* How sums are cut. */
static void plan_terms(product *q, const fl_conv_pass *p) {
  q->taps = fl_conv_taps(p);
  q->terms = q->taps * p->chans;
  q->channels = q->taps <= FEW_TAPS ? FL_CONV_KC / q->taps : 0;
  if (q->channels) {
    q->channels = fl_ceil_div(p->chans, fl_ceil_div(p->chans, q->channels));
    q->kc = q->channels * q->taps;
  } else q->kc = fl_ceil_div(q->terms, fl_ceil_div(q->terms, FL_CONV_KC));
  q->parts = fl_ceil_div(q->terms, q->kc);
}

static int64_t most_groups(const fl_conv_pass *p, int64_t group_bytes) {
  const int64_t n = group_bytes ? GROUP_BYTES / group_bytes : 1;
  return n < 1 ? 1 : fl_min(n, p->groups);
}

/* Bytes of packed weights of a group, for panels of any height up to MR. */
static int64_t group_bytes(const fl_conv_pass *p) {
  const int64_t padded = p->rows + fl_ceil_div(p->rows, 4);
  product q;
  plan_terms(&q, p);
  return padded * FL_CONV_LDA * q.parts * fl_conv_bytes(p->dtype);
}

static int64_t panel_bytes(void) { return (int64_t)FL_CONV_MR * FL_CONV_LDA * 8; }
static int64_t pixels_bytes(void) { return (int64_t)FL_CONV_KC * NC * 4; }
static int64_t sums_bytes(void) { return (int64_t)(ROWS + FL_CONV_MR) * NC * 4; }
static int64_t segs_bytes(void) { return (int64_t)(NC + 16) * (int64_t)sizeof(fl_conv_seg); }
static int64_t worker_bytes(void) {
  return fl_round_up(panel_bytes() + pixels_bytes() + sums_bytes() + segs_bytes() +
                    FL_CONV_NR * (int64_t)sizeof(fl_conv_run), 64);
}

static int empty(const fl_conv_pass *p) {
  return p->n == 0 || p->rows == 0 || p->groups == 0 || fl_conv_count(p) == 0;
}

int64_t fl_conv_gemm_bytes(const fl_conv_pass *p, int workers) {
  if (empty(p) || p->chans == 0) return 0;
  const int64_t one = group_bytes(p);
  return fl_round_up(one * most_groups(p, one), 64) + workers * worker_bytes();
}

/* Divides the rows into panels of even height, since a last panel of few rows costs as much as a
** full one. */
static void plan_rows(product *q) {
  q->panels = fl_ceil_div(q->p->rows, q->mr);
  q->panel_rows = fl_ceil_div(q->p->rows, q->panels);
  q->panels = fl_ceil_div(q->p->rows, q->panel_rows);
  q->row_panels = fl_min(q->panels, ROWS / q->panel_rows);
}

/* Chooses units: first with fewer pixels (unless there are more rows than pixels, as each unit
** needs all weights), then with fewer rows, until there are three units for every worker. */
static void plan_units(product *q) {
  const fl_conv_pass *p = q->p;
  const int64_t most = q->wide ? NC64 : NC, want = 3 * q->job->workers;
  const int64_t count = fl_conv_count(p), all = q->direct ? count : p->n * count,
                images = q->direct ? p->n : 1;
  q->image = q->direct ? count : all;
  q->width = most;
  while (q->width > 2 * q->nr && p->rows < all &&
         images * fl_ceil_div(all, q->width) * p->groups < want)
    q->width /= 2;
  q->blocks = images * fl_ceil_div(all, q->width);
  /* with few blocks only one unit per worker: more would balance better, but packing the pixels
  ** again for each costs more than that saves */
  if (q->blocks <= FEW_BLOCKS) {
    const int64_t per = fl_ceil_div(q->job->workers, q->blocks * p->groups);
    q->row_panels = fl_min(q->row_panels, fl_ceil_div(q->panels, per));
  } else while (q->row_panels > 1 &&
                q->blocks * p->groups * fl_ceil_div(q->panels, q->row_panels) < want)
    q->row_panels = (q->row_panels + 1) / 2;
  q->row_blocks = fl_ceil_div(q->panels, q->row_panels);
}

static void plan(product *q, const fl_conv_job *job, const fl_conv_pass *p) {
  const fl_conv_loops *l = job->loops;
  *q = (product){ .job = job, .p = p, .wide = fl_conv_wide(p->dtype), .mr = l->mr };
  q->lanes = q->wide ? l->lanes64 : l->lanes32;
  q->nr = 2 * q->lanes;
  fl_conv_packed(&q->packed, q->lanes);
  plan_terms(q, p);
  for (int64_t i = 0; q->channels && i < q->taps; i++) {
    int64_t tap[3];
    fl_conv_tap_of(p, i, tap);
    q->index[i] = fl_conv_kernel_index(p, tap);
  }
  const int64_t count = fl_conv_count(p);
  q->direct =
      (p->dtype == FLAME_F32 || p->dtype == FLAME_F64) &&
      (count % q->nr == 0 || count >= 16 * q->nr);
  for (int a = 0; a < 3; a++)
    q->direct = q->direct && p->ax[a].hop == 1 && p->ax[a].count == p->ax[a].osize;
  plan_rows(q);
  plan_units(q);
  q->fresh = q->blocks <= FEW_BLOCKS;
  const int64_t one = group_bytes(p);
  q->groups = q->fresh ? p->groups : most_groups(p, one);
  q->a = job->scratch;
  q->workers = job->scratch + fl_round_up(one * most_groups(p, one), 64);
  q->worker_bytes = worker_bytes();
}

/* ---- packing ---- */

/* Packs 'channels' channels of 'rows' rows, the first of which is at w: rows become LDA apart, taps
** innermost. If a row's channels are far apart (in a transposed weight), all rows are read channel
** by channel. */
#define GATHER(name, S, T, FROM, COPY) \
  static void name(const product *q, T *to, const S *w, int64_t rows, int64_t channels) { \
    const int64_t wr = q->p->wr, wc = q->p->wc, taps = q->taps; \
    if (wc == taps) { \
      for (int64_t r = 0; r < rows; r++) \
        COPY(to + r * FL_CONV_LDA, w + r * wr, channels * taps, FROM) \
      return; \
    } \
    for (int64_t c = 0; c < channels; c++) \
      for (int64_t r = 0; r < rows; r++) { \
        const S *from = w + c * wc + r * wr; \
        T *out = to + r * FL_CONV_LDA + c * taps; \
        for (int64_t t = 0; t < taps; t++) out[t] = FROM(from[q->index[t]]); \
      } \
  }
#define AS_IS(v) (v)
#define MOVE(to, from, n, FROM) memcpy(to, from, (size_t)(n) * sizeof *(to));
#define WIDEN(to, from, n, FROM) for (int64_t k = 0; k < (n); k++) (to)[k] = FROM((from)[k]);
GATHER(gather_f64, double, double, AS_IS, MOVE)
GATHER(gather_f32, float, float, AS_IS, MOVE)
GATHER(gather_f16, uint16_t, float, fl_f16_value, WIDEN)
GATHER(gather_bf16, uint16_t, float, fl_bf16_value, WIDEN)
#undef GATHER
#undef MOVE
#undef WIDEN
#undef AS_IS

static void gather(const product *q, char *to, const char *w, int64_t rows, int64_t channels) {
  void *out = to;
  const void *from = w;
  switch (q->p->dtype) {
  case FLAME_F64: gather_f64(q, out, from, rows, channels); break;
  case FLAME_F32: gather_f32(q, out, from, rows, channels); break;
  case FLAME_F16: gather_f16(q, out, from, rows, channels); break;
  default: gather_bf16(q, out, from, rows, channels);
  }
}

/* n values 'step' apart, widened. */
static void widen(int dtype, void *to, const char *w, int64_t at, int64_t step, int64_t n) {
  const void *from = w;
  if (dtype == FLAME_F64) {
    const double *x = (const double *)from + at;
    for (int64_t i = 0; i < n; i++) ((double *)to)[i] = x[i * step];
  } else if (dtype == FLAME_F32) {
    const float *x = (const float *)from + at;
    for (int64_t i = 0; i < n; i++) ((float *)to)[i] = x[i * step];
  } else {
    const uint16_t *x = (const uint16_t *)from + at;
    for (int64_t i = 0; i < n; i++)
      ((float *)to)[i] = dtype == FLAME_F16 ? fl_f16_to_f32(x[i * step])
                                            : fl_bf16_to_f32(x[i * step]);
  }
}

/* Packs terms k … end - 1 of a row of weights; terms are ordered with channels innermost. */
static void pack_row(const product *q, char *to, int64_t row, int64_t k, int64_t end) {
  const fl_conv_pass *p = q->p;
  while (k < end) {
    int64_t tap[3];
    fl_conv_tap_of(p, k / p->chans, tap);
    const int64_t c = k % p->chans, n = fl_min(p->chans - c, end - k);
    widen(p->dtype, to, p->w, row + c * p->wc + fl_conv_kernel_index(p, tap), p->wc, n);
    to += n * fl_conv_bytes(p->dtype);
    k += n;
  }
}

/* Packs one part of a panel's weights. */
static void pack_panel(const product *q, int64_t g, int64_t part, int64_t panel, char *to) {
  const fl_conv_pass *p = q->p;
  const int64_t row0 = panel * q->panel_rows, rows = fl_min(q->panel_rows, p->rows - row0);
  const int64_t base = (q->group + g) * p->wg + row0 * p->wr, size = fl_conv_bytes(p->dtype);
  if (q->channels) {
    const int64_t c = part * q->channels;
    gather(q, to, p->w + (base + c * p->wc) * fl_dtype_size(p->dtype), rows,
           fl_min(q->channels, p->chans - c));
    return;
  }
  for (int64_t r = 0; r < rows; r++)
    pack_row(q, to + r * FL_CONV_LDA * size, base + r * p->wr, part * q->kc,
             fl_min((part + 1) * q->kc, q->terms));
}

static char *panel_at(const product *q, int64_t g, int64_t part, int64_t panel) {
  const int64_t one = q->panel_rows * FL_CONV_LDA * fl_conv_bytes(q->p->dtype);
  return q->a + ((g * q->parts + part) * q->panels + panel) * one;
}

/* One unit of work: packs all parts of one panel of one group's weights. */
static void weights_unit(void *arg, int64_t unit, int worker) {
  const product *q = arg;
  const int64_t g = unit / q->panels, panel = unit % q->panels;
  (void)worker;
  for (int64_t part = 0; part < q->parts; part++)
    pack_panel(q, g, part, panel, panel_at(q, g, part, panel));
}

/* Packs n channels of one tap for a panel of pixels; the packed channels are 'step' values
** apart. */
static void pack_channels(const product *q, int64_t g, const int64_t tap[3], int64_t c, int64_t n,
                          const fl_conv_seg *seg, int nseg, int64_t width, int64_t step, char *to) {
  const fl_conv_pass *p = q->p;
  const int64_t plane = fl_conv_source(p);
  fl_conv_run run[FL_CONV_NR + 1];
  const int runs = fl_conv_runs(p, seg, nseg, tap, run);
  q->job->loops->pack[p->dtype](to, step, width, n,
                                p->src + (g * p->chans + c) * plane * fl_dtype_size(p->dtype),
                                plane, p->ax[2].step, runs, run);
}

/* Packs the pixels of terms k0 … k1 - 1 of a part in panels of 'nr' columns; the last panel has
** 'lanes' columns if these are enough. */
static void pack_pixels(const product *q, int64_t g, int64_t k0, int64_t k1, const fl_conv_seg *seg,
                        const int *start, int64_t count, char *to) {
  const fl_conv_pass *p = q->p;
  const int64_t size = fl_conv_bytes(p->dtype), inner = q->channels ? q->taps : p->chans;
  for (int64_t j = 0, panel = 0; j < count; j += q->nr, panel++) {
    const int64_t width = count - j <= q->lanes ? q->lanes : q->nr;
    const fl_conv_seg *s = seg + start[panel];
    const int nseg = start[panel + 1] - start[panel];
    int64_t tap[3];
    if (q->channels)
      for (int64_t t = 0; t < inner; t++) {
        fl_conv_tap_of(p, t, tap);
        pack_channels(q, g, tap, k0 / inner, (k1 - k0) / inner, s, nseg, width, inner * width,
                      to + t * width * size);
      }
    else
      for (int64_t k = k0, n; k < k1; k += n) {
        fl_conv_tap_of(p, k / inner, tap);
        n = fl_min(inner - k % inner, k1 - k);
        pack_channels(q, g, tap, k % inner, n, s, nseg, width, width, to + (k - k0) * width * size);
      }
    to += (k1 - k0) * width * size;
  }
}

/* ---- products ---- */

static void tile(const product *q, int64_t rows, int64_t nv, int64_t k, const void *a,
                 const void *b, void *c, int64_t ldc, int add) {
  fl_conv_tile(q->job, q->wide, rows, nv, k, a, b, q->packed.of[nv - 1], q->lanes, c, ldc, add);
}

/* Computes a tile that has columns beyond the end of the result, through a buffer. */
static void edge_tile(const product *q, int64_t rows, int64_t nv, int64_t k, const void *a,
                      const void *b, char *c, int64_t ldc, int64_t cols, int add) {
  _Alignas(64) double buffer[FL_CONV_MR * FL_CONV_NR];
  const int64_t w = nv * q->lanes;
  void *out = c;
  tile(q, rows, nv, k, a, b, buffer, w, 0);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0; j < cols; j++) {
      if (q->wide)
        ((double *)out)[r * ldc + j] = (add ? ((double *)out)[r * ldc + j] : 0) + buffer[r * w + j];
      else
        ((float *)out)[r * ldc + j] =
            (add ? ((float *)out)[r * ldc + j] : 0) + ((float *)buffer)[r * w + j];
    }
}

/* Multiplies a panel of weights with the pixels from 'first' up to 'count', for a part of k terms.
** c: 'rows' rows of results, ldc apart; whole: tiles may write past 'count'. */
static void multiply_panel(const product *q, int64_t rows, int64_t k, const char *a, const char *b,
                           int64_t first, int64_t count, char *c, int64_t ldc, int whole, int add) {
  const int64_t size = fl_conv_bytes(q->p->dtype);
  for (int64_t j = first; j < count; j += q->nr) {
    const int64_t cols = fl_min(q->nr, count - j), nv = cols <= q->lanes ? 1 : 2;
    if (whole || cols == nv * q->lanes) tile(q, rows, nv, k, a, b, c + j * size, ldc, add);
    else edge_tile(q, rows, nv, k, a, b, c + j * size, ldc, cols, add);
    b += k * nv * q->lanes * size;
  }
}

/* Multiplies the unit's panels with its pixels, for one part of the terms. */
static void multiply(const product *q, int64_t g, int64_t part, int64_t panel0, int64_t panels,
                     int64_t k, const char *b, int64_t count, char *c, int64_t ldc, char *room) {
  const int64_t size = fl_conv_bytes(q->p->dtype), most = q->fresh ? count : q->nr;
  for (int64_t j = 0; j < count; j += most)
    for (int64_t i = 0; i < panels; i++) {
      const int64_t row = i * q->panel_rows;
      const int64_t rows = fl_min(q->panel_rows, q->p->rows - panel0 * q->panel_rows - row);
      const char *a = q->fresh ? room : panel_at(q, g, part, panel0 + i);
      if (q->fresh) pack_panel(q, g, part, panel0 + i, room);
      multiply_panel(q, rows, k, a, b + j * k * size, j, fl_min(count, j + most),
                     c + row * ldc * size, ldc, !q->direct, part > 0);
    }
}

/* Writes the worker's sums to the result: rows 'row0' … of group g. */
static void scatter(const product *q, int64_t g, int64_t row0, int64_t rows, const fl_conv_seg *seg,
                    const int *start, int64_t parts, const char *sums, int64_t ldc) {
  const fl_conv_pass *p = q->p;
  const fl_conv_axis *ax = p->ax;
  const int64_t plane = fl_conv_dest(p), size = fl_conv_bytes(p->dtype),
                element = fl_dtype_size(p->dtype);
  for (int64_t i = 0; i < parts; i++)
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): one for each part */
    for (int s = start[i]; s < start[i + 1]; s++) {
      const fl_conv_seg *v = &seg[s];
      int64_t pos = 0;
      for (int a = 0; a < 3; a++) pos = pos * ax[a].osize + ax[a].first + v->t[a] * ax[a].hop;
      pos += (v->n * p->groups * p->rows + g * p->rows + row0) * plane;
      for (int64_t r = 0; r < rows; r++)
        fl_conv_store(q->job->loops, p->dtype, p->dst + (pos + r * plane) * element, ax[2].hop,
                      sums + (r * ldc + i * q->nr + v->at) * size, v->len);
    }
}

static void unit(void *arg, int64_t index, int worker) {
  const product *q = arg;
  const fl_conv_pass *p = q->p;
  char *room = q->workers + worker * q->worker_bytes, *b = room + panel_bytes(),
       *sums = b + pixels_bytes();
  fl_conv_seg *seg = (fl_conv_seg *)(void *)(sums + sums_bytes());
  int start[NC / 2 + 2];
  const int64_t panel0 = index % q->row_blocks * q->row_panels,
                block = index / q->row_blocks % q->blocks;
  const int64_t g = index / q->row_blocks / q->blocks;
  const int64_t per = fl_ceil_div(q->image, q->width), at = block % per * q->width;
  const int64_t count = fl_min(q->width, q->image - at),
                panels = fl_min(q->row_panels, q->panels - panel0);
  const int64_t row0 = panel0 * q->panel_rows,
                rows = fl_min(panels * q->panel_rows, p->rows - row0);
  const int64_t image = block / per, plane = fl_conv_dest(p), group = q->group + g;
  fl_conv_cut(p, image * q->image + at, count, q->nr, seg, start);
  char *c = q->direct ? p->dst + (((image * p->groups + group) * p->rows + row0) * plane + at) *
                                     fl_dtype_size(p->dtype)
                      : sums;
  const int64_t ldc = q->direct ? plane : fl_ceil_div(count, q->nr) * q->nr;
  for (int64_t k = 0, part = 0; k < q->terms; k += q->kc, part++) {
    const int64_t end = fl_min(k + q->kc, q->terms);
    pack_pixels(q, group, k, end, seg, start, count, b);
    multiply(q, g, part, panel0, panels, end - k, b, count, c, ldc, room);
  }
  if (!q->direct) scatter(q, group, row0, rows, seg, start, fl_ceil_div(count, q->nr), sums, ldc);
}

void fl_conv_gemm(const fl_conv_job *job, const fl_conv_pass *p) {
  const fl_cpu *cpu = job->dev->state;
  product q;
  if (empty(p) || p->chans == 0) return;
  plan(&q, job, p);
  const int64_t most = q.groups;
  for (q.group = 0; q.group < p->groups && !fl_stopped(job->dev); q.group += most) {
    q.groups = fl_min(most, p->groups - q.group);
    if (!q.fresh) fl_threads_run(cpu->pool, q.groups * q.panels, weights_unit, &q, cpu->stop);
    fl_threads_run(cpu->pool, q.groups * q.blocks * q.row_blocks, unit, &q, cpu->stop);
  }
}
