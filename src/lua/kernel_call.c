/*
** Calls of user kernels. k(…) is the hot path: arguments are checked against the signature, outputs
** are made, the grid is inferred, and one node is recorded; if an argument is tracked the results
** get a gradient rule (rule/). Lua code runs only if the script gave a function (a shape, a grid, a
** number of threads, the gradient: internal.kernel_given), or if the kernel or its block is chosen
** by the arguments (kernel_form.c, kernel_block.c). k:launch writes through the handles given, as
** x[…] = v does: the kernel works on copies, which then become the handles' values.
*/
#include "lua/kernel.h"
#include <stdio.h>

typedef fl_kplan plan;

static void begin(lua_State *L, fl_lua *b, plan *p, const fl_kernel_box *k) {
  if (!b->c) fl_lua_raise(L, b);
  fl_launch_begin(&p->l, b->c, k->k);
  p->tracked = 0;
  p->numbers = 0;
  p->each = 0;
  p->shapes = 0;
}

/* Continues if e is FLAME_OK, else raises. */
static void must(lua_State *L, flame_status e) {
  if (e != FLAME_OK) fl_lua_raise(L, self_of(L));
}

/* ---- tensors ---- */

static fl_box *tensor_arg(lua_State *L, plan *p, const fl_kernel_box *k, int arg, int i) {
  if (lua_isnil(L, i) && !k->k->f->has_body && !k->k->binary) fl_kernel_refused(L, k);
  if (lua_isnil(L, i) && !k->k->f->params[arg].asked)
    fl_lua_fail(L, p->l.name, "%s must be a tensor, got nil, and the kernel never asks whether it "
                "is null", k->k->f->params[arg].name);
  fl_box *x = fl_arg_tensor(L, i, p->l.name, k->k->f->params[arg].name);
  if (!fl_launch_takes(&p->l, arg, fl_kprogram_index(k->p), x->t->node))
    fl_lua_raise(L, self_of(L));
  return x;
}

/* Adds a handle as an input, once; returns the input's number. */
static int add_input(lua_State *L, plan *p, fl_box *x) {
  for (int i = 0; i < p->l.nin; i++) if (p->in[i]->t == x->t) return i;
  const int held = fl_launch_hold(&p->l, x->t->node);
  if (held < 0) return fl_lua_raise(L, self_of(L));
  p->in[held] = x;
  return held;
}

static void add_output(lua_State *L, plan *p, int arg, int dtype, const fl_sizes *shape,
                       int input) {
  must(L, fl_launch_output(&p->l, arg, dtype, shape->n, shape->at, input));
}

/* The sizes of an array; each: 1 to leave out the first axis, that of a batch of launches. */
static void sizes_of(const fl_node *n, int each, fl_sizes *s) {
  s->n = n->shape->rank - each;
  memcpy(s->at, n->shape->size + each, sizeof s->at[0] * (size_t)s->n);
}

/* Adds an output that begins as a copy of the input; after the launch it becomes the input's
** value. */
static void add_copy(lua_State *L, plan *p, int arg, int input) {
  const fl_node *n = p->in[input]->t->node;
  fl_sizes s;
  sizes_of(n, p->l.batch > 0, &s);
  must(L, fl_launch_output(&p->l, arg, n->dtype, s.n, s.at, input));
}

static void make_ready(lua_State *L, fl_lua *b, plan *p) {
  fl_kfunction *k = p->l.k;
  const int now = k->ready_for == fl_kfunction_checks(b->c) && k->ready >> p->l.device & 1;
  if (now && !p->l.batch) return;
  const int64_t m = fl_lua_enter(L, b);
  const flame_status e = fl_launch_ready(&p->l);
  fl_scope_end(b->c, m);
  if (e != FLAME_OK) fl_lua_raise(L, b);
}

/* ---- results ---- */

/* Records the launch with the current values of the input handles. */
static flame_status record(fl_lua *b, plan *p, fl_node **value) {
  for (int i = 0; i < p->l.nin; i++)
    if (!(p->l.in[i] = node_of(b, p->in[i]))) return b->c->err.code;
  return fl_launch_record(&p->l, value);
}

/* The tensors from which numbers were read, by parameter; NULL for the others. */
static flame_status number_nodes(fl_lua *b, const plan *p, fl_node **number) {
  memset(number, 0, sizeof *number * (size_t)p->l.p[FL_KP_COUNT_ARGS]);
  for (int i = 0; i < p->numbers; i++)
    if (!(number[p->number[i].param] = node_of(b, p->number[i].of))) return b->c->err.code;
  return FLAME_OK;
}

/* The gradient rule of the recorded launch; none if nothing is tracked. */
static flame_status rule_of(fl_lua *b, const plan *p, fl_kprogram *of, fl_node **value,
                            fl_krule **r) {
  fl_node *number[FL_KP_MAX_ARGS];
  int nout = p->l.nout;
  const flame_status e = number_nodes(b, p, number);
  if (e != FLAME_OK) return e;
  *r = fl_krule_new(of, &p->l, number, value, &nout);
  return b->c->err.code;
}

/* Records the launch and pushes the results, tracked by the rule of the program 'of', or untracked
** if 'of' is NULL. If 'proof' is not NULL it gets the rule instead. */
static int results(lua_State *L, fl_lua *b, plan *p, fl_kprogram *of, fl_krule **proof) {
  fl_box *out[FL_KP_MAX_ARGS];
  fl_node *value[FL_KP_MAX_ARGS];
  fl_krule *r = NULL;
  const int nout = p->l.nout - (of && of->recorder == p->l.k);
  luaL_checkstack(L, nout + 8, p->l.name);
  for (int i = 0; i < nout; i++) out[i] = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  flame_status e = record(b, p, value);
  if (e == FLAME_OK && of) e = rule_of(b, p, of, value, proof ? proof : &r);
  if (r) e = fl_krule_attach(r, value);
  for (int i = 0; i < nout && e == FLAME_OK; i++)
    if (!(out[i]->t = fl_tensor_new(b->c, value[i]))) e = b->c->err.code;
  fl_lua_leave_status(L, b, m, e);
  return nout;
}

/* ---- k(…) ---- */

int fl_kernel_refused(lua_State *L, const fl_kernel_box *k) {
  char text[480];
  fl_kunit_message(k->k->unit, fl_ksource_refusal(k->k->unit->source, k->k->f), text, sizeof text);
  return fl_lua_fail(L, k->k->f->name, "%s", text);
}

/* Raises the reason if the text is refused before the kernel's parameters, which are then not
** known. */
static void need_parameters(lua_State *L, const fl_kernel_box *k) {
  const fl_kfunc *f = k->k->f;
  if (!f->has_body && !k->k->binary && f->n_params == 0 && f->refusal) fl_kernel_refused(L, k);
}

static void count_arguments(lua_State *L, const plan *p, const fl_kernel_box *k, int given) {
  if (given == k->taken || (k->p->omit >= 0 && given == k->taken - 1)) return;
  char list[400] = "";
  size_t n = 0;
  for (int i = 0, taken, end; i < k->p->nparam; i = end) {
    const fl_kparam *q = &k->k->f->params[i];
    end = fl_kernel_argument(k, i, &taken);
    if (!taken) continue;
    const int w = snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "",
                           fl_kparam_argument(q));
    if (w < 0 || (n += (size_t)w) >= sizeof list) break;
  }
  const char *many = FL_S(given);
  if (k->p->omit >= 0)
    fl_lua_fail(L, p->l.name, "%d argument%s, need %d or %d: (%s)", given, many, k->taken - 1,
                k->taken, list);
  else fl_lua_fail(L, p->l.name, "%d argument%s, need %d: (%s)", given, many, k->taken, list);
}

/* Gives the launch a variable of file scope: the value that the script has set, or zeros, which are
** dropped after the launch. */
static void hidden_argument(lua_State *L, plan *p, const fl_kernel_box *k, int i) {
  const fl_kparam *q = &k->k->f->params[i];
  const fl_sizes size = { .n = 1, .at = { q->count } };
  if (k->p->role[i] == FL_KROLE_OUT) {
    add_output(L, p, i, fl_kt_held_as(q->type), &size, -1);
    return;
  }
  fl_kernel_push_constant(L, p->l.name, q);
  fl_box *x = tensor_arg(L, p, k, i, lua_gettop(L));
  if (x->t->node->entry) p->tracked = 1;
  fl_launch_input(&p->l, i, add_input(L, p, x));
  lua_pop(L, 1);                                 /* the configuration holds it */
}

/* Reads the array at stack index 'at'. The first array of a call gives the outputs their shape,
** unless the configuration does (make_outputs). */
static void read_array(lua_State *L, plan *p, const fl_kernel_box *k, int i, int at,
                       fl_sizes *first, int each) {
  fl_box *x = tensor_arg(L, p, k, i, at);
  const fl_node *n = x->t->node;
  if (each && (n->shape->rank < 1 || n->shape->size[0] != p->l.batch))
    fl_lua_fail(L, p->l.name, "%s has no axis of %d for the launches of the batch",
                k->k->f->params[i].name, (int)p->l.batch);
  if (first->n < 0) sizes_of(n, each, first);
  if (n->entry && k->k->f->params[i].is_pointer) p->tracked = 1;
  const int held = add_input(L, p, x);
  fl_launch_input(&p->l, i, held);
  if (each && !fl_launch_each(&p->l, i, held)) fl_lua_raise(L, self_of(L));
  if (!k->k->f->params[i].axes) return;
  fl_sizes s;
  sizes_of(n, each, &s);
  fl_kplan_lengths(L, p, i, &s);
}

/* Reads parameter i from the argument at 'at', all of it or a part of it. */
static void read_part(lua_State *L, plan *p, const fl_kernel_box *k, int i, int at,
                      fl_sizes *first) {
  const fl_kparam *q = &k->k->f->params[i];
  const int role = k->p->role[i];
  if (q->axes && q->axis >= 0) return;                             /* see fl_kplan_lengths */
  const int value = fl_kernel_part(L, p->l.name, q, at);
  if (role == FL_KROLE_NONE) fl_kplan_lengths(L, p, i, &(fl_sizes){ .n = q->axes });
  else if (role == FL_KROLE_SCALAR) fl_kplan_scalar(L, p, q, i, value);
  else if (role == FL_KROLE_STRUCT) fl_kplan_struct(L, p, q, i, value);
  else if (role != FL_KROLE_OUT)
    read_array(L, p, k, i, value, first,
               !q->list_of && !q->part_of && at < 66 && p->each >> (at - 2) & 1);
  else if (!lua_isnil(L, value))
    fl_lua_fail(L, p->l.name, "%s is an output, which the call makes" FL_DO ": leave it out, name "
                "it in inout, or use :launch", q->name);
  if (value != at) lua_pop(L, 1);                /* the argument holds it */
}

/* Reads the arguments of the call, from stack index 2 on. *first: the shape of the first array;
** its n is -1 if there is none. */
static void read_arguments(lua_State *L, plan *p, const fl_kernel_box *k, int given,
                           fl_sizes *first) {
  first->n = -1;
  for (int i = 0, at = 2, end, taken; i < k->p->nparam; i = end) {
    end = fl_kernel_argument(k, i, &taken);
    if (k->p->hidden[i] && k->p->role[i] == FL_KROLE_IN) hidden_argument(L, p, k, i);
    if (!taken || (i == k->p->omit && given < k->taken)) continue;
    if (k->spread) fl_kernel_check_members(L, k, i, end, at);
    for (int j = i; j < end; j++) read_part(L, p, k, j, at, first);
    at++;
  }
}

/* Makes the outputs, in the order of the signature. Returns how many elements the first one has in
** one launch of a batch; of a pointer to vectors, how many vectors. */
static int64_t make_outputs(lua_State *L, plan *p, const fl_kernel_box *k, const fl_sizes *first) {
  const fl_kfunc *f = k->k->f;
  int made = 0;
  int64_t n = -1;
  if (k->has_shape == FL_KERNEL_SHAPE_EACH && !k->lua_shape) {
    lua_getiuservalue(L, 1, 1);
    lua_getfield(L, -1, "shape");
    p->shapes = lua_gettop(L);
  }
  for (int i = 0; i < k->p->nparam; i++) {
    const fl_kparam *q = &f->params[i];
    if (k->p->hidden[i] && k->p->role[i] == FL_KROLE_OUT) hidden_argument(L, p, k, i);
    if (k->p->hidden[i]) continue;
    if (k->p->role[i] == FL_KROLE_INOUT) {
      add_copy(L, p, i, (int)(p->l.p[FL_KP_ARGS + 2 * i] >> 3));
    } else if (k->p->role[i] == FL_KROLE_OUT) {
      const int dtype = fl_kt_held_as(q->type);
      if (dtype < 0)
        fl_lua_fail(L, p->l.name, "output %s points to %s, which no tensor holds"
                    FL_DO "; use :launch", q->name, q->type_name);
      const fl_sizes shape = fl_kplan_shape(L, p, k, first, made++);
      add_output(L, p, i, dtype, &shape, -1);
      fl_kplan_lengths(L, p, i, &shape);
      if (q->width > 1 && fl_numel_of(&shape) % q->width) fl_lua_fail(L, p->l.name,
          "output %s of %lld element%s is not a multiple of %s", q->name,
          (long long)fl_numel_of(&shape), FL_S(fl_numel_of(&shape)), q->type_name);
    } else continue;
    if (n < 0) n = p->l.out[p->l.nout - 1].bytes / fl_dtype_size(p->l.out[p->l.nout - 1].dtype) /
                   (q->width > 1 ? q->width : 1) / (p->l.batch ? p->l.batch : 1);
  }
  fl_kplan_check_shapes(L, p, k, made);
  if (k->nout == 0)
    fl_lua_fail(L, p->l.name, "it has no outputs (non-const pointers)" FL_DO ": use :launch");
  return n;
}

/* Pushes a table of the n values from 'first' on. */
static void push_list(lua_State *L, int first, int n) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushvalue(L, first + i);
    lua_rawseti(L, -2, i + 1);
  }
}

/* For a gradient that the script computes: kernel_given(kernel, results, arguments, geometry, n,
** rule or nil) makes the tracked results. With 'proof', which checks the gradient against a
** derived rule, that rule is on the stack below the results. */
static int track_given(lua_State *L, const plan *p, int given, int64_t n, int nout, int proof) {
  const int first = lua_gettop(L) - nout + 1;
  luaL_checkstack(L, 12, p->l.name);
  lua_pushvalue(L, 1);
  push_list(L, first, nout);
  push_list(L, 2, given);
  lua_createtable(L, 7, 0);
  for (int i = 0; i < 7; i++) {
    lua_pushinteger(L, p->l.p[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushinteger(L, n);
  if (proof) lua_pushvalue(L, first - 1); else lua_pushnil(L);
  lua_rotate(L, 1, 6);
  lua_settop(L, 6);
  return fl_core_call(L, "kernel_given");
}

/* Makes the launch run the recorder, the kernel that also stores what its atomics return, as one
** more result, which derivatives read. */
static void use_recorder(lua_State *L, plan *p, const fl_kernel_box *k) {
  fl_launch *l = &p->l;
  fl_sizes s = { .n = 1, .at = { k->p->records } };
  for (int i = 0; i < 3; i++)
    if (__builtin_mul_overflow(s.at[0], l->p[FL_KP_GRID + i] * l->p[FL_KP_BLOCK + i], &s.at[0]) ||
        s.at[0] > INT64_MAX / 64)
      fl_lua_fail(L, l->name, "the grid is too large to be differentiated");
  add_output(L, p, k->p->nparam, FLAME_I64, &s, -1);
  l->p[FL_KP_COUNT_ARGS]++;
  l->k = k->p->recorder;
}

/* Sets the number of blocks that hold this many threads. */
static void set_grid(fl_launch *l, const int64_t threads[3]) {
  for (int i = 0; i < 3; i++) {
    const int64_t block = l->p[FL_KP_BLOCK + i];
    l->p[FL_KP_GRID + i] = threads[i] > 0 && block > 0 ? (threads[i] - 1) / block + 1 : 1;
  }
}

/* Sets the geometry for n elements, in blocks of the default size, unless the script has set
** another one. */
static void set_geometry(lua_State *L, plan *p, const fl_kernel_box *k, int64_t n) {
  const int64_t elements[3] = { n, 1, 1 };
  fl_launch_elements(&p->l, n);
  if (k->has_block) memcpy(p->l.p + FL_KP_BLOCK, k->block, sizeof k->block);
  if (k->has_grid) memcpy(p->l.p + FL_KP_GRID, k->grid, sizeof k->grid);
  else set_grid(&p->l, k->has_threads ? k->threads : elements);
  p->l.p[FL_KP_SHARED] = k->shared;
  must(L, fl_launch_check(&p->l));
}

static void unread(lua_State *L, const fl_kernel_box *k) {
  const char *name = k->k->f->params[k->unread_output].name, *op = k->k->f->name;
  if (k->unread_adds)
    fl_lua_fail(L, op, "adds to output '%s' (line %d) which it has not written"
                FL_DO ": write = first, add with atomicAdd, or name it in "
                "inout = {\"%s\"} and give it as an argument", name, k->unread_line, name);
  fl_lua_fail(L, op, "reads output '%s' (line %d) which it has not written"
              FL_DO ": name it in inout = {\"%s\"}", name, k->unread_line, name);
}

/* The kernel for the lengths that are equal in this call, in 'own' if it is another one than k. */
static fl_kernel_box *with_equal(lua_State *L, plan *p, fl_kernel_box *k, fl_kernel_box *own) {
  const fl_kernel_box *equal = fl_kernel_equal(L, k, &p->l);
  if (!equal) return k;
  *own = *k;
  own->p = equal->p;
  own->k = p->l.k = equal->k;
  return own;
}

/* k(…), with batch 0; or all launches of a batch: the arguments in 'each' have a part for each
** launch. */
static int call(lua_State *L, int64_t batch, uint64_t each) {
  fl_lua *b = self_of(L);
  fl_kernel_box *k = fl_arg_kernel(L, 1, "kernel"), own;
  const int given = lua_istable(L, 2) ? fl_kernel_drop_module(L) : lua_gettop(L) - 1;
  fl_sizes first;
  plan p;
  if (k->formed) k = fl_kernel_formed(L, k, 2);
  begin(L, b, &p, k);
  p.l.batch = batch;
  p.each = each;
  need_parameters(L, k);
  count_arguments(L, &p, k, given);
  if (k->unread_output >= 0) unread(L, k);
  if (k->lua_shape || k->lua_grid || k->lua_threads) {
    own = *k;
    k = &own;
    fl_kplan_ask(L, &p, k, given);
  }
  read_arguments(L, &p, k, given, &first);
  const int64_t n = make_outputs(L, &p, k, &first);
  if (k->spread) k = with_equal(L, &p, k, &own);
  if (k->p->omit >= 0 && given < k->taken) {
    const fl_kparam *q = &k->k->f->params[k->p->omit];
    lua_pushinteger(L, n);
    fl_kplan_scalar(L, &p, q, k->p->omit, lua_gettop(L));
    lua_pop(L, 1);
  }
  fl_kernel_choose(L, k, p.l.device, k->has_grid || k->has_threads);
  set_geometry(L, &p, k, n);
  const int tracked = p.tracked && b->c->grad_mode;
  if (tracked && k->p->recorder) use_recorder(L, &p, k);
  make_ready(L, b, &p);
  const int of_script = tracked && k->given;
  fl_krule **proof = of_script && b->c->up->prove ? fl_kernel_push_rule(L) : NULL;
  const int nout = results(L, b, &p, tracked && (proof || !of_script) ? k->p : NULL, proof);
  if (of_script) return track_given(L, &p, given, n, nout, proof && *proof);
  return k->nhidden || k->forms ? fl_kernel_visible(L, k, nout) : nout;
}

int fl_kernel_call(lua_State *L) { return call(L, 0, 0); }

/* (kernel, n, bits, arguments): n launches at once. bits: one for each argument that is an array
** with a first axis of n parts; arrays that are read and written must have it, and results have
** it. */
int fl_kernel_each(lua_State *L) {
  const int64_t batch = luaL_checkinteger(L, 2);
  const uint64_t each = (uint64_t)luaL_checkinteger(L, 3);
  luaL_argcheck(L, batch > 0, 2, "an empty batch");
  lua_remove(L, 3);
  lua_remove(L, 2);
  return call(L, batch, each);
}

/* ---- k:launch(geometry, …) ---- */

static void read_three(lua_State *L, const plan *p, int i, const char *name, int64_t out[3]) {
  out[0] = out[1] = out[2] = 1;
  const char *op = p->l.name;
  if (lua_getfield(L, i, name) == LUA_TNUMBER) out[0] = fl_arg_int(L, lua_gettop(L), op, name);
  else if (lua_istable(L, -1)) {
    for (int k = 0; k < 3; k++) {
      if (lua_geti(L, -1, k + 1) != LUA_TNIL) out[k] = fl_arg_int(L, lua_gettop(L), op, name);
      lua_pop(L, 1);
    }
  } else out[0] = 0;
  lua_pop(L, 1);
}

static void launch_geometry(lua_State *L, plan *p, fl_kernel_box *k) {
  int64_t *grid = p->l.p + FL_KP_GRID, *block = p->l.p + FL_KP_BLOCK, threads[3];
  fl_check_options(L, 2, p->l.name, "grid threads block shared");
  read_three(L, p, 2, "grid", grid);
  const int counted = lua_getfield(L, 2, "threads") != LUA_TNIL;
  lua_pop(L, 1);
  read_three(L, p, 2, "threads", threads);
  read_three(L, p, 2, "block", block);
  if (block[0] == 0) {
    fl_kernel_choose(L, k, p->l.device, 1);
    if (k->has_block) memcpy(block, k->block, sizeof k->block);
    else block[0] = fl_launch_block(k->k->f);
  }
  if (grid[0] && counted) fl_lua_fail(L, p->l.name, "launch: give grid or threads, not both");
  if (counted) set_grid(&p->l, threads);
  else if (grid[0] == 0 && k->has_grid) memcpy(grid, k->grid, sizeof k->grid);
  else if (grid[0] == 0 && k->has_threads) set_grid(&p->l, k->threads);
  if (grid[0] == 0)
    fl_lua_fail(L, p->l.name, "launch needs {grid = …}, how many blocks, or {threads = …}");
  p->l.p[FL_KP_SHARED] = fl_option_int(L, 2, p->l.name, "shared", k->shared);
  must(L, fl_launch_check(&p->l));
}

/* A handle that is written must be neither a view nor tracked. */
static void check_target(lua_State *L, const plan *p, const char *name, const fl_box *x) {
  if (x->t->node->entry)
    fl_lua_fail(L, p->l.name, "%s is tracked: :launch writes in place and is not on the tape"
                FL_DO "; call the kernel, or detach()", name);
  if (x->t->view)
    fl_lua_fail(L, p->l.name, "write to a view made by %s (%s)" FL_DO ": launch with clone() of it",
                              x->t->made_by ? x->t->made_by : "a view function", name);
}

static void launch_pointer(lua_State *L, plan *p, const fl_kernel_box *k, int i, int at,
                           fl_box **target) {
  const fl_kparam *q = &k->k->f->params[i];
  if (k->p->role[i] == FL_KROLE_NONE) return;
  fl_box *x = tensor_arg(L, p, k, i, at);
  const int input = add_input(L, p, x);
  for (int o = 0; o < p->l.nout; o++) {
    if (p->l.out[o].input != input) continue;             /* one handle is one pointer */
    p->l.p[FL_KP_ARGS + 2 * i] = FL_KARG_COPY + 8 * (int64_t)input;
    p->l.p[FL_KP_ARGS + 2 * i + 1] = p->l.out[o].at;
    return;
  }
  fl_launch_input(&p->l, i, input);
  if (q->is_const) return;
  check_target(L, p, q->name, x);
  target[p->l.nout] = x;
  add_copy(L, p, i, input);
  for (int j = 0; j < i; j++) {                         /* the array was passed before, as a const
                                                        ** pointer */
    if (p->l.p[FL_KP_ARGS + 2 * j] != FL_KARG_IN + 8 * (int64_t)input) continue;
    p->l.p[FL_KP_ARGS + 2 * j] = p->l.p[FL_KP_ARGS + 2 * i];
    p->l.p[FL_KP_ARGS + 2 * j + 1] = p->l.p[FL_KP_ARGS + 2 * i + 1];
  }
}

/* Gives the launch parameter i, from the argument at 'at'. */
static void launch_part(lua_State *L, plan *p, const fl_kernel_box *k, int i, int at,
                        fl_box **target) {
  const fl_kparam *q = &k->k->f->params[i];
  if (q->axes && q->axis >= 0) return;
  const int value = fl_kernel_part(L, p->l.name, q, at);
  if (!q->is_pointer && (q->is_struct || q->width > 1)) fl_kplan_struct(L, p, q, i, value);
  else if (!q->is_pointer) fl_kplan_scalar(L, p, q, i, value);
  else {
    fl_sizes s = { .n = q->axes };
    launch_pointer(L, p, k, i, value, target);
    if (k->p->role[i] != FL_KROLE_NONE) sizes_of(box_at(L, value)->t->node, 0, &s);
    fl_kplan_lengths(L, p, i, &s);
  }
  if (value != at) lua_pop(L, 1);
}

static flame_status write_targets(fl_lua *b, plan *p, fl_box **target) {
  fl_node *value[FL_KP_MAX_ARGS];
  const int nout = p->l.nout;
  const flame_status recorded = record(b, p, value);
  if (recorded != FLAME_OK) return recorded;
  if (nout == 1 && !(value[0] = n_copy(value[0]))) return b->c->err.code;
  for (int i = 0; i < nout; i++) {
    if (!target[i]) continue;             /* of a hidden parameter */
    const flame_status e = fl_tensor_write(target[i]->t, value[i], p->l.name);
    if (e != FLAME_OK) return e;
  }
  return FLAME_OK;
}

int fl_kernel_launch(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_kernel_box *k = fl_arg_kernel(L, 1, "launch");
  if (k->formed) k = fl_kernel_formed(L, k, 3);
  plan p;
  fl_box *target[FL_KP_MAX_ARGS] = { NULL };
  const int given = lua_gettop(L) - 2, wanted = k->p->nparam - k->nhidden - k->nlisted;
  begin(L, b, &p, k);
  if (given != wanted)
    return fl_lua_fail(L, p.l.name,
                       "launch: %d argument%s after the geometry, the kernel has %d parameter%s",
                       given < 0 ? 0 : given, FL_S(given), wanted, FL_S(wanted));
  if (!lua_istable(L, 2))
    return fl_lua_fail(L, p.l.name, "launch needs a table {grid = {…}, block = {…}} first, got %s",
                       luaL_typename(L, 2));
  for (int i = 0, at = 3, end, taken; i < k->p->nparam; i = end) {
    end = fl_kernel_argument(k, i, &taken);
    if (k->p->hidden[i]) { hidden_argument(L, &p, k, i); continue; }
    if (k->spread) fl_kernel_check_members(L, k, i, end, at);
    for (int j = i; j < end; j++) launch_part(L, &p, k, j, at, target);
    at++;
  }
  launch_geometry(L, &p, k);
  if (k->nout == 0)
    return fl_lua_fail(L, p.l.name, "launch: no parameter is written (all pointers are const)");
  make_ready(L, b, &p);
  const int64_t m = fl_lua_enter(L, b);
  fl_lua_leave_status(L, b, m, write_targets(b, &p, target));
  return fl_kernel_push_targets(L, 3, wanted, target, p.l.nout);
}

/* ---- internal.kernel_run(kernel, elements, kinds, values): for a vjp in CUDA C ---- */
/* One thread per element. kinds: a letter for each parameter: i input; o output, which begins as
** zeros (the value gives its sizes); v scalar; s struct. */
static void run_argument(lua_State *L, plan *p, const fl_kernel_box *k, int i, char kind) {
  const fl_kparam *q = &k->k->f->params[i];
  const int at = lua_gettop(L);
  fl_sizes s;
  switch (kind) {
    case 'i': {
      fl_box *x = tensor_arg(L, p, k, i, at);
      if (x->t->node->entry) p->tracked = 1;
      fl_launch_input(&p->l, i, add_input(L, p, x));
      return;
    }
    case 'o':
      fl_arg_sizes(L, at, at, p->l.name, 0, &s);
      add_output(L, p, i, fl_kt_held_as(q->type), &s, -1);
      return;
    case 'v': fl_kplan_scalar(L, p, q, i, at); return;
    default: fl_kplan_struct(L, p, q, i, at);
  }
}

int fl_kernel_run(lua_State *L) {
  fl_lua *b = self_of(L);
  const fl_kernel_box *k = fl_arg_kernel(L, 1, "kernel");
  const char *kinds = luaL_checkstring(L, 3);
  plan p;
  begin(L, b, &p, k);
  luaL_checktype(L, 4, LUA_TTABLE);
  luaL_argcheck(L, (int)strlen(kinds) == k->p->nparam, 3, "one letter a parameter");
  fl_launch_elements(&p.l, luaL_checkinteger(L, 2));
  must(L, fl_launch_check(&p.l));
  for (int i = 0; i < k->p->nparam; i++) {
    lua_settop(L, 4);
    lua_geti(L, 4, i + 1);
    run_argument(L, &p, k, i, kinds[i]);
  }
  make_ready(L, b, &p);
  return results(L, b, &p, p.tracked && b->c->grad_mode ? k->p : NULL, NULL);
}
