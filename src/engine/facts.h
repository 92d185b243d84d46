/* Facts about this machine for flame.info() and --doctor: which libraries can be opened, and why
** others can not. */
#ifndef FL_ENGINE_FACTS_H
#define FL_ENGINE_FACTS_H
#include "engine/engine.h"

/* Calls 'say' for each fact. name: "driver", "nvrtc", …; ok: it was found, and can be used; text:
** its version, or the problem and what to do. A name may come twice: "cuda:0" with the card's name,
** and with a problem of the card. deep: also opens libraries that a machine without a GPU does not
** need, and tries the cache. */
void fl_facts(flame_context *c, int deep,
              void (*say)(void *arg, const char *name, int ok, const char *text), void *arg);

typedef struct fl_teller {
  void (*say)(void *arg, const char *name, int ok, const char *text);
  void *arg;
} fl_teller;
/* Calls t->say, without the marks FL_DO that the text may hold. */
void fl_tell(const fl_teller *t, const char *name, int ok, const char *text);
void fl_facts_cuda(const fl_teller *t, int deep);
#endif
