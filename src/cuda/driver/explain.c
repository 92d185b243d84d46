/*
** Why a program can not use a GPU, with what to do about it: results of the driver that have a
** known cause, incompatible versions, cards that NVRTC has no code for. Errors and flame.info()
** take their sentences from here.
*/
#include "cuda/driver/explain.h"
#include "base/error.h"
#include "base/machine.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct { fl_cu_result r; const char *text; } known[] = {
  { FL_CU_OUT_OF_MEMORY, "no memory is left on the GPU" FL_DO
    "; end other processes that nvidia-smi lists, or choose another card by CUDA_VISIBLE_DEVICES" },
  { FL_CU_STUB, "the libcuda.so.1 that was found is the toolkit's stub, not the driver" FL_DO
    "; take the folder lib64/stubs out of LD_LIBRARY_PATH" },
  { FL_CU_UNAVAILABLE, "another process has the GPU for itself (exclusive compute mode)" FL_DO
    "; end that process, or set the mode back by nvidia-smi -c DEFAULT" },
  { FL_CU_NOT_LICENSED, "the virtual GPU has no licence" FL_DO
    "; give this machine a vGPU licence" },
  { FL_CU_OPERATING_SYSTEM, "the system refused what the driver asked for" FL_DO
    "; look whether this user may open /dev/nvidia* (groups video and render)" },
  { FL_CU_NOT_PERMITTED, "this user may not use the GPU" FL_DO
    "; look whether this user may open /dev/nvidia* (groups video and render)" },
  { FL_CU_SYSTEM_NOT_READY, "the NVLink fabric of this machine is not started" FL_DO
    "; start the service nvidia-fabricmanager, in the driver's own version" },
  { FL_CU_DRIVER_MISMATCH, "libcuda.so.1 and the driver's kernel module are of different versions" FL_DO
    "; restart the machine, as after each update of the driver" },
  { FL_CU_COMPAT, "libcuda.so.1 is of the package cuda-compat, which does not serve this card" FL_DO
    "; take the compat folder out of LD_LIBRARY_PATH, and install a newer driver" },
  { FL_CU_UNKNOWN, "the driver gives no reason; often the module nvidia_uvm is not loaded, or was lost "
    "when the machine slept" FL_DO "; run nvidia-modprobe -u, or restart the machine" },
};

const char *fl_cuda_error_name(const fl_driver *cu, fl_cu_result r) {
  const char *name = NULL;
  return cu->GetErrorName(r, &name) == FL_CU_OK && name ? name : "CUDA_ERROR";
}

const char *fl_cuda_error_text(const fl_driver *cu, fl_cu_result r) {
  const char *text = NULL;
  return cu->GetErrorString(r, &text) == FL_CU_OK && text ? text : "no description";
}

void fl_cuda_explain(const fl_driver *cu, fl_cu_result r, const char *call, char *out,
                     size_t size) {
  const char *name = fl_cuda_error_name(cu, r);
  if (r == FL_CU_NO_DEVICE) {
    const int n = snprintf(out, size, "%s: %s: ", call, name);
    if (n > 0 && (size_t)n < size) fl_cuda_explain_none(out + n, size - (size_t)n);
    return;
  }
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (known[i].r != r) continue;
    snprintf(out, size, "%s: %s: %s", call, name, known[i].text);
    return;
  }
  snprintf(out, size, "%s: %s (%s)", call, name, fl_cuda_error_text(cu, r));
}

const char *fl_cuda_explain_lost(fl_cu_result r) {
  switch (r) {
    case FL_CU_ECC_UNCORRECTABLE: case FL_CU_CONTAINED:
      return "; its memory had an error that ECC could not correct" FL_DO
             ": end this program and reset the GPU by nvidia-smi -r; replace it if the error returns";
    case FL_CU_NVLINK_UNCORRECTABLE:
      return "; a link between GPUs failed" FL_DO
             ": end this program and look at nvidia-smi nvlink -e";
    case FL_CU_LAUNCH_TIMEOUT:
      return "; a kernel ran longer than a GPU with a display allows" FL_DO
             ": use smaller launches, or a card without a display";
    default: return NULL;
  }
}

void fl_cuda_explain_none(char *out, size_t size) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  const fl_machine kind = fl_machine_kind();
  if (visible)
    snprintf(out, size, "the NVIDIA driver sees no device, for CUDA_VISIBLE_DEVICES is '%.60s'" FL_DO
             "; unset it, or name a device of nvidia-smi -L", visible);
  else if (kind == FL_MACHINE_WSL)
    snprintf(out, size, "the NVIDIA driver sees no device in WSL2" FL_DO
             "; update the NVIDIA driver of Windows, and WSL itself by wsl --update");
  else if (kind == FL_MACHINE_CONTAINER)
    snprintf(out, size, "the NVIDIA driver sees no device in this container" FL_DO
             "; start it with the GPU, as docker run --gpus all does");
  else
    snprintf(out, size, "the NVIDIA driver sees no device" FL_DO
             "; look at nvidia-smi -L: a card in MIG mode needs an instance (nvidia-smi mig -cgi), "
             "others must be listed");
}

int fl_cuda_fits_driver(int driver, char *out, size_t size) {
  if (driver >= FL_CUDA_LEAST_DRIVER) return 1;
  snprintf(out, size, "the driver is too old: it serves CUDA %d.%d, and 12.0 is needed" FL_DO
           "; install NVIDIA driver 525 or later", driver / 1000, driver % 1000 / 10);
  return 0;
}

/* Is arch among the architectures that NVRTC compiles for? *least, *most: the lowest and the
** highest one. */
static int among(const fl_nvrtc *rtc, int arch, int *least, int *most) {
  int n = 0, list[64];
  if (rtc->nvrtcGetNumSupportedArchs(&n) != FL_RTC_OK || n < 1 || n > 64 ||
      rtc->nvrtcGetSupportedArchs(list) != FL_RTC_OK) return 0;
  *least = list[0];
  *most = list[n - 1];
  for (int i = 0; i < n; i++) if (list[i] == arch) return 1;
  return 0;
}

int fl_cuda_fits_arch(const fl_nvrtc *rtc, int major, int minor, int arch, char *out, size_t size) {
  int least = 0, most = 0;
  if (among(rtc, arch, &least, &most)) return 1;
  if (most == 0) {
    snprintf(out, size, "NVRTC %d.%d does not say which cards it compiles for" FL_DO
             "; install it again", major, minor);
    return 0;
  }
  const char *advice = arch > least ? "; install the NVRTC of a newer CUDA toolkit"
    : arch >= 50 && major > 12 ? "; put NVRTC 12 (libnvrtc.so.12) in the place of this one"
                               : "; use the CPU, or a card of sm_50 or later";
  snprintf(out, size, "the card is not supported: it is sm_%d, and NVRTC %d.%d compiles for sm_%d to "
           "sm_%d" FL_DO "%s", arch, major, minor, least, most, advice);
  return 0;
}

int fl_cuda_fits_version(int major, int minor, int driver, char *out, size_t size) {
  if (major <= driver / 1000) return 1;
  snprintf(out, size, "the driver is too old for NVRTC %d.%d: it serves CUDA %d.%d" FL_DO
           "; install a driver of CUDA %d, or NVRTC %d (libnvrtc.so.%d) beside this one", major, minor,
           driver / 1000, driver % 1000 / 10, major, driver / 1000, driver / 1000);
  return 0;
}

/* The low byte of e_flags is the architecture; from version 8 of the ABI on it is the second
** byte. */
int fl_cuda_image_arch(const void *image, size_t bytes) {
  enum { ABI = 8, MACHINE = 18, FLAGS = 48, HEADER = 64, CUDA = 190 };
  const uint8_t *p = image;
  if (bytes < HEADER || memcmp(p, "\177ELF", 4) != 0 || p[MACHINE] != CUDA) return 0;
  return p[FLAGS + (p[ABI] >= 8)];
}
