/*
** Several operations in one trip over their operands, for one float register type: included by
** vm_pair.h. Every operation rounds as it does alone, so the bits are the same; what is saved
** is the trip through memory between them.
**
**   pair_*   y = op2(op1(a, b), c), or c - op1(a, b) for 'rsub'; 'uni' as in vm.h
**   dot      the sum of a b: rows and columns, in the order of 'sum' (plan/kernel.h)
**   some     the lanes of the blocks of a sum or product
*/
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define FN(name) JOIN(name, SUFFIX)
typedef T FN(vec) __attribute__((vector_size(VM_BYTES), aligned(sizeof(T)), may_alias));
#define V FN(vec)
#define PER ((int64_t)(VM_BYTES / sizeof(T)))
#define LANE_VECS (FL_VM_LANES / PER)
static inline V FN(splat)(T x) { return x - (V){ 0 }; }          /* - 0 keeps the sign of zero */

/* What is less than a vector, made one. */
static __attribute__((noinline)) void FN(pair_rest)(fl_vm_fn f, T *y, const T *a, const T *b, const T *c,
                                                    int64_t n, int uni) {
  V x[3] = { FN(splat)(a[0]), FN(splat)(b[0]), FN(splat)(c[0]) }, out;
  const T *from[3] = { a, b, c };
  for (int i = 0; i < 3; i++) if (!(uni >> i & 1)) memcpy(&x[i], from[i], (size_t)n * sizeof(T));
  f(&out, &x[0], &x[1], &x[2], PER, uni);
  memcpy(y, &out, (size_t)n * sizeof(T));
}

#define PAIR(name, value) \
  static void FN(pair_##name)(void *y_, const void *a_, const void *b_, const void *c_, \
                              int64_t n, int uni) { \
    T *y = y_; \
    const T *a = a_, *b = b_, *c = c_; \
    const V fixed[3] = { FN(splat)(a[0]), FN(splat)(b[0]), FN(splat)(c[0]) }; \
    const int64_t as = uni & 1 ? 0 : PER, bs = uni & 2 ? 0 : PER, cs = uni & 4 ? 0 : PER; \
    if (!as) a = (const T *)&fixed[0]; \
    if (!bs) b = (const T *)&fixed[1]; \
    if (!cs) c = (const T *)&fixed[2]; \
    for (; n >= PER; n -= PER, y += PER, a += as, b += bs, c += cs) { \
      const V x1 = *(const V *)a, x2 = *(const V *)b, x3 = *(const V *)c; \
      *(V *)y = (value); \
    } \
    if (n > 0) FN(pair_rest)(FN(pair_##name), y, a, b, c, n, uni); \
  }
#define PAIRS_OF(name, first) \
  PAIR(name##_add, (first) + x3) PAIR(name##_sub, (first) - x3) \
  PAIR(name##_rsub, x3 - (first)) PAIR(name##_mul, (first) * x3)
PAIRS_OF(add, x1 + x2) PAIRS_OF(sub, x1 - x2) PAIRS_OF(mul, x1 * x2)
#undef PAIRS_OF
#undef PAIR

static void FN(dot_lanes)(T *out, const T *x, const T *y, int64_t n) {
  V s[LANE_VECS];
  int64_t i = 0;
  for (int v = 0; v < LANE_VECS; v++) s[v] = FN(splat)(0);
  for (; i + FL_VM_LANES <= n; i += FL_VM_LANES)
    for (int v = 0; v < LANE_VECS; v++)
      s[v] += *(const V *)(x + i + v * PER) * *(const V *)(y + i + v * PER);
  memcpy(out, s, sizeof s);
  for (int l = 0; i + l < n; l++) out[l] += x[i + l] * y[i + l];
}

/* Sums of 16 lanes of each of 16 rows: 8 + 8, 4 + 4, 2 + 2, 1 + 1. */
static __attribute__((noinline)) void FN(halve)(T *v, const T *lane) {
  T half[16 * 8], quarter[16 * 4];
  for (int r = 0; r < 16; r++)
    for (int l = 0; l < 8; l++) half[8 * r + l] = lane[16 * r + l] + lane[16 * r + 8 + l];
  for (int r = 0; r < 16; r++)
    for (int l = 0; l < 4; l++) quarter[4 * r + l] = half[8 * r + l] + half[8 * r + 4 + l];
  for (int r = 0; r < 16; r++)
    v[r] = (quarter[4 * r] + quarter[4 * r + 2]) + (quarter[4 * r + 1] + quarter[4 * r + 3]);
}

/* At most 16 rows of one block. */
static void FN(dot_blocks)(T *v, const T *x, const T *y, int64_t rows, int64_t n) {
  T lane[16 * FL_VM_LANES] = { 0 };
  if (n == FL_VM_LANES) for (int64_t i = 0; i < rows * n; i++) lane[i] += x[i] * y[i];
  else for (int64_t r = 0; r < rows; r++) FN(dot_lanes)(lane + r * FL_VM_LANES, x + r * n, y + r * n, n);
  FN(halve)(lane, lane);
  memcpy(v, lane, (size_t)rows * sizeof *v);
}

static T FN(dot_row)(const T *x, const T *y, int64_t n) {
  T part[48] = { 0 }, some[16];
  int depth = 0;
  for (int64_t i = 0, k = 0; i < n; i += FL_VM_BLOCK, k++) {
    const int64_t left = (n - i) / FL_VM_BLOCK;
    if (k % 16 == 0) FN(dot_blocks)(some, x + i, y + i, left < 16 ? left : 16, FL_VM_BLOCK);
    if (!left) FN(dot_blocks)(some + k % 16, x + i, y + i, 1, n - i);
    T w = some[k % 16];
    for (int64_t t = k; t & 1; t >>= 1) w = part[--depth] + w;
    part[depth++] = w;
  }
  for (; depth > 1; depth--) part[depth - 2] += part[depth - 1];
  return part[0];
}

static void FN(dot_rows)(void *val, const void *x_, const void *y_, int64_t rows, int64_t n) {
  T *v = val;
  const T *x = x_, *y = y_;
  if (n > FL_VM_BLOCK) {
    for (int64_t r = 0; r < rows; r++) v[r] = FN(dot_row)(x + r * n, y + r * n, n);
    return;
  }
  for (int64_t r = 0; r < rows; r += 16)
    FN(dot_blocks)(v + r, x + r * n, y + r * n, rows - r < 16 ? rows - r : 16, n);
}

static void FN(dot_cols)(void *val, const void *x_, const void *y_, int64_t rows, int64_t n) {
  T *v = val;
  const T *x = x_, *y = y_;
  int64_t r = 0;
  for (; r + 8 <= rows && FL_VM_EIGHT(n, T); r += 8, x += 8 * n, y += 8 * n)
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) {
      T s = v[i];
      for (int k = 0; k < 8; k++) s += x[i + k * n] * y[i + k * n];
      v[i] = s;
    }
  for (; r < rows; r++, x += n, y += n)
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) v[i] += x[i] * y[i];
}

/* The lanes of blocks of n elements, one block after the other: processors look ahead along one
** trail a page, and begin the next block while the last one's additions wait for each other. */
#define SOME(name, init, op) \
  void VM_NAMED(FN(fl_some_##name))(T *lane, const T *x, int64_t blocks, int64_t n); \
  void VM_NAMED(FN(fl_some_##name))(T *lane, const T *x, int64_t blocks, int64_t n) { \
    for (int64_t b = 0; b < blocks; b++, lane += FL_VM_LANES, x += n) { \
      V s[LANE_VECS]; \
      int64_t i = 0; \
      for (int v = 0; v < LANE_VECS; v++) s[v] = FN(splat)(init); \
      for (; i + FL_VM_LANES <= n; i += FL_VM_LANES) \
        for (int v = 0; v < LANE_VECS; v++) s[v] op *(const V *)(x + i + v * PER); \
      memcpy(lane, s, sizeof s); \
      for (int l = 0; i + l < n; l++) lane[l] op x[i + l]; \
    } \
  }
SOME(sum, 0, +=) SOME(prod, 1, *=)
#undef SOME
#undef V
#undef PER
#undef LANE_VECS
#undef FN
#undef JOIN
#undef JOIN_
#undef T
#undef SUFFIX
