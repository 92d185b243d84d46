/*
** Kernels of plans on the CPU. Parts:
**
**   lean.c     removes instructions that have no effect
**   lower.c    makes a program: sections of operations on registers (lower_mode.c: tiles)
**   fuse.c     finds operations that are done in one loop
**   regs.c     decides where registers are, and when a store may be written directly
**   exec.c     runs a section on one tile
**   units.c    runs a program's units on one worker
**
** Values. Every instruction of a kernel becomes a register of one of four kinds:
**   UNI   one element for the whole kernel, computed when the run begins
**   ROW   one element for each kept index (level 0)
**   LINE  one element for each reduced index. WHOLE: a FULL register computed once per unit,
**         since all its tiles have the same values; COL: computed once per chunk (level 2);
**         LONG: FULL
**   FULL  one element for each point (level 1; in a MAP the only level)
** The kind follows from the strides and operands, not from the planner's level, so work on
** broadcast operands is done once per row or once per line. Where that saves work, a MAP is lowered
** as a ROW kernel without reductions, its last dim the row, or as a COL kernel along the dim
** before. Further registers are copies of these that are made FULL ('fill' of UNI, 'spread' of ROW
** and LINE) and converted inputs of reductions.
**
** Modes. A tile is a run of points handled by one call of each operation.
**   MAP    tiles of 1024 points, more for light work, in row-major order; or, where an operand's
**          unit stride is not in the last dim, boxes of 64 x 64 points of that dim and the last
**          (32 x 32 for expensive work)
**   WHOLE  rows up to a middle length: a tile is one row, or several; all rounds in a tile. COL:
**          the same for few rows of few columns
**   LONG   longer rows: groups of 64 blocks of 1024; level-1 values recomputed in each round
**   COL    tiles of rows of a block of columns; chunks of 256 rows; groups of 4 chunks or
**          of one
** LONG and COL share their code: a 'block' is a row (width 1) or a block of columns.
** Results do not depend on modes, tiles, groups or workers: plan/kernel.h fixes the order.
*/
#ifndef FL_CPU_PROGRAM_H
#define FL_CPU_PROGRAM_H
#include "cpu/state/state.h"

enum { FL_BOX_TILES = 4 };
typedef enum { FL_MODE_MAP, FL_MODE_WHOLE, FL_MODE_LONG, FL_MODE_COL } fl_mode;
typedef enum {                            /* of two operands: the bits of both */
  FL_KIND_UNI, FL_KIND_ROW, FL_KIND_LINE, FL_KIND_FULL
} fl_value_kind;

typedef enum {
  FL_V_OP,        /* fn.op(v, a, b, c) */
  /* an OP done row by row. Bits k and k + 4 of 'uni' are for operand k: both: it has one element
  ** per row; only k + 4: one row for all rows */
  FL_V_ROWS,
  FL_V_CHAIN,     /* v = chain number arg, made of several operations (fuse.c) */
  FL_V_MOVE,      /* fn.move(v, a): cast or rounding */
  FL_V_LOAD,      /* operand arg; may be by reference (v is the operand's memory) if that has the
                  ** format of registers (lower.c) */
  FL_V_IOTA, FL_V_GATHER, FL_V_INDEX, FL_V_DRAW,
  FL_V_FILL,      /* v = element a for all */
  FL_V_SPREAD,    /* FULL v = ROW or LINE a */
  FL_V_REDUCE,    /* reduction arg over FULL a (flags: a times b): in WHOLE into ROW v, otherwise
                  ** into the state */
  FL_V_STORE,     /* store number arg writes a, unless a was computed in place */
  FL_V_NONE       /* included in another operation (fuse.c) */
} fl_vcode;

typedef struct fl_vop {
  /* reg: register type of v (FILL, SPREAD) or of memory. GATHER's uni: one index per row of the
  ** tile. INDEX's reg: 1 + the operand whose map gives the positions c; 0: they are in register
  ** c */
  uint8_t code, level, uni, reg;
  uint16_t v, a, b, c, arg;           /* arg: FL_OP_* of OP and ROWS */
  uint16_t flags;                     /* INDEX: flags; LOAD, GATHER: 1: may be by reference,
                                      ** FL_BY_HALVES; REDUCE: 1 a times b, FL_BY_HALVES,
                                      ** FL_BY_PLACE */
  uint16_t target;                    /* 1 + the store in whose memory v may be computed; 0: none */
  union {
    fl_vm_fn op;
    fl_vm_move move;
    fl_vm_load load;
    fl_vm_store store;
    fl_vm_gather gather;
    fl_vm_draw draw;
    void (*fill)(void *y, const void *x, int64_t n);
    void (*spread)(void *y, const void *x, int64_t rows, int64_t cols);
  } fn;
} fl_vop;

typedef struct fl_chain {
  uint8_t n, reg, by_row;
  struct { uint8_t op, uni, saved; uint16_t v; } link[FL_CHAIN];      /* v: FL_NO_REG: none */
} fl_chain;
enum { FL_NO_REG = 65535, FL_BY_HALVES = 2,         /* flag of a LOAD of bf16 by reference that only
                                                    ** chains and sums read, and of these sums */
       /* WHOLE rows: flag of a REDUCE to the extreme value, if the previous operation found its
       ** position */
       FL_BY_PLACE = 4 };

typedef struct fl_section { fl_vop *at; int64_t n, cap; } fl_section;
/* Sections: BIND (UNI values), UNIT (fills and WHOLE's LINE values, at the start of a unit), LINE
** (COL's, at the start of a chunk), then for each round r its level-0 work, which comes first, and
** its level-1 work, and at the end the level-0 stores. In MAP and WHOLE everything else is in
** FULL(0). */
enum { FL_SEC_BIND, FL_SEC_UNIT, FL_SEC_LINE, FL_SEC_STORE, FL_SEC_ROUND };
#define FL_SEC_ROW(r) (FL_SEC_ROUND + 2 * (r))
#define FL_SEC_FULL(r) (FL_SEC_ROUND + 2 * (r) + 1)

/* halves: a LOAD with FL_BY_HALVES writes it; it then refers to bf16 elements in memory if these
** have unit stride. off: offset in its area, in bytes */
typedef struct fl_vreg { uint8_t kind, reg, lives, halves; int64_t off; } fl_vreg;

typedef struct fl_red {
  uint16_t op, value, round;
  uint8_t reg, dtype;                 /* register of the state; dtype of the result */
  const fl_vm_reduce *fn;
} fl_red;

typedef struct fl_access_info {
  fl_walk w1, w0, w2;           /* traversal of points in tile order; of kept, of reduced indices */
  int64_t low, high;                /* range of the elements reached, relative to the operand's
                                    ** first */
  uint8_t used;                    /* 1: read, 2: written, 0: without memory (the map of an IOTA) */
} fl_access_info;

typedef struct fl_operand_set { uint64_t bits[(FL_MAX_OPERANDS + 63) / 64]; } fl_operand_set;

typedef struct fl_draw_info { uint16_t instr; fl_vm_random q; } fl_draw_info;

typedef struct fl_prog {
  const fl_vm *vm;
  const fl_kernel *k;                 /* 'lean' or 'own' */
  fl_kernel lean;                 /* the planner's kernel without useless instructions (lean.c) */
  void *lean_at;                      /* its arrays */
  size_t lean_bytes;
  /* for a MAP that is lowered as a ROW or COL kernel: that kernel, with the arrays of 'lean' */
  fl_kernel own;
  fl_operand *turned;                 /* the operands of such a COL kernel */
  fl_mem *mem;
  /* asks: prefetches the next tile's lines; one_line: WHOLE's LINE values have one row, otherwise
  ** as many as a tile; dear: expensive operations per point, at most 8 */
  uint8_t mode, asks, one_line, dear;
  int rounds;                  /* number of rounds of reductions; the last section has the stores */
  int nsec;
  fl_section *sec;
  struct { fl_vreg *at; int64_t n, cap; } reg;
  struct { fl_red *at; int64_t n, cap; } red;
  struct { fl_draw_info *at; int64_t n, cap; } draw;
  struct { fl_chain *at; int64_t n, cap; } chain;
  fl_access_info *access;             /* one an operand */
  fl_operand_set *conflict;      /* per store: operands that are read after its value is computed */
  void **address;                     /* per operand: its address in this run */
  uint8_t *direct;                    /* per store, for this run */
  char *uni;                          /* 8 bytes a register */
  int64_t batch;                      /* WHOLE: rows per tile; COL, boxes: rows of a tile */
  int64_t full, row;                  /* most elements of a FULL and of a ROW register */
  int64_t width;                      /* COL: columns of a block; boxes: of a tile; else 1 */
  int64_t columns, col_blocks;        /* kernels of kind COL: innermost kept size,
                                      ** blocks in it; else 1 */
  int64_t boxes;                      /* MAP in boxes: units; else 0 */
  int box_dim, box_last;
  /* LONG, COL: blocks, groups per block, reduced indices per group; few: groups per unit if all
  ** workers share blocks */
  int64_t blocks, groups, group, few;
  int64_t unit, units;                /* points (MAP), rows (WHOLE) or blocks per unit; number of
                                      ** units */
  /* sizes of a worker's areas; of one state of all reductions */
  int64_t full_bytes, row_bytes, line_bytes, state_bytes;
  int64_t slots;                      /* number of states on a worker's counter */
} fl_prog;

/* One step of 'count' kernels; even: all have equally many units. In the plan's memory. */
typedef struct fl_cpu_step {
  int32_t count, even; fl_prog **prog; int64_t *first; int64_t work;
} fl_cpu_step;

/* lower.c: makes a program; NULL with the error in c. */
fl_prog *fl_prog_new(flame_context *c, fl_mem *m, const fl_vm *vm, const fl_kernel *k, int workers);
void fl_prog_free(fl_prog *g);
/* fl_prog_place (regs.c) calls fl_prog_fuse (fuse.c). Both return 0 when memory is out. */
int fl_prog_fuse(fl_prog *g);
/* Sets v to the registers that x reads; returns their number. */
int fl_vop_reads(const fl_prog *g, const fl_vop *x, uint16_t v[FL_CHAIN]);
int fl_prog_place(fl_prog *g);
/* For one run: sets addresses and scalars, and decides which stores may be direct. */
void fl_prog_address(fl_prog *g, const fl_binding *b);
/* units.c. To be called before a run's units: computes its UNI values (one element for the whole
** kernel). scratch: a worker's. */
void fl_prog_bind(fl_prog *g, const fl_binding *b, char *scratch, fl_vm_fault *fault);
int64_t fl_prog_worker_bytes(const fl_prog *g);
int64_t fl_prog_shared_bytes(const fl_prog *g);          /* split runs: one batch */
int fl_prog_split(const fl_prog *g);                   /* does it need rounds over several units? */
void fl_prog_unit(const fl_prog *g, int64_t unit, char *scratch, fl_vm_fault *fault);
void fl_prog_run_split(fl_cpu *d, const fl_prog *g, const atomic_int *stop);
#endif
