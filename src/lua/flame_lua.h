/*
** flame_lua.h: for C programs that embed Lua and flame together.
**
** luaopen_flame makes (or finds) the module of a state; every state has a context of its
** own, closed by lua_close. Tensors that cross this border stay owned by both sides: the
** caller keeps its reference and the box on the Lua side holds another.
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
/* Pushes a box for x, nil for NULL or without the module. x stays the caller's. Raises when memory
** is out, or x is not of L's context. */
FLAME_API void flame_lua_push(struct lua_State *L, flame_tensor *x);
/* The tensor of the box at idx; NULL when there is none. Borrowed: valid while the box is. */
FLAME_API flame_tensor *flame_lua_get(struct lua_State *L, int idx);

/* Where warnings of L's module go: slips of a script that are no errors, each once for a line, as
** "train.lua:12: cross_entropy: …". NULL, as at first: to Lua's warn. No module: nothing. */
FLAME_API void flame_lua_set_warn(struct lua_State *L,
                                  void (*warn)(void *arg, const char *text), void *arg);

#ifdef __cplusplus
}
#endif
#endif
