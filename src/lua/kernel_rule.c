/*
** The part of kernels' gradients in Lua: the proof of FLAME_CHECK=grad (lua/flame/tools/proof.lua),
** which examines a rule (rule/rule.h) through the functions here.
*/
#include "lua/kernel.h"
#include "base/env.h"
#include <assert.h>

#define RULE_MAGIC UINT64_C(0x666c616d652d7275)
/* The block of a rule's userdata. Its size differs from that of the library's other objects (hence
** 'unused'); the magic tells it from foreign userdata of the same size. owned: the userdata
** releases the rule; if not, the rule is valid for one call. */
typedef struct rule_box { uint64_t magic; fl_krule *r; int owned, unused[4]; } rule_box;

static int rule_gc(lua_State *L) {
  rule_box *x = (rule_box *)lua_touserdata(L, 1);
  if (x == NULL || lua_rawlen(L, 1) != sizeof *x || x->magic != RULE_MAGIC) return 0;
  if (x->owned) fl_krule_release(x->r);
  x->r = NULL;
  return 0;
}

static rule_box *push_rule(lua_State *L) {
  rule_box *x = (rule_box *)lua_newuserdatauv(L, sizeof *x, 0);
  *x = (rule_box){ .magic = RULE_MAGIC };
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, rule_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  return x;
}

fl_krule **fl_kernel_push_rule(lua_State *L) {
  rule_box *x = push_rule(L);
  x->owned = 1;
  return &x->r;
}

static fl_krule *arg_rule(lua_State *L) {
  const rule_box *x = (const rule_box *)lua_touserdata(L, 1);
  const int is = x != NULL && lua_rawlen(L, 1) == sizeof *x && x->magic == RULE_MAGIC;
  luaL_argcheck(L, is && x->r != NULL, 1, "no rule of a kernel's call");
  assert(x);
  return x->r;
}

/* ---- proofs ---------------------------------------------------------------------------------- */

typedef struct proof { fl_lua *b; fl_krule *r; } proof;

static int prove_trampoline(lua_State *L) {
  const proof *p = (const proof *)lua_touserdata(L, 1);
  rule_box *x = push_rule(L);
  lua_replace(L, 1);
  x->r = p->r;
  fl_core_call(L, "kernel_prove");
  x->r = NULL;
  return 0;
}

static flame_status prove(flame_context *c, fl_krule *r) {
  fl_lua *b = (fl_lua *)c->host;
  proof p = { b, r };
  const uint8_t inside = b->inside;
  if (!fl_krule_unproven(r)) return FLAME_OK;
  b->inside = 1;             /* the proof computes in the dtypes of the forward pass */
  const flame_status e = fl_lua_callback(b, prove_trampoline, &p, "kernel");
  b->inside = inside;
  return e;
}

void fl_kernel_prove(fl_lua *b) {
  if (fl_env_lists(FL_ENV_FLAME_CHECK, "grad")) b->up.prove = prove;
}

/* Ends the scope of 'mark'. Pushes a list of tensors for the n nodes, with nil where one is NULL,
** and returns 1; raises if e is an error. */
static int push_nodes(lua_State *L, fl_lua *b, int64_t mark, flame_status e, int n,
                      fl_node *const *node) {
  fl_box *x[FL_KP_MAX_ARGS];
  luaL_checkstack(L, 8, "results");
  for (int i = 0; i < n && e == FLAME_OK; i++) if (node[i]) fl_node_hold(node[i]);
  fl_scope_end(b->c, mark);
  if (e != FLAME_OK) return fl_lua_raise(L, b);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    if (!node[i]) continue;
    x[i] = fl_box_new(L);
    lua_rawseti(L, -2, i + 1);
  }
  for (int i = 0; i < n; i++) {
    if (!node[i]) continue;
    x[i]->t = fl_tensor_new(b->c, node[i]);
    if (!x[i]->t) e = b->c->err.code;
    fl_node_drop(node[i]);
  }
  return e == FLAME_OK ? 1 : fl_lua_raise(L, b);
}

/* (rule, n, x) -> the floating-point results of another launch, with x in place of the n-th active
** (differentiated) argument. */
int fl_kernel_again(lua_State *L) {
  fl_lua *b = self_of(L);
  const fl_krule *r = arg_rule(L);
  const int n = (int)luaL_checkinteger(L, 2) - 1;
  const fl_box *x = fl_arg_tensor(L, 3, "kernel", "x");
  fl_node *out[FL_KP_MAX_ARGS];
  luaL_argcheck(L, n >= 0 && n < r->nactive, 2, "no such argument");
  const int64_t m = fl_lua_enter(L, b);
  fl_node *v = node_of(b, x);
  return push_nodes(L, b, m, v ? fl_krule_again(r, n, v, out) : b->c->err.code, r->nresult, out);
}

/* (rule, n, u) -> the tangents of the floating-point results for the tangent u of active argument
** n. */
int fl_kernel_tangent(lua_State *L) {
  fl_lua *b = self_of(L);
  const fl_krule *r = arg_rule(L);
  const int n = (int)luaL_checkinteger(L, 2) - 1;
  const fl_box *x = fl_arg_tensor(L, 3, "kernel", "u");
  fl_node *tangent[FL_KP_MAX_ARGS] = { NULL }, *by[FL_KP_MAX_ARGS], *out[FL_KP_MAX_ARGS];
  fl_ktangent t = { .call = NULL };
  luaL_argcheck(L, n >= 0 && n < r->nactive, 2, "no such argument");
  const int64_t m = fl_lua_enter(L, b);
  tangent[r->active[n]] = node_of(b, x);
  flame_status e = tangent[r->active[n]] ? fl_kcall_jvp(r->call, tangent, by, &t)
                                         : b->c->err.code;
  for (int j = 0; j < r->nresult && e == FLAME_OK; j++) out[j] = by[r->result[j]];
  fl_kcall_release(t.call);
  return push_nodes(L, b, m, e, r->nresult, out);
}

/* (rule, seeds) -> the gradients with respect to the active arguments, for seeds of the
** floating-point results. */
int fl_kernel_adjoint(lua_State *L) {
  fl_lua *b = self_of(L);
  const fl_krule *r = arg_rule(L);
  fl_box *boxes[FL_KP_MAX_ARGS];
  fl_node *seed[FL_KP_MAX_ARGS] = { NULL }, *by[FL_KP_MAX_ARGS], *out[FL_KP_MAX_ARGS];
  luaL_checkstack(L, r->nresult + 8, "seeds");
  fl_arg_list(L, 2, "kernel", "seeds", FL_KP_MAX_ARGS, boxes);
  const int64_t m = fl_lua_enter(L, b);
  flame_status e = FLAME_OK;
  for (int j = 0; j < r->nresult; j++)
    if (!(seed[r->result[j]] = node_of(b, boxes[j]))) e = b->c->err.code;
  if (e == FLAME_OK) e = fl_kcall_adjoint(r->call, r->nactive, r->active, seed, by);
  for (int j = 0; j < r->nactive && e == FLAME_OK; j++) out[j] = by[r->active[j]];
  return push_nodes(L, b, m, e, r->nactive, out);
}

/* (rule) -> name, text, names of the active arguments, their values, floating-point results */
int fl_kernel_facts(lua_State *L) {
  fl_lua *b = self_of(L);
  const fl_krule *r = arg_rule(L);
  const fl_kprogram *p = r->call->p;
  fl_node *out[FL_KP_MAX_ARGS];
  lua_pushstring(L, p->name);
  if (p->k->ad || p->k->binary) lua_pushlstring(L, p->k->text, p->k->text_bytes);
  else lua_pushstring(L, p->k->unit->source->text);
  lua_createtable(L, r->nactive, 0);
  for (int j = 0; j < r->nactive; j++) {
    lua_pushstring(L, p->k->f->params[r->active[j]].name);
    lua_rawseti(L, -2, j + 1);
  }
  for (int j = 0; j < r->nactive; j++) out[j] = r->call->arg[r->active[j]].value;
  push_nodes(L, b, fl_lua_enter(L, b), FLAME_OK, r->nactive, out);
  for (int j = 0; j < r->nresult; j++) out[j] = r->call->arg[r->result[j]].result;
  push_nodes(L, b, fl_lua_enter(L, b), FLAME_OK, r->nresult, out);
  return 5;
}
