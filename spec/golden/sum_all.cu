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
struct params_sum_all { long long w[13]; };
extern "C" __global__ void __launch_bounds__(512) sum_all(const __grid_constant__ params_sum_all params) {
  const long long *const w = params.w;
  const long long block = blockIdx.x;
  s4 *const p0 = (s4 *)w[11];
  s4 *const p1 = (s4 *)w[12];
  const int lane = threadIdx.x;
  const long long row = block / w[4], chunk = block % w[4];
  const long long n = w[1];
  const bool vector = w[0] & 1;
  __shared__ R_sum_f32::A h1[16];
  R_sum_f32::A a1[4];
#pragma unroll
  for (int q = 0; q < 4; q++) a1[q] = R_sum_f32::start();
  long long base = chunk * 32768, to = base + 32768;
  if (to > n) to = n;
#pragma unroll 1
  for (; base + 8192 <= to; base += 8192) {
    pack<s4, 4> l0[4] = {};
    if (vector) {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const long long e = base + (j * 512 + lane) * 4;
        {
          const long long c0 = e;
          l0[j] = load<4>(p0 + c0);
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const long long e = base + (j * 512 + lane) * 4;
#pragma unroll
        for (int q = 0; q < 4; q++) {
          const long long c0 = e + q;
          l0[j].put(q, p0[c0]);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const long long e = base + (j * 512 + lane) * 4;
#pragma unroll
      for (int q = 0; q < 4; q++) {
        const float v0 = in_f32(l0[j].get(q));
        a1[q] = R_sum_f32::join(a1[q], (float)v0);
      }
    }
  }
#pragma unroll 1
  for (; base < to; base += 2048) {
    pack<s4, 4> l0[1] = {};
    if (vector) {
#pragma unroll
      for (int j = 0; j < 1; j++) {
        const long long e = base + (j * 512 + lane) * 4;
        if (e < n) {
          const long long c0 = e;
          l0[j] = load<4>(p0 + c0);
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < 1; j++) {
        const long long e = base + (j * 512 + lane) * 4;
#pragma unroll
        for (int q = 0; q < 4; q++) if (e + q < n) {
          const long long c0 = e + q;
          l0[j].put(q, p0[c0]);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < 1; j++) {
      const long long e = base + (j * 512 + lane) * 4;
#pragma unroll
      for (int q = 0; q < 4; q++) {
        const float v0 = in_f32(l0[j].get(q));
        if (e + q < n) a1[q] = R_sum_f32::join(a1[q], (float)v0);
      }
    }
  }
  {
    const R_sum_f32::A r1 = join_block<R_sum_f32, 512>(join_vector<R_sum_f32>(a1), h1);
    if (lane == 0) *slot<R_sum_f32::A>(w[7], (row * 1 + 0) * w[4] + chunk) = r1;
  }
  if (!arrive_last((unsigned *)w[8] + row, (unsigned)w[4])) return;
  const R_sum_f32::A r1 = join_slots<R_sum_f32, 512>(slot<R_sum_f32::A>(w[7], (row * 1 + 0) * w[4]), w[4], h1);
  const float v1 = (float)r1;
  if (lane == 0) {
    p1[0] = out_f32(v1);
  }
}
