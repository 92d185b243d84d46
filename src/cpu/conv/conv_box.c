/*
** Padded planes of a convolution's source (conv.h), for conv_flat.c and conv_shift.c: positions
** outside the source are 0 there, so that later steps need no test.
*/
#include "cpu/conv/conv.h"
#include "base/num.h"
#include <string.h>

int fl_conv_box_of(const fl_conv_pass *p, fl_conv_box *b) {
  for (int i = 0; i < 2; i++) {
    const fl_conv_axis *a = &p->ax[i + 1];
    const int64_t span = (a->taps - 1) * (a->doff < 0 ? -a->doff : a->doff);
    b->low[i] = a->doff < 0 ? a->off0 - span : a->off0;
    b->residues[i] = fl_min(a->step, span + 1);
    b->reach[i] = span / a->step;
  }
  b->planes = p->ax[0].taps * b->residues[0] * b->residues[1];
  return b->planes <= 64 && b->reach[1] <= 4096 && b->reach[0] <= 256;
}

void fl_conv_box_size(fl_conv_box *b, int64_t rows, int64_t cols) {
  b->rows = rows;
  b->cols = cols;
  b->height = rows + b->reach[0];
  b->pitch = cols + b->reach[1];
  b->plane = b->height * b->pitch;
}

/* Fills one plane of a buffer: rows y, y + step, … and columns x, x + step, … of the source plane
** whose first element is 'at' (-1: zeros). */
static void fill_plane(const fl_conv_job *job, const fl_conv_pass *p, const fl_conv_box *b,
                       char *to, int64_t at, int64_t y, int64_t x) {
  const fl_conv_axis *rows = &p->ax[1], *cols = &p->ax[2];
  const int64_t size = fl_conv_bytes(p->dtype), n = b->pitch, step = cols->step;
  const int64_t lo = x < 0 ? fl_min(n, fl_ceil_div(-x, step)) : 0;
  const int64_t hi = x < cols->size ? fl_min(n, (cols->size - 1 - x) / step + 1) : 0;
  const int64_t top = y < 0 ? fl_min(b->height, fl_ceil_div(-y, rows->step)) : 0;
  int64_t end = y < rows->size ? fl_min(b->height, (rows->size - 1 - y) / rows->step + 1) : 0;
  if (at < 0 || hi <= lo || end < top) end = top;
  memset(to, 0, (size_t)(top * n * size));
  if (end > top) {
    const int64_t from = at + (y + top * rows->step) * cols->size + x + lo * step;
    const fl_conv_run run = { (int32_t)lo, (int32_t)(hi - lo), from };
    job->loops->pack[p->dtype](to + top * n * size, n, n, end - top, p->src,
                               rows->step * cols->size, step, 1, &run);
  }
  memset(to + end * n * size, 0, (size_t)((b->height - end) * n * size));
}

/* For a column step of 2: fills the planes of even and of odd columns in one pass. */
static void fill_pair(const fl_conv_job *job, const fl_conv_pass *p, const fl_conv_box *b, char *to,
                      int64_t at, int64_t y, int64_t x) {
  const fl_conv_axis *rows = &p->ax[1];
  const int64_t n = b->pitch, width = p->ax[2].size;
  void *even = to;
  float *out = even;
  const void *from = p->src;
  int64_t top = y < 0 ? fl_min(b->height, fl_ceil_div(-y, rows->step)) : 0;
  int64_t end = y < rows->size ? fl_min(b->height, (rows->size - 1 - y) / rows->step + 1) : 0;
  if (at < 0 || end < top) end = top;
  for (int half = 0; half < 2; half++) {
    memset(out + half * b->plane, 0, (size_t)(top * n) * sizeof *out);
    memset(out + half * b->plane + end * n, 0, (size_t)((b->height - end) * n) * sizeof *out);
  }
  if (end > top)
    job->loops->pairs(out + top * n, out + b->plane + top * n, n, end - top,
                      (const float *)((uintptr_t)from +
                                      (uintptr_t)((at + (y + top * rows->step) * width + x) * 4)),
                      rows->step * width, -x, width - x);
}

void fl_conv_box_fill(const fl_conv_job *job, const fl_conv_pass *p, const fl_conv_box *b, char *to,
                      int64_t at, int64_t t0, int64_t r0, int64_t c0) {
  const fl_conv_axis *ax = p->ax;
  const int64_t size = fl_conv_bytes(p->dtype);
  const int pairs = job->loops->pairs && p->dtype == FLAME_F32 && ax[2].step == 2 &&
                    b->residues[1] == 2;
  for (int64_t d = 0; d < ax[0].taps; d++) {
    const int64_t z = t0 * ax[0].step + ax[0].off0 + d * ax[0].doff;
    const int64_t plane = z < 0 || z >= ax[0].size ? -1 : at + z * ax[1].size * ax[2].size;
    for (int64_t i = 0; i < b->residues[0]; i++)
      if (pairs) {
        fill_pair(job, p, b, to, plane, r0 * ax[1].step + b->low[0] + i, c0 * 2 + b->low[1]);
        to += 2 * b->plane * size;
      } else for (int64_t j = 0; j < b->residues[1]; j++, to += b->plane * size)
        fill_plane(job, p, b, to, plane, r0 * ax[1].step + b->low[0] + i,
                   c0 * ax[2].step + b->low[1] + j);
  }
}

int64_t fl_conv_box_tap(const fl_conv_pass *p, const fl_conv_box *b, const int64_t tap[3]) {
  int64_t plane = tap[0], shift[2];
  for (int i = 0; i < 2; i++) {
    const fl_conv_axis *a = &p->ax[i + 1];
    const int64_t off = a->off0 + tap[i + 1] * a->doff - b->low[i];
    plane = plane * b->residues[i] + off % a->step;
    shift[i] = off / a->step;
  }
  return plane * b->plane + shift[0] * b->pitch + shift[1];
}

void fl_conv_tap_of(const fl_conv_pass *p, int64_t i, int64_t tap[3]) {
  tap[2] = i % p->ax[2].taps;
  tap[1] = i / p->ax[2].taps % p->ax[1].taps;
  tap[0] = i / p->ax[2].taps / p->ax[1].taps;
}

int64_t fl_conv_kernel_index(const fl_conv_pass *p, const int64_t tap[3]) {
  int64_t k = 0;
  for (int a = 0; a < 3; a++) k = k * p->kernel[a] + p->ax[a].k0 + tap[a] * p->ax[a].dk;
  return k;
}
