/* One call of cuBLASLt (blas.c), and the choice of its algorithm (blas_choice.c). */
#ifndef FL_CUDA_BLAS_CALL_H
#define FL_CUDA_BLAS_CALL_H
#include "cuda/driver/state.h"
#include "cuda/library/tune.h"

enum { FL_BLAS_SPACE = 32 << 20 };          /* bytes of the library's workspace */

/* A call of the library, with the operands in its order, so 'a' is our B; such structs are compared
** bytewise. Values of bias: PLAIN, there is none; ADDED, the library adds it; SUMS, the library
** computes sums in f32, and we add it. */
enum { FL_BLAS_PLAIN, FL_BLAS_ADDED, FL_BLAS_SUMS };
typedef struct fl_blas_call {
  int32_t dtype, ta, tb, batch;
  int64_t m, n, k, lda, ldb, ldc, sa, sb, sc;
  int32_t aligna, alignb, alignc, bias;
  int64_t tf32;
} fl_blas_call;

struct fl_gemm {
  struct fl_gemm *next;
  fl_blas_call key;
  fl_lt_desc desc;
  fl_lt_layout a, b, c;
  fl_lt_algo algo[FL_TUNE_MOST];
  int n;                            /* algorithms in 'algo'; 0: the library has none */
  int best;                         /* the chosen one; -1: not tuned yet */
};

/* add: what is added to the product, as c lies; or NULL. */
typedef struct fl_blas_product { fl_gemm *g; const char *a, *b, *add; char *c; } fl_blas_product;

flame_status fl_blas_failed(fl_cuda *s, fl_lt_status r, const char *what);
/* Puts the answers of the library's heuristic into g->algo: only the first, or all of them if g
** will be tuned. */
fl_lt_status fl_blas_heuristic(fl_cuda *s, fl_gemm *g);
fl_lt_status fl_blas_run_algo(fl_cuda *s, const fl_blas_product *p, int i);
/* Finds the fastest of several answers: its index goes to g->best. The product is computed
** repeatedly with each algorithm: results differ only in the last bits, and the caller computes it
** once more. A choice on disk, or that of the group's first process, is taken without that. */
flame_status fl_blas_choose(fl_cuda *s, fl_blas_product *p);
#endif
