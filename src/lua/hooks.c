/*
** What specs can ask of a build for tests (base/hooks.h): failing allocations, forgotten plans,
** planted bugs, an interrupt, another limit of recorded ops, steps of the collector that no clock
** delays, another current folder. A release has none of these.
*/
#include "lua/binding.h"
#include "base/hooks.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* internal.fail_alloc(k, forever): the k-th allocation from now on fails, and with 'forever' all
** after it; 0: none -> the number of allocations so far. */
static int fail_alloc(lua_State *L) {
  flame_context *c = context_of(L);
  const int64_t k = luaL_checkinteger(L, 1);
  c->mem.fail_at = k > 0 ? c->mem.calls + k : 0;
  c->mem.fail_forever = lua_toboolean(L, 2);
  lua_pushinteger(L, c->mem.calls);
  return 1;
}

/* internal.forget_plans(): the next evaluations plan again. */
static int forget_plans(lua_State *L) {
  flame_context *c = context_of(L);
  fl_engine *e = (fl_engine *)c->engine;
  fl_plans_close(&e->plans);
  if (!fl_plans_init(&e->plans, &c->mem)) return fl_lua_fail(L, "forget_plans", "no host memory");
  return 0;
}

/* internal.plant(k): the k-th planner bug (FL_PLANT_*) is active from now on; 0: none. Drops the
** plans made before. */
static int plant(lua_State *L) {
  flame_context *c = context_of(L);
  const int64_t k = luaL_checkinteger(L, 1);
  if (k < 0 || k >= FL_PLANT_COUNT) return luaL_argerror(L, 1, "no such bug");
  c->planted = (uint8_t)k;
  return forget_plans(L);
}

/* internal.interrupt(): the same as Ctrl-C. */
static int interrupt(lua_State *L) {
  flame_interrupt(context_of(L));
  return 0;
}

/* internal.budget(n): evaluate after n recorded ops -> the number before. */
static int budget(lua_State *L) {
  flame_context *c = context_of(L);
  lua_pushinteger(L, c->budget);
  if (!lua_isnoneornil(L, 1)) c->budget = fl_arg_int(L, 1, "budget", "n");
  return 1;
}

/* internal.collector_waits(n): a step of the collector is done when n values are pending, 0: before
** each evaluation; nil: depending on its measured time. */
static int collector_waits(lua_State *L) {
  fl_collecting *k = &((fl_engine *)context_of(L)->engine)->collect;
  k->told = !lua_isnoneornil(L, 1);
  k->least = k->told ? luaL_checkinteger(L, 1) : 0;
  k->dear = 0;
  return 0;
}

/* internal.enter_folder(path): changes the current folder -> the one before. */
static int enter_folder(lua_State *L) {
  char before[4096];
  const char *path = luaL_checkstring(L, 1);
  if (getcwd(before, sizeof before) == NULL || chdir(path) != 0)
    return fl_lua_fail(L, "enter_folder", "%s: %s", path, strerror(errno));
  lua_pushstring(L, before);
  return 1;
}

const fl_lua_reg *fl_hooks(void) {
  static const fl_lua_reg list[] = {
    { "fail_alloc", fail_alloc, 0 }, { "forget_plans", forget_plans, 0 }, { "plant", plant, 0 },
    { "interrupt", interrupt, 0 }, { "budget", budget, 0 },
    { "collector_waits", collector_waits, 0 },
    { "enter_folder", enter_folder, 0 }, { NULL, NULL, 0 }
  }, none[] = { { NULL, NULL, 0 } };
  return FL_HOOKS ? list : none;
}
