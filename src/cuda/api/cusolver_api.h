/* Types, constants and entry points of cuSOLVER and cuBLAS (cusolver.def); spec/c/check_cusolver.c
** compares them with their headers. */
#ifndef FL_CUDA_CUSOLVER_API_H
#define FL_CUDA_CUSOLVER_API_H
#include "cuda/api/api.h"

typedef unsigned fl_sol_status, fl_sol_type, fl_sol_op, fl_sol_fill, fl_sol_side, fl_sol_diag,
fl_sol_mode;
typedef struct cusolverDnContext *fl_sol_handle;
typedef struct cusolverDnParams *fl_sol_params;
typedef struct gesvdjInfo *fl_sol_jacobi;
typedef struct cublasContext *fl_bla_handle;
typedef fl_cu_stream fl_sol_stream;
typedef void fl_sol_f32, fl_sol_f64;

enum {
  FL_SOL_OK = 0, FL_SOL_ALLOC_FAILED = 2, FL_BLA_ALLOC_FAILED = 3, FL_SOL_R_32F = 0,
  FL_SOL_R_64F = 1, FL_SOL_LOWER = 0, FL_SOL_UPPER = 1, FL_SOL_N = 0, FL_SOL_T = 1, FL_SOL_LEFT = 0,
  FL_SOL_RIGHT = 1, FL_SOL_DIAGONAL = 0, FL_SOL_UNIT = 1, FL_SOL_VALUES = 0, FL_SOL_VECTORS = 1
};

typedef struct fl_cusolver {
#define CUSOLVER(name, params, args) fl_sol_status (*name) params;
#define CUBLAS(name, params, args) fl_sol_status (*name) params;
#include "cuda/api/cusolver.def"
} fl_cusolver;
#endif
