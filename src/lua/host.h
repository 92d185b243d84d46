/*
** Functions of flame.h that are answered by Lua: flame_call, flame_method, objects. A context that
** flame_open made gets a hidden state at the first of them, which lives as long as it does; one
** that a state has made uses that. What is called reads its arguments by its declaration, as for a
** script.
*/
#ifndef FL_LUA_HOST_H
#define FL_LUA_HOST_H
#include "lua/binding.h"

/* What a call gets and gives. Everything that it holds is the caller's. */
typedef struct fl_host_call {
  fl_lua *b;
  const char *function;              /* "nn.Linear"; NULL: of the object */
  struct flame_object *object;
  const char *method;                /* NULL: the object itself is called */
  int narg, nresult;
  const flame_value *arg;
  flame_value *result;
} fl_host_call;

/* The binding of c's state, made now where there is none; NULL: the error is kept. (host.c) */
fl_lua *fl_host_of(flame_context *c);
/* f(arg) under pcall in the state of b, counted as a call by the host; axes in messages: from 0. */
flame_status fl_host_run(fl_lua *b, lua_CFunction f, void *arg, const char *op);
/* Objects lose their values: the state is closing. */
void fl_objects_end(fl_lua *b);

/* (host_value.c) Push the value; "names" among the n of a list are its fields. */
void fl_host_push(lua_State *L, fl_lua *b, const flame_value *v);
/* A list becomes what it holds, on the stack; those with a name become one table, behind them.
** Returns how many values were pushed. */
int fl_host_push_all(lua_State *L, fl_lua *b, int n, const flame_value *v);
/* The value at i, into v, with what v points to kept in the table at 'kept'. */
void fl_host_take(lua_State *L, fl_lua *b, int i, int kept, flame_value *v);
/* Push the object's value. */
void fl_host_push_object(lua_State *L, fl_lua *b, const struct flame_object *o);
/* An object of the value at i. (host.c) */
struct flame_object *fl_object_new(lua_State *L, fl_lua *b, int i);

/* The arguments from 'first' on to the callable at 'callee' count axes from 0: from 1 from now on.
** (host_axes.c) */
void fl_host_axes(lua_State *L, fl_lua *b, int callee, int first);
/* The same of a message, the other way. */
void fl_host_axes_said(char *text, size_t size);
#endif
