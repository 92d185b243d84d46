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
struct params_many_columns { long long w[52]; };
extern "C" __global__ void __launch_bounds__(512) many_columns(const __grid_constant__ params_many_columns params) {
  const long long *const w = params.w;
  const long long block = blockIdx.x;
  s4 *const p0 = (s4 *)w[13];
  s4 *const p1 = (s4 *)w[15];
  s4 *const p2 = (s4 *)w[16];
  s4 *const p3 = (s4 *)w[18];
  s4 *const p4 = (s4 *)w[19];
  s4 *const p5 = (s4 *)w[21];
  s4 *const p6 = (s4 *)w[22];
  s4 *const p7 = (s4 *)w[24];
  s4 *const p8 = (s4 *)w[25];
  s4 *const p9 = (s4 *)w[27];
  s4 *const p10 = (s4 *)w[28];
  s4 *const p11 = (s4 *)w[30];
  s4 *const p12 = (s4 *)w[31];
  s4 *const p13 = (s4 *)w[33];
  s4 *const p14 = (s4 *)w[34];
  s4 *const p15 = (s4 *)w[36];
  s4 *const p16 = (s4 *)w[37];
  s4 *const p17 = (s4 *)w[39];
  s4 *const p18 = (s4 *)w[40];
  s4 *const p19 = (s4 *)w[42];
  s4 *const p20 = (s4 *)w[43];
  s4 *const p21 = (s4 *)w[45];
  s4 *const p22 = (s4 *)w[46];
  s4 *const p23 = (s4 *)w[48];
  s4 *const p24 = (s4 *)w[49];
  s4 *const p25 = (s4 *)w[51];
  const long long n = w[1], cols = w[9];
  const long long chunks = w[4] > 0 ? w[4] : 1;
  const unsigned each = (unsigned)w[2], across = (unsigned)w[5];
  const long long tile = (unsigned)block % each, chunk = (unsigned)block / each;
  const long long outer = (unsigned)tile / across;
  const long long left = (unsigned)tile % across * 64ll;
  const int tid = threadIdx.x, x = tid % 32 * 2, y = tid / 32;
  const bool vector = w[0] & 1;
  __shared__ s8 space[512];
  R_sum_f32::A a1[2];
#pragma unroll
  for (int q = 0; q < 2; q++) a1[q] = R_sum_f32::start();
  R_sum_f32::A a3[2];
#pragma unroll
  for (int q = 0; q < 2; q++) a3[q] = R_sum_f32::start();
  R_sum_f32::A a5[2];
#pragma unroll
  for (int q = 0; q < 2; q++) a5[q] = R_sum_f32::start();
  R_sum_f32::A a7[2];
#pragma unroll
  for (int q = 0; q < 2; q++) a7[q] = R_sum_f32::start();
  R_sum_f32::A a9[2];
#pragma unroll
  for (int q = 0; q < 2; q++) a9[q] = R_sum_f32::start();
  R_sum_f32::A a11[2];
#pragma unroll
  for (int q = 0; q < 2; q++) a11[q] = R_sum_f32::start();
  R_sum_f32::A a13[2];
#pragma unroll
  for (int q = 0; q < 2; q++) a13[q] = R_sum_f32::start();
  R_sum_f32::A a15[2];
#pragma unroll
  for (int q = 0; q < 2; q++) a15[q] = R_sum_f32::start();
  R_sum_f32::A a17[2];
#pragma unroll
  for (int q = 0; q < 2; q++) a17[q] = R_sum_f32::start();
  R_sum_f32::A a19[2];
#pragma unroll
  for (int q = 0; q < 2; q++) a19[q] = R_sum_f32::start();
  R_sum_f32::A a21[2];
#pragma unroll
  for (int q = 0; q < 2; q++) a21[q] = R_sum_f32::start();
  R_sum_f32::A a23[2];
#pragma unroll
  for (int q = 0; q < 2; q++) a23[q] = R_sum_f32::start();
  R_sum_f32::A a25[2];
#pragma unroll
  for (int q = 0; q < 2; q++) a25[q] = R_sum_f32::start();
  {
    const long long column = left + x;
    const long long c0 = column;
    const long long start = chunk * w[3] + y;
    long long end = (chunk + 1) * w[3];
    if (end > n) end = n;
    if (column < cols) {
      if (vector) {
#pragma unroll 2
        for (long long i = start; i < end; i += 16) {
          const long long c1 = i;
          pack<s4, 2> l0[1] = {};
          pack<s4, 2> l2[1] = {};
          pack<s4, 2> l4[1] = {};
          pack<s4, 2> l6[1] = {};
          pack<s4, 2> l8[1] = {};
          pack<s4, 2> l10[1] = {};
          pack<s4, 2> l12[1] = {};
          pack<s4, 2> l14[1] = {};
          pack<s4, 2> l16[1] = {};
          pack<s4, 2> l18[1] = {};
          pack<s4, 2> l20[1] = {};
          pack<s4, 2> l22[1] = {};
          pack<s4, 2> l24[1] = {};
          l0[0] = load<2>(p0 + c0 + c1 * w[14]);
          l2[0] = load<2>(p2 + c0 + c1 * w[17]);
          l4[0] = load<2>(p4 + c0 + c1 * w[20]);
          l6[0] = load<2>(p6 + c0 + c1 * w[23]);
          l8[0] = load<2>(p8 + c0 + c1 * w[26]);
          l10[0] = load<2>(p10 + c0 + c1 * w[29]);
          l12[0] = load<2>(p12 + c0 + c1 * w[32]);
          l14[0] = load<2>(p14 + c0 + c1 * w[35]);
          l16[0] = load<2>(p16 + c0 + c1 * w[38]);
          l18[0] = load<2>(p18 + c0 + c1 * w[41]);
          l20[0] = load<2>(p20 + c0 + c1 * w[44]);
          l22[0] = load<2>(p22 + c0 + c1 * w[47]);
          l24[0] = load<2>(p24 + c0 + c1 * w[50]);
#pragma unroll
          for (int q = 0; q < 2; q++) {
            const float v0 = in_f32(l0[0].get(q));
            const float v2 = in_f32(l2[0].get(q));
            const float v4 = in_f32(l4[0].get(q));
            const float v6 = in_f32(l6[0].get(q));
            const float v8 = in_f32(l8[0].get(q));
            const float v10 = in_f32(l10[0].get(q));
            const float v12 = in_f32(l12[0].get(q));
            const float v14 = in_f32(l14[0].get(q));
            const float v16 = in_f32(l16[0].get(q));
            const float v18 = in_f32(l18[0].get(q));
            const float v20 = in_f32(l20[0].get(q));
            const float v22 = in_f32(l22[0].get(q));
            const float v24 = in_f32(l24[0].get(q));
            a1[q] = R_sum_f32::join(a1[q], (float)v0);
            a3[q] = R_sum_f32::join(a3[q], (float)v2);
            a5[q] = R_sum_f32::join(a5[q], (float)v4);
            a7[q] = R_sum_f32::join(a7[q], (float)v6);
            a9[q] = R_sum_f32::join(a9[q], (float)v8);
            a11[q] = R_sum_f32::join(a11[q], (float)v10);
            a13[q] = R_sum_f32::join(a13[q], (float)v12);
            a15[q] = R_sum_f32::join(a15[q], (float)v14);
            a17[q] = R_sum_f32::join(a17[q], (float)v16);
            a19[q] = R_sum_f32::join(a19[q], (float)v18);
            a21[q] = R_sum_f32::join(a21[q], (float)v20);
            a23[q] = R_sum_f32::join(a23[q], (float)v22);
            a25[q] = R_sum_f32::join(a25[q], (float)v24);
          }
        }
      } else {
#pragma unroll 2
        for (long long i = start; i < end; i += 16) {
          const long long c1 = i;
          pack<s4, 2> l0[1] = {};
          pack<s4, 2> l2[1] = {};
          pack<s4, 2> l4[1] = {};
          pack<s4, 2> l6[1] = {};
          pack<s4, 2> l8[1] = {};
          pack<s4, 2> l10[1] = {};
          pack<s4, 2> l12[1] = {};
          pack<s4, 2> l14[1] = {};
          pack<s4, 2> l16[1] = {};
          pack<s4, 2> l18[1] = {};
          pack<s4, 2> l20[1] = {};
          pack<s4, 2> l22[1] = {};
          pack<s4, 2> l24[1] = {};
          for (int q = 0; q < 2; q++) if (column + q < cols) l0[0].put(q, p0[(c0 + q) + c1 * w[14]]);
          for (int q = 0; q < 2; q++) if (column + q < cols) l2[0].put(q, p2[(c0 + q) + c1 * w[17]]);
          for (int q = 0; q < 2; q++) if (column + q < cols) l4[0].put(q, p4[(c0 + q) + c1 * w[20]]);
          for (int q = 0; q < 2; q++) if (column + q < cols) l6[0].put(q, p6[(c0 + q) + c1 * w[23]]);
          for (int q = 0; q < 2; q++) if (column + q < cols) l8[0].put(q, p8[(c0 + q) + c1 * w[26]]);
          for (int q = 0; q < 2; q++) if (column + q < cols) l10[0].put(q, p10[(c0 + q) + c1 * w[29]]);
          for (int q = 0; q < 2; q++) if (column + q < cols) l12[0].put(q, p12[(c0 + q) + c1 * w[32]]);
          for (int q = 0; q < 2; q++) if (column + q < cols) l14[0].put(q, p14[(c0 + q) + c1 * w[35]]);
          for (int q = 0; q < 2; q++) if (column + q < cols) l16[0].put(q, p16[(c0 + q) + c1 * w[38]]);
          for (int q = 0; q < 2; q++) if (column + q < cols) l18[0].put(q, p18[(c0 + q) + c1 * w[41]]);
          for (int q = 0; q < 2; q++) if (column + q < cols) l20[0].put(q, p20[(c0 + q) + c1 * w[44]]);
          for (int q = 0; q < 2; q++) if (column + q < cols) l22[0].put(q, p22[(c0 + q) + c1 * w[47]]);
          for (int q = 0; q < 2; q++) if (column + q < cols) l24[0].put(q, p24[(c0 + q) + c1 * w[50]]);
#pragma unroll
          for (int q = 0; q < 2; q++) if (column + q < cols) {
            const float v0 = in_f32(l0[0].get(q));
            const float v2 = in_f32(l2[0].get(q));
            const float v4 = in_f32(l4[0].get(q));
            const float v6 = in_f32(l6[0].get(q));
            const float v8 = in_f32(l8[0].get(q));
            const float v10 = in_f32(l10[0].get(q));
            const float v12 = in_f32(l12[0].get(q));
            const float v14 = in_f32(l14[0].get(q));
            const float v16 = in_f32(l16[0].get(q));
            const float v18 = in_f32(l18[0].get(q));
            const float v20 = in_f32(l20[0].get(q));
            const float v22 = in_f32(l22[0].get(q));
            const float v24 = in_f32(l24[0].get(q));
            a1[q] = R_sum_f32::join(a1[q], (float)v0);
            a3[q] = R_sum_f32::join(a3[q], (float)v2);
            a5[q] = R_sum_f32::join(a5[q], (float)v4);
            a7[q] = R_sum_f32::join(a7[q], (float)v6);
            a9[q] = R_sum_f32::join(a9[q], (float)v8);
            a11[q] = R_sum_f32::join(a11[q], (float)v10);
            a13[q] = R_sum_f32::join(a13[q], (float)v12);
            a15[q] = R_sum_f32::join(a15[q], (float)v14);
            a17[q] = R_sum_f32::join(a17[q], (float)v16);
            a19[q] = R_sum_f32::join(a19[q], (float)v18);
            a21[q] = R_sum_f32::join(a21[q], (float)v20);
            a23[q] = R_sum_f32::join(a23[q], (float)v22);
            a25[q] = R_sum_f32::join(a25[q], (float)v24);
          }
        }
      }
    }
  }
  R_sum_f32::A r1 = join_columns<R_sum_f32, 2>(a1, space);
  R_sum_f32::A r3 = join_columns<R_sum_f32, 2>(a3, space);
  R_sum_f32::A r5 = join_columns<R_sum_f32, 2>(a5, space);
  R_sum_f32::A r7 = join_columns<R_sum_f32, 2>(a7, space);
  R_sum_f32::A r9 = join_columns<R_sum_f32, 2>(a9, space);
  R_sum_f32::A r11 = join_columns<R_sum_f32, 2>(a11, space);
  R_sum_f32::A r13 = join_columns<R_sum_f32, 2>(a13, space);
  R_sum_f32::A r15 = join_columns<R_sum_f32, 2>(a15, space);
  R_sum_f32::A r17 = join_columns<R_sum_f32, 2>(a17, space);
  R_sum_f32::A r19 = join_columns<R_sum_f32, 2>(a19, space);
  R_sum_f32::A r21 = join_columns<R_sum_f32, 2>(a21, space);
  R_sum_f32::A r23 = join_columns<R_sum_f32, 2>(a23, space);
  R_sum_f32::A r25 = join_columns<R_sum_f32, 2>(a25, space);
  if (chunks > 1) {
    if (tid < 64) {
      slot<R_sum_f32::A>(w[7], ((tile * 13 + 0) * chunks + chunk) * 64)[tid] = r1;
      slot<R_sum_f32::A>(w[7], ((tile * 13 + 1) * chunks + chunk) * 64)[tid] = r3;
      slot<R_sum_f32::A>(w[7], ((tile * 13 + 2) * chunks + chunk) * 64)[tid] = r5;
      slot<R_sum_f32::A>(w[7], ((tile * 13 + 3) * chunks + chunk) * 64)[tid] = r7;
      slot<R_sum_f32::A>(w[7], ((tile * 13 + 4) * chunks + chunk) * 64)[tid] = r9;
      slot<R_sum_f32::A>(w[7], ((tile * 13 + 5) * chunks + chunk) * 64)[tid] = r11;
      slot<R_sum_f32::A>(w[7], ((tile * 13 + 6) * chunks + chunk) * 64)[tid] = r13;
      slot<R_sum_f32::A>(w[7], ((tile * 13 + 7) * chunks + chunk) * 64)[tid] = r15;
      slot<R_sum_f32::A>(w[7], ((tile * 13 + 8) * chunks + chunk) * 64)[tid] = r17;
      slot<R_sum_f32::A>(w[7], ((tile * 13 + 9) * chunks + chunk) * 64)[tid] = r19;
      slot<R_sum_f32::A>(w[7], ((tile * 13 + 10) * chunks + chunk) * 64)[tid] = r21;
      slot<R_sum_f32::A>(w[7], ((tile * 13 + 11) * chunks + chunk) * 64)[tid] = r23;
      slot<R_sum_f32::A>(w[7], ((tile * 13 + 12) * chunks + chunk) * 64)[tid] = r25;
    }
    if (!arrive_last((unsigned *)w[8] + tile, (unsigned)chunks)) return;
#pragma unroll
    for (int q = 0; q < 2; q++) a1[q] = R_sum_f32::start();
#pragma unroll 4
    for (long long i = y; i < chunks; i += 16) {
#pragma unroll
      for (int q = 0; q < 2; q++) a1[q] = R_sum_f32::join(a1[q], slot<R_sum_f32::A>(w[7], ((tile * 13 + 0) * chunks + i) * 64)[x + q]);
    }
    r1 = join_columns<R_sum_f32, 2>(a1, space);
#pragma unroll
    for (int q = 0; q < 2; q++) a3[q] = R_sum_f32::start();
#pragma unroll 4
    for (long long i = y; i < chunks; i += 16) {
#pragma unroll
      for (int q = 0; q < 2; q++) a3[q] = R_sum_f32::join(a3[q], slot<R_sum_f32::A>(w[7], ((tile * 13 + 1) * chunks + i) * 64)[x + q]);
    }
    r3 = join_columns<R_sum_f32, 2>(a3, space);
#pragma unroll
    for (int q = 0; q < 2; q++) a5[q] = R_sum_f32::start();
#pragma unroll 4
    for (long long i = y; i < chunks; i += 16) {
#pragma unroll
      for (int q = 0; q < 2; q++) a5[q] = R_sum_f32::join(a5[q], slot<R_sum_f32::A>(w[7], ((tile * 13 + 2) * chunks + i) * 64)[x + q]);
    }
    r5 = join_columns<R_sum_f32, 2>(a5, space);
#pragma unroll
    for (int q = 0; q < 2; q++) a7[q] = R_sum_f32::start();
#pragma unroll 4
    for (long long i = y; i < chunks; i += 16) {
#pragma unroll
      for (int q = 0; q < 2; q++) a7[q] = R_sum_f32::join(a7[q], slot<R_sum_f32::A>(w[7], ((tile * 13 + 3) * chunks + i) * 64)[x + q]);
    }
    r7 = join_columns<R_sum_f32, 2>(a7, space);
#pragma unroll
    for (int q = 0; q < 2; q++) a9[q] = R_sum_f32::start();
#pragma unroll 4
    for (long long i = y; i < chunks; i += 16) {
#pragma unroll
      for (int q = 0; q < 2; q++) a9[q] = R_sum_f32::join(a9[q], slot<R_sum_f32::A>(w[7], ((tile * 13 + 4) * chunks + i) * 64)[x + q]);
    }
    r9 = join_columns<R_sum_f32, 2>(a9, space);
#pragma unroll
    for (int q = 0; q < 2; q++) a11[q] = R_sum_f32::start();
#pragma unroll 4
    for (long long i = y; i < chunks; i += 16) {
#pragma unroll
      for (int q = 0; q < 2; q++) a11[q] = R_sum_f32::join(a11[q], slot<R_sum_f32::A>(w[7], ((tile * 13 + 5) * chunks + i) * 64)[x + q]);
    }
    r11 = join_columns<R_sum_f32, 2>(a11, space);
#pragma unroll
    for (int q = 0; q < 2; q++) a13[q] = R_sum_f32::start();
#pragma unroll 4
    for (long long i = y; i < chunks; i += 16) {
#pragma unroll
      for (int q = 0; q < 2; q++) a13[q] = R_sum_f32::join(a13[q], slot<R_sum_f32::A>(w[7], ((tile * 13 + 6) * chunks + i) * 64)[x + q]);
    }
    r13 = join_columns<R_sum_f32, 2>(a13, space);
#pragma unroll
    for (int q = 0; q < 2; q++) a15[q] = R_sum_f32::start();
#pragma unroll 4
    for (long long i = y; i < chunks; i += 16) {
#pragma unroll
      for (int q = 0; q < 2; q++) a15[q] = R_sum_f32::join(a15[q], slot<R_sum_f32::A>(w[7], ((tile * 13 + 7) * chunks + i) * 64)[x + q]);
    }
    r15 = join_columns<R_sum_f32, 2>(a15, space);
#pragma unroll
    for (int q = 0; q < 2; q++) a17[q] = R_sum_f32::start();
#pragma unroll 4
    for (long long i = y; i < chunks; i += 16) {
#pragma unroll
      for (int q = 0; q < 2; q++) a17[q] = R_sum_f32::join(a17[q], slot<R_sum_f32::A>(w[7], ((tile * 13 + 8) * chunks + i) * 64)[x + q]);
    }
    r17 = join_columns<R_sum_f32, 2>(a17, space);
#pragma unroll
    for (int q = 0; q < 2; q++) a19[q] = R_sum_f32::start();
#pragma unroll 4
    for (long long i = y; i < chunks; i += 16) {
#pragma unroll
      for (int q = 0; q < 2; q++) a19[q] = R_sum_f32::join(a19[q], slot<R_sum_f32::A>(w[7], ((tile * 13 + 9) * chunks + i) * 64)[x + q]);
    }
    r19 = join_columns<R_sum_f32, 2>(a19, space);
#pragma unroll
    for (int q = 0; q < 2; q++) a21[q] = R_sum_f32::start();
#pragma unroll 4
    for (long long i = y; i < chunks; i += 16) {
#pragma unroll
      for (int q = 0; q < 2; q++) a21[q] = R_sum_f32::join(a21[q], slot<R_sum_f32::A>(w[7], ((tile * 13 + 10) * chunks + i) * 64)[x + q]);
    }
    r21 = join_columns<R_sum_f32, 2>(a21, space);
#pragma unroll
    for (int q = 0; q < 2; q++) a23[q] = R_sum_f32::start();
#pragma unroll 4
    for (long long i = y; i < chunks; i += 16) {
#pragma unroll
      for (int q = 0; q < 2; q++) a23[q] = R_sum_f32::join(a23[q], slot<R_sum_f32::A>(w[7], ((tile * 13 + 11) * chunks + i) * 64)[x + q]);
    }
    r23 = join_columns<R_sum_f32, 2>(a23, space);
#pragma unroll
    for (int q = 0; q < 2; q++) a25[q] = R_sum_f32::start();
#pragma unroll 4
    for (long long i = y; i < chunks; i += 16) {
#pragma unroll
      for (int q = 0; q < 2; q++) a25[q] = R_sum_f32::join(a25[q], slot<R_sum_f32::A>(w[7], ((tile * 13 + 12) * chunks + i) * 64)[x + q]);
    }
    r25 = join_columns<R_sum_f32, 2>(a25, space);
  }
  const long long column = left + tid;
  if (tid >= 64 || column >= cols) return;
  const long long c0 = column;
  const float v1 = (float)r1;
  const float v3 = (float)r3;
  const float v5 = (float)r5;
  const float v7 = (float)r7;
  const float v9 = (float)r9;
  const float v11 = (float)r11;
  const float v13 = (float)r13;
  const float v15 = (float)r15;
  const float v17 = (float)r17;
  const float v19 = (float)r19;
  const float v21 = (float)r21;
  const float v23 = (float)r23;
  const float v25 = (float)r25;
  p1[c0] = out_f32(v1);
  p3[c0] = out_f32(v3);
  p5[c0] = out_f32(v5);
  p7[c0] = out_f32(v7);
  p9[c0] = out_f32(v9);
  p11[c0] = out_f32(v11);
  p13[c0] = out_f32(v13);
  p15[c0] = out_f32(v15);
  p17[c0] = out_f32(v17);
  p19[c0] = out_f32(v19);
  p21[c0] = out_f32(v21);
  p23[c0] = out_f32(v23);
  p25[c0] = out_f32(v25);
}
