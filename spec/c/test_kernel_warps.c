/*
** User kernels on the CPU whose threads work together: shared memory, shuffles, votes and atomics
** are compared with plain loops. Also: memory that runs out at any allocation.
*/
#include "lane_run.h"

static const char reduce_text[] =
  "__global__ void total(const float *x, float *out, int n) {\n"
  "  __shared__ float s[256];\n"
  "  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;\n"
  "  s[t] = i < n ? x[i] : 0.0f;\n"
  "  __syncthreads();\n"
  "  for (int d = blockDim.x / 2; d > 0; d /= 2) {\n"
  "    if (t < d) s[t] += s[t + d];\n"
  "    __syncthreads();\n"
  "  }\n"
  "  if (t == 0) out[blockIdx.x] = s[0];\n"
  "}\n"
  "__global__ void warps(const float *x, float *out, int n) {\n"
  "  extern __shared__ float part[];\n"
  "  int t = threadIdx.x, lane = t & 31;\n"
  "  float v = 0;\n"
  "  for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) v += x[i];\n"
  "  for (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);\n"
  "  if (lane == 0) part[t / 32] = v;\n"
  "  __syncthreads();\n"
  "  if (t < 32) {\n"
  "    v = t < blockDim.x / 32 ? part[t] : 0.0f;\n"
  "    for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);\n"
  "    if (t == 0) atomicAdd(out, v);\n"
  "  }\n"
  "}\n"
  "__global__ void votes(const int *x, unsigned *out) {\n"
  "  int t = threadIdx.x; int v = x[t];\n"
  "  unsigned b = __ballot_sync(0xffffffffu, v > 0);\n"
  "  int any = __any_sync(0xffffffffu, v == 3), all = __all_sync(0xffffffffu, v > -3);\n"
  "  unsigned up = __shfl_up_sync(0xffffffffu, t, 3, 8);\n"
  "  int get = __shfl_sync(0xffffffffu, v, t * 5, 16);\n"
  "  out[t] = b; out[64 + t] = (unsigned)(any + 2 * all); out[128 + t] = up; out[192 + t] = (unsigned)get;\n"
  "  if (v > 0) { unsigned m = __activemask(); out[256 + t] = (unsigned)__popc(m & ((1u << (t & 31)) - 1u)); }\n"
  "}\n"
  "__global__ void histogram(const int *x, int *bins, int *order, unsigned *top, int n) {\n"
  "  __shared__ int h[16];\n"
  "  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;\n"
  "  if (t < 16) h[t] = 0;\n"
  "  __syncthreads();\n"
  "  if (i < n) { atomicAdd(&h[x[i] & 15], 1); order[atomicAdd(bins + 16, 1)] = i; }\n"
  "  __syncthreads();\n"
  "  if (t < 16 && h[t]) atomicAdd(&bins[t], h[t]);\n"
  "  if (i < n) { atomicMax(top, (unsigned)x[i] & 255u); atomicInc(top + 1, 9u); atomicCAS(top + 2, 0u, (unsigned)i + 1u); }\n"
  "}\n"
  "__global__ void transpose(const float *x, float *y, int w, int h) {\n"
  "  __shared__ float tile[16][17];\n"
  "  int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;\n"
  "  if (c < w && r < h) tile[threadIdx.y][threadIdx.x] = x[r * w + c];\n"
  "  __syncthreads();\n"
  "  c = blockIdx.y * 16 + threadIdx.x; r = blockIdx.x * 16 + threadIdx.y;\n"
  "  if (c < h && r < w) y[r * h + c] = tile[threadIdx.x][threadIdx.y];\n"
  "}\n";

static void test_reductions(void) {
  const int n = N;
  float part[4], sum = 0, expected = 0;
  fill();
  for (int k = 0; k < N; k++) fx[k] = (float)(k % 17);
  RUNS(.text = reduce_text, .grid = { 4 }, .block = { 256 }, .value = { 0, 0, &n },
       .memory = { MEM(fx), MEM(part) }, .checks = 7);
  for (int k = 0; k < N; k++) expected += fx[k];
  CHECK(part[0] + part[1] + part[2] + part[3] == expected);
  RUNS(.text = reduce_text, .entry = "warps", .grid = { 3 }, .block = { 128 }, .shared = 16,
       .value = { 0, 0, &n }, .memory = { MEM(fx), { &sum, 4 } }, .checks = 7);
  CHECK(sum == expected);
  float x[7 * 37], y[7 * 37];
  const int w = 37, h = 7;
  for (int k = 0; k < w * h; k++) x[k] = (float)k;
  RUNS(.text = reduce_text, .entry = "transpose", .grid = { 3, 1 }, .block = { 16, 16 },
       .value = { 0, 0, &w, &h }, .memory = { MEM(x), MEM(y) }, .checks = 7);
  int bad = 0;
  for (int r = 0; r < h; r++) for (int c = 0; c < w; c++) bad += y[c * h + r] != x[r * w + c];
  CHECK(bad == 0);
}

static void test_warps(void) {
  int x[64];
  unsigned out[320], b[2] = { 0, 0 };
  int any[2] = { 0, 0 }, all[2] = { 1, 1 }, bad = 0;
  memset(out, 0, sizeof out);
  for (int t = 0; t < 64; t++) {
    x[t] = (int)(random_bits() % 7) - (t < 32 ? 3 : 2);
    b[t / 32] |= (unsigned)(x[t] > 0) << (t & 31);
    any[t / 32] |= x[t] == 3;
    all[t / 32] &= x[t] > -3;
  }
  RUNS(.text = reduce_text, .entry = "votes", .block = { 64 }, .memory = { MEM(x), MEM(out) },
       .checks = 7);
  for (int t = 0; t < 64; t++) {
    const int w = t / 32, l = t & 31, first = t & ~7;
    bad += out[t] != b[w] || out[64 + t] != (unsigned)(any[w] + 2 * all[w]);
    bad += out[128 + t] != (unsigned)(t - 3 < first ? t : t - 3);
    bad += out[192 + t] != (unsigned)x[(t & ~15) | (t * 5 & 15)];
    if (x[t] > 0) bad += out[256 + t] != (unsigned)__builtin_popcount(b[w] & ((1u << l) - 1));
  }
  CHECK(bad == 0);
}

static void test_atomics(void) {
  const int n = N;
  int bins[17] = { 0 }, expected[16] = { 0 }, order[N], bad = 0;
  unsigned top[3] = { 0, 0, 0 }, most = 0;
  fill();
  for (int k = 0; k < N; k++) {
    ix[k] &= 0xffff;
    expected[ix[k] & 15]++;
    if (((unsigned)ix[k] & 255) > most) most = (unsigned)ix[k] & 255;
  }
  RUNS(.text = reduce_text, .entry = "histogram", .grid = { 8 }, .block = { 128 },
       .value = { 0, 0, 0, 0, &n }, .memory = { MEM(ix), MEM(bins), MEM(order), MEM(top) },
       .checks = 7);
  CHECK(!memcmp(bins, expected, sizeof expected) && bins[16] == N);
  for (int k = 0; k < N; k++) bad += order[k] != k;          /* blocks and lanes in order */
  CHECK(bad == 0);
  CHECK(top[0] == most && top[1] == N % 10 && top[2] == 1);
}

/* ---- memory runs out ----------------------------------------------------------------- */

static void test_no_memory(void) {
  const int n = N;
  const job j = { .text = reduce_text, .entry = "histogram", .grid = { 2 }, .block = { 64 },
                  .value = { 0, 0, 0, 0, &n }, .checks = 7,
                  .memory = { MEM(ix), { io, 68 }, { ir, 4 * N }, { lo, 12 } } };
  fill();
  CHECK(memory.live_bytes == 0);
  memory.calls = 0;
  memory.fail_at = 0;
  CHECK(execute(&j));
  const int64_t calls = memory.calls;
  int survived = 1;
  for (int64_t k = 1; k <= calls; k++) {
    memory.calls = 0;
    memory.fail_at = k;
    memory.fail_forever = (int)(k & 1);
    survived &= !execute(&j) || k > calls - 4;              /* the message's text may be lost */
    survived &= memory.live_bytes == 0;
  }
  memory.fail_at = 0;
  memory.fail_forever = 0;
  CHECK(survived);
}

int main(void) {
  test_reductions();
  test_warps();
  test_atomics();
  test_no_memory();
  CHECK(memory.live_bytes == 0);
  printf("kernel_warps: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
