#ifndef R_amax_f32
#define R_amax_f32 R_amax_f32
#define T float
#define M(f) fl_##f##_f32
struct R_amax_f32 {
  typedef T A;
  static FN A start() { return M(lowest)(); }
  static FN A join(A a, A b) { return max_f32(a, b); }
};
#undef T
#undef M
#endif
#ifndef op_sub_f32
#define op_sub_f32 op_sub_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_sub_f32(T x1, T x2) { return M(sub)(x1, x2); }
#undef T
#undef M
#endif
#ifndef op_exp_f32
#define op_exp_f32 op_exp_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_exp_f32(T x) { return M(exp)(x); }
#undef T
#undef M
#endif
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
#ifndef op_div_f32
#define op_div_f32 op_div_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_div_f32(T x1, T x2) { return x1 / x2; }
#undef T
#undef M
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 3
#endif
struct params_softmax { long long w[17]; };
extern "C" __global__ void __launch_bounds__(512, MIN_BLOCKS) softmax(const __grid_constant__ params_softmax params) {
  const long long *const w = params.w;
  const long long block = blockIdx.x;
  s4 *const p0 = (s4 *)w[13];
  s4 *const p1 = (s4 *)w[15];
  const int lane = threadIdx.x;
  const long long row = block;
  const int n = w[1];
  const bool vector = w[0] & 1;
  const long long c0 = row;
  __shared__ R_amax_f32::A h1[16];
  __shared__ R_sum_f32::A h4[16];
  const int base = 0;
  pack<s4, 4> l0[4] = {};
  if (vector) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int e = base + (j * 512 + lane) * 4;
      {
        const long long c1 = e;
        l0[j] = load<4>(p0 + c0 * w[14] + c1);
      }
    }
  } else {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int e = base + (j * 512 + lane) * 4;
#pragma unroll
      for (int q = 0; q < 4; q++) {
        const long long c1 = e + q;
        l0[j].put(q, p0[c0 * w[14] + c1]);
      }
    }
  }
  R_amax_f32::A a1[4];
#pragma unroll
  for (int q = 0; q < 4; q++) a1[q] = R_amax_f32::start();
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const int e = base + (j * 512 + lane) * 4;
#pragma unroll
    for (int q = 0; q < 4; q++) {
      const float v0 = in_f32(l0[j].get(q));
      a1[q] = R_amax_f32::join(a1[q], (float)v0);
    }
  }
  const R_amax_f32::A r1 = join_block<R_amax_f32, 512>(join_vector<R_amax_f32>(a1), h1);
  const float v1 = (float)r1;
  float k3[16];
  R_sum_f32::A a4[4];
#pragma unroll
  for (int q = 0; q < 4; q++) a4[q] = R_sum_f32::start();
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const int e = base + (j * 512 + lane) * 4;
#pragma unroll
    for (int q = 0; q < 4; q++) {
      const float v0 = in_f32(l0[j].get(q));
      const float v2 = op_sub_f32(v0, v1);
      const float v3 = op_exp_f32(v2);
      k3[j * 4 + q] = v3;
      a4[q] = R_sum_f32::join(a4[q], (float)v3);
    }
  }
  const R_sum_f32::A r4 = join_block<R_sum_f32, 512>(join_vector<R_sum_f32>(a4), h4);
  const float v4 = (float)r4;
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const int e = base + (j * 512 + lane) * 4;
    pack<s4, 4> o0 = {};
#pragma unroll
    for (int q = 0; q < 4; q++) {
      const float v3 = k3[j * 4 + q];
      const float v5 = op_div_f32(v3, v4);
      o0.put(q, out_f32(v5));
    }
    if (vector) {
      {
        const long long c1 = e;
        store(p1 + c0 * w[16] + c1, o0);
      }
    } else {
#pragma unroll
      for (int q = 0; q < 4; q++) {
        const long long c1 = e + q;
        p1[c0 * w[16] + c1] = o0.get(q);
      }
    }
  }
}
#undef MIN_BLOCKS
