/*
** The pool: see pool.h. Sizes go up in steps of an eighth of a power of two (at least 512
** bytes), from 32 MB on in steps of 2 MB. Requests up to 1 MB are served from segments of
** 2 MB, larger ones from segments of at least 32 MB (or just large enough, if the device has no
** more), and the two never mix, so that small long-lived buffers do not pin large segments.
** A free block is in the bin of the largest class not above its size; a request takes the best fit
** in its own bin, or else the first block of the next bin that has one. Freeing never allocates, so
** it can not fail when host memory is out.
*/
#include "cuda/driver/pool.h"
#include "base/hash.h"
#include "base/num.h"
#include <string.h>

enum { UNIT = 512, TRIES = 64 };
static const int64_t SMALL_MAX = 1 << 20, SMALL_SEGMENT = 2 << 20, LARGE_SEGMENT = 32 << 20,
                     LARGE_STEP = 2 << 20;

struct fl_block {
  fl_cu_ptr at;
  int64_t size;
  fl_block *before, *after;       /* neighbours in the segment; NULL at its ends */
  fl_block *prev, *next;          /* in a bin's list of free blocks; or (next only) in a chain of
                                  ** the table of used blocks */
  uint8_t large, free;
};

static int log2_floor(uint64_t u) { return 63 - __builtin_clzll(u); }

/* The largest size class that is not above 'size' (a multiple of UNIT). */
static int bin_of(int64_t size) {
  const uint64_t u = (uint64_t)size / UNIT;
  if (u < 16) return (int)u;
  const int e = log2_floor(u);
  const int b = 16 + (e - 4) * 8 + (int)((u >> (e - 3)) & 7);
  return b < FL_POOL_BINS ? b : FL_POOL_BINS - 1;
}

static int64_t size_for(int64_t bytes) {
  const int64_t size = fl_round_up(bytes > 0 ? bytes : 1, UNIT);
  if (size >= LARGE_SEGMENT) return fl_round_up(size, LARGE_STEP);
  if (size < 16 * UNIT) return size;
  return fl_round_up(size, (int64_t)UNIT << (log2_floor((uint64_t)size / UNIT) - 3));
}

/* ---- bins ---- */

static void bin_add(fl_pool *p, fl_block *b) {
  const int i = bin_of(b->size);
  fl_block **head = &p->bin[b->large][i];
  b->free = 1;
  b->prev = NULL;
  b->next = *head;
  if (*head) (*head)->prev = b;
  *head = b;
  p->full[b->large][i / 64] |= 1ull << (i % 64);
}

static void bin_take(fl_pool *p, fl_block *b) {
  const int i = bin_of(b->size);
  if (b->next) b->next->prev = b->prev;
  if (b->prev) b->prev->next = b->next;
  else p->bin[b->large][i] = b->next;
  if (!p->bin[b->large][i]) p->full[b->large][i / 64] &= ~(1ull << (i % 64));
  b->free = 0;
  b->prev = b->next = NULL;
}

/* First non-empty bin from 'i' on, or -1. */
static int bin_next(const fl_pool *p, int large, int i) {
  for (int w = i / 64; w < FL_POOL_BINS / 64; w++) {
    uint64_t bits = p->full[large][w];
    if (w == i / 64) bits &= ~0ull << (i % 64);
    if (bits) return w * 64 + __builtin_ctzll(bits);
  }
  return -1;
}

static fl_block *find(fl_pool *p, int large, int64_t size) {
  const int i = bin_of(size);
  fl_block *best = NULL;
  for (fl_block *b = p->bin[large][i]; b; b = b->next)
    if (b->size >= size && (!best || b->size < best->size)) best = b;
  if (best || i + 1 >= FL_POOL_BINS) return best;
  const int j = bin_next(p, large, i + 1);
  return j < 0 ? NULL : p->bin[large][j];
}

/* ---- blocks in use ---- */

static fl_block **chain_of(fl_pool *p, fl_cu_ptr at) {
  return &p->table[fl_mix64(at, 1) & (uint64_t)(p->ntable - 1)];
}

/* Doubles the number of chains of the table. Without memory for that they only get longer. */
static void table_grow(fl_pool *p) {
  const int64_t n = p->ntable * 2;
  fl_block **old = p->table, **fresh = fl_zalloc(p->mem, (size_t)n * sizeof *fresh);
  if (!fresh) return;
  const int64_t nold = p->ntable;
  p->table = fresh;
  p->ntable = n;
  for (int64_t i = 0; i < nold; i++) {
    for (fl_block *b = old[i], *next; b; b = next) {
      next = b->next;
      fl_block **c = chain_of(p, b->at);
      b->next = *c;
      *c = b;
    }
  }
  fl_free(p->mem, old, (size_t)nold * sizeof *old);
}

static void use(fl_pool *p, fl_block *b) {
  if (p->nused >= 2 * p->ntable) table_grow(p);
  fl_block **c = chain_of(p, b->at);
  b->next = *c;
  *c = b;
  p->nused++;
  fl_level_add(&p->used, b->size);
}

static fl_block *unuse(fl_pool *p, fl_cu_ptr at) {
  fl_block **c = chain_of(p, at);
  while (*c && (*c)->at != at) c = &(*c)->next;
  fl_block *b = *c;
  if (!b) return NULL;
  *c = b->next;
  b->next = NULL;
  p->nused--;
  fl_level_add(&p->used, -b->size);
  return b;
}

/* ---- segments ---- */

/* Gets a segment from the driver: one block that is in no bin yet. */
static fl_block *segment_new(fl_pool *p, int large, int64_t size, fl_cu_result *r) {
  fl_block *b = fl_slab_new(&p->blocks);
  *r = FL_CU_OUT_OF_MEMORY;
  if (!b) return NULL;
  *b = (fl_block){ .size = size, .large = (uint8_t)large };
  const int refused = p->room && !fl_mem_count(p->room, size);
  if (!refused) *r = p->cu->MemAlloc(&b->at, (size_t)size);
  if (refused || *r != FL_CU_OK) {
    if (!refused && p->room) fl_mem_count(p->room, -size);
    fl_slab_free(&p->blocks, b);
    return NULL;
  }
  fl_level_add(&p->reserved, size);
  return b;
}

static fl_cu_result segment_free(fl_pool *p, fl_block *b) {
  const fl_cu_result r = p->cu->MemFree(b->at);
  fl_level_add(&p->reserved, -b->size);
  if (p->room) fl_mem_count(p->room, -b->size);
  fl_slab_free(&p->blocks, b);
  return r;
}

/* Makes the part of 'b' beyond 'size' a free block, if that is worthwhile. */
static void split(fl_pool *p, fl_block *b, int64_t size) {
  if (b->size - size < (b->large ? SMALL_MAX : UNIT)) return;
  fl_block *rest = fl_slab_new(&p->blocks);
  if (!rest) return;                              /* no host memory: the block stays whole */
  *rest = (fl_block){ .at = b->at + (fl_cu_ptr)size, .size = b->size - size, .before = b,
                      .after = b->after, .large = b->large };
  if (b->after) b->after->before = rest;
  b->after = rest;
  b->size = size;
  bin_add(p, rest);
}

/* Joins the free block a with its free right neighbour b, which disappears. */
static void merge(fl_pool *p, fl_block *a, fl_block *b) {
  a->size += b->size;
  a->after = b->after;
  if (b->after) b->after->before = a;
  fl_slab_free(&p->blocks, b);
}

/* ---- the interface ---- */

int fl_cuda_pool_open(fl_pool *p, fl_mem *m, const fl_driver *cu, fl_cu_stream stream,
                      int cached) {
  memset(p, 0, sizeof *p);
  p->mem = m;
  p->cu = cu;
  p->stream = stream;
  p->cached = cached;
  p->ntable = 256;
  p->table = fl_zalloc(m, (size_t)p->ntable * sizeof *p->table);
  if (!p->table) return 0;
  fl_slab_init(&p->blocks, m, sizeof(fl_block));
  return 1;
}

/* Frees unused segments before giving up. */
static fl_block *segment_or_trim(fl_pool *p, int large, int64_t size, fl_cu_result *r) {
  const int64_t before = p->reserved.now;
  fl_block *b = segment_new(p, large, size, r);
  if (b || *r != FL_CU_OUT_OF_MEMORY) return b;
  const fl_cu_result trimmed = fl_cuda_pool_trim(p);
  if (trimmed != FL_CU_OK) *r = trimmed;
  return trimmed == FL_CU_OK && p->reserved.now < before ? segment_new(p, large, size, r) : NULL;
}

static int possible(int64_t bytes) { return bytes >= 0 && bytes <= INT64_MAX / 4; }

/* Notes that block b, which is in no bin, is in use, and returns its address. A caching pool first
** cuts off what b has beyond 'size'. */
static void *hand_out(fl_pool *p, fl_block *b, int64_t size) {
  if (p->cached) split(p, b, size);
  use(p, b);
  return (void *)(uintptr_t)b->at;
}

void *fl_cuda_pool_take(fl_pool *p, int64_t bytes) {
  if (!p->cached || !possible(bytes)) return NULL;
  const int64_t size = size_for(bytes);
  fl_block *b = find(p, size > SMALL_MAX, size);
  if (!b) return NULL;
  bin_take(p, b);
  return hand_out(p, b, size);
}

/* The free block that contains [at, at + size), if it is among the first TRIES from the bin of that
** size on. */
static fl_block *find_at(fl_pool *p, int large, fl_cu_ptr at, int64_t size) {
  int tries = TRIES;
  for (int i = bin_next(p, large, bin_of(size)); i >= 0 && tries > 0;
       i = i + 1 < FL_POOL_BINS ? bin_next(p, large, i + 1) : -1)
    for (fl_block *b = p->bin[large][i]; b && tries--; b = b->next)
      if (b->at <= at && at - b->at + (fl_cu_ptr)size <= (fl_cu_ptr)b->size) return b;
  return NULL;
}

/* Makes the part of 'b' before 'at' a free block, so that b begins at 'at'. 0: no host memory. */
static int cut_before(fl_pool *p, fl_block *b, fl_cu_ptr at) {
  fl_block *front = fl_slab_new(&p->blocks);
  if (!front) return 0;
  *front = (fl_block){ .at = b->at, .size = (int64_t)(at - b->at), .before = b->before,
                       .after = b, .large = b->large };
  if (b->before) b->before->after = front;
  b->before = front;
  b->size -= front->size;
  b->at = at;
  bin_add(p, front);
  return 1;
}

void *fl_cuda_pool_take_at(fl_pool *p, void *at, int64_t bytes) {
  if (!p->cached || !possible(bytes)) return NULL;
  const int64_t size = size_for(bytes);
  const fl_cu_ptr where = (fl_cu_ptr)(uintptr_t)at;
  fl_block *b = find_at(p, size > SMALL_MAX, where, size);
  if (!b) return NULL;
  bin_take(p, b);
  if (where > b->at && !cut_before(p, b, where)) {
    bin_add(p, b);
    return NULL;
  }
  return hand_out(p, b, size);
}

void *fl_cuda_pool_alloc(fl_pool *p, int64_t bytes, fl_cu_result *r) {
  void *at = fl_cuda_pool_take(p, bytes);
  *r = at ? FL_CU_OK : FL_CU_OUT_OF_MEMORY;
  if (at || !possible(bytes)) return at;
  const int64_t size = p->cached ? size_for(bytes) : (bytes > 0 ? bytes : 1);
  const int large = size > SMALL_MAX;
  const int64_t least = large ? LARGE_SEGMENT : SMALL_SEGMENT;
  const int64_t segment = size > least ? fl_round_up(size, LARGE_STEP) : least;
  fl_block *b = segment_or_trim(p, large, p->cached ? segment : size, r);
  if (!b && p->cached && segment > size && *r == FL_CU_OUT_OF_MEMORY)
    b = segment_new(p, large, size, r);           /* no memory for a segment of the usual size: asks
                                                  ** for one that is just large enough */
  return b ? hand_out(p, b, size) : NULL;
}

fl_cu_result fl_cuda_pool_free(fl_pool *p, void *at) {
  fl_block *b = unuse(p, (fl_cu_ptr)(uintptr_t)at);
  if (!b) return FL_CU_INVALID_VALUE;
  if (!p->cached) {
    const fl_cu_result r = p->cu->StreamSynchronize(p->stream), f = segment_free(p, b);
    return r != FL_CU_OK ? r : f;
  }
  if (b->after && b->after->free) {
    fl_block *right = b->after;
    bin_take(p, right);
    merge(p, b, right);
  }
  if (b->before && b->before->free) {
    fl_block *left = b->before;
    bin_take(p, left);
    merge(p, left, b);
    b = left;
  }
  bin_add(p, b);
  return FL_CU_OK;
}

fl_cu_result fl_cuda_pool_trim(fl_pool *p) {
  fl_cu_result first = FL_CU_OK;
  int waited = 0;
  for (int large = 0; large < 2; large++) {
    for (int i = bin_next(p, large, 0); i >= 0;
         i = i + 1 < FL_POOL_BINS ? bin_next(p, large, i + 1) : -1) {
      for (fl_block *b = p->bin[large][i], *next; b; b = next) {
        next = b->next;
        if (b->before || b->after) continue;
        if (!waited++ && (first = p->cu->StreamSynchronize(p->stream)) != FL_CU_OK) return first;
        bin_take(p, b);
        const fl_cu_result r = segment_free(p, b);
        if (first == FL_CU_OK) first = r;
      }
    }
  }
  return first;
}

/* Frees the driver's memory of every segment that begins with a block in this list. */
static void free_starts(fl_pool *p, fl_block *b) {
  for (; b; b = b->next)
    if (!b->before) p->cu->MemFree(b->at);
}

void fl_cuda_pool_close(fl_pool *p, int host_only) {
  if (!p->table) return;
  for (int64_t i = 0; i < p->ntable && !host_only; i++) free_starts(p, p->table[i]);
  for (int i = 0; i < 2 * FL_POOL_BINS && !host_only; i++)
    free_starts(p, p->bin[i / FL_POOL_BINS][i % FL_POOL_BINS]);
  if (p->room) fl_mem_count(p->room, -p->reserved.now);
  fl_slab_close(&p->blocks);
  fl_free(p->mem, p->table, (size_t)p->ntable * sizeof *p->table);
  memset(p, 0, sizeof *p);
}
