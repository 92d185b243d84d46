/*
** DLPack for scripts: passes a tensor to a C module of another library, or takes one from it. It is
** passed as a userdata of the type "dltensor" (luaL_newmetatable), whose block is one pointer: a
** DLManagedTensor that the userdata owns, NULL once it was taken. A module makes one with
**   void **p = lua_newuserdatauv(L, sizeof *p, 0); *p = managed; luaL_setmetatable(L, "dltensor");
** and takes one by luaL_checkudata(L, i, "dltensor"), setting the pointer to NULL.
*/
#include "io/io.h"
#include "lua/binding.h"

static const char type_name[] = "dltensor";

static int capsule_gc(lua_State *L) {
  void **p = (void **)luaL_testudata(L, 1, type_name);
  if (p == NULL || *p == NULL) return 0;
  void *managed = *p;
  *p = NULL;
  fl_dlpack_delete(managed);
  return 0;
}

/* Another copy of the library may have made the type already: it is used then. */
static void push_type(lua_State *L) {
  if (!luaL_newmetatable(L, type_name)) return;
  lua_pushcfunction(L, capsule_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, capsule_gc);
  lua_setfield(L, -2, "__close");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
}

static int from_dlpack(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_args(L);
  if (b->c == NULL) fl_lua_raise(L, b);
  void **p = (void **)luaL_testudata(L, 1, type_name);
  if (p == NULL)
    fl_lua_fail(L, "from_dlpack", "expected a dltensor of a C module, got %s", fl_arg_found(L, 1));
  if (*p == NULL) fl_lua_fail(L, "from_dlpack", "the dltensor was taken already");
  fl_box *out = fl_box_new(L);
  fl_scope_end(b->c, fl_lua_enter(L, b));
  out->t = flame_from_dlpack(b->c, *p);
  if (out->t == NULL) return fl_lua_raise(L, b);
  *p = NULL;
  return 1;
}

static int to_dlpack(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_args(L);
  fl_box *x = box_at(L, 1);
  const int give_away = lua_toboolean(L, 2);
  void **p = (void **)lua_newuserdatauv(L, sizeof *p, 0);
  *p = NULL;
  push_type(L);
  lua_setmetatable(L, -2);
  fl_scope_end(b->c, fl_lua_enter(L, b));
  if (node_of(b, x) == NULL) return fl_lua_raise(L, b);
  *p = flame_to_dlpack(x->t, give_away);
  if (*p == NULL) return fl_lua_raise(L, b);
  if (!give_away) return 1;
  x->t = NULL;                             /* the export has taken the reference, or has freed it */
  fl_box_close(b, x, FL_BOX_FREED | b->c->site);
  return 1;
}

const fl_lua_reg fl_reg_dlpack[] = {
  { ".from_dlpack(dltensor: any) -> T\n"
    "--- the tensor that a C module hands over, without a copy: its memory is used until the last "
    "value that needs it is gone",
    from_dlpack, 0 },
  { "to_dlpack(x: T, give_away = false) -> any\n"
    "--- a copy of x for a C module, as a userdata of the type \"dltensor\"; give_away frees x, and "
    "hands its memory over as it is where nothing else uses it",
    to_dlpack, 0 },
  { NULL, NULL, 0 }
};
