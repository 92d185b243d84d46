/*
** The libraries of a state with limits. Scripts see a table of globals in which nothing runs long,
** or takes memory, without the hook noticing: C functions that may run long poll themselves
** (table.c, string.c) or are called through a function that polls first; those that take little
** time whatever their arguments are Lua's own. Left out are debug, package, string.dump, functions
** that end the process or start another one, finalisers, binary chunks, and control of the
** collector.
**
** Files of the library see other globals (fl_key_library): Lua's own, in which pcall, print,
** string, table, io, os and others are replaced by those of scripts (os has remove too), and
** package, dofile and loadfile find no files.
*/
#include "lua/bounded.h"
#include "lua/hook.h"
#include <stdio.h>

const char fl_key_library;

enum { READ_PART = 256,             /* bytes that the parser gets at a time */
       BYTES_A_STEP = 4,            /* of a text that is parsed */
       FAILED_STEPS = 100,          /* charged for a protected call that failed */
       STRING_BYTES_A_STEP = 64,    /* of arguments */
       FEW = 8,                     /* up to so many arguments or results are not counted */
       MOST_BYTES = 64 << 20 };     /* of text in a call with more arguments */

/* ---- functions that poll first --------------------------------------------------------------- */

/* Charges steps for the strings among n arguments, since a function's time is proportional to their
** length. One string may be passed thousands of times, which a memory limit does not prevent. */
static void charge_arguments(lua_State *L, fl_lua *b, int n) {
  size_t bytes = 0;
  for (int i = n; i > 0; i--)
    if (lua_type(L, i) == LUA_TSTRING) bytes += lua_rawlen(L, i);
  if (n > FEW && bytes > MOST_BYTES)
    luaL_error(L, "%d arguments with %I bytes of text, a state with limits takes at most %d in a "
               "call: give them in several calls", n, (LUAI_UACINT)bytes, MOST_BYTES);
  fl_hook_charge(L, b, (long long)(bytes / STRING_BYTES_A_STEP));
}

/* What upvalue 1 of the wrappers below holds: the binding, and a C function of Lua's libraries. */
typedef struct own_function { fl_lua *b; lua_CFunction f; } own_function;

static int polled(lua_State *L) {
  const own_function *own = (const own_function *)lua_touserdata(L, lua_upvalueindex(1));
  fl_lua *b = own->b;
  const int n = lua_gettop(L);
  if (n > FEW || (b->c != NULL && b->c->limits.most[FLAME_LUA_STEPS] > 0))
    charge_arguments(L, b, n);
  else if (b->c != NULL && (fl_must_end(b->c) || b->struck)) fl_hook_look(L, b);
  return own->f(L);
}

/* Polls after the call, for a function whose time depends on its results, such as string.byte. */
static int polled_after(lua_State *L) {
  const own_function *own = (const own_function *)lua_touserdata(L, lua_upvalueindex(1));
  const int n = own->f(L);
  if (n > FEW) fl_hook_charge(L, own->b, n);
  return n;
}

static void add(lua_State *L, fl_lua *b, int from, const char *names, lua_CFunction how) {
  const int to = lua_gettop(L);
  from = lua_absindex(L, from);
  for (const char *p = names, *end; *p; p = *end ? end + 1 : end) {
    end = p + strcspn(p, " ");
    lua_pushlstring(L, p, (size_t)(end - p));
    lua_pushvalue(L, -1);
    if (lua_rawget(L, from) != LUA_TFUNCTION) luaL_error(L, "Lua's library lacks %s", p);
    own_function *own = (own_function *)lua_newuserdatauv(L, sizeof *own, 0);
    *own = (own_function){ b, lua_tocfunction(L, -2) };
    lua_pushcclosure(L, how, 1);
    lua_remove(L, -2);
    lua_rawset(L, to);
  }
}

void fl_bounded_poll(lua_State *L, fl_lua *b, int from, const char *names) {
  add(L, b, from, names, polled);
}

void fl_bounded_poll_after(lua_State *L, fl_lua *b, int from, const char *names) {
  add(L, b, from, names, polled_after);
}

void fl_bounded_add(lua_State *L, fl_lua *b, const luaL_Reg *list) {
  lua_pushlightuserdata(L, b);
  luaL_setfuncs(L, list, 1);
}

/* ---- protected calls ------------------------------------------------------------------------- */

/* Ends a protected call. If the work must end, the error does not come from the called function and
** is raised again. 'base': stack index before the results. */
static int ended(lua_State *L, int status, lua_KContext base) {
  fl_lua *b = self_of(L);
  b->ending = 0;
  if (status == LUA_OK || status == LUA_YIELD) return lua_gettop(L) - (int)base;
  fl_hook_charge(L, b, FAILED_STEPS);           /* Lua walks its stack then */
  if (status == LUA_ERRMEM) lua_gc(L, LUA_GCCOLLECT);
  if (fl_heap_tell(L, b, status)) fl_hook_charge(L, b, lua_gc(L, LUA_GCCOUNT));
  lua_pushboolean(L, 0);
  lua_insert(L, -2);
  return 2;
}

static int b_pcall(lua_State *L) {
  luaL_checkany(L, 1);
  lua_pushboolean(L, 1);
  lua_insert(L, 1);
  const int status = lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, ended);
  return status == LUA_OK ? lua_gettop(L) : ended(L, status, 0);
}

/* The message handler of xpcall; upvalue 2 is the script's. It runs where the error was raised. If
** the hook raised it, no hook would run in the script's handler, so that is not called. */
static int handled(lua_State *L) {
  fl_lua *b = self_of(L);
  if (b->ending || b->c == NULL || fl_must_end(b->c)) return 1;
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_insert(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

/* (f, handler, …); reordered on the stack to handler, true, f, … */
static int b_xpcall(lua_State *L) {
  luaL_checktype(L, 2, LUA_TFUNCTION);
  const int n = lua_gettop(L) - 2;
  self_of(L)->ending = 0;                       /* left by an error that no function of ours has
                                                ** handled */
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, handled, 2);
  lua_replace(L, 2);
  lua_pushvalue(L, 1);
  lua_insert(L, 3);
  lua_remove(L, 1);
  lua_pushboolean(L, 1);
  lua_insert(L, 2);
  return ended(L, lua_pcallk(L, n, LUA_MULTRET, 1, 1, ended), 1);
}

/* ---- setmetatable, collectgarbage ------------------------------------------------------------ */

/* Refuses metatables with a finaliser, for flame's own files too, since no hook runs in a
** finaliser. Upvalue 2: "__gc". */
static int b_setmetatable(lua_State *L) {
  const int t = lua_type(L, 2);
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_argexpected(L, t == LUA_TNIL || t == LUA_TTABLE, 2, "nil or table");
  if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
    return luaL_error(L, "cannot change a protected metatable");
  if (t == LUA_TTABLE) {
    lua_pushvalue(L, lua_upvalueindex(2));
    if (lua_rawget(L, 2) != LUA_TNIL)
      return luaL_error(L, "setmetatable: there are no finalisers (__gc) in a state with limits; "
                        "use local x <close>");
  }
  lua_settop(L, 2);
  lua_setmetatable(L, 1);
  return 1;
}

static int b_collectgarbage(lua_State *L) {
  const char *what = luaL_optstring(L, 1, "collect");
  if (strcmp(what, "count") == 0) {
    lua_pushnumber(L, (lua_Number)lua_gc(L, LUA_GCCOUNT) +
                      (lua_Number)lua_gc(L, LUA_GCCOUNTB) / 1024);
    return 1;
  }
  if (strcmp(what, "collect") != 0)
    return luaL_error(L, "collectgarbage: a state with limits knows \"collect\" and \"count\", "
                      "got \"%s\"", what);
  fl_hook_charge(L, self_of(L), lua_gc(L, LUA_GCCOUNT));
  lua_gc(L, LUA_GCCOLLECT);
  lua_pushinteger(L, 0);
  return 1;
}

/* ---- load ------------------------------------------------------------------------------------ */

/* The text that 'load' parses. The parser gets it in parts, and each part charges steps, so that a
** long text can be interrupted. at: stack index of the string, or of the function that returns
** it in pieces; piece: stack index that keeps the last piece, 0: a string. next, left: what the
** parser has not got yet. */
typedef struct source { fl_lua *b; int at, piece; const char *next; size_t left; } source;

static const char *read_part(lua_State *L, void *arg, size_t *size) {
  source *s = (source *)arg;
  if (s->left == 0 && s->piece) {
    luaL_checkstack(L, 2, "too many nested functions");
    lua_pushvalue(L, s->at);
    lua_call(L, 0, 1);
    if (!lua_isnil(L, -1) && !lua_isstring(L, -1))
      luaL_error(L, "reader function must return a string");
    lua_replace(L, s->piece);
    s->next = lua_tolstring(L, s->piece, &s->left);
    if (s->next == NULL) s->left = 0;
  }
  const size_t n = s->left < READ_PART ? s->left : READ_PART;
  fl_hook_charge(L, s->b, (long long)n / BYTES_A_STEP);
  const char *part = s->next;
  s->next += n;
  s->left -= n;
  *size = n;
  return n ? part : NULL;
}

/* Errors name lines by the chunk: a script's name must not look like one of flame's own files. */
static const char *chunk_name(lua_State *L, int i, const char *otherwise) {
  const char *name = luaL_optstring(L, i, otherwise);
  if (fl_is_library(name)) luaL_argerror(L, i, "the name of one of flame's own files");
  return name;
}

int fl_bounded_load(lua_State *L, fl_lua *b, int at, const char *name) {
  source s = { .b = b, .at = lua_absindex(L, at) };
  if (lua_type(L, at) == LUA_TSTRING) s.next = lua_tolstring(L, at, &s.left);
  else {
    lua_pushnil(L);
    s.piece = lua_gettop(L);
  }
  return lua_load(L, read_part, &s, name, "t");
}

static int b_load(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *text = lua_tostring(L, 1), *mode = luaL_optstring(L, 3, "t");
  const int environment = !lua_isnone(L, 4);
  if (!text) luaL_checktype(L, 1, LUA_TFUNCTION);
  const char *name = chunk_name(L, 2, text ? text : "=(load)");
  if (b->c != NULL && !fl_may(b->c, FLAME_CODE, "load")) return fl_lua_raise(L, b);
  if (strchr(mode, 't') == NULL) {
    lua_pushnil(L);
    lua_pushliteral(L, "load: a state with limits takes text alone (mode is not 't')");
    return 2;
  }
  lua_settop(L, 4);
  const int status = fl_bounded_load(L, b, 1, name);
  if (status != LUA_OK) {
    fl_hook_look(L, b);
    if (fl_heap_tell(L, b, status)) fl_hook_charge(L, b, lua_gc(L, LUA_GCCOUNT));
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
  }
  if (environment) {
    lua_pushvalue(L, 4);
    if (lua_setupvalue(L, -2, 1) == NULL) lua_pop(L, 1);
  }
  return 1;
}

/* ---- output ---------------------------------------------------------------------------------- */

void fl_bounded_write(lua_State *L, fl_lua *b, const char *s, size_t n) {
  const fl_limits *l = b->c ? &b->c->limits : NULL;
  if (l == NULL || n == 0) return;
  if (!fl_use(b->c, FLAME_OUTPUT_BYTES, (int64_t)n)) fl_hook_look(L, b);
  if (l->print != NULL) l->print(l->arg, s, n);
  else fwrite(s, 1, n, stdout);
}

static int b_print(lua_State *L) {
  fl_lua *b = self_of(L);
  const int n = lua_gettop(L);
  luaL_Buffer line;
  for (int i = 1; i <= n; i++) {
    luaL_tolstring(L, i, NULL);
    lua_replace(L, i);
  }
  luaL_buffinit(L, &line);
  for (int i = 1; i <= n; i++) {
    if (i > 1) luaL_addchar(&line, '\t');
    lua_pushvalue(L, i);
    luaL_addvalue(&line);
  }
  luaL_addchar(&line, '\n');
  luaL_pushresult(&line);
  fl_bounded_write(L, b, lua_tostring(L, -1), lua_rawlen(L, -1));
  if (b->c != NULL && b->c->limits.print == NULL) fflush(stdout);
  return 0;
}

static int b_warn(lua_State *L) {
  fl_lua *b = self_of(L);
  const int n = lua_gettop(L);
  luaL_checkstring(L, 1);
  for (int i = 2; i <= n; i++) luaL_checkstring(L, i);
  lua_concat(L, n);
  if (!fl_use(b->c, FLAME_OUTPUT_BYTES, (int64_t)lua_rawlen(L, 1))) fl_hook_look(L, b);
  if (b->c->limits.warn != NULL && lua_tostring(L, 1)[0] != '@')
    b->c->limits.warn(b->c->limits.arg, lua_tostring(L, 1));
  return 0;
}

/* ---- require --------------------------------------------------------------------------------- */

static int is_module(const char *name) {
  for (const char *const *m = fl_chapters; *m; m++)
    if (strncmp(name, "flame.", 6) == 0 && strcmp(name + 6, *m) == 0) return 1;
  return strcmp(name, "flame") == 0;
}

/* Loads flame and its parts through the library's require, which keeps what it has loaded. */
static int b_require(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  if (!is_module(name))
    return luaL_error(L, "module '%s' is not there: a state with limits has flame and its parts",
                      name);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_library);
  lua_getfield(L, -1, "require");
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

static int b_clock(lua_State *L) {
  fl_lua *b = self_of(L);
  const lua_CFunction f = lua_tocfunction(L, lua_upvalueindex(2));
  if (b->c == NULL || !fl_may(b->c, FLAME_CLOCK, "os")) return fl_lua_raise(L, b);
  return f(L);
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* Pushes the field 'name', a table, of the library's globals. */
static void push_own(lua_State *L, int own, const char *name) {
  if (lua_getfield(L, own, name) != LUA_TTABLE) luaL_error(L, "Lua's library lacks %s", name);
}

/* Begins the library 'name' of the globals at 'to': makes a new table with the functions 'kept' of
** Lua's own library. Pushes Lua's table, then the new one. */
static void begin(lua_State *L, fl_lua *b, int own, const char *name, const char *kept) {
  push_own(L, own, name);
  lua_newtable(L);
  fl_bounded_poll(L, b, -2, kept);
}

static void end(lua_State *L, int to, const char *name) {
  lua_setfield(L, to, name);
  lua_pop(L, 1);
}

static void keep(lua_State *L, int own, int to, const char *const *names) {
  for (int i = 0; names[i]; i++) {
    lua_getfield(L, own, names[i]);
    lua_setfield(L, to, names[i]);
  }
}

static void fill_base(lua_State *L, fl_lua *b, int own, int to) {
  static const luaL_Reg list[] = { { "pcall", b_pcall }, { "xpcall", b_xpcall },
    { "collectgarbage", b_collectgarbage }, { "load", b_load },
    { "print", b_print }, { "warn", b_warn }, { "require", b_require }, { NULL, NULL } };
  /* functions that take little time whatever their arguments */
  static const char *const kept[] = { "_VERSION", "ipairs", "pairs", "type", "assert", "rawlen",
    "getmetatable", NULL };
  lua_pushvalue(L, to);
  fl_bounded_add(L, b, list);
  fl_bounded_poll(L, b, own, "error next rawequal rawget rawset select tonumber tostring");
  lua_pushlightuserdata(L, b);
  lua_pushliteral(L, "__gc");
  lua_pushcclosure(L, b_setmetatable, 2);
  lua_setfield(L, to, "setmetatable");
  lua_pop(L, 1);
  keep(L, own, to, kept);
  lua_pushvalue(L, to);
  lua_setfield(L, to, "_G");
}

static void fill_coroutine(lua_State *L, fl_lua *b, int own, int to) {
  static const char *const kept[] = { "yield", "status", "isyieldable", "running", NULL };
  begin(L, b, own, "coroutine", "");
  keep(L, lua_gettop(L) - 1, lua_gettop(L), kept);
  fl_lua_coroutines(L, b);
  end(L, to, "coroutine");
}

static void fill_utf8(lua_State *L, fl_lua *b, int own, int to) {
  begin(L, b, own, "utf8", "char codepoint codes len offset");
  lua_getfield(L, -2, "charpattern");
  lua_setfield(L, -2, "charpattern");
  end(L, to, "utf8");
}

static void fill_os(lua_State *L, fl_lua *b, int own, int to) {
  static const char *const clocks[] = { "time", "clock", "date", NULL };
  begin(L, b, own, "os", "difftime");
  for (int i = 0; clocks[i]; i++) {
    lua_pushlightuserdata(L, b);
    lua_getfield(L, -3, clocks[i]);
    lua_pushcclosure(L, b_clock, 2);
    lua_setfield(L, -2, clocks[i]);
  }
  end(L, to, "os");
}

/* min or max of more than two values. Comparing strings takes time, so it charges steps. */
static int extreme(lua_State *L, int n, int largest) {
  int best = 1;
  luaL_argcheck(L, n >= 1, 1, "value expected");
  for (int i = 2; i <= n; i++) {
    if (lua_type(L, i) == LUA_TSTRING)
      fl_hook_charge(L, self_of(L), (long long)(lua_rawlen(L, i) / STRING_BYTES_A_STEP));
    if (largest ? lua_compare(L, best, i, LUA_OPLT) : lua_compare(L, i, best, LUA_OPLT)) best = i;
  }
  lua_pushvalue(L, best);
  return 1;
}

static int m_max(lua_State *L) {
  const int n = lua_gettop(L);
  if (n != 2) return extreme(L, n, 1);
  lua_pushvalue(L, lua_compare(L, 1, 2, LUA_OPLT) ? 2 : 1);
  return 1;
}

static int m_min(lua_State *L) {
  const int n = lua_gettop(L);
  if (n != 2) return extreme(L, n, 0);
  lua_pushvalue(L, lua_compare(L, 2, 1, LUA_OPLT) ? 2 : 1);
  return 1;
}

/* The functions of math are used unchanged, since each takes little time; but max and min are
** replaced, whose time depends on the number of arguments. */
static void fill_math(lua_State *L, fl_lua *b, int own, int to) {
  static const luaL_Reg list[] = { { "max", m_max }, { "min", m_min }, { NULL, NULL } };
  push_own(L, own, "math");
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, -3) != 0;) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
  fl_bounded_add(L, b, list);
  end(L, to, "math");
}

/* Gives the library's files the functions that scripts see too, so that they can not circumvent a
** limit. */
static void share(lua_State *L, int own, int to) {
  static const char *const names[] = { "pcall", "xpcall", "setmetatable", "print", "warn", "string",
    "table", "coroutine", "utf8", NULL };
  for (int i = 0; names[i]; i++) {
    lua_getfield(L, to, names[i]);
    lua_setfield(L, own, names[i]);
  }
}

static void no_files(lua_State *L, int own) {
  static const char *const paths[] = { "path", "cpath", NULL };
  static const char *const readers[] = { "dofile", "loadfile", NULL };
  push_own(L, own, "package");
  for (int i = 0; paths[i]; i++) {
    lua_pushliteral(L, "");
    lua_setfield(L, -2, paths[i]);
  }
  lua_pushnil(L);
  lua_setfield(L, -2, "loadlib");
  lua_pop(L, 1);
  for (int i = 0; readers[i]; i++) {
    lua_pushnil(L);
    lua_setfield(L, own, readers[i]);
  }
}

void fl_bounded_open(lua_State *L, fl_lua *b) {
  const int module = lua_gettop(L);
  luaL_checkstack(L, 20, "flame");
  b->bounded = 1;
  lua_pushglobaltable(L);
  const int own = lua_gettop(L);
  lua_newtable(L);
  const int to = lua_gettop(L);
  fill_base(L, b, own, to);
  fill_coroutine(L, b, own, to);
  fill_utf8(L, b, own, to);
  fill_os(L, b, own, to);
  fill_math(L, b, own, to);
  fl_bounded_table(L, b, own, to);
  fl_bounded_string(L, b, own, to);
  fl_bounded_io(L, b, own, to);
  no_files(L, own);
  share(L, own, to);
  lua_pushvalue(L, module);
  lua_setfield(L, to, "flame");
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushvalue(L, module);
  lua_setfield(L, -2, "flame");
  lua_pop(L, 1);
  lua_pushvalue(L, own);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_library);
  lua_pushvalue(L, to);
  lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
  lua_settop(L, module - 1);
  fl_hide_internals(L);
}
