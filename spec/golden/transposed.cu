#ifndef op_add_f32
#define op_add_f32 op_add_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_add_f32(T x1, T x2) { return M(add)(x1, x2); }
#undef T
#undef M
#endif
struct params_transposed { long long w[20]; };
extern "C" __global__ void __launch_bounds__(256) transposed(const __grid_constant__ params_transposed params) {
  const long long *const w = params.w;
  const long long block = blockIdx.x;
  s4 *const p0 = (s4 *)w[13];
  s4 *const p1 = (s4 *)w[16];
  s4 *const p2 = (s4 *)w[18];
  const int tid = threadIdx.x;
  const long long first = block * w[3];
  long long at = first, last = first + w[3];
  if (last > w[1]) last = w[1];
  if (w[0] & 1) {
    const long long end = last - (last - first) % 4;
#pragma unroll 1
    for (; at < end; at += 4096) {
      pack<s4, 4> l0[4] = {};
      pack<s4, 4> l1[4] = {};
#pragma unroll
      for (int u = 0; u < 4; u++) {
        const long long e = at + (u * 256 + tid) * 4;
        if (e >= end) break;
        const unsigned x2 = (unsigned)(e);
        const unsigned x1 = divide(x2, w[12]);
        const long long c1 = x2 - x1 * (unsigned)w[11];
        const long long c0 = x1;
        for (int q = 0; q < 4; q++) l0[u].put(q, p0[c0 * w[14] + (c1 + q) * w[15]]);
        l1[u] = load<4>(p1 + c0 * w[17] + c1);
      }
#pragma unroll
      for (int u = 0; u < 4; u++) {
        const long long e = at + (u * 256 + tid) * 4;
        if (e >= end) break;
        const unsigned x2 = (unsigned)(e);
        const unsigned x1 = divide(x2, w[12]);
        const long long c1 = x2 - x1 * (unsigned)w[11];
        const long long c0 = x1;
        pack<s4, 4> o0 = {};
#pragma unroll
        for (int q = 0; q < 4; q++) {
          const float v0 = in_f32(l0[u].get(q));
          const float v1 = in_f32(l1[u].get(q));
          const float v2 = op_add_f32(v0, v1);
          o0.put(q, out_f32(v2));
        }
        store(p2 + c0 * w[19] + c1, o0);
      }
    }
    at = end;
  }
  const long long end = last;
#pragma unroll 1
  for (; at < end; at += 1024) {
    pack<s4, 1> l0[4] = {};
    pack<s4, 1> l1[4] = {};
#pragma unroll
    for (int u = 0; u < 4; u++) {
      const long long e = at + (u * 256 + tid) * 1;
      if (e >= end) break;
      const unsigned x2 = (unsigned)(e);
      const unsigned x1 = divide(x2, w[12]);
      const long long c1 = x2 - x1 * (unsigned)w[11];
      const long long c0 = x1;
      l0[u] = load<1>(p0 + c0 * w[14] + c1 * w[15]);
      l1[u] = load<1>(p1 + c0 * w[17] + c1);
    }
#pragma unroll
    for (int u = 0; u < 4; u++) {
      const long long e = at + (u * 256 + tid) * 1;
      if (e >= end) break;
      const unsigned x2 = (unsigned)(e);
      const unsigned x1 = divide(x2, w[12]);
      const long long c1 = x2 - x1 * (unsigned)w[11];
      const long long c0 = x1;
#pragma unroll
      for (int q = 0; q < 1; q++) {
        const float v0 = in_f32(l0[u].get(q));
        const float v1 = in_f32(l1[u].get(q));
        const float v2 = op_add_f32(v0, v1);
        p2[c0 * w[19] + c1] = out_f32(v2);
      }
    }
  }
}
