/*
** Facts about a tensor: properties, sizes, values; and its conversions. Reading values evaluates.
** Buffers for values are userdata: no error can leak them.
*/
#include "lua/binding.h"
#include <stdio.h>
#include <string.h>

/* The tensor at i, for reading facts (nothing is entered or recorded); raises if it is closed. */
static const flame_tensor *known(lua_State *L, int i, const char *op) {
  const flame_tensor *t = fl_arg_tensor(L, i, op, "x")->t;
  if (t->node == NULL) fl_lua_fail(L, op, "x is closed");
  return t;
}

static const fl_node *facts(lua_State *L, int i, const char *op) { return known(L, i, op)->node; }

static void push_shape(lua_State *L, const fl_node *n) {
  fl_push_sizes(L, n->shape->rank, n->shape->size);
}

/* Pushes x.grad, for the tensor at 1: its one box, or nil. Making a box may run a finaliser that
** gives x another gradient or frees x, so x is read again after that. */
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
  /* a finaliser may have freed x or g */
  if (x->t != NULL && g->t != NULL) fl_tensor_set_grad(x->t, g->t);
}

static int set_requires_grad(lua_State *L, int on) {
  fl_lua *b = self_of(L);
  fl_box *x = fl_arg_tensor(L, 1, "requires_grad_", "x");
  const int64_t m = fl_lua_enter(L, b);
  const flame_status e = flame_requires_grad(x->t, on);
  fl_lua_leave_status(L, b, m, e);
  lua_settop(L, 1);
  return 1;
}
static int requires_grad_(lua_State *L) {
  fl_args(L);
  return set_requires_grad(L, lua_toboolean(L, 2));
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
    set_requires_grad(L, lua_toboolean(L, 3));
    return 0;
  }
  return -1;
}

/* ---- sizes -------------------------------------------------------------------------------- */
static int v_size(lua_State *L) {
  if (!fl_plain(L, 1, 0) && !fl_plain(L, 1, 1)) fl_args(L);
  const fl_node *n = facts(L, 1, "size");
  if (lua_isnoneornil(L, 2)) push_shape(L, n);
  else if (n->shape->rank == 0) fl_lua_fail(L, "size", "a 0-d tensor has no axes");
  else lua_pushinteger(L, n->shape->size[fl_arg_axis(L, 2, n->shape->rank, "size")]);
  return 1;
}

static int v_numel(lua_State *L) {
  if (!fl_plain(L, 1, 0)) fl_args(L);
  lua_pushinteger(L, facts(L, 1, "numel")->shape->numel);
  return 1;
}

static int v_nbytes(lua_State *L) {
  if (!fl_plain(L, 1, 0)) fl_args(L);
  const fl_node *n = facts(L, 1, "nbytes");
  lua_pushinteger(L, n->shape->numel * fl_dtype_size(n->dtype));
  return 1;
}

static int v_dim(lua_State *L) {
  if (!fl_plain(L, 1, 0)) fl_args(L);
  lua_pushinteger(L, facts(L, 1, "dim")->shape->rank);
  return 1;
}

static int v_stride(lua_State *L) {
  if (!fl_plain(L, 1, 0) && !fl_plain(L, 1, 1)) fl_args(L);
  const fl_node *n = facts(L, 1, "stride");
  if (!lua_isnoneornil(L, 2)) {
    lua_pushinteger(L, n->layout->stride[fl_arg_axis(L, 2, n->shape->rank, "stride")]);
    return 1;
  }
  fl_push_sizes(L, n->shape->rank, n->layout->stride);
  return 1;
}

static int v_is_contiguous(lua_State *L) {
  if (!fl_plain(L, 1, 0)) fl_args(L);
  lua_pushboolean(L, facts(L, 1, "is_contiguous")->layout->contiguous);
  return 1;
}

static int v_is_floating_point(lua_State *L) {
  if (!fl_plain(L, 1, 0)) fl_args(L);
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
/* The bytes of tensor i, row-major, in a userdata that is pushed; its facts in *dtype and
** *shape. */
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
  if (!fl_plain(L, 1, 0)) fl_args(L);
  fl_box *x = box_at(L, 1);
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

/* Pushes axis 'a' of the values at *p as a table; p moves on. Depth is at most 8. */
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
  fl_args(L);
  const char *p = read_values(L, self_of(L), 1, "totable", &dtype, &s);
  if (s.n == 0) fl_push_scalar(L, dtype, fl_scalar_load(p, dtype));
  else push_axis(L, &p, dtype, &s, 0);
  return 1;
}

static int v_bytes(lua_State *L) {
  int dtype;
  fl_sizes s;
  fl_args(L);
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

/* Reads the target given by the value at i: a tensor, or the name of a dtype or of a device. */
static void read_target(lua_State *L, int i, int *dtype, int *device) {
  if (lua_isnil(L, i)) return;
  if (box_at(L, i) != NULL) {
    const fl_node *like = facts(L, i, "to");
    *dtype = like->dtype;
    *device = like->device;
  } else if (fl_dtype_of_name(lua_tostring(L, i)) >= 0) {
    *dtype = fl_dtype_of_name(lua_tostring(L, i));
  } else {
    *device = fl_arg_device(L, i, "to");
  }
}

static int v_to(lua_State *L) {
  int dtype = -1, device = -1, none = 1;
  if (lua_gettop(L) == 2 && lua_type(L, 2) == LUA_TSTRING && box_at(L, 1) && box_at(L, 1)->t) {
    dtype = fl_dtype_of_name(lua_tostring(L, 2));
    if (dtype >= 0) return convert(L, dtype, -1);
  }
  fl_args(L);
  for (int i = 2; i <= 5; i++) {
    none &= lua_isnil(L, i);
    read_target(L, i, &dtype, &device);
  }
  if (none) return fl_lua_fail(L, "to", "a dtype, a device or a tensor is needed");
  return convert(L, dtype, device);
}

#define CONVERSION(name, dtype) \
  static int v_##name(lua_State *L) { \
    if (!fl_plain(L, 1, 0)) fl_args(L); \
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
  fl_args(L);
  return convert(L, -1, 0);
}

static int v_cuda(lua_State *L) {
  fl_args(L);
  const int64_t k = lua_isnil(L, 2) ? -1 : lua_tointeger(L, 2);
  if (k < 0) lua_pushstring(L, "cuda");
  else lua_pushfstring(L, "cuda:%I", (LUAI_UACINT)k);
  return convert(L, -1, fl_arg_device(L, lua_gettop(L), "cuda"));
}

#define ONE_NODE(name, expression) \
  static int v_##name(lua_State *L) { \
    fl_lua *b = self_of(L); \
    if (!fl_plain(L, 1, 0)) fl_args(L); \
    fl_box *x = box_at(L, 1), *out = fl_box_new(L); \
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
  fl_args(L);
  fl_box *x = box_at(L, 1);
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
  fl_args(L);
  fl_box *x = box_at(L, 1);
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
  { ":size(x: T, dim?: axis) -> int|int[]\n"
    "--- size of an axis, or all sizes",
    v_size, 0 },
  { "numel(x: T) -> int\n"
    "--- number of elements",
    v_numel, 0 },
  { ":nbytes(x: T) -> int\n"
    "--- bytes of the elements",
    v_nbytes, 0 },
  { ":dim(x: T) -> int\n"
    "--- number of axes",
    v_dim, 0 },
  { ":stride(x: T, dim?: axis) -> int|int[]\n"
    "--- elements from one position to the next along an axis",
    v_stride, 0 },
  { ":is_contiguous(x: T) -> bool\n"
    "--- is x row-major without gaps",
    v_is_contiguous, 0 },
  { ":contiguous(x: T) -> T\n"
    "--- the value, row-major",
    v_contiguous, 0 },
  { "is_floating_point(x: T) -> bool\n"
    "--- is the dtype f64 f32 f16 or bf16",
    v_is_floating_point, 0 },
  { ":item(x: T) -> num|bool\n"
    "--- the one element as a Lua value",
    v_item, 0 },
  { ":totable(x: T) -> num|bool|table\n"
    "--- all elements as nested tables; of a 0-d tensor its value",
    v_totable, 0 },
  { ":bytes(x: T) -> str\n"
    "--- all elements, row-major, in the machine's byte order",
    v_bytes, 0 },
  { "clone(x: T) -> T\n"
    "--- a new value; gradients flow through",
    v_clone, 0 },
  { "detach(x: T) -> T\n"
    "--- the value without its history",
    v_detach, 0 },
  { ":detach_(x: T) -> T\n"
    "--- x loses its history",
    v_detach_, 0 },
  { ":to(x: T, target?: T|dtype|device, more?: T|dtype|device, *, dtype?: dtype, device?: "
    "device) -> T\n"
    "--- in another dtype, on another device, or like another tensor",
    v_to, 0 },
  { ":float(x: T) -> T\n"
    "--- as f32",
    v_float, 0 },
  { ":half(x: T) -> T\n"
    "--- as f16",
    v_half, 0 },
  { ":bfloat16(x: T) -> T\n"
    "--- as bf16",
    v_bfloat16, 0 },
  { ":double(x: T) -> T\n"
    "--- as f64",
    v_double, 0 },
  { ":long(x: T) -> T\n"
    "--- as i64",
    v_long, 0 },
  { ":int(x: T) -> T\n"
    "--- as i32",
    v_int, 0 },
  { ":short(x: T) -> T\n"
    "--- as i16",
    v_short, 0 },
  { ":char(x: T) -> T\n"
    "--- as i8",
    v_char, 0 },
  { ":byte(x: T) -> T\n"
    "--- as u8",
    v_byte, 0 },
  { ":bool(x: T) -> T\n"
    "--- as bool: is it not 0",
    v_bool, 0 },
  { ":cpu(x: T) -> T\n"
    "--- on the CPU",
    v_cpu, 0 },
  { ":cuda(x: T, ordinal?: int) -> T\n"
    "--- on the GPU with this number, from 0",
    v_cuda, 0 },
  { ":free(x: any)\n"
    "--- closes this handle now; others stay",
    v_free, 0 },
  { ":requires_grad_(x: T, on = true) -> T\n"
    "--- x is tracked from here on, or no longer",
    requires_grad_, 0 },
  { "__len", v_len, 0 }, { NULL, NULL, 0 }
};
