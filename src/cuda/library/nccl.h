/*
** NCCL (libnccl.so.2): collectives of the group on its GPUs. Opened at run time; before their first
** collective of GPU arrays the ranks find out whether each has the library and its own GPU; if not,
** their arrays go through the host.
**
** Who holds what. The state belongs to the device, s->nccl: a communicator, which is opened once
** all have agreed (its unique id goes over the group's wire), a stream, the *lane*, and events. The
** group calls it through fl_group_gpu. Everything is done on the context's thread. Collectives are
** not part of CUDA graphs: spans end around them (replay.h), so no graph holds the communicator,
** and a communicator can be given up at any time.
**
** Lane. A collective is kept until one comes that does not join the next (FL_COLLECT_JOINS); then
** all kept ones are one call of NCCL, on the arrays in place: an event of the main stream lets the
** lane begin, and the main stream waits for the lane where a step needs it (step->joins,
** plan/lanes.c) and at the end of the run. Which ones are combined is the same on all ranks, as
** NCCL requires, since it depends only on what they have agreed on.
**
** Faults. The communicator does not block: a thread of the library queues the work while we
** continue; before the next call, and before the main stream waits, its state is polled together
** with the wire, so a missing rank is noticed. The same happens while the host waits for the GPU.
** If a rank is missing, and whenever the group breaks otherwise, the communicator is aborted, which
** ends its kernels. Results of work queued after them in the run are not stored. If homes (buffers
** of the script's tensors) were written after them, or the run has returned, arrays have undefined
** contents: the device is lost.
*/
#ifndef FL_CUDA_NCCL_H
#define FL_CUDA_NCCL_H
#include "cuda/api/nccl_api.h"
#include "cuda/driver/state.h"
#include "group/wait.h"

enum { FL_NCCL_SLOTS = 64 };

/* A call of NCCL that is running. */
typedef struct fl_nccl_slot {
  fl_cu_event begun, ended, joined;   /* joined: the main stream reached the place where it waits */
  uint8_t waited;                        /* 'joined' was recorded */
  double seen;                       /* time at which 'begun' was seen to have passed; 0: not yet */
  uint32_t site;
  fl_header head;                        /* of its first collective */
  const fl_call *last;          /* the last collective in this NCCL call; only compared, not read */
} fl_nccl_slot;

typedef struct fl_nccl_kept { const fl_call *call; void *in, *out; uint32_t site; } fl_nccl_kept;

typedef struct fl_nccl {
  const fl_nccl_api *lib;
  fl_group *g;                           /* NULL: it has ended */
  fl_nccl_comm comm;
  fl_cu_stream lane;
  fl_cu_event fork;
  /* decided: the ranks have exchanged facts (nccl_meet.c); serves: they have decided to use NCCL */
  uint8_t decided, serves;
  uint8_t open;                          /* the lane has work that the main stream must wait for */
  /* values that cannot be restored depend on collectives that may still run on the lane */
  uint8_t spent;
  struct { fl_nccl_kept *at; int64_t n, cap; } kept;
  fl_header first;                       /* of the first kept */
  const fl_call *last;                   /* the newest collective; one of no bytes also counts,
                                         ** though it is not kept */
  fl_nccl_slot slot[FL_NCCL_SLOTS];      /* a ring */
  int oldest, flying;
  int pending;                        /* 1: the newest call may still be waiting to be queued on the
                                      ** lane */
} fl_nccl;

/* Chooses what moves this collective's arrays: NCCL or the host; FL_LANE_ASKS: the ranks must find
** out first. May make s->nccl; if memory is out, the host moves them. */
fl_lane fl_nccl_lane(fl_cuda *s, const fl_call *k);
/* Lets the ranks agree on a collective and then keeps or queues it for the GPU; with FL_LANE_ASKS
** the ranks only find out whether they can use NCCL. Arguments and result are those of
** fl_group_run. */
flame_status fl_nccl_run(fl_cuda *s, const fl_call_run *r, fl_lane lane);
/* Are there collectives that are kept and not queued yet? */
int fl_nccl_keeps(const fl_cuda *s);
/* Makes the main stream wait for the lane: for the call of NCCL that ends with 'last', and those
** before it, if that call is known; NULL: for all. */
flame_status fl_nccl_join(fl_cuda *s, const fl_call *last);
/* Must the ranks, before they go on, tell each other that their index checks found nothing? */
int fl_nccl_unproven(const fl_cuda *s);
flame_status fl_nccl_prove(fl_cuda *s);      /* they do so; an error if a check of one has failed */
/* Notes that results can no longer be undone: a buffer of the script is written, or the run
** returns. */
void fl_nccl_spend(fl_cuda *s);
void fl_nccl_close(fl_cuda *s, int host_only);
#endif
