/*
** The group of processes, for lua/flame/distributed.lua. Ranks count from 1 here.
*/
#include "lua/binding.h"
#include "group/group.h"

static int push_group(lua_State *L, const fl_group *g) {
  lua_pushinteger(L, g->launch.rank + 1);
  lua_pushinteger(L, g->launch.size);
  lua_pushinteger(L, g->launch.local + 1);
  if (g->launch.by) lua_pushstring(L, g->launch.by);
  else lua_pushnil(L);
  return 4;
}

/* (seconds, the limit of each wait) -> rank, size, local rank, launcher or nil */
static int group_open(lua_State *L) {
  fl_lua *b = self_of(L);
  const double limit = luaL_checknumber(L, 1);
  if (b->c == NULL || !fl_may(b->c, FLAME_WORKERS, "init")) return fl_lua_raise(L, b);
  const int64_t m = fl_lua_enter(L, b);
  fl_lua_leave_status(L, b, m, fl_group_open(b->c, limit));
  b->c->group->limit = limit;
  return push_group(L, b->c->group);
}

/* -> the same, or nothing */
static int group_here(lua_State *L) {
  const fl_lua *b = self_of(L);
  return b->c != NULL && b->c->group != NULL ? push_group(L, b->c->group) : 0;
}

/* -> collectives, bytes of their arrays, bytes sent, seconds in them, seconds of these spent
** waiting, seconds of the GPU in them, seconds of these in which it did nothing else, what
** sends arrays of GPUs ("NCCL 2.28.9") or nil */
static int group_stats(lua_State *L) {
  const fl_lua *b = self_of(L);
  static const fl_group_stats none;
  const fl_group_stats *s = b->c != NULL && b->c->group != NULL ? &b->c->group->stats : &none;
  lua_pushinteger(L, s->calls);
  lua_pushinteger(L, s->bytes);
  lua_pushinteger(L, s->sent);
  lua_pushnumber(L, s->busy);
  lua_pushnumber(L, s->wait);
  lua_pushnumber(L, s->gpu);
  lua_pushnumber(L, s->bare);
  if (b->c != NULL && b->c->group != NULL && b->c->group->over[0])
    lua_pushstring(L, b->c->group->over);
  else lua_pushnil(L);
  return 8;
}

/* -> why arrays of GPUs go through the host, once; afterwards nothing */
static int group_slow(lua_State *L) {
  const fl_lua *b = self_of(L);
  if (b->c == NULL || b->c->group == NULL || !b->c->group->slow) return 0;
  b->c->group->slow = 0;
  lua_pushstring(L, b->c->group->over);
  return 1;
}

const fl_lua_reg fl_reg_group[] = {
  { "group_open", group_open, 0 }, { "group_here", group_here, 0 },
  { "group_stats", group_stats, 0 }, { "group_slow", group_slow, 0 }, { NULL, NULL, 0 }
};
