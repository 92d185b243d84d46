/*
** Saved programs (graph/graph.h) loaded and run from C, without Lua: the files of
** spec/golden/programs, with right and wrong arguments, in two contexts, and with the k-th
** allocation failing.
*/
#include "engine/engine.h"
#include "graph/graph.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static int passed, failed;

#define CHECK(x) check((x) != 0, #x, __LINE__)
static void check(int ok, const char *text, int line) {
  if (ok) passed++; else failed++;
  if (!ok) printf("test_programs.c:%d: %s\n", line, text);
}

static flame_context *open_context(void) {
  return flame_open(FLAME_OPTIONS(.device = "cpu", .threads = 1));
}

static flame_program *load(flame_context *c, const char *name) {
  char path[96];
  snprintf(path, sizeof path, "spec/golden/programs/%s.safetensors", name);
  return flame_program_load(c, path);
}

static flame_tensor *ramp(flame_context *c, int64_t rows, int64_t cols) {
  float v[600];
  for (int i = 0; i < rows * cols; i++) v[i] = (float)(i % 7) / 3 - 1;
  return flame_from_data(c, FLAME_F32, 2, (int64_t[]){ rows, cols }, v);
}

static flame_tensor *labels(flame_context *c, int64_t n) {
  int64_t v[100];
  for (int i = 0; i < n; i++) v[i] = 1 + i % 3;
  return flame_from_data(c, FLAME_I64, 1, &n, v);
}

static int says(flame_context *c, const char *text) {
  const int ok = strstr(flame_error(c), text) != NULL;
  if (!ok) printf("  %s\n", flame_error(c));
  flame_clear_error(c);
  return ok;
}

/* ---- facts and runs -------------------------------------------------------------------------- */

static void ports_are_told(flame_context *c) {
  flame_program *p = load(c, "batch");
  const char *name = NULL;
  flame_dtype t = FLAME_BOOL;
  int64_t size[8] = { 0 };
  CHECK(p && flame_program_input(p, 0, &name, &t, size) == 2 && !strcmp(name, "x") &&
        t == FLAME_F32 && size[0] == -1 && size[1] == 6);
  CHECK(flame_program_input(p, 1, &name, &t, size) == 1 && !strcmp(name, "y") && t == FLAME_I64);
  CHECK(flame_program_output(p, 0, &name, NULL, NULL) == 2 && !strcmp(name, "logits"));
  CHECK(flame_program_output(p, 1, &name, &t, size) == 0 && !strcmp(name, "loss"));
  CHECK(flame_program_input(p, 2, &name, &t, size) == -1);
  CHECK(flame_program_input(p, -1, NULL, NULL, NULL) == -1);
  CHECK(flame_program_output(p, 2, NULL, NULL, NULL) == -1);
  CHECK(flame_program_input(NULL, 0, NULL, NULL, NULL) == -1);
  flame_program_free(p);
  flame_program_free(NULL);
}

static void rows_add_up_to_one(flame_context *c) {
  flame_program *p = load(c, "mlp");
  flame_tensor *x = ramp(c, 4, 6), *y = NULL;
  float v[12] = { 0 };
  CHECK(flame_program_run(p, 1, &x, 1, &y) == FLAME_OK);
  CHECK(flame_read(y, v, sizeof v) == FLAME_OK);
  for (int i = 0; i < 4; i++) CHECK(fabsf(v[3 * i] + v[3 * i + 1] + v[3 * i + 2] - 1) < 1e-6f);
  flame_free(y);
  flame_free(x);
  flame_program_free(p);
}

static void a_batch_varies(flame_context *c) {
  flame_program *p = load(c, "batch");
  for (int64_t n = 1; n < 100; n += 49) {
    flame_tensor *in[] = { ramp(c, n, 6), labels(c, n) }, *out[2];
    double loss = 0;
    CHECK(flame_program_run(p, 2, in, 2, out) == FLAME_OK);
    CHECK(flame_size(out[0], 0) == n && flame_item(out[1], &loss) == FLAME_OK && loss > 0.1);
    for (int i = 0; i < 2; i++) {
      flame_free(in[i]);
      flame_free(out[i]);
    }
  }
  flame_tensor *in[] = { ramp(c, 5, 6), labels(c, 4) }, *out[2] = { in[0], in[0] };
  CHECK(flame_program_run(p, 2, in, 2, out) == FLAME_BAD_ARGUMENT && !out[0] && !out[1]);
  CHECK(says(c, "no graph of the program"));
  flame_free(in[0]);
  flame_free(in[1]);
  flame_program_free(p);
}

/* Runs a training program for some steps; loss: that of the first step and of the last. */
static void train(flame_context *c, flame_program *p, int steps, double loss[2]) {
  flame_tensor *in[] = { ramp(c, 6, 5), ramp(c, 6, 1) }, *out = NULL;
  for (int i = 0; i < steps; i++) {
    CHECK(flame_program_run(p, 2, in, 1, &out) == FLAME_OK);
    CHECK(flame_item(out, &loss[i > 0]) == FLAME_OK);
    flame_free(out);
  }
  flame_free(in[0]);
  flame_free(in[1]);
}

static void a_training_step_trains(flame_context *c) {
  static const char *const names[] = { "sgd", "adam" };
  for (int i = 0; i < 2; i++) {
    flame_program *p = load(c, names[i]);
    double loss[2], again[2];
    train(c, p, 60, loss);
    CHECK(loss[1] < loss[0] / 2);
    flame_program_reset(p);
    train(c, p, 60, again);
    CHECK(!memcmp(loss, again, sizeof loss));
    flame_program_free(p);
  }
}

static void random_numbers_are_its_own(flame_context *c) {
  flame_program *p = load(c, "random");
  flame_tensor *x = flame_full(c, FLAME_F32, 1, (int64_t[]){ 3 }, 0), *out[2];
  float v[3][3];
  for (int i = 0; i < 3; i++) {
    flame_program_reset(p);
    flame_program_seed(p, i == 1 ? 8 : 7);
    flame_seed(c, (uint64_t)i);
    CHECK(flame_program_run(p, 1, &x, 2, out) == FLAME_OK);
    CHECK(flame_read(out[0], v[i], sizeof v[i]) == FLAME_OK);
    flame_free(out[0]);
    flame_free(out[1]);
  }
  CHECK(!memcmp(v[0], v[2], sizeof v[0]) && memcmp(v[0], v[1], sizeof v[0]));
  flame_free(x);
  flame_program_free(p);
}

static void wrong_arguments_are_refused(flame_context *c) {
  flame_program *p = load(c, "mlp");
  flame_tensor *x = ramp(c, 4, 6), *y = x;
  flame_context *other = open_context();
  flame_tensor *foreign = ramp(other, 4, 6), *none = NULL, *ids = labels(c, 4);
  CHECK(flame_program_run(p, 0, NULL, 1, &y) == FLAME_BAD_ARGUMENT && !y);
  CHECK(says(c, "0 inputs and 1 outputs"));
  CHECK(flame_program_run(p, 1, &x, 1, NULL) == FLAME_BAD_ARGUMENT && says(c, "outputs"));
  CHECK(flame_program_run(p, 1, NULL, 1, &y) == FLAME_BAD_ARGUMENT && says(c, "inputs"));
  CHECK(flame_program_run(p, 1, &none, 1, &y) == FLAME_BAD_ARGUMENT && says(c, "x is NULL"));
  CHECK(flame_program_run(p, 1, &foreign, 1, &y) == FLAME_BAD_ARGUMENT);
  CHECK(says(c, "another context"));
  CHECK(flame_program_run(p, 1, &ids, 1, &y) == FLAME_BAD_ARGUMENT && says(c, "is i64, need f32"));
  CHECK(flame_program_run(NULL, 1, &x, 1, &y) == FLAME_BAD_ARGUMENT);
  CHECK(!flame_program_load(c, NULL) && says(c, "no path"));
  CHECK(!flame_program_load(c, "spec/golden/programs/none") && says(c, "No such file"));
  CHECK(!flame_program_load(c, "spec/golden/softmax.cu") && flame_error_code(c) != FLAME_OK);
  flame_clear_error(c);
  CHECK(!flame_program_load(NULL, "x"));
  flame_program_seed(NULL, 1);
  flame_program_reset(NULL);
  flame_program_free(p);
  flame_free(foreign);
  flame_close(other);
  flame_free(ids);
  flame_free(x);
}

/* A kernel whose sums do not depend on the order of threads has this property in a loaded program
** too, and its text is the same after saving and reading it again. */
static void sums_of_kernels_stay_exact(flame_context *c) {
  flame_program *p = load(c, "sums");
  int exact = 0;
  for (int64_t i = 0; p && i < p->kernel.n; i++) {
    const fl_kfunction *k = p->kernel.at[i];
    fl_text t;
    fl_text_init(&t, &c->mem);
    fl_graph_put_kernel(&t, k);
    const char *s = fl_text_str(&t);
    fl_kfunction *again = s ? fl_graph_read_kernel(c, (fl_span){ s, t.n }) : NULL;
    CHECK(again && again->sums == k->sums && !strcmp(again->text, k->text));
    CHECK(!k->sums == !strstr(k->text, "fl_fix[0]"));
    exact += k->sums;
    fl_kfunction_release(again);
    fl_text_free(&t);
  }
  CHECK(exact == 2);
  flame_program_free(p);
}

static void a_closed_context_ends_it(void) {
  flame_context *c = open_context();
  flame_program *p = load(c, "cache");
  flame_tensor *x = NULL;
  CHECK(p != NULL);
  flame_close(c);
  CHECK(flame_program_input(p, 0, NULL, NULL, NULL) == -1);
  CHECK(flame_program_run(p, 1, &x, 1, &x) == FLAME_BAD_ARGUMENT);
  flame_program_reset(p);
  flame_program_free(p);
}

/* ---- memory running out ---------------------------------------------------------------------- */

/* Loads and runs a program: 1 if that succeeds, 0 if it fails with an error, -1 without one. */
static int once(flame_context *c, const char *name) {
  flame_tensor *in[2], *out[3] = { NULL, NULL, NULL };
  double loss = 0;
  int64_t n = 40, nout = 0;
  flame_clear_error(c);
  flame_program *p = load(c, name);
  if (!p) return flame_error_code(c) == FLAME_OK ? -1 : 0;
  const int two = flame_program_input(p, 1, NULL, NULL, NULL) >= 0;
  while (flame_program_output(p, (int)nout, NULL, NULL, NULL) >= 0) nout++;
  if (!two) flame_program_input(p, 0, NULL, NULL, &n);
  if (n < 0) n = 40;
  in[0] = two ? ramp(c, 6, 5) : flame_full(c, FLAME_F32, 1, &n, 0.5);
  in[1] = two ? ramp(c, 6, 1) : NULL;
  flame_status e = in[0] && (in[1] || !two) ? flame_program_run(p, 1 + two, in, (int)nout, out)
                                            : FLAME_NO_MEMORY;
  if (e == FLAME_OK) e = two ? flame_item(out[0], &loss) : flame_eval(c);
  const int told = e == FLAME_OK || flame_error_code(c) != FLAME_OK;
  for (int i = 0; i < 3; i++) flame_free(out[i]);
  flame_free(in[0]);
  flame_free(in[1]);
  flame_program_free(p);
  return e == FLAME_OK ? 1 : told ? 0 : -1;
}

static void allocations_fail(const char *name) {
  flame_context *c = open_context();
  int ok = once(c, name) == 1, refused = 0, k = 1;
  const int64_t blocks = c->mem.live_blocks;
  for (int forever = 0; forever < 2; forever++)
    for (k = 1; ok && k < 10000; k += 1 + k / 20) {
      c->mem.fail_at = c->mem.calls + k;
      c->mem.fail_forever = forever;
      const int r = once(c, name), done = c->mem.calls < c->mem.fail_at;
      c->mem.fail_at = 0;
      ok = r >= 0;
      refused += r == 0;
      if (done) break;
    }
  CHECK(ok && refused > 3 && k < 10000);
  CHECK(once(c, name) == 1 && c->mem.live_blocks <= blocks + 8);
  flame_close(c);
}

int main(void) {
  flame_context *c = open_context();
  ports_are_told(c);
  rows_add_up_to_one(c);
  a_batch_varies(c);
  a_training_step_trains(c);
  random_numbers_are_its_own(c);
  wrong_arguments_are_refused(c);
  sums_of_kernels_stay_exact(c);
  flame_close(c);
  a_closed_context_ends_it();
  allocations_fail("sgd");
  allocations_fail("kernels");
  allocations_fail("sums");
  printf("programs: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
