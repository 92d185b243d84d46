/*
** The last step of a matrix product with a bias in a 16-bit type, where the library would round
** twice: sums in f32 and the bias of their column are added, and rounded once. For each element 4
** bytes of sums are read and 2 written. Before it: #define BF16 1, or 0 for f16.
*/
typedef unsigned short u16;

struct bias_args {                      /* laid out as fl_rows_bias of src/cuda/library/rows.h */
  const float *sums; long long rows, cols; const u16 *bias; u16 *to; long long step;
};

static __device__ __forceinline__ float wide(u16 h) {
#if BF16
  return __uint_as_float((unsigned)h << 16);
#else
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
  return x;
#endif
}

static __device__ __forceinline__ u16 narrow(float x) {
  u16 h;
#if BF16
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
#else
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
#endif
  return h;
}

extern "C" __global__ void __launch_bounds__(256) bias(const __grid_constant__ bias_args a) {
  const long long n = a.rows * a.cols, all = 256ll * gridDim.x;
  for (long long i = 256ll * blockIdx.x + threadIdx.x; i < n; i += all) {
    const long long r = i / a.cols, c = i % a.cols;
    a.to[r * a.step + c] = narrow(__fadd_rn(a.sums[i], wide(a.bias[c])));
  }
}
