/*
** Device memory, cached: segments from the driver are cut into blocks, freed blocks merge with free
** neighbours and serve later requests. All use is on one stream, so a freed block may be handed out
** again immediately: its next user is queued after its last. (That stream waits for NCCL's before
** what a collective uses is freed.)
*/
#ifndef FL_CUDA_POOL_H
#define FL_CUDA_POOL_H
#include "base/mem.h"
#include "cuda/api/api.h"

enum { FL_POOL_BINS = 320 };

typedef struct fl_block fl_block;
typedef struct fl_pool {
  fl_mem *mem;
  const fl_driver *cu;
  fl_cu_stream stream;
  int cached;                     /* 0: one driver allocation per buffer (FLAME_POOL=0) */
  fl_slab blocks;
  fl_block **table;               /* blocks in use, by address */
  int64_t ntable, nused;
  fl_level reserved, used;     /* bytes allocated from the driver; of these, bytes in used blocks */
  fl_mem *room;                 /* counts the bytes from the driver, may refuse more; or NULL */
  fl_block *bin[2][FL_POOL_BINS]; /* free blocks of small and of large segments, by size */
  uint64_t full[2][FL_POOL_BINS / 64];   /* bit: the bin is not empty */
} fl_pool;

int fl_cuda_pool_open(fl_pool *p, fl_mem *m, const fl_driver *cu, fl_cu_stream stream,
                      int cached);
/* Allocates device memory. NULL: *r says why (FL_CU_OUT_OF_MEMORY also when host memory is out).
** The driver's context is current in all functions of this file but fl_cuda_pool_take, _take_at
** and, of a caching pool, _free. */
void *fl_cuda_pool_alloc(fl_pool *p, int64_t bytes, fl_cu_result *r);
/* Like fl_cuda_pool_alloc, but only from cached blocks: it calls no driver function and needs no
** context. */
void *fl_cuda_pool_take(fl_pool *p, int64_t bytes);
/* Like fl_cuda_pool_take, at this address; NULL if it is not free. */
void *fl_cuda_pool_take_at(fl_pool *p, void *at, int64_t bytes);
fl_cu_result fl_cuda_pool_free(fl_pool *p, void *at);
/* Returns wholly free segments to the driver; waits for the stream first. */
fl_cu_result fl_cuda_pool_trim(fl_pool *p);
/* Frees everything, also blocks in use. host_only: without driver calls (in a forked process). */
void fl_cuda_pool_close(fl_pool *p, int host_only);
#endif
