/*
** Where a script's time goes, by call stack: a tree of calls with the time spent in each itself,
** recorded by a hook on calls and returns. tools/flamegraph.lua reads it. A Lua frame is identified
** by its thread and function. A coroutine's frames are on top of those of the resuming thread;
** frames left by an error or a yield are removed at the next return of a lower frame, so a return
** whose frame is missing belongs to one of these and changes nothing. Time in the hook is excluded.
** Calls deeper than MOST_DEEP, or beyond MOST_NODES, count for their caller.
*/
#include "lua/binding.h"
#include "device/trace.h"
#include "lua/hook.h"
#include <stdio.h>
#include <string.h>

enum { MOST_DEEP = 257, MOST_NODES = 1 << 16, NAME = 96 };

typedef struct node {
  int32_t parent, child, next;         /* the caller; the first call in it; the next call of its
                                       ** caller; -1: none */
  int64_t calls;
  double ms;                           /* without the functions that it calls */
  const void *function;                /* the function that was called last for this node */
  char name[NAME];                     /* "step (train.lua:8)", "matmul" */
} node;

typedef struct frame { const lua_State *thread; const void *function; int32_t node; } frame;

typedef struct stacks {
  fl_lua *b;
  struct { node *at; int64_t n, cap; } nodes;        /* the first is the function that began the
                                                     ** recording */
  struct { frame *at; int64_t n, cap; } frames;
  double last;                         /* time up to which calls are accounted for */
  lua_Hook before;                     /* the script's own */
  int before_mask, before_count;
} stacks;

static const char key_stacks;          /* in the registry: the recording, a userdata */

static stacks *recording(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_stacks);
  stacks *s = (stacks *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return s;
}

static int32_t top(const stacks *s) {
  return s->frames.n ? s->frames.at[s->frames.n - 1].node : 0;
}

static void name_call(lua_State *L, lua_Debug *ar, char out[NAME]) {
  lua_getinfo(L, "nS", ar);
  const char *file = strrchr(ar->short_src, '/');
  file = file ? file + 1 : ar->short_src;
  if (ar->what[0] == 'C') snprintf(out, NAME, "%.80s", ar->name ? ar->name : "[C]");
  else if (ar->what[0] == 'm') snprintf(out, NAME, "main chunk (%.60s)", file);
  else snprintf(out, NAME, "%.40s (%.40s:%d)", ar->name ? ar->name : "function", file,
                ar->linedefined);
}

/* The node of this call in 'parent': one with the same function, or with the same name, as closures
** made by one line have. */
static int32_t node_of_call(lua_State *L, stacks *s, lua_Debug *ar, const void *f, int32_t parent) {
  char name[NAME];
  int32_t k = s->nodes.at[parent].child;
  for (; k >= 0; k = s->nodes.at[k].next) if (s->nodes.at[k].function == f) return k;
  name_call(L, ar, name);
  for (k = s->nodes.at[parent].child; k >= 0; k = s->nodes.at[k].next)
    if (strcmp(s->nodes.at[k].name, name) == 0) break;
  if (k < 0) {
    node *n = s->nodes.n < MOST_NODES ? FL_PUSH(&s->b->c->mem, &s->nodes) : NULL;
    if (n == NULL) return parent;
    k = (int32_t)(s->nodes.n - 1);
    *n = (node){ .parent = parent, .child = -1, .next = s->nodes.at[parent].child };
    memcpy(n->name, name, NAME);
    s->nodes.at[parent].child = k;
  }
  s->nodes.at[k].function = f;
  return k;
}

static void enter(lua_State *L, stacks *s, lua_Debug *ar, const void *f, int tail) {
  if (tail && s->frames.n) s->frames.n--;
  const int32_t parent = top(s);
  const int32_t k = s->frames.n < MOST_DEEP ? node_of_call(L, s, ar, f, parent) : parent;
  if (k != parent) s->nodes.at[k].calls++;
  frame *at = FL_PUSH(&s->b->c->mem, &s->frames);
  if (at != NULL) *at = (frame){ L, f, k };
}

static void leave(const lua_State *L, stacks *s, const void *f) {
  int64_t k = s->frames.n;
  while (k > 0 && (s->frames.at[k - 1].thread != L || s->frames.at[k - 1].function != f)) k--;
  if (k > 0) s->frames.n = k - 1;
}

static void note(lua_State *L, fl_lua *b, lua_Debug *ar) {
  stacks *s = recording(L);
  const double now = fl_trace_now();
  if (s == NULL || b->c == NULL) return;
  s->nodes.at[top(s)].ms += now - s->last;
  lua_getinfo(L, "f", ar);
  const void *f = lua_topointer(L, -1);
  lua_pop(L, 1);
  if (ar->event == LUA_HOOKRET) leave(L, s, f);
  else enter(L, s, ar, f, ar->event == LUA_HOOKTAILCALL);
  s->last = fl_trace_now();
}

/* Frees a recording that was not stopped, such as one in an abandoned coroutine. */
static int forget(lua_State *L) {
  stacks *s = (stacks *)lua_touserdata(L, 1);
  if (s->b->c == NULL) return 0;
  if (recording(L) == s) s->b->noted = NULL;     /* the state ends */
  FL_DROP(&s->b->c->mem, &s->nodes);
  FL_DROP(&s->b->c->mem, &s->frames);
  return 0;
}

/* internal.stacks_start(). false: a recording is on already. */
static int stacks_start(lua_State *L) {
  fl_lua *b = self_of(L);
  if (b->c == NULL) fl_lua_raise(L, b);
  if (recording(L) != NULL) return lua_pushboolean(L, 0), 1;
  stacks *s = (stacks *)lua_newuserdatauv(L, sizeof *s, 0);
  memset(s, 0, sizeof *s);
  s->b = b;
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, forget);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  node *root = FL_PUSH(&b->c->mem, &s->nodes);
  if (root == NULL) return fl_lua_fail(L, "flamegraph", "no host memory");
  *root = (node){ .parent = -1, .child = -1, .next = -1 };
  s->before = lua_gethook(L);
  s->before_mask = lua_gethookmask(L);
  s->before_count = lua_gethookcount(L);
  if (!fl_hook_note(L, b, note)) return lua_pushboolean(L, 0), 1;
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_stacks);
  s->last = fl_trace_now();
  return lua_pushboolean(L, 1), 1;
}

/* internal.stacks_stop(): a list of {name, parent = its index in the list or 0, calls =, ms = in
** itself}; nil if none is on. */
static int stacks_stop(lua_State *L) {
  stacks *s = recording(L);
  if (s == NULL) return 0;
  fl_hook_note(L, s->b, NULL);
  if (s->before && !lua_gethook(L)) lua_sethook(L, s->before, s->before_mask, s->before_count);
  s->nodes.at[top(s)].ms += fl_trace_now() - s->last;
  lua_createtable(L, (int)s->nodes.n, 0);
  for (int64_t i = 1; i < s->nodes.n; i++) {
    const node *n = &s->nodes.at[i];
    lua_createtable(L, 0, 4);
    lua_pushstring(L, n->name);
    lua_setfield(L, -2, "name");
    lua_pushinteger(L, n->parent);
    lua_setfield(L, -2, "parent");
    lua_pushinteger(L, n->calls);
    lua_setfield(L, -2, "calls");
    lua_pushnumber(L, n->ms);
    lua_setfield(L, -2, "ms");
    lua_rawseti(L, -2, (lua_Integer)i);
  }
  FL_DROP(&s->b->c->mem, &s->nodes);
  FL_DROP(&s->b->c->mem, &s->frames);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_stacks);
  return 1;
}

const fl_lua_reg fl_reg_stacks[] = {
  { "stacks_start", stacks_start, 0 }, { "stacks_stop", stacks_stop, 0 }, { NULL, NULL, 0 }
};
