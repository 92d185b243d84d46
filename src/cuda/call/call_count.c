/*
** Positions in sorted rows, counts of ids and positions of nonzero elements on a CUDA device, by
** kernels/count.cu; weights by kernels/weights.cu. Ids out of range are ignored here and never
** access memory: callers that report them (bincount) have checked before.
*/
#include "cuda/call/sort.h"
#include "base/num.h"
#include <stdio.h>
#include <string.h>

static const char file[] = "count.cu";

static void defines_of(int dtype, char out[FL_SORT_DEFINES]) {
  static const uint8_t kind[FLAME_DTYPE_COUNT] = {
    [FLAME_I64] = 1, [FLAME_I32] = 1, [FLAME_I16] = 1, [FLAME_I8] = 1, [FLAME_U8] = 2,
    [FLAME_BOOL] = 3,
  };
  snprintf(out, FL_SORT_DEFINES, "#define BITS %d\n#define KIND %d\n#define HALF %d\n",
           8 * fl_dtype_size(dtype), kind[dtype], dtype == FLAME_BF16);
}

static void modules_of(fl_cuda *s, const fl_call *c) {
  char defines[FL_SORT_DEFINES];
  defines_of(c->in_dtype[0], defines);
  fl_cuda_want_file(s, file, defines, 0);
}

static flame_status start(fl_cuda *s, int dtype, const char *entry, int64_t blocks,
                          unsigned threads, void **params) {
  char defines[FL_SORT_DEFINES];
  defines_of(dtype, defines);
  return fl_sort_launch(s, file, defines, entry, blocks, threads, params);
}

/* ---- searchsorted ---- */

int64_t fl_cuda_scratch_searchsorted(fl_cuda *s, const fl_call *c) { (void)s; (void)c; return 0; }
void fl_cuda_modules_searchsorted(fl_cuda *s, const fl_call *c) { modules_of(s, c); }

flame_status fl_cuda_call_searchsorted(fl_cuda *s, const fl_call_run *r) {
  const fl_call *c = r->call;
  const void *sorted = r->in[0], *v = r->in[1];
  void *out = r->out;
  int64_t n = c->p[1], m = c->p[2], total = c->numel;
  int right = (int)c->p[3], shared = (int)c->p[4];
  void *params[] = { &sorted, &v, &out, &n, &m, &total, &right, &shared };
  if (total == 0) return FLAME_OK;
  return start(s, c->in_dtype[0], "search", fl_sort_strided(total, 256), 256, params);
}

/* ---- weights of draws: bad weights are reported when a value is read next ---- */

static const char *type_of(const fl_call *c) {
  return c->in_dtype[0] == FLAME_F64 ? "#define T double\n" : "#define T float\n";
}
int64_t fl_cuda_scratch_weights(fl_cuda *s, const fl_call *c) { (void)s; (void)c; return 0; }
void fl_cuda_modules_weights(fl_cuda *s, const fl_call *c) {
  fl_cuda_want_file(s, "weights.cu", type_of(c), 0);
}

flame_status fl_cuda_call_weights(fl_cuda *s, const fl_call_run *r) {
  const void *w = r->in[0];
  void *at = r->out;
  int n = (int)r->call->p[1];
  double scale = (double)(INT64_C(1) << r->call->p[2]);
  uint64_t site = (uint64_t)r->scalar[0].i & 0xFFFF;
  void *params[] = { &w, &at, &n, &scale, &s->late, &site };
  if (r->call->numel == 0) return FLAME_OK;
  const flame_status e = fl_sort_launch(s, "weights.cu", type_of(r->call), "weights", r->call->p[0],
                                        1024, params);
  return e != FLAME_OK ? e : fl_cuda_expect_late(s);
}

flame_status fl_cuda_weights_fault(fl_cuda *s, uint64_t word) {
  const long long at = (long long)(word << 1 >> 17) + 1;
  if (s->ctx->err.code == FLAME_OK) s->ctx->err.site = (uint32_t)(word & 0xFFFF);
  if (word >> 62 == 3)
    return FL_FAIL(s->ctx, FLAME_BAD_VALUE, "multinomial", "probs is 0 everywhere");
  if (word >> 63)
    return FL_FAIL(s->ctx, FLAME_BAD_VALUE, "multinomial", "row %lld of probs is 0 everywhere", at);
  return FL_FAIL(s->ctx, FLAME_BAD_VALUE, "multinomial",
                 "probs has a value that is negative, infinite or NaN at position %lld", at);
}

/* ---- histogram ---- */

int64_t fl_cuda_scratch_histogram(fl_cuda *s, const fl_call *c) { (void)s; (void)c; return 0; }
void fl_cuda_modules_histogram(fl_cuda *s, const fl_call *c) { modules_of(s, c); }

flame_status fl_cuda_call_histogram(fl_cuda *s, const fl_call_run *r) {
  const fl_call *c = r->call;
  const void *id = r->in[0];
  void *count = r->out;
  int64_t n = c->p[0], bins = c->p[1];
  void *clearing[] = { &count, &bins }, *adding[] = { &id, &count, &n, &bins };
  if (bins == 0) return FLAME_OK;
  flame_status e = start(s, FLAME_I64, "histogram_clear", fl_sort_strided(bins, 256), 256,
                         clearing);
  const int64_t blocks = fl_ceil_div(n, 2048);
  if (e == FLAME_OK && n > 0)
    e = start(s, FLAME_I64, "histogram_add", blocks < 1024 ? blocks : 1024, 256, adding);
  return e;
}

/* ---- nonzero ---- */

typedef struct sides { int64_t rank, size[8]; } sides;     /* as in count.cu */

/* Divides n elements into chunks, one for each warp, at most 8 * FL_SORT_BLOCKS of them. Returns
** the number of blocks (of 8 warps); *chunk: the elements of a chunk. */
static int64_t cut(int64_t n, int64_t *chunk) {
  int64_t block, blocks;
  fl_sort_cut(1, n, 4096, &block, &blocks);
  *chunk = block / 8;
  return blocks;
}

/* Counts the nonzero elements, and those before each chunk. */
static flame_status count_places(fl_cuda *s, const fl_call *c, const void *x, void *counts) {
  int64_t n = c->in_numel[0], chunk, chunks = cut(n, &chunk) * 8;
  void *counting[] = { &x, &counts, &n, &chunk }, *summing[] = { &counts, &chunks };
  flame_status e = FLAME_OK;
  if (n > 0) e = start(s, c->in_dtype[0], "nonzero_count", chunks / 8, 256, counting);
  return e != FLAME_OK ? e : start(s, c->in_dtype[0], "nonzero_before", 1, 1024, summing);
}

int64_t fl_cuda_scratch_nonzero_count(fl_cuda *s, const fl_call *c) { (void)s; (void)c; return 0; }
void fl_cuda_modules_nonzero_count(fl_cuda *s, const fl_call *c) { modules_of(s, c); }
flame_status fl_cuda_call_nonzero_count(fl_cuda *s, const fl_call_run *r) {
  return count_places(s, r->call, r->in[0], r->out);
}

int64_t fl_cuda_scratch_nonzero(fl_cuda *s, const fl_call *c) {
  (void)s;
  return c->numel == 0 || c->nin > 1 ? 0 : FL_NONZERO_COUNTS * 8;
}
void fl_cuda_modules_nonzero(fl_cuda *s, const fl_call *c) { modules_of(s, c); }

flame_status fl_cuda_call_nonzero(fl_cuda *s, const fl_call_run *r) {
  const fl_call *c = r->call;
  const void *x = r->in[0];
  void *out = r->out, *counts = c->nin > 1 ? r->in[1] : r->scratch;
  int64_t n = c->in_numel[0], count = c->p[0], chunk;
  if (c->numel == 0) return FLAME_OK;
  const int64_t blocks = cut(n, &chunk);
  sides side = { .rank = c->p[1] };
  memcpy(side.size, c->p + 2, sizeof side.size);
  void *writing[] = { &x, &counts, &out, &n, &chunk, &count, &side };
  const flame_status e = c->nin > 1 ? FLAME_OK : count_places(s, c, x, counts);
  return e != FLAME_OK ? e : start(s, c->in_dtype[0], "nonzero_write", blocks, 256, writing);
}
