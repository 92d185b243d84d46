/*
** Instructions of PTX that asm statements may have (ptx.c): name_type is fl_ptx_name_type, without
** the parts that say which memory it accesses, how that is cached or how exact a function is.
** Embedded as text.
*/
#define PTX0(NAME, E) __device__ unsigned fl_ptx_##NAME() { return E; }
#define PTX1(NAME, A, E) \
  template <class D> __device__ void fl_ptx_##NAME(D &d, A a) { d = (D)(E); }
#define PTX2(NAME, A, E) \
  template <class D> __device__ void fl_ptx_##NAME(D &d, A a, A b) { d = (D)(E); }
#define PTX3(NAME, A, E) \
  template <class D> __device__ void fl_ptx_##NAME(D &d, A a, A b, A c) { d = (D)(E); }

/* ---- memory ---- */
#define MEMORY(T, TYPE) \
  template <class D> __device__ void fl_ptx_ld_##TYPE(D &d, const void *p) { \
    d = (D)((const T *)p)[0]; \
  } \
  template <class D> __device__ void fl_ptx_ld_v2_##TYPE(D &d, D &e, const void *p) { \
    d = (D)((const T *)p)[0]; \
    e = (D)((const T *)p)[1]; \
  } \
  template <class D> __device__ void fl_ptx_ld_v4_##TYPE(D &d, D &e, D &f, D &g, const void *p) { \
    d = (D)((const T *)p)[0]; \
    e = (D)((const T *)p)[1]; \
    f = (D)((const T *)p)[2]; \
    g = (D)((const T *)p)[3]; \
  } \
  template <class A> __device__ void fl_ptx_st_##TYPE(void *p, const A &a) { \
    ((T *)p)[0] = (T)a; \
  } \
  template <class A> __device__ void fl_ptx_st_v2_##TYPE(void *p, const A &a, const A &b) { \
    ((T *)p)[0] = (T)a; \
    ((T *)p)[1] = (T)b; \
  } \
  template <class A> __device__ void fl_ptx_st_v4_##TYPE(void *p, const A &a, const A &b, \
                                                         const A &c, const A &d) { \
    ((T *)p)[0] = (T)a; \
    ((T *)p)[1] = (T)b; \
    ((T *)p)[2] = (T)c; \
    ((T *)p)[3] = (T)d; \
  }
MEMORY(unsigned char, u8)
MEMORY(unsigned short, u16)
MEMORY(unsigned short, b16)
MEMORY(unsigned, u32)
MEMORY(unsigned, b32)
MEMORY(int, s32)
MEMORY(float, f32)
MEMORY(unsigned long long, u64)
MEMORY(unsigned long long, b64)
MEMORY(double, f64)
template <class D, class A> __device__ void fl_ptx_mov(D &d, A a) { d = (D)a; }
__device__ void fl_ptx_red_add_f32(void *p, float a) { atomicAdd((float *)p, a); }
__device__ void fl_ptx_red_add_u32(void *p, unsigned a) { atomicAdd((unsigned *)p, a); }
__device__ void fl_ptx_red_add_s32(void *p, int a) { atomicAdd((int *)p, a); }

/* ---- numbers ---- */
#define ARITHMETIC(T, TYPE) \
  PTX2(add_##TYPE, T, a + b) \
  PTX2(sub_##TYPE, T, a - b) \
  PTX2(mul_##TYPE, T, a * b) \
  PTX3(mad_##TYPE, T, a * b + c) \
  PTX2(min_##TYPE, T, min(a, b)) \
  PTX2(max_##TYPE, T, max(a, b)) \
  COMPARE(T, TYPE)
#define COMPARE(T, TYPE) \
  __device__ void fl_ptx_setp_eq_##TYPE(bool &p, T a, T b) { p = a == b; } \
  __device__ void fl_ptx_setp_ne_##TYPE(bool &p, T a, T b) { p = a != b; } \
  __device__ void fl_ptx_setp_lt_##TYPE(bool &p, T a, T b) { p = a < b; } \
  __device__ void fl_ptx_setp_le_##TYPE(bool &p, T a, T b) { p = a <= b; } \
  __device__ void fl_ptx_setp_gt_##TYPE(bool &p, T a, T b) { p = a > b; } \
  __device__ void fl_ptx_setp_ge_##TYPE(bool &p, T a, T b) { p = a >= b; }
ARITHMETIC(unsigned, u32)
ARITHMETIC(int, s32)
ARITHMETIC(unsigned long long, u64)
ARITHMETIC(long long, s64)
ARITHMETIC(float, f32)
ARITHMETIC(double, f64)
COMPARE(unsigned, b32)
PTX3(fma_rn_f32, float, fmaf(a, b, c))
PTX3(fma_rn_f64, double, fma(a, b, c))
PTX1(ex2_f32, float, exp2f(a))
PTX1(lg2_f32, float, log2f(a))
PTX1(rcp_f32, float, 1.f / a)
PTX1(rsqrt_f32, float, rsqrtf(a))
PTX1(sqrt_f32, float, sqrtf(a))
PTX1(tanh_f32, float, tanhf(a))
PTX1(sin_f32, float, sinf(a))
PTX1(cos_f32, float, cosf(a))

/* ---- votes ---- */
#define VOTE(NAME, E) \
  template <class D> __device__ void fl_ptx_##NAME(D &d, bool p, unsigned m) { d = (D)E; }
VOTE(vote_sync_ballot_b32, __ballot_sync(m, p))
VOTE(vote_ballot_sync_b32, __ballot_sync(m, p))
VOTE(vote_sync_any_pred, __any_sync(m, p))
VOTE(vote_sync_all_pred, __all_sync(m, p))
__device__ void fl_ptx_trap() { __trap(); }

/* ---- bits ---- */
PTX2(and_b32, unsigned, a & b)
PTX2(or_b32, unsigned, a | b)
PTX2(xor_b32, unsigned, a ^ b)
PTX1(not_b32, unsigned, ~a)
PTX2(shl_b32, unsigned, b > 31u ? 0u : a << b)
PTX2(shr_u32, unsigned, b > 31u ? 0u : a >> b)
PTX2(shr_b32, unsigned, b > 31u ? 0u : a >> b)
PTX1(popc_b32, unsigned, __popc(a))
PTX1(clz_b32, unsigned, __clz((int)a))
PTX1(brev_b32, unsigned, __brev(a))
PTX1(bfind_u32, unsigned, 31 - __clz((int)a))
PTX3(prmt_b32, unsigned, __byte_perm(a, b, c))
PTX3(bfe_u32, unsigned, (unsigned)((unsigned long long)a >> min(b & 255u, 32u) &
                                   (1ull << min(c & 255u, 32u)) - 1ull))
template <class D> __device__ void fl_ptx_lop3_b32(D &d, unsigned a, unsigned b, unsigned c,
                                                   unsigned of) {
  unsigned r = 0u;
  for (unsigned k = 0u; k < 8u; ++k)
    if (of >> k & 1u) r |= (k & 4u ? a : ~a) & (k & 2u ? b : ~b) & (k & 1u ? c : ~c);
  d = (D)r;
}

/* ---- conversions; a NaN is 0 ---- */
__device__ int fl_sat(float x, float low, float high) {
  return isnan(x) ? 0 : (int)rintf(fminf(fmaxf(x, low), high));
}
__device__ int fl_sat(int x, int low, int high) { return min(max(x, low), high); }
PTX1(cvt_rni_sat_s8_f32, float, fl_sat(a, -128.f, 127.f))
PTX1(cvt_rni_sat_u8_f32, float, fl_sat(a, 0.f, 255.f))
PTX1(cvt_rni_s32_f32, float, __float2int_rn(a))
PTX1(cvt_rni_sat_s32_f32, float, __float2int_rn(a))
PTX1(cvt_rzi_s32_f32, float, __float2int_rz(a))
PTX1(cvt_rn_f32_s32, int, (float)a)
PTX1(cvt_rn_f32_u32, unsigned, (float)a)
#define PACK(NAME, LOW, HIGH) \
  template <class D> __device__ void fl_ptx_##NAME(D &d, int a, int b, unsigned c) { \
    d = (D)(c << 16 | ((unsigned)fl_sat(a, LOW, HIGH) & 255u) << 8 | \
            ((unsigned)fl_sat(b, LOW, HIGH) & 255u)); \
  }
PACK(cvt_pack_sat_s8_s32_b32, -128, 127)
PACK(cvt_pack_sat_u8_s32_b32, 0, 255)

/* ---- halves in words ---- */
__device__ float fl_wide(unsigned short x) { return (float)*(__half *)&x; }
__device__ unsigned fl_narrow(float x) {
  __half h = (__half)x;
  return *(unsigned short *)&h;
}
__device__ float fl_low(unsigned x) { return (float)*(__half *)&x; }
__device__ float fl_high(unsigned x) { return (float)((__half *)&x)[1]; }
__device__ unsigned fl_two(float low, float high) { return fl_narrow(low) | fl_narrow(high) << 16; }
PTX1(cvt_f32_f16, unsigned short, fl_wide(a))
PTX1(cvt_rn_f16_f32, float, fl_narrow(a))
PTX2(cvt_rn_f16x2_f32, float, fl_two(b, a))
PTX1(cvt_rni_sat_s8_f16, unsigned short, fl_sat(fl_wide(a), -128.f, 127.f))
PTX2(add_f16, unsigned short, fl_narrow(fl_wide(a) + fl_wide(b)))
PTX2(mul_f16, unsigned short, fl_narrow(fl_wide(a) * fl_wide(b)))
PTX2(add_f16x2, unsigned, fl_two(fl_low(a) + fl_low(b), fl_high(a) + fl_high(b)))
PTX2(sub_f16x2, unsigned, fl_two(fl_low(a) - fl_low(b), fl_high(a) - fl_high(b)))
PTX2(mul_f16x2, unsigned, fl_two(fl_low(a) * fl_low(b), fl_high(a) * fl_high(b)))
PTX3(fma_rn_f16x2, unsigned, fl_two(fmaf(fl_low(a), fl_low(b), fl_low(c)),
                                    fmaf(fl_high(a), fl_high(b), fl_high(c))))

/* ---- products of a warp: 16 x 8 sums of 16 terms, in the order of k ---- */
struct fl_f16 {
  __device__ static float low(unsigned x) { return fl_low(x); }
  __device__ static float high(unsigned x) { return fl_high(x); }
};
struct fl_bf16 {
  __device__ static float low(unsigned x) { return (float)*(__nv_bfloat16 *)&x; }
  __device__ static float high(unsigned x) { return (float)((__nv_bfloat16 *)&x)[1]; }
};
template <class H> __device__ void fl_mma(float &d0, float &d1, float &d2, float &d3, unsigned a0,
                                          unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                          unsigned b1, float c0, float c1, float c2, float c3) {
  const int l = (int)(fl_thread() & 31u);
  const float a[8] = {H::low(a0), H::high(a0), H::low(a2), H::high(a2),
                      H::low(a1), H::high(a1), H::low(a3), H::high(a3)},
              b[4] = {H::low(b0), H::high(b0), H::low(b1), H::high(b1)};
  for (int k = 0; k < 16; ++k) {
    const int row = (l & 28) + k % 8 / 2, column = l % 4 * 8 + k % 8 / 2, i = k / 8 * 2 + k % 2;
    const float p = __shfl_sync(~0u, a[i], row), q = __shfl_sync(~0u, a[i + 4], row),
                u = __shfl_sync(~0u, b[i], column), v = __shfl_sync(~0u, b[i], column + 4);
    c0 = fmaf(p, u, c0);
    c1 = fmaf(p, v, c1);
    c2 = fmaf(q, u, c2);
    c3 = fmaf(q, v, c3);
  }
  d0 = c0, d1 = c1, d2 = c2, d3 = c3;
}
#define MMA(NAME, H) \
  __device__ void NAME(float &d0, float &d1, float &d2, float &d3, unsigned a0, unsigned a1, \
                       unsigned a2, unsigned a3, unsigned b0, unsigned b1, float c0, float c1, \
                       float c2, float c3) { \
    fl_mma<H>(d0, d1, d2, d3, a0, a1, a2, a3, b0, b1, c0, c1, c2, c3); \
  }
MMA(fl_ptx_mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32, fl_f16)
MMA(fl_ptx_mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32, fl_bf16)

/* ---- matrices of 8 x 8 halves in shared memory: lane i has the address of row i % 8 of matrix
** i / 8, and gets two numbers of each, of row i / 4 or (trans) of column i / 4 ---- */
template <class D, class P> __device__ void fl_rows(D &d, P p, int m) {
  const int l = (int)(fl_thread() & 31u);
  if (l / 8 == m) ((const uint4 *)p)->x;
  d = (D)((const unsigned *)__shfl_sync(~0u, p, 8 * m + l / 4))[l % 4];
}
template <class D, class P> __device__ void fl_columns(D &d, P p, int m) {
  typedef const unsigned short *half;
  const int l = (int)(fl_thread() & 31u), row = 8 * m + l % 4 * 2;
  if (l / 8 == m) ((const uint4 *)p)->x;
  const half low = (half)__shfl_sync(~0u, p, row), high = (half)__shfl_sync(~0u, p, row + 1);
  d = (D)(low[l / 4] | (unsigned)high[l / 4] << 16);
}
#define LDMATRIX(T) template <class D, class P> __device__ void fl_ptx_##T
#define LDMATRIX1(NAME, GET) LDMATRIX(NAME)(D &a, P p) { GET(a, p, 0); }
#define LDMATRIX2(NAME, GET) LDMATRIX(NAME)(D &a, D &b, P p) { GET(a, p, 0), GET(b, p, 1); }
#define LDMATRIX4(NAME, GET) \
  LDMATRIX(NAME)(D &a, D &b, D &c, D &d, P p) { \
    GET(a, p, 0), GET(b, p, 1), GET(c, p, 2), GET(d, p, 3); \
  }
LDMATRIX1(ldmatrix_x1_shared, fl_rows)
LDMATRIX2(ldmatrix_x2_shared, fl_rows)
LDMATRIX4(ldmatrix_x4_shared, fl_rows)
LDMATRIX1(ldmatrix_x1_trans_shared, fl_columns)
LDMATRIX2(ldmatrix_x2_trans_shared, fl_columns)
LDMATRIX4(ldmatrix_x4_trans_shared, fl_columns)

/* ---- waits for copies from global to shared memory, which shared.c makes at once ---- */
__device__ void fl_ptx_cp_async_commit_group() {}
__device__ void fl_ptx_cp_async_wait_group(int) {}
__device__ void fl_ptx_cp_async_wait_all() {}

/* ---- the thread ---- */
PTX0(laneid, fl_thread() & 31u)
PTX0(lanemask_lt, (1u << (fl_thread() & 31u)) - 1u)
PTX0(lanemask_le, ~0u >> (31u - (fl_thread() & 31u)))
PTX0(lanemask_eq, 1u << (fl_thread() & 31u))
PTX0(lanemask_ge, ~0u << (fl_thread() & 31u))
PTX0(lanemask_gt, ~1u << (fl_thread() & 31u))
__device__ void fl_ptx_membar_gl() { __threadfence(); }
__device__ void fl_ptx_membar_cta() { __threadfence_block(); }
