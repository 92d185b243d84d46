/* Freed tensor memory kept for reuse, in size classes of at most 1/8 waste, up to a bound. */
#ifndef FL_CPU_BLOCKS_H
#define FL_CPU_BLOCKS_H
#include "base/mem.h"

typedef struct fl_blocks fl_blocks;
fl_blocks *fl_blocks_open(fl_mem *m, int64_t limit);      /* limit 0: keeps nothing */
void *fl_blocks_alloc(fl_blocks *s, int64_t bytes);       /* 64-byte aligned, or NULL */
void fl_blocks_free(fl_blocks *s, void *p, int64_t bytes);
void fl_blocks_trim(fl_blocks *s);                        /* frees all that is kept */
int64_t fl_blocks_kept(const fl_blocks *s);               /* bytes that are kept */
void fl_blocks_close(fl_blocks *s);
#endif
