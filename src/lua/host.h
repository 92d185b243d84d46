/*
** Functions of flame.h that are answered by Lua: flame_call, flame_method, objects. A context made
** by flame_open gets a hidden state at the first of them, which exists as long as the context; one
** made by a state uses that state. The called function reads its arguments by its declaration, as
** for a script.
*/
#ifndef FL_LUA_HOST_H
#define FL_LUA_HOST_H
#include "lua/binding.h"

/* The data and results of a call. Everything that it refers to belongs to the caller. */
typedef struct fl_host_call {
  fl_lua *b;
  const char *function;              /* "nn.Linear"; NULL: a method of the object */
  struct flame_object *object;
  const char *method;                /* NULL: the object itself is called */
  int narg, nresult;
  const flame_value *arg;
  flame_value *result;
} fl_host_call;

/* The binding of c's state, which is made if necessary; NULL with an error. (host.c) */
fl_lua *fl_host_of(flame_context *c);
/* Runs f(arg) under pcall in the state of b, counted as a call by the host; axes in messages count
** from 0. */
flame_status fl_host_run(fl_lua *b, lua_CFunction f, void *arg, const char *op);
/* Called when the state is closed: objects lose their values. */
void fl_objects_end(fl_lua *b);

/* (host_value.c) Pushes the value; elements of a list that have names become fields. */
void fl_host_push(lua_State *L, fl_lua *b, const flame_value *v);
/* Pushes the n values; those with a name become one table, after the others. Returns how many Lua
** values were pushed. */
int fl_host_push_all(lua_State *L, fl_lua *b, int n, const flame_value *v);
/* Converts the value at i to v; data that v points to is kept in the table at 'kept'. */
void fl_host_take(lua_State *L, fl_lua *b, int i, int kept, flame_value *v);
/* Pushes the object's value. */
void fl_host_push_object(lua_State *L, fl_lua *b, const struct flame_object *o);
/* A new object that stands for the value at i. (host.c) */
struct flame_object *fl_object_new(lua_State *L, fl_lua *b, int i);

/* Converts axes among the arguments from 'first' on of the callable at 'callee': from counting from
** 0 to counting from 1. (host_axes.c) */
void fl_host_axes(lua_State *L, fl_lua *b, int callee, int first);
/* Converts the axes in a message back. */
void fl_host_axes_said(char *text, size_t size);
#endif
