/*
** User kernels in Lua: the userdata behind flame.kernel, shared by kernel.c (making and
** looking), kernel_args.c and kernel_call.c (calling). What is not on the way of a call is written
** in lua/flame/kernel/gradient.lua.
*/
#ifndef FL_LUA_KERNEL_H
#define FL_LUA_KERNEL_H
#include "engine/launch.h"
#include "kernel/facts/access.h"
#include "lua/binding.h"

#define FL_KERNEL_MAGIC UINT64_C(0x666c616d652d6b6e)

/* What a parameter is to a caller. */
typedef enum { FL_KROLE_SCALAR, FL_KROLE_STRUCT, FL_KROLE_IN, FL_KROLE_OUT,
               FL_KROLE_INOUT } fl_krole;

/* One kernel with one configuration. User value 1: a table with what Lua keeps (shape and grid
** as functions, vjp, nodiff, the derived kernels). */
typedef struct fl_kernel_box {
  uint64_t magic;
  fl_kfunction *k;                     /* a reference; NULL: closed */
  uint8_t role[FL_KP_MAX_ARGS];
  uint8_t hidden[FL_KP_MAX_ARGS];      /* a variable of file scope, which no argument stands for */
  int nparam, nout, taken, nhidden;    /* nout, taken: of results and arguments of a call */
  int omit;                            /* the only integer parameter, if it is the
                                       ** last: may be left out; else -1 */
  uint8_t has_grid, has_block, has_shape, lua_shape, lua_grid;
  int64_t grid[3], block[3], shared;
  fl_sizes shape;
  int unread_output, unread_line;      /* output that is read before it is written; -1: none */
  fl_kfunction *recorder;              /* launched where the call is tracked (kernel/ad/record.h);
                                       ** NULL: k itself. Held by the configuration */
  int records;                         /* values for each thread */
} fl_kernel_box;

/* A launch while it is put together: boxes stand for its inputs until the context is entered. */
typedef struct fl_kplan {
  fl_launch l;
  fl_box *in[FL_CALL_INPUTS];
  int tracked;
} fl_kplan;

/* The Lua value at i as argument 'arg' of the plan; what does not fit raises (kernel_args.c). */
void fl_kplan_scalar(lua_State *L, fl_kplan *p, const fl_kparam *q, int arg, int i);
void fl_kplan_struct(lua_State *L, fl_kplan *p, const fl_kparam *q, int arg, int i);

/* The innermost frame of the script: its label, and the line where the text begins, 0 where that
** is unknown (kernel_place.c). */
int fl_kernel_place(lua_State *L, const char *text, char label[LUA_IDSIZE]);
fl_kernel_box *fl_kernel_at(lua_State *L, int i);          /* NULL: none */
/* The same or an error of op. */
fl_kernel_box *fl_arg_kernel(lua_State *L, int i, const char *op);
/* Raise what the context keeps about a kernel. */
int fl_kernel_raise(lua_State *L, fl_lua *b, const fl_kfunction *k);
/* Push the value that the script has set for hidden parameter q of the kernel at 1; raises. */
void fl_kernel_push_constant(lua_State *L, const char *kernel, const fl_kparam *q);
int fl_kernel_call(lua_State *L);          /* k(…) */
int fl_kernel_launch(lua_State *L);        /* k:launch(geometry, …) */
int fl_kernel_map(lua_State *L);           /* internal.map_text */
int fl_kernel_map_arity(lua_State *L);
int fl_kernel_info(lua_State *L);       /* internal.kernel_info, _lines, _image (kernel_report.c) */
int fl_kernel_lines(lua_State *L);
int fl_kernel_image(lua_State *L);
int fl_kernel_run(lua_State *L);           /* internal.kernel_run */
int fl_kernel_cache(lua_State *L);         /* internal.kernel_cache */
#endif
