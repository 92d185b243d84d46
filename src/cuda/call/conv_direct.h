/*
** Convolutions of f32 by kernels/direct.cu, where cuDNN has no engine that is both exact and fast:
** depthwise ones with strides, and gradients of weights with three axes or few channels. The choice
** depends only on sizes, and for few channels on whether the call may be nondeterministic.
*/
#ifndef FL_CUDA_CONV_DIRECT_H
#define FL_CUDA_CONV_DIRECT_H
#include "cuda/call/call.h"
#include "tensor/call_conv.h"

/* Is this call computed here? */
int fl_direct_takes(const fl_call *c);
int64_t fl_direct_space(const fl_call *c);              /* bytes of scratch */
void fl_direct_want(fl_cuda *s, const fl_call *c);
flame_status fl_direct_run(fl_cuda *s, const fl_call_run *r);
#endif
