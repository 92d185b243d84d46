/*
** Lua states with flame for tests, and a check of what closing one leaves behind.
*/
#ifndef LUA_STATES_H
#define LUA_STATES_H
#include "lua/flame_lua.h"
#include "tensor/context.h"
#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>

static inline lua_State *open_state(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "flame", luaopen_flame, 1);
  lua_pop(L, 1);
  return L;
}

static _Thread_local int64_t left_blocks, left_bytes;

static inline void note_left(flame_context *c) {
  left_blocks = c->mem.live_blocks;
  left_bytes = c->mem.live_bytes;
  free(c);
}

/* Closes L; returns 1 if its context then held no memory. A tensor that this function holds keeps
** the context's struct alive until that is checked. A state may have no context. */
static inline int close_clean(lua_State *L) {
  flame_context *c = flame_lua_context(L);
  flame_tensor *kept = c ? flame_full(c, FLAME_F32, 0, NULL, 1.0) : NULL;
  left_blocks = left_bytes = -1;
  lua_close(L);
  if (!c) return 1;
  if (!kept) return 0;
  c->gone = note_left;
  flame_free(kept);
  return left_blocks == 0 && left_bytes == 0;
}
#endif
