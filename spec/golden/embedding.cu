struct params_embedding { long long w[23]; };
extern "C" __global__ void __launch_bounds__(256) embedding(const __grid_constant__ params_embedding params) {
  const long long *const w = params.w;
  const long long block = blockIdx.x;
  s8 *const p1 = (s8 *)w[15];
  s4 *const p2 = (s4 *)w[17];
  s4 *const p3 = (s4 *)w[18];
  const int64_t v0 = (int64_t)w[20];
  const int tid = threadIdx.x;
  const long long first = block * w[3];
  long long at = first, last = first + w[3];
  if (last > w[1]) last = w[1];
  if (w[0] & 1) {
    const long long end = last - (last - first) % 4;
#pragma unroll 1
    for (; at < end; at += 4096) {
      pack<s8, 1> l2[4] = {};
      pack<s4, 4> l4[4] = {};
#pragma unroll
      for (int u = 0; u < 4; u++) {
        const long long e = at + (u * 256 + tid) * 4;
        if (e >= end) break;
        const unsigned x2 = (unsigned)(e);
        const unsigned x1 = divide(x2, w[12]);
        const long long c1 = x2 - x1 * (unsigned)w[11];
        const long long c0 = x1;
        const int64_t v1 = w[13] + c0 * w[14];
        l2[u].x = p1[c0 * w[16]];
        const int64_t v2 = in_i64(l2[u].get(0));
        const int64_t v3 = position(v2, v0, 0, 0, w[6], w[21], v1);
        l4[u] = load<4>(p2 + c1 + v3 * w[22]);
      }
#pragma unroll
      for (int u = 0; u < 4; u++) {
        const long long e = at + (u * 256 + tid) * 4;
        if (e >= end) break;
        const unsigned x2 = (unsigned)(e);
        const unsigned x1 = divide(x2, w[12]);
        const long long c1 = x2 - x1 * (unsigned)w[11];
        const long long c0 = x1;
        const int64_t v1 = w[13] + c0 * w[14];
        const int64_t v2 = in_i64(l2[u].get(0));
        const int64_t v3 = position(v2, v0, 0, 0, w[6], w[21], v1);
        pack<s4, 4> o0 = {};
#pragma unroll
        for (int q = 0; q < 4; q++) {
          const float v4 = in_f32(l4[u].get(q));
          o0.put(q, out_f32(v4));
        }
        store(p3 + c0 * w[19] + c1, o0);
      }
    }
    at = end;
  }
  const long long end = last;
#pragma unroll 1
  for (; at < end; at += 1024) {
    pack<s8, 1> l2[4] = {};
    pack<s4, 1> l4[4] = {};
#pragma unroll
    for (int u = 0; u < 4; u++) {
      const long long e = at + (u * 256 + tid) * 1;
      if (e >= end) break;
      const unsigned x2 = (unsigned)(e);
      const unsigned x1 = divide(x2, w[12]);
      const long long c1 = x2 - x1 * (unsigned)w[11];
      const long long c0 = x1;
      const int64_t v1 = w[13] + c0 * w[14];
      l2[u].x = p1[c0 * w[16]];
      const int64_t v2 = in_i64(l2[u].get(0));
      const int64_t v3 = position(v2, v0, 0, 0, w[6], w[21], v1);
      l4[u] = load<1>(p2 + c1 + v3 * w[22]);
    }
#pragma unroll
    for (int u = 0; u < 4; u++) {
      const long long e = at + (u * 256 + tid) * 1;
      if (e >= end) break;
      const unsigned x2 = (unsigned)(e);
      const unsigned x1 = divide(x2, w[12]);
      const long long c1 = x2 - x1 * (unsigned)w[11];
      const long long c0 = x1;
      const int64_t v1 = w[13] + c0 * w[14];
      const int64_t v2 = in_i64(l2[u].get(0));
      const int64_t v3 = position(v2, v0, 0, 0, w[6], w[21], v1);
#pragma unroll
      for (int q = 0; q < 1; q++) {
        const float v4 = in_f32(l4[u].get(q));
        p3[c0 * w[19] + c1] = out_f32(v4);
      }
    }
  }
}
