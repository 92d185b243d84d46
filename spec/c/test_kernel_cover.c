/*
** Proofs that a kernel writes every element of an output, which then needs no zeros before
** (kernel/facts/cover.h). The analysis is applied to each kernel here with many launches and
** scalars. Where it finds that all is written, the kernel runs on an output filled with a special
** value, of which none may be left. 'want' not 0: the proof must succeed at the launch that usual()
** makes for this 'want'. 'want' 0: the kernel may leave an element out there, and the proof must
** fail.
*/
#include "kernel/facts/cover.h"
#include "kernel/lanes/lane.h"
#include "kernel/front/source.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };
static int passed, failed;
static fl_mem mem;

static void check(int ok, const char *what, const char *detail) {
  if (ok) passed++;
  else failed++, printf("FAILED: %s: %s\n", what, detail);
}

/* The parameters of each kernel are const float *x, float *y, int a, int b. */
typedef struct kernel { const char *name; int want; const char *body; } kernel;
#define I "int i = blockIdx.x * blockDim.x + threadIdx.x; "
#define XY I "int j = blockIdx.y * blockDim.y + threadIdx.y; "
static const kernel kernels[] = {
  { "guarded", 1, I "if (i < a) y[i] = x[i];" },
  { "guarded in 64 bits", 1,
    "long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; if (i < a) y[i] = 1.f;" },
  { "guarded, unsigned", 1,
    "unsigned i = threadIdx.x + blockIdx.x * blockDim.x; if (i < (unsigned)a) y[i] = 1.f;" },
  { "early return", 1, I "if (i >= a) return; float v = x[i]; y[i] = v * v;" },
  { "guard the other way round", 1, I "if (a > i) y[i] = x[i];" },
  { "guard with <=", 1, I "if (i <= a - 1) y[i] = x[i];" },
  { "guard kept in a variable", 1, I "bool in = i < a; if (in) y[i] = x[i];" },
  { "not of the opposite", 1, I "if (!(i >= a)) y[i] = x[i];" },
  { "both branches", 1, I "if (i < a) { if (x[i] > 0.f) y[i] = 1.f; else y[i] = 2.f; }" },
  { "a return in one branch", 1,
    I "if (i >= a) return; if (x[i] > 0.f) { y[i] = 1.f; return; } y[i] = 2.f;" },
  { "rewritten and read", 1, I "if (i < a) { y[i] = x[i]; y[i] = y[i] * 2.f; }" },
  { "a loop before", 1,
    I "if (i >= a) return; float s = 0; for (int k = 0; k < 5; k++) { if (x[i] > s) break; s += 1.f; } y[i] = s;" },
  { "a loop that continues and breaks before", 1,
    I "if (i >= a) return; float s = 0; for (int k = 0; k < 5; k++) { if (x[i] > s) continue; if (x[i] < -s) break; s += 1.f; } y[i] = s;" },
  { "grid stride", 1,
    "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < a; i += blockDim.x * gridDim.x) y[i] = x[i];" },
  { "one thread for all", 1, "for (int i = 0; i < a; i++) y[i] = x[i];" },
  { "two dimensions", 2, XY "if (i < a && j < b) y[j * a + i] = x[j * a + i];" },
  { "two dimensions, return", 2, XY "if (i >= a || j >= b) return; y[j * a + i] = 1.f;" },
  { "two dimensions, nested", 2, XY "if (i < a) { if (j >= b) return; y[i + a * j] = 1.f; }" },
  { "rows by blocks", 3,
    "int r = blockIdx.x; for (int c = threadIdx.x; c < a; c += blockDim.x) y[r * a + c] = x[r * a + c];" },
  { "a value a block", 4, "if (threadIdx.x == 0) y[blockIdx.x] = x[blockIdx.x];" },
  { "four at a time", 5,
    I "if (4 * i + 3 < a) { y[4 * i] = 1.f; y[4 * i + 1] = 2.f; y[4 * i + 2] = 3.f; y[4 * i + 3] = 4.f; }" },
  /* near misses */
  { "another condition", 0, I "if (i < a && x[i] > 0.f) y[i] = x[i];" },
  { "one of two branches", 0, I "if (i < a) { if (x[i] > 0.f) y[i] = 1.f; }" },
  { "different elements in the branches", 0,
    I "if (i < a) { if (x[i] > 0.f) y[i] = 1.f; else y[a - 1 - i] = 2.f; }" },
  { "one to the right", 0, I "if (i + 1 < a) y[i + 1] = x[i];" },
  { "all but the last", 0, I "if (i < a - 1) y[i] = x[i];" },
  { "all but the first", 0, I "if (i > 0 && i < a) y[i] = x[i];" },
  { "a loop that breaks", 0,
    "for (int i = 0; i < a; i++) { if (x[i] > 0.5f) break; y[i] = 1.f; }" },
  { "a loop that breaks behind the store", 0,
    "for (int i = 0; i < a; i++) { y[i] = 1.f; if (x[i] > 0.5f) break; }" },
  { "a loop that continues", 0,
    "for (int i = 0; i < a; i++) { if (x[i] > 0.5f) continue; y[i] = 1.f; }" },
  { "a loop with few rounds", 0, I "for (int k = 0; k < b; k++) if (i < a) y[i] = 1.f;" },
  { "a return before", 0, I "if (x[0] > 0.f) return; if (i < a) y[i] = 1.f;" },
  { "a return in a branch before", 0,
    I "if (x[0] > 0.f) { if (i > 3) return; } if (i < a) y[i] = 1.f;" },
  { "a return behind a continue", 0,
    I "for (int k = 0; k < 3; k++) { if (x[k] > 0.f) continue; if (x[k] < -1.f) return; } if (i < a) y[i] = 1.f;" },
  { "a return behind a break", 0,
    I "while (x[0] > 0.f) { if (i > 3) break; if (i > 2) return; } if (i < a) y[i] = 1.f;" },
  { "a return behind a break of a switch", 0,
    I "switch (i % 3) { case 0: if (x[0] > 0.f) break; return; case 1: break; } if (i < a) y[i] = 1.f;" },
  { "a return behind a break, two loops deep", 0,
    I "for (int k = 0; k < 2; k++) { for (int j = 0; j < 2; j++) { if (x[j] > 0.f) continue; if (x[j] < -1.f) return; } } if (i < a) y[i] = 1.f;" },
  { "the index is stepped on", 0, I "i = i + 1; if (i < a) y[i] = 1.f;" },
  { "the index is changed under a condition", 0,
    I "if (x[0] > 0.f) i = 0; if (i < a) y[i] = 1.f;" },
  { "every second", 0, I "if (2 * i < a) y[2 * i] = 1.f;" },
  { "three of four", 0,
    I "if (4 * i + 3 < a) { y[4 * i] = 1.f; y[4 * i + 1] = 2.f; y[4 * i + 3] = 4.f; }" },
  { "accumulated", 0, I "if (i < a) y[i] += x[i];" },
  { "read before", 0, I "if (i < a) { float v = y[i]; y[i] = v + x[i]; }" },
  { "read elsewhere", 0, I "if (i < a) { y[i] = x[i]; if (i > 0) y[i] = y[i - 1]; }" },
  { "unsigned and below zero", 0, I "if ((unsigned)(i - 5) < (unsigned)a) y[i - 5] = 1.f;" },
  { "guard on the block alone", 0, I "if (blockIdx.x < 2 && i < a) y[i] = 1.f;" },
  { "guard on the thread in its block", 0, I "if (threadIdx.x < 5 && i < a) y[i] = 1.f;" },
  { "one thread of each block in a loop", 0,
    "if (threadIdx.x < 2) for (int c = threadIdx.x; c < a; c += blockDim.x) y[c] = 1.f;" },
  { "a counter twice", 0,
    "for (int c = threadIdx.x; c < a; c += blockDim.x) y[c + a * threadIdx.x] = 1.f;" },
  { "wrong stride", 0, XY "if (i < a && j < b) y[j * b + i] = 1.f;" },
  { "a step too long", 0, I "for (int k = i; k < a; k += blockDim.x * gridDim.x + 1) y[k] = 1.f;" },
  { "an atomic", 0, I "if (i < a) atomicAdd(&y[i], 1.f);" },
  { "a switch", 0,
    I "if (i >= a) return; switch (i % 3) { case 0: y[i] = 1.f; break; case 1: y[i] = 2.f; }" },
  { "a loop inside that never runs", 0, I "if (i < a) while (x[i] > 2.f) { y[i] = 1.f; break; }" },
  { "equal to five", 0, I "if (i - 5 == 0) y[i] = 1.f;" },
  { "cut by the shift", 0, I "if (i < a) y[i >> 1] = 1.f;" },
  { "through a byte", 0, I "unsigned char k = i; if (i < a) y[k] = 1.f;" },
};

typedef struct launch {
  fl_lane_launch l; fl_lane_arg arg[4]; fl_lane_memory m[4]; int32_t a, b;
} launch;

static const void *argument(void *arg, int i) {
  launch *x = arg;
  return i == 2 ? (const void *)&x->a : i == 3 ? (const void *)&x->b : NULL;
}

static void set(launch *x, int gx, int gy, int bx, int by, int a, int b) {
  static float in[MOST];
  for (int i = 0; i < MOST; i++) in[i] = (float)((i * 37) % 101) / 50.f - 1.f;
  *x = (launch){ .a = a, .b = b };
  x->l = (fl_lane_launch){ .grid = { (uint32_t)gx, (uint32_t)gy, 1 },
                           .block = { (uint32_t)bx, (uint32_t)by, 1 },
                           .args = x->arg, .n_args = 4, .max_steps = 100000 };
  x->m[0] = (fl_lane_memory){ in, sizeof in };
  x->arg[0].memory = &x->m[0];
  x->arg[1].memory = &x->m[1];
  x->arg[2].value = &x->a;
  x->arg[3].value = &x->b;
}

static int says_all(fl_kcover *c, launch *x, int64_t n) {
  fl_kcover_launch q = { .argument = argument, .arg = x };
  for (int i = 0; i < 3; i++) q.grid[i] = x->l.grid[i], q.block[i] = x->l.block[i];
  return fl_kcover_all(c, 1, n, &q);
}

/* Runs the kernel on an output full of a special value; returns how many elements still have it, or
** -1 after a fault. */
static int left_over(const fl_lane_code *code, launch *x, int n) {
  static uint32_t out[MOST];
  fl_lane_report report = { 0 };
  fl_error e = { .code = FLAME_OK };
  int left = 0;
  for (int i = 0; i < MOST; i++) out[i] = 0x7fdeadu;
  x->m[1] = (fl_lane_memory){ out, (int64_t)n * 4 };
  if (!fl_lane_run(&mem, code, &x->l, &report, &e)) return -1;
  for (int i = 0; i < n; i++) left += out[i] == 0x7fdeadu;
  return left;
}

static void usual(launch *x, int want, int *n) {
  const int a = want == 2 || want == 3 ? 12 : want == 5 ? 400 : 300;
  set(x, want == 2 ? 2 : 3, want == 2 ? 3 : 1, want == 2 ? 8 : 128, want == 2 ? 4 : 1, a, 10);
  *n = want == 2 ? 120 : want == 3 ? 36 : want == 4 ? 3 : a;
}

static void one(const kernel *k) {
  char text[700];
  fl_error e = { .code = FLAME_OK };
  launch x;
  int n, wrong = 0, yes = 0;
  snprintf(text, sizeof text, "__global__ void k(const float *x, float *y, int a, int b) { %s }",
           k->body);
  fl_ksource *s = fl_ksource_parse(&mem, &e, text, strlen(text));
  const fl_kfunc *f = s && s->n_kernels ? s->kernels[0] : NULL;
  check(f && f->has_body, k->name, f && f->refusal ? f->refusal : "it does not parse");
  if (!f || !f->has_body) { fl_ksource_free(s); return; }
  fl_kcover *c = fl_kcover_new(&mem, f);
  fl_lane_code *code = fl_lane_compile(&mem, f, &e);
  usual(&x, k->want, &n);
  check(says_all(c, &x, n) == (k->want > 0), k->name,
        k->want ? "is not recognised" : "is taken for whole");
  for (int i = 0; i < 4000; i++) {
    static const int sizes[] = { 1, 2, 3, 4, 7, 8, 10, 16, 31, 32, 33, 64, 100 };
    const int m = (int)(sizeof sizes / sizeof *sizes);
    const int a = sizes[rand() % m] - (rand() % 9 == 0 ? 3 : 0), b = sizes[rand() % m];
    set(&x, 1 + rand() % 4, 1 + rand() % 3, sizes[rand() % (m - 4)], 1 + rand() % 4, a, b);
    const int any[] = { a, b, a * b, a + 1, (int)x.l.grid[0] * a, (int)x.l.grid[0],
                        1 + rand() % 64 };
    n = any[rand() % 7];
    if (n < 1 || n > MOST || !says_all(c, &x, n)) continue;
    yes++;
    const int left = left_over(code, &x, n);
    if (left > 0 && !wrong++)
      printf("  %s: grid %u %u block %u %u a %d b %d n %d: %d left\n", k->name, x.l.grid[0],
             x.l.grid[1], x.l.block[0], x.l.block[1], a, b, n, left);
  }
  check(!wrong, k->name, "elements are left unwritten");
  check(!k->want || yes > 20, k->name, "too few launches are recognised");
  fl_lane_free(code);
  fl_kcover_free(c);
  fl_ksource_free(s);
}

int main(void) {
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) one(&kernels[i]);
  check(mem.live_blocks == 0, "memory", "something is left");
  printf("kernel_cover: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
