/*
** The coroutine library of states that flame makes. resume, wrap and close do what Lua's own do,
** and tell the hook (hook.h) which coroutine runs. lua_resume does not raise, so the hook is told
** again however the call ends. A C function that calls lua_resume itself is not noticed: an
** interrupt takes effect when it returns. Upvalue 1 of each: the binding.
**
** If the context has limits, making a coroutine costs steps, and each is a key of a weak table, in
** which they are counted again when the limit of their number seems to be reached.
*/
#include "lua/binding.h"
#include "lua/hook.h"

enum { STEPS_EACH = 1000 };
static const char live_coroutines;                /* registry key */

#if LUA_VERSION_NUM == 504 && LUA_VERSION_RELEASE_NUM < 50406
static int close_thread(lua_State *co, lua_State *from) {
  (void)from;
  return lua_resetthread(co);
}
#else
static int close_thread(lua_State *co, lua_State *from) { return lua_closethread(co, from); }
#endif

/* Moves the n values on top of L to co and runs it: returns how many results it left on L, or -1
** with its error there. */
static int run(lua_State *L, fl_lua *b, lua_State *co, int n) {
  int results = 0;
  if (!lua_checkstack(co, n)) {
    lua_pushliteral(L, "too many arguments to resume");
    return -1;
  }
  lua_xmove(L, co, n);
  lua_State *outer = fl_hook_enter(b, co);
  const int status = lua_resume(co, L, n, &results);
  fl_hook_leave(b, co, outer);
  if (b->c != NULL && fl_is_stuck(b->c)) fl_hook_look(L, b);
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
  const int n = run(L, self_of(L), co, lua_gettop(L) - 1);
  lua_pushboolean(L, n >= 0);
  lua_insert(L, n >= 0 ? -(n + 1) : -2);
  return n >= 0 ? n + 1 : 2;
}

/* Raises the error on top, which ended the coroutine co that wrap made, with the position of the
** call before it. Closes co if it failed; an error in closing its variables replaces the first
** one. */
static int failed(lua_State *L, fl_lua *b, lua_State *co) {
  int status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_State *outer = fl_hook_enter(b, co);
    lua_xmove(L, co, 1);
    status = close_thread(co, L);
    fl_hook_leave(b, co, outer);
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
  lua_State *co = lua_tothread(L, lua_upvalueindex(2));
  const int n = run(L, self_of(L), co, lua_gettop(L));
  return n >= 0 ? n : failed(L, self_of(L), co);
}

/* Counts the living coroutines. */
static int64_t count(lua_State *L) {
  int64_t n = 0;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &live_coroutines);
  for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) n++;
  lua_pop(L, 1);
  return n;
}

/* Accounts for one more coroutine: charges its steps, and raises if there are too many. */
static void account(lua_State *L, fl_lua *b) {
  if (b->c == NULL) return;
  atomic_llong *used = &b->c->limits.used[FLAME_COROUTINES];
  const int64_t most = b->c->limits.most[FLAME_COROUTINES];
  if (b->c->limits.any) fl_hook_charge(L, b, STEPS_EACH);
  if (most > 0 && *used >= most) {
    lua_gc(L, LUA_GCCOLLECT);
    *used = count(L);
  }
  if (most > 0 && *used >= most)
    luaL_error(L, "coroutine: the limit of the context is %I coroutines, and %I are in use",
               (lua_Integer)most, (lua_Integer)*used);
}

static int body(lua_State *L);

/* Pushes a coroutine that begins with the function at 1. */
static lua_State *push_new(lua_State *L, fl_lua *b) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  account(L, b);
  lua_State *co = lua_newthread(L);
  if (b->c != NULL && b->c->limits.any) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &live_coroutines);
    lua_pushvalue(L, -2);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    atomic_fetch_add(&b->c->limits.used[FLAME_COROUTINES], 1);
  }
  lua_pushvalue(L, 1);
  if (b->bounded) lua_pushcclosure(L, body, 1);
  lua_xmove(L, co, 1);
  return co;
}

/* The body of a coroutine in a state with limits: (function, …). An error raised by the hook leaves
** a coroutine in which no hook runs any more, and its to-be-closed variables would be closed
** without a hook; so the function runs under lua_pcallk, which closes them first. */
static int body_ended(lua_State *L, int status, lua_KContext context) {
  (void)context;
  return status == LUA_OK || status == LUA_YIELD ? lua_gettop(L) : lua_error(L);
}

static int body(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  return body_ended(L, lua_pcallk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, 0, body_ended), 0);
}

static int create(lua_State *L) {
  push_new(L, self_of(L));
  return 1;
}

static int wrap(lua_State *L) {
  push_new(L, self_of(L));
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, -2);
  lua_pushcclosure(L, wrapped, 2);
  return 1;
}

static int closed(lua_State *L) {
  lua_State *co = coroutine_at(L, 1);
  const int status = lua_status(co);
  lua_Debug frame;
  if (co == L || (status == LUA_OK && lua_getstack(co, 0, &frame)))
    return luaL_error(L, "cannot close a %s coroutine", co == L ? "running" : "normal");
  lua_State *outer = fl_hook_enter(self_of(L), co);
  const int ended = close_thread(co, L);
  fl_hook_leave(self_of(L), co, outer);
  if (self_of(L)->c != NULL && fl_is_stuck(self_of(L)->c)) fl_hook_look(L, self_of(L));
  lua_pushboolean(L, ended == LUA_OK);
  if (ended == LUA_OK) return 1;
  lua_xmove(co, L, 1);
  return 2;
}

void fl_lua_coroutines(lua_State *L, fl_lua *b) {
  static const luaL_Reg functions[] = { { "resume", resume }, { "wrap", wrap }, { "close", closed },
                                        { "create", create }, { NULL, NULL } };
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &live_coroutines);
  lua_pushlightuserdata(L, b);
  luaL_setfuncs(L, functions, 1);
}
