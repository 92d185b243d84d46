/*
** The loader: opens the CUDA driver, NVRTC, cuBLASLt, cuFFT, cuSOLVER, cuBLAS, cuDNN, NCCL and
** NVML, each with dlopen at its first use, and looks up the entry points that the .def files in
** this folder list. All contexts of the process share the tables, which are filled once under a
** lock, then only read. Handles of dlopen are never closed: other contexts, and threads of the
** driver itself, may still be using them.
*/
#include "cuda/api/cudnn_api.h"
#include "base/env.h"
#include "base/error.h"
#include "cuda/api/cufft_api.h"
#include "cuda/api/cusolver_api.h"
#include "cuda/api/nccl_api.h"
#include "cuda/api/nvml_api.h"
#include "base/machine.h"
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct symbol {
  const char *name;
  size_t at;                      /* offset in the table */
  int maybe;             /* 1: the symbol is optional, and its entry NULL if the library lacks it */
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
static const symbol nccl_symbols[] = {
#define NCCL(name, params, args) { #name, offsetof(fl_nccl_api, name), 0 },
#define NCCL_VALUE(type, name, params, args) { #name, offsetof(fl_nccl_api, name), 0 },
#include "cuda/api/nccl.def"
};
static const symbol ml_symbols[] = {
#define NVML(name, params, args) { #name, offsetof(fl_nvml, name), 1 },
#include "cuda/api/nvml.def"
};

/* File names to try, in this order: by the loader's search path, where the toolkit installs, and
** without a version. In both places CUDA 13 comes before CUDA 12; but with a driver of CUDA 12,
** which can not load what CUDA 13 compiles, both files of CUDA 12 are tried first. */
#define TOOLKIT(new, old, plain) \
  { new, old, "/usr/local/cuda/lib64/" new, "/usr/local/cuda/lib64/" old, plain, NULL }
#define TOOLKIT_FILES 5
static const char *const driver_files[] = { "libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", NULL };
static const char *const nvrtc_files[] = TOOLKIT("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so");
static const char *const blaslt_files[] =
  TOOLKIT("libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so");
static const char *const fft_files[] = TOOLKIT("libcufft.so.12", "libcufft.so.11", "libcufft.so");
static const char *const solver_files[] =
  TOOLKIT("libcusolver.so.12", "libcusolver.so.11", "libcusolver.so");
static const char *const blas_files[] =
  TOOLKIT("libcublas.so.13", "libcublas.so.12", "libcublas.so");
static const char *const dnn_files[] = { "libcudnn.so.9",
                                         "/usr/local/cuda/lib64/libcudnn.so.9", NULL };
static const char *const nccl_files[] = { "libnccl.so.2",
                                          "/usr/local/cuda/lib64/libnccl.so.2", NULL };
static const char *const ml_files[] = { "libnvidia-ml.so.1",
                                        "/usr/lib/wsl/lib/libnvidia-ml.so.1", NULL };

typedef struct library {
  const char *name;
  const char *const *files;
  const char *advice;             /* what to install if there is no such file; NULL: what
                                  ** driver_advice says */
  const char *old;                /* what to install if the file can not be loaded or lacks a
                                  ** symbol; NULL: as advice */
  const symbol *symbols;
  size_t n;
  void *table, *handle;
  uint8_t toolkit;                /* files is a TOOLKIT */
  uint8_t tried, ok;
  char reason[320];               /* why ok is 0 */
} library;

static fl_driver driver_table;
static fl_nvrtc nvrtc_table;
static fl_blaslt blaslt_table;
static fl_cufft fft_table;
static fl_cusolver solver_table;
static fl_cudnn dnn_table;
static fl_nccl_api nccl_table;
static fl_nvml ml_table;
#define COUNT(a) (sizeof(a) / sizeof *(a))
enum { DRIVER, NVRTC, BLASLT, FFT, SOLVER, BLAS, DNN, NCCL, ML, LIBRARIES };
static library libraries[LIBRARIES] = {
  [DRIVER] = { "driver", driver_files, NULL, FL_DO "install NVIDIA driver 525 or later",
    driver_symbols, COUNT(driver_symbols), &driver_table, NULL, 0, 0, 0, "" },
  [NVRTC] = { "nvrtc", nvrtc_files,
    FL_DO "install the CUDA toolkit's NVRTC (package cuda-nvrtc), version 12 or 13", NULL,
    nvrtc_symbols, COUNT(nvrtc_symbols), &nvrtc_table, NULL, 1, 0, 0, "" },
  [BLASLT] = { "cublaslt", blaslt_files,
    FL_DO "install cuBLAS (package libcublas), version 12 or 13", NULL,
    blaslt_symbols, COUNT(blaslt_symbols), &blaslt_table, NULL, 1, 0, 0, "" },
  [FFT] = { "cufft", fft_files, FL_DO "install cuFFT (package libcufft); our own kernels serve", NULL,
    fft_symbols, COUNT(fft_symbols), &fft_table, NULL, 1, 0, 0, "" },
  [SOLVER] = { "cusolver", solver_files,
    FL_DO "install cuSOLVER (package libcusolver); matrix calls go over the host", NULL,
    solver_symbols, COUNT(solver_symbols), &solver_table, NULL, 1, 0, 0, "" },
  [BLAS] = { "cublas", blas_files,
    FL_DO "install cuBLAS (package libcublas); matrix calls go over the host", NULL,
    blas_symbols, COUNT(blas_symbols), &solver_table, NULL, 1, 0, 0, "" },
  [DNN] = { "cudnn", dnn_files, FL_DO "install cuDNN (package libcudnn9); our own kernels serve", NULL,
    dnn_symbols, COUNT(dnn_symbols), &dnn_table, NULL, 0, 0, 0, "" },
  [NCCL] = { "nccl", nccl_files,
    FL_DO "install NCCL (package libnccl2); several GPUs alone need it", NULL,
    nccl_symbols, COUNT(nccl_symbols), &nccl_table, NULL, 0, 0, 0, "" },
  [ML] = { "nvml", ml_files, FL_DO "install the driver's NVML (package libnvidia-ml1)", NULL,
    ml_symbols, COUNT(ml_symbols), &ml_table, NULL, 0, 0, 0, "" },
};

/* What to do about a missing driver, which depends on the kind of machine. */
static const char *driver_advice(void) {
  switch (fl_machine_kind()) {
    case FL_MACHINE_WSL:
      return "no NVIDIA driver in WSL2" FL_DO ": install the NVIDIA driver in Windows, none here, "
             "and look that /usr/lib/wsl/lib is there";
    case FL_MACHINE_CONTAINER:
      return "no NVIDIA driver in this container" FL_DO ": start it with the GPU, as docker run "
             "--gpus all does, with the NVIDIA Container Toolkit on the host";
    default: return fl_machine_has("/proc/driver/nvidia/version")
      ? "the driver's kernel module is there, its library is not" FL_DO
        ": install the library (package libcuda1) of the same version"
      : "no NVIDIA driver" FL_DO ": install one";
  }
}

/* Opens the file. 0: it can not be opened; l->reason tells why, of the first file that exists. */
static int open_file(library *l, const char *file) {
  char path[512];
  const char *at = fl_machine_path(file, path, sizeof path);
  l->handle = dlopen(at, RTLD_NOW | RTLD_LOCAL);
  if (l->handle) return 1;
  const char *why = dlerror();
  const size_t n = strlen(at);
  if (why && !l->reason[0] && (strncmp(why, at, n) != 0 || !strstr(why + n, "No such file")))
    snprintf(l->reason, sizeof l->reason, "%s can not be loaded: %.150s", file, why);
  return 0;
}

static int not_found(library *l, const char *file) {
  const char *advice = l->advice ? l->advice : driver_advice();
  const size_t n = strlen(l->reason);
  if (n) snprintf(l->reason + n, sizeof l->reason - n, " (%s)", l->old ? l->old : advice);
  else snprintf(l->reason, sizeof l->reason, "%s not found (%s)", file, advice);
  return 0;
}

/* The files to try. For NCCL, the value of FLAME_NCCL replaces the list if it is set; it is put
** into 'one'. */
static const char *const *files_of(const library *l, const char *one[2]) {
  one[0] = l == &libraries[NCCL] ? fl_env(FL_ENV_FLAME_NCCL) : "";
  one[1] = NULL;
  return *one[0] ? one : l->files;
}

static int is_off(const char *const *files) { return strcmp(files[0], "off") == 0; }

static int open_library(library *l, int driver) {
  const char *one[2];
  const char *const *files = files_of(l, one);
  if (is_off(files)) return snprintf(l->reason, sizeof l->reason, "FLAME_NCCL is off"), 0;
  if (l->toolkit && driver == 12)
    for (int i = 1; i < TOOLKIT_FILES; i += 2) if (open_file(l, files[i])) return 1;
  for (const char *const *f = files; *f; f++) if (open_file(l, *f)) return 1;
  return not_found(l, files[0]);
}

static void load(library *l, int driver) {
  const char *one[2];
  if (!open_library(l, driver)) return;
  for (size_t i = 0; i < l->n; i++) {
    void *p = dlsym(l->handle, l->symbols[i].name);
    if (!p && l->symbols[i].maybe) continue;
    if (!p) {
      snprintf(l->reason, sizeof l->reason, "%s has no %s: too old (%s)", files_of(l, one)[0],
               l->symbols[i].name, l->old ? l->old : l->advice);
      return;
    }
    memcpy((char *)l->table + l->symbols[i].at, &p, sizeof p);   /* ISO C has no such cast */
  }
  l->ok = 1;
}

/* The library, which is opened once; NULL: it can not be opened, and *reason says why. */
static const library *opened(int which, const char **reason) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  library *l = &libraries[which];
  int version = 0;
  if (l->toolkit && opened(DRIVER, NULL)) driver_table.DriverGetVersion(&version);
  pthread_mutex_lock(&lock);
  if (!l->tried) load(l, version / 1000);
  l->tried = 1;
  pthread_mutex_unlock(&lock);
  if (!l->ok && reason) *reason = l->reason;
  return l->ok ? l : NULL;
}

static const void *table(int which, const char **reason) {
  const library *l = opened(which, reason);
  return l ? l->table : NULL;
}

static const fl_driver *get_driver(const char **reason) { return table(DRIVER, reason); }
static const fl_nvrtc *get_nvrtc(const char **reason) { return table(NVRTC, reason); }
static const fl_blaslt *get_blaslt(const char **reason) { return table(BLASLT, reason); }
static const fl_cufft *get_fft(const char **reason) { return table(FFT, reason); }
static const fl_cudnn *get_dnn(const char **reason) { return table(DNN, reason); }
static const fl_nccl_api *get_nccl(const char **reason) { return table(NCCL, reason); }
static const fl_nvml *get_ml(const char **reason) { return table(ML, reason); }

/* cuSOLVER is used with cuBLAS only, so NULL if one of the two can not be opened. */
static const fl_cusolver *get_solver(const char **reason) {
  return opened(BLAS, reason) ? table(SOLVER, reason) : NULL;
}

const fl_cuda_lib fl_cuda_libraries = { get_driver, get_nvrtc, get_blaslt, get_fft, get_solver,
                                        get_dnn, get_ml, get_nccl };

static int find_library(const char *name) {
  int i = 0;
  while (strcmp(libraries[i].name, name) != 0) i++;
  return i;
}

int fl_cuda_library_place(const char *name, char *text, size_t size) {
  const char *why = "", *one[2];
  const library *l = opened(find_library(name), &why);
  struct link_map *map = NULL;
  if (l) {
    dlinfo(l->handle, RTLD_DI_LINKMAP, &map);
    snprintf(text, size, "%s", map ? map->l_name : l->files[0]);
    return 1;
  }
  const char *const *f = files_of(&libraries[find_library(name)], one);
  const int off = is_off(f);
  size_t n = (size_t)snprintf(text, size, "%s%s", why, off ? "" : "; looked for: ");
  for (; *f && n < size && !off; f++)
    n += (size_t)snprintf(text + n, size - n, "%s%s", *f, f[1] ? ", " : "");
  return 0;
}

void fl_cuda_library_function(const char *name, const char *symbol, void *out) {
  const library *l = opened(find_library(name), NULL);
  void *p = l ? dlsym(l->handle, symbol) : NULL;
  memcpy(out, &p, sizeof p);
}
