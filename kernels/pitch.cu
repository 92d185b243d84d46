/*
** Copies rows of 16-bit elements to another pitch (distance from row to row), with zeros after
** them, for matrix products: the library's fast kernels want sizes and pitches that are multiples
** of 16 bytes. A block of 256 threads copies 2048 elements of a row at a time. Bytes: each element
** is read once and written once.
*/
typedef unsigned short u16;

struct pitch_args {                     /* laid out as fl_rows_copy of src/cuda/library/rows.h */
  const u16 *from; long long from_step, rows, cols; u16 *to; long long to_step, to_rows, to_cols;
};

extern "C" __global__ void __launch_bounds__(256) pitch(const __grid_constant__ pitch_args a) {
  const long long wide = (a.to_cols + 2047) / 2048;
  for (long long i = blockIdx.x; i < a.to_rows * wide; i += gridDim.x) {
    const long long r = i / wide, c0 = i % wide * 2048 + threadIdx.x,
                    cols = r < a.rows ? a.cols : 0;
    const u16 *from = a.from + r * a.from_step;
    u16 *to = a.to + r * a.to_step, v[8];
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] = c0 + 256 * k < cols ? from[c0 + 256 * k] : 0;
#pragma unroll
    for (int k = 0; k < 8; k++)
      if (c0 + 256 * k < a.to_cols) to[c0 + 256 * k] = v[k];
  }
}
