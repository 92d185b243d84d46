/*
** What the machine has: the CUDA driver and its devices, NVRTC, cuBLASLt, cuFFT, cuSOLVER, cuDNN,
** NCCL, OpenBLAS, the folder of compiled kernels. Libraries that were opened stay so: closing and
** opening them again, as cuDNN, leaves memory behind each time.
*/
#include "engine/facts.h"
#include "base/env.h"
#include "cuda/api/api.h"
#include "cuda/driver/cache.h"
#include "cuda/library/cufft.h"
#include "cuda/library/cusolver.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef struct teller {
  void (*say)(void *arg, const char *name, int ok, const char *text);
  void *arg;
} teller;

static void tell(const teller *t, const char *name, int ok, const char *text) {
  char plain[256];
  snprintf(plain, sizeof plain, "%s", text);
  fl_error_plain(plain);
  t->say(t->arg, name, ok, plain);
}

/* ---- CUDA ---------------------------------------------------------------------------------- */

static void tell_device(const teller *t, const fl_driver *cu, int i) {
  char name[96] = "?", label[24], text[200];
  int major = 0, minor = 0, count = 0;
  fl_cu_device d;
  if (cu->DeviceGet(&d, i) != FL_CU_OK) return;
  cu->DeviceGetName(name, sizeof name, d);
  cu->DeviceGetAttribute(&major, FL_CU_MAJOR, d);
  cu->DeviceGetAttribute(&minor, FL_CU_MINOR, d);
  cu->DeviceGetAttribute(&count, FL_CU_MULTIPROCESSORS, d);
  snprintf(label, sizeof label, "cuda:%d", i);
  snprintf(text, sizeof text, "%s, compute capability %d.%d, %d multiprocessors", name, major,
           minor, count);
  tell(t, label, 1, text);
}

static void tell_driver(const teller *t) {
  const char *why = "";
  char text[240];
  const fl_driver *cu = fl_cuda_libraries.driver(&why);
  const int n = fl_cuda_count(text, sizeof text);
  if (!cu || n == 0) {
    tell(t, "driver", 0, cu ? text : why);
    return;
  }
  int version = 0;
  cu->DriverGetVersion(&version);
  snprintf(text, sizeof text, "CUDA %d.%d, %d device%s", version / 1000, version % 1000 / 10, n,
           n == 1 ? "" : "s");
  tell(t, "driver", 1, text);
  for (int i = 0; i < n; i++) tell_device(t, cu, i);
}

static void tell_compilers(const teller *t) {
  const char *why = "";
  char text[80];
  const fl_nvrtc *rtc = fl_cuda_libraries.nvrtc(&why);
  int major = 0, minor = 0;
  if (rtc) rtc->nvrtcVersion(&major, &minor);
  snprintf(text, sizeof text, "%d.%d", major, minor);
  tell(t, "nvrtc", rtc != NULL, rtc ? text : why);
  const fl_blaslt *lt = fl_cuda_libraries.blaslt(&why);
  if (lt) snprintf(text, sizeof text, "%zu", lt->cublasLtGetVersion());
  tell(t, "cublaslt", lt != NULL, lt ? text : why);
}

static void tell_version(const teller *t, const char *name, int v) {
  char text[40];
  snprintf(text, sizeof text, "%d.%d.%d", v / 1000, v % 1000 / 100, v % 100);
  tell(t, name, 1, text);
}

static void tell_math(const teller *t) {
  const char *why = "";
  int version = 0;
  const fl_cufft *fft = fl_cuda_libraries.fft(&why);
  if (fft) fft->cufftGetVersion(&version);
  if (fft) tell_version(t, "cufft", version);
  else tell(t, "cufft", 0, why);
  const fl_cusolver *solver = fl_cuda_libraries.solver(&why);
  if (solver) solver->cusolverGetVersion(&version);
  if (solver) tell_version(t, "cusolver", version);
  else tell(t, "cusolver", 0, why);
}

/* ---- others ---------------------------------------------------------------------------------- */

/* The first library of the list that opens; NULL: none. */
static void *open_one(const char *const *files, const char **found) {
  for (; *files; files++) {
    void *h = dlopen(*files, RTLD_LAZY | RTLD_LOCAL);
    *found = *files;
    if (h) return h;
  }
  return NULL;
}

static void find(void *h, const char *name, void *out) {      /* a function out of a data pointer */
  void *p = dlsym(h, name);
  memcpy(out, &p, sizeof p);
}

static void tell_dnn(const teller *t) {
  static const char *const dnn[] = { "libcudnn.so.9", "libcudnn.so.8",
                                     "/usr/local/cuda/lib64/libcudnn.so.9", NULL };
  static const char *const nccl[] = { "libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2", NULL };
  const char *file = "";
  char text[120];
  size_t (*dnn_version)(void) = NULL;
  int (*nccl_version)(int *) = NULL;
  void *h = open_one(dnn, &file);
  if (h) find(h, "cudnnGetVersion", &dnn_version);
  snprintf(text, sizeof text, "%s %zu", file, dnn_version ? dnn_version() : (size_t)0);
  tell(t, "cudnn", h != NULL,
       h ? text : "libcudnn.so.9 not found (install cuDNN, package cudnn9); our own kernels serve");
  int version = 0;
  h = open_one(nccl, &file);
  if (h) find(h, "ncclGetVersion", &nccl_version);
  if (nccl_version) nccl_version(&version);
  snprintf(text, sizeof text, "%s %d", file, version);
  tell(t, "nccl", h != NULL,
       h ? text : "libnccl.so.2 not found (install NCCL, package libnccl2); "
                  "needed for several GPUs only");
}

static void tell_blas(const teller *t) {
  static const char *const usual[] = { "libopenblas.so.0", "libopenblas.so", NULL };
  const char *asked = fl_env(FL_ENV_FLAME_BLAS), *file = "";
  if (!strcmp(asked, "off")) {
    tell(t, "blas", 1, "our own kernel (FLAME_BLAS=off)");
    return;
  }
  const char *const named[] = { asked, NULL };
  void *h = open_one(*asked ? named : usual, &file);
  char *(*core)(void) = NULL;
  char text[160];
  if (h) find(h, "openblas_get_corename", &core);
  snprintf(text, sizeof text, "%s%s%s", file, core ? " for " : "", core ? core() : "");
  tell(t, "blas", h != NULL,
       h ? text : "no OpenBLAS (install libopenblas0); our own kernel serves");
}

static void tell_cache(const teller *t, flame_context *c) {
  static const uint8_t key[32] = { 0x66, 0x6c, 0x61, 0x6d, 0x65 };
  const char *setting = fl_env(FL_ENV_FLAME_CACHE_DIR);
  fl_disk d;
  size_t n = 0;
  if (!strcmp(setting, "off")) {
    tell(t, "cache", 1, "switched off (FLAME_CACHE_DIR=off): every run compiles its kernels");
    return;
  }
  fl_disk_open(&d, &c->mem, setting);
  fl_disk_put(&d, key, "flame", 5);
  void *p = d.folder >= 0 ? fl_disk_get(&d, key, &n) : NULL;
  const int ok = p != NULL && n == 5 && memcmp(p, "flame", 5) == 0;
  fl_free(&c->mem, p, n);
  fl_disk_close(&d);
  tell(t, "cache", ok, ok ? "compiled kernels are kept"
                          : "the folder of compiled kernels can not be written, or others may "
                            "write it: name one with FLAME_CACHE_DIR");
}

void fl_facts(flame_context *c, int deep, void (*say)(void *, const char *, int, const char *),
              void *arg) {
  const teller t = { say, arg };
  char text[240];
  tell_driver(&t);
  tell_compilers(&t);
  tell_blas(&t);
  if (deep || fl_cuda_count(text, sizeof text) > 0) tell_math(&t);
  if (!deep) return;
  tell_dnn(&t);
  tell_cache(&t, c);
}
