/* See key.h. A key has one item per axis: a number (drops the axis), {} (all of it), {i}, {first,
** last}, {first, last, step}, an index tensor, or a mask (which covers as many axes as it has). A
** new axis is between them: it is inserted into x's sizes at its place, and counts as a whole axis
** from then on. */
#include "lua/key.h"

int fl_key_named(const fl_key *k, int axis) {
  return axis + 1 - __builtin_popcount(k->fresh & ((1u << axis) - 1));
}

/* Position i of the axis, counted from 1; negative ones count from the end. Raises unless it is
** from 'low' to 'high'. */
static int64_t checked(lua_State *L, const fl_key *k, int64_t i, int axis, int64_t low,
    int64_t high) {
  const int64_t n = k->size[axis];
  const int64_t at = i < 0 ? n + 1 + i : i;
  if (n == 0 && (at < low || at > high || i < 0))
    fl_lua_fail(L, FL_INDEXING, "index %lld is out of range for axis %d, which has no elements",
                (long long)i, fl_key_named(k, axis));
  if (at < low || at > high || (i < 0 && at < 1))
    fl_lua_fail(L, FL_INDEXING,
        "index %lld is out of range for axis %d with %lld elements (1 to %lld, or -1 to -%lld)",
                (long long)i, fl_key_named(k, axis), (long long)n, (long long)n, (long long)n);
  return at;
}

static int64_t range_number(lua_State *L, int i, int k) {
  lua_rawgeti(L, i, k);
  const int64_t v = fl_arg_int(L, lua_gettop(L), FL_INDEXING, "a position");
  lua_pop(L, 1);
  return v;
}

/* Reads the range {}, {i}, {first, last} or {first, last, step} at stack index i. */
static void read_range(lua_State *L, int i, fl_key *k, int axis) {
  const int64_t n = k->size[axis];
  const int count = (int)lua_rawlen(L, i);
  if (count > 3) fl_lua_fail(L, FL_INDEXING,
      "%d numbers for one axis: a list of positions is an index tensor", count);
  if (fl_is_options(L, i)) fl_lua_fail(L, FL_INDEXING, "a key is made of positions, not of names");
  if (count == 0) return;
  k->whole = 0;
  const int64_t first = range_number(L, i, 1), step = count > 2 ? range_number(L, i, 3) : 1;
  const int64_t last = count > 1 ? range_number(L, i, 2) : first;
  if (step == 0) fl_lua_fail(L, FL_INDEXING, "step 0 on axis %d", fl_key_named(k, axis));
  const int64_t p = checked(L, k, first, axis, count == 1 ? 1 : 0, count == 1 ? n : n + 1);
  const int64_t q = count == 1 ? p : checked(L, k, last, axis, 0, n + 1);
  const int64_t steps = step > 0 ? (q >= p ? (q - p) / step + 1 : 0)
                                 : (p >= q ? -((p - q) / step) + 1 : 0);
  if (steps > 0 && (p < 1 || p > n)) checked(L, k, p, axis, 1, n);
  if (steps > 0 && (q < 1 || q > n)) checked(L, k, q, axis, 1, n);
  k->start[axis] = steps > 0 ? p - 1 : 0;
  k->step[axis] = steps > 1 ? step : 1;          /* for a single element the step is not used: it
                                                 ** may be huge */
  k->count[axis] = steps;
}

/* Raises if a C function reads the position after the last: this is ipairs, which stops only at
** nil. */
static void check_ipairs(lua_State *L, int i, int64_t n) {
  lua_Debug ar;
  if (lua_tointeger(L, i) != n + 1 || !lua_getstack(L, 1, &ar) || !lua_getinfo(L, "S",
      &ar) || ar.what[0] != 'C') return;
  fl_lua_fail(L, FL_INDEXING,
      "ipairs can not know where a tensor ends" FL_DO ": use pairs(x), or for i = 1, #x");
}

static void read_tensor(lua_State *L, int i, fl_key *k, int axis) {
  fl_box *x = fl_arg_tensor(L, i, FL_INDEXING, "the index");
  const fl_node *idx = x->t->node;
  char a[192], c[192];
  if (fl_is_float(idx->dtype)) fl_lua_fail(L, FL_INDEXING,
      "an index tensor must hold integers, got %s%s", fl_dtype_name(idx->dtype),
      fl_index_hint(idx->dtype));
  k->items[k->nitem].axis = axis;
  k->items[k->nitem].mask = idx->dtype == FLAME_BOOL;
  k->items[k->nitem++].box = x;
  if (idx->dtype != FLAME_BOOL) return;
  if (idx->shape->rank == 0)
    fl_lua_fail(L, FL_INDEXING, "a 0-d mask has no axis" FL_DO ": use flame.where");
  for (int d = 0; d < idx->shape->rank; d++)
    if (axis + d >= k->rank || idx->shape->size[d] != k->size[axis + d])
      fl_lua_fail(L, FL_INDEXING, "a mask of shape %s does not cover axis %d of %s",
          fl_lua_shape_of(a, idx), axis + d + 1, fl_shape_text(c, k->rank, k->size));
}

static int is_new_axis(lua_State *L, int i) {
  return lua_touserdata(L, i) == &fl_key_newaxis;
}

/* Inserts a new axis before 'axis'. The axes from 'axis' on were not read yet, so all of them have
** the same start and step. */
static void add_axis(lua_State *L, fl_key *k, int axis) {
  if (k->rank == FL_MAX_AXES)
    fl_lua_fail(L, FL_INDEXING, "a new axis makes %d axes, at most %d", k->rank + 1, FL_MAX_AXES);
  for (int a = k->rank++; a > axis; a--) k->size[a] = k->count[a] = k->size[a - 1];
  k->size[axis] = k->count[axis] = 1;
  k->fresh |= 1u << axis;
}

static void no_item(lua_State *L, int i) {
  fl_lua_fail(L, FL_INDEXING,
      "a key is a position, a range {first, last}, an index tensor or a mask, got %s%s",
      fl_arg_found(L, i), lua_isnil(L, i) ? FL_DO "; write flame.newaxis for a new axis" : "");
}

static void too_many(lua_State *L, const fl_key *k) {
  const int own = k->rank - __builtin_popcount(k->fresh);
  fl_lua_fail(L, FL_INDEXING, "too many positions for a tensor with %d %s%s", own,
      own == 1 ? "axis" : "axes", own == 1 ? ": a list of positions is an index tensor" : "");
}

/* Reads the item at stack index i, for 'axis'; returns the next axis. */
static int read_item(lua_State *L, int i, fl_key *k, int axis) {
  const int type = lua_type(L, i);
  if (type == LUA_TLIGHTUSERDATA && is_new_axis(L, i)) {
    add_axis(L, k, axis);
    return axis + 1;
  }
  if (axis >= k->rank) too_many(L, k);
  if (type == LUA_TNUMBER) {
    check_ipairs(L, i, k->size[axis]);
    const int64_t at = fl_arg_int(L, i, FL_INDEXING, "a position");
    k->start[axis] = checked(L, k, at, axis, 1, k->size[axis]) - 1;
    k->count[axis] = 1;
    k->drop |= 1u << axis;
    k->whole = 0;
    return axis + 1;
  }
  if (type == LUA_TTABLE) {
    read_range(L, i, k, axis);
    return axis + 1;
  }
  if (box_at(L, i) == NULL) no_item(L, i);
  const int first = k->nitem;
  read_tensor(L, i, k, axis);
  return axis + (k->items[first].mask ? k->items[first].box->t->node->shape->rank : 1);
}

void fl_key_read_items(lua_State *L, int first, int last, fl_key *k, const fl_layout *l) {
  k->rank = l->rank;
  k->drop = k->fresh = 0;
  k->whole = 1;
  k->nitem = 0;
  memcpy(k->size, l->size, sizeof k->size);
  for (int a = 0; a < FL_MAX_AXES; a++) {
    k->start[a] = 0;
    k->step[a] = 1;
    k->count[a] = a < l->rank ? l->size[a] : 1;
  }
  int axis = 0;
  for (int i = first; i <= last; i++) axis = read_item(L, i, k, axis);
}

/* A list of items must have keys from 1 to n: other keys are names, or items after a nil. */
static void check_list(lua_State *L, int n) {
  lua_pushnil(L);
  while (lua_next(L, 2)) {
    lua_pop(L, 1);
    if (lua_isinteger(L, -1) && lua_tointeger(L, -1) >= 1 && lua_tointeger(L, -1) <= n) continue;
    if (lua_type(L, -1) == LUA_TNUMBER)
      fl_lua_fail(L, FL_INDEXING, "item %s is there and item %d is nil" FL_DO
          "; write {} for a whole axis, flame.newaxis for a new one", lua_tostring(L, -1), n + 1);
    fl_lua_fail(L, FL_INDEXING, "a key is made of positions, not of names");
  }
}

static int new_axes(lua_State *L, int n) {
  int count = 0;
  for (int i = 1; i <= n; i++) {
    if (lua_rawgeti(L, 2, i) == LUA_TNIL) no_item(L, -1);
    count += is_new_axis(L, -1);
    lua_pop(L, 1);
  }
  return count;
}

void fl_key_read(lua_State *L, fl_key *k, const fl_layout *l) {
  if (lua_type(L, 2) != LUA_TTABLE) {
    fl_key_read_items(L, 2, 2, k, l);
    return;
  }
  const int n = (int)lua_rawlen(L, 2), base = lua_gettop(L);
  check_list(L, n);
  if (n > l->rank && n - new_axes(L, n) > l->rank) fl_lua_fail(L, FL_INDEXING,
      "%d positions for a tensor with %d %s (a list of positions is an index tensor)", n,
      l->rank, l->rank == 1 ? "axis" : "axes");
  luaL_checkstack(L, n + 4, "too many positions");
  for (int i = 1; i <= n; i++) lua_rawgeti(L, 2, i);
  /* the items stay on the stack: a finaliser may change the table */
  fl_key_read_items(L, base + 1, base + n, k, l);
}

fl_node *fl_key_widen(const fl_key *k, fl_node *x) {
  for (int a = 0; a < k->rank && x != NULL; a++) if (k->fresh & 1u << a) x = n_unsqueeze(x, a);
  return x;
}
