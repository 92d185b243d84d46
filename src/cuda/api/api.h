/*
** What we know of the CUDA libraries: the types, constants and tables of the entry points in
** api.def, so that no toolkit is needed to build. spec/c/check_abi.c compares all of it with
** the toolkit's headers where there are any.
** Handles are pointers to the libraries' own incomplete structs, or void * (cuBLASLt).
*/
#ifndef FL_CUDA_API_H
#define FL_CUDA_API_H
#include <stddef.h>
#include <stdint.h>

typedef unsigned fl_cu_result;
typedef int fl_cu_device;
typedef unsigned long long fl_cu_ptr;
typedef struct CUctx_st *fl_cu_context;
typedef struct CUstream_st *fl_cu_stream;
typedef struct CUevent_st *fl_cu_event;
typedef struct CUmod_st *fl_cu_module;
typedef struct CUfunc_st *fl_cu_function;
typedef struct CUgraph_st *fl_cu_graph;
typedef struct CUgraphNode_st *fl_cu_graph_node;
typedef struct CUgraphExec_st *fl_cu_graph_exec;
typedef struct fl_cu_kernel_node {      /* CUDA_KERNEL_NODE_PARAMS: a launch as a node of a graph */
  fl_cu_function function;
  unsigned grid[3], block[3], shared;
  void **params, **extra;
  void *kernel, *context;               /* NULL for a kernel given as a function */
} fl_cu_kernel_node;

typedef unsigned fl_rtc_result;
typedef struct _nvrtcProgram *fl_rtc_program;

typedef unsigned fl_lt_status;
typedef void *fl_lt_handle, *fl_lt_desc, *fl_lt_layout, *fl_lt_preference;
typedef struct fl_lt_algo { uint64_t data[8]; } fl_lt_algo;
typedef struct fl_lt_found {            /* cublasLtMatmulHeuristicResult_t: one suggestion */
  fl_lt_algo algo;
  size_t space;                         /* workspace bytes it needs */
  fl_lt_status state;
  float waves;
  int reserved[4];
} fl_lt_found;

enum {                                  /* results of the driver that the code treats as special
                                        ** cases */
  FL_CU_OK = 0, FL_CU_INVALID_VALUE = 1, FL_CU_OUT_OF_MEMORY = 2, FL_CU_NOT_INITIALIZED = 3,
  FL_CU_DEINITIALIZED = 4, FL_CU_STUB = 34, FL_CU_UNAVAILABLE = 46, FL_CU_NO_DEVICE = 100,
  FL_CU_INVALID_DEVICE = 101, FL_CU_NOT_LICENSED = 102, FL_CU_INVALID_PTX = 218,
  FL_CU_UNSUPPORTED_PTX = 222, FL_CU_OPERATING_SYSTEM = 304, FL_CU_NOT_PERMITTED = 800,
  FL_CU_SYSTEM_NOT_READY = 802, FL_CU_COMPAT = 804, FL_CU_INVALID_IMAGE = 200,
  FL_CU_INVALID_CONTEXT = 201, FL_CU_NO_BINARY = 209,
  FL_CU_ECC_UNCORRECTABLE = 214, FL_CU_NVLINK_UNCORRECTABLE = 220, FL_CU_CONTAINED = 226,
  FL_CU_NOT_FOUND = 500, FL_CU_NOT_READY = 600, FL_CU_ILLEGAL_ADDRESS = 700,
  FL_CU_LAUNCH_OUT_OF_RESOURCES = 701, FL_CU_LAUNCH_TIMEOUT = 702,
  FL_CU_CONTEXT_DESTROYED = 709, FL_CU_ASSERT = 710, FL_CU_HARDWARE_STACK = 714,
  FL_CU_ILLEGAL_INSTRUCTION = 715, FL_CU_MISALIGNED_ADDRESS = 716,
  FL_CU_INVALID_ADDRESS_SPACE = 717, FL_CU_INVALID_PC = 718, FL_CU_LAUNCH_FAILED = 719,
  FL_CU_TENSOR_MEMORY_LEAK = 721, FL_CU_DRIVER_MISMATCH = 803, FL_CU_EXTERNAL_DEVICE = 911,
  FL_CU_UNKNOWN = 999
};
enum {                                  /* flags and attributes of the driver */
  FL_CU_STREAM_NON_BLOCKING = 1, FL_CU_EVENT_DISABLE_TIMING = 2, FL_CU_EVENT_OUTSIDE = 1,
  FL_CU_HOST_PORTABLE = 1,
  FL_CU_MULTIPROCESSORS = 16, FL_CU_MAJOR = 75, FL_CU_MINOR = 76, FL_CU_SHARED_OPTIN = 97,
  FL_CU_FUNC_DYNAMIC_SHARED = 8
};
enum { FL_RTC_OK = 0, FL_RTC_OUT_OF_MEMORY = 1, FL_RTC_COMPILATION = 6 };
enum {
  FL_LT_OK = 0, FL_LT_ALLOC_FAILED = 3, FL_LT_EXECUTION_FAILED = 13, FL_LT_NOT_SUPPORTED = 15,
  FL_LT_OP_N = 0, FL_LT_OP_T = 1, FL_LT_R_32F = 0, FL_LT_R_64F = 1, FL_LT_R_16F = 2,
  FL_LT_R_16BF = 14, FL_LT_COMPUTE_32F = 68, FL_LT_COMPUTE_64F = 70, FL_LT_COMPUTE_TF32 = 77,
  FL_LT_TRANSA = 3, FL_LT_EPILOGUE = 7, FL_LT_BIAS = 8, FL_LT_EPILOGUE_BIAS = 4,
  FL_LT_TRANSB = 4, FL_LT_BATCH_COUNT = 5, FL_LT_BATCH_STRIDE = 6, FL_LT_PREF_SPACE = 1,
  FL_LT_PREF_REDUCTION = 3, FL_LT_PREF_ALIGN_A = 5, FL_LT_PREF_ALIGN_B = 6,
  FL_LT_PREF_ALIGN_C = 7, FL_LT_PREF_ALIGN_D = 8,
  FL_LT_REDUCTION_COMPUTE_TYPE = 2
};

typedef struct fl_driver {
#define DRIVER(name, symbol, params, args) fl_cu_result (*name) params;
#define DRIVER_MAYBE(name, symbol, params, args) fl_cu_result (*name) params;
#include "cuda/api/api.def"
} fl_driver;
typedef struct fl_nvrtc {
#define NVRTC(name, params, args) fl_rtc_result (*name) params;
#define NVRTC_VALUE(type, name, params, args) type (*name) params;
#include "cuda/api/api.def"
} fl_nvrtc;
typedef struct fl_blaslt {
#define BLASLT(name, params, args) fl_lt_status (*name) params;
#define BLASLT_VALUE(type, name, params, args) type (*name) params;
#include "cuda/api/api.def"
} fl_blaslt;

/* Functions that give a context its tables. Each opens its library at the first call; if that fails
** it returns NULL with the reason, a static text that names what is missing and what to install. */
typedef struct fl_cuda_lib {
  const fl_driver *(*driver)(const char **reason);
  const fl_nvrtc *(*nvrtc)(const char **reason);
  const fl_blaslt *(*blaslt)(const char **reason);
  const struct fl_cufft *(*fft)(const char **reason);           /* cufft_api.h */
  const struct fl_cusolver *(*solver)(const char **reason);     /* cusolver_api.h, with cuBLAS */
  const struct fl_cudnn *(*dnn)(const char **reason);    /* cudnn_api.h; in tests also NULL */
  const struct fl_nvml *(*ml)(const char **reason);       /* nvml_api.h; in tests also NULL */
  const struct fl_nccl_api *(*nccl)(const char **reason); /* nccl_api.h; in tests also NULL */
} fl_cuda_lib;
extern const fl_cuda_lib fl_cuda_libraries;      /* the real ones, by dlopen */
/* name: "driver", "nvrtc", "cublaslt", "cublas", "cufft", "cusolver", "cudnn", "nccl" or "nvml".
** Opens that library, unless it is open. Returns 1 and writes its path to text; or, if it can not
** be opened, returns 0 and writes the reason, what to do (after FL_DO), and the files that were
** looked for. */
int fl_cuda_library_place(const char *name, char *text, size_t size);
/* Finds a function of the library that is not in a table; *out (a function pointer) is NULL if it
** does not exist. */
void fl_cuda_library_function(const char *name, const char *symbol, void *out);
#endif
