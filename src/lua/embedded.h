/*
** The Lua library inside the binary: every file of lua/, under its module name
** ("flame.nn" for lua/flame/nn.lua, "flame.nn.rnn" for lua/flame/nn/rnn.lua).
** The chunk name of such a module is "=flame/nn.lua", with '/' in place of '.'.
**
** The last entry of a table, named "", is the dictionary with which the others were deflated.
**
** The texts are in every build of flame (module, library, program). A program that is linked with
** the Lua that compiled fl_embedded_code (flame-lua is) puts the table's address into the registry
** under fl_key_code before luaopen_flame: the files in it need not be parsed. The table has the
** files that most programs load.
*/
#ifndef FL_LUA_EMBEDDED_H
#define FL_LUA_EMBEDDED_H
#include "cuda/text/embedded.h"
#include <lua.h>

extern const struct fl_embedded fl_embedded_lua[];
extern const struct fl_embedded fl_embedded_code[];      /* in flame-lua and libflame-full */
extern const char fl_key_code;

/* require "flame.nn" finds the embedded text, unless the host has set a loader. */
void fl_library_preload(lua_State *L);
/* For help(): (module name) -> its text, or nothing. */
int fl_library_text(lua_State *L);
#endif
