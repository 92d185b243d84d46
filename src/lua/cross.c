/*
** Values passed from one Lua state to another: nil, booleans, numbers, strings, tables without
** metatables, tensors. All are copied; a table, a long string or a tensor that is met twice is
** copied once, so that the copies are not larger than the originals, and tables may contain
** themselves.
*/
#include "lua/cross.h"
#include "lua/hook.h"

enum { DEPTH = 100, SHORT = 40, STEP_BYTES = 64 };

typedef struct crossing { lua_State *from, *to; fl_lua *b; int copies; } crossing;

static void copy(crossing *x, int i, int depth);

#define refuse(x, ...) fl_lua_fail_in((x)->to, (x)->b, "sandbox", __VA_ARGS__)

/* Pushes the copy of object p, if it was copied already. */
static int push_known(const crossing *x, const void *p) {
  lua_rawgetp(x->to, x->copies, p);
  if (!lua_isnil(x->to, -1)) return 1;
  lua_pop(x->to, 1);
  return 0;
}

static void note(const crossing *x, const void *p) {
  lua_pushvalue(x->to, -1);
  lua_rawsetp(x->to, x->copies, p);
}

static void copy_string(crossing *x, int i) {
  size_t n;
  const char *s = lua_tolstring(x->from, i, &n);
  const void *key = n > SHORT ? lua_topointer(x->from, i) : NULL;
  if (key && push_known(x, key)) return;
  fl_hook_charge(x->to, x->b, (long long)n / STEP_BYTES);
  lua_pushlstring(x->to, s, n);
  if (key) note(x, key);
}

static void copy_table(crossing *x, int i, int depth) {
  const void *key = lua_topointer(x->from, i);
  if (push_known(x, key)) return;
  if (depth > DEPTH)
    refuse(x, "tables that are nested more than %d deep do not cross", DEPTH);
  if (lua_getmetatable(x->from, i)) {
    lua_pop(x->from, 1);
    refuse(x, "a table with a metatable does not cross");
  }
  i = lua_absindex(x->from, i);
  luaL_checkstack(x->to, 8, "tables that cross");
  if (!lua_checkstack(x->from, 8)) refuse(x, "no memory for tables that cross");
  lua_newtable(x->to);
  note(x, key);
  for (lua_pushnil(x->from); lua_next(x->from, i) != 0; lua_pop(x->from, 1)) {
    fl_hook_charge(x->to, x->b, 1);
    copy(x, -2, depth + 1);
    copy(x, -1, depth + 1);
    lua_rawset(x->to, -3);
  }
}

/* Copies through memory of the receiver, so that its limits apply. */
static void copy_tensor(crossing *x, int i) {
  fl_box *box = box_at(x->from, i);
  flame_context *c = x->b->c;
  int64_t shape[FL_MAX_AXES];
  if (push_known(x, box)) return;
  if (box->t == NULL || c == NULL) refuse(x, "a tensor that was freed does not cross");
  const int n = flame_ndim(box->t);
  const flame_dtype dtype = flame_dtype_of(box->t);
  for (int k = 0; k < n; k++) shape[k] = flame_size(box->t, k);
  const size_t bytes = (size_t)(flame_numel(box->t) * fl_dtype_size(dtype));
  void *room = lua_newuserdatauv(x->to, bytes ? bytes : 1, 0);
  flame_context *other = flame_context_of(box->t);
  if (flame_read(box->t, room, bytes) != FLAME_OK) {
    lua_pushstring(x->to, flame_error(other));
    flame_clear_error(other);
    refuse(x, "a tensor does not cross: %s", lua_tostring(x->to, -1));
  }
  fl_box *made = fl_box_new_in(x->to, x->b);
  made->t = flame_from_data(c, dtype, n, shape, room);
  if (made->t == NULL) fl_lua_raise(x->to, x->b);
  lua_remove(x->to, -2);
  note(x, box);
}

static void copy(crossing *x, int i, int depth) {
  int isnum = 0;
  switch (lua_type(x->from, i)) {
    case LUA_TNIL: lua_pushnil(x->to); return;
    case LUA_TBOOLEAN: lua_pushboolean(x->to, lua_toboolean(x->from, i)); return;
    case LUA_TNUMBER:
      if (lua_isinteger(x->from, i)) lua_pushinteger(x->to, lua_tointegerx(x->from, i, &isnum));
      else lua_pushnumber(x->to, lua_tonumber(x->from, i));
      return;
    case LUA_TSTRING: copy_string(x, i); return;
    case LUA_TTABLE: copy_table(x, i, depth); return;
    case LUA_TUSERDATA: if (box_at(x->from, i)) { copy_tensor(x, i); return; } break;
    default: break;
  }
  refuse(x, "a %s does not cross; numbers, strings, booleans, plain tables and tensors do",
         luaL_typename(x->from, i));
}

void fl_cross(lua_State *from, int first, int n, lua_State *to) {
  crossing x = { .from = from, .to = to, .b = fl_hook_of(to) };
  luaL_checkstack(to, n + 8, "values that cross");
  if (!lua_checkstack(from, 8)) refuse(&x, "no memory for values that cross");
  lua_newtable(to);
  x.copies = lua_gettop(to);
  for (int i = 0; i < n; i++) copy(&x, first + i, 0);
  lua_remove(to, x.copies);
}
