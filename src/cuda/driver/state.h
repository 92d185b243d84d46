/*
** The CUDA device's own state, and what driver.c and stage.c offer. Folders
** of cuda/, each of which uses those before it:
**   api/      the libraries' types and entry points, and the loader
**   text/     CUDA text of generated kernels; pure
**   driver/   state, errors, waiting, launches (driver.c), memory (pool.c), copies through a pinned
**             ring (stage.c), compiled kernels on disk (cache.c)
**   compile/  kernels by key, file or user text
**   library/  cuBLASLt, cuDNN, cuFFT, cuSOLVER, NCCL
**   call/     calls (tensor/call.h)
** and above them run.c (plans), trace.c (times) and device.c (the device table).
** Calls of the driver stand between fl_cuda_enter and fl_cuda_leave, which make our context
** current and give back the caller's; inner functions assume that.
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
  uint8_t busy[FL_STAGE_SLOTS];         /* the event was recorded and not yet seen done */
  int slot;                             /* now being filled … */
  int64_t used;                         /* … up to here */
} fl_stage;

typedef struct fl_module fl_module;
typedef struct fl_modules {
  fl_module **bin;
  int64_t nbin, n;
  fl_module *wanted;                    /* not built yet */
  const fl_nvrtc *rtc;                  /* NULL: not opened yet */
  int rtc_major, rtc_minor;
} fl_modules;

typedef struct fl_gemm fl_gemm;
typedef struct fl_blas {
  const fl_blaslt *lt;
  fl_lt_handle handle;
  uint8_t tried;                        /* opened, or found missing (handle NULL) */
  uint8_t tf32, tune;                   /* FLAME_TF32, FLAME_TUNE */
  void *space;                          /* workspace */
  fl_gemm *bin[256];                    /* descriptors and algorithms by shape */
  int64_t n;
} fl_blas;

/* A small result of the last run that was read after earlier runs of its plan: copied out behind
** the step that makes it, so that who reads it does not wait for the steps after that. */
enum { FL_SOON_BYTES = 4096 };
typedef struct fl_soon {
  char *host;                     /* pinned, FL_SOON_BYTES */
  fl_cu_event there;
  const char *from;               /* device address of what 'host' gets … */
  int64_t bytes;                  /* … and how much: 0: nothing, or it is no longer the value */
} fl_soon;

/* The last run, from which is learned what is read. */
typedef struct fl_ran {
  struct fl_plan *plan;           /* NULL: none, or it is gone */
  struct { void **at; int64_t n, cap; } out;
} fl_ran;

/* Is what is queued being captured into a graph? SPOILED: something was asked for that is not
** queued work (memory, a wait, a copy through the ring): the graph would not do the same. */
typedef enum { FL_CAPTURE_NONE, FL_CAPTURE_ON, FL_CAPTURE_SPOILED } fl_capture;

typedef struct fl_prepared fl_prepared;
typedef struct fl_replay fl_replay;
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
  pid_t pid;                      /* that opened it: a fork may not use it */
  uint8_t dead;
  uint8_t left;                   /* a wait was interrupted: what is queued may never end */
  char name[96];
  char cause[780];                /* dead: the first cause */
  fl_pool pool;
  fl_stage stage;
  fl_disk disk;
  fl_modules modules;
  fl_blas blas;
  struct fl_dnn *dnn;             /* cudnn.c; NULL: not used yet */
  struct fl_cufft_state *fft;     /* cufft.c; the same */
  struct fl_solver *solver;       /* cusolver.c; the same */
  struct fl_nccl *nccl;           /* nccl.c; the same */
  /* Called now and then while the host waits for work that other processes take part in; NULL:
  ** there is none. An error ends the wait. */
  flame_status (*watch)(struct fl_cuda *s);
  fl_prepared *prepared;          /* of all plans, so that close can let go of them */
  fl_replay *replays;             /* the same */
  uint64_t epoch;                 /* counts moves of the memory that follows */
  uint8_t capturing;              /* fl_capture */
  void *scratch;                  /* shared by all launches: one stream */
  int64_t scratch_bytes;
  void *counters;                 /* zero between launches */
  int64_t counter_bytes;
  void *scalars;                  /* of the run that is queued last */
  int64_t scalar_bytes;
  void *fault;                    /* fl_text_fault in device memory */
  fl_text_fault *fault_host;      /* pinned */
  fl_cu_event checked;            /* passed when the copy of the run's last checks is there */
  uint8_t fault_pending;          /* that copy was not looked at yet: the wait was cut short */
  fl_soon soon[FL_PLAN_READS];
  fl_ran ran;
  uint8_t late_pending;           /* a call was queued that may report late */
  void *late;                     /* FL_LATE_NONE, or a report (device memory, behind the record) */
  volatile uint64_t *late_host;   /* pinned: its copy, queued behind each such call */
} fl_cuda;

/* ---- driver.c ---- */
flame_status fl_cuda_enter(fl_cuda *s);
void fl_cuda_leave(fl_cuda *s);
/* A driver result as a status; a sticky one marks device and context dead. */
flame_status fl_cuda_check(fl_cuda *s, fl_cu_result r, const char *call);
/* What is queued will not come right, as 'cause' says: the end of this device. */
void fl_cuda_lose(fl_cuda *s, const char *cause);
/* Dead already: repeat the first cause. */
flame_status fl_cuda_lost(fl_cuda *s);
/* What can not be part of a graph begins with this: 1 while one is captured, which it spoils. */
int fl_cuda_spoils(fl_cuda *s);
/* Taken if the user asked to stop: FLAME_INTERRUPTED, error kept. */
flame_status fl_cuda_poll(fl_cuda *s);
/* Until the event has passed, or the user interrupts. */
flame_status fl_cuda_wait(fl_cuda *s, fl_cu_event e);
/* Whatever the user does; what is waited for ends soon. */
flame_status fl_cuda_wait_out(fl_cuda *s, fl_cu_event e);
flame_status fl_cuda_wait_all(fl_cuda *s);
/* What a run's fault record says; the copy of it has been waited for. */
void fl_cuda_fault(fl_cuda *s, fl_fault *fault);
/* Late reports: of calls whose plans are not waited for, told by the next read or sync. Of several
** the lowest: 1 if the weights of a row are all 0 (1 bit), 0-based position (47;
** its highest bit: the only row), site (16). */
#define FL_LATE_NONE UINT64_MAX
flame_status fl_cuda_expect_late(fl_cuda *s);      /* behind such a call */
/* Device memory; NO_MEMORY with an error when there is none. */
flame_status fl_cuda_reserve(fl_cuda *s, void **p, int64_t bytes, const char *what);
void fl_cuda_release(fl_cuda *s, void *p);
/* The same from outside, also on a dead device (then it only keeps the books). Errors come
** with the next call. */
void fl_cuda_give_back(fl_cuda *s, void *p);
/* Queue a launch; params: addresses of the parameters, as cuLaunchKernel has them. */
flame_status fl_cuda_launch(fl_cuda *s, fl_cu_function f, const unsigned grid[3],
                            const unsigned block[3], unsigned shared, void **params);

/* ---- stage.c ---- */
flame_status fl_stage_open(fl_cuda *s);
void fl_stage_close(fl_cuda *s);
/* src is free at return */
flame_status fl_stage_upload(fl_cuda *s, void *dst, const void *src, int64_t bytes);
flame_status fl_stage_download(fl_cuda *s, void *dst, const void *src, int64_t bytes); /* waits */

/* ---- soon.c ---- */
/* What was copied out is not the value any more: a run, an upload or a copy begins. */
void fl_soon_forget(fl_cuda *s);
/* Queue the copy of result p->read[i]. */
flame_status fl_soon_send(fl_cuda *s, const fl_plan *p, const fl_binding *b, int32_t i);
/* 1 and the bytes in dst if they are among those; waits for that copy alone. *e: of the wait. */
int fl_soon_take(fl_cuda *s, void *dst, const void *src, int64_t bytes, flame_status *e);
/* What runs and reads there are. */
void fl_soon_ran(fl_cuda *s, fl_plan *p, const fl_binding *b);
void fl_soon_learn(fl_cuda *s, const void *src);
#endif
