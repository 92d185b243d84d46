/*
** Reads profiles for tools/profile.lua, and regions: parts of a script that it names, for a profile
** and for NVIDIA's tools (base/nvtx.h).
*/
#include "lua/binding.h"
#include "base/nvtx.h"
#include "engine/dry.h"
#include "engine/profile.h"
#include "engine/stay.h"
#include "group/group.h"

static int profile_start(lua_State *L) {
  lua_pushboolean(L, fl_profile_start(context_of(L)));
  return 1;
}

static void push_event(lua_State *L, const fl_lua *b, const fl_profile_event *e) {
  char text[96];
  lua_createtable(L, 0, 16);
  set_text(L, "op", e->op);
  fl_device_name(e->device, text);
  set_text(L, "device", text);
  set_text(L, "site", fl_site_text(b, e->site, text));
  set_text(L, "shape", e->shape);
  set_text(L, "dtype", fl_dtype_name(e->dtype));
  set_int(L, "calls", e->calls);
  set_int(L, "bytes", e->bytes);
  set_int(L, "flops", e->flops);
  set_number(L, "start", e->at.start);
  set_number(L, "ms", e->at.ms);
  set_number(L, "host", e->at.host);
  set_number(L, "host_ms", e->at.host_ms);
  lua_pushboolean(L, e->replayed);
  lua_setfield(L, -2, "replayed");
  lua_pushboolean(L, e->kind != FL_EVENT_OP);
  lua_setfield(L, -2, "span");
  lua_pushboolean(L, e->kind == FL_EVENT_REGION);
  lua_setfield(L, -2, "region");
}

/* Pushes the text, with the line of the script that it is about. */
static void push_why(lua_State *L, const fl_lua *b, const char *text, uint32_t site) {
  char place[96];
  fl_site_text(b, site, place);
  lua_pushfstring(L, text[0] && place[0] ? "%s at %s" : "%s", text, place);
}

/* Pushes the list {text =, launches =} of why launches are no graphs. */
static void push_whys(lua_State *L, const fl_lua *b, const fl_profile *p) {
  lua_newtable(L);
  for (int64_t i = 0, n = 0; i < p->whys.n; i++) {
    const fl_profile_why *y = &p->whys.at[i];
    if (!y->text[0]) continue;
    lua_createtable(L, 0, 2);
    push_why(L, b, y->text, y->site);
    lua_setfield(L, -2, "text");
    set_int(L, "launches", y->launches);
    lua_rawseti(L, -2, (lua_Integer)++n);
  }
}

/* internal.replay(x): of the evaluation that would compute x, how many runs it had, how many of
** them were graphs, and why the others were not; nothing if x has a value or is not on a GPU. */
static int replay(lua_State *L) {
  fl_lua *b = self_of(L);
  const fl_box *box = fl_arg_tensor(L, 1, "graph", "x");
  fl_unreplayed y = { 0 };
  fl_program p = { 0 };
  char text[160] = "";
  const int64_t m = fl_lua_enter(L, b);
  flame_context *c = b->c;
  const fl_node *x = node_of(b, box);
  const int asked = x && x->state == FL_PENDING && x->device && !c->trace;
  c->evaluating = 1;
  if (asked && fl_program_make(c, x->device, NULL, 0, &p) == FLAME_OK) {
    fl_plans *plans = &((fl_engine *)c->engine)->plans;
    const fl_plan *of = fl_plans_like(plans, &p);
    y = of ? of->why : fl_plans_differ(plans, &p);
    fl_why_text(&y, of, text, sizeof text);
    fl_program_free(&p);
  }
  c->evaluating = 0;
  fl_lua_leave_status(L, b, m, c->err.code);
  if (!asked) return 0;
  lua_pushinteger(L, y.runs);
  lua_pushinteger(L, y.replays);
  push_why(L, b, text, y.site);
  return 3;
}

/* internal.profile_stop(): the list of what ran, steps of devices and spans of the host; how many
** events were lost for lack of memory; and why launches are no graphs. */
static int profile_stop(lua_State *L) {
  fl_lua *b = self_of(L);
  flame_context *c = context_of(L);
  const fl_profile *p = ((fl_engine *)c->engine)->profile;
  if (p == NULL) return fl_lua_fail(L, "profile", "none is on");
  fl_profile_stop(c);
  lua_createtable(L, (int)(p->events.n < 1 << 20 ? p->events.n : 1 << 20), 0);
  for (int64_t i = 0; i < p->events.n; i++) {
    push_event(L, b, &p->events.at[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_pushinteger(L, p->lost);
  push_whys(L, b, p);
  fl_profile_free(c);
  return 3;
}

/* internal.region_begin(name) -> the argument of region_end. */
static int region_begin(lua_State *L) {
  fl_nvtx_push(luaL_checkstring(L, 1));
  lua_pushnumber(L, fl_trace_now());
  return 1;
}

/* internal.region_end(name, start). If the profile began inside the region, the region starts with
** the profile. */
static int region_end(lua_State *L) {
  const fl_lua *b = self_of(L);
  const char *name = luaL_checkstring(L, 1);
  const double start = luaL_checknumber(L, 2);
  fl_profile *f = b->c ? ((const fl_engine *)b->c->engine)->profile : NULL;
  fl_nvtx_pop();
  if (f) fl_profile_region(f, name, start > f->origin ? start : f->origin);
  return 0;
}

/* internal.whole(f, ...) -> the results of f; f may not yield, so settings around it end with
** it. */
static int whole(lua_State *L) {
  luaL_checkany(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

/* Ends a rehearsal, a run in which devices do nothing (engine/dry.h), also if f raised: calls the
** script's function, which may raise too. */
static int end_rehearsal(lua_State *L) {
  fl_lua *b = self_of(L);
  lua_pushvalue(L, lua_upvalueindex(2));
  const int failed = lua_pcall(L, 0, 0, 0) != LUA_OK;
  if (b->c == NULL) return 0;
  const int64_t m = fl_lua_enter(L, b);
  const flame_status e = fl_dry_end(b->c);
  if (failed) {
    fl_scope_end(b->c, m);
    return lua_error(L);
  }
  fl_lua_leave_status(L, b, m, e);
  return 0;
}

/* internal.rehearse(back, f, ...): f(…) in a rehearsal, and back() at its end. No Lua instructions
** other than those of f and back run between its start and its end, so an interrupt can not leave a
** rehearsal on; f may not yield. */
static int rehearse(lua_State *L) {
  fl_lua *b = self_of(L);
  if (b->c == NULL) fl_lua_raise(L, b);
  if (b->c->group)
    return fl_lua_fail(L, "warmup", "processes of a group run their steps together" FL_DO
                       ": warm up before flame.distributed.init");
  luaL_checkany(L, 2);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 1);
  lua_pushcclosure(L, end_rehearsal, 2);
  lua_setfield(L, -2, "__close");
  lua_setmetatable(L, -2);
  lua_replace(L, 1);
  const int64_t m = fl_lua_enter(L, b);
  fl_lua_leave_status(L, b, m, fl_dry_begin(b->c));
  lua_toclose(L, 1);
  lua_call(L, lua_gettop(L) - 2, 0);
  return 0;
}

const fl_lua_reg fl_reg_profile[] = {
  { "whole", whole, 0 }, { "replay", replay, 0 }, { "rehearse", rehearse, 0 },
  { "profile_start", profile_start, 0 }, { "profile_stop", profile_stop, 0 },
  { "region_begin", region_begin, 0 }, { "region_end", region_end, 0 }, { NULL, NULL, 0 }
};
