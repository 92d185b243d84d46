/*
** Running chunks: the call with traceback and Ctrl-C, and the ways a chunk arrives (string,
** file, script with arguments, library, LUA_INIT).
**
** Ctrl-C: the first press makes running Lua code stop at its next instruction (lua/hook.h), and the
** library stop what it is computing; a second press ends the process. If one of the two requests
** had nothing to stop, it is cleared after the call.
*/
#include "cli/cli.h"
#include "flame.h"
#include "engine/flight.h"
#include "group/group.h"
#include "lua/heap.h"
#include "lua/hook.h"
#include <lauxlib.h>
#include <lualib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- Ctrl-C ------------------------------------------------------------------------- */

/* For the signal handlers. computing NULL: no call runs. */
static struct fl_lua *volatile computing;
static flame_context *volatile interrupted;
static struct sigaction unarmed, unarmed_end;    /* the actions of SIGINT and SIGTERM before the
                                                 ** call */
static volatile int64_t first_ms;              /* time of SIGINT in this call; 0: it did not come */
enum { SAME_PRESS_MS = 100 };

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000 + 1;
}

/* A second signal ends the program, unless it comes from the same key press: a terminal repeats a
** held key, timeout(1) sends two, and typed-ahead input may contain several. */
static void on_interrupt(int number) {
  if (first_ms && now_ms() - first_ms > SAME_PRESS_MS) {
    signal(number, SIG_DFL);
    raise(number);                               /* held until this returns */
    return;
  }
  if (!first_ms) first_ms = now_ms();
  if (!computing) return;
  fl_hook_strike(computing);
  flame_interrupt(interrupted);
}

/* When a rank has died, its launcher ends all ranks by this signal: a rank that waits for the dead
** one reports where it waits. In other cases the signal acts as usual. */
static void on_terminate(int number) {
  if (computing && interrupted && fl_group_terminate(interrupted)) {
    flame_interrupt(interrupted);
    return;
  }
  signal(number, SIG_DFL);
  raise(number);
}

static void arm(lua_State *L) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  sigemptyset(&action.sa_mask);
  action.sa_handler = on_interrupt;
  interrupted = flame_lua_context(L);
  computing = fl_hook_of(L);
  if (computing) fl_hook_begin(L, computing, 1);
  first_ms = 0;
  sigaction(SIGINT, &action, &unarmed);
  action.sa_handler = on_terminate;
  sigaction(SIGTERM, &action, &unarmed_end);
  if (unarmed_end.sa_handler == SIG_IGN) sigaction(SIGTERM, &unarmed_end, NULL);
}

static void disarm(lua_State *L) {
  struct fl_lua *b = computing;
  sigaction(SIGINT, &unarmed, NULL);
  sigaction(SIGTERM, &unarmed_end, NULL);
  computing = NULL;
  if (b) fl_hook_end(L, b);
}

/* --- calls ------------------------------------------------------------------------------ */

/* Message handler: text gets a traceback, an object with __tostring is used as it is. */
static int with_traceback(lua_State *L) {
  const char *text = lua_tostring(L, 1);
  if (!text) {
    if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING) return 1;
    text = lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
  }
  if (strstr(text, "call a table value (for iterator"))
    text = lua_pushfstring(L, "%s; a list needs ipairs: for _, p in ipairs(net:parameters()) do", text);
  luaL_traceback(L, L, text, 1);
  return 1;
}

int fl_cli_call(lua_State *L, int narg, int nres) {
  const int base = lua_gettop(L) - narg;
  lua_pushcfunction(L, with_traceback);
  lua_insert(L, base);
  arm(L);
  const int status = lua_pcall(L, narg, nres, base);
  struct fl_lua *b = computing;
  disarm(L);
  if (b) fl_heap_tell(L, b, status);
  lua_remove(L, base);
  return status;
}

void fl_cli_message(const char *name, const char *text) {
  if (name) fprintf(stderr, "%s: ", name);
  fprintf(stderr, "%s\n", text);
  fflush(stderr);
}

int fl_cli_report(const fl_cli *c, int status) {
  if (status == LUA_OK) return status;
  const char *text = lua_tostring(c->L, -1);
  fl_cli_message(c->name, text ? text : "(error without a message)");
  lua_pop(c->L, 1);
  return status;
}

/* Runs the chunk just loaded, or reports why it was not. */
static int run_loaded(const fl_cli *c, int status) {
  if (status == LUA_OK) status = fl_cli_call(c->L, 0, 0);
  return fl_cli_report(c, status);
}

int fl_cli_string(const fl_cli *c, const char *text, const char *chunk_name) {
  return run_loaded(c, luaL_loadbuffer(c->L, text, strlen(text), chunk_name));
}

/* Reads the checks of the last run on a GPU (engine/flight.h), which nothing may read any more, and
** reports what they have found, or what a later read would have raised. */
static int tell_last_fault(const fl_cli *c) {
  flame_context *f = flame_lua_context(c->L);
  if (!f || !f->engine || fl_flight_tell(f) == FLAME_OK) return LUA_OK;
  char place[96] = "", text[sizeof f->error_text + 100];
  if (f->up->place) f->up->place(f, f->err.site, place);
  snprintf(text, sizeof text, "%s%s%s", place, place[0] ? ": " : "", flame_error(f));
  fl_cli_message(c->name, text);
  return LUA_ERRRUN;
}

int fl_cli_finish(const fl_cli *c) {
  const flame_context *f = flame_lua_context(c->L);
  if (f && f->group && f->effect)
    return fl_cli_string(c, "require('flame').eval()", "=end of the script");
  return tell_last_fault(c);
}

/* os.exit, with Lua's own and the program as upvalues: success becomes failure if the last run has
** failed. */
static int exit_told(lua_State *L) {
  const int good = lua_isnoneornil(L, 1) || (lua_isboolean(L, 1) && lua_toboolean(L, 1)) ||
                   (lua_isinteger(L, 1) && lua_tointeger(L, 1) == EXIT_SUCCESS);
  if (tell_last_fault(lua_touserdata(L, lua_upvalueindex(2))) != LUA_OK && good) {
    lua_settop(L, 2);
    lua_pushboolean(L, 0);
    lua_replace(L, 1);
  }
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 0);
  return 0;
}

void fl_cli_tell_at_exit(fl_cli *c) {
  lua_getglobal(c->L, "os");
  lua_getfield(c->L, -1, "exit");
  lua_pushlightuserdata(c->L, c);
  lua_pushcclosure(c->L, exit_told, 2);
  lua_setfield(c->L, -2, "exit");
  lua_pop(c->L, 1);
}

int fl_cli_file(const fl_cli *c, const char *path) {
  return run_loaded(c, luaL_loadfile(c->L, path));
}

int fl_cli_library(const fl_cli *c, const char *spec) {
  lua_State *L = c->L;
  const char *equals = strchr(spec, '='), *module = equals ? equals + 1 : spec;
  lua_getglobal(L, "require");
  lua_pushstring(L, module);
  const int status = fl_cli_call(L, 1, 1);
  if (status != LUA_OK) return fl_cli_report(c, status);
  lua_pushlstring(L, spec, equals ? (size_t)(equals - spec) : strlen(spec));
  lua_insert(L, -2);                             /* name under value */
  lua_pushglobaltable(L);
  lua_insert(L, -3);
  lua_settable(L, -3);
  lua_pop(L, 1);
  return LUA_OK;
}

/* --- scripts ---------------------------------------------------------------------------------- */

/* Makes the global table 'arg': the script is at position 0, its arguments are at 1 and up, the
** words before it below 0. */
void fl_cli_make_arg(const fl_cli *c, int script) {
  const int zero = script < c->argc ? script : 0;
  lua_createtable(c->L, c->argc - zero, zero + 1);
  for (int i = 0; i < c->argc; i++) {
    lua_pushstring(c->L, c->argv[i]);
    lua_rawseti(c->L, -2, i - zero);
  }
  lua_setglobal(c->L, "arg");
}

/* The script's arguments are read back from 'arg': LUA_INIT or -e may have changed it. */
static int push_arguments(lua_State *L) {
  if (lua_getglobal(L, "arg") != LUA_TTABLE) luaL_error(L, "'arg' is not a table");
  const int n = (int)luaL_len(L, -1);
  luaL_checkstack(L, n + 3, "too many arguments to script");
  const int table = lua_gettop(L);
  for (int i = 1; i <= n; i++) lua_rawgeti(L, table, i);
  lua_remove(L, table);
  return n;
}

int fl_cli_script(const fl_cli *c, int at) {
  const char *path = c->argv[at];
  const int is_stdin = !strcmp(path, "-") && strcmp(c->argv[at - 1], "--") != 0;
  int status = luaL_loadfile(c->L, is_stdin ? NULL : path);
  if (status == LUA_OK) status = fl_cli_call(c->L, push_arguments(c->L), LUA_MULTRET);
  return fl_cli_report(c, status);
}

int fl_cli_init(const fl_cli *c) {
  const char *name = "=LUA_INIT_5_4", *text = getenv(name + 1);
  if (!text) {
    name = "=LUA_INIT";
    text = getenv(name + 1);
  }
  if (!text) return LUA_OK;
  return text[0] == '@' ? fl_cli_file(c, text + 1) : fl_cli_string(c, text, name);
}
