/*
** Sums over the elements of several arrays on the CPU: where a program that was recorded for a GPU
** runs here (a CPU's norm of gradients is made of ordinary ops).
*/
#include "cpu/state/state.h"
#include "tensor/dtype.h"
#include <math.h>

int64_t fl_cpu_scratch_power_sum(const fl_call *call, int workers) {
  (void)call;
  (void)workers;
  return 0;
}

static double element(const void *x, int dtype, int64_t i) {
  switch (dtype) {
    case FLAME_F64: return ((const double *)x)[i];
    case FLAME_F32: return (double)((const float *)x)[i];
    case FLAME_F16: return (double)fl_f16_to_f32(((const uint16_t *)x)[i]);
    default: return (double)fl_bf16_to_f32(((const uint16_t *)x)[i]);
  }
}

flame_status fl_cpu_call_power_sum(fl_device *d, const fl_call_run *r) {
  const fl_call *c = r->call;
  double sum = 0;
  (void)d;
  for (int k = 0; k < c->nin; k++) {
    const int64_t what = c->p[0] == 0 && c->p[1] && k == 0 ? 1 : c->p[0];
    for (int64_t i = 0; i < c->in_numel[k]; i++) {
      const double v = fabs(element(r->in[k], c->in_dtype[k], i));
      if (what == 2) sum = v > sum || isnan(v) ? v : sum;
      else sum += what == 0 ? v * v : v;
    }
  }
  if (c->p[2]) sum = sqrt(sum);
  if (c->dtype == FLAME_F64) *(double *)r->out = sum;
  else *(float *)r->out = (float)sum;
  return FLAME_OK;
}
