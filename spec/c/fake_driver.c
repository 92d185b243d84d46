/*
** The fake driver: see fake_driver.h. For every entry point of api.def there is a function that
** does its work, for example fake_MemAlloc or fake_nvrtcVersion. Most that return a status also
** have a generated wrapper, which counts the call and makes it fail on request. A function that
** releases something does so even if it is made to fail, since the caller can do no more.
*/
#include "fake_driver.h"
#include "base/hash.h"
#include "device/trace.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fake_state fake = { .capacity = 1ll << 30, .devices = 1,
                    .version = 13000, .arch = 90, .nvrtc = 130 };
static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;   /* compile threads */

void fake_reset(void) {
  fake_state f = { .capacity = 1ll << 30, .devices = 1, .version = 13000, .arch = 90, .nvrtc = 130,
                   .contexts = fake.contexts,
                   .pushed = fake.pushed, .streams = fake.streams, .events = fake.events,
                   .blocks = fake.blocks, .bytes = fake.bytes, .pinned = fake.pinned,
                   .modules = fake.modules, .programs = fake.programs, .lt = fake.lt,
                   .plans = fake.plans, .solver = fake.solver, .graphs = fake.graphs,
                   .execs = fake.execs };
  fake = f;
}

int64_t fake_leaks(void) {
  return llabs(fake.contexts) + llabs(fake.pushed) + llabs(fake.streams) + llabs(fake.events) +
         llabs(fake.blocks) + llabs(fake.pinned) + llabs(fake.modules) + llabs(fake.programs) +
         llabs(fake.lt) + llabs(fake.plans) + llabs(fake.solver) + llabs(fake.graphs) +
         llabs(fake.execs);
}

static int fake_is_sticky(fl_cu_result r) {
  return r >= 700 && r < 800 && r != FL_CU_LAUNCH_OUT_OF_RESOURCES;
}

/* Counts a call of the function 'name', if fake.only is not set or is this name; returns 1 if the
** call is to fail. After a failure with a sticky result (700 to 799, except 701) every call
** fails. */
static int fake_trip(const char *name) {
  pthread_mutex_lock(&fake_lock);
  int bad = 0;
  if (!fake.only || strcmp(fake.only, name) == 0) {
    fake.calls++;
    bad = fake.fail_at &&
          (fake.calls == fake.fail_at || (fake.calls > fake.fail_at && fake.forever));
  }
  if (fake.failed && fake_is_sticky(fake.code)) bad = 1;
  if (bad && !fake.failed) fake.failed = name;
  pthread_mutex_unlock(&fake_lock);
  return bad;
}

static int fake_releases(const char *name) {
  return strstr(name, "Destroy") || strstr(name, "Free") || strstr(name, "Release") ||
         strstr(name, "Unload") || strstr(name, "EndCapture") || strcmp(name, "CtxPop") == 0;
}

static void fake_add(int64_t *count, int64_t n) {
  pthread_mutex_lock(&fake_lock);
  *count += n;
  pthread_mutex_unlock(&fake_lock);
}

/* A zeroed object of that many bytes, which *count counts; NULL: no memory. */
static void *fake_new(int64_t *count, size_t size) {
  void *p = calloc(1, size);
  if (p) fake_add(count, 1);
  return p;
}

static void fake_delete(int64_t *count, void *p) {
  if (!p) return;
  free(p);
  fake_add(count, -1);
}

/* ---- driver ---- */

static char fake_context[1];

static fl_cu_result fake_Init(unsigned flags) { (void)flags; return FL_CU_OK; }
static fl_cu_result fake_DriverGetVersion(int *v) { *v = fake.version; return FL_CU_OK; }
static fl_cu_result fake_DeviceGetCount(int *n) { *n = fake.devices; return FL_CU_OK; }
static fl_cu_result fake_DeviceGet(fl_cu_device *d, int i) { *d = i; return FL_CU_OK; }
static fl_cu_result fake_DeviceGetName(char *name, int size, fl_cu_device d) {
  snprintf(name, (size_t)size, "Fake %d", d);
  return FL_CU_OK;
}
static fl_cu_result fake_DeviceGetAttribute(int *v, unsigned which, fl_cu_device d) {
  (void)d;
  *v = which == FL_CU_MAJOR ? fake.arch / 10 : which == FL_CU_MINOR ? fake.arch % 10
       : which != FL_CU_SHARED_OPTIN ? 132 : fake.shared ? fake.shared : FAKE_SHARED;
  return FL_CU_OK;
}
static fl_cu_result fake_DeviceTotalMem(size_t *bytes, fl_cu_device d) {
  (void)d;
  *bytes = (size_t)fake.capacity;
  return FL_CU_OK;
}
static fl_cu_result fake_DeviceGetPCIBusId(char *text, int size, fl_cu_device d) {
  snprintf(text, (size_t)size, "0000:%02x:00.0", d);
  return FL_CU_OK;
}
static fl_cu_result fake_PrimaryRetain(fl_cu_context *c, fl_cu_device d) {
  (void)d;
  fake.contexts++;
  *c = (fl_cu_context)(void *)fake_context;
  return FL_CU_OK;
}
static fl_cu_result fake_PrimaryRelease(fl_cu_device d) {
  (void)d;
  fake.contexts--;
  return FL_CU_OK;
}
static fl_cu_result fake_CtxPush(fl_cu_context c) {
  if ((void *)c != fake_context) return FL_CU_INVALID_CONTEXT;
  fake.pushed++;
  return FL_CU_OK;
}
static fl_cu_result fake_CtxPop(fl_cu_context *c) {
  *c = (fl_cu_context)(void *)fake_context;
  fake.pushed--;
  return FL_CU_OK;
}
static fl_cu_result fake_StreamCreate(fl_cu_stream *s, unsigned flags) {
  (void)flags;
  *s = fake_new(&fake.streams, 1);
  return FL_CU_OK;
}
static fl_cu_result fake_StreamDestroy(fl_cu_stream s) {
  fake_delete(&fake.streams, s);
  return FL_CU_OK;
}

#include "fake_capture.h"

static fl_cu_result fake_StreamSynchronize(fl_cu_stream s) {
  (void)s;
  return fake_capturing ? 900 : FL_CU_OK;        /* STREAM_CAPTURE_UNSUPPORTED */
}
static fl_cu_result fake_EventCreate(fl_cu_event *e, unsigned flags) {
  (void)flags;
  *e = fake_new(&fake.events, sizeof(double));      /* the time at which it was recorded last */
  return FL_CU_OK;
}
static fl_cu_result fake_EventDestroy(fl_cu_event e) {
  fake_delete(&fake.events, e);
  return FL_CU_OK;
}
static fl_cu_result fake_EventRecord(fl_cu_event e, fl_cu_stream s) {
  const double now = fl_trace_now();
  (void)s;
  if (fake_capturing) return 900;
  memcpy(e, &now, sizeof now);
  return FL_CU_OK;
}
static fl_cu_result fake_EventRecordFlags(fl_cu_event e, fl_cu_stream s, unsigned flags) {
  return flags == 1 && fake_capturing ? FL_CU_OK : flags ? 900 : fake_EventRecord(e, s);
}
static fl_cu_result fake_StreamWaitEvent(fl_cu_stream s, fl_cu_event e, unsigned flags) {
  (void)s; (void)e; (void)flags;
  return fake_capturing ? 900 : FL_CU_OK;
}
static fl_cu_result fake_EventElapsed(float *ms, fl_cu_event from, fl_cu_event to) {
  double a, b;
  memcpy(&a, from, sizeof a);
  memcpy(&b, to, sizeof b);
  *ms = from == to ? 0.0f : fake.ways ? fake.way_ms[fake.way]
      : fake.clock ? (float)(b - a) : 0.5f;
  return FL_CU_OK;
}
static fl_cu_result fake_EventQuery(fl_cu_event e) {
  (void)e;
  if (fake.busy == 0) return FL_CU_OK;
  if (fake.busy > 0) fake.busy--;
  return FL_CU_NOT_READY;
}

/* Before a block of device memory its size is stored, in 256 bytes, so that the block's address is
** a multiple of 256, as the driver's are. */
enum { FAKE_HEAD = 256 };
static fl_cu_result fake_MemAlloc(fl_cu_ptr *p, size_t bytes) {
  if (bytes == 0) return FL_CU_INVALID_VALUE;
  if ((int64_t)bytes > fake.capacity - fake.bytes) return FL_CU_OUT_OF_MEMORY;
  char *q = aligned_alloc(FAKE_HEAD, (bytes + 2 * FAKE_HEAD - 1) / FAKE_HEAD * FAKE_HEAD);
  if (!q) return FL_CU_OUT_OF_MEMORY;
  memcpy(q, &bytes, sizeof bytes);
  if (fake_computes || fake.cleared) memset(q + FAKE_HEAD, fake_computes ? 0xa5 : 0, bytes);
  fake.blocks++;
  fake.allocs++;
  fake.bytes += (int64_t)bytes;
  *p = (fl_cu_ptr)(uintptr_t)(q + FAKE_HEAD);
  return FL_CU_OK;
}
static fl_cu_result fake_MemFree(fl_cu_ptr p) {
  char *q = (char *)(uintptr_t)p - FAKE_HEAD;
  size_t bytes;
  if (!p) return FL_CU_OK;
  memcpy(&bytes, q, sizeof bytes);
  fake.blocks--;
  fake.bytes -= (int64_t)bytes;
  free(q);
  return FL_CU_OK;
}
static fl_cu_result fake_MemGetInfo(size_t *left, size_t *total) {
  *left = (size_t)(fake.capacity - fake.bytes);
  *total = (size_t)fake.capacity;
  return FL_CU_OK;
}
static fl_cu_result fake_HostAlloc(void **p, size_t bytes, unsigned flags) {
  (void)flags;
  *p = fake_new(&fake.pinned, bytes);
  return *p ? FL_CU_OK : FL_CU_OUT_OF_MEMORY;
}
static fl_cu_result fake_HostFree(void *p) { fake_delete(&fake.pinned,
                                                         p); return FL_CU_OK; }
static fl_cu_result fake_CopyIn(fl_cu_ptr dst, const void *src, size_t n,
                                fl_cu_stream s) {
  (void)s;
  memcpy((void *)(uintptr_t)dst, src, n);
  return FL_CU_OK;
}
static fl_cu_result fake_copy(void *to, const void *from, size_t n) {
  fake_node *x = fake_capture(FAKE_COPY);
  if (x) {
    x->to = to;
    x->from = from;
    x->n = n;
    return FL_CU_OK;
  }
  memmove(to, from, n);
  return FL_CU_OK;
}
static fl_cu_result fake_CopyOut(void *dst, fl_cu_ptr src, size_t n, fl_cu_stream s) {
  (void)s;
  return fake_copy(dst, (void *)(uintptr_t)src, n);
}
static fl_cu_result fake_CopyOn(fl_cu_ptr dst, fl_cu_ptr src, size_t n, fl_cu_stream s) {
  (void)s;
  return fake_copy((void *)(uintptr_t)dst, (void *)(uintptr_t)src, n);
}
static fl_cu_result fake_Memset8(fl_cu_ptr dst, unsigned char v, size_t n,
                                 fl_cu_stream s) {
  (void)s;
  fake_node *x = fake_capture(FAKE_FILL);
  if (x) {
    x->to = (void *)(uintptr_t)dst;
    x->value = v;
    x->n = n;
    return FL_CU_OK;
  }
  memset((void *)(uintptr_t)dst, v, n);
  return FL_CU_OK;
}

#include "fake_kernels.c"

/* GetErrorName and GetErrorString are not counted and never fail, since they report failures. */
static fl_cu_result fake_GetErrorName(fl_cu_result r, const char **name) {
  static const struct { fl_cu_result r; const char *name; } names[] = {
    { FL_CU_OUT_OF_MEMORY, "OUT_OF_MEMORY" }, { FL_CU_STUB, "STUB_LIBRARY" },
    { FL_CU_UNAVAILABLE, "DEVICE_UNAVAILABLE" }, { FL_CU_NO_DEVICE, "NO_DEVICE" },
    { FL_CU_NOT_LICENSED, "DEVICE_NOT_LICENSED" }, { FL_CU_NO_BINARY, "NO_BINARY_FOR_GPU" },
    { FL_CU_ECC_UNCORRECTABLE, "ECC_UNCORRECTABLE" },
    { FL_CU_NVLINK_UNCORRECTABLE, "NVLINK_UNCORRECTABLE" },
    { FL_CU_UNSUPPORTED_PTX, "UNSUPPORTED_PTX_VERSION" }, { FL_CU_CONTAINED, "CONTAINED" },
    { FL_CU_OPERATING_SYSTEM, "OPERATING_SYSTEM" }, { FL_CU_ILLEGAL_ADDRESS, "ILLEGAL_ADDRESS" },
    { FL_CU_LAUNCH_TIMEOUT, "LAUNCH_TIMEOUT" }, { FL_CU_LAUNCH_FAILED, "LAUNCH_FAILED" },
    { FL_CU_NOT_PERMITTED, "NOT_PERMITTED" }, { FL_CU_SYSTEM_NOT_READY, "SYSTEM_NOT_READY" },
    { FL_CU_DRIVER_MISMATCH, "SYSTEM_DRIVER_MISMATCH" },
    { FL_CU_COMPAT, "COMPAT_NOT_SUPPORTED_ON_DEVICE" }, { FL_CU_UNKNOWN, "UNKNOWN" } };
  static __thread char text[64];
  const char *found = "OTHER";
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].r == r) found = names[i].name;
  snprintf(text, sizeof text, "CUDA_ERROR_%s", found);
  *name = text;
  return FL_CU_OK;
}
static fl_cu_result fake_GetErrorString(fl_cu_result r, const char **text) {
  (void)r;
  *text = fake_why[0] ? fake_why : "made to fail";
  return FL_CU_OK;
}

#include "fake_blas.c"
#include "fake_graph.c"

/* ---- wrappers and tables ---- */

static fl_rtc_result fake_rtc_code(void) {
  return fake.code == FL_CU_OUT_OF_MEMORY ? FL_RTC_OUT_OF_MEMORY : FL_RTC_COMPILATION;
}
static fl_lt_status fake_lt_code(void) {
  return fake.code == FL_CU_OUT_OF_MEMORY ? FL_LT_ALLOC_FAILED : FL_LT_EXECUTION_FAILED;
}

#define DRIVER(name, symbol, params, args) \
  static fl_cu_result trip_##name params { \
    if (strncmp(#name, "GetError", 8) == 0) return fake_##name args; \
    const int bad = fake_trip(#name); \
    if (bad && !fake_releases(#name)) return fake.code; \
    const fl_cu_result done = fake_##name args; \
    return bad ? fake.code : done; \
  }
#define NVRTC(name, params, args) \
  static fl_rtc_result trip_##name params { \
    const int bad = fake_trip(#name); \
    if (bad && !fake_releases(#name)) return fake_rtc_code(); \
    const fl_rtc_result r = fake_##name args; \
    return bad ? fake_rtc_code() : r; \
  }
#define BLASLT(name, params, args) \
  static fl_lt_status trip_##name params { \
    const int bad = fake_trip(#name); \
    if (bad && !fake_releases(#name)) return fake_lt_code(); \
    const fl_lt_status r = fake_##name args; \
    return bad ? fake_lt_code() : r; \
  }
#include "cuda/api/api.def"

static const fl_driver fake_driver = {
#define DRIVER(name, symbol, params, args) .name = trip_##name,
#include "cuda/api/api.def"
};
static const fl_nvrtc fake_nvrtc = {
#define NVRTC(name, params, args) .name = trip_##name,
#define NVRTC_VALUE(type, name, params, args) .name = fake_##name,
#include "cuda/api/api.def"
};
static const fl_blaslt fake_blaslt = {
#define BLASLT(name, params, args) .name = trip_##name,
#define BLASLT_VALUE(type, name, params, args) .name = fake_##name,
#include "cuda/api/api.def"
};

static const fl_driver *fake_get_driver(const char **reason) { (void)reason; return &fake_driver; }
static const fl_nvrtc *fake_get_nvrtc(const char **reason) {
  if (!fake.missing_nvrtc) return &fake_nvrtc;
  if (reason) *reason = "libnvrtc.so.13 not found (fake)";
  return NULL;
}
static const fl_blaslt *fake_get_blaslt(const char **reason) {
  if (!fake.missing_blaslt) return &fake_blaslt;
  if (reason) *reason = "libcublasLt.so.13 not found (fake)";
  return NULL;
}
#include "fake_math.c"
const fl_cuda_lib fake_libraries = { fake_get_driver, fake_get_nvrtc, fake_get_blaslt, fake_get_fft,
                                     fake_get_solver, NULL, NULL, NULL };
