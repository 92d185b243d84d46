/*
** The functions of the op table: one closure an op and form, made from fl_ops (which derives
** from tensor/ops.def), so that a new line there is a new function here. The op's number is
** upvalue 3. 'name' gives a new tensor, 'name_' writes the result into its first argument.
** Operators are the same builders without argument counting: they are the hot path.
*/
#include "lua/binding.h"
#include <stdio.h>
#include <string.h>

static int op_of(lua_State *L) { return (int)lua_tointeger(L, lua_upvalueindex(3)); }

/* The value that goes into x by 'name_': cast to x's dtype, unless that loses the kind. */
static flame_status write_back(fl_lua *b, fl_box *x, fl_node *v, const char *op) {
  if (v == NULL) return b->c->err.code;
  fl_node *old = node_of(b, x);
  if (old == NULL) return b->c->err.code;
  if (v->dtype != old->dtype) {
    if (fl_dtypes[v->dtype].cls > fl_dtypes[old->dtype].cls)
      return FL_FAIL(b->c, FLAME_BAD_ARGUMENT, op, "the result is %s, x is %s and keeps its dtype",
                     fl_dtype_name(v->dtype), fl_dtype_name(old->dtype));
    v = n_cast(v, old->dtype);
  }
  if (v == NULL) return b->c->err.code;
  return fl_tensor_write(x->t, v, op);
}

/* What a builder says of the op is said of the write. */
static int leave_written(lua_State *L, fl_lua *b, int64_t mark, flame_status e, const char *op) {
  fl_error *err = &b->c->err;
  if (e != FLAME_OK && err->code == FLAME_BAD_ARGUMENT && err->op[0] != 0)
    snprintf(err->op, sizeof err->op, "%s", op);
  fl_lua_leave_status(L, b, mark, e);
  lua_settop(L, 1);
  return 1;
}

/* ---- unary ---------------------------------------------------------------------------- */
static int op_unary(lua_State *L) {
  fl_lua *b = self_of(L);
  const int op = op_of(L);
  if (lua_gettop(L) > 1 && (op == FL_OP_softplus || op == FL_OP_round))
    return fl_core_call(L, b, fl_ops[op].name);          /* with parameters: written in Lua */
  fl_arg_count(L, 1, fl_ops[op].name);
  fl_box *x = fl_arg_tensor(L, 1, fl_ops[op].name, "x");
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return fl_lua_leave(L, b, m, out, fl_build_unary(op, node_of(b, x)));
}

static const char *in_place_name(lua_State *L, int op) {
  return lua_pushfstring(L, "%s_", fl_ops[op].name);
}

static int op_unary_(lua_State *L) {
  fl_lua *b = self_of(L);
  const int op = op_of(L);
  fl_arg_count(L, 1, fl_ops[op].name);
  fl_box *x = fl_arg_tensor(L, 1, fl_ops[op].name, "x");
  const char *name = in_place_name(L, op);
  const int64_t m = fl_lua_enter(L, b);
  return leave_written(L, b, m, write_back(b, x, fl_build_unary(op, node_of(b, x)), name), name);
}

/* ---- binary ---------------------------------------------------------------------------- */
typedef struct binary_args { fl_operand_arg x, y; double alpha; int rounding; } binary_args;

/* add, sub: {alpha = }; div: {rounding_mode = "floor" | "trunc"}. */
static void binary_options(lua_State *L, int op, binary_args *a) {
  const char *name = fl_ops[op].name;
  a->alpha = 1;
  a->rounding = 0;
  if (lua_gettop(L) < 3) return;
  fl_arg_count(L, 3, name);
  if (op == FL_OP_add || op == FL_OP_sub) {
    fl_check_options(L, 3, name, "alpha");
    a->alpha = fl_option_num(L, 3, name, "alpha", 1);
  } else if (op == FL_OP_div) {
    fl_check_options(L, 3, name, "rounding_mode");
    if (fl_option(L, 3, "rounding_mode") == LUA_TNIL) return;
    const char *mode = fl_arg_string(L, lua_gettop(L), name, "rounding_mode");
    a->rounding = strcmp(mode, "floor") == 0 ? 1 : strcmp(mode, "trunc") == 0 ? 2 : 0;
    if (a->rounding == 0) fl_lua_fail(L, name,
        "rounding_mode must be \"floor\" or \"trunc\", got \"%s\"", mode);
  } else {
    fl_arg_count(L, 2, name);
  }
}

static void binary_read(lua_State *L, int op, binary_args *a) {
  const char *name = fl_ops[op].name;
  binary_options(L, op, a);
  a->x = fl_arg_operand(L, 1, name, "x");
  a->y = fl_arg_operand(L, 2, name, "y");
  if (a->x.box == NULL && a->y.box == NULL) fl_lua_fail(L, name,
      "x or y must be a tensor, both are numbers");
}

static fl_node *binary_node(fl_lua *b, int op, const binary_args *a) {
  fl_node *x = fl_operand_node(b, &a->x), *y = fl_operand_node(b, &a->y);
  if (x == NULL || y == NULL) return NULL;
  if (a->alpha != 1) {
    if (a->y.box != NULL) y = n_mul(y, fl_factor_node(b, a->alpha));
    else y = a->y.isint ? fl_factor_node(b, a->y.d * a->alpha) : n_num(b->c, a->y.d * a->alpha);
  }
  if (a->rounding == 1) return n_floordiv(x, y);
  if (a->rounding == 2) return n_truncdiv(x, y);
  return fl_build_binary(op, x, y);
}

static int op_binary(lua_State *L) {
  fl_lua *b = self_of(L);
  const int op = op_of(L);
  binary_args a;
  binary_read(L, op, &a);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return fl_lua_leave(L, b, m, out, binary_node(b, op, &a));
}

static int op_binary_(lua_State *L) {
  fl_lua *b = self_of(L);
  const int op = op_of(L);
  binary_args a;
  binary_read(L, op, &a);
  fl_box *x = fl_arg_tensor(L, 1, fl_ops[op].name, "x");
  const char *name = in_place_name(L, op);
  const int64_t m = fl_lua_enter(L, b);
  return leave_written(L, b, m, write_back(b, x, binary_node(b, op, &a), name), name);
}

/* Arithmetic metamethods: no option, no count; one argument at least is a tensor. */
static inline int arithmetic(lua_State *L, int op) {
  fl_lua *b = self_of(L);
  const fl_operand_arg x = fl_arg_operand(L, 1, fl_ops[op].name, "x");
  const fl_operand_arg y = fl_arg_operand(L, 2, fl_ops[op].name, "y");
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *xn = fl_operand_node(b, &x), *yn = fl_operand_node(b, &y);
  return fl_lua_leave(L, b, m, out, xn && yn ? fl_build_binary(op, xn, yn) : NULL);
}
static int mm_add(lua_State *L) { return arithmetic(L, FL_OP_add); }
static int mm_sub(lua_State *L) { return arithmetic(L, FL_OP_sub); }
static int mm_mul(lua_State *L) { return arithmetic(L, FL_OP_mul); }
static int mm_div(lua_State *L) { return arithmetic(L, FL_OP_div); }
static int mm_pow(lua_State *L) { return arithmetic(L, FL_OP_pow); }
static int mm_idiv(lua_State *L) { return arithmetic(L, FL_OP_floordiv); }
static int mm_mod(lua_State *L) { return arithmetic(L, FL_OP_mod); }
static int mm_band(lua_State *L) { return arithmetic(L, FL_OP_bitwise_and); }
static int mm_bor(lua_State *L) { return arithmetic(L, FL_OP_bitwise_or); }
static int mm_bxor(lua_State *L) { return arithmetic(L, FL_OP_bitwise_xor); }

static int negated(lua_State *L, int op) {
  fl_lua *b = self_of(L);
  fl_box *x = fl_arg_tensor(L, 1, fl_ops[op].name, "x");
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return fl_lua_leave(L, b, m, out, fl_build_unary(op, node_of(b, x)));
}
static int mm_unm(lua_State *L) { return negated(L, FL_OP_neg); }
static int mm_bnot(lua_State *L) { return negated(L, FL_OP_bitwise_not); }

#define COMPARED \
  "a comparison gives true or false in Lua, not a tensor" FL_DO \
  ": use x:lt(y) le gt ge eq ne, or numbers: x:item()"
static int mm_lt(lua_State *L) { return fl_lua_fail(L, "<", COMPARED); }
static int mm_le(lua_State *L) { return fl_lua_fail(L, "<=", COMPARED); }
static int mm_concat(lua_State *L) {
  for (int i = 1; i <= 2; i++) {
    if (box_at(L, i) == NULL && !lua_isstring(L, i) && !fl_is_sizes(L, i))
      return fl_lua_fail(L, "..", "can not join a tensor and a %s", luaL_typename(L, i));
  }
  luaL_tolstring(L, 1, NULL);
  luaL_tolstring(L, 2, NULL);
  lua_concat(L, 2);
  return 1;
}

/* ---- ternary: where and clamp ------------------------------------------------------------- */
/* flame.where(c, a, b); x:where(c, b) as in PyTorch when c is the only bool. */
static int op_where(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_arg_count(L, 3, "where");
  if (lua_gettop(L) == 1) return fl_core_call(L, b, "where");    /* the positions: written in Lua */
  fl_box *c = box_at(L, 2), *first = box_at(L, 1);
  if (c && c->t && c->t->node && c->t->node->dtype == FLAME_BOOL &&
      !(first && first->t && first->t->node && first->t->node->dtype == FLAME_BOOL)) {
    lua_pushvalue(L, 1);
    lua_copy(L, 2, 1);
    lua_replace(L, 2);
  }
  c = fl_arg_tensor(L, 1, "where", "condition");
  const fl_operand_arg x = fl_arg_operand(L, 2, "where", "x"), y = fl_arg_operand(L, 3,
      "where", "y");
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *cn = node_of(b, c), *xn = fl_operand_node(b, &x), *yn = fl_operand_node(b, &y);
  return fl_lua_leave(L, b, m, out, cn && xn && yn ? n_where(cn, xn, yn) : NULL);
}

typedef struct clamp_args { fl_box *x; fl_operand_arg low, high; int has_low,
    has_high; } clamp_args;

static void clamp_read(lua_State *L, clamp_args *a) {
  fl_place_options(L, 2, "clamp", "min max");
  fl_arg_count(L, 3, "clamp");
  a->x = fl_arg_tensor(L, 1, "clamp", "x");
  a->has_low = !lua_isnoneornil(L, 2);
  a->has_high = !lua_isnoneornil(L, 3);
  if (a->has_low) a->low = fl_arg_operand(L, 2, "clamp", "min");
  if (a->has_high) a->high = fl_arg_operand(L, 3, "clamp", "max");
  if (!a->has_low && !a->has_high) fl_lua_fail(L, "clamp", "min or max must be given");
}

static fl_node *clamp_node(fl_lua *b, const clamp_args *a) {
  fl_node *x = node_of(b, a->x);
  fl_node *low = a->has_low ? fl_operand_node(b, &a->low) : NULL;
  fl_node *high = a->has_high ? fl_operand_node(b, &a->high) : NULL;
  if (x == NULL || (a->has_low && low == NULL) || (a->has_high && high == NULL)) return NULL;
  return n_clamp(x, low ? low : &fl_none, high ? high : &fl_none);
}

static int op_clamp(lua_State *L) {
  fl_lua *b = self_of(L);
  clamp_args a;
  clamp_read(L, &a);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return fl_lua_leave_as(L, b, m, out, clamp_node(b, &a), "clamp");
}

static int op_clamp_(lua_State *L) {
  fl_lua *b = self_of(L);
  clamp_args a;
  clamp_read(L, &a);
  const int64_t m = fl_lua_enter(L, b);
  const flame_status e = write_back(b, a.x, clamp_node(b, &a), "clamp_");
  fl_error_own(&b->c->err, "clamp_");
  return leave_written(L, b, m, e, "clamp_");
}

/* ---- reductions ------------------------------------------------------------------------------ */
typedef struct reduce_args { fl_box *x; uint32_t axes; int axis, keepdim, opts; } reduce_args;

/* x, [axes], [keepdim], [options with 'names']. axis: the one axis, -1 none or several. */
static void reduce_read(lua_State *L, const char *op, const char *names, reduce_args *a) {
  int top;
  while (lua_gettop(L) > 1 && lua_isnil(L, -1)) lua_pop(L, 1);
  a->opts = fl_tail_options(L, &top);
  if (!a->opts && top == 3 && lua_istable(L, 3)) a->opts = top--;          /* an empty one */
  if (top > 3) fl_lua_fail(L, op, "%d arguments at most, got %d", a->opts ? 4 : 3, top);
  a->x = fl_arg_tensor(L, 1, op, "x");
  const int rank = a->x->t->node ? a->x->t->node->shape->rank : 0;
  a->axes = top >= 2 ? fl_arg_axes(L, 2, rank, op) : FL_ALL_AXES;
  a->axis = top >= 2 && lua_type(L, 2) == LUA_TNUMBER ? fl_arg_axis(L, 2, rank, op) : -1;
  if (top >= 3 && !lua_isboolean(L, 3)) fl_lua_fail(L, op, "keepdim must be true or false, got %s",
      fl_arg_found(L, 3));
  a->keepdim = top >= 3 && lua_toboolean(L, 3);
  fl_check_options(L, a->opts ? a->opts : lua_gettop(L) + 1, op, names);
  if (a->opts && fl_option(L, a->opts, "dim") != LUA_TNIL) {
    const int at = lua_gettop(L);
    if (top >= 2 && !lua_isnil(L, 2))
      fl_lua_fail(L, op, "the axes stand twice, as an argument and as dim");
    a->axes = fl_arg_axes(L, at, rank, op);
    a->axis = lua_type(L, at) == LUA_TNUMBER ? fl_arg_axis(L, at, rank, op) : -1;
  }
  a->keepdim = fl_option_bool(L, a->opts, op, "keepdim", a->keepdim);
}

static int op_reduce(lua_State *L) {
  fl_lua *b = self_of(L);
  const int op = op_of(L);
  reduce_args a;
  int dtype = -1;
  reduce_read(L, fl_ops[op].name, "dim keepdim dtype", &a);
  if (fl_option(L, a.opts, "dtype") != LUA_TNIL) dtype = fl_arg_dtype(L, lua_gettop(L),
      fl_ops[op].name);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *x = node_of(b, a.x);
  if (x != NULL && dtype >= 0) x = n_cast(x, dtype);
  if (x != NULL) x = fl_build_reduce(op, x, a.axes, a.keepdim);
  if (x != NULL && dtype >= 0) x = n_cast(x, dtype);
  return fl_lua_leave(L, b, m, out, x);
}

/* max, min: all -> value; one axis -> values, positions; another tensor -> maximum. */
static int extreme(lua_State *L, const char *name, int value, int position, int pair) {
  fl_lua *b = self_of(L);
  if (box_at(L, 2) != NULL) {
    fl_arg_count(L, 2, name);
    fl_box *x = fl_arg_tensor(L, 1, name, "x"), *y = fl_arg_tensor(L, 2, name, "y"),
        *out = fl_box_new(L);
    const int64_t m = fl_lua_enter(L, b);
    fl_node *xn = node_of(b, x), *yn = node_of(b, y);
    return fl_lua_leave_as(L, b, m, out, xn && yn ? fl_build_binary(pair, xn, yn) : NULL, name);
  }
  reduce_args a;
  reduce_read(L, name, "dim keepdim", &a);
  fl_box *out = fl_box_new(L), *where = a.axis >= 0 ? fl_box_new(L) : NULL;
  const int64_t m = fl_lua_enter(L, b);
  fl_node *x = node_of(b, a.x), *v = NULL;
  if (where == NULL) return fl_lua_leave_as(L, b, m, out, x ? fl_build_reduce(value, x, a.axes,
      a.keepdim) : NULL, name);
  fl_node *p = x ? fl_build_reduce(position, x, a.axes, 1) : NULL;
  if (p != NULL && fl_tracked(x) && b->c->grad_mode && x->shape->rank > 0)
    v = n_gather_axis(x, a.axis, n_index(p, x->shape->size[a.axis], 0, name));
  else if (p != NULL)
    v = fl_build_reduce(value, x, a.axes, 1);
  if (!a.keepdim && x && x->shape->rank > 0) {
    v = v ? n_squeeze(v, a.axis) : NULL;
    p = p ? n_squeeze(p, a.axis) : NULL;
  }
  where->t = fl_tensor_new(b->c, p);
  fl_lua_leave_as(L, b, m, out, where->t ? v : NULL, name);
  return 2;
}
static int op_max(lua_State *L) { return extreme(L, "max", FL_OP_amax, FL_OP_argmax,
    FL_OP_maximum); }
static int op_min(lua_State *L) { return extreme(L, "min", FL_OP_amin, FL_OP_argmin,
    FL_OP_minimum); }

static int op_mean(lua_State *L) {
  fl_lua *b = self_of(L);
  reduce_args a;
  int dtype = -1;
  reduce_read(L, "mean", "dim keepdim dtype", &a);
  if (fl_option(L, a.opts, "dtype") != LUA_TNIL) dtype = fl_arg_dtype(L, lua_gettop(L), "mean");
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *x = node_of(b, a.x);
  if (x != NULL && dtype >= 0) x = n_cast(x, dtype);
  return fl_lua_leave(L, b, m, out, x ? n_mean(x, a.axes, a.keepdim) : NULL);
}

/* PyTorch's older form: ([axes], unbiased[, keepdim]). Takes 'unbiased' out;
** the correction it means. */
static double take_unbiased(lua_State *L) {
  for (int i = 2; i <= 3 && i <= lua_gettop(L); i++) {
    if (lua_type(L, i) != LUA_TBOOLEAN) continue;
    const double correction = lua_toboolean(L, i) ? 1 : 0;
    lua_remove(L, i);
    if (i == 2 && lua_type(L, 2) == LUA_TBOOLEAN) lua_pushnil(L), lua_insert(L, 2);
    return correction;
  }
  return 1;
}

static int var_std(lua_State *L, const char *name, int root) {
  fl_lua *b = self_of(L);
  reduce_args a;
  const double unbiased = take_unbiased(L);
  reduce_read(L, name, "dim keepdim correction unbiased", &a);
  const int by_name = fl_option_bool(L, a.opts, name, "unbiased", unbiased > 0);
  const double correction = fl_option_num(L, a.opts, name, "correction", by_name ? 1 : 0);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *x = node_of(b, a.x);
  fl_node *v = x ? n_var(x, a.axes, correction, a.keepdim) : NULL;
  return fl_lua_leave_as(L, b, m, out, v && root ? n_root(v) : v, name);
}
static int op_var(lua_State *L) { return var_std(L, "var", 0); }
static int op_std(lua_State *L) { return var_std(L, "std", 1); }

static int op_logsumexp(lua_State *L) {
  fl_lua *b = self_of(L);
  reduce_args a;
  reduce_read(L, "logsumexp", "dim keepdim", &a);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *x = node_of(b, a.x);
  return fl_lua_leave(L, b, m, out, x ? n_logsumexp(x, a.axes, a.keepdim) : NULL);
}

static int op_count_nonzero(lua_State *L) {
  fl_lua *b = self_of(L);
  reduce_args a;
  reduce_read(L, "count_nonzero", "dim keepdim", &a);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *x = node_of(b, a.x);
  return fl_lua_leave(L, b, m, out, x ? n_sum(n_ne(x, n_int(b->c, 0)), a.axes, a.keepdim) : NULL);
}

/* ---- whole-tensor writes --------------------------------------------------------------------- */
static int fill_with(lua_State *L, const char *op) {
  fl_lua *b = self_of(L);
  fl_arg_count(L, 2, op);
  fl_box *x = fl_arg_tensor(L, 1, op, "x");
  const fl_operand_arg v = fl_arg_operand(L, 2, op, "value");
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  fl_node *value = n ? fl_stored_value(b, &v, n, op) : NULL;
  if (value != NULL) value = n_expand(value, n->shape->rank, n->shape->size);
  if (value != NULL) value = n_copy(value);
  return leave_written(L, b, m, value ? fl_tensor_write(x->t, value, op) : b->c->err.code, op);
}
static int op_fill_(lua_State *L) { return fill_with(L, "fill_"); }

static int op_zero_(lua_State *L) {
  fl_arg_count(L, 1, "zero_");
  lua_settop(L, 1);
  lua_pushinteger(L, 0);
  return fill_with(L, "zero_");
}

static int op_copy_(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_arg_count(L, 2, "copy_");
  fl_box *x = fl_arg_tensor(L, 1, "copy_", "x"), *y = fl_arg_tensor(L, 2, "copy_", "y");
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x), *v = node_of(b, y);
  flame_status e = b->c->err.code;
  if (n != NULL && v != NULL) {
    if (v->device != n->device) v = fl_to_device(b->c, v, n->device);
    if (v != NULL) v = n_cast(v, n->dtype);
    if (v != NULL) v = n_expand(v, n->shape->rank, n->shape->size);
    e = v ? fl_tensor_write(x->t, n_copy(v), "copy_") : b->c->err.code;
  }
  return leave_written(L, b, m, e, "copy_");
}

/* ---- functions written in Lua ---------------------------------------------------------------- */
/* Append a word to a list in text; as much as fits. */
static void add_word(char *text, size_t size, const char *word) {
  const size_t n = strlen(text);
  snprintf(text + n, size - n, "%s%s", n > 0 ? ", " : "", word);
}

/* An argument of a type that no check met: Lua's own error in one of flame's files, which starts
** with that file, or from a function of C. Raised again with the function's name, what it was given
** and its parameters. */
static int misfit(lua_State *L, int given) {
  const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "", *rest = NULL;
  if (strncmp(text, "attempt to ", 11) == 0) rest = text;
  else if (strncmp(text, "flame/", 6) == 0 && strstr(text, ".lua:") != NULL)
    rest = strstr(text, ": ") + 2;
  if (rest == NULL) return lua_error(L);
  char types[200] = "", names[160] = "";
  for (int i = 1; i <= given; i++)
    add_word(types, sizeof types, box_at(L, i) ? "a tensor" : luaL_typename(L, i));
  lua_Debug info;
  lua_pushvalue(L, lua_upvalueindex(3));
  lua_getinfo(L, ">u", &info);
  for (int i = 1; i <= info.nparams; i++) {
    lua_pushvalue(L, lua_upvalueindex(3));
    const char *name = lua_getlocal(L, NULL, i);
    if (name != NULL) add_word(names, sizeof names, name);
    lua_pop(L, 1);
  }
  if (info.isvararg) add_word(names, sizeof names, "...");
  return fl_lua_fail(L, lua_tostring(L, lua_upvalueindex(4)), "can not take (%s) as (%s): %s",
                     types, names, rest);
}

/* The arguments stay below the call, for misfit. */
static int all_results(lua_State *L, int status, lua_KContext given) {
  if (status != LUA_OK && status != LUA_YIELD) return misfit(L, (int)given);
  return lua_gettop(L) - (int)given;
}

/* Upvalues: state, metatable, the function, its name, the most arguments. A C function keeps its
** caller's frame in a tail call, so that an error names the line; messages find the name here. */
int fl_lua_checked(lua_State *L) {
  const int n = lua_gettop(L);
  const lua_Integer most = lua_tointeger(L, lua_upvalueindex(5));
  if (n > most) return fl_lua_fail(L, lua_tostring(L, lua_upvalueindex(4)),
      "%d argument%s at most, got %d", (int)most, most == 1 ? "" : "s", n);
  luaL_checkstack(L, n + 8, "flame");
  lua_pushvalue(L, lua_upvalueindex(3));
  for (int i = 1; i <= n; i++) lua_pushvalue(L, i);
  return all_results(L, lua_pcallk(L, n, LUA_MULTRET, 0, n, all_results), n);
}

/* (f, name, most): f as a public function. For core.lua. */
static int make_checked(lua_State *L) {
  lua_settop(L, 3);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_rotate(L, 1, 2);
  lua_pushcclosure(L, fl_lua_checked, 5);
  return 1;
}

/* ---- the table itself ------------------------------------------------------------------------ */
/* One table an op: name form kind domain doc tracked. For the walk over all ops and the docs. */
static int list_ops(lua_State *L) {
  static const char *const forms[] = { "unary", "binary", "ternary", "reduce", "special" };
  static const char *const kinds[] = { "FLOAT", "NUM", "SAME", "INT", "TEST", "WHERE", "SUMS",
                                       "POSITION", "" };
  lua_createtable(L, FL_OP_COUNT, 0);
  lua_Integer n = 0;
  for (int op = 0; op < FL_OP_COUNT; op++) {
    const fl_op_info *info = &fl_ops[op];
    if (info->inner) continue;
    const struct { const char *key, *value; } facts[] = {
        { "name", info->name }, { "form", forms[info->form] },
        { "kind", kinds[info->kind] }, { "domain", info->domain }, { "doc", info->doc } };
    lua_createtable(L, 0, 6);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
      lua_pushstring(L, facts[i].value);
      lua_setfield(L, -2, facts[i].key);
    }
    lua_pushboolean(L, !info->nograd);
    lua_setfield(L, -2, "tracked");
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

const fl_lua_reg fl_reg_ops[] = {
  { "max", op_max, FL_IN_BOTH }, { "min", op_min, FL_IN_BOTH }, { "mean", op_mean, FL_IN_BOTH },
  { "var", op_var, FL_IN_BOTH }, { "std", op_std, FL_IN_BOTH }, { "logsumexp", op_logsumexp,
      FL_IN_BOTH },
  { "count_nonzero", op_count_nonzero, FL_IN_BOTH }, { "where", op_where, FL_IN_BOTH },
  { "clamp", op_clamp, FL_IN_BOTH }, { "clip", op_clamp, FL_IN_BOTH }, { "clamp_",
      op_clamp_, FL_IN_METHODS },
  { "fill_", op_fill_, FL_IN_METHODS }, { "zero_", op_zero_, FL_IN_METHODS },
  { "copy_", op_copy_, FL_IN_METHODS }, { "checked", make_checked, 0 },
  { "ops", list_ops, 0 }, { NULL, NULL, 0 }
};

static const luaL_Reg operators[] = {
  { "__add", mm_add }, { "__sub", mm_sub }, { "__mul", mm_mul }, { "__div", mm_div },
  { "__pow", mm_pow }, { "__idiv", mm_idiv }, { "__mod", mm_mod }, { "__unm", mm_unm },
  { "__band", mm_band }, { "__bor", mm_bor }, { "__bxor", mm_bxor }, { "__bnot", mm_bnot },
  { "__lt", mm_lt }, { "__le", mm_le }, { "__concat", mm_concat }, { NULL, NULL }
};

static void push_op(lua_State *L, fl_lua *b, int meta, lua_CFunction f, int op) {
  lua_pushlightuserdata(L, b);
  lua_pushvalue(L, meta);
  lua_pushinteger(L, op);
  lua_pushcclosure(L, f, 3);
}

/* One op of the table under its name, and under name_ where that has a meaning. */
static void register_op(lua_State *L, fl_lua *b, int module, int methods, int meta, int op) {
  static const lua_CFunction plain[] = { op_unary, op_binary, NULL, op_reduce, NULL };
  static const lua_CFunction in_place[] = { op_unary_, op_binary_, NULL, NULL, NULL };
  const fl_op_info *info = &fl_ops[op];
  if (plain[info->form] != NULL) {
    push_op(L, b, meta, plain[info->form], op);
    lua_pushvalue(L, -1);
    lua_setfield(L, module, info->name);
    lua_setfield(L, methods, info->name);
  }
  if (in_place[info->form] != NULL) {
    char name[40];
    snprintf(name, sizeof name, "%s_", info->name);
    push_op(L, b, meta, in_place[info->form], op);
    lua_setfield(L, methods, name);
  }
}

void fl_ops_register(lua_State *L, fl_lua *b, int module, int methods, int meta,
    int arithmetic_in) {
  for (int op = 0; op < FL_OP_COUNT; op++)
    if (!fl_ops[op].inner) register_op(L, b, module, methods, meta, op);
  for (const luaL_Reg *r = operators; r->name != NULL; r++) {
    push_op(L, b, meta, r->func, 0);
    lua_setfield(L, arithmetic_in, r->name);
  }
}
