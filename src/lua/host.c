/*
** The hidden state of a context, and objects in it: see host.h.
**
** The hidden state borrows the context and ends with it: flame_close calls 'closing', which closes
** the state, whose last finaliser closes the context (module.c). So boxes, callbacks and what the
** graph holds of the state are freed in the same order as in a script's state.
*/
#include "lua/host.h"
#include "lua/embedded.h"
#include "lua/heap.h"
#include "lua/hook.h"
#include "lua/state.h"
#include <stdio.h>
#include <stdlib.h>

struct flame_object {
  fl_lua *b;                       /* NULL: its context was closed */
  flame_context *c;
  int64_t id;                      /* its key among the objects of the state */
  flame_object *next, **link;      /* of fl_lua.objects */
};

static const char key_objects, key_kept;

/* The library as compiled Lua code, if the program contains it and the Lua that compiled it. */
extern __attribute__((weak)) const struct fl_embedded fl_embedded_code[];

/* ---- the state ----------------------------------------------------------------------------- */

static void closing(flame_context *c) {
  const fl_lua *b = (const fl_lua *)c->host;
  lua_close(b->main);
}

fl_lua *fl_host_of(flame_context *c) {
  char why[FL_LUA_WHY];
  lua_State *L;
  if (c->host) return (fl_lua *)c->host;
  const fl_lua_start start = { .code = fl_embedded_code, .context = c };
  const fl_error before = c->err;
  fl_error_clear(&c->err);
  flame_status e = fl_lua_new_around(&start, &L, why);
  if (e != FLAME_OK && c->mem.refused) e = FLAME_NO_MEMORY;
  c->err = before;
  if (e == FLAME_OK) {
    fl_lua *b = (fl_lua *)c->host;
    b->borrowed = 0;
    c->closing = closing;
    return b;
  }
  FL_FAIL(c, e, "call", "the state of Lua can not be made: %s", why[0] ? why : "no host memory");
  return NULL;
}

/* ---- a call -------------------------------------------------------------------------------- */

/* Stores the message on top as an error of the context. */
static void keep_error(lua_State *L, fl_lua *b, int status, const char *op) {
  flame_context *c = b->c;
  char text[sizeof c->err.message + 64], said[sizeof text];
  const char *s = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "an error that is no text";
  const fl_error *last = &b->last;
  const size_t skip = strlen(last->op) + 2;                /* "op: " of fl_error_text */
  fl_error_clear(&c->err);
  snprintf(text, sizeof text, "%s", s);
  snprintf(said, sizeof said, "%s%s%s", last->op, last->op[0] ? ": " : "", last->message);
  const size_t n = strlen(text), m = strlen(said);
  const int ours = last->code != FLAME_OK && n >= m && !strcmp(text + n - m, said);
  if (ours) {
    fl_error_text(last, text, sizeof text);                /* has FL_DO before the remedy */
    fl_host_axes_said(text + skip, sizeof text - skip);
    FL_FAIL(c, last->code, last->op[0] ? last->op : op, "%s", text + skip);
  } else {
    const flame_status e = fl_is_stuck(c) || strstr(text, "interrupted!") ? FLAME_INTERRUPTED
                           : status == LUA_ERRMEM ? FLAME_NO_MEMORY : FLAME_BAD_ARGUMENT;
    fl_host_axes_said(text, sizeof text);
    FL_FAIL(c, e, op, "%s", text);
  }
}

flame_status fl_host_run(fl_lua *b, lua_CFunction f, void *arg, const char *op) {
  flame_context *c = b->c;
  lua_State *L = fl_lua_thread(b);
  if (fl_is_stuck(c)) return fl_interrupted(c, op);
  if (!lua_checkstack(L, 16)) return FL_FAIL(c, FLAME_NO_MEMORY, op, "host memory is out");
  const fl_error before = c->err;
  const uint8_t zero = c->from_zero;
  const int top = lua_gettop(L);
  flame_status e = FLAME_OK;
  fl_error_clear(&c->err);
  fl_error_clear(&b->last);
  c->from_zero = 0;                           /* messages count axes from 1 while f runs, and are
                                              ** converted afterwards (host_axes.c) */
  lua_pushcfunction(L, f);
  lua_pushlightuserdata(L, arg);
  fl_hook_begin(L, b, 0);
  const int status = lua_pcall(L, 1, 0, 0);
  fl_hook_end(L, b);
  fl_heap_tell(L, b, status);
  if (status != LUA_OK) {
    keep_error(L, b, status, op);
    e = c->err.code;
  } else {
    fl_error_clear(&c->err);
  }
  b->has_error = 0;
  c->from_zero = zero;
  lua_settop(L, top);
  if (before.code != FLAME_OK) c->err = before;
  return e;
}

/* ---- objects ------------------------------------------------------------------------------- */

/* Pushes the table of objects, which has no metatable. */
static void push_objects(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_objects) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_objects);
}

/* An object outlives its context, so it is not in the context's memory. */
flame_object *fl_object_new(lua_State *L, fl_lua *b, int i) {
  i = lua_absindex(L, i);
  push_objects(L);
  lua_pushvalue(L, i);
  lua_rawseti(L, -2, ++b->object_ids);
  flame_object *o = (flame_object *)calloc(1, sizeof *o);
  if (!o) {
    lua_pushnil(L);
    lua_rawseti(L, -2, b->object_ids);
    FL_FAIL(b->c, FLAME_NO_MEMORY, "", "host memory is out");
    fl_lua_raise(L, b);
  }
  lua_pop(L, 1);
  *o = (flame_object){ b, b->c, b->object_ids, b->objects, &b->objects };
  if (o->next) o->next->link = &o->next;
  b->objects = o;
  return o;
}

void fl_host_push_object(lua_State *L, fl_lua *b, const flame_object *o) {
  if (o == NULL || o->b != b)
    fl_lua_fail_in(L, b, "", o ? "the object is of another context" : "an object is NULL");
  push_objects(L);
  lua_rawgeti(L, -1, o->id);
  lua_remove(L, -2);
}

static void unlink_object(flame_object *o) {
  if (o->next) o->next->link = o->link;
  *o->link = o->next;
  o->b = NULL;
}

void fl_objects_end(fl_lua *b) { while (b->objects) unlink_object(b->objects); }

void flame_object_free(flame_object *o) {
  if (!o) return;
  fl_lua *b = o->b;
  if (b) {
    FL_HOLD(b->c, );
    lua_State *L = fl_lua_thread(b);
    if (lua_checkstack(L, 4)) {                /* the keys exist: no memory is needed */
      lua_rawgetp(L, LUA_REGISTRYINDEX, &key_objects);
      lua_pushnil(L);
      lua_rawseti(L, -2, o->id);
      lua_pop(L, 1);
    }
    unlink_object(o);
  }
  free(o);
}

flame_context *flame_object_context(const flame_object *o) { return o && o->b ? o->c : NULL; }

/* ---- flame_call and flame_method ----------------------------------------------------------- */

/* Pushes flame.name, where name is a path. */
static void push_function(lua_State *L, const fl_host_call *r) {
  const int at = lua_gettop(L) + 1;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_module);
  lua_getiuservalue(L, -1, 1);
  lua_rawgeti(L, -1, 1);
  for (const char *p = r->function;; p++) {
    const size_t n = strcspn(p, ".");
    const int type = lua_type(L, -1);
    if (n == 0 || (type != LUA_TTABLE && type != LUA_TUSERDATA))
      fl_lua_fail_in(L, r->b, "call", "there is no function '%.80s'", r->function);
    lua_pushlstring(L, p, n);
    lua_gettable(L, -2);
    p += n;
    if (*p == 0) break;
  }
  if (lua_isnil(L, -1))
    fl_lua_fail_in(L, r->b, "call", "there is no function '%.80s'", r->function);
  lua_replace(L, at);
  lua_settop(L, at);
}

/* Pushes the callee and, if it is a method, the object, which comes before the arguments. Returns
** how many values follow the callee. */
static int push_callee(lua_State *L, const fl_host_call *r) {
  if (r->function) return push_function(L, r), 0;
  fl_host_push_object(L, r->b, r->object);
  if (!r->method) return 0;
  lua_getfield(L, -1, r->method);
  if (lua_isnil(L, -1))
    fl_lua_fail_in(L, r->b, r->method, "the object has no such method or field");
  lua_insert(L, -2);
  return 1;
}

/* Reads a field that is not a function; with an argument, sets it. */
static int field(lua_State *L, const fl_host_call *r, int callee, int self) {
  if (r->narg == 0) return 1;
  if (!self || r->narg > 1 || r->arg->name)
    return fl_lua_fail_in(L, r->b, r->function ? r->function : r->method,
                          "is a %s and no function: it takes no arguments",
                          luaL_typename(L, callee));
  fl_host_push(L, r->b, r->arg);
  lua_setfield(L, callee + 1, r->method);
  return 0;
}

static void take_results(lua_State *L, const fl_host_call *r, int first, int n) {
  lua_newtable(L);
  const int kept = lua_gettop(L);
  lua_pushvalue(L, kept);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_kept);
  luaL_checkstack(L, 16, "results");
  for (int i = 0; i < r->nresult && i < n; i++)
    fl_host_take(L, r->b, first + i, kept, &r->result[i]);
}

/* (fl_host_call) */
static int answer(lua_State *L) {
  const fl_host_call *r = (const fl_host_call *)lua_touserdata(L, 1);
  const int callee = lua_gettop(L) + 1;
  luaL_checkstack(L, r->narg > 0 && r->narg < 1 << 20 ? r->narg + 16 : 16, "arguments");
  push_callee(L, r);
  const int self = lua_gettop(L) - callee;
  int n = 1, first = callee;
  if (fl_is_callable(L, callee)) {
    fl_host_push_all(L, r->b, r->narg, r->arg);
    fl_host_axes(L, r->b, callee, callee + 1 + self);
    lua_call(L, lua_gettop(L) - callee, LUA_MULTRET);
    n = lua_gettop(L) - callee + 1;
  } else if (!field(L, r, callee, self)) {
    n = 0;
  }
  take_results(L, r, first, n);
  return 0;
}

void flame_values_free(int n, flame_value *v) {
  for (int i = 0; v && i < n; i++) {
    if (v[i].kind == FLAME_TENSOR) flame_free(v[i].as.t);
    else if (v[i].kind == FLAME_OBJECT) flame_object_free(v[i].as.o);
    else if (v[i].kind == FLAME_LIST)
      flame_values_free((int)v[i].count, (flame_value *)(uintptr_t)v[i].as.list);
    v[i] = (flame_value){ .name = v[i].name, .kind = FLAME_NIL };
  }
}

/* Runs a call in the binding r->b; this thread holds its context (fl_hold). */
static flame_status run(fl_host_call *r, const char *op) {
  flame_context *c = r->b->c;
  if (r->narg < 0 || r->nresult < 0)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "%d arguments and %d results", r->narg, r->nresult);
  if (!fl_given(c, r->arg, r->narg, op, "arguments") ||
      !fl_given(c, r->result, r->nresult, op, "results")) return c->err.code;
  const flame_status e = fl_host_run(r->b, answer, r, op);
  if (e != FLAME_OK) flame_values_free(r->nresult, r->result);
  return e;
}

static void clear(int n, flame_value *v) {
  for (int i = 0; v && i < n; i++) v[i] = (flame_value){ .kind = FLAME_NIL };
}

flame_status flame_call(flame_context *c, const char *function, int narg, const flame_value *arg,
                        int nresult, flame_value *result) {
  clear(nresult, result);
  FL_HOLD(c, FLAME_BAD_ARGUMENT);
  if (!function) return FL_FAIL(c, FLAME_BAD_ARGUMENT, "call", "the function's name is NULL");
  fl_host_call r = { .function = function, .narg = narg, .arg = arg, .nresult = nresult,
                     .result = result };
  r.b = fl_host_of(c);
  return r.b ? run(&r, function) : c->err.code;
}

flame_status flame_method(flame_object *o, const char *name, int narg, const flame_value *arg,
                          int nresult, flame_value *result) {
  clear(nresult, result);
  if (!o || !o->b) return FLAME_BAD_ARGUMENT;
  FL_HOLD(o->c, FLAME_BAD_ARGUMENT);
  fl_host_call r = { .b = o->b, .object = o, .method = name, .narg = narg, .arg = arg,
                     .nresult = nresult, .result = result };
  return run(&r, name ? name : "call");
}
