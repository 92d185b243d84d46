/*
** Sandboxes: flame.sandbox (lua/flame/tools/sandbox.lua) is a state of flame_lua_new on the same
** thread, whose context's memory is counted by its caller's too. For each call its limits are the
** smaller of those set for it and what its caller has left; what it uses counts for its caller too.
** An error in it becomes a text here, and no error jumps across states: each call is protected in
** the sandbox's own state. A sandbox is in its context's memory and in a list of the binding, like
** crews (crew.c).
*/
#include "lua/bounded.h"
#include "base/num.h"
#include "lua/cross.h"
#include "lua/embedded.h"
#include "lua/hook.h"
#include "io/io.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { FOLDER = 4096,               /* bytes of a path */
       MUCH = 16 << 20 };           /* bytes: a sandbox that used so many at once gives the process'
                                    ** free memory back to the system when it ends */

struct fl_sandbox {
  fl_lua *b;                        /* the caller's */
  fl_sandbox *next, **link;         /* of fl_lua.sandboxes */
  lua_State *I;                     /* its own state */
  lua_State *L;                     /* the caller's thread, during a call */
  int self, failed;                 /* stack index of the sandbox in L; 1: print has raised */
  int64_t own[FLAME_LIMITS];        /* the limits set for it; 0: none */
};

static const char sandbox_mark;

static void sandbox_end(fl_sandbox *x) {
  if (x->next) x->next->link = x->link;
  *x->link = x->next;
  const int much = flame_lua_context(x->I)->mem.peak_bytes >= MUCH;
  lua_close(x->I);
  fl_free(&x->b->c->mem, x, sizeof *x);
  if (much) fl_mem_trim();
}

void fl_sandboxes_end(fl_lua *b) { while (b->sandboxes) sandbox_end(b->sandboxes); }

static int box_gc(lua_State *L) {
  fl_sandbox **slot = (fl_sandbox **)fl_lua_marked(L, 1, &sandbox_mark);
  if (slot == NULL) return 0;
  if (*slot && (*slot)->L) return luaL_error(L, "sandbox: it can not be closed while it runs");
  if (*slot && self_of(L)->c) sandbox_end(*slot);
  *slot = NULL;
  return 0;
}

static fl_sandbox *box_of(lua_State *L) {
  fl_sandbox **slot = (fl_sandbox **)fl_lua_marked(L, 1, &sandbox_mark);
  if (slot == NULL) fl_lua_fail(L, "sandbox", "need a sandbox, got %s", luaL_typename(L, 1));
  if (*slot == NULL) fl_lua_fail(L, "sandbox", "it is closed");
  if ((*slot)->L != NULL) fl_lua_fail(L, "sandbox", "it runs already");
  return *slot;
}

/* ---- output ---------------------------------------------------------------------------------- */

/* The print function is the first user value of the sandbox. If it raises, the sandbox's call
** ends. */
static void print(void *arg, const char *s, size_t n) {
  fl_sandbox *x = (fl_sandbox *)arg;
  lua_State *L = x->L;
  const fl_limits *l = &x->b->c->limits;
  if (L == NULL || x->failed || !lua_checkstack(L, 6)) return;
  if (lua_getiuservalue(L, x->self, 1) == LUA_TNIL) {
    lua_pop(L, 1);
    if (l->print) l->print(l->arg, s, n);
    else fwrite(s, 1, n, stdout);
    return;
  }
  fl_lua *inner = x->b->inner;
  x->b->inner = NULL;                       /* the caller runs during this */
  lua_pushlstring(L, s, n);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
    lua_setiuservalue(L, x->self, 2);
    x->failed = 1;
    fl_stick(flame_lua_context(x->I), FL_STUCK_INTERRUPTED);
  }
  x->b->inner = inner;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int64_t integer_field(lua_State *L, int i, const char *name) {
  lua_getfield(L, i, name);
  const int64_t v = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return v;
}

/* What is left of a limit of the caller, which holds for the sandbox too. 0: no limit, or one that
** needs no copy: memory counts for the caller, and the total time is part of that of a call. */
static int64_t left_of(fl_lua *b, int which) {
  const fl_limits *l = &b->c->limits;
  const int64_t most = l->most[which];
  if (which == FLAME_CALL_NS) {
    const int64_t total = l->most[FLAME_TOTAL_NS] - atomic_load(&l->used[FLAME_TOTAL_NS]);
    const int of_total = l->most[FLAME_TOTAL_NS] > 0 && (most <= 0 || total < most);
    const int64_t of_call = of_total ? total : most;
    if (most <= 0 && l->most[FLAME_TOTAL_NS] <= 0) return 0;
    return fl_max(of_call - (l->depth ? fl_now_ns() - l->began : 0), 1);
  }
  if (most <= 0 || which == FLAME_TOTAL_NS || which <= FLAME_DEVICE_BYTES) return 0;
  return fl_max(most - flame_limit_used(b->c, (flame_limit)which), 1);
}

static void set_limits(const fl_sandbox *x) {
  flame_context *c = flame_lua_context(x->I);
  for (int k = 0; k <= FLAME_OUTPUT_BYTES; k++) {
    const int64_t left = left_of(x->b, k), own = x->own[k];
    flame_limit_set(c, (flame_limit)k, left > 0 && (own <= 0 || left < own) ? left : own);
  }
}

/* The folder of a new sandbox: 'part', or in a state with a folder the path of 'part' below it,
** checked as the state's files are. */
static const char *folder_beneath(lua_State *L, fl_lua *b, const char *part, char path[FOLDER]) {
  flame_context *c = b->c;
  const uint32_t deny = c->limits.deny;
  const char *name;
  char link[40];
  if (!c->limits.folder) return part;
  if (strcmp(part, ".") == 0 || (deny & FLAME_READ && deny & FLAME_WRITE)) return c->limits.folder;
  const int fd = deny & FLAME_READ ? fl_file_parent(c, lua_pushfstring(L, "%s/-", part), &name)
                                   : fl_file_open(c, part, O_RDONLY | O_DIRECTORY, 0);
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = fd < 0 ? -1 : readlink(link, path, FOLDER);
  const int why = errno;
  if (fd >= 0) close(fd);
  if (n < 0 || n >= FOLDER) {
    fl_lua_fail(L, "sandbox", "folder '%s': %s", part, n < 0 ? fl_file_error(why) : "long path");
    return NULL;
  }
  path[n] = 0;
  return path;
}

/* Reads the options; their texts stay on the stack. */
static flame_options read_options(lua_State *L, fl_lua *b, char folder[FOLDER]) {
  flame_options o = { .size = sizeof o, .print = print,
                      .threads = (int)integer_field(L, 1, "threads"),
                      .deny = (uint32_t)integer_field(L, 1, "deny") | b->c->limits.deny,
                      .allow = b->c->limits.allow };
  lua_getfield(L, 1, "folder");
  o.folder = folder_beneath(L, b, luaL_checkstring(L, -1), folder);
  lua_getfield(L, 1, "device");
  o.device = lua_tostring(L, -1);
  for (int k = 0; k <= FLAME_OUTPUT_BYTES; k++) {
    lua_rawgeti(L, 1, k);
    o.limit[k] = lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  return o;
}

/* ({limits by number from 0, deny =, folder =, threads =, device =}, print or nil) -> a sandbox */
static int box_open(lua_State *L) {
  fl_lua *b = self_of(L);
  char why[FL_LUA_WHY], folder[FOLDER];
  if (b->c == NULL) return fl_lua_raise(L, b);
  lua_settop(L, 2);
  luaL_checktype(L, 1, LUA_TTABLE);
  if (!lua_isnil(L, 2)) luaL_checktype(L, 2, LUA_TFUNCTION);
  flame_options o = read_options(L, b, folder);
  fl_sandbox **slot = (fl_sandbox **)lua_newuserdatauv(L, sizeof *slot, 2);
  *slot = NULL;
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, -2, 1);
  lua_createtable(L, 0, 2);
  fl_lua_mark(L, &sandbox_mark);
  fl_push_closure(L, b, box_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_code);
  const void *code = lua_touserdata(L, -1);
  lua_pop(L, 1);
  fl_sandbox *x = (fl_sandbox *)fl_zalloc(&b->c->mem, sizeof *x);
  if (x == NULL) return fl_lua_fail(L, "sandbox", "no host memory");
  *x = (fl_sandbox){ .b = b };
  memcpy(x->own, o.limit, sizeof x->own);
  o.arg = x;
  if (fl_lua_new_inside(&o, b->c, code, &x->I, why) != FLAME_OK) {
    fl_free(&b->c->mem, x, sizeof *x);
    return fl_lua_fail(L, "sandbox", "%s", why[0] ? why : "no host memory");
  }
  x->next = b->sandboxes;
  x->link = &b->sandboxes;
  if (x->next) x->next->link = &x->next;
  b->sandboxes = x;
  *slot = x;
  return 1;
}

/* ---- calls ----------------------------------------------------------------------------------- */

typedef struct request {
  lua_State *from;
  int first, n;
  const char *text, *name;
  size_t size;
} request;

/* In the sandbox's state: (request) -> results. If the request has a text, runs it as a chunk with
** the name; else calls the global function with that name. */
static int answer(lua_State *I) {
  const request *r = (const request *)lua_touserdata(I, 1);
  lua_settop(I, 0);
  if (r->text) {
    lua_pushlstring(I, r->text, r->size);
    const int status = fl_bounded_load(I, fl_hook_of(I), 1, r->name);
    if (status != LUA_OK) return lua_error(I);
    lua_replace(I, 1);
  } else if (lua_getglobal(I, r->name) == LUA_TNIL) {
    return luaL_error(I, "there is no global function '%s'", r->name);
  }
  lua_settop(I, 1);
  fl_cross(r->from, r->first, r->n, I);
  lua_call(I, r->n, LUA_MULTRET);
  return lua_gettop(I);
}

/* Adds what the sandbox has used to what its caller has used. */
static void pass_on(fl_lua *b, flame_context *c) {
  for (int k = FLAME_LUA_STEPS; k <= FLAME_OUTPUT_BYTES; k++)
    fl_use(b->c, k, atomic_load(&c->limits.used[k]));
}

static int call_inside(lua_State *L, fl_sandbox *x, request *r) {
  flame_context *c = flame_lua_context(x->I);
  x->L = L;
  x->self = 1;
  x->failed = 0;
  lua_settop(x->I, 0);
  set_limits(x);
  x->b->inner = fl_hook_of(x->I);
  flame_context *before = fl_run_inside(x->b->c, c);
  lua_pushcfunction(x->I, answer);
  lua_pushlightuserdata(x->I, r);
  const int status = flame_lua_pcall(x->I, 1, LUA_MULTRET, 0);
  fl_run_inside(x->b->c, before);
  x->b->inner = NULL;
  x->L = NULL;
  pass_on(x->b, c);
  return status;
}

/* Pushes the message of the error on top of the sandbox's stack, as text. */
static void push_message(lua_State *L, lua_State *I) {
  const int t = lua_type(I, -1);
  if (t == LUA_TSTRING) {
    size_t n;
    const char *s = lua_tolstring(I, -1, &n);
    lua_pushlstring(L, s, n);
  } else if (t == LUA_TNUMBER) {
    lua_pushfstring(L, "%f", lua_tonumber(I, -1));
  } else {
    lua_pushfstring(L, "(error object is a %s value)", luaL_typename(I, -1));
  }
}

/* true, results; or false, message */
static int finish(lua_State *L, fl_sandbox *x, int status, int top) {
  fl_lua *b = self_of(L);
  lua_settop(L, top);
  fl_hook_look(L, b);
  if (x->failed) {
    lua_getiuservalue(L, 1, 2);
    return lua_error(L);
  }
  lua_pushboolean(L, status == LUA_OK);
  if (status == LUA_OK) fl_cross(x->I, 1, lua_gettop(x->I), L);
  else push_message(L, x->I);
  lua_settop(x->I, 0);
  return lua_gettop(L) - top;
}

/* (sandbox, text, name of the chunk, …) */
static int box_run(lua_State *L) {
  fl_sandbox *x = box_of(L);
  const int top = lua_gettop(L);
  request r = { .from = L, .first = 4, .n = top > 3 ? top - 3 : 0 };
  r.text = luaL_checklstring(L, 2, &r.size);
  r.name = luaL_checkstring(L, 3);
  if (fl_is_library(r.name)) return luaL_argerror(L, 3, "the name of one of flame's own files");
  return finish(L, x, call_inside(L, x, &r), top);
}

/* (sandbox, name of a global function, …) */
static int box_call(lua_State *L) {
  fl_sandbox *x = box_of(L);
  const int top = lua_gettop(L);
  request r = { .from = L, .first = 3, .n = top - 2, .name = luaL_checkstring(L, 2) };
  return finish(L, x, call_inside(L, x, &r), top);
}

/* (sandbox) -> how much of each limit is in use or used up, by the limit's number from 0 on */
static int box_used(lua_State *L) {
  fl_sandbox *x = box_of(L);
  lua_newtable(L);
  for (int k = 0; k <= FLAME_OUTPUT_BYTES; k++) {
    lua_pushinteger(L, flame_limit_used(flame_lua_context(x->I), (flame_limit)k));
    lua_rawseti(L, -2, k);
  }
  return 1;
}

const fl_lua_reg fl_reg_sandbox[] = {
  { "sandbox_open", box_open, 0 }, { "sandbox_run", box_run, 0 }, { "sandbox_call", box_call, 0 },
  { "sandbox_used", box_used, 0 }, { "sandbox_close", box_gc, 0 }, { NULL, NULL, 0 }
};
