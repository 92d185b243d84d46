/*
** Functions of the script that the graph holds: backward of flame.func, what a checkpoint runs
** again, lists of hooks.
**
** An fl_callback is owned by an entry of the graph (the record of an op). Its function is stored
** under its id in a table of the registry, which is strong except while cycles.c lets Lua's
** collector decide. Ids are never reused: the collector may remove one from the table while its
** callback exists.
*/
#include "lua/binding.h"

static size_t size_with(int nkept) {
  return sizeof(fl_callback) + sizeof(flame_tensor *) * (size_t)nkept;
}

int64_t fl_callback_anchor(lua_State *L, fl_lua *b) {
  if (b->c != NULL) fl_anchor(b->c);
  lua_pushboolean(L, 0);                    /* from now on cycles.c notices collections */
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_watch);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_callbacks);
  lua_insert(L, -2);
  lua_rawseti(L, -2, ++b->callback_ids);
  lua_pop(L, 1);
  return b->callback_ids;
}

/* The table is changed only if it has the id, since adding a key could need memory. */
void fl_callback_forget(fl_lua *b, int64_t id) {
  lua_State *L = fl_lua_thread(b);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_callbacks);
  if (lua_rawgeti(L, -1, id) != LUA_TNIL) {
    lua_pushnil(L);
    lua_rawseti(L, -3, id);
  }
  lua_pop(L, 2);
}

fl_callback *fl_callback_new(fl_lua *b, int64_t id, int nkept) {
  fl_callback *f = (fl_callback *)fl_zalloc(&b->c->mem, size_with(nkept));
  if (f == NULL) return NULL;
  f->b = b;
  f->id = id;
  f->nkept = nkept;
  f->next = b->callbacks;
  if (b->callbacks != NULL) b->callbacks->prev = f;
  b->callbacks = f;
  return f;
}

void fl_callback_drop(void *callback) {
  fl_callback *f = (fl_callback *)callback;
  fl_lua *b = f->b;
  fl_callback_forget(b, f->id);
  if (f->prev != NULL) f->prev->next = f->next;
  else b->callbacks = f->next;
  if (f->next != NULL) f->next->prev = f->prev;
  for (int i = 0; i < f->nkept; i++) fl_tensor_release(f->kept[i]);
  fl_free(&b->c->mem, f, size_with(f->nkept));
}

/* Called when the collector has removed the function from its table, and a finaliser of the same
** collection still uses the graph: the function must live as long as the boxes of that graph. Finds
** it in the registry's table from functions to their sets of ids, and pushes it; nil: it is not
** there. */
static void push_found_dead(lua_State *L, const fl_callback *f) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_functions) == LUA_TTABLE) {
    for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
      const int found = lua_rawgeti(L, -1, f->id) != LUA_TNIL;
      lua_pop(L, 1);
      if (!found) continue;
      lua_pop(L, 1);
      lua_remove(L, -2);
      return;
    }
  }
  lua_pop(L, 1);
  lua_pushnil(L);
}

void fl_callback_push(lua_State *L, const fl_callback *f) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_callbacks);
  if (lua_rawgeti(L, -1, f->id) == LUA_TNIL) {
    lua_pop(L, 1);
    push_found_dead(L, f);
  }
  lua_remove(L, -2);
}
