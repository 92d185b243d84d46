/*
** Macros that each text has from the start: those of NVRTC, of the headers of the C library and of
** CUDA, of compilers of the host, and of the headers of PyTorch's extensions. A text that names one
** which NVRTC lacks is printed from what was read (kernel/function.c).
*/
#include "kernel/front/lexer.h"

const char fl_kpredefined[] =
  "#define __CUDACC__ 1\n#define __CUDACC_RTC__ 1\n#define __CUDA_ARCH__ 900\n"
  "#define __FILE__ \"kernel\"\n#define __cplusplus 201703\n#define __CUDACC_VER_MAJOR__ 13\n"
  "#define __CUDACC_VER_MINOR__ 0\n#define CUDA_VERSION 13000\n#define CUDART_VERSION 13000\n"
  "#define INFINITY __builtin_huge_valf()\n#define NAN __builtin_nanf(\"\")\n"
  "#define cudaTriggerProgrammaticLaunchCompletion() __builtin_assume(1)\n"
  "#define cudaGridDependencySynchronize() __builtin_assume(1)\n"
  "#define __builtin_popcount __popc\n#define __builtin_popcountll __popcll\n"
  "#define __builtin_clz __clz\n#define __builtin_clzll __clzll\n"
  "#define __builtin_ffs __ffs\n#define __builtin_ffsll __ffsll\n"
  "#define __builtin_ctz(x) (__ffs(x) - 1)\n#define __builtin_ctzll(x) (__ffsll(x) - 1)\n"
  "#define CUDART_INF_F INFINITY\n#define CUDART_NAN_F NAN\n#define CUDART_PI_F 3.141592654f\n"
  "#define CUDART_PI 3.1415926535897931\n#define CUDART_INF ((double)INFINITY)\n"
  "#define M_PI 3.14159265358979323846\n#define M_PI_2 1.57079632679489661923\n"
  "#define M_PI_4 0.78539816339744830962\n#define M_E 2.7182818284590452354\n"
  "#define M_LOG2E 1.4426950408889634074\n#define M_LOG10E 0.43429448190325182765\n"
  "#define M_LN10 2.30258509299404568402\n"
  "#define M_LN2 0.69314718055994530942\n#define M_SQRT2 1.41421356237309504880\n"
  "#define M_SQRT1_2 0.70710678118654752440\n#define M_1_PI 0.31830988618379067154\n"
  "#define M_2_PI 0.63661977236758134308\n#define M_2_SQRTPI 1.12837916709551257390\n"
  "#define FLT_MAX 3.402823466e+38f\n#define FLT_MIN 1.175494351e-38f\n"
  "#define FLT_EPSILON 1.192092896e-07f\n"
  "#define DBL_MAX 1.7976931348623157e+308\n#define DBL_MIN 2.2250738585072014e-308\n"
  "#define DBL_EPSILON 2.2204460492503131e-16\n#define INT_MAX 2147483647\n"
  "#define INT_MIN (-2147483647 - 1)\n#define UINT_MAX 4294967295u\n"
  "#define INT32_MAX INT_MAX\n#define INT32_MIN INT_MIN\n#define UINT32_MAX UINT_MAX\n"
  "#define INT64_MAX LLONG_MAX\n#define INT64_MIN LLONG_MIN\n#define ULLONG_MAX (~0ull)\n"
  "#define UINT64_MAX ULLONG_MAX\n#define SIZE_MAX ULLONG_MAX\n#define INT8_MAX 127\n#define UINT8_MAX 255\n"
  "#define SHRT_MAX 32767\n#define SHRT_MIN (-32768)\n#define USHRT_MAX 65535\n"
  "#define LONG_MAX 9223372036854775807l\n#define LONG_MIN (-9223372036854775807l - 1)\n"
  "#define CUDART_NORM_HUGE_F 8.507059173e37f\n#define CUDART_MAX_NORMAL_F FLT_MAX\n"
  "#define LLONG_MAX 9223372036854775807ll\n#define LLONG_MIN (-9223372036854775807ll - 1)\n"
  "#define CHAR_BIT 8\n#define NULL nullptr\n"
  "#define __FLT_MAX__ FLT_MAX\n#define __FLT_MIN__ FLT_MIN\n#define __FLT_EPSILON__ FLT_EPSILON\n"
  "#define __DBL_MAX__ DBL_MAX\n#define __DBL_MIN__ DBL_MIN\n#define __DBL_EPSILON__ DBL_EPSILON\n"
  "#define __INT_MAX__ INT_MAX\n#define INT32_C(x) x\n#define UINT32_C(x) x##u\n"
  "#define INT64_C(x) x##l\n#define UINT64_C(x) x##ul\n"
  "#define C10_LAUNCH_BOUNDS_1(n) __launch_bounds__(n)\n"
  "#define C10_LAUNCH_BOUNDS_2(n, blocks) __launch_bounds__(n, blocks)\n"
  "#define C10_WARP_SIZE 32\n#define C10_HOST_DEVICE __host__ __device__\n#define C10_DEVICE __device__\n"
  "#define CUDA_KERNEL_ASSERT(truth) assert(truth)\n"
  "#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)\n"
  "#define CUDA_KERNEL_LOOP_TYPE(i, n, type) for (type i = (type)blockIdx.x * blockDim.x + threadIdx.x; "
  "i < (n); i += (type)blockDim.x * gridDim.x)\n";

const char fl_kversions[] =
  "#define THRUST_VERSION 300001\n#define THRUST_MAJOR_VERSION 3\n"
  "#define CUB_VERSION 300001\n#define CCCL_VERSION 3000001\n";
