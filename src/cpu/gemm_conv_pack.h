/*
** Packing of pixels for convolutions (gemm_conv.h), the same text for every instruction set:
** copies of runs, widened to T. One run that fills the row is the usual case.
*/
#define PACK(name, S, T, FROM) \
  static void name(void *b_, int64_t ldb, int64_t width, int64_t n, const void *src, int64_t plane, \
                   int64_t step, int runs, const fl_conv_run *run) { \
    T *b = b_; \
    const S *x = src; \
    int64_t covered = 0; \
    for (int r = 0; r < runs; r++) covered += run[r].len; \
    if (runs == 1 && step == 1 && covered == 32 && width == 32) { \
      const S *from = x + run[0].from; \
      for (int64_t k = 0; k < n; k++, b += ldb, from += plane) \
        for (int i = 0; i < 32; i++) b[i] = FROM(from[i]); \
      return; \
    } \
    for (int64_t k = 0; k < n; k++, b += ldb, x += plane) { \
      if (covered < width) memset(b, 0, (size_t)width * sizeof *b); \
      for (int r = 0; r < runs; r++) { \
        const S *from = x + run[r].from; \
        T *to = b + run[r].at; \
        const int64_t m = run[r].len; \
        if (step == 1) for (int64_t i = 0; i < m; i++) to[i] = FROM(from[i]); \
        else for (int64_t i = 0; i < m; i++) to[i] = FROM(from[i * step]); \
      } \
    } \
  }
#define AS_IS(v) (v)
PACK(pack_f64, double, double, AS_IS)
PACK(pack_f32, float, float, AS_IS)
PACK(pack_f16, uint16_t, float, fl_f16_value)
PACK(pack_bf16, uint16_t, float, fl_bf16_value)
#undef PACK
#undef AS_IS
