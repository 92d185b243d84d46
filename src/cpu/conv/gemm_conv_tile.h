/*
** Tiles, flat sums and dot products of convolutions, rows of pooling (gemm_conv.h), included once
** per type with T, V (vector of T), MR (most rows), N(x) (the name of x for T), ONE(x) (all lanes
** x) and FMA(a, b, c). Vectors are read and written one by one: an array of them would be copied
** through memory by halves, and then each load of a whole vector waits for two stores.
*/
static inline __attribute__((always_inline)) void
N(body)(const int rows, const int nv, int64_t k, const T *a, const T *b, const int32_t *off,
        int64_t second, T *c, int64_t ldc, int add) {
  enum { L = sizeof(V) / sizeof(T) };
  V acc[MR][2];
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
    for (int j = 0; j < nv; j++) acc[i][j] = (V){ 0 };
  for (int64_t p = 0; p < k; p++, a++) {
    const T *at = b + off[p];
    V row[2];
#pragma GCC unroll 2
    for (int j = 0; j < nv; j++) memcpy(&row[j], at + j * second, sizeof(V));
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
      const V x = ONE(a[i * FL_CONV_LDA]);
#pragma GCC unroll 2
      for (int j = 0; j < nv; j++) acc[i][j] = FMA(x, row[j], acc[i][j]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
    for (int j = 0; j < nv; j++) {
      V y = acc[i][j];
      if (add) {
        V old;
        memcpy(&old, c + i * ldc + j * L, sizeof(V));
        y = old + y;
      }
      memcpy(c + i * ldc + j * L, &y, sizeof(V));
    }
}
#define ROWS(r) \
  static void N(tile_##r##_1)(int64_t k, const T *a, const T *b, const int32_t *off, \
                              int64_t second, T *c, int64_t ldc, \
                              int add) { \
    N(body)(r, 1, k, a, b, off, second, c, ldc, add); \
  } \
  static void N(tile_##r##_2)(int64_t k, const T *a, const T *b, const int32_t *off, \
                              int64_t second, T *c, int64_t ldc, \
                              int add) { \
    N(body)(r, 2, k, a, b, off, second, c, ldc, add); \
  }
ALL_ROWS(ROWS)
#undef ROWS

static void N(flat)(T *y, int64_t n, int taps, const T *const *x, const T *w, int add) {
  enum { L = sizeof(V) / sizeof(T) };
  for (int64_t i = 0; i < n; i += 4 * L) {
    V s[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
      s[j] = (V){ 0 };
      if (add) memcpy(&s[j], y + i + j * L, sizeof(V));
    }
    for (int t = 0; t < taps; t++) {
      const V f = ONE(w[t]);
      V v[4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; j++) memcpy(&v[j], x[t] + i + j * L, sizeof(V));
#pragma GCC unroll 4
      for (int j = 0; j < 4; j++) s[j] = FMA(f, v[j], s[j]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) memcpy(y + i + j * L, &s[j], sizeof(V));
  }
}

static void N(four)(T *y, int64_t ldy, int64_t n, int taps, const T *const *x, const T *w,
                    int add) {
  /* vectors: by the number of registers */
  enum { L = sizeof(V) / sizeof(T), WIDE = MR > 8 ? 4 : 2 };
  for (int64_t i = 0; i < n; i += WIDE * L) {
    V s[4][WIDE];
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++)
#pragma GCC unroll 4
      for (int j = 0; j < WIDE; j++) {
        s[r][j] = (V){ 0 };
        if (add) memcpy(&s[r][j], y + r * ldy + i + j * L, sizeof(V));
      }
    for (int t = 0; t < taps; t++) {
      V v[WIDE];
#pragma GCC unroll 4
      for (int j = 0; j < WIDE; j++) memcpy(&v[j], x[t] + i + j * L, sizeof(V));
#pragma GCC unroll 4
      for (int r = 0; r < 4; r++) {
        const V f = ONE(w[t * 4 + r]);
#pragma GCC unroll 4
        for (int j = 0; j < WIDE; j++) s[r][j] = FMA(f, v[j], s[r][j]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++)
#pragma GCC unroll 4
      for (int j = 0; j < WIDE; j++) memcpy(y + r * ldy + i + j * L, &s[r][j], sizeof(V));
  }
}

static double N(dot)(int64_t n, const T *a, const T *b) {
  enum { L = sizeof(V) / sizeof(T) };
  V s[4] = { { 0 } };
  for (int64_t i = 0; i < n; i += 4 * L) {
    V u[4], v[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
      memcpy(&u[j], a + i + j * L, sizeof(V));
      memcpy(&v[j], b + i + j * L, sizeof(V));
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) s[j] = FMA(u[j], v[j], s[j]);
  }
  double sum = 0;
  for (int j = 0; j < 4; j++)
    for (int l = 0; l < L; l++) sum += (double)s[j][l];
  return sum;
}
/* Rows of pooling: y[i] = the larger of y[i] and x[i * step], or their sum; a NaN wins. */
#define LARGER(step) \
  for (int64_t i = 0; i < n; i++) { \
    const T v = x[i * (step)]; \
    const int better = (v > y[i]) | (v != v); \
    y[i] = better ? v : y[i]; \
  }
static void N(larger)(T *y, const T *x, int64_t step, int64_t n) {
  if (step == 1) LARGER(1)
  else if (step == 2) LARGER(2)
  else LARGER(step)
}
#undef LARGER

static void N(plus)(T *y, const T *x, int64_t step, int64_t n) {
  if (step == 1) for (int64_t i = 0; i < n; i++) y[i] += x[i];
  else if (step == 2) for (int64_t i = 0; i < n; i++) y[i] += x[2 * i];
  else for (int64_t i = 0; i < n; i++) y[i] += x[i * step];
}
/* Positions of the largest: most[i], at position at[i] (0: none yet), is compared with x[i * step],
** at position first + i * step. */
#define MEET(step) \
  for (int64_t i = 0; i < n; i++) { \
    const T v = x[i * (step)]; \
    const int better = (at[i] == 0) | (v > most[i]) | (v != v); \
    most[i] = better ? v : most[i]; \
    at[i] = better ? first + i * (step) : at[i]; \
  }
static void N(meet)(const T *x, int64_t step, int64_t n, T *restrict most, int64_t *restrict at,
                    int64_t first) {
  if (step == 1) MEET(1)
  else if (step == 2) MEET(2)
  else MEET(step)
}
#undef MEET

/* Transposes 'cols' rows of n elements, 'plane' apart, to b[i * ldb + j]; columns from cols to w
** become 0. */
static inline void N(turn)(T *b, int64_t ldb, int64_t w, const T *from, int64_t plane, int64_t cols,
                           int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const int64_t m = n - i < 16 ? n - i : 16;
    for (int64_t j = 0; j < cols; j++)
      for (int64_t k = 0; k < m; k++) b[(i + k) * ldb + j] = from[j * plane + i + k];
    for (int64_t j = cols; j < w; j++)
      for (int64_t k = 0; k < m; k++) b[(i + k) * ldb + j] = 0;
  }
}

/* Weighted sum of rows: y[i] = sum over t of w[t] x[t][i], in order of t. */
static void N(mix)(T *y, int64_t n, int taps, const T *const *x, const T *w) {
  if (taps == 0) {
    for (int64_t i = 0; i < n; i++) y[i] = 0;
  } else if (taps == 2) {
    for (int64_t i = 0; i < n; i++) y[i] = w[0] * x[0][i] + w[1] * x[1][i];
  } else {
    for (int64_t i = 0; i < n; i++) y[i] = w[0] * x[0][i];
    for (int t = 1; t < taps; t++)
      for (int64_t i = 0; i < n; i++) y[i] += w[t] * x[t][i];
  }
}
#undef T
#undef V
#undef N
#undef ONE
#undef FMA
