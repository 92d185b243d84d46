/*
** Calls (steps such as sorts and convolutions, tensor/call.h) on a CUDA device: what the files
** call_<family>.c build on. Functions queue work in the device's stream; the driver context is
** current. A call that needs values from the device (the status of a factorisation) downloads them,
** which waits for the queued work.
*/
#ifndef FL_CUDA_CALL_H
#define FL_CUDA_CALL_H
#include "cuda/compile/module.h"

/* Runs the call on the host: called for calls without functions for the device, and by a function
** that finds at run time that the device can not run the call. */
flame_status fl_cuda_call_host(fl_cuda *s, const fl_call_run *r);

/* fl_cuda_bind makes the arguments for cuLaunchKernel, fl_cuda_fill sets the initial contents of
** results that k's launch changes (FL_KARG_OUT, FL_KARG_COPY). */
void fl_cuda_bind(const fl_call_run *r, fl_cu_ptr *pointer, void **param);
flame_status fl_cuda_fill(fl_cuda *s, const struct fl_kfunction *k, const fl_call_run *r);
/* call_checked.c: runs k->checked, the version of k with checks, and waits for it. */
flame_status fl_cuda_call_checked(fl_cuda *s, const struct fl_kfunction *k, const fl_call_run *r);

/* call_count.c: makes an error of 'word', in which kernels/weights.cu reported bad weights of a
** random draw; the word is read after the run (s->late in driver/state.h). */
flame_status fl_cuda_weights_fault(fl_cuda *s, uint64_t word);

/* ---- call.c, for run.c ---- */
/* Prepares a call: queues its modules for compilation. *scratch: the bytes of scratch memory that
** it needs; -1: it runs on the host. */
flame_status fl_cuda_call_prepare(fl_cuda *s, const fl_call *c, int64_t *scratch);
/* Runs a call. text (FL_CALL_FAULT bytes) says what is wrong with the values, for example that a
** matrix is singular; it is empty if nothing is wrong. */
flame_status fl_cuda_call_run(fl_cuda *s, const fl_call_step *t, const fl_binding *b, char *text);
#endif
