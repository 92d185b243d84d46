/* cuDNN's types, constants and entry points (cudnn.def); spec/c/check_cudnn.c
** compares them with its headers. */
#ifndef FL_CUDA_CUDNN_API_H
#define FL_CUDA_CUDNN_API_H
#include "cuda/api/api.h"

typedef void *fl_dnn_handle, *fl_dnn_item;
typedef fl_cu_stream fl_dnn_stream;
typedef unsigned fl_dnn_status, fl_dnn_kind, fl_dnn_name, fl_dnn_type, fl_dnn_property;

enum {                                          /* values of cuDNN's enumerations */
  FL_DNN_OK = 0, FL_DNN_F32 = 0, FL_DNN_F64 = 1, FL_DNN_F16 = 2, FL_DNN_I32 = 4, FL_DNN_BF16 = 9,
  FL_DNN_BOOL = 11, FL_DNN_CROSS_CORRELATION = 1, FL_DNN_MODE_A = 3, FL_DNN_MODE_FALLBACK = 2,
  /* modes of pointwise operations and of reductions */
  FL_DNN_ADD = 0, FL_DNN_MUL = 1, FL_DNN_DIV = 6, FL_DNN_SUB = 9, FL_DNN_EXP = 13, FL_DNN_LOG = 15,
  FL_DNN_IDENTITY = 21, FL_DNN_GE = 303, FL_DNN_INDEX = 501, FL_DNN_SELECT = 601,
  FL_DNN_SUM = 0, FL_DNN_MAX = 3,
  /* kinds of descriptors */
  FL_DNN_POINT_SPEC = 0, FL_DNN_CONVOLUTION = 1, FL_DNN_ENGINE = 2, FL_DNN_CONFIG = 3,
  FL_DNN_HEURISTIC = 4, FL_DNN_PLAN = 5, FL_DNN_FORWARD = 10, FL_DNN_BACKWARD_FILTER = 11,
  FL_DNN_BACKWARD_DATA = 12, FL_DNN_POINT = 13, FL_DNN_GRAPH = 15, FL_DNN_VALUES = 16,
  FL_DNN_TENSOR = 17, FL_DNN_MATMUL_SPEC = 18, FL_DNN_MATMUL = 19, FL_DNN_REDUCE_SPEC = 21,
  FL_DNN_REDUCE = 22, FL_DNN_RESHAPE = 31,
  /* types of attributes */
  FL_DNN_IS_HANDLE = 0, FL_DNN_IS_DTYPE = 1, FL_DNN_IS_BOOL = 2, FL_DNN_IS_I64 = 3,
  FL_DNN_IS_F32 = 4, FL_DNN_IS_F64 = 5, FL_DNN_IS_POINTER = 6, FL_DNN_IS_CONV_MODE = 7,
  FL_DNN_IS_HEUR_MODE = 8, FL_DNN_IS_NOTE = 11, FL_DNN_IS_POINT_MODE = 14, FL_DNN_IS_ITEM = 15,
  FL_DNN_IS_REDUCE_MODE = 18,
  /* attributes */
  FL_DNN_POINT_MODE = 0, FL_DNN_POINT_TYPE = 1, FL_DNN_POINT_AXIS = 9, FL_DNN_CONV_TYPE = 100,
  FL_DNN_CONV_MODE = 101, FL_DNN_CONV_DILATIONS = 102, FL_DNN_CONV_STRIDES = 103,
  FL_DNN_CONV_POST = 104, FL_DNN_CONV_PRE = 105, FL_DNN_CONV_AXES = 106,
  FL_DNN_HEUR_MODE = 200, FL_DNN_HEUR_GRAPH = 201, FL_DNN_HEUR_RESULTS = 202,
  FL_DNN_CONFIG_ENGINE = 300, FL_DNN_PLAN_HANDLE = 400, FL_DNN_PLAN_CONFIG = 401,
  FL_DNN_PLAN_SPACE = 402, FL_DNN_FORWARD_ALPHA = 700, FL_DNN_DATA_ALPHA = 706,
  FL_DNN_FILTER_ALPHA = 712, FL_DNN_POINT_HOW = 750, FL_DNN_POINT_X = 751, FL_DNN_POINT_B = 752,
  FL_DNN_POINT_Y = 753, FL_DNN_POINT_T = 758, FL_DNN_GRAPH_HANDLE = 800, FL_DNN_GRAPH_OPS = 801,
  FL_DNN_TENSOR_ALIGNMENT = 900, FL_DNN_TENSOR_TYPE = 901, FL_DNN_TENSOR_SIZES = 902,
  FL_DNN_TENSOR_STRIDES = 903, FL_DNN_TENSOR_ID = 906, FL_DNN_TENSOR_VIRTUAL = 907,
  FL_DNN_TENSOR_NUMBER = 908, FL_DNN_VALUES_IDS = 1000, FL_DNN_VALUES_POINTERS = 1001,
  FL_DNN_VALUES_SPACE = 1003, FL_DNN_ENGINE_NOTES = 1303, FL_DNN_MATMUL_TYPE = 1500,
  FL_DNN_MATMUL_A = 1520, FL_DNN_MATMUL_B = 1521, FL_DNN_MATMUL_C = 1522, FL_DNN_MATMUL_HOW = 1523,
  FL_DNN_REDUCE_MODE = 1600, FL_DNN_REDUCE_TYPE = 1601, FL_DNN_REDUCE_X = 1610,
  FL_DNN_REDUCE_Y = 1611, FL_DNN_REDUCE_HOW = 1612, FL_DNN_RESHAPE_X = 2200,
  FL_DNN_RESHAPE_Y = 2201,
  /* properties, numbers of a version */
  FL_DNN_MAJOR = 0, FL_DNN_MINOR = 1, FL_DNN_PATCH = 2,
  /* notes of an engine */
  FL_DNN_NOTE_TENSOR_CORE = 0, FL_DNN_NOTE_DOWN_CONVERT = 1, FL_DNN_NOTE_REDUCED = 2,
  FL_DNN_NOTE_NONDETERMINISTIC = 4,
  FL_DNN_FULL = ~0u >> 1                        /* our own status: too many descriptors */
};

typedef struct fl_cudnn {
#define DNN(name, params) fl_dnn_status (*name) params;
#include "cuda/api/cudnn.def"
} fl_cudnn;
#endif
