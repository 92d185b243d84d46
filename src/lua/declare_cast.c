/*
** flame.autocast: what an op is declared to be ("@half": a product, "@single": what needs range or
** precision, "@neutral") says what its tensors are cast to at its entry, however the script holds
** the function. Ops that it calls itself are left alone, and so are those of a backward function:
** a gradient is computed in the dtypes of its forward code. lua/flame/core_amp.lua has the blocks.
*/
#include "lua/declare.h"

static int is_half(int dtype) { return dtype == FLAME_F16 || dtype == FLAME_BF16; }

/* The tensor at i as a new one of the dtype, in its place. */
static void cast_at(lua_State *L, fl_lua *b, int i, int dtype) {
  fl_box *x = box_at(L, i), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  fl_lua_leave(L, b, m, out, n ? n_cast(n, dtype) : NULL);
  lua_replace(L, i);
}

void fl_declare_cast(lua_State *L, fl_lua *b, int cast) {
  const int half = b->autocast - 1, top = lua_gettop(L);
  if (cast == FL_CAST_NEUTRAL) return;
  luaL_checkstack(L, 8, "casts");
  for (int i = 1; i <= top; i++) {
    const fl_box *x = box_at(L, i);
    if (x == NULL || x->t == NULL || x->t->node == NULL) continue;
    const int have = x->t->node->dtype;
    if (cast == FL_CAST_SINGLE && is_half(have)) cast_at(L, b, i, FLAME_F32);
    if (cast == FL_CAST_HALF && have != half && (have == FLAME_F32 || is_half(have)))
      cast_at(L, b, i, half);
  }
}

/* (dtype | false[, inside]) -> inside: from here on ops are cast to the dtype; inside: those of the
** op that runs are not. What was so before is given back, for the end of the block. */
static int autocasting(lua_State *L) {
  fl_lua *b = self_of(L);
  lua_pushboolean(L, b->inside);
  b->autocast = 0;
  if (lua_type(L, 1) == LUA_TSTRING)
    b->autocast = (uint8_t)(fl_dtype_of_name(lua_tostring(L, 1)) + 1);
  b->inside = (uint8_t)lua_toboolean(L, 2);
  return 1;
}

/* (guard): ends its block and those opened inside it: the dtypes at guard.depth and after in
** guard.stack go, and what was so before, in guard.inside, holds again. In C, so that no
** interrupt comes between its lines. */
static int autocast_close(lua_State *L) {
  fl_lua *b = self_of(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_getfield(L, 1, "depth");
  lua_getfield(L, 1, "stack");
  lua_getfield(L, 1, "inside");
  const lua_Integer depth = lua_tointeger(L, 2);
  if (depth < 1 || !lua_istable(L, 3) || !lua_istable(L, 4)) return 0;
  for (lua_Integer n = (lua_Integer)lua_rawlen(L, 3); n >= depth; n--) {
    b->autocast = 0;
    if (lua_rawgeti(L, 3, n - 1) == LUA_TSTRING)
      b->autocast = (uint8_t)(fl_dtype_of_name(lua_tostring(L, -1)) + 1);
    lua_rawgeti(L, 4, n);
    b->inside = (uint8_t)lua_toboolean(L, -1);
    lua_pop(L, 2);
    for (int i = 3; i <= 4; i++) {
      lua_pushnil(L);
      lua_rawseti(L, i, n);
    }
  }
  lua_pushnil(L);
  lua_setfield(L, 1, "depth");
  return 0;
}

const fl_lua_reg fl_reg_cast[] = {
  { "autocasting", autocasting, 0 }, { "autocast_close", autocast_close, 0 }, { NULL, NULL, 0 }
};
