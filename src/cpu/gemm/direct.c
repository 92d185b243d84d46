/*
** Plain matrix products: tiny ones, small ones of one or two rows, and all integers and bool
** (integers wrap; a sum of bools is their 'or'). The sums of PIECE columns of a row are in a
** buffer.
*/
#include "cpu/gemm/matmul.h"
#include "tensor/math.h"

enum { PIECE = 512 };

/* ACC: type of the sums; ADD(s, a, b): s + a b in that type; OUT(s): as stored. */
#define DIRECT(name, S, ACC, FROM, ADD, OUT) \
  static void name(const fl_matmul *m, const S *a, const S *b, S *c, const S *bias) { \
    ACC sum[PIECE]; \
    for (int64_t i = 0; i < m->m; i++) \
      for (int64_t j = 0; j < m->n; j += PIECE) { \
        const int64_t n = m->n - j < PIECE ? m->n - j : PIECE, t = m->bs[1]; \
        for (int64_t q = 0; q < n; q++) sum[q] = 0; \
        for (int64_t p = 0; p < m->k; p++) { \
          const ACC x = (ACC)FROM(a[i * m->as[0] + p * m->as[1]]); \
          const S *y = b + p * m->bs[0] + j * t; \
          if (t == 1) for (int64_t q = 0; q < n; q++) sum[q] = ADD(sum[q], x, (ACC)FROM(y[q])); \
          else for (int64_t q = 0; q < n; q++) sum[q] = ADD(sum[q], x, (ACC)FROM(y[q * t])); \
        } \
        for (int64_t q = 0; bias && q < n; q++) sum[q] += (ACC)FROM(bias[j + q]); \
        for (int64_t q = 0; q < n; q++) c[i * m->n + j + q] = (S)OUT(sum[q]); \
      } \
  }
#define AS_IS(x) (x)
#define TRUE_IF(x) ((x) != 0)
#define PLAIN(s, a, b) ((s) + (a) * (b))
#define EITHER(s, a, b) ((s) | ((a) & (b)))
DIRECT(direct_f64, double, double, AS_IS, PLAIN, AS_IS)
DIRECT(direct_f32, float, float, AS_IS, PLAIN, AS_IS)
DIRECT(direct_f16, uint16_t, float, fl_f16_value, PLAIN, fl_f16_bits)
DIRECT(direct_bf16, uint16_t, float, fl_bf16_value, PLAIN, fl_bf16_bits)
DIRECT(direct_i64, uint64_t, uint64_t, AS_IS, PLAIN, AS_IS)
DIRECT(direct_i32, uint32_t, uint32_t, AS_IS, PLAIN, AS_IS)
DIRECT(direct_i16, uint16_t, uint32_t, AS_IS, PLAIN, AS_IS)
DIRECT(direct_i8, uint8_t, uint32_t, AS_IS, PLAIN, AS_IS)
DIRECT(direct_bool, uint8_t, uint32_t, TRUE_IF, EITHER, AS_IS)

void fl_matmul_direct(const fl_matmul *m, const char *a_, const char *b_, char *c_,
                      const char *bias_) {
  const void *a = a_, *b = b_, *bias = bias_;
  void *c = c_;
  switch (m->dtype) {
    case FLAME_F64: direct_f64(m, a, b, c, bias); break;
    case FLAME_F32: direct_f32(m, a, b, c, bias); break;
    case FLAME_F16: direct_f16(m, a, b, c, bias); break;
    case FLAME_BF16: direct_bf16(m, a, b, c, bias); break;
    case FLAME_I64: direct_i64(m, a, b, c, bias); break;
    case FLAME_I32: direct_i32(m, a, b, c, bias); break;
    case FLAME_I16: direct_i16(m, a, b, c, bias); break;
    case FLAME_BOOL: direct_bool(m, a, b, c, bias); break;
    default: direct_i8(m, a, b, c, bias); break;      /* i8, u8: sums have the same low 8 bits */
  }
}
