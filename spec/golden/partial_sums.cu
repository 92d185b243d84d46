#ifndef R_sum_f32
#define R_sum_f32 R_sum_f32
#define T float
#define M(f) fl_##f##_f32
struct R_sum_f32 {
  typedef T A;
  static FN A start() { return (T)0; }
  static FN A join(A a, A b) { return M(add)(a, b); }
};
#undef T
#undef M
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 4
#endif
struct params_partial_sums { long long w[19]; };
extern "C" __global__ void __launch_bounds__(256, MIN_BLOCKS) partial_sums(const __grid_constant__ params_partial_sums params) {
  const long long *const w = params.w;
  const long long block = blockIdx.x;
  s4 *const p0 = (s4 *)w[13];
  s4 *const p1 = (s4 *)w[15];
  s4 *const p2 = (s4 *)w[16];
  s4 *const p3 = (s4 *)w[18];
  const long long n = w[1], cols = w[9];
  const long long chunks = w[4] > 0 ? w[4] : 1;
  const unsigned each = (unsigned)w[2], across = (unsigned)w[5];
  const long long tile = (unsigned)block % each, chunk = (unsigned)block / each;
  const long long outer = (unsigned)tile / across;
  const long long left = (unsigned)tile % across * 64ll;
  const int tid = threadIdx.x, x = tid % 16 * 4, y = tid / 16;
  const bool vector = w[0] & 1;
  __shared__ s8 space[512];
  R_sum_f32::A a1[4];
#pragma unroll
  for (int q = 0; q < 4; q++) a1[q] = R_sum_f32::start();
  R_sum_f32::A a3[4];
#pragma unroll
  for (int q = 0; q < 4; q++) a3[q] = R_sum_f32::start();
  {
    const long long column = left + x;
    const long long c0 = column;
    const long long start = chunk * w[3] + y;
    long long end = (chunk + 1) * w[3];
    if (end > n) end = n;
    if (column < cols) {
      if (vector) {
        for (long long i = y * 4; i < n; i += 64) {
          join_parts_of<R_sum_f32, 4, 4>(a1, p0 + i * cols + column, cols);
          join_parts_of<R_sum_f32, 4, 4>(a3, p2 + i * cols + column, cols);
        }
      } else {
        for (long long i = y * 4; i < n; i += 64) {
          for (int q = 0; q < 4; q++) if (column + q < cols) join_parts_of<R_sum_f32, 4, 1>(a1 + q, p0 + i * cols + column + q, cols);
          for (int q = 0; q < 4; q++) if (column + q < cols) join_parts_of<R_sum_f32, 4, 1>(a3 + q, p2 + i * cols + column + q, cols);
        }
      }
    }
  }
  R_sum_f32::A r1 = join_columns<R_sum_f32, 4>(a1, space);
  R_sum_f32::A r3 = join_columns<R_sum_f32, 4>(a3, space);
  const long long column = left + tid;
  if (tid >= 64 || column >= cols) return;
  const long long c0 = column;
  const float v1 = (float)r1;
  const float v3 = (float)r3;
  p1[c0] = out_f32(v1);
  p3[c0] = out_f32(v3);
}
#undef MIN_BLOCKS
