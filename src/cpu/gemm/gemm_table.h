/* The tiles of gemm_tile.h in f32 and f64, compiled for each instruction set (base/isa.h). */
#include "cpu/gemm/gemm.h"
#include "cpu/vm/vectors.h"
#include <string.h>

enum { ROWS = FL_ISA_LEVEL == 2 ? 12 : FL_ISA_LEVEL == 1 ? 6 : 4, VECTORS = 2 };
#define T float
#define V V32
#define MR ROWS
#define NV VECTORS
#define NAME tile32
#define ONE(x) ONE32(x)
#define FMA(a, b, c) FMA32(a, b, c)
#include "cpu/gemm/gemm_tile.h"
#define T float
#define V V32
#define MR ROWS
#define NV VECTORS / 2
#define NAME half32
#define ONE(x) ONE32(x)
#define FMA(a, b, c) FMA32(a, b, c)
#include "cpu/gemm/gemm_tile.h"
#define T double
#define V V64
#define MR ROWS
#define NV VECTORS
#define NAME tile64
#define ONE(x) ONE64(x)
#define FMA(a, b, c) FMA64(a, b, c)
#include "cpu/gemm/gemm_tile.h"
#define T double
#define V V64
#define MR ROWS
#define NV VECTORS / 2
#define NAME half64
#define ONE(x) ONE64(x)
#define FMA(a, b, c) FMA64(a, b, c)
#include "cpu/gemm/gemm_tile.h"

const fl_gemm FL_ISA_NAME(fl_gemm) = {
  FL_ISA_LEVEL, ROWS, VECTORS * FL_ISA_BYTES / 4, tile32, half32, ROWS, VECTORS * FL_ISA_BYTES / 8,
  tile64, half64
};
