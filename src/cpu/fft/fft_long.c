/*
** Long Fourier transforms (fft_job.h). The signal of length rows * columns is a matrix:
** transforms down the columns, a multiplication with roots of unity, transforms along the rows,
** and the result is read down the columns. Neighbouring columns, then rows, are the lanes, so
** both phases are as vectorised and as parallel as batches of short transforms.
**
**   input -> [a: half spectra, chirps] -> columns -> t -> rows -> output, or [y] -> output
*/
#include "cpu/fft/fft_job.h"
#include "base/num.h"
#include <string.h>

enum { CHUNK = 4096, ALONE = 16384 };

/* ---- elements one by one, for the passes around the transform --------------------- */

/* Element k of transform j->at as it is stored, 0 beyond its end. */
static void stored(const fl_fft_job *j, int64_t k, double v[2]) {
  const fl_fft_form *f = &j->f;
  const int real = f->mode == FL_FFT_TO_HALF;
  const char *at = (const char *)j->run->in[0] + fl_fft_first(j, j->at, f->size_in, real ? 1 : 2);
  const int64_t most = f->mode == FL_FFT_FROM_HALF ? f->n / 2 + 1 : f->n;
  v[0] = v[1] = 0;
  if (k >= most || k >= f->size_in) return;
  v[0] = fl_fft_get(j, at, k * f->inner * (real ? 1 : 2));
  if (!real) v[1] = fl_fft_get(j, at, k * f->inner * 2 + 1);
}

/* Element k of a half spectrum as it is stored, 0 beyond its end. The imaginary part of the first
** element and, if n is even, of element n / 2 is taken as 0. */
static void spectrum(const fl_fft_job *j, int64_t k, double v[2]) {
  stored(j, k, v);
  if (k == 0 || 2 * k == j->f.n) v[1] = 0;
}

/* exp(-2 pi i k / n), k <= length = n / 2: the table has half of them. */
static void half_root(const fl_fft_job *j, int64_t k, double w[2]) {
  const int mirrored = 2 * k > j->length;
  const int64_t at = mirrored ? j->length - k : k;
  w[0] = fl_fft_get(j, j->real, 2 * at) * (mirrored ? -1 : 1);
  w[1] = fl_fft_get(j, j->real, 2 * at + 1);
}

/* Element k of the signal to which the forward transform is applied; for an inverse transform real
** and imaginary part are exchanged. */
static void element(const fl_fft_job *j, int64_t k, double v[2]) {
  double a[2], b[2], w[2];
  if (j->f.mode == FL_FFT_TO_HALF) {
    stored(j, j->packed ? 2 * k : k, v);
    if (j->packed) stored(j, 2 * k + 1, b), v[1] = b[0];
    return;
  }
  if (j->f.mode == FL_FFT_COMPLEX) {
    stored(j, k, a);
  } else if (!j->packed) {
    spectrum(j, k <= j->f.n / 2 ? k : j->f.n - k, a);
    if (k > j->f.n / 2) a[1] = -a[1];
  } else {
    spectrum(j, k, a);
    spectrum(j, j->length - k, b);
    half_root(j, k, w);
    const double dr = a[0] - b[0], di = a[1] + b[1];        /* times i / w */
    const double tr = dr * w[0] + di * w[1], ti = di * w[0] - dr * w[1];
    a[0] = a[0] + b[0] - ti;
    a[1] = a[1] - b[1] + tr;
  }
  const int swap = j->f.mode == FL_FFT_FROM_HALF || j->f.inverse;
  v[0] = a[swap];
  v[1] = a[!swap];
}

static void times(const fl_fft_job *j, const char *table, int64_t k, double v[2]) {
  const double c = fl_fft_get(j, table, 2 * k), s = fl_fft_get(j, table, 2 * k + 1),
               re = v[0] * c - v[1] * s;
  v[1] = v[0] * s + v[1] * c;
  v[0] = re;
}

static void put_pair(const fl_fft_job *j, char *to, int64_t k, const double v[2]) {
  fl_fft_put(j, to, 2 * k, v[0]);
  fl_fft_put(j, to, 2 * k + 1, v[1]);
}

static void get_pair(const fl_fft_job *j, const char *from, int64_t k, double v[2]) {
  v[0] = fl_fft_get(j, from, 2 * k);
  v[1] = fl_fft_get(j, from, 2 * k + 1);
}

/* One unit of work, CHUNK elements: a = the input's elements, times the chirp if there is one. */
static void before(void *arg, int64_t u, int worker) {
  const fl_fft_job *j = arg;
  (void)worker;
  for (int64_t k = u * CHUNK; k < fl_min((u + 1) * CHUNK, j->core); k++) {
    double v[2] = { 0, 0 };
    if (k < j->length) element(j, k, v);
    if (j->chirp && k < j->length) times(j, j->chirps, k, v);
    put_pair(j, j->a, k, v);
  }
}

/* One unit of work, CHUNK elements: a = y times the kernel (the transform of the conjugate chirp),
** with real and imaginary parts exchanged for the inverse transform. */
static void between(void *arg, int64_t u, int worker) {
  const fl_fft_job *j = arg;
  (void)worker;
  for (int64_t k = u * CHUNK; k < fl_min((u + 1) * CHUNK, j->core); k++) {
    double v[2];
    get_pair(j, j->y, k, v);
    times(j, j->kernel, k, v);
    put_pair(j, j->a, k, (double[2]){ v[1], v[0] });
  }
}

/* Element k of the result of the forward transform. */
static void transformed(const fl_fft_job *j, int64_t k, double v[2]) {
  double y[2];
  get_pair(j, j->y, k, y);
  v[0] = y[j->chirp];
  v[1] = y[!j->chirp];
  if (j->chirp) times(j, j->chirps, k, v);
}

/* Element k of a real signal's half spectrum, from its pairs. */
static void half_element(const fl_fft_job *j, int64_t k, double v[2]) {
  double a[2], b[2], w[2];
  transformed(j, k % j->length, a);
  transformed(j, (j->length - k) % j->length, b);
  half_root(j, k, w);
  const double dr = (a[1] + b[1]) / 2, di = (b[0] - a[0]) / 2;
  v[0] = (a[0] + b[0]) / 2 + dr * w[0] - di * w[1];
  v[1] = (a[1] - b[1]) / 2 + dr * w[1] + di * w[0];
}

/* Writes the output from y. */
static void behind(void *arg, int64_t u, int worker) {
  const fl_fft_job *j = arg;
  const fl_fft_form *f = &j->f;
  const int real = f->mode == FL_FFT_FROM_HALF;
  char *out = (char *)j->run->out + fl_fft_first(j, j->at, f->size_out, real ? 1 : 2);
  const int64_t count = f->mode == FL_FFT_TO_HALF ? f->n / 2 + 1 : j->length;
  const int swap = real || (f->mode == FL_FFT_COMPLEX && f->inverse);
  (void)worker;
  for (int64_t k = u * CHUNK; k < fl_min((u + 1) * CHUNK, count); k++) {
    double v[2];
    if (f->mode == FL_FFT_TO_HALF && j->packed) half_element(j, k, v);
    else transformed(j, k, v);
    const double re = v[swap] * j->scale, im = v[!swap] * j->scale;
    if (real) {
      const int64_t at = j->packed ? 2 * k : k;
      if (at < f->size_out) fl_fft_put(j, out, at * f->inner, re);
      if (j->packed && at + 1 < f->size_out) fl_fft_put(j, out, (at + 1) * f->inner, im);
    } else if (k < f->size_out) {
      fl_fft_put(j, out, k * f->inner * 2, re);
      fl_fft_put(j, out, k * f->inner * 2 + 1, im);
    }
  }
}

/* Are the half spectra complete and contiguous, and is no chirp needed? Then no element has to be
** examined. */
static int plain_half(const fl_fft_job *j, int64_t size) {
  return j->packed && !j->chirp && j->f.inner == 1 && size >= j->length + 1;
}

static void before_half(void *arg, int64_t u, int worker) {
  const fl_fft_job *j = arg;
  const char *in = (const char *)j->run->in[0] + fl_fft_first(j, j->at, j->f.size_in, 2);
  (void)worker;
  j->loops->merge_one(in, j->length, u * CHUNK, fl_min((u + 1) * CHUNK, j->length / 2 + 1),
                      j->real, j->a);
}

static void behind_half(void *arg, int64_t u, int worker) {
  const fl_fft_job *j = arg;
  char *out = (char *)j->run->out + fl_fft_first(j, j->at, j->f.size_out, 2);
  (void)worker;
  j->loops->split_one(j->y, j->length, u * CHUNK, fl_min((u + 1) * CHUNK, j->length / 2 + 1),
                      j->real, out, j->scale);
}

/* ---- columns and rows --------------------- */

static int64_t steps_below(int64_t limit, int64_t from, int64_t step) {
  return limit > from ? (limit - from + step - 1) / step : 0;
}

/* Describes the columns from c on as lanes, read from the input itself or from a. */
static void column_lanes(const fl_fft_job *j, int64_t c, int lanes, fl_fft_lanes *from) {
  const fl_fft_form *f = &j->f;
  const int direct = !j->a, real = direct && f->mode == FL_FFT_TO_HALF, pairs = real && j->packed;
  const int64_t inner = direct ? f->inner : 1, n = direct ? fl_min(f->size_in, f->n) : j->core;
  const int64_t unit = real && !pairs ? inner : 2 * inner, size = j->is64 ? 8 : 4;
  const char *base = direct ? (const char *)j->run->in[0] +
                              fl_fft_first(j, j->at, f->size_in, real ? 1 : 2) : j->a;
  *from = (fl_fft_lanes){ .lanes = lanes, .swap = direct && f->mode == FL_FFT_COMPLEX && f->inverse,
                          .step = unit * j->columns, .apart = pairs ? inner : real ? 0 : 1 };
  for (int l = 0; l < lanes; l++) {
    from->at[l] = (char *)(uintptr_t)base + (c + l) * unit * size;
    from->reals[l] = steps_below(pairs ? (n + 1) / 2 : n, c + l, j->columns);
    from->imags[l] = real && !pairs ? 0 : steps_below(pairs ? n / 2 : n, c + l, j->columns);
  }
}

static void column_unit(void *arg, int64_t u, int worker) {
  const fl_fft_job *j = arg;
  const fl_fft_loops *loops = j->loops;
  const int64_t c = u * loops->lanes, size = j->is64 ? 8 : 4;
  const int lanes = (int)fl_min(loops->lanes, j->columns - c);
  char *x = j->lanes + 2 * worker * j->lanes_size;
  fl_fft_lanes at;
  column_lanes(j, c, lanes, &at);
  loops->load(x, j->rows, &at);
  char *z = loops->run(&j->plan[0], x, x + j->lanes_size);
  loops->twist(z, j->rows, j->turns + c / 8 * j->rows * 2 * size, j->eight, (int)(c % 8));
  for (int l = 0; l < lanes; l++) {
    at.at[l] = j->t + (c + l) * 2 * size;
    at.reals[l] = at.imags[l] = j->rows;
  }
  at.step = 2 * j->columns;
  at.apart = 1;
  at.swap = 0;
  at.scale = 1;
  loops->store(z, j->rows, &at);
}

/* Describes the results of the rows from r on as lanes: elements r + rows k of the output itself,
** or of y. */
static void result_lanes(const fl_fft_job *j, int64_t r, int lanes, fl_fft_lanes *to) {
  const fl_fft_form *f = &j->f;
  const int direct = !j->y, real = direct && f->mode == FL_FFT_FROM_HALF, pairs = real && j->packed;
  const int64_t most = f->mode == FL_FFT_TO_HALF ? f->n / 2 + 1 : f->n, size = j->is64 ? 8 : 4;
  const int64_t inner = direct ? f->inner : 1, n = direct ? fl_min(f->size_out, most) : j->core;
  const int64_t unit = real && !pairs ? inner : 2 * inner;
  char *base = direct ? (char *)j->run->out + fl_fft_first(j, j->at, f->size_out, real ? 1 : 2)
                      : j->y;
  *to = (fl_fft_lanes){ .lanes = lanes, .step = unit * j->rows,
                        .apart = pairs ? inner : real ? 0 : 1,
                        .swap = direct && (real || (f->mode == FL_FFT_COMPLEX && f->inverse)),
                        .scale = direct ? j->scale : 1 };
  for (int l = 0; l < lanes; l++) {
    to->at[l] = base + (r + l) * unit * size;
    to->reals[l] = steps_below(pairs ? (n + 1) / 2 : n, r + l, j->rows);
    to->imags[l] = real && !pairs ? 0 : steps_below(pairs ? n / 2 : n, r + l, j->rows);
  }
}

static void row_unit(void *arg, int64_t u, int worker) {
  const fl_fft_job *j = arg;
  const fl_fft_loops *loops = j->loops;
  const int64_t r = u * loops->lanes, size = j->is64 ? 8 : 4;
  const int lanes = (int)fl_min(loops->lanes, j->rows - r);
  char *x = j->lanes + 2 * worker * j->lanes_size;
  fl_fft_lanes at = { .lanes = lanes, .step = 2, .apart = 1 };
  for (int l = 0; l < lanes; l++) {
    at.at[l] = j->t + (r + l) * j->columns * 2 * size;
    at.reals[l] = at.imags[l] = j->columns;
  }
  loops->load(x, j->columns, &at);
  char *z = loops->run(&j->plan[1], x, x + j->lanes_size);
  result_lanes(j, r, lanes, &at);
  loops->store(z, j->columns, &at);
}

/* ---- the whole --------------------- */

static void spread(fl_fft_job *j, int64_t n, int64_t each, fl_unit_fn fn) {
  if (j->core <= ALONE) for (int64_t u = 0; u < (n + each - 1) / each; u++) fn(j, u, 0);
  else fl_threads_run(j->cpu->pool, (n + each - 1) / each, fn, j, j->cpu->stop);
}

static void both_phases(fl_fft_job *j) {
  spread(j, j->columns, j->loops->lanes, column_unit);
  spread(j, j->rows, j->loops->lanes, row_unit);
}

/* For Bluestein's algorithm: computes the transform of the conjugate chirp, the fixed factor of the
** convolution, divided by the transform's length. Uses the memory of a and y. */
static void fill_kernel(fl_fft_job *j) {
  const int64_t m = j->core, pair = j->is64 ? 16 : 8;
  memset(j->a, 0, (size_t)(m * pair));
  for (int64_t k = 0; k < j->length; k++) {
    const double v[2] = { fl_fft_get(j, j->chirps, 2 * k) / (double)m,
                          -fl_fft_get(j, j->chirps, 2 * k + 1) / (double)m };
    put_pair(j, j->a, k, v);
    if (k) put_pair(j, j->a, m - k, v);
  }
  both_phases(j);
  memcpy(j->kernel, j->y, (size_t)(m * pair));
}

static void clear_rest(const fl_fft_job *j) {
  const int parts = j->f.mode == FL_FFT_FROM_HALF ? 1 : 2;
  const int64_t most = j->f.mode == FL_FFT_TO_HALF ? j->f.n / 2 + 1 : j->f.n,
                size = j->is64 ? 8 : 4;
  char *out = (char *)j->run->out + fl_fft_first(j, j->at, j->f.size_out, parts);
  for (int64_t k = most; k < j->f.size_out; k++)
    memset(out + k * j->f.inner * parts * size, 0, (size_t)(parts * size));
}

void fl_fft_run_long(fl_fft_job *j) {
  const fl_fft_form *f = &j->f;
  const int64_t count = f->mode == FL_FFT_TO_HALF ? f->n / 2 + 1 : j->length;
  if (j->chirp && j->fresh) fill_kernel(j);
  for (j->at = 0; j->at < j->transforms; j->at++) {
    if (atomic_load_explicit(j->cpu->stop, memory_order_relaxed)) return;
    if (f->mode == FL_FFT_FROM_HALF && plain_half(j, f->size_in))
      spread(j, j->length / 2 + 1, CHUNK, before_half);
    else if (j->a) spread(j, j->core, CHUNK, before);
    both_phases(j);
    if (j->chirp) {
      spread(j, j->core, CHUNK, between);
      both_phases(j);
    }
    if (f->mode == FL_FFT_TO_HALF && plain_half(j, f->size_out))
      spread(j, j->length / 2 + 1, CHUNK, behind_half);
    else if (j->y) spread(j, count, CHUNK, behind);
    clear_rest(j);
  }
}
