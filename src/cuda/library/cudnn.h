/*
** cuDNN, opened at run time (libcudnn.so.9); without it convolutions use kernels/conv.cu, and
** attention kernels/attention.cu. Engines are deterministic unless a call may be nondeterministic;
** f32 is computed without TF32, half types with sums in f32. Plans are kept by the call's integers.
** Hopper's tensor cores need channels last: kernels/turn.cu converts half types before and after,
** unless groups have few channels. cuDNN's own conversion takes twice the time.
*/
#ifndef FL_CUDA_CUDNN_H
#define FL_CUDA_CUDNN_H
#include "cuda/api/cudnn_api.h"
#include "cuda/driver/state.h"
#include "tensor/call_attention.h"
#include "tensor/call_conv.h"

typedef struct fl_dnn_plan fl_dnn_plan;
/* cuDNN's plan for this call; NULL: it has none (it is missing, has no engine, or can not express
** the shape). */
const fl_dnn_plan *fl_dnn_find(fl_cuda *s, const fl_call *c);
int64_t fl_dnn_space(const fl_dnn_plan *p);             /* bytes of scratch */
int fl_dnn_turns(const fl_dnn_plan *p);                 /* does it need kernels/turn.cu? */
flame_status fl_dnn_run(fl_cuda *s, const fl_dnn_plan *p, const fl_call_run *r);

/* cuDNN's plan for a call of attention, forward or backward, in half types on Hopper; NULL: it has
** none. */
const fl_dnn_plan *fl_dnn_attention(fl_cuda *s, const fl_call *c);
int64_t fl_dnn_attention_space(const fl_dnn_plan *p, const fl_call *c);
flame_status fl_dnn_attention_run(fl_cuda *s, const fl_dnn_plan *p, const fl_call_run *r);

void fl_dnn_close(fl_cuda *s, int host_only);
#endif
