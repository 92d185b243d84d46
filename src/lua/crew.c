/*
** Worker threads of a loader (lua/flame/data/loader.lua): each has a Lua state and a context.
** Requests and answers cross as messages, lists of strings that are copied; their meaning is
** defined by data/items.lua. Requests are taken in order; an answer is asked for by its ticket
** (number).
**
** A crew is in its context's memory and in a list of the binding, not in its userdata: Lua frees a
** userdata without calling its finaliser if it has no memory for the call, and threads would still
** use it. Messages use an fl_mem of the crew, only under its lock. At the end 'quit' is set, and
** contexts become stuck as if a limit were used up, so that computations end and the hook raises in
** the workers' scripts. A worker that waits in C (a pipe, sleep) ends when that wait does.
*/
#include "lua/crew.h"
#include "lua/embedded.h"
#include "lua/hook.h"
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

/* A host may link Lua without this function. */
extern __attribute__((weak)) void luaL_openlibs(lua_State *L);

enum { WAIT_NS = 20000000 /* see crew_take */, MOST_THREADS = 256 };

/* A request or answer, followed in memory by n sizes, then the bytes of n strings. */
typedef struct message {
  struct message *next;
  int64_t ticket;
  size_t bytes;                     /* of the whole block */
  int n, failed;             /* failed: the only string is the reason; if there is none, memory was
                             ** out */
  size_t size[];
} message;

typedef struct worker {
  struct fl_crew *crew;
  pthread_t thread;
  flame_context *context;           /* under the lock; NULL: not open */
  message *asked, *answer;          /* the request that it works on, and its answer */
} worker;

struct fl_crew {
  fl_lua *b;
  fl_crew *next, **link;            /* of fl_lua.crews */
  fl_mem mem;
  const void *code;                 /* the library as compiled code of the host, see embedded.h */
  size_t bytes;
  pid_t pid;
  int threads, started;
  atomic_int quit;
  pthread_mutex_t lock;
  pthread_cond_t work, done;        /* there is a request, or the end; there is an answer */
  int64_t floor;                    /* answers for tickets below this are not needed */
  message *setup;                   /* what each worker gets first */
  message *asked, **asked_end;      /* requests that no worker has taken, a queue */
  message *made;                    /* answers that were not asked for yet, a list */
  message *given;                   /* the last answer that crew_take has found */
  worker at[];
};

const char fl_key_worker;

/* ---- messages ------------------------------------------------------------------------------ */
static message *message_new(fl_crew *q, int64_t ticket, int n, size_t bytes) {
  const size_t all = sizeof(message) + (size_t)n * sizeof(size_t) + bytes;
  pthread_mutex_lock(&q->lock);
  message *m = fl_alloc(&q->mem, all);
  pthread_mutex_unlock(&q->lock);
  if (m) *m = (message){ .ticket = ticket, .bytes = all, .n = n };
  return m;
}

/* With the lock held. */
static void message_drop(fl_crew *q, message *m) { if (m) fl_free(&q->mem, m, m->bytes); }

static void message_drop_all(fl_crew *q, message *m) {
  while (m) {
    message *next = m->next;
    message_drop(q, m);
    m = next;
  }
}

/* Copies the list of strings at i; NULL: no memory. Raises only before it allocates. */
static message *message_read(lua_State *L, int i, fl_crew *q, int64_t ticket) {
  luaL_checktype(L, i, LUA_TTABLE);
  const int n = (int)lua_rawlen(L, i);
  size_t bytes = 0;
  for (int k = 1; k <= n; k++) {
    lua_rawgeti(L, i, k);
    luaL_argcheck(L, lua_type(L, -1) == LUA_TSTRING, i, "a list of strings is expected");
    bytes += lua_rawlen(L, -1);
    lua_pop(L, 1);
  }
  message *m = message_new(q, ticket, n, bytes);
  char *to = m ? (char *)(m->size + n) : NULL;
  for (int k = 1; m && k <= n; k++) {
    lua_rawgeti(L, i, k);
    const char *from = lua_tolstring(L, -1, &m->size[k - 1]);
    memcpy(to, from, m->size[k - 1]);
    to += m->size[k - 1];
    lua_pop(L, 1);
  }
  return m;
}

static void message_push(lua_State *L, const message *m) {
  const char *from = (const char *)(m->size + m->n);
  lua_createtable(L, m->n, 0);
  for (int k = 0; k < m->n; k++) {
    lua_pushlstring(L, from, m->size[k]);
    lua_rawseti(L, -2, k + 1);
    from += m->size[k];
  }
}

/* ---- a worker -------------------------------------------------------------------------------- */
static void show_context(worker *w, flame_context *c) {
  pthread_mutex_lock(&w->crew->lock);
  w->context = c;
  if (c && atomic_load(&w->crew->quit)) fl_stick(c, FL_STUCK_CLOSED);
  pthread_mutex_unlock(&w->crew->lock);
}

/* (worker) -> the function that computes the answer to a request. */
static int boot(lua_State *L) {
  worker *w = (worker *)lua_touserdata(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_worker);
  if (!luaL_openlibs) return luaL_error(L, "this program has no luaL_openlibs, which workers need");
  luaL_openlibs(L);
  lua_pushlightuserdata(L, (void *)(uintptr_t)w->crew->code);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fl_key_code);
  luaL_requiref(L, "flame", luaopen_flame, 1);
  show_context(w, flame_lua_context(L));
  fl_hook_stand(L, fl_hook_of(L));
  lua_getglobal(L, "require");
  lua_pushliteral(L, "flame.data.items");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "serve");
  message_push(L, w->crew->setup);
  lua_call(L, 1, 1);
  return 1;
}

/* (function, worker): the answer to the worker's current request. */
static int answer(lua_State *L) {
  worker *w = (worker *)lua_touserdata(L, 2);
  lua_settop(L, 1);
  message_push(L, w->asked);
  lua_call(L, 1, 1);
  w->answer = message_read(L, 1, w->crew, w->asked->ticket);
  return 0;
}

/* Makes an answer from the error on top; NULL: no memory, or the error is not a string. */
static message *failure(lua_State *L, worker *w) {
  size_t n = 0;
  const char *text = L && lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &n) : NULL;
  message *m = text ? message_new(w->crew, w->asked->ticket, 1, n) : NULL;
  if (m) {
    m->size[0] = n;
    memcpy(m->size + 1, text, n);
    m->failed = 1;
  }
  return m;
}

static int await_request(worker *w) {
  fl_crew *q = w->crew;
  pthread_mutex_lock(&q->lock);
  while (!q->asked && !atomic_load(&q->quit)) pthread_cond_wait(&q->work, &q->lock);
  w->asked = atomic_load(&q->quit) ? NULL : q->asked;
  if (w->asked && (q->asked = w->asked->next) == NULL) q->asked_end = &q->asked;
  pthread_mutex_unlock(&q->lock);
  return w->asked != NULL;
}

/* Without memory for an answer, the request's block is used as one. */
static void give_answer(worker *w) {
  fl_crew *q = w->crew;
  message *m = w->answer, *asked = w->asked;
  pthread_mutex_lock(&q->lock);
  if (m) message_drop(q, asked);
  else {
    m = asked;
    m->n = 0;
    m->failed = 1;
  }
  if (m->ticket < q->floor) message_drop(q, m);
  else {
    m->next = q->made;
    q->made = m;
    pthread_cond_signal(&q->done);
  }
  w->asked = w->answer = NULL;
  pthread_mutex_unlock(&q->lock);
}

static void *worker_main(void *arg) {
  worker *w = arg;
  lua_State *L = luaL_newstate();
  int booted = 0;
  if (L) {
    lua_pushcfunction(L, boot);
    lua_pushlightuserdata(L, w);
    booted = lua_pcall(L, 1, 1, 0) == LUA_OK;
  }
  while (await_request(w)) {
    if (booted) {
      lua_pushcfunction(L, answer);
      lua_pushvalue(L, 1);
      lua_pushlightuserdata(L, w);
    }
    if (!booted || lua_pcall(L, 2, 0, 0) != LUA_OK) w->answer = failure(L, w);
    give_answer(w);
    if (booted) lua_settop(L, 1);
  }
  show_context(w, NULL);
  if (L) lua_close(L);
  return NULL;
}

/* ---- a crew ---------------------------------------------------------------------------------- */
static void crew_end(fl_crew *q) {
  flame_context *c = q->b->c;
  if (q->next) q->next->link = q->link;
  *q->link = q->next;
  if (q->pid != getpid()) return;           /* after a fork the threads belong to the parent */
  pthread_mutex_lock(&q->lock);
  atomic_store(&q->quit, 1);
  for (int i = 0; i < q->started; i++)
    if (q->at[i].context) fl_stick(q->at[i].context, FL_STUCK_CLOSED);
  pthread_cond_broadcast(&q->work);
  pthread_mutex_unlock(&q->lock);
  for (int i = 0; i < q->started; i++) pthread_join(q->at[i].thread, NULL);
  message_drop_all(q, q->asked);
  message_drop_all(q, q->made);
  message_drop(q, q->setup);
  message_drop(q, q->given);
  assert(q->mem.live_bytes == 0);
  pthread_cond_destroy(&q->work);
  pthread_cond_destroy(&q->done);
  pthread_mutex_destroy(&q->lock);
  fl_free(&c->mem, q, q->bytes);
}

void fl_crews_end(fl_lua *b) { while (b->crews) crew_end(b->crews); }

static const char crew_mark;

static int crew_gc(lua_State *L) {
  fl_crew **slot = fl_lua_marked(L, 1, &crew_mark);
  if (!slot) return fl_lua_fail(L, "loader", "need a crew, got %s", luaL_typename(L, 1));
  if (*slot && self_of(L)->c) crew_end(*slot);
  *slot = NULL;
  return 0;
}

static fl_crew *crew_new(fl_lua *b, int threads) {
  const size_t bytes = sizeof(fl_crew) + (size_t)threads * sizeof(worker);
  fl_crew *q = fl_zalloc(&b->c->mem, bytes);
  pthread_condattr_t clock;
  if (!q) return NULL;
  *q = (fl_crew){ .b = b, .bytes = bytes, .pid = getpid(), .threads = threads, .next = b->crews,
                  .link = &b->crews };
  q->asked_end = &q->asked;
  if (q->next) q->next->link = &q->next;
  b->crews = q;
  pthread_mutex_init(&q->lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&q->work, NULL);
  pthread_cond_init(&q->done, &clock);
  pthread_condattr_destroy(&clock);
  return q;
}

/* Signals are handled by the host's threads. */
static void crew_start(fl_crew *q) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  while (q->started < q->threads) {
    worker *w = &q->at[q->started];
    w->crew = q;
    if (pthread_create(&w->thread, NULL, worker_main, w)) break;
    q->started++;
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* (threads, message of the set-up) -> the crew */
static int crew_open(lua_State *L) {
  fl_lua *b = self_of(L);
  const int threads = (int)luaL_checkinteger(L, 1);
  luaL_argcheck(L, threads > 0 && threads <= MOST_THREADS, 1, "1 to 256");
  if (b->c == NULL || !fl_may(b->c, FLAME_WORKERS, "loader")) return fl_lua_raise(L, b);
  fl_crew **slot = (fl_crew **)lua_newuserdatauv(L, sizeof *slot, 0);
  *slot = NULL;
  lua_createtable(L, 0, 2);
  fl_lua_mark(L, &crew_mark);
  fl_push_closure(L, b, crew_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fl_key_code);
  const void *code = lua_touserdata(L, -1);
  lua_pop(L, 1);
  fl_crew *q = crew_new(b, threads);
  if (!q) return fl_lua_fail(L, "loader", "no host memory for %d workers", threads);
  *slot = q;
  q->code = code;
  q->setup = message_read(L, 2, q, 0);
  if (!q->setup) return fl_lua_fail(L, "loader", "no host memory for what the workers get");
  crew_start(q);
  if (!q->started) return fl_lua_fail(L, "loader", "the system starts no thread");
  return 1;
}

static fl_crew *crew_at(lua_State *L) {
  fl_crew **slot = fl_lua_marked(L, 1, &crew_mark), *q = slot ? *slot : NULL;
  if (!slot) fl_lua_fail(L, "loader", "need a crew, got %s", luaL_typename(L, 1));
  if (!q) fl_lua_fail(L, "loader", "its workers have ended");
  if (q->pid != getpid()) fl_lua_fail(L, "loader", "its workers are another process's");
  return q;
}

/* (crew, ticket, message): one more request */
static int crew_send(lua_State *L) {
  fl_crew *q = crew_at(L);
  message *m = message_read(L, 3, q, luaL_checkinteger(L, 2));
  if (!m) return fl_lua_fail(L, "loader", "no host memory for a request");
  pthread_mutex_lock(&q->lock);
  *q->asked_end = m;
  q->asked_end = &m->next;
  pthread_cond_signal(&q->work);
  pthread_mutex_unlock(&q->lock);
  return 0;
}

static message *take_made(fl_crew *q, int64_t ticket) {
  for (message **m = &q->made; *m; m = &(*m)->next) {
    if ((*m)->ticket != ticket) continue;
    message *found = *m;
    *m = found->next;
    return found;
  }
  return NULL;
}

/* (crew, ticket) -> the answer; or true: it has not arrived within WAIT_NS (hooks of the script run
** between two calls). nil and a text: the worker failed. */
static int crew_take(lua_State *L) {
  fl_lua *b = self_of(L);
  fl_crew *q = crew_at(L);
  const int64_t ticket = luaL_checkinteger(L, 2);
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += WAIT_NS;
  if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
  pthread_mutex_lock(&q->lock);
  message_drop(q, q->given);
  q->given = take_made(q, ticket);
  if (!q->given && pthread_cond_timedwait(&q->done, &q->lock, &until) == 0)
    q->given = take_made(q, ticket);
  pthread_mutex_unlock(&q->lock);
  if (fl_take_interrupt(b->c)) {
    fl_interrupted(b->c, "loader");
    return fl_lua_raise(L, b);
  }
  if (!q->given) return lua_pushboolean(L, 1), 1;
  if (!q->given->failed) return message_push(L, q->given), 1;
  lua_pushnil(L);
  if (q->given->n == 0) lua_pushliteral(L, "a worker has no memory");
  else lua_pushlstring(L, (const char *)(q->given->size + 1), q->given->size[0]);
  return 2;
}

/* (crew, ticket): drops all waiting requests and answers. Of the requests that are being worked on,
** the answers with numbers below the ticket are dropped when they come. */
static int crew_forget(lua_State *L) {
  fl_crew *q = crew_at(L);
  const int64_t floor = luaL_checkinteger(L, 2);
  pthread_mutex_lock(&q->lock);
  q->floor = floor;
  message_drop_all(q, q->asked);
  message_drop_all(q, q->made);
  q->asked = q->made = NULL;
  q->asked_end = &q->asked;
  pthread_mutex_unlock(&q->lock);
  return 0;
}

const fl_lua_reg fl_reg_crew[] = {
  { "crew_open", crew_open, 0 }, { "crew_send", crew_send, 0 }, { "crew_take", crew_take, 0 },
  { "crew_forget", crew_forget, 0 }, { "crew_close", crew_gc, 0 }, { NULL, NULL, 0 }
};
