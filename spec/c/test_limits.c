/*
** Limits of a context, without Lua: what is counted, errors when a limit is exceeded, options that
** are refused, and that work goes on when the limit is removed.
*/
#include "tensor/context.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;

#define CHECK(x) check((x) != 0, #x, __LINE__)
static void check(int ok, const char *text, int line) {
  if (ok) passed++; else failed++;
  if (!ok) printf("test_limits.c:%d: %s\n", line, text);
}

static const int64_t MIB = 1 << 20;

static int says(flame_context *c, const char *part) {
  const int there = strstr(flame_error(c), part) != NULL;
  if (!there) printf("  the error is '%s'\n", flame_error(c));
  return there;
}

/* The sum of n ones. */
static flame_status sum_of(flame_context *c, int64_t n, double *v) {
  flame_tensor *x = flame_full(c, FLAME_F32, 1, &n, 1), *y = flame_exp(x), *s = flame_sum_all(y);
  flame_status e = flame_eval(c);
  if (e == FLAME_OK) e = flame_item(s, v);
  flame_free(x);
  flame_free(y);
  flame_free(s);
  return flame_error_code(c) != FLAME_OK ? flame_error_code(c) : e;
}

static void options_that_are_refused(void) {
  const flame_options none = { .device = "cpu" };
  struct { flame_options o; char more[16]; } later = { { .size = sizeof later }, { 0 } };
  flame_context *c = flame_open(&none);
  double v;
  CHECK(flame_error_code(c) == FLAME_BAD_ARGUMENT && says(c, "the options have size 0"));
  flame_clear_error(c);                    /* each later call fails with the same error */
  CHECK(sum_of(c, 4, &v) == FLAME_BAD_ARGUMENT && says(c, "the options have size 0"));
  flame_close(c);
  c = flame_open(&later.o);                         /* a longer struct, whose further bytes are 0 */
  CHECK(flame_error_code(c) == FLAME_OK && sum_of(c, 4, &v) == FLAME_OK);
  flame_close(c);
  later.more[3] = 1;
  c = flame_open(&later.o);
  CHECK(says(c, "of a later version"));
  flame_close(c);
  c = flame_open(FLAME_OPTIONS(.limit[FLAME_NODES] = -1));
  CHECK(says(c, "limit 2 is -1, need 0 (none) or more"));
  flame_close(c);
  c = flame_open(FLAME_OPTIONS(.limit[12] = 1));
  CHECK(says(c, "there is no such limit"));
  flame_close(c);
}

static void host_bytes_raise_and_do_not_stick(void) {
  flame_context *c = flame_open(FLAME_OPTIONS(.device = "cpu", .limit[FLAME_HOST_BYTES] = 8 * MIB));
  double v = 0;
  CHECK(sum_of(c, 16 * MIB, &v) == FLAME_NO_MEMORY);
  CHECK(says(c, "the limit of the context is 8 MiB, and ") && says(c, "tensors and graph"));
  flame_clear_error(c);
  CHECK(sum_of(c, 1000, &v) == FLAME_OK && v > 2718 && v < 2719);
  CHECK(flame_limit_used(c, FLAME_HOST_BYTES) > 0);
  CHECK(flame_limit_set(c, FLAME_HOST_BYTES, 256 * MIB) == 8 * MIB);
  CHECK(sum_of(c, 16 * MIB, &v) == FLAME_OK);
  CHECK(flame_limit_used(c, FLAME_HOST_BYTES) <= 256 * MIB && c->mem.peak_bytes <= 256 * MIB);
  flame_close(c);
}

static void a_limit_set_late_holds_too(void) {
  flame_context *c = flame_open(NULL);
  double v = 0;
  CHECK(flame_limit_set(c, FLAME_HOST_BYTES, -1) == 0 && sum_of(c, MIB, &v) == FLAME_OK);
  CHECK(flame_limit_set(c, FLAME_HOST_BYTES, 1) == 0 && sum_of(c, 64 * MIB, &v) != FLAME_OK);
  flame_clear_error(c);
  CHECK(flame_limit_set(c, FLAME_HOST_BYTES, 0) == 1 && sum_of(c, MIB, &v) == FLAME_OK);
  CHECK(flame_limit_set(c, (flame_limit)9, 4) == -1 && flame_limit_used(c, (flame_limit)77) == -1);
  CHECK(flame_limit_set(NULL, FLAME_NODES, 4) == -1);
  flame_close(c);
}

static void nodes(void) {
  enum { MANY = 4000 };
  flame_context *c = flame_open(FLAME_OPTIONS(.device = "cpu", .limit[FLAME_NODES] = 1000));
  flame_tensor **x = calloc(MANY, sizeof *x);
  int made = 0;
  x[0] = flame_full(c, FLAME_F32, 0, NULL, 1);
  while (made < MANY - 1 && x[made]) {
    made++;
    x[made] = flame_exp(x[0]);
  }
  CHECK(made >= 900 && made <= 1000 && says(c, "the limit of the context is 1000 nodes"));
  CHECK(flame_limit_used(c, FLAME_NODES) <= 1000);
  flame_clear_error(c);
  for (int i = 1; i < 500; i++) flame_free(x[i]), x[i] = NULL;
  flame_tensor *y = flame_exp(x[0]);
  CHECK(y);
  flame_free(y);
  for (int i = 0; i < MANY; i++) flame_free(x[i]);
  double v;
  for (int i = 0; i < 3000; i++) CHECK(sum_of(c, 2, &v) == FLAME_OK);   /* the dead do not count */
  free(x);
  flame_close(c);
}

/* Works in calls of about a millisecond until one fails; returns its status. */
static flame_status work_until_it_fails(flame_context *c) {
  double v;
  flame_status e = FLAME_OK;
  for (int i = 0; i < 1000000 && e == FLAME_OK; i++) e = sum_of(c, MIB, &v);
  return e;
}

static void total_time_is_used_up_and_sticks(void) {
  flame_context *c = flame_open(FLAME_OPTIONS(.limit[FLAME_TOTAL_NS] = 250000000));
  double v = 0;
  CHECK(work_until_it_fails(c) == FLAME_INTERRUPTED);
  CHECK(says(c, "the limit of 0.25 s for all calls is used up"));
  for (int i = 0; i < 3; i++) {
    flame_clear_error(c);
    CHECK(sum_of(c, 2, &v) == FLAME_INTERRUPTED);
  }
  CHECK(flame_limit_used(c, FLAME_TOTAL_NS) >= 250000000);
  flame_limit_restart(c);
  CHECK(flame_limit_used(c, FLAME_TOTAL_NS) < 250000000 && sum_of(c, 2, &v) == FLAME_OK);
  flame_close(c);
}

/* One call that would take seconds. */
static void the_time_of_a_call(void) {
  flame_context *c = flame_open(FLAME_OPTIONS(.device = "cpu", .limit[FLAME_CALL_NS] = 100000000));
  const int64_t size[2] = { 3000, 3000 };
  double v = 0;
  CHECK(sum_of(c, 1000, &v) == FLAME_OK);
  flame_tensor *a = flame_uniform(c, FLAME_F64, 2, size, 0, 1), *p = flame_clone(a);
  for (int i = 0; i < 40; i++) {
    flame_tensor *q = flame_matmul(p, a);
    flame_free(p);
    p = q;
  }
  flame_tensor *s = flame_sum_all(p);
  CHECK(flame_item(s, &v) == FLAME_INTERRUPTED);
  /* between calls the clock of the call's time stands still */
  const int64_t took = flame_limit_used(c, FLAME_CALL_NS);
  CHECK(took >= 100000000 && flame_limit_used(c, FLAME_NODES) > 0);
  CHECK(flame_limit_used(c, FLAME_CALL_NS) == took);
  CHECK(says(c, "the limit of 0.1 s for a call is used up"));
  flame_free(a);
  flame_free(p);
  flame_free(s);                               /* otherwise it is computed with later work */
  flame_limit_restart(c);
  CHECK(sum_of(c, 1000, &v) == FLAME_OK);
  flame_close(c);
}

static void an_interrupt_is_taken_a_used_up_limit_is_not(void) {
  flame_context *c = flame_open(NULL);
  double v = 0;
  flame_interrupt(c);
  CHECK(sum_of(c, 4, &v) == FLAME_INTERRUPTED && says(c, "interrupted!"));
  flame_clear_error(c);
  CHECK(sum_of(c, 4, &v) == FLAME_OK);
  flame_close(c);
}

static void an_error_of_the_hosts(void) {
  flame_context *c = flame_open(NULL);
  CHECK(flame_fail(c, FLAME_IO, "fetch", "100% of it is gone") == FLAME_IO);
  CHECK(strcmp(flame_error(c), "fetch: 100% of it is gone") == 0);
  flame_clear_error(c);
  CHECK(flame_fail(c, (flame_status)99, NULL, NULL) == FLAME_INTERNAL && says(c, "failed"));
  CHECK(flame_fail(NULL, FLAME_IO, "x", "y") == FLAME_BAD_ARGUMENT);
  flame_close(c);
}

static void devices_that_are_denied(void) {
  flame_context *c = flame_open(FLAME_OPTIONS(.device = "cpu", .deny = ~0u));
  flame_tensor *x = flame_number(c, 1), *y;
  y = flame_to_device(x, "cpu");
  CHECK(y && flame_error_code(c) == FLAME_OK);
  flame_free(y);
  CHECK(!flame_to_device(x, "cuda") && says(c, "not permitted: only the default device is used"));
  flame_free(x);
  flame_close(c);
}

int main(void) {
  options_that_are_refused();
  host_bytes_raise_and_do_not_stick();
  a_limit_set_late_holds_too();
  nodes();
  total_time_is_used_up_and_sticks();
  the_time_of_a_call();
  an_interrupt_is_taken_a_used_up_limit_is_not();
  an_error_of_the_hosts();
  devices_that_are_denied();
  printf("limits: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
