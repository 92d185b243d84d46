/*
** The Lua library that travels in the binary (embedded.h): found by require, compiled ahead
** where the program has Lua's own code of it, inflated and parsed otherwise.
*/
#include "lua/embedded.h"
#include "lua/binding.h"
#include "lua/state.h"
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
/* e inflated into p; the dictionary is the string at 'index', where it asks for one. */
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

/* Push what e is once inflated, with the string on top of the stack as its dictionary, which goes.
** Not in a luaL_Buffer: one that grows where memory is out spoils all later ones. */
static void push_inflated(lua_State *L, const struct fl_embedded *e) {
  Bytef *p = (Bytef *)lua_newuserdatauv(L, e->inflated, 0);
  const int status = inflate_into(L, p, e, -2);
  if (status != Z_OK) luaL_error(L, "module '%s' can not be inflated: %s", e->name, zError(status));
  lua_pushlstring(L, (const char *)p, e->inflated);
  lua_replace(L, -3);
  lua_pop(L, 1);
}

/* Push the dictionary of a table's texts; it stays in the registry while the state lives. */
static void push_dictionary(lua_State *L, const struct fl_embedded *table) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, table) == LUA_TSTRING) return;
  lua_pop(L, 1);
  lua_pushliteral(L, "");
  push_inflated(L, find(table, ""));
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, table);
}
#endif

/* Push the text of an entry of 'table'. */
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

/* Push "=flame/nn.lua" for "flame.nn". */
static const char *push_chunk_name(lua_State *L, const char *module) {
  luaL_Buffer name;
  luaL_buffinit(L, &name);
  luaL_addchar(&name, '=');
  for (const char *p = module; *p; p++) luaL_addchar(&name, *p == '.' ? '/' : *p);
  luaL_addstring(&name, ".lua");
  luaL_pushresult(&name);
  return lua_tostring(L, -1);
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
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_library) == LUA_TTABLE) lua_setupvalue(L, -2, 1);
  else lua_pop(L, 1);
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

/* What adds to the module, to tensors and to the internals, in the order in which it is run. */
static const char *const chapters[] = {
  "ops.elementwise", "base.autocast", "tools.bench", "tools.compare", "ops.conv",
  "tools.doctor", "ops.statistics", "ops.shape", "ops.fft", "autograd.gradients",
  "autograd.check", "autograd.func", "tools.help", "data.save", "kernel.gradient",
  "kernel.load", "kernel.map", "kernel.new", "kernel.show", "kernel.source", "kernel.vjp",
  "linalg.solve", "linalg.factored", "linalg.spectrum", "ops.loss", "ops.margin",
  "ops.norm", "base.names", "ops.pool", "ops.index", "tools.profile", "tools.proof",
  "ops.resize", "ops.rotary", "ops.random", "tools.sandbox", "ops.search", "ops.pad",
  "ops.signal", "tools.slips", "ops.sort", "ops.special", "ops.bessel", "tools.swap",
  "ops.aliases", "ops.unfold", "linalg.norm", "ops.window", NULL };

static int is_chapter(const char *name) {
  for (const char *const *c = chapters; *c; c++)
    if (strncmp(name, "flame.", 6) == 0 && strcmp(name + 6, *c) == 0) return 1;
  return 0;
}

void fl_library_preload(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  for (const struct fl_embedded *e = fl_embedded_lua; e->name != NULL; e++) {
    if (is_chapter(e->name) || strncmp(e->name, "flame", 5) != 0) continue;
    if (lua_getfield(L, -1, e->name) == LUA_TNIL) {
      lua_pushcfunction(L, load_embedded);
      lua_setfield(L, -3, e->name);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void run_chapter(lua_State *L, const char *name, int arguments) {
  lua_pushfstring(L, "flame.%s", name);
  push_chunk(L, find(fl_embedded_lua, lua_tostring(L, -1)));
  lua_remove(L, -2);
  for (int i = 0; i < 3; i++) lua_pushvalue(L, arguments + i);
  lua_call(L, 3, 0);
}

int fl_library_core(lua_State *L) {
  for (const char *const *c = chapters; *c; c++) run_chapter(L, *c, 1);
  lua_getfield(L, 3, "namespace");
  lua_pushvalue(L, 1);
  lua_call(L, 1, 0);
  return 0;
}
