/* Chooses the algorithm of cuBLASLt for a product (blas_call.h). */
#include "cuda/library/blas_call.h"
#include "group/wait.h"
#include <string.h>

/* Number of multiplications and additions below which no product is tuned: the gain would be less
** than a launch. */
static const double TUNE_LEAST = 1e10;

flame_status fl_blas_failed(fl_cuda *s, fl_lt_status r, const char *what) {
  if (r == FL_LT_OK) return FLAME_OK;
  return FL_FAIL(s->ctx, r == FL_LT_ALLOC_FAILED ? FLAME_NO_MEMORY : FLAME_INTERNAL,
                 "matmul",
                 "%s failed with cuBLAS status %u", what, r);
}

static int is_large(const fl_blas_call *x) {
  return 2.0 * (double)x->m * (double)x->n * (double)x->k * x->batch >= TUNE_LEAST;
}

fl_lt_status fl_blas_heuristic(fl_cuda *s, fl_gemm *g) {
  const fl_blaslt *lt = s->blas.lt;
  const uint64_t space = FL_BLAS_SPACE;
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
      if (found[i].state == FL_LT_OK && found[i].space <= FL_BLAS_SPACE)
        g->algo[g->n++] = found[i].algo;
      else if (i == 0) break;
    g->best = g->n > 1 ? -1 : 0;
  }
  lt->cublasLtMatmulPreferenceDestroy(p);
  return r;
}

fl_lt_status fl_blas_run_algo(fl_cuda *s, const fl_blas_product *p, int i) {
  static const double of_d[2] = { 0, 1 };
  static const float of_f[2] = { 0, 1 };
  const fl_gemm *g = p->g;
  const int wide = g->key.dtype == FLAME_F64, adds = p->add != NULL;
  return s->blas.lt->cublasLtMatmul(
    s->blas.handle, g->desc, wide ? (const void *)&of_d[1] : &of_f[1], p->a, g->a, p->b, g->b,
    wide ? (const void *)&of_d[adds] : &of_f[adds], adds ? p->add : p->c, g->c, p->c, g->c,
    &g->algo[i], s->blas.space, FL_BLAS_SPACE, s->stream);
}

static flame_status try_algo(fl_cuda *s, void *arg, int i) {
  return fl_blas_failed(s, fl_blas_run_algo(s, arg, i), "cublasLtMatmul");
}

/* Digest of what a choice depends on; all: the choice is for several processes, whose devices may
** differ. */
static void digest_of(const fl_cuda *s, const fl_blas_call *x, int all, uint8_t digest[32]) {
  struct {
    char what[16], device[sizeof s->name];
    uint64_t library;
    int64_t arch;
    fl_blas_call key;
  } k;
  memset(&k, 0, sizeof k);
  memcpy(k.what, "product way 1", 13);
  if (!all) memcpy(k.device, s->name, sizeof s->name);
  k.library = s->blas.lt->cublasLtGetVersion();
  k.arch = all ? 0 : s->arch;
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

/* Takes the algorithm that the group's first process has chosen. */
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

flame_status fl_blas_choose(fl_cuda *s, fl_blas_product *p) {
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
