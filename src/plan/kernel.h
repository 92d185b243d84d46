/*
** The kernel: what the planner hands to a device. Plain data without pointers to nodes.
**
** Space. 'nkept' kept dims, then 'nred' reduced dims, sizes run-time data, collapsed jointly
** for all operands (a kernel has at most 8 dims in all; a MAP of one element may have 0).
**   MAP  nred == 0: each point of the space is computed alone.
**   ROW  for each kept index the reduced dims are one row of n = product of reduced sizes.
**        Several reductions with elementwise work between and after them. The full reduction
**        is a ROW with one row.
**   COL  as ROW in meaning, but the kept innermost dim is the one contiguous in memory (the
**        reduced index is outer); one round of reductions, then work at level 0; stores at level 1
**        are of values of pass 0 alone, and the planner makes them only for a GPU.
**   A ROW or COL has at least one reduction. A ROW may also sum over its rows, and a COL may join
**   the partial results of that (fl_store.across); the planner makes both for a GPU alone.
**   A ROW or COL of rows without elements (n == 0) has only reductions of values that read no
**   memory, and no stores at level 1; operands of level-0 values are in memory that exists.
**
** Values. SSA: value v is the result of instr[v]. level 1 values exist at each point, level 0
** values once per kept index (in a MAP all are level 1). 'pass' of a level-1 value: how many
** rounds of reductions must be done before it can be computed; a reduction of pass p consumes
** level-1 values of pass <= p and its result (level 0) has pass p + 1. 'passes' is the number
** of reduction rounds. An executor may recompute level-1 values in each round; loads never
** change during a kernel except by its own stores, which it must do after the last round, each
** point after all loads of that point. Level-0 stores are done at the end of their row. So an
** operand may be read and written in place, at the same point.
**
** Rounding. Each value has a 'dtype': its instruction computes it in the dtype's register type and
** rounds it to the dtype (docs/design.md 3). No contraction.
**
** Order of a float reduction (docs/design.md 1.8: a function of the node alone, never of fusion,
** threads or kernel): fixed by each device from (kind, n, dtype) only.
**   CPU  ROW: blocks of 1024 consecutive elements; in a block 16 lanes, element i to lane
**        i % 16 in ascending order, lanes combined 8+8, 4+4, 2+2, 1+1; block results combined
**        as a binary counter (equal-size partners first, remaining ones from the last to the
**        first). COL: chunks of 256 reduced indices in ascending order; chunk results are combined
**        like block results.
**   CUDA see cuda/text/text.h.
** Half types accumulate in f32 and round once. Integers and bool: any order.
*/
#ifndef FL_PLAN_KERNEL_H
#define FL_PLAN_KERNEL_H
#include "tensor/dtype.h"
#include "tensor/layout.h"
#include "tensor/ops.h"

typedef enum { FL_K_MAP, FL_K_ROW, FL_K_COL } fl_kernel_kind;

/* Where the bytes are: external buffer i, kept result i (both bound at run time), or the arena (the
** memory of intermediate values). */
typedef enum { FL_AT_EXT, FL_AT_OUT, FL_AT_ARENA } fl_where;
typedef struct fl_place {
  uint8_t where;
  int32_t index;            /* EXT, OUT; ARENA: the size of the value there, in 256 bytes */
  int64_t byte;             /* ARENA: byte offset */
} fl_place;

typedef struct fl_operand {
  fl_place place;
  uint8_t dtype;
  uint8_t reads, writes;
  uint8_t aligned16;        /* 1: the first element and row starts are surely 16-byte aligned */
  int64_t offset;           /* of the first element, in elements from 'place'; never negative */
  int64_t stride[FL_MAX_AXES];  /* elements per step of each space dim */
  int64_t gstride;          /* GATHER: elements per unit of the index value */
} fl_operand;

typedef enum {
  FL_I_LOAD,     /* operand arg at the point */
  FL_I_IOTA,     /* i64: operand arg's offset + sum of coordinate * stride; reads no memory */
  FL_I_SCALAR,   /* scalar slot arg of the kernel, converted to dtype's register, NOT
                 ** rounded to dtype */
  FL_I_OP,       /* op (unary, binary, ternary of ops.def) of a, b, c; operands are of dtype 'from'
                    ('where': a is bool, b and c of 'from') */
  FL_I_CAST,     /* a of dtype 'from' to dtype: fl_cast rules */
  FL_I_INDEX,    /* a: 1-based i64 index; b: i64 axis size; c: i64 position for the message.
                    gives the 0-based index; out of range: reports fault 'arg' (value, position),
                    gives 0. op: FL_INDEX_* flags */
  FL_I_GATHER,   /* operand arg at the point plus a * gstride; a: i64, a 0-based index in range */
  FL_I_RANDOM,   /* op: uniform, normal, randint. a: i64 linear index; b, c: the two scalars;
                    arg: first of two i64 scalar slots: counter base, seed */
  FL_I_REDUCE    /* op over the row of a (level 1, dtype 'from'); argmax/argmin: 1-based i64
                    position in the row, row-major over the reduced dims */
} fl_icode;

typedef struct fl_instr {
  uint8_t code, dtype, from, level, pass;
  uint8_t zero;                    /* fills the padding, so that equal structs have equal bytes */
  uint16_t op, a, b, c, arg;
} fl_instr;

/* across: ROW on a GPU: stores not the value of each point but, for each position in the row, its
** sum over the rows, as partial results in the register type of a sum: fl_row_parts of them for
** each chunk of rows (fl_column_chunk), each the size of a row. The operand's strides are those of
** the first. */
typedef struct fl_store { uint16_t value, operand, across; } fl_store;

/* The order of a sum of columns on a GPU (cuda/text/text.h): chunks of fl_column_chunk reduced
** indices, each of FL_COLUMN_LANES lanes. n: number of reduced indices; kept: of sums. If n allows
** it there are enough chunks for all multiprocessors, but not many more, since their results must
** be combined; where a ROW may have a warp for each lane (kept at most FL_WARP_ROW), up to twice as
** many. The chunk depends only on the numbers of reduced and kept points, which fusion does not
** change. */
enum { FL_COLUMN_LANES = 16 };
int64_t fl_column_chunk(int64_t n, int64_t kept);

/* On a GPU: the longest row that a single warp computes. For longer rows the threads of a block
** wait for each other at a barrier at the end of each round of reductions. */
enum { FL_WARP_ROW = 1024 };
/* How many threads of a GPU compute a row of n elements that is not divided into chunks. */
int fl_row_lanes(int64_t n);
/* Partial results of a chunk of rows of n elements (fl_store.across): a block has one lane of the
** chunk, or with a warp per row four, whose results it joins. */
static inline int fl_row_parts(int64_t n) {
  return n <= FL_WARP_ROW ? FL_COLUMN_LANES / 4 : FL_COLUMN_LANES;
}
int64_t fl_row_partials(int64_t rows, int64_t n);       /* of all chunks */

/* Operands that are read come first, at most FL_MAX_READS of them. FL_MAX_SWEPT: a limit for the
** number of instructions times that of the sweeps over a row after the first, each of which may
** compute all instructions again. */
enum { FL_MAX_INSTR = 1280, FL_MAX_OPERANDS = 160, FL_MAX_READS = 96, FL_MAX_SCALARS = 256,
       FL_MAX_SWEPT = 1280 };

typedef struct fl_kernel {
  uint8_t kind, nkept, nred, passes;
  uint8_t partial;        /* COL: its reduced indices are the partial results that a ROW stored
                          ** (fl_store.across), so many for each chunk; 0: they are not */
  uint8_t guard;          /* on a GPU: the kernel stores nothing if a check of the run has failed */
  int64_t size[FL_MAX_AXES];       /* kept dims, then reduced dims */
  int64_t points, rows, n;         /* products of all, of the kept, and of the reduced sizes */
  uint16_t ninstr, noperand, nstore, nscalar;
  fl_instr *instr;
  fl_operand *operand;             /* LOAD/GATHER/IOTA maps and stores' targets */
  fl_store *store;
  uint32_t *scalar;                /* per scalar slot: index of the scalar in the plan */
  uint32_t room;                   /* bytes of shared memory that a block may have on the GPU for
                                   ** which it was prepared; 0: what every GPU has */
  /* bytes read and written, as the plan counts them (bytes_moved of docs/contract.md 6) */
  int64_t bytes;
  uint64_t key;        /* hash of the structure, which leaves out exact sizes and strides, offsets,
                       ** places and scalars */
} fl_kernel;

/* Compares structure only, as keys and kernel texts do: kinds, instructions, stores, the dtype,
** access and alignment of operands, on which dims each operand's stride is 0, 1 or another, number
** of dims, size class of rows. */
int fl_kernel_same_structure(const fl_kernel *a, const fl_kernel *b);
uint64_t fl_kernel_key(const fl_kernel *k);
/* One line per instruction, for FLAME_DEBUG and the golden files. */
struct fl_text;
void fl_kernel_print(const fl_kernel *k, struct fl_text *out);
/* "mul+exp+sum": the ops in the kernel, in order, each once; what is not an op (a cast, an arange)
** is named only if there is nothing else. Depends only on the structure. */
void fl_kernel_name(const fl_kernel *k, char *out, size_t size);
#endif
