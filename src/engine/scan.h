/* FLAME_CHECK=nan: what an evaluation does in addition to its run. */
#ifndef FL_ENGINE_SCAN_H
#define FL_ENGINE_SCAN_H
#include "engine/evaluate.h"

/* Copies the buffers of handles that the program writes (its homes) into 'old', an array with one
** NULL for each; the caller owns the copies, also after an error. */
flame_status fl_scan_keep(flame_context *c, const fl_program *p, fl_device *d, fl_buffer **old);
/* Has a step of the last run written a NaN? Waits for the run. */
flame_status fl_scan_look(flame_context *c, const fl_plan *p, fl_device *d, int *found);
flame_status fl_scan_restore(const fl_program *p, fl_device *d, fl_buffer *const *old);
/* Runs the recorded ops of the device one by one: fails at the first that makes a NaN. */
flame_status fl_scan_trace(flame_context *c, int device);
#endif
