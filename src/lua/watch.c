/*
** Reports a backward walk, step by step, to a function of lua/flame/tools/gradient_table.lua: the
** op whose result has a cotangent now, the line that recorded it, and that cotangent. While no
** function is set, walks only test flame_context.watched.
*/
#include "lua/binding.h"
#include "engine/memory.h"

static const char key_watcher;                   /* in the registry: the function */

typedef struct step { fl_lua *b; fl_node *n, *g; } step;

static int step_trampoline(lua_State *L) {
  const step *s = (const step *)lua_touserdata(L, 1);
  const fl_entry *e = s->n->entry;
  char at[96];
  if (e == NULL) return 0;                       /* a hook untracked the leaf */
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_watcher);
  lua_pushstring(L, e->leaf ? "" : e->custom ? "func" : fl_node_op(s->n));
  lua_pushstring(L, fl_site_text(s->b, e->site, at));
  if (e->leaf && e->handle != NULL) lua_pushlightuserdata(L, e->handle);
  else lua_pushnil(L);
  fl_box *x = fl_box_new_in(L, s->b);
  x->t = fl_tensor_new(s->b->c, s->g);
  if (x->t == NULL) luaL_error(L, "out of memory");
  lua_call(L, 4, 0);
  return 0;
}

static flame_status walked(flame_context *c, fl_node *n, fl_node *g) {
  step s = { (fl_lua *)c->host, n, g };
  const flame_status e = fl_lua_callback(s.b, step_trampoline, &s, "backward");
  return e == FLAME_OK ? c->err.code : e;
}

/* internal.watch_walks(f | nil): f(op, line, handle, g) at each step of each backward from now on;
** for a leaf op is "" and handle identifies the tensor (internal.handle). */
static int watch_walks(lua_State *L) {
  fl_lua *b = self_of(L);
  lua_settop(L, 1);
  if (!lua_isnil(L, 1)) luaL_checktype(L, 1, LUA_TFUNCTION);
  const int on = !lua_isnil(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_watcher);
  if (b->c == NULL) return 0;
  b->up.walked = walked;
  b->c->watched = (uint8_t)on;
  return 0;
}

const fl_lua_reg fl_reg_watch[] = { { "watch_walks", watch_walks, 0 }, { NULL, NULL, 0 } };
