/*
** Reads the arguments of C functions from Lua's stack. Each function may raise a Lua error, so it
** owns nothing. Messages give the parameter's name and what was found. A float without a fraction,
** such as 3.0, is accepted as an integer.
*/
#include "lua/binding.h"
#include <math.h>
#include <stdio.h>

/* Describes the value at i for messages: "nil", "string 'x'", "number 2.5", "a tensor". */
const char *fl_arg_found(lua_State *L, int i) {
  if (lua_type(L, i) == LUA_TNONE) return "nothing";
  if (lua_type(L, i) == LUA_TSTRING) return lua_pushfstring(L, "string '%s'", lua_tostring(L, i));
  if (lua_type(L, i) == LUA_TNUMBER) return lua_pushfstring(L, "number %s",
      luaL_tolstring(L, i, NULL));
  return box_at(L, i) != NULL ? "a tensor" : luaL_typename(L, i);
}

/* Like fl_arg_found, where a number is needed: for a tensor it adds how to get its number. */
const char *fl_arg_no_number(lua_State *L, int i) {
  return box_at(L, i) != NULL ? "a tensor" FL_DO ": write x:item()" : fl_arg_found(L, i);
}

fl_box *fl_arg_tensor(lua_State *L, int i, const char *op, const char *name) {
  fl_box *x = box_at(L, i);
  if (x == NULL) {
    fl_lua_fail(L, op, "%s must be a tensor, got %s", name, fl_arg_found(L, i));
    return NULL;
  }
  if (x->t == NULL) {
    fl_lua *b = self_of(L);
    if (b->c != NULL) fl_error_clear(&b->c->err);
    if (b->c != NULL) fl_box_dead(b, x);
    if (b->c != NULL) snprintf(b->c->err.op, sizeof b->c->err.op, "%s", op);
    fl_lua_raise(L, b);
  }
  return x;
}

fl_box *fl_arg_tensor_or_nil(lua_State *L, int i, const char *op, const char *name) {
  return lua_isnoneornil(L, i) ? NULL : fl_arg_tensor(L, i, op, name);
}

fl_operand_arg fl_arg_operand(lua_State *L, int i, const char *op, const char *name) {
  fl_operand_arg a = { NULL, 0, 0, 0 };
  if (lua_type(L, i) == LUA_TNUMBER) {
    a.isint = lua_isinteger(L, i);
    a.i = a.isint ? lua_tointeger(L, i) : 0;
    a.d = lua_tonumber(L, i);
  } else if (box_at(L, i) != NULL) {
    a.box = fl_arg_tensor(L, i, op, name);
  } else {
    fl_lua_fail(L, op, "%s must be a tensor or a number, got %s", name, fl_arg_found(L, i));
  }
  return a;
}

/* Reads a value to be stored in a tensor: a tensor, a number or a boolean. */
fl_operand_arg fl_arg_value(lua_State *L, int i, const char *op, const char *name) {
  const int v = lua_toboolean(L, i);
  return lua_isboolean(L, i) ? (fl_operand_arg){ NULL, 1, v, v } : fl_arg_operand(L, i, op, name);
}

fl_node *fl_operand_node(fl_lua *b, const fl_operand_arg *a) {
  if (a->box != NULL) return node_of(b, a->box);
  return a->isint ? n_int(b->c, a->i) : n_num(b->c, a->d);
}

/* A factor given by a script: an integer if it is one, so that integers stay integers. */
fl_node *fl_factor_node(fl_lua *b, double v) {
  const int fits = v > -0x1p62 && v < 0x1p62;
  return fits && (double)(int64_t)v == v ? n_int(b->c, (int64_t)v) : n_num(b->c, v);
}

int64_t fl_arg_int(lua_State *L, int i, const char *op, const char *name) {
  int ok = 0;
  const lua_Integer v = lua_type(L, i) == LUA_TNUMBER ? lua_tointegerx(L, i, &ok) : 0;
  if (ok) return v;
  const double d = lua_type(L, i) == LUA_TNUMBER ? lua_tonumber(L, i) : 0;
  fl_lua_fail(L, op, "%s must be an integer, got %s%s", name, fl_arg_no_number(L, i),
      isfinite(d) && d != floor(d) ? " (a / b is a float, a // b an integer)" : "");
}

int64_t fl_arg_int_or(lua_State *L, int i, const char *op, const char *name, int64_t otherwise) {
  return lua_isnoneornil(L, i) ? otherwise : fl_arg_int(L, i, op, name);
}

double fl_arg_num(lua_State *L, int i, const char *op, const char *name) {
  if (lua_type(L, i) != LUA_TNUMBER) fl_lua_fail(L, op, "%s must be a number, got %s", name,
      fl_arg_no_number(L, i));
  return lua_tonumber(L, i);
}

double fl_arg_num_or(lua_State *L, int i, const char *op, const char *name, double otherwise) {
  return lua_isnoneornil(L, i) ? otherwise : fl_arg_num(L, i, op, name);
}

const char *fl_arg_string(lua_State *L, int i, const char *op, const char *name) {
  if (lua_type(L, i) != LUA_TSTRING) fl_lua_fail(L, op, "%s must be a string, got %s", name,
      fl_arg_found(L, i));
  size_t n = 0;
  const char *s = lua_tolstring(L, i, &n);
  if (strlen(s) != n) fl_lua_fail(L, op, "%s has a zero byte in it", name);
  return s;
}

int fl_arg_dtype(lua_State *L, int i, const char *op) {
  const int d = fl_dtype_of_name(fl_arg_string(L, i, op, "dtype"));
  if (d < 0)
    fl_lua_fail(L, op, "no dtype '%s': f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool",
        lua_tostring(L, i));
  return d;
}

/* Raises if the device is missing, so that this is reported where the device is named, not later
** where a value is read. */
static void need_cuda(lua_State *L, fl_lua *b, int ordinal) {
  char reason[200] = "";
  const int n = fl_cuda_count(reason, sizeof reason);
  if (n > ordinal) return;
  if (n > 0)
    FL_FAIL(b->c, FLAME_NO_DEVICE, "cuda", "there is no cuda:%d, the last is cuda:%d",
            ordinal, n - 1);
  else FL_FAIL(b->c, FLAME_NO_DEVICE, "cuda", "%s", reason[0] ? reason : "no device");
  fl_lua_raise(L, b);
}

int fl_arg_device(lua_State *L, int i, const char *op) {
  fl_lua *b = self_of(L);
  const char *name = fl_arg_string(L, i, op, "device");
  if (b->c == NULL) return fl_lua_raise(L, b);
  fl_error_clear(&b->c->err);
  const int d = fl_device_index(b->c, name);
  if (d < 0) fl_lua_raise(L, b);
  if (d > 0 && !((const fl_engine *)b->c->engine)->open[d]) need_cuda(L, b, d - 1);
  return d;
}

int fl_axis_checked(lua_State *L, int64_t axis, int rank, const char *op) {
  const int n = rank > 0 ? rank : 1;              /* a 0-d tensor takes 1 and -1 */
  if (axis < -n || axis > n || axis == 0)
    fl_lua_fail(L, op, "axis %lld is out of range, the tensor has %d %s (1 to %d, or -1 to -%d)",
                (long long)axis, rank, rank == 1 ? "axis" : "axes", n, n);
  return (int)(axis > 0 ? axis - 1 : axis + n);
}

int fl_arg_axis(lua_State *L, int i, int rank, const char *op) {
  return fl_axis_checked(L, fl_arg_int(L, i, op, "axis"), rank, op);
}

uint32_t fl_arg_axes(lua_State *L, int i, int rank, const char *op) {
  if (lua_isnoneornil(L, i)) return FL_ALL_AXES;
  if (lua_type(L, i) != LUA_TTABLE) {
    const int a = fl_arg_axis(L, i, rank, op);
    return rank == 0 ? FL_ALL_AXES : 1u << a;
  }
  uint32_t set = 0;
  const int n = (int)lua_rawlen(L, i);
  for (int k = 1; k <= n; k++) {
    lua_rawgeti(L, i, k);
    const uint32_t bit = 1u << fl_arg_axis(L, lua_gettop(L), rank, op);
    if (set & bit) fl_lua_fail(L, op, "axis %lld is named twice", (long long)lua_tointeger(L, -1));
    set |= bit;
    lua_pop(L, 1);
  }
  return set == 0 || rank == 0 ? FL_ALL_AXES : set;
}

int fl_is_options(lua_State *L, int i) {
  if (lua_type(L, i) != LUA_TTABLE) return 0;
  i = lua_absindex(L, i);
  lua_pushnil(L);
  while (lua_next(L, i)) {
    const int is_name = lua_type(L, -2) == LUA_TSTRING;
    lua_pop(L, 1);
    if (is_name) {
      lua_pop(L, 1);
      return 1;
    }
  }
  return 0;
}

/* Is 'name' one of the words of 'names'? */
static int is_word(const char *names, const char *name, size_t n) {
  for (const char *p = names; *p != 0;) {
    const size_t w = strcspn(p, " ");
    if (w == n && memcmp(p, name, n) == 0) return 1;
    p += w + (p[w] == ' ');
  }
  return 0;
}

void fl_offer_keys(lua_State *L, int t, fl_word_guess *g) {
  lua_pushnil(L);
  while (lua_next(L, t)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING) fl_word_offer(g, lua_tostring(L, -1), -1);
  }
}

/* Raises: there is no option 'name' among the words of 'names'. */
static void no_option(lua_State *L, const char *op, const char *name, const char *names) {
  char hint[64];
  fl_word_guess g = fl_word_begin(name);
  for (const char *p = names; *p != 0; p += *p == ' ') {
    const size_t w = strcspn(p, " ");
    fl_word_offer(&g, p, (int)w);
    p += w;
  }
  fl_lua_fail(L, op, "no option '%.60s', there is: %s%s", name, names, fl_word_hint(&g, hint));
}

void fl_check_options(lua_State *L, int i, const char *op, const char *names) {
  if (lua_isnoneornil(L, i)) return;
  if (lua_type(L, i) != LUA_TTABLE) fl_lua_fail(L, op, "options must be a table, got %s",
      fl_arg_found(L, i));
  i = lua_absindex(L, i);
  lua_pushnil(L);
  while (lua_next(L, i)) {
    lua_pop(L, 1);
    size_t n = 0;
    const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &n) : NULL;
    if (name == NULL) fl_lua_fail(L, op, "options have names (%s), got a key %s", names,
        fl_arg_found(L, -1));
    if (!is_word(names, name, n)) no_option(L, op, name, names);
  }
}

int fl_option(lua_State *L, int i, const char *name) {
  if (i == 0 || lua_type(L, i) != LUA_TTABLE) {
    lua_pushnil(L);
    return LUA_TNIL;
  }
  i = lua_absindex(L, i);
  lua_pushstring(L, name);
  return lua_rawget(L, i);
}

int fl_option_bool(lua_State *L, int i, const char *op, const char *name, int otherwise) {
  const int t = fl_option(L, i, name);
  if (t != LUA_TNIL && t != LUA_TBOOLEAN) fl_lua_fail(L, op,
      "%s must be true or false, got %s", name, fl_arg_found(L, -1));
  const int v = t == LUA_TNIL ? otherwise : lua_toboolean(L, -1);
  lua_pop(L, 1);
  return v;
}

int64_t fl_option_int(lua_State *L, int i, const char *op, const char *name, int64_t otherwise) {
  fl_option(L, i, name);
  const int64_t v = fl_arg_int_or(L, lua_gettop(L), op, name, otherwise);
  lua_pop(L, 1);
  return v;
}

void fl_arg_sizes(lua_State *L, int first, int last, const char *op, int least, fl_sizes *s) {
  const int list = last >= first && lua_type(L, first) == LUA_TTABLE;
  if (list && last > first) fl_lua_fail(L, op, "sizes come as numbers or as one table, not both");
  const int n = list ? (int)lua_rawlen(L, first) : last - first + 1;
  if (n > FL_MAX_AXES) fl_lua_fail(L, op, "%d axes, at most %d", n, FL_MAX_AXES);
  s->n = n < 0 ? 0 : n;
  for (int k = 0; k < s->n; k++) {
    if (list) lua_rawgeti(L, first, k + 1);
    s->at[k] = fl_arg_int(L, list ? lua_gettop(L) : first + k, op, "size");
    if (s->at[k] < least) fl_lua_fail(L, op, "size %lld of axis %d is negative",
        (long long)s->at[k], k + 1);
    if (list) lua_pop(L, 1);
  }
  if (least >= 0 && fl_numel(s->n, s->at) < 0) {
    char text[192];
    fl_lua_fail(L, op, "shape %s has more elements than can be counted", fl_shape_text(text,
        s->n, s->at));
  }
}

void fl_arg_make_opts(lua_State *L, int first, const char *op, fl_make_opts *o) {
  fl_lua *b = self_of(L);
  o->dtype = lua_isnil(L, first) ? -1 : fl_arg_dtype(L, first, op);
  o->device = b->c != NULL ? b->c->default_device : 0;
  if (!lua_isnil(L, first + 1)) o->device = fl_arg_device(L, first + 1, op);
  o->requires_grad = lua_toboolean(L, first + 2);
}

int fl_is_callable(lua_State *L, int i) {
  enum { MOST = 8 };                    /* how far a __call that is an object is followed */
  const int top = lua_gettop(L);
  int ok = 0;
  luaL_checkstack(L, MOST + 2, "callable");
  i = lua_absindex(L, i);
  for (int k = 0; k < MOST && !ok; k++) {
    ok = lua_isfunction(L, i);
    if (ok || box_at(L, i) != NULL || luaL_getmetafield(L, i, "__call") == LUA_TNIL) break;
    i = lua_gettop(L);
  }
  lua_settop(L, top);
  return ok;
}

const char *fl_lua_shape_of(char buf[192], const fl_node *n) {
  return fl_shape_text(buf, n->shape->rank, n->shape->size);
}

void fl_push_scalar(lua_State *L, int dtype, fl_scalar v) {
  if (fl_is_float(dtype)) lua_pushnumber(L, v.d);
  else if (dtype == FLAME_BOOL) lua_pushboolean(L, v.i != 0);
  else lua_pushinteger(L, v.i);
}

int fl_value_fits(const fl_operand_arg *a, int dtype, fl_scalar *v) {
  static const int64_t low[FLAME_DTYPE_COUNT] = { 0, 0, 0, 0, INT64_MIN, INT32_MIN,
      INT16_MIN, INT8_MIN, 0, 0 };
  static const int64_t high[FLAME_DTYPE_COUNT] = { 0, 0, 0, 0, INT64_MAX, INT32_MAX,
      INT16_MAX, INT8_MAX, UINT8_MAX, 1 };
  if (fl_is_float(dtype)) {
    v->d = a->d;
    return 1;
  }
  v->i = a->isint ? a->i : 0;
  if (!a->isint && !(a->d >= -9223372036854775808.0 && a->d < 9223372036854775808.0)) return 0;
  if (!a->isint) v->i = (int64_t)a->d;
  return (a->isint || (double)v->i == a->d) && v->i >= low[dtype] && v->i <= high[dtype];
}

int fl_number_fits(lua_State *L, int i, int dtype, fl_scalar *v, char why[96]) {
  if (lua_type(L, i) == LUA_TBOOLEAN) {
    if (fl_is_float(dtype)) v->d = lua_toboolean(L, i);
    else v->i = lua_toboolean(L, i);
    return 1;
  }
  fl_operand_arg a = { NULL, lua_isinteger(L, i), 0, lua_tonumber(L, i) };
  if (a.isint) a.i = lua_tointeger(L, i);
  if (fl_value_fits(&a, dtype, v)) return 1;
  if (a.isint) snprintf(why, 96, "%lld is not in the range of %s", (long long)a.i,
      fl_dtype_name(dtype));
  else snprintf(why, 96, "%.14g is not an integer in the range of %s", a.d, fl_dtype_name(dtype));
  return 0;
}

fl_node *fl_stored_value(fl_lua *b, const fl_operand_arg *a, fl_node *like, const char *op) {
  flame_context *c = b->c;
  if (a->box == NULL) {
    fl_scalar v;
    if (fl_value_fits(a, like->dtype, &v)) return n_fill(c, like->dtype, like->device, 0, NULL, v);
    if (a->isint) FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "%lld is not in the range of %s",
        (long long)a->i, fl_dtype_name(like->dtype));
    else FL_FAIL(c, FLAME_BAD_ARGUMENT, op, "%.14g can not be stored in a tensor of %s",
        a->d, fl_dtype_name(like->dtype));
    return NULL;
  }
  fl_node *v = node_of(b, a->box);
  if (v == NULL) return NULL;
  if (fl_is_float(v->dtype) && !fl_is_float(like->dtype)) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op,
        "a value of %s can not be stored in a tensor of %s" FL_DO ": use to(\"%s\") first",
            fl_dtype_name(v->dtype), fl_dtype_name(like->dtype), fl_dtype_name(like->dtype));
    return NULL;
  }
  if (v->device != like->device) {
    char have[16], want[16];
    fl_device_name(v->device, have);
    fl_device_name(like->device, want);
    FL_FAIL(c, FLAME_BAD_ARGUMENT, op,
        "x is on %s and the value on %s" FL_DO "; use value:to(x.device)", want, have);
    return NULL;
  }
  return n_cast(v, like->dtype);
}

int fl_arg_list(lua_State *L, int i, const char *op, const char *name, int max, fl_box **out) {
  if (lua_type(L, i) != LUA_TTABLE) fl_lua_fail(L, op,
      "%s must be a list of tensors, got %s", name, fl_arg_found(L, i));
  const int n = (int)lua_rawlen(L, i);
  i = lua_absindex(L, i);
  if (n > max) fl_lua_fail(L, op, "%s has %d tensors, at most %d", name, n, max);
  luaL_checkstack(L, n + 8, "too many tensors");
  for (int k = 0; k < n; k++) {
    char which[48];
    lua_rawgeti(L, i, k + 1);
    snprintf(which, sizeof which, "%s[%d]", name, k + 1);
    out[k] = fl_arg_tensor(L, lua_gettop(L), op, which);
  }
  return n;
}

/* ---- bytes of ours -------------------------------------------------------------------------- */

typedef struct { const char *p; size_t n; } span;

static int push_span(lua_State *L) {
  const span *s = (const span *)lua_touserdata(L, 1);
  lua_pushlstring(L, s->p, s->n);
  return 1;
}

int fl_lua_push_copy(lua_State *L, const char *p, size_t n) {
  span s = { p, n };
  lua_pushcfunction(L, push_span);
  lua_pushlightuserdata(L, &s);
  return lua_pcall(L, 1, 1, 0) == LUA_OK;
}
