/*
** Calls of user kernels. k(…) is the hot path: arguments are checked against the signature,
** outputs made, the grid inferred, and one node recorded; no Lua runs unless the result is to
** be tracked (internal.kernel_track). k:launch writes through the handles given, as x[…] = v
** does: the kernel works on copies, which become the handles' values.
*/
#include "lua/kernel.h"
#include <stdio.h>

enum { SECTION = 256 };
#define MOST_ELEMENTS (INT64_C(1) << 50)

typedef fl_kplan plan;

/* Big arrays stay as they are: a call is recorded in less than a microsecond. */
static void begin(fl_lua *b, plan *p, const fl_kernel_box *k) {
  p->name = k->k->f->name;
  p->device = b->c ? b->c->default_device : 0;
  p->nscalar = p->nin = p->nout = p->tracked = 0;
  p->bytes = 0;
  memset(p->p, 0, sizeof p->p[0] * (size_t)(FL_KP_ARGS + 2 * k->nparam));
}

#define bad(L, p, ...) fl_lua_fail((L), (p)->name, __VA_ARGS__)

/* ---- tensors ---- */

static const char *index_type(const fl_kfunc *f, const fl_kernel_box *k) {
  return k->omit >= 0 ? fl_ktypes[f->params[k->omit].type].c : "int";
}

static int narrow_index(const fl_kfunc *f, const fl_kernel_box *k) {
  return k->omit >= 0 && fl_ktypes[f->params[k->omit].type].size < 8;
}

/* Elements of one type without gaps: a float4, a struct of floats. */
static int is_plain(const fl_kparam *q) {
  return fl_kt_held_as(q->type) >= 0 && q->pointee_size == (int64_t)q->width * fl_kt_size(q->type);
}

static fl_box *tensor_arg(lua_State *L, plan *p, const fl_kernel_box *k, const fl_kparam *q, int i,
                          int first) {
  char shape[192];
  fl_box *x = fl_arg_tensor(L, i, p->name, q->name);
  const fl_node *n = x->t->node;
  const int want = q->type < FL_KT_COUNT ? fl_kt_held_as(q->type) : -1;
  if (k->k->binary) {
  } else if (!is_plain(q)) {
    if (n->dtype != FLAME_U8)
      bad(L, p, "%s points to %s" FL_DO ": pass its bytes as a u8 tensor, got %s", q->name,
          q->type_name, fl_dtype_name(n->dtype));
  } else if (n->dtype != want &&
             !(n->dtype == FLAME_U8 && (q->is_struct || fl_ktypes[q->type].dtype < 0)))
    bad(L, p, "%s must be %s, got %s", q->name, fl_dtype_name(want), fl_dtype_name(n->dtype));
  if (first) p->device = n->device;
  else if (n->device != p->device) {
    char a[16], b[16];
    fl_device_name(n->device, a);
    fl_device_name(p->device, b);
    bad(L, p, "%s is on %s and the arguments before it on %s" FL_DO "; use :to()", q->name, a, b);
  }
  if (!n->layout->contiguous)
    bad(L, p, "%s of shape %s is not contiguous" FL_DO "; use %s:contiguous()", q->name,
        fl_lua_shape_of(shape, n), q->name);
  if (q->width > 1 && n->shape->numel % q->width)
    bad(L, p, "%s has shape %s, which is not a multiple of %s", q->name, fl_lua_shape_of(shape, n),
        q->type_name);
  if (n->shape->numel > INT32_MAX && narrow_index(k->k->f, k))
    bad(L, p, "%s has more elements than an %s can count" FL_DO "; give the kernel a long", q->name,
        index_type(k->k->f, k));
  return x;
}

static int add_input(lua_State *L, plan *p, fl_box *x) {
  for (int i = 0; i < p->nin; i++) if (p->in[i]->t == x->t) return i;
  if (p->nin == FL_CALL_INPUTS) fl_lua_fail(L, p->name, "more than %d tensors", FL_CALL_INPUTS);
  p->in[p->nin] = x;
  return p->nin++;
}

/* Sizes are bounded so that neither their sum nor 8 of them, which goes with
** the kind, overflows. */
static void add_output(lua_State *L, plan *p, int arg, int dtype, const fl_sizes *shape,
                       int64_t numel, int input) {
  char text[192];
  if (numel > MOST_ELEMENTS)
    fl_lua_fail(L, p->name, "an output of shape %s is too large",
                fl_shape_text(text, shape->n, shape->at));
  const int64_t bytes = numel * fl_dtype_size(dtype),
                at = (p->bytes + SECTION - 1) / SECTION * SECTION;
  p->out[p->nout].dtype = dtype;
  p->out[p->nout].input = input;
  p->out[p->nout].at = at;
  p->out[p->nout].bytes = bytes;
  p->out[p->nout++].shape = *shape;
  p->p[FL_KP_ARGS + 2 * arg] = input >= 0 ? FL_KARG_COPY + 8 * (int64_t)input
                                          : FL_KARG_OUT + 8 * bytes;
  p->p[FL_KP_ARGS + 2 * arg + 1] = at;
  p->bytes = at + bytes;
}

static void sizes_of(const fl_node *n, fl_sizes *s) {
  s->n = n->shape->rank;
  memcpy(s->at, n->shape->size, sizeof s->at[0] * (size_t)s->n);
}

static int64_t numel_of(const fl_sizes *s) {
  int64_t n = 1;
  for (int i = 0; i < s->n; i++) if (__builtin_mul_overflow(n, s->at[i], &n)) return INT64_MAX / 16;
  return n;
}

static int make_ready(lua_State *L, fl_lua *b, const plan *p, fl_kfunction *k) {
  if (k->ready_for != b->c->kernel_checks) k->ready = 0;
  k->ready_for = b->c->kernel_checks;
  if (k->ready >> p->device & 1) return 0;
  const int64_t m = fl_lua_enter(L, b);
  fl_device *d = fl_engine_device(b->c, p->device);
  const flame_status e = d ? d->table->ready(d, &k, 1) : b->c->err.code;
  fl_scope_end(b->c, m);
  return e == FLAME_OK ? 0 : fl_kernel_raise(L, b, k);
}

/* ---- results ---- */

static const void *argument_of(void *arg, int i) {
  const plan *p = arg;
  const int64_t w = p->p[FL_KP_ARGS + 2 * i];
  return (w & 7) == FL_KARG_VALUE ? (const void *)(p->scalar + (w >> 3)) : NULL;
}

/* Bytes of a result that begins as zeros or as a copy which no other argument sees; else 0. */
static int64_t own_result(const plan *p, int i) {
  const int64_t *w = &p->p[FL_KP_ARGS + 2 * i], kind = w[0] & 7;
  if (kind == FL_KARG_OUT) return w[0] >> 3;
  if (kind != FL_KARG_COPY) return 0;
  for (int j = 0; j < p->p[FL_KP_COUNT_ARGS]; j++) {
    const int64_t *o = &p->p[FL_KP_ARGS + 2 * j];
    if (j != i && (o[0] & 7) == FL_KARG_COPY && o[1] == w[1]) return 0;
  }
  const fl_node *n = p->in[w[0] >> 3]->t->node;
  return n->shape->numel * fl_dtype_size(n->dtype);
}

/* Results that this launch is proven to write whole need neither. With checks they keep it. */
static void find_whole(plan *p, const fl_kfunction *k) {
  if (!k->cover || p->p[FL_KP_CHECKS]) return;
  fl_kcover_launch l = { .argument = argument_of, .arg = p };
  for (int i = 0; i < 3; i++) {
    l.grid[i] = p->p[FL_KP_GRID + i];
    l.block[i] = p->p[FL_KP_BLOCK + i];
  }
  for (int i = 0; i < p->p[FL_KP_COUNT_ARGS]; i++) {
    const int64_t bytes = own_result(p, i), size = fl_kt_size(k->f->params[i].type);
    if (bytes && size && fl_kcover_all(k->cover, i, bytes / size, &l))
      p->p[FL_KP_ARGS + 2 * i] = FL_KARG_RAW + 8 * bytes;
  }
}

static fl_node *record(fl_lua *b, plan *p, fl_kfunction *k) {
  /* snapshots of derived kernels copy local arrays before they are written */
  p->p[FL_KP_CHECKS] = k->ad ? b->c->kernel_checks & ~(unsigned)FL_LANE_UNINIT
                             : b->c->kernel_checks;
  find_whole(p, k);
  fl_node *in[FL_CALL_INPUTS];
  for (int i = 0; i < p->nin; i++) if (!(in[i] = node_of(b, p->in[i]))) return NULL;
  const int one = p->nout == 1, dtype = one ? p->out[0].dtype : FLAME_U8;
  const int64_t flat[1] = { p->bytes };
  return n_call(b->c, FL_CALL_kernel, p->name, p->nin, in, p->device, dtype,
                one ? p->out[0].shape.n : 1, one ? p->out[0].shape.at : flat,
                FL_KP_ARGS + 2 * (int)p->p[FL_KP_COUNT_ARGS], p->p, &k->callee, p->nscalar,
                p->scalar);
}

/* Result i of the packed ones. */
static fl_node *part(fl_lua *b, const plan *p, fl_node *packed, int i) {
  if (p->nout == 1 || !packed) return packed;
  const int64_t at = p->out[i].at;
  return n_call(b->c, FL_CALL_part, p->name, 1, &packed, p->device, p->out[i].dtype,
                p->out[i].shape.n, p->out[i].shape.at, 1, &at, NULL, 0, NULL);
}

/* Record and push the results. */
static int results(lua_State *L, fl_lua *b, plan *p, fl_kfunction *k) {
  fl_box *out[FL_KP_MAX_ARGS];
  const int nout = p->nout;
  luaL_checkstack(L, nout + 8, p->name);
  for (int i = 0; i < nout; i++) out[i] = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  fl_node *packed = record(b, p, k);
  int ok = packed != NULL;
  for (int i = 0; i < nout && ok; i++) {
    fl_node *n = part(b, p, packed, i);
    out[i]->t = n ? fl_tensor_new(b->c, n) : NULL;
    ok = out[i]->t != NULL;
  }
  fl_lua_leave_status(L, b, m, ok ? FLAME_OK : b->c->err.code);
  return nout;
}

/* ---- k(…) ---- */

static void count_arguments(lua_State *L, const plan *p, const fl_kernel_box *k, int given) {
  if (given == k->taken || (k->omit >= 0 && given == k->taken - 1)) return;
  char list[400] = "";
  size_t n = 0;
  for (int i = 0; i < k->nparam; i++) {
    if (k->role[i] == FL_KROLE_OUT || k->hidden[i]) continue;
    const int w = snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "",
                           k->k->f->params[i].name);
    if (w < 0 || (n += (size_t)w) >= sizeof list) break;
  }
  if (k->omit >= 0)
    fl_lua_fail(L, p->name, "%d arguments, need %d or %d: (%s)", given, k->taken - 1,
                k->taken, list);
  else fl_lua_fail(L, p->name, "%d arguments, need %d: (%s)", given, k->taken, list);
}

/* What shape, grid and block functions of the configuration say: into a copy of *k. */
static void ask_script(lua_State *L, const plan *p, fl_kernel_box *k, int given) {
  lua_getiuservalue(L, 1, 1);
  const int config = lua_gettop(L);
  if (k->lua_shape) {
    luaL_checkstack(L, given + 4, p->name);
    lua_getfield(L, config, "shape");
    for (int i = 0; i < given; i++) lua_pushvalue(L, i + 2);
    lua_call(L, given, 1);
    if (!lua_istable(L, -1))
      fl_lua_fail(L, p->name, "the shape function must return a list of sizes, got %s",
                  luaL_typename(L, -1));
    fl_arg_sizes(L, lua_gettop(L), lua_gettop(L), p->name, 0, &k->shape);
    k->has_shape = 1;
  }
  if (k->lua_grid) {
    lua_getfield(L, config, "grid");
    for (int i = 0; i < given; i++) lua_pushvalue(L, i + 2);
    lua_call(L, given, 1);
    if (!lua_istable(L, -1) && lua_type(L, -1) != LUA_TNUMBER)
      fl_lua_fail(L, p->name, "the grid function must return a number or a list of up to 3, got %s",
                  luaL_typename(L, -1));
    for (int i = 0; i < 3; i++) {
      k->grid[i] = i == 0 && !lua_istable(L, -1) ? fl_arg_int(L, lua_gettop(L), p->name, "grid")
                                                 : 1;
      if (!lua_istable(L, -1)) continue;
      lua_geti(L, -1, i + 1);
      if (!lua_isnil(L, -1)) k->grid[i] = fl_arg_int(L, lua_gettop(L), p->name, "grid");
      lua_pop(L, 1);
    }
    k->has_grid = 1;
  }
  lua_settop(L, config - 1);
}

static int is_first_tensor(const fl_kernel_box *k, int arg) {
  for (int i = 0; i < arg; i++)
    if (k->role[i] == FL_KROLE_IN || k->role[i] == FL_KROLE_INOUT) return 0;
  return 1;
}

/* A variable of file scope: what the script has set, or zeros, dropped after the launch. */
static void hidden_argument(lua_State *L, plan *p, const fl_kernel_box *k, int i, int first) {
  const fl_kparam *q = &k->k->f->params[i];
  const fl_sizes size = { .n = 1, .at = { q->count } };
  if (k->role[i] == FL_KROLE_OUT) {
    add_output(L, p, i, fl_kt_held_as(q->type), &size, q->count, -1);
    return;
  }
  fl_kernel_push_constant(L, p->name, q);
  fl_box *x = tensor_arg(L, p, k, q, lua_gettop(L), first);
  if (x->t->node->entry) p->tracked = 1;
  p->p[FL_KP_ARGS + 2 * i] = FL_KARG_IN + 8 * (int64_t)add_input(L, p, x);
  lua_pop(L, 1);                                 /* the configuration holds it */
}

/* Inputs of the call at stack 2 …; returns the first tensor argument's box or NULL. */
static fl_box *read_arguments(lua_State *L, plan *p, const fl_kernel_box *k, int given) {
  const fl_kfunc *f = k->k->f;
  fl_box *first = NULL;
  int at = 2;
  for (int i = 0; i < k->nparam; i++) {
    const fl_kparam *q = &f->params[i];
    if (k->hidden[i] && k->role[i] == FL_KROLE_IN)
      hidden_argument(L, p, k, i, is_first_tensor(k, i));
    if (k->role[i] == FL_KROLE_OUT || k->hidden[i]) continue;
    if (i == k->omit && given < k->taken) continue;
    if (k->role[i] == FL_KROLE_SCALAR) fl_kplan_scalar(L, p, q, i, at);
    else if (k->role[i] == FL_KROLE_STRUCT) fl_kplan_struct(L, p, q, i, at);
    else {
      fl_box *x = tensor_arg(L, p, k, q, at, is_first_tensor(k, i));
      if (!first) first = x;
      if (x->t->node->entry && q->is_pointer) p->tracked = 1;
      const int input = add_input(L, p, x);
      p->p[FL_KP_ARGS + 2 * i] = FL_KARG_IN + 8 * (int64_t)input;
    }
    at++;
  }
  return first;
}

/* Outputs in the order of the signature; the first one's elements are what 'n' counts. */
static int64_t make_outputs(lua_State *L, plan *p, const fl_kernel_box *k, const fl_box *first) {
  const fl_kfunc *f = k->k->f;
  fl_sizes shape;
  int64_t n = -1;
  if (k->has_shape) shape = k->shape;
  else if (first) sizes_of(first->t->node, &shape);
  else
    fl_lua_fail(L, p->name, "no tensor among the arguments gives the outputs a shape"
                FL_DO ": use :with{shape = {…}}");
  for (int i = 0; i < k->nparam; i++) {
    const fl_kparam *q = &f->params[i];
    if (k->hidden[i] && k->role[i] == FL_KROLE_OUT) hidden_argument(L, p, k, i, 0);
    if (k->hidden[i]) continue;
    if (k->role[i] == FL_KROLE_INOUT) {
      const int input = (int)(p->p[FL_KP_ARGS + 2 * i] >> 3);
      fl_sizes own;
      sizes_of(p->in[input]->t->node, &own);
      add_output(L, p, i, p->in[input]->t->node->dtype, &own, numel_of(&own), input);
    } else if (k->role[i] == FL_KROLE_OUT) {
      const int dtype = fl_kt_held_as(q->type);
      if (dtype < 0)
        fl_lua_fail(L, p->name, "output %s points to %s, which no tensor holds"
                    FL_DO "; use :launch", q->name, q->type_name);
      add_output(L, p, i, dtype, &shape, numel_of(&shape), -1);
      if (q->width > 1 && numel_of(&shape) % q->width) fl_lua_fail(L, p->name,
          "output %s of %lld elements is not a multiple of %s", q->name,
          (long long)numel_of(&shape), q->type_name);
    } else continue;
    if (n < 0) n = numel_of(&p->out[p->nout - 1].shape) / (q->width > 1 ? q->width : 1);
  }
  if (k->nout == 0)
    fl_lua_fail(L, p->name, "it has no outputs (non-const pointers)" FL_DO ": use :launch");
  return n;
}

/* The results on top, without those of hidden parameters: how many are left. */
static int visible(lua_State *L, const fl_kernel_box *k, int nout) {
  int at = lua_gettop(L) - nout + 1;
  for (int i = 0; i < k->nparam; i++) {
    if (k->role[i] != FL_KROLE_OUT && k->role[i] != FL_KROLE_INOUT) continue;
    if (k->hidden[i]) lua_remove(L, at);
    else at++;
  }
  return k->nout;
}

/* Push a table of n values that stand at 'first'. */
static void push_list(lua_State *L, int first, int n) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushvalue(L, first + i);
    lua_rawseti(L, -2, i + 1);
  }
}

/* The tracked results are made in Lua: kernel_track(kernel, results, arguments, geometry, n). */
static int track(lua_State *L, const plan *p, int given, int64_t n, int nout) {
  const int first = lua_gettop(L) - nout + 1;
  luaL_checkstack(L, 12, p->name);
  lua_pushvalue(L, 1);
  push_list(L, first, nout);
  push_list(L, 2, given);
  lua_createtable(L, 7, 0);
  for (int i = 0; i < 7; i++) {
    lua_pushinteger(L, p->p[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushinteger(L, n);
  lua_rotate(L, 1, 5);
  lua_settop(L, 5);
  return fl_core_call(L, "kernel_track");
}

/* The kernel that also writes down what its atomics return: a last result for the derivatives. */
static fl_kfunction *recorder(lua_State *L, plan *p, const fl_kernel_box *k) {
  fl_sizes s = { .n = 1, .at = { k->records } };
  for (int i = 0; i < 3; i++)
    if (__builtin_mul_overflow(s.at[0], p->p[FL_KP_GRID + i] * p->p[FL_KP_BLOCK + i], &s.at[0]) ||
        s.at[0] > INT64_MAX / 64)
      fl_lua_fail(L, p->name, "the grid is too large to be differentiated");
  p->p[FL_KP_ARGS + 2 * k->nparam] = p->p[FL_KP_ARGS + 2 * k->nparam + 1] = 0;
  add_output(L, p, k->nparam, FLAME_I64, &s, s.at[0], -1);
  p->p[FL_KP_COUNT_ARGS]++;
  return k->recorder;
}

int fl_kernel_call(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_kernel_box *k = fl_arg_kernel(L, 1, "kernel"), own;
  const int given = lua_gettop(L) - 1;
  plan p;
  begin(b, &p, k);
  count_arguments(L, &p, k, given);
  if (k->unread_output >= 0) {
    const char *name = k->k->f->params[k->unread_output].name;
    return fl_lua_fail(L, p.name, "reads output '%s' (line %d) which it has not written"
                       FL_DO ": name it in inout = {\"%s\"}", name, k->unread_line, name);
  }
  if (k->lua_shape || k->lua_grid) {
    own = *k;
    k = &own;
    ask_script(L, &p, k, given);
  }
  const fl_box *first = read_arguments(L, &p, k, given);
  const int64_t n = make_outputs(L, &p, k, first);
  if (k->omit >= 0 && given < k->taken) {
    const fl_kparam *q = &k->k->f->params[k->omit];
    lua_pushinteger(L, n);
    fl_kplan_scalar(L, &p, q, k->omit, lua_gettop(L));
    lua_pop(L, 1);
  }
  fl_kplan_geometry(L, &p, k, n);
  const int tracked = p.tracked && b->c->grad_mode;
  fl_kfunction *f = tracked && k->recorder ? recorder(L, &p, k) : k->k;
  make_ready(L, b, &p, f);
  const int nout = results(L, b, &p, f);
  if (!tracked) return k->nhidden ? visible(L, k, nout) : nout;
  return track(L, &p, given, n, nout);
}

/* ---- k:launch(geometry, …) ---- */

static void read_three(lua_State *L, const plan *p, int i, const char *name, int64_t out[3]) {
  out[0] = out[1] = out[2] = 1;
  if (lua_getfield(L, i, name) == LUA_TNUMBER) out[0] = fl_arg_int(L, lua_gettop(L), p->name, name);
  else if (lua_istable(L, -1)) {
    for (int k = 0; k < 3; k++) {
      if (lua_geti(L, -1, k + 1) != LUA_TNIL) out[k] = fl_arg_int(L, lua_gettop(L), p->name, name);
      lua_pop(L, 1);
    }
  } else out[0] = 0;
  lua_pop(L, 1);
}

static void launch_geometry(lua_State *L, plan *p, const fl_kernel_box *k) {
  if (!lua_istable(L, 2))
    fl_lua_fail(L, p->name, "launch needs a table {grid = {…}, block = {…}} first, got %s",
                luaL_typename(L, 2));
  fl_check_options(L, 2, p->name, "grid block shared");
  read_three(L, p, 2, "grid", p->p + FL_KP_GRID);
  read_three(L, p, 2, "block", p->p + FL_KP_BLOCK);
  for (int i = 0; i < 3; i++) {
    if (p->p[FL_KP_GRID] == 0 && k->has_grid) p->p[FL_KP_GRID + i] = k->grid[i];
    if (p->p[FL_KP_BLOCK] == 0 && i == 0)
      p->p[FL_KP_BLOCK] = k->has_block ? k->block[0] : fl_kplan_block(k->k->f);
  }
  if (p->p[FL_KP_GRID] == 0) fl_lua_fail(L, p->name, "launch needs {grid = …}: how many blocks");
  p->p[FL_KP_SHARED] = fl_option_int(L, 2, p->name, "shared", k->shared);
  p->p[FL_KP_COUNT_ARGS] = k->nparam;
  fl_kplan_check(L, p, k->k->f);
}

/* A written handle: neither a view nor tracked. */
static void check_target(lua_State *L, const plan *p, const char *name, const fl_box *x) {
  if (x->t->node->entry)
    fl_lua_fail(L, p->name, "%s is tracked: :launch writes in place and is not on the tape"
                FL_DO "; call the kernel, or detach()", name);
  if (x->t->view)
    fl_lua_fail(L, p->name, "write to a view made by %s (%s)" FL_DO ": launch with clone() of it",
                              x->t->made_by ? x->t->made_by : "a view function", name);
}

static void launch_pointer(lua_State *L, plan *p, const fl_kernel_box *k, int i, int at, int *first,
                           fl_box **target) {
  const fl_kparam *q = &k->k->f->params[i];
  fl_box *x = tensor_arg(L, p, k, q, at, *first);
  *first = 0;
  const int input = add_input(L, p, x);
  for (int o = 0; o < p->nout; o++) {
    if (p->out[o].input != input) continue;             /* one handle is one pointer */
    p->p[FL_KP_ARGS + 2 * i] = FL_KARG_COPY + 8 * (int64_t)input;
    p->p[FL_KP_ARGS + 2 * i + 1] = p->out[o].at;
    return;
  }
  p->p[FL_KP_ARGS + 2 * i] = FL_KARG_IN + 8 * (int64_t)input;
  if (q->is_const) return;
  check_target(L, p, q->name, x);
  fl_sizes own;
  sizes_of(x->t->node, &own);
  target[p->nout] = x;
  add_output(L, p, i, x->t->node->dtype, &own, numel_of(&own), input);
  for (int j = 0; j < i; j++) {                         /* given before as a const pointer */
    if (p->p[FL_KP_ARGS + 2 * j] != FL_KARG_IN + 8 * (int64_t)input) continue;
    p->p[FL_KP_ARGS + 2 * j] = p->p[FL_KP_ARGS + 2 * i];
    p->p[FL_KP_ARGS + 2 * j + 1] = p->p[FL_KP_ARGS + 2 * i + 1];
  }
}

static flame_status write_targets(fl_lua *b, plan *p, fl_kfunction *k, fl_box **target) {
  fl_node *packed = record(b, p, k), *value[FL_KP_MAX_ARGS];
  const int nout = p->nout;
  if (!packed) return b->c->err.code;
  for (int i = 0; i < nout; i++) {
    value[i] = part(b, p, packed, i);
    if (value[i] && nout == 1) value[i] = n_copy(value[i]);
    if (!value[i]) return b->c->err.code;
  }
  for (int i = 0; i < nout; i++) {
    if (!target[i]) continue;             /* of a hidden parameter */
    const flame_status e = fl_tensor_write(target[i]->t, value[i], p->name);
    if (e != FLAME_OK) return e;
  }
  return FLAME_OK;
}

int fl_kernel_launch(lua_State *L) {
  fl_lua *b = self_of(L);
  const fl_kernel_box *k = fl_arg_kernel(L, 1, "launch");
  const fl_kfunc *f = k->k->f;
  plan p;
  fl_box *target[FL_KP_MAX_ARGS] = { NULL };
  const int given = lua_gettop(L) - 2, wanted = k->nparam - k->nhidden;
  int first = 1;
  begin(b, &p, k);
  if (given != wanted)
    return fl_lua_fail(L, p.name,
                       "launch: %d arguments after the geometry, the kernel has %d parameters",
                                             given < 0 ? 0 : given, wanted);
  launch_geometry(L, &p, k);
  for (int i = 0, at = 3; i < k->nparam; i++) {
    const fl_kparam *q = &f->params[i];
    if (k->hidden[i]) { hidden_argument(L, &p, k, i, first); continue; }
    if (q->is_pointer) launch_pointer(L, &p, k, i, at, &first, target);
    else if (q->is_struct || q->width > 1) fl_kplan_struct(L, &p, q, i, at);
    else fl_kplan_scalar(L, &p, q, i, at);
    at++;
  }
  if (k->nout == 0)
    return fl_lua_fail(L, p.name, "launch: no parameter is written (all pointers are const)");
  make_ready(L, b, &p, k->k);
  const int64_t m = fl_lua_enter(L, b);
  fl_lua_leave_status(L, b, m, write_targets(b, &p, k->k, target));
  int pushed = 0;
  for (int o = 0; o < p.nout; o++)
    for (int i = 3; target[o] && i < 3 + wanted; i++)
      if (box_at(L, i) == target[o]) {
        lua_pushvalue(L, i);
        pushed++;
        break;
      }
  return pushed;
}

/* ---- internal.kernel_run(kernel, geometry, kinds, values): for derived kernels ---- */
/* kinds: a letter for each parameter: i input, c copy that is written (a result), o zeros that
** are written (a result; value: sizes), v scalar, s struct, 0 nothing. */
static void run_argument(lua_State *L, plan *p, const fl_kernel_box *k, int i, char kind,
                         int *first) {
  const fl_kparam *q = &k->k->f->params[i];
  const int at = lua_gettop(L);
  fl_sizes s;
  switch (kind) {
    case 'i': case 'c': {
      fl_box *x = tensor_arg(L, p, k, q, at, *first);
      const int input = add_input(L, p, x);
      *first = 0;
      sizes_of(x->t->node, &s);
      if (kind == 'c') add_output(L, p, i, x->t->node->dtype, &s, numel_of(&s), input);
      else p->p[FL_KP_ARGS + 2 * i] = FL_KARG_IN + 8 * (int64_t)input;
      return;
    }
    case 'o':
      fl_arg_sizes(L, at, at, p->name, 0, &s);
      add_output(L, p, i, fl_kt_held_as(q->type), &s, numel_of(&s), -1);
      return;
    case 'v': fl_kplan_scalar(L, p, q, i, at); return;
    case 's': fl_kplan_struct(L, p, q, i, at); return;
    default: p->p[FL_KP_ARGS + 2 * i] = FL_KARG_NULL;
  }
}

int fl_kernel_run(lua_State *L) {
  fl_lua *b = self_of(L);
  const fl_kernel_box *k = fl_arg_kernel(L, 1, "kernel");
  const char *kinds = luaL_checkstring(L, 3);
  plan p;
  int first = 1;
  begin(b, &p, k);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 4, LUA_TTABLE);
  luaL_argcheck(L, (int)strlen(kinds) == k->nparam, 3, "one letter a parameter");
  for (int i = 0; i < 7; i++) {
    lua_geti(L, 2, i + 1);
    p.p[i] = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
  }
  p.p[FL_KP_COUNT_ARGS] = k->nparam;
  if (p.p[FL_KP_BLOCK] == 0) {                           /* by elements: grid.x counts them */
    p.p[FL_KP_BLOCK] = fl_kplan_block(k->k->f);
    p.p[FL_KP_GRID] = (p.p[FL_KP_GRID] + p.p[FL_KP_BLOCK] - 1) / p.p[FL_KP_BLOCK];
  }
  fl_kplan_check(L, &p, k->k->f);
  for (int i = 0; i < k->nparam; i++) {
    lua_settop(L, 4);
    lua_geti(L, 4, i + 1);
    run_argument(L, &p, k, i, kinds[i], &first);
  }
  make_ready(L, b, &p, k->k);
  return results(L, b, &p, k->k);
}
