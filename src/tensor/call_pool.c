/*
** Checks of pooling (call_conv.h).
**   max_pool       the largest value of each window, any dtype but bool; NaN wins
**   max_pool_at    their 1-based positions in the plane, i64; the first of equals
**   pool_take      y[i] = x[plane of i, at[i]]    pool_put   its adjoint, sums in order of i
**   avg_pool       means of the windows           avg_pool_back   its adjoint
**   resample       weighted sums along one axis: a sparse matrix by rows; its adjoint is the same
**                  with the transposed matrix
** max_pool of an empty window is the lowest value of the dtype: -inf or the least integer. Its
** position is 0: nothing is taken from there or put there.
*/
#include "tensor/call_conv.h"

static int64_t planes_of(const fl_pooling *s, const int64_t size[3]) {
  return fl_call_product(4, (const int64_t[]){ s->planes, size[0], size[1], size[2] });
}

/* Has in[0] 'from' elements and the result 'to'? Both sizes must be valid. */
static int sizes(const fl_call *call, int nin, int64_t from, int64_t to) {
  return call->nin == nin && from >= 0 && to >= 0 && call->in_numel[0] == from && call->numel == to;
}

int fl_call_fits_max_pool(const fl_call *call) {
  fl_pooling s;
  return fl_pooling_read(call, &s) && sizes(call, 1, planes_of(&s, s.in), planes_of(&s, s.out)) &&
         call->in_dtype[0] == call->dtype && call->dtype != FLAME_BOOL;
}

int fl_call_fits_max_pool_at(const fl_call *call) {
  fl_pooling s;
  return fl_pooling_read(call, &s) && sizes(call, 1, planes_of(&s, s.in), planes_of(&s, s.out)) &&
         call->dtype == FLAME_I64 && call->in_dtype[0] != FLAME_BOOL;
}

int fl_call_fits_pool_take(const fl_call *call) {
  fl_pooling s;
  return fl_pooling_read(call, &s) && sizes(call, 2, planes_of(&s, s.in), planes_of(&s, s.out)) &&
         call->in_numel[1] == call->numel && call->in_dtype[1] == FLAME_I64 &&
         call->in_dtype[0] == call->dtype;
}

int fl_call_fits_pool_put(const fl_call *call) {
  fl_pooling s;
  return fl_pooling_read(call, &s) && sizes(call, 2, planes_of(&s, s.out), planes_of(&s, s.in)) &&
         call->in_numel[1] == call->in_numel[0] && call->in_dtype[1] == FLAME_I64 &&
         call->in_dtype[0] == call->dtype && fl_is_float(call->dtype);
}

int fl_call_fits_avg_pool(const fl_call *call) {
  fl_pooling s;
  return fl_pooling_read(call, &s) && sizes(call, 1, planes_of(&s, s.in), planes_of(&s, s.out)) &&
         call->in_dtype[0] == call->dtype && fl_is_float(call->dtype);
}

int fl_call_fits_avg_pool_back(const fl_call *call) {
  fl_pooling s;
  return fl_pooling_read(call, &s) && sizes(call, 1, planes_of(&s, s.out), planes_of(&s, s.in)) &&
         call->in_dtype[0] == call->dtype && fl_is_float(call->dtype);
}

/* p: outer, elements of the axis, results, inner. in: x, starts (i64, results + 1), positions (i64,
** 0-based), weights (the dtype). Starts and positions are checked when it runs. */
int fl_call_fits_resample(const fl_call *call) {
  const int64_t *p = call->p;
  const int64_t from = fl_call_product(3, (const int64_t[]){ p[0], p[1], p[3] });
  const int64_t to = fl_call_product(3, (const int64_t[]){ p[0], p[2], p[3] });
  return call->nin == 4 && sizes(call, 4, from, to) && p[2] < INT64_MAX &&
         call->in_numel[1] == p[2] + 1 && call->in_numel[2] == call->in_numel[3] &&
         call->in_dtype[1] == FLAME_I64 && call->in_dtype[2] == FLAME_I64 &&
         call->in_dtype[0] == call->dtype && call->in_dtype[3] == call->dtype &&
         (call->dtype == FLAME_F32 || call->dtype == FLAME_F64);
}
