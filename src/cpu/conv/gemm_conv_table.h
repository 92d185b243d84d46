/* The loops of convolutions (gemm_conv.h) in f32 and f64, compiled for each
** instruction set (base/isa.h). */
#include "cpu/conv/gemm_conv.h"
#include "cpu/vm/vectors.h"
#include "tensor/math.h"
#include <string.h>

/* MR: most rows of a tile; ALL_ROWS(X): X(n) for each number n of rows */
#if defined(__AVX512F__)
#define MR 12
#define ALL_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#elif defined(__AVX2__)
#define MR 6
#define ALL_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
#define MR 4
#define ALL_ROWS(X) X(1) X(2) X(3) X(4)
#endif
#define T float
#define V V32
#define N(x) x##32
#define ONE(x) ONE32(x)
#define FMA(a, b, c) FMA32(a, b, c)
#include "cpu/conv/gemm_conv_tile.h"
#define T double
#define V V64
#define N(x) x##64
#define ONE(x) ONE64(x)
#define FMA(a, b, c) FMA64(a, b, c)
#include "cpu/conv/gemm_conv_tile.h"
#include "cpu/conv/gemm_conv_pack.h"
#if defined(__AVX512F__)
#include "cpu/conv/gemm_conv_masked.h"
#define SHORT pack_short
#define PAIRS part_pairs
#define TURN turn_f32
#else
#define SHORT pack_f32
#define PAIRS NULL
#define TURN turn32
#endif

#define IN32(r) { tile_##r##_132, tile_##r##_232 },
#define IN64(r) { tile_##r##_164, tile_##r##_264 },
const fl_conv_loops FL_ISA_NAME(fl_conv) = {
  MR, FL_ISA_BYTES / 4, FL_ISA_BYTES / 8, { ALL_ROWS(IN32) }, { ALL_ROWS(IN64) },
  { pack_f64, SHORT, pack_f16, pack_bf16 }, narrow_bf16, PAIRS,
  flat32, flat64, four32, four64, dot32, dot64, larger32, larger64, plus32, plus64, meet32, meet64,
  TURN, turn64, mix32, mix64
};
