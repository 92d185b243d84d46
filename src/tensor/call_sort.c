/*
** Sizes and dtypes of the calls that sort, select, search and count. Memory safety rests on
** these checks: calls that pass them are run without further ones, except of values.
*/
#include "tensor/call.h"
#include "tensor/dtype.h"

/* The number of elements of in[input], which must be (rows, n); -1: it is not. */
static int64_t rows_of(const fl_call *call, int input, int64_t rows, int64_t n) {
  if (rows < 0 || n < 0) return -1;
  const int64_t numel = fl_call_product(2, (int64_t[]){ rows, n });
  return call->in_numel[input] == numel ? numel : -1;
}

static int flag(int64_t v) { return v == 0 || v == 1; }

/* p: [rows n descending values]; the result is positions or, with 'values', bytes: positions, then
** values */
int fl_call_fits_argsort(const fl_call *call) {
  const int64_t numel = call->nin == 1 ? rows_of(call, 0, call->p[0], call->p[1]) : -1;
  if (numel < 0 || !flag(call->p[2]) || !flag(call->p[3])) return 0;
  if (!call->p[3]) return call->dtype == FLAME_I64 && call->numel == numel;
  return call->dtype == FLAME_U8 &&
         call->numel == fl_call_product(2,
                                        (int64_t[]){ numel, 8 + fl_dtype_size(call->in_dtype[0]) });
}

/* [rows n k largest] */
int fl_call_fits_topk(const fl_call *call) {
  const int64_t rows = call->p[0], n = call->p[1], k = call->p[2];
  return call->nin == 1 && rows_of(call, 0, rows, n) >= 0 && k >= 0 && k <= n &&
         call->numel == fl_call_product(2, (int64_t[]){ rows, k }) && call->dtype == FLAME_I64 &&
         flag(call->p[3]);
}

/* [rows n k nan] */
int fl_call_fits_kth(const fl_call *call) {
  return call->nin == 1 && rows_of(call, 0, call->p[0], call->p[1]) >= 0 && call->p[2] >= 1 &&
         call->p[2] <= call->p[1] && call->numel == call->p[0] && call->dtype == FLAME_I64 &&
         flag(call->p[3]);
}

/* [rows n m right shared] */
int fl_call_fits_searchsorted(const fl_call *call) {
  const int64_t rows = call->p[0],
                values = call->nin == 2 ? rows_of(call, 1, rows, call->p[2]) : -1;
  return values >= 0 && rows_of(call, 0, call->p[4] ? 1 : rows, call->p[1]) >= 0 &&
         call->in_dtype[0] == call->in_dtype[1] && call->numel == values &&
         call->dtype == FLAME_I64 && flag(call->p[3]) && flag(call->p[4]);
}

/* [batch n m] */
int fl_call_fits_edit_distance(const fl_call *call) {
  const int64_t rows = call->p[0];
  int fits = call->nin == 4 && call->dtype == FLAME_I64 && call->numel == rows &&
             rows_of(call, 0, rows, call->p[1]) >= 0 && rows_of(call, 1, rows, call->p[2]) >= 0;
  for (int i = 0; fits && i < 4; i++)
    fits = call->in_dtype[i] == FLAME_I64 && (i < 2 || call->in_numel[i] == rows);
  return fits;
}

/* [n bins strict] */
int fl_call_fits_histogram(const fl_call *call) {
  return call->nin == 1 && call->in_dtype[0] == FLAME_I64 && call->dtype == FLAME_I64 &&
         call->p[0] >= 0 && call->in_numel[0] == call->p[0] && call->p[1] >= 0 &&
         call->numel == call->p[1] && flag(call->p[2]);
}

/* [rows n bits] */
int fl_call_fits_weights(const fl_call *call) {
  const int64_t numel = call->nin == 1 ? rows_of(call, 0, call->p[0], call->p[1]) : -1;
  return numel >= 0 && call->numel == numel && call->dtype == FLAME_I64 && call->p[1] >= 1 &&
         call->p[1] <= 1 << 20 &&
         (call->in_dtype[0] == FLAME_F32 || call->in_dtype[0] == FLAME_F64) && call->p[2] >= 0 &&
         call->p[2] <= 52;
}

int fl_call_fits_nonzero_count(const fl_call *call) {
  return call->nin == 1 && call->dtype == FLAME_I64 && call->numel == FL_NONZERO_COUNTS;
}

/* p: [count rank size0 … size7], the sizes of in[0] */
int fl_call_fits_nonzero(const fl_call *call) {
  const int64_t rank = call->p[1];
  if (call->nin == 2 ? call->in_dtype[1] != FLAME_I64 || call->in_numel[1] != FL_NONZERO_COUNTS
                     : call->nin != 1)
    return 0;
  if (rank < 0 || rank > FL_MAX_AXES || call->dtype != FLAME_I64) return 0;
  const int64_t n = fl_call_product((int)rank, call->p + 2);
  return n >= 0 && call->in_numel[0] == n && call->p[0] >= 0 && call->p[0] <= n &&
         call->numel == fl_call_product(2, (int64_t[]){ call->p[0], rank });
}
