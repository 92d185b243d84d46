/*
** Matrix products by cuBLASLt: f32 (with TF32 where the script asks for it), f64, and half types
** with sums in f32 that are rounded once. Our matrices are row-major, the library's column-major: C
** = A B is computed as C' = B' A' (the transposes cost nothing), so its first operand is our B.
** Descriptors and algorithms are cached by shape, strides and alignment. The algorithm is the
** heuristic's first answer or, for large products with FLAME_TUNE, the fastest of its answers.
** steps.cu does products that the library can not do (integers, irregular strides, no library),
** small.c does small products of f32.
**
** Pitch. Large products of half types take the library six times as long on an H200 if a size or
** the distance of rows is not a multiple of 16 bytes (a vocabulary of 50,257). So matrices padded
** with zeros are multiplied: those of the arena that the planner has padded (plan/pitch.c), and
** copies of the others; a result is copied back. Whether padding is wanted depends only on sizes
** and strides, and the library gets the same call in each case.
**
** Bias. If a size, a distance of rows or an address is not a multiple of 16 bytes, many of the
** library's kernels round a half type's sums, add the bias and round again (on an H200 at 320 of
** 1,800 such shapes, at none of 1,400 others). Then the library computes sums in f32, some rows at
** a time, and bias.cu adds the bias and rounds once.
*/
#include "cuda/library/blas.h"
#include "base/env.h"
#include "base/num.h"
#include "cuda/compile/module.h"
#include "cuda/library/blas_call.h"
#include "cuda/library/rows.h"
#include "cuda/library/small.h"
#include <assert.h>
#include <string.h>

/* ALIGN_MAX: no algorithm requires a larger alignment, and all addresses that we allocate have
** it. */
enum { KEPT_MAX = 2048, ALIGN_MAX = 16, SUMS_SPACE = 4 << 20 };

/* ---- what is asked of the library ---- */

static int type_of(int dtype) {
  switch (dtype) {
    case FLAME_F64: return FL_LT_R_64F;
    case FLAME_F32: return FL_LT_R_32F;
    case FLAME_F16: return FL_LT_R_16F;
    case FLAME_BF16: return FL_LT_R_16BF;
    default: return -1;
  }
}

/* A row-major rows x cols matrix with strides (sr, sc), as its transpose in column-major form: 1
** and *op, *ld if that is possible. Strides of axes of size 1 do not matter. */
static int as_column_major(int64_t rows, int64_t cols, int64_t sr, int64_t sc,
                           int32_t *op, int64_t *ld) {
  if ((cols == 1 || sc == 1) && (rows == 1 || sr >= cols)) {
    *op = FL_LT_OP_N;
    *ld = rows == 1 ? cols : sr;
    return 1;
  }
  if ((rows == 1 || sr == 1) && (cols == 1 || sc >= rows)) {
    *op = FL_LT_OP_T;
    *ld = cols == 1 ? rows : sc;
    return 1;
  }
  return 0;
}

typedef struct batches {            /* batch axes: sizes and strides, outermost first */
  int n;
  int64_t size[FL_MAX_AXES], a[FL_MAX_AXES], b[FL_MAX_AXES], c[FL_MAX_AXES];
} batches;

/* Collects the batch axes without those of size 1; neighbours are joined where the strides of all
** three matrices allow it. */
static void collapse(const fl_matmul *m, batches *q) {
  q->n = 0;
  for (int i = 0; i < m->nbatch; i++) {
    const int64_t size = m->batch[i];
    if (size == 1) continue;
    const int l = q->n - 1;
    if (l >= 0 && q->a[l] == m->abatch[i] * size && q->b[l] == m->bbatch[i] * size &&
        q->c[l] == m->cbatch[i] * size) {
      q->size[l] *= size;
    } else {
      q->n++;
      q->size[l + 1] = size;
    }
    q->a[q->n - 1] = m->abatch[i];
    q->b[q->n - 1] = m->bbatch[i];
    q->c[q->n - 1] = m->cbatch[i];
  }
}

/* Describes the library call for the innermost batch axis in *x, without alignments; 0: the library
** can not do it. */
static int describe(const fl_matmul *m, const batches *q, fl_blas_call *x) {
  memset(x, 0, sizeof *x);
  const int l = q->n - 1;
  if (type_of(m->dtype) < 0 || m->general) return 0;
  if (m->m > INT32_MAX || m->n > INT32_MAX || m->k > INT32_MAX) return 0;
  if (l >= 0 && q->size[l] > INT32_MAX) return 0;
  *x = (fl_blas_call){ .dtype = m->dtype, .tf32 = m->tf32, .batch = l < 0 ? 1 : (int32_t)q->size[l],
               .m = m->n, .n = m->m, .k = m->k, .ldc = m->n + m->cpad,
               .bias = m->biased == FL_BIAS_ROW ? FL_BLAS_ADDED : FL_BLAS_PLAIN,
               .sa = l < 0 ? 0 : q->b[l], .sb = l < 0 ? 0 : q->a[l], .sc = l < 0 ? 0 : q->c[l] };
  return as_column_major(m->k, m->n, m->bs[0], m->bs[1], &x->ta, &x->lda) &&
         as_column_major(m->m, m->k, m->as[0], m->as[1], &x->tb, &x->ldb);
}

/* Largest power of two, up to ALIGN_MAX, that divides an address and a distance between
** addresses. */
static int32_t alignment(const void *p, int64_t stride, int64_t size) {
  const uint64_t bits = (uint64_t)(uintptr_t)p | (uint64_t)(stride * size) | ALIGN_MAX;
  return (int32_t)(bits & (~bits + 1));
}

/* ---- descriptors ---- */

static void gemm_free(fl_cuda *s, fl_gemm *g, int host_only) {
  const fl_blaslt *lt = s->blas.lt;
  if (!host_only) {
    if (g->a) lt->cublasLtMatrixLayoutDestroy(g->a);
    if (g->b) lt->cublasLtMatrixLayoutDestroy(g->b);
    if (g->c) lt->cublasLtMatrixLayoutDestroy(g->c);
    if (g->desc) lt->cublasLtMatmulDescDestroy(g->desc);
  }
  fl_free(s->mem, g, sizeof *g);
}

static fl_lt_status layout(const fl_blaslt *lt, fl_lt_layout *out, int type, int64_t rows,
                           int64_t cols, int64_t ld, int32_t batch, int64_t stride) {
  fl_lt_status r = lt->cublasLtMatrixLayoutCreate(out, (unsigned)type, (uint64_t)rows,
                                                  (uint64_t)cols, ld);
  if (r != FL_LT_OK) *out = NULL;
  if (r == FL_LT_OK && batch > 1) {
    r = lt->cublasLtMatrixLayoutSetAttribute(*out, FL_LT_BATCH_COUNT, &batch,
                                             sizeof batch);
    if (r == FL_LT_OK)
      r = lt->cublasLtMatrixLayoutSetAttribute(*out, FL_LT_BATCH_STRIDE, &stride,
                                               sizeof stride);
  }
  return r;
}

/* Sets the bias that is added to each column of the library's result. */
static fl_lt_status set_bias(const fl_blaslt *lt, const fl_gemm *g, const void *bias) {
  return lt->cublasLtMatmulDescSetAttribute(g->desc, FL_LT_BIAS, &bias, sizeof bias);
}

static fl_lt_status make_descriptors(const fl_blas *q, fl_gemm *g) {
  const fl_blaslt *lt = q->lt;
  const fl_blas_call *x = &g->key;
  const int type = type_of(x->dtype), wide = x->dtype == FLAME_F64;
  const int single = x->tf32 ? FL_LT_COMPUTE_TF32 : FL_LT_COMPUTE_32F;
  fl_lt_status r = lt->cublasLtMatmulDescCreate(&g->desc, wide ? FL_LT_COMPUTE_64F : single,
                                                wide ? FL_LT_R_64F : FL_LT_R_32F);
  if (r != FL_LT_OK) g->desc = NULL;
  if (r == FL_LT_OK) r = lt->cublasLtMatmulDescSetAttribute(g->desc, FL_LT_TRANSA,
                                                            &x->ta, sizeof x->ta);
  if (r == FL_LT_OK) r = lt->cublasLtMatmulDescSetAttribute(g->desc, FL_LT_TRANSB,
                                                            &x->tb, sizeof x->tb);
  const int ta = x->ta == FL_LT_OP_T, tb = x->tb == FL_LT_OP_T, epilogue = FL_LT_EPILOGUE_BIAS;
  if (r == FL_LT_OK && x->bias == FL_BLAS_ADDED)
    r = lt->cublasLtMatmulDescSetAttribute(g->desc, FL_LT_EPILOGUE, &epilogue, sizeof epilogue);
  if (r == FL_LT_OK && x->bias == FL_BLAS_ADDED)
    r = set_bias(lt, g, q->space);                          /* any address: each run sets that of
                                                            ** its bias */
  if (r == FL_LT_OK)
    r = layout(lt, &g->a, type, ta ? x->k : x->m, ta ? x->m : x->k, x->lda, x->batch,
               x->sa);
  if (r == FL_LT_OK)
    r = layout(lt, &g->b, type, tb ? x->n : x->k, tb ? x->k : x->n, x->ldb, x->batch,
               x->sb);
  if (r == FL_LT_OK)
    r = layout(lt, &g->c, x->bias == FL_BLAS_SUMS ? FL_LT_R_32F : type, x->m, x->n, x->ldc,
               x->batch, x->sc);
  return r;
}

static void forget_all(fl_cuda *s, int host_only) {
  for (int i = 0; i < 256; i++) {
    for (fl_gemm *g = s->blas.bin[i], *next; g; g = next) {
      next = g->next;
      gemm_free(s, g, host_only);
    }
    s->blas.bin[i] = NULL;
  }
  s->blas.n = 0;
}

/* The kept descriptors of a call; makes them if necessary. */
static flame_status find(fl_cuda *s, const fl_blas_call *x, fl_gemm **out) {
  fl_gemm **b = &s->blas.bin[fl_hash64(x, sizeof *x, 5) & 255];
  for (fl_gemm *g = *b; g; g = g->next) {
    if (memcmp(&g->key, x, sizeof *x) == 0) {
      *out = g;
      return FLAME_OK;
    }
  }
  if (s->blas.n >= KEPT_MAX) forget_all(s, 0);
  fl_gemm *g = fl_zalloc(s->mem, sizeof *g);
  if (!g) return FL_FAIL(s->ctx, FLAME_NO_MEMORY, "matmul", "no host memory");
  g->key = *x;
  fl_lt_status r = make_descriptors(&s->blas, g);
  if (r == FL_LT_OK) r = fl_blas_heuristic(s, g);
  if (r != FL_LT_OK) {
    gemm_free(s, g, 0);
    return fl_blas_failed(s, r, "describing a product");
  }
  g->next = *b;
  *b = g;
  s->blas.n++;
  *out = g;
  return FLAME_OK;
}

/* Opens the library once; a machine without it uses our own kernels. */
static flame_status open_library(fl_cuda *s) {
  fl_blas *q = &s->blas;
  if (q->tried) return FLAME_OK;
  q->lt = s->lib->blaslt(NULL);
  q->tune = fl_env_int(FL_ENV_FLAME_TUNE) != 0;
  if (q->lt) {
    const flame_status e = fl_blas_failed(s, q->lt->cublasLtCreate(&q->handle), "cublasLtCreate");
    if (e != FLAME_OK) {
      q->handle = NULL;
      return e;
    }
  }
  q->tried = 1;
  return FLAME_OK;
}

static int empty(const fl_matmul *m) {
  int64_t batch = 1;
  for (int i = 0; i < m->nbatch; i++) batch *= m->batch[i];
  return m->m == 0 || m->n == 0 || batch == 0;
}

/* ---- pitch ---- */

/* A matrix in column-major form, 'count' columns of 'length' elements, ld apart; padded, it has
** to_count columns of to_length. odd: it is to be padded; take: by a copy, since its memory is not
** padded yet. */
typedef struct pitched { int64_t length, count, ld, to_length, to_count; int odd, take; } pitched;

static pitched pitched_of(int64_t length, int64_t count, int64_t ld, int wanted, int padded) {
  pitched p = { length, count, ld, fl_round_up(length, FL_PITCH), fl_round_up(count, FL_PITCH),
                0, 0 };
  p.odd = wanted && (ld % FL_PITCH != 0 || length != p.to_length || count != p.to_count);
  p.take = p.odd && !padded;
  return p;
}

static int64_t bytes_of(const pitched *p) {
  return fl_round_up(p->to_length * p->to_count * 2, 256);
}

/* Decides which of a, b and c are copied; x, a call of product m, becomes the call that the library
** gets. *copied: the scratch bytes. Returns whether sizes have become larger. */
static int set_pitch(const fl_matmul *m, fl_blas_call *x, pitched p[3], int64_t *copied) {
  const int wanted = fl_plan_pads(m) && x->batch == 1, padded = m->padded;
  const int ta = x->ta == FL_LT_OP_T, tb = x->tb == FL_LT_OP_T;
  int64_t *const ld[3] = { &x->lda, &x->ldb, &x->ldc };
  int odd = 0;
  *copied = 0;
  p[0] = pitched_of(ta ? x->k : x->m, ta ? x->m : x->k, x->lda, wanted, padded & FL_PADDED_B);
  p[1] = pitched_of(tb ? x->n : x->k, tb ? x->k : x->n, x->ldb, wanted, padded & FL_PADDED_A);
  p[2] = pitched_of(x->m, x->n, x->ldc, wanted, padded & FL_PADDED_C);
  for (int i = 0; i < 3; i++) {
    odd |= p[i].odd;
    if (!p[i].take) continue;
    *ld[i] = p[i].to_length;
    *copied += bytes_of(&p[i]);
  }
  if (!odd) return 0;
  if (x->bias && x->m % FL_PITCH) *copied += fl_round_up(2 * (x->m + FL_PITCH), 256);
  x->m = fl_round_up(x->m, FL_PITCH);
  x->n = fl_round_up(x->n, FL_PITCH);
  x->k = fl_round_up(x->k, FL_PITCH);
  return 1;
}

/* ---- bias ---- */

static int even(int64_t v) { return v % FL_PITCH == 0; }

/* Are all addresses, distances and sizes (but the number of our rows) multiples of 16 bytes? */
static int lies_even(const fl_blas_call *x, const void *a, const void *b, const void *c,
                     const void *bias) {
  const uint64_t at = (uint64_t)(uintptr_t)a | (uint64_t)(uintptr_t)b | (uint64_t)(uintptr_t)c |
                      (uint64_t)(uintptr_t)bias;
  return at % ALIGN_MAX == 0 && even(x->m) && even(x->k) && even(x->lda) && even(x->ldb) &&
         even(x->ldc) && (x->batch == 1 || (even(x->sa) && even(x->sb) && even(x->sc)));
}

/* The call that computes the sums for 'rows' rows of the (row-major) result. */
static fl_blas_call sums_of(const fl_blas_call *x, int64_t rows) {
  fl_blas_call y = *x;
  y.batch = 1;
  y.sa = y.sb = y.sc = 0;
  y.bias = FL_BLAS_SUMS;
  y.n = rows;
  y.ldc = y.m;
  return y;
}

static int64_t rows_at_once(const fl_blas_call *x) {
  return fl_min(x->n, fl_max(1, SUMS_SPACE / (4 * x->m)));
}

/* Reserves scratch for sums in f32, for every product with a bias, since its addresses may turn out
** unaligned. *yes becomes 0 if the library has no algorithm for such sums. */
static flame_status prepare_sums(fl_cuda *s, const fl_blas_call *x, int *yes, int64_t *scratch) {
  const int64_t rows = rows_at_once(x);
  fl_gemm *g = NULL;
  fl_blas_call y = sums_of(x, rows);
  y.alignc = 4;
  *scratch += 4 * x->m * rows;
  const flame_status e = fl_rows_want_bias(s, x->dtype) ? find(s, &y, &g) : s->ctx->err.code;
  assert(e != FLAME_OK || g);
  if (e == FLAME_OK && !g->n) *yes = 0;
  return e;
}

/* ---- the interface ---- */

/* Asks for an algorithm that needs only natural alignment, so that there is one for every address
** with which the plan is run. */
flame_status fl_blas_prepare(fl_cuda *s, const fl_matmul *m, int *yes, int64_t *scratch) {
  batches q;
  fl_blas_call x;
  pitched p[3];
  fl_gemm *g;
  *yes = 0;
  *scratch = 0;
  if (empty(m) || m->k == 0) {
    *yes = 1;                                   /* nothing to multiply: no kernel needed */
    return FLAME_OK;
  }
  if (fl_small_takes(s, m)) {
    *yes = 1;
    return fl_small_prepare(s);
  }
  collapse(m, &q);
  if (!describe(m, &q, &x)) return FLAME_OK;
  flame_status e = open_library(s);
  if (e != FLAME_OK || !s->blas.handle) return e;
  if (!s->blas.space) e = fl_cuda_reserve(s, &s->blas.space, FL_BLAS_SPACE, "cuBLAS workspace");
  const int odd = set_pitch(m, &x, p, scratch);
  if (e == FLAME_OK && odd && !fl_rows_want_copy(s)) e = s->ctx->err.code;
  x.aligna = x.alignb = x.alignc = fl_dtype_size(m->dtype);
  if (e == FLAME_OK) e = find(s, &x, &g);
  if (e == FLAME_OK) *yes = g->n > 0;
  return e == FLAME_OK && m->biased == FL_BIAS_ROW ? prepare_sums(s, &x, yes, scratch) : e;
}

/* One library call. If there is no algorithm for an alignment, the one requested in fl_blas_prepare
** is used. */
static flame_status multiply(fl_cuda *s, fl_blas_call *x, int size, const char *a, const char *b,
                             char *c, const char *bias, const char *add) {
  fl_gemm *g = NULL;
  x->aligna = alignment(a, x->batch > 1 ? x->sa : 0, size);
  x->alignb = alignment(b, x->batch > 1 ? x->sb : 0, size);
  x->alignc = alignment(c, x->batch > 1 ? x->sc : 0, size);
  if (bias) x->alignc = (int32_t)fl_min(x->alignc, alignment(bias, 0, size));
  if (add) x->alignc = (int32_t)fl_min(x->alignc, alignment(add, 0, size));
  flame_status e = find(s, x, &g);
  assert(e != FLAME_OK || g);
  if (e == FLAME_OK && !g->n) {
    x->aligna = x->alignb = x->alignc = size;
    e = find(s, x, &g);
  }
  fl_blas_product p = { g, a, b, add, c };
  if (e == FLAME_OK && bias) e = fl_blas_failed(s, set_bias(s->blas.lt, g, bias), "setting a bias");
  if (e == FLAME_OK && g->best < 0) e = fl_blas_choose(s, &p);
  if (e != FLAME_OK) return e;
  const fl_lt_status r = fl_blas_run_algo(s, &p, g->best);
  if (r == FL_LT_EXECUTION_FAILED) {            /* a sticky error shows at the next query */
    e = fl_cuda_wait_all(s);
    if (e != FLAME_OK) return e;
  }
  return fl_blas_failed(s, r, "cublasLtMatmul");
}

/* Computes sums for some rows of the result at a time; the bias is added when they are rounded. */
static flame_status multiply_apart(fl_cuda *s, const fl_blas_call *x, const char *a, const char *b,
                                   char *c, const char *bias, char *sums) {
  const int64_t most = rows_at_once(x), row = x->tb == FL_LT_OP_T ? 1 : x->ldb;
  flame_status e = FLAME_OK;
  for (int64_t i = 0; i < x->batch; i++)
    for (int64_t r = 0; r < x->n && e == FLAME_OK; r += most) {
      fl_blas_call y = sums_of(x, fl_min(most, x->n - r));
      e = multiply(s, &y, 2, a + 2 * i * x->sa, b + 2 * (i * x->sb + r * row), sums, NULL,
                   NULL);
      if (e == FLAME_OK)
        e = fl_rows_run_bias(s, x->dtype, (fl_rows_bias){ sums, y.n, x->m, bias,
                                                          c + 2 * (i * x->sc + r * x->ldc),
                                                          x->ldc });
    }
  return e;
}

static flame_status multiply_rounded(fl_cuda *s, fl_blas_call *x, int size, const char *a,
                                     const char *b, char *c, const char *bias, char *sums) {
  return !bias || lies_even(x, a, b, c, bias) ? multiply(s, x, size, a, b, c, bias, NULL)
                                              : multiply_apart(s, x, a, b, c, bias, sums);
}

/* Clears the padding of a matrix over which the product sums: what follows its columns or, unless
** 'along', its last column. */
static flame_status clear_padding(fl_cuda *s, const pitched *q, const char *at, int along) {
  const int64_t first = along ? q->length : q->count * q->ld;
  return fl_rows_run_copy(s, (fl_rows_copy){
      .to = (void *)(uintptr_t)(at + 2 * first), .to_step = q->ld,
      .to_rows = along ? q->count : q->to_count - q->count,
      .to_cols = along ? q->to_length - q->length : q->length });
}

/* Sees to the padding of an operand. q->take: copies the operand to *to with padding, makes *at the
** copy, and moves *to past it. Otherwise, if the product sums over the padding ('summed'), clears
** it. */
static flame_status pad_operand(fl_cuda *s, const pitched *q, const char **at, char **to,
                                int summed, int along) {
  if (!q->odd) return FLAME_OK;
  if (!q->take) return summed ? clear_padding(s, q, *at, along) : FLAME_OK;
  const flame_status e = fl_rows_run_copy(s, (fl_rows_copy){ *at, q->ld, q->count, q->length, *to,
                                                             q->to_length, q->to_count,
                                                             q->to_length });
  *at = *to;
  *to += bytes_of(q);
  return e;
}

/* Makes the call with padded matrices where the library is slow with others. x: a copy of the call,
** of product m, operands in the library's order. */
static flame_status multiply_pitched(fl_cuda *s, const fl_matmul *m, fl_blas_call x, const char *a,
                                     const char *b, char *c, const char *bias) {
  pitched p[3];
  char *free_at = s->scratch, *result = c, *sums = free_at;
  const int size = fl_dtype_size(x.dtype);
  const int64_t columns = x.m, terms = x.k;
  int64_t copied;
  if (!set_pitch(m, &x, p, &copied)) return multiply_rounded(s, &x, size, a, b, c, bias, sums);
  sums += copied;
  flame_status e = pad_operand(s, &p[0], &a, &free_at, terms != x.k, x.ta == FL_LT_OP_T);
  if (e == FLAME_OK) e = pad_operand(s, &p[1], &b, &free_at, terms != x.k, x.tb != FL_LT_OP_T);
  if (p[2].take) {
    result = free_at;
    free_at += bytes_of(&p[2]);
  }
  if (bias && columns != x.m) {
    if (e == FLAME_OK)
      e = fl_rows_run_copy(s, (fl_rows_copy){ bias, columns, 1, columns, free_at, x.m, 1, x.m });
    bias = free_at;
  }
  if (e == FLAME_OK) e = multiply_rounded(s, &x, size, a, b, result, bias, sums);
  if (e != FLAME_OK || !p[2].take) return e;
  return fl_rows_run_copy(s, (fl_rows_copy){ result, p[2].to_length, p[2].count, p[2].length, c,
                                             p[2].ld, p[2].count, p[2].length });
}

/* k == 0: the product is all zeros, or what is added to it. */
static flame_status clear(fl_cuda *s, const fl_matmul *m, char *c, const char *add, int64_t size) {
  if (add)
    return fl_cuda_check(s, s->cu->CopyOn((fl_cu_ptr)(uintptr_t)c, (fl_cu_ptr)(uintptr_t)add,
                                          (size_t)(m->m * m->n * size), s->stream),
                         "cuMemcpyDtoDAsync");
  return fl_cuda_check(s, s->cu->Memset8((fl_cu_ptr)(uintptr_t)c, 0,
                                         (size_t)(m->m * m->n * size),
                                         s->stream), "cuMemsetD8Async");
}

/* Loops over the outer batch axes: their positions count like the digits of a number. */
flame_status fl_blas_run(fl_cuda *s, const fl_matmul *m, char *const place[4]) {
  batches q;
  fl_blas_call x;
  const int size = fl_dtype_size(m->dtype), adds = m->biased == FL_BIAS_ALL;
  char *a = place[0], *b = place[1], *c = place[2], *bias = place[3];
  int64_t at[FL_MAX_AXES] = { 0 };
  if (empty(m)) return FLAME_OK;
  if (fl_small_takes(s, m)) return fl_small_run(s, m, place);
  collapse(m, &q);
  const int zero = m->k == 0;
  if (!zero && !describe(m, &q, &x))
    return FL_FAIL(s->ctx, FLAME_INTERNAL, "matmul",
                   "product changed after it was prepared");
  const int outer = zero ? q.n : q.n - 1;
  a += m->aoff * size, b += m->boff * size, c += m->coff * size;
  if (bias) bias += m->bias_off * size;
  for (;;) {
    int64_t ao = 0, bo = 0, co = 0;
    for (int i = 0; i < outer; i++) {
      ao += at[i] * q.a[i];
      bo += at[i] * q.b[i];
      co += at[i] * q.c[i];
    }
    const flame_status e = zero ? clear(s, m, c + co * size, adds ? bias + co * size : NULL, size)
                         : adds ? multiply(s, &x, size, b + bo * size, a + ao * size, c + co * size,
                                           NULL, bias + co * size)
                                : multiply_pitched(s, m, x, b + bo * size,
                                                   a + ao * size, c + co * size, bias);
    if (e != FLAME_OK) return e;
    int i = outer - 1;
    while (i >= 0 && ++at[i] == q.size[i]) at[i--] = 0;
    if (i < 0) return FLAME_OK;
  }
}

int64_t fl_blas_workspace(const fl_cuda *s) { return s->blas.space ? FL_BLAS_SPACE : 0; }

void fl_blas_close(fl_cuda *s, int host_only) {
  forget_all(s, host_only);
  if (s->blas.handle && !host_only) s->blas.lt->cublasLtDestroy(s->blas.handle);
  memset(&s->blas, 0, sizeof s->blas);          /* the workspace belongs to the pool */
}
