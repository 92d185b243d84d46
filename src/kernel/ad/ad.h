/*
** Derivatives of user kernels: tree in, tree out. The result is again a function of the language
** (tree.h): it can be printed as CUDA text, run on the CPU (lanes/), and derived again.
**
** - fl_kad_tangent: (arguments, tangents) -> (outputs, tangents of outputs): the same control flow
**   with a second number, its tangent, beside every real number that depends on an input and that
**   an output depends on.
** - fl_kad_adjoint: (arguments, cotangents of outputs) -> gradients. Each thread repeats its own
**   forward code from the inputs (without writes to outputs, or with writes to a scratch copy where
**   the derivative reads them), then runs the reverse code. A loop keeps a bounded number of
**   snapshots ('slot_bytes') and recomputes the rest (binomial checkpoints), whatever the trip
**   count.
** - If no right result is possible, 'func' is NULL and 'refusal' says why.
** - fl_kad_gather inverts an adjoint that adds into neighbours: each thread computes one element of
**   a gradient, and sums what the threads that read the element contribute.
**
** Geometry: a derived kernel is launched with the grid, block and shared memory of the original
** (dynamic shared memory: see FL_KAD_SHARED), a gather kernel with FL_KAD_GATHER_BLOCK threads per
** block and enough blocks for its largest FL_KAD_SIZE. 'want' of a request has one entry for each
** parameter of the source's signature; a struct is one parameter, and a flag of it holds for all
** its float members (leaves).
*/
#ifndef FL_KERNEL_AD_H
#define FL_KERNEL_AD_H
#include "kernel/facts/access.h"

/* What is requested for one parameter: these flags or-ed. 0: the parameter is "nodiff", or no
** derivative passes through it. INPUT and OUTPUT of integer parameters are ignored. */
enum {
  FL_KAD_INPUT = 1,     /* derive with respect to its value (arrays: contents before launch) */
  FL_KAD_OUTPUT = 2,    /* non-const pointer: contents after the launch have a (co)tangent */
  FL_KAD_FRESH = 4      /* non-const pointer that the launcher fills with zeros before the launch
                        ** (an output that is not an argument): never also INPUT */
};

enum { FL_KAD_SLOT_BYTES = 512 };

typedef struct fl_kad_request {
  const uint8_t *want;       /* n_params entries: FL_KAD_INPUT … */
  int geometry;             /* FL_KONE_… of access.h: which extents of the launch are certainly 1 */
  const fl_klaunched *launched;   /* facts about the launch that proofs may use (see 'limits' of the
                                  ** result); NULL: none */
  int deterministic;         /* 1: gradients do not depend on the order of the threads, where that
                             ** is possible (FL_KM_ORDERED; see 'unordered_line'); 0: sums are made
                             ** in any order (FL_KM_FREE) */
  int32_t slot_bytes;        /* bytes per thread for the snapshots of one loop (there is room for at
                             ** least 4 in any case); 0: FL_KAD_SLOT_BYTES */
} fl_kad_request;

/* What a parameter of the derived kernel is. "tangent:", "adjoint:" and "gather:" name the kind of
** derived kernel that has such parameters; a gather kernel also has those of an adjoint. Element
** types are fl_kad_param.type. */
typedef enum {
  FL_KAD_ORIGINAL,      /* the argument of the original launch, as it was before the launch: scalar,
                        ** struct, or array that the derived kernel only reads */
  FL_KAD_UNUSED,        /* a pointer that the kernel does not read or write, so NULL may be passed
                        ** (it stays in the signature, which begins with all parameters of the
                        ** source) */
  FL_KAD_RESULT,        /* tangent: an array that is written as in the original launch */
  FL_KAD_SCRATCH,       /* adjoint: writable copy of the contents before the launch (FRESH: zeros);
                        ** garbage afterwards */
  FL_KAD_KEPT,          /* adjoint: a writable array 'count' times as large as the argument, given
                        ** as zeros; garbage afterwards. Without argument (param -1): of 'count'
                        ** elements for each block, or for each 'part' bytes of its dynamic shared
                        ** memory (see SHARED) */
  FL_KAD_FINAL,         /* adjoint: contents after the original launch, only read */
  FL_KAD_COTANGENT,     /* adjoint: cotangent of the contents after the launch, only read */
  FL_KAD_WORK,          /* adjoint: writable copy of the cotangent (zeros where there is none);
                        ** holds the gradient of the contents BEFORE the launch afterwards, so for
                        ** INPUT this is the gradient to pass on, for others it is scratch */
  FL_KAD_GRAD,          /* adjoint: array shaped as the input array, given as zeros: afterwards the
                        ** gradient. (Not an array with earlier sums: elements may be overwritten,
                        ** see 'stores'.) */
  FL_KAD_GRAD_SCALAR,   /* adjoint: gradient of a scalar or of a struct's member, given as zeros:
                        ** 'count' elements (more than 1 if the member is an array) */
  FL_KAD_TANGENT,       /* tangent: array of tangents of an input array, only read */
  FL_KAD_TANGENT_SCALAR,/* tangent: the tangent of a scalar or of a struct's scalar member */
  FL_KAD_TANGENT_ARRAY, /* tangent: the tangents of a struct's array member: 'count' elements, only
                        ** read */
  FL_KAD_TANGENT_RESULT,/* tangent: array given with the tangents of the contents before the launch
                        ** (zeros for FRESH or not INPUT); afterwards those after the launch */
  FL_KAD_SHARED,        /* I64 scalar: bytes of dynamic shared memory of the original launch,
                        ** rounded up to 16; the derived kernel is launched with 'count' times
                        ** that */
  FL_KAD_LAUNCH,        /* gather: I32 scalar of the original launch, 'count' says which: 0 to 2
                        ** threads of a block along x, y, z; 3 to 5 blocks; 6 to 8 their product */
  FL_KAD_SIZE           /* gather: I32 scalar: the number of elements of the array that is parameter
                        ** 'param' of the source */
} fl_kad_role;

/* Parameter k of the derived kernel (fl_kad.func->params[k]). */
typedef struct fl_kad_param {
  uint8_t role;         /* fl_kad_role */
  uint8_t type;         /* type of an element, or of the scalar: F32 where the source has halves and
                        ** derivatives are summed or kept (GRAD*, WORK, TANGENT*); VOID: a struct */
  uint8_t seeded;       /* COTANGENT, WORK: the request marked 'param' OUTPUT, so a cotangent is
                        ** given */
  uint8_t through;      /* COTANGENT: if the request marked 'param' INPUT, its gradient is the
                        ** cotangent itself (the kernel only adds to the array) */
  uint8_t stores;       /* GRAD: elements are stored, not added to. Where the access analysis finds
                        ** that all are written, and none is read, the array need not be zeroed */
  uint8_t part;         /* KEPT for dynamic shared memory: the size of an element there; else 0 */
  uint8_t fresh;        /* KEPT: an element is written before it is read, so needs no zero */
  int32_t param;        /* parameter of the source's signature; -1: none */
  int32_t leaf;         /* index among the fields (fl_kfield) of a parameter that is a struct;
                        ** -1: the parameter is no member of a struct */
  int64_t count;        /* GRAD_SCALAR, TANGENT_ARRAY: elements; SHARED, KEPT: the factor, LAUNCH:
                        ** which number (see FL_KAD_LAUNCH); else 0: as many elements as the array
                        ** has */
} fl_kad_param;

typedef struct fl_kad {
  fl_kfunc *func;          /* NULL: refused */
  fl_kad_param *params;    /* func->n_params entries */
  int32_t n_params;
  int32_t refusal_line;    /* line in the source of the given function; 0: none is known */
  const char *refusal;     /* "kernel 'k', line 12: ... cannot be differentiated; give vjp = ..." */
  fl_klimits limits;       /* the launches for which the derivative is right */
  /* for reports: line of a loop and bytes per thread of its snapshots. The eighth element also has
  ** the bytes of all further loops. */
  struct fl_kad_kept { int32_t line, bytes; } kept[8];
  int32_t n_kept;
  int64_t moved;           /* a measure of what loops move to snapshots and back: the bytes of each
                           ** loop's snapshots, times 16 for each loop around it (at most 6) */
  int32_t n_plain, n_block, n_atomic;   /* number of statements that add to derivatives: one thread
                                        ** alone, to global memory; one sum over the threads of a
                                        ** block; an atomic, to global or shared memory */
  struct fl_kad_sum { int32_t line, param; } *gathered;   /* gather: the inverted sums */
  int32_t n_gather;        /* length of 'gathered'; 0 if this is not a result of fl_kad_gather */
  uint8_t *positive;       /* gather: if not NULL, the result is right only where the scalar
                           ** parameters of the source that are marked here are greater than 0;
                           ** otherwise run the whole adjoint */
  uint8_t gradients;       /* how many regions of dynamic shared memory hold gradients; those after
                           ** them hold old contents */
  uint8_t views;           /* dynamic shared memory is seen as several types: right for launches
                           ** of the source of which fl_kviews_apart (facts/views.h) says so */
  int32_t unordered_line;  /* the request was deterministic, yet sums at this line, into memory that
                           ** the derivative reads again, are atomic, in no fixed order (with
                           ** any_order: taken_line); 0: none */
  int32_t taken_line;      /* line of a store by which several threads may write one element: its
                           ** cotangent goes to the thread that takes it first; 0: none */
  /* 1: the request was deterministic, but at taken_line the order of the threads decides all the
  ** same; so no sum keeps a fixed order (mode FL_KM_FREE) */
  uint8_t any_order;
} fl_kad;

/* The tangent and the adjoint of f. NULL: memory is out, or the arena was stopped (a->failed). They
** do not change f, and the result shares nothing with it but strings in its arena, which must stay
** open. */
fl_kad *fl_kad_tangent(fl_karena *a, const fl_kfunc *f, const fl_kad_request *r);
fl_kad *fl_kad_adjoint(fl_karena *a, const fl_kfunc *f, const fl_kad_request *r);

/* Arrays of an adjoint in global memory, a slice for each block, so that the others fit the shared
** memory of a block. fl_kad_shared: the bytes that it has there, in a launch whose original has
** 'dynamic' bytes of dynamic shared memory (a multiple of 16). fl_kad_excess: says what must move
** for at most 'room' bytes, or as many as is possible; 0: nothing. fl_kad_spill: the adjoint in
** which that is done, right for each launch for which 'ad' is; NULL: it can not be, or memory is
** out (a->failed). */
int64_t fl_kad_shared(const fl_kad *ad, int64_t dynamic);
int32_t fl_kad_excess(const fl_kad *ad, int64_t dynamic, int64_t room);
fl_kad *fl_kad_spill(fl_karena *a, const fl_kad *ad, int32_t excess);

/* Finds the sums of a derived kernel that lanes of a warp make together, and loops whose lanes
** should be in the same iteration: sets the fields of statements that say so (FL_KM_WARP, 'joined',
** 'held', FL_KLOOP_DOWN) and puts sums that are joined next to each other. No value changes but by
** the order of sums. beyond: the variable of its parameter of role FL_KAD_SHARED; -1: there is
** none, or it is not known. */
void fl_kad_sum_lanes(fl_karena *a, fl_kfunc *f, int32_t beyond);

/* Sums of an adjoint (of f, made for r) into arrays whose elements are read at indices such as
** "index of the thread + a number that all threads share" need no atomics: gather->func computes
** each element of these gradients in one thread, in a fixed order. rest: the adjoint without these
** sums; NULL: nothing is left. Both NULL: no array qualifies, or the gather would be slower (or
** memory is out: arena->failed). 'gather' and 'rest' are right for launches that fit their 'limits'
** and 'positive', with array sizes and numbers of threads along each axis of at most
** FL_KAD_GATHER_MOST. */
enum { FL_KAD_GATHER_BLOCK = 256, FL_KAD_GATHER_MOST = INT32_MAX - (1 << 21) };
typedef struct fl_kad_parts { fl_kad *gather, *rest; } fl_kad_parts;
fl_kad_parts fl_kad_gather(fl_karena *a, const fl_kfunc *f, const fl_kad *adjoint,
                           const fl_kad_request *r);
#endif
