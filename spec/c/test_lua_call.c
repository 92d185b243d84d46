/*
** flame_call, flame_method and kernels from C, which run in a hidden Lua state: values in both
** directions, axes counted from 0, objects that outlive their context, wrong arguments, limits, an
** interrupt, and memory that runs out at any allocation.
*/
#include "engine/engine.h"
#include "lua/flame_lua.h"
#include <lauxlib.h>
#include <lualib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static int passed, failed;
static const char *now = "";

#define CHECK(x) check((x) != 0, #x, __LINE__)
static void check(int ok, const char *text, int line) {
  if (ok) passed++; else failed++;
  if (!ok) printf("test_lua_call.c:%d: %s: %s\n", line, now, text);
}

#define INT(v) { .kind = FLAME_INTEGER, .as.i = (v) }
#define NUM(v) { .kind = FLAME_NUMBER, .as.n = (v) }
#define STR(v) { .kind = FLAME_STRING, .as.s = (v) }
#define TENSOR(v) { .kind = FLAME_TENSOR, .as.t = (v) }
#define OBJECT(v) { .kind = FLAME_OBJECT, .as.o = (v) }
#define LIST(n, v) { .kind = FLAME_LIST, .count = (n), .as.list = (v) }
#define NAMED(key, k, field, v) { .name = (key), .kind = (k), .as.field = (v) }
enum { ROOM = 8 };

static flame_value result[ROOM];

#define ARGS(...) \
  (int)(sizeof((flame_value[]){ __VA_ARGS__ }) / sizeof(flame_value)), \
  (flame_value[]){ __VA_ARGS__ }

static flame_context *open_context(void) {
  return flame_open(FLAME_OPTIONS(.device = "cpu", .threads = 1));
}

static flame_tensor *ramp(flame_context *c, int rows, int cols) {
  float v[64];
  for (int k = 0; k < rows * cols; k++) v[k] = (float)k;
  return flame_from_data(c, FLAME_F32, 2, (int64_t[]){ rows, cols }, v);
}

/* The only element of the tensor in *r, or NaN if *r is no such tensor; frees *r. */
static double number_in(flame_value *r) {
  double v = NAN;
  if (r->kind == FLAME_TENSOR && flame_item(r->as.t, &v) != FLAME_OK) v = NAN;
  flame_values_free(1, r);
  return v;
}

/* Checks that the call fails with exactly this message and returns nothing. */
#define REFUSED(call, text) refused((call), (text), c, __LINE__)
static void refused(flame_status e, const char *text, flame_context *c, int line) {
  const int ok = e != FLAME_OK && e == flame_error_code(c) && !strcmp(flame_error(c), text) &&
                 result[0].kind == FLAME_NIL;
  if (!ok) printf("  status %d \"%s\"\n", (int)e, flame_error(c));
  check(ok, text, line);
  flame_clear_error(c);
}

/* ---- values -------------------------------------------------------------------------------- */

static void functions_take_and_give_values(flame_context *c) {
  flame_tensor *x = ramp(c, 2, 3);
  CHECK(flame_call(c, "sum", ARGS(TENSOR(x)), 1, result) == FLAME_OK);
  CHECK(number_in(result) == 15);
  CHECK(flame_call(c, "full", ARGS(LIST(2, ((flame_value[]){ INT(2), INT(2) })), NUM(0.5),
                                   NAMED("dtype", FLAME_STRING, s, "f64")), 1, result) == FLAME_OK);
  CHECK(flame_dtype_of(result->as.t) == FLAME_F64 && flame_numel(result->as.t) == 4);
  flame_values_free(1, result);
  CHECK(flame_call(c, "version", 0, NULL, 1, result) == FLAME_OK && result->kind == FLAME_STRING);
  CHECK(result->count == strlen(FLAME_VERSION) && !strcmp(result->as.s, FLAME_VERSION));
  CHECK(flame_call(c, "is_tensor", ARGS(TENSOR(x)), 3, result) == FLAME_OK);
  CHECK(result[0].kind == FLAME_BOOLEAN && result[0].as.i == 1 && result[2].kind == FLAME_NIL);
  CHECK(flame_call(c, "cat", ARGS(LIST(2, ((flame_value[]){ TENSOR(x), TENSOR(x) })), INT(1)), 1,
                   result) == FLAME_OK);
  CHECK(flame_size(result->as.t, 0) == 2 && flame_size(result->as.t, 1) == 6);
  flame_values_free(1, result);
  flame_tensor *two = flame_number(c, 2);
  CHECK(flame_call(c, "mul", ARGS(TENSOR(x), TENSOR(two)), 1, result) == FLAME_OK);
  CHECK(flame_dtype_of(result->as.t) == FLAME_F32);
  flame_values_free(1, result);
  CHECK(flame_call(c, "stats", 0, NULL, 1, result) == FLAME_OK && result->kind == FLAME_LIST);
  int64_t plans = -1;
  for (size_t i = 0; i < result->count; i++)
    if (!strcmp(result->as.list[i].name, "plans")) plans = result->as.list[i].as.i;
  CHECK(plans > 0);
  flame_free(x), flame_free(two);
}

/* A function of Lua that returns its argument returns the same handle to C. */
static void tensors_stay_the_same_handle(flame_context *c) {
  flame_tensor *x = ramp(c, 2, 3);
  CHECK(flame_call(c, "nn.Parameter", ARGS(TENSOR(x)), 1, result) == FLAME_OK);
  CHECK(result->as.t == x);
  flame_values_free(1, result);
  CHECK(flame_call(c, "fill_", ARGS(TENSOR(x), NUM(3)), 1, result) != FLAME_OK);  /* a leaf */
  flame_clear_error(c);
  const int mode = flame_grad_mode(c, 0);
  CHECK(flame_call(c, "fill_", ARGS(TENSOR(x), NUM(3)), 1, result) == FLAME_OK);
  flame_grad_mode(c, mode);
  flame_values_free(1, result);
  float v[6];
  CHECK(flame_read(x, v, sizeof v) == FLAME_OK && v[0] == 3 && v[5] == 3);
  flame_free(x);
}

static void axes_count_from_0(flame_context *c) {
  flame_tensor *x = ramp(c, 2, 3);
  CHECK(flame_call(c, "sum", ARGS(TENSOR(x), INT(0)), 1, result) == FLAME_OK);
  CHECK(flame_size(result->as.t, 0) == 3);
  flame_values_free(1, result);
  CHECK(flame_call(c, "sum", ARGS(TENSOR(x), INT(-2)), 1, result) == FLAME_OK);
  CHECK(flame_size(result->as.t, 0) == 3);
  flame_values_free(1, result);
  CHECK(flame_call(c, "sum", ARGS(TENSOR(x), NAMED("dim", FLAME_INTEGER, i, 1)), 1, result) ==
        FLAME_OK || flame_error_code(c) == FLAME_BAD_ARGUMENT);
  flame_values_free(1, result);
  flame_clear_error(c);
  flame_value both[] = { INT(1), INT(0) };
  CHECK(flame_call(c, "permute", ARGS(TENSOR(x), INT(1), INT(0)), 1, result) == FLAME_OK);
  CHECK(flame_size(result->as.t, 0) == 3);
  flame_values_free(1, result);
  CHECK(flame_call(c, "permute", ARGS(TENSOR(x), LIST(2, both)), 1, result) == FLAME_OK);
  CHECK(flame_size(result->as.t, 0) == 3 && both[0].as.i == 1);
  flame_values_free(1, result);
  CHECK(flame_call(c, "softmax", ARGS(TENSOR(x), NUM(1)), 1, result) == FLAME_OK);
  flame_values_free(1, result);
  REFUSED(flame_call(c, "sum", ARGS(TENSOR(x), INT(2)), 1, result),
          "sum: axis 2 is out of range, the tensor has 2 axes (0 to 1, or -1 to -2)");
  REFUSED(flame_call(c, "permute", ARGS(TENSOR(x), INT(0), INT(0)), 1, result),
          "permute: axis 0 is named twice");
  REFUSED(flame_call(c, "cumsum", ARGS(TENSOR(x), INT(-3)), 1, result),
          "cumsum: axis -3 is out of range, the tensor has 2 axes (0 to 1, or -1 to -2)");
  REFUSED(flame_call(c, "topk", ARGS(TENSOR(x), INT(4), INT(1)), 1, result),
          "topk: k = 4, axis 1 has 3 elements");
  REFUSED(flame_call(c, "movedim", ARGS(TENSOR(x), LIST(2, ((flame_value[]){ INT(0), INT(0) })),
                                        LIST(2, both)), 1, result),
          "movedim: axis 0 is named twice");
  flame_free(x);
}

static void arguments_are_checked_by_declarations(flame_context *c, flame_context *other) {
  flame_tensor *x = ramp(c, 2, 3), *foreign = ramp(other, 2, 3);
  REFUSED(flame_call(c, "softmx", ARGS(TENSOR(x)), 1, result),
          "softmx: flame has no 'softmx'; did you mean 'softmax'?");
  REFUSED(flame_call(c, "nn.Lineer", ARGS(INT(1), INT(2)), 1, result),
          "nn.Lineer: nn has no 'Lineer'; did you mean 'Linear'?");
  REFUSED(flame_call(c, "", 0, NULL, 1, result), "call: there is no function ''");
  REFUSED(flame_call(c, "nn..x", 0, NULL, 1, result), "call: there is no function 'nn..x'");
  REFUSED(flame_call(c, "version.x.y", 0, NULL, 1, result),
          "call: there is no function 'version.x.y'");
  REFUSED(flame_call(c, NULL, 0, NULL, 1, result), "call: the function's name is NULL");
  REFUSED(flame_call(c, "version", ARGS(INT(1)), 1, result),
          "version: is a string and no function: it takes no arguments");
  REFUSED(flame_call(c, "exp", ARGS(TENSOR(NULL)), 1, result), "exp: a tensor is NULL");
  REFUSED(flame_call(c, "exp", ARGS(TENSOR(foreign)), 1, result),
          "exp: a tensor belongs to another context");
  REFUSED(flame_call(c, "exp", ARGS(OBJECT(NULL)), 1, result), "exp: an object is NULL");
  REFUSED(flame_call(c, "exp", ARGS(STR(NULL)), 1, result), "exp: a string is NULL");
  REFUSED(flame_call(c, "exp", ARGS(LIST(3, NULL)), 1, result), "exp: a list of 3 values is NULL");
  REFUSED(flame_call(c, "exp", ARGS({ .kind = (flame_kind)77 }), 1, result),
          "exp: a value has the kind 77, need FLAME_NIL to FLAME_OBJECT");
  REFUSED(flame_call(c, "exp", 1, NULL, 1, result), "exp: 1 arguments without a list of them");
  REFUSED(flame_call(c, "exp", -1, NULL, 1, result), "exp: -1 arguments and 1 results");
  CHECK(flame_call(c, "exp", ARGS(TENSOR(x)), 2, NULL) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
  CHECK(flame_call(c, "linear", ARGS(TENSOR(x), INT(3)), 1, result) == FLAME_BAD_ARGUMENT);
  CHECK(strstr(flame_error(c), "linear: ") == flame_error(c));
  flame_clear_error(c);
  CHECK(flame_call(c, "softmax", ARGS(TENSOR(x), INT(1), NAMED("dtipe", FLAME_STRING, s, "f64")), 1,
                   result) == FLAME_BAD_ARGUMENT && strstr(flame_error(c), "'dtipe'"));
  flame_clear_error(c);
  REFUSED(flame_call(c, "sum", ARGS(TENSOR(x), NAMED("dim", FLAME_INTEGER, i, 0),
                                    NAMED("dim", FLAME_INTEGER, i, 1)), 1, result),
          "sum: dim is given twice");
  CHECK(flame_call(NULL, "exp", 0, NULL, 1, result) == FLAME_BAD_ARGUMENT);
  /* there is room for no results: it is not returned */
  CHECK(flame_call(c, "exp", ARGS(TENSOR(x)), 0, NULL) == FLAME_OK);
  flame_free(x), flame_free(foreign);
}

static void the_first_error_is_kept(flame_context *c) {
  flame_tensor *x = ramp(c, 2, 3);
  CHECK(flame_softmax(x, 7) == NULL);
  CHECK(flame_call(c, "sum", ARGS(TENSOR(x)), 1, result) == FLAME_OK && number_in(result) == 15);
  CHECK(flame_call(c, "cumsum", ARGS(TENSOR(x), INT(4)), 1, result) == FLAME_BAD_ARGUMENT);
  REFUSED(FLAME_BAD_ARGUMENT, "softmax: axis 7 is out of range for shape (2, 3)");
  flame_free(x);
}

/* ---- objects ------------------------------------------------------------------------------- */

static flame_object *object(flame_context *c, const char *name, int n, const flame_value *arg) {
  return flame_call(c, name, n, arg, 1, result) == FLAME_OK && result->kind == FLAME_OBJECT
         ? result->as.o : NULL;
}

/* A network learns y = 2 x1 - x2 with modules and an optimiser. */
static void modules_and_optimisers_train(flame_context *c) {
  flame_seed(c, 3);
  flame_object *net = object(c, "nn.Linear", ARGS(INT(2), INT(1)));
  CHECK(net && flame_object_context(net) == c);
  flame_value params;
  CHECK(flame_method(net, "parameters", 0, NULL, 1, &params) == FLAME_OK &&
        params.kind == FLAME_LIST && params.count == 2);
  flame_object *opt = object(c, "optim.Adam", ARGS(params, NAMED("lr", FLAME_NUMBER, n, 0.1)));
  CHECK(opt != NULL);
  double first = NAN, last = NAN;
  for (int step = 0; step < 150; step++) {
    flame_tensor *x = flame_normal(c, FLAME_F32, 2, (int64_t[]){ 16, 2 }, 0, 1);
    flame_tensor *a = flame_slice(x, 1, 0, 1, 1), *b = flame_slice(x, 1, 1, 1, 1);
    flame_tensor *y = flame_add(a, a), *t = flame_sub(y, b);
    flame_value out, loss;
    CHECK(flame_method(net, NULL, ARGS(TENSOR(x)), 1, &out) == FLAME_OK);
    CHECK(flame_call(c, "mse_loss", ARGS(out, TENSOR(t)), 1, &loss) == FLAME_OK);
    CHECK(flame_method(opt, "zero_grad", 0, NULL, 0, NULL) == FLAME_OK);
    CHECK(flame_backward(loss.as.t, NULL) == FLAME_OK);
    CHECK(flame_method(opt, "step", 0, NULL, 0, NULL) == FLAME_OK);
    flame_values_free(1, &out);
    last = number_in(&loss);
    if (step == 0) first = last;
    flame_tensor *all[] = { x, a, b, y, t };
    for (int k = 0; k < 5; k++) flame_free(all[k]);
  }
  CHECK(first > 0.5 && last < 0.01);
  flame_object_free(opt), flame_object_free(net);
}

static void fields_are_read_and_set(flame_context *c, flame_context *other) {
  flame_object *net = object(c, "nn.Dropout", ARGS(NUM(0.25)));
  CHECK(flame_method(net, "p", 0, NULL, 1, result) == FLAME_OK && result->as.n == 0.25);
  CHECK(flame_method(net, "p", ARGS(NUM(0.5)), 1, result) == FLAME_OK &&
        result->kind == FLAME_NIL);
  CHECK(flame_method(net, "p", 0, NULL, 1, result) == FLAME_OK && result->as.n == 0.5);
  CHECK(flame_method(net, "training", 0, NULL, 1, result) == FLAME_OK && result->as.i == 1);
  CHECK(flame_method(net, "eval", 0, NULL, 1, result) == FLAME_OK && result->kind == FLAME_OBJECT);
  flame_values_free(1, result);
  REFUSED(flame_method(net, "parametres", 0, NULL, 1, result),
          "parametres: the object has no such method or field");
  CHECK(flame_method(NULL, "p", 0, NULL, 1, result) == FLAME_BAD_ARGUMENT);
  CHECK(flame_call(other, "nn.Sequential", ARGS(OBJECT(net)), 1, result) == FLAME_BAD_ARGUMENT);
  CHECK(strstr(flame_error(other), "the object is of another context"));
  flame_clear_error(other);
  CHECK(flame_call(c, "nn.Sequential", ARGS(OBJECT(net)), 1, result) == FLAME_OK);
  flame_values_free(1, result);
  flame_object_free(net);
  flame_object_free(NULL);
  CHECK(flame_object_context(NULL) == NULL);
  flame_values_free(1, NULL);
}

static void objects_outlive_their_context(void) {
  flame_context *c = open_context();
  flame_object *net = object(c, "nn.Linear", ARGS(INT(2), INT(1)));
  flame_value params;
  CHECK(flame_method(net, "parameters", 0, NULL, 1, &params) == FLAME_OK);
  flame_tensor *w = params.as.list[0].as.t, *b = params.as.list[1].as.t;
  flame_close(c);
  CHECK(flame_object_context(net) == NULL);
  CHECK(flame_method(net, NULL, 0, NULL, 1, result) == FLAME_BAD_ARGUMENT);
  CHECK(flame_ndim(w) == -1);
  flame_object_free(net);
  flame_free(w), flame_free(b);
}

/* ---- one state for a context --------------------------------------------------------------- */

static void a_state_answers_for_its_own_context(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "flame", luaopen_flame, 1);
  flame_context *c = flame_lua_context(L);
  flame_tensor *x = ramp(c, 2, 3);
  const int top = lua_gettop(L);
  CHECK(flame_call(c, "sum", ARGS(TENSOR(x), INT(0)), 1, result) == FLAME_OK);
  flame_lua_push(L, result->as.t);
  lua_setglobal(L, "s");
  flame_values_free(1, result);
  CHECK(luaL_dostring(L, "assert(s.shape[1] == 3 and not pcall(flame.sum, s, 2))") == LUA_OK);
  CHECK(luaL_dostring(L, "return select(2, pcall(flame.sum, s, 4))") == LUA_OK &&
        strstr(lua_tostring(L, -1), "axis 4 is out of range"));
  lua_settop(L, top);
  REFUSED(flame_call(c, "sum", ARGS(TENSOR(x), INT(2)), 1, result),
          "sum: axis 2 is out of range, the tensor has 2 axes (0 to 1, or -1 to -2)");
  CHECK(lua_gettop(L) == top);
  flame_object *net = object(c, "nn.Linear", ARGS(INT(2), INT(1)));
  lua_close(L);
  CHECK(flame_object_context(net) == NULL);
  flame_object_free(net);
  flame_free(x);
}

static flame_status call_inside(flame_context *c, void *arg, flame_tensor *const *in,
                                flame_tensor **out) {
  flame_value r = { .kind = FLAME_NIL };
  (void)arg;
  const flame_status e = flame_call(c, "tanh", ARGS(TENSOR(in[0])), 1, &r);
  if (e == FLAME_OK) out[0] = r.as.t;
  return e;
}

static void calls_go_on_in_callbacks(flame_context *c) {
  flame_tensor *x = ramp(c, 1, 1), *y = NULL;
  CHECK(flame_apply(c, FLAME_FUNCTION(.name = "inside", .nin = 1, .nout = 1,
                                      .forward = call_inside), &x, &y) == FLAME_OK);
  double v = NAN;
  CHECK(flame_item(y, &v) == FLAME_OK && v == 0);
  flame_free(x), flame_free(y);
}

/* ---- limits -------------------------------------------------------------------------------- */

static void limits_hold_for_the_hidden_state(void) {
  flame_context *c = flame_open(FLAME_OPTIONS(.device = "cpu", .threads = 1,
                                              .limit[FLAME_LUA_STEPS] = 100000));
  flame_status e = FLAME_OK;
  for (int i = 0; i < 400 && e == FLAME_OK; i++) {
    e = flame_call(c, "nn.Linear", ARGS(INT(4), INT(4)), 1, result);
    flame_values_free(1, result);
  }
  CHECK(e == FLAME_INTERRUPTED && strstr(flame_error(c), "instructions of Lua is used up"));
  flame_clear_error(c);
  CHECK(flame_call(c, "version", 0, NULL, 1, result) == FLAME_INTERRUPTED);
  flame_limit_restart(c);
  flame_clear_error(c);
  CHECK(flame_call(c, "version", 0, NULL, 1, result) == FLAME_OK);
  flame_close(c);
}

/* Calls with ever larger limits of host memory: while it is too small there must be an error, and
** no leak; with enough of it the calls succeed. */
static void memory_runs_out_anywhere(void) {
  int refused = 0, got = 0;
  for (int64_t most = 40 << 10; most < 24 << 20; most += most / 12) {
    flame_context *c = flame_open(FLAME_OPTIONS(.device = "cpu", .threads = 1));
    flame_limit_set(c, FLAME_HOST_BYTES, most);
    flame_tensor *x = ramp(c, 2, 3);
    flame_status e = x ? flame_call(c, "nn.Linear", ARGS(INT(3), INT(2)), 1, result)
                       : flame_error_code(c);
    flame_object *net = result->as.o;
    flame_value out = { .kind = FLAME_NIL };
    if (e == FLAME_OK) {
      e = flame_method(net, NULL, ARGS(TENSOR(x)), 1, &out);
      float v[4];
      if (e == FLAME_OK) e = flame_read(out.as.t, v, sizeof v);
      flame_object_free(net);
    }
    flame_values_free(1, &out);
    CHECK(e == FLAME_OK || e == FLAME_NO_MEMORY);
    if (e != FLAME_OK && e != FLAME_NO_MEMORY) printf("  %d %s\n", e, flame_error(c));
    if (e == FLAME_OK) got++; else refused++;
    flame_free(x);
    flame_close(c);
  }
  CHECK(refused > 10 && got > 3);
}

/* Calls functions and methods while the k-th allocation of the context fails; 0 if there are fewer
** than k. */
static int survives(flame_context *c, int64_t k) {
  flame_tensor *x = ramp(c, 2, 3);
  CHECK(flame_call(c, "version", 0, NULL, 1, result) == FLAME_OK);
  const int64_t calls = c->mem.calls;
  c->mem.fail_at = calls + k;
  flame_status e = flame_call(c, "nn.Linear", ARGS(INT(3), INT(2)), 1, result);
  flame_value net = result[0], out = { .kind = FLAME_NIL }, list = { .kind = FLAME_NIL };
  if (e == FLAME_OK) e = flame_method(net.as.o, NULL, ARGS(TENSOR(x)), 1, &out);
  if (e == FLAME_OK) e = flame_method(net.as.o, "parameters", 0, NULL, 1, &list);
  float v[4];
  if (e == FLAME_OK) e = flame_read(out.as.t, v, sizeof v);
  const int reached = c->mem.calls >= calls + k;
  c->mem.fail_at = 0;
  CHECK(e == FLAME_OK || e == FLAME_NO_MEMORY);
  if (e != FLAME_OK && e != FLAME_NO_MEMORY) printf("  %d %s\n", e, flame_error(c));
  CHECK(reached || e == FLAME_OK);
  flame_values_free(1, &list), flame_values_free(1, &out), flame_values_free(1, &net);
  flame_clear_error(c);
  CHECK(flame_call(c, "sum", ARGS(TENSOR(x)), 1, result) == FLAME_OK && number_in(result) == 15);
  flame_free(x);
  return reached;
}

/* Tries each k in a new context, since a context that was used has cached objects and allocates
** less. Of the larger k only some are tried. */
static void every_allocation_fails_once(void) {
  int64_t k = 1;
  for (int more = 1; more && k < 3000; k += 1 + k / 12) {
    flame_context *c = open_context();
    more = survives(c, k);
    flame_close(c);
  }
  CHECK(k > 30 && k < 3000);
}

/* ---- kernels ------------------------------------------------------------------------------- */

static const char twice[] = "__global__ void twice(const float *x, float *y, int n) {\n"
  "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
  "  if (i < n) y[i] = 2 * x[i] * x[i];\n}\n"
  "__global__ void none(const float *x, float *y, int n) { }\n";

static void kernels_run_with_gradients(flame_context *c) {
  flame_value block = LIST(1, ((flame_value[]){ INT(64) }));
  block.name = "block";
  flame_kernel *k = flame_kernel_open(c, twice, "twice", 1, &block);
  flame_tensor *x = ramp(c, 2, 3), *y = NULL;
  float g[6];
  CHECK(k && flame_requires_grad(x, 1) == FLAME_OK);
  CHECK(flame_kernel_run(k, NULL, NULL, ARGS(TENSOR(x)), 1, &y) == FLAME_OK);
  flame_tensor *s = flame_sum_all(y);
  CHECK(flame_backward(s, NULL) == FLAME_OK);
  flame_tensor *d = flame_grad_of(x);
  CHECK(flame_read(d, g, sizeof g) == FLAME_OK && g[1] == 4 && g[5] == 20);
  flame_free(y);
  CHECK(flame_kernel_run(k, (int64_t[]){ 1, 1, 1 }, (int64_t[]){ 4, 1, 1 },
                         ARGS(TENSOR(x), INT(6)), 1, &y) == FLAME_OK);
  CHECK(flame_read(y, g, sizeof g) == FLAME_OK && g[3] == 18 && g[4] == 0);   /* 4 threads */
  CHECK(!strcmp(flame_kernel_param(k, 0), "const float *x: in") && !flame_kernel_param(k, 3));
  CHECK(flame_kernel_param(k, -1) == NULL && flame_kernel_param(NULL, 0) == NULL);
  CHECK(strstr(flame_kernel_source(k, NULL), "void twice("));
  CHECK(strstr(flame_kernel_source(k, "adjoint"), "__global__"));
  CHECK(flame_kernel_source(k, "nonsense") == NULL && flame_error_code(c) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
  flame_tensor *all[] = { x, y, s, d };
  for (int i = 0; i < 4; i++) flame_free(all[i]);
  flame_kernel_free(k);
}

static void kernels_take_nil(flame_context *c) {
  static const char text[] = "__global__ void k(float *a, const float *x, const float *b, float *y, "
    "int n) {\n  int i = threadIdx.x;\n  if (i >= n) return;\n  if (a) a[i] += 1;\n"
    "  y[i] = (a ? a[i] : 0.f) + (b != nullptr ? x[i] * b[i] : x[i] * x[i]);\n}\n";
  flame_value name = { .kind = FLAME_STRING, .as.s = "a" }, inout = LIST(1, &name);
  inout.name = "inout";
  flame_kernel *k = flame_kernel_open(c, text, NULL, 1, &inout);
  flame_tensor *x = ramp(c, 2, 3), *y[2];
  float g[6];
  const flame_value nil = { .kind = FLAME_NIL };
  CHECK(k && flame_requires_grad(x, 1) == FLAME_OK);
  CHECK(flame_kernel_run(k, NULL, NULL, ARGS(nil, TENSOR(x), nil), 2, y) == FLAME_OK);
  CHECK(y[0] == NULL && flame_read(y[1], g, sizeof g) == FLAME_OK && g[5] == 25);
  flame_tensor *s = flame_sum_all(y[1]);
  CHECK(flame_backward(s, NULL) == FLAME_OK);
  flame_tensor *d = flame_grad_of(x);
  CHECK(flame_read(d, g, sizeof g) == FLAME_OK && g[1] == 2 && g[5] == 10);
  CHECK(flame_kernel_run(k, NULL, NULL, ARGS(nil, nil, nil), 2, y) == FLAME_BAD_ARGUMENT);
  CHECK(strstr(flame_error(c), "x must be a tensor, got nil, and the kernel never asks"));
  flame_clear_error(c);
  flame_tensor *all[] = { x, y[1], s, d };
  for (int i = 0; i < 4; i++) flame_free(all[i]);
  flame_kernel_free(k);
}

static void kernels_are_checked(flame_context *c) {
  flame_value odd = INT(3);
  result[0].kind = FLAME_NIL;
  flame_tensor *x = ramp(c, 2, 3), *y[2];
  CHECK(flame_kernel_open(c, NULL, NULL, 0, NULL) == NULL);
  REFUSED(FLAME_BAD_ARGUMENT, "kernel: the source is NULL");
  CHECK(flame_kernel_open(c, twice, "twice", 1, &odd) == NULL);
  REFUSED(FLAME_BAD_ARGUMENT, "kernel: option 0 has no name");
  CHECK(flame_kernel_open(c, twice, "twice", 1, NULL) == NULL);
  REFUSED(FLAME_BAD_ARGUMENT, "kernel: 1 options without a list of them");
  CHECK(flame_kernel_open(c, "__global__ void k(", NULL, 0, NULL) == NULL &&
        flame_error_code(c) != FLAME_OK);
  flame_clear_error(c);
  CHECK(flame_kernel_open(NULL, twice, NULL, 0, NULL) == NULL);
  flame_kernel *k = flame_kernel_open(c, twice, "twice", 0, NULL);
  CHECK(flame_kernel_run(k, NULL, NULL, ARGS(TENSOR(x)), 2, y) == FLAME_BAD_ARGUMENT && !y[0]);
  REFUSED(FLAME_BAD_ARGUMENT, "kernel: it has 1 results, room for 2");
  CHECK(flame_kernel_run(k, NULL, (int64_t[]){ 2000, 1, 1 }, ARGS(TENSOR(x)), 1, y) ==
        FLAME_BAD_ARGUMENT);
  CHECK(strstr(flame_error(c), "block.x = 2000, need 1 to 1024"));
  flame_clear_error(c);
  CHECK(flame_kernel_run(k, NULL, NULL, ARGS(INT(1)), 1, y) == FLAME_BAD_ARGUMENT && !y[0]);
  CHECK(strstr(flame_error(c), "x must be a tensor"));
  flame_clear_error(c);
  CHECK(flame_kernel_run(k, NULL, NULL, 1, NULL, 1, y) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
  CHECK(flame_kernel_run(NULL, NULL, NULL, 0, NULL, 1, y) == FLAME_BAD_ARGUMENT && !y[0]);
  flame_kernel_free(k);
  flame_kernel_free(NULL);
  flame_free(x);
}

static void fail_later(flame_context *c, int64_t k, int forever) {
  c->mem.fail_at = c->mem.calls + k;
  c->mem.fail_forever = forever;
}

/* Reads, runs and describes a kernel. from 0: the k-th allocation fails; 1: the k-th and all later
** ones fail from the description of its parameter on; 2: from the text of its adjoint on. */
static int kernel_survives(int64_t k, int from) {
  flame_context *c = open_context();
  flame_tensor *x = ramp(c, 2, 2), *y = NULL;
  if (from == 0) fail_later(c, k, 0);
  flame_kernel *f = flame_kernel_open(c, twice, "twice", 0, NULL);
  flame_status e = f ? flame_kernel_run(f, NULL, NULL, ARGS(TENSOR(x)), 1, &y)
                     : flame_error_code(c);
  if (from == 1) fail_later(c, k, 1);
  if (e == FLAME_OK && !flame_kernel_param(f, 0)) e = flame_error_code(c);
  if (from == 2) fail_later(c, k, 1);
  if (e == FLAME_OK && !flame_kernel_source(f, "adjoint")) e = flame_error_code(c);
  float v[4];
  if (e == FLAME_OK) e = flame_read(y, v, sizeof v);
  const int reached = c->mem.calls >= c->mem.fail_at;
  c->mem.fail_at = 0;
  CHECK(reached ? e == FLAME_OK || e == FLAME_NO_MEMORY : e == FLAME_OK && v[3] == 18);
  if (e != FLAME_OK && e != FLAME_NO_MEMORY) printf("  %d %s\n", e, flame_error(c));
  flame_free(y), flame_free(x);
  flame_kernel_free(f);
  flame_close(c);
  return reached;
}

static void kernels_survive(void) {
  for (int from = 0; from < 3; from++) {
    int64_t k = 1;
    while (k < 6000 && kernel_survives(k, from)) k += 1 + k / 12;
    CHECK(k > 1 && k < 6000);
  }
}

int main(void) {
  flame_context *c = open_context(), *other = open_context();
  now = "functions", functions_take_and_give_values(c);
  now = "handles", tensors_stay_the_same_handle(c);
  now = "axes", axes_count_from_0(c);
  now = "arguments", arguments_are_checked_by_declarations(c, other);
  now = "first error", the_first_error_is_kept(c);
  now = "training", modules_and_optimisers_train(c);
  now = "fields", fields_are_read_and_set(c, other);
  now = "outliving", objects_outlive_their_context();
  now = "own state", a_state_answers_for_its_own_context();
  now = "callbacks", calls_go_on_in_callbacks(c);
  now = "kernels", kernels_run_with_gradients(c), kernels_take_nil(c);
  kernels_are_checked(c), kernels_survive();
  flame_values_free(1, NULL);
  now = "limits", limits_hold_for_the_hidden_state();
  now = "memory", memory_runs_out_anywhere();
  now = "allocations", every_allocation_fails_once();
  flame_close(c);
  flame_close(other);
  printf("test_lua_call: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
