/*
** What Lua allocates, counted with what the context does. In a state of the host's the allocator is
** wrapped while the context lives, and put back by its finaliser; the counts are in the context's
** memory, not in Lua's, which is freed while the counts are still used.
**
** A state that we make has our allocator from its first block to its last: small blocks
** come from pages (pool.h), and the pages are counted, so a counted block takes less time than one
** of malloc's. Before the context exists, and after it is closed, only the sum of bytes is kept.
**
** A small amount is counted in advance, and most requests are served from it: a loop over small
** tensors allocates and frees a block for each, and counting it in this context and in those that
** contain it (of a sandbox's owner) would cost as much again. If a limit refuses, the amount is
** returned first, so no request fails because of it.
**
** While the hook is active a large block costs steps and is an occasion to test whether the work
** must end: an instruction that copies megabytes takes as long as thousands of others. Once there
** is a long string the hook looks more often: instructions that read it whole read at most 64 MB
** between two looks. Allocations alone would not do, since reading a string as a number or
** comparing it allocates nothing: comparing two strings of zero bytes takes 9 ns for each byte.
*/
#include "lua/heap.h"
#include "lua/binding.h"
#include "lua/hook.h"
#include "lua/pool.h"
#include <stdio.h>
#include <stdlib.h>

enum { LARGE = 4096,                /* bytes of a large block */
       STEP_BYTES = 1024,           /* of a large block, for which one step is charged */
       LONG_STRING = 64 << 10,      /* bytes */
       SLACK = 64 << 10,            /* bytes beyond the limit for the message about it */
       PATIENCE = 4,                /* collections without effect; each refuses twice */
       AHEAD = 8 << 10 };           /* bytes counted in advance */

struct fl_lua_heap {
  lua_Alloc f;
  void *ud;
  flame_context *c;                 /* NULL: a state of ours without one */
  int64_t bytes;                 /* bytes in use, counted here since lua_gc reports nothing in a
                                 ** finaliser */
  int64_t ahead;                    /* the part of 'bytes' counted in advance: at most 2 * AHEAD */
  fl_lua *b;                        /* not used by frees: it may be freed before its state */
  uint8_t making_room;              /* 1: the engine is freeing cached memory */
  uint8_t refusals;                 /* since the last that a script has seen */
  uint8_t deny;                     /* so many more requests are refused */
  void *state;                      /* a state of ours: its block, which is freed last; else NULL */
  fl_pool pool;
};

static void note_large(fl_lua *b, int is_string, size_t bytes) {
  if (b == NULL || b->each == 0 || b->c == NULL) return;
  if (is_string && bytes >= LONG_STRING) {
    const int64_t each = (int64_t)FL_HOOK_EACH * LONG_STRING / (int64_t)bytes;
    if (each < b->each) b->each = each > 1 ? (int)each : 1;
    fl_hook_stand(b->running, b);
  }
  if (b->c->limits.most[FLAME_LUA_STEPS] > 0)
    fl_use(b->c, FLAME_LUA_STEPS, (int64_t)(bytes / STEP_BYTES));
  if (fl_is_stuck(b->c)) fl_hook_stand(b->running, b);
}

static void give(fl_lua_heap *h, int64_t bytes) {
  h->bytes -= bytes;
  if (h->c) fl_mem_count(&h->c->mem, -bytes);
}

/* Returns all but 'left' of the amount counted in advance. */
static void give_ahead(fl_lua_heap *h, int64_t left) {
  give(h, h->ahead - left);
  h->ahead = left;
}

static int trim(fl_lua_heap *h) {
  const int pages = h->state ? fl_pool_trim(&h->pool) : 0;
  give(h, (int64_t)pages * FL_POOL_PAGE);
  return pages;
}

/* Called after a refusal. Lua does a full collection and asks once more; where it can do without
** the memory (its table of strings) it continues, and collects again at the next string: after some
** such collections all requests are refused, so that the script sees the error. */
static int refuse(fl_lua_heap *h) {
  fl_lua *b = h->b;
  if (++h->refusals >= 2 * PATIENCE) {
    h->refusals = 0;
    h->deny = 2;
    if (h->state) fl_pool_shut(&h->pool);
  }
  if (b->each > 0 && b->c != NULL && fl_is_stuck(b->c)) fl_hook_stand(b->running, b);
  return 0;
}

/* Counts these bytes for Lua, after freeing cached memory if that is necessary. 0: refused. */
static int take(fl_lua_heap *h, int64_t bytes) {
  flame_context *c = h->c;
  give_ahead(h, 0);
  if (c == NULL) return h->bytes += bytes, 1;
  const int64_t told = c->mem.refused;
  if (h->deny > 0) {
    h->deny--;
    c->mem.refused = bytes;
    return 0;
  }
  if (fl_mem_count(&c->mem, bytes + AHEAD)) {
    h->bytes += bytes + AHEAD;
    h->ahead = AHEAD;
    return 1;
  }
  c->mem.refused = told;
  int taken = fl_mem_count(&c->mem, bytes) || (trim(h) && fl_mem_count(&c->mem, bytes));
  if (!taken && !h->making_room && !c->evaluating) {
    h->making_room = 1;
    fl_engine_spare(c);
    h->making_room = 0;
    taken = fl_mem_count(&c->mem, bytes);
  }
  if (!taken) return refuse(h);
  h->bytes += bytes;
  return 1;
}

/* Lua has loops that call no hook and end only when the stack can not grow (a table that is its own
** __call). So if the work must end, large blocks are refused. */
static int must_end(const fl_lua *b) {
  return b != NULL && b->each > 0 && b->calls > 0 && b->c != NULL && fl_is_stuck(b->c);
}

static void *grown(fl_lua_heap *h, void *p, size_t old, size_t size) {
  const int is_string = p == NULL && old == LUA_TSTRING;
  const size_t more = size - (p != NULL ? old : 0);
  if (more >= LARGE && must_end(h->b)) return NULL;
  if (!take(h, (int64_t)more)) return NULL;
  void *q = h->f(h->ud, p, old, size);
  if (q == NULL) give(h, (int64_t)more);
  else if (more >= LARGE) note_large(h->b, is_string, size);
  return q;
}

static void *resized(fl_lua_heap *h, void *p, size_t old, size_t size) {
  if (size > old && (size - old >= LARGE || (int64_t)(size - old) > h->ahead || h->deny > 0))
    return grown(h, p, old, size);
  void *q = h->f(h->ud, p, old, size);
  if (q != NULL) h->ahead -= (int64_t)size - (int64_t)old;
  if (h->ahead > 2 * AHEAD) give_ahead(h, AHEAD);
  return q;
}

/* The frequent cases come first: a small block, and a free. */
static void *counted(void *ud, void *p, size_t old, size_t size) {
  fl_lua_heap *h = (fl_lua_heap *)ud;
  if (p == NULL) {
    if (size == 0) return NULL;                 /* nothing is freed */
    if (size >= LARGE || (int64_t)size > h->ahead || h->deny > 0) return grown(h, p, old, size);
    void *q = h->f(h->ud, p, old, size);
    if (q != NULL) h->ahead -= (int64_t)size;
    return q;
  }
  if (size > 0) return resized(h, p, old, size);
  if ((h->ahead += (int64_t)old) > 2 * AHEAD) give_ahead(h, AHEAD);
  return h->f(h->ud, p, old, size);
}

/* ---- a state of ours ------------------------------------------------------------------------- */

static void *of_system(void *ud, void *p, size_t old, size_t size) {
  (void)ud, (void)old;
  if (size > 0) return realloc(p, size);
  free(p);
  return NULL;
}

/* Allocates a block of this kind (size class) when the current page is full. */
static __attribute__((noinline)) void *take_more(fl_lua_heap *h, int kind) {
  if (h->deny == 0 && fl_pool_turn(&h->pool, kind)) return fl_pool_take(&h->pool, kind);
  if (!take(h, FL_POOL_PAGE)) return NULL;
  if (fl_pool_grow(&h->pool, kind)) return fl_pool_take(&h->pool, kind);
  give(h, FL_POOL_PAGE);
  return NULL;
}

static void close_pool(fl_lua_heap *h) {
  fl_pool_close(&h->pool);
  free(h);
}

static __attribute__((noinline)) void *pooled_large(fl_lua_heap *h, void *p, size_t old,
                                                    size_t size) {
  const int is_last = size == 0 && p != NULL && p == h->state;
  void *q = counted(h, p, old, size);
  if (is_last) close_pool(h);
  return q;
}

static void *pooled(void *ud, void *p, size_t old, size_t size);

/* Resizes a block: in place if it stays of one kind, else by a copy to another kind of page, or
** between a page and the system. */
static __attribute__((noinline)) void *moved(fl_lua_heap *h, void *p, size_t old, size_t size) {
  if (old > FL_POOL_MOST && size > FL_POOL_MOST) return counted(h, p, old, size);
  if (old <= FL_POOL_MOST && size <= FL_POOL_MOST && fl_pool_kind(old) == fl_pool_kind(size))
    return p;
  void *q = pooled(h, NULL, 0, size);
  if (q == NULL) return NULL;
  memcpy(q, p, old < size ? old : size);
  pooled(h, p, old, 0);
  return q;
}

static void *pooled(void *ud, void *p, size_t old, size_t size) {
  fl_lua_heap *h = (fl_lua_heap *)ud;
  if (p == NULL) {
    if (size - 1 >= FL_POOL_MOST) return pooled_large(h, p, old, size);
    void *q = fl_pool_take(&h->pool, fl_pool_kind(size));
    return q ? q : take_more(h, fl_pool_kind(size));
  }
  if (size > 0) return moved(h, p, old, size);
  if (old > FL_POOL_MOST) return pooled_large(h, p, old, size);
  const int pages = fl_pool_give(&h->pool, p);
  if (pages > 0) give(h, (int64_t)pages * FL_POOL_PAGE);
  return NULL;
}

static int panic(lua_State *L) {
  fprintf(stderr, "flame: an error outside of a protected call: %s\n", lua_tostring(L, -1));
  return 0;
}

lua_State *fl_heap_new_state(void) {
  fl_lua_heap *h = (fl_lua_heap *)calloc(1, sizeof *h);
  if (h == NULL) return NULL;
  h->bytes = sizeof *h;
  h->f = of_system;
  fl_pool_init(&h->pool);
  lua_State *L = lua_newstate(pooled, h);
  if (L == NULL) {
    close_pool(h);
    return NULL;
  }
  h->state = lua_getextraspace(L);          /* the block begins with the extra space */
  lua_atpanic(L, panic);
  return L;
}

/* ---- with a context -------------------------------------------------------------------------- */

static fl_lua_heap *new_heap(lua_State *L, flame_context *c) {
  fl_lua_heap *h = (fl_lua_heap *)fl_zalloc(&c->mem, sizeof *h);
  if (h == NULL) return NULL;
  h->bytes = (int64_t)lua_gc(L, LUA_GCCOUNT) * 1024 + lua_gc(L, LUA_GCCOUNTB);
  h->f = lua_getallocf(L, &h->ud);
  return h;
}

int fl_heap_open(lua_State *L, fl_lua *b) {
  void *ud;
  const int ours = lua_getallocf(L, &ud) == pooled;
  if (!b->c->limits.any && (!ours || b->borrowed)) return 1;
  fl_lua_heap *h = ours ? (fl_lua_heap *)ud : new_heap(L, b->c);
  if (h == NULL || !fl_mem_count(&b->c->mem, h->bytes)) {
    if (!ours) fl_free(&b->c->mem, h, sizeof *h);
    return 0;
  }
  h->b = b;
  h->c = b->c;
  if (!ours) lua_setallocf(L, counted, h);
  b->heap = h;
  return 1;
}

void fl_heap_close(lua_State *L, fl_lua *b) {
  fl_lua_heap *h = b->heap;
  if (h == NULL) return;
  b->heap = NULL;
  if (h->state) {
    fl_mem_count(&h->c->mem, -h->bytes);
    h->b = NULL;
    h->c = NULL;
    return;
  }
  lua_setallocf(L, h->f, h->ud);
  give(h, h->bytes);
  fl_free(&b->c->mem, h, sizeof *h);
}

/* (text) -> the text as a string, for which memory beyond the limit is used. */
static int push_text(lua_State *L) {
  lua_pushstring(L, (const char *)lua_touserdata(L, 1));
  return 1;
}

static void tell(lua_State *L, fl_lua *b) {
  char why[400];
  if (fl_is_stuck(b->c)) fl_stuck_text(b->c, why, sizeof why);
  else if (!fl_refused_text(b->c, why, sizeof why)) return;
  if (b->heap) b->heap->refusals = b->heap->deny = 0;
  const int64_t limit = b->c->mem.limit;
  if (limit > 0) b->c->mem.limit += SLACK;
  lua_pushcfunction(L, push_text);
  lua_pushlightuserdata(L, why);
  if (lua_pcall(L, 1, 1, 0) == LUA_OK) lua_replace(L, -2);
  else lua_pop(L, 1);
  b->c->mem.limit = limit;
  b->c->mem.refused = 0;
}

int fl_heap_tell(lua_State *L, fl_lua *b, int status) {
  if (status == LUA_OK || status == LUA_YIELD || b->c == NULL || !lua_checkstack(L, 4)) return 0;
  if (status == LUA_ERRMEM) tell(L, b);
  return fl_collect_if_full(b->c, 1);       /* tensors of the failed call can be freed now */
}
