/*
** Limits and permissions of a context (docs/security.md). base/mem counts host bytes; other
** resources in use (device bytes, nodes, coroutines) are counted where they are made, and at their
** limit the next request fails. Time, steps and output are used up: at such a limit the context is
** stuck, with a bit of 'interrupted' set that no poll clears, so computations end as by an
** interrupt and every further call fails, until flame_limit_restart.
*/
#ifndef FL_TENSOR_LIMITS_H
#define FL_TENSOR_LIMITS_H
#include "base/watch.h"
#include "flame.h"
#include <stdatomic.h>

/* Bits of flame_context.interrupted. A poll that sees an interrupt clears it; a used up limit stays
** until flame_limit_restart. */
enum { FL_INTERRUPT_ONCE = 1, FL_INTERRUPT_USED_UP = 2 };

/* Reasons to be stuck other than limits: the owner has ended the work; an interrupt came from the
** surrounding context, and nothing inside the sandbox clears it. */
enum { FL_STUCK_CLOSED = FLAME_LIMITS + 1, FL_STUCK_INTERRUPTED };

/* Limits, except host bytes, which base/mem counts. Resources in use are counted where they are
** made; 'used' has the counts of the other limits and of coroutines. They are atomic, since worker
** threads count steps of kernels. */
typedef struct fl_limits {
  int64_t most[FLAME_LIMITS];    /* 0: none */
  atomic_llong used[FLAME_LIMITS];
  atomic_int stuck;              /* 0: not stuck; 1 + the limit that is used up; or FL_STUCK_* */
  uint8_t any, timed;            /* is there any limit? one of time? */
  uint8_t asked;                 /* 1: the call is flame_limit_used, whose time does not count */
  int32_t depth;                 /* calls under way whose time is counted */
  int64_t began;                 /* when the outermost call that is timed began, in ns */
  int64_t collect_at;            /* number of live nodes at which a collection is done */
  int64_t collect_bytes;         /* host bytes at which a collection is done; 0: limit not near */
  fl_watch *watch;
  uint32_t deny, allow;          /* FLAME_READ, … */
  char *folder;
  void (*print)(void *arg, const char *s, size_t n);
  void (*warn)(void *arg, const char *s);
  void *arg;
  _Atomic(struct flame_context *) inside;   /* context of the sandbox that is running, which is
                                            ** interrupted too */
  atomic_int interrupting;       /* threads that are using 'inside': it remains until they have
                                 ** finished */
} fl_limits;

/* Must the running work end? This clears an interrupt, but not a limit that is used up. */
int fl_take_interrupt(flame_context *c);
/* Stores the error of 'op', which an interrupt or a used up limit ended; returns
** FLAME_INTERRUPTED. */
flame_status fl_interrupted(flame_context *c, const char *op);
/* Adds n to what is used; 0: the limit is reached, and the context is stuck (see above). Any
** thread. */
int fl_use(flame_context *c, int which, int64_t n);
void fl_stick(flame_context *c, int stuck);      /* 1 + limit, or FL_STUCK_* */
int fl_is_stuck(const flame_context *c);
/* Writes the text of an error: "the limit of 1000 Lua instructions is used up". */
void fl_stuck_text(const flame_context *c, char *out, size_t size);
/* Writes "the limit of the context is 64 MiB; …" for the request that a limit refused last, and
** forgets it. 0: none was refused. */
int fl_refused_text(flame_context *c, char *out, size_t size);
void fl_tell_refused(flame_context *c); /* adds fl_refused_text to the stored error's message */
/* If nearly all of the host memory is in use, runs the host's collector; but not again before half
** of the memory that was then free is used, unless 'again' is true. 1: it was run. */
int fl_collect_if_full(flame_context *c, int again);
/* Begin and end a call by the host, whose time counts. Pairs may be nested. */
void fl_time_begin(flame_context *c);
void fl_time_end(flame_context *c);
/* Sets the context of the sandbox that runs in c, or NULL, and returns the previous one, which no
** interrupt accesses any more. */
flame_context *fl_run_inside(flame_context *c, flame_context *inner);
/* Takes settings from options, which are checked already. 0: no memory, or no thread for the
** clock. */
int fl_limits_open(flame_context *c, const flame_options *o);
void fl_limits_close(flame_context *c);
/* May c do this (FLAME_READ, …)? If not, stores an error of 'op'. */
int fl_may(flame_context *c, uint32_t permission, const char *op);
/* Restarts the counts of what one call by the host uses. */
void fl_limits_restart_call(flame_context *c);

#endif
