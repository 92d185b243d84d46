/*
** Weighted sums along one axis of (outer, elements, inner), by a sparse matrix whose rows are the
** results: interpolation and its adjoint have this form. Terms are added in the matrix' order. A
** unit is some of the outer indices. Starts and positions come from tensors, so they are checked
** first.
*/
#include "cpu/conv/conv.h"
#include "base/num.h"

enum { WORK = 32768, TERMS = 64 };

typedef struct resample {
  const fl_call_run *r;
  const fl_conv_loops *loops;
  int64_t elements, results, inner, terms, each, outer;
  const int64_t *start, *at;
} resample;

/* Do starts ascend within the terms, and do all positions exist? */
static int sound(const resample *q) {
  if (q->start[0] < 0 || q->start[q->results] > q->terms) return 0;
  for (int64_t o = 0; o < q->results; o++)
    if (q->start[o + 1] < q->start[o]) return 0;
  for (int64_t j = 0; j < q->terms; j++)
    if (q->at[j] < 0 || q->at[j] >= q->elements) return 0;
  return 1;
}

/* Computes the results of one outer index. name_single is for inner == 1: each result is a sum of
** terms, one after the other. name: results are weighted sums of rows of 'inner' elements (MIX). */
#define ROWS(name, T, MIX) \
  static void name##_single(const resample *q, const T *x, T *y) { \
    const T *weight = q->r->in[3]; \
    for (int64_t o = 0, j = q->start[0]; o < q->results; o++) { \
      const int64_t end = q->start[o + 1]; \
      T sum = 0; \
      for (; j < end; j++) sum += weight[j] * x[q->at[j]]; \
      y[o] = sum; \
    } \
  } \
  static void name(const resample *q, const T *x, T *y) { \
    const T *weight = q->r->in[3]; \
    const int64_t inner = q->inner; \
    for (int64_t o = 0; o < q->results; o++, y += inner) { \
      int64_t j = q->start[o]; \
      const int64_t end = q->start[o + 1]; \
      if (end - j <= TERMS) { \
        const T *row[TERMS]; \
        int n = 0; \
        for (int64_t k = j; k < end; k++) row[n++] = x + q->at[k] * inner; \
        q->loops->MIX(y, inner, n, row, weight + j); \
        continue; \
      } \
      for (int64_t i = 0; i < inner; i++) y[i] = 0; \
      for (; j < end; j++) \
        for (int64_t i = 0; i < inner; i++) y[i] += weight[j] * x[q->at[j] * inner + i]; \
    } \
  }
ROWS(rows_f32, float, mix32)
ROWS(rows_f64, double, mix64)

static void unit(void *arg, int64_t index, int worker) {
  const resample *q = arg;
  const int64_t first = index * q->each, last = fl_min(first + q->each, q->outer);
  (void)worker;
  for (int64_t k = first; k < last; k++) {
    const int64_t from = k * q->elements * q->inner, to = k * q->results * q->inner;
    if (q->r->call->dtype == FLAME_F32)
      (q->inner == 1 ? rows_f32_single : rows_f32)(q, (const float *)q->r->in[0] + from,
                                                   (float *)q->r->out + to);
    else
      (q->inner == 1 ? rows_f64_single : rows_f64)(q, (const double *)q->r->in[0] + from,
                                                   (double *)q->r->out + to);
  }
}

int64_t fl_cpu_scratch_resample(const fl_call *call, int workers) {
  return (void)call, (void)workers, 0;
}

flame_status fl_cpu_call_resample(fl_device *d, const fl_call_run *r) {
  const fl_cpu *cpu = d->state;
  const int64_t *p = r->call->p;
  resample q = { .r = r,
                 .loops = fl_conv_loops_of(cpu->vm),
                 .outer = p[0],
                 .elements = p[1],
                 .results = p[2],
                 .inner = p[3],
                 .terms = r->call->in_numel[2],
                 .start = r->in[1],
                 .at = r->in[2] };
  if (r->call->numel == 0) return FLAME_OK;
  if (!sound(&q))
    return FL_FAIL(d->ctx, FLAME_INTERNAL, r->call->what, "the matrix of a resampling is damaged");
  const int64_t work = (q.results + q.terms) * q.inner;
  q.each = work < WORK ? WORK / work : 1;
  fl_threads_run(cpu->pool, fl_ceil_div(q.outer, q.each), unit, &q, cpu->stop);
  return FLAME_OK;
}
