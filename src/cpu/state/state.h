/*
** The state of a CPU device, which all of cpu/ shares. Folders, each of which uses those before it:
**   vm/       the loops over registers, a table for each instruction set
**   state/    this struct, worker threads (pool.c), freed memory kept for reuse (blocks.c)
**   program/  kernels of plans: lowered to programs, and run
**   gemm/     matrix products
**   conv/ linalg/ fft/ sort/ scan/ attention/    calls (tensor/call.h)
** and above them scatter.c, calls.c (the table of calls) and device.c (the device table).
*/
#ifndef FL_CPU_STATE_H
#define FL_CPU_STATE_H
#include "cpu/state/pool.h"
#include "cpu/vm/vm.h"
#include "device/device.h"
#include "base/num.h"

typedef struct fl_cpu {
  fl_threads *pool;
  const fl_vm *vm;
  const struct fl_scan_loops *scan;   /* of the same instruction set */
  const struct fl_attention_loops *attention;
  char blas_name[256];                /* FLAME_BLAS when the device was opened */
  struct fl_blocks *blocks;           /* freed blocks for reuse */
  struct fl_fft_cache *fft;           /* fft_cache.c; NULL: not used yet */
  struct fl_lane_shadow *races;       /* memory of the race check of user kernels; NULL: none */
  int width;                          /* workers */
  int64_t worker_bytes, shared_bytes; /* as allocated */
  char *scratch, *shared;             /* width * worker_bytes; shared_bytes in all */
  /* used: bytes of blocks and scratch; reserved: also those of freed blocks kept for reuse */
  fl_level used, reserved;
  fl_vm_fault *fault;                 /* one per worker */
  const atomic_int *stop;             /* of the step now run: the interrupt flag, or
                                      ** one that stays 0 */
} fl_cpu;

/* scratch.c: reserves at least 'worker' bytes of scratch for each worker and 'shared' bytes that
** all share; 0: no memory. */
int fl_cpu_reserve(fl_cpu *s, fl_mem *m, int64_t worker, int64_t shared);
/* Adds 'bytes' to 'used' and brings 'reserved' up to date. */
void fl_cpu_count(fl_cpu *s, int64_t bytes);
/* Must the step be interrupted? (The flag stays set for the caller of run.) */
static inline int fl_stopped(const fl_device *dev) {
  const fl_cpu *cpu = dev->state;
  return atomic_load_explicit(cpu->stop, memory_order_relaxed) != 0;
}
#endif
