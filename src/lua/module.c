/*
** luaopen_flame: one context per state, the module's table, the metatable of tensors.
**
** Order at lua_close: the context's userdata is the first of ours to get a __gc, so it is the
** last to be finalised; boxes finalised before it release their references. Boxes that finalisers
** make while the state closes are not finalised any more: they are found in the list of all boxes.
** Functions of lua/flame are loaded at the first use of a name that C does not know (library.c).
*/
#include "lua/bounded.h"
#include "engine/flight.h"
#include "group/group.h"
#include "lua/crew.h"
#include "lua/embedded.h"
#include "lua/flame_lua.h"
#include "lua/heap.h"
#include "lua/host.h"
#include "lua/state.h"
#include <stdio.h>

void fl_push_closure(lua_State *L, fl_lua *b, lua_CFunction f) {
  lua_pushlightuserdata(L, b);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_meta) == LUA_TNIL) lua_pushnil(L),
      lua_remove(L, -2);
  lua_pushcclosure(L, f, 2);
}

void fl_lua_mark(lua_State *L, const void *mark) {
  lua_pushboolean(L, 1);
  lua_rawsetp(L, -2, mark);
}

void *fl_lua_marked(lua_State *L, int i, const void *mark) {
  if (lua_type(L, i) != LUA_TUSERDATA || !lua_getmetatable(L, i)) return NULL;
  const int ours = lua_rawgetp(L, -1, mark) != LUA_TNIL;
  lua_pop(L, 2);
  return ours ? lua_touserdata(L, i) : NULL;
}

/* ---- collector ---------------------------------------------------------------------------- */
/* These functions work in any mode of the host's collector; engine/collect.c calls them. */
/* Finds the collector's mode. Lua returns it only when a mode is set, so the last known mode is
** set, which does nothing if it is still the mode; otherwise the host's mode is set again, which
** costs a full collection for each change by the host. */
static void note_mode(lua_State *L, fl_lua *b) {
  const int was = b->generational ? lua_gc(L, LUA_GCGEN, 0, 0) : lua_gc(L, LUA_GCINC, 0, 0, 0);
  if (b->generational && was == LUA_GCINC) lua_gc(L, LUA_GCINC, 0, 0, 0);
  if (!b->generational && was == LUA_GCGEN) lua_gc(L, LUA_GCGEN, 0, 0);
  b->generational = was == LUA_GCGEN;
}

/* The size of Lua's heap in KB; -1: the collector is stopped, or this runs in a finaliser, where
** lua_gc returns -1. The engine calls this first, at each evaluation. */
static int64_t collector_heap(void *arg) {
  fl_lua *b = (fl_lua *)arg;
  lua_State *L = fl_lua_thread(b);
  if (lua_gc(L, LUA_GCISRUNNING) != 1) return -1;
  note_mode(L, b);
  return lua_gc(L, LUA_GCCOUNT);
}

static void collector_step(void *arg) {
  fl_lua *b = (fl_lua *)arg;
  lua_State *L = fl_lua_thread(b);
  const uint32_t site = b->c->site;
  if (b->generational) lua_gc(L, LUA_GCSTEP, 0);
  fl_lua_on(L, b);
  b->c->site = site;
}

/* Does 'times' full collections. Two are done when memory is out: the second one collects what
** finalisers of the first have released. */
static void collector_full(void *arg, int times) {
  fl_lua *b = (fl_lua *)arg;
  lua_State *L = fl_lua_thread(b);
  const uint32_t site = b->c->site;
  const int loosen = times > 1 || fl_cycles_due(b);
  while (times-- > 0) {
    if (loosen) fl_cycles_loosen(L, b);
    lua_gc(L, LUA_GCCOLLECT);
  }
  fl_anchor(b->c);
  fl_lua_on(L, b);
  b->c->site = site;
}

/* ---- life of the state ----------------------------------------------------------------------- */
static int state_gc(lua_State *L) {
  fl_lua *b = (fl_lua *)lua_touserdata(L, 1);
  flame_context *c = b->c;
  if (c == NULL) return 0;
  b->L = b->main;                     /* finalisers run on it while the state closes */
  c->collector = (fl_collector){ 0 };
  fl_crews_end(b);
  fl_sandboxes_end(b);
  fl_objects_end(b);
  fl_group_close(c);                  /* while lines of the script are still known */
  if (!b->borrowed) fl_flight_end(c);
  fl_watches_end(c, b);               /* those of optimisers that finalisers have used just now */
  while (b->scopes.n > 0) b->scopes.n--;
  for (int64_t i = 0; i < b->tracked.n; i++)
    if (b->tracked.at[i].box) b->tracked.at[i].box->slot = -1;
  /* boxes that finalisers have made just now, and boxes whose userdata was lost (binding.h) */
  for (fl_box *x = b->boxes; x != NULL; x = x->next) {
    fl_tensor_release(x->t);
    x->t = NULL;
  }
  b->boxes = NULL;
  FL_DROP(&c->mem, &b->tracked);
  FL_DROP(&c->mem, &b->scopes);
  fl_sites_close(b);
  fl_heap_close(L, b);
  if (b->engine_up != NULL) c->up = b->engine_up;
  if (b->borrowed) c->host = NULL, c->drop_hooks = NULL;
  else flame_close(c);
  b->c = NULL;
  return 0;
}

static fl_lua *state_new(lua_State *L) {
  fl_lua *b = (fl_lua *)lua_newuserdatauv(L, sizeof *b, 0);
  memset(b, 0, sizeof *b);
  b->floats = FLAME_F32;
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  b->L = b->main = lua_tothread(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_thread);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, state_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_state);
  const int worker = lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_worker) != LUA_TNIL;
  lua_pop(L, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_options);
  const fl_lua_start *start = (const fl_lua_start *)lua_touserdata(L, -1);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_options);
  lua_pop(L, 1);
  b->borrowed = start && start->context;
  const flame_options *o = worker ? FLAME_OPTIONS(.device = "cpu", .threads = 1)
                         : start ? start->options : NULL;
  b->c = b->borrowed ? start->context : fl_open_inside(o, start ? start->outer : NULL);
  if (b->c == NULL) {
    luaL_error(L, "flame: no memory for a context");
    return NULL;            /* never reached: luaL_error does not return, but is not declared so */
  }
  if (!b->borrowed && flame_error_code(b->c) != FLAME_OK)
    luaL_error(L, "flame: %s", flame_error(b->c));
  b->running = b->main;
  if (!fl_heap_open(L, b))
    luaL_error(L, "flame: the limit of host memory is below what the state has already");
  b->c->host = b;
  b->c->collector = (fl_collector){ collector_heap, collector_step, collector_full,
                                    fl_cycles_anchor, b, 0 };
  fl_grad_init(b);
  return b;
}

/* ---- boxes ----------------------------------------------------------------------------------- */
static int box_gc(lua_State *L) {
  fl_lua *b = self_of(L);
  if (b->c == NULL) return 0;
  fl_lua_on(L, b);
  fl_box_finalise(L, b, 1);
  return 0;
}

static int box_close(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_box *x = box_at(L, 1);
  if (x == NULL || x->t == NULL || b->c == NULL) return 0;
  fl_lua_on(L, b);
  fl_box_close(b, x, FL_BOX_FREED | fl_lua_site(L, b));
  return 0;
}

static int box_eq(lua_State *L) {
  const fl_box *x = box_at(L, 1), *y = box_at(L, 2);
  lua_pushboolean(L, x != NULL && y != NULL && x->t != NULL && x->t == y->t);
  return 1;
}

/* x.name, x:name(…) and x[key]. A property is in the methods table as its number. */
static int box_index(lua_State *L) {
  if (lua_type(L, 2) != LUA_TSTRING) return fl_index_get(L);
  lua_pushvalue(L, 2);
  const int t = lua_rawget(L, lua_upvalueindex(3));
  if (t == LUA_TNUMBER) return fl_property_get(L, (int)lua_tointeger(L, -1));
  if (t != LUA_TNIL) return 1;
  const char *name = lua_tostring(L, 2);
  if (fl_chapter_find(L, self_of(L), lua_upvalueindex(3), "", name) != LUA_TNIL) return 1;
  if (fl_core_load(L, self_of(L))) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(3)) != LUA_TNIL) return 1;
  }
  return fl_box_unknown(L, lua_upvalueindex(3), name);
}

static int box_newindex(lua_State *L) {
  if (lua_type(L, 2) != LUA_TSTRING) return fl_index_set(L);
  const char *name = lua_tostring(L, 2);
  if (strcmp(name, "grad") == 0 || strcmp(name, "requires_grad") == 0) return fl_property_set(L);
  fl_core_load(L, self_of(L));
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(3)) != LUA_TNIL)
    return fl_lua_fail(L, "",
        "field '%.60s' can not be assigned, only grad and requires_grad can", name);
  return fl_box_unknown(L, lua_upvalueindex(3), name);
}

/* ---- what is written in Lua ------------------------------------------------------------------ */
int fl_core_call(lua_State *L, const char *name) {
  const int n = lua_gettop(L);
  luaL_checkstack(L, 8, name);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_module);
  lua_getiuservalue(L, -1, 1);
  lua_rawgeti(L, -1, 3);
  lua_getfield(L, -1, name);
  lua_insert(L, 1);
  lua_settop(L, n + 1);
  lua_call(L, n, LUA_MULTRET);
  return lua_gettop(L);
}

/* The parts of the library that are separate modules. */
const char *const fl_chapters[] = { "nn", "optim", "data", "plot", "image", "clifford",
  "distributions", "diffusion", "models", "tokenizers", "distributed",
  NULL };
enum { CHAPTERS = sizeof fl_chapters / sizeof *fl_chapters - 1 };

static int is_chapter(const char *name) {
  for (int i = 0; i < CHAPTERS; i++) if (strcmp(name, fl_chapters[i]) == 0) return 1;
  return 0;
}

enum { AT_MODULE = 1, AT_METHODS, AT_INTERNAL, AT_META };

/* Raises, by base/objects.lua, the error that the table on top does not have the key at 2. */
static int unknown_name(lua_State *L, const char *what) {
  lua_settop(L, 2);
  lua_pushstring(L, what);
  return fl_core_call(L, "unknown_name");
}

/* Pushes the table 'which' (AT_MODULE, AT_METHODS, AT_INTERNAL), kept in the registry. */
static void push_table(lua_State *L, int which) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_module);
  lua_getiuservalue(L, -1, 1);
  lua_rawgeti(L, -1, which);
  lua_replace(L, -3);
  lua_pop(L, 1);
}

/* Is one of flame's own files indexing? In a state with limits only they see the internals. */
static int asked_by_library(lua_State *L) {
  lua_Debug ar;
  return lua_getstack(L, 1, &ar) && lua_getinfo(L, "S", &ar) && fl_is_library(ar.source);
}

/* flame.name that does not exist: it may be written in Lua, or be an in-place form (flame.exp_),
** which is among the methods. */
static int module_find(lua_State *L, const char *name, size_t n) {
  if (n > 1 && name[0] != '_' && name[n - 1] == '_') push_table(L, AT_METHODS);
  else lua_pushvalue(L, 1);
  const int t = lua_gettop(L);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, t) != LUA_TNIL) return 1;
  lua_pop(L, 1);
  if (fl_chapter_find(L, self_of(L), t, "", name) != LUA_TNIL) return 1;
  if (is_chapter(name) || !fl_core_load(L, self_of(L))) return 0;
  lua_pushvalue(L, 2);
  return lua_rawget(L, t) != LUA_TNIL;
}

static int module_index(lua_State *L) {
  size_t n = 0;
  const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tolstring(L, 2, &n) : NULL;
  if (name == NULL) return 0;
  if (self_of(L)->bounded && strcmp(name, "internal") == 0 && asked_by_library(L)) {
    push_table(L, AT_INTERNAL);
    return 1;
  }
  if (module_find(L, name, n)) return 1;
  if (!is_chapter(name)) return unknown_name(L, "flame");
  if (lua_getglobal(L, "require") != LUA_TFUNCTION) return 0;
  lua_pushfstring(L, "flame.%s", name);
  lua_call(L, 1, 1);
  return 1;
}

/* flame.name = f: first loads the chapter that adds this name, so that it does not overwrite f. */
static int module_newindex(lua_State *L) {
  if (lua_type(L, 2) == LUA_TSTRING && !asked_by_library(L))
    fl_chapter_find(L, self_of(L), 1, "", lua_tostring(L, 2));
  lua_settop(L, 3);
  lua_rawset(L, 1);
  return 0;
}

static int module_pairs(lua_State *L) {
  lua_settop(L, 1);
  fl_core_load(L, self_of(L));
  return fl_core_call(L, "pairs");
}

/* flame.linalg.name that does not exist. Upvalue 3: the group's name. */
static int group_index(lua_State *L) {
  char group[32];
  lua_settop(L, 2);
  const char *what = lua_tostring(L, lua_upvalueindex(3));
  if (lua_type(L, 2) == LUA_TSTRING) {
    snprintf(group, sizeof group, "%s.", what);
    if (fl_chapter_find(L, self_of(L), 1, group, lua_tostring(L, 2)) != LUA_TNIL) return 1;
    if (fl_core_load(L, self_of(L))) {
      lua_pushvalue(L, 2);
      if (lua_rawget(L, 1) != LUA_TNIL) return 1;
    }
  }
  return unknown_name(L, what);
}

static int group_pairs(lua_State *L) {
  fl_core_load(L, self_of(L));
  lua_getglobal(L, "next");
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

/* internal.name, for a function that is written in Lua; other names give nil. */
static int internal_index(lua_State *L) {
  if (lua_type(L, 2) != LUA_TSTRING) return 0;
  return fl_chapter_find(L, self_of(L), 1, "^", lua_tostring(L, 2)) != LUA_TNIL;
}

void fl_hide_internals(lua_State *L) {
  push_table(L, AT_MODULE);
  lua_pushnil(L);
  lua_setfield(L, -2, "internal");
  push_table(L, AT_INTERNAL);
  lua_pushboolean(L, 1);
  lua_setfield(L, -2, "bounded");
  lua_pop(L, 2);
}

/* ---- registration ---------------------------------------------------------------------------- */
/* Adds the function of a declaration to the tables that its head ("linalg.svd") names. */
static void add_declared(lua_State *L, fl_lua *b, const fl_lua_reg *r) {
  const char *head = r->name, *end = strchr(head, '('), *name = end;
  while (name > head && name[-1] != '.' && name[-1] != ':') name--;
  const int grouped = name > head + 1, module = head[0] != ':' && !grouped;
  lua_pushlstring(L, name, (size_t)(end - name));
  if (grouped) lua_pushlstring(L, head, (size_t)(end - head));
  else lua_pushvalue(L, -1);
  lua_insert(L, -2);
  lua_pushlightuserdata(L, b);
  lua_pushvalue(L, AT_META);
  lua_pushlightuserdata(L, (void *)(uintptr_t)head);
  lua_pushvalue(L, -5);                        /* messages name a function with its group */
  lua_pushcclosure(L, r->f, 4);
  lua_remove(L, -3);
  if (grouped) {
    lua_pushlstring(L, head, (size_t)(name - head - 1));
    lua_rawget(L, AT_MODULE);
    lua_insert(L, -3);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    return;
  }
  for (int k = 0; k < 2; k++) {
    if (k == 0 ? !module : head[0] == '.') continue;
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, k == 0 ? AT_MODULE : AT_METHODS);
  }
  lua_pop(L, 2);
}

static void add(lua_State *L, fl_lua *b, const fl_lua_reg *r) {
  for (; r->name != NULL; r++) {
    if (strchr(r->name, '(') != NULL) {
      add_declared(L, b, r);
      continue;
    }
    lua_pushlightuserdata(L, b);
    lua_pushvalue(L, AT_META);
    lua_pushcclosure(L, r->f, 2);
    if (r->where & FL_IN_MODULE) lua_pushvalue(L, -1), lua_setfield(L, AT_MODULE, r->name);
    if (r->where & FL_IN_METHODS) lua_pushvalue(L, -1), lua_setfield(L, AT_METHODS, r->name);
    if (r->where == 0) lua_pushvalue(L, -1), lua_setfield(L,
        r->name[0] == '_' ? AT_META : AT_INTERNAL, r->name);
    lua_pop(L, 1);
  }
}

static void add_meta(lua_State *L, fl_lua *b, const char *name, lua_CFunction f) {
  lua_pushlightuserdata(L, b);
  lua_pushvalue(L, AT_META);
  lua_pushvalue(L, AT_METHODS);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_sizes);
  lua_pushcclosure(L, f, FL_UPVALUE_SIZES);
  lua_setfield(L, AT_META, name);
}

static void fill_meta(lua_State *L, fl_lua *b) {
  static const struct { const char *name; int which; } properties[] = {
    { "shape", FL_PROP_SHAPE }, { "ndim", FL_PROP_NDIM }, { "dtype", FL_PROP_DTYPE },
    { "device", FL_PROP_DEVICE }, { "requires_grad", FL_PROP_REQUIRES_GRAD },
    { "grad", FL_PROP_GRAD }, { "is_leaf", FL_PROP_IS_LEAF }, { "is_cpu", FL_PROP_IS_CPU },
    { "is_cuda", FL_PROP_IS_CUDA }, { "T", FL_PROP_TURNED }, { "H", FL_PROP_TURNED },
    { "mT", FL_PROP_LAST_TURNED }, { "mH", FL_PROP_LAST_TURNED }
  };
  for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
    lua_pushinteger(L, properties[i].which);
    lua_setfield(L, AT_METHODS, properties[i].name);
  }
  add_meta(L, b, "__index", box_index);
  add_meta(L, b, "__newindex", box_newindex);
  add_meta(L, b, "__call", fl_index_call);
  add_meta(L, b, "__gc", box_gc);
  add_meta(L, b, "__close", box_close);
  add_meta(L, b, "__eq", box_eq);
  add_meta(L, b, "__tostring", fl_print_tostring);
  /* Lua's own functions print this as the type they got, if they expected a number or a string */
  lua_pushliteral(L, "a tensor: write x:item()");
  lua_setfield(L, AT_META, "__name");
  lua_pushboolean(L, 0);
  lua_setfield(L, AT_META, "__metatable");
}

/* Keeps the tables at 1 to 3 (module, methods, internals) in one userdata of the registry. */
static void keep_tables(lua_State *L) {
  lua_newuserdatauv(L, 1, 1);
  lua_createtable(L, 3, 0);
  for (int i = 1; i <= 3; i++) {
    lua_pushvalue(L, i);
    lua_rawseti(L, -2, i);
  }
  lua_setiuservalue(L, -2, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_module);
}

static void module_metatable(lua_State *L, fl_lua *b) {
  lua_createtable(L, 0, 1);
  fl_push_closure(L, b, internal_index);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, AT_INTERNAL);
  lua_createtable(L, 0, 3);
  fl_push_closure(L, b, module_index);
  lua_setfield(L, -2, "__index");
  fl_push_closure(L, b, module_newindex);
  lua_setfield(L, -2, "__newindex");
  fl_push_closure(L, b, module_pairs);
  lua_setfield(L, -2, "__pairs");
  lua_setmetatable(L, AT_MODULE);
}

static void registry_tables(lua_State *L, fl_lua *b) {
  lua_pushvalue(L, AT_META);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_meta);
  lua_pushboolean(L, 0);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_error);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_boxes);
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_chunks);
  fl_cycles_init(L, b);
  fl_sizes_metatable(L, b);
  fl_scope_metatable(L, b);
  fl_guard_metatable(L, b);
}

/* flame.cuda, flame.linalg and so on: tables of functions. */
static void add_group(lua_State *L, fl_lua *b, const char *group) {
  lua_newtable(L);
  lua_createtable(L, 0, 2);
  lua_pushlightuserdata(L, b);
  lua_pushvalue(L, AT_META);
  lua_pushstring(L, group);
  lua_pushcclosure(L, group_index, 3);
  lua_setfield(L, -2, "__index");
  fl_push_closure(L, b, group_pairs);
  lua_setfield(L, -2, "__pairs");
  lua_setmetatable(L, -2);
  lua_setfield(L, AT_MODULE, group);
}

/* What each file registers. */
static const fl_lua_reg *const registered[] = {
  fl_reg_make, fl_reg_ops, fl_reg_shape, fl_reg_index, fl_reg_neural, fl_reg_grad, fl_reg_update,
  fl_reg_value, fl_reg_inspect, fl_reg_memory, fl_reg_scope, fl_reg_internal, fl_reg_io,
  fl_reg_kernel, fl_reg_explain, fl_reg_watch, fl_reg_profile, fl_reg_stacks, fl_reg_declare,
  fl_reg_cast, fl_reg_slip, fl_reg_tokenizer, fl_reg_crew, fl_reg_group, fl_reg_sandbox,
  fl_reg_files, fl_reg_program, fl_reg_dlpack
};

static int build(lua_State *L) {
  fl_lua *b = state_new(L);
  lua_settop(L, 0);
  lua_createtable(L, 0, 256);
  lua_createtable(L, 0, 256);
  lua_createtable(L, 0, 16);
  lua_createtable(L, 0, 40);
  registry_tables(L, b);
  static const char *const groups[] = { "cuda", "autograd", "linalg", "special" };
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) add_group(L, b, groups[i]);
  fl_ops_register(L, b, AT_MODULE, AT_METHODS, AT_META, AT_META);
  for (size_t i = 0; i < sizeof registered / sizeof *registered; i++) add(L, b, registered[i]);
  add(L, b, fl_hooks());
  fill_meta(L, b);
  lua_pushcfunction(L, fl_library_text);
  lua_setfield(L, AT_INTERNAL, "embedded");
  lua_createtable(L, CHAPTERS, 0);
  for (int i = 0; i < CHAPTERS; i++) lua_pushstring(L, fl_chapters[i]), lua_rawseti(L, -2, i + 1);
  lua_setfield(L, AT_INTERNAL, "chapters");
  lua_pushvalue(L, AT_METHODS);
  lua_setfield(L, AT_INTERNAL, "methods");
  lua_pushliteral(L, FLAME_VERSION);
  lua_setfield(L, AT_MODULE, "version");
  lua_pushlightuserdata(L, (void *)(uintptr_t)&fl_key_newaxis);
  lua_setfield(L, AT_MODULE, "newaxis");
  lua_pushvalue(L, AT_INTERNAL);
  lua_setfield(L, AT_MODULE, "internal");
  module_metatable(L, b);
  fl_library_preload(L);
  fl_api_leave(L);
  keep_tables(L);                      /* last: from here on the module counts as opened */
  lua_settop(L, AT_MODULE);
  return 1;
}

static fl_lua *state_of(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_state);
  fl_lua *b = (fl_lua *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return b;
}

static int debug_block(lua_State *L) { return fl_core_call(L, "debug_block"); }

/* Reports that the environment set c->sync_each. Not in the states of a loader's workers. */
static void show_debug_block(lua_State *L) {
  const int worker = lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_worker) != LUA_TNIL;
  lua_pop(L, 1);
  if (worker) return;
  lua_pushcfunction(L, debug_block);
  lua_call(L, 0, 0);
}

int luaopen_flame(lua_State *L) {
  luaL_checkversion(L);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_module) == LUA_TUSERDATA) {
    lua_getiuservalue(L, -1, 1);
    lua_rawgeti(L, -1, 1);
    return 1;
  }
  lua_pushcfunction(L, build);
  lua_call(L, 0, 1);
  if (state_of(L)->c->sync_each) show_debug_block(L);
  return 1;
}

/* ---- for hosts ------------------------------------------------------------------------------- */
flame_context *flame_lua_context(lua_State *L) {
  const fl_lua *b = state_of(L);
  return b ? b->c : NULL;
}

void flame_lua_push(lua_State *L, flame_tensor *x) {
  fl_lua *b = state_of(L);
  luaL_checkstack(L, 6, "flame");
  if (b == NULL || b->c == NULL || x == NULL) lua_pushnil(L);
  else if (flame_context_of(x) != b->c)
    fl_lua_fail_in(L, b, "flame_lua_push", "the tensor is of another context");
  else fl_box_push(L, b, x);
}

flame_tensor *flame_lua_get(lua_State *L, int idx) {
  const fl_box *x = box_at(L, idx);
  return x ? x->t : NULL;
}
