/*
** Boxes: the userdata that stand for tensors in Lua.
**
** A box owns one reference of its handle (flame_tensor). A handle that the library holds, as
** x.grad, is the key of its box in a weak table, so that a script always gets the same userdata:
** tensors are compared and used as table keys by identity. Lua removes a weak entry before it
** finalises the box, so a reused address has no old entry. Boxes made while a scope is open are in
** fl_lua.tracked until the scope closes them.
*/
#include "lua/binding.h"

const char fl_key_state = 0, fl_key_meta = 0, fl_key_boxes = 0, fl_key_chunks = 0,
           fl_key_module = 0, fl_key_error = 0, fl_key_guard = 0, fl_key_scope = 0,
           fl_key_thread = 0, fl_key_callbacks = 0, fl_key_functions = 0, fl_key_reach = 0,
           fl_key_pinned = 0, fl_key_watch = 0, fl_key_sizes = 0, fl_key_newaxis = 0;

enum { CHUNK = 64 };

/* Makes more boxes, in memory that the registry holds. */
static void refill(lua_State *L, fl_lua *b) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_chunks);
  fl_box *x = (fl_box *)lua_newuserdatauv(L, CHUNK * sizeof *x, 0);
  lua_rawseti(L, -2, ++b->chunks);
  lua_pop(L, 1);
  for (int i = 0; i < CHUNK; i++) {
    x[i].next = b->unused;
    b->unused = &x[i];
  }
}

/* Pushes a userdata with a new box. The allocation may run finalisers, which may make boxes. */
static fl_box *push_box(lua_State *L, fl_lua *b) {
  if (b->c != NULL) fl_anchor(b->c);
  fl_box_ref *r = (fl_box_ref *)lua_newuserdatauv(L, sizeof *r, 0);
  *r = (fl_box_ref){ FL_BOX_MAGIC, NULL };
  while (b->unused == NULL) refill(L, b);
  fl_box *x = r->box = b->unused;
  b->unused = x->next;
  *x = (fl_box){ .slot = -1, .next = b->boxes };
  if (b->boxes != NULL) b->boxes->prev = x;
  b->boxes = x;
  if (b->scopes.n > 0) fl_scope_track(b, x);
  return x;
}

fl_box *fl_box_new(lua_State *L) {
  fl_box *x = push_box(L, self_of(L));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_setmetatable(L, -2);
  return x;
}

fl_box *fl_box_new_in(lua_State *L, fl_lua *b) {
  fl_box *x = push_box(L, b);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_meta);
  lua_setmetatable(L, -2);
  return x;
}

void fl_box_finalise(lua_State *L, fl_lua *b, int i) {
  fl_box *x = box_at(L, i);
  if (x == NULL) return;                         /* a script may call this through
                                                 ** debug.getmetatable */
  ((fl_box_ref *)lua_touserdata(L, i))->box = NULL;
  fl_box_close(b, x, 0);
  if (x->prev != NULL) x->prev->next = x->next;
  else b->boxes = x->next;
  if (x->next != NULL) x->next->prev = x->prev;
  x->next = b->unused;
  b->unused = x;
}

void fl_box_close(fl_lua *b, fl_box *x, uint32_t why) {
  flame_tensor *t = x->t;
  fl_box_untrack(b, x);
  x->t = NULL;
  x->closed = why;
  if (t != NULL && b->c != NULL) fl_tensor_release(t);
}

fl_node *fl_box_dead(fl_lua *b, const fl_box *x) {
  char place[96];
  const uint32_t site = x->closed & ~FL_BOX_FREED;
  if (x->closed & FL_BOX_FREED)
    FL_FAIL(b->c, FLAME_BAD_ARGUMENT, "", "tensor was freed at %s", fl_site_text(b, site, place));
  else if (x->closed != 0)
    FL_FAIL(b->c, FLAME_BAD_ARGUMENT, "",
            "closed by the scope of %s" FL_DO ": return it or s:keep(it)",
            fl_site_text(b, site, place));
  else
    FL_FAIL(b->c, FLAME_BAD_ARGUMENT, "", "tensor has no value: the call that made it failed");
  return NULL;
}

void fl_box_remember(lua_State *L, int i) {
  const fl_box *x = box_at(L, i);
  if (x == NULL || x->t == NULL) return;
  i = lua_absindex(L, i);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_boxes);
  lua_pushvalue(L, i);
  lua_rawsetp(L, -2, x->t);
  lua_pop(L, 1);
}

int fl_box_find(lua_State *L, const flame_tensor *t) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_boxes);
  lua_rawgetp(L, -1, t);
  const fl_box *x = box_at(L, -1);
  if (x != NULL && x->t == t) {
    lua_remove(L, -2);
    return 1;
  }
  lua_pop(L, 2);
  return 0;
}

void fl_box_name(lua_State *L, fl_lua *b, fl_box *x, flame_tensor *t) {
  fl_box_untrack(b, x);
  x->t = fl_tensor_retain(t);
  fl_box_remember(L, -1);
}

void fl_box_push(lua_State *L, fl_lua *b, flame_tensor *t) {
  if (!fl_box_find(L, t)) fl_box_name(L, b, fl_box_new_in(L, b), t);
}

/* If the name is that of a method and an underscore, reports that there is no such write. */
static void refuse_write(lua_State *L, int methods, const char *name) {
  const size_t n = strlen(name);
  if (n < 2 || name[n - 1] != '_') return;
  lua_pushlstring(L, name, n - 1);
  const char *const stem = lua_tostring(L, -1);
  lua_pushvalue(L, -1);
  int t = lua_rawget(L, methods);
  if (t == LUA_TNIL) t = fl_chapter_find(L, self_of(L), methods, "", stem);
  if (t != LUA_TNIL && t != LUA_TNUMBER)
    fl_lua_fail(L, "", "a tensor has no field '%.60s'" FL_DO ": write x = x:%.60s(…)", name, stem);
}

int fl_box_unknown(lua_State *L, int methods, const char *name) {
  static const char *const known[][2] = {        /* PyTorch's names that mean something else here */
    { "data", "x:detach() is its value, and what flame.no_grad(f) runs may write to x" }, { "numpy",
        "x:totable() is a table, flame.save(\"x.npy\", x) a file" },
    { "repeat", "a word of Lua: x:tile(…)" }, { "grad_fn", "flame.graph(x) is what is recorded" } };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(name, known[i][0]) == 0)
      return fl_lua_fail(L, "", "a tensor has no field '%s'" FL_DO ": %s", name, known[i][1]);
  refuse_write(L, methods, name);
  fl_word_guess g = fl_word_begin(name);
  fl_offer_keys(L, methods, &g);
  if (!*g.best) return fl_lua_fail(L, "", "a tensor has no field '%.60s'", name);
  return fl_lua_fail(L, "", "a tensor has no field '%.60s'" FL_DO ": did you mean '%s'?", name,
                     g.best);
}
