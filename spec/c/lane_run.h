/*
** What the tests of kernel/lanes/ share: running a kernel text with arguments, or seeing it fail
** with a message, and arrays of values.
*/
#ifndef LANE_RUN_H
#define LANE_RUN_H
#include "kernel/lanes/lane.h"
#include "kernel/front/source.h"
#include "tensor/dtype.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;
static fl_mem memory;

static inline void check(int ok, const char *what, int line) {
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
  fl_lane_shadow *shadow;
  void (*print)(void *, const char *, size_t);
  fl_lane_memory memory[16];     /* of the pointer parameters, in order */
  const void *value[16];         /* the other parameters, by their position */
} job;

static fl_lane_report report;
static char message[1000];

/* Compiles and runs the kernel; returns 1, or 0 after a fault or an error, with 'message' set. */
static inline int execute(const job *j) {
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
                         .shadow = j->shadow,
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

static inline void runs(const job *j, int line) {
  const int ok = execute(j);
  if (!ok) fprintf(stderr, "line %d: %s\n", line, message);
  check(ok, "the kernel runs", line);
}
#define RUNS(...) runs(&(job){ __VA_ARGS__ }, __LINE__)

static inline void fails(const job *j, const char *expected, int line) {
  const int ok = execute(j);
  if (ok || strcmp(message, expected))
    fprintf(stderr, "line %d: expected: %s\n     got: %s\n",
            line, expected, ok ? "no error" : message);
  check(!ok && !strcmp(message, expected), "the error is found", line);
}
#define FAILS(expected, ...) fails(&(job){ __VA_ARGS__ }, expected, __LINE__)
#define MEM(a) { (a), sizeof (a) }

/* ---- values ---------------------------------------------------------------------------- */

enum { N = 1000 };
static float fx[N], fy[N], fo[N], fr[N];
static double dx[N], dout[N], dr[N];
static int ix[N], iy[N], io[8 * N], ir[8 * N];
static long long lx[N], ly[N], lo[8 * N], lr[8 * N];

static uint32_t seed = 1;
static inline uint32_t random_bits(void) {
  seed ^= seed << 13;
  seed ^= seed >> 17;
  return seed ^= seed << 5;
}

static inline void fill(void) {
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

/* The head of a kernel in which i is the thread's index. */
#define HEAD "__global__ void k(const float *x, float *out, int n) {\n" \
             "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
#endif
