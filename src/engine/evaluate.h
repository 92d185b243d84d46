/* Inside the engine: evaluation, and the memory calls it shares with engine.c. */
#ifndef FL_ENGINE_EVALUATE_H
#define FL_ENGINE_EVALUATE_H
#include "engine/engine.h"

/* Computes n, with all that is recorded on its device where that is possible, and reads the
** checks. */
flame_status fl_evaluate(flame_context *c, fl_node *n);
/* These two begin with landing (reading the checks of runs in flight, flight.h). The checks of what
** they run themselves may be read later: a value may fail after that. */
flame_status fl_evaluate_later(flame_context *c, fl_node *n);
flame_status fl_evaluate_all(flame_context *c);
/* evaluates n and the values that it depends on, no others */
flame_status fl_evaluate_alone(flame_context *c, fl_node *n);
flame_status fl_anomaly_check(flame_context *c, int64_t mark);   /* anomaly.c */
/* Computes n, and fails if it has values that 'mode' (FL_ANOMALY_*) does not allow and its operands
** have none. op: its name, by fl_anomaly_name before anything was computed. */
flame_status fl_anomaly_of(flame_context *c, int mode, fl_node *n, const char *op,
                           fl_node *const *in, int nin);
enum { FL_OP_TEXT = 32 };
void fl_anomaly_name(const fl_node *n, char op[FL_OP_TEXT]);
/* Can fl_anomaly_of fail for the PENDING node n? */
int fl_anomaly_possible(int mode, const fl_node *n);
/* suspects.c: the first notes that a plan, whose nodes still exist, was given to a GPU; the second
** writes "; it may be of k at a.lua:3" for launches that have not ended successfully. */
void fl_suspects_note(flame_context *c, const fl_program *g, const fl_plan *p);
void fl_suspects_tell(flame_context *c, int device, char *out, size_t size);
/* collect.c: fl_engine_collect does full collections by the host language, when memory is out;
** fl_engine_collect_before does the collection that is due, before planning. */
void fl_engine_collect(flame_context *c);
void fl_engine_collect_before(flame_context *c);
/* the device's arena (memory of intermediate values), at least this large; NULL: no memory left */
void *fl_engine_arena(flame_context *c, int device, int64_t bytes);
void fl_engine_drop_arena(flame_context *c, int device);
void fl_engine_drop_spare(flame_context *c);      /* what evaluations keep for the next one */
/* texts.c: generates the text of those kernel structures in a CPU plan that are new to the
** context. */
void fl_engine_texts(flame_context *c, const fl_plan *p);
void fl_engine_texts_close(flame_context *c);
#endif
