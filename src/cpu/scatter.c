/*
** Scatter (plan/plan.h): all points in row-major order, so the last store to a place wins and
** sums have one order. Half types are summed in f32 and rounded once, at the end. The work is
** split over workers only along a dim that is an axis of the target of its own: then no two
** workers meet, and each place still sees its terms in the same order.
*/
#include "cpu/cpu.h"
#include "tensor/math.h"
#include <string.h>

enum { POLL = 65536 };

typedef struct job {
  const fl_scatter *s;
  char *dst;
  const int64_t *idx;
  const char *src;
  int dim;                        /* split along this dim in 'pieces'; -1: not */
  int64_t pieces;
  const atomic_int *stop;
} job;

static int is_half(int dtype) { return dtype == FLAME_F16 || dtype == FLAME_BF16; }

int64_t fl_scatter_bytes(const fl_scatter *s) {
  return s->add && is_half(s->dtype) ? s->dst_numel * 4 : 0;
}

/* One run along the last dim. dst of half types with 'add' is f32. */
#define RUN(T, expr) { \
    T *d = (T *)(void *)dst; \
    const T *x = (const T *)(const void *)src; \
    for (int64_t i = 0; i < n; i++) { \
      T *p = d + i * ds + idx[i * is] * g; \
      const T v = x[i * ss]; \
      *p = (expr); \
    } \
    break; \
  }
#define RUN_HALF(value) { \
    float *d = (float *)(void *)dst; \
    const uint16_t *x = (const uint16_t *)(const void *)src; \
    for (int64_t i = 0; i < n; i++) d[i * ds + idx[i * is] * g] += value(x[i * ss]); \
    break; \
  }

static void run_add(int dtype, char *dst, const int64_t *idx, const char *src, int64_t n,
                    int64_t ds, int64_t is, int64_t ss, int64_t g) {
  switch (dtype) {
    case FLAME_F64: RUN(double, *p + v)
    case FLAME_F32: RUN(float, *p + v)
    case FLAME_F16: RUN_HALF(fl_f16_value)
    case FLAME_BF16: RUN_HALF(fl_bf16_value)
    case FLAME_I64: RUN(int64_t, fl_add_i64(*p, v))
    case FLAME_I32: RUN(int32_t, fl_add_i32(*p, v))
    case FLAME_I16: RUN(int16_t, (int16_t)(*p + v))
    case FLAME_I8: RUN(int8_t, (int8_t)(*p + v))
    case FLAME_U8: RUN(uint8_t, (uint8_t)(*p + v))
    default: RUN(uint8_t, (uint8_t)(*p | v))
  }
}

static void run_put(int size, char *dst, const int64_t *idx, const char *src, int64_t n,
                    int64_t ds, int64_t is, int64_t ss, int64_t g) {
  switch (size) {
    case 8: RUN(uint64_t, v)
    case 4: RUN(uint32_t, v)
    case 2: RUN(uint16_t, v)
    default: RUN(uint8_t, v)
  }
}

/* All points whose coordinate of dim 'j->dim' is in piece 'unit'. */
static void scatter_unit(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  const fl_scatter *s = j->s;
  const int last = s->rank - 1, size = fl_dtype_size(s->dtype);
  const int wide = s->add && is_half(s->dtype) ? 4 : size;
  int64_t from[FL_MAX_AXES] = { 0 }, to[FL_MAX_AXES], at[FL_MAX_AXES], done = 0;
  (void)worker;
  memcpy(to, s->size, sizeof to);
  if (j->dim >= 0) {
    from[j->dim] = s->size[j->dim] * unit / j->pieces;
    to[j->dim] = s->size[j->dim] * (unit + 1) / j->pieces;
    if (from[j->dim] == to[j->dim]) return;
  }
  memcpy(at, from, sizeof at);
  for (;;) {
    int64_t d = 0, i = 0, x = 0;
    for (int a = 0; a <= last; a++) {
      d += at[a] * s->dst.stride[a];
      i += at[a] * s->idx.stride[a];
      x += at[a] * s->src.stride[a];
    }
    const int64_t n = to[last] - from[last];
    if (s->add)
      run_add(s->dtype, j->dst + d * wide, j->idx + i, j->src + x * size, n,
              s->dst.stride[last], s->idx.stride[last], s->src.stride[last], s->dst.gstride);
    else
      run_put(size, j->dst + d * wide, j->idx + i, j->src + x * size, n,
              s->dst.stride[last], s->idx.stride[last], s->src.stride[last], s->dst.gstride);
    if ((done += n) >= POLL) {
      if (atomic_load_explicit(j->stop, memory_order_relaxed)) return;
      done = 0;
    }
    int a = last - 1;
    for (; a >= 0 && ++at[a] == to[a]; a--) at[a] = from[a];
    if (a < 0) return;
  }
}

/* The longest dim that moves dst: an axis that the index values do not reach. */
static void choose_split(job *j, int width, int64_t points) {
  const fl_scatter *s = j->s;
  j->dim = -1;
  j->pieces = 1;
  if (width < 2 || points < 32768) return;
  for (int a = 0; a < s->rank; a++)
    if (s->dst.stride[a] != 0 && s->size[a] >= width &&
        (j->dim < 0 || s->size[a] > s->size[j->dim])) j->dim = a;
  if (j->dim >= 0) j->pieces = width;
}

static void widen(const fl_scatter *s, float *w, const uint16_t *h) {
  if (s->dtype == FLAME_F16) for (int64_t i = 0; i < s->dst_numel; i++) w[i] = fl_f16_value(h[i]);
  else for (int64_t i = 0; i < s->dst_numel; i++) w[i] = fl_bf16_value(h[i]);
}

static void narrow(const fl_scatter *s, uint16_t *h, const float *w) {
  if (s->dtype == FLAME_F16) for (int64_t i = 0; i < s->dst_numel; i++) h[i] = fl_f16_bits(w[i]);
  else for (int64_t i = 0; i < s->dst_numel; i++) h[i] = fl_bf16_bits(w[i]);
}

static void *address(const fl_binding *b, const fl_operand *o) {
  return (char *)fl_place_address(b, &o->place) + o->offset * fl_dtype_size(o->dtype);
}

flame_status fl_scatter_run(fl_device *dev, const fl_scatter *given, const fl_binding *b) {
  fl_cpu *d = dev->state;
  fl_scatter flat = *given;             /* rank 0: one point of one dim */
  const fl_scatter *s = &flat;
  if (flat.rank == 0) {
    flat.rank = 1;
    flat.size[0] = 1;
  }
  int64_t points = 1;
  for (int a = 0; a < s->rank; a++) points *= s->size[a];
  if (points == 0) return FLAME_OK;
  const int half = s->add && is_half(s->dtype);
  char *dst = address(b, &s->dst);
  job j = { .s = s, .dst = half ? d->shared : dst, .idx = address(b, &s->idx),
            .src = address(b, &s->src), .stop = d->stop };
  if (half) widen(s, (float *)(void *)d->shared, (const uint16_t *)(const void *)dst);
  choose_split(&j, d->width, points);
  fl_threads_run(d->pool, j.pieces, scatter_unit, &j, d->stop);
  if (half) narrow(s, (uint16_t *)(void *)dst, (const float *)(const void *)d->shared);
  return FLAME_OK;
}
