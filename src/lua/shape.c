/*
** Shapes: views (whose handles refuse writes, docs/contract.md 1), and joining. made_by is the
** function's own name, which a refused write reports.
*/
#include "lua/binding.h"

/* The shape is copied, since reading the arguments after x may run a finaliser that frees x. */
static fl_layout shape_at(lua_State *L, int i, const char *op) {
  return *fl_arg_tensor(L, i, op, "x")->t->node->shape;
}

/* If a view builder returned its input, makes another node of the same value (without copying its
** memory), so that the view is a separate value. */
static fl_node *apart(fl_node *y, fl_node *x) { return y == x && y != NULL ? n_alias(x) : y; }

/* What is between BEGIN and END computes a view of n, the node of the tensor at 1 (NULL: an error).
** VIEW_END_AS reports errors of a builder under the function's own name. */
#define VIEW_BEGIN(op) \
  fl_lua *b = self_of(L); \
  fl_box *x = box_at(L, 1), *out = fl_box_new(L); \
  const char *made_by = op; \
  const int64_t m = fl_lua_enter(L, b); \
  fl_node *n = node_of(b, x)
#define VIEW_END_AS(expression) do { \
    fl_node *y = n ? apart((expression), n) : NULL; \
    if (y == NULL) fl_error_own(&b->c->err, made_by); \
    return fl_lua_leave_view(L, b, m, out, y, made_by); \
  } while (0)
#define VIEW_END(expression) \
  return fl_lua_leave_view(L, b, m, out, n ? apart((expression), n) : NULL, made_by)

static int reshaped(lua_State *L) {
  fl_sizes s;
  fl_arg_sizes(L, 2, lua_gettop(L), "reshape", -1, &s);
  VIEW_BEGIN("reshape");
  VIEW_END(n_reshape(n, s.n, s.at));
}

static int s_reshape(lua_State *L) {
  if (!fl_plain(L, 1, lua_gettop(L) - 1)) fl_args(L);
  return reshaped(L);
}

static int s_view(lua_State *L) {
  if (fl_plain(L, 1, lua_gettop(L) - 1) || fl_args(L) == 1) return reshaped(L);
  const int dtype = fl_arg_dtype(L, 2, "view");
  VIEW_BEGIN("view");
  VIEW_END(n_bits(n, dtype));
}

static int s_flatten(lua_State *L) {
  fl_sizes s = { 0, { 0 } };
  fl_args(L);
  const fl_layout l = shape_at(L, 1, "flatten");
  const int first = fl_arg_axis(L, 2, l.rank, "flatten");
  const int last = fl_arg_axis(L, 3, l.rank, "flatten");
  if (last < first && l.rank > 0) fl_lua_fail(L, "flatten",
      "last axis %d comes before first axis %d", last + 1, first + 1);
  for (int a = 0; a < first; a++) s.at[s.n++] = l.size[a];
  int64_t joined = 1;
  for (int a = first; a <= last && a < l.rank; a++) joined *= l.size[a];
  s.at[s.n++] = joined;
  for (int a = last + 1; a < l.rank; a++) s.at[s.n++] = l.size[a];
  VIEW_BEGIN("flatten");
  VIEW_END(n_reshape(n, s.n, s.at));
}

static int s_unflatten(lua_State *L) {
  fl_sizes s, r = { 0, { 0 } };
  fl_args(L);
  const fl_layout l = shape_at(L, 1, "unflatten");
  const int axis = fl_arg_axis(L, 2, l.rank, "unflatten");
  fl_arg_sizes(L, 3, 3, "unflatten", -1, &s);
  if (l.rank - 1 + s.n > FL_MAX_AXES) fl_lua_fail(L, "unflatten", "%d axes, at most %d",
      l.rank - 1 + s.n, FL_MAX_AXES);
  const int64_t whole = l.rank > 0 ? l.size[axis] : 1;
  int64_t known = 1;
  for (int k = 0; k < s.n; k++)
    if (s.at[k] >= 0 && __builtin_mul_overflow(known, s.at[k], &known)) known = 0;
  for (int k = 0; k < s.n; k++) if (s.at[k] < 0 && known > 0) s.at[k] = whole / known;
  for (int a = 0; a < axis; a++) r.at[r.n++] = l.size[a];
  for (int k = 0; k < s.n; k++) r.at[r.n++] = s.at[k];
  for (int a = axis + 1; a < l.rank; a++) r.at[r.n++] = l.size[a];
  if (fl_numel(s.n, s.at) != whole || fl_numel(r.n, r.at) != l.numel) fl_lua_fail(L, "unflatten",
      "sizes do not multiply to %lld", (long long)whole);
  VIEW_BEGIN("unflatten");
  VIEW_END(n_reshape(n, r.n, r.at));
}

/* Drops those of the given axes that have size 1, or all axes of size 1. */
static int s_squeeze(lua_State *L) {
  fl_args(L);
  const fl_layout l = shape_at(L, 1, "squeeze");
  /* {}: no axis, as in PyTorch */
  const int none = lua_type(L, 2) == LUA_TTABLE && lua_rawlen(L, 2) == 0;
  const uint32_t axes = none ? 0 : fl_arg_axes(L, 2, l.rank, "squeeze");
  VIEW_BEGIN("squeeze");
  fl_node *y = n;
  for (int a = n ? n->shape->rank - 1 : -1; y != NULL && a >= 0; a--)
    if (axes >> a & 1 && n->shape->size[a] == 1) y = n_squeeze(y, a);
  VIEW_END(y);
}

static int s_unsqueeze(lua_State *L) {
  if (!fl_plain(L, 1, 1)) fl_args(L);
  const fl_layout l = shape_at(L, 1, "unsqueeze");
  const int axis = fl_arg_axis(L, 2, l.rank + 1, "unsqueeze");
  if (l.rank == FL_MAX_AXES) fl_lua_fail(L, "unsqueeze", "x has %d axes already", l.rank);
  VIEW_BEGIN("unsqueeze");
  VIEW_END(n_unsqueeze(n, axis));
}

static int s_permute(lua_State *L) {
  fl_sizes s;
  int perm[FL_MAX_AXES];
  unsigned seen = 0;
  fl_args(L);
  const fl_layout l = shape_at(L, 1, "permute");
  fl_arg_sizes(L, 2, lua_gettop(L), "permute", INT8_MIN, &s);
  if (s.n != l.rank) fl_lua_fail(L, "permute", "%d axes given, the tensor has %d", s.n, l.rank);
  for (int k = 0; k < s.n; k++) {
    perm[k] = fl_axis_checked(L, s.at[k], l.rank, "permute");
    if (seen & 1u << perm[k]) fl_lua_fail(L, "permute", "axis %lld is named twice",
        (long long)s.at[k]);
    seen |= 1u << perm[k];
  }
  VIEW_BEGIN("permute");
  VIEW_END(n_permute(n, perm));
}

/* x.T: all axes in reverse order; x.mT: the last two exchanged. */
int fl_property_turned(lua_State *L, int all) {
  int perm[FL_MAX_AXES];
  const int rank = shape_at(L, 1, all ? "T" : "mT").rank;
  if (!all && rank < 2) fl_lua_fail(L, "mT", "x has %d axes, need two or more", rank);
  for (int k = 0; k < rank; k++) perm[k] = all ? rank - 1 - k : k;
  if (!all) perm[rank - 2] = rank - 1, perm[rank - 1] = rank - 2;
  VIEW_BEGIN(all ? "T" : "mT");
  VIEW_END(rank < 2 ? n : n_permute(n, perm));
}

static int s_transpose(lua_State *L) {
  if (!fl_plain(L, 1, 2)) fl_args(L);
  const fl_layout l = shape_at(L, 1, "transpose");
  const int p = fl_arg_axis(L, 2, l.rank, "transpose"), q = fl_arg_axis(L, 3, l.rank,
      "transpose");
  VIEW_BEGIN("transpose");
  VIEW_END(p == q ? n : n_transpose(n, p, q));
}

static int s_t(lua_State *L) {
  if (!fl_plain(L, 1, 0)) fl_args(L);
  const fl_layout l = shape_at(L, 1, "t");
  if (l.rank > 2)
    fl_lua_fail(L, "t", "x has %d axes, at most 2" FL_DO ": use transpose(a, b)", l.rank);
  const int rank = l.rank;
  VIEW_BEGIN("t");
  VIEW_END(rank < 2 ? n : n_transpose(n, 0, 1));
}

static int expand(lua_State *L, const char *op) {
  fl_sizes s;
  fl_args(L);
  const fl_layout l = shape_at(L, 1, op);
  fl_arg_sizes(L, 2, lua_gettop(L), op, -1, &s);
  for (int k = 0; k < s.n; k++) {
    const int a = k - (s.n - l.rank);
    if (s.at[k] < 0 && a < 0) fl_lua_fail(L, op,
        "size -1 of axis %d: x has no such axis to keep", k + 1);
    if (s.at[k] < 0) s.at[k] = l.size[a];
  }
  VIEW_BEGIN(op);
  VIEW_END_AS(n_expand(n, s.n, s.at));
}
static int s_expand(lua_State *L) { return expand(L, "expand"); }
static int s_broadcast_to(lua_State *L) { return expand(L, "broadcast_to"); }
static int s_expand_as(lua_State *L) {
  fl_args(L);
  const fl_layout l = shape_at(L, 2, "expand_as");
  VIEW_BEGIN("expand_as");
  VIEW_END_AS(n_expand(n, l.rank, l.size));
}

/* Position 'i' of an axis of n: 1-based, negative from the end; raises when out of range. */
static int64_t position(lua_State *L, int64_t i, int64_t n, int axis, const char *op) {
  if (i == 0 || i > n || i < -n)
    fl_lua_fail(L, op,
        "index %lld is out of range for axis %d with %lld elements (1 to %lld, or -1 to -%lld)",
                (long long)i, axis + 1, (long long)n, (long long)n, (long long)n);
  return i > 0 ? i - 1 : n + i;
}

static int s_narrow(lua_State *L) {
  if (!fl_plain(L, 1, 3)) fl_args(L);
  const fl_layout l = shape_at(L, 1, "narrow");
  const int axis = fl_arg_axis(L, 2, l.rank, "narrow");
  const int64_t size = l.rank > 0 ? l.size[axis] : 1, count = lua_tointeger(L, 4);
  int64_t first = lua_tointeger(L, 3);
  first = count == 0 && first == size + 1 ? size : position(L, first, size, axis, "narrow");
  if (count < 0 || count > size - first)
    fl_lua_fail(L, "narrow", "%lld elements from %lld on, axis %d has %lld",
        (long long)count, (long long)(first + 1), axis + 1, (long long)size);
  VIEW_BEGIN("narrow");
  VIEW_END(n_slice(n, axis, first, count, 1));
}

static int s_select(lua_State *L) {
  if (!fl_plain(L, 1, 2)) fl_args(L);
  const fl_layout l = shape_at(L, 1, "select");
  if (l.rank == 0) fl_lua_fail(L, "select", "a 0-d tensor has no axes");
  const int axis = fl_arg_axis(L, 2, l.rank, "select");
  const int64_t i = position(L, lua_tointeger(L, 3), l.size[axis], axis, "select");
  VIEW_BEGIN("select");
  VIEW_END(n_select(n, axis, i));
}

static int s_diagonal(lua_State *L) {
  fl_args(L);
  const fl_layout l = shape_at(L, 1, "diagonal");
  if (l.rank < 2) fl_lua_fail(L, "diagonal", "x has %d axes, need 2 at least", l.rank);
  const int64_t k = lua_tointeger(L, 2);
  const int p = fl_arg_axis(L, 3, l.rank, "diagonal"), q = fl_arg_axis(L, 4, l.rank, "diagonal");
  if (p == q) fl_lua_fail(L, "diagonal", "the two axes must differ");
  int64_t stride[FL_MAX_AXES], size[FL_MAX_AXES], step[FL_MAX_AXES];
  int rank = 0;
  fl_row_major(l.rank, l.size, stride);
  for (int a = 0; a < l.rank; a++) {
    if (a == p || a == q) continue;
    size[rank] = l.size[a];
    step[rank++] = stride[a];
  }
  const int64_t rows = k < 0 ? l.size[p] + k : l.size[p],
      columns = k > 0 ? l.size[q] - k : l.size[q];
  const int64_t n0 = rows < columns ? rows : columns;
  size[rank] = n0 > 0 ? n0 : 0;
  step[rank++] = stride[p] + stride[q];
  const int64_t offset = size[rank - 1] == 0 ? 0 : k > 0 ? k * stride[q] : -k * stride[p];
  VIEW_BEGIN("diagonal");
  VIEW_END(n_strided(n, rank, size, step, offset));
}

static int s_unfold(lua_State *L) {
  fl_args(L);
  const fl_layout l = shape_at(L, 1, "unfold");
  const int axis = fl_arg_axis(L, 2, l.rank, "unfold");
  const int64_t size = lua_tointeger(L, 3), step = lua_tointeger(L, 4);
  if (l.rank == FL_MAX_AXES)
    fl_lua_fail(L, "unfold", "x has %d axes, the result would have one more", l.rank);
  const int64_t length = l.rank > 0 ? l.size[axis] : 1;
  if (step < 1 || size < 1 || size > length)
    fl_lua_fail(L, "unfold",
        "size %lld and step %lld do not fit axis %d with %lld elements", (long long)size,
        (long long)step, axis + 1, (long long)length);
  int64_t stride[FL_MAX_AXES] = { 1 }, sizes[FL_MAX_AXES];
  fl_row_major(l.rank, l.size, stride);
  memcpy(sizes, l.size, sizeof sizes);
  const int rank = l.rank;
  stride[rank] = stride[axis];
  sizes[rank] = size;
  if (rank > 0) sizes[axis] = (length - size) / step + 1;
  if (rank > 0 && sizes[axis] > 1) stride[axis] *= step;
  VIEW_BEGIN("unfold");
  VIEW_END(n_strided(n, rank + 1, sizes, stride, 0));
}

/* ---- several views: a table ------------------------------------------------------------------ */
/* Appends to a table the part [first, first + count) of axis (count < 0: position 'first', with the
** axis dropped). */
static void push_part(lua_State *L, int table, int k, int axis, int64_t first,
    int64_t count, const char *op) {
  fl_lua *b = self_of(L);
  fl_box *x = fl_arg_tensor(L, 1, op, "x"), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  fl_node *y = n == NULL ? NULL : count < 0 ? n_select(n, axis, first) : n_slice(n, axis,
      first, count, 1);
  fl_lua_leave_view(L, b, m, out, y ? apart(y, n) : NULL, op);
  lua_rawseti(L, table, k);
}

/* Raises if there are so many parts that a table of them would not fit in memory, or would take too
** long to make. */
static void check_parts(lua_State *L, const char *op, int64_t n) {
  if (n > 1 << 24) fl_lua_fail(L, op, "%lld parts are too many", (long long)n);
}

static int parts(lua_State *L, const char *op, int axis, int64_t size, int64_t step) {
  int k = 0;
  if (step > size) step = size > 0 ? size : 1;
  check_parts(L, op, size / step);
  lua_newtable(L);
  const int table = lua_gettop(L);
  for (int64_t at = 0; at < size || k == 0; at += step)
    push_part(L, table, ++k, axis, at, step < size - at ? step : size - at, op);
  return 1;
}

static int s_split(lua_State *L) {
  fl_args(L);
  const fl_layout l = shape_at(L, 1, "split");
  const int axis = fl_arg_axis(L, 3, l.rank, "split");
  if (l.rank == 0) fl_lua_fail(L, "split", "a 0-d tensor has no axes");
  const int64_t size = l.size[axis];
  if (lua_type(L, 2) != LUA_TTABLE) {
    const int64_t step = lua_tointeger(L, 2);
    if (step < 1) fl_lua_fail(L, "split", "size %lld must be positive", (long long)step);
    return parts(L, "split", axis, size, step);
  }
  int64_t sum = 0;
  const int n = (int)lua_rawlen(L, 2);
  lua_createtable(L, n, 0);
  const int table = lua_gettop(L);
  for (int k = 1; k <= n; k++, lua_settop(L, table)) {
    lua_rawgeti(L, 2, k);
    const int64_t count = fl_arg_int(L, lua_gettop(L), "split", "size");
    if (count < 0 || count > size - sum) fl_lua_fail(L, "split",
        "sizes exceed the %lld elements of axis %d", (long long)size, axis + 1);
    push_part(L, table, k, axis, sum, count, "split");
    sum += count;
  }
  if (sum != size) fl_lua_fail(L, "split", "sizes add up to %lld, axis %d has %lld",
      (long long)sum, axis + 1, (long long)size);
  return 1;
}

static int s_chunk(lua_State *L) {
  fl_args(L);
  const fl_layout l = shape_at(L, 1, "chunk");
  const int64_t n = lua_tointeger(L, 2);
  const int axis = fl_arg_axis(L, 3, l.rank, "chunk");
  if (l.rank == 0) fl_lua_fail(L, "chunk", "a 0-d tensor has no axes");
  if (n < 1) fl_lua_fail(L, "chunk", "n = %lld must be positive", (long long)n);
  const int64_t step = l.size[axis] / n + (l.size[axis] % n != 0);
  if (step > 0) return parts(L, "chunk", axis, l.size[axis], step);
  check_parts(L, "chunk", n);
  luaL_checkstack(L, 8, "chunk");
  lua_newtable(L);                                    /* an empty axis: n empty parts */
  const int table = lua_gettop(L);
  for (int64_t k = 1; k <= n; k++) push_part(L, table, (int)k, axis, 0, 0, "chunk");
  return 1;
}

static int s_unbind(lua_State *L) {
  fl_args(L);
  const fl_layout l = shape_at(L, 1, "unbind");
  const int axis = fl_arg_axis(L, 2, l.rank, "unbind");
  if (l.rank == 0) fl_lua_fail(L, "unbind", "a 0-d tensor has no axes");
  const int64_t n = l.size[axis];
  check_parts(L, "unbind", n);
  lua_createtable(L, (int)n, 0);
  const int table = lua_gettop(L);
  for (int64_t i = 0; i < n; i++) push_part(L, table, (int)(i + 1), axis, i, -1, "unbind");
  return 1;
}

/* ---- new values ------------------------------------------------------------------------------ */
static int s_flip(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_args(L);
  const fl_layout l = shape_at(L, 1, "flip");
  fl_sizes s;
  uint32_t axes = 0;
  fl_arg_sizes(L, 2, lua_gettop(L), "flip", INT8_MIN, &s);
  for (int k = 0; k < s.n; k++) {
    const uint32_t bit = 1u << fl_axis_checked(L, s.at[k], l.rank, "flip");
    if (axes & bit) fl_lua_fail(L, "flip", "axis %lld is named twice", (long long)s.at[k]);
    axes |= bit;
  }
  fl_box *x = box_at(L, 1), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  for (int a = 0; n != NULL && a < n->shape->rank; a++) {
    const int64_t size = n->shape->size[a];
    if (axes & 1u << a && size > 1) n = n_slice(n, a, size - 1, size, -1);
  }
  return fl_lua_leave(L, b, m, out, n ? n_copy(n) : NULL);
}

enum { MAX_JOINED = 1 << 19 };       /* a list is on Lua's stack, which has a million places */

/* The rank that all tensors must have. For cat, a tensor of shape (0) is accepted beside any rank,
** as in n_cat. */
static int joint_rank(lua_State *L, const char *op, fl_box **x, int count, int stack) {
  const fl_node *lead = NULL;
  for (int k = 0; k < count; k++) {
    const fl_node *n = x[k]->t->node;
    if (!stack && n->shape->rank == 1 && n->shape->size[0] == 0) continue;
    if (lead == NULL) lead = n;
    if (n->shape->rank == lead->shape->rank) continue;
    char a[192], b[192];
    fl_lua_fail(L, op, "shapes %s and %s differ in their number of axes", fl_lua_shape_of(a, lead),
                fl_lua_shape_of(b, n));
  }
  return lead != NULL ? lead->shape->rank : 1;
}

/* cat and stack. The nodes are collected in a userdata, after entering. */
static int join(lua_State *L, const char *op, int stack) {
  fl_lua *b = self_of(L);
  const int listed = lua_type(L, 1) == LUA_TTABLE && !fl_is_options(L, 1);
  const int along = lua_gettop(L) == 2 && lua_isinteger(L, 2);
  if (!listed || !along) fl_args(L);             /* the list is read below */
  const int count = (int)lua_rawlen(L, 1);
  if (count == 0 || count > MAX_JOINED) fl_lua_fail(L, op, "%d tensors, need 1 to %d",
      count, MAX_JOINED);
  fl_box **boxes = (fl_box **)lua_newuserdatauv(L, (size_t)count * 2 * sizeof(void *), 0);
  fl_node **nodes = (fl_node **)(boxes + count);
  fl_arg_list(L, 1, op, "tensors", MAX_JOINED, boxes);
  const int rank = joint_rank(L, op, boxes, count, stack);
  if (!stack && rank == 0)
    fl_lua_fail(L, op, "0-d tensors have no axis to join" FL_DO ": use stack");
  const int axis = fl_arg_axis(L, 2, rank + stack, op);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  int ok = 1;
  for (int k = 0; k < count; k++) ok = (nodes[k] = node_of(b, boxes[k])) != NULL && ok;
  fl_node *y = !ok ? NULL : stack ? n_stack(b->c, count, nodes, axis) : n_cat(b->c, count,
      nodes, axis);
  if (ok && y == nodes[0]) y = n_copy(y);
  return fl_lua_leave(L, b, m, out, y);
}
static int s_cat(lua_State *L) { return join(L, "cat", 0); }
static int s_stack(lua_State *L) { return join(L, "stack", 1); }

/* (x, {before, after, …}, value): pairs from the last axis backwards; constant mode. ops/pad.lua
** has the other modes. */
static int pad_constant(lua_State *L) {
  fl_lua *b = self_of(L);
  int64_t before[FL_MAX_AXES] = { 0 }, after[FL_MAX_AXES] = { 0 };
  const fl_layout l = shape_at(L, 1, "pad");
  const double value = lua_tonumber(L, 3);
  const int n = (int)lua_rawlen(L, 2);
  if (n % 2 != 0 || n / 2 > l.rank) fl_lua_fail(L, "pad",
      "%d numbers for %d axes, need pairs", n, l.rank);
  for (int k = 0; k < n; k++) {
    const int axis = l.rank - 1 - k / 2;
    lua_rawgeti(L, 2, k + 1);
    const int64_t v = fl_arg_int(L, lua_gettop(L), "pad", "amount");
    if (v < -INT64_MAX / 16 || v > INT64_MAX / 16)
      fl_lua_fail(L, "pad", "amount %lld is out of range", (long long)v);
    if (k % 2 == 0) before[axis] = v; else after[axis] = v;
    if (k % 2 == 1 && l.size[axis] + before[axis] + after[axis] < 0) fl_lua_fail(L, "pad",
        "axis %d would be shorter than nothing", axis + 1);
    lua_pop(L, 1);
  }
  fl_box *x = box_at(L, 1), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *y = node_of(b, x);
  for (int a = 0; y != NULL && a < l.rank; a++) {       /* negative amounts cut */
    const int64_t cut0 = before[a] < 0 ? -before[a] : 0, cut1 = after[a] < 0 ? -after[a] : 0;
    if (cut0 + cut1 > 0) y = n_slice(y, a, cut0, y->shape->size[a] - cut0 - cut1, 1);
    before[a] = before[a] < 0 ? 0 : before[a];
    after[a] = after[a] < 0 ? 0 : after[a];
  }
  if (y != NULL) y = n_pad(y, before, after, value);
  if (y != NULL && x->t && y == x->t->node) y = n_copy(y);
  return fl_lua_leave(L, b, m, out, y);
}

static int triangle(lua_State *L, const char *op, int upper) {
  fl_lua *b = self_of(L);
  fl_args(L);
  if (shape_at(L, 1, op).rank < 2) fl_lua_fail(L, op, "x has %d axes, need 2 at least",
      shape_at(L, 1, op).rank);
  const int64_t k = lua_tointeger(L, 2);
  fl_box *x = box_at(L, 1), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  return fl_lua_leave(L, b, m, out, n ? n_tril(n, k, upper) : NULL);
}
static int s_tril(lua_State *L) { return triangle(L, "tril", 0); }
static int s_triu(lua_State *L) { return triangle(L, "triu", 1); }

/* pairs(x): i, x[i] along the first axis. */
static int pairs_next(lua_State *L) {
  const int64_t i = lua_isnil(L, 2) ? 0 : lua_tointeger(L, 2);
  const fl_layout l = shape_at(L, 1, "pairs");
  if (i >= l.size[0]) return 0;
  lua_settop(L, 1);
  VIEW_BEGIN("x[…]");
  fl_lua_leave_view(L, b, m, out, n ? n_select(n, 0, i) : NULL, made_by);
  lua_pushinteger(L, i + 1);
  lua_insert(L, -2);
  return 2;
}

static int s_pairs(lua_State *L) {
  if (shape_at(L, 1, "pairs").rank == 0) return fl_lua_fail(L, "pairs",
      "a 0-d tensor has no axes");
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushcclosure(L, pairs_next, 2);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

const fl_lua_reg fl_reg_shape[] = {
  { "reshape(x: T, shape...: int) -> T\n"
    "--- the same elements in another shape; one size may be -1",
    s_reshape, 0 },
  { "view(x: T, dtype: dtype) -> T\n"
    "view(x: T, shape...: int) -> T\n"
    "--- the same as reshape: works on any strides; with a dtype, the bytes of x as elements of it, "
    "whose number along the last axis changes with their size; no gradient",
    s_view, 0 },
  { "flatten(x: T, start_dim: axis = 1, end_dim: axis = -1) -> T\n"
    "--- axes start_dim to end_dim as one",
    s_flatten, 0 },
  { "unflatten(x: T, dim: axis, sizes: int|int[]) -> T\n"
    "--- an axis as several, of which one size may be -1",
    s_unflatten, 0 },
  { "squeeze(x: T, dim?: axes) -> T\n"
    "--- without its axes of size 1; with dim, without those of them that dim names",
    s_squeeze, 0 },
  { "unsqueeze(x: T, dim: axis) -> T\n"
    "--- with an axis of size 1 at dim",
    s_unsqueeze, 0 },
  { "permute(x: T, dims...: axis) -> T\n"
    "--- axes in another order",
    s_permute, 0 },
  { "transpose(x: T, dim0: axis, dim1: axis) -> T\n"
    "--- two axes exchanged",
    s_transpose, 0 },
  { "t(x: T) -> T\n"
    "--- a matrix transposed",
    s_t, 0 },
  { "expand(x: T, shape...: int) -> T\n"
    "--- axes of size 1 repeated without copies; -1 keeps an axis",
    s_expand, 0 },
  { "broadcast_to(x: T, shape...: int) -> T\n"
    "--- axes of size 1 repeated without copies",
    s_broadcast_to, 0 },
  { "expand_as(x: T, y: T) -> T\n"
    "--- expanded to y's shape",
    s_expand_as, 0 },
  { "narrow(x: T, dim: axis, start: int, length: int) -> T\n"
    "--- length positions of an axis, from start on",
    s_narrow, 0 },
  { "select(x: T, dim: axis, index: int) -> T\n"
    "--- the slice at one position of an axis, without that axis",
    s_select, 0 },
  { "diagonal(x: T, offset: int = 0, dim1: axis = 1, dim2: axis = 2) -> T\n"
    "--- the diagonal of two axes, as a last axis",
    s_diagonal, 0 },
  { "unfold(x: T, dimension: axis, size: int, step: int) -> T\n"
    "--- windows along an axis, as a new last axis",
    s_unfold, 0 },
  { "split(x: T, size: int|int[], dim: axis = 1) -> T[]\n"
    "--- parts of this size (the last may be smaller), or of these sizes, which add up to the axis",
    s_split, 0 },
  { "chunk(x: T, n: int, dim: axis = 1) -> T[]\n"
    "--- parts of equal size, at most n; the last may be smaller",
    s_chunk, 0 },
  { "unbind(x: T, dim: axis = 1) -> T[]\n"
    "--- the slices along an axis",
    s_unbind, 0 },
  { "flip(x: T, dims...: axis) -> T\n"
    "--- the positions of these axes in reverse order",
    s_flip, 0 },
  { ".cat(tensors: T[], dim: axis = 1) -> T\n"
    "--- joined along an axis",
    s_cat, 0 },
  { ".stack(tensors: T[], dim: axis = 1) -> T\n"
    "--- joined along a new axis",
    s_stack, 0 },
  { "tril(x: T, diagonal: int = 0) -> T\n"
    "--- the lower triangle, 0 above",
    s_tril, 0 },
  { "triu(x: T, diagonal: int = 0) -> T\n"
    "--- the upper triangle, 0 below",
    s_triu, 0 },
  { "pad_constant", pad_constant, 0 }, { "__pairs", s_pairs, 0 }, { NULL, NULL, 0 }
};
