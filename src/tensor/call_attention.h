/*
** Attention and its gradient as calls (steps with their own functions, call.h): their inputs, their
** results, and the integers (fl_attention) that tell sizes and layouts, with a reader of them.
**
**     attention       q, k, v [, mask] [, key] -> out (b, h, t, d2), then lse (b, h, t), packed
**     attention_back  dout, that result, q, k, v [, mask] [, key] -> dq, dk, dv, packed
** q is (b, h, t, d), k (b, hk, s, d), v (b, hk, s, d2). With x = scale q k' + mask, out is
** softmax(x) v along the keys of x, and lse is log(sum(exp(x))), NaN of a row that sees no key.
** Head i of q reads head i / (h / hk) of k and v. scalar[0].d: scale > 0.
** With 'drops' there is a key, of n_draw_key: element e, row-major over (b, h, t, s), of softmax(x)
** is multiplied by fl_attention_kept(p) if fl_uniform01_f32(e, base, seed) >= (float)p, else by 0;
** scalar[1].d: p. The gradients draw the same numbers.
** Results are row-major arrays one after another. With 'by_row' (t = s, d = d2) out is (b, t, h,
** d), and dq, dk, dv are one array (b, t, h + 2 hk, d): the layout of a product that makes q, k, v.
** The inputs q, k, v, dout and mask are ranges of memory that begin with element 0. Their strides,
** which are never negative, are integers of the call; the last axis of all but the mask has stride
** 1. An lse is an f32, which takes two elements of a half type, or one of f32; for f64 it is f64.
*/
#ifndef FL_TENSOR_CALL_ATTENTION_H
#define FL_TENSOR_CALL_ATTENTION_H
#include "tensor/call.h"

enum { FL_HEAD_MOST = 1024 };     /* most of d and d2: the size of scratch memory depends on them */
enum { FL_MASK_NONE, FL_MASK_BOOL, FL_MASK_FLOAT };
/* p: the first nine fields of fl_attention, then its qs, ks, vs, gs, ms, by_row and drops. */
enum { FL_AP_SIZES = 9, FL_AP_BY_ROW = FL_AP_SIZES + 16, FL_AP_DROPS, FL_AP_COUNT };
typedef struct fl_attention {
  int64_t b, h, hk, t, s, d, d2, causal;       /* causal: key j is seen by row i where j <= i */
  int64_t free;                           /* 1: gradients may differ in last bits between runs */
  /* strides of q, k, v and dout (gs) over (b, h, t) or (b, hk, s); of the mask over (b, h, t, s) */
  int64_t qs[3], ks[3], vs[3], gs[3], ms[4];
  int64_t by_row;                              /* layout of the results, see above */
  int64_t drops;                               /* 1: dropout, see above */
} fl_attention;

/* Layout of the results: strides over (b, h, t) or (b, hk, s) of out, dq, dk and dv, and the first
** elements of dk and dv. */
typedef struct fl_attention_results { int64_t out[3], dq[3], dk[3], dv[3], dk_at, dv_at; }
        fl_attention_results;
fl_attention_results fl_attention_results_of(const fl_attention *a);

/* 1 when the integers of either kind, dtypes and numbers of elements agree. *mask: FL_MASK_*. */
int fl_attention_read(const fl_call *call, fl_attention *a, int *mask);
/* The factor of elements that a dropout of p keeps. */
static inline double fl_attention_kept(double p) { return p < 1 ? 1 / (1 - p) : 0; }
/* Elements of lse for each row. */
static inline int64_t fl_lse_width(int dtype) {
  return dtype == FLAME_F16 || dtype == FLAME_BF16 ? 2 : 1;
}
#endif
