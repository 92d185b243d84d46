/*
** kernel/lane*.c: user kernels on the CPU. A kernel of KERNEL(...) is the same text twice: a
** string for the library's parser, and a C function that is called for one thread after the
** other; the arrays must then agree in every bit (math functions: within a tolerance). What
** threads do together (shared memory, shuffles, atomics) is compared with plain loops.
** Planted errors are caught with their line, thread and block; memory may run out anywhere.
*/
#include "kernel/lane.h"
#include "kernel/source.h"
#include "tensor/dtype.h"
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wimplicit-fallthrough"      /* one text, two languages */

static int passed, failed;
static fl_mem memory;

static void check(int ok, const char *what, int line) {
  if (ok) passed++;
  else { failed++; fprintf(stderr, "FAILED (line %d): %s\n", line, what); }
}
#define CHECK(cond) check((cond) != 0, #cond, __LINE__)

/* ---- running a text ------------------------------------------------------------------ */

typedef struct job {
  const char *text, *entry;
  uint32_t grid[3], block[3];
  int64_t shared;
  unsigned checks;
  int64_t max_steps;
  const atomic_int *stop;
  void (*print)(void *, const char *, size_t);
  fl_lane_memory memory[16];     /* of the pointers in order */
  const void *value[16];         /* of the other parameters, by parameter */
} job;

static fl_lane_report report;
static char message[600];

/* 1: ran; 0: fault or no run, with 'message'. */
static int execute(const job *j) {
  fl_error e = { 0 };
  int ok = 0;
  fl_lane_code *code = NULL;
  message[0] = 0;
  memset(&report, 0, sizeof report);
  fl_ksource *s = fl_ksource_parse(&memory, &e, j->text, strlen(j->text));
  fl_kfunc *f = !s ? NULL : j->entry ? fl_ksource_kernel(s, j->entry)
              : s->n_kernels ? s->kernels[0] : NULL;
  if (s && !f) snprintf(message, sizeof message, "no kernel: %s", s->error ? s->error : "");
  if (f) code = fl_lane_compile(&memory, f, &e);
  if (code) {
    fl_lane_arg args[16];
    int next = 0;
    for (int k = 0; k < f->n_params; k++) {
      const fl_kparam *p = &f->params[k];
      args[k] = (fl_lane_arg){ j->value[k], &j->memory[next] };
      if (p->is_pointer) next++;
      else for (int q = 0; q < p->n_fields; q++) next += p->fields[q].is_pointer;
    }
    fl_lane_launch l = { .args = args, .n_args = f->n_params, .shared_bytes = j->shared,
                         .checks = j->checks, .max_steps = j->max_steps, .stop = j->stop,
                         .print = j->print };
    for (int d = 0; d < 3; d++) {
      l.grid[d] = j->grid[d] ? j->grid[d] : 1;
      l.block[d] = j->block[d] ? j->block[d] : 1;
    }
    ok = fl_lane_run(&memory, code, &l, &report, &e);
    fl_text t;
    fl_text_init(&t, &memory);
    fl_lane_message(&report, &t);
    if (!ok && fl_text_str(&t)) snprintf(message, sizeof message, "%s", fl_text_str(&t));
    fl_text_free(&t);
  }
  if (e.code) snprintf(message, sizeof message, "%s", e.message);
  fl_lane_free(code);
  fl_ksource_free(s);
  return ok;
}

static void runs(const job *j, int line) {
  const int ok = execute(j);
  if (!ok) fprintf(stderr, "line %d: %s\n", line, message);
  check(ok, "the kernel runs", line);
}
#define RUNS(...) runs(&(job){ __VA_ARGS__ }, __LINE__)

static void fails(const job *j, const char *expected, int line) {
  const int ok = execute(j);
  if (ok || strcmp(message, expected))
    fprintf(stderr, "line %d: expected: %s\n     got: %s\n", line, expected, ok ? "no error" : message);
  check(!ok && !strcmp(message, expected), "the error is found", line);
}
#define FAILS(expected, ...) fails(&(job){ __VA_ARGS__ }, expected, __LINE__)
#define MEM(a) { (a), sizeof (a) }

/* ---- one text, twice ----------------------------------------------------------------- */

typedef struct { unsigned x, y, z; } coordinates;
static coordinates threadIdx, blockIdx, blockDim, gridDim;

#define KERNEL(name, parameters, ...) \
  static const char text_##name[] = "__global__ void " #name #parameters #__VA_ARGS__; \
  static void name parameters __VA_ARGS__
#define DEVICE(name, ...) \
  static const char device_##name[] = "__device__ " #__VA_ARGS__ "\n"; \
  static __VA_ARGS__

/* For each thread in order: threadIdx and blockIdx are set. */
#define EACH_THREAD(g, b) \
  gridDim = (g); blockDim = (b); \
  for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++) \
  for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++) \
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) \
  for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++) \
  for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++) \
  for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)
static coordinates dim(unsigned x, unsigned y, unsigned z) { return (coordinates){ x, y, z }; }

enum { N = 1000 };
static float fx[N], fy[N], fo[N], fr[N];
static double dx[N], dout[N], dr[N];
static int ix[N], iy[N], io[8 * N], ir[8 * N];
static long long lx[N], ly[N], lo[8 * N], lr[8 * N];

static uint32_t seed = 1;
static uint32_t random_bits(void) {
  seed ^= seed << 13;
  seed ^= seed >> 17;
  return seed ^= seed << 5;
}

static void fill(void) {
  for (int k = 0; k < N; k++) {
    const int shift = (int)(random_bits() % 32);
    fx[k] = (float)((int)(random_bits() % 4001) - 2000) / 256;
    fy[k] = (float)((int)(random_bits() % 4001) - 2000) / 512;
    dx[k] = (double)fx[k] * 1.1;
    ix[k] = (int)random_bits() >> shift;
    iy[k] = (int)random_bits() >> (31 - shift);
    lx[k] = (long long)((uint64_t)random_bits() << 32 | random_bits()) >> (2 * shift);
    ly[k] = (long long)((uint64_t)random_bits() << 32 | random_bits()) >> (62 - 2 * shift);
  }
  memset(fo, 0, sizeof fo); memset(fr, 0, sizeof fr);
  memset(dout, 0, sizeof dout); memset(dr, 0, sizeof dr);
  memset(io, 0, sizeof io); memset(ir, 0, sizeof ir);
  memset(lo, 0, sizeof lo); memset(lr, 0, sizeof lr);
}

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
  out[3 * n + i] = (a < b) + 2 * (a <= b) + 4 * (u < v) + 8 * (u >= v) + 16 * (a == b) + 32 * (a != 7);
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
  out[3 * n + i] = (a < b) + 2 * (a >= b) + 4 * (u < v) + 8 * (u >= v) + (a == b) + (long long)(int)a;
  out[4 * n + i] = (long long)(float)(a >> 2) + (long long)((double)b * 0.25) + (long long)(short)a + !b;
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
  for (int k = 0; k < N; k++) { a[k] = (signed char)random_bits(); b[k] = (unsigned short)random_bits(); }
  EACH_THREAD(dim(4, 1, 1), dim(256, 1, 1)) bytes(a, b, cr, drs, n);
  RUNS(.text = text_bytes, .grid = { 4 }, .block = { 256 }, .value = { 0, 0, 0, 0, &n },
       .memory = { MEM(a), MEM(b), MEM(c), MEM(d) });
  CHECK(!memcmp(c, cr, sizeof c) && !memcmp(d, drs, sizeof d));
  EACH_THREAD(dim(4, 1, 1), dim(256, 1, 1)) doubles(dx, fy, dr, n);
  RUNS(.text = text_doubles, .grid = { 4 }, .block = { 256 }, .value = { 0, 0, 0, &n },
       .memory = { MEM(dx), MEM(fy), MEM(dout) });
  CHECK(!memcmp(dout, dr, sizeof dr));
  static const unsigned shape[][3] = { { 16, 4, 2 }, { 8, 8, 1 }, { 3, 5, 2 }, { 1, 32, 1 }, { 32, 1, 2 } };
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
  "struct Params { Particle p; const float *weight; float scale; };\n"
  "__global__ void move(Params q, float4 c, float4 *out, int n) {\n"
  "  int i = threadIdx.x;\n"
  "  if (i >= n) return;\n"
  "  Particle p = q.p; float4 v = out[i];\n"
  "  p.at.x += c.x * (float)i; p.kind[i & 1] += i;\n"
  "  v.x = p.at.x + p.at.y; v.y = p.mass * q.scale; v.z = (float)p.kind[0]; v.w += q.weight[i] + c.w;\n"
  "  out[i] = v;\n"
  "}\n";

static void test_structs(void) {
  struct { float at[3], mass; int kind[2]; const float *weight; float scale; } q =
    { { 1, 2, 3 }, 4, { 50, 60 }, NULL, 0.5f };
  const float c[4] = { 0.25f, 0, 0, 7 };
  const int n = 40;
  float out[160], weight[40];
  for (int k = 0; k < 160; k++) out[k] = (float)k;
  for (int k = 0; k < 40; k++) weight[k] = (float)(k * k);
  RUNS(.text = struct_text, .block = { 64 }, .value = { &q, c, 0, &n },
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

/* ---- threads together ---------------------------------------------------------------- */

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
  RUNS(.text = reduce_text, .entry = "votes", .block = { 64 }, .memory = { MEM(x), MEM(out) }, .checks = 7);
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
       .value = { 0, 0, 0, 0, &n }, .memory = { MEM(ix), MEM(bins), MEM(order), MEM(top) }, .checks = 7);
  CHECK(!memcmp(bins, expected, sizeof expected) && bins[16] == N);
  for (int k = 0; k < N; k++) bad += order[k] != k;          /* blocks and lanes in order */
  CHECK(bad == 0);
  CHECK(top[0] == most && top[1] == N % 10 && top[2] == 1);
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
  RUNS(.text = text, .block = { 64 }, .value = { 0, 0, 0, &n }, .memory = { MEM(x), MEM(y), MEM(z) });
  for (int i = 0; i < H; i++) {
    float s = fl_f16_to_f32(x[i]);
    for (int k = 1; k < 4; k++) {
      const float p = fl_f16_to_f32(fl_f32_to_f16(fl_f16_to_f32(x[(i + k) % n]) * fl_f16_to_f32(x[i])));
      s = fl_f16_to_f32(fl_f32_to_f16(s + p));
    }
    bad += y[i] != fl_f32_to_f16(s) || z[i] != fl_f32_to_bf16(s * 3.0f);
  }
  CHECK(bad == 0);
}

/* ---- planted errors ------------------------------------------------------------------ */

#define HEAD "__global__ void k(const float *x, float *out, int n) {\n" \
             "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"

static void test_index_errors(void) {
  const int n = N;
  fill();
  FAILS("kernel 'k', line 3: index 1000 of 'x' (1000 elements) by thread (231, 0, 0) of block (3, 0, 0)",
        .text = HEAD "  if (i < n) out[i] = x[i + 1];\n}", .grid = { 4 }, .block = { 256 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  FAILS("kernel 'k', line 3: index -1 of 'x' (1000 elements) by thread (0, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  float v = x[i - 1];\n  if (i < n) out[i] = v;\n}", .grid = { 4 },
        .block = { 256 }, .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  FAILS("kernel 'k', line 3: index 1000 of 'out' (1000 elements) by thread (232, 0, 0) of block (3, 0, 0)",
        .text = HEAD "  out[i] = 1.0f;\n}", .grid = { 4 }, .block = { 256 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  FAILS("kernel 'k', line 4: index [32][7] of 'tile' (32 x 33) by thread (1, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  __shared__ float tile[32][33];\n  tile[threadIdx.x + 31][7] = x[0];\n}",
        .block = { 8 }, .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  FAILS("kernel 'k', line 5: index 4 of 'a' (4 elements) by thread (3, 1, 0) of block (0, 0, 0)",
        .text = HEAD "  float a[4];\n  for (int j = 0; j < 4; j++) a[j] = x[j];\n"
                     "  out[threadIdx.x] = a[threadIdx.x + threadIdx.y];\n}",
        .block = { 4, 2 }, .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  FAILS("kernel 'k', line 3: index 1000 of 'out' (1000 elements) by thread (0, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  if (i == 0) atomicAdd(&out[n], x[0]);\n}", .block = { 32 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  CHECK(report.kind == FL_LANE_INDEX && report.index == 1000 && report.size == 1000);
}

static void test_race_errors(void) {
  const int n = N;
  fill();
  FAILS("kernel 'k', line 3: race: write of index 0 of 'out' (1000 elements) by thread (1, 0, 0) of block"
        " (0, 0, 0), but thread (0, 0, 0) of block (0, 0, 0) wrote it at line 3, with no barrier in between",
        .text = HEAD "  out[0] = (float)i;\n}", .block = { 32 }, .value = { 0, 0, &n },
        .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_RACE);
  RUNS(.text = HEAD "  out[0] = 5.0f;\n}", .block = { 32 }, .value = { 0, 0, &n },
       .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_RACE);
  FAILS("kernel 'k', line 5: race: read of index 1 of 's' (64 elements) by thread (0, 0, 0) of block"
        " (0, 0, 0), but thread (1, 0, 0) of block (0, 0, 0) wrote it at line 4, with no barrier in between",
        .text = HEAD "  __shared__ float s[64];\n  s[threadIdx.x] = x[i];\n"
                     "  out[i] = s[(threadIdx.x + 1) % 64];\n}",
        .block = { 64 }, .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_RACE);
  FAILS("kernel 'k', line 6: race: write of index 0 of 's' (64 elements) by thread (0, 0, 0) of block"
        " (0, 0, 0), but thread (1, 0, 0) of block (0, 0, 0) read it at line 6, with no barrier in between",
        .text = HEAD "  __shared__ float s[64];\n  s[threadIdx.x] = x[i];\n  __syncthreads();\n"
                     "  s[threadIdx.x] = s[threadIdx.x ^ 1];\n}",
        .block = { 64 }, .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_RACE);
  FAILS("kernel 'k', line 3: race: write of index 0 of 'out' (1000 elements) by thread (0, 0, 0) of block"
        " (1, 0, 0), but thread (0, 0, 0) of block (0, 0, 0) wrote it at line 3, with no barrier in between",
        .text = HEAD "  out[threadIdx.x] = (float)i + 1;\n}", .grid = { 2 }, .block = { 32 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_RACE);
  RUNS(.text = HEAD "  __shared__ float s[64];\n  s[threadIdx.x] = x[i];\n  __syncwarp();\n"
                    "  out[i] = s[threadIdx.x ^ 1];\n  atomicAdd(&out[500], 1.0f);\n}",
       .block = { 64 }, .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_RACE);
}

static void test_other_errors(void) {
  const int n = N, one = 1;
  fill();
  FAILS("kernel 'k', line 3: __syncthreads() is not reached by all threads: thread (0, 0, 0) of block"
        " (0, 0, 0) is there, thread (5, 0, 0) of block (0, 0, 0) is not",
        .text = HEAD "  if (i < 5) __syncthreads();\n  out[i] = 0;\n}", .block = { 32 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  RUNS(.text = HEAD "  if (i >= 5) return;\n  __syncthreads();\n  out[i] = 0;\n}", .block = { 32 },
       .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  FAILS("kernel 'k', line 4: uninitialised: index 3 of 's' (64 elements) is read before it is written,"
        " by thread (3, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  __shared__ float s[64]; if (i != 3) s[i] = x[i];\n  out[i] = s[i];\n}",
        .block = { 64 }, .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_UNINIT);
  FAILS("kernel 'k', line 5: variable 'v' has no value yet, read by thread (7, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  float v;\n  if (i < 7) v = x[i];\n  out[i] = v;\n}", .block = { 32 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_UNINIT);
  FAILS("kernel 'k', line 5: uninitialised: index 2 of 'a' (4 elements) is read before it is written,"
        " by thread (2, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  float a[4];\n  a[0] = x[0]; a[1] = x[1];\n  out[i] = a[i];\n}", .block = { 4 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_UNINIT);
  FAILS("kernel 'k', line 3: integer division by zero in thread (1, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  out[i] = (float)(n / (i - 1));\n}", .block = { 4 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_BOUNDS);
  FAILS("kernel 'k', line 3: assert(i < 3) failed in thread (3, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  assert(i < 3);\n  out[i] = 0;\n}", .block = { 32 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  FAILS("kernel 'k', line 3: the step limit is reached in a loop by thread (0, 0, 0) of block (0, 0, 0)",
        .text = HEAD "  while (n > 0) out[i] += 1.0f;\n}", .block = { 32 }, .max_steps = 100000,
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
  atomic_int stop = 1;
  CHECK(!execute(&(job){ .text = HEAD "  while (true) out[i] += 1.0f;\n}", .block = { 32 }, .stop = &stop,
                         .value = { 0, 0, &one }, .memory = { MEM(fx), MEM(fo) } }));
  CHECK(report.kind == FL_LANE_STOPPED);
  FAILS("kernel 'k', line 3: thread (15, 0, 0) of block (0, 0, 0) needs thread (16, 0, 0) of block"
        " (0, 0, 0), which is not there",
        .text = HEAD "  if (i < 16) out[i] = __shfl_down_sync(0xffffu, x[i], 1);\n}", .block = { 32 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) }, .checks = FL_LANE_BOUNDS);
  FAILS("'k': block of (50, 40, 1) threads, at most 1024", .text = HEAD "}", .block = { 50, 40 },
        .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) });
}

static char printed[400];
static void keep(void *arg, const char *text, size_t n) {
  (void)arg;
  const size_t have = strlen(printed);
  if (have + n < sizeof printed) { memcpy(printed + have, text, n); printed[have + n] = 0; }
}

static void test_printf(void) {
  const int n = 3;
  printed[0] = 0;
  fill();
  fx[1] = 2.5f;
  RUNS(.text = HEAD "  if (i > 0) printf(\"%d of %5.2f%% %x%c\\n\", i, x[1], 255u + i, 'a' + i);\n}",
       .block = { 3 }, .value = { 0, 0, &n }, .memory = { MEM(fx), MEM(fo) }, .print = keep);
  CHECK(strstr(printed, "1 of  2.50%") && strstr(printed, "101") && strstr(printed, "2 of"));
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

/* Blocks from the last to the first, on two threads. */
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
  const fl_lane_launch l = { .grid = { 2, 1, 1 }, .block = { 32, 1, 1 }, .args = args, .n_args = 3 };
  const int answer = fl_lane_serial(code, &l);
  fl_lane_free(code);
  fl_ksource_free(s);
  return answer;
}

static void test_serial(void) {
  const int n = N;
  const fl_lane_memory x = MEM(fx), out = MEM(fo);
  const fl_lane_arg args[] = { { 0, &x }, { 0, &out }, { &n, 0 } }, twice[] = { { 0, &x }, { 0, &x }, { &n, 0 } };
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

/* ---- an endless kernel is stopped from outside, at its next round -------------------- */

static atomic_int enough;
static void count_lines(void *arg, const char *text, size_t n) {
  (void)arg; (void)text; (void)n;
  atomic_fetch_add(&enough, 1);
}

static void test_stop(void) {
  const int n = N;
  atomic_store(&enough, 0);
  CHECK(!execute(&(job){ .text = HEAD "  while (n > 0) {\n    printf(\"on\");\n  }\n}", .block = { 1 },
                         .stop = &enough, .print = count_lines, .value = { 0, 0, &n },
                         .memory = { MEM(fx), MEM(fo) } }));
  CHECK(report.kind == FL_LANE_STOPPED && atomic_load(&enough) == 1);
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
  test_saxpy();
  test_integers();
  test_control_flow();
  test_memory();
  test_structs();
  test_functions();
  test_reductions();
  test_warps();
  test_atomics();
  test_halves();
  test_index_errors();
  test_race_errors();
  test_other_errors();
  test_printf();
  test_threads();
  test_serial();
  test_instruction_sets();
  test_stop();
  test_no_memory();
  CHECK(memory.live_bytes == 0);
  printf("kernel_lane: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
