/* Loops of convolutions for AVX2 and FMA; compiled with the flags of its name. */
#include "cpu/gemm_conv.h"
#include "tensor/math.h"
#include <immintrin.h>
#include <string.h>

#define MR 6
#define ALL_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define T float
#define V __m256
#define N(x) x##32
#define ONE(x) _mm256_set1_ps(x)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#include "cpu/gemm_conv_tile.h"
#define T double
#define V __m256d
#define N(x) x##64
#define ONE(x) _mm256_set1_pd(x)
#define FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#include "cpu/gemm_conv_tile.h"
#include "cpu/gemm_conv_pack.h"

#define IN32(r) { tile_##r##_132, tile_##r##_232 },
#define IN64(r) { tile_##r##_164, tile_##r##_264 },
const fl_conv_loops fl_conv_avx2 = {
  MR, 8, 4, { ALL_ROWS(IN32) }, { ALL_ROWS(IN64) }, { pack_f64, pack_f32, pack_f16, pack_bf16 }, narrow_bf16, NULL,
  flat32, flat64, four32, four64, dot32, dot64, larger32, larger64, plus32, plus64, meet32, meet64,
  turn32, turn64, mix32, mix64
};
