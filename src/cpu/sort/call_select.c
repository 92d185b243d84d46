/*
** The first k elements of rows in sorted order, and the k-th. A few of many are kept in a short
** sorted list while the row is read, some of many in a buffer; otherwise the row is selected by
** radix. Units are groups of rows.
*/
#include "cpu/state/state.h"
#include "cpu/sort/sort_keys.h"
#include "tensor/math.h"
#include "base/num.h"

enum { UNIT = 1 << 14, LIST = 24, STRETCH = 32, FILL = 4, MANY = 32, CUTS = 20 };

typedef struct job {
  const char *x;
  int64_t *out;
  int64_t rows, n, k, group;
  int dtype, flip, bits, slim, nan;
  char *room;
  int64_t each;
} job;

static int listed(int64_t n, int64_t k) { return k <= LIST && n >= 8 * k; }

/* A worker's memory: a row of elements, the chosen ones twice, and counts. */
static int64_t worker_bytes(int dtype, int64_t n, int64_t k) {
  return (int64_t)sizeof(int64_t) * FL_RADIX_COUNTS +
         fl_round_up((n + 2 * k) * fl_key_bytes(dtype, n), 64);
}

int64_t fl_cpu_scratch_topk(const fl_call *call, int workers) {
  const int64_t n = call->p[1], k = call->p[2];
  return listed(n, k) ? 0 : workers * worker_bytes(call->in_dtype[0], n, k);
}
int64_t fl_cpu_scratch_kth(const fl_call *call, int workers) {
  return workers * worker_bytes(call->in_dtype[0], call->p[1], 0);
}

/* The first k of the row by insertion: most elements fail the only comparison, with the last. */
#define X(ENUM, T, keyof) \
  case FLAME_##ENUM: { \
    const T *v = x; \
    for (int64_t i = 0; i < n; i++) { \
      const uint64_t e = keyof(v[i]) ^ mask; \
      if (have == k && e >= key[k - 1]) continue; \
      int64_t p = have < k ? have++ : k - 1; \
      for (; p > 0 && key[p - 1] > e; p--) { \
        key[p] = key[p - 1]; \
        at[p] = at[p - 1]; \
      } \
      key[p] = e; \
      at[p] = i + 1; \
    } \
    break; \
  }
static void list_row(int dtype, const void *x, int64_t n, int64_t k, int flip, int64_t *out) {
  const uint64_t mask = flip ? ~(uint64_t)0 >> (64 - fl_key_bits(dtype)) : 0;
  uint64_t key[LIST] = { 0 };
  int64_t at[LIST] = { 0 }, have = 0;
  if (k > LIST) return;                          /* never so: 'listed' requires it */
  switch (dtype) { FL_KEY_TYPES(X) default: break; }
  for (int64_t i = 0; i < k; i++) out[i] = at[i];
}
#undef X

/* For some elements of many (more than a short list holds): elements before the k-th of those read
** so far go into a buffer, which is reduced to its first k when it is full. Few elements do, so
** most stretches are skipped after one test of their values (those with a NaN need the keys).
** Elements with equal keys are in the buffer in the order of their positions, and a later one whose
** key equals the k-th's does not enter, so the first of them stay. A sorted row would fill the
** buffer again and again, so after CUTS reductions the whole row is selected by radix. */
typedef struct held {
  const job *j;
  const void *x;
  void *a, *sel;              /* the buffer; room for k elements of it */
  int64_t *count;
  int64_t have, kth;          /* number of elements in the buffer; 0-based position in x of an
                              ** element with the key of the k-th */
  int cuts;
} held;

static int is_held(int dtype, int64_t n, int64_t k) {
  return n >= MANY * k &&
         (dtype == FLAME_F64 || dtype == FLAME_F32 || dtype == FLAME_BF16 || dtype == FLAME_I64 ||
                           dtype == FLAME_I32) &&
                           fl_key_slim(dtype, n) == (fl_dtype_size(dtype) <= 4);
}

static void cut_slim(held *h) {
  h->kth = fl_slim_select(h->a, h->have, h->j->bits, h->j->k, h->sel, h->count);
  memcpy(h->a, h->sel, (size_t)h->j->k * sizeof(fl_slim));
  h->have = h->j->k;
  h->cuts++;
}
static void cut_wide(held *h) {
  h->kth = fl_wide_select(h->a, h->have, h->j->bits, h->j->k, h->sel, h->count);
  memcpy(h->a, h->sel, (size_t)h->j->k * sizeof(fl_wide));
  h->have = h->j->k;
  h->cuts++;
}

/* Compares the values of a stretch with the k-th's; then adds all that come before it. */
#define LOOK(in, T, stays) for (int i = 0; i < STRETCH; i++) some |= !(in(v[i]) stays last);
#define HOLD(name, T, V, M, in, keyof, E, MAKE, cut) \
  static void hold_##name(held *h) { \
    const job *j = h->j; \
    const T *x = h->x, *v; \
    const uint64_t mask = j->flip ? ~(uint64_t)0 >> (64 - j->bits) : 0; \
    const int64_t full = FILL * j->k; \
    cut(h); \
    for (int64_t at = full; at < j->n && h->cuts < CUTS; at += STRETCH) { \
      const V last = in(x[h->kth]); \
      const int m = j->n - at < STRETCH ? (int)(j->n - at) : STRETCH; \
      M some = m < STRETCH; \
      v = x + at; \
      if (!some && j->flip) LOOK(in, T, <=) \
      else if (!some) LOOK(in, T, >=) \
      if (!some) continue; \
      const uint64_t key = keyof(x[h->kth]) ^ mask; \
      E *a = h->a; \
      int64_t have = h->have; \
      for (int i = 0; i < m; i++) { \
        const uint64_t e = keyof(v[i]) ^ mask; \
        a[have] = MAKE(e, (uint64_t)(at + i)); \
        have += e < key; \
      } \
      h->have = have; \
      if (have >= full) cut(h); \
    } \
    cut(h); \
  }
#define AS_IT_IS(v) (v)
#define SLIM(k, i) ((k) << 32 | (i))
#define WIDE(k, i) ((fl_wide){ (k), (i) })
HOLD(f32, float, float, int32_t, AS_IT_IS, fl_key_f32, fl_slim, SLIM, cut_slim)
HOLD(bf16, uint16_t, float, int32_t, fl_bf16_value, fl_key_bf16, fl_slim, SLIM, cut_slim)
HOLD(i32, int32_t, int32_t, int32_t, AS_IT_IS, fl_key_i32, fl_slim, SLIM, cut_slim)
HOLD(f64, double, double, int64_t, AS_IT_IS, fl_key_f64, fl_wide, WIDE, cut_wide)
HOLD(i64, int64_t, int64_t, int64_t, AS_IT_IS, fl_key_i64, fl_wide, WIDE, cut_wide)
#undef LOOK
#undef HOLD

/* Finds the first k by the buffer. 0: given up, as there were too many reductions. */
static int hold(held *h) {
  switch (h->j->dtype) {
    case FLAME_F32: hold_f32(h); break;
    case FLAME_BF16: hold_bf16(h); break;
    case FLAME_I32: hold_i32(h); break;
    case FLAME_F64: hold_f64(h); break;
    default: hold_i64(h); break;
  }
  return h->cuts <= CUTS;
}

static void top_row(const job *j, const void *x, int64_t *out, int64_t *count) {
  const int64_t n = j->n, k = j->k;
  const int few = is_held(j->dtype, n, k);
  void *a = count + FL_RADIX_COUNTS;
  if (j->slim) {
    fl_slim *sel = (fl_slim *)a + n;
    held h = { .j = j, .x = x, .a = a, .sel = sel, .have = FILL * k, .count = count };
    if (few) fl_slim_make(j->dtype, x, 0, h.have, j->flip, a, NULL, NULL);
    if (!few || !hold(&h)) {
      fl_slim_make(j->dtype, x, 0, n, j->flip, a, NULL, NULL);
      fl_slim_select(a, n, j->bits, k, sel, count);
    }
    fl_slim_sort(sel, sel + k, k, j->bits, out, count);
  } else {
    fl_wide *sel = (fl_wide *)a + n;
    held h = { .j = j, .x = x, .a = a, .sel = sel, .have = FILL * k, .count = count };
    if (few) fl_wide_make(j->dtype, x, 0, h.have, j->flip, a, NULL, NULL);
    if (!few || !hold(&h)) {
      fl_wide_make(j->dtype, x, 0, n, j->flip, a, NULL, NULL);
      fl_wide_select(a, n, j->bits, k, sel, count);
    }
    fl_wide_sort(sel, sel + k, k, j->bits, out, count);
  }
}

static void top_rows(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  const int64_t first = unit * j->group, size = fl_dtype_size(j->dtype);
  const int64_t end = first + j->group < j->rows ? first + j->group : j->rows;
  for (int64_t r = first; r < end; r++) {
    const char *x = j->x + r * j->n * size;
    int64_t *out = j->out + r * j->k;
    if (listed(j->n, j->k)) list_row(j->dtype, x, j->n, j->k, j->flip, out);
    else top_row(j, x, out, (int64_t *)(void *)(j->room + worker * j->each));
  }
}

/* The first NaN of a row of floats, or -1. Its key is the highest. */
static int64_t first_nan(int dtype, const void *x, int64_t n) {
  switch (dtype) {
    case FLAME_F64: {
      const double *v = x;
      for (int64_t i = 0; i < n; i++) if (v[i] != v[i]) return i;
      return -1;
    }
    case FLAME_F32: {
      const float *v = x;
      for (int64_t i = 0; i < n; i++) if (v[i] != v[i]) return i;
      return -1;
    }
    case FLAME_F16: case FLAME_BF16: {
      const uint16_t *v = x, inf = dtype == FLAME_F16 ? 0x7C00 : 0x7F80;
      for (int64_t i = 0; i < n; i++) if ((v[i] & 0x7FFF) > inf) return i;
      return -1;
    }
    default: return -1;
  }
}

static void kth_rows(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  const int64_t first = unit * j->group, size = fl_dtype_size(j->dtype);
  const int64_t end = first + j->group < j->rows ? first + j->group : j->rows;
  int64_t *count = (int64_t *)(void *)(j->room + worker * j->each);
  void *a = count + FL_RADIX_COUNTS;
  for (int64_t r = first; r < end; r++) {
    const char *x = j->x + r * j->n * size;
    int64_t at = j->nan ? first_nan(j->dtype, x, j->n) : -1;
    if (at < 0 && j->slim) {
      fl_slim_make(j->dtype, x, 0, j->n, 0, a, NULL, NULL);
      at = fl_slim_select(a, j->n, j->bits, j->k, NULL, count);
    } else if (at < 0) {
      fl_wide_make(j->dtype, x, 0, j->n, 0, a, NULL, NULL);
      at = fl_wide_select(a, j->n, j->bits, j->k, NULL, count);
    }
    j->out[r] = at + 1;
  }
}

static void run(fl_device *d, const fl_call_run *r, job *j, fl_unit_fn fn) {
  fl_cpu *cpu = d->state;
  j->dtype = r->call->in_dtype[0];
  j->rows = r->call->p[0];
  j->n = r->call->p[1];
  j->k = r->call->p[2];
  j->x = r->in[0];
  j->out = r->out;
  j->bits = fl_key_bits(j->dtype);
  j->slim = fl_key_slim(j->dtype, j->n);
  j->room = r->scratch;
  j->group = UNIT / (j->n + 1) + 1;
  fl_threads_run(cpu->pool, (j->rows + j->group - 1) / j->group, fn, j, cpu->stop);
}

flame_status fl_cpu_call_topk(fl_device *d, const fl_call_run *r) {
  const fl_call *c = r->call;
  job j = { .flip = (int)c->p[3], .each = worker_bytes(c->in_dtype[0], c->p[1], c->p[2]) };
  if (c->numel > 0) run(d, r, &j, top_rows);
  return FLAME_OK;
}

flame_status fl_cpu_call_kth(fl_device *d, const fl_call_run *r) {
  const fl_call *c = r->call;
  job j = { .nan = (int)c->p[3], .each = worker_bytes(c->in_dtype[0], c->p[1], 0) };
  if (c->numel > 0) run(d, r, &j, kth_rows);
  return FLAME_OK;
}
