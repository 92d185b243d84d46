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
#ifndef op_log_f32
#define op_log_f32 op_log_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_log_f32(T x) { return M(log)(x); }
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
struct params_cross_entropy { long long w[24]; };
extern "C" __global__ void __launch_bounds__(512) cross_entropy(const __grid_constant__ params_cross_entropy params) {
  const long long *const w = params.w;
  const long long block = blockIdx.x;
  s4 *const p0 = (s4 *)w[13];
  s8 *const p1 = (s8 *)w[15];
  s4 *const p2 = (s4 *)w[17];
  s4 *const p3 = (s4 *)w[19];
  const int lane = threadIdx.x;
  const long long row = block;
  const long long n = w[1];
  const bool vector = w[0] & 1;
  const long long c0 = row;
  __shared__ R_amax_f32::A h5[16];
  __shared__ R_sum_f32::A h8[16];
  const int64_t v0 = (int64_t)w[21];
  const int64_t v2 = in_i64(p1[c0 * w[16]]);
  const int64_t v3 = position(v2, v0, 0, 1, w[6], w[22], v2);
  const float v4 = in_f32(p2[c0 * w[18] + v3 * w[23]]);
  for (long long chunk = 0; chunk < w[4]; chunk++) {
    R_amax_f32::A a5[4];
#pragma unroll
    for (int q = 0; q < 4; q++) a5[q] = R_amax_f32::start();
    long long base = chunk * 32768, to = base + 32768;
    if (to > n) to = n;
#pragma unroll 1
    for (; base + 8192 <= to; base += 8192) {
      pack<s4, 4> l1[4] = {};
      if (vector) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const long long e = base + (j * 512 + lane) * 4;
          {
            const long long c1 = e;
            l1[j] = load<4>(p0 + c0 * w[14] + c1);
          }
        }
      } else {
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const long long e = base + (j * 512 + lane) * 4;
#pragma unroll
          for (int q = 0; q < 4; q++) {
            const long long c1 = e + q;
            l1[j].put(q, p0[c0 * w[14] + c1]);
          }
        }
      }
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const long long e = base + (j * 512 + lane) * 4;
#pragma unroll
        for (int q = 0; q < 4; q++) {
          const float v1 = in_f32(l1[j].get(q));
          a5[q] = R_amax_f32::join(a5[q], (float)v1);
        }
      }
    }
#pragma unroll 1
    for (; base < to; base += 2048) {
      pack<s4, 4> l1[1] = {};
      if (vector) {
#pragma unroll
        for (int j = 0; j < 1; j++) {
          const long long e = base + (j * 512 + lane) * 4;
          if (e < n) {
            const long long c1 = e;
            l1[j] = load<4>(p0 + c0 * w[14] + c1);
          }
        }
      } else {
#pragma unroll
        for (int j = 0; j < 1; j++) {
          const long long e = base + (j * 512 + lane) * 4;
#pragma unroll
          for (int q = 0; q < 4; q++) if (e + q < n) {
            const long long c1 = e + q;
            l1[j].put(q, p0[c0 * w[14] + c1]);
          }
        }
      }
#pragma unroll
      for (int j = 0; j < 1; j++) {
        const long long e = base + (j * 512 + lane) * 4;
#pragma unroll
        for (int q = 0; q < 4; q++) {
          const float v1 = in_f32(l1[j].get(q));
          if (e + q < n) a5[q] = R_amax_f32::join(a5[q], (float)v1);
        }
      }
    }
    __syncthreads();
    {
      const R_amax_f32::A r5 = join_block<R_amax_f32, 512>(join_vector<R_amax_f32>(a5), h5);
      if (lane == 0) *slot<R_amax_f32::A>(w[7], (row * 2 + 0) * w[4] + chunk) = r5;
    }
  }
  __syncthreads();
  const R_amax_f32::A r5 = join_slots<R_amax_f32, 512>(slot<R_amax_f32::A>(w[7], (row * 2 + 0) * w[4]), w[4], h5);
  const float v5 = (float)r5;
  for (long long chunk = 0; chunk < w[4]; chunk++) {
    R_sum_f32::A a8[4];
#pragma unroll
    for (int q = 0; q < 4; q++) a8[q] = R_sum_f32::start();
    long long base = chunk * 32768, to = base + 32768;
    if (to > n) to = n;
#pragma unroll 1
    for (; base + 8192 <= to; base += 8192) {
      pack<s4, 4> l1[4] = {};
      if (vector) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const long long e = base + (j * 512 + lane) * 4;
          {
            const long long c1 = e;
            l1[j] = load<4>(p0 + c0 * w[14] + c1);
          }
        }
      } else {
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const long long e = base + (j * 512 + lane) * 4;
#pragma unroll
          for (int q = 0; q < 4; q++) {
            const long long c1 = e + q;
            l1[j].put(q, p0[c0 * w[14] + c1]);
          }
        }
      }
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const long long e = base + (j * 512 + lane) * 4;
#pragma unroll
        for (int q = 0; q < 4; q++) {
          const float v1 = in_f32(l1[j].get(q));
          const float v6 = op_sub_f32(v1, v5);
          const float v7 = op_exp_f32(v6);
          a8[q] = R_sum_f32::join(a8[q], (float)v7);
        }
      }
    }
#pragma unroll 1
    for (; base < to; base += 2048) {
      pack<s4, 4> l1[1] = {};
      if (vector) {
#pragma unroll
        for (int j = 0; j < 1; j++) {
          const long long e = base + (j * 512 + lane) * 4;
          if (e < n) {
            const long long c1 = e;
            l1[j] = load<4>(p0 + c0 * w[14] + c1);
          }
        }
      } else {
#pragma unroll
        for (int j = 0; j < 1; j++) {
          const long long e = base + (j * 512 + lane) * 4;
#pragma unroll
          for (int q = 0; q < 4; q++) if (e + q < n) {
            const long long c1 = e + q;
            l1[j].put(q, p0[c0 * w[14] + c1]);
          }
        }
      }
#pragma unroll
      for (int j = 0; j < 1; j++) {
        const long long e = base + (j * 512 + lane) * 4;
#pragma unroll
        for (int q = 0; q < 4; q++) {
          const float v1 = in_f32(l1[j].get(q));
          const float v6 = op_sub_f32(v1, v5);
          const float v7 = op_exp_f32(v6);
          if (e + q < n) a8[q] = R_sum_f32::join(a8[q], (float)v7);
        }
      }
    }
    __syncthreads();
    {
      const R_sum_f32::A r8 = join_block<R_sum_f32, 512>(join_vector<R_sum_f32>(a8), h8);
      if (lane == 0) *slot<R_sum_f32::A>(w[7], (row * 2 + 1) * w[4] + chunk) = r8;
    }
  }
  __syncthreads();
  const R_sum_f32::A r8 = join_slots<R_sum_f32, 512>(slot<R_sum_f32::A>(w[7], (row * 2 + 1) * w[4]), w[4], h8);
  const float v8 = (float)r8;
  const float v9 = op_log_f32(v8);
  const float v10 = op_add_f32(v9, v5);
  const float v11 = op_sub_f32(v10, v4);
  if (lane == 0) {
    p3[c0 * w[20]] = out_f32(v11);
  }
}
