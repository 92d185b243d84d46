#ifndef op_add_f32
#define op_add_f32 op_add_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_add_f32(T x1, T x2) { return M(add)(x1, x2); }
#undef T
#undef M
#endif
#ifndef op_gelu_tanh_back_f32
#define op_gelu_tanh_back_f32 op_gelu_tanh_back_f32
#define T float
#define M(f) fl_##f##_f32
FN float op_gelu_tanh_back_f32(T x1, T x2) { return x1 * M(gelu_tanh_slope)(x2); }
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
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 5
#endif
struct params_gelu_grad { long long w[21]; };
extern "C" __global__ void __launch_bounds__(256, MIN_BLOCKS) gelu_grad(const __grid_constant__ params_gelu_grad params) {
  const long long *const w = params.w;
  const long long block = blockIdx.x;
  s2 *const p0 = (s2 *)w[13];
  s2 *const p1 = (s2 *)w[15];
  s2 *const p2 = (s2 *)w[17];
  s2 *const p3 = (s2 *)w[18];
  s2 *const p4 = (s2 *)w[20];
  const long long n = w[1], cols = w[9];
  const long long chunks = w[4] > 0 ? w[4] : 1;
  const unsigned each = (unsigned)w[2], across = (unsigned)w[5];
  const long long tile = (unsigned)block % each, chunk = (unsigned)block / each;
  const long long outer = (unsigned)tile / across;
  const long long left = (unsigned)tile % across * 64ll;
  const int tid = threadIdx.x, x = tid % 16 * 4, y = tid / 16;
  const bool vector = w[0] & 1;
  __shared__ s8 space[512];
  R_sum_f32::A a5[4];
#pragma unroll
  for (int q = 0; q < 4; q++) a5[q] = R_sum_f32::start();
  {
    const long long column = left + x;
    const long long c0 = column;
    const long long start = chunk * w[3] + y;
    long long end = (chunk + 1) * w[3];
    if (end > n) end = n;
    if (column < cols) {
      if (vector) {
        pack<s4, 4> k2 = {};
        for (int q = 0; q < 4; q++) if (column + q < cols) {
          const float v2 = in_bf16(p2[(c0 + q)]);
          k2.put(q, out_f32(v2));
        }
#pragma unroll 1
        for (long long at = start; at < end; at += 64) {
          pack<s2, 4> l0[4] = {};
          pack<s2, 4> l1[4] = {};
#pragma unroll
          for (int u = 0; u < 4; u++) {
            const long long i = at + u * 16;
            if (i >= end) break;
            const long long c1 = i;
            l0[u] = load<4>(p0 + c0 + c1 * w[14]);
            l1[u] = load<4>(p1 + c0 + c1 * w[16]);
          }
#pragma unroll
          for (int u = 0; u < 4; u++) {
            const long long i = at + u * 16;
            if (i >= end) break;
            const long long c1 = i;
            pack<s2, 4> o0 = {};
#pragma unroll
            for (int q = 0; q < 4; q++) {
              const float v2 = in_f32(k2.get(q));
              const float v0 = in_bf16(l0[u].get(q));
              const float v1 = in_bf16(l1[u].get(q));
              const float v3 = round_bf16(op_add_f32(v1, v2));
              const float v4 = round_bf16(op_gelu_tanh_back_f32(v0, v3));
              o0.put(q, bits_bf16(v4));
              a5[q] = R_sum_f32::join(a5[q], (float)v4);
            }
            store(p3 + c0 + c1 * w[19], o0);
          }
        }
      } else {
        pack<s4, 4> k2 = {};
        for (int q = 0; q < 4; q++) if (column + q < cols) {
          const float v2 = in_bf16(p2[(c0 + q)]);
          k2.put(q, out_f32(v2));
        }
#pragma unroll 1
        for (long long at = start; at < end; at += 64) {
          pack<s2, 4> l0[4] = {};
          pack<s2, 4> l1[4] = {};
#pragma unroll
          for (int u = 0; u < 4; u++) {
            const long long i = at + u * 16;
            if (i >= end) break;
            const long long c1 = i;
            for (int q = 0; q < 4; q++) if (column + q < cols) l0[u].put(q, p0[(c0 + q) + c1 * w[14]]);
            for (int q = 0; q < 4; q++) if (column + q < cols) l1[u].put(q, p1[(c0 + q) + c1 * w[16]]);
          }
#pragma unroll
          for (int u = 0; u < 4; u++) {
            const long long i = at + u * 16;
            if (i >= end) break;
            const long long c1 = i;
#pragma unroll
            for (int q = 0; q < 4; q++) if (column + q < cols) {
              const float v2 = in_f32(k2.get(q));
              const float v0 = in_bf16(l0[u].get(q));
              const float v1 = in_bf16(l1[u].get(q));
              const float v3 = round_bf16(op_add_f32(v1, v2));
              const float v4 = round_bf16(op_gelu_tanh_back_f32(v0, v3));
              p3[(c0 + q) + c1 * w[19]] = bits_bf16(v4);
              a5[q] = R_sum_f32::join(a5[q], (float)v4);
            }
          }
        }
      }
    }
  }
  R_sum_f32::A r5 = join_columns<R_sum_f32, 4>(a5, space);
  if (chunks > 1) {
    if (tid < 64) {
      slot<R_sum_f32::A>(w[7], ((tile * 1 + 0) * chunks + chunk) * 64)[tid] = r5;
    }
    if (!arrive_last((unsigned *)w[8] + tile, (unsigned)chunks)) return;
#pragma unroll
    for (int q = 0; q < 4; q++) a5[q] = R_sum_f32::start();
#pragma unroll 4
    for (long long i = y; i < chunks; i += 16) {
#pragma unroll
      for (int q = 0; q < 4; q++) a5[q] = R_sum_f32::join(a5[q], slot<R_sum_f32::A>(w[7], ((tile * 1 + 0) * chunks + i) * 64)[x + q]);
    }
    r5 = join_columns<R_sum_f32, 4>(a5, space);
  }
  const long long column = left + tid;
  if (tid >= 64 || column >= cols) return;
  const long long c0 = column;
  const float v5 = round_bf16(r5);
  p4[c0] = bits_bf16(v5);
}
#undef MIN_BLOCKS
