/*
** flame_lua.h: for C programs that embed Lua and flame together.
**
** luaopen_flame makes (or finds) the module of a state; every state has a separate context, closed
** by lua_close. A tensor passed between C and Lua is owned by both sides: the caller keeps its
** reference and the box in Lua holds another.
*/
#ifndef FLAME_LUA_H
#define FLAME_LUA_H
#include "flame.h"

#ifdef __cplusplus
extern "C" {
#endif
struct lua_State;

/* Pushes the module's table. The second call in one state pushes the same table. */
FLAME_API int luaopen_flame(struct lua_State *L);
/* The context of L's module; NULL when luaopen_flame was not called. Owned by the state. */
FLAME_API flame_context *flame_lua_context(struct lua_State *L);
/* Pushes a box, the userdata of a tensor, for x; nil for NULL or without the module. The caller
** keeps its reference. Raises if memory is out, or x is not of L's context. */
FLAME_API void flame_lua_push(struct lua_State *L, flame_tensor *x);
/* The tensor of the box at idx; NULL if there is none. Borrowed: valid while the box is. */
FLAME_API flame_tensor *flame_lua_get(struct lua_State *L, int idx);

/* ---- states with limits: docs/security.md ---- */
/* Makes a new state with bounded libraries and the module loaded as the global 'flame', ended by
** lua_close. On failure *L is NULL and the status tells why. */
FLAME_API flame_status flame_lua_new(const flame_options *o, struct lua_State **L);
/* Opens the module in a state of the host, with options: pushes the module, or a message; nothing
** if the stack can not grow (FLAME_NO_MEMORY). Never raises. Once per state, before luaopen_flame.
** Limits count Lua's own work too; the state's
** libraries stay as they are, so denied permissions hold only for functions of flame. */
FLAME_API flame_status flame_lua_open(struct lua_State *L, const flame_options *o);
/* lua_pcall, with the counts of what a call uses restarted from 0: FLAME_CALL_NS, FLAME_LUA_STEPS,
** FLAME_KERNEL_STEPS and FLAME_OUTPUT_BYTES. Inside another such call it is the same as
** lua_pcall. */
FLAME_API int flame_lua_pcall(struct lua_State *L, int narg, int nresult, int handler);

#ifdef __cplusplus
}
#endif
#endif
