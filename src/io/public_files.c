/*
** Files of tensors for flame.h: safetensors, npz and npy. The format of a file is determined by its
** first bytes when it is read, and by its name's ending when it is written. Its tensors are read in
** the order of the file, one at a time, and each is handed over before the next is read.
*/
#include "io/npy.h"
#include "tensor/public.h"
#include <string.h>

/* What happens to the tensors of a file. An error ends the reading. */
typedef struct taking {
  flame_context *c;
  flame_status (*take)(void *arg, const char *name, flame_tensor *x);
  void *arg;
  const char *only;            /* the tensor that is requested; NULL: all */
  int alone;                   /* the file's only tensor is requested */
  int64_t met;
} taking;

static int wanted(const taking *t, fl_span name) {
  return !t->only || (strlen(t->only) == name.n && !memcmp(t->only, name.at, name.n));
}

/* Hands n over under the name. The callback owns the tensor, even if the callback fails. */
static flame_status give(taking *t, fl_span name, fl_node *n) {
  flame_context *c = t->c;
  char *text = n ? fl_alloc(&c->mem, name.n + 1) : NULL;
  if (n && !text) return FL_FAIL(c, FLAME_NO_MEMORY, "load", "host memory is out");
  flame_tensor *x = n ? fl_tensor_new(c, n) : NULL;
  flame_status e = x ? FLAME_OK : c->err.code;
  if (x) {
    memcpy(text, name.at, name.n);
    text[name.n] = 0;
    t->met++;
    c->callbacks++;
    e = t->take(t->arg, text, x);
    c->callbacks--;
    if (e != FLAME_OK)
      FL_FAIL(c, e > FLAME_INTERNAL || e < FLAME_OK ? FLAME_INTERNAL : e, "load",
              "the function that takes the tensors failed with status %d and no message", (int)e);
    e = c->err.code;
  }
  if (text) fl_free(&c->mem, text, name.n + 1);
  return e;
}

static flame_status need_alone(const taking *t, const char *path, int64_t n) {
  if (!t->alone || n == 1) return FLAME_OK;
  return FL_FAIL(t->c, FLAME_BAD_ARGUMENT, "load", "%s: has %lld tensors" FL_DO
                 "; say which by its name", path, (long long)n);
}

static flame_status take_safetensors(taking *t, const char *path) {
  flame_context *c = t->c;
  fl_archive a;
  flame_status e = fl_safetensors_open(&a, c, path);
  if (e == FLAME_OK) e = need_alone(t, path, a.tensors.n);
  for (int64_t i = 0; e == FLAME_OK && i < a.tensors.n; i++) {
    const fl_saved *s = &a.tensors.at[i];
    if (!wanted(t, s->name)) continue;
    FL_ENTER(c);
    e = give(t, s->name, fl_safetensors_read(&a, s, c->default_device));
    FL_LEAVE(c);
  }
  fl_safetensors_close(&a);
  return e;
}

static flame_status take_npz(taking *t, const char *path) {
  flame_context *c = t->c;
  fl_zip z;
  flame_status e = fl_zip_open(&z, c, path);
  if (e == FLAME_OK) e = need_alone(t, path, z.members.n);
  for (int64_t i = 0; e == FLAME_OK && i < z.members.n; i++) {
    const fl_member *m = &z.members.at[i];
    fl_span name = m->name;
    if (name.n > 4 && !memcmp(name.at + name.n - 4, ".npy", 4)) name.n -= 4;
    if (!wanted(t, name)) continue;
    FL_ENTER(c);
    e = give(t, name, fl_npz_read(&z, m, c->default_device));
    FL_LEAVE(c);
  }
  fl_zip_close(&z);
  return e;
}

static flame_status take_npy(taking *t, const char *path) {
  const fl_span name = { "", 0 };
  if (!wanted(t, name)) return FLAME_OK;
  FL_ENTER(t->c);
  const flame_status e = give(t, name, fl_npy_read(t->c, path, t->c->default_device));
  FL_LEAVE(t->c);
  return e;
}

static flame_status take_all(taking *t, const char *path) {
  unsigned char head[6] = { 0 };
  fl_reader f;
  size_t got = 0;
  if (!path) return FL_FAIL(t->c, FLAME_BAD_ARGUMENT, "load", "path is NULL");
  flame_status e = fl_reader_open(&f, t->c, "load", path);
  if (e == FLAME_OK) e = fl_reader_some(&f, head, sizeof head, &got);
  fl_reader_close(&f);
  if (e != FLAME_OK) return e;
  if (got == 6 && !memcmp(head, "\x93NUMPY", 6)) return take_npy(t, path);
  return got >= 4 && !memcmp(head, "PK\3\4", 4) ? take_npz(t, path) : take_safetensors(t, path);
}

flame_status flame_load_all(flame_context *c, const char *path,
                            flame_status (*take)(void *arg, const char *name, flame_tensor *x),
                            void *arg) {
  FL_HOLD(c, FLAME_BAD_ARGUMENT);
  taking t = { .c = c, .take = take, .arg = arg };
  if (!take) return FL_FAIL(c, FLAME_BAD_ARGUMENT, "load", "no function takes the tensors");
  const fl_error before = c->err;
  fl_error_clear(&c->err);
  const flame_status e = take_all(&t, path);
  if (before.code != FLAME_OK) c->err = before;
  return e;
}

static flame_status keep_one(void *arg, const char *name, flame_tensor *x) {
  flame_tensor **out = arg;
  (void)name;
  flame_free(*out);
  *out = x;
  return FLAME_OK;
}

flame_tensor *flame_load(flame_context *c, const char *path, const char *name) {
  FL_HOLD(c, NULL);
  flame_tensor *x = NULL;
  taking t = { .c = c, .take = keep_one, .arg = &x, .only = name, .alone = !name };
  const fl_error before = c->err;
  fl_error_clear(&c->err);
  flame_status e = take_all(&t, path);
  if (e == FLAME_OK && !x)
    e = FL_FAIL(c, FLAME_BAD_ARGUMENT, "load", "%s: there is no tensor '%s'", path, name);
  if (e != FLAME_OK) {
    flame_free(x);
    x = NULL;
  }
  if (before.code != FLAME_OK) c->err = before;
  return x;
}

/* ---- writing ------------------------------------------------------------------------------- */

static int ends_in(const char *path, const char *end) {
  const size_t n = strlen(path), m = strlen(end);
  return n >= m && !strcmp(path + n - m, end);
}

static flame_status save_as(flame_context *c, const char *path, int64_t n, fl_to_save *s) {
  if (ends_in(path, ".npz")) return fl_npz_save(c, path, n, s);
  if (!ends_in(path, ".npy")) return fl_safetensors_save(c, path, n, s, 0, NULL);
  if (n == 1) return fl_npy_save(c, path, s->node);
  return FL_FAIL(c, FLAME_BAD_ARGUMENT, "save", "%lld tensors for a file of one", (long long)n);
}

flame_status flame_save(flame_context *c, const char *path, int n, const char *const *names,
                        flame_tensor *const *x) {
  FL_HOLD(c, FLAME_BAD_ARGUMENT);
  if (!path) return FL_FAIL(c, FLAME_BAD_ARGUMENT, "save", "path is NULL");
  if (n < 0) return FL_FAIL(c, FLAME_BAD_ARGUMENT, "save", "%d tensors", n);
  if (!fl_given(c, names, n, "save", "names") || !fl_given(c, x, n, "save", "tensors"))
    return c->err.code;
  for (int i = 0; i < n; i++) {
    if (!names[i]) return FL_FAIL(c, FLAME_BAD_ARGUMENT, "save", "name %d is NULL", i);
    if (!x[i] || !fl_public_ready("save", 1, &x[i]))
      return c->err.code ? c->err.code : FL_FAIL(c, FLAME_BAD_ARGUMENT, "save",
                                                 "tensor %d is NULL", i);
    if (x[i]->ctx != c)
      return FL_FAIL(c, FLAME_BAD_ARGUMENT, "save", "tensor %d belongs to another context", i);
  }
  fl_to_save *s = fl_zalloc(&c->mem, (size_t)n * sizeof *s);
  if (!s) return FL_FAIL(c, FLAME_NO_MEMORY, "save", "host memory is out");
  FL_ENTER(c);
  for (int i = 0; i < n; i++) {
    s[i] = (fl_to_save){ { names[i], strlen(names[i]) }, x[i]->node };
    fl_node_hold(s[i].node);
  }
  const fl_error before = c->err;
  fl_error_clear(&c->err);
  const flame_status e = save_as(c, path, n, s);
  if (before.code != FLAME_OK) c->err = before;
  for (int i = 0; i < n; i++) fl_node_drop(s[i].node);
  FL_LEAVE(c);
  fl_free(&c->mem, s, (size_t)n * sizeof *s);
  return e;
}
