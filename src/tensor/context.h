/*
** The context: all state there is (docs/design.md 1.10). Entered by one thread at a time.
** Layers above tensor/ keep their state in 'engine' and are called through 'up'.
*/
#ifndef FL_TENSOR_CONTEXT_H
#define FL_TENSOR_CONTEXT_H
#include "base/error.h"
#include "base/mem.h"
#include "base/philox.h"
#include "tensor/limits.h"
#include "tensor/node.h"
#include <stdatomic.h>

/* Why runs on a GPU were not launched as graphs (why.def); 0: they were. */
enum {
  FL_WHY_NONE,
#define WHY(name, text) FL_WHY_##name,
#include "tensor/why.def"
#undef WHY
  FL_WHY_COUNT
};

/* texts: kernel texts generated, on either device; cache_*: cubins found or compiled */
typedef struct fl_stats {
  int64_t recorded, plans, hits, replays, launches, compiles, texts, bytes_moved, copies,
          collections, syncs, cache_hits, cache_misses;
  int64_t not_replayed[FL_WHY_COUNT];     /* runs on a GPU by reason */
} fl_stats;

enum { FL_MAX_DEVICES = 17 };    /* cpu and cuda:0 … cuda:15 */
/* Values of 'anomaly'. ANY: results are checked for NaN and Inf; NAN (FLAME_CHECK=nan): for NaN. */
enum { FL_ANOMALY_ANY = 1, FL_ANOMALY_NAN };

/* Why messages count from 0: the context is that of a C program; or it is that of a script, within
** a function of flame.h. */
enum { FL_FROM_ZERO_HOST = 1, FL_FROM_ZERO_CALL };

/* What the gradient of an op reads, from the text of ops.def. */
typedef struct fl_rule_needs {
  uint8_t has;         /* bit i: there is a gradient with respect to input i */
  uint8_t reads[3];    /* values that the gradient with respect to input i reads: bit j input j, bit
                       ** 7 the result */
} fl_rule_needs;

/* Facts about the last backward passes, used to explain a missing gradient. Walks are numbered from
** 1. */
enum { FL_WALK_CUTS = 6, FL_WALK_SITES = 16 };
typedef struct fl_walked {
  uint32_t walks;                    /* number of walks so far */
  uint32_t sites[FL_WALK_SITES];     /* lines of the last walks, by number */
  uint32_t number;                   /* number of the last backward that succeeded; 0: none */
  int64_t sequence;                  /* c->sequence when it began */
  int ncuts;                         /* number of reasons (tensor/lost.h) why values that its graph
                                     ** read were not tracked */
  uint32_t cuts[FL_WALK_CUTS];       /* the first of these reasons */
} fl_walked;

/* Memory of the lists of the last backward, which the next one takes. */
enum { FL_WALK_LISTS = 4 };
typedef struct fl_spare { void *at; size_t bytes; } fl_spare;

struct fl_krule;

/* Functions that tensor/ and autograd/ need from higher layers; set by engine/. */
typedef struct fl_upcalls {
  /* Evaluates 'n' (and, if possible, all recorded nodes). After FLAME_OK n is STORED. */
  flame_status (*evaluate)(struct flame_context *c, fl_node *n);
  flame_status (*evaluate_all)(struct flame_context *c);
  void (*collect)(struct flame_context *c);     /* a full collection; NULL: there is no collector */
  void *(*device_alloc)(struct flame_context *c, int device, int64_t bytes);
  void (*device_free)(struct flame_context *c, int device, void *p, int64_t bytes);
  flame_status (*upload)(struct flame_context *c, int device, void *dst, const void *src,
                         int64_t bytes);
  struct fl_device *(*host)(struct flame_context *c);   /* the CPU, opened; NULL with an error */
  flame_status (*download)(struct flame_context *c, int device, void *dst, const void *src,
                           int64_t bytes);
  /* Reports that 'bytes' bytes for 'what' could not be allocated. NULL: a short message is used. */
  flame_status (*no_memory)(struct flame_context *c, int device, int64_t bytes, const char *what);
  /* Runs the hooks of a tensor: they may replace its gradient *g by a borrowed node of that shape.
  ** NULL: there are none. */
  flame_status (*run_hooks)(struct flame_context *c, void *hooks, fl_node **g);
  /* If c->watched: a backward walk has reached n, whose complete cotangent is g. May run
  ** scripts. */
  flame_status (*walked)(struct flame_context *c, fl_node *n, fl_node *g);
  /* "train.lua:8" for a line of the script, "" if there is none. NULL: lines are not known. */
  char *(*place)(struct flame_context *c, uint32_t site, char buf[96]);
  /* With c->anomaly: fails for the first node borrowed since 'mark' that made a NaN or Inf. */
  flame_status (*anomaly)(struct flame_context *c, int64_t mark);
  /* Writes to 'out' which launches may have caused a fault of the device: "; it may be of …", or ""
  ** if that is not known. */
  void (*suspects)(struct flame_context *c, int device, char *out, size_t size);
  /* Compares the gradient of a kernel's call with finite differences. NULL: not requested. */
  flame_status (*prove)(struct flame_context *c, struct fl_krule *r);
} fl_upcalls;

/* The garbage collector of the host language, as the binding gives it to the engine (NULL: there is
** none). All functions but 'heap' may run scripts. */
typedef struct fl_collector {
  int64_t (*heap)(void *arg);    /* KB of the host language's heap; -1: its collector is stopped */
  /* collects young objects, if the collector has such a mode and is in it */
  void (*step)(void *arg);
  void (*full)(void *arg, int times);  /* 'times' full collections */
  void (*anchor)(void *arg); /* while 'loose': called before the graph grows, and ends that state */
  void *arg;
  uint8_t loose;         /* 1: the host's collector knows all paths through the graph, for now */
} fl_collector;

typedef struct flame_context {
  fl_mem mem;
  fl_mem room;                   /* counts the memory that GPU drivers have given to c */
  fl_error err;
  fl_slab nodes, tensors, entries, attrs, calls, buffers;
  fl_layouts layouts;
  fl_layout *scalar_shape;       /* the 0-d layout, one reference */
  fl_rule_needs rules[FL_OP_COUNT];
  struct flame_tensor *handles;  /* all live handles, linked through next/prev */
  fl_window win;
  fl_node *effect;               /* the newest PENDING effect (node.h): borrowed */
  /* Called before an effect (such as a collective, node.h) that will not run is freed. May be
  ** NULL. */
  void (*effect_failed)(struct flame_context *c, const char *message, uint32_t site);
  uint8_t effect_lost;           /* an effect failed in this evaluation */
  struct fl_group *group;        /* of processes (group/group.h), or NULL */
  fl_rng rng;
  fl_stats stats;
  fl_level tensors_of[FL_MAX_DEVICES];      /* bytes in buffers, by device */
  struct fl_buffer *buffer;      /* all buffers, linked through next */
  struct { fl_node **at; int64_t n, cap; } borrowed;  /* nodes that scopes hold */
  fl_node *settle;               /* work list of fl_node_settle, linked through snext */
  uint8_t settling, flushing, closed;
  int64_t sequence;              /* number of the next entry of the tape */
  uint32_t site;                 /* script line now recording */
  int64_t budget;                /* so many recorded nodes force an evaluation */
  int64_t cut;                   /* recorded nodes that an interrupted run has left; not 0: a read
                                 ** computes only the value that it needs */
  uint8_t grad_mode;             /* 1: builders make entries */
  uint32_t wanted;               /* when the walk calls a rule: bit i: it uses the gradient with
                                 ** respect to input i (>= 31: bit 31); others may be left out */
  uint8_t default_device;
  uint32_t dead;                 /* bit d: device d was lost, and lost[d] says how */
  fl_error lost[FL_MAX_DEVICES];
  int64_t runs;                  /* number of plans that GPUs were given */
  int64_t good[FL_MAX_DEVICES];  /* plans up to number good[d] ended without a fault on device d */
  uint8_t evaluating;            /* an evaluation is running: recording now would be a bug */
  int32_t callbacks;             /* functions of flame_apply under way */
  struct fl_export *trace;       /* graph/: a function is being recorded for an export, and only
                                 ** recorded; NULL: none is */
  /* while tracing: may the function read n? */
  flame_status (*trace_read)(struct flame_context *c, fl_node *n);
  const struct fl_bundle *bundle;  /* io/bundle.h: files inside the program, or NULL */
  struct flame_program *programs;                 /* graph/: all loaded programs */
  void (*drop_programs)(struct flame_context *c);
  int32_t walking;               /* backward walks under way: they hold nodes that no
                                 ** handle may reach */
  fl_spare spare[FL_WALK_LISTS];
  fl_walked walked;              /* facts for explanations (autograd/why.c) */
  uint8_t anomaly, deterministic;  /* anomaly: FL_ANOMALY_*, 0: off */
  uint8_t tf32;                    /* products of f32 on a GPU may round their operands to TF32 */
  uint8_t scan;                  /* FLAME_CHECK=nan: plans look for NaN as they run (plan/scan.c) */
  uint8_t back;              /* the op whose backward is being recorded, as fl_node.back; 0: none */
  uint8_t watched;               /* steps of backward walks are reported to up->walked */
  uint8_t from_zero;             /* FL_FROM_ZERO_*: messages count axes and positions from 0 */
  uint8_t sim;                   /* FLAME_SIM: cuda means the CPU */
  int64_t kernel_steps;          /* FLAME_KERNEL_STEPS: most instructions of one block of a user
                                 ** kernel on the CPU; 0: no limit */
  uint8_t show_texts;            /* FLAME_DEBUG=4: the text of a new kernel is printed */
  uint8_t sync_each;             /* waits after each launch: fl_engine_debug_cuda */
  int64_t gather_most;           /* a gather (kernel/ad/ad.h) is made only if no argument has more
                                 ** elements than this, and no axis of the launch more threads */
  uint8_t kernel_checks;         /* FL_LANE_* requested: see fl_kfunction_checks */
  uint8_t planted;               /* FL_PLANT_*, read through FL_PLANTED */
  atomic_uintptr_t holder;       /* the thread that is inside a function of flame.h; 0: none */
  atomic_uintptr_t refused;   /* the last thread refused while another was the holder */
  int32_t holds;                 /* how many times the holder is inside */
  atomic_int interrupted;        /* FL_INTERRUPT_*: if not 0, computations end soon */
  fl_limits limits;
  const fl_upcalls *up;
  void *engine;
  fl_collector collector;
  void *host;                    /* data of the embedding language */
  /* set by autograd/ when the first hook is added */
  void (*drop_hooks)(struct flame_context *c, void *hooks);
  /* Set if there is a hidden Lua state: flame_close calls this instead, which closes that state,
  ** whose last finaliser closes the context. */
  void (*closing)(struct flame_context *c);
  /* for a context that was closed with live handles: called when the last handle ends */
  void (*gone)(struct flame_context *c);
  /* io/stale.c: the folder last searched for stale files; saves until the next search (wait) */
  struct { uint64_t device, inode; int64_t wait; } swept;
  char error_text[864];          /* of flame_error */
} flame_context;

/* The number by which a message names axis or position k, which is counted from 0. */
static inline int64_t fl_counted(const flame_context *c, int64_t k) {
  return k + (c->from_zero ? 0 : 1);
}

/* Was the device lost? Then operations on it fail with the first cause; other devices continue. */
static inline int fl_is_lost(const flame_context *c, int device) { return c->dead >> device & 1; }

/* Writes the context's error to stderr: there is no script any more that could raise it. */
void fl_tell_at_end(flame_context *c);
/* Reports that device memory for 'what' could not be allocated. */
flame_status fl_out_of_memory(flame_context *c, int device, int64_t bytes, const char *what);

/* Called before a new path through the graph is made, which the host's collector does not know. */
static inline void fl_anchor(flame_context *c) {
  if (c->collector.loose) c->collector.anchor(c->collector.arg);
}

/* A function of flame.h holds the context from its first use of it until it returns, including the
** functions that it calls. Calls by another thread fail meanwhile, and flame_error gives that
** thread the reason. If 'c' is NULL or held by another thread, FL_HOLD returns 'otherwise' from the
** function. (scope.c) */
flame_context *fl_hold(flame_context *c);
void fl_unhold(flame_context *const *held);
int fl_held_elsewhere(const flame_context *c);
#define FL_HOLD(c, otherwise) \
  __attribute__((cleanup(fl_unhold))) flame_context *const fl_held_ = fl_hold(c); \
  if (!fl_held_) return otherwise

/* Must the work end? */
static inline int fl_must_end(const flame_context *c) {
  return atomic_load_explicit(&c->interrupted, memory_order_relaxed) != 0;
}

/* Begin and end of a public call: sets the borrowing scope; if too many nodes are recorded they are
** computed first. */
#define FL_ENTER(c) const int64_t fl_mark_ = fl_enter(c)
#define FL_LEAVE(c) fl_scope_end((c), fl_mark_)
int64_t fl_enter(flame_context *c);
/* The part of a context that tensor/ owns. c is zeroed except mem, up and settings; init returns 0
** when memory is out. close drops the values of all handles and frees everything else; 0: callers
** still own some handles, so their structs and c must stay until c->gone. */
int fl_tensor_init(flame_context *c);
int fl_tensor_close(flame_context *c);
#ifdef __clang_analyzer__                  /* tells the analyser that fl_fail returns its code */
#define FL_FAIL(c, code, op, ...) (fl_fail(&(c)->err, (code), (op), __VA_ARGS__), (code))
#else
#define FL_FAIL(c, code, op, ...) (fl_fail(&(c)->err, (code), (op), __VA_ARGS__))
#endif
#endif
