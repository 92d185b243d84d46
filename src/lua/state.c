/*
** States with limits, for hosts: flame_lua_open puts the module with options into a state of the
** host's, flame_lua_new makes a state whose libraries are bounded (bounded.c), flame_lua_pcall
** calls with the limits of a call.
*/
#include "lua/state.h"
#include "lua/binding.h"
#include "lua/embedded.h"
#include "lua/heap.h"
#include "lua/hook.h"
#include <stdio.h>

/* A host may link Lua without this function. */
extern __attribute__((weak)) void luaL_openlibs(lua_State *L);

const char fl_key_options;

/* (start) -> the module's table: opens it as 'start' says. */
static int open_module(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_module) == LUA_TUSERDATA)
    return luaL_error(L, "flame: the module is already open in this state; "
                      "call flame_lua_open first, once");
  const fl_lua_start *start = (const fl_lua_start *)lua_touserdata(L, 1);
  lua_pushvalue(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_options);
  if (start->code) {
    lua_pushlightuserdata(L, (void *)(uintptr_t)start->code);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_code);
  }
  lua_pushcfunction(L, luaopen_flame);
  lua_call(L, 0, 1);
  return 1;
}

/* Opens the module with the options. They are removed from the registry even after an error, so
** that a later opening of the module does not read them. */
static int opened(lua_State *L, const flame_options *o) {
  fl_lua_start start = { .options = o };
  lua_pushcfunction(L, open_module);
  lua_pushlightuserdata(L, &start);
  const int status = lua_pcall(L, 1, 1, 0);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_options);
  fl_lua *b = fl_hook_of(L);
  if (b != NULL) fl_heap_tell(L, b, status);
  return status;
}

static flame_status status_of(int status) {
  return status == LUA_OK ? FLAME_OK : status == LUA_ERRMEM ? FLAME_NO_MEMORY : FLAME_BAD_ARGUMENT;
}

flame_status flame_lua_open(lua_State *L, const flame_options *o) {
  if (L == NULL || !lua_checkstack(L, 6)) return FLAME_NO_MEMORY;
  return status_of(opened(L, o));
}

/* Hides the module on top, in a state that scripts do not see: only flame's own files find it, and
** nothing on the disk is loaded. */
static void hide(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_insert(L, -2);
  lua_setfield(L, -2, "flame");
  lua_getfield(L, -1, "package");
  lua_pushliteral(L, "");
  lua_setfield(L, -2, "path");
  lua_pushliteral(L, "");
  lua_setfield(L, -2, "cpath");
  lua_pop(L, 2);
}

/* (start): adds everything that a new state needs. */
static int fill(lua_State *L) {
  if (!luaL_openlibs) return luaL_error(L, "this program has no luaL_openlibs, which states need");
  luaL_openlibs(L);
  lua_pushcfunction(L, open_module);
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  fl_lua *b = fl_hook_of(L);
  if (b->borrowed) hide(L);
  else fl_bounded_open(L, b);
  return 0;
}

flame_status fl_lua_new_around(const fl_lua_start *start, lua_State **L, char why[FL_LUA_WHY]) {
  lua_State *made = fl_heap_new_state();
  *L = NULL;
  why[0] = 0;
  if (made == NULL) return FLAME_NO_MEMORY;
  lua_pushcfunction(made, fill);
  lua_pushlightuserdata(made, (void *)(uintptr_t)start);
  const int status = lua_pcall(made, 1, 0, 0);
  if (status == LUA_OK) {
    lua_gc(made, LUA_GCGEN, 0, 0);          /* as in the program lua: tensors of a loop die young */
    *L = made;
    return FLAME_OK;
  }
  fl_lua *b = fl_hook_of(made);
  if (b != NULL) fl_heap_tell(made, b, status);
  snprintf(why, FL_LUA_WHY, "%s", lua_type(made, -1) == LUA_TSTRING ? lua_tostring(made, -1) : "");
  lua_close(made);
  return status_of(status);
}

flame_status fl_lua_new_inside(const flame_options *o, flame_context *outer, const void *code,
                               lua_State **L, char why[FL_LUA_WHY]) {
  const fl_lua_start start = { .options = o, .outer = outer, .code = code };
  return fl_lua_new_around(&start, L, why);
}

flame_status flame_lua_new(const flame_options *o, lua_State **L) {
  char why[FL_LUA_WHY];
  return L ? fl_lua_new_inside(o, NULL, NULL, L, why) : FLAME_BAD_ARGUMENT;
}

int flame_lua_pcall(lua_State *L, int narg, int nresult, int handler) {
  fl_lua *b = lua_checkstack(L, 2) ? fl_hook_of(L) : NULL;
  if (b == NULL || b->c == NULL || b->calls > 0) return lua_pcall(L, narg, nresult, handler);
  fl_hook_begin(L, b, 1);
  const int status = lua_pcall(L, narg, nresult, handler);
  fl_hook_end(L, b);
  fl_heap_tell(L, b, status);
  return status;
}
