/*
** Wrong uses of flame.h: NULL for lists, buffers and names; the largest and smallest counts and
** positions; numbers in place of tensors; handles of a closed context. Each is reported by a status
** or NULL with a message, and nothing leaks.
*/
#include "flame.h"
#include <stdio.h>
#include <string.h>

static int passed, failed;

#define CHECK(x) check((x) != 0, #x, __LINE__)
static void check(int ok, const char *text, int line) {
  if (ok) passed++; else failed++;
  if (!ok) printf("test_misuse.c:%d: %s\n", line, text);
}

/* The call must return no tensor and leave this message, which is then cleared. */
#define REFUSED(call, text) refused((call), (text), c, __LINE__)
static void refused(flame_tensor *x, const char *text, flame_context *c, int line) {
  const int ok = !x && !strcmp(flame_error(c), text);
  if (!ok) printf("  got %s \"%s\"\n", x ? "a tensor and" : "", flame_error(c));
  check(ok, text, line);
  flame_clear_error(c);
  flame_free(x);
}

static const int64_t two_three[2] = { 2, 3 };

static void lists_that_are_not_there(flame_context *c, flame_tensor *x) {
  const float data[6] = { 0 };
  REFUSED(flame_from_data(c, FLAME_F32, 2, NULL, data), "tensor: 2 sizes without a list of them");
  REFUSED(flame_full(c, FLAME_F32, 2, NULL, 0), "full: 2 sizes without a list of them");
  REFUSED(flame_uniform(c, FLAME_F32, 1, NULL, 0, 1), "uniform: 1 sizes without a list of them");
  REFUSED(flame_reshape(x, 1, NULL), "reshape: 1 sizes without a list of them");
  REFUSED(flame_permute(x, NULL), "permute: 2 axes without a list of them");
  REFUSED(flame_reduce("sum", x, 1, NULL, 0), "sum: 1 axes without a list of them");
  REFUSED(flame_reduce("sum", x, -1, (int[]){ 0 }, 0), "sum: -1 axes without a list of them");
  flame_tensor *scalar = flame_full(c, FLAME_F32, 0, NULL, 7), *same = flame_permute(scalar, NULL);
  CHECK(flame_numel(scalar) == 1 && flame_ndim(same) == 0);
  flame_free(scalar);
  flame_free(same);
}

static void names_that_are_not_there(flame_context *c, flame_tensor *x) {
  REFUSED(flame_unary(NULL, x), "there is no unary op of this name");
  REFUSED(flame_reduce(NULL, x, 0, NULL, 0), "there is no reduction op of this name");
  CHECK(flame_to_device(x, NULL) == NULL && flame_error_code(c) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
}

static void positions_from_the_ends_of_their_type(flame_context *c, flame_tensor *x) {
  const int64_t ends[] = { INT64_MIN, INT64_MIN + 1, -1, 3, INT64_MAX - 1, INT64_MAX };
  for (int i = 0; i < 6; i++) {
    flame_tensor *y[] = { flame_slice(x, 1, ends[i], 2, 1),
                          flame_slice(x, 1, 1, ends[i] == 3 ? 4 : ends[i], 1),
                          flame_slice(x, 1, 1, 2, ends[i]),
                          flame_slice(x, -1, ends[i], 1, ends[i]) };
    for (int k = 0; k < 4; k++) {
      CHECK(y[k] == NULL || (k == 2 && ends[i] == -1 && flame_numel(y[k]) == 4));
      flame_free(y[k]);
    }
    CHECK(flame_error_code(c) == FLAME_BAD_ARGUMENT);
    flame_clear_error(c);
  }
}

static void messages_count_from_0(flame_context *c, flame_tensor *x) {
  const int64_t none[2] = { 0, 3 };
  flame_tensor *empty = flame_full(c, FLAME_F32, 2, none, 1);
  REFUSED(flame_slice(x, 1, 2, 2, 1),
          "slice: 2 positions from 2 by 1 leave axis 1 of shape (2, 3)");
  REFUSED(flame_slice(x, 2, 0, 1, 1), "slice: axis 2 is out of range for shape (2, 3)");
  REFUSED(flame_softmax(x, 2), "softmax: axis 2 is out of range for shape (2, 3)");
  REFUSED(flame_reduce("sum", x, 1, (int[]){ -3 }, 0),
          "sum: axis -3 is out of range for shape (2, 3)");
  REFUSED(flame_permute(x, (int[]){ 1, -1 }), "permute: axis -1 is named twice");
  REFUSED(flame_reduce("amax", empty, 1, (int[]){ 0 }, 0),
          "amax: axis 0 of shape (0, 3) is empty and has no amax");
  REFUSED(flame_from_data(c, FLAME_F32, 2, (int64_t[]){ 2, -3 }, none),
          "tensor: size -3 of axis 1 is negative");
  flame_free(empty);
}

static void ranges_that_hold_nothing(flame_context *c) {
  REFUSED(flame_uniform(c, FLAME_F32, 2, two_three, 2, 1),
          "uniform: the range from 2 to 1 is empty");
  REFUSED(flame_normal(c, FLAME_F32, 2, two_three, 0, -1), "normal: std = -1 is negative");
}

static void room_that_is_not_there(flame_context *c, flame_tensor *x) {
  flame_tensor *s = flame_sum_all(x);
  CHECK(flame_read(x, NULL, 24) == FLAME_BAD_ARGUMENT);
  CHECK(!strcmp(flame_error(c), "read: there is no room for 24 bytes"));
  flame_clear_error(c);
  CHECK(flame_item(s, NULL) == FLAME_BAD_ARGUMENT);
  CHECK(!strcmp(flame_error(c), "item: there is no room for the value"));
  flame_clear_error(c);
  flame_free(s);
}

static void numbers_are_no_tensors_but_have_a_value(flame_context *c) {
  flame_tensor *whole = flame_number(c, -3), *half = flame_number(c, 0.5);
  double v = 0, bits;
  CHECK(flame_item(whole, &v) == FLAME_OK && v == -3);
  CHECK(flame_item(half, &v) == FLAME_OK && v == 0.5);
  CHECK(flame_read(whole, &bits, 8) == FLAME_BAD_ARGUMENT);
  CHECK(!strcmp(flame_error(c), "evaluate: expected a tensor, got a number"));
  flame_clear_error(c);
  CHECK(flame_to_dlpack(whole, 0) == NULL && flame_error_code(c) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
  flame_free(whole);
  flame_free(half);
}

/* An op on operands of an open and a closed context fails, with the message in the open one. */
static void operands_of_a_closed_context(flame_context *c, flame_tensor *x) {
  flame_context *other = flame_open(NULL);
  flame_tensor *y = flame_full(other, FLAME_F32, 2, two_three, 1);
  double v;
  flame_close(other);
  REFUSED(flame_add(x, y), "add: operands of different contexts");
  CHECK(flame_write(x, y) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
  CHECK(!flame_exp(y) && !flame_clone(y) && !flame_grad_of(y) && !flame_to_dlpack(y, 1) &&
        flame_ndim(y) == -1);
  CHECK(flame_item(y, &v) != FLAME_OK && flame_backward(y, NULL) != FLAME_OK &&
        flame_requires_grad(y, 1) != FLAME_OK);
  flame_free(y);
}

int main(void) {
  flame_context *c = flame_open(FLAME_OPTIONS(.device = "cpu", .threads = -5));
  flame_tensor *x = flame_full(c, FLAME_F32, 2, two_three, 1);
  CHECK(x && flame_error_code(c) == FLAME_OK);
  lists_that_are_not_there(c, x);
  names_that_are_not_there(c, x);
  positions_from_the_ends_of_their_type(c, x);
  messages_count_from_0(c, x);
  ranges_that_hold_nothing(c);
  room_that_is_not_there(c, x);
  numbers_are_no_tensors_but_have_a_value(c);
  operands_of_a_closed_context(c, x);
  flame_free(x);
  flame_close(c);
  printf("misuse: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
