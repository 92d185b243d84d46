/*
** Replay: a repeated run is launched as CUDA graphs, not step by step. A *span* is a sequence of
** steps between which the host has nothing to do: it ends before a write that waits for the report
** of checks (a generated kernel does not wait: it reads the checks itself; the graph sends the
** report, and an event in the graph tells when it has come), after a step that makes a value that
** is read soon, before a step that waits for collectives, and around a collective and a step that
** cannot be captured (it asks for memory, waits, copies through the ring: fl_cuda_spoils finds
** these while they are captured). A *recording* has a graph for each span of a plan, but for those
** of a collective, of a step that cannot be captured, and of fewer than three steps: these are
** queued step by step. Of what a run binds,
**   frozen   addresses that products, scatters, copies and calls got, the scalars of calls, the
**            arena and the memory that launches share (s->epoch) are as they were when the
**            recording was made: they are compared before it is used;
**   data     addresses and scalars of generated kernels: those that differ from the last run are
**            set in the graphs (a separate launch) or in the recording's tables.
** The third run with equal frozen addresses begins to record, for up to four sets of them at a time
** and 64 in all (FLAME_REPLAY=2: the first already, without that limit; 0: none). A recording of
** many steps is made over several runs (FL_MADE_STEPS in recording.h); spans that are not ready yet
** are run step by step meanwhile. Owned by the plan (plan->replay), used on its device's thread;
** closing the device frees the graphs.
*/
#ifndef FL_CUDA_REPLAY_H
#define FL_CUDA_REPLAY_H
#include "cuda/steps.h"

typedef struct fl_recording fl_recording;

/* Makes the replay data of a plan, when it is prepared. Its host memory, and later that of
** recordings, is part of p->total_bytes. */
flame_status fl_replay_open(fl_cuda *s, fl_plan *p);
void fl_replay_free(fl_plan *p);
int fl_replay_has(const fl_plan *p);             /* is there a recording of it? */
/* Would a graph of the plan hold the address of this input (its index) or result (~ its index)? */
int fl_replay_freezes(const fl_plan *p, int32_t which);
int fl_replay_repeats(const fl_recording *w);    /* was it made in an earlier run? w may be NULL */
/* Called when the device is closed. driver: graphs and device memory are freed too;
** otherwise only host memory. */
void fl_replay_let_go(fl_cuda *s, int driver);
/* Called before the first step. *b names the stand-ins of inputs then. *w: the recording for this
** run, or one that the run makes or goes on to make; NULL: step by step, and p->why says why. */
flame_status fl_replay_begin(fl_cuda *s, fl_plan *p, fl_binding *b, fl_recording **w);
/* Goes on to the span (sequence of steps) from step 'from' on: *to is its end (the next step, if
** the recording has no such span yet). *ran: it was queued as a graph; otherwise the caller queues
** its steps. *sent: the graph sends the record of checks to the host (one that begins with step 0
** empties it first). open: the report of an earlier check has not been read yet. */
flame_status fl_replay_span(fl_cuda *s, fl_recording *w, const fl_plan *p, int32_t from, int open,
                            int32_t *to, int *ran, int *sent);
/* Called after the run; whole: all steps were queued, else (a fault, an interrupt) a later run goes
** on with a recording that is being made. */
void fl_replay_end(fl_cuda *s, fl_plan *p, fl_recording *w, int whole);
#endif
