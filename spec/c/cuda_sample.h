/*
** What the tests of the CUDA device share, on the fake driver and on a real one: checks, a plan (a
** list of steps for a device) made by hand, and matrix products against plain loops.
*/
#ifndef CUDA_SAMPLE_H
#define CUDA_SAMPLE_H
#include "cuda/compile/module.h"
#include "cuda/cuda.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;

static void check_at(int ok, const char *what, const char *file, int line) {
  if (ok) { passed++; return; }
  failed++;
  printf("%s:%d: failed: %s\n", file, line, what);
}
#define CHECK(x) check_at((x) != 0, #x, __FILE__, __LINE__)

/* ---- a plan made by hand ---- */

enum { N = 1000, STEPS = 5, KERNELS = 7 };
typedef struct sample {
  fl_plan plan;
  fl_step step[STEPS];
  fl_kernel kernel[KERNELS];
  fl_instr instr[KERNELS][3];
  fl_operand operand[KERNELS][3];
  fl_store store[KERNELS];
  fl_matmul matmul;
  fl_ext ext[2];
  fl_out out[2];
} sample;

/* Makes kernel i of the sample: out[to] = ext[0] op ext[1] over n elements. */
static void make_kernel(sample *p, int i, int op, int64_t n, int to) {
  fl_kernel *k = &p->kernel[i];
  *k = (fl_kernel){ .kind = FL_K_MAP, .nkept = 1, .size = { n }, .points = n, .rows = n,
                    .n = 1,
                    .ninstr = 3, .noperand = 3, .nstore = 1, .instr = p->instr[i],
                    .operand = p->operand[i], .store = &p->store[i] };
  for (int j = 0; j < 3; j++) {
    p->operand[i][j] = (fl_operand){ .dtype = FLAME_F32, .reads = j < 2, .writes = j == 2,
                                     .aligned16 = 1, .stride = { 1 } };
    p->operand[i][j].place = (fl_place){ .where = j < 2 ? FL_AT_EXT : FL_AT_OUT,
                                         .index = j < 2 ? j : to };
  }
  p->instr[i][0] = (fl_instr){ .code = FL_I_LOAD, .dtype = FLAME_F32, .from = FLAME_F32,
                               .level = 1, .arg = 0 };
  p->instr[i][1] = (fl_instr){ .code = FL_I_LOAD, .dtype = FLAME_F32, .from = FLAME_F32,
                               .level = 1, .arg = 1 };
  p->instr[i][2] = (fl_instr){ .code = FL_I_OP, .dtype = FLAME_F32, .from = FLAME_F32,
                               .level = 1,
                               .op = (uint16_t)op, .a = 0, .b = 1 };
  p->store[i] = (fl_store){ .value = 2, .operand = 2 };
}

/* A plan of five steps: a kernel (add), a kernel ('extra_op'), three kernels of one structure (mul)
** as one launch, a product of 10 x 10 matrices, and a copy of N floats. */
static void make_sample(sample *p, flame_context *c, int extra_op) {
  memset(p, 0, sizeof *p);
  make_kernel(p, 0, FL_OP_add, N, 0);
  make_kernel(p, 1, extra_op, N, 0);
  for (int i = 2; i < 5; i++) make_kernel(p, i, FL_OP_mul, N - i, 0);
  p->step[0] = (fl_step){ .kind = FL_S_KERNEL, .count = 1, .kernel = &p->kernel[0] };
  p->step[1] = (fl_step){ .kind = FL_S_KERNEL, .count = 1, .kernel = &p->kernel[1] };
  p->step[2] = (fl_step){ .kind = FL_S_KERNEL, .count = 3, .kernel = &p->kernel[2] };
  p->matmul = (fl_matmul){ .dtype = FLAME_F32, .m = 10, .n = 10, .k = 10,
                           .at = { FL_AT_EXT, 0, 0 },
                           .bt = { FL_AT_EXT, 1, 0 }, .ct = { FL_AT_OUT, 1, 0 },
                           .as = { 10, 1 }, .bs = { 10, 1 } };
  p->step[3] = (fl_step){ .kind = FL_S_MATMUL, .matmul = &p->matmul };
  p->step[4] = (fl_step){ .kind = FL_S_COPY, .from = { FL_AT_EXT, 0, 0 },
                          .to = { FL_AT_OUT, 0, 0 }, .bytes = 4 * N };
  p->plan = (fl_plan){ .device = 1, .next = 2, .nout = 2, .nscalar = 2, .nstep = STEPS,
                       .nfault = 1,
                       .ext = p->ext, .out = p->out, .step = p->step, .mem = &c->mem };
}

static void drop_sample(sample *p) {
  if (p->plan.prepared) p->plan.unprepare(&p->plan);
}

/* ---- matrix products ---- */

static double element(const void *p, int dtype, int64_t i) {
  const fl_scalar v = fl_scalar_load((const char *)p + i * fl_dtype_size(dtype), dtype);
  return fl_is_float(dtype) ? v.d : (double)v.i;
}

static void set_element(void *p, int dtype, int64_t i, double v) {
  fl_scalar_store((char *)p + i * fl_dtype_size(dtype), dtype,
                  fl_is_float(dtype) ? (fl_scalar){ .d = v } : (fl_scalar){ .i = (int64_t)v });
}

/* How many elements of c differ from a times b. The elements are small integers, so that products
** and sums are exact in every dtype. */
static int wrong(const fl_matmul *m, const void *a, const void *b, const void *c) {
  const int64_t b0 = m->nbatch > 0 ? m->batch[0] : 1, b1 = m->nbatch > 1 ? m->batch[1] : 1;
  int bad = 0;
  for (int64_t u = 0; u < b0; u++) for (int64_t v = 0; v < b1; v++)
    for (int64_t i = 0; i < m->m; i++) for (int64_t j = 0; j < m->n; j++) {
      const int64_t ai = m->aoff + u * m->abatch[0] + v * m->abatch[1] + i * m->as[0];
      const int64_t bi = m->boff + u * m->bbatch[0] + v * m->bbatch[1] + j * m->bs[1];
      double sum = 0;
      for (int64_t k = 0; k < m->k; k++)
        sum += element(a, m->dtype, ai + k * m->as[1]) * element(b, m->dtype, bi + k * m->bs[0]);
      bad += element(c, m->dtype,
                     m->coff + u * m->cbatch[0] + v * m->cbatch[1] + i * m->n + j) != sum;
    }
  return bad;
}

/* Checks one product on the device; na, nb, nc: numbers of elements of the buffers of a, b, c. */
static void product(fl_device *d, int dtype, const fl_matmul *m, int64_t na, int64_t nb,
                    int64_t nc) {
  const int64_t n[3] = { na, nb, nc }, size = fl_dtype_size(dtype);
  void *host[3], *x[3];
  fl_matmul copy = *m;
  fl_step step = { .kind = FL_S_MATMUL, .matmul = &copy };
  fl_out out = { .bytes = nc * size };
  fl_plan p = { .device = 1, .next = 2, .nout = 1, .out = &out, .nstep = 1, .step = &step,
                .mem = &d->ctx->mem };
  fl_fault fault;
  int32_t done;
  copy.dtype = (uint8_t)dtype;
  copy.at = (fl_place){ FL_AT_EXT, 0, 0 };
  copy.bt = (fl_place){ FL_AT_EXT, 1, 0 };
  copy.ct = (fl_place){ FL_AT_OUT, 0, 0 };
  for (int i = 0; i < 3; i++) {
    host[i] = malloc((size_t)(n[i] * size));
    x[i] = d->table->alloc(d, n[i] * size);
    for (int64_t j = 0; j < n[i]; j++) set_element(host[i], dtype, j,
                                                   (double)(j * (7 - 2 * i) % 5 - 2));
    CHECK(d->table->upload(d, x[i], host[i], n[i] * size) == FLAME_OK);
  }
  CHECK(d->table->prepare(d, &p) == FLAME_OK);
  CHECK(d->table->run(d, &p, &(fl_binding){ .ext = x, .out = x + 2 }, &fault,
                      &done) == FLAME_OK && done == 1);
  CHECK(d->table->download(d, host[2], x[2], nc * size) == FLAME_OK);
  CHECK(wrong(&copy, host[0], host[1], host[2]) == 0);
  if (d->ctx->err.code != FLAME_OK) printf("%s\n", d->ctx->err.message);
  if (p.prepared) p.unprepare(&p);
  for (int i = 0; i < 3; i++) {
    d->table->free(d, x[i], n[i] * size);
    free(host[i]);
  }
}

/* Checks products of row-major and transposed matrices, padded rows, offsets, batches, and sizes of
** 1 and 0. */
static inline void products(fl_device *d, int dtype) {
  product(d, dtype, &(fl_matmul){ .m = 3, .n = 5, .k = 4, .as = { 4, 1 }, .bs = { 5, 1 } },
          12, 20, 15);
  product(d, dtype, &(fl_matmul){ .m = 3, .n = 5, .k = 4, .as = { 1, 3 }, .bs = { 5, 1 } },
          12, 20, 15);
  product(d, dtype, &(fl_matmul){ .m = 3, .n = 5, .k = 4, .as = { 4, 1 }, .bs = { 1, 4 } },
          12, 20, 15);
  product(d, dtype, &(fl_matmul){ .m = 3, .n = 5, .k = 4, .as = { 1, 3 }, .bs = { 1, 4 } },
          12, 20, 15);
  /* padded rows and offsets */
  product(d, dtype, &(fl_matmul){ .m = 3, .n = 5, .k = 4, .as = { 9, 1 }, .bs = { 8, 1 },
                              .aoff = 2, .boff = 3, .coff = 1 }, 40, 40, 16);
  /* sizes of one, whose strides do not matter */
  product(d, dtype, &(fl_matmul){ .m = 1, .n = 5, .k = 4, .as = { 0, 1 }, .bs = { 5, 1 } },
          4, 20, 5);
  product(d, dtype, &(fl_matmul){ .m = 3, .n = 1, .k = 4, .as = { 4, 1 }, .bs = { 1, 0 } },
          12, 4, 3);
  product(d, dtype, &(fl_matmul){ .m = 3, .n = 1, .k = 4, .as = { 4, 1 }, .bs = { 6, 0 } },
          12, 24, 3);
  product(d, dtype, &(fl_matmul){ .m = 3, .n = 5, .k = 1, .as = { 1, 0 }, .bs = { 0, 1 } },
          3, 5, 15);
  product(d, dtype, &(fl_matmul){ .m = 1, .n = 1, .k = 4, .as = { 0, 1 }, .bs = { 1, 0 } }, 4, 4,
          1);
  product(d, dtype, &(fl_matmul){ .m = 1, .n = 1, .k = 1 }, 1, 1, 1);
  /* no terms to sum; no elements */
  product(d, dtype, &(fl_matmul){ .m = 3, .n = 5, .k = 0 }, 1, 1, 15);
  product(d, dtype, &(fl_matmul){ .m = 0, .n = 5, .k = 4, .as = { 4, 1 }, .bs = { 5, 1 } },
          1, 20, 1);
}
#endif
