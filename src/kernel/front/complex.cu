/*
** Complex numbers as <cuComplex.h> has them, and the names that <cufft.h> has for them (library.c).
*/
#define D __device__
#define FL_COMPLEX(T, C, f, MOST) \
  D T cuCreal##f(C x) { return x.x; } \
  D T cuCimag##f(C x) { return x.y; } \
  D C cuConj##f(C x) { return make_##C(x.x, -x.y); } \
  D C cuCadd##f(C x, C y) { return make_##C(x.x + y.x, x.y + y.y); } \
  D C cuCsub##f(C x, C y) { return make_##C(x.x - y.x, x.y - y.y); } \
  D C cuCmul##f(C x, C y) { return make_##C(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x); } \
  D C cuCfma##f(C x, C y, C d) { \
    const T r = x.x * y.x + d.x, i = x.x * y.y + d.y; \
    return make_##C(-(x.y * y.y) + r, x.y * y.x + i); \
  } \
  D C cuCdiv##f(C x, C y) { \
    const T k = 1 / (fabs(y.x) + fabs(y.y)); \
    const T a = x.x * k, b = x.y * k, c = y.x * k, d = y.y * k, s = 1 / (c * c + d * d); \
    return make_##C((a * c + b * d) * s, (b * c - a * d) * s); \
  } \
  D T cuCabs##f(C x) { \
    const T a = fabs(x.x), b = fabs(x.y), v = a > b ? a : b, w = a > b ? b : a, t = w / v; \
    return v == 0 || v > MOST || w > MOST ? v + w : v * sqrt(1 + t * t); \
  }
typedef float2 cuFloatComplex;
typedef float2 cuComplex;
typedef double2 cuDoubleComplex;
typedef float2 cufftComplex;
typedef double2 cufftDoubleComplex;
typedef float cufftReal;
typedef double cufftDoubleReal;
D float2 make_cuFloatComplex(float x, float y) { return make_float2(x, y); }
D float2 make_cuComplex(float x, float y) { return make_float2(x, y); }
D double2 make_cuDoubleComplex(double x, double y) { return make_double2(x, y); }
FL_COMPLEX(float, float2, f, 3.402823466e38f)
FL_COMPLEX(double, double2, , 1.79769313486231570e308)
D double2 cuComplexFloatToDouble(float2 x) { return make_double2(x.x, x.y); }
D float2 cuComplexDoubleToFloat(double2 x) { return make_float2((float)x.x, (float)x.y); }
