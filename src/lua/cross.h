/* Values from one state into another of the same thread: see cross.c. */
#ifndef FL_LUA_CROSS_H
#define FL_LUA_CROSS_H
#include "lua/binding.h"

/* Pushes copies of the n values from 'first' on in 'from' onto 'to', which raises if one can not be
** copied. Nothing is raised in 'from', where values may be left on the stack. */
void fl_cross(lua_State *from, int first, int n, lua_State *to);
#endif
