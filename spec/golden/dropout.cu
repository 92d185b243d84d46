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
struct params_dropout { long long w[20]; };
extern "C" __global__ void __launch_bounds__(256) dropout(const __grid_constant__ params_dropout params) {
  const long long *const w = params.w;
  const long long block = blockIdx.x;
  s4 *const p1 = (s4 *)w[12];
  s4 *const p2 = (s4 *)w[13];
  s1 *const p3 = (s1 *)w[14];
  const float v0 = (float)__longlong_as_double(w[15]);
  const float v1 = (float)__longlong_as_double(w[16]);
  const float v2 = (float)__longlong_as_double(w[17]);
  const int tid = threadIdx.x;
  const long long first = block * w[3];
  long long at = first, last = first + w[3];
  if (last > w[1]) last = w[1];
  if (w[0] & 1) {
    const long long end = last - (last - first) % 4;
#pragma unroll 1
    for (; at < end; at += 4096) {
      pack<s4, 4> l4[4] = {};
#pragma unroll
      for (int u = 0; u < 4; u++) {
        const long long e = at + (u * 256 + tid) * 4;
        if (e >= end) break;
        const long long c0 = e;
        l4[u] = load<4>(p1 + c0);
      }
#pragma unroll
      for (int u = 0; u < 4; u++) {
        const long long e = at + (u * 256 + tid) * 4;
        if (e >= end) break;
        const long long c0 = e;
        pack<s4, 4> o0 = {};
        pack<s1, 4> o1 = {};
#pragma unroll
        for (int q = 0; q < 4; q++) {
          const int64_t v3 = ((w[11] + (c0 + (q & ~3))) & ~3ll | (q & 3));
          const float v4 = in_f32(l4[u].get(q));
          const float v5 = fl_random_uniform_f32(v3, (uint64_t)w[18], (uint64_t)w[19], (float)v0, (float)v1);
          const int32_t v6 = op_ge_f32(v5, v2);
          const float v7 = op_where_f32(v6, v4, v0);
          o0.put(q, out_f32(v7));
          o1.put(q, out_bool(v6));
        }
        store(p2 + c0, o0);
        store(p3 + c0, o1);
      }
    }
    at = end;
  }
  const long long end = last;
#pragma unroll 1
  for (; at < end; at += 1024) {
    pack<s4, 1> l4[4] = {};
#pragma unroll
    for (int u = 0; u < 4; u++) {
      const long long e = at + (u * 256 + tid) * 1;
      if (e >= end) break;
      const long long c0 = e;
      l4[u] = load<1>(p1 + c0);
    }
#pragma unroll
    for (int u = 0; u < 4; u++) {
      const long long e = at + (u * 256 + tid) * 1;
      if (e >= end) break;
      const long long c0 = e;
#pragma unroll
      for (int q = 0; q < 1; q++) {
        const int64_t v3 = w[11] + c0;
        const float v4 = in_f32(l4[u].get(q));
        const float v5 = fl_random_uniform_f32(v3, (uint64_t)w[18], (uint64_t)w[19], (float)v0, (float)v1);
        const int32_t v6 = op_ge_f32(v5, v2);
        const float v7 = op_where_f32(v6, v4, v0);
        p2[c0] = out_f32(v7);
        p3[c0] = out_bool(v6);
      }
    }
  }
}
