/*
** When the engine runs the host language's collector, and what that may cost.
**
** A step, right before planning, collects young objects in generational mode: temporaries of the
** script, which the plan then need not store. It costs very little, unless a large old table was
** written to, which it traverses each time (a list of a million losses: a millisecond). So some
** steps are timed. Time beyond what the garbage explains delays the next step, until the values and
** KB that were pending at evaluations since then ('kept') are several times the number of ops that
** could have been recorded in that time. In incremental mode the host's collector runs at its own
** pace: a step would do a part of a cycle, and find dead objects only at the cycle's end.
**
** A full collection is done when the handles that a step leaves, the memory that is held or the
** host's heap have doubled since the last: steps delay the major collections that Lua would do, and
** an object that survives two of them is old (a handle after one, since its finaliser keeps it for
** another). It traverses the heap, a KB in about the time in which an op is recorded and run. So if
** handles have doubled, or the heap that steps leave has grown a little, the collection waits until
** PAID ops were done for each KB. Temporaries of the current window (ops recorded since the last
** evaluation) do not count there, since the next step finds them without a full traversal. If the
** bytes held have doubled, the collection does not wait for that: it waits until they are a
** multiple of the heap, since writing them took time too, and on a GPU until they are a hundredth
** of its memory, since a GPU writes gigabytes in the time of a traversal. A heap that has doubled
** needs no such condition: the work that filled it is large enough.
**
** Values never depend on any of this. A collector that the script stopped stays stopped, except
** when memory is out (fl_engine_collect).
*/
#include "base/num.h"
#include "engine/evaluate.h"
#include "engine/memory.h"
#include <time.h>

enum {
  PAID = 10,            /* ops before a full collection, per KB of heap: collecting then takes a
                        ** tenth of the time */
  EVALUATION = 16,         /* the fixed cost of an evaluation, counted in ops */
  OP = 250,                /* ns: time of an op, and of storing a small value */
  TIMED = 32,             /* one of this many collector steps is timed, and each one after an
                          ** expensive one */
  SURE = 4,                /* expensive collector steps in a row before one is delayed */
  CHEAP = 3000,            /* ns: a collector step of at most this time may precede each
                           ** evaluation */
  GARBAGE = 4000,          /* ns: an upper bound of the time that freeing a KB of small objects
                           ** takes */
  FINALISED = 400,         /* ns: an upper bound of the time that releasing a handle takes */
  STEP_SHARE = 5,          /* the collector step after an expensive one waits until 'kept' accounts
                           ** for this many times its cost */
  MOST_KEPT = 16384,       /* at this sum of pending values and KB ('kept') a collector step is
                           ** done, however expensive */
  FEW_HANDLES = 64,
  GROWN = 16,              /* a heap larger by a 16th contains garbage that collector steps do not
                           ** find */
  HANDLE = 40,             /* bytes of the object for a handle in the host's heap */
  HEAP_ROOM = 1024,        /* KB: smaller heaps may more than double */
  BYTES_PER_HEAP = 6
};
static const int64_t MIN_BYTES = 64LL << 20;

/* Bytes of all live tensors and of the context's host memory (nodes, handles, the tape). */
static int64_t bytes_held(const flame_context *c) {
  return fl_engine_live_bytes(c) + (int64_t)c->mem.live_bytes;
}

/* Notes how many handles there are and how large the heap is: after a collection or a step of it,
** or at an evaluation without one. */
static void note_left(flame_context *c, int64_t heap) {
  fl_collecting *k = &((fl_engine *)c->engine)->collect;
  k->left = c->tensors.live;
  k->left_heap = heap;
}

/* Makes 'times' full collections; the state after them is compared with later states to decide when
** the next one is due. Handles that it finds dead are released, but their objects are old now, and
** only another full collection frees them. */
static void full(flame_context *c, int times) {
  fl_collecting *k = &((fl_engine *)c->engine)->collect;
  c->stats.collections++;
  c->collector.full(c->collector.arg, times);
  k->work = k->kept = 0;
  k->live = c->tensors.live;
  k->bytes = bytes_held(c);
  k->heap = c->collector.heap ? fl_max(c->collector.heap(c->collector.arg), 0) : 0;
  note_left(c, k->heap);
}

/* Adds the ops recorded since the last call, and the fixed cost of an evaluation, to 'work', and
** the values and KB that are pending now to 'kept'. The script may reset the counter of recorded
** ops. */
static void note_work(flame_context *c) {
  fl_collecting *k = &((fl_engine *)c->engine)->collect;
  if (c->stats.recorded < k->seen) k->seen = 0;
  k->work += c->stats.recorded - k->seen + EVALUATION;
  k->kept += c->win.live + (c->win.bytes >> 10);
  k->seen = c->stats.recorded;
}

/* How many full collections are due? Two for a heap that has doubled: if handles fill it, the first
** runs their finalisers and the second frees the objects. With only one, the heap that is noted
** would hold all that the first found, and grow from one collection to the next. */
static int full_is_due(flame_context *c, int64_t heap) {
  fl_engine *e = c->engine;
  const fl_collecting *k = &e->collect;
  const int64_t room = fl_max(fl_max(MIN_BYTES, e->roomy), BYTES_PER_HEAP * 1024 * heap);
  if (heap > 2 * fl_max(k->heap, HEAP_ROOM)) return 2;
  if (bytes_held(c) > fl_max(2 * k->bytes, k->bytes + room)) return 1;
  if (k->work < PAID * (k->heap ? k->heap : heap)) return 0;
  return k->left > 2 * fl_max(k->live, FEW_HANDLES) || k->left_heap > k->heap + k->heap / GROWN;
}

static int64_t thread_time(void) {
  struct timespec t;
  return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0
         ? (int64_t)t.tv_sec * 1000000000 + t.tv_nsec : 0;
}

/* Does a step of the host's collector. The step after it waits until 'kept' (values and KB pending
** at evaluations) reaches 'least'. */
static void step(flame_context *c, int64_t heap) {
  fl_collecting *k = &((fl_engine *)c->engine)->collect;
  const fl_collector *host = &c->collector;
  k->kept = 0;
  const int timed = !k->told && (++k->steps >= TIMED || k->dear > 0);
  const int64_t live = c->tensors.live, start = timed ? thread_time() : 0;
  host->step(host->arg);
  const int64_t released = fl_max(live - c->tensors.live, 0), left = host->heap(host->arg);
  note_left(c, left - (released * HANDLE >> 10));      /* the next step frees their objects */
  if (!timed) return;
  const int64_t took = thread_time() - start, freed = fl_max(heap - left, 0);
  const int64_t walk = took - GARBAGE * freed - FINALISED * released;
  k->steps = 0;
  k->dear = walk <= CHEAP ? 0 : fl_min(k->dear + 1, SURE);
  k->least = k->dear < SURE ? 0 : fl_min(STEP_SHARE * walk / OP, MOST_KEPT);
}

void fl_engine_collect(flame_context *c) {
  if (c->collector.full && !c->evaluating) full(c, 2);
}

void fl_engine_collect_before(flame_context *c) {
  fl_engine *e = c->engine;
  const fl_collector *host = &c->collector;
  if (c->evaluating || e->collecting || !host->heap) return;
  note_work(c);
  const int64_t heap = host->heap(host->arg);
  if (heap < 0) return;
  e->collecting = 1;
  const int due = full_is_due(c, heap);
  if (due) full(c, due);
  else if (e->collect.kept >= e->collect.least) step(c, heap);
  else note_left(c, heap);
  e->collecting = 0;
}
