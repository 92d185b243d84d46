/*
** The lists that x.shape, x:size() and x:stride() give: new tables of integers that a script may
** change and pass to any function. A metatable, one per state, adds what a plain list lacks: they
** print as (2, 3), concatenate with text, compare by value, count negative positions from the end
** and raise for 0. Its __metatable is false: code that asks for a metatable (writers of files and
** JSON) sees a plain list.
*/
#include "lua/binding.h"
#include <stdio.h>

static const char *text_of(lua_State *L, int i, char buf[32]) {
  if (lua_isinteger(L, i)) snprintf(buf, 32, "%lld", (long long)lua_tointeger(L, i));
  else if (lua_type(L, i) == LUA_TNUMBER) snprintf(buf, 32, "%.14g", lua_tonumber(L, i));
  else if (lua_type(L, i) != LUA_TSTRING) return luaL_typename(L, i);
  else return lua_tostring(L, i);
  return buf;
}

/* Prints "(2, 3)"; a script may have put any values into the list. */
static int sizes_tostring(lua_State *L) {
  char one[32];
  luaL_Buffer out;
  const lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  luaL_buffinit(L, &out);
  luaL_addchar(&out, '(');
  for (lua_Integer i = 1; i <= n; i++) {
    if (i > 1) luaL_addstring(&out, ", ");
    lua_rawgeti(L, 1, i);
    lua_pushstring(L, text_of(L, -1, one));
    lua_remove(L, -2);
    luaL_addvalue(&out);
  }
  luaL_addchar(&out, ')');
  luaL_pushresult(&out);
  return 1;
}

static int sizes_concat(lua_State *L) {
  for (int i = 1; i <= 2; i++) {
    if (!fl_is_sizes(L, i) && box_at(L, i) == NULL && !lua_isstring(L, i))
      return fl_lua_fail(L, "..", "can not join a shape and a %s", luaL_typename(L, i));
  }
  luaL_tolstring(L, 1, NULL);
  luaL_tolstring(L, 2, NULL);
  lua_concat(L, 2);
  return 1;
}

/* Compares as lists: a plain table of the same sizes is equal too. */
static int sizes_eq(lua_State *L) {
  const lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  int same = n == (lua_Integer)lua_rawlen(L, 2);
  for (lua_Integer i = 1; same && i <= n; i++) {
    lua_rawgeti(L, 1, i);
    lua_rawgeti(L, 2, i);
    same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
  }
  lua_pushboolean(L, same);
  return 1;
}

/* Called for keys that are not in the list. They give nil, except for 0 and negative positions. */
static int sizes_index(lua_State *L) {
  if (!lua_isinteger(L, 2) || lua_tointeger(L, 2) > 0) return 0;
  const lua_Integer i = lua_tointeger(L, 2), n = (lua_Integer)lua_rawlen(L, 1);
  if (i == 0) return fl_lua_fail(L, "shape", "index 0 is out of range, positions begin at 1");
  if (i < -n)
    return fl_lua_fail(L, "shape", "index %lld is out of range, there are %lld sizes",
                       (long long)i, (long long)n);
  lua_rawgeti(L, 1, n + 1 + i);
  return 1;
}

int fl_is_sizes(lua_State *L, int i) {
  if (lua_type(L, i) != LUA_TTABLE || !lua_getmetatable(L, i)) return 0;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_sizes);
  const int ours = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return ours;
}

void fl_push_sizes(lua_State *L, int n, const int64_t from[FL_MAX_AXES]) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_sizes);
  fl_push_sizes_with(L, lua_gettop(L), n, from);
  lua_remove(L, -2);
}

void fl_push_sizes_with(lua_State *L, int meta, int n, const int64_t from[FL_MAX_AXES]) {
  int64_t at[FL_MAX_AXES];                /* a finaliser may free the tensor that has these sizes */
  memcpy(at, from, sizeof at);
  lua_createtable(L, n, 0);
  for (int a = 0; a < n; a++) {
    lua_pushinteger(L, at[a]);
    lua_rawseti(L, -2, a + 1);
  }
  lua_pushvalue(L, meta);
  lua_setmetatable(L, -2);
}

void fl_sizes_metatable(lua_State *L, fl_lua *b) {
  static const struct { const char *name; lua_CFunction f; } methods[] = {
    { "__tostring", sizes_tostring }, { "__concat", sizes_concat }, { "__eq", sizes_eq },
    { "__index", sizes_index }
  };
  lua_createtable(L, 0, 5);
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
    fl_push_closure(L, b, methods[i].f);
    lua_setfield(L, -2, methods[i].name);
  }
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_sizes);
}
