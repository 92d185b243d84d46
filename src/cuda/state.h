/*
** The CUDA device's own state and what its files offer one another.
**   device.c  opening, closing, errors, waiting, the device table
**   stage.c   copies between host and device through a pinned ring
**   module.c  compiled kernels by key: memory, disk, NVRTC (nvrtc.c compiles, cache.c keeps)
**   run.c     plans: prepare and run        blas.c  matrix products by cuBLASLt
** Calls of the driver stand between fl_cuda_enter and fl_cuda_leave, which make our context
** current and give back the caller's; inner functions assume that.
*/
#ifndef FL_CUDA_STATE_H
#define FL_CUDA_STATE_H
#include "base/hash.h"
#include "cuda/api.h"
#include "cuda/cache.h"
#include "cuda/pool.h"
#include "cuda/text.h"
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
  void *space;                          /* workspace */
  fl_gemm *bin[256];                    /* descriptors and algorithms by shape */
  int64_t n;
} fl_blas;

typedef struct fl_prepared fl_prepared;
typedef struct fl_cuda {
  flame_context *ctx;
  fl_mem *mem;
  const fl_cuda_lib *lib;
  const fl_driver *cu;
  fl_cu_device device;
  fl_cu_context context;
  fl_cu_stream stream;
  fl_cu_event done;                     /* for fl_cuda_wait_all */
  int ordinal, arch, multiprocessors, driver_version;
  pid_t pid;                            /* that opened it: a fork may not use it */
  uint8_t dead, sync_each;
  uint8_t left;                         /* a wait was interrupted: what is queued may never end */
  char name[96];
  char cause[400];                      /* dead: the first cause */
  fl_pool pool;
  fl_stage stage;
  fl_disk disk;
  fl_modules modules;
  fl_blas blas;
  struct fl_dnn *dnn;                   /* cudnn.c; NULL: not used yet */
  struct fl_cufft_state *fft;           /* cufft.c; the same */
  struct fl_solver *solver;             /* cusolver.c; the same */
  fl_prepared *prepared;                /* of all plans, so that close can let go of them */
  void *scratch;                        /* shared by all launches: one stream */
  int64_t scratch_bytes;
  void *counters;                       /* zero between launches */
  int64_t counter_bytes;
  void *scalars;                        /* of the run that is queued last */
  int64_t scalar_bytes;
  void *fault;                          /* fl_text_fault in device memory */
  fl_text_fault *fault_host;            /* pinned */
  uint8_t fault_pending;                /* its copy of a run was not looked at yet: the wait was cut short */
  uint8_t late_pending;                 /* a call was queued that may report late */
  void *late;                           /* FL_LATE_NONE, or a report (device memory, behind the record) */
  volatile uint64_t *late_host;         /* pinned: its copy, queued behind each such call */
} fl_cuda;

/* ---- device.c ---- */
/* Open with these libraries (tests give fake ones). */
flame_status fl_cuda_open_with(flame_context *c, fl_device *d, int ordinal,
                               const fl_cuda_lib *lib);
flame_status fl_cuda_enter(fl_cuda *s);
void fl_cuda_leave(fl_cuda *s);
/* A driver result as a status; a sticky one marks device and context dead. */
flame_status fl_cuda_check(fl_cuda *s, fl_cu_result r, const char *call);
/* Dead already: repeat the first cause. */
flame_status fl_cuda_lost(fl_cuda *s);
/* Taken if the user asked to stop: FLAME_INTERRUPTED, error kept. */
flame_status fl_cuda_poll(fl_cuda *s);
/* Until the event has passed, or the user interrupts. */
flame_status fl_cuda_wait(fl_cuda *s, fl_cu_event e);
flame_status fl_cuda_wait_all(fl_cuda *s);
/* What a run's fault record says; the copy of it has been waited for. */
void fl_cuda_fault(fl_cuda *s, fl_fault *fault);
/* Late reports: of calls whose plans are not waited for, told by the next read or sync. Of several
** the lowest: 1 if the weights of a row are all 0 (1 bit), 0-based position (47;
** its highest bit: the only row), site (16). */
#define FL_LATE_NONE UINT64_MAX
flame_status fl_cuda_expect_late(fl_cuda *s);      /* behind such a call */
flame_status fl_cuda_weights_fault(fl_cuda *s, uint64_t word);   /* what a report says, as an error (call_count.c) */
/* Device memory; NO_MEMORY with an error when there is none. */
flame_status fl_cuda_reserve(fl_cuda *s, void **p, int64_t bytes, const char *what);
void fl_cuda_release(fl_cuda *s, void *p);
/* The same from outside, also on a dead device (then it only keeps the books). Errors come
** with the next call. */
void fl_cuda_give_back(fl_cuda *s, void *p);

/* ---- stage.c ---- */
flame_status fl_stage_open(fl_cuda *s);
void fl_stage_close(fl_cuda *s);
flame_status fl_stage_upload(fl_cuda *s, void *dst, const void *src, int64_t bytes);   /* src is free at return */
flame_status fl_stage_download(fl_cuda *s, void *dst, const void *src, int64_t bytes); /* waits */

/* ---- module.c ---- */
int fl_modules_open(fl_cuda *s);
void fl_modules_close(fl_cuda *s, int host_only);
/* The kernel's module, known or queued for fl_modules_build. NULL: error kept. */
fl_module *fl_modules_kernel(fl_cuda *s, const fl_kernel *k, int multi);
/* The same for the hand-written entries that go with this one (its last launch's). */
fl_module *fl_modules_steps(fl_cuda *s, const char *entry);
/* Make all queued ones; on failure none of them is left. */
flame_status fl_modules_build(fl_cuda *s);
void fl_modules_forget(fl_cuda *s);                       /* the queued ones */
fl_cu_function fl_module_function(const fl_module *m);    /* of a kernel; NULL before build */
flame_status fl_module_entry(fl_cuda *s, const fl_module *m, const char *name,
                             fl_cu_function *f);

/* ---- nvrtc.c ---- */
typedef struct fl_compile {     /* one program */
  const char *text, *name;
  const char *const *option;    /* NULL: those of fl_nvrtc_options */
  int noption;
  uint8_t user;                 /* a user's text: the log is the message */
  fl_rtc_program program;
  fl_rtc_result result;
  uint8_t made, done;           /* program exists; a worker took it */
} fl_compile;
flame_status fl_nvrtc_open(fl_cuda *s);
enum { FL_NVRTC_OPTIONS = 8 };
/* The options, NULL-terminated; text of --gpu-architecture in arch. */
void fl_nvrtc_options(const fl_cuda *s, char arch[40], const char *option[FL_NVRTC_OPTIONS]);
/* Compile all; threads help. *job.result tells; FLAME_INTERRUPTED: some are not done. */
flame_status fl_nvrtc_compile(fl_cuda *s, fl_compile *job, int n);
/* The cubin in counted memory, or NULL with the compiler's words as error. */
void *fl_nvrtc_cubin(fl_cuda *s, fl_compile *job, size_t *size);
void fl_nvrtc_drop(fl_cuda *s, fl_compile *job, int n);

/* ---- blas.c ---- */
/* Can the library do it? Opens it at the first call. *yes 0: use our own kernel. */
flame_status fl_blas_prepare(fl_cuda *s, const fl_matmul *m, int *yes);
flame_status fl_blas_run(fl_cuda *s, const fl_matmul *m, char *a, char *b, char *c);
void fl_blas_close(fl_cuda *s, int host_only);

/* ---- trace.c: while a profile is on; all take NULL ---- */
typedef struct fl_marks fl_marks;
fl_marks *fl_marks_open(fl_cuda *s, int32_t nstep);            /* NULL: no memory or events */
void fl_marks_set(fl_cuda *s, fl_marks *m, int32_t step, int behind);
void fl_marks_tell(fl_device *d, fl_marks *m, const fl_plan *p, int32_t done);   /* waits */
void fl_marks_close(fl_cuda *s, fl_marks *m);

/* ---- run.c ---- */
flame_status fl_cuda_prepare(fl_device *d, fl_plan *p);
flame_status fl_cuda_run(fl_device *d, fl_plan *p, const fl_binding *b, fl_fault *fault,
                         int32_t *done);
flame_status fl_cuda_ready(fl_device *d, struct fl_kfunction *const *k, int n);   /* call_kernel.c */
void fl_cuda_let_go(fl_cuda *s);        /* closing: plans keep only host memory */
#endif
