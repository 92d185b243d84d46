/*
** The Lua library inside the binary: every file of lua/, under its module name
** ("flame.nn" for lua/flame/nn.lua, "flame.nn.init" for lua/flame/nn/init.lua).
** The chunk name of such a module is "=flame/nn.lua" by rule: '.' back to '/'.
*/
#ifndef FL_LUA_EMBEDDED_H
#define FL_LUA_EMBEDDED_H
#include "cuda/embedded.h"

extern const struct fl_embedded fl_embedded_lua[];
#endif
