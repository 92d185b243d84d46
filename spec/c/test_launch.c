/*
** engine/launch.h: kernels launched by a host program, without Lua. One result and several, initial
** contents of outputs, and the messages for arguments and geometries that are refused.
*/
#include "engine/launch.h"
#include "tensor/build.h"
#include <stdio.h>
#include <string.h>

static int passed, failed;

#define CHECK(x) check((x) != 0, #x, __LINE__)
static void check(int ok, const char *text, int line) {
  if (ok) passed++; else failed++;
  if (!ok) printf("test_launch.c:%d: %s\n", line, text);
}

static const char source[] =
  "struct two { float a; int b; };\n"
  "__global__ void scale(const float *x, float *y, double *z, two by, int n) {\n"
  "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
  "  if (i < n) { y[i] = x[i] * by.a; z[i] += by.b; }\n"
  "}\n";

enum { N = 5, X = 0, Y, Z, BY, COUNT };
typedef struct two { float a; int32_t b; } two;

static fl_kfunction *compiled(flame_context *c) {
  fl_ksource *s = fl_ksource_parse(&c->mem, &c->err, source, sizeof source - 1);
  fl_kunit *u = s ? fl_kunit_new(&c->mem, s, "host.c", 1, NULL, 0) : NULL;
  fl_kfunction *k = u ? fl_kfunction_given(u, s->kernels[0]) : NULL;
  fl_kunit_release(u);
  return k;
}

static int says(flame_context *c, const char *text) {
  const int ok = strcmp(flame_error(c), text) == 0;
  if (!ok) printf("  the error is '%s'\n", flame_error(c));
  flame_clear_error(c);
  return ok;
}

/* Gives a launch all its arguments, but no geometry; 0 if one is refused. */
static int give(fl_launch *l, flame_context *c, fl_kfunction *k, fl_node *x, fl_node *z,
                int32_t n) {
  const two by = { 3, 4 };
  const int64_t size = N;
  fl_launch_begin(l, c, k);
  if (!fl_launch_takes(l, X, "int", x)) return 0;
  fl_launch_input(l, X, fl_launch_hold(l, x));
  if (!fl_launch_takes(l, Z, "int", z)) return 0;
  const int held = fl_launch_hold(l, z);
  return held == 1 && fl_launch_output(l, Y, FLAME_F32, 1, &size, -1) == FLAME_OK &&
         fl_launch_output(l, Z, FLAME_F64, 1, &size, held) == FLAME_OK &&
         fl_launch_bytes(l, BY, &by, sizeof by) && fl_launch_bytes(l, COUNT, &n, sizeof n);
}

static int reads(flame_context *c, fl_node *n, const double *want) {
  double got[N];
  flame_tensor *t = n ? fl_tensor_new(c, n) : NULL, *wide = flame_cast(t, FLAME_F64);
  const int ok = t && flame_read(wide, got, sizeof got) == FLAME_OK;
  flame_free(wide);
  flame_free(t);
  return ok && memcmp(got, want, sizeof got) == 0;
}

static void gives_several_results(flame_context *c, fl_kfunction *k, fl_node *x, fl_node *z) {
  fl_launch l;
  fl_node *out[2];
  CHECK(give(&l, c, k, x, z, N - 1));
  fl_launch_elements(&l, N);
  CHECK(l.p[FL_KP_GRID] == 1 && l.p[FL_KP_BLOCK] == 256 && l.p[FL_KP_GRID + 2] == 1);
  CHECK(fl_launch_check(&l) == FLAME_OK && fl_launch_ready(&l) == FLAME_OK);
  CHECK(fl_launch_record(&l, out) == FLAME_OK);
  CHECK(reads(c, out[0], (double[]){ 3, 6, 9, 12, 0 }));         /* beyond the count are zeros */
  CHECK(reads(c, out[1], (double[]){ 14, 24, 34, 44, 50 }));     /* added to its initial contents */
  CHECK(reads(c, z, (double[]){ 10, 20, 30, 40, 50 }));          /* the input is unchanged */
}

static void refuses_arrays(flame_context *c, fl_kfunction *k, fl_node *x, fl_node *z) {
  fl_launch l;
  const int axes[2] = { 1, 0 };
  const int64_t shape[2] = { N, 1 };
  CHECK(!give(&l, c, k, z, z, N) && says(c, "scale: x must be f32, got f64; cast it first"));
  fl_node *wide = n_expand(n_reshape(x, 2, shape), 2, (int64_t[]){ N, 2 });
  CHECK(wide && !give(&l, c, k, n_permute(wide, axes), z, N));
  CHECK(says(c, "scale: x of shape (2, 5) is not contiguous; use x:contiguous()"));
  fl_launch_begin(&l, c, k);
  for (int i = 0; i < FL_CALL_INPUTS; i++) CHECK(fl_launch_hold(&l, x) == i);
  CHECK(fl_launch_hold(&l, x) == -1 && flame_error_code(c) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
  const int64_t huge[2] = { INT64_C(1) << 40, INT64_C(1) << 30 };
  CHECK(fl_launch_output(&l, Y, FLAME_F32, 2, huge, -1) != FLAME_OK && l.nout == 0);
  CHECK(says(c, "scale: an output of shape (1099511627776, 1073741824) is too large"));
  CHECK(!fl_launch_room(&l, BY, INT64_C(1) << 20));
  CHECK(says(c, "scale: its scalar arguments take too many bytes"));
}

static int refused(fl_launch *l, int at, int64_t value, const char *text) {
  fl_launch_elements(l, N);
  l->p[FL_KP_SHARED] = 0;
  l->p[at] = value;
  return fl_launch_check(l) == FLAME_BAD_ARGUMENT && says(l->c, text);
}

static void refuses_geometry(flame_context *c, fl_kfunction *k) {
  fl_launch l;
  fl_launch_begin(&l, c, k);
  CHECK(refused(&l, FL_KP_GRID, 0, "scale: grid.x = 0, need 1 to 2147483647"));
  CHECK(refused(&l, FL_KP_GRID + 1, 65536, "scale: grid.y = 65536, need 1 to 65535"));
  CHECK(refused(&l, FL_KP_BLOCK + 2, 65, "scale: block.z = 65, need 1 to 64"));
  CHECK(refused(&l, FL_KP_BLOCK + 1, 8,
                "scale: a block of (256, 8, 1) has 2048 threads, at most 1024"));
  CHECK(refused(&l, FL_KP_SHARED, -1, "scale: shared = -1 bytes, need 0 to 232448"));
}

int main(void) {
  flame_context *c = flame_open(FLAME_OPTIONS(.device = "cpu"));
  const float at[N] = { 1, 2, 3, 4, 5 };
  const double before[N] = { 10, 20, 30, 40, 50 };
  const int64_t size = N;
  flame_tensor *x = flame_from_data(c, FLAME_F32, 1, &size, at),
               *z = flame_from_data(c, FLAME_F64, 1, &size, before);
  fl_kfunction *k = compiled(c);
  CHECK(k && x && z);
  const int64_t m = fl_scope_begin(c);
  gives_several_results(c, k, x->node, z->node);
  refuses_arrays(c, k, x->node, z->node);
  refuses_geometry(c, k);
  fl_scope_end(c, m);
  fl_kfunction_release(k);
  flame_free(x);
  flame_free(z);
  flame_close(c);
  printf("test_launch: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
