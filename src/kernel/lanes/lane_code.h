/*
** The code that lane.c makes and lane_run.c runs. Inside lane*.c only.
**
** A register is a vector (one slot of 4 or 8 bytes for each lane) or uniform (one cell of 8
** bytes for all lanes). Slots of 4 bytes hold BOOL (0, 1), the narrow integers (extended),
** I32, U32, F16, BF16, F32 (halves as the float they stand for); slots of 8 bytes I64, U64, F64.
**
** EVAL works on all lanes, masks or not: the functions never trap, and values of lanes that are
** away are not read. 'masked' marks results for variables that lanes which are away may read
** later: they are blended in. Memory, atomics and warps ask the mask.
*/
#ifndef FL_KERNEL_LANE_CODE_H
#define FL_KERNEL_LANE_CODE_H
#include <stddef.h>
#include "kernel/tree/builtins.h"
#include "kernel/lanes/lane.h"

/* Classes of arithmetic; slots of 4 bytes first. */
typedef enum {
  FL_LC_I32, FL_LC_U32, FL_LC_F32, FL_LC_I64, FL_LC_U64, FL_LC_F64, FL_LC_COUNT
} fl_lane_class;
void fl_lane_slot(void *out, int type, fl_kvalue v);   /* a value as a slot holds it */
int fl_lane_class_of(int type);                     /* BOOL and narrow integers: I32 */
static inline int fl_lane_wide(int cls) { return cls >= FL_LC_I64; }

/* y = f(a, b, c) for n lanes. 'uni': bit 0, 1, 2 say that a, b, c is one value for all (only
** functions of fl_lane_table.op and select take it). y may be an operand. */
typedef void (*fl_lane_fn)(void *y, const void *a, const void *b, const void *c, int64_t n,
                           int uni);

enum { FL_LANE_CASTS = FL_KT_COUNT };
typedef struct fl_lane_table {
  fl_lane_fn op[FL_KO_COUNT][FL_LC_COUNT];
  fl_lane_fn call[FL_KB_COUNT][FL_LC_COUNT];        /* class of the (first) operand */
  fl_lane_fn cast[FL_LC_COUNT][FL_LANE_CASTS];      /* to a type, kept in its slot */
  fl_lane_fn round[FL_KT_COUNT];                    /* F16, BF16 */
  fl_lane_fn select[2];                             /* by wide; a: BOOL */
  fl_lane_fn copy[2], splat[2];
  fl_lane_fn all, any;                              /* eager && and || */
  fl_lane_fn blend[2];                              /* y where the mask c is 0, else a */
  /* Memory to slots and back; elements of type t. 'at' counts elements. */
  void (*load[FL_KT_COUNT])(void *y, const void *p, int64_t n);
  void (*store[FL_KT_COUNT])(void *p, const void *y, int64_t n);
  void (*gather[FL_KT_COUNT])(void *y, const void *p, const int64_t *at, int64_t n);
  /* Lanes of the mask only, in lane order. */
  void (*scatter[FL_KT_COUNT])(void *p, const void *y, const int64_t *at, const int32_t *mask,
                               int64_t n);
  /* 1 when a[i] == a[0] + i in 64 bits, by class (integers). */
  int (*in_a_row[FL_LC_COUNT])(const void *a, int64_t n);
  void (*range)(const int64_t *a, int64_t n, int64_t *low, int64_t *high);
  /* Masks: 0 or -1 a lane; the result is the number of lanes that are on. and: lanes with c,
  ** and_not: lanes without, without: x & ~m. Values of c other than 0 and 1 do no harm. */
  int32_t (*mask_and)(int32_t *y, const int32_t *m, const int32_t *c, int64_t n);
  int32_t (*mask_and_not)(int32_t *y, const int32_t *m, const int32_t *c, int64_t n);
  int32_t (*mask_without)(int32_t *y, const int32_t *x, const int32_t *m, int64_t n);
  int32_t (*mask_test)(const int32_t *m, const int32_t *c, int64_t n);   /* lanes with c */
} fl_lane_table;
extern const fl_lane_table fl_lane_base;
#if defined(__x86_64__)
extern const fl_lane_table fl_lane_avx2;
#endif
const fl_lane_table *fl_lane_choose(void);          /* the best here; FLAME_ISA caps it */

/* Index of a fl_lane_fn in the table, so that code does not depend on the instruction set. */
#define FL_LANE_FN(member) ((int32_t)(offsetof(fl_lane_table, member) / sizeof(fl_lane_fn)))

typedef enum {
  FL_LI_EVAL,        /* dst = fn(a, b, c) */
  FL_LI_INDEX,       /* info x of integer register a of type 'type'; dst: the index as I64, where
                     ** it is needed */
  FL_LI_LOAD,        /* dst = var[a]; x: info, -1: a is uniform (I64); sub: facts/guess.h */
  FL_LI_STORE,       /* var[a] = b; b uniform only if a is */
  FL_LI_ATOMIC,      /* dst (-1: unused) = op sub on var[a] with b, c: vectors */
  FL_LI_JUMP,        /* x */
  FL_LI_LOOP,        /* x, backwards: stop flag and step limit are looked at */
  FL_LI_UNLESS,      /* to x where uniform a is 0; sub: where it is not 0 */
  FL_LI_IF,          /* masks[m] = current, with sub masks[m + 1] = current & ~a;
                     ** current &= a (sub 2: & ~a); none: x */
  FL_LI_AND,         /* current &= a; none: x */
  FL_LI_SAVE,        /* masks[m] = current */
  FL_LI_BACK,        /* current = masks[m]; none: x */
  FL_LI_REMOVE,      /* masks[m] loses the current lanes */
  FL_LI_RETURN,      /* the current lanes are done */
  FL_LI_BARRIER,     /* sub: fl_kbarrier; a: mask or -1 */
  FL_LI_SHUFFLE,     /* dst = b of another lane; sub; a mask, c lane, m width: vectors */
  FL_LI_VOTE,        /* dst; sub; a mask or -1, b BOOL */
  FL_LI_PRINTF,      /* x: statement in 'texts' */
  FL_LI_ASSERT,      /* a: BOOL; x: in 'texts' */
  FL_LI_BEGIN,       /* variable x (tracked as m) has no value; arrays too (m = -1) */
  FL_LI_SET,         /* variable tracked as m has one */
  FL_LI_CHECK,       /* variable x tracked as m must have one */
  FL_LI_DIVISOR,     /* a, of class 'type', must not be 0 */
  FL_LI_END, FL_LI_COUNT
} fl_lane_op;

typedef struct fl_lane_ins {
  uint8_t op, type, sub;
  uint8_t uni;             /* EVAL: operands that are uniform */
  uint8_t once;            /* the result is uniform: one lane is computed */
  uint8_t masked, wide;    /* see above; of dst */
  int32_t fn, dst, a, b, c, x, m;
  int32_t line, var;
} fl_lane_ins;

typedef struct fl_lane_reg {
  uint8_t uniform, wide, temporary;
  int32_t slot;            /* cell, or place among the vectors of this width */
} fl_lane_reg;

/* A cell or vector with a value at the begin of each block (params) or of all (constants). */
typedef struct fl_lane_init {
  int32_t reg, special;    /* fl_kspecial, or -1 */
  int32_t param;           /* or -1: constant */
  uint8_t type;
  int64_t offset;
  fl_kvalue value;
} fl_lane_init;

/* Where an array lives. */
typedef struct fl_lane_array {
  int32_t var, track;      /* track: byte offset unit of its init flags, -1 none */
  uint8_t kind, type, wide, dynamic;
  uint8_t touched;         /* POINTER: 1 read, 2 written, 4 not each thread its own element */
  int32_t param, leaf;     /* POINTER: argument and which of its memories */
  int64_t count, offset;   /* offset: SHARED bytes in the block's memory; ARRAY: slots per lane
                           ** before it, of its width; TABLE: cells of 'tables' */
} fl_lane_array;

struct fl_lane_code {
  fl_mem *mem;
  const fl_kfunc *func;
  const fl_lane_table *table;
  struct { fl_lane_ins *at; int64_t n, cap; } ins;
  struct { fl_lane_reg *at; int64_t n, cap; } regs;
  struct { fl_lane_init *at; int64_t n, cap; } inits;
  struct { const fl_kstmt **at; int64_t n, cap; } texts;
  struct { int32_t *at; int64_t n, cap; } operands;   /* of printf: reg numbers, see texts */
  struct { uint64_t *at; int64_t n, cap; } tables;
  fl_lane_array *arrays;   /* by variable; n_vars */
  int32_t n_vars, n_cells, n_narrow, n_wide, n_infos, n_masks, n_tracks;
  int64_t local4, local8;  /* slots per lane of ARRAYs */
  int64_t shared_bytes;
  uint8_t serial, fences;
};

/* ---- the shape of control flow: lane_shape.c ----------------------------------------- */

enum {
  FL_SHAPE_MASKED = 1,     /* IF, LOOP, BLOCK: lanes part here */
  FL_SHAPE_CONTINUE = 2,   /* LOOP: some lanes CONTINUE while others go on */
  FL_SHAPE_BLEND = 4,      /* ASSIGN and results: lanes that are away keep their value */
  FL_SHAPE_TRACK = 8       /* DECL: may be read before it is assigned */
};
typedef struct fl_lane_shape {
  uint8_t *flags;          /* by statement, numbered in pre-order */
  uint8_t *varying;        /* by variable */
  int32_t n_stmts, n_vars;
} fl_lane_shape;
int fl_lane_shape_make(fl_mem *m, const fl_kfunc *f, fl_lane_shape *s);   /* 0: no memory */
void fl_lane_shape_free(fl_mem *m, fl_lane_shape *s);
/* first[v]: number of the assignment that is like a DECL of variable v, or -1. 0: no memory. */
int fl_lane_scopes(fl_mem *m, const fl_kfunc *f, int32_t n_stmts, int32_t *first);
int fl_lane_varying(const fl_lane_shape *s, const fl_kfunc *f, const fl_kexpr *x);
/* 1 where the order of blocks shows in the result; -1: no memory. Fills 'touched'. */
int fl_lane_is_serial(fl_mem *m, const fl_kfunc *f, fl_lane_array *arrays);
#endif
