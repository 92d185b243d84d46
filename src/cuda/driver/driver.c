/*
** Driver functions for all files of a CUDA device: results as errors, entering and leaving the
** context, waiting, memory, launches, and the records in which kernels report faults.
**
** Sticky errors (a fault on the device, a context gone) end the use of this device: the first cause
** is kept and repeated by every later call, and the driver gets no more work except the releases of
** close. A forked child may not use the device at all.
*/
#include "cuda/driver/explain.h"
#include "cuda/driver/state.h"
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static const char OP[] = "cuda";

/* ---- errors ---- */

static int is_sticky(fl_cu_result r) {
  switch (r) {
    case FL_CU_DEINITIALIZED: case FL_CU_INVALID_CONTEXT: case FL_CU_ECC_UNCORRECTABLE:
    case FL_CU_NVLINK_UNCORRECTABLE: case FL_CU_CONTAINED: case FL_CU_ILLEGAL_ADDRESS:
    case FL_CU_LAUNCH_TIMEOUT: case FL_CU_CONTEXT_DESTROYED: case FL_CU_ASSERT:
    case FL_CU_HARDWARE_STACK: case FL_CU_ILLEGAL_INSTRUCTION: case FL_CU_MISALIGNED_ADDRESS:
    case FL_CU_INVALID_ADDRESS_SPACE: case FL_CU_INVALID_PC: case FL_CU_LAUNCH_FAILED:
    case FL_CU_TENSOR_MEMORY_LEAK: case FL_CU_EXTERNAL_DEVICE: case FL_CU_UNKNOWN: return 1;
    default: return 0;
  }
}

flame_status fl_cuda_lost(fl_cuda *s) {
  return FL_FAIL(s->ctx, FLAME_DEVICE_LOST, OP, "%s", s->cause);
}

void fl_cuda_lose(fl_cuda *s, const char *cause) {
  if (s->dead) return;
  snprintf(s->cause, sizeof s->cause, "device cuda:%d is lost: %.740s", s->ordinal, cause);
  s->dead = 1;
  s->ctx->dead |= 1u << (s->ordinal + 1);
  fl_fail(&s->ctx->lost[s->ordinal + 1], FLAME_DEVICE_LOST, OP, "%s", s->cause);
}

flame_status fl_cuda_check(fl_cuda *s, fl_cu_result r, const char *call) {
  if (r == FL_CU_OK) return FLAME_OK;
  if (s->dead) return fl_cuda_lost(s);
  char why[740], earlier[480] = "";
  if (is_sticky(r) && s->context) {
    const char *more = fl_cuda_explain_lost(r);
    if (!more && !s->ctx->sync_each) {
      if (s->ctx->up && s->ctx->up->suspects)
        s->ctx->up->suspects(s->ctx, s->ordinal + 1, earlier, sizeof earlier);
      more = FL_DO "; run with DEBUG_CUDA=1 to find it";
    }
    snprintf(why, sizeof why, "%s (%s), reported by %s%s%s", fl_cuda_error_name(s->cu, r),
             fl_cuda_error_text(s->cu, r), call, earlier, more ? more : "");
    fl_cuda_lose(s, why);
    return fl_cuda_lost(s);
  }
  fl_cuda_explain(s->cu, r, call, why, sizeof why);
  const flame_status code = r == FL_CU_OUT_OF_MEMORY ? FLAME_NO_MEMORY
    : !s->context ? FLAME_NO_DEVICE : FLAME_INTERNAL;
  return FL_FAIL(s->ctx, code, OP, "%s", why);
}

int fl_cuda_spoils(fl_cuda *s) {
  if (s->capturing == FL_CAPTURE_NONE) return 0;
  s->capturing = FL_CAPTURE_SPOILED;
  return 1;
}

/* ---- entering, waiting ---- */

flame_status fl_cuda_enter(fl_cuda *s) {
  if (s->dead) return fl_cuda_lost(s);
  if (s->pid != getpid())
    return FL_FAIL(s->ctx, FLAME_NOT_SUPPORTED, OP,
                   "this process was forked after CUDA was started and can not use it");
  return fl_cuda_check(s, s->cu->CtxPush(s->context), "cuCtxPushCurrent");
}

void fl_cuda_leave(fl_cuda *s) {
  fl_cu_context c;
  s->cu->CtxPop(&c);
}

flame_status fl_cuda_poll(fl_cuda *s) {
  return fl_take_interrupt(s->ctx) ? fl_interrupted(s->ctx, OP) : FLAME_OK;
}

/* Nanoseconds since 'from'. */
static int64_t since(const struct timespec *from) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)(now.tv_sec - from->tv_sec) * 1000000000 + now.tv_nsec - from->tv_nsec;
}

/* Spins at first, for the waits of a short training step: a sleep takes at least 60 us, whatever is
** requested, and a small GPU step takes less. Later it sleeps, at most 1 ms at a time, so that an
** interrupt is noticed quickly. */
static flame_status wait_for(fl_cuda *s, fl_cu_event e, int stops) {
  if (fl_cuda_spoils(s)) return FLAME_INTERNAL;
  enum { SPIN = 2000000, SHORT = 20000000, WATCH_EVERY = 64 };          /* ns; looks */
  struct timespec start;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (int64_t looks = 1;; looks++) {
    const fl_cu_result r = s->cu->EventQuery(e);
    if (r == FL_CU_OK) return FLAME_OK;
    if (r != FL_CU_NOT_READY) return fl_cuda_check(s, r, "cuEventQuery");
    const flame_status stop = stops ? fl_cuda_poll(s) : FLAME_OK;
    if (stop != FLAME_OK) {
      s->left = 1;
      return stop;
    }
    const int64_t waited = since(&start);
    if (s->watch && (waited >= SPIN || looks % WATCH_EVERY == 0)) {
      const flame_status seen = s->watch(s);
      if (seen != FLAME_OK) return seen;
    }
    if (waited < SPIN) continue;
    nanosleep(&(struct timespec){ .tv_nsec = waited < SHORT ? 50000 : 1000000 }, NULL);
  }
}

flame_status fl_cuda_wait(fl_cuda *s, fl_cu_event e) { return wait_for(s, e, 1); }

flame_status fl_cuda_wait_out(fl_cuda *s, fl_cu_event e) { return wait_for(s, e, 0); }

flame_status fl_cuda_wait_all(fl_cuda *s) {
  if (fl_cuda_spoils(s)) return FLAME_INTERNAL;
  const flame_status e = fl_cuda_check(s, s->cu->EventRecord(s->done, s->stream),
                                       "cuEventRecord");
  if (e != FLAME_OK) return e;
  const flame_status ended = fl_cuda_wait(s, s->done);
  if (ended == FLAME_OK) {
    s->left = 0;
    s->ctx->good[s->ordinal + 1] = s->ctx->runs;
  }
  return ended;
}

/* ---- memory ---- */

flame_status fl_cuda_reserve(fl_cuda *s, void **p, int64_t bytes, const char *what) {
  fl_cu_result r;
  *p = NULL;
  if (fl_cuda_spoils(s)) return FLAME_INTERNAL;
  *p = fl_cuda_pool_alloc(&s->pool, bytes, &r);
  if (*p) return FLAME_OK;
  if (r != FL_CU_OUT_OF_MEMORY) return fl_cuda_check(s, r, "cuMemAlloc");
  return fl_out_of_memory(s->ctx, s->ordinal + 1, bytes, what);
}

void fl_cuda_release(fl_cuda *s, void *p) {
  if (!p) return;
  fl_cuda_spoils(s);
  fl_cuda_pool_free(&s->pool, p);
}

void fl_cuda_give_back(fl_cuda *s, void *p) {
  if (!p || s->pid != getpid()) return;
  const int pushed = !s->pool.cached && s->cu->CtxPush(s->context) == FL_CU_OK;
  fl_cuda_pool_free(&s->pool, p);
  if (pushed) fl_cuda_leave(s);
}

/* ---- launches and reports ---- */

fl_cu_result fl_cuda_allow_shared(fl_cuda *s, fl_cu_function f, int64_t bytes) {
  enum { ALWAYS = 48 * 1024 };
  int most = 0;
  if (bytes <= ALWAYS) return FL_CU_OK;
  const fl_cu_result r = s->cu->FuncGetAttribute(&most, FL_CU_FUNC_DYNAMIC_SHARED, f);
  if (r != FL_CU_OK || bytes <= most) return r;
  return s->cu->FuncSetAttribute(f, FL_CU_FUNC_DYNAMIC_SHARED, (int)bytes);
}

static flame_status allow_shared(fl_cuda *s, fl_cu_function f, unsigned shared) {
  return fl_cuda_check(s, fl_cuda_allow_shared(s, f, shared), "cuFuncSetAttribute");
}

static flame_status launched(fl_cuda *s, fl_cu_result r, const char *call) {
  const flame_status e = fl_cuda_check(s, r, call);
  if (e != FLAME_OK || !s->ctx->sync_each) return e;
  return fl_cuda_check(s, s->cu->StreamSynchronize(s->stream), "the kernel just launched");
}

flame_status fl_cuda_launch(fl_cuda *s, fl_cu_function f, const unsigned grid[3],
                            const unsigned block[3], unsigned shared, void **params) {
  const flame_status e = allow_shared(s, f, shared);
  if (e != FLAME_OK) return e;
  return launched(s, s->cu->LaunchKernel(f, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                         shared, s->stream, params, NULL), "cuLaunchKernel");
}

flame_status fl_cuda_launch_grid(fl_cuda *s, fl_cu_function f, const char *name,
                                 const unsigned grid[3], const unsigned block[3], unsigned shared,
                                 void **params) {
  const int64_t blocks = (int64_t)grid[0] * grid[1] * grid[2];
  const unsigned threads = block[0] * block[1] * block[2];
  int each = 0;
  flame_status e = allow_shared(s, f, shared);
  if (e == FLAME_OK)
    e = fl_cuda_check(s, s->cu->Occupancy(&each, f, (int)threads, shared),
                      "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  if (e != FLAME_OK) return e;
  const int64_t most = (int64_t)each * s->multiprocessors;
  if (blocks > most)
    return FL_FAIL(s->ctx, FLAME_NOT_SUPPORTED, "kernel", "%s: its blocks meet at a barrier of the "
                   "grid, so all %lld of %u threads must run at the same time, and this device runs "
                   "%lld; give it a smaller grid, or make two launches of it", name,
                   (long long)blocks, threads, (long long)most);
  return launched(s, s->cu->LaunchCooperative(f, grid[0], grid[1], grid[2], block[0], block[1],
                                              block[2], shared, s->stream, params),
                  "cuLaunchCooperativeKernel");
}

flame_status fl_cuda_expect_late(fl_cuda *s) {
  if (fl_cuda_spoils(s)) return FLAME_INTERNAL;
  s->late_pending = 1;
  return fl_cuda_check(s, s->cu->CopyOut((void *)(uintptr_t)s->late_host,
                                         (fl_cu_ptr)(uintptr_t)s->late, sizeof *s->late_host,
                                         s->stream), "cuMemcpyDtoHAsync");
}

void fl_cuda_fault(fl_cuda *s, fl_fault *fault) {
  const fl_text_fault f = *s->fault_host;
  *fault = (fl_fault){ .site = -1 };
  if (f.word[0] != UINT64_MAX) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) value |= (f.word[i] & 255) << 8 * i;
    fault->site = (int32_t)(f.word[0] >> 48);
    fault->position = (int64_t)(f.word[0] >> 8 & ((1ull << 40) - 1));
    fault->value = (int64_t)value;
  }
  s->fault_pending = 0;
}
