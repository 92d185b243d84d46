/*
** Fourier transforms of several signals side by side: the loops (fft_loops.h, one file per
** instruction set). Element k of a signal group is a pair of vectors, real parts and imaginary
** parts of all lanes: x[k][re | im][lane]. Forward transforms; an inverse one is the forward one
** with real and imaginary parts exchanged at both ends.
*/
#ifndef FL_CPU_FFT_H
#define FL_CPU_FFT_H
#include <stdint.h>

enum { FL_FFT_FACTORS = 64, FL_FFT_LARGEST = 31, FL_FFT_LANE_BYTES = 64 };

/* The passes and tables of a length that has only small prime factors. */
typedef struct fl_fft_plan {
  int64_t n;
  int count;
  int32_t factor[FL_FFT_FACTORS];
  void *root[FL_FFT_FACTORS];        /* exp(-2 pi i j / factor), for odd factors */
  void *twiddle[FL_FFT_FACTORS];     /* of each pass: (factor - 1, rest) complex numbers */
} fl_fft_plan;

/* Layout of lanes: element k of lane l has its real part at at[l] + k * step, and its imaginary
** part 'apart' after it; they exist for k below reals[l] and imags[l]. */
typedef struct fl_fft_lanes {
  char *at[FL_FFT_LANE_BYTES / 4];
  int64_t reals[FL_FFT_LANE_BYTES / 4], imags[FL_FFT_LANE_BYTES / 4];
  int64_t step, apart;               /* in elements */
  int lanes, swap;                   /* number of lanes used; whether to exchange the two parts */
  double scale;                      /* of stores */
} fl_fft_lanes;

/* The loops for one element type. x, y: signal groups, see the head of this file; tables: complex
** numbers of the element type. */
typedef struct fl_fft_loops {
  int lanes;
  void *(*run)(const fl_fft_plan *p, void *x, void *y);      /* result: x or y; the other is
                                                             ** overwritten */
  void (*load)(void *x, int64_t n, const fl_fft_lanes *from);          /* 0 where nothing exists */
  void (*store)(const void *x, int64_t n, const fl_fft_lanes *to);
  void (*multiply)(void *x, int64_t n, const void *table);             /* x[k] *= table[k] */
  void (*swap)(void *x, int64_t n);
  /* x[k][lane] *= row[k] * table[k][lane + first], table with eight columns */
  void (*twist)(void *x, int64_t n, const void *row, const void *table, int first);
  /* split: turns the transform of a real signal, read as n complex pairs, into its half spectrum
  ** x[0 … n]; merge: twice the inverse. table[k] = exp(-pi i k / n). */
  void (*split)(void *x, int64_t n, const void *table);
  void (*merge)(void *x, int64_t n, const void *table);
  /* Like split and merge, for one signal of consecutive complex numbers, and for the elements k and
  ** n - k with from <= k < to only ('to' is at most n / 2 + 1). split_one multiplies by 'scale';
  ** merge_one exchanges real and imaginary parts. */
  void (*split_one)(const void *y, int64_t n, int64_t from, int64_t to, const void *table,
                    void *half, double scale);
  void (*merge_one)(const void *half, int64_t n, int64_t from, int64_t to,
                    const void *table, void *x);
} fl_fft_loops;

extern const fl_fft_loops fl_fft32_base, fl_fft64_base;
#if defined(__x86_64__)
extern const fl_fft_loops fl_fft32_avx2, fl_fft64_avx2, fl_fft32_avx512, fl_fft64_avx512;
#endif
#endif
