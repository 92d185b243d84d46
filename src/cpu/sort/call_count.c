/*
** Searching in sorted rows, counting ids, and the positions of nonzero elements. Counts are
** integers, so the number of parts in which they are made does not matter.
*/
#include "cpu/state/state.h"
#include "tensor/math.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { UNIT = 1 << 14, BINS = 1 << 15, PARTS = 64 };

static int64_t units_of(int64_t n) { return (n + UNIT - 1) / UNIT; }

/* ---- searchsorted ---- */

typedef struct search {
  const char *table, *v;
  int64_t *out;
  int64_t n, m, total;            /* length of a row of table and of v; all of v */
  int dtype, right, shared;
} search;

/* Finds by bisection where each v is inserted into its sorted row of t (from 1); the comparisons
** put NaN where torch does. */
#define FIND(T, value) { \
    const T *t = (const T *)(const void *)s->table, *v = (const T *)(const void *)s->v; \
    for (int64_t i = first; i < end; i++) { \
      const T *row = t + (s->shared ? 0 : i / s->m * s->n); \
      int64_t lo = 0, hi = s->n; \
      while (lo < hi) { \
        const int64_t mid = lo + (hi - lo) / 2; \
        const int stays = s->right ? value(row[mid]) > value(v[i]) \
                                   : value(row[mid]) >= value(v[i]); \
        if (stays) hi = mid; \
        else lo = mid + 1; \
      } \
      s->out[i] = lo + 1; \
    } \
    break; \
  }
#define PLAIN(x) (x)
static void search_unit(void *arg, int64_t unit, int worker) {
  const search *s = arg;
  const int64_t first = unit * UNIT, end = first + UNIT < s->total ? first + UNIT : s->total;
  (void)worker;
  switch (s->dtype) {
    case FLAME_F64: FIND(double, PLAIN)
    case FLAME_F32: FIND(float, PLAIN)
    case FLAME_F16: FIND(uint16_t, fl_f16_value)
    case FLAME_BF16: FIND(uint16_t, fl_bf16_value)
    case FLAME_I64: FIND(int64_t, PLAIN)
    case FLAME_I32: FIND(int32_t, PLAIN)
    case FLAME_I16: FIND(int16_t, PLAIN)
    case FLAME_I8: FIND(int8_t, PLAIN)
    default: FIND(uint8_t, PLAIN)
  }
}

int64_t fl_cpu_scratch_searchsorted(const fl_call *call, int workers) {
  (void)call;
  (void)workers;
  return 0;
}

flame_status fl_cpu_call_searchsorted(fl_device *d, const fl_call_run *r) {
  fl_cpu *cpu = d->state;
  const fl_call *c = r->call;
  search s = { .table = r->in[0], .v = r->in[1], .out = r->out, .n = c->p[1], .m = c->p[2],
               .total = c->numel, .dtype = c->in_dtype[0], .right = (int)c->p[3],
               .shared = (int)c->p[4] };
  fl_threads_run(cpu->pool, units_of(s.total), search_unit, &s, cpu->stop);
  return FLAME_OK;
}

/* ---- weights of draws ---- */

typedef struct weighing {
  const void *w;
  int64_t *at, n;
  double scale;
  int wide;
} weighing;

static double weight_at(const weighing *q, int64_t i) {
  return q->wide ? ((const double *)q->w)[i] : (double)((const float *)q->w)[i];
}

static void weigh_row(void *arg, int64_t row, int worker) {
  const weighing *q = arg;
  const int64_t first = row * q->n, end = first + q->n;
  double top = 0;
  int64_t sum = 0;
  int bad = 0;
  (void)worker;
  for (int64_t i = first; i < end; i++) {
    const double v = weight_at(q, i);
    bad |= !(v >= 0 && v < INFINITY);
    if (v > top) top = v;
  }
  q->at[end - 1] = -1;
  if (bad || top == 0) return;
  for (int64_t i = first; i < end; i++) {
    sum += (int64_t)rint(weight_at(q, i) / top * q->scale);
    q->at[i] = sum;
  }
}

int64_t fl_cpu_scratch_weights(const fl_call *call, int workers) {
  (void)call;
  (void)workers;
  return 0;
}

flame_status fl_cpu_call_weights(fl_device *d, const fl_call_run *r) {
  fl_cpu *cpu = d->state;
  weighing q = { r->in[0], r->out, r->call->p[1], ldexp(1, (int)r->call->p[2]),
                 r->call->in_dtype[0] == FLAME_F64 };
  fl_threads_run(cpu->pool, r->call->p[0], weigh_row, &q, cpu->stop);
  return FLAME_OK;
}

/* ---- histogram ---- */

typedef struct tally {
  const int64_t *id;
  int64_t n, bins, *count, parts;  /* count: bins for each part; part 0 counts in the result */
  int64_t bad[PARTS];              /* first id out of range, or n */
} tally;

/* The number of parts that count separately; 1 if the additional counts would be many. */
static int64_t parts_of(const fl_call *c) {
  const int64_t n = c->p[0], bins = c->p[1], parts = bins > BINS ? 1 : n / (8 * UNIT) + 1;
  return parts < PARTS ? parts : PARTS;
}

int64_t fl_cpu_scratch_histogram(const fl_call *call, int workers) {
  (void)workers;
  return (int64_t)sizeof(tally) + 8 * call->p[1] * (parts_of(call) - 1);
}

static void tally_unit(void *arg, int64_t unit, int worker) {
  tally *t = arg;
  const int64_t first = t->n * unit / t->parts, end = t->n * (unit + 1) / t->parts;
  int64_t *count = unit == 0 ? t->count : (int64_t *)(void *)(t + 1) + (unit - 1) * t->bins;
  (void)worker;
  t->bad[unit] = t->n;
  memset(count, 0, sizeof *count * (size_t)t->bins);
  for (int64_t i = first; i < end; i++) {
    const uint64_t at = (uint64_t)t->id[i] - 1;
    if (at < (uint64_t)t->bins) count[at]++;
    else if (t->bad[unit] == t->n) t->bad[unit] = i;
  }
}

flame_status fl_cpu_call_histogram(fl_device *d, const fl_call_run *r) {
  fl_cpu *cpu = d->state;
  const fl_call *c = r->call;
  tally *t = r->scratch;
  t->id = r->in[0];
  t->n = c->p[0];
  t->bins = c->p[1];
  t->count = r->out;
  t->parts = parts_of(c);
  fl_threads_run(cpu->pool, t->parts, tally_unit, t, cpu->stop);
  if (fl_stopped(d)) return FLAME_OK;
  int64_t bad = t->n;
  for (int64_t p = t->parts - 1; p >= 0; p--) {
    const int64_t *count = (const int64_t *)(const void *)(t + 1) + (p - 1) * t->bins;
    for (int64_t b = 0; p > 0 && b < t->bins; b++) t->count[b] += count[b];
    if (t->bad[p] < t->n) bad = t->bad[p];
  }
  if (c->p[2] && bad < t->n)
    snprintf(r->fault, 200, "id %lld at position %lld, need 1 to %lld", (long long)t->id[bad],
             (long long)bad + 1, (long long)t->bins);
  return FLAME_OK;
}

/* ---- nonzero ---- */

typedef struct places {
  const char *x;
  int64_t *out, n, count;
  int size, dtype, rank;
  int64_t side[FL_MAX_AXES];
  int64_t *first;                 /* per unit: the number of positions found before it */
} places;

int64_t fl_cpu_scratch_nonzero(const fl_call *call, int workers) {
  (void)workers;
  return 8 * (units_of(call->in_numel[0]) + 1);
}

/* Counts the nonzero elements among first … end - 1 and, if 'at' is given, writes their distances
** from 'first' (to room for one more). The only branch skips groups of elements that are all zero.
** -0 is zero, NaN is not. */
#define LOOK(name, T, TEST) \
  static int64_t name(const void *x, int64_t first, int64_t end, int32_t *at) { \
    enum { STEP = 16 }; \
    const T *v = (const T *)x + first; \
    const int64_t m = end - first; \
    int64_t n = 0; \
    if (!at) \
      for (int64_t i = 0; i < m; i++) n += (TEST(v[i])) != 0; \
    else \
      for (int64_t i = 0; i < m; i += STEP) { \
        const int64_t stop = i + STEP < m ? i + STEP : m; \
        T any = 0; \
        if (stop - i == STEP) \
          for (int j = 0; j < STEP; j++) any |= (T)(TEST(v[i + j])); \
        if (stop - i == STEP && !any) continue; \
        for (int64_t j = i; j < stop; j++) { \
          at[n] = (int32_t)j; \
          n += (TEST(v[j])) != 0; \
        } \
      } \
    return n; \
  }
#define ANY_BIT(b) (b)
LOOK(look_8, uint8_t, ANY_BIT)
LOOK(look_16, uint16_t, ANY_BIT)
LOOK(look_32, uint32_t, ANY_BIT)
LOOK(look_64, uint64_t, ANY_BIT)
#define NO_SIGN(bits) ((bits) << 1)
#define HALF_SIZE(bits) ((bits) & 0x7FFF)
LOOK(look_half, uint16_t, HALF_SIZE)
LOOK(look_f32, uint32_t, NO_SIGN)
LOOK(look_f64, uint64_t, NO_SIGN)
#undef LOOK

static int64_t look(const places *p, int64_t unit, int32_t *at) {
  const int64_t first = unit * UNIT, end = first + UNIT < p->n ? first + UNIT : p->n;
  switch (p->size) {
  case 8: return (p->dtype == FLAME_F64 ? look_f64 : look_64)(p->x, first, end, at);
  case 4: return (p->dtype == FLAME_F32 ? look_f32 : look_32)(p->x, first, end, at);
  case 2: return (p->dtype == FLAME_I16 ? look_16 : look_half)(p->x, first, end, at);
  default: return look_8(p->x, first, end, at);
  }
}

static void count_unit(void *arg, int64_t unit, int worker) {
  const places *p = arg;
  (void)worker;
  p->first[unit + 1] = look(p, unit, NULL);
}

int64_t fl_cpu_scratch_nonzero_count(const fl_call *call, int workers) {
  return fl_cpu_scratch_nonzero(call, workers);
}

/* Only counts the nonzero elements; fl_cpu_call_nonzero counts them again. */
flame_status fl_cpu_call_nonzero_count(fl_device *d, const fl_call_run *r) {
  fl_cpu *cpu = d->state;
  const fl_call *c = r->call;
  int64_t *out = r->out;
  places p = { .x = r->in[0], .n = c->in_numel[0], .dtype = c->in_dtype[0],
               .size = fl_dtype_size(c->in_dtype[0]),
               .first = r->scratch };
  memset(out, 0, FL_NONZERO_COUNTS * sizeof *out);
  fl_threads_run(cpu->pool, units_of(p.n), count_unit, &p, cpu->stop);
  if (fl_stopped(d)) return FLAME_OK;
  for (int64_t u = 0; u < units_of(p.n); u++) out[0] += p.first[u + 1];
  return FLAME_OK;
}

static void place_unit(void *arg, int64_t unit, int worker) {
  const places *p = arg;
  int32_t at[UNIT + 1];
  const int64_t found = look(p, unit, at), first = p->first[unit];
  const int64_t n = found < p->count - first ? found : p->count - first;
  (void)worker;
  for (int64_t k = 0; k < n; k++) {
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): look wrote at[k] */
    int64_t *to = p->out + (first + k) * p->rank, rest = unit * UNIT + at[k];
    for (int d = p->rank - 1; d > 0; d--) {
      const int64_t row = rest / p->side[d];
      to[d] = rest - row * p->side[d] + 1;
      rest = row;
    }
    if (p->rank) to[0] = rest + 1;
  }
}

flame_status fl_cpu_call_nonzero(fl_device *d, const fl_call_run *r) {
  fl_cpu *cpu = d->state;
  const fl_call *c = r->call;
  places p = { .x = r->in[0], .out = r->out, .n = c->in_numel[0], .count = c->p[0],
               .dtype = c->in_dtype[0], .size = fl_dtype_size(c->in_dtype[0]), .rank = (int)c->p[1],
               .first = r->scratch };
  if (c->numel == 0) return FLAME_OK;
  memcpy(p.side, c->p + 2, sizeof p.side);
  fl_threads_run(cpu->pool, units_of(p.n), count_unit, &p, cpu->stop);
  if (fl_stopped(d)) return FLAME_OK;
  p.first[0] = 0;
  for (int64_t u = 0; u < units_of(p.n); u++) p.first[u + 1] += p.first[u];
  fl_threads_run(cpu->pool, units_of(p.n), place_unit, &p, cpu->stop);
  return FLAME_OK;
}
