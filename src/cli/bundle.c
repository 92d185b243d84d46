/*
** flame-lua --bundle: makes an executable from a script, modules and files; and the start of such
** an executable. The parts are found by lua/flame/tools/bundle.lua; the format is io/bundle.h.
**
** A copy of this executable is a bundle if its stamp gives the place of the payload: there is no
** flag that could be lost, and an executable without a payload reads nothing. The file is found by
** /proc/self/exe, or where there is no /proc by the name by which it was started.
*/
#include "base/hash.h"
#include "cli/cli.h"
#include "io/bundle.h"
#include "lua/hook.h"
#include "tensor/context.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The executable's stamp, overwritten in a bundle; volatile: the compiler must not assume its
** contents. */
typedef struct stamp { char magic[16]; uint64_t offset, size, index; uint8_t digest[32]; } stamp;
static const volatile stamp own = { .magic = "\177flame-stamp\1\2\3" };

int fl_cli_is_bundle(void) { return own.size != 0; }

static int open_self(void) {
  const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) return fd;
  const char *name = (const char *)(uintptr_t)getauxval(AT_EXECFN);
  return name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
}

static int damaged(const fl_cli *c, const char *why) {
  char text[200];
  snprintf(text, sizeof text, "this executable is damaged: %s", why);
  fl_cli_message(c->name, text);
  return 0;
}

static int same_digest(const void *p, size_t n, const uint8_t *expected) {
  uint8_t digest[32];
  fl_sha256(p, n, digest);
  return !memcmp(digest, expected, sizeof digest);
}

/* ---- starting -------------------------------------------------------------------------------- */

static int map_payload(const fl_cli *c, int fd, const stamp *s, fl_bundle *b) {
  struct stat f;
  if (fstat(fd, &f) != 0 || s->offset % FL_BUNDLE_PLACE || (uint64_t)f.st_size < s->offset ||
      (uint64_t)f.st_size - s->offset < s->size || s->index > s->size)
    return damaged(c, "it is cut off");
  void *at = mmap(NULL, (size_t)s->size, PROT_READ, MAP_PRIVATE, fd, (off_t)s->offset);
  if (at == MAP_FAILED) return damaged(c, strerror(errno));
  if (!same_digest(at, (size_t)s->index, s->digest) || !fl_bundle_open(b, at, s->size))
    return damaged(c, "the list of its parts is not what was written");
  return 1;
}

/* Pushes the name that messages give to e: "lib/util.lua" for module lib.util, or that of a
** file. */
static const char *push_place(lua_State *L, const fl_bundled *e) {
  lua_pushlstring(L, e->name, e->name_bytes);
  if (e->kind != FL_BUNDLE_MODULE) return lua_tostring(L, -1);
  lua_pushfstring(L, "%s.lua", luaL_gsub(L, lua_tostring(L, -1), ".", "/"));
  lua_replace(L, -3);
  lua_pop(L, 1);
  return lua_tostring(L, -1);
}

/* Pushes a chunk of the bundle; raises if it is damaged or has a syntax error. */
static void push_chunk(lua_State *L, const fl_bundled *e) {
  const char *place = push_place(L, e);
  if (!same_digest(e->data, e->bytes, e->digest))
    luaL_error(L, "bundle: '%s' is not what was bundled", place);
  lua_pushfstring(L, "@%s", place);
  const char *text = e->data;
  size_t n = e->bytes;
  if (n && *text == '#') {                                   /* a first line for a shell */
    const char *line = memchr(text, '\n', n);
    n -= line ? (size_t)(line - text) : n;
    text = line ? line : text;
  }
  if (luaL_loadbufferx(L, text, n, lua_tostring(L, -1), "t") != LUA_OK) lua_error(L);
  lua_replace(L, -3);
  lua_pop(L, 1);
}

/* Finds module 'name', or a file that require would find under this name. */
static int find_module(const fl_bundle *b, const char *name, fl_bundled *e) {
  static const char *const ends[] = { ".lua", "/init.lua" };
  char path[1024];
  if (fl_bundle_find(b, FL_BUNDLE_MODULE, name, e)) return 1;
  for (int i = 0; i < 2; i++) {
    const int n = snprintf(path, sizeof path, "%s", name);
    if (n < 0 || (size_t)n + 12 > sizeof path) return 0;
    for (char *p = path; *p; p++) if (*p == '.') *p = '/';
    strcat(path, ends[i]);
    if (fl_bundle_find(b, FL_BUNDLE_FILE, path, e)) return 1;
  }
  return 0;
}

static int searcher(lua_State *L) {
  const fl_bundle *b = lua_touserdata(L, lua_upvalueindex(1));
  const char *name = luaL_checkstring(L, 1);
  fl_bundled e;
  if (!find_module(b, name, &e)) {
    lua_pushfstring(L, "no module '%s' in the bundle", name);
    return 1;
  }
  push_chunk(L, &e);
  push_place(L, &e);
  return 2;
}

static int close_stream(lua_State *L) {
  luaL_Stream *s = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  return luaL_fileresult(L, fclose(s->f) == 0, NULL);
}

/* io.open, which also knows the files of the bundle. */
static int io_open(lua_State *L) {
  const fl_bundle *b = lua_touserdata(L, lua_upvalueindex(1));
  const char *name = luaL_checkstring(L, 1), *mode = luaL_optstring(L, 2, "r");
  fl_bundled e;
  if ((strcmp(mode, "r") && strcmp(mode, "rb")) ||
      !fl_bundle_find(b, FL_BUNDLE_FILE, name, &e)) {
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
  }
  luaL_Stream *s = lua_newuserdatauv(L, sizeof *s, 0);
  s->closef = NULL;
  luaL_setmetatable(L, LUA_FILEHANDLE);
  s->f = e.bytes ? fmemopen((void *)(uintptr_t)e.data, e.bytes, "r") : fopen("/dev/null", "r");
  if (!s->f) return luaL_fileresult(L, 0, name);
  s->closef = close_stream;
  return 1;
}

/* Modules come from the bundle alone, and io.open also finds the bundle's files. */
static void install(lua_State *L, const fl_bundle *b) {
  lua_getglobal(L, "package");
  lua_pushliteral(L, "");
  lua_setfield(L, -2, "path");
  lua_pushliteral(L, "");
  lua_setfield(L, -2, "cpath");
  lua_getfield(L, -1, "searchers");
  lua_pushlightuserdata(L, (void *)(uintptr_t)b);
  lua_pushcclosure(L, searcher, 1);
  lua_rawseti(L, -2, 2);                                     /* where files were searched */
  lua_getglobal(L, "io");
  lua_pushlightuserdata(L, (void *)(uintptr_t)b);
  lua_getfield(L, -2, "open");
  lua_pushcclosure(L, io_open, 2);
  lua_setfield(L, -2, "open");
  lua_pop(L, 3);
  flame_context *c = flame_lua_context(L);
  if (c) c->bundle = b;
}

static int load_script(lua_State *L) {
  const fl_bundled *e = lua_touserdata(L, 1);
  push_chunk(L, e);
  return 1;
}

int fl_cli_run_bundle(fl_cli *c) {
  static fl_bundle b;                       /* mapped until the process ends */
  lua_State *L = c->L;
  stamp s;
  memcpy(&s, (const void *)(uintptr_t)&own, sizeof s);
  const int fd = open_self();
  if (fd < 0) return damaged(c, "it can not be opened");
  const int ok = map_payload(c, fd, &s, &b);
  close(fd);
  if (!ok) return 0;
  if (b.n == 0) return damaged(c, "there is no script in it");
  fl_bundled e = fl_bundle_entry(&b, 0);
  install(L, &b);
  lua_pushcfunction(L, load_script);
  lua_pushlightuserdata(L, &e);
  int status = lua_pcall(L, 1, 1, 0);
  if (status == LUA_OK) {
    luaL_checkstack(L, c->argc + 2, "too many arguments to script");
    for (int i = 1; i < c->argc; i++) lua_pushstring(L, c->argv[i]);
    status = fl_cli_call(L, c->argc > 1 ? c->argc - 1 : 0, LUA_MULTRET);
  }
  return fl_cli_report(c, status) == LUA_OK;
}

/* ---- making ---------------------------------------------------------------------------------- */

typedef struct part {
  const char *name, *path;
  uint64_t kind, offset;
  size_t bytes;
  void *at;
} part;

static void put_number(unsigned char *p, uint64_t v) {
  for (int i = 0; i < 8; i++) p[i] = (unsigned char)(v >> 8 * i);
}

/* Maps a file into memory (an empty one at NULL). 0 with errno. */
static int map_file(int fd, void **at, size_t *bytes) {
  struct stat s;
  if (fd < 0 || fstat(fd, &s) != 0) return 0;
  if (!S_ISREG(s.st_mode)) {
    errno = S_ISDIR(s.st_mode) ? EISDIR : EINVAL;
    return 0;
  }
  *bytes = (size_t)s.st_size;
  *at = *bytes ? mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
  return *at != MAP_FAILED;
}

static int write_all(FILE *f, const void *p, size_t n) { return !n || fwrite(p, 1, n, f) == n; }

static int write_zeros(FILE *f, uint64_t n) {
  static const char zeros[4096];
  for (; n > sizeof zeros; n -= sizeof zeros) if (!write_all(f, zeros, sizeof zeros)) return 0;
  return write_all(f, zeros, (size_t)n);
}

static uint64_t up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

/* Returns the size of the index. If 'to', which is zeroed, is not NULL, writes the index there, and
** sets the offsets of the parts and *size, the bytes of the payload. */
static uint64_t make_index(part *p, uint64_t n, unsigned char *to, uint64_t *size) {
  uint64_t index = FL_BUNDLE_HEAD, at;
  for (uint64_t i = 0; i < n; i++) index += FL_BUNDLE_ENTRY + up(strlen(p[i].name), 8);
  if (!to) return index;
  at = index;
  memcpy(to, FL_BUNDLE_MAGIC, sizeof FL_BUNDLE_MAGIC);
  put_number(to + 16, n);
  put_number(to + 24, index);
  to += FL_BUNDLE_HEAD;
  for (uint64_t i = 0; i < n; i++) {
    const size_t name = strlen(p[i].name);
    p[i].offset = at = up(at, p[i].kind == FL_BUNDLE_FILE ? FL_BUNDLE_PAGE : 16);
    at += p[i].bytes;
    put_number(to, p[i].kind);
    put_number(to + 8, p[i].offset);
    put_number(to + 16, p[i].bytes);
    put_number(to + 24, name);
    fl_sha256(p[i].at ? p[i].at : (void *)to, p[i].bytes, to + 32);
    memcpy(to + FL_BUNDLE_ENTRY, p[i].name, name);
    to += FL_BUNDLE_ENTRY + up(name, 8);
  }
  *size = at;
  return index;
}

/* Writes the interpreter with its stamp, then the payload. */
static int write_out(FILE *f, const char *exe, size_t bytes, const stamp *s, const part *p,
                     uint64_t n, const unsigned char *index) {
  char magic[16];
  assert(exe);
  memcpy(magic, (const void *)(uintptr_t)own.magic, sizeof magic);
  const char *at = memmem(exe, bytes, magic, sizeof magic);
  if (!at || bytes - (size_t)(at - exe) < sizeof *s) {
    errno = ENOEXEC;
    return 0;
  }
  const size_t before = (size_t)(at - exe);
  uint64_t k = s->index;
  int ok = write_all(f, exe, before) && write_all(f, s, sizeof *s) &&
           write_all(f, at + sizeof *s, bytes - before - sizeof *s) &&
           write_zeros(f, s->offset - bytes) && write_all(f, index, (size_t)s->index);
  for (uint64_t i = 0; ok && i < n; i++) {
    ok = write_zeros(f, p[i].offset - k) && write_all(f, p[i].at, p[i].bytes);
    k = p[i].offset + p[i].bytes;
  }
  return ok;
}

static int fail(lua_State *L, const char *path) {
  lua_pushfstring(L, "bundle: %s: %s", path, strerror(errno));
  return lua_error(L);
}

/* (path) -> the text of a file */
static int read_text(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  void *at;
  size_t bytes;
  const int fd = open(path, O_RDONLY | O_CLOEXEC), ok = map_file(fd, &at, &bytes), why = errno;
  if (fd >= 0) close(fd);
  errno = why;
  if (!ok) return fail(L, path);
  lua_pushlstring(L, bytes ? at : "", bytes);
  if (bytes) munmap(at, bytes);
  return 1;
}

static int map_part(part *p) {
  const int fd = open(p->path, O_RDONLY | O_CLOEXEC);
  const int ok = map_file(fd, &p->at, &p->bytes), why = errno;
  if (fd >= 0) close(fd);
  errno = why;
  return ok;
}

/* (out, {names}, {paths}, {kinds}): a temporary file replaces 'out' when it is complete. */
static int write_bundle(lua_State *L) {
  const char *out = luaL_checkstring(L, 1), *temp = lua_pushfstring(L, "%s.new", out);
  const uint64_t n = (uint64_t)lua_rawlen(L, 2);
  part *p = lua_newuserdatauv(L, (size_t)n * sizeof *p, 0);
  luaL_checkstack(L, (int)(2 * n) + 8, "bundle");
  for (uint64_t i = 0; i < n; i++) {
    lua_rawgeti(L, 2, (lua_Integer)i + 1);
    lua_rawgeti(L, 3, (lua_Integer)i + 1);
    lua_rawgeti(L, 4, (lua_Integer)i + 1);
    p[i] = (part){ .name = lua_tostring(L, -3), .path = lua_tostring(L, -2),
                   .kind = (uint64_t)lua_tointeger(L, -1) };
    lua_pop(L, 1);                  /* p points to the names and paths, which stay on the stack */
    if (!map_part(&p[i])) return fail(L, p[i].path);       /* the program ends after this, which
                                                           ** unmaps the files */
  }
  stamp s = { .offset = 0 };
  memcpy(&s, (const void *)(uintptr_t)&own, sizeof s);
  void *exe;
  size_t bytes;
  const int self = open_self();
  if (!map_file(self, &exe, &bytes)) return fail(L, "the interpreter");
  s.index = make_index(p, n, NULL, NULL);
  unsigned char *index = lua_newuserdatauv(L, (size_t)s.index, 0);
  memset(index, 0, (size_t)s.index);
  make_index(p, n, index, &s.size);
  s.offset = up(bytes, FL_BUNDLE_PLACE);
  fl_sha256(index, (size_t)s.index, s.digest);
  FILE *f = fopen(temp, "wb");
  if (!f) return fail(L, temp);
  const int ok = write_out(f, exe, bytes, &s, p, n, index);
  if (!(fclose(f) == 0 && ok && chmod(temp, 0755) == 0 && rename(temp, out) == 0)) {
    const int why = errno;
    unlink(temp);
    errno = why;
    return fail(L, out);
  }
  return 0;
}

/* (path) -> list of {name, bytes, as bundled?}; every byte is read. */
static int check_bundle(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  void *at;
  size_t bytes;
  const int mapped = map_file(fd, &at, &bytes), why = errno;
  if (fd >= 0) close(fd);
  errno = why;
  if (!mapped) return fail(L, path);
  char magic[16];
  memcpy(magic, (const void *)(uintptr_t)own.magic, sizeof magic);
  const char *found = bytes ? memmem(at, bytes, magic, sizeof magic) : NULL;
  stamp s = { .size = 0 };
  if (found && bytes - (size_t)(found - (char *)at) >= sizeof s) memcpy(&s, found, sizeof s);
  fl_bundle b;
  if (!s.size) return luaL_error(L, "bundle: %s is no bundle", path);
  const char *payload = (char *)at + s.offset;
  if (s.offset > bytes || s.size > bytes - s.offset || s.index > s.size ||
      !same_digest(payload, (size_t)s.index, s.digest) || !fl_bundle_open(&b, payload, s.size))
    return luaL_error(L, "bundle: %s is damaged: its list of parts is not what was written", path);
  lua_newtable(L);
  for (uint64_t i = 0; i < b.n; i++) {
    const fl_bundled e = fl_bundle_entry(&b, i);
    lua_createtable(L, 3, 0);
    lua_pushlstring(L, e.name, e.name_bytes);
    lua_rawseti(L, -2, 1);
    lua_pushinteger(L, (lua_Integer)e.bytes);
    lua_rawseti(L, -2, 2);
    lua_pushboolean(L, same_digest(e.data, e.bytes, e.digest));
    lua_rawseti(L, -2, 3);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

int fl_cli_bundle(const fl_cli *c, int at, int check) {
  lua_State *L = c->L;
  lua_getglobal(L, "require");
  lua_pushliteral(L, "flame.tools.bundle");
  int status = fl_cli_call(L, 1, 1);
  if (status != LUA_OK) return fl_cli_report(c, status) == LUA_OK;
  lua_pushboolean(L, check);
  lua_pushcfunction(L, check ? check_bundle : write_bundle);
  lua_pushcfunction(L, read_text);
  luaL_checkstack(L, c->argc + 3, "bundle");
  for (int i = at; i < c->argc; i++) lua_pushstring(L, c->argv[i]);
  status = lua_pcall(L, c->argc - at + 3, 0, 0);
  return fl_cli_report(c, status) == LUA_OK;
}
