/*
** User kernels in Lua: the userdata behind flame.kernel, shared by kernel.c (making),
** kernel_report.c (looking), kernel_args.c and kernel_call.c (calling) and kernel_rule.c (the part
** of gradients in Lua). Gradients themselves are in rule/.
*/
#ifndef FL_LUA_KERNEL_H
#define FL_LUA_KERNEL_H
#include "kernel/facts/access.h"
#include "lua/binding.h"
#include "rule/rule.h"

#define FL_KERNEL_MAGIC UINT64_C(0x666c616d652d6b6e)

enum { FL_KERNEL_OPEN = 255 };           /* the block has not been chosen yet */
/* fl_kernel_box.has_shape: outputs have the shape of the first array; that in 'shape'; or each has
** one, in a list of shapes that Lua keeps. */
enum { FL_KERNEL_SHAPE_FIRST, FL_KERNEL_SHAPE_ONE, FL_KERNEL_SHAPE_EACH };

/* One kernel with one configuration. User value 1: a table with what Lua keeps (shape and grid
** as functions, vjp, nodiff). */
typedef struct fl_kernel_box {
  uint64_t magic;
  fl_kprogram *p;                      /* a reference; NULL: closed */
  fl_kfunction *k;                     /* of p */
  int nout, taken;                     /* numbers of results and arguments of a call */
  int nhidden;                         /* how many parameters are variables of file scope, for which
                                       ** a call has no argument (fl_kprogram.hidden) */
  int nlisted;                         /* how many parameters join the argument of one before */
  int forms;                /* how many results are nil or lists, not tensors */
  uint8_t has_grid, has_block, lua_shape, lua_grid;
  uint8_t has_shape;                   /* FL_KERNEL_SHAPE_… */
  uint8_t has_threads, lua_threads;    /* 1: threads[] is given in place of grid[]; by a function */
  uint8_t chosen;                      /* block = "auto": 1 + device that 'block' was chosen for, or
                                       ** FL_KERNEL_OPEN; 0: the block is as the script says */
  uint8_t given;                       /* the script computes the gradient */
  uint8_t spread;                      /* 1: it has parameters that are parts of structs */
  uint8_t formed;                      /* 1: for arguments that are nil or lists of tensors, another
                                       ** kernel of the same text runs instead (kernel_form.c) */
  int64_t grid[3], threads[3], block[3], shared;
  fl_sizes shape;
  int unread_output, unread_line;      /* an output (its number) that is read before it is written;
                                       ** -1: none; unread_line: where */
  int unread_adds;                     /* 1: the kernel only adds to that output */
} fl_kernel_box;

enum { FL_KERNEL_LIST = 64 };            /* arrays of a list */

/* The name by which scripts say inout or nodiff of a parameter; for an array of a list, the list's
** name. */
static inline const char *fl_kparam_title(const fl_kparam *q) {
  return q->list_of ? q->list_of : q->name;
}
/* The name of the argument that q is, or is a part of. */
static inline const char *fl_kparam_argument(const fl_kparam *q) {
  return q->part_of ? q->part_of : fl_kparam_title(q);
}
int fl_kernel_arguments(lua_State *L);             /* internal.kernel_arguments */
/* For a call whose first argument, at 2, is a table. If the table is a module of flame.nn, the
** kernel was called as a method of it: then the arguments are replaced with those without the
** module (kernel/method.lua). Returns the number of arguments. */
int fl_kernel_drop_module(lua_State *L);
/* Has q a separate result? All arrays of a list have one together. */
static inline int fl_kparam_counts(const fl_kparam *q) { return q->list <= 1; }
/* Parameter i is the first of those that are given by one argument, a list or a struct. Returns the
** number of the first parameter after them. *taken: does a call have this argument? It has not if
** the call makes all of these parameters itself (outputs). (kernel_parts.c) */
int fl_kernel_argument_of_parts(const fl_kernel_box *k, int i, int *taken);
static inline int fl_kernel_argument(const fl_kernel_box *k, int i, int *taken) {
  const fl_kparam *q = &k->k->f->params[i];
  if (q->part_of || q->list_of) return fl_kernel_argument_of_parts(k, i, taken);
  *taken = k->p->role[i] != FL_KROLE_OUT && !k->p->hidden[i];
  return i + 1;
}
/* Does a call return nil in the place of q's result, since q is a null pointer? */
static inline int fl_kparam_gave_nil(const fl_kparam *q) { return q->is_null && !q->is_const; }

/* A launch that is being prepared: its inputs are boxes until the context is entered. */
typedef struct fl_kplan {
  fl_launch l;
  fl_box *in[FL_CALL_INPUTS];
  struct { fl_box *of; int param; } number[FL_KP_MAX_ARGS];   /* numbers read from tensors */
  int numbers;
  uint64_t each;                       /* bit i: argument i, of the first 64, has a part for each
                                       ** launch of a batch */
  int shapes;                          /* the stack index of a list with a shape for each output; 0:
                                       ** there is none */
  int tracked;                         /* is an argument tracked? */
} fl_kplan;

/* Converts the Lua value at i to argument 'arg' of the plan; raises if it does not fit
** (kernel_args.c). */
void fl_kplan_scalar(lua_State *L, fl_kplan *p, const fl_kparam *q, int arg, int i);
void fl_kplan_struct(lua_State *L, fl_kplan *p, const fl_kparam *q, int arg, int i);

/* Reads the shapes of outputs that the script gives, a list of sizes or a list of such lists, at
** the top of the stack: sets k->has_shape, and k->shape if there is one for all. Raises for other
** contents, in the name of 'op'. (kernel_geometry.c) */
void fl_kernel_read_shapes(lua_State *L, fl_kernel_box *k, const char *op);
/* The shape of output number 'made' (from 0) of those that are no arguments. *first: the shape of
** the call's first array; its n is -1 if there is none. */
fl_sizes fl_kplan_shape(lua_State *L, const fl_kplan *p, const fl_kernel_box *k,
                        const fl_sizes *first, int made);
/* Raises if the script gave another number of shapes than 'made'. */
void fl_kplan_check_shapes(lua_State *L, const fl_kplan *p, const fl_kernel_box *k, int made);
/* Gives the launch the lengths of array i along its axes, if the text has an accessor for it;
** raises if it has another number of axes. (kernel_parts.c) */
void fl_kplan_lengths(lua_State *L, fl_kplan *p, int i, const fl_sizes *s);
/* Calls the shape, grid and threads functions of the configuration with the arguments of the call,
** into *k, a copy. A list with a shape for each output stays on the stack, for fl_kplan_shape. */
void fl_kplan_ask(lua_State *L, fl_kplan *p, fl_kernel_box *k, int given);
static inline int64_t fl_numel_of(const fl_sizes *s) {
  int64_t n = 1;
  for (int i = 0; i < s->n; i++) if (__builtin_mul_overflow(n, s->at[i], &n)) return INT64_MAX / 16;
  return n;
}

/* Returns the kernel at 1 or, if arguments from stack index 'at' on are nil or lists of tensors,
** the kernel of the same text with null pointers, and lists of these lengths, in their places; it
** then replaces k at 1. (kernel_form.c) */
fl_kernel_box *fl_kernel_formed(lua_State *L, fl_kernel_box *k, int at);
int fl_kernel_for_forms(lua_State *L);             /* (kernel, forms) -> the kernel for them */

/* Pushes the value of parameter q, which is an element or a member of the argument at 'at'; returns
** its index. list: q is the first element of a list, and the whole list is pushed. fl_kernel_part:
** if q is the whole argument, returns 'at' and pushes nothing. */
int fl_kernel_push_part(lua_State *L, const char *op, const fl_kparam *q, int at, int list);
static inline int fl_kernel_part(lua_State *L, const char *op, const fl_kparam *q, int at) {
  return q->part_of || q->list_of ? fl_kernel_push_part(L, op, q, at, 0) : at;
}
/* If some lengths of accessors are equal in launch l, replaces the kernel at 1 with the kernel of
** the same text for launches with these equal lengths, and returns it; NULL: no lengths are
** equal. */
const fl_kernel_box *fl_kernel_equal(lua_State *L, const fl_kernel_box *k, const fl_launch *l);
/* Raises if the table at 'at', for parameters from i on up to 'end', has a member that the struct
** has not. */
void fl_kernel_check_members(lua_State *L, const fl_kernel_box *k, int i, int end, int at);
/* Pushes those of the n arguments from 'first' on that were written: tensors or lists of them. */
int fl_kernel_push_targets(lua_State *L, int first, int n, fl_box **target, int ntarget);
/* Leaves on the stack the results that a script sees: none of hidden parameters, nil for an inout
** that is nil, one list for those of a list. Returns how many there are. */
int fl_kernel_visible(lua_State *L, const fl_kernel_box *k, int nout);

/* The innermost frame of the script (kernel_place.c): stores its label, and returns the line at
** which 'text' begins in the script or, if it is not found there, the line that the frame is at. 0,
** with an empty label: no script is running. */
int fl_kernel_place(lua_State *L, const char *text, char label[LUA_IDSIZE]);
fl_kernel_box *fl_kernel_at(lua_State *L, int i);          /* NULL: none */
/* As fl_kernel_at, but raises an error of op if there is none. */
fl_kernel_box *fl_arg_kernel(lua_State *L, int i, const char *op);
/* Raises the error in the context, which is about kernel k. */
int fl_kernel_raise(lua_State *L, fl_lua *b, const fl_kfunction *k);
/* Pushes the value that the script has set for q, a hidden parameter of the kernel at 1; raises if
** it has set none. */
void fl_kernel_push_constant(lua_State *L, const char *kernel, const fl_kparam *q);
int fl_kernel_call(lua_State *L);          /* k(…) */
int fl_kernel_refused(lua_State *L, const fl_kernel_box *k);     /* raises why it has no body */
int fl_kernel_each(lua_State *L);          /* internal.kernel_each */
int fl_kernel_launch(lua_State *L);        /* k:launch(geometry, …) */
/* block = "auto" (kernel_block.c): chooses the block of the kernel at 1 for the device, unless that
** is done, and puts it into k, which may be a copy. sized: the grid, or its number of threads, is
** given. */
void fl_kernel_choose(lua_State *L, fl_kernel_box *k, int device, int sized);
/* Raises if no block can be found from the text of the kernel. */
void fl_kernel_need_blocks(lua_State *L, const fl_kernel_box *k);
int fl_kernel_blocks(lua_State *L);        /* internal.kernel_blocks, _resident, _settle */
int fl_kernel_resident(lua_State *L);
int fl_kernel_settle(lua_State *L);
int fl_kernel_map(lua_State *L);           /* internal.map_text */
int fl_kernel_map_arity(lua_State *L);
int fl_kernel_info(lua_State *L);       /* internal.kernel_info, _lines, _image (kernel_report.c) */
int fl_kernel_lines(lua_State *L);
int fl_kernel_image(lua_State *L);
int fl_kernel_run(lua_State *L);           /* internal.kernel_run */
fl_kernel_box *fl_kernel_push(lua_State *L);              /* an empty one, which its owner fills */
/* Puts the program, with its reference, into the box, and sets the fields that follow from it. */
void fl_kernel_take(fl_kernel_box *k, fl_kprogram *p);
int fl_kernel_show(lua_State *L);          /* internal.kernel_show (kernel_report.c) */
/* internal.kernel_again, _tangent, _adjoint, _facts: of a rule at 1 (kernel_rule.c) */
int fl_kernel_again(lua_State *L);
int fl_kernel_tangent(lua_State *L);
int fl_kernel_adjoint(lua_State *L);
int fl_kernel_facts(lua_State *L);
/* Pushes a userdata that will own a rule, which is made later, for a proof (FLAME_CHECK=grad). */
fl_krule **fl_kernel_push_rule(lua_State *L);
void fl_kernel_prove(fl_lua *b);           /* FLAME_CHECK=grad: makes the context prove its rules */
int fl_kernel_cache(lua_State *L);         /* internal.kernel_cache */
int fl_kernel_choice(lua_State *L);        /* internal.kernel_choice */
#endif
