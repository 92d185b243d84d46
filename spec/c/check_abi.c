/*
** Compares the signatures and constants of src/cuda/api/api.def and api.h with the toolkit's
** headers, where a machine has them. Nothing runs; that it compiles is the test:
**   cc -std=c11 -Isrc -I<toolkit>/include -Werror -fsyntax-only spec/c/check_abi.c
** (with -Werror wrong pointer types are errors). The macros give our names the toolkit's
** types, so that the parameter lists of api.def are checked word for word.
*/
#include <cuda.h>
#include <nvrtc.h>
#include <cublasLt.h>
#include "cuda/api/api.h"

#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #ours " is not " #theirs)
#define SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #ours " is not " #theirs)

SIZE(fl_cu_result, CUresult);
SIZE(fl_cu_device, CUdevice);
SIZE(fl_cu_ptr, CUdeviceptr);
SIZE(fl_rtc_result, nvrtcResult);
SIZE(fl_lt_status, cublasStatus_t);
SIZE(fl_lt_algo, cublasLtMatmulAlgo_t);
SIZE(fl_lt_found, cublasLtMatmulHeuristicResult_t);
#define FIELD(ours, theirs) \
  SAME(offsetof(fl_lt_found, ours), offsetof(cublasLtMatmulHeuristicResult_t, theirs))
FIELD(algo, algo);
FIELD(space, workspaceSize);
FIELD(state, state);
FIELD(waves, wavesCount);

SAME(FL_CU_OK, CUDA_SUCCESS);
SAME(FL_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(FL_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(FL_CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME(FL_CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
SAME(FL_CU_STUB, CUDA_ERROR_STUB_LIBRARY);
SAME(FL_CU_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME(FL_CU_NOT_LICENSED, CUDA_ERROR_DEVICE_NOT_LICENSED);
SAME(FL_CU_INVALID_PTX, CUDA_ERROR_INVALID_PTX);
SAME(FL_CU_UNSUPPORTED_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(FL_CU_OPERATING_SYSTEM, CUDA_ERROR_OPERATING_SYSTEM);
SAME(FL_CU_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED);
SAME(FL_CU_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_NOT_READY);
SAME(FL_CU_COMPAT, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
SAME(FL_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(FL_CU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
SAME(FL_CU_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
SAME(FL_CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME(FL_CU_NO_BINARY, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(FL_CU_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME(FL_CU_NVLINK_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME(FL_CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(FL_CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(FL_CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(FL_CU_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SAME(FL_CU_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(FL_CU_CONTEXT_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(FL_CU_ASSERT, CUDA_ERROR_ASSERT);
SAME(FL_CU_HARDWARE_STACK, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME(FL_CU_ILLEGAL_INSTRUCTION, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME(FL_CU_MISALIGNED_ADDRESS, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME(FL_CU_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME(FL_CU_INVALID_PC, CUDA_ERROR_INVALID_PC);
SAME(FL_CU_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
SAME(FL_CU_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(FL_CU_EXTERNAL_DEVICE, CUDA_ERROR_EXTERNAL_DEVICE);
SAME(FL_CU_UNKNOWN, CUDA_ERROR_UNKNOWN);
#if CUDA_VERSION >= 13000
SAME(FL_CU_CONTAINED, CUDA_ERROR_CONTAINED);
SAME(FL_CU_TENSOR_MEMORY_LEAK, CUDA_ERROR_TENSOR_MEMORY_LEAK);
#endif
SAME(FL_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(FL_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(FL_CU_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(FL_CU_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(FL_CU_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(FL_CU_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(FL_CU_SHARED_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(FL_CU_FUNC_DYNAMIC_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(FL_RTC_OK, NVRTC_SUCCESS);
SAME(FL_RTC_OUT_OF_MEMORY, NVRTC_ERROR_OUT_OF_MEMORY);
SAME(FL_RTC_COMPILATION, NVRTC_ERROR_COMPILATION);
SAME(FL_LT_OK, CUBLAS_STATUS_SUCCESS);
SAME(FL_LT_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
SAME(FL_LT_EXECUTION_FAILED, CUBLAS_STATUS_EXECUTION_FAILED);
SAME(FL_LT_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(FL_LT_OP_N, CUBLAS_OP_N);
SAME(FL_LT_OP_T, CUBLAS_OP_T);
SAME(FL_LT_R_32F, CUDA_R_32F);
SAME(FL_LT_R_64F, CUDA_R_64F);
SAME(FL_LT_R_16F, CUDA_R_16F);
SAME(FL_LT_R_16BF, CUDA_R_16BF);
SAME(FL_LT_COMPUTE_32F, CUBLAS_COMPUTE_32F);
SAME(FL_LT_COMPUTE_64F, CUBLAS_COMPUTE_64F);
SAME(FL_LT_COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(FL_LT_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(FL_LT_TRANSB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(FL_LT_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(FL_LT_BIAS, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(FL_LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME(FL_LT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(FL_LT_BATCH_STRIDE, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(FL_LT_PREF_SPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(FL_LT_PREF_REDUCTION, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(FL_LT_PREF_ALIGN_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(FL_LT_PREF_ALIGN_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(FL_LT_PREF_ALIGN_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(FL_LT_PREF_ALIGN_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(FL_LT_REDUCTION_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);

/* The symbols that the toolkit's macros choose for a plain name must be those that flame loads. */
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define SYMBOL(plain, ours) \
  _Static_assert(!__builtin_strcmp(TEXT(plain), ours), ours " is not current")
SYMBOL(cuDeviceTotalMem, "cuDeviceTotalMem_v2");
SYMBOL(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId");
SYMBOL(cuMemAlloc, "cuMemAlloc_v2");
SYMBOL(cuMemFree, "cuMemFree_v2");
SYMBOL(cuMemGetInfo, "cuMemGetInfo_v2");
SYMBOL(cuMemHostAlloc, "cuMemHostAlloc");
SYMBOL(cuMemFreeHost, "cuMemFreeHost");
SYMBOL(cuCtxPushCurrent, "cuCtxPushCurrent_v2");
SYMBOL(cuCtxPopCurrent, "cuCtxPopCurrent_v2");
SYMBOL(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
SYMBOL(cuStreamCreate, "cuStreamCreate");
SYMBOL(cuStreamDestroy, "cuStreamDestroy_v2");
SYMBOL(cuEventCreate, "cuEventCreate");
SYMBOL(cuEventDestroy, "cuEventDestroy_v2");
SYMBOL(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
SYMBOL(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
SYMBOL(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2");
SYMBOL(cuMemsetD8Async, "cuMemsetD8Async");
SYMBOL(cuModuleLoadData, "cuModuleLoadData");
SYMBOL(cuModuleGetFunction, "cuModuleGetFunction");
SYMBOL(cuFuncGetAttribute, "cuFuncGetAttribute");
SYMBOL(cuFuncSetAttribute, "cuFuncSetAttribute");
SYMBOL(cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
SYMBOL(cuLaunchKernel, "cuLaunchKernel");

/* Signatures: our parameter lists are compiled with the toolkit's types, and its functions are
** assigned to pointers with these lists. */
#define fl_cu_result CUresult
#define fl_cu_device CUdevice
#define fl_cu_ptr CUdeviceptr
#define fl_cu_context CUcontext
#define fl_cu_stream CUstream
#define fl_cu_event CUevent
#define fl_cu_module CUmodule
#define fl_cu_function CUfunction
#define fl_rtc_result nvrtcResult
#define fl_rtc_program nvrtcProgram
#define fl_lt_status cublasStatus_t
#define fl_lt_handle cublasLtHandle_t
#define fl_lt_desc cublasLtMatmulDesc_t
#define fl_lt_layout cublasLtMatrixLayout_t
#define fl_lt_preference cublasLtMatmulPreference_t
#define fl_lt_algo cublasLtMatmulAlgo_t
#define fl_lt_found cublasLtMatmulHeuristicResult_t
struct driver_signatures {
#define DRIVER(name, symbol, params, args) CUresult (*name) params;
#include "cuda/api/api.def"
};
const struct driver_signatures driver_signatures = {
  .Init = cuInit, .DriverGetVersion = cuDriverGetVersion, .GetErrorName = cuGetErrorName,
  .GetErrorString = cuGetErrorString, .DeviceGetCount = cuDeviceGetCount, .DeviceGet = cuDeviceGet,
  .DeviceGetName = cuDeviceGetName, .DeviceGetAttribute = cuDeviceGetAttribute,
  .DeviceTotalMem = cuDeviceTotalMem, .DeviceGetPCIBusId = cuDeviceGetPCIBusId,
  .PrimaryRetain = cuDevicePrimaryCtxRetain, .PrimaryRelease = cuDevicePrimaryCtxRelease,
  .CtxPush = cuCtxPushCurrent, .CtxPop = cuCtxPopCurrent, .StreamCreate = cuStreamCreate,
  .StreamDestroy = cuStreamDestroy, .StreamSynchronize = cuStreamSynchronize,
  .EventCreate = cuEventCreate, .EventDestroy = cuEventDestroy, .EventRecord = cuEventRecord,
  .EventQuery = cuEventQuery, .MemAlloc = cuMemAlloc, .MemFree = cuMemFree,
  .MemGetInfo = cuMemGetInfo, .HostAlloc = cuMemHostAlloc, .HostFree = cuMemFreeHost,
  .CopyIn = cuMemcpyHtoDAsync, .CopyOut = cuMemcpyDtoHAsync, .CopyOn = cuMemcpyDtoDAsync,
  .Memset8 = cuMemsetD8Async, .ModuleLoadData = cuModuleLoadData, .ModuleUnload = cuModuleUnload,
  .ModuleGetFunction = cuModuleGetFunction, .FuncSetAttribute = cuFuncSetAttribute,
  .FuncGetAttribute = cuFuncGetAttribute,
  .Occupancy = cuOccupancyMaxActiveBlocksPerMultiprocessor,
  .LaunchKernel = cuLaunchKernel, .LaunchCooperative = cuLaunchCooperativeKernel
};
#define NVRTC(name, params, args) nvrtcResult (*const check_##name) params = name;
#define NVRTC_VALUE(type, name, params, args) type (*const check_##name) params = name;
#include "cuda/api/api.def"
#define BLASLT(name, params, args) cublasStatus_t (*const check_##name) params = name;
#define BLASLT_VALUE(type, name, params, args) type (*const check_##name) params = name;
#include "cuda/api/api.def"
