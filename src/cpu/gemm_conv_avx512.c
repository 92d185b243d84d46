/* Loops of convolutions for AVX-512; compiled with the flags of its name. */
#include "cpu/gemm_conv.h"
#include "tensor/math.h"
#include <immintrin.h>
#include <string.h>

#define MR 12
#define ALL_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#define T float
#define V __m512
#define N(x) x##32
#define ONE(x) _mm512_set1_ps(x)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#include "cpu/gemm_conv_tile.h"
#define T double
#define V __m512d
#define N(x) x##64
#define ONE(x) _mm512_set1_pd(x)
#define FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#include "cpu/gemm_conv_tile.h"
#include "cpu/gemm_conv_pack.h"

/* Short runs in f32: a vector is put together from masked loads, whose other lanes touch no memory. */
typedef struct piece { __mmask16 mask; int64_t off; } piece;
enum { VECTORS = FL_CONV_KC / 16 };

/* Pieces of each vector of a row; first[v]: of vector v, one more entry. */
static void cut_pieces(int64_t vectors, int runs, const fl_conv_run *run, piece *p, int *first) {
  int n = 0, r = 0;
  for (int v = 0; v < vectors; v++) {
    const int lo = 16 * v, hi = lo + 16;
    first[v] = n;
    for (; r < runs && run[r].at < hi; r++) {
      const int a = run[r].at > lo ? run[r].at - lo : 0, end = run[r].at + run[r].len - lo;
      const unsigned upto = end >= 16 ? 0xffffu : (1u << end) - 1;
      p[n++] = (piece){ (__mmask16)(upto & ~((1u << a) - 1)), run[r].from - run[r].at + lo };
      if (end > 16) break;                                  /* goes on in the next vector */
    }
  }
  first[vectors] = n;
}

static void pack_short(void *b_, int64_t ldb, int64_t width, int64_t n, const void *src, int64_t plane,
                       int64_t step, int runs, const fl_conv_run *run) {
  piece p[2 * FL_CONV_KC];
  int first[VECTORS + 1];
  const int vectors = (int)(width / 16);
  float *b = b_;
  if (step != 1 || runs == 0 || width % 16 != 0 || vectors > VECTORS || (runs == 1 && run[0].len == width)) {
    pack_f32(b_, ldb, width, n, src, plane, step, runs, run);
    return;
  }
  cut_pieces(vectors, runs, run, p, first);
  uintptr_t x = (uintptr_t)src;
  for (int64_t k = 0; k < n; k++, b += ldb, x += (uintptr_t)plane * sizeof *b)
    for (int v = 0; v < vectors; v++) {
      __m512 y = _mm512_setzero_ps();
      for (int i = first[v]; i < first[v + 1]; i++)
        y = _mm512_mask_loadu_ps(y, p[i].mask, (const void *)(x + (uintptr_t)(p[i].off * (int64_t)sizeof *b)));
      _mm512_storeu_ps(b + 16 * v, y);
    }
}

#define IN32(r) { tile_##r##_132, tile_##r##_232 },
#define IN64(r) { tile_##r##_164, tile_##r##_264 },
const fl_conv_loops fl_conv_avx512 = {
  MR, 16, 8, { ALL_ROWS(IN32) }, { ALL_ROWS(IN64) }, { pack_f64, pack_short, pack_f16, pack_bf16 },
  flat32, flat64, dot32, dot64, larger32, larger64, plus32, plus64, mix32, mix64
};
