/*
** Functions that show the library's state, or set it: counters, memory, devices, seeds, settings,
** the last error.
*/
#include "lua/binding.h"
#include "base/env.h"
#include "engine/facts.h"
#include "engine/flight.h"
#include "engine/memory.h"
#include "group/group.h"
#include <stdio.h>
#include <time.h>

/* Sets the field not_replayed: runs on a GPU that were not graphs, by reason. */
static void set_not_replayed(lua_State *L, const fl_stats *s) {
  static const char *const names[] = {
    "",
#define WHY(name, text) #name,
#include "tensor/why.def"
#undef WHY
  };
  lua_newtable(L);
  for (int i = 1; i < FL_WHY_COUNT; i++)
    if (s->not_replayed[i]) set_int(L, names[i], s->not_replayed[i]);
  lua_setfield(L, -2, "not_replayed");
}

static int x_stats(lua_State *L) {
  flame_context *c = context_of(L);
  fl_args(L);
  if (!lua_isnil(L, 1)) {
    memset(&c->stats, 0, sizeof c->stats);
    return 0;
  }
  const fl_stats *s = &c->stats;
  lua_createtable(L, 0, 16);
  set_int(L, "recorded", s->recorded);
  set_int(L, "plans", s->plans);
  set_int(L, "hits", s->hits);
  set_int(L, "replays", s->replays);
  set_not_replayed(L, s);
  set_int(L, "launches", s->launches);
  set_int(L, "compiles", s->compiles);
  set_int(L, "texts", s->texts);
  set_int(L, "bytes_moved", s->bytes_moved);
  set_int(L, "copies", s->copies);
  set_int(L, "collections", s->collections);
  set_int(L, "syncs", s->syncs);
  set_int(L, "live_tensors", c->tensors.live);
  set_int(L, "live_nodes", c->nodes.live);
  set_int(L, "live_bytes", fl_engine_live_bytes(c));
  return 1;
}

/* flame.info(): composed in tools/doctor.lua. */
static int x_info(lua_State *L) {
  context_of(L);
  fl_args(L);
  return fl_core_call(L, "info");
}

static void add_fact(void *arg, const char *name, int ok, const char *text) {
  lua_State *L = (lua_State *)arg;
  lua_createtable(L, 0, 3);
  lua_pushstring(L, name);
  lua_setfield(L, -2, "name");
  lua_pushboolean(L, ok);
  lua_setfield(L, -2, "ok");
  lua_pushstring(L, text);
  lua_setfield(L, -2, "text");
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

/* internal.facts(deep): a list of {name =, ok =, text =} about driver, libraries, cache. */
static int facts(lua_State *L) {
  flame_context *c = context_of(L);
  const int deep = lua_toboolean(L, 1);
  luaL_checkstack(L, 8, "facts");
  lua_newtable(L);
  fl_facts(c, deep, add_fact, L);
  return 1;
}

/* internal.settings(): the environment's switches that are set, {name = value}; Lua's release. */
static int settings(lua_State *L) {
  static const char *const names[] = {
#define ENV(name, def, takes, doc) #name,
#include "base/env.def"
#undef ENV
  };
  lua_newtable(L);
  for (int k = 0; k < FL_ENV_COUNT; k++) {
    const char *value = fl_env(k);
    if (value == NULL || value[0] == 0) continue;
    lua_pushstring(L, value);
    lua_setfield(L, -2, names[k]);
  }
  lua_pushstring(L, LUA_RELEASE);
  return 2;
}

/* flame.eval(x, …): evaluates these; flame.eval(): everything recorded. */
static int x_eval(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_args(L);
  const int n = lua_gettop(L);
  const int64_t m = fl_lua_enter(L, b);
  flame_status e = FLAME_OK;
  if (n == 0) e = b->c->up->evaluate_all(b->c);
  for (int i = 1; e == FLAME_OK && i <= n; i++) {
    fl_node *x = node_of(b, box_at(L, i));
    if (x == NULL) e = b->c->err.code;
    else if (!b->c->trace) e = b->c->up->evaluate(b->c, x);
  }
  fl_lua_leave_status(L, b, m, e);
  return n;
}

/* Computes everything recorded, and waits for the devices. */
static void wait_for_all(lua_State *L, fl_lua *b) {
  const int64_t m = fl_lua_enter(L, b);
  flame_status e = b->c->up->evaluate_all(b->c);
  if (e == FLAME_OK) e = fl_flight_tell(b->c);
  fl_engine *g = (fl_engine *)b->c->engine;
  for (int i = 0; e == FLAME_OK && i < FL_MAX_DEVICES; i++) {
    fl_fault fault = { .site = -1 };
    if (g->open[i]) e = g->device[i].table->sync(&g->device[i], &fault);
  }
  fl_lua_leave_status(L, b, m, e);
}

static int x_synchronize(lua_State *L) {
  fl_args(L);
  wait_for_all(L, self_of(L));
  return 0;
}

static int x_seed(lua_State *L) {
  flame_context *c = context_of(L);
  fl_args(L);
  flame_seed(c, (uint64_t)lua_tointeger(L, 1));
  self_of(L)->seedings++;
  return 0;
}

/* flame.rng_state(): {seed =, counter =}; flame.rng_state(s) restores it. */
static int x_rng_state(lua_State *L) {
  flame_context *c = context_of(L);
  fl_args(L);
  if (lua_isnil(L, 1)) {
    lua_createtable(L, 0, 2);
    set_int(L, "seed", (int64_t)c->rng.seed);
    set_int(L, "counter", (int64_t)c->rng.counter);
    return 1;
  }
  lua_getfield(L, 1, "seed");
  lua_getfield(L, 1, "counter");
  const int top = lua_gettop(L);
  const int64_t seed = fl_arg_int(L, top - 1, "rng_state", "seed"), counter = fl_arg_int(L,
      top, "rng_state", "counter");
  c->rng.seed = (uint64_t)seed;
  c->rng.counter = (uint64_t)counter;
  return 0;
}

static int x_default_device(lua_State *L) {
  flame_context *c = context_of(L);
  char name[16];
  fl_args(L);
  if (!lua_isnil(L, 1)) c->default_device = (uint8_t)fl_arg_device(L, 1, "default_device");
  fl_device_name(c->default_device, name);
  lua_pushstring(L, name);
  return 1;
}

static int x_best_device(lua_State *L) {
  const flame_context *c = self_of(L)->c;
  fl_args(L);
  const int n = c->sim ? 0 : fl_cuda_count(NULL, 0), own = c->group ? c->group->launch.local : 0;
  char name[16];
  fl_device_name(n > 0 ? 1 + own % n : 0, name);
  lua_pushstring(L, n > 0 && own % n == 0 ? "cuda" : name);
  return 1;
}

static int x_cuda_available(lua_State *L) {
  char reason[200] = "";
  fl_args(L);
  const int n = fl_cuda_count(reason, sizeof reason);
  lua_pushboolean(L, n > 0);
  if (n > 0) return 1;
  fl_error_plain(reason);
  lua_pushstring(L, reason);
  return 2;
}

static int x_cuda_count(lua_State *L) {
  char reason[200];
  fl_args(L);
  lua_pushinteger(L, fl_cuda_count(reason, sizeof reason));
  return 1;
}

static int x_deterministic(lua_State *L) {
  flame_context *c = context_of(L);
  fl_args(L);
  if (!lua_isnil(L, 1)) c->deterministic = (uint8_t)lua_toboolean(L, 1);
  lua_pushboolean(L, c->deterministic);
  return 1;
}

/* internal.tf32(on): may products round to TF32? before; on, if it is given, is set. */
static int tf32(lua_State *L) {
  flame_context *c = context_of(L);
  lua_pushboolean(L, c->tf32);
  if (!lua_isnoneornil(L, 1)) c->tf32 = (uint8_t)lua_toboolean(L, 1);
  return 1;
}

/* flame.debug(level) -> the previous level; flame.debug(true | false), which turns waiting after
** each launch on a GPU on or off -> the previous setting. */
static int x_debug(lua_State *L) {
  flame_context *c = context_of(L);
  fl_engine *e = (fl_engine *)c->engine;
  fl_args(L);
  if (self_of(L)->bounded && !lua_isnil(L, 1))
    return fl_lua_fail(L, "debug", "a state with limits writes nothing to the standard error");
  if (lua_isboolean(L, 1)) {
    const int before = c->sync_each, on = lua_toboolean(L, 1);
    fl_engine_debug_cuda(c, on);
    lua_settop(L, 0);
    if (on && !before) fl_core_call(L, "debug_block");
    lua_pushboolean(L, before);
    return 1;
  }
  const int before = e->debug;
  if (!lua_isnil(L, 1)) fl_engine_debug(c, (int)lua_tointeger(L, 1));
  lua_pushinteger(L, before);
  return 1;
}

static int x_anomaly(lua_State *L) {
  flame_context *c = context_of(L);
  fl_args(L);
  if (!lua_isnil(L, 1)) c->anomaly = (uint8_t)lua_toboolean(L, 1);
  lua_pushboolean(L, c->anomaly != 0);
  return 1;
}

static int x_autograd_stats(lua_State *L) {
  flame_context *c = context_of(L);
  fl_args(L);
  lua_createtable(L, 0, 2);
  set_int(L, "entries", c->entries.live);
  set_int(L, "recorded", c->sequence);
  return 1;
}

/* Empties the tape, and turns the grad mode on and anomaly off, as in a fresh context. Leaves stay
** leaves. */
static int x_autograd_reset(lua_State *L) {
  fl_lua *b = self_of(L);
  flame_context *c = context_of(L);
  fl_args(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_lua_leave_status(L, b, m, fl_entries_forget(c));
  c->grad_mode = 1;
  c->anomaly = 0;
  return 0;
}

static int x_last_error(lua_State *L) {
  static const char *const codes[] = { "ok", "bad argument", "bad value", "no memory",
      "no device", "device lost",
                                       "interrupted", "io", "not supported", "internal" };
  fl_lua *b = self_of(L);
  fl_args(L);
  if (b->last.code == FLAME_OK) return 0;
  lua_createtable(L, 0, 4);
  lua_pushstring(L, codes[b->last.code]);
  lua_setfield(L, -2, "code");
  lua_pushstring(L, b->last.op);
  lua_setfield(L, -2, "op");
  lua_pushstring(L, b->last.message);
  lua_setfield(L, -2, "message");
  lua_pushstring(L, b->last.hint);
  lua_setfield(L, -2, "hint");
  return 1;
}

/* internal.fail(op, message): raises like the C functions. However long the message is, its remedy
** (base/error.h) is included. */
static int fail(lua_State *L) {
  const char *text = luaL_checkstring(L, 2), *remedy = strrchr(text, FL_DO[0]);
  const size_t facts = remedy != NULL ? (size_t)(remedy - text) : strlen(text);
  const size_t most = sizeof self_of(L)->last.message;
  return fl_lua_fail(L, luaL_optstring(L, 1, ""), "%.*s%s", (int)(facts < most ? facts : most),
                     text, remedy != NULL ? remedy : "");
}

/* internal.load(): everything written in Lua is loaded, also if an earlier load had no memory for
** all of it. */
static int load_core(lua_State *L) {
  fl_core_load(L, self_of(L));
  return 0;
}

/* internal.hint(word, known): the hint in a message about a word that is not a key of the table. */
static int hint(lua_State *L) {
  char out[64];
  luaL_checktype(L, 2, LUA_TTABLE);
  fl_word_guess g = fl_word_begin(luaL_checkstring(L, 1));
  fl_offer_keys(L, 2, &g);
  lua_pushstring(L, fl_word_hint(&g, out));
  return 1;
}

/* internal.pin(): the script's line is looked up once; until internal.unpin() all ops get that
** line. */
static int pin(lua_State *L) {
  fl_lua *b = self_of(L);
  if (b->pinned == 0) b->pin = fl_lua_site(L, b);
  b->pinned++;
  return 0;
}

static int unpin(lua_State *L) {
  fl_lua *b = self_of(L);
  if (b->pinned > 0) b->pinned--;
  return 0;
}

static int callable(lua_State *L) {
  lua_pushboolean(L, fl_is_callable(L, 1));
  return 1;
}

static int is_tensor(lua_State *L) {
  if (lua_gettop(L) != 1) fl_args(L);              /* called very often */
  lua_pushboolean(L, box_at(L, 1) != NULL);
  return 1;
}

/* internal.is_view(x): is x a handle of a view, to which writes raise? */
static int is_view(lua_State *L) {
  const fl_box *x = box_at(L, 1);
  lua_pushboolean(L, x != NULL && x->t != NULL && x->t->view);
  return 1;
}

/* internal.metamethod(name[, f]): returns an operator of tensors, or sets it to f. */
static int metamethod(lua_State *L) {
  lua_settop(L, 2);
  if (!lua_isnil(L, 2)) lua_setfield(L, lua_upvalueindex(2), luaL_checkstring(L, 1));
  else lua_getfield(L, lua_upvalueindex(2), luaL_checkstring(L, 1));
  return 1;
}

/* ---- internal.graph(x, tape): pending nodes that x needs; tape: also those kept for backward
** ----- */
static int inputs_of(const fl_node *n, int tape) {
  return n->state == FL_PENDING || (tape && n->entry != NULL) ? n->nin : 0;
}

/* Sets the fields about n's autograd state: is it tracked, is it a leaf, did a backward free the
** record of its op, is its op without a gradient (nograd). */
static void set_facts(lua_State *L, const fl_node *n) {
  lua_pushboolean(L, n->entry != NULL);
  lua_setfield(L, -2, "tracked");
  lua_pushboolean(L, n->entry != NULL && n->entry->leaf);
  lua_setfield(L, -2, "leaf");
  lua_pushboolean(L, n->entry != NULL && n->entry->spent);
  lua_setfield(L, -2, "spent");
  lua_pushboolean(L, fl_ops[n->op].nograd);
  lua_setfield(L, -2, "nograd");
}

/* The number of a node in the table at 'at', whose keys are nodes (light userdata); 0: it has none
** yet. */
static lua_Integer number_of(lua_State *L, int at, const fl_node *n) {
  lua_rawgetp(L, at, n);
  const lua_Integer k = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return k;
}

/* Pushes {op =, shape =, dtype =, state =, site =, inputs = {numbers}}. */
static void push_recorded(lua_State *L, const fl_lua *b, const fl_node *n, int numbers, int tape) {
  static const char *const states[] = { "number", "pending", "stored", "failed" };
  char place[96];
  const char *state = n->state == FL_PENDING ? states[1] : n->state == FL_STORED ? states[2]
      : n->state == FL_FAILED ? states[3] : states[0];
  lua_createtable(L, 0, tape ? 10 : 6);
  const int made = inputs_of(n, tape) > 0 || n->state == FL_PENDING;
  lua_pushstring(L, made ? fl_ops[n->op].name : "value");
  lua_setfield(L, -2, "op");
  fl_push_sizes(L, n->shape->rank, n->shape->size);
  lua_setfield(L, -2, "shape");
  lua_pushstring(L, fl_dtype_name(n->dtype));
  lua_setfield(L, -2, "dtype");
  lua_pushstring(L, state);
  lua_setfield(L, -2, "state");
  lua_pushstring(L, fl_site_text(b, n->site, place));
  lua_setfield(L, -2, "site");
  lua_newtable(L);
  for (int k = 0, i = 0; i < inputs_of(n, tape); i++) {
    if (n->in[i] == NULL) continue;
    lua_pushinteger(L, number_of(L, numbers, n->in[i]));
    lua_rawseti(L, -2, ++k);
  }
  lua_setfield(L, -2, "inputs");
  if (tape) set_facts(L, n);
}

/* Lists inputs before their users. The stack of the traversal is a Lua table, not the C stack. */
static int recorded(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_box *x = fl_arg_tensor(L, 1, "graph", "x");
  const int tape = lua_toboolean(L, 2);
  lua_settop(L, 1);
  lua_newtable(L);                                  /* 2: the answer */
  lua_newtable(L);                                  /* 3: node -> number */
  lua_newtable(L);                                  /* index 4: nodes to visit, the last first */
  lua_pushlightuserdata(L, x->t->node);
  lua_rawseti(L, 4, 1);
  for (lua_Integer todo = 1, done = 0; todo > 0;) {
    lua_rawgeti(L, 4, todo);
    const fl_node *n = (const fl_node *)lua_touserdata(L, -1);
    lua_pop(L, 1);
    const lua_Integer before = todo;
    const int inputs = number_of(L, 3, n) == 0 ? inputs_of(n, tape) : 0;
    for (int i = inputs - 1; i >= 0; i--) {
      if (n->in[i] == NULL || number_of(L, 3, n->in[i]) != 0) continue;
      lua_pushlightuserdata(L, n->in[i]);
      lua_rawseti(L, 4, ++todo);
    }
    if (todo > before) continue;
    todo--;
    if (number_of(L, 3, n) != 0) continue;
    push_recorded(L, b, n, 3, tape);
    lua_rawseti(L, 2, ++done);
    lua_pushinteger(L, done);
    lua_rawsetp(L, 3, n);
  }
  lua_settop(L, 2);
  return 1;
}

/* Wall-clock seconds from an arbitrary origin. */
static double clock_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int elapsed(lua_State *L) {
  if (lua_toboolean(L, lua_upvalueindex(3))) wait_for_all(L, self_of(L));
  lua_pushnumber(L, clock_now() - lua_tonumber(L, lua_upvalueindex(2)));
  return 1;
}

/* flame.timer(): returns a function that tells the seconds since this call. Work that is still
** queued is not included, unless sync is true: then both ends wait for the devices. */
static int x_timer(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_args(L);
  if (b->c == NULL || !fl_may(b->c, FLAME_CLOCK, "timer")) return fl_lua_raise(L, b);
  const int sync = lua_toboolean(L, 1);
  if (sync) wait_for_all(L, b);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushnumber(L, clock_now());
  lua_pushboolean(L, sync);
  lua_pushcclosure(L, elapsed, 3);
  return 1;
}

const fl_lua_reg fl_reg_inspect[] = {
  { ".stats(what?: \"reset\") -> table\n"
    "--- counters of the session; \"reset\" zeroes them. replays: runs on a GPU that were CUDA "
    "graphs; not_replayed: those that were not, by reason",
    x_stats, 0 },
  { ".info() -> str\n"
    "--- versions, devices, memory",
    x_info, 0 },
  { ".eval(tensors...: T) -> ...\n"
    "--- computes these now; nothing: all that is recorded",
    x_eval, 0 },
  { ".synchronize(device?: device)\n"
    "--- computes all that is recorded, and waits for all devices",
    x_synchronize, 0 },
  { ".seed(seed: int)\n"
    "--- starts the generator again from this seed",
    x_seed, 0 },
  { ".rng_state(state?: table) -> table\n"
    "--- the generator's state, or sets it",
    x_rng_state, 0 },
  { ".default_device(device?: device) -> str\n"
    "--- the device of new tensors, or sets it",
    x_default_device, 0 },
  { ".best_device() -> str\n"
    "--- \"cuda\" where one works, else \"cpu\"; in a group of processes (flame.distributed) each "
    "of a host has a different GPU",
    x_best_device, 0 },
  { ".deterministic(on?: bool) -> bool\n"
    "--- are results the same bits at each run (true, the default)? false: gradients of "
    "kernels and attention, f32 convolutions, and what scatter_add, index_add and the gradients "
    "of gather and embedding add in f32 and f64, on a GPU may add up in any order. Sums of a "
    "kernel's gradient in shared memory may always do so: k:report() names them",
    x_deterministic, 0 },
  { ".debug(level?: int|bool) -> int|bool\n"
    "--- a level prints plans and kernels as they are made, as FLAME_DEBUG; true: the debug switch "
    "of CUDA, as DEBUG_CUDA=1, false: off. Gives what was set before",
    x_debug, 0 },
  { ".last_error() -> table\n"
    "--- {code =, op =, message =, hint =} of the last error",
    x_last_error, 0 },
  { ".is_tensor(x?: table|any) -> bool\n"
    "--- is x a tensor",
    is_tensor, 0 },
  { ".timer(*, sync = false) -> fn\n"
    "--- a clock: each call gives the seconds since; sync: with all work done, here and at each "
    "call",
    x_timer, 0 },
  { "cuda.available() -> bool\n"
    "--- does a GPU work",
    x_cuda_available, 0 },
  { "cuda.count() -> int\n"
    "--- how many GPUs work",
    x_cuda_count, 0 },
  { "autograd.anomaly(on?: bool) -> bool\n"
    "--- names the first operation that makes a NaN or Inf",
    x_anomaly, 0 },
  { "autograd.stats() -> table\n"
    "--- counts of what is kept for gradients",
    x_autograd_stats, 0 },
  { "autograd.reset()\n"
    "--- forgets all that is recorded for gradients: only leaves are tracked; grad mode "
    "on, anomaly mode off",
    x_autograd_reset, 0 },
  { "fail", fail, 0 }, { "hint", hint, 0 }, { "load", load_core, 0 },
  { "tf32", tf32, 0 }, { "pin", pin, 0 },
  { "unpin", unpin, 0 }, { "callable", callable, 0 }, { "is_view", is_view, 0 },
  { "facts", facts, 0 }, { "settings", settings, 0 }, { "graph", recorded, 0 },
  { "metamethod", metamethod, 0 }, { NULL, NULL, 0 }
};
