/*
** What the tests of tensor/ share: a fake engine (device memory is host memory; an evaluation only
** allocates the results), functions that make nodes, and a runner for a file's tests. Every test
** has its own context, whose counts of memory must be zero when it is closed: the leak check.
*/
#ifndef FAKE_ENGINE_H
#define FAKE_ENGINE_H
#include "tensor/build.h"
#include "tensor/entry.h"
#include "tensor/tensor.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;
static const char *now;

#define CHECK(x) check((x) != 0, #x, __FILE__, __LINE__)
static void check(int ok, const char *text, const char *file, int line) {
  if (ok) passed++; else failed++;
  if (!ok) printf("%s:%d: %s: %s\n", file, line, now, text);
}

/* ---- the fake engine --------------------------------------------------------------- */

static int64_t device_live;
static int evaluations;
static flame_status evaluate_answer;

static inline void *device_alloc(flame_context *c, int device, int64_t bytes) {
  (void)device;
  void *p = fl_alloc(&c->mem, (size_t)bytes);
  if (p) device_live += bytes;
  return p;
}

static inline void device_free(flame_context *c, int device, void *p, int64_t bytes) {
  (void)device;
  device_live -= bytes;
  fl_free(&c->mem, p, (size_t)bytes);
}

static inline int is_root(const fl_node *n) {
  return n->held > 0 || (n->grefs > 0 && n->entry && n->entry->reads_out);
}

static inline int store(fl_node *n) {
  flame_context *c = n->ctx;
  if (n->base) {
    if (n->base->state != FL_STORED) return 1;
    fl_node_store(n, fl_buffer_retain(n->base->buffer), n->base->offset);
    return 1;
  }
  const int64_t bytes = n->shape->numel * fl_dtype_size(n->dtype);
  fl_buffer *b = n->home ? fl_buffer_retain(n->home) : fl_buffer_new(c, n->device, bytes);
  if (b) fl_node_store(n, b, 0);
  return b != NULL;
}

static inline flame_status evaluate_all(flame_context *c) {
  evaluations++;
  if (evaluate_answer != FLAME_OK) return FL_FAIL(c, evaluate_answer, "eval", "planned");
  for (int pass = 0; pass < 2; pass++) {            /* bases, then views */
    for (int64_t i = 0; i < c->win.nodes.n; i++) {
      fl_node *n = c->win.nodes.at[i];
      if (n && (pass ? n->base != NULL : is_root(n) || n->op != FL_OP_view))
        if (!(n->base && !pass) && !store(n)) return c->err.code;
    }
  }
  return FLAME_OK;
}

static inline flame_status evaluate(flame_context *c, fl_node *n) {
  (void)n;
  return evaluate_all(c);
}

static const fl_upcalls up = {.evaluate = evaluate, .evaluate_all = evaluate_all,
                              .device_alloc = device_alloc, .device_free = device_free};

static inline int open_into(flame_context *c) {
  memset(c, 0, sizeof *c);
  c->up = &up;
  c->budget = INT64_MAX;
  c->grad_mode = 1;
  evaluate_answer = FLAME_OK;
  device_live = 0;
  evaluations = 0;
  return fl_tensor_init(c);
}

static inline void close_and_count(flame_context *c) {
  CHECK(fl_tensor_close(c));
  CHECK(c->mem.live_blocks == 0 && c->mem.live_bytes == 0);
  CHECK(device_live == 0 && c->tensors_of[0].now == 0);
}

/* ---- makers ------------------------------------------------------------------------ */

static inline fl_layout *shape2(flame_context *c, int64_t rows, int64_t cols) {
  return fl_layout_of(&c->layouts, 2, (int64_t[]){rows, cols}, NULL);
}

static inline fl_node *data(flame_context *c, int64_t rows, int64_t cols) {
  return fl_node_stored(c, FLAME_F32, fl_buffer_new(c, 0, rows * cols * 4),
                        shape2(c, rows, cols), 0);
}

static inline fl_node *record(int op, fl_node *a, fl_node *b) {
  fl_node *const in[2] = {a, b};
  if (!a) return NULL;
  fl_node *n = fl_node_new(a->ctx, op, a->dtype, a->device, fl_layout_retain(a->shape),
                           b ? 2 : 1, in);
  return n && fl_entry_attach(n) ? n : NULL;
}

static inline fl_node *transposed(fl_node *x, int track) {
  flame_context *c = x->ctx;
  const fl_layout *l = x->layout;
  fl_attr how = {.view = FL_VIEW_PERMUTE, .perm = {1, 0}};
  return fl_node_view(x, shape2(c, l->size[1], l->size[0]),
                      fl_layout_of(&c->layouts, 2, (int64_t[]){l->size[1], l->size[0]},
                                   (int64_t[]){l->stride[1], l->stride[0]}),
                      x->offset, &how, track);
}

static inline flame_tensor *parameter(flame_context *c) {
  const int64_t mark = fl_enter(c);
  flame_tensor *t = fl_tensor_new(c, data(c, 2, 3));
  fl_scope_end(c, mark);
  return t;
}

/* ---- running the tests of a file ------------------------------------------------------ */

typedef struct test { const char *name; void (*run)(flame_context *c); } test;
#define TEST(name) {#name, name}

/* Runs 'program' again and again, each time in a new context: the k-th allocation fails, for every
** k, first alone and then with all that follow it. */
static inline void survive_failing_allocations(void (*program)(flame_context *c)) {
  for (int forever = 0; forever < 2; forever++) {
    int clean = 0;
    for (int k = 1; !clean && k < 500; k++) {
      flame_context c;
      CHECK(open_into(&c));
      const int64_t start = c.mem.calls;
      c.mem.fail_at = start + k;
      c.mem.fail_forever = forever;
      program(&c);
      clean = c.mem.calls < start + k;
      CHECK(c.err.code == FLAME_OK || c.err.code == FLAME_NO_MEMORY);
      CHECK(clean ? c.err.code == FLAME_OK : c.err.code == FLAME_NO_MEMORY || !forever);
      CHECK(c.nodes.live == 0 && c.tensors.live == 0 && c.entries.live == 0);
      CHECK(c.attrs.live == 0 && c.buffers.live == 0 && c.layouts.n == 1 && c.borrowed.n == 0);
      close_and_count(&c);
    }
    CHECK(clean);
  }
}

/* The program's status. */
static inline int run_tests(const char *what, const test *tests, int n) {
  for (int i = 0; i < n; i++) {
    flame_context c;
    now = tests[i].name;
    CHECK(open_into(&c));
    tests[i].run(&c);
    CHECK(c.err.code == FLAME_OK && c.nodes.live == 0);
    close_and_count(&c);
  }
  printf("%s: %d passed, %d failed\n", what, passed, failed);
  return failed != 0;
}
#endif
