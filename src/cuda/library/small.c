/*
** Small products of f32: kernels/small.cu finishes before the library's kernel for large ones has
** filled its first tiles, and needs no library. Which products are small depends only on their
** sizes and on the GPU's architecture, so a value has the same bits in every plan; strides do not
** change a sum.
*/
#include "cuda/library/small.h"
#include "base/num.h"
#include "cuda/compile/module.h"
#include "plan/plan.h"
#include <string.h>

/* Measured on an H200: within these limits the kernel takes 2.3 to 5.4 us in a graph, cuBLASLt's
** 2.2 to 8.5; beyond, the library's are faster. With sides below LEAST the library has other
** kernels, for vectors. Asynchronous copies exist from architecture ARCH on. */
enum { SIDE = 16, TILES = 256, DEPTH = 256, LEAST = 8, ARCH = 80 };

/* As struct small_args of small.cu. */
typedef struct small_args {
  int64_t m, n, k, rank;
  int64_t size[6], as[6], bs[6], cs[6];
  int64_t am, ak, bk, bn;
  const void *a, *b, *add;
  void *c;
} small_args;

static int64_t batches(const fl_matmul *m) {
  int64_t n = 1;
  for (int i = 0; i < m->nbatch; i++) n *= m->batch[i];
  return n;
}

/* Number of 16 x 16 tiles. Sides are at most TILES * SIDE. */
static int64_t tiles(const fl_matmul *m) {
  return fl_ceil_div(m->m, SIDE) * fl_ceil_div(m->n, SIDE) * batches(m);
}

int fl_small_takes(const fl_cuda *s, const fl_matmul *m) {
  return m->dtype == FLAME_F32 && s->arch >= ARCH && m->k >= 1 && m->k <= DEPTH &&
         m->m >= LEAST && m->n >= LEAST && m->m <= SIDE * TILES && m->n <= SIDE * TILES &&
         batches(m) <= TILES && tiles(m) <= TILES;
}

flame_status fl_small_prepare(fl_cuda *s) {
  return fl_cuda_want_file(s, "small.cu", "", 0) ? FLAME_OK : s->ctx->err.code;
}

static void *element(char *at, int64_t offset) { return at + offset * 4; }

flame_status fl_small_run(fl_cuda *s, const fl_matmul *m, char *const at[4]) {
  small_args x = { .m = m->m, .n = m->n, .k = m->k, .rank = m->nbatch, .am = m->as[0],
                   .ak = m->as[1], .bk = m->bs[0], .bn = m->bs[1], .a = element(at[0], m->aoff),
                   .b = element(at[1], m->boff), .c = element(at[2], m->coff) };
  if (m->biased) x.add = element(at[3], m->bias_off);
  for (int i = 0; i < m->nbatch; i++) {
    x.size[i] = m->batch[i];
    x.as[i] = m->abatch[i];
    x.bs[i] = m->bbatch[i];
    x.cs[i] = m->cbatch[i];
  }
  fl_cu_function f;
  const flame_status e = fl_cuda_file_entry(s, "small.cu", "", 0, "small", &f);
  if (e != FLAME_OK) return e;
  void *params[] = { &x };
  const unsigned grid[] = { (unsigned)tiles(m), 1, 1 };
  return fl_cuda_launch(s, f, grid, (const unsigned[]){ 256, 1, 1 }, 0, params);
}
