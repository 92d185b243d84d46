/* Who holds memory, and what is said when there is none. */
#ifndef FL_ENGINE_MEMORY_H
#define FL_ENGINE_MEMORY_H
#include "engine/engine.h"

/* A script line and what its values hold on a device, handles or not. site 0: no line is known. */
typedef struct fl_owner { uint32_t site; int64_t bytes, values; } fl_owner;
/* The largest first, at most 'most' of them; their number. Takes no memory. */
int fl_engine_owners(const flame_context *c, int device, fl_owner *out, int most);
/* Of a device that was not opened: what is known without it. */
void fl_engine_usage(flame_context *c, int device, fl_usage *u);
flame_status fl_engine_no_memory(flame_context *c, int device, int64_t bytes, const char *what);
int64_t fl_engine_live_bytes(const flame_context *c);
const char *fl_node_op(const fl_node *n);          /* its op in messages */
#endif
