/* Scatter steps (scatter.c). */
#ifndef FL_CPU_SCATTER_H
#define FL_CPU_SCATTER_H
#include "cpu/state/state.h"

/* Bytes of scratch memory that a scatter needs in the device's 'shared'. */
int64_t fl_scatter_bytes(const fl_scatter *s);
flame_status fl_scatter_run(fl_device *dev, const fl_scatter *s, const fl_binding *b);
#endif
