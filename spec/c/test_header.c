/*
** Every op of flame.h: ops of the table must compute the same as the op of that name called through
** flame_unary and so on, the others the values computed by hand. Each is called with NULL and with
** a tensor of another context in place of each argument, and with the k-th allocation failing, for
** all k. Errors of single ops are checked here too.
*/
#include "header_tensors.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static int passed, failed;
static const char *now = "";

#define CHECK(x) check((x) != 0, #x, __LINE__)
static void check(int ok, const char *text, int line) {
  if (ok) passed++; else failed++;
  if (!ok) printf("test_header.c:%d: %s: %s\n", line, now, text);
}

enum { MOST = 4 };

/* Forgets the free objects of all slabs, so that the next calls must allocate. */
static void starve(flame_context *c) {
  fl_slab *all[] = { &c->nodes, &c->tensors, &c->entries, &c->attrs, &c->calls, &c->buffers,
                     &c->layouts.slab };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) all[i]->free_list = NULL;
}

/* Checks and frees y, the result of a call whose k-th allocation was to fail. Returns 1 if the call
** made at least k allocations, so that the next k is to be tried. */
static int lacked(flame_context *c, int64_t k, flame_tensor *y) {
  const int reached = c->mem.calls >= c->mem.fail_at;
  c->mem.fail_at = 0;
  CHECK(y ? flame_error_code(c) == FLAME_OK
          : reached && flame_error_code(c) == FLAME_NO_MEMORY);
  CHECK(k > 1 || !y);
  flame_clear_error(c);
  flame_free(y);
  return reached && k < 100;
}

/* Evaluates an expression that returns a tensor again and again, each time with another one of its
** allocations failing. */
#define LACKS(call) do { \
    int64_t k_ = 0; \
    do { \
      starve(c); \
      c->mem.fail_at = c->mem.calls + ++k_; \
    } while (lacked(c, k_, call)); \
    CHECK(k_ > 1 && k_ < 100); \
  } while (0)

/* ---- the table ----------------------------------------------------------------------------- */

static void same_bits(flame_tensor *x, flame_tensor *y) {
  double a[ROOM] = { 0 }, b[ROOM] = { 0 };
  CHECK(x && y && flame_dtype_of(x) == flame_dtype_of(y));
  CHECK(values_of(x, a) == flame_numel(y) && values_of(y, b) > 0 && !memcmp(a, b, sizeof a));
  flame_free(x);
  flame_free(y);
}

/* Bitwise ops take integers. */
static const char *word_of(int op) { return fl_ops[op].kind == FL_KIND_INT ? "i23" : "f23"; }

#define SPECIAL(...)
#define INNER_UNARY(op, kind, value, grad, domain, doc)
#define INNER_BINARY(op, kind, value, g1, g2, domain, doc)

static void table(flame_context *c) {
  flame_tensor *mask = made(c, "b23"), *other;
#define BEGIN(op) \
  now = #op; \
  flame_tensor *x = made(c, word_of(FL_OP_##op)), *y = made(c, word_of(FL_OP_##op));
#define END flame_free(x), flame_free(y);
#define UNARY(op, kind, value, grad, domain, doc) { \
  BEGIN(op) \
  same_bits(flame_##op(x), flame_unary(#op, x)); \
  CHECK(!flame_##op(NULL) && flame_error_code(c) == FLAME_OK); \
  LACKS(flame_##op(x)); \
  END }
#define BINARY(op, kind, value, g1, g2, domain, doc) { \
  BEGIN(op) \
  same_bits(flame_##op(x, y), flame_binary(#op, x, y)); \
  CHECK(!flame_##op(NULL, y) && !flame_##op(x, NULL) && flame_error_code(c) == FLAME_OK); \
  LACKS(flame_##op(x, y)); \
  END }
#define TERNARY(op, kind, value, g1, g2, g3, domain, doc) { \
  BEGIN(op) \
  other = FL_OP_##op == FL_OP_where ? mask : x; \
  same_bits(flame_##op(other, x, y), flame_ternary(#op, other, x, y)); \
  CHECK(!flame_##op(NULL, x, y) && !flame_##op(other, NULL, y) && !flame_##op(other, x, NULL)); \
  CHECK(flame_error_code(c) == FLAME_OK); \
  LACKS(flame_##op(other, x, y)); \
  END }
#define REDUCE(op, kind, init, value, grad, doc) { \
  BEGIN(op) \
  same_bits(flame_##op(x, 1, (int[]){ -1 }, 1), flame_reduce(#op, x, 1, (int[]){ 1 }, 1)); \
  CHECK(!flame_##op(NULL, 0, NULL, 0) && flame_error_code(c) == FLAME_OK); \
  CHECK(!flame_##op(x, 1, (int[]){ 2 }, 0) && \
        !strcmp(flame_error(c), #op ": axis 2 is out of range for shape (2, 3)")); \
  flame_clear_error(c); \
  LACKS(flame_##op(x, 1, (int[]){ 0 }, 0)); \
  END }
#include "tensor/ops.def"
  flame_free(mask);
}

/* ---- the others ---------------------------------------------------------------------------- */

typedef flame_tensor *call(flame_context *c, flame_tensor *const *a);
#define CALL(name, expression) \
  static flame_tensor *name(flame_context *c, flame_tensor *const *a) { \
    (void)c, (void)a; \
    return expression; \
  }
CALL(sum_all, flame_sum_all(a[0]))
CALL(mean_all, flame_mean_all(a[0]))
CALL(matmul, flame_matmul(a[0], a[1]))
CALL(linear, flame_linear(a[0], a[1], a[2]))
CALL(mean, flame_mean(a[0], 1, (int[]){ 1 }, 0))
CALL(var, flame_var(a[0], 1, (int[]){ -1 }, 1, 1))
CALL(logsumexp, flame_logsumexp(a[0], 0, NULL, 0))
CALL(softmax, flame_softmax(a[0], 1))
CALL(log_softmax, flame_log_softmax(a[0], -2))
CALL(layer_norm, flame_layer_norm(a[0], 1, a[1], a[2], 0.5))
CALL(group_norm, flame_group_norm(a[0], 1, a[1], a[2], 0.5))
CALL(gelu, flame_gelu(a[0], 0))
CALL(silu, flame_silu(a[0]))
CALL(dropout, flame_dropout(a[0], 1))
CALL(embedding, flame_embedding(a[0], a[1]))
CALL(cross_entropy, flame_cross_entropy(a[0], a[1], NULL, FLAME_SUM, -100, 0))
CALL(attention, flame_attention(a[0], a[1], a[2], a[3], 1, 0))
CALL(arange, flame_arange(c, FLAME_F32, 1, 0.5, 4))
CALL(randint, flame_randint(c, FLAME_I64, 1, (int64_t[]){ 3 }, 7, 7))
CALL(cat, flame_cat(c, 2, a, -1))
CALL(stack, flame_stack(c, 2, a, -1))
CALL(pad, flame_pad(a[0], (int64_t[]){ 0, 1 }, (int64_t[]){ -1, 0 }, 9))
CALL(reshape, flame_reshape(a[0], 2, (int64_t[]){ 3, -1 }))
CALL(permute, flame_permute(a[0], (int[]){ 1, 0 }))
CALL(transpose, flame_transpose(a[0], 0, -1))
CALL(slice, flame_slice(a[0], 1, 0, 2, 2))
CALL(select_part, flame_select(a[0], 1, -1))
CALL(expand, flame_expand(a[0], 2, (int64_t[]){ 2, -1 }))
CALL(squeeze, flame_squeeze(a[0], 1))
CALL(unsqueeze, flame_unsqueeze(a[0], -1))
CALL(index_select, flame_index_select(a[0], 1, a[1]))
CALL(gather, flame_gather(a[0], 1, a[1]))
CALL(scatter, flame_scatter(a[0], 1, a[1], a[2]))
CALL(scatter_add, flame_scatter_add(a[0], 1, a[1], a[2]))
CALL(index_copy, flame_index_copy(a[0], 0, a[1], a[2]))
CALL(index_add, flame_index_add(a[0], 0, a[1], a[2]))
CALL(tril, flame_tril(a[0], 0))
CALL(triu, flame_triu(a[0], 1))
CALL(cast, flame_cast(a[0], FLAME_I32))
CALL(to_device, flame_to_device(a[0], "cpu"))
CALL(clone, flame_clone(a[0]))
CALL(detach, flame_detach(a[0]))

/* Writes a slice of a copy of a[0], and returns the copy. */
static flame_tensor *write_slice(flame_context *c, flame_tensor *const *a) {
  flame_tensor *x = flame_clone(a[0]);
  (void)c;
  if (x && flame_write_slice(x, 1, 0, 2, 2, a[1]) == FLAME_OK) return x;
  flame_free(x);
  return NULL;
}

static flame_tensor *write_all(flame_context *c, flame_tensor *const *a) {
  flame_tensor *x = flame_clone(a[0]);
  (void)c;
  if (x && flame_write(x, a[1]) == FLAME_OK) return x;
  flame_free(x);
  return NULL;
}

#define V(...) { __VA_ARGS__ }
static const struct {
  const char *name;
  call *run;
  const char *in[MOST];
  int optional;                 /* bit i: input i may be NULL */
  int ndim, n;
  double want[12];
} cases[] = {
  { "sum_all", sum_all, { "f23" }, 0, 0, 1, V(5.25) },
  { "mean_all", mean_all, { "f23" }, 0, 0, 1, V(0.875) },
  { "matmul", matmul, { "f22", "f21" }, 0, 2, 2, V(0.3125, 0.6875) },
  { "linear", linear, { "f12", "f22", "s2" }, 4, 2, 2, V(-0.4375, 0.1875) },
  { "mean", mean, { "f23" }, 0, 1, 2, V(0.5, 1.25) },
  { "var", var, { "f23" }, 0, 2, 2, V(0.0625, 0.0625) },
  { "logsumexp", logsumexp, { "f3" }, 0, 0, 1, V(1.6193381) },
  { "softmax", softmax, { "f12" }, 0, 2, 2, V(0.4378235, 0.5621765) },
  { "log_softmax", log_softmax, { "f21" }, 0, 2, 2, V(-0.8259394, -0.5759394) },
  { "layer_norm", layer_norm, { "f12", "f2", "s2" }, 6, 2, 2, V(-0.7935194, -0.4129612) },
  { "group_norm", group_norm, { "f12", "f2", "s2" }, 6, 2, 2, V(-0.7935194, -0.4129612) },
  { "gelu", gelu, { "s3" }, 0, 1, 3, V(-0.1699703, -0.1542688, -0.1003234) },
  { "silu", silu, { "f2" }, 0, 1, 2, V(0.1405441, 0.3112297) },
  { "dropout", dropout, { "f2" }, 0, 1, 2, V(0, 0) },
  { "embedding", embedding, { "i3", "f22" }, 0, 2, 6, V(0.25, 0.5, 0.75, 1, 0.25, 0.5) },
  { "cross_entropy", cross_entropy, { "f22", "i2" }, 0, 0, 1, V(1.4018788) },
  { "attention", attention, { "f1111", "f1121", "f1121", "f12" }, 8, 4, 1, V(0.3943738) },
  { "arange", arange, { NULL }, 0, 1, 4, V(1, 1.5, 2, 2.5) },
  { "randint", randint, { NULL }, 0, 1, 3, V(7, 7, 7) },
  { "cat", cat, { "f21", "s22" }, 0, 2, 6, V(0.25, -0.75, -0.5, 0.5, -0.25, 0) },
  { "stack", stack, { "f2", "s2" }, 0, 2, 4, V(0.25, -0.75, 0.5, -0.5) },
  { "pad", pad, { "f22" }, 0, 2, 3, V(9, 0.25, 0.5) },
  { "reshape", reshape, { "f23" }, 0, 2, 6, V(0.25, 0.5, 0.75, 1, 1.25, 1.5) },
  { "permute", permute, { "f22" }, 0, 2, 4, V(0.25, 0.75, 0.5, 1) },
  { "transpose", transpose, { "f22" }, 0, 2, 4, V(0.25, 0.75, 0.5, 1) },
  { "slice", slice, { "f23" }, 0, 2, 4, V(0.25, 0.75, 1, 1.5) },
  { "select", select_part, { "f23" }, 0, 1, 2, V(0.75, 1.5) },
  { "expand", expand, { "f2" }, 0, 2, 4, V(0.25, 0.5, 0.25, 0.5) },
  { "squeeze", squeeze, { "f21" }, 0, 1, 2, V(0.25, 0.5) },
  { "unsqueeze", unsqueeze, { "f2" }, 0, 2, 2, V(0.25, 0.5) },
  { "index_select", index_select, { "f23", "i2" }, 0, 2, 4, V(0.25, 0.5, 1, 1.25) },
  { "gather", gather, { "f23", "i22" }, 0, 2, 4, V(0.25, 0.5, 1, 1.25) },
  { "scatter", scatter, { "f22", "i22", "s22" }, 0, 2, 4, V(-0.75, -0.5, -0.25, 0) },
  { "scatter_add", scatter_add, { "f22", "i22", "s22" }, 0, 2, 4, V(-0.5, 0, 0.5, 1) },
  { "index_copy", index_copy, { "f22", "i2", "s22" }, 0, 2, 4, V(-0.75, -0.5, -0.25, 0) },
  { "index_add", index_add, { "f22", "i2", "s22" }, 0, 2, 4, V(-0.5, 0, 0.5, 1) },
  { "tril", tril, { "f22" }, 0, 2, 4, V(0.25, 0, 0.75, 1) },
  { "triu", triu, { "f22" }, 0, 2, 4, V(0, 0.5, 0, 0) },
  { "cast", cast, { "f23" }, 0, 2, 6, V(0, 0, 0, 1, 1, 1) },
  { "to_device", to_device, { "f2" }, 0, 1, 2, V(0.25, 0.5) },
  { "clone", clone, { "f2" }, 0, 1, 2, V(0.25, 0.5) },
  { "detach", detach, { "f2" }, 0, 1, 2, V(0.25, 0.5) },
  { "write_slice", write_slice, { "f13", "s12" }, 0, 2, 3, V(-0.75, 0.5, -0.5) },
  { "write", write_all, { "f2", "s2" }, 0, 1, 2, V(-0.75, -0.5) },
};
enum { CASES = sizeof cases / sizeof *cases };

static int inputs(flame_context *c, int i, flame_tensor **a) {
  int n = 0;
  for (; n < MOST && cases[i].in[n]; n++) a[n] = made(c, cases[i].in[n]);
  for (int k = n; k < MOST; k++) a[k] = NULL;
  return n;
}

static void free_all(flame_tensor **a) { for (int k = 0; k < MOST; k++) flame_free(a[k]); }

static int right(int i, flame_tensor *y) {
  double v[ROOM];
  if (!y || flame_ndim(y) != cases[i].ndim || values_of(y, v) != cases[i].n) return 0;
  for (int k = 0; k < cases[i].n; k++)
    if (!(fabs(v[k] - cases[i].want[k]) <= 1e-6)) return 0;
  return 1;
}

static void gives_the_value(flame_context *c, int i) {
  flame_tensor *a[MOST];
  inputs(c, i, a);
  flame_tensor *y = cases[i].run(c, a);
  CHECK(right(i, y));
  CHECK(flame_error_code(c) == FLAME_OK);
  flame_free(y);
  free_all(a);
}

/* Calls case i with NULL in place of each operand, which must return NULL without an error (unless
** the operand is optional), and, if there are several operands, with a tensor of another context in
** place of each, which must be an error. */
static void refuses_operands(flame_context *c, flame_context *other, int i) {
  flame_tensor *a[MOST], *foreign = made(other, "f22");
  const int n = inputs(c, i, a);
  for (int k = 0; k < n; k++) {
    flame_tensor *mine = a[k];
    a[k] = NULL;
    flame_tensor *y = cases[i].run(c, a);
    CHECK((cases[i].optional >> k & 1) ? y != NULL : y == NULL);
    CHECK(flame_error_code(c) == FLAME_OK);
    flame_free(y);
    if (n > 1) {
      a[k] = foreign;
      y = cases[i].run(c, a);
      CHECK(!y && (strstr(flame_error(c), "operands of different contexts") ||
                   strstr(flame_error(other), "operands of different contexts")));
      flame_clear_error(c);
      flame_clear_error(other);
    }
    a[k] = mine;
  }
  flame_free(foreign);
  free_all(a);
}

#define REFUSED(call, text) refused((call), (text), c, __LINE__)
static void refused(flame_tensor *x, const char *text, flame_context *c, int line) {
  const int ok = !x && !strcmp(flame_error(c), text);
  if (!ok) printf("  got %s \"%s\"\n", x ? "a tensor and" : "", flame_error(c));
  check(ok, text, line);
  flame_clear_error(c);
  flame_free(x);
}

/* Tests functions that take an op's name, and functions that make tensors. */
static void names_and_makers(flame_context *c, flame_context *other) {
  flame_tensor *x = made(c, "f23"), *foreign = made(other, "f23"), *mask = made(c, "b23");
  const int64_t size = 3;
  CHECK(!flame_binary("mul", x, NULL) && !flame_ternary("where", mask, NULL, x));
  REFUSED(flame_binary("exp", x, x), "exp: there is no binary op of this name");
  REFUSED(flame_ternary("mul", x, x, x), "mul: there is no ternary op of this name");
  CHECK(!flame_binary("mul", x, foreign));
  flame_clear_error(c);
  LACKS(flame_unary("exp", x));
  LACKS(flame_binary("mul", x, x));
  LACKS(flame_ternary("where", mask, x, x));
  LACKS(flame_reduce("sum", x, 1, (int[]){ 0 }, 0));
  LACKS(flame_full(c, FLAME_F32, 1, &size, 1));
  LACKS(flame_uniform(c, FLAME_F32, 1, &size, 0, 1));
  LACKS(flame_normal(c, FLAME_F32, 1, &size, 0, 1));
  LACKS(flame_number(c, 1));
  LACKS(made(c, "f23"));
  flame_free(x), flame_free(foreign), flame_free(mask);
}

/* The process takes all memory that its limit allows, then frees it part by part until a context
** can be opened. Not under sanitizers, whose allocators do not follow the limit. */
static void opening_takes_memory(void) {
  struct part { struct part *next; } *taken = NULL;
  struct rlimit before, none_left;
  int refused = 0;
  flame_context *c = NULL;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return;
#endif
  if (getrlimit(RLIMIT_AS, &before) != 0) return;
  none_left = before;
  none_left.rlim_cur = 1;
  if (setrlimit(RLIMIT_AS, &none_left) != 0) return;
  for (size_t size = 1 << 20; size >= 32; size /= 2)
    for (struct part *p; (p = malloc(size)); taken = p) p->next = taken;
  while (!(c = flame_open(FLAME_OPTIONS(.device = "cpu", .threads = 1))) && taken) {
    struct part *p = taken;
    taken = p->next;
    free(p);
    refused++;
  }
  setrlimit(RLIMIT_AS, &before);
  for (struct part *p; (p = taken); free(p)) taken = p->next;
  if (!c) c = open_context();
  CHECK(refused > 3 && c && flame_error_code(c) == FLAME_OK);
  flame_close(c);
}

static void opening_takes_options(void) {
  flame_context *none = flame_open(&(flame_options){ .size = 0 });
  CHECK(flame_error_code(none) == FLAME_BAD_ARGUMENT);
  flame_close(none);
  flame_close(NULL);
  CHECK(!strcmp(flame_error(NULL), flame_error(NULL)) && flame_error_code(NULL) != FLAME_OK);
}

/* Functions that report facts, called with NULL for the tensor or context, give empty answers. */
static void nothing_is_known_of_nothing(flame_context *c) {
  CHECK(!flame_context_of(NULL) && flame_dtype_of(NULL) == FLAME_DTYPE_COUNT);
  CHECK(!strcmp(flame_device_of(NULL), "") && !strcmp(flame_dtype_name((flame_dtype)-1), ""));
  CHECK(flame_dtype_size((flame_dtype)99) == 0 && flame_device_count(NULL) == 0);
  flame_limit_restart(NULL);
  flame_zero_grad(NULL);
  CHECK(flame_grad_mode(NULL, 0) == 0);
  CHECK(flame_fail(c, FLAME_IO, "mine", "told") == FLAME_IO);
  CHECK(!strcmp(flame_error(c), "mine: told"));
  flame_clear_error(c);
}

/* Runs case i and reads its value while the k-th allocation fails; 0 if there are fewer than k. */
static int survives(int i, int64_t k) {
  flame_context *c = open_context();
  flame_tensor *a[MOST];
  inputs(c, i, a);
  starve(c);
  const int64_t live = c->tensors.live, calls = c->mem.calls;
  c->mem.fail_at = calls + k;
  flame_tensor *y = cases[i].run(c, a);
  const int good = right(i, y), reached = c->mem.calls >= calls + k;
  c->mem.fail_at = 0;
  CHECK(good || flame_error_code(c) == FLAME_NO_MEMORY);
  CHECK(reached || good);
  flame_free(y);
  CHECK(c->tensors.live == live);
  flame_clear_error(c);
  y = cases[i].run(c, a);
  CHECK(right(i, y));
  flame_free(y);
  free_all(a);
  flame_close(c);
  return reached;
}

/* ---- what one op alone refuses ------------------------------------------------------------- */

static void axes_count_from_0(flame_context *c) {
  flame_tensor *x = made(c, "f23"), *y = made(c, "f22"), *i = made(c, "i2");
  flame_tensor *const both[] = { x, y };
  REFUSED(flame_softmax(x, 2), "softmax: axis 2 is out of range for shape (2, 3)");
  REFUSED(flame_log_softmax(x, -3), "log_softmax: axis -3 is out of range for shape (2, 3)");
  REFUSED(flame_mean(x, 1, (int[]){ 2 }, 0), "mean: axis 2 is out of range for shape (2, 3)");
  REFUSED(flame_cat(c, 2, both, 0), "cat: shapes (2, 3) and (2, 2) differ outside axis 0");
  REFUSED(flame_cat(c, 2, both, 2), "cat: axis 2 is out of range");
  REFUSED(flame_transpose(x, 0, 2), "transpose: axis 2 is out of range for shape (2, 3)");
  REFUSED(flame_select(x, 1, 3), "select: position 3 is outside axis 1 of shape (2, 3)");
  REFUSED(flame_select(x, 1, -4), "select: position -1 is outside axis 1 of shape (2, 3)");
  REFUSED(flame_unsqueeze(x, 3), "unsqueeze: no axis 3 can be added to 2 axes");
  REFUSED(flame_squeeze(x, 2), "squeeze: axis 2 is out of range for shape (2, 3)");
  REFUSED(flame_gather(x, 0, i), "gather: index shape (2) does not go with (2, 3) along axis 0");
  REFUSED(flame_index_select(x, 5, i),
          "index_select: axis 5 is out of range for shape (2, 3)");
  flame_tensor *none = flame_full(c, FLAME_F32, 2, (int64_t[]){ 2, 0 }, 0);
  REFUSED(flame_amax(none, 1, (int[]){ 1 }, 0),
          "amax: axis 1 of shape (2, 0) is empty and has no amax");
  flame_tensor *all[] = { x, y, i, none };
  for (int k = 0; k < 4; k++) flame_free(all[k]);
}

static void sizes_are_looked_at(flame_context *c) {
  flame_tensor *x = made(c, "f23");
  REFUSED(flame_cat(c, 0, NULL, 0), "cat: no tensors are given");
  REFUSED(flame_stack(c, -1, NULL, 0), "stack: no tensors are given");
  REFUSED(flame_cat(c, 2, NULL, 0), "cat: 2 tensors without a list of them");
  REFUSED(flame_pad(x, NULL, NULL, 0), "pad: 2 sizes before without a list of them");
  REFUSED(flame_pad(x, (int64_t[]){ 0, -4 }, (int64_t[]){ 0, 0 }, 0),
          "pad: axis 1 would have fewer than no elements");
  REFUSED(flame_pad(x, (int64_t[]){ INT64_MAX, 0 }, (int64_t[]){ 1, 0 }, 0),
          "pad: axis 0 would have too many elements");
  REFUSED(flame_expand(x, 2, NULL), "expand: 2 sizes without a list of them");
  REFUSED(flame_expand(x, 2, (int64_t[]){ 2, 4 }), "expand: shape (2, 3) can not become (2, 4)");
  flame_free(x);
}

static void arguments_are_looked_at(flame_context *c) {
  flame_tensor *x = made(c, "f23"), *i = made(c, "i2"), *w = made(c, "f2");
  REFUSED(flame_arange(c, FLAME_U8, 300, 1, 2), "arange: 300 does not fit in u8");
  REFUSED(flame_arange(c, FLAME_F32, 0, 1, -1), "arange: size -1 is negative");
  REFUSED(flame_randint(c, FLAME_F32, 0, NULL, 0, 1),
          "randint: dtype f32 is not supported, need an integer type");
  REFUSED(flame_dropout(x, NAN), "dropout: p = nan, need 0 <= p <= 1");
  REFUSED(flame_dropout(x, 1.5), "dropout: p = 1.5, need 0 <= p <= 1");
  REFUSED(flame_layer_norm(x, 3, NULL, NULL, 0), "layer_norm: 3 axes to normalise, x has 2");
  REFUSED(flame_layer_norm(x, 1, w, NULL, 0), "layer_norm: weight has shape (2), need (3)");
  REFUSED(flame_cross_entropy(x, i, NULL, (flame_reduction)3, -100, 0),
          "cross_entropy: reduction 3, need FLAME_EACH, FLAME_MEAN or FLAME_SUM");
  REFUSED(flame_embedding(i, w), "embedding: w has shape (2), need (ids, size)");
  REFUSED(flame_tril(w, 0), "tril: x has 1 axes, need at least 2");
  flame_free(x), flame_free(i), flame_free(w);
}

static void attention_looks_at_shapes(flame_context *c) {
  flame_tensor *x = made(c, "f23");
  REFUSED(flame_attention(x, x, x, NULL, 1, 0), "attention: q, k and v need the shapes "
          "(b, h, t, d), (b, hk, s, d) and (b, hk, s, d2), none of them empty");
  flame_tensor *q = made(c, "f1111"), *m = made(c, "f11");
  CHECK(flame_requires_grad(m, 1) == FLAME_OK);
  REFUSED(flame_attention(q, q, q, m, 1, 0),
          "attention: the mask is tracked, and gets no gradient; use flame_detach");
  flame_tensor *half = flame_cast(q, FLAME_F16), *heads = made(c, "f1311"), *two = made(c, "f1211");
  CHECK(!flame_attention(q, half, q, NULL, 1, 0) && flame_error_code(c) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
  CHECK(!flame_attention(heads, two, two, NULL, 1, 0) &&
        flame_error_code(c) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
  flame_tensor *all[] = { x, q, m, half, heads, two };
  for (int k = 0; k < 6; k++) flame_free(all[k]);
}

static void parts_are_written(flame_context *c) {
  flame_tensor *x = made(c, "f23"), *i = made(c, "i2"), *w = made(c, "f2");
  CHECK(flame_write_slice(x, 0, 0, 3, 1, w) == FLAME_BAD_ARGUMENT);
  REFUSED(NULL, "write_slice: 3 positions from 0 by 1 leave axis 0 of shape (2, 3)");
  CHECK(flame_write_slice(i, 0, 0, 1, 1, x) == FLAME_BAD_ARGUMENT);
  REFUSED(NULL, "write_slice: f32 into a tensor of i64: cast it first");
  CHECK(flame_write_slice(NULL, 0, 0, 1, 1, x) == FLAME_BAD_ARGUMENT);
  flame_tensor *seven = flame_number(c, 7);
  CHECK(flame_write_slice(x, 0, 1, 1, 1, seven) == FLAME_OK);
  double v[ROOM];
  CHECK(values_of(x, v) == 6 && v[2] == 0.75 && v[3] == 7 && v[5] == 7);
  flame_tensor *all[] = { x, i, w, seven };
  for (int k = 0; k < 4; k++) flame_free(all[k]);
}

/* An index out of range is reported when the value is read, with the axis counted from 0. */
static void indices_are_checked_when_computed(flame_context *c) {
  const int64_t bad[2] = { 1, 4 };
  flame_tensor *x = made(c, "f23"), *i = flame_from_data(c, FLAME_I64, 1, (int64_t[]){ 2 }, bad);
  flame_tensor *y = flame_index_select(x, 1, i);
  double v[ROOM];
  CHECK(y && values_of(y, v) < 0 && flame_error_code(c) == FLAME_BAD_VALUE);
  REFUSED(NULL, "index_select: index 4 at position 2 is out of range for axis 1, need -3 to "
          "-1 or 1 to 3");
  flame_free(x), flame_free(i), flame_free(y);
}

/* A number that is read while the k-th allocation and all later ones fail is right, or the read
** fails; it can be read again in either case. */
static void a_number_is_read_without_memory(flame_context *c) {
  flame_tensor *x = made(c, "f23");
  double all[ROOM] = { 0 }, sum = 0, v;
  CHECK(values_of(x, all) == 6);
  for (int i = 0; i < 6; i++) sum += all[i];
  int reached = 1, failures = 0;
  for (int64_t k = 1; reached && k < 100; k++) {
    flame_tensor *y = flame_sum(x, 0, NULL, 0);
    starve(c);
    const int64_t calls = c->mem.calls;
    c->mem.fail_at = calls + k;
    c->mem.fail_forever = 1;             /* a read tries again after one failure */
    const flame_status e = flame_item(y, &v);
    reached = c->mem.calls >= calls + k;
    c->mem.fail_at = c->mem.fail_forever = 0;
    CHECK(e == FLAME_OK ? fabs(v - sum) < 1e-6 : e == FLAME_NO_MEMORY && reached);
    failures += e != FLAME_OK;
    flame_clear_error(c);
    CHECK(flame_item(y, &v) == FLAME_OK && fabs(v - sum) < 1e-6);
    flame_free(y);
  }
  CHECK(failures > 0 && !reached);
  flame_free(x);
}

/* A scalar function of x, w and b, composed of functions that each have a gradient rule. Returns
** its value; *out, if not NULL, gets the tensor. */
static double loss_of(flame_tensor *x, flame_tensor *w, flame_tensor *b, flame_tensor **out) {
  flame_tensor *h = flame_linear(x, w, b), *s = flame_silu(h), *n = flame_softmax(s, 1);
  flame_tensor *t = flame_logsumexp(n, 1, (int[]){ 0 }, 0), *v = flame_var(t, 0, NULL, 1, 0);
  double y = NAN;
  flame_item(v, &y);
  if (out) *out = v;
  flame_tensor *all[] = { h, s, n, t, out ? NULL : v };
  for (int k = 0; k < 5; k++) flame_free(all[k]);
  return y;
}

/* Compares the gradient of loss_of with respect to w with central differences. */
static void gradients_go_through(flame_context *c) {
  flame_tensor *w = made(c, "f22"), *x = made(c, "s32"), *b = made(c, "s2"), *loss;
  double g[ROOM] = { 0 };
  flame_requires_grad(w, 1);
  loss_of(x, w, b, &loss);
  CHECK(flame_backward(loss, NULL) == FLAME_OK);
  flame_tensor *d = flame_grad_of(w);
  CHECK(values_of(d, g) == 4);
  for (int k = 0; k < 4; k++) {
    double y[2];
    for (int side = 0; side < 2; side++) {
      float v[4] = { 0.25f, 0.5f, 0.75f, 1 };
      v[k] += side ? 0.03125f : -0.03125f;
      flame_tensor *moved = flame_from_data(c, FLAME_F32, 2, (int64_t[]){ 2, 2 }, v);
      y[side] = loss_of(x, moved, b, NULL);
      flame_free(moved);
    }
    CHECK(fabs((y[1] - y[0]) * 16 - g[k]) < 1e-4 && g[k] != 0);
  }
  flame_tensor *all[] = { w, x, b, loss, d };
  for (int k = 0; k < 5; k++) flame_free(all[k]);
}

int main(void) {
  flame_context *c = open_context(), *other = open_context();
  table(c);
  for (int i = 0; i < CASES; i++) {
    now = cases[i].name;
    gives_the_value(c, i);
    refuses_operands(c, other, i);
    int64_t k = 1;
    while (k < 500 && survives(i, k)) k++;
    CHECK(k > 1 && k < 500);
  }
  now = "names and makers", names_and_makers(c, other);
  now = "opening", opening_takes_options(), opening_takes_memory();
  now = "nothing", nothing_is_known_of_nothing(c);
  now = "axes count from 0", axes_count_from_0(c);
  now = "arguments are looked at", sizes_are_looked_at(c), arguments_are_looked_at(c);
  now = "attention", attention_looks_at_shapes(c);
  now = "parts are written", parts_are_written(c);
  now = "indices are checked when computed", indices_are_checked_when_computed(c);
  now = "a number is read without memory", a_number_is_read_without_memory(c);
  now = "gradients go through", gradients_go_through(c);
  now = "the end";
  CHECK(c->tensors.live == 0 && other->tensors.live == 0);
  flame_close(c);
  flame_close(other);
  printf("test_header: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
