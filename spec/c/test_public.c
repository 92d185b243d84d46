/*
** The op functions of flame.h without evaluation: shapes, dtypes, errors, ownership. The engine
** here is a fake that gives memory and computes nothing; test_header.c tests values.
*/
#include "fake_engine.h"

static flame_tensor *ones(flame_context *c, flame_dtype t, int64_t rows, int64_t cols) {
  return flame_full(c, t, 2, (int64_t[]){rows, cols}, 1);
}

/* A tensor that has its value in memory, like one of flame_from_data. */
static flame_tensor *stored(flame_context *c, int64_t rows, int64_t cols) {
  FL_ENTER(c);
  flame_tensor *t = fl_tensor_new(c, data(c, rows, cols));
  FL_LEAVE(c);
  return t;
}

static int shaped(const flame_tensor *x, int ndim, int64_t a, int64_t b) {
  return x && flame_ndim(x) == ndim && (ndim < 1 || flame_size(x, 0) == a) &&
         (ndim < 2 || flame_size(x, 1) == b);
}

static void says(flame_context *c, flame_tensor *x, const char *text) {
  if (x || strcmp(flame_error(c), text)) printf("  %s\n", flame_error(c));
  CHECK(!x && !strcmp(flame_error(c), text));
  CHECK(c->borrowed.n == 0);
  flame_clear_error(c);
  flame_free(x);
}

static void ops_go_by_their_name(flame_context *c) {
  flame_tensor *x = ones(c, FLAME_F32, 2, 3), *i = ones(c, FLAME_I64, 2, 3);
  flame_tensor *all[] = {flame_unary("exp", x), flame_binary("add", x, i),
                         flame_binary("lt", x, i), flame_ternary("clamp", x, x, x)};
  const flame_dtype want[] = {FLAME_F32, FLAME_F32, FLAME_BOOL, FLAME_F32};
  for (int k = 0; k < 4; k++) {
    CHECK(shaped(all[k], 2, 2, 3) && flame_dtype_of(all[k]) == want[k]);
    flame_free(all[k]);
  }
  says(c, flame_unary("exq", x), "exq: there is no unary op of this name");
  says(c, flame_unary("add", x), "add: there is no unary op of this name");
  CHECK(flame_unary("exp", NULL) == NULL && flame_error_code(c) == FLAME_OK);
  CHECK(flame_add(x, flame_exp(NULL)) == NULL && flame_error_code(c) == FLAME_OK);
  flame_free(x);
  flame_free(i);
}

static void no_context_gives_no_tensor(void) {
  const int64_t one[1] = {1};
  flame_tensor *x[] = {flame_full(NULL, FLAME_F32, 1, one, 1),
                       flame_uniform(NULL, FLAME_F32, 1, one, 0, 1),
                       flame_normal(NULL, FLAME_F32, 1, one, 0, 1), flame_number(NULL, 1)};
  for (int i = 0; i < 4; i++) CHECK(!x[i] && !flame_exp(x[i]));
  flame_seed(NULL, 1);
  flame_interrupt(NULL);
  flame_clear_error(NULL);
  CHECK(flame_grad_mode(NULL, 1) == 0 && flame_error_code(NULL) == FLAME_NO_MEMORY &&
        flame_error(NULL)[0]);
}

static void reductions_take_negative_axes(flame_context *c) {
  flame_tensor *x = ones(c, FLAME_F32, 2, 3), *i = ones(c, FLAME_I32, 2, 3);
  flame_tensor *a = flame_reduce("sum", x, 1, (int[]){-1}, 0);
  flame_tensor *b = flame_reduce("amax", x, 1, (int[]){0}, 1), *d = flame_sum_all(i);
  flame_tensor *m = flame_mean_all(x), *s = flame_softmax(x, -1);
  CHECK(shaped(a, 1, 2, 0) && shaped(b, 2, 1, 3) && shaped(m, 0, 0, 0) && shaped(s, 2, 2, 3));
  CHECK(shaped(d, 0, 0, 0) && flame_dtype_of(d) == FLAME_I64);
  says(c, flame_reduce("sum", x, 1, (int[]){2}, 0), "sum: axis 2 is out of range for shape (2, 3)");
  says(c, flame_reduce("sum", x, 2, (int[]){1, -1}, 0), "sum: axis -1 is named twice");
  says(c, flame_var(x, 2, (int[]){0, 0}, 1, 0), "var: axis 0 is named twice");
  flame_tensor *all[] = {x, i, a, b, d, m, s};
  for (int k = 0; k < 7; k++) flame_free(all[k]);
}

static void numbers_take_the_other_operands_dtype(flame_context *c) {
  flame_tensor *two = flame_number(c, 2), *half = flame_number(c, 0.5);
  flame_tensor *i = ones(c, FLAME_I64, 2, 3), *x = ones(c, FLAME_F16, 2, 3);
  flame_tensor *a = flame_mul(i, two), *b = flame_mul(i, half), *d = flame_mul(half, x);
  CHECK(flame_dtype_of(a) == FLAME_I64 && flame_dtype_of(b) == FLAME_F32);
  CHECK(flame_dtype_of(d) == FLAME_F16 && flame_requires_grad(two, 1) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
  says(c, flame_full(c, FLAME_U8, 0, NULL, 256), "full: 256 does not fit in u8");
  says(c, flame_full(c, FLAME_I64, 0, NULL, 0.5), "full: 0.5 does not fit in i64");
  flame_tensor *all[] = {two, half, i, x, a, b, d};
  for (int k = 0; k < 7; k++) flame_free(all[k]);
}

static void views_refuse_writes(flame_context *c) {
  flame_tensor *x = ones(c, FLAME_F32, 2, 3);
  flame_tensor *r = flame_reshape(x, 2, (int64_t[]){3, -1}), *p = flame_permute(x, (int[]){-1, 0});
  flame_tensor *s = flame_slice(x, 1, 0, 2, 1);
  CHECK(shaped(r, 2, 3, 2) && shaped(p, 2, 3, 2) && shaped(s, 2, 2, 2));
  CHECK(flame_write(r, r) == FLAME_BAD_ARGUMENT);
  says(c, NULL, "write: write to a view made by reshape: write x[{2, 3}] = v, or clone() first");
  says(c, flame_permute(x, (int[]){1, -1}), "permute: axis -1 is named twice");
  flame_tensor *own = flame_clone(s);
  CHECK(own && !own->view && own->node->layout->contiguous && flame_write(own, s) == FLAME_OK);
  flame_tensor *all[] = {x, r, p, s, own};
  for (int k = 0; k < 5; k++) flame_free(all[k]);
}

static void results_are_handles_of_their_own(flame_context *c) {
  flame_tensor *x = stored(c, 2, 3), *same = flame_cast(x, FLAME_F32), *twin = flame_clone(x);
  flame_tensor *sum = flame_reduce("sum", twin, 1, (int[]){1}, 0);
  CHECK(same->node != x->node && same->node->buffer == x->node->buffer);
  CHECK(twin->node->buffer == x->node->buffer && !twin->view);
  CHECK(flame_requires_grad(twin, 1) == FLAME_OK && !fl_tensor_tracked(x));
  CHECK(flame_write(x, sum) == FLAME_BAD_ARGUMENT);
  says(c, NULL, "write: x has shape (2, 3) and the value (2)");
  CHECK(flame_write(x, x) == FLAME_OK && x->node->home != NULL);
  flame_tensor *d = flame_detach(twin);
  CHECK(d && !fl_tensor_tracked(d) && fl_tensor_is_leaf(d));
  flame_tensor *all[] = {x, same, twin, sum, d};
  for (int k = 0; k < 5; k++) flame_free(all[k]);
}

static void writes_cast_but_not_floats_to_integers(flame_context *c) {
  flame_tensor *x = ones(c, FLAME_F32, 2, 3), *i = ones(c, FLAME_I64, 2, 3);
  flame_tensor *seven = flame_number(c, 7), *half = flame_number(c, 0.5);
  CHECK(flame_write(x, i) == FLAME_OK && flame_dtype_of(x) == FLAME_F32);
  CHECK(flame_write(i, seven) == FLAME_OK && flame_dtype_of(i) == FLAME_I64);
  CHECK(flame_write(i, x) == FLAME_BAD_ARGUMENT);
  says(c, NULL, "write: f32 into a tensor of i64: cast it first");
  CHECK(flame_write(i, half) == FLAME_BAD_ARGUMENT);
  says(c, NULL, "write: 0.5 does not fit in i64");
  CHECK(flame_write(NULL, x) == FLAME_BAD_ARGUMENT && flame_write(x, NULL) != FLAME_OK);
  flame_tensor *all[] = {x, i, seven, half};
  for (int k = 0; k < 4; k++) flame_free(all[k]);
}

static void operands_of_two_contexts_do_not_mix(flame_context *c) {
  flame_context other;
  CHECK(open_into(&other));
  flame_tensor *x = ones(c, FLAME_F32, 1, 1), *y = ones(&other, FLAME_F32, 1, 1);
  says(c, flame_add(x, y), "add: operands of different contexts");
  flame_free(x);
  flame_free(y);
  close_and_count(&other);
}

static void program(flame_context *c) {
  flame_tensor *x = stored(c, 4, 3);
  if (x) (void)flame_requires_grad(x, 1);
  flame_tensor *w = flame_normal(c, FLAME_F32, 2, (int64_t[]){3, 5}, 0, 1);
  flame_tensor *p = flame_matmul(x, w), *s = p ? flame_softmax(p, -1) : NULL;
  flame_tensor *half = flame_number(c, 0.5), *y = s && half ? flame_mul(s, half) : NULL;
  flame_tensor *v = y ? flame_reshape(y, 1, (int64_t[]){-1}) : NULL, *m = flame_mean_all(v);
  flame_tensor *own = v ? flame_clone(v) : NULL;
  if (own && half) (void)flame_write(own, half);
  flame_tensor *all[] = {x, w, p, s, half, y, v, m, own};
  for (int k = 0; k < 9; k++) flame_free(all[k]);
}

static void every_failing_allocation_is_survived(flame_context *unused) {
  (void)unused;
  survive_failing_allocations(program);
}

int main(void) {
  static const test tests[] = {
    TEST(ops_go_by_their_name),
    TEST(reductions_take_negative_axes),
    TEST(numbers_take_the_other_operands_dtype),
    TEST(views_refuse_writes),
    TEST(results_are_handles_of_their_own),
    TEST(writes_cast_but_not_floats_to_integers),
    TEST(operands_of_two_contexts_do_not_mix),
    TEST(every_failing_allocation_is_survived),
  };
  no_context_gives_no_tensor();
  return run_tests("public", tests, (int)(sizeof tests / sizeof *tests));
}
