/*
** The engine: opens contexts, evaluates (window -> program -> plan -> device), and turns what
** goes wrong into errors with the site that recorded the op. See docs/design.md 2, "Evaluate".
*/
#ifndef FL_ENGINE_ENGINE_H
#define FL_ENGINE_ENGINE_H
#include "device/device.h"
#include "tensor/tensor.h"

/* What decides on the host's collector (collect.c): since the last
** collection, and right after it. */
typedef struct fl_collecting {
  int64_t work;                           /* in ops */
  int64_t kept, least;                    /* values, or KB of them; so many a step waits for */
  int64_t steps, dear;                    /* steps since one was timed, dear ones in a row */
  uint8_t told;                           /* 'least' is a test's: no step is timed */
  int64_t live, bytes, heap;              /* handles, bytes that they hold, KB of the host's heap */
  int64_t seen;                           /* ops recorded when 'work' was counted */
} fl_collecting;

/* A launch that a fault of the device may be of. */
enum { FL_SUSPECTS = 8 };
typedef struct fl_suspect {
  const fl_plan *plan;                            /* may be gone: see serial */
  int64_t serial, run;
  int32_t step;
  uint32_t site;
  uint8_t dtype, rank;                            /* of the result, with its sizes */
  int64_t size[FL_MAX_AXES];
} fl_suspect;

typedef struct fl_engine {
  fl_plans plans;
  int64_t plan_serial;
  fl_device device[FL_MAX_DEVICES];
  uint8_t open[FL_MAX_DEVICES];
  void *arena[FL_MAX_DEVICES];
  int64_t arena_bytes[FL_MAX_DEVICES];
  const fl_node *making;                          /* what memory is reserved for; NULL: not known */
  void *place;                                    /* where it should lie; NULL: anywhere */
  fl_program spare;                               /* empty: the last evaluation's memory */
  int threads;
  struct { uint64_t *at; int64_t n, cap; } texts; /* hashes of kernel structures that have a text */
  uint8_t collecting;                             /* a collector step is under way */
  uint8_t untold;                                 /* a write was refused for a value
                                                  ** out of range, and */
  fl_error untold_error;                          /* no read has raised that yet */
  int debug;                                      /* FLAME_DEBUG */
  uint8_t tracing, met_nan, made_nan, said_scan;  /* scan.c: a window is run op by op; a step of
                                                  ** the last run of it wrote a NaN; it has raised
                                                  ** in this evaluation */
  struct fl_dry *dry;                             /* NULL: no rehearsal is on (dry.h) */
  struct fl_ranges *ranges;                       /* NULL: no tool listens (base/nvtx.h) */
  struct fl_profile *profile;                     /* NULL: none is on */
  fl_suspect kernel[FL_SUSPECTS], other[FL_SUSPECTS];   /* suspects.c: rings of the last launches */
  int64_t nkernel, nother;
  const fl_program *now;                          /* what runs on a GPU, its plan, and how many */
  const fl_plan *now_plan;                        /* steps of it have been queued; NULL: nothing */
  const int32_t *now_done;
  fl_collecting collect;
  int64_t roomy;                                  /* bytes that are few for the
                                                  ** largest GPU in use */
} fl_engine;

void fl_engine_debug(flame_context *c, int level);       /* as FLAME_DEBUG */
/* The debug switch of CUDA: launches are waited for, and user kernels' indices checked. FLAME_CHECK
** keeps its own checks when it is off. */
void fl_engine_debug_cuda(flame_context *c, int on);
/* opens at first use; NULL: error kept */
fl_device *fl_engine_device(flame_context *c, int index);
/* flame_open, with memory that 'outer' counts as well; NULL: none does. */
flame_context *fl_open_inside(const flame_options *options, flame_context *outer);
/* Give back host memory that is kept for later. Not while a plan runs: then nothing. */
void fl_engine_spare(flame_context *c);
/* "cpu", "cuda", "cuda:1"; -1: error kept */
int fl_device_index(flame_context *c, const char *name);
void fl_device_name(int index, char buf[16]);
/* Value of n as host bytes, row-major in n's shape, n's dtype. Evaluates. */
flame_status fl_read_node(flame_context *c, fl_node *n, void *out, size_t bytes);
/* New STORED node from row-major host bytes. Borrowed. */
fl_node *fl_node_from_host(flame_context *c, int device, int dtype, int ndim, const int64_t *shape,
                           const void *data);
/* STORED node on 'device' with n's value (evaluates n). Borrowed. Differentiable. */
fl_node *fl_to_device(flame_context *c, fl_node *n, int device);
#endif
