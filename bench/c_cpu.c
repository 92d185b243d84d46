/*
** Measures the CPU device without Lua and without planning: products of matrices by OpenBLAS and by
** the library's kernel (GFLOP/s), and fused kernels that are written here by hand (GB/s and ns per
** element). Usage: c_cpu [threads]. Each number is the best of several runs.
*/
#include "cpu/program/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct bench { flame_context *c; fl_device d; void *at[8]; } bench;   /* at: the arrays */

/* Opens a CPU device with a number of threads; blas: "" or "off", as FLAME_BLAS. Ends the program
** if that fails. */
static void open_bench(bench *b, int threads, const char *blas) {
  memset(b, 0, sizeof *b);
  b->c = calloc(1, sizeof *b->c);
  setenv("FLAME_BLAS", blas, 1);
  if (fl_cpu_open(b->c, &b->d, threads)) exit(1);
}

/* The least seconds of one run of the step: of at least 3 runs, and up to 400 in a quarter of a
** second. 0: it could not be prepared. */
static double best(bench *b, fl_step *s, const fl_scalar *scalar) {
  fl_plan p = { .nstep = 1, .step = s, .mem = &b->c->mem };
  const fl_binding bind = { b->at, NULL, NULL, scalar };
  fl_fault fault;
  int32_t done;
  double least = 1e9, spent = 0;
  if (b->d.table->prepare(&b->d, &p)) return 0;
  for (int i = 0; i < 400 && (i < 3 || spent < 0.25); i++) {
    const double t = now();
    b->d.table->run(&b->d, &p, &bind, &fault, &done);
    const double e = now() - t;
    spent += e;
    if (e < least) least = e;
  }
  p.unprepare(&p);
  return least;
}

/* An array of n numbers from -1 to 1; the caller frees it. */
static void *numbers(int64_t n, int dtype) {
  char *p = aligned_alloc(64, (size_t)((n * fl_dtype_size(dtype) + 63) & ~(int64_t)63));
  for (int64_t i = 0; i < n; i++)
    fl_scalar_store(p + i * fl_dtype_size(dtype), dtype,
                    (fl_scalar){ .d = (double)(i * 7919 % 1000) / 500 - 1 });
  return p;
}

/* Measures a product of two n x n matrices and prints its rate. what: the name of the line. */
static void gemm(bench *b, int64_t n, int dtype, const char *what) {
  fl_matmul m = { .dtype = (uint8_t)dtype, .m = n, .n = n, .k = n, .as = { n, 1 }, .bs = { n, 1 } };
  fl_step s = { .kind = FL_S_MATMUL, .matmul = &m };
  m.bt.index = 1;
  m.ct.index = 2;
  for (int i = 0; i < 3; i++) b->at[i] = numbers(n * n, dtype);
  const double t = best(b, &s, NULL);
  printf("%-10s %-5s %5ld^3  %8.1f GFLOP/s\n", what, fl_dtype_name(dtype), (long)n,
         2e-9 * (double)n * (double)n * (double)n / t);
  for (int i = 0; i < 3; i++) free(b->at[i]);
}

/* ---- fused kernels, made without the planner ------------------------------------------------- */

/* A kernel and the memory of its lists. */
typedef struct hand {
  fl_kernel k; fl_instr instr[32]; fl_operand operand[8]; fl_store store[4]; uint32_t scalar[8];
} hand;

/* Appends an instruction in f32 and returns its number, which later ones use as an operand. */
static int ins(hand *h, int code, int op, int a, int b, int level) {
  const int dtype = FLAME_F32;
  h->instr[h->k.ninstr] = (fl_instr){ .code = (uint8_t)code, .dtype = (uint8_t)dtype,
                                      .from = (uint8_t)dtype,
    .op = (uint16_t)op, .a = (uint16_t)a, .b = (uint16_t)b, .level = (uint8_t)level,
    .arg = (uint16_t)a };
  return h->k.ninstr++;
}

/* Starts a kernel of this kind: over rows * n elements, or reductions of 'rows' rows of n. */
static void space(hand *h, int kind, int64_t rows, int64_t n) {
  memset(h, 0, sizeof *h);
  h->k = (fl_kernel){ .kind = (uint8_t)kind, .nkept = rows > 1 || kind == FL_K_MAP,
                      .nred = kind != FL_K_MAP,
    .points = rows * n, .rows = rows, .n = n, .instr = h->instr, .operand = h->operand,
    .store = h->store, .scalar = h->scalar };
  int d = 0;
  if (h->k.nkept) h->k.size[d++] = kind == FL_K_MAP ? rows * n : rows;
  if (h->k.nred) h->k.size[d] = n;
  for (int i = 0; i < 8; i++) h->scalar[i] = (uint32_t)i;
}

/* Adds an array with its strides along the kept axis and the reduced one; returns its number. */
static int operand(hand *h, int64_t kept, int64_t red) {
  fl_operand *o = &h->operand[h->k.noperand];
  o->dtype = FLAME_F32;
  o->place.index = h->k.noperand;
  o->stride[0] = h->k.nkept ? kept : red;
  if (h->k.nkept) o->stride[1] = red;
  return h->k.noperand++;
}

/* Value v is stored into operand o. */
static void store(hand *h, int v, int o) {
  h->store[h->k.nstore++] = (fl_store){ (uint16_t)v, (uint16_t)o };
}

/* Measures the kernel and prints its times. arrays: how many arrays of its size it reads or writes,
** for GB/s. */
static void report(bench *b, hand *h, const char *what, int arrays) {
  const fl_scalar scalar[8] = { { .d = 2 }, { .d = 1 }, { .d = 0.9 }, { .d = 0.1 }, { .d = 1e-8 },
                                { .d = 0.01 } };
  fl_step s = { .kind = FL_S_KERNEL, .count = 1, .kernel = &h->k };
  for (int i = 0; i < h->k.noperand; i++) b->at[i] = numbers(h->k.points, FLAME_F32);
  const double t = best(b, &s, scalar), n = (double)h->k.points;
  printf("%-34s %9ld x %-8ld %7.2f GB/s %7.3f ns an element %9.2f us\n",
         what, (long)h->k.rows, (long)h->k.n, 4e-9 * n * arrays / t, 1e9 * t / n, 1e6 * t);
  for (int i = 0; i < h->k.noperand; i++) free(b->at[i]);
}

/* Elementwise kernels on n elements. */
static void maps(bench *b, int64_t n) {
  hand h;
  space(&h, FL_K_MAP, 1, n);                     /* relu(x * 2 + 1) */
  const int x = operand(&h, 1, 0), y = operand(&h, 1, 0);
  const int v = ins(&h, FL_I_LOAD, 0, x, 0, 1), s0 = ins(&h, FL_I_SCALAR, 0, 0, 0, 1),
            s1 = ins(&h, FL_I_SCALAR, 0, 1, 0, 1);
  const int m = ins(&h, FL_I_OP, FL_OP_mul, v, s0, 1), a = ins(&h, FL_I_OP, FL_OP_add, m, s1, 1);
  store(&h, ins(&h, FL_I_OP, FL_OP_relu, a, 0, 1), y);
  report(b, &h, "relu(2 x + 1)", 2);
  static const int ops[] = { FL_OP_exp, FL_OP_tanh, FL_OP_log, FL_OP_erf, FL_OP_sigmoid,
                             FL_OP_sin };
  for (int i = 0; i < 6; i++) {
    space(&h, FL_K_MAP, 1, n);
    operand(&h, 1, 0);
    operand(&h, 1, 0);
    store(&h, ins(&h, FL_I_OP, ops[i], ins(&h, FL_I_LOAD, 0, 0, 0, 1), 0, 1), 1);
    report(b, &h, fl_ops[ops[i]].name, 2);
  }
}

/* Softmax and reductions of 'rows' rows of n elements. */
static void rows(bench *b, int64_t rows, int64_t n) {
  hand h;
  space(&h, FL_K_ROW, rows, n);                  /* softmax */
  operand(&h, n, 1);
  operand(&h, n, 1);
  const int x = ins(&h, FL_I_LOAD, 0, 0, 0, 1), m = ins(&h, FL_I_REDUCE, FL_OP_amax, x, 0, 0);
  const int e = ins(&h, FL_I_OP, FL_OP_exp, ins(&h, FL_I_OP, FL_OP_sub, x, m, 1), 0, 1);
  const int s = ins(&h, FL_I_REDUCE, FL_OP_sum, e, 0, 0);
  store(&h, ins(&h, FL_I_OP, FL_OP_div, e, s, 1), 1);
  report(b, &h, "softmax", 2);
  space(&h, FL_K_ROW, rows, n);                  /* sum of rows */
  operand(&h, n, 1);
  operand(&h, 1, 0);
  store(&h, ins(&h, FL_I_REDUCE, FL_OP_sum, ins(&h, FL_I_LOAD, 0, 0, 0, 1), 0, 0), 1);
  report(b, &h, "row sum", 1);
  space(&h, FL_K_ROW, rows, n);                  /* largest of rows */
  operand(&h, n, 1);
  operand(&h, 1, 0);
  store(&h, ins(&h, FL_I_REDUCE, FL_OP_amax, ins(&h, FL_I_LOAD, 0, 0, 0, 1), 0, 0), 1);
  report(b, &h, "row amax", 1);
  space(&h, FL_K_COL, rows, n);                  /* sums of 'rows' columns of n */
  operand(&h, 1, rows);
  operand(&h, 1, 0);
  store(&h, ins(&h, FL_I_REDUCE, FL_OP_sum, ins(&h, FL_I_LOAD, 0, 0, 0, 1), 0, 0), 1);
  report(b, &h, "column sum", 1);
}

/* y = -x transposed; random tensors; sums of c columns of 2^20 / c elements. */
static void others(bench *b) {
  hand h;
  const int64_t n = 2048;
  space(&h, FL_K_MAP, n, n);
  h.k.nkept = 2;
  h.k.size[0] = h.k.size[1] = n;
  operand(&h, 1, 0);
  operand(&h, n, 0);
  h.operand[0].stride[1] = n;
  h.operand[1].stride[1] = 1;
  store(&h, ins(&h, FL_I_OP, FL_OP_neg, ins(&h, FL_I_LOAD, 0, 0, 0, 1), 0, 1), 1);
  report(b, &h, "transposed", 2);
  for (int op = FL_OP_uniform; op <= FL_OP_normal; op++) {
    space(&h, FL_K_MAP, 1, 1 << 20);
    operand(&h, 1, 0);
    operand(&h, 1, 0);
    h.operand[1].dtype = FLAME_I64;
    const int at = ins(&h, FL_I_IOTA, 0, 1, 0, 1), lo = ins(&h, FL_I_SCALAR, 0, 1, 0, 1),
              hi = ins(&h, FL_I_SCALAR, 0, 0, 0, 1);
    h.instr[at].dtype = h.instr[at].from = FLAME_I64;
    const int v = ins(&h, FL_I_RANDOM, op, at, lo, 1);
    h.instr[v].c = (uint16_t)hi;
    h.instr[v].arg = 2;
    h.operand[1].dtype = FLAME_F32;
    store(&h, v, 0);
    report(b, &h, fl_ops[op].name, 1);
  }
  for (int64_t c = 1; c <= 64; c *= 8) {         /* few long columns */
    space(&h, FL_K_COL, c, (1 << 20) / c);
    operand(&h, 1, c);
    operand(&h, 1, 0);
    store(&h, ins(&h, FL_I_REDUCE, FL_OP_sum, ins(&h, FL_I_LOAD, 0, 0, 0, 1), 0, 0), 1);
    report(b, &h, "column sum", 1);
  }
}

int main(int argc, char **argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 1;
  bench b;
  open_bench(&b, threads, "");
  gemm(&b, 512, FLAME_F32, "library");
  gemm(&b, 512, FLAME_F64, "library");
  b.d.table->close(&b.d);
  open_bench(&b, threads, "off");
  gemm(&b, 512, FLAME_F32, "own");
  gemm(&b, 512, FLAME_F64, "own");
  gemm(&b, 512, FLAME_BF16, "own");
  gemm(&b, 64, FLAME_F32, "own");
  maps(&b, 16);
  maps(&b, 1 << 20);
  rows(&b, 1, 1 << 22);
  rows(&b, 65536, 10);
  rows(&b, 8192, 65);
  rows(&b, 1024, 1024);
  rows(&b, 128, 8192);
  rows(&b, 32, 65536);
  others(&b);
  b.d.table->close(&b.d);
  return 0;
}
