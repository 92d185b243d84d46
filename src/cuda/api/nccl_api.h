/* NCCL's types, constants and entry points (nccl.def); spec/c/check_nccl.c compares them with its
** header. */
#ifndef FL_CUDA_NCCL_API_H
#define FL_CUDA_NCCL_API_H
#include "cuda/api/api.h"
#include <limits.h>

typedef unsigned fl_nccl_status, fl_nccl_type, fl_nccl_op;
typedef struct ncclComm *fl_nccl_comm;
typedef fl_cu_stream fl_nccl_stream;
typedef struct fl_nccl_id { char at[128]; } fl_nccl_id;

/* ncclConfig_t of version 2.18, whose fields have the names cgaClusterSize, minCTAs, maxCTAs,
** netName and splitShare; a later library sets later fields itself. Unset fields are
** FL_NCCL_UNSET. */
typedef struct fl_nccl_config {
  size_t size;
  unsigned magic, version;
  int blocking, cluster, least, most;
  const char *net;
  int split, spare;
} fl_nccl_config;

enum {
  FL_NCCL_OK = 0, FL_NCCL_CUDA = 1, FL_NCCL_REMOTE = 6, FL_NCCL_IN_PROGRESS = 7,
  FL_NCCL_SUM = 0, FL_NCCL_MAX = 2, FL_NCCL_MIN = 3, FL_NCCL_AVG = 4,
  FL_NCCL_I8 = 0, FL_NCCL_U8 = 1, FL_NCCL_I32 = 2, FL_NCCL_I64 = 4, FL_NCCL_F16 = 6,
  FL_NCCL_F32 = 7, FL_NCCL_F64 = 8, FL_NCCL_BF16 = 9,
  FL_NCCL_UNSET = INT_MIN, FL_NCCL_VERSION = 21800
};
#define FL_NCCL_MAGIC 0xcafebeefu

typedef struct fl_nccl_api {
#define NCCL(name, params, args) fl_nccl_status (*name) params;
#define NCCL_VALUE(type, name, params, args) type (*name) params;
#include "cuda/api/nccl.def"
} fl_nccl_api;
#endif
