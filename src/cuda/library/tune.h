/*
** Finds the fastest of several ways to compute one result on this device (FLAME_TUNE): the ways are
** run in turn on the current operands, five times each (those much slower the first time only
** once); way 0, which the library would choose, wins unless another's median is more than 3 %
** lower. The caller keeps the answer, also on disk: the ways differ in the last bits, and equal
** calls must give equal bits in this and later processes.
*/
#ifndef FL_CUDA_TUNE_H
#define FL_CUDA_TUNE_H
#include "cuda/driver/state.h"

enum { FL_TUNE_MOST = 8 };

/* Queues way i on s->stream. A way that cannot be run returns a status other than OK and leaves the
** error in the context, which fl_tune clears. */
typedef flame_status (*fl_tune_way)(fl_cuda *s, void *arg, int i);

/* *best: the fastest of n ways, at most FL_TUNE_MOST. Waits. Fails only if the device is lost, the
** user interrupts or way 0 fails. Not while a run is captured. */
flame_status fl_tune(fl_cuda *s, int n, fl_tune_way way, void *arg, int *best);
#endif
