/*
** The functions of networks whose graph the core knows as a whole: products, softmax,
** norms, activations with a switch, embedding, cross entropy, dropout.
*/
#include "lua/binding.h"
#include "tensor/update.h"

/* An optional tensor: fl_none where it was left out. */
static fl_node *node_or_none(fl_lua *b, const fl_box *x) { return x ? node_of(b, x) : &fl_none; }

/* ---- products -------------------------------------------------------------------------- */
/* ranks: needed of the two, 0: any. */
static int product(lua_State *L, const char *op, int rank1, int rank2) {
  fl_lua *b = self_of(L);
  fl_arg_count(L, 2, op);
  fl_box *x = fl_arg_tensor(L, 1, op, "x"), *y = fl_arg_tensor(L, 2, op, "y");
  if (rank1 != 0 && (x->t->node->shape->rank != rank1 || y->t->node->shape->rank != rank2)) {
    char p[192], q[192];
    fl_lua_fail(L, op, "x has shape %s and y %s, need %d and %d axes", fl_lua_shape_of(p,
        x->t->node), fl_lua_shape_of(q, y->t->node), rank1, rank2);
  }
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *xn = node_of(b, x), *yn = node_of(b, y);
  return fl_lua_leave_as(L, b, m, out, xn && yn ? n_matmul(xn, yn) : NULL, op);
}
static int l_matmul(lua_State *L) { return product(L, "matmul", 0, 0); }
static int l_mm(lua_State *L) { return product(L, "mm", 2, 2); }
static int l_bmm(lua_State *L) { return product(L, "bmm", 3, 3); }
static int l_mv(lua_State *L) { return product(L, "mv", 2, 1); }
static int l_dot(lua_State *L) { return product(L, "dot", 1, 1); }

static int l_linear(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_arg_count(L, 3, "linear");
  fl_box *x = fl_arg_tensor(L, 1, "linear", "x"), *w = fl_arg_tensor(L, 2, "linear", "weight");
  fl_box *bias = fl_arg_tensor_or_nil(L, 3, "linear", "bias"), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *xn = node_of(b, x), *wn = node_of(b, w), *bn = node_or_none(b, bias);
  return fl_lua_leave_as(L, b, m, out, xn && wn && bn ? n_linear(xn, wn, bn) : NULL, "linear");
}

/* ---- rows ---------------------------------------------------------------------------------- */
static int softmax(lua_State *L, const char *op, fl_node *(*build)(fl_node *, int), int minus) {
  fl_lua *b = self_of(L);
  int top, dtype = -1;
  const int opts = fl_tail_options(L, &top);
  if (top == 3 && !opts) {
    if (!lua_isnil(L, top)) dtype = fl_arg_dtype(L, top, op);
    top--;
  }
  if (top > 2) fl_lua_fail(L, op, "3 arguments at most, got %d", lua_gettop(L));
  if (opts) fl_check_options(L, opts, op, "dim dtype");
  if (opts && fl_option(L, opts, "dtype") != LUA_TNIL) dtype = fl_arg_dtype(L, lua_gettop(L), op);
  if (opts && fl_option(L, opts, "dim") != LUA_TNIL) {
    if (top == 2) fl_lua_fail(L, op, "the axis stands twice, as an argument and as dim");
    lua_replace(L, ++top);
  }
  lua_settop(L, top);
  fl_box *x = fl_arg_tensor(L, 1, op, "x");
  const int axis = fl_arg_axis(L, 2, x->t->node->shape->rank, op);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  if (n != NULL && dtype >= 0) n = n_cast(n, dtype);
  const int scalar = n && n->shape->rank == 0;
  const int64_t one = 1;
  if (n != NULL && minus) n = n_neg(n);
  if (n != NULL && scalar) n = n_reshape(n, 1, &one);
  n = n ? build(n, axis) : NULL;
  return fl_lua_leave(L, b, m, out, n && scalar ? n_reshape(n, 0, NULL) : n);
}
static int l_softmax(lua_State *L) { return softmax(L, "softmax", n_softmax, 0); }
static int l_log_softmax(lua_State *L) { return softmax(L, "log_softmax", n_log_softmax, 0); }
static int l_softmin(lua_State *L) { return softmax(L, "softmin", n_softmax, 1); }

/* x:layer_norm(shape[, w, b, {eps = 1e-5}]); shape: the sizes of the last axes. */
static int l_layer_norm(lua_State *L) {
  fl_lua *b = self_of(L);
  static const char op[] = "layer_norm";
  fl_sizes s;
  char t[192], u[192];
  int top;
  const int opts = fl_tail_options(L, &top);
  if (top > 5) fl_lua_fail(L, op, "5 arguments at most, got %d", lua_gettop(L));
  if (opts) fl_check_options(L, opts, op, "eps");
  const double eps = fl_option_num(L, opts, op, "eps",
                                   top == 5 ? fl_arg_num(L, 5, op, "eps") : 1e-5);
  lua_settop(L, top);
  fl_box *x = fl_arg_tensor(L, 1, op, "x");
  fl_arg_sizes(L, 2, 2, op, 0, &s);
  fl_box *w = fl_arg_tensor_or_nil(L, 3, op, "weight"), *bias = fl_arg_tensor_or_nil(L, 4,
      op, "bias");
  const fl_layout *l = x->t->node->shape;
  int fits = s.n >= 1 && s.n <= l->rank;
  for (int k = 0; fits && k < s.n; k++) fits = s.at[k] == l->size[l->rank - s.n + k];
  if (!fits) fl_lua_fail(L, op, "shape %s does not end in %s", fl_shape_text(t, l->rank,
      l->size), fl_shape_text(u, s.n, s.at));
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x), *wn = node_or_none(b, w), *bn = node_or_none(b, bias);
  return fl_lua_leave(L, b, m, out, n && wn && bn ? n_layer_norm(n, s.n, wn, bn, eps) : NULL);
}

/* ---- activations with a switch --------------------------------------------------------------- */
static int l_gelu(lua_State *L) {
  fl_lua *b = self_of(L);
  int tanh_form = 0;
  fl_arg_count(L, 2, "gelu");
  const int plain = lua_type(L, 2) == LUA_TSTRING;
  if (!plain) fl_check_options(L, 2, "gelu", "approximate");
  if (plain || fl_option(L, 2, "approximate") != LUA_TNIL) {
    const char *how = fl_arg_string(L, lua_gettop(L), "gelu", "approximate");
    tanh_form = strcmp(how, "tanh") == 0;
    if (!tanh_form && strcmp(how, "none") != 0) fl_lua_fail(L, "gelu",
        "approximate must be \"tanh\" or \"none\", got \"%s\"", how);
  }
  fl_box *x = fl_arg_tensor(L, 1, "gelu", "x"), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  return fl_lua_leave(L, b, m, out, n ? n_gelu(n, tanh_form) : NULL);
}

static int l_silu(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_arg_count(L, 1, "silu");
  fl_box *x = fl_arg_tensor(L, 1, "silu", "x"), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  return fl_lua_leave(L, b, m, out, n ? n_silu(n) : NULL);
}

static int l_dropout(lua_State *L) {
  fl_lua *b = self_of(L);
  int top;
  const int opts = fl_tail_options(L, &top);
  if (top > 3) fl_lua_fail(L, "dropout", "3 arguments at most, got %d", lua_gettop(L));
  if (opts) fl_check_options(L, opts, "dropout", "training p");
  if (top == 3 && !lua_isboolean(L, 3))
    fl_lua_fail(L, "dropout", "training must be true or false, got %s",
      fl_arg_found(L, 3));
  const int training = fl_option_bool(L, opts, "dropout", "training",
                                      top == 3 ? lua_toboolean(L, 3) : 1);
  fl_box *x = fl_arg_tensor(L, 1, "dropout", "x");
  const double p = top >= 2 ? fl_arg_num_or(L, 2, "dropout", "p", 0.5)
                            : fl_option_num(L, opts, "dropout", "p", 0.5);
  if (!(p >= 0 && p <= 1)) fl_lua_fail(L, "dropout", "p = %g, need 0 <= p <= 1", p);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  if (n != NULL && (!training || p == 0)) n = n_alias(n);
  else if (n != NULL) n = p == 1 ? n_mul(n, n_int(b->c, 0)) : n_dropout(n, p);
  return fl_lua_leave(L, b, m, out, n);
}

/* ---- ids ------------------------------------------------------------------------------------- */
static int l_embedding(lua_State *L) {
  fl_lua *b = self_of(L);
  /* with padding_idx: written in Lua */
  if (lua_gettop(L) > 2) return fl_core_call(L, b, "embedding");
  fl_box *ids = fl_arg_tensor(L, 1, "embedding", "ids"), *w = fl_arg_tensor(L, 2,
      "embedding", "weight");
  if (w->t->node->shape->rank != 2) fl_lua_fail(L, "embedding",
      "weight has %d axes, need 2", w->t->node->shape->rank);
  if (fl_is_float(ids->t->node->dtype)) fl_lua_fail(L, "embedding",
      "ids must be integers, got %s%s", fl_dtype_name(ids->t->node->dtype),
      fl_index_hint(ids->t->node->dtype));
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *in = node_of(b, ids), *wn = node_of(b, w);
  return fl_lua_leave(L, b, m, out, in && wn ? n_embedding(in, wn) : NULL);
}

/* one_hot(ids): as many classes as the largest id, which is read here. */
static int one_hot_counted(lua_State *L) {
  if (fl_arg_tensor(L, 1, "one_hot", "ids")->t->node->shape->numel == 0)
    return fl_lua_fail(L, "one_hot", "ids has no elements to count classes from"
                       FL_DO "; give n, their number");
  lua_settop(L, 1);
  lua_getfield(L, 1, "one_hot");
  lua_pushvalue(L, 1);
  lua_getfield(L, 1, "amax");
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "item");
  lua_insert(L, -2);
  lua_call(L, 1, 1);
  if (lua_tointeger(L, -1) < 1)
    return fl_lua_fail(L, "one_hot", "the largest of ids is %lld, need 1 or more"
                       FL_DO "; ids count from 1", (long long)lua_tointeger(L, -1));
  lua_call(L, 2, 1);
  return 1;
}

/* i64, one axis more: 1 at each id's position. */
static int l_one_hot(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_arg_count(L, 2, "one_hot");
  fl_box *ids = fl_arg_tensor(L, 1, "one_hot", "ids");
  if (fl_is_float(ids->t->node->dtype) || ids->t->node->dtype == FLAME_BOOL)
    fl_lua_fail(L, "one_hot",
      "ids must be integers, got %s%s", fl_dtype_name(ids->t->node->dtype),
      fl_index_hint(ids->t->node->dtype));
  if (lua_istable(L, 2)) {
    fl_check_options(L, 2, "one_hot", "num_classes");
    fl_option(L, 2, "num_classes");
    lua_replace(L, 2);
  }
  if (lua_isnoneornil(L, 2) || (lua_type(L, 2) == LUA_TNUMBER && lua_tonumber(L, 2) == -1))
    return one_hot_counted(L);
  const int64_t n = fl_arg_int(L, 2, "one_hot", "n");
  if (n < 1) fl_lua_fail(L, "one_hot", "n = %lld must be positive", (long long)n);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  const fl_scalar zero = { .i = 0 }, one = { .i = 1 };
  fl_node *in = node_of(b, ids), *at = in ? n_index(in, n, 0, "one_hot") : NULL;
  if (at != NULL) at = n_unsqueeze(at, at->shape->rank);
  fl_node *place = at ? n_iota(b->c, FLAME_I64, at->device, 1, &n, zero, one) : NULL;
  fl_node *same = place ? n_eq(at, place) : NULL;
  return fl_lua_leave_as(L, b, m, out, same ? n_cast(same, FLAME_I64) : NULL, "one_hot");
}

typedef struct entropy_args { fl_box *x, *y,
    *w; int reduction; int64_t ignore; double smoothing; } entropy_args;

static void entropy_read(lua_State *L, entropy_args *a) {
  static const char op[] = "cross_entropy";
  fl_arg_count(L, 4, op);
  a->x = fl_arg_tensor(L, 1, op, "input");
  a->y = fl_arg_tensor(L, 2, op, "target");
  a->w = NULL;
  if (box_at(L, 3) != NULL || lua_gettop(L) == 4) {    /* PyTorch's third argument; it stays at 4 */
    a->w = fl_arg_tensor_or_nil(L, 3, op, "weight");
    lua_settop(L, 4);
    lua_insert(L, 3);
  }
  fl_check_options(L, 3, op, "reduction weight ignore_index label_smoothing");
  a->reduction = 1;
  if (fl_option(L, 3, "reduction") != LUA_TNIL) {
    const char *r = fl_arg_string(L, lua_gettop(L), op, "reduction");
    a->reduction = strcmp(r, "none") == 0 ? 0 : strcmp(r, "mean") == 0 ? 1 : strcmp(r,
        "sum") == 0 ? 2 : -1;
    if (a->reduction < 0) fl_lua_fail(L, op,
        "reduction must be \"mean\", \"sum\" or \"none\", got \"%s\"", r);
  }
  fl_option(L, 3, "weight");
  /* the options table keeps it alive */
  if (a->w == NULL) a->w = fl_arg_tensor_or_nil(L, lua_gettop(L), op, "weight");
  a->ignore = fl_option_int(L, 3, op, "ignore_index", -100);
  a->smoothing = fl_option_num(L, 3, op, "label_smoothing", 0);
  if (!(a->smoothing >= 0 && a->smoothing <= 1)) fl_lua_fail(L, op,
      "label_smoothing = %g, need 0 to 1", a->smoothing);
}

static int l_cross_entropy(lua_State *L) {
  fl_lua *b = self_of(L);
  entropy_args a;
  entropy_read(L, &a);
  fl_lua_slip_softmax(L, b, a.x);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *x = node_of(b, a.x), *y = node_of(b, a.y), *w = node_or_none(b, a.w);
  return fl_lua_leave(L, b, m, out, x && y && w ? n_cross_entropy(x, y, w, a.reduction,
      a.ignore, a.smoothing) : NULL);
}

/* core.classes(ids, n): ids 1 to n of nll_loss, checked when they are computed. core.positions(idx,
** n, negative): the same of positions, of which those below 0 count from the end. */
static int checked_ids(lua_State *L, const char *op, int flags) {
  fl_lua *b = self_of(L);
  op = fl_lua_named(b, op);
  fl_box *x = fl_arg_tensor(L, 1, op, flags & FL_INDEX_CLASS ? "target" : "index");
  const int64_t n = luaL_checkinteger(L, 2);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *ids = node_of(b, x), *at = ids ? n_index(ids, n, flags, op) : NULL;
  return fl_lua_leave(L, b, m, out, at ? n_add(at, n_int(b->c, 1)) : NULL);
}
static int l_classes(lua_State *L) { return checked_ids(L, "nll_loss", FL_INDEX_CLASS); }
static int l_positions(lua_State *L) {
  return checked_ids(L, "index", lua_toboolean(L, 3) ? FL_INDEX_NEGATIVE : 0);
}

/* core.normalise(op, x, axes, eps[, w, b]): x less its mean over its
** deviation, times w, plus b, in f32 at least. */
static int l_normalise(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *op = luaL_checkstring(L, 1);
  fl_box *x = fl_arg_tensor(L, 2, op, "x");
  const int dtype = x->t->node->dtype;
  if (!fl_is_float(dtype))
    fl_lua_fail(L, op, "dtype %s is not supported" FL_DO "; cast first: x:float()",
                fl_dtype_name(dtype));
  const uint32_t axes = fl_arg_axes(L, 3, x->t->node->shape->rank, op);
  const double eps = fl_arg_num(L, 4, op, "eps");
  fl_box *w = fl_arg_tensor_or_nil(L, 5, op, "weight"),
         *bias = fl_arg_tensor_or_nil(L, 6, op, "bias");
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x), *wn = node_or_none(b, w), *bn = node_or_none(b, bias);
  return fl_lua_leave(L, b, m, out, n_normalise(n, axes, eps, wn, bn));
}

/* core.piecewise(op, x[, a, b]) of a float x */
static int l_piecewise(lua_State *L) {
  static const char *const names[] = { "hardtanh", "leaky_relu", "hardsigmoid", "hardswish", NULL };
  fl_lua *b = self_of(L);
  const int kind = luaL_checkoption(L, 1, NULL, names);
  fl_box *x = fl_arg_tensor(L, 2, names[kind], "x");
  const double low = luaL_optnumber(L, 3, 0), high = luaL_optnumber(L, 4, 0);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return fl_lua_leave(L, b, m, out, n_piecewise(kind, node_of(b, x), low, high));
}

/* core.grouped_norm(x, groups, eps[, w, b]) */
static int l_group_norm(lua_State *L) {
  static const char op[] = "group_norm";
  fl_lua *b = self_of(L);
  fl_box *x = fl_arg_tensor(L, 1, op, "x");
  const int64_t groups = fl_arg_int(L, 2, op, "groups");
  const double eps = fl_arg_num(L, 3, op, "eps");
  fl_box *w = fl_arg_tensor_or_nil(L, 4, op, "weight"),
         *bias = fl_arg_tensor_or_nil(L, 5, op, "bias");
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x), *wn = node_or_none(b, w), *bn = node_or_none(b, bias);
  return fl_lua_leave(L, b, m, out, n && wn && bn ? n_group_norm(n, groups, wn, bn, eps) : NULL);
}

/* (p, g, m, v, largest v or nil, lr, beta1, beta2, eps, decay, decoupled, step). For optim.lua. */
static int l_adam(lua_State *L) {
  static const char op[] = "adam";
  fl_lua *b = self_of(L);
  fl_box *p = fl_arg_tensor(L, 1, op, "p"), *g = fl_arg_tensor(L, 2, op, "grad");
  fl_box *m = fl_arg_tensor(L, 3, op, "exp_avg"), *v = fl_arg_tensor(L, 4, op, "exp_avg_sq");
  fl_box *largest = fl_arg_tensor_or_nil(L, 5, op, "max_exp_avg_sq");
  const fl_adam rule = { .lr = fl_arg_num(L, 6, op, "lr"), .beta1 = fl_arg_num(L, 7, op, "beta1"),
      .beta2 = fl_arg_num(L, 8, op, "beta2"), .eps = fl_arg_num(L, 9, op, "eps"),
      .decay = fl_arg_num(L, 10, op, "weight_decay"), .decoupled = lua_toboolean(L, 11),
      .step = luaL_checkinteger(L, 12) };
  const int64_t mark = fl_lua_enter(L, b);
  fl_node *grad = node_of(b, g);
  const int open = grad && node_of(b, p) && node_of(b, m) && node_of(b, v) &&
                   (!largest || node_of(b, largest));
  return fl_lua_leave_status(L, b, mark, open ? fl_adam_step(p->t, grad, m->t, v->t,
      largest ? largest->t : NULL, &rule) : (flame_status)b->c->err.code);
}

const fl_lua_reg fl_reg_neural[] = {
  { "matmul", l_matmul, FL_IN_BOTH }, { "mm", l_mm, FL_IN_BOTH }, { "bmm", l_bmm, FL_IN_BOTH },
  { "mv", l_mv, FL_IN_BOTH }, { "dot", l_dot, FL_IN_BOTH }, { "linear", l_linear, FL_IN_BOTH },
  { "softmax", l_softmax, FL_IN_BOTH }, { "log_softmax", l_log_softmax, FL_IN_BOTH },
  { "softmin", l_softmin, FL_IN_BOTH }, { "layer_norm", l_layer_norm, FL_IN_BOTH },
  { "gelu", l_gelu, FL_IN_BOTH }, { "silu", l_silu, FL_IN_BOTH }, { "dropout", l_dropout,
      FL_IN_BOTH },
  { "embedding", l_embedding, FL_IN_BOTH }, { "one_hot", l_one_hot, FL_IN_BOTH },
  { "cross_entropy", l_cross_entropy, FL_IN_BOTH }, { "classes", l_classes, 0 },
  { "positions", l_positions, 0 },
  { "normalise", l_normalise, 0 }, { "grouped_norm", l_group_norm, 0 },
  { "piecewise", l_piecewise, 0 },
  { "adam", l_adam, 0 }, { NULL, NULL, 0 }
};
