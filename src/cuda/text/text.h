/*
** CUDA C++ text of kernel steps (plan/kernel.h), and what a launch of it needs. Pure: plan data
** in, strings and bytes out; no driver is called. Compiled by NVRTC without headers and with
** -arch=sm_<the GPU's> -fmad=false -default-device (IEEE division and square root), entry names
** extern "C".
**
** How the driver uses it, for a step of 'count' instances (kernels of one structure):
**   group    instances whose fl_text_key bytes are equal; one launch per group
**   compile  fl_text_prelude, then fl_text_named(k, multi, …) or fl_text_kernel of kernels,
**            in one NVRTC program; on disk a cubin is known by the digest of its text. multi: 1 if
**            the group has more than one instance
**   once     fl_text_geometry of each instance: grid, block, scratch, counters
**   run      single: fl_text_params, launch entry 'name' with ONE by-value parameter of
**            geometry.words * 8 bytes (at most 32760, mostly < 500)
**            multi: see fl_text_multi
** An instance with grid 0 has nothing to do; a launch of grid 0 must be skipped.
**
** Memory. scratch: uninitialised, 256-byte aligned, free again after the launch. counters:
** uint32 words that are 0 before a launch and 0 again after it (zero them once). fault: one
** fl_text_fault; of several faults of a run it keeps the one with the lowest (site, position).
**
** What the text depends on (the key): kind, number of dims, instructions (without scalar slots and
** fault sites), operand dtypes, on which dims strides are 0, whether the innermost stride is 0, 1
** or another, and whether indices need 64 bits; of a row's length its class, the number of lanes
** and of their vectors, and whether these are all whole. Other alignment and divisibility are not
** in the key: the text has both paths, and a word of the parameters chooses. fl_text_key has a few
** more decisions (text_form.h).
**
** Order of float reductions, a function of n (and of whether there is a kept dim); T lanes work on
** a row: lane t takes elements (j * T + t) * 4 + q, q = 0..3, j ascending, into accumulators q,
** combined as (0 + 1) + (2 + 3); then lanes in halves: lane t with t ^ 1, t ^ 2, t ^ 4 … inside a
** warp, warps likewise; every accumulator starts at the op's start value:
**   ROW  n <= 4: T = 1; <= 16: 4; <= 64: 16; <= 1024: 32; <= 4096: 256; <= 8192: 512;
**        <= 32768: 1024; more, and reductions of everything (no kept dim): chunks of 32768
**        with T = 512, and the m chunk results are combined as a row of m elements, T = 512.
**   COL  chunks of c reduced indices, c a power of two >= 256 that n and the kept points decide
**        (fl_column_chunk); in a chunk 16 lanes, index i to lane i % 16 ascending,
**        lanes in halves (8, 4, 2, 1 apart); the m chunk results likewise: 16 lanes, then halves.
**        A ROW that sums over its rows (fl_store.across) has the lanes of these chunks.
** NaN wins in max and min; positions: the first of ties.
**
** The texts of tensor/math.h and of kernels/prelude.cu and kernels/steps.cu are those of
** cuda/text/embedded.h.
*/
#ifndef FL_CUDA_TEXT_H
#define FL_CUDA_TEXT_H
#include "base/text.h"
#include "plan/plan.h"

enum { FL_TEXT_VERSION = 2, FL_TEXT_MAX_WORDS = 4095 };

/* In device memory, all bits set before a run; report() of kernels/prelude.cu defines the words. */
typedef struct fl_text_fault { uint64_t word[8]; } fl_text_fault;

/* Device addresses that kernels need in addition to their operands (NULL if the geometry needs
** none). */
typedef struct fl_text_aux { void *fault, *scratch, *counter; } fl_text_aux;

typedef struct fl_text_geometry {
  uint32_t grid, block;           /* blocks (x only), threads per block */
  uint32_t shared;                /* bytes of dynamic shared memory */
  int32_t words;                  /* parameter: words of 8 bytes */
  uint8_t faults;                 /* 1: it reports faults to aux.fault (fl_kernel.guard reads that
                                  ** as well) */
  int64_t scratch, counters;      /* bytes; number of uint32 */
} fl_text_geometry;

/* Appends the bytes of the kernel's key. Equal bytes: the same text (for equal 'multi' and
** name). */
void fl_text_key(const fl_kernel *k, int multi, fl_text *out);
/* Common text before kernels: math.h, storage conversions. Always the same. */
void fl_text_prelude(fl_text *out);
/* A macro of a kernel's text: the number of blocks that a multiprocessor should hold, at most the
** text's default. Fewer leave each thread more registers. */
#define FL_TEXT_BLOCKS "MIN_BLOCKS"
/* Appends the kernel, with entry 'name'. NOT_SUPPORTED without a message if it can not be
** written. */
flame_status fl_text_kernel(const fl_kernel *k, const char *name, int multi, fl_text *out);
/* Appends the kernel with a generated name, which is put into 'name': "fl_mul_exp_sum_1a2b3c4d",
** the ops and a hash of the text, so that equal texts have one name. */
enum { FL_TEXT_NAME = 64 };
flame_status fl_text_named(const fl_kernel *k, int multi, char name[FL_TEXT_NAME], fl_text *out);
void fl_text_geometry_of(const fl_kernel *k, int multi, fl_text_geometry *g);

/* Writes the parameter of a single launch, fl_text_geometry.words words, to 'word'. address[i]:
** device address of operand i's place (the operand's own offset is added here). scalar: the scalars
** of the plan. */
void fl_text_params(const fl_kernel *k, void *const *address, const fl_scalar *scalar,
                    const fl_text_aux *aux, int64_t *word);
/* Lists the words that hold scalars (numbers of the script, other ones in each run), each with the
** scalar's index in the plan; returns how many. out: NULL to count. */
typedef struct fl_text_scalar { uint16_t word; uint32_t scalar; } fl_text_scalar;
int fl_text_scalars(const fl_kernel *k, fl_text_scalar *out);

/* A launch of several instances (multi). Device memory holds, for a group of n instances:
**   table   n * words * 8 bytes: instance i's words by fl_text_instance (no scalar in it but
**           its index in the plan, so it changes only when an address does)
**   chunk   8 bytes per block: fl_text_chunks; static for given sizes
**   scalar  the plan's scalars as they are, uploaded each run
** Launch with grid = sum of the instances' grids and one by-value fl_text_multi. Scratch and
** counters of the instances are disjoint: give each its own part (scratch parts 256-aligned). */
typedef struct fl_text_multi { const void *table, *chunk, *scalar; } fl_text_multi;
void fl_text_instance(const fl_kernel *k, void *const *address, const fl_text_aux *aux,
                      int64_t *word);
/* Writes the chunk entries (instance, block) of an instance at 'at'; returns how many. */
int64_t fl_text_chunks(const fl_kernel *k, int32_t instance, int32_t (*at)[2]);

/* ---- steps with hand-written text: kernels/steps.cu ------------------------------------ */
/* Launches of a step in order, all with the same by-value parameter. */
enum { FL_TEXT_MAX_CALLS = 8, FL_TEXT_STEP_BYTES = 1024 };
typedef struct fl_text_call { const char *entry; uint32_t grid, block; } fl_text_call;
typedef struct fl_text_step {
  int32_t ncall;                              /* 0: nothing to do */
  fl_text_call call[FL_TEXT_MAX_CALLS];
  int64_t scratch;                            /* bytes needed, uninitialised, 256-aligned */
  size_t bytes;                               /* of param */
  int64_t param[FL_TEXT_STEP_BYTES / 8];
} fl_text_step;
/* Describes a scatter. dst, idx, src: addresses of the operands' places. scratch may be NULL, to
** learn its size; then addresses may be NULL too. */
void fl_text_scatter(const fl_scatter *s, void *dst, void *idx, void *src, void *scratch,
                     fl_text_step *out);
/* Describes a matrix product of any strides and dtype (except bool); sums in f32 for f32 and
** halves, in f64, or in wrapping integers. a, b, c, bias: addresses of the places. */
void fl_text_matmul(const fl_matmul *m, void *a, void *b, void *c, void *bias, fl_text_step *out);
/* Appends the source of the hand-written entries: prelude and steps.cu. */
void fl_text_steps(fl_text *out);
#endif
