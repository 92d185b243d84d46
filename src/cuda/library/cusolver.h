/*
** cuSOLVER and cuBLAS, opened at run time (libcusolver.so.12 or .11, libcublas.so.13 or .12);
** without them calls on matrices run on the host. A device has one handle of each.
*/
#ifndef FL_CUDA_CUSOLVER_H
#define FL_CUDA_CUSOLVER_H
#include "cuda/api/cusolver_api.h"
#include "cuda/driver/state.h"

/* The memory that a call needs for the libraries, in addition to its own arrays; kept under the
** call's integers. */
typedef struct fl_solver_need { int64_t key[12], device, host; uint8_t known; } fl_solver_need;

enum { FL_SOLVER_NEEDS = 256 };
typedef struct fl_solver {
  const fl_cusolver *lib;                /* NULL: not there */
  fl_sol_handle handle;
  fl_sol_params params;
  fl_sol_jacobi jacobi;
  fl_bla_handle blas;
  /* at the hash of the key: the answer for a call replaces that of an earlier one with the same
  ** hash */
  fl_solver_need need[FL_SOLVER_NEEDS];
} fl_solver;

/* Opened at first use; *out NULL: the libraries are missing. */
flame_status fl_solver_get(fl_cuda *s, fl_solver **out);
/* Converts a status of either library to one of ours; name: the library function's. */
flame_status fl_solver_check(fl_cuda *s, fl_sol_status r, const char *name);
flame_status fl_solver_check_blas(fl_cuda *s, fl_sol_status r, const char *name);
void fl_solver_close(fl_cuda *s, int host_only);
#endif
