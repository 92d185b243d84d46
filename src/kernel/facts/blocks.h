/*
** Which blocks of threads a kernel may have, as far as its text shows: for block = "auto". In
**   __shared__ float s[128];  s[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
** the array holds 128 threads along x, and loops over it may count to 128: that is the block. Where
** an array leaves room (s[16][17], s[128 + 2]) the largest power of two that fits is meant, if the
** text asks for blockDim. A kernel that reads threadIdx.x, never asks for blockDim.x and has no
** array that gives a size relies on a block that only its author knows.
**
** This is not a proof that all other blocks give the same result: a script that asks for a block to
** be chosen asserts that.
*/
#ifndef FL_KERNEL_BLOCKS_H
#define FL_KERNEL_BLOCKS_H
#include "kernel/tree/tree.h"

typedef struct fl_kblocks {
  uint8_t reads[3];          /* along x, y, z: does the kernel read threadIdx? */
  int64_t fixed[3];          /* by axis: the number of threads that the arrays are sized for; 0:
                             ** unknown, or threadIdx is not read */
  int32_t line;              /* of the first read of threadIdx along 'axis' */
  int axis;                  /* the first along which no size can be chosen; -1: none */
} fl_kblocks;

/* f must have a body. Returns 0 if memory is out. */
int fl_kblocks_find(fl_mem *m, const fl_kfunc *f, fl_kblocks *out);
#endif
