/* Operations on rows of 16-bit elements before and after a product by the library (blas.c). */
#ifndef FL_CUDA_ROWS_H
#define FL_CUDA_ROWS_H
#include "cuda/driver/state.h"

/* Copies rows to rows at another distance: 'rows' rows of 'cols' elements become the start of
** to_rows rows of to_cols, the rest of which is set to 0. Steps (from one row to the next) and
** counts are in elements. */
typedef struct fl_rows_copy {           /* laid out as struct pitch_args of kernels/pitch.cu */
  const void *from;
  int64_t from_step, rows, cols;
  void *to;
  int64_t to_step, to_rows, to_cols;
} fl_rows_copy;

/* Adds the bias of each column to sums in f32, which are densely packed, and rounds each result
** once. */
typedef struct fl_rows_bias {           /* laid out as struct bias_args of kernels/bias.cu */
  const void *sums;
  int64_t rows, cols;
  const void *bias;
  void *to;
  int64_t step;
} fl_rows_bias;

/* want: queues the compilation of a kernel while a plan is prepared (0: error kept). run: launches
** it. */
int fl_rows_want_copy(fl_cuda *s);
int fl_rows_want_bias(fl_cuda *s, int dtype);
flame_status fl_rows_run_copy(fl_cuda *s, fl_rows_copy a);
flame_status fl_rows_run_bias(fl_cuda *s, int dtype, fl_rows_bias a);
#endif
