/*
** The hook of a state: the library sets one function as Lua's hook, for limits, interrupts, the end
** of workers and flame graphs.
**
** A hook belongs to one coroutine, so the code that resumes one (coroutine.c) tells which is
** running. If a limit can be used up the hook is always set, and checks after a number of
** instructions. Otherwise it costs nothing until a strike, a request that the running code end,
** sets it for the next instruction.
*/
#ifndef FL_LUA_HOOK_H
#define FL_LUA_HOOK_H
#include "lua/flame_lua.h"

/* The chunk name of -e's text, and the key under which flame-lua stores that text in the
** registry. */
#define FL_CLI_STRING "=(command line)"

struct fl_lua;
struct lua_Debug;
/* See fl_hook_note. */
typedef void (*fl_note)(struct lua_State *L, struct fl_lua *b, struct lua_Debug *ar);

enum { FL_HOOK_EACH = 1000 };             /* instructions between two calls of the hook */

/* The binding of L's state; NULL without the module. */
struct fl_lua *fl_hook_of(struct lua_State *L);
/* Sets the hook in L and keeps it set, in the running coroutine and in those that are resumed. */
void fl_hook_stand(struct lua_State *L, struct fl_lua *b);
/* Raises if the work must end; otherwise returns. C functions poll with this. */
void fl_hook_look(struct lua_State *L, struct fl_lua *b);
/* Like fl_hook_look, after charging n more steps. */
void fl_hook_charge(struct lua_State *L, struct fl_lua *b, long long n);
/* Passes each call and return to f, whatever else the hook is used for; NULL: stops that. 0:
** another function receives them already. A script's own hook in L is removed. */
int fl_hook_note(struct lua_State *L, struct fl_lua *b, fl_note f);
/* Called when a call by the host begins in L, and when it ends; between the two a strike
** (fl_hook_strike) ends the call. Nested calls belong to the outer one. restart: resets the counts
** of what a call uses. */
void fl_hook_begin(struct lua_State *L, struct fl_lua *b, int restart);
void fl_hook_end(struct lua_State *L, struct fl_lua *b);
/* Makes the code that runs in b and in its sandboxes end at its next instruction. Called in the
** thread of the state, from a signal handler or an allocator. */
void fl_hook_strike(struct fl_lua *b);
/* Tells the hook that co is resumed and runs now. Returns the thread that ran before, which is
** passed to fl_hook_leave when the resume ends. */
struct lua_State *fl_hook_enter(struct fl_lua *b, struct lua_State *co);
void fl_hook_leave(struct fl_lua *b, struct lua_State *co, struct lua_State *outer);
/* Adds to the coroutine library on top those of its functions that inform the hook
** (coroutine.c). */
void fl_lua_coroutines(struct lua_State *L, struct fl_lua *b);
#endif
