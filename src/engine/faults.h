/*
** What the failed check of a run (an index out of range, or an error that a call reports) means for
** its values, and its error. A run reports one check, the first in the order of its steps.
*/
#ifndef FL_ENGINE_FAULTS_H
#define FL_ENGINE_FAULTS_H
#include "engine/evaluate.h"

/* node->rests: does the value depend on the check that failed? A write that does is REFUSED: its
** target keeps its value, and ops recorded on the target afterwards do not depend on the check.
** UNSURE: it depends on a check that comes later, though it may be computed: where not all of an
** indexed array is read, nothing that computes it waits for that check. */
enum { FL_CLEAN, FL_RESTS, FL_REFUSED, FL_UNSURE };

/* Sets node->rests of all nodes of the program. */
void fl_faults_mark(const fl_program *p, const fl_plan *plan, const fl_fault *f);
/* Sets the error for the fault, with the site that recorded the op. */
flame_status fl_fault_error(flame_context *c, const fl_program *p, const fl_plan *plan,
                            const fl_fault *f);
#endif
