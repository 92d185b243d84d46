/*
** coroutine.resume, wrap and close of flame-lua. They do what Lua's own do, and tell script.c
** which coroutine runs: a hook is of one coroutine alone, so Ctrl-C must know it. lua_resume does
** not raise, so that is told again whatever ends the call. Functions of C that call lua_resume
** themselves are not seen: what runs in them ends at their return.
*/
#include "cli/cli.h"
#include <lauxlib.h>

#if LUA_VERSION_NUM == 504 && LUA_VERSION_RELEASE_NUM < 50406
static int close_thread(lua_State *co, lua_State *from) {
  (void)from;
  return lua_resetthread(co);
}
#else
static int close_thread(lua_State *co, lua_State *from) { return lua_closethread(co, from); }
#endif

/* Move the n values on top of L to co and run it: how many results it left on L, or -1 with
** its error there. */
static int run(lua_State *L, lua_State *co, int n) {
  int results = 0;
  if (!lua_checkstack(co, n)) {
    lua_pushliteral(L, "too many arguments to resume");
    return -1;
  }
  lua_xmove(L, co, n);
  lua_State *outer = fl_cli_enter(co);
  const int status = lua_resume(co, L, n, &results);
  fl_cli_leave(co, outer);
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_xmove(co, L, 1);
    return -1;
  }
  if (!lua_checkstack(L, results + 1)) {
    lua_pop(co, results);
    lua_pushliteral(L, "too many results to resume");
    return -1;
  }
  lua_xmove(co, L, results);
  return results;
}

static lua_State *coroutine_at(lua_State *L, int i) {
  lua_State *co = lua_tothread(L, i);
  luaL_argexpected(L, co != NULL, i, "thread");
  return co;
}

static int resume(lua_State *L) {
  lua_State *co = coroutine_at(L, 1);
  const int n = run(L, co, lua_gettop(L) - 1);
  lua_pushboolean(L, n >= 0);
  lua_insert(L, n >= 0 ? -(n + 1) : -2);
  return n >= 0 ? n + 1 : 2;
}

/* A coroutine that failed is closed; what its variables raise by that is the error. */
static int failed(lua_State *L, lua_State *co) {
  int status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_State *outer = fl_cli_enter(co);
    lua_xmove(L, co, 1);
    status = close_thread(co, L);
    fl_cli_leave(co, outer);
    lua_xmove(co, L, 1);
  }
  if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

static int wrapped(lua_State *L) {
  lua_State *co = lua_tothread(L, lua_upvalueindex(1));
  const int n = run(L, co, lua_gettop(L));
  return n >= 0 ? n : failed(L, co);
}

static int wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, wrapped, 1);
  return 1;
}

static int closed(lua_State *L) {
  lua_State *co = coroutine_at(L, 1);
  const int status = lua_status(co);
  lua_Debug frame;
  if (co == L || (status == LUA_OK && lua_getstack(co, 0, &frame)))
    return luaL_error(L, "cannot close a %s coroutine", co == L ? "running" : "normal");
  lua_State *outer = fl_cli_enter(co);
  const int ended = close_thread(co, L);
  fl_cli_leave(co, outer);
  lua_pushboolean(L, ended == LUA_OK);
  if (ended == LUA_OK) return 1;
  lua_xmove(co, L, 1);
  return 2;
}

void fl_cli_coroutines(lua_State *L) {
  static const luaL_Reg functions[] = { { "resume", resume }, { "wrap", wrap }, { "close", closed },
                                        { NULL, NULL } };
  lua_getglobal(L, "coroutine");
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}
