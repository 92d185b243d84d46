/*
** The loader: opens the CUDA driver, NVRTC, cuBLASLt, cuFFT, cuSOLVER, cuBLAS and cuDNN with dlopen
** at first use and looks up every entry point of the .def files beside it. This is the only
** process-wide state of the library: tables filled once under pthread_once, then only read. Handles
** are never closed: other contexts, and threads of the driver itself, may still be using them.
*/
#include "cuda/api/cudnn_api.h"
#include "base/error.h"
#include "cuda/api/cufft_api.h"
#include "cuda/api/cusolver_api.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct symbol {
  const char *name;
  size_t at;                      /* offset in the table */
  int maybe;                      /* NULL in the table where the library has none */
} symbol;

static const symbol driver_symbols[] = {
#define DRIVER(name, symbol, params, args) { symbol, offsetof(fl_driver, name), 0 },
#define DRIVER_MAYBE(name, symbol, params, args) { symbol, offsetof(fl_driver, name), 1 },
#include "cuda/api/api.def"
};
static const symbol nvrtc_symbols[] = {
#define NVRTC(name, params, args) { #name, offsetof(fl_nvrtc, name), 0 },
#define NVRTC_VALUE(type, name, params, args) { #name, offsetof(fl_nvrtc, name), 0 },
#include "cuda/api/api.def"
};
static const symbol blaslt_symbols[] = {
#define BLASLT(name, params, args) { #name, offsetof(fl_blaslt, name), 0 },
#define BLASLT_VALUE(type, name, params, args) { #name, offsetof(fl_blaslt, name), 0 },
#include "cuda/api/api.def"
};

static const symbol fft_symbols[] = {
#define CUFFT(name, params, args) { #name, offsetof(fl_cufft, name), 0 },
#include "cuda/api/cufft.def"
};
static const symbol solver_symbols[] = {
#define CUSOLVER(name, params, args) { #name, offsetof(fl_cusolver, name), 0 },
#define CUSOLVER_MAYBE(name, params, args) { #name, offsetof(fl_cusolver, name), 1 },
#include "cuda/api/cusolver.def"
};
static const symbol blas_symbols[] = {
#define CUBLAS(name, params, args) { #name, offsetof(fl_cusolver, name), 0 },
#include "cuda/api/cusolver.def"
};

static const symbol dnn_symbols[] = {
#define DNN(name, params) { #name, offsetof(fl_cudnn, name), 0 },
#include "cuda/api/cudnn.def"
};

/* File names to try: by the loader's search path first, then where the toolkit installs. */
static const char *const driver_files[] = { "libcuda.so.1", NULL };
static const char *const nvrtc_files[] = {
  "libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.13",
  "/usr/local/cuda/lib64/libnvrtc.so.12", "libnvrtc.so", NULL };
static const char *const blaslt_files[] = {
  "libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.13",
  "/usr/local/cuda/lib64/libcublasLt.so.12", "libcublasLt.so", NULL };

static const char *const fft_files[] = {
  "libcufft.so.12", "libcufft.so.11", "/usr/local/cuda/lib64/libcufft.so.12",
  "/usr/local/cuda/lib64/libcufft.so.11", "libcufft.so", NULL };
static const char *const solver_files[] = {
  "libcusolver.so.12", "libcusolver.so.11", "/usr/local/cuda/lib64/libcusolver.so.12",
  "/usr/local/cuda/lib64/libcusolver.so.11", "libcusolver.so", NULL };
static const char *const blas_files[] = {
  "libcublas.so.13", "libcublas.so.12", "/usr/local/cuda/lib64/libcublas.so.13",
  "/usr/local/cuda/lib64/libcublas.so.12", "libcublas.so", NULL };

static const char *const dnn_files[] = { "libcudnn.so.9",
                                         "/usr/local/cuda/lib64/libcudnn.so.9", NULL };

typedef struct library {
  const char *const *files;
  const char *advice;             /* what to install */
  const symbol *symbols;
  size_t n;
  void *table;
  int ok;
  char reason[240];               /* why ok is 0 */
} library;

static fl_driver driver_table;
static fl_nvrtc nvrtc_table;
static fl_blaslt blaslt_table;
static fl_cufft fft_table;
static fl_cusolver solver_table;
static fl_cudnn dnn_table;
#define COUNT(a) (sizeof(a) / sizeof *(a))
static library driver_library = { driver_files, "no NVIDIA driver" FL_DO ": install one",
  driver_symbols, COUNT(driver_symbols), &driver_table, 0, "" };
static library nvrtc_library = { nvrtc_files,
  FL_DO "install the CUDA toolkit's NVRTC (package cuda-nvrtc), version 12 or 13",
  nvrtc_symbols, COUNT(nvrtc_symbols), &nvrtc_table, 0, "" };
static library blaslt_library = { blaslt_files,
  FL_DO "install cuBLAS (package libcublas), version 12 or 13",
  blaslt_symbols, COUNT(blaslt_symbols), &blaslt_table, 0, "" };

static library fft_library = { fft_files,
                               FL_DO "install cuFFT (package libcufft); our own kernels serve",
  fft_symbols, COUNT(fft_symbols), &fft_table, 0, "" };
static library solver_library = { solver_files,
  FL_DO "install cuSOLVER (package libcusolver); matrix calls go over the host",
  solver_symbols, COUNT(solver_symbols), &solver_table, 0, "" };
static library blas_library = { blas_files,
  FL_DO "install cuBLAS (package libcublas); matrix calls go over the host",
  blas_symbols, COUNT(blas_symbols), &solver_table, 0, "" };
static library dnn_library = { dnn_files,
                               FL_DO "install cuDNN (package libcudnn9); our own kernels serve",
  dnn_symbols, COUNT(dnn_symbols), &dnn_table, 0, "" };

static void load(library *l) {
  void *h = NULL;
  const char *file = l->files[0];
  for (const char *const *f = l->files; *f && !h; f++) {
    h = dlopen(*f, RTLD_NOW | RTLD_LOCAL);
    if (h) file = *f;
  }
  if (!h) {
    snprintf(l->reason, sizeof l->reason, "%s not found (%s)", file, l->advice);
    return;
  }
  for (size_t i = 0; i < l->n; i++) {
    void *p = dlsym(h, l->symbols[i].name);
    if (!p && l->symbols[i].maybe) continue;
    if (!p) {
      snprintf(l->reason, sizeof l->reason, "%s has no %s: too old (%s)", file,
               l->symbols[i].name, l->advice);
      return;
    }
    memcpy((char *)l->table + l->symbols[i].at, &p, sizeof p);   /* ISO C has no such cast */
  }
  l->ok = 1;
}

static void load_driver(void) { load(&driver_library); }
static void load_nvrtc(void) { load(&nvrtc_library); }
static void load_blaslt(void) { load(&blaslt_library); }
static void load_fft(void) { load(&fft_library); }
static void load_dnn(void) { load(&dnn_library); }
static void load_solver(void) {
  load(&blas_library);
  if (blas_library.ok) load(&solver_library);
}

/* The library's table, or NULL and the reason. */
static const void *opened(const library *l, const char **reason) {
  if (l->ok) return l->table;
  if (reason) *reason = l->reason;
  return NULL;
}

static const fl_driver *get_driver(const char **reason) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_driver);
  return opened(&driver_library, reason);
}

static const fl_nvrtc *get_nvrtc(const char **reason) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_nvrtc);
  return opened(&nvrtc_library, reason);
}

static const fl_blaslt *get_blaslt(const char **reason) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_blaslt);
  return opened(&blaslt_library, reason);
}

static const fl_cufft *get_fft(const char **reason) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_fft);
  return opened(&fft_library, reason);
}

/* Both libraries, or neither. */
static const fl_cusolver *get_solver(const char **reason) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_solver);
  return opened(blas_library.ok ? &solver_library : &blas_library, reason);
}

static const fl_cudnn *get_dnn(const char **reason) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_dnn);
  return opened(&dnn_library, reason);
}

const fl_cuda_lib fl_cuda_libraries = { get_driver, get_nvrtc, get_blaslt, get_fft, get_solver,
                                        get_dnn };
