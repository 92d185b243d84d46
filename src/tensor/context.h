/*
** The context: all state there is (DESIGN 1.10). Entered by one thread at a time.
** Layers above tensor/ hang their state on 'engine' and are reached through 'up'.
*/
#ifndef FL_TENSOR_CONTEXT_H
#define FL_TENSOR_CONTEXT_H
#include "base/error.h"
#include "base/mem.h"
#include "base/philox.h"
#include "tensor/node.h"
#include <stdatomic.h>

typedef struct fl_stats {
  int64_t recorded, plans, hits, replays, launches, compiles, texts, bytes_moved, copies,
          collections, syncs;
} fl_stats;            /* texts: kernel texts generated, on either device */

enum { FL_MAX_DEVICES = 17 };    /* cpu and cuda:0 … cuda:15 */

/* What tensor/ and autograd/ need from above; filled by engine/. */
typedef struct fl_upcalls {
  /* Evaluate 'n' (and, if it can be, the whole window). After FLAME_OK n is STORED. */
  flame_status (*evaluate)(struct flame_context *c, fl_node *n);
  flame_status (*evaluate_all)(struct flame_context *c);
  void *(*device_alloc)(struct flame_context *c, int device, int64_t bytes);
  void (*device_free)(struct flame_context *c, int device, void *p, int64_t bytes);
  flame_status (*upload)(struct flame_context *c, int device, void *dst, const void *src, int64_t bytes);
  flame_status (*download)(struct flame_context *c, int device, void *dst, const void *src, int64_t bytes);
} fl_upcalls;

/* What the binding gives the engine (NULL: none). */
typedef struct fl_collector {
  void (*step)(void *arg);       /* one collector step right before planning; may run scripts */
  void (*full)(void *arg);       /* full collection, twice */
  void *arg;
} fl_collector;

typedef struct flame_context {
  fl_mem mem;
  fl_error err;
  fl_slab nodes, tensors, entries, attrs;
  fl_layouts layouts;
  fl_window win;
  fl_rng rng;
  fl_stats stats;
  int64_t live_bytes[FL_MAX_DEVICES], peak_bytes[FL_MAX_DEVICES];  /* of buffers */
  struct { fl_node **at; int64_t n, cap; } borrowed;
  struct { fl_node **at; int64_t n, cap; } settle;    /* work list of fl_node_settle */
  int64_t sequence;              /* of entries */
  uint32_t site;                 /* script line now recording */
  int64_t budget;                /* nodes in the window that force an evaluation */
  uint8_t grad_mode;             /* 1: builders make entries */
  uint8_t default_device;
  uint8_t dead;                  /* a device was lost: err is the first cause, for ever */
  uint8_t evaluating;            /* no recording now: a bug if violated */
  uint8_t anomaly, deterministic;
  atomic_int interrupted;        /* set by flame_interrupt, taken by whoever polls it */
  const fl_upcalls *up;
  void *engine;
  fl_collector collector;
  void *host;                    /* of the embedding language */
} flame_context;

/* Begin and end of a public call: sets the borrowing scope, flushes a full window first. */
#define FL_ENTER(c) const int64_t fl_mark_ = fl_enter(c)
#define FL_LEAVE(c) fl_scope_end((c), fl_mark_)
int64_t fl_enter(flame_context *c);
#define FL_FAIL(c, code, op, ...) (fl_fail(&(c)->err, (code), (op), __VA_ARGS__))
#endif
