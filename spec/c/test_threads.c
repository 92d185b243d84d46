/*
** States and threads. Contexts share nothing: two states that train in two threads compute the same
** bits as one alone; contexts close in any order; a state can close with live tensors, pending
** work, a tape and coroutines; errors in finalisers, os.exit and fork leave nothing behind. Run
** under TSan and ASan, it also finds races and leaks.
*/
#include "flame.h"
#include "lua_states.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
enum { TSAN = 1 };
#else
enum { TSAN = 0 };
#endif

static int passed, failed;

static void check_at(int ok, const char *what, int line) {
  if (ok) { passed++; return; }
  failed++;
  printf("test_threads.c:%d: failed: %s\n", line, what);
}
#define CHECK(x) check_at((x) != 0, #x, __LINE__)

/* ---- states --------------------------------------------------------------------------------- */

/* Runs a script; out: its result, or its error, as text. Returns 1 if it succeeds. */
static int run(lua_State *L, const char *text, char out[4096]) {
  int status = luaL_loadstring(L, text);
  if (status == LUA_OK) status = lua_pcall(L, 0, 1, 0);
  size_t n = 0;
  const char *s = lua_tolstring(L, -1, &n);
  snprintf(out, 4096, "%s", s ? s : "(no string)");
  lua_settop(L, 0);
  return status == LUA_OK;
}

/* ---- training in threads --------------------------------------------------------------------- */

/* Trains a network that is large enough to be shared out among a context's worker threads. */
static const char train[] =
  "local nn, optim = require 'flame.nn', require 'flame.optim'\n"
  "flame.seed(seed)\n"
  "local net = nn.Sequential{nn.Linear(32, 64), nn.Tanh(), nn.LayerNorm(64), nn.Linear(64, 8)}\n"
  "local opt = optim.AdamW(net:parameters(), {lr = 0.01})\n"
  "local x, y = flame.randn(128, 32), flame.randint({128}, 1, 8)\n"
  "local last\n"
  "for i = 1, steps do\n"
  "  opt:zero_grad()\n"
  "  local loss = net(x):dropout(0.1):cross_entropy(y)\n"
  "  loss:backward() opt:step() last = loss:item()\n"
  "end\n"
  "local out = {string.format('%.17g', last)}\n"
  "for _, p in ipairs(net:parameters()) do out[#out + 1] = string.format('%.17g', p:sum():item()) end\n"
  "local big = flame.rand(200000)\n"
  "out[#out + 1] = string.format('%.17g %.17g', (big * 2 + 1):sum():item(), big:sort():cumsum(1):mean():item())\n"
  "return table.concat(out, ' ')\n";

typedef struct job { int seed; int good; char out[4096]; } job;

static void train_once(job *j) {
  lua_State *L = open_state();
  lua_pushinteger(L, j->seed);
  lua_setglobal(L, "seed");
  lua_pushinteger(L, TSAN ? 5 : 20);
  lua_setglobal(L, "steps");
  j->good = run(L, train, j->out);
  j->good &= close_clean(L);
}

static void *train_thread(void *arg) {
  train_once(arg);
  return NULL;
}

static void two_threads_train_like_one(void) {
  job alone[2] = { { .seed = 1 }, { .seed = 2 } }, both[2] = { { .seed = 1 }, { .seed = 2 } };
  pthread_t t[2];
  for (int i = 0; i < 2; i++) {
    train_once(&alone[i]);
    CHECK(alone[i].good);
    if (!alone[i].good) printf("  %s\n", alone[i].out);
  }
  CHECK(strcmp(alone[0].out, alone[1].out) != 0);
  for (int i = 0; i < 2; i++) CHECK(pthread_create(&t[i], NULL, train_thread, &both[i]) == 0);
  for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
  for (int i = 0; i < 2; i++) {
    CHECK(both[i].good);
    CHECK(strcmp(both[i].out, alone[i].out) == 0);
  }
}

/* ---- order of closing ------------------------------------------------------------------------ */

static void contexts_close_in_either_order(void) {
  for (int first = 0; first < 2; first++) {
    lua_State *L[2] = { open_state(), open_state() };
    char out[4096];
    for (int turn = 0; turn < 2; turn++)
      for (int i = 0; i < 2; i++)
        CHECK(run(L[i], "a = (a or flame.ones(4)) * 2 return a:sum():item() .. ''", out));
    CHECK(strcmp(out, "16.0") == 0);
    CHECK(flame_lua_context(L[0]) != flame_lua_context(L[1]));
    CHECK(close_clean(L[first]));
    CHECK(run(L[1 - first], "a = a * 2 return a:sum():item() .. ''", out) &&
          strcmp(out, "32.0") == 0);
    CHECK(close_clean(L[1 - first]));
  }
}

/* A state made and used in one thread may be used and closed in another. */
static void *use_and_close(void *arg) {
  char out[4096];
  lua_State *L = arg;
  const int good = run(L, "b = a + flame.rand(100000) return b:sum():item() > 0 and 'yes'", out);
  const int clean = close_clean(L);
  return good && clean && strcmp(out, "yes") == 0 ? arg : NULL;
}

static void a_state_moves_between_threads(void) {
  char out[4096];
  lua_State *L = open_state();
  pthread_t t;
  void *result = NULL;
  CHECK(run(L, "a = flame.ones(100000) * 3 return a:sum():item() .. ''", out));
  CHECK(pthread_create(&t, NULL, use_and_close, L) == 0);
  pthread_join(t, &result);
  CHECK(result != NULL);
}

static void opening_twice_gives_one_module(void) {
  char out[4096];
  lua_State *L = open_state();
  const flame_context *c = flame_lua_context(L);
  lua_pushcfunction(L, luaopen_flame);
  lua_call(L, 0, 1);
  lua_getglobal(L, "flame");
  CHECK(lua_rawequal(L, -1, -2));
  lua_settop(L, 0);
  CHECK(flame_lua_context(L) == c);
  CHECK(run(L,
      "package.loaded.flame = nil package.preload.flame = nil return tostring(flame.ones(1):item())", out));
  CHECK(close_clean(L));
}

/* ---- closing with everything alive ----------------------------------------------------------- */

static const char *const alive[] = {
  "t = flame.rand(1000) u = t * 2 return ''",                                  /* pending work */
  /* a tape */
  "w = flame.rand(50, 50):requires_grad_(true) l = (w:matmul(w):tanh()):sum() return ''",
  "w = flame.rand(5):requires_grad_(true) l = (w * w):sum() l:backward({retain_graph = true}) return ''",
  "co = coroutine.wrap(function() local x = flame.ones(3) coroutine.yield(x) return x end) co() return ''",
  "co = coroutine.create(function() local s <close> = flame.scope() local x = flame.ones(3)\n"
  "  flame.no_grad(function() coroutine.yield() end) end) coroutine.resume(co) return ''",
  "s = flame.scope() t = flame.ones(4) return ''",                           /* an open scope */
  "x = flame.ones(3):requires_grad_(true) x:register_hook(function(g) return g * 2 end)\n"
  "y = (x * x):sum() return ''",
  "f = flame.func{name = 'f', forward = function(c, x) c:save(x) return x * 2 end,\n"
  "  backward = function(c, g) return g * c:saved() end} x = flame.ones(2):requires_grad_(true) y = f(x) return ''",
  /* finalisers that use tensors, record, fail and resurrect while the state closes */
  "x = flame.ones(3) setmetatable({}, {__gc = function() local y = x + 1 saved = y y:item() end}) return ''",
  "x = flame.ones(3) keep = setmetatable({}, {__gc = function() error('in a finaliser') end}) return ''",
  "keep = setmetatable({}, {__gc = function() again = flame.ones(3) setmetatable({}, {__gc = function()\n"
  "  pcall(function() return again + 1 end) end}) end}) return ''",
  "x = flame.ones(3) t = setmetatable({x = x}, {__close = function() end, __gc = function(o) z = o.x * 2 end}) return ''",
  "for i = 1, 50 do setmetatable({}, {__gc = function() error('%s') end}) end collectgarbage() return ''",
  "g = flame.no_grad() x = flame.ones(2) + 1 return ''",                     /* a guard left open */
  "local ok = pcall(function() return flame.tensor({1, 'x'}) end) t = flame.zeros(2) t:free() return ''",
};

static void a_state_closes_with_everything_alive(void) {
  for (size_t i = 0; i < sizeof alive / sizeof *alive; i++) {
    char out[4096];
    lua_State *L = open_state();
    const int good = run(L, alive[i], out);
    CHECK(good);
    if (!good) printf("  %s\n  %s\n", alive[i], out);
    const int clean = close_clean(L);
    CHECK(clean);
    if (!clean)
      printf("  %lld blocks, %lld bytes left by: %s\n", (long long)left_blocks,
             (long long)left_bytes, alive[i]);
  }
}

/* Coroutines share one context; an error passes through them with its line. */
static void coroutines_work(void) {
  char out[4096];
  lua_State *L = open_state();
  CHECK(run(L, "local sum = flame.zeros(2)\n"
               "local cos = {}\n"
               "for i = 1, 10 do cos[i] = coroutine.wrap(function()\n"
               "  local x = flame.full({2}, i) coroutine.yield() sum:add_(x) coroutine.yield() return sum:sum():item() end) end\n"
               "for turn = 1, 2 do for i = 1, 10 do cos[i]() end end\n"
               "return cos[1]() .. ''", out) && strcmp(out, "110.0") == 0);
  CHECK(run(L,
            "local co = coroutine.create(function()\n return flame.ones(2) + flame.ones(3) end)\n"
               "local ok, e = coroutine.resume(co) return tostring(ok) .. e", out));
  CHECK(strstr(out, "false") == out && strstr(out, ":2: add: ") != NULL);
  CHECK(run(L,
            "local co = coroutine.wrap(function() flame.scope(function() local x = flame.ones(2)\n"
               "  error({x = 1}) end) end) local ok, e = pcall(co) return type(e) == 'table' and e.x .. ''", out));
  CHECK(strcmp(out, "1") == 0);
  CHECK(close_clean(L));
}

/* Freed memory is overwritten, so that a use after free fails. */
static void *spoil(void *ud, void *p, size_t old, size_t n) {
  (void)ud;
  void *q = n ? malloc(n) : NULL;
  if (p && q) memcpy(q, p, old < n ? old : n);
  if (p && (q || n == 0)) {
    for (size_t i = 0; i < old; i++) ((volatile char *)p)[i] = 0x55;
    free(p);
  }
  return q;
}

/* The host evaluates, which runs Lua's collector, after the coroutine that last used the library
** was collected, has yielded or has failed. */
static void hosts_outlive_coroutines(void) {
  static const char *const last[] = {
    "coroutine.resume(coroutine.create(function() b = flame.ones(3) end)) ",
    "co = coroutine.create(function() b = flame.ones(3) coroutine.yield() end) coroutine.resume(co)",
    "co = coroutine.create(function() b = flame.ones(3) error('x') end) coroutine.resume(co)",
  };
  for (size_t i = 0; i < sizeof last / sizeof *last; i++) {
    char out[4096], text[512];
    lua_State *L = lua_newstate(spoil, NULL);
    luaL_openlibs(L);
    luaL_requiref(L, "flame", luaopen_flame, 1);
    snprintf(text, sizeof text, "a = flame.ones(2) %s collectgarbage() collectgarbage()\n"
             "setmetatable({}, {__gc = function() n = flame.ones(2) * 2 end})", last[i]);
    CHECK(run(L, text, out));
    double v = 0;
    flame_tensor *x = flame_full(flame_lua_context(L), FLAME_F32, 0, NULL, 2.0), *y = flame_log(x);
    for (int k = 0; k < 50; k++) CHECK(flame_item(y, &v) == FLAME_OK && v > 0.69 && v < 0.7);
    flame_free(x);
    flame_free(y);
    lua_close(L);
  }
}

/* ---- processes ------------------------------------------------------------------------------- */

/* The exit status of a forked process that runs the script and, if 'close', closes the state. Not
** under TSan, which cannot go on after a fork in a process with threads. */
static int in_child(const char *text, int close) {
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    char out[4096];
    lua_State *L = open_state();
    const int good = run(L, text, out);
    if (close) lua_close(L);
    exit(good ? 0 : 9);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void os_exit_closes_the_state(void) {
  CHECK(in_child("x = flame.rand(100000) y = (x * 2):sum() y:item() os.exit(0, true)", 0) == 0);
  CHECK(in_child("x = flame.rand(100000) y = (x * 2):sum() y:item() os.exit(3, true)", 0) == 3);
  CHECK(in_child("x = flame.rand(100000) y = (x * 2):sum() y:item() os.exit(4)", 0) == 4);
  CHECK(in_child("local s <close> = flame.scope() x = flame.rand(9) os.exit(5, true)", 0) == 5);
}

static void a_forked_child_computes(void) {
  static const char text[] =
      "return string.format('%.17g', (flame.arange(300000.0) * 0.5):sum():item())";
  char before[4096], out[4096];
  lua_State *L = open_state();
  CHECK(run(L, text, before));                  /* starts the worker threads */
  CHECK(run(L, "p = flame.rand(300000) * 3 return ''", out));       /* and leaves work pending */
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    const int good = run(L, text, out) && strcmp(out, before) == 0 &&
                     run(L, "return p:sum():item() > 0 and 'yes'", out) && strcmp(out, "yes") == 0;
    lua_close(L);
    _exit(good ? 0 : 9);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(run(L, text, out) && strcmp(out, before) == 0);
  CHECK(close_clean(L));
}

/* ---- from C ---------------------------------------------------------------------------------- */

static void handles_outlive_a_context(void) {
  flame_context *c = flame_open(NULL);
  flame_tensor *x = flame_full(c, FLAME_F32, 1, (int64_t[]){ 4 }, 2), *y = flame_exp(x);
  flame_requires_grad(x, 1);
  double v;
  flame_close(c);
  CHECK(flame_item(y, &v) != FLAME_OK);
  CHECK(flame_add(x, y) == NULL);
  CHECK(flame_numel(x) == -1);
  flame_free(y);
  c->gone = note_left;
  left_blocks = -1;
  flame_free(x);
  CHECK(left_blocks == 0 && left_bytes == 0);
}

static void two_contexts_in_one_thread(void) {
  flame_context *a = flame_open(NULL), *b = flame_open(NULL);
  flame_tensor *x = flame_full(a, FLAME_F32, 0, NULL, 2), *y = flame_full(b, FLAME_F32, 0, NULL, 3);
  double v = 0, w = 0;
  CHECK(flame_add(x, y) == NULL);               /* of two contexts */
  flame_clear_error(a);
  flame_clear_error(b);
  flame_tensor *p = flame_mul(x, x), *q = flame_mul(y, y);
  CHECK(flame_item(p, &v) == FLAME_OK && v == 4);
  CHECK(flame_item(q, &w) == FLAME_OK && w == 9);
  flame_free(x); flame_free(p);
  flame_close(a);
  flame_free(q);
  CHECK(flame_item(y, &w) == FLAME_OK && w == 3);
  flame_free(y);
  flame_close(b);
}

/* ---- two threads in one context ------------------------------------------------------------- */

typedef struct meeting {
  flame_context *c; flame_tensor *x; pthread_barrier_t in, out; int refused, told, cleared;
} meeting;

/* A release function of borrowed memory, called inside flame_free: there the first thread waits
** until the second one has tried to use the same context. */
static void wait_inside(void *data, void *arg) {
  meeting *m = arg;
  (void)data;
  pthread_barrier_wait(&m->in);
  pthread_barrier_wait(&m->out);
}

static void *intrude(void *arg) {
  meeting *m = arg;
  const int64_t shape[1] = { 4 };
  double v = 0;
  pthread_barrier_wait(&m->in);
  m->refused = flame_full(m->c, FLAME_F32, 1, shape, 1) == NULL && flame_add(m->x, m->x) == NULL
            && flame_item(m->x, &v) == FLAME_BAD_ARGUMENT && flame_eval(m->c) == FLAME_BAD_ARGUMENT
            && flame_backward(m->x, NULL) == FLAME_BAD_ARGUMENT && flame_to_dlpack(m->x, 0) == NULL;
  flame_free(m->x);
  flame_close(m->c);
  m->told = flame_error_code(m->c) == FLAME_BAD_ARGUMENT &&
            strstr(flame_error(m->c), "another thread") != NULL;
  pthread_barrier_wait(&m->out);
  pthread_barrier_wait(&m->in);
  m->told += flame_error_code(m->c) == FLAME_BAD_ARGUMENT;
  flame_clear_error(m->c);
  m->cleared = flame_error_code(m->c) == FLAME_OK && flame_item(m->x, &v) == FLAME_OK && v == 3;
  return NULL;
}

static void a_second_thread_is_refused(void) {
  static float memory[4];
  const int64_t shape[1] = { 4 };
  meeting m = { .c = flame_open(NULL) };
  pthread_t other;
  pthread_barrier_init(&m.in, NULL, 2);
  pthread_barrier_init(&m.out, NULL, 2);
  m.x = flame_full(m.c, FLAME_F32, 0, NULL, 3);
  flame_tensor *held = flame_borrow(m.c, FLAME_F32, 1, shape, memory, wait_inside, &m);
  pthread_create(&other, NULL, intrude, &m);
  flame_free(held);                                   /* meets the other thread inside it */
  CHECK(flame_error_code(m.c) == FLAME_OK);           /* not this one's mistake */
  pthread_barrier_wait(&m.in);
  pthread_join(other, NULL);
  CHECK(m.refused);
  CHECK(m.told == 2);
  CHECK(m.cleared);
  flame_free(m.x);
  flame_close(m.c);
  pthread_barrier_destroy(&m.in);
  pthread_barrier_destroy(&m.out);
}

enum { ROUNDS = TSAN ? 300 : 2000 };
typedef struct racer { flame_context *c; int64_t done; flame_tensor *made[2 * ROUNDS]; } racer;

static void *race(void *arg) {
  racer *r = arg;
  const int64_t shape[1] = { 100 };
  for (int i = 0; i < ROUNDS; i++) {
    flame_tensor *x = r->made[2 * i] = flame_full(r->c, FLAME_F32, 1, shape, i);
    flame_tensor *y = r->made[2 * i + 1] = flame_exp(x);
    r->done += y && flame_eval(r->c) == FLAME_OK;
  }
  return NULL;
}

/* Two threads call one context at once: nothing is damaged, whichever call is refused. */
static void threads_that_race_do_no_harm(void) {
  static racer r[2];
  pthread_t t[2];
  r[0].c = r[1].c = flame_open(NULL);
  for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, race, &r[i]);
  for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
  CHECK(r[0].done + r[1].done > 0);
  flame_clear_error(r[0].c);
  CHECK(flame_eval(r[0].c) == FLAME_OK);
  for (int i = 0; i < 4 * ROUNDS; i++) flame_free(r[i / (2 * ROUNDS)].made[i % (2 * ROUNDS)]);
  flame_close(r[0].c);
}

int main(void) {
  setenv("FLAME_THREADS", "3", 0);
  two_threads_train_like_one();
  contexts_close_in_either_order();
  a_state_moves_between_threads();
  opening_twice_gives_one_module();
  a_state_closes_with_everything_alive();
  coroutines_work();
  hosts_outlive_coroutines();
  handles_outlive_a_context();
  two_contexts_in_one_thread();
  a_second_thread_is_refused();
  threads_that_race_do_no_harm();
  if (!TSAN) {
    setenv("FLAME_DEVICE", "cpu", 1);           /* CUDA cannot be used after a fork */
    os_exit_closes_the_state();
    a_forked_child_computes();
  }
  printf("test_threads: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
