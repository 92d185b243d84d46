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
#ifndef op_mul_f32
#define op_mul_f32 op_mul_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_mul_f32(T x1, T x2) { return M(mul)(x1, x2); }
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
#ifndef op_square_f32
#define op_square_f32 op_square_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_square_f32(T x) { return M(mul)(x, x); }
#undef T
#undef M
#endif
#ifndef op_add_f32
#define op_add_f32 op_add_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_add_f32(T x1, T x2) { return M(add)(x1, x2); }
#undef T
#undef M
#endif
#ifndef op_rsqrt_f32
#define op_rsqrt_f32 op_rsqrt_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_rsqrt_f32(T x) { return (T)1 / M(sqrt)(x); }
#undef T
#undef M
#endif
struct params_layer_norm { long long w[25]; };
extern "C" __global__ void __launch_bounds__(256) layer_norm(const __grid_constant__ params_layer_norm params) {
  const long long *const w = params.w;
  const long long block = blockIdx.x;
  s4 *const p0 = (s4 *)w[13];
  s4 *const p1 = (s4 *)w[15];
  s4 *const p2 = (s4 *)w[16];
  s4 *const p3 = (s4 *)w[17];
  s4 *const p4 = (s4 *)w[19];
  s4 *const p5 = (s4 *)w[21];
  const int lane = threadIdx.x % 32;
  long long row = block * 8 + threadIdx.x / 32;
  const bool on = row < w[2];
  if (!on) row = w[2] - 1;
  const int n = w[1];
  const bool vector = w[0] & 1;
  const long long c0 = row;
  const float v0 = (float)__longlong_as_double(w[23]);
  const float v1 = (float)__longlong_as_double(w[24]);
  const int base = 0;
  pack<s4, 4> l2[6] = {};
  if (vector) {
#pragma unroll
    for (int j = 0; j < 6; j++) {
      const int e = base + (j * 32 + lane) * 4;
      {
        const long long c1 = e;
        l2[j] = load<4>(p0 + c0 * w[14] + c1);
      }
    }
  } else {
#pragma unroll
    for (int j = 0; j < 6; j++) {
      const int e = base + (j * 32 + lane) * 4;
#pragma unroll
      for (int q = 0; q < 4; q++) {
        const long long c1 = e + q;
        l2[j].put(q, p0[c0 * w[14] + c1]);
      }
    }
  }
  R_sum_f32::A a5[4];
#pragma unroll
  for (int q = 0; q < 4; q++) a5[q] = R_sum_f32::start();
#pragma unroll
  for (int j = 0; j < 6; j++) {
    const int e = base + (j * 32 + lane) * 4;
#pragma unroll
    for (int q = 0; q < 4; q++) {
      const float v2 = in_f32(l2[j].get(q));
      a5[q] = R_sum_f32::join(a5[q], (float)v2);
    }
  }
  const R_sum_f32::A r5 = join_lanes<R_sum_f32, 32>(join_vector<R_sum_f32>(a5));
  const float v5 = (float)r5;
  const float v6 = op_mul_f32(v5, v0);
  R_sum_f32::A a9[4];
#pragma unroll
  for (int q = 0; q < 4; q++) a9[q] = R_sum_f32::start();
#pragma unroll
  for (int j = 0; j < 6; j++) {
    const int e = base + (j * 32 + lane) * 4;
#pragma unroll
    for (int q = 0; q < 4; q++) {
      const float v2 = in_f32(l2[j].get(q));
      const float v7 = op_sub_f32(v2, v6);
      const float v8 = op_square_f32(v7);
      a9[q] = R_sum_f32::join(a9[q], (float)v8);
    }
  }
  const R_sum_f32::A r9 = join_lanes<R_sum_f32, 32>(join_vector<R_sum_f32>(a9));
  const float v9 = (float)r9;
  const float v10 = op_mul_f32(v9, v0);
  const float v11 = op_add_f32(v10, v1);
  const float v12 = op_rsqrt_f32(v11);
  pack<s4, 4> l3[6] = {};
  pack<s4, 4> l4[6] = {};
#pragma unroll
  for (int jb = 0; jb < 6; jb += 2) {
    if (vector) {
#pragma unroll
      for (int j = jb; j < jb + 2; j++) {
        const int e = base + (j * 32 + lane) * 4;
        {
          const long long c1 = e;
          l3[j] = load<4>(p1 + c1);
          l4[j] = load<4>(p2 + c1);
        }
      }
    } else {
#pragma unroll
      for (int j = jb; j < jb + 2; j++) {
        const int e = base + (j * 32 + lane) * 4;
#pragma unroll
        for (int q = 0; q < 4; q++) {
          const long long c1 = e + q;
          l3[j].put(q, p1[c1]);
          l4[j].put(q, p2[c1]);
        }
      }
    }
#pragma unroll
    for (int j = jb; j < jb + 2; j++) {
      const int e = base + (j * 32 + lane) * 4;
      pack<s4, 4> o0 = {};
#pragma unroll
      for (int q = 0; q < 4; q++) {
        const float v2 = in_f32(l2[j].get(q));
        const float v3 = in_f32(l3[j].get(q));
        const float v4 = in_f32(l4[j].get(q));
        const float v7 = op_sub_f32(v2, v6);
        const float v13 = op_mul_f32(v7, v12);
        const float v14 = op_mul_f32(v13, v3);
        const float v15 = op_add_f32(v14, v4);
        o0.put(q, out_f32(v15));
      }
      if (vector && on) {
        {
          const long long c1 = e;
          store(p3 + c0 * w[18] + c1, o0);
        }
      } else if (on) {
#pragma unroll
        for (int q = 0; q < 4; q++) {
          const long long c1 = e + q;
          p3[c0 * w[18] + c1] = o0.get(q);
        }
      }
    }
  }
  if (lane == 0 && on) {
    p4[c0 * w[20]] = out_f32(v6);
    p5[c0 * w[22]] = out_f32(v12);
  }
}
