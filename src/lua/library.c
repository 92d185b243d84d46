/*
** The Lua library in the binary (embedded.h): found by require, as compiled code if the program
** contains it, otherwise inflated and parsed. Files that add to flame and to tensors (chapters) are
** loaded at the first use of a name that they add.
*/
#include "lua/embedded.h"
#include "lua/flame_lua.h"
#include "lua/binding.h"
#include "lua/state.h"
#include <stdio.h>
#include <string.h>
#ifdef FL_HAVE_ZLIB
#define ZLIB_CONST
#include <zlib.h>
#endif

const char fl_key_code;

static const struct fl_embedded *find(const struct fl_embedded *e, const char *name) {
  for (; e->name != NULL; e++)
    if (strcmp(e->name, name) == 0) return e;
  return NULL;
}

#ifdef FL_HAVE_ZLIB
/* Inflates e into p; the dictionary is the string at 'index', if it needs one. */
static int inflate_into(lua_State *L, Bytef *p, const struct fl_embedded *e, int index) {
  z_stream z = { .next_in = (const Bytef *)e->text, .avail_in = (uInt)e->size,
                 .next_out = p, .avail_out = (uInt)e->inflated };
  int status = inflateInit(&z);
  if (status != Z_OK) return status;
  status = inflate(&z, Z_FINISH);
  if (status == Z_NEED_DICT) {
    status = inflateSetDictionary(&z, (const Bytef *)lua_tostring(L, index),
                                  (uInt)lua_rawlen(L, index));
    if (status == Z_OK) status = inflate(&z, Z_FINISH);
  }
  inflateEnd(&z);
  return status == Z_STREAM_END && z.avail_out == 0 ? Z_OK : status < 0 ? status : Z_DATA_ERROR;
}

/* Pushes e inflated; its dictionary is the string on top of the stack, which is popped. No
** luaL_Buffer is used: Lua makes the metatable of large ones in two steps, and if memory runs out
** between them, every later one raises. */
static void push_inflated(lua_State *L, const struct fl_embedded *e) {
  Bytef *p = (Bytef *)lua_newuserdatauv(L, e->inflated, 0);
  const int status = inflate_into(L, p, e, -2);
  if (status != Z_OK) luaL_error(L, "module '%s' can not be inflated: %s", e->name, zError(status));
  lua_pushlstring(L, (const char *)p, e->inflated);
  lua_replace(L, -3);
  lua_pop(L, 1);
}

/* Pushes the dictionary of a table's texts; the registry keeps it as long as the state exists. */
static void push_dictionary(lua_State *L, const struct fl_embedded *table) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, table) == LUA_TSTRING) return;
  lua_pop(L, 1);
  lua_pushliteral(L, "");
  push_inflated(L, find(table, ""));
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, table);
}
#endif

/* Pushes the text of an entry of 'table'. */
static void push_text(lua_State *L, const struct fl_embedded *table, const struct fl_embedded *e) {
  if (!e->inflated) {
    lua_pushlstring(L, e->text, e->size);
    return;
  }
#ifdef FL_HAVE_ZLIB
  push_dictionary(L, table);
  push_inflated(L, e);
#else
  (void)table;
#endif
}

/* Pushes "=flame/nn.lua" for "flame.nn". */
static const char *push_chunk_name(lua_State *L, const char *module) {
  luaL_Buffer name;
  luaL_buffinit(L, &name);
  luaL_addchar(&name, '=');
  for (const char *p = module; *p; p++) luaL_addchar(&name, *p == '.' ? '/' : *p);
  luaL_addstring(&name, ".lua");
  luaL_pushresult(&name);
  return lua_tostring(L, -1);
}

static int load_once(lua_State *L);

static void push_require(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_library) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_pushglobaltable(L);
  }
  lua_getfield(L, -1, "require");
  lua_remove(L, -2);
  if (lua_isfunction(L, -1)) return;
  lua_pop(L, 1);
  lua_pushcfunction(L, load_once);
}

/* Pushes what the library's files use in place of Lua's globals: in a state with limits a separate
** table; if the host opened no package library, a table with its globals and a require. 0: Lua's
** globals are used. */
static int push_globals(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_library) == LUA_TTABLE) return 1;
  lua_pop(L, 1);
  const int there = lua_getglobal(L, "require") == LUA_TFUNCTION;
  lua_pop(L, 1);
  if (there) return 0;
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, load_once);
  lua_setfield(L, -2, "require");
  lua_createtable(L, 0, 1);
  lua_pushglobaltable(L);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  return 1;
}

static void push_chunk(lua_State *L, const struct fl_embedded *e) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_code);
  const struct fl_embedded *table = lua_touserdata(L, -1);
  const struct fl_embedded *code = table ? find(table, e->name) : NULL;
  lua_pop(L, 1);
  const char *name = push_chunk_name(L, e->name);
  push_text(L, code ? table : fl_embedded_lua, code ? code : e);
  const int status = luaL_loadbufferx(L, lua_tostring(L, -1), lua_rawlen(L, -1), name,
                                      code ? "b" : "t");
  lua_remove(L, -2);
  lua_remove(L, -2);
  if (status != LUA_OK) lua_error(L);
  if (push_globals(L)) lua_setupvalue(L, -2, 1);
}

static int load_embedded(lua_State *L) {
  const struct fl_embedded *e = find(fl_embedded_lua, luaL_checkstring(L, 1));
  if (e == NULL) return luaL_error(L, "module '%s' is not embedded", lua_tostring(L, 1));
  push_chunk(L, e);
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

int fl_library_text(lua_State *L) {
  const struct fl_embedded *e = find(fl_embedded_lua, luaL_checkstring(L, 1));
  if (e == NULL) return 0;
  push_text(L, fl_embedded_lua, e);
  return 1;
}

/* ---- chapters -------------------------------------------------------------------------------- */
/* A file that adds functions to flame, to tensors and to the internals, with the names that it
** adds: each between spaces, "linalg.svd" in a group, "^fail" for the internals; for a function f
** with an in-place form f_ only f. Generated from the files (tools/chapters). A missing name is
** still found, by loading every chapter. */
static const struct { const char *module, *names; } chapters[] = {
#define CHAPTER(module, names) { "flame." module, names },
#include "lua/chapters.def"
#undef CHAPTER
};
enum { CHAPTERS = sizeof chapters / sizeof *chapters };
_Static_assert(CHAPTERS <= 64, "fl_lua.loading has a bit each");

void fl_library_preload(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  if (lua_getfield(L, -1, "flame") == LUA_TNIL) {           /* files begin with require "flame" */
    lua_pushcfunction(L, luaopen_flame);
    lua_setfield(L, -3, "flame");
  }
  lua_pop(L, 1);
  for (const struct fl_embedded *e = fl_embedded_lua; e->name != NULL; e++) {
    if (strncmp(e->name, "flame", 5) != 0) continue;
    if (lua_getfield(L, -1, e->name) == LUA_TNIL) {
      lua_pushcfunction(L, load_embedded);
      lua_setfield(L, -3, e->name);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* Like require for a file of the library, also if the host has no require: what is loaded stays
** loaded. */
static int load_once(lua_State *L) {
  luaL_checkstack(L, 12, "flame");
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushvalue(L, 1);
  if (lua_rawget(L, -2) != LUA_TNIL) return 1;
  lua_pushcfunction(L, load_embedded);
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  if (lua_isnil(L, -1)) lua_pushboolean(L, 1), lua_replace(L, -2);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, -2);
  lua_rawset(L, 2);
  return 1;
}

/* Loads a chapter (a file of lua/flame), unless it is being loaded already: a chapter may look up a
** name that it defines only later. */
static void load_chapter(lua_State *L, fl_lua *b, int i) {
  if (b->loading & UINT64_C(1) << i || !find(fl_embedded_lua, chapters[i].module)) return;
  luaL_checkstack(L, 4, "flame");
  push_require(L);
  lua_pushstring(L, chapters[i].module);
  b->loading |= UINT64_C(1) << i;
  const int status = lua_pcall(L, 1, 0, 0);
  b->loading &= ~(UINT64_C(1) << i);
  if (status != LUA_OK) lua_error(L);
}

/* Does the chapter add this name, or f of f_? key: with a space on both sides. */
static int adds(int i, const char *key, size_t n) {
  if (strstr(chapters[i].names, key) != NULL) return 1;
  char base[64];
  if (key[n - 2] != '_') return 0;
  memcpy(base, key, n - 2);
  memcpy(base + n - 2, " ", 2);
  return strstr(chapters[i].names, base) != NULL;
}

int fl_chapter_find(lua_State *L, fl_lua *b, int table, const char *group, const char *name) {
  char key[64];
  const int n = snprintf(key, sizeof key, " %s%s ", group, name);
  if (n >= (int)sizeof key || name[strcspn(name, " ")]) return LUA_TNIL;
  for (int i = 0; i < CHAPTERS; i++) {
    if (!adds(i, key, (size_t)n)) continue;
    load_chapter(L, b, i);
    lua_pushstring(L, name);
    const int type = lua_rawget(L, table);
    if (type != LUA_TNIL) return type;
    lua_pop(L, 1);
  }
  return LUA_TNIL;
}

/* Loads all chapters. Called again meanwhile, for a name that does not exist, it loads none
** twice. */
int fl_core_load(lua_State *L, fl_lua *b) {
  if (b->core_loaded) return 0;
  for (int i = 0; i < CHAPTERS; i++) load_chapter(L, b, i);
  b->core_loaded = 1;
  return 1;
}
