/* What Lua allocates, counted with what its context does: see heap.c. */
#ifndef FL_LUA_HEAP_H
#define FL_LUA_HEAP_H
#include "lua/flame_lua.h"

struct fl_lua;
typedef struct fl_lua_heap fl_lua_heap;

/* A new state with our allocator for small blocks, whose memory counts for the context from
** fl_heap_open on; ended by lua_close. NULL: no memory. */
struct lua_State *fl_heap_new_state(void);
/* Counts memory if there are limits, and also in a state of fl_heap_new_state with its own context,
** which may get limits later. 0: the limit is below what the state has already, or there is no
** memory. */
int fl_heap_open(struct lua_State *L, struct fl_lua *b);
void fl_heap_close(struct lua_State *L, struct fl_lua *b);   /* memory is no longer counted */
/* Called after a call that ended with this status. If it failed for lack of memory and a limit
** refused it, the message on top is replaced by one that tells the limit and what holds the memory.
** After any failure collects if memory is nearly full: 1 if it did. Never raises. */
int fl_heap_tell(struct lua_State *L, struct fl_lua *b, int status);
#endif
