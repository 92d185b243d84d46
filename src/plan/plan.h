/*
** Plans: the steps that compute a window (the recorded ops). Pure data; a plan holds no pointer to
** a node, so it is cached, compared bytewise by its key and run many times with other buffers and
** scalars. Owner: the plan cache (LRU by bytes). One plan is for one device.
**
** A program is the serialised window, which the planner reads and the cache compares.
*/
#ifndef FL_PLAN_PLAN_H
#define FL_PLAN_PLAN_H
#include "base/error.h"
#include "plan/kernel.h"
#include "tensor/call.h"
#include "tensor/context.h"

/* Batched matrix product: C[b] = A[b] B[b], sizes m k, k n, m n. FL_BIAS_ROW (half types): each row
** of every C[b] plus the n elements at 'bias', rounded once. FL_BIAS_ALL (f32): C plus the array at
** 'bias', which lies as C does. Strides count elements; of the last two axes of A and of B one
** stride is 1 (or its size is 1) and the other at least the size (library form), unless 'general'
** is set, which the planner does not do; C is row-major. Batch dims: strides may be 0.
** FL_PADDED_*: rows of the matrix (its elements that follow each other) are at a distance of a
** multiple of FL_PITCH elements, there is room for a multiple of FL_PITCH rows, and the padding
** holds arbitrary values. A product of half floats without batch dims gets padded matrices on a GPU
** if none of m, n and k is below FL_PITCH_LEAST. */
enum { FL_PITCH = 8, FL_PITCH_LEAST = 256 };
enum { FL_BIAS_ROW = 1, FL_BIAS_ALL };
enum { FL_PADDED_A = 1, FL_PADDED_B = 2, FL_PADDED_C = 4 };
typedef struct fl_matmul {
  uint8_t dtype;                   /* of all three */
  uint8_t nbatch, general, biased;      /* biased: FL_BIAS_* or 0 */
  uint8_t padded;                  /* bits FL_PADDED_* (pitch.c) */
  uint8_t tf32;                    /* f32: operands may be rounded to TF32 */
  int64_t m, n, k;
  int64_t batch[FL_MAX_AXES - 2];
  fl_place at, bt, ct, bias;
  int64_t aoff, boff, coff, bias_off;    /* elements */
  int64_t as[2], bs[2];            /* strides of (m, k) and (k, n) */
  int64_t cpad;                    /* elements between two rows of C */
  int64_t abatch[FL_MAX_AXES - 2], bbatch[FL_MAX_AXES - 2], cbatch[FL_MAX_AXES - 2];
} fl_matmul;

/* Do dtype and sizes allow padded matrices? The caller looks at the batch dims. */
static inline int fl_plan_pads(const fl_matmul *m) {
  return (m->dtype == FLAME_F16 || m->dtype == FLAME_BF16) && m->m >= FL_PITCH_LEAST &&
         m->n >= FL_PITCH_LEAST && m->k >= FL_PITCH_LEAST;
}

/* dst[p . dstride + idx(p) * gstride] = (or +=) src(p) for all points p of the space in
** row-major order (the last wins; sums in that order in dst's dtype, half types in f32).
** dst already holds the base value. idx: 0-based i64 in range; or, with a fault site, 1-based
** as the script gave it, to be checked as INDEX does (kernel.h). */
typedef struct fl_scatter {
  uint8_t dtype, add, rank, flags; /* add: as in fl_attr; flags: FL_INDEX_* */
  int32_t fault;                   /* index in plan->fault; -1: the index is checked elsewhere */
  uint32_t limit;               /* index of the plan's scalar with the axis size to check against */
  int64_t size[FL_MAX_AXES];
  fl_operand dst, idx, src;        /* dst.gstride, strides over the space */
  int64_t position[FL_MAX_AXES];   /* strides of the position in the index tensor, which the
                                   ** message names */
  int64_t extent;                  /* index values are 0 .. extent - 1 */
  int64_t dst_numel;
} fl_scatter;

/* A copy of a node's call (a step such as a sort, tensor/call.h), with the places of its arrays. */
typedef struct fl_call_step {
  fl_call call;                    /* holds its callee; call.scalar is NULL */
  fl_place in[FL_CALL_INPUTS], out;
  int64_t in_byte[FL_CALL_INPUTS]; /* byte offset of the first element in its place */
  int32_t scalar;                  /* index of the call's first scalar among the plan's */
  int32_t fault;                   /* index in plan->fault; -1: it cannot report */
} fl_call_step;

typedef enum { FL_S_KERNEL, FL_S_MATMUL, FL_S_SCATTER, FL_S_COPY, FL_S_CALL } fl_step_kind;

typedef struct fl_step {
  uint8_t kind;
  uint8_t commits;              /* it writes a home (a handle's buffer), so it is not stopped
                                ** half-way */
  uint8_t looks;                   /* a step that looks for a NaN (scan.c): not part of the program,
                                   ** and not counted */
  int32_t joins;                   /* 1 + the index of the last collective that must have ended
                                   ** before this step begins, the last of its bucket (one call of
                                   ** NCCL); 0: no more than earlier steps wait for (lanes.c) */
  int32_t stage;                   /* steps of one stage, except collectives, could be in any
                                   ** order */
  int32_t count;                   /* KERNEL: number of instances of one structure in one launch */
  int32_t node;                /* the program's node that the step computes; -1: a kernel, which may
                               ** compute several */
  fl_kernel *kernel;               /* KERNEL: array of count */
  fl_matmul *matmul;
  fl_scatter *scatter;
  fl_call_step *call;
  fl_place from, to; int64_t bytes;   /* COPY of whole buffers */
  int64_t moved;                   /* bytes_moved of the step */
  void *prepared;                  /* the device's data (compiled kernel, algorithm) */
} fl_step;

/* An external value of a plan: a STORED node. home: index of the home (a buffer that the plan
** writes) that it is in; -1: none. */
typedef struct fl_ext { uint8_t dtype; int32_t home; } fl_ext;

/* A value that outlives the run. home >= 0: its bytes are those of that home buffer (a write). */
typedef struct fl_out {
  int32_t node; uint8_t dtype; int32_t home; int64_t bytes;
  int32_t first, step;           /* first and last step that write it; -1: none (no elements) */
  void *last;                    /* its address in the last run, used again if that is free */
  void *before;                  /* and one that it had before (engine/stay.c) */
  uint8_t moves;                 /* in how many runs neither was free */
} fl_out;

/* What a fault names: the program's node whose check of an index failed, or the call that reported
** it. Faults are numbered in the order of the steps that report them: of several in a run, the
** lowest counts. */
typedef struct fl_fault_site { int32_t node; } fl_fault_site;

/* Why the last run was not launched as graphs (tensor/why.def), and what that concerns. */
typedef struct fl_unreplayed {
  uint8_t reason;                /* FL_WHY_*; NONE: it was, or there was no run yet */
  int16_t op, was;               /* other_program: the first op that differs, and the one that the
                                 ** most similar earlier plan has there; -1: none */
  int32_t step;                  /* -1: none. Of a run that was: its first step outside of graphs */
  int32_t outside;               /* how many steps were outside of graphs */
  uint32_t site;                 /* line of the op, or of what the step computes; 0: unknown */
  int64_t runs, replays;         /* of the plan */
} fl_unreplayed;

enum { FL_PLAN_READS = 4 };
typedef struct fl_plan {
  uint64_t hash;
  uint8_t *key; size_t key_bytes;
  fl_layout **layout;      /* references to the layouts in the key: 2 per node, 1 per external */
  fl_layouts *layouts;           /* the table that these layouts are in */
  uint8_t *live; int32_t nnode;  /* per program node: is it kept after the run? A kept view keeps
                                 ** its base, which is in 'out' */
  uint8_t device, checks;        /* checks: a kernel checks indices (group/ahead.c) */
  int32_t next, nout, nscalar, nstep, step_cap, nfault;
  fl_ext *ext; fl_out *out; fl_step *step; fl_fault_site *fault;
  int64_t arena_bytes;          /* size of the intermediates at planned offsets, 256-byte aligned */
  int32_t widest;                /* the program's node with the largest intermediate; -1: none */
  int64_t total_bytes;           /* host memory of the plan, and of what a device prepared for it */
  int64_t serial;                /* number among all plans of the context */
  struct fl_plan *chain, *newer, *older;  /* next in the hash chain; neighbours in order of last
                                          ** use */
  void (*unprepare)(struct fl_plan *p);   /* set by the device that prepared it */
  void *replay;                  /* the device's data: what it keeps of runs, for repeating them */
  fl_unreplayed why;             /* of the last run on a GPU without a profile */
  int32_t nread, read[FL_PLAN_READS];     /* small results that were read after earlier runs */
  int32_t nscan, *scan;          /* FLAME_CHECK=nan (scan.c): for each array of floats that steps
                                 ** write, its step */
  int64_t scan_at;               /* arena byte scan_at + i: has array i of these a NaN? */
  uint8_t prepared;
  fl_mem *mem;
} fl_plan;

/* The window's nodes (recorded ops) on one device that some roots (values to compute) need, in
** recorded order; and the buffers that they use. 'live' tells which of them are kept; it is not
** part of the key: a cached plan that keeps more serves too. Owned by its maker; borrows the
** nodes. */
typedef struct fl_program {
  fl_mem *mem;
  uint8_t device;
  struct { fl_node **at; int64_t n, cap; } nodes;      /* PENDING, views included */
  struct { fl_node **at; int64_t n, cap; } ext;        /* STORED inputs, in order of first use */
  struct { int32_t *at; int64_t n, cap; } same;       /* per element i of ext: the first in ext with
                                                       ** the same first element in memory and the
                                                       ** same dtype */
  struct { int32_t *at; int64_t n, cap; } uses;        /* per element of ext: how often the nodes
                                                       ** name it */
  /* hash table of externals by their first element: open addressing, -1: none */
  struct { int32_t *at; int64_t n, cap; } bin;
  struct { fl_buffer **at; int64_t n, cap; } homes;    /* buffers that are written, in order of
                                                       ** first use */
  struct { fl_scalar *at; int64_t n, cap; } scalars;
  struct { uint8_t *at; int64_t n, cap; } live;        /* one per node */
  struct { uint8_t *at; int64_t n, cap; } key;         /* signature, compared bytewise */
  struct { int32_t *at; int64_t n, cap; } ends;      /* per node: the end of its part of the key */
  uint64_t hash;
} fl_program;

/* Collects what the roots (values to compute) need. roots NULL: the roots are all nodes of the
** window on 'device' that are kept. p is zeroed, or one that fl_program_empty left, whose memory is
** reused. After an error it is freed. */
flame_status fl_program_make(flame_context *c, int device, fl_node *const *roots, int nroots,
                             fl_program *p);
/* The index of a buffer among the program's homes (buffers that it writes); -1: it is none of
** them. */
int32_t fl_program_home(const fl_program *p, const fl_buffer *b);
void fl_program_empty(fl_program *p);
void fl_program_free(fl_program *p);
/* Makes the plan; no side effects. NULL with the error in c. */
fl_plan *fl_plan_make(flame_context *c, const fl_program *p);
void fl_plan_free(fl_plan *p);
/* Step i is the first to write some homes (buffers of handles); returns the last step that writes
** one of these, at least i. Between the two a run may not stop, since a home would hold a part of
** its new value. */
int32_t fl_plan_commit_end(const fl_plan *p, int32_t i);

typedef struct fl_plans {
  fl_mem *mem;
  fl_plan **bin;
  fl_plan *newest, *oldest;
  int64_t nbin, n, bytes, limit;
  int64_t calls, sweep_at;         /* plans that call user kernels, added since the last sweep;
                                   ** how many trigger a sweep */
} fl_plans;
int fl_plans_init(fl_plans *t, fl_mem *m);
void fl_plans_close(fl_plans *t);
/* The cached plan of this program that keeps the fewest values beyond 'live'; NULL: none.
** If there is none and four variants are cached, p->live becomes the union of their values and its
** own. */
fl_plan *fl_plans_find(fl_plans *t, fl_program *p);
/* A cached plan of this program, whatever values it keeps; NULL: none. */
const fl_plan *fl_plans_like(const fl_plans *t, const fl_program *p);
/* For a program without a plan: how it differs from the most similar of the latest plans of its
** device, which is the plan whose key has the longest beginning in common with the program's key.
** The reason is NONE if the device has no plan. */
fl_unreplayed fl_plans_differ(const fl_plans *t, const fl_program *p);
/* p, which is in the cache and had 'before' bytes, has grown: it was prepared, or runs were
** recorded. May drop old plans. */
void fl_plans_resized(fl_plans *t, const fl_plan *p, int64_t before);
void fl_plans_put(fl_plans *t, fl_plan *p);                /* takes ownership; may drop old plans */
int fl_plans_has(const fl_plans *t, const fl_plan *p, int64_t serial);   /* p may be gone */
/* Drops each plan with a callee (a user kernel) that only plans hold: no program can name it any
** more. */
void fl_plans_sweep(fl_plans *t);
void fl_plan_print(const fl_plan *p, struct fl_text *out);
/* Multiplications and additions of a product or a convolution; 0 for other steps. */
int64_t fl_step_flops(const fl_step *s);
#endif
