/*
** What generated kernels call, as CUDA C++ text: halves in memory, sums over a block, sums that do
** not depend on the order of the threads, sums of lanes (ad_lanes.c), and the barrier of a grid.
*/
#include "kernel/text/text.h"

extern const char fl_kwarp_text[];                  /* warp.cu */

/* The atomic addition to a half of type t, "f16" or "bf16". */
#define HALF_ATOMIC(t) \
  "FL_FN float fl_atomic_" t "(unsigned short *p, float v) {\n" \
  "  unsigned short old = *p, seen;\n" \
  "  do { seen = old; old = atomicCAS(p, seen, fl_out_" t "(fl_in_" t "(seen) + v)); }" \
  " while (old != seen);\n" \
  "  return fl_in_" t "(old);\n" \
  "}\n"

/* The sum of v, of type T, over the block: thread 0 has it in v, inside an if, which the user of
** the text closes. i: the name of the variable with the thread's number in the block. */
#define BLOCK_SUM(T, i) \
  "  __shared__ " T " part[32];\n" \
  "  const unsigned n = blockDim.x * blockDim.y * blockDim.z;\n" \
  "  const unsigned " i " = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;\n" \
  "  const unsigned warp = " i " / 32, left = n - warp * 32, live = left < 32 ? left : 32;\n" \
  "  const unsigned mask = live == 32 ? ~0u : (1u << live) - 1;\n" \
  "  for (int d = 16; d > 0; d /= 2) {\n" \
  "    const " T " w = __shfl_down_sync(mask, v, d);\n" \
  "    if (" i " % 32 + d < live) v += w;\n" \
  "  }\n" \
  "  __syncthreads();\n" \
  "  if (" i " % 32 == 0) part[warp] = v;\n" \
  "  __syncthreads();\n" \
  "  if (" i " == 0) {\n" \
  "    for (unsigned k = 1; k < (n + 31) / 32; k++) v += part[k];\n"

static const char prelude[] =
  "#pragma nv_diag_suppress 177,550,128\n"
  "#define FL_FN static __device__ __forceinline__\n"
  "FL_FN float fl_in_f16(unsigned short h) {"
  " float x; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(x) : \"h\"(h)); return x; }\n"
  "FL_FN unsigned short fl_out_f16(float x) {"
  " unsigned short h; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(x)); return h; }\n"
  "FL_FN float fl_in_bf16(unsigned short h) { return __uint_as_float((unsigned)h << 16); }\n"
  "FL_FN unsigned short fl_out_bf16(float x) {\n"
  "  const unsigned b = __float_as_uint(x);\n"
  "  return (b & 0x7fffffff) > 0x7f800000 ? 0x7fff"
  " : (unsigned short)((b + 0x7fff + (b >> 16 & 1)) >> 16);\n"
  "}\n"
  "FL_FN float fl_round_f16(float x) { return fl_in_f16(fl_out_f16(x)); }\n"
  "FL_FN float fl_round_bf16(float x) { return fl_in_bf16(fl_out_bf16(x)); }\n"
  HALF_ATOMIC("f16")
  HALF_ATOMIC("bf16")
  "template <class T> FL_FN void fl_block_add(T *p, T v) {\n"
  BLOCK_SUM("T", "i")
  "    atomicAdd(p, v);\n"
  "  }\n"
  "}\n";

/* Sums that do not depend on the order of the threads: a first launch (pass 0) finds the largest
** magnitude of the summands; a second one scales them to integers, the largest to 'bits' bits, and
** adds these in 128 bits. The launcher prepares and reads them (cuda/call/ordered.c). low begins as
** 0x80 in each byte, so that it rarely overflows either way. Lanes of a warp that add to one
** element at one time sum their integers first (from compute capability 8.0 on), in three parts of
** 22, 22 and 20 bits, in any order, as integers may be. If the second launch has a summand far
** above those of the first (since another thread took the cotangent of an element that several
** write), the sum is NaN rather than wrong. */
static const char ordered[] =
  "struct fl_fixed { unsigned long long *low, *high, *peak; unsigned *special; long long bits; };\n"
  "FL_FN void fl_ordered_put(const fl_fixed &x, long long i, long long high,"
  " unsigned long long low) {\n"
  "  const unsigned long long old = atomicAdd(x.low + i, low);\n"
  "  const long long up = high + (old + low < old ? 1 : 0);\n"
  "  if (up) atomicAdd(x.high + i, (unsigned long long)up);\n"
  "}\n"
  "FL_FN void fl_ordered_add(int pass, const fl_fixed &x, long long i, double v) {\n"
  "  if (v == 0) return;\n"
  "  const unsigned long long b = (unsigned long long)__double_as_longlong(fabs(v));\n"
  "  const bool finite = b < 0x7ff0000000000000ull;\n"
  "  if (pass == 0) {\n"
  "    if (finite && b > *(volatile unsigned long long *)x.peak) atomicMax(x.peak, b);\n"
  "    return;\n"
  "  }\n"
  "  if (!finite) { atomicOr(x.special + i, b > 0x7ff0000000000000ull ? 1u : v > 0 ? 2u : 4u);"
  " return; }\n"
  "  const int e = (int)(*x.peak >> 52) - 1023, k = (int)x.bits - e;\n"
  "  const double s = k < 1000 ? v * __longlong_as_double((1023ll + k) << 52) : scalbn(v, k);\n"
  "  if (!(fabs(s) < 9e18)) { atomicOr(x.special + i, 1u); return; }\n"
  "  const long long q = __double2ll_rn(s);\n"
  "#if __CUDA_ARCH__ >= 800\n"
  "  const unsigned here = __activemask();\n"
  "  int same;\n"
  "  __match_all_sync(here, (unsigned long long)(x.low + i), &same);\n"
  "  if (same) {\n"
  "    const unsigned a = __reduce_add_sync(here, (unsigned)q & 0x3fffffu);\n"
  "    const unsigned c = __reduce_add_sync(here, (unsigned)(q >> 22) & 0x3fffffu);\n"
  "    const int d = __reduce_add_sync(here, (int)(q >> 44));\n"
  "    const unsigned me = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;\n"
  "    if (me % 32 != __ffs(here) - 1) return;\n"
  "    const unsigned long long part = a + ((unsigned long long)c << 22);\n"
  "    const unsigned long long sum = part + ((unsigned long long)d << 44);\n"
  "    fl_ordered_put(x, i, (d >> 20) + (sum < part ? 1 : 0), sum);\n"
  "    return;\n"
  "  }\n"
  "#endif\n"
  "  fl_ordered_put(x, i, q < 0 ? -1 : 0, (unsigned long long)q);\n"
  "}\n"
  "FL_FN void fl_ordered_block_add(int pass, const fl_fixed &x, long long i, double v) {\n"
  BLOCK_SUM("double", "me")
  "    fl_ordered_add(pass, x, i, v);\n"
  "  }\n"
  "}\n";

/* The barrier of a grid whose blocks run at the same time. Each block adds 1 to the word, but the
** first one adds 2^31 minus the number of the others: when all have arrived the highest bit has
** changed, and the other bits are 0 again for the next barrier or launch. */
static const char grid[] =
  "static __device__ unsigned fl_grid_word;\n"
  "static __device__ __noinline__ void fl_sync_grid() {\n"
  "  const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;\n"
  "  __syncthreads();\n"
  "  if (!(threadIdx.x | threadIdx.y | threadIdx.z)) {\n"
  "    const bool first = !(blockIdx.x | blockIdx.y | blockIdx.z);\n"
  "    __threadfence();\n"
  "    const unsigned old = atomicAdd(&fl_grid_word, first ? 0x80000001u - blocks : 1u);\n"
  "    while (!((old ^ *(volatile unsigned *)&fl_grid_word) >> 31)) {}\n"
  "    __threadfence();\n"
  "  }\n"
  "  __syncthreads();\n"
  "}\n";

void fl_ktext_prelude(fl_text *t) { fl_text_puts(t, prelude); }
void fl_ktext_warp(fl_text *t) { fl_text_puts(t, fl_kwarp_text); }
void fl_ktext_grid(fl_text *t) { fl_text_puts(t, grid); }

void fl_ktext_ordered(fl_text *t) { fl_text_puts(t, ordered); }
