/* A rehearsal: evaluations are planned and compiled, but not run (dry.c). */
#ifndef FL_ENGINE_DRY_H
#define FL_ENGINE_DRY_H
#include "engine/engine.h"
typedef struct fl_dry fl_dry;
/* Computes what is recorded, then begins a rehearsal. There can be only one, and none while a
** profile is on. */
flame_status fl_dry_begin(flame_context *c);
/* Plans what is left and restores the state from before, also after an error. Does nothing if no
** rehearsal is on. */
flame_status fl_dry_end(flame_context *c);
/* Frees the rehearsal of a context that is being closed; nothing is restored. */
void fl_dry_free(flame_context *c);
/* Makes a device that is opened during a rehearsal take part in the rehearsal. */
void fl_dry_attach(fl_engine *e, fl_device *d);
#endif
