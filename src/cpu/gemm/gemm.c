/*
** Blocks of a matrix product, by our own tile kernel. A block of C (mc x nc) is one unit of
** work: its panels of A and B are packed, kc at a time, into the worker's scratch (about 2 MB,
** the size of a second-level cache), whatever the strides and, for half types, widened to f32.
** C is summed in its own memory, or in f32 scratch for half types, and rounded once.
**
** The order of terms of an element depends only on k (kc is fixed), so results do not depend on
** block sizes, position or workers.
*/
#include "cpu/gemm/matmul.h"
#include "cpu/vm/vm_turn.h"
#include "tensor/math.h"
#include "base/num.h"
#include <string.h>

enum { KC = 256, MC = 480, MC64 = 240, NC = 512 };


/* TURN(y, w, p, s, k, m): y[q * w + j] = p[j * s + q], q < k, j < m; gives 0 if it can not do
** that. */
#define PACK(name, S, T, FROM, TURN) \
  static void name(T *y, const S *x, int64_t n, int64_t k, int64_t s, int64_t t, int w) { \
    for (int64_t i = 0; i < n; i += w) { \
      const int64_t m = fl_min(w, n - i); \
      const S *p = x + i * s; \
      if (s == 1) { \
        for (int64_t q = 0; q < k; q++, p += t, y += w) { \
          for (int64_t j = 0; j < m; j++) y[j] = FROM(p[j]); \
          for (int64_t j = m; j < w; j++) y[j] = 0; \
        } \
        continue; \
      } \
      if (t != 1 || !TURN(y, w, p, s, k, m)) \
        for (int64_t j = 0; j < m; j++) \
          for (int64_t q = 0; q < k; q++) y[q * w + j] = FROM(p[j * s + q * t]); \
      for (int64_t j = m; j < w; j++) \
        for (int64_t q = 0; q < k; q++) y[q * w + j] = 0; \
      y += k * w; \
    } \
  }
#define AS_IS(x) (x)
#define TURN_4(y, w, p, s, k, m) (turn_4_bytes(y, w, p, s, k, m, 1), 1)
#define TURN_8(y, w, p, s, k, m) (turn_8_bytes(y, w, p, s, k, m, 1), 1)
#define NO_TURN(y, w, p, s, k, m) 0
PACK(pack_f64, double, double, AS_IS, TURN_8)
PACK(pack_f32, float, float, AS_IS, TURN_4)
PACK(pack_f16, uint16_t, float, fl_f16_value, NO_TURN)
PACK(pack_bf16, uint16_t, float, fl_bf16_value, NO_TURN)

void fl_gemm_pack(int dtype, void *y, const char *x, int64_t n, int64_t k, int64_t s,
                  int64_t t, int w) {
  const void *p = x;
  if (dtype == FLAME_F64) pack_f64(y, p, n, k, s, t, w);
  else if (dtype == FLAME_F32) pack_f32(y, p, n, k, s, t, w);
  else if (dtype == FLAME_F16) pack_f16(y, p, n, k, s, t, w);
  else pack_bf16(y, p, n, k, s, t, w);
}

/* Computes all tiles of a packed block; the columns from 'whole' on are in panels of half the
** width. Tiles at the edge are computed in a buffer. */
#define TILES(name, T, MR, NR, TILE, HALF) \
  static void name(const fl_gemm *g, int64_t m, int64_t n, int64_t whole, int64_t k, const T *a, \
                   const T *b, T *c, int64_t ldc, int add) { \
    T edge[FL_GEMM_MR * FL_GEMM_NR]; \
    for (int64_t j = 0, nr; j < n; j += nr, b += k * nr) { \
      const T *pa = a; \
      nr = j < whole ? g->NR : g->NR / 2; \
      for (int64_t i = 0; i < m; i += g->MR, pa += k * g->MR) { \
        T *out = c + i * ldc + j; \
        const int64_t mi = fl_min(g->MR, m - i), nj = fl_min(nr, n - j); \
        const int fits = mi == g->MR && nj == nr; \
        (j < whole ? g->TILE : g->HALF)(k, pa, b, fits ? out : edge, fits ? ldc : nr, \
                                        fits && add); \
        for (int64_t r = 0; r < mi && !fits; r++) \
          for (int64_t q = 0; q < nj; q++) \
            out[r * ldc + q] = add ? out[r * ldc + q] + edge[r * nr + q] : edge[r * nr + q]; \
      } \
    } \
  }
TILES(tiles_f32, float, mr, nr, tile, half)
TILES(tiles_f64, double, mr64, nr64, tile64, half64)

/* Packs B's panels; those of half the width begin at the column that is returned. */
static int64_t pack_columns(int dtype, void *y, const char *x, int64_t n, int64_t k, int64_t s,
                            int64_t t, int w, int64_t size) {
  const int64_t rest = n % w, whole = rest > 0 && rest <= w / 2 ? n - rest : n;
  const int64_t packed = size == 8 ? 8 : 4;
  fl_gemm_pack(dtype, y, x, whole, k, s, t, w);
  fl_gemm_pack(dtype, (char *)y + whole * k * packed, x + whole * s * size, n - whole, k, s, t,
               w / 2);
  return whole;
}

static void add_row(int dtype, float *x, const uint16_t *bias, int64_t n) {
  if (dtype == FLAME_F16) for (int64_t i = 0; i < n; i++) x[i] += fl_f16_value(bias[i]);
  else for (int64_t i = 0; i < n; i++) x[i] += fl_bf16_value(bias[i]);
}

static void narrow(int dtype, uint16_t *y, const float *x, int64_t n) {
  if (dtype == FLAME_F16) for (int64_t i = 0; i < n; i++) y[i] = fl_f16_bits(x[i]);
  else for (int64_t i = 0; i < n; i++) y[i] = fl_bf16_bits(x[i]);
}

/* Chooses block sizes: equal parts, and enough of them for the workers. */
void fl_gemm_blocks(const fl_matmul *m, const fl_gemm *g, int width, int64_t batches,
                    fl_gemm_shape *s) {
  const int wide = m->dtype == FLAME_F64, mr = wide ? g->mr64 : g->mr, nr = wide ? g->nr64 : g->nr;
  int64_t mb = fl_ceil_div(m->m, wide ? MC64 : MC), nb = fl_ceil_div(m->n, NC);
  while (batches * mb * nb < width && m->m * m->n / (mb * nb) > 64 * 64) {
    if (m->m / mb > m->n / nb) mb++;
    else nb++;
  }
  s->mc = fl_round_up(fl_ceil_div(m->m, mb), mr);
  s->nc = fl_round_up(fl_ceil_div(m->n, nb), nr);
  s->mb = fl_ceil_div(m->m, s->mc);
  s->nb = fl_ceil_div(m->n, s->nc);
}

/* The bytes of a worker's scratch: packed A, packed B, and C for half types. */
int64_t fl_gemm_scratch(void) {
  return (MC + 64) * KC * 8 + (NC + 64) * KC * 8 + (MC + 64) * (NC + 64) * 4;
}

void fl_gemm_block(const fl_matmul *m, const fl_gemm *g, const fl_gemm_shape *s, int64_t block,
                   const char *a, const char *b, char *c, const char *bias, char *scratch) {
  const int wide = m->dtype == FLAME_F64, half = fl_dtype_size(m->dtype) == 2;
  const int64_t size = fl_dtype_size(m->dtype), i = block / s->nb * s->mc,
                j = block % s->nb * s->nc;
  const int64_t mc = fl_min(s->mc, m->m - i), nc = fl_min(s->nc, m->n - j);
  char *pa = scratch, *pb = scratch + (MC + 64) * KC * 8, *wc = pb + (NC + 64) * KC * 8;
  char *out = half ? wc : c + (i * m->n + j) * size;
  const int64_t ldc = half ? nc : m->n;
  for (int64_t p = 0; p < m->k; p += KC) {
    const int64_t kc = fl_min(KC, m->k - p);
    fl_gemm_pack(m->dtype, pa, a + (i * m->as[0] + p * m->as[1]) * size, mc, kc, m->as[0], m->as[1],
                 wide ? g->mr64 : g->mr);
    const int64_t whole = pack_columns(m->dtype, pb, b + (p * m->bs[0] + j * m->bs[1]) * size, nc,
                                       kc, m->bs[1], m->bs[0], wide ? g->nr64 : g->nr, size);
    if (wide) tiles_f64(g, mc, nc, whole, kc, (void *)pa, (void *)pb, (void *)out, ldc, p > 0);
    else tiles_f32(g, mc, nc, whole, kc, (void *)pa, (void *)pb, (void *)out, ldc, p > 0);
  }
  for (int64_t r = 0; half && r < mc; r++) {
    float *row = (float *)(void *)wc + r * nc;
    if (bias) add_row(m->dtype, row, (const uint16_t *)(const void *)bias + j, nc);
    narrow(m->dtype, (uint16_t *)(void *)(c + ((i + r) * m->n + j) * size), row, nc);
  }
}
