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
#ifndef op_sqrt_f32
#define op_sqrt_f32 op_sqrt_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_sqrt_f32(T x) { return M(sqrt)(x); }
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
#ifndef op_sub_f32
#define op_sub_f32 op_sub_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_sub_f32(T x1, T x2) { return M(sub)(x1, x2); }
#undef T
#undef M
#endif
struct params_adamw { long long w[21]; };
extern "C" __global__ void __launch_bounds__(256) adamw(const __grid_constant__ params_adamw params) {
  const long long *const w = params.w;
  const long long block = blockIdx.x;
  s4 *const p0 = (s4 *)w[11];
  s4 *const p1 = (s4 *)w[12];
  s4 *const p2 = (s4 *)w[13];
  s4 *const p3 = (s4 *)w[14];
  const float v0 = (float)__longlong_as_double(w[15]);
  const float v1 = (float)__longlong_as_double(w[16]);
  const float v2 = (float)__longlong_as_double(w[17]);
  const float v3 = (float)__longlong_as_double(w[18]);
  const float v4 = (float)__longlong_as_double(w[19]);
  const float v5 = (float)__longlong_as_double(w[20]);
  const int tid = threadIdx.x;
  const long long first = block * w[3];
  long long at = first, last = first + w[3];
  if (last > w[1]) last = w[1];
  if (w[0] & 1) {
    const long long end = last - (last - first) % 4;
#pragma unroll 1
    for (; at < end; at += 2048) {
      pack<s4, 4> l6[2] = {};
      pack<s4, 4> l7[2] = {};
      pack<s4, 4> l8[2] = {};
      pack<s4, 4> l9[2] = {};
#pragma unroll
      for (int u = 0; u < 2; u++) {
        const long long e = at + (u * 256 + tid) * 4;
        if (e >= end) break;
        const long long c0 = e;
        l6[u] = load<4>(p0 + c0);
        l7[u] = load<4>(p1 + c0);
        l8[u] = load<4>(p2 + c0);
        l9[u] = load<4>(p3 + c0);
      }
#pragma unroll
      for (int u = 0; u < 2; u++) {
        const long long e = at + (u * 256 + tid) * 4;
        if (e >= end) break;
        const long long c0 = e;
        pack<s4, 4> o0 = {};
        pack<s4, 4> o1 = {};
        pack<s4, 4> o2 = {};
#pragma unroll
        for (int q = 0; q < 4; q++) {
          const float v6 = in_f32(l6[u].get(q));
          const float v7 = in_f32(l7[u].get(q));
          const float v8 = in_f32(l8[u].get(q));
          const float v9 = in_f32(l9[u].get(q));
          const float v10 = op_mul_f32(v7, v1);
          const float v11 = op_mul_f32(v8, v0);
          const float v12 = op_add_f32(v11, v10);
          const float v13 = op_square_f32(v7);
          const float v14 = op_mul_f32(v13, v3);
          const float v15 = op_mul_f32(v9, v2);
          const float v16 = op_add_f32(v15, v14);
          const float v17 = op_sqrt_f32(v16);
          const float v18 = op_add_f32(v17, v4);
          const float v19 = op_div_f32(v12, v18);
          const float v20 = op_mul_f32(v19, v5);
          const float v21 = op_sub_f32(v6, v20);
          o0.put(q, out_f32(v21));
          o1.put(q, out_f32(v12));
          o2.put(q, out_f32(v16));
        }
        store(p0 + c0, o0);
        store(p2 + c0, o1);
        store(p3 + c0, o2);
      }
    }
    at = end;
  }
  const long long end = last;
#pragma unroll 1
  for (; at < end; at += 512) {
    pack<s4, 1> l6[2] = {};
    pack<s4, 1> l7[2] = {};
    pack<s4, 1> l8[2] = {};
    pack<s4, 1> l9[2] = {};
#pragma unroll
    for (int u = 0; u < 2; u++) {
      const long long e = at + (u * 256 + tid) * 1;
      if (e >= end) break;
      const long long c0 = e;
      l6[u] = load<1>(p0 + c0);
      l7[u] = load<1>(p1 + c0);
      l8[u] = load<1>(p2 + c0);
      l9[u] = load<1>(p3 + c0);
    }
#pragma unroll
    for (int u = 0; u < 2; u++) {
      const long long e = at + (u * 256 + tid) * 1;
      if (e >= end) break;
      const long long c0 = e;
#pragma unroll
      for (int q = 0; q < 1; q++) {
        const float v6 = in_f32(l6[u].get(q));
        const float v7 = in_f32(l7[u].get(q));
        const float v8 = in_f32(l8[u].get(q));
        const float v9 = in_f32(l9[u].get(q));
        const float v10 = op_mul_f32(v7, v1);
        const float v11 = op_mul_f32(v8, v0);
        const float v12 = op_add_f32(v11, v10);
        const float v13 = op_square_f32(v7);
        const float v14 = op_mul_f32(v13, v3);
        const float v15 = op_mul_f32(v9, v2);
        const float v16 = op_add_f32(v15, v14);
        const float v17 = op_sqrt_f32(v16);
        const float v18 = op_add_f32(v17, v4);
        const float v19 = op_div_f32(v12, v18);
        const float v20 = op_mul_f32(v19, v5);
        const float v21 = op_sub_f32(v6, v20);
        p0[c0] = out_f32(v21);
        p2[c0] = out_f32(v12);
        p3[c0] = out_f32(v16);
      }
    }
  }
}
