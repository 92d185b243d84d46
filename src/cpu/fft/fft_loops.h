/*
** The loops of fft.h, included once per type with
**   T, BYTES (of a vector), NAME(x)
** Passes are Stockham's: a pass of factor r over l finished sub-transforms reads
** x[i + rest (b + r k)] and writes y[i + rest (k + l b)], i < rest, b < r, k < l, so the result
** is in order and nothing is permuted. All arithmetic is by lanes and in a fixed order, so results
** do not depend on the number of lanes.
*/
#define V NAME(v)
#define C NAME(c)
#define L ((int)(BYTES / sizeof(T)))
typedef T V __attribute__((vector_size(BYTES)));
typedef struct C { V re, im; } C;
#define INLINE static inline __attribute__((always_inline))

INLINE void NAME(twiddled)(C *y, const C *x, const T *w) {
  const V re = x->re * w[0] - x->im * w[1];
  y->im = x->re * w[1] + x->im * w[0];
  y->re = re;
}

INLINE void NAME(put)(C *y, const C *x, const T *w) {
  if (w) NAME(twiddled)(y, x, w);
  else *y = *x;
}

INLINE void NAME(two)(const C *x, int64_t in, C *y, int64_t out, const T *w, int64_t rest) {
  const C a = x[0], b = x[in];
  const C d = { a.re - b.re, a.im - b.im };
  y[0] = (C){ a.re + b.re, a.im + b.im };
  NAME(put)(y + out, &d, w);
  (void)rest;
}

INLINE void NAME(four)(const C *x, int64_t in, C *y, int64_t out, const T *w, int64_t rest) {
  const C a = x[0], b = x[in], c = x[2 * in], d = x[3 * in];
  const C s = { a.re + c.re, a.im + c.im }, t = { a.re - c.re, a.im - c.im };
  const C u = { b.re + d.re, b.im + d.im }, v = { b.im - d.im, d.re - b.re };      /* -i (b - d) */
  const C p = { t.re + v.re, t.im + v.im }, q = { s.re - u.re, s.im - u.im },
  r = { t.re - v.re, t.im - v.im };
  y[0] = (C){ s.re + u.re, s.im + u.im };
  NAME(put)(y + out, &p, w);
  NAME(put)(y + 2 * out, &q, w ? w + 2 * rest : NULL);
  NAME(put)(y + 3 * out, &r, w ? w + 4 * rest : NULL);
}

/* An odd factor r: sums and differences of elements j and r - j, then about r^2 / 2 products of a
** complex and a real number. */
INLINE void NAME(odd)(const C *x, int64_t in, C *y, int64_t out, const T *w, int64_t rest, int r,
                      const T *root) {
  C sum[FL_FFT_LARGEST / 2 + 1], diff[FL_FFT_LARGEST / 2 + 1], all = x[0];
  const int h = r / 2;
#pragma GCC unroll 4
  for (int j = 1; j <= h; j++) {
    const C a = x[j * in], b = x[(r - j) * in];
    sum[j] = (C){ a.re + b.re, a.im + b.im };
    diff[j] = (C){ a.re - b.re, a.im - b.im };
    all.re += sum[j].re;
    all.im += sum[j].im;
  }
  const C x0 = x[0];
  y[0] = all;
#pragma GCC unroll 4
  for (int c = 1; c <= h; c++) {
    C p = x0, q = { (V){ 0 }, (V){ 0 } };
#pragma GCC unroll 4
    for (int j = 1, k = c; j <= h; j++, k += c, k -= k >= r ? r : 0) {
      const T cosine = root[2 * k], sine = -root[2 * k + 1];
      p.re += sum[j].re * cosine;
      p.im += sum[j].im * cosine;
      q.re += diff[j].re * sine;
      q.im += diff[j].im * sine;
    }
    const C low = { p.re + q.im, p.im - q.re }, high = { p.re - q.im, p.im + q.re };
    NAME(put)(y + c * out, &low, w ? w + 2 * (c - 1) * rest : NULL);
    NAME(put)(y + (r - c) * out, &high, w ? w + 2 * (r - c - 1) * rest : NULL);
  }
}

/* One pass; the first element of each run needs no twiddle factors. */
#define PASS(name, ...) \
  static void NAME(name)(const C *x, C *y, int64_t done, int64_t rest, const T *twiddle, int r, \
                         const T *root) { \
    for (int64_t k = 0; k < done; k++) { \
      const C *from = x + rest * r * k; \
      C *to = y + rest * k; \
      const T *w = NULL; \
      for (int64_t i = 0; i < rest; i++, w = twiddle + 2 * i) __VA_ARGS__; \
    } \
    (void)root; \
  }
PASS(pass2, NAME(two)(from + i, rest, to + i, rest * done, w, rest))
PASS(pass4, NAME(four)(from + i, rest, to + i, rest * done, w, rest))
PASS(pass3, NAME(odd)(from + i, rest, to + i, rest * done, w, rest, 3, root))
PASS(pass5, NAME(odd)(from + i, rest, to + i, rest * done, w, rest, 5, root))
PASS(pass7, NAME(odd)(from + i, rest, to + i, rest * done, w, rest, 7, root))
PASS(pass_odd, NAME(odd)(from + i, rest, to + i, rest * done, w, rest, r, root))

static void *NAME(run)(const fl_fft_plan *p, void *first, void *second) {
  C *x = first, *y = second;
  int64_t done = 1;
  for (int i = 0; i < p->count; i++) {
    const int r = p->factor[i];
    const int64_t rest = p->n / (done * r);
    void (*pass)(const C *, C *, int64_t, int64_t, const T *, int, const T *) =
      r == 2 ? NAME(pass2) : r == 3 ? NAME(pass3) : r == 4 ? NAME(pass4) : r == 5
      ? NAME(pass5) : r == 7 ? NAME(pass7)
      : NAME(pass_odd);
    pass(x, y, done, rest, p->twiddle[i], r, p->root[i]);
    C *t = x;
    x = y;
    y = t;
    done *= r;
  }
  return x;
}

/* The number of leading elements for which the lanes are adjacent complex numbers. */
static int64_t NAME(adjacent)(const fl_fft_lanes *f, int64_t n) {
  if (f->lanes < L || f->apart != 1) return 0;
  for (int l = 0; l < L; l++) {
    if (f->at[l] != f->at[0] + l * 2 * (int64_t)sizeof(T)) return 0;
    if (f->reals[l] < n) n = f->reals[l];
    if (f->imags[l] < n) n = f->imags[l];
  }
  return n;
}

/* Loads lane by lane, but few elements of each at a time, since cache lines that are a power of two
** apart share few sets of the first-level cache. */
static void NAME(load)(void *p, int64_t n, const fl_fft_lanes *f) {
  const int re = f->swap ? L : 0, im = f->swap ? 0 : L;
  const int64_t beside = NAME(adjacent)(f, n);
  for (int64_t k = 0; k < beside; k++) {
    const T *from = (const T *)(const void *)f->at[0] + k * f->step;
    T *x = (T *)p + 2 * L * k;
    for (int l = 0; l < L; l++) {
      x[re + l] = from[2 * l];
      x[im + l] = from[2 * l + 1];
    }
  }
  for (int64_t k0 = beside; k0 < n; k0 += 8) {
    const int64_t end = k0 + 8 < n ? k0 + 8 : n;
    for (int l = 0; l < L; l++) {
      const T *from = (const T *)(const void *)f->at[l];
      const int64_t reals = l < f->lanes ? f->reals[l] : 0, imags = l < f->lanes ? f->imags[l] : 0;
      const int64_t both = reals < imags ? reals : imags;
      T *x = (T *)p + 2 * L * k0 + l;
      int64_t k = k0;
      for (; k < end && k < both; k++, x += 2 * L) {
        x[re] = from[k * f->step];
        x[im] = from[k * f->step + f->apart];
      }
      for (; k < end; k++, x += 2 * L) {
        x[re] = k < reals ? from[k * f->step] : 0;
        x[im] = k < imags ? from[k * f->step + f->apart] : 0;
      }
    }
  }
}

static void NAME(store)(const void *p, int64_t n, const fl_fft_lanes *f) {
  const T scale = (T)f->scale;
  const int re = f->swap ? L : 0, im = f->swap ? 0 : L;
  const int64_t beside = NAME(adjacent)(f, n);
  for (int64_t k = 0; k < beside; k++) {
    T *to = (T *)(void *)f->at[0] + k * f->step;
    const T *x = (const T *)p + 2 * L * k;
    for (int l = 0; l < L; l++) {
      to[2 * l] = x[re + l] * scale;
      to[2 * l + 1] = x[im + l] * scale;
    }
  }
  for (int64_t k0 = beside; k0 < n; k0 += 8) {
    const int64_t end = k0 + 8 < n ? k0 + 8 : n;
    for (int l = 0; l < f->lanes; l++) {
      T *to = (T *)(void *)f->at[l];
      const T *x = (const T *)p + 2 * L * k0 + l;
      for (int64_t k = k0; k < end; k++, x += 2 * L) {
        if (k < f->reals[l]) to[k * f->step] = x[re] * scale;
        if (k < f->imags[l]) to[k * f->step + f->apart] = x[im] * scale;
      }
    }
  }
}

static void NAME(multiply)(void *p, int64_t n, const void *table) {
  C *x = p;
  for (int64_t k = 0; k < n; k++) NAME(twiddled)(x + k, x + k, (const T *)table + 2 * k);
}

static void NAME(swap)(void *p, int64_t n) {
  C *x = p;
  for (int64_t k = 0; k < n; k++) x[k] = (C){ x[k].im, x[k].re };
}

static void NAME(twist)(void *p, int64_t n, const void *row, const void *table, int first) {
  C *x = p;
  const T *g = row, *t = table;
  for (int64_t k = 0; k < n; k++, g += 2, t += 16) {
    C w;
    for (int l = 0; l < L; l++) {
      const T *e = t + 2 * ((first + l) & 7), *s = g + 2 * n * ((first + l) >> 3);
      w.re[l] = s[0] * e[0] - s[1] * e[1];
      w.im[l] = s[0] * e[1] + s[1] * e[0];
    }
    const V re = x[k].re * w.re - x[k].im * w.im;
    x[k].im = x[k].re * w.im + x[k].im * w.re;
    x[k].re = re;
  }
}

static void NAME(split)(void *p, int64_t n, const void *table) {
  C *x = p;
  const T *w = table, half = (T)0.5;
  x[n] = x[0];
  for (int64_t k = 0; k <= n / 2; k++) {
    const C a = x[k], b = x[n - k];
    const C s = { (a.re + b.re) * half, (a.im - b.im) * half };           /* of the even elements */
    const C d = { (a.im + b.im) * half, (b.re - a.re) * half };           /* of the odd ones */
    C t;
    NAME(twiddled)(&t, &d, w + 2 * k);
    x[k] = (C){ s.re + t.re, s.im + t.im };
    x[n - k] = (C){ s.re - t.re, t.im - s.im };
  }
}

/* The imaginary parts of the first and last element are taken as 0. */
static void NAME(merge)(void *p, int64_t n, const void *table) {
  C *x = p;
  const T *w = table;
  x[0].im = x[n].im = (V){ 0 };
  for (int64_t k = 0; k <= n / 2; k++) {
    const C a = x[k], b = x[n - k];
    const C s = { a.re + b.re, a.im - b.im }, d = { a.re - b.re, a.im + b.im };
    const T back[2] = { w[2 * k], -w[2 * k + 1] };
    C t;
    NAME(twiddled)(&t, &d, back);
    x[k] = (C){ s.re - t.im, s.im + t.re };
    x[n - k] = (C){ s.re + t.im, t.re - s.im };
  }
}

static void NAME(split_one)(const void *from_y, int64_t n, int64_t from, int64_t to,
                            const void *table, void *half, double scale) {
  const T *y = from_y, *w = table, f = (T)scale, h = f * (T)0.5;
  T *out = half;
  for (int64_t k = from; k < to; k++) {
    const T *a = y + 2 * k, *b = y + 2 * (k ? n - k : 0);
    const T sr = (a[0] + b[0]) * h, si = (a[1] - b[1]) * h, dr = (a[1] + b[1]) * h,
    di = (b[0] - a[0]) * h;
    const T tr = dr * w[2 * k] - di * w[2 * k + 1], ti = dr * w[2 * k + 1] + di * w[2 * k];
    out[2 * k] = sr + tr;
    out[2 * k + 1] = si + ti;
    out[2 * (n - k)] = sr - tr;
    out[2 * (n - k) + 1] = ti - si;
  }
}

static void NAME(merge_one)(const void *half, int64_t n, int64_t from, int64_t to,
                            const void *table, void *x) {
  const T *in = half, *w = table;
  T *out = x;
  for (int64_t k = from; k < to; k++) {
    const T *a = in + 2 * k, *b = in + 2 * (n - k);
    const T ai = k ? a[1] : 0, bi = k ? b[1] : 0;
    const T sr = a[0] + b[0], si = ai - bi, dr = a[0] - b[0], di = ai + bi;
    const T tr = dr * w[2 * k] + di * w[2 * k + 1], ti = di * w[2 * k] - dr * w[2 * k + 1];
    out[2 * k] = si + tr;
    out[2 * k + 1] = sr - ti;
    if (k == 0) continue;
    out[2 * (n - k)] = tr - si;
    out[2 * (n - k) + 1] = sr + ti;
  }
}

const fl_fft_loops NAME(loops) = { L, NAME(run), NAME(load), NAME(store), NAME(multiply),
                                   NAME(swap), NAME(twist), NAME(split), NAME(merge),
                                   NAME(split_one), NAME(merge_one) };
#undef V
#undef C
#undef L
#undef INLINE
#undef PASS
#undef T
#undef BYTES
#undef NAME
