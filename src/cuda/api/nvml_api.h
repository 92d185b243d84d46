/* NVML's types, for the entry points of nvml.def. */
#ifndef FL_CUDA_NVML_API_H
#define FL_CUDA_NVML_API_H

typedef unsigned fl_ml_status;
typedef struct nvmlDevice_st *fl_ml_device;
typedef struct fl_ml_memory { unsigned long long total, free, used; } fl_ml_memory;
typedef struct fl_ml_process {
  unsigned pid;
  unsigned long long bytes;             /* ~0: not known */
  unsigned instance, compute_instance;  /* of MIG */
} fl_ml_process;
enum { FL_ML_OK = 0, FL_ML_TOO_SMALL = 7 };             /* status */
/* MIG mode that is on; the kind, and the period, of the ECC errors that are counted. */
enum { FL_ML_MIG = 1, FL_ML_UNCORRECTED = 1, FL_ML_SINCE_LOAD = 0 };

typedef struct fl_nvml {
#define NVML(name, params, args) fl_ml_status (*name) params;
#include "cuda/api/nvml.def"
} fl_nvml;
#endif
