/*
** Compares the headers of cuSOLVER and cuBLAS, where a machine has them, with the declarations in
** src/cuda/api/cusolver.def and cusolver.h. Nothing runs; the test is that this file compiles:
**   cc -std=c11 -D_GNU_SOURCE -Isrc -I<toolkit>/include -Werror -fsyntax-only
**   spec/c/check_cusolver.c
*/
#include <cublas_v2.h>
#include <cusolverDn.h>
#include "cuda/api/cusolver_api.h"

#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #ours " is not " #theirs)
_Static_assert(sizeof(fl_sol_status) == sizeof(cusolverStatus_t), "a status");
_Static_assert(sizeof(fl_sol_status) == sizeof(cublasStatus_t), "a status of cuBLAS");
_Static_assert(sizeof(fl_sol_type) == sizeof(cudaDataType), "a type");
_Static_assert(sizeof(fl_sol_fill) == sizeof(cublasFillMode_t), "a flag");
_Static_assert(sizeof(fl_sol_mode) == sizeof(cusolverEigMode_t), "a mode");
SAME(FL_SOL_OK, CUSOLVER_STATUS_SUCCESS);
SAME(FL_SOL_OK, CUBLAS_STATUS_SUCCESS);
SAME(FL_SOL_ALLOC_FAILED, CUSOLVER_STATUS_ALLOC_FAILED);
SAME(FL_BLA_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
SAME(FL_SOL_R_32F, CUDA_R_32F);
SAME(FL_SOL_R_64F, CUDA_R_64F);
SAME(FL_SOL_LOWER, CUBLAS_FILL_MODE_LOWER);
SAME(FL_SOL_UPPER, CUBLAS_FILL_MODE_UPPER);
SAME(FL_SOL_N, CUBLAS_OP_N);
SAME(FL_SOL_T, CUBLAS_OP_T);
SAME(FL_SOL_LEFT, CUBLAS_SIDE_LEFT);
SAME(FL_SOL_RIGHT, CUBLAS_SIDE_RIGHT);
SAME(FL_SOL_DIAGONAL, CUBLAS_DIAG_NON_UNIT);
SAME(FL_SOL_UNIT, CUBLAS_DIAG_UNIT);
SAME(FL_SOL_VALUES, CUSOLVER_EIG_MODE_NOVECTOR);
SAME(FL_SOL_VECTORS, CUSOLVER_EIG_MODE_VECTOR);

/* Our parameter lists with the libraries' types. */
#define fl_sol_handle cusolverDnHandle_t
#define fl_sol_params cusolverDnParams_t
#define fl_sol_jacobi gesvdjInfo_t
#define fl_sol_stream cudaStream_t
#define fl_sol_type cudaDataType
#define fl_sol_op cublasOperation_t
#define fl_sol_fill cublasFillMode_t
#define fl_sol_side cublasSideMode_t
#define fl_sol_diag cublasDiagType_t
#define fl_sol_mode cusolverEigMode_t
#define fl_sol_f32 float
#define fl_sol_f64 double
#define fl_bla_handle cublasHandle_t
#define CUSOLVER(name, params, args) cusolverStatus_t (*check_##name) params = name;
#define CUBLAS(name, params, args) cublasStatus_t (*check_##name) params = name;
#include "cuda/api/cusolver.def"
