/*
** Cycles through autograd's graph: a callback (a hook, or a function that a checkpoint runs again)
** refers to a tensor from which the graph leads back to the callback. Lua's collector sees that the
** function refers to the userdata, but not what the tensor reaches through entries (records of
** ops): so callbacks are anchored (held by a strong table) in the registry.
**
** For one collection callbacks can be loosened: a survey writes down, as Lua's own references, what
** each tensor reaches, and the table of callbacks becomes weak. The collector then decides exactly
** what is dead, including what only callbacks refer to: files, values of weak tables. This is right
** as long as the graph does not grow: code that would make a new path in it calls fl_anchor first,
** which undoes the loosening. If a part of the graph is freed, the survey keeps too much, which is
** safe.
**
** A survey has four steps.
**   1. Look through what callbacks reach in Lua for boxes. Lua has no way from a box to its
**      userdata, and only those found can be in a cycle.
**   2. Count the references of handles that are accounted for: boxes found, gradients, tensors
**      kept for callbacks. A handle with others (a box not found, the host's) is a root.
**   3. From the inputs up, find what each node reaches: nothing, a callback's function, what its
**      one input reaches, or a table of several of these. So there are no more tables than nodes.
**   4. Write it down: 'reach', a table with weak keys, has what each box found reaches; 'pinned',
**      a strong table, what roots reach, what the call under way borrows, and callbacks that no
**      handle reaches.
**
** A survey is made before a collection that the engine requests, and after one that the script
** requested by collectgarbage(), in preparation for the script's next one. For that a userdata, the
** watch, is finalised in each collection while there are callbacks; it is the library's oldest, so
** boxes that die with it are mostly gone by then. A backward walk holds nodes on its own: while one
** runs nothing is loosened.
*/
#include "base/num.h"
#include "lua/binding.h"

enum {
  LOOK_AT = 1 << 18,    /* step 1 examines at most this many values, and OWN more for each
                        ** callback. Boxes that it does not reach are taken as alive, so after a
                        ** survey that was cut short the next examines four times as many:
                        ** garbage that doubles between collections is found at last */
  OWN = 32              /* values for each callback that making it has paid for */
};
enum { AT_SURVEY = 1, AT_SEEN, AT_QUEUE, AT_FOUND, AT_COUNTS, AT_SETS, AT_REACH, AT_PINNED,
       AT_FUNCTIONS };

typedef struct survey {
  fl_lua *b;
  /* lengths of the queue, of the list of boxes found and of what is pinned; looked: values
  ** examined, at most 'most' */
  lua_Integer queued, looked, most, found, pinned;
  int64_t nodes, callbacks;              /* how many were examined */
  struct { fl_node **at; int64_t n, cap; } todo;
  int loose;                             /* result: there is something that could be freed */
} survey;

/* Puts the functions that a collection removed from the table of callbacks back into it: those
** whose callbacks wait for finalisers. One pass over the table of functions restores all of them;
** fl_callback_push would need a pass for each. */
static void restore_functions(lua_State *L, const survey *s) {
  const int callbacks = lua_gettop(L) + 1, lost = callbacks + 1;
  int any = 0;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_callbacks);
  lua_newtable(L);
  for (const fl_callback *f = s->b->callbacks; f != NULL; f = f->next) {
    if (lua_rawgeti(L, callbacks, f->id) == LUA_TNIL) {
      lua_pushboolean(L, any = 1);
      lua_rawseti(L, lost, f->id);
    }
    lua_pop(L, 1);
  }
  if (any && lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_functions) == LUA_TTABLE)
    for (lua_pushnil(L); lua_next(L, lost + 1) != 0; lua_pop(L, 1))
      for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
        const lua_Integer id = lua_tointeger(L, -2);
        const int is_lost = lua_rawgeti(L, lost, id) != LUA_TNIL;
        lua_pop(L, 1);
        if (!is_lost) continue;
        lua_pushvalue(L, -4);
        lua_rawseti(L, callbacks, id);
      }
  lua_settop(L, callbacks - 1);
}

/* ---- 1: boxes that callbacks reach ----------------------------------------------------------- */
/* Pops a value and puts it in the queue if it can refer to others and was not queued yet. */
static void enqueue(lua_State *L, survey *s) {
  const int type = lua_type(L, -1);
  s->looked++;
  if (type != LUA_TTABLE && type != LUA_TFUNCTION && type != LUA_TUSERDATA) {
    lua_pop(L, 1);
    return;
  }
  lua_pushvalue(L, -1);
  const int seen = lua_rawget(L, AT_SEEN) != LUA_TNIL;
  lua_pop(L, 1);
  if (!seen) {
    lua_pushvalue(L, -1);
    lua_pushboolean(L, 1);
    lua_rawset(L, AT_SEEN);
    lua_pushvalue(L, -1);
    lua_rawseti(L, AT_QUEUE, ++s->queued);
  }
  lua_pop(L, 1);
}

/* Pops a value and marks it as seen. */
static void pass_over(lua_State *L) {
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    return;
  }
  lua_pushboolean(L, 1);
  lua_rawset(L, AT_SEEN);
}

/* Marks as seen what is alive in any case: the globals, loaded modules, the library's own
** tables. */
static void pass_over_known(lua_State *L) {
  lua_pushvalue(L, LUA_REGISTRYINDEX);
  pass_over(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
  pass_over(L);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  pass_over(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_meta);
  pass_over(L);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_module) == LUA_TUSERDATA) {
    lua_getiuservalue(L, -1, 1);
    for (int i = 1; i <= 3; i++) {
      lua_rawgeti(L, -1, i);
      pass_over(L);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* Puts what the value on top refers to into the queue. */
static void look_at(lua_State *L, survey *s) {
  const int type = lua_type(L, -1), at = lua_gettop(L);
  if (type == LUA_TUSERDATA && box_at(L, at) != NULL) {
    lua_pushvalue(L, at);
    lua_rawseti(L, AT_FOUND, ++s->found);
    return;
  }
  if (type != LUA_TFUNCTION && lua_getmetatable(L, at)) enqueue(L, s);
  if (type == LUA_TFUNCTION) {
    for (int i = 1; lua_getupvalue(L, at, i) != NULL; i++) enqueue(L, s);
  } else if (type == LUA_TUSERDATA) {
    for (int i = 1; lua_getiuservalue(L, at, i) != LUA_TNONE; i++) enqueue(L, s);
    lua_settop(L, at);
  } else {
    for (lua_pushnil(L); s->looked < s->most && lua_next(L, at) != 0;) {
      enqueue(L, s);
      lua_pushvalue(L, -1);
      enqueue(L, s);
    }
    lua_settop(L, at);
  }
}

static void find_boxes(lua_State *L, survey *s) {
  pass_over_known(L);
  for (const fl_callback *f = s->b->callbacks; f != NULL; f = f->next) {
    fl_callback_push(L, f);
    enqueue(L, s);
    s->callbacks++;
  }
  s->most = fl_max(s->b->survey_looks, LOOK_AT + OWN * s->callbacks);
  for (lua_Integer i = 1; i <= s->queued && s->looked < s->most; i++) {
    lua_rawgeti(L, AT_QUEUE, i);
    look_at(L, s);
    lua_pop(L, 1);
  }
}

/* ---- 2: references that are accounted for ---------------------------------------------------- */
/* Does the tensor refer to other nodes of the graph? */
static int leads_on(const flame_tensor *t) {
  return t != NULL && ((t->node != NULL && t->node->entry != NULL) || t->grad != NULL);
}

static lua_Integer count_of(lua_State *L, const flame_tensor *t) {
  lua_rawgetp(L, AT_COUNTS, t);
  const lua_Integer n = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n;
}

static void count(lua_State *L, const flame_tensor *t) {
  if (!leads_on(t)) return;
  lua_pushinteger(L, count_of(L, t) + 1);
  lua_rawsetp(L, AT_COUNTS, t);
}

static flame_tensor *found_tensor(lua_State *L, lua_Integer i) {        /* pushes its userdata */
  lua_rawgeti(L, AT_FOUND, i);
  return box_at(L, -1)->t;
}

static void count_references(lua_State *L, const survey *s) {
  for (lua_Integer i = 1; i <= s->found; i++) {
    count(L, found_tensor(L, i));
    lua_pop(L, 1);
  }
  for (const flame_tensor *t = s->b->c->handles; t != NULL; t = t->next) count(L, t->grad);
  for (const fl_callback *f = s->b->callbacks; f != NULL; f = f->next)
    for (int i = 0; i < f->nkept; i++) count(L, f->kept[i]);
}

/* ---- 3: what nodes reach --------------------------------------------------------------------- */
static fl_callback *function_of(const fl_node *n) {
  const fl_custom *k = n->entry->custom;
  return k != NULL && k->release == fl_callback_drop ? (fl_callback *)k->arg : NULL;
}

/* The number of nodes to which a walk through the graph may continue from n. They include
** n->before, the value before an in-place write, since a refused write becomes a copy of it. */
static int ways_from(const fl_node *n) {
  const fl_callback *f = function_of(n);
  return n->entry->leaf ? 0 : n->nin + 2 + (f != NULL ? f->nkept : 0);
}

static fl_node *way_from(const fl_node *n, int i) {
  fl_node *to;
  if (i < n->nin) to = n->in[i];
  else if (i == n->nin) to = n->base;
  else if (i == n->nin + 1) to = n->before;
  else {
    const flame_tensor *t = function_of(n)->kept[i - n->nin - 2];
    to = t != NULL ? t->node : NULL;
  }
  return to != NULL && to->entry != NULL ? to : NULL;
}

/* Pops a set (what a node reaches) and joins it with the one below. *joined: the number of elements
** of the one below, if that is a table made here for joining; else 0. */
static void join(lua_State *L, lua_Integer *joined) {
  if (!lua_toboolean(L, -1) || lua_rawequal(L, -1, -2)) {
    lua_pop(L, 1);
  } else if (!lua_toboolean(L, -2)) {
    lua_replace(L, -2);
  } else {
    if (*joined == 0) {
      lua_createtable(L, 2, 0);
      lua_pushvalue(L, -3);
      lua_rawseti(L, -2, ++*joined);
      lua_replace(L, -3);
    }
    lua_rawseti(L, -2, ++*joined);
  }
}

static void join_callback(lua_State *L, fl_callback *f, lua_Integer *joined) {
  if (f == NULL) return;
  f->seen = 1;
  fl_callback_push(L, f);
  join(L, joined);
}

static int is_done(lua_State *L, const fl_node *n) {
  const int done = lua_rawgetp(L, AT_SETS, n) != LUA_TNIL;
  lua_pop(L, 1);
  return done;
}

static void push_todo(lua_State *L, survey *s, fl_node *n) {
  fl_node **top = FL_PUSH(&s->b->c->mem, &s->todo);
  if (top == NULL) luaL_error(L, "out of memory");
  else *top = n;
}

/* Everything that n leads to has been examined: stores what n reaches. */
static void finish(lua_State *L, survey *s, const fl_node *n) {
  lua_Integer joined = 0;
  lua_pushboolean(L, 0);
  for (int i = 0, k = ways_from(n); i < k; i++) {
    const fl_node *to = way_from(n, i);
    if (to == NULL) continue;
    lua_rawgetp(L, AT_SETS, to);
    join(L, &joined);
  }
  join_callback(L, function_of(n), &joined);
  join_callback(L, (fl_callback *)n->entry->hooks, &joined);
  lua_rawsetp(L, AT_SETS, n);
  s->nodes++;
}

/* Pushes what n reaches; false for nothing. */
static void push_reach(lua_State *L, survey *s, fl_node *n) {
  if (n == NULL || n->entry == NULL) {
    lua_pushboolean(L, 0);
    return;
  }
  s->todo.n = 0;
  push_todo(L, s, n);
  while (s->todo.n > 0) {
    const fl_node *m = s->todo.at[s->todo.n - 1];
    const int64_t before = s->todo.n;
    for (int i = 0, k = is_done(L, m) ? 0 : ways_from(m); i < k; i++) {
      fl_node *to = way_from(m, i);
      if (to != NULL && !is_done(L, to)) push_todo(L, s, to);
    }
    if (s->todo.n > before) continue;
    if (!is_done(L, m)) finish(L, s, m);
    s->todo.n--;
  }
  lua_rawgetp(L, AT_SETS, n);
}

/* Pushes what a handle's value and its gradients reach. */
static void push_reach_of(lua_State *L, survey *s, const flame_tensor *t) {
  lua_Integer joined = 0;
  lua_pushboolean(L, 0);
  for (; t != NULL; t = t->grad) {
    push_reach(L, s, t->node);
    join(L, &joined);
  }
}

/* ---- 4: who keeps what ----------------------------------------------------------------------- */
static void pin(lua_State *L, survey *s) {                              /* pops */
  if (lua_toboolean(L, -1)) lua_rawseti(L, AT_PINNED, ++s->pinned);
  else lua_pop(L, 1);
}

static void pin_roots(lua_State *L, survey *s) {
  const flame_context *c = s->b->c;
  for (const flame_tensor *t = c->handles; t != NULL; t = t->next) {
    if (!leads_on(t) || t->refs <= count_of(L, t)) continue;
    push_reach_of(L, s, t);
    pin(L, s);
  }
  for (int64_t i = 0; i < c->borrowed.n; i++) {
    push_reach(L, s, c->borrowed.at[i]);
    pin(L, s);
  }
}

static void note_reach(lua_State *L, survey *s) {
  for (lua_Integer i = 1; i <= s->found; i++) {
    push_reach_of(L, s, found_tensor(L, i));
    if (lua_toboolean(L, -1)) lua_rawset(L, AT_REACH);
    else lua_pop(L, 2);
  }
}

static void pin_unseen(lua_State *L, survey *s) {
  for (fl_callback *f = s->b->callbacks; f != NULL; f = f->next) {
    if (f->seen) continue;
    fl_callback_push(L, f);
    pin(L, s);
    for (int i = 0; i < f->nkept; i++) {
      push_reach_of(L, s, f->kept[i]);
      pin(L, s);
    }
  }
}

/* Stores the ids of each function, for fl_callback_push. */
static void note_functions(lua_State *L, const survey *s) {
  for (fl_callback *f = s->b->callbacks; f != NULL; f = f->next) {
    f->seen = 0;
    fl_callback_push(L, f);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, AT_FUNCTIONS) == LUA_TNIL) {
      lua_pop(L, 1);
      lua_createtable(L, 0, 1);
      lua_pushvalue(L, -2);
      lua_pushvalue(L, -2);
      lua_rawset(L, AT_FUNCTIONS);
    }
    lua_pushboolean(L, 1);
    lua_rawseti(L, -2, f->id);
    lua_pop(L, 2);
  }
}

static void weak_keys(lua_State *L, int at) {
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, at);
}

/* Runs under pcall, since it needs memory. Nothing in it runs scripts: the collector is stopped. */
static int run_survey(lua_State *L) {
  survey *s = (survey *)lua_touserdata(L, AT_SURVEY);
  luaL_checkstack(L, AT_FUNCTIONS + 20, "survey");
  for (int i = AT_SEEN; i <= AT_FUNCTIONS; i++) lua_newtable(L);
  weak_keys(L, AT_REACH);
  weak_keys(L, AT_FUNCTIONS);
  restore_functions(L, s);
  find_boxes(L, s);
  if (s->found == 0) return 0;                       /* then no callback is in a cycle */
  note_functions(L, s);
  count_references(L, s);
  pin_roots(L, s);
  note_reach(L, s);
  pin_unseen(L, s);
  lua_settop(L, AT_FUNCTIONS);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_functions);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_pinned);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_reach);
  s->loose = 1;
  return 0;
}

/* ---- loose and anchored ---------------------------------------------------------------------- */
/* Makes the table of callbacks weak, by the metatable of the table of boxes, or strong. */
static void set_callbacks_weak(lua_State *L, int weak) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_callbacks);
  if (weak) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_boxes);
    lua_getmetatable(L, -1);
    lua_remove(L, -2);
  } else lua_pushnil(L);
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}

void fl_cycles_loosen(lua_State *L, fl_lua *b) {
  flame_context *c = b->c;
  if (b->callbacks == NULL || c->walking || c->evaluating || !lua_checkstack(L, 8)) return;
  fl_anchor(c);
  const int running = lua_gc(L, LUA_GCISRUNNING) == 1;
  survey s = { .b = b };
  if (running) lua_gc(L, LUA_GCSTOP);
  lua_pushcfunction(L, run_survey);
  lua_pushlightuserdata(L, &s);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) lua_pop(L, 1);     /* no memory: everything stays anchored */
  FL_DROP(&c->mem, &s.todo);
  b->surveyed = c->sequence;
  b->survey_cost = fl_max(s.nodes, s.looked - OWN * s.callbacks);
  if (s.looked >= s.most) b->survey_looks = 4 * s.most;
  if (s.loose) {
    set_callbacks_weak(L, 1);
    c->collector.loose = 1;
  }
  if (running) lua_gc(L, LUA_GCRESTART);
}

/* Has enough been recorded since the last survey to make another one? The engine's decision to do
** a full collection counts the cost of traversing the heap, but not of surveying the graph. So a
** survey that the script did not request waits until as many entries (ops) were recorded as the
** last survey looked at nodes, or at Lua values, not counting those that each callback has
** anyway. */
int fl_cycles_due(const fl_lua *b) { return b->c->sequence - b->surveyed >= b->survey_cost; }

/* Undoes fl_cycles_loosen. Needs no memory, since the keys exist. If a finaliser made a graph
** survive whose functions the collector has removed, the table fl_key_functions becomes strong
** until the next survey stores them again. */
void fl_cycles_anchor(void *binding) {
  fl_lua *b = (fl_lua *)binding;
  lua_State *L = fl_lua_thread(b);
  if (!lua_checkstack(L, 6)) return;
  b->c->collector.loose = 0;
  set_callbacks_weak(L, 0);
  int lost = 0;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_callbacks);
  for (const fl_callback *f = b->callbacks; f != NULL && !lost; f = f->next) {
    lost = lua_rawgeti(L, -1, f->id) == LUA_TNIL;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  static const char *const keys[] = { &fl_key_reach, &fl_key_pinned, &fl_key_functions };
  for (int i = 0; i < 3 - lost; i++) {
    lua_pushboolean(L, 0);
    lua_rawsetp(L, LUA_REGISTRYINDEX, keys[i]);
  }
  if (!lost) return;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_functions);
  lua_pushnil(L);
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}

/* ---- the watch ------------------------------------------------------------------------------- */
/* Was the running collection requested by the script, or by a host while no function of the library
** runs? */
static int asked_for(lua_State *L, const fl_lua *b) {
  lua_Debug caller;
  if (!lua_getstack(L, 1, &caller)) return 1;
  lua_getinfo(L, "f", &caller);
  const lua_CFunction f = lua_tocfunction(L, -1);
  lua_pop(L, 1);
  return f != NULL && f == b->collectgarbage;
}

/* The finaliser of the watch, a userdata that dies in each collection: makes it finalisable again.
** Without callbacks it is stored in the registry, so that it does not die. */
static int watch_gc(lua_State *L) {
  fl_lua *b = self_of(L);
  if (b->c == NULL || !lua_getmetatable(L, 1)) return 0;
  lua_setmetatable(L, 1);
  if (b->callbacks != NULL) {
    if (asked_for(L, b)) fl_cycles_loosen(L, b);
    return 0;
  }
  lua_pushvalue(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_watch);
  return 0;
}

void fl_cycles_init(lua_State *L, fl_lua *b) {
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_callbacks);
  static const char *const keys[] = { &fl_key_reach, &fl_key_pinned, &fl_key_functions };
  for (int i = 0; i < 3; i++) {
    lua_pushboolean(L, 0);
    lua_rawsetp(L, LUA_REGISTRYINDEX, keys[i]);
  }
  lua_newuserdatauv(L, 1, 1);   /* its user value holds the binding's state, which is otherwise
                                ** freed first if opening failed */
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_state);
  lua_setiuservalue(L, -2, 1);
  lua_createtable(L, 0, 1);
  fl_push_closure(L, b, watch_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_watch);
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
  lua_pushliteral(L, "collectgarbage");
  lua_rawget(L, -2);
  b->collectgarbage = lua_tocfunction(L, -1);
  lua_pop(L, 2);
}
