/*
** User kernels for flame.h: objects of the hidden state (host.h), used through the methods that
** scripts call, so a kernel run from C has the same checks, bits and gradients. A flame_kernel is
** the flame_object of its kernel.
*/
#include "lua/host.h"
#include <assert.h>

static flame_object *object_of(const flame_kernel *k) {
  return (flame_object *)(uintptr_t)k;
}

flame_kernel *flame_kernel_open(flame_context *c, const char *source, const char *entry, int nopt,
                                const flame_value *options) {
  FL_HOLD(c, NULL);
  if (!source || nopt < 0 || nopt > 64) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "kernel", source ? "%d options, need 0 to 64"
                                                    : "the source is NULL", nopt);
    return NULL;
  }
  if (!fl_given(c, options, nopt, "kernel", "options")) return NULL;
  flame_value field[66], made;
  int n = 0;
  field[n++] = (flame_value){ .name = "source", .kind = FLAME_STRING, .as.s = source };
  if (entry) field[n++] = (flame_value){ .name = "entry", .kind = FLAME_STRING, .as.s = entry };
  for (int i = 0; i < nopt; i++) {
    if (!options[i].name) {
      FL_FAIL(c, FLAME_BAD_ARGUMENT, "kernel", "option %d has no name", i);
      return NULL;
    }
    field[n++] = options[i];
  }
  const flame_status e = flame_call(c, "kernel", n, field, 1, &made);
  return e == FLAME_OK ? (flame_kernel *)made.as.o : NULL;
}

void flame_kernel_free(flame_kernel *k) { flame_object_free(object_of(k)); }

/* ---- launches ------------------------------------------------------------------------------ */

/* Sets the field 'name' of the table on top to a list of the three sizes. */
static void set_sizes(lua_State *L, const char *name, const int64_t *size) {
  if (!size) return;
  lua_createtable(L, 3, 0);
  for (int k = 0; k < 3; k++) {
    lua_pushinteger(L, size[k]);
    lua_rawseti(L, -2, k + 1);
  }
  lua_setfield(L, -2, name);
}

typedef struct launch {
  fl_lua *b;
  flame_object *k;
  const int64_t *grid, *block;
  int narg, nout;
  const flame_value *arg;
  flame_tensor **out;
} launch;

/* Pushes the kernel with the geometry and the named arguments of this launch. */
static void push_kernel(lua_State *L, const launch *r) {
  int named = r->grid || r->block;
  for (int i = 0; i < r->narg; i++) named += r->arg[i].name != NULL;
  fl_host_push_object(L, r->b, r->k);
  if (!named) return;
  lua_getfield(L, -1, "with");
  lua_insert(L, -2);
  lua_newtable(L);
  set_sizes(L, "grid", r->grid);
  set_sizes(L, "block", r->block);
  for (int i = 0; i < r->narg; i++) {
    if (!r->arg[i].name) continue;
    fl_host_push(L, r->b, &r->arg[i]);
    lua_setfield(L, -2, r->arg[i].name);
  }
  lua_call(L, 2, 1);
}

/* (launch) */
static int run(lua_State *L) {
  const launch *r = (const launch *)lua_touserdata(L, 1);
  luaL_checkstack(L, r->narg + 16, "arguments");
  push_kernel(L, r);
  const int callee = lua_gettop(L);
  for (int i = 0; i < r->narg; i++) if (!r->arg[i].name) fl_host_push(L, r->b, &r->arg[i]);
  lua_call(L, lua_gettop(L) - callee, LUA_MULTRET);
  const int n = lua_gettop(L) - callee + 1;
  if (n != r->nout) fl_lua_fail_in(L, r->b, "kernel", "it has %d results, room for %d", n, r->nout);
  for (int i = 0; i < n; i++) {
    if (lua_isnil(L, callee + i)) continue;                /* of an argument that is nil */
    const fl_box *x = box_at(L, callee + i);
    if (x == NULL || x->t == NULL) fl_lua_fail_in(L, r->b, "kernel", "result %d is no tensor", i);
    r->out[i] = fl_tensor_retain(x->t);
  }
  return 0;
}

flame_status flame_kernel_run(flame_kernel *k, const int64_t grid[3], const int64_t block[3],
                              int narg, const flame_value *arg, int nout, flame_tensor **out) {
  for (int i = 0; out && i < nout; i++) out[i] = NULL;
  flame_context *c = flame_object_context(object_of(k));
  FL_HOLD(c, FLAME_BAD_ARGUMENT);
  if (narg < 0 || narg > 4096 || nout < 0)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "kernel", "%d arguments and %d results", narg, nout);
  if (!fl_given(c, arg, narg, "kernel", "arguments") ||
      !fl_given(c, out, nout, "kernel", "results"))
    return c->err.code;
  assert(out || nout == 0);
  launch r = { fl_host_of(c), object_of(k), grid, block, narg, nout, arg, out };
  const flame_status e = fl_host_run(r.b, run, &r, "kernel");
  for (int i = 0; e != FLAME_OK && i < nout; i++) {
    flame_free(out[i]);
    out[i] = NULL;
  }
  return e;
}

/* ---- facts --------------------------------------------------------------------------------- */

const char *flame_kernel_source(flame_kernel *k, const char *of) {
  const flame_value which = { .kind = FLAME_STRING, .as.s = of };
  flame_value text;
  if (flame_method(object_of(k), "source", of != NULL, &which, 1, &text) != FLAME_OK) return NULL;
  return text.kind == FLAME_STRING ? text.as.s : NULL;
}

const char *flame_kernel_param(flame_kernel *k, int i) {
  flame_value report, list = { .kind = FLAME_NIL };
  if (flame_method(object_of(k), "report", 0, NULL, 1, &report) != FLAME_OK) return NULL;
  flame_status e = FLAME_INTERNAL;
  if (report.kind == FLAME_OBJECT)
    e = flame_method(report.as.o, "parameters", 0, NULL, 1, &list);
  flame_values_free(1, &report);
  if (e != FLAME_OK || list.kind != FLAME_LIST || i < 0 || (size_t)i >= list.count) return NULL;
  return list.as.list[i].kind == FLAME_STRING ? list.as.list[i].as.s : NULL;
}
