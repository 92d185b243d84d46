/*
** What convolutions (cudnn.c) and attention (cudnn_attention.c) share of cuDNN's graph API: making
** descriptors, choosing an engine, the plans that a device keeps, and running one.
**
** A plan is the first engine, in the order of cuDNN's heuristics, that is exact, is deterministic
** unless the caller allows others, and can be made. It is kept by the call's kind, dtype and
** integers; so is the fact that none could be made.
*/
#ifndef FL_CUDA_CUDNN_GRAPH_H
#define FL_CUDA_CUDNN_GRAPH_H
#include "cuda/library/cudnn.h"

enum { FL_DNN_KEY = 29, FL_DNN_ITEMS = 96, FL_DNN_ALIGNED = 16 };

struct fl_dnn_plan {
  fl_dnn_plan *next;
  const fl_cudnn *lib;
  int64_t key[FL_DNN_KEY];        /* kind, dtype, the call's integers */
  fl_dnn_item item[FL_DNN_ITEMS]; /* what the plan was made of; the plan may refer to these */
  int items;
  fl_dnn_item plan;               /* NULL: there is none */
  int64_t space;                  /* cuDNN's own workspace */
  /* convolutions: are tensors converted to channels last; bytes of each converted tensor; 0: it is
  ** not converted */
  int last;
  int64_t bytes[3];
  /* attention: how many batches and heads of q one execution takes */
  int64_t batches, heads;
};

enum { FL_DNN_BINS = 64 };
typedef struct fl_dnn {
  const fl_cudnn *lib;
  fl_dnn_handle handle;           /* NULL: cuDNN is not there */
  int64_t version;                /* 91900 is 9.19.0; 0: unknown */
  fl_dnn_plan *bin[FL_DNN_BINS];
  int64_t n;
} fl_dnn;

/* Finds the plan of a call. 1: it is new and must be made. *p is NULL if there is no cuDNN, or no
** memory for a plan. */
int fl_dnn_kept(fl_cuda *s, const fl_call *c, fl_dnn_plan **p);

/* ---- descriptors: after a step has failed, later ones do nothing ---- */

typedef struct fl_dnn_maker {
  fl_dnn_plan *p;
  fl_dnn_status error;
} fl_dnn_maker;

int fl_dnn_type_of(int dtype);    /* of cuDNN; -1: none */
fl_dnn_item fl_dnn_new(fl_dnn_maker *m, int kind);
void fl_dnn_set(fl_dnn_maker *m, fl_dnn_item d, int name, int type, int64_t n, const void *values);
void fl_dnn_finish(fl_dnn_maker *m, fl_dnn_item d);
/* A tensor in memory; one between two operations of the graph; a number given by the host. */
typedef enum fl_dnn_where { FL_DNN_STORED, FL_DNN_VIRTUAL, FL_DNN_NUMBER } fl_dnn_where;
fl_dnn_item fl_dnn_tensor(fl_dnn_maker *m, fl_dnn_where where, int64_t id, int type, int axes,
                          const int64_t *size, const int64_t *stride);
fl_dnn_item fl_dnn_graph(fl_dnn_maker *m, fl_dnn_handle h, int n, const fl_dnn_item *op);
/* Tries cuDNN's configurations of one mode of its heuristics until a plan can be made. */
void fl_dnn_choose(fl_dnn_maker *m, fl_dnn_handle h, fl_dnn_item graph, unsigned mode, int dtype,
                   int free);
void fl_dnn_drop(fl_dnn_plan *p);            /* all that it is made of */

/* ---- running ---- */

fl_dnn_status fl_dnn_execute(fl_cuda *s, const fl_dnn_plan *p, int n, const int64_t *id,
                             void *const *at, void *space);
/* If the address *at is not a multiple of FL_DNN_ALIGNED (that of a slice may not be), replaces it
** with a copy of that input. *copy: to be released afterwards. */
flame_status fl_dnn_align(fl_cuda *s, void **at, int64_t bytes, void **copy, const char *what);
/* Sets the context's error for a call whose execution failed with this status. */
flame_status fl_dnn_failed(fl_cuda *s, const char *what, fl_dnn_status status);
#endif
