/*
** Convolutions and pooling on a CUDA device: a few by kernels/direct.cu, the others by cuDNN if it
** supports them (cudnn.c), else by the implicit products of kernels/conv.cu; pooling by
** kernels/pool.cu. The kernels take the structs fl_conv and fl_pooling as they are.
*/
#include "cuda/call/call.h"
#include "cuda/call/conv_direct.h"
#include "cuda/library/cudnn.h"
#include <stdio.h>

enum { DEFINES = 400, THREADS = 256, TILE = 64, MOST_ROWS = 65535 };

/* Writes the definitions of the types of storage and of sums for a dtype; index: bits of positions
** (pool.cu). */
static void defines_of(int dtype, int index, char out[DEFINES]) {
  static const char *const sums[] = {
    [FLAME_F64] = "double", [FLAME_F32] = "float", [FLAME_F16] = "float", [FLAME_BF16] = "float"
  };
  const char *name = fl_dtype_name(dtype);
  const char *sum = fl_is_float(dtype) ? sums[dtype] : index ? "long long" : "unsigned long long";
  snprintf(out, DEFINES,
           "#define S s%d\n#define ACC %s\n#define IN(x) in_%s(x)\n#define OUT(x) "
           "out_%s(%s(x))\n#define INDEX %s\n",
           fl_dtype_size(dtype), sum, name, name,
           fl_is_float(dtype)                  ? ""
           : fl_dtype_reg(dtype) == FL_REG_I64 ? "(int64_t)"
                                               : "(int32_t)",
           index == 64 ? "long long" : "int");
}

/* ---- convolution ---- */

/* Are all sums of the convolution without terms? Then the result has no elements or only zeros. */
static int is_idle(const fl_call *c) {
  return c->numel == 0 || c->in_numel[0] == 0 || c->in_numel[1] == 0;
}

static void want_conv(fl_cuda *s, const fl_call *c) {
  char defines[DEFINES];
  if (is_idle(c)) return;
  if (fl_direct_takes(c)) {
    fl_direct_want(s, c);
    return;
  }
  const fl_dnn_plan *p = fl_dnn_find(s, c);
  if (p) {
    if (fl_dnn_turns(p)) fl_cuda_want_file(s, "turn.cu", "", 0);
    return;
  }
  defines_of(c->dtype, 0, defines);
  fl_cuda_want_file(s, "conv.cu", defines, 1);
}

/* kind: which array is computed, 0: y, 1: x, 2: w; a, b: the two factors. */
static flame_status own_conv(fl_cuda *s, const fl_call_run *r, int kind, void *a, void *b) {
  static const char *const entries[] = { "conv_y", "conv_x", "conv_w" };
  fl_conv v;
  char defines[DEFINES];
  fl_cu_function f;
  void *out = r->out;
  if (!fl_conv_read(r->call, &v)) return FLAME_OK;
  const int64_t rows = (kind == 1 ? v.c : v.o) / v.groups;
  const int64_t columns = kind == 0   ? v.n * fl_volume3(v.out)
                          : kind == 1 ? v.n * fl_volume3(v.in)
                                      : v.c / v.groups * fl_volume3(v.k);
  const int64_t tiles = (rows + TILE - 1) / TILE * v.groups;
  defines_of(r->call->dtype, 0, defines);
  const flame_status e = fl_cuda_file_entry(s, "conv.cu", defines, 1, entries[kind], &f);
  if (e != FLAME_OK) return e;
  void *params[] = { &v, &a, &b, &out };
  return fl_cuda_launch(s, f,
                        (const unsigned[]){ (unsigned)((columns + TILE - 1) / TILE),
                                            (unsigned)(tiles < MOST_ROWS ? tiles : MOST_ROWS), 1 },
                        (const unsigned[]){ THREADS, 1, 1 }, 0, params);
}

/* An empty sum: zeros. */
static flame_status clear(fl_cuda *s, const fl_call_run *r) {
  return fl_cuda_check(s,
                       s->cu->Memset8((fl_cu_ptr)(uintptr_t)r->out, 0,
                                      (size_t)(r->call->numel * fl_dtype_size(r->call->dtype)),
                                      s->stream),
                       "cuMemsetD8Async");
}

static flame_status run_conv(fl_cuda *s, const fl_call_run *r, int kind) {
  const fl_call *c = r->call;
  if (c->numel == 0) return FLAME_OK;
  if (is_idle(c)) return clear(s, r);
  if (fl_direct_takes(c)) return fl_direct_run(s, r);
  const fl_dnn_plan *p = fl_dnn_find(s, c);
  if (p) return fl_dnn_run(s, p, r);
  return kind == 2 ? own_conv(s, r, kind, r->in[0], r->in[1])
                   : own_conv(s, r, kind, r->in[1], r->in[0]);
}

static int64_t conv_scratch(fl_cuda *s, const fl_call *c) {
  if (is_idle(c)) return 0;
  if (fl_direct_takes(c)) return fl_direct_space(c);
  const fl_dnn_plan *p = fl_dnn_find(s, c);
  return p ? fl_dnn_space(p) : 0;
}

int64_t fl_cuda_scratch_conv(fl_cuda *s, const fl_call *c) { return conv_scratch(s, c); }
int64_t fl_cuda_scratch_conv_data(fl_cuda *s, const fl_call *c) { return conv_scratch(s, c); }
int64_t fl_cuda_scratch_conv_weight(fl_cuda *s, const fl_call *c) { return conv_scratch(s, c); }
void fl_cuda_modules_conv(fl_cuda *s, const fl_call *c) { want_conv(s, c); }
void fl_cuda_modules_conv_data(fl_cuda *s, const fl_call *c) { want_conv(s, c); }
void fl_cuda_modules_conv_weight(fl_cuda *s, const fl_call *c) { want_conv(s, c); }
flame_status fl_cuda_call_conv(fl_cuda *s, const fl_call_run *r) { return run_conv(s, r, 0); }
flame_status fl_cuda_call_conv_data(fl_cuda *s, const fl_call_run *r) { return run_conv(s, r, 1); }
flame_status fl_cuda_call_conv_weight(fl_cuda *s, const fl_call_run *r) {
  return run_conv(s, r, 2);
}

/* ---- pooling ---- */

/* Writes the definitions of the elements' dtype and the width of positions. */
static void pool_defines(const fl_call *c, char out[DEFINES]) {
  const int64_t least = INT32_MAX / 4;
  fl_pooling v;
  int wide = c->numel > least || c->in_numel[0] > least || !fl_pooling_read(c, &v);
  for (int a = 0; a < 3 && !wide; a++)
    wide = v.in[a] + v.k[a] * v.dil[a] > least || (v.out[a] + 1) * v.stride[a] + v.pad[a] > least;
  defines_of(c->in_dtype[0], wide ? 64 : 32, out);
}

/* n / d = (the upper 32 bits of n m, plus n) >> s in kernels/pool.cu, for 0 <= n < 2^31 and d <
** 2^31; with larger d positions have 64 bits, and real divisions are used. */
typedef struct divider { uint32_t d, m, s; } divider;
static divider divider_of(int64_t d) {
  if (d < 1 || d > INT32_MAX) return (divider){ 0, 0, 0 };
  uint32_t s = 0;
  while ((INT64_C(1) << s) < d) s++;
  return (divider){ (uint32_t)d, (uint32_t)((((INT64_C(1) << s) - d) << 32) / d + 1), s };
}

/* Has the same fields as struct pool_dividers of kernels/pool.cu. */
struct pool_dividers { divider in[3], out[3], stride[3], elements, results; };
static struct pool_dividers dividers_of(const fl_pooling *v) {
  struct pool_dividers by;
  for (int a = 0; a < 3; a++) {
    by.in[a] = divider_of(v->in[a]);
    by.out[a] = divider_of(v->out[a]);
    by.stride[a] = divider_of(v->stride[a]);
  }
  by.elements = divider_of(fl_volume3(v->in));
  by.results = divider_of(fl_volume3(v->out));
  return by;
}

static void want_pool(fl_cuda *s, const fl_call *c) {
  char defines[DEFINES];
  if (c->numel == 0) return;
  pool_defines(c, defines);
  fl_cuda_want_file(s, "pool.cu", defines, 1);
}

static unsigned blocks_of(const fl_cuda *s, int64_t n) {
  const int64_t blocks = (n + THREADS - 1) / THREADS, most = 64ll * s->multiprocessors;
  return (unsigned)(blocks < most ? blocks : most);
}

static flame_status run_pool(fl_cuda *s, const fl_call_run *r, const char *entry, void **middle,
                             int count) {
  fl_pooling v;
  char defines[DEFINES];
  fl_cu_function f;
  int64_t n = r->call->numel;
  if (n == 0 || !fl_pooling_read(r->call, &v)) return FLAME_OK;
  pool_defines(r->call, defines);
  const flame_status e = fl_cuda_file_entry(s, "pool.cu", defines, 1, entry, &f);
  if (e != FLAME_OK) return e;
  struct pool_dividers by = dividers_of(&v);
  void *params[8] = { &v, &by };
  for (int i = 0; i < count; i++) params[2 + i] = middle[i];
  params[2 + count] = &n;
  return fl_cuda_launch(s, f, (const unsigned[]){ blocks_of(s, n), 1, 1 },
                        (const unsigned[]){ THREADS, 1, 1 }, 0, params);
}

/* The result of max_pool for an empty window, as stored. */
static uint64_t lowest_of(int dtype) {
  uint64_t bits = 0;
  fl_scalar_store(&bits, dtype, fl_dtype_lowest(dtype));
  return bits;
}

#define POOL_KIND(name, ...) \
  int64_t fl_cuda_scratch_##name(fl_cuda *s, const fl_call *c) { return (void)s, (void)c, 0; } \
  void fl_cuda_modules_##name(fl_cuda *s, const fl_call *c) { want_pool(s, c); } \
  flame_status fl_cuda_call_##name(fl_cuda *s, const fl_call_run *r) { \
    void *a = r->in[0], *b = r->in[1], *out = r->out; \
    uint64_t lowest = lowest_of(r->call->dtype); \
    (void)a, (void)b, (void)lowest; \
    void *middle[] = { __VA_ARGS__ }; \
    return run_pool(s, r, #name, middle, sizeof middle / sizeof *middle); \
  }
POOL_KIND(max_pool, &a, &out, &lowest)
POOL_KIND(max_pool_at, &a, &out)
POOL_KIND(pool_take, &a, &b, &out)
POOL_KIND(pool_put, &a, &b, &out)
POOL_KIND(avg_pool, &a, &out)
POOL_KIND(avg_pool_back, &a, &out)

/* ---- sums along an axis ---- */

int64_t fl_cuda_scratch_resample(fl_cuda *s, const fl_call *c) { return (void)s, (void)c, 0; }

static void resample_defines(const fl_call *c, char out[DEFINES]) {
  const int64_t least = INT32_MAX / 4;
  const int wide = c->numel > least || c->in_numel[0] > least || c->in_numel[2] > least;
  defines_of(c->dtype, wide ? 64 : 32, out);
}

void fl_cuda_modules_resample(fl_cuda *s, const fl_call *c) {
  char defines[DEFINES];
  if (c->numel == 0) return;
  resample_defines(c, defines);
  fl_cuda_want_file(s, "pool.cu", defines, 1);
}

flame_status fl_cuda_call_resample(fl_cuda *s, const fl_call_run *r) {
  const int64_t *p = r->call->p;
  struct {
    int64_t elements, results, inner, terms;
  } v = { p[1], p[2], p[3], r->call->in_numel[2] };
  struct { divider results, inner; } by = { divider_of(p[2]), divider_of(p[3]) };
  char defines[DEFINES];
  fl_cu_function f;
  int64_t n = r->call->numel;
  void *in[4], *out = r->out;
  if (n == 0) return FLAME_OK;
  resample_defines(r->call, defines);
  const flame_status e = fl_cuda_file_entry(s, "pool.cu", defines, 1, "resample", &f);
  if (e != FLAME_OK) return e;
  for (int i = 0; i < 4; i++) in[i] = r->in[i];
  void *params[] = { &v, &by, &in[0], &in[1], &in[2], &in[3], &out, &n };
  return fl_cuda_launch(s, f, (const unsigned[]){ blocks_of(s, n), 1, 1 },
                        (const unsigned[]){ THREADS, 1, 1 }, 0, params);
}
