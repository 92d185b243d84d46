/* Messages for situations in which a GPU can not be used: each is one sentence with the remedy
** (FL_DO). */
#ifndef FL_CUDA_EXPLAIN_H
#define FL_CUDA_EXPLAIN_H
#include "cuda/api/api.h"
#include <stddef.h>

enum { FL_CUDA_LEAST_DRIVER = 12000 };
const char *fl_cuda_error_name(const fl_driver *cu, fl_cu_result r);
const char *fl_cuda_error_text(const fl_driver *cu, fl_cu_result r);
/* Writes to 'out' what it means that 'call', a function of the driver, has returned r. */
void fl_cuda_explain(const fl_driver *cu, fl_cu_result r, const char *call, char *out, size_t size);
/* What to do about a device that was lost by this result; NULL: nothing is known. */
const char *fl_cuda_explain_lost(fl_cu_result r);
/* The message when no device is found. */
void fl_cuda_explain_none(char *out, size_t size);
/* Each returns 0 and writes a sentence in one case. _driver: the driver is too old; _arch: NVRTC
** can not compile for the architecture (major * 10 + minor); _version: NVRTC makes kernels that the
** driver can not load. */
int fl_cuda_fits_driver(int driver, char *out, size_t size);
int fl_cuda_fits_arch(const fl_nvrtc *rtc, int major, int minor, int arch, char *out, size_t size);
int fl_cuda_fits_version(int major, int minor, int driver, char *out, size_t size);
/* The architecture of a cubin; 0: the image is not a cubin. */
int fl_cuda_image_arch(const void *image, size_t bytes);
#endif
