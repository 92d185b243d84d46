/*
** Convolutions where cuDNN is not used: implicit matrix products, one kernel text for the
** convolution and its two gradients (src/tensor/call_conv.h). After prelude.cu. Defined before it:
** S, an element in memory; ACC, the type of sums; IN and OUT, which convert from S and to it.
**
** rows x columns = sum over terms, for each group:
**   conv_y  outputs of the group   x  (image, output position)  over (channel, kernel)
**   conv_x  channels of the group  x  (image, input position)   over (output, kernel)
**   conv_w  outputs of the group   x  (channel, kernel)         over (image, output position)
** A block of 256 threads makes a tile of 64 x 64, 4 x 4 per thread, 16 terms at a time through
** shared memory; terms are added in order. Every element is read once by each tile that needs it:
** operands of the rows about columns / 64 times, those of the columns about rows / 64 times.
** Correct for every size; nothing is atomic.
*/
struct conv_params { long long n, c, o, groups, in[3], k[3], out[3], stride[3], pad[3], dil[3]; };

FN float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
FN double multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }
FN unsigned long long multiply_add(unsigned long long a, unsigned long long b,
                                   unsigned long long c) {
  return a * b + c;
}

FN long long volume(const long long *s) { return s[0] * s[1] * s[2]; }

struct place3 { long long z, y, x; };
FN place3 split3(long long i, const long long *s) {
  const long long row = i / s[2];
  return { row / s[1], row % s[1], i - row * s[2] };
}

/* The position in a plane of x that output position p reads with kernel element k; -1: outside. */
FN long long source(const conv_params &v, place3 p, place3 k) {
  const long long z = p.z * v.stride[0] - v.pad[0] + k.z * v.dil[0];
  const long long y = p.y * v.stride[1] - v.pad[1] + k.y * v.dil[1];
  const long long x = p.x * v.stride[2] - v.pad[2] + k.x * v.dil[2];
  if (z < 0 || z >= v.in[0] || y < 0 || y >= v.in[1] || x < 0 || x >= v.in[2]) return -1;
  return (z * v.in[1] + y) * v.in[2] + x;
}

/* The output position of axis a that reads input position i with kernel element k; -1: none. */
FN long long reader(const conv_params &v, int a, long long i, long long k) {
  const long long t = i + v.pad[a] - k * v.dil[a];
  if (t < 0 || t % v.stride[a] != 0) return -1;
  const long long o = t / v.stride[a];
  return o < v.out[a] ? o : -1;
}

/* The part of an element's address that its column decides, computed once. KIND below: 0 conv_y, 1
** conv_x, 2 conv_w. */
struct column { long long image, at; place3 p; bool real; };

template <int KIND> FN long long count_rows(const conv_params &v) {
  return (KIND == 1 ? v.c : v.o) / v.groups;
}
template <int KIND> FN long long count_columns(const conv_params &v) {
  return KIND == 0 ? v.n * volume(v.out) : KIND == 1 ? v.n * volume(v.in)
                                                     : v.c / v.groups * volume(v.k);
}
template <int KIND> FN long long count_terms(const conv_params &v) {
  return KIND == 0 ? v.c / v.groups * volume(v.k)
                   : KIND == 1 ? v.o / v.groups * volume(v.k) : v.n * volume(v.out);
}

template <int KIND> FN column column_of(const conv_params &v, long long j, long long columns) {
  column c;
  const long long plane = KIND == 0 ? volume(v.out) : KIND == 1 ? volume(v.in) : volume(v.k);
  c.real = j < columns;
  c.image = j / plane;                               /* conv_w: the channel */
  c.at = j - c.image * plane;
  c.p = split3(c.at, KIND == 0 ? v.out : KIND == 1 ? v.in : v.k);
  return c;
}

/* Element (row, term) of the left factor. */
template <int KIND> FN ACC left(const conv_params &v, const S *a, long long g, long long row,
                                long long term) {
  const long long og = v.o / v.groups, cg = v.c / v.groups, vk = volume(v.k);
  if (KIND == 0) return (ACC)IN(a[(g * og + row) * cg * vk + term]);
  if (KIND == 1) {
    const long long o = term / vk;
    return (ACC)IN(a[((g * og + o) * cg + row) * vk + term - o * vk]);
  }
  const long long vo = volume(v.out), n = term / vo;
  return (ACC)IN(a[(n * v.o + g * og + row) * vo + term - n * vo]);
}

/* Element (term, column) of the right factor. */
template <int KIND> FN ACC right(const conv_params &v, const S *b, long long g, long long term,
                                 const column &c) {
  const long long og = v.o / v.groups, cg = v.c / v.groups;
  if (KIND == 1) {
    const long long vk = volume(v.k), o = term / vk;
    const place3 k = split3(term - o * vk, v.k);
    const long long z = reader(v, 0, c.p.z, k.z), y = reader(v, 1, c.p.y, k.y),
                    x = reader(v, 2, c.p.x, k.x);
    if (z < 0 || y < 0 || x < 0) return (ACC)0;
    return (ACC)IN(
        b[((c.image * v.o + g * og + o) * v.out[0] + z) * v.out[1] * v.out[2] + y * v.out[2] + x]);
  }
  const long long per = KIND == 0 ? volume(v.k) : volume(v.out), first = term / per;
  const place3 t = split3(term - first * per, KIND == 0 ? v.k : v.out);
  const long long at = KIND == 0 ? source(v, c.p, t) : source(v, t, c.p);
  if (at < 0) return (ACC)0;
  const long long image = KIND == 0 ? c.image : first, channel = KIND == 0 ? first : c.image;
  return (ACC)IN(b[(image * v.c + g * cg + channel) * volume(v.in) + at]);
}

template <int KIND> FN long long result_at(const conv_params &v, long long g, long long row,
                                           const column &c) {
  const long long og = v.o / v.groups, cg = v.c / v.groups;
  if (KIND == 0) return (c.image * v.o + g * og + row) * volume(v.out) + c.at;
  if (KIND == 1) return (c.image * v.c + g * cg + row) * volume(v.in) + c.at;
  return ((g * og + row) * cg + c.image) * volume(v.k) + c.at;
}

template <int KIND> FN void convolve(const conv_params &v, const S *a, const S *b, S *out) {
  constexpr int TILE = 64, DEPTH = 16;
  __shared__ ACC sa[DEPTH][TILE + 1], sb[DEPTH][TILE];
  const int t = threadIdx.x, lane = t % TILE, part = t / TILE, tx = t % 16, ty = t / 16;
  const long long rows = count_rows<KIND>(v), columns = count_columns<KIND>(v),
                  terms = count_terms<KIND>(v);
  const long long row_tiles = (rows + TILE - 1) / TILE;
  for (long long q = blockIdx.y; q < row_tiles * v.groups; q += gridDim.y) {
    const long long g = q / row_tiles, row0 = q % row_tiles * TILE,
                    col0 = blockIdx.x * (long long)TILE;
    const column mine = column_of<KIND>(v, col0 + lane, columns);
    ACC sum[4][4] = {};
    for (long long k0 = 0; k0 < terms; k0 += DEPTH) {
      for (int i = 0; i < 4; i++) {
        const int d = part * 4 + i;
        const long long term = k0 + d;
        sa[d][lane] = term < terms && row0 + lane < rows
                      ? left<KIND>(v, a, g, row0 + lane, term) : (ACC)0;
        sb[d][lane] = term < terms && mine.real ? right<KIND>(v, b, g, term, mine) : (ACC)0;
      }
      __syncthreads();
#pragma unroll
      for (int d = 0; d < DEPTH; d++)
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
          for (int j = 0; j < 4; j++)
            sum[i][j] = multiply_add(sa[d][ty * 4 + i], sb[d][tx + 16 * j], sum[i][j]);
      __syncthreads();
    }
    for (int j = 0; j < 4; j++) {
      const column c = column_of<KIND>(v, col0 + tx + 16 * j, columns);
      for (int i = 0; i < 4; i++) {
        const long long row = row0 + ty * 4 + i;
        if (c.real && row < rows) out[result_at<KIND>(v, g, row, c)] = (S)OUT(sum[i][j]);
      }
    }
  }
}

/* Operands: conv_y a = w, b = x; conv_x a = w, b = cotangent of y; conv_w a = cotangent of y, b =
** x. */
extern "C" __global__ void conv_y(const __grid_constant__ conv_params v, const S *a,
                                  const S *b, S *out) {
  convolve<0>(v, a, b, out);
}
extern "C" __global__ void conv_x(const __grid_constant__ conv_params v, const S *a,
                                  const S *b, S *out) {
  convolve<1>(v, a, b, out);
}
extern "C" __global__ void conv_w(const __grid_constant__ conv_params v, const S *a,
                                  const S *b, S *out) {
  convolve<2>(v, a, b, out);
}
