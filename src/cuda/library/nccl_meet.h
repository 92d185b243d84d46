/* Opening the communicator (nccl_meet.c), for nccl.c. */
#ifndef FL_CUDA_NCCL_MEET_H
#define FL_CUDA_NCCL_MEET_H
#include "cuda/library/nccl.h"

/* The ranks, which have agreed on a collective, ask each other and decide: 1: it is decided, and if
** NCCL serves it is open. Else as fl_group_wait. */
int fl_nccl_meet(fl_cuda *s, fl_turn *t);
/* Until what was called is done, r being its result. 0: it failed, or the group broke: t->fault. */
int fl_nccl_poll(fl_cuda *s, fl_turn *t, fl_nccl_status r, const char *name);
#endif
