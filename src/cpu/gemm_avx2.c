/* Tile kernels for AVX2 and FMA; compiled with the flags of its name. */
#include "cpu/gemm.h"
#include <immintrin.h>
#include <string.h>

#define T float
#define V __m256
#define MR 6
#define NV 2
#define NAME tile32
#define ONE(x) _mm256_set1_ps(x)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#include "cpu/gemm_tile.h"
#define T double
#define V __m256d
#define MR 6
#define NV 2
#define NAME tile64
#define ONE(x) _mm256_set1_pd(x)
#define FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#include "cpu/gemm_tile.h"

const fl_gemm fl_gemm_avx2 = { 1, 6, 16, tile32, 6, 8, tile64 };
