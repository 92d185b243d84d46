/*
** Functions of networks whose nodes are recorded in C, mostly by one function of tensor/build.h:
** products, softmax, norms, activations with a switch, embedding, cross entropy, dropout.
*/
#include "lua/binding.h"

/* An optional tensor: fl_none if it was omitted. */
static fl_node *node_or_none(fl_lua *b, const fl_box *x) { return x ? node_of(b, x) : &fl_none; }

/* ---- products -------------------------------------------------------------------------- */
/* rank1, rank2: the ranks that the operands must have; 0: any. */
static int product(lua_State *L, const char *op, int rank1, int rank2) {
  fl_lua *b = self_of(L);
  if (b->autocast || !fl_plain(L, 2, 0)) fl_args(L);
  fl_box *x = box_at(L, 1), *y = box_at(L, 2);
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
  if (b->autocast || !(fl_plain(L, 2, 0) || fl_plain(L, 3, 0))) fl_args(L);
  fl_box *x = box_at(L, 1), *w = box_at(L, 2);
  fl_box *bias = lua_gettop(L) > 2 ? box_at(L, 3) : NULL, *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *xn = node_of(b, x), *wn = node_of(b, w), *bn = node_or_none(b, bias);
  return fl_lua_leave_as(L, b, m, out, xn && wn && bn ? n_linear(xn, wn, bn) : NULL, "linear");
}

/* ---- rows ---------------------------------------------------------------------------------- */
static int softmax(lua_State *L, const char *op, fl_node *(*build)(fl_node *, int), int minus) {
  fl_lua *b = self_of(L);
  if (b->autocast || !fl_plain(L, 1, 1)) fl_args(L);
  fl_box *x = box_at(L, 1);
  const int axis = fl_arg_axis(L, 2, x->t->node->shape->rank, op);
  const int dtype = lua_isnoneornil(L, 3) ? -1 : fl_arg_dtype(L, 3, op);
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
  fl_args(L);
  const double eps = lua_tonumber(L, 5);
  fl_box *x = box_at(L, 1), *w = box_at(L, 3), *bias = box_at(L, 4);
  fl_arg_sizes(L, 2, 2, op, 0, &s);
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
  fl_args(L);
  const int tanh_form = strcmp(lua_tostring(L, 2), "tanh") == 0;
  fl_box *x = box_at(L, 1), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  return fl_lua_leave(L, b, m, out, n ? n_gelu(n, tanh_form) : NULL);
}

static int l_silu(lua_State *L) {
  fl_lua *b = self_of(L);
  if (!fl_plain(L, 1, 0)) fl_args(L);
  fl_box *x = box_at(L, 1), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  return fl_lua_leave(L, b, m, out, n ? n_silu(n) : NULL);
}

static int l_dropout(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_args(L);
  fl_box *x = box_at(L, 1);
  const double p = lua_tonumber(L, 2);
  const int training = lua_toboolean(L, 3);
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
  fl_args(L);
  /* padding_idx, max_norm and scale_grad_by_freq are written in Lua */
  if (!lua_isnil(L, 3) || !lua_isnil(L, 4) || lua_toboolean(L, 6))
    return fl_core_call(L, "embedding");
  fl_box *ids = box_at(L, 1), *w = box_at(L, 2);
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

/* one_hot(ids): the number of classes is the largest id, which is read here. */
static int one_hot_counted(lua_State *L) {
  if (box_at(L, 1)->t->node->shape->numel == 0)
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

/* The result is i64 and has one more axis, with a 1 at each id's position. */
static int l_one_hot(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_args(L);
  fl_box *ids = box_at(L, 1);
  if (fl_is_float(ids->t->node->dtype) || ids->t->node->dtype == FLAME_BOOL)
    fl_lua_fail(L, "one_hot",
      "ids must be integers, got %s%s", fl_dtype_name(ids->t->node->dtype),
      fl_index_hint(ids->t->node->dtype));
  const int64_t n = lua_tointeger(L, 2);
  if (n == -1) return one_hot_counted(L);
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
  static const char *const reductions[] = { "none", "mean", "sum" };
  fl_args(L);
  a->x = box_at(L, 1);
  a->y = box_at(L, 2);
  a->w = box_at(L, 3);
  a->reduction = 2;
  while (a->reduction > 0 && strcmp(reductions[a->reduction], lua_tostring(L, 4)) != 0)
    a->reduction--;
  a->ignore = lua_tointeger(L, 5);
  a->smoothing = lua_tonumber(L, 6);
  if (!(a->smoothing >= 0 && a->smoothing <= 1)) fl_lua_fail(L, "cross_entropy",
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

/* internal.classes(ids, n): the ids of nll_loss, from 1 to n, which are checked when they are
** computed. internal.positions(idx, n, negative): the same for positions, of which negative ones
** count from the end if 'negative' is true; the results count from 1. */
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

/* internal.normalise(op, x, axes, eps[, w, b]): x minus its mean over the axes, divided by the root
** of its variance plus eps, times w, plus b, computed at least in f32. */
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

/* internal.piecewise(op, x[, low, high]): n_piecewise of x, which has a float dtype. */
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

/* internal.grouped_norm(x, groups, eps[, w, b]) */
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

const fl_lua_reg fl_reg_neural[] = {
  { "matmul(x: T, y: T) -> T @half\n"
    "--- matrix product; vectors, batches, broadcasting",
    l_matmul, 0 },
  { "mm(x: T, y: T) -> T @half\n"
    "--- product of two matrices",
    l_mm, 0 },
  { "bmm(x: T, y: T) -> T @half\n"
    "--- products of two batches of matrices",
    l_bmm, 0 },
  { "mv(x: T, y: T) -> T @half\n"
    "--- matrix times vector",
    l_mv, 0 },
  { "dot(x: T, y: T) -> T\n"
    "--- sum of products of two vectors",
    l_dot, 0 },
  { "linear(x: T, weight: T, bias?: T) -> T @half\n"
    "--- x times weight transposed, plus bias",
    l_linear, 0 },
  { "softmax(x: T, dim: axis, dtype?: dtype) -> T @single\n"
    "--- exp(x) over its sum along dim",
    l_softmax, 0 },
  { "log_softmax(x: T, dim: axis, dtype?: dtype) -> T @single\n"
    "--- log of softmax",
    l_log_softmax, 0 },
  { "softmin(x: T, dim: axis, dtype?: dtype) -> T @single\n"
    "--- softmax of -x",
    l_softmin, 0 },
  { "layer_norm(x: T, shape: int|int[], weight?: T, bias?: T, eps = 1e-5) -> T @single\n"
    "--- normalised over the last axes, of these sizes, times weight plus bias",
    l_layer_norm, 0 },
  { "gelu(x: T, approximate: \"none\"|\"tanh\" = \"none\") -> T\n"
    "--- x times the standard normal distribution function of x; \"tanh\": an approximation",
    l_gelu, 0 },
  { "silu(x: T) -> T\n"
    "--- x * sigmoid(x)",
    l_silu, 0 },
  { "dropout(x: T, p = 0.5, training = true) -> T\n"
    "--- 0 with probability p, the rest scaled by 1 / (1 - p); x itself unless training",
    l_dropout, 0 },
  { "embedding(ids: T, weight: T, padding_idx?: int, max_norm?: num, norm_type = 2, "
    "scale_grad_by_freq = false, sparse = false) -> T\n"
    "--- the rows of weight at the ids; those at padding_idx get no gradient; max_norm "
    "scales down, in place, longer rows that are looked up; scale_grad_by_freq divides a row's "
    "gradient by how often it occurs in ids",
    l_embedding, 0 },
  { "one_hot(ids: T, num_classes: int = -1) -> T\n"
    "--- 1 at each id's position, 0 elsewhere; -1: as many classes as the largest id",
    l_one_hot, 0 },
  { "cross_entropy(input: T, target: T, weight?: T, *, reduction: \"none\"|\"mean\"|\"sum\" "
    "= \"mean\", ignore_index: int = -100, label_smoothing = 0) -> T @single\n"
    "--- -log softmax at the class; classes on axis 2, ids from 1 or probabilities",
    l_cross_entropy, 0 },
  { "classes", l_classes, 0 }, { "positions", l_positions, 0 }, { "normalise", l_normalise, 0 },
  { "grouped_norm", l_group_norm, 0 }, { "piecewise", l_piecewise, 0 },
  { NULL, NULL, 0 }
};
