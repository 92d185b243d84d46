/*
** Fourier transforms along the middle axis of (outer, size, inner) in shared memory. Header-free;
** compiled with TYPE 0 (f64) or 1 (f32) before it.
**   fft_short    a block transforms 'pack' signals. Lengths that are not powers of two are done as
**                convolutions with a chirp, of length m, a power of two; 'kernel' is the chirp's
**                transform, which fft_short makes as well (mode KERNEL)
**   fft_columns, fft_lines   a long power of two as a matrix of rows x columns: down the columns,
**                times roots of unity, into 'middle'; then along the rows. Signals or columns side
**                by side in memory go to one block, so that reads and writes are whole lines.
**   fft_rows, fft_back, fft_scale   around a library's transforms: fft_rows cuts or pads signals,
**                scales and packs them; fft_back copies results back and scales them; fft_scale
**                only scales. Tiles of 32 x 32 where signals lie side by side, so that both sides
**                move whole lines
** Passes are of radix 2 in place, on a signal read in bit-reversed order; roots come from sincospi,
** whose arguments are exact for powers of two. An inverse transform is a forward one with real and
** imaginary parts exchanged at both ends. Bytes: a signal is read once and written once, a long one
** twice.
*/
#if TYPE == 0
typedef double real;
#define SINCOSPI(a, s, c) sincospi((double)(a), (s), (c))
#else
typedef float real;
#define SINCOSPI(a, s, c) sincospif((float)(a), (s), (c))
#endif
#define FN __device__ __forceinline__
typedef long long i64;
enum { COMPLEX, TO_HALF, FROM_HALF, KERNEL };
struct pair { real re, im; };

/* As in cuda/call/call_fft.c. */
struct job {
  i64 outer, size_in, inner, n, size_out;      /* as tensor/call_fft.h */
  /* m: length in shared memory; rows, columns: shape of a long transform */
  i64 m, rows, columns;
  i64 count, pack;                             /* number of signals, and how many a block takes */
  double scale;
  int mode, inverse, chirp, pad;
};

FN pair times(pair a, pair b) {
  pair c;
  c.re = a.re * b.re - a.im * b.im;
  c.im = a.re * b.im + a.im * b.re;
  return c;
}

FN pair swapped(pair a) {
  pair b;
  b.re = a.im;
  b.im = a.re;
  return b;
}

/* exp(-pi i k^2 / n) */
FN pair chirp_of(i64 k, i64 n) {
  double s, c;
  sincospi((double)(k * k % (2 * n)) / (double)n, &s, &c);
  pair w;
  w.re = (real)c;
  w.im = (real)-s;
  return w;
}

/* Element k of the whole spectrum, of which x holds half. */
FN pair mirrored(const job &q, const real *x, i64 first, i64 k) {
  const int other = 2 * k > q.n;
  if (other) k = q.n - k;
  pair v;
  v.re = v.im = 0;
  if (k < q.size_in) {
    v.re = x[2 * (first + k * q.inner)];
    v.im = k == 0 || 2 * k == q.n ? (real)0 : x[2 * (first + k * q.inner) + 1];
    if (other) v.im = -v.im;
  }
  return v;
}

/* Loads element k of signal t as the forward transform needs it: for an inverse with real and
** imaginary parts exchanged, and zero after the end. Mode KERNEL reads no signal: element k is that
** of the conjugated chirp, which is continued from the end of the m elements backwards. */
FN pair fetch(const job &q, const real *x, i64 t, i64 k) {
  pair v;
  v.re = v.im = 0;
  if (q.mode == KERNEL) {
    if (k > q.m - q.n) k = q.m - k;
    if (k >= q.n) return v;
    v = chirp_of(k, q.n);
    v.im = -v.im;
    return v;
  }
  if (k >= q.n) return v;
  const i64 first = t / q.inner * q.size_in * q.inner + t % q.inner;
  if (q.mode == FROM_HALF) return swapped(mirrored(q, x, first, k));
  if (k >= q.size_in) return v;
  if (q.mode == TO_HALF) {
    v.re = x[first + k * q.inner];
    return v;
  }
  v.re = x[2 * (first + k * q.inner)];
  v.im = x[2 * (first + k * q.inner) + 1];
  return q.inverse ? swapped(v) : v;
}

/* Stores v, scaled, as element k of the result for signal t; elements beyond the transform become
** zeros, those beyond size_out are dropped. */
FN void put(const job &q, real *y, i64 t, i64 k, pair v) {
  if (k >= q.size_out) return;
  const i64 at = t / q.inner * q.size_out * q.inner + t % q.inner + k * q.inner;
  const i64 there = q.mode == TO_HALF ? q.n / 2 + 1 : q.mode == KERNEL ? q.m : q.n;
  if (q.mode == FROM_HALF || (q.mode == COMPLEX && q.inverse)) v = swapped(v);
  if (k >= there) v.re = v.im = 0;
  if (q.mode == FROM_HALF) {
    y[at] = v.re * (real)q.scale;
    return;
  }
  y[2 * at] = v.re * (real)q.scale;
  y[2 * at + 1] = v.im * (real)q.scale;
}

FN int bits_of(i64 m) {
  int b = 0;
  while (((i64)1 << b) < m) b++;
  return b;
}

FN i64 reversed(i64 k, int bits) { return bits ? (i64)(__brev((unsigned)k) >> (32 - bits)) : 0; }

/* The butterflies of 'pack' signals of length m, each in bit-reversed order. */
FN void passes(pair *room, i64 m, i64 pack) {
  for (i64 half = 1; half < m; half *= 2) {
    for (i64 b = threadIdx.x; b < pack * (m / 2); b += blockDim.x) {
      const i64 k = b & (half - 1), i = 2 * (b - k) + k;  /* m / 2 butterflies per signal, in
                                                          ** order */
      pair w;
      SINCOSPI((real)k / (real)half, &w.im, &w.re);
      w.im = -w.im;
      const pair u = room[i], v = times(room[i + half], w);
      room[i].re = u.re + v.re;
      room[i].im = u.im + v.im;
      room[i + half].re = u.re - v.re;
      room[i + half].im = u.im - v.im;
    }
    __syncthreads();
  }
}

/* Bit-reversed order from natural order, in place. */
FN void reorder(pair *room, i64 m, i64 pack, int bits) {
  for (i64 e = threadIdx.x; e < pack * m; e += blockDim.x) {
    const i64 k = e & (m - 1), r = reversed(k, bits), base = e - k;
    if (k < r) {
      const pair t = room[base + k];
      room[base + k] = room[base + r];
      room[base + r] = t;
    }
  }
  __syncthreads();
}

/* Which element of which signal is element e of the pack * m in memory: p the signal, k the element
** in it. across: signals lie side by side. */
FN void place(const job &q, i64 e, i64 m, int across, i64 *p, i64 *k) {
  *p = across ? e % q.pack : e / m;
  *k = across ? e / q.pack : e % m;
}

extern "C" __global__ void fft_short(job q, const real *x, real *y, const pair *kernel) {
  extern __shared__ double memory[];
  pair *room = (pair *)memory;
  const i64 t0 = blockIdx.x * q.pack, m = q.m;
  const int bits = bits_of(m), across = q.inner > 1;
  i64 p, k;
  for (i64 e = threadIdx.x; e < q.pack * m; e += blockDim.x) {
    place(q, e, m, across, &p, &k);
    pair v;
    v.re = v.im = 0;
    if (t0 + p < q.count) v = fetch(q, x, t0 + p, k);
    if (q.chirp && k < q.n) v = times(v, chirp_of(k, q.n));
    room[p * m + reversed(k, bits)] = v;
  }
  __syncthreads();
  passes(room, m, q.pack);
  if (q.chirp) {
    for (i64 e = threadIdx.x; e < q.pack * m; e += blockDim.x)
      room[e] = swapped(times(room[e], kernel[e & (m - 1)]));
    __syncthreads();
    reorder(room, m, q.pack, bits);
    passes(room, m, q.pack);
  }
  const i64 longest = m > q.size_out ? m : q.size_out;
  for (i64 e = threadIdx.x; e < q.pack * longest; e += blockDim.x) {
    place(q, e, longest, across, &p, &k);
    pair v;
    v.re = v.im = 0;
    if (k < m) v = room[p * m + k];
    if (q.chirp) v = times(swapped(v), k < q.n ? chirp_of(k, q.n) : v);
    if (t0 + p < q.count) put(q, y, t0 + p, k, v);
  }
}

/* Transforms columns of signals of rows * columns elements; a block takes 'pack' columns. */
extern "C" __global__ void fft_columns(job q, const real *x, pair *middle) {
  extern __shared__ double memory[];
  pair *room = (pair *)memory;
  const i64 c0 = blockIdx.x * q.pack, m = q.rows, all = q.count * q.columns;
  const int bits = bits_of(m);
  for (i64 e = threadIdx.x; e < q.pack * m; e += blockDim.x) {
    const i64 p = e % q.pack, k = e / q.pack, c = c0 + p;
    pair v;
    v.re = v.im = 0;
    if (c < all) v = fetch(q, x, c / q.columns, k * q.columns + c % q.columns);
    room[p * m + reversed(k, bits)] = v;
  }
  __syncthreads();
  passes(room, m, q.pack);
  for (i64 e = threadIdx.x; e < q.pack * m; e += blockDim.x) {
    const i64 p = e % q.pack, k = e / q.pack, c = c0 + p;
    if (c >= all) continue;
    double s, w;
    sincospi(2.0 * (double)(c % q.columns * k) / (double)q.n, &s, &w);
    pair root;
    root.re = (real)w;
    root.im = (real)-s;
    middle[(c / q.columns * m + k) * q.columns + c % q.columns] = times(room[p * m + k], root);
  }
}

/* Transforms rows of 'middle'; a block takes 'pack' rows. */
extern "C" __global__ void fft_lines(job q, const pair *middle, real *y) {
  extern __shared__ double memory[];
  pair *room = (pair *)memory;
  const i64 r0 = blockIdx.x * q.pack, m = q.columns, all = q.count * q.rows;
  const int bits = bits_of(m);
  for (i64 e = threadIdx.x; e < q.pack * m; e += blockDim.x) {
    const i64 p = e / m, k = e % m;
    pair v;
    v.re = v.im = 0;
    if (r0 + p < all) v = middle[(r0 + p) * m + k];
    room[p * m + reversed(k, bits)] = v;
  }
  __syncthreads();
  passes(room, m, q.pack);
  for (i64 e = threadIdx.x; e < q.pack * m; e += blockDim.x) {
    const i64 p = e % q.pack, k = e / q.pack, r = r0 + p;
    if (r < all) put(q, y, r / q.rows, r % q.rows + q.rows * k, room[p * m + k]);
  }
}

/* ---- around a library's transforms ---- */

FN pair zero(pair) { pair v; v.re = v.im = 0; return v; }
FN real zero(real) { return 0; }
FN pair scaled(pair v, real f) { v.re *= f; v.im *= f; return v; }
FN real scaled(real v, real f) { return v * f; }
FN pair without_imaginary(pair v) { v.im = 0; return v; }
FN real without_imaginary(real v) { return v; }

/* Element k of signal (o, i) as a library takes it: 0 beyond size_in, and the ends of a half
** spectrum real. */
template <class E> FN E taken(const job &q, const E *x, i64 o, i64 i, i64 k) {
  if (k >= q.size_in) return zero(E());
  const E v = scaled(x[(o * q.size_in + k) * q.inner + i], (real)q.scale);
  return q.mode == FROM_HALF && (k == 0 || 2 * k == q.n) ? without_imaginary(v) : v;
}

/* Copies x, of shape (outer, size_in, inner), to rows, of shape (outer, inner, length). */
template <class E> FN void to_rows(const job &q, const E *x, E *rows, i64 length) {
  if (q.inner == 1) {
    for (i64 e = blockIdx.x * (i64)blockDim.x + threadIdx.x; e < q.outer * length;
         e += gridDim.x * (i64)blockDim.x)
      rows[e] = taken(q, x, e / length, 0, e % length);
    return;
  }
  __shared__ E tile[32][33];
  const i64 down = (length + 31) / 32, across = (q.inner + 31) / 32;
  const int a = threadIdx.x % 32, b0 = threadIdx.x / 32;
  for (i64 w = blockIdx.x; w < q.outer * down * across; w += gridDim.x) {
    const i64 o = w / (down * across), k0 = w / across % down * 32, i0 = w % across * 32;
    for (int b = b0; b < 32; b += 8)
      if (k0 + b < length && i0 + a < q.inner) tile[b][a] = taken(q, x, o, i0 + a, k0 + b);
    __syncthreads();
    for (int b = b0; b < 32; b += 8)
      if (i0 + b < q.inner && k0 + a < length)
        rows[(o * q.inner + i0 + b) * length + k0 + a] = tile[a][b];
    __syncthreads();
  }
}

/* Copies rows, of shape (outer, inner, length), to y, of shape (outer, size_out, inner), with zeros
** after the last element of a row. */
template <class E> FN void from_rows(const job &q, const E *rows, E *y, i64 length) {
  if (q.inner == 1) {
    for (i64 e = blockIdx.x * (i64)blockDim.x + threadIdx.x; e < q.outer * q.size_out;
         e += gridDim.x * (i64)blockDim.x) {
      const i64 k = e % q.size_out;
      y[e] = k < length ? scaled(rows[e / q.size_out * length + k], (real)q.scale) : zero(E());
    }
    return;
  }
  __shared__ E tile[32][33];
  const i64 down = (q.size_out + 31) / 32, across = (q.inner + 31) / 32;
  const int a = threadIdx.x % 32, b0 = threadIdx.x / 32;
  for (i64 w = blockIdx.x; w < q.outer * down * across; w += gridDim.x) {
    const i64 o = w / (down * across), k0 = w / across % down * 32, i0 = w % across * 32;
    for (int b = b0; b < 32; b += 8) {
      if (i0 + b >= q.inner || k0 + a >= q.size_out) continue;
      tile[b][a] = k0 + a < length ? scaled(rows[(o * q.inner + i0 + b) * length + k0 + a],
                                            (real)q.scale) : zero(E());
    }
    __syncthreads();
    for (int b = b0; b < 32; b += 8)
      if (k0 + b < q.size_out && i0 + a < q.inner)
        y[(o * q.size_out + k0 + b) * q.inner + i0 + a] = tile[a][b];
    __syncthreads();
  }
}

extern "C" __global__ void fft_rows(job q, const real *x, real *rows, i64 length) {
  if (q.mode == TO_HALF) to_rows(q, x, rows, length);
  else to_rows(q, (const pair *)x, (pair *)rows, length);
}

extern "C" __global__ void fft_back(job q, const real *rows, real *y, i64 length) {
  if (q.mode == FROM_HALF) from_rows(q, rows, y, length);
  else from_rows(q, (const pair *)rows, (pair *)y, length);
}

extern "C" __global__ void fft_scale(real *y, i64 n, double factor) {
  for (i64 e = blockIdx.x * (i64)blockDim.x + threadIdx.x; e < n; e += gridDim.x * (i64)blockDim.x)
    y[e] *= (real)factor;
}
