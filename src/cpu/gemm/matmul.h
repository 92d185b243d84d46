/* Matrix products: matmul.c (which way a product takes), gemm.c (blocks of
** our own kernel), direct.c. */
#ifndef FL_CPU_MATMUL_H
#define FL_CPU_MATMUL_H
#include "cpu/state/state.h"
#include "cpu/gemm/gemm.h"

/* A product as a step of a plan. fl_matmul_bytes returns the bytes of scratch memory that it needs
** in the device's 'shared'. */
int64_t fl_matmul_bytes(const fl_cpu *d, const fl_matmul *m);
flame_status fl_matmul_run(fl_device *dev, const fl_matmul *m, const fl_binding *b);

typedef struct fl_gemm_shape { int64_t mc, nc, mb, nb; } fl_gemm_shape;   /* block sizes, counts */
void fl_gemm_blocks(const fl_matmul *m, const fl_gemm *g, int width, int64_t batches,
                    fl_gemm_shape *s);
int64_t fl_gemm_scratch(void);
/* Computes one block of one product. a, b, c: the first elements of its matrices; bias: only with
** half types, or NULL. k > 0. */
void fl_gemm_block(const fl_matmul *m, const fl_gemm *g, const fl_gemm_shape *s, int64_t block,
                   const char *a, const char *b, char *c, const char *bias, char *scratch);
/* Packs panels of w rows of A, or of w columns of B, into y. A panel is k groups of w elements,
** with zeros where the matrix ends; half types are widened to f32. s: distance of the w elements in
** x, t: distance along k. */
void fl_gemm_pack(int dtype, void *y, const char *x, int64_t n, int64_t k, int64_t s,
                  int64_t t, int w);
/* The plain loops: any dtype and strides. */
void fl_matmul_direct(const fl_matmul *m, const char *a, const char *b, char *c, const char *bias);
const fl_gemm *fl_gemm_of(const fl_vm *vm);
#endif
