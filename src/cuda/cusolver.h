/*
** cuSOLVER and cuBLAS, opened at run time (libcusolver.so.12 or .11, libcublas.so.13 or .12);
** without them calls on matrices go over the host. One handle of each for a device.
*/
#ifndef FL_CUDA_CUSOLVER_H
#define FL_CUDA_CUSOLVER_H
#include "cuda/state.h"

typedef unsigned fl_sol_status, fl_sol_type, fl_sol_op, fl_sol_fill, fl_sol_side, fl_sol_diag, fl_sol_mode;
typedef struct cusolverDnContext *fl_sol_handle;
typedef struct cusolverDnParams *fl_sol_params;
typedef struct gesvdjInfo *fl_sol_jacobi;
typedef struct cublasContext *fl_bla_handle;
typedef fl_cu_stream fl_sol_stream;
typedef void fl_sol_f32, fl_sol_f64;

enum {
  FL_SOL_OK = 0, FL_SOL_ALLOC_FAILED = 2, FL_BLA_ALLOC_FAILED = 3, FL_SOL_R_32F = 0, FL_SOL_R_64F = 1,
  FL_SOL_LOWER = 0, FL_SOL_UPPER = 1, FL_SOL_N = 0, FL_SOL_T = 1, FL_SOL_LEFT = 0, FL_SOL_RIGHT = 1,
  FL_SOL_DIAGONAL = 0, FL_SOL_UNIT = 1, FL_SOL_VALUES = 0, FL_SOL_VECTORS = 1
};

typedef struct fl_cusolver {
#define CUSOLVER(name, params, args) fl_sol_status (*name) params;
#define CUBLAS(name, params, args) fl_sol_status (*name) params;
#include "cuda/cusolver.def"
} fl_cusolver;

/* What a call needs of the libraries beside its own arrays; kept by its integers. */
typedef struct fl_solver_need { int64_t key[12], device, host; uint8_t known; } fl_solver_need;

enum { FL_SOLVER_NEEDS = 256 };
typedef struct fl_solver {
  const fl_cusolver *lib;                /* NULL: not there */
  fl_sol_handle handle;
  fl_sol_params params;
  fl_sol_jacobi jacobi;
  fl_bla_handle blas;
  fl_solver_need need[FL_SOLVER_NEEDS];  /* by hash, the last one wins */
} fl_solver;

/* Opened at first use; *out NULL: the libraries are missing. */
flame_status fl_solver_get(fl_cuda *s, fl_solver **out);
/* A status of either library as one of ours; name: of the function. */
flame_status fl_solver_check(fl_cuda *s, fl_sol_status r, const char *name);
flame_status fl_solver_check_blas(fl_cuda *s, fl_sol_status r, const char *name);
void fl_solver_close(fl_cuda *s, int host_only);
#endif
