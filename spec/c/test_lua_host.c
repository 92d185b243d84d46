/*
** flame_lua.h: a host program that embeds Lua and flame. Tensors are passed in both directions and
** are then owned by both sides; tensors of another context are refused.
*/
#include "lua_states.h"
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

static int passed, failed;

#define CHECK(x) check((x) != 0, #x, __LINE__)
static void check(int ok, const char *text, int line) {
  if (ok) passed++; else failed++;
  if (!ok) printf("test_lua_host.c:%d: %s\n", line, text);
}

static flame_tensor *twos(lua_State *L) {
  return flame_full(flame_lua_context(L), FLAME_F32, 2, (int64_t[]){ 2, 3 }, 2);
}

static void tensors_cross_both_ways(void) {
  lua_State *L = open_state();
  flame_tensor *x = twos(L);
  float sum[3] = { 0 };
  flame_lua_push(L, x);
  lua_setglobal(L, "x");
  CHECK(luaL_dostring(L, "y = (x * 3):sum(1) x:fill_(5)") == LUA_OK);
  double first = 0;
  flame_tensor *top = flame_slice(x, 0, 0, 1, 1), *five = flame_reduce("mean", top, 0, NULL, 0);
  CHECK(flame_item(five, &first) == FLAME_OK && first == 5);   /* x is the same handle in Lua:
                                                               ** its fill_ is seen here */
  lua_getglobal(L, "y");
  flame_tensor *y = flame_lua_get(L, -1);
  CHECK(flame_read(y, sum, sizeof sum) == FLAME_OK && sum[0] == 12 && sum[2] == 12);
  lua_pushinteger(L, 3);
  CHECK(flame_lua_get(L, -1) == NULL && flame_lua_get(L, 99) == NULL);
  flame_lua_push(L, NULL);
  CHECK(lua_isnil(L, -1));
  flame_free(x);                                                  /* the box keeps the tensor */
  CHECK(luaL_dostring(L, "assert(x:sum():item() == 30) x:free()") == LUA_OK);
  flame_free(top);
  flame_free(five);
  lua_close(L);
}

static void a_tensor_outlives_its_state(void) {
  lua_State *L = open_state();
  flame_tensor *x = twos(L);
  flame_lua_push(L, x);
  lua_close(L);
  CHECK(flame_ndim(x) == -1 && flame_exp(x) == NULL);
  flame_free(x);
}

static int push(lua_State *L) {
  flame_lua_push(L, lua_touserdata(L, 1));
  return 1;
}

static void tensors_of_another_context_stay_outside(void) {
  lua_State *L = open_state(), *other = open_state();
  flame_tensor *x = twos(other);
  CHECK(flame_lua_context(L) != flame_lua_context(other));
  for (int closed = 0; closed < 2; closed++) {
    lua_pushcfunction(L, push);
    lua_pushlightuserdata(L, x);
    CHECK(lua_pcall(L, 1, 1, 0) == LUA_ERRRUN);
    CHECK(strstr(lua_tostring(L, -1), "flame_lua_push: the tensor is of another context"));
    lua_pop(L, 1);
    if (!closed) lua_close(other);
  }
  flame_free(x);
  lua_close(L);
}

static void a_state_without_the_module_has_none(void) {
  lua_State *L = luaL_newstate();
  flame_context *c = flame_open(NULL);
  flame_tensor *x = flame_number(c, 1);
  CHECK(flame_lua_context(L) == NULL && flame_lua_get(L, 1) == NULL);
  flame_lua_push(L, x);
  CHECK(lua_isnil(L, -1));
  flame_free(x);
  flame_close(c);
  lua_close(L);
}

/* What the last warning said, and how many there were. */
static char warned[400];
static int warnings;

static void take_warning(void *arg, const char *text) {
  CHECK(arg == &warnings);
  snprintf(warned, sizeof warned, "%s", text);
  warnings++;
}

static void take_lua_warning(void *arg, const char *text, int more) {
  CHECK(arg == &warnings);
  const size_t n = strlen(warned);
  snprintf(warned + n, sizeof warned - n, "%s", text);
  if (!more) warnings++;
}

static void warnings_go_to_the_host_or_to_lua(void) {
  static const char slip[] = "local flame = require 'flame'\n"
    "local w = flame.randn(2, 3, {requires_grad = true})\n"
    "local y = flame.ones(2, {dtype = 'i64'})\n"
    "for _ = 1, 3 do flame.cross_entropy(w:softmax(2), y) end\n";
  static const char text[] = "slip:4: cross_entropy: input is the result of softmax, which "
    "cross_entropy takes itself; give it the scores before";
  lua_State *L = luaL_newstate(), *other = open_state();
  luaL_openlibs(L);
  CHECK(flame_lua_open(L, FLAME_OPTIONS(.warn = take_warning, .arg = &warnings)) == FLAME_OK);
  lua_setglobal(L, "flame");
  luaL_requiref(L, "flame", luaopen_flame, 0);
  CHECK(luaL_loadbuffer(L, slip, sizeof slip - 1, "=slip") == LUA_OK && !lua_pcall(L, 0, 0, 0));
  CHECK(warnings == 1 && strcmp(warned, text) == 0);
  CHECK(luaL_loadbuffer(L, slip, sizeof slip - 1, "=slip") == LUA_OK && !lua_pcall(L, 0, 0, 0));
  CHECK(warnings == 1);                                   /* a line warns only once */
  lua_setwarnf(other, take_lua_warning, &warnings);
  warned[0] = 0;
  CHECK(luaL_loadbuffer(other, slip, sizeof slip - 1, "=other") == LUA_OK &&
        !lua_pcall(other, 0, 0, 0));
  CHECK(warnings == 2 && strncmp(warned, "flame: other:4: cross_entropy: ", 31) == 0);
  lua_close(L);
  lua_close(other);
}

int main(void) {
  warnings_go_to_the_host_or_to_lua();
  tensors_cross_both_ways();
  a_tensor_outlives_its_state();
  tensors_of_another_context_stay_outside();
  a_state_without_the_module_has_none();
  printf("lua_host: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
