/* States with limits: what state.c, bounded.c and sandbox.c share. */
#ifndef FL_LUA_STATE_H
#define FL_LUA_STATE_H
#include "lua/flame_lua.h"

struct fl_lua;

/* How luaopen_flame is to open the context; during its call the registry has the address of this
** as light userdata under fl_key_options. */
typedef struct fl_lua_start {
  const flame_options *options;
  flame_context *outer;             /* its limits hold for the new context, too; NULL: none */
  const void *code;                 /* the library as compiled Lua code (embedded.h); NULL: none */
  flame_context *context;           /* the host's context, which the state borrows; NULL: a new one
                                    ** is opened */
} fl_lua_start;
extern const char fl_key_options;

enum { FL_LUA_WHY = 500 };               /* bytes of a message */
/* flame_lua_new with a context inside 'outer' (NULL: none), whose limits apply to both. why: the
** message if it fails. */
flame_status fl_lua_new_inside(const flame_options *o, flame_context *outer, const void *code,
                               struct lua_State **L, char why[FL_LUA_WHY]);
/* A new state around start->context, with Lua's libraries and the module. */
flame_status fl_lua_new_around(const fl_lua_start *start, struct lua_State **L,
                               char why[FL_LUA_WHY]);
/* Sets up the libraries of a state whose module is on top: those for scripts are bounded, those for
** flame's own files are under fl_key_library. Pops the module. */
void fl_bounded_open(struct lua_State *L, struct fl_lua *b);
/* Compiles the source text at index 'at': a string, or a function that returns it in pieces. Pushes
** the compiled function, or a message. name and the result are those of lua_load. */
int fl_bounded_load(struct lua_State *L, struct fl_lua *b, int at, const char *name);
extern const char fl_key_library;
/* Removes from the module the field 'internal', which scripts would see otherwise. */
void fl_hide_internals(struct lua_State *L);
/* Is this the source of one of flame's own files? */
int fl_is_library(const char *source);
#endif
