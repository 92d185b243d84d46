/*
** Files for scripts: the functions on which lua/flame/base/save.lua and data.lua are built, the
** clock and the terminal for progress lines, and x:to_(…), which changes dtype or device
** inside a handle.
** An open file or folder is in a userdata with a finaliser, so that no error leaves it open.
*/
#include "lua/binding.h"
#include "io/io.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A path has no zero bytes: C would end it there. */
static const char *arg_path(lua_State *L, int i, const char *op) {
  return fl_arg_string(L, i, op, "path");
}

static int arg_device_or_default(lua_State *L, int i, const char *op) {
  fl_lua *b = self_of(L);
  if (b->c == NULL) fl_lua_raise(L, b);
  return lua_isnoneornil(L, i) ? b->c->default_device : fl_arg_device(L, i, op);
}

/* ---- open files as userdata ------------------------------------------------------------- */
typedef struct packed { flame_context *c; fl_png file; } packed;
typedef struct holder {
  void (*close)(void *file);
  union {
    fl_archive archive; fl_parts parts; fl_zip zip; fl_reader in; void *folder;
    packed png;
  } of;
} holder;

static void close_archive(void *file) { fl_safetensors_close(file); }
static void close_parts(void *file) { fl_parts_close(file); }
static void close_zip(void *file) { fl_zip_close(file); }
static void close_reader(void *file) { if (((fl_reader *)file)->c) fl_reader_close(file); }

static void close_png(void *file) {
  packed *p = file;
  if (p->c) fl_png_drop(p->c, &p->file);
}
static void close_folder(void *file) { fl_folder_close(*(void **)file); }

static int holder_gc(lua_State *L) {
  holder *h = (holder *)lua_touserdata(L, 1);
  if (h->close && self_of(L)->c) h->close(&h->of);
  h->close = NULL;
  return 0;
}

static const char holder_mark;

static holder *holder_new(lua_State *L, void (*close)(void *)) {
  holder *h = (holder *)lua_newuserdatauv(L, sizeof *h, 1);
  memset(h, 0, sizeof *h);
  lua_createtable(L, 0, 2);
  fl_lua_mark(L, &holder_mark);
  fl_push_closure(L, self_of(L), holder_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  h->close = close;
  return h;
}

static void holder_close(holder *h) {
  assert(h->close);                   /* open: callers got it from a field of an open file */
  h->close(&h->of);
  h->close = NULL;
}

/* ---- tensors out of files -------------------------------------------------------------------- */

/* Puts n into the box on top and ends the call's scope, or closes the file and raises. */
static void fill_box(lua_State *L, holder *h, int64_t mark, fl_box *out, fl_node *n) {
  if (n == NULL) holder_close(h);
  fl_lua_leave(L, self_of(L), mark, out, n);
}

/* Pushes {key = value}. */
static void push_pairs(lua_State *L, const fl_pair *p, int64_t n) {
  lua_newtable(L);
  for (int64_t i = 0; i < n; i++) {
    lua_pushlstring(L, p[i].key.at, p[i].key.n);
    lua_pushlstring(L, p[i].value.at, p[i].value.n);
    lua_rawset(L, -3);
  }
}

/* (path, device) -> {name = tensor}, {key = value} of a safetensors file. */
static int io_load(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *path = arg_path(L, 1, "load");
  const int device = arg_device_or_default(L, 2, "load");
  holder *h = holder_new(L, close_archive);
  fl_archive *a = &h->of.archive;
  int64_t m = fl_lua_enter(L, b);
  const flame_status e = fl_safetensors_open(a, b->c, path);
  if (e != FLAME_OK) holder_close(h);
  fl_lua_leave_status(L, b, m, e);
  lua_createtable(L, 0, (int)(a->tensors.n < 1 << 20 ? a->tensors.n : 1 << 20));
  for (int64_t i = 0; i < a->tensors.n; i++) {
    lua_pushlstring(L, a->tensors.at[i].name.at, a->tensors.at[i].name.n);
    fl_box *out = fl_box_new(L);
    m = fl_lua_enter(L, b);
    fill_box(L, h, m, out, fl_safetensors_read(a, &a->tensors.at[i], device));
    lua_rawset(L, -3);
  }
  push_pairs(L, a->meta.at, a->meta.n);
  holder_close(h);
  return 2;
}

/* (path of an index) -> {tensor = file} for tensors stored in several safetensors files. */
static int io_load_parts(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *path = arg_path(L, 1, "load");
  if (b->c == NULL) fl_lua_raise(L, b);
  holder *h = holder_new(L, close_parts);
  const int64_t m = fl_lua_enter(L, b);
  const flame_status e = fl_parts_open(&h->of.parts, b->c, path);
  if (e != FLAME_OK) holder_close(h);
  fl_lua_leave_status(L, b, m, e);
  push_pairs(L, h->of.parts.files.at, h->of.parts.files.n);
  holder_close(h);
  return 1;
}

/* (path, device) -> {name = tensor} of an npz file; raises for a zip file that is no npz. */
static int io_load_npz(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *path = arg_path(L, 1, "load");
  const int device = arg_device_or_default(L, 2, "load");
  holder *h = holder_new(L, close_zip);
  fl_zip *z = &h->of.zip;
  int64_t m = fl_lua_enter(L, b);
  const flame_status e = fl_zip_open(z, b->c, path);
  if (e != FLAME_OK) holder_close(h);
  fl_lua_leave_status(L, b, m, e);
  lua_newtable(L);
  for (int64_t i = 0; i < z->members.n; i++) {
    const fl_span name = z->members.at[i].name;
    const int npy = name.n > 4 && memcmp(name.at + name.n - 4, ".npy", 4) == 0;
    lua_pushlstring(L, name.at, npy ? name.n - 4 : name.n);
    fl_box *out = fl_box_new(L);
    m = fl_lua_enter(L, b);
    fill_box(L, h, m, out, fl_npz_read(z, &z->members.at[i], device));
    lua_rawset(L, -3);
  }
  holder_close(h);
  return 1;
}

static int load_one(lua_State *L, const char *op,
                    fl_node *(*read)(flame_context *, const char *, int)) {
  fl_lua *b = self_of(L);
  const char *path = arg_path(L, 1, op);
  const int device = arg_device_or_default(L, 2, op);
  fl_box *out = fl_box_new(L);
  const int64_t m = fl_lua_enter(L, b);
  return fl_lua_leave(L, b, m, out, read(b->c, path, device));
}
static int io_load_idx(lua_State *L) { return load_one(L, "idx", fl_idx_read); }
static int io_load_png(lua_State *L) { return load_one(L, "load", fl_png_read); }
static int io_load_npy(lua_State *L) { return load_one(L, "load", fl_npy_read); }

/* ---- tensors into files ---------------------------------------------------------------------- */

/* The i-th string of the list at 'list', which keeps it alive. */
static fl_span string_of(lua_State *L, int list, int64_t i) {
  fl_span s;
  lua_rawgeti(L, list, i);
  s.at = luaL_checklstring(L, -1, &s.n);
  lua_pop(L, 1);
  return s;
}

/* Names at 2 and tensors at 3 as an array in a userdata (pushed); hold_all gives it the nodes. */
static fl_to_save *to_save(lua_State *L, int64_t *n) {
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  *n = (int64_t)lua_rawlen(L, 2);
  fl_to_save *s = (fl_to_save *)lua_newuserdatauv(L, (size_t)(*n + 1) * sizeof *s, 0);
  for (int64_t i = 0; i < *n; i++) {
    s[i].name = string_of(L, 2, i + 1);
    lua_rawgeti(L, 3, i + 1);
    fl_arg_tensor(L, lua_gettop(L), "save", "value");
    lua_pop(L, 1);
  }
  return s;
}

/* Holds the current values, so that a write by a finaliser does not change what is saved. */
static flame_status hold_all(lua_State *L, fl_lua *b, fl_to_save *s, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    lua_rawgeti(L, 3, i + 1);
    s[i].node = node_of(b, box_at(L, -1));
    lua_pop(L, 1);
    if (s[i].node) {
      fl_node_hold(s[i].node);
      continue;
    }
    while (i-- > 0) fl_node_drop(s[i].node);
    return b->c->err.code;
  }
  return FLAME_OK;
}

static void drop_all(fl_to_save *s, int64_t n) {
  for (int64_t i = 0; i < n; i++) fl_node_drop(s[i].node);
}

/* (path, names, tensors, keys, values): writes a safetensors file. */
static int io_save(lua_State *L) {
  fl_lua *b = self_of(L);
  int64_t n;
  const char *path = arg_path(L, 1, "save");
  fl_to_save *s = to_save(L, &n);
  luaL_checktype(L, 4, LUA_TTABLE);
  luaL_checktype(L, 5, LUA_TTABLE);
  const int64_t nmeta = (int64_t)lua_rawlen(L, 4);
  fl_pair *meta = (fl_pair *)lua_newuserdatauv(L, (size_t)(nmeta + 1) * sizeof *meta, 0);
  for (int64_t i = 0; i < nmeta; i++)
    meta[i] = (fl_pair){ string_of(L, 4, i + 1), string_of(L, 5, i + 1) };
  const int64_t m = fl_lua_enter(L, b);
  flame_status e = hold_all(L, b, s, n);
  if (e == FLAME_OK) {
    e = fl_safetensors_save(b->c, path, n, s, nmeta, meta);
    drop_all(s, n);
  }
  return fl_lua_leave_status(L, b, m, e);
}

/* (path, names, tensors): writes a file by 'save', the writer of its format. */
static int save_as(lua_State *L, flame_status (*save)(flame_context *, const char *, int64_t,
                                                      const fl_to_save *)) {
  fl_lua *b = self_of(L);
  int64_t n;
  const char *path = arg_path(L, 1, "save");
  fl_to_save *s = to_save(L, &n);
  const int64_t m = fl_lua_enter(L, b);
  flame_status e = hold_all(L, b, s, n);
  if (e == FLAME_OK) {
    e = save(b->c, path, n, s);
    drop_all(s, n);
  }
  return fl_lua_leave_status(L, b, m, e);
}

/* Fails unless there is one tensor, as for formats like npy; base/save.lua passes one to these. */
static flame_status need_one(flame_context *c, int64_t n) {
  if (n == 1) return FLAME_OK;
  return FL_FAIL(c, FLAME_BAD_ARGUMENT, "save", "%lld tensors for a file of one", (long long)n);
}
static flame_status save_npy(flame_context *c, const char *path, int64_t n, const fl_to_save *s) {
  const flame_status e = need_one(c, n);
  return e == FLAME_OK ? fl_npy_save(c, path, s->node) : e;
}
static flame_status save_png(flame_context *c, const char *path, int64_t n, const fl_to_save *s) {
  const flame_status e = need_one(c, n);
  return e == FLAME_OK ? fl_png_save(c, path, s->node) : e;
}

static flame_status save_csv(flame_context *c, const char *path, int64_t n, const fl_to_save *s) {
  const flame_status e = need_one(c, n);
  return e == FLAME_OK ? fl_csv_save(c, path, s->node) : e;
}

static int io_save_npz(lua_State *L) { return save_as(L, fl_npz_save); }
static int io_save_npy(lua_State *L) { return save_as(L, save_npy); }
static int io_save_png(lua_State *L) { return save_as(L, save_png); }
static int io_save_csv(lua_State *L) { return save_as(L, save_csv); }

/* (tensor) -> the bytes of a PNG file. */
static int io_png_bytes(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_box *x = fl_arg_tensor(L, 1, "save", "image");
  holder *h = holder_new(L, close_png);
  h->of.png.c = b->c;
  const int64_t m = fl_lua_enter(L, b);
  fl_node *n = node_of(b, x);
  fl_lua_leave_status(L, b, m, n ? fl_png_pack(b->c, "image", n, &h->of.png.file) : b->c->err.code);
  lua_pushlstring(L, (const char *)h->of.png.file.at, h->of.png.file.n);
  holder_close(h);
  return 1;
}

/* ---- text and folders ------------------------------------------------------------------------ */

/* (path, op, offset, most) -> the file's bytes from 'offset' on as a string, decompressed if it is
** gzip; all, or at most 'most'. */
static int io_read(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *op = luaL_optstring(L, 2, "read"), *path = arg_path(L, 1, op);
  int64_t offset = luaL_optinteger(L, 3, 0), left = luaL_optinteger(L, 4, INT64_MAX);
  if (b->c == NULL) fl_lua_raise(L, b);
  holder *h = holder_new(L, close_reader);
  fl_reader *f = &h->of.in;
  luaL_Buffer out;
  fl_error_clear(&b->c->err);
  flame_status e = fl_reader_open(f, b->c, op, path);
  luaL_buffinit(L, &out);
  size_t got = 1;
  while (e == FLAME_OK && got > 0 && left > 0) {
    char *room = luaL_prepbuffsize(&out, 1 << 16);
    const int64_t most = offset > 0 ? offset : left;
    e = fl_reader_some(f, room, most < 1 << 16 ? (size_t)most : 1 << 16, &got);
    if (offset > 0) offset -= (int64_t)got;
    else {
      luaL_addsize(&out, got);
      left -= (int64_t)got;
    }
  }
  if (e == FLAME_OK && offset > 0)
    e = fl_reader_fail(f, "ends %lld bytes before the %lld bytes of its header do",
                       (long long)offset, (long long)luaL_optinteger(L, 3, 0));
  holder_close(h);
  if (e != FLAME_OK) return fl_lua_raise(L, b);
  luaL_pushresult(&out);
  return 1;
}

/* (path, op, text): writes a file as a whole; if that fails the old one stays. */
static int io_write(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *op = luaL_checkstring(L, 2), *path = arg_path(L, 1, op);
  size_t n;
  const char *text = luaL_checklstring(L, 3, &n);
  if (b->c == NULL) fl_lua_raise(L, b);
  fl_writer o;
  const int64_t m = fl_lua_enter(L, b);
  flame_status e = fl_writer_open(&o, b->c, op, path);
  if (e == FLAME_OK) e = fl_writer_write(&o, text, n);
  if (e == FLAME_OK) e = fl_writer_commit(&o);
  fl_writer_close(&o);
  return fl_lua_leave_status(L, b, m, e);
}

/* (path, op) -> the open file (for io_read_at), its number of bytes. It is closed by the
** collector. */
static int io_open_at(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *path = arg_path(L, 1, luaL_checkstring(L, 2));
  if (b->c == NULL) fl_lua_raise(L, b);
  holder *h = holder_new(L, close_reader);
  lua_createtable(L, 2, 0);                        /* keeps the reader's texts alive as long as the
                                                   ** reader */
  for (int i = 1; i <= 2; i++) lua_pushvalue(L, i), lua_rawseti(L, -2, i);
  lua_setiuservalue(L, -2, 1);
  fl_error_clear(&b->c->err);
  const flame_status e = fl_reader_open(&h->of.in, b->c, lua_tostring(L, 2), path);
  char none;
  if (e != FLAME_OK || fl_reader_at(&h->of.in, 0, &none, 0) != FLAME_OK) {
    holder_close(h);
    return fl_lua_raise(L, b);
  }
  lua_pushinteger(L, h->of.in.size);
  return 2;
}

/* (file, offset, n) -> n bytes at the offset */
static int io_read_at(lua_State *L) {
  fl_lua *b = self_of(L);
  holder *h = fl_lua_marked(L, 1, &holder_mark);
  const int64_t offset = luaL_checkinteger(L, 2), n = luaL_checkinteger(L, 3);
  if (!h || h->close != close_reader) return fl_lua_fail(L, "load", "need an open file");
  if (offset < 0 || n < 0 || n > h->of.in.size || offset > h->of.in.size - n)
    return fl_lua_fail(L, "load", "%lld bytes from byte %lld on, the file has %lld", (long long)n,
                       (long long)offset, (long long)h->of.in.size);
  if (b->c == NULL) return fl_lua_raise(L, b);
  fl_error_clear(&b->c->err);
  luaL_Buffer out;
  char *room = luaL_buffinitsize(L, &out, (size_t)n);
  if (fl_reader_at(&h->of.in, offset, room, (size_t)n) != FLAME_OK) return fl_lua_raise(L, b);
  luaL_pushresultsize(&out, (size_t)n);
  return 1;
}

/* (path) -> {name = "f" file | "d" folder | "l" link | "o" other}, or nil and why. */
static int io_list(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *path = arg_path(L, 1, "list");
  if (b->c == NULL) return fl_lua_raise(L, b);
  holder *h = holder_new(L, close_folder);
  lua_newtable(L);
  h->of.folder = fl_folder_open(b->c, path);
  int ok = h->of.folder != NULL;
  char kind;
  for (const char *name; ok && (name = fl_folder_next(h->of.folder, &kind)) != NULL;) {
    lua_pushlstring(L, &kind, 1);
    lua_setfield(L, -2, name);
  }
  const int why = errno;
  ok = ok && why == 0;
  holder_close(h);
  if (ok) return 1;
  lua_pushnil(L);
  lua_pushstring(L, fl_file_error(why));
  return 2;
}

/* (path) -> was the file removed? It need not exist. */
static int io_remove(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *path = arg_path(L, 1, "remove");
  lua_pushboolean(L, b->c != NULL && fl_file_remove(b->c, path));
  return 1;
}

/* (path) -> true: the folder exists, and was made with missing parents if necessary; or nil and
** why. */
static int io_make_folder(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *path = arg_path(L, 1, "make_folder");
  if (b->c == NULL) return fl_lua_raise(L, b);
  const size_t n = strlen(path);
  char *part = (char *)lua_newuserdatauv(L, n + 1, 0);
  memcpy(part, path, n + 1);
  int failed = 0;
  for (size_t i = 1; i <= n; i++) {
    if (part[i] != '/' && part[i] != 0) continue;
    part[i] = 0;
    failed = !fl_file_make_folder(b->c, part) && errno != EEXIST ? errno : 0;
    part[i] = path[i];
  }
  void *folder = failed ? NULL : fl_folder_open(b->c, path);           /* it may be a file */
  if (!failed && folder == NULL) failed = errno;
  fl_folder_close(folder);
  if (!failed) return lua_pushboolean(L, 1), 1;
  lua_pushnil(L);
  lua_pushstring(L, fl_file_error(failed));
  return 2;
}

/* (path) -> a value that changes when the file is written again; nil: it can not be read */
static int io_stamp(lua_State *L) {
  fl_lua *b = self_of(L);
  struct stat s;
  const int fd = b->c ? fl_file_open(b->c, arg_path(L, 1, "reload"), O_RDONLY, 0) : -1;
  const int known = fd >= 0 && fstat(fd, &s) == 0;
  if (fd >= 0) close(fd);
  if (!known) lua_pushnil(L);
  else lua_pushfstring(L, "%I.%I.%I.%I", (LUAI_UACINT)s.st_mtim.tv_sec,
                       (LUAI_UACINT)s.st_mtim.tv_nsec, (LUAI_UACINT)s.st_size,
                       (LUAI_UACINT)s.st_ino);
  return 1;
}

/* The seconds of a clock that is never set back. */
static int io_now(lua_State *L) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  lua_pushnumber(L, (double)t.tv_sec + 1e-9 * (double)t.tv_nsec);
  return 1;
}

/* How many times the script has called flame.seed. */
static int io_seedings(lua_State *L) {
  lua_pushinteger(L, self_of(L)->seedings);
  return 1;
}

static int io_terminal(lua_State *L) {
  lua_pushboolean(L, isatty(STDOUT_FILENO));
  return 1;
}

/* ---- x:to_(dtype or device) ------------------------------------------------------------------ */

/* The value in another dtype or on another device (-1: in its own), not recorded for gradients. */
static fl_node *converted(flame_context *c, fl_node *n, int dtype, int device) {
  const uint8_t grad = c->grad_mode;
  c->grad_mode = 0;
  fl_node *y = dtype >= 0 ? n_cast(n, dtype) : n;
  if (y && device >= 0) y = fl_to_device(c, y, device);
  c->grad_mode = grad;
  return y;
}

static flame_status convert_handle(flame_context *c, flame_tensor *t, int dtype, int device) {
  fl_node *y = converted(c, t->node, dtype, device);
  if (!y) return c->err.code;
  const flame_status e = y == t->node ? FLAME_OK : fl_tensor_convert(t, y, "to_");
  if (e != FLAME_OK || !t->grad || !t->grad->node) return e;
  y = converted(c, t->grad->node, dtype, device);
  return !y ? c->err.code : y == t->grad->node ? FLAME_OK : fl_tensor_convert(t->grad, y, "to_");
}

static int io_to_(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_args(L);
  fl_box *x = box_at(L, 1);
  const int dtype = fl_dtype_of_name(lua_tostring(L, 2));
  const int device = dtype >= 0 ? -1 : fl_arg_device(L, 2, "to_");
  const int64_t m = fl_lua_enter(L, b);
  const fl_node *n = node_of(b, x);
  fl_lua_leave_status(L, b, m, n ? convert_handle(b->c, x->t, dtype, device) : b->c->err.code);
  lua_settop(L, 1);
  return 1;
}

const fl_lua_reg fl_reg_io[] = {
  { ":to_(x: T, target: dtype|device) -> T\n"
    "--- x itself in another dtype or on another device", io_to_, 0 },
  { "io_load", io_load, 0 }, { "io_load_parts", io_load_parts, 0 },
  { "io_load_npz", io_load_npz, 0 }, { "io_load_idx", io_load_idx, 0 },
  { "io_load_npy", io_load_npy, 0 }, { "io_save", io_save, 0 }, { "io_save_npz", io_save_npz, 0 },
  { "io_save_npy", io_save_npy, 0 }, { "io_save_png", io_save_png, 0 },
  { "io_save_csv", io_save_csv, 0 }, { "io_load_png", io_load_png, 0 },
  { "io_png_bytes", io_png_bytes, 0 },
  { "io_open_at", io_open_at, 0 }, { "io_read_at", io_read_at, 0 },
  { "io_read", io_read, 0 }, { "io_write", io_write, 0 }, { "io_list", io_list, 0 },
  { "io_make_folder", io_make_folder, 0 }, { "io_remove", io_remove, 0 },
  { "io_now", io_now, 0 }, { "io_stamp", io_stamp, 0 }, { "io_terminal", io_terminal, 0 },
  { "io_seedings", io_seedings, 0 },
  { NULL, NULL, 0 }
};
