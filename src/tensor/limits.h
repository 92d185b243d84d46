/*
** Limits and permissions of a context (docs/security.md). Host bytes are counted by base/mem; the
** others that are in use where they are made. What is used up makes the context stuck: a bit of
** 'interrupted' that no poll takes, so whatever computes ends as by an interrupt and every call
** after it fails, until flame_limit_restart.
*/
#ifndef FL_TENSOR_LIMITS_H
#define FL_TENSOR_LIMITS_H
#include "base/watch.h"
#include "flame.h"
#include <stdatomic.h>

/* Bits of flame_context.interrupted. An interrupt is taken by who polls it; that a limit is used
** up stays until flame_limit_restart. */
enum { FL_INTERRUPT_ONCE = 1, FL_INTERRUPT_USED_UP = 2 };

/* Reasons to be stuck beside the limits: the owner ends the work; an interrupt of the context
** around, which nothing in here takes. */
enum { FL_STUCK_CLOSED = FLAME_LIMITS + 1, FL_STUCK_INTERRUPTED };

/* Limits, but for host bytes, which base/mem counts. Those in use are counted where they are
** made; 'used' has the others and coroutines. Workers count steps of kernels. */
typedef struct fl_limits {
  int64_t most[FLAME_LIMITS];    /* 0: none */
  atomic_llong used[FLAME_LIMITS];
  atomic_int stuck;              /* 1 + the limit that is used up, or FL_STUCK_CLOSED */
  uint8_t any, timed;            /* is there a limit? one of time? */
  uint8_t asked;                 /* this call is flame_limit_used, whose time is not counted */
  int32_t depth;                 /* calls under way whose time is counted */
  int64_t began;                 /* when the outermost of these calls began, in ns */
  int64_t collect_at;            /* live nodes that are worth a collection */
  int64_t collect_bytes;         /* so for host bytes, while nearly all are in use; else 0 */
  fl_watch *watch;
  uint32_t deny, allow;          /* FLAME_READ, … */
  char *folder;
  void (*print)(void *arg, const char *s, size_t n);
  void (*warn)(void *arg, const char *s);
  void *arg;
  _Atomic(struct flame_context *) inside;   /* of the sandbox that runs, which is interrupted too */
  atomic_int interrupting;       /* who looks at it: it stays until they have */
} fl_limits;

/* Is the work to end? An interrupt is taken by this, a limit that is used up is not. */
int fl_take_interrupt(flame_context *c);
/* The error of work that has ended so; always FLAME_INTERRUPTED. */
flame_status fl_interrupted(flame_context *c, const char *op);
/* So much more is used up; 0: the limit is reached, and the context stuck. Any thread. */
int fl_use(flame_context *c, int which, int64_t n);
void fl_stick(flame_context *c, int stuck);      /* 1 + limit, or FL_STUCK_CLOSED */
int fl_is_stuck(const flame_context *c);
/* What an error says: "the limit of 1000 Lua instructions is used up". */
void fl_stuck_text(const flame_context *c, char *out, size_t size);
/* "the limit of the context is 64 MiB; …" of the request that a limit refused last, and forgets
** it. 0: none did. */
int fl_refused_text(flame_context *c, char *out, size_t size);
void fl_tell_refused(flame_context *c);          /* the same as the message of the kept error */
/* Nearly all of the host memory is in use: what the host's collector finds dead is let go, but not
** again before half of the room that this left is taken, unless 'again' is true. 1: it was
** asked. */
int fl_collect_if_full(flame_context *c, int again);
/* Of a call by the host: the time in it counts. In pairs, nested. */
void fl_time_begin(flame_context *c);
void fl_time_end(flame_context *c);
/* The context of the sandbox that runs in c from now on, or NULL; the one before it. When this
** returns no interrupt looks at that one. */
flame_context *fl_run_inside(flame_context *c, flame_context *inner);
/* Settings from options, as they were checked. 0: no memory, or no thread for the clock. */
int fl_limits_open(flame_context *c, const flame_options *o);
void fl_limits_close(flame_context *c);
/* May c do this (FLAME_READ, …)? Else the error is kept, as op's. */
int fl_may(flame_context *c, uint32_t permission, const char *op);
/* What a call by the host uses up counts from 0. */
void fl_limits_restart_call(flame_context *c);

#endif
