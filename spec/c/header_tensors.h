/*
** What the tests of flame.h share: a context, tensors made from a word ("f23"), and their values.
*/
#ifndef HEADER_TENSORS_H
#define HEADER_TENSORS_H
#include "engine/engine.h"

static inline flame_context *open_context(void) {
  return flame_open(FLAME_OPTIONS(.device = "cpu", .threads = 1));
}

enum { ROOM = 64 };

/* A tensor described by a word: a letter for dtype and values, and a digit for each size. f: f32,
** element k (from 0) is (k + 1) / 4; s: (k + 1) / 4 - 1; i: i64, 1 2 1 2 …; b: bool, 1 0 1 0 …. */
static inline flame_tensor *made(flame_context *c, const char *word) {
  int64_t size[8], n = 1;
  int ndim = 0;
  float f[ROOM];
  int64_t ints[ROOM];
  uint8_t flags[ROOM];
  for (const char *p = word + 1; *p; p++) n *= size[ndim++] = *p - '0';
  for (int k = 0; k < n; k++) {
    f[k] = (float)(k + 1) / 4 - (word[0] == 's');
    ints[k] = 1 + k % 2;
    flags[k] = k % 2 == 0;
  }
  if (word[0] == 'i') return flame_from_data(c, FLAME_I64, ndim, size, ints);
  if (word[0] == 'b') return flame_from_data(c, FLAME_BOOL, ndim, size, flags);
  return flame_from_data(c, FLAME_F32, ndim, size, f);
}

/* Writes the elements of x to 'out' as doubles; returns how many, or -1 if reading fails. */
static inline int64_t values_of(flame_tensor *x, double *out) {
  const int64_t n = flame_numel(x);
  flame_tensor *wide = flame_cast(x, FLAME_F64);
  const flame_status e = wide ? flame_read(wide, out, (size_t)n * 8) : FLAME_INTERNAL;
  flame_free(wide);
  return e == FLAME_OK ? n : -1;
}
#endif
