/* Sums over the elements of several arrays on a CUDA device, by kernels/power.cu. */
#include "cuda/call/sort.h"

enum { CHUNK = 32768 };                 /* as in power.cu */

typedef struct power_args {
  const void *in[FL_CALL_INPUTS];
  int64_t n[FL_CALL_INPUTS];
  int32_t first[FL_CALL_INPUTS];
  uint8_t dtype[FL_CALL_INPUTS];
  int32_t count, what, joined, root, wide, blocks;
  void *part, *done, *out;
} power_args;

/* Fills in which block begins with which array; returns the number of blocks, at least 1. */
static int64_t cut(const fl_call *c, power_args *a) {
  int64_t blocks = 0;
  for (int i = 0; i < c->nin; i++) {
    if (a) a->first[i] = (int32_t)blocks;
    blocks += fl_ceil_div(c->in_numel[i], CHUNK);
  }
  return fl_max(blocks, 1);
}

int64_t fl_cuda_scratch_power_sum(fl_cuda *s, const fl_call *c) {
  const int64_t blocks = cut(c, NULL);
  (void)s;
  return blocks <= INT32_MAX ? 8 * blocks : -1;
}

void fl_cuda_modules_power_sum(fl_cuda *s, const fl_call *c) {
  (void)c;
  fl_cuda_want_file(s, "power.cu", "", 0);
}

flame_status fl_cuda_call_power_sum(fl_cuda *s, const fl_call_run *r) {
  static const uint8_t kind[FLAME_DTYPE_COUNT] = { [FLAME_F64] = 1, [FLAME_F16] = 2,
                                                   [FLAME_BF16] = 3 };
  const fl_call *c = r->call;
  power_args a = { .count = c->nin, .what = (int32_t)c->p[0], .joined = c->p[1] != 0,
                   .root = c->p[2] != 0, .wide = c->dtype == FLAME_F64,
                   .part = r->scratch, .done = s->counters, .out = r->out };
  a.blocks = (int32_t)cut(c, &a);
  for (int i = 0; i < c->nin; i++) {
    a.in[i] = r->in[i];
    a.n[i] = c->in_numel[i];
    a.dtype[i] = kind[c->in_dtype[i]];
  }
  void *params[] = { &a };
  return fl_sort_launch(s, "power.cu", "", "power_sum", a.blocks, 256, params);
}
