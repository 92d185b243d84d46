/* Opening the communicator (nccl_meet.c), for nccl.c. */
#ifndef FL_CUDA_NCCL_MEET_H
#define FL_CUDA_NCCL_MEET_H
#include "cuda/library/nccl.h"

/* The ranks, which have agreed on a collective, exchange what they know of their GPUs and decide
** whether to use NCCL. 1: it is decided, and the communicator is open if they do. Other results are
** those of fl_group_wait. */
int fl_nccl_meet(fl_cuda *s, fl_turn *t);
/* Waits until the function 'name' of NCCL, which was called and returned r, is done. 0: it failed,
** or the group broke (t->fault says why), or the user has interrupted (t->fault is empty). */
int fl_nccl_poll(fl_cuda *s, fl_turn *t, fl_nccl_status r, const char *name);
#endif
