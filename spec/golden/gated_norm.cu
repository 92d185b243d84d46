#ifndef op_erf_f32
#define op_erf_f32 op_erf_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_erf_f32(T x) { return M(erf)(x); }
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
#ifndef op_add_f32
#define op_add_f32 op_add_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_add_f32(T x1, T x2) { return M(add)(x1, x2); }
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
#ifndef op_rsqrt_f32
#define op_rsqrt_f32 op_rsqrt_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_rsqrt_f32(T x) { return (T)1 / M(sqrt)(x); }
#undef T
#undef M
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 3
#endif
struct params_gated_norm { long long w[53]; };
extern "C" __global__ void __launch_bounds__(128, MIN_BLOCKS) gated_norm(const __grid_constant__ params_gated_norm params) {
  const long long *const w = params.w;
  const long long block = blockIdx.x;
  s4 *const p0 = (s4 *)w[13];
  s4 *const p1 = (s4 *)w[15];
  s4 *const p2 = (s4 *)w[17];
  s4 *const p3 = (s4 *)w[19];
  s4 *const p4 = (s4 *)w[21];
  s4 *const p5 = (s4 *)w[23];
  s4 *const p6 = (s4 *)w[25];
  s4 *const p7 = (s4 *)w[27];
  s4 *const p8 = (s4 *)w[29];
  s4 *const p9 = (s4 *)w[31];
  s4 *const p10 = (s4 *)w[33];
  s4 *const p11 = (s4 *)w[35];
  s4 *const p12 = (s4 *)w[37];
  s4 *const p13 = (s4 *)w[39];
  s4 *const p14 = (s4 *)w[41];
  s4 *const p15 = (s4 *)w[43];
  s4 *const p16 = (s4 *)w[45];
  s4 *const p17 = (s4 *)w[47];
  s4 *const p18 = (s4 *)w[49];
  s4 *const p19 = (s4 *)w[51];
  const int lane = threadIdx.x % 32;
  long long row = block * 4 + threadIdx.x / 32;
  const bool on = row < w[2];
  if (!on) row = w[2] - 1;
  const int n = w[1];
  const bool vector = w[0] & 1;
  const long long c0 = row;
  __shared__ __align__(16) s4 h20[4][512];
  __shared__ __align__(16) s4 h25[4][512];
  __shared__ __align__(16) s4 h30[4][512];
  __shared__ __align__(16) s4 h35[4][512];
  R_sum_f32::A a37[4];
#pragma unroll
  for (int q = 0; q < 4; q++) a37[q] = R_sum_f32::start();
  R_sum_f32::A a41[4];
#pragma unroll
  for (int q = 0; q < 4; q++) a41[q] = R_sum_f32::start();
  R_sum_f32::A a45[4];
#pragma unroll
  for (int q = 0; q < 4; q++) a45[q] = R_sum_f32::start();
  R_sum_f32::A a49[4];
#pragma unroll
  for (int q = 0; q < 4; q++) a49[q] = R_sum_f32::start();
#pragma unroll 1
  for (int base = 0; base < n; base += 128) {
    pack<s4, 4> l0[1] = {};
    pack<s4, 4> l1[1] = {};
    pack<s4, 4> l2[1] = {};
    pack<s4, 4> l3[1] = {};
    pack<s4, 4> l4[1] = {};
    pack<s4, 4> l5[1] = {};
    pack<s4, 4> l6[1] = {};
    pack<s4, 4> l7[1] = {};
    pack<s4, 4> l8[1] = {};
    pack<s4, 4> l9[1] = {};
    pack<s4, 4> l10[1] = {};
    pack<s4, 4> l11[1] = {};
    pack<s4, 4> l12[1] = {};
    pack<s4, 4> l13[1] = {};
    pack<s4, 4> l14[1] = {};
    pack<s4, 4> l15[1] = {};
    if (vector) {
#pragma unroll
      for (int j = 0; j < 1; j++) {
        const int e = base + (j * 32 + lane) * 4;
        {
          const long long c1 = e;
          l0[j] = load<4>(p0 + c0 * w[14] + c1);
          l1[j] = load<4>(p1 + c0 * w[16] + c1);
          l2[j] = load<4>(p2 + c0 * w[18] + c1);
          l3[j] = load<4>(p3 + c0 * w[20] + c1);
          l4[j] = load<4>(p4 + c0 * w[22] + c1);
          l5[j] = load<4>(p5 + c0 * w[24] + c1);
          l6[j] = load<4>(p6 + c0 * w[26] + c1);
          l7[j] = load<4>(p7 + c0 * w[28] + c1);
          l8[j] = load<4>(p8 + c0 * w[30] + c1);
          l9[j] = load<4>(p9 + c0 * w[32] + c1);
          l10[j] = load<4>(p10 + c0 * w[34] + c1);
          l11[j] = load<4>(p11 + c0 * w[36] + c1);
          l12[j] = load<4>(p12 + c0 * w[38] + c1);
          l13[j] = load<4>(p13 + c0 * w[40] + c1);
          l14[j] = load<4>(p14 + c0 * w[42] + c1);
          l15[j] = load<4>(p15 + c0 * w[44] + c1);
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < 1; j++) {
        const int e = base + (j * 32 + lane) * 4;
#pragma unroll
        for (int q = 0; q < 4; q++) {
          const long long c1 = e + q;
          l0[j].put(q, p0[c0 * w[14] + c1]);
          l1[j].put(q, p1[c0 * w[16] + c1]);
          l2[j].put(q, p2[c0 * w[18] + c1]);
          l3[j].put(q, p3[c0 * w[20] + c1]);
          l4[j].put(q, p4[c0 * w[22] + c1]);
          l5[j].put(q, p5[c0 * w[24] + c1]);
          l6[j].put(q, p6[c0 * w[26] + c1]);
          l7[j].put(q, p7[c0 * w[28] + c1]);
          l8[j].put(q, p8[c0 * w[30] + c1]);
          l9[j].put(q, p9[c0 * w[32] + c1]);
          l10[j].put(q, p10[c0 * w[34] + c1]);
          l11[j].put(q, p11[c0 * w[36] + c1]);
          l12[j].put(q, p12[c0 * w[38] + c1]);
          l13[j].put(q, p13[c0 * w[40] + c1]);
          l14[j].put(q, p14[c0 * w[42] + c1]);
          l15[j].put(q, p15[c0 * w[44] + c1]);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < 1; j++) {
      const int e = base + (j * 32 + lane) * 4;
      pack<s4, 4> n20 = {};
      pack<s4, 4> n25 = {};
      pack<s4, 4> n30 = {};
      pack<s4, 4> n35 = {};
#pragma unroll
      for (int q = 0; q < 4; q++) {
        const float v0 = in_f32(l0[j].get(q));
        const float v1 = in_f32(l1[j].get(q));
        const float v2 = in_f32(l2[j].get(q));
        const float v3 = in_f32(l3[j].get(q));
        const float v4 = in_f32(l4[j].get(q));
        const float v5 = in_f32(l5[j].get(q));
        const float v6 = in_f32(l6[j].get(q));
        const float v7 = in_f32(l7[j].get(q));
        const float v8 = in_f32(l8[j].get(q));
        const float v9 = in_f32(l9[j].get(q));
        const float v10 = in_f32(l10[j].get(q));
        const float v11 = in_f32(l11[j].get(q));
        const float v12 = in_f32(l12[j].get(q));
        const float v13 = in_f32(l13[j].get(q));
        const float v14 = in_f32(l14[j].get(q));
        const float v15 = in_f32(l15[j].get(q));
        const float v16 = op_erf_f32(v4);
        const float v17 = op_erf_f32(v8);
        const float v18 = op_mul_f32(v0, v16);
        const float v19 = op_mul_f32(v18, v17);
        const float v20 = op_add_f32(v19, v12);
        const float v21 = op_erf_f32(v5);
        const float v22 = op_erf_f32(v9);
        const float v23 = op_mul_f32(v1, v21);
        const float v24 = op_mul_f32(v23, v22);
        const float v25 = op_add_f32(v24, v13);
        const float v26 = op_erf_f32(v6);
        const float v27 = op_erf_f32(v10);
        const float v28 = op_mul_f32(v2, v26);
        const float v29 = op_mul_f32(v28, v27);
        const float v30 = op_add_f32(v29, v14);
        const float v31 = op_erf_f32(v7);
        const float v32 = op_erf_f32(v11);
        const float v33 = op_mul_f32(v3, v31);
        const float v34 = op_mul_f32(v33, v32);
        const float v35 = op_add_f32(v34, v15);
        const float v36 = op_square_f32(v20);
        const float v40 = op_square_f32(v25);
        const float v44 = op_square_f32(v30);
        const float v48 = op_square_f32(v35);
        n20.put(q, out_f32(v20));
        n25.put(q, out_f32(v25));
        n30.put(q, out_f32(v30));
        n35.put(q, out_f32(v35));
        a37[q] = R_sum_f32::join(a37[q], (float)v36);
        a41[q] = R_sum_f32::join(a41[q], (float)v40);
        a45[q] = R_sum_f32::join(a45[q], (float)v44);
        a49[q] = R_sum_f32::join(a49[q], (float)v48);
      }
      store(h20[threadIdx.x / 32] + e, n20);
      store(h25[threadIdx.x / 32] + e, n25);
      store(h30[threadIdx.x / 32] + e, n30);
      store(h35[threadIdx.x / 32] + e, n35);
    }
  }
  const R_sum_f32::A r37 = join_lanes<R_sum_f32, 32>(join_vector<R_sum_f32>(a37));
  const R_sum_f32::A r41 = join_lanes<R_sum_f32, 32>(join_vector<R_sum_f32>(a41));
  const R_sum_f32::A r45 = join_lanes<R_sum_f32, 32>(join_vector<R_sum_f32>(a45));
  const R_sum_f32::A r49 = join_lanes<R_sum_f32, 32>(join_vector<R_sum_f32>(a49));
  const float v37 = (float)r37;
  const float v41 = (float)r41;
  const float v45 = (float)r45;
  const float v49 = (float)r49;
  const float v38 = op_rsqrt_f32(v37);
  const float v42 = op_rsqrt_f32(v41);
  const float v46 = op_rsqrt_f32(v45);
  const float v50 = op_rsqrt_f32(v49);
#pragma unroll 1
  for (int base = 0; base < n; base += 128) {
#pragma unroll
    for (int j = 0; j < 1; j++) {
      const int e = base + (j * 32 + lane) * 4;
      const pack<s4, 4> k20 = load<4>(h20[threadIdx.x / 32] + e);
      const pack<s4, 4> k25 = load<4>(h25[threadIdx.x / 32] + e);
      const pack<s4, 4> k30 = load<4>(h30[threadIdx.x / 32] + e);
      const pack<s4, 4> k35 = load<4>(h35[threadIdx.x / 32] + e);
      pack<s4, 4> o0 = {};
      pack<s4, 4> o1 = {};
      pack<s4, 4> o2 = {};
      pack<s4, 4> o3 = {};
#pragma unroll
      for (int q = 0; q < 4; q++) {
        const float v20 = in_f32(k20.get(q));
        const float v25 = in_f32(k25.get(q));
        const float v30 = in_f32(k30.get(q));
        const float v35 = in_f32(k35.get(q));
        const float v39 = op_mul_f32(v20, v38);
        const float v43 = op_mul_f32(v25, v42);
        const float v47 = op_mul_f32(v30, v46);
        const float v51 = op_mul_f32(v35, v50);
        o0.put(q, out_f32(v39));
        o1.put(q, out_f32(v43));
        o2.put(q, out_f32(v47));
        o3.put(q, out_f32(v51));
      }
      if (vector && on) {
        {
          const long long c1 = e;
          store(p16 + c0 * w[46] + c1, o0);
          store(p17 + c0 * w[48] + c1, o1);
          store(p18 + c0 * w[50] + c1, o2);
          store(p19 + c0 * w[52] + c1, o3);
        }
      } else if (on) {
#pragma unroll
        for (int q = 0; q < 4; q++) {
          const long long c1 = e + q;
          p16[c0 * w[46] + c1] = o0.get(q);
          p17[c0 * w[48] + c1] = o1.get(q);
          p18[c0 * w[50] + c1] = o2.get(q);
          p19[c0 * w[52] + c1] = o3.get(q);
        }
      }
    }
  }
}
#undef MIN_BLOCKS
