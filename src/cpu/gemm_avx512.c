/* Tile kernels for AVX-512; compiled with the flags of its name. */
#include "cpu/gemm.h"
#include <immintrin.h>
#include <string.h>

#define T float
#define V __m512
#define MR 12
#define NV 2
#define NAME tile32
#define ONE(x) _mm512_set1_ps(x)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#include "cpu/gemm_tile.h"
#define T double
#define V __m512d
#define MR 12
#define NV 2
#define NAME tile64
#define ONE(x) _mm512_set1_pd(x)
#define FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#include "cpu/gemm_tile.h"

const fl_gemm fl_gemm_avx512 = { 2, 12, 32, tile32, 12, 16, tile64 };
