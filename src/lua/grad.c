/*
** Gradients: backward, the part of gradients() in C, grad modes, functions and hooks of the
** script. A function of the script is called under pcall by a C function without upvalues, a
** trampoline (a closure would need memory); its error is raised again where the backward walk
** began.
*/
#include "lua/binding.h"
#include "autograd/why.h"
#include <assert.h>

static const char key_after_backward;         /* in the registry: a function */

/* ---- backward -------------------------------------------------------------------------- */
static fl_backward how_of(lua_State *L, int opts, const char *op) {
  fl_backward h = { 0 };
  h.create_graph = fl_option_bool(L, opts, op, "create_graph", 0);
  h.retain_graph = fl_option_bool(L, opts, op, "retain_graph", h.create_graph);
  h.strict = fl_option_bool(L, opts, op, "strict", 0);
  return h;
}

static int g_backward(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_args(L);
  fl_box *x = box_at(L, 1), *seed = box_at(L, 2);
  const fl_backward how = { .create_graph = lua_toboolean(L, 4),
    .retain_graph = lua_isnil(L, 3) ? lua_toboolean(L, 4) : lua_toboolean(L, 3) };
  b->walks++;
  const int64_t m = fl_lua_enter(L, b);
  flame_status e = node_of(b, x) && (!seed || node_of(b, seed)) ? FLAME_OK : b->c->err.code;
  if (e == FLAME_OK) e = fl_backward_into_leaves(x->t, seed ? seed->t : NULL, how);
  fl_lua_leave_status(L, b, m, e);
  if (b->after_backward && !b->calling) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &key_after_backward);
    lua_call(L, 0, 0);
  }
  return 0;
}

/* (leaf): did the last backward bring it a gradient? */
static int g_reached(lua_State *L) {
  const fl_lua *b = self_of(L);
  const fl_box *x = fl_arg_tensor(L, 1, "backward", "x");
  const fl_entry *e = x->t->node->entry;
  lua_pushboolean(L, e && b->c->walked.number && e->walk == (b->c->walked.number << 1 | 1));
  return 1;
}

/* (f): f is called after each backward of the script. For distributed/parallel.lua. */
static int g_after_backward(lua_State *L) {
  fl_lua *b = self_of(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_after_backward);
  b->after_backward = 1;
  return 0;
}

/* (roots, seeds, wrt, {retain_graph, create_graph, strict}) -> list of the gradients for wrt, false
** where none was reached. seeds may be nil. For autograd/gradients.lua, which makes a map of
** them. */
static int g_gradients(lua_State *L) {
  fl_lua *b = self_of(L);
  static const char op[] = "gradients";
  const fl_backward how = how_of(L, 4, op);
  b->walks++;
  const int nr = (int)lua_rawlen(L, 1), nw = (int)lua_rawlen(L, 3), has_seeds = !lua_isnil(L, 2);
  fl_box **boxes = (fl_box **)lua_newuserdatauv(L,
      (size_t)(2 * nr + 2 * nw + 1) * 2 * sizeof(void *), 0);
  fl_box **seeds = boxes + nr, **wrt = seeds + nr, **outs = wrt + nw;
  fl_node **nodes = (fl_node **)(void *)(outs + nw);
  fl_arg_list(L, 1, op, "roots", nr, boxes);
  if (has_seeds && fl_arg_list(L, 2, op, "seeds", nr, seeds) != nr)
    return fl_lua_fail(L, op, "%d seeds for %d roots", (int)lua_rawlen(L, 2), nr);
  fl_arg_list(L, 3, op, "inputs", nw, wrt);
  lua_createtable(L, nw, 0);
  for (int i = 0; i < nw; i++) {
    outs[i] = fl_box_new(L);
    lua_rawseti(L, -2, i + 1);
  }
  const int64_t m = fl_lua_enter(L, b);
  fl_node **rn = nodes, **sn = rn + nr, **wn = sn + nr, **on = wn + nw;
  int ok = 1;
  for (int i = 0; i < nr; i++) ok = (rn[i] = node_of(b,
      boxes[i])) && (!has_seeds || (sn[i] = node_of(b, seeds[i]))) && ok;
  for (int i = 0; i < nw; i++) ok = (wn[i] = node_of(b, wrt[i])) && ok;
  flame_status e = ok ? fl_gradients(b->c, nr, rn, has_seeds ? sn : NULL, nw, wn, on,
      how) : b->c->err.code;
  for (int i = 0; e == FLAME_OK && i < nw; i++) {
    if (on[i] != NULL && (outs[i]->t = fl_tensor_new(b->c, on[i])) == NULL) e = b->c->err.code;
  }
  fl_lua_leave_status(L, b, m, e);
  for (int i = 0; i < nw; i++) {
    if (outs[i]->t != NULL) continue;
    lua_pushboolean(L, 0);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* The line of the script that is running, as "train.lua:8"; "" if it is not known. */
static int g_here(lua_State *L) {
  fl_lua *b = self_of(L);
  char at[96];
  lua_pushstring(L, fl_site_text(b, b->c ? fl_lua_site(L, b) : 0, at));
  return 1;
}

/* Number of the next entry. */
static int g_sequence(lua_State *L) {
  const fl_lua *b = self_of(L);
  lua_pushinteger(L, b->c != NULL ? b->c->sequence : 0);
  return 1;
}

static int g_why(lua_State *L) {
  fl_lua *b = self_of(L);
  char out[FL_WHY_TEXT];
  const fl_box *x = box_at(L, 1);
  if (x != NULL && x->t == NULL && lua_gettop(L) == 1 && b->c != NULL) {
    const fl_error before = b->c->err;
    fl_error_clear(&b->c->err);
    fl_box_dead(b, x);
    lua_pushstring(L, b->c->err.message);
    b->c->err = before;
    return 1;
  }
  fl_args(L);
  lua_pushstring(L, fl_why(box_at(L, 1)->t, out));
  return 1;
}

static int g_retain_grad(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_args(L);
  fl_box *x = box_at(L, 1);
  fl_node *n = x->t->node;
  char why[FL_WHY_TEXT];
  if (n->entry == NULL) return fl_lua_fail(L, "retain_grad",
      "x is not tracked: %s", fl_why_untracked(n, why));
  if (!n->entry->leaf) {
    x->t->retain = 1;
    n->entry->handle = x->t;
  }
  (void)b;
  lua_settop(L, 1);
  return 1;
}

/* ---- grad modes ------------------------------------------------------------------------------ */
#define GUARD_MAGIC UINT64_C(0x666c616d652d6764)
/* A guard's size differs from that of every other userdata of the library. */
typedef struct guard { uint64_t magic; int previous, open, unused[2]; } guard;

static int guard_close(lua_State *L) {
  fl_lua *b = self_of(L);
  guard *g = (guard *)lua_touserdata(L, 1);
  if (g == NULL || lua_rawlen(L, 1) != sizeof *g || g->magic != GUARD_MAGIC || !g->open) return 0;
  g->open = 0;
  if (b->c != NULL) flame_grad_mode(b->c, g->previous);
  return 0;
}

void fl_guard_metatable(lua_State *L, fl_lua *b) {
  lua_createtable(L, 0, 4);
  lua_pushliteral(L, "flame.guard");
  lua_setfield(L, -2, "__name");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  fl_push_closure(L, b, guard_close);
  lua_setfield(L, -2, "__close");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_guard);
}

static int after_call(lua_State *L, int status, lua_KContext k) {
  (void)status;
  (void)k;
  return lua_gettop(L) - 1;
}

/* mode(f, …): f's results, run in that mode; mode(): a guard for <close>. */
static int mode(lua_State *L, int on) {
  fl_lua *b = self_of(L);
  if (b->c == NULL) return fl_lua_raise(L, b);
  const int with = fl_args(L) == 0;
  guard *g = (guard *)lua_newuserdatauv(L, sizeof *g, 0);
  *g = (guard){ .magic = GUARD_MAGIC };
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_guard);
  lua_setmetatable(L, -2);
  g->previous = flame_grad_mode(b->c, on);
  g->open = 1;
  if (!with) return 1;
  lua_insert(L, 1);
  lua_toclose(L, 1);
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, after_call);
  return after_call(L, LUA_OK, 0);
}
static int g_no_grad(lua_State *L) { return mode(L, 0); }
static int g_enable_grad(lua_State *L) { return mode(L, 1); }

static int g_is_grad_enabled(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_args(L);
  lua_pushboolean(L, b->c != NULL && b->c->grad_mode);
  return 1;
}

/* ---- functions of the script ----------------------------------------------------------------- */
typedef struct custom_call {
  fl_callback *f;
  fl_node *y;          /* the result whose gradient g is known */
  int nin;
  fl_node *g, **gin;   /* gin: receives the gradients of the nin inputs */
  int64_t serial;      /* number of this call, by which the closures that the script gets find it,
                       ** as long as it runs */
  struct custom_call *outer;
} custom_call;

/* The call to which the running closure was given, by the serial number in its upvalue 3. */
static const custom_call *call_of(lua_State *L, const fl_lua *b) {
  const int64_t serial = lua_tointeger(L, lua_upvalueindex(3));
  for (const custom_call *k = b->calling; k; k = k->outer) if (k->serial == serial) return k;
  fl_lua_fail(L, "func", "this backward has ended");
}

/* (which, value) -> the function's result 'which', from its value, which the script has saved, but
** tracked again, so that a gradient computed from it has gradients. Valid during the call of
** backward. */
static int remake_result(lua_State *L) {
  fl_lua *b = self_of(L);
  const custom_call *call = call_of(L, b);
  const int which = (int)fl_arg_int(L, 1, "func", "which") - 1;
  fl_box *value = fl_arg_tensor(L, 2, "func", "value"), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *v = node_of(b, value), *y = call->y;
  return fl_lua_leave(L, b, m, out, v ? n_custom(v, y->nin, y->in, y->entry->custom, which) : NULL);
}

/* (y, g, since): the gradients of y with respect to the inputs, from its gradient g. y is the
** checkpoint's result, computed again by entries (records of ops) from number 'since' on. */
static int inner_gradients(lua_State *L) {
  fl_lua *b = self_of(L);
  const custom_call *call = call_of(L, b);
  const int n = call->nin;
  fl_box *y = fl_arg_tensor(L, 1, "checkpoint", "y"), *g = fl_arg_tensor(L, 2, "checkpoint", "g");
  fl_backward how = { .create_graph = b->c->grad_mode,
                      .since = fl_arg_int(L, 3, "checkpoint", "since") };
  fl_node **out = (fl_node **)lua_newuserdatauv(L, (size_t)(2 * n + 1) * sizeof(void *), 0);
  fl_box **boxes = (fl_box **)(void *)(out + n);
  luaL_checkstack(L, n + 8, "too many inputs");
  for (int i = 0; i < n; i++) boxes[i] = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *root = node_of(b, y), *seed = node_of(b, g);
  flame_status e = root && seed ? fl_gradients(b->c, 1, &root, &seed, n, call->y->in, out,
      how) : b->c->err.code;
  for (int i = 0; e == FLAME_OK && i < n; i++)
    if (out[i] && (boxes[i]->t = fl_tensor_new(b->c, out[i])) == NULL) e = b->c->err.code;
  fl_lua_leave_status(L, b, m, e);
  for (int i = 0; i < n; i++) {
    if (boxes[i]->t != NULL) continue;
    lua_pushnil(L);
    lua_replace(L, i - n - 1);
  }
  return n;
}

static void push_of_call(lua_State *L, fl_lua *b, const custom_call *call, lua_CFunction f) {
  lua_pushlightuserdata(L, b);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_meta);
  lua_pushinteger(L, call->serial);
  lua_pushcclosure(L, f, 3);
}

/* Pushes a box for a node: for trampolines, which have no upvalues. */
static void push_node(lua_State *L, fl_lua *b, fl_node *n) {
  fl_box *x = fl_box_new_in(L, b);
  x->t = fl_tensor_new(b->c, n);
  if (x->t == NULL) luaL_error(L, "out of memory");
}

/* Pushes a list of new handles on the tensors that the function keeps, tracked if these are. */
static void push_kept(lua_State *L, const fl_callback *f) {
  flame_context *c = f->b->c;
  lua_createtable(L, f->nkept, 0);
  for (int i = 0; i < f->nkept; i++) {
    const uint8_t mode = c->grad_mode;
    c->grad_mode = 1;
    fl_node *n = n_alias(f->kept[i]->node);
    c->grad_mode = mode;
    push_node(L, f->b, n);
    lua_rawseti(L, -2, i + 1);
  }
}

static int custom_trampoline(lua_State *L) {
  custom_call *call = (custom_call *)lua_touserdata(L, 1);
  fl_lua *b = call->f->b;
  luaL_checkstack(L, call->nin + 12, "too many inputs");
  fl_callback_push(L, call->f);
  lua_pushinteger(L, call->y->attr->offset + 1);
  push_node(L, b, call->g);
  push_of_call(L, b, call, remake_result);
  push_of_call(L, b, call, inner_gradients);
  push_kept(L, call->f);
  lua_call(L, 5, call->nin);
  for (int i = 0; i < call->nin; i++) {
    const int at = lua_gettop(L) - call->nin + 1 + i;
    call->gin[i] = NULL;
    if (!lua_toboolean(L, at)) continue;
    fl_box *x = box_at(L, at);
    if (x == NULL || x->t == NULL || x->t->node == NULL)
      return fl_lua_fail_in(L, b, "func", "gradient %d of backward is a %s, need a tensor or nil",
          i + 1, luaL_typename(L, at));
    call->gin[i] = n_alias(x->t->node);
    if (call->gin[i] == NULL) return fl_lua_raise(L, b);
  }
  return 0;
}

static flame_status custom_backward(flame_context *c, void *arg, fl_node *y, fl_node *g,
    int nin, fl_node **gin) {
  fl_callback *f = (fl_callback *)arg;
  fl_lua *b = f->b;
  custom_call call = { f, y, nin, g, gin, ++b->serial, b->calling };
  const uint8_t inside = b->inside;
  (void)c;
  b->calling = &call;
  b->inside = 1;             /* backward computes in the dtypes of the forward pass */
  const flame_status e = fl_lua_callback(b, custom_trampoline, &call, "func");
  b->inside = inside;
  b->calling = call.outer;
  return e;
}

static fl_custom *custom_new(fl_lua *b, int64_t id, int nkept) {
  fl_custom *k = (fl_custom *)fl_zalloc(&b->c->mem, sizeof *k);
  if (k == NULL) return NULL;
  k->backward = custom_backward;
  k->release = fl_callback_drop;
  k->arg = fl_callback_new(b, id, nkept);
  if (k->arg != NULL) return k;
  fl_free(&b->c->mem, k, sizeof *k);
  return NULL;
}

static int keep_tensors(fl_lua *b, fl_callback *f, fl_box **from) {
  assert(from != NULL || f->nkept == 0);
  for (int i = 0; i < f->nkept; i++) {
    fl_node *n = node_of(b, from[i]);
    f->kept[i] = n ? fl_tensor_new(b->c, n) : NULL;
    if (f->kept[i] == NULL) return 0;
  }
  return 1;
}

/* outs[i] get the values values[i]; their gradients with respect to in[0..n) are computed by the
** callback 'id', from 'nk' tensors that the graph keeps for it. */
static flame_status make_custom(fl_lua *b, int64_t id, int nk, fl_box **kept, int nv,
                                fl_box **values, int n,
    fl_node **in, fl_box **outs) {
  fl_custom *k = n > FL_MOST_INPUTS ? NULL : custom_new(b, id, nk);
  if (k == NULL) {
    fl_callback_forget(b, id);
    if (n <= FL_MOST_INPUTS) return FL_FAIL(b->c, FLAME_NO_MEMORY, "func", "no host memory");
    return FL_FAIL(b->c, FLAME_BAD_ARGUMENT, kept ? "func" : "checkpoint",
                   "the results depend on %d tensors, at most %d" FL_DO ": %s", n, FL_MOST_INPUTS,
                   kept ? "join some of them, as by flame.cat" : "checkpoint parts of f");
  }
  int ok = keep_tensors(b, (fl_callback *)k->arg, kept);
  k->refs = 1;
  for (int i = 0; ok && i < nv; i++) {
    fl_node *v = node_of(b, values[i]);
    outs[i]->t = fl_tensor_new(b->c, v ? n_custom(v, n, in, k, i) : NULL);
    ok = outs[i]->t != NULL;
  }
  fl_custom_drop(b->c, k);                           /* freed if nothing is tracked */
  return ok ? FLAME_OK : b->c->err.code;
}

/* (values, inputs, backward, kept | nil) -> tensors with these values, whose gradients
** backward(which, g, remake, gradients, kept) computes, one for each input. kept: a list of
** tensors; backward gets it with new handles. For autograd/gradients.lua. */
static int g_custom(lua_State *L) {
  fl_lua *b = self_of(L);
  lua_settop(L, 4);
  const int nv = (int)lua_rawlen(L, 1), ni = (int)lua_rawlen(L, 2);
  const int nk = lua_isnil(L, 4) ? 0 : (int)lua_rawlen(L, 4);
  fl_box **values = (fl_box **)lua_newuserdatauv(L,
      (size_t)(2 * nv + 2 * ni + nk + 1) * sizeof(void *), 0);
  fl_box **inputs = values + nv, **outs = inputs + ni, **kept = outs + nv;
  fl_node **in = (fl_node **)(void *)(kept + nk);
  fl_arg_list(L, 1, "func", "values", nv, values);
  fl_arg_list(L, 2, "func", "inputs", ni, inputs);
  if (nk) fl_arg_list(L, 4, "func", "kept", nk, kept);
  luaL_checkstack(L, nv + 8, "too many results");
  for (int i = 0; i < nv; i++) outs[i] = fl_box_new(L);
  lua_pushvalue(L, 3);
  const int64_t id = fl_callback_anchor(L, b);
  const int64_t m = fl_lua_enter(L, b);
  int ok = 1;
  for (int i = 0; i < ni; i++) ok = (in[i] = node_of(b, inputs[i])) != NULL && ok;
  if (!ok) fl_callback_forget(b, id);
  fl_lua_leave_status(L, b, m, ok ? make_custom(b, id, nk, kept, nv, values, ni, in, outs)
                                  : b->c->err.code);
  return nv;
}

/* (values, since, backward): like g_custom, for tracked values. The nodes recorded from 'since' on
** are dropped from the graph; the inputs are the earlier tensors that those nodes read. */
static int g_checkpointed(lua_State *L) {
  fl_lua *b = self_of(L);
  const int nv = (int)lua_rawlen(L, 1);
  const int64_t since = fl_arg_int(L, 2, "checkpoint", "since");
  fl_box **values = (fl_box **)lua_newuserdatauv(L, (size_t)(3 * nv + 1) * sizeof(void *), 0);
  fl_box **outs = values + nv;
  fl_node **roots = (fl_node **)(void *)(outs + nv);
  fl_nodes in = { 0 };
  fl_arg_list(L, 1, "checkpoint", "results", nv, values);
  luaL_checkstack(L, nv + 8, "too many results");
  for (int i = 0; i < nv; i++) outs[i] = fl_box_new(L);
  lua_pushvalue(L, 3);
  const int64_t id = fl_callback_anchor(L, b);
  const int64_t m = fl_lua_enter(L, b);
  int ok = 1;
  for (int i = 0; i < nv; i++) ok = (roots[i] = node_of(b, values[i])) != NULL && ok;
  flame_status e = ok ? fl_cut(b->c, nv, roots, since, &in) : b->c->err.code;
  if (e != FLAME_OK) fl_callback_forget(b, id);
  else e = make_custom(b, id, 0, NULL, nv, values, (int)in.n, in.at, outs);
  FL_DROP(&b->c->mem, &in);
  fl_lua_leave_status(L, b, m, e);
  return nv;
}

/* ---- hooks: a list of what can be called ---------------------------------------------------- */
/* A hook may free the entry (record in the graph) that owns f: only the list of hooks on Lua's
** stack is certain to exist. */
typedef struct hook_call {
  fl_lua *b; const fl_callback *f; fl_node *g; fl_node *changed;
} hook_call;

static int hook_trampoline(lua_State *L) {
  hook_call *call = (hook_call *)lua_touserdata(L, 1);
  fl_callback_push(L, call->f);
  const lua_Integer n = luaL_len(L, -1);
  push_node(L, call->b, call->g);
  for (lua_Integer i = 1; i <= n; i++) {
    if (lua_rawgeti(L, 2, i) != LUA_TBOOLEAN) {           /* false: removed */
      lua_pushvalue(L, 3);
      lua_call(L, 1, 1);
      fl_box *x = box_at(L, -1);
      if (x != NULL && x->t != NULL && x->t->node != NULL) lua_replace(L, 3);
      else if (!lua_isnil(L, -1)) return fl_lua_fail_in(L, call->b, "register_hook",
          "a hook returns a tensor or nothing, got %s", luaL_typename(L, -1));
    }
    lua_settop(L, 3);
  }
  const fl_box *last = box_at(L, 3);
  if (last->t == NULL || last->t->node == NULL) return 0;           /* a hook freed the tensor that
                                                                    ** it got */
  if (last->t->node != call->g) call->changed = n_alias(last->t->node);
  return 0;
}

static flame_status run_hooks(flame_context *c, void *hooks, fl_node **g) {
  const fl_callback *f = (const fl_callback *)hooks;
  hook_call call = { f->b, f, *g, NULL };
  const flame_status e = fl_lua_callback(call.b, hook_trampoline, &call, "register_hook");
  if (e == FLAME_OK && call.changed != NULL) *g = call.changed;
  return e == FLAME_OK ? c->err.code : e;
}

static void drop_hooks(flame_context *c, void *hooks) {
  (void)c;
  fl_callback_drop(hooks);
}

static char *place(flame_context *c, uint32_t site, char buf[96]) {
  (void)c;
  return fl_site_text((const fl_lua *)c->host, site, buf);
}

void fl_grad_init(fl_lua *b) {
  b->engine_up = b->c->up;
  b->up = *b->c->up;
  b->up.run_hooks = run_hooks;
  b->up.place = place;
  b->c->up = &b->up;
  b->c->drop_hooks = drop_hooks;
}

/* handle:remove(): replaces the hook with false in the list. */
static int remover(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushboolean(L, 0);
  lua_rawset(L, lua_upvalueindex(1));
  return 0;
}

/* Pushes the list of x's hooks; the first time this is the table on top. Nothing here runs
** scripts. */
static void push_hooks(lua_State *L, fl_lua *b, fl_entry *e) {
  if (e->hooks == NULL) {
    const int64_t id = fl_callback_anchor(L, b);
    fl_lua_on(L, b);
    e->hooks = fl_callback_new(b, id, 0);
    if (e->hooks == NULL) {
      fl_callback_forget(b, id);
      fl_error_clear(&b->c->err);
      FL_FAIL(b->c, FLAME_NO_MEMORY, "register_hook", "no host memory");
      fl_lua_raise(L, b);
    }
  }
  fl_callback_push(L, (fl_callback *)e->hooks);
}

static int g_register_hook(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_args(L);
  lua_newtable(L);                             /* this may run a finaliser, so x is read after it */
  fl_box *x = fl_arg_tensor(L, 1, "register_hook", "x");
  char why[FL_WHY_TEXT];
  if (x->t->node->entry == NULL) return fl_lua_fail(L, "register_hook",
      "x is not tracked, and gets no gradient: %s", fl_why_untracked(x->t->node, why));
  push_hooks(L, b, x->t->node->entry);
  const lua_Integer k = luaL_len(L, -1) + 1;
  lua_pushvalue(L, 2);
  lua_rawseti(L, -2, k);
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, -2);
  lua_pushinteger(L, k);
  lua_pushcclosure(L, remover, 2);
  lua_setfield(L, -2, "remove");
  return 1;
}

const fl_lua_reg fl_reg_grad[] = {
  { ":backward(x: T, seed?: T, *, retain_graph?: bool, create_graph = false)\n"
    "--- adds the gradients of x to .grad of the leaves",
    g_backward, 0 },
  { ":why(x: T) -> str\n"
    "--- why x has no gradient: not tracked, lost at a line, not a leaf, not reached, cleared, freed",
    g_why, 0 },
  { ":retain_grad(x: T) -> T\n"
    "--- x keeps its gradient though it is no leaf",
    g_retain_grad, 0 },
  { ":register_hook(x: T, f: fn) -> table\n"
    "--- f sees x's gradient, and may return another; handle:remove()",
    g_register_hook, 0 },
  { ".no_grad(f: fn, ...) -> ...\n"
    ".no_grad() -> Guard\n"
    "--- without tracking: calls f, or gives a guard for <close>",
    g_no_grad, 0 },
  { ".enable_grad(f: fn, ...) -> ...\n"
    ".enable_grad() -> Guard\n"
    "--- with tracking: calls f, or gives a guard for <close>",
    g_enable_grad, 0 },
  { ".is_grad_enabled() -> bool\n"
    "--- is work tracked",
    g_is_grad_enabled, 0 },
  { NULL, NULL, 0 }
};
/* (x) -> another handle on x's current value, tracked if x is; writes to x do not change it. */
static int g_snapshot(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_box *x = fl_arg_tensor(L, 1, "snapshot", "x"), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  const uint8_t mode = b->c->grad_mode;
  b->c->grad_mode = 1;         /* forward runs under no_grad, but tensors that it saves keep their
                               ** history */
  fl_node *n = node_of(b, x), *y = n ? n_alias(n) : NULL;
  b->c->grad_mode = mode;
  return fl_lua_leave(L, b, m, out, y);
}

/* (x): its values in the half dtype that it was cast from, or nil. */
static int g_narrowed(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_box *x = fl_arg_tensor(L, 1, "narrowed", "x"), *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x), *y = n ? n_narrowed(n) : NULL;
  if (n && !y && b->c->err.code == FLAME_OK) {
    fl_scope_end(b->c, m);
    lua_pushnil(L);
    return 1;
  }
  return fl_lua_leave(L, b, m, out, y ? n_detach(y) : NULL);
}

const fl_lua_reg fl_reg_internal[] = {
  { "call", fl_lua_call_op, 0 }, { "along", fl_lua_call_along, 0 },
  { "attention", fl_lua_attention, 0 },
  { "attention_rows", fl_lua_attention_rows, 0 },
  { "form", fl_lua_form, 0 }, { "snapshot", g_snapshot, 0 },
  { "gradients", g_gradients, 0 }, { "custom", g_custom, 0 }, { "here", g_here, 0 },
  { "sequence", g_sequence, 0 }, { "checkpointed", g_checkpointed, 0 },
  { "after_backward", g_after_backward, 0 }, { "reached", g_reached, 0 },
  { "narrowed", g_narrowed, 0 }, { NULL, NULL, 0 }
};
