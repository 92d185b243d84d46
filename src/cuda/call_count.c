/*
** Places in sorted rows, counts of ids and places of what is not zero on a CUDA device, by
** kernels/count.cu. Ids out of range are left out here and never touch memory: who needs them
** reported (bincount) has looked before.
*/
#include "cuda/sort.h"
#include <stdio.h>
#include <string.h>

static const char file[] = "count.cu";

static void defines_of(int dtype, char out[FL_SORT_DEFINES]) {
  static const uint8_t kind[FLAME_DTYPE_COUNT] = {
    [FLAME_I64] = 1, [FLAME_I32] = 1, [FLAME_I16] = 1, [FLAME_I8] = 1, [FLAME_U8] = 2, [FLAME_BOOL] = 3,
  };
  snprintf(out, FL_SORT_DEFINES, "#define BITS %d\n#define KIND %d\n#define HALF %d\n", 8 * fl_dtype_size(dtype),
           kind[dtype], dtype == FLAME_BF16);
}

static void modules_of(fl_cuda *s, const fl_call *c) {
  char defines[FL_SORT_DEFINES];
  defines_of(c->in_dtype[0], defines);
  fl_cuda_want_file(s, file, defines, 0);
}

static flame_status start(fl_cuda *s, int dtype, const char *entry, int64_t blocks, unsigned threads, void **params) {
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
  flame_status e = start(s, FLAME_I64, "histogram_clear", fl_sort_strided(bins, 256), 256, clearing);
  const int64_t blocks = fl_sort_blocks(n, 2048);
  if (e == FLAME_OK && n > 0) e = start(s, FLAME_I64, "histogram_add", blocks < 1024 ? blocks : 1024, 256, adding);
  return e;
}

/* ---- nonzero ---- */

typedef struct sides { int64_t rank, size[8]; } sides;     /* as in count.cu */

/* Blocks of 8 warps, and the elements of a warp. */
static int64_t cut(int64_t n, int64_t *chunk) {
  int64_t block, blocks;
  fl_sort_cut(1, n, 4096, &block, &blocks);
  *chunk = block / 8;
  return blocks;
}

int64_t fl_cuda_scratch_nonzero(fl_cuda *s, const fl_call *c) {
  int64_t chunk;
  (void)s;
  return c->numel == 0 ? 0 : cut(c->in_numel[0], &chunk) * 8 * 8;
}
void fl_cuda_modules_nonzero(fl_cuda *s, const fl_call *c) { modules_of(s, c); }

flame_status fl_cuda_call_nonzero(fl_cuda *s, const fl_call_run *r) {
  const fl_call *c = r->call;
  const void *x = r->in[0];
  void *out = r->out, *places = r->scratch;
  int64_t n = c->in_numel[0], count = c->p[0], chunk;
  const int dtype = c->in_dtype[0];
  if (c->numel == 0) return FLAME_OK;
  const int64_t blocks = cut(n, &chunk);
  int64_t chunks = blocks * 8;
  sides side = { .rank = c->p[1] };
  memcpy(side.size, c->p + 2, sizeof side.size);
  void *counting[] = { &x, &places, &n, &chunk }, *summing[] = { &places, &chunks };
  void *writing[] = { &x, &places, &out, &n, &chunk, &count, &side };
  flame_status e = start(s, dtype, "nonzero_count", blocks, 256, counting);
  if (e == FLAME_OK) e = start(s, dtype, "nonzero_before", 1, 1024, summing);
  return e != FLAME_OK ? e : start(s, dtype, "nonzero_write", blocks, 256, writing);
}
