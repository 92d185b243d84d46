/*
** internal.call(kind, what, inputs, params, sizes, dtype): records a call (a node that runs a
** function such as a sort, tensor/call.h) for functions written in Lua, which have checked the
** user's arguments. what: the name for messages, here and below. Autograd does not track the
** result. Without inputs the device is the default one.
**
** internal.along(kind, what, x, d, dtype, y, ...): records a call on x, and on y if it is not nil,
** along axis d of x, which is checked here. The call's parameters: the numbers of elements before,
** on and after the axis, then the integers '...'. The result has x's shape, and x's dtype if none
** is given.
**
** internal.attention(q, k, v, mask or nil, scale, causal, p or nil): n_attention (tensor/build.h),
** tracked; internal.attention_rows(x, h, hk, scale, causal, p or nil): n_attention_rows.
**
** internal.form(what, axis, code, total, x, ...): n_form (tensor/form.h) of inputs x, ... along
** 'axis', untracked; code: the integers of n_form, two bytes each. total: the result is summed over
** the axes between the components and the last axis.
*/
#include "lua/binding.h"
#include "tensor/call.h"
#include "tensor/form.h"

static int read_integers(lua_State *L, int at, const char *what, int most, int64_t *out) {
  const int n = (int)lua_rawlen(L, at);
  if (n > most) fl_lua_fail(L, what, "%d integers, at most %d", n, most);
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
                      ok ? n_call(b->c, kind, what, nin, in, device, dtype, rank, size, np, p, NULL,
                                  0, NULL) : NULL);
}

int fl_lua_call_along(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *what = luaL_checkstring(L, 2);
  const int kind = fl_call_of_name(luaL_checkstring(L, 1)), top = lua_gettop(L);
  fl_box *x = fl_arg_tensor(L, 3, what, "x"), *y = fl_arg_tensor_or_nil(L, 6, what, "y");
  const fl_layout *l = x->t->node->shape;
  const int axis = fl_arg_axis(L, 4, l->rank, what);
  int64_t p[FL_CALL_PARAMS] = { 1, l->rank > 0 ? l->size[axis] : 1, 1 };
  int np = 3;
  for (int a = 0; a < l->rank; a++) if (a != axis) p[a < axis ? 0 : 2] *= l->size[a];
  for (int i = 7; i <= top && np < FL_CALL_PARAMS; i++) p[np++] = luaL_checkinteger(L, i);
  const int dtype = lua_isnoneornil(L, 5) ? x->t->node->dtype : fl_arg_dtype(L, 5, what);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *in[] = { node_of(b, x), y ? node_of(b, y) : NULL };
  const int ok = in[0] && (!y || in[1]);
  return fl_lua_leave(L, b, m, out, ok ? n_call(b->c, kind, what, y ? 2 : 1, in, in[0]->device,
                                                dtype, in[0]->shape->rank, in[0]->shape->size, np,
                                                p, NULL, 0, NULL) : NULL);
}

static double dropout_of(lua_State *L, int at, const char *op) {
  return lua_isnoneornil(L, at) ? 0 : fl_arg_num(L, at, op, "dropout_p");
}

int fl_lua_attention(lua_State *L) {
  static const char op[] = "scaled_dot_product_attention";
  fl_lua *b = self_of(L);
  fl_box *q = fl_arg_tensor(L, 1, op, "q"), *k = fl_arg_tensor(L, 2, op, "k"),
         *v = fl_arg_tensor(L, 3, op, "v");
  fl_box *mask = fl_arg_tensor_or_nil(L, 4, op, "attn_mask"), *out;
  const double scale = fl_arg_num(L, 5, op, "scale"), p = dropout_of(L, 7, op);
  const int causal = lua_toboolean(L, 6);
  out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *in[] = { node_of(b, q), node_of(b, k), node_of(b, v),
                    mask ? node_of(b, mask) : &fl_none };
  return fl_lua_leave(L, b, m, out, n_attention(in[0], in[1], in[2], in[3], scale, causal, p));
}

int fl_lua_attention_rows(lua_State *L) {
  static const char op[] = "scaled_dot_product_attention";
  fl_lua *b = self_of(L);
  fl_box *x = fl_arg_tensor(L, 1, op, "x"), *out;
  const int64_t h = luaL_checkinteger(L, 2), hk = luaL_checkinteger(L, 3);
  const double scale = fl_arg_num(L, 4, op, "scale"), p = dropout_of(L, 6, op);
  const int causal = lua_toboolean(L, 5);
  out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return fl_lua_leave(L, b, m, out, n_attention_rows(node_of(b, x), h, hk, scale, causal, p));
}

/* The sums of y over all axes but the first and the last; NULL for NULL. */
static fl_node *total_of(fl_node *y) {
  const int rank = y ? y->shape->rank : 0;
  const int64_t size[2] = { y ? y->shape->size[0] : 0, rank ? y->shape->size[rank - 1] : 0 };
  uint32_t axes = 0;
  for (int a = 1; a + 1 < rank; a++) axes |= 1u << a;
  y = n_sum_parts(y, 0, axes);
  return y && axes ? n_reshape(y, 2, size) : y;
}

int fl_lua_form(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *what = luaL_checkstring(L, 1);
  const int nin = lua_gettop(L) - 4, axis = (int)luaL_checkinteger(L, 2) - 1;
  size_t bytes = 0;
  const char *text = luaL_checklstring(L, 3, &bytes);
  const int total = lua_toboolean(L, 4);
  fl_box *x[FL_FORM_INPUTS];
  fl_node *in[FL_FORM_INPUTS] = { NULL };
  if (nin < 1 || nin > FL_FORM_INPUTS || bytes > INT16_MAX)
    return fl_lua_fail(L, what, "a form of %d inputs and %d bytes is too large", nin, (int)bytes);
  for (int q = 0; q < nin; q++) x[q] = fl_arg_tensor(L, 5 + q, what, "x");
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  int ok = 1;
  for (int q = 0; q < nin; q++) ok = ok && (in[q] = node_of(b, x[q])) != NULL;
  fl_node *y = ok ? n_form(b->c, what, axis, nin, in, text, (int)(bytes / 2)) : NULL;
  return fl_lua_leave(L, b, m, out, total ? total_of(y) : y);
}
