/*
** cuDNN, opened at run time (libcudnn.so.9); a machine without it convolves by kernels/conv.cu.
** Algorithms are deterministic ones, f32 without TF32. Descriptors and the algorithm of a
** call are kept by its integers.
*/
#ifndef FL_CUDA_CUDNN_H
#define FL_CUDA_CUDNN_H
#include "cuda/state.h"
#include "tensor/call_conv.h"

typedef void *fl_dnn_handle, *fl_dnn_tensor, *fl_dnn_filter, *fl_dnn_conv;
typedef fl_cu_stream fl_dnn_stream;
typedef unsigned fl_dnn_status, fl_dnn_type, fl_dnn_format, fl_dnn_mode, fl_dnn_math;
typedef unsigned fl_dnn_algo_y, fl_dnn_algo_x, fl_dnn_algo_w;
typedef struct fl_dnn_perf {            /* one answer of the heuristic; the same for all three */
  unsigned algo, status;
  float time;
  size_t memory;
  unsigned deterministic, math;
  int reserved[3];
} fl_dnn_perf;
typedef fl_dnn_perf fl_dnn_perf_y, fl_dnn_perf_x, fl_dnn_perf_w;

enum {
  FL_DNN_OK = 0, FL_DNN_F32 = 0, FL_DNN_F64 = 1, FL_DNN_F16 = 2, FL_DNN_BF16 = 9,
  FL_DNN_NCHW = 0, FL_DNN_CROSS_CORRELATION = 1, FL_DNN_TENSOR_OP = 1, FL_DNN_FMA = 3, FL_DNN_DETERMINISTIC = 1
};

typedef struct fl_dnn_plan fl_dnn_plan;
/* How cuDNN does this call; NULL: it does not (not there, no algorithm, a shape it has no words for). */
const fl_dnn_plan *fl_dnn_find(fl_cuda *s, const fl_call *c);
int64_t fl_dnn_space(const fl_dnn_plan *p);             /* bytes of workspace */
flame_status fl_dnn_run(fl_cuda *s, const fl_dnn_plan *p, const fl_call_run *r);
void fl_dnn_close(fl_cuda *s, int host_only);
#endif
