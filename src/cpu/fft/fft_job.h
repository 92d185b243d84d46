/*
** One run of a Fourier transform on the CPU: what its files share.
**   call_fft.c    the call: short transforms, as many side by side as a vector has lanes
**   fft_plan.c    lengths, factors, tables and working memory
**   fft_cache.c   tables kept from call to call
**   fft_long.c    long transforms: a matrix of columns and rows, spread over the workers
*/
#ifndef FL_CPU_FFT_JOB_H
#define FL_CPU_FFT_JOB_H
#include "cpu/state/state.h"
#include "cpu/fft/fft.h"
#include "tensor/call_fft.h"
#include "base/num.h"

/* exp(-2 pi i k / n) as products of two numbers from tables of about sqrt(n). */
typedef struct fl_fft_roots { int64_t n; int bits; long double *high, *low; } fl_fft_roots;

typedef struct fl_fft_job {
  fl_fft_form f;
  const fl_fft_loops *loops;
  const fl_call_run *run;
  const fl_cpu *cpu;
  int is64, lanes_bytes;
  int64_t transforms;
  int packed;                     /* a real signal of even length is transformed as complex pairs */
  int64_t length;                 /* complex numbers transformed: n or n / 2 */
  int64_t core;      /* length of the transforms that are run: 'length', or that of a convolution */
  int chirp;                      /* 1: Bluestein's algorithm (large prime factor) */
  int wide;            /* 1: signals are the lanes; 0: one signal is a matrix of columns and rows */
  int64_t columns, rows;          /* core = rows * columns */
  double scale;
  /* tables, in the call's scratch or kept: */
  fl_fft_roots whole, half, twist; /* roots of unity of order n; 2 length, for chirps; core */
  /* if wide: [0] is for length core; else [0] is for length rows (down a column), [1] for length
  ** columns */
  fl_fft_plan plan[2];
  char *real, *chirps, *kernel;   /* tables: for split and merge; chirps; transform of the
                                  ** convolution's fixed factor */
  char *eight, *turns;            /* long: twiddle factors of a column within its group of
                                  ** eight columns, and of each group's first column */
  int fresh;                      /* 'kernel' must still be computed */
  /* in the call's scratch: */
  char *a, *t, *y;                /* long: signals */
  char *lanes;                    /* a worker's two buffers */
  int64_t lanes_size;             /* of one worker */
  int64_t at;                     /* long: the transform now computed */
} fl_fft_job;

/* Prepares the job without running it; 0: the call's parameters are not valid. Working memory
** begins at 'base' (NULL: it is only counted); *bytes is its size. */
int fl_fft_job_of(const fl_call *call, int workers, char *base, fl_fft_job *j, int64_t *bytes);
void fl_fft_tables(fl_fft_job *j);
/* Places the tables from base on (NULL: only counts); returns their bytes. */
int64_t fl_fft_place_tables(fl_fft_job *j, char *base);
/* Number of groups of eight columns. It leaves room beyond the last column, so that the widest
** vectors may go past it. */
static inline int64_t fl_fft_groups(const fl_fft_job *j) { return (j->columns + 15) / 8 + 1; }

/* The job's tables, kept ones or newly filled; 'fresh' tells whether the caller must compute
** 'kernel'. After that it calls fl_fft_settle: whole 0 drops tables that were left incomplete. */
void fl_fft_take_tables(fl_cpu *cpu, fl_mem *m, fl_fft_job *j);
void fl_fft_settle(fl_cpu *cpu, fl_mem *m, const fl_fft_job *j, int whole);
/* Re and im of exp(-2 pi i k / n). */
static inline void fl_fft_root(const fl_fft_roots *r, int64_t k, double w[2]) {
  const long double *a = r->high + 2 * (k >> r->bits),
                    *b = r->low + 2 * (k & (((int64_t)1 << r->bits) - 1));
  w[0] = (double)(a[0] * b[0] - a[1] * b[1]);
  w[1] = (double)(a[0] * b[1] + a[1] * b[0]);
}
static inline double fl_fft_get(const fl_fft_job *j, const char *p, int64_t i) {
  return j->is64 ? ((const double *)(const void *)p)[i] : ((const float *)(const void *)p)[i];
}
static inline void fl_fft_put(const fl_fft_job *j, char *p, int64_t i, double v) {
  if (j->is64) ((double *)(void *)p)[i] = v;
  else ((float *)(void *)p)[i] = (float)v;
}
/* Transforms x, of length core, in all lanes: by the plan, or as a convolution with the chirp.
** Result: x or y. */
void *fl_fft_core(const fl_fft_job *j, void *x, void *y);
void fl_fft_run_long(fl_fft_job *j);
/* Where transform i begins, in bytes. */
static inline int64_t fl_fft_first(const fl_fft_job *j, int64_t i, int64_t size, int parts) {
  return (i / j->f.inner * size * j->f.inner + i % j->f.inner) * parts * (j->is64 ? 8 : 4);
}
/* fft_cache.c: drops all tables. Also called when memory is short. */
void fl_fft_close(fl_cpu *s, fl_mem *m);
#endif
