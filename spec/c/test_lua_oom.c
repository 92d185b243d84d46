/*
** Lua's allocator fails at the k-th request, once or from then on. Opening the module, a small
** script of each kind ('families') and closing must survive it. After each failure the state still
** works if it was opened, and after lua_close the context holds no memory. To check this, a tensor
** is kept over the close, so that the context's struct lives until it is freed. Of a script's
** requests every fifth is tried (every 11th under sanitizers; with FLAME_OOM_STRIDE=1, as in `make
** oom`, every one), of those that open the module fewer. FLAME_OOM_ONLY=name: one family only.
*/
#include "flame.h"
#include "lua_states.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;

static void check_at(int ok, const char *what, const char *name, long k, int line) {
  if (ok) { passed++; return; }
  failed++;
  printf("test_lua_oom.c:%d: failed: %s (%s, request %ld)\n", line, what, name, k);
}
#define CHECK(x, name, k) check_at((x) != 0, #x, name, k, __LINE__)

/* ---- an allocator that fails ------------------------------------------------------------ */

typedef struct heap { long calls, fail_at, blocks; size_t bytes; int forever; } heap;

static int must_fail(heap *h) {
  h->calls++;
  return h->fail_at > 0 && (h->forever ? h->calls >= h->fail_at : h->calls == h->fail_at);
}

/* Lua's allocator: counts blocks and bytes. Lua assumes that shrinking and freeing cannot fail, so
** only requests for more memory are made to fail. */
static void *allocate(void *ud, void *p, size_t old, size_t size) {
  heap *h = ud;
  if (!p) old = 0;
  if (size == 0) {
    h->blocks -= p != NULL;
    h->bytes -= old;
    free(p);
    return NULL;
  }
  if (size > old && must_fail(h)) return NULL;
  void *q = realloc(p, size);
  if (!q) return NULL;
  h->blocks += p == NULL;
  h->bytes += size - old;
  return q;
}

/* ---- families -------------------------------------------------------------------------------- */

static const struct { const char *name, *text; } families[] = {
  { "constructors", "return tostring(flame.zeros(2, 3) + flame.arange(3.0)) .. #flame.eye(2)" },
  { "tables", "return flame.tensor({{1, 2}, {3, 4}}):totable()[2][1] .. ''" },
  { "elementwise", "local x = flame.arange(6.0) return ((x * 2 + 1):exp():sum()):item() .. ''" },
  { "reductions",
    "local v, i = flame.arange(6.0):reshape(2, 3):max(2) return v:sum():item() .. i:totable()[1]" },
  { "indexing", "local x = flame.arange(12.0):reshape(3, 4):clone() x[2] = 5 x[{{1, 2}, {2}}] = 1\n"
                "return (x[{{2, 3}, {}}] + x[x:gt(3)]:sum()):sum():item() .. ''" },
  { "matmul",
    "local x = flame.arange(6.0):reshape(2, 3) return x:matmul(x:t()):sum():item() .. ''" },
  { "composites", "local x = flame.arange(6.0):reshape(2, 3)\n"
                  "return flame.cat({x:softmax(2), x:layer_norm({3})}, 1):sum(1):totable()[1] .. ''" },
  { "random", "flame.seed(1) return flame.randn(4):sum():item() .. flame.randperm(4):bytes()" },
  { "gradients", "local x = flame.arange(3.0):requires_grad_(true)\n"
                 "local y = (x * x):sum() local g = y:gradients({x}, {retain_graph = true}) y:backward()\n"
                 "return (g[x] + x.grad):sum():item() .. ''" },
  { "training", "local nn, optim = require 'flame.nn', require 'flame.optim' flame.seed(2)\n"
                "local net = nn.Sequential{nn.Linear(3, 2), nn.Tanh()} local o = optim.SGD(net:parameters(), {lr = 0.1})\n"
                "net(flame.ones(2, 3)):sum():backward() o:step() return net[1].weight:sum():item() .. ''" },
  { "callbacks",
    "local f = flame.func{name = 'f', forward = function(c, x) c:save(x) return x * 2 end,\n"
                 "  backward = function(c, g) return g * c:saved() end}\n"
                 "local x = flame.ones(2):requires_grad_(true) f(x):sum():backward() return x.grad:sum():item() .. ''" },
  { "calls",
    "local x = flame.arange(12.0):reshape(3, 4):sin() local v, i = x:sort(2) local u = x:unique()\n"
             "return x:cumsum(1):sum():item() .. i:bytes() .. u:numel() .. x:rfft():sum():item() .. x[{{}, {1, 3}}]:det():item()" },
  { "convolutions", "local x = flame.arange(24.0):reshape(1, 2, 3, 4):requires_grad_(true)\n"
                    "local y = flame.conv2d(x, flame.ones(1, 2, 2, 2)) flame.avg_pool2d(y, 2):sum():backward()\n"
                    "return x.grad:sum():item() .. flame.einsum('abij->i', x:detach()):bytes()" },
  { "kernels",
    "local k = flame.kernel[[extern \"C\" __global__ void k(const float *x, float *y, int n) {\n"
               "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] * x[i]; }]]\n"
               "local x = flame.arange(4.0):requires_grad_(true) local y = k(x) y:sum():backward()\n"
               "return x.grad:sum():item() .. flame.map('x -> x * 2')(x:detach()):bytes()" },
  { "kept",
    "local f = flame.func{name = 'f', forward = function(c, x) c:save(x) return x * x end,\n"
            "  backward = function(c, g) return g * 2 * c:saved() end}\n"
            "local w = flame.arange(3.0):requires_grad_(true) local y = w * 1 local z = f(y) y[1] = 0\n"
            "local t = flame.checkpoint(function(v) return v:exp() end, w) local s = z:sum() + t:sum() s:backward()\n"
            "return w.grad:bytes() .. flame.autocast('bf16', function() return w:detach():float():sum():item() end)" },
  { "batches", "local data, s = require 'flame.data', 0\n"
               "for _, b in data.batches({flame.arange(6.0)}, {size = 2, shuffle = true, prefetch = 2}) do s = s + b:sum():item() end\n"
               "return s .. ''" },
  { "scopes", "local r = flame.scope(function() local t = flame.ones(3) return t + 1 end)\n"
              "do local s <close> = flame.scope() local t = flame.ones(2) s:keep(t) end return r:sum():item() .. ''" },
  { "files", "local path, n = os.tmpname(), 0 flame.save(path, {x = flame.arange(3.0)})\n"
             "for _ in pairs(flame.internal.io_list('/')) do n = n + 1 end assert(n > 0)\n"
             "local sum = flame.load(path).x:sum():item() os.remove(path) return sum .. ''" },
  { "errors", "local ok, e = pcall(function() return flame.ones(2) + flame.ones(3) end)\n"
              "assert(not ok) assert(type(e) == 'string') return 'fine'" },
};
enum { FAMILIES = sizeof families / sizeof *families };

static int run_family(lua_State *L) {
  const int i = (int)lua_tointeger(L, 1);
  luaL_requiref(L, "flame", luaopen_flame, 1);
  lua_pop(L, 1);
  if (luaL_loadstring(L, families[i].text) != LUA_OK) return lua_error(L);
  lua_call(L, 0, 1);
  return 1;
}

static int open_libraries(lua_State *L) {
  luaL_openlibs(L);
  return 0;
}

static int attempt(lua_State *L, int family, char out[256]) {
  lua_settop(L, 0);
  lua_pushcfunction(L, run_family);
  lua_pushinteger(L, family);
  const int status = lua_pcall(L, 1, 1, 0);
  const char *s = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "(no string)";
  snprintf(out, 256, "%s", s);
  lua_settop(L, 0);
  return status;
}

static lua_State *open_limited(heap *h) {
  lua_State *L = lua_newstate(allocate, h);
  if (!L) return NULL;
  lua_pushcfunction(L, open_libraries);
  if (lua_pcall(L, 0, 0, 0) == LUA_OK) return L;
  lua_close(L);
  return NULL;
}

/* Runs a script while request k fails. Returns 1 if it makes fewer than k requests. */
static int one(int family, long k, int forever, int warm, const char *expected) {
  const char *name = families[family].name;
  char out[256];
  heap h = { 0 };
  lua_State *L = open_limited(&h);
  if (!L) return 1;
  if (warm) attempt(L, family, out);
  h.fail_at = h.calls + k;
  h.forever = forever;
  /* Lua skips a finaliser for which it has no memory (lgc.c, GCTM), and its tensor then lives until
  ** the state closes. With forever 1 the collector is stopped meanwhile; with 2 it runs, and all
  ** memory must be free after the close. */
  if (forever == 1) lua_gc(L, LUA_GCSTOP);
  const int status = attempt(L, family, out);
  const int reached = h.calls >= h.fail_at;
  h.fail_at = 0;
  lua_gc(L, LUA_GCRESTART);
  if (status == LUA_OK) CHECK(strcmp(out, expected) == 0, name, k);
  else CHECK(strstr(out, "memory") != NULL, name, k);
  if (status != LUA_OK && !strstr(out, "memory")) printf("  %s\n", out);
  lua_gc(L, LUA_GCCOLLECT);
  lua_gc(L, LUA_GCCOLLECT);
  const int again = attempt(L, family, out);
  CHECK(again == LUA_OK && strcmp(out, expected) == 0, name, k);
  if (again != LUA_OK || strcmp(out, expected)) printf("  again: %s\n", out);
  lua_gc(L, LUA_GCCOLLECT);
  lua_gc(L, LUA_GCCOLLECT);
  const flame_context *c = flame_lua_context(L);
  CHECK(c && (c->tensors.live == 0 || forever == 2), name, k);
  const int clean = close_clean(L);
  CHECK(clean, name, k);
  if (!clean)
    printf("  %lld blocks, %lld bytes (%d)\n", (long long)left_blocks,
           (long long)left_bytes, forever);
  CHECK(h.blocks == 0 && h.bytes == 0, name, k);
  return !reached;
}

static void once(int f) {
  char out[256];
  heap h = { 0 };
  lua_State *L = open_limited(&h);
  CHECK(attempt(L, f, out) == LUA_OK && close_clean(L), families[f].name, 0);
}

static void family(int f, int step, long most) {
  char expected[256];
  heap h = { 0 };
  lua_State *L = open_limited(&h);
  const int status = attempt(L, f, expected);
  CHECK(status == LUA_OK, families[f].name, 0);
  if (status != LUA_OK) printf("  %s\n", expected);
  CHECK(close_clean(L), families[f].name, 0);
  if (status != LUA_OK) return;
  for (int forever = 0; forever < 3; forever++) {
    long k = 1, tried = 0;
    for (; k < most && !one(f, k, forever, 1, expected); k += step) tried++;
    CHECK(k < most && tried > 0, families[f].name, k);
    if (getenv("FLAME_OOM_COUNTS")) printf("%s: %ld\n", families[f].name, tried);
  }
}

static int family_of(const char *name) {
  int i = 0;
  while (strcmp(families[i].name, name) != 0) i++;
  return i;
}

/* The next k to try. The C functions that open the module make the first requests, about 800; then
** the library's files are loaded. The later requests are alike, so fewer of them are tried. */
static long after(long k, int step) { return k + (k < 2000 ? step : 8L * step); }

/* Requests fail while the module is opened and the files that this family needs are loaded. */
static void opening(const char *name, int step) {
  const int f = family_of(name);
  char expected[256];
  heap h = { 0 };
  lua_State *L = open_limited(&h);
  attempt(L, f, expected);
  CHECK(close_clean(L), "opening", 0);
  long k = 1, tried = 0;
  for (; k < 100000 && !one(f, k, 0, 0, expected); k = after(k, step)) tried++;
  CHECK(tried > 2000 / step, "opening", k);
  for (k = 1; k < 100000 && !one(f, k, 1, 0, expected); k = after(k, 2 * step)) tried++;
  if (getenv("FLAME_OOM_COUNTS")) printf("opening for %s: %ld\n", name, tried);
}

static int open_files(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/fd");
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

int main(void) {
  const int slow = getenv("FLAME_SANITIZE") != NULL;
  setenv("FLAME_THREADS", "1", 1);
  for (int f = 0; f < FAMILIES; f++) once(f);     /* a device's libraries keep files open */
  const int files = open_files();
  if (!getenv("FLAME_OOM_ONLY")) {
    opening("training", slow ? 61 : 13);
    opening("calls", slow ? 59 : 11);
  }
  const char *stride = getenv("FLAME_OOM_STRIDE"), *only = getenv("FLAME_OOM_ONLY");
  const int step = slow ? 11 : stride ? atoi(stride) : 5;
  for (int f = 0; f < FAMILIES; f++)
    if (!only || strcmp(only, families[f].name) == 0) family(f, step, 100000);
  CHECK(open_files() == files, "all", 0);
  printf("test_lua_oom: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
