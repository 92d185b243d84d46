/*
** Eight states in eight threads: six that do random steps on the CPU, one that exceeds its limits
** again and again, one whose device (on the fake driver) is lost meanwhile. The six must compute
** the same bits as when they run alone, and the other two must fail as expected. To be run under
** TSan.
**
**   test_threads_beside [STEPS [SEED]]    STEPS of all six together (2,000; in tools/fuzz 100,000)
*/
#include "lua/flame_lua.h"
#include "tensor/context.h"
#include <lauxlib.h>
#include <lualib.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int passed, failed;

static void check_at(int ok, const char *what, int line) {
  if (ok) passed++; else failed++;
  if (!ok) printf("test_threads_beside.c:%d: failed: %s\n", line, what);
}
#define CHECK(x) check_at((x) != 0, #x, __LINE__)

enum { STATES = 6, TEXT = 2048 };
static atomic_int running;       /* how many of the six still compute; the other two then stop */

/* ---- the six ------------------------------------------------------------------------------- */

/* A function (seed, steps) of random steps that returns a digest of all bits of its results. Every
** step takes tensors from the table 'pool' and puts a finite one back. */
static const char steps_text[] =
  "local flame, seed, steps = ...\n"
  "local nn, optim = require 'flame.nn', require 'flame.optim'\n"
  "flame.seed(seed)\n"
  "local r = seed * 2654435761 % 2^32 // 1 | 0\n"
  "local function any(n) r = (r * 1664525 + 1013904223) & 0xffffffff return (r >> 16) % n + 1 end\n"
  "local pool, digest = {}, 0\n"
  "for i = 1, 8 do pool[i] = flame.randn(12, 12) end\n"
  "local function old() return pool[any(8)] end\n"
  "local function note(v) digest = (digest * 31 ~ string.unpack('<i8', string.pack('<d', v))) end\n"
  "local net = nn.Sequential(nn.Linear(12, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3))\n"
  "local opt = optim.Adam(net:parameters(), { lr = 1e-3 })\n"
  "local kernel = flame.kernel { block = 64, grid = 3, source = [[ __global__ void mix(const float *x, const float *y, float *z, int n) {\n"
  "  __shared__ float s[64];\n"
  "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
  "  s[threadIdx.x] = i < n ? x[i] : 0;\n"
  "  __syncthreads();\n"
  "  if (i < n) z[i] = s[63 - threadIdx.x] * 0.5f + sinf(y[i]);\n"
  "} ]] }\n"
  "local f = flame.func { name = 'twice', forward = function(c, x) c:save(x) return x * 2 end,\n"
  "  backward = function(c, g) return g * c:saved():tanh() end }\n"
  "local step = {\n"
  "  function() return old() + old() * 0.5 end,\n"
  "  function() return old():matmul(old()):mul(0.1) end,\n"
  "  function() return (old():softmax(2):log() - old()):abs():sqrt() end,\n"
  "  function() return old():sort(1):cumsum(2) * 0.1 end,\n"
  "  function() return flame.randn(12, 12) + old():dropout(0.2) end,\n"
  "  function() return kernel(old(), old()) end,\n"
  "  function() local x = old():t():contiguous() x[{ any(12) }] = 1 return x end,\n"
  "  function() return flame.cat({ old():narrow(1, 1, 6), old():narrow(1, 7, 6) }, 1) end,\n"
  "  function() return old()[flame.randint({ 12 }, 1, 12)] end,\n"
  "  function() note(flame.rand(50000):sub_(0.5):cumsum(1):mean():item()) return old() end,\n"
  "  function()\n"
  "    local loss = net(old():detach()):cross_entropy(flame.randint({ 12 }, 1, 3))\n"
  "    opt:zero_grad() loss:backward() opt:step() note(loss:item()) return old()\n"
  "  end,\n"
  "  function()\n"
  "    local x = old():detach():requires_grad_()\n"
  "    local g = flame.autograd.grad(f(x):sin():sum(), x)\n"
  "    return type(g) == 'table' and g[1] or g\n"
  "  end,\n"
  "  function()\n"
  "    local a, b = old(), old()\n"
  "    return coroutine.wrap(function() local c = a * b coroutine.yield(c) end)()\n"
  "  end,\n"
  "  function()\n"
  "    local ok, why = pcall(function() return flame.ones(2) + flame.ones(3) end)\n"
  "    note(ok and 1 or #tostring(why)) return old()\n"
  "  end,\n"
  "  function() collectgarbage() return old() end,\n"
  "}\n"
  "for i = 1, steps do\n"
  "  local x = step[any(#step)]()\n"
  "  pool[any(8)] = flame.where(x:isfinite(), x, flame.zeros(12, 12)):clamp(-3, 3):detach()\n"
  "  if any(4) == 1 then note(old():sum():item()) end\n"
  "end\n"
  "for _, p in ipairs(net:parameters()) do note(p:sum():item()) end\n"
  "for i = 1, 8 do note(pool[i]:square():sum():item()) end\n"
  "return ('%016x'):format(digest)\n";

typedef struct job {
  int seed, steps, good;
  char out[TEXT];
} job;

static lua_State *open_on(const char *device) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(flame_lua_open(L, FLAME_OPTIONS(.device = device, .threads = 2)) == FLAME_OK);
  return L;                              /* with the module on top */
}

static void compute(job *j) {
  lua_State *L = open_on("cpu");
  j->good = luaL_loadstring(L, steps_text) == LUA_OK;
  lua_insert(L, 1);
  lua_pushinteger(L, j->seed);
  lua_pushinteger(L, j->steps);
  j->good = j->good && lua_pcall(L, 3, 1, 0) == LUA_OK;
  snprintf(j->out, sizeof j->out, "%s", lua_tostring(L, -1));
  lua_close(L);
}

static void *compute_thread(void *arg) {
  compute(arg);
  atomic_fetch_sub(&running, 1);
  return NULL;
}

/* ---- the one that hits limits --------------------------------------------------------------- */

static const struct { const char *text, *part; } attacks[] = {
  { "while true do pcall(error) end", "is used up" },
  { "local co co = coroutine.wrap(function() while true do\n"
    "  pcall(coroutine.wrap(function() end)) end end) co()", "is used up" },
  { "local t = {} for i = 1, math.huge do t[i] = flame.rand(9999) flame.eval(t[i]) end",
    "the limit of the context is 24 MiB" },
  { "local s = 'x' while true do s = s .. s end", "the limit of the context is 24 MiB" },
  { "return flame.rand(1 << 24):sort(1):sum():item()", "the limit of the context is 24 MiB" },
  { "local x, t = flame.ones(2), {} for i = 1, math.huge do t[i] = x + i end", "limit" },
  { "local x = flame.rand(64, 64) while true do x = x:matmul(x):softmax(1) x:sum():item() end",
    "is used up" },
  { "return ('a'):rep(1000):find(('.-'):rep(12) .. 'b')", "is used up" },
  { "local k = flame.kernel { shape = { 1 }, grid = 1, block = 1,\n"
    "  source = '__global__ void k(float *y, int n) { while (n > 0) y[0] = n; }' }\n"
    "return k(3):sum():item()", "is used up" },
  { "while true do io.write(('x'):rep(1000)) end", "is used up" },
};
enum { ATTACKS = sizeof attacks / sizeof *attacks };

static void swallow(void *arg, const char *s, size_t n) { (void)arg, (void)s, (void)n; }

static void *hit_limits(void *arg) {
  int *rounds = arg;
  lua_State *L;
  const flame_options *o = FLAME_OPTIONS(.device = "cpu", .threads = 2, .print = swallow,
    .limit[FLAME_HOST_BYTES] = 24 << 20, .limit[FLAME_NODES] = 5000,
    .limit[FLAME_LUA_STEPS] = 200000, .limit[FLAME_KERNEL_STEPS] = 100000,
    .limit[FLAME_OUTPUT_BYTES] = 50000);
  CHECK(flame_lua_new(o, &L) == FLAME_OK);
  for (; L && (atomic_load(&running) > 0 || *rounds < ATTACKS); *rounds += 1) {
    const int i = *rounds % ATTACKS;
    int status = luaL_loadstring(L, attacks[i].text);
    if (status == LUA_OK) status = flame_lua_pcall(L, 0, 0, 0);
    const char *why = status == LUA_OK ? "nothing" : lua_tostring(L, -1);
    const int good = status != LUA_OK && why && strstr(why, attacks[i].part);
    if (!good) printf("%s\n  ended by %s\n", attacks[i].text, why ? why : "no text");
    CHECK(good);
    lua_settop(L, 0);
  }
  if (L) lua_close(L);
  return NULL;
}

/* ---- the one whose device is lost ------------------------------------------------------------ */

typedef struct loss { int before, after, again; char why[TEXT]; } loss;

static int on_device(lua_State *L, char why[TEXT]) {
  int status = luaL_loadstring(L, "local x = flame.ones(8, 8) x:matmul(x):sum():item()");
  if (status == LUA_OK) status = lua_pcall(L, 0, 0, 0);
  if (status != LUA_OK) snprintf(why, TEXT, "%s", lua_tostring(L, -1));
  lua_settop(L, 0);
  return status == LUA_OK;
}

static lua_State *open_device(void) {
  lua_State *L = open_on("cuda");
  lua_setglobal(L, "flame");
  return L;
}

/* Computes on the device until it is lost. After that no state can use it any more, but states can
** still be opened and closed, which this repeats until the others are done. */
static void *lose_device(void *arg) {
  loss *l = arg;
  lua_State *L = open_device();
  while (l->before < 100000 && on_device(L, l->why)) l->before++;
  do {
    char why[TEXT];
    l->after += !on_device(L, why);
    lua_close(L);
    L = open_device();
    l->again += on_device(L, why);
  } while (atomic_load(&running) > 0);
  lua_close(L);
  return NULL;
}

/* Makes a folder with the fake driver under the names of CUDA's libraries, and lets the library
** look for them there only (FLAME_TEST_MACHINE). */
static void make_machine(char folder[PATH_MAX]) {
  static const char *const names[] = { "libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13" };
  char self[PATH_MAX], link[PATH_MAX + 40], file[PATH_MAX + 40];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n > 0 ? n : 0] = 0;
  *strrchr(self, '/') = 0;
  snprintf(file, sizeof file, "%s/fake_cuda.so", self);
  snprintf(folder, PATH_MAX, "%s", "/tmp/flame-beside-XXXXXX");
  CHECK(mkdtemp(folder) != NULL);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(link, sizeof link, "%s/%s", folder, names[i]);
    CHECK(symlink(file, link) == 0);
  }
  setenv("FLAME_TEST_MACHINE", folder, 1);
  setenv("FAKE_CUDA", "fail=LaunchKernel:300:700", 1);      /* an illegal address, from then on */
  setenv("FLAME_REPLAY", "0", 1);                         /* a graph's kernels are not counted */
  setenv("FLAME_CACHE_DIR", "off", 1);
  unsetenv("FLAME_DEVICE");
}

static void drop_machine(const char *folder) {
  char command[PATH_MAX + 16];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  CHECK(system(command) == 0);
}

int main(int argc, char **argv) {
  const int steps = argc > 1 ? atoi(argv[1]) : 2000;
  const int seed = argc > 2 ? (int)(atoll(argv[2]) % 100000) : 1;
  static job alone[STATES], beside[STATES];
  char folder[PATH_MAX];
  pthread_t t[STATES + 2];
  int rounds = 0;
  loss l = { 0, 0, 0, "" };
  make_machine(folder);
  for (int i = 0; i < STATES; i++) {
    alone[i] = beside[i] = (job){ .seed = seed + i, .steps = (steps + STATES - 1) / STATES };
    compute(&alone[i]);
    CHECK(alone[i].good);
    if (!alone[i].good) printf("  %s\n", alone[i].out);
  }
  CHECK(strcmp(alone[0].out, alone[1].out) != 0);
  atomic_store(&running, STATES);
  for (int i = 0; i < STATES; i++) pthread_create(&t[i], NULL, compute_thread, &beside[i]);
  pthread_create(&t[STATES], NULL, hit_limits, &rounds);
  pthread_create(&t[STATES + 1], NULL, lose_device, &l);
  for (int i = 0; i < STATES + 2; i++) pthread_join(t[i], NULL);
  for (int i = 0; i < STATES; i++) {
    CHECK(beside[i].good && strcmp(beside[i].out, alone[i].out) == 0);
    if (strcmp(beside[i].out, alone[i].out) != 0)
      printf("  state %d of seed %d: %s alone, %s beside others\n", i, seed, alone[i].out,
             beside[i].out);
  }
  CHECK(rounds >= ATTACKS);
  CHECK(l.before > 0 && l.before < 100000 && l.after > 0 && l.again == 0);
  CHECK(strstr(l.why, "device cuda:0 is lost: CUDA_ERROR_ILLEGAL_ADDRESS"));
  drop_machine(folder);
  if (argc > 1)
    printf("test_threads_beside: seed %d, %d rounds, %d attacks, device lost after %d\n", seed,
           steps, rounds, l.before);
  printf("test_threads_beside: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
