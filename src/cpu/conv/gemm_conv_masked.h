/*
** Packing of short rows by masked loads, and blocks of f32 transposed in registers, which only
** AVX-512 can do. Part of gemm_conv_table.h.
*/
/* Short runs in f32, with step 1 or 2: a vector is combined from masked loads, whose other lanes
** access no memory. mask: the vector's lanes that a piece fills. low, high, for step 2: which of
** the first 16 and of the next 16 elements from 'off' on are loaded for that. */
typedef struct piece { __mmask16 mask, low, high; int64_t off; } piece;
enum { VECTORS = FL_CONV_KC / 16 };

/* Moves bit i of an 8-bit mask to bit 2 i. */
static __mmask16 spread(unsigned m) {
  unsigned r = 0;
  for (int i = 0; i < 8; i++) r |= (m >> i & 1u) << 2 * i;
  return (__mmask16)r;
}

/* Finds the pieces that each vector of a row is made of. Those of vector v are p[first[v]] …
** p[first[v + 1] - 1]. */
static void cut_pieces(int64_t vectors, int64_t step, int runs, const fl_conv_run *run, piece *p,
                       int *first) {
  int n = 0, r = 0;
  for (int v = 0; v < vectors; v++) {
    const int lo = 16 * v, hi = lo + 16;
    first[v] = n;
    for (; r < runs && run[r].at < hi; r++) {
      const int a = run[r].at > lo ? run[r].at - lo : 0, end = run[r].at + run[r].len - lo;
      const unsigned upto = end >= 16 ? 0xffffu : (1u << end) - 1, mask = upto & ~((1u << a) - 1);
      p[n++] = (piece){ (__mmask16)mask, spread(mask), spread(mask >> 8),
                        run[r].from + step * (lo - run[r].at) };
      if (end > 16) break;                                  /* continues in the next vector */
    }
  }
  first[vectors] = n;
}

static const void *element(uintptr_t x, int64_t off) {
  return (const void *)(x + (uintptr_t)(off * 4));
}

/* One vector of a row. */
static __m512 gather_pieces(uintptr_t x, const piece *p, int n, int64_t step, __m512i even) {
  __m512 y = _mm512_setzero_ps();
  if (step == 1)
    for (int i = 0; i < n; i++) y = _mm512_mask_loadu_ps(y, p[i].mask, element(x, p[i].off));
  else
    for (int i = 0; i < n; i++) {
      const __m512 a = _mm512_maskz_loadu_ps(p[i].low, element(x, p[i].off));
      const __m512 b = _mm512_maskz_loadu_ps(p[i].high, element(x, p[i].off + 16));
      y = _mm512_mask_mov_ps(y, p[i].mask, _mm512_permutex2var_ps(a, even, b));
    }
  return y;
}

/* Packs rows that are one vector of one piece. */
static void pack_one(float *b, int64_t ldb, int64_t n, uintptr_t x, int64_t plane,
                     int64_t step, piece p, __mmask16 tail, __m512i even) {
  for (int64_t k = 0; k < n; k++, b += ldb, x += (uintptr_t)plane * sizeof *b)
    _mm512_mask_storeu_ps(b, tail, gather_pieces(x, &p, 1, step, even));
}

/* Packs rows of two vectors of at most two pieces each, without branches. */
static void pack_two(float *b, int64_t ldb, int64_t n, uintptr_t x, int64_t plane, const piece *p,
                     const int *first, __mmask16 tail) {
  piece q[4] = { { 0 } };                                   /* an empty mask reads nothing */
  for (int v = 0; v < 2; v++)
    for (int i = first[v]; i < first[v + 1]; i++) q[2 * v + i - first[v]] = p[i];
  for (int64_t k = 0; k < n; k++, b += ldb, x += (uintptr_t)plane * sizeof *b) {
    const __m512 y = _mm512_maskz_loadu_ps(q[0].mask, element(x, q[0].off));
    const __m512 z = _mm512_maskz_loadu_ps(q[2].mask, element(x, q[2].off));
    _mm512_storeu_ps(b, _mm512_mask_loadu_ps(y, q[1].mask, element(x, q[1].off)));
    _mm512_mask_storeu_ps(b + 16, tail, _mm512_mask_loadu_ps(z, q[3].mask, element(x, q[3].off)));
  }
}

/* Packs a row that is one run: each vector has one piece. */
static void pack_run(float *b, int64_t ldb, int64_t n, uintptr_t x, int64_t plane, const piece *p,
                     int vectors, __mmask16 tail) {
  const piece *last = p + vectors - 1;
  for (int64_t k = 0; k < n; k++, b += ldb, x += (uintptr_t)plane * sizeof *b) {
    for (int v = 0; v < vectors - 1; v++)
      _mm512_storeu_ps(b + 16 * v, _mm512_maskz_loadu_ps(p[v].mask, element(x, p[v].off)));
    _mm512_mask_storeu_ps(b + 16 * (vectors - 1), tail,
                          _mm512_maskz_loadu_ps(last->mask, element(x, last->off)));
  }
}

static void pack_short(void *b_, int64_t ldb, int64_t width, int64_t n, const void *src,
                       int64_t plane, int64_t step, int runs, const fl_conv_run *run) {
  piece p[2 * FL_CONV_KC];
  int first[VECTORS + 1];
  const int vectors = (int)((width + 15) / 16), left = (int)(width - 16 * (vectors - 1)),
            whole = runs == 1 && step == 1 && run[0].len == width;
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  float *b = b_;
  if (vectors < 1) return;
  const __mmask16 tail = (__mmask16)(0xffffu >> (16 - left));
  if (step > 2 || runs == 0 || vectors > VECTORS || whole) {
    pack_f32(b_, ldb, width, n, src, plane, step, runs, run);
    return;
  }
  cut_pieces(vectors, step, runs, run, p, first);
  uintptr_t x = (uintptr_t)src;
  if (vectors == 1 && first[1] - first[0] == 1) {
    pack_one(b, ldb, n, x, plane, step, p[0], tail, even);
    return;
  }
  if (step == 1 && vectors == 2 && first[1] - first[0] <= 2 && first[2] - first[1] <= 2) {
    pack_two(b, ldb, n, x, plane, p, first, tail);
    return;
  }
  if (step == 1 && runs == 1 && first[vectors] == vectors) {
    pack_run(b, ldb, n, x, plane, p, vectors, tail);
    return;
  }
  for (int64_t k = 0; k < n; k++, b += ldb, x += (uintptr_t)plane * sizeof *b)
    for (int v = 0; v < vectors; v++) {
      const __m512 y = gather_pieces(x, p + first[v], first[v + 1] - first[v], step, even);
      if (v < vectors - 1) _mm512_storeu_ps(b + 16 * v, y);
      else _mm512_mask_storeu_ps(b + 16 * v, tail, y);
    }
}

/* The mask of those of the 16 elements from 'at' on that lie in first … end - 1. */
static __mmask16 lanes_in(int64_t at, int64_t first, int64_t end) {
  const int64_t lo = first > at ? first - at : 0, hi = end - at;
  if (lo >= 16 || hi <= lo) return 0;
  return (__mmask16)((0xffffu << lo) & (hi >= 16 ? 0xffffu : (1u << hi) - 1));
}

static void part_pairs(float *even, float *odd, int64_t width, int64_t n, const float *x_,
                       int64_t plane, int64_t first, int64_t end) {
  const __m512i take_even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24,
                                              26, 28, 30);
  const __m512i take_odd = _mm512_or_si512(take_even, _mm512_set1_epi32(1));
  for (int64_t i = 0; i < width; i += 16) {
    const __mmask16 low = lanes_in(2 * i, first, end), high = lanes_in(2 * i + 16, first, end);
    const __mmask16 to = width - i >= 16 ? 0xffffu : (__mmask16)((1u << (width - i)) - 1);
    uintptr_t x = (uintptr_t)x_ + (uintptr_t)(i * 8);
    for (int64_t k = 0; k < n; k++, x += (uintptr_t)plane * 4) {
      const __m512 a = _mm512_maskz_loadu_ps(low, (const void *)x),
                   b = _mm512_maskz_loadu_ps(high, (const void *)(x + 64));
      _mm512_mask_storeu_ps(even + k * width + i, to, _mm512_permutex2var_ps(a, take_even, b));
      _mm512_mask_storeu_ps(odd + k * width + i, to, _mm512_permutex2var_ps(a, take_odd, b));
    }
  }
}

/* Transposes 16 rows of 16 elements: exchanges elements, then pairs, fours and halves. */
static inline void transpose(__m512 r[16]) {
  __m512 t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int k = 0; k < 2; k++) {
      const __m512d a = _mm512_castps_pd(t[i + k]), b = _mm512_castps_pd(t[i + 2 + k]);
      r[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      r[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
  for (int i = 0; i < 16; i += 8)
    for (int k = 0; k < 4; k++) {
      t[i + k] = _mm512_shuffle_f32x4(r[i + k], r[i + 4 + k], 0x88);
      t[i + 4 + k] = _mm512_shuffle_f32x4(r[i + k], r[i + 4 + k], 0xdd);
    }
  for (int k = 0; k < 8; k++) {
    r[k] = _mm512_shuffle_f32x4(t[k], t[8 + k], 0x88);
    r[8 + k] = _mm512_shuffle_f32x4(t[k], t[8 + k], 0xdd);
  }
}

static void turn_f32(float *b, int64_t ldb, int64_t w, const float *from, int64_t plane,
                     int64_t cols, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const int rows = n - i < 16 ? (int)(n - i) : 16;
    const __mmask16 mask = (__mmask16)((1u << rows) - 1);
    for (int64_t j = 0; j < w; j += 16) {
      const __mmask16 part = (__mmask16)(w - j < 16 ? (1u << (w - j)) - 1 : 0xffffu);
      __m512 r[16];
      for (int k = 0; k < 16; k++)
        r[k] = _mm512_maskz_loadu_ps(j + k < cols ? mask : 0,
                                     element((uintptr_t)from, (j + k) * plane + i));
      transpose(r);
      for (int k = 0; k < rows; k++) _mm512_mask_storeu_ps(b + (i + k) * ldb + j, part, r[k]);
    }
  }
}
