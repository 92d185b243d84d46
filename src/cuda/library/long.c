/*
** Products of few tiles and many terms, as gradients of weights of small nets: a tile is the work
** of one multiprocessor, so most would be idle. The terms are divided into chunks, whose products
** are one batch of the library in scratch memory, and kernels/long.cu adds these in the order of
** the terms. How many chunks there are follows from sizes alone, so a value has the same bits in
** every plan. Of f32 and f64 without batch; a product of half types would round each chunk.
**
** Whether it is faster than the library's own division of the terms has not been measured: only a
** build with test hooks does it, where FLAME_TEST_LONG is 1.
*/
#include "cuda/library/long.h"
#include "base/num.h"
#include "cuda/compile/module.h"
#include "cuda/library/blas.h"

/* TILE: side of a tile. LEAST: terms of a product that is divided, TERMS: at least, of a chunk;
** UNIT: a chunk has a multiple of so many. FULL: tiles that are enough for all multiprocessors. */
enum { TILE = 64, LEAST = 8192, TERMS = 1024, UNIT = 32, FULL = 128, MOST = 64 };

/* As struct long_args of kernels/long.cu. */
typedef struct long_args {
  const void *part, *add;
  void *c;
  int64_t rows, cols, step, parts;
} long_args;

static int64_t tiles(const fl_matmul *m) {
  return fl_ceil_div(m->m, TILE) * fl_ceil_div(m->n, TILE);
}

int fl_long_takes(const fl_cuda *s, const fl_matmul *m) {
  return s->blas.splits && (m->dtype == FLAME_F32 || m->dtype == FLAME_F64) && !m->general &&
         m->nbatch == 0 && m->biased != FL_BIAS_ROW && m->k >= LEAST && m->m <= TILE * FULL &&
         m->n <= TILE * FULL && 2 * tiles(m) <= FULL;
}

/* The product of the chunks as a batch, and that of the terms that are left, if any. Returns the
** number of results: the chunks, and 1 for what is left. */
static int64_t divide(const fl_matmul *m, fl_matmul part[2]) {
  int64_t n = 1;
  while (2 * n <= MOST && 2 * n * tiles(m) <= FULL && 2 * n * TERMS <= m->k) n *= 2;
  const int64_t terms = m->k / n / UNIT * UNIT, rest = m->k - n * terms;
  part[0] = *m;
  part[0].biased = part[0].padded = 0;
  part[0].cpad = part[0].coff = 0;
  part[1] = part[0];
  part[0].k = terms;
  part[0].nbatch = 1;
  part[0].batch[0] = n;
  part[0].abatch[0] = terms * m->as[1];
  part[0].bbatch[0] = terms * m->bs[0];
  part[0].cbatch[0] = m->m * m->n;
  part[1].k = rest;
  part[1].aoff += n * terms * m->as[1];
  part[1].boff += n * terms * m->bs[0];
  part[1].coff = n * m->m * m->n;
  return n + (rest > 0);
}

static const char *type_of(const fl_matmul *m) {
  return m->dtype == FLAME_F64 ? "#define T double\n" : "#define T float\n";
}

flame_status fl_long_prepare(fl_cuda *s, const fl_matmul *m, int *yes, int64_t *scratch) {
  fl_matmul part[2];
  int64_t more = 0;
  const int64_t n = divide(m, part);
  flame_status e = fl_blas_prepare(s, &part[0], yes, &more);
  if (e == FLAME_OK && *yes && part[1].k > 0) e = fl_blas_prepare(s, &part[1], yes, &more);
  if (e == FLAME_OK && !fl_cuda_want_file(s, "long.cu", type_of(m), 0)) e = s->ctx->err.code;
  *scratch = n * m->m * m->n * fl_dtype_size(m->dtype);
  return e;
}

flame_status fl_long_run(fl_cuda *s, const fl_matmul *m, char *const at[4]) {
  const int64_t size = fl_dtype_size(m->dtype);
  char *const to[4] = { at[0], at[1], s->scratch, NULL };
  fl_matmul part[2];
  fl_cu_function f;
  long_args a = { .part = s->scratch, .c = at[2] + m->coff * size, .rows = m->m, .cols = m->n,
                  .step = m->n + m->cpad, .parts = divide(m, part) };
  if (m->biased) a.add = at[3] + m->bias_off * size;
  flame_status e = fl_blas_run(s, &part[0], to);
  if (e == FLAME_OK && part[1].k > 0) e = fl_blas_run(s, &part[1], to);
  if (e == FLAME_OK) e = fl_cuda_file_entry(s, "long.cu", type_of(m), 0, "join", &f);
  if (e != FLAME_OK) return e;
  void *params[] = { &a };
  const unsigned blocks = (unsigned)fl_ceil_div(m->m * m->n, 256);
  return fl_cuda_launch(s, f, (const unsigned[]){ blocks, 1, 1 }, (const unsigned[]){ 256, 1, 1 },
                        0, params);
}
