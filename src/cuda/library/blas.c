/*
** Matrix products by cuBLASLt: f32 (with TF32 where FLAME_TF32 asks for it), f64, and half types
** with sums in f32 that are rounded once. Ours are row-major, the library's column-major: C = A B
** is computed as C' = B' A' (the transposes cost nothing), so its first operand is our B.
** Descriptors and algorithms are kept by shape, strides and alignment. The algorithm is the
** heuristic's first answer or, of large products with FLAME_TUNE, the fastest of its answers.
** What the library can not take (integers, odd strides, no library) is left to steps.cu, small
** products of f32 to small.c.
**
** Pitch. Large products of half types take the library six times as long on an H200 where a size
** or the distance of rows is no multiple of 16 bytes (a vocabulary of 50,257). So they are made of
** copies with zeros behind, and the result is copied back. Which of them are, follows from sizes
** and strides alone.
*/
#include "cuda/library/blas.h"
#include "base/env.h"
#include "base/num.h"
#include "cuda/compile/module.h"
#include "cuda/library/small.h"
#include "cuda/library/tune.h"
#include "group/wait.h"
#include <string.h>

/* ALIGN_MAX: no algorithm wants more, so that all addresses of our own are alike. */
enum { SPACE = 32 << 20, KEPT_MAX = 2048, ALIGN_MAX = 16, PITCH = 8 /* elements */,
       PITCH_LEAST = 256 };
/* Products and sums below which none is tuned: what is won is less than a launch. */
static const double TUNE_LEAST = 1e10;

/* One library call: operands in its order, so 'a' is our B. Compared bytewise. */
typedef struct call {
  int32_t dtype, ta, tb, batch;
  int64_t m, n, k, lda, ldb, ldc, sa, sb, sc;
  int32_t aligna, alignb, alignc, bias;
} call;

struct fl_gemm {
  struct fl_gemm *next;
  call key;
  fl_lt_desc desc;
  fl_lt_layout a, b, c;
  fl_lt_algo algo[FL_TUNE_MOST];
  int n;                            /* answers; 0: the library has no algorithm */
  int best;                         /* which is taken, -1: not tuned yet */
};

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

/* A row-major rows x cols matrix with strides (sr, sc), seen as its transpose in column-major
** form: 1 and *op, *ld when that is possible. Strides of axes of size 1 mean nothing. */
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

/* The batch axes without those of size 1, neighbours joined where all three strides allow. */
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

/* The call for the innermost batch axis, without alignments; 0: not the library's. */
static int describe(const fl_matmul *m, const batches *q, call *x) {
  memset(x, 0, sizeof *x);
  const int l = q->n - 1;
  if (type_of(m->dtype) < 0 || m->general) return 0;
  if (m->m > INT32_MAX || m->n > INT32_MAX || m->k > INT32_MAX) return 0;
  if (l >= 0 && q->size[l] > INT32_MAX) return 0;
  *x = (call){ .dtype = m->dtype, .batch = l < 0 ? 1 : (int32_t)q->size[l],
               .m = m->n, .n = m->m, .k = m->k, .ldc = m->n, .bias = m->biased,
               .sa = l < 0 ? 0 : q->b[l], .sb = l < 0 ? 0 : q->a[l], .sc = l < 0 ? 0 : q->c[l] };
  return as_column_major(m->k, m->n, m->bs[0], m->bs[1], &x->ta, &x->lda) &&
         as_column_major(m->m, m->k, m->as[0], m->as[1], &x->tb, &x->ldb);
}

/* Largest power of two that divides an address and a distance between addresses. */
static int32_t alignment(const void *p, int64_t stride, int64_t size) {
  const uint64_t bits = (uint64_t)(uintptr_t)p | (uint64_t)(stride * size) | ALIGN_MAX;
  return (int32_t)(bits & (~bits + 1));
}

/* ---- descriptors ---- */

static flame_status failed(fl_cuda *s, fl_lt_status r, const char *what) {
  if (r == FL_LT_OK) return FLAME_OK;
  return FL_FAIL(s->ctx, r == FL_LT_ALLOC_FAILED ? FLAME_NO_MEMORY : FLAME_INTERNAL,
                 "matmul",
                 "%s failed with cuBLAS status %u", what, r);
}

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

/* The bias that is added to each column of the library's result. */
static fl_lt_status set_bias(const fl_blaslt *lt, const fl_gemm *g, const void *bias) {
  return lt->cublasLtMatmulDescSetAttribute(g->desc, FL_LT_BIAS, &bias, sizeof bias);
}

static fl_lt_status make_descriptors(const fl_blas *q, fl_gemm *g) {
  const fl_blaslt *lt = q->lt;
  const call *x = &g->key;
  const int type = type_of(x->dtype), wide = x->dtype == FLAME_F64;
  const int single = q->tf32 && x->dtype == FLAME_F32 ? FL_LT_COMPUTE_TF32 : FL_LT_COMPUTE_32F;
  fl_lt_status r = lt->cublasLtMatmulDescCreate(&g->desc, wide ? FL_LT_COMPUTE_64F : single,
                                                wide ? FL_LT_R_64F : FL_LT_R_32F);
  if (r != FL_LT_OK) g->desc = NULL;
  if (r == FL_LT_OK) r = lt->cublasLtMatmulDescSetAttribute(g->desc, FL_LT_TRANSA,
                                                            &x->ta, sizeof x->ta);
  if (r == FL_LT_OK) r = lt->cublasLtMatmulDescSetAttribute(g->desc, FL_LT_TRANSB,
                                                            &x->tb, sizeof x->tb);
  const int ta = x->ta == FL_LT_OP_T, tb = x->tb == FL_LT_OP_T, epilogue = FL_LT_EPILOGUE_BIAS;
  if (r == FL_LT_OK && x->bias)
    r = lt->cublasLtMatmulDescSetAttribute(g->desc, FL_LT_EPILOGUE, &epilogue, sizeof epilogue);
  if (r == FL_LT_OK && x->bias) r = set_bias(lt, g, q->space);      /* that of a run comes later */
  if (r == FL_LT_OK)
    r = layout(lt, &g->a, type, ta ? x->k : x->m, ta ? x->m : x->k, x->lda, x->batch,
               x->sa);
  if (r == FL_LT_OK)
    r = layout(lt, &g->b, type, tb ? x->n : x->k, tb ? x->k : x->n, x->ldb, x->batch,
               x->sb);
  if (r == FL_LT_OK) r = layout(lt, &g->c, type, x->m, x->n, x->ldc, x->batch, x->sc);
  return r;
}

static int is_large(const call *x) {
  return 2.0 * (double)x->m * (double)x->n * (double)x->k * x->batch >= TUNE_LEAST;
}

/* The heuristic's answers into g->algo: the first, or all of them if g is to be tuned. */
static fl_lt_status choose(fl_cuda *s, fl_gemm *g) {
  const fl_blaslt *lt = s->blas.lt;
  const uint64_t space = SPACE;
  const uint32_t align[4] = { (uint32_t)g->key.aligna, (uint32_t)g->key.alignb,
                              (uint32_t)g->key.alignc, (uint32_t)g->key.alignc };
  const uint32_t reduction = FL_LT_REDUCTION_COMPUTE_TYPE;     /* or none: one rounding */
  fl_lt_preference p = NULL;
  const int wanted = s->blas.tune && is_large(&g->key) ? FL_TUNE_MOST : 1;
  fl_lt_found found[FL_TUNE_MOST];
  int n = 0;
  fl_lt_status r = lt->cublasLtMatmulPreferenceCreate(&p);
  if (r != FL_LT_OK) return r;
  r = lt->cublasLtMatmulPreferenceSetAttribute(p, FL_LT_PREF_SPACE, &space, sizeof space);
  if (r == FL_LT_OK)
    r = lt->cublasLtMatmulPreferenceSetAttribute(p, FL_LT_PREF_REDUCTION, &reduction,
                                                 sizeof reduction);
  for (unsigned i = 0; i < 4 && r == FL_LT_OK; i++)
    r = lt->cublasLtMatmulPreferenceSetAttribute(p, FL_LT_PREF_ALIGN_A + i, &align[i],
                                                 sizeof align[i]);
  if (r == FL_LT_OK) {
    memset(found, 0, sizeof found);
    const fl_lt_status h = lt->cublasLtMatmulAlgoGetHeuristic(s->blas.handle, g->desc, g->a, g->b,
                                                              g->c, g->c, p, wanted, found, &n);
    for (int i = 0; h == FL_LT_OK && i < n; i++)
      if (found[i].state == FL_LT_OK && found[i].space <= SPACE) g->algo[g->n++] = found[i].algo;
      else if (i == 0) break;
    g->best = g->n > 1 ? -1 : 0;
  }
  lt->cublasLtMatmulPreferenceDestroy(p);
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

/* The kept descriptors of a call, made if need be. */
static flame_status find(fl_cuda *s, const call *x, fl_gemm **out) {
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
  if (r == FL_LT_OK) r = choose(s, g);
  if (r != FL_LT_OK) {
    gemm_free(s, g, 0);
    return failed(s, r, "describing a product");
  }
  g->next = *b;
  *b = g;
  s->blas.n++;
  *out = g;
  return FLAME_OK;
}

/* Open the library once; a machine without it uses our own kernels. */
static flame_status open_library(fl_cuda *s) {
  fl_blas *q = &s->blas;
  if (q->tried) return FLAME_OK;
  q->lt = s->lib->blaslt(NULL);
  q->tf32 = fl_env_int(FL_ENV_FLAME_TF32) != 0;
  q->tune = fl_env_int(FL_ENV_FLAME_TUNE) != 0;
  if (q->lt) {
    const flame_status e = failed(s, q->lt->cublasLtCreate(&q->handle), "cublasLtCreate");
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

/* A matrix in column-major form, as it lies and as the library gets it: longer columns, more of
** them. take: these differ. */
typedef struct pitched { int64_t length, count, ld, to_length, to_count; int take; } pitched;

static pitched pitched_of(int64_t length, int64_t count, int64_t ld, int wanted) {
  pitched p = { length, count, ld, fl_round_up(length, PITCH), fl_round_up(count, PITCH), 0 };
  p.take = wanted && (ld % PITCH != 0 || length != p.to_length || count != p.to_count);
  return p;
}

static int64_t bytes_of(const pitched *p) {
  return fl_round_up(p->to_length * p->to_count * 2, 256);
}

/* What is copied of a, b and c; x gets what the library sees. Returns the scratch bytes. */
static int64_t set_pitch(call *x, pitched p[3]) {
  const int half = x->dtype == FLAME_F16 || x->dtype == FLAME_BF16;
  const int wanted = half && x->batch == 1 && fl_min(x->m, fl_min(x->n, x->k)) >= PITCH_LEAST;
  const int ta = x->ta == FL_LT_OP_T, tb = x->tb == FL_LT_OP_T;
  int64_t *const ld[3] = { &x->lda, &x->ldb, &x->ldc }, bytes = 0;
  p[0] = pitched_of(ta ? x->k : x->m, ta ? x->m : x->k, x->lda, wanted);
  p[1] = pitched_of(tb ? x->n : x->k, tb ? x->k : x->n, x->ldb, wanted);
  p[2] = pitched_of(x->m, x->n, x->ldc, wanted);
  for (int i = 0; i < 3; i++) {
    if (!p[i].take) continue;
    *ld[i] = p[i].to_length;
    bytes += bytes_of(&p[i]);
  }
  if (bytes == 0) return 0;
  if (x->bias && x->m % PITCH) bytes += fl_round_up(2 * (x->m + PITCH), 256);
  x->m = fl_round_up(x->m, PITCH);
  x->n = fl_round_up(x->n, PITCH);
  x->k = fl_round_up(x->k, PITCH);
  return bytes;
}

/* As struct pitch_args of pitch.cu. */
typedef struct pitch_args {
  const void *from;
  int64_t from_step, rows, cols;
  void *to;
  int64_t to_step, to_rows, to_cols;
} pitch_args;

static flame_status pitch(fl_cuda *s, pitch_args a) {
  const int64_t blocks = a.to_rows * fl_ceil_div(a.to_cols, 2048);
  fl_cu_function f;
  const flame_status e = fl_cuda_file_entry(s, "pitch.cu", "", 0, "pitch", &f);
  if (e != FLAME_OK) return e;
  void *params[] = { &a };
  return fl_cuda_launch(s, f, (const unsigned[]){ (unsigned)fl_min(blocks, INT32_MAX), 1, 1 },
                        (const unsigned[]){ 256, 1, 1 }, 0, params);
}

/* ---- the interface ---- */

/* Asks for an algorithm that needs no more than natural alignment: there is then one for
** every address the plan is run with. */
flame_status fl_blas_prepare(fl_cuda *s, const fl_matmul *m, int *yes, int64_t *scratch) {
  batches q;
  call x;
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
  if (!s->blas.space) e = fl_cuda_reserve(s, &s->blas.space, SPACE, "cuBLAS workspace");
  *scratch = set_pitch(&x, p);
  if (e == FLAME_OK && *scratch && !fl_cuda_want_file(s, "pitch.cu", "", 0)) e = s->ctx->err.code;
  x.aligna = x.alignb = x.alignc = fl_dtype_size(m->dtype);
  if (e == FLAME_OK) e = find(s, &x, &g);
  if (e == FLAME_OK) *yes = g->n > 0;
  return e;
}

/* ---- which algorithm ---- */

typedef struct product { fl_gemm *g; const char *a, *b; char *c; } product;

static fl_lt_status run_algo(fl_cuda *s, const product *p, int i) {
  static const double one_d = 1, zero_d = 0;
  static const float one_f = 1, zero_f = 0;
  const fl_gemm *g = p->g;
  const int wide = g->key.dtype == FLAME_F64;
  return s->blas.lt->cublasLtMatmul(
    s->blas.handle, g->desc, wide ? (const void *)&one_d : &one_f, p->a, g->a, p->b, g->b,
    wide ? (const void *)&zero_d : &zero_f, p->c, g->c, p->c, g->c, &g->algo[i], s->blas.space,
    SPACE, s->stream);
}

static flame_status try_algo(fl_cuda *s, void *arg, int i) {
  return failed(s, run_algo(s, arg, i), "cublasLtMatmul");
}

/* What a choice rests on; all: of several processes, whose devices may differ. */
static void digest_of(const fl_cuda *s, const call *x, int all, uint8_t digest[32]) {
  struct {
    char what[16], device[sizeof s->name];
    uint64_t library;
    int64_t arch, tf32;
    call key;
  } k;
  memset(&k, 0, sizeof k);
  memcpy(k.what, "product way 1", 13);
  if (!all) memcpy(k.device, s->name, sizeof s->name);
  k.library = s->blas.lt->cublasLtGetVersion();
  k.arch = all ? 0 : s->arch;
  k.tf32 = s->blas.tf32;
  k.key = *x;
  fl_sha256(&k, sizeof k, digest);
}

static int from_disk(fl_cuda *s, fl_gemm *g, const uint8_t digest[32]) {
  size_t size = 0;
  fl_lt_algo *kept = fl_disk_get(&s->disk, digest, &size);
  for (int i = 0; kept && size == sizeof *kept && i < g->n; i++)
    if (memcmp(kept, &g->algo[i], sizeof *kept) == 0) g->best = i;
  fl_free(s->mem, kept, size);
  return g->best >= 0;
}

/* Of several processes the first chooses. */
static flame_status from_first(fl_cuda *s, fl_gemm *g) {
  char fault[FL_CALL_FAULT];
  uint8_t digest[32];
  fl_lt_algo algo;
  if (fl_cuda_spoils(s)) return FLAME_INTERNAL;
  digest_of(s, &g->key, 1, digest);
  const int r = fl_group_choice(s->ctx->group, digest, &algo, sizeof algo, fault);
  if (r < 0 && !fault[0]) return fl_interrupted(s->ctx, "matmul");
  if (r < 0) return FL_FAIL(s->ctx, FLAME_BAD_VALUE, "matmul", "%s", fault);
  g->best = 0;
  for (int i = 0; r == 1 && i < g->n; i++)
    if (memcmp(&algo, &g->algo[i], sizeof algo) == 0) g->best = i;
  return FLAME_OK;
}

/* The product is made with each algorithm, again and again: the result is the same but for its
** last bits, and the caller makes it once more. */
static flame_status choose_way(fl_cuda *s, product *p) {
  fl_gemm *g = p->g;
  fl_group *group = s->ctx->group && s->ctx->group->wire ? s->ctx->group : NULL;
  uint8_t digest[32];
  flame_status e = FLAME_OK;
  if (group && group->launch.rank > 0 && !group->broken[0]) return from_first(s, g);
  digest_of(s, &g->key, 0, digest);
  if (!from_disk(s, g, digest)) {
    int best = 0;
    if (fl_cuda_spoils(s)) return FLAME_INTERNAL;
    e = fl_tune(s, g->n, try_algo, p, &best);
    if (e != FLAME_OK) return e;
    g->best = best;
    fl_disk_put(&s->disk, digest, &g->algo[best], sizeof g->algo[best]);
  }
  if (group) {
    digest_of(s, &g->key, 1, digest);
    fl_group_choose(group, digest, &g->algo[g->best], sizeof g->algo[g->best]);
  }
  return e;
}

/* One library call. An unlucky alignment without an answer falls back on the one asked for
** in fl_blas_prepare. */
static flame_status multiply(fl_cuda *s, call *x, int size, const char *a, const char *b,
                             char *c, const char *bias) {
  fl_gemm *g;
  x->aligna = alignment(a, x->batch > 1 ? x->sa : 0, size);
  x->alignb = alignment(b, x->batch > 1 ? x->sb : 0, size);
  x->alignc = alignment(c, x->batch > 1 ? x->sc : 0, size);
  if (bias) x->alignc = (int32_t)fl_min(x->alignc, alignment(bias, 0, size));
  flame_status e = find(s, x, &g);
  if (e == FLAME_OK && !g->n) {
    x->aligna = x->alignb = x->alignc = size;
    e = find(s, x, &g);
  }
  product p = { g, a, b, c };
  if (e == FLAME_OK && bias) e = failed(s, set_bias(s->blas.lt, g, bias), "setting a bias");
  if (e == FLAME_OK && g->best < 0) e = choose_way(s, &p);
  if (e != FLAME_OK) return e;
  const fl_lt_status r = run_algo(s, &p, g->best);
  if (r == FL_LT_EXECUTION_FAILED) {            /* a sticky error shows at the next query */
    e = fl_cuda_wait_all(s);
    if (e != FLAME_OK) return e;
  }
  return failed(s, r, "cublasLtMatmul");
}

/* The call, with copies of what the library is slow on. x: a copy, in the library's order. */
static flame_status multiply_pitched(fl_cuda *s, call x, int size, const char *a, const char *b,
                                     char *c, const char *bias) {
  pitched p[3];
  const char *at[2] = { a, b };
  char *free_at = s->scratch, *result = c;
  const int64_t columns = x.m;
  flame_status e = FLAME_OK;
  if (set_pitch(&x, p) == 0) return multiply(s, &x, size, a, b, c, bias);
  for (int i = 0; i < 2 && e == FLAME_OK; i++) {
    const pitched *q = &p[i];
    if (!q->take) continue;
    e = pitch(s, (pitch_args){ at[i], q->ld, q->count, q->length, free_at, q->to_length,
                               q->to_count, q->to_length });
    at[i] = free_at;
    free_at += bytes_of(q);
  }
  if (p[2].take) result = free_at;
  if (bias && columns != x.m) {
    free_at += bytes_of(&p[2]);
    if (e == FLAME_OK)
      e = pitch(s, (pitch_args){ bias, columns, 1, columns, free_at, x.m, 1, x.m });
    bias = free_at;
  }
  if (e == FLAME_OK) e = multiply(s, &x, size, at[0], at[1], result, bias);
  if (e != FLAME_OK || !p[2].take) return e;
  return pitch(s, (pitch_args){ result, p[2].to_length, p[2].count, p[2].length, c, p[2].ld,
                                p[2].count, p[2].length });
}

/* k == 0: the product is all zeros. */
static flame_status clear(fl_cuda *s, const fl_matmul *m, char *c, int64_t size) {
  return fl_cuda_check(s, s->cu->Memset8((fl_cu_ptr)(uintptr_t)c, 0,
                                         (size_t)(m->m * m->n * size),
                                         s->stream), "cuMemsetD8Async");
}

/* Outer batch axes are looped over like the digits of a counter. */
flame_status fl_blas_run(fl_cuda *s, const fl_matmul *m, char *const place[4]) {
  batches q;
  call x;
  const int size = fl_dtype_size(m->dtype);
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
    const flame_status e = zero ? clear(s, m, c + co * size, size)
                                : multiply_pitched(s, x, size, b + bo * size, a + ao * size,
                                                   c + co * size, bias);
    if (e != FLAME_OK) return e;
    int i = outer - 1;
    while (i >= 0 && ++at[i] == q.size[i]) at[i--] = 0;
    if (i < 0) return FLAME_OK;
  }
}

int64_t fl_blas_workspace(const fl_cuda *s) { return s->blas.space ? SPACE : 0; }

void fl_blas_close(fl_cuda *s, int host_only) {
  forget_all(s, host_only);
  if (s->blas.handle && !host_only) s->blas.lt->cublasLtDestroy(s->blas.handle);
  memset(&s->blas, 0, sizeof s->blas);          /* the workspace is the pool's */
}
