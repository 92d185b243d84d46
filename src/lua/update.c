/*
** What optimisers do for each of their parameters, for optim.lua. An update rule that has the same
** few values of state at each step runs over a list of parameters here, without a box for each
** gradient; it stops at a parameter for which anything is unusual, and optim.lua does that one.
*/
#include "lua/binding.h"
#include "engine/flight.h"
#include "tensor/build.h"
#include "tensor/build_util.h"
#include "tensor/call.h"
#include "tensor/update.h"
#include <assert.h>
#include <string.h>

__attribute__((noinline)) static int64_t enter(lua_State *L, fl_lua *b) {
  return fl_lua_enter(L, b);
}

__attribute__((noinline)) static int leave(lua_State *L, fl_lua *b, int64_t mark, flame_status e) {
  return fl_lua_leave_status(L, b, mark, e);
}

/* (p, g, m, v, largest v or nil, lr, beta1, beta2, eps, decay, decoupled, step,
** the step as a tensor or nil). For optim.lua. */
static int adam(lua_State *L) {
  static const char op[] = "adam";
  fl_lua *b = self_of(L);
  fl_box *p = fl_arg_tensor(L, 1, op, "p"), *g = fl_arg_tensor(L, 2, op, "grad");
  fl_box *m = fl_arg_tensor(L, 3, op, "exp_avg"), *v = fl_arg_tensor(L, 4, op, "exp_avg_sq");
  fl_box *largest = fl_arg_tensor_or_nil(L, 5, op, "max_exp_avg_sq"),
         *count = fl_arg_tensor_or_nil(L, 13, op, "count");
  fl_adam rule = { .lr = fl_arg_num(L, 6, op, "lr"), .beta1 = fl_arg_num(L, 7, op, "beta1"),
      .beta2 = fl_arg_num(L, 8, op, "beta2"), .eps = fl_arg_num(L, 9, op, "eps"),
      .decay = fl_arg_num(L, 10, op, "weight_decay"), .decoupled = lua_toboolean(L, 11),
      .count = count ? count->t : NULL };
  fl_adam_count(&rule, luaL_checkinteger(L, 12));
  const int64_t mark = enter(L, b);
  fl_node *grad = node_of(b, g);
  const int open = grad && node_of(b, p) && node_of(b, m) && node_of(b, v) &&
                   (!largest || node_of(b, largest)) && (!count || node_of(b, count));
  return leave(L, b, mark, open ? fl_adam_step(p->t, grad, m->t, v->t,
      largest ? largest->t : NULL, &rule) : (flame_status)b->c->err.code);
}

/* A step of an optimiser over a list of parameters: the rule with its numbers. On the stack: 1 the
** parameters, 2 the first to be stepped, 3 the states by parameter, 4 the list of what has changed,
** 5 the optimiser's number; then the rule's numbers. */
enum { PARAMS = 1, FIRST, STATES, CHANGED, READER, NUMBERS, MOST_FIELDS = 2 };
typedef struct run {
  int nfields;
  const char *field[MOST_FIELDS];
  int names;                           /* stack index of the fields' names, then "step" */
  lua_Integer changed;
  int added;                           /* a backward has added to a gradient that was used */
  int is_adam;
  fl_adam adam;
  fl_sgd sgd;
} run;

/* The usable box on top; NULL: there is none. */
__attribute__((noinline)) static fl_box *usable(lua_State *L) {
  fl_box *x = box_at(L, -1);
  return x != NULL && x->t != NULL && x->t->node != NULL ? x : NULL;
}

static int alike(const fl_node *a, const fl_node *b) {
  return a->shape == b->shape && a->dtype == b->dtype && a->device == b->device;
}

static void append(lua_State *L, run *r, int i) {
  lua_pushvalue(L, i);
  lua_rawseti(L, CHANGED, ++r->changed);
}

static flame_status record(const run *r, fl_box *p, fl_node *g, fl_box *const *x) {
  assert(!r->is_adam || (x[0] && x[1]));
  assert(!r->nfields || x[0]);
  if (r->is_adam) return fl_adam_step(p->t, g, x[0]->t, x[1]->t, NULL, &r->adam);
  return fl_sgd_step(p->t, g, r->nfields ? x[0]->t : NULL, &r->sgd);
}

/* Called before x is written: was_refused tells only of later writes, so the marks of earlier ones
** are removed. */
static void forget(const fl_box *x) {
  fl_node *n = x->t->node;
  fl_buffer *b = n && n->state == FL_STORED ? n->buffer : n ? n->home : NULL;
  if (n) n->refused = 0;
  if (!b || !b->refused) return;         /* many parameters may be in one buffer */
  for (fl_node *q = b->nodes; q; q = q->bnext) q->refused = 0;
  b->refused = 0;
}

/* Steps parameter i, or passes over one without a gradient; 0: neither can be done here. */
static int step(lua_State *L, fl_lua *b, run *r, lua_Integer i) {
  fl_box *x[MOST_FIELDS] = { NULL };
  const int top = lua_gettop(L);
  lua_rawgeti(L, PARAMS, i);
  fl_box *p = usable(L);
  if (p == NULL) return 0;
  flame_tensor *grad = p->t->grad;
  if (grad == NULL) return 1;
  lua_pushvalue(L, top + 1);
  if (grad->node == NULL || !alike(p->t->node, grad->node) ||
      lua_rawget(L, STATES) != LUA_TTABLE) return 0;
  for (int k = 0; k < r->nfields; k++) {
    lua_pushvalue(L, r->names + k);
    lua_rawget(L, top + 2);
    x[k] = usable(L);
    if (x[k] == NULL || !alike(p->t->node, x[k]->t->node)) return 0;
  }
  lua_pushvalue(L, r->names + r->nfields);
  if (lua_rawget(L, top + 2) != LUA_TNUMBER || !lua_isinteger(L, -1)) return 0;
  const lua_Integer number = lua_tointeger(L, -1) + 1;
  fl_adam_count(&r->adam, number);
  r->added |= fl_gradient_used(grad, luaL_checkinteger(L, READER));
  forget(p);
  const int64_t mark = enter(L, b);
  leave(L, b, mark, record(r, p, grad->node, x));       /* raises if the step has failed */
  lua_pushvalue(L, r->names + r->nfields);
  lua_pushinteger(L, number);
  lua_rawset(L, top + 2);
  append(L, r, top + 1);
  for (int k = 0; k < r->nfields; k++) {
    fl_box_untrack(b, x[k]);
    append(L, r, top + 3 + k);
  }
  lua_settop(L, top);
  return 1;
}

/* Steps the parameters from FIRST on. Returns the index of the first that was not stepped, and
** r->added. */
static int run_all(lua_State *L, run *r) {
  fl_lua *b = self_of(L);
  lua_Integer i = luaL_checkinteger(L, FIRST);
  const lua_Integer n = (lua_Integer)lua_rawlen(L, PARAMS);
  luaL_checkstack(L, 16, "a step");
  for (int t = PARAMS; t <= CHANGED; t++) if (t != FIRST) luaL_checktype(L, t, LUA_TTABLE);
  r->changed = (lua_Integer)lua_rawlen(L, CHANGED);
  r->names = lua_gettop(L) + 1;
  for (int k = 0; k < r->nfields; k++) lua_pushstring(L, r->field[k]);
  lua_pushliteral(L, "step");
  const int top = lua_gettop(L);
  while (i <= n && step(L, b, r, i)) {
    lua_settop(L, top);
    i++;
  }
  lua_pushinteger(L, i);
  lua_pushboolean(L, r->added);
  return 2;
}

/* internal.room(n): an empty table that has memory for n elements. */
static int room(lua_State *L) {
  const lua_Integer n = luaL_checkinteger(L, 1);
  lua_createtable(L, n > 0 && n < 1 << 20 ? (int)n : 0, 0);
  return 1;
}

/* internal.adam_run(params, first, states, changed, optimiser's number, lr, beta1, beta2, eps,
** decay, decoupled): steps a list of parameters (run_all). */
static int adam_run(lua_State *L) {
  static const char op[] = "adam";
  run r = { .nfields = 2, .field = { "exp_avg", "exp_avg_sq" }, .is_adam = 1 };
  r.adam = (fl_adam){ .lr = fl_arg_num(L, NUMBERS, op, "lr"),
      .beta1 = fl_arg_num(L, NUMBERS + 1, op, "beta1"),
      .beta2 = fl_arg_num(L, NUMBERS + 2, op, "beta2"),
      .eps = fl_arg_num(L, NUMBERS + 3, op, "eps"),
      .decay = fl_arg_num(L, NUMBERS + 4, op, "weight_decay"),
      .decoupled = lua_toboolean(L, NUMBERS + 5) };
  return run_all(L, &r);
}

/* internal.sgd_run(params, first, states, changed, optimiser's number, lr, momentum, dampening,
** decay, nesterov): steps a list of parameters (run_all). */
static int sgd_run(lua_State *L) {
  static const char op[] = "SGD";
  run r = { .field = { "momentum_buffer" } };
  r.sgd = (fl_sgd){ .lr = fl_arg_num(L, NUMBERS, op, "lr"),
      .momentum = fl_arg_num(L, NUMBERS + 1, op, "momentum"),
      .dampening = fl_arg_num(L, NUMBERS + 2, op, "dampening"),
      .decay = fl_arg_num(L, NUMBERS + 3, op, "weight_decay"),
      .nesterov = lua_toboolean(L, NUMBERS + 4) };
  r.nfields = r.sgd.momentum != 0;
  return run_all(L, &r);
}

/* internal.clear_grads(list) -> the index of the first that is no usable tensor, or nil. Records
** nothing, so it needs no scope and no line of the script. */
static int clear_grads(lua_State *L) {
  fl_lua *b = self_of(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  if (b->c == NULL) return fl_lua_raise(L, b);
  fl_lua_on(L, b);
  lua_Integer i = 1;
  for (fl_box *x; lua_rawgeti(L, 1, i) == LUA_TUSERDATA && (x = usable(L)) != NULL; i++) {
    fl_tensor_set_grad(x->t, NULL);
    lua_settop(L, 1);
  }
  if (!lua_isnil(L, -1)) lua_pushinteger(L, i);
  return 1;
}

/* The gradient of parameter i of the list at 1, or NULL. *more: is there a parameter i? *fine: are
** it and its gradient usable? Leaves the stack as it was. */
__attribute__((noinline))
static flame_tensor *gradient_at(lua_State *L, lua_Integer i, int *more, int *fine) {
  *more = lua_rawgeti(L, 1, i) != LUA_TNIL;
  const fl_box *p = usable(L);
  flame_tensor *g = p ? p->t->grad : NULL;
  *fine = !*more || (p && (!g || g->node));
  lua_pop(L, 1);
  return g;
}

typedef struct fl_sums { fl_node **at; int64_t n, cap; } fl_sums;

/* The result of calls of power_sum for the arrays g. A call takes at most FL_CALL_INPUTS arrays (a
** GPU makes one launch for them), and adds the result of the call before it. */
static fl_node *sum_by_calls(flame_context *c, const fl_sums *g, int64_t what) {
  fl_node *in[FL_CALL_INPUTS], *total = NULL;
  for (int64_t i = 0; i < g->n;) {
    int n = 0, dtype = FLAME_F32;
    if (total) in[n++] = total;
    while (n < FL_CALL_INPUTS && i < g->n) in[n++] = g->at[i++];
    for (int k = 0; k < n; k++) if (in[k]->dtype == FLAME_F64) dtype = FLAME_F64;
    const int64_t p[3] = { what, total != NULL, what == 0 && i == g->n };
    total = n_call(c, FL_CALL_power_sum, "clip_grad_norm", n, in, in[0]->device, dtype, 0, NULL, 3,
                   p, NULL, 0, NULL);
    if (!total) return NULL;
  }
  return total;
}

/* The root of the sum of the squares, in the widest dtype; half floats are summed in f32, against
** overflow. The sums of the arrays are summed as one array, so that there is no chain. */
static fl_node *sum_by_ops(flame_context *c, fl_sums *g) {
  int dtype = FLAME_F32;
  for (int64_t i = 0; i < g->n; i++) if (g->at[i]->dtype == FLAME_F64) dtype = FLAME_F64;
  for (int64_t i = 0; i < g->n; i++) {
    fl_node *x = fl_is_half(g->at[i]->dtype) ? n_cast(g->at[i], FLAME_F32) : g->at[i];
    g->at[i] = n_cast(n_sum(n_mul(x, x), ~0u, 0), dtype);
    if (!g->at[i]) return NULL;
  }
  return n_sqrt(g->n == 1 ? g->at[0] : n_sum(n_stack(c, (int)g->n, g->at, 0), ~0u, 0));
}

/* internal.power_sum(list, what) -> the root of the sum of all gradients' squares (what = 0), the
** sum of their magnitudes (1) or the largest magnitude (2), 0-d. nil: there are no gradients,
** something in the list is unusable, or what is not 0 on a CPU. */
static int power_sum(lua_State *L) {
  fl_lua *b = self_of(L);
  const lua_Integer what = luaL_checkinteger(L, 2);
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  fl_box *out = fl_box_new(L);
  const int64_t m = enter(L, b);
  fl_sums g = { 0 };
  int more = 1, fine = 1, real = 1;
  for (lua_Integer i = 1; more && fine; i++) {
    const flame_tensor *t = gradient_at(L, i, &more, &fine);
    fl_node **at = t && fine ? FL_PUSH(&b->c->mem, &g) : NULL;
    if (at) *at = t->node;
    else if (t) fine = 0;
    if (at) real &= fl_is_float((*at)->dtype) && (*at)->device > 0;
  }
  const int calls = fine && g.n && real, any = calls || (fine && g.n && what == 0);
  fl_node *total = !any ? NULL : calls ? sum_by_calls(b->c, &g, what) : sum_by_ops(b->c, &g);
  FL_DROP(&b->c->mem, &g);
  if (any) return fl_lua_leave(L, b, m, out, total);
  fl_scope_end(b->c, m);
  return 0;
}

/* internal.scale_grads(list, s) -> true: all gradients were multiplied by s, and still count as new
** ones; nil: nothing was done, as not all that is in the list is usable. */
static int scale_grads(lua_State *L) {
  fl_lua *b = self_of(L);
  const fl_box *by = fl_arg_tensor(L, 2, "clip_grad_norm", "scale");
  luaL_checktype(L, 1, LUA_TTABLE);
  int more = 1, fine = 1;
  for (lua_Integer i = 1; more && fine; i++) gradient_at(L, i, &more, &fine);
  if (!fine) return 0;
  const int64_t m = enter(L, b);
  fl_node *s = node_of(b, by);
  flame_status e = s ? FLAME_OK : b->c->err.code;
  more = 1;
  for (lua_Integer i = 1; more && e == FLAME_OK; i++) {
    flame_tensor *g = gradient_at(L, i, &more, &fine);
    if (!g) continue;
    const uint8_t used = g->used;
    e = fl_tensor_write(g, n_copy(n_cast(n_mul(g->node, s), g->node->dtype)), "copy_");
    g->used = used;
  }
  leave(L, b, m, e);
  lua_pushboolean(L, 1);
  return 1;
}

/* Evaluates n after an error was found in what another device computes, and adds its errors. */
static void evaluate_too(flame_context *c, fl_node *n) {
  fl_error first = c->err;
  memset(&c->err, 0, sizeof c->err);
  if (fl_evaluate_later(c, n) != FLAME_OK) fl_add_error(c, &first, &c->err);
  c->err = first;
}

/* internal.eval_list(list): computes what is in it; a GPU may tell later that an index was bad. */
static int eval_list(lua_State *L) {
  fl_lua *b = self_of(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  const int64_t m = enter(L, b);
  flame_status e = FLAME_OK;
  for (lua_Integer i = 1; e == FLAME_OK || e == FLAME_BAD_VALUE; i++) {
    if (lua_rawgeti(L, 1, i) == LUA_TNIL) break;
    fl_box *x = box_at(L, -1);
    fl_node *n = x && x->t ? x->t->node : NULL;
    if (e != FLAME_OK) {
      if (n && n->state == FL_PENDING) evaluate_too(b->c, n);
    } else if (!x || !node_of(b, x)) e = b->c->err.code;
    else if (n && n->state != FL_STORED && !b->c->trace) e = fl_evaluate_later(b->c, n);
    lua_settop(L, 1);
  }
  return leave(L, b, m, e);
}

/* internal.was_refused(x): was the last write of x refused? Then x has kept its value. */
static int was_refused(lua_State *L) {
  const fl_box *x = fl_arg_tensor(L, 1, "step", "parameter");
  const fl_node *n = x->t->node;
  int refused = n && n->refused;
  for (const fl_node *q = n && n->home ? n->home->nodes : NULL; q; q = q->bnext)
    refused |= q->refused;                       /* n is a write that was recorded since */
  lua_pushboolean(L, refused);
  return 1;
}

static int forget_refused(lua_State *L) {
  forget(fl_arg_tensor(L, 1, "step", "parameter"));
  return 0;
}

static const char watch_mark;

static int watch_gc(lua_State *L) {
  fl_watch *w = (fl_watch *)fl_lua_marked(L, 1, &watch_mark);
  if (w && self_of(L)->c) fl_watch_end(w);
  if (w) w->dead = 1;
  return 0;
}

/* internal.watch_flights(w or false) -> w, which now watches the runs that are not waited for. */
static int watch_flights(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_watch *w = (fl_watch *)fl_lua_marked(L, 1, &watch_mark);
  if (b->c == NULL) return fl_lua_raise(L, b);
  if (!w || w->dead) {                      /* dead: this runs in a finaliser, after that of w */
    w = (fl_watch *)lua_newuserdatauv(L, sizeof *w, 0);
    memset(w, 0, sizeof *w);
    w->owner = b;
    lua_createtable(L, 0, 2);
    fl_lua_mark(L, &watch_mark);
    fl_push_closure(L, b, watch_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_replace(L, 1);
  }
  fl_watch_begin(b->c, w);
  lua_settop(L, 1);
  return 1;
}

static fl_watch *arg_watch(lua_State *L) {
  fl_watch *w = (fl_watch *)fl_lua_marked(L, 1, &watch_mark);
  if (!w) luaL_argerror(L, 1, "need what watch_flights gave");
  return w;
}

/* internal.flown(w) -> did any run take place, while w watched, that was not waited for (a flight)?
** Ends the watch. */
static int flown(lua_State *L) {
  fl_watch *w = arg_watch(L);
  w->to = ((const fl_engine *)self_of(L)->c->engine)->flights;
  lua_pushboolean(L, w->to > w->from);
  return 1;
}

/* internal.flew_badly(w, x): has a check failed in a run on x's device that w has watched? Then
** none of that run's writes has happened, otherwise all have. */
static int flew_badly(lua_State *L) {
  const fl_watch *w = arg_watch(L);
  const fl_box *x = fl_arg_tensor(L, 2, "step", "parameter");
  lua_pushboolean(L, x->t->node && w->failed >> x->t->node->device & 1);
  return 1;
}

/* internal.land(): reads the checks of the last runs. The next read raises what they have found. */
static int land(lua_State *L) {
  fl_lua *b = self_of(L);
  flame_context *c = b->c;
  const int64_t m = enter(L, b);
  const fl_error before = c->err;
  flame_status s = fl_flight_land(c);
  if (s == FLAME_BAD_VALUE) {
    fl_raise_later(c);
    c->err = before;
    s = FLAME_OK;
  }
  return leave(L, b, m, s);
}

/* internal.checked() -> faults, flights: reads the checks of the last runs (engine/flight.h) and
** raises what they have found, or what the next read would raise. flights: how many runs have not
** been waited for so far; faults: in how many of these a check has failed. */
static int checked(lua_State *L) {
  fl_lua *b = self_of(L);
  const fl_engine *e = b->c->engine;
  const int64_t m = enter(L, b);
  leave(L, b, m, fl_flight_tell(b->c));
  lua_pushinteger(L, e->faults);
  lua_pushinteger(L, e->flights);
  return 2;
}

const fl_lua_reg fl_reg_update[] = {
  { "adam", adam, 0 }, { "adam_run", adam_run, 0 }, { "sgd_run", sgd_run, 0 },
  { "power_sum", power_sum, 0 }, { "scale_grads", scale_grads, 0 },
  { "room", room, 0 }, { "clear_grads", clear_grads, 0 }, { "eval_list", eval_list, 0 },
  { "was_refused", was_refused, 0 }, { "forget_refused", forget_refused, 0 },
  { "watch_flights", watch_flights, 0 }, { "flown", flown, 0 }, { "flew_badly", flew_badly, 0 },
  { "land", land, 0 }, { "checked", checked, 0 },
  { NULL, NULL, 0 }
};
