/*
** The grad mode: no_grad, enable_grad and their guards. The context has one mode; a guard that a
** coroutine has open holds in it and in those that it resumes, not in the one to which it yields.
**
** A coroutine with open guards has a record, found by it in a weak table. While the coroutine runs,
** or one that it has resumed, the record is *active*: 'outside' is the mode that holds outside of
** its guards. Active records are a list from the innermost outwards: the registry has the first
** coroutine, and each record's user value the next. Lua does not tell when a coroutine yields or is
** resumed, so while there are records each call of the library brings the list up to date
** (fl_mode_look): records of coroutines that have yielded or ended are parked, with the mode that
** held in them ('inside'), and those of coroutines that run again are activated. If two that have
** not called the library since are found at once, the one that runs counts as the inner one.
*/
#include "lua/binding.h"

/* In the registry: the table of records, and the coroutine of the first active one or false. */
static const char key_records, key_first;

typedef struct record { int64_t open; uint8_t active, outside, inside; } record;

#define GUARD_MAGIC UINT64_C(0x666c616d652d6764)
/* A guard's size differs from that of every other userdata of the library. of: a record, which the
** user value holds; NULL: that of the main thread, which has none. */
typedef struct guard { uint64_t magic; int previous, open; record *of; } guard;

/* ---- coroutines ------------------------------------------------------------------------------ */

/* Pushes the record of the thread on top, or nil, in its place. */
static record *push_record(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_records);
  lua_insert(L, -2);
  lua_rawget(L, -2);
  lua_remove(L, -2);
  return (record *)lua_touserdata(L, -1);
}

/* Does T run, or wait for a coroutine that it has resumed? */
static int is_running(lua_State *L, lua_State *T) {
  lua_Debug ar;
  return T == L || (lua_status(T) == LUA_OK && lua_getstack(T, 0, &ar));
}

/* Puts the record on top, whose coroutine is below it, before the active ones. Needs no memory. */
static void activate(lua_State *L, record *r, int outside) {
  r->active = 1;
  r->outside = (uint8_t)outside;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_first);
  lua_setiuservalue(L, -2, 1);
  lua_pushvalue(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_first);
}

/* Takes the record on top, the first active one, off the list. */
static void take_off(lua_State *L, record *r) {
  r->active = 0;
  lua_getiuservalue(L, -1, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_first);
}

static void park(lua_State *L, fl_lua *b) {
  for (record *r = NULL;; lua_pop(L, 1)) {
    const int any = lua_rawgetp(L, LUA_REGISTRYINDEX, &key_first) == LUA_TTHREAD;
    r = any && !is_running(L, lua_tothread(L, -1)) ? push_record(L) : NULL;
    if (!r) break;
    r->inside = b->c->grad_mode;
    b->c->grad_mode = r->outside;
    take_off(L, r);
  }
  lua_pop(L, 1);
}

/* Activates records of coroutines that run, that of L itself only if 'own' is true. Returns how
** many there are with open guards. */
static int64_t wake(lua_State *L, fl_lua *b, int own) {
  int64_t n = 0;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_records);
  for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
    record *r = (record *)lua_touserdata(L, -1);
    lua_State *T = lua_tothread(L, -2);
    n += r->open > 0;
    if (r->open == 0 || r->active || (T == L) != own || !is_running(L, T)) continue;
    activate(L, r, b->c->grad_mode);
    b->c->grad_mode = r->inside;
  }
  lua_pop(L, 1);
  return n;
}

void fl_mode_look(lua_State *L, fl_lua *b) {
  if (b->c == NULL || !lua_checkstack(L, 6)) return;
  park(L, b);
  wake(L, b, 0);
  b->modes = wake(L, b, 1);
  if (b->modes == 0) b->seen = L;
}

/* Pushes the record of L, a coroutine, which is made if there is none. */
static record *own_record(lua_State *L) {
  lua_pushthread(L);
  record *r = push_record(L);
  if (r) return r;
  lua_pop(L, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_records);
  lua_pushthread(L);
  r = (record *)lua_newuserdatauv(L, sizeof *r, 1);
  *r = (record){ 0 };
  lua_pushvalue(L, -1);
  lua_insert(L, -4);
  lua_rawset(L, -3);
  lua_pop(L, 1);
  return r;
}

/* The guard of record r is closed: the mode that held before it is taken up again. */
static void leave(lua_State *L, fl_lua *b, record *r, int previous) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_first);
  const int first = lua_isthread(L, -1) && push_record(L) == r;
  b->modes -= --r->open == 0;
  if (!r->active) r->inside = (uint8_t)previous;
  else flame_grad_mode(b->c, r->open == 0 ? r->outside : previous);
  if (first && r->open == 0) take_off(L, r);
  lua_pop(L, 1);
}

/* ---- guards ---------------------------------------------------------------------------------- */

static int guard_close(lua_State *L) {
  fl_lua *b = self_of(L);
  guard *g = (guard *)lua_touserdata(L, 1);
  if (g == NULL || lua_rawlen(L, 1) != sizeof *g || g->magic != GUARD_MAGIC || !g->open) return 0;
  g->open = 0;
  if (b->c == NULL) return 0;
  fl_lua_on(L, b);
  if (g->of) leave(L, b, g->of, g->previous);
  else flame_grad_mode(b->c, g->previous);
  return 0;
}

void fl_guard_metatable(lua_State *L, fl_lua *b) {
  lua_createtable(L, 0, 4);
  lua_pushliteral(L, "flame.guard");
  lua_setfield(L, -2, "__name");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  fl_push_closure(L, b, guard_close);
  lua_setfield(L, -2, "__close");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_guard);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_records);
  lua_pushboolean(L, 0);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_first);
}

static int after_call(lua_State *L, int status, lua_KContext k) {
  (void)status;
  (void)k;
  return lua_gettop(L) - 1;
}

/* Pushes a guard, open, of the mode. */
static void push_guard(lua_State *L, fl_lua *b, int on) {
  const int alone = L == b->main;
  fl_lua_on(L, b);
  luaL_checkstack(L, 8, "a guard");
  guard *g = (guard *)lua_newuserdatauv(L, sizeof *g, !alone);
  *g = (guard){ .magic = GUARD_MAGIC };
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_guard);
  lua_setmetatable(L, -2);
  record *r = alone ? NULL : own_record(L);
  g->previous = flame_grad_mode(b->c, on);
  g->open = 1;
  g->of = r;
  if (alone) return;
  b->modes += r->open == 0;
  b->seen = NULL;
  lua_pushthread(L);
  lua_insert(L, -2);
  if (r->open++ == 0 && !r->active) activate(L, r, g->previous);
  lua_setiuservalue(L, -3, 1);
  lua_pop(L, 1);
}

/* mode(f, …): f's results, run in that mode; mode(): a guard for <close>. */
static int mode(lua_State *L, int on) {
  fl_lua *b = self_of(L);
  if (b->c == NULL) return fl_lua_raise(L, b);
  const int with = fl_args(L) == 0;
  push_guard(L, b, on);
  if (!with) return 1;
  lua_insert(L, 1);
  lua_toclose(L, 1);
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, after_call);
  return after_call(L, LUA_OK, 0);
}

static int g_no_grad(lua_State *L) { return mode(L, 0); }
static int g_enable_grad(lua_State *L) { return mode(L, 1); }

static int g_is_grad_enabled(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_args(L);
  if (b->c != NULL) fl_lua_on(L, b);
  lua_pushboolean(L, b->c != NULL && b->c->grad_mode);
  return 1;
}

const fl_lua_reg fl_reg_mode[] = {
  { ".no_grad(f: fn, ...) -> ...\n"
    ".no_grad() -> Guard\n"
    "--- without tracking: calls f, or gives a guard for <close>",
    g_no_grad, 0 },
  { ".enable_grad(f: fn, ...) -> ...\n"
    ".enable_grad() -> Guard\n"
    "--- with tracking: calls f, or gives a guard for <close>",
    g_enable_grad, 0 },
  { ".is_grad_enabled() -> bool\n"
    "--- is work tracked",
    g_is_grad_enabled, 0 },
  { NULL, NULL, 0 }
};
