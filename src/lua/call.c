/*
** internal.call(kind, what, inputs, params, sizes, dtype): records a call (tensor/call.h) for
** the composites written in Lua, which have checked what a user can get wrong. The result is
** untracked. Without inputs the device is the default one.
*/
#include "lua/binding.h"
#include "tensor/call.h"

static int read_integers(lua_State *L, int at, const char *what, int most, int64_t *out) {
  const int n = (int)lua_rawlen(L, at);
  if (n > most) fl_lua_fail(L, what, "%d integers, at most %d are possible", n, most);
  for (int i = 0; i < n; i++) {
    int is = 0;
    lua_rawgeti(L, at, i + 1);
    out[i] = lua_tointegerx(L, -1, &is);
    if (!is) fl_lua_fail(L, what, "integer %d is a %s", i + 1, luaL_typename(L, -1));
    lua_pop(L, 1);
  }
  return n;
}

int fl_lua_call_op(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *what = luaL_checkstring(L, 2);
  const int kind = fl_call_of_name(luaL_checkstring(L, 1));
  int64_t p[FL_CALL_PARAMS], size[FL_MAX_AXES];
  fl_box *box[FL_CALL_INPUTS];
  fl_node *in[FL_CALL_INPUTS] = { NULL };
  if (kind < 0) return fl_lua_fail(L, what, "there is no call \"%s\"", lua_tostring(L, 1));
  luaL_checktype(L, 4, LUA_TTABLE);
  luaL_checktype(L, 5, LUA_TTABLE);
  const int np = read_integers(L, 4, what, FL_CALL_PARAMS, p);
  const int rank = read_integers(L, 5, what, FL_MAX_AXES, size), dtype = fl_arg_dtype(L, 6, what);
  const int nin = fl_arg_list(L, 3, what, "inputs", FL_CALL_INPUTS, box);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  int ok = 1;
  for (int i = 0; i < nin; i++) ok = ok && (in[i] = node_of(b, box[i])) != NULL;
  const int device = nin > 0 && ok ? in[0]->device : b->c->default_device;
  return fl_lua_leave(L, b, m, out,
                      ok ? n_call(b->c, kind, what, nin, in, device, dtype, rank, size, np, p, NULL, 0, NULL) : NULL);
}
