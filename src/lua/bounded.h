/* What the files of the bounded libraries share: see bounded.c. */
#ifndef FL_LUA_BOUNDED_H
#define FL_LUA_BOUNDED_H
#include "lua/binding.h"
#include "lua/heap.h"
#include "lua/state.h"

/* Adds functions of the table at 'from' to the table on top, wrapped so that they test before each
** call whether the work must end. names: separated by blanks. */
void fl_bounded_poll(lua_State *L, fl_lua *b, int from, const char *names);
/* Adds functions of the table at 'from' to the table on top, wrapped so that a call with more than
** a few results charges steps for their number, and then tests whether the work must end. */
void fl_bounded_poll_after(lua_State *L, fl_lua *b, int from, const char *names);
/* Adds functions with the binding as upvalue 1 to the table on top. */
void fl_bounded_add(lua_State *L, fl_lua *b, const luaL_Reg *list);
/* Writes text to the script's output; counted, raises at the limit. */
void fl_bounded_write(lua_State *L, fl_lua *b, const char *s, size_t n);
/* Fills the libraries of the globals at 'to', from Lua's own globals at 'own'. */
void fl_bounded_table(lua_State *L, fl_lua *b, int own, int to);
void fl_bounded_string(lua_State *L, fl_lua *b, int own, int to);
void fl_bounded_io(lua_State *L, fl_lua *b, int own, int to);

extern const char *const fl_chapters[];      /* names of the library's modules ("nn", "optim", …),
                                             ** terminated by NULL */
#endif
