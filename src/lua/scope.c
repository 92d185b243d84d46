/*
** flame.scope: boxes made while a scope is open are closed at its end, except those that are
** returned, kept, or held by the library. Scopes nest; boxes that survive one belong to the next
** outer one. A box knows its index in the list of tracked boxes and is removed from it when it is
** freed.
*/
#include "lua/binding.h"

#define SCOPE_MAGIC UINT64_C(0x666c616d652d7363)
typedef struct scope { uint64_t magic; int64_t serial; } scope;      /* serial 0: closed */

/* Removes the holes that freed boxes left in the innermost scope. */
static void compact(fl_lua *b) {
  int64_t k = b->scopes.at[b->scopes.n - 1].first;
  for (int64_t i = k; i < b->tracked.n; i++) {
    if (b->tracked.at[i].box == NULL) continue;
    b->tracked.at[k] = b->tracked.at[i];
    b->tracked.at[k].box->slot = (int32_t)k;
    k++;
  }
  b->tracked.n = k;
}

int fl_scope_track(fl_lua *b, fl_box *x) {
  if (b->c == NULL || x->slot >= 0 || b->scopes.n == 0) return 1;
  if (b->tracked.n == b->tracked.cap && b->tracked.n > 0) {
    compact(b);
    if (b->tracked.n * 2 > b->tracked.cap && !FL_RESERVE(&b->c->mem, &b->tracked,
        b->tracked.n * 2)) return 0;
  }
  fl_tracked_box *slot = FL_PUSH(&b->c->mem, &b->tracked);
  if (slot == NULL) return 0;
  slot->box = x;
  slot->depth = b->scopes.n;
  x->slot = (int32_t)(b->tracked.n - 1);
  return 1;
}

void fl_box_untrack(fl_lua *b, fl_box *x) {
  if (x->slot >= 0) b->tracked.at[x->slot].box = NULL;
  x->slot = -1;
}

/* Ends the innermost scope. keep: its boxes go to the next outer one instead of being closed. */
static void end_innermost(fl_lua *b, int keep) {
  const int64_t depth = b->scopes.n;
  const fl_scope_mark s = b->scopes.at[depth - 1];
  int64_t k = s.first;
  for (int64_t i = s.first; i < b->tracked.n; i++) {
    fl_tracked_box t = b->tracked.at[i];
    if (t.box == NULL) continue;
    if (t.depth >= depth && keep) t.depth = depth - 1;
    if (t.depth >= depth) {
      fl_box_close(b, t.box, s.site ? s.site : FL_BOX_FREED);
    } else if (t.depth == 0) {
      t.box->slot = -1;
    } else {
      b->tracked.at[i].box = NULL;
      b->tracked.at[k] = t;
      t.box->slot = (int32_t)k++;
    }
  }
  b->tracked.n = k;
  b->scopes.n--;
}

static int64_t find(const fl_lua *b, int64_t serial) {
  for (int64_t i = b->scopes.n; i > 0; i--) if (b->scopes.at[i - 1].serial == serial) return i;
  return 0;
}

static scope *scope_at(lua_State *L, int i) {
  scope *s = (scope *)lua_touserdata(L, i);
  return s != NULL && lua_rawlen(L, i) == sizeof *s && s->magic == SCOPE_MAGIC ? s : NULL;
}

static void end_scope(lua_State *L, fl_lua *b, scope *s, int keep) {
  const int64_t depth = s->serial != 0 && b->c != NULL ? find(b, s->serial) : 0;
  s->serial = 0;
  fl_lua_on(L, b);
  while (depth > 0 && b->scopes.n >= depth) end_innermost(b, keep);
}

static int scope_close(lua_State *L) {
  scope *s = scope_at(L, 1);
  if (s != NULL) end_scope(L, self_of(L), s, 0);
  return 0;
}

/* A scope that was dropped without being closed ends without closing anything. */
static int scope_gc(lua_State *L) {
  scope *s = scope_at(L, 1);
  if (s != NULL) end_scope(L, self_of(L), s, 1);
  return 0;
}

/* Makes the box outlive scope number 'depth'. */
static void keep_box(fl_lua *b, fl_box *x, int64_t depth) {
  if (x->slot < 0) return;
  fl_tracked_box *t = &b->tracked.at[x->slot];
  if (t->depth >= depth) t->depth = depth - 1;
}

/* Lets a tensor outlive scope 'depth'; appends a table to the table 'queue', unless it was
** there. */
static void keep_value(lua_State *L, fl_lua *b, int i, int queue, int64_t *n, int64_t depth) {
  fl_box *x = box_at(L, i);
  if (x != NULL) keep_box(b, x, depth);
  if (lua_type(L, i) != LUA_TTABLE) return;
  lua_pushvalue(L, i);
  if (lua_rawget(L, queue) == LUA_TNIL) {
    lua_pushvalue(L, i);
    lua_rawseti(L, queue, ++*n);
    lua_pushvalue(L, i);
    lua_pushboolean(L, 1);
    lua_rawset(L, queue);
  }
  lua_pop(L, 1);
}

/* Lets all tensors in the values from 'first' to 'last', at any depth in tables, outlive scope
** 'depth'. */
static void keep_all(lua_State *L, fl_lua *b, int first, int last, int64_t depth) {
  int64_t n = 0;
  luaL_checkstack(L, 8, "too many values to keep");
  lua_newtable(L);
  const int queue = lua_gettop(L);
  for (int i = first; i <= last; i++) keep_value(L, b, i, queue, &n, depth);
  for (int64_t k = 1; k <= n; k++) {
    lua_rawgeti(L, queue, k);
    lua_pushnil(L);
    while (lua_next(L, queue + 1)) {
      keep_value(L, b, queue + 3, queue, &n, depth);
      keep_value(L, b, queue + 2, queue, &n, depth);
      lua_settop(L, queue + 2);
    }
    lua_settop(L, queue);
  }
  lua_settop(L, queue - 1);
}

static int scope_keep(lua_State *L) {
  fl_lua *b = self_of(L);
  scope *s = scope_at(L, 1);
  const int64_t depth = s != NULL ? find(b, s->serial) : 0;
  if (depth == 0) return fl_lua_fail(L, "scope", "the scope is closed");
  keep_all(L, b, 2, lua_gettop(L), depth);
  lua_settop(L, 2);
  return 1;
}

void fl_scope_metatable(lua_State *L, fl_lua *b) {
  lua_createtable(L, 0, 6);
  const luaL_Reg functions[] = { { "__close", scope_close }, { "__gc", scope_gc }, { "keep",
      scope_keep }, { "close", scope_close } };
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    fl_push_closure(L, b, functions[i].func);
    lua_setfield(L, -2, functions[i].name);
  }
  lua_pushliteral(L, "flame.scope");
  lua_setfield(L, -2, "__name");
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_scope);
}

static int after_scope(lua_State *L, int status, lua_KContext k) {
  fl_lua *b = self_of(L);
  scope *s = scope_at(L, 1);
  const int64_t depth = find(b, s->serial);
  const int top = lua_gettop(L);
  (void)status;
  (void)k;
  if (depth > 0 && top > 1) keep_all(L, b, 2, top, depth);
  return top - 1;
}

static int make_scope(lua_State *L) {
  fl_lua *b = self_of(L);
  const int with = fl_args(L) == 0;
  if (b->c == NULL) return fl_lua_raise(L, b);
  scope *s = (scope *)lua_newuserdatauv(L, sizeof *s, 0);
  *s = (scope){ SCOPE_MAGIC, 0 };
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_scope);
  lua_setmetatable(L, -2);
  fl_scope_mark *mark = FL_PUSH(&b->c->mem, &b->scopes);
  if (mark == NULL) return fl_lua_fail(L, "scope", "no host memory");
  mark->first = b->tracked.n;
  mark->site = fl_lua_site(L, b);
  mark->serial = s->serial = ++b->serial;
  if (!with) return 1;
  lua_insert(L, 1);
  lua_toclose(L, 1);
  lua_pushvalue(L, 1);
  lua_callk(L, 1, LUA_MULTRET, 0, after_scope);
  return after_scope(L, LUA_OK, 0);
}

/* internal.hold(x, …): no scope will close these (parameters, buffers, optimiser state). */
static int hold(lua_State *L) {
  for (int i = 1; i <= lua_gettop(L); i++) {
    fl_box *x = box_at(L, i);
    if (x != NULL) fl_box_untrack(self_of(L), x);
  }
  return lua_gettop(L);
}

/* internal.scopes(): how many are open. */
static int scopes(lua_State *L) {
  lua_pushinteger(L, self_of(L)->scopes.n);
  return 1;
}

const fl_lua_reg fl_reg_scope[] = {
  { ".scope(f: fn) -> ...\n.scope() -> Scope\n"
    "--- handles made inside are closed at its end; calls f, or gives a scope for <close>",
    make_scope, 0 },
  { "hold", hold, 0 }, { "scopes", scopes, 0 }, { NULL, NULL, 0 }
};
