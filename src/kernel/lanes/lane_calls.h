/*
** The functions of builtins.def over lanes of type T, named by the suffix S; lane_ops.h includes
** this once for f32 and once for f64.
*/
#define FLOAT1(id, name32, name64, value, d0) UNARY(JOIN(call_##id, S), T, T, value)
#define FLOAT2(id, name32, name64, value, d0, d1) BOTH(JOIN(call_##id, S), T, T, value)
#define FLOAT3(id, name32, name64, value, d0, d1, d2) \
  static void JOIN(call_##id, S)(ARGS) { \
    (void)uni; \
    T *out = y_; const T *a = a_, *b = b_, *c = c_; \
    EACH { const T x = a[i], y = b[i], z = c[i]; out[i] = (T)(value); } \
  }
#define FLOATI(id, name32, name64, value, d0) \
  static void JOIN(call_##id, S)(ARGS) { \
    (void)c_; (void)uni; \
    T *out = y_; const T *a = a_; const int32_t *b = b_; \
    for (int64_t i = 0; i < n; i++) { \
      const T x = a[i]; \
      const int n = b[i]; \
      out[i] = (T)(value); \
    } \
  }
#define TEST1(id, name32, name64, value) UNARY(JOIN(call_##id, S), T, int32_t, value)
#include "kernel/tree/builtins.def"
