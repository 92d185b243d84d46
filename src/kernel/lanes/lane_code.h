/*
** The code that lane.c makes and lane_run.c runs. Inside lane*.c only.
**
** A register is a vector (one slot of 4 or 8 bytes for each lane) or uniform (one cell of 8
** bytes for all lanes). Slots of 4 bytes hold BOOL (0, 1), the narrow integers (extended),
** I32, U32, F16, BF16, F32 (halves as the float they stand for); slots of 8 bytes I64, U64, F64.
**
** EVAL computes all lanes, whatever the mask: the functions never trap, and values of inactive
** lanes are not read. 'masked' marks results for variables that inactive lanes may read later:
** these are blended under the mask. Memory accesses, atomics and warp operations use the mask.
*/
#ifndef FL_KERNEL_LANE_CODE_H
#define FL_KERNEL_LANE_CODE_H
#include <stddef.h>
#include "kernel/tree/builtins.h"
#include "kernel/lanes/lane.h"

/* For functions that run once per launch or for few values: they are compiled for size, in files
** that are compiled for speed. */
#define FL_LANE_RARE __attribute__((cold, noinline))

/* Classes of arithmetic; slots of 4 bytes first. */
typedef enum {
  FL_LC_I32, FL_LC_U32, FL_LC_F32, FL_LC_I64, FL_LC_U64, FL_LC_F64, FL_LC_COUNT
} fl_lane_class;
void fl_lane_slot(void *out, int type, fl_kvalue v);   /* writes a value in the format of a slot */
int fl_lane_class_of(int type);                 /* class of a type; BOOL and narrow integers: I32 */
static inline int fl_lane_wide(int cls) { return cls >= FL_LC_I64; }

/* y = f(a, b, c) for n lanes. 'uni': bits 0, 1, 2 mark a, b, c as one value for all lanes; of
** fl_lane_table, op (of two operands), select, mul_add, all and any support that. If all operands
** are uniform, n is 1. y may be an operand. */
typedef void (*fl_lane_fn)(void *y, const void *a, const void *b, const void *c, int64_t n,
                           int uni);

/* Bounds of stamps (lane_check.c). Stamps of this launch are at least 'from', those of this block
** at least 'block', those after its last barrier at least 'epoch'. */
typedef struct fl_lane_order { int64_t from, block, epoch; } fl_lane_order;
enum { FL_LANE_LANES = 1023 };                     /* the bits of a stamp that tell the lane */

/* A vector of f32 that is read where it lies in memory: with on = 1, row j of plane k of the block
** has the elements from base + j step + k plane on (in bytes); with on = 2, the element there in
** all lanes; with on = 0 the vector is in its register. */
typedef struct fl_lane_rows { const char *base; int64_t step, plane; int32_t on; } fl_lane_rows;

enum { FL_LANE_CASTS = FL_KT_COUNT };
typedef struct fl_lane_table {
  fl_lane_fn op[FL_KO_COUNT][FL_LC_COUNT];
  fl_lane_fn call[FL_KB_COUNT][FL_LC_COUNT];        /* by class of the (first) operand */
  fl_lane_fn cast[FL_LC_COUNT][FL_LANE_CASTS];      /* casts to a type, in the format of its slot */
  fl_lane_fn round[FL_KT_COUNT];                    /* rounds floats to F16, BF16 */
  fl_lane_fn select[2];                             /* by wide; a: BOOL */
  fl_lane_fn copy[2], splat[2];                     /* by wide; splat: a is one value */
  fl_lane_fn all, any;                              /* eager && and || */
  fl_lane_fn mul_add[2];                            /* f32: c + a b and c - a b; product and sum are
                                                    ** rounded */
  void (*mul_add_rows)(float *y, const float *c, const fl_lane_rows *a, const fl_lane_rows *b,
                       int64_t rows, int64_t w);    /* c + a b of one plane; b: on 1 */
  void (*by_rows[2])(float *y, const fl_lane_rows *a, const fl_lane_rows *b, int64_t rows,
                     int64_t w);                    /* a + b, a - b of rows (on = 1), one plane */
  fl_lane_fn blend[2];                              /* y where the mask c is 0, a elsewhere */
  /* Copies memory to slots and back, for elements of type t. 'at' counts elements. */
  void (*load[FL_KT_COUNT])(void *y, const void *p, int64_t n);
  void (*store[FL_KT_COUNT])(void *p, const void *y, int64_t n);
  void (*gather[FL_KT_COUNT])(void *y, const void *p, const int64_t *at, int64_t n);
  /* Stores the lanes of the mask only, in lane order. */
  void (*scatter[FL_KT_COUNT])(void *p, const void *y, const int64_t *at, const int32_t *mask,
                               int64_t n);
  /* 1 when a[i] == a[0] + i in 64 bits, by class (integers). */
  int (*in_a_row[FL_LC_COUNT])(const void *a, int64_t n);
  /* y[i] = first + i * step; by 'wide'. */
  void (*ramp[2])(void *y, int64_t n, int64_t first, int64_t step);
  /* load_rows: for each row of w lanes, the w elements from at[row] on. load_flat: the element
  ** at[row] in all w lanes. Indexed by 'wide'. */
  void (*load_rows[2])(void *y, const void *p, const int64_t *at, int64_t rows, int64_t w);
  void (*load_flat[2])(void *y, const void *p, const int64_t *at, int64_t rows, int64_t w);
  /* The least and the greatest element. */
  void (*range)(const int64_t *a, int64_t n, int64_t *low, int64_t *high);
  /* Masks hold 0 or -1 per lane; the result is the number of active lanes. and: lanes of m where c
  ** is true; and_not: where it is false; without: x & ~m. Values of c other than 0 and 1 do no
  ** harm. */
  int32_t (*mask_and)(int32_t *y, const int32_t *m, const int32_t *c, int64_t n);
  int32_t (*mask_and_not)(int32_t *y, const int32_t *m, const int32_t *c, int64_t n);
  int32_t (*mask_without)(int32_t *y, const int32_t *x, const int32_t *m, int64_t n);
  int32_t (*mask_test)(const int32_t *m, const int32_t *c, int64_t n);   /* lanes with c */
  /* in_order: may the lanes from 'lane' on access n consecutive elements without a race with the
  ** recorded accesses 'old'? stamp, stamp_read: record new ones (lane_check.c). */
  int (*in_order)(const int64_t *old, int64_t n, const fl_lane_order *o, int64_t lane);
  void (*stamp)(int64_t *to, int64_t n, int64_t first);
  void (*stamp_read)(int64_t *read, int64_t *reader, int64_t n, int64_t first, int64_t block);
} fl_lane_table;
extern const fl_lane_table fl_lane_base;
#if defined(__x86_64__)
extern const fl_lane_table fl_lane_avx2;
#endif
const fl_lane_table *fl_lane_choose(void);          /* the best table for this machine; FLAME_ISA
                                                    ** sets an upper limit */

/* Index of a fl_lane_fn in the table, so that the code is the same for all instruction sets. */
#define FL_LANE_FN(member) ((int32_t)(offsetof(fl_lane_table, member) / sizeof(fl_lane_fn)))

typedef enum {
  FL_LI_EVAL,        /* dst = fn(a, b, c) */
  FL_LI_MULADD,      /* EVAL of a product of f32 that the next instruction, an EVAL too, adds to its
                     ** other operand c (sub bit 0: subtracts from c; bit 1: c is b, else a). Both
                     ** are done in one step, with two roundings, and the next instruction is
                     ** skipped; or only the product is computed. sub bit 2: the instruction after
                     ** these stores the result, and nothing else reads it */
  FL_LI_EVAL_STORE,  /* EVAL whose result the next instruction stores, and nothing else reads it: it
                     ** may be written to memory at once */
  FL_LI_INDEX,       /* computes fl_lane_info x (what is known of an index over all lanes) of the
                     ** index in register a, of class 'type' (fl_lane_class); dst: what is needed of
                     ** the index, as I64 (see fl_lane_info, lane_state.h) */
  FL_LI_LOAD,        /* dst = var[a]; x: its fl_lane_info, -1: a is uniform (I64); sub: it guesses
                     ** what an atomicCAS finds (facts/guess.h); fn: dst need not be copied: 1: dst
                     ** may point to the memory, 2: also to rows of it (fl_lane_rows), 3: to rows,
                     ** but not of one element each; -1: it is copied */
  FL_LI_STORE,       /* var[a] = b; x: as of LOAD; b uniform only if a is */
  FL_LI_ATOMIC,      /* dst (-1: unused) = atomic 'sub' on var[a] with the vectors b, c */
  FL_LI_JUMP,        /* to x */
  FL_LI_LOOP,        /* jumps back to x, after a test of the stop flag and the step limit */
  FL_LI_UNLESS,      /* jumps to x if the uniform a is 0; sub: if it is not 0 */
  FL_LI_IF,          /* masks[m] = current; sub 1: also masks[m + 1] = current & ~a; current &= a
                     ** (sub 2: & ~a); if no lane is left, jumps to x */
  FL_LI_AND,         /* current &= a; if no lane is left, jumps to x */
  FL_LI_SAVE,        /* masks[m] = current */
  FL_LI_BACK,        /* current = masks[m]; if no lane is in it, jumps to x */
  FL_LI_REMOVE,      /* removes the current lanes from masks[m] */
  FL_LI_RETURN,      /* the current lanes have returned; jumps to x */
  FL_LI_BARRIER,     /* sub: fl_kbarrier; a: mask or -1 */
  FL_LI_GRID,        /* a barrier of the block, which then waits for the other blocks of the grid */
  FL_LI_SHUFFLE,   /* dst = b of another lane; sub: fl_kshuffle; a mask, c lane, m width: vectors */
  FL_LI_VOTE,        /* dst = result; sub: fl_kvote; a mask or -1, b BOOL */
  FL_LI_PRINTF,      /* x: statement in 'texts'; a: -1 - the number of its operands, which begin at
                     ** m in 'operands' */
  FL_LI_ASSERT,      /* a: BOOL; b: -1, or the byte whose alignment a tests; x: statement in
                     ** 'texts' */
  FL_LI_BEGIN,       /* with FL_LANE_UNINIT: 'var' has no value yet; m: number of its flags, -1: it
                     ** is an array */
  FL_LI_SET,         /* with FL_LANE_UNINIT: the variable whose flags have number m has a value */
  FL_LI_CHECK,       /* with FL_LANE_UNINIT: faults if 'var', whose flags have number m, has no
                     ** value */
  FL_LI_DIVISOR,     /* with FL_LANE_BOUNDS: faults if a, of class 'type', is 0 */
  FL_LI_END, FL_LI_COUNT
} fl_lane_op;

typedef struct fl_lane_ins {
  uint8_t op, type, sub;   /* type, sub: see fl_lane_op; EVAL with 'linear' or 'hoist': the class of
                           ** the operands, and of a cast the fl_ktype of the result */
  uint8_t uni;             /* EVAL: which operands are uniform */
  uint8_t once;            /* the result (of STORE: b) is uniform: only one lane is computed */
  uint8_t masked, wide;    /* masked: see above; wide: dst has slots of 8 bytes */
  uint8_t lazy;            /* bits 0 to 3: a, b, c, m (of PRINTF bit 0: any operand) may be linear
                           ** values that are not written to registers yet */
  uint8_t linear;          /* EVAL: the operator FL_KO_… or FL_LANE_COPY… by which a linear result
                           ** is computed from linear operands (lane_linear.c); 0: none */
  uint8_t hoist;           /* fl_lane_hoist */
  int32_t fn;              /* EVAL: FL_LANE_FN; LOAD: see FL_LI_LOAD */
  int32_t dst, a, b, c, x, m;      /* see fl_lane_op; -1: none */
  int32_t line, var;
} fl_lane_ins;

enum { FL_LANE_LAZY_RESULT = 16,                   /* dst may be linear */
       FL_LANE_LAZY_ROWS = 32 };      /* EVAL that may use by_rows: a and b may be rows of memory */

/* The number of operand positions of instruction p (see fl_lane_operand); each may be a register or
** -1. */
static inline int fl_lane_n_operands(const fl_lane_ins *p) {
  return p->op == FL_LI_PRINTF ? -1 - p->a : 4;
}

/* How an EVAL, or the INDEX of its result, may be done for all blocks of a launch (lane_hoist.c):
** EACH: not at all; ONCE: its value is the same in all; FORM: as a linear function of the block's
** position; TEST: as a comparison of such a function with 0. */
typedef enum { FL_LANE_EACH, FL_LANE_ONCE, FL_LANE_FORM, FL_LANE_TEST } fl_lane_hoist;

/* Kinds of linear results besides the operators of integers. */
enum { FL_LANE_COPY = FL_KO_COUNT, FL_LANE_CAST, FL_LANE_SELECT, FL_LANE_LEAST, FL_LANE_MOST };

typedef struct fl_lane_reg {
  uint8_t uniform, wide, temporary;       /* temporary: not a variable, and not uniform */
  uint8_t fixed;           /* uniform, and the same value in all blocks of a launch */
  uint8_t kept;            /* a linear function of the block's position: set before the block
                           ** runs */
  int32_t slot;            /* index of its cell, or its index among the vectors of its width */
} fl_lane_reg;

/* A register that is given a value when the launch starts, and again when each block starts if it
** is a parameter with 'changes' or a component of blockIdx. */
typedef struct fl_lane_init {
  int32_t reg, special;    /* fl_kspecial, or -1 */
  int32_t param;           /* or -1: constant */
  uint8_t type;
  uint8_t changes;         /* a parameter that the kernel assigns to, or whose register is a
                           ** vector */
  int64_t offset;          /* in the parameter, in bytes */
  fl_kvalue value;         /* of a constant */
} fl_lane_init;

/* What an access does. SAME: it writes the value that is already there. GUESS: it only guesses what
** an atomicCAS will find (facts/guess.h). */
enum { FL_LANE_READ = 1, FL_LANE_WRITE = 2, FL_LANE_ATOMIC = 4, FL_LANE_SAME = 8,
       FL_LANE_GUESS = 16 };

/* Where an array lives. */
typedef struct fl_lane_array {
  int32_t var;
  uint8_t kind, type, wide, dynamic;
  uint8_t touched;         /* POINTER, without atomics: bits 1: read, 2: written, 4: accessed at
                           ** other elements than blockIdx.x * blockDim.x + threadIdx.x */
  uint8_t uses;            /* bits: what the code does to the array: FL_LANE_READ, … */
  int32_t param, leaf;     /* POINTER: the argument, and which of its pointers */
  int64_t count, offset;   /* offset: of SHARED the bytes before it in the block's memory; of ARRAY
                           ** the slots per lane before it, of its width; of TABLE the cells before
                           ** it in 'tables' */
} fl_lane_array;

struct fl_lane_code {
  fl_mem *mem;
  const fl_kfunc *func;
  const fl_lane_table *table;
  struct { fl_lane_ins *at; int64_t n, cap; } ins;
  struct { fl_lane_reg *at; int64_t n, cap; } regs;
  struct { fl_lane_init *at; int64_t n, cap; } inits;
  struct { const fl_kstmt **at; int64_t n, cap; } texts;
  struct { int32_t *at; int64_t n, cap; } operands;   /* operands of printf: register numbers, see
                                                      ** 'texts' */
  struct { uint64_t *at; int64_t n, cap; } tables;
  fl_lane_array *arrays;   /* by variable; n_vars */
  int32_t n_vars;
  int32_t n_cells, n_narrow, n_wide;     /* cells of uniform registers; slots for vectors of 4, and
                                         ** of 8 bytes per lane */
  int32_t n_infos, n_masks, n_tracks;    /* fl_lane_infos; masks; variables with flags that tell
                                         ** whether they are set */
  int64_t local4, local8;  /* slots per lane of ARRAYs */
  int64_t shared_bytes;
  uint8_t serial, fences;  /* fl_lane_is_serial; it has a fence (__threadfence) */
};

/* The register that operand i is; -1: none. */
static inline int32_t fl_lane_operand(const fl_lane_code *c, const fl_lane_ins *p, int i) {
  if (p->op == FL_LI_PRINTF) return c->operands.at[p->m + i];
  return i == 0 ? p->a : i == 1 ? p->b : i == 2 ? p->c : p->op == FL_LI_SHUFFLE ? p->m : -1;
}

/* ---- the shape of control flow: lane_shape.c, lane_scope.c --------------------------- */

enum {
  FL_SHAPE_MASKED = 1,     /* IF, LOOP, BLOCK: lanes diverge here */
  FL_SHAPE_CONTINUE = 2,   /* LOOP: some lanes CONTINUE while others do not */
  FL_SHAPE_BLEND = 4,      /* ASSIGN and results: inactive lanes keep their value */
  FL_SHAPE_TRACK = 8       /* DECL: may be read before it is assigned */
};
typedef struct fl_lane_shape {
  uint8_t *flags;          /* by statement, numbered in pre-order */
  uint8_t *varying;        /* by variable: may differ between lanes */
  int32_t n_stmts, n_vars;
} fl_lane_shape;
int fl_lane_shape_make(fl_mem *m, const fl_kfunc *f, fl_lane_shape *s);   /* 0: no memory */
void fl_lane_shape_free(fl_mem *m, fl_lane_shape *s);
/* first[v]: number (in pre-order) of the assignment that acts as DECL of variable v, or -1. 0: no
** memory. */
int fl_lane_scopes(fl_mem *m, const fl_kfunc *f, int32_t n_stmts, int32_t *first);
/* May x differ between lanes? */
int fl_lane_varying(const fl_lane_shape *s, const fl_kfunc *f, const fl_kexpr *x);
/* Passes over finished code: lane_fuse.c, lane_linear.c, lane_hoist.c. */
int fl_lane_fuse(fl_lane_code *c);                          /* 0: no memory */
int fl_lane_find_linear(fl_lane_code *c);                   /* 0: no memory */
int fl_lane_find_hoisted(fl_lane_code *c);                  /* 0: no memory */
/* What a linear result comes from: an operator, FL_LANE_COPY and so on; 0: nothing. *cls: the class
** of its operands; *to: the type of a cast. */
int fl_lane_linear_kind(const fl_lane_ins *p, int *cls, int *to);
/* 1: the result depends on the order of blocks; -1: no memory. Fills 'touched' of the arrays. */
int fl_lane_is_serial(fl_mem *m, const fl_kfunc *f, fl_lane_array *arrays);
#endif
