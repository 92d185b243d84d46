/*
** Asm statements of CUDA texts: fake_rewrite.c writes asm("t" : outs : ins) as
** fake_ptx<fake_form("t")>::run("t", outs, ins). fake_form is the position of the instruction's
** text in the list fake_forms. An asm statement that is not in the list makes the launch fail with
** a message that quotes it.
*/
constexpr bool fake_is(const char *a, const char *b) {
  for (; *a == ' ' || *a == '\n' || *a == '\t'; a++) {}
  for (; *b && *a == *b; a++, b++) {}
  for (; *a == ' ' || *a == '\n' || *a == '\t'; a++) {}
  return !*a && !*b;
}
template <int F> struct fake_ptx {
  template <class... A> static void run(const char *t, A &&...) {
    fake_m->fail("the fake GPU does not know this asm:", t);
  }
};
static constexpr const char *fake_forms[] = {
  "cvt.rn.f16.f32 %0, %1;", "cvt.f32.f16 %0, %1;", "cvt.rn.bf16.f32 %0, %1;",
  "cvt.rn.bf16x2.f32 %0, %1, %2;", "cvt.rn.f16x2.f32 %0, %1, %2;", "max.NaN.f32 %0, %1, %2;",
  "min.NaN.f32 %0, %1, %2;", "exit;", "ex2.approx.ftz.f32 %0, %1;",
  "cp.async.ca.shared.global [%0], [%1], 4, %2;", "cp.async.cg.shared.global [%0], [%1], 16, %2;",
  "cp.async.commit_group;", "cp.async.wait_group %0;", "cp.async.wait_all;",
  "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];",
  "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];",
  "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
    "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};",
  "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
    "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};",
  "rcp.approx.ftz.f32 %0, %1;",
  /* of users */
  "trap;", "tanh.approx.f32 %0, %1;", "rsqrt.approx.f32 %0, %1;",
  "fma.rn.f32 %0, %1, %2, 0f3F000000;", "lop3.b32 %0, %1, %2, %3, 0xca;",
  "mov.u32 %0, %%laneid;", "st.global.cs.f32 [%0], %1;", "ld.global.cs.f32 %0, [%1+4];",
  "st.global.wb.v2.u32 [%0], {%1, %2};", "ld.global.ca.v2.u32 {%0, %1}, [%2];",
  "cvt.rni.sat.s8.f32 %0, %1;", "cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;",
  "{ .reg .u32 t; bfind.u32 t, %1; add.u32 %0, t, 1; }",
  "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %3, 0;\n\tmov.b32 %0, 0;\n\tmov.b32 %1, 0;\n"
    "\t@p ld.global.cg.v2.u32 {%0, %1}, [%2];\n}",
  "cp.async.ca.shared.global [%0], [%1], 8, %2;",
  "max.NaN.bf16x2 %0, %1, %2;", "min.NaN.bf16x2 %0, %1, %2;", "max.NaN.f16x2 %0, %1, %2;",
  "min.NaN.f16x2 %0, %1, %2;", "cp.async.bulk.prefetch.L2.global [%0], %1;",
};
constexpr int fake_form(const char *t) {
  for (int i = 0; i < (int)(sizeof fake_forms / sizeof *fake_forms); i++)
    if (fake_is(t, fake_forms[i])) return i;
  return -1;
}
#define FAKE_FORM(I, ...) \
  template <> struct fake_ptx<I> { static void run(const char *, ##__VA_ARGS__)
FAKE_FORM(0, fake_u16 &h, float x) { h = fake_f16(x); } };
FAKE_FORM(1, float &x, fake_u16 h) { x = fake_of_f16(h); } };
FAKE_FORM(2, fake_u16 &h, float x) { h = fake_bf16(x); } };
FAKE_FORM(3, fake_u32 &r, float high, float low) {
  r = (fake_u32)fake_bf16(high) << 16 | fake_bf16(low);
} };
FAKE_FORM(4, fake_u32 &r, float high, float low) {
  r = (fake_u32)fake_f16(high) << 16 | fake_f16(low);
} };
/* NaN wins, as 0x7fffffff; -0 is below +0. */
FAKE float fake_extreme(float a, float b, int most) {
  if (a != a || b != b) return __int_as_float(0x7fffffff);
  if (a == b) return __int_as_float(most ? __float_as_int(a) & __float_as_int(b)
                                         : __float_as_int(a) | __float_as_int(b));
  return (a > b) == (most != 0) ? a : b;
}
FAKE_FORM(5, float &r, float a, float b) { r = fake_extreme(a, b, 1); } };
FAKE_FORM(6, float &r, float a, float b) { r = fake_extreme(a, b, 0); } };
FAKE_FORM(7) { fake_m->leave(); } };
/* fake_extreme for both halves of two words; B: they are bf16, else f16. */
template <int B> FAKE fake_u32 fake_pairs(fake_u32 a, fake_u32 b, int most) {
  fake_u32 r = 0;
  for (int i = 0; i < 32; i += 16) {
    const fake_u16 x = (fake_u16)(a >> i), y = (fake_u16)(b >> i);
    const float z = B ? fake_extreme(fake_of_bf16(x), fake_of_bf16(y), most)
                      : fake_extreme(fake_of_f16(x), fake_of_f16(y), most);
    r |= (fake_u32)(z != z ? 0x7fff : B ? fake_bf16(z) : fake_f16(z)) << i;
  }
  return r;
}
FAKE_FORM(34, fake_u32 &r, fake_u32 a, fake_u32 b) { r = fake_pairs<1>(a, b, 1); } };
FAKE_FORM(35, fake_u32 &r, fake_u32 a, fake_u32 b) { r = fake_pairs<1>(a, b, 0); } };
FAKE_FORM(36, fake_u32 &r, fake_u32 a, fake_u32 b) { r = fake_pairs<0>(a, b, 1); } };
FAKE_FORM(37, fake_u32 &r, fake_u32 a, fake_u32 b) { r = fake_pairs<0>(a, b, 0); } };
/* Only asks the cache; but all of it must be there. */
FAKE_FORM(38, const void *p, int bytes) {
  if ((size_t)p % 16 || bytes % 16) fake_m->fail("a prefetch must be aligned to 16 bytes", "");
  (void)*(const volatile char *)p;
  (void)((const volatile char *)p)[bytes - 1];
} };
/* fake_flush: x, or zero if x is subnormal. fake_about: the result of an approximate instruction
** (.approx.ftz): x, flushed, with an error of -1, 0 or 1 in the last place, which depends on x. */
FAKE float fake_flush(float x) { return fabsf(x) < 1.17549435e-38f ? copysignf(0, x) : x; }
FAKE float fake_about(float x) {
  const float y = fake_flush(x);
  const unsigned turn = __float_as_uint(y) * 2654435761u;
  return !isfinite(y) || y == 0 ? y
         : fake_flush(__uint_as_float(__float_as_uint(y) + (turn >> 16) % 3 - 1));
}
FAKE_FORM(8, float &r, float x) { r = fake_about(exp2f(x)); } };
FAKE void fake_copy(fake_u32 to, const void *from, int n, int given) {
  char *p = (char *)fake_at_shared(to);
  if ((size_t)p % (size_t)n || (given && (size_t)from % (size_t)n))
    fake_m->fail("cp.async of an address that is not aligned", "");
  if (given < 0 || given > n) fake_m->fail("cp.async of more bytes than it has", "");
  memcpy(p, from, (size_t)given);
  memset(p + given, 0, (size_t)(n - given));
}
FAKE_FORM(18, float &r, float x) { r = fake_about(1 / fake_flush(x)); } };
FAKE_FORM(9, fake_u32 to, const void *from, int n) { fake_copy(to, from, 4, n); } };
FAKE_FORM(10, fake_u32 to, const void *from, int n) { fake_copy(to, from, 16, n); } };
FAKE_FORM(33, fake_u32 to, const void *from, int n) { fake_copy(to, from, 8, n); } };
FAKE_FORM(11) {} };
FAKE_FORM(12, int) {} };
FAKE_FORM(13) {} };

/* ldmatrix.x4: loads four matrices of 8 x 8 halves. Lane i has the address of row i % 8 of matrix
** i / 8. Of each matrix lane j gets the halves 2 (j % 4) and 2 (j % 4) + 1 of row j / 4, or of
** column j / 4 for .trans (T = 1). */
template <int T> FAKE void fake_gather(const fake_lanes *l, void *p) {
  fake_u32 *r = (fake_u32 *)p;
  const unsigned row = l->lane / 4, col = l->lane % 4 * 2;
  for (unsigned m = 0; m < 4; m++) {
    fake_u16 two[2];
    for (unsigned k = 0; k < 2; k++) {
      const unsigned i = T ? col + k : row, j = T ? row : col + k;
      const fake_u16 *from;
      memcpy(&from, l->value[m * 8 + i], sizeof from);
      two[k] = from[j];
    }
    r[m] = two[0] | (fake_u32)two[1] << 16;
  }
}
template <int T>
FAKE void fake_ldmatrix(fake_u32 &a, fake_u32 &b, fake_u32 &c, fake_u32 &d, fake_u32 at) {
  const void *p = fake_at_shared(at);
  fake_u32 r[4];
  if ((size_t)p % 16) fake_m->fail("ldmatrix of an address that is not aligned", "");
  fake_m->warp(FAKE_MMA, ~0u, &p, sizeof p, fake_gather<T>, r);
  a = r[0], b = r[1], c = r[2], d = r[3];
}
#define FAKE_FOUR(T) T &a, T &b, T &c, T &d
FAKE_FORM(14, FAKE_FOUR(fake_u32), fake_u32 at) { fake_ldmatrix<0>(a, b, c, d, at); } };
FAKE_FORM(15, FAKE_FOUR(fake_u32), fake_u32 at) { fake_ldmatrix<1>(a, b, c, d, at); } };

/* mma.m16n8k16: d += a b of 16 x 16 and 16 x 8 halves. Lane 4 g + t has these elements: of a rows
** g and g + 8, columns 2 t, 2 t + 1, 2 t + 8, 2 t + 9; of b rows 2 t, 2 t + 1, 2 t + 8, 2 t + 9,
** column g; of d rows g and g + 8, columns 2 t and 2 t + 1. */
struct fake_fragment { fake_u32 a[4], b[2]; };
template <int B> FAKE float fake_half_at(fake_u32 w, unsigned k) {
  const fake_u16 h = (fake_u16)(w >> 16 * k);
  return B ? fake_of_bf16(h) : fake_of_f16(h);
}
template <int B> FAKE void fake_product(const fake_lanes *l, void *p) {
  float *d = (float *)p;
  for (unsigned q = 0; q < 4; q++) {
    const unsigned row = l->lane / 4 + q / 2 * 8, col = l->lane % 4 * 2 + q % 2;
    double sum = d[q];
    for (unsigned k = 0; k < 16; k++) {
      fake_fragment x, y;
      memcpy(&x, l->value[row % 8 * 4 + k % 8 / 2], sizeof x);
      memcpy(&y, l->value[col * 4 + k % 8 / 2], sizeof y);
      sum += (double)fake_half_at<B>(x.a[k / 8 * 2 + row / 8], k % 2) *
             fake_half_at<B>(y.b[k / 8], k % 2);
    }
    d[q] = (float)sum;
  }
}
template <int B, class A> FAKE void fake_mma(FAKE_FOUR(float), A e, A f, A g, A h, A i, A j) {
  const fake_fragment x = { { e, f, g, h }, { i, j } };
  float r[4] = { a, b, c, d };
  fake_m->warp(FAKE_MMA, ~0u, &x, sizeof x, fake_product<B>, r);
  a = r[0], b = r[1], c = r[2], d = r[3];
}
#define FAKE_SIX fake_u32 e, fake_u32 f, fake_u32 g, fake_u32 h, fake_u32 i, fake_u32 j
FAKE_FORM(16, FAKE_FOUR(float), FAKE_SIX) { fake_mma<0>(a, b, c, d, e, f, g, h, i, j); } };
FAKE_FORM(17, FAKE_FOUR(float), FAKE_SIX) { fake_mma<1>(a, b, c, d, e, f, g, h, i, j); } };

FAKE_FORM(19) { fake_m->fail("trap;", ""); } };
FAKE_FORM(20, float &r, float x) { r = fake_about(tanhf(x)); } };
FAKE_FORM(21, float &r, float x) { r = fake_about(1 / sqrtf(x)); } };
FAKE_FORM(22, float &r, float x, float y) { r = fmaf(x, y, 0.5f); } };
#define FAKE_ANY(I) \
  template <> struct fake_ptx<I> { template <class D> static void run(const char *, D &d
FAKE_ANY(23), fake_u32 a, fake_u32 b, fake_u32 c) { d = (D)((a & b) | (~a & c)); } };
FAKE_ANY(24)) { d = (D)(fake_m->linear & 31); } };
FAKE_FORM(25, void *p, float x) { *(float *)p = x; } };
FAKE_FORM(26, float &x, const void *p) { x = ((const float *)p)[1]; } };
FAKE_FORM(27, void *p, fake_u32 a, fake_u32 b) { *(uint2 *)p = uint2{ a, b }; } };
FAKE_ANY(28), D &b, const void *p) {
  d = (D)((const fake_u32 *)p)[0], b = (D)((const fake_u32 *)p)[1];
} };
FAKE_ANY(29), float x) { d = (D)(x != x ? 0 : (int)rintf(fminf(fmaxf(x, -128), 127))); } };
FAKE_ANY(30), int a, int b, fake_u32 c) {
  d = (D)(c << 16 | ((fake_u32)min(max(a, -128), 127) & 255) << 8 |
          ((fake_u32)min(max(b, -128), 127) & 255));
} };
FAKE_ANY(31), fake_u32 a) { d = (D)(a ? 32 - __clz((int)a) : 0); } };
FAKE_ANY(32), D &b, const void *p, int there) {
  d = (D)(there ? ((const fake_u32 *)p)[0] : 0), b = (D)(there ? ((const fake_u32 *)p)[1] : 0);
} };
