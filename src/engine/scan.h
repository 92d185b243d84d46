/* FLAME_CHECK=nan: what an evaluation does beside its run. */
#ifndef FL_ENGINE_SCAN_H
#define FL_ENGINE_SCAN_H
#include "engine/evaluate.h"

/* Copies of the program's homes into old, which is zero; what is made is the caller's, also after
** an error. */
flame_status fl_scan_keep(flame_context *c, const fl_program *p, fl_device *d, fl_buffer **old);
/* Has a step of the run that ended written a NaN? Waits for it. */
flame_status fl_scan_look(flame_context *c, const fl_plan *p, fl_device *d, int *found);
flame_status fl_scan_restore(const fl_program *p, fl_device *d, fl_buffer *const *old);
/* Op by op what of the window is on the device: fails for the first that makes a NaN. */
flame_status fl_scan_trace(flame_context *c, int device);
#endif
