/*
** Scans on a CUDA device by kernels/scan.cu. How rows and columns are divided depends only on the
** sizes, so the order of a sum is the same on every such device.
*/
#include "cuda/call/sort.h"
#include "base/num.h"
#include <stdio.h>

/* TILE: that of scan.cu for narrow states; for wide ones it is half as long, so chunks of whole
** TILEs suit both. BLOCKS: number of blocks for long rows, eight for each of 132 multiprocessors.
*/
enum { SHORT = 512, TILE = 4096, BLOCKS = 1056, THREADS = 65536, SEGMENT = 32, STATE = 24 };
enum { SUM, PRODUCT, LSE, MAX, MIN, LINE };
static const char file[] = "scan.cu";

static int op_of(const fl_call *c) {
  if (c->kind == FL_CALL_scan) return (int)c->p[3];
  if (c->kind == FL_CALL_extreme) return c->p[3] ? MIN : MAX;
  return LINE;
}
static int is_reverse(const fl_call *c) {
  return c->kind == FL_CALL_scan ? (int)c->p[4] : c->kind == FL_CALL_recurrence ? (int)c->p[3] : 0;
}

static void defines_of(const fl_call *c, char out[FL_SORT_DEFINES]) {
  static const uint8_t type[FLAME_DTYPE_COUNT] = {
    [FLAME_F64] = 0, [FLAME_F32] = 1, [FLAME_F16] = 2, [FLAME_BF16] = 3, [FLAME_I64] = 4,
    [FLAME_I32] = 5, [FLAME_I16] = 6, [FLAME_I8] = 7, [FLAME_U8] = 8, [FLAME_BOOL] = 9,
  };
  snprintf(out, FL_SORT_DEFINES, "#define TYPE %d\n#define OP %d\n#define VALUES %d\n",
           type[c->in_dtype[0]], op_of(c), c->kind == FL_CALL_extreme && c->p[4]);
}

/* Divides rows into chunks, or columns into segments; into a single one if there are enough rows or
** columns. */
static void cut(const fl_call *c, int64_t *chunk, int64_t *chunks) {
  const int64_t n = c->p[1], lanes = c->p[0] * c->p[2], unit = c->p[2] == 1 ? TILE : SEGMENT;
  const int64_t threads = c->p[2] == 1 ? BLOCKS : THREADS,
                most = lanes < threads ? threads / lanes : 1;
  const int64_t parts = n / unit < most ? n / unit : most;
  *chunk = parts > 1 ? (n + parts - 1) / parts : n;
  if (c->p[2] == 1) *chunk = fl_ceil_div(*chunk, TILE) * TILE;
  *chunks = (n + *chunk - 1) / *chunk;
}

static int64_t scratch_of(const fl_call *c) {
  int64_t chunk, chunks;
  if (c->numel == 0) return 0;
  cut(c, &chunk, &chunks);
  return chunks > 1 ? c->p[0] * c->p[2] * chunks * STATE : 0;
}

static void modules_of(fl_cuda *s, const fl_call *c) {
  char defines[FL_SORT_DEFINES];
  defines_of(c, defines);
  fl_cuda_want_file(s, file, defines, 0);
}

typedef struct job {
  fl_cuda *s;
  char defines[FL_SORT_DEFINES];
  const void *x, *x2;
  void *y, *states, *none;
  int64_t outer, n, inner, chunk, chunks;
  int reverse;
} job;

static flame_status start(const job *j, const char *entry, int64_t blocks, unsigned threads,
                          void **params) {
  return fl_sort_launch(j->s, file, j->defines, entry, blocks, threads, params);
}

static flame_status before(job *j) {
  int64_t lanes = j->outer * j->inner;
  void *params[] = { &j->states, &lanes, &j->chunks, &j->inner };
  return start(j, "scan_before", fl_ceil_div(lanes, 8), 256, params);
}

static flame_status scan_rows(job *j) {
  void *shorts[] = { &j->x, &j->x2, &j->y, &j->outer, &j->n, &j->reverse };
  void *chunks[] = { &j->x, &j->x2, &j->states, &j->n, &j->chunk, &j->chunks, &j->reverse };
  void *rows[] = { &j->x, &j->x2, &j->y, j->chunks > 1 ? &j->states : &j->none, &j->n, &j->chunk,
                   &j->chunks, &j->reverse };
  const int64_t blocks = j->outer * j->chunks;
  flame_status e = FLAME_OK;
  if (j->n <= SHORT) return start(j, "scan_short", fl_ceil_div(j->outer, 8), 256, shorts);
  if (j->chunks > 1) e = start(j, "scan_chunks", blocks, 256, chunks);
  return e != FLAME_OK ? e : start(j, "scan_rows", blocks, 256, rows);
}

static flame_status scan_columns(job *j) {
  const int64_t blocks = fl_ceil_div(j->outer * j->chunks * j->inner, 128);
  const int cut_up = j->chunks > 1;
  void *first[] = { &j->x, &j->x2, &j->none, &j->states, &j->outer, &j->n, &j->inner, &j->chunk,
                    &j->chunks, &j->reverse };
  void *last[] = { &j->x, &j->x2, &j->y, cut_up ? &j->states : &j->none, &j->outer, &j->n,
                   &j->inner, &j->chunk, &j->chunks, &j->reverse };
  flame_status e = FLAME_OK;
  if (cut_up) {
    e = start(j, "scan_columns", blocks, 128, first);
    if (e == FLAME_OK) e = before(j);
  }
  return e != FLAME_OK ? e : start(j, "scan_columns", blocks, 128, last);
}

static flame_status run(fl_cuda *s, const fl_call_run *r) {
  const fl_call *c = r->call;
  if (c->numel == 0) return FLAME_OK;
  job j = { .s = s, .x = r->in[0], .x2 = c->nin > 1 ? r->in[1] : NULL, .y = r->out,
            .states = r->scratch,
            .outer = c->p[0], .n = c->p[1], .inner = c->p[2], .reverse = is_reverse(c) };
  defines_of(c, j.defines);
  cut(c, &j.chunk, &j.chunks);
  return j.inner == 1 ? scan_rows(&j) : scan_columns(&j);
}

int64_t fl_cuda_scratch_scan(fl_cuda *s, const fl_call *c) { (void)s; return scratch_of(c); }
void fl_cuda_modules_scan(fl_cuda *s, const fl_call *c) { modules_of(s, c); }
flame_status fl_cuda_call_scan(fl_cuda *s, const fl_call_run *r) { return run(s, r); }

int64_t fl_cuda_scratch_extreme(fl_cuda *s, const fl_call *c) { (void)s; return scratch_of(c); }
void fl_cuda_modules_extreme(fl_cuda *s, const fl_call *c) { modules_of(s, c); }
flame_status fl_cuda_call_extreme(fl_cuda *s, const fl_call_run *r) { return run(s, r); }

int64_t fl_cuda_scratch_recurrence(fl_cuda *s, const fl_call *c) { (void)s; return scratch_of(c); }
void fl_cuda_modules_recurrence(fl_cuda *s, const fl_call *c) { modules_of(s, c); }
flame_status fl_cuda_call_recurrence(fl_cuda *s, const fl_call_run *r) { return run(s, r); }
