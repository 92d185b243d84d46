/* Chooses the table of functions that loop over lanes (AVX2 or base) for this machine. */
#include "kernel/lanes/lane_code.h"
#include "base/env.h"
#include <string.h>

const fl_lane_table *fl_lane_choose(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (strcmp(fl_env(FL_ENV_FLAME_ISA), "base") && __builtin_cpu_supports("avx2") &&
      __builtin_cpu_supports("fma")) return &fl_lane_avx2;
#endif
  return &fl_lane_base;
}
