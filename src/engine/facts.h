/* Facts about this machine for flame.info() and --doctor: what can be opened, and why not. */
#ifndef FL_ENGINE_FACTS_H
#define FL_ENGINE_FACTS_H
#include "engine/engine.h"

/* Calls say for each fact. name: "driver", "nvrtc", …; ok: found; text: version, or what is wrong
** and what to do. deep: also opens libraries that are large (cuDNN, NCCL) and tries the cache. */
void fl_facts(flame_context *c, int deep,
              void (*say)(void *arg, const char *name, int ok, const char *text), void *arg);
#endif
