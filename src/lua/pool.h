/*
** Small blocks for a Lua state of ours: pages of blocks of one size, with a list of free ones in
** each, so that taking and freeing a block are a few instructions. Empty pages go back to the
** system, except a spare one and the current one of each size, so counting pages counts all memory
** of small blocks (heap.c).
**
** Sizes are in steps of 16 bytes. Lua gives the size of what it frees, and the address of the page
** follows from that of the block, so no block has a header. Under ASan no block is small: each is
** the system's.
*/
#ifndef FL_LUA_POOL_H
#define FL_LUA_POOL_H
#include "base/mem.h"

enum { FL_POOL_PAGE = 16 << 10, FL_POOL_STEP = 16, FL_POOL_KINDS = 32,
#if defined(__SANITIZE_ADDRESS__) || FL_HAS_FEATURE(address_sanitizer)
  FL_POOL_MOST = 0,
#else
  FL_POOL_MOST = FL_POOL_KINDS * FL_POOL_STEP,
#endif
};

typedef struct fl_pool_page {
  void *free;                         /* blocks, linked through the first word; NULL: it is full */
  int32_t used, kind;
  struct fl_pool_page *next, *prev;   /* of fl_pool.others, while it has free blocks */
} fl_pool_page;

typedef struct fl_pool {
  fl_pool_page *now[FL_POOL_KINDS];   /* blocks are taken from it; never NULL */
  fl_pool_page *others[FL_POOL_KINDS];
  fl_pool_page *spare;                /* an empty page, kept for the next request */
} fl_pool;

void fl_pool_init(fl_pool *p);
/* Makes another page that has free blocks the current one; 0: there is none. */
int fl_pool_turn(fl_pool *p, int kind);
/* Adds a page for this kind. 0: no memory. */
int fl_pool_grow(fl_pool *p, int kind);
/* Frees all pages, whatever is in them. */
void fl_pool_close(fl_pool *p);
/* From now on no block is taken from a page, until fl_pool_turn or fl_pool_grow. */
void fl_pool_shut(fl_pool *p);
/* Gives empty pages back to the system, and returns how many. */
int fl_pool_trim(fl_pool *p);
/* The rare part of fl_pool_give: the page had no free block before, or it is empty now. Returns how
** many pages were given back to the system. */
int fl_pool_settle(fl_pool *p, fl_pool_page *page, int was_full);

static inline int fl_pool_kind(size_t size) { return (int)((size - 1) / FL_POOL_STEP); }

/* A block, or NULL where the page is full. */
static inline void *fl_pool_take(fl_pool *p, int kind) {
  fl_pool_page *page = p->now[kind];
  void *block = page->free;
  if (block == NULL) return NULL;
  page->free = *(void **)block;
  page->used++;
  return block;
}

/* Frees the block. Returns how many pages were given back to the system. */
static inline int fl_pool_give(fl_pool *p, void *block) {
  fl_pool_page *page = (fl_pool_page *)((uintptr_t)block & ~(uintptr_t)(FL_POOL_PAGE - 1));
  void *const next = page->free;
  *(void **)block = next;
  page->free = block;
  return --page->used == 0 || next == NULL ? fl_pool_settle(p, page, next == NULL) : 0;
}
#endif
