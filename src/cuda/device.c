/*
** A CUDA device of one context of the project: opens and closes it, and fills the device table. The
** driver's primary context is used, since a host may use CUDA itself; it is made current around
** each call, then the caller's is put back. All work but NCCL's (library/nccl.h) is queued in one
** non-blocking stream.
*/
#include "cuda/cuda.h"
#include "cuda/call/call.h"
#include "cuda/driver/explain.h"
#include "cuda/library/blas.h"
#include "cuda/library/cudnn.h"
#include "cuda/library/cufft.h"
#include "cuda/library/cusolver.h"
#include "cuda/library/nccl.h"
#include "cuda/replay.h"
#include "cuda/run.h"
#include "base/env.h"
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char OP[] = "cuda";
static const fl_device_table cuda_table;

/* ---- memory ---- */

static void *cuda_alloc(fl_device *d, int64_t bytes) {
  fl_cuda *s = d->state;
  fl_cu_result r;
  void *p = s->dead ? NULL : fl_cuda_pool_take(&s->pool, bytes);
  if (p || fl_cuda_enter(s) != FLAME_OK) return p;
  p = fl_cuda_pool_alloc(&s->pool, bytes, &r);
  if (!p && r != FL_CU_OUT_OF_MEMORY) fl_cuda_check(s, r, "cuMemAlloc");
  fl_cuda_leave(s);
  return p;
}

static void *cuda_alloc_at(fl_device *d, void *at, int64_t bytes) {
  fl_cuda *s = d->state;
  void *p = s->dead ? NULL : fl_cuda_pool_take_at(&s->pool, at, bytes);
  return p ? p : cuda_alloc(d, bytes);
}

static void cuda_free(fl_device *d, void *p, int64_t bytes) {
  (void)bytes;
  fl_cuda_give_back(d->state, p);
}

static void cuda_trim(fl_device *d) {
  fl_cuda *s = d->state;
  if (fl_cuda_enter(s) != FLAME_OK) return;
  if (!s->watch || fl_cuda_wait_all(s) == FLAME_OK)
    fl_cuda_check(s, fl_cuda_pool_trim(&s->pool), "cuMemFree");
  fl_cuda_leave(s);
}

static void cuda_memory(fl_device *d, fl_usage *u) {
  fl_cuda *s = d->state;
  size_t left = 0, total = 0;
  *u = (fl_usage){ .used = s->pool.used, .reserved = s->pool.reserved,
                   .products = fl_blas_workspace(s), .scratch = s->scratch_bytes };
  if (s->dead || s->pid != getpid() || s->cu->CtxPush(s->context) != FL_CU_OK) return;
  if (s->cu->MemGetInfo(&left, &total) == FL_CU_OK) u->free = (int64_t)left;
  fl_cuda_leave(s);
}

static void cuda_reset_peak(fl_device *d) {
  fl_cuda *s = d->state;
  s->pool.used.peak = s->pool.used.now;
  s->pool.reserved.peak = s->pool.reserved.now;
}

/* ---- copies and waiting, for the table ---- */

static flame_status cuda_upload(fl_device *d, void *dst, const void *src, int64_t bytes) {
  fl_cuda *s = d->state;
  flame_status e = fl_cuda_enter(s);
  if (e != FLAME_OK) return e;
  fl_soon_forget(s, dst, bytes);
  e = fl_stage_upload(s, dst, src, bytes);
  fl_cuda_leave(s);
  return e;
}

/* Reports the faults that calls have noted on the device. The caller has waited for all queued
** work. */
static flame_status tell_late(fl_cuda *s) {
  const uint64_t word = s->late_pending ? *s->late_host : FL_LATE_NONE;
  s->late_pending = 0;
  if (word == FL_LATE_NONE) return FLAME_OK;
  const flame_status e =
      fl_cuda_check(s, s->cu->Memset8((fl_cu_ptr)(uintptr_t)s->late, 0xff, sizeof word, s->stream),
                                       "cuMemsetD8Async");
  if (e != FLAME_OK) return e;
  return fl_cuda_weights_fault(s, word);
}

static flame_status cuda_download(fl_device *d, void *dst, const void *src,
                                  int64_t bytes) {
  fl_cuda *s = d->state;
  flame_status e = fl_cuda_enter(s);
  if (e != FLAME_OK) return e;
  if (s->late_pending || !fl_soon_take(s, dst, src, bytes, &e)) {
    fl_soon_learn(s, src);
    e = fl_stage_download(s, dst, src, bytes);
  }
  if (e == FLAME_OK) e = tell_late(s);
  fl_cuda_leave(s);
  return e;
}

static flame_status cuda_copy(fl_device *d, void *dst, const void *src, int64_t bytes) {
  fl_cuda *s = d->state;
  flame_status e = fl_cuda_enter(s);
  if (e != FLAME_OK) return e;
  fl_soon_forget(s, dst, bytes);
  if (bytes > 0)
    e = fl_cuda_check(s, s->cu->CopyOn((fl_cu_ptr)(uintptr_t)dst,
                                       (fl_cu_ptr)(uintptr_t)src,
                                       (size_t)bytes, s->stream), "cuMemcpyDtoDAsync");
  fl_cuda_leave(s);
  return e;
}

static flame_status cuda_sync(fl_device *d, fl_fault *fault) {
  fl_cuda *s = d->state;
  if (fault) *fault = (fl_fault){ .site = -1 };
  flame_status e = fl_cuda_enter(s);
  if (e != FLAME_OK) return e;
  e = fl_cuda_wait_all(s);
  if (e == FLAME_OK && s->fault_pending && fault) fl_cuda_fault(s, fault);
  if (e == FLAME_OK) e = tell_late(s);
  fl_cuda_leave(s);
  return e;
}

/* ---- closing ---- */

/* Waits for queued work. 0: the user has interrupted it and it does not end: a running kernel can
** not be stopped, so it is waited for 0.2 s at most. */
static int ends(fl_cuda *s) {
  if (!s->left) return s->cu->StreamSynchronize(s->stream), 1;
  if (s->cu->EventRecord(s->done, s->stream) != FL_CU_OK) return 1;
  for (int ms = 0; ms < 200; ms++) {
    if (s->cu->EventQuery(s->done) != FL_CU_NOT_READY) return 1;
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
  }
  return 0;
}

/* Frees everything, also after a failed opening or the loss of the device. In a forked child only
** host memory is freed: the driver's objects belong to the parent. The same is done if a kernel
** does not end, since each driver call that frees would wait for it. The objects are freed when the
** process ends. */
static void close_state(fl_cuda *s) {
  int host_only = s->pid != getpid();
  int pushed = !host_only && s->context && s->cu->CtxPush(s->context) == FL_CU_OK;
  if (pushed && s->stream && !s->dead && !ends(s)) {
    fl_cuda_leave(s);
    host_only = 1;
    pushed = 0;
  }
  fl_nccl_close(s, host_only);
  fl_replay_let_go(s, !host_only);
  fl_prepared_let_go(s);
  for (int i = 0; i < FL_SOON_RUNS; i++) FL_DROP(s->mem, &s->ran[i].out);
  fl_blas_close(s, host_only);
  fl_dnn_close(s, host_only);
  fl_cufft_close(s, host_only);
  fl_solver_close(s, host_only);
  fl_modules_close(s, host_only);
  fl_disk_close(&s->disk);
  if (!host_only) {
    fl_stage_close(s);
    if (s->fault_host) s->cu->HostFree(s->fault_host);
    if (s->done) s->cu->EventDestroy(s->done);
    if (s->checked) s->cu->EventDestroy(s->checked);
    for (int i = 0; i < FL_SOON_SLOTS; i++)
      if (s->soon[i].there) s->cu->EventDestroy(s->soon[i].there);
  }
  fl_cuda_pool_close(&s->pool, host_only);
  if (!host_only && s->stream) s->cu->StreamDestroy(s->stream);
  if (pushed) fl_cuda_leave(s);
  if (!host_only && s->context) s->cu->PrimaryRelease(s->device);
  fl_free(s->mem, s, sizeof *s);
}

static void cuda_close(fl_device *d) {
  if (d->state) close_state(d->state);
  d->state = NULL;
}

/* ---- opening ---- */

#define CHECK(call, name) \
  do { \
    const flame_status e_ = fl_cuda_check(s, (call), (name)); \
    if (e_ != FLAME_OK) return e_; \
  } while (0)

/* Reads facts about the device, then opens its primary context. */
static flame_status find_device(fl_cuda *s) {
  int n = 0, major = 0, minor = 0;
  CHECK(s->cu->Init(0), "cuInit");
  CHECK(s->cu->DeviceGetCount(&n), "cuDeviceGetCount");
  if (s->ordinal < 0 || s->ordinal >= n)
    return FL_FAIL(s->ctx, FLAME_NO_DEVICE, OP, "no device cuda:%d, this machine has %d",
                   s->ordinal, n);
  CHECK(s->cu->DriverGetVersion(&s->driver_version), "cuDriverGetVersion");
  char why[300];
  if (!fl_cuda_fits_driver(s->driver_version, why, sizeof why))
    return FL_FAIL(s->ctx, FLAME_NO_DEVICE, OP, "%s", why);
  CHECK(s->cu->DeviceGet(&s->device, s->ordinal), "cuDeviceGet");
  CHECK(s->cu->DeviceGetName(s->name, (int)sizeof s->name, s->device), "cuDeviceGetName");
  CHECK(s->cu->DeviceGetAttribute(&major, FL_CU_MAJOR, s->device),
        "cuDeviceGetAttribute");
  CHECK(s->cu->DeviceGetAttribute(&minor, FL_CU_MINOR, s->device),
        "cuDeviceGetAttribute");
  CHECK(s->cu->DeviceGetAttribute(&s->multiprocessors, FL_CU_MULTIPROCESSORS, s->device),
        "cuDeviceGetAttribute");
  CHECK(s->cu->DeviceGetAttribute(&s->shared, FL_CU_SHARED_OPTIN, s->device),
        "cuDeviceGetAttribute");
  s->arch = major * 10 + minor;
  CHECK(s->cu->PrimaryRetain(&s->context, s->device), "cuDevicePrimaryCtxRetain");
  return FLAME_OK;
}

/* Makes the stream, the events, the pool and other objects in the driver's context, which is
** current. */
static flame_status make_objects(fl_cuda *s) {
  CHECK(s->cu->StreamCreate(&s->stream, FL_CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  CHECK(s->cu->EventCreate(&s->done, FL_CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  CHECK(s->cu->EventCreate(&s->checked, FL_CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  if (!fl_cuda_pool_open(&s->pool, s->mem, s->cu, s->stream,
                         fl_env_int(FL_ENV_FLAME_POOL) != 0) ||
      !fl_modules_open(s))
    return FL_FAIL(s->ctx, FLAME_NO_MEMORY, OP, "no host memory");
  s->pool.room = &s->ctx->room;
  flame_status e = fl_stage_open(s);
  if (e != FLAME_OK) return e;
  void *p = NULL;
  const int64_t bytes = sizeof(fl_text_fault) + sizeof *s->late_host;
  CHECK(s->cu->HostAlloc(&p, (size_t)bytes + FL_SOON_SLOTS * FL_SOON_BYTES, FL_CU_HOST_PORTABLE),
        "cuMemHostAlloc");
  s->fault_host = p;
  for (int i = 0; i < FL_SOON_SLOTS; i++) {
    s->soon[i].host = (char *)p + bytes + i * FL_SOON_BYTES;
    CHECK(s->cu->EventCreate(&s->soon[i].there, FL_CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  }
  s->late_host = (volatile uint64_t *)(void *)(s->fault_host + 1);
  *s->late_host = FL_LATE_NONE;
  e = fl_cuda_reserve(s, &s->fault, bytes, "the fault record");
  if (e != FLAME_OK) return e;
  s->late = (fl_text_fault *)s->fault + 1;
  CHECK(s->cu->Memset8((fl_cu_ptr)(uintptr_t)s->fault, 0xff, (size_t)bytes, s->stream),
        "cuMemsetD8Async");
  return FLAME_OK;
}

flame_status fl_cuda_open_with(flame_context *c, fl_device *d, int ordinal,
                               const fl_cuda_lib *lib) {
  const char *reason = "";
  const fl_driver *cu = lib->driver(&reason);
  if (!cu) return FL_FAIL(c, FLAME_NO_DEVICE, OP, "%s", reason);
  fl_cuda *s = fl_zalloc(&c->mem, sizeof *s);
  if (!s) return FL_FAIL(c, FLAME_NO_MEMORY, OP, "no host memory");
  s->ctx = c;
  s->mem = &c->mem;
  s->lib = lib;
  s->cu = cu;
  s->ordinal = ordinal;
  s->pid = getpid();
  fl_disk_open(&s->disk, s->mem, fl_env(FL_ENV_FLAME_CACHE_DIR));
  flame_status e = find_device(s);
  if (e == FLAME_OK) e = fl_cuda_enter(s);
  if (e == FLAME_OK) {
    e = make_objects(s);
    fl_cuda_leave(s);
  }
  if (e != FLAME_OK) {
    close_state(s);
    return e;
  }
  *d = (fl_device){ .table = &cuda_table, .ctx = c, .index = ordinal + 1, .state = s,
                    .shared = s->shared };
  return FLAME_OK;
}

flame_status fl_cuda_open(flame_context *c, fl_device *d, int ordinal) {
  return fl_cuda_open_with(c, d, ordinal, &fl_cuda_libraries);
}

int fl_cuda_count(char *reason, size_t size) {
  const char *why = "";
  const fl_driver *cu = fl_cuda_libraries.driver(&why);
  int n = 0;
  if (size) *reason = 0;
  if (!cu) {
    snprintf(reason, size, "%s", why);
    return 0;
  }
  const char *call = "cuInit";
  fl_cu_result r = cu->Init(0);
  if (r == FL_CU_OK) {
    call = "cuDeviceGetCount";
    r = cu->DeviceGetCount(&n);
  }
  int version = 0;
  if (r != FL_CU_OK) fl_cuda_explain(cu, r, call, reason, size);
  else if (n == 0) fl_cuda_explain_none(reason, size);
  else if (cu->DriverGetVersion(&version) == FL_CU_OK &&
           !fl_cuda_fits_driver(version, reason, size)) return 0;
  return r == FL_CU_OK ? n : 0;
}

static const fl_device_table cuda_table = {
  "cuda", cuda_alloc, cuda_alloc_at, cuda_free, cuda_trim, cuda_memory,
  cuda_reset_peak, cuda_upload, cuda_download, cuda_copy, fl_cuda_prepare, fl_cuda_ready,
  fl_cuda_run, fl_cuda_checked, cuda_sync, cuda_close, fl_cuda_resident,
  fl_replay_freezes
};
