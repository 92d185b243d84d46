/*
** What the files of the binding share. Nothing outside src/lua includes this.
**
** Every C function of the module is a closure with two upvalues at least: 1 the state of the
** binding (light userdata, an fl_lua), 2 the metatable of tensors. Functions of bounded libraries
** have only the first, those that lua_pcall runs none. Phases of a call:
**   1. read and check the arguments: may raise a Lua error, so it owns nothing;
**   2. make the boxes of the results (fl_box), so that what follows has an owner at once;
**   3. fl_lua_enter … functions that add nodes to the graph … fl_lua_leave: nothing here raises;
**   4. fill the boxes, or raise the error that is stored in the context.
** fl_lua_enter may evaluate tensors, and so run the collector and scripts' __gc functions; a node
** is therefore read from its box (node_of) only after it.
*/
#ifndef FL_LUA_BINDING_H
#define FL_LUA_BINDING_H
#include "autograd/autograd.h"
#include "base/word.h"
#include "engine/engine.h"
#include "tensor/build.h"
#include "lua/hook.h"
#include "tensor/tensor.h"
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <signal.h>
#include <string.h>

#define FL_BOX_MAGIC UINT64_C(0x666c616d652d7462)

/* What a tensor's userdata refers to. It is separate from the userdata because Lua, when it has no
** memory for the call of a finaliser, drops the finaliser and frees the userdata, although lists
** still refer to the box. Boxes are in chunks that the registry holds as long as the state exists;
** a box that lost its userdata is still in fl_lua.boxes, and so is found when the state ends. */
typedef struct fl_box {
  flame_tensor *t;            /* a reference that the box owns; NULL: closed or not yet filled */
  int32_t slot;               /* its index in fl_lua.tracked; -1: no scope will close the box */
  uint32_t closed;            /* if t is NULL: the site (line of a script) that closed the box; with
                              ** the bit FL_BOX_FREED: closed by free() */
  struct fl_box *next, *prev; /* of fl_lua.boxes */
} fl_box;
#define FL_BOX_FREED 0x80000000u

/* The payload of a tensor's userdata. */
typedef struct fl_box_ref { uint64_t magic; fl_box *box; /* NULL: finalised */ } fl_box_ref;

/* A site: a line of a script. Ids of sites count from 1; 0 is "unknown". */
typedef struct fl_site {
  char src[LUA_IDSIZE];
  const char *source;         /* source, length, head (first bytes): the key in fl_lua.cache */
  size_t length;
  char head[16];
  int32_t line;
  uint8_t library;            /* 1: in a Lua file of flame: the caller's line is used instead */
} fl_site;

/* An open scope (scope.c). first: the index in fl_lua.tracked of the first box made in it; serial:
** its number, which a script's scope object has too; site: the line that opened it. */
typedef struct fl_scope_mark { int64_t first; int64_t serial; uint32_t site; } fl_scope_mark;
/* A box that is closed when scope number 'depth' ends. */
typedef struct fl_tracked_box { fl_box *box; int64_t depth; } fl_tracked_box;

enum { FL_SITE_CACHE = 512 };

/* A function of the script, or a list of hooks, that the graph holds. kept: tensors that a
** function's backward reads. They are held here and not by the Lua function, so that a graph of
** many such functions is freed at once with its last handle; otherwise each collection would free
** only one of them. */
typedef struct fl_callback {
  struct fl_lua *b;
  struct fl_callback *next, *prev;   /* of fl_lua.callbacks */
  int64_t id;                        /* its key in the registry's table of callbacks */
  uint8_t seen;                      /* scratch of cycles.c */
  int nkept;
  flame_tensor *kept[];
} fl_callback;

typedef struct fl_crew fl_crew;
typedef struct fl_sandbox fl_sandbox;

/* The binding's state: lives in a userdata of the registry, made before any box. */
typedef struct fl_lua {
  flame_context *c;           /* NULL once the state is closing */
  lua_State *L;               /* the Lua thread (coroutine) that called the library last; the
                              ** registry holds it, see fl_lua_on */
  lua_State *main;            /* the state's main thread */
  fl_box *unused;             /* boxes free for use, through next */
  int chunks;
  fl_box *boxes;              /* all boxes that are not finalised; boxes made while the state
                              ** closes are never finalised */
  int pinned;                 /* > 0: all ops get the site 'pin', set by code of the library */
  int depth;                  /* the stack level (lua_getstack) at which the last site was found */
  const char *naming;   /* the name that messages give to the next op that takes positions
                        ** (indices), set by internal.naming; NULL: the op's own */
  uint32_t pin;
  struct { fl_site *at; int64_t n, cap; } sites;
  uint32_t *bins;             /* site ids by text, open addressing */
  int64_t nbins;
  uint32_t cache[FL_SITE_CACHE];
  struct { fl_tracked_box *at; int64_t n, cap; } tracked;   /* boxes of the open scopes */
  struct { fl_scope_mark *at; int64_t n, cap; } scopes;
  int64_t serial;             /* number of the last scope that was opened */
  struct custom_call *calling; /* the backward functions of the script that are running, the
                               ** innermost first */
  fl_callback *callbacks;     /* all that live */
  fl_crew *crews;            /* workers of loaders (crew.c) */
  fl_sandbox *sandboxes;     /* sandbox.c */
  int64_t callback_ids, surveyed, survey_cost;   /* cycles.c. surveyed: c->sequence at the last
                                                 ** survey of the graph; survey_cost: ops until
                                                 ** the next may be made */
  int64_t survey_looks;       /* most values that a survey examines; 0: as many as the first may */
  lua_CFunction collectgarbage;  /* Lua's function; NULL: the host opened no base library */
  int64_t seedings;           /* number of calls of flame.seed; each makes data.batches number its
                              ** loaders from the first again */
  const fl_upcalls *engine_up; /* the engine's table; 'up' is a copy in which some call Lua */
  fl_upcalls up;
  fl_error last;              /* for flame.last_error */
  uint8_t has_error;  /* registry[fl_key_error] holds a callback's error, which will be raised
                      ** again */
  uint64_t loading; /* chapters (files of lua/flame) being loaded, a bit each: library.c */
  uint8_t core_loaded, after_backward;      /* after_backward: a function is set to run after each
                                            ** backward (grad.c) */
  uint8_t generational;       /* 1: Lua's collector was last seen in generational mode */
  uint8_t floats;             /* the default dtype of new tensors */
  uint8_t autocast;         /* the dtype to which products are cast, + 1; 0: off (declare_cast.c) */
  uint8_t inside;             /* 1: an op runs whose tensors were cast; ops inside it cast none */
  int64_t casts;              /* number of open blocks of flame.autocast */
  int64_t walks, tracked_reads;   /* slip.c. walks: calls of backward and gradients;
                                  ** tracked_reads: values of tracked tensors that were read */
  lua_State *volatile running; /* hook.c: the running coroutine */
  struct fl_lua *volatile inner;   /* the sandbox that is running in a call of this state */
  volatile sig_atomic_t struck;    /* running code must end at the next instruction */
  int each;                   /* instructions between two calls of the hook; 0: it is not set */
  int calls;                  /* calls by the host that are under way */
  fl_note noted;              /* receives calls and returns: hook.c */
  uint8_t ending;             /* the hook has raised, and no protected call has caught it yet */
  struct fl_lua_heap *heap;   /* heap.c: counts Lua's allocations; NULL: not counted */
  uint8_t bounded;            /* a state made by us with limits: state.c */
  uint8_t borrowed;     /* the context belongs to a host and is not closed with the state: host.c */
  struct flame_object *objects;    /* all living objects, through next; object_ids: the last
                                   ** number given to an object */
  int64_t object_ids;
} fl_lua;

static inline fl_lua *self_of(lua_State *L) {
  return (fl_lua *)lua_touserdata(L, lua_upvalueindex(1));
}

/* Stores L, the Lua thread that calls the library, in b->L. L may be a coroutine to which nothing
** else refers when a host later calls flame.h, and the collector or a hook runs on L: so the
** registry holds it. (site.c) */
void fl_lua_enter_thread(lua_State *L, fl_lua *b);
static inline void fl_lua_on(lua_State *L, fl_lua *b) {
  if (b->L != L) fl_lua_enter_thread(L, b);
}
/* A thread that can run a finaliser or a function: one that has not yielded or failed. */
static inline lua_State *fl_lua_thread(const fl_lua *b) {
  return lua_status(b->L) == LUA_OK ? b->L : b->main;
}

/* Is the value at i a function, or has it __call? A tensor does not count: calling it means
** indexing. (args.c) */
int fl_is_callable(lua_State *L, int i);
/* The box of the tensor at i, or NULL. Recognises the userdata without the registry. */
static inline fl_box *box_at(lua_State *L, int i) {
  const fl_box_ref *x = (const fl_box_ref *)lua_touserdata(L, i);
  if (x == NULL || lua_rawlen(L, i) != sizeof *x || x->magic != FL_BOX_MAGIC) return NULL;
  return x->box;
}

/* Are the arguments exactly this many usable tensors, then this many integers? Then fl_args need
** not read them: functions that are called at each step use this first. */
static inline int fl_plain(lua_State *L, int tensors, int integers) {
  if (lua_gettop(L) != tensors + integers) return 0;
  for (int i = 1; i <= tensors; i++) {
    const fl_box *x = box_at(L, i);
    if (x == NULL || x->t == NULL) return 0;
  }
  for (int i = 1; i <= integers; i++) if (!lua_isinteger(L, tensors + i)) return 0;
  return 1;
}

/* Pushes n bytes as a string; the caller frees its bytes. 1: done. 0: Lua has no memory: its error
** is pushed, and is to be raised after the bytes are freed. (args.c) */
int fl_lua_push_copy(lua_State *L, const char *p, size_t n);

/* ---- sites and errors (site.c), declared functions (declare.c), slips (slip.c) --------- */
uint32_t fl_lua_site(lua_State *L, fl_lua *b);
/* "train.lua:8" or "" into buf; returns buf. */
char *fl_site_text(const fl_lua *b, uint32_t site, char buf[96]);
/* Raises the error that is stored in the context, as docs/contract.md 7 says. */
int fl_lua_raise(lua_State *L, fl_lua *b) __attribute__((noreturn));

/* The context of a call; raises if the state is being closed. */
static inline flame_context *context_of(lua_State *L) {
  fl_lua *b = self_of(L);
  if (b->c == NULL) fl_lua_raise(L, b);
  return b->c;
}

/* Sets fields of the table on top. */
static inline void set_int(lua_State *L, const char *name, int64_t v) {
  lua_pushinteger(L, v);
  lua_setfield(L, -2, name);
}
static inline void set_number(lua_State *L, const char *name, double v) {
  lua_pushnumber(L, v);
  lua_setfield(L, -2, name);
}
static inline void set_text(lua_State *L, const char *name, const char *text) {
  lua_pushstring(L, text);
  lua_setfield(L, -2, name);
}
/* The name that messages give to an op that takes positions (indices): 'op', or the name that
** internal.naming has set, which is used once. */
const char *fl_lua_named(fl_lua *b, const char *op);
/* A public function that is written in Lua, see declare.h. Upvalues: state, metatable, the
** declaration (parsed at the first call), the name, a function for each form (parameter list). */
int fl_lua_declared(lua_State *L);
/* Reads the arguments of a C function whose row (fl_lua_reg) has a declaration: they become its
** parameters on the stack, in order, then the values of "id..." (declare.h). Returns the number of
** the form (parameter list) that fits, or raises. */
int fl_args(lua_State *L);
/* Called when a call failed because of its arguments: if the script has x.f(…) where x:f(…) is
** meant, adds that to the error. (dotted.c) */
void fl_lua_dotted(lua_State *L, fl_error *e, lua_Debug *caller, lua_Debug *callee);
int fl_lua_fail(lua_State *L, const char *op, const char *fmt, ...)
  __attribute__((format(printf, 3, 4), noreturn));
/* Like fl_lua_fail, in a C function that has no upvalues, such as one that lua_pcall runs. */
int fl_lua_fail_in(lua_State *L, fl_lua *b, const char *op, const char *fmt, ...)
  __attribute__((format(printf, 4, 5), noreturn));
/* Calls f(arg) under pcall in fl_lua_thread(b); an error is stored for fl_lua_raise. */
flame_status fl_lua_callback(fl_lua *b, lua_CFunction f, void *arg, const char *op);
/* Frees what the sites hold. */
void fl_sites_close(fl_lua *b);

/* Reports something that is not an error but rarely intended, once for each line of the script.
** (slip.c) */
void fl_lua_slip(lua_State *L, fl_lua *b, const char *text);
/* A step of optimiser k reads the gradient g. Has a backward pass added to g since an earlier step
** of k read it? */
int fl_gradient_used(flame_tensor *g, int64_t k);
/* Reports that x, the scores given to cross_entropy, is the result of a softmax over classes. */
void fl_lua_slip_softmax(lua_State *L, fl_lua *b, const fl_box *x);

/* ---- boxes (box.c, scope.c) --------------------------------------------------------------- */
fl_box *fl_box_new(lua_State *L);          /* pushed, empty; upvalue 2 is the metatable */
fl_box *fl_box_new_in(lua_State *L, fl_lua *b);   /* the same, where L has none of our upvalues */
/* Pushes the box of handle t, always the same one. A new box gets its own reference of t. */
void fl_box_push(lua_State *L, fl_lua *b, flame_tensor *t);
/* Pushes the box of handle t if it has one; 0: it has none, and nothing is pushed. */
int fl_box_find(lua_State *L, const flame_tensor *t);
/* The new box x, whose userdata is on top, gets a reference of t, and is what fl_box_find finds for
** t from now on. */
void fl_box_name(lua_State *L, fl_lua *b, fl_box *x, flame_tensor *t);
void fl_box_remember(lua_State *L, int i);                /* fl_box_find then finds the box at i */
void fl_box_untrack(fl_lua *b, fl_box *x);                /* no scope will close it */
void fl_box_close(fl_lua *b, fl_box *x, uint32_t why);     /* why: becomes fl_box.closed */
/* Raises: a tensor has no field of this name; methods: the index of the table of methods. */
int fl_box_unknown(lua_State *L, int methods, const char *name);
/* The userdata at i is being finalised: closes its box, which can then be reused. */
void fl_box_finalise(lua_State *L, fl_lua *b, int i);
/* ---- callbacks (callback.c) and what they keep alive (cycles.c) ------------------------------ */
/* Pops the function on top and stores it in the registry under a new id. To be called before
** fl_lua_enter, since it may raise. */
int64_t fl_callback_anchor(lua_State *L, fl_lua *b);
void fl_callback_forget(fl_lua *b, int64_t id);
fl_callback *fl_callback_new(fl_lua *b, int64_t id, int nkept);     /* NULL: no memory */
void fl_callback_drop(void *callback);
void fl_callback_push(lua_State *L, const fl_callback *f);
void fl_cycles_init(lua_State *L, fl_lua *b);
/* From now until fl_cycles_anchor, Lua's collector frees callbacks that nothing reaches through the
** graph. */
void fl_cycles_loosen(lua_State *L, fl_lua *b);
void fl_cycles_anchor(void *binding);
int fl_cycles_due(const fl_lua *b);

/* Their addresses are keys of the registry. */
extern const char fl_key_state, fl_key_meta, fl_key_boxes, fl_key_chunks, fl_key_module,
fl_key_error, fl_key_guard,
  fl_key_scope, fl_key_thread, fl_key_callbacks, fl_key_functions, fl_key_reach, fl_key_pinned,
  fl_key_watch, fl_key_sizes, fl_key_newaxis;

/* ---- entering -------------------------------------------------------------------------------- */
int64_t fl_lua_enter_slow(lua_State *L, fl_lua *b);
static inline int64_t fl_lua_enter(lua_State *L, fl_lua *b) {
  flame_context *c = b->c;
  if (c == NULL || c->err.code != FLAME_OK) return fl_lua_enter_slow(L, b);
  const uint32_t site = fl_lua_site(L, b);
  fl_lua_on(L, b);
  const int64_t mark = fl_enter(c);
  c->site = site;
  return mark;
}

/* The node of a box; if the box has no value, NULL with the error in the context. */
fl_node *fl_box_dead(fl_lua *b, const fl_box *x);
static inline fl_node *node_of(fl_lua *b, const fl_box *x) {
  return x->t != NULL && x->t->node != NULL ? x->t->node : fl_box_dead(b, x);
}

/* Fills 'out' with a handle on n and ends the call's scope; raises if n is NULL. Returns 1. */
static inline int fl_lua_leave(lua_State *L, fl_lua *b, int64_t mark, fl_box *out, fl_node *n) {
  if (b->c->anomaly && n != NULL && b->c->up->anomaly(b->c, mark) != FLAME_OK) n = NULL;
  out->t = fl_tensor_new(b->c, n);
  fl_scope_end(b->c, mark);
  return out->t != NULL ? 1 : fl_lua_raise(L, b);
}
/* Like fl_lua_leave, for a function 'op' that is composed of other ops. */
static inline int fl_lua_leave_as(lua_State *L, fl_lua *b, int64_t mark, fl_box *out, fl_node *n,
                                  const char *op) {
  if (n == NULL) fl_error_own(&b->c->err, op);
  return fl_lua_leave(L, b, mark, out, n);
}
/* Like fl_lua_leave, for a view: a write to 'out' is refused with the name of the function that
** made it. */
static inline int fl_lua_leave_view(lua_State *L, fl_lua *b, int64_t mark, fl_box *out, fl_node *n,
                                    const char *made_by) {
  out->t = fl_tensor_new_view(b->c, n, made_by);
  fl_scope_end(b->c, mark);
  return out->t != NULL ? 1 : fl_lua_raise(L, b);
}
/* Ends the call's scope without a result; raises unless e is FLAME_OK. */
static inline int fl_lua_leave_status(lua_State *L, fl_lua *b, int64_t mark, flame_status e) {
  if (b->c->anomaly && e == FLAME_OK) e = b->c->up->anomaly(b->c, mark);
  fl_scope_end(b->c, mark);
  return e == FLAME_OK ? 0 : fl_lua_raise(L, b);
}

/* ---- arguments (args.c, sizes.c). i: stack index; op, name: for messages --------------------- */
/* A tensor, or (box is NULL) a number: d is its value, and i too if it is an integer (isint). */
typedef struct fl_operand_arg { fl_box *box; int isint; int64_t i; double d; } fl_operand_arg;
typedef struct fl_sizes { int n; int64_t at[FL_MAX_AXES]; } fl_sizes;
typedef struct fl_make_opts { int dtype, device, requires_grad; } fl_make_opts;

/* Of these, fl_arg_tensor_or_nil gives NULL for nil or no argument. fl_arg_value takes booleans
** too. fl_arg_found and fl_arg_no_number describe the value at i for a message, and may push. */
fl_box *fl_arg_tensor(lua_State *L, int i, const char *op, const char *name);
fl_box *fl_arg_tensor_or_nil(lua_State *L, int i, const char *op, const char *name);
fl_operand_arg fl_arg_operand(lua_State *L, int i, const char *op, const char *name);
const char *fl_arg_found(lua_State *L, int i);
const char *fl_arg_no_number(lua_State *L, int i);
fl_operand_arg fl_arg_value(lua_State *L, int i, const char *op, const char *name);
fl_node *fl_operand_node(fl_lua *b, const fl_operand_arg *a);
fl_node *fl_factor_node(fl_lua *b, double v);
/* The value to be stored into 'like', in its dtype. NULL with an error: a number that the dtype
** does not hold, a tensor of floats for integers or bools, or a tensor on another device. */
fl_node *fl_stored_value(fl_lua *b, const fl_operand_arg *a, fl_node *like, const char *op);
int64_t fl_arg_int(lua_State *L, int i, const char *op, const char *name);
int64_t fl_arg_int_or(lua_State *L, int i, const char *op, const char *name, int64_t otherwise);
double fl_arg_num(lua_State *L, int i, const char *op, const char *name);
double fl_arg_num_or(lua_State *L, int i, const char *op, const char *name, double otherwise);
const char *fl_arg_string(lua_State *L, int i, const char *op, const char *name);
int fl_arg_dtype(lua_State *L, int i, const char *op);
int fl_arg_device(lua_State *L, int i, const char *op);
/* 1-based or negative -> 0-based */
int fl_axis_checked(lua_State *L, int64_t axis, int rank, const char *op);
int fl_arg_axis(lua_State *L, int i, int rank, const char *op);
/* The set of axes at i: a number or a list; nil or an empty list: every axis. */
uint32_t fl_arg_axes(lua_State *L, int i, int rank, const char *op);
int fl_is_options(lua_State *L, int i);                /* a table with a string key */
/* Checks the keys of the options table at i (may be nil): names "a b c" are allowed. Raises for
** others. */
void fl_check_options(lua_State *L, int i, const char *op, const char *names);
/* Pushes field 'name' of the options at i (which may be nil); returns its Lua type. */
int fl_option(lua_State *L, int i, const char *name);
int fl_option_bool(lua_State *L, int i, const char *op, const char *name, int otherwise);
int64_t fl_option_int(lua_State *L, int i, const char *op, const char *name, int64_t otherwise);
/* Reads the sizes at first … last: numbers, or one table of them. least: smallest size allowed (-1
** for reshape). */
void fl_arg_sizes(lua_State *L, int first, int last, const char *op, int least, fl_sizes *s);
/* Reads dtype, device and requires_grad at the stack indices first to first + 2. For nil these are
** -1, the default device, and 0. */
void fl_arg_make_opts(lua_State *L, int first, const char *op, fl_make_opts *o);
const char *fl_lua_shape_of(char buf[192], const fl_node *n);
void fl_push_scalar(lua_State *L, int dtype, fl_scalar v);
/* Pushes the list of sizes or strides that a script gets as x.shape; fl_is_sizes: is the value at i
** such a list? (sizes.c) */
void fl_push_sizes(lua_State *L, int n, const int64_t from[FL_MAX_AXES]);
/* fl_push_sizes with the metatable of such lists at index 'meta', since x.shape is read often. */
void fl_push_sizes_with(lua_State *L, int meta, int n, const int64_t from[FL_MAX_AXES]);
int fl_is_sizes(lua_State *L, int i);
void fl_sizes_metatable(lua_State *L, fl_lua *b);
/* Converts the Lua number or boolean at i to a scalar of dtype's class; 0 with a message in why[]
** if dtype does not hold it. */
int fl_number_fits(lua_State *L, int i, int dtype, fl_scalar *v, char why[96]);
/* The same for a number that was read already, without a message. */
int fl_value_fits(const fl_operand_arg *a, int dtype, fl_scalar *v);
/* Offers the string keys of the table at t as candidates for the misspelt word of g. */
void fl_offer_keys(lua_State *L, int t, fl_word_guess *g);
/* Reads the list of tensors in the table at i: puts their boxes into an array of at most 'max', and
** returns how many. The userdata stay on the stack, since a finaliser may remove them from the
** table. */
int fl_arg_list(lua_State *L, int i, const char *op, const char *name, int max, fl_box **out);

/* ---- what the other files register ----------------------------------------------------------- */
/* name: a declaration (lua/declare.h), whose head says where the function goes; or the name of an
** internal function, or of a metamethod ("__len"). where: for a function without a declaration, bit
** 0: the module, bit 1: the methods of tensors. */
enum { FL_IN_MODULE = 1, FL_IN_METHODS = 2, FL_IN_BOTH = 3 };
typedef struct fl_lua_reg { const char *name; lua_CFunction f; int where; } fl_lua_reg;
extern const fl_lua_reg fl_reg_make[], fl_reg_ops[], fl_reg_shape[], fl_reg_index[],
fl_reg_neural[], fl_reg_update[],
  fl_reg_grad[], fl_reg_value[], fl_reg_inspect[], fl_reg_memory[], fl_reg_scope[],
  fl_reg_internal[], fl_reg_io[], fl_reg_kernel[], fl_reg_explain[], fl_reg_watch[],
  fl_reg_profile[], fl_reg_stacks[],
  fl_reg_declare[], fl_reg_cast[],
  fl_reg_slip[], fl_reg_tokenizer[], fl_reg_crew[], fl_reg_sandbox[],
  fl_reg_files[], fl_reg_group[], fl_reg_program[], fl_reg_dlpack[];
const fl_lua_reg *fl_hooks(void);        /* for tests; empty in a release */
/* Registers the functions of the op table in the module and the methods at these stack indices, and
** the operators in the table at 'arithmetic'. meta: the metatable of tensors. */
void fl_ops_register(lua_State *L, fl_lua *b, int module, int methods, int meta, int arithmetic);
int fl_index_get(lua_State *L);        /* x[k]: key at 2, tensor at 1 */
int fl_index_set(lua_State *L);        /* x[k] = v */
int fl_index_call(lua_State *L);       /* x(k, …) */
int fl_property_get(lua_State *L, int which);
int fl_property_set(lua_State *L);     /* key at 2 (a string), value at 3 */
int fl_print_tostring(lua_State *L);
int fl_lua_call_op(lua_State *L);              /* internal.call, call.c */
int fl_lua_call_along(lua_State *L);           /* internal.along */
int fl_lua_attention(lua_State *L);            /* internal.attention */
int fl_lua_attention_rows(lua_State *L);       /* internal.attention_rows */
int fl_lua_form(lua_State *L);                 /* internal.form */
/* If 'name' is that of a function written in Lua (library.c): loads the file (chapter) that defines
** it, pushes the field of the table at 'table' and returns its type; otherwise pushes nothing and
** returns LUA_TNIL. group: "" for flame and tensors, "linalg.", "^" for the internals. */
int fl_chapter_find(lua_State *L, fl_lua *b, int table, const char *group, const char *name);
int fl_core_load(lua_State *L, fl_lua *b);     /* loads all of lua/flame; 0: it is loaded already */
/* Passes the call's arguments to internal[name], a function written in Lua, and returns all its
** results. (module.c) */
int fl_core_call(lua_State *L, const char *name);
void fl_sandboxes_end(fl_lua *b);
void fl_api_leave(lua_State *L);                /* registry["flame.api"], api.c */
int fl_scope_track(fl_lua *b, fl_box *x);       /* adds x to the boxes of the innermost scope, if
                                                ** one is open; 0: no memory */
void fl_scope_metatable(lua_State *L, fl_lua *b);   /* registers the metatable of scopes */
void fl_guard_metatable(lua_State *L, fl_lua *b);   /* that of guards of grad modes (grad.c) */
void fl_grad_init(fl_lua *b);
void fl_push_closure(lua_State *L, fl_lua *b, lua_CFunction f);   /* with our two upvalues */
/* Userdata of one kind have 'mark', a distinct address, as a key of their metatable. fl_lua_mark
** adds it to the metatable on top. fl_lua_marked returns the block of the userdata at i; NULL: it
** is not of that kind. */
void fl_lua_mark(lua_State *L, const void *mark);
void *fl_lua_marked(lua_State *L, int i, const void *mark);

enum { FL_PROP_SHAPE = 1, FL_PROP_NDIM, FL_PROP_DTYPE, FL_PROP_DEVICE, FL_PROP_REQUIRES_GRAD,
       FL_PROP_GRAD, FL_PROP_IS_LEAF, FL_PROP_IS_CPU, FL_PROP_IS_CUDA,
       FL_PROP_TURNED, FL_PROP_LAST_TURNED };
enum { FL_UPVALUE_SIZES = 4 };         /* upvalue of tensors' metamethods: the metatable of sizes */
/* Pushes a view of the tensor at 1 with its axes in reverse order (all), or the last two
** exchanged. */
int fl_property_turned(lua_State *L, int all);
#endif
