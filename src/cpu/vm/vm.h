/*
** The loops of the CPU: one table of functions per instruction set, all compiled from
** vm_loops.h and vm_memory.h, all giving the same bits.
**
** A register is an array of one of the four register types (dtype.h). Every function works on
** 'n' elements; arrays may be equal (in place) but never overlap otherwise. 'uni' of an
** operation says which operands are one element for all: bit 0 for a, 1 for b, 2 for c;
** only operations marked 'uniform' take it, and never with all bits set.
**
** Reductions keep a state: 'val' (n register values) and 'pos' (n positions, used by
** argmax and argmin only, 0-based). Their order is fixed by plan/kernel.h.
*/
#ifndef FL_CPU_VM_H
#define FL_CPU_VM_H
#include "tensor/dtype.h"
#include "tensor/layout.h"
#include "tensor/ops.h"

enum { FL_VM_BLOCK = 1024, FL_VM_LANES = 16, FL_VM_CHUNK = 256 };

/* A strided walk over points in row-major order: at least one dim. A walk over a single point has
** one dim of size 1. */
typedef struct fl_walk {
  int32_t rank;
  uint8_t linear;           /* one dim of stride 1 */
  uint8_t box;              /* there are two dims, all points are needed, and the first dim has the
                            ** shorter steps */
  int64_t size[FL_MAX_AXES], stride[FL_MAX_AXES];
} fl_walk;

typedef struct fl_cursor { int64_t at[FL_MAX_AXES], off; } fl_cursor;

static inline void fl_walk_seek(const fl_walk *w, int64_t point, fl_cursor *p) {
  p->off = 0;
  for (int d = w->rank - 1; d > 0; d--) {
    const int64_t q = point == 0 ? 0 : point / w->size[d];
    p->at[d] = point - q * w->size[d];
    p->off += p->at[d] * w->stride[d];
    point = q;
  }
  p->at[0] = point;
  p->off += point * w->stride[0];
}

/* Steps over 'run' points of the last dim, which must have that many left. */
static inline void fl_walk_next(const fl_walk *w, fl_cursor *p, int64_t run) {
  int d = w->rank - 1;
  p->at[d] += run;
  p->off += run * w->stride[d];
  while (d > 0 && p->at[d] == w->size[d]) {
    p->off += w->stride[d - 1] - w->size[d] * w->stride[d];
    p->at[d] = 0;
    p->at[--d]++;
  }
}

typedef struct fl_vm_fault { int64_t site, value, position; } fl_vm_fault;   /* site -1: none */

typedef struct fl_vm_random {
  int64_t base, seed;
  fl_scalar a, b;           /* the two scalars of the draw: those of randint are .i, others .d */
} fl_vm_random;

typedef void (*fl_vm_fn)(void *y, const void *a, const void *b, const void *c, int64_t n, int uni);
typedef void (*fl_vm_move)(void *y, const void *a, int64_t n);
/* point: the first point of the walk that is loaded or stored; p: the address of the walk's offset
** 0. */
typedef void (*fl_vm_load)(void *y, const void *p, const fl_walk *w, int64_t point, int64_t n);
typedef void (*fl_vm_store)(void *p, const void *a, const fl_walk *w, int64_t point, int64_t n);
typedef void (*fl_vm_gather)(void *y, const void *p, const int64_t *idx, int64_t gstride,
                             const fl_walk *w, int64_t point, int64_t n);
typedef void (*fl_vm_draw)(void *y, const int64_t *idx, const fl_vm_random *r, int64_t n);

typedef struct fl_vm_reduce {
  void (*start)(void *val, int64_t *pos, int64_t n);
  /* Computes the state of each of 'rows' rows of n elements. first: position of element 0. */
  void (*rows)(void *val, int64_t *pos, const void *x, int64_t rows, int64_t n, int64_t first);
  /* Adds 'rows' rows of 'cols' elements to the states of the columns. first: position of row 0. */
  void (*cols)(void *val, int64_t *pos, const void *x, int64_t rows, int64_t cols, int64_t first);
  /* a = a combined with b; b's elements come after a's. */
  void (*merge)(void *a, int64_t *apos, const void *b, const int64_t *bpos, int64_t n);
} fl_vm_reduce;

/* Operations in one pass (vm_pair_loops.h): each applied to the value so far and its operand; rsub
** and rdiv: the operand minus, or divided by, the value; raise and cut: max and min where one
** comparison is enough. A test (gt to ne) does not change the value; a later 'pick' takes its
** operand where the test held, a later 'keep' where it did not. 'save' saves the value for a later
** link. Halves (bf16, in chains of f32): 'load_half' reads them from memory, 'round_half' rounds to
** them; 'half' of a chain: its result is a half. */
enum { FL_LINK_load, FL_LINK_load_half, FL_LINK_add, FL_LINK_sub, FL_LINK_rsub, FL_LINK_mul,
       FL_LINK_div, FL_LINK_rdiv, FL_LINK_max, FL_LINK_min, FL_LINK_raise, FL_LINK_cut, FL_LINK_gt,
       FL_LINK_ge, FL_LINK_lt, FL_LINK_le, FL_LINK_eq, FL_LINK_ne, FL_LINK_pick, FL_LINK_keep,
       FL_LINK_square, FL_LINK_neg, FL_LINK_relu, FL_LINK_sqrt, FL_LINK_round_half, FL_LINK_save,
       FL_CHAIN = 16 };
typedef struct fl_vm_link {
  const void *p;         /* the operand; NULL: the value that link 'saved' saved, if there is one */
  uint8_t op, saved, moves;  /* moves: it changes along the row; 0: one element for the whole row */
  int64_t row;                      /* elements from row to row */
} fl_vm_link;
typedef struct fl_vm_pairs {                      /* floats; NULL: none */
  void (*chain[FL_REG_COUNT])(void *y, const fl_vm_link *link, int count, int64_t rows, int64_t n,
                              int half);
  void (*dot_rows[FL_REG_COUNT])(void *val, const void *x, const void *y, int64_t rows, int64_t n);
  void (*dot_cols[FL_REG_COUNT])(void *val, const void *x, const void *y, int64_t rows,
                                 int64_t cols);
  /* Sums of bf16 in memory, of products where y is not NULL. */
  void (*half_rows)(void *val, const void *x, const void *y, int64_t rows, int64_t n);
  void (*half_cols)(void *val, const void *x, const void *y, int64_t rows, int64_t cols);
} fl_vm_pairs;
extern const fl_vm_pairs fl_vm_pairs_base;
#if defined(__x86_64__)
extern const fl_vm_pairs fl_vm_pairs_avx2, fl_vm_pairs_avx512;
#endif

typedef struct fl_vm {
  const char *name;
  fl_vm_fn op[FL_OP_COUNT][FL_REG_COUNT];         /* by the operands' register */
  uint8_t uniform[FL_OP_COUNT];                   /* takes 'uni' */
  fl_vm_move cast[FL_REG_COUNT][FLAME_DTYPE_COUNT];
  fl_vm_move round[FLAME_DTYPE_COUNT];            /* in place too; NULL: nothing to do */
  fl_vm_load load[FLAME_DTYPE_COUNT];
  fl_vm_store store[FLAME_DTYPE_COUNT];
  fl_vm_gather gather[FLAME_DTYPE_COUNT];
  fl_vm_draw draw[3][FLAME_DTYPE_COUNT];          /* uniform, normal, randint */
  fl_vm_reduce reduce[FL_OP_COUNT][FL_REG_COUNT];
  const fl_vm_pairs *pairs;
  void (*fill[FL_REG_COUNT])(void *y, const void *x, int64_t n);
  /* spread: writes each of 'rows' elements 'cols' times; tile: writes all 'cols' elements, 'rows'
  ** times. */
  void (*spread[FL_REG_COUNT])(void *y, const void *x, int64_t rows, int64_t cols);
  void (*tile[FL_REG_COUNT])(void *y, const void *x, int64_t rows, int64_t cols);
  void (*iota)(int64_t *y, const fl_walk *w, int64_t offset, int64_t point, int64_t n);
  /* 1-based indices to 0-based ones; 0: some are out of range (they give 0), to be reported. */
  int (*index)(int64_t *y, const int64_t *a, int64_t size, int64_t n, int flags);
  void (*report)(const int64_t *a, int64_t size, const int64_t *place, int64_t n, int uni,
                 int flags, int site, fl_vm_fault *f);
} fl_vm;

extern const fl_vm fl_vm_base;
#if defined(__x86_64__)
extern const fl_vm fl_vm_avx2, fl_vm_avx512;
#endif

static inline int fl_reg_size(int reg) { return reg == FL_REG_F64 || reg == FL_REG_I64 ? 8 : 4; }

/* Reductions of columns: are rows of n elements processed eight at a time? Rows of a page or more
** are. Shorter rows are processed one by one, since processors prefetch one stream per page, except
** the shortest: these would wait for their own stores. */
#define FL_VM_EIGHT(n, T) ((n) * (int64_t)sizeof(T) >= 4096 || (n) <= 32)
#endif
