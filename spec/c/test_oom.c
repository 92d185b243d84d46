/*
** The k-th allocation fails, alone or with all after it, for every k until the operation succeeds.
** Each family of operations must then end in an error, or in the right value if a retry succeeded,
** leave no tensor behind, and compute the right value when it is done again. Under ASan this shows
** leaks too.
*/
#include "engine/engine.h"
#include "flame.h"
#include "tensor/context.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static int passed, failed;

static void check_at(int ok, const char *what, const char *name, int64_t k, int line) {
  if (ok) { passed++; return; }
  failed++;
  printf("test_oom.c:%d: failed: %s (%s, allocation %lld)\n", line, what, name, (long long)k);
}

enum { ROWS = 4, COLS = 6 };

static flame_tensor *ramp(flame_context *c, int rows, int cols, double step) {
  float data[64];
  for (int i = 0; i < rows * cols; i++) data[i] = (float)(step * (i - 5));
  return flame_from_data(c, FLAME_F32, 2, (int64_t[]){ rows, cols }, data);
}

/* Reads the only element of x and frees x; NaN if that fails. */
static double take(flame_tensor *x) {
  double v = NAN;
  if (!x || flame_item(x, &v) != FLAME_OK) v = NAN;
  flame_free(x);
  return v;
}

/* Each family returns a number, or NaN after an error, and frees everything that it makes. */
static double elementwise(flame_context *c) {
  flame_tensor *x = ramp(c, ROWS, COLS, 0.1), *e = flame_exp(x), *t = flame_tanh(e);
  flame_tensor *y = flame_mul(t, x);
  const double v = take(flame_sum_all(y));
  flame_free(x); flame_free(e); flame_free(t); flame_free(y);
  return v;
}

static double reductions(flame_context *c) {
  flame_tensor *x = ramp(c, ROWS, COLS, 0.3), *s = flame_softmax(x, 1);
  flame_tensor *m = flame_reduce("amax", s, 1, (int[]){ 0 }, 0);
  const double v = take(flame_sum_all(m));
  flame_free(x); flame_free(s); flame_free(m);
  return v;
}

static double products(flame_context *c) {
  flame_tensor *x = ramp(c, ROWS, COLS, 0.1), *w = ramp(c, COLS, ROWS, 0.2);
  flame_tensor *y = flame_matmul(x, w);
  const double v = take(flame_mean_all(y));
  flame_free(x); flame_free(w); flame_free(y);
  return v;
}

static double views(flame_context *c) {
  flame_tensor *x = ramp(c, ROWS, COLS, 1), *p = flame_permute(x, (int[]){ 1, 0 });
  flame_tensor *s = flame_slice(p, 0, 1, 3, 2), *r = flame_reshape(s, 1, (int64_t[]){ 12 });
  flame_tensor *h = flame_cast(r, FLAME_F16), *f = flame_cast(h, FLAME_F64);
  const double v = take(flame_sum_all(f));
  flame_free(x); flame_free(p); flame_free(s); flame_free(r); flame_free(h); flame_free(f);
  return v;
}

static double writes(flame_context *c) {
  flame_tensor *x = ramp(c, ROWS, COLS, 1), *old = flame_clone(x), *y = flame_exp(x);
  double v = NAN;
  if (flame_write(x, y) == FLAME_OK) v = take(flame_sum_all(old));
  flame_free(x); flame_free(old); flame_free(y);
  return v;
}

static double numbers(flame_context *c) {
  flame_seed(c, 11);
  flame_tensor *u = flame_uniform(c, FLAME_F32, 1, (int64_t[]){ 100 }, 0, 1);
  flame_tensor *n = flame_normal(c, FLAME_F32, 1, (int64_t[]){ 100 }, 0, 1);
  flame_tensor *y = flame_add(u, n);
  const double v = take(flame_sum_all(y));
  flame_free(u); flame_free(n); flame_free(y);
  return v;
}

/* Three layers: computes the gradient of the first weight. */
static double gradients(flame_context *c) {
  flame_tensor *w[3], *h = ramp(c, ROWS, COLS, 0.1), *g = NULL;
  int good = h != NULL;
  for (int i = 0; i < 3; i++) {
    w[i] = ramp(c, COLS, COLS, 0.02 * (i + 1));
    good = good && w[i] && flame_requires_grad(w[i], 1) == FLAME_OK;
  }
  for (int i = 0; i < 3; i++) {
    flame_tensor *a = flame_matmul(h, w[i]), *b = flame_tanh(a);
    flame_free(a); flame_free(h);
    h = b;
  }
  flame_tensor *loss = flame_sum_all(h);
  if (good && loss && flame_backward(loss, NULL) == FLAME_OK) g = flame_grad_of(w[0]);
  flame_tensor *s = flame_sum_all(g);
  const double v = take(s);
  flame_free(g); flame_free(loss); flame_free(h);
  for (int i = 0; i < 3; i++) flame_free(w[i]);
  return v;
}

static const struct { const char *name; double (*run)(flame_context *c); } families[] = {
  { "elementwise", elementwise }, { "reductions", reductions }, { "products", products },
  { "views", views }, { "writes", writes }, { "numbers", numbers }, { "gradients", gradients },
};

static flame_context *open_context(void) {
  const flame_options options = { .size = sizeof(flame_options), .device = "cpu", .threads = 1 };
  return flame_open(&options);
}

/* Runs a family while the k-th allocation fails. Returns 1 if it makes fewer than k allocations. */
static int one(int family, double expected, int64_t k, int forever) {
  const char *name = families[family].name;
  flame_context *c = open_context();
  if (!c) return 1;
  const int64_t calls = c->mem.calls;
  c->mem.fail_at = calls + k;
  c->mem.fail_forever = forever;
  const double v = families[family].run(c);
  const int reached = c->mem.calls >= calls + k;
  c->mem.fail_at = 0;
#define CHECK(x) check_at((x) != 0, #x, name, k, __LINE__)
  CHECK(isnan(v) || v == expected);       /* an error, or right after an internal retry */
  if (isnan(v)) CHECK(flame_error_code(c) == FLAME_NO_MEMORY);
  if (!reached) CHECK(v == expected);
  flame_clear_error(c);
  CHECK(c->tensors.live == 0);
  CHECK(families[family].run(c) == expected);
  CHECK(flame_error_code(c) == FLAME_OK);
  CHECK(c->tensors.live == 0);
  flame_close(c);
  return !reached;
}

int main(void) {
  for (int f = 0; f < (int)(sizeof families / sizeof *families); f++) {
    flame_context *c = open_context();
    const double expected = c ? families[f].run(c) : NAN;
    check_at(!isnan(expected), "the operation works", families[f].name, 0, __LINE__);
    if (c && isnan(expected)) printf("  %s\n", flame_error(c));
    if (c) flame_close(c);
    if (isnan(expected)) continue;
    for (int forever = 0; forever < 2; forever++) {
      int64_t k = 1;
      while (k < 5000 && !one(f, expected, k, forever)) k++;
      check_at(k < 5000 && k > 5, "every allocation was tried", families[f].name, k, __LINE__);
    }
  }
  printf("test_oom: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
