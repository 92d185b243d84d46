/* The loops of lane_ops.h for any processor, and the choice between the tables. */
#define LANE_TABLE fl_lane_base
#include "kernel/lane_ops.h"
#include "base/env.h"

const fl_lane_table *fl_lane_choose(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (strcmp(fl_env(FL_ENV_FLAME_ISA), "base") && __builtin_cpu_supports("avx2") &&
      __builtin_cpu_supports("fma")) return &fl_lane_avx2;
#endif
  return &fl_lane_base;
}
