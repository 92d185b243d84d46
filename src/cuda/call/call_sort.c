/*
** Sorting and selecting on a CUDA device by kernels/sort.cu: rows of at most ROW elements in
** shared memory, longer ones by radix passes. Rows of 2^30 elements or more stay on the host.
*/
#include "cuda/call/sort.h"
#include "base/num.h"
#include <stdio.h>

enum { ROW = 2048, NETWORK = 256, LIMIT = 1 << 30 };
static const char file[] = "sort.cu";

/* ---- shared with call_count.c and call_scan.c ---- */

flame_status fl_sort_launch(fl_cuda *s, const char *name, const char *defines, const char *entry,
                            int64_t blocks, unsigned threads, void **params) {
  fl_cu_function f;
  const flame_status e = fl_cuda_file_entry(s, name, defines, 0, entry, &f);
  if (e != FLAME_OK) return e;
  return fl_cuda_launch(s, f, (const unsigned[]){ (unsigned)blocks, 1, 1 },
                        (const unsigned[]){ threads, 1, 1 }, 0, params);
}

void fl_sort_defines(int dtype, char out[FL_SORT_DEFINES]) {
  static const struct { int bits, kind; const char *inf; } is[FLAME_DTYPE_COUNT] = {
    [FLAME_F64] = { 64, 0, "0x7FF0000000000000ull" }, [FLAME_F32] = { 32, 0, "0x7F800000" },
    [FLAME_F16] = { 16, 0, "0x7C00" }, [FLAME_BF16] = { 16, 0, "0x7F80" },
    [FLAME_I64] = { 64, 1, "0" }, [FLAME_I32] = { 32, 1, "0" }, [FLAME_I16] = { 16, 1, "0" },
    [FLAME_I8] = { 8, 1, "0" }, [FLAME_U8] = { 8, 2, "0" }, [FLAME_BOOL] = { 8, 3, "0" },
  };
  snprintf(out, FL_SORT_DEFINES, "#define BITS %d\n#define KIND %d\n#define INF %s\n",
           is[dtype].bits, is[dtype].kind, is[dtype].inf);
}

void fl_sort_cut(int64_t rows, int64_t n, int64_t tile, int64_t *chunk, int64_t *chunks) {
  const int64_t tiles = (n + tile - 1) / tile,
                most = rows < FL_SORT_BLOCKS ? FL_SORT_BLOCKS / rows : 1;
  const int64_t each = tiles > most ? (tiles + most - 1) / most : 1;
  *chunk = each * tile;
  *chunks = (n + *chunk - 1) / *chunk;
}

/* ---- what a sort of rows needs ---- */

/* The bytes and bits of a key, and how rows are divided into chunks and tiles. */
typedef struct plan {
  fl_cuda *s;
  char defines[FL_SORT_DEFINES];
  int64_t rows, n, chunk, chunks, tiles, key_bytes, passes;
  int bits;
  uint64_t flip;
} plan;

static plan plan_of(fl_cuda *s, int dtype, int64_t rows, int64_t n, int descending) {
  plan p = { .s = s, .rows = rows, .n = n, .bits = 8 * fl_dtype_size(dtype) };
  fl_sort_defines(dtype, p.defines);
  p.key_bytes = p.bits == 64 ? 8 : 4;
  p.passes = p.bits / 8;
  p.flip = descending ? ~(uint64_t)0 >> (64 - p.bits) : 0;
  const int64_t tile = p.bits == 64 ? 2048 : 4096;                   /* TILE of sort.cu */
  p.tiles = fl_ceil_div(n, tile);
  if (rows > 0 && n > 0) fl_sort_cut(rows, n, tile, &p.chunk, &p.chunks);
  return p;
}

static flame_status start(const plan *p, const char *entry, int64_t blocks, unsigned threads,
                          void **params) {
  return fl_sort_launch(p->s, file, p->defines, entry, blocks, threads, params);
}

/* Sorts rows in shared memory. mode 0: writes the first k positions of each row and, if requested,
** their values; other modes: one position of each (sort.cu). keys and at NULL: they are made from
** x. */
static flame_status short_rows(const plan *p, const void *x, void *keys, void *at, void *out,
                               void *values, int64_t n, int64_t k, int mode) {
  int count = (int)n, pad = 1, first = (int)k, items = (count + 255) / 256;
  while (pad < count) pad *= 2;
  int elements = pad < 512 ? 512 : pad;
  int64_t rows = p->rows;
  uint64_t flip = p->flip;
  void *tiling[] = { &x, &keys, &at, &out, &values, &count, &items, &first, &flip, &mode };
  if (n > NETWORK) return start(p, "sort_tile", rows, 256, tiling);
  void *params[] = { &x, &keys, &at, &out, &values, &rows, &count, &pad, &elements, &first,
                     &flip, &mode };
  return start(p, "sort_rows", fl_ceil_div(rows, elements / pad), (unsigned)elements / 2, params);
}

/* starts_bytes: for the starts of digits, and for the counters from which tiles of a pass take
** their numbers; tiles_bytes: for the states of tiles. */
static int64_t starts_bytes(const plan *p) {
  return fl_round_up(p->rows * p->passes * 256 * 4, 256) + 256;
}
static int64_t tiles_bytes(const plan *p) { return fl_round_up(p->rows * p->tiles * 256 * 4, 256); }

static int64_t long_bytes(const plan *p) {
  const int64_t numel = p->rows * p->n, buffers = p->passes > 2 ? 2 : p->passes - 1;
  return starts_bytes(p) + tiles_bytes(p) +
         buffers * (fl_round_up(numel * p->key_bytes, 256) + fl_round_up(numel * 4, 256));
}

static flame_status zero(const plan *p, void *at, int64_t bytes) {
  return fl_cuda_check(p->s,
                       p->s->cu->Memset8((fl_cu_ptr)(uintptr_t)at, 0, (size_t)bytes, p->s->stream),
                       "cuMemsetD8Async");
}

/* Finds where the digits of each row and pass begin. */
static flame_status find_starts(const plan *p, const void *x, void *keys, void *starts) {
  int64_t n = p->n, chunk = p->chunk, chunks = p->chunks;
  uint64_t flip = p->flip;
  void *tallying[] = { &x, &keys, &starts, &n, &chunk, &chunks, &flip }, *summing[] = { &starts };
  flame_status e = zero(p, starts, starts_bytes(p));
  if (e == FLAME_OK) e = start(p, "sort_tally", p->rows * chunks, 256, tallying);
  return e == FLAME_OK ? start(p, "sort_starts", p->rows * p->passes, 256, summing) : e;
}

/* Sorts long rows: writes positions to out, and values to 'values' unless that is NULL. scratch has
** long_bytes(p) bytes. keys0 and at0 are the keys and their positions; NULL: made from x. */
static flame_status long_rows(const plan *p, const void *x, void *keys0, void *at0, void *out,
                              void *values, char *scratch) {
  const int64_t numel = p->rows * p->n;
  char *room = scratch + starts_bytes(p) + tiles_bytes(p),
       *ticket = scratch + starts_bytes(p) - 256;
  void *starts = scratch, *said = scratch + starts_bytes(p), *keys[2], *at[2], *none = NULL;
  for (int b = 0; b < 2; b++) {
    keys[b] = room;
    at[b] = room + fl_round_up(numel * p->key_bytes, 256);
    room += fl_round_up(numel * p->key_bytes, 256) + fl_round_up(numel * 4, 256);
  }
  int64_t n = p->n, tiles = p->tiles;
  uint64_t flip = p->flip;
  flame_status e = find_starts(p, x, keys0, starts);
  for (int pass = 0; pass < p->passes && e == FLAME_OK; pass++, ticket += 4) {
    const int from = (pass + 1) % 2, to = pass % 2, last = pass == p->passes - 1;
    void *sweeping[] = { &x, pass ? &keys[from] : &keys0, pass ? &at[from] : &at0,
                         &keys[to], &at[to], last ? &out : &none, last ? &values : &none, &ticket,
                         &said, &starts, &n, &tiles, &pass, &flip };
    e = zero(p, said, tiles_bytes(p));
    if (e == FLAME_OK) e = start(p, "sort_sweep", p->rows * tiles, 256, sweeping);
  }
  return e;
}

static int64_t scratch_of_sort(const plan *p) { return p->n <= ROW ? 0 : long_bytes(p); }

static void modules_of(fl_cuda *s, const fl_call *c) {
  char defines[FL_SORT_DEFINES];
  fl_sort_defines(c->in_dtype[0], defines);
  fl_cuda_want_file(s, file, defines, 0);
}

/* ---- argsort ---- */

int64_t fl_cuda_scratch_argsort(fl_cuda *s, const fl_call *c) {
  const plan p = plan_of(s, c->in_dtype[0], c->p[0], c->p[1], 0);
  return p.n >= LIMIT ? -1 : c->numel ? scratch_of_sort(&p) : 0;
}
void fl_cuda_modules_argsort(fl_cuda *s, const fl_call *c) { modules_of(s, c); }

flame_status fl_cuda_call_argsort(fl_cuda *s, const fl_call_run *r) {
  const fl_call *c = r->call;
  const plan p = plan_of(s, c->in_dtype[0], c->p[0], c->p[1], (int)c->p[2]);
  if (c->numel == 0) return FLAME_OK;
  void *values = c->p[3] ? (char *)r->out + p.rows * p.n * 8 : NULL;
  if (p.n <= ROW) return short_rows(&p, r->in[0], NULL, NULL, r->out, values, p.n, p.n, 0);
  return long_rows(&p, r->in[0], NULL, NULL, r->out, values, r->scratch);
}

/* ---- selecting in long rows ---- */

typedef struct choice {
  void *hist, *prefix, *need, *less, *equal, *keys, *at;
  int64_t bytes;
} choice;

static void *take(choice *l, char *scratch, int64_t bytes) {
  void *p = scratch ? scratch + l->bytes : NULL;
  l->bytes += fl_round_up(bytes, 256);
  return p;
}

/* Places the arrays in scratch; with scratch NULL only its size is computed. k 0: only the k-th key
** is sought; no keys and positions are collected. */
static choice choice_of(const plan *p, char *scratch, int64_t k) {
  choice l = { .bytes = 0 };
  l.hist = take(&l, scratch, p->rows * 256 * 4);
  l.prefix = take(&l, scratch, p->rows * 8);
  l.need = take(&l, scratch, p->rows * 8);
  l.less = take(&l, scratch, p->rows * (k ? p->chunks * 4 : 8));     /* of kth: places */
  l.equal = take(&l, scratch, p->rows * (k ? p->chunks * 4 : 8));
  l.keys = take(&l, scratch, p->rows * k * p->key_bytes);
  l.at = take(&l, scratch, p->rows * k * 4);
  return l;
}

/* Finds the k-th key of each row (in 'prefix'), and how many keys equal to it belong to the first k
** (in 'need'). */
static flame_status find_kth(const plan *p, choice *l, const void *x, int64_t k) {
  int64_t n = p->n, chunk = p->chunk, chunks = p->chunks;
  uint64_t flip = p->flip, wanted = (uint64_t)k;
  void *starting[] = { &l->hist, &l->prefix, &l->need, &wanted };
  flame_status e = start(p, "select_start", p->rows, 256, starting);
  for (int shift = p->bits - 8; shift >= 0 && e == FLAME_OK; shift -= 8) {
    void *counting[] = { &x, &l->hist, &l->prefix, &n, &chunk, &chunks, &shift, &flip };
    void *picking[] = { &l->hist, &l->prefix, &l->need, &shift };
    e = start(p, "select_count", p->rows * p->chunks, 256, counting);
    if (e == FLAME_OK) e = start(p, "select_pick", p->rows, 256, picking);
  }
  return e;
}

static flame_status collect(const plan *p, choice *l, const void *x, int64_t k) {
  int64_t rows = p->rows, n = p->n, chunk = p->chunk, chunks = p->chunks;
  uint64_t flip = p->flip;
  void *tallying[] = { &x, &l->prefix, &l->less, &l->equal, &n, &chunk, &chunks, &flip };
  void *summing[] = { &l->less, &l->equal, &rows, &chunks };
  void *collecting[] = { &x, &l->prefix, &l->need, &l->less, &l->equal, &l->keys, &l->at, &n,
                         &chunk, &chunks, &k, &flip };
  flame_status e = start(p, "select_tally", rows * chunks, 256, tallying);
  if (e == FLAME_OK) e = start(p, "select_before", fl_ceil_div(rows, 8), 256, summing);
  if (e == FLAME_OK) e = start(p, "select_collect", rows * chunks, 256, collecting);
  return e;
}

/* ---- topk ---- */

int64_t fl_cuda_scratch_topk(fl_cuda *s, const fl_call *c) {
  const plan p = plan_of(s, c->in_dtype[0], c->p[0], c->p[1], 0);
  if (p.n >= LIMIT) return -1;
  if (c->numel == 0 || p.n <= ROW) return 0;
  const plan chosen = plan_of(s, c->in_dtype[0], c->p[0], c->p[2], 0);
  return choice_of(&p, NULL, c->p[2]).bytes + (c->p[2] > ROW ? long_bytes(&chosen) : 0);
}
void fl_cuda_modules_topk(fl_cuda *s, const fl_call *c) { modules_of(s, c); }

flame_status fl_cuda_call_topk(fl_cuda *s, const fl_call_run *r) {
  const fl_call *c = r->call;
  const int64_t k = c->p[2];
  const plan p = plan_of(s, c->in_dtype[0], c->p[0], c->p[1], (int)c->p[3]);
  if (c->numel == 0) return FLAME_OK;
  if (p.n <= ROW) return short_rows(&p, r->in[0], NULL, NULL, r->out, NULL, p.n, k, 0);
  choice l = choice_of(&p, r->scratch, k);
  flame_status e = find_kth(&p, &l, r->in[0], k);
  if (e == FLAME_OK) e = collect(&p, &l, r->in[0], k);
  if (e != FLAME_OK) return e;
  if (k <= ROW) return short_rows(&p, r->in[0], l.keys, l.at, r->out, NULL, k, k, 0);
  const plan chosen = plan_of(s, c->in_dtype[0], c->p[0], k, (int)c->p[3]);
  return long_rows(&chosen, r->in[0], l.keys, l.at, r->out, NULL, (char *)r->scratch + l.bytes);
}

/* ---- kth ---- */

int64_t fl_cuda_scratch_kth(fl_cuda *s, const fl_call *c) {
  const plan p = plan_of(s, c->in_dtype[0], c->p[0], c->p[1], 0);
  return p.n >= LIMIT ? -1 : c->numel == 0 || p.n <= ROW ? 0 : choice_of(&p, NULL, 0).bytes;
}
void fl_cuda_modules_kth(fl_cuda *s, const fl_call *c) { modules_of(s, c); }

flame_status fl_cuda_call_kth(fl_cuda *s, const fl_call_run *r) {
  const fl_call *c = r->call;
  const plan p = plan_of(s, c->in_dtype[0], c->p[0], c->p[1], 0);
  int with_nan = c->p[3] && fl_is_float(c->in_dtype[0]);
  if (c->numel == 0) return FLAME_OK;
  if (p.n <= ROW)
    return short_rows(&p, r->in[0], NULL, NULL, r->out, NULL, p.n, c->p[2], with_nan ? 2 : 1);
  choice l = choice_of(&p, r->scratch, 0);
  const void *x = r->in[0];
  void *out = r->out;
  int64_t rows = p.rows, n = p.n, chunk = p.chunk, chunks = p.chunks;
  void *clearing[] = { &l.less, &l.equal, &rows };
  void *finding[] = { &x, &l.prefix, &l.less, &l.equal, &n, &chunk, &chunks };
  void *writing[] = { &l.less, &l.equal, &out, &rows, &with_nan };
  flame_status e = find_kth(&p, &l, x, c->p[2]);
  if (e == FLAME_OK) e = start(&p, "kth_clear", fl_ceil_div(rows, 256), 256, clearing);
  if (e == FLAME_OK) e = start(&p, "kth_find", rows * chunks, 256, finding);
  return e != FLAME_OK ? e : start(&p, "kth_write", fl_ceil_div(rows, 256), 256, writing);
}
