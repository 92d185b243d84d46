/*
** Crews, the worker threads of data loaders (crew.c), as far as other files need them.
*/
#ifndef FL_LUA_CREW_H
#define FL_LUA_CREW_H
#include "lua/binding.h"

/* Set in the registry of a worker's state before luaopen_flame: tells it to open a context with one
** thread, on the CPU. */
extern const char fl_key_worker;
/* Ends all remaining crews, with their threads. */
void fl_crews_end(fl_lua *b);
#endif
