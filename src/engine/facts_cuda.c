/*
** Facts about CUDA on the machine: libraries with their files, cards and what prevents their use
** (versions, MIG, ECC, other processes). NVML provides what the driver does not.
*/
#include "engine/facts.h"
#include "cuda/api/cufft_api.h"
#include "cuda/api/cusolver_api.h"
#include "cuda/api/nvml_api.h"
#include "cuda/driver/explain.h"
#include "device/device.h"
#include <stdio.h>
#include <string.h>

static const double GIB = 1073741824.0;

/* ---- cards ---- */

static void tell_processes(const fl_teller *t, const char *label, const fl_nvml *ml,
                           fl_ml_device card) {
  fl_ml_process p[64];
  fl_ml_memory m = { 0, 0, 0 };
  unsigned n = 64, listed;
  char text[240];
  if (!ml->nvmlDeviceGetMemoryInfo || ml->nvmlDeviceGetMemoryInfo(card, &m) != FL_ML_OK) return;
  const fl_ml_status seen = ml->nvmlDeviceGetComputeRunningProcesses_v3
    ? ml->nvmlDeviceGetComputeRunningProcesses_v3(card, &n, p) : FL_ML_TOO_SMALL + 1;
  if (seen != FL_ML_OK && seen != FL_ML_TOO_SMALL) n = 0;
  listed = seen == FL_ML_OK ? n : 0;              /* more than fit: only their number is reported */
  size_t at = (size_t)snprintf(text, sizeof text, "%.1f of %.1f GiB free, %u process%s on it",
                               (double)m.free / GIB, (double)m.total / GIB, n, n == 1 ? "" : "es");
  for (unsigned i = 0; i < listed && i < 4 && at < sizeof text; i++)
    at += (size_t)snprintf(text + at, sizeof text - at, "%s %u", i ? "," : ":", p[i].pid);
  if (m.free >= m.total / 8) fl_tell(t, label, 1, text);
  else {
    snprintf(text + at, at < sizeof text ? sizeof text - at : 0, "%s",
             FL_DO "; end other processes, or choose another card by CUDA_VISIBLE_DEVICES");
    fl_tell(t, label, 0, text);
  }
}

static void tell_card(const fl_teller *t, const char *label, const fl_nvml *ml, const char *bus) {
  fl_ml_device card;
  unsigned mig = 0, next = 0;
  unsigned long long errors = 0;
  char text[240];
  if (!ml->nvmlDeviceGetHandleByPciBusId_v2 ||
      ml->nvmlDeviceGetHandleByPciBusId_v2(bus, &card) != FL_ML_OK) return;
  tell_processes(t, label, ml, card);
  if (ml->nvmlDeviceGetMigMode && ml->nvmlDeviceGetMigMode(card, &mig, &next) == FL_ML_OK &&
      mig == FL_ML_MIG)
    fl_tell(t, label, 1, "in MIG mode: a process has one instance, with its part of the card" FL_DO
            "; choose another by CUDA_VISIBLE_DEVICES=MIG-… of nvidia-smi -L");
  if (ml->nvmlDeviceGetTotalEccErrors &&
      ml->nvmlDeviceGetTotalEccErrors(card, FL_ML_UNCORRECTED, FL_ML_SINCE_LOAD,
                                      &errors) == FL_ML_OK && errors > 0) {
    snprintf(text, sizeof text, "%llu memory errors that ECC could not correct since the driver was "
             "loaded" FL_DO "; end all programs on it and run nvidia-smi -r, and replace a card "
             "where they return", errors);
    fl_tell(t, label, 0, text);
  }
}

static void tell_device(const fl_teller *t, const fl_driver *cu, const fl_nvml *ml, int i) {
  char name[96] = "?", label[24], text[240], bus[32] = "";
  int major = 0, minor = 0, count = 0, rtc_major = 0, rtc_minor = 0;
  size_t bytes = 0;
  fl_cu_device d;
  if (cu->DeviceGet(&d, i) != FL_CU_OK) return;
  cu->DeviceGetName(name, sizeof name, d);
  cu->DeviceGetAttribute(&major, FL_CU_MAJOR, d);
  cu->DeviceGetAttribute(&minor, FL_CU_MINOR, d);
  cu->DeviceGetAttribute(&count, FL_CU_MULTIPROCESSORS, d);
  cu->DeviceTotalMem(&bytes, d);
  snprintf(label, sizeof label, "cuda:%d", i);
  snprintf(text, sizeof text, "%s, compute capability %d.%d, %d multiprocessors, %.1f GiB", name,
           major, minor, count, (double)bytes / GIB);
  fl_tell(t, label, 1, text);
  const fl_nvrtc *rtc = fl_cuda_libraries.nvrtc(NULL);
  if (rtc) rtc->nvrtcVersion(&rtc_major, &rtc_minor);
  if (rtc && !fl_cuda_fits_arch(rtc, rtc_major, rtc_minor, major * 10 + minor, text, sizeof text))
    fl_tell(t, label, 0, text);
  if (ml && cu->DeviceGetPCIBusId(bus, sizeof bus, d) == FL_CU_OK) tell_card(t, label, ml, bus);
}

/* ---- libraries ---- */

static void tell_driver(const fl_teller *t, const fl_nvml *ml) {
  char text[600], place[400], release[96] = "";
  const fl_driver *cu = fl_cuda_libraries.driver(NULL);
  const int found = fl_cuda_library_place("driver", place, sizeof place);
  const int n = fl_cuda_count(text, sizeof text);
  if (!cu || n == 0) {
    fl_tell(t, "driver", 0, found ? text : place);
    return;
  }
  int version = 0;
  cu->DriverGetVersion(&version);
  if (!ml || !ml->nvmlSystemGetDriverVersion ||
      ml->nvmlSystemGetDriverVersion(release, sizeof release) != FL_ML_OK) release[0] = 0;
  snprintf(text, sizeof text, "%s%sCUDA %d.%d, %d device%s, %s", release, *release ? ", " : "",
           version / 1000, version % 1000 / 10, n, n == 1 ? "" : "s", place);
  fl_tell(t, "driver", 1, text);
}

/* version: "" if none is known. */
static void tell_library(const fl_teller *t, const char *name, const char *version) {
  char text[500], place[400];
  const int found = fl_cuda_library_place(name, place, sizeof place);
  snprintf(text, sizeof text, "%s%s%s", version, *version ? ", " : "", place);
  fl_tell(t, name, found, text);
}

/* Writes a version number with dots: 91100 with unit 10000 as "9.11.0". */
static void dotted(char out[40], long long v, long long unit) {
  snprintf(out, 40, "%lld.%lld.%lld", v / unit, v % unit / 100, v % 100);
}

static void tell_compilers(const fl_teller *t) {
  char version[40] = "", why[300];
  const fl_nvrtc *rtc = fl_cuda_libraries.nvrtc(NULL);
  const fl_driver *cu = fl_cuda_libraries.driver(NULL);
  int major = 0, minor = 0, driver = 0;
  if (rtc) rtc->nvrtcVersion(&major, &minor);
  if (rtc) snprintf(version, sizeof version, "%d.%d", major, minor);
  tell_library(t, "nvrtc", version);
  if (rtc && cu && fl_cuda_count(why, sizeof why) > 0 &&
      cu->DriverGetVersion(&driver) == FL_CU_OK &&
      !fl_cuda_fits_version(major, minor, driver, why, sizeof why)) fl_tell(t, "nvrtc", 0, why);
  const fl_blaslt *lt = fl_cuda_libraries.blaslt(NULL);
  version[0] = 0;
  if (lt) dotted(version, (long long)lt->cublasLtGetVersion(), 10000);
  tell_library(t, "cublaslt", version);
}

static void tell_math(const fl_teller *t) {
  char version[40] = "";
  int v = 0;
  const fl_cufft *fft = fl_cuda_libraries.fft(NULL);
  if (fft && fft->cufftGetVersion(&v) == 0) dotted(version, v, 1000);
  tell_library(t, "cufft", version);
  const fl_cusolver *solver = fl_cuda_libraries.solver(NULL);
  version[0] = 0;
  if (solver && solver->cusolverGetVersion(&v) == 0) dotted(version, v, 1000);
  tell_library(t, fl_cuda_library_place("cublas", (char[8]){ 0 }, 8) ? "cusolver" : "cublas",
               version);
}

static void tell_large(const fl_teller *t) {
  size_t (*dnn)(void) = NULL;
  int (*nccl)(int *) = NULL;
  int v = 0;
  char version[40] = "";
  fl_cuda_library_function("cudnn", "cudnnGetVersion", &dnn);
  if (dnn) dotted(version, (long long)dnn(), 10000);
  tell_library(t, "cudnn", version);
  version[0] = 0;
  fl_cuda_library_function("nccl", "ncclGetVersion", &nccl);
  if (nccl && nccl(&v) == 0) dotted(version, v, 10000);
  tell_library(t, "nccl", version);
}

void fl_facts_cuda(const fl_teller *t, int deep) {
  char text[400];
  const int n = fl_cuda_count(text, sizeof text);
  const fl_nvml *ml = n > 0 ? fl_cuda_libraries.ml(NULL) : NULL;
  if (ml && (!ml->nvmlInit_v2 || ml->nvmlInit_v2() != FL_ML_OK)) ml = NULL;
  tell_driver(t, ml);
  tell_compilers(t);
  if (deep || n > 0) {
    tell_math(t);
    tell_large(t);
  }
  if (n > 0) tell_library(t, "nvml", "");
  for (int i = 0; i < n; i++) tell_device(t, fl_cuda_libraries.driver(NULL), ml, i);
  if (ml && ml->nvmlShutdown) ml->nvmlShutdown();
}
