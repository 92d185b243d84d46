/*
** kernel/lanes/: user kernels on the CPU. KERNEL(...) uses a kernel's text twice: as a string for
** the library's parser, and as a C function that is called for one thread after the other.
** Afterwards the arrays must agree in every bit (math functions: within a tolerance). Results must
** not depend on the order of blocks, the number of CPU threads or the instruction set. Threads that
** work together are tested in test_kernel_warps.c, errors in test_kernel_faults.c.
*/
#include "lane_run.h"
#include <math.h>
#include <pthread.h>
#include <stdbool.h>

#pragma GCC diagnostic ignored "-Wimplicit-fallthrough"      /* one text, two languages */

/* ---- one text, twice ----------------------------------------------------------------- */

typedef struct { unsigned x, y, z; } coordinates;
static coordinates threadIdx, blockIdx, blockDim, gridDim;

#define KERNEL(name, parameters, ...) \
  static const char text_##name[] = "__global__ void " #name #parameters #__VA_ARGS__; \
  static void name parameters __VA_ARGS__
#define DEVICE(name, ...) \
  static const char device_##name[] = "__device__ " #__VA_ARGS__ "\n"; \
  static __VA_ARGS__

/* Runs the body for each thread in order, with threadIdx and blockIdx set. */
#define EACH_THREAD(g, b) \
  gridDim = (g); blockDim = (b); \
  for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++) \
  for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++) \
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) \
  for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++) \
  for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++) \
  for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)
static coordinates dim(unsigned x, unsigned y, unsigned z) { return (coordinates){ x, y, z }; }

KERNEL(saxpy, (float a, const float *x, const float *y, float *out, int n), {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i] + y[i];
})

static void test_saxpy(void) {
  static const int blocks[] = { 1, 3, 32, 100, 256, 1024 };
  for (int b = 0; b < 6; b++)
    for (int n = 0; n <= N; n += n < 3 ? 1 : 331) {
      const float a = 1.5f;
      const unsigned w = (unsigned)blocks[b], g = ((unsigned)N + w - 1) / w;
      fill();
      EACH_THREAD(dim(g, 1, 1), dim(w, 1, 1)) saxpy(a, fx, fy, fr, n);
      RUNS(.text = text_saxpy, .grid = { g }, .block = { w }, .value = { &a, 0, 0, 0, &n },
           .memory = { { fx, 4 * n }, { fy, 4 * n }, { fo, 4 * n } }, .checks = b & 1 ? 7 : 0);
      CHECK(!memcmp(fo, fr, sizeof fo));
    }
}

KERNEL(integers, (const int *x, const int *y, int *out, int n), {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int a = x[i]; int b = y[i]; unsigned u = (unsigned)a; unsigned v = (unsigned)b;
  out[i] = (int)(u + v) ^ (int)(u * 3u - v);
  out[n + i] = (b != 0 && b != -1 ? a / b + a % b : a & b) ^ (v ? (int)(u / v + u % v) : ~a);
  out[2 * n + i] = (a >> (b & 31)) ^ (int)((u << (v & 31)) | (u >> (v & 15)));
  out[3 * n + i] = (a < b) + 2 * (a <= b) + 4 * (u < v) + 8 * (u >= v) + 16 * (a == b) +
  32 * (a != 7);
  out[4 * n + i] = (signed char)a + (unsigned char)b * 3 + (short)(u + v) - (unsigned short)(u ^ v);
  out[5 * n + i] = (int)(float)a / 3 + (int)((double)b * 0.5) + (a ? 5 : 6) + !b;
  out[6 * n + i] = (int)((long long)a * b >> 7) ^ (int)((unsigned long long)u * v >> 33);
  bool t = a > b; t = t || (b > 3 && !(a & 1));
  out[7 * n + i] = t ? -(int)(u & 0xffffu) : (int)(v % 1000u) | 1;
})
KERNEL(long_integers, (const long long *x, const long long *y, long long *out, int n), {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long a = x[i]; long long b = y[i];
  unsigned long long u = (unsigned long long)a; unsigned long long v = (unsigned long long)b;
  out[i] = (long long)(u + v * 3u) ^ (long long)(u * v);
  out[n + i] = (b != 0 && b != -1 ? a / b - a % b : 1) ^ (long long)(v ? u / v + u % v : 2u);
  out[2 * n + i] = (a >> (b & 63)) ^ (long long)((u << (v & 63)) | (u >> (v & 31)));
  out[3 * n + i] = (a < b) + 2 * (a >= b) + 4 * (u < v) + 8 * (u >= v) + (a == b) +
  (long long)(int)a;
  out[4 * n + i] = (long long)(float)(a >> 2) + (long long)((double)b * 0.25) +
  (long long)(short)a + !b;
  out[5 * n + i] = ((long long)(unsigned)b - (long long)(unsigned char)a) ^ ~a;
})

static void test_integers(void) {
  const int n = N;
  fill();
  EACH_THREAD(dim(8, 1, 1), dim(128, 1, 1)) integers(ix, iy, ir, n);
  RUNS(.text = text_integers, .grid = { 8 }, .block = { 128 }, .value = { 0, 0, 0, &n },
       .memory = { MEM(ix), MEM(iy), MEM(io) });
  CHECK(!memcmp(io, ir, sizeof io));
  EACH_THREAD(dim(5, 1, 1), dim(200, 1, 1)) long_integers(lx, ly, lr, n);
  RUNS(.text = text_long_integers, .grid = { 5 }, .block = { 200 }, .value = { 0, 0, 0, &n },
       .memory = { MEM(lx), MEM(ly), MEM(lo) });
  CHECK(!memcmp(lo, lr, sizeof lo));
}

/* ---- control flow -------------------------------------------------------------------- */

KERNEL(collatz, (const int *x, int *out, int n), {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    int v = (x[i] & 1023) + 1; int steps = 0;
    while (v != 1) { v = v % 2 ? 3 * v + 1 : v / 2; steps++; }
    out[i] = steps;
  }
})
KERNEL(tangle, (const int *x, const float *f, int *out, float *g, int n), {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int s = x[i]; int kept = 0; float acc = 0;
  for (int a = 0; a < 7; a++) {
    if ((s + a) % 3 == 0) continue;
    int inner = 0;
    for (int b = a; b < 12; b++) {
      if ((b & 3) == (s & 3)) continue;
      if (b > 9 && s % 5 == 1) break;
      inner += b * (s & 7);
      if (inner > 60) break;
      int c = b;
      do {
        c -= 2; acc += f[i] * (float)c;
        if (c == 3) { kept++; continue; }
        if (c < -4) break;
      } while (c > s % 4);
    }
    kept += inner;
    if (kept > 500) break;
    if (s % 11 == 7 && a == 4) { out[i] = -kept; return; }
  }
  out[i] = kept; g[i] = acc;
})
KERNEL(switches, (const int *x, int *out, int n), {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int r = 0; int w = x[i] & 7;
  for (int k = 0; k < 5; k++) {
    switch (w) {
      case 0: r += 1;
      case 1: r += 10; break;
      case 2: if (k == 3) break; r += 100; continue;
      case 5: { int z = r; r = z * 2 + k; break; }
      case 6: if (r > 50) return; r += 20; break;
      default: r -= 3;
    }
    out[i] += k;
    w = (w + x[i]) & 7;
    switch (n & 3) { case 0: r++; break; case 1: r += 2; default: r += 7; }
  }
  out[i] += r;
})
DEVICE(first_above, int first_above(const int *x, int from, int n, int limit) {
  for (int k = from; k < n; k++) {
    if (x[k] > limit) return k;
    if (x[k] == -limit) break;
  }
  return limit > 100 ? -2 : -1;
})
KERNEL(searches, (const int *x, int *out, int n), {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    int a = first_above(x, i, n, 1000); int b = 0;
    if (a >= 0) b = first_above(x, a + 1, n, x[a]);
    out[i] = a * 3 + b;
    for (int k = 0; k < 3 && first_above(x, i, n, k * 50) >= 0; k++) out[i] += k;
  }
})
KERNEL(uniform_loops, (const float *x, float *out, int n, int m), {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0; int rounds = 0; int last = -1;
  if (i >= n) return;
  for (int k = 0; k < m; k++) {
    last = k;
    if (k == 5 && x[i] > 2.0f) break;
    if (m > 100) { s = -1.0f; break; }
    float t = x[(i + k) % n];
    if (t < 0) { s -= t; continue; }
    for (int j = 0; j < k; j++) { s += t * (float)j; rounds += j; }
  }
  out[i] = s + (float)(last * 1000 + rounds);
})
KERNEL(guards, (const float *x, const int *at, float *out, int n), {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float left = i > 0 && i < n ? x[i - 1] : 0.0f;
  bool near = i < n && (i == 0 || x[i - 1] < x[i]) && (at[i] & 1 || x[i] > 0.0f);
  float v = near ? (left > 0 ? x[i] : -x[i]) : left * 2.0f;
  if (i < n) out[i] = i + 1 < n ? v + x[i + 1] : v;
})

static void test_control_flow(void) {
  const int n = N;
  fill();
  for (int k = 0; k < N; k++) ix[k] &= 2047;
  EACH_THREAD(dim(4, 1, 1), dim(256, 1, 1)) collatz(ix, ir, n);
  RUNS(.text = text_collatz, .grid = { 4 }, .block = { 256 }, .value = { 0, 0, &n },
       .memory = { MEM(ix), MEM(io) }, .checks = 7);
  CHECK(!memcmp(io, ir, sizeof io));
  for (int k = 0; k < N; k++) io[k] = ir[k] = 0;
  EACH_THREAD(dim(10, 1, 1), dim(100, 1, 1)) tangle(ix, fx, ir, fr, n);
  RUNS(.text = text_tangle, .grid = { 10 }, .block = { 100 }, .value = { 0, 0, 0, 0, &n },
       .memory = { MEM(ix), MEM(fx), MEM(io), MEM(fo) }, .checks = FL_LANE_UNINIT);
  CHECK(!memcmp(io, ir, sizeof io));
  CHECK(!memcmp(fo, fr, sizeof fo));
  for (int k = 0; k < N; k++) io[k] = ir[k] = 0;
  EACH_THREAD(dim(2, 1, 1), dim(512, 1, 1)) switches(ix, ir, n);
  RUNS(.text = text_switches, .grid = { 2 }, .block = { 512 }, .value = { 0, 0, &n },
       .memory = { MEM(ix), MEM(io) });
  CHECK(!memcmp(io, ir, sizeof io));
  char both[2000];
  snprintf(both, sizeof both, "%s%s", device_first_above, text_searches);
  for (int k = 0; k < N; k++) io[k] = ir[k] = 0;
  EACH_THREAD(dim(8, 1, 1), dim(128, 1, 1)) searches(ix, ir, n);
  RUNS(.text = both, .grid = { 8 }, .block = { 128 }, .value = { 0, 0, &n },
       .memory = { MEM(ix), MEM(io) });
  CHECK(!memcmp(io, ir, sizeof io));
  for (int m = 0; m < 200; m += m < 10 ? 3 : 95) {
    EACH_THREAD(dim(8, 1, 1), dim(128, 1, 1)) uniform_loops(fx, fr, n, m);
    RUNS(.text = text_uniform_loops, .grid = { 8 }, .block = { 128 }, .value = { 0, 0, &n, &m },
         .memory = { MEM(fx), MEM(fo) });
    CHECK(!memcmp(fo, fr, sizeof fo));
  }
  EACH_THREAD(dim(8, 1, 1), dim(128, 1, 1)) guards(fx, ix, fr, n);
  RUNS(.text = text_guards, .grid = { 8 }, .block = { 128 }, .value = { 0, 0, 0, &n },
       .memory = { MEM(fx), MEM(ix), MEM(fo) });
  CHECK(!memcmp(fo, fr, sizeof fo));
}

/* ---- memory of a thread, types, geometry --------------------------------------------- */

KERNEL(sorts, (const int *x, int *out, int n), {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int a[8]; float weight[2][3];
  const int table[4] = {3, 1, 4, 1};
  for (int k = 0; k < 8; k++) a[k] = x[(i * 3 + k * 7) % n];
  for (int k = 1; k < 8; k++) {
    int v = a[k]; int j = k - 1;
    while (j >= 0 && a[j] > v) { a[j + 1] = a[j]; j--; }
    a[j + 1] = v;
  }
  for (int r = 0; r < 2; r++) for (int c = 0; c < 3; c++) weight[r][c] = (float)(r * 10 + c);
  weight[i & 1][i % 3] += 100.0f;
  out[i] = a[i & 7] + table[i & 3] + (int)weight[1][i % 3] + (int)weight[0][2];
})
KERNEL(bytes, (const signed char *a, const unsigned short *b, unsigned char *c, short *d, int n), {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  c[i] = (unsigned char)(a[i] * 3 + b[i]);
  d[i] = (short)(a[i] - b[i] * 2);
  c[i] += 200;
  d[i] -= a[n - 1 - i];
})
KERNEL(doubles, (const double *x, const float *y, double *out, int n), {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double s = 0;
  for (int k = 0; k < 10; k++) s = s * 0.5 + x[(i + k) % n] / (1.0 + k) - (double)y[i];
  out[i] = x[i] > 0 ? s : -s;
})
KERNEL(boxes, (int *out, int w, int h), {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x < w && y < h) out[(z * h + y) * w + x] += x + 100 * y + 10000 * z + (int)gridDim.y;
})

static void test_memory(void) {
  const int n = N;
  static signed char a[N];
  static unsigned short b[N];
  static unsigned char c[N], cr[N];
  static short d[N], drs[N];
  fill();
  for (int k = 0; k < N; k++) ix[k] %= 1000;
  EACH_THREAD(dim(4, 1, 1), dim(256, 1, 1)) sorts(ix, ir, n);
  RUNS(.text = text_sorts, .grid = { 4 }, .block = { 256 }, .value = { 0, 0, &n },
       .memory = { MEM(ix), MEM(io) }, .checks = 7);
  CHECK(!memcmp(io, ir, sizeof io));
  for (int k = 0; k < N; k++) {
    a[k] = (signed char)random_bits();
    b[k] = (unsigned short)random_bits();
  }
  EACH_THREAD(dim(4, 1, 1), dim(256, 1, 1)) bytes(a, b, cr, drs, n);
  RUNS(.text = text_bytes, .grid = { 4 }, .block = { 256 }, .value = { 0, 0, 0, 0, &n },
       .memory = { MEM(a), MEM(b), MEM(c), MEM(d) });
  CHECK(!memcmp(c, cr, sizeof c) && !memcmp(d, drs, sizeof d));
  EACH_THREAD(dim(4, 1, 1), dim(256, 1, 1)) doubles(dx, fy, dr, n);
  RUNS(.text = text_doubles, .grid = { 4 }, .block = { 256 }, .value = { 0, 0, 0, &n },
       .memory = { MEM(dx), MEM(fy), MEM(dout) });
  CHECK(!memcmp(dout, dr, sizeof dr));
  static const unsigned shape[][3] = { { 16, 4, 2 }, { 8, 8, 1 }, { 3, 5, 2 }, { 1, 32, 1 },
                                       { 32, 1, 2 } };
  for (int s = 0; s < 5; s++) {
    const int w = 37, h = 13;
    const unsigned *q = shape[s], gx = (37 + q[0] - 1) / q[0], gy = (13 + q[1] - 1) / q[1];
    memset(io, 0, sizeof io);
    memset(ir, 0, sizeof ir);
    EACH_THREAD(dim(gx, gy, 2 / q[2]), dim(q[0], q[1], q[2])) boxes(ir, w, h);
    RUNS(.text = text_boxes, .grid = { gx, gy, 2 / q[2] }, .block = { q[0], q[1], q[2] },
         .value = { 0, &w, &h }, .memory = { MEM(io) });
    CHECK(!memcmp(io, ir, sizeof io));
  }
}

static const char struct_text[] =
  "struct Particle { float3 at; float mass; int kind[2]; };\n"
  "struct Params { Particle p; float scale; };\n"
  "__global__ void move(Params q, const float *weight, float4 c, float4 *out, int n) {\n"
  "  int i = threadIdx.x;\n"
  "  if (i >= n) return;\n"
  "  Particle p = q.p; float4 v = out[i];\n"
  "  p.at.x += c.x * (float)i; p.kind[i & 1] += i;\n"
  "  v.x = p.at.x + p.at.y; v.y = p.mass * q.scale; v.z = (float)p.kind[0]; v.w += weight[i] + c.w;\n"
  "  out[i] = v;\n"
  "}\n";

static void test_structs(void) {
  struct { float at[3], mass; int kind[2]; float scale; } q =
    { { 1, 2, 3 }, 4, { 50, 60 }, 0.5f };
  const float c[4] = { 0.25f, 0, 0, 7 };
  const int n = 40;
  float out[160], weight[40];
  for (int k = 0; k < 160; k++) out[k] = (float)k;
  for (int k = 0; k < 40; k++) weight[k] = (float)(k * k);
  RUNS(.text = struct_text, .block = { 64 }, .value = { &q, 0, c, 0, &n },
       .memory = { MEM(weight), MEM(out) });
  int bad = 0;
  for (int i = 0; i < 40; i++) {
    bad += out[4 * i] != 1 + 0.25f * (float)i + 2 || out[4 * i + 1] != 2;
    bad += out[4 * i + 2] != (float)(50 + (i & 1 ? 0 : i));
    bad += out[4 * i + 3] != (float)(4 * i + 3) + (float)(i * i) + 7;
  }
  CHECK(bad == 0);
}

KERNEL(functions, (const float *x, const float *y, float *out, int n), {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = x[i]; float b = fabsf(y[i]) + 0.5f;
  float s = sinf(a) + cosf(a) * tanhf(b) + expf(-b) + logf(b) + sqrtf(b) + powf(b, 1.5f);
  s += atan2f(a, b) + fminf(a, b) * fmaxf(a, 1.0f) + floorf(a) + ceilf(b) + truncf(a) + fmodf(a, b);
  s += erff(a) + log1pf(b) + expm1f(-b) + cbrtf(a) + hypotf(a, b) + fmaf(a, b, 1.0f) + roundf(a);
  s += copysignf(b, a) + exp2f(-b) + log2f(b) + asinf(a / 10.0f) + (isnan(a) ? 1.0f : 0.0f);
  out[i] = s;
})

static void test_functions(void) {
  const int n = N;
  fill();
  EACH_THREAD(dim(4, 1, 1), dim(256, 1, 1)) functions(fx, fy, fr, n);
  RUNS(.text = text_functions, .grid = { 4 }, .block = { 256 }, .value = { 0, 0, 0, &n },
       .memory = { MEM(fx), MEM(fy), MEM(fo) });
  double worst = 0;
  for (int k = 0; k < N; k++) {
    const double d = fabs((double)fo[k] - (double)fr[k]) / (1 + fabs((double)fr[k]));
    if (!(d <= worst)) worst = d;
  }
  CHECK(worst < 2e-5);
}

/* ---- halves -------------------------------------------------------------------------- */

static void test_halves(void) {
  static const char text[] =
    "__global__ void half_sum(const __half *x, __half *y, __nv_bfloat16 *z, int n) {\n"
    "  int i = threadIdx.x;\n"
    "  if (i >= n) return;\n"
    "  __half s = x[i];\n"
    "  for (int k = 1; k < 4; k++) s = s + x[(i + k) % n] * x[i];\n"
    "  y[i] = s; z[i] = __float2bfloat16(__half2float(s) * 3.0f);\n"
    "}\n";
  enum { H = 50 };
  uint16_t x[H], y[H], z[H];
  const int n = H;
  int bad = 0;
  for (int k = 0; k < H; k++) x[k] = (uint16_t)(0x3800 + random_bits() % 0x1000);
  RUNS(.text = text, .block = { 64 }, .value = { 0, 0, 0, &n },
       .memory = { MEM(x), MEM(y), MEM(z) });
  for (int i = 0; i < H; i++) {
    float s = fl_f16_to_f32(x[i]);
    for (int k = 1; k < 4; k++) {
      const float p =
          fl_f16_to_f32(fl_f32_to_f16(fl_f16_to_f32(x[(i + k) % n]) * fl_f16_to_f32(x[i])));
      s = fl_f16_to_f32(fl_f32_to_f16(s + p));
    }
    bad += y[i] != fl_f32_to_f16(s) || z[i] != fl_f32_to_bf16(s * 3.0f);
  }
  CHECK(bad == 0);
}

/* ---- blocks on threads, instruction sets --------------------------------------------- */

typedef struct crew {
  const fl_lane_code *code;
  const fl_lane_launch *launch;
  atomic_long next;
  long blocks;
  fl_lane_report found[2];
} crew;
typedef struct member { crew *crew; int number; void *scratch; } member;

static void *work(void *arg) {
  member *w = arg;
  crew *c = w->crew;
  fl_lane_begin(c->code, c->launch, w->scratch);
  for (;;) {
    const long k = atomic_fetch_add(&c->next, 1);
    if (k >= c->blocks) return NULL;
    fl_lane_report r = { 0 };
    if (!fl_lane_block(c->code, c->launch, c->blocks - 1 - k, w->scratch, &r))
      fl_lane_report_join(&c->found[w->number], &r);
  }
}

/* Runs the kernel's blocks from the last to the first, on two CPU threads. Returns fl_lane_serial's
** answer: 1 if its blocks would have to run one after the other, else 0. */
static int run_on_threads(const char *text, const fl_lane_arg *args, uint32_t grid, uint32_t block,
                          fl_lane_report *r) {
  fl_error e = { 0 };
  fl_ksource *s = fl_ksource_parse(&memory, &e, text, strlen(text));
  fl_lane_code *code = fl_lane_compile(&memory, s->kernels[0], &e);
  fl_lane_launch l = { .grid = { grid, 1, 1 }, .block = { block, 1, 1 }, .args = args,
                       .n_args = s->kernels[0]->n_params };
  crew c = { .code = code, .launch = &l, .blocks = (long)grid };
  member w[2];
  pthread_t thread[2];
  const size_t bytes = fl_lane_scratch(code, &l);
  for (int k = 0; k < 2; k++) {
    w[k] = (member){ &c, k, fl_alloc(&memory, bytes) };
    pthread_create(&thread[k], NULL, work, &w[k]);
  }
  for (int k = 0; k < 2; k++) {
    pthread_join(thread[k], NULL);
    fl_free(&memory, w[k].scratch, bytes);
    fl_lane_report_join(r, &c.found[k]);
  }
  const int serial = fl_lane_serial(code, &l);
  fl_lane_free(code);
  fl_ksource_free(s);
  return serial;
}

static void test_threads(void) {
  const int n = N;
  const fl_lane_memory x = MEM(ix), out = MEM(io), fmem = MEM(fx), short_out = { fo, 4 * 300 };
  const fl_lane_arg args[] = { { 0, &x }, { 0, &out }, { &n, 0 } };
  fl_lane_report r = { 0 };
  fill();
  for (int k = 0; k < N; k++) ix[k] &= 1023;
  EACH_THREAD(dim(32, 1, 1), dim(32, 1, 1)) collatz(ix, ir, n);
  CHECK(run_on_threads(text_collatz, args, 32, 32, &r) == 0);
  CHECK(!r.kind && !memcmp(io, ir, sizeof io));
  const fl_lane_arg bad[] = { { 0, &fmem }, { 0, &short_out }, { &n, 0 } };
  CHECK(run_on_threads(HEAD "  if (i < n) out[i] = x[i];\n}", bad, 32, 32, &r) == 0);
  CHECK(r.kind == FL_LANE_INDEX && r.at.block == 9 && r.at.thread == 12 && r.index == 300);
}

static int serial(const char *text, const fl_lane_arg *args) {
  fl_error e = { 0 };
  fl_ksource *s = fl_ksource_parse(&memory, &e, text, strlen(text));
  fl_lane_code *code = fl_lane_compile(&memory, s->kernels[0], &e);
  const fl_lane_launch l = { .grid = { 2, 1, 1 }, .block = { 32, 1, 1 }, .args = args,
                             .n_args = 3 };
  const int answer = fl_lane_serial(code, &l);
  fl_lane_free(code);
  fl_ksource_free(s);
  return answer;
}

static void test_serial(void) {
  const int n = N;
  const fl_lane_memory x = MEM(fx), out = MEM(fo);
  const fl_lane_arg args[] = { { 0, &x }, { 0, &out }, { &n, 0 } },
                    twice[] = { { 0, &x }, { 0, &x }, { &n, 0 } };
  CHECK(!serial(HEAD "  if (i < n) out[i] += x[i];\n}", args));
  CHECK(serial(HEAD "  if (i < n) out[i / 2] += x[i];\n}", args));
  CHECK(serial(HEAD "  atomicAdd(&out[0], x[i]);\n}", args));
  CHECK(!serial(HEAD "  out[i * 2] = x[i];\n}", args));
  CHECK(serial(HEAD "  out[i] = x[n - i];\n}", twice));
  CHECK(serial(HEAD "  printf(\"%d\", i);\n}", args));
}

/* Every instruction set gives the same bits. */
static void test_instruction_sets(void) {
  const int n = N;
  fill();
  setenv("FLAME_ISA", "base", 1);
  RUNS(.text = text_functions, .grid = { 4 }, .block = { 256 }, .value = { 0, 0, 0, &n },
       .memory = { MEM(fx), MEM(fy), MEM(fr) });
  RUNS(.text = text_doubles, .grid = { 4 }, .block = { 256 }, .value = { 0, 0, 0, &n },
       .memory = { MEM(dx), MEM(fy), MEM(dr) });
  unsetenv("FLAME_ISA");
  RUNS(.text = text_functions, .grid = { 4 }, .block = { 256 }, .value = { 0, 0, 0, &n },
       .memory = { MEM(fx), MEM(fy), MEM(fo) });
  RUNS(.text = text_doubles, .grid = { 4 }, .block = { 256 }, .value = { 0, 0, 0, &n },
       .memory = { MEM(dx), MEM(fy), MEM(dout) });
  CHECK(!memcmp(fo, fr, sizeof fo) && !memcmp(dout, dr, sizeof dr));
}

int main(void) {
  test_saxpy();
  test_integers();
  test_control_flow();
  test_memory();
  test_structs();
  test_functions();
  test_halves();
  test_threads();
  test_serial();
  test_instruction_sets();
  CHECK(memory.live_bytes == 0);
  printf("kernel_lane: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
