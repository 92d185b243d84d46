/* Memory that the library does not own: flame_borrow, and DLPack imports and exports, with a
** producer and a consumer that count their releases. The structs of DLPack are declared here. */
#include "tensor/build.h"
#include "tensor/context.h"
#include "tensor/tensor.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int32_t type, id; } device_t;
typedef struct { uint8_t code, bits; uint16_t lanes; } dtype_t;
typedef struct {
  void *data;
  device_t device;
  int32_t ndim;
  dtype_t dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} tensor_t;
typedef struct managed { tensor_t t; void *manager; void (*deleter)(struct managed *); } managed;

static int passed, failed;
#define CHECK(x) \
  ((x) ? (void)passed++ : (void)(failed++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

static int released;
static void count_release(void *p, void *arg) { (void)p; *(int *)arg += 1; }
static void count_delete(managed *m) { (void)m; released++; }

static int same(flame_tensor *x, const void *want, size_t bytes) {
  char have[256];
  return bytes <= sizeof have && flame_read(x, have, bytes) == FLAME_OK &&
         memcmp(have, want, bytes) == 0;
}

static void borrowed_memory_is_read_and_never_written(flame_context *c) {
  float data[4] = { 1, 2, 3, 4 };
  int count = 0;
  flame_tensor *x = flame_borrow(c, FLAME_F32, 2, (int64_t[]){ 2, 2 }, data, count_release, &count);
  flame_tensor *y = flame_add(x, x);
  CHECK(same(y, (float[]){ 2, 4, 6, 8 }, 16));
  flame_tensor *k = flame_number(c, 9);
  CHECK(flame_write(x, k) == FLAME_OK);
  CHECK(same(x, (float[]){ 9, 9, 9, 9 }, 16));
  CHECK(data[0] == 1 && data[3] == 4);
  flame_free(x);
  flame_free(y);
  flame_free(k);
  flame_eval(c);
  CHECK(count == 1);
}

/* Whichever allocation fails: where no tensor is made, the memory is not released, since it still
** belongs to its owner. */
static void memory_stays_its_owners_when_there_is_none_for_a_tensor(void) {
  float data[2] = { 1, 2 };
  int64_t shape[1] = { 2 };
  managed m = { .t = { data, { 1, 0 }, 1, { 2, 32, 1 }, shape, NULL, 0 }, .deleter = count_delete };
  int failures = 0;
  for (int64_t k = 1; k < 60; k++) {
    flame_context *c = flame_open(NULL);
    int count = 0;
    released = 0;
    c->mem.fail_at = c->mem.calls + k;
    c->mem.fail_forever = k % 2;
    flame_tensor *x = k % 4 < 2 ? flame_borrow(c, FLAME_F32, 1, shape, data, count_release, &count)
                                : flame_from_dlpack(c, &m);
    c->mem.fail_at = 0;
    if (!x) failures++;
    CHECK(count == 0 && released == 0);
    if (!x) CHECK(flame_error_code(c) == FLAME_NO_MEMORY);
    flame_free(x);
    flame_close(c);
    CHECK(count + released == (x != NULL));
  }
  CHECK(failures > 4);
}

static void borrowed_memory_is_there_and_aligned(flame_context *c) {
  double data[2] = { 1, 2 };
  int64_t shape[1] = { 1 }, none[1] = { 0 };
  CHECK(!flame_borrow(c, FLAME_F64, 1, shape, (char *)data + 1, NULL, NULL));
  CHECK(strstr(flame_error(c), "not aligned") != NULL);
  flame_clear_error(c);
  CHECK(!flame_borrow(c, FLAME_F64, 1, shape, NULL, NULL, NULL) &&
        !flame_from_data(c, FLAME_F64, 1, shape, NULL));
  CHECK(strstr(flame_error(c), "no data for 8 bytes") != NULL);
  flame_clear_error(c);
  flame_tensor *x = flame_borrow(c, FLAME_F64, 1, none, NULL, NULL, NULL),
               *y = flame_from_data(c, FLAME_F64, 1, none, NULL);
  CHECK(x && y);
  flame_free(x);
  flame_free(y);
}

/* Pairs of floats are read as doubles (n_bits), of borrowed memory and of slices of it: the bytes
** must be right whether or not they are aligned for doubles. */
static void bytes_of_borrowed_memory_are_where_they_are(flame_context *c) {
  _Alignas(16) float data[9];
  for (int i = 0; i < 9; i++) data[i] = (float)i;
  for (int from = 0; from < 3; from++) {
    flame_tensor *x = flame_borrow(c, FLAME_F32, 1, (int64_t[]){ 6 }, data + from, NULL, NULL);
    for (int at = 0; at < 3; at++) {
      flame_tensor *part = flame_slice(x, 0, at, 4, 1);
      flame_tensor *y = part ? fl_tensor_new(c, n_bits(part->node, FLAME_F64)) : NULL;
      CHECK(y && same(y, data + from + at, 16));
      flame_free(y);
      flame_free(part);
    }
    flame_free(x);
  }
}

static void closing_gives_borrowed_memory_back(void) {
  flame_context *c = flame_open(NULL);
  double data[3] = { 1, 2, 3 };
  int count = 0;
  flame_tensor *x = flame_borrow(c, FLAME_F64, 1, (int64_t[]){ 3 }, data, count_release, &count);
  flame_close(c);
  CHECK(count == 1);
  flame_free(x);
}

static void strided_tensors_come_in(flame_context *c) {
  int32_t data[6] = { 1, 2, 3, 4, 5, 6 };
  int64_t shape[2] = { 3, 2 }, strides[2] = { 1, 3 };               /* the transpose of 2 by 3 */
  managed m = { .t = { data, { 1, 0 }, 2, { 0, 32, 1 }, shape, strides, 0 },
                .deleter = count_delete };
  released = 0;
  flame_tensor *x = flame_from_dlpack(c, &m);
  CHECK(x != NULL);
  CHECK(same(x, (int32_t[]){ 1, 4, 2, 5, 3, 6 }, 24));
  strides[0] = -1;                                                  /* flipped, from the third on */
  m.t.byte_offset = 8;
  flame_tensor *y = flame_from_dlpack(c, &m);
  CHECK(same(y, (int32_t[]){ 3, 6, 2, 5, 1, 4 }, 24));
  flame_free(x);
  CHECK(released == 1);
  flame_free(y);
  CHECK(released == 2);
}

static void refused_tensors_stay_the_producers(flame_context *c) {
  int64_t shape[1] = { 2 };
  float data[4] = { 0 };
  const dtype_t f32 = { 2, 32, 1 },
                bad[] = { { 2, 32, 4 }, { 5, 64, 1 }, { 1, 32, 1 }, { 2, 8, 1 } };
  managed m = { .t = { data, { 1, 0 }, 1, f32, shape, NULL, 0 }, .deleter = count_delete };
  released = 0;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    m.t.dtype = bad[i];
    CHECK(flame_from_dlpack(c, &m) == NULL &&
          strstr(flame_error(c), "from_dlpack: no dtype") != NULL);
    flame_clear_error(c);
  }
  m.t.dtype = f32;
  m.t.device.type = 10;
  CHECK(flame_from_dlpack(c, &m) == NULL);
  flame_clear_error(c);
  m.t.device.type = 1;
  m.t.byte_offset = 1;
  CHECK(flame_from_dlpack(c, &m) == NULL && strstr(flame_error(c), "aligned") != NULL);
  flame_clear_error(c);
  m.t.byte_offset = 0;
  m.t.ndim = 9;
  CHECK(flame_from_dlpack(c, &m) == NULL);
  flame_clear_error(c);
  m.t.ndim = 1;
  shape[0] = -1;
  CHECK(flame_from_dlpack(c, &m) == NULL);
  flame_clear_error(c);
  CHECK(flame_from_dlpack(c, NULL) == NULL);
  flame_clear_error(c);
  CHECK(released == 0);
}

static void empty_and_scalar_tensors_come_in(flame_context *c) {
  double v = 2.5;
  int64_t none[2] = { 0, 4 };
  managed m = { .t = { &v, { 1, 0 }, 0, { 2, 64, 1 }, NULL, NULL, 0 } };
  flame_tensor *x = flame_from_dlpack(c, &m);
  double out = 0;
  CHECK(flame_item(x, &out) == FLAME_OK && out == 2.5);
  managed e = { .t = { NULL, { 1, 0 }, 2, { 2, 64, 1 }, none, NULL, 0 } };
  flame_tensor *y = flame_from_dlpack(c, &e);
  CHECK(y != NULL && flame_numel(y) == 0);
  flame_free(x);
  flame_free(y);
}

static void exports_are_copies(flame_context *c) {
  const float data[4] = { 1, 2, 3, 4 };
  flame_tensor *x = flame_from_data(c, FLAME_F32, 2, (int64_t[]){ 2, 2 }, data);
  flame_tensor *t = flame_permute(x, (int[]){ 1, 0 });
  managed *m = flame_to_dlpack(t, 0);
  CHECK(m && m->t.ndim == 2 && m->t.shape[0] == 2 && m->t.strides[0] == 2 && m->t.strides[1] == 1);
  CHECK(m && m->t.dtype.code == 2 && m->t.dtype.bits == 32 && m->t.device.type == 1);
  CHECK(m && memcmp(m->t.data, (float[]){ 1, 3, 2, 4 }, 16) == 0);
  if (m) {
    ((float *)m->t.data)[0] = 100;
    m->deleter(m);
  }
  CHECK(same(x, data, 16));
  flame_free(t);
  flame_free(x);
}

static void what_is_given_away_is_not_copied(flame_context *c) {
  flame_tensor *x = flame_full(c, FLAME_F64, 1, (int64_t[]){ 5 }, 3), *y = flame_add(x, x);
  managed *m = flame_to_dlpack(y, 1);
  CHECK(m && ((double *)m->t.data)[4] == 6);
  flame_tensor *z = m ? flame_from_dlpack(c, m) : NULL;              /* and back again */
  double out[5] = { 0 };
  CHECK(z && flame_read(z, out, sizeof out) == FLAME_OK && out[2] == 6);
  flame_free(z);
  /* x shares its memory with 'also', so the export must be a copy */
  flame_tensor *also = flame_detach(x);
  m = flame_to_dlpack(x, 1);
  CHECK(m && ((double *)m->t.data)[0] == 3);
  if (m) {
    ((double *)m->t.data)[0] = 7;
    m->deleter(m);
  }
  CHECK(same(also, (double[]){ 3, 3, 3, 3, 3 }, 40));
  flame_free(also);
}

/* An export that finds no memory fails, and its tensor still belongs to the caller. */
static void an_export_needs_memory(void) {
  int refused = 0;
  for (int64_t k = 1, more = 1; more && k < 500; k++) {
    flame_context *c = flame_open(NULL);
    const float data[4] = { 1, 2, 3, 4 };
    flame_tensor *x = flame_from_data(c, FLAME_F32, 2, (int64_t[]){ 2, 2 }, data);
    flame_tensor *t = flame_permute(x, (int[]){ 1, 0 });
    c->mem.fail_at = c->mem.calls + k;
    c->mem.fail_forever = 1;
    managed *m = flame_to_dlpack(t, 1);
    more = c->mem.calls >= c->mem.fail_at;
    c->mem.fail_at = 0;
    CHECK(m || (more && flame_error_code(c) == FLAME_NO_MEMORY));
    flame_clear_error(c);
    if (m) m->deleter(m);
    else refused += same(t, (float[]){ 1, 3, 2, 4 }, 16);
    if (!m) flame_free(t);
    flame_free(x);
    flame_close(c);
  }
  CHECK(refused > 2);
}

static void copies_outlive_the_context(void) {
  flame_context *c = flame_open(NULL);
  flame_tensor *x = flame_full(c, FLAME_I64, 1, (int64_t[]){ 3 }, 4);
  managed *m = flame_to_dlpack(x, 0);
  flame_free(x);
  flame_close(c);
  CHECK(m && ((int64_t *)m->t.data)[2] == 4);
  if (m) m->deleter(m);
}

int main(void) {
  setenv("FLAME_DEVICE", "cpu", 1);             /* the host reads the exported memory */
  flame_context *c = flame_open(NULL);
  borrowed_memory_is_read_and_never_written(c);
  borrowed_memory_is_there_and_aligned(c);
  bytes_of_borrowed_memory_are_where_they_are(c);
  strided_tensors_come_in(c);
  refused_tensors_stay_the_producers(c);
  empty_and_scalar_tensors_come_in(c);
  exports_are_copies(c);
  what_is_given_away_is_not_copied(c);
  CHECK(flame_error_code(c) == FLAME_OK);
  flame_close(c);
  closing_gives_borrowed_memory_back();
  memory_stays_its_owners_when_there_is_none_for_a_tensor();
  copies_outlive_the_context();
  an_export_needs_memory();
  printf("dlpack: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
