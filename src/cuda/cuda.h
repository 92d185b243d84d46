/* Opening a CUDA device with libraries other than the real ones, which tests do (device/device.h
** has the usual way). */
#ifndef FL_CUDA_CUDA_H
#define FL_CUDA_CUDA_H
#include "cuda/driver/state.h"

flame_status fl_cuda_open_with(flame_context *c, fl_device *d, int ordinal,
                               const fl_cuda_lib *lib);
#endif
