/* A rehearsal: evaluations are planned and compiled, and nothing is run. (dry.c) */
#ifndef FL_ENGINE_DRY_H
#define FL_ENGINE_DRY_H
#include "engine/engine.h"
typedef struct fl_dry fl_dry;
/* What is recorded is computed first. One at a time, and not with a profile on. */
flame_status fl_dry_begin(flame_context *c);
/* Plans what is left, and puts back what was, also after an error. Nothing where none is on. */
flame_status fl_dry_end(flame_context *c);
/* The context closes: nothing is put back. */
void fl_dry_free(flame_context *c);
/* A device is opened meanwhile. */
void fl_dry_attach(fl_engine *e, fl_device *d);
#endif
