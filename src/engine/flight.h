/*
** Flights: runs on a GPU whose index checks are read later. A repeated run (a replay) is not waited
** for, so that the host records the next step while the GPU computes this one: its values are
** stored as if the checks had passed, and *landing* reads the checks. Evaluations, reads, saves,
** transfers and flame-lua's end begin with landing. Each device has at most one run in flight.
**
** If a check has failed, the values that depend on it become FAILED, and writes that depend on it
** have not happened: kernels that write a tensor's buffer read the checks first. So a run may be
** in flight only if
** - all its writes depend on all its checks, each is the only one of its target, and nothing else
**   is computed from what they write;
** - values that do not depend on all checks are computed before the first step that writes, since
**   such a step does nothing at all if a check has failed;
** - of two checks, what depends on the later one depends on the earlier one as well: of several
**   failed checks, the GPU tells the first.
** Other runs are waited for, as is the first run of a plan.
*/
#ifndef FL_ENGINE_FLIGHT_H
#define FL_ENGINE_FLIGHT_H
#include "engine/faults.h"

enum { FL_FLIGHT_SITES = 8 };   /* most checks of a run in flight */

/* A result that depends on the first 'sites' checks; the flight holds a reference to its buffer. */
typedef struct fl_flown { fl_buffer *buffer; int32_t sites; uint8_t home; } fl_flown;

typedef struct fl_flight {
  uint8_t open;
  int64_t number;                 /* of all flights, from 1 */
  int32_t nsite;
  fl_fault_fact fact[FL_FLIGHT_SITES];
  struct { fl_flown *at; int64_t n, cap; } out;
} fl_flight;

/* Notes on which devices flights of the numbers from + 1 … to fail. The owner has the memory. */
typedef struct fl_watch {
  int64_t from, to;
  uint32_t failed;                          /* bit d: on device d */
  uint8_t dead;                             /* its owner's memory goes soon: it begins no more */
  const void *owner;                        /* for fl_watches_end; NULL: none */
  struct fl_watch *next, **link;            /* link NULL: it is in no list */
} fl_watch;
void fl_watches_end(flame_context *c, const void *owner);          /* ends all of this owner */

/* May the queued run be in flight? 1: it is in flight now. 0: no, or there is no memory: its checks
** must be read. made[i]: the buffer that the node of result i will own; NULL if the result is in a
** home. */
int fl_flight_begin(flame_context *c, const fl_program *p, const fl_plan *plan,
                    fl_buffer *const *made);
/* Called after the results of a run on this device were stored. If the run is in flight, its values
** may still fail; from now on writes of values that are computed from them are guarded
** (fl_node_guard). */
void fl_flight_stored(const flame_context *c, int device);
/* Reads the checks of all runs in flight. BAD_VALUE, with its error: one has failed, and values and
** writes are what they would be after a run that was waited for. INTERRUPTED: nothing has
** changed. */
flame_status fl_flight_land(flame_context *c);
/* The same, but also returns BAD_VALUE for an error that otherwise only the next read would raise.
** Both kinds of error are reported by this call, and not again later. */
flame_status fl_flight_tell(flame_context *c);
/* At the end of a script: writes to stderr what fl_flight_tell finds. */
void fl_flight_end(flame_context *c);
/* Watches the flights that begin from now on. *w: zeros, or a watch that ends thereby. */
void fl_watch_begin(flame_context *c, fl_watch *w);
/* Leaves the list; w may be in none. */
void fl_watch_end(fl_watch *w);
/* Lets go of what flights hold, without reading checks. */
void fl_flight_drop(flame_context *c);
#endif
