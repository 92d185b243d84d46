/*
** What the failed check of a run (an index out of range, or an error that a call reports) means for
** its values, and its error. A run reports one check, the first in the order of its steps.
*/
#ifndef FL_ENGINE_FAULTS_H
#define FL_ENGINE_FAULTS_H
#include "engine/evaluate.h"

/* node->rests: does the value depend on the check that failed? A write that does is REFUSED: its
** target keeps its value, and ops recorded on the target afterwards do not depend on the check.
** UNSURE: it depends on a check after the failed one, whose outcome is not known, though its step
** may have run: an index that is read in part is checked by a separate kernel, for which its
** readers do not wait. */
enum { FL_CLEAN, FL_RESTS, FL_REFUSED, FL_UNSURE };

/* Sets node->rests of all nodes of the program. */
void fl_faults_mark(const fl_program *p, const fl_plan *plan, const fl_fault *f);
/* What the message of a failed check needs to know of its op: its call, or NULL; its name in
** messages (static text, or text of the call), FL_INDEX_*, the size of the axis and 1 + its number
** (0: not named), the line of the script that recorded it. */
typedef struct fl_fault_fact {
  const fl_call *call;
  const char *what;
  int64_t size;
  uint32_t site;
  uint8_t flags;
  int8_t axis;
} fl_fault_fact;

/* Of check k of the plan. */
fl_fault_fact fl_fault_of(const fl_program *p, const fl_plan *plan, int32_t k);
/* Sets the error for the fault, with the site that recorded the op. */
flame_status fl_fault_tell(flame_context *c, const fl_fault_fact *x, const fl_fault *f);
/* Makes the next read raise the error c->err, which no value may show. */
void fl_raise_later(flame_context *c);
/* Fails recorded nodes that depend on failed ones and were not in the program, as only some
** values were requested or it was in flight (flight.h) when they were recorded. Their writes
** are refused. */
void fl_fail_dependents(flame_context *c);
/* Adds another error to e, with its line, unless e tells it already; as far as there is room. */
void fl_add_error(flame_context *c, fl_error *e, const fl_error *other);
/* c->err is raised now: adds the errors that the next read would raise, which it then does not. */
void fl_tell_untold(flame_context *c);
#endif
