/* Tile kernels for any machine: 16-byte vectors, product and sum rounded apart. */
#include "cpu/gemm.h"
#include <string.h>

typedef float v4 __attribute__((vector_size(16)));
typedef double v2 __attribute__((vector_size(16)));

#define T float
#define V v4
#define MR 4
#define NV 2
#define NAME tile32
#define ONE(x) ((V){ (x), (x), (x), (x) })
#define FMA(a, b, c) ((a) * (b) + (c))
#include "cpu/gemm_tile.h"
#define T double
#define V v2
#define MR 4
#define NV 2
#define NAME tile64
#define ONE(x) ((V){ (x), (x) })
#define FMA(a, b, c) ((a) * (b) + (c))
#include "cpu/gemm_tile.h"

const fl_gemm fl_gemm_base = { 0, 4, 8, tile32, 4, 4, tile64 };
