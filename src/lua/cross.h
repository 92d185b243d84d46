/* Values from one state into another of the same thread: see cross.c. */
#ifndef FL_LUA_CROSS_H
#define FL_LUA_CROSS_H
#include "lua/binding.h"

/* Pushes copies of the n values from 'first' on in 'from' onto 'to', which raises if one can not be
** copied. 'from' raises nothing, and may be left with values on its stack. */
void fl_cross(lua_State *from, int first, int n, lua_State *to);
#endif
