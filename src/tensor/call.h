/*
** Calls: steps that are neither expressions nor products. Sorts, scans, factorisations, transforms,
** convolutions and user kernels are all nodes of one op, FL_OP_call. A call is described by data:
** its kind (calls.def), integers, row-major inputs and one result. A plan has a copy.
**
** A call has no gradient rule: the function that records it (such as a composite in Lua, through
** flame.func, or a user kernel) provides the rule in terms of other nodes. Several results are
** packed in one, which that function separates by views.
**
** Layers. tensor/ checks a call's sizes (call_*.c), plan/ makes a step of it, cpu/ has a function
** for every kind, cuda/ for some: calls of the other kinds run on the host, with copies.
*/
#ifndef FL_TENSOR_CALL_H
#define FL_TENSOR_CALL_H
#include "base/mem.h"
#include "tensor/node.h"

enum { FL_NONZERO_COUNTS = 8192 };             /* elements of the result of nonzero_count */
enum { FL_CALL_PARAMS = 266, FL_CALL_INPUTS = 96, FL_CALL_FAULT = 384 };

#define CALL(name, faults, doc) FL_CALL_##name,
typedef enum fl_call_kind {
#include "tensor/calls.def"
  FL_CALL_COUNT
} fl_call_kind;
#undef CALL

/* What a call of kind 'kernel' runs: a user kernel. refs may be changed only on the context's
** thread. */
typedef struct fl_callee {
  int32_t refs;
  void (*free)(struct fl_callee *self);
  int32_t cached;                 /* how many of refs belong to plans in the cache (plan/cache.c) */
} fl_callee;

typedef struct fl_call {
  uint16_t kind;
  uint8_t nin, dtype;                    /* dtype, numel: those of the result */
  uint8_t in_dtype[FL_CALL_INPUTS];
  int64_t numel, in_numel[FL_CALL_INPUTS];
  int64_t p[FL_CALL_PARAMS];             /* meaning by kind, see calls.def; rest 0 */
  char what[32];                         /* public op in messages */
  fl_callee *callee;                     /* a reference, or NULL */
  int32_t nscalar;                       /* how many scalars it has; their values are not part of a
                                         ** plan's key */
  fl_scalar *scalar;                     /* owned by a node's call; NULL in a plan's copy */
  fl_scalar few[8];                      /* 'scalar' points here if they fit */
} fl_call;

/* A call that is being run. All arrays are row-major and densely packed; addresses are the
** device's. */
typedef struct fl_call_run {
  const fl_call *call;
  void *out;
  void *in[FL_CALL_INPUTS];
  const fl_scalar *scalar;               /* nscalar of them */
  void *scratch;            /* as many bytes as the kind's scratch function requested, 64-aligned */
  char *fault;                           /* FL_CALL_FAULT bytes: a message about values, e.g.
                                         ** "matrix 3 is singular" */
  int32_t site;                          /* on a GPU: the number of the call in the record of the
                                         ** run's checks; -1: none */
} fl_call_run;

/* When a call reports bad values. RUN: the run of the plan waits for the report. LATE: no run
** waits; the next read or sync raises it. EFFECT: an effect (node.h), which reports as RUN does.
** For the last two scalar[0].i is the site that recorded the call. */
enum { FL_FAULTS_NEVER, FL_FAULTS_RUN, FL_FAULTS_LATE, FL_FAULTS_EFFECT };
typedef struct fl_call_info {
  const char *name, *doc;
  uint8_t faults;                        /* FL_FAULTS_*: whether and when it reports bad values */
  /* do numel, in_numel and dtypes agree with p[]? memory safety depends on it */
  int (*fits)(const fl_call *call);
} fl_call_info;
extern const fl_call_info fl_calls[FL_CALL_COUNT];
/* May the step report a fault that the run waits for? */
static inline int fl_call_reports(const fl_call *k) {
  return fl_calls[k->kind].faults == FL_FAULTS_RUN || fl_calls[k->kind].faults == FL_FAULTS_EFFECT;
}
int fl_call_of_name(const char *name);   /* -1: none */

/* Records a node that runs a call of this kind. in: tensors on one device, made row-major here. p:
** np integers. what: its name in messages. callee: retained, or NULL; scalar: copied. NULL with the
** error in the context. */
fl_node *n_call(struct flame_context *c, int kind, const char *what, int nin, fl_node *const *in,
                int device, int dtype, int rank, const int64_t *size, int np, const int64_t *p,
                fl_callee *callee, int nscalar, const fl_scalar *scalar);
void fl_callee_release(fl_callee *k);
void fl_call_free(struct flame_context *c, fl_call *call);       /* of a node */

/* The functions 'fits', one per kind. */
#define CALL(name, faults, doc) int fl_call_fits_##name(const fl_call *call);
#include "tensor/calls.def"

/* For the functions of call_*.c: the product of n sizes; -1 if it, ignoring zeros, overflows, or if
** a size is negative. */
int64_t fl_call_product(int n, const int64_t *size);
/* The bytes of a user kernel's result that are set before the launch: zeros and copies (kind
** 'kernel'). */
int64_t fl_call_prepared_kernel(const fl_call *c);
#endif
