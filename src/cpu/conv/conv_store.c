/* Stores the sums of a pass. */
#include "cpu/conv/conv.h"
#include "tensor/math.h"
#include <string.h>

void fl_conv_store(const fl_conv_loops *l, int dtype, char *to, int64_t hop, const void *sums,
                   int64_t n) {
  void *out = to;
  if (dtype == FLAME_F64) {
    const double *s = sums;
    for (int64_t i = 0; i < n; i++) ((double *)out)[i * hop] = s[i];
  } else if (dtype == FLAME_F32) {
    const float *s = sums;
    if (hop == 1 && n >= 8 && n <= 16) {           /* short rows, of small planes, are stored
                                                   ** without a call of memcpy */
      memcpy(out, s, 8 * sizeof *s);
      memcpy((float *)out + n - 8, s + n - 8, 8 * sizeof *s);
    } else if (hop == 1) memcpy(out, s, (size_t)n * sizeof *s);
    else
      for (int64_t i = 0; i < n; i++) ((float *)out)[i * hop] = s[i];
  } else if (dtype == FLAME_BF16 && hop == 1) l->narrow(out, sums, n);
  else {
    const float *s = sums;
    for (int64_t i = 0; i < n; i++)
      ((uint16_t *)out)[i * hop] = dtype == FLAME_F16 ? fl_f16_bits(s[i]) : fl_bf16_bits(s[i]);
  }
}
