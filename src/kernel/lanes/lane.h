/*
** A user kernel on the CPU: the tree as linear code over lanes. All threads of a block execute the
** code together, one statement at a time (masks tell which threads are active), so barriers cost
** nothing, shuffles are permutations and atomics happen in lane order: results are reproducible.
** Blocks are independent units: the caller runs them on threads as it likes, unless
** fl_lane_serial() says that their order shows in the result.
**
** - A kernel never touches memory outside its arguments, and certain faults end the launch whatever
**   the checks: an index out of range, a barrier that not all threads reach, a shuffle from an
**   absent lane, a misaligned address, a failed assert, the step limit of a block. Other faults are
**   found if 'checks' includes them.
** - The first fault of the lowest block is reported, the same with any number of threads:
**   reports of several workers are joined by fl_lane_report_join.
** - Kernels with races get one of their possible results, since threads run in lockstep;
**   FL_LANE_RACE reports the race. Two threads that write the same value to one element are not
**   reported.
** - fl_lane_code is read-only after compiling and may be run by many threads at once; it
**   borrows names and lines from the fl_kfunc, which must outlive it.
*/
#ifndef FL_KERNEL_LANE_H
#define FL_KERNEL_LANE_H
#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "kernel/tree/tree.h"
#include <stdatomic.h>

enum { FL_LANE_MAX_BLOCK = 1024, FL_LANE_WARP = 32 };

/* Bits of 'checks'. */
enum {
  FL_LANE_BOUNDS = 1,   /* integer division by zero, masks with absent lanes (indices and the
                        ** lanes that shuffles read are always checked) */
  FL_LANE_RACE = 2,     /* two threads access one element, one of them writing, with no barrier in
                        ** between (lane_check.c says which pairs are no race) */
  FL_LANE_UNINIT = 4    /* variables, local arrays and shared memory read before they are written */
};

typedef struct fl_lane_code fl_lane_code;
typedef struct fl_lane_shadow fl_lane_shadow;

/* Memory behind a pointer. */
typedef struct fl_lane_memory { void *data; int64_t bytes; } fl_lane_memory;

/* One parameter of the signature, in order. */
typedef struct fl_lane_arg {
  const void *value;              /* scalars, vectors, structs: fl_kparam.size bytes as CUDA
                                  ** lays them out; not read for pointers */
  const fl_lane_memory *memory;   /* one for each pointer: the parameter itself, or its members in
                                  ** the order of its fields */
} fl_lane_arg;

typedef struct fl_lane_launch {
  uint32_t grid[3], block[3];
  int64_t shared_bytes;           /* dynamic */
  const fl_lane_arg *args;
  int32_t n_args;
  unsigned checks;
  const atomic_int *stop;         /* not 0: stop soon (kind STOPPED); may be NULL */
  int64_t max_steps;              /* most instructions of one block in the iterations of loops (kind
                                  ** STEPS); 0: no limit */
  atomic_llong *used;        /* counts the instructions of all blocks (for each block those of the
                             ** kernel once, and those of a loop again for each iteration); NULL:
                             ** they are not counted */
  int64_t most;                   /* with 'used': most instructions of all blocks (kind STOPPED) */
  void (*print)(void *arg, const char *text, size_t n);   /* printf; NULL: dropped */
  void *print_arg;
  fl_lane_shadow *shadow;        /* accesses to global memory, for FL_LANE_RACE
                                 ** (fl_lane_shadow_new) */
} fl_lane_launch;

/* Faults: an index out of range; a race; a value that was never set; a barrier that not all
** threads reach; a division by zero; a failed assert; a lane that a shuffle or mask asks for and
** that is not active; too many steps of a block; stopped from outside, or by 'most'; a misaligned
** address. */
typedef enum {
  FL_LANE_OK, FL_LANE_INDEX, FL_LANE_RACED, FL_LANE_UNSET, FL_LANE_BARRIER, FL_LANE_DIVISION,
  FL_LANE_ASSERT, FL_LANE_LANE, FL_LANE_STEPS, FL_LANE_STOPPED, FL_LANE_ALIGN
} fl_lane_kind;

typedef struct fl_lane_place {
  int64_t block;                  /* x + grid.x * (y + grid.y * z) */
  int32_t thread, line;           /* thread: its number in the block, likewise; line: of the
                                  ** source */
  uint8_t write, atomic;          /* RACED: what the access was; neither: a read */
} fl_lane_place;

typedef struct fl_lane_report {
  uint8_t kind;                   /* fl_lane_kind; 0: no fault */
  const char *kernel, *name;      /* name: of the array or variable, as the source writes it;
                                  ** ASSERT, ALIGN: the text of the assert; BARRIER: the barrier
                                  ** (NULL: __syncthreads) */
  int32_t rank;                   /* rank of the array ('index' is flat, 'dims' are as declared); 0:
                                  ** of a parameter or of dynamic size */
  int64_t dims[FL_K_MAX_RANK];
  int64_t index, size;            /* in elements; index -1: UNSET of a variable; ALIGN: index is a
                                  ** byte */
  fl_lane_place at, other;   /* RACED: the place of the other thread. BARRIER: of a thread that does
                             ** not reach it. LANE: of a lane that is needed but not active, or 'at'
                             ** itself if its mask lacks it */
  uint32_t grid[3], block[3];     /* of the launch */
} fl_lane_report;

static inline int64_t fl_lane_blocks(const fl_lane_launch *l) {
  return (int64_t)l->grid[0] * l->grid[1] * l->grid[2];
}

/* NULL with an error set: no memory, or a function without a body (the message is its refusal). */
fl_lane_code *fl_lane_compile(fl_mem *m, const fl_kfunc *f, fl_error *e);
void fl_lane_free(fl_lane_code *c);                 /* NULL is fine */

/* 1: the blocks must run in order, on one thread, because of global atomics, arrays that are read
** and written (unless all these accesses are at blockIdx.x * blockDim.x + threadIdx.x), arrays that
** overlap, one of which is written, printf, or the race check. */
int fl_lane_serial(const fl_lane_code *c, const fl_lane_launch *l);
/* 0 with an error: the geometry or the arguments can not be run. Called once per launch. */
int fl_lane_launch_ok(const fl_lane_code *c, const fl_lane_launch *l, fl_error *e);
/* Bytes of scratch (aligned to 64) that one worker needs. */
size_t fl_lane_scratch(const fl_lane_code *c, const fl_lane_launch *l);
/* fl_lane_begin is called once per worker and launch; then fl_lane_block runs any number of blocks.
** fl_lane_block returns 0 on a fault, with the fault in 'report'; blocks with higher numbers then
** need not run. */
void fl_lane_begin(const fl_lane_code *c, const fl_lane_launch *l, void *scratch);
int fl_lane_block(const fl_lane_code *c, const fl_lane_launch *l, int64_t block, void *scratch,
                  fl_lane_report *report);
/* Do the blocks meet at a barrier of the grid? Then one thread runs them all by fl_lane_grid, which
** does what fl_lane_begin and fl_lane_block do, with fl_lane_copies times the scratch: all blocks
** are kept, up to FL_LANE_GRID_MB; fl_lane_launch_ok refuses more. */
enum { FL_LANE_GRID_MB = 256 };
int fl_lane_meets(const fl_lane_code *c);
int64_t fl_lane_copies(const fl_lane_code *c, const fl_lane_launch *l);     /* blocks of the grid if
                                                                            ** they meet and fit,
                                                                            ** else 1 */
int fl_lane_grid(const fl_lane_code *c, const fl_lane_launch *l, void *scratch,
                 fl_lane_report *report);
/* Keeps in *r the fault of the lower block; no fault is the highest. */
void fl_lane_report_join(fl_lane_report *r, const fl_lane_report *other);

/* Records which thread accessed which element of global memory, for FL_LANE_RACE. It may be kept
** from launch to launch. fl_lane_shadow_begin is called once per launch (0 with an error: no
** memory), fl_lane_shadow_end after it: it frees the tables if they have more than 'most' bytes. */
fl_lane_shadow *fl_lane_shadow_new(fl_mem *m);                         /* NULL: no memory */
int fl_lane_shadow_begin(fl_lane_shadow *w, const fl_lane_code *c, const fl_lane_launch *l,
                         fl_error *e);
void fl_lane_shadow_end(fl_lane_shadow *w, int64_t most);
void fl_lane_shadow_free(fl_lane_shadow *w);                           /* NULL is fine */

/* Runs all blocks in order on the calling thread. For FL_LANE_RACE it uses l->shadow, or a new one
** if that is NULL. 0: a fault (report), or it could not run (e). */
int fl_lane_run(fl_mem *m, const fl_lane_code *c, const fl_lane_launch *l,
                fl_lane_report *report, fl_error *e);

/* "kernel 'k', line 7: index 1024 of 'out' (1024 elements) by thread (0, 0, 0) of block (4, 0, 0)".
** Adds nothing if there is no fault. */
void fl_lane_message(const fl_lane_report *r, fl_text *t);
#endif
