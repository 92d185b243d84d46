/*
** The functions of flame.h and flame_lua.h for C modules that are not linked with flame: a table,
** lua/flame_api.h, whose address is in the registry as "flame.api". Such a module can be loaded
** together with flame.so, whose symbols other libraries do not see.
*/
#include "lua/binding.h"
#include "lua/flame_lua.h"
#define FLAME_API_TABLE
#include "lua/flame_api.h"

void fl_api_leave(lua_State *L) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)&flame_api_table);
  lua_setfield(L, LUA_REGISTRYINDEX, "flame.api");
}
