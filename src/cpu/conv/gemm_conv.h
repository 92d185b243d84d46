/*
** The inner loops of convolutions, for each instruction set (gemm_conv_*.c, one text in
** gemm_conv_tile.h). Sums are in f32 or f64 registers; half types are widened when they are
** packed. The order of terms never depends on the position of a tile.
**
** A tile is 'rows' x 'nv' vectors of results: A is rows of at most KC values, LDA apart (not a
** power of two, so that rows do not share cache sets), B has for each of k terms a vector at
** off[term] and, with nv = 2, another one 'second' elements after it.
*/
#ifndef FL_CPU_GEMM_CONV_H
#define FL_CPU_GEMM_CONV_H
#include <stdint.h>

/* KC: most terms of a tile; LDA: see above; MR, NR: most rows and columns of a tile on any
** instruction set */
enum { FL_CONV_KC = 256, FL_CONV_LDA = 272, FL_CONV_MR = 12, FL_CONV_NR = 32 };

/* A run of pixels: 'len' of them, copied from source element 'from' on to the packed row from 'at'
** on. */
typedef struct fl_conv_run { int32_t at, len; int64_t from; } fl_conv_run;

/* c (rows x nv vectors, rows ldc apart) = or += a b. The tables below have one function for each
** size: [rows - 1][nv - 1]. */
typedef void (*fl_conv_tile32)(int64_t k, const float *a, const float *b, const int32_t *off,
                               int64_t second, float *c, int64_t ldc, int add);
typedef void (*fl_conv_tile64)(int64_t k, const double *a, const double *b, const int32_t *off,
                               int64_t second, double *c, int64_t ldc, int add);
/* Packs 'n' rows of 'width' values, 'ldb' apart; each is copied by the same runs from a plane of
** the source, and planes are 'plane' apart; 0 where there is no run. step: distance of pixels in
** the source. */
typedef void (*fl_conv_pack)(void *b, int64_t ldb, int64_t width, int64_t n, const void *src,
                             int64_t plane, int64_t step, int runs, const fl_conv_run *run);

/* Packs rows of 'width' values, one after the other, into two arrays: 'even' gets x[0], x[2], … and
** 'odd' x[1], x[3], …; elements before 'first' or from 'end' on (counted from x) are 0. The next
** row of x begins 'plane' elements later. */
typedef void (*fl_conv_pairs)(float *even, float *odd, int64_t width, int64_t n, const float *x,
                              int64_t plane, int64_t first, int64_t end);

typedef struct fl_conv_loops {
  int mr, lanes32, lanes64;
  fl_conv_tile32 tile32[FL_CONV_MR][2];
  fl_conv_tile64 tile64[FL_CONV_MR][2];
  fl_conv_pack pack[4];                 /* per dtype: f64 f32 f16 bf16 */
  void (*narrow)(uint16_t *to, const float *x, int64_t n);         /* rounded to bf16 */
  fl_conv_pairs pairs;                  /* NULL: pack is as good */
  /* y[i] = or += sum over t of w[t] x[t][i]; n is rounded up to whole blocks of 4 vectors */
  void (*flat32)(float *y, int64_t n, int taps, const float *const *x, const float *w, int add);
  void (*flat64)(double *y, int64_t n, int taps, const double *const *x, const double *w, int add);
  /* like flat32 and flat64 for four rows, ldy apart, of weights w[t * 4 + row] */
  void (*four32)(float *y, int64_t ldy, int64_t n, int taps, const float *const *x,
                 const float *w, int add);
  void (*four64)(double *y, int64_t ldy, int64_t n, int taps, const double *const *x,
                 const double *w, int add);
  double (*dot32)(int64_t n, const float *a, const float *b);     /* n: whole blocks of 4 vectors */
  double (*dot64)(int64_t n, const double *a, const double *b);
  /* y[i] = max(y[i], x[i * step]), where a NaN wins; or y[i] + x[i * step] */
  void (*larger32)(float *y, const float *x, int64_t step, int64_t n);
  void (*larger64)(double *y, const double *x, int64_t step, int64_t n);
  void (*plus32)(float *y, const float *x, int64_t step, int64_t n);
  void (*plus64)(double *y, const double *x, int64_t step, int64_t n);
  /* most[i] = max(most[i], x[i * step]), where NaN wins and stays; at[i] is the position of that
  ** value, first + i * step for x[i * step], or 0 if there is none yet */
  void (*meet32)(const float *x, int64_t step, int64_t n, float *restrict most,
                 int64_t *restrict at, int64_t first);
  void (*meet64)(const double *x, int64_t step, int64_t n, double *restrict most,
                 int64_t *restrict at, int64_t first);
  /* transposes 'cols' rows of n elements, 'plane' apart, to b[i * ldb + j]; columns from cols to w
  ** become 0 */
  void (*turn32)(float *b, int64_t ldb, int64_t w, const float *from, int64_t plane, int64_t cols,
                 int64_t n);
  void (*turn64)(double *b, int64_t ldb, int64_t w, const double *from, int64_t plane, int64_t cols,
                 int64_t n);
  /* y[i] = sum over t of w[t] x[t][i] */
  void (*mix32)(float *y, int64_t n, int taps, const float *const *x, const float *w);
  void (*mix64)(double *y, int64_t n, int taps, const double *const *x, const double *w);
} fl_conv_loops;
enum { FL_CONV_BLOCK = 64 };            /* a multiple of every block of 4 vectors */

extern const fl_conv_loops fl_conv_base;
#if defined(__x86_64__)
extern const fl_conv_loops fl_conv_avx2, fl_conv_avx512;
#endif
#endif
