/*
** Structs that hold pointers among the arguments of a kernel. Such a struct is one parameter in the
** text, several parameters of the kernel (front/spread.c), and one argument of a call: a table with
** the names of its members, nested as they are. Each of the several parameters is found in it by
** its name ("p.box.low", "p.at[1][0]"). An accessor of a tensor is the tensor itself, whose lengths
** are numbers of the launch.
**
** For calls in which some lengths are equal there is another form of the kernel (kernel_form.c):
** "y.size(1)=2," says that this length is equal to parameter 2. That kernel has the same
** parameters, and more can be proven of its indices.
*/
#include "lua/declare.h"
#include "lua/kernel.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- which argument -------------------------------------------------------------------------- */

int fl_kernel_argument_of_parts(const fl_kernel_box *k, int i, int *taken) {
  const fl_kparam *const all = k->k->f->params;
  const char *const of = all[i].part_of;
  int j = i;
  *taken = 0;
  do {
    const fl_kparam *q = &all[j];
    const int counted = !q->axes || q->axis < 0, waits = of && q->list && !q->lists;
    *taken |= counted && !k->p->hidden[j] && (k->p->role[j] != FL_KROLE_OUT || waits);
  } while (++j < k->p->nparam && (of ? all[j].part_of == of : all[j].list > 1));
  return j;
}

/* kernel -> list of its arguments' names, which is also a set of those that are arrays (name ->
** "tensor"); may the last one be left out?; is the first one a list? */
int fl_kernel_arguments(lua_State *L) {
  const fl_kernel_box *k = fl_arg_kernel(L, 1, "kernel");
  const fl_kparam *first = NULL;
  lua_newtable(L);
  for (int i = 0, n = 0, taken, end; i < k->p->nparam; i = end) {
    const fl_kparam *q = &k->k->f->params[i];
    end = fl_kernel_argument(k, i, &taken);
    if (!taken) continue;
    if (!first) first = q;
    lua_pushstring(L, fl_kparam_argument(q));
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, ++n);
    if (q->is_pointer) lua_pushliteral(L, "tensor");
    else lua_pushboolean(L, 0);
    lua_rawset(L, -3);
  }
  lua_pushboolean(L, k->p->omit >= 0);
  lua_pushboolean(L, first && first->list_of && !first->part_of);
  return 3;
}

static int without_module(lua_State *L) { return fl_core_call(L, "kernel_method"); }

/* Raises if the table that is the first argument holds several kernels, among them this one. */
static void refuse_kernels(lua_State *L) {
  if (luaL_getmetafield(L, 2, "__name") == LUA_TNIL) return;
  const char *const title = lua_tostring(L, -1);
  if (title && !strcmp(title, "flame.kernels"))
    fl_lua_fail(L, fl_arg_kernel(L, 1, "kernel")->k->f->name,
                "called with a colon, and what is before it has several kernels" FL_DO
                ": write a dot");
  lua_pop(L, 1);
}

int fl_kernel_drop_module(lua_State *L) {
  const int n = lua_gettop(L);
  refuse_kernels(L);
  if (!fl_declare_is_of_class(L, (fl_decl_span){ "Module", 6 }, 2)) return n - 1;
  luaL_checkstack(L, n + 2, "arguments");
  lua_pushcfunction(L, without_module);
  for (int i = 1; i <= n; i++) lua_pushvalue(L, i);
  lua_call(L, n, LUA_MULTRET);
  for (int i = n; i > 1; i--) lua_remove(L, i);
  return lua_gettop(L) - 1;
}

int fl_kernel_push_part(lua_State *L, const char *op, const fl_kparam *q, int at, int list) {
  const char *const whole = fl_kparam_argument(q);
  const char *s = q->name + strlen(whole), *const end = list ? fl_kparam_title(q) : "";
  const size_t left = list ? strlen(q->name) - strlen(end) : 0;
  luaL_checkstack(L, 6, q->name);
  lua_pushvalue(L, at);
  while (strlen(s) > left) {
    const size_t n = *s == '.' ? strcspn(s + 1, ".[") : 0;
    if (!lua_istable(L, -1))
      fl_lua_fail(L, op, "%.*s must be a table with %s, got %s", (int)(s - q->name), q->name,
                  q->name, fl_arg_found(L, lua_gettop(L)));
    if (*s == '.') lua_pushlstring(L, s + 1, n);
    else lua_pushinteger(L, strtol(s + 1, NULL, 10) + 1);
    lua_rawget(L, -2);
    lua_remove(L, -2);
    s += *s == '.' ? n + 1 : strcspn(s, "]") + 1;
  }
  return lua_gettop(L);
}

/* Does the name begin with the argument's and a member of that name? */
static int names(const char *name, const char *whole, const char *member, size_t n) {
  name += strlen(whole);
  return *name == '.' && !strncmp(name + 1, member, n) && strchr(".[", name[n + 1]);
}

void fl_kernel_check_members(lua_State *L, const fl_kernel_box *k, int i, int end, int at) {
  const fl_kparam *q = &k->k->f->params[i];
  if (!q->part_of || !lua_istable(L, at)) return;
  luaL_checkstack(L, 4, q->part_of);
  for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1)) {
    size_t n = 0;
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &n) : NULL;
    int j = i;
    while (key && j < end && !names(k->k->f->params[j].name, q->part_of, key, n)) j++;
    if (key && j < end) continue;
    fl_lua_fail(L, k->k->f->name, "%s has no member %s", q->part_of, luaL_tolstring(L, -2, NULL));
  }
}

/* ---- lengths of accessors -------------------------------------------------------------------- */

void fl_kplan_lengths(lua_State *L, fl_kplan *p, int i, const fl_sizes *s) {
  char shape[192];
  const fl_kparam *q = &p->l.k->f->params[i];
  if (!q->axes) return;
  fl_shape_text(shape, s->n, s->at);
  if (s->n != q->axes)
    fl_lua_fail(L, p->l.name, "%s must have %d ax%cs, and has the shape %s", q->name, q->axes,
                q->axes == 1 ? 'i' : 'e', shape);
  const int size = fl_kt_size(q[1].type);
  if (size < 8 && fl_numel_of(s) > INT32_MAX)
    fl_lua_fail(L, p->l.name, "%s of shape %s has more elements than an int can count" FL_DO
                "; use PackedTensorAccessor64", q->name, shape);
  for (int d = 0; d < q->axes; d++)
    if (!fl_launch_bytes(&p->l, i + 1 + d, &s->at[d], size)) fl_lua_raise(L, self_of(L));
}

/* Parameter i is the length of an accessor: returns the first parameter before it that is such a
** length too, of the same type and with the same value in launch l; -1: there is none, or i is not
** a length. */
static int equal_to(const fl_kfunc *f, const fl_launch *l, int i) {
  const int64_t *p = l->p + FL_KP_ARGS;
  int j = 0;
  while (j < i && !(f->params[i].axes && f->params[i].axis >= 0 && f->params[j].axes &&
                    f->params[j].axis >= 0 && f->params[j].type == f->params[i].type &&
                    l->scalar[p[2 * j] >> 3].i == l->scalar[p[2 * i] >> 3].i))
    j++;
  return j < i ? j : -1;
}

const fl_kernel_box *fl_kernel_equal(lua_State *L, const fl_kernel_box *k, const fl_launch *l) {
  const fl_kfunc *f = k->k->f;
  luaL_Buffer b;
  lua_pushcfunction(L, fl_kernel_for_forms);
  lua_pushvalue(L, 1);
  luaL_buffinit(L, &b);
  for (int i = 0, j; i < f->n_params && f->has_body; i++) {
    if ((j = equal_to(f, l, i)) < 0) continue;
    char is[16];
    snprintf(is, sizeof is, "=%d,", j);
    luaL_addstring(&b, f->params[i].name);
    luaL_addstring(&b, is);
  }
  luaL_pushresult(&b);
  if (!*lua_tostring(L, -1)) { lua_pop(L, 3); return NULL; }
  lua_call(L, 2, 1);
  lua_replace(L, 1);
  return fl_arg_kernel(L, 1, "kernel");
}
