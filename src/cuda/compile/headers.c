/* Headers for user kernels (headers.h). */
#include "cuda/compile/headers.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char fl_header_text[] =
  "#ifndef FL_USER_HEADER\n#define FL_USER_HEADER\n"
  "typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; "
  "typedef unsigned short uint16_t;\n"
  "typedef int int32_t; typedef unsigned int uint32_t; typedef long int64_t; "
  "typedef unsigned long uint64_t;\n"
  "typedef int64_t intptr_t; typedef uint64_t uintptr_t;\n"
  "#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n"
  "#define NAN __int_as_float(0x7fffffff)\n"
  "#define HUGE_VALF INFINITY\n#define HUGE_VAL __longlong_as_double(0x7ff0000000000000ll)\n"
  "#endif\n"
  "#ifndef M_PI\n#define M_E 2.7182818284590452354\n#define M_LOG2E 1.4426950408889634074\n"
  "#define M_LOG10E 0.43429448190325182765\n#define M_LN2 0.69314718055994530942\n"
  "#define M_LN10 2.30258509299404568402\n"
  "#define M_PI 3.14159265358979323846\n#define M_PI_2 1.57079632679489661923\n"
  "#define M_PI_4 0.78539816339744830962\n"
  "#define M_1_PI 0.31830988618379067154\n#define M_2_PI 0.63661977236758134308\n"
  "#define M_2_SQRTPI 1.12837916709551257390\n"
  "#define M_SQRT2 1.41421356237309504880\n#define M_SQRT1_2 0.70710678118654752440\n#endif\n"
  "#ifndef FLT_MAX\n#define FLT_MAX 3.402823466e+38f\n#define FLT_MIN 1.175494351e-38f\n"
  "#define FLT_EPSILON 1.192092896e-07f\n"
  "#define DBL_MAX 1.7976931348623157e+308\n#define DBL_MIN 2.2250738585072014e-308\n"
  "#define DBL_EPSILON 2.2204460492503131e-16\n#endif\n"
  "#ifndef INT_MAX\n#define INT_MAX 2147483647\n#define INT_MIN (-INT_MAX - 1)\n"
  "#define UINT_MAX 4294967295u\n"
  "#define LLONG_MAX 9223372036854775807ll\n#define LLONG_MIN (-LLONG_MAX - 1)\n"
  "#define LONG_MAX 9223372036854775807l\n"
  "#define LONG_MIN (-LONG_MAX - 1)\n#endif\n"
  "#endif\n";

/* The text that all C++ headers get. It declares what the C headers declare, also in namespace std,
** and what fl_kstd_text has. */
static const char cpp[] = "#include <fl_std>\n";
extern const char fl_kstd_text[];           /* kernel/front/std.cu, embedded */
static const char fl_std[] =
  "#pragma once\n#include <stdint.h>\n#define FL_STD_ALL\nnamespace std {\n"
#define U(t) "using ::" #t ";"
  U(int8_t) U(uint8_t) U(int16_t) U(uint16_t) U(int32_t) U(uint32_t) U(int64_t) U(uint64_t)
  U(size_t) U(ptrdiff_t) U(abs) U(fabs) U(sqrt) U(cbrt) U(exp) U(exp2) U(expm1) U(log) U(log2)
  U(log10) U(log1p) U(pow) U(hypot) U(sin) U(cos) U(tan) U(asin) U(acos) U(atan) U(atan2) U(sinh)
  U(cosh) U(tanh) U(erf) U(erfc) U(tgamma) U(lgamma) U(floor) U(ceil) U(round) U(trunc) U(rint)
  U(lround) U(fmod) U(fma) U(fmin) U(fmax) U(copysign) U(isnan) U(isinf) U(isfinite) U(ldexp)
  "\n#include <fl_types>\n}\n";
#undef U

#define NAMES(N) \
  N("stdint.h") N("math.h") N("float.h") N("limits.h") N("stdio.h") N("stdlib.h") N("stddef.h") \
  N("assert.h") N("stdbool.h") N("cuda_runtime.h") N("device_launch_parameters.h")
#define CPP_NAMES(N) \
  N("cstdint") N("cmath") N("cfloat") N("climits") N("cstdio") N("cstdlib") N("cstddef") \
  N("cassert") N("limits") N("type_traits") N("utility") N("algorithm") N("array")
#define NAME(n) n,
#define TEXT(n) fl_header_text,
#define CPP(n) cpp,
const char *const fl_header_names[FL_HEADERS] = { NAMES(NAME) CPP_NAMES(NAME) "fl_std",
                                                  "fl_types" };
const char *const fl_header_texts[FL_HEADERS] = { NAMES(TEXT) CPP_NAMES(CPP) fl_std, fl_kstd_text };

int fl_include_options(const char *option[FL_INCLUDE_PATHS], char buf[1024]) {
  static const char *const usual[] = { "--include-path=/usr/local/cuda/include",
                                       "--include-path=/usr/local/cuda/include/cccl" };
  static const char *const inner[] = { "", "/cccl" };      /* cuda/std/… is there since CUDA 13 */
  const char *home = getenv("CUDA_HOME");
  int n = 0;
  if (!home) home = getenv("CUDA_PATH");
  for (int i = 0; i < 2; i++) {
    char *own = buf + 512 * i;
    if (home && snprintf(own, 512, "--include-path=%s/include%s", home, inner[i]) < 512 &&
        access(own + 15, R_OK) == 0)
      option[n++] = own;
    if (access(usual[i] + 15, R_OK) == 0) option[n++] = usual[i];
  }
  return n;
}
