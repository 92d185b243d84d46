/* The hook: see hook.h. */
#include "lua/hook.h"
#include "lua/binding.h"

enum { CALLS = LUA_MASKCALL | LUA_MASKRET, ALL = CALLS | LUA_MASKLINE | LUA_MASKCOUNT };

static void hook(lua_State *L, lua_Debug *ar);

fl_lua *fl_hook_of(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_state);
  fl_lua *b = (fl_lua *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return b;
}

/* Sets L's hook as the fields of b ask. A hook of the script's own stays unless ours is needed. A
** strike (fl_hook_strike) that has not ended the work yet has priority. */
static void settle(lua_State *L, const fl_lua *b) {
  const int each = b->each && fl_is_stuck(b->c) ? 1 : b->each, ours = lua_gethook(L) == hook;
  const int mask = (each > 0 ? LUA_MASKCOUNT : 0) | (b->noted ? CALLS : 0);
  if (mask == 0 && ours) lua_sethook(L, NULL, 0, 0);
  if (mask != 0 && (!ours || lua_gethookmask(L) != mask || lua_gethookcount(L) != each))
    lua_sethook(L, hook, mask, each);
  if (b->struck) lua_sethook(L, hook, ALL, 1);
}

static _Noreturn void end_work(lua_State *L, const char *why) {
  lua_Debug ar;
  int level = 0;                              /* the innermost frame that has a line */
  while (level < 9 && lua_getstack(L, level, &ar) && lua_getinfo(L, "l", &ar) &&
         ar.currentline < 0)
    level++;
  luaL_where(L, level);
  lua_pushstring(L, why);
  lua_concat(L, 2);
  for (;;) lua_error(L);
}

void fl_hook_look(lua_State *L, fl_lua *b) {
  char why[160];
  if (b->c == NULL || (!b->struck && !fl_must_end(b->c))) return;
  if (fl_is_stuck(b->c)) {
    settle(L, b);
    fl_stuck_text(b->c, why, sizeof why);
    end_work(L, why);
  }
  b->struck = 0;
  fl_take_interrupt(b->c);
  settle(L, b);
  end_work(L, "interrupted!");
}

void fl_hook_charge(lua_State *L, fl_lua *b, long long n) {
  if (b->c == NULL) return;
  if (b->c->limits.most[FLAME_LUA_STEPS] > 0) fl_use(b->c, FLAME_LUA_STEPS, n);
  fl_hook_look(L, b);
}

/* While this runs, Lua calls no hook, not even in message handlers of errors that it raises: such
** handlers must take that into account. */
static void hook(lua_State *L, lua_Debug *ar) {
  fl_lua *b = fl_hook_of(L);
  if (b == NULL || b->c == NULL) {
    lua_sethook(L, NULL, 0, 0);
    return;
  }
  const int mask = lua_gethookmask(L), event = ar->event;
  const int n = event == LUA_HOOKCOUNT && mask != ALL ? lua_gethookcount(L) : 0;
  const int is_call = event != LUA_HOOKCOUNT && event != LUA_HOOKLINE;
  if (is_call && b->noted) b->noted(L, b, ar);
  if (is_call && b->noted && mask != ALL) return;
  b->ending = 1;
  fl_hook_charge(L, b, n);
  b->ending = 0;
  settle(L, b);
}

void fl_hook_stand(lua_State *L, fl_lua *b) {
  if (b->each == 0) b->each = FL_HOOK_EACH;
  settle(b->running, b);
  if (L != b->running) settle(L, b);
}

int fl_hook_note(lua_State *L, fl_lua *b, fl_note f) {
  if (f != NULL && b->noted != NULL) return 0;
  b->noted = f;
  settle(L, b);
  if (b->running != NULL && b->running != L) settle(b->running, b);
  return 1;
}

void fl_hook_begin(lua_State *L, fl_lua *b, int restart) {
  if (b->calls++ > 0 || b->c == NULL) return;
  if (restart) fl_limits_restart_call(b->c);
  b->running = L;
  b->struck = b->ending = 0;
  for (int k = FLAME_CALL_NS; k <= FLAME_OUTPUT_BYTES; k++)
    if (b->c->limits.most[k] > 0 && b->each == 0) b->each = FL_HOOK_EACH;
  settle(L, b);
  fl_time_begin(b->c);
}

/* The call is over. If an interrupt came too late for it, it must not end the next one. */
void fl_hook_end(lua_State *L, fl_lua *b) {
  if (--b->calls > 0 || b->c == NULL) return;
  fl_time_end(b->c);
  b->struck = 0;
  fl_take_interrupt(b->c);
  b->running = b->main;
  settle(L, b);
}

void fl_hook_strike(fl_lua *b) {
  for (; b != NULL; b = b->inner) {
    b->struck = 1;
    if (b->running != NULL) lua_sethook(b->running, hook, ALL, 1);
  }
}

lua_State *fl_hook_enter(fl_lua *b, lua_State *co) {
  lua_State *outer = b->running;
  if (b->c == NULL) return outer;
  b->running = co;
  settle(co, b);
  return outer;
}

/* If a strike (a request that the running code end, hook.h) had no effect in the coroutine, it
** applies to the thread that continues. */
void fl_hook_leave(fl_lua *b, lua_State *co, lua_State *outer) {
  if (b->c == NULL) return;
  b->running = outer;
  if (!b->struck && b->each == 0) settle(co, b);
  settle(outer, b);
}
