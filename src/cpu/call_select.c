/*
** The k first of rows in sorted order, and the k-th. Few of many are kept in a short sorted
** list while the row is read; else a radix selection of the row. Units are groups of rows.
*/
#include "cpu/calls.h"
#include "cpu/sort_keys.h"

enum { UNIT = 1 << 14, LIST = 24 };

typedef struct job {
  const char *x;
  int64_t *out;
  int64_t rows, n, k, group;
  int dtype, flip, bits, slim, nan;
  char *room;
  int64_t each;
} job;

static int listed(int64_t n, int64_t k) { return k <= LIST && n >= 8 * k; }

/* A row of elements, the chosen ones twice, counts. */
static int64_t worker_bytes(int dtype, int64_t n, int64_t k) {
  return (int64_t)sizeof(int64_t) * FL_RADIX_COUNTS + fl_round64((n + 2 * k) * fl_key_bytes(dtype, n));
}

int64_t fl_cpu_scratch_topk(const fl_call *call, int workers) {
  const int64_t n = call->p[1], k = call->p[2];
  return listed(n, k) ? 0 : workers * worker_bytes(call->in_dtype[0], n, k);
}
int64_t fl_cpu_scratch_kth(const fl_call *call, int workers) {
  return workers * worker_bytes(call->in_dtype[0], call->p[1], 0);
}

/* The first k of the row by insertion: most elements fail the one comparison with the last. */
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
  if (k > LIST) return;                          /* 'listed' has seen to it */
  switch (dtype) { FL_KEY_TYPES(X) default: break; }
  for (int64_t i = 0; i < k; i++) out[i] = at[i];
}
#undef X

static void top_row(const job *j, const void *x, int64_t *out, int64_t *count) {
  const int64_t n = j->n, k = j->k;
  void *a = count + FL_RADIX_COUNTS;
  if (j->slim) {
    fl_slim *sel = (fl_slim *)a + n;
    fl_slim_make(j->dtype, x, 0, n, j->flip, a, NULL, NULL);
    fl_slim_select(a, n, j->bits, k, sel, count);
    fl_slim_sort(sel, sel + k, k, j->bits, out, count);
  } else {
    fl_wide *sel = (fl_wide *)a + n;
    fl_wide_make(j->dtype, x, 0, n, j->flip, a, NULL, NULL);
    fl_wide_select(a, n, j->bits, k, sel, count);
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

/* First NaN of a row of floats, or -1. Its key is the highest there is. */
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
