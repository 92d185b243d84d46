/*
** Inside replay: what a recording consists of (replay.c), and how its spans become graphs
** (capture.c). See replay.h.
*/
#ifndef FL_CUDA_RECORDING_H
#define FL_CUDA_RECORDING_H
#include "cuda/replay.h"

/* Most recordings of a plan; how many hashes of its last runs are kept; fewest steps of a graph.
** FL_MADE_STEPS: a run that makes a recording begins to capture a span, or to instantiate a graph,
** as long as it has done so for fewer than this number of steps. Either takes about 8 us per step:
** to make the graphs of a long plan in one run would make that run several times as long. */
enum { FL_RECORDINGS = 4, FL_REPLAY_SEEN = 8, FL_SPAN_LEAST = 3, FL_MADE_STEPS = 64 };

typedef struct fl_span {
  int32_t from, to;
  uint8_t sends;                  /* the graph sends the record of checks to the host */
  fl_cu_graph graph;              /* owns the kernels' nodes; NULL: run step by step */
  fl_cu_graph_exec exec;          /* NULL beside a graph: it is not instantiated yet, and this span
                                  ** is run step by step */
} fl_span;

/* A node of a graph: a kernel that is launched by itself, with its parameters by value. */
typedef struct fl_kernel_node {
  const fl_kernel *kernel;
  int32_t span, words, nscalar;
  fl_cu_graph_node node;
  fl_cu_kernel_node launch;       /* params: set at each use */
  int64_t *word;                  /* as they are in the graph */
  fl_text_scalar *scalar;         /* the words of 'word' that are numbers of the script, set again
                                  ** at each replay */
} fl_kernel_node;

/* The table, in device memory, of the parameters of a launch group of several kernels; it belongs
** to one recording alone. */
typedef struct fl_table {
  const fl_step *step;
  const fl_launch_group *group;
  void *at;                       /* the table in device memory */
  int64_t *rows;                  /* its contents, on the host */
} fl_table;

struct fl_recording {
  fl_cuda *s;
  uint64_t hash;                  /* of what is frozen (replay.h) */
  uint64_t epoch;                 /* s->epoch when it was begun; UINT64_MAX: not to be used again */
  int64_t used;                   /* the replay's clock at its last use */
  void *arena;
  int32_t nread;                /* the plan's nread: spans end where a result that is read soon is
                                ** copied to the host */
  uint8_t grouped;              /* in a group of processes: spans end before steps that write homes
                                ** (buffers of the script's tensors) */
  int32_t nfrozen, nbound, nscalar;
  void **frozen;                  /* addresses that the graphs hold as constants: parameters of
                                  ** kernels that are not generated, and of copies */
  void **bound;                   /* addresses of inputs and results that the graphs have */
  fl_scalar *scalar;              /* scalars that the graphs have */
  struct { fl_span *at; int64_t n, cap; } spans;
  struct { fl_kernel_node *at; int64_t n, cap; } nodes;
  struct { fl_table *at; int64_t n, cap; } tables;
  int64_t next;                   /* span that is queued next */
  uint8_t making;                 /* spans or graphs are still missing */
  uint8_t instead;                /* a recording for other addresses was freed for it */
  uint8_t failed;                 /* a graph could not be instantiated */
  int32_t left;                   /* while it is made: of FL_MADE_STEPS, in this run */
  const fl_binding *b;            /* while it is made: the binding of this run */
};

/* Memory to which an input is copied before each run (stand_in.c). */
typedef struct fl_stand_in {
  int32_t ext;                    /* the input's index */
  int64_t low, bytes;             /* its bytes; the first, counted from its first element */
  void *at;
} fl_stand_in;

struct fl_replay {                /* fl_plan.replay */
  fl_replay *next, *prev;         /* all of the device */
  fl_cuda *s;                     /* NULL: the device was closed */
  fl_mem *mem;
  uint8_t *plain;                 /* per step: it cannot be captured */
  int32_t nstep;
  int32_t turn, made;             /* newest entry of 'seen'; recordings begun so far */
  int how;                        /* FLAME_REPLAY, when the plan was prepared */
  struct { int32_t *at; int64_t n, cap; } frozen;      /* indices of inputs; those of results as
                                                       ** ~index */
  int64_t clock, counted;         /* counted: host bytes of this and its recordings that
                                  ** p->total_bytes includes */
  struct {                        /* of the last run: what is frozen */
    void **address;               /* NULL: there was no run */
    void *arena;
    uint64_t epoch, scalars;      /* scalars: a hash */
  } was;
  struct { fl_stand_in *at; int64_t n, cap; } stand_ins;
  int64_t stood;                  /* bytes of all stand-ins */
  void **ext;                     /* addresses of inputs, with stand-ins; NULL: there are none */
  int fresh;                      /* how many runs in a row had addresses that were not in 'seen' */
  uint64_t seen[FL_REPLAY_SEEN];  /* hashes of frozen addresses and scalars of the last runs */
  uint8_t times[FL_REPLAY_SEEN];  /* how often each hash in 'seen' occurred */
  fl_recording *recording[FL_RECORDINGS];
};

/* ---- stand_in.c ---- */
/* Before a run: copies inputs to their stand-ins, which *b names from then on. */
flame_status fl_stand_ins_use(fl_cuda *s, fl_replay *r, const fl_plan *p, fl_binding *b);
/* Called after each run: known: its frozen addresses were those of an earlier run. After several
** runs with addresses that were not, inputs that have moved since the last run get stand-ins in the
** next run. */
void fl_stand_ins_learn(fl_cuda *s, fl_replay *r, const fl_plan *p, const fl_binding *b,
                        int known);
void fl_stand_ins_free(fl_replay *r, int driver);

/* ---- capture.c ---- */
/* Makes the span (sequence of steps) from step 'from' on, captured if it can be, and adds it to the
** recording. A step that cannot be captured ends the span before it and gets a span without a
** graph. open: as fl_replay_span has it. */
flame_status fl_span_make(fl_cuda *s, fl_recording *w, const fl_plan *p, int32_t from,
                          int open);
/* Instantiates the span's graph; if that fails, it has none from then on. */
void fl_span_ready(fl_recording *w, fl_span *x);
/* driver: frees its graph; otherwise nothing. */
void fl_span_free(fl_recording *w, fl_span *x, int driver);
void fl_kernel_node_free(fl_mem *m, fl_kernel_node *x);
#endif
