/*
** Interrupts at any moment of a run: the target of a write holds its old or its new value, never a
** mixture; other values are complete or fail as interrupted; and the context stays usable. A second
** thread sets the interrupt flag after a delay that sweeps over the length of the run.
*/
#include "engine/engine.h"
#include "flame.h"
#include "tensor/build.h"
#include "tensor/tensor.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int passed, failed;

static void check_at(int ok, const char *what, const char *name, int line) {
  if (ok) { passed++; return; }
  failed++;
  printf("test_interrupt.c:%d: failed: %s (%s)\n", line, what, name);
}
#define CHECK(x, name) check_at((x) != 0, #x, name, __LINE__)

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct alarm_at { flame_context *c; double delay; } alarm_at;

static void *ring(void *arg) {
  const alarm_at *a = arg;
  const struct timespec t = { (time_t)a->delay,
                              (long)((a->delay - (double)(time_t)a->delay) * 1e9) };
  nanosleep(&t, NULL);
  flame_interrupt(a->c);
  return NULL;
}

/* ---- writes: x (ROWS, COLS) of ones becomes another constant -------------------------------- */

enum { ROWS = 512, COLS = 2048 };

typedef fl_node *(*maker)(flame_context *c, fl_node *x);

static fl_node *filled(flame_context *c, int64_t rows, int64_t cols, double v) {
  return n_fill(c, FLAME_F32, 0, 2, (int64_t[]){ rows, cols }, (fl_scalar){ .d = v });
}

/* x + 1 by way of exp and log, twice: written in place, by several kernels. */
static fl_node *elementwise(flame_context *c, fl_node *x) {
  return n_add(n_exp(n_log(n_exp(n_log(x)))), n_num(c, 1));
}

static fl_node *product(flame_context *c, fl_node *x) {
  (void)x;
  return n_matmul(filled(c, ROWS, 64, 0.125), filled(c, 64, COLS, 0.25));      /* 2 everywhere */
}

static fl_node *joined(flame_context *c, fl_node *x) {
  fl_node *half = n_slice(x, 0, 0, ROWS / 2, 1), *part[2];
  part[0] = n_add(half, n_num(c, 1));
  part[1] = n_exp(n_mul(n_num(c, 0.69314718), n_slice(x, 0, ROWS / 2, ROWS / 2, 1)));
  part[1] = n_add(n_mul(part[1], n_num(c, 0)), n_num(c, 2));
  return n_cat(c, 2, part, 0);
}

/* A softmax of each row, scaled, plus 1: a kernel with row reductions that reads what it writes. */
static fl_node *rows(flame_context *c, fl_node *x) {
  return n_add(n_mul(n_softmax(x, 1), n_num(c, COLS)), n_num(c, 1));
}

static fl_node *columns(flame_context *c, fl_node *x) {
  fl_node *s = n_div(n_sum(x, 1u, 1), n_num(c, ROWS / 2.0));        /* 2 in each column */
  return n_expand(s, 2, (int64_t[]){ ROWS, COLS });
}

static fl_node *scattered(flame_context *c, fl_node *x) {
  const int64_t n = ROWS;
  fl_node *at = n_iota(c, FLAME_I64, 0, 1, &n, (fl_scalar){ .i = 0 }, (fl_scalar){ .i = 1 });
  return n_put_axis(x, 0, n_mul(at, n_int(c, 1)), filled(c, ROWS, COLS, 2), 0);
}

static const struct { const char *name; maker make; } writes[] = {
  { "elementwise", elementwise }, { "product", product }, { "cat", joined }, { "rows", rows },
  { "columns", columns }, { "scatter", scattered },
};

/* The value of the elements of x if all are equal; else, or if the read fails, -1. */
static double uniform_value(flame_tensor *x, float *host) {
  if (flame_read(x, host, sizeof *host * ROWS * COLS) != FLAME_OK) return -1;
  for (int i = 1; i < ROWS * COLS; i++) if (host[i] != host[0]) return -1;
  return (double)host[0];
}

/* Records x := make(x), and in *sum a sum of x's old value, to be evaluated together. */
static flame_status write_once(flame_context *c, flame_tensor *x, maker make, flame_tensor **sum) {
  FL_ENTER(c);
  fl_node *n = make(c, x->node);
  *sum = fl_tensor_new(c, n_sum(x->node, ~0u, 0));
  flame_status e = n && *sum ? fl_tensor_write(x, n, "write") : FLAME_NO_MEMORY;
  FL_LEAVE(c);
  return e;
}

static void one_write(flame_context *c, const char *name, maker make, double delay, float *host,
                      int *cut) {
  flame_tensor *x = flame_full(c, FLAME_F32, 2, (int64_t[]){ ROWS, COLS }, 1), *sum = NULL;
  CHECK(flame_eval(c) == FLAME_OK, name);
  flame_tensor *old = flame_clone(x);
  CHECK(write_once(c, x, make, &sum) == FLAME_OK, name);
  pthread_t t;
  alarm_at a = { c, delay };
  const int armed = delay >= 0 && pthread_create(&t, NULL, ring, &a) == 0;
  const flame_status e = flame_eval(c);
  if (armed) pthread_join(t, NULL);
  atomic_store(&c->interrupted, 0);
  CHECK(e == FLAME_OK || e == FLAME_INTERRUPTED, name);
  if (e != FLAME_OK) flame_clear_error(c);
  *cut += e == FLAME_INTERRUPTED;
  const double now = uniform_value(x, host), before = uniform_value(old, host);
  flame_clear_error(c);
  CHECK(now == 1 || now == 2, name);
  if (e == FLAME_OK) CHECK(now == 2 && before == 1, name);
  CHECK(before == 1 || before == -1, name);       /* -1: the clone was not made in time */
  double v = 0;
  if (flame_item(sum, &v) == FLAME_OK) CHECK(v == (double)ROWS * COLS, name);
  else CHECK(strstr(flame_error(c), "interrupted") != NULL, name);
  flame_clear_error(c);
  flame_free(x);
  flame_free(old);
  flame_free(sum);
}

static void writes_are_whole(int turns) {
  const flame_options o = { .size = sizeof(flame_options), .device = "cpu", .threads = 2 };
  flame_context *c = flame_open(&o);
  float *host = malloc(sizeof *host * ROWS * COLS);
  for (size_t w = 0; w < sizeof writes / sizeof *writes; w++) {
    int cut = 0;
    one_write(c, writes[w].name, writes[w].make, -1, host, &cut);        /* prepares the plan */
    const double start = seconds();
    one_write(c, writes[w].name, writes[w].make, -1, host, &cut);
    const double whole = seconds() - start;
    for (int i = 0; i < turns; i++)
      one_write(c, writes[w].name, writes[w].make, whole * i / turns, host, &cut);
    if (getenv("FLAME_OOM_COUNTS"))
      printf("%s: %.1f ms, %d of %d cut\n", writes[w].name, whole * 1e3, cut, turns);
  }
  CHECK(c->tensors.live == 0, "writes");
  free(host);
  flame_close(c);
}

/* ---- waiting time ---------------------------------------------------------------------------- */

/* A long product is interrupted after 50 ms and must end within 'most' seconds. */
static void a_long_product_gives_up(double most) {
  enum { N = 3000 };
  flame_context *c = flame_open(FLAME_OPTIONS(.device = "cpu"));
  flame_tensor *a = flame_full(c, FLAME_F64, 2, (int64_t[]){ N, N }, 0.5), *b[8];
  CHECK(flame_eval(c) == FLAME_OK, "long product");
  b[0] = flame_matmul(a, a);
  for (int i = 1; i < 8; i++) b[i] = flame_matmul(b[i - 1], a);
  pthread_t t;
  alarm_at alarm = { c, 0.05 };
  const double start = seconds();
  CHECK(pthread_create(&t, NULL, ring, &alarm) == 0, "long product");
  CHECK(flame_eval(c) == FLAME_INTERRUPTED, "long product");
  const double took = seconds() - start - 0.05;
  pthread_join(t, NULL);
  CHECK(took < most, "long product");
  if (getenv("FLAME_OOM_COUNTS")) printf("long product: %.3f s after the interrupt\n", took);
  flame_clear_error(c);
  double v;
  flame_tensor *s = flame_mean_all(a);
  CHECK(flame_item(s, &v) == FLAME_OK && v == 0.5, "long product");
  flame_free(s);
  for (int i = 0; i < 8; i++) flame_free(b[i]);
  flame_free(a);
  flame_close(c);
}

/* A long product that is written to a tensor is interrupted: the tensor keeps its old value, or has
** the new one. */
static void a_long_written_product_gives_up(double most) {
  enum { N = 2000 };
  flame_context *c = flame_open(FLAME_OPTIONS(.device = "cpu"));
  flame_tensor *a = flame_full(c, FLAME_F64, 2, (int64_t[]){ N, N }, 0.5),
               *x = flame_full(c, FLAME_F64, 2, (int64_t[]){ N, N }, 7);
  CHECK(flame_eval(c) == FLAME_OK, "written product");
  FL_ENTER(c);
  CHECK(fl_tensor_write(x, n_matmul(a->node, n_matmul(a->node, a->node)), "write") == FLAME_OK,
        "written product");
  FL_LEAVE(c);
  pthread_t t;
  alarm_at alarm = { c, 0.05 };
  const double start = seconds();
  CHECK(pthread_create(&t, NULL, ring, &alarm) == 0, "written product");
  const flame_status e = flame_eval(c);
  const double took = seconds() - start - 0.05;
  pthread_join(t, NULL);
  CHECK(e == FLAME_INTERRUPTED && took < most, "written product");
  flame_clear_error(c);
  double v;
  flame_tensor *s = flame_mean_all(x);
  CHECK(flame_item(s, &v) == FLAME_OK && (v == 7 || v == 0.125 * N * N), "written product");
  flame_free(s);
  flame_free(a);
  flame_free(x);
  flame_close(c);
}

int main(void) {
  const int slow = getenv("FLAME_SANITIZE") != NULL;
  writes_are_whole(slow ? 10 : 60);
  a_long_product_gives_up(slow ? 10 : 1);
  a_long_written_product_gives_up(slow ? 10 : 1);
  printf("test_interrupt: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
