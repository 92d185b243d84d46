/*
** What the prompt reports about tensors: the largest ones, and what evaluating one would run.
** internal.graph (inspect.c) tells what a tensor was made from.
*/
#include "lua/binding.h"
#include "base/text.h"
#include "plan/plan.h"
#include <stdlib.h>

typedef struct large {
  const void *handle;
  const fl_buffer *buffer;             /* compared, never read: it may have been freed */
  int64_t bytes, size[FL_MAX_AXES];
  int rank, dtype, device;
  uint32_t site;
} large;

/* Sorts the largest first, with those in one buffer together. */
static int by_bytes(const void *a, const void *b) {
  const large *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

/* Writes the tensors with a value to 'at'; returns how many. It runs no Lua code, since Lua's
** collector removes handles from the list. */
static int64_t survey(const flame_context *c, large *at, int64_t room) {
  int64_t n = 0;
  for (const flame_tensor *t = c->handles; t != NULL && n < room; t = t->next) {
    const fl_node *x = t->node;
    if (x == NULL || x->state != FL_STORED || x->buffer == NULL) continue;
    large *r = &at[n++];
    *r = (large){ .handle = t, .buffer = x->buffer, .bytes = x->buffer->bytes,
                  .rank = x->shape->rank, .dtype = x->dtype, .device = x->device, .site = x->site };
    for (int a = 0; a < r->rank; a++) r->size[a] = x->shape->size[a];
  }
  qsort(at, (size_t)n, sizeof *at, by_bytes);
  return n;
}

/* internal.tensors(count): a list of the 'count' largest buffers of tensors: {bytes =, then of one
** tensor in it shape =, dtype =, device =, site =, and handles = {[handle] = true, for each tensor
** in it}}; and how many tensors have a value. */
static int tensors(lua_State *L) {
  fl_lua *b = self_of(L);
  const lua_Integer most = luaL_checkinteger(L, 1);
  if (b->c == NULL) fl_lua_raise(L, b);
  luaL_checkstack(L, 8, "tensors");
  const int64_t room = b->c->tensors.live;
  large *at = lua_newuserdatauv(L, sizeof *at * (size_t)(room + 1), 0);
  const int64_t n = survey(b->c, at, room);
  lua_newtable(L);
  lua_Integer k = 0;
  for (int64_t i = 0; i < n; i++) {
    char text[96];
    if (i > 0 && at[i].buffer == at[i - 1].buffer) {
      lua_pushboolean(L, 1);
      lua_rawsetp(L, -2, at[i].handle);
      continue;
    }
    if (k > 0) lua_pop(L, 2);                      /* handles, row */
    if (k++ == most) return lua_pushinteger(L, n), 2;
    lua_createtable(L, 0, 6);
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, k);
    set_int(L, "bytes", at[i].bytes);
    fl_push_sizes(L, at[i].rank, at[i].size);
    lua_setfield(L, -2, "shape");
    set_text(L, "dtype", fl_dtype_name(at[i].dtype));
    fl_device_name(at[i].device, text);
    set_text(L, "device", text);
    set_text(L, "site", fl_site_text(b, at[i].site, text));
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "handles");
    lua_pushboolean(L, 1);
    lua_rawsetp(L, -2, at[i].handle);
  }
  if (k > 0) lua_pop(L, 2);
  lua_pushinteger(L, n);
  return 2;
}

/* internal.handle(x): what identifies x's handle in the result of internal.tensors. */
static int handle(lua_State *L) {
  lua_pushlightuserdata(L, fl_arg_tensor(L, 1, "handle", "x")->t);
  return 1;
}

/* Makes a plan for x and its ancestors, which is not run. NULL with an error. */
static fl_plan *plan_of(flame_context *c, fl_node *x) {
  fl_program p;
  fl_plan *plan = NULL;
  memset(&p, 0, sizeof p);
  c->evaluating = 1;
  if (fl_program_make(c, x->device, &x, 1, &p) == FLAME_OK) {
    plan = fl_plan_make(c, &p);
    fl_program_free(&p);
  }
  c->evaluating = 0;
  return plan;
}

enum { KINDS = FL_S_CALL + 1 };
typedef struct outline { int64_t count[KINDS], bytes, arena, nodes; } outline;

/* Writes the plan of x to 'text' and sums it up in o: 1; 0: x has a value, or there is an error. */
static int describe(flame_context *c, fl_node *x, fl_text *text, outline *o) {
  if (x->state == FL_FAILED) fl_node_raise(x);
  fl_plan *p = x->state == FL_PENDING ? plan_of(c, x) : NULL;
  if (p == NULL) return 0;
  fl_plan_print(p, text);
  for (int32_t i = 0; i < p->nstep; i++) {
    o->count[p->step[i].kind]++;
    o->bytes += p->step[i].moved;
  }
  o->arena = p->arena_bytes;
  o->nodes = p->nnode;
  fl_plan_free(p);
  if (fl_text_str(text) != NULL) return 1;
  FL_FAIL(c, FLAME_NO_MEMORY, "explain", "out of host memory");
  return 0;
}

/* internal.plan(x): of the plan that would compute x {ops = its nodes, kernel =, matmul =, scatter
** =, copy =, call = how many steps are of this kind, bytes = moved by them, arena = bytes for
** intermediate values, text = the plan printed}; nothing if x has its value. */
static int plan(lua_State *L) {
  static const char *const kinds[KINDS] = { "kernel", "matmul", "scatter", "copy", "call" };
  fl_lua *b = self_of(L);
  fl_box *box = fl_arg_tensor(L, 1, "explain", "x");
  outline o = { .bytes = 0 };
  fl_text text;
  luaL_checkstack(L, 8, "explain");
  const int64_t m = fl_lua_enter(L, b);
  fl_node *x = node_of(b, box);
  fl_text_init(&text, &b->c->mem);
  const int made = x != NULL && describe(b->c, x, &text, &o);
  const int pushed = made && fl_lua_push_copy(L, fl_text_str(&text), text.n);
  fl_text_free(&text);
  fl_lua_leave_status(L, b, m, b->c->err.code);
  if (!made) return 0;
  if (!pushed) return lua_error(L);
  lua_createtable(L, 0, KINDS + 4);
  lua_insert(L, -2);
  lua_setfield(L, -2, "text");
  set_int(L, "ops", o.nodes);
  set_int(L, "bytes", o.bytes);
  set_int(L, "arena", o.arena);
  for (int i = 0; i < KINDS; i++) set_int(L, kinds[i], o.count[i]);
  return 1;
}

/* internal.dtypes(): the data for the tables of base/dtypes.lua. */
static int dtypes(lua_State *L) {
  lua_createtable(L, 0, FLAME_DTYPE_COUNT);
  for (int d = 0; d < FLAME_DTYPE_COUNT; d++) {
    lua_createtable(L, 0, 5);
    set_int(L, "size", fl_dtypes[d].size);
    set_int(L, "bits", fl_dtypes[d].bits);
    set_int(L, "least", fl_dtypes[d].least);
    lua_pushboolean(L, fl_is_float(d));
    lua_setfield(L, -2, "float");
    lua_pushstring(L, fl_dtypes[d].kernel);
    lua_setfield(L, -2, "kernel");
    lua_setfield(L, -2, fl_dtype_name(d));
  }
  return 1;
}

const fl_lua_reg fl_reg_explain[] = {
  { "dtypes", dtypes, 0 },
  { "tensors", tensors, 0 }, { "handle", handle, 0 }, { "plan", plan, 0 }, { NULL, NULL, 0 }
};
