#ifndef op_ge_f32
#define op_ge_f32 op_ge_f32
#define T float
#define M(f) fl_##f##_f32
FN int32_t op_ge_f32(T x1, T x2) { return x1 >= x2; }
#undef T
#undef M
#endif
#ifndef op_where_f32
#define op_where_f32 op_where_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_where_f32(int32_t x1, T x2, T x3) { return x1 ? x2 : x3; }
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
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 4
#endif
struct params_dropout_norm { long long w[29]; };
extern "C" __global__ void __launch_bounds__(256, MIN_BLOCKS) dropout_norm(const __grid_constant__ params_dropout_norm params) {
  const long long *const w = params.w;
  const long long block = blockIdx.x;
  s4 *const p0 = (s4 *)w[13];
  s4 *const p1 = (s4 *)w[15];
  s4 *const p3 = (s4 *)w[19];
  s4 *const p4 = (s4 *)w[21];
  const int lane = threadIdx.x % 32;
  long long row = block * 8 + threadIdx.x / 32;
  const bool on = row < w[2];
  if (!on) row = w[2] - 1;
  const int n = w[1];
  const bool vector = w[0] & 1;
  const long long c0 = row;
  const float v0 = (float)__longlong_as_double(w[23]);
  const float v1 = (float)__longlong_as_double(w[24]);
  const float v2 = (float)__longlong_as_double(w[25]);
  const float v3 = (float)__longlong_as_double(w[26]);
  const int base = 0;
  pack<s4, 4> l4[3] = {};
  pack<s4, 4> l5[3] = {};
  if (vector) {
#pragma unroll
    for (int j = 0; j < 3; j++) {
      const int e = base + (j * 32 + lane) * 4;
      {
        const long long c1 = e;
        l4[j] = load<4>(p0 + c0 * w[14] + c1);
        l5[j] = load<4>(p1 + c0 * w[16] + c1);
      }
    }
  } else {
#pragma unroll
    for (int j = 0; j < 3; j++) {
      const int e = base + (j * 32 + lane) * 4;
#pragma unroll
      for (int q = 0; q < 4; q++) {
        const long long c1 = e + q;
        l4[j].put(q, p0[c0 * w[14] + c1]);
        l5[j].put(q, p1[c0 * w[16] + c1]);
      }
    }
  }
  float k10[12];
  R_sum_f32::A a11[4];
#pragma unroll
  for (int q = 0; q < 4; q++) a11[q] = R_sum_f32::start();
#pragma unroll
  for (int j = 0; j < 3; j++) {
    const int e = base + (j * 32 + lane) * 4;
#pragma unroll
    for (int q = 0; q < 4; q++) {
      const long long c1 = e;
      const float v4 = in_f32(l4[j].get(q));
      const float v5 = in_f32(l5[j].get(q));
      const int64_t v6 = ((w[17] + c0 * w[18] + (c1 + (q & ~3))) & ~3ll | (q & 3));
      const float v7 = fl_random_uniform_f32(v6, (uint64_t)w[27], (uint64_t)w[28], (float)v0, (float)v1);
      const int32_t v8 = op_ge_f32(v7, v2);
      const float v9 = op_where_f32(v8, v5, v0);
      const float v10 = op_add_f32(v4, v9);
      k10[j * 4 + q] = v10;
      a11[q] = R_sum_f32::join(a11[q], (float)v10);
    }
  }
  const R_sum_f32::A r11 = join_lanes<R_sum_f32, 32>(join_vector<R_sum_f32>(a11));
  const float v11 = (float)r11;
  const float v12 = op_mul_f32(v11, v3);
#pragma unroll
  for (int j = 0; j < 3; j++) {
    const int e = base + (j * 32 + lane) * 4;
    pack<s4, 4> o0 = {};
    pack<s4, 4> o1 = {};
#pragma unroll
    for (int q = 0; q < 4; q++) {
      const float v10 = k10[j * 4 + q];
      const float v13 = op_sub_f32(v10, v12);
      o0.put(q, out_f32(v10));
      o1.put(q, out_f32(v13));
    }
    if (vector && on) {
      {
        const long long c1 = e;
        store(p3 + c0 * w[20] + c1, o0);
        store(p4 + c0 * w[22] + c1, o1);
      }
    } else if (on) {
#pragma unroll
      for (int q = 0; q < 4; q++) {
        const long long c1 = e + q;
        p3[c0 * w[20] + c1] = o0.get(q);
        p4[c0 * w[22] + c1] = o1.get(q);
      }
    }
  }
}
#undef MIN_BLOCKS
