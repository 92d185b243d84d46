/*
** What a tensor tells about itself: properties, sizes, values; and its conversions.
** Reading values evaluates. Buffers for values are userdata: no error can leak them.
*/
#include "lua/binding.h"
#include <stdio.h>
#include <string.h>

/* The tensor for facts (no entering, nothing recorded); raises when it is closed. */
static const flame_tensor *known(lua_State *L, int i, const char *op) {
  const flame_tensor *t = fl_arg_tensor(L, i, op, "x")->t;
  if (t->node == NULL) fl_lua_fail(L, op, "x is closed");
  return t;
}

static const fl_node *facts(lua_State *L, int i, const char *op) { return known(L, i, op)->node; }

static void push_shape(lua_State *L, const fl_node *n) {
  fl_push_sizes(L, n->shape->rank, n->shape->size);
}

/* x.grad, of the tensor at 1: its one box, or nil. Making a box may run a finaliser that gives x
** another gradient or frees x, so x is asked again then. */
static void push_grad(lua_State *L, fl_lua *b) {
  const fl_box *x = box_at(L, 1);
  if (x->t->grad == NULL) lua_pushnil(L);
  else if (!fl_box_find(L, x->t->grad)) {
    fl_box *made = fl_box_new_in(L, b);
    flame_tensor *grad = x->t != NULL ? x->t->grad : NULL;
    if (grad == NULL) lua_pushnil(L);
    else if (!fl_box_find(L, grad)) fl_box_name(L, b, made, grad);
  }
}

int fl_property_get(lua_State *L, int which) {
  if (which >= FL_PROP_TURNED) return fl_property_turned(L, which == FL_PROP_TURNED);
  const flame_tensor *t = known(L, 1, "x");
  const fl_node *n = t->node;
  char name[16];
  switch (which) {
    case FL_PROP_SHAPE:
      fl_push_sizes_with(L, lua_upvalueindex(FL_UPVALUE_SIZES), n->shape->rank, n->shape->size);
      break;
    case FL_PROP_NDIM: lua_pushinteger(L, n->shape->rank); break;
    case FL_PROP_DTYPE: lua_pushstring(L, fl_dtype_name(n->dtype)); break;
    case FL_PROP_DEVICE:
      fl_device_name(n->device, name);
      lua_pushstring(L, name);
      break;
    case FL_PROP_REQUIRES_GRAD: lua_pushboolean(L, fl_tensor_tracked(t)); break;
    case FL_PROP_IS_CPU: lua_pushboolean(L, n->device == 0); break;
    case FL_PROP_IS_CUDA: lua_pushboolean(L, n->device > 0); break;
    case FL_PROP_IS_LEAF: lua_pushboolean(L, fl_tensor_is_leaf(t)); break;
    default: push_grad(L, self_of(L));
  }
  return 1;
}

static void set_grad(lua_State *L, fl_lua *b) {
  fl_box *x = fl_arg_tensor(L, 1, "grad", "x");
  if (lua_isnil(L, 3)) {
    const int64_t m = fl_lua_enter(L, b);
    flame_zero_grad(x->t);
    fl_scope_end(b->c, m);
    return;
  }
  fl_box *g = fl_arg_tensor(L, 3, "grad", "the gradient");
  char have[192], want[192];
  if (g->t == x->t)
    fl_lua_fail(L, "grad", "a tensor can not be its own gradient" FL_DO ": use clone()");
  if (g->t->node->shape != x->t->node->shape)
    fl_lua_fail(L, "grad", "gradient has shape %s, x has %s", fl_lua_shape_of(have,
        g->t->node), fl_lua_shape_of(want, x->t->node));
  if (g->t->node->dtype != x->t->node->dtype || g->t->node->device != x->t->node->device)
    fl_lua_fail(L, "grad", "gradient is %s, x is %s: dtype and device must agree",
                fl_dtype_name(g->t->node->dtype), fl_dtype_name(x->t->node->dtype));
  fl_box_remember(L, 3);
  fl_box_untrack(b, g);
  /* a finaliser may have freed one */
  if (x->t != NULL && g->t != NULL) fl_tensor_set_grad(x->t, g->t);
}

static int requires_grad_(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_arg_count(L, 2, "requires_grad_");
  fl_box *x = fl_arg_tensor(L, 1, "requires_grad_", "x");
  const int on = lua_isnoneornil(L, 2) ? 1 : lua_toboolean(L, 2);
  const int64_t m = fl_lua_enter(L, b);
  const flame_status e = flame_requires_grad(x->t, on);
  fl_lua_leave_status(L, b, m, e);
  lua_settop(L, 1);
  return 1;
}

int fl_property_set(lua_State *L) {
  const char *key = lua_tostring(L, 2);
  if (strcmp(key, "grad") == 0) {
    set_grad(L, self_of(L));
    return 0;
  }
  if (strcmp(key, "requires_grad") == 0) {
    if (!lua_isboolean(L, 3)) fl_lua_fail(L, "requires_grad",
        "must be true or false, got %s", fl_arg_found(L, 3));
    lua_remove(L, 2);
    requires_grad_(L);
    return 0;
  }
  return -1;
}

/* ---- sizes -------------------------------------------------------------------------------- */
static int v_size(lua_State *L) {
  fl_arg_count(L, 2, "size");
  const fl_node *n = facts(L, 1, "size");
  if (lua_isnoneornil(L, 2)) push_shape(L, n);
  else if (n->shape->rank == 0) fl_lua_fail(L, "size", "a 0-d tensor has no axes");
  else lua_pushinteger(L, n->shape->size[fl_arg_axis(L, 2, n->shape->rank, "size")]);
  return 1;
}

static int v_numel(lua_State *L) {
  fl_arg_count(L, 1, "numel");
  lua_pushinteger(L, facts(L, 1, "numel")->shape->numel);
  return 1;
}

static int v_nbytes(lua_State *L) {
  fl_arg_count(L, 1, "nbytes");
  const fl_node *n = facts(L, 1, "nbytes");
  lua_pushinteger(L, n->shape->numel * fl_dtype_size(n->dtype));
  return 1;
}

static int v_dim(lua_State *L) {
  fl_arg_count(L, 1, "dim");
  lua_pushinteger(L, facts(L, 1, "dim")->shape->rank);
  return 1;
}

static int v_stride(lua_State *L) {
  fl_arg_count(L, 2, "stride");
  const fl_node *n = facts(L, 1, "stride");
  if (!lua_isnoneornil(L, 2)) {
    lua_pushinteger(L, n->layout->stride[fl_arg_axis(L, 2, n->shape->rank, "stride")]);
    return 1;
  }
  fl_push_sizes(L, n->shape->rank, n->layout->stride);
  return 1;
}

static int v_is_contiguous(lua_State *L) {
  fl_arg_count(L, 1, "is_contiguous");
  lua_pushboolean(L, facts(L, 1, "is_contiguous")->layout->contiguous);
  return 1;
}

static int v_is_floating_point(lua_State *L) {
  fl_arg_count(L, 1, "is_floating_point");
  lua_pushboolean(L, fl_is_float(facts(L, 1, "is_floating_point")->dtype));
  return 1;
}

static int v_len(lua_State *L) {
  const fl_node *n = facts(L, 1, "#");
  if (n->shape->rank == 0) return fl_lua_fail(L, "#", "a 0-d tensor has no length");
  lua_pushinteger(L, n->shape->size[0]);
  return 1;
}

/* ---- values ---------------------------------------------------------------------------------- */
/* The bytes of tensor i, row-major, in a userdata that is pushed. Facts in *dtype and *shape. */
static const char *read_values(lua_State *L, fl_lua *b, int i, const char *op, int *dtype,
    fl_sizes *shape) {
  fl_box *x = fl_arg_tensor(L, i, op, "x");
  const fl_node *n = facts(L, i, op);
  const size_t bytes = (size_t)(n->shape->numel * fl_dtype_size(n->dtype));
  *dtype = n->dtype;
  shape->n = n->shape->rank;
  memcpy(shape->at, n->shape->size, sizeof shape->at);
  char *p = (char *)lua_newuserdatauv(L, bytes ? bytes : 1, 0);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *now = node_of(b, x);
  fl_lua_leave_status(L, b, m, now ? fl_read_node(b->c, now, p, bytes) : FLAME_BAD_ARGUMENT);
  return p;
}

static int v_item(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_arg_count(L, 1, "item");
  fl_box *x = fl_arg_tensor(L, 1, "item", "x");
  const fl_node *n = facts(L, 1, "item");
  char text[192], value[16];
  if (n->shape->numel != 1) fl_lua_fail(L, "item", "x has shape %s, need one element",
      fl_lua_shape_of(text, n));
  const int dtype = n->dtype;
  b->tracked_reads += fl_tensor_tracked(x->t);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *now = node_of(b, x);
  fl_lua_leave_status(L, b, m, now ? fl_read_node(b->c, now, value,
      (size_t)fl_dtype_size(dtype)) : FLAME_BAD_ARGUMENT);
  fl_push_scalar(L, dtype, fl_scalar_load(value, dtype));
  return 1;
}

/* Push axis 'a' of the values at *p as a table; p moves on. Depth is at most 8. */
static void push_axis(lua_State *L, const char **p, int dtype, const fl_sizes *s, int a) {
  luaL_checkstack(L, 3, "nested too deep");
  lua_createtable(L, (int)(s->at[a] < 1 << 26 ? s->at[a] : 1 << 26), 0);
  for (int64_t i = 0; i < s->at[a]; i++) {
    if (a + 1 < s->n) {
      push_axis(L, p, dtype, s, a + 1);
    } else {
      fl_push_scalar(L, dtype, fl_scalar_load(*p, dtype));
      *p += fl_dtype_size(dtype);
    }
    lua_rawseti(L, -2, i + 1);
  }
}

static int v_totable(lua_State *L) {
  int dtype;
  fl_sizes s;
  fl_arg_count(L, 1, "totable");
  const char *p = read_values(L, self_of(L), 1, "totable", &dtype, &s);
  if (s.n == 0) fl_push_scalar(L, dtype, fl_scalar_load(p, dtype));
  else push_axis(L, &p, dtype, &s, 0);
  return 1;
}

static int v_bytes(lua_State *L) {
  int dtype;
  fl_sizes s;
  fl_arg_count(L, 1, "bytes");
  const char *p = read_values(L, self_of(L), 1, "bytes", &dtype, &s);
  lua_pushlstring(L, p, (size_t)(fl_numel(s.n, s.at) * fl_dtype_size(dtype)));
  return 1;
}

/* ---- conversions ----------------------------------------------------------------------------- */
static fl_node *converted(fl_lua *b, fl_box *x, int dtype, int device) {
  fl_node *n = node_of(b, x), *y = n;
  if (y != NULL && dtype >= 0) y = n_cast(y, dtype);
  if (y != NULL && device >= 0 && device != y->device) y = fl_to_device(b->c, y, device);
  return y == n && y != NULL ? n_alias(y) : y;
}

static int convert(lua_State *L, int dtype, int device) {
  fl_lua *b = self_of(L);
  fl_box *x = box_at(L, 1), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return fl_lua_leave(L, b, m, out, converted(b, x, dtype, device));
}

/* x:to("f64"), x:to("cuda"), x:to("cuda", "f16"), x:to(y), x:to{dtype =, device =}. */
static int v_to(lua_State *L) {
  fl_arg_tensor(L, 1, "to", "x");
  fl_arg_count(L, 3, "to");
  int dtype = -1, device = -1;
  if (lua_gettop(L) < 2) return fl_lua_fail(L, "to", "a dtype, a device or a tensor is needed");
  for (int i = 2; i <= lua_gettop(L); i++) {
    if (box_at(L, i) != NULL) {
      const fl_node *like = facts(L, i, "to");
      dtype = like->dtype;
      device = like->device;
    } else if (lua_type(L, i) == LUA_TTABLE) {
      fl_make_opts o;
      fl_check_options(L, i, "to", "dtype device");
      fl_arg_make_opts(L, i, "to", &o);
      dtype = o.dtype;
      if (fl_option(L, i, "device") != LUA_TNIL) device = o.device;
      lua_pop(L, 1);
    } else if (fl_dtype_of_name(fl_arg_string(L, i, "to", "dtype or device")) >= 0) {
      dtype = fl_dtype_of_name(lua_tostring(L, i));
    } else {
      const char *name = lua_tostring(L, i);
      if (strncmp(name, "c", 1) != 0)
        return fl_lua_fail(L, "to",
            "\"%s\" is no dtype (f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool) and no device "
                           "(\"cpu\", \"cuda\", \"cuda:1\")", name);
      device = fl_arg_device(L, i, "to");
    }
  }
  return convert(L, dtype, device);
}

#define CONVERSION(name, dtype) \
  static int v_##name(lua_State *L) { \
    fl_arg_count(L, 1, #name); \
    fl_arg_tensor(L, 1, #name, "x"); \
    return convert(L, dtype, -1); \
  }
CONVERSION(float, FLAME_F32)
CONVERSION(half, FLAME_F16)
CONVERSION(bfloat16, FLAME_BF16)
CONVERSION(double, FLAME_F64)
CONVERSION(long, FLAME_I64)
CONVERSION(int, FLAME_I32)
CONVERSION(short, FLAME_I16)
CONVERSION(char, FLAME_I8)
CONVERSION(byte, FLAME_U8)
CONVERSION(bool, FLAME_BOOL)

static int v_cpu(lua_State *L) {
  fl_arg_count(L, 1, "cpu");
  fl_arg_tensor(L, 1, "cpu", "x");
  return convert(L, -1, 0);
}

static int v_cuda(lua_State *L) {
  fl_arg_count(L, 2, "cuda");
  fl_arg_tensor(L, 1, "cuda", "x");
  const int64_t k = fl_arg_int_or(L, 2, "cuda", "ordinal", -1);
  if (k < 0) lua_pushstring(L, "cuda");
  else lua_pushfstring(L, "cuda:%I", (LUAI_UACINT)k);
  return convert(L, -1, fl_arg_device(L, lua_gettop(L), "cuda"));
}

#define ONE_NODE(name, expression) \
  static int v_##name(lua_State *L) { \
    fl_lua *b = self_of(L); \
    fl_arg_count(L, 1, #name); \
    fl_box *x = fl_arg_tensor(L, 1, #name, "x"), *out = fl_box_new(L); \
    const int64_t m = fl_lua_enter(L, b); \
    fl_node *n = node_of(b, x); \
    return fl_lua_leave(L, b, m, out, n ? (expression) : NULL); \
  }
static fl_node *packed(fl_node *n) {
  fl_node *y = n_contiguous(n);
  return y == n ? n_alias(n) : y;
}
ONE_NODE(clone, n_clone(n))
ONE_NODE(detach, n_detach(n))
ONE_NODE(contiguous, packed(n))

static int v_free(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_box *x = box_at(L, 1);
  fl_arg_count(L, 1, "free");
  if (x == NULL) return fl_lua_fail(L, "free", "x must be a tensor, got %s", fl_arg_found(L, 1));
  if (x->t == NULL) return 0;
  const int64_t m = fl_lua_enter(L, b);
  const uint32_t site = b->c->site;
  fl_box_close(b, x, FL_BOX_FREED | site);
  fl_scope_end(b->c, m);
  return 0;
}

static int v_detach_(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_arg_count(L, 1, "detach_");
  fl_box *x = fl_arg_tensor(L, 1, "detach_", "x");
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  flame_status e = n ? FLAME_OK : b->c->err.code;
  if (n != NULL && fl_tracked(n) && fl_tensor_is_leaf(x->t)) {
    e = flame_requires_grad(x->t, 0);
  } else if (n != NULL && fl_tracked(n)) {
    fl_node *y = n_detach(n);
    e = y ? fl_tensor_write(x->t, y, "detach_") : b->c->err.code;
  }
  fl_lua_leave_status(L, b, m, e);
  lua_settop(L, 1);
  return 1;
}

const fl_lua_reg fl_reg_value[] = {
  { "size", v_size, FL_IN_METHODS }, { "numel", v_numel, FL_IN_BOTH }, { "nbytes", v_nbytes,
      FL_IN_METHODS },
  { "dim", v_dim, FL_IN_METHODS }, { "stride", v_stride, FL_IN_METHODS },
  { "is_contiguous", v_is_contiguous, FL_IN_METHODS }, { "contiguous", v_contiguous,
      FL_IN_METHODS },
  { "is_floating_point", v_is_floating_point, FL_IN_BOTH },
  { "item", v_item, FL_IN_METHODS }, { "totable", v_totable, FL_IN_METHODS }, { "bytes",
      v_bytes, FL_IN_METHODS },
  { "clone", v_clone, FL_IN_BOTH }, { "detach", v_detach, FL_IN_BOTH }, { "detach_",
      v_detach_, FL_IN_METHODS },
  { "to", v_to, FL_IN_METHODS }, { "float", v_float, FL_IN_METHODS }, { "half", v_half,
      FL_IN_METHODS },
  { "bfloat16", v_bfloat16, FL_IN_METHODS }, { "double", v_double, FL_IN_METHODS },
  { "long", v_long, FL_IN_METHODS }, { "int", v_int, FL_IN_METHODS }, { "byte", v_byte,
      FL_IN_METHODS },
  { "short", v_short, FL_IN_METHODS }, { "char", v_char, FL_IN_METHODS },
  { "bool", v_bool, FL_IN_METHODS }, { "cpu", v_cpu, FL_IN_METHODS }, { "cuda", v_cuda,
      FL_IN_METHODS },
  { "free", v_free, FL_IN_METHODS }, { "requires_grad_", requires_grad_, FL_IN_METHODS },
  { "__len", v_len, 0 }, { NULL, NULL, 0 }
};
