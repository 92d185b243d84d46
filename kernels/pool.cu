/*
** Pooling (src/tensor/call_conv.h). After prelude.cu. Defined before it: S, an element in memory;
** ACC, the type of sums; IN and OUT, which convert from S and to it; INDEX, the type of indices:
** int where all sizes fit. One thread per result, in row-major order, so neighbouring threads read
** neighbouring elements. Adjoints gather: an element sums over the windows that contain it, in
** order, so nothing is atomic. Bytes: inputs once (the overlap of windows comes from the cache) and
** results once.
** Divisions by sizes are products with a reciprocal that the host has prepared (Granlund and
** Montgomery 1994): a dozen divisions per result would cost more than its window.
*/
struct pool_params {
  long long planes, in[3], k[3], out[3], stride[3], pad[3], dil[3], adaptive, include_pad, divisor;
};
/* n / d = (u + n) >> s for 0 <= n < 2^31, where u is the upper 32 bits of n m. */
struct divider { unsigned d, m, s; };
struct pool_dividers { divider in[3], out[3], stride[3], elements, results; };
struct range { INDEX lo, hi, step; };

#define EACH(i, n) \
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < (n); \
       i += gridDim.x * (long long)blockDim.x)

/* n / d for n >= 0. 'wide' is d as a plain number, for an INDEX of 64 bits. */
FN INDEX over(INDEX n, const divider &d, long long wide) {
  if (sizeof(INDEX) == 8) return (INDEX)((long long)n / wide);
  return (INDEX)((__umulhi((unsigned)n, d.m) + (unsigned)n) >> d.s);
}

FN range window(const pool_params &v, int a, INDEX o) {
  const INDEX in = (INDEX)v.in[a], out = (INDEX)v.out[a];
  if (v.adaptive)
    return { (INDEX)((long long)o * in / out),
             (INDEX)((((long long)o + 1) * in + out - 1) / out), 1 };
  const INDEX dil = (INDEX)v.dil[a], start = o * (INDEX)v.stride[a] - (INDEX)v.pad[a],
  end = start + ((INDEX)v.k[a] - 1) * dil + 1;
  const INDEX to = end < in ? end : in;
  if (dil == 1) return { start < 0 ? 0 : start, to, 1 };
  return { start < 0 ? start + (-start + dil - 1) / dil * dil : start, to, dil };
}

FN INDEX length(range w) {
  if (w.hi <= w.lo) return 0;
  return w.step == 1 ? w.hi - w.lo : (w.hi - w.lo + w.step - 1) / w.step;
}

/* The factor of axis a in the number that a window's sum is divided by. */
FN INDEX count(const pool_params &v, int a, INDEX o, range w) {
  if (!v.include_pad || v.adaptive) return length(w);
  const INDEX start = o * (INDEX)v.stride[a] - (INDEX)v.pad[a], end = start + (INDEX)v.k[a],
  most = (INDEX)(v.in[a] + v.pad[a]);
  return (end < most ? end : most) - start;
}

/* Result i: where its plane begins, its coordinates and its window on each axis. */
struct spot { long long plane; INDEX o[3]; range w[3]; };
FN spot spot_of(const pool_params &v, const pool_dividers &by, long long i) {
  spot s;
  const INDEX results = (INDEX)(v.out[0] * v.out[1] * v.out[2]);
  const long long p = sizeof(INDEX) == 8 ? i / results : over((INDEX)i, by.results, results);
  INDEX q = (INDEX)(i - p * results);
  s.plane = p * v.in[0] * v.in[1] * v.in[2];
  for (int a = 2; a >= 0; a--) {
    const INDEX rest = over(q, by.out[a], v.out[a]);
    s.o[a] = q - rest * (INDEX)v.out[a];
    q = rest;
    s.w[a] = window(v, a, s.o[a]);
  }
  return s;
}
#define WINDOW(v, s, at) \
  for (INDEX z = (s).w[0].lo; z < (s).w[0].hi; z += (s).w[0].step) \
    for (INDEX y = (s).w[1].lo; y < (s).w[1].hi; y += (s).w[1].step) \
      for (INDEX x = (s).w[2].lo, at = (z * (INDEX)v.in[1] + y) * (INDEX)v.in[2] + x; \
           x < (s).w[2].hi; \
           x += (s).w[2].step, at += (s).w[2].step)

FN long long best(const pool_params &v, const spot &s, const S *x0) {
  INDEX found = -1;
  ACC most = 0;
  const S *x1 = x0 + s.plane;
  WINDOW(v, s, at) {
    const ACC e = (ACC)IN(x1[at]);
    if (found < 0 || e > most || e != e) {
      most = e;
      found = at;
    }
  }
  return found;
}

extern "C" __global__ void max_pool(const __grid_constant__ pool_params v,
                                    const __grid_constant__ pool_dividers by, const S *in, S *out,
                                    S lowest, long long n) {
  EACH(i, n) {
    const spot s = spot_of(v, by, i);
    const long long at = best(v, s, in);
    out[i] = at < 0 ? lowest : in[s.plane + at];
  }
}

extern "C" __global__ void max_pool_at(const __grid_constant__ pool_params v,
                                       const __grid_constant__ pool_dividers by, const S *in,
                                       long long *out, long long n) {
  EACH(i, n) out[i] = best(v, spot_of(v, by, i), in) + 1;
}

extern "C" __global__ void pool_take(const __grid_constant__ pool_params v,
                                     const __grid_constant__ pool_dividers by, const S *in,
                                     const long long *at, S *out, long long n) {
  const long long results = v.out[0] * v.out[1] * v.out[2], elements = v.in[0] * v.in[1] * v.in[2];
  EACH(i, n) {
    const long long p = at[i];
    out[i] = p >= 1 && p <= elements ? in[i / results * elements + p - 1] : (S)0;
  }
}

extern "C" __global__ void avg_pool(const __grid_constant__ pool_params v,
                                    const __grid_constant__ pool_dividers by, const S *in, S *out,
                                    long long n) {
  EACH(i, n) {
    const spot s = spot_of(v, by, i);
    const S *x1 = in + s.plane;
    ACC sum = 0;
    WINDOW(v, s, at) sum += (ACC)IN(x1[at]);
    const bool some = s.w[0].hi > s.w[0].lo && s.w[1].hi > s.w[1].lo && s.w[2].hi > s.w[2].lo;
    const ACC parts = v.divisor ? (ACC)v.divisor
        : (ACC)count(v, 0, s.o[0], s.w[0]) * (ACC)count(v, 1, s.o[1], s.w[1]) *
          (ACC)count(v, 2, s.o[2], s.w[2]);
    out[i] = (S)OUT(some ? sum / parts : (ACC)0);
  }
}

/* Windows of axis a that may hold element p. */
FN range holders(const pool_params &v, const pool_dividers &by, int a, INDEX p) {
  const INDEX in = (INDEX)v.in[a], out = (INDEX)v.out[a];
  if (v.adaptive)
    return { (INDEX)((long long)p * out / in),
             (INDEX)((((long long)p + 1) * out + in - 1) / in), 1 };
  const INDEX stride = (INDEX)v.stride[a], t = p + (INDEX)v.pad[a],
  first = t - ((INDEX)v.k[a] - 1) * (INDEX)v.dil[a];
  const INDEX lo = first > 0 ? over(first + stride - 1, by.stride[a], stride) : 0,
  hi = over(t, by.stride[a], stride) + 1;
  return { lo, hi < out ? hi : out, 1 };
}

FN bool holds(range w, INDEX p) {
  return p >= w.lo && p < w.hi && (w.step == 1 || (p - w.lo) % w.step == 0);
}

/* Element i: its plane, its coordinates, and on each axis the windows that hold it. */
struct element { long long plane; INDEX c[3], at; range o[3]; };
FN element element_of(const pool_params &v, const pool_dividers &by, long long i) {
  element e;
  const INDEX elements = (INDEX)(v.in[0] * v.in[1] * v.in[2]);
  const long long p = sizeof(INDEX) == 8 ? i / elements : over((INDEX)i, by.elements, elements);
  INDEX q = e.at = (INDEX)(i - p * elements);
  e.plane = p * v.out[0] * v.out[1] * v.out[2];
  for (int a = 2; a >= 0; a--) {
    const INDEX rest = over(q, by.in[a], v.in[a]);
    e.c[a] = q - rest * (INDEX)v.in[a];
    q = rest;
    e.o[a] = holders(v, by, a, e.c[a]);
  }
  return e;
}

/* The adjoint of maximum pooling. at: the positions that max_pool_at gave for the same windows. */
extern "C" __global__ void pool_put(const __grid_constant__ pool_params v,
                                    const __grid_constant__ pool_dividers by, const S *g,
                                    const long long *at, S *out, long long n) {
  EACH(i, n) {
    const element e = element_of(v, by, i);
    ACC sum = 0;
    for (INDEX d = e.o[0].lo; d < e.o[0].hi; d++)
      for (INDEX h = e.o[1].lo; h < e.o[1].hi; h++)
        for (INDEX w = e.o[2].lo; w < e.o[2].hi; w++) {
          const long long j = e.plane + (d * (INDEX)v.out[1] + h) * (INDEX)v.out[2] + w;
          if (at[j] == (long long)e.at + 1) sum += (ACC)IN(g[j]);
        }
    out[i] = (S)OUT(sum);
  }
}

extern "C" __global__ void avg_pool_back(const __grid_constant__ pool_params v,
                                         const __grid_constant__ pool_dividers by, const S *g,
                                         S *out, long long n) {
  EACH(i, n) {
    const element e = element_of(v, by, i);
    ACC sum = 0;
    for (INDEX d = e.o[0].lo; d < e.o[0].hi; d++) {
      const range r0 = window(v, 0, d);
      if (!holds(r0, e.c[0])) continue;
      const ACC n0 = (ACC)count(v, 0, d, r0);
      for (INDEX h = e.o[1].lo; h < e.o[1].hi; h++) {
        const range r1 = window(v, 1, h);
        if (!holds(r1, e.c[1])) continue;
        const ACC n1 = n0 * (ACC)count(v, 1, h, r1);
        for (INDEX w = e.o[2].lo; w < e.o[2].hi; w++) {
          const range r2 = window(v, 2, w);
          if (holds(r2, e.c[2]))
            sum += (ACC)IN(g[e.plane + (d * (INDEX)v.out[1] + h) * (INDEX)v.out[2] + w]) /
                (v.divisor ? (ACC)v.divisor : n1 * (ACC)count(v, 2, w, r2));
        }
      }
    }
    out[i] = (S)OUT(sum);
  }
}

/* Weighted sums along the middle axis of (outer, elements, inner), that is products with a sparse
** matrix: row o has the terms j = start[o] to start[o + 1] - 1, each an element at[j] times
** weight[j], which are added in this order. Neighbouring threads have neighbouring places of the
** inner axis. */
struct resample_params { long long elements, results, inner, terms; };
struct resample_dividers { divider results, inner; };
extern "C" __global__ void resample(const __grid_constant__ resample_params v,
                                    const __grid_constant__ resample_dividers by, const S *in,
                                    const long long *start, const long long *at, const S *weight,
                                    S *out, long long n) {
  const INDEX terms = (INDEX)v.terms, elements = (INDEX)v.elements, width = (INDEX)v.inner;
  EACH(i, n) {
    const INDEX row = over((INDEX)i, by.inner, v.inner), outer = over(row, by.results, v.results);
    const INDEX inner = (INDEX)i - row * width, o = row - outer * (INDEX)v.results;
    const long long lo = start[o], hi = start[o + 1];
    const INDEX first = lo < 0 ? 0 : (INDEX)lo, last = hi > terms ? terms : (INDEX)hi;
    const S *from = in + (long long)outer * elements * width + inner;
    ACC sum = 0;
    for (INDEX j = first; j < last; j++) {
      const long long e = at[j];
      if (e >= 0 && e < elements) sum += (ACC)IN(weight[j]) * (ACC)IN(from[(long long)e * width]);
    }
    out[i] = (S)OUT(sum);
  }
}
