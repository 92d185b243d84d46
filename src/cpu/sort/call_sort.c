/*
** Positions that sort rows. Short rows are sorted as a whole, with a group of them as a unit of
** work; long ones one after the other by all workers: stretches of the row are partitioned by the
** highest digit that differs, stably, and each of the parts is sorted like a short row. The result
** is that of any stable sort, so it does not depend on stretches or workers.
*/
#include "cpu/state/state.h"
#include "cpu/sort/sort_keys.h"
#include "base/num.h"
#include <string.h>

enum { LONG = 1 << 16, UNIT = 1 << 14, BUCKETS = 1 << FL_RADIX_BITS, STRETCH_MOST = 64 };

typedef struct stretch { int64_t first, n; uint64_t any, all; int64_t count[BUCKETS]; } stretch;

typedef struct job {
  const char *x;
  int64_t *out;
  int64_t rows, n, group;
  int dtype, flip, bits, slim;
  char *room;                     /* the workers' memory */
  int64_t each;                   /* bytes of 'room' per worker: counts and, for rows that are
                             ** not long, two rows of elements */
  const atomic_int *stop;
  stretch *part;                  /* long rows */
  int stretches, shift;
  void *a, *b;
  int64_t begin[BUCKETS + 1];     /* of parts */
} job;

static int64_t counts_bytes(void) { return (int64_t)sizeof(int64_t) * FL_RADIX_COUNTS; }
static int64_t worker_bytes(int dtype, int64_t n) {
  return n > LONG ? counts_bytes()
                  : counts_bytes() + fl_round_up(2 * n * fl_key_bytes(dtype, n), 64);
}
static int stretch_count(int workers) {
  return 2 * workers < STRETCH_MOST ? 2 * workers : STRETCH_MOST;
}

int64_t fl_cpu_scratch_argsort(const fl_call *call, int workers) {
  const int64_t n = call->p[1];
  const int dtype = call->in_dtype[0];
  int64_t bytes = workers * worker_bytes(dtype, n) + fl_round_up(sizeof(job), 64);
  if (n > LONG)
    bytes += 2 * fl_round_up(n * fl_key_bytes(dtype, n), 64) +
             (int64_t)sizeof(stretch) * stretch_count(workers);
  return bytes;
}

/* ---- rows ---- */

static void sort_rows(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  const int64_t first = unit * j->group, size = fl_dtype_size(j->dtype);
  const int64_t end = first + j->group < j->rows ? first + j->group : j->rows;
  int64_t *count = (int64_t *)(void *)(j->room + worker * j->each);
  void *a = count + FL_RADIX_COUNTS;
  for (int64_t r = first; r < end; r++) {
    const char *x = j->x + r * j->n * size;
    int64_t *out = j->out + r * j->n;
    if (j->slim) {
      fl_slim_make(j->dtype, x, 0, j->n, j->flip, a, NULL, NULL);
      fl_slim_sort(a, (fl_slim *)a + j->n, j->n, j->bits, out, count);
    } else {
      fl_wide_make(j->dtype, x, 0, j->n, j->flip, a, NULL, NULL);
      fl_wide_sort(a, (fl_wide *)a + j->n, j->n, j->bits, out, count);
    }
  }
}

/* ---- one long row ---- */

static void make_stretch(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  stretch *s = &j->part[unit];
  (void)worker;
  if (j->slim)
    fl_slim_make(j->dtype, j->x, s->first, s->n, j->flip, (fl_slim *)j->a + s->first,
                 &s->any, &s->all);
  else
    fl_wide_make(j->dtype, j->x, s->first, s->n, j->flip, (fl_wide *)j->a + s->first,
                 &s->any, &s->all);
}

static int64_t bucket_slim(const job *j, fl_slim e) {
  return (int64_t)(e >> 32 >> j->shift & (BUCKETS - 1));
}
static int64_t bucket_wide(const job *j, fl_wide e) {
  return (int64_t)(e.key >> j->shift & (BUCKETS - 1));
}

static void count_stretch(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  stretch *s = &j->part[unit];
  (void)worker;
  memset(s->count, 0, sizeof s->count);
  if (j->slim) {
    const fl_slim *a = (const fl_slim *)j->a + s->first;
    for (int64_t i = 0; i < s->n; i++) s->count[bucket_slim(j, a[i])]++;
  } else {
    const fl_wide *a = (const fl_wide *)j->a + s->first;
    for (int64_t i = 0; i < s->n; i++) s->count[bucket_wide(j, a[i])]++;
  }
}

/* Partitions a stretch of a into b; count holds the next place of each bucket. */
static void part_stretch(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  stretch *s = &j->part[unit];
  (void)worker;
  if (j->slim) {
    const fl_slim *a = (const fl_slim *)j->a + s->first;
    fl_slim *b = j->b;
    for (int64_t i = 0; i < s->n; i++) b[s->count[bucket_slim(j, a[i])]++] = a[i];
  } else {
    const fl_wide *a = (const fl_wide *)j->a + s->first;
    fl_wide *b = j->b;
    for (int64_t i = 0; i < s->n; i++) b[s->count[bucket_wide(j, a[i])]++] = a[i];
  }
}

static void sort_part(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  const int64_t at = j->begin[unit], n = j->begin[unit + 1] - at;
  int64_t *count = (int64_t *)(void *)(j->room + worker * j->each);
  if (n == 0) return;
  if (j->slim)
    fl_slim_sort((fl_slim *)j->b + at, (fl_slim *)j->a + at, n, j->shift, j->out + at, count);
  else fl_wide_sort((fl_wide *)j->b + at, (fl_wide *)j->a + at, n, j->shift, j->out + at, count);
}

/* Replaces each stretch's count of a bucket with the position in b at which it writes its elements
** of the bucket; finds where each bucket begins. */
static void places(job *j) {
  int64_t sum = 0;
  for (int64_t d = 0; d < BUCKETS; d++) {
    j->begin[d] = sum;
    for (int k = 0; k < j->stretches; k++) {
      const int64_t c = j->part[k].count[d];
      j->part[k].count[d] = sum;
      sum += c;
    }
  }
  j->begin[BUCKETS] = sum;
}

static void sort_long(fl_cpu *cpu, job *j) {
  const atomic_int *stop = j->stop;
  uint64_t any = 0, all = ~(uint64_t)0;
  for (int k = 0; k < j->stretches; k++) {
    j->part[k].first = j->n * k / j->stretches;
    j->part[k].n = j->n * (k + 1) / j->stretches - j->part[k].first;
  }
  fl_threads_run(cpu->pool, j->stretches, make_stretch, j, stop);
  if (atomic_load(stop)) return;
  for (int k = 0; k < j->stretches; k++) {
    any |= j->part[k].any;
    all &= j->part[k].all;
  }
  const int differ = any == all ? 0 : 64 - __builtin_clzll(any ^ all);
  if (differ == 0) {
    for (int64_t i = 0; i < j->n; i++) j->out[i] = i + 1;
    return;
  }
  j->shift = differ > FL_RADIX_BITS ? differ - FL_RADIX_BITS : 0;
  fl_threads_run(cpu->pool, j->stretches, count_stretch, j, stop);
  if (atomic_load(stop)) return;
  places(j);
  fl_threads_run(cpu->pool, j->stretches, part_stretch, j, stop);
  if (atomic_load(stop)) return;
  fl_threads_run(cpu->pool, BUCKETS, sort_part, j, stop);
}

/* Writes the sorted values of all rows, which follow their positions in the result. */
static void put_values(const fl_call_run *r, int64_t rows, int64_t n) {
  const int64_t size = fl_dtype_size(r->call->in_dtype[0]), *at = r->out;
  char *to = (char *)r->out + rows * n * (int64_t)sizeof *at;
  for (int64_t row = 0; row < rows; row++)
    for (int64_t i = row * n; i < (row + 1) * n; i++)
      memcpy(to + i * size, (const char *)r->in[0] + (row * n + at[i] - 1) * size, (size_t)size);
}

static void positions(fl_device *d, const fl_call_run *r) {
  fl_cpu *cpu = d->state;
  const fl_call *c = r->call;
  const int dtype = c->in_dtype[0];
  const int64_t rows = c->p[0], n = c->p[1];
  job *j = r->scratch;
  *j = (job){ .x = r->in[0], .out = r->out, .rows = rows, .n = n, .dtype = dtype,
              .flip = (int)c->p[2],
              .bits = fl_key_bits(dtype), .slim = fl_key_slim(dtype, n), .stop = cpu->stop,
              .room = (char *)r->scratch + fl_round_up(sizeof *j, 64),
              .each = worker_bytes(dtype, n) };
  if (n <= LONG) {
    j->group = UNIT / n + 1;
    fl_threads_run(cpu->pool, (rows + j->group - 1) / j->group, sort_rows, j, cpu->stop);
    return;
  }
  j->stretches = stretch_count(cpu->width);
  j->a = j->room + cpu->width * j->each;
  j->b = (char *)j->a + fl_round_up(n * fl_key_bytes(dtype, n), 64);
  j->part = (stretch *)(void *)((char *)j->b + fl_round_up(n * fl_key_bytes(dtype, n), 64));
  for (int64_t row = 0; row < rows && !fl_stopped(d); row++) {
    j->x = (const char *)r->in[0] + row * n * fl_dtype_size(dtype);
    j->out = (int64_t *)r->out + row * n;
    sort_long(cpu, j);
  }
}

flame_status fl_cpu_call_argsort(fl_device *d, const fl_call_run *r) {
  const int64_t rows = r->call->p[0], n = r->call->p[1];
  if (rows == 0 || n == 0) return FLAME_OK;
  positions(d, r);
  if (r->call->p[3] && !fl_stopped(d)) put_values(r, rows, n);
  return FLAME_OK;
}
