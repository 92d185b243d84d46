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
#define MIN_BLOCKS 6
#endif
struct params_bias_grad { long long w[16]; };
extern "C" __global__ void __launch_bounds__(256, MIN_BLOCKS) bias_grad(const __grid_constant__ params_bias_grad params) {
  const long long *const w = params.w;
  const long long block = blockIdx.x;
  s4 *const p0 = (s4 *)w[13];
  s4 *const p1 = (s4 *)w[15];
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
  {
    const long long column = left + x;
    const long long c0 = column;
    const long long start = chunk * w[3] + y;
    long long end = (chunk + 1) * w[3];
    if (end > n) end = n;
    if (column < cols) {
      if (vector) {
#pragma unroll 4
        for (long long i = start; i < end; i += 16) {
          const long long c1 = i;
          pack<s4, 4> l0[1] = {};
          l0[0] = load<4>(p0 + c0 + c1 * w[14]);
#pragma unroll
          for (int q = 0; q < 4; q++) {
            const float v0 = in_f32(l0[0].get(q));
            a1[q] = R_sum_f32::join(a1[q], (float)v0);
          }
        }
      } else {
#pragma unroll 4
        for (long long i = start; i < end; i += 16) {
          const long long c1 = i;
          pack<s4, 4> l0[1] = {};
          for (int q = 0; q < 4; q++) if (column + q < cols) l0[0].put(q, p0[(c0 + q) + c1 * w[14]]);
#pragma unroll
          for (int q = 0; q < 4; q++) if (column + q < cols) {
            const float v0 = in_f32(l0[0].get(q));
            a1[q] = R_sum_f32::join(a1[q], (float)v0);
          }
        }
      }
    }
  }
  R_sum_f32::A r1 = join_columns<R_sum_f32, 4>(a1, space);
  if (chunks > 1) {
    if (tid < 64) {
      slot<R_sum_f32::A>(w[7], ((tile * 1 + 0) * chunks + chunk) * 64)[tid] = r1;
    }
    if (!arrive_last((unsigned *)w[8] + tile, (unsigned)chunks)) return;
#pragma unroll
    for (int q = 0; q < 4; q++) a1[q] = R_sum_f32::start();
#pragma unroll 4
    for (long long i = y; i < chunks; i += 16) {
#pragma unroll
      for (int q = 0; q < 4; q++) a1[q] = R_sum_f32::join(a1[q], slot<R_sum_f32::A>(w[7], ((tile * 1 + 0) * chunks + i) * 64)[x + q]);
    }
    r1 = join_columns<R_sum_f32, 4>(a1, space);
  }
  const long long column = left + tid;
  if (tid >= 64 || column >= cols) return;
  const long long c0 = column;
  const float v1 = (float)r1;
  p1[c0] = out_f32(v1);
}
#undef MIN_BLOCKS
