/*
** The hook of a state: one function that owns the slot, for limits, interrupts, the end of workers
** and flame graphs.
**
** A hook is of one coroutine, so who resumes one (coroutine.c) tells which runs. Where a limit
** can be used up the hook stands: it looks each so many instructions. Elsewhere it is set by a
** strike alone, at the instruction that comes next, and costs nothing before.
*/
#ifndef FL_LUA_HOOK_H
#define FL_LUA_HOOK_H
#include "lua/flame_lua.h"

/* The name of -e's text as a chunk, and where flame-lua leaves that text in the registry. */
#define FL_CLI_STRING "=(command line)"

struct fl_lua;
struct lua_Debug;
/* See fl_hook_note. */
typedef void (*fl_note)(struct lua_State *L, struct fl_lua *b, struct lua_Debug *ar);

enum { FL_HOOK_EACH = 1000 };

/* The binding of L's state; NULL without the module. */
struct fl_lua *fl_hook_of(struct lua_State *L);
/* From now on it stands in L, in what runs and in coroutines that are resumed. */
void fl_hook_stand(struct lua_State *L, struct fl_lua *b);
/* Raise if the work is to end; else go on. What a function of C polls by. */
void fl_hook_look(struct lua_State *L, struct fl_lua *b);
/* The same after n more steps. */
void fl_hook_charge(struct lua_State *L, struct fl_lua *b, long long n);
/* Each call and return is told to f, whatever else the hook stands for; NULL: no more. 0: to
** somebody else already. A script's own hook in L loses the slot. */
int fl_hook_note(struct lua_State *L, struct fl_lua *b, fl_note f);
/* A call by the host begins in L; between the two a strike ends it. Nested calls are of one.
** restart: what a call uses up counts from 0. */
void fl_hook_begin(struct lua_State *L, struct fl_lua *b, int restart);
void fl_hook_end(struct lua_State *L, struct fl_lua *b);
/* End what runs in b and in its sandboxes at the next instruction. In the thread of the state,
** from a signal handler or an allocator. */
void fl_hook_strike(struct fl_lua *b);
/* co is resumed: the hook is told that it runs now. Returns what ran before, which fl_hook_leave is
** given when the resume ends. */
struct lua_State *fl_hook_enter(struct fl_lua *b, struct lua_State *co);
void fl_hook_leave(struct fl_lua *b, struct lua_State *co, struct lua_State *outer);
/* Into the coroutine library on top: those of its functions that know the hook (coroutine.c). */
void fl_lua_coroutines(struct lua_State *L, struct fl_lua *b);
#endif
