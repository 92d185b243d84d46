#ifndef op_mul_f32
#define op_mul_f32 op_mul_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_mul_f32(T x1, T x2) { return M(mul)(x1, x2); }
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
#ifndef op_sub_f32
#define op_sub_f32 op_sub_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_sub_f32(T x1, T x2) { return M(sub)(x1, x2); }
#undef T
#undef M
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 2
#endif
struct params_row_sums { long long w[22]; };
extern "C" __global__ void __launch_bounds__(128, MIN_BLOCKS) row_sums(const __grid_constant__ params_row_sums params) {
  const long long *const w = params.w;
  const long long block = blockIdx.x;
  s4 *const p0 = (s4 *)w[13];
  s2 *const p1 = (s2 *)w[15];
  s4 *const p2 = (s4 *)w[17];
  s2 *const p3 = (s2 *)w[18];
  s4 *const p4 = (s4 *)w[20];
  s4 *const p5 = (s4 *)w[21];
  const int lane = threadIdx.x % 32;
  const int n = w[1];
  const bool vector = w[0] & 1;
  const long long chunk = block / 4 * w[3];
  const long long first = chunk + block % 4 + threadIdx.x / 32 * 4;
  const long long end = chunk + w[3] < w[2] ? chunk + w[3] : w[2];
  const bool on = true;
  const int base = 0;
  float z1[24] = {};
  float z2[24] = {};
  extern __shared__ __align__(16) s4 held[];
  char *const mine = (char *)held + threadIdx.x / 32 * 9216;
  int slot = 0;
  {
    const long long ahead = first + 0;
    if (vector && ahead < end) {
      const long long c0 = ahead;
#pragma unroll
      for (int j = 0; j < 6; j++) {
        const int e = (j * 32 + lane) * 4;
        {
          const long long c1 = e;
          ask<16>(mine + 0 * 4608 + 0 + e * 4, p0 + c0 * w[14] + c1);
          ask<8>(mine + 0 * 4608 + 3072 + e * 2, p1 + c0 * w[16] + c1);
        }
      }
    }
    end_ask();
  }
  {
    const long long ahead = first + 16;
    if (vector && ahead < end) {
      const long long c0 = ahead;
#pragma unroll
      for (int j = 0; j < 6; j++) {
        const int e = (j * 32 + lane) * 4;
        {
          const long long c1 = e;
          ask<16>(mine + 1 * 4608 + 0 + e * 4, p0 + c0 * w[14] + c1);
          ask<8>(mine + 1 * 4608 + 3072 + e * 2, p1 + c0 * w[16] + c1);
        }
      }
    }
    end_ask();
  }
#pragma unroll 1
  for (long long row = first; row < end; row += 16) {
    const long long c0 = row;
    pack<s4, 4> l0[6] = {};
    pack<s2, 4> l1[6] = {};
    wait_ask<1>();
    if (vector) {
#pragma unroll
      for (int j = 0; j < 6; j++) {
        const int e = base + (j * 32 + lane) * 4;
        {
          const long long c1 = e;
          l0[j] = load<4>((const s4 *)(mine + slot * 4608 + 0) + e);
          l1[j] = load<4>((const s2 *)(mine + slot * 4608 + 3072) + e);
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < 6; j++) {
        const int e = base + (j * 32 + lane) * 4;
#pragma unroll
        for (int q = 0; q < 4; q++) {
          const long long c1 = e + q;
          l0[j].put(q, p0[c0 * w[14] + c1]);
          l1[j].put(q, p1[c0 * w[16] + c1]);
        }
      }
    }
    R_sum_f32::A a6[4];
#pragma unroll
    for (int q = 0; q < 4; q++) a6[q] = R_sum_f32::start();
    {
      pack<s4, 4> l3[6] = {};
#pragma unroll
      for (int jb = 0; jb < 6; jb += 2) {
        if (vector) {
#pragma unroll
          for (int j = jb; j < jb + 2; j++) {
            const int e = base + (j * 32 + lane) * 4;
            {
              const long long c1 = e;
              l3[j] = load<4>(p2 + c1);
            }
          }
        } else {
#pragma unroll
          for (int j = jb; j < jb + 2; j++) {
            const int e = base + (j * 32 + lane) * 4;
#pragma unroll
            for (int q = 0; q < 4; q++) {
              const long long c1 = e + q;
              l3[j].put(q, p2[c1]);
            }
          }
        }
#pragma unroll
        for (int j = jb; j < jb + 2; j++) {
          const int e = base + (j * 32 + lane) * 4;
#pragma unroll
          for (int q = 0; q < 4; q++) {
            const float v0 = in_f32(l0[j].get(q));
            const float v1 = in_bf16(l1[j].get(q));
            const float v2 = fl_cast_f32_f32(v1);
            const float v3 = in_f32(l3[j].get(q));
            const float v4 = op_mul_f32(v2, v3);
            const float v5 = op_mul_f32(v4, v0);
            a6[q] = R_sum_f32::join(a6[q], (float)v5);
          }
        }
      }
    }
    {
      const long long ahead = row + 32;
      if (vector && ahead < end) {
        const long long c0 = ahead;
#pragma unroll
        for (int j = 0; j < 6; j++) {
          const int e = (j * 32 + lane) * 4;
          {
            const long long c1 = e;
            ask<16>(mine + slot * 4608 + 0 + e * 4, p0 + c0 * w[14] + c1);
            ask<8>(mine + slot * 4608 + 3072 + e * 2, p1 + c0 * w[16] + c1);
          }
        }
      }
      end_ask();
    }
    const R_sum_f32::A r6 = join_lanes<R_sum_f32, 32>(join_vector<R_sum_f32>(a6));
    const float v6 = (float)r6;
    {
      pack<s4, 4> l3[6] = {};
#pragma unroll
      for (int jb = 0; jb < 6; jb += 2) {
        if (vector) {
#pragma unroll
          for (int j = jb; j < jb + 2; j++) {
            const int e = base + (j * 32 + lane) * 4;
            {
              const long long c1 = e;
              l3[j] = load<4>(p2 + c1);
            }
          }
        } else {
#pragma unroll
          for (int j = jb; j < jb + 2; j++) {
            const int e = base + (j * 32 + lane) * 4;
#pragma unroll
            for (int q = 0; q < 4; q++) {
              const long long c1 = e + q;
              l3[j].put(q, p2[c1]);
            }
          }
        }
#pragma unroll
        for (int j = jb; j < jb + 2; j++) {
          const int e = base + (j * 32 + lane) * 4;
          pack<s2, 4> o0 = {};
#pragma unroll
          for (int q = 0; q < 4; q++) {
            const float v0 = in_f32(l0[j].get(q));
            const float v1 = in_bf16(l1[j].get(q));
            const float v2 = fl_cast_f32_f32(v1);
            const float v3 = in_f32(l3[j].get(q));
            const float v4 = op_mul_f32(v2, v3);
            const float v5 = op_mul_f32(v4, v0);
            const float v7 = op_mul_f32(v0, v6);
            const float v8 = op_sub_f32(v4, v7);
            const float v9 = round_bf16((float)v8);
            o0.put(q, bits_bf16(v9));
            z1[j * 4 + q] = fl_add_f32(z1[j * 4 + q], (float)v5);
            z2[j * 4 + q] = fl_add_f32(z2[j * 4 + q], (float)v9);
          }
          if (vector && on) {
            {
              const long long c1 = e;
              store(p3 + c0 * w[19] + c1, o0);
            }
          } else if (on) {
#pragma unroll
            for (int q = 0; q < 4; q++) {
              const long long c1 = e + q;
              p3[c0 * w[19] + c1] = o0.get(q);
            }
          }
        }
      }
    }
    slot = (slot + 1) % 2;
  }
  {
    float *const sums = (float *)held;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 6; j++) {
#pragma unroll
      for (int q = 0; q < 4; q++) sums[threadIdx.x / 32 * 768 + (j * 32 + lane) * 4 + q] = z1[j * 4 + q];
    }
    __syncthreads();
    for (int e = threadIdx.x; e < n; e += 128) {
      const long long c1 = e;
      p4[block * n + c1] = out_f32(fl_add_f32(fl_add_f32(sums[e], sums[1536 + e]), fl_add_f32(sums[768 + e], sums[2304 + e])));
    }
  }
  {
    float *const sums = (float *)held;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 6; j++) {
#pragma unroll
      for (int q = 0; q < 4; q++) sums[threadIdx.x / 32 * 768 + (j * 32 + lane) * 4 + q] = z2[j * 4 + q];
    }
    __syncthreads();
    for (int e = threadIdx.x; e < n; e += 128) {
      const long long c1 = e;
      p5[block * n + c1] = out_f32(fl_add_f32(fl_add_f32(sums[e], sums[1536 + e]), fl_add_f32(sums[768 + e], sums[2304 + e])));
    }
  }
}
#undef MIN_BLOCKS
