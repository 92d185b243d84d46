/* Convolutions by kernels/direct.cu: see conv_direct.h. */
#include "cuda/call/conv_direct.h"
#include "base/num.h"
#include <stdio.h>

/* ROWS: as in direct.cu. BLOCKS: a weight's gradient is divided into about so many. */
enum { DEFINES = 96, THREADS = 256, ROWS = 32, LONGEST = 7, STRIDE_MAX = 4, THIN = 4,
       BLOCKS = 528 };
static const char file[] = "direct.cu";


static int is_flat(const fl_conv *v) {
  return v->in[0] == 1 && v->k[0] == 1 && v->out[0] == 1 && v->pad[0] == 0;
}

/* Is the convolution depthwise (one channel per group) along two axes, with strides, a small
** window without dilation, and positions that fit an int? */
static int takes_depthwise(const fl_conv *v) {
  return is_flat(v) && v->groups == v->c && v->o == v->c && v->c > 1 && v->k[1] <= LONGEST &&
         v->k[2] <= LONGEST && v->dil[1] == 1 && v->dil[2] == 1 &&
         v->stride[1] * v->stride[2] > 1 && v->stride[1] <= STRIDE_MAX &&
         v->stride[2] <= STRIDE_MAX && v->pad[1] >= 0 && v->pad[2] >= 0 && v->pad[1] <= v->k[1] &&
         v->pad[2] <= v->k[2] && v->n * v->c * fl_volume3(v->in) < INT32_MAX / 2 &&
         v->n * v->c * fl_volume3(v->out) < INT32_MAX / 2;
}

static int takes_weight(const fl_conv *v, int free) {
  const int64_t rows = v->c * v->k[0] * v->k[1];
  const int thin = v->c <= THIN && rows >= ROWS / 2 && !free;
  return v->groups == 1 && (v->k[0] > 1 || thin) && v->k[2] <= LONGEST && v->stride[2] <= 2 &&
         v->dil[2] == 1 && rows < 1 << 20 && v->o < 1 << 20 && v->in[2] < 1 << 24 &&
         v->out[2] < 1 << 24 && v->pad[2] >= 0 && v->pad[2] < 1 << 20 &&
         v->n * v->out[0] * v->out[1] < INT32_MAX / 4 && v->in[0] < 1 << 24 && v->in[1] < 1 << 24 &&
         v->out[0] < 1 << 12 && v->out[1] < 1 << 12 && v->pad[0] < 1 << 20 && v->pad[1] < 1 << 20 &&
         v->dil[0] < 1 << 10 && v->dil[1] < 1 << 10 && v->stride[0] < 1 << 10 &&
         v->stride[1] < 1 << 10;
}

int fl_direct_takes(const fl_call *c) {
  fl_conv v;
  if (c->dtype != FLAME_F32 || !fl_conv_read(c, &v)) return 0;
  return c->kind == FL_CALL_conv_weight ? takes_weight(&v, (int)c->p[FL_CONV_FREE])
                                        : takes_depthwise(&v);
}

/* How a weight's gradient is divided. rows, outputs: numbers of blocks of ROWS rows (channel and
** first two axes of the window) and of ROWS output channels; the sum is divided into 'shares' of
** 'lines' lines of the output each. */
typedef struct cut { int64_t rows, outputs, lines, shares; } cut;
static cut cut_of(const fl_conv *v) {
  const int64_t all = v->n * v->out[0] * v->out[1];
  cut q = { .rows = fl_ceil_div(v->c * v->k[0] * v->k[1], ROWS),
            .outputs = fl_ceil_div(v->o, ROWS) };
  const int64_t most = BLOCKS / (q.rows * q.outputs);
  q.lines = fl_ceil_div(all, most > 1 ? fl_min(most, all) : 1);
  q.shares = fl_ceil_div(all, q.lines);
  return q;
}

int64_t fl_direct_space(const fl_call *c) {
  fl_conv v;
  if (c->kind != FL_CALL_conv_weight || !fl_conv_read(c, &v)) return 0;
  return cut_of(&v).shares * c->numel * 4;
}

static void defines_of(const fl_call *c, const fl_conv *v, char out[DEFINES]) {
  const int n = snprintf(out, DEFINES, "#define KX %d\n#define STEP %d\n", (int)v->k[2],
                         (int)v->stride[2]);
  if (c->kind == FL_CALL_conv_weight)
    snprintf(out + n, (size_t)(DEFINES - n), "#define WIDE %d\n",
             v->out[2] <= 16 ? 16 : v->out[2] < 64 ? 32 : 64);
  else
    snprintf(out + n, (size_t)(DEFINES - n), "#define KY %d\n#define STEP_Y %d\n", (int)v->k[1],
             (int)v->stride[1]);
}

void fl_direct_want(fl_cuda *s, const fl_call *c) {
  fl_conv v;
  char defines[DEFINES];
  if (!fl_conv_read(c, &v)) return;
  defines_of(c, &v, defines);
  fl_cuda_want_file(s, file, defines, 0);
}

static flame_status launch(fl_cuda *s, const char *defines, const char *entry,
                           const unsigned grid[3], void **params) {
  fl_cu_function f;
  const flame_status e = fl_cuda_file_entry(s, file, defines, 0, entry, &f);
  return e != FLAME_OK ? e
                       : fl_cuda_launch(s, f, grid, (const unsigned[]){ THREADS, 1, 1 }, 0, params);
}

static flame_status run_weight(fl_cuda *s, const fl_call_run *r, fl_conv *v, const char *defines) {
  const cut q = cut_of(v);
  void *g = r->in[0], *x = r->in[1], *part = r->scratch, *out = r->out;
  int lines = (int)q.lines, shares = (int)q.shares;
  int64_t numel = r->call->numel;
  void *taking[] = { v, &g, &x, &part, &lines }, *summing[] = { &part, &out, &numel, &shares };
  const flame_status e = launch(s, defines, "direct_w",
                                (const unsigned[]){ (unsigned)q.rows, (unsigned)q.outputs,
                                                    (unsigned)q.shares }, taking);
  if (e != FLAME_OK) return e;
  return launch(s, defines, "direct_w_sum",
                (const unsigned[]){ (unsigned)fl_ceil_div(numel, THREADS), 1, 1 }, summing);
}

flame_status fl_direct_run(fl_cuda *s, const fl_call_run *r) {
  fl_conv v;
  char defines[DEFINES];
  if (!fl_conv_read(r->call, &v)) return FLAME_OK;
  defines_of(r->call, &v, defines);
  if (r->call->kind == FL_CALL_conv_weight) return run_weight(s, r, &v, defines);
  const int forward = r->call->kind == FL_CALL_conv;
  void *w = r->in[1], *from = r->in[0], *out = r->out;
  int numel = (int)r->call->numel;
  void *params[] = { &v, &w, &from, &out, &numel };
  return launch(s, defines, forward ? "direct_y" : "direct_x",
                (const unsigned[]){ (unsigned)fl_ceil_div(numel, THREADS), 1, 1 }, params);
}
