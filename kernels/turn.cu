/*
** Transposes matrices of 16-bit elements, for convolutions with channels last. A block of 256
** threads takes a tile of 64 x 64: read along the rows, kept in shared memory, written along the
** columns; pairs of elements at a time where the length is even. Rows of the tile are padded by a
** word. Bytes: each element read once and written once. Any length.
*/
typedef unsigned short u16;
typedef unsigned int u32;
enum { TILE = 64, PITCH = TILE + 2 };

extern "C" __global__ void __launch_bounds__(256) turn(const u16 *from, u16 *to, long long count,
                                                       long long rows, long long cols) {
  __shared__ u32 words[TILE * PITCH / 2];
  u16 *tile = (u16 *)words;
  const long long tall = (rows + TILE - 1) / TILE, wide = (cols + TILE - 1) / TILE;
  const bool pairs = (cols & 1) == 0 && ((unsigned long long)from & 3) == 0;   /* 'to' is aligned */
  const int x = threadIdx.x & 31, y = threadIdx.x >> 5;        /* one warp per row of the tile */
  for (long long i = blockIdx.x; i < count * tall * wide; i += gridDim.x) {
    const long long matrix = i / (tall * wide), r0 = i / wide % tall * TILE, c0 = i % wide * TILE;
    const u16 *a = from + matrix * rows * cols;
    u16 *b = to + matrix * rows * cols;
#pragma unroll
    for (int k = 0; k < 8; k++) {
      const long long r = r0 + y + 8 * k, c = c0 + 2 * x;
      u32 pair = 0;
      if (r < rows && pairs) {
        if (c < cols) pair = *(const u32 *)(a + r * cols + c);
      } else if (r < rows) {
        if (c < cols) pair = a[r * cols + c];
        if (c + 1 < cols) pair |= (u32)a[r * cols + c + 1] << 16;
      }
      words[(y + 8 * k) * (PITCH / 2) + x] = pair;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 8; k++) {
      const long long c = c0 + y + 8 * k, r = r0 + 2 * x;
      const u16 low = tile[2 * x * PITCH + y + 8 * k], high = tile[(2 * x + 1) * PITCH + y + 8 * k];
      if (c >= cols) continue;
      if (r + 1 < rows && (rows & 1) == 0) *(u32 *)(b + c * rows + r) = low | (u32)high << 16;
      else {
        if (r < rows) b[c * rows + r] = low;
        if (r + 1 < rows) b[c * rows + r + 1] = high;
      }
    }
    __syncthreads();
  }
}
