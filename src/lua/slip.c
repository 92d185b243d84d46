/*
** Slips: things that a script does that are not errors but rarely intended. Each is reported once
** for each line of the script, to the callback that the host has set, else by Lua's warn. They are
** detected below, in tools/slips.lua and in optim.lua. If a correct program may do the same thing,
** and the two can not be told apart, nothing is reported.
*/
#include "lua/binding.h"

void fl_lua_slip(lua_State *L, fl_lua *b, const char *text) {
  char place[96];
  luaL_checkstack(L, 6, "warning");
  const int top = lua_gettop(L);
  fl_site_text(b, fl_lua_site(L, b), place);
  lua_pushfstring(L, "%s%s%s", place, place[0] ? ": " : "", text);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, "flame.slips");
  lua_pushvalue(L, -2);
  if (lua_rawget(L, -2) == LUA_TNIL) {
    lua_pushvalue(L, top + 1);
    lua_pushboolean(L, 1);
    lua_rawset(L, top + 2);
    if (b->c != NULL && b->c->limits.warn != NULL) {
      b->c->limits.warn(b->c->limits.arg, lua_tostring(L, top + 1));
    } else {
      lua_warning(L, "flame: ", 1);
      lua_warning(L, lua_tostring(L, top + 1), 0);
    }
  }
  lua_settop(L, top);
}

/* Reports that x, which is expected to be scores along its class axis, is the result of a softmax
** along that axis. */
void fl_lua_slip_softmax(lua_State *L, fl_lua *b, const fl_box *x) {
  const fl_node *n = x->t->node;
  if (n == NULL || !fl_is_softmax(n, n->shape->rank > 1)) return;
  fl_lua_slip(L, b, "cross_entropy: input is the result of softmax, which cross_entropy takes "
              "itself; give it the scores before");
}

/* internal.slip(text) */
static int slip(lua_State *L) {
  fl_lua_slip(L, self_of(L), luaL_checkstring(L, 1));
  return 0;
}

/* internal.gradient_used(g, k): a step of optimiser k reads the gradient g. Has a backward added to
** it since an earlier step of k read it? Optimisers whose numbers differ by a multiple of 127 count
** as one. */
static int gradient_used(lua_State *L) {
  flame_tensor *g = fl_arg_tensor(L, 1, "step", "gradient")->t;
  lua_pushboolean(L, fl_gradient_used(g, luaL_checkinteger(L, 2)));
  return 1;
}

int fl_gradient_used(flame_tensor *g, int64_t k) {
  const uint8_t reader = (uint8_t)(2 * (k % 127 + 1));
  const int added = g->used == (reader | FL_GRAD_ADDED);
  g->used = reader;
  return added;
}

/* internal.gradient_mark(g[, mark]): reads or sets the note on g that tells which optimiser has
** read it (flame_tensor.used), for writes that do not begin a new gradient. */
static int gradient_mark(lua_State *L) {
  flame_tensor *g = fl_arg_tensor(L, 1, "step", "gradient")->t;
  lua_pushinteger(L, g->used);
  if (lua_isinteger(L, 2)) g->used = (uint8_t)lua_tointeger(L, 2);
  return 1;
}

/* internal.walks() -> the number of calls of backward and gradients; how many values of tracked
** tensors were read as numbers. */
static int walks(lua_State *L) {
  const fl_lua *b = self_of(L);
  lua_pushinteger(L, b->walks);
  lua_pushinteger(L, b->tracked_reads);
  return 2;
}

const fl_lua_reg fl_reg_slip[] = {
  { "slip", slip, 0 }, { "gradient_used", gradient_used, 0 },
  { "gradient_mark", gradient_mark, 0 }, { "walks", walks, 0 }, { NULL, NULL, 0 }
};
