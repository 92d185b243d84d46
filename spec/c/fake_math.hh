/*
** CUDA's functions for bits, conversions, integers and floats, implemented with those of the C
** library and the compiler. Intrinsics such as __expf are as exact as expf here.
*/
#define FAKE_BITS(NAME, T, U) FAKE T NAME(U x) { T r; memcpy(&r, &x, sizeof r); return r; }
FAKE_BITS(__float_as_int, int, float) FAKE_BITS(__float_as_uint, unsigned, float)
FAKE_BITS(__int_as_float, float, int) FAKE_BITS(__uint_as_float, float, unsigned)
FAKE_BITS(__double_as_longlong, long long, double)
FAKE_BITS(__longlong_as_double, double, long long)
FAKE int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
FAKE int __double2loint(double x) { return (int)__double_as_longlong(x); }
FAKE double __hiloint2double(int high, int low) {
  return __longlong_as_double((long long)((fake_u64)(unsigned)high << 32 | (unsigned)low));
}

/* ---- integers ---- */
FAKE int __popc(unsigned x) { return __builtin_popcount(x); }
FAKE int __popcll(fake_u64 x) { return __builtin_popcountll(x); }
FAKE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
FAKE int __clzll(long long x) { return x ? __builtin_clzll((fake_u64)x) : 64; }
FAKE int __ffs(int x) { return __builtin_ffs(x); }
FAKE int __ffsll(long long x) { return __builtin_ffsll(x); }
FAKE unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i);
  return r;
}
FAKE fake_u64 __brevll(fake_u64 x) {
  return (fake_u64)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
FAKE int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
FAKE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((fake_u64)a * b >> 32); }
__extension__ typedef __int128 fake_i128;
__extension__ typedef unsigned __int128 fake_u128;
FAKE long long __mul64hi(long long a, long long b) { return (long long)((fake_i128)a * b >> 64); }
FAKE fake_u64 __umul64hi(fake_u64 a, fake_u64 b) { return (fake_u64)((fake_u128)a * b >> 64); }
FAKE int __mul24(int a, int b) { return (int)((long long)(a << 8 >> 8) * (b << 8 >> 8)); }
FAKE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
FAKE unsigned __sad(int a, int b, unsigned c) {
  return c + (a > b ? (unsigned)a - (unsigned)b : (unsigned)b - (unsigned)a);
}
FAKE unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }
FAKE int __dp4a(int a, int b, int c) {
  for (int k = 0; k < 4; k++) c += (signed char)(a >> 8 * k) * (signed char)(b >> 8 * k);
  return c;
}
FAKE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int k = 0; k < 4; k++) c += (a >> 8 * k & 255) * (b >> 8 * k & 255);
  return c;
}
FAKE unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  const fake_u64 all = (fake_u64)b << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned k = s >> 4 * i & 15, byte = (unsigned)(all >> 8 * (k & 7)) & 255;
    r |= (k < 8 ? byte : byte & 128 ? 255u : 0u) << 8 * i;
  }
  return r;
}
FAKE unsigned __funnelshift_l(unsigned a, unsigned b, unsigned n) {
  return (unsigned)((((fake_u64)b << 32 | a) << (n & 31)) >> 32);
}
FAKE unsigned __funnelshift_r(unsigned a, unsigned b, unsigned n) {
  return (unsigned)(((fake_u64)b << 32 | a) >> (n & 31));
}
#define FAKE_PAIR(T) \
  FAKE T min(T a, T b) { return b < a ? b : a; } \
  FAKE T max(T a, T b) { return a < b ? b : a; }
FAKE_PAIR(int) FAKE_PAIR(unsigned) FAKE_PAIR(long) FAKE_PAIR(unsigned long)
FAKE_PAIR(long long) FAKE_PAIR(unsigned long long)
#define FAKE_MIXED(T, A, B) \
  FAKE T min(A a, B b) { return min((T)a, (T)b); } \
  FAKE T max(A a, B b) { return max((T)a, (T)b); }
FAKE_MIXED(unsigned, int, unsigned) FAKE_MIXED(unsigned, unsigned, int)
FAKE_MIXED(long, int, long) FAKE_MIXED(long, long, int)
FAKE_MIXED(long long, int, long long) FAKE_MIXED(long long, long long, int)
FAKE_MIXED(long long, unsigned, long long) FAKE_MIXED(long long, long long, unsigned)
FAKE_MIXED(unsigned long, unsigned, unsigned long)
FAKE_MIXED(unsigned long, unsigned long, unsigned)
FAKE_MIXED(unsigned long, int, unsigned long) FAKE_MIXED(unsigned long, unsigned long, int)
FAKE_MIXED(fake_u64, long long, fake_u64) FAKE_MIXED(fake_u64, fake_u64, long long)
FAKE_MIXED(fake_u64, int, fake_u64) FAKE_MIXED(fake_u64, fake_u64, int)
FAKE_MIXED(fake_u64, unsigned, fake_u64) FAKE_MIXED(fake_u64, fake_u64, unsigned)
FAKE_MIXED(long long, long, long long) FAKE_MIXED(long long, long long, long)
FAKE unsigned umin(unsigned a, unsigned b) { return min(a, b); }
FAKE unsigned umax(unsigned a, unsigned b) { return max(a, b); }
FAKE long long llmin(long long a, long long b) { return min(a, b); }
FAKE long long llmax(long long a, long long b) { return max(a, b); }
FAKE fake_u64 ullmin(fake_u64 a, fake_u64 b) { return min(a, b); }
FAKE fake_u64 ullmax(fake_u64 a, fake_u64 b) { return max(a, b); }
extern "C" int abs(int); extern "C" long labs(long); extern "C" long long llabs(long long);
FAKE long abs(long x) { return x < 0 ? -x : x; }
FAKE long long abs(long long x) { return x < 0 ? -x : x; }

/* ---- functions of one, two and three floats, each as N(double), Nf(float) and N(float) ---- */
#define FAKE_F1(N) \
  extern "C" double N(double); extern "C" float N##f(float); \
  FAKE float N(float x) { return N##f(x); } \
  FAKE double N(int x) { return N((double)x); }
#define FAKE_F2(N) \
  extern "C" double N(double, double); extern "C" float N##f(float, float); \
  FAKE float N(float x, float y) { return N##f(x, y); } \
  FAKE double N(double x, float y) { return N(x, (double)y); } \
  FAKE double N(float x, double y) { return N((double)x, y); }
FAKE_F1(acos) FAKE_F1(acosh) FAKE_F1(asin) FAKE_F1(asinh) FAKE_F1(atan) FAKE_F1(atanh) FAKE_F1(cbrt)
FAKE_F1(ceil) FAKE_F1(cos) FAKE_F1(cosh) FAKE_F1(erf) FAKE_F1(erfc) FAKE_F1(exp) FAKE_F1(exp2)
FAKE_F1(exp10) FAKE_F1(expm1) FAKE_F1(fabs) FAKE_F1(floor) FAKE_F1(lgamma) FAKE_F1(log)
FAKE_F1(log10) FAKE_F1(log1p) FAKE_F1(log2) FAKE_F1(logb) FAKE_F1(nearbyint) FAKE_F1(rint)
FAKE_F1(round) FAKE_F1(sin) FAKE_F1(sinh) FAKE_F1(sqrt) FAKE_F1(tan) FAKE_F1(tanh) FAKE_F1(tgamma)
FAKE_F1(trunc) FAKE_F1(j0) FAKE_F1(j1) FAKE_F1(y0) FAKE_F1(y1)
FAKE_F2(atan2) FAKE_F2(copysign) FAKE_F2(fdim) FAKE_F2(fmax) FAKE_F2(fmin) FAKE_F2(fmod)
FAKE_F2(hypot) FAKE_F2(nextafter) FAKE_F2(pow) FAKE_F2(remainder)
FAKE float abs(float x) { return fabsf(x); }
FAKE double abs(double x) { return fabs(x); }
FAKE float pow(float x, int n) { return powf(x, (float)n); }
FAKE double pow(double x, int n) { return pow(x, (double)n); }
#define FAKE_LIBRARY(...) extern "C" __VA_ARGS__;
FAKE_LIBRARY(double fma(double, double, double)) FAKE_LIBRARY(float fmaf(float, float, float))
FAKE_LIBRARY(double ldexp(double, int)) FAKE_LIBRARY(float ldexpf(float, int))
FAKE_LIBRARY(double scalbn(double, int)) FAKE_LIBRARY(float scalbnf(float, int))
FAKE_LIBRARY(double frexp(double, int *)) FAKE_LIBRARY(float frexpf(float, int *))
FAKE_LIBRARY(double modf(double, double *)) FAKE_LIBRARY(float modff(float, float *))
FAKE_LIBRARY(int ilogb(double)) FAKE_LIBRARY(int ilogbf(float)) FAKE_LIBRARY(long lrint(double))
FAKE_LIBRARY(long lrintf(float)) FAKE_LIBRARY(long lround(double))
FAKE_LIBRARY(long lroundf(float)) FAKE_LIBRARY(long long llrint(double))
FAKE_LIBRARY(long long llrintf(float)) FAKE_LIBRARY(long long llround(double))
FAKE_LIBRARY(long long llroundf(float)) FAKE_LIBRARY(void sincos(double, double *, double *))
FAKE_LIBRARY(void sincosf(float, float *, float *))
FAKE_LIBRARY(double remquo(double, double, int *))
FAKE_LIBRARY(float remquof(float, float, int *)) FAKE_LIBRARY(double jn(int, double))
FAKE_LIBRARY(float jnf(int, float)) FAKE_LIBRARY(double nan(const char *))
FAKE_LIBRARY(float nanf(const char *))
FAKE float fma(float a, float b, float c) { return fmaf(a, b, c); }
FAKE float ldexp(float x, int n) { return ldexpf(x, n); }
FAKE float scalbn(float x, int n) { return scalbnf(x, n); }
FAKE float frexp(float x, int *e) { return frexpf(x, e); }
FAKE float modf(float x, float *w) { return modff(x, w); }
FAKE int ilogb(float x) { return ilogbf(x); }
FAKE long lrint(float x) { return lrintf(x); }
FAKE long lround(float x) { return lroundf(x); }
FAKE long long llrint(float x) { return llrintf(x); }
FAKE long long llround(float x) { return llroundf(x); }
FAKE float min(float a, float b) { return fminf(a, b); }
FAKE float max(float a, float b) { return fmaxf(a, b); }
FAKE_MIXED(float, float, int) FAKE_MIXED(float, int, float)
FAKE double min(double a, double b) { return fmin(a, b); }
FAKE double max(double a, double b) { return fmax(a, b); }
FAKE double min(float a, double b) { return fmin((double)a, b); }
FAKE double max(float a, double b) { return fmax((double)a, b); }
FAKE double min(double a, float b) { return fmin(a, (double)b); }
FAKE double max(double a, float b) { return fmax(a, (double)b); }
#define FAKE_TEST(N) \
  FAKE bool N(float x) { return __builtin_##N(x) != 0; } \
  FAKE bool N(double x) { return __builtin_##N(x) != 0; }
FAKE_TEST(isnan) FAKE_TEST(isinf) FAKE_TEST(isfinite) FAKE_TEST(signbit)
FAKE int __isnanf(float x) { return x != x; }
FAKE int __isnan(double x) { return x != x; }
FAKE int __isinff(float x) { return __builtin_isinf_sign(x); }
FAKE int __isinf(double x) { return __builtin_isinf_sign(x); }
#define FAKE_OURS(N, E) \
  FAKE double N(double x) { return E; } \
  FAKE float N##f(float y) { return (float)N((double)y); } \
  FAKE float N(float y) { return N##f(y); }
#define FAKE_PI 3.14159265358979323846
FAKE_OURS(rsqrt, 1 / sqrt(x)) FAKE_OURS(rcbrt, 1 / cbrt(x))
FAKE_OURS(sinpi, sin(FAKE_PI * remainder(x, 2.0)))
FAKE_OURS(cospi, cos(FAKE_PI * remainder(x, 2.0)))
FAKE_OURS(normcdf, 0.5 * erfc(x * -0.70710678118654752440)) FAKE_OURS(erfcx, exp(x * x) * erfc(x))
FAKE double fake_erfinv(double y) {
  double x = 0;
  if (!(fabs(y) < 1)) return fabs(y) == 1 ? y * __builtin_huge_val() : nan("");
  for (double low = -6, high = 6; x = (low + high) / 2, low < x && x < high;)
    if (erf(x) < y) low = x; else high = x;
  return x;
}
FAKE_OURS(erfinv, fake_erfinv(x)) FAKE_OURS(erfcinv, fake_erfinv(1 - x))
FAKE_OURS(normcdfinv, 1.41421356237309504880 * fake_erfinv(2 * x - 1))
FAKE float rhypotf(float x, float y) { return 1 / hypotf(x, y); }
FAKE double rhypot(double x, double y) { return 1 / hypot(x, y); }
FAKE double norm3d(double a, double b, double c) { return sqrt(a * a + b * b + c * c); }
FAKE float norm3df(float a, float b, float c) { return (float)norm3d(a, b, c); }
FAKE double rnorm3d(double a, double b, double c) { return 1 / norm3d(a, b, c); }
FAKE float rnorm3df(float a, float b, float c) { return (float)rnorm3d(a, b, c); }
FAKE double norm4d(double a, double b, double c, double d) { return hypot(norm3d(a, b, c), d); }
FAKE float norm4df(float a, float b, float c, float d) { return (float)norm4d(a, b, c, d); }
FAKE double rnorm4d(double a, double b, double c, double d) { return 1 / norm4d(a, b, c, d); }
FAKE float rnorm4df(float a, float b, float c, float d) { return (float)rnorm4d(a, b, c, d); }
FAKE void sincospi(double x, double *s, double *c) { *s = sinpi(x), *c = cospi(x); }
FAKE void sincospif(float x, float *s, float *c) { *s = sinpif(x), *c = cospif(x); }
FAKE void sincos(float x, float *s, float *c) { sincosf(x, s, c); }
FAKE float fdividef(float x, float y) { return x / y; }
FAKE float saturate(float x) { return x > 0 ? x < 1 ? x : 1 : 0; }

/* ---- with "__" ---- */
#define FAKE_FAST(N) FAKE float __##N##f(float x) { return N##f(x); }
FAKE_FAST(sin) FAKE_FAST(cos) FAKE_FAST(tan) FAKE_FAST(tanh) FAKE_FAST(exp) FAKE_FAST(exp10)
FAKE_FAST(log) FAKE_FAST(log2) FAKE_FAST(log10)
FAKE float __powf(float x, float y) { return powf(x, y); }
FAKE void __sincosf(float x, float *s, float *c) { sincosf(x, s, c); }
FAKE float __fdividef(float x, float y) { return x / y; }
FAKE float __saturatef(float x) { return saturate(x); }
FAKE float __frcp_rn(float x) { return 1 / x; }
FAKE float __frcp_rz(float x) {
  const double exact = 1 / (double)x;
  const float near = (float)exact;
  return fabs((double)near) > fabs(exact) ? nextafterf(near, 0) : near;
}
FAKE double __drcp_rn(double x) { return 1 / x; }
FAKE float __fsqrt_rn(float x) { return sqrtf(x); }
FAKE double __dsqrt_rn(double x) { return sqrt(x); }
FAKE float __frsqrt_rn(float x) { return (float)(1 / sqrt((double)x)); }
FAKE float __fadd_rn(float a, float b) { return a + b; }
FAKE float __fsub_rn(float a, float b) { return a - b; }
FAKE float __fmul_rn(float a, float b) { return a * b; }
FAKE float __fdiv_rn(float a, float b) { return a / b; }
FAKE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
FAKE double __dadd_rn(double a, double b) { return a + b; }
FAKE double __dsub_rn(double a, double b) { return a - b; }
FAKE double __dmul_rn(double a, double b) { return a * b; }
FAKE double __ddiv_rn(double a, double b) { return a / b; }
FAKE double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
/* Conversions to integers saturate. NaN becomes 0, in 64 bits the integer of which only the top bit
** is set. */
#define FAKE_CONVERT(NAME, T, U, OF, LOW, HIGH, NAN_IS) \
  FAKE T NAME(U x) { \
    const U y = OF(x); \
    return y != y ? NAN_IS : y <= LOW ? (T)LOW : y >= HIGH ? (T)~((T)LOW) : (T)y; \
  }
#define FAKE_TO(FROM, U, MODE, OF) \
  FAKE_CONVERT(__##FROM##2int_##MODE, int, U, OF, -2147483648.0, 2147483648.0, 0) \
  FAKE_CONVERT(__##FROM##2uint_##MODE, unsigned, U, OF, 0.0, 4294967296.0, 0u) \
  FAKE_CONVERT(__##FROM##2ll_##MODE, long long, U, OF, -9223372036854775808.0, \
               9223372036854775808.0, (long long)(1ull << 63)) \
  FAKE_CONVERT(__##FROM##2ull_##MODE, fake_u64, U, OF, 0.0, 18446744073709551616.0, 1ull << 63)
FAKE_TO(float, float, rn, rintf) FAKE_TO(float, float, rz, truncf)
FAKE_TO(float, float, rd, floorf) FAKE_TO(float, float, ru, ceilf)
FAKE_TO(double, double, rn, rint) FAKE_TO(double, double, rz, trunc)
FAKE_TO(double, double, rd, floor) FAKE_TO(double, double, ru, ceil)
FAKE float __double2float_rn(double x) { return (float)x; }
FAKE float __int2float_rn(int x) { return (float)x; }
FAKE float __uint2float_rn(unsigned x) { return (float)x; }
FAKE float __ll2float_rn(long long x) { return (float)x; }
FAKE double __int2double_rn(int x) { return x; }
FAKE double __uint2double_rn(unsigned x) { return x; }
FAKE double __ll2double_rn(long long x) { return (double)x; }
