/*
** Loads, stores and gathers of one dtype. Included once for each dtype by vm_table.h with
**   S        storage type        T  register type        NAME  the dtype's name
**   FROM(s)  storage to register TO(x)  register (already rounded) to storage
** There are separate inner loops for unit strides, strides of 0 (in loads) and others; the walk is
** shared.
*/
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define FN(name) JOIN(name, NAME)

/* A box whose first dim has the shorter steps: that dim is the innermost loop, so that each cache
** line is read once. Elements in the format of registers are transposed block by block
** (vm_turn.h). */
static void FN(load_box)(T *y, const S *s, const fl_walk *w) {
  const int64_t rows = w->size[0], cols = w->size[1], a = w->stride[0], b = w->stride[1];
  if (a == 1 && sizeof *s == sizeof *y) {
    (sizeof *y == 8 ? turn_8_bytes : turn_4_bytes)(y, cols, s, b, rows, cols, 1);
    return;
  }
  for (int64_t j = 0; j < cols; j++)
    for (int64_t i = 0; i < rows; i++) y[i * cols + j] = (T)FROM(s[i * a + j * b]);
}

static void FN(store_box)(S *s, const T *x, const fl_walk *w) {
  const int64_t rows = w->size[0], cols = w->size[1], a = w->stride[0], b = w->stride[1];
  if (a == 1 && sizeof *s == sizeof *x) {
    (sizeof *x == 8 ? turn_8_bytes : turn_4_bytes)(s, b, x, cols, cols, rows, 0);
    return;
  }
  for (int64_t j = 0; j < cols; j++)
    for (int64_t i = 0; i < rows; i++) s[i * a + j * b] = (S)TO(x[i * cols + j]);
}

static void FN(load)(void *y_, const void *p, const fl_walk *w, int64_t point, int64_t n) {
  T *y = y_;
  const S *base = p;
  const int64_t size = w->size[w->rank - 1], stride = w->stride[w->rank - 1];
  fl_cursor c;
  if (w->box) {
    FN(load_box)(y, base, w);
    return;
  }
  fl_walk_seek(w, point, &c);
  while (n > 0) {
    const int64_t left = size - c.at[w->rank - 1], run = left < n ? left : n;
    const S *s = base + c.off;
    if (stride == 1) {
#pragma GCC ivdep
      for (int64_t i = 0; i < run; i++) y[i] = (T)FROM(s[i]);
    } else if (stride == 0) {
      const T v = (T)FROM(s[0]);
      for (int64_t i = 0; i < run; i++) y[i] = v;
    } else {
      for (int64_t i = 0; i < run; i++) y[i] = (T)FROM(s[i * stride]);
    }
    y += run;
    n -= run;
    fl_walk_next(w, &c, run);
  }
}

static void FN(store)(void *p, const void *x_, const fl_walk *w, int64_t point, int64_t n) {
  const T *x = x_;
  S *base = p;
  const int64_t size = w->size[w->rank - 1], stride = w->stride[w->rank - 1];
  fl_cursor c;
  if (w->box) {
    FN(store_box)(base, x, w);
    return;
  }
  fl_walk_seek(w, point, &c);
  while (n > 0) {
    const int64_t left = size - c.at[w->rank - 1], run = left < n ? left : n;
    S *s = base + c.off;
    if (stride == 1) {
#pragma GCC ivdep
      for (int64_t i = 0; i < run; i++) s[i] = (S)TO(x[i]);
    } else {
      for (int64_t i = 0; i < run; i++) s[i * stride] = (S)TO(x[i]);
    }
    x += run;
    n -= run;
    fl_walk_next(w, &c, run);
  }
}

static inline int FN(is_one_place)(const int64_t *idx, int64_t n) {
  int64_t other = 0;
  for (int64_t i = 0; i < n; i++) other |= idx[i] ^ idx[0];
  return !other;
}

/* Positions of a running extreme repeat: sixteen equal ones are processed at a time. */
static __attribute__((noinline)) void FN(gather_one)(T *y, const S *s, const int64_t *idx,
                                                     int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    if (idx[i] == idx[i + 15] && FN(is_one_place)(idx + i, 16)) {
      const T v = (T)FROM(s[idx[i]]);
#pragma GCC unroll 1
      for (int j = 0; j < 16; j++) y[i + j] = v;
    } else {
#pragma GCC ivdep
#pragma GCC unroll 4
      for (int j = 0; j < 16; j++) y[i + j] = (T)FROM(s[idx[i + j]]);
    }
  }
  for (; i < n; i++) y[i] = (T)FROM(s[idx[i]]);
}

static void FN(gather)(void *y_, const void *p, const int64_t *idx, int64_t gstride,
                       const fl_walk *w, int64_t point, int64_t n) {
  T *y = y_;
  const S *base = p;
  const int64_t size = w->size[w->rank - 1], stride = w->stride[w->rank - 1];
  fl_cursor c;
  fl_walk_seek(w, point, &c);
  while (n > 0) {
    const int64_t left = size - c.at[w->rank - 1], run = left < n ? left : n;
    const S *s = base + c.off;
    if (stride == 0 && gstride == 1) {
      FN(gather_one)(y, s, idx, run);
    } else if (stride == 1 && FN(is_one_place)(idx, run)) {      /* a row of a table */
      const S *row = s + idx[0] * gstride;
#pragma GCC ivdep
      for (int64_t i = 0; i < run; i++) y[i] = (T)FROM(row[i]);
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < run; i++) y[i] = (T)FROM(s[i * stride + idx[i] * gstride]);
    }
    y += run;
    idx += run;
    n -= run;
    fl_walk_next(w, &c, run);
  }
}
#undef JOIN_
#undef JOIN
#undef FN
#undef S
#undef T
#undef NAME
#undef FROM
#undef TO
