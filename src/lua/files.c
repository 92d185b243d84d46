/*
** Files of scripts and of flame's own Lua: handles as Lua's io library has them, opened by
** io/open.c. internal.open and internal.remove are io.open and os.remove for the files of
** lua/flame. A state with limits has a separate io: open, lines and type, and write, which has the
** same output as print; bytes written by its handles are counted, creating a file counts as some
** bytes, and few may be open at once.
*/
#include "lua/bounded.h"
#include "io/io.h"
#include "lua/hook.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { MOST_OPEN = 32, NEW_FILE_BYTES = 512 };
static const char open_files;                     /* registry key: how many */

static int note_open(lua_State *L, int more) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &open_files);
  const int n = (int)lua_tointeger(L, -1) + more;
  lua_pop(L, 1);
  lua_pushinteger(L, n);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &open_files);
  return n;
}

/* Also called by a finaliser. */
static int close_file(lua_State *L) {
  luaL_Stream *f = (luaL_Stream *)luaL_checkudata(L, 1, LUA_FILEHANDLE);
  const int ok = fclose(f->f) == 0;
  note_open(L, -1);
  return luaL_fileresult(L, ok, NULL);
}

/* Converts "r", "w", "a", with "+" and "b", to flags of open(2); -1: it is another mode. */
static int flags_of(const char *mode) {
  const char *rest = mode + 1 + (mode[0] && mode[1] == '+');
  if (!mode[0] || !strchr("rwa", mode[0]) || strspn(rest, "b") != strlen(rest)) return -1;
  const int both = mode[1] == '+';
  if (mode[0] == 'r') return both ? O_RDWR : O_RDONLY;
  return (both ? O_RDWR : O_WRONLY) | O_CREAT | (mode[0] == 'a' ? O_APPEND : 0);
}

static int failed(lua_State *L, const char *path, int why) {
  luaL_pushfail(L);
  lua_pushfstring(L, "%s: %s", path, fl_file_error(why));
  lua_pushinteger(L, why);
  return 3;
}

/* (path, mode = "r") -> a file; or nil, why, number of the error */
static int f_open(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *path = luaL_checkstring(L, 1), *mode = luaL_optstring(L, 2, "r");
  const int flags = flags_of(mode);
  luaL_argcheck(L, flags >= 0, 2, "invalid mode");
  if (b->c == NULL) return fl_lua_raise(L, b);
  if (b->bounded && note_open(L, 0) >= MOST_OPEN) {
    lua_gc(L, LUA_GCCOLLECT);
    if (note_open(L, 0) >= MOST_OPEN) return failed(L, path, EMFILE);
  }
  luaL_Stream *f = (luaL_Stream *)lua_newuserdatauv(L, sizeof *f, 0);
  f->closef = NULL;
  luaL_setmetatable(L, LUA_FILEHANDLE);
  if (strlen(path) != lua_rawlen(L, 1) && lua_type(L, 1) == LUA_TSTRING)
    return failed(L, path, ENOENT);
  const int fd = fl_file_open(b->c, path, flags, 0666);
  if (fd < 0) return failed(L, path, errno);
  if (mode[0] == 'w' && ftruncate(fd, 0) != 0 && errno != EINVAL) {
    const int why = errno;
    close(fd);
    return failed(L, path, why);
  }
  f->f = fdopen(fd, mode);
  if (f->f == NULL) {
    close(fd);
    return failed(L, path, ENOMEM);
  }
  f->closef = close_file;
  note_open(L, 1);
  if (b->bounded && flags & O_CREAT && !fl_use(b->c, FLAME_OUTPUT_BYTES, NEW_FILE_BYTES))
    fl_hook_look(L, b);
  return 1;
}

static int f_remove(lua_State *L) {
  fl_lua *b = self_of(L);
  const char *path = luaL_checkstring(L, 1);
  if (b->c == NULL) return fl_lua_raise(L, b);
  if (!fl_file_remove(b->c, path)) return failed(L, path, errno);
  lua_pushboolean(L, 1);
  return 1;
}

const fl_lua_reg fl_reg_files[] = {
  { "open", f_open, 0 }, { "remove", f_remove, 0 }, { NULL, NULL, 0 }
};

/* ---- in a state with limits ------------------------------------------------------------------ */

/* file:write: counts the bytes, then calls Lua's own function, upvalue 2. */
static int h_write(lua_State *L) {
  fl_lua *b = self_of(L);
  int64_t bytes = 0;
  for (int i = 2; i <= lua_gettop(L); i++) {
    size_t n;
    luaL_checklstring(L, i, &n);
    bytes += (int64_t)n;
  }
  if (b->c == NULL || !fl_use(b->c, FLAME_OUTPUT_BYTES, bytes)) fl_hook_look(L, b);
  return lua_tocfunction(L, lua_upvalueindex(2))(L);
}

static int f_write(lua_State *L) {
  fl_lua *b = self_of(L);
  const int n = lua_gettop(L);
  for (int i = 1; i <= n; i++) {
    size_t size;
    const char *s = luaL_checklstring(L, i, &size);
    fl_bounded_write(L, b, s, size);
  }
  return 0;
}

/* The iterator of io.lines; upvalues: that of file:lines, the file. Closes the file at its end. */
static int next_line(lua_State *L) {
  lua_settop(L, 0);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_call(L, 0, LUA_MULTRET);
  const int n = lua_gettop(L);
  if (n > 0 && !lua_isnil(L, 1)) return n;
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_getfield(L, -1, "close");
  lua_insert(L, -2);
  lua_call(L, 1, 0);
  return n;
}

/* (path, …): what Lua's io.lines returns: an iterator over the lines of a file, which it closes at
** the end, nil, nil, and the file, which a loop closes if it is left before. Upvalue 2: open. */
static int f_lines(lua_State *L) {
  luaL_checkstring(L, 1);
  const int n = lua_gettop(L);
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, 1);
  lua_call(L, 1, 2);
  if (lua_isnil(L, -2)) return luaL_error(L, "%s", lua_tostring(L, -1));
  lua_pop(L, 1);
  lua_replace(L, 1);
  lua_pushvalue(L, 1);                             /* kept below the call, for the iterator */
  lua_insert(L, 1);
  lua_getfield(L, 1, "lines");
  lua_insert(L, 2);
  lua_call(L, n, 1);
  lua_pushvalue(L, 1);
  lua_pushcclosure(L, next_line, 2);
  lua_pushnil(L);
  lua_pushnil(L);
  lua_pushvalue(L, 1);
  return 4;
}

static void bound_handles(lua_State *L, fl_lua *b) {
  luaL_getmetatable(L, LUA_FILEHANDLE);
  lua_getfield(L, -1, "__index");
  lua_newtable(L);
  fl_bounded_poll(L, b, -2, "close flush lines read seek");
  lua_pushlightuserdata(L, b);
  lua_getfield(L, -3, "write");
  lua_pushcclosure(L, h_write, 2);
  lua_setfield(L, -2, "write");
  lua_setfield(L, -3, "__index");
  lua_pushboolean(L, 0);
  lua_setfield(L, -3, "__metatable");
  lua_pop(L, 2);
}

void fl_bounded_io(lua_State *L, fl_lua *b, int own, int to) {
  static const luaL_Reg list[] = { { "open", f_open }, { "write", f_write }, { NULL, NULL } };
  static const luaL_Reg for_library[] = { { "remove", f_remove }, { NULL, NULL } };
  bound_handles(L, b);
  lua_getfield(L, own, "io");
  lua_newtable(L);
  fl_bounded_poll(L, b, -2, "type");
  fl_bounded_add(L, b, list);
  lua_pushlightuserdata(L, b);
  lua_getfield(L, -2, "open");
  lua_pushcclosure(L, f_lines, 2);
  lua_setfield(L, -2, "lines");
  lua_pushvalue(L, -1);
  lua_setfield(L, to, "io");
  lua_setfield(L, own, "io");
  lua_pop(L, 1);
  lua_getfield(L, to, "os");
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, -3) != 0;) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
  fl_bounded_add(L, b, for_library);
  lua_setfield(L, own, "os");
  lua_pop(L, 1);
}
