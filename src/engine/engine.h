/*
** The engine: opens contexts, evaluates (from the window, which is the recorded ops, over a program
** and a plan to the device), and reports failures as errors with the site that recorded the op. See
** docs/design.md 2, "Evaluate".
*/
#ifndef FL_ENGINE_ENGINE_H
#define FL_ENGINE_ENGINE_H
#include "device/device.h"
#include "tensor/tensor.h"

/* What decides when the host's collector runs (collect.c): counts since the last collection, and
** right after it. */
typedef struct fl_collecting {
  int64_t work;                           /* in ops */
  int64_t kept, least;        /* values, and KB, pending at evaluations since the collector's last
                              ** step; the number at which its next step is due */
  int64_t steps, dear;                    /* collector steps since one was timed; consecutive
                                          ** expensive steps */
  uint8_t told;                           /* 'least' was set by a test: no collector step is
                                          ** timed */
  int64_t live, bytes, heap;              /* after the last full collection: handles; bytes of
                                          ** tensors and of the context's host memory; KB of the
                                          ** host language's heap */
  int64_t left, left_heap;                /* handles, and KB of the heap, at the last
                                          ** evaluation, after its collector step */
  int64_t seen;                           /* number of ops recorded when 'work' was last updated */
} fl_collecting;

/* A launch that may have caused a fault of the device. */
enum { FL_SUSPECTS = 8 };
typedef struct fl_suspect {
  const fl_plan *plan;                            /* may be gone: see serial */
  int64_t serial, run;
  int32_t step;
  uint32_t site;
  uint8_t dtype, rank;                            /* dtype and shape of the result */
  int64_t size[FL_MAX_AXES];
} fl_suspect;

typedef struct fl_engine {
  fl_plans plans;
  int64_t plan_serial;
  fl_device device[FL_MAX_DEVICES];
  uint8_t open[FL_MAX_DEVICES];
  void *arena[FL_MAX_DEVICES];
  int64_t arena_bytes[FL_MAX_DEVICES];
  const fl_node *making;              /* node for which memory is being reserved; NULL: not known */
  void *place;                                    /* where that memory should be; NULL: anywhere */
  fl_program spare;                         /* an empty program with the last evaluation's memory */
  void *block; size_t block_bytes;                /* memory of a run for its arrays; NULL: none */
  int threads;
  struct { uint64_t *at; int64_t n, cap; } texts; /* hashes of the kernel structures for which text
                                                  ** was generated */
  uint8_t collecting;                             /* a collector step is being done */
  uint8_t untold;                    /* an error that no value shows (such as that of a write which
                                     ** was refused) waits for the next read, which raises it */
  fl_error untold_error;                 /* that error; if there are several, it names each */
  struct fl_flight *flight;          /* by device: runs whose checks are read later (flight.h);
                                     ** NULL: there was none yet */
  int32_t flying;                    /* how many such runs there are now */
  int64_t flights, faults;           /* how many there have been; how many of these have failed */
  struct fl_watch *watches;          /* what is to be noted of the latter (flight.h) */
  int debug;                                      /* FLAME_DEBUG */
  /* scan.c: a window is run op by op; a step of its last run wrote a NaN; this evaluation has found
  ** the op that made it; the warning about its cost was given */
  uint8_t tracing, met_nan, made_nan, said_scan;
  struct fl_dry *dry;                             /* NULL: no rehearsal is on (dry.h) */
  struct fl_ranges *ranges;                       /* NULL: no tool is connected (base/nvtx.h) */
  struct fl_profile *profile;                     /* NULL: none is on */
  fl_suspect kernel[FL_SUSPECTS], other[FL_SUSPECTS];   /* suspects.c: rings of the last launches */
  int64_t nkernel, nother;
  const fl_program *now;           /* the program that runs; after the run it must not be used */
  /* while 'now' runs on a GPU its plan, otherwise NULL; how many of the plan's steps are queued */
  const fl_plan *now_plan;
  const int32_t *now_done;
  fl_collecting collect;
  int64_t roomy;                      /* about a hundredth of the memory that was free on a GPU when
                                      ** it was opened, the most of all GPUs; 0: none is open */
} fl_engine;

void fl_engine_debug(flame_context *c, int level);       /* as FLAME_DEBUG */
/* The debug switch of CUDA: each launch is waited for, and indices of user kernels are checked.
** Switching it off keeps the checks of FLAME_CHECK. */
void fl_engine_debug_cuda(flame_context *c, int on);
/* opens at first use; NULL: error kept */
fl_device *fl_engine_device(flame_context *c, int index);
/* flame_open for a context inside 'outer', which counts its memory too; NULL: it is inside none. */
flame_context *fl_open_inside(const flame_options *options, flame_context *outer);
/* Frees host memory that is kept for reuse. While a plan runs it frees nothing. */
void fl_engine_spare(flame_context *c);
/* "cpu", "cuda", "cuda:1"; -1: error kept */
int fl_device_index(flame_context *c, const char *name);
void fl_device_name(int index, char buf[16]);
/* Writes the value of n as host bytes, row-major in n's shape, of n's dtype. Evaluates n. bytes:
** the size of 'out', which must be exactly that of the value. */
flame_status fl_read_node(flame_context *c, fl_node *n, void *out, size_t bytes);
/* A new STORED node from row-major host bytes. Borrowed: the current scope holds it. */
fl_node *fl_node_from_host(flame_context *c, int device, int dtype, int ndim, const int64_t *shape,
                           const void *data);
/* n itself if it is NULL or on 'device'; otherwise a STORED node there with n's value (evaluates
** n), held by the current scope, through which gradients flow back if n is tracked. NULL: an
** error. */
fl_node *fl_to_device(flame_context *c, fl_node *n, int device);
#endif
