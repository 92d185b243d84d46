/*
** Attention on a CUDA device. Three implementations:
** - cuDNN (cuda/library/cudnn_attention.c): large problems in half types on Hopper;
** - kernels/attention_hopper.cu: there, the gradients of heads of 40 to 64 and 104 to 128 features
**   without a mask;
** - kernels/attention.cu: the rest, if keys and values have the same number of features, at most
**   256, and in half types, which need tensor cores, a multiple of 8.
**
** Other calls run on the host; for most of these lua/flame/ops/attention.lua records simpler
** operations instead of a call. How rows and columns are divided depends only on the dtype, the
** size of a head and, for half types, on whether there is a mask; this file decides it, and for
** half types passes it to the kernels' sources as definitions.
*/
#include "cuda/call/call.h"
#include "base/num.h"
#include "cuda/library/cudnn.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* TENSOR_CORES: first architecture with the instructions that are used */
enum { DEFINES = 320, THREADS = 128, MOST = 256, TENSOR_CORES = 80 };
enum { FORWARD, DELTA, KEYS, QUERIES, ENTRIES };
static const char *const entry_of[] = { "attention_forward", "attention_delta", "attention_keys",
                                        "attention_queries" },
                 *const hopper_entry[ENTRIES] = { [KEYS] = "hopper_keys",
                                                  [QUERIES] = "hopper_queries" };

/* The argument of all the kernels: struct attention_args of attention.cu. */
typedef struct args {
  const void *q, *k, *v, *mask, *dout, *packed;
  void *result, *dk, *dv, *scratch;
  const void *key;
  long long qs[3], ks[3], vs[3], gs[3], ms[4], os[3], dqs[3], dks[3];
  int b, h, hk, t, s, d;
  float scale;
  unsigned drop;
  float kept;
} args;

typedef struct work {
  fl_attention a;
  int mask, half, back, hopper;         /* hopper: by kernels/attention_hopper.cu */
  int64_t head;                         /* d, rounded up to a size for which there is a kernel */
  const char *file;
  char defines[DEFINES];
} work;

/* ---- launches ---- */

/* As tiling in kernels/attention.cu. blocks: those that a multiprocessor should hold; held: the
** rows of q stay in registers. The others: see half_shape. */
typedef struct tiling { int64_t tiles, width; int blocks, held; } tiling;
static tiling tiling_of(const work *w, int entry) {
  const int64_t head = w->head;
  const int masked = w->mask != FL_MASK_NONE, two = head <= 64 && !masked, small = head <= 128;
  if (entry == FORWARD) return (tiling){ two ? 2 : 1, head > 128 && masked ? 32 : 64, 2, small };
  if (entry == KEYS)
    return (tiling){ two ? 2 : 1, head > 192 || (head > 64 && masked) ? 16 : 32, small ? 2 : 1, 0 };
  return (tiling){ two ? 2 : 1, head > 64 && masked ? 16 : 32, small ? 2 : 1, small };
}

typedef struct shape { int64_t blocks, threads, shared; } shape;

/* Tensor cores: a block has x.tiles tiles of 64 rows of q (KEYS: of k), and backward also of dout
** (KEYS: of v). It steps through k and v (KEYS: through q and dout), x.width rows at a time, with
** two stages of loads for heads of at most 128. DELTA has 'lanes' threads per row instead. */
static shape half_shape(const work *w, int entry) {
  const fl_attention *a = &w->a;
  const tiling x = tiling_of(w, entry);
  const int64_t row = 2 * (w->head + 8), stages = w->head > 128 ? 1 : 2, rows = 64 * x.tiles,
                step = 2 * stages * x.width;
  const int64_t parts = w->head > 128 ? 2 : 1, lanes = w->head == 32 ? 4 : w->head == 64
                                                       ? 8 : w->head <= 128 ? 16 : 32;
  switch (entry) {
    case FORWARD:
      return (shape){ fl_ceil_div(a->t, rows) * a->h * a->b, THREADS, row * (rows + step) };
    case DELTA: return (shape){ fl_ceil_div(a->t * a->h * a->b, THREADS / lanes), THREADS, 0 };
    case KEYS: return (shape){ fl_ceil_div(a->s, rows) * a->hk * a->b * parts, THREADS,
                               row * (2 * rows + step) + 8 * stages * x.width };
    default:
      return (shape){ fl_ceil_div(a->t, rows) * a->h * a->b, THREADS, row * (2 * rows + step) };
  }
}

/* Hopper: as space in kernels/attention_hopper.cu, for heads of 64 and 128. */
typedef struct hopper_tiling { int groups, depth, buffers; } hopper_tiling;
static hopper_tiling hopper_of(int64_t d, int entry) {
  static const hopper_tiling of[2][ENTRIES] = {
    { [KEYS] = { 2, 5, 2 }, [QUERIES] = { 3, 4, 2 } },
    { [KEYS] = { 2, 4, 1 }, [QUERIES] = { 2, 4, 1 } }
  };
  return of[d > 64][entry];
}

static int64_t hopper_space(int64_t d, int entry) {
  const hopper_tiling x = hopper_of(d, entry);
  const int64_t piece = 64 * 2 * (d > 64 ? 128 : 64);
  return 1024 + (2 * piece + 512) * (x.buffers * x.groups + x.depth) +
         16 * (x.depth + x.buffers + 1);
}

static shape hopper_shape(const fl_cuda *s, const work *w, int entry) {
  const fl_attention *a = &w->a;
  const int groups = hopper_of(a->d, entry).groups;
  const int64_t tiles = entry == KEYS ? fl_ceil_div(a->s, 64 * groups) * a->hk * a->b
                                      : fl_ceil_div(a->t, 64 * groups) * a->h * a->b;
  return (shape){ fl_min(tiles, s->multiprocessors), THREADS * (groups + 1),
                  hopper_space(a->d, entry) };
}

/* f32: four threads per row, square tiles. */
static shape single_shape(const work *w, int entry) {
  const fl_attention *a = &w->a;
  const int64_t tile = w->head > 128 ? 16 : 32, row = w->head + 4,
                back = 4 * tile * (4 * row + 2 * (tile + 1));
  switch (entry) {
    case FORWARD:
      return (shape){ fl_ceil_div(a->t, tile) * a->h * a->b, 4 * tile,
                      4 * tile * (3 * row + tile + 1) };
    case DELTA: return (shape){ fl_ceil_div(a->t * a->h * a->b, tile), 4 * tile, 0 };
    case KEYS: return (shape){ fl_ceil_div(a->s, tile) * a->hk * a->b, 4 * tile, back };
    default: return (shape){ fl_ceil_div(a->t, tile) * a->h * a->b, 4 * tile, back };
  }
}

static shape shape_of(const fl_cuda *s, const work *w, int entry) {
  if (w->hopper && hopper_entry[entry]) return hopper_shape(s, w, entry);
  return (w->half ? half_shape : single_shape)(w, entry);
}

/* ---- what can run here ---- */

static void put_defines(work *w, int dtype) {
  static const char *const names[ENTRIES] = { [FORWARD] = "FORWARD", [KEYS] = "KEYS",
                                              [QUERIES] = "QUERIES" };
  int n = snprintf(w->defines, DEFINES,
                   "#define TYPE %d\n#define HEAD %d\n#define CAUSAL %d\n#define MASK %d\n"
                   "#define DROP %d\n%s",
                   dtype == FLAME_F32 ? 1 : dtype == FLAME_F16 ? 2 : 3, (int)w->head,
                   (int)w->a.causal, w->mask, (int)w->a.drops,
                   w->half && w->back ? "#define BACKWARD\n" : "");
  for (int e = 0; w->half && e < ENTRIES; e++) {
    const tiling x = tiling_of(w, e);
    if (names[e])
      n += snprintf(w->defines + n, (size_t)(DEFINES - n), "#define %s %d, %d, %d, %d\n",
                    names[e], (int)x.tiles, (int)x.width, x.blocks, x.held);
    if (w->hopper && hopper_entry[e]) {
      const hopper_tiling y = hopper_of(w->a.d, e);
      n += snprintf(w->defines + n, (size_t)(DEFINES - n), "#define %s_SHAPE %d, %d, %d\n",
                    names[e], y.groups, y.depth, y.buffers);
    }
  }
}

/* Are these gradients by kernels/attention_hopper.cu? On one H200, causal, bf16, they take 0.26 ms
** for 16 x 12 heads of 1,024 rows and 64 columns (cuDNN 0.34, with atomics 0.32), 2.1 for 8 x 16 of
** 4,096 (with atomics 1.9), 1.8 for 8 x 8 of 128 columns (2.1, with atomics 1.6). */
static int by_hopper(const fl_cuda *s, const fl_call *c, const fl_attention *a, int mask) {
  return s->arch == FL_HOPPER && c->kind == FL_CALL_attention_back &&
         fl_dtype_size(c->dtype) == 2 && mask == FL_MASK_NONE && !a->drops && a->d == a->d2 &&
         a->d % 8 == 0 &&
         ((a->d > 32 && a->d <= 64) || (a->d > 96 && a->d <= 128)) &&
         s->shared >= hopper_space(a->d, KEYS) && s->shared >= hopper_space(a->d, QUERIES);
}

/* 0: not here. */
static int work_of(fl_cuda *s, const fl_call *c, work *w) {
  static const int heads[] = { 32, 64, 96, 128, 192, MOST };
  memset(w, 0, sizeof *w);
  if (!fl_attention_read(c, &w->a, &w->mask)) return 0;
  const fl_attention *a = &w->a;
  const int64_t size[] = { a->b, a->h, a->t, a->s, a->b * a->h * a->t };
  w->half = fl_dtype_size(c->dtype) == 2;
  w->back = c->kind == FL_CALL_attention_back;
  w->hopper = by_hopper(s, c, a, w->mask);
  if (c->dtype == FLAME_F64 || a->d != a->d2 || a->d > MOST) return 0;
  if (w->half && (a->d % 8 || s->arch < TENSOR_CORES)) return 0;
  for (int i = 0; i < 5; i++) if (size[i] > INT_MAX / 2) return 0;
  for (int i = 0; w->head < a->d; i++) w->head = heads[i];
  for (int e = w->back ? DELTA : FORWARD; e <= (w->back ? QUERIES : FORWARD); e++) {
    const shape x = shape_of(s, w, e);
    if (x.blocks > INT_MAX || x.shared > s->shared) return 0;
  }
  w->file = !w->half ? "attention.cu attention_f32.cu"
           : w->hopper ? "attention.cu attention_back.cu attention_hopper.cu"
           : w->back ? "attention.cu attention_back.cu" : "attention.cu";
  put_defines(w, c->dtype);
  return 1;
}

/* ---- calls ---- */

/* cuDNN's plan for a call; NULL: a kernel of ours makes it. Of long rows cuDNN makes gradients by
** atomics faster than attention_hopper.cu. */
static const fl_dnn_plan *plan_of(fl_cuda *s, const fl_call *c) {
  const int64_t long_rows = 1 << 24;
  fl_attention a;
  int mask;
  if (!fl_attention_read(c, &a, &mask) || a.drops) return NULL;
  if (by_hopper(s, c, &a, mask) && !(a.free && a.t * a.s >= long_rows)) return NULL;
  return fl_dnn_attention(s, c);
}

static int64_t scratch_of(fl_cuda *s, const fl_call *c) {
  work w;
  const fl_dnn_plan *p = plan_of(s, c);
  if (p) return fl_dnn_attention_space(p, c);
  if (!work_of(s, c, &w)) return -1;
  return w.back ? 4 * w.a.b * w.a.h * w.a.t : 0;
}

static void want(fl_cuda *s, const fl_call *c) {
  work w;
  if (!plan_of(s, c) && work_of(s, c, &w)) fl_cuda_want_file(s, w.file, w.defines, (int)w.a.drops);
}

static args args_of(const work *w, const fl_call_run *r) {
  const fl_attention *a = &w->a;
  void *const *in = r->in + (w->back ? 2 : 0);
  args x = { .q = in[0], .k = in[1], .v = in[2], .result = r->out, .scratch = r->scratch,
             .b = (int)a->b, .h = (int)a->h,
             .hk = (int)a->hk, .t = (int)a->t, .s = (int)a->s, .d = (int)a->d,
             .scale = (float)r->scalar[0].d };
  if (w->mask != FL_MASK_NONE) x.mask = in[3];
  if (a->drops) {
    x.key = r->in[r->call->nin - 1];
    x.drop = (unsigned)ceilf((float)r->scalar[1].d * 0x1p24f);
    x.kept = (float)fl_attention_kept(r->scalar[1].d);
  }
  const fl_attention_results to = fl_attention_results_of(a);
  const int64_t size = w->half ? 2 : 4;
  if (w->back) {
    x.dout = r->in[0];
    x.packed = r->in[1];
    x.dk = (char *)r->out + to.dk_at * size;
    x.dv = (char *)r->out + to.dv_at * size;
  }
  for (int i = 0; i < 3; i++) {
    x.qs[i] = a->qs[i];
    x.ks[i] = a->ks[i];
    x.vs[i] = a->vs[i];
    x.gs[i] = a->gs[i];
    x.os[i] = to.out[i];
    x.dqs[i] = to.dq[i];
    x.dks[i] = to.dk[i];
  }
  for (int i = 0; i < 4; i++) x.ms[i] = a->ms[i];
  return x;
}

static flame_status launch(fl_cuda *s, const work *w, int entry, args *x) {
  const shape n = shape_of(s, w, entry);
  const char *name = w->hopper && hopper_entry[entry] ? hopper_entry[entry] : entry_of[entry];
  fl_cu_function f;
  const flame_status e = fl_cuda_file_entry(s, w->file, w->defines, (int)w->a.drops, name, &f);
  if (e != FLAME_OK) return e;
  return fl_cuda_launch(s, f, (const unsigned[]){ (unsigned)n.blocks, 1, 1 },
                        (const unsigned[]){ (unsigned)n.threads, 1, 1 }, (unsigned)n.shared,
                        (void *[]){ x });
}

static flame_status run(fl_cuda *s, const fl_call_run *r) {
  work w;
  const fl_dnn_plan *p = plan_of(s, r->call);
  if (p) return fl_dnn_attention_run(s, p, r);
  if (!work_of(s, r->call, &w)) return fl_cuda_call_host(s, r);
  args x = args_of(&w, r);
  if (!w.back) return launch(s, &w, FORWARD, &x);
  flame_status e = FLAME_OK;
  for (int k = DELTA; k < ENTRIES && e == FLAME_OK; k++) e = launch(s, &w, k, &x);
  return e;
}

int64_t fl_cuda_scratch_attention(fl_cuda *s, const fl_call *c) { return scratch_of(s, c); }
void fl_cuda_modules_attention(fl_cuda *s, const fl_call *c) { want(s, c); }
flame_status fl_cuda_call_attention(fl_cuda *s, const fl_call_run *r) { return run(s, r); }

int64_t fl_cuda_scratch_attention_back(fl_cuda *s, const fl_call *c) { return scratch_of(s, c); }
void fl_cuda_modules_attention_back(fl_cuda *s, const fl_call *c) { want(s, c); }
flame_status fl_cuda_call_attention_back(fl_cuda *s, const fl_call_run *r) { return run(s, r); }
