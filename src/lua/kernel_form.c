/*
** Arguments that choose among the kernels of one text. If the text tests whether a pointer is null,
** that argument may be nil in a call:
**
**   k(x, nil, y)            kernel_call.c finds a nil where the parameter is 'asked'
**   "bias=0,"               the forms of these arguments; lua/flame/kernel/block.lua reads the text
**                           once more with them (fl_ksource_parse_until), once for each set of
**                           nils, and keeps the kernel
**   role NONE               its program has no array for bias: a launch's argument is FL_KARG_NULL,
**                           so plans, replays and checks know nothing of it, and a derivative,
**                           made of the tree in which bias is never followed, has none either
**
** A GPU runs the text as it is, with a null pointer: the same cubin for all forms.
*/
#include "lua/kernel.h"

/* Is a nil at 'at' a null pointer for parameter i? */
static int is_null(lua_State *L, const fl_kernel_box *k, int i, int at) {
  return lua_isnil(L, at) && k->k->f->params[i].asked &&
         k->k->f->params[i].is_pointer;
}

static int formed(lua_State *L) { return fl_core_call(L, "kernel_formed"); }

fl_kernel_box *fl_kernel_formed(lua_State *L, fl_kernel_box *k, int at) {
  const int all = at == 3, top = lua_gettop(L);            /* of a plain launch: outputs too */
  luaL_checkstack(L, 8, "kernel");
  lua_pushcfunction(L, formed);
  lua_pushvalue(L, 1);
  lua_pushliteral(L, "");
  for (int i = 0; i < k->p->nparam; i++) {
    if (k->p->hidden[i] || (k->p->role[i] == FL_KROLE_OUT && !all)) continue;
    if (at <= top && is_null(L, k, i, at)) {
      lua_pushfstring(L, "%s%s=0,", lua_tostring(L, -1), k->k->f->params[i].name);
      lua_replace(L, -2);
    }
    at++;
  }
  if (*lua_tostring(L, -1)) {
    lua_call(L, 2, 1);
    lua_replace(L, 1);
  }
  lua_settop(L, top);
  return fl_arg_kernel(L, 1, "kernel");
}

int fl_kernel_visible(lua_State *L, const fl_kernel_box *k, int nout) {
  const int first = lua_gettop(L) - nout + 1;
  int at = first;
  for (int i = 0; i < k->p->nparam; i++) {
    if (fl_kparam_gave_nil(&k->k->f->params[i])) {
      lua_pushnil(L);
      lua_insert(L, at++);
    } else if (fl_kprogram_writes(k->p, i)) {
      if (k->p->hidden[i]) lua_remove(L, at);
      else at++;
    }
  }
  return at - first;
}
