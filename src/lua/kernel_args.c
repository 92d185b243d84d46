/*
** Scalars, vectors and structs among the arguments of a kernel: converts Lua's numbers and tables
** to the scalars of a call (fl_call.scalar), laid out as CUDA passes them.
*/
#include "lua/kernel.h"
#include <stdio.h>

#define bad(L, p, ...) fl_lua_fail((L), (p)->l.name, __VA_ARGS__)

/* ---- scalars ---- */

static int fits(int64_t v, int type) {
  switch (type) {
    case FL_KT_BOOL: return v == 0 || v == 1;
    case FL_KT_I8: return v >= INT8_MIN && v <= INT8_MAX;
    case FL_KT_U8: return v >= 0 && v <= UINT8_MAX;
    case FL_KT_I16: return v >= INT16_MIN && v <= INT16_MAX;
    case FL_KT_U16: return v >= 0 && v <= UINT16_MAX;
    case FL_KT_I32: return v >= INT32_MIN && v <= INT32_MAX;
    case FL_KT_U32: return v >= 0 && v <= UINT32_MAX;
    default: return 1;
  }
}

/* Writes the Lua value on top to 'to' as a scalar of 'type'. */
static void put_scalar(lua_State *L, const fl_kplan *p, const char *name, int type, void *to) {
  const fl_ktype_info *t = &fl_ktypes[type];
  int is = 0;
  if (type == FL_KT_BOOL && lua_isboolean(L, -1)) {
    *(uint8_t *)to = (uint8_t)lua_toboolean(L, -1);
    return;
  }
  if (lua_type(L, -1) != LUA_TNUMBER)
    bad(L, p, "%s must be a number (%s), got %s", name, t->c, fl_arg_no_number(L, lua_gettop(L)));
  if (t->is_float) {
    fl_launch_put_float(type, lua_tonumber(L, -1), to);
    return;
  }
  const int64_t v = lua_tointegerx(L, -1, &is);
  if (!is) bad(L, p, "%s must be an integer (%s), got %s", name, t->c, lua_tostring(L, -1));
  if (!fits(v, type)) bad(L, p, "%s = %s does not fit in %s", name, lua_tostring(L, -1), t->c);
  memcpy(to, &v, (size_t)t->size);          /* little-endian, as every device here */
}

static void *take_room(lua_State *L, fl_kplan *p, int arg, int64_t bytes) {
  void *to = fl_launch_room(&p->l, arg, bytes);
  if (!to) fl_lua_raise(L, self_of(L));
  return to;
}

/* Pushes the value at 'path' ("center.x") of the table at i. If the path is one name and the table
** has no such field, it is element 'position' (the number of the leaf in the struct): {1, 2} for a
** float2. */
static void push_field(lua_State *L, int i, const char *path, int position) {
  lua_pushvalue(L, i);
  for (const char *s = path; *s;) {
    const size_t n = strcspn(s, ".");
    if (!lua_istable(L, -1)) break;
    lua_pushlstring(L, s, n);
    lua_gettable(L, -2);
    lua_remove(L, -2);
    s += n + (s[n] == '.');
  }
  if (!lua_isnil(L, -1) || strchr(path, '.')) return;
  lua_pop(L, 1);
  lua_geti(L, i, position);
}

static void put_leaf(lua_State *L, const fl_kplan *p, const fl_kparam *q, const fl_kfield *f,
                     int position, int i, char *to) {
  char name[160];
  snprintf(name, sizeof name, "%s%s%s", q->name, *f->path ? "." : "", f->path);
  if (f->is_pointer)
    fl_lua_fail(L, p->l.name, "%s is a pointer in a struct"
                FL_DO ": pass the array as a separate argument", name);
  push_field(L, i, f->path, position);
  if (f->count == 1 && !lua_istable(L, -1)) put_scalar(L, p, name, f->type, to + f->offset);
  else {
    for (int64_t e = 0; e < f->count; e++) {
      int64_t at = f->offset, rest = e;
      for (int d = f->rank - 1; d >= 0; d--) {
        at += rest % f->dims[d] * f->stride[d];
        rest /= f->dims[d];
      }
      if (!lua_istable(L, -1))
        fl_lua_fail(L, p->l.name, "%s must be a list of %lld number%s", name,
                    (long long)f->count, FL_S(f->count));
      lua_geti(L, -1, e + 1);
      put_scalar(L, p, name, f->type, to + at);
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
}

void fl_kplan_struct(lua_State *L, fl_kplan *p, const fl_kparam *q, int arg, int i) {
  char *to = (char *)take_room(L, p, arg, q->size);
  if (!lua_istable(L, i))
    bad(L, p, "%s must be a table for %s, got %s", q->name, q->type_name, luaL_typename(L, i));
  for (int32_t k = 0; k < q->n_fields; k++) put_leaf(L, p, q, &q->fields[k], k + 1, i, to);
}

/* A tensor of one element may be given for a number: its value is read now, and it gets the
** gradient. */
void fl_kplan_scalar(lua_State *L, fl_kplan *p, const fl_kparam *q, int arg, int i) {
  const fl_box *x = box_at(L, i);
  if (x && x->t) {
    const fl_node *n = x->t->node;
    if (n->shape->numel != 1)
      fl_lua_fail(L, p->l.name, "%s must be a number (%s), got a tensor", q->name,
                  fl_ktypes[q->type].c);
    if (n->entry) p->tracked = 1;
    p->number[p->numbers].of = (fl_box *)(uintptr_t)x;
    p->number[p->numbers++].param = arg;
    lua_getfield(L, i, "item");
    lua_pushvalue(L, i);
    lua_call(L, 1, 1);
    if (!fl_ktypes[q->type].is_float && lua_isnumber(L, -1) && !lua_isinteger(L, -1))
      bad(L, p, "%s must be an integer (%s), got %s", q->name, fl_ktypes[q->type].c,
          lua_tostring(L, -1));
  } else lua_pushvalue(L, i);
  put_scalar(L, p, q->name, q->type, take_room(L, p, arg, fl_ktypes[q->type].size));
  lua_pop(L, 1);
}

void fl_kernel_push_constant(lua_State *L, const char *kernel, const fl_kparam *q) {
  lua_getiuservalue(L, 1, 1);
  lua_getfield(L, -1, "memory");
  if (lua_istable(L, -1)) lua_getfield(L, -1, q->name);
  else lua_pushnil(L);
  if (lua_isnil(L, -1))
    fl_lua_fail(L, kernel, "constant '%s' has no value" FL_DO ": set it by k:constant(\"%s\", x)",
                q->name, q->name);
  lua_replace(L, -3);
  lua_pop(L, 1);
}
