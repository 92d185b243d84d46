/* Which values hold memory, and the message when memory is out. */
#ifndef FL_ENGINE_MEMORY_H
#define FL_ENGINE_MEMORY_H
#include "engine/engine.h"

/* A script line and the memory that its values hold on a device, whether they have handles or not.
** site 0: no line is known. */
typedef struct fl_owner { uint32_t site; int64_t bytes, values; } fl_owner;
/* Writes at most 'most' owners, the largest first, and returns their number. Allocates nothing. */
int fl_engine_owners(const flame_context *c, int device, fl_owner *out, int most);
/* The memory that a device uses; for a device that was not opened, what is known without opening
** it. */
void fl_engine_usage(flame_context *c, int device, fl_usage *u);
/* fl_upcalls.no_memory (tensor/context.h). */
flame_status fl_engine_no_memory(flame_context *c, int device, int64_t bytes, const char *what);
int64_t fl_engine_live_bytes(const flame_context *c);
const char *fl_node_op(const fl_node *n);          /* its op in messages */
#endif
