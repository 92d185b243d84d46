/*
** States with limits, from C: flame_lua_new, flame_lua_open and flame_lua_pcall. Scripts that try
** to exceed their limits are in spec/limits/hostile_spec.lua.
*/
#include "lua/flame_lua.h"
#include "tensor/context.h"
#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int passed, failed;

#define CHECK(x) check((x) != 0, #x, __LINE__)
static void check(int ok, const char *text, int line) {
  if (ok) passed++; else failed++;
  if (!ok) printf("test_lua_limits.c:%d: %s\n", line, text);
}

static const int64_t MIB = 1 << 20, MS = 1000000;

/* Runs text by flame_lua_pcall; returns 1 if it fails with a message that contains 'part', or, with
** part NULL, if it succeeds. */
static int run_at(lua_State *L, const char *text, const char *part, int line) {
  int status = luaL_loadbuffer(L, text, strlen(text), "=script");
  if (status == LUA_OK) status = flame_lua_pcall(L, 0, 0, 0);
  const char *message = status == LUA_OK ? "" : lua_tostring(L, -1);
  const int good = part ? status != LUA_OK && message && strstr(message, part) : status == LUA_OK;
  if (!good) printf("test_lua_limits.c:%d: got '%s'\n", line, message ? message : "no text");
  lua_settop(L, 0);
  return good;
}
#define RUNS(L, text) CHECK(run_at(L, text, NULL, __LINE__))
#define FAILS(L, text, part) CHECK(run_at(L, text, part, __LINE__))

static void a_new_state_has_bounded_libraries(void) {
  lua_State *L;
  CHECK(flame_lua_new(NULL, &L) == FLAME_OK && L);
  RUNS(L, "assert(flame.ones(3):sum():item() == 3)");
  RUNS(L, "assert(require 'flame' == flame and require('flame.nn').Linear)");
  RUNS(L, "for _, name in ipairs { 'debug', 'package', 'dofile', 'loadfile' } do\n"
          "  assert(_G[name] == nil, name) end\n"
          "assert(not string.dump and not os.exit and not os.execute and not os.getenv)\n"
          "assert(rawget(flame, 'internal') == nil)\n"
          "assert(not pcall(function() return flame.internal end))");
  FAILS(L, "require 'socket'", "module 'socket' is not there");
  FAILS(L, "setmetatable({}, { __gc = print })", "there are no finalisers");
  FAILS(L, "assert(load('\\27Lua'))", "attempt to load a binary chunk");
  FAILS(L, "load('x', '=flame/ops/loss.lua')", "the name of one of flame's own files");
  lua_close(L);
  CHECK(flame_lua_new(NULL, NULL) == FLAME_BAD_ARGUMENT);
  CHECK(flame_lua_new(&(flame_options){ .device = "cpu" }, &L) == FLAME_BAD_ARGUMENT && !L);
  CHECK(flame_lua_new(FLAME_OPTIONS(.limit[FLAME_HOST_BYTES] = 1000), &L) != FLAME_OK && !L);
}

static void the_module_opens_once_with_options(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(flame_lua_open(L, FLAME_OPTIONS(.limit[FLAME_LUA_STEPS] = 100000)) == FLAME_OK);
  CHECK(lua_istable(L, -1));
  CHECK(flame_lua_open(L, NULL) == FLAME_BAD_ARGUMENT);
  CHECK(strstr(lua_tostring(L, -1), "already open in this state"));
  lua_settop(L, 0);
  RUNS(L, "assert(debug and io and require)");         /* the libraries are the host's */
  FAILS(L, "while true do end", "the limit of 100000 instructions of Lua is used up");
  FAILS(L, "coroutine.wrap(function() while true do end end)()", "instructions of Lua is used up");
  RUNS(L, "local x = 1");
  lua_close(L);
}

static void steps_and_time_are_used_up(void) {
  static const char *const loops[] = {
    "while true do end", "while true do pcall(error) end",
    "while true do pcall(function() while true do end end) end",
    "local function f() return pcall(f) or f() end f()",
    "repeat until xpcall(function() while true do end end, function() while true do end end)",
    ("coroutine.wrap(function() while true do pcall(coroutine.wrap(function() while true do end end))"
     " end end)()"),
    "local x <close> = setmetatable({}, {__close = function() while true do end end}) while true do end",
    "table.move({}, 1, math.maxinteger - 1, 2)",
    "table.insert(setmetatable({}, {__len = function() return 1 << 50 end}), 1, 1)",
    "table.concat(setmetatable({}, {__index = rawlen, __len = function() return 1 << 50 end}))",
    "local p = ('.-'):rep(12) .. 'b' return (('a'):rep(100)):find(p)",
    "local s = ('x'):rep(1 << 22) while true do local t = s .. 'y' end",
    "local s = '0x' .. ('1'):rep(1 << 22) while true do local t = s + 0 end",
    "local s, t = ('x'):rep(1 << 24), ('x'):rep(1 << 24 - 1) t = t .. 'x' while true do local t = s < t end",
    "while true do coroutine.create(print) end",
    "load(function() return ' ' end)",
  };
  for (int time = 0; time < 2; time++) {
    lua_State *L;
    const flame_options *o = FLAME_OPTIONS(.limit[FLAME_HOST_BYTES] = 64 * MIB,
                                           .limit[FLAME_CALL_NS] = time ? 50 * MS : 0,
                                           .limit[FLAME_LUA_STEPS] = time ? 0 : 300000);
    CHECK(flame_lua_new(o, &L) == FLAME_OK);
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
      if (time || !strstr(loops[i], "s < t"))            /* comparing strings costs no steps */
        CHECK(run_at(L, loops[i], "is used up", __LINE__));
    }
    RUNS(L, "return 1");
    lua_close(L);
  }
}

/* Reading a part of a long string costs in proportion to the part, not to the string. */
static void what_is_read_is_what_costs(void) {
  lua_State *L;
  CHECK(flame_lua_new(FLAME_OPTIONS(.limit[FLAME_LUA_STEPS] = 300000), &L) == FLAME_OK);
  RUNS(L, "s = ('xy'):rep(1 << 20)");
  RUNS(L, "for i = 1, 5000 do assert(s:byte(i) == s:sub(i, i):byte() and #s == s:len()) end");
  FAILS(L, "for i = 1, 100 do s:byte(1, 100000) end", "instructions of Lua is used up");
  FAILS(L, "for i = 1, 100 do s:upper() end", "instructions of Lua is used up");
  RUNS(L, "for i = 1, 3000 do ('x'):gsub('', 'y') end");
  FAILS(L, "(('x'):rep(400000)):gsub('', 'y')", "instructions of Lua is used up");
  lua_close(L);
}

static void sort_sorts(void) {
  lua_State *L;
  CHECK(flame_lua_new(NULL, &L) == FLAME_OK);
  RUNS(L, "for _, n in ipairs { 0, 1, 2, 3, 31, 32, 33, 34, 60, 65, 500, 3000 } do\n"
          "  local up, down, sum = {}, {}, 0\n"
          "  for i = 1, n do up[i] = i * 7919 % (n // 2 + 1) down[i] = up[i] sum = sum + up[i] end\n"
          "  table.sort(up)\n"
          "  table.sort(down, function(a, b) return a > b end)\n"
          "  for i = 1, n do\n"
          "    assert(up[i] == down[n + 1 - i] and (i == 1 or up[i - 1] <= up[i]))\n"
          "    sum = sum - up[i]\n"
          "  end\n"
          "  assert(sum == 0 and #up == n)\n"
          "end");
  RUNS(L, "local t = {} for i = 1, 100 do t[i] = i end\n"      /* no order: it ends */
          "table.sort(t, function() return true end)\n"
          "local seen = {} for i = 1, 100 do seen[t[i]] = true end assert(#seen == 100)");
  /* The comparison function chooses its answers while sorting, so that each partition is as uneven
  ** as possible (McIlroy). */
  RUNS(L, "local n, asked, known, last, value, t = 2000, 0, 0, 0, {}, {}\n"
          "for i = 1, n do t[i] = i end\n"
          "table.sort(t, function(a, b)\n"
          "  asked = asked + 1\n"
          "  if not value[a] and not value[b] then known = known + 1 value[a == last and a or b] = known end\n"
          "  if not value[a] then last = a elseif not value[b] then last = b end\n"
          "  return (value[a] or n) < (value[b] or n)\n"
          "end)\n"
          "assert(asked < 5 * n * 11, asked)\n"
          "for i = 2, n do assert((value[t[i - 1]] or n) <= (value[t[i]] or n)) end");
  lua_close(L);
}

static void memory_raises_and_names_the_limit(void) {
  lua_State *L;
  const flame_options *o = FLAME_OPTIONS(.device = "cpu", .limit[FLAME_HOST_BYTES] = 64 * MIB);
  CHECK(flame_lua_new(o, &L) == FLAME_OK);
  FAILS(L, "local t = {} for i = 1, math.huge do t[i] = {} end",
        "the limit of the context is 64 MiB");
  FAILS(L, "local s = 'x' while true do s = s .. s end", "Lua and sandboxes");
  FAILS(L, "flame.eval(flame.ones(1 << 30))", "the limit of the context is 64 MiB");
  FAILS(L, "local t = {} for i = 1, 1e6 do t[i] = flame.ones(1000) flame.eval(t[i]) end",
        "the limit of the context is 64 MiB");
  for (int i = 0; i < 2; i++) {                  /* again in the state whose memory ran out */
    FAILS(L, "local t = {} for i = 1, math.huge do t[i] = flame.rand(9999) flame.eval(t[i]) end",
          "the limit of the context is 64 MiB");
    RUNS(L, "local x = flame.rand(64, 64) for i = 1, 9 do x = x:matmul(x):softmax(1) end x:sum():item()");
    RUNS(L, "local t = {} local function fill(n) for i = 1, n do\n"
            "  local ok, x = pcall(function() local x = flame.rand(99999) flame.eval(x) return x end)\n"
            "  if not ok then t = {} return i end t[i] = x end end\n"
            "local n = fill(math.huge) for i = 1, 5 do assert(fill(math.huge) > n // 2) end");
  }
  RUNS(L, "local n, ok = 1 << 26\n"
          "repeat n = n // 2 ok = pcall(function() return flame.ones(n):exp():sum():item() end)\n"
          "until ok assert(n >= 1 << 20)");
  RUNS(L, "local ok, why = pcall(function() return ('x'):rep(1 << 30) end)\n"
          "assert(not ok and why:find('the limit of the context is 64 MiB'), why)");
  flame_context *c = flame_lua_context(L);
  CHECK(flame_limit_used(c, FLAME_HOST_BYTES) <= 64 * MIB);
  CHECK(c->mem.peak_bytes <= 64 * MIB + MIB / 16);             /* and the text of a message */
  lua_gc(L, LUA_GCCOLLECT);
  CHECK(flame_limit_used(c, FLAME_HOST_BYTES) >= (int64_t)lua_gc(L, LUA_GCCOUNT) * 1024);
  flame_tensor *x = flame_number(c, 1);
  lua_close(L);
  CHECK(c->mem.live_bytes < 1 << 20);
  flame_free(x);
}

/* Small blocks of all sizes: the memory counted for the limit is Lua's own count plus unused parts
** of pages, it goes back when blocks are freed, and contents survive growing and shrinking. */
static void blocks_are_counted_and_go_back(void) {
  lua_State *L;
  const flame_options *o = FLAME_OPTIONS(.device = "cpu", .limit[FLAME_HOST_BYTES] = 64 * MIB);
  CHECK(flame_lua_new(o, &L) == FLAME_OK);
  flame_context *c = flame_lua_context(L);
  RUNS(L, "collectgarbage()");
  const int64_t before = flame_limit_used(c, FLAME_HOST_BYTES);
  for (int i = 0; i < 3; i++) {
    RUNS(L, "t = {} for i = 1, 40000 do\n"
            "  local n = i * 7919 % 600\n"
            "  t[i] = i % 2 == 0 and ('x'):rep(n) .. i or { table.unpack({ i, i, i, i, i, i, i }, 1, n % 8) }\n"
            "end");
    RUNS(L, "for i = 1, 40000, 3 do t[i] = false end collectgarbage()\n"
            "for i = 1, 40000 do local n, v = i * 7919 % 600, t[i]\n"
            "  if not v then assert(i % 3 == 1)\n"
            "  elseif i % 2 == 0 then assert(v == ('x'):rep(n) .. i)\n"
            "  else for k = 1, n % 8 do assert(v[k] == i) end for k = 1, 40 do v[k] = k end end\n"
            "end");
    const int64_t used = flame_limit_used(c, FLAME_HOST_BYTES),
                  lua = (int64_t)lua_gc(L, LUA_GCCOUNT) * 1024;
    CHECK(used > before + 8 * MIB && used >= lua && used < lua + before + lua / 2);
    FAILS(L, "local t = {} for i = 1, math.huge do t[i] = { i } end",
          "the limit of the context is 64 MiB");
    RUNS(L, "t = nil collectgarbage()");
    CHECK(flame_limit_used(c, FLAME_HOST_BYTES) < before + MIB);
  }
  lua_close(L);
}

static char printed[100];
static void take(void *arg, const char *s, size_t n) {
  (void)arg;
  const size_t had = strlen(printed);
  if (had + n < sizeof printed) memcpy(printed + had, s, n), printed[had + n] = 0;
}

static void output_goes_to_the_host(void) {
  lua_State *L;
  const flame_options *o = FLAME_OPTIONS(.print = take, .limit[FLAME_OUTPUT_BYTES] = 50);
  CHECK(flame_lua_new(o, &L) == FLAME_OK);
  RUNS(L, "print('a', 1, nil)");
  CHECK(strcmp(printed, "a\t1\tnil\n") == 0);
  FAILS(L, "while true do print('xxxxxxxxx') end", "the limit of 50 bytes of output is used up");
  lua_close(L);
}

/* ---- interrupts of what runs inside ---- */

typedef struct interrupter { flame_context *c; pthread_t thread; atomic_int go, quit; } interrupter;

static void *interrupt_on(void *arg) {
  interrupter *i = arg;
  while (!atomic_load(&i->quit)) {
    nanosleep(&(struct timespec){ .tv_nsec = atomic_load(&i->go) > 1 ? 1000 : 20 * MS }, NULL);
    if (atomic_load(&i->go)) flame_interrupt(i->c);
  }
  return NULL;
}

static int begin_interrupts(lua_State *L) {
  interrupter *i = lua_touserdata(L, lua_upvalueindex(1));
  atomic_store(&i->go, 1);
  return 0;
}

static void interrupts_reach_the_sandbox_that_runs(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(flame_lua_open(L, FLAME_OPTIONS(.device = "cpu")) == FLAME_OK);
  lua_setglobal(L, "flame");
  interrupter i = { .c = flame_lua_context(L) };
  lua_pushlightuserdata(L, &i);
  lua_pushcclosure(L, begin_interrupts, 1);
  lua_setglobal(L, "interrupt");
  CHECK(pthread_create(&i.thread, NULL, interrupt_on, &i) == 0);
  /* an interrupt ends a sandbox's script, also if its print function has run another sandbox */
  FAILS(L, "local other = flame.sandbox {}\n"
           "box = flame.sandbox { time = 10, print = function()\n"
           "  other:run('return 1') interrupt() end }\n"
           "box:run('print(1) while true do end')", "interrupted!");
  atomic_store(&i.go, 0);
  RUNS(L, "local time = box:used().time assert(time < 10, time)");     /* not by its own limit */
  atomic_store(&i.go, 2);                        /* while sandboxes are opened and closed */
  RUNS(L, "for _ = 1, 40 do pcall(function()\n"
          "  local box <close> = flame.sandbox { time = 0 }\n"
          "  for _ = 1, 20 do pcall(box.run, box, 'for i = 1, 100 do end') end end) end");
  atomic_store(&i.quit, 1);
  pthread_join(i.thread, NULL);
  lua_close(L);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  a_new_state_has_bounded_libraries();
  the_module_opens_once_with_options();
  steps_and_time_are_used_up();
  what_is_read_is_what_costs();
  sort_sorts();
  memory_raises_and_names_the_limit();
  blocks_are_counted_and_go_back();
  output_goes_to_the_host();
  interrupts_reach_the_sandbox_that_runs();
  printf("lua_limits: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
