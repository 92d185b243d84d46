/*
** Convolutions and pooling on the CPU: random shapes are compared with plain sums in double, in
** every float dtype, on every instruction set; one and three workers must give the same bits.
** Forward, gradient of x and gradient of w multiply the same triples of elements of (x, w, y), so
** one loop over these computes the expected values of all three.
*/
#include "call_setup.h"
#include "cpu/conv/gemm_conv.h"
#include "tensor/call_conv.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;
static char shape_text[300];
static void check(int ok, const char *what, double seen) {
  if (ok) { passed++; return; }
  if (failed++ < 20) printf("call_conv: FAILED %s: %g; %s\n", what, seen, shape_text);
}

/* ---- arrays ---- */
static double get(const void *p, int64_t i, int dtype) {
  const fl_scalar v = fl_scalar_load((const char *)p + i * fl_dtype_size(dtype), dtype);
  return fl_is_float(dtype) ? v.d : (double)v.i;
}
static void *noise(int64_t n, int dtype) {
  char *p = calloc((size_t)n + 1, 8);
  for (int64_t i = 0; i < n; i++) {
    fl_scalar v;
    if (fl_is_float(dtype)) v.d = (double)pick(-40, 40) / 16;
    else v.i = pick(-9, 9);
    fl_scalar_store(p + i * fl_dtype_size(dtype), dtype, v);
  }
  return p;
}

enum { BEHIND = 512 };
/* Runs one call and checks that it writes nothing beyond its result, which the caller frees. */
static void *run(setup *s, fl_call *k, const void *a, const void *b) {
  char fault[200] = "";
  const size_t bytes = (size_t)k->numel * (size_t)fl_dtype_size(k->dtype);
  unsigned char *out = malloc(bytes + BEHIND);
  memset(out, 0xAB, bytes + BEHIND);
  fl_call_run r = { .call = k, .out = out, .in = { (void *)(uintptr_t)a, (void *)(uintptr_t)b },
                    .fault = fault };
  check(fl_calls[k->kind].fits(k), "fits", k->kind);
  k->numel++;
  check(!fl_calls[k->kind].fits(k), "another size does not fit", k->kind);
  k->numel--;
  check(fl_cpu_call(&s->d, &r) == FLAME_OK && !fault[0], "runs", k->kind);
  for (size_t i = bytes; i < bytes + BEHIND; i++)
    if (out[i] != 0xAB) { check(0, "writes behind its result", (double)(i - bytes)); break; }
  return out;
}

/* ---- convolution ---- */
static void put_conv(const fl_conv *c, int64_t *p) {
  const int64_t head[4] = { c->n, c->c, c->o, c->groups };
  memcpy(p, head, sizeof head);
  memcpy(p + 4, c->in, 18 * sizeof *p);
}

static int64_t volume(const int64_t *s) { return s[0] * s[1] * s[2]; }

static double *wide(const void *p, int64_t n, int dtype) {
  double *r = malloc(sizeof *r * (size_t)(n + 1));
  for (int64_t i = 0; i < n; i++) r[i] = get(p, i, dtype);
  return r;
}

/* The index in a plane of x of the element that output q multiplies by tap k; -1: in padding. */
static int64_t met(const fl_conv *c, int64_t q, int64_t k) {
  const int64_t at[3] = { q / c->out[2] / c->out[1], q / c->out[2] % c->out[1], q % c->out[2] };
  const int64_t tap[3] = { k / c->k[2] / c->k[1], k / c->k[2] % c->k[1], k % c->k[2] };
  int64_t xi = 0;
  for (int a = 0; a < 3; a++) {
    const int64_t i = at[a] * c->stride[a] - c->pad[a] + tap[a] * c->dil[a];
    if (i < 0 || i >= c->in[a]) return -1;
    xi = xi * c->in[a] + i;
  }
  return xi;
}

/* Adds the terms of one row and one tap to array 'what': q of the output meets at[q] of the input
** (-1: it is padding). x, w and y are the row's places in the arrays, r and m its places in the
** sums of terms and of their magnitudes. */
static void add_row(int what, int64_t vo, const int64_t *restrict at, const double *x,
                    const double *w, const double *y, double *restrict r, double *restrict m) {
  double sum = 0, size = 0;
  for (int64_t q = 0; q < vo && what == 0; q++) {
    const double v = at[q] < 0 ? 0 : x[at[q]] * *w;
    r[q] += v, m[q] += fabs(v);
  }
  for (int64_t q = 0; q < vo && what == 1; q++) {
    if (at[q] < 0) continue;
    const double v = y[q] * *w;
    r[at[q]] += v, m[at[q]] += fabs(v);
  }
  for (int64_t q = 0; q < vo && what == 2; q++) {
    const double v = at[q] < 0 ? 0 : y[q] * x[at[q]];
    sum += v, size += fabs(v);
  }
  if (what == 2) *r += sum, *m += size;
}

/* The array 'what' (0 y, 1 the gradient of x, 2 that of w), computed from the two others in xwy.
** *size: for each element the sum of the magnitudes of its terms. The caller frees both. */
static double *conv_oracle(const fl_conv *c, int what, const double *const xwy[3], double **size) {
  const int64_t cg = c->c / c->groups, og = c->o / c->groups, vi = volume(c->in), vk = volume(c->k),
                vo = volume(c->out);
  const int64_t n[3] = { c->n * c->o * vo, c->n * c->c * vi, c->o * cg * vk };
  double *r = calloc((size_t)n[what] + 1, sizeof *r), *m = calloc((size_t)n[what] + 1, sizeof *r);
  int64_t *at = malloc((size_t)(vk * vo + 1) * sizeof *at);
  for (int64_t k = 0; k < vk; k++)
    for (int64_t q = 0; q < vo; q++) at[k * vo + q] = met(c, q, k);
  for (int64_t image = 0; image < c->n; image++)
    for (int64_t o = 0; o < c->o; o++)
      for (int64_t k = 0; k < vk; k++)
        for (int64_t h = 0; h < cg; h++) {
          const int64_t X = (image * c->c + o / og * cg + h) * vi, W = (o * cg + h) * vk + k,
                        Y = (image * c->o + o) * vo, to = what == 0 ? Y : what == 1 ? X : W;
          add_row(what, vo, at + k * vo, xwy[0] + X, xwy[1] + W, xwy[2] + Y, r + to, m + to);
        }
  free(at);
  *size = m;
  return r;
}

/* By how much the worst element of r exceeds its error bound, which is 0 for integers and for
** floats proportional to size[i], the sum of magnitudes of its terms; 0 if none does. */
static double excess(const void *r, int64_t n, double *want, const double *size, int dtype) {
  const double eps[] = { 1e-15, 6e-7, 2e-3, 1.6e-2 };
  double worst = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!fl_is_float(dtype)) {                                    /* integers wrap */
      char wrapped[8];
      fl_scalar_store(wrapped, dtype, (fl_scalar){ .i = (int64_t)want[i] });
      want[i] = get(wrapped, 0, dtype);
    }
    const double tol = fl_is_float(dtype) ? eps[dtype] * (size[i] + 1e-30) : 0,
                 d = fabs(get(r, i, dtype) - want[i]);
    if (d > tol && d - tol > worst) worst = d - tol;
    if (d != d) worst = 1e9;
  }
  return worst;
}

static void conv_case(setup *one, setup *three, const fl_conv *c, int dtype) {
  static const int kinds[3] = { FL_CALL_conv, FL_CALL_conv_data, FL_CALL_conv_weight };
  const int64_t nx = c->n * c->c * volume(c->in), nw = c->o * (c->c / c->groups) * volume(c->k),
                ny = c->n * c->o * volume(c->out);
  void *x = noise(nx, dtype), *w = noise(nw, dtype), *y = noise(ny, dtype);
  double *xwy[3] = { wide(x, nx, dtype), wide(w, nw, dtype), wide(y, ny, dtype) };
  snprintf(shape_text, sizeof shape_text,
      "%s n %d c %d o %d g %d in %d %d %d k %d %d %d out %d %d %d stride %d %d %d pad %d %d %d dil %d %d %d",
           fl_dtype_name(dtype), (int)c->n, (int)c->c, (int)c->o, (int)c->groups, (int)c->in[0],
           (int)c->in[1], (int)c->in[2], (int)c->k[0], (int)c->k[1], (int)c->k[2], (int)c->out[0],
           (int)c->out[1], (int)c->out[2], (int)c->stride[0], (int)c->stride[1], (int)c->stride[2],
           (int)c->pad[0], (int)c->pad[1], (int)c->pad[2], (int)c->dil[0], (int)c->dil[1],
           (int)c->dil[2]);
  for (int what = 0; what < (fl_is_float(dtype) ? 3 : 2); what++) {
    fl_call k = { .kind = (uint16_t)kinds[what], .nin = 2, .dtype = (uint8_t)dtype,
                  .in_dtype = { (uint8_t)dtype, (uint8_t)dtype } };
    put_conv(c, k.p);
    k.numel = what == 0 ? ny : what == 1 ? nx : nw;
    k.in_numel[0] = what == 0 ? nx : ny;
    k.in_numel[1] = what == 2 ? nx : nw;
    const void *a = what == 0 ? x : y, *b = what == 2 ? x : w;
    void *r = run(one, &k, a, b), *s = run(three, &k, a, b);
    double *size, *want = conv_oracle(c, what, (const double *const *)xwy, &size);
    const double worst = excess(r, k.numel, want, size, dtype);
    check(worst == 0, fl_calls[kinds[what]].name, worst);
    check(memcmp(r, s, (size_t)(k.numel * fl_dtype_size(dtype))) == 0,
          "the same with three workers", what);
    free(r), free(s), free(want), free(size);
  }
  free(x), free(w), free(y);
  for (int i = 0; i < 3; i++) free(xwy[i]);
}

static int64_t outputs(const fl_conv *c, int a, int64_t after) {
  const int64_t span = (c->k[a] - 1) * c->dil[a] + 1, room = c->in[a] + c->pad[a] + after - span;
  return room < 0 ? 0 : room / c->stride[a] + 1;
}

static fl_conv random_conv(int big) {
  fl_conv c = { .groups = pick(0, 2) == 0 ? pick(2, 4) : 1 };
  const int nd = (int)pick(1, 3), thin = pick(0, 3) == 0;
  c.n = pick(0, 12) == 0 ? 0 : pick(1, 3);
  c.c = c.groups * (thin ? pick(1, 2) : pick(1, big ? 40 : 6));
  c.o = c.groups * (thin ? pick(1, 2) : pick(1, big ? 40 : 15));
  for (int a = 0; a < 3; a++) {
    c.in[a] = c.k[a] = c.out[a] = c.stride[a] = c.dil[a] = 1;
    if (a < 3 - nd) continue;
    c.k[a] = pick(1, 4), c.stride[a] = pick(1, 3), c.dil[a] = pick(1, 3), c.pad[a] = pick(-1, 3);
    c.in[a] = pick(1, nd == 1 ? 400 : nd == 2 ? 24 : 7);
    if (pick(0, 3) == 0) c.k[a] = c.stride[a] = 1, c.pad[a] = 0;
    c.out[a] = outputs(&c, a, pick(-1, 3));
  }
  return c;
}

/* A convolution whose result has rows of whole vectors and enough channels that padded planes of
** the input are read in place (cpu/conv/conv_shift.c). */
static fl_conv whole_rows(void) {
  fl_conv c = random_conv(1);
  for (int a = 1; a < 3; a++) {
    c.k[a] = pick(1, 4);
    c.pad[a] = pick(0, 2);
    const int64_t span = (c.k[a] - 1) * c.dil[a] + 1;
    c.out[a] = a == 2 ? 16 * pick(1, 3) : pick(1, 12);
    c.in[a] = (c.out[a] - 1) * c.stride[a] + span - 2 * c.pad[a] + pick(0, c.stride[a] - 1);
    if (c.in[a] < 1) c.pad[a] = 0, c.in[a] = (c.out[a] - 1) * c.stride[a] + span;
  }
  c.o = c.groups * pick(9, 30);
  c.c = c.groups * pick(1, 40);
  return c;
}

/* A convolution with so many channels that the lanes of a vector are output channels
** (cpu/conv/conv_lanes.c) and the taps of a weight's gradient are separate products; one image or
** many per block, one block or many, some pixels that no tap reads. */
static fl_conv many_channels(void) {
  fl_conv c = random_conv(0);
  const int flat = pick(0, 1) == 0, lines = !flat && pick(0, 1) == 0;
  c.n = pick(1, flat ? 9 : 2);
  c.groups = pick(0, 3) == 0 ? 2 : 1;
  c.c = c.groups * pick(32, c.groups > 1 ? 40 : 75);
  c.o = c.groups * pick(32, c.groups > 1 ? 40 : 75);
  for (int a = 0; a < 3; a++) {
    c.k[a] = a == 0 && flat ? 1 : pick(1, 3), c.stride[a] = pick(1, 4), c.dil[a] = pick(1, 2),
    c.pad[a] = pick(-1, 4);
    if (c.k[a] == 1) c.pad[a] = 0;
    c.in[a] = a == 0 ? (flat ? 1 : pick(1, 4)) : pick(3, 8);
    if (lines && a == 1) c.k[a] = c.stride[a] = 1, c.pad[a] = 0, c.in[a] = 1;
    if (lines && a == 2) c.in[a] = pick(20, 70);
    c.out[a] = outputs(&c, a, pick(-1, 4));
  }
  return c;
}

/* A convolution with few output channels per group (cpu/conv/conv_few.c): planes are done in chunks
** of rows, and taps reach above and below the input. */
static fl_conv few_outputs(void) {
  fl_conv c = random_conv(0);
  c.n = pick(1, 3);
  c.groups = pick(1, 3);
  c.c = c.groups * pick(3, 20);
  c.o = c.groups * pick(3, 12);
  for (int a = 0; a < 3; a++) {
    const int deep = a == 0 && pick(0, 2) > 0;
    c.k[a] = deep ? 1 : pick(1, 4), c.stride[a] = pick(1, 3), c.dil[a] = a == 2 ? 1 : pick(1, 2),
    c.pad[a] = deep ? 0 : pick(-1, 4);
    c.in[a] = deep ? 1 : a == 0 ? pick(1, 5) : pick(2, 24);
    c.out[a] = outputs(&c, a, pick(-1, 4));
  }
  return c;
}

/* A depthwise convolution with rows of 52 to 64 or 103 to 128 results: the last columns do not fill
** a whole block of vectors. Rows are written directly to the result. */
static fl_conv wide_rows(void) {
  fl_conv c = random_conv(0);
  c.n = pick(1, 2);
  c.c = c.o = c.groups = pick(1, 4);
  for (int a = 0; a < 3; a++) {
    c.k[a] = a == 0 ? 1 : pick(1, 5), c.stride[a] = pick(1, 2), c.dil[a] = pick(1, 2),
    c.pad[a] = a == 0 ? 0 : pick(0, 2);
    c.in[a] = a == 0 ? 1 : pick(3, 12);
    if (a == 2)
      c.out[a] = pick(0, 1) ? pick(52, 64) : pick(103, 128),
      c.in[a] = c.out[a] * c.stride[a] + pick(0, 3);
    else c.out[a] = outputs(&c, a, pick(0, 3));
  }
  return c;
}

static void named_convs(setup *one, setup *three) {
  const fl_conv list[] = {
    { 2, 64, 64, 1, { 1, 16, 16 }, { 1, 3, 3 }, { 1, 16, 16 }, { 1, 1, 1 }, { 0, 1, 1 },
      { 1, 1, 1 } },
    { 1, 300, 7, 1, { 1, 5, 5 }, { 1, 3, 3 }, { 1, 5, 5 }, { 1, 1, 1 }, { 0, 1, 1 }, { 1, 1, 1 } },
    { 2, 5, 530, 1, { 1, 6, 6 }, { 1, 1, 1 }, { 1, 6, 6 }, { 1, 1, 1 }, { 0, 0, 0 }, { 1, 1, 1 } },
    { 2, 16, 16, 16, { 1, 40, 40 }, { 1, 3, 3 }, { 1, 20, 20 }, { 1, 2, 2 }, { 0, 1, 1 },
      { 1, 1, 1 } },
    { 1, 3, 3, 3, { 1, 1, 9000 }, { 1, 1, 7 }, { 1, 1, 9000 }, { 1, 1, 1 }, { 0, 0, 3 },
      { 1, 1, 1 } },
    { 20, 1, 8, 1, { 1, 28, 28 }, { 1, 5, 5 }, { 1, 24, 24 }, { 1, 1, 1 }, { 0, 0, 0 },
      { 1, 1, 1 } },
    { 2, 4, 6, 2, { 4, 9, 8 }, { 2, 3, 3 }, { 5, 5, 8 }, { 1, 2, 1 }, { 1, 1, 2 }, { 1, 1, 2 } },
    { 1, 2, 2, 1, { 1, 4, 4 }, { 1, 3, 3 }, { 1, 40, 40 }, { 1, 1, 1 }, { 0, 18, 18 },
      { 1, 1, 1 } },
    { 1, 2, 2, 1, { 1, 30, 30 }, { 1, 2, 2 }, { 1, 4, 4 }, { 1, 9, 9 }, { 0, 0, 0 }, { 1, 1, 1 } },
    { 2, 0, 3, 1, { 1, 4, 4 }, { 1, 3, 3 }, { 1, 2, 2 }, { 1, 1, 1 }, { 0, 0, 0 }, { 1, 1, 1 } },
    { 1, 2, 2, 1, { 1, 300, 300 }, { 1, 2, 2 }, { 1, 101, 101 }, { 1, 1, 1 }, { 0, 0, 0 },
      { 1, 199, 199 } },
    { 1, 90, 30, 1, { 4, 6, 16 }, { 3, 3, 3 }, { 4, 6, 16 }, { 1, 1, 1 }, { 1, 1, 1 },
      { 1, 1, 1 } },
    { 1, 3, 40, 1, { 1, 40, 64 }, { 1, 7, 7 }, { 1, 20, 32 }, { 1, 2, 2 }, { 0, 3, 3 },
      { 1, 1, 1 } },
    { 1, 33, 65, 1, { 1, 40, 17 }, { 1, 5, 3 }, { 1, 40, 17 }, { 1, 1, 1 }, { 0, 2, 1 },
      { 1, 1, 1 } },
    { 3, 130, 36, 1, { 1, 7, 7 }, { 1, 3, 3 }, { 1, 7, 7 }, { 1, 1, 1 }, { 0, 1, 1 }, { 1, 1, 1 } },
    { 1, 32, 32, 1, { 1, 4, 9 }, { 1, 3, 3 }, { 1, 60, 13 }, { 1, 1, 1 }, { 0, 28, 3 },
      { 1, 1, 1 } },
    { 1, 2, 2, 2, { 1, 260, 60 }, { 1, 3, 3 }, { 1, 260, 60 }, { 1, 1, 1 }, { 0, 1, 1 },
      { 1, 1, 1 } },
    { 2, 8, 1, 1, { 1, 20, 20 }, { 1, 3, 3 }, { 1, 20, 20 }, { 1, 1, 1 }, { 0, 1, 1 },
      { 1, 1, 1 } },
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    for (int dtype = 0; dtype < 4; dtype++) conv_case(one, three, &list[i], dtype);
}

/* ---- pooling ---- */
/* The window of result o along axis a: how many positions it has; *lo: the first, *step: their
** distance. Some may lie in the padding. */
static int span(const fl_pooling *s, int a, int64_t o, int64_t *lo, int64_t *step) {
  if (s->adaptive) {
    *lo = o * s->in[a] / s->out[a], *step = 1;
    return (int)(((o + 1) * s->in[a] + s->out[a] - 1) / s->out[a] - *lo);
  }
  *lo = o * s->stride[a] - s->pad[a], *step = s->dil[a];
  return (int)s->k[a];
}

/* Lists in 'at' the input elements in the window of result o (three axes, from 0) in order, without
** padding; returns how many. *divisor: what an average divides by. */
static int64_t window_of(const fl_pooling *s, const int64_t o[3], int64_t *at, double *divisor) {
  int64_t lo[3], step[3], n = 0;
  int len[3];
  double counted = 1;
  for (int a = 0; a < 3; a++) {
    len[a] = span(s, a, o[a], &lo[a], &step[a]);
    const int64_t end = lo[a] + len[a];
    counted *= (double)((end < s->in[a] + s->pad[a] ? end : s->in[a] + s->pad[a]) - lo[a]);
  }
  for (int i = 0; i < len[0]; i++)
    for (int j = 0; j < len[1]; j++)
      for (int k = 0; k < len[2]; k++) {
        const int64_t z = lo[0] + i * step[0], y = lo[1] + j * step[1], x = lo[2] + k * step[2];
        if (z < 0 || y < 0 || x < 0 || z >= s->in[0] || y >= s->in[1] || x >= s->in[2]) continue;
        at[n++] = (z * s->in[1] + y) * s->in[2] + x;
      }
  *divisor = s->divisor ? (double)s->divisor : s->include_pad && !s->adaptive ? counted : (double)n;
  return n;
}

static fl_call pool_call(const fl_pooling *s, int kind, int dtype, int from_planes, int with_at) {
  const int64_t in = s->planes * volume(s->in), out = s->planes * volume(s->out);
  fl_call k = { .kind = (uint16_t)kind, .nin = (uint8_t)(1 + with_at), .dtype = (uint8_t)dtype,
                .in_dtype = { (uint8_t)dtype, FLAME_I64 }, .numel = from_planes ? out : in,
                .in_numel = { from_planes ? in : out, with_at ? out : 0 } };
  if (kind == FL_CALL_max_pool_at) k.dtype = FLAME_I64;
  k.p[0] = s->planes;
  memcpy(k.p + 1, s->in, 18 * sizeof *k.p);
  k.p[19] = s->adaptive, k.p[20] = s->include_pad, k.p[21] = s->divisor;
  return k;
}

static int close_to(double a, double b, int dtype) {
  const double eps[] = { 1e-14, 2e-6, 4e-3, 3e-2 };
  return a == b || (fl_is_float(dtype) && fabs(a - b) <= eps[dtype] * (fabs(b) + 1));
}

static void compare(const void *got, const double *want, int64_t n, int dtype, const char *what) {
  int64_t bad = 0;
  for (int64_t i = 0; i < n; i++) bad += !close_to(get(got, i, dtype), want[i], dtype);
  check(bad == 0, what, (double)bad);
}

typedef struct results { double *max, *at, *mean, *put, *back; } results;

static void pool_oracle(const fl_pooling *s, const void *x, const void *g, int dtype, results *r) {
  const int64_t vi = volume(s->in), vo = volume(s->out);
  int64_t *at = calloc(1 << 16, sizeof *at);
  r->max = calloc((size_t)(s->planes * vo) + 1, 8), r->at = calloc((size_t)(s->planes * vo) + 1, 8),
  r->mean = calloc((size_t)(s->planes * vo) + 1, 8);
  r->put = calloc((size_t)(s->planes * vi) + 1, 8),
  r->back = calloc((size_t)(s->planes * vi) + 1, 8);
  for (int64_t i = 0; i < s->planes * vo; i++) {
    const int64_t q = i % vo, o[3] = { q / s->out[2] / s->out[1], q / s->out[2] % s->out[1],
                                       q % s->out[2] }, first = i / vo * vi;
    double divisor, sum = 0, best = fl_is_float(dtype) ? -INFINITY : 0;
    const int64_t n = window_of(s, o, at, &divisor);
    for (int64_t k = 0; k < n; k++) {
      const double v = get(x, first + at[k], dtype);
      sum += v;
      if (k == 0 || v > best || v != v) best = v, r->at[i] = (double)at[k] + 1;
      r->back[first + at[k]] += get(g, i, dtype) / divisor;
    }
    if (n) r->put[first + (int64_t)r->at[i] - 1] += get(g, i, dtype);
    r->max[i] = best;
    r->mean[i] = n ? sum / divisor : 0;
  }
  free(at);
}

static void pool_case(setup *one, setup *three, const fl_pooling *s, int dtype) {
  const int64_t in = s->planes * volume(s->in), out = s->planes * volume(s->out);
  void *x = noise(in, dtype), *g = noise(out, dtype), *at = NULL;
  results want;
  snprintf(shape_text, sizeof shape_text,
           "pool %s planes %d in %d %d %d k %d %d %d out %d %d %d adaptive %d",
           fl_dtype_name(dtype), (int)s->planes, (int)s->in[0], (int)s->in[1], (int)s->in[2],
           (int)s->k[0], (int)s->k[1], (int)s->k[2], (int)s->out[0], (int)s->out[1], (int)s->out[2],
           (int)s->adaptive);
  pool_oracle(s, x, g, dtype, &want);
  const int kinds[6] = { FL_CALL_max_pool, FL_CALL_max_pool_at, FL_CALL_pool_take, FL_CALL_pool_put,
                         FL_CALL_avg_pool, FL_CALL_avg_pool_back };
  const double *wants[6] = { want.max, want.at, want.max, want.put, want.mean, want.back };
  for (int i = 0; i < (fl_is_float(dtype) ? 6 : 3); i++) {
    const int planes = i != 3 && i != 5;
    fl_call k = pool_call(s, kinds[i], dtype, planes, i == 2 || i == 3);
    void *r = run(one, &k, planes ? x : g, at), *t = run(three, &k, planes ? x : g, at);
    compare(r, wants[i], k.numel, k.dtype, fl_calls[kinds[i]].name);
    check(memcmp(r, t, (size_t)(k.numel * fl_dtype_size(k.dtype))) == 0,
          "pooling is the same with three workers", i);
    free(t);
    if (i == 1) at = r;
    else free(r);
  }
  free(x), free(g), free(at), free(want.max), free(want.at), free(want.mean), free(want.put),
  free(want.back);
}

static fl_pooling random_pool(void) {
  fl_pooling s = { .planes = pick(0, 15) == 0 ? 0 : pick(1, 9), .adaptive = pick(0, 3) == 0,
                   .include_pad = pick(0, 1), .divisor = pick(0, 3) == 0 ? pick(1, 7) : 0 };
  const int nd = (int)pick(1, 3), dilated = pick(0, 1);
  for (int a = 0; a < 3; a++) {
    s.in[a] = s.k[a] = s.out[a] = s.stride[a] = s.dil[a] = 1;
    if (a < 3 - nd) continue;
    s.k[a] = pick(1, 4), s.stride[a] = pick(1, 3),
    s.dil[a] = dilated && !s.adaptive ? pick(1, 2) : 1,
    s.pad[a] = s.adaptive ? 0 : pick(0, s.k[a] / 2);
    s.in[a] = pick(1, 20);
    if (s.adaptive) { s.out[a] = pick(1, 8); continue; }
    while (s.in[a] + 2 * s.pad[a] < (s.k[a] - 1) * s.dil[a] + 1) s.in[a]++;
    s.out[a] = (s.in[a] + 2 * s.pad[a] - (s.k[a] - 1) * s.dil[a] - 1) / s.stride[a] + 1;
    if (pick(0, 1) && s.out[a] * s.stride[a] < s.in[a] + s.pad[a]) s.out[a]++;       /* ceil_mode */
  }
  return s;
}

static void all_of(const fl_vm *vm, int rounds) {
  setup *one = open_setup(1), *three = open_setup(3);
  for (int i = 0; vm && i < 2; i++) ((fl_cpu *)(i ? three : one)->d.state)->vm = vm;
  named_convs(one, three);
  for (int i = 0; i < rounds; i++) {
    const fl_conv c = random_conv(i % 5 == 0);
    conv_case(one, three, &c, i % 6 == 5 ? (int)pick(FLAME_I64, FLAME_U8) : i % 4);
    if (i % 4 == 0) {
      const fl_conv whole = whole_rows();
      conv_case(one, three, &whole, i % 8 ? FLAME_F32 : FLAME_F64);
    }
    if (i % 6 == 0) {
      const fl_conv many = many_channels();
      conv_case(one, three, &many, i / 6 % 4);
    }
    if (i % 3 == 0) {
      const fl_conv few = few_outputs(), wide = wide_rows();
      conv_case(one, three, &few, i / 3 % 4);
      conv_case(one, three, &wide, i / 3 % 2 ? FLAME_F32 : FLAME_F64);
    }
    const fl_pooling p = random_pool();
    pool_case(one, three, &p, p.divisor || !(i % 3) ? i % 4 : (int)pick(0, FLAME_I8));
  }
  check(close_setup(one) && close_setup(three), "memory is given back", 0);
}

static void refuses_what_does_not_fit(void) {
  fl_conv c = { 1, 4, 4, 3, { 1, 1, 5 }, { 1, 1, 2 }, { 1, 1, 4 }, { 1, 1, 1 }, { 0, 0, 0 },
                { 1, 1, 1 } };
  fl_call k = { .kind = FL_CALL_conv, .nin = 2, .dtype = FLAME_F32,
                .in_dtype = { FLAME_F32, FLAME_F32 }, .numel = 16, .in_numel = { 20, 8 } };
  put_conv(&c, k.p);
  check(!fl_calls[FL_CALL_conv].fits(&k), "channels that groups do not divide", 0);
  c.groups = 4, c.stride[2] = 0;
  put_conv(&c, k.p);
  check(!fl_calls[FL_CALL_conv].fits(&k), "a stride of 0", 0);
  c.stride[2] = 1, c.in[2] = INT64_MAX / 8;
  put_conv(&c, k.p);
  check(!fl_calls[FL_CALL_conv].fits(&k), "sizes that overflow", 0);
}

int main(void) {
  state = 7;
  all_of(NULL, 400);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) all_of(&fl_vm_avx2, 120);
#endif
  all_of(&fl_vm_base, 120);
  refuses_what_does_not_fit();
  printf("call_conv: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
