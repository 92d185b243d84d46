/*
** Convolutions and pooling as calls: what their integers mean, read in one place by the
** checks (tensor/call_conv.c, call_pool.c) and by every device.
**
** A convolution is a sum of products of three tensors over one index space,
**     x (n, c, in…)   w (o, c / groups, k…)   y (n, o, out…)
**     y[n, o, i] = sum over c and k of x[n, c, i * stride - pad + k * dilation] w[o, c, k]
** with x zero outside. 'conv' makes y from x and w, 'conv_data' the gradient of x from that of y
** and w (which is also the transposed convolution), 'conv_weight' the gradient of w from that of y
** and x. The derivatives of these three are made of these three, to any order. 'out' may have any
** size: positions outside x read 0, and positions of x that no output reads get a gradient of
** 0. So padding before and after may differ, and any output_padding works. Always three axes;
** missing ones come first with size 1.
*/
#ifndef FL_TENSOR_CALL_CONV_H
#define FL_TENSOR_CALL_CONV_H
#include "tensor/call.h"

/* p: n c o groups, then in k out stride pad dilation with three numbers each. pad: padding before.
** p[FL_CONV_FREE] 1: the order of sums may differ between runs. */
enum { FL_CONV_FREE = 22 };
typedef struct fl_conv {
  int64_t n, c, o, groups;
  int64_t in[3], k[3], out[3], stride[3], pad[3], dil[3];
} fl_conv;

/* p: planes, in k out stride pad dilation, adaptive, count_include_pad, divisor (0: none).
** Windows of plane (n, c): from i * stride - pad, k long; adaptive: from floor(i * in / out) to
** ceil((i + 1) * in / out). */
typedef struct fl_pooling {
  int64_t planes;
  int64_t in[3], k[3], out[3], stride[3], pad[3], dil[3];
  int64_t adaptive, include_pad, divisor;
} fl_pooling;

/* 1 if all numbers are in range: sizes not negative, steps positive, nothing overflows. */
int fl_conv_read(const fl_call *call, fl_conv *s);
int fl_pooling_read(const fl_call *call, fl_pooling *s);
static inline int64_t fl_volume3(const int64_t s[3]) { return s[0] * s[1] * s[2]; }
#endif
