/* cuFFT's types, constants and entry points (cufft.def); spec/c/check_cufft.c
** compares them with its headers. */
#ifndef FL_CUDA_CUFFT_API_H
#define FL_CUDA_CUFFT_API_H
#include "cuda/api/api.h"

typedef unsigned fl_cufft_status, fl_cufft_type;
typedef fl_cu_stream fl_cufft_stream;
typedef void fl_cufft_c32, fl_cufft_r32, fl_cufft_c64, fl_cufft_r64;

enum {
  FL_CUFFT_OK = 0, FL_CUFFT_ALLOC_FAILED = 2, FL_CUFFT_EXEC_FAILED = 6, FL_CUFFT_FORWARD = -1,
  FL_CUFFT_INVERSE = 1, FL_CUFFT_R2C = 0x2a, FL_CUFFT_C2R = 0x2c, FL_CUFFT_C2C = 0x29,
  FL_CUFFT_D2Z = 0x6a, FL_CUFFT_Z2D = 0x6c, FL_CUFFT_Z2Z = 0x69
};

typedef struct fl_cufft {
#define CUFFT(name, params, args) fl_cufft_status (*name) params;
#include "cuda/api/cufft.def"
} fl_cufft;
#endif
