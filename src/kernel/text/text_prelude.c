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

/* Sums that do not depend on the order of the threads (cuda/call/ordered.c says how the launches
** work together): summands are scaled to integers and added in 64 bits; an overflow adds 1 or -1 to
** 'high'. mode: 0, there is no 'high' and no 'special', and what needs them is noted in
** 'again'; 1, both are there; 2, and this is the launch that repeats. limit: the upper half of the
** first double that is too large to be added, 0: nothing is known of the summands, so none is
** added. shift: the scale's exponent. top: the greatest upper half of the finite summands; a thread
** keeps its own in 'most' until it ends. If all active lanes of a warp add to one element, they sum
** their integers first (from compute capability 8.0 on), in three parts of 22, 22 and 20 bits, as
** integers add in any order. If the repeated launch has a summand above those of the first (since
** another thread took the cotangent of an element that several write), the sum is NaN rather than
** wrong. The other fields are for kernels/ordered.cu. */
static const char ordered[] =
  "struct fl_fixed {\n"
  "  unsigned long long *low, *high;\n"
  "  unsigned *special, *top, *again;\n"
  "  void *out;\n"
  "  long long n;\n"
  "  unsigned limit;\n"
  "  int shift, mode, guess, wide, add, slot;\n"
  "};\n"
  "FL_FN void fl_ordered_odd(const fl_fixed &x, long long i, double v, unsigned b) {\n"
  "  const bool finite = b < 0x7ff00000u;\n"
  "  if (!finite && !x.mode) {\n"
  "    if (!*(volatile unsigned *)x.again) *(volatile unsigned *)x.again = 1;\n"
  "  } else if (!finite || x.mode == 2) {\n"
  "    atomicOr(x.special + i, finite || v != v ? 1u : v > 0 ? 2u : 4u);\n"
  "  }\n"
  "}\n"
  "FL_FN void fl_ordered_put(const fl_fixed &x, long long i, long long high, long long q) {\n"
  "  const unsigned long long old = atomicAdd(x.low + i, (unsigned long long)q), now = old + q;\n"
  "  if ((long long)((old ^ now) & (q ^ now)) < 0) high += q < 0 ? -1 : 1;\n"
  "  if (!high) return;\n"
  "  if (x.mode) atomicAdd(x.high + i, (unsigned long long)high);\n"
  "  else *(volatile unsigned *)x.again = 1;\n"
  "}\n"
  "FL_FN void fl_ordered_add(const fl_fixed &x, long long i, double v, unsigned &most) {\n"
  "  if (v == 0) return;\n"
  "  const unsigned b = (unsigned)__double2hiint(v) & 0x7fffffffu;\n"
  "  if ((b | 1) > most && b < 0x7ff00000u) most = b | 1;\n"
  "  if (b >= x.limit) { fl_ordered_odd(x, i, v, b); return; }\n"
  "  const double s = x.shift < 1000 ? v * __longlong_as_double((1023ll + x.shift) << 52)"
  " : scalbn(v, x.shift);\n"
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
  "    fl_ordered_put(x, i, (d >> 20) + (sum < part) + (long long)(sum >> 63), (long long)sum);\n"
  "    return;\n"
  "  }\n"
  "#endif\n"
  "  fl_ordered_put(x, i, 0, q);\n"
  "}\n"
  "FL_FN void fl_ordered_block_add(const fl_fixed &x, long long i, double v, unsigned &most) {\n"
  BLOCK_SUM("double", "me")
  "    fl_ordered_add(x, i, v, most);\n"
  "  }\n"
  "}\n"
  "FL_FN void fl_ordered_end(const fl_fixed &x, unsigned most) {\n"
  "  if (x.mode == 2) return;\n"
  "#if __CUDA_ARCH__ >= 800\n"
  "  const unsigned here = __match_any_sync(__activemask(), (unsigned long long)x.top);\n"
  "  most = __reduce_max_sync(here, most);\n"
  "#endif\n"
  "  if (most > *(volatile unsigned *)x.top) atomicMax(x.top, most);\n"
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
