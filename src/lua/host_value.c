/* Converts values between the host's C and Lua, in both directions (host.h). */
#include "lua/host.h"

enum { DEPTH = 60, MOST = 1 << 24 };        /* of nested lists; values in a list, or in a result */

/* ---- to Lua -------------------------------------------------------------------------------- */

static void push_value(lua_State *L, fl_lua *b, const flame_value *v, int depth);

static void push_list(lua_State *L, fl_lua *b, const flame_value *v, int depth) {
  int64_t n = 0;
  if (depth > DEPTH) fl_lua_fail_in(L, b, "", "lists are nested more than %d deep", DEPTH);
  if (v->count > MOST || (v->count > 0 && !v->as.list))
    fl_lua_fail_in(L, b, "", "a list of %zu values%s", v->count,
                   v->as.list ? " is too long" : " is NULL");
  luaL_checkstack(L, 8, "a list");
  lua_createtable(L, (int)v->count, 0);
  for (size_t i = 0; i < v->count; i++) {
    const flame_value *e = &v->as.list[i];
    push_value(L, b, e, depth + 1);
    if (e->name) lua_setfield(L, -2, e->name);
    else lua_rawseti(L, -2, ++n);
  }
}

static void push_tensor(lua_State *L, fl_lua *b, flame_tensor *t) {
  if (t == NULL) fl_lua_fail_in(L, b, "", "a tensor is NULL");
  if (t->ctx != b->c) fl_lua_fail_in(L, b, "", "a tensor belongs to another context");
  if (t->node == NULL) fl_lua_fail_in(L, b, "", "a tensor was freed");
  if (t->node->state != FL_NUMBER) fl_box_push(L, b, t);
  else if (t->node->isint) lua_pushinteger(L, t->node->scal[0].i);
  else lua_pushnumber(L, t->node->scal[0].d);
}

static void push_value(lua_State *L, fl_lua *b, const flame_value *v, int depth) {
  switch (v->kind) {
    case FLAME_NIL: lua_pushnil(L); return;
    case FLAME_BOOLEAN: lua_pushboolean(L, v->as.i != 0); return;
    case FLAME_INTEGER: lua_pushinteger(L, v->as.i); return;
    case FLAME_NUMBER: lua_pushnumber(L, v->as.n); return;
    case FLAME_STRING:
      if (v->as.s == NULL) fl_lua_fail_in(L, b, "", "a string is NULL");
      lua_pushlstring(L, v->as.s, v->count > 0 ? v->count : strlen(v->as.s));
      return;
    case FLAME_TENSOR: push_tensor(L, b, v->as.t); return;
    case FLAME_LIST: push_list(L, b, v, depth); return;
    case FLAME_OBJECT: fl_host_push_object(L, b, v->as.o); return;
  }
  fl_lua_fail_in(L, b, "", "a value has the kind %d, need FLAME_NIL to FLAME_OBJECT", (int)v->kind);
}

void fl_host_push(lua_State *L, fl_lua *b, const flame_value *v) { push_value(L, b, v, 0); }

int fl_host_push_all(lua_State *L, fl_lua *b, int n, const flame_value *v) {
  const int top = lua_gettop(L);
  int named = 0;
  for (int i = 0; i < n; i++) {
    if (v[i].name) named++;
    else push_value(L, b, &v[i], 0);
  }
  if (!named) return lua_gettop(L) - top;
  lua_createtable(L, 0, named);
  for (int i = 0; i < n; i++) {
    if (!v[i].name) continue;
    if (lua_getfield(L, -1, v[i].name) != LUA_TNIL)
      fl_lua_fail_in(L, b, "", "%s is given twice", v[i].name);
    lua_pop(L, 1);
    push_value(L, b, &v[i], 0);
    lua_setfield(L, -2, v[i].name);
  }
  return lua_gettop(L) - top;
}

/* ---- from Lua ------------------------------------------------------------------------------ */

typedef struct taking { lua_State *L; fl_lua *b; int kept; int64_t left; } taking;

static void take_value(taking *t, int i, int depth, flame_value *v);

/* Pops and keeps the value on top: pointers into it are valid until the next call. */
static void keep(taking *t) {
  lua_rawseti(t->L, t->kept, (lua_Integer)lua_rawlen(t->L, t->kept) + 1);
}

static void take_string(taking *t, int i, flame_value *v) {
  v->as.s = lua_tolstring(t->L, i, &v->count);
  v->kind = FLAME_STRING;
  lua_pushvalue(t->L, i);
  keep(t);
}

/* Is the table at i plain: a list, or fields by name? Sizes of tensors count as plain. */
static int is_plain(lua_State *L, int i) {
  if (fl_is_sizes(L, i)) return 1;
  if (!lua_getmetatable(L, i)) return 1;
  lua_pop(L, 1);
  return 0;
}

/* Fields whose key is neither a position nor a text are ignored. */
static int64_t count_fields(lua_State *L, int i, lua_Integer n) {
  int64_t more = 0;
  for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) more += lua_type(L, -2) == LUA_TSTRING;
  return n + more;
}

static void take_list(taking *t, int i, int depth, flame_value *v) {
  lua_State *L = t->L;
  luaL_checkstack(L, 12, "results");
  const int sizes = fl_is_sizes(L, i);
  const lua_Integer n = sizes ? luaL_len(L, i) : (lua_Integer)lua_rawlen(L, i);
  const int64_t all = sizes ? n : count_fields(L, i, n);
  if (all > t->left) fl_lua_fail_in(L, t->b, "", "the results are more than %d values", MOST);
  t->left -= all;
  const size_t bytes = (size_t)(all ? all : 1) * sizeof(flame_value);
  flame_value *list = (flame_value *)lua_newuserdatauv(L, bytes, 0);
  memset(list, 0, bytes);
  keep(t);
  v->as.list = list;
  v->count = (size_t)all;                    /* from now on freeing the list frees its contents */
  v->kind = FLAME_LIST;
  for (lua_Integer k = 1; k <= n; k++) {
    lua_geti(L, i, k);
    take_value(t, lua_gettop(L), depth + 1, list++);
    lua_pop(L, 1);
  }
  if (sizes) return;
  for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) continue;
    take_value(t, lua_gettop(L), depth + 1, list);
    list++->name = lua_tostring(L, -2);
    lua_pushvalue(L, -2);
    keep(t);
  }
}

static void take_tensor(taking *t, fl_box *x, flame_value *v) {
  if (x->t == NULL) {
    fl_box_dead(t->b, x);
    fl_lua_raise(t->L, t->b);
  }
  v->as.t = fl_tensor_retain(x->t);
  v->kind = FLAME_TENSOR;
}

static void take_value(taking *t, int i, int depth, flame_value *v) {
  lua_State *L = t->L;
  const int type = lua_type(L, i);
  fl_box *x = type == LUA_TUSERDATA ? box_at(L, i) : NULL;
  v->kind = FLAME_NIL;
  if (x) take_tensor(t, x, v);
  else if (type == LUA_TBOOLEAN) v->as.i = lua_toboolean(L, i), v->kind = FLAME_BOOLEAN;
  else if (type == LUA_TSTRING) take_string(t, i, v);
  else if (type == LUA_TNUMBER && lua_isinteger(L, i))
    v->as.i = lua_tointeger(L, i), v->kind = FLAME_INTEGER;
  else if (type == LUA_TNUMBER) v->as.n = lua_tonumber(L, i), v->kind = FLAME_NUMBER;
  else if (depth < DEPTH && type == LUA_TTABLE && is_plain(L, i)) take_list(t, i, depth, v);
  else if (type != LUA_TNIL) {
    v->as.o = fl_object_new(L, t->b, i);
    v->kind = FLAME_OBJECT;
  }
}

void fl_host_take(lua_State *L, fl_lua *b, int i, int kept, flame_value *v) {
  taking t = { L, b, kept, MOST };
  take_value(&t, i, 0, v);
}
