/*
** Calls on a CUDA device: what call_<family>.c files build on. Functions queue work in the
** device's stream; the driver context is current. A call that has to know values of the
** device (a status of a factorisation) waits with fl_cuda_wait_all.
*/
#ifndef FL_CUDA_CALL_H
#define FL_CUDA_CALL_H
#include "cuda/compile/module.h"

/* The call over the host, for a function that finds at run time that it can not. */
flame_status fl_cuda_call_host(fl_cuda *s, const fl_call_run *r);

/* Bytes of shared memory that a block can have. */
int64_t fl_cuda_shared_limit(const fl_cuda *s);

/* Arguments as cuLaunchKernel has them; results get the contents that they have before. */
flame_status fl_cuda_bind(fl_cuda *s, const fl_call_run *r, fl_cu_ptr *pointer, void **param);
/* call_checked.c: k->checked instead of k, to its end. */
flame_status fl_cuda_call_checked(fl_cuda *s, const struct fl_kfunction *k, const fl_call_run *r);

/* What a late report says (driver/state.h), as an error (call_count.c). */
flame_status fl_cuda_weights_fault(fl_cuda *s, uint64_t word);

/* ---- call.c, for run.c ---- */
/* Make ready: queue modules and see that there is scratch. *scratch: bytes; -1: on the host. */
flame_status fl_cuda_call_prepare(fl_cuda *s, const fl_call *c, int64_t *scratch);
/* text (FL_CALL_FAULT bytes): what is bad about the values, or empty. */
flame_status fl_cuda_call_run(fl_cuda *s, const fl_call_step *t, const fl_binding *b, char *text);
#endif
