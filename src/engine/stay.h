/* Addresses that graphs hold stay the same from run to run: see stay.c. */
#ifndef FL_ENGINE_STAY_H
#define FL_ENGINE_STAY_H
#include "engine/engine.h"

/* Result i of the plan could not return to its last address, and would go to b, a new buffer. If a
** graph would hold that address, and the result has moved in several runs, the two exchange memory:
** b gets the old address, and the value that is there is copied to b's memory. Otherwise nothing
** changes. */
flame_status fl_stay(flame_context *c, const fl_program *p, fl_plan *plan, int32_t i, fl_buffer *b);
/* Writes what is known of why the plan's last run was not launched as graphs, without the line; if
** it was, which of its steps were not. */
void fl_why_text(const fl_unreplayed *w, const fl_plan *p, char *out, size_t size);
#endif
