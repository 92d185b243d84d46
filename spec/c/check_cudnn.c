/*
** cuDNN's headers, where a machine has them, against src/cuda/cudnn.def and cudnn.h. Nothing
** runs; that it compiles is the test:
**   cc -std=c11 -Isrc -I<toolkit>/include -Werror -Wno-deprecated-declarations -fsyntax-only spec/c/check_cudnn.c
*/
#include <cudnn.h>
#include <stddef.h>
#include "cuda/cudnn.h"

#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #ours " is not " #theirs)
SAME(FL_DNN_OK, CUDNN_STATUS_SUCCESS);
SAME(FL_DNN_F32, CUDNN_DATA_FLOAT);
SAME(FL_DNN_F64, CUDNN_DATA_DOUBLE);
SAME(FL_DNN_F16, CUDNN_DATA_HALF);
SAME(FL_DNN_BF16, CUDNN_DATA_BFLOAT16);
SAME(FL_DNN_NCHW, CUDNN_TENSOR_NCHW);
SAME(FL_DNN_CROSS_CORRELATION, CUDNN_CROSS_CORRELATION);
SAME(FL_DNN_TENSOR_OP, CUDNN_TENSOR_OP_MATH);
SAME(FL_DNN_FMA, CUDNN_FMA_MATH);
SAME(FL_DNN_DETERMINISTIC, CUDNN_DETERMINISTIC);
#define PERF(type) \
  SAME(sizeof(fl_dnn_perf), sizeof(type)); \
  SAME(offsetof(fl_dnn_perf, algo), offsetof(type, algo)); \
  SAME(offsetof(fl_dnn_perf, status), offsetof(type, status)); \
  SAME(offsetof(fl_dnn_perf, memory), offsetof(type, memory)); \
  SAME(offsetof(fl_dnn_perf, deterministic), offsetof(type, determinism)); \
  SAME(offsetof(fl_dnn_perf, math), offsetof(type, mathType))
PERF(cudnnConvolutionFwdAlgoPerf_t);
PERF(cudnnConvolutionBwdDataAlgoPerf_t);
PERF(cudnnConvolutionBwdFilterAlgoPerf_t);

/* Our parameter lists with the library's types. */
#define fl_dnn_handle cudnnHandle_t
#define fl_dnn_stream cudaStream_t
#define fl_dnn_tensor cudnnTensorDescriptor_t
#define fl_dnn_filter cudnnFilterDescriptor_t
#define fl_dnn_conv cudnnConvolutionDescriptor_t
#define fl_dnn_type cudnnDataType_t
#define fl_dnn_format cudnnTensorFormat_t
#define fl_dnn_mode cudnnConvolutionMode_t
#define fl_dnn_math cudnnMathType_t
#define fl_dnn_algo_y cudnnConvolutionFwdAlgo_t
#define fl_dnn_algo_x cudnnConvolutionBwdDataAlgo_t
#define fl_dnn_algo_w cudnnConvolutionBwdFilterAlgo_t
#define fl_dnn_perf_y cudnnConvolutionFwdAlgoPerf_t
#define fl_dnn_perf_x cudnnConvolutionBwdDataAlgoPerf_t
#define fl_dnn_perf_w cudnnConvolutionBwdFilterAlgoPerf_t
#define DNN(name, params) cudnnStatus_t (*check_##name) params = name;
#include "cuda/cudnn.def"
