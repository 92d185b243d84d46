/*
** flame_apply: functions of a host program with their own backward. Tests values, first and second
** gradients, how often each callback runs, who frees what, and what a callback may not do.
*/
#include "autograd/autograd.h"
#include "engine/engine.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static int passed, failed;
static const char *now;

#define CHECK(x) check((x) != 0, #x, __LINE__)
static void check(int ok, const char *text, int line) {
  if (ok) passed++; else failed++;
  if (!ok) printf("test_apply.c:%d: %s: %s\n", line, now, text);
}

/* The callbacks' state: how often each was called, and which mistake they are to make. */
typedef struct note {
  int forwards, backwards, releases;
  int mistake;
  flame_context *other;   /* ALIEN: of the wrong result; or what release_free tries to close */
  flame_tensor *mine;                                                   /* release_free frees it */
} note;

static void release(void *arg) { ((note *)arg)->releases++; }

static flame_tensor *of(flame_context *c, int n, const double *v) {
  return flame_from_data(c, FLAME_F64, 1, (int64_t[]){ n }, v);
}

static flame_tensor *leaf(flame_context *c, int n, const double *v) {
  flame_tensor *x = of(c, n, v);
  if (x && flame_requires_grad(x, 1) != FLAME_OK) flame_free(x), x = NULL;
  return x;
}

static double first(flame_tensor *x) {
  double v[8];
  const int64_t n = flame_numel(x);
  return x && n <= 8 && flame_read(x, v, (size_t)n * 8) == FLAME_OK ? v[0] : NAN;
}

static double take(flame_tensor *x) {
  const double v = first(x);
  flame_free(x);
  return v;
}

static int says(flame_context *c, const char *text) {
  const int ok = strcmp(flame_error(c), text) == 0;
  if (!ok) printf("  the error is '%s'\n", flame_error(c));
  flame_clear_error(c);
  return ok;
}

/* ---- x to x^3 ------------------------------------------------------------------------------- */

static flame_status cube(flame_context *c, void *arg, flame_tensor *const *in, flame_tensor **out) {
  flame_tensor *s = flame_mul(in[0], in[0]);
  ((note *)arg)->forwards++;
  out[0] = flame_mul(s, in[0]);
  flame_free(s);
  return flame_error_code(c);
}

/* The backward of y = x^3 as (3 y / x) dy, which uses the result as well as the input. */
static flame_status cube_back(flame_context *c, void *arg, flame_tensor *const *in,
                              flame_tensor *const *out, flame_tensor *const *dout,
                              flame_tensor **din) {
  flame_tensor *three = flame_number(c, 3), *q = flame_div(out[0], in[0]),
               *d = flame_mul(q, three);
  ((note *)arg)->backwards++;
  din[0] = flame_mul(d, dout[0]);
  flame_free(three), flame_free(q), flame_free(d);
  return flame_error_code(c);
}

static flame_function cubing(note *n) {
  return (flame_function){ .size = sizeof(flame_function), .name = "cube", .nin = 1, .nout = 1,
    .arg = n, .release = release, .forward = cube, .backward = cube_back };
}

static void values_and_gradients(flame_context *c) {
  note n = { 0 };
  flame_function f = cubing(&n);
  char name[] = "cube";
  f.name = name;
  flame_tensor *x = leaf(c, 2, (double[]){ 2, 3 }), *y = NULL;
  CHECK(flame_apply(c, &f, &x, &y) == FLAME_OK && n.forwards == 1 && n.releases == 0);
  /* f and its name may go: flame_apply has copied them */
  memset(&f, 0, sizeof f);
  name[0] = 0;
  CHECK(first(y) == 8 && n.forwards == 1);
  flame_tensor *s = flame_sum_all(y);
  CHECK(flame_backward(s, NULL) == FLAME_OK && n.backwards == 1 && n.releases == 1);
  CHECK(take(flame_grad_of(x)) == 12);
  CHECK(flame_backward(s, NULL) == FLAME_BAD_ARGUMENT && n.backwards == 1);
  flame_clear_error(c);
  flame_free(x), flame_free(y), flame_free(s);
  CHECK(n.releases == 1);
}

static void gradients_of_gradients(flame_context *c) {
  note n = { 0 };
  flame_function f = cubing(&n);
  flame_tensor *x = leaf(c, 1, (double[]){ 2 }), *y = NULL, *t[3] = { 0 };
  CHECK(flame_apply(c, &f, &x, &y) == FLAME_OK);
  const fl_backward keep = { .retain_graph = 1, .create_graph = 1 };
  FL_ENTER(c);
  fl_node *g = y->node;
  for (int order = 0; order < 3; order++) {
    fl_node *of_g = NULL;
    CHECK(fl_gradients(c, 1, &g, NULL, 1, &x->node, &of_g, keep) == FLAME_OK && of_g);
    t[order] = fl_tensor_new(c, g = of_g);
  }
  CHECK(first(t[0]) == 12 && first(t[1]) == 12 && first(t[2]) == 6);
  CHECK(n.backwards == 4); /* calls over the three orders together: each derivative contains y,
                           ** which is then differentiated again */
  FL_LEAVE(c);
  for (int i = 0; i < 3; i++) flame_free(t[i]);
  flame_free(x), flame_free(y);
  CHECK(n.forwards == 1 && n.releases == 1);
}

static void nothing_tracked_is_released_at_once(flame_context *c) {
  note n = { 0 };
  const flame_function f = cubing(&n);
  flame_tensor *x = of(c, 1, (double[]){ 2 }), *w = leaf(c, 1, (double[]){ 2 }), *y = NULL;
  CHECK(flame_apply(c, &f, &x, &y) == FLAME_OK && n.releases == 1 && take(y) == 8);
  const int mode = flame_grad_mode(c, 0);
  CHECK(flame_apply(c, &f, &w, &y) == FLAME_OK && n.releases == 2 && take(y) == 8);
  flame_grad_mode(c, mode);
  CHECK(flame_apply(c, &f, &w, &y) == FLAME_OK && n.releases == 2);
  /* released with the entry on the tape */
  flame_free(y);
  CHECK(n.releases == 3 && n.backwards == 0);
  flame_free(x), flame_free(w);
}

static void without_backward_there_is_no_gradient(flame_context *c) {
  note n = { 0 };
  flame_function f = cubing(&n);
  /* a struct of an older version of the header, whose size ends before 'backward' */
  f.size = offsetof(flame_function, backward);
  flame_tensor *x = leaf(c, 1, (double[]){ 2 }), *y = NULL;
  CHECK(flame_apply(c, &f, &x, &y) == FLAME_OK && n.releases == 1 && first(y) == 8);
  CHECK(flame_backward(y, NULL) == FLAME_BAD_ARGUMENT);
  CHECK(says(c, "backward: the tensor is not tracked: given to a function, which has no "
                "gradient"));
  flame_free(x), flame_free(y);
}

/* ---- several results ------------------------------------------------------------------------ */

/* Maps (x, w) to three results: x w, x as i64, which no test uses further, and exp(x) as f32. */
static flame_status several(flame_context *c, void *arg, flame_tensor *const *in,
                            flame_tensor **out) {
  flame_tensor *e = flame_exp(in[0]);
  ((note *)arg)->forwards++;
  out[0] = flame_mul(in[0], in[1]);
  out[1] = flame_cast(in[0], FLAME_I64);
  out[2] = flame_cast(e, FLAME_F32);
  flame_free(e);
  return flame_error_code(c);
}

static flame_status several_back(flame_context *c, void *arg, flame_tensor *const *in,
                                 flame_tensor *const *out, flame_tensor *const *dout,
                                 flame_tensor **din) {
  note *n = arg;
  flame_tensor *a = flame_mul(dout[0], in[1]), *b = flame_mul(dout[2], out[2]);
  n->backwards++;
  CHECK(!dout[1] && flame_dtype_of(dout[2]) == FLAME_F32 && flame_dtype_of(out[1]) == FLAME_I64);
  din[0] = flame_add(a, b);
  din[1] = n->mistake ? NULL : flame_mul(dout[0], in[0]);
  flame_free(a), flame_free(b);
  return flame_error_code(c);
}

static flame_function of_several(note *n) {
  return (flame_function){ .size = sizeof(flame_function), .name = "several", .nin = 2, .nout = 3,
    .arg = n, .release = release, .forward = several, .backward = several_back };
}

static int near(double a, double b) { return fabs(a - b) < 1e-5; }

static void backward_runs_once_for_all_results(flame_context *c) {
  note n = { 0 };
  const flame_function f = of_several(&n);
  flame_tensor *in[2] = { leaf(c, 2, (double[]){ 0.5, 1 }), leaf(c, 2, (double[]){ 3, 4 }) };
  flame_tensor *out[3];
  CHECK(flame_apply(c, &f, in, out) == FLAME_OK);
  CHECK(flame_dtype_of(out[1]) == FLAME_I64 && flame_dtype_of(out[2]) == FLAME_F32);
  flame_tensor *a = flame_sum_all(out[0]), *b = flame_sum_all(out[2]), *s = flame_add(a, b);
  CHECK(flame_backward(s, NULL) == FLAME_OK && n.backwards == 1 && n.releases == 1);
  CHECK(near(take(flame_grad_of(in[0])), 3 + exp(0.5)));
  CHECK(take(flame_grad_of(in[1])) == 0.5);
  flame_tensor *all[] = { a, b, s, out[0], out[1], out[2], in[0], in[1] };
  for (int i = 0; i < 8; i++) flame_free(all[i]);
  CHECK(n.releases == 1);
}

static void a_result_that_nothing_uses_has_zeros(flame_context *c) {
  note n = { .mistake = 1 };                                    /* din[1] stays NULL: no gradient */
  const flame_function f = of_several(&n);
  flame_tensor *in[2] = { leaf(c, 1, (double[]){ 0.5 }), leaf(c, 1, (double[]){ 3 }) }, *out[3];
  CHECK(flame_apply(c, &f, in, out) == FLAME_OK);
  flame_free(out[0]), flame_free(out[1]);
  CHECK(flame_backward(out[2], NULL) == FLAME_OK && n.backwards == 1);
  CHECK(near(take(flame_grad_of(in[0])), exp(0.5)) && !flame_grad_of(in[1]));
  flame_free(out[2]), flame_free(in[0]), flame_free(in[1]);
}

static void several_results_twice_differentiated(flame_context *c) {
  note n = { 0 };
  const flame_function f = of_several(&n);
  flame_tensor *in[2] = { leaf(c, 1, (double[]){ 0.5 }), leaf(c, 1, (double[]){ 3 }) }, *out[3];
  CHECK(flame_apply(c, &f, in, out) == FLAME_OK);
  const fl_backward keep = { .retain_graph = 1, .create_graph = 1 };
  FL_ENTER(c);
  fl_node *g[2], *gg[2], *y[2] = { out[0]->node, out[2]->node };
  fl_node *wrt[2] = { in[0]->node, in[1]->node };
  CHECK(fl_gradients(c, 2, y, NULL, 2, wrt, g, keep) == FLAME_OK);
  CHECK(fl_gradients(c, 1, g, NULL, 2, wrt, gg, keep) == FLAME_OK && gg[0] && gg[1]);
  CHECK(near(take(fl_tensor_new(c, gg[0])), exp(0.5)) && take(fl_tensor_new(c, gg[1])) == 1);
  FL_LEAVE(c);
  for (int i = 0; i < 3; i++) flame_free(out[i]);
  flame_free(in[0]), flame_free(in[1]);
  CHECK(n.releases == 1);
}

/* ---- what forward may do -------------------------------------------------------------------- */

/* A forward callback: writes its input, applies another function to it, returns its gradient. */
static flame_status busy(flame_context *c, void *arg, flame_tensor *const *in, flame_tensor **out) {
  note inner = { 0 };
  const flame_function f = cubing(&inner);
  double v = 0;
  flame_status e = flame_item(in[0], &v);
  flame_tensor *n = flame_number(c, v + 1), *y = NULL;
  if (e == FLAME_OK) e = flame_write(in[0], n);
  flame_grad_mode(c, 1);
  if (e == FLAME_OK) e = flame_requires_grad(in[0], 1);
  if (e == FLAME_OK) e = flame_apply(c, &f, in, &y);
  if (e == FLAME_OK) e = flame_backward(y, NULL);
  out[0] = flame_grad_of(in[0]);
  flame_free(n), flame_free(y);
  ((note *)arg)->forwards += inner.releases;
  return e;
}

static void forward_may_call_everything(flame_context *c) {
  note n = { 0 };
  flame_function f = cubing(&n);
  f.forward = busy;
  flame_tensor *x = leaf(c, 1, (double[]){ 1 }), *y = NULL;
  CHECK(flame_apply(c, &f, &x, &y) == FLAME_OK && first(y) == 12 && n.forwards == 1);
  CHECK(first(x) == 1 && flame_grad_mode(c, 1) == 1);            /* x and the mode are unchanged */
  CHECK(!flame_grad_of(x));
  flame_free(x), flame_free(y);
}

/* A forward callback that uses no input and returns the scalar 7. */
static flame_status seven(flame_context *c, void *arg, flame_tensor *const *in,
                          flame_tensor **out) {
  (void)in;
  ((note *)arg)->forwards++;
  out[0] = flame_full(c, FLAME_F32, 0, NULL, 7);
  return flame_error_code(c);
}

static void no_inputs_and_numbers(flame_context *c) {
  note n = { 0 };
  flame_function f = cubing(&n);
  f.forward = seven;
  f.nin = 0;
  flame_tensor *x[2] = { leaf(c, 1, (double[]){ 2 }), flame_number(c, 3) }, *out[3];
  CHECK(flame_apply(c, &f, NULL, out) == FLAME_OK && n.releases == 1);
  double v = 0;
  CHECK(flame_item(out[0], &v) == FLAME_OK && v == 7);
  flame_free(out[0]);
  f = of_several(&n);
  CHECK(flame_apply(c, &f, x, out) == FLAME_OK && first(out[0]) == 6);
  CHECK(flame_backward(out[0], NULL) == FLAME_OK && take(flame_grad_of(x[0])) == 3);
  for (int i = 0; i < 3; i++) flame_free(out[i]);
  flame_free(x[0]), flame_free(x[1]);
}

static void a_long_chain_is_walked_and_freed(flame_context *c) {
  enum { LONG = 20000 };
  note n = { 0 };
  flame_function f = cubing(&n);
  flame_tensor *x = leaf(c, 1, (double[]){ 1 }), *y = flame_clone(x), *z = NULL;
  for (int i = 0; i < LONG; i++, y = z) {
    if (flame_apply(c, &f, &y, &z) != FLAME_OK) break;
    flame_free(y);
  }
  CHECK(n.forwards == LONG && n.releases == 0);
  flame_free(y);
  CHECK(n.releases == LONG);
  flame_free(x);
}

/* ---- mistakes ------------------------------------------------------------------------------- */

enum { STATUS = 1, MESSAGE, OP_FAILS, LEFT, MISSING, ALIEN, LENT, TWICE, NUMBER, FREES,
       CLOSES, FREED };

static flame_status wrong(flame_context *c, note *n, flame_tensor *lent, flame_tensor **out) {
  switch (n->mistake) {
    case STATUS: return FLAME_IO;
    case MESSAGE: return flame_fail(c, FLAME_IO, "read_mesh", "no such file: 100%s");
    case OP_FAILS: case LEFT:
      out[0] = flame_reshape(lent, 1, (int64_t[]){ 5 });
      return n->mistake == LEFT ? out[0] = flame_clone(lent), FLAME_OK : flame_error_code(c);
    case ALIEN: out[0] = flame_full(n->other, FLAME_F64, 1, (int64_t[]){ 1 }, 1); break;
    case LENT: out[0] = lent; break;
    case TWICE: out[0] = out[1] = flame_clone(lent); break;
    case NUMBER: out[0] = flame_number(c, 1); break;
    case FREES: out[0] = flame_clone(lent), flame_free(lent); break;
    case CLOSES: out[0] = flame_clone(lent), flame_close(c); break;
    default: break;
  }
  return FLAME_OK;
}

static flame_status wrong_forward(flame_context *c, void *arg, flame_tensor *const *in,
                                  flame_tensor **out) {
  return wrong(c, arg, in[0], out);
}

static flame_status right_forward(flame_context *c, void *arg, flame_tensor *const *in,
                                  flame_tensor **out) {
  (void)arg;
  out[0] = flame_clone(in[0]);
  out[1] = flame_clone(in[1]);
  return flame_error_code(c);
}

static flame_status wrong_backward(flame_context *c, void *arg, flame_tensor *const *in,
                                   flame_tensor *const *out, flame_tensor *const *dout,
                                   flame_tensor **din) {
  (void)in, (void)out;
  return wrong(c, arg, dout[0], din);
}

static void mistakes_of(flame_context *c, int back, const char *const text[FREED]) {
  flame_tensor *in[2] = { leaf(c, 1, (double[]){ 1 }), leaf(c, 1, (double[]){ 2 }) }, *out[2];
  note n = { .other = flame_open(FLAME_OPTIONS(.device = "cpu")) };
  flame_function f = { .size = sizeof f, .name = "f", .nin = 2, .nout = 2, .arg = &n,
    .release = release, .forward = back ? right_forward : wrong_forward,
    .backward = wrong_backward };
  for (n.mistake = STATUS; n.mistake < FREED; n.mistake++) {
    if (!text[n.mistake]) continue;
    flame_status e = flame_apply(c, &f, in, out);
    if (back && e == FLAME_OK) e = flame_backward(out[0], NULL);
    CHECK(e != FLAME_OK && e == flame_error_code(c) && says(c, text[n.mistake]));
    if (!back) CHECK(!out[0] && !out[1]);
    flame_free(out[0]), flame_free(out[1]);
  }
  CHECK(n.releases == n.mistake - STATUS - (back ? 1 : 0));
  flame_close(n.other);
  flame_free(in[0]), flame_free(in[1]);
}

static void mistakes_of_forward(flame_context *c) {
  static const char *const text[FREED] = {
    [STATUS] = "f: forward failed with status 7 and no message; give one with flame_fail",
    [MESSAGE] = "f: read_mesh: no such file: 100%s",
    [OP_FAILS] = "f: reshape: shape (1) can not become (5)",
    [LEFT] = "f: reshape: shape (1) can not become (5)",
    [MISSING] = "f: result 0 is missing",
    [ALIEN] = "f: result 0 belongs to another context",
    [LENT] = "f: result 0 is a tensor that it only borrows; use flame_clone",
    [TWICE] = "f: result 1 is handed over twice; use flame_clone",
    [NUMBER] = "f: result 0 is a number, need a tensor",
    [FREES] = "f: forward freed a tensor that it only borrows",
    [CLOSES] = "f: close: a function of flame_apply is running in this context" };
  mistakes_of(c, 0, text);
}

static void mistakes_of_backward(flame_context *c) {
  static const char *const text[FREED] = {
    [STATUS] = "f: backward failed with status 7 and no message; give one with flame_fail",
    [MESSAGE] = "f: read_mesh: no such file: 100%s",
    [OP_FAILS] = "f: reshape: shape (1) can not become (5)",
    [LEFT] = "f: reshape: shape (1) can not become (5)",
    [ALIEN] = "f: gradient 0 belongs to another context",
    [LENT] = "f: gradient 0 is a tensor that it only borrows; use flame_clone",
    [TWICE] = "f: gradient 1 is handed over twice; use flame_clone",
    [NUMBER] = "f: gradient 0 is a number, need a tensor",
    [FREES] = "f: backward freed a tensor that it only borrows",
    [CLOSES] = "f: close: a function of flame_apply is running in this context" };
  mistakes_of(c, 1, text);
}

static flame_status shape_back(flame_context *c, void *arg, flame_tensor *const *in,
                               flame_tensor *const *out, flame_tensor *const *dout,
                               flame_tensor **din) {
  const int integers = ((note *)arg)->mistake;
  (void)in, (void)out, (void)dout;
  din[0] = flame_full(c, integers ? FLAME_I32 : FLAME_F64, 1, (int64_t[]){ integers ? 2 : 3 }, 1);
  return FLAME_OK;
}

static void gradients_of_another_shape(flame_context *c) {
  note n = { 0 };
  flame_function f = cubing(&n);
  f.backward = shape_back;
  flame_tensor *x = leaf(c, 2, (double[]){ 1, 2 }), *y = NULL;
  for (n.mistake = 0; n.mistake < 2; n.mistake++) {
    CHECK(flame_apply(c, &f, &x, &y) == FLAME_OK);
    flame_tensor *s = flame_sum_all(y);
    CHECK(flame_backward(s, NULL) == FLAME_BAD_ARGUMENT && !flame_grad_of(x));
    CHECK(says(c, n.mistake ? "cube: gradient 0 is i32, need a float"
                            : "cube: gradient 0 has shape (3) and its input (2)"));
    flame_free(s), flame_free(y);
  }
  flame_free(x);
}

static void refused(flame_context *c, const flame_function *f, const char *text) {
  flame_tensor *x = leaf(c, 1, (double[]){ 2 }), *y = NULL;
  CHECK(flame_apply(c, f, &x, &y) == FLAME_BAD_ARGUMENT && !y && says(c, text));
  flame_free(x);
}

static flame_status into_itself(flame_context *c, void *arg, flame_tensor *const *in,
                                flame_tensor **out) {
  flame_function f = { .size = sizeof f, .name = "itself", .nin = 1, .nout = 1, .arg = arg,
                       .forward = into_itself };
  ++*(int *)arg;
  return flame_apply(c, &f, in, out);
}

static void functions_without_end_are_refused(flame_context *c) {
  int times = 0;
  flame_tensor *x = of(c, 1, (double[]){ 2 }), *y = NULL;
  CHECK(into_itself(c, &times, &x, &y) == FLAME_BAD_ARGUMENT && !y && times == 201);
  CHECK(says(c, "itself: apply: functions are applied in functions more than 200 deep"));
  flame_free(x);
}

static void functions_that_are_refused(flame_context *c) {
  note n = { 0 };
  flame_function f = cubing(&n), g = f;
  struct { flame_function f; char more[8]; } later = { f, { 0 } };
  later.f.size = sizeof later;
  later.more[2] = 1;
  refused(c, NULL, "apply: there is no function; write FLAME_FUNCTION(.name = \"f\", …)");
  g.size = 0;
  refused(c, &g, "apply: the function has size 0; write FLAME_FUNCTION(.name = \"f\", …)");
  refused(c, &later.f, "apply: the function is of a later version than " FLAME_VERSION
          ", and has settings that it does not know");
  g.size = offsetof(flame_function, forward);
  refused(c, &g, "apply: the function has no forward");
  g = f, g.nin = -1;
  refused(c, &g, "apply: -1 inputs and 1 results, need 0 to 255 and 1 to 255");
  g = f, g.nout = 256;
  refused(c, &g, "apply: 1 inputs and 256 results, need 0 to 255 and 1 to 255");
  CHECK(n.releases == 0 && n.forwards == 0);
  CHECK(flame_apply(NULL, &f, NULL, NULL) == FLAME_BAD_ARGUMENT && n.releases == 0);
  later.more[2] = 0;
  flame_tensor *x = of(c, 1, (double[]){ 2 }), *y = NULL;
  CHECK(flame_apply(c, &later.f, &x, &y) == FLAME_OK && n.releases == 1 && take(y) == 8);
  flame_free(x);
}

static void operands_that_are_refused(flame_context *c) {
  note n = { 0 };
  flame_function f = cubing(&n);
  flame_context *other = flame_open(FLAME_OPTIONS(.device = "cpu"));
  flame_tensor *x = of(other, 1, (double[]){ 2 }), *y = NULL, *none = NULL;
  CHECK(flame_apply(c, &f, &x, &y) == FLAME_BAD_ARGUMENT && !y);
  CHECK(says(c, "cube: input 0 belongs to another context"));
  CHECK(flame_apply(c, &f, &none, &y) == FLAME_BAD_ARGUMENT && says(c, ""));
  CHECK(flame_apply(c, &f, NULL, &y) == FLAME_BAD_ARGUMENT);
  CHECK(says(c, "cube: 1 inputs without a list of them"));
  CHECK(flame_apply(other, &f, &x, NULL) == FLAME_BAD_ARGUMENT);
  CHECK(says(other, "cube: 1 results without a list of them"));
  CHECK(n.forwards == 0 && n.releases == 4);          /* what could be read is released */
  flame_free(x);
  flame_close(other);
}

static void release_free(void *arg) {
  note *n = arg;
  n->releases++;
  flame_free(n->mine);
  flame_close(n->other);
}

static void release_may_free_tensors_and_not_close(flame_context *c) {
  note n = { .mine = of(c, 1, (double[]){ 5 }), .other = c };
  flame_function f = cubing(&n);
  f.release = release_free;
  flame_tensor *x = leaf(c, 1, (double[]){ 2 }), *y = NULL;
  CHECK(flame_apply(c, &f, &x, &y) == FLAME_OK);
  flame_free(y);
  CHECK(n.releases == 1 && says(c, "close: a function of flame_apply is running in this context"));
  flame_free(x);
}

static void a_closed_context_releases(void) {
  note n = { 0 };
  const flame_function f = cubing(&n);
  flame_context *c = flame_open(FLAME_OPTIONS(.device = "cpu"));
  flame_tensor *x = leaf(c, 1, (double[]){ 2 }), *y = NULL;
  now = "a_closed_context_releases";
  CHECK(flame_apply(c, &f, &x, &y) == FLAME_OK);
  flame_close(c);
  CHECK(n.releases == 1);
  flame_free(x), flame_free(y);
}

/* ---- memory that runs out ------------------------------------------------------------------- */

static double program(flame_context *c, note *n) {
  const flame_function one = cubing(n), many = of_several(n);
  flame_tensor *in[2] = { leaf(c, 1, (double[]){ 0.5 }), NULL }, *out[3] = { 0 }, *s = NULL;
  double v = NAN;
  if (flame_apply(c, &one, in, &in[1]) == FLAME_OK && flame_apply(c, &many, in, out) == FLAME_OK) {
    flame_tensor *t = flame_cast(out[2], FLAME_F64);
    s = flame_add(out[0], t);
    flame_free(t);
  }
  if (s && flame_backward(s, NULL) == FLAME_OK) v = take(flame_grad_of(in[0]));
  for (int i = 0; i < 3; i++) flame_free(out[i]);
  flame_free(in[0]), flame_free(in[1]), flame_free(s);
  return v;
}

/* A run in which allocation k fails (forever: and all after it); 1 if it makes fewer than k. */
static int with_failure(int64_t k, int forever, double expected) {
  flame_context *c = flame_open(FLAME_OPTIONS(.device = "cpu", .threads = 1));
  note n = { 0 };
  const int64_t calls = c->mem.calls;
  c->mem.fail_at = calls + k;
  c->mem.fail_forever = forever;
  const double v = program(c, &n);
  const int reached = c->mem.calls >= calls + k;
  c->mem.fail_at = 0;
  CHECK(isnan(v) ? flame_error_code(c) == FLAME_NO_MEMORY : v == expected);
  CHECK(reached || v == expected);
  CHECK(n.releases <= 2 && (n.releases == 2 || isnan(v)));
  flame_clear_error(c);
  CHECK(c->tensors.live == 0 && c->nodes.live == 0 && c->entries.live == 0);
  CHECK(program(c, &n) == expected && c->tensors.live == 0);
  flame_close(c);
  return !reached;
}

static void every_allocation_may_fail(void) {
  note n = { 0 };
  now = "every_allocation_may_fail";
  flame_context *c = flame_open(FLAME_OPTIONS(.device = "cpu", .threads = 1));
  const double expected = program(c, &n);
  flame_close(c);
  CHECK(near(expected, 4 * 0.125 + exp(0.5)));                   /* x x^3 + e^x */
  for (int forever = 0; forever < 2; forever++) {
    int64_t k = 1;
    while (k < 5000 && !with_failure(k, forever, expected)) k++;
    CHECK(k > 30 && k < 5000);
  }
}

/* ---- running -------------------------------------------------------------------------------- */

static const struct { const char *name; void (*run)(flame_context *c); } tests[] = {
#define TEST(name) { #name, name }
  TEST(values_and_gradients), TEST(gradients_of_gradients),
  TEST(nothing_tracked_is_released_at_once), TEST(without_backward_there_is_no_gradient),
  TEST(backward_runs_once_for_all_results), TEST(a_result_that_nothing_uses_has_zeros),
  TEST(several_results_twice_differentiated), TEST(forward_may_call_everything),
  TEST(no_inputs_and_numbers), TEST(a_long_chain_is_walked_and_freed),
  TEST(mistakes_of_forward), TEST(mistakes_of_backward), TEST(gradients_of_another_shape),
  TEST(functions_that_are_refused), TEST(functions_without_end_are_refused),
  TEST(operands_that_are_refused),
  TEST(release_may_free_tensors_and_not_close),
};

int main(void) {
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    flame_context *c = flame_open(FLAME_OPTIONS(.device = "cpu"));
    now = tests[i].name;
    tests[i].run(c);
    CHECK(flame_error_code(c) == FLAME_OK && c->tensors.live == 0 && c->nodes.live == 0);
    CHECK(c->entries.live == 0 && c->callbacks == 0);
    flame_close(c);
  }
  a_closed_context_releases();
  every_allocation_may_fail();
  printf("test_apply: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
