/*
** Compares NVML's header, where a machine has it, with src/cuda/api/nvml.def and nvml_api.h.
** Nothing runs; the test is that this file compiles:
**   cc -std=c11 -Isrc -I<toolkit>/include -Werror -fsyntax-only spec/c/check_nvml.c
*/
#include <nvml.h>
#include <stddef.h>
#include "cuda/api/nvml_api.h"

#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #ours " is not " #theirs)
SAME(sizeof(fl_ml_status), sizeof(nvmlReturn_t));
SAME(sizeof(fl_ml_memory), sizeof(nvmlMemory_t));
SAME(offsetof(fl_ml_memory, total), offsetof(nvmlMemory_t, total));
SAME(offsetof(fl_ml_memory, free), offsetof(nvmlMemory_t, free));
SAME(offsetof(fl_ml_memory, used), offsetof(nvmlMemory_t, used));
SAME(sizeof(fl_ml_process), sizeof(nvmlProcessInfo_t));
SAME(offsetof(fl_ml_process, pid), offsetof(nvmlProcessInfo_t, pid));
SAME(offsetof(fl_ml_process, bytes), offsetof(nvmlProcessInfo_t, usedGpuMemory));
SAME(offsetof(fl_ml_process, instance), offsetof(nvmlProcessInfo_t, gpuInstanceId));
SAME(offsetof(fl_ml_process, compute_instance), offsetof(nvmlProcessInfo_t, computeInstanceId));
SAME(sizeof(unsigned), sizeof(nvmlMemoryErrorType_t));
SAME(sizeof(unsigned), sizeof(nvmlEccCounterType_t));
SAME(FL_ML_OK, NVML_SUCCESS);
SAME(FL_ML_TOO_SMALL, NVML_ERROR_INSUFFICIENT_SIZE);
SAME(FL_ML_MIG, NVML_DEVICE_MIG_ENABLE);
SAME(FL_ML_UNCORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
SAME(FL_ML_SINCE_LOAD, NVML_VOLATILE_ECC);

/* The symbols that the header's macros choose for a plain name must be those that flame
** loads. */
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define SYMBOL(plain, ours) \
  _Static_assert(!__builtin_strcmp(TEXT(plain), ours), ours " is not current")
SYMBOL(nvmlInit, "nvmlInit_v2");
SYMBOL(nvmlDeviceGetHandleByPciBusId, "nvmlDeviceGetHandleByPciBusId_v2");
SYMBOL(nvmlDeviceGetComputeRunningProcesses, "nvmlDeviceGetComputeRunningProcesses_v3");

/* Our parameter lists are compiled with NVML's types, and its functions are assigned to pointers
** with these lists. Where NVML has an enum, our lists have an unsigned number. */
#define fl_ml_device nvmlDevice_t
#define fl_ml_memory nvmlMemory_t
#define fl_ml_process nvmlProcessInfo_t
#define NVML(name, params, args) nvmlReturn_t (*check_##name) params = name;
#include "cuda/api/nvml.def"
