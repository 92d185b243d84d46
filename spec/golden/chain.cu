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
#ifndef op_relu_f32
#define op_relu_f32 op_relu_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_relu_f32(T x) { return M(relu)(x); }
#undef T
#undef M
#endif
struct params_chain { long long w[15]; };
extern "C" __global__ void __launch_bounds__(256) chain(const __grid_constant__ params_chain params) {
  const long long *const w = params.w;
  const long long block = blockIdx.x;
  s4 *const p0 = (s4 *)w[11];
  s4 *const p1 = (s4 *)w[12];
  const float v0 = (float)__longlong_as_double(w[13]);
  const float v1 = (float)__longlong_as_double(w[14]);
  const int tid = threadIdx.x;
  const long long first = block * w[3];
  long long at = first, last = first + w[3];
  if (last > w[1]) last = w[1];
  if (w[0] & 1) {
    const long long end = last - (last - first) % 4;
#pragma unroll 1
    for (; at < end; at += 4096) {
      pack<s4, 4> l2[4] = {};
#pragma unroll
      for (int u = 0; u < 4; u++) {
        const long long e = at + (u * 256 + tid) * 4;
        if (e >= end) break;
        const long long c0 = e;
        l2[u] = load<4>(p0 + c0);
      }
#pragma unroll
      for (int u = 0; u < 4; u++) {
        const long long e = at + (u * 256 + tid) * 4;
        if (e >= end) break;
        const long long c0 = e;
        pack<s4, 4> o0 = {};
#pragma unroll
        for (int q = 0; q < 4; q++) {
          const float v2 = in_f32(l2[u].get(q));
          const float v3 = op_mul_f32(v2, v0);
          const float v4 = op_add_f32(v3, v1);
          const float v5 = op_relu_f32(v4);
          o0.put(q, out_f32(v5));
        }
        store(p1 + c0, o0);
      }
    }
    at = end;
  }
  const long long end = last;
#pragma unroll 1
  for (; at < end; at += 1024) {
    pack<s4, 1> l2[4] = {};
#pragma unroll
    for (int u = 0; u < 4; u++) {
      const long long e = at + (u * 256 + tid) * 1;
      if (e >= end) break;
      const long long c0 = e;
      l2[u] = load<1>(p0 + c0);
    }
#pragma unroll
    for (int u = 0; u < 4; u++) {
      const long long e = at + (u * 256 + tid) * 1;
      if (e >= end) break;
      const long long c0 = e;
#pragma unroll
      for (int q = 0; q < 1; q++) {
        const float v2 = in_f32(l2[u].get(q));
        const float v3 = op_mul_f32(v2, v0);
        const float v4 = op_add_f32(v3, v1);
        const float v5 = op_relu_f32(v4);
        p1[c0] = out_f32(v5);
      }
    }
  }
}
