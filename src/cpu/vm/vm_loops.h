/*
** Loops over one register type, from ops.def. Included once for each type by vm_table.h with
**   T        the C type           SUFFIX   f64 f32 i64 i32       IS_FLOAT 1 or 0
**   R        its fl_reg           M(f): function f of tensor/math.h
** Rules: no branch in a loop that is to be vectorised; no contraction; loops work in place ('ivdep'
** promises that arrays are equal or do not overlap).
*/
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define FN(name) JOIN(name, SUFFIX)
#define M(f) JOIN(fl_##f, SUFFIX)
#define EACH _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)

#if IS_FLOAT
#define IF_FLOAT(...) __VA_ARGS__
#define IF_INT(...)
#else
#define IF_FLOAT(...)
#define IF_INT(...) __VA_ARGS__
#endif
#define IF_NUM(...) __VA_ARGS__
#define IF_SAME(...) __VA_ARGS__
#define IF_TEST(...) __VA_ARGS__
#define IF_WHERE(...) __VA_ARGS__
#define OUT_FLOAT T
#define OUT_NUM T
#define OUT_SAME T
#define OUT_INT T
#define OUT_TEST int32_t
#define FIRST_SAME T
#define FIRST_WHERE int32_t

#define UNARY(name, kind, value, grad, domain, doc) IF_##kind( \
  static void FN(u_##name)(void *y_, const void *a_, const void *b_, const void *c_, \
                           int64_t n, int uni) { \
    (void)b_; (void)c_; (void)uni; \
    OUT_##kind *y = y_; const T *a = a_; \
    EACH { const T x = a[i]; y[i] = (OUT_##kind)(value); } \
  })
#define BINARY(name, kind, value, g1, g2, domain, doc) IF_##kind( \
  static void FN(b_##name)(void *y_, const void *a_, const void *b_, const void *c_, \
                           int64_t n, int uni) { \
    (void)c_; (void)uni; \
    OUT_##kind *y = y_; const T *a = a_, *b = b_; \
    if (CHEAP(name) && uni == 1) { \
      const T x1 = a[0]; \
      EACH { const T x2 = b[i]; y[i] = (OUT_##kind)(value); } \
    } else if (CHEAP(name) && uni == 2) { \
      const T x2 = b[0]; \
      EACH { const T x1 = a[i]; y[i] = (OUT_##kind)(value); } \
    } else { \
      EACH { const T x1 = a[i], x2 = b[i]; y[i] = (OUT_##kind)(value); } \
    } \
  })
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) \
  static void FN(t_##name)(void *y_, const void *a_, const void *b_, const void *c_, \
                           int64_t n, int uni) { \
    T *y = y_; const FIRST_##kind *a = a_; const T *b = b_, *c = c_; \
    if (uni == 2) { \
      const T x2 = b[0]; \
      EACH { const FIRST_##kind x1 = a[i]; const T x3 = c[i]; y[i] = (value); } \
    } else if (uni == 4) { \
      const T x3 = c[0]; \
      EACH { const FIRST_##kind x1 = a[i]; const T x2 = b[i]; y[i] = (value); } \
    } else if (uni == 6) { \
      const T x2 = b[0], x3 = c[0]; \
      EACH { const FIRST_##kind x1 = a[i]; y[i] = (value); } \
    } else { \
      EACH { const FIRST_##kind x1 = a[i]; const T x2 = b[i], x3 = c[i]; y[i] = (value); } \
    } \
  }
#define REDUCE(name, kind, init, value, grad, doc)
#define SPECIAL(...)
#include "tensor/ops.def"

/* Ops with a second form that vectorises and gives the same bits for all but rare values: 64
** elements at a time are tested for such values first. In the table these loops replace the
** functions of ops.def. */
#define NEAR_LOOP(f, near, ...) \
  static void FN(near_##f)(void *y_, const void *a_, const void *b_, const void *c_, \
                           int64_t n, int uni) { \
    (void)b_; (void)c_; (void)uni; \
    for (int64_t at = 0; at < n; at += 64) { \
      const int64_t m = n - at < 64 ? n - at : 64; \
      T *y = (T *)y_ + at; \
      const T *a = (const T *)a_ + at, *b = NEAR_SECOND(b_); \
      int far = 0; \
      (void)b; \
      for (int64_t i = 0; i < m; i++) far |= !(near); \
      if (far) for (int64_t i = 0; i < m; i++) y[i] = M(f)(__VA_ARGS__); \
      else _Pragma("GCC ivdep") for (int64_t i = 0; i < m; i++) y[i] = M(f##_near)(__VA_ARGS__); \
    } \
  }
#if IS_FLOAT
#define NEAR_SECOND(p) (const T *)(p) + at
#define NEAR_BINARY(f) NEAR_LOOP(f, M(fmod_is_near)(a[i], b[i]), a[i], b[i])
NEAR_BINARY(fmod) NEAR_BINARY(mod) NEAR_BINARY(floordiv)
#undef NEAR_SECOND
#undef NEAR_BINARY
#endif
#ifdef NEAR_CIRCULAR                     /* how far |x| may be */
#define NEAR_SECOND(p) NULL
#define NEAR_UNARY(f) NEAR_LOOP(f, M(abs)(a[i]) < NEAR_CIRCULAR, a[i])
NEAR_UNARY(sin) NEAR_UNARY(cos) NEAR_UNARY(tan)
#undef NEAR_SECOND
#undef NEAR_UNARY
#undef NEAR_CIRCULAR
#endif
#undef NEAR_LOOP

#include "cpu/vm/vm_reduce_loops.h"

/* ---- copies within registers --------------------- */

static void FN(fill)(void *y_, const void *x_, int64_t n) {
  T *y = y_;
  const T x = *(const T *)x_;
  EACH y[i] = x;
}

static void FN(spread)(void *y_, const void *x_, int64_t rows, int64_t n) {
  T *y = y_;
  const T *x = x_;
  for (int64_t r = 0; r < rows; r++, y += n) EACH y[i] = x[r];
}

static void FN(tile)(void *y_, const void *x_, int64_t rows, int64_t n) {
  T *y = y_;
  const T *x = x_;
  for (int64_t r = 0; r < rows; r++, y += n) EACH y[i] = x[i];
}

/* ---- casts, rounded to the dtype; draws --------------------- */

#define CAST(d, OUT) \
  static void FN(cast_##d)(void *y_, const void *x_, int64_t n) { \
    OUT *y = y_; \
    const T *x = x_; \
    EACH y[i] = JOIN(M(cast), d)(x[i]); \
  }
CAST(f64, double) CAST(f32, float) CAST(f16, float) CAST(bf16, float) CAST(i64, int64_t)
CAST(i32, int32_t) CAST(i16, int32_t) CAST(i8, int32_t) CAST(u8, int32_t) CAST(bool, int32_t)
#undef CAST

/* DRAW: f gives the number for an index, out: how it is rounded, P: the member of the scalars that
** is used. DRAW4: consecutive indices, as in fills, are processed four at a time: the four share a
** block of the generator, which the compiler sees because of the form q << 2 | j. DRAW_FROM_I64: an
** i64 is truncated; DRAW_NARROW: an i32 is rounded. */
#define DRAW(name, f, out, P) \
  static void draw_##name(void *y_, const int64_t *idx, const fl_vm_random *q, int64_t n) { \
    T *y = y_; \
    const T a = (T)q->a.P, b = (T)q->b.P; \
    const uint64_t base = (uint64_t)q->base, seed = (uint64_t)q->seed; \
    EACH y[i] = fl_round_##out(f(idx[i], base, seed, a, b)); \
  }
#define DRAW_FROM_I64 \
  static void draw_randint_i32(void *y_, const int64_t *idx, const fl_vm_random *q, int64_t n) { \
    T *y = y_; \
    int64_t wide[256]; \
    for (int64_t at = 0; at < n; at += 256) { \
      const int64_t m = n - at < 256 ? n - at : 256; \
      draw_randint_i64(wide, idx + at, q, m); \
      for (int64_t i = 0; i < m; i++) y[at + i] = (T)wide[i]; \
    } \
  }
#define DRAW_NARROW(d) \
  static void draw_randint_##d(void *y_, const int64_t *idx, const fl_vm_random *q, int64_t n) { \
    T *y = y_; \
    draw_randint_i32(y, idx, q, n); \
    EACH y[i] = fl_round_##d(y[i]); \
  }
#define DRAW4(name, f, out, P) \
  static __attribute__((noinline)) void plain_##name(T *y, const int64_t *idx, \
                                                     const fl_vm_random *q, int64_t n) { \
    const T a = (T)q->a.P, b = (T)q->b.P; \
    for (int64_t i = 0; i < n; i++) { \
      y[i] = fl_round_##out(f(idx[i], (uint64_t)q->base, (uint64_t)q->seed, a, b)); \
      __asm__ volatile("" ::: "memory");  /* scalar code: 10 KB smaller than vector code */ \
    } \
  } \
  static void draw_##name(void *y_, const int64_t *idx, const fl_vm_random *q_, int64_t n) { \
    T *y = y_; \
    const T a = (T)q_->a.P, b = (T)q_->b.P; \
    const uint64_t base = (uint64_t)q_->base, seed = (uint64_t)q_->seed; \
    int64_t apart = n > 0 && idx[0] < 0; \
    for (int64_t j = 0; j < n; j++) apart |= idx[j] - idx[0] - j; \
    const int64_t lead = n > 0 ? -idx[0] & 3 : 0, i = apart || lead > n ? n : lead; \
    const int64_t first = i < n ? idx[i] >> 2 : 0, blocks = (n - i) / 4, end = i + 4 * blocks; \
    T *z = y + i; \
    plain_##name(y, idx, q_, i); \
    _Pragma("GCC ivdep") for (int64_t k = 0; k < blocks; k++) { \
      const int64_t q = first + k; \
      z[4 * k] = fl_round_##out(f(q << 2, base, seed, a, b)); \
      z[4 * k + 1] = fl_round_##out(f(q << 2 | 1, base, seed, a, b)); \
      z[4 * k + 2] = fl_round_##out(f(q << 2 | 2, base, seed, a, b)); \
      z[4 * k + 3] = fl_round_##out(f(q << 2 | 3, base, seed, a, b)); \
    } \
    plain_##name(y + end, idx + end, q_, n - end); \
  }
/* fl_random_uniform_* of f32 and halves: numbers in [0, 1) first; the upper bound's neighbour is
** computed once. */
#define UNIFORM(out) \
  static void draw_uniform_##out(void *y_, const int64_t *idx, const fl_vm_random *q, int64_t n) { \
    T *y = y_; \
    const T lo = (T)q->a.d, hi = (T)q->b.d, below = fl_below_##out(hi); \
    draw_unit_f32(y, idx, q, n); \
    EACH { \
      const T v = fl_round_##out(fmaf(y[i], hi - lo, lo)); \
      y[i] = ((v >= hi) & (lo < hi)) ? below : v; \
    } \
  }
/* Normals of f32: fl_random_normal_f32 by four, its steps in separate loops, 64 blocks at a
** time, so that each vectorises and a pair's radius is found once. Of halves: the same, rounded. */
#define NORMAL4 \
  static void four_normal_f32(float *z, int64_t first, int64_t n, const fl_vm_random *q) { \
    const float mean = (float)q->a.d, std = (float)q->b.d; \
    uint32_t w[4][64]; \
    float v[4][64]; \
    for (int64_t k = 0; k < n; k++) { \
      const fl_u32x4 r = fl_philox((uint64_t)q->base + (uint64_t)(first + k), (uint64_t)q->seed); \
      for (int l = 0; l < 4; l++) w[l][k] = r.w[l]; \
    } \
    for (int l = 0; l < 4; l += 2) \
      for (int64_t k = 0; k < n; k++) { \
        const float r = fl_normal_radius_f32(w[l][k]); \
        v[l][k] = fmaf(r * fl_normal_turn_f32(w[l + 1][k], 0), std, mean); \
        v[l + 1][k] = fmaf(r * fl_normal_turn_f32(w[l + 1][k], 1), std, mean); \
      } \
    for (int64_t k = 0; k < n; k++) \
      for (int l = 0; l < 4; l++) z[4 * k + l] = v[l][k]; \
  } \
  static __attribute__((noinline)) void plain_normal_f32(T *y, const int64_t *idx, \
                                                         const fl_vm_random *q, int64_t n) { \
    const T a = (T)q->a.d, b = (T)q->b.d; \
    for (int64_t i = 0; i < n; i++) { \
      y[i] = fl_random_normal_f32(idx[i], (uint64_t)q->base, (uint64_t)q->seed, a, b); \
      __asm__ volatile("" ::: "memory"); \
    } \
  } \
  static void draw_normal_f32(void *y_, const int64_t *idx, const fl_vm_random *q, int64_t n) { \
    T *y = y_; \
    int64_t apart = n > 0 && idx[0] < 0; \
    for (int64_t j = 0; j < n; j++) apart |= idx[j] - idx[0] - j; \
    const int64_t lead = n > 0 ? -idx[0] & 3 : 0; \
    int64_t i = apart || lead > n ? n : lead; \
    plain_normal_f32(y, idx, q, i); \
    for (; n - i >= 4; ) { \
      const int64_t m = (n - i) / 4 < 64 ? (n - i) / 4 : 64; \
      four_normal_f32(y + i, idx[i] >> 2, m, q); \
      i += 4 * m; \
    } \
    plain_normal_f32(y + i, idx + i, q, n - i); \
  }
#define NORMAL_ROUNDED(out) \
  static void draw_normal_##out(void *y_, const int64_t *idx, const fl_vm_random *q, int64_t n) { \
    T *y = y_; \
    draw_normal_f32(y, idx, q, n); \
    EACH y[i] = fl_round_##out(y[i]); \
  }
DRAWS
#undef DRAW
#undef DRAW4
#undef DRAW_NARROW
#undef DRAW_FROM_I64
#undef UNIFORM
#undef NORMAL4
#undef NORMAL_ROUNDED
#undef DRAWS

#undef T
#undef SUFFIX
#undef IS_FLOAT
#undef IF_FLOAT
#undef IF_INT
#undef IF_NUM
#undef IF_SAME
#undef IF_TEST
#undef IF_WHERE
#undef OUT_FLOAT
#undef OUT_NUM
#undef OUT_SAME
#undef OUT_INT
#undef OUT_TEST
#undef FIRST_SAME
#undef FIRST_WHERE
#undef JOIN_
#undef JOIN
#undef FN
#undef M
#undef EACH
