/* Loops of convolutions for any machine: vectors of 128 bits, product and sum rounded each. */
#include "cpu/gemm_conv.h"
#include "tensor/math.h"
#include <string.h>

typedef float v32 __attribute__((vector_size(16)));
typedef double v64 __attribute__((vector_size(16)));
#define MR 4
#define ALL_ROWS(X) X(1) X(2) X(3) X(4)
#define T float
#define V v32
#define N(x) x##32
#define ONE(x) ((v32){ x, x, x, x })
#define FMA(a, b, c) ((a) * (b) + (c))
#include "cpu/gemm_conv_tile.h"
#define T double
#define V v64
#define N(x) x##64
#define ONE(x) ((v64){ x, x })
#define FMA(a, b, c) ((a) * (b) + (c))
#include "cpu/gemm_conv_tile.h"
#include "cpu/gemm_conv_pack.h"

#define IN32(r) { tile_##r##_132, tile_##r##_232 },
#define IN64(r) { tile_##r##_164, tile_##r##_264 },
const fl_conv_loops fl_conv_base = {
  MR, 4, 2, { ALL_ROWS(IN32) }, { ALL_ROWS(IN64) }, { pack_f64, pack_f32, pack_f16, pack_bf16 }, narrow_bf16, NULL,
  flat32, flat64, four32, four64, dot32, dot64, larger32, larger64, plus32, plus64, meet32, meet64,
  turn32, turn64, mix32, mix64
};
