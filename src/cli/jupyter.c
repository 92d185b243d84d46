/*
** flame-lua --jupyter FILE: the process that Jupyter starts as a kernel, with a file of addresses.
** Here are the sockets, over libzmq, which is opened when it is needed, and calls with Ctrl-C
** armed; the protocol is in lua/flame/tools/jupyter.lua. Sockets are numbered from 1. The heartbeat
** is echoed by a thread, so that it goes on while a cell runs.
*/
#include "base/hash.h"
#include "cli/cli.h"
#include "cli/edit.h"
#include "flame.h"
#include <dlfcn.h>
#include <errno.h>
#include <lauxlib.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { SOCKETS = 8, COLUMNS = 100, ROWS = 40 };
enum { ZMQ_PUB = 1, ZMQ_REP = 4, ZMQ_ROUTER = 6, ZMQ_POLLIN = 1, ZMQ_SNDMORE = 2, ZMQ_LINGER = 17,
       LINGER_MS = 1000 };

typedef struct message { _Alignas(8) unsigned char bytes[64]; } message;       /* zmq_msg_t */
typedef struct poll_item { void *socket; int fd; short events, revents; } poll_item;

typedef struct zmq {
  void *(*ctx_new)(void);
  int (*ctx_term)(void *);
  void *(*socket)(void *, int);
  int (*close)(void *);
  int (*bind)(void *, const char *);
  int (*setsockopt)(void *, int, const void *, size_t);
  int (*poll)(poll_item *, int, long);
  int (*send)(void *, const void *, size_t, int);
  int (*msg_init)(message *);
  int (*msg_recv)(message *, void *, int);
  int (*msg_send)(message *, void *, int);
  int (*msg_more)(const message *);
  void *(*msg_data)(message *);
  size_t (*msg_size)(const message *);
  int (*msg_close)(message *);
  int (*errno_of)(void);
  const char *(*strerror)(int);
  void *context;
  int n;
  void *sockets[SOCKETS];
  int beating;
  void *heart;
  pthread_t beat;
} zmq;

static zmq *zmq_of(lua_State *L) { return lua_touserdata(L, lua_upvalueindex(1)); }

static int open_zmq(zmq *z) {
  void *const library = dlopen("libzmq.so.5", RTLD_NOW | RTLD_LOCAL);
  const struct { const char *name; void *place; } list[] = {
    { "zmq_ctx_new", &z->ctx_new }, { "zmq_ctx_term", &z->ctx_term }, { "zmq_socket", &z->socket },
    { "zmq_close", &z->close }, { "zmq_bind", &z->bind }, { "zmq_setsockopt", &z->setsockopt },
    { "zmq_poll", &z->poll }, { "zmq_send", &z->send }, { "zmq_msg_init", &z->msg_init },
    { "zmq_msg_recv", &z->msg_recv }, { "zmq_msg_send", &z->msg_send },
    { "zmq_msg_more", &z->msg_more }, { "zmq_msg_data", &z->msg_data },
    { "zmq_msg_size", &z->msg_size }, { "zmq_msg_close", &z->msg_close },
    { "zmq_errno", &z->errno_of }, { "zmq_strerror", &z->strerror },
  };
  if (!library) return 0;
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    void *const f = dlsym(library, list[i].name);
    if (!f) return 0;
    memcpy(list[i].place, &f, sizeof f);
  }
  return (z->context = z->ctx_new()) != NULL;
}

static int failed(lua_State *L, const zmq *z, const char *what) {
  return luaL_error(L, "jupyter: %s: %s", what, z->strerror(z->errno_of()));
}

static void *bound(lua_State *L, zmq *z, int type, const char *address) {
  const int linger = LINGER_MS;
  void *const socket = z->socket(z->context, type);
  if (!socket) failed(L, z, "socket");
  z->setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
  if (z->bind(socket, address) != 0) {
    const int why = z->errno_of();
    z->close(socket);
    luaL_error(L, "jupyter: bind %s: %s", address, z->strerror(why));
  }
  return socket;
}

/* bind("router" or "pub", address) -> number */
static int l_bind(lua_State *L) {
  zmq *const z = zmq_of(L);
  const char *const kind = luaL_checkstring(L, 1);
  if (z->n == SOCKETS) return luaL_error(L, "jupyter: too many sockets");
  const int type = strcmp(kind, "pub") ? ZMQ_ROUTER : ZMQ_PUB;
  z->sockets[z->n] = bound(L, z, type, luaL_checkstring(L, 2));
  lua_pushinteger(L, ++z->n);
  return 1;
}

static void *beat(void *arg) {
  zmq *const z = (zmq *)arg;
  message m;
  z->msg_init(&m);
  for (;;) {
    if (z->msg_recv(&m, z->heart, 0) < 0) {
      if (z->errno_of() == EINTR) continue;
      break;                                     /* the context has ended */
    }
    if (z->msg_send(&m, z->heart, z->msg_more(&m) ? ZMQ_SNDMORE : 0) < 0) break;
  }
  z->msg_close(&m);
  z->close(z->heart);
  return NULL;
}

/* heartbeat(address) */
static int l_heartbeat(lua_State *L) {
  zmq *const z = zmq_of(L);
  sigset_t all, mask;
  z->heart = bound(L, z, ZMQ_REP, luaL_checkstring(L, 1));
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &mask);
  z->beating = pthread_create(&z->beat, NULL, beat, z) == 0;
  pthread_sigmask(SIG_SETMASK, &mask, NULL);
  if (!z->beating) z->close(z->heart);
  return 0;
}

static void *socket_at(lua_State *L, zmq *z, int arg) {
  const lua_Integer k = luaL_checkinteger(L, arg);
  luaL_argcheck(L, k >= 1 && k <= z->n, arg, "no such socket");
  return z->sockets[k - 1];
}

/* wait(a, b, …) -> the first of these sockets that has a message; nil: a signal came */
static int l_wait(lua_State *L) {
  zmq *const z = zmq_of(L);
  poll_item items[SOCKETS] = { { 0 } };
  const int n = lua_gettop(L);
  luaL_argcheck(L, n <= SOCKETS, 1, "too many sockets");
  for (int i = 0; i < n; i++) {
    items[i].socket = socket_at(L, z, i + 1);
    items[i].events = ZMQ_POLLIN;
  }
  if (z->poll(items, n, -1) < 0 && z->errno_of() != EINTR) failed(L, z, "poll");
  for (int i = 0; i < n; i++) {
    if (!(items[i].revents & ZMQ_POLLIN)) continue;
    lua_pushvalue(L, i + 1);
    return 1;
  }
  lua_pushnil(L);
  return 1;
}

/* receive(socket) -> the parts of a message */
static int l_receive(lua_State *L) {
  zmq *const z = zmq_of(L);
  void *const socket = socket_at(L, z, 1);
  int more = 1;
  lua_newtable(L);
  for (int i = 1; more; i++) {
    message m;
    z->msg_init(&m);
    while (z->msg_recv(&m, socket, 0) < 0) {
      if (z->errno_of() != EINTR) return failed(L, z, "receive");
    }
    lua_pushlstring(L, z->msg_data(&m), z->msg_size(&m));
    lua_rawseti(L, 2, i);
    more = z->msg_more(&m);
    z->msg_close(&m);
  }
  return 1;
}

/* send(socket, list of parts) */
static int l_send(lua_State *L) {
  zmq *const z = zmq_of(L);
  void *const socket = socket_at(L, z, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  const lua_Integer n = luaL_len(L, 2);
  for (lua_Integer i = 1; i <= n; i++) {
    size_t bytes;
    lua_rawgeti(L, 2, i);
    const char *const text = luaL_checklstring(L, -1, &bytes);
    while (z->send(socket, text, bytes, i < n ? ZMQ_SNDMORE : 0) < 0) {
      if (z->errno_of() != EINTR) return failed(L, z, "send");
    }
    lua_pop(L, 1);
  }
  return 0;
}

static int l_sha256(lua_State *L) {
  size_t n;
  const char *const text = luaL_checklstring(L, 1, &n);
  uint8_t digest[32];
  fl_sha256(text, n, digest);
  lua_pushlstring(L, (const char *)digest, sizeof digest);
  return 1;
}

/* call(f, …) -> true and its results, or false and the message with a traceback */
static int l_call(lua_State *L) {
  luaL_checkany(L, 1);
  const int status = fl_cli_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  lua_pushboolean(L, status == LUA_OK);
  lua_insert(L, 1);
  return lua_gettop(L);
}

static int l_width(lua_State *L) {
  size_t n;
  const char *const s = luaL_checklstring(L, 1, &n);
  lua_pushinteger(L, fl_text_width(s, (int64_t)n));
  return 1;
}

static int l_size(lua_State *L) {
  lua_pushinteger(L, COLUMNS);
  lua_pushinteger(L, ROWS);
  return 2;
}

static void on_interrupt(int number) { (void)number; }

/* The functions over sockets as a table; the state is at 1. */
static void push_native(lua_State *L) {
  static const luaL_Reg native[] = {
    { "bind", l_bind }, { "heartbeat", l_heartbeat }, { "wait", l_wait },
    { "receive", l_receive }, { "send", l_send }, { "sha256", l_sha256 }, { "call", l_call },
    { "width", l_width }, { "size", l_size }, { NULL, NULL },
  };
  lua_newtable(L);
  lua_pushvalue(L, 1);
  luaL_setfuncs(L, native, 1);
  lua_pushstring(L, flame_version());
  lua_setfield(L, -2, "version");
}

/* (state, connection file), or (nil, program) to install the kernel */
static int start(lua_State *L) {
  const int serves = !lua_isnil(L, 1);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "flame.tools.jupyter");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, serves ? "serve" : "install");
  if (serves) push_native(L);
  lua_pushvalue(L, 2);
  lua_call(L, serves ? 2 : 1, 0);
  return 0;
}

static int install(const fl_cli *c) {
  char program[4096];
  const ssize_t n = readlink("/proc/self/exe", program, sizeof program);
  lua_pushcfunction(c->L, start);
  lua_pushnil(c->L);
  lua_pushlstring(c->L, program, n > 0 ? (size_t)n : 0);
  return fl_cli_report(c, lua_pcall(c->L, 2, 0, 0)) == LUA_OK;
}

static int serve(const fl_cli *c, const char *file) {
  lua_State *L = c->L;
  struct sigaction action, before;
  zmq *const z = lua_newuserdatauv(L, sizeof *z, 0);
  memset(z, 0, sizeof *z);
  if (!open_zmq(z)) {
    fl_cli_message(c->name, "--jupyter needs libzmq.so.5: install it (Debian: libzmq5)");
    return 0;
  }
  memset(&action, 0, sizeof action);
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before);
  lua_pushcfunction(L, start);
  lua_pushvalue(L, -2);
  lua_pushstring(L, file);
  const int status = fl_cli_report(c, lua_pcall(L, 2, 0, 0));
  for (int i = 0; i < z->n; i++) z->close(z->sockets[i]);
  z->ctx_term(z->context);                       /* ends the heartbeat too */
  if (z->beating) pthread_join(z->beat, NULL);
  sigaction(SIGINT, &before, NULL);
  return status == LUA_OK;
}

int fl_cli_jupyter(const fl_cli *c, int at) {
  const char *const file = c->argv[at];
  if (file && file[0]) return strcmp(file, "install") ? serve(c, file) : install(c);
  fl_cli_message(c->name, "--jupyter needs the file of a connection, or 'install'");
  return 0;
}
