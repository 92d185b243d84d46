/*
** Groups: the processes that train one model together. Each has a context and a rank; what they do
** together are collectives.
**
** Who holds what. A context has at most one group (c->group), opened by fl_group_open and closed
** with the context. The group has a wire, which carries bytes between ranks, and on GPUs also a
** communicator of NCCL, which belongs to the device (cuda/library/nccl.h) and is closed before the
** wire. Ranks count from 0 here and from 1 in scripts and messages.
**
** A collective in the window (the recorded nodes that are not evaluated yet). It is a call
** (tensor/call.h) of kind 'collective', and an effect:
** - a root: while it is PENDING it is needed, even if no handle holds its result, so it is never
**   dropped, and its result is a result of the plan: a run that is interrupted and continued finds
**   it done;
** - in order: its last input is the effect recorded before it, as long as that is PENDING. So
**   inputs are all that the planner, an evaluation of some values alone, and the rule for values
**   that depend on a failed one need to look at, and calls are never merged;
** - checked: it may report a fault, so writes of the plan come after it, and none of them happens
**   when it fails (FL_FAULTS_RUN in tensor/call.h);
** - never lost: if it fails and what is read is another value, that read raises (effect_lost in
**   tensor/context.h); at the end of the script the program, or fl_group_close, tells.
**
** One all_reduce: flame.distributed records sum(x) as such a call, flame.func gives its gradient,
** another all_reduce. The planner makes a step of it whose input lies in memory. The CPU runs the
** step by fl_group_run, on the context's thread, which
** 1. agrees: each rank sends every other a header (op, dtype, shape, line) and compares those that
**    it gets: if two differ, all ranks see it and raise the same text. The header also has the
**    number and a digest of the collectives that follow in the plan: where these are equal on all
**    ranks all of them are agreed on at once, else one by one (ranks may cut their windows
**    differently);
** 2. moves bytes: rank r gets part r of each rank's array, adds the parts in the order of ranks (so
** the bits do not depend on which came first), and sends its sum to all. On CUDA step 2 is queued
** work of NCCL, if each rank has NCCL and its own GPU, which they find out before the first such
** collective; else it runs over the host, with copies. Checks of indices report late on a GPU, so a
** rank may have queued a collective of wrong values: after the last agreed collective, before the
** first write of a home (the buffer of an existing tensor) and before the next agreement, ranks
** tell each other that their checks found nothing (fl_group_fine). A rank that waits for its GPU
** while a collective is under way listens to the wire (fl_group_watch).
**
** Choices (choice.c). Some products have several ways, which differ in their bits, and one is
** chosen by time (FLAME_TUNE). In a group rank 0 chooses, and the others ask it. It answers
** whenever it waits itself. If it has not computed such a product by then, the answer is "none",
** and the library's first way is taken.
**
** Waiting. Nothing blocks: messages are posted, then polled, as are an interrupt, SIGTERM, the time
** limit and the message of a rank that gave up. A rank that gives up for any reason tells all
** others (fl_group_break), and they raise when they wait next, at the line where they do. A broken
** group stays broken: the first cause is repeated.
**
** What a transport must offer is fl_wire_table: messages between two ranks in order, on a few
** channels, posted and tested, on host memory: MPI (mpi.c), for what mpirun and srun start, and TCP
** (tcp.c), for what torchrun starts.
*/
#ifndef FL_GROUP_GROUP_H
#define FL_GROUP_GROUP_H
#include "tensor/call_collective.h"
#include "plan/plan.h"
#include <signal.h>

/* ---- wires ------------------------------------------------------------------------------- */

/* Channels: messages of one do not overtake each other between two ranks. Channels from PAIRED on
** carry arrays; the bytes of other messages that this rank sends live as long as the group. ALIVE
** is no channel: a probe of it fails if the rank is known to be gone. */
enum { FL_WIRE_ALIVE = -1, FL_WIRE_HEADER, FL_WIRE_PAIR, FL_WIRE_BREAK, FL_WIRE_BYE,
       FL_WIRE_ASK, FL_WIRE_ANSWER, FL_WIRE_PAIRED, FL_WIRE_DATA };
enum { FL_CARD_ID = 96, FL_CHOICE = 64 };
enum { FL_WIRE_PIECE = 1 << 30 };        /* messages are sent in pieces of this many bytes */

/* A message in transit. The bytes belong to the sender or receiver, and must live until it is
** done. */
typedef struct fl_letter {
  char *at;                              /* of the piece under way */
  int64_t left;                          /* bytes from there on */
  void *request;                         /* the wire's own data; NULL: not in transit */
  int peer, channel;
  uint8_t out, done;                     /* out: sent, not received */
} fl_letter;

typedef struct fl_wire {
  const struct fl_wire_table *table;
  int rank, size;
  uint8_t over;                          /* the group broke: no call will take another array */
  char error[160];                       /* why a function failed */
} fl_wire;

typedef struct fl_wire_table {
  const char *name;
  /* Begins the letter's next piece; 0: failed. Returns immediately. */
  int (*post)(fl_wire *w, fl_letter *l);
  /* Sets *done if the piece is done; 0: failed. Returns immediately. */
  int (*test)(fl_wire *w, fl_letter *l, int *done);
  /* Has a message from this rank arrived? -1: failed. */
  int (*probe)(fl_wire *w, int from, int channel);
  /* Cancels a posted letter. If it returns 1, its bytes may be freed. */
  int (*cancel)(fl_wire *w, fl_letter *l);
  /* orderly: all ranks have reached the close, and nothing is in transit. Otherwise it waits for no
  ** rank. */
  void (*close)(fl_wire *w, int orderly);
} fl_wire_table;

/* ---- launchers: rank and size of this process ------------------------------------------------ */

typedef struct fl_launch {
  const char *by;                        /* "torchrun", "mpirun", "srun"; NULL: no launcher */
  int rank, size, local;                 /* 0-based; local: on this host */
  int mpi;                           /* 1: it is mpirun or srun, which start MPI */
} fl_launch;
/* Reads the environment. 0: its variables make no sense; 'why' explains. */
int fl_launch_read(fl_launch *l, char *why, size_t bytes);
/* Opens MPI at run time, once in a process. NULL: it is missing (why says what to install), or has
** another number of ranks than the launcher said. */
fl_wire *fl_mpi_open(const fl_launch *l, char *why, size_t bytes);

/* ---- groups ---------------------------------------------------------------------------------- */

/* calls: collectives run; bytes: of their arrays at this rank. sent: bytes of arrays that this rank
** sent; on a GPU computed as if each rank sent directly to each other. busy: seconds of the host in
** collectives; wait: those in which it waited for messages. gpu: seconds in which a GPU ran
** collectives; bare: those in which it did nothing else, since it needed a result. */
typedef struct fl_group_stats {
  int64_t calls, bytes, sent;
  double wait, busy, gpu, bare;
} fl_group_stats;

/* What moves the arrays of a collective. ASKS: the GPU if all ranks can use it, which is not known
** yet. */
typedef enum { FL_LANE_HOST, FL_LANE_GPU, FL_LANE_ASKS } fl_lane;

/* The device's part of a group; all NULL if there is none. */
typedef struct fl_group_gpu {
  void *state;
  fl_lane (*lane)(void *state, const fl_call *k);      /* for a collective of the device's arrays */
  void (*abort)(void *state);               /* the group broke: all running collectives must stop */
  void (*close)(void *state, int orderly);
} fl_group_gpu;

/* What a rank tells about its GPU before the first collective there. */
typedef struct fl_card {
  int64_t form, can;                     /* NCCL is there */
  char id[FL_CARD_ID];                   /* host and bus; ranks with one card do not use NCCL */
  char why[160];                         /* why it can not use NCCL */
} fl_card;

/* What rank 0 chose; bytes 0: it has chosen nothing. */
typedef struct fl_choice { uint8_t key[32]; int64_t bytes; uint8_t data[FL_CHOICE]; } fl_choice;
/* At rank 0, for each other rank: its question, and the answer being sent. */
typedef struct fl_asker {
  uint8_t asks, answers;
  fl_choice choice;
  fl_letter letter;
} fl_asker;

typedef struct fl_group {
  flame_context *c;
  fl_launch launch;
  fl_wire *wire;                         /* NULL: a group of one */
  double limit;                          /* most seconds that a collective may wait */
  int64_t number;                        /* collectives so far */
  const struct fl_plan *plan;            /* that runs; NULL: none */
  int64_t agreed;                   /* number of following collectives that are agreed on already */
  /* on some rank, checks may report after the agreed collectives */
  uint8_t checked;
  /* collectives are queued, and a check may still reject their inputs */
  uint8_t unproven;
  fl_group_gpu gpu;
  char over[FL_CALL_FAULT];           /* "NCCL 2.28.9", or why arrays of GPUs go through the host */
  uint8_t slow;                          /* arrays go through the host, which must be reported */
  fl_letter *letter;                     /* letters in transit, at most 2 size */
  int nletter;
  struct fl_header *header;              /* of all ranks; header[rank] is what this rank sends */
  fl_letter *told;                     /* per rank: the letter that tells it that the group broke */
  struct { fl_choice *at; int64_t n, cap; } choices;     /* rank 0's */
  fl_choice ask;               /* what this rank asks: a broken group's message may still be sent */
  fl_asker *asker;
  char broken[FL_CALL_FAULT];            /* why the group is broken; empty: it is not */
  char word[FL_CALL_FAULT];              /* what the other ranks were told when it broke, or what
                                         ** the rank that broke it told */
  /* a posted message could not be cancelled and may still be written into our memory: so
  ** nothing more is posted */
  uint8_t stuck;
  /* waiting: this rank waits in a collective; terminated: SIGTERM came while it waited */
  volatile sig_atomic_t waiting, terminated;
  fl_group_stats stats;
} fl_group;

/* Opens the group that the environment describes. Does nothing if c has one. limit: seconds. */
flame_status fl_group_open(flame_context *c, double limit);
/* Runs pending effects, says goodbye, and frees the group. Does nothing if there is none. */
void fl_group_close(flame_context *c);
/* Runs a collective on host memory. r->scratch: fl_group_room bytes. r->fault: FL_CALL_FAULT bytes,
** set (the result is FLAME_OK then) if ranks disagree, one is missing or the group has ended.
** FLAME_INTERRUPTED: by the context's flag. */
flame_status fl_group_run(flame_context *c, const fl_call_run *r);
int64_t fl_group_room(const fl_call *call);
/* Called before a plan runs, and afterwards with the status of the run: if it failed, and other
** ranks may wait for collectives that it queued, the group breaks. */
void fl_group_begin(flame_context *c, const struct fl_plan *p);
void fl_group_end(flame_context *c, flame_status e);
/* Breaks the group for the reason 'why'; the other ranks are told 'word' (NULL: they know). */
void fl_group_break(fl_group *g, const char *why, const char *word);
/* The same, where the rank 'knows' has found the reason itself and is not told; -1: there is
** none. */
void fl_group_break_beside(fl_group *g, const char *why, const char *word, int knows);
/* Like fl_group_break, for the reason that this rank was interrupted. */
void fl_group_interrupted(fl_group *g);

/* For a handler of SIGTERM. 1: a collective of c is waiting, and will raise. Async-signal-safe. */
int fl_group_terminate(flame_context *c);

/* combine.c: acc[i] = acc[i] + x[i], or the larger or smaller, in the dtype: each result is
** rounded, and a NaN is kept. */
void fl_group_combine(int dtype, int reduce, void *acc, const void *x, int64_t n);
/* acc[i] = acc[i] / ranks, of a float dtype, rounded to it. */
void fl_group_divide(int dtype, void *acc, int64_t n, int ranks);
#endif
