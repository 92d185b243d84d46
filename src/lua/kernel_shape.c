/* The shapes of a user kernel's outputs, as the script gives them: one for all, or a list. */
#include "lua/kernel.h"

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
