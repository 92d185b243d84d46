/*
** The rule of a kernel's call: gradients of its results, made by launching what kernel/ad/ derives.
** Autograd calls it through the fl_custom of an entry (tensor/entry.h); hosts attach it to what a
** launch has recorded (engine/launch.h). No Lua is in it.
**
** Three kinds of objects belong to one context and are used on the thread that has entered it;
** programs and calls have a count of references:
**   program   a kernel, given or derived, with the meaning of its parameters, and all that was
**             derived from it. A derivative is a program again, so gradients have gradients.
**   call      one launch of a program: geometry, numbers as bytes, arrays as nodes that are held,
**             so that later writes do not reach them.
**   rule      a call, and which of its arguments get gradients. The entries of its results own it;
**             it is freed with them, or by the backward that spends them.
**
** The life of one call, y = k(x) with a tracked x, y:sum():backward():
**   fl_launch_record(&l, y)              y[0]: the result, not tracked
**   r = fl_krule_new(p, &l, number, y)   the call, with x and y; NULL and no error: none is tracked
**   fl_krule_attach(r, y)                y[0] is another node: the same value, its entry has r
**   backward: autograd calls the rule with the cotangent g of y[0]
**     vjp: wants = {INPUT of x, OUTPUT of y}; the adjoint for them, derived once per program and
**     kept there; launched with x, g and zeros for dx; dx is the gradient.
** With create_graph the gradient depends on x and g again: dx gets an entry whose rule takes the
** jvp of the call in the direction u of dx's cotangent (for fixed u, d<u, J'g> = d<g, Ju>), so an
** adjoint itself is never differentiated.
**
** Tracked nodes that a call holds are inputs of the entries that own the call, where the search for
** cycles through the graph finds them.
*/
#ifndef FL_RULE_RULE_H
#define FL_RULE_RULE_H
#include "engine/launch.h"
#include "kernel/ad/ad.h"
#include "tensor/entry.h"

/* What a parameter is to a caller. NONE: it has no array, and is a null pointer in each launch. */
typedef enum { FL_KROLE_SCALAR, FL_KROLE_STRUCT, FL_KROLE_IN, FL_KROLE_OUT, FL_KROLE_INOUT,
               FL_KROLE_NONE } fl_krole;

typedef struct fl_kprogram {
  int32_t refs;
  int nparam;
  fl_kfunction *k;                     /* a reference */
  const char *name;                    /* the kernel's name, as given, in messages */
  uint8_t role[FL_KP_MAX_ARGS];        /* fl_krole */
  /* the parameter is a variable of file scope, for which there is no argument */
  uint8_t hidden[FL_KP_MAX_ARGS];
  /* the parameter gets no gradient, even if its argument is tracked */
  uint8_t nodiff[FL_KP_MAX_ARGS];
  int omit;                            /* the only integer parameter, if it is the last: it may be
                                       ** omitted, and is then the number of elements; else -1 */
  fl_kfunction *recorder;              /* the kernel launched if the call is tracked
                                       ** (kernel/ad/record.h), with one more result; NULL: k
                                       ** itself */
  struct fl_kprogram *replay;          /* the program that is differentiated when the recorder has
                                       ** run; NULL: this program */
  int records;                 /* number of values per thread in the recorder's additional result */
  struct fl_kderived *derived;         /* owned */
  /* of an adjoint: the same with arrays in global memory (fl_kad_spill); owned, a list by this
  ** field. excess: what has moved in this one */
  struct fl_kprogram *spilled;
  int32_t excess;
  uint64_t apart;              /* hash of the last launch for which fl_kcall_apart was OK */
  struct { uint64_t *at; int64_t n, cap; } proven;   /* sets of arguments for which FLAME_CHECK=grad
                                                     ** has proven the gradient */
} fl_kprogram;

/* A request for a derivation. want: FL_KAD_*, by parameter. */
typedef struct fl_kask {
  uint8_t adjoint;                     /* the adjoint; 0: the tangent */
  uint8_t gather;                      /* 1: an adjoint may consist of two kernels, one of them with
                                       ** a thread per element (a gather) */
  uint8_t geometry;                    /* FL_KONE_… */
  uint8_t want[FL_KP_MAX_ARGS];
  /* what is known of the launch, for proofs; NULL: the derivation must be right for any launch */
  const fl_klaunched *launched;
} fl_kask;

/* The result of a derivation. Parameters of the parts are described by part[i]->k->ad->params. */
typedef struct fl_kderived {
  struct fl_kderived *next;
  fl_kask ask;                         /* without launched */
  uint8_t deterministic;
  const fl_klimits *limits;            /* the launches for which it is right */
  /* not 0 for a parameter that must be greater than 0, else the derivation is wrong; or NULL */
  const uint8_t *positive;
  uint8_t views;                       /* fl_kad.views */
  int nparts;
  fl_kprogram *part[2];                /* references; a tangent has one part */
} fl_kderived;

/* Takes ownership of k, also on failure (NULL with the error); if k is NULL, the context has the
** error already. inout[i]: parameter i is a pointer or a variable of file scope whose contents the
** caller passes. A derived kernel, which has no hidden parameters, has inout NULL. */
fl_kprogram *fl_kprogram_new(flame_context *c, fl_kfunction *k, const uint8_t *inout);
void fl_kprogram_release(fl_kprogram *p);
/* Makes p->recorder and p->replay, if the kernel uses results of integer atomics outside of loops
** (and has room for one more parameter). */
flame_status fl_kprogram_record(flame_context *c, fl_kprogram *p);
/* Fails with a refusal, as the derivation words it, and the script's line. */
flame_status fl_kprogram_refuse(flame_context *c, const fl_kprogram *p, const char *why);
/* Borrowed from p; NULL with the error: why there is no derivative. */
const fl_kderived *fl_kprogram_derive(flame_context *c, fl_kprogram *p, const fl_kask *ask);
/* The adjoint p, with arrays in global memory (fl_kad_spill) if a block would need more than 'room'
** bytes of shared memory in a launch whose original has 'dynamic' bytes of it. Borrowed from p;
** NULL with the error. */
fl_kprogram *fl_kprogram_fit(flame_context *c, fl_kprogram *p, int64_t dynamic, int64_t room);
/* The derivation that k:source and k:report show: with respect to all arguments and for all
** outputs, using what 'geometry' tells about the launch (a size of 0: unknown; NULL: nothing). */
const fl_kderived *fl_kprogram_show(flame_context *c, fl_kprogram *p, int adjoint,
                                    const int64_t *geometry);
/* The type with which elements are counted, if it is narrow; NULL: wide. For fl_launch_takes. */
static inline const char *fl_kprogram_index(const fl_kprogram *p) {
  const int type = p->omit >= 0 ? p->k->f->params[p->omit].type : FL_KT_I64;
  return fl_kt_size(type) < 8 ? fl_ktypes[type].c : NULL;
}
static inline int fl_kprogram_writes(const fl_kprogram *p, int i) {
  return p->role[i] == FL_KROLE_OUT || p->role[i] == FL_KROLE_INOUT;
}

/* ---- calls ----------------------------------------------------------------------------------- */

typedef struct fl_karg {
  fl_node *value;                      /* held or NULL: an array before the launch, or the tensor
                                       ** that a number was read from */
  fl_node *result;                     /* held or NULL: an array after the launch */
  int32_t at, bytes;                   /* place of a number or a struct in scalar[] */
  uint8_t each;                        /* 1: the array has a part for each launch of a batch */
} fl_karg;

typedef struct fl_kcall {
  int32_t refs;
  int nscalar;
  flame_context *c;
  fl_kprogram *p;                      /* a reference */
  int64_t geometry[FL_KP_COUNT_ARGS];  /* grid, block, …: the beginning of fl_launch.p[] */
  int64_t batch;                       /* fl_launch.batch: a derivative is derived for one
                                       ** launch, and launched as a batch too */
  fl_scalar *scalar;
  fl_karg arg[];                       /* p->nparam */
} fl_kcall;

/* A call without arguments yet; NULL with the error. */
fl_kcall *fl_kcall_new(flame_context *c, fl_kprogram *p, const int64_t *geometry, int nscalar);
void fl_kcall_release(fl_kcall *k);
/* Gives the argument its node, which is held, as its 'value' or 'result'. */
static inline void fl_kcall_hold(fl_node **to, fl_node *n) {
  *to = n;
  if (n) fl_node_hold(n);
}
/* Elements of one launch's part of argument i, whose array is x. */
static inline int64_t fl_kcall_elements(const fl_kcall *k, int i, const fl_node *x) {
  return k->batch && k->arg[i].each ? x->shape->numel / k->batch : x->shape->numel;
}
/* Extents: threads of a block along x, y, z, then blocks, then their products. */
static inline int64_t fl_kextent(const int64_t *geometry, int which) {
  if (which < 3) return geometry[FL_KP_BLOCK + which];
  if (which < 6) return geometry[FL_KP_GRID + which - 3];
  return geometry[FL_KP_BLOCK + which - 6] * geometry[FL_KP_GRID + which - 6];
}
/* What is known of a call's launch, in the form that proofs use. */
typedef struct fl_kknown {
  fl_klaunched l;
  int64_t value[FL_KP_MAX_ARGS];
  uint8_t known[FL_KP_MAX_ARGS];
} fl_kknown;
void fl_kcall_known(const fl_kcall *k, fl_kknown *x);
/* Fails if the launch of k may access bytes of dynamic shared memory as two types: a derivative
** with 'views' is then wrong. */
flame_status fl_kcall_apart(fl_kcall *k);
/* fl_kone_of: which sizes of the launch are 1, as bits FL_KONE_…. fl_kextents_of: the extents
** in the order of fl_kextent, then the number of all blocks. */
int fl_kone_of(const int64_t *geometry);
void fl_kextents_of(const int64_t *geometry, int64_t extent[FL_KEXTENTS]);

/* ---- arguments of a derived kernel's launch -------------------------------------------------- */

/* Set argument i of a launch. input: an array that is read ('each': in a batch, a part of it by
** each launch); copy: an array that is written and has initial contents; zeros: n zeros for each
** launch; int: an integer; bytes: those of the number or struct 'of' of k. */
flame_status fl_kgive_input(fl_launch *l, const fl_kprogram *p, int i, fl_node *x, int each);
flame_status fl_kgive_copy(fl_launch *l, const fl_kprogram *p, int i, fl_node *x);
flame_status fl_kgive_zeros(fl_launch *l, int i, int64_t n);
flame_status fl_kgive_int(fl_launch *l, int i, int64_t v);
flame_status fl_kgive_bytes(fl_launch *l, int i, const fl_kcall *k, int of);
/* Sets argument i of the launch to argument 'of' of the original kernel's call k. */
flame_status fl_kgive_original(fl_launch *l, const fl_kprogram *p, int i, const fl_kcall *k,
                               int of);
/* The contents of parameter i before the launch; zeros for an output that is not an argument. */
fl_node *fl_kcall_contents(const fl_kcall *k, int i);
/* x as contiguous elements of a kernel's type. */
fl_node *fl_kflat(fl_node *x, int type);
/* Compiles and records. */
flame_status fl_klaunch(fl_launch *l, fl_node **results);
/* Launches the call; its results are held. count: elements of results that begin as zeros. */
flame_status fl_kcall_launch(fl_kcall *k, const int64_t *count);
fl_node *fl_kshaped(fl_node *x, const fl_node *like);      /* x in the shape of 'like' */
/* Reads the single element of x as a number of a parameter's type. Evaluates. */
flame_status fl_kread_number(flame_context *c, fl_node *x, int type, void *to);
/* The bytes of shared memory that a block may have on the device of a call. */
int64_t fl_kcall_room(const fl_kcall *k);
/* Adds room in shared memory for the copies that a derived kernel keeps there; *bytes: those of the
** original, rounded up to 16, which are a parameter of the derived kernel; 0: it has none. Fails,
** in the name of the call's kernel, if a block can not have so much. */
flame_status fl_kenlarge(const fl_kcall *k, int64_t *geometry, const fl_kad *ad, int64_t *bytes);
/* Fails: no launch can give a parameter of this role. */
flame_status fl_kno_role(flame_context *c, const fl_kad_param *q);

/* ---- gradients ------------------------------------------------------------------------------- */

/* Gradients of <seed, outputs> with respect to the values of parameters active[0..n), in that
** order; zeros where nothing depends on the value. They are tracked if a value or a seed is and the
** context records gradients. seed: by parameter, NULL if there is none. */
flame_status fl_kcall_vjp(fl_kcall *k, int n, const uint8_t *active, fl_node *const *seed,
                          fl_node **gradient);
/* Like fl_kcall_vjp without a tape: gradient[] is by parameter, NULL if there is none. */
flame_status fl_kcall_adjoint(fl_kcall *k, int n, const uint8_t *active, fl_node *const *seed,
                              fl_node **gradient);
/* Tangents of the outputs from those of the arguments, both by parameter; t: the call of the
** tangent kernel, which must be released, and where its arguments come from. */
typedef struct fl_ktangent {
  fl_kcall *call;
  /* by parameter of the original: the tangent kernel's parameter with its value (-1: none, or a
  ** struct), and the one that receives the tangent of an output (-1: it is no such output) */
  int8_t of_value[FL_KP_MAX_ARGS];
  int8_t of_tangent[FL_KP_MAX_ARGS];
} fl_ktangent;
flame_status fl_kcall_jvp(fl_kcall *k, fl_node *const *tangent, fl_node **out, fl_ktangent *t);

typedef struct fl_krule {
  fl_kcall *call;                      /* a reference */
  int nactive, nresult;
  uint8_t first;                       /* 1: the call is a launch of the host, not of a gradient;
                                       ** FLAME_CHECK=grad checks such rules */
  uint8_t active[FL_KP_MAX_ARGS];      /* parameters whose arguments are tracked */
  uint8_t result[FL_KP_MAX_ARGS];      /* the parameters that are floating-point results */
  uint8_t place[FL_KP_MAX_ARGS];       /* index of result[j] among all results of the launch */
} fl_krule;
/* number[i]: the tensor from which the number for parameter i was read, or NULL. value: the
** launch's results; if the recorder ran, its additional result, the last one, is removed (*nout
** decreases by one). NULL: nothing is tracked, or there is an error. */
fl_krule *fl_krule_new(fl_kprogram *p, const fl_launch *l, fl_node *const *number, fl_node **value,
                       int *nout);
/* A rule for the tracked arguments of a call, without results; NULL with the error. */
fl_krule *fl_krule_of(fl_kcall *k);
void fl_krule_release(fl_krule *r);
/* Makes floating-point results tracked: value[j] become other nodes. Takes ownership of r. */
flame_status fl_krule_attach(fl_krule *r, fl_node **value);
/* 1 at the first call for r's program and active arguments, 0 at later ones: so FLAME_CHECK=grad
** proves their gradients once. */
int fl_krule_unproven(fl_krule *r);
/* Launches the rule's call again, with x as active argument n; out: the floating-point results, in
** order. */
flame_status fl_krule_again(const fl_krule *r, int n, fl_node *x, fl_node **out);
#endif
