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
#ifndef op_exp_below_f32
#define op_exp_below_f32 op_exp_below_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_exp_below_f32(T x) { return M(exp_below)(x); }
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
#ifndef op_log_f32
#define op_log_f32 op_log_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_log_f32(T x) { return M(log)(x); }
#undef T
#undef M
#endif
#ifndef op_eq_i32
#define op_eq_i32 op_eq_i32
#define T int32_t
#define M(f) fl_##f##_i32
FN int32_t op_eq_i32(T x1, T x2) { return x1 == x2; }
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
#ifndef op_mul_f32
#define op_mul_f32 op_mul_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_mul_f32(T x1, T x2) { return M(mul)(x1, x2); }
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
struct params_cross_once { long long w[28]; };
extern "C" __global__ void __launch_bounds__(1024) cross_once(const __grid_constant__ params_cross_once params) {
  const long long *const w = params.w;
  const long long block = blockIdx.x;
  s2 *const p0 = (s2 *)w[13];
  s8 *const p1 = (s8 *)w[15];
  s2 *const p2 = (s2 *)w[17];
  s4 *const p4 = (s4 *)w[20];
  s2 *const p5 = (s2 *)w[22];
  const int lane = threadIdx.x;
  const int n = w[1];
  const bool vector = true;
  __shared__ R_amax_f32::A h2[64];
  __shared__ R_sum_f32::A h5[64];
  const int64_t v7 = (int64_t)w[24];
  const float v16 = (float)__longlong_as_double(w[27]);
  extern __shared__ __align__(16) s4 held[];
  const long long rows = w[2];
  const int base = 0;
  pack<s2, 2> l0[25] = {};
  {
    const long long c0 = block;
    if (vector) {
#pragma unroll
      for (int j = 0; j < 25; j++) {
        const int e = base + (j * 1024 + lane) * 2;
        if (j == 24 && e >= n) break;
        {
          const long long c1 = e;
          l0[j] = load<2>(p0 + c0 * w[14] + c1);
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < 25; j++) {
        const int e = base + (j * 1024 + lane) * 2;
        if (j == 24 && e >= n) break;
#pragma unroll
        for (int q = 0; q < 2; q++) {
          const long long c1 = e + q;
          l0[j].put(q, p0[c0 * w[14] + c1]);
        }
      }
    }
  }
#pragma unroll 1
  for (long long row = block; row < rows; row += gridDim.x) {
    const long long c0 = row;
    const int64_t v6 = in_i64(p1[c0 * w[16]]);
    R_amax_f32::A a2[4];
#pragma unroll
    for (int q = 0; q < 4; q++) a2[q] = R_amax_f32::start();
    {
      unsigned m[2] = { 0xff80ff80u, 0xff80ff80u };
#pragma unroll
      for (int j = 0; j < 25; j++) {
        const int e = base + (j * 1024 + lane) * 2;
        if (j == 24 && e >= n) break;
        unsigned x = l0[j].w[0];
        m[j / 16] = maxs_bf16(m[j / 16], x);
      }
#pragma unroll
      for (int q = 0; q < 4; q++)
  a2[q] = R_amax_f32::join(a2[q], in_bf16((s2)(m[q / 2] >> 16 * (q % 2))));
    }
    const int64_t v8 = position(v6, v7, 0, 1, w[6], w[25], v6);
    const float v9 = in_bf16(p2[c0 * w[18] + v8 * w[26]]);
    const float v10 = fl_cast_f32_f32(v9);
    const int32_t v14 = fl_cast_i64_i32(v8);
    const R_amax_f32::A r2 = join_parts<R_amax_f32, 1024>(a2, h2);
    if (row + gridDim.x < rows && lane == 0) {
      const long long c0 = row + gridDim.x;
      const long long c1 = 0;
      prefetch(p0 + c0 * w[14] + c1, n / 8 * 16);
    }
    const float v2 = (float)r2;
    const float v21 = op_sub_f32(v10, v2);
    s4 *const h4[1] = { held };
    R_sum_f32::A a5[4];
#pragma unroll
    for (int q = 0; q < 4; q++) a5[q] = R_sum_f32::start();
#pragma unroll
    for (int j = 0; j < 25; j++) {
      const int e = base + (j * 1024 + lane) * 2;
      if (j == 24 && e >= n) break;
      pack<s4, 2> n4 = {};
#pragma unroll
      for (int q = 0; q < 2; q++) {
        const float v0 = in_bf16(l0[j].get(q));
        const float v1 = fl_cast_f32_f32(v0);
        const float v3 = op_sub_f32(v1, v2);
        const float v4 = op_exp_below_f32(v3);
        n4.put(q, out_f32(v4));
        a5[j / 16 * 2 + q] = R_sum_f32::join(a5[j / 16 * 2 + q], (float)v4);
      }
      store(h4[0] + e, n4);
    }
    if (row + gridDim.x < rows) {
      const long long c0 = row + gridDim.x;
      if (vector) {
#pragma unroll
        for (int j = 0; j < 25; j++) {
          const int e = base + (j * 1024 + lane) * 2;
          if (j == 24 && e >= n) break;
          {
            const long long c1 = e;
            l0[j] = load<2>(p0 + c0 * w[14] + c1);
          }
        }
      } else {
#pragma unroll
        for (int j = 0; j < 25; j++) {
          const int e = base + (j * 1024 + lane) * 2;
          if (j == 24 && e >= n) break;
#pragma unroll
          for (int q = 0; q < 2; q++) {
            const long long c1 = e + q;
            l0[j].put(q, p0[c0 * w[14] + c1]);
          }
        }
      }
    }
    const R_sum_f32::A r5 = join_parts<R_sum_f32, 1024>(a5, h5);
    const float v5 = (float)r5;
    const float v11 = op_log_f32(v5);
    const float v17 = op_div_f32(v16, v5);
    const float v22 = op_sub_f32(v11, v21);
    {
      int32_t t15;
      {
        const long long c1 = base + lane * 2;
        t15 = (int32_t)((uint32_t)v14 - (uint32_t)(w[19] + c1));
      }
#pragma unroll
      for (int j = 0; j < 25; j++) {
        const int e = base + (j * 1024 + lane) * 2;
        if (j == 24 && e >= n) break;
        const pack<s4, 2> k4 = load<2>(h4[0] + e);
        pack<s2, 2> o1 = {};
        float y1[2] = {};
#pragma unroll
        for (int q = 0; q < 2; q++) {
          const long long c1 = e + q;
          const float v4 = in_f32(k4.get(q));
          const int64_t v12 = w[19] + c1;
          const int32_t v13 = fl_cast_i64_i32(v12);
          const int32_t v15 = t15 == j * 2048 + q;
          const float v18 = op_mul_f32(v4, v17);
          const float v19 = op_sub_f32(v18, v16);
          const float v20 = op_where_f32(v15, v19, v18);
          const float v23 = (float)v20;
          y1[q] = v23;
        }
        o1 = outs_bf16(y1);
        if (vector) {
          {
            const long long c1 = e;
            store(p5 + c0 * w[23] + c1, o1);
          }
        } else {
#pragma unroll
          for (int q = 0; q < 2; q++) {
            const long long c1 = e + q;
            p5[c0 * w[23] + c1] = o1.get(q);
          }
        }
      }
    }
    if (lane == 0) {
      p4[c0 * w[21]] = out_f32(v22);
    }
  }
}
