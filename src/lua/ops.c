/*
** The functions of the op table: closures 'name', which returns a new tensor, and 'name_', which
** writes the result into its first argument. They are made from fl_ops (which derives from
** tensor/ops.def), so that a new line there is a new function here. The op's number is upvalue 5,
** after the declaration, which depends on the kind of op (unary, binary, reduce), and the name.
** Operators record the same nodes without reading declarations: they are the hot path.
*/
#include "lua/declare.h"
#include <stdio.h>
#include <string.h>

static int op_of(lua_State *L) { return (int)lua_tointeger(L, lua_upvalueindex(5)); }

/* Writes v into x for 'name_': v is cast to x's dtype, but a float is not written into integers or
** bools, nor an integer into bools. */
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

/* Ends the call's scope after a write; an error of the builder is reported for 'name_'. */
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
  if (b->autocast || !fl_plain(L, 1, 0)) fl_args(L);
  fl_box *x = box_at(L, 1), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return fl_lua_leave(L, b, m, out, fl_build_unary(op, node_of(b, x)));
}

/* A call with parameters that the op lacks is done by a function written in Lua. */
static int op_softplus(lua_State *L) {
  if (fl_plain(L, 1, 0)) return op_unary(L);
  fl_args(L);
  const int plain = lua_tonumber(L, 2) == 1 && lua_tonumber(L, 3) == 20;
  if (!plain) return fl_core_call(L, "softplus");
  lua_settop(L, 1);
  return op_unary(L);
}
static int op_round(lua_State *L) {
  if (fl_plain(L, 1, 0)) return op_unary(L);
  fl_args(L);
  if (lua_tointeger(L, 2) != 0) return fl_core_call(L, "round");
  lua_settop(L, 1);
  return op_unary(L);
}

static const char *in_place_name(lua_State *L, int op) {
  return lua_pushfstring(L, "%s_", fl_ops[op].name);
}

static int op_unary_(lua_State *L) {
  fl_lua *b = self_of(L);
  const int op = op_of(L);
  if (!fl_plain(L, 1, 0)) fl_args(L);
  fl_box *x = box_at(L, 1);
  const char *name = in_place_name(L, op);
  const int64_t m = fl_lua_enter(L, b);
  return leave_written(L, b, m, write_back(b, x, fl_build_unary(op, node_of(b, x)), name), name);
}

/* ---- binary ---------------------------------------------------------------------------- */
typedef struct binary_args { fl_operand_arg x, y; double alpha; int rounding; } binary_args;

/* Reads a tensor that is not closed, or a number, without raising; 0: it is neither. */
static int take_operand(lua_State *L, int i, fl_operand_arg *a) {
  a->box = box_at(L, i);
  if (a->box != NULL) return a->box->t != NULL;
  if (lua_type(L, i) != LUA_TNUMBER) return 0;
  a->isint = lua_isinteger(L, i);
  a->i = a->isint ? lua_tointeger(L, i) : 0;
  a->d = lua_tonumber(L, i);
  return 1;
}

/* Reads the arguments after the operands: alpha for add and sub, rounding_mode for div. */
static void binary_read(lua_State *L, int op, binary_args *a) {
  const char *name = fl_ops[op].name;
  a->alpha = 1;
  a->rounding = 0;
  if (lua_gettop(L) == 2 && !self_of(L)->autocast && take_operand(L, 1, &a->x) &&
      take_operand(L, 2, &a->y) && (a->x.box || a->y.box)) return;
  fl_args(L);
  a->alpha = op == FL_OP_add || op == FL_OP_sub ? lua_tonumber(L, 3) : 1;
  a->rounding = 0;
  if (op == FL_OP_div && !lua_isnil(L, 3))
    a->rounding = strcmp(lua_tostring(L, 3), "floor") == 0 ? 1 : 2;
  a->x = fl_arg_operand(L, 1, name, "x");
  a->y = fl_arg_operand(L, 2, name, "y");
  if (a->x.box == NULL && a->y.box == NULL) fl_lua_fail(L, name,
      "x or y must be a tensor, both are numbers");
}

/* Records op on two operands, of which at least one is a tensor; the other may be a number. */
static inline fl_node *operands_node(fl_lua *b, int op, const fl_operand_arg *x,
                                     const fl_operand_arg *y) {
  const fl_operand_arg *number = x->box == NULL ? x : y;
  if (number->box == NULL) {
    fl_node *n = node_of(b, number == x ? y->box : x->box);
    fl_scalar v = { .d = number->d };
    if (number->isint) v.i = number->i;
    return fl_build_number(op, n, number->isint, v, number == x);
  }
  fl_node *xn = node_of(b, x->box), *yn = node_of(b, y->box);
  return xn && yn ? fl_build_binary(op, xn, yn) : NULL;
}

static fl_node *binary_node(fl_lua *b, int op, const binary_args *a) {
  if (a->alpha == 1 && a->rounding == 0) return operands_node(b, op, &a->x, &a->y);
  fl_node *x = fl_operand_node(b, &a->x), *y = fl_operand_node(b, &a->y);
  if (x == NULL || y == NULL) return NULL;
  if (a->alpha != 1) {
    if (a->y.box != NULL) y = n_mul(y, fl_factor_node(b, a->alpha));
    else y = a->y.isint ? fl_factor_node(b, a->y.d * a->alpha) : n_num(b->c, a->y.d * a->alpha);
  }
  if (a->rounding == 1) return n_floordiv(x, y);
  return a->rounding == 2 ? n_truncdiv(x, y) : fl_build_binary(op, x, y);
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
  const char *name = in_place_name(L, op);
  fl_box *x = fl_arg_tensor(L, 1, name, "x");
  const int64_t m = fl_lua_enter(L, b);
  return leave_written(L, b, m, write_back(b, x, binary_node(b, op, &a), name), name);
}

/* Arithmetic metamethods: no options and no check of the count; at least one argument is a
** tensor. */
static inline int arithmetic(lua_State *L, int op) {
  fl_lua *b = self_of(L);
  const fl_operand_arg x = fl_arg_operand(L, 1, fl_ops[op].name, "x");
  const fl_operand_arg y = fl_arg_operand(L, 2, fl_ops[op].name, "y");
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return fl_lua_leave(L, b, m, out, operands_node(b, op, &x, &y));
}
static int mm_add(lua_State *L) { return arithmetic(L, FL_OP_add); }
static int mm_sub(lua_State *L) { return arithmetic(L, FL_OP_sub); }
static int mm_mul(lua_State *L) { return arithmetic(L, FL_OP_mul); }
static int mm_div(lua_State *L) { return arithmetic(L, FL_OP_div); }
static int mm_pow(lua_State *L) {
  fl_lua *b = self_of(L);
  if (b->autocast && !b->inside) fl_declare_cast(L, b, FL_CAST_SINGLE);
  return arithmetic(L, FL_OP_pow);
}
static int mm_idiv(lua_State *L) { return arithmetic(L, FL_OP_floordiv); }
static int mm_mod(lua_State *L) { return arithmetic(L, FL_OP_mod); }
static int mm_band(lua_State *L) { return arithmetic(L, FL_OP_bitwise_and); }
static int mm_bor(lua_State *L) { return arithmetic(L, FL_OP_bitwise_or); }
static int mm_bxor(lua_State *L) { return arithmetic(L, FL_OP_bitwise_xor); }

/* The operators << and >>: methods in Lua (ops/special.lua). */
static int shifted(lua_State *L, const char *method) {
  lua_settop(L, 2);
  lua_getfield(L, box_at(L, 1) ? 1 : 2, method);
  lua_insert(L, 1);
  lua_call(L, 2, 1);
  return 1;
}
static int mm_shl(lua_State *L) { return shifted(L, "bitwise_left_shift"); }
static int mm_shr(lua_State *L) { return shifted(L, "bitwise_right_shift"); }

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
/* flame.where(c, a, b); x:where(c, b) as in PyTorch if c is bool and x is not. */
static int op_where(lua_State *L) {
  fl_lua *b = self_of(L);
  if (fl_args(L) == 0) return fl_core_call(L, "where");       /* a call for positions is written in
                                                              ** Lua */
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
  fl_args(L);
  a->x = box_at(L, 1);
  a->has_low = !lua_isnil(L, 2);
  a->has_high = !lua_isnil(L, 3);
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
typedef struct reduce_args { fl_box *x; uint32_t axes; int axis, keepdim; } reduce_args;

/* Is it a call with x alone, or with x and one axis? Omitted arguments read as nil and false. */
static int plain_reduction(lua_State *L) {
  return !self_of(L)->autocast && (fl_plain(L, 1, 0) || fl_plain(L, 1, 1));
}

/* Reads x, the axes at 2, if given, and keepdim at index 'keepdim'. axis: the axis if it is given
** as a number, else -1. */
static void reduce_read(lua_State *L, const char *op, int keepdim, reduce_args *a) {
  a->x = box_at(L, 1);
  const int rank = a->x->t->node ? a->x->t->node->shape->rank : 0;
  a->axes = fl_arg_axes(L, 2, rank, op);
  a->axis = lua_type(L, 2) == LUA_TNUMBER ? fl_arg_axis(L, 2, rank, op) : -1;
  a->keepdim = lua_toboolean(L, keepdim);
}

static int op_reduce(lua_State *L) {
  fl_lua *b = self_of(L);
  const int op = op_of(L);
  reduce_args a;
  if (!plain_reduction(L)) fl_args(L);
  reduce_read(L, fl_ops[op].name, 3, &a);
  const int dtype = lua_isnoneornil(L, 4) ? -1 : fl_arg_dtype(L, 4, fl_ops[op].name);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *x = node_of(b, a.x);
  if (x != NULL && dtype >= 0) x = n_cast(x, dtype);
  if (x != NULL) x = fl_build_reduce(op, x, a.axes, a.keepdim);
  if (x != NULL && dtype >= 0) x = n_cast(x, dtype);
  return fl_lua_leave(L, b, m, out, x);
}

/* max, min: over all axes or a list of axes -> values; over one axis given as a number -> values,
** positions; with another tensor -> the larger or smaller of two elements. */
static int extreme(lua_State *L, const char *name, int value, int position, int pair) {
  fl_lua *b = self_of(L);
  if (!plain_reduction(L)) fl_args(L);
  if (box_at(L, 2) != NULL) {
    fl_box *x = box_at(L, 1), *y = box_at(L, 2), *out = fl_box_new(L);
    const int64_t m = fl_lua_enter(L, b);
    fl_node *xn = node_of(b, x), *yn = node_of(b, y);
    return fl_lua_leave_as(L, b, m, out, xn && yn ? fl_build_binary(pair, xn, yn) : NULL, name);
  }
  reduce_args a;
  reduce_read(L, name, 3, &a);
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
  if (!plain_reduction(L)) fl_args(L);
  reduce_read(L, "mean", 3, &a);
  const int dtype = lua_isnoneornil(L, 4) ? -1 : fl_arg_dtype(L, 4, "mean");
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *x = node_of(b, a.x);
  if (x != NULL && dtype >= 0) x = n_cast(x, dtype);
  return fl_lua_leave(L, b, m, out, x ? n_mean(x, a.axes, a.keepdim) : NULL);
}

/* (x, unbiased, keepdim), or (x, axes, unbiased, keepdim, correction). */
static int var_std(lua_State *L, const char *name, int root) {
  fl_lua *b = self_of(L);
  reduce_args a;
  if (fl_args(L) == 0) {
    lua_pushnil(L);
    lua_insert(L, 2);
    lua_settop(L, 5);
  }
  reduce_read(L, name, 4, &a);
  const double correction = lua_isnil(L, 5) ? lua_toboolean(L, 3) : lua_tonumber(L, 5);
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
  if (!plain_reduction(L)) fl_args(L);
  reduce_read(L, "logsumexp", 3, &a);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *x = node_of(b, a.x);
  return fl_lua_leave(L, b, m, out, x ? n_logsumexp(x, a.axes, a.keepdim) : NULL);
}

static int op_count_nonzero(lua_State *L) {
  fl_lua *b = self_of(L);
  reduce_args a;
  if (!plain_reduction(L)) fl_args(L);
  reduce_read(L, "count_nonzero", 3, &a);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *x = node_of(b, a.x);
  return fl_lua_leave(L, b, m, out, x ? n_sum(n_ne(x, n_int(b->c, 0)), a.axes, a.keepdim) : NULL);
}

/* ---- whole-tensor writes --------------------------------------------------------------------- */
static int fill_with(lua_State *L, const char *op) {
  fl_lua *b = self_of(L);
  fl_box *x = box_at(L, 1);
  const fl_operand_arg v = fl_arg_operand(L, 2, op, "value");
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  fl_node *value = n ? fl_stored_value(b, &v, n, op) : NULL;
  if (value != NULL) value = n_expand(value, n->shape->rank, n->shape->size);
  if (value != NULL) value = n_copy(value);
  return leave_written(L, b, m, value ? fl_tensor_write(x->t, value, op) : b->c->err.code, op);
}
static int op_fill_(lua_State *L) {
  fl_args(L);
  return fill_with(L, "fill_");
}

static int op_zero_(lua_State *L) {
  fl_args(L);
  lua_pushinteger(L, 0);
  return fill_with(L, "zero_");
}

static int op_copy_(lua_State *L) {
  fl_lua *b = self_of(L);
  if (!fl_plain(L, 2, 0)) fl_args(L);
  fl_box *x = box_at(L, 1), *y = box_at(L, 2);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x), *v = node_of(b, y);
  flame_status e = b->c->err.code;
  if (n != NULL && v != NULL) {
    if (v->device != n->device) v = fl_to_device(b->c, v, n->device);
    if (v != NULL) v = n_cast(v, n->dtype);
    if (v != NULL && v->shape != n->shape) v = n_expand(v, n->shape->rank, n->shape->size);
    e = v ? fl_tensor_write(x->t, n_copy(v), "copy_") : b->c->err.code;
  }
  return leave_written(L, b, m, e, "copy_");
}

/* ---- the table itself ------------------------------------------------------------------------ */
/* One table per op that has a Lua function or is structural: name form kind domain doc tracked. For
** the traversal of all ops and the docs. */
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

#define OVER "(x: T, dim?: axes, keepdim = false"
const fl_lua_reg fl_reg_ops[] = {
  { "max(x: T, dim: axis, keepdim = false) -> values: T, positions: T\n"
    "max(x: T, other: T) -> T\nmax" OVER ") -> T\n"
    "--- largest; with one axis values and positions; with a tensor the larger of the two",
    op_max, 0 },
  { "min(x: T, dim: axis, keepdim = false) -> values: T, positions: T\n"
    "min(x: T, other: T) -> T\nmin" OVER ") -> T\n"
    "--- smallest; with one axis values and positions; with a tensor the smaller of the two",
    op_min, 0 },
  { "mean" OVER ", *, dtype?: dtype) -> T\n--- mean", op_mean, 0 },
  { "var(x: T, unbiased: bool, keepdim = false) -> T\n"
    "var(x: T, dim?: axes, unbiased = true, keepdim = false, *, correction?: num) -> T\n"
    "--- variance: the sum of squared deviations over n - correction; unbiased: a correction of 1",
    op_var, 0 },
  { "std(x: T, unbiased: bool, keepdim = false) -> T\n"
    "std(x: T, dim?: axes, unbiased = true, keepdim = false, *, correction?: num) -> T\n"
    "--- standard deviation: the root of var", op_std, 0 },
  { "logsumexp" OVER ") -> T\n--- log(sum(exp(x))) without overflow", op_logsumexp, 0 },
  { "count_nonzero" OVER ") -> T\n--- how many are not 0", op_count_nonzero, 0 },
  { "where(condition: T) -> T[]\n"
    "where(condition: T|num, x: T|num, y: T|num) -> T\n"
    "--- x where the condition holds, else y; without them its positions; x:where(condition, y) too",
    op_where, 0 },
  { "clamp(x: T, min?: T|num, max?: T|num) -> T\n"
    "--- x kept between min and max; NaN stays", op_clamp, 0 },
  { ":clamp_(x: T, min?: T|num, max?: T|num) -> T\n"
    "--- x becomes x:clamp(min, max)", op_clamp_, 0 },
  { ":fill_(x: T, value: T|num) -> T\n--- every element of x becomes the value", op_fill_, 0 },
  { ":zero_(x: T) -> T\n--- every element of x becomes 0", op_zero_, 0 },
  { ":copy_(x: T, y: T) -> T\n--- x takes the values of y, cast and broadcast", op_copy_, 0 },
  { "ops", list_ops, 0 }, { NULL, NULL, 0 }
};

static const luaL_Reg operators[] = {
  { "__add", mm_add }, { "__sub", mm_sub }, { "__mul", mm_mul }, { "__div", mm_div },
  { "__pow", mm_pow }, { "__idiv", mm_idiv }, { "__mod", mm_mod }, { "__unm", mm_unm },
  { "__band", mm_band }, { "__bor", mm_bor }, { "__bxor", mm_bxor }, { "__bnot", mm_bnot },
  { "__shl", mm_shl }, { "__shr", mm_shr },
  { "__lt", mm_lt }, { "__le", mm_le }, { "__concat", mm_concat }, { NULL, NULL }
};

/* Does the op compute in f32 under flame.autocast, as in torch.amp, because it needs range or
** precision? */
static int is_single(int op) {
  switch (op) {
    case FL_OP_pow: case FL_OP_exp: case FL_OP_expm1: case FL_OP_log: case FL_OP_log10:
    case FL_OP_log1p: case FL_OP_log2: case FL_OP_reciprocal: case FL_OP_rsqrt: case FL_OP_acos:
    case FL_OP_asin: case FL_OP_cosh: case FL_OP_sinh: case FL_OP_tan: case FL_OP_erfinv:
    case FL_OP_sum: case FL_OP_prod: case FL_OP_softplus:
      return 1;
    default: return 0;
  }
}

/* What follows the op's name in its declaration. */
static const char *text_of(int op, int in_place) {
  static const char *const forms[][2] = {
    { "_?(x: T) -> T", "_?(x: T) -> T @single" },
    { "_?(x: T|num, y: T|num) -> T", "_?(x: T|num, y: T|num) -> T @single" },
    { NULL, NULL },
    { "(x: T, dim?: axes, keepdim = false, *, dtype?: dtype) -> T",
      "(x: T, dim?: axes, keepdim = false, *, dtype?: dtype) -> T @single" }
  };
  if (op == FL_OP_add || op == FL_OP_sub) return "_?(x: T|num, y: T|num, *, alpha = 1) -> T";
  if (op == FL_OP_div)
    return "_?(x: T|num, y: T|num, *, rounding_mode?: \"floor\"|\"trunc\") -> T";
  if (op == FL_OP_softplus && !in_place)
    return "(x: T, beta = 1, threshold = 20) -> T @single";
  if (op == FL_OP_round && !in_place) return "(x: T, *, decimals: int = 0) -> T";
  if ((op == FL_OP_softplus || op == FL_OP_round) && in_place) return "(x: T) -> T";
  return forms[fl_ops[op].form][is_single(op) && !in_place];
}

static void push_op(lua_State *L, fl_lua *b, int meta, lua_CFunction f, const char *text, int op) {
  lua_pushlightuserdata(L, b);
  lua_pushvalue(L, meta);
  lua_pushlightuserdata(L, (void *)(uintptr_t)text);
  lua_pushvalue(L, -4);                                                     /* the name */
  lua_pushinteger(L, op);
  lua_pushcclosure(L, f, 5);
}

/* Registers one op of the table under its name, and under name_ if it can be written in place. */
static void register_op(lua_State *L, fl_lua *b, int module, int methods, int meta, int op) {
  static const lua_CFunction plain[] = { op_unary, op_binary, NULL, op_reduce, NULL };
  static const lua_CFunction in_place[] = { op_unary_, op_binary_, NULL, NULL, NULL };
  const fl_op_info *info = &fl_ops[op];
  const lua_CFunction f = op == FL_OP_softplus ? op_softplus : op == FL_OP_round ? op_round :
    plain[info->form];
  if (f != NULL) {
    lua_pushstring(L, info->name);
    push_op(L, b, meta, f, text_of(op, 0), op);
    lua_pushvalue(L, -1);
    lua_setfield(L, module, info->name);
    lua_setfield(L, methods, info->name);
    lua_pop(L, 1);
  }
  if (in_place[info->form] != NULL) {
    lua_pushfstring(L, "%s_", info->name);
    push_op(L, b, meta, in_place[info->form], text_of(op, 1), op);
    lua_rawset(L, methods);
  }
}

void fl_ops_register(lua_State *L, fl_lua *b, int module, int methods, int meta,
    int arithmetic_in) {
  for (int op = 0; op < FL_OP_COUNT; op++)
    if (!fl_ops[op].inner) register_op(L, b, module, methods, meta, op);
  for (const luaL_Reg *r = operators; r->name != NULL; r++) {
    lua_pushlightuserdata(L, b);
    lua_pushvalue(L, meta);
    lua_pushcclosure(L, r->func, 2);
    lua_setfield(L, arithmetic_in, r->name);
  }
}
