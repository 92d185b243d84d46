/*
** host: a program with the system's Lua and with threads, which opens the plug-in by dlopen. Each
** thread has a Lua state, whose script makes a learner of the plug-in and lets it learn. The
** arguments are the plug-in and the number of threads.
**
**   cc -std=c11 -O2 -I/usr/include/lua5.4 host.c -llua5.4 -lpthread -ldl -o host
**   ./host ./plugin.so 4
*/
#define _GNU_SOURCE
#include "plugin.h"
#include <dlfcn.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static plugin_open_f *open_plugin;
static plugin_learn_f *learn;
static plugin_error_f *error_of;
static plugin_close_f *close_plugin;

/* In Lua, learner(in, seed) makes a learner. */
static int l_open(lua_State *L) {
  plugin **p = (plugin **)lua_newuserdatauv(L, sizeof *p, 0);
  *p = open_plugin((int)luaL_checkinteger(L, 1), (unsigned long long)luaL_checkinteger(L, 2));
  if (!*p) return luaL_error(L, "the plug-in can not be opened");
  luaL_setmetatable(L, "learner");
  return 1;
}

/* In Lua, p:learn(x, y): x is a list of at most 16 numbers, y a number. Returns the loss. */
static int l_learn(lua_State *L) {
  plugin **p = (plugin **)luaL_checkudata(L, 1, "learner");
  float x[16];
  const lua_Integer n = luaL_len(L, 2);
  if (n > 16) return luaL_argerror(L, 2, "at most 16 numbers");
  for (lua_Integer k = 1; k <= n; k++) {
    lua_geti(L, 2, k);
    x[k - 1] = (float)luaL_checknumber(L, -1);
    lua_pop(L, 1);
  }
  const double loss = learn(*p, x, (float)luaL_checknumber(L, 3));
  if (loss != loss) return luaL_error(L, "%s", error_of(*p));
  lua_pushnumber(L, loss);
  return 1;
}

/* Closes a learner that Lua collects. */
static int l_gc(lua_State *L) {
  plugin **p = (plugin **)luaL_checkudata(L, 1, "learner");
  if (*p) close_plugin(*p);
  *p = NULL;
  return 0;
}

/* What each thread runs: learns a * b from a and b, and returns the mean losses of the first and of
** the last 50 examples. flame is not visible in this Lua. */
static const char script[] =
  "local seed = ...\n"
  "local p, first, last = learner(2, seed), 0, 0\n"
  "for i = 1, 300 do\n"
  "  local a, b = i * 0.37 % 2 - 1, i * 0.73 % 2 - 1\n"
  "  local loss = p:learn({ a, b }, a * b)\n"
  "  if i <= 50 then first = first + loss elseif i > 250 then last = last + loss end\n"
  "end\n"
  "assert(_VERSION == 'Lua 5.4' and flame == nil)\n"
  "return first / 50, last / 50\n";

typedef struct job { pthread_t thread; int number, ok; double first, last; } job;

/* A thread: runs the script in a new Lua state and writes the losses into its job. */
static void *run(void *arg) {
  job *j = (job *)arg;
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_newmetatable(L, "learner");
  lua_pushcfunction(L, l_gc), lua_setfield(L, -2, "__gc");
  lua_newtable(L);
  lua_pushcfunction(L, l_learn), lua_setfield(L, -2, "learn");
  lua_setfield(L, -2, "__index");
  lua_register(L, "learner", l_open);
  luaL_loadstring(L, script);
  /* all threads have the same seed, so they must get the same losses */
  lua_pushinteger(L, 1);
  j->ok = lua_pcall(L, 1, 2, 0) == LUA_OK;
  if (j->ok) j->first = lua_tonumber(L, -2), j->last = lua_tonumber(L, -1);
  else fprintf(stderr, "thread %d: %s\n", j->number, lua_tostring(L, -1));
  lua_close(L);
  return NULL;
}

int main(int argc, char **argv) {
  enum { MOST = 64 };
  job jobs[MOST];
  const int n = argc > 2 ? atoi(argv[2]) : 4;
  void *library = dlopen(argc > 1 ? argv[1] : "./plugin.so", RTLD_NOW | RTLD_LOCAL);
  if (!library || n < 1 || n > MOST) {
    fprintf(stderr, "host: %s\n", library ? "1 to 64 threads" : dlerror());
    return 1;
  }
  *(void **)&open_plugin = dlsym(library, "plugin_open");
  *(void **)&learn = dlsym(library, "plugin_learn");
  *(void **)&error_of = dlsym(library, "plugin_error");
  *(void **)&close_plugin = dlsym(library, "plugin_close");
  if (!open_plugin || !learn || !error_of || !close_plugin) return 1;
  int bad = 0;
  for (int i = 0; i < n; i++) {
    jobs[i] = (job){ .number = i };
    bad += pthread_create(&jobs[i].thread, NULL, run, &jobs[i]) != 0;
  }
  for (int i = 0; i < n; i++) {
    pthread_join(jobs[i].thread, NULL);
    bad += !jobs[i].ok || jobs[i].first != jobs[0].first || jobs[i].last != jobs[0].last;
  }
  printf("%d threads: the loss went from %.3f to %.3f%s\n", n, jobs[0].first, jobs[0].last,
         bad ? ", not in all" : " in each");
  return bad != 0;
}
