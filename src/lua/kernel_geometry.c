/*
** Shapes of outputs, grids and numbers of threads as the script gives them: as values, or as
** functions of a call's arguments. Outputs have one shape, or a list with one for each.
*/
#include "lua/kernel.h"

/* Calls the configuration's function 'name' with the call's arguments; it returns a number or a
** list of up to three. Numbers that are not given are 1. */
static void ask_extent(lua_State *L, const fl_kplan *p, int config, int given, const char *name,
                       int64_t out[3]) {
  luaL_checkstack(L, given + 4, p->l.name);
  lua_getfield(L, config, name);
  for (int i = 0; i < given; i++) lua_pushvalue(L, i + 2);
  lua_call(L, given, 1);
  const int list = lua_istable(L, -1);
  if (!list && lua_type(L, -1) != LUA_TNUMBER)
    fl_lua_fail(L, p->l.name, "the %s function must return a number or a list of up to 3, got %s",
                name, luaL_typename(L, -1));
  for (int i = 0; i < 3; i++) {
    out[i] = i == 0 && !list ? fl_arg_int(L, lua_gettop(L), p->l.name, name) : 1;
    if (!list) continue;
    lua_geti(L, -1, i + 1);
    if (!lua_isnil(L, -1)) out[i] = fl_arg_int(L, lua_gettop(L), p->l.name, name);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

void fl_kplan_ask(lua_State *L, fl_kplan *p, fl_kernel_box *k, int given) {
  lua_getiuservalue(L, 1, 1);
  const int config = lua_gettop(L);
  if (k->lua_shape) {
    luaL_checkstack(L, given + 4, p->l.name);
    lua_getfield(L, config, "shape");
    for (int i = 0; i < given; i++) lua_pushvalue(L, i + 2);
    lua_call(L, given, 1);
    if (!lua_istable(L, -1))
      fl_lua_fail(L, p->l.name, "the shape function must return a list of sizes, got %s",
                  luaL_typename(L, -1));
    fl_kernel_read_shapes(L, k, p->l.name);
    p->shapes = lua_gettop(L);
  }
  if (k->lua_grid) {
    ask_extent(L, p, config, given, "grid", k->grid);
    k->has_grid = 1;
  }
  if (k->lua_threads) {
    ask_extent(L, p, config, given, "threads", k->threads);
    k->has_threads = 1;
  }
  if (p->shapes) lua_copy(L, p->shapes, config), p->shapes = config;
  lua_settop(L, p->shapes ? config : config - 1);
}

void fl_kernel_read_shapes(lua_State *L, fl_kernel_box *k, const char *op) {
  const int at = lua_gettop(L);
  k->has_shape = FL_KERNEL_SHAPE_ONE;
  if (lua_istable(L, at)) {
    if (lua_rawgeti(L, at, 1) == LUA_TTABLE) k->has_shape = FL_KERNEL_SHAPE_EACH;
    lua_pop(L, 1);
  }
  if (k->has_shape == FL_KERNEL_SHAPE_ONE) {
    fl_arg_sizes(L, at, at, op, 0, &k->shape);
    return;
  }
  for (int i = 1; i <= (int)lua_rawlen(L, at); i++) {
    if (lua_rawgeti(L, at, i) != LUA_TTABLE)
      fl_lua_fail(L, op, "shape %d of the outputs is a %s, need a list of sizes as for the first", i,
                  luaL_typename(L, -1));
    fl_arg_sizes(L, at + 1, at + 1, op, 0, &k->shape);
    lua_pop(L, 1);
  }
}

fl_sizes fl_kplan_shape(lua_State *L, const fl_kplan *p, const fl_kernel_box *k,
                        const fl_sizes *first, int made) {
  fl_sizes shape = k->shape;
  if (k->has_shape == FL_KERNEL_SHAPE_ONE) return shape;
  if (k->has_shape == FL_KERNEL_SHAPE_EACH) {
    if (lua_rawgeti(L, p->shapes, made + 1) != LUA_TTABLE)
      fl_lua_fail(L, p->l.name, "shape has %d list%s, and there are more outputs" FL_DO
                  ": give one for each", made, FL_S(made));
    fl_arg_sizes(L, lua_gettop(L), lua_gettop(L), p->l.name, 0, &shape);
    lua_pop(L, 1);
    return shape;
  }
  if (first->n < 0)
    fl_lua_fail(L, p->l.name, "no tensor among the arguments gives the outputs a shape"
                FL_DO ": use :with{shape = {…}}");
  return *first;
}

void fl_kplan_check_shapes(lua_State *L, const fl_kplan *p, const fl_kernel_box *k, int made) {
  if (k->has_shape == FL_KERNEL_SHAPE_EACH && (int)lua_rawlen(L, p->shapes) != made)
    fl_lua_fail(L, p->l.name, "shape has %d lists, and there %s %d output%s that %s no argument",
                (int)lua_rawlen(L, p->shapes), made == 1 ? "is" : "are", made, FL_S(made),
                made == 1 ? "is" : "are");
}
