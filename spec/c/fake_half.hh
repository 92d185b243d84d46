/*
** The types __half and __nv_bfloat16, and conversions by integer arithmetic: to the nearest value,
** ties to even, with the GPU's NaN. Operations on halves are computed in f64, where the sum and the
** product of two halves are exact, and rounded once. <cuda_fp16.h> and <cuda_bf16.h> are empty.
*/
FAKE fake_u16 fake_f16(float x) {
  const fake_u32 b = __float_as_uint(x), a = b & 0x7fffffff;
  const fake_u16 sign = (fake_u16)(b >> 16 & 0x8000);
  if (a > 0x7f800000) return 0x7fff;
  if (a >= 0x477ff000) return (fake_u16)(sign | 0x7c00);       /* 65520 and more */
  const int e = (int)(a >> 23) - 127;
  if (e < -25) return sign;
  /* number of the 24 bits that are dropped */
  const int drop = e < -14 ? -1 - e : 13;
  const fake_u32 m = (a & 0x7fffff) | 0x800000, mid = 1u << (drop - 1);
  fake_u32 kept = m >> drop;
  const fake_u32 rest = m & ((1u << drop) - 1);
  kept += rest > mid || (rest == mid && kept & 1);
  return (fake_u16)(sign | (e < -14 ? kept : kept - 0x400 + ((fake_u32)(e + 15) << 10)));
}
FAKE float fake_of_f16(fake_u16 h) {
  const fake_u32 e = h >> 10 & 31, m = h & 0x3ff, sign = (fake_u32)(h & 0x8000) << 16;
  if (e == 31) return __uint_as_float(m ? 0x7fffffff : sign | 0x7f800000);
  const float x = (float)(e ? m | 0x400 : m) * __uint_as_float(((e ? e : 1) + 102) << 23);
  return __uint_as_float(__float_as_uint(x) | sign);
}
FAKE fake_u16 fake_bf16(float x) {
  const fake_u32 b = __float_as_uint(x);
  if ((b & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return (fake_u16)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
FAKE float fake_of_bf16(fake_u16 h) { return __uint_as_float((fake_u32)h << 16); }
/* x rounded to odd: if no float equals x, the float next to it whose last bit is 1. Rounding it
** again to a half then gives the same as rounding x itself. */
FAKE float fake_odd(double x) {
  const float f = (float)x;
  if ((double)f == x || f != f || __builtin_isinf(f)) return f;
  fake_u32 b = __float_as_uint(f);
  if (((double)f > x) == (x > 0)) b--;
  return __uint_as_float(b | 1);
}

#define FAKE_HALF(H, RAW, INTO, OUT) \
  struct RAW { fake_u16 x; }; \
  struct alignas(2) H { \
    fake_u16 b; \
    H() = default; \
    H(const RAW &r) : b(r.x) {} \
    H(float x) : b(INTO(x)) {} \
    H(double x) : b(INTO(fake_odd(x))) {} \
    H(int x) : b(INTO(fake_odd(x))) {} \
    H(unsigned x) : b(INTO(fake_odd(x))) {} \
    H(short x) : b(INTO((float)x)) {} \
    H(unsigned short x) : b(INTO((float)x)) {} \
    H(long x) : b(INTO(fake_odd((double)x))) {} \
    H(long long x) : b(INTO(fake_odd((double)x))) {} \
    H(unsigned long long x) : b(INTO(fake_odd((double)x))) {} \
    operator float() const { return OUT(b); } \
    H &operator=(float x) { b = INTO(x); return *this; } \
    H &operator=(double x) { b = INTO(fake_odd(x)); return *this; } \
  }; \
  FAKE double fake_wide(H x) { return (double)OUT(x.b); } \
  FAKE H operator+(H x, H y) { return H(fake_wide(x) + fake_wide(y)); } \
  FAKE H operator-(H x, H y) { return H(fake_wide(x) - fake_wide(y)); } \
  FAKE H operator*(H x, H y) { return H(fake_wide(x) * fake_wide(y)); } \
  FAKE H operator/(H x, H y) { return H(fake_wide(x) / fake_wide(y)); } \
  FAKE H operator+(H x) { return x; } \
  FAKE H operator-(H x) { x.b ^= 0x8000; return x; } \
  FAKE H &operator+=(H &x, H y) { return x = x + y; } \
  FAKE H &operator-=(H &x, H y) { return x = x - y; } \
  FAKE H &operator*=(H &x, H y) { return x = x * y; } \
  FAKE H &operator/=(H &x, H y) { return x = x / y; } \
  FAKE H &operator++(H &x) { return x = x + H(1.f); } \
  FAKE H &operator--(H &x) { return x = x - H(1.f); } \
  FAKE bool operator==(H x, H y) { return fake_wide(x) == fake_wide(y); } \
  FAKE bool operator!=(H x, H y) { return fake_wide(x) != fake_wide(y); } \
  FAKE bool operator<(H x, H y) { return fake_wide(x) < fake_wide(y); } \
  FAKE bool operator>(H x, H y) { return fake_wide(x) > fake_wide(y); } \
  FAKE bool operator<=(H x, H y) { return fake_wide(x) <= fake_wide(y); } \
  FAKE bool operator>=(H x, H y) { return fake_wide(x) >= fake_wide(y); } \
  FAKE H __hadd(H x, H y) { return x + y; } \
  FAKE H __hsub(H x, H y) { return x - y; } \
  FAKE H __hmul(H x, H y) { return x * y; } \
  FAKE H __hdiv(H x, H y) { return x / y; } \
  FAKE H __hadd_rn(H x, H y) { return x + y; } \
  FAKE H __hsub_rn(H x, H y) { return x - y; } \
  FAKE H __hmul_rn(H x, H y) { return x * y; } \
  FAKE H __hfma(H x, H y, H z) { return H(fake_wide(x) * fake_wide(y) + fake_wide(z)); } \
  FAKE H __hneg(H x) { return -x; } \
  FAKE H __habs(H x) { x.b &= 0x7fff; return x; } \
  FAKE H __hmin(H x, H y) { return H(__builtin_fminf(OUT(x.b), OUT(y.b))); } \
  FAKE H __hmax(H x, H y) { return H(__builtin_fmaxf(OUT(x.b), OUT(y.b))); } \
  FAKE bool __heq(H x, H y) { return x == y; } \
  FAKE bool __hne(H x, H y) { return x != y; } \
  FAKE bool __hlt(H x, H y) { return x < y; } \
  FAKE bool __hle(H x, H y) { return x <= y; } \
  FAKE bool __hgt(H x, H y) { return x > y; } \
  FAKE bool __hge(H x, H y) { return x >= y; } \
  FAKE bool __hisnan(H x) { return (float)x != (float)x; } \
  FAKE int __hisinf(H x) { return __builtin_isinf_sign((float)x); } \
  FAKE H hexp(H x) { return H(::exp(fake_wide(x))); } \
  FAKE H hexp2(H x) { return H(::exp2(fake_wide(x))); } \
  FAKE H hexp10(H x) { return H(::exp10(fake_wide(x))); } \
  FAKE H hlog(H x) { return H(::log(fake_wide(x))); } \
  FAKE H hlog2(H x) { return H(::log2(fake_wide(x))); } \
  FAKE H hlog10(H x) { return H(::log10(fake_wide(x))); } \
  FAKE H hsqrt(H x) { return H(::sqrt(fake_wide(x))); } \
  FAKE H hrsqrt(H x) { return H(1 / ::sqrt(fake_wide(x))); } \
  FAKE H hrcp(H x) { return H(1 / fake_wide(x)); } \
  FAKE H hsin(H x) { return H(::sin(fake_wide(x))); } \
  FAKE H hcos(H x) { return H(::cos(fake_wide(x))); } \
  FAKE H hfloor(H x) { return H(::floor(fake_wide(x))); } \
  FAKE H hceil(H x) { return H(::ceil(fake_wide(x))); } \
  FAKE H htrunc(H x) { return H(::trunc(fake_wide(x))); } \
  FAKE H hrint(H x) { return H(::rint(fake_wide(x))); } \
  FAKE H htanh(H x) { return H(::tanh(fake_wide(x))); }
FAKE_HALF(__half, __half_raw, fake_f16, fake_of_f16)
FAKE_HALF(__nv_bfloat16, __nv_bfloat16_raw, fake_bf16, fake_of_bf16)
typedef __half half;
typedef __nv_bfloat16 nv_bfloat16;
FAKE __half __float2half(float x) { return __half(x); }
FAKE __half __float2half_rn(float x) { return __half(x); }
FAKE __half __double2half(double x) { return __half(x); }
FAKE __half __int2half_rn(int x) { return __half(x); }
FAKE float __half2float(__half x) { return (float)x; }
FAKE int __half2int_rz(__half x) { return (int)(float)x; }
FAKE short __half2short_rz(__half x) { return (short)(float)x; }
FAKE __half __ushort_as_half(unsigned short x) { __half h; h.b = x; return h; }
FAKE __half __short_as_half(short x) { __half h; h.b = (fake_u16)x; return h; }
FAKE unsigned short __half_as_ushort(__half x) { return x.b; }
FAKE short __half_as_short(__half x) { return (short)x.b; }
FAKE __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
FAKE __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
FAKE __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
FAKE float __bfloat162float(__nv_bfloat16 x) { return (float)x; }
FAKE __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { __nv_bfloat16 h; h.b = x; return h; }
FAKE unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.b; }

#define FAKE_EACH(NAME, ONE) \
  FAKE FAKE_P NAME(FAKE_P a) { return FAKE_P{ ONE(a.x), ONE(a.y) }; }
#define FAKE_EACH2(NAME, ONE) \
  FAKE FAKE_P NAME(FAKE_P a, FAKE_P b) { return FAKE_P{ ONE(a.x, b.x), ONE(a.y, b.y) }; }
#define FAKE_PAIRS(H) \
  struct alignas(4) FAKE_P { H x, y; }; \
  FAKE_EACH2(__hadd2, __hadd) FAKE_EACH2(__hsub2, __hsub) FAKE_EACH2(__hmul2, __hmul) \
  FAKE_EACH2(__h2div, __hdiv) FAKE_EACH2(operator+, __hadd) FAKE_EACH2(operator-, __hsub) \
  FAKE_EACH2(operator*, __hmul) FAKE_EACH2(operator/, __hdiv) FAKE_EACH2(__hmin2, __hmin) \
  FAKE_EACH2(__hmax2, __hmax) FAKE_EACH(__hneg2, __hneg) FAKE_EACH(__habs2, __habs) \
  FAKE_EACH(h2exp, hexp) FAKE_EACH(h2exp2, hexp2) FAKE_EACH(h2log, hlog) \
  FAKE_EACH(h2sqrt, hsqrt) FAKE_EACH(h2rsqrt, hrsqrt) FAKE_EACH(h2rcp, hrcp) \
  FAKE_EACH(h2sin, hsin) FAKE_EACH(h2cos, hcos) \
  FAKE FAKE_P __hfma2(FAKE_P a, FAKE_P b, FAKE_P c) { \
    return FAKE_P{ __hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y) }; \
  } \
  FAKE FAKE_P __low2half2(FAKE_P a) { return FAKE_P{ a.x, a.x }; } \
  FAKE FAKE_P __high2half2(FAKE_P a) { return FAKE_P{ a.y, a.y }; } \
  FAKE FAKE_P __lowhigh2highlow(FAKE_P a) { return FAKE_P{ a.y, a.x }; } \
  FAKE float __low2float(FAKE_P a) { return (float)a.x; } \
  FAKE float __high2float(FAKE_P a) { return (float)a.y; } \
  FAKE FAKE_P atomicAdd(FAKE_P *p, FAKE_P v) { \
    const FAKE_P old = *p; \
    *p = FAKE_P{ old.x + v.x, old.y + v.y }; \
    return old; \
  }
#define FAKE_P __half2
FAKE_PAIRS(__half)
FAKE __half2 __halves2half2(__half a, __half b) { return __half2{ a, b }; }
FAKE __half2 make_half2(__half a, __half b) { return __half2{ a, b }; }
FAKE __half2 __lows2half2(__half2 a, __half2 b) { return __half2{ a.x, b.x }; }
FAKE __half2 __highs2half2(__half2 a, __half2 b) { return __half2{ a.y, b.y }; }
FAKE __half2 __half2half2(__half a) { return __half2{ a, a }; }
FAKE __half2 __float2half2_rn(float a) { return __half2{ a, a }; }
FAKE __half2 __floats2half2_rn(float a, float b) { return __half2{ a, b }; }
FAKE __half2 __float22half2_rn(float2 a) { return __half2{ a.x, a.y }; }
FAKE float2 __half22float2(__half2 a) { return float2{ (float)a.x, (float)a.y }; }
FAKE __half __low2half(__half2 a) { return a.x; }
FAKE __half __high2half(__half2 a) { return a.y; }
typedef __half2 half2;
#undef FAKE_P
#define FAKE_P __nv_bfloat162
FAKE_PAIRS(__nv_bfloat16)
FAKE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __nv_bfloat162{ a, b };
}
FAKE __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __nv_bfloat162{ a.x, b.x };
}
FAKE __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) {
  return __nv_bfloat162{ a.y, b.y };
}
FAKE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return __nv_bfloat162{ a, a }; }
FAKE __nv_bfloat162 __float2bfloat162_rn(float a) { return __nv_bfloat162{ a, a }; }
FAKE __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return __nv_bfloat162{ a, b }; }
FAKE __nv_bfloat162 __float22bfloat162_rn(float2 a) { return __nv_bfloat162{ a.x, a.y }; }
FAKE float2 __bfloat1622float2(__nv_bfloat162 a) { return float2{ (float)a.x, (float)a.y }; }
FAKE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
FAKE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
typedef __nv_bfloat162 nv_bfloat162;
#undef FAKE_P
