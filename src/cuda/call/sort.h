/* What call_sort.c, call_count.c and call_scan.c share: kernels compiled for a dtype, launches of
** one-dimensional grids, and rows cut into chunks. */
#ifndef FL_CUDA_SORT_H
#define FL_CUDA_SORT_H
#include "cuda/call/call.h"
#include "base/num.h"

enum { FL_SORT_DEFINES = 96, FL_SORT_BLOCKS = 792 };    /* six for each of 132 multiprocessors */

/* Queues 'blocks' blocks of 'threads' threads of an entry of kernels/<file>. */
flame_status fl_sort_launch(fl_cuda *s, const char *file, const char *defines, const char *entry,
                            int64_t blocks, unsigned threads, void **params);
/* Writes the definitions that precede kernels/sort.cu for elements of dtype. */
void fl_sort_defines(int dtype, char out[FL_SORT_DEFINES]);
/* Divides rows of n elements into *chunks chunks of *chunk elements, a multiple of 'tile', so that
** all rows together have at most FL_SORT_BLOCKS chunks, or one each. Depends only on sizes, so it
** is the same on every device. */
void fl_sort_cut(int64_t rows, int64_t n, int64_t tile, int64_t *chunk, int64_t *chunks);

/* Number of blocks with one thread per item, at most 65535, since the kernel loops over the items
** in strides. */
static inline int64_t fl_sort_strided(int64_t items, int64_t threads) {
  const int64_t b = fl_ceil_div(items, threads);
  return b < 65535 ? b : 65535;
}
#endif
