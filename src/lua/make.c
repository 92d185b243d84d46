/*
** Constructors: nested tables, fills, ranges, random numbers, bytes.
** A nested table is measured first (every error names its position), then read into a
** userdata buffer in the tensor's dtype, then copied by the core.
*/
#include "lua/binding.h"
#include <math.h>
#include <stdio.h>

static int finish(lua_State *L, fl_lua *b, int64_t mark, fl_box *out, fl_node *n,
    const fl_make_opts *o) {
  out->t = fl_tensor_new(b->c, n);
  flame_status e = out->t ? FLAME_OK : b->c->err.code;
  if (out->t != NULL && o->requires_grad) e = flame_requires_grad(out->t, 1);
  fl_scope_end(b->c, mark);
  return out->t != NULL && e == FLAME_OK ? 1 : fl_lua_raise(L, b);
}

/* ---- nested tables ---------------------------------------------------------------------- */
/* leaf: Lua type of elements; at: position being read; out: where the next goes; read: count. */
typedef struct nest {
  fl_sizes shape; int leaf; int64_t at[FL_MAX_AXES]; int dtype; char *out; int64_t read;
} nest;

/* "position (2, 3)" of the current element, at 'depth' axes. */
static const char *place(lua_State *L, const nest *s, int depth) {
  char text[192];
  if (depth == 0) return "the top";
  return lua_pushfstring(L, "position %s", fl_shape_text(text, depth, s->at));
}

/* Determines rank and sizes of the value on top of the stack by its first elements. */
static void measure(lua_State *L, nest *s) {
  const int top = lua_gettop(L);
  lua_pushvalue(L, -1);
  while (lua_type(L, -1) == LUA_TTABLE) {
    if (s->shape.n == FL_MAX_AXES) fl_lua_fail(L, "tensor", "nested deeper than %d axes",
        FL_MAX_AXES);
    s->shape.at[s->shape.n++] = (int64_t)lua_rawlen(L, -1);
    if (lua_rawlen(L, -1) == 0) break;
    s->at[s->shape.n - 1] = 1;
    luaL_checkstack(L, 2, "nested too deep");
    lua_rawgeti(L, -1, 1);
  }
  const int leaf = lua_gettop(L);
  s->leaf = lua_type(L, leaf);
  if (s->leaf == LUA_TTABLE) s->leaf = LUA_TNUMBER;         /* an empty table */
  if (s->leaf != LUA_TNUMBER && s->leaf != LUA_TBOOLEAN)
    fl_lua_fail(L, "tensor", "%s at %s, need numbers or booleans%s", fl_arg_found(L, leaf),
        place(L, s, s->shape.n), box_at(L, leaf) ? FL_DO ": use flame.stack(list)" : "");
  lua_settop(L, top);
}

/* Lua's hook does not run in here, so this checks for an interrupt. */
static void poll_interrupt(lua_State *L) {
  fl_lua *b = self_of(L);
  if (!b->c || !fl_take_interrupt(b->c)) return;
  fl_interrupted(b->c, "tensor");
  fl_lua_raise(L, b);
}

/* A table with other keys than 1 … n is not a list. */
static void check_list(lua_State *L, const nest *s, int depth, int64_t n) {
  int64_t keys = 0;
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) != LUA_TNUMBER) {
      const char *key = luaL_tolstring(L, -1, NULL);
      fl_lua_fail(L, "tensor", "table at %s has the key '%s'" FL_DO ": options come second",
                  place(L,
          s, depth), key);
    }
    if ((++keys & 0xffff) == 0) poll_interrupt(L);
  }
  if (keys != n) fl_lua_fail(L, "tensor", "table at %s has holes", place(L, s, depth));
}

/* Elements are read without metatables: a table that gets its elements only from a metatable is not
** an empty list. */
static void refuse_proxy(lua_State *L, const nest *s, int depth) {
  if (luaL_getmetafield(L, -1, "__len") == LUA_TNIL) return;
  lua_pop(L, 1);
  lua_len(L, -1);
  if (!lua_isinteger(L, -1) || lua_tointeger(L, -1) != 0)
    fl_lua_fail(L, "tensor", "the elements at %s come from a metatable" FL_DO
        "; put them into a plain table", place(L, s, depth));
  lua_pop(L, 1);
}

static void read_leaf(lua_State *L, nest *s) {
  fl_scalar v;
  char why[96];
  const int depth = s->shape.n;
  if ((++s->read & 0xffff) == 0) poll_interrupt(L);
  if (lua_type(L, -1) == LUA_TTABLE)
    fl_lua_fail(L, "tensor", "ragged: a table at %s, a number is expected", place(L, s, depth));
  const char *kind = luaL_typename(L, -1);
  if (lua_type(L, -1) != s->leaf)
    fl_lua_fail(L, "tensor", "%s at %s among %s", kind, place(L, s, depth),
                s->leaf == LUA_TNUMBER ? "numbers" : "booleans");
  if (!fl_number_fits(L, -1, s->dtype, &v, why)) fl_lua_fail(L, "tensor", "%s, at %s", why,
      place(L, s, depth));
  fl_scalar_store(s->out, s->dtype, v);
  s->out += fl_dtype_size(s->dtype);
}

/* Reads the elements of the value on top of the stack, at 'depth' axes. Depth is at most 8. */
static void read_nested(lua_State *L, nest *s, int depth) {
  if (depth == s->shape.n) {
    read_leaf(L, s);
    return;
  }
  const int64_t n = s->shape.at[depth];
  const char *kind = luaL_typename(L, -1);
  if (lua_type(L, -1) != LUA_TTABLE)
    fl_lua_fail(L, "tensor", "ragged: %s at %s, a table is expected", kind, place(L, s, depth));
  const int64_t have = (int64_t)lua_rawlen(L, -1);
  if (have == 0) refuse_proxy(L, s, depth);
  if (have != n)
    fl_lua_fail(L, "tensor", "ragged: %lld elements at %s, need %lld", (long long)have,
        place(L, s, depth), (long long)n);
  check_list(L, s, depth, n);
  luaL_checkstack(L, 4, "nested too deep");
  for (int64_t i = 1; i <= n; i++) {
    s->at[depth] = i;
    lua_rawgeti(L, -1, i);
    read_nested(L, s, depth + 1);
    lua_pop(L, 1);
  }
}

static fl_node *from_host(fl_lua *b, int dtype, int device, const fl_sizes *s, const void *data) {
  return fl_node_from_host(b->c, device, dtype, s->n, s->at, data);
}

static int make_tensor(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_make_opts o;
  nest s = { { 0, { 0 } }, 0, { 0 }, 0, NULL, 0 };
  fl_args(L);
  fl_arg_make_opts(L, 2, "tensor", &o);
  if (box_at(L, 1) != NULL)
    return fl_lua_fail(L, "tensor", "got a tensor" FL_DO ": use clone() or to()");
  if (lua_type(L, 1) != LUA_TTABLE && lua_type(L, 1) != LUA_TNUMBER && lua_type(L,
      1) != LUA_TBOOLEAN)
    return fl_lua_fail(L, "tensor", "need a number, a boolean or a nested table, got %s",
        fl_arg_found(L, 1));
  lua_settop(L, 1);
  measure(L, &s);
  if (fl_numel(s.shape.n, s.shape.at) < 0) return fl_lua_fail(L, "tensor", "too many elements");
  s.dtype = o.dtype >= 0 ? o.dtype : s.leaf == LUA_TBOOLEAN ? FLAME_BOOL : b->floats;
  char *data = (char *)lua_newuserdatauv(L, (size_t)(fl_numel(s.shape.n,
      s.shape.at) * fl_dtype_size(s.dtype)) + 1, 0);
  s.out = data;
  lua_pushvalue(L, 1);
  read_nested(L, &s, 0);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return finish(L, b, m, out, from_host(b, s.dtype, o.device, &s.shape, data), &o);
}

static int make_from_bytes(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_make_opts o;
  fl_sizes s;
  size_t n = 0;
  fl_args(L);
  const char *data = lua_tolstring(L, 1, &n);
  fl_arg_sizes(L, 2, 2, "from_bytes", 0, &s);
  fl_arg_make_opts(L, 3, "from_bytes", &o);
  const int dtype = o.dtype;
  const int64_t need = fl_numel(s.n, s.at) * fl_dtype_size(dtype);
  if ((int64_t)n != need)
    fl_lua_fail(L, "from_bytes", "%lld bytes given, shape and dtype need %lld",
        (long long)n, (long long)need);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return finish(L, b, m, out, from_host(b, dtype, o.device, &s, data), &o);
}

/* ---- fills ----------------------------------------------------------------------------------- */
static int fill(lua_State *L, const char *op, double value) {
  fl_lua *b = self_of(L);
  fl_make_opts o;
  fl_sizes s;
  if (fl_plain(L, 0, lua_gettop(L))) {                   /* sizes alone */
    lua_settop(L, lua_gettop(L) + 3);
    lua_rotate(L, 1, 3);
  } else {
    fl_args(L);
  }
  fl_arg_make_opts(L, 1, op, &o);
  fl_arg_sizes(L, 4, lua_gettop(L), op, 0, &s);
  if (o.dtype < 0) o.dtype = b->floats;
  fl_scalar v;
  if (fl_is_float(o.dtype)) v.d = value;
  else v.i = (int64_t)value;
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return finish(L, b, m, out, n_fill(b->c, o.dtype, o.device, s.n, s.at, v), &o);
}
static int make_zeros(lua_State *L) { return fill(L, "zeros", 0); }
static int make_ones(lua_State *L) { return fill(L, "ones", 1); }
static int make_empty(lua_State *L) { return fill(L, "empty", 0); }

/* The number (or boolean) at i as a scalar for dtype; raises if it does not fit. */
static fl_scalar number_in(lua_State *L, int i, int dtype, const char *op) {
  fl_scalar v;
  char why[96];
  if (lua_type(L, i) != LUA_TNUMBER && lua_type(L, i) != LUA_TBOOLEAN)
    fl_lua_fail(L, op, "value must be a number, got %s", fl_arg_no_number(L, i));
  if (!fl_number_fits(L, i, dtype, &v, why)) fl_lua_fail(L, op, "%s", why);
  return v;
}

static int make_full(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_make_opts o;
  fl_sizes s;
  fl_args(L);
  fl_arg_sizes(L, 1, 1, "full", 0, &s);
  fl_arg_make_opts(L, 3, "full", &o);
  if (o.dtype < 0) o.dtype = lua_type(L, 2) == LUA_TBOOLEAN ? FLAME_BOOL : b->floats;
  const fl_scalar v = number_in(L, 2, o.dtype, "full");
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return finish(L, b, m, out, n_fill(b->c, o.dtype, o.device, s.n, s.at, v), &o);
}

/* Reads the options of a _like function, from 'first' on; dtype and device are x's by default. */
static fl_box *like(lua_State *L, const char *op, int first, fl_make_opts *o) {
  fl_box *x = box_at(L, 1);
  fl_arg_make_opts(L, first, op, o);
  if (o->dtype < 0) o->dtype = x->t->node->dtype;
  if (lua_isnil(L, first + 1)) o->device = x->t->node->device;
  return x;
}

static int fill_like(lua_State *L, const char *op, int value) {  /* 0, 1; -1: argument 2 */
  fl_lua *b = self_of(L);
  fl_make_opts o;
  fl_scalar v;
  const int full = value < 0;
  fl_args(L);
  fl_box *x = like(L, op, full ? 3 : 2, &o);
  if (full) v = number_in(L, 2, o.dtype, op);
  else if (fl_is_float(o.dtype)) v.d = value;
  else v.i = value;
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  return finish(L, b, m, out, n ? n_fill(b->c, o.dtype, o.device, n->shape->rank,
      n->shape->size, v) : NULL, &o);
}
static int make_zeros_like(lua_State *L) { return fill_like(L, "zeros_like", 0); }
static int make_ones_like(lua_State *L) { return fill_like(L, "ones_like", 1); }
static int make_empty_like(lua_State *L) { return fill_like(L, "empty_like", 0); }
static int make_full_like(lua_State *L) { return fill_like(L, "full_like", -1); }

static int make_eye(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_make_opts o;
  fl_args(L);
  const int64_t size[2] = { lua_tointeger(L, 1), lua_tointeger(L, 2) };
  if (size[0] < 0 || size[1] < 0) fl_lua_fail(L, "eye", "sizes can not be negative");
  fl_arg_make_opts(L, 3, "eye", &o);
  if (o.dtype < 0) o.dtype = b->floats;
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  const fl_scalar zero = { .i = 0 }, one = { .i = 1 };
  const int64_t rows[2] = { size[0], 1 }, columns[1] = { size[1] };
  fl_node *r = n_reshape(n_iota(b->c, FLAME_I64, o.device, 1, rows, zero, one), 2, rows);
  fl_node *c = n_iota(b->c, FLAME_I64, o.device, 1, columns, zero, one);
  fl_node *same = r && c ? n_eq(r, c) : NULL;
  return finish(L, b, m, out, same ? n_cast(same, o.dtype) : NULL, &o);
}

/* ---- ranges ---------------------------------------------------------------------------------- */
/* A range first, first + step, …, last. In an exact range (of integers) the .i of each number is
** its value; otherwise the .d. */
typedef struct range { int exact; fl_operand_arg first, last, step; } range;

/* The number at i; the range is not exact if it is a float. */
static fl_operand_arg range_number(lua_State *L, range *r, int i) {
  fl_operand_arg v = { NULL, lua_isinteger(L, i), 0, lua_tonumber(L, i) };
  v.i = v.isint ? lua_tointeger(L, i) : 0;
  r->exact &= v.isint;
  return v;
}

/* The number of values; 'last' becomes the last of them. The distance of two int64_t fits
** uint64_t. */
static int64_t range_count(lua_State *L, range *r) {
  double steps = floor((r->last.d - r->first.d) / r->step.d);
  if (r->exact) {
    const int up = r->step.i > 0;
    const uint64_t first = (uint64_t)r->first.i, last = (uint64_t)r->last.i,
                   step = (uint64_t)r->step.i;
    if (up ? r->last.i < r->first.i : r->last.i > r->first.i) return 0;
    const uint64_t whole = up ? (last - first) / step : (first - last) / (0 - step);
    r->last.i = (int64_t)(first + whole * step);
    steps = (double)whole;
  }
  if (steps < 0) return 0;
  if (steps >= 1e15) fl_lua_fail(L, "arange", "%.14g elements are too many", steps + 1);
  r->last.d = r->first.d + steps * r->step.d;
  return (int64_t)steps + 1;
}

/* v, a number of a range, as an integer of that dtype; raises when it is not one. */
static fl_scalar whole_number(lua_State *L, const range *r, const fl_operand_arg *v, int dtype) {
  fl_operand_arg a = *v;
  fl_scalar s;
  a.isint = r->exact;
  if (!r->exact && v->d != floor(v->d))
    fl_lua_fail(L, "arange", "%s needs whole numbers", fl_dtype_name(dtype));
  if (fl_value_fits(&a, dtype, &s)) return s;
  if (a.isint)
    fl_lua_fail(L, "arange", "%lld is not in the range of %s", (long long)a.i,
                fl_dtype_name(dtype));
  fl_lua_fail(L, "arange", "%.14g is not in the range of %s", a.d, fl_dtype_name(dtype));
}

static int make_arange(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_make_opts o;
  range r = { .exact = 1 };
  fl_scalar first, step;
  if (fl_args(L) == 0) {                      /* (n) is (1, n, 1) */
    lua_pushinteger(L, 1);
    lua_insert(L, 1);
    lua_pushinteger(L, 1);
    lua_insert(L, 3);
  }
  r.first = range_number(L, &r, 1);
  r.last = range_number(L, &r, 2);
  r.step = range_number(L, &r, 3);
  if (r.step.d == 0 || !isfinite(r.first.d) || !isfinite(r.last.d) || !isfinite(r.step.d))
    fl_lua_fail(L, "arange", "first, last and step must be finite, step not 0");
  fl_arg_make_opts(L, 4, "arange", &o);
  if (o.dtype < 0) o.dtype = r.exact ? FLAME_I64 : b->floats;
  if (o.dtype == FLAME_BOOL) fl_lua_fail(L, "arange", "dtype bool has no ranges");
  const int64_t n = range_count(L, &r);
  if (fl_is_float(o.dtype)) {
    first.d = r.first.d;
    step.d = r.step.d;
  } else {
    first = whole_number(L, &r, &r.first, o.dtype);
    step = whole_number(L, &r, &r.step, FLAME_I64);
    if (n > 0) whole_number(L, &r, &r.last, o.dtype);
  }
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return finish(L, b, m, out, n_iota(b->c, o.dtype, o.device, 1, &n, first, step), &o);
}

/* n values from a to z in f64, counted from the nearer end, so that both ends are exact. */
static fl_node *line(flame_context *c, int device, double a, double z, int64_t n) {
  const double step = n > 1 ? (z - a) / (double)(n - 1) : 0;
  fl_node *up = n_iota(c, FLAME_F64, device, 1, &n, (fl_scalar){ .d = a },
                       (fl_scalar){ .d = step });
  if (n < 2) return up;
  fl_node *down = n_iota(c, FLAME_F64, device, 1, &n, (fl_scalar){ .d = z },
                         (fl_scalar){ .d = -step });
  fl_node *i = n_iota(c, FLAME_I64, device, 1, &n, (fl_scalar){ .i = 0 }, (fl_scalar){ .i = 1 });
  down = down ? n_slice(down, 0, n - 1, n, -1) : NULL;
  fl_node *near_a = up && down && i ? n_lt(i, n_int(c, n / 2)) : NULL;
  return near_a ? n_where(near_a, up, down) : NULL;
}

static int make_linspace(lua_State *L) {
  fl_args(L);
  const double a = lua_tonumber(L, 1), z = lua_tonumber(L, 2);
  const int64_t n = lua_tointeger(L, 3);
  fl_lua *b = self_of(L);
  fl_make_opts o;
  if (n < 0) fl_lua_fail(L, "linspace", "n = %lld is negative", (long long)n);
  fl_arg_make_opts(L, 4, "linspace", &o);
  if (o.dtype < 0) o.dtype = b->floats;
  if (o.dtype == FLAME_BOOL) fl_lua_fail(L, "linspace", "dtype bool has no ranges");
  const int whole = !fl_is_float(o.dtype);                  /* then the ends are truncated too */
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *y = line(b->c, o.device, whole ? trunc(a) : a, whole ? trunc(z) : z, n);
  if (y == NULL) fl_error_own(&b->c->err, "linspace");
  return finish(L, b, m, out, y ? n_cast(y, o.dtype) : NULL, &o);
}

/* ---- random numbers -------------------------------------------------------------------------- */
static int random(lua_State *L, const char *name, int op, const fl_sizes *s, double x,
    double y, fl_make_opts *o) {
  fl_lua *b = self_of(L);
  if (o->dtype < 0) o->dtype = b->floats;
  if (!fl_is_float(o->dtype)) fl_lua_fail(L, name,
      "dtype must be a float, got %s", fl_dtype_name(o->dtype));
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return finish(L, b, m, out, n_random(b->c, op, o->dtype, o->device, s->n, s->at, x, y), o);
}

static int random_sizes(lua_State *L, const char *name, int op, double x, double y) {
  fl_make_opts o;
  fl_sizes s;
  fl_args(L);
  fl_arg_make_opts(L, 1, name, &o);
  fl_arg_sizes(L, 4, lua_gettop(L), name, 0, &s);
  return random(L, name, op, &s, x, y, &o);
}
static int make_rand(lua_State *L) { return random_sizes(L, "rand", FL_OP_uniform, 0, 1); }
static int make_randn(lua_State *L) { return random_sizes(L, "randn", FL_OP_normal, 0, 1); }

/* (shape, a, b, options); shape is a table or one number. */
static int random_shape(lua_State *L, const char *name, int op) {
  fl_make_opts o;
  fl_sizes s;
  fl_arg_sizes(L, 1, 1, name, 0, &s);
  fl_arg_make_opts(L, 4, name, &o);
  return random(L, name, op, &s, lua_tonumber(L, 2), lua_tonumber(L, 3), &o);
}
static int make_uniform(lua_State *L) {
  fl_args(L);
  return random_shape(L, "uniform", FL_OP_uniform);
}
/* The form (mean, std, shape) becomes (shape, mean, std); those with tensors are written in Lua. */
static int make_normal(lua_State *L) {
  const int form = fl_args(L);
  if (form > 1) return fl_core_call(L, "normal");
  if (form == 1) {
    lua_pushvalue(L, 3);
    lua_insert(L, 1);
    lua_remove(L, 4);
  }
  return random_shape(L, "normal", FL_OP_normal);
}

/* Integers from argument 2 to 3; for a float dtype they are cast. */
static int integers(lua_State *L, const char *name, const fl_sizes *s, fl_make_opts *o) {
  fl_lua *b = self_of(L);
  const int64_t low = lua_tointeger(L, 2), high = lua_tointeger(L, 3);
  if (low > high) fl_lua_fail(L, name, "low = %lld is above high = %lld", (long long)low,
      (long long)high);
  if (o->dtype < 0) o->dtype = FLAME_I64;
  const int dtype = fl_is_float(o->dtype) ? FLAME_I64 : o->dtype;
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = n_randint(b->c, dtype, o->device, s->n, s->at, low, high);
  return finish(L, b, m, out, n ? n_cast(n, o->dtype) : NULL, o);
}

static int make_randint(lua_State *L) {
  fl_make_opts o;
  fl_sizes s;
  for (int i = 2; i <= 3 && lua_type(L, 1) == LUA_TNUMBER; i++) {
    if (lua_type(L, i) == LUA_TTABLE && !fl_is_options(L, i)) fl_lua_fail(L, "randint",
        "the shape comes first" FL_DO ": randint(shape, low, high), high among the numbers");
  }
  fl_args(L);
  fl_arg_sizes(L, 1, 1, "randint", 0, &s);
  fl_arg_make_opts(L, 4, "randint", &o);
  return integers(L, "randint", &s, &o);
}

static int make_randint_like(lua_State *L) {
  fl_make_opts o;
  fl_sizes s;
  fl_args(L);
  const fl_box *x = like(L, "randint_like", 4, &o);
  s.n = x->t->node->shape->rank;
  memcpy(s.at, x->t->node->shape->size, sizeof s.at);
  return integers(L, "randint_like", &s, &o);
}

static int random_like(lua_State *L, const char *name, int op) {
  fl_make_opts o;
  fl_sizes s;
  fl_args(L);
  fl_box *x = like(L, name, 2, &o);
  s.n = x->t->node->shape->rank;
  memcpy(s.at, x->t->node->shape->size, sizeof s.at);
  return random(L, name, op, &s, 0, 1, &o);
}
static int make_rand_like(lua_State *L) { return random_like(L, "rand_like", FL_OP_uniform); }
static int make_randn_like(lua_State *L) { return random_like(L, "randn_like", FL_OP_normal); }

/* x:uniform_(a, b), x:normal_(mean, deviation). */
static int refill(lua_State *L, const char *name, int op) {
  fl_lua *b = self_of(L);
  fl_args(L);
  fl_box *x = box_at(L, 1);
  const double p = lua_tonumber(L, 2), q = lua_tonumber(L, 3);
  if (!fl_is_float(x->t->node->dtype)) fl_lua_fail(L, name,
      "x must be a float tensor, got %s", fl_dtype_name(x->t->node->dtype));
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  fl_node *v = n ? n_random(b->c, op, n->dtype, n->device, n->shape->rank, n->shape->size,
      p, q) : NULL;
  fl_lua_leave_status(L, b, m, v ? fl_tensor_write(x->t, v, name) : b->c->err.code);
  lua_settop(L, 1);
  return 1;
}
static int make_uniform_(lua_State *L) { return refill(L, "uniform_", FL_OP_uniform); }
static int make_normal_(lua_State *L) { return refill(L, "normal_", FL_OP_normal); }

/* default_dtype([dtype]): the dtype of tensors that are made from numbers, or at random, if no
** dtype is given. */
static int make_default_dtype(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_args(L);
  if (!lua_isnil(L, 1)) {
    const int dtype = fl_arg_dtype(L, 1, "default_dtype");
    if (!fl_is_float(dtype))
      fl_lua_fail(L, "default_dtype", "dtype must be a float, got %s", fl_dtype_name(dtype));
    b->floats = (uint8_t)dtype;
  }
  lua_pushstring(L, fl_dtype_name(b->floats));
  return 1;
}

const fl_lua_reg fl_reg_make[] = {
  { ".default_dtype(dtype?: dtype) -> dtype\n"
    "--- the dtype of new float tensors that name none, \"f32\" at first, or sets it",
    make_default_dtype, 0 },
  { ".tensor(values: any, *factory) -> T\n"
    "--- a tensor of a number, a boolean or nested tables",
    make_tensor, 0 },
  { ".from_bytes(bytes: str, shape: int|int[], dtype: dtype, *, device?: device, "
    "requires_grad?: bool) -> T\n"
    "--- a tensor of the elements in a string, row-major, as x:bytes() gives them",
    make_from_bytes, 0 },
  { ".zeros(shape...: int, *factory) -> T\n"
    "--- zeros of this shape",
    make_zeros, 0 },
  { ".ones(shape...: int, *factory) -> T\n"
    "--- ones of this shape",
    make_ones, 0 },
  { ".empty(shape...: int, *factory) -> T\n"
    "--- zeros too: memory is never left with old values",
    make_empty, 0 },
  { ".full(shape: int|int[], value: num|bool, *factory) -> T\n"
    "--- every element the value",
    make_full, 0 },
  { ".eye(n: int, m: int = n, *factory) -> T\n"
    "--- ones on the diagonal, n rows and m columns",
    make_eye, 0 },
  { ".arange(n: num, *factory) -> T\n"
    ".arange(first: num, last: num, step: num = 1, *factory) -> T\n"
    "--- first, first + step, … up to last; arange(n) is 1 to n; i64 of integers, default_dtype() "
    "where one is a float",
    make_arange, 0 },
  { ".linspace(first: num, last: num, n: int, *factory) -> T\n"
    "--- n values from first to last, equally apart",
    make_linspace, 0 },
  { "zeros_like(x: T, *factory) -> T\n"
    "--- zeros of x's shape, dtype and device",
    make_zeros_like, 0 },
  { "ones_like(x: T, *factory) -> T\n"
    "--- ones of x's shape, dtype and device",
    make_ones_like, 0 },
  { "empty_like(x: T, *factory) -> T\n"
    "--- zeros of x's shape, dtype and device",
    make_empty_like, 0 },
  { "full_like(x: T, value: num|bool, *factory) -> T\n"
    "--- every element the value, in x's shape, dtype and device",
    make_full_like, 0 },
  { ".rand(shape...: int, *factory) -> T\n"
    "--- uniform numbers in [0, 1) of this shape",
    make_rand, 0 },
  { ".randn(shape...: int, *factory) -> T\n"
    "--- standard normal numbers of this shape",
    make_randn, 0 },
  { ".uniform(shape: int|int[], low: num = 0, high: num = 1, *factory) -> T\n"
    "--- uniform numbers in [low, high)",
    make_uniform, 0 },
  { ".normal(shape: int|int[], mean = 0, std = 1, *factory) -> T\n"
    ".normal(mean: num, std: num, shape: int[], *factory) -> T\n"
    ".normal(mean: T, std: T|num = 1, *, dtype?: dtype, device?: device) -> T\n"
    ".normal(mean: num, std: T, *, dtype?: dtype, device?: device) -> T\n"
    "--- normal numbers; where mean or std is a tensor, one for each of its elements",
    make_normal, 0 },
  { ".randint(shape: int|int[], low: int, high: int, *factory) -> T\n"
    "--- integers from low to high, high included",
    make_randint, 0 },
  { "rand_like(x: T, *factory) -> T\n"
    "--- uniform numbers in [0, 1) of x's shape, dtype and device",
    make_rand_like, 0 },
  { "randn_like(x: T, *factory) -> T\n"
    "--- standard normal numbers of x's shape, dtype and device",
    make_randn_like, 0 },
  { "randint_like(x: T, low: int, high: int, *factory) -> T\n"
    "--- random integers from low to high, high included, of x's shape, dtype and device",
    make_randint_like, 0 },
  { ":uniform_(x: T, low = 0, high = 1) -> T\n"
    "--- x becomes uniform numbers in [low, high)",
    make_uniform_, 0 },
  { ":normal_(x: T, mean = 0, std = 1) -> T\n"
    "--- x becomes normal numbers",
    make_normal_, 0 },
  { NULL, NULL, 0 }
};
