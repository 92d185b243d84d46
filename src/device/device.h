/*
** The interface of a device. cpu/ and cuda/ each fill one table. A device belongs to one context;
** calls come from the thread that has entered it.
**
** Order: work is queued in call order and memory given to 'free' is reused only after the work
** queued before. run may return before the work is done (CUDA); download and sync wait.
*/
#ifndef FL_DEVICE_DEVICE_H
#define FL_DEVICE_DEVICE_H
#include "device/trace.h"
#include "plan/plan.h"

struct fl_kfunction;

/* What failed in a run: of its out-of-range indices the one with the lowest (site, position), or
** what a call reports. */
typedef struct fl_fault {
  int32_t site;                 /* index in plan->fault; -1: none */
  int64_t value, position;      /* the value as given (1-based); its 0-based linear position */
  uint8_t later;                /* 1: the whole run is queued, and its checks must be read (see
                                ** checked) */
  char text[FL_CALL_FAULT];     /* the message of a call (a sort, …) that failed; else empty */
} fl_fault;

/* The data with which a plan is run; addresses are the device's. ext: those of the first elements
** of the plan's inputs; out: those of its results. */
typedef struct fl_binding {
  void *const *ext;
  void *const *out;
  void *arena;
  const fl_scalar *scalar;
  const fl_program *program;    /* which is run; NULL: unknown */
} fl_binding;

static inline void *fl_place_address(const fl_binding *b, const fl_place *p) {
  if (p->where == FL_AT_ARENA) return (char *)b->arena + p->byte;
  return p->where == FL_AT_EXT ? b->ext[p->index] : b->out[p->index];
}

typedef struct fl_device {
  const struct fl_device_table *table;
  flame_context *ctx;
  int index;                    /* 0: CPU; n: cuda:n-1 */
  void *state;
  fl_trace *trace;              /* NULL: no profile is on */
  int64_t shared;               /* bytes of shared memory that a block may have; 0: any number */
} fl_device;

/* Memory of a device, in bytes. used: by tensors, intermediate values and scratch, including
** padding; reserved: allocated from the driver or the system, including cached blocks. Peaks: since
** reset_peak. 'products' (cuBLASLt's workspace) and 'scratch' (the memory that calls of libraries
** and kernels share) are parts of 'used'. */
typedef struct fl_usage {
  int64_t free;
  fl_level used, reserved;
  int64_t products, scratch;
} fl_usage;

typedef struct fl_device_table {
  const char *name;                                             /* "cpu", "cuda" */
  /* Device memory; NULL: there is none (without an error: the caller collects, trims and tries
  ** again), or, with an error, the driver has failed. The caller counts it. */
  void *(*alloc)(fl_device *d, int64_t bytes);
  /* Like alloc, at address 'at' if that is free, else anywhere. The function is NULL if addresses
  ** do not matter. */
  void *(*alloc_at)(fl_device *d, void *at, int64_t bytes);
  void (*free)(fl_device *d, void *p, int64_t bytes);
  void (*trim)(fl_device *d);                                   /* give cached memory back */
  void (*memory)(fl_device *d, fl_usage *u);
  void (*reset_peak)(fl_device *d);                             /* both peaks start again */
  flame_status (*upload)(fl_device *d, void *dst, const void *src, int64_t bytes);
  flame_status (*download)(fl_device *d, void *dst, const void *src, int64_t bytes);   /* waits */
  /* on the device, queued */
  flame_status (*copy)(fl_device *d, void *dst, const void *src, int64_t bytes);
  /* Compiles what is missing; no effects on data. Called once per plan, before its first run. */
  flame_status (*prepare)(fl_device *d, fl_plan *p);
  /* Compiles these user kernels, so that errors appear where they are called. */
  flame_status (*ready)(fl_device *d, struct fl_kfunction *const *k, int n);
  /* Run all steps. Polls c->interrupted between steps (and inside long ones): then
  ** FLAME_INTERRUPTED. *done: steps finished or, on a GPU, queued; if a check or a call has
  ** reported, those before it. *fault has that report, unless fault->later is set: then 'checked'
  ** gives it. */
  flame_status (*run)(fl_device *d, fl_plan *p, const fl_binding *b, fl_fault *fault,
                      int32_t *done);
  /* Needed only after a run that set 'later', and before the next run: reads its checks, waiting
  ** for them but not for the end of the run. p: the run's plan: then *done is set as by run. p is
  ** NULL if the host has done other work since the run: then the wait can be interrupted. */
  flame_status (*checked)(fl_device *d, const fl_plan *p, fl_fault *fault, int32_t *done);
  flame_status (*sync)(fl_device *d, fl_fault *fault);          /* wait; polls c->interrupted */
  void (*close)(fl_device *d);
  /* Of a kernel that is ready: how many threads one multiprocessor holds at a time in blocks of
  ** threads[i] with shared[i] bytes of dynamic shared memory; 0: such a block does not run. The
  ** function is NULL if the device has no multiprocessors. */
  flame_status (*resident)(fl_device *d, struct fl_kfunction *k, int n, const int64_t *threads,
                           const int64_t *shared, int64_t *resident);
  /* Do graphs of the plan, which is prepared, hold the address of an input (which: its index) or
  ** result (~ its index)? The function is NULL if addresses do not matter. */
  int (*freezes)(const fl_plan *p, int32_t which);
} fl_device_table;

/* Each fills *d (table, state) or leaves the error in c. */
flame_status fl_cpu_open(flame_context *c, fl_device *d, int threads);
flame_status fl_cuda_open(flame_context *c, fl_device *d, int ordinal);
/* The number of CUDA devices, found without opening a context on one; if it is 0, 'reason' says
** why. */
int fl_cuda_count(char *reason, size_t size);
/* The cubins on disk; clear: removes them. Needs no device. */
void fl_cuda_cache_usage(flame_context *c, int clear, int64_t *entries, int64_t *bytes);
/* The number kept on disk under the key; 0: none. If value is not 0, keeps it there. */
int64_t fl_cuda_kept_choice(flame_context *c, const char *key, size_t bytes, int64_t value);
/* Does NVRTC, if it is there, accept a user kernel's text? Needs no device. */
flame_status fl_cuda_check_source(flame_context *c, const struct fl_kfunction *k);
/* The kernel's cubin for sm_90, in memory of c->mem; NULL: no NVRTC, or it does not compile. */
void *fl_cuda_image(flame_context *c, const struct fl_kfunction *k, size_t *bytes);
#endif
