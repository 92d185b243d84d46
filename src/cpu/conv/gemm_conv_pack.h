/*
** Packing of pixels for convolutions (gemm_conv.h), the same text for every instruction set:
** copies of runs, widened to T. One run that fills the row is the usual case.
*/
/* Short runs of f32, of neighbours or of every other value, are copied in pieces of 8 or 4, of
** which the last two of a run may overlap; positions that no run reaches are cleared one by one if
** they are few, otherwise the whole row is cleared. */
enum { PIECES = 40, GAPS = 8 };
typedef struct pieces { int n, gaps, gap[GAPS]; int32_t to[PIECES]; int64_t from[PIECES]; } pieces;

static int cut_runs(pieces *p, int64_t width, int64_t step, int runs, const fl_conv_run *run) {
  const int each = step == 1 ? 8 : 4;
  int64_t end = 0, free = width;
  p->n = p->gaps = 0;
  if (step > 2) return 0;
  for (int r = 0; r < runs; r++) {
    const fl_conv_run *v = &run[r];
    if (v->len < each || p->n + v->len / each + 1 > PIECES) return 0;
    free -= v->len;
    for (int32_t i = 0; i < v->len; i += each) {
      const int32_t at = i + each <= v->len ? i : v->len - each;
      p->to[p->n] = v->at + at;
      p->from[p->n++] = v->from + at * step;
    }
  }
  for (int r = 0; free <= GAPS && r <= runs; r++) {
    for (const int64_t next = r < runs ? run[r].at : width; end < next; end++)
      p->gap[p->gaps++] = (int)end;
    if (r < runs) end = run[r].at + run[r].len;
  }
  if (free > GAPS) p->gaps = -1;
  return 1;
}

static inline void four_evens(float *to, const float *x) {
  typedef float four __attribute__((vector_size(16)));
  four a, b;
  memcpy(&a, x, sizeof a);
  memcpy(&b, x + 3, sizeof b);                   /* not x + 4: nothing after x[6], the last value,
                                                 ** is read */
#ifdef __x86_64__
  __asm__("" : "+x"(a), "+x"(b));                /* forces vector loads; otherwise the compiler
                                                 ** loads each value by itself */
#endif
  a = (four){ a[0], a[2], b[1], b[3] };
  memcpy(to, &a, sizeof a);
}

static int pack_pieces(float *b, int64_t ldb, int64_t width, int64_t n, const float *x,
                       int64_t plane, int64_t step, int runs, const fl_conv_run *run) {
  pieces p;
  if (!cut_runs(&p, width, step, runs, run)) return 0;
  for (int64_t k = 0; k < n; k++, b += ldb, x += plane) {
    /* volatile: otherwise the compiler makes the loop below a call of memset */
    volatile float *single = b;
    if (p.gaps < 0) memset(b, 0, (size_t)width * sizeof *b);
    for (int g = 0; g < p.gaps; g++) single[p.gap[g]] = 0;
    if (step == 1) for (int i = 0; i < p.n; i++) memcpy(b + p.to[i], x + p.from[i], 8 * sizeof *b);
    else for (int i = 0; i < p.n; i++) four_evens(b + p.to[i], x + p.from[i]);
  }
  return 1;
}
#define NOT(...) 0
#define PACK(name, S, T, FROM, SHORT) \
  static void name(void *b_, int64_t ldb, int64_t width, int64_t n, const void *src, \
                   int64_t plane, \
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
    if (SHORT(b, ldb, width, n, x, plane, step, runs, run)) return; \
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
PACK(pack_f64, double, double, AS_IS, NOT)
PACK(pack_f32, float, float, AS_IS, pack_pieces)
PACK(pack_f16, uint16_t, float, fl_f16_value, NOT)
PACK(pack_bf16, uint16_t, float, fl_bf16_value, NOT)
#undef PACK
#undef NOT
#undef AS_IS

static void narrow_bf16(uint16_t *restrict to, const float *restrict x, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = fl_bf16_bits(x[i]);
}
