/*
** The CUDA device's own state, and what driver.c, stage.c and soon.c offer. Folders of cuda/, each
** of which uses those before it:
**   api/      the libraries' types and entry points, and the loader
**   text/     CUDA text of generated kernels; calls no driver
**   driver/   state, errors, waiting, launches (driver.c), memory (pool.c), copies through a pinned
**             ring (stage.c), results that are read soon (soon.c), compiled kernels on disk
**             (cache.c)
**   compile/  kernels by key, file or user text
**   library/  cuBLASLt, cuDNN, cuFFT, cuSOLVER, NCCL
**   call/     calls (tensor/call.h)
** and above them the files that prepare plans (prepare.c), run them (steps.c, replay.c, run.c),
** take times (trace.c) and fill the device table (device.c).
** Calls of the driver come between fl_cuda_enter and fl_cuda_leave, which make our context current
** and restore the caller's; inner functions assume that.
*/
#ifndef FL_CUDA_STATE_H
#define FL_CUDA_STATE_H
#include "base/hash.h"
#include "cuda/api/api.h"
#include "cuda/driver/cache.h"
#include "cuda/driver/pool.h"
#include "cuda/text/text.h"
#include "device/device.h"
#include <sys/types.h>

enum { FL_STAGE_SLOTS = 4, FL_STAGE_BYTES = 1 << 20 };
typedef struct fl_stage {               /* ring of pinned slots */
  char *at;                             /* FL_STAGE_SLOTS * FL_STAGE_BYTES */
  fl_cu_event event[FL_STAGE_SLOTS];    /* last copy of the slot */
  uint8_t busy[FL_STAGE_SLOTS];         /* the event was recorded and has not been seen to pass */
  int slot;                             /* the slot that is being filled */
  int64_t used;                         /* bytes of it that are filled */
} fl_stage;

typedef struct fl_module fl_module;
typedef struct fl_modules {
  fl_module **bin;
  int64_t nbin, n;
  fl_module *wanted;                    /* first of those that are wanted and not built yet */
  const fl_nvrtc *rtc;                  /* NULL: not opened yet */
  int rtc_major, rtc_minor;
} fl_modules;

typedef struct fl_gemm fl_gemm;
typedef struct fl_blas {
  const fl_blaslt *lt;
  fl_lt_handle handle;
  uint8_t tried;                        /* the library was opened, or found missing (handle NULL) */
  uint8_t tune;                         /* FLAME_TUNE */
  void *space;                          /* workspace */
  fl_gemm *bin[256];                    /* descriptors and algorithms, by shape */
  int64_t n;
} fl_blas;

/* A small result of a run that was read after earlier runs of its plan: it is copied to the host
** right after the step that makes it, so that reading it does not wait for later steps and runs.
** FL_SOON_BYTES: the largest such result; FL_SOON_SLOTS: how many such copies exist at a time;
** FL_SOON_RUNS: a value that is read is looked for among the results of this many last runs. */
enum { FL_SOON_BYTES = 4096, FL_SOON_SLOTS = 2 * FL_PLAN_READS, FL_SOON_RUNS = 4 };
typedef struct fl_soon {
  char *host;                     /* pinned, FL_SOON_BYTES */
  fl_cu_event there;              /* passes after the copy */
  const char *from;               /* device address of the source of 'host' */
  int64_t bytes;                  /* number of bytes at 'from'; 0: none, or the value has changed */
} fl_soon;

/* A run of 'plan', kept to learn which of its results are read. out: the results' addresses. */
typedef struct fl_ran {
  struct fl_plan *plan;           /* NULL: none, or it was freed */
  struct { void **at; int64_t n, cap; } out;
} fl_ran;

/* Is queued work being captured into a graph? SPOILED: something other than queued work was
** requested (memory, a wait, a copy through the ring), which the graph would not repeat. */
typedef enum { FL_CAPTURE_NONE, FL_CAPTURE_ON, FL_CAPTURE_SPOILED } fl_capture;

typedef struct fl_prepared fl_prepared;
typedef struct fl_replay fl_replay;
enum { FL_HOPPER = 90 };            /* the architecture sm_90 */

typedef struct fl_cuda {
  flame_context *ctx;
  fl_mem *mem;
  const fl_cuda_lib *lib;
  const fl_driver *cu;
  fl_cu_device device;
  fl_cu_context context;
  fl_cu_stream stream;
  fl_cu_event done;               /* for fl_cuda_wait_all */
  int ordinal, arch, multiprocessors, driver_version;
  int shared;                      /* bytes of shared memory that a block can have */
  pid_t pid;                   /* the process that opened the device: a forked one may not use it */
  uint8_t dead;
  uint8_t left;                   /* a wait was interrupted: the queued work may never end */
  char name[96];
  char cause[780];                /* dead: the first cause */
  fl_pool pool;
  fl_stage stage;
  fl_disk disk;
  fl_modules modules;
  fl_blas blas;
  struct fl_dnn *dnn;             /* cudnn.c; NULL: not used yet */
  struct fl_cufft_state *fft;     /* cufft.c; NULL: not used yet */
  struct fl_solver *solver;       /* cusolver.c; NULL: not used yet */
  struct fl_nccl *nccl;           /* nccl.c; NULL: not used yet */
  /* Called from time to time while the host waits for work that involves other processes; NULL:
  ** there is none. An error ends the wait. */
  flame_status (*watch)(struct fl_cuda *s);
  /* the prepared data of all plans, so that it can be released when the device is closed */
  fl_prepared *prepared;
  fl_replay *replays;             /* those of all plans, for the same purpose */
  uint64_t epoch;                 /* how often scratch, counters or scalars have moved */
  uint8_t capturing;              /* fl_capture */
  void *scratch;                  /* shared by all launches, which use it in turn */
  int64_t scratch_bytes;
  void *counters;                 /* counters that are zero between launches */
  int64_t counter_bytes;
  void *scalars;                  /* of the last run that uploaded its scalars */
  int64_t scalar_bytes;
  void *fault;                    /* fl_text_fault in device memory */
  fl_text_fault *fault_host;      /* pinned */
  fl_cu_event checked;            /* passes after the copy of the run's last checks */
  /* the copy of the checks is queued, or made, and was not read yet */
  uint8_t fault_pending;
  int32_t first_check;            /* first step that checks, of a run whose checks are read later */
  fl_soon soon[FL_SOON_SLOTS];    /* a ring */
  fl_ran ran[FL_SOON_RUNS];       /* a ring */
  uint32_t soon_turn, ran_turn;   /* number of those that were made */
  uint8_t late_pending;           /* a call was queued that may report after its run */
  void *late;                /* FL_LATE_NONE, or a report (device memory, after the fault record) */
  /* pinned memory to which *late is copied after each call that may report */
  volatile uint64_t *late_host;
} fl_cuda;

/* ---- driver.c ---- */
flame_status fl_cuda_enter(fl_cuda *s);
void fl_cuda_leave(fl_cuda *s);
/* Converts a driver's result to a status; a sticky error marks device and context as dead. */
flame_status fl_cuda_check(fl_cuda *s, fl_cu_result r, const char *call);
/* Marks the device as lost because of 'cause': queued work will not give right results. */
void fl_cuda_lose(fl_cuda *s, const char *cause);
/* If the device is lost already, reports the first cause again. */
flame_status fl_cuda_lost(fl_cuda *s);
/* Called before work that can not be part of a graph. If a graph is being captured, the capture is
** marked as spoiled, and the result is 1. */
int fl_cuda_spoils(fl_cuda *s);
/* If the user asked to stop: keeps the error, clears the request and returns FLAME_INTERRUPTED. */
flame_status fl_cuda_poll(fl_cuda *s);
/* Waits until the event has passed, or the user interrupts. */
flame_status fl_cuda_wait(fl_cuda *s, fl_cu_event e);
/* Waits regardless of interrupts, for work that ends soon. */
flame_status fl_cuda_wait_out(fl_cuda *s, fl_cu_event e);
flame_status fl_cuda_wait_all(fl_cuda *s);      /* for all queued work, or the user interrupts */
/* Reads a run's fault record. The caller has waited for its copy. */
void fl_cuda_fault(fl_cuda *s, fl_fault *fault);
/* Late reports: faults in the weights of draws (kernels/weights.cu), of plans that are not waited
** for; the next read or sync raises them. Of several the lowest number is kept. Top bit 0: a weight
** is negative, infinite or NaN, and the next 47 bits are its position, from 0. Top bit 1: all
** weights of a row are 0, and these bits are the row, from 0, or 2^46 if there is only one row. The
** low 16 bits are the site, which stands for a line of the script. */
#define FL_LATE_NONE UINT64_MAX
/* Queues the copy of *late to *late_host, after a call that may report so was queued. */
flame_status fl_cuda_expect_late(fl_cuda *s);
/* Allocates device memory; NO_MEMORY with an error if there is none. */
flame_status fl_cuda_reserve(fl_cuda *s, void **p, int64_t bytes, const char *what);
void fl_cuda_release(fl_cuda *s, void *p);
/* Frees memory, also on a lost device (then only the counts change). Callers need not have entered
** the device. Errors are reported by the next call. */
void fl_cuda_give_back(fl_cuda *s, void *p);
/* Allows launches of f to have this many bytes of dynamic shared memory. The limit of f only rises,
** since a CUDA graph may have a launch of f with more. */
fl_cu_result fl_cuda_allow_shared(fl_cuda *s, fl_cu_function f, int64_t bytes);
/* Queues a launch; params: addresses of the parameters, as cuLaunchKernel has them. */
flame_status fl_cuda_launch(fl_cuda *s, fl_cu_function f, const unsigned grid[3],
                            const unsigned block[3], unsigned shared, void **params);
/* Queues a launch of a kernel with a barrier of the grid: all its blocks run at the same time.
** NOT_SUPPORTED, with both numbers, where the device cannot hold them all. */
flame_status fl_cuda_launch_grid(fl_cuda *s, fl_cu_function f, const char *name,
                                 const unsigned grid[3], const unsigned block[3], unsigned shared,
                                 void **params);

/* ---- stage.c ---- */
flame_status fl_stage_open(fl_cuda *s);
void fl_stage_close(fl_cuda *s);
/* src is free at return */
flame_status fl_stage_upload(fl_cuda *s, void *dst, const void *src, int64_t bytes);
flame_status fl_stage_download(fl_cuda *s, void *dst, const void *src, int64_t bytes); /* waits */

/* ---- soon.c ---- */
/* Called when memory is written, and when a run begins: the host's copies of values that were in
** that memory are no longer current. */
void fl_soon_forget(fl_cuda *s, const void *at, int64_t bytes);
void fl_soon_forget_all(fl_cuda *s);
void fl_soon_begin(fl_cuda *s, const fl_plan *p, const fl_binding *b);
/* Queues the copy of result p->read[i] to the host. */
flame_status fl_soon_send(fl_cuda *s, const fl_plan *p, const fl_binding *b, int32_t i);
/* If the bytes at src were copied to the host, waits for that copy alone, puts them into dst and
** returns 1. *e: result of the wait. */
int fl_soon_take(fl_cuda *s, void *dst, const void *src, int64_t bytes, flame_status *e);
/* These learn which results are read: called when a plan was run, when a value was read, and when a
** plan is freed. */
void fl_soon_ran(fl_cuda *s, fl_plan *p, const fl_binding *b);
void fl_soon_learn(fl_cuda *s, const void *src);
void fl_soon_freed(fl_cuda *s, const fl_plan *p);
#endif
