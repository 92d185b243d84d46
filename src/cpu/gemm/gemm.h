/* Our own matrix product: a tile kernel per instruction set, and packing around it (gemm.c). */
#ifndef FL_CPU_GEMM_H
#define FL_CPU_GEMM_H
#include <stdint.h>

/* tile: c (mr x nr, row stride ldc) = or += the product of a packed panel of A (k groups of mr)
** and one of B (k groups of nr). Terms are added in order of k, so a result does not depend on
** where in a matrix its tile lies. half: like tile, with nr / 2 columns, for the rest of a row. */
typedef struct fl_gemm {
  int level;                            /* 0 base, 1 AVX2, 2 AVX-512 */
  int mr, nr;                           /* f32 */
  void (*tile)(int64_t k, const float *a, const float *b, float *c, int64_t ldc, int add);
  void (*half)(int64_t k, const float *a, const float *b, float *c, int64_t ldc, int add);
  int mr64, nr64;
  void (*tile64)(int64_t k, const double *a, const double *b, double *c, int64_t ldc, int add);
  void (*half64)(int64_t k, const double *a, const double *b, double *c, int64_t ldc, int add);
} fl_gemm;

extern const fl_gemm fl_gemm_base;
#if defined(__x86_64__)
extern const fl_gemm fl_gemm_avx2, fl_gemm_avx512;
#endif
enum { FL_GEMM_MR = 12, FL_GEMM_NR = 32 };     /* largest of all */
#endif
