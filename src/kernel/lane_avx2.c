/* The loops of lane_ops.h for AVX2, FMA and F16C; compiled with the flags of its name. */
#define LANE_TABLE fl_lane_avx2
#include "kernel/lane_ops.h"
