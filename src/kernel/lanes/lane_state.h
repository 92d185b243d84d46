/*
** A worker that runs a block: all its state is in its scratch memory. Shared by lane_run.c
** (dispatch and masks), lane_memory.c, lane_check.c and lane_warp.c.
*/
#ifndef FL_KERNEL_LANE_STATE_H
#define FL_KERNEL_LANE_STATE_H
#include "kernel/lanes/lane_code.h"

/* What is known of an index over all lanes, active or not. */
typedef struct fl_lane_info {
  uint8_t row;             /* the index of lane i is first + i; the register is not written */
  uint8_t rows;            /* in each row of the block (along x) indices are consecutive; the
                           ** register holds the first index of each row. If neither is set, it
                           ** holds all indices */
  int64_t first, low, high;
} fl_lane_info;

typedef struct fl_lane_mask { int32_t count; const int32_t *at; int32_t *own; } fl_lane_mask;

/* A recorded access: which thread, and between which barriers. */
typedef struct fl_lane_touch {
  int64_t block;           /* + 1; 0: no block */
  int32_t lane, epoch, warp_epoch, line;
  uint8_t atomic, same;    /* same: other threads wrote this value too */
} fl_lane_touch;

/* Accesses to one element: the last write, atomic change and read, and the last change and read by
** another thread than these. */
typedef struct fl_lane_cell { fl_lane_touch write, change, changer, read, reader; } fl_lane_cell;

struct fl_lane_shadow {
  fl_mem *mem;
  int32_t n;               /* arrays by variable */
  struct fl_lane_shade { fl_lane_cell *at; int64_t n; uint8_t borrowed; } *of;
};

typedef struct fl_lane_view { char *base; int64_t count; } fl_lane_view;

typedef struct fl_lane_state {
  const fl_lane_code *code;
  const fl_lane_launch *launch;
  const fl_lane_table *table;
  fl_lane_report *report;
  void **reg;
  fl_lane_mask *masks, now;
  int32_t *ones, *gone, live;        /* gone: lanes that have returned */
  fl_lane_info *infos;
  fl_lane_view *views;               /* by variable */
  void *spare;                       /* n slots of 8 bytes */
  int64_t *at;                       /* n indices */
  char *shared;
  uint8_t *shared_set, *local_set;   /* UNINIT: by byte of shared memory, by element of ARRAYs */
  int32_t *tracks;                   /* n entries for each tracked variable */
  fl_lane_cell *shared_cells;        /* RACE: by byte of shared memory */
  int64_t shared_bytes, block, steps, n;
  int32_t epoch, warp_epoch[FL_LANE_MAX_BLOCK / FL_LANE_WARP];
} fl_lane_state;

/* Reports a fault of this kind at p, found in 'lane': fills the report and returns 0. */
int fl_lane_fault(fl_lane_state *s, const fl_lane_ins *p, int kind, int64_t lane);
fl_lane_place fl_lane_place_of(const fl_lane_state *s, int64_t lane, int line);
static inline int fl_lane_first(const fl_lane_state *s) {
  int i = 0;
  while (!s->now.at[i]) i++;
  return i;
}

/* All return 0 on a fault. */
void fl_lane_do_index(fl_lane_state *s, const fl_lane_ins *p);
int fl_lane_do_load(fl_lane_state *s, const fl_lane_ins *p, void *out);
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

/* Must accesses to this array be checked one by one? */
int fl_lane_watched(const fl_lane_state *s, int var);
enum { FL_LANE_READ = 1, FL_LANE_WRITE = 2, FL_LANE_ATOMIC = 4, FL_LANE_SAME = 8,
       FL_LANE_GUESS = 16 };
/* Records that lane 'lane' does 'how' to element 'index' (in range) of p's array. 'same': the value
** written is already there. */
int fl_lane_touched(fl_lane_state *s, const fl_lane_ins *p, int64_t lane, int64_t index, int how);
#endif
