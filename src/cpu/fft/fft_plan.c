/*
** Fourier transforms: lengths, tables, working memory (fft_job.h). A call's scratch has room for
** its tables too; those that are cached (fft_cache.c) are not computed again.
**
** Roots of unity are computed in long double from an angle of at most 45 degrees, so a table is
** exact to its last bit almost always. Factors are 4, 2 and odd primes up to 31; a length with a
** larger one becomes a convolution with a chirp, of a length with small factors.
*/
#include "cpu/fft/fft_job.h"
#include "base/num.h"
#include <math.h>
#include <string.h>

enum { SHORT = 64, WIDE = 16384, MANY = 8, ALONE = 16384, VECTOR = 2 * FL_FFT_LANE_BYTES };

/* ---- lengths --------------------- */

/* Factors n; 0: it has a prime factor that is too large. */
static int factorise(int64_t n, fl_fft_plan *p) {
  p->n = n;
  p->count = 0;
  for (; n % 4 == 0; n /= 4) p->factor[p->count++] = 4;
  for (int32_t r = 2; n > 1 && r <= FL_FFT_LARGEST; r += 1 + (r > 2))
    for (; n % r == 0; n /= r) p->factor[p->count++] = r;
  return n == 1;
}

/* The smallest length from n on that is one of these numbers times a power of two. */
static int64_t easy_length(int64_t n) {
  static const int64_t odd[] = { 1, 3, 5, 7, 9, 15, 21, 25, 27, 35, 45 };
  int64_t best = 0;
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    int64_t m = odd[i];
    while (m < n) m *= 2;
    if (!best || m < best) best = m;
  }
  return best;
}

/* The largest divisor of n that is not above its square root. */
static int64_t divisor(int64_t n) {
  int64_t d = (int64_t)sqrt((double)n);
  while (d > 1 && n % d) d--;
  return d;
}

/* ---- roots --------------------- */

static void exact_root(int64_t k, int64_t n, long double *w) {
  const long double pi = 3.141592653589793238462643383279502884L;
  const int lower = k > n - k;
  int64_t y = 2 * (lower ? n - k : k);                     /* the angle in units of pi / n */
  const int obtuse = 2 * y > n;
  if (obtuse) y = n - y;
  long double c, s;
  if (4 * y > n) {
    const long double rest = pi * (long double)(n - 2 * y) / (long double)(2 * n);
    c = sinl(rest);
    s = cosl(rest);
  } else {
    c = cosl(pi * (long double)y / (long double)n);
    s = sinl(pi * (long double)y / (long double)n);
  }
  w[0] = obtuse ? -c : c;
  w[1] = lower ? s : -s;
}

static void fill_roots(fl_fft_roots *r) {
  const int64_t low = (int64_t)1 << r->bits, high = (r->n >> r->bits) + 1;
  for (int64_t i = 0; i < low && i < r->n; i++) exact_root(i, r->n, r->low + 2 * i);
  for (int64_t i = 0; i < high; i++) exact_root((i << r->bits) % r->n, r->n, r->high + 2 * i);
}

/* ---- working memory --------------------- */

typedef struct arena { char *base; int64_t at; } arena;

/* Returns NULL for size 0: such memory is not used. */
static char *take(arena *r, int64_t bytes) {
  if (bytes == 0) return NULL;
  char *p = r->base ? r->base + r->at : NULL;
  r->at += fl_round_up(bytes, 64);
  return p;
}

static void place_roots(arena *r, int64_t n, fl_fft_roots *t) {
  t->n = n;
  t->bits = 0;
  while (((int64_t)1 << (2 * t->bits)) < n) t->bits++;
  t->low = (long double *)(void *)take(r, ((int64_t)2 << t->bits) * (int64_t)sizeof(long double));
  t->high = (long double *)(void *)take(r, 2 * ((n >> t->bits) + 1) * (int64_t)sizeof(long double));
}

static void place_plan(arena *r, int64_t size, fl_fft_plan *p) {
  int64_t rest = p->n;
  for (int i = 0; i < p->count; i++) {
    rest /= p->factor[i];
    p->root[i] = take(r, 2 * p->factor[i] * size);
    p->twiddle[i] = take(r, 2 * (p->factor[i] - 1) * rest * size);
  }
}

/* Places the tables that depend only on the length; fl_fft_tables fills them. */
static void place_tables(fl_fft_job *j, arena *r) {
  const int64_t size = j->is64 ? 8 : 4, complex = 2 * size;
  place_roots(r, j->f.n, &j->whole);
  place_roots(r, 2 * j->length, &j->half);
  place_roots(r, j->core, &j->twist);
  place_plan(r, size, &j->plan[0]);
  place_plan(r, size, &j->plan[1]);
  j->real = take(r, j->packed ? (j->length / 2 + 1) * complex : 0);
  j->chirps = take(r, j->chirp ? j->length * complex : 0);
  j->kernel = take(r, j->chirp ? j->core * complex : 0);
  if (j->wide) return;
  j->eight = take(r, 8 * j->rows * complex);
  j->turns = take(r, fl_fft_groups(j) * j->rows * complex);
}

static void place_work(fl_fft_job *j, arena *r, int workers) {
  const int64_t complex = j->is64 ? 16 : 8;
  const int mode = j->f.mode;
  const int64_t longest = j->wide ? (j->core > j->f.n ? j->core : j->f.n) : j->rows > j->columns
                          ? j->rows : j->columns;
  j->lanes_size = fl_round_up((longest + 1) * VECTOR, 64);
  j->lanes = take(r, 2 * j->lanes_size * workers);
  if (j->wide) return;
  j->t = take(r, j->core * complex);
  j->a = take(r, j->chirp || mode == FL_FFT_FROM_HALF ? j->core * complex : 0);
  j->y = take(r, j->chirp || (mode == FL_FFT_TO_HALF && j->packed) ? j->core * complex : 0);
}

int64_t fl_fft_place_tables(fl_fft_job *j, char *base) {
  arena r = { base, 0 };
  place_tables(j, &r);
  return r.at;
}

int fl_fft_job_of(const fl_call *call, int workers, char *base, fl_fft_job *j, int64_t *bytes) {
  memset(j, 0, sizeof *j);
  *bytes = 0;
  if (!fl_fft_form_of(call, &j->f)) return 0;
  const fl_fft_form *f = &j->f;
  arena r = { base, 0 };
  j->is64 = call->dtype == FLAME_F64;
  j->transforms = f->outer * f->inner;
  j->packed = f->mode != FL_FFT_COMPLEX && f->n % 2 == 0;
  j->core = j->length = j->packed ? f->n / 2 : f->n;
  j->chirp = !factorise(j->length, &j->plan[0]);
  if (j->chirp) j->core = easy_length(2 * j->length - 1);
  j->wide = j->core <= SHORT || (j->core <= WIDE && j->transforms >= MANY);
  j->rows = j->wide ? j->core : divisor(j->core);
  j->columns = j->core / j->rows;
  factorise(j->rows, &j->plan[0]);
  factorise(j->columns, &j->plan[1]);
  j->scale = f->norm == 0 ? 1 : f->norm == 1 ? 1 / (double)f->n : 1 / sqrt((double)f->n);
  place_work(j, &r, workers);
  place_tables(j, &r);
  *bytes = r.at;
  return 1;
}

/* ---- tables --------------------- */

static void fill_plan(const fl_fft_job *j, fl_fft_plan *p) {
  int64_t rest = p->n, done = 1;
  const int64_t apart = j->core / p->n;                    /* roots of unity of order n are so far
                                                           ** apart among those of order core */
  double w[2];
  for (int i = 0; i < p->count; i++) {
    const int r = p->factor[i];
    rest /= r;
    for (int c = 0; c < r; c++) {
      fl_fft_root(&j->twist, j->core / r * c, w);
      fl_fft_put(j, p->root[i], 2 * c, w[0]);
      fl_fft_put(j, p->root[i], 2 * c + 1, w[1]);
    }
    for (int c = 1; c < r; c++)
      for (int64_t k = 0; k < rest; k++) {
        fl_fft_root(&j->twist, apart * done * c * k, w);
        fl_fft_put(j, p->twiddle[i], 2 * ((c - 1) * rest + k), w[0]);
        fl_fft_put(j, p->twiddle[i], 2 * ((c - 1) * rest + k) + 1, w[1]);
      }
    done *= r;
  }
}

/* exp(-pi i k^2 / length). */
static void fill_chirps(fl_fft_job *j) {
  double w[2];
  int64_t square = 0;                                      /* k^2 modulo 2 length */
  for (int64_t k = 0; k < j->length; k++) {
    fl_fft_root(&j->half, square, w);
    fl_fft_put(j, j->chirps, 2 * k, w[0]);
    fl_fft_put(j, j->chirps, 2 * k + 1, w[1]);
    square = (square + 2 * k + 1) % (2 * j->length);
  }
}

/* Computes the first root of each row in a group of eight columns; the others are found by
** multiplying with the table 'eight'. */
static void group_turns(void *arg, int64_t g, int worker) {
  const fl_fft_job *j = arg;
  double w[2];
  (void)worker;
  for (int64_t k = 0; k < j->rows; k++) {
    fl_fft_root(&j->twist, 8 * g * k % j->core, w);
    fl_fft_put(j, j->turns, 2 * (g * j->rows + k), w[0]);
    fl_fft_put(j, j->turns, 2 * (g * j->rows + k) + 1, w[1]);
  }
}

static void fill_turns(fl_fft_job *j) {
  const int64_t n = fl_fft_groups(j);
  if (j->core > ALONE) fl_threads_run(j->cpu->pool, n, group_turns, j, j->cpu->stop);
  else for (int64_t g = 0; g < n; g++) group_turns(j, g, 0);
}

void fl_fft_tables(fl_fft_job *j) {
  double w[2];
  if (j->packed) fill_roots(&j->whole);
  fill_roots(&j->twist);
  fill_plan(j, &j->plan[0]);
  if (!j->wide) fill_plan(j, &j->plan[1]);
  for (int64_t k = 0; j->packed && k <= j->length / 2; k++) {
    fl_fft_root(&j->whole, k, w);
    fl_fft_put(j, j->real, 2 * k, w[0]);
    fl_fft_put(j, j->real, 2 * k + 1, w[1]);
  }
  for (int64_t k = 0; !j->wide && k < j->rows; k++)
    for (int e = 0; e < 8; e++) {
      fl_fft_root(&j->twist, k * e % j->core, w);
      fl_fft_put(j, j->eight, 2 * (8 * k + e), w[0]);
      fl_fft_put(j, j->eight, 2 * (8 * k + e) + 1, w[1]);
    }
  if (!j->wide) fill_turns(j);
  if (!j->chirp) return;
  fill_roots(&j->half);
  fill_chirps(j);
}
