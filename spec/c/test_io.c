/*
** src/io with failing allocations and damaged files: nothing leaks, nothing crashes, there is an
** error in the context whenever nothing is returned, and the old file survives a failed save.
*/
#include "io/io.h"
#include "tensor/build.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int passed, failed;
static char folder[64], path[128];

static void check(int ok, const char *what) {
  if (ok) passed++;
  else {
    failed++;
    printf("failed: %s\n", what);
  }
}

typedef flame_status (*save_fn)(flame_context *c, const char *path, fl_node *n);
typedef fl_node *(*load_fn)(flame_context *c, const char *path);

static flame_status save_st(flame_context *c, const char *p, fl_node *n) {
  fl_to_save s[2] = { { { "w", 1 }, n }, { { "a.b", 3 }, n } };
  const fl_pair meta[1] = { { { "flame", 5 }, { "1:{}", 4 } } };
  return fl_safetensors_save(c, p, 2, s, 1, meta);
}
static fl_node *load_st(flame_context *c, const char *p) {
  fl_archive a;
  fl_node *n = NULL;
  if (fl_safetensors_open(&a, c, p) == FLAME_OK && a.tensors.n > 0)
    n = fl_safetensors_read(&a, &a.tensors.at[0], 0);
  fl_safetensors_close(&a);
  return n;
}
static flame_status save_npz(flame_context *c, const char *p, fl_node *n) {
  const fl_to_save s[2] = { { { "w", 1 }, n }, { { "v", 1 }, n } };
  return fl_npz_save(c, p, 2, s);
}
static fl_node *load_npz(flame_context *c, const char *p) {
  fl_zip z;
  fl_node *n = NULL;
  if (fl_zip_open(&z, c, p) == FLAME_OK && z.members.n > 0)
    n = fl_npz_read(&z, &z.members.at[0], 0);
  fl_zip_close(&z);
  return n;
}
static fl_node *load_npy(flame_context *c, const char *p) { return fl_npy_read(c, p, 0); }
static fl_node *load_idx(flame_context *c, const char *p) { return fl_idx_read(c, p, 0); }

static const float values[6] = { 1, 2, 3, 4, 5, 6 };
static const int64_t shape[2] = { 2, 3 };

static flame_status save_png(flame_context *c, const char *p, fl_node *n) {
  fl_node *bytes = n_cast(n, FLAME_U8);
  return bytes ? fl_png_save(c, p, bytes) : c->err.code;
}
static fl_node *load_png(flame_context *c, const char *p) {
  fl_node *n = fl_png_read(c, p, 0);
  return n ? n_cast(n, FLAME_F32) : NULL;
}

/* Reads a csv file of 2 x 3 numbers. */
static fl_node *load_csv(flame_context *c, const char *p) {
  float v[6] = { 0 };
  FILE *f = fopen(p, "r");
  const int n = f ? fscanf(f, "%f,%f,%f\n%f,%f,%f", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5]) : 0;
  if (f) fclose(f);
  return fl_node_from_host(c, 0, FLAME_F32, n == 6 ? 2 : 0, shape, v);
}

static flame_status save_parts(flame_context *c, const char *p, fl_node *n) {
  FILE *f = fopen(p, "w");
  (void)n;
  if (!f) return FL_FAIL(c, FLAME_IO, "save", "%s", p);
  fputs("{\"weight_map\": {\"b\": \"x.safetensors\", \"a\": \"y.safetensors\"}}", f);
  fclose(f);
  return FLAME_OK;
}
static fl_node *load_parts(flame_context *c, const char *p) {
  fl_parts parts;
  fl_node *n = NULL;
  if (fl_parts_open(&parts, c, p) == FLAME_OK && parts.files.n == 2 &&
      parts.files.at[0].key.at[0] == 'a')
    n = fl_node_from_host(c, 0, FLAME_F32, 2, shape, values);
  else if (c->err.code == FLAME_OK) FL_FAIL(c, FLAME_IO, "load", "another list");
  fl_parts_close(&parts);
  return n;
}

/* Loads the file once; 1 if it has the right values, 0 if it has others or there is an error in the
** context, -1 if it gives no node and no error. */
static int load_once(flame_context *c, load_fn load) {
  float got[6];
  flame_clear_error(c);
  FL_ENTER(c);
  fl_node *n = load(c, path);
  const int value = n && n->shape->numel == 6 && fl_read_node(c, n, got, sizeof got) == FLAME_OK &&
                    memcmp(got, values, sizeof got) == 0;
  const int error = n || flame_error_code(c) != FLAME_OK;
  FL_LEAVE(c);
  return value ? 1 : error ? 0 : -1;
}

static flame_status save_once(flame_context *c, save_fn save, flame_tensor *x) {
  flame_clear_error(c);
  FL_ENTER(c);
  const flame_status e = save(c, path, x->node);
  FL_LEAVE(c);
  return e;
}

static void failing_allocations(flame_context *c, const char *name, save_fn save, load_fn load,
                                flame_tensor *x) {
  int ok = 1, k = 1, before = 0;
  for (int i = 0; i < 5; i++)                                        /* a GPU notes its last runs */
    ok = ok && save_once(c, save, x) == FLAME_OK && load_once(c, load) == 1;
  const int64_t blocks = c->mem.live_blocks;
  for (int forever = 0; forever < 2; forever++) {
    for (k = 1; k < 200; k++) {
      c->mem.fail_at = c->mem.calls + k;
      c->mem.fail_forever = forever;
      const flame_status e = save_once(c, save, x);
      const int r = load_once(c, load);
      const int done = c->mem.calls < c->mem.fail_at;
      c->mem.fail_at = 0;
      ok = ok && r >= 0 && (e == FLAME_OK || load_once(c, load) == 1);
      if (done) break;
      before++;
    }
  }
  check(ok && before > 0 && k < 200, name);
  check(c->mem.live_blocks <= blocks + 2, "failing allocations leave nothing behind");
}

static void damaged(flame_context *c, const char *name, load_fn load) {
  static unsigned char text[4096];
  int ok = 1;
  FILE *f = fopen(path, "rb");
  const size_t n = f ? fread(text, 1, sizeof text, f) : 0;
  if (f) fclose(f);
  const int64_t blocks = c->mem.live_blocks;
  for (size_t i = 0; i < 2 * n; i++) {
    const unsigned char keep = text[i % n];
    text[i % n] = (unsigned char)(i < n ? keep ^ 1 << (i & 7) : 0xff);
    f = fopen(path, "wb");
    if (f && fwrite(text, 1, n, f) == n && fclose(f) == 0) ok = ok && load_once(c, load) >= 0;
    text[i % n] = keep;
  }
  check(ok && n > 0, name);
  check(c->mem.live_blocks <= blocks + 2, "damaged files leave nothing behind");
}

static void write_idx(void) {
  static const unsigned char head[12] = { 0, 0, 0x0D, 2, 0, 0, 0, 2, 0, 0, 0, 3 };
  float v[6];
  memcpy(v, values, sizeof v);
  fl_io_swap(v, sizeof v, 4);
  FILE *f = fopen(path, "wb");
  if (!f) return;
  fwrite(head, 1, sizeof head, f);
  fwrite(v, 1, sizeof v, f);
  fclose(f);
}

int main(void) {
  snprintf(folder, sizeof folder, "/tmp/flame-io-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  snprintf(path, sizeof path, "%s/file", folder);
  flame_context *c = flame_open(NULL);
  flame_tensor *x = flame_from_data(c, FLAME_F32, 2, shape, values);
  const struct { const char *name; save_fn save; load_fn load; } kinds[] = {
    { "safetensors", save_st, load_st }, { "npy", fl_npy_save, load_npy },
    { "npz", save_npz, load_npz },
    { "png", save_png, load_png }, { "csv", fl_csv_save, load_csv },
    { "list of files", save_parts, load_parts }
  };
  for (int i = 0; i < 6; i++) {
    failing_allocations(c, kinds[i].name, kinds[i].save, kinds[i].load, x);
    save_once(c, kinds[i].save, x);
    damaged(c, kinds[i].name, kinds[i].load);
  }
  write_idx();
  check(load_once(c, load_idx) == 1, "an IDX file is read");
  damaged(c, "idx", load_idx);
  flame_free(x);
  flame_close(c);
  unlink(path);
  check(rmdir(folder) == 0, "no temporary file is left");
  printf("io: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
