/*
** The fake driver as a file: a shared object that holds every entry point of src/cuda/api, for
** specs that place copies of it as libcuda.so.1 and so on in the folder FLAME_TEST_MACHINE.
** FAKE_CUDA describes the machine: pairs "name=number" (see 'settings'). "fail=MemAlloc:2:700"
** makes the second call of cuMemAlloc, and all after it, fail with 700. Memory is zero, and kernels
** write nothing, unless FAKE_CUDA has "computes=1" or "computes=2" (fake_compute.c). With "idle=1"
** matrix products are not computed either, which leaves the host's part of a program to measure.
** "tell=2" prints how often each entry point was called.
*/
#include "fake_driver.c"
#include "fake_compute.c"
#include "cuda/api/cudnn_api.h"
#include "cuda/api/nvml_api.h"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define SHOWN __attribute__((visibility("default")))

static struct {
  int mig, processes, ecc, hidden;      /* hidden: MiB that other processes use */
  int fast;                             /* the fastest of cuBLASLt's algorithms */
  int computes;                         /* kernel texts are compiled for the CPU and run, 2: long */
  int seed;                             /* seed for the order of threads and blocks */
  int tell;                             /* print at exit 1: graph launches; 2: all calls */
} card;

static const struct { const char *name; int *at; } settings[] = {
  { "devices", &fake.devices }, { "version", &fake.version }, { "arch", &fake.arch },
  { "nvrtc", &fake.nvrtc }, { "image", &fake.image }, { "mig", &card.mig },
  { "ways", &fake.ways }, { "fast", &card.fast }, { "tell", &card.tell },
  { "processes", &card.processes }, { "ecc", &card.ecc }, { "hidden", &card.hidden },
  { "computes", &card.computes }, { "seed", &card.seed }, { "idle", &fake.idle },
  { "shared", &fake.shared }, { "registers", &fake.registers },
};

static void set(const char *name, const char *value) {
  static char only[40];
  int at = 0, code = 0;
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    if (strcmp(settings[i].name, name) == 0) *settings[i].at = atoi(value);
  if (strcmp(name, "fail") != 0 || sscanf(value, "%39[^:]:%d:%d", only, &at, &code) != 3) return;
  fake.only = only;
  fake.fail_at = at;
  fake.forever = 1;
  fake.code = (fl_cu_result)code;
}

__attribute__((constructor)) static void read_settings(void) {
  const char *text = getenv("FAKE_CUDA");
  char name[40], value[60];
  int n = 0;
  fake.cleared = fake.clock = 1;
  for (; text && sscanf(text, " %39[^= ]=%59s%n", name, value, &n) == 2; text += n)
    set(name, value);
  if (card.computes) fake_computes = &fake_with_gxx;
  fake_long = card.computes > 1;
  gpu.seed = (unsigned)card.seed;
  gpu.parts = card.seed != 0;
  for (int i = 0; i < 8; i++) fake.way_ms[i] = i == card.fast ? 0.5f : 1;
}

/* With tell=2: how often the program called each entry point. */
typedef struct tally { const char *name; int64_t calls; struct tally *next; } tally;
static tally *tallies;
static void count(tally *t) {
  if (card.tell != 2) return;
  pthread_mutex_lock(&fake_lock);
  if (t->calls++ == 0) {
    t->next = tallies;
    tallies = t;
  }
  pthread_mutex_unlock(&fake_lock);
}

__attribute__((destructor)) static void tell(void) {
  if (card.tell) fprintf(stderr, "%lld graphs\n", (long long)fake.graph_launches);
  for (const tally *t = tallies; t; t = t->next)
    fprintf(stderr, "%9lld %s\n", (long long)t->calls, t->name);
}

/* ---- the entry points, by their exported names ---- */

#define DRIVER(name, symbol, params, args) \
  SHOWN fl_cu_result shown_##name params __asm__(symbol); \
  fl_cu_result shown_##name params { \
    static tally calls = { #name, 0, NULL }; \
    count(&calls); \
    return fake_driver.name args; \
  }
#define NVRTC(name, params, args) \
  SHOWN fl_rtc_result name params; \
  fl_rtc_result name params { return fake_nvrtc.name args; }
#define NVRTC_VALUE(type, name, params, args) \
  SHOWN type name params; \
  type name params { return fake_nvrtc.name args; }
#define BLASLT(name, params, args) \
  SHOWN fl_lt_status name params; \
  fl_lt_status name params { \
    static tally calls = { #name, 0, NULL }; \
    count(&calls); \
    return fake_blaslt.name args; \
  }
#define BLASLT_VALUE(type, name, params, args) \
  SHOWN type name params; \
  type name params { return fake_blaslt.name args; }
#include "cuda/api/api.def"
#define CUFFT(name, params, args) \
  SHOWN fl_cufft_status name params; \
  fl_cufft_status name params { return fake_cufft.name args; }
#include "cuda/api/cufft.def"
#define CUSOLVER(name, params, args) \
  SHOWN fl_sol_status name params; \
  fl_sol_status name params { return fake_cusolver.name args; }
#define CUBLAS CUSOLVER
#include "cuda/api/cusolver.def"

/* Of cuDNN only cudnnGetVersion works; all other functions fail, so that the device, which asks
** cuDNN for a plan first, uses our kernels. */
#define DNN(name, params) \
  SHOWN fl_dnn_status name params; \
  fl_dnn_status name params { return 1; }
#include "cuda/api/cudnn.def"
SHOWN size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void) { return 91002; }

/* ---- NVML ---- */

static fl_ml_status fake_nvmlInit_v2(void) { return FL_ML_OK; }
static fl_ml_status fake_nvmlShutdown(void) { return FL_ML_OK; }
static fl_ml_status fake_nvmlSystemGetDriverVersion(char *text, unsigned size) {
  snprintf(text, size, "580.65.06");
  return FL_ML_OK;
}
static fl_ml_status fake_nvmlDeviceGetHandleByPciBusId_v2(const char *id, fl_ml_device *d) {
  *d = (fl_ml_device)(void *)&card;
  return strncmp(id, "0000:", 5) == 0 ? FL_ML_OK : 2;
}
static fl_ml_status fake_nvmlDeviceGetMemoryInfo(fl_ml_device d, fl_ml_memory *m) {
  const unsigned long long hidden = (unsigned long long)card.hidden << 20;
  const unsigned long long total = (unsigned long long)fake.capacity;
  *m = (fl_ml_memory){ total, total - hidden, hidden };
  return FL_ML_OK;
}
static fl_ml_status fake_nvmlDeviceGetComputeRunningProcesses_v3(fl_ml_device d, unsigned *n,
                                                                 fl_ml_process *p) {
  const unsigned room = *n, there = (unsigned)card.processes;
  *n = there;
  if (there > room) return FL_ML_TOO_SMALL;
  for (unsigned i = 0; i < there; i++) p[i] = (fl_ml_process){ 4000 + i, 1 << 20, ~0u, ~0u };
  return FL_ML_OK;
}
static fl_ml_status fake_nvmlDeviceGetMigMode(fl_ml_device d, unsigned *now, unsigned *next) {
  *now = *next = (unsigned)card.mig;
  return FL_ML_OK;
}
static fl_ml_status fake_nvmlDeviceGetTotalEccErrors(fl_ml_device d, unsigned kind, unsigned since,
                                                     unsigned long long *n) {
  *n = kind == FL_ML_UNCORRECTED && since == FL_ML_SINCE_LOAD ? (unsigned)card.ecc : 0;
  return FL_ML_OK;
}
#define NVML(name, params, args) \
  SHOWN fl_ml_status name params; \
  fl_ml_status name params { return fake_##name args; }
#include "cuda/api/nvml.def"

#include "fake_nccl.c"
#include "fake_nvtx.c"
