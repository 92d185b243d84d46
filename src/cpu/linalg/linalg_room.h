/* Inside linalg_one.c and linalg_square.c: working memory, and elements of either width. */
#ifndef FL_CPU_LINALG_ROOM_H
#define FL_CPU_LINALG_ROOM_H
#include "cpu/linalg/linalg_one.h"
#include "base/num.h"
#include <math.h>
#include <string.h>

enum { SMALL = 24, SMALL_SPECTRUM = 3, BLOCK = 64 };      /* SMALL, SMALL_SPECTRUM: up to these
                                                          ** sizes our own code is used */

typedef struct room { char *at; } room;

/* The next n bytes of the working memory. */
static inline void *take(room *r, int64_t n) {
  void *p = r->at;
  r->at += (n + 63) & ~(int64_t)63;
  return p;
}
static inline double *doubles(room *r, int64_t n) { return take(r, n * (int64_t)sizeof(double)); }

static inline int32_t as_length(int64_t n) { return n < INT32_MAX ? (int32_t)n : INT32_MAX; }

/* The length of gesdd's workspace: a tall or wide matrix is first reduced to its triangle. */
static inline int64_t svd_work(int64_t m, int64_t n) {
  const int64_t k = m < n ? m : n;
  return 4 * k * k + (3 * BLOCK + 10) * k + fl_max(m, n);
}

/* ---- elements --------------------- */

static inline int64_t width(const fl_linalg_one *o) { return o->is64 ? 8 : 4; }

static inline void load(const fl_linalg_one *o, double *y, const void *x, int64_t n) {
  const float *f = x;
  if (o->is64) memcpy(y, x, sizeof *y * (size_t)n);
  else for (int64_t i = 0; i < n; i++) y[i] = f[i];
}

static inline void store(const fl_linalg_one *o, void *y, const double *x, int64_t n) {
  float *f = y;
  if (o->is64) memcpy(y, x, sizeof *x * (size_t)n);
  else for (int64_t i = 0; i < n; i++) f[i] = (float)x[i];
}

static inline double element(const fl_linalg_one *o, const void *x, int64_t i) {
  return o->is64 ? ((const double *)x)[i] : ((const float *)x)[i];
}

static inline void put(const fl_linalg_one *o, void *x, int64_t i, double v) {
  if (o->is64) ((double *)x)[i] = v;
  else ((float *)x)[i] = (float)v;
}

static inline void fill(const fl_linalg_one *o, void *x, int64_t n, double v) {
  for (int64_t i = 0; i < n; i++) put(o, x, i, v);
}

static inline int all_finite(const fl_linalg_one *o, const void *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) if (!isfinite(element(o, x, i))) return 0;
  return 1;
}

static inline int stopped(const fl_linalg_one *o) {
  return atomic_load_explicit(o->stop, memory_order_relaxed) != 0;
}

/* ---- linalg_square.c ---- */
int fl_linalg_cofactor(const fl_linalg_one *o, const void *in, void *out, room r);
int fl_linalg_cofactor_grad(const fl_linalg_one *o, const void *in, const void *seed, void *out,
                            room r);
int fl_linalg_exp(const fl_linalg_one *o, const void *in, void *out, room r);
#endif
