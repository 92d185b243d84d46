/* Limits and permissions: see limits.h. */
#include "tensor/context.h"
#include <sched.h>
#include <stdio.h>
#include <string.h>

static int is_limit(int which) { return which >= FLAME_HOST_BYTES && which <= FLAME_OUTPUT_BYTES; }
static int is_used_up(int which) { return which >= FLAME_CALL_NS && which <= FLAME_OUTPUT_BYTES; }

static int64_t used(const flame_context *c, int which) {
  return atomic_load_explicit(&((flame_context *)(uintptr_t)c)->limits.used[which],
                              memory_order_relaxed);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static void bytes_text(int64_t n, char out[32]) {
  static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
  double v = (double)n;
  int k = 0;
  for (; v >= 1024 && k < 4; k++) v /= 1024;
  snprintf(out, 32, k == 0 || v == (double)(int64_t)v ? "%.0f %s" : "%.1f %s", v, units[k]);
}

void fl_stuck_text(const flame_context *c, char *out, size_t size) {
  const int which = atomic_load(&((flame_context *)(uintptr_t)c)->limits.stuck) - 1;
  char amount[32];
  if (!is_used_up(which)) {
    snprintf(out, size, which + 1 == FL_STUCK_INTERRUPTED ? "interrupted!"
                        : "the work was ended by who began it");
    return;
  }
  const int64_t most = c->limits.most[which];
  switch (which) {
    case FLAME_CALL_NS: case FLAME_TOTAL_NS:
      snprintf(out, size, "the limit of %g s for %s is used up", (double)most / 1e9,
               which == FLAME_CALL_NS ? "a call" : "all calls");
      return;
    case FLAME_OUTPUT_BYTES:
      bytes_text(most, amount);
      snprintf(out, size, "the limit of %s of output is used up", amount);
      return;
    default:
      snprintf(out, size, "the limit of %lld instructions of %s is used up", (long long)most,
               which == FLAME_LUA_STEPS ? "Lua" : "kernels");
  }
}

/* Of the memories (fl_mem) that count a request, the one with the least room: it refused the
** request. */
static const fl_mem *tightest(const fl_mem *m) {
  const fl_mem *tight = NULL;
  for (; m; m = m->outer)
    if (m->limit > 0 && (!tight || m->limit - m->live_bytes < tight->limit - tight->live_bytes))
      tight = m;
  return tight;
}

int fl_refused_text(flame_context *c, char *out, size_t size) {
  fl_mem *m = c->mem.refused ? &c->mem : &c->room;
  const fl_mem *tight = m->refused ? tightest(m) : NULL;
  char asked[32], limit[32], live[32], foreign[32], own[32];
  bytes_text(m->refused, asked);
  m->refused = 0;
  if (!tight) return 0;
  bytes_text(tight->limit, limit);
  bytes_text(tight->live_bytes, live);
  bytes_text(tight->foreign, foreign);
  bytes_text(tight->live_bytes - tight->foreign, own);
  const char *where = tight == m ? "the context" : "the context around it";
  if (m == &c->room)
    snprintf(out, size, "asked for %s of device memory; the limit of %s is %s, and %s are in use",
             asked, where, limit, live);
  else
    snprintf(out, size, "asked for %s of host memory; the limit of %s is %s, and %s are in use: "
             "Lua and sandboxes %s, tensors and graph %s", asked, where, limit, live, foreign, own);
  return 1;
}

void fl_tell_refused(flame_context *c) {
  if (c->err.code != FLAME_NO_MEMORY) return;
  if (!fl_refused_text(c, c->err.message, sizeof c->err.message)) return;
  snprintf(c->err.op, sizeof c->err.op, "memory");
  c->err.hint[0] = 0;
}

/* ---- room ------------------------------------------------------------------------------------ */

/* The number of bytes until a limit is reached; *near: when fewer are left, memory counts as nearly
** full. */
static int64_t room_left(const fl_mem *m, int64_t *near) {
  enum { SHARE = 8 };
  int64_t least = INT64_MAX;
  for (; m; m = m->outer) {
    if (m->limit <= 0 || m->limit - m->live_bytes >= least) continue;
    least = m->limit - m->live_bytes;
    *near = m->limit / SHARE;
  }
  return least;
}

int fl_collect_if_full(flame_context *c, int again) {
  fl_limits *l = &c->limits;
  int64_t near = 0, left = room_left(&c->mem, &near);
  if (left > near) {
    l->collect_bytes = 0;
    return 0;
  }
  if ((!again && c->mem.live_bytes < l->collect_bytes) || c->evaluating || c->flushing || !c->up ||
      !c->up->collect)
    return 0;
  c->up->collect(c);
  left = room_left(&c->mem, &near);
  l->collect_bytes = c->mem.live_bytes + left / 2;
  return 1;
}

/* ---- being stuck ----------------------------------------------------------------------------- */

int fl_is_stuck(const flame_context *c) {
  return (atomic_load_explicit(&((flame_context *)(uintptr_t)c)->interrupted,
                               memory_order_relaxed) & FL_INTERRUPT_USED_UP) != 0;
}

void fl_stick(flame_context *c, int stuck) {
  int none = 0;
  atomic_compare_exchange_strong(&c->limits.stuck, &none, stuck);
  atomic_fetch_or(&c->interrupted, FL_INTERRUPT_USED_UP);
}

int fl_use(flame_context *c, int which, int64_t n) {
  const int64_t most = c->limits.most[which];
  const int64_t before =
    atomic_fetch_add_explicit(&c->limits.used[which], n, memory_order_relaxed);
  if (most <= 0 || before + n < most) return 1;
  fl_stick(c, which + 1);
  return 0;
}

int fl_take_interrupt(flame_context *c) {
  if (!fl_must_end(c)) return 0;
  return atomic_fetch_and(&c->interrupted, ~FL_INTERRUPT_ONCE) != 0;
}

flame_status fl_interrupted(flame_context *c, const char *op) {
  char why[160] = "interrupted!";
  if (fl_is_stuck(c)) fl_stuck_text(c, why, sizeof why);
  return FL_FAIL(c, FLAME_INTERRUPTED, op, "%s", why);
}

/* Interrupts the sandbox that runs in c. Takes no lock, since it may run in a signal handler. */
static void interrupt_inside(flame_context *c) {
  atomic_fetch_add(&c->limits.interrupting, 1);
  flame_context *inner = atomic_load(&c->limits.inside);
  if (inner) {
    fl_stick(inner, FL_STUCK_INTERRUPTED);
    interrupt_inside(inner);
  }
  atomic_fetch_sub(&c->limits.interrupting, 1);
}

void flame_interrupt(flame_context *c) {
  if (!c) return;
  atomic_fetch_or_explicit(&c->interrupted, FL_INTERRUPT_ONCE, memory_order_relaxed);
  interrupt_inside(c);
}

flame_context *fl_run_inside(flame_context *c, flame_context *inner) {
  flame_context *before = atomic_exchange(&c->limits.inside, inner);
  while (atomic_load(&c->limits.interrupting)) sched_yield();
  return before;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Sets the watch (a timer, base/watch.h) to the next time at which a limit is reached, and notes
** which limit. */
static void set_watch(flame_context *c) {
  fl_limits *l = &c->limits;
  const int64_t call = l->most[FLAME_CALL_NS], total = l->most[FLAME_TOTAL_NS];
  const int64_t left = total - used(c, FLAME_TOTAL_NS);
  const int of_total = total > 0 && (call <= 0 || left < call);
  const int64_t when = l->began + (of_total ? left : call);
  if (!l->watch) return;
  if (l->depth == 0 || (total <= 0 && call <= 0)) {
    fl_watch_set(l->watch, 0, NULL, 0, NULL, 0);
    return;
  }
  fl_watch_set(l->watch, when, &l->stuck, 1 + (of_total ? FLAME_TOTAL_NS : FLAME_CALL_NS),
               &c->interrupted, FL_INTERRUPT_USED_UP);
}

void fl_time_begin(flame_context *c) {
  fl_limits *l = &c->limits;
  if (l->depth++ > 0 || !l->timed) return;
  l->began = fl_now_ns();
  set_watch(c);
}

/* A limit that the watch missed by a moment is detected here. */
void fl_time_end(flame_context *c) {
  fl_limits *l = &c->limits;
  if (l->depth == 0 || --l->depth > 0 || !l->timed) return;
  const int64_t took = fl_now_ns() - l->began;
  set_watch(c);
  if (l->asked) {
    l->asked = 0;
    return;
  }
  atomic_store(&l->used[FLAME_CALL_NS], took);
  if (l->most[FLAME_CALL_NS] > 0 && took >= l->most[FLAME_CALL_NS]) fl_stick(c, 1 + FLAME_CALL_NS);
  fl_use(c, FLAME_TOTAL_NS, took);
}

/* ---- settings -------------------------------------------------------------------------------- */

int fl_may(flame_context *c, uint32_t permission, const char *op) {
  static const char *const what[] = { "files are not read", "files are not written",
    "kernels are not compiled", "text is not loaded as Lua", "no threads are started",
    "only the default device is used", "libraries of the host are not used",
    "the time is not told" };
  int k = 0;
  if (!(c->limits.deny & permission)) return 1;
  while (k < 7 && !(permission >> k & 1)) k++;
  FL_FAIL(c, FLAME_NOT_SUPPORTED, op, "not permitted: %s here", what[k]);
  return 0;
}

static void note_any(flame_context *c) {
  fl_limits *l = &c->limits;
  l->any = 0;
  for (int k = 0; k < FLAME_LIMITS; k++) l->any |= l->most[k] > 0;
}

int fl_limits_open(flame_context *c, const flame_options *o) {
  fl_limits *l = &c->limits;
  l->deny = o->deny;
  l->allow = o->allow;
  l->print = o->print;
  l->warn = o->warn;
  l->arg = o->arg;
  if (o->folder && !(l->folder = fl_strdup(&c->mem, o->folder))) return 0;
  for (int k = 0; k < FLAME_LIMITS; k++)
    if (o->limit[k] > 0 && flame_limit_set(c, (flame_limit)k, o->limit[k]) < 0) return 0;
  if (l->any) l->deny |= FLAME_WORKERS;
  for (int k = FLAME_CALL_NS; k <= FLAME_KERNEL_STEPS; k++)
    if (l->most[k] > 0) l->deny |= FLAME_LIBRARIES & ~l->allow;
  return 1;
}

void fl_limits_close(flame_context *c) {
  fl_limits *l = &c->limits;
  if (l->folder) fl_free(&c->mem, l->folder, strlen(l->folder) + 1);
  fl_watch_close(l->watch);
  l->folder = NULL;
  l->watch = NULL;
  l->timed = 0;
}

int64_t flame_limit_set(flame_context *c, flame_limit which, int64_t most) {
  FL_HOLD(c, -1);
  if (!is_limit((int)which)) return -1;
  fl_limits *l = &c->limits;
  const int64_t before = l->most[which];
  const int time = which == FLAME_CALL_NS || which == FLAME_TOTAL_NS;
  if (most < 0) return before;
  if (time && most > 0 && !l->watch && !(l->watch = fl_watch_open(&c->mem))) {
    FL_FAIL(c, FLAME_NO_MEMORY, "limit_set", "no thread for the clock");
    return -1;
  }
  l->most[which] = most;
  if (which == FLAME_HOST_BYTES) c->mem.limit = most;
  if (which == FLAME_DEVICE_BYTES) c->room.limit = most;
  note_any(c);
  if (time && !l->timed && most > 0) {
    l->timed = 1;
    l->depth++;                                /* l->depth stays above 0 until the outermost call
                                               ** ends */
    l->began = fl_now_ns();
  }
  if (time) set_watch(c);
  return before;
}

/* This call itself does not count: reports the last call, or the one that is running. */
int64_t flame_limit_used(flame_context *c, flame_limit which) {
  FL_HOLD(c, -1);
  fl_limits *l = &c->limits;
  const int runs = l->timed && l->depth > (c->holds == 1);
  const int64_t now = runs ? fl_now_ns() - l->began : 0;
  if (l->timed && !runs) l->asked = 1;
  if (which == FLAME_CALL_NS && runs) return now;
  if (which == FLAME_TOTAL_NS) return used(c, which) + now;
  if (!is_limit((int)which)) return -1;
  if (which == FLAME_HOST_BYTES) return c->mem.live_bytes;
  if (which == FLAME_DEVICE_BYTES) return c->room.live_bytes;
  if (which == FLAME_NODES) return c->nodes.live;
  return used(c, which);
}

static void restart(flame_context *c, int all) {
  fl_limits *l = &c->limits;
  for (int k = FLAME_CALL_NS; k <= FLAME_OUTPUT_BYTES; k++)
    if (all || k != FLAME_TOTAL_NS) atomic_store(&l->used[k], 0);
  const int stuck = atomic_load(&l->stuck);
  if (stuck == FL_STUCK_CLOSED || (!all && stuck == 1 + FLAME_TOTAL_NS)) return;
  atomic_store(&l->stuck, 0);
  atomic_fetch_and(&c->interrupted, ~FL_INTERRUPT_USED_UP);
  if (c->err.code == FLAME_INTERRUPTED) fl_error_clear(&c->err);
}

void fl_limits_restart_call(flame_context *c) { restart(c, 0); }

void flame_limit_restart(flame_context *c) {
  FL_HOLD(c, );
  restart(c, 1);
  c->limits.began = fl_now_ns();
  if (c->limits.timed) set_watch(c);
}

flame_status flame_fail(flame_context *c, flame_status code, const char *op, const char *message) {
  FL_HOLD(c, FLAME_BAD_ARGUMENT);
  if (code <= FLAME_OK || code > FLAME_INTERNAL) code = FLAME_INTERNAL;
  return FL_FAIL(c, code, op ? op : "", "%s", message ? message : "failed");
}
