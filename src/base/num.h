/* Small arithmetic on sizes. It is not checked for overflow: sizes are checked where they come from
** (base/mem.h). */
#ifndef FL_BASE_NUM_H
#define FL_BASE_NUM_H
#include <stdint.h>

static inline int64_t fl_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t fl_max(int64_t a, int64_t b) { return a > b ? a : b; }
/* n must be at least 0, step at least 1. */
static inline int64_t fl_ceil_div(int64_t n, int64_t step) { return (n + step - 1) / step; }
static inline int64_t fl_round_up(int64_t n, int64_t step) { return fl_ceil_div(n, step) * step; }
#endif
