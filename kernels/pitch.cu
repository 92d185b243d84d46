/*
** Rows of 16-bit elements moved to another distance, for matrix products: the library's fast
** kernels want each row to begin at a multiple of 16 bytes. 2048 elements of a row a block of 256
** threads. Bytes: each element read once and written once.
*/
typedef unsigned short u16;

extern "C" __global__ void __launch_bounds__(256) pitch(const u16 *from, long long from_step,
                                                        u16 *to, long long to_step, long long rows,
                                                        long long cols) {
  const long long wide = (cols + 2047) / 2048;
  for (long long i = blockIdx.x; i < rows * wide; i += gridDim.x) {
    const long long r = i / wide, c0 = i % wide * 2048 + threadIdx.x;
    const u16 *a = from + r * from_step;
    u16 *b = to + r * to_step, v[8];
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] = c0 + 256 * k < cols ? a[c0 + 256 * k] : 0;
#pragma unroll
    for (int k = 0; k < 8; k++)
      if (c0 + 256 * k < cols) b[c0 + 256 * k] = v[k];
  }
}
