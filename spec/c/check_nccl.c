/*
** Compares NCCL's header, where a machine has it, with src/cuda/api/nccl.def and nccl_api.h.
** Nothing runs; the test is that this file compiles:
**   cc -std=c11 -D_GNU_SOURCE -Isrc -I<toolkit>/include -Werror -fsyntax-only spec/c/check_nccl.c
*/
#include <nccl.h>
#include <stddef.h>
#include "cuda/api/nccl_api.h"

#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #ours " is not " #theirs)
SAME(sizeof(fl_nccl_status), sizeof(ncclResult_t));
SAME(sizeof(fl_nccl_type), sizeof(ncclDataType_t));
SAME(sizeof(fl_nccl_op), sizeof(ncclRedOp_t));
SAME(sizeof(fl_nccl_id), sizeof(ncclUniqueId));
SAME(offsetof(fl_nccl_config, size), offsetof(ncclConfig_t, size));
SAME(offsetof(fl_nccl_config, magic), offsetof(ncclConfig_t, magic));
SAME(offsetof(fl_nccl_config, version), offsetof(ncclConfig_t, version));
SAME(offsetof(fl_nccl_config, blocking), offsetof(ncclConfig_t, blocking));
SAME(offsetof(fl_nccl_config, cluster), offsetof(ncclConfig_t, cgaClusterSize));
SAME(offsetof(fl_nccl_config, least), offsetof(ncclConfig_t, minCTAs));
SAME(offsetof(fl_nccl_config, most), offsetof(ncclConfig_t, maxCTAs));
SAME(offsetof(fl_nccl_config, net), offsetof(ncclConfig_t, netName));
SAME(offsetof(fl_nccl_config, split), offsetof(ncclConfig_t, splitShare));
_Static_assert(sizeof(fl_nccl_config) <= sizeof(ncclConfig_t), "a prefix");
SAME(FL_NCCL_VERSION, NCCL_VERSION(2, 18, 0));
SAME(FL_NCCL_UNSET, NCCL_CONFIG_UNDEF_INT);
SAME(FL_NCCL_OK, ncclSuccess);
SAME(FL_NCCL_CUDA, ncclUnhandledCudaError);
SAME(FL_NCCL_REMOTE, ncclRemoteError);
SAME(FL_NCCL_IN_PROGRESS, ncclInProgress);
SAME(FL_NCCL_SUM, ncclSum);
SAME(FL_NCCL_MAX, ncclMax);
SAME(FL_NCCL_MIN, ncclMin);
SAME(FL_NCCL_AVG, ncclAvg);
SAME(FL_NCCL_I8, ncclInt8);
SAME(FL_NCCL_U8, ncclUint8);
SAME(FL_NCCL_I32, ncclInt32);
SAME(FL_NCCL_I64, ncclInt64);
SAME(FL_NCCL_F16, ncclFloat16);
SAME(FL_NCCL_F32, ncclFloat32);
SAME(FL_NCCL_F64, ncclFloat64);
SAME(FL_NCCL_BF16, ncclBfloat16);
static const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
_Static_assert(FL_NCCL_MAGIC == 0xcafebeef, "the mark of NCCL_CONFIG_INITIALIZER");
const ncclConfig_t *check_initializer(void);
const ncclConfig_t *check_initializer(void) { return &theirs; }

/* Our parameter lists with the library's types. */
#define fl_nccl_id ncclUniqueId
#define fl_nccl_comm ncclComm_t
#define fl_nccl_config ncclConfig_t
#define fl_nccl_status ncclResult_t
#define fl_nccl_type ncclDataType_t
#define fl_nccl_op ncclRedOp_t
#define fl_nccl_stream cudaStream_t
#define NCCL(name, params, args) ncclResult_t (*check_##name) params = name;
#define NCCL_VALUE(type, name, params, args) type (*check_##name) params = name;
#include "cuda/api/nccl.def"
