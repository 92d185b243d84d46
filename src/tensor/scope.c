/*
** Which thread is inside a context, borrowing scopes, and the start of a public call. A builder's
** result is owned by the innermost scope: there is one stack of nodes per context, each with one
** 'held' count; a scope is a height of that stack. So a gradient rule is one expression and leaks
** nothing, even if it fails half-way.
*/
#include "tensor/context.h"
#include <pthread.h>

/* ---- one thread at a time ---------------------------------------------------------------- */

static uintptr_t this_thread(void) { return (uintptr_t)pthread_self(); }

flame_context *fl_hold(flame_context *c) {
  if (!c) return NULL;
  const uintptr_t me = this_thread();
  uintptr_t none = 0;
  if (!atomic_compare_exchange_strong_explicit(&c->holder, &none, me, memory_order_acquire,
                                               memory_order_relaxed) && none != me) {
    atomic_store_explicit(&c->refused, me, memory_order_relaxed);
    return NULL;
  }
  if (c->holds++ == 0) {
    c->from_zero |= FL_FROM_ZERO_CALL;
    if (c->limits.timed) fl_time_begin(c);
  }
  fl_anchor(c);
  return c;
}

void fl_unhold(flame_context *const *held) {
  flame_context *c = *held;
  if (!c || --c->holds > 0) return;
  c->from_zero &= FL_FROM_ZERO_HOST;
  if (c->limits.timed) fl_time_end(c);
  atomic_store_explicit(&c->holder, 0, memory_order_release);
}

/* Is the context held by another thread, or was it when this thread called last? */
int fl_held_elsewhere(const flame_context *c) {
  const uintptr_t me = this_thread(),
                  holder = atomic_load_explicit(&c->holder, memory_order_relaxed);
  return (holder && holder != me) || atomic_load_explicit(&c->refused, memory_order_relaxed) == me;
}

/* ---- scopes ---------------------------------------------------------------------------------- */

int64_t fl_scope_begin(flame_context *c) { return c->borrowed.n; }

void fl_scope_end(flame_context *c, int64_t mark) {
  while (c->borrowed.n > mark) fl_node_drop(c->borrowed.at[--c->borrowed.n]);
}

fl_node *fl_scope_hold(flame_context *c, fl_node *n) {
  if (!n) return NULL;
  fl_node **at = FL_PUSH(&c->mem, &c->borrowed);
  if (!at) {
    FL_FAIL(c, FLAME_NO_MEMORY, "memory", "no host memory for a recorded value");
    return NULL;
  }
  *at = n;
  n->held++;
  return n;
}

/* Computes all recorded nodes, since there are as many as there may be. Failures are reported by
** the failed nodes when they are read; only an interrupt or a lost device must stop the script
** here, and does, because fl_node_new then refuses. An older error stays in the context. */
static void flush(flame_context *c) {
  const fl_error before = c->err;
  c->flushing = 1;                /* a finaliser may record during the collector step */
  const flame_status e = c->up->evaluate_all(c);
  c->flushing = 0;
  if (e != FLAME_OK && e != FLAME_INTERRUPTED && e != FLAME_DEVICE_LOST) c->err = before;
}

/* Is an eighth of each limit of host bytes free? fl_collect_if_full finds out the same, more
** slowly. */
static int is_roomy(const fl_mem *m) {
  for (; m; m = m->outer)
    if (m->limit > 0 && m->live_bytes >= m->limit - (m->limit >> 3)) return 0;
  return 1;
}

/* Begins a public call in a context with limits. Keeps the error if one is used up; runs the host's
** collector if host memory is nearly full. Near the limit of nodes it computes recorded nodes and
** collects dead ones, but not again before half of the room that was left by this is used. */
static void enter_limited(flame_context *c) {
  enum { NEAR = 64 };
  const int64_t most = c->limits.most[FLAME_NODES];
  if (fl_is_stuck(c)) fl_interrupted(c, "");
  if (!is_roomy(&c->mem) || c->limits.collect_bytes) fl_collect_if_full(c, 0);
  if (most <= 0 || c->nodes.live + NEAR < most || c->nodes.live < c->limits.collect_at ||
      c->flushing || c->evaluating || !c->up) return;
  flush(c);
  if (c->up->collect) c->up->collect(c);
  c->limits.collect_at = c->nodes.live + (most - c->nodes.live) / 2;
}

int64_t fl_enter(flame_context *c) {
  fl_anchor(c);
  if (c->limits.any) enter_limited(c);
  if (c->win.live >= c->budget + c->cut && c->win.live > 0 && !c->flushing && !c->evaluating &&
      c->up && c->up->evaluate_all)
    flush(c);
  return fl_scope_begin(c);
}
