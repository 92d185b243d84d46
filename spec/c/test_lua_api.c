/*
** What other C modules of a Lua state can use of flame: the table of functions in the registry, and
** the exchange of tensors as userdata of the type "dltensor".
*/
#include "lua_states.h"
#include "lua/flame_api.h"
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;

#define CHECK(x) check((x) != 0, #x, __LINE__)
static void check(int ok, const char *text, int line) {
  if (ok) passed++; else failed++;
  if (!ok) printf("test_lua_api.c:%d: %s\n", line, text);
}

static int says(lua_State *L, const char *chunk, const char *text) {
  if (luaL_dostring(L, chunk) == LUA_OK) return 0;
  const int ok = strstr(lua_tostring(L, -1), text) != NULL;
  if (!ok) printf("  %s\n", lua_tostring(L, -1));
  lua_pop(L, 1);
  return ok;
}

static void the_table_is_in_the_registry(void) {
  lua_State *L = open_state();
  lua_getfield(L, LUA_REGISTRYINDEX, "flame.api");
  const flame_api *f = (const flame_api *)lua_touserdata(L, -1);
  CHECK(f && f->bytes == sizeof *f && FLAME_HAS(f, exp) && FLAME_HAS(f, lua_pcall));
  flame_api older = *f;
  older.bytes = offsetof(flame_api, exp) + 1;
  CHECK(!FLAME_HAS(&older, exp) && FLAME_HAS(&older, open));
  void *const *at = (void *const *)(const void *)f;
  for (size_t k = 0; k < sizeof *f / sizeof *at; k++) CHECK(at[k] != NULL);
  flame_context *c = f->lua_context(L);
  double v = 0;
  flame_tensor *x = f->full(c, FLAME_F32, 1, (int64_t[]){ 3 }, 2), *y = f->sum(x, 0, NULL, 0);
  CHECK(f->item(y, &v) == FLAME_OK && v == 6 && f->open == flame_open);
  f->free(x);
  f->free(y);
  lua_close(L);
}

/* ---- DLPack -------------------------------------------------------------------------------- */

/* The struct of the DLPack standard. */
typedef struct managed {
  void *data;
  struct { int32_t type, id; } device;
  int32_t ndim;
  struct { uint8_t code, bits; uint16_t lanes; } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
  void *manager;
  void (*deleter)(struct managed *self);
} managed;

static int deleted;
static float data[4] = { 1, 2, 3, 4 };
static int64_t shape[1] = { 4 };

static void delete(managed *m) {
  deleted++;
  free(m);
}

static void push_capsule(lua_State *L, int bits) {
  managed *m = calloc(1, sizeof *m);
  *m = (managed){ .data = data, .device = { 1, 0 }, .ndim = 1, .shape = shape, .deleter = delete };
  m->dtype.code = 2, m->dtype.bits = (uint8_t)bits, m->dtype.lanes = 1;
  void **p = (void **)lua_newuserdatauv(L, sizeof *p, 0);
  *p = m;
  luaL_setmetatable(L, "dltensor");
}

static int make(lua_State *L) {
  push_capsule(L, (int)luaL_optinteger(L, 1, 32));
  return 1;
}

static void tensors_of_others_come_in(void) {
  lua_State *L = open_state();
  luaL_dostring(L, "flame.ones(1):to_dlpack()");              /* afterwards the type is known */
  lua_register(L, "make", make);
  deleted = 0;
  CHECK(luaL_dostring(L, "x = flame.from_dlpack(make()) assert(x:sum():item() == 10)") == LUA_OK);
  CHECK(deleted == 0);
  CHECK(luaL_dostring(L, "x = nil collectgarbage() collectgarbage()") == LUA_OK && deleted == 1);
  CHECK(luaL_dostring(L, "d = make() flame.from_dlpack(d)") == LUA_OK);
  CHECK(says(L, "flame.from_dlpack(d)", "from_dlpack: the dltensor was taken already"));
  CHECK(says(L, "flame.from_dlpack(make(7))", "no dtype here is code 2 with 7 bits"));
  CHECK(says(L, "flame.from_dlpack(io.stdout)", "expected a dltensor of a C module, got"));
  CHECK(says(L, "flame.from_dlpack(flame.newaxis)", "expected a dltensor of a C module, got"));
  CHECK(says(L, "flame.from_dlpack()", "from_dlpack"));
  lua_close(L);
  /* refused tensors were deleted, too */
  CHECK(deleted == 3);
}

static void tensors_go_out(void) {
  lua_State *L = open_state();
  CHECK(luaL_dostring(L, "x = flame.tensor { 1, 2, 3 } d = x:to_dlpack() x:fill_(7)") == LUA_OK);
  lua_getglobal(L, "d");
  void **p = (void **)luaL_testudata(L, -1, "dltensor");
  managed *m = p ? (managed *)*p : NULL;
  CHECK(m && m->ndim == 1 && m->shape[0] == 3 && ((float *)m->data)[1] == 2);
  CHECK(luaL_dostring(L, "e = x:to_dlpack(true) assert(not pcall(x.sum, x))") == LUA_OK);
  lua_getglobal(L, "e");
  p = (void **)luaL_testudata(L, -1, "dltensor");
  m = p ? (managed *)*p : NULL;
  CHECK(m && ((float *)m->data)[2] == 7);
  *p = NULL;                                              /* taken, so its finaliser does nothing */
  m->deleter(m);
  CHECK(says(L, "x:to_dlpack()", "to_dlpack: tensor was freed at"));
  CHECK(says(L, "flame.zeros(2):exp():to_dlpack(3)", "to_dlpack"));
  CHECK(luaL_dostring(L, "local d <close> = flame.ones(2):to_dlpack()") == LUA_OK);
  lua_close(L);
}

int main(void) {
  setenv("FLAME_DEVICE", "cpu", 1);                         /* arrays are read by pointers */
  the_table_is_in_the_registry();
  tensors_of_others_come_in();
  tensors_go_out();
  printf("test_lua_api: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
