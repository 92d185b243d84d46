/*
** The order of a graph: which of its steps wait for which. In a queue each step waits for the one
** before it; in a graph only for steps with which it shares memory, so that small launches run
** beside each other (the gradient of a weight beside that of the layer's input).
**
** Step i waits for an earlier step j if both access the same bytes and one of them writes: a value
** in the arena, a result, a buffer of the script (a home), or memory that launches share (scratch
** with its counters, cuBLASLt's workspace, the record of index checks). Values never make one step
** of a stage wait for another step of that stage: the planner puts them into one stage only if
** their values allow any order (planner.h). Memory is named as in the plan, not by its address,
** since graphs are launched again with other addresses.
**
** A large convolution runs alone. Some of cuDNN's kernels, as for gradients of weights that do not
** depend on the order of blocks, have few blocks, each for a long time; beside others they start
** late on some multiprocessors, and the whole graph waits for these. Products gain and lose nothing
** (docs/performance.md).
*/
#ifndef FL_CUDA_WAITS_H
#define FL_CUDA_WAITS_H
#include "cuda/steps.h"

typedef struct fl_waits fl_waits;

/* The order of steps from … to - 1, which become one graph. NULL, without an error: no memory, or
** the steps are to run one after the other (more than 4,096 of them, or FLAME_CHECK=nan). Freed by
** the caller; borrows the plan. */
fl_waits *fl_waits_open(fl_cuda *s, const fl_plan *p, int32_t from, int32_t to);
void fl_waits_free(fl_waits *o);
/* The steps for which step i waits, without those for which one of these waits itself, in *on; they
** belong to o. Returns how many. */
int32_t fl_waits_of(const fl_waits *o, int32_t i, const int32_t **on);
#endif
