/*
** Functions of flame.h about facts of tensors, devices, memory and files: right and wrong
** arguments, and the k-th allocation failing while a file is written and read.
*/
#include "header_tensors.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int passed, failed;
static const char *now = "";

#define CHECK(x) check((x) != 0, #x, __LINE__)
static void check(int ok, const char *text, int line) {
  if (ok) passed++; else failed++;
  if (!ok) printf("test_header_files.c:%d: %s: %s\n", line, now, text);
}

/* ---- facts and devices --------------------------------------------------------------------- */

static void facts(flame_context *c) {
  flame_tensor *x = made(c, "f23");
  CHECK(!strcmp(flame_device_of(x), "cpu") && !strcmp(flame_device_of(NULL), ""));
  CHECK(!strcmp(flame_dtype_name(FLAME_BF16), "bf16") && flame_dtype_size(FLAME_BF16) == 2);
  CHECK(!flame_dtype_name((flame_dtype)99)[0] && flame_dtype_size((flame_dtype)-1) == 0);
  CHECK(flame_device_count(c) >= 0 && flame_device_count(NULL) == 0);
  CHECK(flame_synchronize(c) == FLAME_OK && flame_synchronize(NULL) == FLAME_BAD_ARGUMENT);
  flame_memory_use m = { .size = sizeof m };
  CHECK(flame_memory(c, NULL, &m) == FLAME_OK && m.tensors >= 24 && m.tensors_peak >= m.tensors);
  CHECK(m.host > 0 && m.host_peak >= m.host && m.size == sizeof m);
  CHECK(flame_memory(c, "cpu", &m) == FLAME_OK && flame_memory(NULL, "cpu", &m) != FLAME_OK);
  struct { flame_memory_use first; int64_t later; } longer = { { .size = sizeof longer }, 5 };
  CHECK(flame_memory(c, "cpu", &longer.first) == FLAME_OK && longer.later == 5);
  m.size = 0;
  CHECK(flame_memory(c, "cpu", &m) == FLAME_BAD_ARGUMENT);
  CHECK(flame_memory(c, "gpu", &m) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
  flame_empty_cache(c);
  flame_empty_cache(NULL);
  flame_free(x);
}

/* ---- files --------------------------------------------------------------------------------- */

typedef struct seen { int n; char names[ROOM]; double sum; int stop_at; } seen;

static flame_status note(void *arg, const char *name, flame_tensor *x) {
  seen *s = arg;
  double v[ROOM];
  const int64_t n = values_of(x, v);
  for (int k = 0; k < n; k++) s->sum += v[k];
  strcat(strcat(s->names, name), ";");
  flame_free(x);
  return ++s->n == s->stop_at ? FLAME_IO : FLAME_OK;
}

static void files(flame_context *c) {
  const char *const names[] = { "a", "b.c" };
  flame_tensor *x = made(c, "f23"), *i = made(c, "i2"), *const both[] = { x, i };
  static const char *const paths[] = { "x.safetensors", "x.npz" };
  for (int k = 0; k < 2; k++) {
    seen s = { 0 };
    CHECK(flame_save(c, paths[k], 2, names, both) == FLAME_OK);
    CHECK(flame_load_all(c, paths[k], note, &s) == FLAME_OK && s.n == 2 && s.sum == 8.25);
    CHECK(strstr(s.names, "a;") && strstr(s.names, "b.c;"));
    flame_tensor *y = flame_load(c, paths[k], "b.c");
    CHECK(flame_numel(y) == 2 && flame_dtype_of(y) == FLAME_I64);
    flame_free(y);
    CHECK(!flame_load(c, paths[k], "d") && strstr(flame_error(c), "there is no tensor 'd'"));
    flame_clear_error(c);
    CHECK(!flame_load(c, paths[k], NULL) && strstr(flame_error(c), "has 2 tensors; say which"));
    flame_clear_error(c);
    seen first = { .stop_at = 1 };
    CHECK(flame_load_all(c, paths[k], note, &first) == FLAME_IO && first.n == 1);
    CHECK(strstr(flame_error(c), "failed with status 7"));
    flame_clear_error(c);
  }
  remove(paths[0]), remove(paths[1]);
  flame_free(x), flame_free(i);
}

/* An npz file has its tensors in the order in which they were saved, and no name twice. */
static void order_of_files(flame_context *c) {
  static const char path[] = "order.npz";
  const char *const names[] = { "b", "c", "a" }, *const twice[] = { "b", "c", "b" };
  flame_tensor *x = made(c, "f23"), *i = made(c, "i2"), *const all[] = { x, i, x };
  seen s = { 0 };
  CHECK(flame_save(c, path, 3, names, all) == FLAME_OK);
  CHECK(flame_load_all(c, path, note, &s) == FLAME_OK && !strcmp(s.names, "b;c;a;"));
  CHECK(flame_save(c, path, 3, twice, all) == FLAME_BAD_ARGUMENT);
  CHECK(strstr(flame_error(c), "the name 'b' appears twice") != NULL);
  flame_clear_error(c);
  flame_tensor *y = flame_load(c, path, "a");             /* the old file stays */
  CHECK(flame_numel(y) == 6);
  flame_free(y);
  remove(path);
  flame_free(x), flame_free(i);
}

static void files_that_are_refused(flame_context *c) {
  const char *const names[] = { "a", "b.c" };
  flame_tensor *x = made(c, "f23"), *i = made(c, "i2"), *const both[] = { x, i };
  static const char path[] = "none.safetensors";
  CHECK(flame_save(c, "x.npy", 2, names, both) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
  CHECK(flame_save(c, "x.npy", 1, names, both) == FLAME_OK);
  flame_tensor *y = flame_load(c, "x.npy", NULL);
  CHECK(flame_numel(y) == 6 && flame_ndim(y) == 2);
  flame_free(y);
  remove("x.npy");
  CHECK(!flame_load(c, path, NULL) && flame_error_code(c) == FLAME_IO);
  flame_clear_error(c);
  CHECK(!flame_load(c, NULL, NULL) && flame_error_code(c) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
  CHECK(!flame_load(NULL, path, NULL) && flame_load_all(NULL, "x", note, NULL) != FLAME_OK);
  CHECK(flame_load_all(c, path, NULL, NULL) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
  CHECK(flame_save(c, NULL, 0, NULL, NULL) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
  CHECK(flame_save(c, path, 1, names, NULL) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
  CHECK(flame_save(c, path, 1, (const char *[]){ NULL }, both) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
  CHECK(flame_save(c, path, 1, names, (flame_tensor *[]){ NULL }) == FLAME_BAD_ARGUMENT);
  flame_clear_error(c);
  CHECK(flame_save(c, "/nowhere/x.safetensors", 1, names, both) == FLAME_IO);
  flame_clear_error(c);
  static const char *const unreadable[] = { "__metadata__", "a\xff", "x\xed\xa0\x80y" };
  for (int k = 0; k < 3; k++) {
    CHECK(flame_save(c, "never.safetensors", 1, unreadable + k, both) == FLAME_BAD_ARGUMENT);
    CHECK(strstr(flame_error(c), "safetensors can not have the name") != NULL);
    flame_clear_error(c);
    CHECK(!flame_load(c, "never.safetensors", NULL));
    flame_clear_error(c);
  }
  flame_free(x), flame_free(i);
}

/* Writes a file and reads it while the k-th allocation fails; 0 if there are fewer than k. */
static int file_survives(int64_t k) {
  static const char path[] = "oom.safetensors";
  const char *const names[] = { "a", "b" };
  flame_context *c = open_context();
  flame_tensor *x = made(c, "f23"), *i = made(c, "i2"), *const both[] = { x, i };
  flame_eval(c);
  const int64_t live = c->tensors.live, calls = c->mem.calls;
  seen s = { 0 };
  c->mem.fail_at = calls + k;
  flame_status e = flame_save(c, path, 2, names, both);
  if (e == FLAME_OK) e = flame_load_all(c, path, note, &s);
  flame_tensor *y = e == FLAME_OK ? flame_load(c, path, "b") : NULL;
  if (e == FLAME_OK && !y) e = flame_error_code(c);
  const int reached = c->mem.calls >= calls + k;
  c->mem.fail_at = 0;
  CHECK(e == FLAME_OK || e == FLAME_NO_MEMORY);
  CHECK(reached || (e == FLAME_OK && s.n == 2));
  flame_free(y);
  CHECK(c->tensors.live == live);
  flame_free(x), flame_free(i);
  flame_close(c);
  remove(path);
  return reached;
}

int main(void) {
  char folder[] = "/tmp/flame-header-XXXXXX";
  if (!mkdtemp(folder) || chdir(folder)) return 1;
  flame_context *c = open_context();
  now = "facts", facts(c);
  now = "files", files(c), order_of_files(c), files_that_are_refused(c);
  int64_t k = 1;
  while (k < 500 && file_survives(k)) k++;
  CHECK(k > 5 && k < 500);
  now = "the end";
  CHECK(c->tensors.live == 0);
  flame_close(c);
  if (chdir("/") || rmdir(folder)) failed++;
  printf("test_header_files: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
