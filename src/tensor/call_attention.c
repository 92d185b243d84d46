/* Checks of attention (call_attention.h): do sizes, strides and dtypes agree with the integers? */
#include "tensor/call_attention.h"
#include <string.h>

/* Does a view of these sizes and strides stay within the first n elements? */
static int inside(int axes, const int64_t *size, const int64_t *stride, int64_t n) {
  __int128_t last = 0;
  for (int i = 0; i < axes; i++) {
    if (stride[i] < 0) return 0;
    last += (__int128_t)(size[i] - 1) * stride[i];
  }
  return last < n;
}

/* Like 'inside', for strides over the first three axes and a last axis of n adjacent elements. */
static int rows_inside(int64_t b, int64_t h, int64_t t, int64_t n, const int64_t *stride,
                       int64_t numel) {
  return inside(4, (const int64_t[]){ b, h, t, n },
                (const int64_t[]){ stride[0], stride[1], stride[2], 1 }, numel);
}

static int sizes_fit(const fl_attention *a) {
  const int64_t size[] = { a->b, a->h, a->hk, a->t, a->s, a->d, a->d2 };
  for (int i = 0; i < 7; i++) if (size[i] < 1) return 0;
  return a->d <= FL_HEAD_MOST && a->d2 <= FL_HEAD_MOST && a->h % a->hk == 0 &&
         (a->causal == 0 || a->causal == 1) && (a->free == 0 || a->free == 1) &&
         (a->drops == 0 || a->drops == 1) &&
         (a->by_row == 0 || (a->by_row == 1 && a->t == a->s && a->d == a->d2)) &&
         fl_call_product(4, (const int64_t[]){ a->b, a->h, a->t, 2 * FL_HEAD_MOST }) > 0 &&
         fl_call_product(4, (const int64_t[]){ a->b, a->hk, a->s, 2 * FL_HEAD_MOST }) > 0;
}

/* Elements of the packed result of 'attention', and below, of dq, dk and dv together. sizes_fit has
** checked that the products are below 2^63. */
static int64_t packed_size(const fl_attention *a, int dtype) {
  return a->b * a->h * a->t * (a->d2 + fl_lse_width(dtype));
}
static int64_t gradients_size(const fl_attention *a) {
  int64_t n;
  return __builtin_add_overflow(a->b * a->h * a->t * a->d, a->b * a->hk * a->s * (a->d + a->d2), &n)
         ? -1 : n;
}

/* Are the inputs from 'at' on a mask or none, and a key if it drops? Are the scalars there? */
static int rest_fits(const fl_call *call, const fl_attention *a, int at, int *mask) {
  const int key = call->nin - 1;
  if (call->nin < at + a->drops || call->nin > at + 1 + a->drops ||
      call->nscalar != 1 + a->drops ||
      (a->drops && (call->in_dtype[key] != FLAME_I64 || call->in_numel[key] != 2))) return 0;
  *mask = call->nin - a->drops == at ? FL_MASK_NONE : call->in_dtype[at] == FLAME_BOOL
          ? FL_MASK_BOOL : FL_MASK_FLOAT;
  return *mask == FL_MASK_NONE ||
         ((*mask == FL_MASK_BOOL || call->in_dtype[at] == call->dtype) &&
          inside(4, (const int64_t[]){ a->b, a->h, a->t, a->s }, a->ms, call->in_numel[at]));
}

static void set_strides(int64_t stride[3], int64_t b, int64_t h, int64_t row) {
  stride[0] = b;
  stride[1] = h;
  stride[2] = row;
}

fl_attention_results fl_attention_results_of(const fl_attention *a) {
  fl_attention_results r;
  const int64_t wide = (a->h + 2 * a->hk) * a->d;
  if (a->by_row) {
    set_strides(r.out, a->t * a->h * a->d, a->d, a->h * a->d);
    set_strides(r.dq, a->t * wide, a->d, wide);
    set_strides(r.dk, a->t * wide, a->d, wide);
    set_strides(r.dv, a->t * wide, a->d, wide);
    r.dk_at = a->h * a->d;
    r.dv_at = r.dk_at + a->hk * a->d;
    return r;
  }
  set_strides(r.out, a->h * a->t * a->d2, a->t * a->d2, a->d2);
  set_strides(r.dq, a->h * a->t * a->d, a->t * a->d, a->d);
  set_strides(r.dk, a->hk * a->s * a->d, a->s * a->d, a->d);
  set_strides(r.dv, a->hk * a->s * a->d2, a->s * a->d2, a->d2);
  r.dk_at = a->b * r.dq[0];
  r.dv_at = r.dk_at + a->b * r.dk[0];
  return r;
}

int fl_attention_read(const fl_call *call, fl_attention *a, int *mask) {
  const int back = call->kind == FL_CALL_attention_back, first = back ? 2 : 0;
  _Static_assert(sizeof(fl_attention) == FL_AP_COUNT * sizeof(int64_t),
                 "the integers of a call, in order");
  memcpy(a, call->p, sizeof *a);
  if (!sizes_fit(a) || !fl_is_float(call->dtype) || call->nin < first + 3) return 0;
  for (int i = 0; i < first + 3; i++) if (call->in_dtype[i] != call->dtype) return 0;
  if (!rows_inside(a->b, a->h, a->t, a->d, a->qs, call->in_numel[first]) ||
      !rows_inside(a->b, a->hk, a->s, a->d, a->ks, call->in_numel[first + 1]) ||
      !rows_inside(a->b, a->hk, a->s, a->d2, a->vs, call->in_numel[first + 2])) return 0;
  if (back && (!rows_inside(a->b, a->h, a->t, a->d2, a->gs, call->in_numel[0]) ||
               call->in_numel[1] != packed_size(a, call->dtype))) return 0;
  return call->numel == (back ? gradients_size(a) : packed_size(a, call->dtype)) &&
         rest_fits(call, a, first + 3, mask);
}

int fl_call_fits_attention(const fl_call *call) {
  fl_attention a;
  int mask;
  return fl_attention_read(call, &a, &mask);
}

int fl_call_fits_attention_back(const fl_call *call) { return fl_call_fits_attention(call); }
