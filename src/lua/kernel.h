/*
** User kernels in Lua: the userdata behind flame.kernel, shared by kernel.c (making and
** looking), kernel_args.c and kernel_call.c (calling). What is not on the way of a call is written
** in lua/flame/kernel/gradient.lua.
*/
#ifndef FL_LUA_KERNEL_H
#define FL_LUA_KERNEL_H
#include "kernel/facts/access.h"
#include "kernel/function.h"
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

/* A launch while it is put together. */
typedef struct fl_kplan {
  const char *name;                    /* of the kernel */
  int64_t p[FL_CALL_PARAMS];
  fl_scalar scalar[4 * FL_KP_MAX_ARGS];
  int nscalar, nin, nout, device, tracked;
  fl_box *in[FL_CALL_INPUTS];
  struct { int dtype, input; int64_t at, bytes; fl_sizes shape; } out[FL_KP_MAX_ARGS];
  int64_t bytes;                       /* of the packed result so far */
} fl_kplan;

/* The Lua value at i as argument 'arg' of the plan; what does not fit raises (kernel_args.c). */
void fl_kplan_scalar(lua_State *L, fl_kplan *p, const fl_kparam *q, int arg, int i);
void fl_kplan_struct(lua_State *L, fl_kplan *p, const fl_kparam *q, int arg, int i);

/* kernel_geometry.c. Raises what no device takes. */
int fl_kplan_check(lua_State *L, const fl_kplan *p, const fl_kfunc *f);
/* Threads of a block whose number is not given. */
int64_t fl_kplan_block(const fl_kfunc *f);
/* n elements, in blocks of the usual size, unless the script said otherwise. */
void fl_kplan_geometry(lua_State *L, fl_kplan *p, const fl_kernel_box *k, int64_t n);

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
