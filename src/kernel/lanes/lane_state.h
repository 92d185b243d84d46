/*
** A worker that runs a block: all its state is in its scratch memory. Shared by lane_run.c
** (dispatch and masks), lane_memory.c, lane_check.c and lane_warp.c.
*/
#ifndef FL_KERNEL_LANE_STATE_H
#define FL_KERNEL_LANE_STATE_H
#include "kernel/lanes/lane_code.h"

/* Element i of a vector (a uniform value: 0) of integers of class 'cls', in 64 bits. */
static inline __attribute__((always_inline)) int64_t fl_lane_integer(const void *a, int cls,
                                                                     int64_t i) {
  if (fl_lane_wide(cls)) return ((const int64_t *)a)[i];
  return cls == FL_LC_U32 ? (int64_t)((const uint32_t *)a)[i] : (int64_t)((const int32_t *)a)[i];
}

/* What is known of an index over all lanes, active or not. */
typedef struct fl_lane_info {
  uint8_t row;             /* the index of lane i is first + i; the register is not written */
  uint8_t rows;            /* in each row of the block (along x) indices are consecutive; the
                           ** register holds the first index of each row, unless 'linear' */
  uint8_t flat;            /* in each row indices are equal; only with 'linear'. If none of row,
                           ** rows and flat is set, the register holds all indices */
  uint8_t linear;          /* the index is linear in the thread's position: 'step' more in the next
                           ** row, and 'step' + 'turn' more from the last row of a plane to the
                           ** first of the next. With 'rows' or 'flat' the register is then not
                           ** written */
  int64_t first;           /* of row and linear: the index of the first thread */
  int64_t low, high;       /* the least and the greatest index of all lanes */
  int64_t step, turn;
} fl_lane_info;

/* A register's value in thread (i, j, k) of the block is u + x i + y j + z k, from low to high in
** the block (lane_linear.c). */
typedef struct fl_lane_linear {
  int64_t u, x, y, z, low, high;
  uint8_t on;              /* 0: it is not known to be linear; 1: it is, and the register is not
                           ** written yet; 2: it is, and the register is written */
  uint8_t sure;            /* FL_LANE_TEST: the result is the same for all lanes of this block */
} fl_lane_linear;

/* A register's value in thread (i, j, k) of block (p, q, r) is u + k[0] i + k[1] j + k[2] k + k[3]
** p + k[4] q + k[5] r, from low to high in the whole launch (lane_hoist.c). */
enum { FL_LANE_AXES = 6 };
typedef struct fl_lane_form {
  int64_t u, k[FL_LANE_AXES], low, high;
  int64_t below, above;    /* lowest and highest value in a block, minus the value of its first
                           ** thread */
  uint8_t on, needed;     /* on: it is linear; needed: instructions that each block runs read it */
} fl_lane_form;

/* What each block (p, q, r) computes when it begins, from a form: u + k[0] p + k[1] q + k[2] r, and
** with 'below' and 'above' the range of the block. It goes to one of these: *info, an index; *cell,
** a uniform value (of 8 bytes if 'wide'); *linear, a linear value, or, where 'test' is not 0, the
** result of the comparison 'test' (FL_KO_…) with 0. */
typedef struct fl_lane_fresh {
  int64_t u, k[3], below, above;
  fl_lane_info *info;
  void *cell;
  fl_lane_linear *linear;
  uint8_t wide, test;
} fl_lane_fresh;

/* Of 'count' active lanes: at[lane] is -1 if it is active, else 0. at is 'own' or the full mask. */
typedef struct fl_lane_mask { int32_t count; const int32_t *at; int32_t *own; } fl_lane_mask;

/* Recorded accesses of one array, by element (lane_check.c); NULL: not needed. 'write', 'change'
** and 'read' are the last write, atomic change and read; 'changer' and 'reader' the last change and
** read by a thread other than that of 'change' and 'read'. 0: none. */
typedef struct fl_lane_marks { int64_t *write, *change, *changer, *read, *reader; } fl_lane_marks;

/* The tables of marks (recorded accesses). They are kept from launch to launch, as stamps (times)
** grow (lane_shadow.c). */
struct fl_lane_shadow {
  fl_mem *mem;
  int64_t *cells, n_cells, n_used;     /* n_used: the number of cells that this launch uses */
  int64_t next;                        /* all stamps (times) so far are below this one */
  /* of this launch: its first stamp; how many ranges of stamps there are: each block has one, but
  ** blocks from number most - 1 on share the last */
  int64_t first, most;
  int32_t n_vars;
  int32_t tick_bits, tick_shift;       /* the bits of a stamp that count barriers; the lowest one */
  int32_t block_shift;                 /* the lowest bit of the block */
  fl_lane_marks *of;                   /* by variable */
};

/* An array in this launch: 'count' elements from 'base' on. */
typedef struct fl_lane_view {
  char *base;
  int64_t count;
  uint8_t watched;         /* accesses to it are recorded or checked (lane_check.c) */
  int32_t step;            /* marks per element */
  fl_lane_marks marks;
} fl_lane_view;

typedef struct fl_lane_state {
  const fl_lane_code *code;
  const fl_lane_launch *launch;
  const fl_lane_table *table;
  fl_lane_report *report;
  void **reg, **home;                /* by register: its values, its slot */
  fl_lane_linear *linear;            /* by register */
  fl_lane_rows *rows_of;             /* by register */
  fl_lane_form *forms;               /* by register */
  int32_t *next;     /* by instruction: itself, or the next one that was not hoisted */
  fl_lane_fresh *fresh;
  int32_t n_fresh;
  int64_t place[3];                  /* of the block in the grid */
  int64_t width, height, depth, rows;   /* of the block: n = width * rows, rows = height * depth */
  fl_lane_mask *masks, now;          /* by number; the current one */
  int32_t *ones, *gone, live;        /* masks of all lanes and of those that have returned; how many
                                     ** have not */
  fl_lane_info *infos;
  fl_lane_view *views;               /* by variable */
  void *spare;                       /* n slots of 8 bytes */
  int64_t *at, *starts;              /* n indices; the first index of each row */
  char *shared;                      /* memory: static arrays, then the dynamic ones */
  uint8_t *shared_set, *local_set;   /* UNINIT: was it set? by byte of shared memory; by element of
                                     ** ARRAYs and lane */
  int32_t *tracks;                   /* UNINIT: for each tracked variable n lanes; -1: the lane has
                                     ** set it */
  int64_t *shared_cells, n_shared_cells;      /* RACE: marks of shared memory */
  int64_t shared_bytes, block, steps, n;      /* of static arrays; number of the block; instructions
                                              ** in loops so far; lanes */
  int64_t pc;                        /* where the block goes on after a barrier of the grid */
  fl_lane_order order;               /* RACE: see lane_code.h */
  /* RACE: the stamp of now without instruction and lane; by warp: that after its last __syncwarp */
  int64_t clock, warp_order[FL_LANE_MAX_BLOCK / FL_LANE_WARP];
} fl_lane_state;

/* Runs the block from s->pc on. 0: a fault; 1: it has ended; 2: it waits at a barrier of the
** grid. */
int fl_lane_go_on(fl_lane_state *s);
/* lane_grid.c: does the memory of all blocks fit in FL_LANE_GRID_MB? 0 with an error. */
int fl_lane_grid_ok(const fl_lane_code *c, const fl_lane_launch *l, fl_error *e);
/* Reports a fault of this kind at p, found in 'lane': fills the report and returns 0. */
int fl_lane_fault(fl_lane_state *s, const fl_lane_ins *p, int kind, int64_t lane);
/* The same for a fault at element 'index' of p's array. */
int fl_lane_fault_at(fl_lane_state *s, const fl_lane_ins *p, int kind, int64_t lane, int64_t index);
/* Reports a fault of this kind at p: lane 'lane' has reached it, but 'other' has not, or is a lane
** beyond the block, or is 'lane' itself, which is not in the mask that it gives. Returns 0. */
int fl_lane_absent(fl_lane_state *s, const fl_lane_ins *p, int kind, int64_t lane,
                   fl_lane_place other);
fl_lane_place fl_lane_place_of(const fl_lane_state *s, int64_t lane, int line);
/* The first active lane. */
static inline int fl_lane_first(const fl_lane_state *s) {
  int i = 0;
  while (!s->now.at[i]) i++;
  return i;
}

/* Gives the first and the last active lane. */
void fl_lane_span(const fl_lane_state *s, int64_t *first, int64_t *last);

/* lane_linear.c: fl_lane_do_linear computes the result of p as a linear value (0: it must be
** computed lane by lane). The fl_lane_spread functions write linear values to registers: of one
** register, or of all operands of p. fl_lane_index_linear fills *q for the INDEX p, whose operand
** may be linear (0: it is not). */
int fl_lane_do_linear(fl_lane_state *s, const fl_lane_ins *p);
void fl_lane_spread(fl_lane_state *s, int32_t reg);
void fl_lane_spread_operands(fl_lane_state *s, const fl_lane_ins *p);
int fl_lane_index_linear(fl_lane_state *s, const fl_lane_ins *p, fl_lane_info *q);
/* Fills *q with the pattern (consecutive, in rows …) of the index u + x i + y j + z k, whatever u
** is. 1: its lanes need not be written to the register. */
int fl_lane_classify(const fl_lane_state *s, int64_t x, int64_t y, int64_t z, fl_lane_info *q);
/* Do values from low to high fit into a class of integers (fl_lane_class)? Those of 64 bits must be
** at most 2^46 in magnitude. */
int fl_lane_fits(int cls, int64_t low, int64_t high);
/* Do values from low to high fit into the type of p's result? kind: what fl_lane_linear_kind gave
** for p. */
int fl_lane_holds(const fl_lane_ins *p, int kind, int64_t low, int64_t high);
void fl_lane_renew(fl_lane_state *s);    /* at the start of a block: computes what s->fresh lists */
void fl_lane_do_hoist(fl_lane_state *s);           /* at the start of a launch (lane_hoist.c) */

/* The first index of each row, of an index with 'rows' or 'flat'. */
const int64_t *fl_lane_starts(fl_lane_state *s, const fl_lane_ins *p);

/* Functions below that return an int: 0: there was a fault, and it was reported. */
void fl_lane_do_index(fl_lane_state *s, const fl_lane_ins *p);
int fl_lane_do_load(fl_lane_state *s, const fl_lane_ins *p, void *out);
/* If the register's values were left in memory (fl_lane_rows), copies them into the register. */
void fl_lane_settle(fl_lane_state *s, int32_t reg);
int fl_lane_do_store(fl_lane_state *s, const fl_lane_ins *p);
int fl_lane_do_atomic(fl_lane_state *s, const fl_lane_ins *p);
int fl_lane_do_barrier(fl_lane_state *s, const fl_lane_ins *p);
int fl_lane_do_shuffle(fl_lane_state *s, const fl_lane_ins *p);
int fl_lane_do_vote(fl_lane_state *s, const fl_lane_ins *p);
int fl_lane_do_printf(fl_lane_state *s, const fl_lane_ins *p);
int fl_lane_do_assert(fl_lane_state *s, const fl_lane_ins *p);
int fl_lane_do_divisor(fl_lane_state *s, const fl_lane_ins *p);
void fl_lane_do_begin(fl_lane_state *s, const fl_lane_ins *p);
void fl_lane_do_set(fl_lane_state *s, const fl_lane_ins *p);
int fl_lane_do_check(fl_lane_state *s, const fl_lane_ins *p);

/* Records and checks an access of 'lane' to element 'index' (in range) of p's array. how: bits
** FL_LANE_READ and so on; FL_LANE_SAME: the value written is already there. 0: a fault, which is
** reported. */
int fl_lane_touched(fl_lane_state *s, const fl_lane_ins *p, int64_t lane, int64_t index, int how);
/* fl_lane_touched for all active lanes at once, where their indices are simple (equal or
** consecutive in each row) and certainly no access is a fault. 0: nothing was recorded, so the
** caller does it lane by lane. */
int fl_lane_touched_all(fl_lane_state *s, const fl_lane_ins *p, int how);

/* Time of the race check (lane_shadow.c): fl_lane_time_begin is called when a block begins, or goes
** on after a barrier of the grid; fl_lane_time_tick when threads have met at a barrier, so that
** later accesses get later stamps. */
void fl_lane_time_begin(fl_lane_state *s);
/* Called when all blocks have met at a barrier of the grid. 1: stamps begin again, so marks of
** shared memory have to be cleared. */
int fl_lane_shadow_again(fl_lane_shadow *w, const fl_lane_code *c, const fl_lane_launch *l);
void fl_lane_time_tick(fl_lane_state *s);
/* Puts the marks (recorded accesses) of shared memory at 'base' (NULL: only counts them), and
** returns their number. */
int64_t fl_lane_shared_marks(fl_lane_state *s, int64_t *base);
#endif
