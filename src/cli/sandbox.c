/*
** flame-lua --sandbox[=policy]: a script in a state of flame_lua_new. The policy is a list of
** settings with commas between: a limit (memory=64M, time=5), a permission that is given (read,
** write, kernels, code, devices, libraries, clock), or folder=PATH, below which files may be opened
** (else the current folder). Sizes take K, M and G, times are seconds; 0 is no limit.
*/
#include "cli/cli.h"
#include "lua/embedded.h"
#include "lua/hook.h"
#include "lua/state.h"
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct limit { const char *name; int which; double unit; int64_t most; } limit;
static const limit limits[] = {
  { "memory", FLAME_HOST_BYTES, 1, INT64_C(1) << 30 },
  { "device_memory", FLAME_DEVICE_BYTES, 1, INT64_C(4) << 30 },
  { "nodes", FLAME_NODES, 1, 1000000 }, { "coroutines", FLAME_COROUTINES, 1, 1000 },
  { "time", FLAME_CALL_NS, 1e9, INT64_C(60000000000) }, { "total_time", FLAME_TOTAL_NS, 1e9, 0 },
  { "steps", FLAME_LUA_STEPS, 1, 0 }, { "kernel_steps", FLAME_KERNEL_STEPS, 1, 0 },
  { "output", FLAME_OUTPUT_BYTES, 1, 16 << 20 },
};
static const struct { const char *name; uint32_t bit; } permissions[] = {
  { "read", FLAME_READ }, { "write", FLAME_WRITE }, { "kernels", FLAME_KERNELS },
  { "code", FLAME_CODE }, { "devices", FLAME_DEVICES }, { "libraries", FLAME_LIBRARIES },
  { "clock", FLAME_CLOCK },
};
enum { LIMITS = sizeof limits / sizeof *limits,
       PERMISSIONS = sizeof permissions / sizeof *permissions, FOLDER = 1024 };

/* Reads "64M", 64 * 1024 * 1024, times 'unit' into *v; 0: that is no number, or is too large. */
static int read_number(const char *s, double unit, int64_t *v) {
  static const char units[] = "KMG";
  char *end;
  double x = strtod(s, &end);
  const char *u = *end && end[1] == 0 ? strchr(units, *end) : NULL;
  if (u) for (const char *k = units; k <= u; k++) x *= 1024;
  if (end == s || (*end && !u) || !(x >= 0 && x * unit < 9e18)) return 0;
  *v = (int64_t)(x * unit);
  return 1;
}

/* Reads one setting into *o. 0: there is none with that name, or its value is wrong. */
static int read_setting(const char *s, flame_options *o, char folder[FOLDER]) {
  const size_t n = strcspn(s, "=");
  for (int i = 0; i < PERMISSIONS; i++) {
    if (strcmp(s, permissions[i].name) != 0) continue;
    o->deny &= ~permissions[i].bit;
    if (permissions[i].bit == FLAME_LIBRARIES) o->allow |= FLAME_LIBRARIES;
    return 1;
  }
  if (!strncmp(s, "folder=", 7)) {
    snprintf(folder, FOLDER, "%s", s + 7);
    o->folder = folder;
    return folder[0] != 0;
  }
  for (int i = 0; s[n] && i < LIMITS; i++)
    if (strlen(limits[i].name) == n && !strncmp(s, limits[i].name, n))
      return read_number(s + n + 1, limits[i].unit, &o->limit[limits[i].which]);
  return 0;
}

static int read_policy(const fl_cli *c, const char *policy, flame_options *o, char folder[FOLDER]) {
  char one[FOLDER], text[FOLDER + 300];
  *o = (flame_options){ .size = sizeof *o, .deny = ~0u, .folder = "." };
  for (int i = 0; i < LIMITS; i++) o->limit[limits[i].which] = limits[i].most;
  for (const char *p = policy ? policy : ""; *p; p += strcspn(p, ","), p += *p == ',') {
    snprintf(one, sizeof one, "%.*s", (int)strcspn(p, ","), p);
    if (read_setting(one, o, folder)) continue;
    snprintf(text, sizeof text, "--sandbox: '%s' is no setting; there are memory, device_memory, nodes, "
             "coroutines, time, total_time, steps, kernel_steps, output and folder with =, and read, "
             "write, kernels, code, devices, libraries, clock", one);
    fl_cli_message(c->name, text);
    return 0;
  }
  return 1;
}

/* Pushes the text of a script, without its first line if that starts with '#'. 0: there is no such
** file. */
static int push_script(const fl_cli *c, const char *path) {
  FILE *f = path ? fopen(path, "rb") : stdin;
  luaL_Buffer text;
  size_t n;
  if (!f) return 0;
  luaL_buffinit(c->L, &text);
  do {
    char *room = luaL_prepbuffer(&text);
    n = fread(room, 1, LUAL_BUFFERSIZE, f);
    luaL_addsize(&text, n);
  } while (n > 0);
  if (path) fclose(f);
  luaL_pushresult(&text);
  const char *s = lua_tostring(c->L, -1);
  if (s[0] == '#') {
    lua_pushstring(c->L, s + strcspn(s, "\n"));
    lua_remove(c->L, -2);
  }
  return 1;
}

typedef struct request {
  const fl_cli *c;
  int script;
  const char *text, *name;
  size_t size;
} request;

/* In the new state: (request). */
static int run(lua_State *I) {
  const request *r = (const request *)lua_touserdata(I, 1);
  lua_settop(I, 0);
  lua_newtable(I);
  int n = 0;
  for (int i = r->script; i < r->c->argc; i++, n++) {
    lua_pushstring(I, r->c->argv[i]);
    lua_rawseti(I, 1, i - r->script);
  }
  lua_pushvalue(I, 1);
  lua_setglobal(I, "arg");
  lua_pushlstring(I, r->text, r->size);
  if (fl_bounded_load(I, fl_hook_of(I), 2, r->name) != LUA_OK) return lua_error(I);
  luaL_checkstack(I, n + 2, "too many arguments to script");
  for (int i = 1; i < n; i++) lua_rawgeti(I, 1, i);
  lua_call(I, n > 0 ? n - 1 : 0, 0);
  return 0;
}

int fl_cli_sandbox(const fl_cli *c, const char *policy, int script) {
  char folder[FOLDER], why[FL_LUA_WHY], name[FOLDER];
  flame_options o;
  fl_cli inside = *c;
  const char *path = script < c->argc && strcmp(c->argv[script], "-") ? c->argv[script] : NULL;
  if (!read_policy(c, policy, &o, folder)) return 0;
  if (!push_script(c, path)) {
    snprintf(name, sizeof name, "cannot open %s", path);
    fl_cli_message(c->name, name);
    return 0;
  }
  if (fl_lua_new_inside(&o, NULL, fl_embedded_code, &inside.L, why) != FLAME_OK) {
    fl_cli_message(c->name, why[0] ? why : "not enough memory");
    return 0;
  }
  snprintf(name, sizeof name, path ? "@%s" : "=stdin", path);
  request r = { c, script, lua_tostring(c->L, -1), fl_is_library(name) ? "=script" : name,
                lua_rawlen(c->L, -1) };
  lua_pushcfunction(inside.L, run);
  lua_pushlightuserdata(inside.L, &r);
  int status = fl_cli_report(&inside, fl_cli_call(inside.L, 1, 0));
  if (status == LUA_OK) status = fl_cli_finish(&inside);
  fflush(stdout);
  lua_close(inside.L);
  lua_pushboolean(c->L, 1);
  return status == LUA_OK;
}
