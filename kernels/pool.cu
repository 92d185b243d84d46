/*
** Pooling (src/tensor/call_conv.h). After prelude.cu; S, ACC, IN, OUT come by definition, INDEX
** is int where all sizes fit. One thread a result, in row-major order, so neighbours read
** neighbours; a plane's windows overlap in cache. Adjoints gather: an element asks the windows
** that contain it, in order, so nothing is atomic and sums have one order.
** Bytes: inputs once (windows come from cache) and results once.
*/
struct pool_params {
  long long planes, in[3], k[3], out[3], stride[3], pad[3], dil[3], adaptive, include_pad, divisor;
};
struct range { INDEX lo, hi, step; };

#define EACH(i, n) \
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < (n); i += gridDim.x * (long long)blockDim.x)

FN range window(const pool_params &v, int a, INDEX o) {
  const INDEX in = (INDEX)v.in[a], out = (INDEX)v.out[a];
  if (v.adaptive) return { (INDEX)((long long)o * in / out), (INDEX)((((long long)o + 1) * in + out - 1) / out), 1 };
  const INDEX dil = (INDEX)v.dil[a], start = o * (INDEX)v.stride[a] - (INDEX)v.pad[a], end = start + ((INDEX)v.k[a] - 1) * dil + 1;
  return { start < 0 ? start + (-start + dil - 1) / dil * dil : start, end < in ? end : in, dil };
}

FN INDEX length(range w) { return w.hi > w.lo ? (w.hi - w.lo + w.step - 1) / w.step : 0; }

FN ACC divisor(const pool_params &v, const INDEX *o, const range *w) {
  if (v.divisor) return (ACC)v.divisor;
  ACC n = 1;
  for (int a = 0; a < 3; a++) {
    INDEX m = length(w[a]);
    if (v.include_pad && !v.adaptive) {
      const INDEX start = o[a] * (INDEX)v.stride[a] - (INDEX)v.pad[a], end = start + (INDEX)v.k[a], most = (INDEX)(v.in[a] + v.pad[a]);
      m = (end < most ? end : most) - start;
    }
    n *= (ACC)m;
  }
  return n;
}

/* Result i: its plane's elements and its windows. */
struct spot { long long plane; INDEX o[3]; range w[3]; };
FN spot spot_of(const pool_params &v, long long i) {
  spot s;
  const INDEX results = (INDEX)(v.out[0] * v.out[1] * v.out[2]);
  const long long p = i / results;
  INDEX q = (INDEX)(i - p * results);
  s.plane = p * v.in[0] * v.in[1] * v.in[2];
  for (int a = 2; a >= 0; a--) {
    s.o[a] = q % (INDEX)v.out[a];
    q /= (INDEX)v.out[a];
    s.w[a] = window(v, a, s.o[a]);
  }
  return s;
}
#define WINDOW(v, s, at) \
  for (INDEX z = (s).w[0].lo; z < (s).w[0].hi; z += (s).w[0].step) \
    for (INDEX y = (s).w[1].lo; y < (s).w[1].hi; y += (s).w[1].step) \
      for (INDEX x = (s).w[2].lo, at = (z * (INDEX)v.in[1] + y) * (INDEX)v.in[2] + x; x < (s).w[2].hi; \
           x += (s).w[2].step, at += (s).w[2].step)

FN long long best(const pool_params &v, const spot &s, const S *x0) {
  long long found = -1;
  ACC most = 0;
  WINDOW(v, s, at) {
    const ACC e = (ACC)IN(x0[s.plane + at]);
    if (found < 0 || e > most || e != e) {
      most = e;
      found = at;
    }
  }
  return found;
}

extern "C" __global__ void max_pool(const __grid_constant__ pool_params v, const S *in, S *out, S lowest, long long n) {
  EACH(i, n) {
    const spot s = spot_of(v, i);
    const long long at = best(v, s, in);
    out[i] = at < 0 ? lowest : in[s.plane + at];
  }
}

extern "C" __global__ void max_pool_at(const __grid_constant__ pool_params v, const S *in, long long *out, long long n) {
  EACH(i, n) out[i] = best(v, spot_of(v, i), in) + 1;
}

extern "C" __global__ void pool_take(const __grid_constant__ pool_params v, const S *in, const long long *at, S *out, long long n) {
  const long long results = v.out[0] * v.out[1] * v.out[2], elements = v.in[0] * v.in[1] * v.in[2];
  EACH(i, n) {
    const long long p = at[i];
    out[i] = p >= 1 && p <= elements ? in[i / results * elements + p - 1] : (S)0;
  }
}

extern "C" __global__ void avg_pool(const __grid_constant__ pool_params v, const S *in, S *out, long long n) {
  EACH(i, n) {
    const spot s = spot_of(v, i);
    ACC sum = 0;
    WINDOW(v, s, at) sum += (ACC)IN(in[s.plane + at]);
    const bool some = length(s.w[0]) && length(s.w[1]) && length(s.w[2]);
    out[i] = (S)OUT(some ? sum / divisor(v, s.o, s.w) : (ACC)0);
  }
}

/* Windows of axis a that may hold element p. */
FN range holders(const pool_params &v, int a, INDEX p) {
  const INDEX in = (INDEX)v.in[a], out = (INDEX)v.out[a];
  if (v.adaptive) return { (INDEX)((long long)p * out / in), (INDEX)((((long long)p + 1) * out + in - 1) / in), 1 };
  const INDEX stride = (INDEX)v.stride[a], t = p + (INDEX)v.pad[a], first = t - ((INDEX)v.k[a] - 1) * (INDEX)v.dil[a];
  const INDEX lo = first > 0 ? (first + stride - 1) / stride : 0, hi = t / stride + 1;
  return { lo, hi < out ? hi : out, 1 };
}

FN bool holds(range w, INDEX p) { return p >= w.lo && p < w.hi && (p - w.lo) % w.step == 0; }

/* Element i of the planes: coordinates, and the windows around it. */
struct element { long long plane; INDEX c[3], at; range o[3]; };
FN element element_of(const pool_params &v, long long i) {
  element e;
  const INDEX elements = (INDEX)(v.in[0] * v.in[1] * v.in[2]);
  const long long p = i / elements;
  INDEX q = e.at = (INDEX)(i - p * elements);
  e.plane = p * v.out[0] * v.out[1] * v.out[2];
  for (int a = 2; a >= 0; a--) {
    e.c[a] = q % (INDEX)v.in[a];
    q /= (INDEX)v.in[a];
    e.o[a] = holders(v, a, e.c[a]);
  }
  return e;
}

/* positions: of max_pool_at with the same windows. */
extern "C" __global__ void pool_put(const __grid_constant__ pool_params v, const S *g, const long long *at, S *out, long long n) {
  EACH(i, n) {
    const element e = element_of(v, i);
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

extern "C" __global__ void avg_pool_back(const __grid_constant__ pool_params v, const S *g, S *out, long long n) {
  EACH(i, n) {
    const element e = element_of(v, i);
    ACC sum = 0;
    for (INDEX d = e.o[0].lo; d < e.o[0].hi; d++)
      for (INDEX h = e.o[1].lo; h < e.o[1].hi; h++)
        for (INDEX w = e.o[2].lo; w < e.o[2].hi; w++) {
          const INDEX o[3] = { d, h, w };
          range r[3];
          bool in = true;
          for (int a = 0; a < 3; a++) {
            r[a] = window(v, a, o[a]);
            in = in && holds(r[a], e.c[a]);
          }
          if (in) sum += (ACC)IN(g[e.plane + (d * (INDEX)v.out[1] + h) * (INDEX)v.out[2] + w]) / divisor(v, o, r);
        }
    out[i] = (S)OUT(sum);
  }
}

/* Weighted sums along the middle axis of (outer, elements, inner): a sparse matrix by rows; terms
** in its order. Neighbouring threads have neighbouring places of the inner axis. */
struct resample_params { long long elements, results, inner, terms; };
extern "C" __global__ void resample(const __grid_constant__ resample_params v, const S *in, const long long *start, const long long *at,
                                    const S *weight, S *out, long long n) {
  EACH(i, n) {
    const long long inner = i % v.inner, row = i / v.inner, o = row % v.results, outer = row / v.results;
    const long long first = start[o] < 0 ? 0 : start[o], last = start[o + 1] > v.terms ? v.terms : start[o + 1];
    ACC sum = 0;
    for (long long j = first; j < last; j++)
      if (at[j] >= 0 && at[j] < v.elements)
        sum += (ACC)IN(weight[j]) * (ACC)IN(in[(outer * v.elements + at[j]) * v.inner + inner]);
    out[i] = (S)OUT(sum);
  }
}
