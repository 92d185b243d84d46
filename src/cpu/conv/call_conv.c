/*
** Convolutions on the CPU: calls become passes (conv.h), which are done by product or row by
** row. Integers are summed directly, wrapping.
*/
#include "cpu/conv/conv.h"
#include "tensor/math.h"
#include "base/num.h"
#include <string.h>

const fl_conv_loops *fl_conv_loops_of(const fl_vm *vm) {
#if defined(__x86_64__)
  if (vm == &fl_vm_avx512) return &fl_conv_avx512;
  if (vm == &fl_vm_avx2) return &fl_conv_avx2;
#endif
  (void)vm;
  return &fl_conv_base;
}

/* ---- passes ---- */

/* Can the last axis be joined with the one before it? The kernel must have one element along the
** last axis, whose size is the same in x and y, and both axes must have step 1. */
static int joins(const fl_conv *s) {
  const int64_t w = s->in[2];
  return s->k[2] == 1 && s->stride[2] == 1 && s->pad[2] == 0 && s->out[2] == w &&
         s->stride[1] == 1 && w > 0 && w < (1 << 20) && s->k[1] < (1 << 20) &&
         s->dil[1] < (1 << 20) && s->pad[1] < (1 << 20) && s->pad[1] > -(1 << 20) &&
         !(s->in[1] == 1 && s->out[1] == 1 && s->in[0] == 1 && s->out[0] == 1);
}

void fl_conv_join_axes(fl_conv *s) {
  for (int i = 0; i < 2 && joins(s); i++) {
    const int64_t w = s->in[2];
    s->in[2] *= s->in[1], s->out[2] *= s->out[1], s->k[2] = s->k[1], s->pad[2] = s->pad[1] * w,
                                                  s->dil[2] = s->dil[1] * w;
    s->in[1] = s->in[0], s->out[1] = s->out[0], s->k[1] = s->k[0], s->pad[1] = s->pad[0],
    s->dil[1] = s->dil[0];
    s->stride[1] = s->stride[0];
    s->in[0] = s->out[0] = s->k[0] = s->stride[0] = s->dil[0] = 1, s->pad[0] = 0;
  }
}

void fl_conv_forward(const fl_conv *s, int dtype, fl_conv_pass *p) {
  const int64_t volume = fl_volume3(s->k);
  *p = (fl_conv_pass){
    .n = s->n, .groups = s->groups, .rows = s->o / s->groups, .chans = s->c / s->groups,
    .dtype = dtype
  };
  p->wc = volume, p->wr = p->chans * volume, p->wg = p->rows * p->wr;
  for (int a = 0; a < 3; a++) {
    p->kernel[a] = s->k[a];
    p->ax[a] = (fl_conv_axis){ .count = s->out[a],
                               .step = s->stride[a],
                               .size = s->in[a],
                               .first = 0,
                               .hop = 1,
                               .osize = s->out[a],
                               .taps = s->k[a],
                               .off0 = -s->pad[a],
                               .doff = s->dil[a],
                               .k0 = 0,
                               .dk = 1 };
  }
}

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    const int64_t t = a % b;
    a = b;
    b = t;
  }
  return a;
}

/* The number of distinct residues (positions modulo the stride) that the taps of an axis reach, and
** *dk, the distance of kernel indices between taps with the same residue. */
static int64_t residues(const fl_conv *s, int a, int64_t *dk) {
  *dk = s->stride[a] / gcd(s->dil[a], s->stride[a]);
  return fl_min(s->k[a], *dk);
}

/* Describes the axis of the pass that computes the gradient of x at the positions of one residue
** modulo the stride: that of kernel index k0. */
static void data_axis(const fl_conv *s, int a, int64_t k0, int64_t dk, fl_conv_axis *x) {
  const int64_t stride = s->stride[a], at = k0 * s->dil[a] - s->pad[a];
  const int64_t first = ((at % stride) + stride) % stride;
  *x = (fl_conv_axis){ .count = s->in[a] > first ? (s->in[a] - 1 - first) / stride + 1 : 0,
                       .step = 1,
                       .size = s->out[a],
                       .first = first,
                       .hop = stride,
                       .osize = s->in[a],
                       .taps = (s->k[a] - 1 - k0) / dk + 1,
                       .off0 = (first - at) / stride,
                       .doff = -dk * s->dil[a] / stride,
                       .k0 = k0,
                       .dk = dk };
}

typedef struct phases {
  int64_t n[3], dk[3];
} phases;

static int64_t phases_of(const fl_conv *s, phases *f) {
  for (int a = 0; a < 3; a++) f->n[a] = residues(s, a, &f->dk[a]);
  return fl_volume3(f->n);
}

static void data_pass(const fl_conv *s, int dtype, const phases *f, int64_t i, fl_conv_pass *p) {
  const int64_t volume = fl_volume3(s->k);
  *p = (fl_conv_pass){
    .n = s->n, .groups = s->groups, .rows = s->c / s->groups, .chans = s->o / s->groups,
    .dtype = dtype
  };
  p->wr = volume, p->wc = p->rows * volume, p->wg = p->chans * p->wc;
  const int64_t k0[3] = { i / f->n[2] / f->n[1], i / f->n[2] % f->n[1], i % f->n[2] };
  for (int a = 0; a < 3; a++) {
    p->kernel[a] = s->k[a];
    data_axis(s, a, k0[a], f->dk[a], &p->ax[a]);
  }
}

enum { FLAT, LANES, SHIFT, GEMM };
enum { THIN = 4 };                                      /* rows too few to fill a tile */
static int way_of(const fl_conv_pass *p) {
  const int flat = fl_conv_flat_fits(p);
  if (flat && p->rows <= THIN) return FLAT;
  const int shift = fl_conv_shift_fits(p);
  /* LANES transposes, which is slow in f64 */
  if (!(shift && fl_conv_wide(p->dtype)) && fl_conv_lanes_fits(p)) return LANES;
  return shift ? SHIFT : flat ? FLAT : GEMM;
}

static int64_t pass_bytes(const fl_conv_pass *p, int workers) {
  switch (way_of(p)) {
  case FLAT: return fl_conv_flat_bytes(p, workers);
  case LANES: return fl_conv_lanes_bytes(p, workers);
  case SHIFT: return fl_conv_shift_bytes(p, workers);
  default: return fl_conv_gemm_bytes(p, workers);
  }
}

static void run_pass(const fl_conv_job *job, const fl_conv_pass *p) {
  switch (way_of(p)) {
  case FLAT: fl_conv_flat(job, p); return;
  case LANES: fl_conv_lanes(job, p); return;
  case SHIFT: fl_conv_shift(job, p); return;
  default: fl_conv_gemm(job, p);
  }
}

/* ---- integers: plain sums ---- */

typedef struct plain {
  const fl_conv *s;
  const fl_call_run *r;
  int data;
} plain;

/* The position along axis a, in the array that is summed, that kernel index k connects with
** position 'at' of the result; -1: none. */
static int64_t partner(const plain *q, int a, int64_t at, int64_t k) {
  const fl_conv *s = q->s;
  const int64_t size = q->data ? s->out[a] : s->in[a];
  int64_t i = at * s->stride[a] - s->pad[a] + k * s->dil[a];
  if (q->data) {
    i = at + s->pad[a] - k * s->dil[a];
    if (i % s->stride[a] != 0) return -1;
    i /= s->stride[a];
  }
  return i >= 0 && i < size ? i : -1;
}

/* Sums all terms of one result: 'row' of group g of image n, at position 'to'. */
static uint64_t plain_sum(const plain *q, int64_t n, int64_t g, int64_t row, const int64_t to[3]) {
  const fl_conv *s = q->s;
  const int dtype = q->r->call->dtype, size = fl_dtype_size(dtype);
  const int64_t chans = (q->data ? s->o : s->c) / s->groups, *from = q->data ? s->out : s->in;
  const int64_t cg = s->c / s->groups, og = s->o / s->groups, volume = fl_volume3(s->k);
  uint64_t sum = 0;
  for (int64_t k = 0; k < volume; k++) {
    const int64_t z = partner(q, 0, to[0], k / s->k[2] / s->k[1]),
                  y = partner(q, 1, to[1], k / s->k[2] % s->k[1]);
    const int64_t x = partner(q, 2, to[2], k % s->k[2]);
    if (z < 0 || y < 0 || x < 0) continue;
    for (int64_t c = 0; c < chans; c++) {
      const int64_t w = ((g * og + (q->data ? c : row)) * cg + (q->data ? row : c)) * volume + k;
      const int64_t v =
          (((n * s->groups + g) * chans + c) * from[0] + z) * from[1] * from[2] + y * from[2] + x;
      sum += (uint64_t)fl_scalar_load((const char *)q->r->in[0] + v * size, dtype).i *
             (uint64_t)fl_scalar_load((const char *)q->r->in[1] + w * size, dtype).i;
    }
  }
  return sum;
}

/* Unit: one plane of results. */
static void plain_unit(void *arg, int64_t unit, int worker) {
  const plain *q = arg;
  const fl_conv *s = q->s;
  const int dtype = q->r->call->dtype;
  const int64_t rows = (q->data ? s->c : s->o) / s->groups, *size = q->data ? s->in : s->out,
                volume = fl_volume3(size);
  (void)worker;
  for (int64_t i = 0; i < volume; i++) {
    const int64_t to[3] = { i / size[2] / size[1], i / size[2] % size[1], i % size[2] };
    const uint64_t sum =
        plain_sum(q, unit / rows / s->groups, unit / rows % s->groups, unit % rows, to);
    const fl_scalar v = { .i = (int64_t)sum };
    fl_scalar_store((char *)q->r->out + (unit * volume + i) * fl_dtype_size(dtype), dtype, v);
  }
}

static void run_plain(const fl_conv_job *job, const fl_conv *s, const fl_call_run *r, int data) {
  const fl_cpu *cpu = job->dev->state;
  plain q = { s, r, data };
  fl_threads_run(cpu->pool, s->n * (data ? s->c : s->o), plain_unit, &q, cpu->stop);
}

/* ---- calls ---- */

static fl_conv_job job_of(fl_device *d, const fl_call_run *r) {
  const fl_cpu *cpu = d->state;
  return (fl_conv_job){ d, fl_conv_loops_of(cpu->vm), cpu->width, r->scratch };
}

static void clear(const fl_call_run *r) {
  if (r->call->numel) memset(r->out, 0, (size_t)(r->call->numel * fl_dtype_size(r->call->dtype)));
}

/* Is the result or an input empty? Then no sum of the convolution has a term, and the result is
** empty or zeros. */
static int idle(const fl_call *call) {
  return call->numel == 0 || call->in_numel[0] == 0 || call->in_numel[1] == 0;
}

/* Reads the sizes and joins axes; 0: no sum has any terms. */
static int read_sizes(const fl_call *call, fl_conv *s) {
  if (idle(call) || !fl_conv_read(call, s)) return 0;
  fl_conv_join_axes(s);
  return 1;
}

/* Computes a call that needs no pass: writes zeros if no sum has any terms, and sums integers
** ('data': the gradient of x). 0: the call needs passes of the sizes in s. */
static int needs_no_pass(const fl_conv_job *job, const fl_call_run *r, fl_conv *s, int data) {
  if (!read_sizes(r->call, s)) {
    clear(r);
    return 1;
  }
  if (fl_is_float(r->call->dtype)) return 0;
  run_plain(job, s, r, data);
  return 1;
}

int64_t fl_cpu_scratch_conv(const fl_call *call, int workers) {
  fl_conv s;
  fl_conv_pass p;
  if (!fl_is_float(call->dtype) || !read_sizes(call, &s)) return 0;
  fl_conv_forward(&s, call->dtype, &p);
  return pass_bytes(&p, workers);
}

flame_status fl_cpu_call_conv(fl_device *d, const fl_call_run *r) {
  const fl_conv_job job = job_of(d, r);
  fl_conv s;
  fl_conv_pass p;
  if (needs_no_pass(&job, r, &s, 0)) return FLAME_OK;
  fl_conv_forward(&s, r->call->dtype, &p);
  p.src = r->in[0], p.w = r->in[1], p.dst = r->out;
  run_pass(&job, &p);
  return FLAME_OK;
}

int64_t fl_cpu_scratch_conv_data(const fl_call *call, int workers) {
  fl_conv s;
  fl_conv_pass p;
  phases f;
  int64_t most = 0;
  if (!fl_is_float(call->dtype) || !read_sizes(call, &s)) return 0;
  const int64_t n = phases_of(&s, &f);
  for (int64_t i = 0; i < n; i++) {
    data_pass(&s, call->dtype, &f, i, &p);
    const int64_t bytes = fl_conv_count(&p) ? pass_bytes(&p, workers) : 0;
    if (bytes > most) most = bytes;
  }
  return most;
}

flame_status fl_cpu_call_conv_data(fl_device *d, const fl_call_run *r) {
  const fl_conv_job job = job_of(d, r);
  fl_conv s;
  phases f;
  if (needs_no_pass(&job, r, &s, 1)) return FLAME_OK;
  const int64_t n = phases_of(&s, &f);
  if (n < fl_volume3(s.stride)) clear(r); /* positions that no tap reaches */
  for (int64_t i = 0; i < n && !fl_stopped(d); i++) {
    fl_conv_pass p;
    data_pass(&s, r->call->dtype, &f, i, &p);
    p.src = r->in[0], p.w = r->in[1], p.dst = r->out;
    if (fl_conv_count(&p)) run_pass(&job, &p);
  }
  return FLAME_OK;
}

int64_t fl_cpu_scratch_conv_weight(const fl_call *call, int workers) {
  fl_conv s;
  fl_conv_pass p;
  if (!read_sizes(call, &s)) return 0;
  fl_conv_forward(&s, call->dtype, &p);
  return fl_conv_flat_weight_fits(&p) ? fl_conv_flat_bytes(&p, workers)
       : fl_conv_few_fits(&p) ? fl_conv_few_bytes(&p, workers) : fl_conv_weight_bytes(&p, workers);
}

flame_status fl_cpu_call_conv_weight(fl_device *d, const fl_call_run *r) {
  const fl_conv_job job = job_of(d, r);
  fl_conv s;
  fl_conv_pass p;
  if (!read_sizes(r->call, &s)) {
    clear(r);
    return FLAME_OK;
  }
  fl_conv_forward(&s, r->call->dtype, &p);
  p.src = r->in[1], p.dst = r->out;
  if (fl_conv_flat_weight_fits(&p)) fl_conv_flat_weight(&job, &p, r->in[0]);
  else if (fl_conv_few_fits(&p)) fl_conv_few(&job, &p, r->in[0]);
  else fl_conv_weight(&job, &p, r->in[0]);
  return FLAME_OK;
}
