/*
** Arguments that choose among the kernels of one text. If the text tests whether a pointer is null,
** that argument may be nil in a call:
**
**   k(x, nil, y)            kernel_call.c finds a nil where the parameter is 'asked'
**   "bias=0,"               the forms of these arguments (0: nil); lua/flame/kernel/block.lua reads
**                           the text once more with them (fl_ksource_parse_until), once for each
**                           set of nils, and keeps the kernel
**   role NONE               its program has no array for bias: a launch's argument is FL_KARG_NULL,
**                           so plans, replays and checks know nothing of it, and a derivative,
**                           made of the tree in which bias is never read, has none either
**
** A GPU runs the text as it is, with a null pointer: the same cubin for all forms.
**
** A list of arrays, "T *const *xs", is given by a list of tensors, k({ x, y, z }):
**
**   "xs=3,"                 the text is read once for each length, with parameters xs[0], xs[1],
**                           xs[2] in the place of xs: an array of the list is one of these by a
**                           constant, or a choice among them (front/turn.c), which is checked
**   xs[0], xs[1], xs[2]     inputs of the call like others, so each has its gradient, its checks
**                           and its address in each replay: no memory holds a table of addresses
**
** A device runs what is printed of this tree, since its text has fewer parameters.
*/
#include "lua/kernel.h"

/* Replaces the list at 'at', whose n elements a metatable gives, with a plain list of them. It is
** read only once: perhaps nothing else holds the elements that it gives, so they could be
** freed. */
static void settle_list(lua_State *L, int at, lua_Integer n) {
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_geti(L, at, i);
    lua_rawseti(L, -2, i);
  }
  lua_replace(L, at);
}

/* Pushes "bias=0," (the argument at 'at' is nil) or "xs=3," (it is a list of 3), else "". read: 0:
** the text has lists and was not parsed yet: whether it tests the pointer is not known. */
static void push_form(lua_State *L, const fl_kparam *q, int at, const char *op, int read) {
  const int list = q->list_of && lua_istable(L, at),
            null = q->is_pointer && !q->list_of && (q->asked || !read) && lua_isnil(L, at);
  const int proxy = list && !q->part_of && lua_getmetatable(L, at);
  if (proxy) lua_pop(L, 1);
  const lua_Integer n = proxy ? luaL_len(L, at) : list ? (lua_Integer)lua_rawlen(L, at) : 0;
  if (q->list_of && !list)
    fl_lua_fail(L, op, "%s must be a list of tensors, got %s", q->name, fl_arg_found(L, at));
  if (list && (n < 1 || n > FL_KERNEL_LIST))
    fl_lua_fail(L, op, n < 1 ? "%s is a list of %lld tensors, need 1 to %d"
                : "%s is a list of %lld tensors, need 1 to %d" FL_DO ": join them in one, and give "
                "the kernel where each begins", q->name, (long long)n, FL_KERNEL_LIST);
  if (proxy) settle_list(L, at, n);
  if (list || null) lua_pushfstring(L, "%s=%I,", q->name, (LUAI_UACINT)n);
  else lua_pushliteral(L, "");
}

/* Raises if a pointer is null although the text never asks whether it is. */
static fl_kernel_box *need_asked(lua_State *L) {
  fl_kernel_box *k = fl_arg_kernel(L, 1, "kernel");
  for (int i = 0; i < k->p->nparam; i++) {
    const fl_kparam *q = &k->k->f->params[i];
    if (q->is_null && !q->asked && !k->k->f->has_body) fl_kernel_refused(L, k);
    if (q->is_null && !q->asked)
      fl_lua_fail(L, k->k->f->name, "%s must be a tensor, got nil, and the kernel never asks whether "
                  "it is null", q->name);
  }
  return k;
}

int fl_kernel_for_forms(lua_State *L) { return fl_core_call(L, "kernel_formed"); }

/* Appends to the text on top what the argument at 'at' says of parameter i. all: outputs are
** arguments too (k:launch). */
static void add_form(lua_State *L, const fl_kernel_box *k, int i, int at, int all) {
  const fl_kparam *q = &k->k->f->params[i];
  const int out = k->p->role[i] == FL_KROLE_OUT && !all;
  if (!q->is_pointer || (out && !q->part_of)) return;
  const int value = q->part_of ? fl_kernel_push_part(L, k->k->f->name, q, at, 1) : at;
  if (!out || !lua_isnil(L, value)) push_form(L, q, value, k->k->f->name, k->k->f->has_body);
  else lua_pushliteral(L, "");
  if (q->part_of) lua_remove(L, value);
  lua_concat(L, 2);
}

fl_kernel_box *fl_kernel_formed(lua_State *L, fl_kernel_box *k, int at) {
  const int all = at == 3, top = lua_gettop(L);            /* of a plain launch: outputs too */
  luaL_checkstack(L, 12, "kernel");
  lua_pushcfunction(L, fl_kernel_for_forms);
  lua_pushvalue(L, 1);
  lua_pushliteral(L, "");
  for (int i = 0, end, taken; i < k->p->nparam; i = end) {
    const fl_kparam *q = &k->k->f->params[i];
    end = fl_kernel_argument(k, i, &taken);
    if (q->list_of && !taken && !all)
      fl_lua_fail(L, k->k->f->name, "%s is a list of outputs, of which a call does not tell how many"
                  FL_DO ": name it in inout, or use :launch", q->name);
    if (k->p->hidden[i] || !(taken || all)) continue;
    for (int j = i; j < end && at <= top; j++) add_form(L, k, j, at, all);
    at++;
  }
  if (*lua_tostring(L, -1)) {
    lua_call(L, 2, 1);
    lua_replace(L, 1);
  }
  lua_settop(L, top);
  return need_asked(L);
}

/* ---- results --------------------------------------------------------------------------------- */

static int is_target(lua_State *L, int at, fl_box **target, int n) {
  const fl_box *x = box_at(L, at);
  while (x && --n >= 0) if (target[n] == x) return 1;
  return 0;
}

/* Is the value at 'at' one of them, or a table with one, 'deep' levels deep at most? */
static int has_target(lua_State *L, int at, fl_box **target, int n, int deep) {
  if (is_target(L, at, target, n)) return 1;
  if (!lua_istable(L, at) || !deep || !lua_checkstack(L, 4)) return 0;
  for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1)) {
    if (!has_target(L, lua_gettop(L), target, n, deep - 1)) continue;
    lua_pop(L, 2);
    return 1;
  }
  return 0;
}

int fl_kernel_push_targets(lua_State *L, int first, int n, fl_box **target, int ntarget) {
  int pushed = 0;
  luaL_checkstack(L, n + 4, "results");
  for (int i = first; i < first + n; i++) {
    int before = !has_target(L, i, target, ntarget, 8);
    for (int j = first; j < i && !before; j++) before = lua_rawequal(L, i, j);
    if (before) continue;
    lua_pushvalue(L, i);
    pushed++;
  }
  return pushed;
}

/* The n values from 'at' on become one list. */
static void gather_list(lua_State *L, int at, int n) {
  lua_createtable(L, n, 0);
  for (int j = 0; j < n; j++) {
    lua_pushvalue(L, at + j);
    lua_rawseti(L, -2, j + 1);
  }
  lua_replace(L, at);
  for (int j = 1; j < n; j++) lua_remove(L, at + 1);
}

int fl_kernel_visible(lua_State *L, const fl_kernel_box *k, int nout) {
  const int first = lua_gettop(L) - nout + 1;
  int at = first;
  for (int i = 0; i < k->p->nparam; i++) {
    const fl_kparam *q = &k->k->f->params[i];
    if (fl_kparam_gave_nil(q)) {
      lua_pushnil(L);
      lua_insert(L, at++);
    } else if (fl_kprogram_writes(k->p, i) && fl_kparam_counts(q)) {
      if (q->list_of) gather_list(L, at, q->lists);
      if (k->p->hidden[i]) lua_remove(L, at);
      else at++;
    }
  }
  return at - first;
}
