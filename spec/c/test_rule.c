/*
** rule/rule.h: kernels launched and differentiated by a host program, without Lua. First and second
** derivatives of arrays and numbers, tangents, arguments without a gradient, a kernel that has no
** derivative, and failing allocations.
*/
#include "autograd/autograd.h"
#include "rule/rule.h"
#include "tensor/build.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static int passed, failed;

#define CHECK(x) check((x) != 0, #x, __LINE__)
static void check(int ok, const char *text, int line) {
  if (ok) passed++; else failed++;
  if (!ok) printf("test_rule.c:%d: %s\n", line, text);
}

/* In cube, z is input and output: it is read, and its new contents are a result. */
static const char source[] =
  "__global__ void cube(const float *x, float *y, float *z, float s, int n) {\n"
  "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
  "  if (i < n) { y[i] = s * x[i] * x[i] * x[i]; z[i] = z[i] * x[i]; }\n"
  "}\n"
  "__global__ void jump(const float *x, float *y, int n) {\n"
  "  int i = 0;\n"
  "again: y[i] = x[i]; if (++i < n) goto again;\n"
  "}\n";

enum { N = 3, X = 0, Y, Z, S, COUNT };

static fl_kprogram *program(flame_context *c, int which) {
  const uint8_t inout[FL_KP_MAX_ARGS] = { [Z] = 1 };
  fl_ksource *s = fl_ksource_parse(&c->mem, &c->err, source, sizeof source - 1);
  fl_kunit *u = s ? fl_kunit_new(&c->mem, s, "host.c", 1, NULL, 0) : NULL;
  fl_kfunction *k = u ? fl_kfunction_given(u, s->kernels[which]) : NULL;
  fl_kunit_release(u);
  return k ? fl_kprogram_new(c, k, inout) : NULL;
}

static flame_tensor *leaf(flame_context *c, int n, const float *v) {
  flame_tensor *x = flame_from_data(c, FLAME_F32, n > 1, (int64_t[]){ n }, v);
  if (x && flame_requires_grad(x, 1) != FLAME_OK) flame_free(x), x = NULL;
  return x;
}

/* Launches cube; y[0] and y[1] become its results y and z, tracked. v: the value of the kernel's
** number s; the node s: a scalar tensor that gets the gradient with respect to that number, or
** NULL. Returns 0 after an error. */
static int cube(fl_kprogram *p, flame_context *c, fl_node *x, fl_node *z, float v, fl_node *s,
                fl_node **y) {
  const int64_t size = N;
  const int32_t n = N;
  fl_node *number[FL_KP_MAX_ARGS] = { [S] = s };
  int nout = 2;
  fl_launch l;
  fl_launch_begin(&l, c, p->k);
  if (fl_kgive_input(&l, p, X, x, 0) != FLAME_OK ||
      fl_launch_output(&l, Y, FLAME_F32, 1, &size, -1) != FLAME_OK ||
      fl_kgive_copy(&l, p, Z, z) != FLAME_OK || !fl_launch_bytes(&l, S, &v, sizeof v) ||
      !fl_launch_bytes(&l, COUNT, &n, sizeof n))
    return 0;
  fl_launch_elements(&l, N);
  if (fl_klaunch(&l, y) != FLAME_OK) return 0;
  fl_krule *r = fl_krule_new(p, &l, number, y, &nout);
  return r ? fl_krule_attach(r, y) == FLAME_OK : c->err.code == FLAME_OK;
}

static int is(flame_context *c, fl_node *n, const float *want) {
  float got[N];
  const size_t bytes = n ? sizeof *got * (size_t)n->shape->numel : 0;
  const int ok = n && bytes <= sizeof got && fl_read_node(c, n, got, bytes) == FLAME_OK;
  return ok && memcmp(got, want, bytes) == 0;
}

static fl_node *sum_of(fl_node *x) { return n_sum(x, 1, 0); }

static const float at[N] = { 1, 2, -3 }, before[N] = { 5, 6, 7 }, ones[N] = { 1, 1, 1 };

static void gives_gradients(flame_context *c, fl_kprogram *p, flame_tensor *x, flame_tensor *z,
                            flame_tensor *s) {
  const int64_t m = fl_scope_begin(c);
  fl_node *y[2], *g[3], *wrt[3] = { x->node, z->node, s->node }, *sum;
  CHECK(cube(p, c, x->node, z->node, 2, s->node, y) && y[0]->entry && y[1]->entry);
  sum = n_add(sum_of(y[0]), sum_of(y[1]));
  CHECK(is(c, y[0], (float[]){ 2, 16, -54 }) && is(c, y[1], (float[]){ 5, 12, -21 }));
  CHECK(fl_gradients(c, 1, &sum, NULL, 3, wrt, g, (fl_backward){ 0 }) == FLAME_OK);
  CHECK(is(c, g[0], (float[]){ 6 + 5, 24 + 6, 54 + 7 }));       /* 3 s x² + z */
  CHECK(is(c, g[1], at));
  CHECK(is(c, g[2], (float[]){ 1 + 8 - 27 }));
  CHECK(!g[0]->entry);
  fl_scope_end(c, m);
}

/* The first gradient is 3 s x² + z. Checks the derivatives of its sum by x, z and s. */
static void gives_second_gradients(flame_context *c, fl_kprogram *p, flame_tensor *x,
                                   flame_tensor *z, flame_tensor *s) {
  const int64_t m = fl_scope_begin(c);
  fl_node *y[2], *g[1], *h[3], *wrt[3] = { x->node, z->node, s->node }, *sum;
  const fl_backward how = { .create_graph = 1, .retain_graph = 1 };
  CHECK(cube(p, c, x->node, z->node, 2, s->node, y));
  sum = n_add(sum_of(y[0]), sum_of(y[1]));
  CHECK(fl_gradients(c, 1, &sum, NULL, 1, wrt, g, how) == FLAME_OK && g[0]->entry);
  sum = sum_of(g[0]);
  CHECK(fl_gradients(c, 1, &sum, NULL, 3, wrt, h, (fl_backward){ 0 }) == FLAME_OK);
  CHECK(is(c, h[0], (float[]){ 12, 24, -36 }));                 /* 6 s x */
  CHECK(is(c, h[1], ones));
  CHECK(is(c, h[2], (float[]){ 3 * (1 + 4 + 9) }));
  fl_scope_end(c, m);
}

static void gives_tangents(flame_context *c, fl_kprogram *p, flame_tensor *x, flame_tensor *z) {
  const int64_t m = fl_scope_begin(c);
  fl_node *y[2], *u[FL_KP_MAX_ARGS] = { NULL }, *out[FL_KP_MAX_ARGS];
  fl_ktangent t;
  CHECK(cube(p, c, x->node, z->node, 2, NULL, y));
  const fl_krule *r = y[0]->entry->custom->arg;
  u[X] = fl_node_from_host(c, 0, FLAME_F32, 1, (int64_t[]){ N }, ones);
  CHECK(fl_kcall_jvp(r->call, u, out, &t) == FLAME_OK && !out[S] && !out[X]);
  CHECK(is(c, out[Y], (float[]){ 6, 24, 54 }) && is(c, out[Z], before));
  fl_kcall_release(t.call);
  CHECK(r->nactive == 2 && r->active[0] == X && r->active[1] == Z);
  CHECK(fl_krule_again(r, 0, u[X], out) == FLAME_OK && is(c, out[0], (float[]){ 2, 2, 2 }));
  fl_scope_end(c, m);
}

static void keeps_to_what_is_asked(flame_context *c, flame_tensor *x, flame_tensor *z) {
  const int64_t m = fl_scope_begin(c);
  fl_kprogram *p = program(c, 0);
  fl_node *y[2], *g[2], *wrt[2] = { x->node, z->node }, *sum;
  p->nodiff[Z] = 1;
  CHECK(cube(p, c, x->node, z->node, 2, NULL, y));
  sum = sum_of(y[1]);
  CHECK(fl_gradients(c, 1, &sum, NULL, 2, wrt, g, (fl_backward){ 0 }) == FLAME_OK);
  CHECK(is(c, g[0], before) && !g[1]);
  p->nodiff[X] = 1;
  CHECK(cube(p, c, x->node, z->node, 2, NULL, y) && !y[0]->entry);
  c->grad_mode = 0;
  p->nodiff[X] = p->nodiff[Z] = 0;
  CHECK(cube(p, c, x->node, z->node, 2, NULL, y) && !y[0]->entry);
  c->grad_mode = 1;
  fl_scope_end(c, m);
  fl_kprogram_release(p);
}

static void says_why_there_is_none(flame_context *c) {
  fl_kprogram *p = program(c, 1);
  const fl_kask ask = { .adjoint = 1 };
  CHECK(p && !p->k->f->has_body && !fl_kprogram_derive(c, p, &ask));
  CHECK(strncmp(flame_error(c), "jump: kernel 'jump', line 7 (host.c:7): ", 40) == 0);
  CHECK(strstr(flame_error(c), "; give vjp = …") != NULL);
  flame_clear_error(c);
  fl_kprogram_release(p);
}

/* Compiles, launches and differentiates cube while the k-th allocation fails, for every k. Only a
** failure while compiling leaves no error in the context, since the compiler has no context. */
static void takes_failing_memory(flame_context *c, flame_tensor *x, flame_tensor *z) {
  int k = 0, ended = 0;
  for (; !ended && k < 3000; k++) {
    const int64_t m = fl_scope_begin(c);
    fl_node *y[2], *g[2] = { NULL }, *wrt[2] = { x->node, z->node }, *sum;
    c->mem.fail_at = c->mem.calls + 1 + k;
    fl_kprogram *p = program(c, 0);
    int ok = p && cube(p, c, x->node, z->node, 2, NULL, y) && (sum = sum_of(y[0])) &&
             fl_gradients(c, 1, &sum, NULL, 2, wrt, g, (fl_backward){ .create_graph = 1 }) ==
               FLAME_OK;
    ended = c->mem.fail_at > c->mem.calls;
    c->mem.fail_at = 0;
    if (ok) ok = is(c, g[0], (float[]){ 6, 24, 54 });
    if (p && !ok && flame_error_code(c) == FLAME_OK) CHECK(!"a failure without an error");
    flame_clear_error(c);
    fl_scope_end(c, m);
    fl_kprogram_release(p);
    if (ended) CHECK(ok);
  }
  CHECK(ended && k > 50);
}

int main(void) {
  flame_context *c = flame_open(FLAME_OPTIONS(.device = "cpu"));
  flame_tensor *x = leaf(c, N, at), *z = leaf(c, N, before), *s = leaf(c, 1, (float[]){ 2 });
  fl_kprogram *p = program(c, 0);
  CHECK(p && x && z && s);
  gives_gradients(c, p, x, z, s);
  gives_second_gradients(c, p, x, z, s);
  gives_tangents(c, p, x, z);
  fl_kprogram_release(p);
  keeps_to_what_is_asked(c, x, z);
  says_why_there_is_none(c);
  takes_failing_memory(c, x, z);
  flame_free(x), flame_free(z), flame_free(s);
  flame_close(c);
  printf("test_rule: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
